"""Words that stand beside a value and say what it is.

A row of nine digits may be anything; after "tax file number" it is one thing. A detector
whose shape alone is too common asks here before it reports.
"""

import re
from re import Pattern

BEFORE = 48
AFTER = 14


def words(*alternatives: str) -> Pattern[str]:
    """A pattern that finds any of the alternatives as whole words, in any case."""
    return re.compile(rf"(?<!\w)(?:{'|'.join(alternatives)})(?!\w)", re.IGNORECASE)


def is_near(
    label: Pattern[str], text: str, start: int, end: int, *, before: int = BEFORE, after: int = 0
) -> bool:
    """Whether the label stands shortly before the value, or after it within `after`."""
    if label.search(text, max(0, start - before), start) is not None:
        return True
    return after > 0 and label.search(text, end, end + after) is not None
