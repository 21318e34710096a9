"""What one branch reads while another takes it away."""

from collections.abc import Iterator

from weft.checker.sites import Read, Site
from weft.checker.world import Writer
from weft.checker.writes import Written, step_writer
from weft.declare import Agent, Map, Node, Step
from weft.session.state import scope_of


def takers(branches: tuple[Node, ...]) -> list[tuple[int, Step]]:
    """The steps that take keys away, each with the number of its branch."""
    return [(index, step) for index, branch in enumerate(branches) for step in _takers(branch)]


def torn(
    found: list[tuple[int, Step]], index: int, sites: list[Site], own: Written
) -> Iterator[tuple[Read, Writer]]:
    """What a branch reads that was there before, and who takes it away in another one."""
    for step in (step for at, step in found if at != index):
        for site in sites:
            for read in site.reads:
                there = read.key in site.world.facts and read.key not in own
                if there and not read.optional and _takes(step, read.key):
                    yield read, step_writer(step)


def _takers(node: Node) -> Iterator[Step]:
    """The steps that take keys away."""
    if isinstance(node, Step):
        if node.drops or node.renames or node.keeps is not None:
            yield node
    elif not isinstance(node, Agent | Map):
        for child in node.children:
            yield from _takers(child)


def _takes(step: Step, key: str) -> bool:
    """Whether a step takes a key away."""
    if key in step.drops or any(key == old for old, _ in step.renames):
        return True
    return step.keeps is not None and scope_of(key) == "session" and key not in step.keeps
