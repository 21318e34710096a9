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
    make_recall,
    offers_recall,
    rebuild_messages,
    spell_answer,
    spell_result,
    spell_user,
)

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
        )
        if outcome is not None:
            compacted = rebuild_messages(messages, pieces, outcome, _rebuild, _make_note)
            setattr(context, "messages", compacted)  # noqa: B010  a foreign object
        await call_next()


def _spell_messages(messages: list[object]) -> Iterator[HostPiece]:
    for index, message in enumerate(messages):
        contents = as_list(message, "contents")
        role = _role(message)
        results = [
            (at, one) for at, one in enumerate(contents) if text(one, "type") == "function_result"
        ]
        if results:
            for at, one in results:
                yield HostPiece(spell_result(text(one, "call_id"), _result(one)), index, at)
            continue
        words = "\n".join(text(one, "text") for one in contents if text(one, "type") == "text")
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
            yield HostPiece(FIXED, index)


def _role(message: object) -> str:
    role = field(message, "role")
    return role if isinstance(role, str) else text(role, "value")


def _result(content: object) -> str:
    result = field(content, "result")
    return result if isinstance(result, str) else "" if result is None else str(result)


def _rebuild(message: object, parts: Mapping[int, str | None]) -> object:
    """A copy of a message with the results that stay, or with another text."""
    kind = _HOST.find("agent_framework", "Content")
    contents = as_list(message, "contents")
    if any(text(one, "type") == "function_result" for one in contents):
        new = [
            one if parts.get(at) is None else _with_result(kind, one, parts[at])
            for at, one in enumerate(contents)
            if at in parts or text(one, "type") != "function_result"
        ]
    else:
        make_text = cast("Callable[[str], object]", field(kind, "from_text"))
        new = [
            make_text(parts.get(0) or ""),
            *(one for one in contents if text(one, "type") != "text"),
        ]
    make = _HOST.find("agent_framework", "Message")
    return make(_role(message), new, author_name=field(message, "author_name"))


def _with_result(kind: object, content: object, words: str | None) -> object:
    make = cast("Callable[..., object]", field(kind, "from_function_result"))
    return make(text(content, "call_id"), id=field(content, "id"), result=words)


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
