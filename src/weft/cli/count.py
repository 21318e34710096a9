"""`weft compile --count`: the provider's own count of a request, beside Weft's."""

import asyncio
import sys

from weft.compiler import Compiled
from weft.models.counting import count
from weft.models.registry import model_for


def print_count(compiled: Compiled) -> None:
    """Ask the provider, and print both counts where they do not mix with the request."""
    name = compiled.prompt.model
    model = model_for(name, where="--count")
    counted = asyncio.run(count(model, compiled.prompt, compiled.wire))
    off = (compiled.tokens - counted) / counted if counted else 0.0
    print(
        f"{counted:,} tokens as {name} counts, {compiled.tokens:,} as Weft does ({off:+.1%})",
        file=sys.stderr,
    )
