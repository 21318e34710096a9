"""The request as the engine gets it, and the answer as everybody else gives it.

Weights whose template has a place for tools get the request as it is. The templates of small
ones drop tools without a word. For them the tools stand in the system text, once and for all
turns; a call is JSON under a schema, and stands in the history exactly as it was made. So what
was read once is never read again.
"""

import re
from collections.abc import Mapping
from typing import NamedTuple

import msgspec

from weft.models.local_schema import bounded, call_schema, grammar, reply_schema
from weft.models.local_words import PROSE, grounded
from weft.values import Json, JsonObject, compact

_CALLS = ("tools", "tool_choice", "parallel_tool_calls", "response_format")
_HEADING = "Tools:"
_BEGINS = ("{", "`")
_FENCED = re.compile(r"```(?:json)?\s*(.*?)\s*```", re.DOTALL)
_ASKED = "Tell me the result."
_VARIED: JsonObject = {"repeat_penalty": 1.1, "dry_multiplier": 0.8, "dry_allowed_length": 3}
"""What keeps a small model from saying one sentence again and again, once it has begun to.

Only plain text gets it: a call must repeat names, and a result its own words.
"""


class Request(NamedTuple):
    """What the engine is asked; `calls` are the tools an answer may call in its text, as JSON.

    Where it is `held` to that by a grammar, the text is nothing else.
    """

    body: JsonObject
    calls: tuple[str, ...] = ()
    held: bool = False

    def shows(self, text: str) -> bool:
        """Whether an answer that begins so can be shown as it comes, and is no call."""
        return not self.calls or (not self.held and not text.lstrip().startswith(_BEGINS))

    def read(self, body: JsonObject) -> JsonObject:
        """The answer with its calls where calls belong."""
        return _with_calls(body, self.calls, held=self.held) if self.calls else body


def request_for(wire: JsonObject, *, takes_tools: bool, limit: int) -> Request:
    """What the engine is asked: the wire, streamed, greedy and bounded unless it says otherwise."""
    base: JsonObject = {
        "temperature": 0,
        "max_tokens": limit,
        **{key: value for key, value in wire.items() if key != "model"},
        "stream": True,
        "stream_options": {"include_usage": True},
        "return_progress": True,
    }
    tools = [_function(tool) for tool in objects(wire.get("tools"))]
    if not tools and wire.get("response_format") is None:
        base = {**_VARIED, **base}
    if takes_tools:
        return Request(_bounded_format(base), _names(tools))
    messages = objects(wire.get("messages"))
    body: JsonObject = {key: value for key, value in base.items() if key not in _CALLS}
    body["messages"] = _plain(messages, tools)
    allowed, may_reply = _allowed(wire.get("tool_choice"), tools)
    if allowed:
        said, before = _said(messages), _arguments(messages)
        schemas = [call_schema(tool, said, before) for tool in allowed]
        if may_reply:
            schemas.append(reply_schema())
        chosen: Json = schemas[0] if len(schemas) == 1 else {"anyOf": schemas}
        body["grammar"] = grammar(chosen) if isinstance(chosen, dict) else ""
        return Request(body, _names(allowed), held=True)
    schema = _answer_schema(wire)
    if schema is not None:
        body["grammar"] = grammar(schema)
    elif tools:
        result = _result(messages)
        body["grammar"] = grounded(result, _said(messages)) if result else PROSE
        body = body if result else {**_VARIED, **body}
    return Request(body)


def _names(tools: list[JsonObject]) -> tuple[str, ...]:
    return tuple(_text(tool.get("name")) for tool in tools)


def _allowed(choice: Json, tools: list[JsonObject]) -> tuple[list[JsonObject], bool]:
    """The tools that may be called now, and whether the answer may be something else."""
    if choice == "none":
        return [], True
    if isinstance(choice, dict):
        held = choice.get("function")
        name = held.get("name") if isinstance(held, dict) else None
        return [tool for tool in tools if tool.get("name") == name], False
    return tools, choice != "required"


def _bounded_format(body: JsonObject) -> JsonObject:
    """The body with an end to every text in the answer's schema."""
    held = body.get("response_format")
    inner = held.get("json_schema") if isinstance(held, dict) else None
    if not isinstance(held, dict) or not isinstance(inner, dict):
        return body
    schema: JsonObject = {**inner, "schema": bounded(inner.get("schema"))}
    return {**body, "response_format": {**held, "json_schema": schema}}


def _answer_schema(wire: JsonObject) -> JsonObject | None:
    held = wire.get("response_format")
    if not isinstance(held, dict):
        return None
    if held.get("type") == "json_object":
        return {"type": "object"}
    inner = held.get("json_schema")
    schema = bounded(inner.get("schema")) if isinstance(inner, dict) else None
    return schema if isinstance(schema, dict) else None


def _plain(messages: list[JsonObject], tools: list[JsonObject]) -> list[Json]:
    """The turns as text only: tools in the system text, calls and results as what was said."""
    turns: list[Json] = []
    names: dict[str, str] = {}
    lines = [_HEADING, *map(_line, tools)] if tools else []
    first = bool(messages) and messages[0].get("role") in ("system", "developer")
    if lines and not first:
        turns.append({"role": "system", "content": "\n".join(lines)})
    for index, message in enumerate(messages):
        role, text = message.get("role"), _words(message.get("content"))
        if index == 0 and first and lines:
            text = "\n".join((text, "", *lines))
        calls = [_function(call) | {"id": call.get("id")} for call in _calls(message)]
        for call in calls:
            names[_text(call.get("id"))] = _text(call.get("name"))
            text = f"{text}\n{_spelled(call)}" if text else _spelled(call)
        if role == "tool":
            called = names.get(_text(message.get("tool_call_id")), "the tool")
            said = f"{called} returned: {_flat(text)}\n{_ASKED}"
            turns.append({"role": "user", "content": said})
        else:
            spoken = "system" if role == "developer" else role
            turns.append({"role": spoken, "content": text})
    return turns


def _flat(text: str) -> str:
    """A result in words: the fields of an object as a list, which it reads better than JSON."""
    held = _decoded(text)
    told = [
        f"{key}: {value if isinstance(value, str) else compact(value)}"
        for key, value in held.items()
    ]
    return ", ".join(told) or text


def _line(tool: JsonObject) -> str:
    """A tool in one line: no examples, which a small model would copy."""
    schema = tool.get("parameters")
    properties = schema.get("properties") if isinstance(schema, dict) else None
    names = ", ".join(properties) if isinstance(properties, dict) else ""
    about = " ".join(_text(tool.get("description")).split())
    return f"{_text(tool.get('name'))}({names}): {about}"


def _spelled(call: JsonObject) -> str:
    """A call as the grammar spells it."""
    arguments = _text(call.get("arguments")) or "{}"
    return f'{{"name":{compact(_text(call.get("name")))},"arguments":{arguments}}}'


def _said(messages: list[JsonObject]) -> str:
    """What the user said last."""
    said = [_words(each.get("content")) for each in messages if each.get("role") == "user"]
    return said[-1] if said else ""


def _result(messages: list[JsonObject]) -> str:
    """What the calls returned that are to be told now; "" where there are none."""
    last = len(messages)
    while last and messages[last - 1].get("role") == "tool":
        last -= 1
    return "\n".join(_flat(_words(each.get("content"))) for each in messages[last:])


def _arguments(messages: list[JsonObject]) -> Mapping[str, list[Json]]:
    """What earlier calls were given, by the argument's name, the newest first."""
    found: dict[str, list[Json]] = {}
    for message in reversed(messages):
        for call in _calls(message):
            for name, value in _decoded(_text(_function(call).get("arguments"))).items():
                found.setdefault(name, []).append(value)
    return found


def _with_calls(body: JsonObject, allowed: tuple[str, ...], *, held: bool) -> JsonObject:
    """The answer with the call in its own place, where its text is a call in JSON."""
    choices = objects(body.get("choices"))
    message = choices[0].get("message") if choices else None
    if not isinstance(message, dict):
        return body
    text = _text(message.get("content"))
    spelled = _decoded(_unfenced(text))
    name, arguments = spelled.get("name"), spelled.get("arguments")
    said: JsonObject
    if isinstance(name, str) and isinstance(arguments, dict) and name in allowed:
        said = _calling(body, name, compact(arguments))
    elif not held:
        return body
    elif isinstance(reply := spelled.get("reply"), str):
        said = {"content": reply}
    elif len(allowed) == 1 and text:
        said = _calling(body, allowed[0], text)  # cut off: the runtime tells the model so
    else:
        return body
    choice: JsonObject = {**choices[0], "message": {**message, **said}}
    if "tool_calls" in said and choice.get("finish_reason") == "stop":
        choice["finish_reason"] = "tool_calls"
    return {**body, "choices": [choice, *choices[1:]]}


def _unfenced(text: str) -> str:
    """What stands between the fences that models like to put around JSON."""
    fenced = _FENCED.fullmatch(text.strip())
    return fenced[1] if fenced is not None else text


def _calling(body: JsonObject, name: str, arguments: str) -> JsonObject:
    identity = f"call_{_text(body.get('id')).rpartition('-')[2][:24]}"
    function: JsonObject = {"name": name, "arguments": arguments}
    return {
        "content": None,
        "tool_calls": [{"id": identity, "type": "function", "function": function}],
    }


def _decoded(text: str) -> JsonObject:
    try:
        value: Json = msgspec.json.decode(text)
    except (msgspec.DecodeError, UnicodeEncodeError):
        return {}
    return value if isinstance(value, dict) else {}


def _calls(message: JsonObject) -> list[JsonObject]:
    return objects(message.get("tool_calls"))


def _function(held: JsonObject) -> JsonObject:
    function = held.get("function")
    return function if isinstance(function, dict) else {}


def objects(held: Json) -> list[JsonObject]:
    """The objects in a list; none where it is no list."""
    return [each for each in held if isinstance(each, dict)] if isinstance(held, list) else []


def _words(content: Json) -> str:
    """A content's text: itself, or its parts' that are text."""
    if isinstance(content, list):
        return "\n".join(_text(part.get("text")) for part in objects(content))
    return _text(content)


def _text(held: Json) -> str:
    return held if isinstance(held, str) else ""
