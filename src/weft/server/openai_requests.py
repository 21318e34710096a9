"""Requests of OpenAI's clients: messages and input items as Weft has them.

What else a request says is in `openai_options.py`.
"""

import mimetypes
import re
from typing import Literal, NamedTuple

import msgspec

from weft.content import Blob, FileData, FunctionCall, FunctionResponse, Part
from weft.errors import describe_kind
from weft.server.problems import invalid
from weft.session.lookback import RESERVED
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


def chat_history(messages: Json) -> list[ClientMessage]:
    """The messages of a chat."""
    if not isinstance(messages, list) or not messages:
        raise invalid("`messages` is not a list of messages", where="messages")
    history: list[ClientMessage] = []
    for at, entry in enumerate(messages):
        where = f"messages[{at}]"
        message = read_object(entry, where)
        role, content = message.get("role"), message.get("content")
        if role in ("system", "developer", "user"):
            history.append(ClientMessage("user", _parts(content, where)))
        elif role == "assistant":
            for name in ("function_call", "audio"):
                if message.get(name) is not None:
                    raise invalid(
                        f"`{name}` of a message cannot be read",
                        where=f"{where}.{name}",
                        hint="write `tool_calls`" if name == "function_call" else "write its text",
                    )
            parts = _parts(content, where) if content else ()
            if refusal := message.get("refusal"):
                parts = (*parts, *_parts([{"type": "refusal", "refusal": refusal}], where))
            tool_calls = message.get("tool_calls") or []
            calls = [_chat_call(one, f"{where}.tool_calls") for one in read_list(tool_calls, where)]
            history.append(ClientMessage("assistant", (*parts, *calls)))
        elif role == "tool":
            history.append(
                ClientMessage("user", (_result(message.get("tool_call_id"), content, where),))
            )
        else:
            raise invalid(f"{role!r} is not a role", where=f"{where}.role")
    return history


def _chat_call(entry: Json, where: str) -> Part:
    tool_call = read_object(entry, where)
    function = read_object(tool_call.get("function"), where)
    return _call(tool_call.get("id"), function.get("name"), function.get("arguments"), where)


def input_items(items: Json) -> list[ClientMessage]:
    """The input of a response."""
    if isinstance(items, str):
        return [ClientMessage.text("user", items)]
    listed = read_list(items, "input")
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
    item = read_object(entry, where)
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
    refuse_reserved(name, where)
    try:
        args = _read_json(arguments) if isinstance(arguments, str) and arguments else {}
    except (ValueError, RecursionError):
        raise invalid("the arguments are not JSON", where=where) from None
    return Part(function_call=FunctionCall(id=id, name=name, args=read_object(args, where)))


def refuse_reserved(name: str, where: str) -> None:
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
    for at, entry in enumerate(read_list(content, f"{where}.content")):
        place = f"{where}.content[{at}]"
        piece = read_object(entry, place)
        kind = piece.get("type")
        if kind in ("text", "input_text", "output_text", "refusal"):
            text = piece.get("text", piece.get("refusal"))
            if not isinstance(text, str):
                raise invalid("`text` must be a text", where=place)
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


def read_object(value: Json, where: str) -> JsonObject:
    """An object, or a problem; null is an empty one."""
    if value is None:
        return {}
    if not isinstance(value, dict):
        raise invalid(f"got {describe_kind(value)}, not an object", where=where)
    return value


def read_list(value: Json, where: str) -> list[Json]:
    """A list, or a problem."""
    if not isinstance(value, list):
        raise invalid("this is not a list", where=where)
    return value
