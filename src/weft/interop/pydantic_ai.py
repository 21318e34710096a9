"""pydantic-ai: `Agent(..., capabilities=[WeftCapability()])` makes its requests cheaper.

Only requests change: the history that a run keeps and returns is as pydantic-ai made it.
"""

import functools
from collections.abc import Callable, Iterator, Mapping
from typing import TYPE_CHECKING, cast

from weft.declare.policy import Policy
from weft.interop.adk.objects import as_list, field, text
from weft.interop.hosts import (
    FIXED,
    Host,
    HostCall,
    HostCompactor,
    HostPiece,
    copy_with,
    make_recall_in,
    rebuild_messages,
    spell_answer,
    spell_result,
    spell_user,
)
from weft.values import JsonObject

_HOST = Host("pydantic-ai", "WeftCapability")


class CompactingCapability:
    """The capability's own part, without what pydantic-ai wants of one.

    `compactor` has the numbers: what was compacted, and what was left as it is.
    """

    def __init__(self, context: Policy | None = None) -> None:
        self.compactor = HostCompactor(context, where=_HOST.adapter)

    def get_toolset(self) -> object:
        """The tool `recall`."""
        toolset = _HOST.find("pydantic_ai.toolsets", "FunctionToolset")
        make = _HOST.find("pydantic_ai", "Tool")
        context = _HOST.find("pydantic_ai", "RunContext")
        recall = make_recall_in(self.compactor, "ctx", context, lambda ctx: text(ctx, "run_id"))
        return toolset([make(recall, takes_ctx=True)])

    async def before_model_request(self, ctx: object, request_context: object) -> object:
        """Replace the messages of this one request."""
        messages = as_list(request_context, "messages")
        model = text(field(request_context, "model"), "model_name")
        compacted = self.compact(messages, model=model, run=text(ctx, "run_id"))
        if compacted is not messages:
            setattr(request_context, "messages", compacted)  # noqa: B010  a foreign object
        return request_context

    def compact(self, messages: list[object], *, model: str = "", run: str = "") -> list[object]:
        """The messages of pydantic-ai after the policy; the same list where nothing changed."""
        pieces = [*_spell_messages(messages)]
        wires = [piece.wire for piece in pieces]
        outcome = self.compactor.compact(wires, model=model, recalls=True, conversation=run)
        if outcome is None:
            return messages
        return rebuild_messages(messages, pieces, outcome, _rebuild, _make_note)


def _spell_messages(messages: list[object]) -> Iterator[HostPiece]:
    for index, message in enumerate(messages):
        parts = as_list(message, "parts")
        if field(message, "kind") == "response":
            words = "".join(
                text(one, "content") for one in parts if text(one, "part_kind") == "text"
            )
            calls = [
                HostCall(text(one, "tool_call_id"), text(one, "tool_name"), field(one, "args"))
                for one in parts
                if text(one, "part_kind") == "tool-call"
            ]
            yield HostPiece(spell_answer(words, calls) if words or calls else FIXED, index)
            continue
        if not parts:
            yield HostPiece(FIXED, index)
        for number, part in enumerate(parts):
            yield HostPiece(_spell_part(part), index, number)


def _spell_part(part: object) -> JsonObject:
    kind, content = text(part, "part_kind"), field(part, "content")
    if kind == "system-prompt":
        return spell_user(text(part, "content"), "system")
    if kind == "tool-return":
        spell = cast("Callable[[], str]", field(part, "model_response_str"))
        return spell_result(text(part, "tool_call_id"), spell())
    if kind == "retry-prompt":
        spell = cast("Callable[[], str]", field(part, "model_response"))
        if field(part, "tool_name") is None:
            return spell_user(spell())
        return spell_result(text(part, "tool_call_id"), spell())
    if kind == "user-prompt":
        pieces = [content] if isinstance(content, str) else as_list(part, "content")
        return spell_user("\n".join(one if isinstance(one, str) else "[media]" for one in pieces))
    return FIXED


def _rebuild(message: object, parts: Mapping[int, str | None]) -> object:
    """A copy of a message with the parts that stay, some of them in other words."""
    if field(message, "kind") == "response":
        return _with_text(message, parts.get(0) or "")
    old = as_list(message, "parts")
    new = [_with_content(old[at], words) for at, words in sorted(parts.items())]
    return copy_with(message, parts=new)


def _with_text(message: object, words: str) -> object:
    """An answer that says something else: in its first text."""
    parts = as_list(message, "parts")
    texts = [at for at, one in enumerate(parts) if text(one, "part_kind") == "text"]
    new = [
        _with_content(one, words if at == texts[0] else "") if at in texts else one
        for at, one in enumerate(parts)
    ]
    return copy_with(message, parts=new)


def _with_content(part: object, words: str | None) -> object:
    return part if words is None else copy_with(part, content=words)


def _make_note(words: str) -> object:
    part = _HOST.find("pydantic_ai.messages", "UserPromptPart")(content=words)
    return _HOST.find("pydantic_ai.messages", "ModelRequest")(parts=[part])


@functools.cache
def capability_class() -> type[CompactingCapability]:
    """The capability as pydantic-ai wants it: of its own class."""
    return _HOST.make_class(CompactingCapability, "pydantic_ai.capabilities", "AbstractCapability")


if TYPE_CHECKING:
    WeftCapability = CompactingCapability
else:

    def __getattr__(name: str) -> object:
        if name == _HOST.adapter:
            return capability_class()
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
