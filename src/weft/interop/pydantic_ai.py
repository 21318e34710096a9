"""pydantic-ai: `Agent(..., capabilities=[WeftCapability()])` makes its requests cheaper.

Only requests change: the history that a run keeps and returns is as pydantic-ai made it.
"""

from collections.abc import Callable, Iterator, Mapping
from typing import TYPE_CHECKING, cast

from weft.declare.policy import Policy
from weft.interop.adk.objects import as_list, field, text
from weft.interop.hosts import (
    FIXED,
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

_HOST = Host("pydantic-ai", "WeftCapability")


class CompactingRuns:
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
        compacted = _MESSAGES.compact(
            messages,
            self.compactor,
            model=text(field(request_context, "model"), "model_name"),
            fixed=_fixed_text(request_context, messages),
            conversation=text(ctx, "run_id"),
        )
        if compacted is not messages:
            setattr(request_context, "messages", compacted)  # noqa: B010  a foreign object
        return request_context


def _spell_messages(messages: list[object]) -> Iterator[HostPiece]:
    for index, message in enumerate(messages):
        parts = as_list(message, "parts")
        if field(message, "kind") == "response":
            calls = _CALLS.read(parts)
            yield HostPiece(spell_message("assistant", _ANSWER.join(parts), calls=calls), index)
            continue
        for number, part in enumerate(parts or [None]):
            yield HostPiece(_spell_part(part), index, number)


def _spell_part(part: object) -> JsonObject:
    kind, id = text(part, "part_kind"), text(part, "tool_call_id")
    if kind == "system-prompt":
        return spell_message("system", text(part, "content"))
    if kind == "tool-return":
        # a rebuilt part is wrapped as an error again
        spell = cast("Callable[..., str]", field(part, "model_response_str"))
        return spell_message("tool", spell(wrap_if_error=False), id=id)
    if kind == "retry-prompt":
        spell = cast("Callable[..., str]", field(part, "model_response"))
        return spell_message("tool" if field(part, "tool_name") else "user", spell(), id=id)
    if kind == "user-prompt" or (kind == "retry-feedback" and text(part, "content")):
        return spell_message("user", _TEXT.join(as_list(part, "content")))
    return FIXED


def _fixed_text(request_context: object, messages: list[object]) -> str:
    """What goes out as it is: instructions, thoughts, and details of why an answer was refused."""
    asked = field(request_context, "model_request_parameters")
    parts = [one for message in messages for one in as_list(message, "parts")]
    fixed = as_list(asked, "instruction_parts")
    fixed += [one for one in parts if text(one, "part_kind") == "thinking"]
    refused = [one for one in parts if text(one, "part_kind") == "retry-feedback"]
    fixed += [one for one in refused if not text(one, "content")]
    return "\n".join(str(field(one, "content")) for one in fixed)


def _read_words(piece: object) -> str | None:
    return piece if isinstance(piece, str) else text(piece, "content") or None


def _write_words(_: object, words: str) -> str:
    return words  # a structured value in other words is not that value


def _read_answer(part: object) -> str | None:
    return text(part, "content") if text(part, "part_kind") == "text" else None


def _write_answer(old: object, words: str) -> object:
    if old is not None:
        return copy_with(old, content=words)
    return _HOST.find("pydantic_ai.messages", "TextPart")(words)


def _rebuild(message: object, parts: Mapping[int, JsonObject | None]) -> object:
    """A copy of a message with the parts that stay, some of them in other words."""
    old, wire = as_list(message, "parts"), parts.get(0) or {}
    if field(message, "kind") == "response":
        now = _CALLS.rebuild(_ANSWER.replace(old, text_of(wire)), wire)
    else:
        now = [_with_words(old[at], one) for at, one in sorted(parts.items())]
    return copy_with(message, parts=now)


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


_TEXT = HostText(_read_words, _write_words)
_ANSWER = HostText(_read_answer, _write_answer)
_CALLS = HostCalls("tool_call_id", "tool_name", "args", kind=("part_kind", "tool-call"))
_MESSAGES = HostMessages(_spell_messages, _rebuild, _make_note)

if TYPE_CHECKING:
    WeftCapability = CompactingRuns
else:
    __getattr__ = _HOST.offer(CompactingRuns, "pydantic_ai.capabilities", "AbstractCapability")
