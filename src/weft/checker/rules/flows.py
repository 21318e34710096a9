"""Rules on flows: loops that cannot end early, too many model calls, dead transfers, and routes.

A case or a comparison may be impossible, never come to, or lacking for a value.
"""

from collections.abc import Iterable, Iterator
from itertools import pairwise
from typing import NamedTuple, TypeGuard, cast

from weft.checker.agents import Writes, is_tied, may_write_anything, route_reads, tool_choice
from weft.checker.functions import keys_of
from weft.checker.keys import KeyComparison
from weft.checker.schemas import (
    follow,
    is_within,
    items_of,
    kind_of,
    may_lack,
    spell_kind,
    values_of,
)
from weft.checker.world import Fact, Read, WalkRecord, World
from weft.declare import (
    Agent,
    Fallback,
    Loop,
    Node,
    Parallel,
    Race,
    Route,
    RunConfig,
    Sequence,
    Step,
    Timeout,
)
from weft.declare.agent import agents_of, children, find_path, walk_nodes, walk_tree
from weft.declare.route import Case, Comparison, Incomparable, holds, quote_value, same
from weft.declare.template import spell_path
from weft.declare.visit import DefaultVisitor, every_node, show
from weft.diagnostics import Diagnostic, Origin, Severity, report
from weft.late import late_pattern
from weft.misuse import suggest_names
from weft.values import Json, JsonObject


def loop_without_exit(record: WalkRecord) -> Iterator[Diagnostic]:
    """A loop that always takes all its rounds: nothing in it writes what its condition asks."""
    tools = (tool for agent in record.survey.agents for tool in agent.tools)
    if any(_LEAVING.fullmatch(tool.name) for tool in tools):
        for node in every_node(record.survey.root):
            if isinstance(node, Loop) and node.until is None and node.while_ is None:
                yield from _feigned_exits(node)
    seen: set[int] = set()
    writes = Writes()
    for site in record.sites:
        loop = site.node
        if not isinstance(loop, Loop) or id(loop) in seen:
            continue
        seen.add(id(loop))
        predicate = loop.until if loop.until is not None else loop.while_
        if predicate is None:
            continue
        asked = keys_of(predicate)
        keys = asked.reads | asked.optional | asked.guarded
        # what cannot be seen may end the loop
        if not asked.reads_all or not keys or may_write_anything(loop.body):
            continue
        if not keys.isdisjoint(writes.of(loop.body)) or not keys.isdisjoint(
            _touched_keys(loop.body)
        ):
            continue
        yield report(
            "WEFT404",
            Origin("field", "until" if loop.until is not None else "while_", loop.name),
            f"nothing in the loop writes {' or '.join(f'`{key}`' for key in sorted(keys))}, so"
            f" {'it always takes' if loop.until is not None else 'it takes none or'}"
            f" {loop.max} rounds",
            _misspelt_key(keys, writes.of(loop.body))
            or "write the key in the loop, or loop a fixed number of times: flow * 3",
        )


_LEAVING = late_pattern(r"(?:exit|end|stop|leave|finish|break|quit)_?(?:the_)?loop|escalate")


def _feigned_exits(loop: Loop) -> Iterator[Diagnostic]:
    """Tools with the name of a way out of the loop that do not end it."""
    agents = agents_of(loop.body)
    if not all(map(is_tied, agents)):  # another one may end it
        return
    for agent in agents:
        for tool in agent.tools:
            if _LEAVING.fullmatch(tool.name):
                yield report(
                    "WEFT404",
                    Origin("tool", tool.name, agent.name),
                    f"the tool `{tool.name}` does not end the loop: its code never sets"
                    " `ctx.actions.escalate`",
                    "write ctx.actions.escalate = True in it, or from weft.tools import exit_loop",
                )


def _misspelt_key(keys: Iterable[str], written: Iterable[str]) -> str:
    """A hint with the key that is written in the loop, where the one asked for is misspelt."""
    known = [*written]
    return next((hint for key in sorted(keys) if (hint := suggest_names(key, known))), "")


def _touched_keys(body: Node) -> set[str]:
    """The keys whose values a step may change in place, or take away."""
    touched: set[str] = set()
    for node, _ in walk_nodes(body):
        if isinstance(node, Step):
            keys = keys_of(node.function)
            touched |= keys.touches | keys.drops | keys.may_drop | {*node.change.drops}
            touched |= {old for old, _ in node.change.renames}
    return touched


_MOST_CALLS = RunConfig().max_llm_calls
"""How often a run may ask models, unless it says otherwise."""


def too_many_calls(record: WalkRecord) -> Iterator[Diagnostic]:
    """A loop that asks models more often than a run may, whichever way is taken through it."""
    nodes, most = record.survey.nodes, _MOST_CALLS
    # only a loop runs a node more than once
    if len(nodes) <= most and not any(isinstance(node, Loop) for node, _ in nodes):
        return
    calls = _Calls()
    if calls.of(record.survey.root) <= most:
        return
    node: Node = record.survey.root
    while True:  # down to the part that alone is too much
        inner = [child for child in children(node) if calls.of(child) > most]
        if not inner:
            break
        node = inner[0]
    field = "max" if isinstance(node, Loop) else "name"
    yield report(
        "WEFT408",
        Origin("field", field, node.name),
        f"it asks models at least {calls.of(node)} times, and a run may do so {most} times",
        "loop fewer times, or until something holds, or allow more:"
        f" RunConfig(max_llm_calls={calls.of(node)})",
    )


class _Calls(DefaultVisitor[int]):
    """How often models are asked at least in one run of a node, worked out once for each."""

    def __init__(self) -> None:
        self._known: dict[int, int] = {}
        self._leaves: dict[int, bool] = {}

    def of(self, node: Node) -> int:
        """The least number of calls in one run of a node."""
        known = self._known.get(id(node))
        if known is None:
            known = self._known[id(node)] = self.visit(node)
        return known

    def visit_other(self, node: Node) -> int:
        return 0

    def visit_agent(self, node: Agent) -> int:
        return 0 if node.before_agent or node.before_model else 1  # a callback may answer instead

    def visit_sequence(self, node: Sequence) -> int:
        return sum(map(self.of, node.steps))

    def visit_parallel(self, node: Parallel) -> int:
        return 0 if node.on_error == "collect" else sum(map(self.of, node.branches))

    def visit_fallback(self, node: Fallback) -> int:
        return min(map(self.of, node.choices))

    def visit_race(self, node: Race) -> int:
        return min(map(self.of, node.branches))

    def visit_route(self, node: Route) -> int:
        return min(map(self.of, node.children)) if node.default is not None else 0

    def visit_loop(self, node: Loop) -> int:
        if node.while_ is not None:
            return 0
        # at least: the condition may hold after the first round
        rounds = 1 if node.until is not None or self._may_leave(node.body) else node.max
        return rounds * self.of(node.body)

    def visit_timeout(self, node: Timeout) -> int:
        return self.of(node.body)

    def _may_leave(self, node: Node) -> bool:
        """Whether somebody in it may end the loop around it."""
        known = self._leaves.get(id(node))
        if known is None:
            known = any(map(self._may_leave, children(node)))
            if isinstance(node, Agent):
                known = any(not is_tied(agent) for agent in agents_of(node))
            self._leaves[id(node)] = known
        return known


def unreachable(record: WalkRecord) -> Iterator[Diagnostic]:
    """Sub-agents of an agent that may not call the tool that hands over."""
    bound = [agent for agent in record.visited_agents if agent.sub_agents and tool_choice(agent)]
    if not bound:
        return
    from weft.compiler.tools import TRANSFER

    for agent in bound:
        if tool_choice(agent) not in ("auto", "any", "required", TRANSFER):
            names = ", ".join(f"`{child.name}`" for child in agent.sub_agents)
            yield report(
                "WEFT406",
                Origin("field", "sub_agents", agent.name),
                f"nobody can hand over to {names}: tool_choice keeps `{agent.name}` from calling"
                f" {TRANSFER}",
                "leave tool_choice out, or leave out the sub-agents",
            )


def endless_transfer(record: WalkRecord) -> Iterator[Diagnostic]:
    """Agents that must hand over, to agents that must do so too."""
    agents = record.visited_agents
    if not any(map(tool_choice, agents)):
        return
    from weft.compiler.tools import TRANSFER, transfer_targets

    for root in agents:
        for node, _ in walk_tree(root):
            if not isinstance(node, Agent) or tool_choice(node) != TRANSFER:
                continue
            path = tuple(one for one in find_path(root, node.name) if isinstance(one, Agent))
            targets = transfer_targets(path)
            forced = [
                one for one in targets if isinstance(one, Agent) and tool_choice(one) == TRANSFER
            ]
            if targets and len(forced) == len(targets):
                names = ", ".join(f"`{one.name}`" for one in forced)
                yield report(
                    "WEFT407",
                    Origin("field", "generate_config", node.name),
                    f"`{node.name}` can only hand over, and so can all it hands over to: {names}",
                    "let one of them answer: leave tool_choice out",
                )


def likely_precedence(record: WalkRecord) -> Iterator[Diagnostic]:
    """A branch of several steps, of which one reads what a parallel branch writes.

    At the end of the last branch it was meant to come after them all; where another branch
    reads what the beginning of the first writes, that was meant to stand before them all; or both.
    """
    for node, index, reads in record.siblings:
        # with a name of its own it was not just written with `|`
        if node.name != "parallel":
            continue
        meant = _with_parentheses(node, index, reads)
        if meant:
            yield report(
                "WEFT405",
                Origin("field", "branches", node.name),
                f"`>>` binds tighter than `|`: this is {show(node)}, and a branch reads what"
                " another writes",
                f"write {meant}",
            )


def _with_parentheses(node: Parallel, index: int, reads: tuple[Read, ...]) -> str:
    """The flow that was meant, if a pair of parentheses makes it right."""
    branches = node.branches
    last, first = branches[-1], branches[0]
    heads = _keys_before_last(first)
    if index == len(branches) - 1 and _is_plain(last):
        inner = _names(last.steps[0])
        early = [read for read in reads if (read.origin.agent or read.origin.name) in inner]
        if not early:
            meant = [show(one) for one in (*branches[:-1], last.steps[0])]
            return f"({' | '.join(meant)}) >> {_chain(last.steps[1:])}"
        if len(early) < len(reads) and _is_plain(first) and all(r.key in heads for r in early):
            meant = [show(one) for one in (first.steps[-1], *branches[1:-1], last.steps[0])]
            before, after = _chain(first.steps[:-1]), _chain(last.steps[1:])
            return f"{before} >> ({' | '.join(meant)}) >> {after}"
    if index > 0 and _is_plain(first) and all(read.key in heads for read in reads):
        tails = [show(one) for one in (first.steps[-1], *branches[1:])]
        return f"{_chain(first.steps[:-1])} >> ({' | '.join(tails)})"
    return ""


def _keys_before_last(node: Node) -> set[str]:
    """The keys that all steps of a branch but the last write."""
    writes = Writes()
    steps = node.steps[:-1] if _is_plain(node) else ()
    return {key for step in steps for key in writes.of(step)}


def _chain(steps: Iterable[Node]) -> str:
    return " >> ".join(show(one) for one in steps)


def _is_plain(node: Node) -> TypeGuard[Sequence]:
    """Whether it was written with `>>`, not given a name of its own."""
    return isinstance(node, Sequence) and node.name == "sequence"


def _names(node: Node) -> set[str]:
    agents = {agent.name for agent in agents_of(node)}
    return agents | {one.name for one, _ in walk_nodes(node)}


# --- routes

_ORDERS = ("gt", "gte", "lt", "lte")

_OVER: dict[str, Comparison] = {"gt": "gte", "gte": "gt", "eq": "gt"}
_UNDER: dict[str, Comparison] = {"lt": "lte", "lte": "lt", "eq": "lt"}
"""By the comparison of a case: what its number is to the greatest or least where it never holds."""


def impossible_case(record: WalkRecord) -> Iterator[Diagnostic]:
    """Cases for a value that the schema of whoever writes the key does not allow."""
    for node, fact, shape in _routes_on_written(record):
        values = values_of(shape)
        for case in node.cases:
            if case.op == "when":
                continue
            items = items_of(shape) if case.op == "contains" else None
            if values is not None:
                yield from _check_against_values(node, case, fact, values)
            elif items is not None:
                yield from _element(node, case, fact, items)
            else:
                yield from _check_against_type(node, case, fact, kind_of(shape))
                yield from _check_against_bounds(node, case, fact, shape)


def _routes_on_written(record: WalkRecord) -> Iterator[tuple[Route, Fact, JsonObject | None]]:
    """Every route on a key that somebody writes, with the shape of what it looks at."""
    for node, world in record.routes:
        known = _fact_and_shape(node, world)
        if known is not None:
            yield node, *known


def _fact_and_shape(node: Route, world: World) -> tuple[Fact, JsonObject | None] | None:
    for read in route_reads(node):
        fact = world.facts.get(read.key)
        if fact is not None:
            shape, _ = follow(fact.schema, read.path)
            return fact, shape
    return None


def _check_against_values(
    node: Route, case: Case, fact: Fact, values: list[Json]
) -> Iterator[Diagnostic]:
    """A case against the values that there can be."""
    named = ", ".join(quote_value(value) for value in values)
    who = f"`{fact.writers[-1].name}` writes one of {named}"
    if case.op in ("eq", "ne"):
        if any(same(case.value, value) for value in values):
            return
        yield report(
            "WEFT403",
            _place(node, case),
            f"{case.label} {'never' if case.op == 'eq' else 'always'} holds: {who}",
            suggest_names(str(case.value), map(str, values), quote='"') or "use one of those",
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
            suggest_names(str(case.value), map(str, values), quote='"') or "use one of those",
        )


def _element(node: Route, case: Case, fact: Fact, items: list[Json]) -> Iterator[Diagnostic]:
    """A case against the values that the elements of a list can have."""
    if not any(same(case.value, one) for one in items):
        named = ", ".join(quote_value(one) for one in items)
        yield report(
            "WEFT403",
            _place(node, case),
            f"{case.label} never holds: `{fact.writers[-1].name}` writes a list of {named}",
            suggest_names(str(case.value), map(str, items), quote='"') or "use one of those",
        )


def _check_against_type(node: Route, case: Case, fact: Fact, kind: str) -> Iterator[Diagnostic]:
    """A case against the type of what is written."""
    wanted = _kind(case.value)
    written = "number" if kind == "integer" else kind
    if not written or not wanted:
        return
    who = f"`{fact.writers[-1].name}` writes {spell_kind(written)}"
    match case.op:
        case "gt" | "gte" | "lt" | "lte":
            if written != wanted:
                yield _misfit(
                    node,
                    case,
                    f"{spell_kind(written)} has no order with {spell_kind(wanted)}: {who}",
                )
        case "contains":
            if written in ("number", "boolean") or (written == "string" and wanted != "string"):
                yield _misfit(
                    node, case, f"{spell_kind(written)} cannot contain {spell_kind(wanted)}: {who}"
                )
        case _:
            if written != wanted:
                yield report(
                    "WEFT403",
                    _place(node, case),
                    f"{case.label} {'never' if case.op == 'eq' else 'always'} holds: {who},"
                    f" and this is {spell_kind(wanted)}",
                    "compare with a value of that type, or give the writer an output_schema",
                )


def _check_against_bounds(
    node: Route, case: Case, fact: Fact, shape: JsonObject | None
) -> Iterator[Diagnostic]:
    """A case against the least and the greatest number that there can be."""
    value = case.value
    if shape is None or _kind(value) != "number":
        return
    ends: list[tuple[Json, str, Comparison | None]] = [
        (shape.get("maximum"), "at most", _OVER.get(case.op)),
        (shape.get("minimum"), "at least", _UNDER.get(case.op)),
    ]
    writer = fact.writers[-1].name
    for end, how, beyond in ends:
        if beyond is not None and _kind(end) == "number" and holds(beyond, value, end):
            yield report(
                "WEFT403",
                _place(node, case),
                f"{case.label} never holds: `{writer}` writes {how} {quote_value(end)}",
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
    """Cases that never decide, because an earlier case always holds too."""
    for node, world in record.routes:
        known = _fact_and_shape(node, world)
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
    for node, fact, shape in _routes_on_written(record):
        if node.default is not None or any(case.op == "when" for case in node.cases):
            continue
        values = values_of(shape)
        if values is None:
            values = [*_numbers_to_try(node.cases, shape)]
        uncovered = [
            quote_value(one) for one in values if not any(_fits(case, one) for case in node.cases)
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


def _numbers_to_try(cases: Iterable[Case], shape: JsonObject | None) -> list[Json]:
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
    for node, fact, shape in _routes_on_written(record):
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


# --- comparisons in functions


def vain_comparison(record: WalkRecord) -> Iterator[Diagnostic]:
    """A comparison with a value that the writer of the key never writes."""
    for site in record.sites:
        if site.world.opaque:
            continue  # other code may write other values
        for read in site.reads:
            fact = site.world.facts.get(read.key) if read.compared else None
            shape, problem = follow(fact.schema, read.path) if fact is not None else (None, "x")
            if fact is None or problem:
                continue
            for one in read.compared:
                vain = _in_vain(one, shape)
                if vain is not None:
                    who = f"`{fact.writers[-1].name}` writes {vain.known}"
                    named = str(one.values[0])
                    yield report(
                        "WEFT403",
                        read.origin,
                        f"{_spell_comparison(one)} {vain.outcome} holds: {who}",
                        suggest_names(named, vain.names, quote='"')
                        or "compare with what it writes",
                    )


class _Vain(NamedTuple):
    """A comparison that always comes out the same: how, and which values there really are."""

    outcome: str
    known: str
    names: list[str]


def _in_vain(one: KeyComparison, shape: JsonObject | None) -> _Vain | None:
    """The mistake in a comparison, judged by the values or the type that are written."""
    outcome = "always" if one.operator in ("ne", "not in") else "never"
    listed = items_of(shape) if one.operator == "contains" else values_of(shape)
    if listed is not None:
        there = [*listed, *one.spare]
        # as Python compares: letter case counts there
        if any(value == other for value in one.values for other in there):
            return None
        kind = "a list of" if one.operator == "contains" else "one of"
        named = ", ".join(quote_value(value) for value in listed)
        return _Vain(outcome, f"{kind} {named}", [str(value) for value in listed])
    if one.operator == "contains":
        words = values_of(shape)
        texts = [word for word in words or () if isinstance(word, str)]
        if words is None or len(texts) < len(words):
            return None
        if any(
            str(value) in text for value in one.values for text in (*texts, *map(str, one.spare))
        ):
            return None
        return _Vain(outcome, f"one of {', '.join(map(quote_value, texts))}", texts)
    kind = kind_of(shape)
    wanted = {_kind(value) for value in (*one.values, *one.spare)}
    plain = "number" if kind == "integer" else kind
    if plain not in ("string", "number", "boolean") or plain in wanted:
        return None
    if plain == "number" and "boolean" in wanted:
        return None  # True == 1
    return _Vain(outcome, spell_kind(plain), [])


def _spell_comparison(one: KeyComparison) -> str:
    """The comparison as its author wrote it, or nearly so."""
    name = spell_path(one.key, one.path)
    values = ", ".join(quote_value(value) for value in one.values)
    match one.operator:
        case "eq":
            return f"`{name} == {values}`"
        case "ne":
            return f"`{name} != {values}`"
        case "contains":
            return f"`{values} in {name}`"
        case _:
            return f"`{name} {one.operator} ({values})`"
