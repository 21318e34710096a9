"""The request as the engine gets it, and the answer as every other model gives it.

Weights whose template has a place for tools get the request as it is. The templates of small
models drop tools silently. For them the tools stand in the system text. A call is JSON under the
schema of its tool, and stands in the history exactly as the model wrote it. So the engine never
reads the same text twice.
"""

import re
from typing import NamedTuple

import msgspec

from weft.values import Json, JsonObject, compact

_CALL_FIELDS = ("tools", "tool_choice", "parallel_tool_calls", "response_format")
_HEADING = "Tools:"
_JSON_BEGINS = ("{", "`")
_FENCED = re.compile(r"```(?:json)?\s*(.*?)\s*```", re.DOTALL)
_RESULT_QUESTION = "Answer in one sentence."
_VARIED: JsonObject = {"repeat_penalty": 1.1, "dry_multiplier": 0.8, "dry_allowed_length": 3}
"""Settings that keep a small model from repeating one sentence without end.

Only plain text gets them: a call must repeat names, and a result its own words.
"""
_PROSE = r"root ::= [^{\[] [^{]*"
"""The grammar of text that is no call: a small model repeats the calls it has seen."""
_SENTENCE = r'root ::= [A-Z] [^{"\n]* [.!]'
"""The grammar of what a small model says about a result: without it, the model finds no end."""
_LONGEST_TEXT = 400
_MOST_ITEMS = 8
_NOTES = ("description", "title", "examples", "default")
"""Keywords that constrain nothing. A small model copies examples out of them."""
_GRAMMAR = "%llguidance {}\nstart: %json "
_SPELLING: JsonObject = {
    "whitespace_flexible": False,
    "item_separator": ",",
    "key_separator": ":",
    "lenient": True,
}
"""JSON without spaces, as it stands in the history: so that no call is read twice."""


class ChatRequest(NamedTuple):
    """The engine's request. `calls` are the tools that an answer may call in its text, as JSON."""

    body: JsonObject
    calls: tuple[str, ...] = ()
    by_grammar: bool = False
    """Whether a grammar allows nothing but a call or a reply in JSON."""

    def shows(self, text: str) -> bool:
        """Whether an answer that begins so can be streamed: it is no call."""
        return not self.calls or (
            not self.by_grammar and not text.lstrip().startswith(_JSON_BEGINS)
        )

    def read(self, body: JsonObject) -> JsonObject:
        """The answer with its calls where calls belong."""
        return _with_calls(body, self.calls, by_grammar=self.by_grammar) if self.calls else body


def request_for(wire: JsonObject, *, takes_tools: bool, limit: int) -> ChatRequest:
    """The engine's request: streamed, and greedy and bounded unless the wire says otherwise."""
    base: JsonObject = {
        "temperature": 0,
        "max_tokens": limit,
        **{key: value for key, value in wire.items() if key != "model"},
        "stream": True,
        "stream_options": {"include_usage": True},
        # pieces come while the request is still read, so it can be stopped then
        "return_progress": True,
    }
    tools = [_function(tool) for tool in objects(wire.get("tools"))]
    if not tools and wire.get("response_format") is None:
        base = {**_VARIED, **base}
    if takes_tools:
        return ChatRequest(_bounded_format(base), _names(tools))
    messages = objects(wire.get("messages"))
    body: JsonObject = {key: value for key, value in base.items() if key not in _CALL_FIELDS}
    body["messages"] = _plain(messages, tools)
    allowed, may_reply = _allowed(wire.get("tool_choice"), tools)
    if allowed:
        schemas = [call_schema(tool) for tool in allowed]
        if may_reply:
            schemas.append(_reply_schema())
        chosen: JsonObject = schemas[0] if len(schemas) == 1 else {"anyOf": [*schemas]}
        body["grammar"] = _grammar(chosen)
        return ChatRequest(body, _names(allowed), by_grammar=True)
    schema = _answer_schema(wire)
    if schema is not None:
        body["grammar"] = _grammar(schema)
    elif tools:
        tells_result = bool(messages) and messages[-1].get("role") == "tool"
        body["grammar"] = _SENTENCE if tells_result else _PROSE
        body = body if tells_result else {**_VARIED, **body}
    return ChatRequest(body)


def _names(tools: list[JsonObject]) -> tuple[str, ...]:
    return tuple(_text(tool.get("name")) for tool in tools)


def _allowed(choice: Json, tools: list[JsonObject]) -> tuple[list[JsonObject], bool]:
    """The tools that may be called now, and whether the answer may be something else."""
    if choice == "none":
        return [], True
    if isinstance(choice, dict):
        name = _function(choice).get("name")
        return [tool for tool in tools if tool.get("name") == name], False
    return tools, choice != "required"


# The turns, as text


def _plain(messages: list[JsonObject], tools: list[JsonObject]) -> list[Json]:
    """The turns as text only: tools in the system text, calls and results as spoken text."""
    turns: list[Json] = []
    names: dict[str, str] = {}
    lines = [_HEADING, *map(_line, tools)] if tools else []
    first = bool(messages) and messages[0].get("role") in ("system", "developer")
    # there is no system text to put the tools into
    if lines and not first:
        turns.append({"role": "system", "content": "\n".join(lines)})
    for index, message in enumerate(messages):
        role, text = message.get("role"), _words(message.get("content"))
        if index == 0 and first and lines:
            text = "\n".join((text, "", *lines))
        for call in objects(message.get("tool_calls")):
            function = _function(call)
            names[_text(call.get("id"))] = _text(function.get("name"))
            text = f"{text}\n{_spelled(function)}" if text else _spelled(function)
        if role == "tool":
            name = names.get(_text(message.get("tool_call_id")), "the tool")
            result = f"{name} returned: {_flat(text)}\n{_RESULT_QUESTION}"
            turns.append({"role": "user", "content": result})
        else:
            turns.append({"role": "system" if role == "developer" else role, "content": text})
    return turns


def _flat(text: str) -> str:
    """A result in words: an object as a list of its fields, which the model reads better."""
    fields = [
        f"{key}: {value if isinstance(value, str) else compact(value)}"
        for key, value in _decoded(text).items()
    ]
    return ", ".join(fields) or text


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


# Schemas: decoding under a schema makes every answer well formed, and bounds give it an end


def call_schema(tool: JsonObject) -> JsonObject:
    """The schema of a call of this tool."""
    arguments = bounded(tool.get("parameters"))
    return _object({"name": {"const": tool.get("name")}, "arguments": arguments})


def bounded(schema: Json) -> Json:
    """The schema with an end to every text and every list, and without its notes."""
    if isinstance(schema, list):
        return [bounded(each) for each in schema]
    if not isinstance(schema, dict):
        return schema
    limited: JsonObject = {}
    for key, value in schema.items():
        if key in ("properties", "$defs", "definitions") and isinstance(value, dict):
            limited[key] = {name: bounded(each) for name, each in value.items()}
        elif key in ("enum", "const", "required"):
            limited[key] = value
        elif key not in _NOTES:
            limited[key] = bounded(value)
    kinds = _kinds(limited)
    if "string" in kinds and not _is_bound(limited):
        limited.setdefault("maxLength", _LONGEST_TEXT)
    if "array" in kinds:
        limited.setdefault("maxItems", _MOST_ITEMS)
    if "object" in kinds and "properties" in limited:
        # an object with room for any field has no end
        limited.setdefault("additionalProperties", False)
    return limited


def _bounded_format(body: JsonObject) -> JsonObject:
    """The body with an end to every text in the answer's schema."""
    answer_format = body.get("response_format")
    inner = answer_format.get("json_schema") if isinstance(answer_format, dict) else None
    if not isinstance(answer_format, dict) or not isinstance(inner, dict):
        return body
    schema: JsonObject = {**inner, "schema": bounded(inner.get("schema"))}
    return {**body, "response_format": {**answer_format, "json_schema": schema}}


def _answer_schema(wire: JsonObject) -> JsonObject | None:
    answer_format = wire.get("response_format")
    if not isinstance(answer_format, dict):
        return None
    if answer_format.get("type") == "json_object":
        return {"type": "object"}
    inner = answer_format.get("json_schema")
    schema = bounded(inner.get("schema")) if isinstance(inner, dict) else None
    return schema if isinstance(schema, dict) else None


def _reply_schema() -> JsonObject:
    """The schema of a reply that stands where a call might."""
    return _object({"reply": {"type": "string", "maxLength": _LONGEST_TEXT}})


def _object(properties: JsonObject) -> JsonObject:
    names: list[Json] = list(properties)
    return {
        "type": "object",
        "properties": properties,
        "required": names,
        "additionalProperties": False,
    }


def _grammar(schema: JsonObject) -> str:
    """The engine's grammar of compact JSON that fits the schema."""
    return _GRAMMAR + msgspec.json.encode({**schema, "x-guidance": _SPELLING}).decode()


def _kinds(schema: JsonObject) -> set[str]:
    kind = schema.get("type")
    listed = kind if isinstance(kind, list) else [kind]
    return {each for each in listed if isinstance(each, str)}


def _is_bound(schema: JsonObject) -> bool:
    """Whether a text's schema says more than that it is text."""
    return any(key in schema for key in ("enum", "const", "format", "pattern"))


# The answer


def _with_calls(body: JsonObject, allowed: tuple[str, ...], *, by_grammar: bool) -> JsonObject:
    """The answer with the call in its own place, where its text is a call in JSON."""
    choices = objects(body.get("choices"))
    message = choices[0].get("message") if choices else None
    if not isinstance(message, dict):
        return body
    text = _text(message.get("content"))
    answer = _decoded(_unfenced(text))
    name, arguments = answer.get("name"), answer.get("arguments")
    changes: JsonObject
    if isinstance(name, str) and isinstance(arguments, dict) and name in allowed:
        changes = _calling(body, name, compact(arguments))
    elif not by_grammar:
        return body
    elif isinstance(reply := answer.get("reply"), str):
        changes = {"content": reply}
    elif len(allowed) == 1 and text:
        # the call was cut off: the runtime tells the model so
        changes = _calling(body, allowed[0], text)
    else:
        return body
    choice: JsonObject = {**choices[0], "message": {**message, **changes}}
    # an answer that was cut off keeps its reason
    if "tool_calls" in changes and choice.get("finish_reason") == "stop":
        choice["finish_reason"] = "tool_calls"
    return {**body, "choices": [choice, *choices[1:]]}


def _unfenced(text: str) -> str:
    """The text between the fences that models like to put around JSON."""
    fenced = _FENCED.fullmatch(text.strip())
    return fenced[1] if fenced is not None else text


def _calling(body: JsonObject, name: str, arguments: str) -> JsonObject:
    identity = f"call_{_text(body.get('id')).rpartition('-')[2][:24]}"
    function: JsonObject = {"name": name, "arguments": arguments}
    return {
        "content": None,
        "tool_calls": [{"id": identity, "type": "function", "function": function}],
    }


# JSON of unknown shape


def _decoded(text: str) -> JsonObject:
    """The object that the text spells; empty where it spells none."""
    try:
        value: Json = msgspec.json.decode(text)
    except (msgspec.DecodeError, UnicodeEncodeError):
        return {}
    return value if isinstance(value, dict) else {}


def _function(entry: JsonObject) -> JsonObject:
    function = entry.get("function")
    return function if isinstance(function, dict) else {}


def objects(value: Json) -> list[JsonObject]:
    """The objects in a list; none where the value is no list."""
    return [each for each in value if isinstance(each, dict)] if isinstance(value, list) else []


def _words(content: Json) -> str:
    """A content's text: itself, or the texts of its parts."""
    if isinstance(content, list):
        return "\n".join(_text(part.get("text")) for part in objects(content))
    return _text(content)


def _text(value: Json) -> str:
    return value if isinstance(value, str) else ""
