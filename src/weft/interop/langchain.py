"""langchain: `create_agent(..., middleware=[WeftMiddleware()])`; LangGraph: `compact_messages`.

The state of the graph stays as it is: only what a model is sent changes.
"""

from collections.abc import Awaitable, Callable, Iterator, Mapping, Sequence
from typing import TYPE_CHECKING, cast

from weft.declare.policy import Policy
from weft.interop.adk.objects import as_list, field, member, text
from weft.interop.hosts import (
    Host,
    HostCalls,
    HostCompactor,
    HostMessages,
    HostPiece,
    HostText,
    copy_with,
    make_recall_in,
    spell_message,
    text_of,
)
from weft.values import JsonObject

_HOST = Host("langchain", "WeftMiddleware")


class CompactingCalls:
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
        messages, model = as_list(request, "messages"), field(request, "model")
        system = as_list(field(request, "system_message"), "content")
        compacted = _MESSAGES.compact(
            messages,
            self.compactor,
            model=text(model, "model_name") or text(model, "model"),
            fixed="\n".join((_TEXT.join(system), _think(messages))),
            conversation=_name_of(request),
        )
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
    listed = [*messages]
    return _MESSAGES.compact(
        listed,
        compactor or HostCompactor(context, where="compact_messages"),
        model=model,
        recalls=compactor is not None,
        fixed=_think(listed),
        conversation=_name_of({"state": {"messages": listed}}),
    )


def make_tool(compactor: HostCompactor) -> object:
    """The tool `recall`, for what this compactor left out."""
    tool = _HOST.find("langchain_core.tools", "tool")
    runtime = _HOST.find("langchain.tools", "ToolRuntime")
    return tool(make_recall_in(compactor, "runtime", runtime, _name_of), parse_docstring=True)


def _name_of(running: object) -> str:
    """The id of the first message of a state that has one: langgraph gives one to each."""
    messages = as_list(member(running, "state"), "messages")
    return next((id for one in messages if (id := text(one, "id"))), "")


def _spell_messages(messages: list[object]) -> Iterator[HostPiece]:
    for index, message in enumerate(messages):
        kind, words = text(message, "type"), _TEXT.join(as_list(message, "content"))
        calls = _CALLS.read(as_list(message, "tool_calls"))
        id, role = text(message, "tool_call_id"), _ROLES.get(kind, kind)
        yield HostPiece(spell_message(role, words, calls=calls, id=id), index)


def _think(messages: list[object]) -> str:
    """What the model thought: it goes out as it is."""
    blocks = [block for one in messages for block in as_list(one, "content")]
    thoughts = [member(one, key) for one in blocks for key in ("thinking", "reasoning")]
    return "\n".join(one for one in thoughts if isinstance(one, str))


def _read_text(block: object) -> str | None:
    words = block if isinstance(block, str) else member(block, "text")
    return words if isinstance(words, str) else None


def _write_text(old: object, words: str) -> object:
    block: object = {"type": "text"} if old is None or isinstance(old, str) else old
    return copy_with(block, text=words)


def _rebuild(message: object, parts: Mapping[int, JsonObject | None]) -> object:
    """A copy of a message that says something else, or calls with other arguments."""
    wire, calls = parts.get(0) or {}, as_list(message, "tool_calls")
    now, words = _CALLS.rebuild(calls, wire), text_of(wire)
    new = {_CALLS.id_of(one) for one, old in zip(now, calls, strict=True) if one is not old}
    blocks = [one for one in as_list(message, "content") if _CALLS.id_of(one) not in new - {""}]
    is_text = isinstance(field(message, "content"), str)
    changes: dict[str, object] = {"content": words if is_text else _TEXT.replace(blocks, words)}
    if new:  # a provider's own spelling of a call would tell the arguments that it had
        own = cast("Mapping[str, object]", field(message, "additional_kwargs"))
        other = {key: value for key, value in own.items() if key != "tool_calls"}
        changes |= {"tool_calls": now, "additional_kwargs": other}
    return cast("Callable[..., object]", field(message, "model_copy"))(update=changes)


def _make_note(words: str) -> object:
    return _HOST.find("langchain_core.messages", "HumanMessage")(content=words)


_TEXT = HostText(_read_text, _write_text)
_ROLES = {"human": "user", "ai": "assistant"}
_CALLS = HostCalls("id", "name", "args")
_MESSAGES = HostMessages(_spell_messages, _rebuild, _make_note)

if TYPE_CHECKING:
    WeftMiddleware = CompactingCalls
else:
    __getattr__ = _HOST.offer(CompactingCalls, "langchain.agents.middleware", "AgentMiddleware")
