"""Cut a text to a number of tokens, at a place where it may be cut."""

import re
import unicodedata
from collections.abc import Callable
from functools import cache
from typing import Literal

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
    """Cut a text to `limit` tokens: its head, its tail, or both, with `mark` at the cut.

    What fits is returned as it is. Where not even the mark fits, nothing is left.
    """
    if len(text) <= limit * 64 and count(text) <= limit:
        return text
    if count(mark) > limit:
        return ""
    # a token has about four letters: the search begins near the end
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
    # the cut is within a word
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


_AROUND = 24


@cache
def _units() -> re.Pattern[str]:
    """Spellings of one character that mean something else when they are cut."""
    return re.compile(
        r"(?:\\u[dD][89abAB][0-9a-fA-F]{2}\\u[dD][c-fC-F][0-9a-fA-F]{2})"  # a pair, escaped
        r"|(?:\\\\|\\u\{[0-9a-fA-F]{1,6}\}|\\u[0-9a-fA-F]{4}|\\U[0-9a-fA-F]{8}|\\x[0-9a-fA-F]{2}|\\.)"
        r"|(?:\x1b\[[0-9;?]*[A-Za-z])"
        r"|(?:&(?:#\d{1,7}|#[xX][0-9a-fA-F]{1,6}|[A-Za-z][A-Za-z0-9]{1,15});)"
        r"|(?:(?:%[0-9a-fA-F]{2})+)",
        re.DOTALL,
    )


def boundary_before(text: str, index: int) -> int:
    """The last place at or before `index` where the text may be cut."""
    index = min(max(index, 0), len(text))
    while 0 < index < len(text) and not is_boundary(text, index):
        index -= 1
    return index


def boundary_after(text: str, index: int) -> int:
    """The first place at or after `index` where the text may be cut."""
    index = min(max(index, 0), len(text))
    while 0 < index < len(text) and not is_boundary(text, index):
        index += 1
    return index


def is_boundary(text: str, index: int) -> bool:
    """Whether neither a grapheme cluster nor an escape goes on over this place."""
    if index <= 0 or index >= len(text):
        return True
    before, after = text[index - 1], text[index]
    # one line end
    if before == "\r" and after == "\n":
        return False
    # below that nothing is joined to its neighbour
    if (before > "\u02ff" or after > "\u02ff") and _is_joined(text, index, before, after):
        return False
    return not _in_escape(text, index)


def _is_joined(text: str, index: int, before: str, after: str) -> bool:
    if after == "\u200d" or before == "\u200d" or _extends(after):
        return True
    # two halves of one character
    if "\ud800" <= before <= "\udbff" and "\udc00" <= after <= "\udfff":
        return True
    if _is_flag(before) and _is_flag(after):
        start = index
        while start > 0 and _is_flag(text[start - 1]):
            start -= 1
        # a flag is two letters: whether a pair ends here depends on how many stand before
        return (index - start) % 2 == 1
    if "\u0600" <= before <= "\u0605" or before in "\u06dd\u070f\u08e2":  # these begin a number
        return True
    if unicodedata.combining(before) == 9 and unicodedata.category(after) == "Lo":
        return True  # a consonant cluster
    return _hangul(before) + _hangul(after) in ("LL", "LV", "LA", "LB", "VV", "VT", "AV", "AT") or (
        _hangul(before) in ("T", "B") and _hangul(after) == "T"
    )


def _extends(char: str) -> bool:
    return (
        unicodedata.category(char) in ("Mn", "Me", "Mc")
        or "\ufe00" <= char <= "\ufe0f"
        or "\U0001f3fb" <= char <= "\U0001f3ff"
        or "\U000e0020" <= char <= "\U000e007f"
        or char in "\u200c\u0e33\u0eb3"
    )


def _is_flag(char: str) -> bool:
    return "\U0001f1e6" <= char <= "\U0001f1ff"


def _hangul(char: str) -> str:
    """The part a Korean letter plays in its syllable; A and B are whole syllables."""
    if "\uac00" <= char <= "\ud7a3":
        return "A" if (ord(char) - 0xAC00) % 28 == 0 else "B"
    if "\u1100" <= char <= "\u115f" or "\ua960" <= char <= "\ua97c":
        return "L"
    if "\u1160" <= char <= "\u11a7" or "\ud7b0" <= char <= "\ud7c6":
        return "V"
    if "\u11a8" <= char <= "\u11ff" or "\ud7cb" <= char <= "\ud7fb":
        return "T"
    return "-"


def _in_escape(text: str, index: int) -> bool:
    start = max(0, index - _AROUND)
    near = text[start : index + _AROUND]
    if "\\" not in near and "&" not in near and "%" not in near and "\x1b" not in near:
        return False
    while start > 0 and text[start - 1] == "\\":  # an even number of them is not an escape
        start -= 1
    near, at = text[start : index + _AROUND], index - start
    return any(unit.start() < at < unit.end() for unit in _units().finditer(near))
