"""Texts by their shape: prose, code, logs, tables, diffs, markup. Which of their lines matter.

At the end, how the shape of a text is told.
"""

import ast
import re
from collections import Counter
from collections.abc import Iterable, Sequence
from html import unescape
from html.parser import HTMLParser

import msgspec

from weft.digest.alike import GRAVE, LineKinds, kinds_of, troubles_in
from weft.digest.asked import window_of
from weft.digest.cut import Shape
from weft.digest.lines import FIRM, Line, bookends
from weft.digest.tables import (
    FAILED,
    HEADER,
    SHORT_TABLE,
    TextTable,
    barred_tables,
    is_ruler,
    rows_that_stay,
    short_row,
    staying_blocks,
    tables_in,
)
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
        case "html":
            return markup_lines(text)
        case "table":
            return table_lines(text)
        case _:
            return plain_lines(text)


def base64_digest(text: str) -> str:
    """What is left of encoded bytes: how they begin, and how many they are."""
    address = _ADDRESS.match(text)
    size = len(text) * 3 // 4
    kind = f"{address[1]}, " if address else ""
    return f"{text[:24]}… ({kind}about {size:,} bytes of base64)"


_HEADING = re.compile(r"\s{0,3}(?:#{1,6} \S|[A-Z][^.!?]{0,60}:\s*$|(?:={3,}|-{3,})\s*$)")


_NUMBERED = re.compile(r"^\s*\d+(?:[:|\t\u2192]| {2})")

_COLOUR = re.compile(r"\x1b\[[0-9;?]*[A-Za-z]")

_EACH = 8
"""How many lines of one kind stay that tell of a failure; the others are said to be there."""

_CONTEXT = 2
"""How many lines around a failure gain by it."""

ENDS, KIND, UNLIKE = 2.1 * FIRM, FIRM, 0.1 * FIRM
"""How firmly the ends of a text stay, and one line of each kind; a rare kind more firmly."""


def plain_lines(text: str) -> list[Line]:
    """The lines of a log, or of a text that has no other shape, with their weights and kinds.

    What fails stays, and a line of each kind. Headings and the lines around a failure weigh more.
    """
    lines = _COLOUR.sub("", text).splitlines()
    weighed = _weigh_plain(lines)
    for places, how in staying_blocks(lines):
        for place in places:
            line = weighed[place]
            weighed[place] = line._replace(stays=max(line.stays, how))
    return weighed


def _weigh_plain(lines: Sequence[str]) -> list[Line]:
    kinds = kinds_of(lines)
    weights = bookends(lines)
    for index, gravity in enumerate(kinds.troubles):
        weights[index] = max(
            weights[index], gravity, 3.0 if _HEADING.match(lines[index][:100]) else 0.0
        )
        if gravity >= GRAVE:
            for near in range(max(0, index - _CONTEXT), min(len(lines), index + _CONTEXT + 1)):
                weights[near] = max(weights[near], 4.0 - abs(near - index))
    stays = _weigh_staying(kinds)
    return [
        Line(line, weight, kind=kind, stays=how)
        for line, weight, kind, how in zip(lines, weights, kinds.of, stays, strict=True)
    ]


def _weigh_staying(kinds: LineKinds) -> list[float]:
    """How firmly each line stays: one of each kind, and the first of those that fail."""
    seen: Counter[int] = Counter()
    stays: list[float] = []
    spoken = [index for index, kind in enumerate(kinds.of) if kind >= 0]
    # where hardly a line is like another, none tells more than the next by being the only one
    least = KIND if len(kinds.sizes) * 2 <= len(spoken) else UNLIKE
    for kind, gravity in zip(kinds.of, kinds.troubles, strict=True):
        seen[kind] += 1
        how = 0.0
        if kind >= 0 and seen[kind] <= (_EACH if gravity else 1):
            how = least + least / kinds.sizes[kind]
            if gravity:
                # the first of a kind before the second of another
                how = (FAILED if gravity >= GRAVE else FAILED - 5) + 4.0 / seen[kind]
        stays.append(how)
    for index in (*spoken[:1], *spoken[-1:]):
        stays[index] = max(stays[index], ENDS)
    return stays


_SIGNATURE = re.compile(
    r"\s*(?:export |default |public |private |protected |static |final |abstract |pub )*"
    r"(?:async )?(?:def|class|function|func|fn|interface|struct|enum|trait|impl|type|module)\b"
    r"|\s*@\w[\w.]*"
)

_IMPORT = re.compile(r"\s*(?:from \S+ import|import |#include|use \w|require\(|const .*require\()")

_RAISES = re.compile(
    r"(?:\w+(?:Error|Exception)\b|\b(?:fatal|panic|FATAL|ERROR|FAILED|CRITICAL|Traceback)\b)"
)

_OUTCRY = re.compile(
    r"(?:\w+\.)*\w*(?:Error|Exception)(?:: |$)|Traceback \(most|E   \S"
    r"|(?:ERROR|FATAL|FAILED|FAIL|panic|fatal|error)(?:\[\w+\])?: "
)
"""A line of output that tells of a failure, as no line of code begins."""

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
        # a program was shown, and then it was run
        stays = FAILED if _OUTCRY.match(line[:400]) is not None else 0.0
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
        elif _RAISES.search(bare) is not None:
            weight = max(weight, 3.0)
        # lines that say nothing by themselves
        elif bare.strip() in ("", "}", ")", "]", "});", "};"):
            weight = min(weight, 0.1)
        out.append(Line(line, weight, stays=stays))
    return out


def table_lines(text: str) -> list[Line]:
    """The rows with their weights: the header stays whole, and the rows that are compared by."""
    lines = text.splitlines()
    window = window_of(text)
    bodies = window.bodies if window is not None and window.lines[: len(lines)] == lines else {}
    tables = tables_in([bodies.get(at, line) for at, line in enumerate(lines)])
    inside = {place for table in tables for place in table.places}
    around = {place: line for place, line in enumerate(lines) if place not in inside}
    bare = [_COLOUR.sub("", line) for line in around.values()]
    weighed = dict(zip(around, _weigh_plain(bare), strict=True))
    _weigh_tables(tables, lines, weighed)
    return [weighed[place] for place in range(len(lines))]


def _weigh_tables(
    tables: Iterable[TextTable], lines: Sequence[str], weighed: dict[int, Line]
) -> None:
    """Put the lines of tables among those that were weighed, by their places."""
    for table in tables:
        weighed.update((place, Line(lines[place], 100.0, stays=HEADER)) for place in table.header)
        staying = rows_that_stay([*table.rows.values()])
        last = len(table.rows) - 1
        least = KIND if last < SHORT_TABLE else 0.0
        for number, (place, cells) in enumerate(table.rows.items()):
            weight = {0: 100.0, 1: 38.0, 2: 37.0, last - 1: 30.0, last: 30.0}.get(number, 0.0)
            row = short_row(lines[place], cells, table.joint)
            weighed[place] = Line(row, weight, stays=staying.get(number, least))


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

# Groups are not possessive: before Python 3.11.5 one that has a choice in it matches too much.
_MARKUP = late_pattern(
    r"([^<]*+)<(?:/([A-Za-z][A-Za-z0-9-]*+)[ \t\n\r\f]*+"
    r"|([A-Za-z][A-Za-z0-9-]*+)"
    r"((?:[ \t\n\r\f]++[A-Za-z_:@][A-Za-z0-9_:.@-]*+"
    r"(?:=(?:\"[^\"]*+\"|'[^']*+'|[^\s\"'<>=`/&]++(?=[ \t\n\r\f>])))?)*)"
    r"[ \t\n\r\f]*+(/?))>"
)
"""Text up to a plain tag; its name if it ends something, else its name, attributes and slash."""

_COMMENT = late_pattern(r"<!--(?![>-])(?:[^-]++|-(?!-!?\s*>))*-->")
_DOCTYPE = late_pattern(r"<!doctype[^>]*+>", re.IGNORECASE)
_ATTRIBUTE = late_pattern(
    r"([A-Za-z_:@][A-Za-z0-9_:.@-]*+)(?:=(?:\"([^\"]*+)\"|'([^']*+)'|([^\s\"'<>=`/&]++)))?"
)
_RAW = {tag: late_pattern(rf"</(\s*){tag}(>|)", re.IGNORECASE) for tag in ("script", "style")}
"""Elements in which nothing is markup but their end, and how that begins."""

_NEARLY_RAW = frozenset(("title", "textarea", "iframe", "xmp", "noembed", "noframes", "plaintext"))
"""Elements in which not every version of the parser reads markup."""

_LINKS = ("a", "img")
"""Tags of which an attribute is shown."""

_READ = 500_000
"""How many characters of a page are read."""

_MOST_UNCLOSED = 50
"""How many beginnings that nothing ends a page may have; then the rest is read as plain text."""

_DEEPEST = 100
"""How many open tags around a text are looked at; pages have a dozen."""

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
    weighed = dict(enumerate(page.lines))
    texts = [line.text for line in page.lines]
    _weigh_tables(barred_tables(texts), texts, weighed)
    return [*weighed.values()]


class _BrokenMarkup(Exception):
    """Too much of a page begins and does not end."""

    def __init__(self, start: int) -> None:
        super().__init__(start)
        self.start = start


class _Page(HTMLParser):
    """Gathers the visible text, a line a block; a heading keeps its rank, a link its address."""

    def __init__(self) -> None:
        super().__init__(convert_charrefs=True)
        self.lines: list[Line] = []
        self.body: list[int] = []
        """The lines that are neither headings nor off the subject, as navigation is."""
        self._spoken: list[str] = []
        self._open: list[str] = []
        self._links: list[str] = []
        self._unclosed = 0

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
        try:
            self.feed(rest)
            self.close()
        except _BrokenMarkup as broken:
            self._say(self.rawdata[broken.start :])

    # Python before 3.11.14 reads to the end of the page for each beginning that nothing ends.

    def parse_starttag(self, i: int) -> int:
        """Where a tag ends; -1 for one that does not."""
        return self._require_end(i, super().parse_starttag(i))

    def parse_endtag(self, i: int) -> int:
        """The same of a closing tag."""
        return self._require_end(i, super().parse_endtag(i))

    def parse_html_declaration(self, i: int) -> int:
        """The same of what begins with an exclamation mark."""
        return self._require_end(i, super().parse_html_declaration(i))

    def parse_comment(self, i: int, report: bool = True) -> int:
        """The same of a comment."""
        return self._require_end(i, super().parse_comment(i, report))

    def parse_pi(self, i: int) -> int:
        """The same of an instruction."""
        return self._require_end(i, super().parse_pi(i))

    def _require_end(self, start: int, end: int) -> int:
        self._unclosed += end < 0
        if self._unclosed > _MOST_UNCLOSED:
            raise _BrokenMarkup(start)
        return end

    def _read_raw(self, tag: str, text: str, start: int) -> int:
        """Take in an element without markup, from the end of its first tag on.

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
            del self._open[_DEEPEST:]
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
_CODE = re.compile(
    r"^\s*(?:from \S+ import |import \S|def \w|async def |class \w|@\w|return\b|if .*:$|for .*:$"
    r"|else\b|elif |try:|except\b|with .*:$|raise |self\.|func |fn |pub |let |const |var "
    r"|function\b|public |private |static |#include|package \w|use \w|}|</?\w+>$)"
    r"|[;{]\s*$|^\s*[\w.\[\]]+ = |^\s*\w[\w.]*\(.*\)?[,:]?$"
)
_FIRM = re.compile(
    r"\s*(?:from \S+ import |import \w|(?:async )?def \w+\(|class \w+[(:{ ]|func \w|#include)"
)


def shape_of(value: Json) -> Shape:
    """The shape of a JSON value, or of what a text holds."""
    if not isinstance(value, str):
        return "json"
    if value_in(value) is not None:
        return "json"
    # the beginning tells the shape, and patterns cost by the letter
    start = value[:40_000]
    # editors number the lines of what they show
    window = window_of(start)
    bodies = window.bodies if window is not None else {}
    if len(value) >= 160 and _is_base64(value):
        return "base64"
    numbered = [bodies.get(at, line) for at, line in enumerate(start.split("\n"))]
    lines = [line for line in numbered[:_SAMPLE] if line.strip()]
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
    if _is_table(lines):
        return "table"
    bare = lines if window is not None else [_NUMBERED.sub("", one, count=1) for one in lines]
    coded = sum(1 for line in bare if _CODE.search(line))
    firm = sum(1 for line in bare if _FIRM.match(line))
    if len(lines) >= 4 and (
        coded * 10 >= len(lines) * 4 or (firm >= 3 and coded * 5 >= len(lines))
    ):
        # hundreds of statements that hardly differ are not a program
        listed = window is None and firm < 3 and len(kinds_of(lines).sizes) * 5 <= len(lines)
        return "log" if listed else "code"
    # after code: code may speak of errors as well
    if sum(1 for line in lines if _LEVEL.search(line)) * 4 > len(lines):
        return "log"
    return "text"


_LITERAL = re.compile(r"\s*[\[({]\s*(?:[\[({]\s*)*'")
_LONGEST_LITERAL = 400_000
"""How many characters of what Python prints are read: it takes long."""
_STRANGE = re.compile(r"\\[^\\'\"abfnrtvxuUN0-7\n]")
"""An escape that Python never prints, and that it warns of."""


def value_in(text: str) -> Json:
    """The list or object that a text spells as JSON, as JSON in quotes, or as Python prints it."""
    value = parsed_json(text)
    if value is not None:
        return value
    if text[:2] in ('"[', '"{'):
        try:
            inner: Json = msgspec.json.decode(text)
        except (msgspec.DecodeError, UnicodeEncodeError):
            return None
        return parsed_json(inner) if isinstance(inner, str) else None
    if len(text) > _LONGEST_LITERAL or _LITERAL.match(text) is None:
        return None
    if _STRANGE.search(text.replace("\\\\", "")) is not None:
        return None
    try:
        written: Json = msgspec.json.decode(msgspec.json.encode(ast.literal_eval(text.strip())))
    except (
        ArithmeticError,
        MemoryError,
        RecursionError,
        SyntaxError,
        TypeError,
        ValueError,
        msgspec.MsgspecError,
    ):
        return None
    return written if isinstance(written, list | dict) else None


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


_AROUND = 12
"""How many lines may stand before and after JSON that a program or a harness printed."""


def json_inside(text: str) -> tuple[str, Json, str] | None:
    """JSON that is most of a text, with what stands before and after it; None where none is."""
    lines = text.split("\n")
    size = len(lines)
    heads = (at for at in range(1, min(_AROUND, size)) if lines[at].lstrip()[:1] in ("[", "{"))
    ends = (at for at in range(size - 1, max(0, size - _AROUND), -1) if lines[at].rstrip()[-1:])
    first = next(heads, None)
    last = next((at for at in ends if lines[at].rstrip()[-1] in "]}"), None)
    if first is None or last is None or last <= first:
        return None
    middle = "\n".join(lines[first : last + 1])
    if len(middle) * 10 < len(text) * 8 or (value := value_in(middle)) is None:
        return None
    return "\n".join(lines[:first]), value, "\n".join(lines[last + 1 :])


def _is_table(lines: list[str]) -> bool:
    """Whether most lines are rows of tables."""
    rows = sum(len(table.rows) + 1 for table in tables_in(lines))
    return rows > 1 and rows * 10 >= sum(not is_ruler(line) for line in lines) * 6


_KINDS = tuple(map(re.compile, ("[0-9]", "[A-Z]", "[a-z]")))
"""Kinds of characters that all occur in base64 of some length."""


def _is_base64(text: str) -> bool:
    if _BASE64.fullmatch(text) is None:
        return False
    sample = text[:4_000]
    # base64 breaks at line ends only; words have more gaps
    gaps = len(sample) - len("".join(sample.split()))
    return gaps * 40 < len(sample) and all(kind.search(sample) for kind in _KINDS)
