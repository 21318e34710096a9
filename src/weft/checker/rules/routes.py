"""Rules on routes: labels that cannot occur, cases never come to, values that lead nowhere."""

from collections.abc import Iterator

from weft.checker.near import meant
from weft.checker.schemas import follow, kind_of, values_of
from weft.checker.shapes import route_reads
from weft.checker.sites import Record
from weft.checker.world import Fact, World
from weft.codes import report
from weft.declare import Route
from weft.declare.compare import Incomparable, holds, quoted, same
from weft.declare.route import Case
from weft.diagnostics import Diagnostic, Origin, Severity
from weft.values import Json, JsonObject


def impossible_case(record: Record) -> Iterator[Diagnostic]:
    """Cases for a value that the schema of whoever writes the key does not allow."""
    for node, fact, shape in _decided(record):
        values = values_of(shape)
        for case in node.cases:
            if case.op == "when":
                continue
            if values is not None:
                yield from _listed(node, case, fact, values)
            else:
                yield from _typed(node, case, fact, kind_of(shape))


def _decided(record: Record) -> Iterator[tuple[Route, Fact, JsonObject | None]]:
    """Every route on a key that somebody writes, with the shape of what it looks at."""
    for node, world in record.routes:
        found = _looked_at(node, world)
        if found is not None:
            yield node, *found


def _looked_at(node: Route, world: World) -> tuple[Fact, JsonObject | None] | None:
    for read in route_reads(node):
        fact = world.facts.get(read.key)
        if fact is not None:
            shape, _ = follow(fact.schema, read.path)
            return fact, shape
    return None


def _listed(node: Route, case: Case, fact: Fact, values: list[Json]) -> Iterator[Diagnostic]:
    """A case against the values that there can be."""
    named = ", ".join(quoted(value) for value in values)
    who = f"`{fact.writers[-1].name}` writes one of {named}"
    if case.op in ("eq", "ne"):
        if any(same(case.value, value) for value in values):
            return
        yield report(
            "WEFT403",
            _place(node, case),
            f"{case.label} {'never' if case.op == 'eq' else 'always'} holds: {who}",
            meant(str(case.value), map(str, values), quote='"') or "use one of those",
        )
        return
    answers: set[bool] = set()
    for value in values:
        try:
            answers.add(bool(_holds(case, value)))
        except Incomparable as error:
            yield _misfit(node, case, f"{error}: {who}")
            return
    if answers == {False}:
        yield report(
            "WEFT403",
            _place(node, case),
            f"{case.label} never holds: {who}",
            "use one of those",
        )


def _typed(node: Route, case: Case, fact: Fact, kind: str) -> Iterator[Diagnostic]:
    """A case against the type of what is written."""
    wanted = _kind(case.value)
    found = "number" if kind == "integer" else kind
    if not found or not wanted:
        return
    who = f"`{fact.writers[-1].name}` writes {_a(found)}"
    match case.op:
        case "gt" | "gte" | "lt" | "lte":
            if found != wanted:
                yield _misfit(node, case, f"{_a(found)} has no order with {_a(wanted)}: {who}")
        case "contains":
            if found in ("number", "boolean") or (found == "string" and wanted != "string"):
                yield _misfit(node, case, f"{_a(found)} cannot contain {_a(wanted)}: {who}")
        case _:
            if found != wanted:
                yield report(
                    "WEFT403",
                    _place(node, case),
                    f"{case.label} {'never' if case.op == 'eq' else 'always'} holds: {who},"
                    f" and this is {_a(wanted)}",
                    "compare with a value of that type, or give the writer an output_schema",
                )


def _misfit(node: Route, case: Case, why: str) -> Diagnostic:
    return report(
        "WEFT109",
        _place(node, case),
        f"{case.label} cannot be decided: {why}",
        "let the agent that writes it return the right type: agent @ Schema",
    )


def shadowed_case(record: Record) -> Iterator[Diagnostic]:
    """Cases that are never come to, because one before them always holds too."""
    for node, _ in record.routes:
        for index, case in enumerate(node.cases):
            before = next((one for one in node.cases[:index] if _covers(one, case)), None)
            if before is not None:
                yield report(
                    "WEFT401",
                    _place(node, case),
                    f"{case.label} is never come to: {before.label} before it holds whenever it"
                    " would",
                    "put the narrower case first, or leave it out",
                )


def uncovered_value(record: Record) -> Iterator[Diagnostic]:
    """Values that a route without `otherwise` has no case for."""
    for node, fact, shape in _decided(record):
        values = values_of(shape)
        if node.default is not None or values is None:
            continue
        if any(case.op == "when" for case in node.cases):
            continue
        left = [value for value in values if not any(_fits(case, value) for case in node.cases)]
        if left:
            yield report(
                "WEFT402",
                Origin("field", "key", node.name),
                f"`{fact.writers[-1].name}` may write {' or '.join(quoted(one) for one in left)},"
                " and no case of the route holds then",
                "add a case, or .otherwise(agent)",
            )


def covered_default(record: Record) -> Iterator[Diagnostic]:
    """An `otherwise` that no value leads to."""
    for node, fact, shape in _decided(record):
        values = values_of(shape)
        if node.default is None or not values or not fact.must:
            continue
        if any(case.op == "when" for case in node.cases):
            continue
        if all(any(_fits(case, value) for case in node.cases) for value in values):
            yield report(
                "WEFT401",
                Origin("field", "otherwise", node.name),
                f"`otherwise` is never come to: the cases hold for all that"
                f" `{fact.writers[-1].name}` writes",
                "leave it out, or keep it for what may come",
                severity=Severity.INFO,
            )


def _fits(case: Case, value: Json) -> bool:
    try:
        return _holds(case, value)
    except Incomparable:
        return True  # said elsewhere


def _holds(case: Case, value: Json) -> bool:
    assert case.op != "when"
    return holds(case.op, value, case.value)


def _covers(first: Case, second: Case) -> bool:
    """Whether the first case holds for every value that the second holds for."""
    if "when" in (first.op, second.op):
        return False
    one, two = first.value, second.value
    lower, upper = ("gt", "gte"), ("lt", "lte")
    try:
        if second.op == "eq":
            return _holds(first, two)
        if first.op == "ne":
            return second.op == "ne" and same(one, two)
        if first.op == second.op == "contains":
            return isinstance(one, str) and isinstance(two, str) and holds("contains", two, one)
        if first.op in lower and second.op in lower:
            same_kind = first.op == "gte" or second.op == "gt"
            return holds("gte" if same_kind else "gt", two, one)
        if first.op in upper and second.op in upper:
            same_kind = first.op == "lte" or second.op == "lt"
            return holds("lte" if same_kind else "lt", two, one)
    except Incomparable:
        return False
    return False


def _place(node: Route, case: Case) -> Origin:
    return Origin("field", case.label, node.name)


def _kind(value: Json) -> str:
    if isinstance(value, bool):
        return "boolean"
    if isinstance(value, int | float):
        return "number"
    return "string" if isinstance(value, str) else ""


def _a(kind: str) -> str:
    words = {"string": "text", "array": "a list", "object": "an object", "boolean": "a truth value"}
    return words.get(kind, f"a {kind}")
