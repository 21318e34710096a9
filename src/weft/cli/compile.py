"""`weft compile`: the request, readable or as the provider's JSON."""

import asyncio
import sys

from weft.cli.inputs import exit_code, request
from weft.cli.options import CommandOptions
from weft.cli.render import print_json, print_request
from weft.compiler import Compilation
from weft.diagnostics import safe
from weft.models.registry import model_for
from weft.models.remote import count


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
    name = compiled.prompt.model
    model = model_for(name, where="--count")
    counted = asyncio.run(count(model, compiled.prompt, compiled.wire))
    off = (compiled.tokens - counted) / counted if counted else 0.0
    print(
        f"{counted:,} tokens as {name} counts, {compiled.tokens:,} as Weft does ({off:+.1%})",
        file=sys.stderr,
    )
