"""`weft diff`: what changed between two requests of a session, or between two policies."""

from collections.abc import Sequence
from typing import TYPE_CHECKING, Annotated, NamedTuple

import typer

from weft.cli import options as given
from weft.errors import UsageError

if TYPE_CHECKING:
    from weft.cli.inputs import Inputs
    from weft.compiler import Compilation


def diff_command(
    target: given.TARGET,
    session: given.SESSION_OR_FILE = None,
    step: Annotated[
        list[int] | None,
        typer.Option("--step", help="The session's N-th model event; twice for two.", metavar="N"),
    ] = None,
    policy: Annotated[
        list[str] | None,
        typer.Option("--policy", help='As in code: "C.window(5)"; or two.', metavar="POLICY"),
    ] = None,
    store: given.STORE = None,
    trusted: given.TRUSTED = False,
    app: given.APP = None,
    user: given.ONE_USER = None,
    agent: given.AGENT = None,
    dialect: given.DIALECT = None,
    model: given.MODEL = None,
    as_json: Annotated[bool, typer.Option("--json", help="The changes as JSON.")] = False,
    exit_code: Annotated[
        bool, typer.Option("--exit-code", help="Exit with 1 where the two differ.")
    ] = False,
) -> int:
    """Compare two requests of a session: two steps, or one step under two policies.

    One step is compared with the same agent's request before it, one policy with the agents'
    own. Without --step it is the last one.
    """
    from weft.cli.inputs import Inputs
    from weft.cli.render import print_json

    inputs = Inputs(
        target=target,
        session=session,
        store=store,
        trusted=trusted,
        app=app,
        user=user,
        agent=agent,
        dialect=dialect,
        model=model,
    )
    before, after = _sides(inputs, step or [], policy or [])
    changes = before.request.diff(after.request)
    if as_json:
        names = {"from": before.name, "to": after.name}
        print_json({**names, **changes.to_dict()})
    else:
        print(f"{before.name} -> {after.name}\n{changes}")
    return 1 if changes and exit_code else 0


class _Side(NamedTuple):
    """One of the two requests, and how it is called."""

    name: str
    request: "Compilation"


def _sides(inputs: "Inputs", steps: Sequence[int], policies: Sequence[str]) -> tuple[_Side, _Side]:
    """The two requests that the arguments ask for."""
    from weft.cli.inputs import last_step, request

    if len(steps) > 2 or len(policies) > 2 or (len(steps) == 2 and policies):
        raise UsageError(
            "two requests are compared",
            where="diff",
            hint="give --step twice, or --policy twice and --step once",
        )
    if len(steps) == 2:
        first, second = (request(inputs._replace(step=step)) for step in steps)
        return _Side(_step(steps[0], first), first), _Side(_step(steps[1], second), second)
    step = steps[0] if steps else last_step(inputs)
    at = inputs._replace(step=step)
    if policies:
        new = request(at._replace(policy=policies[-1]))
        old = request(at._replace(policy=policies[0] if len(policies) == 2 else None))
        own = f"{old.prompt.agent}'s own policy"
        name = policies[0] if len(policies) == 2 else own
        return _Side(f"{_step(step, old)}, {name}", old), _Side(policies[-1], new)
    now = request(at)
    if now.previous is None:
        why = now.previous_problem or f"`{now.prompt.agent}` was not asked before"
        raise UsageError(
            f"there is no request before step {step}: {why}", where="diff", hint="give --step twice"
        )
    return _Side(f"the request of {now.prompt.agent} before", now.previous), _Side(
        _step(step, now), now
    )


def _step(step: int, request: "Compilation") -> str:
    return f"step {step} ({request.prompt.agent})"
