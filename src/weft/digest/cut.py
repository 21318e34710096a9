"""Cut a text to so many tokens, at a place where it may be cut."""

import re
from collections.abc import Callable
from typing import Literal

from weft.digest.graphemes import boundary_after, boundary_before

Count = Callable[[str], int]
"""How many tokens a text has."""
Keep = Literal["head", "tail", "bookend"]
Shape = Literal["json", "table", "log", "code", "html", "diff", "base64", "text"]
"""What a value looks like."""

_WORD = 24
"""How far a cut may move so that no word, and so no token, is cut in two."""
_BREAK = re.compile(r"\s\S*\Z")
_BLANK = re.compile(r"\s")


def cut_text(text: str, *, limit: int, count: Count, keep: Keep = "head", mark: str = "…") -> str:
    """The text within `limit` tokens: its head, its tail, or both, with `mark` at the cut.

    What fits is returned as it is. Where not even the mark fits, nothing is left.
    """
    if len(text) <= limit * 64 and count(text) <= limit:
        return text
    if count(mark) > limit:
        return ""
    low, high = 0, min(len(text), 4 * limit + 8)
    while high < len(text) and count(_bookend(text, high, keep, mark)) <= limit:
        low, high = high, high * 2
    high = min(high, len(text))
    while high - low > 1:
        middle = (low + high) // 2
        if count(_bookend(text, middle, keep, mark)) <= limit:
            low = middle
        else:
            high = middle
    while low > 0:
        whole = _bookend(text, low, keep, mark)
        if count(whole) <= limit:
            return whole
        low = low * 15 // 16 - 1  # an estimate need not grow with the text
    return mark.strip()


def head_of(text: str, size: int) -> str:
    """The first `size` characters at most, to the end of a word where one is near."""
    end = boundary_before(text, size)
    if end >= len(text):
        return text
    if not text[end].isspace() and (near := _BREAK.search(text, max(0, end - _WORD), end)):
        end = near.start() or end
    return text[: boundary_before(text, end)]


def tail_of(text: str, size: int) -> str:
    """The last `size` characters at most, from the start of a word where one is near."""
    if size <= 0:
        return ""
    start = boundary_after(text, len(text) - size)
    if 0 < start < len(text) and not text[start - 1].isspace():
        near = _BLANK.search(text, start, start + _WORD)
        start = boundary_after(text, near.end()) if near and near.end() < len(text) else start
    return text[start:]


def _bookend(text: str, size: int, keep: Keep, mark: str) -> str:
    if keep == "head":
        return head_of(text, size) + mark.rstrip()
    if keep == "tail":
        return mark.lstrip() + tail_of(text, size)
    back = size // 3
    return head_of(text, size - back) + mark + tail_of(text, back)
