"""Texts by their shape: prose, code, logs, tables, diffs, markup. Which of their lines matter.

At the end, how the shape of a text is told.
"""

import re
from collections import Counter
from html import unescape
from html.parser import HTMLParser

import msgspec

from weft.digest.cut import Shape
from weft.digest.lines import GRAVE, GRAVE_WEIGHT, Line, bookends, troubles_in
from weft.late import late_pattern
from weft.values import Json

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
    address = _ADDRESS.match(text)
    size = len(text) * 3 // 4
    kind = f"{address[1]}, " if address else ""
    return f"{text[:24]}… ({kind}about {size:,} bytes of base64)"


_HEADING = re.compile(r"\s{0,3}(?:#{1,6} \S|[A-Z][^.!?]{0,60}:\s*$|(?:={3,}|-{3,})\s*$)")


def prose_lines(text: str) -> list[Line]:
    """The lines with their weights."""
    lines = text.splitlines()
    weights = bookends(lines)
    return [
        Line(line, max(weight, trouble, 3.0 if _HEADING.match(line[:100]) else 0.0))
        for line, weight, trouble in zip(lines, weights, troubles_in(lines), strict=True)
    ]


_SIGNATURE = re.compile(
    r"\s*(?:export |default |public |private |protected |static |final |abstract |pub )*"
    r"(?:async )?(?:def|class|function|func|fn|interface|struct|enum|trait|impl|type|module)\b"
    r"|\s*@\w[\w.]*"
)

_IMPORT = re.compile(r"\s*(?:from \S+ import|import |#include|use \w|require\(|const .*require\()")

_QUOTES = ('"""', "'''", 'r"""', "/**", "///")

_NUMBER = re.compile(r"\s*\d+(?:[:|\t]| {2})")


def is_numbered(text: str) -> bool:
    """Whether most lines have numbers of their own."""
    lines = text.splitlines()[:100]
    return sum(_NUMBER.match(line) is not None for line in lines) * 10 > len(lines) * 6


def code_lines(text: str) -> list[Line]:
    """The lines with their weights; numbers in front of them are not looked at."""
    lines = text.splitlines()
    weights = bookends(lines)
    out: list[Line] = []
    signed = False
    for line, end in zip(lines, weights, strict=True):
        bare = _NUMBER.sub("", line[:400], count=1)
        documented = signed and bare.strip().startswith(_QUOTES)
        weight = end
        signed = _SIGNATURE.match(bare) is not None
        if signed:
            weight = max(weight, 6.0)
        elif documented:
            weight = max(weight, 2.5)
        elif _IMPORT.match(bare):
            weight = max(weight, 1.0)
        elif GRAVE.search(bare) is not None:
            weight = max(weight, 3.0)
        # lines that say nothing by themselves
        elif bare.strip() in ("", "}", ")", "]", "});", "};"):
            weight = min(weight, 0.1)
        out.append(Line(line, weight))
    return out


_COLOUR = re.compile(r"\x1b\[[0-9;?]*[A-Za-z]")

_VARYING = re.compile(r"0x[0-9a-fA-F]+|\b[0-9a-fA-F]{8,}\b|\d+")

_FIRST = 3
"""How many of the first and of the last grave lines matter as much as the ends do."""

_WORST = 90.0

_CONTEXT = 2
"""How many lines around trouble gain by it."""


def log_lines(text: str) -> list[Line]:
    """The lines with their weights, runs of lines that differ only in numbers as one."""
    lines = _without_repeats(_COLOUR.sub("", text).splitlines())
    weights = bookends(lines)
    trouble = troubles_in(lines)
    grave = [index for index, gravity in enumerate(trouble) if gravity >= GRAVE_WEIGHT]
    for index in (*grave[:_FIRST], *grave[-_FIRST:]):
        weights[index] = _WORST
    for index, gravity in enumerate(trouble):
        if gravity >= GRAVE_WEIGHT:
            for near in range(max(0, index - _CONTEXT), min(len(lines), index + _CONTEXT + 1)):
                weights[near] = max(weights[near], 4.0 - abs(near - index))
    return [
        Line(line, max(weight, gravity))
        for line, weight, gravity in zip(lines, weights, trouble, strict=True)
    ]


def _without_repeats(lines: list[str]) -> list[str]:
    out: list[str] = []
    start = 0
    while start < len(lines):
        kind = _VARYING.sub("0", lines[start][:1_000])
        end = start + 1
        while end < len(lines) and _VARYING.sub("0", lines[end][:1_000]) == kind:
            end += 1
        # two alike are shown: "(x 2)" saves nothing
        if end - start > 2 and kind.strip():
            out.append(f"{lines[start]} (x {end - start})")
        else:
            out += lines[start:end]
        start = end
    return out


_RULER = re.compile(r"[\s|:+=-]{3,}")


def table_lines(text: str) -> list[Line]:
    """The rows with their weights."""
    rows = text.splitlines()
    head = next((index for index, row in enumerate(rows) if row.strip()), 0)
    while head + 1 < len(rows) and _RULER.fullmatch(rows[head + 1][:400]):
        head += 1
    last = len(rows) - 1
    trouble = troubles_in(rows)
    out: list[Line] = []
    for index, row in enumerate(rows):
        # the header, its ruler, and the first row
        if index <= head + 1:
            weight = 100.0
        elif index <= head + 3:
            weight = 40.0 - index
        elif index >= last - 1:
            weight = 30.0
        else:
            weight = trouble[index]
        out.append(Line(row, weight))
    return out


_FILES = ("diff ", "+++ ", "--- ", "rename ", "new file", "deleted file", "Index: ", "Binary files")


def diff_lines(text: str) -> list[Line]:
    """The lines with their weights."""
    lines = text.splitlines()
    out: list[Line] = []
    for line, end in zip(lines, bookends(lines, first=2, last=1), strict=True):
        weight = 0.0
        if line.startswith(_FILES):
            weight = 20.0
        elif line.startswith("@@"):
            weight = 10.0
        elif line[:1] in ("+", "-"):
            weight = 2.0
        out.append(Line(line, max(weight, end)))
    return out


_SILENT = frozenset(("script", "style", "noscript", "template", "svg", "iframe", "head"))

_BLOCKS = frozenset(
    (
        "p", "div", "section", "article", "main", "header", "footer", "nav", "aside", "ul", "ol",
        "li", "table", "tr", "br", "hr", "form", "pre", "blockquote", "dl", "dt", "dd", "body",
        "title", "h1", "h2", "h3", "h4", "h5", "h6", "figure", "option", "button",
    )
)  # fmt: skip

_ASIDE = frozenset(("nav", "footer", "aside"))

_HEADINGS = frozenset(("h1", "h2", "h3", "h4", "h5", "h6"))

_MARKUP = late_pattern(
    r"([^<]*+)<(?:/([A-Za-z][A-Za-z0-9-]*+)[ \t\n\r\f]*+"
    r"|([A-Za-z][A-Za-z0-9-]*+)"
    r"((?:[ \t\n\r\f]++[A-Za-z_:@][A-Za-z0-9_:.@-]*+"
    r"(?:=(?:\"[^\"]*+\"|'[^']*+'|[^\s\"'<>=`/&]++(?=[ \t\n\r\f>])))?+)*+)"
    r"[ \t\n\r\f]*+(/?))>"
)
"""Text up to a plain tag; its name if it ends something, else its name, attributes and slash."""

_COMMENT = late_pattern(r"<!--(?![>-])(?:[^-]++|-(?!-!?\s*>))*+-->")
_DOCTYPE = late_pattern(r"<!doctype[^>]*+>", re.IGNORECASE)
_ATTRIBUTE = late_pattern(
    r"([A-Za-z_:@][A-Za-z0-9_:.@-]*+)(?:=(?:\"([^\"]*+)\"|'([^']*+)'|([^\s\"'<>=`/&]++)))?+"
)
_RAW = {tag: late_pattern(rf"</(\s*){tag}(>|)", re.IGNORECASE) for tag in ("script", "style")}
"""Elements in which nothing is markup but their end, and how that begins."""

_NEARLY_RAW = frozenset(("title", "textarea", "iframe", "xmp", "noembed", "noframes", "plaintext"))
"""Elements in which not every version of the parser reads markup."""

_LINKS = ("a", "img")
"""Tags of which an attribute is shown."""

_READ = 500_000
"""How many characters of a page are read."""

_SPACES = re.compile(r"\s+")


def markup_lines(text: str) -> list[Line]:
    """The lines a reader would see, with their weights."""
    page = _Page()
    page.read(text[:_READ])
    page.end_line()
    # nothing on the page can be read: then its source is all there is
    if not page.lines:
        return [Line(line) for line in text.splitlines()]
    troubles = troubles_in([page.lines[index].text for index in page.body])
    for index, trouble in zip(page.body, troubles, strict=True):
        if trouble:
            line = page.lines[index]
            page.lines[index] = line._replace(weight=max(line.weight, trouble))
    return page.lines


class _Page(HTMLParser):
    """Gathers the visible text, a line a block; a heading keeps its rank, a link its address."""

    def __init__(self) -> None:
        super().__init__(convert_charrefs=True)
        self.lines: list[Line] = []
        self.body: list[int] = []
        """The lines that are neither headings nor beside the matter, as navigation is."""
        self._spoken: list[str] = []
        self._open: list[str] = []
        self._links: list[str] = []

    def read(self, text: str) -> None:
        """Take in a page. Plain markup is read here, ten times as fast as the parser does it.

        From the first thing on that is not plain, such as a tag that is never closed, the parser
        reads the rest: it knows what browsers do with it.
        """
        at, size = 0, len(text)
        while at < size:
            match = _MARKUP.match(text, at)
            if match is None:
                start = text.find("<", at)
                if start != at:
                    self._say(text[at:] if start < 0 else text[at:start])
                aside = _COMMENT.match(text, start) or _DOCTYPE.match(text, start)
                if start < 0 or aside is None:
                    self._parse(text[start:] if start >= 0 else "")
                    return
                at = aside.end()
                continue
            words, closed, opened, attributes, alone = match.groups()
            if words:
                self._say(words)
            at = match.end()
            if closed is not None:
                self.handle_endtag(closed.lower())
                continue
            tag = opened.lower()
            if tag in _RAW or tag in _NEARLY_RAW:
                end = self._read_raw(tag, text, at) if not alone else 0
                if not end:
                    self._parse(text[match.end(1) :])
                    return
                at = end
                continue
            self.handle_starttag(tag, _attributes_in(attributes) if tag in _LINKS else [])
            if alone:
                self.handle_endtag(tag)

    def _say(self, text: str) -> None:
        self.handle_data(unescape(text) if "&" in text else text)

    def _parse(self, rest: str) -> None:
        self.feed(rest)
        self.close()

    def _read_raw(self, tag: str, text: str, start: int) -> int:
        """Take in an element that has no markup in it, from behind its first tag on.

        Returns where it ends, or 0 where that is not plain.
        """
        if tag in _RAW:
            closed = _RAW[tag].search(text, start)
            if closed is None or closed[1] or not closed[2] or not closed[0].isascii():
                return 0  # the long s matches an s, and ends nothing
            words, begins, end = text[start : closed.start()], closed.start(), closed.end()
        else:
            begins = text.find("<", start)
            if not text.startswith(f"</{tag}>", begins):
                return 0
            words, end = unescape(text[start:begins]), begins + len(tag) + 3
        self.handle_starttag(tag, [])
        if begins > start:
            self.handle_data(words)
        self.handle_endtag(tag)
        return end

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        """A block begins a line; a link keeps where it leads."""
        if tag in _BLOCKS:
            self.end_line()
        if tag == "a":
            self._links.append(dict(attrs).get("href") or "")
        elif tag == "img" and (words := dict(attrs).get("alt")):
            self._spoken.append(f"[image: {words}]")
        elif tag in ("td", "th"):
            self._spoken.append(" | " if self._spoken else "")
        if tag in _SILENT or tag in _ASIDE or tag == "title" or tag[:1] == "h":
            self._open.append(tag)

    def handle_endtag(self, tag: str) -> None:
        """A block ends its line."""
        if tag == "a" and self._links:
            address = self._links.pop()
            if address and not address.startswith(("#", "javascript:")):
                self._spoken.append(f" ({address})")
        if tag in _BLOCKS:
            self.end_line()
        if tag in self._open:
            # tags that were never closed end with the one around them
            while self._open.pop() != tag:
                pass

    def handle_data(self, data: str) -> None:
        """Text counts where a reader sees it."""
        opened = self._open
        if not opened or "title" in opened or _SILENT.isdisjoint(opened):
            self._spoken.append(data)

    def end_line(self) -> None:
        """Close the line that was being gathered."""
        if not self._spoken:
            return
        text = _SPACES.sub(" ", "".join(self._spoken)).strip(" |")
        self._spoken.clear()
        if not text:
            return
        opened = self._open
        heading = next((tag for tag in opened if tag in _HEADINGS), "") if opened else ""
        if "title" in opened:
            self.lines.append(Line(f"title: {text}", 60.0))
        elif heading:
            rank = int(heading[1])
            self.lines.append(Line(f"{'#' * rank} {text}", 14.0 - rank))
        elif opened and not _ASIDE.isdisjoint(opened):
            self.lines.append(Line(text, 0.0))
        else:
            self.body.append(len(self.lines))
            self.lines.append(Line(text, 6.0 if len(self.lines) < 6 else 1.0))


def _attributes_in(text: str) -> list[tuple[str, str | None]]:
    """The attributes of a plain tag."""
    return [
        (name.lower(), unescape(one or two or three))
        for name, one, two, three in _ATTRIBUTE.findall(text)
    ]


# --- which shape a text has

_SAMPLE = 400
"""How many lines are looked at."""
_BASE64 = re.compile(r"(?:data:[\w.+/-]+(?:;[\w=.+-]+)*,)?[A-Za-z0-9+/_\s-]{120,}={0,2}\s*")
_TAG = re.compile(
    r"</?(?:!doctype|html|head|body|div|p|a|span|table|tr|td|th|ul|ol|li|h[1-6]|script|style|meta"
    r"|link|section|article|nav|img|br|form|input|button|title|main)\b[^<>]*>",
    re.IGNORECASE,
)
_HUNK = re.compile(r"^@@ -\d+(?:,\d+)? \+\d+(?:,\d+)? @@", re.MULTILINE)
_STAMP = re.compile(
    r"^\W{0,2}(?:\d{4}[-/]\d\d[-/]\d\d[T ]\d\d:\d\d|\d\d:\d\d:\d\d|[A-Z][a-z]{2} +\d{1,2} \d\d:\d\d"
    r"|\[?(?:TRACE|DEBUG|INFO|NOTICE|WARN|WARNING|ERROR|FATAL|CRITICAL)\b)"
)
_LEVEL = re.compile(r"\b(?:DEBUG|INFO|WARN|WARNING|ERROR|FATAL|CRITICAL)\b|Traceback \(most recent")
_NUMBERED = re.compile(r"^\s*\d+(?:[:|\t]| {2})")
_CODE = re.compile(
    r"^\s*(?:from \S+ import |import \S|def \w|async def |class \w|@\w|return\b|if .*:$|for .*:$"
    r"|else\b|elif |try:|except\b|with .*:$|raise |self\.|func |fn |pub |let |const |var "
    r"|function\b|public |private |static |#include|package \w|use \w|}|</?\w+>$)"
    r"|[;{]\s*$|^\s*[\w.\[\]]+ = |^\s*\w[\w.]*\(.*\)?[,:]?$"
)
_FIRM = re.compile(
    r"\s*(?:from \S+ import |import \w|(?:async )?def \w+\(|class \w+[(:{ ]|func \w|#include)"
)
_TABLE_RULER = re.compile(r"^\s*\|?[\s:+|=-]*(?:-{2,}|={2,})[\s:+|=-]*\|?\s*$")
_COLUMNS = re.compile(r" {2,}|\t")


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
    if any("|" in lines[index] and _TABLE_RULER.match(lines[index][:300]) for index in (1, 2)):
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


_KINDS = tuple(map(re.compile, ("[0-9]", "[A-Z]", "[a-z]")))
"""Kinds of characters that all occur in base64 of some length."""


def _is_base64(text: str) -> bool:
    if _BASE64.fullmatch(text) is None:
        return False
    sample = text[:4_000]
    # base64 breaks at line ends only; words have more gaps
    gaps = len(sample) - len("".join(sample.split()))
    return gaps * 40 < len(sample) and all(kind.search(sample) for kind in _KINDS)
