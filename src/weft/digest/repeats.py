"""What stands in view already: a text that repeats it says so instead of saying it again.

An editor shows the same window after every change, a search the same lines again. Lines that
are numbered one by one are compared without their numbers, so that a window that moved is known.
"""

import re
from collections.abc import Container, Iterable

import msgspec

LEAST = 3
"""How many lines in a row must be known to be left out."""

LETTERS = 40
"""How many letters they must have together: a mark takes some too."""

ENDS = 6
"""From how many lines on the first and the last are said, so that one sees where they belong."""

_NUMBER = re.compile(r"\s*(\d{1,9})[:|\t ]")
_MARK = re.compile(r"\[\d+ lines as before\]")
_BLANKS = re.compile(r'("(?:[^"\\]|\\.)*")|\s+')


def tightened(text: str) -> str:
    """A JSON text without the blanks between its parts; any other text as it is."""
    if text.lstrip()[:1] not in ("{", "[") or text.rstrip()[-1:] not in ("}", "]"):
        return text
    try:
        msgspec.json.decode(text)
    except (ValueError, RecursionError):
        return text
    return _BLANKS.sub(_unblanked, text)


def lines_known(texts: Iterable[str]) -> set[str]:
    """The lines of texts as they are compared."""
    lines = (line for text in texts for line in _bare(text.split("\n")))
    return {line for line in lines if line and not _MARK.fullmatch(line)}


def folded(text: str, known: Container[str]) -> str:
    """The text with each stretch of known lines as one line that says how many they are."""
    lines = text.split("\n")
    if len(lines) < LEAST:
        return text
    told = [not line or line in known for line in _bare(lines)]
    kept: list[str] = []
    start = 0
    while start < len(lines):
        end = start
        while end < len(lines) and told[end]:
            end += 1
        stretch = lines[start:end]
        kept += _said(stretch) if len(stretch) >= LEAST else stretch
        kept += lines[end : end + 1]
        start = end + 1
    return "\n".join(kept)


def _said(stretch: list[str]) -> list[str]:
    """A stretch of known lines, in short where that is shorter."""
    ends = 1 if len(stretch) >= ENDS else 0
    inner = stretch[ends : len(stretch) - ends]
    if sum(map(len, inner)) <= LETTERS:
        return stretch
    mark = f"[{len(inner)} lines as before]"
    return [*stretch[:ends], mark, *stretch[len(stretch) - ends :]]


def _bare(lines: list[str]) -> list[str]:
    """The lines as they are compared: without the number of one that follows the line's before."""
    bare: list[str] = []
    before = -1
    matches = [_NUMBER.match(line) for line in lines]
    for index, (line, match) in enumerate(zip(lines, matches, strict=True)):
        number = int(match[1]) if match is not None else -1
        following = matches[index + 1] if index + 1 < len(lines) else None
        after = int(following[1]) if following is not None else -1
        counted = match is not None and (before == number - 1 or after == number + 1)
        bare.append((line[match.end() :] if counted and match is not None else line).rstrip())
        before = number
    return bare


def _unblanked(match: re.Match[str]) -> str:
    return match[1] or ""
