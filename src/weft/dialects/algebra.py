"""What can be computed about schemas: their conjunction, their overlap, their null.

Pure functions over JSON Schema documents; `subset` uses them to say in fewer keywords what
a provider will not read in more.
"""

import re
from collections.abc import Sequence
from typing import cast
from urllib.parse import unquote

from weft.jsonschema import ANNOTATIONS, definitions, refs, rename_refs, resolve
from weft.values import Json, JsonObject, compact

_LOWER = frozenset(("minimum", "exclusiveMinimum", "minLength", "minItems", "minProperties"))
_UPPER = frozenset(("maximum", "exclusiveMaximum", "maxLength", "maxItems", "maxProperties"))
_OF_TYPE = {
    "string": {"minLength", "maxLength", "pattern", "format", "contentEncoding"},
    "number": {"minimum", "maximum", "exclusiveMinimum", "exclusiveMaximum", "multipleOf"},
    "array": {"items", "prefixItems", "minItems", "maxItems", "uniqueItems", "contains"},
    "object": {"properties", "required", "additionalProperties", "patternProperties"}
    | {"propertyNames", "minProperties", "maxProperties", "dependentRequired"},
}


def escape(part: str) -> str:
    """A key as one step of a JSON pointer."""
    return part.replace("~", "~0").replace("/", "~1")


def types_of(node: JsonObject) -> list[str]:
    """The types a schema names."""
    kinds = node.get("type", [])
    return [str(kind) for kind in kinds] if isinstance(kinds, list) else [str(kinds)]


def without(node: JsonObject, *keys: str) -> JsonObject:
    """A copy without some keys."""
    return {key: item for key, item in node.items() if key not in keys}


def written_out(schema: JsonObject) -> JsonObject:
    """The root with its own `$ref` replaced by what it names."""
    named = definitions(schema)
    seen: set[str] = set()
    while isinstance(ref := schema.get("$ref"), str) and ref in named and ref not in seen:
        seen.add(ref)
        schema = {**named[ref], **without(schema, "$ref")}
    return schema


def name_refs(root: JsonObject) -> JsonObject:
    """The same schema with every local `$ref` pointing into `$defs`."""
    named = definitions(root)
    taken = {ref.removeprefix("#/$defs/") for ref in named}
    names: dict[str, str] = {}
    for ref in sorted(refs(root)):
        if ref not in named and resolve(root, ref) is not None:
            base = name = re.sub(r"\W+", "_", unquote(ref).split("/")[-1].strip("#")) or "Root"
            number = 2
            while name in taken:
                name, number = f"{base}_{number}", number + 1
            taken.add(name)
            names[ref] = f"#/$defs/{name}"
    if not names:
        return root
    renamed = rename_refs(root, names)
    added: JsonObject = {}
    for ref, new in names.items():
        target = resolve(renamed, ref)
        added[new.removeprefix("#/$defs/")] = without(target, "$defs") if target else {}
    return {**renamed, "$defs": {**cast("JsonObject", renamed.get("$defs", {})), **added}}


def merge(parts: Sequence[JsonObject]) -> JsonObject | None:
    """One schema for what fits all of them, or nothing if that takes more than one.

    Of two annotations the later wins.
    """
    owned = [set(cast("JsonObject", part.get("properties", {}))) for part in parts]
    for part, own in zip(parts, owned, strict=True):
        closed = part.get("additionalProperties", True) is not True
        if closed and any(not other <= own for other in owned):
            return None
    result: JsonObject = {}
    for part in parts:
        for key, item in part.items():
            if key not in result or key in ANNOTATIONS or result[key] == item:
                result[key] = item
                continue
            both = _both(key, result[key], item)
            if both is None:
                return None
            result[key] = both
    return result


def _both(key: str, left: Json, right: Json) -> Json:
    """One keyword that says what two of them say, or None."""
    if isinstance(left, (int, float)) and isinstance(right, (int, float)):
        if key in _LOWER:
            return max(left, right)
        return min(left, right) if key in _UPPER else None
    if key == "required" and isinstance(left, list) and isinstance(right, list):
        return [*left, *(name for name in right if name not in left)]
    if key == "enum" and isinstance(left, list) and isinstance(right, list):
        return [item for item in left if item in right] or None
    if key == "type":
        kinds = [kind for kind in types_of({"type": left}) if kind in types_of({"type": right})]
        if not kinds and {str(left), str(right)} == {"integer", "number"}:
            return "integer"
        return None if not kinds else kinds[0] if len(kinds) == 1 else list[Json](kinds)
    if key == "properties" and isinstance(left, dict) and isinstance(right, dict):
        result = dict(left)
        for name, part in right.items():
            other = left.get(name, part)
            if other != part:
                if not isinstance(other, dict) or not isinstance(part, dict):
                    return None
                part = merge([other, part])
                if part is None:
                    return None
            result[name] = part
        return result
    return None


def exclusive(arms: Sequence[JsonObject]) -> bool:
    """Whether no value can fit two of them: then `oneOf` and `anyOf` say the same."""
    return all(_apart(left, right) for at, left in enumerate(arms) for right in arms[at + 1 :])


def _apart(left: JsonObject, right: JsonObject) -> bool:
    kinds = [
        {"number" if kind == "integer" else kind for kind in types_of(arm)} for arm in (left, right)
    ]
    if kinds[0] and kinds[1] and not kinds[0] & kinds[1]:
        return True
    mine, yours = _tags(left), _tags(right)
    return any(not any(item in yours[name] for item in mine[name]) for name in mine.keys() & yours)


def _tags(arm: JsonObject) -> dict[str, list[Json]]:
    """The required properties that may hold only listed values."""
    properties, required = arm.get("properties"), arm.get("required")
    found: dict[str, list[Json]] = {}
    if isinstance(properties, dict) and isinstance(required, list) and "object" in types_of(arm):
        for name, part in properties.items():
            if name in required and isinstance(part, dict):
                values = part.get("enum", [part["const"]] if "const" in part else None)
                if isinstance(values, list):
                    found[name] = values
    return found


def nullable(part: Json) -> Json:
    """The schema, accepting null too."""
    if not isinstance(part, dict) or not part.keys() - ANNOTATIONS:
        return part
    arms, values, kinds = part.get("anyOf"), part.get("enum"), types_of(part)
    if isinstance(values, list) and None in values and "null" in (kinds or ["null"]):
        return part
    if "null" in kinds and not isinstance(values, list) and "const" not in part:
        return part
    if isinstance(arms, list) and not kinds:
        return part if {"type": "null"} in arms else {**part, "anyOf": [*arms, {"type": "null"}]}
    if len(kinds) > 0 and not part.keys() & {"enum", "const", "$ref", "anyOf", "oneOf", "allOf"}:
        return {**part, "type": [*kinds, "null"]}
    said = {key: item for key, item in part.items() if key in ANNOTATIONS}
    return {**said, "anyOf": [without(part, *said), {"type": "null"}]}


def split_types(node: JsonObject) -> JsonObject:
    """`type: [a, b]` as a union, each arm with the keywords of its type."""
    if "enum" in node or "const" in node:
        return without(node, "type")
    typed = set[str]().union(*_OF_TYPE.values())
    said = {key: item for key, item in node.items() if key not in typed | {"type"}}
    arms: list[Json] = []
    for kind in types_of(node):
        own = _OF_TYPE.get("number" if kind == "integer" else kind, set[str]())
        arms.append({"type": kind, **{key: item for key, item in node.items() if key in own}})
    return {**said, "anyOf": arms}


def inclusive(node: JsonObject) -> JsonObject:
    """The exclusive bounds of an integer as inclusive ones."""
    if node.get("type") != "integer":
        return node
    node = dict(node)
    low, high = node.get("exclusiveMinimum"), node.get("exclusiveMaximum")
    if isinstance(low, int):
        del node["exclusiveMinimum"]
        other = node.get("minimum", low + 1)
        node["minimum"] = max(other, low + 1) if isinstance(other, (int, float)) else low + 1
    if isinstance(high, int):
        del node["exclusiveMaximum"]
        other = node.get("maximum", high - 1)
        node["maximum"] = min(other, high - 1) if isinstance(other, (int, float)) else high - 1
    return node


def describe(node: JsonObject, said: JsonObject) -> JsonObject:
    """The node with constraints added to its description."""
    if not said:
        return node
    notes = [str(node["description"])] if node.get("description") else []
    rules = without(said, "default")
    notes += [f"Constraints: {compact(rules)}"] if rules else []
    notes += [f"Default: {compact(said['default'])}"] if "default" in said else []
    return {**node, "description": "\n\n".join(notes)}
