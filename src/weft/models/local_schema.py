"""Schemas that hold a small model to what it can know.

Decoding under a schema makes every answer well-formed, not right. A small model copies examples
out of descriptions, and fills a string until its budget ends. So strings are bounded, and the
arguments of a call are narrowed to what was said: a span of the user's words, a number in them,
a choice that they name. One mention fills one argument.
"""

import re
from collections.abc import Iterable, Mapping
from itertools import permutations
from typing import cast

import msgspec

from weft.values import Json, JsonObject

_LONGEST_TEXT = 400
_MOST_ITEMS = 8
_MOST_SPANS = 300
_MOST_WORDS = 8
_MOST_WAYS = 24
_PHRASE = re.compile(r"[.,;:!?()\[\]{}\"]+(?=\s|$)|[\n()\[\]{}\"]")
_NUMBER = re.compile(r"(?<![\w.])-?\d+(?:\.\d+)?(?![\w])")
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


def call_schema(name: str, parameters: Json, said: str, before: Mapping[str, list[Json]]) -> Json:
    """The schema of a call, its arguments narrowed to what was said; `before` are earlier ones."""
    arguments = bounded(parameters)
    if isinstance(arguments, dict):
        arguments = _evident(arguments, said, before)
    return _object({"name": {"const": name}, "arguments": arguments})


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


def _evident(arguments: JsonObject, said: str, before: Mapping[str, list[Json]]) -> Json:
    """The arguments' schema, each property narrowed to what was said of it."""
    properties = arguments.get("properties")
    if not isinstance(properties, dict):
        return arguments
    narrow: JsonObject = {
        name: _narrowed(each, said, before.get(name, [])) for name, each in properties.items()
    }
    ways = _distinct(properties, narrow)
    if len(ways) == 1:
        return {**arguments, "properties": ways[0]}
    return {"anyOf": [{**arguments, "properties": way} for way in ways]}


def _narrowed(schema: Json, said: str, before: list[Json]) -> Json:
    if not isinstance(schema, dict) or "const" in schema:
        return schema
    choices = schema.get("enum")
    if isinstance(choices, list):
        named = [each for each in choices if isinstance(each, str) and _names(said, each)]
        return {**schema, "enum": cast("list[Json]", named)} if named else schema
    kinds = _kinds(schema)
    if kinds & {"number", "integer"}:
        numbers = _numbers(said, whole="number" not in kinds)
        return {"enum": numbers} if numbers else schema
    if kinds == {"string"} and not _is_bound(schema):
        spans = _unique([*spans_of(said), *(each for each in before if isinstance(each, str))])
        return {"enum": cast("list[Json]", spans)} if spans else schema
    if kinds == {"array"}:
        return {**schema, "items": _narrowed(schema.get("items"), said, before)}
    return schema


def _distinct(declared: JsonObject, narrow: JsonObject) -> list[JsonObject]:
    """The ways to give properties with the same choices different ones."""
    alike: dict[bytes, list[str]] = {}
    for name, schema in narrow.items():
        held = declared.get(name)
        if isinstance(held, dict) and "enum" in held and isinstance(schema, dict):
            alike.setdefault(msgspec.json.encode(schema.get("enum")), []).append(name)
    ways = [narrow]
    for choices, names in alike.items():
        values: list[Json] = msgspec.json.decode(choices)
        if len(names) < 2 or len(values) < len(names):
            continue
        orders = list(permutations(values, len(names)))
        if len(orders) * len(ways) > _MOST_WAYS:
            continue
        ways = [_given(way, names, order) for way in ways for order in orders]
    return ways


def _given(way: JsonObject, names: list[str], values: tuple[Json, ...]) -> JsonObject:
    fixed: JsonObject = {name: {"const": value} for name, value in zip(names, values, strict=True)}
    return {**way, **fixed}


def spans_of(said: str) -> list[str]:
    """The stretches of words in a text, none across punctuation, short ones first to stay."""
    phrases = [phrase.split() for phrase in _PHRASE.split(said)]
    found: list[str] = []
    for length in range(1, _MOST_WORDS + 1):
        for words in phrases:
            found += [" ".join(words[at : at + length]) for at in range(len(words) - length + 1)]
        if len(found) > _MOST_SPANS:
            break
    return _unique(found)[-_MOST_SPANS:] if len(found) > 2 * _MOST_SPANS else _unique(found)


def _numbers(said: str, *, whole: bool) -> list[Json]:
    found = [number for number in _NUMBER.findall(said) if not (whole and "." in number)]
    return [msgspec.json.decode(number.lstrip("0") or "0") for number in _unique(found)]


def _names(said: str, choice: str) -> bool:
    """Whether a text names a choice, as a word of its own and in whatever case."""
    spoken = re.sub(r"[_\W]+", " ", choice).strip()
    return bool(spoken) and bool(
        re.search(rf"(?<!\w){re.escape(spoken)}(?!\w)", re.sub(r"[_\W]+", " ", said), re.IGNORECASE)
    )


def _kinds(schema: JsonObject) -> set[str]:
    held = schema.get("type")
    listed = held if isinstance(held, list) else [held]
    return {each for each in listed if isinstance(each, str)}


def _is_bound(schema: JsonObject) -> bool:
    """Whether a text's schema says more than that it is text."""
    return any(key in schema for key in ("enum", "const", "format", "pattern"))


def _unique(values: Iterable[str]) -> list[str]:
    return list(dict.fromkeys(values))
