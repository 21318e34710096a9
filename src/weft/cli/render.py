"""What commands print: plain text into a pipe, rich tables into a terminal.

Rich is loaded only for a terminal. Text from a session is never read as markup, and control
characters in it are spelled out, so that no log can steer the terminal it is shown in.
"""

import json
import sys
from collections.abc import Iterator, Sequence
from typing import TYPE_CHECKING, NamedTuple

from rich.console import RenderableType
from rich.table import Table
from rich.text import Text

from weft.compiler import Compilation
from weft.compiler.report import (
    HISTORY,
    Report,
    SentRow,
    Source,
    block_text,
    clip,
    header_lines,
    hidden_words,
    option_line,
    place_of,
    preview,
    safe,
    sent_view,
)
from weft.diagnostics import Severity
from weft.ir import CallBlock, Item, ResultBlock, ToolDecl
from weft.values import Json, JsonObject, compact

if TYPE_CHECKING:
    from rich.console import Console

_LONGEST = 2_000
"""Characters of one turn that the readable form shows."""


class Line(NamedTuple):
    """A line, and how a terminal shows it."""

    text: str
    style: str = ""


def is_terminal() -> bool:
    """Whether stdout is looked at by a person."""
    return sys.stdout.isatty()


def print_json(value: JsonObject) -> None:
    """Indented JSON; escaped where stdout cannot carry the characters themselves."""
    unicode = (sys.stdout.encoding or "").lower().replace("-", "") == "utf8"
    print(json.dumps(value, indent=2, ensure_ascii=not unicode, allow_nan=False))


def print_request(compiled: Compilation) -> None:
    """The request as a person reads it: system, tools, turns, options."""
    lines = request_lines(compiled)
    if not is_terminal():
        print("\n".join(line.text for line in lines))
        return
    from rich.text import Text

    console = _console()
    for line in lines:
        console.print(Text(line.text, style=line.style))


def print_report(report: Report, *, everything: bool = False) -> None:
    """The report: aligned text into a pipe, tables into a terminal."""
    if not is_terminal():
        print(report.to_text(everything=everything))
        return
    # imported above

    console = _console()
    for table in tables(report, console.width, everything=everything):
        console.print(table)


def request_lines(compiled: Compilation) -> Iterator[Line]:
    """The readable form of a request, line by line."""
    prompt, counter = compiled.prompt, compiled.scale.counter
    counted = "at least " if compiled.uncounted else "" if counter.exact else "about "
    yield Line(
        f"{prompt.agent} -> {safe(prompt.model)} ({compiled.dialect}),"
        f" {counted}{compiled.tokens:,} tokens",
        "bold",
    )
    if prompt.system:
        yield from _heading("system")
        yield from _indented(prompt.system_text)
    if prompt.tools:
        yield from _heading("tools")
        for tool in prompt.tools:
            yield Line(f"  {safe(signature(tool))}", "cyan")
            yield from _indented(preview(tool.description), "    ")
    yield from _heading("turns")
    for item in prompt.items:
        yield from _turn(item)
    if prompt.config:
        yield from _heading("options")
        for name, value in prompt.config.items():
            origin = prompt.config_origins.get(name)
            yield Line(option_line(name, value, str(origin) if origin else ""))
    if prompt.output is not None:
        yield from _heading(f"answer ({prompt.output.how})")
        yield Line(f"  {safe(compact(prompt.output.schema))}")
    if compiled.diagnostics:
        yield from _heading("diagnostics")
        for found in compiled.diagnostics:
            yield from _indented(safe(str(found)), style="yellow")


def signature(tool: ToolDecl) -> str:
    """A tool as a person would write it: `get_weather(city: string, units?: "c" | "f")`."""
    fields = tool.parameters.get("properties")
    required = tool.parameters.get("required")
    needed = required if isinstance(required, list) else []
    listed = fields if isinstance(fields, dict) else {}
    words = [f"{key}{'' if key in needed else '?'}: {_type(held)}" for key, held in listed.items()]
    return f"{tool.name}({', '.join(words)})"


def _type(schema: Json) -> str:
    if not isinstance(schema, dict):
        return "any"
    if isinstance(choices := schema.get("enum"), list):
        return clip(" | ".join(compact(choice) for choice in choices), 60)
    if isinstance(options := schema.get("anyOf"), list):
        return " | ".join(_type(option) for option in options)
    kind = schema.get("type")
    if kind == "array":
        return f"{_type(schema.get('items'))}[]"
    if isinstance(reference := schema.get("$ref"), str):
        return reference.rpartition("/")[2]
    return kind if isinstance(kind, str) else "any"


def _heading(text: str) -> Iterator[Line]:
    yield Line("")
    yield Line(text, "bold")


def _turn(item: Item) -> Iterator[Line]:
    for block in item.blocks:
        says = block_text(block)
        if isinstance(block, CallBlock):
            says = f"calls {says}"
        elif isinstance(block, ResultBlock):
            says = f"result {says}"
        if len(says) > _LONGEST:
            says = f"{says[:_LONGEST]}… {len(says) - _LONGEST:,} more characters"
        first, *rest = safe(says).split("\n")
        yield Line(f"  {block.role:<6} {first}", "green" if block.role == "user" else "yellow")
        for line in rest:
            yield Line(f"         {line}".rstrip())


def _indented(text: str, lead: str = "  ", style: str = "") -> Iterator[Line]:
    for line in safe(text).split("\n"):
        yield Line(f"{lead}{line}".rstrip(), style)


def _console() -> "Console":
    from rich.console import Console

    return Console(highlight=False)


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
        for found in report.diagnostics[:limit]:
            yield Text(safe(str(found)), style=_SEVERITIES[found.severity])


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
