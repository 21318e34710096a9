"""A report as one HTML page that needs nothing but itself.

No script and no outside resource: folding is `<details>`, hovering is `title`. Everything
that comes from a session is escaped; a text that is very long is cut, and says so.
"""

from collections.abc import Iterable, Iterator
from html import escape

from weft.compiler.report import (
    Report,
    SentRow,
    Source,
    at_least,
    cached_line,
    cost_lines,
    counter_words,
    place_of,
    prefix_lines,
    preview,
    uncounted_words,
)
from weft.diagnostics import Origin, safe
from weft.values import compact

LONGEST_TEXT = 20_000
"""Characters of one text that the page carries."""

_HUES: dict[Source, int] = {
    "system": 265,
    "tools": 200,
    "schema": 175,
    "user": 130,
    "model": 35,
    "results": 60,
    "foreign": 320,
    "summary": 95,
    "state": 250,
    "overhead": 0,
}

_STYLE = """
:root { color-scheme: light dark; --line: light-dark(#d8d8de, #3a3a44);
  --soft: light-dark(#f5f5f8, #1c1c22); --dim: light-dark(#666672, #9a9aa8); }
body { font: 14px/1.5 system-ui, sans-serif; margin: 2rem auto; max-width: 78rem; padding: 0 1rem;
  background: light-dark(#fff, #121216); color: light-dark(#16161c, #e8e8ee); }
h1 { font-size: 1.4rem; margin: 0; } h2 { font-size: 1.05rem; margin: 2rem 0 .5rem; }
table { border-collapse: collapse; width: 100%; }
th, td { text-align: left; padding: .2rem .6rem .2rem 0; border-bottom: 1px solid var(--line);
  vertical-align: top; }
th { color: var(--dim); font-weight: 500; } .number { text-align: right; white-space: nowrap; }
code, pre, .mono { font-family: ui-monospace, monospace; font-size: 12.5px; }
pre { white-space: pre-wrap; overflow-wrap: anywhere; background: var(--soft); padding: .6rem;
  margin: .3rem 0; border-radius: 4px; max-height: 30rem; overflow: auto; }
summary { cursor: pointer; overflow-wrap: anywhere; } .dim { color: var(--dim); }
.bar { display: flex; height: 1.6rem; border-radius: 4px; overflow: hidden; margin: .4rem 0; }
.bar span { min-width: 0; } .thin { height: .8rem; }
.s { background: hsl(var(--h) 55% 55%); } .overhead { background: #8888; }
.key { display: inline-block; width: .8rem; height: .8rem; border-radius: 2px;
  margin-right: .3rem; }
.legend span.item { margin-right: 1.2rem; white-space: nowrap; }
pre span:hover { background: light-dark(#fff0a8, #5a4d00); }
pre span.state, pre span.artifact { border-bottom: 2px dotted hsl(30 80% 50%); }
.error { color: light-dark(#b00020, #ff8a9a); } .warning { color: light-dark(#8a5a00, #ffc56b); }
""".strip()


def page(report: Report) -> str:
    """The whole page."""
    return whole_page(escape(f"{report.agent} -> {report.model}"), _STYLE, _body(report))


def whole_page(title: str, style: str, body: Iterable[str]) -> str:
    """A page with its title, its style and the lines of its body."""
    lines = "\n".join(body)
    return (
        f'<!doctype html>\n<html lang="en">\n<head>\n<meta charset="utf-8">\n'
        f'<meta name="viewport" content="width=device-width, initial-scale=1">\n'
        f"<title>{title}</title>\n<style>\n{style}\n</style>\n</head>\n"
        f"<body>\n{lines}\n</body>\n</html>\n"
    )


def fragment(report: Report) -> str:
    """The report as a part of somebody else's page, such as a notebook."""
    # the page around it must keep its own look
    style = _STYLE.replace(":root {", ".weft-report {").replace("body {", ".weft-report {")
    scoped = f"@scope (.weft-report) {{ {style} }}"
    body = "\n".join(_body(report))
    return f'<div class="weft-report"><style>{scoped}</style>\n{body}\n</div>'


def _body(report: Report) -> Iterator[str]:
    yield f"<h1>{_visible(report.agent)} → {_visible(report.model)}</h1>"
    yield (
        f'<p class="dim">{_visible(report.dialect)} · {at_least(report)}{report.tokens:,} tokens,'
        f" {_visible(counter_words(report))} · <code>{_visible(report.hash)}</code></p>"
    )
    if report.uncounted:
        yield f'<p class="dim">{_visible(uncounted_words(report))}</p>'
    prefix = "<br>".join(
        _visible(line.strip())
        for line in (
            *prefix_lines(report.prefix, report.tokens),
            cached_line(report),
            *cost_lines(report),
        )
    )
    yield f"<p>{prefix}</p>"
    yield from _bars(report)
    yield from _sent(report.sent)
    yield from _left_out(report)
    yield from _passes(report)
    yield from _rest(report)


def _bars(report: Report) -> Iterator[str]:
    """One bar by source, one by row; hovering says what and from where."""
    sums = report.by_source
    totals: dict[Source, int] = {name: sums[name] for name in _HUES if sums.get(name, 0) > 0}
    yield '<div class="bar">'
    for name, tokens in totals.items():
        share = round(100 * tokens / report.tokens) if report.tokens else 0
        yield _segment(name, tokens, f"{name}: {tokens:,} tokens, {share}%")
    yield '</div>\n<div class="bar thin">'
    for row in report.sent:
        # a row that costs nothing would be a segment without width
        if row.tokens > 0:
            yield _segment(row.source, row.tokens, f"{row.origin}: {row.tokens:,} tokens")
    yield '</div>\n<p class="legend">'
    for name, tokens in totals.items():
        yield f'<span class="item">{_key(name)}{name} {tokens:,}</span>'
    yield "</p>"


def _segment(source: Source, tokens: int, title: str) -> str:
    return (
        f'<span class="{_class(source)}" style="--h:{_HUES[source]};flex:{tokens} 1 0"'
        f' title="{_visible(title)}"></span>'
    )


def _key(source: Source) -> str:
    return f'<span class="key {_class(source)}" style="--h:{_HUES[source]}"></span>'


def _class(source: Source) -> str:
    return "overhead" if source == "overhead" else "s"


def _sent(rows: Iterable[SentRow]) -> Iterator[str]:
    yield "<h2>Sent</h2>"
    yield _head("tokens", "what", "stability", "origin", "place", "text")
    for row in rows:
        what = f"{row.role} {row.kind}" if row.role else row.kind
        shared = (
            ' <span class="dim" title="as in the request before">=</span>' if row.shared else ""
        )
        yield _row(
            _number(f"{row.tokens:,}{shared}"),
            _cell(f"{_key(row.source)}{_visible(what)}"),
            _cell(_visible(row.stability)),
            _from(row.origin),
            f'<td class="mono dim">{_visible(row.pointer)}</td>',
            _cell(_folded(row)),
        )
    yield "</table>"


def _folded(row: SentRow) -> str:
    """The text after its first words, each piece with its origin."""
    line = preview(row.text)
    if len(row.text) <= 80 and not row.pieces:
        return f'<span title="{_visible(str(row.origin))}">{escape(line)}</span>'
    short = line[:80] + ("…" if len(line) > 80 else "")
    return f"<details><summary>{escape(short)}</summary><pre>{_pieces(row)}</pre></details>"


def _pieces(row: SentRow) -> str:
    if not row.pieces:
        return _long(row.text)
    start, out = 0, list[str]()
    for piece in row.pieces:
        text = row.text[start : piece.end]
        out.append(
            f'<span class="{piece.origin.kind}" title="{_visible(str(piece.origin))}">'
            f"{_long(text)}</span>"
        )
        start = piece.end
    return "".join(out)


def _left_out(report: Report) -> Iterator[str]:
    if not report.left_out:
        return
    yield "<h2>Left out or rewritten</h2>"
    yield _head("tokens", "pass", "what", "origin", "reason", "text")
    for row in report.left_out:
        short = preview(row.text)[:80]
        text = f"<details><summary>{escape(short)}</summary><pre>{_long(row.text)}</pre></details>"
        yield _row(
            _number(f"{row.before:,} → {row.after:,}"),
            _cell(f"<code>{_visible(row.step)}</code>"),
            _cell(row.action),
            _from(row.origin),
            _cell(_visible(row.reason)),
            _cell(text if row.text else ""),
        )
    yield "</table>"


def _passes(report: Report) -> Iterator[str]:
    yield "<h2>Passes</h2>"
    yield _head("pass", "dropped", "changed", "added", "moved", "tokens of what it touched")
    for row in report.passes:
        touched = f"{row.before:,} → {row.after:,}" if row.acted and not row.remark else row.remark
        yield _row(
            _cell(f"<code>{_visible(row.name)}</code>"),
            *(_cell(str(n or "")) for n in (row.dropped, row.changed, row.added, row.moved)),
            _cell(_visible(touched)),
        )
    yield "</table>"


def _rest(report: Report) -> Iterator[str]:
    if report.options:
        yield "<h2>Options</h2>"
        yield _head("name", "value", "set by", "place")
        for option in report.options:
            yield _row(
                _cell(_visible(option.name)),
                f'<td class="mono">{_visible(compact(option.value))}</td>',
                _cell(_visible(str(option.origin))),
                _cell(_visible(option.pointer if option.sent else "not sent")),
            )
        yield "</table>"
    if report.diagnostics:
        yield "<h2>Diagnostics</h2>"
        for one in report.diagnostics:
            yield f'<pre class="{one.severity.value}">{_visible(str(one))}</pre>'
    if report.inferred:
        yield "<h2>Inferred</h2>\n<ul>"
        yield from (f"<li>{_visible(fact)}</li>" for fact in report.inferred)
        yield "</ul>"


def _head(*names: str) -> str:
    return "<table><tr>" + "".join(f"<th>{name}</th>" for name in names) + "</tr>"


def _row(*cells: str) -> str:
    return f"<tr>{''.join(cells)}</tr>"


def _cell(content: str) -> str:
    return f"<td>{content}</td>"


def _from(origin: Origin) -> str:
    return f'<td class="mono" title="{_visible(str(origin))}">{escape(place_of(origin))}</td>'


def _number(content: str) -> str:
    return f'<td class="number">{content}</td>'


def _visible(text: str) -> str:
    return escape(safe(text))


def _long(text: str) -> str:
    if len(text) <= LONGEST_TEXT:
        return _visible(text)
    return f"{_visible(text[:LONGEST_TEXT])}\n… {len(text) - LONGEST_TEXT:,} more characters"
