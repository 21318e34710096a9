"""Which requests Gemini can read: its SDK's own types, and no field beside them.

The SDK's types serve two services; a few of their fields only the other one knows, and those
are as unknown here as a misspelling.
"""

import enum
import re
import types as kinds
import typing
from collections.abc import Iterator
from typing import TypeVar

import msgspec
import pydantic
from google.genai import types
from pydantic.alias_generators import to_camel

from tests.standins.gemini.errors import Refused, refused_field
from weft.values import JsonObject


class _Shape(pydantic.BaseModel):
    """What all bodies share: camelCase or snake_case names, nothing unknown, bytes in base64."""

    model_config = pydantic.ConfigDict(
        alias_generator=to_camel, populate_by_name=True, extra="forbid", val_json_bytes="base64"
    )


class GenerationSettings(types.GenerationConfig):
    """The SDK's settings, and the one that it sends beside them."""

    image_config: types.ImageConfig | None = None


class GenerateRequest(_Shape):
    """The body of `generateContent` and `streamGenerateContent`."""

    model: str | None = None
    contents: list[types.Content] | None = None
    system_instruction: types.Content | None = None
    tools: list[types.Tool] | None = None
    tool_config: types.ToolConfig | None = None
    safety_settings: list[types.SafetySetting] | None = None
    generation_config: GenerationSettings | None = None
    cached_content: str | None = None
    labels: dict[str, str] | None = None
    service_tier: types.ServiceTier | None = None
    continuation_token: bytes | None = None
    store: bool | None = None


class CountRequest(_Shape):
    """The body of `countTokens`: contents, or a whole request."""

    contents: list[types.Content] | None = None
    generate_content_request: GenerateRequest | None = None


class CacheRequest(_Shape):
    """The body that makes a cached content."""

    model: str | None = None
    contents: list[types.Content] | None = None
    system_instruction: types.Content | None = None
    tools: list[types.Tool] | None = None
    tool_config: types.ToolConfig | None = None
    ttl: str | None = None
    expire_time: str | None = None
    display_name: str | None = None
    name: str | None = None


class CacheChange(_Shape):
    """The body that changes how long a cached content lives."""

    ttl: str | None = None
    expire_time: str | None = None


_ELSEWHERE: dict[str, tuple[str, ...]] = {
    "FunctionCall": ("partial_args", "will_continue"),
    "FunctionCallingConfig": ("stream_function_call_arguments",),
    "GenerationSettings": ("routing_config", "model_selection_config", "audio_timestamp"),
    "GoogleMaps": ("grounding_types",),
    "GoogleSearch": ("blocking_confidence", "exclude_domains"),
    "ImageConfig": (
        "person_generation", "prominent_people", "output_mime_type",
        "output_compression_quality", "image_output_options",
    ),
    "SafetySetting": ("method",),
    "Schema": ("additional_properties", "defs", "ref"),
    "Tool": ("retrieval", "enterprise_web_search", "parallel_ai_search", "exa_ai_search"),
}  # fmt: skip
"""Fields that the SDK has types for and sends to its other service only."""

Body = TypeVar("Body", bound=_Shape)


def read_body(shape: type[Body], raw: bytes) -> tuple[JsonObject, Body]:
    """The body as JSON and as the SDK's own values, or the error that names the field.

    In the JSON the names of the body's own fields are in camelCase, whatever they came in.
    """
    try:
        body: object = msgspec.json.decode(raw)
    except (msgspec.DecodeError, UnicodeDecodeError) as error:
        raise Refused(f"Invalid JSON payload received. {error}.") from None
    if not isinstance(body, dict):
        raise Refused("Invalid JSON payload received. Root element must be a message.")
    given = typing.cast("JsonObject", body)
    for place, message in misfits(given, shape):
        raise refused_field(place, message)
    try:
        held = {to_camel(key): value for key, value in given.items()}
        return held, shape.model_validate_json(raw)
    except pydantic.ValidationError as error:
        first = error.errors()[0]
        place = _place(first["loc"])
        message = f"Invalid value at '{place}' ({first['type']}), {first['msg']}"
        raise refused_field(place, message) from None


def misfits(value: object, shape: object, place: str = "") -> Iterator[tuple[str, str]]:
    """Names that nothing has a field for and words that no enumeration has, each with its place.

    The SDK only warns of the latter, as it reads what newer services say; a service does not.
    """
    shape = _bare(shape)
    origin, inner = typing.get_origin(shape), typing.get_args(shape)
    if isinstance(value, dict):
        held = typing.cast("dict[str, object]", value)
        if isinstance(shape, type) and issubclass(shape, pydantic.BaseModel):
            fields = _fields(shape)
            for key, found in held.items():
                if key in fields:
                    yield from misfits(found, fields[key], f"{place}.{_snake(key)}".strip("."))
                else:
                    yield place, _unknown(key, place)
        elif origin is dict:
            for key, found in held.items():
                yield from misfits(found, inner[1], f"{place}[{key!r}]")
    elif isinstance(value, list) and origin is list:
        for index, found in enumerate(typing.cast("list[object]", value)):
            yield from misfits(found, inner[0], f"{place}[{index}]")
    elif isinstance(value, str) and not _among(value, shape):
        yield place, f"Invalid value at '{place}' ({_named(shape)}), \"{value}\""


def _among(word: str, shape: object) -> bool:
    """Whether an enumeration has the word, in any case; what is none has all."""
    if not isinstance(shape, type) or not issubclass(shape, enum.Enum):
        return True
    return word.upper() in {name.upper() for name in shape.__members__}


def _named(shape: object) -> str:
    return shape.__name__ if isinstance(shape, type) else "value"


def _unknown(key: str, place: str) -> str:
    at = f" at '{place}'" if place else ""
    return f'Invalid JSON payload received. Unknown name "{key}"{at}: Cannot find field.'


def _bare(shape: object) -> object:
    """The type without `None`; a union of several is left to the SDK to choose from."""
    if typing.get_origin(shape) in (typing.Union, kinds.UnionType):
        arms = [arm for arm in typing.get_args(shape) if arm is not type(None)]
        return arms[0] if len(arms) == 1 else object
    return shape


def _fields(shape: type[pydantic.BaseModel]) -> dict[str, object]:
    """The types of a shape's fields, under both names that JSON may give them."""
    found: dict[str, object] = {}
    for name, field in shape.model_fields.items():
        if name not in _ELSEWHERE.get(shape.__name__, ()):
            found[name] = found[field.alias or to_camel(name)] = field.annotation
    return found


def _place(location: tuple[int | str, ...]) -> str:
    text = "".join(f"[{at}]" if isinstance(at, int) else f".{_snake(at)}" for at in location)
    return text.strip(".")


def _snake(name: str) -> str:
    return re.sub(r"(?<=[a-z0-9])([A-Z])", r"_\1", name).lower()
