"""Rules on routes: impossible cases, unreachable cases, and values without a case."""

from collections.abc import Iterable, Iterator
from itertools import pairwise
from typing import cast

from weft.checker.agents import route_reads
from weft.checker.schemas import follow, is_within, items_of, kind_of, may_lack, values_of
from weft.checker.world import Fact, WalkRecord, World
from weft.codes import report
from weft.declare import Route
from weft.declare.compare import Comparison, Incomparable, holds, quoted, same
from weft.declare.route import Case
from weft.diagnostics import Diagnostic, Origin, Severity
from weft.errors import with_article
from weft.misuse import meant
from weft.values import Json, JsonObject

_ORDERS = ("gt", "gte", "lt", "lte")

_OVER: dict[str, Comparison] = {"gt": "gte", "gte": "gt", "eq": "gt"}
_UNDER: dict[str, Comparison] = {"lt": "lte", "lte": "lt", "eq": "lt"}
"""By the comparison of a case: what its number is to the greatest or least where it never holds."""


def impossible_case(record: WalkRecord) -> Iterator[Diagnostic]:
    """Cases for a value that the schema of whoever writes the key does not allow."""
    for node, fact, shape in _decided(record):
        values = values_of(shape)
        for case in node.cases:
            if case.op == "when":
                continue
            items = items_of(shape) if case.op == "contains" else None
            if values is not None:
                yield from _listed(node, case, fact, values)
            elif items is not None:
                yield from _element(node, case, fact, items)
            else:
                yield from _typed(node, case, fact, kind_of(shape))
                yield from _bounded(node, case, fact, shape)


def _decided(record: WalkRecord) -> Iterator[tuple[Route, Fact, JsonObject | None]]:
    """Every route on a key that somebody writes, with the shape of what it looks at."""
    for node, world in record.routes:
        known = _looked_at(node, world)
        if known is not None:
            yield node, *known


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
            meant(str(case.value), map(str, values), quote='"') or "use one of those",
        )


def _element(node: Route, case: Case, fact: Fact, items: list[Json]) -> Iterator[Diagnostic]:
    """A case against the values that the elements of a list can have."""
    if not any(same(case.value, one) for one in items):
        named = ", ".join(quoted(one) for one in items)
        yield report(
            "WEFT403",
            _place(node, case),
            f"{case.label} never holds: `{fact.writers[-1].name}` writes a list of {named}",
            meant(str(case.value), map(str, items), quote='"') or "use one of those",
        )


def _typed(node: Route, case: Case, fact: Fact, kind: str) -> Iterator[Diagnostic]:
    """A case against the type of what is written."""
    wanted = _kind(case.value)
    written = "number" if kind == "integer" else kind
    if not written or not wanted:
        return
    who = f"`{fact.writers[-1].name}` writes {_a(written)}"
    match case.op:
        case "gt" | "gte" | "lt" | "lte":
            if written != wanted:
                yield _misfit(node, case, f"{_a(written)} has no order with {_a(wanted)}: {who}")
        case "contains":
            if written in ("number", "boolean") or (written == "string" and wanted != "string"):
                yield _misfit(node, case, f"{_a(written)} cannot contain {_a(wanted)}: {who}")
        case _:
            if written != wanted:
                yield report(
                    "WEFT403",
                    _place(node, case),
                    f"{case.label} {'never' if case.op == 'eq' else 'always'} holds: {who},"
                    f" and this is {_a(wanted)}",
                    "compare with a value of that type, or give the writer an output_schema",
                )


def _bounded(node: Route, case: Case, fact: Fact, shape: JsonObject | None) -> Iterator[Diagnostic]:
    """A case against the least and the greatest number that there can be."""
    value = case.value
    if shape is None or _kind(value) != "number":
        return
    ends: list[tuple[Json, str, Comparison | None]] = [
        (shape.get("maximum"), "at most", _OVER.get(case.op)),
        (shape.get("minimum"), "at least", _UNDER.get(case.op)),
    ]
    for end, how, beyond in ends:
        if beyond is not None and _kind(end) == "number" and holds(beyond, value, end):
            yield report(
                "WEFT403",
                _place(node, case),
                f"{case.label} never holds: `{fact.writers[-1].name}` writes {how} {quoted(end)}",
                "use a number that there can be",
            )


def _misfit(node: Route, case: Case, why: str) -> Diagnostic:
    return report(
        "WEFT109",
        _place(node, case),
        f"{case.label} cannot be decided: {why}",
        "let the agent that writes it return the right type: agent @ Schema",
    )


def shadowed_case(record: WalkRecord) -> Iterator[Diagnostic]:
    """Cases that are never come to, because one before them always holds too."""
    for node, world in record.routes:
        known = _looked_at(node, world)
        kind = kind_of(known[1]) if known is not None else ""
        wide: list[Case] = []  # `eq` covers no other: no value stands twice
        for case in node.cases:
            before = next((one for one in wide if _covers(one, case, kind)), None)
            if case.op != "eq":
                wide.append(case)
            if before is not None:
                yield report(
                    "WEFT401",
                    _place(node, case),
                    f"{case.label} is never come to: {before.label} before it holds whenever it"
                    " would",
                    "put the narrower case first, or leave it out",
                )


def uncovered_value(record: WalkRecord) -> Iterator[Diagnostic]:
    """Values that a route without `otherwise` has no case for."""
    for node, fact, shape in _decided(record):
        if node.default is not None or any(case.op == "when" for case in node.cases):
            continue
        values = values_of(shape)
        if values is None:
            values = [*_tried(node.cases, shape)]
        uncovered = [
            quoted(one) for one in values if not any(_fits(case, one) for case in node.cases)
        ]
        if any(may_lack(fact.schema, read.path) for read in route_reads(node)):
            uncovered.append("nothing")
        if uncovered:
            yield report(
                "WEFT402",
                Origin("field", "key", node.name),
                f"`{fact.writers[-1].name}` may write {' or '.join(uncovered)},"
                " and no case of the route holds then",
                "add a case, or .otherwise(agent)",
            )


def _tried(cases: Iterable[Case], shape: JsonObject | None) -> list[Json]:
    """Numbers that show a gap between cases that ask for more or less; none for other cases."""
    cases = [*cases]
    kind = kind_of(shape)
    if kind not in ("integer", "number") or any(case.op not in _ORDERS for case in cases):
        return []
    ends = [(shape or {}).get(end) for end in ("minimum", "maximum")]
    named = [one for one in (*ends, *(case.value for case in cases)) if _kind(one) == "number"]
    numbers = sorted(cast("list[float]", named))
    # a gap shows at the edges of the cases, or between two of them
    tried = [one + by for one in numbers for by in (-1, 0, 1)]
    if kind == "number":
        tried += [(one + other) / 2 for one, other in pairwise(numbers)]
    return [one for one in dict.fromkeys(tried) if is_within(one, shape)]


def covered_default(record: WalkRecord) -> Iterator[Diagnostic]:
    """An `otherwise` that no value leads to."""
    for node, fact, shape in _decided(record):
        values = values_of(shape)
        if node.default is None or not values or not fact.must:
            continue
        # null comes to `otherwise`
        if any(may_lack(fact.schema, read.path) for read in route_reads(node)):
            continue
        # what a function says is not known before a run
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


def _covers(first: Case, second: Case, kind: str) -> bool:
    """Whether the first case holds for every value of this kind that the second holds for."""
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
            texts = kind == "string" and isinstance(one, str) and isinstance(two, str)
            return texts and holds("contains", two, one)  # a list has words, not parts of them
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
    return words.get(kind, with_article(kind))
