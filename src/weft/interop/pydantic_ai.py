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
    HostText,
    arguments_after,
    copy_with,
    make_recall_in,
    rebuild_messages,
    spell_answer,
    spell_result,
    spell_user,
    text_of,
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
        compacted = self.compact(
            messages,
            model=model,
            run=text(ctx, "run_id"),
            fixed=_fixed_text(request_context, messages),
        )
        if compacted is not messages:
            setattr(request_context, "messages", compacted)  # noqa: B010  a foreign object
        return request_context

    def compact(
        self, messages: list[object], *, model: str = "", run: str = "", fixed: str = ""
    ) -> list[object]:
        """The messages of pydantic-ai after the policy; the same list where nothing changed."""
        pieces = [*_spell_messages(messages)]
        wires = [piece.wire for piece in pieces]
        outcome = self.compactor.compact(
            wires, model=model, recalls=True, conversation=run, fixed=fixed
        )
        if outcome is None:
            return messages
        return rebuild_messages(messages, pieces, outcome, _rebuild, _make_note)


def _spell_messages(messages: list[object]) -> Iterator[HostPiece]:
    for index, message in enumerate(messages):
        parts = as_list(message, "parts")
        if field(message, "kind") == "response":
            words = _ANSWER.join(parts)
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
        # a rebuilt part is wrapped as an error again
        spell = cast("Callable[..., str]", field(part, "model_response_str"))
        return spell_result(text(part, "tool_call_id"), spell(wrap_if_error=False))
    if kind == "retry-prompt":
        spell = cast("Callable[..., str]", field(part, "model_response"))
        if field(part, "tool_name") is None:
            return spell_user(spell())
        return spell_result(text(part, "tool_call_id"), spell())
    if kind == "user-prompt" or (kind == "retry-feedback" and isinstance(content, str)):
        return spell_user(_TEXT.join(as_list(part, "content")) or "[media]")
    return FIXED


def _fixed_text(request_context: object, messages: list[object]) -> str:
    """What goes out as it is: instructions, thoughts, and details of why an answer was refused."""
    asked = field(request_context, "model_request_parameters")
    parts = [one for message in messages for one in as_list(message, "parts")]
    fixed = [
        *as_list(asked, "instruction_parts"),
        *(one for one in parts if text(one, "part_kind") == "thinking"),
        *(
            one
            for one in parts
            if text(one, "part_kind") == "retry-feedback" and not text(one, "content")
        ),
    ]
    return "\n".join(str(field(one, "content")) for one in fixed)


def _read_words(piece: object) -> str | None:
    return piece if isinstance(piece, str) else text(piece, "content") or None


def _write_words(old: object, words: str) -> object:
    return words  # a structured value in other words is not that value


def _read_answer(part: object) -> str | None:
    return text(part, "content") if text(part, "part_kind") == "text" else None


def _write_answer(old: object, words: str) -> object:
    if old is not None:
        return copy_with(old, content=words)
    return _HOST.find("pydantic_ai.messages", "TextPart")(words)


_TEXT, _ANSWER = HostText(_read_words, _write_words), HostText(_read_answer, _write_answer)


def _rebuild(message: object, parts: Mapping[int, JsonObject | None]) -> object:
    """A copy of a message with the parts that stay, some of them in other words."""
    old = as_list(message, "parts")
    if field(message, "kind") == "response":
        wire = parts.get(0) or {}
        now = [_with_arguments(one, wire) for one in _ANSWER.replace(old, text_of(wire))]
        return copy_with(message, parts=now)
    return copy_with(
        message, parts=[_with_words(old[at], one) for at, one in sorted(parts.items())]
    )


def _with_arguments(part: object, wire: JsonObject) -> object:
    old = field(part, "args")
    now = arguments_after(wire, text(part, "tool_call_id"), old)
    return part if now is old else copy_with(part, args=now)


def _with_words(part: object, wire: JsonObject | None) -> object:
    if wire is None:
        return part
    words, content = text_of(wire), field(part, "content")
    if text(part, "part_kind") == "user-prompt" and not isinstance(content, str):
        return copy_with(part, content=_TEXT.replace(as_list(part, "content"), words))
    files = as_list(part, "files")
    return copy_with(part, content=[words, *files] if files else words)


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
