"""Counting the tokens of a request as it is sent, whoever made it."""

from collections.abc import Mapping
from typing import cast

from weft.dialects.facts import facts_for
from weft.dialects.measure.meter import HeadCost, Load, Mark, Meter, meter_for
from weft.values import JsonObject


def count_request(wire: JsonObject, *, dialect: str, model: str) -> int:
    """The tokens of a request in a dialect, as the model reads it; odd shapes are no error."""
    return meter_for(dialect, model).request(wire)


def count_tokens(wire: Mapping[str, object], *, model: str, dialect: str | None = None) -> int:
    """The tokens of a request body for that model, in the dialect the model is spoken to in."""
    spoken = dialect if dialect is not None else facts_for(model).dialect
    return count_request(cast("JsonObject", dict(wire)), dialect=spoken, model=model)


__all__ = [
    "HeadCost",
    "Load",
    "Mark",
    "Meter",
    "count_request",
    "count_tokens",
    "meter_for",
]
