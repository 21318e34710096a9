"""Rules on flows: loops whose condition nothing inside can change, and too many rounds."""

from collections.abc import Iterable, Iterator

from weft.checker.agents import is_tied
from weft.checker.functions import keys_of
from weft.checker.near import meant
from weft.checker.sites import Record
from weft.checker.writes import Writes, may_write_anything
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
)
from weft.declare.walk import agents_of, walk_nodes
from weft.diagnostics import Diagnostic, Origin


def loop_without_exit(record: Record) -> Iterator[Diagnostic]:
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
            _meant(keys, writes.of(loop.body))
            or "write the key in the loop, or loop a fixed number of times: flow * 3",
        )


def _meant(keys: Iterable[str], written: Iterable[str]) -> str:
    """A hint with the key that is written in the loop, where the one asked for is misspelt."""
    known = [*written]
    return next((hint for key in sorted(keys) if (hint := meant(key, known))), "")


def _touched(body: Node) -> set[str]:
    """The keys whose values a step may change in place, or take away."""
    found: set[str] = set()
    for node, _ in walk_nodes(body):
        if isinstance(node, Step):
            keys = keys_of(node.function)
            found |= keys.touches | keys.drops | keys.may_drop | {*node.drops}
            found |= {old for old, _ in node.renames}
    return found


def too_many_calls(record: Record) -> Iterator[Diagnostic]:
    """A loop that asks models more often than a run may, whichever way is taken through it."""
    calls = _Calls()
    most = RunConfig().max_llm_calls
    if calls.of(record.root) <= most:
        return
    node: Node = record.root
    while True:  # down to the part that alone is too much
        inner = (
            [child for child in node.children if calls.of(child) > most]
            if not isinstance(node, Agent)
            else []
        )
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


class _Calls:
    """How often models are asked at least, in each node of a flow, worked out once."""

    def __init__(self) -> None:
        self._known: dict[int, int] = {}
        self._leaves: dict[int, bool] = {}

    def of(self, node: Node) -> int:
        """The least number of calls in one run of a node."""
        known = self._known.get(id(node))
        if known is None:
            known = self._known[id(node)] = self._least(node)
        return known

    def _least(self, node: Node) -> int:
        match node:
            case Agent():  # a callback may answer in the model's place
                return 0 if node.before_agent or node.before_model else 1
            case Sequence() | Parallel():
                total = sum(map(self.of, node.children))
                collects = isinstance(node, Parallel) and node.on_error == "collect"
                return 0 if collects else total
            case Fallback() | Race():
                return min(map(self.of, node.children))
            case Route():
                return min(map(self.of, node.children)) if node.default is not None else 0
            case Loop():
                rounds = 1 if node.until is not None or self._may_leave(node.body) else node.max
                return 0 if node.while_ is not None else rounds * self.of(node.body)
            case Timeout():
                return self.of(node.body)
            case _:
                return 0

    def _may_leave(self, node: Node) -> bool:
        """Whether somebody in it may end the loop around it."""
        known = self._leaves.get(id(node))
        if known is None:
            if isinstance(node, Agent):
                known = any(not is_tied(agent) for agent in agents_of(node))
            else:
                known = any(map(self._may_leave, node.children))
            self._leaves[id(node)] = known
        return known
