"""Look for several kinds at once."""

import re
from collections.abc import Iterable, Sequence

from weft.detect.found import Found
from weft.detect.kinds import DETECTORS, KINDS
from weft.detect.patterns import Pattern, search
from weft.detect.plain import plain

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
