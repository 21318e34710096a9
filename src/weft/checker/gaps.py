"""Paths that lack a key: of all the ways to a place, those on which nobody writes it."""

from collections.abc import Iterable, Iterator

from weft.checker.agents import Writes, may_escalate
from weft.checker.functions import keys_of
from weft.declare import (
    Agent,
    Fallback,
    Loop,
    Map,
    Node,
    Parallel,
    Race,
    Route,
    Sequence,
    Step,
    Timeout,
)
from weft.declare.nodes import agents_of
from weft.declare.route import OTHERWISE

MOST = 3
"""How many paths are named."""


def paths_without(root: Node, reader: Node, key: str) -> list[str]:
    """The paths from the start to a node on which a key is not written, each in words."""
    found = [*dict.fromkeys(_to(root, reader, key, Writes()))]
    more = len(found) - MOST
    return [*found[:MOST], f"on {more} more"] if more > 0 else found


def _to(node: Node, reader: Node, key: str, writes: Writes) -> Iterator[str]:
    """The paths through all that comes before the reader, within a node that holds it."""
    if node is reader:
        if isinstance(node, Loop):  # its condition is asked behind a round
            yield from _through(node.body, key, writes)
        return
    below = next((one for one in _below(node) if _holds(one, reader)), None)
    if below is None:
        return
    if isinstance(node, Sequence):
        before = node.steps[: next(i for i, one in enumerate(node.steps) if one is below)]
        yield from _together(before, key, writes)
    if isinstance(node, Loop) and node.max > 1 and key in writes.of(node.body):
        yield f"in the first round of `{node.name}`"
    yield from _to(below, reader, key, writes)


def _holds(node: Node, reader: Node) -> bool:
    return node is reader or any(_holds(one, reader) for one in _below(node))


def _below(node: Node) -> tuple[Node, ...]:
    return node.sub_agents if isinstance(node, Agent) else node.children


def _together(nodes: Iterable[Node], key: str, writes: Writes) -> Iterator[str]:
    """The paths through nodes that all run; none where one of them surely writes the key."""
    found: list[str] = []
    for node in nodes:
        if key in writes.of(node):
            lacking = [*_through(node, key, writes)]
            if not lacking:
                return
            found += lacking
    yield from found


def _through(node: Node, key: str, writes: Writes) -> Iterator[str]:
    """The paths through a node on which it does not write the key."""
    match node:
        case Sequence() | Parallel():
            yield from _together(node.children, key, writes)
        case Timeout():
            yield from _through(node.body, key, writes)
        case Route():
            labels = [*(case.label for case in node.cases), OTHERWISE]
            for label, way in zip(labels, node.children, strict=False):
                yield from _way(f"`{node.name}.{label}`", way, key, writes)
            if node.default is None:
                yield f"where no case of `{node.name}` holds"
        case Fallback() | Race():
            for way in node.children:
                yield from _way(f"`{node.name}`", way, key, writes)
        case Loop():
            if node.while_ is not None:
                yield f"where `{node.name}` takes no round"
            lacking = [*_through(node.body, key, writes)]
            yield from lacking
            if not lacking:
                yield from _left_early(node.body, key, writes)
        case Step():
            found = keys_of(node.function)
            if node.maybe:
                yield f"where the condition of `{node.written or node.name}` does not hold"
            elif not node.written and not node.writes and key in found.maybe:
                yield f"on every path through `{node.name}`"
        case Agent() | Map():
            return
        case _:
            return


def _left_early(body: Node, key: str, writes: Writes) -> Iterator[str]:
    """Who may end the loop before the key is written."""
    steps = body.steps if isinstance(body, Sequence) else (body,)
    for step in steps:
        if key in writes.of(step):
            return
        for agent in agents_of(step):
            if may_escalate(agent):
                yield f"where `{agent.name}` ends the loop before"


def _way(chosen: str, way: Node, key: str, writes: Writes) -> Iterator[str]:
    """The paths through one of several ways."""
    if key in writes.of(way):
        yield from _through(way, key, writes)
    else:
        yield f"through {chosen}, which runs `{way.name}`"
