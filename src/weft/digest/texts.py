"""Texts by their shape: prose, code, logs, tables, diffs, markup; and their lines that matter."""

import re
from html.parser import HTMLParser

from weft.digest.cut import Shape
from weft.digest.lines import GRAVE, GRAVE_WEIGHT, Line, bookends, trouble_in

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
        Line(line, max(weight, trouble_in(line), 3.0 if _HEADING.match(line[:100]) else 0.0))
        for line, weight in zip(lines, weights, strict=True)
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
    trouble = [trouble_in(line) for line in lines]
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

_READ = 500_000
"""How many characters of a page are read."""

_SPACES = re.compile(r"\s+")


def markup_lines(text: str) -> list[Line]:
    """The lines a reader would see, with their weights."""
    page = _Page()
    page.feed(text[:_READ])
    page.close()
    page.end_line()
    if not page.lines:
        return [Line(line) for line in text.splitlines()]
    return page.lines


class _Page(HTMLParser):
    """Gathers the visible text, a line a block; a heading keeps its rank, a link its address."""

    def __init__(self) -> None:
        super().__init__(convert_charrefs=True)
        self.lines: list[Line] = []
        self._spoken: list[str] = []
        self._open: list[str] = []
        self._links: list[str] = []

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        """A block begins a line; a link keeps where it leads."""
        if tag in _BLOCKS:
            self.end_line()
        attributes = dict(attrs)
        if tag == "a":
            self._links.append(attributes.get("href") or "")
        elif tag == "img" and attributes.get("alt"):
            self._spoken.append(f"[image: {attributes['alt']}]")
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
            while self._open.pop() != tag:
                pass

    def handle_data(self, data: str) -> None:
        """Text counts where a reader sees it."""
        if "title" in self._open or not any(tag in _SILENT for tag in self._open):
            self._spoken.append(data)

    def end_line(self) -> None:
        """Close the line that was being gathered."""
        text = _SPACES.sub(" ", "".join(self._spoken)).strip(" |")
        self._spoken.clear()
        if not text:
            return
        heading = next((tag for tag in self._open if re.fullmatch(r"h[1-6]", tag)), "")
        if "title" in self._open:
            self.lines.append(Line(f"title: {text}", 60.0))
        elif heading:
            rank = int(heading[1])
            self.lines.append(Line(f"{'#' * rank} {text}", 14.0 - rank))
        elif any(tag in _ASIDE for tag in self._open):
            self.lines.append(Line(text, 0.0))
        else:
            early = 6.0 if len(self.lines) < 6 else 1.0
            self.lines.append(Line(text, max(early, trouble_in(text))))
