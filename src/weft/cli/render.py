"""What commands print: plain text into a pipe, colours and tables into a terminal.

Rich is loaded only for a terminal. Text from a session is never read as markup, and control
characters in it are spelled out, so that no log can steer the terminal it is shown in.
"""

from collections.abc import Iterator
from typing import TYPE_CHECKING, NamedTuple

from weft.cli.printing import is_terminal
from weft.compiler import Compilation
from weft.compiler.report import Report, block_text, clip, option_line, preview
from weft.diagnostics import safe
from weft.ir import CallBlock, Item, ResultBlock, ToolDecl
from weft.values import Json, compact

if TYPE_CHECKING:
    from rich.console import Console

_LONGEST = 2_000
"""Characters of one turn that the readable form shows."""


class PrintedLine(NamedTuple):
    """A line, and how a terminal shows it."""

    text: str
    style: str = ""


def print_request(compiled: Compilation) -> None:
    """The request as a person reads it: system, tools, turns, options."""
    lines = request_lines(compiled)
    if not is_terminal():
        print("\n".join(line.text for line in lines))
        return
    from rich.text import Text  # a pipe needs no rich, which is slow to load

    console = _console()
    for line in lines:
        console.print(Text(line.text, style=line.style))


def print_report(report: Report, *, everything: bool = False) -> None:
    """The report: aligned text into a pipe, tables into a terminal."""
    if not is_terminal():
        print(report.to_text(everything=everything))
        return
    from weft.cli.tables import tables  # made of rich

    console = _console()
    for table in tables(report, console.width, everything=everything):
        console.print(table)


def request_lines(compiled: Compilation) -> Iterator[PrintedLine]:
    """The readable form of a request, line by line."""
    prompt, counter = compiled.prompt, compiled.scale.counter
    counted = "at least " if compiled.uncounted else "" if counter.exact else "about "
    yield PrintedLine(
        f"{prompt.agent} -> {safe(prompt.model)} ({compiled.dialect}),"
        f" {counted}{compiled.tokens:,} tokens",
        "bold",
    )
    if prompt.system:
        yield from _heading("system")
        yield from _indent_lines(prompt.system_text)
    if prompt.tools:
        yield from _heading("tools")
        for tool in prompt.tools:
            yield PrintedLine(f"  {safe(signature(tool))}", "cyan")
            yield from _indent_lines(preview(tool.description), "    ")
    yield from _heading("turns")
    for item in prompt.items:
        yield from _turn(item)
    if prompt.config:
        yield from _heading("options")
        for name, value in prompt.config.items():
            origin = prompt.config_origins.get(name)
            yield PrintedLine(option_line(name, value, str(origin) if origin else ""))
    if prompt.output is not None:
        yield from _heading(f"answer ({prompt.output.how})")
        yield PrintedLine(f"  {safe(compact(prompt.output.schema))}")
    if compiled.diagnostics:
        yield from _heading("diagnostics")
        for diagnostic in compiled.diagnostics:
            yield from _indent_lines(safe(str(diagnostic)), style="yellow")


def signature(tool: ToolDecl) -> str:
    """A tool as a person would write it: `get_weather(city: string, units?: "c" | "f")`."""
    fields = tool.parameters.get("properties")
    required = tool.parameters.get("required")
    needed = required if isinstance(required, list) else []
    listed = fields if isinstance(fields, dict) else {}
    words = [
        f"{key}{'' if key in needed else '?'}: {_type(schema)}" for key, schema in listed.items()
    ]
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


def _heading(text: str) -> Iterator[PrintedLine]:
    yield PrintedLine("")
    yield PrintedLine(text, "bold")


def _turn(item: Item) -> Iterator[PrintedLine]:
    for block in item.blocks:
        says = block_text(block)
        if isinstance(block, CallBlock):
            says = f"calls {says}"
        elif isinstance(block, ResultBlock):
            says = f"result {says}"
        if len(says) > _LONGEST:
            says = f"{says[:_LONGEST]}… {len(says) - _LONGEST:,} more characters"
        first, *rest = safe(says).split("\n")
        yield PrintedLine(
            f"  {block.role:<6} {first}", "green" if block.role == "user" else "yellow"
        )
        for line in rest:
            yield PrintedLine(f"         {line}".rstrip())


def _indent_lines(text: str, lead: str = "  ", style: str = "") -> Iterator[PrintedLine]:
    for line in safe(text).split("\n"):
        yield PrintedLine(f"{lead}{line}".rstrip(), style)


def _console() -> "Console":
    from rich.console import Console

    return Console(highlight=False)
