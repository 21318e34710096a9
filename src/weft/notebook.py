"""How Weft's values show themselves in a notebook: static HTML, light and dark, no script.

A notebook asks a value for `_repr_html_` and puts the answer on its page. All texts are escaped
here, and the style applies to nothing outside.
"""

from collections.abc import Iterable, Sequence

import msgspec

LONGEST = 2_000
"""Characters of one text that are shown."""

MOST = 200
"""Rows of one table that are shown; of more, the last."""

STYLE = """
.weft-nb { color-scheme: light dark; font: 13px/1.45 system-ui, sans-serif; max-width: 70rem; }
.weft-nb table { border-collapse: collapse; }
.weft-nb th, .weft-nb td { text-align: left; vertical-align: top; padding: .2rem .8rem .2rem 0;
  border-bottom: 1px solid #8884; }
.weft-nb th { font-weight: 500; opacity: .7; }
.weft-nb pre { font: 12px/1.4 ui-monospace, monospace; white-space: pre-wrap; margin: 0;
  overflow-wrap: anywhere; background: none; }
.weft-nb .dim { opacity: .65; }
.weft-nb .error { color: light-dark(#b3122a, #ff8796); }
.weft-nb .warning { color: light-dark(#8a5a00, #ffc56b); }
""".strip()


class Cell(msgspec.Struct, frozen=True):
    """A text in a table: plain, or as it was written (`pre`), in a tone."""

    text: str
    pre: bool = False
    tone: str = ""


def framed(title: str, *parts: str) -> str:
    """Parts that are HTML already, under a title."""
    body = "\n".join(parts)
    return (
        f'<div class="weft-nb"><style>{STYLE}</style><div><b>{escaped(title)}</b></div>{body}</div>'
    )


def table(heads: Sequence[str], rows: Iterable[Sequence[Cell]]) -> str:
    """A table of texts."""
    listed = list(rows)
    more = len(listed) - MOST
    note = f'<div class="dim">the first {more:,} rows are not shown</div>' if more > 0 else ""
    head = "".join(f"<th>{escaped(name)}</th>" for name in heads)
    lines = ("".join(map(_cell, row)) for row in listed[-MOST:])
    body = "".join(f"<tr>{line}</tr>" for line in lines)
    return f"{note}<table><thead><tr>{head}</tr></thead><tbody>{body}</tbody></table>"


def line(text: str, tone: str = "") -> str:
    """One line of text."""
    return f'<div class="{_escape(tone)}">{escaped(text)}</div>'


def _escape(text: str) -> str:
    from html import escape  # few values are ever shown in a notebook

    return escape(text)


def escaped(text: str) -> str:
    """A text escaped, and cut where it is very long; the cut says so."""
    if len(text) > LONGEST:
        text = f"{text[:LONGEST]}… ({len(text) - LONGEST:,} characters more)"
    return _escape(text).encode(errors="backslashreplace").decode()


def _cell(cell: Cell) -> str:
    tone = f' class="{_escape(cell.tone)}"' if cell.tone else ""
    text = f"<pre>{escaped(cell.text)}</pre>" if cell.pre else escaped(cell.text)
    return f"<td{tone}>{text}</td>"
