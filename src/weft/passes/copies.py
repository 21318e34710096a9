"""Copies of labelled values: where a value stands in a text, in whichever spelling.

A value that carries a label may come back in other letters: quoted, escaped, encoded, in another
case, or with gaps in it. Values are known by their leaves and by what stands out in them.
"""

import base64
import functools
import json
import re
import unicodedata
import urllib.parse
from collections.abc import Iterable, Iterator, Mapping
from typing import NamedTuple, cast

import msgspec

from weft.late import late_pattern
from weft.values import Json, compact, has_lone_surrogate, scrub

LEAST = 4
"""How many characters a value must have to be looked for; a shorter one occurs by chance."""

_ALONE = 8
"""From how many characters on a value is found inside words too."""

_ENCODED = 6
"""From how many characters on its encodings are looked for."""

_KEPT = 8192
"""For how many texts the hits are remembered."""

_WORDS = late_pattern(r"""[^\s"'<>()\[\]{},;=]{6,}""")

_SOLID = late_pattern(r"[\W_]+")

_DATE = late_pattern(
    r"(?:\d{4}[-/.]\d\d?[-/.]\d\d?|\d\d?[-/.]\d\d?[-/.]\d{4})?T?(?:\d\d?:\d\d(?::\d\d(?:\.\d+)?)?Z?)?"
)

_QUOTED = late_pattern(
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
        hits = self._seen.get(text)
        if hits is None:
            if len(self._seen) >= _KEPT:
                self._seen.clear()
            hits = self._seen[text] = self._find_hits(text)
        return hits

    def in_number(self, number: float) -> tuple[str, ...]:
        """The labels of a value that is this number."""
        return self.values.get(compact(number), ())

    def _find_hits(self, text: str) -> tuple[Hit, ...]:
        """Look for every spelling of every value; a pattern is made only where its letters are."""
        if len(text) < LEAST:
            return ()
        folded = text.casefold()
        solid = _SOLID.sub("", folded)
        # a search by `in` is fast: patterns are made only for what is there
        there = [one for one in self._folded if one.needle in folded]
        there += [one for one in self._exact if one.needle in text]
        there += [one for one in self._squeezed if one.needle in solid]
        if not there:
            return ()
        marks = [match.span() for match in self._marks.finditer(text)]
        hits: list[Hit] = []
        for one in there:
            places = [match.span() for match in _pattern_of(one).finditer(text)]
            if not places and not _by_chance(one, text):
                places = [(0, len(text))]  # it is there, in letters that cannot be told apart
            for start, end in places:
                if not any(rest <= start and end <= right for rest, right in marks):
                    hits.append(Hit(start, end, one.labels))
        return _merge_hits(hits)


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
        for key, inner in value.items():
            # most keys are names of fields, and say nothing; an id as a key does
            if _stands_out(key):
                yield key
            yield from values_in(inner, common=common)
    elif isinstance(value, list):
        for inner in value:
            yield from values_in(inner, common=common)
    elif isinstance(value, str):
        yield from _texts_to_find(value, common=common)
    elif value is not None and not isinstance(value, bool):
        text = compact(value)
        if sum(char.isdigit() for char in text) >= LEAST:
            yield text
            if isinstance(value, int):
                yield f"{value:,}"


def _texts_to_find(text: str, *, common: bool) -> Iterator[str]:
    """What of a text is looked for: all of it, lines, what is quoted, words that stand out."""
    whole = text.strip()
    if len(whole) < LEAST:
        return
    if whole[0] in "{[" and (inner := _parse_json(whole)) is not None:
        yield from values_in(inner, common=common)
    if common or whole.casefold() not in _SAID_BY_ALL:
        yield whole
    # a single word: it has no lines, and no words of its own
    if whole.split(None, 1)[0] == whole:
        return
    for line in whole.splitlines():
        # shorter lines occur by chance
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


def _parse_json(text: str) -> "dict[str, Json] | list[Json] | None":
    """The object or list that a text is; None where it is none."""
    try:
        parsed = cast("Json", msgspec.json.decode(text))
    except (ValueError, RecursionError):
        return None
    return parsed if isinstance(parsed, dict | list) else None


def _spellings(values: Mapping[str, tuple[str, ...]]) -> Iterator[_Value]:
    """Every way in which the values are looked for, each once."""
    seen: dict[tuple[str, bool, bool], list[str]] = {}
    for value, labels in values.items():
        for one in _spell_value(value):
            seen.setdefault(one, []).extend(labels)
    for (needle, exact, squeezed), names in seen.items():
        yield _Value(needle, tuple(sorted(set(names))), exact, squeezed)


def _spell_value(value: str) -> "Iterator[tuple[str, bool, bool]]":
    """Every way to write a value: the letters, whether case counts, whether gaps may be in it."""
    from html import escape  # only secrets are looked for in all spellings

    # half a character cannot be encoded
    if has_lone_surrogate(value):
        yield value.casefold(), False, False
        value = scrub(value)  # as it is sent
    plain = {value, unicodedata.normalize("NFC", value), unicodedata.normalize("NFD", value)}
    plain.add(" ".join(value.split()))
    plain |= {
        compact(value)[1:-1],
        json.dumps(value)[1:-1],
        escape(value),
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
        # the first and the last letters also carry bits of what stands around the value
        spare = (before + len(data)) % 3
        core = text[(0, 2, 3)[before] : len(text) - (1 if spare else 0)]
        if len(core) >= _ALONE:
            yield core


@functools.lru_cache(maxsize=4096)
def _pattern_of(one: _Value) -> re.Pattern[str]:
    """The pattern for one spelling; a short one must stand alone, not inside a word."""
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


def _merge_hits(hits: list[Hit]) -> tuple[Hit, ...]:
    """The hits in order; those that overlap are one, with the labels of both."""
    merged: list[Hit] = []
    for hit in sorted(hits):
        if merged and hit.start < merged[-1].end:
            last = merged[-1]
            labels = tuple(sorted({*last.labels, *hit.labels}))
            merged[-1] = Hit(last.start, max(last.end, hit.end), labels)
        else:
            merged.append(hit)
    return tuple(merged)
