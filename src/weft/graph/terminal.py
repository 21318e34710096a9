"""A picture in a terminal: boxes drawn with characters, never wider than the page.

Every member becomes a block of lines. One after the other they are stacked; what runs side by
side stands side by side where there is room, and is stacked where there is none.
"""

from collections.abc import Iterator
from typing import NamedTuple

from weft.compiler.report import clip, columns, preview
from weft.graph.mermaid import frame_title
from weft.graph.model import BoxRow, Graph, Group, Member, Vertex, join_names, rows_of

WIDTH = 100
NARROWEST = 28
"""Below this number of columns frames lose their sides, so that what is inside keeps some room."""


class Strokes(NamedTuple):
    """The characters of a drawing."""

    across: str = "─"
    down: str = "│"
    corners: tuple[str, str, str, str] = ("┌", "┐", "└", "┘")
    dashed: str = "╌"
    arrow: str = "▼"
    back: str = "↺"
    source: str = "←"
    problem: str = "✗"


ASCII = Strokes("-", "|", ("+", "+", "+", "+"), "-", "v", "^", "<-", "!")


def strokes_for(encoding: str) -> Strokes:
    """The characters that an encoding can carry."""
    try:
        "".join("".join(stroke) for stroke in Strokes()).encode(encoding)
    except (UnicodeEncodeError, LookupError):
        return ASCII
    return Strokes()


class TextLines(NamedTuple):
    """Lines of one width. The width is kept, since measuring takes time."""

    width: int
    lines: tuple[str, ...]


def to_text(graph: Graph, *, width: int = WIDTH, ascii_only: bool = False) -> str:
    """The picture in lines of at most `width` columns, and below it what is wrong."""
    draw = _Drawing(graph, ASCII if ascii_only else Strokes())
    block = _stack_blocks(
        [draw.member(member, width) for member in (graph.input, graph.root, graph.answer)],
        draw.strokes.arrow,
    )
    lines = [line.rstrip() for line in block.lines]
    if graph.problems:
        lines.append("")
    for one in graph.problems:
        words = preview(str(one).partition("\n")[0])
        lines += _wrap_text(f"{draw.strokes.problem} {words}", width)
    text = "\n".join(clip(line, width) for line in lines) + "\n"
    return _plain(text) if ascii_only else text


def _plain(text: str) -> str:
    """The text in ASCII, as wide as it was."""
    if text.isascii():
        return text
    ascii_dots = text.replace("…", "~")
    return "".join(char if char.isascii() else "?" * columns(char) for char in ascii_dots)


class _Drawing:
    """What every block needs to know: the characters, and who writes what."""

    def __init__(self, graph: Graph, strokes: Strokes) -> None:
        self.strokes = strokes
        names = {vertex.id: vertex.title for vertex in graph.vertices}
        self._sources: dict[tuple[str, str], list[str]] = {}
        for edge in graph.edges:
            if edge.channel != "conversation":
                sources = self._sources.setdefault((edge.target, edge.key), [])
                sources.append(names[edge.source])

    def member(self, member: Member, room: int) -> TextLines:
        """A member as lines of one width, at most as wide as there is room."""
        if isinstance(member, Vertex):
            return self._box(member, room)
        if not member.is_framed:
            return self._inside(member, room)
        title = frame_title(member)
        # frames within frames would leave no columns for the text
        if room < NARROWEST:
            heading = clip(f"{title}:", room)
            return _stack_blocks([_line(heading), self._inside(member, room)])
        inner = self._inside(member, room - 4)
        if member.kind == "loop":
            inner = _stack_blocks([inner, _line(f"{self.strokes.back} again")])
        across = self.strokes.dashed if member.kind == "fallback" else self.strokes.across
        return self._draw_frame(title, inner, room, across)

    def _box(self, vertex: Vertex, room: int) -> TextLines:
        if vertex.kind in ("input", "answer") and not vertex.writes:
            return _line(clip(f"({vertex.title})", room))
        rows = [clip(self._row(vertex, row), room - 4) for row in rows_of(vertex)]
        mark = f" {self.strokes.problem}" if vertex.problems else ""
        width = max((columns(row) for row in rows), default=0)
        inner = TextLines(width, tuple(_pad_text(row, width) for row in rows))
        return self._draw_frame(f"{vertex.title}{mark}", inner, room, self.strokes.across)

    def _row(self, vertex: Vertex, row: BoxRow) -> str:
        if row.kind != "reads" or row.port is None:
            return row.text
        sources = self._sources.get((vertex.id, row.port.key))
        return (
            f"{row.text} {self.strokes.source} {join_names(tuple(sources))}"
            if sources
            else row.text
        )

    def _inside(self, group: Group, room: int) -> TextLines:
        arrow = self.strokes.arrow
        if group.kind == "fallback":
            arrow = f"{arrow} if it fails"
        head = [] if group.head is None else [self._box(group.head, room)]
        if group.kind in ("sequence", "timeout", "loop", "fallback"):
            return _stack_blocks(
                [*head, *(self.member(below, room) for below in group.members)], arrow
            )
        return _stack_blocks([*head, self._lanes(group, room)], arrow)

    def _lanes(self, group: Group, room: int) -> TextLines:
        """Members side by side, as many in a row as there is room for."""
        rows: list[list[TextLines]] = [[]]
        used = 0
        labels = group.labels or ("",) * len(group.members)
        for label, below in zip(labels, group.members, strict=True):
            block = self.member(below, room)
            if label:
                block = _stack_blocks([_line(clip(preview(label), room)), block])
            # the next row, unless the row is still empty: a block alone is clipped to the room
            if rows[-1] and used + 2 + block.width > room:
                rows.append([])
                used = 0
            used += block.width + (2 if rows[-1] else 0)
            rows[-1].append(block)
        return _stack_blocks([_join_side_by_side(row) for row in rows])

    def _draw_frame(self, title: str, inner: TextLines, room: int, across: str) -> TextLines:
        left_top, right_top, left_bottom, right_bottom = self.strokes.corners
        title = clip(title, max(room - 5, 4))
        taken = columns(title)
        width = max(taken + 1, inner.width)
        side, rest = self.strokes.down, " " * (width - inner.width)
        top = f"{left_top} {title} {across * (width - taken)}{right_top}"
        middle = [f"{side} {line}{rest} {side}" for line in inner.lines]
        bottom = f"{left_bottom}{across * (width + 2)}{right_bottom}"
        return TextLines(width + 4, (top, *middle, bottom))


def _stack_blocks(blocks: list[TextLines], arrow: str = "") -> TextLines:
    """One block under the other, in the middle, an arrow between them."""
    between = _line(arrow) if arrow else None
    width = max(block.width for block in blocks)
    if between is not None and len(blocks) > 1:
        width = max(width, between.width)
    lines: list[str] = []
    for index, block in enumerate(blocks):
        if index and between is not None:
            lines += _centre_block(between, width)
        lines += _centre_block(block, width)
    return TextLines(width, tuple(lines))


def _centre_block(block: TextLines, width: int) -> Iterator[str]:
    margin = (width - block.width) // 2
    before, after = " " * margin, " " * (width - margin - block.width)
    return (f"{before}{line}{after}" for line in block.lines)


def _join_side_by_side(blocks: list[TextLines]) -> TextLines:
    height = max(len(block.lines) for block in blocks)
    filled = [
        (*block.lines, *(" " * block.width for _ in range(height - len(block.lines))))
        for block in blocks
    ]
    width = sum(block.width for block in blocks) + 2 * (len(blocks) - 1)
    return TextLines(width, tuple("  ".join(row) for row in zip(*filled, strict=True)))


def _line(text: str) -> TextLines:
    return TextLines(columns(text), (text,))


def _pad_text(text: str, width: int) -> str:
    return text + " " * (width - columns(text))


def _wrap_text(text: str, width: int) -> Iterator[str]:
    line = ""
    for word in text.split():
        if line.strip() and columns(line) + 1 + columns(word) > width:
            yield line
            line = f"    {word}"
        else:
            line = f"{line} {word}" if line else word
    yield line
