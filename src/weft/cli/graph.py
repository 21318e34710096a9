"""`weft graph`: the flow as a picture, as SVG, Mermaid or text."""

import shutil
import sys
from pathlib import Path

from weft.checker import check
from weft.cli.check import typed_keys
from weft.cli.findings import sources_of
from weft.cli.inputs import require_folder
from weft.cli.load import is_node, load_source, node_of
from weft.cli.options import CommandOptions, PictureForm
from weft.errors import UsageError
from weft.graph import Graph, graph_of, to_mermaid, to_svg, to_text
from weft.graph.terminal import ASCII, WIDTH, strokes_for

_SUFFIXES = {".svg": "svg", ".mmd": "mermaid", ".mermaid": "mermaid", ".txt": "text"}


def graph_command(options: CommandOptions) -> int:
    """Draw a flow: what runs after what, who writes and who reads, and what is wrong."""
    output = options.output
    form = options.picture_form or _form_of(output)
    if output is not None:
        require_folder(output, "--output")
    graph = _graph(options.target, typed_keys(options.inputs or ()))
    match form:
        case PictureForm.SVG:
            text = to_svg(graph)
        case PictureForm.MERMAID:
            text = to_mermaid(graph)
        case PictureForm.TEXT:
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


def _graph(target: str, keys: dict[str, object]) -> Graph:
    """The picture, with the problems that `weft check` has, of Weft's own or google-adk's."""
    source = load_source(target)
    ours = False
    if is_node(source):
        ours = True
        diagnostics = check(source, inputs=keys)
    else:
        from weft.interop.adk import check_adk

        diagnostics = check_adk(source, inputs=keys)
    node = node_of(source, target)
    sources = sources_of(target, node)
    marked = [one for one in diagnostics if not sources.allowed(one)]
    return graph_of(node, inputs=keys, infer=ours, problems=marked)


def _form_of(output: Path | None) -> PictureForm:
    if output is None:
        return PictureForm.TEXT
    form = _SUFFIXES.get(output.suffix.lower())
    if form is None:
        raise UsageError(
            f"`{output.name}` does not say which form it is to have",
            where="graph",
            hint="add --format svg, --format mermaid or --format text",
        )
    return PictureForm(form)
