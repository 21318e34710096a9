"""JSON: keys stay, long lists keep their ends, long texts say how long they were."""

import re
from collections.abc import Callable, Mapping
from functools import lru_cache
from typing import NamedTuple

from weft.digest.cut import Count, head_of
from weft.digest.lines import trouble_in
from weft.values import Json, JsonObject, compact

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
