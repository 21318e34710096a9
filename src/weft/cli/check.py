"""`weft check`: what is wrong with a flow, before anything runs."""

import difflib
import importlib.util
import re
import subprocess
import sys
import time
from collections.abc import Iterable, Sequence
from enum import StrEnum
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from weft.cli import options as given
from weft.errors import UsageError

if TYPE_CHECKING:
    from weft.checker.sights import Sight
    from weft.cli.findings import Found, Sources
    from weft.declare import Node
    from weft.diagnostics import Diagnostic


class Form(StrEnum):
    """The forms of a report."""

    TEXT = "text"
    JSON = "json"
    SARIF = "sarif"
    GITHUB = "github"


def check_command(
    target: given.TARGET,
    inputs: Annotated[
        list[str] | None,
        typer.Option(
            "--input", help="A state key that is there at the start.", metavar="KEY[=TYPE]"
        ),
    ] = None,
    form: Annotated[Form, typer.Option("--format", help="The form of the report.")] = Form.TEXT,
    explain: Annotated[
        bool, typer.Option("--explain", help="Also say what each agent will see.")
    ] = False,
    fix: Annotated[
        bool, typer.Option("--fix", help="Mend what is only misspelt, and check again.")
    ] = False,
    watch: Annotated[
        bool, typer.Option("--watch", help="Check again whenever a file changes.")
    ] = False,
    allow: Annotated[
        list[str] | None,
        typer.Option("--allow", help="A code to leave out.", metavar="CODE"),
    ] = None,
    infer: Annotated[
        bool, typer.Option("--infer/--no-infer", help="Whether keys are inferred.")
    ] = True,
    strict: Annotated[bool, typer.Option("--strict", help="Notes are findings too.")] = False,
) -> int:
    """Check a flow: 0 if nothing is wrong, 1 if there are findings."""
    again = [
        "check",
        target,
        "--format",
        form,
        *_flags(explain=explain, infer=infer, strict=strict),
    ]
    again += [word for one in inputs or () for word in ("--input", one)]
    again += [word for one in allow or () for word in ("--allow", one)]
    if watch:
        if fix:
            raise UsageError("it either watches or mends", where="check", hint="leave one out")
        # imported above

        return watched(target, again)
    from weft.cli.findings import Found, sources_of

    found, agents, node = _checked(target, inputs or [], _codes(allow or []), infer=infer)
    placed: list[Found] = []
    if found:
        sources = sources_of(target, node)
        kept = (one for one in found if not sources.allowed(one))
        placed = [Found(one, sources.place(one)) for one in kept]
        if fix and _mended(placed, sources):
            # imported above

            return once_more(again)
    _print(placed, agents, form, explain=explain)
    least = ("info", "warning", "error") if strict else ("warning", "error")
    return 1 if any(one.diagnostic.severity in least for one in placed) else 0


def _checked(
    target: str, inputs: list[str], allow: list[str], *, infer: bool
) -> "tuple[list[Diagnostic], list[Sight], Node]":
    """The findings, what each agent will see, and the flow; of Weft's own or google-adk's."""
    from weft.checker import check
    from weft.checker.sights import sights
    from weft.cli.load import load_source, node_of

    # imported above
    from weft.declare import Agent, Flow

    keys = typed_keys(inputs)
    source = load_source(target)
    if isinstance(source, Agent | Flow):
        found = check(source, inputs=keys, allow=allow, infer=infer)
        return found, sights(source, inputs=keys, infer=infer), source
    from weft.interop.adk import check_adk

    found = check_adk(source, inputs=keys, allow=allow)
    node = node_of(source, target)
    return found, sights(node, inputs=keys, infer=False), node


def _flags(*, explain: bool, infer: bool, strict: bool) -> list[str]:
    flags = {"--explain": explain, "--no-infer": not infer, "--strict": strict}
    return [flag for flag, wanted in flags.items() if wanted]


def _codes(allow: list[str]) -> list[str]:
    from weft.codes import CODES

    for code in allow:
        if code not in CODES:
            raise UsageError(
                f"there is no code `{code}`", where="--allow", hint="`weft rule` lists them all"
            )
    return allow


def _mended(found: "list[Found]", sources: "Sources") -> bool:
    """Mend what can be, and show it; whether anything was."""
    from weft.cli.findings import applied, changes_for, difference

    changes = changes_for([one.diagnostic for one in found], sources)
    for file, text in applied(changes, sources).items():
        print(difference(file, sources.texts[file], text), end="", flush=True)
        file.write_text(text, encoding="utf-8")
    return bool(changes)


def _print(found: "list[Found]", agents: "list[Sight]", form: Form, *, explain: bool) -> None:
    from weft.cli.findings import as_annotation, as_json, as_sarif, as_text
    from weft.cli.render import print_json
    from weft.compiler.report import safe

    match form:
        case Form.JSON:
            print_json(as_json(found, [one.to_dict() for one in agents]))
        case Form.SARIF:
            print_json(as_sarif(found))
        case Form.GITHUB:
            for one in found:
                print(safe(as_annotation(one)))
        case Form.TEXT:
            for one in found:
                print(safe(as_text(one)))
            if explain:
                print(safe("\n\n".join(str(one) for one in agents)))
            elif not found:
                print(f"{len(agents)} agents, nothing to say")


SECONDS = 0.3
"""How long to wait between two looks at the files."""


def once_more(arguments: Sequence[str]) -> int:
    """Run the command in a new process, and give its exit code."""
    return subprocess.run([sys.executable, "-m", "weft", *arguments], check=False).returncode


def watched(target: str, arguments: Sequence[str]) -> int:
    """Run the command now, and again whenever a file beside the target changes."""
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
    found: dict[Path, int] = {}
    for file in folder.rglob("*.py"):
        if not any(part.startswith(".") for part in file.relative_to(folder).parts):
            try:
                found[file] = file.stat().st_mtime_ns
            except FileNotFoundError:
                continue
    return found


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
    found: dict[str, object] = {}
    for one in written:
        key, equals, name = one.partition("=")
        key, name = key.strip(), re.sub(r"\s", "", name)
        if not key or (equals and not name):
            raise UsageError(
                f"`{one}` does not name a key and its type",
                where="--input",
                hint="write --input topic=str",
            )
        if key in found:
            raise UsageError(f"`{key}` is given twice", where="--input", hint="give it once")
        if equals and name not in TYPES:
            near = difflib.get_close_matches(name, TYPES, n=1, cutoff=0.5)
            raise UsageError(
                f"`{name}` is no type that can be named here",
                where=f"--input {key}",
                hint=f"did you mean `{near[0]}`?" if near else f"use one of {', '.join(TYPES)}",
            )
        found[key] = TYPES[name] if equals else object
    return found
