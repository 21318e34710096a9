"""A report as one HTML page that needs nothing but itself.

No script and no outside resource: folding is `<details>`, hovering is `title`. Everything
that comes from a session is escaped; a text that is very long is cut, and says so.
"""

from collections.abc import Iterable, Iterator

from weft.compiler.report import (
    PassRow,
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
from weft.markup import cut_text, escape, fragment, page, table, tag
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
table { width: 100%; }
pre { background: var(--soft); padding: .6rem; border-radius: 4px; max-height: 30rem;
  overflow: auto; }
summary { cursor: pointer; overflow-wrap: anywhere; }
.bar { display: flex; height: 1.6rem; border-radius: 4px; overflow: hidden; margin: .4rem 0; }
.bar span { min-width: 0; } .thin { height: .8rem; }
.s { background: hsl(var(--h) 55% 55%); } .overhead { background: #8888; }
.key { display: inline-block; width: .8rem; height: .8rem; border-radius: 2px;
  margin-right: .3rem; }
.legend span.item { margin-right: 1.2rem; white-space: nowrap; }
pre span:hover { background: light-dark(#fff0a8, #5a4d00); }
pre span.state, pre span.artifact { border-bottom: 2px dotted hsl(30 80% 50%); }
""".strip()


def report_page(report: Report) -> str:
    """The whole page."""
    return page(f"{report.agent} -> {report.model}", _STYLE, _body(report))


def report_fragment(report: Report) -> str:
    """The report as a part of somebody else's page, such as a notebook."""
    return fragment(_body(report), _STYLE)


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
    yield from _write_sent_rows(report.sent)
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
    style = f"--h:{_HUES[source]};flex:{tokens} 1 0"
    return tag("span", "", _class(source), style=style, title=safe(title))


def _key(source: Source) -> str:
    return tag("span", "", f"key {_class(source)}", style=f"--h:{_HUES[source]}")


def _class(source: Source) -> str:
    return "overhead" if source == "overhead" else "s"


def _write_sent_rows(rows: Iterable[SentRow]) -> Iterator[str]:
    yield "<h2>Sent</h2>"
    yield table(("tokens", "what", "stability", "origin", "place", "text"), map(_sent_cells, rows))


def _sent_cells(row: SentRow) -> tuple[str, ...]:
    what = f"{row.role} {row.kind}" if row.role else row.kind
    shared = " " + tag("span", "=", "dim", title="as in the request before") if row.shared else ""
    return (
        tag("td", f"{row.tokens:,}{shared}", "number"),
        _cell(f"{_key(row.source)}{_visible(what)}"),
        _cell(_visible(row.stability)),
        _origin_cell(row.origin),
        tag("td", _visible(row.pointer), "mono dim"),
        _cell(_text_of(row)),
    )


def _text_of(row: SentRow) -> str:
    """The text, a long one folded under its first words, each piece with its origin."""
    line = preview(row.text)
    if len(row.text) <= 80 and not row.pieces:
        return tag("span", escape(line), title=safe(str(row.origin)))
    return _fold_long_text(line[:80] + ("…" if len(line) > 80 else ""), _pieces(row))


def _fold_long_text(short: str, content: str) -> str:
    """Texts under their first words."""
    return tag("details", f"{tag('summary', escape(short))}{tag('pre', content)}")


def _pieces(row: SentRow) -> str:
    if not row.pieces:
        return _long(row.text)
    start, out = 0, list[str]()
    for piece in row.pieces:
        text, origin = _long(row.text[start : piece.end]), piece.origin
        out.append(tag("span", text, origin.kind, title=safe(str(origin))))
        start = piece.end
    return "".join(out)


def _left_out(report: Report) -> Iterator[str]:
    if not report.left_out:
        return
    yield "<h2>Left out or rewritten</h2>"
    rows = (
        (
            tag("td", f"{row.before:,} → {row.after:,}", "number"),
            _cell(tag("code", _visible(row.step))),
            _cell(row.action),
            _origin_cell(row.origin),
            _cell(_visible(row.reason)),
            _cell(_fold_long_text(preview(row.text)[:80], _long(row.text)) if row.text else ""),
        )
        for row in report.left_out
    )
    yield table(("tokens", "pass", "what", "origin", "reason", "text"), rows)


def _passes(report: Report) -> Iterator[str]:
    yield "<h2>Passes</h2>"
    heads = ("pass", "dropped", "changed", "added", "moved", "tokens of what it touched")
    yield table(heads, map(_pass_cells, report.passes))


def _pass_cells(row: PassRow) -> tuple[str, ...]:
    touched = f"{row.before:,} → {row.after:,}" if row.acted and not row.remark else row.remark
    counts = (row.dropped, row.changed, row.added, row.moved)
    return (
        _cell(tag("code", _visible(row.name))),
        *(_cell(str(count or "")) for count in counts),
        _cell(_visible(touched)),
    )


def _rest(report: Report) -> Iterator[str]:
    if report.options:
        yield "<h2>Options</h2>"
        rows = (
            (
                _cell(_visible(option.name)),
                tag("td", _visible(compact(option.value)), "mono"),
                _cell(_visible(str(option.origin))),
                _cell(_visible(option.pointer if option.sent else "not sent")),
            )
            for option in report.options
        )
        yield table(("name", "value", "set by", "place"), rows)
    if report.diagnostics:
        yield "<h2>Diagnostics</h2>"
        for one in report.diagnostics:
            yield tag("pre", _visible(str(one)), one.severity.value)
    if report.inferred:
        yield "<h2>Inferred</h2>\n<ul>"
        yield from (f"<li>{_visible(fact)}</li>" for fact in report.inferred)
        yield "</ul>"


def _cell(content: str) -> str:
    return tag("td", content)


def _origin_cell(origin: Origin) -> str:
    return tag("td", escape(place_of(origin)), "mono", title=safe(str(origin)))


def _visible(text: str) -> str:
    return escape(safe(text))


def _long(text: str) -> str:
    return _visible(cut_text(text, LONGEST_TEXT))
