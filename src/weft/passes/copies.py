"""Copies: where values stand in a text, as they are or spelled another way.

A value that may not leave is looked for in any case, escaped for JSON, HTML or a URL, in base64 or
hexadecimal, and, where it has digits in it, with other separators. A short value counts only where
it stands by itself, so that `4711` is not found in `147110`.
"""

import base64
import functools
import html
import json
import re
import unicodedata
import urllib.parse
from collections.abc import Iterable, Iterator, Mapping
from typing import NamedTuple, cast

import msgspec

from weft.values import Json, compact

LEAST = 4
"""How many characters a value must have to be looked for; a shorter one occurs by chance."""

_ALONE = 8
"""From how many characters on a value is found inside words too."""

_ENCODED = 6
"""From how many characters on its encodings are looked for."""

_KEPT = 8192
"""How many texts are remembered."""

_WORDS = re.compile(r"""[^\s"'<>()\[\]{},;=]{6,}""")
_SOLID = re.compile(r"[\W_]+")
_DATE = re.compile(
    r"(?:\d{4}[-/.]\d\d?[-/.]\d\d?|\d\d?[-/.]\d\d?[-/.]\d{4})?T?(?:\d\d?:\d\d(?::\d\d(?:\.\d+)?)?Z?)?"
)
_QUOTED = re.compile(
    r""""([^"\n]{6,200})"|'([^'\n]{6,200})'|`([^`\n]{6,200})`"""
    r"""|\[([^\[\]\n]{6,200})\]|\(([^()\n]{6,200})\)|<([^<>\n]{6,200})>"""
)
_SAID_BY_ALL = frozenset(
    (
        "true", "false", "null", "none", "success", "failed", "failure", "error", "errors",
        "active", "inactive", "pending", "done", "okay", "yes", "unknown", "open", "closed",
        "enabled", "disabled", "found", "missing", "valid", "invalid", "string", "object", "number",
        "integer", "boolean", "array", "user", "model", "system", "assistant", "result", "results",
        "value", "type", "name", "status", "code", "message", "text", "data", "list", "item",
        "items", "id",
    )
)  # fmt: skip
"""Words that every result has: they say nothing about anybody."""


class Hit(NamedTuple):
    """A stretch of a text in which values stand, and their labels."""

    start: int
    end: int
    labels: tuple[str, ...]


class _Value(NamedTuple):
    """One way a value may be spelled, and how it is found: `exact` minds upper and lower case."""

    needle: str
    labels: tuple[str, ...]
    exact: bool = False
    squeezed: bool = False


class Copies:
    """Values with their labels, to be found in texts; what was looked through is remembered."""

    def __init__(self, values: Mapping[str, tuple[str, ...]]) -> None:
        self.values = values
        spelled = list(_spellings(values))
        self._squeezed = [one for one in spelled if one.squeezed]
        self._exact = [one for one in spelled if one.exact]
        self._folded = [one for one in spelled if not (one.squeezed or one.exact)]
        names = {name for labels in values.values() for name in labels}
        self._marks = _marks_of(names)
        self._seen: dict[str, tuple[Hit, ...]] = {}

    def hits(self, text: str) -> tuple[Hit, ...]:
        """Where values stand in the text, in order, without overlaps."""
        held = self._seen.get(text)
        if held is None:
            if len(self._seen) >= _KEPT:
                self._seen.clear()
            held = self._seen[text] = self._found(text)
        return held

    def in_number(self, number: float) -> tuple[str, ...]:
        """The labels of a value that is this number."""
        return self.values.get(compact(number), ())

    def _found(self, text: str) -> tuple[Hit, ...]:
        if len(text) < LEAST:
            return ()
        folded = text.casefold()
        solid = _SOLID.sub("", folded)
        there = [one for one in self._folded if one.needle in folded]
        there += [one for one in self._exact if one.needle in text]
        there += [one for one in self._squeezed if one.needle in solid]
        if not there:
            return ()
        marks = [match.span() for match in self._marks.finditer(text)]
        found: list[Hit] = []
        for one in there:
            places = [match.span() for match in _pattern(one).finditer(text)]
            if not places and not _by_chance(one, text):
                places = [(0, len(text))]  # it is there, in letters that cannot be told apart
            for start, end in places:
                if not any(left <= start and end <= right for left, right in marks):
                    found.append(Hit(start, end, one.labels))
        return _merged(found)


def _by_chance(one: _Value, text: str) -> bool:
    """Whether the letters are there without being the value: in a longer word, or far apart."""
    if one.squeezed:
        return True
    short = len(one.needle) < _ALONE
    return short and re.search(re.escape(one.needle), text, re.IGNORECASE) is not None


def mark_of(labels: Iterable[str]) -> str:
    """What stands in place of something that carries these labels."""
    return f"[withheld: {', '.join(sorted(labels))}]"


def values_in(value: Json, *, common: bool) -> Iterator[str]:
    """The texts by which a value can be known again: its leaves, and what stands out in them.

    `common` says whether also words count that are in every result.
    """
    if isinstance(value, dict):
        for key, held in value.items():
            if _stands_out(key):
                yield key
            yield from values_in(held, common=common)
    elif isinstance(value, list):
        for held in value:
            yield from values_in(held, common=common)
    elif isinstance(value, str):
        yield from _texts_in(value, common=common)
    elif value is not None and not isinstance(value, bool):
        text = compact(value)
        if sum(char.isdigit() for char in text) >= LEAST:
            yield text
            if isinstance(value, int):
                yield f"{value:,}"


def _texts_in(text: str, *, common: bool) -> Iterator[str]:
    whole = text.strip()
    if len(whole) < LEAST:
        return
    if whole[0] in "{[" and (held := _parsed(whole)) is not None:
        yield from values_in(held, common=common)
    if common or whole.casefold() not in _SAID_BY_ALL:
        yield whole
    if whole.split(None, 1)[0] == whole:
        return
    for line in whole.splitlines():
        if len(line.strip()) >= 12:
            yield line.strip()
    for match in _QUOTED.finditer(whole):
        yield match[match.lastindex or 0].strip()
    for match in _WORDS.finditer(whole):
        word = match[0].strip(".:!?*_`|")
        for one in dict.fromkeys((word, word.rpartition(":")[2])):
            if _stands_out(one):
                yield one


def _stands_out(word: str) -> bool:
    """Whether a word is one that nobody writes by chance: long enough, with digits in it."""
    return len(word) >= 6 and any(map(str.isdigit, word)) and _DATE.fullmatch(word) is None


def _parsed(text: str) -> "dict[str, Json] | list[Json] | None":
    try:
        held = cast("Json", msgspec.json.decode(text))
    except (ValueError, RecursionError):
        return None
    return held if isinstance(held, dict | list) else None


def _spellings(values: Mapping[str, tuple[str, ...]]) -> Iterator[_Value]:
    """Every way in which the values are looked for, each once."""
    seen: dict[tuple[str, bool, bool], list[str]] = {}
    for value, labels in values.items():
        for one in _ways(value):
            seen.setdefault(one, []).extend(labels)
    for (needle, exact, squeezed), names in seen.items():
        yield _Value(needle, tuple(sorted(set(names))), exact, squeezed)


def _ways(value: str) -> "Iterator[tuple[str, bool, bool]]":
    plain = {value, unicodedata.normalize("NFC", value), unicodedata.normalize("NFD", value)}
    plain.add(" ".join(value.split()))
    plain |= {
        compact(value)[1:-1],
        json.dumps(value)[1:-1],
        html.escape(value),
        urllib.parse.quote(value, safe=""),
    }
    plain |= {urllib.parse.quote_plus(value), value.encode("unicode_escape").decode("ascii")}
    for one in plain:
        if len(one) >= LEAST:
            yield one.casefold(), False, False
    if len(value) < _ENCODED:
        return
    data = value.encode("utf-8", "replace")
    yield data.hex(), False, False
    for core in _base64_cores(data):
        yield core, True, False
        if "+" in core or "/" in core:
            yield core.replace("+", "-").replace("/", "_"), True, False
    solid = _SOLID.sub("", value.casefold())
    if len(solid) >= _ALONE and any(map(str.isdigit, solid)):
        yield solid, False, True


def _base64_cores(data: bytes) -> Iterator[str]:
    """What of a value's base64 is the same wherever the value begins in what was encoded."""
    for before in range(3):
        text = base64.b64encode(bytes(before) + data).decode("ascii").rstrip("=")
        spare = (before + len(data)) % 3
        core = text[(0, 2, 3)[before] : len(text) - (1 if spare else 0)]
        if len(core) >= _ALONE:
            yield core


@functools.lru_cache(maxsize=4096)
def _pattern(one: _Value) -> re.Pattern[str]:
    source = re.escape(one.needle)
    if one.squeezed:
        source = r"[\W_]{0,3}".join(map(re.escape, one.needle))
    elif len(one.needle) < _ALONE:
        source = rf"(?<![^\W_]){source}(?![^\W_])"
    return re.compile(source, 0 if one.exact else re.IGNORECASE)


def _marks_of(names: Iterable[str]) -> re.Pattern[str]:
    """Marks that stand for what was withheld: a value that is a label's name is none in them."""
    some = "|".join(map(re.escape, sorted(names))) or r"(?!)"
    return re.compile(rf"\[withheld: (?:{some})(?:, (?:{some}))*\]")


def _merged(hits: list[Hit]) -> tuple[Hit, ...]:
    merged: list[Hit] = []
    for hit in sorted(hits):
        if merged and hit.start < merged[-1].end:
            last = merged[-1]
            labels = tuple(sorted({*last.labels, *hit.labels}))
            merged[-1] = Hit(last.start, max(last.end, hit.end), labels)
        else:
            merged.append(hit)
    return tuple(merged)
