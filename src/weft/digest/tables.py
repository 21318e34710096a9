"""A table: the header, the first and the last rows stay, then rows that tell of trouble."""

import re

from weft.digest.lines import Line
from weft.digest.trouble import trouble_in

_RULER = re.compile(r"[\s|:+=-]{3,}")


def table_lines(text: str) -> list[Line]:
    """The rows with their weights."""
    rows = text.splitlines()
    head = next((index for index, row in enumerate(rows) if row.strip()), 0)
    while head + 1 < len(rows) and _RULER.fullmatch(rows[head + 1][:400]):
        head += 1
    last = len(rows) - 1
    out: list[Line] = []
    for index, row in enumerate(rows):
        if index <= head + 1:
            weight = 100.0
        elif index <= head + 3:
            weight = 40.0 - index
        elif index >= last - 1:
            weight = 30.0
        else:
            weight = trouble_in(row)
        out.append(Line(row, weight))
    return out
