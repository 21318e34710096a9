"""What to do when the provider says the request is too long: ask again with less.

The provider counts with its own tokenizer, so the limit it names is scaled to how Weft counts.
What was learned holds for every later request to the model, so it is refused only once.
"""

import re

from weft.compiler import Compiled
from weft.errors import ModelError

MARGIN = 0.9
"""How much of what the provider takes is used: counts differ."""

GUESS = 0.5
"""How much of the refused request is sent again where the provider names no limit."""

_SUM = re.compile(r"(\d+)\s*\+\s*(\d+)\s*>\s*(\d+)")
_NUMBER = re.compile(r"\d[\d,_]*\d|\d")


def tighter(compiled: Compiled, error: ModelError) -> int:
    """The tokens to stay within, as Weft counts them, after the provider refused this request."""
    counted = compiled.tokens
    if (parts := _SUM.search(error.message)) is not None:
        prompt, answer, limit = (int(part) for part in parts.groups())
        limit = max(1, limit - answer)
    else:
        found = [int(re.sub("[,_]", "", text)) for text in _NUMBER.findall(error.message)]
        sizes = [size for size in found if size >= 100]
        if not sizes:
            return max(1, int(counted * GUESS))
        prompt, limit = max(sizes), min(sizes)
    if prompt <= limit:
        prompt = max(counted, limit + 1)
    return max(1, int(counted * limit / prompt * MARGIN))
