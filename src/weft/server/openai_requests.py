"""Requests of OpenAI's clients: messages, input items, tools and options as Weft has them.

Nothing is passed over in silence. A field is read, or known to have no effect here, or refused.
"""

import mimetypes
import re
from typing import Literal, NamedTuple

import msgspec

from weft.content import Blob, FileData, FunctionCall, FunctionResponse, Part
from weft.declare.tool import Tool
from weft.errors import describe_kind
from weft.server.problems import invalid
from weft.session.lookback import RESERVED
from weft.turns.turn import ClientTool
from weft.values import Json, JsonObject

Role = Literal["user", "assistant"]

MOST_POSTED = 20
"""How many items are added to a conversation at once."""


class ClientMessage(NamedTuple):
    """One message. What a client calls system text is the user's here.

    The system instruction of a request is that of the served agent, whose author is not the client.
    """

    role: Role
    parts: tuple[Part, ...]

    @staticmethod
    def text(role: Role, text: str) -> "ClientMessage":
        """A message of plain text."""
        return ClientMessage(role, (Part(text=text),))


_NO_EFFECT = frozenset(
    (
        "metadata", "user", "safety_identifier", "prompt_cache_key", "prompt_cache_retention",
        "service_tier", "stream_options", "include", "max_tool_calls", "truncation",
        "verbosity", "modalities", "prediction", "web_search_options",
    )
)  # fmt: skip
"""Fields for whoever bills or routes requests: an agent answers the same with and without."""

_READ = frozenset(
    (
        "model", "messages", "input", "instructions", "stream", "store", "tools", "tool_choice",
        "conversation", "previous_response_id", "reasoning", "reasoning_effort", "text", "n",
        "response_format", "logprobs", "parallel_tool_calls", "background",
    )
)  # fmt: skip

_OPTIONS = {
    "temperature": "temperature",
    "top_p": "top_p",
    "max_tokens": "max_output_tokens",
    "max_completion_tokens": "max_output_tokens",
    "max_output_tokens": "max_output_tokens",
    "stop": "stop_sequences",
    "seed": "seed",
    "presence_penalty": "presence_penalty",
    "frequency_penalty": "frequency_penalty",
    "parallel_tool_calls": "parallel_tool_calls",
}


def generation(body: dict[str, Json]) -> JsonObject:
    """The options of a request; one that an agent cannot take is refused."""
    options: JsonObject = {}
    for name, value in body.items():
        if value is None:
            continue
        if name in _OPTIONS:
            options[_OPTIONS[name]] = value
            # OpenAI takes one text or a list, models here take a list
            if name == "stop" and isinstance(value, str):
                options[_OPTIONS[name]] = [value]
        elif name not in _READ and name not in _NO_EFFECT:
            raise invalid(f"`{name[:100]}` is not known here", where=name[:100])
    if body.get("n") not in (None, 1):
        raise invalid("an agent gives one answer", where="n")
    for name in ("stream", "store", "background"):
        if not isinstance(body.get(name), bool | None):
            raise invalid(f"`{name}` is {str(body[name])[:40]!r}, not true or false", where=name)
    if body.get("background"):
        raise invalid(
            "a response is not made in the background here",
            where="background",
            hint="stream it: a run goes on when its client is gone",
        )
    if body.get("logprobs"):
        raise invalid("an agent's answer has no logprobs", where="logprobs")
    for name, form in (
        ("response_format", body.get("response_format")),
        ("text", (_object(body.get("text"), "text") or {}).get("format")),
    ):
        if form is not None and _object(form, name).get("type") not in (None, "text"):
            raise invalid(
                "the form of the answer is the agent's to declare",
                where=name,
                hint="declare it: Agent(output_schema=...)",
            )
    effort = body.get("reasoning_effort")
    if effort is None:
        effort = (_object(body.get("reasoning"), "reasoning") or {}).get("effort")
    if effort is not None:
        options["thinking"] = {"effort": effort}
    choice = body.get("tool_choice")
    if choice is not None and choice != "auto":
        options["tool_choice"] = _choice(choice)
    return options


def _choice(choice: Json) -> Json:
    if choice == "required":
        return "any"
    if choice == "none":
        return "none"
    if isinstance(choice, dict):
        function = choice.get("function", choice)
        if isinstance(function, dict) and isinstance(function.get("name"), str):
            return {"name": function["name"]}
    raise invalid("this is no choice of a tool", where="tool_choice")


def client_tools(listed: list[Json]) -> list[Tool]:
    """The client's tools: declared to the model, and left to the client to run."""
    tools: list[Tool] = []
    for at, entry in enumerate(listed):
        where = f"tools[{at}]"
        tool = _object(entry, where)
        if tool.get("type") != "function":
            raise invalid(
                f"a tool of type {tool.get('type')!r} cannot be passed on",
                where=where,
                hint='pass {"type": "function", ...}',
            )
        function = _object(tool.get("function", tool), where)  # a response has it flat
        name, about = function.get("name"), function.get("description") or ""
        parameters = function.get("parameters") or {"type": "object", "properties": {}}
        if not isinstance(name, str) or not isinstance(about, str):
            raise invalid("the tool has no name, or odd words", where=where)
        _refuse_reserved(name, where)
        tools.append(ClientTool(name, about, _object(parameters, f"{where}.parameters")).tool())
    return tools


def chat_history(messages: Json) -> list[ClientMessage]:
    """The messages of a chat."""
    if not isinstance(messages, list) or not messages:
        raise invalid("`messages` is not a list of messages", where="messages")
    history: list[ClientMessage] = []
    for at, entry in enumerate(messages):
        where = f"messages[{at}]"
        message = _object(entry, where)
        role, content = message.get("role"), message.get("content")
        if role in ("system", "developer", "user"):
            history.append(ClientMessage("user", _parts(content, where)))
        elif role == "assistant":
            parts = _parts(content, where) if content else ()
            tool_calls = message.get("tool_calls") or []
            calls = [_chat_call(one, f"{where}.tool_calls") for one in _list(tool_calls, where)]
            history.append(ClientMessage("assistant", (*parts, *calls)))
        elif role == "tool":
            history.append(
                ClientMessage("user", (_result(message.get("tool_call_id"), content, where),))
            )
        else:
            raise invalid(f"{role!r} is not a role", where=f"{where}.role")
    return history


def _chat_call(entry: Json, where: str) -> Part:
    tool_call = _object(entry, where)
    function = _object(tool_call.get("function"), where)
    return _call(tool_call.get("id"), function.get("name"), function.get("arguments"), where)


def input_items(items: Json) -> list[ClientMessage]:
    """The input of a response."""
    if isinstance(items, str):
        return [ClientMessage.text("user", items)]
    listed = _list(items, "input")
    # thoughts of ours that the client gives back: the log has them
    history = [_item(one, f"input[{at}]") for at, one in enumerate(listed) if not _is_thought(one)]
    if not history:
        raise invalid("`input` is empty", where="input")
    return history


def posted_items(items: list[Json]) -> list[ClientMessage]:
    """Items that are added to a conversation without a response; none of their calls waits."""
    if not 1 <= len(items) <= MOST_POSTED:
        raise invalid(f"{len(items)} items are posted, not 1 to {MOST_POSTED}", where="items")
    messages: list[ClientMessage] = []
    open_calls: dict[str | None, str] = {}
    for at, entry in enumerate(items):
        where = f"items[{at}]"
        message = _item(entry, where)
        if not message.parts:
            raise invalid("the message is empty", where=where)
        for part in message.parts:
            if part.function_call is not None:
                open_calls[part.function_call.id] = where
            result = part.function_response
            if result is not None and open_calls.pop(result.id, None) is None:
                raise invalid(
                    "there is no call before it that this is the output of",
                    where=where,
                    hint="the output of a call that a response made is the `input` of"
                    " the next response",
                )
        messages.append(message)
    for where in open_calls.values():
        raise invalid(
            "a call without its output cannot be posted",
            where=where,
            hint="post both, in this order",
        )
    return messages


def _is_thought(entry: Json) -> bool:
    return isinstance(entry, dict) and entry.get("type") == "reasoning"


def _item(entry: Json, where: str) -> ClientMessage:
    """An item as the message that it is."""
    item = _object(entry, where)
    kind = item.get("type", "message")
    if kind == "message":
        role = item.get("role")
        if role not in ("system", "developer", "user", "assistant"):
            raise invalid(f"{role!r} is not a role", where=f"{where}.role")
        whose: Role = "assistant" if role == "assistant" else "user"
        return ClientMessage(whose, _parts(item.get("content"), where))
    if kind == "function_call":
        call = _call(item.get("call_id"), item.get("name"), item.get("arguments"), where)
        return ClientMessage("assistant", (call,))
    if kind == "function_call_output":
        return ClientMessage("user", (_result(item.get("call_id"), item.get("output"), where),))
    raise invalid(f"an item of type {kind!r} cannot be read", where=where)


def _call(id: Json, name: Json, arguments: Json, where: str) -> Part:
    if not isinstance(id, str) or not isinstance(name, str):
        raise invalid("the call has no id or no name", where=where)
    _refuse_reserved(name, where)
    try:
        args = _read_json(arguments) if isinstance(arguments, str) and arguments else {}
    except (ValueError, RecursionError):
        raise invalid("the arguments are not JSON", where=where) from None
    return Part(function_call=FunctionCall(id=id, name=name, args=_object(args, where)))


def _refuse_reserved(name: str, where: str) -> None:
    """Refuse a question of the runtime's own: the answer to it would run a tool of the agent."""
    if name.startswith(RESERVED):
        raise invalid(
            f"only a runtime calls `{name[:100]}`",
            where=where,
            hint=f"names that begin with `{RESERVED}` are its own; leave it out",
        )


def _result(id: Json, content: Json, where: str) -> Part:
    if not isinstance(id, str):
        raise invalid("the result says not which call it is of", where=where)
    if isinstance(content, str):
        text = content
    else:
        text = "".join(part.text or "" for part in _parts(content, where))
    try:
        value = _read_json(text)
    except (ValueError, RecursionError):
        value = text
    response: JsonObject = value if isinstance(value, dict) else {"result": value}
    return Part(function_response=FunctionResponse(id=id, response=response))


def _read_json(text: str) -> Json:
    """JSON as the standard has it: no NaN, and no number that nobody could write again."""
    value: Json = msgspec.json.decode(text.encode("utf-8", "surrogatepass"))
    return value


_DATA = re.compile(r"data:([\w.+-]+/[\w.+-]+);base64,([A-Za-z0-9+/=]+)")


def _parts(content: Json, where: str) -> tuple[Part, ...]:
    """The content of a message: text, and images by address or as data."""
    if isinstance(content, str):
        return (Part(text=content),) if content else ()
    parts: list[Part] = []
    for at, entry in enumerate(_list(content, f"{where}.content")):
        place = f"{where}.content[{at}]"
        piece = _object(entry, place)
        kind = piece.get("type")
        if kind in ("text", "input_text", "output_text", "refusal"):
            text = piece.get("text", piece.get("refusal"))
            if not isinstance(text, str):
                raise invalid("the text is no text", where=place)
            parts.append(Part(text=text))
        elif kind in ("image_url", "input_image"):
            address = piece.get("image_url")
            if isinstance(address, dict):
                address = address.get("url")
            parts.append(_image(address, place))
        else:
            raise invalid(f"content of type {kind!r} cannot be read", where=place)
    return tuple(parts)


def _image(address: Json, where: str) -> Part:
    if isinstance(address, str):
        if data := _DATA.fullmatch(address):
            return Part(inline_data=Blob(mime_type=data[1], data=data[2]))
        if address.startswith(("https://", "http://")):
            kind = mimetypes.guess_type(address.split("?")[0])[0] or "image/*"
            return Part(file_data=FileData(file_uri=address, mime_type=kind))
    raise invalid("the image has no address that can be read", where=where)


def _object(value: Json, where: str) -> JsonObject:
    if value is None:
        return {}
    if not isinstance(value, dict):
        raise invalid(f"{describe_kind(value)} stands there, not an object", where=where)
    return value


def _list(value: Json, where: str) -> list[Json]:
    if not isinstance(value, list):
        raise invalid("this is not a list", where=where)
    return value
