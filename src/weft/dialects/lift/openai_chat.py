"""Answers of Chat Completions, and of every server that speaks it."""

from weft.content import Content, Part, opaque_part
from weft.dialects.lift.failure import failure, tells_error, unreadable
from weft.dialects.lift.openai import EMPTY, Counted, about, called, called_with_text, trouble
from weft.dialects.lift.openai_chat_stream import AnswerStream
from weft.dialects.lift.shapes import kept_in, object_in, objects_in, text_in, without
from weft.ir import ModelResponse
from weft.values import Json, JsonObject

NAME = "openai-chat"

_FINISHES = {
    "stop": "STOP",
    "tool_calls": "STOP",
    "function_call": "STOP",
    "length": "MAX_TOKENS",
    "content_filter": "SAFETY",
}
_THOUGHTS = ("reasoning_content", "reasoning")
_READ = frozenset(
    ("role", "content", "refusal", "tool_calls", "function_call", "audio", "annotations",
     "reasoning_details", *_THOUGHTS)
)  # fmt: skip
_TOLD = frozenset(("choices", "usage", "model", "error"))


def lift(body: JsonObject) -> ModelResponse:
    """What the first choice says; the others are kept beside it."""
    if tells_error(body):
        raise failure(NAME, None, body)
    choices = objects_in(body.get("choices"))
    if not choices:
        raise unreadable(NAME, "the answer has no choices")
    choice, *others = choices
    if tells_error(choice):
        raise failure(NAME, None, choice)
    message = choice.get("message")
    if not isinstance(message, dict):
        raise unreadable(NAME, "the answer's choice has no message")
    role = message.get("role") or "assistant"
    if role != "assistant":
        raise unreadable(NAME, f"the answer has the role {role!r} instead of 'assistant'")
    parts = message_parts(message)
    told = text_in(choice.get("finish_reason"))
    finish = _FINISHES.get(told, "OTHER") if told else None
    code, error = trouble(parts, finish, text_in(message.get("refusal")))
    usage = object_in(body.get("usage"))
    counted = Counted(usage, "prompt_tokens", "completion_tokens") if usage else None
    rest = without(body, *_TOLD)
    beside: JsonObject = {
        "choices": [*others],
        "choice": without(choice, "message", "logprobs"),
        "message": _unsent(message),
    }
    rest |= {key: value for key, value in beside.items() if value}
    return ModelResponse(
        content=Content(parts=tuple(parts), role="model") if parts else None,
        finish_reason=finish,
        error_code=code,
        error_message=error,
        usage=counted.usage if counted is not None else None,
        model_version=text_in(body.get("model")) or None,
        custom_metadata=about(counted, rest),
        logprobs_result=object_in(choice.get("logprobs")) or None,
    )


def message_parts(message: JsonObject) -> list[Part]:
    """The parts of an assistant's message, and last what only its server understands."""
    parts = [*_thoughts(message), *_content(message.get("content"))]
    if refusal := text_in(message.get("refusal")):
        parts.append(Part(text=refusal, part_metadata=kept_in(NAME, {"said_in": ["refusal"]})))
    if audio := object_in(message.get("audio")):
        parts.append(_audio(audio))
    parts += [_call(call) for call in objects_in(message.get("tool_calls"))]
    if old := object_in(message.get("function_call")):
        parts.append(called(NAME, "", text_in(old.get("name")), old.get("arguments"), EMPTY))
    unknown: JsonObject = {
        key: value for key, value in message.items() if key not in _READ and not _blank(value)
    }
    if unknown:
        parts.append(opaque_part(NAME, unknown))
    return parts


def _thoughts(message: JsonObject) -> list[Part]:
    """Thoughts by the name of the field that carries them; the same text in two fields is one."""
    named: dict[str, list[Json]] = {}
    for name in _THOUGHTS:
        if text := text_in(message.get(name)):
            named.setdefault(text, []).append(name)
    details = message.get("reasoning_details")
    if not named and details:
        named[_detailed(details)] = []
    parts: list[Part] = []
    for text, names in named.items():
        held: JsonObject = {"said_in": names}
        if details and not parts:
            held["reasoning_details"] = details
        parts.append(Part(text=text, thought=True, part_metadata=kept_in(NAME, held)))
    return parts


def _detailed(details: Json) -> str:
    """What the details of a thought say in words."""
    said = (text_in(one.get("text")) or text_in(one.get("summary")) for one in objects_in(details))
    return "".join(said)


def _content(content: Json) -> list[Part]:
    """The content, which is a text, or a list of parts."""
    if isinstance(content, str):
        return [Part(text=content)] if content else []
    parts: list[Part] = []
    for part in objects_in(content):
        kind, text = part.get("type"), text_in(part.get("text"))
        if kind == "text" and text:
            parts.append(Part(text=text, part_metadata=kept_in(NAME, without(part, "text"))))
        elif kind == "thinking":
            told = part.get("thinking")
            text = told if isinstance(told, str) else _detailed(told)
            parts.append(Part(text=text, thought=True, part_metadata=kept_in(NAME, part)))
        elif kind is not None:
            parts.append(opaque_part(NAME, part))
    return parts


def _audio(audio: JsonObject) -> Part:
    """What was spoken, in words; it goes back by its id alone."""
    text, told = text_in(audio.get("transcript")), audio.get("id")
    if not text:
        return opaque_part(NAME, {"audio": {"id": told}})
    return Part(text=text, part_metadata=kept_in(NAME, {"said_in": [], "audio": {"id": told}}))


def _call(call: JsonObject) -> Part:
    told = text_in(call.get("id"))
    if call.get("type") == "custom" or "custom" in call:
        custom = object_in(call.get("custom"))
        held = without(call, "id", "type", "custom")
        if more := without(custom, "name", "input"):
            held["custom"] = more
        name, text = text_in(custom.get("name")), custom.get("input")
        return called_with_text(NAME, told, name, text, "custom", held)
    function = object_in(call.get("function"))
    held = without(call, "id", "type", "function")
    if more := without(function, "name", "arguments"):
        held["function"] = more
    return called(NAME, told, text_in(function.get("name")), function.get("arguments"), held)


def _unsent(message: JsonObject) -> JsonObject:
    """Fields of the message that the provider does not take back, or that say nothing."""
    rest = without(message, *_READ)
    held: JsonObject = {key: value for key, value in rest.items() if _blank(value)}
    if (annotations := message.get("annotations")) is not None:
        held["annotations"] = annotations
    if audio := without(object_in(message.get("audio")), "id", "transcript"):
        held["audio"] = audio
    return held


def _blank(value: Json) -> bool:
    return value is None or value in ("", [], {})


__all__ = ["AnswerStream", "lift", "message_parts"]
