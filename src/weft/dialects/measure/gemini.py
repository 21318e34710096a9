"""Reading Gemini requests: parts in contents, in camelCase or snake_case."""

import re

from weft.dialects.measure.quantities import (
    OWN_TOOLS,
    SERVED,
    Declared,
    Head,
    Part,
    Reader,
    Turn,
    field,
    list_of,
    object_of,
    said,
    text_of,
)
from weft.values import Json, JsonObject

_REFERENCE = re.compile(r'"\$ref":"#/\$defs/([^"]*)"')
_SCHEMAS = ("parametersJsonSchema", "parameters")
_DECLARATIONS = ("functionDeclarations", "function_declarations")


def head(wire: JsonObject) -> Head:
    """System text, tools, schema and choice."""
    tools: list[Declared] = []
    uncounted: dict[str, None] = {}
    for tool in map(object_of, list_of(wire.get("tools"))):
        tools += map(_declared, map(object_of, list_of(field(tool, _DECLARATIONS[0]))))
        if any(key not in _DECLARATIONS for key in tool):
            uncounted[OWN_TOOLS] = None
    if any(_recurs(tool.schema) for tool in tools):
        uncounted["how often a schema that contains itself is written out"] = None
    calling = object_of(field(object_of(field(wire, "toolConfig")), "functionCallingConfig"))
    mode = text_of(calling.get("mode")).upper()
    generation = object_of(field(wire, "generationConfig"))
    return Head(
        system=tuple(_system(field(wire, "systemInstruction"))),
        tools=tuple(tools),
        schema=field(generation, "responseJsonSchema") or field(generation, "responseSchema"),
        forced=mode == "ANY",
        stateful=bool(field(wire, "cachedContent")),
        uncounted=tuple(uncounted),
    )


def turn(content: Json) -> Turn:
    """One content; functions that answer are not the user speaking."""
    if not isinstance(content, dict):
        return Turn("user", [Part("", "text", text_of(content))], asks=True)
    role = text_of(content.get("role")) or "user"
    parts: list[Part] = []
    asks = False
    for index, part in enumerate(list_of(content.get("parts"))):
        found = _part(f"/parts/{index}", part)
        asks = asks or not any(one.kind == "result" for one in found)
        parts += found
    return Turn(role, parts, asks=asks and role == "user")


def _part(pointer: str, part: Json) -> list[Part]:
    if not isinstance(part, dict):
        return [Part(pointer, "text", text_of(part))]
    found: list[Part] = []
    if field(part, "toolCall") or field(part, "toolResponse"):  # not counted as input
        return [Part(pointer, "other", "", uncounted=SERVED)]
    signature = field(part, "thoughtSignature")
    if isinstance(signature, str):
        found.append(Part(pointer, "thought", "", sealed=len(signature)))
    if part.get("thought"):
        return found
    if "text" in part:
        return [*found, Part(pointer, "text", text_of(part["text"]))]
    if isinstance(call := field(part, "functionCall"), dict):
        args = said(call.get("args", {}))
        return [*found, Part(pointer, "call", args, text_of(call.get("name")))]
    if isinstance(result := field(part, "functionResponse"), dict):
        text = text_of(result.get("name")) + said(result.get("response"))
        shown = [_media(pointer, object_of(one)) for one in list_of(result.get("parts"))]
        return [*found, Part(pointer, "result", text), *shown]
    if isinstance(code := field(part, "executableCode"), dict):
        return [*found, Part(pointer, "text", text_of(code.get("code")))]
    if isinstance(output := field(part, "codeExecutionResult"), dict):
        return [*found, Part(pointer, "text", text_of(output.get("output")))]
    return [*found, _media(pointer, part)]


def _media(pointer: str, part: JsonObject) -> Part:
    for key in ("inlineData", "fileData"):
        if isinstance(held := field(part, key), dict):
            data = text_of(held.get("data")) if key == "inlineData" else ""
            return Part(pointer, "media", data, text_of(field(held, "mimeType")))
    return Part(pointer, "other", said(part))


def _recurs(schema: JsonObject | None) -> bool:
    """Whether a definition of the schema names itself, directly or through others."""
    definitions = object_of((schema or {}).get("$defs"))
    names = {name: set(_REFERENCE.findall(said(held))) for name, held in definitions.items()}
    reached = dict(names)
    for _ in names:
        for name, held in reached.items():
            reached[name] = held.union(*(names.get(each, set()) for each in held))
    return any(name in held for name, held in reached.items())


def _system(value: Json) -> list[str]:
    parts = list_of(value.get("parts")) if isinstance(value, dict) else list_of(value)
    return [text_of(part.get("text") if isinstance(part, dict) else part) for part in parts]


def _declared(declaration: JsonObject) -> Declared:
    schema = next((found for key in _SCHEMAS if (found := field(declaration, key))), None)
    return Declared(
        text_of(declaration.get("name")),
        text_of(declaration.get("description")),
        object_of(schema) or None,
    )


READER = Reader("contents", head, turn, merges=True)
