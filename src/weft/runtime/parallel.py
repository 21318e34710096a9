"""Branches side by side: each sees what was before and its own, none sees another's."""

from collections.abc import AsyncGenerator
from contextlib import aclosing

from weft.declare import Node, Parallel, Race
from weft.runtime.invocation import Invocation
from weft.runtime.lanes import Lanes, Runs, broke
from weft.runtime.place import Place
from weft.runtime.signals import Suspended
from weft.session import Event


async def run_parallel(
    invocation: Invocation, place: Place, node: Parallel, run_node: Runs
) -> AsyncGenerator[Event, None]:
    """Run the branches at once; when one fails the others are cancelled, or left to end."""
    nodes = branches_of(place, node)
    collect = node.on_error == "collect"
    if collect:
        shelter_some(invocation, [inner for inner, _ in nodes])
    lanes = Lanes(invocation, nodes, run_node, width=len(nodes))
    async with aclosing(lanes.events(lambda task: not collect and broke(task))) as events:
        async for event in events:
            yield event
    failures = lanes.failures()
    if failures and not (collect and (lanes.waits or len(failures) < len(nodes))):
        raise failures[0]
    if lanes.waits:
        raise Suspended


def branches_of(place: Place, node: Parallel | Race) -> list[tuple[Place, Node]]:
    """The branches of a node, each at its place; two of one name are numbered."""
    names: dict[str, int] = {}
    found: list[tuple[Place, Node]] = []
    for index, child in enumerate(node.branches):
        names[child.name] = names.get(child.name, 0) + 1
        name = child.name if names[child.name] == 1 else f"{child.name}_{names[child.name]}"
        found.append((place.child(child.name, index).branched(node.name, name), child))
    return found


def shelter_some(invocation: Invocation, places: list[Place]) -> None:
    """Let failures that the log has stay what they are, unless all failed: that ended the run."""
    if invocation.resumed and not all(map(invocation.past.failed_at, places)):
        for place in places:
            invocation.shelter(place)
