"""agent-framework: `Agent(..., middleware=[WeftMiddleware()])` makes its requests cheaper.

An agent that has `middleware.tool` among its tools may get digests with handles. Any other gets
only forms that stay in view. The messages of a session stay as they are: the request gets copies.
"""

import functools
from collections.abc import Awaitable, Callable, Iterator, Mapping
from functools import cached_property
from typing import TYPE_CHECKING, cast

from weft.declare.policy import Policy
from weft.interop.adk.objects import as_list, field, text
from weft.interop.hosts import (
    FIXED,
    Host,
    HostCall,
    HostCompactor,
    HostPiece,
    HostText,
    arguments_after,
    copy_with,
    make_recall,
    offers_recall,
    rebuild_messages,
    spell_answer,
    spell_result,
    spell_user,
    text_of,
)
from weft.values import JsonObject

_HOST = Host("agent-framework", "WeftMiddleware")


class CompactingChatMiddleware:
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
        pieces = [*_spell_messages(messages)]
        outcome = self.compactor.compact(
            [piece.wire for piece in pieces],
            model=str(named or ""),
            recalls=offers_recall(listed),
            fixed="\n".join((str(options.get("instructions") or ""), *map(_think, messages))),
        )
        if outcome is not None:
            compacted = rebuild_messages(messages, pieces, outcome, _rebuild, _make_note)
            setattr(context, "messages", compacted)  # noqa: B010  a foreign object
        await call_next()


def _think(message: object) -> str:
    """What the model thought: it goes out as it is."""
    contents = as_list(message, "contents")
    return "\n".join(text(one, "text") for one in contents if text(one, "type") == "text_reasoning")


def _spell_messages(messages: list[object]) -> Iterator[HostPiece]:
    for index, message in enumerate(messages):
        contents = as_list(message, "contents")
        role = str(field(message, "role"))
        results = [
            (at, one) for at, one in enumerate(contents) if text(one, "type") == "function_result"
        ]
        if results:
            for at, one in results:
                yield HostPiece(spell_result(text(one, "call_id"), text(one, "result")), index, at)
            continue
        words = _TEXT.join(contents)
        calls = [
            HostCall(text(one, "call_id"), text(one, "name"), field(one, "arguments"))
            for one in contents
            if text(one, "type") == "function_call"
        ]
        if role == "assistant" and (words or calls):
            yield HostPiece(spell_answer(words, calls), index)
        elif role == "user":
            yield HostPiece(spell_user(words or "[media]"), index)
        else:
            yield HostPiece(spell_user(words, "system") if words else FIXED, index)


def _write_text(old: object, words: str) -> object:
    if old is not None:
        return copy_with(old, text=words, raw_representation=None)
    make = field(_HOST.find("agent_framework", "Content"), "from_text")
    return cast("Callable[[str], object]", make)(words)


def _read_text(content: object) -> str | None:
    return text(content, "text") if text(content, "type") == "text" else None


_TEXT = HostText(_read_text, _write_text)


def _rebuild(message: object, parts: Mapping[int, JsonObject | None]) -> object:
    """A copy of a message with the results that stay, or with other words and arguments."""
    contents = as_list(message, "contents")
    if any(text(one, "type") == "function_result" for one in contents):
        new = [
            _with_result(one, parts.get(at))
            for at, one in enumerate(contents)
            if at in parts or text(one, "type") != "function_result"
        ]
    else:
        wire = parts.get(0) or {}
        new = [_with_arguments(one, wire) for one in _TEXT.replace(contents, text_of(wire))]
    return copy_with(message, contents=new, raw_representation=None)


def _with_result(content: object, wire: JsonObject | None) -> object:
    if wire is None:
        return content
    items = _TEXT.replace(as_list(content, "items"), text_of(wire))
    return copy_with(content, result=text_of(wire), items=items, raw_representation=None)


def _with_arguments(content: object, wire: JsonObject) -> object:
    old = field(content, "arguments")
    now = arguments_after(wire, text(content, "call_id"), old)
    return content if now is old else copy_with(content, arguments=now, raw_representation=None)


def _make_note(words: str) -> object:
    return _HOST.find("agent_framework", "Message")("user", [words])


@functools.cache
def middleware_class() -> type[CompactingChatMiddleware]:
    """The middleware as agent-framework wants it: of its own class."""
    return _HOST.make_class(CompactingChatMiddleware, "agent_framework", "ChatMiddleware")


if TYPE_CHECKING:
    WeftMiddleware = CompactingChatMiddleware
else:

    def __getattr__(name: str) -> object:
        if name == _HOST.adapter:
            return middleware_class()
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
