"""Dialects: how a provider spells a prompt, and all else that is known of its format.

A dialect is one object in one file. It lowers prompts, lifts answers, whole or as they stream in,
reads requests back, counts them, and says what its provider would refuse.
"""

from collections.abc import Iterator, Mapping
from importlib import import_module
from typing import cast

from weft.dialects.base import Dialect
from weft.dialects.facts import Facts, facts_for, wire_name
from weft.dialects.legality import Finding, refusals_of
from weft.dialects.stream import Stream
from weft.dialects.track import Entry, Lowered, Placed, Track
from weft.errors import UsageError, describe_kind
from weft.ir import ModelResponse
from weft.misuse import close, explained
from weft.values import JsonObject

CHAT = "openai-chat"
"""The dialect whose messages everybody writes, with and without the rest of a request."""


class Dialects(Mapping[str, Dialect]):
    """Dialects by name. A provider's file is loaded when its dialect is first used."""

    def __init__(self, modules: Mapping[str, str]) -> None:
        self._modules: dict[str, str] = dict(modules)
        self._loaded: dict[str, Dialect] = {}

    def __getitem__(self, name: str) -> Dialect:
        dialect = self._loaded.get(name)
        if dialect is None:
            dialect = cast("Dialect", import_module(self._modules[name]).DIALECT)
            self._loaded[name] = dialect
        return dialect

    def __iter__(self) -> Iterator[str]:
        return iter(self._modules)

    def __len__(self) -> int:
        return len(self._modules)

    def __contains__(self, name: object) -> bool:
        return name in self._modules

    def register(self, dialect: Dialect) -> None:
        """Add a dialect of one's own, or take the place of the one with its name."""
        name = dialect.traits.name
        self._modules.setdefault(name, type(dialect).__module__)
        self._loaded[name] = dialect

    def forget(self, name: str) -> None:
        """Take out a dialect that was registered."""
        del self._modules[name], self._loaded[name]


DIALECTS = Dialects(
    {
        "gemini": "weft.dialects.gemini",
        "anthropic": "weft.dialects.anthropic",
        "openai-chat": "weft.dialects.openai_chat",
        "openai-responses": "weft.dialects.openai_responses",
    }
)
"""Every dialect, with the module whose `DIALECT` it is."""


def dialect_named(name: str) -> Dialect:
    """The dialect of that name, or an error that lists them."""
    try:
        return DIALECTS[name]
    except KeyError:
        if name in DIALECTS:  # its file raised it
            raise
    near = close(str(name), DIALECTS, cutoff=0.4)
    known = ", ".join(DIALECTS)
    raise UsageError(
        f"`{name}` is not a dialect",
        where="dialect",
        hint=f"did you mean `{near[0]}`? known: {known}" if near else f"known: {known}",
    )


def dialect_of(request: JsonObject) -> str:
    """Whose request it is, by its shape; nothing where it is none."""
    return next((name for name in DIALECTS if DIALECTS[name].is_request(request)), "")


def lift(dialect: str, body: JsonObject) -> ModelResponse:
    """What a whole answer says; a ModelError with code `bad_response` where it is none."""
    reader = dialect_named(dialect)
    if not isinstance(cast("object", body), dict):
        raise reader.errors.unreadable(f"the answer is no object but {describe_kind(body)}")
    return reader.lift(body)


def stream_of(dialect: str) -> Stream:
    """A reader for one streamed answer."""
    return dialect_named(dialect).stream()


def refusals(dialect: str, wire: JsonObject, model: str = "") -> tuple[Finding, ...]:
    """What the provider would answer with a 400; `model` where the request does not name it."""
    return refusals_of(dialect_named(dialect), wire, model)


def count_request(wire: JsonObject, *, dialect: str, model: str) -> int:
    """The tokens of a request in a dialect, as the model reads it; odd shapes are no error."""
    return dialect_named(dialect).meter(model).request(wire)


@explained('weft.count_tokens(compiled.wire, model="gpt-5.6")')
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
