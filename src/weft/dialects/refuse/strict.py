"""Schemas strict mode refuses: each provider has its list of what it cannot hold a model to."""

from collections.abc import Iterator, Sequence

from weft.dialects.options import escape
from weft.dialects.refuse.finding import SCHEMA, Finding, Findings
from weft.values import Json, JsonObject

_HINT = "leave it out, or ask for it without strict"
_NEVER = (
    "oneOf", "allOf", "not", "if", "then", "else", "dependentRequired", "dependentSchemas",
    "patternProperties", "unevaluatedProperties", "propertyNames", "minProperties",
    "maxProperties", "unevaluatedItems", "uniqueItems", "contains", "minContains", "maxContains",
    "default",
)  # fmt: skip
_MOST_OPTIONAL, _MOST_UNIONS = 24, 16
_UNTOLD = {
    "string": ("minLength", "maxLength"),
    "integer": ("minimum", "maximum", "exclusiveMinimum", "exclusiveMaximum", "multipleOf"),
    "number": ("minimum", "maximum", "exclusiveMinimum", "exclusiveMaximum", "multipleOf"),
    "array": ("maxItems", "uniqueItems"),
}


def nodes(schema: Json, pointer: str) -> Iterator[tuple[str, JsonObject]]:
    """Every schema inside a schema, with its place."""
    if not isinstance(schema, dict):
        return
    yield pointer, schema
    for key in ("properties", "$defs", "definitions"):
        held = schema.get(key)
        for name, part in held.items() if isinstance(held, dict) else ():
            yield from nodes(part, f"{pointer}/{key}/{escape(name)}")
    for key in ("items", "additionalProperties"):
        yield from nodes(schema.get(key), f"{pointer}/{key}")
    for key in ("anyOf", "oneOf", "allOf", "prefixItems"):
        held = schema.get(key)
        for at, part in enumerate(held if isinstance(held, list) else ()):
            yield from nodes(part, f"{pointer}/{key}/{at}")


def untyped_arrays(schema: Json, pointer: str) -> Findings:
    """Arrays that do not say what is in them, which is refused even where nothing is strict."""
    for at, node in nodes(schema, pointer):
        if node.get("type") == "array" and "items" not in node and "prefixItems" not in node:
            yield Finding(SCHEMA, at, "this array does not say what its items are", "add `items`")


def closed_and_required(schema: Json, pointer: str) -> Findings:
    """The strict mode that wants every object closed and every property required."""
    if isinstance(schema, dict) and "anyOf" in schema and "type" not in schema:
        yield Finding(SCHEMA, pointer, "a union cannot stand at the root of a strict schema", _HINT)
    for at, node in nodes(schema, pointer):
        for key in _NEVER:
            if key in node:
                yield Finding(SCHEMA, f"{at}/{key}", f"strict mode does not take `{key}`", _HINT)
        if "$ref" in node and node.keys() - {"$ref", "$defs"}:
            yield Finding(SCHEMA, at, "strict mode takes nothing beside a `$ref`", _HINT)
        properties = node.get("properties")
        if node.get("type") != "object" and not isinstance(properties, dict):
            continue
        if node.get("additionalProperties") is not False:
            yield _open(at)
        names = properties if isinstance(properties, dict) else {}
        required = node.get("required")
        for name in names:
            if not isinstance(required, list) or name not in required:
                message = f"strict mode wants `{name}` among the required"
                hint = "require it and let it be null, or ask without strict"
                yield Finding(SCHEMA, f"{at}/required", message, hint)


def closed_and_plain(schema: Json, pointer: str) -> Findings:
    """The strict mode that wants objects closed and knows no bounds for values."""
    for at, node in nodes(schema, pointer):
        kind = node.get("type")
        for key in _UNTOLD.get(kind, ()) if isinstance(kind, str) else ():
            if key in node:
                message = f"strict mode does not take `{key}` of a {kind}"
                yield Finding(SCHEMA, f"{at}/{key}", message, "say it in the description")
        least = node.get("minItems")
        if isinstance(least, int) and least > 1:
            message = "strict mode takes no `minItems` above 1"
            yield Finding(SCHEMA, f"{at}/minItems", message, "say it in the description")
        if kind == "object" and node.get("additionalProperties") is not False:
            yield _open(at)
    if _recurs(schema):
        yield Finding(SCHEMA, pointer, "strict mode takes no schema that contains itself", _HINT)


def too_complex(schemas: Sequence[Json], pointer: str) -> Findings:
    """More optional parameters, or more unions, than a request may hold a model to."""
    optional = unions = 0
    for _, node in (each for schema in schemas for each in nodes(schema, "")):
        properties, required = node.get("properties"), node.get("required")
        if isinstance(properties, dict):
            optional += len(properties.keys() - _names(required))
        unions += "anyOf" in node or isinstance(node.get("type"), list)
    if optional > _MOST_OPTIONAL:
        message = f"{optional} parameters of strict tools are optional, and {_MOST_OPTIONAL} may be"
        yield Finding(SCHEMA, pointer, message, _HINT)
    if unions > _MOST_UNIONS:
        message = f"strict tools have {unions} unions, and {_MOST_UNIONS} may be"
        yield Finding(SCHEMA, pointer, message, _HINT)


def _names(value: Json) -> set[str]:
    return {str(name) for name in value} if isinstance(value, list) else set()


def _open(pointer: str) -> Finding:
    message = "strict mode wants this object closed"
    return Finding(SCHEMA, pointer, message, 'add "additionalProperties": false')


def _recurs(schema: Json) -> bool:
    """Whether a named part of the schema leads back to itself."""
    if not isinstance(schema, dict):
        return False
    named = {
        f"#/{key}/{name}": part
        for key in ("$defs", "definitions")
        if isinstance(held := schema.get(key), dict)
        for name, part in held.items()
    }
    leads = {
        ref: {str(node["$ref"]) for _, node in nodes(part, "") if "$ref" in node}
        for ref, part in named.items()
    }
    for start in leads:
        reached: set[str] = set()
        pending = set(leads[start])
        while pending:
            ref = pending.pop()
            if ref not in reached:
                reached.add(ref)
                pending |= leads.get(ref, set())
        if start in reached:
            return True
    return any(node.get("$ref") == "#" for _, node in nodes(schema, ""))
