"""Rules on flows: loops that cannot end early, too many model calls, and dead transfers."""

from collections.abc import Iterable, Iterator
from typing import TypeGuard

from weft.checker.agents import Writes, is_tied, may_write_anything, tool_choice
from weft.checker.functions import keys_of
from weft.checker.world import Read, WalkRecord
from weft.codes import report
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
    tree,
)
from weft.declare.nodes import agents_of, children, walk_nodes
from weft.declare.show import show
from weft.declare.visit import DefaultVisitor
from weft.diagnostics import Diagnostic, Origin
from weft.misuse import meant


def loop_without_exit(record: WalkRecord) -> Iterator[Diagnostic]:
    """A loop that ends only because its rounds are counted: nothing in it writes what it asks."""
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
        if not keys.isdisjoint(writes.of(loop.body)) or not keys.isdisjoint(_touched(loop.body)):
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


def _misspelt_key(keys: Iterable[str], written: Iterable[str]) -> str:
    """A hint with the key that is written in the loop, where the one asked for is misspelt."""
    known = [*written]
    return next((hint for key in sorted(keys) if (hint := meant(key, known))), "")


def _touched(body: Node) -> set[str]:
    """The keys whose values a step may change in place, or take away."""
    touched: set[str] = set()
    for node, _ in walk_nodes(body):
        if isinstance(node, Step):
            keys = keys_of(node.function)
            touched |= keys.touches | keys.drops | keys.may_drop | {*node.drops}
            touched |= {old for old, _ in node.renames}
    return touched


_MOST_CALLS = RunConfig().max_llm_calls
"""How often a run may ask models, unless it says otherwise."""


def too_many_calls(record: WalkRecord) -> Iterator[Diagnostic]:
    """A loop that asks models more often than a run may, whichever way is taken through it."""
    calls = _Calls()
    most = _MOST_CALLS
    if calls.of(record.root) <= most:
        return
    node: Node = record.root
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
    bound = [agent for agent in record.visited if agent.sub_agents and tool_choice(agent)]
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
    agents = record.visited
    if not any(map(tool_choice, agents)):
        return
    from weft.compiler.tools import TRANSFER, transfer_targets

    for root in agents:
        for node, _ in tree.walk(root):
            if not isinstance(node, Agent) or tool_choice(node) != TRANSFER:
                continue
            path = tuple(one for one in tree.find(root, node.name) if isinstance(one, Agent))
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
    """A branch of several steps, of which one reads what a branch beside it writes.

    At the end of the last branch it was meant to stand behind them all; where another branch
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
            before, behind = _chain(first.steps[:-1]), _chain(last.steps[1:])
            return f"{before} >> ({' | '.join(meant)}) >> {behind}"
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
