"""The report of a request as tables of a terminal."""

from collections.abc import Iterator, Sequence

from rich.cells import cell_len
from rich.console import RenderableType
from rich.table import Table
from rich.text import Text

from weft.compiler.report import (
    HISTORY,
    WIDTH,
    Report,
    SentRow,
    Source,
    clip,
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

_NAMED = 64
"""Columns from which on a terminal has room for more than names and numbers."""

_SEVERITIES = {Severity.ERROR: "red", Severity.WARNING: "yellow", Severity.INFO: "blue"}


def tables(report: Report, width: int, *, everything: bool = False) -> Iterator[RenderableType]:
    """The parts of the report, top to bottom."""
    limit = None if everything else HISTORY
    yield Text(f"{report.agent} -> {safe(report.model)} ({report.dialect})", style="bold")
    yield Text("\n".join(header_lines(report)))
    yield _bar(report, max(10, min(width, 100) - 2))
    yield Text("\npasses", style="bold")
    yield _passes(report, width)
    before, hidden, after = sent_view(report, limit)
    yield Text("\nsent", style="bold")
    if hidden:
        yield _sent_rows(before, width)
        yield Text(f"  {hidden_words(hidden)}", style="dim")
        yield _sent_rows(after, width)
    else:
        yield _sent_rows(before, width)
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


def _passes(report: Report, width: int) -> Table:
    table = Table(box=None, header_style="dim")
    table.add_column("pass", no_wrap=True)
    columns: list[tuple[str, list[str]]] = [
        ("dropped", [_count(row.dropped) for row in report.passes]),
        ("changed", [_count(row.changed) for row in report.passes]),
        ("added", [_count(row.added) for row in report.passes]),
        ("moved", [_count(row.moved) for row in report.passes]),
    ]
    if width < _NAMED:  # the names of passes need the room
        columns = [(name, cells) for name, cells in columns if any(cells)]
    touched = [
        row.remark or (f"{row.before:,} -> {row.after:,}" if row.acted else "")
        for row in report.passes
    ]
    for name, _ in (*columns, ("tokens", touched)):
        table.add_column(name, justify="right")
    for index, row in enumerate(report.passes):
        cells = [column[index] for _, column in columns]
        table.add_row(row.name, *cells, touched[index], style="" if row.acted else "dim")
    return table


def _count(number: int) -> str:
    return str(number) if number else ""


def _sent_rows(rows: Sequence[SentRow], width: int) -> Table:
    """The rows that were sent. What does not fit is left out from the right: never the origin."""
    origins = [place_of(row.origin) for row in rows]
    room = max(26, width // 4)
    table = Table(box=None, header_style="dim", expand=width >= _NAMED)
    table.add_column("tokens", justify="right", no_wrap=True)
    table.add_column("what", no_wrap=True)
    if width >= _NAMED:
        table.add_column("stability", no_wrap=True)
    table.add_column("origin", no_wrap=True, width=_widest("origin", origins, room))
    pointers = [row.pointer for row in rows] if width >= WIDTH else []
    place = _widest("place", pointers, room) if pointers else 0
    if place:
        table.add_column("place", no_wrap=True, width=place)
    if width >= _NAMED:
        table.add_column("text", no_wrap=True, overflow="ellipsis", ratio=1)
    for row, origin in zip(rows, origins, strict=True):
        cells: list[str | Text] = [
            f"{row.tokens:,}{'=' if row.shared else ' '}",
            Text(f"{row.role} {row.kind}".strip(), style=_COLOURS[row.source]),
        ]
        if width >= _NAMED:
            cells.append(row.stability)
        cells.append(Text(origin))
        if place:
            cells.append(Text(clip(row.pointer, place, keep="end"), style="dim"))
        if width >= _NAMED:
            cells.append(Text(preview(row.text)))
        table.add_row(*cells)
    return table


def _widest(title: str, cells: Sequence[str], most: int) -> int:
    return min(most, max(cell_len(cell) for cell in (title, *cells)))


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
