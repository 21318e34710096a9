"""Digests by shape: which way a text or a value is made shorter."""

from collections import OrderedDict
from collections.abc import Container
from threading import Lock
from typing import Generic, TypeVar

import msgspec

from weft.digest.asked import (
    GAP,
    NOTHING,
    CallQuery,
    NumberedWindow,
    choose_hits,
    choose_window,
    fits,
    window_of,
    with_failures,
    with_paths,
)
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
from weft.digest.records import reduced_json
from weft.digest.texts import (
    base64_digest,
    is_numbered,
    json_inside,
    lines_of,
    shape_of,
    value_in,
)
from weft.values import Json, compact

_WINDOWS = ("code", "text")
"""Shapes that a window of numbered lines may have; a log or a table is one with numbers too."""

UNASKED = 0.37
"""The share of the room for a window that has nothing of what was asked."""

FITTING = 20.0
"""The weight of a line that fits what was asked as well as one name does."""

Digest = tuple[Json, Shape, str]
"""What is left, the shape it has, and what is not there any more."""


class Digester(msgspec.Struct, frozen=True):
    """Makes digests, by one way to count tokens, for a reader who knows these names.

    What was `asked` makes lines matter that fit it; bare names are then not listed at the end.
    """

    count: Count
    known: Container[str] = frozenset[str]()
    asked: CallQuery | None = None
    most: int | None = None
    """How many tokens a digest may take where its limit would hide the only line of its kind."""

    def json(self, value: Json, limit: int) -> Digest:
        """A JSON value within a number of tokens, as compact JSON."""
        names, count, most = (self.asked or NOTHING).names, self.count, self.most
        text = compact(value)
        key = ("json", text, limit, count, most, tuple(names.items()))
        known = _digests.get(key)
        if known is not None:
            return known
        short = reduced_json(value, limit=limit, count=count, text=_as_text, names=names, most=most)
        digest: Digest = short, "json", _describe_size(value)
        _digests.add(key, digest, len(text))
        return digest

    def text(self, text: str, limit: int, size: int | None = None) -> Digest:
        """A text within a number of tokens, its shape kept; it has `size` of them."""
        shape, count = _shape_of(text), self.count
        # what matters of a window is less than what there is room for
        if self.asked is not None and shape in _WINDOWS and (window := window_of(text)):
            return self._window(window, self.asked, limit) or self._reduce_unasked(
                text, limit, size
            )
        # with more than 64 letters a token it surely does not fit: it need not be counted
        if len(text) <= limit * 64 and (count(text) if size is None else size) <= limit:
            return text, shape, ""
        if not text.strip():
            return "", shape, f"{len(text):,} blanks"
        # names that are known count only where nothing was asked
        if self.asked is None and self.known != frozenset():
            return self._reduce(text, shape, limit)
        key = (text, limit, count, self.most, _key_of(self.asked))
        digest = _digests.get(key)
        if digest is None:
            digest = self._reduce(text, shape, limit)
            _digests.add(key, digest, len(text))
        return digest

    def _reduce(self, text: str, shape: Shape, limit: int) -> Digest:
        """A text that does not fit, in short."""
        count = self.count
        if shape == "json":
            reduced, _, left_out = self.json(value_in(text), limit)
            # None: not even the least of it fits
            if reduced is not None:
                return compact(reduced), shape, left_out
            shape = "text"
        elif (inside := json_inside(text)) is not None:
            before, value, after = inside
            around = count(f"{before}\n\n{after}")
            digester = (
                self
                if self.most is None
                else msgspec.structs.replace(self, most=self.most - around)
            )
            reduced, _, left_out = digester.json(value, max(1, limit - around))
            if reduced is not None:
                return "\n".join((before, compact(reduced), after)), "json", left_out
        if shape == "base64":
            short = cut_text(base64_digest(text), limit=limit, count=count)
            return short, shape, f"{len(text):,} characters of base64"
        if self.asked is not None and shape != "log":
            hits = choose_hits(text, self.asked, limit=limit, count=count)
            if hits is not None:
                return hits, shape, f"the text of some of {len(text.splitlines()):,} hits"
        lines = _lines_of(text, shape)
        if self.asked is not None:
            lines = _weigh_by_query(with_paths(with_failures(lines)), self.asked)
        chosen = choose_lines(
            lines,
            limit=limit,
            count=count,
            mark=_mark(text, shape),
            named=NAMED if self.asked is None else 0.0,
            known=self.known,
            most=self.most,
        )
        total = len(text.splitlines())
        if shape == "html" or total <= 1:
            return chosen.text, shape, f"some of {len(text):,} characters"
        unit = "rows" if shape == "table" else "lines"
        return chosen.text, shape, f"{total - chosen.size:,} of {total:,} {unit}"

    def _reduce_unasked(self, text: str, limit: int, size: int | None) -> Digest:
        """A window that has nothing of what was asked, as any other text."""
        return Digester(self.count, self.known, most=self.most).text(
            text, int(limit * UNASKED), size
        )

    def _window(self, window: NumberedWindow, asked: CallQuery, limit: int) -> Digest | None:
        short = choose_window(window, asked, limit=limit, count=self.count)
        if short is None:
            return None
        # lines are counted one by one, and together they may take more
        if self.count(short) > limit:
            short = cut_text(short, limit=limit, count=self.count, keep="bookend")
        whole = {line for line in short.split("\n") if line != GAP}
        total = len(window.lines)
        gone = sum(line not in whole for line in window.lines)
        return short, "code", f"{gone:,} of {total:,} lines"


_Key = tuple[object, ...]


def _key_of(asked: CallQuery | None) -> _Key | None:
    return (tuple(asked.names.items()), *asked[1:]) if asked is not None else None


_Value = TypeVar("_Value")


class _TextCache(Generic[_Value]):
    """What was worked out of texts in this process, the latest, by what it was made of.

    A session that is compiled again, from its log or under another policy, asks for the same.
    """

    def __init__(self, most: int) -> None:
        self._most = most
        self._size = 0
        self._lock = Lock()
        self._known: OrderedDict[_Key, tuple[_Value, int]] = OrderedDict()

    def get(self, key: _Key) -> _Value | None:
        """What is known by that key."""
        with self._lock:
            known = self._known.get(key)
            if known is None:
                return None
            self._known.move_to_end(key)
            return known[0]

    def add(self, key: _Key, value: _Value, size: int) -> None:
        """Keep what was made of a text, by its number of characters, and drop the oldest."""
        with self._lock:
            # two threads may have worked out the same
            if key not in self._known:
                self._known[key] = value, size
                self._size += size
            while self._size > self._most:
                self._size -= self._known.popitem(last=False)[1][1]


_digests = _TextCache[Digest](most=16_000_000)
"""Bounded by the characters of all texts together."""

_shapes = _TextCache[Shape](most=8_000_000)
_lines = _TextCache[list[Line]](most=2_000_000)
"""A text is digested in more than one size: in full view, and once more when it has become old."""


def _shape_of(text: str) -> Shape:
    shape = _shapes.get((text,))
    if shape is None:
        shape = shape_of(text)
        _shapes.add((text,), shape, len(text))
    return shape


def _lines_of(text: str, shape: Shape) -> list[Line]:
    """The lines of a text with their weights; whoever changes them makes a list of their own."""
    lines = _lines.get((text, shape))
    if lines is None:
        lines = lines_of(text, shape)
        _lines.add((text, shape), lines, len(text))
    return lines


def _weigh_by_query(lines: list[Line], asked: CallQuery) -> list[Line]:
    """The lines, those that fit what was asked with more weight."""
    scores = fits([line.text for line in lines], asked)
    return [
        line._replace(weight=line.weight + FITTING * score) if score else line
        for line, score in zip(lines, scores, strict=True)
    ]


def _as_text(text: str, limit: int, count: Count, most: int | None) -> str:
    """A text inside a JSON value, within its share."""
    short = Digester(count, most=most).text(text, limit)[0]
    assert isinstance(short, str)
    return short


def _mark(text: str, shape: Shape) -> Mark:
    """What stands where something was left out."""
    if shape == "table":
        return hidden_rows
    if shape == "html":
        return hidden_text
    return hidden_count if is_numbered(text) or shape == "log" else hidden_lines


def _describe_size(value: Json) -> str:
    """How much a JSON value held before, in words."""
    if isinstance(value, list):
        return f"some of {len(value):,} items"
    if isinstance(value, dict):
        return f"some of {len(value):,} keys" if len(value) > 1 else "some of it"
    return "some of it"
