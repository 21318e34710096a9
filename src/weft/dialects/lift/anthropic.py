"""Answers of Anthropic Messages: content blocks, whole or in pieces.

What Weft has a name for becomes a part of the log; the fields it has none for stay with the
part and go back with it. Blocks that only the provider reads, such as sealed thinking, its own
tools and their results, or a compaction, are kept whole.
"""

from weft.content import Content, FunctionCall, Part, opaque_part
from weft.dialects.lift.failure import cut_off, failure, tells_error, unreadable
from weft.dialects.lift.shapes import (
    call_of,
    count_in,
    kept_in,
    object_in,
    shown,
    shown_thought,
    text_in,
    without,
)
from weft.dialects.openai import read_arguments
from weft.errors import ModelError
from weft.ir import ModelResponse
from weft.session import Usage
from weft.session.provenance import Provenance
from weft.values import Json, JsonObject

NAME = "anthropic"

_STOPS = {
    "end_turn": "STOP",
    "stop_sequence": "STOP",
    "tool_use": "STOP",
    "max_tokens": "MAX_TOKENS",
    "model_context_window_exceeded": "MAX_TOKENS",
    "pause_turn": "CONTINUATION",
    "compaction": "CONTINUATION",
    "refusal": "SAFETY",
}

_READ = ("type", "role", "content", "model", "usage")
_COUNTED = (
    "input_tokens", "output_tokens", "cache_read_input_tokens", "cache_creation_input_tokens",
    "output_tokens_details",
)  # fmt: skip


def lift(body: JsonObject) -> ModelResponse:
    """What a whole message says."""
    if tells_error(body):
        raise failure(NAME, None, body)
    content = body.get("content")
    if not isinstance(content, list):
        raise unreadable(NAME, "the answer has no list of content blocks")
    role = body.get("role", "assistant")
    if role != "assistant":
        raise unreadable(NAME, f"the answer has the role {role!r} instead of 'assistant'")
    parts = tuple(part_of(block) for block in content)
    stop = text_in(body.get("stop_reason"))
    finish = _STOPS.get(stop, "OTHER") if stop else None
    usage = object_in(body.get("usage"))
    rest = without(body, *_READ)
    spent = without(usage, *_COUNTED)
    details = without(object_in(usage.get("output_tokens_details")), "thinking_tokens")
    if details:
        spent["output_tokens_details"] = details
    if spent:
        rest["usage"] = spent
    metadata = Provenance(rest=rest).onto(None) if rest else None
    if written := count_in(usage.get("cache_creation_input_tokens")):
        metadata = Provenance(cache_write=written).onto(metadata)
    code, message = _error(stop, finish, body, said=any(part.kind != "empty" for part in parts))
    return ModelResponse(
        content=Content(parts, "model") if parts else None,
        finish_reason=finish,
        error_code=code,
        error_message=message,
        usage=_usage(usage) if usage else None,
        model_version=text_in(body.get("model")) or None,
        custom_metadata=metadata,
    )


def part_of(block: Json) -> Part:
    """One content block as a part of the log."""
    if not isinstance(block, dict):
        raise unreadable(NAME, "a content block of the answer is no object")
    match block:
        case {"type": "text", "text": str(text)}:
            kept = _but(block, "type", "text")
            blank = text.isspace()  # which only goes back where it came from
            return Part(text, part_metadata=kept_in(NAME, kept if kept or blank else None))
        case {"type": "thinking", "thinking": str(text)}:
            signature = text_in(block.get("signature")) or None
            kept = _but(block, "type", "thinking", "signature" if signature else "")
            return Part(
                text,
                thought=True,
                thought_signature=signature,
                part_metadata=kept_in(NAME, kept if kept or signature is None else None),
            )
        case {"type": "tool_use"}:
            # a call without a name is still a call: whoever answers it says what is wrong
            name, call_id = text_in(block.get("name")), text_in(block.get("id")) or None
            kept = _but(block, "type", "id", "name", "input")
            call = FunctionCall(name=name, id=call_id)
            return call_of(NAME, call, block.get("input"), kept or None)
        case _:
            return opaque_part(NAME, block)


def _but(block: JsonObject, *names: str) -> JsonObject:
    """The other fields, nulls as well: they go back as they came."""
    return {key: value for key, value in block.items() if key not in names}


def _error(
    stop: str, finish: str | None, body: JsonObject, *, said: bool
) -> tuple[str | None, str | None]:
    """Why there is no answer, or not the one that was asked for."""
    if stop == "refusal":
        details = object_in(body.get("stop_details"))
        category, why = text_in(details.get("category")), text_in(details.get("explanation"))
        about = f"the model refused to answer ({category})" if category else ""
        return "refusal", why or about or "the model refused to answer"
    if finish == "MAX_TOKENS" and not said:
        return "max_tokens", f"the model said nothing before it ran out of tokens ({stop})"
    return None, None


def _usage(usage: JsonObject) -> Usage:
    """The counts, with what was cached among the prompt's, and thoughts apart from the rest."""
    read = count_in(usage.get("cache_read_input_tokens")) or 0
    written = count_in(usage.get("cache_creation_input_tokens")) or 0
    asked = (count_in(usage.get("input_tokens")) or 0) + read + written
    output = count_in(usage.get("output_tokens")) or 0
    details = object_in(usage.get("output_tokens_details"))
    thoughts = min(count_in(details.get("thinking_tokens")) or 0, output)
    return Usage(
        prompt_token_count=asked,
        candidates_token_count=output - thoughts,
        total_token_count=asked + output,
        cached_content_token_count=read if "cache_read_input_tokens" in usage else None,
        thoughts_token_count=thoughts if details else None,
    )


class _Growing:
    """A content block that is still coming in; texts are joined once it is whole."""

    __slots__ = ("block", "pieces")

    def __init__(self, block: JsonObject) -> None:
        self.block = block
        self.pieces: dict[str, list[str]] = {}

    def add(self, field: str, piece: str) -> None:
        """More of a field that is a text."""
        self.pieces.setdefault(field, []).append(piece)

    def extend(self, field: str, value: Json) -> None:
        """More of a field of any kind: texts and lists grow, all else takes the place of it."""
        held = self.block.get(field)
        if isinstance(value, str):
            self.add(field, value)
        elif isinstance(value, list) and isinstance(held, list):
            self.block = {**self.block, field: held + value}
        else:
            self.block = {**self.block, field: value}

    def whole(self) -> JsonObject:
        """The block as it would have come whole."""
        block = dict(self.block)
        for field, pieces in self.pieces.items():
            text = "".join(pieces)
            if field == "partial_json":
                if text:
                    arguments = read_arguments(text)
                    block["input"] = text if arguments is None else arguments
            else:
                block[field] = text_in(block.get(field)) + text
        return block


class AnswerStream:
    """One streamed message."""

    __slots__ = ("_blocks", "_message", "_over")

    def __init__(self) -> None:
        self._message: JsonObject | None = None
        self._blocks: dict[int, _Growing] = {}
        self._over = False

    def feed(self, name: str, data: JsonObject) -> ModelResponse | None:
        """Take one event; those that nobody knows say nothing."""
        kind = data.get("type") or name
        if kind == "content_block_delta":
            return self._grow(data)
        if kind == "content_block_start":
            return self._start(data)
        if kind == "message_delta":
            self._settle(data)
        elif kind == "message_start":
            self._message = dict(object_in(data.get("message")))
        elif kind == "message_stop":
            self._over = True
        elif kind == "error" or tells_error(data):
            raise failure(NAME, None, data)
        return None

    def ended(self) -> None:
        """The word of a server that imitates the provider, for the event it should have sent."""
        self._over = True

    def body(self) -> JsonObject:
        """The message as it would have come whole."""
        message = self._message
        if message is None or not (self._over or message.get("stop_reason")):
            raise cut_off(NAME)
        content = message.get("content")
        began: list[Json] = list(content) if isinstance(content, list) else []
        grown: list[Json] = [self._blocks[index].whole() for index in sorted(self._blocks)]
        return {**message, "content": began + grown}

    def _start(self, data: JsonObject) -> ModelResponse | None:
        index, block = data.get("index"), data.get("content_block")
        if not isinstance(index, int) or not isinstance(block, dict):
            raise unreadable(NAME, "the stream has a content_block_start without a block")
        if self._message is None:  # some servers that imitate the provider leave its start out
            self._message = {"type": "message", "role": "assistant"}
        self._blocks[index] = _Growing(block)
        if block.get("type") == "text" and (text := text_in(block.get("text"))):
            return shown(text)
        if block.get("type") == "fallback":  # another model goes on from here
            model = object_in(block.get("to")).get("model")
            self._message["model"] = model or self._message.get("model")
        return None

    def _grow(self, data: JsonObject) -> ModelResponse | None:
        index, delta = data.get("index"), data.get("delta")
        growing = self._blocks.get(index) if isinstance(index, int) else None
        if growing is None or not isinstance(delta, dict):
            raise _out_of_order("content_block_delta")
        kind, words = delta.get("type"), delta.get("text")
        if kind == "text_delta" and isinstance(words, str):  # as nearly all of them are
            growing.add("text", words)
            return shown(words) if words else None
        match delta:
            case {"type": "input_json_delta", "partial_json": str(text)}:
                growing.add("partial_json", text)
            case {"type": "thinking_delta", "thinking": str(text)}:
                growing.add("thinking", text)
                return shown_thought(text) if text else None
            case {"type": "citations_delta", "citation": citation}:
                if not isinstance(growing.block.get("citations"), list):
                    growing.block = {**growing.block, "citations": []}
                growing.extend("citations", [citation])
            case {"type": "signature_delta" | "compaction_delta"}:  # these come in one piece
                growing.block = {**growing.block, **_but(delta, "type")}
            case _:
                for field, value in _but(delta, "type").items():
                    growing.extend(field, value)
        return None

    def _settle(self, data: JsonObject) -> None:
        """How the message ended, and the counts so far; what is left out stays as it was."""
        if self._message is None:
            raise _out_of_order("message_delta")
        usage = {**object_in(self._message.get("usage")), **without(object_in(data.get("usage")))}
        self._message.update(without(data, "type", "delta", "usage"))
        self._message.update(without(object_in(data.get("delta"))))
        if usage:
            self._message["usage"] = usage


def _out_of_order(event: str) -> ModelError:
    return unreadable(NAME, f"the stream has a {event} that nothing came before")
