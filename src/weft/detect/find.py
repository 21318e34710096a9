"""Look for several kinds at once."""

import re
import unicodedata
from collections.abc import Iterable, Sequence
from functools import lru_cache
from typing import NamedTuple

from weft.detect.found import Found
from weft.detect.kinds import DETECTORS, KINDS
from weft.detect.patterns import Pattern, search

PLACEHOLDER = re.compile(r"<[A-Z][A-Z0-9_]{1,40}_[0-9a-f]{10}>")
"""What stands for a value that was taken out; nothing is looked for inside it."""

_BLANK = "\ue000"

_DIGIT = re.compile(r"[0-9]")


def find(text: str, kinds: Iterable[str], patterns: Sequence[Pattern] = ()) -> list[Found]:
    """What of these kinds stands in the text: in order, nothing twice.

    Where finds overlap, the longest gives its kind and the union of all is one find, so that no
    part of any of them stays behind.
    """
    wanted = set(kinds)
    looked = PLACEHOLDER.sub(_blanked, text) if "<" in text else text
    found = [
        Found(pattern.name, start, end, text[start:end])
        for pattern in patterns
        for start, end in search(pattern, looked)
    ]
    if not wanted or text.isspace():
        return _apart(found, text)
    read = plain(looked)
    numbered = _DIGIT.search(read.text) is not None
    for detector in DETECTORS:
        if detector.kind not in wanted or (detector.numbered and not numbered):
            continue
        for span in detector.look(read.text):
            start, end = read.span(*span)
            if end > start:
                found.append(Found(detector.kind, start, end, text[start:end]))
    return _apart(found, text)


def _blanked(match: re.Match[str]) -> str:
    return _BLANK * len(match.group())


_TRUST = {kind: at for at, kind in enumerate(KINDS)}


def _apart(found: list[Found], text: str) -> list[Found]:
    """The finds merged until none overlaps another, in the order of the text."""
    if len(found) < 2:
        return found
    found.sort(key=lambda each: (each.start, -each.end, _TRUST.get(each.kind, -1)))
    apart = [found[0]]
    for each in found[1:]:
        last = apart[-1]
        if each.start >= last.end:
            apart.append(each)
        elif each.end > last.end:
            longer = last if last.end - last.start >= each.end - each.start else each
            apart[-1] = Found(longer.kind, last.start, each.end, text[last.start : each.end])
    return apart


_ODD = re.compile(
    "[\u00a0\u00ad\u034f\u061c\u0660-\u0669\u06f0-\u06f9\u07c0-\u07c9\u0966-\u1099\u17b4\u17b5"
    "\u17e0-\u17e9\u180e-\u1819\u1946-\u194f\u19d0-\u19d9\u1a80-\u1a99\u1b50-\u1b59\u1bb0-\u1bb9"
    "\u1c40-\u1c59\u2000-\u2015\u2028-\u202f\u205f-\u2064\u2212\u3000\ua620-\uabf9\ufe00-\ufe0f"
    "\ufeff\uff01-\uff5e\U000104a0-\U000104a9\U0001d7ce-\U0001d7ff]"
)

_INVISIBLE = re.compile(
    "[\u00ad\u034f\u061c\u17b4\u17b5\u180b-\u180e\u200b-\u200f\u202a-\u202e\u2060-\u2064"
    "\ufe00-\ufe0f\ufeff]"
)

_BLANKS = (
    "\u00a0\u2000\u2001\u2002\u2003\u2004\u2005\u2006\u2007\u2008\u2009\u200a\u202f\u205f\u3000"
)

_HYPHENS = "\u2010\u2011\u2012\u2013\u2212"


class Plain(NamedTuple):
    """A text in plain characters, and where each of them stands in the text it is of."""

    text: str
    places: list[int] | None

    def span(self, start: int, end: int) -> tuple[int, int]:
        """Where a stretch of the plain text stands in the text it is of."""
        if self.places is None or end <= start:
            return start, end
        return self.places[start], self.places[end - 1] + 1


def plain(text: str) -> Plain:
    """The text with look-alikes of ASCII replaced, and what cannot be seen left out."""
    if text.isascii() or _ODD.search(text) is None:
        return Plain(text, None)
    places = None
    if _INVISIBLE.search(text) is not None:
        places = [at for at, each in enumerate(text) if _INVISIBLE.match(each) is None]
        text = "".join(text[at] for at in places)
    return Plain(text.translate(_replacements()), places)


@lru_cache(1)
def _replacements() -> dict[int, str]:
    """What stands for each character that looks like one of ASCII."""
    made = {full: chr(full - 0xFEE0) for full in range(0xFF01, 0xFF5F)}
    made.update((ord(each), " ") for each in _BLANKS)
    made.update((ord(each), "-") for each in _HYPHENS)
    for first, last in ((0x0660, 0x1C59), (0xA620, 0xABF9), (0x104A0, 0x104A9), (0x1D7CE, 0x1D7FF)):
        for code in range(first, last + 1):
            digit = unicodedata.decimal(chr(code), None)
            if digit is not None:
                made[code] = str(digit)
    return made
