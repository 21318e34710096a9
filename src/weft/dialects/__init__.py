"""Dialects: how a provider spells a prompt, and all else that is known of its format.

A dialect is one object in one file. It lowers prompts, lifts answers, whole or as they stream in,
reads requests back, counts them, and says what its provider would refuse.
"""

from collections.abc import Mapping
from typing import cast

from weft.dialects.base import Dialect
from weft.dialects.facts import CHAT, DIALECTS, Dialects, Facts, dialect_named, facts_for, wire_name
from weft.dialects.legality import Finding, refusals_of
from weft.dialects.stream import Stream
from weft.dialects.track import Entry, Lowered, Placed, Track
from weft.errors import UsageError, describe_kind
from weft.ir import ModelResponse
from weft.misuse import explain_calls
from weft.values import JsonObject


def dialect_of(request: JsonObject) -> str:
    """Whose request it is, by its shape; nothing where it is none."""
    return next((name for name in DIALECTS if DIALECTS[name].is_request(request)), "")


def lift(dialect: str, body: JsonObject) -> ModelResponse:
    """What a whole answer says; a ModelError with code `bad_response` where it is none."""
    reader = dialect_named(dialect)
    if not isinstance(cast("object", body), dict):
        raise reader.errors.unreadable(f"the answer is not an object but {describe_kind(body)}")
    return reader.lift(body)


def stream_of(dialect: str) -> Stream:
    """A reader for one streamed answer."""
    return dialect_named(dialect).stream()


def refusals(dialect: str, wire: JsonObject, model: str = "") -> tuple[Finding, ...]:
    """What the provider would answer with a 400; `model` where the request does not name it."""
    return refusals_of(dialect_named(dialect), wire, model)


def count_request(wire: JsonObject, *, dialect: str, model: str) -> int:
    """The tokens of a request in a dialect, as the model reads it; odd shapes are not an error."""
    return dialect_named(dialect).meter(model).request(wire)


@explain_calls('weft.count_tokens(compiled.wire, model="gpt-5.6")')
def count_tokens(wire: Mapping[str, object], *, model: str, dialect: str | None = None) -> int:
    """The tokens of a request body for that model, in the dialect the model is spoken to in."""
    if not isinstance(cast("object", wire), Mapping):
        raise UsageError(
            f"{describe_kind(wire)} is not the body of a request",
            where="weft.count_tokens",
            hint="write weft.compile(agent, message=...).tokens, or pass a request's JSON",
        )
    spoken = dialect if dialect is not None else facts_for(model).dialect
    return count_request(cast("JsonObject", dict(wire)), dialect=spoken, model=model)


__all__ = [
    "CHAT",
    "DIALECTS",
    "Dialect",
    "Dialects",
    "Entry",
    "Facts",
    "Lowered",
    "Placed",
    "Track",
    "count_request",
    "count_tokens",
    "dialect_named",
    "dialect_of",
    "facts_for",
    "lift",
    "refusals",
    "stream_of",
    "wire_name",
]
