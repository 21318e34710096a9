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
