"""A picture as SVG that needs nothing beside itself, in light and dark.

Whatever comes from a flow is escaped. Arrow heads are drawn, not referred to, so that several
pictures can stand on one page.
"""

import textwrap
from collections.abc import Iterable, Iterator
from html import escape

from weft.compiler.text import clip, columns, safe
from weft.graph.layout import LETTER, Arrow, Box, Frame, Label, laid_out
from weft.graph.mermaid import frame_title
from weft.graph.model import Channel, Graph
from weft.graph.tracks import End, Track, tracks_of
from weft.graph.words import LONGEST

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
    """The picture as one SVG document: the flow from top to bottom, data beside it."""
    block = laid_out(graph)
    boxes = [piece for piece in block.pieces if isinstance(piece, Box)]
    tracks = tracks_of(graph, boxes, block.width)
    width = max(block.width + tracks.left + tracks.right, 560.0)
    shown: list[Channel] = [
        channel for channel, _ in LEGEND if any(_uses(t, channel) for t in tracks.tracks)
    ]
    notes = list(_notes(graph, width))
    height = block.height + (LINE + 14.0 if shown else 0.0) + LINE * len(notes)
    height += 14.0 if notes else 0.0
    left = MARGIN + tracks.left + (width - block.width - tracks.left - tracks.right) / 2
    full, tall = width + 2 * MARGIN, height + 2 * MARGIN
    body = [
        f'<rect class="paper" width="{_n(full)}" height="{_n(tall)}"/>',
        f'<g transform="translate({_n(left)} {_n(MARGIN)})">',
        *(_frame(piece) for piece in block.pieces if isinstance(piece, Frame)),
        *(line for track in tracks.tracks for line in _track(track)),
        *(_arrow(piece) for piece in block.pieces if isinstance(piece, Arrow)),
        *(_frame_title(piece) for piece in block.pieces if isinstance(piece, Frame)),
        *(_label(piece) for piece in block.pieces if isinstance(piece, Label)),
        *(line for box in boxes for line in _box(box)),
        *(line for track in tracks.tracks for line in _marks(track)),
        "</g>",
        *_below(shown, notes, block.height + MARGIN),
    ]
    return (
        f'<svg xmlns="http://www.w3.org/2000/svg" class="weft" role="img"'
        f' width="{_n(full)}" height="{_n(tall)}" viewBox="0 0 {_n(full)} {_n(tall)}">\n'
        f"<style>\n{STYLE}\n</style>\n" + "\n".join(body) + "\n</svg>\n"
    )


def _box(box: Box) -> Iterator[str]:
    vertex = box.vertex
    wrong = " problem" if vertex.problems else ""
    round_ = 14 if vertex.kind in ("input", "answer", "route", "loop", "map") else 4
    told = "\n".join(str(one) for one in vertex.problems)
    yield f'<g id="{vertex.id}">'
    if told:
        yield f"<title>{_shown(told)}</title>"
    yield (
        f'<rect class="box {vertex.kind}{wrong}" x="{_n(box.x)}" y="{_n(box.y)}"'
        f' width="{_n(box.width)}" height="{_n(box.height)}" rx="{round_}"/>'
    )
    middle = box.x + box.width / 2
    yield (
        f'<text class="title" text-anchor="middle" x="{_n(middle)}" y="{_n(box.y + 16.0)}">'
        f"{_shown(vertex.title)}</text>"
    )
    for index, row in enumerate(box.rows):
        kind = "problem" if row.codes else _colour(row.kind, row.port and row.port.channel)
        yield (
            f'<text class="{kind}" x="{_n(box.x + 12.0)}" y="{_n(box.row_y(index) + 4.0)}">'
            f"{_shown(row.text)}</text>"
        )
    yield "</g>"


def _colour(kind: str, channel: Channel | None) -> str:
    if kind == "hears":
        return "conversation"
    return channel or "dim"


def _frame(frame: Frame) -> str:
    return (
        f'<rect class="frame {frame.group.kind}" x="{_n(frame.x)}" y="{_n(frame.y)}"'
        f' width="{_n(frame.width)}" height="{_n(frame.height)}" rx="8"/>'
    )


def _frame_title(frame: Frame) -> str:
    text = clip(frame_title(frame.group), LONGEST)
    return _text("halo", frame.x + 12.0, frame.y + 18.0, text)


def _label(label: Label) -> str:
    return _text("halo", label.x, label.y, label.text)


def _text(kind: str, x: float, y: float, text: str) -> str:
    return f'<text class="{kind}" x="{_n(x)}" y="{_n(y)}">{_shown(text)}</text>'


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


def _track(track: Track) -> Iterator[str]:
    heights = [end.y for end in track.ends]
    name = f"{track.key}: {track.channel}" if track.key else track.channel
    yield f'<g class="track"><title>{_shown(name)}</title>'
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


def _marks(track: Track) -> Iterator[str]:
    """A dot where a value comes from, an arrow head where it goes."""
    for end in track.ends:
        x = _side(track, end)
        if end.reads:
            yield _head(x, end.y, f"mark {end.channel}", right=not track.right)
        else:
            yield f'<circle class="mark {end.channel}" cx="{_n(x)}" cy="{_n(end.y)}" r="3"/>'


def _side(track: Track, end: End) -> float:
    return end.box.x + (end.box.width if track.right else 0.0)


def _uses(track: Track, channel: Channel) -> bool:
    return track.channel == channel or any(end.channel == channel for end in track.ends)


def _notes(graph: Graph, width: float) -> Iterator[tuple[str, str]]:
    """What is wrong, in lines that fit under the picture."""
    most = int(width / LETTER) - 2
    for one in graph.problems:
        words = " ".join(safe(str(one).partition("\n")[0]).split())
        room = most if words.isascii() else most // 2
        for index, line in enumerate(textwrap.wrap(words, room, subsequent_indent="    ")):
            yield ("problem" if index == 0 else "dim"), line


def _below(
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


def _shown(text: str) -> str:
    """Escaped, without what steers a terminal or no XML may hold."""
    return escape("".join(char for char in safe(text) if char not in "\ufffe\uffff"))


def _n(number: float) -> str:
    return f"{number:.1f}".removesuffix(".0")
