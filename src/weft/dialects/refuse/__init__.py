"""Refuse: what a provider would answer with a 400, said before it is asked.

The rules are what providers document and what they were seen to refuse. They are about what
stands in the request and what is known of the model; where nothing is known, nothing is said.
"""

from weft.dialects.facts import wire_name
from weft.dialects.read.gemini import spelled
from weft.dialects.refuse import anthropic, gemini, openai_chat, openai_responses
from weft.dialects.refuse.finding import Finding
from weft.values import JsonObject


def refusals(dialect: str, wire: JsonObject, model: str = "") -> tuple[Finding, ...]:
    """What the provider would refuse; `model` where the request does not name it."""
    named = wire.get("model")
    name = wire_name(named if isinstance(named, str) else model)
    match dialect:
        case "anthropic":
            found = anthropic.refused(wire, name)
        case "gemini":
            found = gemini.refused(spelled(wire), name)
        case "openai-chat":
            found = openai_chat.refused(wire, name)
        case _:
            found = openai_responses.refused(wire, name)
    return tuple(found)


__all__ = ["Finding", "refusals"]
