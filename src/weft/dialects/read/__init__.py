"""Read: how a request in a provider's words becomes parts, tools and options again.

It is the way back from lowering. A reader knows what the words mean; what it does not know
stays beside the part it stands in, and goes back to the same provider unchanged.
"""

from weft.dialects.difference import alike, difference
from weft.dialects.read import anthropic, gemini, openai_chat, openai_responses
from weft.dialects.read.pieces import Given, GivenOutput, GivenTool, Reading, Turn
from weft.values import Json, JsonObject

CHAT = "openai-chat"
"""The dialect whose messages everybody writes, with and without the rest of a request."""

_TURNS = {"contents": "gemini", "input": "openai-responses"}
"""By where its turns stand: whose request it is."""

_BLOCKS = ("tool_use", "tool_result", "thinking", "redacted_thinking", "document", "image")
"""Pieces of a message that only Anthropic has."""

_READERS = {
    "gemini": gemini.read,
    "anthropic": anthropic.read,
    "openai-chat": openai_chat.read,
    "openai-responses": openai_responses.read,
}


def read(dialect: str, wire: JsonObject) -> Reading:
    """A request taken apart; a UsageError where it cannot be one of this dialect."""
    return _READERS[dialect](wire)


def dialect_of(request: JsonObject) -> str:
    """Whose request it is, by its shape; nothing where it is none."""
    for key, dialect in _TURNS.items():
        if isinstance(request.get(key), list | str):
            return dialect
    messages = request.get("messages")
    if not isinstance(messages, list):
        return ""
    blocks = [one for message in _objects(messages) for one in _objects(message.get("content"))]
    anthropic = (
        "system" in request
        or any(one.get("type") in _BLOCKS for one in blocks)
        or any("input_schema" in one for one in _objects(request.get("tools")))
    )
    return "anthropic" if anthropic else CHAT


def _objects(value: Json) -> list[JsonObject]:
    return [one for one in value if isinstance(one, dict)] if isinstance(value, list) else []


def spelled(dialect: str, wire: JsonObject) -> JsonObject:
    """The request in the one spelling that is read, where its provider takes several."""
    return gemini.spelled(wire) if dialect == "gemini" else wire


__all__ = [
    "CHAT",
    "Given",
    "GivenOutput",
    "GivenTool",
    "Reading",
    "Turn",
    "alike",
    "dialect_of",
    "difference",
    "read",
    "spelled",
]
