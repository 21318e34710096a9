"""What a value looks like: which way of reducing it keeps its shape."""

import re
from collections import Counter

import msgspec

from weft.digest.cut import Shape
from weft.late import late_pattern
from weft.values import Json

_SAMPLE = 400
"""How many lines are looked at."""
_BASE64 = late_pattern(r"(?:data:[\w.+/-]+(?:;[\w=.+-]+)*,)?[A-Za-z0-9+/_\s-]{120,}={0,2}\s*")
_TAG = late_pattern(
    r"</?(?:!doctype|html|head|body|div|p|a|span|table|tr|td|th|ul|ol|li|h[1-6]|script|style|meta"
    r"|link|section|article|nav|img|br|form|input|button|title|main)\b[^<>]*>",
    re.IGNORECASE,
)
_HUNK = late_pattern(r"^@@ -\d+(?:,\d+)? \+\d+(?:,\d+)? @@", re.MULTILINE)
_STAMP = late_pattern(
    r"^\W{0,2}(?:\d{4}[-/]\d\d[-/]\d\d[T ]\d\d:\d\d|\d\d:\d\d:\d\d|[A-Z][a-z]{2} +\d{1,2} \d\d:\d\d"
    r"|\[?(?:TRACE|DEBUG|INFO|NOTICE|WARN|WARNING|ERROR|FATAL|CRITICAL)\b)"
)
_LEVEL = late_pattern(
    r"\b(?:DEBUG|INFO|WARN|WARNING|ERROR|FATAL|CRITICAL)\b|Traceback \(most recent"
)
_NUMBERED = late_pattern(r"^\s*\d+(?:[:|\t]| {2})")
_CODE = late_pattern(
    r"^\s*(?:from \S+ import |import \S|def \w|async def |class \w|@\w|return\b|if .*:$|for .*:$"
    r"|else\b|elif |try:|except\b|with .*:$|raise |self\.|func |fn |pub |let |const |var "
    r"|function\b|public |private |static |#include|package \w|use \w|}|</?\w+>$)"
    r"|[;{]\s*$|^\s*[\w.\[\]]+ = |^\s*\w[\w.]*\(.*\)?[,:]?$"
)
_FIRM = late_pattern(
    r"\s*(?:from \S+ import |import \w|(?:async )?def \w+\(|class \w+[(:{ ]|func \w|#include)"
)
_RULER = late_pattern(r"^\s*\|?[\s:+|=-]*(?:-{2,}|={2,})[\s:+|=-]*\|?\s*$")
_COLUMNS = late_pattern(r" {2,}|\t")


def shape_of(value: Json) -> Shape:
    """The shape of a JSON value, or of what a text holds."""
    if not isinstance(value, str):
        return "json"
    if parsed_json(value) is not None:
        return "json"
    # the beginning tells the shape, and patterns cost by the letter
    start = value[:40_000]
    if len(value) >= 160 and _is_base64(value):
        return "base64"
    lines = [line for line in start.splitlines()[:_SAMPLE] if line.strip()]
    if _HUNK.search(start) and re.search(r"^(?:\+\+\+ |diff )", start, re.MULTILINE):
        return "diff"
    # it begins as a page, or an eighth of it is tags
    tags = _TAG.findall(start)
    if tags and (tags[0][:5].lower() in ("<!doc", "<html") or sum(map(len, tags)) * 8 > len(start)):
        return "html"
    if not lines:
        return "text"
    if sum(1 for line in lines if _STAMP.match(line)) * 2 > len(lines):
        return "log"
    if is_table(lines):
        return "table"
    # editors number the lines of code
    bare = [_NUMBERED.sub("", line, count=1) for line in lines]
    coded = sum(1 for line in bare if _CODE.search(line))
    firm = sum(1 for line in bare if _FIRM.match(line))
    if len(lines) >= 4 and (
        coded * 10 >= len(lines) * 4 or (firm >= 3 and coded * 5 >= len(lines))
    ):
        return "code"
    # after code: code may speak of errors as well
    if sum(1 for line in lines if _LEVEL.search(line)) * 4 > len(lines):
        return "log"
    return "text"


def parsed_json(text: str) -> Json:
    """The list or object that a text spells, or the list of its lines' objects; else None."""
    bare = text.strip()
    if bare[:1] not in ("{", "[") or bare[-1:] not in ("}", "]"):
        return None
    try:
        value: Json = msgspec.json.decode(bare)
        return value if isinstance(value, list | dict) else None
    except (msgspec.DecodeError, UnicodeEncodeError, RecursionError):
        pass
    lines = bare.splitlines()
    if len(lines) < 2 or not all(line.strip()[:1] == "{" for line in lines[:50] if line.strip()):
        return None
    try:
        return [msgspec.json.decode(line) for line in lines if line.strip()]
    except (msgspec.DecodeError, UnicodeEncodeError, RecursionError):
        return None


def is_table(lines: list[str]) -> bool:
    """Whether the lines are rows: of Markdown, of a delimiter, or of aligned columns."""
    if len(lines) < 3:
        return False
    if any("|" in lines[index] and _RULER.match(lines[index][:300]) for index in (1, 2)):
        return True
    if delimiter_of(lines):
        return True
    columns = Counter(len(_COLUMNS.split(line.strip())) for line in lines)
    usual, times = columns.most_common(1)[0]
    return usual >= 3 and times * 10 >= len(lines) * 8


def delimiter_of(lines: list[str]) -> str:
    """What stands between the cells of most lines, as often as in the first; else empty."""
    for delimiter in ("\t", ";", "|", ","):
        wanted = lines[0].count(delimiter)
        least = 1 if delimiter == "\t" else 2
        if wanted < least:
            continue
        alike = sum(1 for line in lines if line.count(delimiter) == wanted)
        if alike * 10 >= len(lines) * 9 and (delimiter != "," or _is_csv(lines, wanted)):
            return delimiter
    return ""


def _is_csv(lines: list[str], commas: int) -> bool:
    """Whether commas part cells: prose has blanks behind them, code has brackets."""
    blanks = sum(line.count(", ") for line in lines)
    brackets = sum(line[-1:] in "({[:" for line in lines)
    return blanks * 2 < commas * len(lines) and brackets * 4 < len(lines)


_KINDS = (late_pattern("[0-9]"), late_pattern("[A-Z]"), late_pattern("[a-z]"))
"""Kinds of characters that all occur in base64 of some length."""


def _is_base64(text: str) -> bool:
    if _BASE64.fullmatch(text) is None:
        return False
    sample = text[:4_000]
    # base64 breaks at line ends only; words have more gaps
    gaps = len(sample) - len("".join(sample.split()))
    return gaps * 40 < len(sample) and all(kind.search(sample) for kind in _KINDS)
