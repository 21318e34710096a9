"""JSON Schema as a document: walking it, tidying it, and saying in words what it expects.

Nothing here knows Python types or providers: `schema` makes these documents and the
dialects rewrite them. No document is ever changed in place.
"""

import functools
import math
from collections import Counter
from collections.abc import Callable, Iterator, Mapping
from typing import TYPE_CHECKING, TypeAlias, cast

from weft.errors import DeclarationError, describe_kind
from weft.values import Json, JsonObject, compact

if TYPE_CHECKING:
    import jsonschema_rs

Visit: TypeAlias = Callable[[JsonObject, tuple[str, ...]], Json]

MAX_DEPTH = 100
"""How deep a schema may nest: far beyond any provider, and safe to walk recursively."""

ANNOTATIONS = frozenset(("title", "description", "default", "examples", "deprecated"))
"""What says something about a value without constraining it."""

_MAPS = frozenset(("properties", "patternProperties", "$defs", "definitions", "dependentSchemas"))
_LISTS = frozenset(("anyOf", "oneOf", "allOf", "prefixItems", "items"))
_ONES = frozenset(
    ("items", "contains", "additionalProperties", "propertyNames", "not")
) | frozenset(("if", "then", "else", "unevaluatedItems", "unevaluatedProperties"))
SUBSCHEMAS = _MAPS | _LISTS | _ONES
"""Keywords below which other schemas may stand."""

_BOUNDS = {
    "minimum": ">=",
    "exclusiveMinimum": ">",
    "maximum": "<=",
    "exclusiveMaximum": "<",
    "multipleOf": "a multiple of",
    "format": "in format",
    "pattern": "matching",
    "minLength": "of length >=",
    "maxLength": "of length <=",
    "minItems": "with items >=",
    "maxItems": "with items <=",
}


def plain(value: object, *, where: str) -> JsonObject:
    """A copy made of plain dicts and lists, refused if it is circular, too deep or not JSON."""
    return cast("JsonObject", _plain(value, where, ()))


def _plain(value: object, where: str, above: tuple[int, ...]) -> Json:
    if isinstance(value, float) and not math.isfinite(value):
        raise DeclarationError(f"{value} is not a JSON number", where=where, hint="remove it")
    if value is None or isinstance(value, (str, bool, int, float)):
        return value
    if id(value) in above:
        raise DeclarationError(
            "the schema contains itself", where=where, hint='recurse by name: {"$ref": "#"}'
        )
    if len(above) > MAX_DEPTH:
        raise DeclarationError(
            f"the schema nests deeper than {MAX_DEPTH} levels",
            where=where,
            hint="name the inner parts in $defs and refer to them",
        )
    above = (*above, id(value))
    culprit: object = value
    if isinstance(value, Mapping):
        items = cast("Mapping[object, object]", value).items()
        if all(isinstance(key, str) for key, _ in items):
            return {cast("str", key): _plain(item, where, above) for key, item in items}
        culprit = next(key for key, _ in items if not isinstance(key, str))
    elif isinstance(value, (list, tuple)):
        return [_plain(item, where, above) for item in cast("list[object]", value)]
    raise DeclarationError(
        f"{describe_kind(culprit)} cannot stand in a JSON Schema",
        where=where,
        hint="keys are strings; values are str, number, bool, None, list or dict",
    )


def deeper_than(value: object, limit: int) -> bool:
    """Whether a value nests deeper than that; validators in C and Rust crash on such values."""
    layer: list[object] = [value]
    for _ in range(limit + 1):
        if not layer:
            return False
        inner: list[object] = []
        for each in layer:
            if isinstance(each, dict):
                inner += cast("dict[str, object]", each).values()
            elif isinstance(each, list):
                inner += cast("list[object]", each)
        layer = inner
    return bool(layer)


def map_children(schema: JsonObject, visit: Visit) -> JsonObject:
    """The schema with `visit(child, path)` in the place of each sub-schema."""
    result: JsonObject = {}
    for key, value in schema.items():
        if isinstance(value, dict) and key in _MAPS:
            result[key] = {
                name: visit(child, (key, name)) if isinstance(child, dict) else child
                for name, child in value.items()
            }
        elif isinstance(value, list) and key in _LISTS:
            result[key] = [
                visit(child, (key, str(index))) if isinstance(child, dict) else child
                for index, child in enumerate(value)
            ]
        elif isinstance(value, dict) and key in _ONES:
            result[key] = visit(value, (key,))
        else:
            result[key] = value
    return result


def walk(schema: JsonObject) -> Iterator[JsonObject]:
    """The schema and every sub-schema of it."""
    pending = [schema]

    def note(child: JsonObject, _: tuple[str, ...]) -> Json:
        pending.append(child)
        return child

    while pending:
        node = pending.pop()
        yield node
        map_children(node, note)


def refs(schema: JsonObject) -> Counter[str]:
    """How often each `$ref` occurs."""
    return Counter(ref for node in walk(schema) if isinstance(ref := node.get("$ref"), str))


def definitions(schema: JsonObject) -> dict[str, JsonObject]:
    """The named parts, by the text that refers to them; not those whose name needs escaping."""
    named = schema.get("$defs")
    items = named.items() if isinstance(named, dict) else ()
    return {
        f"#/$defs/{name}": part
        for name, part in items
        if isinstance(part, dict) and not set(name) & set("~/%")
    }


def resolve(root: JsonObject, ref: str) -> JsonObject | None:
    """What a JSON pointer in this document points to."""
    from urllib.parse import unquote

    if ref != "#" and not ref.startswith("#/"):
        return None
    node: Json = root
    for step in ref.split("/")[1:]:
        key = unquote(step).replace("~1", "/").replace("~0", "~")
        if isinstance(node, dict) and key in node:
            node = node[key]
        elif isinstance(node, list) and key.isdecimal() and int(key) < len(node):
            node = node[int(key)]
        else:
            return None
    return node if isinstance(node, dict) else None


def reach(schema: JsonObject, named: Mapping[str, JsonObject]) -> set[str]:
    """Every named part the schema refers to, also through other parts."""
    body: JsonObject = {key: value for key, value in schema.items() if key != "$defs"}
    reached: set[str] = set()
    queue = [body]
    while queue:
        for ref in refs(queue.pop()):
            if ref not in reached and ref in named:
                reached.add(ref)
                queue.append(named[ref])
    return reached


def tidy(schema: JsonObject, *, name: str = "") -> JsonObject:
    """The same schema with less to read.

    Titles that repeat a name go, an enum says its type, unused parts go, and a part used
    once stands where it is used, unless it is recursive.
    """
    schema = _name_types(schema, name)
    body: JsonObject = {key: value for key, value in schema.items() if key != "$defs"}
    pointers = refs(schema)
    if not pointers:
        return body
    named = definitions(schema)
    if any(not ref.startswith("#/$defs/") or ref not in named for ref in pointers):
        return schema  # a pointer into the document: moving anything could break it
    used = reach(schema, named)
    counts = refs(body)
    for ref in used:
        counts += refs(named[ref])
    once = {ref for ref in used if counts[ref] == 1 and ref not in reach(named[ref], named)}

    def inline(node: JsonObject, _: tuple[str, ...] = ()) -> JsonObject:
        ref = node.get("$ref")
        if isinstance(ref, str) and ref in once and node.keys() <= ANNOTATIONS | {"$ref"}:
            own: JsonObject = {key: value for key, value in node.items() if key != "$ref"}
            return inline({**named[ref], **own})
        # a reference with rules next to it stays one, so its part must stay too
        once.discard(str(ref))
        return map_children(node, inline)

    body = inline(body)
    shared: JsonObject = {
        ref.removeprefix("#/$defs/"): inline(part)
        for ref, part in named.items()
        if ref in used - once
    }
    return {**body, "$defs": shared} if shared else body


def _name_types(schema: JsonObject, name: str) -> JsonObject:
    def visit(node: JsonObject, path: tuple[str, ...]) -> JsonObject:
        node = map_children(node, visit)
        title = node.get("title")
        if isinstance(title, str) and len(path) > 0 and _squash(title) == _squash(path[-1]):
            del node["title"]
        values = node.get("enum", [node["const"]] if "const" in node else None)
        if isinstance(values, list) and "type" not in node:
            kinds = {json_type(value) for value in values}
            if len(kinds) == 1:
                node = {"type": kinds.pop(), **node}
        return node

    return visit(schema, (name,))


def _squash(text: str) -> str:
    return "".join(char for char in text.lower() if char.isalnum())


def json_type(value: Json) -> str:
    """The JSON Schema name of a value's type."""
    if isinstance(value, bool):
        return "boolean"
    names = {str: "string", int: "integer", float: "number", list: "array", dict: "object"}
    return "null" if value is None else names[type(value)]


def hoist(schema: JsonObject) -> JsonObject:
    """Gather the `$defs` of the properties at the root, telling apart unequal parts of one name."""
    gathered: JsonObject = {}

    def lift(child: JsonObject, _: tuple[str, ...]) -> Json:
        own = child.get("$defs")
        if not isinstance(own, dict):
            return child
        renamed: dict[str, str] = {}
        for name, part in own.items():
            new, number = name, 2
            while gathered.get(new, part) != part:
                new, number = f"{name}_{number}", number + 1
            renamed[f"#/$defs/{name}"] = f"#/$defs/{new}"
            gathered[new] = part
        # the parts refer to each other too: their references are renamed with the rest
        moved = rename_refs(child, renamed)
        parts = cast("JsonObject", moved.pop("$defs"))
        gathered.update({renamed[f"#/$defs/{name}"][8:]: part for name, part in parts.items()})
        return moved

    body = map_children(schema, lift)
    return {**body, "$defs": gathered} if gathered else body


def rename_refs(schema: JsonObject, names: Mapping[str, str]) -> JsonObject:
    """The schema with `$ref`s renamed."""

    def visit(node: JsonObject, _: tuple[str, ...] = ()) -> JsonObject:
        node = map_children(node, visit)
        ref = node.get("$ref")
        return {**node, "$ref": names[ref]} if isinstance(ref, str) and ref in names else node

    return visit(schema)


def without_nulls(schema: JsonObject, value: Json) -> Json:
    """The value without the nulls that can only mean "left out".

    A strict provider schema makes every property required, so a model says null where
    it would have said nothing; that is undone where null itself is not allowed.
    """

    def follow(node: Json) -> JsonObject:
        for _ in range(MAX_DEPTH):
            ref = node.get("$ref") if isinstance(node, dict) else None
            if not isinstance(ref, str):
                break
            node = resolve(schema, ref)
        return node if isinstance(node, dict) else {}

    def arms(node: JsonObject) -> list[JsonObject]:
        return [follow(arm) for key in ("anyOf", "oneOf") for arm in list_in(node.get(key))]

    def takes_null(node: JsonObject, above: tuple[int, ...] = ()) -> bool:
        if id(node) in above:  # a union of itself says nothing
            return False
        above = (*above, id(node))
        either, every = arms(node), [follow(part) for part in list_in(node.get("allOf"))]
        if not all(takes_null(part, above) for part in every):
            return False
        if "enum" in node or "const" in node:
            # 0 stands for no `const`: None would say that null is allowed
            return None in [*list_in(node.get("enum")), node.get("const", 0)]
        if "type" in node:
            kinds = node["type"]
            return "null" in (kinds if isinstance(kinds, list) else [kinds])
        return not either or any(takes_null(arm, above) for arm in either)

    def fits(arm: JsonObject, value: Json) -> bool:
        try:
            return validator({**arm, "$defs": schema.get("$defs", {})}).is_valid(value)
        except ValueError:  # a pointer that makes sense only from the root
            return False

    def clean(node: JsonObject, value: Json, above: tuple[int, ...] = ()) -> Json:
        node = follow(node)
        if id(node) in above or not isinstance(value, (dict, list)):
            return value
        above = (*above, id(node))
        for part in list_in(node.get("allOf")):
            value = clean(follow(part), value, above)
        if "properties" not in node:
            either = [arm for arm in arms(node) if arm.get("type") != "null"]
            if len(either) == 1:
                return clean(either[0], value, above)
            # trying each arm is slow, and without a null there is nothing to undo
            if either and "null" in compact(value):
                tries = ((arm, clean(arm, value, above)) for arm in either)
                return next((tried for arm, tried in tries if fits(arm, tried)), value)
        if isinstance(value, list):
            # `above` begins anew: each level of the value is walked once, so this ends
            return [clean(follow(node.get("items")), item) for item in value]
        properties, required = node.get("properties"), list_in(node.get("required"))
        if not isinstance(value, dict) or not isinstance(properties, dict):
            return value
        parts = {key: follow(properties.get(key)) for key in value}
        return {
            key: clean(parts[key], item)
            for key, item in value.items()
            if item is not None or key in required or takes_null(parts[key])
        }

    return value if deeper_than(value, MAX_DEPTH) else clean(schema, value)


def list_in(value: Json) -> list[Json]:
    """The list, or an empty one where it is none."""
    return value if isinstance(value, list) else []


def describe_expected(schema: JsonObject) -> str:
    """What the schema asks for, in a few words."""
    named = definitions(schema)

    def say(node: Json, depth: int) -> str:
        if not isinstance(node, dict) or depth > 4:
            return "a value"
        ref = node.get("$ref")
        if isinstance(ref, str):
            return say(named.get(ref), depth + 1)
        values = node.get("enum", [node["const"]] if "const" in node else None)
        if isinstance(values, list):
            return ("one of " if len(values) > 1 else "") + ", ".join(map(compact, values))
        arms = [*list_in(node.get("anyOf")), *list_in(node.get("oneOf"))]
        if arms:
            return " or ".join(say(arm, depth + 1) for arm in arms)
        kind = node.get("type")
        if isinstance(kind, list):
            text = " or ".join(map(str, kind))
        elif kind == "array":
            text = f"array of {say(node['items'], depth + 1)}" if "items" in node else "array"
        elif kind == "object" and isinstance(node.get("properties"), dict):
            text = f"object with {', '.join(cast('JsonObject', node['properties']))}"
        else:
            text = str(kind or "any JSON value")
        bounds = [f"{word} {node[key]}" for key, word in _BOUNDS.items() if key in node]
        return " ".join([text, *bounds])

    return shorten(say(schema, 0), 200)


def shorten(text: str, limit: int) -> str:
    """The text, cut to `limit` characters."""
    return text if len(text) <= limit else text[: limit - 1] + "…"


@functools.lru_cache(maxsize=256)
def _compile_schema(schema: str) -> "jsonschema_rs.Validator":
    import jsonschema_rs

    return jsonschema_rs.validator_for(schema, offline=True)


def validator(schema: JsonObject) -> "jsonschema_rs.Validator":
    """A validator that never touches the network; ValueError if this is not a JSON Schema."""
    return _compile_schema(compact(schema))
