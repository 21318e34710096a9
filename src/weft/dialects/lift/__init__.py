"""Lift: how a provider's answer is read, whole or as it streams in.

A stream is not a second way to read: its pieces are put together to the body that would have
come whole, and that is lifted. So both ways give the same event.
"""

from collections.abc import Callable
from importlib import import_module
from typing import Protocol

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

    def body(self) -> JsonObject:
        """The whole answer; a ModelError with code `cut_stream` where its end never came."""
        ...


def lift(dialect: str, body: JsonObject) -> ModelResponse:
    """What a whole answer says; a ModelError with code `bad_response` where it is none."""
    read: Callable[[JsonObject], ModelResponse] = _module(dialect).lift
    return read(body)


def stream_of(dialect: str) -> Stream:
    """A reader for one streamed answer."""
    new: Callable[[], Stream] = _module(dialect).AnswerStream
    return new()


_MODULES = {
    "gemini": "weft.dialects.lift.gemini",
    "anthropic": "weft.dialects.lift.anthropic",
    "openai-chat": "weft.dialects.lift.openai_chat",
    "openai-responses": "weft.dialects.lift.openai_responses",
}


def _module(dialect: str):  # type: ignore[no-untyped-def]
    return import_module(_MODULES[dialect])


__all__ = ["Stream", "lift", "stream_of"]
