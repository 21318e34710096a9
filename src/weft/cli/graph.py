"""`weft graph`: the flow as a picture, as SVG, Mermaid or text."""

import shutil
import sys
from enum import StrEnum
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from weft.cli import options as given
from weft.errors import UsageError

if TYPE_CHECKING:
    from weft.graph import Graph

_SUFFIXES = {".svg": "svg", ".mmd": "mermaid", ".mermaid": "mermaid", ".txt": "text"}


class Form(StrEnum):
    """The forms of a picture."""

    SVG = "svg"
    MERMAID = "mermaid"
    TEXT = "text"


def graph_command(
    target: given.TARGET,
    form: Annotated[
        Form | None,
        typer.Option("--format", help="The form; by default that of the file, else text."),
    ] = None,
    output: Annotated[
        Path | None, typer.Option("-o", "--output", help="Write it to a file.", metavar="FILE")
    ] = None,
    inputs: Annotated[
        list[str] | None,
        typer.Option(
            "--input", help="A state key that is there at the start.", metavar="KEY[=TYPE]"
        ),
    ] = None,
) -> int:
    """Draw a flow: what runs after what, who writes and who reads, and what is wrong."""
    from weft.cli.check import typed_keys
    from weft.graph import to_mermaid, to_svg, to_text
    from weft.graph.terminal import ASCII, WIDTH, strokes_for

    form = form or _form_of(output)
    graph = _graph(target, typed_keys(inputs or ()))
    match form:
        case Form.SVG:
            text = to_svg(graph)
        case Form.MERMAID:
            text = to_mermaid(graph)
        case Form.TEXT:
            plain = output is None and strokes_for(sys.stdout.encoding or "utf-8") is ASCII
            width = WIDTH
            if output is None and sys.stdout.isatty():
                width = max(40, min(WIDTH, shutil.get_terminal_size((WIDTH, 24)).columns))
            text = to_text(graph, width=width, ascii_only=plain)
    if output is None:
        print(text, end="")
    else:
        output.write_text(text, "utf-8", errors="backslashreplace")
        print(f"wrote {output}")
    return 0


def _graph(target: str, keys: dict[str, object]) -> "Graph":
    """The picture, with the problems that `weft check` has, of Weft's own or google-adk's."""
    from weft.checker import check
    from weft.cli.findings import sources_of
    from weft.cli.load import load_source, node_of
    from weft.declare import Agent, Flow
    from weft.graph import graph_of

    source = load_source(target)
    ours = False
    if isinstance(source, Agent | Flow):
        ours = True
        found = check(source, inputs=keys)
    else:
        from weft.interop.adk import check_adk

        found = check_adk(source, inputs=keys)
    node = node_of(source, target)
    sources = sources_of(target, node)
    marked = [one for one in found if not sources.allowed(one)]
    return graph_of(node, inputs=keys, infer=ours, problems=marked)


def _form_of(output: Path | None) -> Form:
    if output is None:
        return Form.TEXT
    found = _SUFFIXES.get(output.suffix.lower())
    if found is None:
        raise UsageError(
            f"`{output.name}` does not say which form it is to have",
            where="graph",
            hint="add --format svg, --format mermaid or --format text",
        )
    return Form(found)
