"""Paths through a flow: those on which nobody writes a key, and branches that are at odds.

Of branches that run at once, two may write one key, or one may remove what another reads.
"""

from collections.abc import Iterable, Iterator
from typing import NamedTuple

from weft.checker.agents import WritersByKey, Writes, may_escalate, step_writer
from weft.checker.functions import keys_of
from weft.checker.world import Read, Site, Writer
from weft.declare import Fallback, Loop, Map, Node, Parallel, Race, Route, Sequence, Step, Timeout
from weft.declare.agent import agents_of, children, nodes_below
from weft.declare.route import OTHERWISE
from weft.declare.visit import DefaultVisitor
from weft.session.event import scope_of

MOST = 3
"""How many paths are named."""


def paths_without(root: Node, reader: Node, key: str) -> list[str]:
    """The paths from the start to a node on which a key is not written, each in words."""
    paths = [*dict.fromkeys(_to(root, reader, key, Writes()))]
    more = len(paths) - MOST
    return [*paths[:MOST], f"on {more} more"] if more > 0 else paths


def _to(node: Node, reader: Node, key: str, writes: Writes) -> Iterator[str]:
    """The paths through all that comes before the reader, within a node that contains it."""
    if node is reader:
        if isinstance(node, Loop):  # its condition is asked after a round
            yield from _PathsThrough(key, writes).visit(node.body)
        return
    inner = next((one for one in nodes_below(node) if _contains(one, reader)), None)
    if inner is None:
        return
    if isinstance(node, Sequence):
        before = node.steps[: next(i for i, one in enumerate(node.steps) if one is inner)]
        yield from _PathsThrough(key, writes).all_of(before)
    if isinstance(node, Loop) and node.max > 1 and key in writes.of(node.body):
        yield f"in the first round of `{node.name}`"
    yield from _to(inner, reader, key, writes)


def _contains(node: Node, reader: Node) -> bool:
    return node is reader or any(_contains(one, reader) for one in nodes_below(node))


class _PathsThrough(DefaultVisitor[Iterator[str]]):
    """The paths through a node on which it does not write the key, each in words."""

    __slots__ = ("_key", "_writes")

    def __init__(self, key: str, writes: Writes) -> None:
        self._key = key
        self._writes = writes

    def all_of(self, nodes: Iterable[Node]) -> Iterator[str]:
        """The paths through nodes that all run; none where one of them surely writes the key."""
        paths: list[str] = []
        for node in nodes:
            if self._key in self._writes.of(node):
                lacking = [*self.visit(node)]
                if not lacking:
                    return
                paths += lacking
        yield from paths

    def _one_of(self, chosen: str, way: Node) -> Iterator[str]:
        """The paths through one of several ways."""
        if self._key in self._writes.of(way):
            yield from self.visit(way)
        else:
            yield f"through {chosen}, which runs `{way.name}`"

    def visit_other(self, node: Node) -> Iterator[str]:
        return iter(())

    def visit_sequence(self, node: Sequence) -> Iterator[str]:
        return self.all_of(node.steps)

    def visit_parallel(self, node: Parallel) -> Iterator[str]:
        return self.all_of(node.branches)

    def visit_timeout(self, node: Timeout) -> Iterator[str]:
        return self.visit(node.body)

    def visit_route(self, node: Route) -> Iterator[str]:
        labels = [*(case.label for case in node.cases), OTHERWISE]
        for label, way in zip(labels, node.children, strict=False):
            yield from self._one_of(f"`{node.name}.{label}`", way)
        if node.default is None:
            yield f"where no case of `{node.name}` holds"

    def visit_fallback(self, node: Fallback) -> Iterator[str]:
        for way in node.choices:
            yield from self._one_of(f"`{node.name}`", way)

    def visit_race(self, node: Race) -> Iterator[str]:
        for way in node.branches:
            yield from self._one_of(f"`{node.name}`", way)

    def visit_loop(self, node: Loop) -> Iterator[str]:
        if node.while_ is not None:
            yield f"where `{node.name}` takes no round"
        lacking = [*self.visit(node.body)]
        yield from lacking
        if not lacking:
            yield from self._left_early(node.body)

    def _left_early(self, body: Node) -> Iterator[str]:
        """Who may end the loop before the key is written."""
        steps = body.steps if isinstance(body, Sequence) else (body,)
        for step in steps:
            if self._key in self._writes.of(step):
                return
            for agent in agents_of(step):
                if may_escalate(agent):
                    yield f"where `{agent.name}` ends the loop before"

    def visit_step(self, node: Step) -> Iterator[str]:
        if node.change.maybe:
            yield f"where the condition of `{node.change}` does not hold"
        elif not node.writes and self._key in keys_of(node.function).maybe:
            yield f"on every path through `{node.name}`"


# --- branches that run at once


class RemovingSteps(NamedTuple):
    """The steps that remove keys, each with its own number and that of its branch."""

    named: dict[str, list[tuple[int, int, Step]]]
    """By key: the steps that name it."""
    keeping: list[tuple[int, int, Step]]
    """The steps that remove all keys but a few."""


def steps_that_remove(branches: tuple[Node, ...]) -> RemovingSteps:
    """The steps in these branches that remove keys."""
    removing = RemovingSteps({}, [])
    steps = (
        (index, step) for index, branch in enumerate(branches) for step in _removing_steps(branch)
    )
    for number, (index, step) in enumerate(steps):
        for key in dict.fromkeys((*step.change.drops, *(old for old, _ in step.change.renames))):
            removing.named.setdefault(key, []).append((number, index, step))
        if step.change.keeps is not None:
            removing.keeping.append((number, index, step))
    return removing


def removed_by_sibling(
    removing: RemovingSteps, index: int, sites: list[Site], own: WritersByKey
) -> Iterator[tuple[Read, Writer]]:
    """What a branch reads that was there before, and the step of a sibling that removes it."""
    # the usual case: no branch removes anything
    if not removing.named and not removing.keeping:
        return
    pairs: list[tuple[int, Read, Step]] = []
    for site in sites:
        for read in site.reads:
            # its own branch writes it, or it was not there before: a sibling takes nothing away
            if read.optional or read.key in own or read.key not in site.world.facts:
                continue
            steps = {
                number: step
                for number, at, step in (*removing.named.get(read.key, ()), *removing.keeping)
                if at != index and _removes(step, read.key)
            }
            pairs += [(number, read, step) for number, step in steps.items()]
    for _, read, step in sorted(pairs, key=lambda pair: pair[0]):
        yield read, step_writer(step)


class _RemovingStepsIn(DefaultVisitor[Iterator[Step]]):
    """The steps in a node that remove keys; what is inside a map stays there."""

    __slots__ = ()

    def visit_other(self, node: Node) -> Iterator[Step]:
        for child in children(node):
            yield from self.visit(child)

    def visit_step(self, node: Step) -> Iterator[Step]:
        change = node.change
        if change.drops or change.renames or change.keeps is not None:
            yield node

    def visit_map(self, node: Map) -> Iterator[Step]:
        return iter(())


_removing_steps = _RemovingStepsIn().visit


def _removes(step: Step, key: str) -> bool:
    """Whether a step removes a key."""
    change = step.change
    if key in change.drops or any(key == old for old, _ in change.renames):
        return True
    return change.keeps is not None and scope_of(key) == "session" and key not in change.keeps


def written_twice(wrote: Iterable[WritersByKey]) -> Iterator[tuple[str, tuple[Writer, ...]]]:
    """The keys that several branches write, and who does, unless it is the same code."""
    everyone: dict[str, list[Writer]] = {}
    for keys in wrote:
        for key, writers in keys.items():
            everyone.setdefault(key, []).append(writers[-1])
    for key, several in everyone.items():
        if len(several) > 1 and not _is_shared(several):
            yield key, tuple(dict.fromkeys(several))


def _is_shared(writers: list[Writer]) -> bool:
    """Whether one piece of code runs in all branches, and keeps what the last of them did."""
    names = {writer.name for writer in writers}
    return all(
        one.kind == "callback" or (one.kind == "code" and len(names) == 1) for one in writers
    )
