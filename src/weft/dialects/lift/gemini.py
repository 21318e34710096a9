"""Answers of Gemini generateContent: candidates with parts, whole or chunk by chunk.

The log has this provider's own format, so most parts are read as they are. What a part has
beyond that stays with it and goes back with it.
"""

from collections.abc import Callable

import msgspec
from msgspec.structs import replace

from weft.content import (
    Blob,
    CodeExecutionResult,
    Content,
    ExecutableCode,
    FileData,
    FunctionCall,
    Part,
    opaque_part,
)
from weft.dialects.difference import difference
from weft.dialects.lift.failure import failure, tells_error, unreadable
from weft.dialects.lift.gemini_stream import AnswerStream
from weft.dialects.lift.shapes import (
    call_of,
    kept_in,
    object_in,
    objects_in,
    text_in,
    without,
)
from weft.ir import ModelResponse
from weft.session import Usage
from weft.session.provenance import Provenance
from weft.values import Json, JsonObject

NAME = "gemini"

_GOOD = frozenset(("STOP", "MAX_TOKENS", "CONTINUATION"))
_REASONS = _GOOD | frozenset(
    ("SAFETY", "RECITATION", "LANGUAGE", "OTHER", "BLOCKLIST", "PROHIBITED_CONTENT", "SPII",
     "MALFORMED_FUNCTION_CALL", "IMAGE_SAFETY", "UNEXPECTED_TOOL_CALL", "TOO_MANY_TOOL_CALLS",
     "IMAGE_PROHIBITED_CONTENT", "NO_IMAGE", "IMAGE_RECITATION", "IMAGE_OTHER",
     "MALFORMED_RESPONSE")
)  # fmt: skip

_ANY = "application/octet-stream"
_READ = ("candidates", "usageMetadata", "modelVersion")
_METADATA = ("content", "finishReason", "groundingMetadata", "citationMetadata", "logprobsResult")
_COUNTS = {
    "promptTokenCount", "candidatesTokenCount", "totalTokenCount", "cachedContentTokenCount",
    "thoughtsTokenCount", "toolUsePromptTokenCount",
}  # fmt: skip
_DETAILS = {
    "promptTokensDetails", "candidatesTokensDetails", "cacheTokensDetails",
    "toolUsePromptTokensDetails", "trafficType",
}  # fmt: skip


def lift(body: JsonObject) -> ModelResponse:
    """What a whole answer says; the first candidate is the answer."""
    if tells_error(body):
        raise failure(NAME, None, body)
    candidates = objects_in(body.get("candidates"))
    if not candidates and not ("promptFeedback" in body or "usageMetadata" in body):
        raise unreadable(NAME, "the answer has no candidates")
    first = candidates[0] if candidates else {}
    parts = _parts(first)
    rest = without(body, *_READ)
    reason = text_in(first.get("finishReason"))
    finish = (reason if reason in _REASONS else "OTHER") if reason else None
    if reason and finish != reason:
        rest["finishReason"] = reason
    average = first.get("avgLogprobs")
    beside = without(first, *_METADATA)
    if isinstance(average, (int, float)):
        beside.pop("avgLogprobs", None)
    if beside:
        rest["candidate"] = beside
    if len(candidates) > 1:
        others: list[Json] = [*candidates[1:]]
        rest["candidates"] = others
    usage, spent = _usage(object_in(body.get("usageMetadata")))
    if spent:
        rest["usageMetadata"] = spent
    blocked = text_in(object_in(body.get("promptFeedback")).get("blockReason"))
    if blocked and not candidates:
        finish = blocked if blocked in _REASONS else "OTHER"
    code, message = _error(first, finish, body, said=any(part.kind != "empty" for part in parts))
    return ModelResponse(
        content=Content(parts, "model") if parts else None,
        finish_reason=finish,
        error_code=code,
        error_message=message,
        usage=usage,
        model_version=text_in(body.get("modelVersion")) or None,
        custom_metadata=Provenance(rest=rest).onto(None) if rest else None,
        grounding_metadata=object_in(first.get("groundingMetadata")) or None,
        citation_metadata=object_in(first.get("citationMetadata")) or None,
        logprobs_result=object_in(first.get("logprobsResult")) or None,
        avg_logprobs=float(average) if isinstance(average, (int, float)) else None,
    )


def _parts(candidate: JsonObject) -> tuple[Part, ...]:
    content = object_in(candidate.get("content"))
    role = content.get("role") or "model"
    if role != "model":
        raise unreadable(NAME, f"the answer has the role {role!r} instead of 'model'")
    parts = content.get("parts") or []
    if not isinstance(parts, list):
        raise unreadable(NAME, "the answer's parts are no list")
    return tuple(part_of(part) for part in parts)


def part_of(given: Json) -> Part:
    """One part of an answer as a part of the log."""
    if not isinstance(given, dict):
        raise unreadable(NAME, "a part of the answer is no object")
    for field, read in _READERS.items():
        value = given.get(field)
        if isinstance(value, dict):
            part = read(given, value)
            if part is not None:
                return part
    text, signature = given.get("text"), _signature(given)
    if isinstance(text, str) and given.get("thought") is True:
        return _thought(given, text, signature)
    if isinstance(text, str) and text:
        return _kept(Part(text), {"text": text}, given)
    if signature and given.keys() <= {"text", "thought", "thoughtSignature"}:
        return _thought(given, "", signature)
    return Part("") if given == {"text": ""} else opaque_part(NAME, given)


def _signature(given: JsonObject) -> str | None:
    return text_in(given.get("thoughtSignature")) or None


def _kept(part: Part, made: JsonObject, given: JsonObject) -> Part:
    """The part, signed, with what it lacks of the form it was given in once it is `made` again."""
    signature = _signature(given)
    if signature:
        made = {**made, "thoughtSignature": signature}
    metadata = kept_in(NAME, difference(made, given) or None)
    if signature is None and metadata is None:
        return part
    return replace(part, thought_signature=signature, part_metadata=metadata)


def _thought(given: JsonObject, text: str, signature: str | None) -> Part:
    """A thought, or nothing but a signature; one that is unsigned goes back as well."""
    made: JsonObject = {"text": text, "thought": True} if text else {"text": ""}
    if signature:
        made["thoughtSignature"] = signature
    kept = difference(made, given)
    return Part(
        text if "text" in given else None,
        thought=True if given.get("thought") else None,
        thought_signature=signature,
        part_metadata=kept_in(NAME, kept if kept or signature is None else None),
    )


def _call(given: JsonObject, call: JsonObject) -> Part | None:
    name = text_in(call.get("name"))
    arguments = call.get("args", {})
    call_id = text_in(call.get("id")) or None
    made: JsonObject = {"name": name, "args": arguments}
    if call_id and not call_id.startswith("adk-"):
        made["id"] = call_id
    whole: JsonObject = {"functionCall": made}
    signature = _signature(given)
    if signature:
        whole["thoughtSignature"] = signature
    kept = difference(whole, given) if name else None
    return call_of(NAME, FunctionCall(name=name, id=call_id), arguments, kept or None, signature)


def _tool_call(given: JsonObject, asked: JsonObject) -> Part | None:
    """A call of the provider's own tool, which stands in the log as it is."""
    if not given.keys() <= {"toolCall", "thoughtSignature"}:
        return None
    return Part(tool_call=asked, thought_signature=_signature(given))


def _tool_response(given: JsonObject, came: JsonObject) -> Part | None:
    if not given.keys() <= {"toolResponse", "thoughtSignature"}:
        return None
    return Part(tool_response=came, thought_signature=_signature(given))


def _inline(given: JsonObject, blob: JsonObject) -> Part | None:
    data, mime_type = blob.get("data"), text_in(blob.get("mimeType"))
    if not isinstance(data, str):
        return None
    made: JsonObject = {"inlineData": {"mimeType": mime_type or _ANY, "data": data}}
    held = Blob(mime_type or None, data, text_in(blob.get("displayName")) or None)
    return _kept(Part(inline_data=held), made, given)


def _file(given: JsonObject, file: JsonObject) -> Part | None:
    uri, mime_type = file.get("fileUri"), text_in(file.get("mimeType"))
    if not isinstance(uri, str):
        return None
    made: JsonObject = {"fileData": {"mimeType": mime_type or _ANY, "fileUri": uri}}
    held = FileData(uri, mime_type or None, text_in(file.get("displayName")) or None)
    return _kept(Part(file_data=held), made, given)


def _code(given: JsonObject, code: JsonObject) -> Part | None:
    source, language = text_in(code.get("code")), text_in(code.get("language"))
    made: JsonObject = {"executableCode": {"language": language or "PYTHON", "code": source}}
    written = ExecutableCode(source, language or None, text_in(code.get("id")) or None)
    return _kept(Part(executable_code=written), made, given)


def _code_result(given: JsonObject, ran: JsonObject) -> Part | None:
    outcome, output = text_in(ran.get("outcome")), text_in(ran.get("output"))
    made: JsonObject = {
        "codeExecutionResult": {"outcome": outcome or "OUTCOME_OK", "output": output}
    }
    gave = CodeExecutionResult(outcome or None, output or None, text_in(ran.get("id")) or None)
    return _kept(Part(code_execution_result=gave), made, given)


_READERS: dict[str, Callable[[JsonObject, JsonObject], Part | None]] = {
    "functionCall": _call,
    "toolCall": _tool_call,
    "toolResponse": _tool_response,
    "inlineData": _inline,
    "fileData": _file,
    "executableCode": _code,
    "codeExecutionResult": _code_result,
}
"""How each kind of part is read; what gives None is kept as it came."""


def _error(
    first: JsonObject, finish: str | None, body: JsonObject, *, said: bool
) -> tuple[str | None, str | None]:
    """Why there is no answer, or not the one that was asked for."""
    feedback = object_in(body.get("promptFeedback"))
    if not first:
        blocked = text_in(feedback.get("blockReason"))
        if not blocked:
            return "empty_response", "the model gave no candidate"
        why = text_in(feedback.get("blockReasonMessage"))
        return blocked.lower(), why or f"the prompt was blocked ({blocked})"
    if finish is None or finish in ("STOP", "CONTINUATION"):
        return None, None
    why = text_in(first.get("finishMessage"))
    if finish == "MAX_TOKENS":
        words = why or "the model said nothing before it ran out of tokens"
        return (None, None) if said else ("max_tokens", words)
    reason = text_in(first.get("finishReason"))
    return finish.lower(), why or f"the model stopped before it was done ({reason})"


def _usage(counts: JsonObject) -> tuple[Usage | None, JsonObject]:
    """The counts, and what else is said of them."""
    if not counts:
        return None, {}
    taken: JsonObject = {}
    spent: JsonObject = {}
    for key, value in without(counts).items():
        known = key in _DETAILS or (key in _COUNTS and type(value) is int)
        (taken if known else spent)[key] = value
    try:
        return msgspec.convert(taken, Usage), spent
    except msgspec.ValidationError:  # a detail of another kind than it was
        return None, without(counts)


__all__ = ["AnswerStream", "lift", "part_of"]
