"""Sessions as agent libraries keep them: JSON of LangChain, pydantic-ai and google-adk.

The JSON of google-adk's events is Weft's own.
"""

from collections.abc import Iterator, Sequence

import msgspec

from weft.content import (
    Blob,
    FileData,
    Part,
    call_part,
    opaque_part,
    result_part,
    text_part,
    thought_part,
)
from weft.dialects.wire import linked_part, object_in, objects_in, text_at
from weft.errors import SessionError, describe_kind
from weft.recordings.coding import TranscriptLine
from weft.recordings.providers import arguments_of
from weft.recordings.recording import (
    Asides,
    Recording,
    Transcript,
    read_usage,
    readable_media,
    recording_of,
    seconds,
    show_media,
    with_events,
)
from weft.session import Event, Session
from weft.values import Json, JsonObject, compact

# --- LangChain

_LANGCHAIN_HINT = 'messages are {"type": "human", "data": {...}}, flat, or {"lc": 1, ...}'

_SPOKEN = {
    "HumanMessage": "human",
    "AIMessage": "ai",
    "SystemMessage": "system",
    "ToolMessage": "tool",
    "FunctionMessage": "function",
    "ChatMessage": "chat",
    "RemoveMessage": "remove",
}
"""The classes of messages in serialized constructors, and their types."""

_DIALECTS = {"anthropic": "anthropic", "openai": "openai-chat", "google_genai": "gemini"}
"""The dialect that owns signatures and opaque parts, by a library's name of the provider."""


_LANGCHAIN_FIELDS = (
    "content", "type", "id", "example", "role", "response_metadata", "usage_metadata",
    "tool_calls", "invalid_tool_calls", "tool_call_chunks", "chunk_position",
    "tool_call_id", "status", "artifact",
)  # fmt: skip
"""Fields of messages that are read, or that only tell the library about itself."""


def read_langchain(messages: list[Json], id: str, where: str) -> Recording:
    """LangChain's messages as dicts, flat dicts or serialized constructors."""
    transcript = Transcript(where, format="langchain")
    for index, message in enumerate(messages):
        place = f"{where}: messages[{index}]"
        kind, fields = _langchain_fields(message, place)
        _take_langchain(transcript, kind, fields, place)
    return transcript.recording(id)


def _langchain_fields(message: Json, where: str) -> tuple[str, JsonObject]:
    """The type and the fields of a message in each of its forms."""
    if isinstance(message, list) and len(message) == 2 and all(map(_is_text, message)):
        role, content = message  # how graphs are given messages, and older states keep them
        kinds: JsonObject = {"user": "human", "assistant": "ai"}
        return str(kinds.get(str(role), role)), {"content": content}
    if not isinstance(message, dict):
        raise SessionError("a message is an object", where=where, hint=_LANGCHAIN_HINT)
    kind, fields = message.get("type"), message
    if message.get("lc") == 1:
        path = message.get("id")
        name = path[-1] if isinstance(path, list) and path else None
        if kind != "constructor" or not isinstance(name, str):
            raise SessionError(
                f"this serialized object is {kind!r} and no message",
                where=where,
                hint=_LANGCHAIN_HINT,
            )
        kind = _SPOKEN.get(name.removesuffix("Chunk"), name)
        fields = object_in(message.get("kwargs"))
    elif isinstance(message.get("data"), dict):
        fields = object_in(message["data"])
    if isinstance(kind, str) and kind.endswith("MessageChunk"):
        kind = _SPOKEN.get(kind.removesuffix("Chunk"), kind)
    return str(kind), fields


def _is_text(value: Json) -> bool:
    return isinstance(value, str)


def _take_langchain(transcript: Transcript, kind: str, fields: JsonObject, where: str) -> None:
    transcript.place = where
    content = fields.get("content")
    known = {
        "ai": (*_LANGCHAIN_FIELDS, "additional_kwargs"),
        "tool": (*_LANGCHAIN_FIELDS, "name"),
        "function": (*_LANGCHAIN_FIELDS, "name"),
    }.get(kind, _LANGCHAIN_FIELDS)
    transcript.put_fields_aside(fields, known, "message", where)
    if kind == "chat":
        kind = {"user": "human", "assistant": "ai", "system": "system"}.get(
            text_at(fields, "role"), kind
        )
    if kind == "human":
        transcript.user(_blocks(transcript, content, where))
    elif kind == "system":
        transcript.system.append(
            "".join(part.text or "" for part in _blocks(transcript, content, where))
        )
    elif kind == "ai":
        _take_answer(transcript, fields, where)
    elif kind in ("tool", "function"):
        call_id = text_at(fields, "tool_call_id")
        parts = _blocks(transcript, content, where)
        text = "".join(part.text or "" for part in parts)
        failed = fields.get("status") == "error"
        part = result_part(
            text_at(fields, "name") or transcript.name_of(call_id),
            {"error" if failed else "result": text},
            id=call_id or None,
        )
        transcript.results([show_media(part, parts)])
        if fields.get("artifact") is not None:
            transcript.put_aside("`artifact` of a result", "it is never sent to a model", where)
    elif kind == "remove":
        transcript.put_aside("removal", "the message it removes is not in the file", where)
    else:
        raise SessionError(
            f"{kind!r} is not a type of message",
            where=where,
            hint="types are human, ai, system, tool, function and chat",
        )


def _take_answer(transcript: Transcript, fields: JsonObject, where: str) -> None:
    metadata, extra = (
        object_in(fields.get("response_metadata")),
        object_in(fields.get("additional_kwargs")),
    )
    provider = _DIALECTS.get(text_at(metadata, "model_provider"), "")
    transcript.provider = provider
    parts = _blocks(transcript, fields.get("content"), where)
    calls = [
        (text_at(one, "name"), arguments_of(one.get("args")), one)
        for one in objects_in(fields.get("tool_calls"))
    ]
    if not calls:
        listed = objects_in(extra.get("tool_calls"))
        if isinstance(extra.get("function_call"), dict):  # one call, which had no id
            listed.append({"function": extra["function_call"]})
        for one in listed:
            function = object_in(one.get("function"))
            calls.append((text_at(function, "name"), arguments_of(function.get("arguments")), one))
    for one in objects_in(fields.get("invalid_tool_calls")):
        calls.append((text_at(one, "name") or "unnamed", {"arguments": one.get("args")}, one))
        transcript.put_aside(
            "`error` of an invalid call", "the call is kept with the text it was", where
        )
    parts += [call_part(name, args, id=text_at(one, "id") or None) for name, args, one in calls]
    for name in extra.keys() - {"tool_calls", "refusal", "function_call"}:
        transcript.put_aside(f"`additional_kwargs.{name}`", "only its library reads it", where)
    usage = object_in(fields.get("usage_metadata"))
    details = object_in(usage.get("input_token_details"))
    written = details.get("cache_creation")
    transcript.answer(
        parts,
        model=text_at(metadata, "model_name") or text_at(metadata, "model"),
        usage=read_usage(
            usage.get("input_tokens"), usage.get("output_tokens"), details.get("cache_read")
        ),
        cache_write=written if isinstance(written, int) else None,
        finish_reason=_finish(metadata.get("finish_reason") or metadata.get("stop_reason")),
    )


_FINISHES = {
    "length": "MAX_TOKENS",
    "end_turn": "STOP",
    "tool_use": "STOP",
    "tool_call": "STOP",
    "tool_calls": "STOP",
    "content_filter": "SAFETY",
}


def _finish(reason: Json) -> str | None:
    """Why an answer ended, in the words of events."""
    if not isinstance(reason, str) or not reason:
        return None
    return _FINISHES.get(reason.lower(), reason.upper())


def _blocks(transcript: Transcript, content: Json, where: str) -> list[Part]:
    """The parts of a content; calls stand in a field of their own too, and are read there."""
    if content is None:
        return []
    if isinstance(content, str):
        return [text_part(content)] if content else []
    if not isinstance(content, list):
        raise SessionError(
            f"{describe_kind(content)} is not content",
            where=where,
            hint="content is text, or a list",
        )
    parts: list[Part] = []
    for at, block in enumerate(content):
        part = text_part(block) if isinstance(block, str) else _block(transcript, object_in(block))
        if part is not None:
            parts.append(part)
        elif not _is_call(object_in(block)):
            kind = text_at(object_in(block), "type") or "unknown"
            transcript.put_aside(
                f"content block `{kind}`", "no part has this form", f"{where}.content[{at}]"
            )
    return parts


def _is_call(block: JsonObject) -> bool:
    return block.get("type") in ("tool_use", "tool_call", "function_call", "tool_call_chunk")


def _block(transcript: Transcript, block: JsonObject) -> Part | None:
    kind = block.get("type")
    if kind in ("text", "input_text", "output_text") and isinstance(block.get("text"), str):
        return text_part(text_at(block, "text"))
    if kind == "image_url":
        image = block.get("image_url")
        url = image.get("url") if isinstance(image, dict) else image
        return linked_part(url, "image/jpeg") if isinstance(url, str) else None
    if kind == "thinking":
        return thought_part(
            text_at(block, "thinking"),
            signature=text_at(block, "signature") or None,
            provider=transcript.provider,
        )
    if kind == "reasoning" and isinstance(block.get("reasoning"), str):
        return thought_part(text_at(block, "reasoning"))
    if kind in ("image", "file", "audio", "video"):
        source = object_in(block.get("source")) or block
        mime = text_at(source, "mime_type") or text_at(source, "media_type") or f"{kind}/*"
        data = text_at(source, "base64") or text_at(source, "data")
        if data:
            return Part(inline_data=Blob(mime_type=mime, data=data))
        if text_at(source, "url"):
            return linked_part(text_at(source, "url"), "image/jpeg" if kind == "image" else mime)
    return None


def is_langgraph_update(row: JsonObject) -> bool:
    """Whether a line is what a node of LangGraph added, as a stream of updates has it."""
    updates = [*row.values()]
    return len(updates) == 1 and bool(_messages_of_update(updates[0]))


def _messages_of_update(update: Json) -> list[JsonObject]:
    listed = objects_in(object_in(update).get("messages"))
    return (
        listed if all(one.get("type") in _SPOKEN.values() or "lc" in one for one in listed) else []
    )


def read_langgraph_updates(
    lines: Sequence[TranscriptLine], name: str, where: str
) -> Iterator[Recording]:
    """What the nodes of a graph said, one after the other."""
    messages: list[Json] = []
    for line in lines:
        for update in line.value.values():
            messages += _messages_of_update(update)
    yield read_langchain(messages, name, where)


# --- pydantic-ai

_SYSTEMS = {
    "anthropic": "anthropic",
    "openai": "openai-chat",
    "google-gla": "gemini",
    "google-vertex": "gemini",
    "google": "gemini",
    "google-cloud": "gemini",
}
"""The dialect that a provider's name means: whose signatures are whose."""


_PYDANTIC_FIELDS = (
    "kind", "parts", "instructions", "timestamp", "run_id", "conversation_id", "state",
    "usage", "model_name", "provider_name", "provider_url", "provider_response_id",
    "provider_details", "finish_reason",
)  # fmt: skip

_PYDANTIC_PART_FIELDS = (
    "part_kind", "content", "timestamp", "tool_name", "tool_call_id", "outcome", "args", "id",
    "signature", "provider_name", "provider_details", "dynamic_ref", "tool_kind", "retry_message",
)  # fmt: skip
"""Fields that are read, or that only tell the library about itself."""


def read_pydantic_ai(messages: list[Json], id: str, where: str) -> Recording:
    """What `ModelMessagesTypeAdapter` writes: requests and responses with their parts."""
    transcript = Transcript(where, format="pydantic-ai")
    instructions = ""
    for index, message in enumerate(messages):
        place = f"{where}: messages[{index}]"
        if not isinstance(message, dict) or message.get("kind") not in ("request", "response"):
            raise SessionError(
                "this is neither a request nor a response",
                where=place,
                hint='messages are {"kind": "request", "parts": [...]}, as their adapter writes',
            )
        transcript.place = place
        transcript.put_fields_aside(message, _PYDANTIC_FIELDS, "message", place)
        for at, part in enumerate(objects_in(message.get("parts"))):
            known = _PYDANTIC_PART_FIELDS
            transcript.put_fields_aside(part, known, "part", f"{place}.parts[{at}]")
        if message["kind"] == "request":
            instructions = text_at(message, "instructions") or instructions
            _take_pydantic_request(transcript, message, place)
        else:
            _take_pydantic_response(transcript, message, place)
    if instructions:  # a request has the newest ones, after its system prompts
        transcript.system.append(instructions)
    return transcript.recording(id)


def _take_pydantic_request(transcript: Transcript, message: JsonObject, where: str) -> None:
    words: list[Part] = []
    results: list[Part] = []
    time = None
    for at, part in enumerate(objects_in(message.get("parts"))):
        place = f"{where}.parts[{at}]"
        time = time or seconds(part.get("timestamp"))
        content = part.get("content")
        match part.get("part_kind"):
            case "system-prompt":
                transcript.system.append(text_at(part, "content"))
            case "user-prompt":
                words += _prompt(transcript, content, place)
            case "tool-return":
                call_id = text_at(part, "tool_call_id")
                name = text_at(part, "tool_name") or transcript.name_of(call_id)
                response = _wrap_result(content, failed=part.get("outcome") == "failed")
                results.append(result_part(name, response, id=call_id or None))
            case "retry-prompt" if text_at(part, "tool_name"):
                call_id = text_at(part, "tool_call_id")
                results.append(
                    result_part(
                        text_at(part, "tool_name"), {"error": _retry(content)}, id=call_id or None
                    )
                )
            case "retry-prompt":
                words.append(text_part(_retry(content)))
            case kind:
                transcript.put_aside(f"part `{kind}`", "no part has this form", place)
    if results:
        transcript.results(results, time=time)
    if words:
        transcript.user(words, time=time)


def _wrap_result(content: Json, *, failed: bool) -> JsonObject:
    if failed:
        return {"error": content}
    return content if isinstance(content, dict) else {"result": content}


def _retry(content: Json) -> str:
    """What the library tells the model when an answer was refused."""
    if isinstance(content, list):
        lines = compact(content)
        count = len(content)
        errors = "error" if count == 1 else "errors"
        return f"{count} validation {errors}:\n{lines}\n\nFix the errors and try again."
    return f"{content}\n\nFix the errors and try again."


def _prompt(transcript: Transcript, content: Json, where: str) -> Iterator[Part]:
    """The texts and media of a user's prompt."""
    for at, piece in enumerate(content if isinstance(content, list) else [content]):
        place = f"{where}.content[{at}]"
        if isinstance(piece, str):
            yield text_part(piece)
            continue
        fields = object_in(piece)
        kind, mime = text_at(fields, "kind"), text_at(fields, "media_type")
        if kind == "text" or (not kind and isinstance(fields.get("content"), str)):
            yield text_part(text_at(fields, "content"))
        elif kind == "binary" and text_at(fields, "data"):
            # the library writes URL-safe base64, which providers refuse
            data = text_at(fields, "data").replace("-", "+").replace("_", "/")
            yield Part(inline_data=Blob(mime_type=mime, data=data))
        elif kind.endswith("-url") and text_at(fields, "url"):
            family = kind.removesuffix("-url")
            guess = {"image": "image/jpeg", "document": "application/pdf"}.get(
                family, f"{family}/*"
            )
            if mime:
                yield Part(file_data=FileData(file_uri=text_at(fields, "url"), mime_type=mime))
            else:
                yield linked_part(text_at(fields, "url"), guess)
        elif kind == "cache-point":
            transcript.put_aside("cache point", "Weft places cache marks itself", place)
        else:
            transcript.put_aside(f"content `{kind or 'unknown'}`", "no part has this form", place)


def _take_pydantic_response(transcript: Transcript, message: JsonObject, where: str) -> None:
    provider = _SYSTEMS.get(text_at(message, "provider_name"), "")
    details = object_in(message.get("provider_details"))
    transcript.provider = provider
    parts: list[Part] = []
    for at, part in enumerate(objects_in(message.get("parts"))):
        place = f"{where}.parts[{at}]"
        content = part.get("content")
        match part.get("part_kind"):
            case "text":
                if content:
                    parts.append(text_part(str(content)))
            case "thinking":
                signature = text_at(part, "signature") or None
                parts.append(
                    thought_part(str(content or ""), signature=signature, provider=provider)
                )
            case "tool-call":
                parts.append(
                    call_part(
                        text_at(part, "tool_name"),
                        arguments_of(part.get("args")),
                        id=text_at(part, "tool_call_id") or None,
                    )
                )
            case "file" if isinstance(content, dict):
                parts += _prompt(transcript, [content], place)
            case kind:
                # what a provider ran itself: kept with the answer, never sent
                parts.append(opaque_part("pydantic-ai", part))
                transcript.put_aside(
                    f"part `{kind}`", "the provider ran it itself; it is kept but not sent", place
                )
    usage = object_in(message.get("usage"))
    written = usage.get("cache_write_tokens")
    finish = message.get("finish_reason")
    transcript.answer(
        parts,
        time=seconds(message.get("timestamp")),
        model=text_at(message, "model_name"),
        usage=read_usage(
            usage.get("input_tokens", usage.get("request_tokens")),
            usage.get("output_tokens", usage.get("response_tokens")),
            usage.get("cache_read_tokens", object_in(usage.get("details")).get("cached_tokens")),
        ),
        cache_write=written if isinstance(written, int) and written else None,
        finish_reason=_finish(finish),
    )
    if details:
        transcript.put_aside("`provider_details`", "only its library reads it", where)


# --- google-adk


def read_events(
    events: list[Json], id: str, where: str, fields: JsonObject | None = None
) -> Recording:
    """A list of events in ADK's JSON, camelCase or snake_case."""
    around: JsonObject = {"id": id, **(fields or {}), "events": events}
    session = Session.from_json(msgspec.json.encode(around), name=where)
    asides = Asides()
    read: list[Event] = []
    for index, event in enumerate(session.events):
        content = event.content
        if content is not None and content.parts:
            # the place is bound here: the loop goes on
            def report(what: str, why: str, place: str = f"{where}: events[{index}]") -> None:
                asides.add(what, why, place)

            parts = [readable_media(part, report) for part in content.parts]
            if any(one is not part for one, part in zip(parts, content.parts, strict=True)):
                whole = tuple(part for part in parts if part is not None)
                content = msgspec.structs.replace(content, parts=whole)
                event = msgspec.structs.replace(event, content=content)
        read.append(event)
    if asides.collect():
        session = with_events(session, read)
    return recording_of(session)._replace(format="adk", source=where, aside=asides.collect())
