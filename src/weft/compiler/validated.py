"""Strictly: a request that lacks something, or contradicts itself, is not sent."""

from weft.errors import CompileError
from weft.ir import Prompt

_FOUND = ("WEFT603", "WEFT604")


def require_valid(prompt: Prompt) -> None:
    """Raise for what `.validate(...)` found missing or contradicting."""
    found = [one for one in prompt.diagnostics if one.code in _FOUND]
    if found:
        first, more = found[0], len(found) - 1
        rest = f", and {more} more of that kind" if more else ""
        raise CompileError(f"{first.message}{rest}", where=str(first.origin), hint=first.hint)
