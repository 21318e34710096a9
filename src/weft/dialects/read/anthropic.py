"""Read an Anthropic Messages request."""

from weft.content import Part
from weft.dialects.lift.anthropic import part_of
from weft.dialects.read.pieces import (
    Given,
    GivenOutput,
    GivenTool,
    Reading,
    Turn,
    field,
    illegible,
    inline,
    linked,
    objects,
    response,
    result,
    string,
    take,
    text_document,
    text_of,
    thinking,
)
from weft.ir import Role
from weft.values import Json, JsonObject

_ROLES: dict[str, Role] = {"user": "user", "assistant": "model", "system": "system"}
_NAMES = {
    "temperature": "temperature",
    "top_p": "top_p",
    "top_k": "top_k",
    "max_output_tokens": "max_tokens",
    "stop_sequences": "stop_sequences",
    "service_tier": "service_tier",
    "user": "metadata.user_id",
}
_CHOICES = {"auto": "auto", "any": "any", "none": "none"}
_SHOWN = {"summarized": True, "omitted": False}


def read(wire: JsonObject) -> Reading:
    """System, turns, tools, schema and options of a request."""
    calls: dict[str, str] = {}
    turns = [
        _turn(message, f"messages/{index}", calls)
        for index, message in enumerate(objects(wire.get("messages"), "messages"))
    ]
    return Reading(
        system=_system(wire.get("system")),
        turns=tuple(turns),
        tools=tuple(_tool(tool) for tool in objects(wire.get("tools"), "tools")),
        output=_output(field(wire, "output_config.format")),
        config=_config(wire),
        places=("messages", "system", "tools", "output_config.format"),
    )


def _system(value: Json) -> tuple[Given, ...]:
    if isinstance(value, str):
        return (Given(Part(text=value), {"type": "text", "text": value}),) if value else ()
    blocks = objects(value, "system")
    apart = len(blocks) > 1
    return tuple(Given(Part(text=string(block, "text")), block, apart) for block in blocks)


def _turn(message: JsonObject, where: str, calls: dict[str, str]) -> Turn:
    role = _ROLES.get(string(message, "role"))
    if role is None:
        raise illegible(f"{message.get('role')!r} is no role", f"{where}/role")
    content = message.get("content")
    said: Json = {"type": "text", "text": content} if isinstance(content, str) else content
    blocks = objects(said, f"{where}/content")
    if role != "model":
        return Turn(role, tuple(Given(_part(block, calls), block) for block in blocks))
    calls |= {string(block, "id"): string(block, "name") for block in blocks if "id" in block}
    return Turn(role, tuple(Given(part_of(block), block) for block in blocks))


def _part(block: JsonObject, calls: dict[str, str]) -> Part:
    match block.get("type"):
        case "text":
            return Part(text=string(block, "text"))
        case "tool_result":
            return _result(block, calls)
        case _:
            return _media(block) or Part()


def _result(block: JsonObject, calls: dict[str, str]) -> Part:
    content = block.get("content")
    said = response(text_of(content, "text"), failed=block.get("is_error") is True)
    parts = content if isinstance(content, list) else []
    shown = [_media(part) for part in parts if isinstance(part, dict)]
    call_id = string(block, "tool_use_id")
    name = calls.get(call_id, "")
    return result(call_id, name, said, [part for part in shown if part is not None])


def _media(block: JsonObject) -> Part | None:
    """An image or a document, but for one that only the provider's store holds."""
    kind, source = block.get("type"), block.get("source")
    if kind not in ("image", "document") or not isinstance(source, dict):
        return None
    name, data = string(block, "title"), string(source, "data")
    match source.get("type"):
        case "base64":
            return inline(string(source, "media_type"), data, name)
        case "url":
            otherwise = "image/jpeg" if kind == "image" else "application/pdf"
            return linked(string(source, "url"), otherwise, name)
        case "text":
            return text_document(data, name)
        case _:
            return None


def _tool(tool: JsonObject) -> GivenTool:
    name, schema = string(tool, "name"), tool.get("input_schema")
    if tool.get("type", "custom") == "custom" and isinstance(schema, dict):
        return GivenTool(tool, name, string(tool, "description"), schema)
    return GivenTool(tool, name or string(tool, "type"), own=True)


def _output(form: Json) -> GivenOutput | None:
    if not isinstance(form, dict) or form.get("type") != "json_schema":
        return None
    schema = form.get("schema")
    beside = {key: value for key, value in form.items() if key not in ("type", "schema")}
    return GivenOutput(schema, "answer", beside) if isinstance(schema, dict) else None


def _config(wire: JsonObject) -> JsonObject:
    config = take(wire, _NAMES)
    thought = wire.get("thinking")
    budget: Json = None
    shown: Json = None
    if isinstance(thought, dict):
        budget = {"disabled": 0, "adaptive": -1}.get(string(thought, "type"))
        if thought.get("type") == "enabled":
            budget = thought.get("budget_tokens")
        shown = _SHOWN.get(string(thought, "display"))
    effort = field(wire, "output_config.effort")
    config |= thinking(budget=budget, effort=effort, include=shown)
    choice = wire.get("tool_choice")
    if isinstance(choice, dict):
        kind = string(choice, "type")
        if kind in _CHOICES:
            config["tool_choice"] = _CHOICES[kind]
        elif kind == "tool":
            config["tool_choice"] = {"name": choice.get("name")}
        if isinstance(alone := choice.get("disable_parallel_tool_use"), bool):
            config["parallel_tool_calls"] = not alone
    return config
