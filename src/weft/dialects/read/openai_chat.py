"""Read an OpenAI Chat Completions request."""

from itertools import takewhile

from weft.content import Part, opaque_part
from weft.dialects.lift.openai import called
from weft.dialects.lift.openai_chat import message_parts
from weft.dialects.read.openai import choice, output
from weft.dialects.read.pieces import (
    Given,
    GivenTool,
    Reading,
    Turn,
    field,
    inline,
    linked,
    objects,
    response,
    result,
    string,
    take,
    text_of,
    thinking,
)
from weft.values import Json, JsonObject

_NAME = "openai-chat"
_NAMES = {
    "temperature": "temperature",
    "top_p": "top_p",
    "stop_sequences": "stop",
    "seed": "seed",
    "presence_penalty": "presence_penalty",
    "frequency_penalty": "frequency_penalty",
    "parallel_tool_calls": "parallel_tool_calls",
    "service_tier": "service_tier",
    "user": "user",
}
_ANSWERED = ("refusal", "audio", "reasoning_content", "reasoning", "reasoning_details")
_SYSTEM = ("system", "developer")
_AUDIO = {"wav": "audio/wav", "mp3": "audio/mpeg"}


def read(wire: JsonObject) -> Reading:
    """System, turns, tools, schema and options of a request."""
    messages = objects(wire.get("messages"), "messages")
    leading = list(takewhile(_is_system, messages))
    apart = len(leading) > 1
    calls: dict[str, str] = {}
    return Reading(
        system=tuple(Given(_system(message), message, apart) for message in leading),
        turns=tuple(_turn(message, calls) for message in messages[len(leading) :]),
        tools=tuple(_tool(tool) for tool in objects(wire.get("tools"), "tools")),
        output=output(field(wire, "response_format.json_schema")),
        config=_config(wire),
        places=("messages", "tools", "response_format.json_schema"),
    )


def _is_system(message: JsonObject) -> bool:
    return message.get("role") in _SYSTEM and bool(text_of(message.get("content"), "text"))


def _system(message: JsonObject) -> Part:
    return Part(text=text_of(message.get("content"), "text"))


def _turn(message: JsonObject, calls: dict[str, str]) -> Turn:
    match message.get("role"):
        case "system" | "developer":
            return Turn("system", (Given(_system(message), message),))
        case "user":
            return Turn("user", (*_said(message), *_fields(message, "role", "content")))
        case "assistant":
            return Turn("model", _answer(message, calls))
        case "tool":
            call_id = string(message, "tool_call_id")
            said = response(text_of(message.get("content"), "text"))
            part = result(call_id, calls.get(call_id, ""), said)
            return Turn("user", (Given(part, message),))
        case _:
            return Turn("user", (Given(opaque_part(_NAME, message), message),))


def _said(message: JsonObject) -> tuple[Given, ...]:
    content = message.get("content")
    if isinstance(content, str):
        text: JsonObject = {"type": "text", "text": content}
        return (Given(Part(text=content), text),)
    parts = objects(content, "content")
    apart = len(parts) > 1
    return tuple(Given(_part(part), part, apart) for part in parts)


def _answer(message: JsonObject, calls: dict[str, str]) -> tuple[Given, ...]:
    """What the model said and called; its other fields belong to the message."""
    asked = objects(message.get("tool_calls"), "tool_calls")
    for each in asked:
        function = each.get("function", each.get("custom"))
        calls[string(each, "id")] = string(function, "name") if isinstance(function, dict) else ""
    own = any(message.get(key) for key in _ANSWERED)
    if own or any(not isinstance(each.get("function"), dict) for each in asked):
        blank = _fields({"content": ""}) if message.get("content") == "" else ()
        return (*(Given(part, None) for part in message_parts(message)), *blank)
    made: list[Given] = []
    for each in asked:
        call_id, function = string(each, "id"), each["function"]
        assert isinstance(function, dict)
        text = function.get("arguments")
        made.append(Given(called(_NAME, call_id, calls[call_id], text, {}), each))
    known = ["role", "tool_calls"]
    said: tuple[Given, ...] = ()
    if message.get("content"):
        said = _said(message)
        known.append("content")
    return (*said, *made, *_fields(message, *known))


def _fields(message: JsonObject, *known: str) -> tuple[Given, ...]:
    """The fields of a message that are none of its parts."""
    own: JsonObject = {
        key: value for key, value in message.items() if key not in known and value is not None
    }
    return (Given(opaque_part(_NAME, own), own),) if own else ()


def _part(part: JsonObject) -> Part:
    match part.get("type"):
        case "text":
            return Part(text=string(part, "text"))
        case "image_url" if isinstance(image := part.get("image_url"), dict):
            return linked(string(image, "url"), "image/jpeg")
        case "input_audio" if isinstance(sound := part.get("input_audio"), dict):
            form = string(sound, "format")
            return inline(_AUDIO.get(form, f"audio/{form}"), string(sound, "data"))
        case "file" if isinstance(file := part.get("file"), dict) and "file_data" in file:
            return linked(string(file, "file_data"), "application/pdf", string(file, "filename"))
        case _:
            return Part()


def _tool(tool: JsonObject) -> GivenTool:
    function = tool.get("function")
    if not isinstance(function, dict):
        return GivenTool(tool, string(tool, "type"), own=True)
    name, schema = string(function, "name"), function.get("parameters")
    held: JsonObject = schema if isinstance(schema, dict) else {"type": "object", "properties": {}}
    return GivenTool(tool, name, string(function, "description"), held)


def _config(wire: JsonObject) -> JsonObject:
    config = take(wire, _NAMES)
    if isinstance(config.get("stop_sequences"), str):
        del config["stop_sequences"]
    limit = wire.get("max_completion_tokens", wire.get("max_tokens"))
    if isinstance(limit, int):
        config["max_output_tokens"] = limit
    config |= thinking(effort=wire.get("reasoning_effort"))
    config |= choice(wire.get("tool_choice"), field(wire, "tool_choice.function.name"))
    probable: Json = wire.get("top_logprobs")
    if wire.get("logprobs") is not None:
        config["logprobs"] = probable if isinstance(probable, int) else wire["logprobs"]
    return config
