"""Digests by shape: which way a text or a value is made shorter."""

from collections.abc import Container

import msgspec

from weft.digest.asked import NOTHING, Asked, fits
from weft.digest.cut import Count, Shape, cut_text
from weft.digest.lines import (
    NAMED,
    Line,
    Mark,
    choose_lines,
    hidden_count,
    hidden_lines,
    hidden_rows,
    hidden_text,
)
from weft.digest.objects import reduced_json
from weft.digest.searches import choose_hits, with_failures
from weft.digest.shape import parsed_json, shape_of
from weft.digest.texts import base64_digest, is_numbered, lines_of
from weft.digest.windows import GAP, NumberedWindow, choose_window, window_of
from weft.values import Json, compact

_WINDOWS = ("code", "text", "log")
"""Shapes that a window of numbered lines may be taken for."""

UNASKED = 400
"""How many tokens of a window stay that has nothing of what was asked."""

FITTING = 20.0
"""The weight of a line that fits what was asked as well as one name does."""

Digest = tuple[Json, Shape, str]
"""What is left, the shape it has, and what is not there any more."""


class Digester(msgspec.Struct, frozen=True):
    """Makes digests, by one way to count tokens, for a reader who knows these names.

    What was `asked` makes lines matter that fit it; bare names are then not listed behind.
    """

    count: Count
    known: Container[str] = frozenset[str]()
    asked: Asked | None = None

    def json(self, value: Json, limit: int) -> Digest:
        """A JSON value within so many tokens as compact JSON."""
        names = (self.asked or NOTHING).names
        reduced = reduced_json(value, limit=limit, count=self.count, text=_as_text, names=names)
        return reduced, "json", _gone(value)

    def text(self, text: str, limit: int) -> Digest:
        """A text within so many tokens, in the way that keeps its shape."""
        shape, count = shape_of(text), self.count
        # what matters of a window is less than what there is room for
        if self.asked is not None and shape in _WINDOWS and (window := window_of(text)):
            return self._window(window, self.asked, limit) or self._unasked(text, limit)
        if len(text) <= limit * 64 and count(text) <= limit:
            return text, shape, ""
        if not text.strip():
            return "", shape, f"{len(text):,} blanks"
        if shape == "json":
            reduced, _, left_out = self.json(parsed_json(text), limit)
            if reduced is not None:
                return compact(reduced), shape, left_out
            shape = "text"
        if shape == "base64":
            short = cut_text(base64_digest(text), limit=limit, count=count)
            return short, shape, f"{len(text):,} characters of base64"
        if self.asked is not None and shape in _WINDOWS:
            hits = choose_hits(text, self.asked, limit=limit, count=count)
            if hits is not None:
                return hits, shape, f"the text of some of {len(text.splitlines()):,} hits"
        lines = lines_of(text, shape)
        if self.asked is not None:
            lines = _fitting(with_failures(lines), self.asked)
        chosen = choose_lines(
            lines,
            limit=limit,
            count=count,
            mark=_mark(text, shape),
            named=NAMED if self.asked is None else 0.0,
            known=self.known,
        )
        total = len(text.splitlines())
        if shape == "html" or total <= 1:
            return chosen.text, shape, f"some of {len(text):,} characters"
        unit = "rows" if shape == "table" else "lines"
        return chosen.text, shape, f"{total - chosen.size:,} of {total:,} {unit}"

    def _unasked(self, text: str, limit: int) -> Digest:
        """A window that has nothing of what was asked, as any other text."""
        return Digester(self.count, self.known).text(text, min(limit, UNASKED))

    def _window(self, window: NumberedWindow, asked: Asked, limit: int) -> Digest | None:
        short = choose_window(window, asked, limit=limit, count=self.count)
        if short is None:
            return None
        if self.count(short) > limit:
            short = cut_text(short, limit=limit, count=self.count, keep="bookend")
        whole = {line for line in short.split("\n") if line != GAP}
        total = len(window.lines)
        gone = sum(line not in whole for line in window.lines)
        return short, "code", f"{gone:,} of {total:,} lines"


def _fitting(lines: list[Line], asked: Asked) -> list[Line]:
    """The lines, those that fit what was asked with more weight."""
    scores = fits([line.text for line in lines], asked)
    return [
        line._replace(weight=line.weight + FITTING * score) if score else line
        for line, score in zip(lines, scores, strict=True)
    ]


def _as_text(text: str, limit: int, count: Count) -> str:
    """A text inside a JSON value, within its share."""
    short = Digester(count).text(text, limit)[0]
    assert isinstance(short, str)
    return short


def _mark(text: str, shape: Shape) -> Mark:
    """What stands where something was left out."""
    if shape == "table":
        return hidden_rows
    if shape == "html":
        return hidden_text
    return hidden_count if is_numbered(text) or shape == "log" else hidden_lines


def _gone(value: Json) -> str:
    """What a JSON value was before."""
    if isinstance(value, list):
        return f"some of {len(value):,} items"
    if isinstance(value, dict):
        return f"some of {len(value):,} keys" if len(value) > 1 else "some of it"
    return "some of it"
