"""`weft diff`: what changed between two requests of a session, or between two policies."""

from collections.abc import Sequence
from dataclasses import replace
from typing import NamedTuple

from weft.cli.inputs import last_step, request
from weft.cli.options import CommandOptions
from weft.cli.render import print_json
from weft.compiler import Compilation
from weft.errors import UsageError


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
