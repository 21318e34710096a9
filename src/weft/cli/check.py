"""`weft check`: what is wrong with a flow, before anything runs."""

from enum import StrEnum
from typing import TYPE_CHECKING, Annotated

import typer

from weft.cli import options as given
from weft.errors import UsageError

if TYPE_CHECKING:
    from weft.checker.sight import Sight
    from weft.cli.findings import Found
    from weft.cli.placing import Sources
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
        from weft.cli.watching import watched

        return watched(target, again)
    from weft.cli.findings import Found
    from weft.cli.placing import sources_of

    found, agents, node = _checked(target, inputs or [], _codes(allow or []), infer=infer)
    placed: list[Found] = []
    if found:
        sources = sources_of(target, node)
        kept = (one for one in found if not sources.allowed(one))
        placed = [Found(one, sources.place(one)) for one in kept]
        if fix and _mended(placed, sources):
            from weft.cli.watching import once_more

            return once_more(again)
    _print(placed, agents, form, explain=explain)
    least = ("info", "warning", "error") if strict else ("warning", "error")
    return 1 if any(one.diagnostic.severity in least for one in placed) else 0


def _checked(
    target: str, inputs: list[str], allow: list[str], *, infer: bool
) -> "tuple[list[Diagnostic], list[Sight], Node]":
    """The findings, what each agent will see, and the flow; of Weft's own or google-adk's."""
    from weft.checker import check
    from weft.checker.sight import sights
    from weft.cli.load import load_source, node_of
    from weft.cli.types import typed_keys
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
    from weft.cli.fixing import applied, changes_for, difference

    changes = changes_for([one.diagnostic for one in found], sources)
    for file, text in applied(changes, sources).items():
        print(difference(file, sources.texts[file], text), end="", flush=True)
        file.write_text(text, encoding="utf-8")
    return bool(changes)


def _print(found: "list[Found]", agents: "list[Sight]", form: Form, *, explain: bool) -> None:
    from weft.cli.findings import as_annotation, as_json, as_sarif, as_text
    from weft.cli.render import print_json
    from weft.compiler.text import safe

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
