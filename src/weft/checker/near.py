"""Names that look alike: what somebody who misspelt one may have meant."""

import difflib
import functools
from collections.abc import Iterable

MOST = 20
"""How many names are listed."""


def meant(name: str, names: Iterable[str], *, quote: str = "`") -> str:
    """A hint with the one or two names that are near; nothing where none is."""
    near = close(name, names, most=2, cutoff=0.6)
    if len(near) == 2 and _likeness(name, near[0]) - _likeness(name, near[1]) > 0.1:
        near = near[:1]
    words = " or ".join(f"{quote}{one}{quote}" for one in near)
    return f"did you mean {words}?" if words else ""


def close(name: str, names: Iterable[str], *, most: int = 1, cutoff: float) -> list[str]:
    """The names that are like this one, the likest first."""
    size, letters = len(name), _letters(name)
    near = [
        one
        for one in names
        if (letters ^ _letters(one)).bit_count() <= (1 - cutoff) * (size + len(one))
    ]  # a letter that only one of the two has is in no match: most names need no closer look
    return difflib.get_close_matches(name, near, n=most, cutoff=cutoff)


def is_slip(name: str, other: str) -> bool:
    """Whether one name is the other with a slip of the finger: a letter more, less or swapped.

    Names that are meant to differ are none: by a number, by a plural, by a short word in them.
    """
    if name == other or min(len(name), len(other)) < 4 or abs(len(name) - len(other)) > 1:
        return False
    shorter, longer = sorted((name, other), key=len)
    if longer in (f"{shorter}s", f"{shorter}_"):
        return False
    ours, theirs = name.split("_"), other.split("_")
    if len(ours) == len(theirs):
        differ = [(one, two) for one, two in zip(ours, theirs, strict=True) if one != two]
        if any(min(len(one), len(two)) < 3 for one, two in differ):
            return False
        plural = any(f"{one}s" == two or one == f"{two}s" for one, two in differ)
        if plural and len(differ) == 1:
            return False
    if any(letter.isdigit() for letter in {*name} ^ {*other}):
        return False
    return _one_slip(shorter, longer)


def _one_slip(shorter: str, longer: str) -> bool:
    start = 0
    while start < len(shorter) and shorter[start] == longer[start]:
        start += 1
    left, right = shorter[start:], longer[start:]
    if len(shorter) < len(longer):
        return left == right[1:]
    swapped = left[:2] == right[1::-1] and left[2:] == right[2:]
    return left[1:] == right[1:] or swapped


def few(names: Iterable[str]) -> str:
    """The first of many names, and how many more there are."""
    known = sorted(names)
    more = f" and {len(known) - MOST} more" if len(known) > MOST else ""
    return ", ".join(known[:MOST]) + more


@functools.lru_cache(maxsize=4096)
def _letters(name: str) -> int:
    """The letters of a name, as bits."""
    found = 0
    for letter in name:
        found |= 1 << (ord(letter) & 63)
    return found


def _likeness(one: str, other: str) -> float:
    return difflib.SequenceMatcher(None, one, other).ratio()
