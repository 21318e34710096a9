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
    HostText,
    arguments_after,
    make_recall_in,
    rebuild_messages,
    spell_answer,
    spell_result,
    spell_user,
    text_of,
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
        system = field(request, "system_message")
        fixed = _words(system) if system is not None else ""
        compacted = _compact(messages, self.compactor, state, model=name, recalls=True, fixed=fixed)
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
    messages: list[object],
    compactor: HostCompactor,
    state: object,
    *,
    model: str,
    recalls: bool,
    fixed: str = "",
) -> list[object]:
    pieces = [HostPiece(_spell_message(one), index) for index, one in enumerate(messages)]
    wires = [piece.wire for piece in pieces]
    outcome = compactor.compact(
        wires,
        model=model,
        recalls=recalls,
        conversation=_name_of(state),
        fixed="\n".join((fixed, *map(_think, messages))),
    )
    if outcome is None:
        return messages
    return rebuild_messages(messages, pieces, outcome, _rebuild, _make_note)


def _spell_message(message: object) -> JsonObject:
    kind, words = text(message, "type"), _words(message)
    if kind == "human":
        return spell_user(words or "[media]")
    if kind == "system":
        return spell_user(words, "system")
    if kind == "tool":
        return spell_result(text(message, "tool_call_id"), words)
    if kind != "ai":
        return FIXED
    calls: list[HostCall] = []
    for call in as_list(message, "tool_calls"):
        name = str(member(call, "name"))
        calls.append(HostCall(_id_of(call), name, member(call, "args")))
    return spell_answer(words, calls) if words or calls else FIXED


def _words(message: object) -> str:
    """The text of a message, whose content is text or a list of blocks."""
    return _TEXT.join(as_list(message, "content"))


def _think(message: object) -> str:
    """What the model thought: it goes out as it is."""
    blocks = as_list(message, "content")
    thoughts = [member(one, key) for one in blocks for key in ("thinking", "reasoning")]
    return "\n".join(one for one in thoughts if isinstance(one, str))


def _read_text(block: object) -> str | None:
    words = block if isinstance(block, str) else member(block, "text")
    return words if isinstance(words, str) else None


def _write_text(old: object, words: str) -> object:
    block = cast("Mapping[str, object]", old) if isinstance(old, Mapping) else {"type": "text"}
    return {**block, "text": words}


_TEXT = HostText(_read_text, _write_text)


def _rebuild(message: object, parts: Mapping[int, JsonObject | None]) -> object:
    """A copy of a message that says something else, or calls with other arguments."""
    wire, content = parts.get(0) or {}, field(message, "content")
    calls = [cast("Mapping[str, object]", call) for call in as_list(message, "tool_calls")]
    now = [_with_arguments(call, wire) for call in calls]
    new = {
        id for id, one, old in zip(map(_id_of, calls), now, calls, strict=True) if one is not old
    }
    blocks = [one for one in as_list(message, "content") if _id_of(one) not in new - {""}]
    blocks = _TEXT.replace(blocks, text_of(wire))
    changes: dict[str, object] = {"content": text_of(wire) if isinstance(content, str) else blocks}
    if new:  # a provider's own spelling of a call would tell the arguments that it had
        own = cast("Mapping[str, object]", field(message, "additional_kwargs"))
        other = {key: value for key, value in own.items() if key != "tool_calls"}
        changes |= {"tool_calls": now, "additional_kwargs": other}
    copy = cast("Callable[..., object]", field(message, "model_copy"))
    return copy(update=changes)


def _id_of(call: object) -> str:
    id = member(call, "id")
    return id if isinstance(id, str) else ""


def _with_arguments(call: Mapping[str, object], wire: JsonObject) -> Mapping[str, object]:
    old = call.get("args")
    now = arguments_after(wire, _id_of(call), old)
    return call if now is old else {**call, "args": now}


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
