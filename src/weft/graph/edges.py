"""Which value goes where: every read is led back to those who may have written it."""

from collections.abc import Mapping
from typing import NamedTuple, TypeAlias

from weft.checker.sites import Site
from weft.checker.world import Writer
from weft.graph.model import Edge, Member, Vertex, vertices_of

APART = ("parallel", "race", "route")
"""Frames whose members do not run one after the other."""


class _Place(NamedTuple):
    """Where a box stands: its turn, and by frame which member of it the box is in."""

    vertex: Vertex
    turn: int
    inside: tuple[tuple[str, int, str], ...]


_Named: TypeAlias = dict[str, list[_Place]]


def edges_of(
    start: Vertex, root: Member, sites: Mapping[str, tuple[Site, ...]]
) -> tuple[Edge, ...]:
    """Every value on its way, readers in the order of the flow."""
    places = _places(root)
    named: _Named = {}
    for place in places:
        named.setdefault(place.vertex.name, []).append(place)
    edges: dict[tuple[str, str, str, str], Edge] = {}
    for reader in places:
        for edge in (*_read(reader, start, named, sites), *_heard(reader, named)):
            held = edges.setdefault(edge[:4], edge)
            if held.certain and not edge.certain:
                edges[edge[:4]] = edge
    return tuple(edges.values())


def _read(
    reader: _Place,
    start: Vertex,
    named: _Named,
    sites: Mapping[str, tuple[Site, ...]],
) -> list[Edge]:
    vertex = reader.vertex
    found: list[Edge] = []
    for site in sites[vertex.id]:
        for port in vertex.reads:
            fact = site.world.facts.get(port.key)
            for writer in fact.writers if fact is not None else ():
                source: Vertex | None = start
                if writer.kind != "input":
                    source = _writer(writer, port.key, reader, named)
                if source is not None and fact is not None:
                    found.append(Edge(source.id, vertex.id, port.key, port.channel, fact.must))
    return found


def _heard(reader: _Place, named: _Named) -> list[Edge]:
    found: list[Edge] = []
    for name in reader.vertex.hears:
        spoke = [place for place in named.get(name, ()) if place.vertex.kind == "agent"]
        source = _nearest(reader, spoke)
        if source is not None:
            found.append(Edge(source.id, reader.vertex.id, "", "conversation"))
    return found


def _writer(writer: Writer, key: str, reader: _Place, named: _Named) -> Vertex | None:
    wrote = [
        place
        for place in named.get(writer.origin.agent or writer.name, ())
        if any(port.key == key for port in place.vertex.writes)
    ]
    return _nearest(reader, wrote)


def _nearest(reader: _Place, found: list[_Place]) -> Vertex | None:
    """The one that comes last before the reader and not beside it; else the last of all."""
    ordered = [place for place in found if not _apart(place, reader)] or found
    before = [place for place in ordered if place.turn < reader.turn]
    chosen = before or ordered
    return chosen[-1].vertex if chosen else None


def _apart(one: _Place, two: _Place) -> bool:
    """Whether they stand in different members of a frame that runs only one, or all at once."""
    for (group, index, kind), (other, at, _) in zip(one.inside, two.inside, strict=False):
        if group != other:
            return False
        if index != at:
            return kind in APART
    return False


def _places(root: Member) -> list[_Place]:
    inside: dict[str, tuple[tuple[str, int, str], ...]] = {}
    waiting: list[tuple[Member, tuple[tuple[str, int, str], ...]]] = [(root, ())]
    while waiting:
        member, path = waiting.pop()
        if isinstance(member, Vertex):
            inside[member.id] = path
            continue
        if member.head is not None:
            inside[member.head.id] = path
        waiting.extend(
            (below, (*path, (member.id, index, member.kind)))
            for index, below in enumerate(member.members)
        )
    return [
        _Place(vertex, turn, inside[vertex.id]) for turn, vertex in enumerate(vertices_of(root))
    ]
