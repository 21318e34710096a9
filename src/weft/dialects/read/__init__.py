"""Read: how a request in a provider's words becomes parts, tools and options again.

It is the way back from lowering. A reader knows what the words mean; what it does not know
stays beside the part it stands in, and goes back to the same provider unchanged.
"""

from weft.dialects.difference import alike, difference
from weft.dialects.read import anthropic, gemini, openai_chat, openai_responses
from weft.dialects.read.pieces import Given, GivenOutput, GivenTool, Reading, Turn
from weft.values import JsonObject

_READERS = {
    "gemini": gemini.read,
    "anthropic": anthropic.read,
    "openai-chat": openai_chat.read,
    "openai-responses": openai_responses.read,
}


def read(dialect: str, wire: JsonObject) -> Reading:
    """A request taken apart; a UsageError where it cannot be one of this dialect."""
    return _READERS[dialect](wire)


def spelled(dialect: str, wire: JsonObject) -> JsonObject:
    """The request in the one spelling that is read, where its provider takes several."""
    return gemini.spelled(wire) if dialect == "gemini" else wire


__all__ = [
    "Given",
    "GivenOutput",
    "GivenTool",
    "Reading",
    "Turn",
    "alike",
    "difference",
    "read",
    "spelled",
]
