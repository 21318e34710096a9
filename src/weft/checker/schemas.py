"""Schemas as types: whether a path leads anywhere, and which values a field can have."""

from collections.abc import Iterator, Sequence

from weft.values import Json, JsonObject


def follow(schema: JsonObject | None, path: Sequence[str | int]) -> tuple[JsonObject | None, str]:
    """The schema at the end of a path, and what is wrong with the path; None where unknown."""
    whole = schema
    for step in path:
        schema = _opened(schema, whole)
        if schema is None:
            return None, ""
        kind = schema.get("type")
        if isinstance(step, int):
            if isinstance(kind, str) and kind != "array":
                return None, f"[{step}] of {_article(kind)}"
            items = schema.get("items")
            schema = items if isinstance(items, dict) else None
            continue
        if isinstance(kind, str) and kind != "object":
            return None, f"`.{step}` of {_article(kind)}"
        properties = schema.get("properties")
        if not isinstance(properties, dict):
            return None, ""
        held = properties.get(step)
        if isinstance(held, dict):
            schema = held
        elif schema.get("additionalProperties") is False or _is_closed(schema):
            known = ", ".join(properties) or "none"
            return None, f"there is no field `{step}`; it has {known}"
        else:
            return None, ""
    return _opened(schema, whole), ""


def values_of(schema: JsonObject | None) -> list[Json] | None:
    """All values a schema allows, where it lists them."""
    schema = _opened(schema, schema)
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
        found: list[Json] = []
        for one in several:
            inner = values_of(one) if isinstance(one, dict) else None
            if inner is None:
                return None
            found += inner
        return found
    return None


def kind_of(schema: JsonObject | None) -> str:
    """The type a schema names, or nothing where it is open."""
    opened = _opened(schema, schema)
    kind = opened.get("type") if opened is not None else None
    return kind if isinstance(kind, str) else ""


def _is_closed(schema: JsonObject) -> bool:
    """Whether other fields than those named are not to be expected: it was made from a type."""
    return schema.get("type") == "object" and "additionalProperties" not in schema


def _opened(schema: JsonObject | None, whole: JsonObject | None) -> JsonObject | None:
    """The schema with its reference followed, and null left out of a choice."""
    for _ in range(16):
        if schema is None:
            return None
        reference = schema.get("$ref")
        if isinstance(reference, str):
            schema = _referred(reference, whole)
            continue
        several = schema.get("anyOf")
        if isinstance(several, list):
            left = [one for one in _objects(several) if one.get("type") != "null"]
            if len(left) == 1:
                schema = left[0]
                continue
        return schema
    return None


def _objects(values: list[Json]) -> Iterator[JsonObject]:
    for value in values:
        if isinstance(value, dict):
            yield value


def _referred(reference: str, whole: JsonObject | None) -> JsonObject | None:
    held: Json = whole
    for step in reference.removeprefix("#/").split("/"):
        held = held.get(step) if isinstance(held, dict) else None
    return held if isinstance(held, dict) else None


def _article(kind: str) -> str:
    return f"an {kind}" if kind[0] in "aeiou" else f"a {kind}"
