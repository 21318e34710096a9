"""Where everything stands in a drawn picture: boxes, frames, arrows and labels.

Every member becomes a block with a size of its own, and blocks are only ever put below or beside
one another, so nothing can overlap. Arrows between blocks leave and arrive in the middle.
"""

from collections.abc import Iterable
from typing import NamedTuple, TypeAlias

from weft.compiler.text import clip, columns, preview
from weft.graph.links import link_kind
from weft.graph.mermaid import frame_title
from weft.graph.model import Graph, Group, LinkKind, Member, Vertex
from weft.graph.words import LONGEST, Row, rows_of

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
"""Lanes beyond so much width go into another row."""


class Box(NamedTuple):
    """A box and its rows."""

    x: float
    y: float
    width: float
    height: float
    vertex: Vertex
    rows: tuple[Row, ...]

    def row_y(self, index: int) -> float:
        """The middle of a row."""
        return self.y + TITLE + ROW * index + ROW / 2


class Frame(NamedTuple):
    """A frame; its title stands at the upper left, inside."""

    x: float
    y: float
    width: float
    height: float
    group: Group


class Arrow(NamedTuple):
    """A way, from point to point; the last point has the head."""

    points: tuple[tuple[float, float], ...]
    kind: LinkKind


class Label(NamedTuple):
    """A text, from its left end, on its base line."""

    x: float
    y: float
    text: str


Piece: TypeAlias = Box | Frame | Arrow | Label


class Block(NamedTuple):
    """Pieces in a rectangle that begins at 0, 0."""

    width: float
    height: float
    pieces: tuple[Piece, ...]


def text_width(text: str) -> float:
    """How wide a text is at most."""
    return columns(text) * LETTER


def laid_out(graph: Graph) -> Block:
    """The whole picture, without what carries data."""
    return _stacked([_box(graph.input), _member(graph.root), _box(graph.answer)])


def _member(member: Member) -> Block:
    if isinstance(member, Vertex):
        return _box(member)
    if not member.framed:
        return _inside(member)
    return _framed(member, _inside(member))


def _box(vertex: Vertex) -> Block:
    rows = tuple(rows_of(vertex))
    longest = max([columns(vertex.title) + 1, *(columns(row.text) for row in rows)])
    width = max(longest * LETTER + 2 * PAD, 84.0)
    height = TITLE + ROW * len(rows) + (8.0 if rows else 4.0)
    return Block(width, height, (Box(0.0, 0.0, width, height, vertex, rows),))


def _framed(group: Group, inner: Block) -> Block:
    title = clip(frame_title(group), LONGEST)
    left = BACK if group.kind == "loop" else PAD
    width = max(inner.width + left + max(left, PAD), text_width(title) + 2 * PAD)
    offset = (width - inner.width) / 2
    height = inner.height + 28.0 + (16.0 if group.kind == "loop" else PAD)
    pieces: list[Piece] = [Frame(0.0, 0.0, width, height, group)]
    pieces += [_moved(piece, offset, 28.0) for piece in inner.pieces]
    if group.kind == "loop":
        pieces.append(_back(group, pieces, width, height))
    return Block(width, height, tuple(pieces))


def _back(group: Group, pieces: list[Piece], width: float, height: float) -> Arrow:
    """From below the body round the left side to the head."""
    assert group.head is not None
    head = next(p for p in pieces if isinstance(p, Box) and p.vertex is group.head)
    bottom = height - 8.0
    middle = head.y + head.height / 2
    points = ((width / 2, height - 16.0), (width / 2, bottom), (12.0, bottom), (12.0, middle))
    return Arrow((*points, (head.x, middle)), "again")


def _inside(group: Group) -> Block:
    head = [] if group.head is None else [_box(group.head)]
    match group.kind:
        case "sequence" | "timeout" | "loop":
            return _stacked([*head, *(_member(below) for below in group.members)])
        case "fallback":
            blocks = [_member(below) for below in group.members]
            return _stacked(blocks, "fails", "if it fails")
        case "parallel" | "race":
            return _lanes(group)
        case "route" | "map" | "team":
            return _stacked([*head, _lanes(group)], None)


def _stacked(blocks: list[Block], kind: LinkKind | None = "then", label: str = "") -> Block:
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
                pieces.append(Label(width / 2 + 8.0, top + gap / 2 + 4.0, label))
        if index:
            top += gap
        pieces += _placed(block, (width - block.width) / 2, top)
        top += block.height
    return Block(width, top, tuple(pieces))


def _lanes(group: Group) -> Block:
    """Members side by side, each below its label, in as many rows as they need."""
    labels = group.labels or ("",) * len(group.members)
    lanes = [_lane(group, label, below) for label, below in zip(labels, group.members, strict=True)]
    rows: list[list[Block]] = [[]]
    used = 0.0
    for lane in lanes:
        if rows[-1] and used + LANE + lane.width > WIDEST:
            rows.append([])
            used = 0.0
        used += lane.width + (LANE if rows[-1] else 0.0)
        rows[-1].append(lane)
    made = [_row(row) for row in rows]
    width = max(row.width for row in made)
    pieces: list[Piece] = []
    top = 0.0
    for row in made:
        pieces += _placed(row, (width - row.width) / 2, top)
        top += row.height + LANE
    return Block(width, top - LANE, tuple(pieces))


def _lane(group: Group, label: str, below: Member) -> Block:
    block = _member(below)
    if not label:
        return block
    text = clip(preview(label), LONGEST)
    width = max(block.width, text_width(text))
    arrow = Arrow(((width / 2, LABEL), (width / 2, LABEL + GAP)), link_kind(group, label))
    pieces = (
        Label((width - text_width(text)) / 2, LABEL - 5.0, text),
        arrow,
        *_placed(block, (width - block.width) / 2, LABEL + GAP),
    )
    return Block(width, block.height + LABEL + GAP, pieces)


def _row(lanes: list[Block]) -> Block:
    pieces: list[Piece] = []
    left = 0.0
    for lane in lanes:
        pieces += _placed(lane, left, 0.0)
        left += lane.width + LANE
    return Block(left - LANE, max(lane.height for lane in lanes), tuple(pieces))


def _placed(block: Block, right: float, down: float) -> Iterable[Piece]:
    return (_moved(piece, right, down) for piece in block.pieces)


def _moved(piece: Piece, right: float, down: float) -> Piece:
    if isinstance(piece, Arrow):
        return piece._replace(points=tuple((x + right, y + down) for x, y in piece.points))
    return piece._replace(x=piece.x + right, y=piece.y + down)
