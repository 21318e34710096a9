"""What a tool returned, as the JSON a model is shown."""

import dataclasses
from collections.abc import Mapping, Sequence
from typing import NamedTuple, cast

import msgspec

from weft.content import Content, Part
from weft.errors import SessionError
from weft.values import Json, JsonObject, compact, require_json

LIMIT = 1_000_000
"""How many characters of JSON one result may put into the log; more is kept as an artifact."""


class Returned(NamedTuple):
    """A tool's result: JSON, and media beside it."""

    response: JsonObject
    parts: tuple[Part, ...] = ()


def to_returned(value: object) -> Returned:
    """What a function returned, as a result: a mapping as it is, anything else under `result`."""
    media = _media(value)
    if media is not None:
        texts = [part.text for part in media if part.text]
        rest = tuple(part for part in media if not part.text)
        response: JsonObject = {"result": "\n".join(texts)} if texts else {}
        return Returned(response, rest)
    left, taken = _beside(value)
    plain = to_json(left)
    return Returned(plain if isinstance(plain, dict) else {"result": plain}, taken)


def _media(value: object) -> tuple[Part, ...] | None:
    """The parts of a value that is made of parts."""
    if isinstance(value, Content):
        return value.parts or ()
    if isinstance(value, Part):
        return (value,)
    if isinstance(value, (list, tuple)) and value:
        pieces = cast("list[object]", value)
        if all(isinstance(piece, Part) for piece in pieces):
            return tuple(cast("list[Part]", pieces))
    return None


def _beside(value: object) -> tuple[object, tuple[Part, ...]]:
    """The value without the media that stands in it, and the media: it is no text to read."""
    if isinstance(value, Mapping):
        fields = cast("Mapping[object, object]", value)
        taken = {key: part for key, part in fields.items() if isinstance(part, Part)}
        rest: object = {key: held for key, held in fields.items() if key not in taken}
        return rest, tuple(taken.values())
    if isinstance(value, (list, tuple)):
        pieces = cast("Sequence[object]", value)
        parts = tuple(piece for piece in pieces if isinstance(piece, Part))
        rest = [piece for piece in pieces if not isinstance(piece, Part)]
        return rest, parts
    return value, ()


def to_json(value: object) -> Json:
    """A Python value as JSON: what is plain as it is, known kinds of objects by their fields."""
    try:
        return require_json(value, where="result")
    except SessionError as refused:
        try:
            plain: object = msgspec.to_builtins(value, str_keys=True, enc_hook=_fields)
        except (TypeError, ValueError, RecursionError):
            raise refused from None
        return require_json(plain, where="result")


def _fields(value: object) -> object:
    dump = cast("object", getattr(value, "model_dump", None))
    if callable(dump):
        return dump(mode="json")
    if isinstance(value, Mapping):
        return dict(cast("Mapping[object, object]", value))
    if dataclasses.is_dataclass(value) and not isinstance(value, type):
        return dataclasses.asdict(value)
    raise TypeError(f"a {type(value).__name__} is not JSON")


def shortened(response: JsonObject, name: str, artifact: str) -> JsonObject | None:
    """A result too large for the log, as its two ends and where the rest is; None if it fits."""
    text = compact(response)
    if len(text) <= LIMIT:
        return None
    return {
        "error": f"the result of {name} has {len(text):,} characters, more than {LIMIT:,};"
        f" it is kept as the artifact `{artifact}`",
        "begins": text[:2000],
        "ends": text[-2000:],
    }
