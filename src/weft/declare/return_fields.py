"""What a tool's function says it returns: its fields, as far as its annotation names them.

A field is only as typed as its annotation: a number, a date, a member of an enumeration, or a text
with a pattern cannot instruct. What an annotation does not say is judged value by value.
"""

import functools
from collections.abc import Callable, Iterable, Iterator, Mapping
from typing import get_type_hints

import msgspec

from weft import schema
from weft.errors import WeftError
from weft.jsonschema import definitions, list_in
from weft.session.flow import Declared
from weft.values import Json, JsonObject

_NARROW = ("enum", "const", "pattern", "format")
"""What keeps a text in a schema from being anybody's words."""


class ReturnedFields(msgspec.Struct, frozen=True):
    """The fields that an annotation names, those that hold any text, and the texts it lists."""

    names: frozenset[str] = frozenset()
    free: frozenset[str] = frozenset()
    members: frozenset[str] = frozenset()
    is_open: bool = True
    """Whether there may be fields that it does not name."""


UNKNOWN = ReturnedFields()

_TEXT = ReturnedFields(frozenset(("result",)), frozenset(("result",)), is_open=False)


@functools.lru_cache(4096)
def read_return_fields(function: Callable[..., object] | None) -> ReturnedFields:
    """The fields of what a function returns; nothing is known where it is not annotated."""
    try:
        hint: object = get_type_hints(function, include_extras=True).get("return")
    except (NameError, TypeError, AttributeError):  # names of a module that is not loaded
        return UNKNOWN
    if hint is str:
        return _TEXT
    if hint is None or hint is object or hint is dict:
        return UNKNOWN
    try:
        whole = schema.of_type(hint, where="return")
    except WeftError:  # not a type of JSON: it is read once it is there
        return UNKNOWN
    leaves = [*_walk(whole, "result", definitions(whole))]
    return ReturnedFields(
        frozenset(name for name, _ in leaves if name),
        frozenset(name for name, rules in leaves if name and _is_free(rules)),
        frozenset(one for _, rules in leaves for one in _members(rules)),
        any(not name for name, _ in leaves),
    )


def find_free_fields(function: Callable[..., object], trust: Declared) -> list[str]:
    """The fields that are declared typed, and that hold any text by the function's annotation."""
    if trust == "typed":
        return sorted(read_return_fields(function).free)
    if not isinstance(trust, Mapping):
        return []
    return [
        name
        for name, word in trust.items()
        if word == "typed" and name in read_return_fields(function).free
    ]


def find_unknown_fields(function: Callable[..., object], names: Iterable[str]) -> list[str]:
    """Those of these names that no field has, where the annotation names all of them."""
    known = read_return_fields(function)
    return [] if known.is_open else [name for name in names if name not in known.names | _OWN]


_OWN = frozenset(("result", "error", "media", "file"))
"""Fields that any result may have: its text, what went wrong, and what came beside it."""


def _walk(
    rules: Json, field: str, named: Mapping[str, JsonObject], seen: frozenset[str] = frozenset()
) -> Iterator[tuple[str, JsonObject]]:
    """The leaves of a schema, each with the field it stands in; no name where any may stand."""
    if not isinstance(rules, dict):
        yield "", {}
        return
    reference = rules.get("$ref")
    if isinstance(reference, str):
        if reference not in seen:
            yield from _walk(named.get(reference, True), field, named, seen | {reference})
        return
    inner = [one for word in ("anyOf", "oneOf", "allOf") for one in list_in(rules.get(word))]
    for one in inner:
        yield from _walk(one, field, named, seen)
    if inner:
        return
    properties = rules.get("properties")
    for name, each in (properties if isinstance(properties, dict) else {}).items():
        yield from _walk(each, name, named, seen)
    if rules.get("type") == "object":
        if not properties or rules.get("additionalProperties"):
            yield "", {}
        return
    if rules.get("type") == "array":
        items = (
            [rules["items"]] if "items" in rules else list_in(rules.get("prefixItems")) or [True]
        )
        for one in items:
            yield from _walk(one, field, named, seen)
        return
    yield (field if rules else ""), rules


def _is_free(rules: JsonObject) -> bool:
    return rules.get("type") == "string" and not any(word in rules for word in _NARROW)


def _members(rules: JsonObject) -> Iterator[str]:
    yield from (
        one for one in (*list_in(rules.get("enum")), rules.get("const")) if isinstance(one, str)
    )
