"""The report of a request as tables of a terminal."""

from collections.abc import Iterator, Sequence

from rich.console import RenderableType
from rich.table import Table
from rich.text import Text

from weft.compiler.report import (
    HISTORY,
    Report,
    SentRow,
    Source,
    header_lines,
    hidden_words,
    option_line,
    place_of,
    preview,
    sent_view,
)
from weft.diagnostics import Severity, safe

_COLOURS: dict[Source, str] = {
    "system": "magenta",
    "tools": "cyan",
    "schema": "bright_cyan",
    "user": "green",
    "model": "yellow",
    "results": "bright_yellow",
    "foreign": "bright_magenta",
    "summary": "bright_green",
    "state": "bright_blue",
    "overhead": "bright_black",
}

_SEVERITIES = {Severity.ERROR: "red", Severity.WARNING: "yellow", Severity.INFO: "blue"}


def tables(report: Report, width: int, *, everything: bool = False) -> Iterator[RenderableType]:
    """The parts of the report, top to bottom."""
    limit = None if everything else HISTORY
    yield Text(f"{report.agent} -> {safe(report.model)} ({report.dialect})", style="bold")
    yield Text("\n".join(header_lines(report)))
    yield _bar(report, max(10, min(width, 100) - 2))
    yield Text("\npasses", style="bold")
    yield _passes(report)
    before, hidden, after = sent_view(report, limit)
    yield Text("\nsent", style="bold")
    if hidden:
        yield _sent(before)
        yield Text(f"  {hidden_words(hidden)}", style="dim")
        yield _sent(after)
    else:
        yield _sent(before)
    if report.left_out:
        yield Text("\nleft out or rewritten", style="bold")
        yield _left_out(report, limit)
    if report.options:
        yield Text("\noptions", style="bold")
        lines = [option_line(row.name, row.value, str(row.origin)) for row in report.options]
        yield Text("\n".join(lines))
    if report.inferred:
        yield Text("\ninferred", style="bold")
        yield Text("\n".join(f"  {fact}" for fact in report.inferred))
    if report.diagnostics:
        yield Text("\ndiagnostics", style="bold")
        for diagnostic in report.diagnostics[:limit]:
            yield Text(safe(str(diagnostic)), style=_SEVERITIES[diagnostic.severity])


def _bar(report: Report, width: int) -> Text:
    whole = sum(report.by_source.values()) or 1
    bar = Text("  ")
    for name, tokens in report.by_source.items():
        bar.append("█" * round(width * tokens / whole), style=_COLOURS[name])
    return bar


def _passes(report: Report) -> Table:
    table = Table("pass", box=None, header_style="dim")
    for name in ("dropped", "changed", "added", "moved", "tokens"):
        table.add_column(name, justify="right")
    for row in report.passes:
        counts = (row.dropped, row.changed, row.added, row.moved)
        touched = row.remark or (f"{row.before:,} -> {row.after:,}" if row.acted else "")
        cells = [str(count) if count else "" for count in counts]
        table.add_row(row.name, *cells, touched, style="" if row.acted else "dim")
    return table


def _sent(rows: Sequence[SentRow]) -> Table:
    table = Table(box=None, header_style="dim", expand=True)
    table.add_column("tokens", justify="right")
    table.add_column("what", no_wrap=True)
    table.add_column("stability")
    for name, ratio in (("origin", 2), ("place", 2), ("text", 4)):
        table.add_column(name, no_wrap=True, overflow="ellipsis", ratio=ratio)
    for row in rows:
        table.add_row(
            f"{row.tokens:,}{'=' if row.shared else ' '}",
            Text(f"{row.role} {row.kind}".strip(), style=_COLOURS[row.source]),
            row.stability,
            Text(place_of(row.origin)),
            Text(row.pointer, style="dim"),
            Text(preview(row.text)),
        )
    return table


def _left_out(report: Report, limit: int | None) -> Table:
    table = Table("pass", "what", "origin", "reason", box=None, header_style="dim")
    table.add_column("tokens", justify="right")
    rows = report.left_out if limit is None else report.left_out[-limit:]
    if len(rows) < len(report.left_out):
        more = f"...and {len(report.left_out) - len(rows):,} more (--all shows them)"
        table.add_row(Text(more, style="dim"))
    for row in rows:
        table.add_row(
            row.step,
            row.action,
            Text(place_of(row.origin)),
            Text(safe(row.reason)),
            f"{row.before:,} -> {row.after:,}",
        )
    return table
