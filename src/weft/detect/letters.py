"""Character classes that `re` does not know."""

import sys


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


CAPITALS = "A-Z" + _ranges(
    [each for each in range(0xC0, min(0x2000, sys.maxunicode)) if chr(each).isupper()]
)
"""The capital letters of Latin, Greek, Cyrillic and Armenian, for use inside `[...]`."""
