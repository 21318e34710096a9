"""Read a Gemini generateContent request; it takes camelCase names and snake_case ones."""

import re

import msgspec

from weft.content import FunctionResponse, Part
from weft.dialects.lift.gemini import part_of
from weft.dialects.read.pieces import (
    Given,
    GivenOutput,
    GivenTool,
    Reading,
    Turn,
    field,
    illegible,
    objects,
    string,
    take,
    thinking,
)
from weft.ir import Role
from weft.values import Json, JsonObject

_CONFIG = "generationConfig"
_NAMES = {
    "temperature": f"{_CONFIG}.temperature",
    "top_p": f"{_CONFIG}.topP",
    "top_k": f"{_CONFIG}.topK",
    "max_output_tokens": f"{_CONFIG}.maxOutputTokens",
    "stop_sequences": f"{_CONFIG}.stopSequences",
    "seed": f"{_CONFIG}.seed",
    "presence_penalty": f"{_CONFIG}.presencePenalty",
    "frequency_penalty": f"{_CONFIG}.frequencyPenalty",
    "service_tier": "serviceTier",
}
_MODES = {"AUTO": "auto", "ANY": "any", "NONE": "none"}
_PARTS = {
    "text", "thought", "thoughtSignature", "functionCall", "functionResponse", "inlineData",
    "fileData", "executableCode", "codeExecutionResult", "toolCall", "toolResponse",
}  # fmt: skip
_FOREIGN_WORDS = {
    "args", "response", "labels", "parameters", "parametersJsonSchema", "responseJsonSchema",
    "responseSchema",
}  # fmt: skip
"""Fields whose keys are the caller's own."""
_KINDS = {
    "OBJECT": "object", "ARRAY": "array", "STRING": "string", "NUMBER": "number",
    "INTEGER": "integer", "BOOLEAN": "boolean", "NULL": "null",
}  # fmt: skip


def read(wire: JsonObject) -> Reading:
    """System, turns, tools, schema and options of a request."""
    system = _content(wire.get("systemInstruction"))
    output = _output(wire)
    places = ["contents", "systemInstruction", "tools"]
    if output is not None:
        places += [f"{_CONFIG}.{name}" for name in ("responseMimeType", "responseJsonSchema")]
        places.append(f"{_CONFIG}.responseSchema")
    apart = len(system) > 1
    tools = objects(wire.get("tools"), "tools")
    return Reading(
        system=tuple(Given(_part(part), part, apart) for part in system),
        turns=tuple(
            _turn(content, f"contents/{index}")
            for index, content in enumerate(objects(wire.get("contents"), "contents"))
        ),
        tools=tuple(each for tool in tools for each in _tools(tool)),
        output=output,
        config=_config(wire),
        places=tuple(places),
    )


def spelled(wire: JsonObject) -> JsonObject:
    """The request with every name of the provider's in camelCase."""
    return {_camel(key): _spelled(value, _camel(key)) for key, value in wire.items()}


def _spelled(value: Json, key: str) -> Json:
    if key in _FOREIGN_WORDS:
        return value
    if isinstance(value, dict):
        return spelled(value)
    return [_spelled(each, "") for each in value] if isinstance(value, list) else value


def _camel(name: str) -> str:
    return re.sub(r"(?<=[a-z0-9])_([a-z0-9])", lambda found: found[1].upper(), name)


def _content(content: Json) -> list[JsonObject]:
    """The parts of a content, which may be only its text."""
    if isinstance(content, str):
        return [{"text": content}]
    if isinstance(content, dict) and "parts" in content:
        return objects(content["parts"], "parts")
    return objects(content, "parts")


def _turn(content: JsonObject, where: str) -> Turn:
    role = str(content.get("role") or "user")
    sides: dict[str, Role] = {"user": "user", "model": "model", "function": "user"}
    if role not in sides:
        raise illegible(f"{role!r} is no role", f"{where}/role")
    parts = objects(content.get("parts"), f"{where}/parts")
    read_one = part_of if role == "model" else _part
    return Turn(sides[role], tuple(Given(read_one(part), part) for part in parts))


def _part(part: JsonObject) -> Part:
    known = {key: value for key, value in part.items() if key in _PARTS}
    try:
        read_one = msgspec.convert(known, Part)
        for shown in (read_one.function_response or FunctionResponse()).parts or ():
            msgspec.convert(shown, Part)
    except msgspec.ValidationError:
        return Part()
    return read_one


def _tools(tool: JsonObject) -> list[GivenTool]:
    """The functions of an entry, and what else stands in it: a tool of the provider's own."""
    found: list[GivenTool] = []
    for declared in objects(tool.get("functionDeclarations"), "functionDeclarations"):
        schema = declared.get("parametersJsonSchema", _plain(declared.get("parameters")))
        held: JsonObject = schema if isinstance(schema, dict) else {}
        held = held or {"type": "object", "properties": {}}
        name, about = string(declared, "name"), string(declared, "description")
        found.append(GivenTool(declared, name, about, held))
    own = {key: value for key, value in tool.items() if key != "functionDeclarations"}
    if own or not found:
        found.append(GivenTool(own, next(iter(own), ""), own=True))
    return found


def _output(wire: JsonObject) -> GivenOutput | None:
    config = wire.get(_CONFIG)
    if not isinstance(config, dict) or config.get("responseMimeType") != "application/json":
        return None
    schema = config.get("responseJsonSchema")
    if isinstance(schema, dict):
        return GivenOutput(schema, "answer", {})
    typed = config.get("responseSchema")
    plain = _plain(typed)
    if not isinstance(plain, dict):
        return None
    kept: JsonObject = {"responseJsonSchema": None, "responseSchema": typed}
    return GivenOutput(plain, "answer", kept)


def _plain(schema: Json) -> Json:
    """The provider's own form of a schema as JSON Schema."""
    if isinstance(schema, list):
        return [_plain(each) for each in schema]
    if not isinstance(schema, dict):
        return schema
    plain: JsonObject = {}
    for key, value in schema.items():
        name = _camel(key)
        if name == "type":
            plain[name] = _KINDS.get(str(value), value)
        elif name == "properties" and isinstance(value, dict):
            plain[name] = {each: _plain(held) for each, held in value.items()}
        elif name in ("items", "anyOf", "prefixItems", "additionalProperties"):
            plain[name] = _plain(value)
        elif name not in ("nullable", "propertyOrdering"):
            plain[name] = value
    if schema.get("nullable") is True:
        return {"anyOf": [plain, {"type": "null"}]}
    return plain


def _config(wire: JsonObject) -> JsonObject:
    config = take(wire, _NAMES)
    thought = f"{_CONFIG}.thinkingConfig"
    level = field(wire, f"{thought}.thinkingLevel")
    config |= thinking(
        budget=field(wire, f"{thought}.thinkingBudget"),
        effort=level.lower() if isinstance(level, str) else None,
        include=field(wire, f"{thought}.includeThoughts"),
    )
    if field(wire, f"{_CONFIG}.responseLogprobs") is True:
        count = field(wire, f"{_CONFIG}.logprobs")
        config["logprobs"] = count if isinstance(count, int) else True
    calling = field(wire, "toolConfig.functionCallingConfig")
    if isinstance(calling, dict):
        mode, names = calling.get("mode"), calling.get("allowedFunctionNames")
        if mode == "ANY" and isinstance(names, list) and len(names) == 1:
            config["tool_choice"] = {"name": names[0]}
        elif isinstance(mode, str) and mode in _MODES:
            config["tool_choice"] = _MODES[mode]
    return config
