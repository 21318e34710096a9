"""`weft compile`: the request, readable or as the provider's JSON."""

import sys
from typing import Annotated

import typer

from weft.cli import inputs as given
from weft.cli.render import print_json, print_request
from weft.compiler.text import safe


def compile_command(
    target: given.TARGET,
    message: given.MESSAGE = None,
    state: given.STATE = None,
    session: given.SESSION = None,
    agent: given.AGENT = None,
    dialect: given.DIALECT = None,
    model: given.MODEL = None,
    option: given.OPTION = None,
    strict: given.STRICT = False,
    as_json: Annotated[bool, typer.Option("--json", help="Exactly the provider's JSON.")] = False,
) -> int:
    """Compile one request and show it."""
    compiled = given.request(
        given.Inputs(
            target, message, state or [], session, agent, dialect, model, option or [], strict
        )
    )
    if as_json:
        print_json(compiled.wire)
        for found in compiled.diagnostics:
            print(safe(str(found)), file=sys.stderr)
    else:
        print_request(compiled)
    return given.exit_code(compiled, strict=strict)
