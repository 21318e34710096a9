"""`weft explain`: the report of a request, as text, JSON or a page."""

import sys
from pathlib import Path

from weft.cli.imports import aside_lines
from weft.cli.inputs import exit_code, nearest, request
from weft.cli.options import CommandOptions
from weft.cli.render import print_json, print_report
from weft.compiler import Compilation
from weft.declare import C
from weft.diagnostics import safe
from weft.errors import ModelError, UsageError
from weft.recordings import read_file
from weft.replay.replay import requests_of


def explain_command(options: CommandOptions) -> int:
    """Compile one request and say where every token of it came from."""
    if options.as_json and options.html is not None:
        raise UsageError("--json and --html ask for two forms", where="explain", hint="give one")
    recorded = is_recording(options.target)
    if options.recorded_format is not None and not recorded:
        raise UsageError(
            "only a recording has a format", where="--format", hint="name a file as the target"
        )
    compiled = recorded_request(options) if recorded else request(options)
    read_as_its_model_does(compiled)
    report = compiled.explain()
    if options.html is not None:
        options.html.write_text(report.to_html(), "utf-8", errors="backslashreplace")
        print(f"wrote {options.html}")
    elif options.as_json:
        print_json(report.to_dict())
    else:
        print_report(report, everything=options.everything)
    return exit_code(compiled, strict=options.strict)


def is_recording(target: str) -> bool:
    """Whether the target is a file that holds a recording, and no program."""
    path = Path(target)
    return path.suffix != ".py" and path.is_file()


def recorded_request(options: CommandOptions) -> Compilation:
    """A request of a recording: the last one, or that of --step N, as its model was asked."""
    path = Path(options.target)
    misplaced: dict[str, object] = {
        "--message": options.message,
        "--state": options.state,
        "--store": options.store,
        "--agent": options.agent,
        "--dialect": options.dialect,
        "--option": options.generation,
        "--app": options.app,
        "--user": options.only_user,
        "--trusted": options.trusted,
    }
    for flag, value in misplaced.items():
        if value:
            raise UsageError(
                "a recording is explained as it is", where=flag, hint="--step, --session, --model"
            )
    recordings = list(read_file(path, format=options.recorded_format))
    ids = [one.id for one in recordings]
    if options.session is None and len(recordings) > 1:
        raise UsageError(
            f"there are {len(recordings)} recordings in it",
            where=path.name,
            hint=f"name one: --session ID; {nearest('ids', '', ids)}",
        )
    chosen = [one for one in recordings if options.session in (None, one.id)]
    if not chosen:
        raise UsageError(
            f"there is no recording `{options.session}` in it",
            where=path.name,
            hint=nearest("ids", options.session or "", ids),
        )
    recording = chosen[0]
    for line in aside_lines([recording]):
        print(safe(line), file=sys.stderr)
    model = options.model or recording.asked_model or None
    requests = list(
        requests_of(recording, C.default(), model=model, as_recorded=options.model is None)
    )
    step = len(requests) if options.step is None else options.step
    if not 1 <= step <= len(requests):
        raise UsageError(
            f"there is no step {step}; the recording has {len(requests)} requests",
            where="--step",
            hint=f"steps count from 1 to {len(requests)}" if requests else "no model was asked",
        )
    return requests[step - 1][2]


def read_as_its_model_does(compiled: Compilation) -> None:
    """Use the model's own tokens to tell what is reused. Without them it is estimated.

    Only where there is something to compare: loading the weights takes a second. Nothing is
    fetched to explain something.
    """
    if not compiled.plan.target.facts.cache.exact or compiled.previous is None:
        return
    from weft.models.local import LocalModel

    model = LocalModel(compiled.prompt.model, slots=1, fetch=False)
    try:
        model.start()
    except ModelError:
        return  # it is not here: the report says that it is an estimate
    compiled.reads = model.tokens
