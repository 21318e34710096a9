"""Which lines of a text matter, by its shape."""

import re

from weft.digest.code import code_lines
from weft.digest.cut import Shape
from weft.digest.diffs import diff_lines
from weft.digest.lines import Line
from weft.digest.logs import log_lines
from weft.digest.markup import markup_lines
from weft.digest.prose import prose_lines
from weft.digest.tables import table_lines

_ADDRESS = re.compile(r"data:([\w.+/-]+)")


def lines_of(text: str, shape: Shape) -> list[Line]:
    """The lines of a text with their weights."""
    match shape:
        case "code":
            return code_lines(text)
        case "diff":
            return diff_lines(text)
        case "log":
            return log_lines(text)
        case "html":
            return markup_lines(text)
        case "table":
            return table_lines(text)
        case _:
            return prose_lines(text)


def base64_digest(text: str) -> str:
    """What is left of encoded bytes: how they begin, and how many they are."""
    found = _ADDRESS.match(text)
    size = len(text) * 3 // 4
    kind = f"{found[1]}, " if found else ""
    return f"{text[:24]}… ({kind}about {size:,} bytes of base64)"
