"""langchain: `create_agent(..., middleware=[WeftMiddleware()])`; LangGraph: `compact_messages`.

The state of the graph stays as it is: only what a model is sent changes.
"""

import functools
from collections.abc import Awaitable, Callable, Mapping, Sequence
from typing import TYPE_CHECKING, cast

from weft.declare.policy import Policy
from weft.interop.adk.objects import as_list, field, member, text
from weft.interop.hosts import (
    FIXED,
    Host,
    HostCall,
    HostCompactor,
    HostPiece,
    make_recall_in,
    rebuild_messages,
    spell_answer,
    spell_result,
    spell_user,
)
from weft.values import JsonObject

_HOST = Host("langchain", "WeftMiddleware")


class CompactingMiddleware:
    """The middleware's own part, without what langchain wants of one.

    `compactor` has the numbers: what was compacted, and what was left as it is.
    """

    def __init__(self, context: Policy | None = None) -> None:
        self.compactor = HostCompactor(context, where=_HOST.adapter)
        self.tools: list[object] = [make_tool(self.compactor)]

    def wrap_model_call(self, request: object, handler: Callable[[object], object]) -> object:
        """Call the model with other messages."""
        return handler(self._override(request))

    async def awrap_model_call(
        self, request: object, handler: Callable[[object], Awaitable[object]]
    ) -> object:
        """The same for an agent that runs asynchronously."""
        return await handler(self._override(request))

    def _override(self, request: object) -> object:
        messages = as_list(request, "messages")
        model = field(request, "model")
        name = text(model, "model_name") or text(model, "model")
        state = field(request, "state")
        compacted = _compact(messages, self.compactor, state, model=name, recalls=True)
        override = cast("Callable[..., object]", field(request, "override"))
        return request if compacted is messages else override(messages=compacted)


def compact_messages(
    messages: Sequence[object],
    context: Policy | None = None,
    *,
    model: str = "",
    compactor: HostCompactor | None = None,
) -> list[object]:
    """Messages of langchain after a policy, for a node of LangGraph that calls a model.

    Without a `compactor` the policy is `C.auto(lossless=True)` where none is given, since nobody
    could answer `recall`. With one, add `make_tool(compactor)` to the tools of the graph.
    """
    used = compactor if compactor is not None else HostCompactor(context, where="compact_messages")
    listed, recalls = [*messages], compactor is not None
    return _compact(listed, used, {"messages": listed}, model=model, recalls=recalls)


def make_tool(compactor: HostCompactor) -> object:
    """The tool `recall`, for what this compactor left out."""
    tool = _HOST.find("langchain_core.tools", "tool")
    runtime = _HOST.find("langchain.tools", "ToolRuntime")
    recall = make_recall_in(
        compactor, "runtime", runtime, lambda one: _name_of(field(one, "state"))
    )
    return tool(recall, parse_docstring=True)


def _name_of(state: object) -> str:
    """The id of the first message of a state that has one: langgraph gives one to each."""
    listed = member(state, "messages")
    named = cast("list[object]", listed) if isinstance(listed, list) else []
    return next((id for id in (text(one, "id") for one in named) if id), "")


def _compact(
    messages: list[object], compactor: HostCompactor, state: object, *, model: str, recalls: bool
) -> list[object]:
    pieces = [HostPiece(_spell_message(one), index) for index, one in enumerate(messages)]
    wires = [piece.wire for piece in pieces]
    outcome = compactor.compact(wires, model=model, recalls=recalls, conversation=_name_of(state))
    if outcome is None:
        return messages
    return rebuild_messages(messages, pieces, outcome, _rebuild, _make_note)


def _spell_message(message: object) -> JsonObject:
    kind, words = text(message, "type"), _words(message)
    if kind == "human":
        return spell_user(words)
    if kind == "tool":
        return spell_result(text(message, "tool_call_id"), words)
    if kind != "ai":
        return FIXED
    calls: list[HostCall] = []
    for call in as_list(message, "tool_calls"):
        fields = cast("Mapping[str, object]", call)
        id, name = fields.get("id"), fields.get("name")
        calls.append(HostCall(str(id or ""), str(name), fields.get("args")))
    return spell_answer(words, calls) if words or calls else FIXED


def _words(message: object) -> str:
    """The text of a message, whose content is text or a list of blocks."""
    content = field(message, "content")
    blocks = [content] if isinstance(content, str) else as_list(message, "content")
    texts = [one if isinstance(one, str) else member(one, "text") for one in blocks]
    return "\n".join(one for one in texts if one and isinstance(one, str))


def _rebuild(message: object, parts: Mapping[int, str | None]) -> object:
    copy = cast("Callable[..., object]", field(message, "model_copy"))
    return copy(update={"content": parts.get(0) or ""})


def _make_note(words: str) -> object:
    return _HOST.find("langchain_core.messages", "HumanMessage")(content=words)


@functools.cache
def middleware_class() -> type[CompactingMiddleware]:
    """The middleware as langchain wants it: of its own class."""
    return _HOST.make_class(CompactingMiddleware, "langchain.agents.middleware", "AgentMiddleware")


if TYPE_CHECKING:
    WeftMiddleware = CompactingMiddleware
else:

    def __getattr__(name: str) -> object:
        if name == _HOST.adapter:
            return middleware_class()
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
