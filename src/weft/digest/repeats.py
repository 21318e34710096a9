"""What stands in view already: a text that repeats it refers to it instead of saying it again.

An editor shows the same window after every change, a search the same lines again. A reference
stands for lines that follow each other in one earlier text just as they do here, letter for
letter, and names them by their numbers there. So whoever has that text puts this one together
again.
"""

import re
from collections.abc import Callable, Iterator, Sequence
from typing import NamedTuple

import msgspec

from weft.late import late_pattern

LEAST = 3
"""How many lines in a row must stand in an earlier text to be looked for."""

NEWEST = 4
"""In how many places three lines are looked at; the newest are nearest to what reads them."""

_BLANKS = late_pattern(r'("(?:[^"\\]|\\.)*")|\s+')


def tightened(text: str) -> str:
    """A JSON text without the blanks between its parts; any other text as it is."""
    if text.lstrip()[:1] not in ("{", "[") or text.rstrip()[-1:] not in ("}", "]"):
        return text
    try:
        # blanks may go only where it is JSON
        msgspec.json.decode(text)
    except (ValueError, RecursionError):
        return text
    return _BLANKS.sub(_unblanked, text)


class LineSource:
    """A text that others may refer to: its lines, its place, and what it is called.

    `event` and `part` say where the log has it, `number` which of all results it is.
    """

    __slots__ = ("event", "handle", "lines", "number", "part", "words")

    def __init__(
        self,
        text: str,
        *,
        event: str = "",
        part: int = 0,
        handle: str = "",
        words: str = "",
        number: int = 0,
    ) -> None:
        self.lines = text.split("\n")
        self.event = event
        self.part = part
        self.handle = handle
        self.words = words
        self.number = number


class Stretch(NamedTuple):
    """So many lines of a text from `start` on, which stand in a source from `line` on."""

    start: int
    size: int
    source: LineSource
    line: int


class _Place(NamedTuple):
    """A line of a source, in a run of lines in view that goes up to `end`."""

    source: LineSource
    line: int
    end: int


_NOWHERE: Sequence[_Place] = ()


class Stock:
    """The lines that stand in view, where each run of them stands; `before` are older ones."""

    def __init__(self, before: "Stock | None" = None) -> None:
        self._before = before
        self._places: dict[tuple[str, ...], list[_Place]] = {}

    def add(self, source: LineSource, runs: Sequence[tuple[int, int]]) -> None:
        """Take in the lines of a source that are in view, from one up to another."""
        known, lines = self._places, source.lines
        for first, end in runs:
            for line in range(first, end - LEAST + 1):
                key = tuple(lines[line : line + LEAST])
                places = known.get(key)
                if places is None:
                    known[key] = [_Place(source, line, end)]
                    continue
                places.append(_Place(source, line, end))
                if len(places) > NEWEST:
                    del places[0]

    def longest(self, lines: Sequence[str], start: int) -> Stretch | None:
        """The longest run in view that the lines have from `start` on; of equals the newest."""
        best: Stretch | None = None
        for source, line, end in reversed(self._known(tuple(lines[start : start + LEAST]))):
            size, most = LEAST, min(end - line, len(lines) - start)
            while size < most and source.lines[line + size] == lines[start + size]:
                size += 1
            if best is None or size > best.size:
                best = Stretch(start, size, source, line)
        return best

    def _known(self, key: tuple[str, ...]) -> Sequence[_Place]:
        own = self._places.get(key, _NOWHERE)
        if self._before is None or len(own) == NEWEST:
            return own
        older = self._before._known(key)
        return [*older, *own][-NEWEST:] if own and older else own or older


def stretches(
    lines: Sequence[str], stock: Stock, is_worth: Callable[[Stretch], bool]
) -> Iterator[Stretch]:
    """What of the lines stands in view, in their order, where a reference is worth it."""
    start = 0
    while start + LEAST <= len(lines):
        stretch = stock.longest(lines, start)
        if stretch is not None and is_worth(stretch):
            yield stretch
            start += stretch.size
        else:
            start += 1


def runs_in(text: str, whole: str) -> tuple[tuple[int, int], ...]:
    """Which lines of a whole text stand in what is left of it, as they are, in their order."""
    if text == whole:
        return ((0, whole.count("\n") + 1),)
    source = LineSource(whole)
    stock = Stock()
    stock.add(source, [(0, len(source.lines))])
    repeated = stretches(text.split("\n"), stock, lambda _: True)
    return tuple((one.line, one.line + one.size) for one in repeated)


def _unblanked(match: re.Match[str]) -> str:
    return match[1] or ""
