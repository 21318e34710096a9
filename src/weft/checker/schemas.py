"""Schemas as types: whether a path leads anywhere, and which values a field can have."""

from collections.abc import Sequence

from weft.dialects.wire import object_in, objects_in
from weft.errors import with_article
from weft.jsonschema import resolve
from weft.values import Json, JsonObject

MOST_CHOICES = 8
"""How deep choices may stand in one another: a schema can hold itself."""


def follow(schema: JsonObject | None, path: Sequence[str | int]) -> tuple[JsonObject | None, str]:
    """The schema at the end of a path, and what is wrong with the path; None where unknown.

    Where there are several schemas to choose from, the path leads on through those that have it.
    """
    whole, ways = schema, _ways(schema, schema)
    for step in path:
        next_ways: list[JsonObject | None] = []
        problem = ""
        for way in ways:
            inner, wrong = _step_into(way, step)
            if wrong:
                problem = problem or wrong
            else:
                next_ways += _ways(inner, whole)
        if not next_ways:
            return None, problem
        ways = next_ways
    shapes = [way for way in ways if way is not None]
    # one of the ways is unknown, so what stands there is
    if len(shapes) < len(ways):
        return None, ""
    return (shapes[0] if len(shapes) == 1 else {"anyOf": [*shapes]}), ""


def missing_field(
    schema: JsonObject | None, path: Sequence[str | int]
) -> tuple[str, tuple[str, ...]]:
    """The step of a path that leads nowhere, and the fields that there are at that point."""
    for index, step in enumerate(path):
        if follow(schema, path[: index + 1])[1]:
            shape, _ = follow(schema, path[:index])
            fields = [way.get("properties") for way in _ways(shape, schema) if way is not None]
            known = [name for one in fields if isinstance(one, dict) for name in one]
            return str(step), tuple(dict.fromkeys(known))
    return "", ()


def _step_into(schema: JsonObject | None, step: str | int) -> tuple[JsonObject | None, str]:
    """What a field or an element of a value holds; None where unknown."""
    if schema is None:
        return None, ""
    kind = schema.get("type")
    if isinstance(step, int):
        if isinstance(kind, str) and kind != "array":
            return None, f"[{step}] of {with_article(kind)}"
        items = schema.get("items")
        return (items if isinstance(items, dict) else None), ""
    if isinstance(kind, str) and kind != "object":
        return None, f"`.{step}` of {with_article(kind)}"
    properties = schema.get("properties")
    if not isinstance(properties, dict):
        return None, ""
    inner = properties.get(step)
    if isinstance(inner, dict):
        return inner, ""
    if schema.get("additionalProperties") is False or _is_closed(schema):
        known = ", ".join(properties) or "none"
        return None, f"there is no field `{step}`; it has {known}"
    return None, ""


def _ways(
    schema: JsonObject | None, whole: JsonObject | None, depth: int = 0
) -> list[JsonObject | None]:
    """The schemas that a value may have, null left out."""
    opened = _resolve(schema, whole)
    several = (opened.get("anyOf") or opened.get("oneOf")) if opened is not None else None
    if not isinstance(several, list) or depth > MOST_CHOICES:
        return [opened if depth <= MOST_CHOICES else None]
    ways = [way for one in objects_in(several) for way in _ways(one, whole, depth + 1)]
    return [way for way in ways if not _is_null(way)]


def _is_null(schema: JsonObject | None) -> bool:
    return schema is not None and schema.get("type") == "null"


def values_of(schema: JsonObject | None) -> list[Json] | None:
    """All values a schema allows, where it lists them."""
    schema = _resolve(schema, schema)
    if schema is None:
        return None
    if "const" in schema:
        return [schema["const"]]
    listed = schema.get("enum")
    if isinstance(listed, list):
        return listed
    if schema.get("type") == "boolean":
        return [True, False]
    several = schema.get("anyOf") or schema.get("oneOf")
    if isinstance(several, list):
        values: list[Json] = []
        for one in several:
            inner = values_of(one) if isinstance(one, dict) else None
            if inner is None:
                return None
            values += inner
        return values
    return None


def items_of(schema: JsonObject | None) -> list[Json] | None:
    """All values that the elements of a list may have, where its schema lists them."""
    items = schema.get("items") if schema is not None and kind_of(schema) == "array" else None
    return values_of(items) if isinstance(items, dict) else None


def may_lack(schema: JsonObject | None, path: Sequence[str | int]) -> bool:
    """Whether null may stand at the end of a path, or on the way."""
    shapes: list[JsonObject | None] = [schema]
    for step in path:
        if any(_allows_null(one, schema) for one in shapes):
            return True
        shapes = [_step_into(way, step)[0] for one in shapes for way in _ways(one, schema)]
    return any(_allows_null(one, schema) for one in shapes)


def _allows_null(schema: JsonObject | None, whole: JsonObject | None) -> bool:
    reference = schema.get("$ref") if schema is not None else None
    if isinstance(reference, str):
        schema = resolve(whole or {}, reference)
    several = (schema.get("anyOf") or schema.get("oneOf")) if schema is not None else None
    return isinstance(several, list) and any(_is_null(one) for one in objects_in(several))


def is_within(value: float, schema: JsonObject | None) -> bool:
    """Whether a number is within the bounds that a schema names."""
    bounds = schema or {}
    least, most = bounds.get("minimum"), bounds.get("maximum")
    above, below = bounds.get("exclusiveMinimum"), bounds.get("exclusiveMaximum")
    return (
        not (isinstance(least, int | float) and value < least)
        and not (isinstance(most, int | float) and value > most)
        and not (isinstance(above, int | float) and value <= above)
        and not (isinstance(below, int | float) and value >= below)
    )


def unite(one: JsonObject | None, other: JsonObject | None) -> JsonObject | None:
    """The schema of a value that has either; None where one is unknown."""
    if one is None or other is None or one == other:
        return one if one == other else None
    names = (object_in(one.get("$defs")), object_in(other.get("$defs")))
    # one name for two things: references into both cannot stand together
    if any(names[0][name] != names[1][name] for name in names[0].keys() & names[1].keys()):
        return None
    choices: list[Json] = []
    for schema in (one, other):
        bare = {key: value for key, value in schema.items() if key != "$defs"}
        several = bare.get("anyOf") if bare.keys() == {"anyOf"} else None
        for choice in several if isinstance(several, list) else [bare]:
            if choice not in choices:
                choices.append(choice)
    # this many kinds of values are as good as unknown
    if len(choices) > MOST_CHOICES:
        return None
    return {"anyOf": choices, "$defs": {**names[0], **names[1]}}


def kind_of(schema: JsonObject | None) -> str:
    """The type a schema names, or nothing where it is open."""
    opened = _resolve(schema, schema)
    kind = opened.get("type") if opened is not None else None
    return kind if isinstance(kind, str) else ""


_KIND_WORDS = {
    "string": "text",
    "array": "a list",
    "object": "an object",
    "boolean": "a truth value",
}


def spell_kind(kind: str) -> str:
    """A type of JSON Schema as a reader calls it: `a list`."""
    return _KIND_WORDS.get(kind, with_article(kind))


def _is_closed(schema: JsonObject) -> bool:
    """Whether other fields than those named are not to be expected: it was made from a type."""
    return schema.get("type") == "object" and "additionalProperties" not in schema


def _resolve(schema: JsonObject | None, whole: JsonObject | None) -> JsonObject | None:
    """The schema with its reference followed, and null left out of a choice."""
    # a reference may lead to itself
    for _ in range(16):
        if schema is None:
            return None
        reference = schema.get("$ref")
        if isinstance(reference, str):
            schema = resolve(whole or {}, reference)
            continue
        several = schema.get("anyOf")
        if isinstance(several, list):
            choices = [one for one in objects_in(several) if one.get("type") != "null"]
            if len(choices) == 1:
                schema = choices[0]
                continue
        return schema
    return None
