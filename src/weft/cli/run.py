"""`weft run`: one question, answered on stdout as the answer comes."""

import sys
from typing import Annotated

import typer

from weft.cli import options as given
from weft.errors import UsageError


def run_command(
    target: given.TARGET,
    message: Annotated[
        str | None, typer.Argument(help="What the user says.", show_default=False)
    ] = None,
    session: given.SESSION = None,
    store: given.STORE = None,
    user: given.USER = "user",
    app: given.APP = None,
    state: given.STATE = None,
    model: given.MODEL = None,
    as_json: Annotated[
        bool, typer.Option("--json", help="Events as ADK's JSON, one a line.")
    ] = False,
    max_llm_calls: given.CALLS = None,
    budget_tokens: given.BUDGET_TOKENS = None,
    budget_seconds: given.BUDGET_SECONDS = None,
    budget_money: given.BUDGET_MONEY = None,
    strict: given.STRICT = False,
    resume: Annotated[
        bool, typer.Option("--resume", help="Go on where the session stopped.")
    ] = False,
    answer: Annotated[
        list[str] | None,
        typer.Option("--answer", help="Answer an open call, by id or name.", metavar="ID=VALUE"),
    ] = None,
    retry: Annotated[
        list[str] | None,
        typer.Option("--retry", help="Run a call again that may have run.", metavar="ID"),
    ] = None,
    verbose: Annotated[
        bool, typer.Option("-v", "--verbose", help="Show calls and results on stderr.")
    ] = False,
) -> int:
    """Ask one question; the answer streams to stdout."""
    goes_on = resume or bool(answer) or bool(retry)
    if goes_on and (message is not None or state):
        raise UsageError(
            "a run goes on without a message and without state",
            where="--resume",
            hint="leave out --resume, --answer and --retry, or the message and --state",
        )
    if goes_on and session is None:
        raise UsageError(
            "which session?", where="--resume", hint="--session ID; `weft sessions list` lists them"
        )
    if not goes_on and not message:
        raise UsageError(
            "there is no message", where="run", hint=f'weft run {target} "What is new?"'
        )
    from weft.cli.once import Asked, run_once

    return run_once(
        Asked(
            target=target,
            message=message or "",
            session=session,
            store=store,
            user=user,
            app=app,
            state=state or [],
            model=model,
            as_json=as_json,
            max_llm_calls=max_llm_calls,
            budget=(budget_tokens, budget_seconds, budget_money),
            strict=strict,
            goes_on=goes_on,
            answers=answer or [],
            retries=retry or [],
            notes=verbose or sys.stderr.isatty(),
        )
    )
