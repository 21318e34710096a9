"""A plain text: its ends, its headings and the lines full of names and numbers stay."""

import re

from weft.digest.lines import Line, bookends
from weft.digest.trouble import trouble_in

_HEADING = re.compile(r"\s{0,3}(?:#{1,6} \S|[A-Z][^.!?]{0,60}:\s*$|(?:={3,}|-{3,})\s*$)")


def prose_lines(text: str) -> list[Line]:
    """The lines with their weights."""
    lines = text.splitlines()
    weights = bookends(lines)
    return [
        Line(line, max(weight, trouble_in(line), 3.0 if _HEADING.match(line[:100]) else 0.0))
        for line, weight in zip(lines, weights, strict=True)
    ]
