"""Conflicts between parallel branches: two write one key, or one removes what another reads."""

from collections.abc import Iterable, Iterator
from typing import NamedTuple

from weft.checker.agents import WritersByKey, step_writer
from weft.checker.world import Read, Site, Writer
from weft.declare import Map, Node, Step
from weft.declare.nodes import children
from weft.declare.visit import DefaultVisitor
from weft.session.event import scope_of


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
        for key in dict.fromkeys((*step.drops, *(old for old, _ in step.renames))):
            removing.named.setdefault(key, []).append((number, index, step))
        if step.keeps is not None:
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
        if node.drops or node.renames or node.keeps is not None:
            yield node

    def visit_map(self, node: Map) -> Iterator[Step]:
        return iter(())


_removing_steps = _RemovingStepsIn().visit


def _removes(step: Step, key: str) -> bool:
    """Whether a step removes a key."""
    if key in step.drops or any(key == old for old, _ in step.renames):
        return True
    return step.keeps is not None and scope_of(key) == "session" and key not in step.keeps


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
