"""Digests by shape: which way a text or a value is made shorter.

At the end, JSON: its keys stay, long lists keep their ends, long texts say how long they were.
"""

import re
from collections import OrderedDict
from collections.abc import Callable, Container, Mapping
from functools import lru_cache
from threading import Lock
from typing import Generic, NamedTuple, TypeVar

import msgspec

from weft.digest.asked import (
    GAP,
    NOTHING,
    Asked,
    NumberedWindow,
    choose_hits,
    choose_window,
    fits,
    window_of,
    with_failures,
    with_paths,
)
from weft.digest.cut import Count, Shape, cut_text, head_of
from weft.digest.lines import (
    NAMED,
    Line,
    Mark,
    choose_lines,
    hidden_count,
    hidden_lines,
    hidden_rows,
    hidden_text,
    trouble_in,
)
from weft.digest.texts import base64_digest, is_numbered, lines_of, parsed_json, shape_of
from weft.values import Json, JsonObject, compact

_WINDOWS = ("code", "text", "log")
"""Shapes that a window of numbered lines may be taken for."""

UNASKED = 0.37
"""The share of the room for a window that has nothing of what was asked."""

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
        names, count = (self.asked or NOTHING).names, self.count
        text = compact(value)
        key = ("json", text, limit, count, tuple(names.items()))
        known = _digests.get(key)
        if known is not None:
            return known
        short = reduced_json(value, limit=limit, count=count, text=_as_text, names=names)
        digest: Digest = short, "json", _gone(value)
        _digests.add(key, digest, len(text))
        return digest

    def text(self, text: str, limit: int, size: int | None = None) -> Digest:
        """A text within so many tokens, in the way that keeps its shape; it has `size` of them."""
        shape, count = _shape_of(text), self.count
        # what matters of a window is less than what there is room for
        if self.asked is not None and shape in _WINDOWS and (window := window_of(text)):
            return self._window(window, self.asked, limit) or self._unasked(text, limit, size)
        # with more than 64 letters a token it surely does not fit: it need not be counted
        if len(text) <= limit * 64 and (count(text) if size is None else size) <= limit:
            return text, shape, ""
        if not text.strip():
            return "", shape, f"{len(text):,} blanks"
        # names that are known count only where nothing was asked
        if self.asked is None and self.known != frozenset():
            return self._reduced(text, shape, limit)
        key = (text, limit, count, _key_of(self.asked))
        digest = _digests.get(key)
        if digest is None:
            digest = self._reduced(text, shape, limit)
            _digests.add(key, digest, len(text))
        return digest

    def _reduced(self, text: str, shape: Shape, limit: int) -> Digest:
        """A text that does not fit, in short."""
        count = self.count
        if shape == "json":
            reduced, _, left_out = self.json(parsed_json(text), limit)
            # None: not even the least of it fits
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
        lines = _lines_of(text, shape)
        if self.asked is not None:
            lines = _fitting(with_paths(with_failures(lines)), self.asked)
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

    def _unasked(self, text: str, limit: int, size: int | None) -> Digest:
        """A window that has nothing of what was asked, as any other text."""
        return Digester(self.count, self.known).text(text, int(limit * UNASKED), size)

    def _window(self, window: NumberedWindow, asked: Asked, limit: int) -> Digest | None:
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


def _key_of(asked: Asked | None) -> _Key | None:
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
        """Keep what was made of a text of so many characters, and let go of the oldest."""
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
    """How much a JSON value held before, in words."""
    if isinstance(value, list):
        return f"some of {len(value):,} items"
    if isinstance(value, dict):
        return f"some of {len(value):,} keys" if len(value) > 1 else "some of it"
    return "some of it"


# --- JSON

ReduceText = Callable[[str, int, Count], str]

_TELLING = re.compile(
    r"^(?:id|uid|uuid|key|name|title|status|state|type|kind|code|error|errors|message|reason|path"
    r"|file|url|uri|email|date|time|total|count|price|amount|result|ok|success|next|cursor)$"
    r"|(?:_|^)(?:id|ids|name|number|status|error|code|key|path|type)$|Id$|Name$|Status$|Error$",
    re.IGNORECASE,
)
_LONG = 320
"""A text of so many characters is a document of its own, and reduced by its shape."""
_DOCUMENTS = 6
"""How many long texts are reduced each by its own shape; of more, none is."""
_NO_NAMES: Mapping[str, float] = {}
_ASKED = 0.8
"""From which weight on a name that was asked for makes a row matter."""
_RARE = 4
"""A name that more rows have does not tell them apart."""


class Detail(NamedTuple):
    """How much of a value is shown."""

    rows: int
    letters: int
    keys: int
    depth: int


_LADDER = tuple(
    Detail(rows, letters, keys, depth)
    for rows, letters, keys, depth in (
        (1, 8, 2, 1), (1, 12, 3, 2), (1, 12, 3, 3), (1, 16, 4, 3),
        (2, 16, 4, 3), (2, 24, 6, 3), (2, 32, 8, 3), (2, 40, 8, 4),
        (3, 40, 10, 4), (3, 60, 12, 5), (3, 100, 16, 6), (4, 60, 16, 6),
        (4, 100, 20, 6), (5, 80, 20, 8), (6, 100, 24, 8), (6, 200, 24, 8),
        (8, 120, 32, 8), (8, 300, 32, 10), (10, 200, 40, 10), (12, 120, 40, 10),
        (12, 400, 48, 10), (16, 300, 48, 12), (20, 200, 64, 12), (20, 600, 64, 12),
        (30, 400, 64, 16), (40, 300, 100, 16), (60, 300, 100, 20), (80, 600, 200, 20),
        (120, 600, 200, 30), (200, 1000, 300, 40), (400, 2000, 600, 60), (1000, 4000, 2000, 100),
    )
)  # fmt: skip


def reduced_json(
    value: Json,
    *,
    limit: int,
    count: Count,
    text: ReduceText,
    names: Mapping[str, float] = _NO_NAMES,
) -> Json:
    """The value within `limit` tokens as compact JSON; None where nothing of it fits.

    Fields that have one of these names come first, and rows that say one of them stay.
    """
    documents: list[str] = []
    _gather_documents(value, documents, 0)
    if 1 <= len(documents) <= _DOCUMENTS:
        whole = _with_documents(value, documents, limit, count, text, names)
        if whole is not None:
            return whole
    return _in_most_detail(value, {}, limit, count, names)[0]


def _in_most_detail(
    value: Json,
    texts: dict[str, str],
    limit: int,
    count: Count,
    names: Mapping[str, float],
) -> tuple[Json, Detail]:
    """The value in as much detail as fits; None where not even the least does."""
    best: Json = None
    rows = _RowTexts(names)
    low, high = 0, len(_LADDER) - 1
    while low <= high:
        middle = (low + high) // 2
        reduced = _Shower(_LADDER[middle], texts, rows).reduced(value, 0)
        if count(compact(reduced)) <= limit:
            best, low = reduced, middle + 1
        else:
            high = middle - 1
    return best, _LADDER[max(0, low - 1)]


def _with_documents(
    value: Json,
    documents: list[str],
    limit: int,
    count: Count,
    text: ReduceText,
    names: Mapping[str, float],
) -> Json:
    """The value with its few long texts reduced, each by its own shape, to what room is left."""
    # half for what stands around the texts, the rest for the texts
    frame, detail = _in_most_detail(value, dict.fromkeys(documents, ""), limit // 2, count, names)
    if frame is None:
        return None
    room = limit - count(compact(frame)) - 4
    rows = _RowTexts(names)

    def spelled(part: str) -> int:
        return count(compact(part))

    for _ in range(6):
        if room < 12 * len(documents):
            return None
        short = _shared_out(documents, room, spelled, text)
        whole = _Shower(detail, short, rows).reduced(value, 0)
        over = count(compact(whole)) - limit
        if over <= 0:
            return whole
        room -= over + 4
    return None


def _shared_out(documents: list[str], room: int, count: Count, text: ReduceText) -> dict[str, str]:
    """Every text in its share of the room; what a short one does not need goes to the others."""
    short: dict[str, str] = {}
    for place, document in enumerate(sorted(documents, key=len)):
        share = room // (len(documents) - place)
        short[document] = text(document, share, count)
        room -= count(short[document])
    return short


def _gather_documents(value: Json, documents: list[str], depth: int) -> None:
    if len(documents) > _DOCUMENTS or depth > 12:
        return
    if isinstance(value, str):
        if len(value) >= _LONG and value not in documents:
            documents.append(value)
    elif isinstance(value, (list, dict)):
        for item in value[:200] if isinstance(value, list) else value.values():
            if isinstance(item, (list, dict)) or (isinstance(item, str) and len(item) >= _LONG):
                _gather_documents(item, documents, depth + 1)


class _RowTexts:
    """The rows of one value as texts, and which of them tell of trouble: found out once.

    A value is tried in one detail after the other, and its rows stay the same.
    """

    def __init__(self, names: Mapping[str, float]) -> None:
        self.names = names
        self._texts: dict[int, str] = {}
        self._troubled: dict[int, bool] = {}

    def troubled(self, rows: list[Json]) -> list[Json]:
        """The first row that tells of trouble; of very many only the first are looked at."""
        for row in rows[:200]:
            is_troubled = self._troubled.get(id(row))
            if is_troubled is None:
                is_troubled = self._troubled[id(row)] = trouble_in(self._text(row)) >= 5.0
            if is_troubled:
                return [row]
        return []

    def asked_for(self, rows: list[Json]) -> list[Json]:
        """Rows that say a telling name that was asked for, and that few others say."""
        telling = [name for name, weight in self.names.items() if weight >= _ASKED]
        if not telling:
            return []
        texts = [self._text(row).lower() for row in rows[:200]]
        rare = [name for name in telling if 0 < sum(name in text for text in texts) <= _RARE]
        if not rare:
            return []
        return [rows[at] for at, text in enumerate(texts) if any(name in text for name in rare)]

    def _text(self, row: Json) -> str:
        text = self._texts.get(id(row))
        if text is None:
            text = self._texts[id(row)] = compact(row)[:2_000]
        return text


class _Shower(NamedTuple):
    """Shows a value in some detail, long texts as they were reduced before."""

    detail: Detail
    texts: dict[str, str]
    rows: _RowTexts

    def reduced(self, value: Json, depth: int) -> Json:
        """The value; what is too much is replaced by its size."""
        if isinstance(value, str):
            if len(value) < _LONG:  # no document
                return _shortened(value, self.detail.letters)
            known = self.texts.get(value)
            return _shortened(value, self.detail.letters) if known is None else known
        if isinstance(value, list):
            return self._list(value, depth) if value else value
        if isinstance(value, dict):
            return self._object(value, depth) if value else value
        return value

    def _list(self, rows: list[Json], depth: int) -> Json:
        if depth >= self.detail.depth:
            return f"[{len(rows):,} items]"
        most = self.detail.rows if depth < 2 else max(1, self.detail.rows // 2)
        if len(rows) <= most + 1:
            return [self.reduced(row, depth + 1) for row in rows]
        last = most // 3
        first = most - last
        middle = rows[first : len(rows) - last]
        first_rows = [self.reduced(row, depth + 1) for row in rows[:first]]
        first_rows.append(f"… {len(middle):,} more{_called(middle, self.detail)} …")
        stay = self.rows.asked_for(middle)[: max(1, most // 2)]
        if most >= 3:
            stay += [row for row in self.rows.troubled(middle) if row not in stay]
        first_rows += [self.reduced(row, depth + 1) for row in stay]
        return first_rows + [self.reduced(row, depth + 1) for row in rows[len(rows) - last :]]

    def _object(self, fields: JsonObject, depth: int) -> Json:
        most = self.detail.keys
        if depth >= self.detail.depth:
            return f"{{{len(fields):,} keys}}"
        keys, omitted = list(fields), list[str]()
        if len(keys) > most + 1:
            names = self.rows.names
            ranked = sorted(
                keys,
                key=lambda key: (
                    key.lower() not in names,
                    not _is_telling(key),
                    _is_large(fields[key]),
                ),
            )
            stay = set(ranked[:most])
            omitted = [key for key in keys if key not in stay]
            keys = [key for key in keys if key in stay]
        letters = max(60, self.detail.letters)
        fields_kept: JsonObject = {
            _shortened(key, letters): self.reduced(fields[key], depth + 1) for key in keys
        }
        if omitted:
            named = ", ".join(_shortened(key, 40) for key in omitted[:most])
            fields_kept["…"] = f"{len(omitted):,} more keys: {named}" + (
                ", …" if len(omitted) > most else ""
            )
        return fields_kept


def _shortened(text: str, letters: int) -> str:
    if len(text) <= letters + 16:
        return text
    head = head_of(text, letters)
    return f"{head}… (+{len(text) - len(head):,} characters)"


def _called(rows: list[Json], detail: Detail) -> str:
    """What the rows that are left out are called, as far as there is room."""
    names: list[str] = []
    for row in rows[: detail.rows * 4]:
        fields = row if isinstance(row, dict) else {"id": row}
        for key, field_value in fields.items():
            if (
                _is_telling(key)
                and isinstance(field_value, str | int)
                and len(str(field_value)) <= 24
            ):
                names.append(str(field_value))
                break
    if not names or detail.rows < 2:
        return ""
    return ": " + ", ".join(names) + (", …" if len(names) < len(rows) else "")


@lru_cache(maxsize=2048)
def _is_telling(key: str) -> bool:
    return _TELLING.search(key[:80]) is not None


def _is_large(value: Json) -> bool:
    return isinstance(value, list | dict) or (isinstance(value, str) and len(value) > 120)
