"""`weft compile`: the request, readable or as the provider's JSON."""

import asyncio
import sys
from typing import Annotated

import typer

from weft.cli import options as given
from weft.compiler import Compilation
from weft.models.counting import count
from weft.models.registry import model_for


def compile_command(
    target: given.TARGET,
    message: given.MESSAGE = None,
    state: given.STATE = None,
    session: given.SESSION_OR_FILE = None,
    store: given.STORE = None,
    trusted: given.TRUSTED = False,
    app: given.APP = None,
    user: given.ONE_USER = None,
    agent: given.AGENT = None,
    dialect: given.DIALECT = None,
    model: given.MODEL = None,
    option: given.OPTION = None,
    strict: given.STRICT = False,
    as_json: Annotated[bool, typer.Option("--json", help="Exactly the provider's JSON.")] = False,
    step: given.STEP = None,
    count: Annotated[
        bool, typer.Option("--count", help="Ask the provider to count it too; needs a key.")
    ] = False,
) -> int:
    """Compile one request and show it."""
    from weft.cli.inputs import Inputs, exit_code, request
    from weft.cli.render import print_json, print_request
    from weft.compiler.report import safe

    compiled = request(
        Inputs(
            target=target,
            message=message,
            state=state or [],
            session=session,
            store=store,
            trusted=trusted,
            app=app,
            user=user,
            agent=agent,
            dialect=dialect,
            model=model,
            options=option or [],
            strict=strict,
            step=step,
        )
    )
    if as_json:
        print_json(compiled.wire)
        for found in compiled.diagnostics:
            print(safe(str(found)), file=sys.stderr)
    else:
        print_request(compiled)
    if count:
        # imported above

        print_count(compiled)
    return exit_code(compiled, strict=strict)


def print_count(compiled: Compilation) -> None:
    """Ask the provider, and print both counts where they do not mix with the request."""
    name = compiled.prompt.model
    model = model_for(name, where="--count")
    counted = asyncio.run(count(model, compiled.prompt, compiled.wire))
    off = (compiled.tokens - counted) / counted if counted else 0.0
    print(
        f"{counted:,} tokens as {name} counts, {compiled.tokens:,} as Weft does ({off:+.1%})",
        file=sys.stderr,
    )
