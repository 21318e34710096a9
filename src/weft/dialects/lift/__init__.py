"""Lift: how a provider's answer is read, whole or as it streams in.

A stream is not a second way to read: its pieces are put together to the body that would have
come whole, and that is lifted. So both ways give the same event.
"""

from collections.abc import Callable
from importlib import import_module
from typing import Protocol, cast

from weft.dialects.lift.failure import unreadable
from weft.ir import ModelResponse
from weft.values import JsonObject


class Stream(Protocol):
    """One streamed answer: pieces to show as they come, then the body they add up to."""

    def feed(self, name: str, data: JsonObject) -> ModelResponse | None:
        """Take one event; a partial response where it says something to show.

        `name` is the SSE event's name, "" where there is none. An error told in the stream is
        raised as a ModelError.
        """
        ...

    def ended(self) -> None:
        """Take note that the server said `[DONE]`: nothing that is missing will come."""
        ...

    def body(self) -> JsonObject:
        """The whole answer; a ModelError with code `cut_stream` where its end never came."""
        ...


class Lift(Protocol):
    """What the module of each dialect offers."""

    lift: Callable[[JsonObject], ModelResponse]
    AnswerStream: Callable[[], Stream]


def lift(dialect: str, body: JsonObject) -> ModelResponse:
    """What a whole answer says; a ModelError with code `bad_response` where it is none."""
    if not isinstance(cast("object", body), dict):
        raise unreadable(dialect, f"the answer is no object but a {type(body).__name__}")
    return _module(dialect).lift(body)


def stream_of(dialect: str) -> Stream:
    """A reader for one streamed answer."""
    return _module(dialect).AnswerStream()


_MODULES = {
    "gemini": "weft.dialects.lift.gemini",
    "anthropic": "weft.dialects.lift.anthropic",
    "openai-chat": "weft.dialects.lift.openai_chat",
    "openai-responses": "weft.dialects.lift.openai_responses",
}


def _module(dialect: str) -> Lift:
    """The dialect's module, imported once somebody asks for it."""
    return cast("Lift", import_module(_MODULES[dialect]))


__all__ = ["Lift", "Stream", "lift", "stream_of"]
