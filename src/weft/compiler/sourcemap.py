"""The source map: from a place in the request to the block it came from, and its origin.

Places are JSON pointers, with an offset into a string where one is made of several pieces.
Every place resolves: text to its block, options to where they were set, and what only the
wire format needs (role names, type tags) to the dialect.
"""

from collections.abc import Iterator, Sequence
from typing import NamedTuple

from weft.diagnostics import Origin
from weft.dialects import Lowered
from weft.errors import UsageError
from weft.ir import Block, Span, TextBlock
from weft.values import Json, compact

_GAP = len("\n\n")
_BLANK = Origin("dialect", "blank line")


class Segment(NamedTuple):
    """A stretch of the request's compact JSON text, and where it came from."""

    start: int
    end: int
    pointer: str
    origin: Origin


class SourceMap:
    """Answers where each piece of one lowered request came from."""

    def __init__(self, lowered: Lowered) -> None:
        self._lowered = lowered
        self._dialect = Origin("dialect", lowered.dialect)

    def origin(self, pointer: str, offset: int = 0) -> Origin:
        """Where the value at the pointer came from, at this offset if it is a string."""
        value = _value_at(self._lowered.wire, pointer)
        if not isinstance(value, str):
            return self._pieces(pointer, "")[0].origin
        if not 0 <= offset <= len(value):
            raise UsageError(
                f"offset {offset} is outside the {len(value)} characters at {pointer}",
                where="origin",
                hint="offsets count characters from 0",
            )
        pieces = self._pieces(pointer, value)
        return next((piece.origin for piece in pieces if offset < piece.end), pieces[-1].origin)

    def segments(self) -> Iterator[Segment]:
        """The whole request as compact JSON, stretch by stretch, without a gap."""
        yield from self._walk(self._lowered.wire, "", 0)

    def _pieces(self, pointer: str, text: str) -> Sequence[Span]:
        """The stretches of the text at the pointer; of anything else, the one it is."""
        block = self._block(pointer)
        if block is None:
            return self._head_pieces(pointer, text)
        if isinstance(block, TextBlock) and block.spans and len(text) == block.spans[-1].end:
            return block.spans
        return (Span(len(text), block.origin),)

    def _block(self, pointer: str) -> Block | None:
        """The block a place of a turn came from: the one it is in, or the first one below it."""
        steps = _steps(pointer)
        if len(steps) < 2 or steps[0] != self._lowered.turns:
            return None
        index = int(steps[1]) - len(self._lowered.lead)
        if index < 0:
            return None
        entry = self._lowered.entries[index]
        rest = "/".join(["", *steps[2:]])
        inside = [
            (len(suffix), block)
            for suffix, block in entry.blocks
            if rest == suffix or rest.startswith(suffix + "/")
        ]
        if inside:
            return max(inside, key=lambda found: found[0])[1]
        below = [block for suffix, block in entry.blocks if suffix.startswith(rest + "/")]
        return below[0] if below else None

    def _head_pieces(self, pointer: str, text: str) -> Sequence[Span]:
        best: Origin | tuple[TextBlock, ...] | None = None
        longest = -1
        for placed in self._lowered.placed:
            at = placed.pointer
            near = pointer == at or pointer.startswith(at + "/") or at.startswith(pointer + "/")
            if near and len(at) > longest:
                best, longest = placed.source, len(at)
        if best is None or pointer == "":
            return (Span(len(text), self._dialect),)
        if isinstance(best, Origin):
            return (Span(len(text), best),)
        return _system_pieces(best) if text else (Span(0, best[0].origin),)

    def _walk(self, value: Json, pointer: str, at: int) -> Iterator[Segment]:
        """Segments of a value's compact JSON, beginning at `at`."""
        if isinstance(value, dict):
            labelled = [
                (f"{compact(key)}:", f"{pointer}/{_escape(key)}", held)
                for key, held in value.items()
            ]
            yield from self._walk_children(labelled, pointer, at)
        elif isinstance(value, list):
            indexed = [("", f"{pointer}/{index}", held) for index, held in enumerate(value)]
            yield from self._walk_children(indexed, pointer, at)
        elif isinstance(value, str):
            start = 0
            at += 1
            for piece in self._pieces(pointer, value):
                size = len(compact(value[start : piece.end])) - 2
                opening, closing = start == 0, piece.end == len(value)
                yield Segment(at - opening, at + size + closing, pointer, piece.origin)
                at, start = at + size, piece.end
        else:
            yield Segment(at, at + len(compact(value)), pointer, self.origin(pointer))

    def _walk_children(
        self, children: list[tuple[str, str, Json]], pointer: str, at: int
    ) -> Iterator[Segment]:
        here = self.origin(pointer)
        yield Segment(at, at + 1, pointer, here)
        at += 1
        for index, (label, below, held) in enumerate(children):
            lead = len(label) + (1 if index else 0)
            if lead:
                yield Segment(at, at + lead, pointer, here)
                at += lead
            for segment in self._walk(held, below, at):
                yield segment
                at = segment.end
        yield Segment(at, at + 1, pointer, here)


def _system_pieces(blocks: tuple[TextBlock, ...]) -> list[Span]:
    """The stretches of the system text: each block's own, with a blank line between two."""
    pieces: list[Span] = []
    base = 0
    for index, block in enumerate(blocks):
        if index:
            base += _GAP
            pieces.append(Span(base, _BLANK))
        spans = block.spans or (Span(len(block.text), block.origin),)
        pieces += [Span(base + span.end, span.origin) for span in spans]
        base += len(block.text)
    return pieces


def _steps(pointer: str) -> list[str]:
    if not pointer:
        return []
    if not pointer.startswith("/"):
        raise UsageError(
            f"`{pointer}` is not a JSON pointer",
            where="origin",
            hint='write "/messages/0/content"',
        )
    return [step.replace("~1", "/").replace("~0", "~") for step in pointer[1:].split("/")]


def _value_at(wire: Json, pointer: str) -> Json:
    value = wire
    for step in _steps(pointer):
        if isinstance(value, dict) and step in value:
            value = value[step]
        elif isinstance(value, list) and step.isdigit() and int(step) < len(value):
            value = value[int(step)]
        else:
            raise UsageError(
                f"the request has nothing at `{pointer}`",
                where="origin",
                hint="look at Compiled.wire for what is there",
            )
    return value


def _escape(key: str) -> str:
    return key.replace("~", "~0").replace("/", "~1")
