"""Names in texts without capital letters."""

import re
from collections.abc import Iterator

from weft.detect._given_names import AMBIGUOUS, COMMON
from weft.detect._name_words import NOT_NAMES
from weft.detect.found import Span
from weft.detect.name_cues import is_cued
from weft.detect.name_parts import Word, fold, looks_like_surname, without_possessive

_ANY = re.compile(r"[^\W\d_]+(?:['\u2019\-\u2010][^\W\d_]+)*")
_INITIAL = re.compile(r" [a-z]\.? (?=\w)")
_NAMED = re.compile(r"name is \Z")


def look_in_lower_case(text: str) -> Iterator[Span]:
    """Known given names in a text without capitals, with a surname that looks like one."""
    for match in _ANY.finditer(text):
        low = fold(match.group())
        start, end = match.span()
        given = len(low) > 3 and low in COMMON and low not in AMBIGUOUS
        if not given and not (
            low not in NOT_NAMES and _NAMED.search(text, max(0, start - 8), start)
        ):
            continue
        if not _is_in_identifier(text, start, end):
            yield Span(start, _with_surname(text, start, end))


def _is_in_identifier(text: str, start: int, end: int) -> bool:
    """Whether the word is a part of a host, a path or another name that code uses."""
    after = text[end : end + 2]
    return text[start - 1 : start] in _SIGNS or (after[:1] in _SIGNS and after[1:].isalnum())


_SIGNS = frozenset("._-/@\\=:#$")


def _with_surname(text: str, start: int, end: int) -> int:
    """Where the name ends: after its surname, if it has one."""
    if text[end : end + 1] != " ":
        return end
    initial = _INITIAL.match(text, end)
    follow = _ANY.match(text, initial.end() if initial else end + 1)
    if follow is None:
        return end
    last = Word(follow.group(), fold(follow.group()), *follow.span())
    if initial or looks_like_surname(last):
        return without_possessive(last)
    announced = is_cued(text[max(0, start - 40) : start])
    return without_possessive(last) if announced and last.low not in NOT_NAMES else end
