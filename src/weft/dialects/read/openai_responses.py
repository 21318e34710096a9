"""Read an OpenAI Responses request."""

from weft.content import Part, opaque_part
from weft.dialects.lift.openai import called
from weft.dialects.lift.openai_responses import item_parts
from weft.dialects.read.openai import choice, output
from weft.dialects.read.pieces import (
    Given,
    GivenTool,
    Reading,
    Turn,
    field,
    linked,
    objects,
    response,
    result,
    string,
    take,
    text_of,
    thinking,
)
from weft.ir import Role
from weft.values import Json, JsonObject

_NAME = "openai-responses"
_NAMES = {
    "temperature": "temperature",
    "top_p": "top_p",
    "max_output_tokens": "max_output_tokens",
    "parallel_tool_calls": "parallel_tool_calls",
    "service_tier": "service_tier",
    "user": "user",
}
_LOGPROBS = "message.output_text.logprobs"


def read(wire: JsonObject) -> Reading:
    """System, turns, tools, schema and options of a request."""
    held = wire.get("input")
    said: Json = {"role": "user", "content": held} if isinstance(held, str) else held
    calls: dict[str, str] = {}
    turns = _joined([_turn(item, calls) for item in objects(said, "input")])
    instructions = string(wire, "instructions")
    text: JsonObject = {"role": "system", "content": instructions}
    system = (Given(Part(text=instructions), text),) if instructions else ()
    return Reading(
        system=system,
        turns=tuple(turns),
        tools=tuple(_tool(tool) for tool in objects(wire.get("tools"), "tools")),
        output=output(field(wire, "text.format")),
        config=_config(wire),
        places=("input", "tools", *(["text.format"] if _has_schema(wire) else []))
        + (("instructions",) if instructions else ()),
    )


def _has_schema(wire: JsonObject) -> bool:
    return field(wire, "text.format.type") == "json_schema"


def _turn(item: JsonObject, calls: dict[str, str]) -> Turn:
    match item.get("type", "message"):
        case "message":
            return _message(item)
        case "function_call":
            call_id = string(item, "call_id")
            calls[call_id] = name = string(item, "name")
            part = called(_NAME, call_id, name, item.get("arguments"), {})
            return Turn("model", (Given(part, item),))
        case "function_call_output":
            call_id = string(item, "call_id")
            return Turn("user", (Given(_result(item, call_id, calls), item),))
        case "reasoning":
            return Turn("model", tuple(Given(part, item) for part in item_parts(item)))
        case _:
            side: Role = "user" if "role" in item else "model"
            return Turn(side, (Given(opaque_part(_NAME, item), item),))


def _joined(turns: list[Turn]) -> list[Turn]:
    """The turns, those of one answer in one: its reasoning stands with what it led to."""
    joined: list[Turn] = []
    for turn in turns:
        if joined and joined[-1].role == turn.role == "model":
            joined[-1] = Turn("model", joined[-1].parts + turn.parts)
        else:
            joined.append(turn)
    return joined


def _message(item: JsonObject) -> Turn:
    role, content = item.get("role"), item.get("content")
    plain = item.keys() <= {"type", "role", "content"}
    if role in ("system", "developer") and text_of(content, "input_text"):
        return Turn("system", (Given(Part(text=text_of(content, "input_text")), item),))
    if role == "assistant" and isinstance(content, str) and content:
        if plain:
            return Turn("model", (Given(Part(text=content), None),))
    elif role == "assistant":
        said = item_parts({"type": "message", **item})
        return Turn("model", tuple(Given(part, None) for part in said))
    if role == "user" and plain and content:
        text: Json = {"type": "input_text", "text": content}
        parts = objects(text if isinstance(content, str) else content, "content")
        return Turn("user", tuple(Given(_part(part), part) for part in parts))
    side: Role = "model" if role == "assistant" else "user"
    return Turn(side, (Given(opaque_part(_NAME, item), item),))


def _result(item: JsonObject, call_id: str, calls: dict[str, str]) -> Part:
    held = item.get("output")
    parts = held if isinstance(held, list) else []
    shown = [_part(part) for part in parts if isinstance(part, dict)]
    media = [part for part in shown if part.kind == "media"]
    return result(call_id, calls.get(call_id, ""), response(text_of(held, "input_text")), media)


def _part(part: JsonObject) -> Part:
    match part.get("type"):
        case "input_text":
            return Part(text=string(part, "text"))
        case "input_image" if part.get("image_url"):
            return linked(string(part, "image_url"), "image/jpeg")
        case "input_file" if part.get("file_data"):
            name = string(part, "filename")
            return linked(string(part, "file_data"), "application/pdf", name)
        case "input_file" if part.get("file_url"):
            return linked(string(part, "file_url"), "application/pdf")
        case _:
            return Part()


def _tool(tool: JsonObject) -> GivenTool:
    name = string(tool, "name")
    if tool.get("type") != "function":
        return GivenTool(tool, name or string(tool, "type"), own=True)
    schema = tool.get("parameters")
    held: JsonObject = schema if isinstance(schema, dict) else {"type": "object", "properties": {}}
    return GivenTool(tool, name, string(tool, "description"), held)


def _config(wire: JsonObject) -> JsonObject:
    config = take(wire, _NAMES)
    shown = True if field(wire, "reasoning.summary") is not None else None
    config |= thinking(effort=field(wire, "reasoning.effort"), include=shown)
    config |= choice(wire.get("tool_choice"), _named(wire.get("tool_choice")))
    include = wire.get("include")
    if isinstance(include, list) and _LOGPROBS in include:
        probable = wire.get("top_logprobs")
        config["logprobs"] = probable if isinstance(probable, int) else True
    return config


def _named(value: Json) -> Json:
    """The function that must be called; `allowed_tools` and the like are options of their own."""
    if isinstance(value, dict) and value.get("type") == "function":
        return value.get("name")
    return None
