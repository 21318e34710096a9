"""Spans of values in a text, and helpers that all finders share."""

import re
import sys
from collections.abc import Callable, Iterator
from functools import cache
from re import Pattern
from typing import NamedTuple


class Detection(NamedTuple):
    """One value in a text: its kind, where it stands, and how it is spelled there."""

    kind: str
    start: int
    end: int
    value: str


class Span(NamedTuple):
    """The position of a value in a text."""

    start: int
    end: int


Look = Callable[[str], Iterator[Span]]
"""Finds the values of one kind in a text, in time proportional to the text."""


class Kind(NamedTuple):
    """A kind of value, and how to find it.

    `shaped` kinds have a form that tells them: a checksum, a prefix, a label in front. The others
    are guesses from words. `numbered` kinds have a digit in every value, so a text without digits
    is skipped. If two kinds claim the same place, the one earlier in the table wins.
    """

    name: str
    look: Look
    about: str
    secret: bool = False
    shaped: bool = True
    numbered: bool = True


BEFORE = 48
"""How many characters before a value a label may stand."""

_INSIDE = r"(?<=(?-i:[a-z]))(?=(?-i:[A-Z]))"

BEGIN = rf"(?:(?<![^\W_])|{_INSIDE})"
"""Where a word begins: names of fields such as `home_phone` and `homePhone` are two words."""

END = rf"(?:(?![^\W_])|{_INSIDE})"
"""Where a word ends."""


def words(*alternatives: str) -> Pattern[str]:
    """A pattern that finds any of the alternatives as whole words, in any case.

    A blank in an alternative stands for a blank, an underscore, a hyphen or nothing.
    """
    joined = "|".join(alternatives).replace(" ", "[ _-]?")
    return re.compile(rf"{BEGIN}(?:{joined}){END}", re.IGNORECASE)


def lowered(text: str) -> str:
    """The text in lower case, every letter in its place; as it is where one would become two."""
    lower = text.lower()
    return lower if len(lower) == len(text) else text


def places(text: str, *wanted: str) -> Iterator[int]:
    """The spans where a text contains any of the others."""
    for each in wanted:
        at = text.find(each)
        while at >= 0:
            yield at
            at = text.find(each, at + 1)


def is_near(
    label: Pattern[str], text: str, start: int, end: int, *, before: int = BEFORE, after: int = 0
) -> bool:
    """Whether the label stands shortly before the value, or after it within `after`."""
    if label.search(text, max(0, start - before), start) is not None:
        return True
    return after > 0 and label.search(text, end, end + after) is not None


def _ranges(wanted: list[int]) -> str:
    """The code points as the inside of a character class."""
    parts: list[str] = []
    at = 0
    while at < len(wanted):
        end = at
        while end + 1 < len(wanted) and wanted[end + 1] == wanted[end] + 1:
            end += 1
        parts.append(f"\\U{wanted[at]:08x}-\\U{wanted[end]:08x}")
        at = end + 1
    return "".join(parts)


@cache
def capitals() -> str:
    """The capital letters of Latin, Greek, Cyrillic and Armenian, for use inside `[...]`."""
    return "A-Z" + _ranges(
        [each for each in range(0xC0, min(0x2000, sys.maxunicode)) if chr(each).isupper()]
    )


def table(text: str) -> frozenset[str]:
    """The words of a text."""
    return frozenset(text.split())


def word_lists(name: str) -> dict[str, list[str]]:
    """The lists of words in a data file of this package, by their headings."""
    from importlib.resources import files

    lists: dict[str, list[str]] = {}
    heading = ""
    for line in (files("weft.detect") / "data" / f"{name}.txt").read_text("utf-8").splitlines():
        if line.startswith("["):
            heading = line.strip("[]")
            lists[heading] = []
        elif line and not line.startswith("#"):
            lists[heading] += line.split()
    return lists
