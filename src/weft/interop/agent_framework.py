"""agent-framework: `Agent(..., middleware=[WeftMiddleware()])` makes its requests cheaper.

An agent that has `middleware.tool` among its tools may get digests with handles. Any other gets
only forms that stay in view. The messages of a session stay as they are: the request gets copies.
"""

from collections.abc import Awaitable, Callable, Iterator, Mapping
from functools import cached_property
from typing import TYPE_CHECKING, cast

from weft.declare.policy import Policy
from weft.interop.adk.objects import as_list, field, text
from weft.interop.hosts import (
    Host,
    HostCalls,
    HostCompactor,
    HostMessages,
    HostPiece,
    HostText,
    copy_with,
    make_recall,
    offers_recall,
    spell_message,
    text_of,
)
from weft.values import JsonObject

_HOST = Host("agent-framework", "WeftMiddleware")


class CompactingChat:
    """The middleware's own part, without what agent-framework wants of one.

    `compactor` has the numbers: what was compacted, and what was left as it is.
    """

    def __init__(self, context: Policy | None = None) -> None:
        self.compactor = HostCompactor(context, where=_HOST.adapter)

    @cached_property
    def tool(self) -> object:
        """The tool `recall`, for agents whose results may become digests."""
        return _HOST.find("agent_framework", "tool")(make_recall(self.compactor))

    async def process(self, context: object, call_next: Callable[[], Awaitable[None]]) -> None:
        """Send other messages with this one request."""
        messages = as_list(context, "messages")
        options = cast("Mapping[str, object]", field(context, "options") or {})
        named = options.get("model") or text(field(context, "client"), "model")
        tools = options.get("tools")
        listed = cast("list[object]", tools) if isinstance(tools, list) else [tools]
        compacted = _MESSAGES.compact(
            messages,
            self.compactor,
            model=str(named or ""),
            recalls=offers_recall(listed),
            fixed="\n".join((str(options.get("instructions") or ""), *map(_think, messages))),
        )
        if compacted is not messages:
            setattr(context, "messages", compacted)  # noqa: B010  a foreign object
        await call_next()


def _think(message: object) -> str:
    """What the model thought: it goes out as it is."""
    contents = as_list(message, "contents")
    return "\n".join(text(one, "text") for one in contents if text(one, "type") == "text_reasoning")


def _spell_messages(messages: list[object]) -> Iterator[HostPiece]:
    for index, message in enumerate(messages):
        contents, role = as_list(message, "contents"), str(field(message, "role"))
        results = [(at, one) for at, one in enumerate(contents) if _is_result(one)]
        for at, one in results:
            wire = spell_message("tool", text(one, "result"), id=text(one, "call_id"))
            yield HostPiece(wire, index, at)
        if not results:
            words, calls = _TEXT.join(contents), _CALLS.read(contents)
            spoken = role if role in ("user", "assistant") else "system"
            yield HostPiece(spell_message(spoken, words, calls=calls), index)


def _is_result(content: object) -> bool:
    return text(content, "type") == "function_result"


def _write_text(old: object, words: str) -> object:
    if old is not None:
        return copy_with(old, text=words)
    make = field(_HOST.find("agent_framework", "Content"), "from_text")
    return cast("Callable[[str], object]", make)(words)


def _read_text(content: object) -> str | None:
    return text(content, "text") if text(content, "type") == "text" else None


def _rebuild(message: object, parts: Mapping[int, JsonObject | None]) -> object:
    """A copy of a message with the results that stay, or with other words and arguments."""
    contents, wire = as_list(message, "contents"), parts.get(0) or {}
    if any(map(_is_result, contents)):
        new = [
            _with_result(one, parts.get(at))
            for at, one in enumerate(contents)
            if at in parts or not _is_result(one)
        ]
    else:
        new = _CALLS.rebuild(_TEXT.replace(contents, text_of(wire)), wire)
    return copy_with(message, contents=new)


def _with_result(content: object, wire: JsonObject | None) -> object:
    if wire is None:
        return content
    items = _TEXT.replace(as_list(content, "items"), text_of(wire))
    return copy_with(content, result=text_of(wire), items=items)


def _make_note(words: str) -> object:
    return _HOST.find("agent_framework", "Message")("user", [words])


_TEXT = HostText(_read_text, _write_text)
_CALLS = HostCalls("call_id", "name", "arguments", kind=("type", "function_call"))
_MESSAGES = HostMessages(_spell_messages, _rebuild, _make_note)

if TYPE_CHECKING:
    WeftMiddleware = CompactingChat
else:
    __getattr__ = _HOST.offer(CompactingChat, "agent_framework", "ChatMiddleware")
