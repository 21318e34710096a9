"""Static HTML for reports, replays and notebooks: one page, one table, one look.

No script and nothing from outside, in light and dark. `tag` takes HTML inside and texts as
attributes, which it escapes; `text_cell` and `text_line` take texts. A very long text is cut, and
says so.
"""

from collections.abc import Iterable, Sequence

LONGEST = 2_000
"""Characters of one text that a notebook shows."""

MOST = 200
"""Rows of one table that a notebook shows; of more, the last."""

STYLE = """
:root { color-scheme: light dark; --line: light-dark(#d8d8de, #3a3a44);
  --soft: light-dark(#f5f5f8, #1c1c22); --dim: light-dark(#666672, #9a9aa8);
  --good: light-dark(#0a7d4f, #4cd39b); --bad: light-dark(#b00020, #ff8a9a); }
body { font: 14px/1.5 system-ui, sans-serif; margin: 2rem auto; max-width: 78rem; padding: 0 1rem;
  background: light-dark(#fff, #121216); color: light-dark(#16161c, #e8e8ee); }
h1 { font-size: 1.4rem; margin: 0; } h2 { font-size: 1.05rem; margin: 2rem 0 .5rem; }
table { border-collapse: collapse; } .wide { overflow-x: auto; }
th, td { text-align: left; padding: .2rem .6rem .2rem 0; border-bottom: 1px solid var(--line);
  vertical-align: top; }
th { color: var(--dim); font-weight: 500; } .dim { color: var(--dim); }
.number { text-align: right; white-space: nowrap; font-variant-numeric: tabular-nums; }
code, pre, .mono { font-family: ui-monospace, monospace; font-size: 12.5px; }
pre { white-space: pre-wrap; overflow-wrap: anywhere; margin: .3rem 0; }
.error, .bad { color: var(--bad); } .good { color: var(--good); }
.warning { color: light-dark(#8a5a00, #ffc56b); }
""".strip()


def escape(text: str) -> str:
    """The text as HTML."""
    from html import escape  # few values are ever shown as HTML

    return escape(text)


def cut_text(text: str, longest: int) -> str:
    """The text, cut where it is very long; the cut says so."""
    more = len(text) - longest
    return f"{text[:longest]}\n… {more:,} more characters" if more > 0 else text


def tag(name: str, content: str = "", tone: str = "", *, title: str = "", style: str = "") -> str:
    """An element around HTML; `tone` is its class."""
    attributes = (("class", tone), ("style", style), ("title", title))
    written = "".join(f' {key}="{escape(value)}"' for key, value in attributes if value)
    return f"<{name}{written}>{content}</{name}>"


def text_cell(text: str, tone: str = "", *, pre: bool = False) -> str:
    """A text in a table: plain, or as it was written (`pre`)."""
    visible = _visible_text(text)
    return tag("td", f"<pre>{visible}</pre>" if pre else visible, tone)


def text_line(text: str, tone: str = "") -> str:
    """A text on a line of its own."""
    return tag("div", _visible_text(text), tone)


def _visible_text(text: str) -> str:
    return escape(cut_text(text, LONGEST)).encode(errors="backslashreplace").decode()


def table(heads: Sequence[str], rows: Iterable[Sequence[str]]) -> str:
    """A table of cells, which are HTML."""
    head = "".join(tag("th", escape(name)) for name in heads)
    lines = "\n".join(tag("tr", "".join(row)) for row in (head, *rows))
    return tag("div", f"<table>{lines}</table>", "wide")


def last_rows(heads: Sequence[str], rows: Iterable[Sequence[str]]) -> str:
    """A table of at most `MOST` rows: the last ones, as a notebook shows them."""
    every = list(rows)
    more = len(every) - MOST
    note = text_line(f"the first {more:,} rows are not shown", "dim") if more > 0 else ""
    return note + table(heads, every[-MOST:])


def page(title: str, style: str, body: Iterable[str]) -> str:
    """A page with its title, what it adds to the style, and the lines of its body."""
    lines = "\n".join(body)
    return (
        f'<!doctype html>\n<html lang="en">\n<head>\n<meta charset="utf-8">\n'
        f'<meta name="viewport" content="width=device-width, initial-scale=1">\n'
        f"<title>{escape(title)}</title>\n<style>\n{STYLE}\n{style}\n</style>\n</head>\n"
        f"<body>\n{lines}\n</body>\n</html>\n"
    )


def fragment(body: Iterable[str], style: str = "") -> str:
    """The lines as a part of somebody else's page, such as a notebook, which keeps its own look."""
    written = f"{STYLE}\n{style}".replace(":root {", ".weft-report {")
    written = written.replace("body {", ".weft-report {").replace("margin: 2rem auto; ", "")
    lines = "\n".join(body)
    return (
        f'<div class="weft-report"><style>@scope (.weft-report) {{ {written} }}</style>\n'
        f"{lines}\n</div>"
    )


def titled_fragment(title: str, *parts: str) -> str:
    """Parts that are HTML already, under a title, as a notebook shows a value."""
    return fragment((tag("div", tag("b", _visible_text(title))), *parts))
