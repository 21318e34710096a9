"""A page of HTML: its title, headings, links and text stay, without the markup."""

import re
from html.parser import HTMLParser

from weft.digest.lines import Line
from weft.digest.trouble import trouble_in

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
        self._said: list[str] = []
        self._open: list[str] = []
        self._links: list[str] = []

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        """A block begins a line; a link keeps where it leads."""
        if tag in _BLOCKS:
            self.end_line()
        held = dict(attrs)
        if tag == "a":
            self._links.append(held.get("href") or "")
        elif tag == "img" and held.get("alt"):
            self._said.append(f"[image: {held['alt']}]")
        elif tag in ("td", "th"):
            self._said.append(" | " if self._said else "")
        if tag in _SILENT or tag in _ASIDE or tag == "title" or tag[:1] == "h":
            self._open.append(tag)

    def handle_endtag(self, tag: str) -> None:
        """A block ends its line."""
        if tag == "a" and self._links:
            address = self._links.pop()
            if address and not address.startswith(("#", "javascript:")):
                self._said.append(f" ({address})")
        if tag in _BLOCKS:
            self.end_line()
        if tag in self._open:
            while self._open.pop() != tag:
                pass

    def handle_data(self, data: str) -> None:
        """Text counts where a reader sees it."""
        if "title" in self._open or not any(tag in _SILENT for tag in self._open):
            self._said.append(data)

    def end_line(self) -> None:
        """Close the line that was being gathered."""
        text = _SPACES.sub(" ", "".join(self._said)).strip(" |")
        self._said.clear()
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
