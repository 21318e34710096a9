"""`weft check` and `weft graph`: what is wrong with a flow before it runs, and its picture.

Top to bottom: the check, the picture, `--watch`, and `--input`.
"""

import importlib.util
import re
import shutil
import subprocess
import sys
import time
from collections.abc import Callable, Iterable, Sequence
from functools import partial
from pathlib import Path

from weft.checker.check import Sight, diagnose, sights
from weft.cli.findings import (
    LocatedFinding,
    Sources,
    apply_fixes,
    as_annotation,
    as_json,
    as_sarif,
    as_text,
    changes_for,
    difference,
    sources_of,
)
from weft.cli.load import is_node, load_source, node_of, require_folder
from weft.cli.options import CommandOptions, PictureForm, ReportForm
from weft.cli.printing import print_json
from weft.codes import CODES
from weft.declare import Node
from weft.diagnostics import Diagnostic, safe
from weft.errors import UsageError
from weft.misuse import find_near


def check_command(options: CommandOptions) -> int:
    """Check a flow: 0 if nothing is wrong, 1 if there are findings."""
    if options.watch:
        if options.fix:
            raise UsageError("it either watches or mends", where="check", hint="leave one out")
        return watch_files(options.target, _again(options))
    inputs = typed_keys(options.inputs or ())
    diagnostics, node, infer = _check_target(options, inputs)
    findings: list[LocatedFinding] = []
    if diagnostics:
        sources = sources_of(options.target, node)
        findings = sources.locate(diagnostics)
        if options.fix and _mend_findings(findings, sources):
            return once_more(_again(options))
    # what agents see takes another walk: it is worked out only for a report that says it
    seen = partial(sights, node, inputs=inputs, infer=infer)
    _print(findings, seen, options.report_form, explain=options.explain)
    least = ("info", "warning", "error") if options.strict else ("warning", "error")
    return 1 if any(one.diagnostic.severity in least for one in findings) else 0


def _check_target(
    options: CommandOptions, inputs: dict[str, object]
) -> tuple[list[Diagnostic], Node, bool]:
    """The diagnostics, the flow, and whether keys were inferred in it: not in google-adk's."""
    target, infer, allow = options.target, options.infer, _codes(options.allow or [])
    source = load_source(target)
    if is_node(source):
        return diagnose(source, inputs, allow=allow, infer=infer), source, infer
    from weft.interop.adk import check_adk  # google-adk is an extra, and slow to load

    return check_adk(source, inputs=inputs, allow=allow), node_of(source, target), False


def _again(options: CommandOptions) -> list[str]:
    """The command as it is typed, without `--fix` and `--watch`."""
    words = ["check", options.target, "--format", options.report_form]
    flags = {
        "--explain": options.explain,
        "--no-infer": not options.infer,
        "--strict": options.strict,
    }
    words += [flag for flag, wanted in flags.items() if wanted]
    words += [word for one in options.inputs or () for word in ("--input", one)]
    words += [word for one in options.allow or () for word in ("--allow", one)]
    return words


def _codes(allow: list[str]) -> list[str]:
    for code in allow:
        if code not in CODES:
            raise UsageError(
                f"there is no code `{code}`", where="--allow", hint="`weft rule` lists them all"
            )
    return allow


def _mend_findings(findings: list[LocatedFinding], sources: Sources) -> bool:
    """Mend what can be, and show it; whether anything was."""
    changes = changes_for([one.diagnostic for one in findings], sources)
    for file, text in apply_fixes(changes, sources).items():
        print(difference(file, sources.texts[file], text), end="", flush=True)
        file.write_text(text, encoding="utf-8")
    return bool(changes)


def _print(
    findings: list[LocatedFinding],
    seen: Callable[[], list[Sight]],
    form: ReportForm,
    *,
    explain: bool,
) -> None:
    match form:
        case ReportForm.JSON:
            print_json(as_json(findings, [one.to_dict() for one in seen()]))
        case ReportForm.SARIF:
            print_json(as_sarif(findings))
        case ReportForm.GITHUB:
            for one in findings:
                print(safe(as_annotation(one)))
        case ReportForm.TEXT:
            for one in findings:
                print(safe(as_text(one)))
            if explain:
                print(safe("\n\n".join(str(one) for one in seen())))
            elif not findings:
                agents = len(seen())
                print(f"{agents} agent{'s' if agents != 1 else ''}, nothing to say")


# --- the picture


def graph_command(options: CommandOptions) -> int:
    """Draw a flow: what runs after what, who writes and who reads, and what is wrong."""
    import weft.graph as pictures  # a check draws nothing
    from weft.graph.terminal import ASCII, WIDTH, strokes_for

    output = options.output
    form = options.picture_form or _form_of(output)
    if output is not None:
        require_folder(output, "--output")
    inputs = typed_keys(options.inputs or ())
    diagnostics, node, infer = _check_target(options, inputs)
    sources = sources_of(options.target, node)
    problems = [one.diagnostic for one in sources.locate(diagnostics)]
    graph = pictures.graph_of(node, inputs=inputs, infer=infer, problems=problems)
    match form:
        case PictureForm.SVG:
            text = pictures.to_svg(graph)
        case PictureForm.MERMAID:
            text = pictures.to_mermaid(graph)
        case PictureForm.TEXT:
            plain = output is None and strokes_for(sys.stdout.encoding or "utf-8") is ASCII
            width = WIDTH
            if output is None and sys.stdout.isatty():
                width = max(40, min(WIDTH, shutil.get_terminal_size((WIDTH, 24)).columns))
            text = pictures.to_text(graph, width=width, ascii_only=plain)
    if output is None:
        print(text, end="")
    else:
        output.write_text(text, "utf-8", errors="backslashreplace")
        print(f"wrote {output}")
    return 0


_SUFFIXES = {".svg": "svg", ".mmd": "mermaid", ".mermaid": "mermaid", ".txt": "text"}


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


# --- watch: the command again, whenever a file changes

SECONDS = 0.3
"""How long to wait between two looks at the files."""


def once_more(arguments: Sequence[str]) -> int:
    """Run the command in a new process, and give its exit code."""
    # A module that was imported once stays as it was: only a new process reads it again. It writes
    # no bytecode: that of a file which changes twice in a second would be taken for the newer one.
    command = [sys.executable, "-B", "-m", "weft", *arguments]
    return subprocess.run(command, check=False).returncode


def watch_files(target: str, arguments: Sequence[str]) -> int:
    """Run the command now, and again whenever a file next to the target changes."""
    folder = _folder(target)
    print(f"watching {folder}; press Ctrl-C to end", file=sys.stderr)
    try:
        while True:
            seen = _times(folder)
            once_more(arguments)
            while _times(folder) == seen:
                time.sleep(SECONDS)
            print("", flush=True)
    except KeyboardInterrupt:
        return 0


def _folder(target: str) -> Path:
    """The folder that the target's file stands in."""
    if Path(target).is_dir():
        return Path(target).resolve()
    place = target.rpartition(":")[0]
    if place.endswith(".py"):
        return Path(place).resolve().parent
    sys.path.insert(0, str(Path.cwd()))
    try:
        spec = importlib.util.find_spec(place)
    except (ImportError, ValueError):
        spec = None
    return Path(spec.origin).parent if spec is not None and spec.origin else Path.cwd()


def _times(folder: Path) -> dict[Path, int]:
    """When each Python file below the folder was changed."""
    times: dict[Path, int] = {}
    for file in folder.rglob("*.py"):
        # not `.venv` and the like
        if not any(part.startswith(".") for part in file.relative_to(folder).parts):
            try:
                times[file] = file.stat().st_mtime_ns
            # it went since the folder was listed
            except FileNotFoundError:
                continue
    return times


# --- inputs on the command line

TYPES: dict[str, object] = {
    "str": str,
    "int": int,
    "float": float,
    "bool": bool,
    "list": list,
    "dict": dict,
    "object": object,
    "list[str]": list[str],
    "list[int]": list[int],
    "list[float]": list[float],
    "list[bool]": list[bool],
    "list[dict]": list[dict[str, object]],
}
"""The types that can be named; a key without one holds anything."""


def typed_keys(written: Iterable[str]) -> dict[str, object]:
    """The keys, each with its type; `object` where none is given."""
    keys: dict[str, object] = {}
    for one in written:
        key, equals, name = one.partition("=")
        key, name = key.strip(), re.sub(r"\s", "", name)
        if not key or (equals and not name):
            raise UsageError(
                f"`{one}` does not name a key and its type",
                where="--input",
                hint="write --input topic=str",
            )
        if key in keys:
            raise UsageError(f"`{key}` is given twice", where="--input", hint="give it once")
        if equals and name not in TYPES:
            near = find_near(name, TYPES, cutoff=0.5)
            raise UsageError(
                f"`{name}` is not a type that can be named here",
                where=f"--input {key}",
                hint=f"did you mean `{near[0]}`?" if near else f"use one of {', '.join(TYPES)}",
            )
        keys[key] = TYPES[name] if equals else object
    return keys
