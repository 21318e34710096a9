"""What a rule finds: a place of a request that its provider would refuse, and what to do."""

import re
from collections.abc import Iterator, Mapping, Sequence
from typing import NamedTuple, Protocol, TypeAlias

from weft.dialects.facts import facts_for
from weft.dialects.wire import escape, number
from weft.values import Json, JsonObject

OPTION, MEDIA, SCHEMA, REQUEST = "WEFT702", "WEFT703", "WEFT701", "WEFT707"

MODEL = "WEFT706"
"""Under which code a finding is told: by what it is about."""


class Finding(NamedTuple):
    """A place as a JSON pointer, what is wrong there in a sentence, and what to type instead."""

    code: str
    pointer: str
    message: str
    hint: str = ""


Findings: TypeAlias = Iterator[Finding]


class TurnRules(Protocol):
    """What is wrong with the turns of a request, read one after the other.

    A session only grows, so the turns that stay are read once: the next request begins with a
    fork of what is known after them, and reads what is new.
    """

    def read(self, turn: JsonObject, at: str) -> Findings:
        """What one more turn, at that place, brings with it."""
        ...

    def end(self, wire: JsonObject) -> Findings:
        """What is wrong if the request ends here; `wire` is the whole of it."""
        ...

    def fork(self) -> "TurnRules":
        """A copy to read on with, which leaves this one as it is."""
        ...


class SeenIds:
    """Ids that occurred, in layers: a fork looks them up below and adds to its own layer."""

    def __init__(self, below: "SeenIds | None" = None) -> None:
        self._below = below
        self._own: set[str] = set()

    def __contains__(self, value: str) -> bool:
        return value in self._own or (self._below is not None and value in self._below)

    def add(self, value: str) -> None:
        """Note one more."""
        self._own.add(value)

    def fork(self) -> "SeenIds":
        """A layer on top; what is below must not grow while it is in use."""
        return SeenIds(self)


def is_plain(content: Json) -> bool:
    """Whether a turn is one text with something in it, as nearly every turn is."""
    if isinstance(content, list):
        block = content[0] if len(content) == 1 else None
        if not isinstance(block, dict) or block.keys() - _TEXT:
            return False
        content = block.get("text")
    return isinstance(content, str) and bool(content) and not content.isspace()


_TEXT = frozenset(("type", "text"))


def refuse_range(held: JsonObject, above: str, ranges: dict[str, tuple[float, float]]) -> Findings:
    """Numbers that are outside of what the provider takes."""
    for name, (least, most) in ranges.items():
        value = number(held.get(name))
        if value is not None and not least <= value <= most:
            yield Finding(
                OPTION,
                f"{above}/{name}",
                f"`{name}` is {value}, outside of {least:g} to {most:g}",
                f"give a number from {least:g} to {most:g}",
            )


def refuse_unsupported(
    held: JsonObject, above: str, names: Mapping[str, Json], who: str
) -> Findings:
    """Options that are set and that this model takes only one value of, if any."""
    for name, only in names.items():
        value = held.get(name)
        if value is not None and value != only and not (value == [] or value is False):
            yield Finding(
                OPTION, f"{above}/{name}", f"{who} does not take `{name}`", f"leave out `{name}`"
            )


def refuse_effort(effort: Json, pointer: str, model: str) -> Findings:
    """An effort that the model does not have; some write it in capitals."""
    known = facts_for(model).efforts
    if not isinstance(effort, str) or known is None or effort.lower() in known:
        return
    hint = f"use one of {', '.join(known)}" if known else "leave it out"
    yield Finding(OPTION, pointer, f"{model} has no effort `{effort}`", hint)


class DeclaredTool(NamedTuple):
    """A function that is declared: its place, its name, its schema and where that stands."""

    pointer: str
    name: str
    schema: Json
    at: str


def refuse_tools(tools: Sequence[DeclaredTool], pattern: str, most: int = 0) -> Findings:
    """What is wrong with the declarations, whatever the provider."""
    if most and len(tools) > most:
        message = f"there are {len(tools)} tools, and the provider takes {most}"
        yield Finding(REQUEST, "/tools", message, "leave some out, or narrow them to what is asked")
    seen: set[str] = set()
    for tool in tools:
        if not re.fullmatch(pattern, tool.name):
            message = f"`{tool.name}` is no name for a tool here"
            hint = "use letters, digits, _ and -, and not too many"
            yield Finding(REQUEST, f"{tool.pointer}/name", message, hint)
        if tool.name in seen:
            message = f"the tool `{tool.name}` is declared twice"
            yield Finding(REQUEST, f"{tool.pointer}/name", message, "give each a name of its own")
        seen.add(tool.name)
        if isinstance(tool.schema, dict) and not _is_object(tool.schema):
            message = f"the parameters of `{tool.name}` are no object's schema"
            yield Finding(SCHEMA, tool.at, message, 'write {"type": "object", "properties": {}}')


def _is_object(schema: JsonObject) -> bool:
    return not schema or schema.get("type") in ("object", "OBJECT")


def refuse_undeclared(names: Sequence[Json], known: set[str], pointer: str) -> Findings:
    """A tool that must be called but is not there."""
    for name in names:
        if isinstance(name, str) and name not in known:
            message = f"the tool `{name}` must be called, and is not declared"
            yield Finding(REQUEST, pointer, message, "declare it, or name one that is")


def refuse_result(waiting: dict[str, str], call: str, pointer: str, hint: str) -> Findings:
    """Take a call that has its result off those that wait; a result of none is one too many."""
    if waiting.pop(call, None) is None:
        message = f"the result of {call} answers no call of the turn before"
        yield Finding(REQUEST, pointer, message, hint)


def refuse_unanswered(waiting: dict[str, str], hint: str) -> Findings:
    """Calls that still wait for a result where none can come any more."""
    for call, pointer in waiting.items():
        message = f"the call {call} has no result in the next turn"
        yield Finding(REQUEST, pointer, message, hint)
    waiting.clear()


_UNSTRICT = "leave it out, or ask for it without strict"

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


def schema_nodes(schema: Json, pointer: str) -> Iterator[tuple[str, JsonObject]]:
    """Every schema inside a schema, with its place."""
    if not isinstance(schema, dict):
        return
    yield pointer, schema
    for key in ("properties", "$defs", "definitions"):
        held = schema.get(key)
        for name, part in held.items() if isinstance(held, dict) else ():
            yield from schema_nodes(part, f"{pointer}/{key}/{escape(name)}")
    for key in ("items", "additionalProperties"):
        yield from schema_nodes(schema.get(key), f"{pointer}/{key}")
    for key in ("anyOf", "oneOf", "allOf", "prefixItems"):
        held = schema.get(key)
        for at, part in enumerate(held if isinstance(held, list) else ()):
            yield from schema_nodes(part, f"{pointer}/{key}/{at}")


def refuse_untyped_arrays(schema: Json, pointer: str) -> Findings:
    """Arrays that do not say what is in them, which is refused even where nothing is strict."""
    for at, node in schema_nodes(schema, pointer):
        if node.get("type") == "array" and "items" not in node and "prefixItems" not in node:
            yield Finding(SCHEMA, at, "this array does not say what its items are", "add `items`")


def refuse_open_or_optional(schema: Json, pointer: str) -> Findings:
    """The strict mode that wants every object closed and every property required."""
    if isinstance(schema, dict) and "anyOf" in schema and "type" not in schema:
        yield Finding(
            SCHEMA, pointer, "a union cannot stand at the root of a strict schema", _UNSTRICT
        )
    for at, node in schema_nodes(schema, pointer):
        for key in _NEVER:
            if key in node:
                yield Finding(
                    SCHEMA, f"{at}/{key}", f"strict mode does not take `{key}`", _UNSTRICT
                )
        if "$ref" in node and node.keys() - {"$ref", "$defs"}:
            yield Finding(SCHEMA, at, "strict mode takes nothing beside a `$ref`", _UNSTRICT)
        properties = node.get("properties")
        if node.get("type") != "object" and not isinstance(properties, dict):
            continue
        if node.get("additionalProperties") is not False:
            yield _open_object(at)
        names = properties if isinstance(properties, dict) else {}
        required = node.get("required")
        for name in names:
            if not isinstance(required, list) or name not in required:
                message = f"strict mode wants `{name}` among the required"
                hint = "require it and let it be null, or ask without strict"
                yield Finding(SCHEMA, f"{at}/required", message, hint)


def refuse_open_or_bounded(schema: Json, pointer: str) -> Findings:
    """The strict mode that wants objects closed and knows no bounds for values."""
    for at, node in schema_nodes(schema, pointer):
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
            yield _open_object(at)
    if _recurs(schema):
        yield Finding(
            SCHEMA, pointer, "strict mode takes no schema that contains itself", _UNSTRICT
        )


def refuse_complexity(schemas: Sequence[Json], pointer: str) -> Findings:
    """More optional parameters, or more unions, than a request may hold a model to."""
    optional = unions = 0
    for _, node in (each for schema in schemas for each in schema_nodes(schema, "")):
        properties, required = node.get("properties"), node.get("required")
        if isinstance(properties, dict):
            optional += len(properties.keys() - _names(required))
        unions += "anyOf" in node or isinstance(node.get("type"), list)
    if optional > _MOST_OPTIONAL:
        message = f"{optional} parameters of strict tools are optional, and {_MOST_OPTIONAL} may be"
        yield Finding(SCHEMA, pointer, message, _UNSTRICT)
    if unions > _MOST_UNIONS:
        message = f"strict tools have {unions} unions, and {_MOST_UNIONS} may be"
        yield Finding(SCHEMA, pointer, message, _UNSTRICT)


def _names(value: Json) -> set[str]:
    return {str(name) for name in value} if isinstance(value, list) else set()


def _open_object(pointer: str) -> Finding:
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
        ref: {str(node["$ref"]) for _, node in schema_nodes(part, "") if "$ref" in node}
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
    return any(node.get("$ref") == "#" for _, node in schema_nodes(schema, ""))
