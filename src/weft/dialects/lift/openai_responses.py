"""Answers of OpenAI Responses: a list of items, whole or in pieces.

Messages, reasoning and calls become parts of the log, with the fields that only the provider
reads beside them. Every other item, also one that nobody knows, is kept whole.
"""

from weft.content import Content, Part, opaque_part
from weft.dialects.lift.failure import cut_off, failure, tells_error, unreadable
from weft.dialects.lift.openai import Counted, about, called, called_with_text, trouble
from weft.dialects.lift.shapes import (
    kept_in,
    object_in,
    objects_in,
    shown,
    shown_thought,
    text_in,
    without,
)
from weft.dialects.openai_items import summary_of
from weft.ir import ModelResponse
from weft.values import Json, JsonObject

NAME = "openai-responses"

_FINISHES = {"max_output_tokens": "MAX_TOKENS", "content_filter": "SAFETY"}
_GAP = "\n\n"
_READ = ("output", "model", "usage", "error")
_ECHOED = ("instructions", "tools", "text", "prompt")
"""What the answer repeats of the request, and may be as large as it."""


def lift(body: JsonObject) -> ModelResponse:
    """What a whole answer says."""
    if tells_error(body) or body.get("status") == "failed":
        raise failure(NAME, None, body)
    output, status = body.get("output"), body.get("status")
    if not isinstance(output, list):
        raise unreadable(NAME, "the answer has no list of output items")
    if status in ("queued", "in_progress"):
        return _unfinished(body, str(status))
    items = objects_in(output)
    parts = [part for item in items for part in item_parts(item)]
    finish = "STOP"
    if status == "incomplete":
        why = text_in(object_in(body.get("incomplete_details")).get("reason"))
        finish = _FINISHES.get(why, "OTHER") if why else "MAX_TOKENS"
    elif status == "cancelled":
        finish = "OTHER"
    code, message = trouble(parts, finish, _refusal(items))
    usage = object_in(body.get("usage"))
    counted = Counted(usage, "input_tokens", "output_tokens") if usage else None
    return ModelResponse(
        content=Content(tuple(parts), "model") if parts else None,
        finish_reason=finish,
        error_code=code,
        error_message=message,
        usage=counted.usage if counted is not None else None,
        model_version=text_in(body.get("model")) or None,
        custom_metadata=about(counted, without(body, *_READ, *_ECHOED)),
    )


def _unfinished(body: JsonObject, status: str) -> ModelResponse:
    """Work that the provider has only begun: no answer, with the id to fetch it by."""
    return ModelResponse(
        error_code="unfinished",
        error_message=f"the answer {text_in(body.get('id'))} is not there yet: its status is"
        f" {status!r}; leave out `background` to wait for it, or fetch it by its id",
        model_version=text_in(body.get("model")) or None,
        custom_metadata=about(None, without(body, *_READ, *_ECHOED)),
    )


def item_parts(item: JsonObject) -> list[Part]:
    """One item as parts of the log; a message is as many as its content has."""
    match item:
        case {"type": "message", "role": "assistant", "content": content}:
            envelope, pieces = _but(item, "type", "role", "content"), objects_in(content)
            return [_said(piece, envelope) for piece in pieces] or [opaque_part(NAME, item)]
        case {"type": "message", "role": str(role)} if role != "assistant":
            raise unreadable(NAME, f"the answer has the role {role!r} instead of 'assistant'")
        case {"type": "reasoning"}:
            return [_thought(item)]
        case {"type": "function_call"}:
            name = text_in(item.get("name"))
            call_id, arguments = text_in(item.get("call_id")), item.get("arguments")
            held = _but(item, "type", "call_id", "name", "arguments")
            return [called(NAME, call_id, name, arguments, held)]
        case {"type": "custom_tool_call", "name": str(name), "input": text}:
            call_id = text_in(item.get("call_id"))
            held = _but(item, "type", "call_id", "name", "input")
            return [called_with_text(NAME, call_id, name, text, "custom_tool_call", held)]
        case _:
            return [opaque_part(NAME, item)]


def _said(piece: JsonObject, envelope: JsonObject) -> Part:
    """One part of a message's content, with the message's own fields beside it."""
    held: JsonObject = {"message": envelope}
    match piece:
        case {"type": "output_text", "text": str(text)} if text:
            return Part(text, part_metadata=kept_in(NAME, _but(piece, "type", "text") | held))
        case {"type": "refusal", "refusal": str(text)} if text:
            return Part(text, part_metadata=kept_in(NAME, _but(piece, "refusal") | held))
        case _:
            whole: JsonObject = {"type": "message", "role": "assistant", **envelope}
            return opaque_part(NAME, {**whole, "content": [piece]})


def _thought(item: JsonObject) -> Part:
    """Reasoning: its words are the summary's, or its own where they are shown."""
    summary = [text_in(piece.get("text")) for piece in objects_in(item.get("summary"))]
    shown_whole = [text_in(piece.get("text")) for piece in objects_in(item.get("content"))]
    text = _GAP.join(summary or shown_whole)
    held = _but(item, "type", "encrypted_content")
    if held.get("summary") == summary_of(text):
        del held["summary"]
    sealed = text_in(item.get("encrypted_content")) or None
    return Part(text, thought=True, thought_signature=sealed, part_metadata=kept_in(NAME, held))


def _refusal(items: list[JsonObject]) -> str:
    pieces = [piece for item in items for piece in objects_in(item.get("content"))]
    return "".join(text_in(piece.get("refusal")) for piece in pieces)


def _but(held: JsonObject, *names: str) -> JsonObject:
    """The other fields, nulls as well: they go back as they came."""
    return {key: value for key, value in held.items() if key not in names}


class AnswerStream:
    """One streamed answer.

    Its last event carries the body. Items are taken from the events that finish them: some
    servers leave them out of the body, or give other seals there.
    """

    __slots__ = ("_body", "_done")

    def __init__(self) -> None:
        self._body: JsonObject | None = None
        self._done: dict[int, JsonObject] = {}

    def feed(self, name: str, data: JsonObject) -> ModelResponse | None:
        """Take one event; a piece of text or of a thought where it has one."""
        kind = data.get("type") or name
        if kind == "response.output_text.delta":
            text = data.get("delta")
            return shown(text) if isinstance(text, str) and text else None
        match kind:
            case "response.refusal.delta":
                text = text_in(data.get("delta"))
                return shown(text) if text else None
            case "response.reasoning_summary_text.delta" | "response.reasoning_text.delta":
                text = text_in(data.get("delta"))
                return shown_thought(text) if text else None
            case "response.reasoning_summary_part.added":
                return shown_thought(_GAP) if data.get("summary_index") else None
            case "response.output_item.done":
                index, item = data.get("output_index"), data.get("item")
                if isinstance(item, dict):
                    at = index if isinstance(index, int) else len(self._done)
                    self._done[at] = item
            case "response.completed" | "response.incomplete" | "response.cancelled":
                self._body = object_in(data.get("response"))
            case "response.failed":
                raise failure(NAME, None, object_in(data.get("response")) or data)
            case _ if tells_error(data):
                raise failure(NAME, None, data)
            case _:
                pass
        return None

    def ended(self) -> None:
        """Nothing: the last event carries the answer, and no word stands for it."""

    def body(self) -> JsonObject:
        """The answer as it would have come whole."""
        if self._body is None:
            raise cut_off(NAME)
        done = self._done
        output = objects_in(self._body.get("output"))
        if not output:
            output = [done[at] for at in sorted(done)]
        by_id = {told: item for item in done.values() if (told := text_in(item.get("id")))}
        items: list[Json] = []
        for at, item in enumerate(output):
            same = done.get(at, item)
            finished = by_id.get(text_in(item.get("id")), same)
            items.append(finished if finished.get("type") == item.get("type") else item)
        return {**self._body, "output": items}


__all__ = ["AnswerStream", "item_parts", "lift"]
