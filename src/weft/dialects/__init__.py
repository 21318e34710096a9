"""Dialects: how a provider spells a prompt. One table of names."""

import difflib

from weft.dialects.anthropic import Anthropic
from weft.dialects.base import Dialect
from weft.dialects.facts import Facts, facts_for, wire_name
from weft.dialects.gemini import Gemini
from weft.dialects.measure import count_request, count_tokens
from weft.dialects.openai_chat import OpenAIChat
from weft.dialects.openai_responses import OpenAIResponses
from weft.dialects.track import Entry, Lowered, Placed, Track
from weft.errors import UsageError

DIALECTS: dict[str, Dialect] = {
    d.traits.name: d for d in (Gemini(), Anthropic(), OpenAIChat(), OpenAIResponses())
}


def dialect_named(name: str) -> Dialect:
    """The dialect of that name, or an error that lists them."""
    found = DIALECTS.get(name)
    if found is None:
        near = difflib.get_close_matches(str(name), DIALECTS, n=1, cutoff=0.4)
        known = ", ".join(DIALECTS)
        raise UsageError(
            f"`{name}` is not a dialect",
            where="dialect",
            hint=f"did you mean `{near[0]}`? known: {known}" if near else f"known: {known}",
        )
    return found


__all__ = [
    "DIALECTS",
    "Dialect",
    "Entry",
    "Facts",
    "Lowered",
    "Placed",
    "Track",
    "count_request",
    "count_tokens",
    "dialect_named",
    "facts_for",
    "wire_name",
]
