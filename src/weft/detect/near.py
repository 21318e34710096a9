"""Words that stand beside a value and say what it is.

A row of nine digits may be anything; after "tax file number" it is one thing. A detector
whose shape alone is too common asks here before it reports.
"""

import re
from collections.abc import Iterator
from re import Pattern

BEFORE = 48
AFTER = 14


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
    """Where a text holds any of the others."""
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
