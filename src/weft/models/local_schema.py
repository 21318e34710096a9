"""Schemas that hold a small model to what it can know.

Decoding under a schema makes every answer well-formed, not right. A small model copies examples
out of descriptions, and fills a string until its budget ends. So strings are bounded, and the
arguments of a call are narrowed to what was said.
"""

from collections.abc import Mapping

import msgspec

from weft.models.local_arguments import narrowed
from weft.values import Json, JsonObject

_LONGEST_TEXT = 400
_MOST_ITEMS = 8
_ABOUT = ("description", "title", "examples", "default")
_GRAMMAR = "%llguidance {}\nstart: %json "
_SPELLED: JsonObject = {
    "whitespace_flexible": False,
    "item_separator": ",",
    "key_separator": ":",
    "lenient": True,
}
"""JSON without spaces, as it stands in the history: so that a call is never read twice."""


def grammar(schema: JsonObject) -> str:
    """The grammar of compact JSON that fits the schema."""
    held = msgspec.json.encode({**schema, "x-guidance": _SPELLED})
    return _GRAMMAR + held.decode()


def bounded(schema: Json) -> Json:
    """The schema with an end to every text and every list, and without what is said about it."""
    if isinstance(schema, list):
        return [bounded(each) for each in schema]
    if not isinstance(schema, dict):
        return schema
    kept: JsonObject = {}
    for key, value in schema.items():
        if key in ("properties", "$defs", "definitions") and isinstance(value, dict):
            kept[key] = {name: bounded(each) for name, each in value.items()}
        elif key in ("enum", "const", "required"):
            kept[key] = value
        elif key not in _ABOUT:
            kept[key] = bounded(value)
    kinds = _kinds(kept)
    if "string" in kinds and not _is_bound(kept):
        kept.setdefault("maxLength", _LONGEST_TEXT)
    if "array" in kinds:
        kept.setdefault("maxItems", _MOST_ITEMS)
    if "object" in kinds and "properties" in kept:
        kept.setdefault("additionalProperties", False)
    return kept


def call_schema(tool: JsonObject, said: str, before: Mapping[str, list[Json]]) -> Json:
    """The schema of a call, its arguments narrowed to what was said; `before` are earlier ones."""
    arguments = bounded(tool.get("parameters"))
    if isinstance(arguments, dict):
        arguments = narrowed(tool, arguments, said, before)
    return _object({"name": {"const": tool.get("name")}, "arguments": arguments})


def reply_schema() -> Json:
    """The schema of an answer that stands where a call might."""
    return _object({"reply": {"type": "string", "maxLength": _LONGEST_TEXT}})


def _object(properties: JsonObject) -> JsonObject:
    names: list[Json] = list(properties)
    return {
        "type": "object",
        "properties": properties,
        "required": names,
        "additionalProperties": False,
    }


def _kinds(schema: JsonObject) -> set[str]:
    held = schema.get("type")
    listed = held if isinstance(held, list) else [held]
    return {each for each in listed if isinstance(each, str)}


def _is_bound(schema: JsonObject) -> bool:
    """Whether a text's schema says more than that it is text."""
    return any(key in schema for key in ("enum", "const", "format", "pattern"))
