"""Schemas fitted to a provider: worked out once, since every request of a session has them."""

import functools
from typing import NamedTuple

import msgspec

from weft.dialects.accepted import Loss
from weft.dialects.subset import for_anthropic, for_gemini, for_openai
from weft.values import JsonObject


class Fitted(NamedTuple):
    """A schema as a provider takes it, what it gave up, and whether strict can say it at all."""

    schema: JsonObject
    losses: tuple[Loss, ...]
    possible: bool


def fitted(provider: str, schema: JsonObject, *, strict: bool = False) -> Fitted:
    """The schema for that provider; equal schemas share one result, which is not to be changed."""
    return _fitted(provider, msgspec.json.encode(schema), strict)


@functools.lru_cache(maxsize=4096)
def _fitted(provider: str, data: bytes, strict: bool) -> Fitted:
    schema: JsonObject = msgspec.json.decode(data)
    if provider == "gemini":
        fit, losses = for_gemini(schema)
    elif provider == "anthropic":
        fit, losses = for_anthropic(schema, strict=strict)
    else:
        fit, losses = for_openai(schema, strict=strict)
    return Fitted(fit, losses, all(loss.kind != "impossible" for loss in losses))
