"""A picture as SVG that needs nothing else, in light and dark.

Whatever comes from a flow is escaped. Arrow heads are drawn, not referred to, so that several
pictures can stand on one page.
"""

import textwrap
from collections.abc import Iterable, Iterator
from typing import NamedTuple, TypeAlias

from weft.compiler.report import clip, columns, preview
from weft.diagnostics import safe
from weft.graph.build import link_kind
from weft.graph.mermaid import frame_title
from weft.graph.model import (
    LONGEST,
    BoxRow,
    Channel,
    Edge,
    Graph,
    Group,
    LinkKind,
    Member,
    Vertex,
    rows_of,
)
from weft.markup import escape

MARGIN = 20.0

LINE = 17.0

LEGEND: tuple[tuple[Channel, str], ...] = (
    ("template", "a template reads a key"),
    ("state", "the state"),
    ("conversation", "the conversation"),
)

STYLE = """
.weft { --paper: #ffffff; --ink: #16161c; --dim: #666672; --line: #9a9aa8; --soft: #f5f5f8;
  --box: #ffffff; --red: #c62430; --rose: #fff0f1; --template: #2563eb; --state: #7c3aed;
  --conversation: #15803d; }
@media (prefers-color-scheme: dark) { .weft { --paper: #121216; --ink: #e8e8ee; --dim: #9a9aa8;
  --line: #6a6a78; --soft: #1a1a20; --box: #22222a; --red: #ff7885; --rose: #38191d;
  --template: #7aa7ff; --state: #b79bff; --conversation: #5fd08a; } }
.weft text { font: 11.5px ui-monospace, SFMono-Regular, Menlo, Consolas, monospace;
  fill: var(--ink); white-space: pre; }
.weft .title { font-size: 12px; font-weight: 600; }
.weft .dim { fill: var(--dim); }
.weft .halo { fill: var(--dim); stroke: var(--paper); stroke-width: 4px; paint-order: stroke; }
.weft .paper { fill: var(--paper); }
.weft .box { fill: var(--box); stroke: var(--line); }
.weft .frame { fill: var(--soft); fill-opacity: .5; stroke: var(--line); stroke-opacity: .6; }
.weft .fallback { stroke-dasharray: 5 4; }
.weft .way { fill: none; stroke: var(--line); stroke-width: 1.4; }
.weft .head { fill: var(--line); stroke: none; }
.weft .fails, .weft .transfer, .weft .tool { stroke-dasharray: 5 4; }
.weft .data { fill: none; stroke-width: 1.3; }
.weft .perhaps { stroke-dasharray: 3 3; }
.weft .data.template { stroke: var(--template); } .weft .data.state { stroke: var(--state); }
.weft .data.conversation { stroke: var(--conversation); }
.weft .mark.template, .weft text.template { fill: var(--template); }
.weft .mark.state, .weft text.state { fill: var(--state); }
.weft .mark.conversation, .weft text.conversation { fill: var(--conversation); }
.weft .box.problem { fill: var(--rose); stroke: var(--red); stroke-width: 2; }
.weft text.problem { fill: var(--red); font-weight: 600; }
""".strip()


def to_svg(graph: Graph) -> str:
    """The picture as one SVG document: the flow from top to bottom, data at its side."""
    block = laid_out(graph)
    boxes = [piece for piece in block.pieces if isinstance(piece, PlacedBox)]
    tracks = tracks_of(graph, boxes, block.width)
    # wide enough for the legend
    width = max(block.width + tracks.left_width + tracks.right_width, 560.0)
    channels: list[Channel] = [
        channel for channel, _ in LEGEND if any(_uses(t, channel) for t in tracks.tracks)
    ]
    notes = list(_notes(graph, width))
    height = block.height + (LINE + 14.0 if channels else 0.0) + LINE * len(notes)
    height += 14.0 if notes else 0.0
    offset = (
        MARGIN
        + tracks.left_width
        + (width - block.width - tracks.left_width - tracks.right_width) / 2
    )
    full, tall = width + 2 * MARGIN, height + 2 * MARGIN
    body = [
        f'<rect class="paper" width="{_n(full)}" height="{_n(tall)}"/>',
        f'<g transform="translate({_n(offset)} {_n(MARGIN)})">',
        *(_frame(piece) for piece in block.pieces if isinstance(piece, Frame)),
        *(line for track in tracks.tracks for line in _track(track)),
        *(_arrow(piece) for piece in block.pieces if isinstance(piece, Arrow)),
        *(_frame_title(piece) for piece in block.pieces if isinstance(piece, Frame)),
        *(_label(piece) for piece in block.pieces if isinstance(piece, TextLabel)),
        *(line for box in boxes for line in _draw_box(box)),
        *(line for track in tracks.tracks for line in _marks(track)),
        "</g>",
        *_draw_footer(channels, notes, block.height + MARGIN),
    ]
    return (
        f'<svg xmlns="http://www.w3.org/2000/svg" class="weft" role="img"'
        f' width="{_n(full)}" height="{_n(tall)}" viewBox="0 0 {_n(full)} {_n(tall)}">\n'
        f"<style>\n{STYLE}\n</style>\n" + "\n".join(body) + "\n</svg>\n"
    )


class PlacedBox(NamedTuple):
    """A box and its rows."""

    x: float
    y: float
    width: float
    height: float
    vertex: Vertex
    rows: tuple[BoxRow, ...]

    def row_y(self, index: int) -> float:
        """The middle of a row."""
        return self.y + TITLE + ROW * index + ROW / 2


def _draw_box(box: PlacedBox) -> Iterator[str]:
    vertex = box.vertex
    wrong = " problem" if vertex.problems else ""
    round_ = 14 if vertex.kind in ("input", "answer", "route", "loop", "map") else 4
    problems = "\n".join(str(one) for one in vertex.problems)
    yield f'<g id="{vertex.id}">'
    if problems:
        yield f"<title>{_escape_text(problems)}</title>"
    yield (
        f'<rect class="box {vertex.kind}{wrong}" x="{_n(box.x)}" y="{_n(box.y)}"'
        f' width="{_n(box.width)}" height="{_n(box.height)}" rx="{round_}"/>'
    )
    middle = box.x + box.width / 2
    yield (
        f'<text class="title" text-anchor="middle" x="{_n(middle)}" y="{_n(box.y + 16.0)}">'
        f"{_escape_text(vertex.title)}</text>"
    )
    for index, row in enumerate(box.rows):
        kind = "problem" if row.codes else _colour(row.kind, row.port and row.port.channel)
        yield (
            f'<text class="{kind}" x="{_n(box.x + 12.0)}" y="{_n(box.row_y(index) + 4.0)}">'
            f"{_escape_text(row.text)}</text>"
        )
    yield "</g>"


def _colour(kind: str, channel: Channel | None) -> str:
    if kind == "hears":
        return "conversation"
    return channel or "dim"


class Frame(NamedTuple):
    """A frame; its title stands at the upper left, inside."""

    x: float
    y: float
    width: float
    height: float
    group: Group


def _frame(frame: Frame) -> str:
    return (
        f'<rect class="frame {frame.group.kind}" x="{_n(frame.x)}" y="{_n(frame.y)}"'
        f' width="{_n(frame.width)}" height="{_n(frame.height)}" rx="8"/>'
    )


def _frame_title(frame: Frame) -> str:
    text = clip(frame_title(frame.group), LONGEST)
    return _text("halo", frame.x + 12.0, frame.y + 18.0, text)


class TextLabel(NamedTuple):
    """A text, from its left end, on its base line."""

    x: float
    y: float
    text: str


def _label(label: TextLabel) -> str:
    return _text("halo", label.x, label.y, label.text)


def _text(kind: str, x: float, y: float, text: str) -> str:
    return f'<text class="{kind}" x="{_n(x)}" y="{_n(y)}">{_escape_text(text)}</text>'


class Arrow(NamedTuple):
    """A way, from point to point; the last point has the head."""

    points: tuple[tuple[float, float], ...]
    kind: LinkKind


def _arrow(arrow: Arrow) -> str:
    points = " ".join(f"{_n(x)},{_n(y)}" for x, y in arrow.points)
    x, y = arrow.points[-1]
    before = arrow.points[-2]
    sideways = before[1] == y
    return (
        f'<polyline class="way {arrow.kind}" points="{points}"/>'
        f"{_head(x, y, 'head', right=sideways, down=not sideways)}"
    )


def _head(x: float, y: float, kind: str, *, right: bool = False, down: bool = False) -> str:
    """A small triangle whose tip is at the point: to the right, down, or to the left."""
    if down:
        corners = ((x, y), (x - 4.0, y - 7.0), (x + 4.0, y - 7.0))
    else:
        back = -7.0 if right else 7.0
        corners = ((x, y), (x + back, y - 4.0), (x + back, y + 4.0))
    return f'<polygon class="{kind}" points="{" ".join(f"{_n(a)},{_n(b)}" for a, b in corners)}"/>'


class End(NamedTuple):
    """Where a track meets a box: at a height of its side; a reader's end has an arrow head."""

    box: PlacedBox
    y: float
    reads: bool
    channel: Channel
    certain: bool = True


class EdgeTrack(NamedTuple):
    """The way of one value, at the right or the left of the picture."""

    key: str
    channel: Channel
    x: float
    ends: tuple[End, ...]
    right: bool


def _track(track: EdgeTrack) -> Iterator[str]:
    heights = [end.y for end in track.ends]
    name = f"{track.key}: {track.channel}" if track.key else track.channel
    yield f'<g class="track"><title>{_escape_text(name)}</title>'
    yield (
        f'<path class="data {track.channel}"'
        f' d="M{_n(track.x)} {_n(min(heights))}V{_n(max(heights))}"/>'
    )
    for end in track.ends:
        perhaps = "" if end.certain else " perhaps"
        yield (
            f'<path class="data {end.channel}{perhaps}"'
            f' d="M{_n(_side(track, end))} {_n(end.y)}H{_n(track.x)}"/>'
        )
    yield "</g>"


def _marks(track: EdgeTrack) -> Iterator[str]:
    """A dot where a value comes from, an arrow head where it goes."""
    for end in track.ends:
        x = _side(track, end)
        if end.reads:
            yield _head(x, end.y, f"mark {end.channel}", right=not track.right)
        else:
            yield f'<circle class="mark {end.channel}" cx="{_n(x)}" cy="{_n(end.y)}" r="3"/>'


def _side(track: EdgeTrack, end: End) -> float:
    return end.box.x + (end.box.width if track.right else 0.0)


def _uses(track: EdgeTrack, channel: Channel) -> bool:
    return track.channel == channel or any(end.channel == channel for end in track.ends)


def _notes(graph: Graph, width: float) -> Iterator[tuple[str, str]]:
    """What is wrong, in lines that fit under the picture."""
    most = int(width / LETTER) - 2
    for one in graph.problems:
        words = " ".join(safe(str(one).partition("\n")[0]).split())
        # wide letters take two columns, and `textwrap` counts letters
        room = most if words.isascii() else most // 2
        for index, line in enumerate(textwrap.wrap(words, room, subsequent_indent="    ")):
            yield ("problem" if index == 0 else "dim"), line


def _draw_footer(
    channels: list[Channel], notes: Iterable[tuple[str, str]], bottom: float
) -> Iterator[str]:
    """The legend, and what is wrong."""
    y = bottom + 14.0
    if channels:
        y += LINE
        x = MARGIN
        for channel, words in LEGEND:
            if channel in channels:
                yield (
                    f'<path class="data {channel}" d="M{_n(x)} {_n(y - 4.0)}H{_n(x + 18.0)}"/>'
                    f"{_text('dim', x + 24.0, y, words)}"
                )
                x += 24.0 + (columns(words) + 3) * LETTER
    y += 14.0 if channels else 0.0
    for kind, line in notes:
        y += LINE
        yield _text(kind, MARGIN, y, line)


def _escape_text(text: str) -> str:
    """Escaped, without what steers a terminal or no XML may hold."""
    return escape("".join(char for char in safe(text) if char not in "\ufffe\uffff"))


def _n(number: float) -> str:
    return f"{number:.1f}".removesuffix(".0")


LETTER = 7.3
"""Width of a letter of the title; rows are set smaller, so this is enough for them too."""

TITLE = 24.0

ROW = 17.0

PAD = 12.0

GAP = 26.0
"""Between one block and the next, for the arrow."""

LANE = 22.0

LABEL = 18.0

BACK = 30.0
"""Room at the left of a loop for the way back."""

WIDEST = 1300.0
"""Lanes beyond this width go into another row."""

Piece: TypeAlias = PlacedBox | Frame | Arrow | TextLabel


class SvgBlock(NamedTuple):
    """Pieces in a rectangle that begins at 0, 0."""

    width: float
    height: float
    pieces: tuple[Piece, ...]


def text_width(text: str) -> float:
    """How wide a text is at most."""
    return columns(text) * LETTER


def laid_out(graph: Graph) -> SvgBlock:
    """The whole picture, without what carries data."""
    return _stack_boxes([_box_of(graph.input), _member(graph.root), _box_of(graph.answer)])


def _member(member: Member) -> SvgBlock:
    if isinstance(member, Vertex):
        return _box_of(member)
    if not member.is_framed:
        return _inside(member)
    return _frame_group(member, _inside(member))


def _box_of(vertex: Vertex) -> SvgBlock:
    rows = tuple(rows_of(vertex))
    longest = max([columns(vertex.title) + 1, *(columns(row.text) for row in rows)])
    width = max(longest * LETTER + 2 * PAD, 84.0)
    height = TITLE + ROW * len(rows) + (8.0 if rows else 4.0)
    return SvgBlock(width, height, (PlacedBox(0.0, 0.0, width, height, vertex, rows),))


def _frame_group(group: Group, inner: SvgBlock) -> SvgBlock:
    title = clip(frame_title(group), LONGEST)
    indent = BACK if group.kind == "loop" else PAD
    width = max(inner.width + indent + max(indent, PAD), text_width(title) + 2 * PAD)
    offset = (width - inner.width) / 2
    height = inner.height + 28.0 + (16.0 if group.kind == "loop" else PAD)
    pieces: list[Piece] = [Frame(0.0, 0.0, width, height, group)]
    pieces += [_move_piece(piece, offset, 28.0) for piece in inner.pieces]
    if group.kind == "loop":
        pieces.append(_back(group, pieces, width, height))
    return SvgBlock(width, height, tuple(pieces))


def _back(group: Group, pieces: list[Piece], width: float, height: float) -> Arrow:
    """From below the body round the left side to the head."""
    assert group.head is not None
    head = next(p for p in pieces if isinstance(p, PlacedBox) and p.vertex is group.head)
    bottom = height - 8.0
    middle = head.y + head.height / 2
    points = ((width / 2, height - 16.0), (width / 2, bottom), (12.0, bottom), (12.0, middle))
    return Arrow((*points, (head.x, middle)), "again")


def _inside(group: Group) -> SvgBlock:
    head = [] if group.head is None else [_box_of(group.head)]
    match group.kind:
        case "sequence" | "timeout" | "loop":
            return _stack_boxes([*head, *(_member(below) for below in group.members)])
        case "fallback":
            blocks = [_member(below) for below in group.members]
            return _stack_boxes(blocks, "fails", "if it fails")
        case "parallel" | "race":
            return _lanes(group)
        case "route" | "map" | "team":
            return _stack_boxes([*head, _lanes(group)], None)


def _stack_boxes(
    blocks: list[SvgBlock], kind: LinkKind | None = "then", label: str = ""
) -> SvgBlock:
    """One below the other; without a kind of arrow, only put there."""
    width = max(block.width for block in blocks)
    gap = GAP + LABEL if label else (GAP if kind is not None else 8.0)
    if label:
        width = max(width, text_width(label) * 2 + 24.0)
    pieces: list[Piece] = []
    top = 0.0
    for index, block in enumerate(blocks):
        if index and kind is not None:
            pieces.append(Arrow(((width / 2, top), (width / 2, top + gap)), kind))
            if label:
                pieces.append(TextLabel(width / 2 + 8.0, top + gap / 2 + 4.0, label))
        if index:
            top += gap
        pieces += _place_block(block, (width - block.width) / 2, top)
        top += block.height
    return SvgBlock(width, top, tuple(pieces))


def _lanes(group: Group) -> SvgBlock:
    """Members side by side, each below its label, in as many rows as they need."""
    labels = group.labels or ("",) * len(group.members)
    lanes = [_lane(group, label, below) for label, below in zip(labels, group.members, strict=True)]
    rows: list[list[SvgBlock]] = [[]]
    used = 0.0
    for lane in lanes:
        if rows[-1] and used + LANE + lane.width > WIDEST:
            rows.append([])
            used = 0.0
        used += lane.width + (LANE if rows[-1] else 0.0)
        rows[-1].append(lane)
    blocks = [_row(row) for row in rows]
    width = max(row.width for row in blocks)
    pieces: list[Piece] = []
    top = 0.0
    for row in blocks:
        pieces += _place_block(row, (width - row.width) / 2, top)
        top += row.height + LANE
    return SvgBlock(width, top - LANE, tuple(pieces))


def _lane(group: Group, label: str, below: Member) -> SvgBlock:
    block = _member(below)
    if not label:
        return block
    text = clip(preview(label), LONGEST)
    width = max(block.width, text_width(text))
    arrow = Arrow(((width / 2, LABEL), (width / 2, LABEL + GAP)), link_kind(group, label))
    pieces = (
        TextLabel((width - text_width(text)) / 2, LABEL - 5.0, text),
        arrow,
        *_place_block(block, (width - block.width) / 2, LABEL + GAP),
    )
    return SvgBlock(width, block.height + LABEL + GAP, pieces)


def _row(lanes: list[SvgBlock]) -> SvgBlock:
    pieces: list[Piece] = []
    x = 0.0
    for lane in lanes:
        pieces += _place_block(lane, x, 0.0)
        x += lane.width + LANE
    return SvgBlock(x - LANE, max(lane.height for lane in lanes), tuple(pieces))


def _place_block(block: SvgBlock, right: float, down: float) -> Iterable[Piece]:
    return (_move_piece(piece, right, down) for piece in block.pieces)


def _move_piece(piece: Piece, right: float, down: float) -> Piece:
    if isinstance(piece, Arrow):
        return piece._replace(points=tuple((x + right, y + down) for x, y in piece.points))
    return piece._replace(x=piece.x + right, y=piece.y + down)


APART = 9.0
"""Between two tracks."""

NUDGES = (0.0, 3.0, -3.0, 5.0, -5.0)
"""Ways at one height are moved a little, so that no two lie on each other."""


class Tracks(NamedTuple):
    """All tracks, and the room they take on either side."""

    tracks: tuple[EdgeTrack, ...]
    left_width: float
    right_width: float


def tracks_of(graph: Graph, boxes: Iterable[PlacedBox], width: float) -> Tracks:
    """Every value's way, at the side of a picture of this width."""
    by_id = {box.vertex.id: box for box in boxes}
    ordered = list(by_id.values())
    sides: dict[bool, list[list[tuple[float, float]]]] = {True: [], False: []}
    placed: list[EdgeTrack] = []
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
            placed.append(EdgeTrack(key, channel, x, met, right))
    room = {side: 18.0 + APART * len(used) if used else 0.0 for side, used in sides.items()}
    return Tracks(tuple(placed), room[False], room[True])


def _sides(edges: list[Edge], ends: "_Ends", boxes: list[PlacedBox]) -> dict[str, bool]:
    """By reader: whether its track is at the right, where both ways cross no more boxes."""
    counts: dict[str, tuple[int, int]] = {}
    costs: dict[str, list[int]] = {}
    for edge in edges:
        if edge.source not in counts:
            counts[edge.source] = _count_crossed(ends.writer(edge.source), boxes)
        if edge.target not in costs:
            costs[edge.target] = [*_count_crossed(ends.reader([edge]), boxes)]
        for index, more in enumerate(counts[edge.source]):
            costs[edge.target][index] += more
    return {target: at_right <= at_left for target, (at_right, at_left) in costs.items()}


def _bundles(edges: tuple[Edge, ...]) -> Iterator[tuple[str, Channel, list[Edge]]]:
    """The edges of each value, together where they share a writer or a reader."""
    kinds: dict[tuple[str, bool], list[Edge]] = {}
    for edge in edges:
        kinds.setdefault((edge.key, edge.channel == "conversation"), []).append(edge)
    for (key, talk), same_kind in kinds.items():
        for bundle in _group_edges(same_kind):
            yield key, "conversation" if talk else "state", bundle


def _group_edges(edges: list[Edge]) -> list[list[Edge]]:
    """The edges in groups that share no box with one another."""
    leader: dict[str, str] = {}

    def leader_of(vertex: str) -> str:
        while leader.setdefault(vertex, vertex) != vertex:
            # shorten the way for the next question
            leader[vertex] = leader[leader[vertex]]
            vertex = leader[vertex]
        return vertex

    for edge in edges:
        leader[leader_of(edge.source)] = leader_of(edge.target)
    groups: dict[str, list[Edge]] = {}
    for edge in edges:
        groups.setdefault(leader_of(edge.source), []).append(edge)
    return list(groups.values())


class _Ends:
    """The ends of one value's tracks."""

    def __init__(
        self, key: str, channel: Channel, boxes: dict[str, PlacedBox], nudge: float
    ) -> None:
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


def _height(box: PlacedBox, kind: str, key: str) -> float:
    """The middle of the row about the key; of the title where no row is."""
    for index, row in enumerate(box.rows):
        if row.kind == kind and (row.port is None or row.port.key == key):
            return box.row_y(index)
    return box.y + 12.0


def _count_crossed(end: End, boxes: list[PlacedBox]) -> tuple[int, int]:
    """How many boxes stand between the end and the right side, and the left one."""
    level = [box for box in boxes if box.y <= end.y <= box.y + box.height]
    return sum(box.x > end.box.x for box in level), sum(box.x < end.box.x for box in level)


def _free(used: list[list[tuple[float, float]]], span: tuple[float, float]) -> int:
    """The first track that is free over the span; it is taken."""
    for index, spans in enumerate(used):
        # a little apart, or two values would look like one line
        if all(span[1] + 6.0 < low or high + 6.0 < span[0] for low, high in spans):
            spans.append(span)
            return index
    used.append([span])
    return len(used) - 1
