"""`weft compile`: the request, readable or as the provider's JSON."""

import sys
from typing import Annotated

import typer

from weft.cli import options as given


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
    from weft.compiler.text import safe

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
        from weft.cli.count import print_count

        print_count(compiled)
    return exit_code(compiled, strict=strict)
