"""What stands before the turns of a request: every field where its provider looks for it."""

from collections.abc import Iterator
from typing import NamedTuple

from weft.models.check_turns import illegal
from weft.values import Json, JsonObject

_ONCE = "a tool is declared once, under a name"
_PLACED = "a field stands where this provider looks for it"


class Fields(NamedTuple):
    """Where a provider looks for the system text, the turns, tools and the answer's schema.

    `tool` names what wraps a declaration, `parameters` its schemas, `describes` its other
    fields. `answer` is the path to the answer's schema, `beside` what must stand next to it.
    """

    system: str
    turns: str
    needs: tuple[str, ...]
    tool: str
    parameters: tuple[str, ...]
    describes: tuple[str, ...]
    answer: tuple[str, ...]
    beside: tuple[str, ...]


FIELDS: dict[str, Fields] = {
    "gemini": Fields(
        system="systemInstruction",
        turns="contents",
        needs=(),
        tool="functionDeclarations",
        parameters=("parametersJsonSchema", "parameters"),
        describes=("name", "description", "behavior", "response", "responseJsonSchema"),
        answer=("generationConfig", "responseJsonSchema"),
        beside=("responseMimeType",),
    ),
    "anthropic": Fields(
        system="system",
        turns="messages",
        needs=("model", "max_tokens"),
        tool="",
        parameters=("input_schema",),
        describes=(
            "name", "description", "type", "strict", "cache_control", "input_examples",
            "defer_loading", "allowed_callers", "eager_input_streaming",
        ),
        answer=("output_config", "format", "schema"),
        beside=("type",),
    ),
    "openai-chat": Fields(
        system="",
        turns="messages",
        needs=("model",),
        tool="function",
        parameters=("parameters",),
        describes=("name", "description", "strict"),
        answer=("response_format", "json_schema", "schema"),
        beside=("name",),
    ),
    "openai-responses": Fields(
        system="instructions",
        turns="input",
        needs=("model",),
        tool="",
        parameters=("parameters",),
        describes=(
            "name", "description", "type", "strict", "defer_loading", "allowed_callers",
            "output_schema", "async",
        ),
        answer=("text", "format", "schema"),
        beside=("type", "name"),
    ),
}  # fmt: skip

_ANYONES = {
    key for fields in FIELDS.values() for key in (fields.system, fields.turns, fields.answer[0])
}


def check_head(wire: JsonObject, fields: Fields) -> None:
    """Refuse a field that is another provider's, a tool declared twice, a schema out of place."""
    own = (fields.system, fields.turns, fields.answer[0])
    for key in wire:
        if key in _ANYONES and key not in own:
            raise illegal(f"/{key}", f"`{key}` is another provider's field", _PLACED)
    for key in fields.needs:
        if not wire.get(key):
            raise illegal(f"/{key}", f"`{key}` is missing", _PLACED)
    if fields.system in wire and not wire[fields.system]:
        raise illegal(f"/{fields.system}", "the system text is empty", _PLACED)
    _check_answer(wire, fields)
    names: set[str] = set()
    for where, declared in _declared(wire, fields):
        name = declared.get("name")
        if not isinstance(name, str) or not name:
            raise illegal(f"{where}/name", "this tool has no name", _ONCE)
        if name in names:
            raise illegal(f"{where}/name", f"the tool `{name}` is declared twice", _ONCE)
        names.add(name)


def _declared(wire: JsonObject, fields: Fields) -> Iterator[tuple[str, JsonObject]]:
    """Each declaration of a function with its place; the provider's own tools pass."""
    tools = wire.get("tools", [])
    if not isinstance(tools, list):
        raise illegal("/tools", "the tools are no list", _PLACED)
    for index, tool in enumerate(tools):
        where = f"/tools/{index}"
        if not isinstance(tool, dict) or not tool:
            raise illegal(where, "this tool is empty", _PLACED)
        if tool.get("type", "function") not in ("function", "custom"):
            continue
        held: Json = tool.get(fields.tool) if fields.tool else tool
        if held is None and len(tool) == 1 and "type" not in tool and "name" not in tool:
            continue  # {"googleSearch": {}}, say
        many = isinstance(held, list)
        for at, declared in enumerate(held if isinstance(held, list) else [held]):
            place = where + (f"/{fields.tool}" if fields.tool else "") + (f"/{at}" if many else "")
            if not isinstance(declared, dict):
                raise illegal(place, "there is no declaration here", _PLACED)
            _check_parameters(declared, place, fields)
            yield place, declared


def _check_parameters(declared: JsonObject, where: str, fields: Fields) -> None:
    schemas = [key for key in fields.parameters if key in declared]
    if len(schemas) > 1:
        raise illegal(where, f"it has both {' and '.join(schemas)}", _PLACED)
    for key in declared:
        if key not in fields.describes and key not in fields.parameters:
            raise illegal(f"{where}/{key}", f"`{key}` is no field of a declaration", _PLACED)
    for key in schemas:
        schema = declared[key]
        if not isinstance(schema, dict) or schema.get("type") not in ("object", "OBJECT"):
            raise illegal(f"{where}/{key}", "parameters are an object's schema", _PLACED)
    if not schemas and not fields.tool:  # those that wrap a declaration let it have none
        raise illegal(f"{where}/{fields.parameters[0]}", "the schema is missing", _PLACED)


def _check_answer(wire: JsonObject, fields: Fields) -> None:
    """The answer's schema is an object, and what must stand beside it does."""
    *above, last = fields.answer
    held: Json = wire
    where = ""
    for key in above:
        held = held.get(key) if isinstance(held, dict) else None
        where += f"/{key}"
    if not isinstance(held, dict):
        return
    asked = last in held or "json_schema" in (held.get("type"), above[-1])
    if asked and not isinstance(held.get(last), dict):
        raise illegal(f"{where}/{last}", "the answer's schema is no object", _PLACED)
    for key in fields.beside if asked else ():
        if not held.get(key):
            raise illegal(f"{where}/{key}", f"`{key}` must stand beside the schema", _PLACED)
