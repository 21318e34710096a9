"""Where data runs in a drawn picture: along tracks beside it, one for each value.

A track connects the rows of those who write a key with the rows of those who read it; the
conversation has tracks of its own. A reader's track is on the side where fewer boxes are crossed.
"""

from collections.abc import Iterable, Iterator
from typing import NamedTuple

from weft.graph.layout import Box
from weft.graph.model import Channel, Edge, Graph

APART = 9.0
"""Between two tracks."""
NUDGES = (0.0, 3.0, -3.0, 5.0, -5.0)
"""Ways at one height are moved a little, so that no two lie on each other."""


class End(NamedTuple):
    """Where a track meets a box: at a height of its side; a reader's end has an arrow head."""

    box: Box
    y: float
    reads: bool
    channel: Channel
    certain: bool = True


class Track(NamedTuple):
    """The way of one value, at the right or the left of the picture."""

    key: str
    channel: Channel
    x: float
    ends: tuple[End, ...]
    right: bool


class Tracks(NamedTuple):
    """All tracks, and the room they take on either side."""

    tracks: tuple[Track, ...]
    left: float
    right: float


def tracks_of(graph: Graph, boxes: Iterable[Box], width: float) -> Tracks:
    """Every value's way, beside a picture that is so wide."""
    by_id = {box.vertex.id: box for box in boxes}
    ordered = list(by_id.values())
    sides: dict[bool, list[list[tuple[float, float]]]] = {True: [], False: []}
    placed: list[Track] = []
    for number, (key, channel, edges) in enumerate(_bundles(graph.edges)):
        ends = _Ends(key, channel, by_id, NUDGES[number % len(NUDGES)])
        chosen = _sides(edges, ends, ordered)
        for right in (True, False):
            own = [edge for edge in edges if chosen[edge.target] is right]
            if not own:
                continue
            met = ends.of(own)
            span = (min(end.y for end in met), max(end.y for end in met))
            index = _free(sides[right], span)
            x = width + 18.0 + APART * index if right else -18.0 - APART * index
            placed.append(Track(key, channel, x, met, right))
    room = {side: 18.0 + APART * len(used) if used else 0.0 for side, used in sides.items()}
    return Tracks(tuple(placed), room[False], room[True])


def _sides(edges: list[Edge], ends: "_Ends", boxes: list[Box]) -> dict[str, bool]:
    """By reader: whether its track is at the right, where both ways cross no more boxes."""
    left: dict[str, tuple[int, int]] = {}
    costs: dict[str, list[int]] = {}
    for edge in edges:
        if edge.source not in left:
            left[edge.source] = _crossed(ends.writer(edge.source), boxes)
        if edge.target not in costs:
            costs[edge.target] = [*_crossed(ends.reader([edge]), boxes)]
        for index, more in enumerate(left[edge.source]):
            costs[edge.target][index] += more
    return {target: at_right <= at_left for target, (at_right, at_left) in costs.items()}


def _bundles(edges: tuple[Edge, ...]) -> Iterator[tuple[str, Channel, list[Edge]]]:
    """The edges of each value, together where they share a writer or a reader."""
    kinds: dict[tuple[str, bool], list[Edge]] = {}
    for edge in edges:
        kinds.setdefault((edge.key, edge.channel == "conversation"), []).append(edge)
    for (key, talk), found in kinds.items():
        for bundle in _connected(found):
            yield key, "conversation" if talk else "state", bundle


def _connected(edges: list[Edge]) -> list[list[Edge]]:
    """The edges in groups that share no box with one another."""
    leader: dict[str, str] = {}

    def found(vertex: str) -> str:
        while leader.setdefault(vertex, vertex) != vertex:
            leader[vertex] = leader[leader[vertex]]
            vertex = leader[vertex]
        return vertex

    for edge in edges:
        leader[found(edge.source)] = found(edge.target)
    groups: dict[str, list[Edge]] = {}
    for edge in edges:
        groups.setdefault(found(edge.source), []).append(edge)
    return list(groups.values())


class _Ends:
    """The ends of one value's tracks."""

    def __init__(self, key: str, channel: Channel, boxes: dict[str, Box], nudge: float) -> None:
        self._key = key
        self._channel: Channel = channel
        self._boxes = boxes
        self._nudge = nudge

    def of(self, edges: list[Edge]) -> tuple[End, ...]:
        """Those of all writers, then of all readers."""
        read: dict[str, list[Edge]] = {}
        for edge in edges:
            read.setdefault(edge.target, []).append(edge)
        sources = dict.fromkeys(edge.source for edge in edges)
        return (
            *(self.writer(source) for source in sources),
            *(self.reader(own) for own in read.values()),
        )

    def writer(self, source: str) -> End:
        """Where the value leaves a box."""
        box = self._boxes[source]
        y = _height(box, "writes", self._key) + self._nudge
        return End(box, y, reads=False, channel=self._channel)

    def reader(self, edges: list[Edge]) -> End:
        """Where the value arrives at the box that all these edges lead to."""
        box = self._boxes[edges[0].target]
        kind = "hears" if self._channel == "conversation" else "reads"
        y = _height(box, kind, self._key) + self._nudge
        certain = all(edge.certain for edge in edges)
        return End(box, y, reads=True, channel=edges[0].channel, certain=certain)


def _height(box: Box, kind: str, key: str) -> float:
    """The middle of the row about the key; of the title where no row is."""
    for index, row in enumerate(box.rows):
        if row.kind == kind and (row.port is None or row.port.key == key):
            return box.row_y(index)
    return box.y + 12.0


def _crossed(end: End, boxes: list[Box]) -> tuple[int, int]:
    """How many boxes stand between the end and the right side, and the left one."""
    level = [box for box in boxes if box.y <= end.y <= box.y + box.height]
    return sum(box.x > end.box.x for box in level), sum(box.x < end.box.x for box in level)


def _free(used: list[list[tuple[float, float]]], span: tuple[float, float]) -> int:
    """The first track that is free over the span; it is taken."""
    for index, spans in enumerate(used):
        if all(span[1] + 6.0 < low or high + 6.0 < span[0] for low, high in spans):
            spans.append(span)
            return index
    used.append([span])
    return len(used) - 1
