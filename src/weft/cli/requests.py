"""`weft explain`, `weft compile` and `weft diff`: a report, its request, and what changed in it."""

import asyncio
import sys
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path
from typing import NamedTuple

from weft.cli.inputs import exit_code, last_step, request
from weft.cli.load import require_folder
from weft.cli.options import CommandOptions
from weft.cli.printing import print_json
from weft.cli.render import print_report, print_request
from weft.compiler import Compilation
from weft.declare import C
from weft.diagnostics import safe
from weft.errors import ModelError, UsageError
from weft.models.registry import model_for


def explain_command(options: CommandOptions) -> int:
    """Compile one request and say where every token of it came from."""
    if options.as_json and options.html is not None:
        raise UsageError("--json and --html ask for two forms", where="explain", hint="give one")
    if options.html is not None:
        require_folder(options.html, "--html")
    recorded = is_recording(options.target)
    for flag, value in (("--format", options.recorded_format), ("--lenient", options.lenient)):
        if value and not recorded:
            raise UsageError(
                "this is about a recording", where=flag, hint="name a file as the target"
            )
    compiled, code = recorded_request(options) if recorded else (request(options), 0)
    read_as_its_model_does(compiled)
    report = compiled.explain()
    if options.html is not None:
        options.html.write_text(report.to_html(), "utf-8", errors="backslashreplace")
        print(f"wrote {options.html}")
    elif options.as_json:
        print_json(report.to_dict())
    else:
        print_report(report, everything=options.everything)
    return max(code, exit_code(compiled, strict=options.strict))


def is_recording(target: str) -> bool:
    """Whether the target is a file that holds a recording, and no program."""
    path = Path(target)
    return path.suffix != ".py" and path.is_file()


def recorded_request(options: CommandOptions) -> tuple[Compilation, int]:
    """A request of a recording: the last one, or that of --step N, as its model was asked.

    And the exit code: 1 if something in the file could not be read.
    """
    # few requests are of a recording, and what reads those is slow to load
    from weft.cli.recorded import (
        choose_recording,
        read_what_can_be_read,
        tell_asides,
        tell_failures,
    )
    from weft.replay.replay import requests_of

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
                "a recording is explained as it was recorded",
                where=flag,
                hint="--step, --session, --model",
            )
    read = read_what_can_be_read([path], options)
    code = tell_failures(read.failed)
    recording = choose_recording(
        read.recordings, options.session, where=path.name, flag="--session"
    )
    tell_asides(recording.aside)
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
    return requests[step - 1][2], code


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


# --- compile


def compile_command(options: CommandOptions) -> int:
    """Compile one request and show it."""
    compiled = request(options)
    if options.as_json:
        print_json(compiled.wire)
        # stdout has the JSON alone
        for diagnostic in compiled.diagnostics:
            print(safe(str(diagnostic)), file=sys.stderr)
    else:
        print_request(compiled)
    if options.count:
        print_count(compiled)
    return exit_code(compiled, strict=options.strict)


def print_count(compiled: Compilation) -> None:
    """Ask the provider, and print both counts where they do not mix with the request."""
    from weft.models.remote import count

    name = compiled.prompt.model
    model = model_for(name, where="--count")
    counted = asyncio.run(count(model, compiled.prompt, compiled.wire))
    off = (compiled.tokens - counted) / counted if counted else 0.0
    print(
        f"{counted:,} tokens as {name} counts, {compiled.tokens:,} as Weft does ({off:+.1%})",
        file=sys.stderr,
    )


# --- diff


def diff_command(options: CommandOptions) -> int:
    """Compare two requests of a session: two steps, or one step under two policies."""
    before, after = _sides(options, options.steps or [], options.policies or [])
    changes = before.request.diff(after.request)
    if options.as_json:
        names = {"from": before.name, "to": after.name}
        print_json({**names, **changes.to_dict()})
    else:
        print(f"{before.name} -> {after.name}\n{changes}")
    return 1 if changes and options.exit_code else 0


class _ComparedRequest(NamedTuple):
    """One of the two requests, and how it is called."""

    name: str
    request: Compilation


def _sides(
    options: CommandOptions, steps: Sequence[int], policies: Sequence[str]
) -> tuple[_ComparedRequest, _ComparedRequest]:
    """The two requests that the options ask for."""
    if len(steps) > 2 or len(policies) > 2 or (len(steps) == 2 and policies):
        raise UsageError(
            "two requests are compared",
            where="diff",
            hint="give --step twice, or --policy twice and --step once",
        )
    if len(steps) == 2:
        first, second = (request(replace(options, step=step)) for step in steps)
        return _ComparedRequest(_step(steps[0], first), first), _ComparedRequest(
            _step(steps[1], second), second
        )
    step = steps[0] if steps else last_step(options)
    at = replace(options, step=step)
    if policies:
        new = request(at, policy=policies[-1])
        old = request(at, policy=policies[0] if len(policies) == 2 else None)
        own = f"{old.prompt.agent}'s own policy"
        name = policies[0] if len(policies) == 2 else own
        return _ComparedRequest(f"{_step(step, old)}, {name}", old), _ComparedRequest(
            policies[-1], new
        )
    now = request(at)
    if now.previous is None:
        why = now.previous_problem or f"`{now.prompt.agent}` was not asked before"
        raise UsageError(
            f"there is no request before step {step}: {why}", where="diff", hint="give --step twice"
        )
    return _ComparedRequest(
        f"the request of {now.prompt.agent} before", now.previous
    ), _ComparedRequest(_step(step, now), now)


def _step(step: int, request: Compilation) -> str:
    return f"step {step} ({request.prompt.agent})"
