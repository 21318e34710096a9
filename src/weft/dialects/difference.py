"""What one piece of a request has that another has not, so that it can be put back."""

import json

from weft.values import Json, JsonObject


def difference(made: JsonObject, given: JsonObject) -> JsonObject:
    """The fields that make `made` into `given`; null for one that must go.

    A field that is null says no more than one that is absent.
    """
    found: JsonObject = {}
    for key, value in given.items():
        held = made.get(key)
        if isinstance(held, dict) and isinstance(value, dict) and value:
            inner = difference(held, value)
            if inner:
                found[key] = inner
        elif not alike(held, value, key):
            found[key] = value
    for key, value in made.items():
        if value is not None and key not in given:
            found[key] = None
    return found


def alike(one: Json, other: Json, key: str = "") -> bool:
    """Whether two values say the same: arguments as JSON, a text as the one part it is."""
    if one == other:
        return type(one) is type(other) or not (isinstance(one, bool) or isinstance(other, bool))
    if isinstance(one, str) and isinstance(other, str):
        return key == "arguments" and _decoded(one) == _decoded(other) != None  # noqa: E711
    if isinstance(one, str) and isinstance(other, list):
        return _only_text(other) == one
    return False


def _decoded(text: str) -> Json:
    try:
        decoded: Json = json.loads(text)
    except ValueError:
        return None
    return decoded


def _only_text(parts: list[Json]) -> str | None:
    """The text of a list that is one part with nothing but text."""
    if len(parts) != 1 or not isinstance(parts[0], dict):
        return None
    part = parts[0]
    text = part.get("text")
    named = part.keys() - {"type"} == {"text"}
    return text if named and isinstance(text, str) else None
