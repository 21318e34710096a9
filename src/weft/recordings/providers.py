"""Requests and messages as providers take them: chat, responses, messages and contents.

A whole request, or only its list of messages, is read by the dialect that would lower it. What the
provider said next to a part stays with the part, so that compiling the session gives the request
again. Coding agents' runs that are plain texts are read here too: everything the user side says
after the task is what a command printed, and becomes the result of a call.

Recorders keep answers in many forms: the JSON that came, the text of its server-sent events, each
chunk as an object, or any of these below `body` with a status. A stream is put together by the
dialect's own reader, so that a streamed answer is the same event as a whole one.
"""

import json
import re
from collections.abc import Callable, Iterator, Mapping
from functools import partial
from typing import cast

import msgspec

from weft.content import Part, call_part, result_part, text_part
from weft.dialects import CHAT, dialect_named, lift, stream_of
from weft.dialects.stream import Events
from weft.dialects.wire import (
    ReadRequest,
    ReadTurn,
    is_encodable,
    object_in,
    objects_in,
    scrub_surrogates,
    text_at,
)
from weft.errors import ModelError, SessionError, UsageError, describe_kind
from weft.recordings.recording import (
    COMMAND,
    HALF_CHARACTER,
    RecordedCall,
    Recording,
    Transcript,
    declared_tools,
    has_sound_schema,
    parse_json,
    tools_of,
    with_fields,
)
from weft.recordings.requests import RequestReader, read_request
from weft.session.provenance import provenance_in
from weft.values import Json, JsonObject, compact

_TASK = 3
"""How many messages set a coding agent its task; later ones of the user side are results."""

LISTS: Mapping[str, str] = {
    "anthropic": "messages",
    "openai-chat": "messages",
    "openai-responses": "input",
    "gemini": "contents",
}
"""Where the messages of a request stand, by dialect."""

_FIELDS = {"anthropic": ("role", "content"), "gemini": ("role", "parts")}
"""The fields of a message in dialects that read no other."""

_ROLES = ("system", "developer", "user", "assistant", "tool", "function")


def read_messages(messages: list[Json], dialect: str, id: str, where: str) -> Recording:
    """A list of messages in a provider's form; nothing is known of options."""
    whole = read_provider({LISTS[dialect]: messages}, dialect, id, where, answered=True)
    return whole._replace(config={})


def is_agents_items(messages: list[JsonObject]) -> bool:
    """Whether items are those of openai-agents for JavaScript; it calls an output a result."""
    return any(
        one.get("type") in ("function_call_result", "hosted_tool_call")
        or (one.get("type") == "function_call" and "callId" in one)
        for one in messages
    )


def read_agents_items(messages: list[Json], id: str, where: str) -> Recording:
    """Items of openai-agents: those of Responses in Python, with names of its own in JavaScript."""
    items: list[Json] = [_item_of_agents(one) if isinstance(one, dict) else one for one in messages]
    return read_messages(items, "openai-responses", id, where)


def _item_of_agents(item: JsonObject) -> JsonObject:
    """An item as the provider has it."""
    data, kind = object_in(item.get("providerData")), text_at(item, "type")
    plain = {key: value for key, value in item.items() if key not in ("providerData", "callId")}
    if "callId" in item:
        plain["call_id"] = item["callId"]
    if kind == "hosted_tool_call" and data.get("type"):
        return {**data, "id": item.get("id"), "status": item.get("status")}
    if kind == "function_call_result":
        output = item.get("output")
        listed = objects_in(output if isinstance(output, list) else [output])
        parts: list[Json] = [*map(_part_of_agents, listed)]
        # one text is written as an object of its own
        is_text = isinstance(output, dict) and output.get("type") == "text"
        spoken = output.get("text") if isinstance(output, dict) and is_text else parts or output
        plain.pop("name", None)
        return {**plain, "type": "function_call_output", "output": spoken}
    if kind == "reasoning" and "summary" not in item:
        texts = [text_at(one, "text") for one in objects_in(item.get("content"))]
        summary: list[Json] = [{"type": "summary_text", "text": one} for one in texts]
        sealed = {key: data[key] for key in ("encrypted_content",) if key in data}
        return {"type": kind, "id": item.get("id"), "summary": summary, **sealed}
    if isinstance(item.get("content"), list):
        plain["content"] = [*map(_part_of_agents, objects_in(item.get("content")))]
    return plain


def _part_of_agents(part: JsonObject) -> JsonObject:
    """A part of a message or of an output as the provider has it."""
    plain: JsonObject = {
        key: part[key] for key in part if key not in ("providerData", "image", "file")
    }
    if plain.get("type") == "text":
        plain["type"] = "input_text"
    for name, inline in (("image", "image_url"), ("file", "file_data")):
        source = part.get(name)
        if source is not None:
            plain["type"] = f"input_{name}"
        if isinstance(source, str):
            plain[inline] = source
        fields = {"id": "file_id", "fileId": "file_id", "url": f"{name}_url"}
        named = object_in(source)
        plain |= {fields[key]: named[key] for key in named if key in fields}
    return plain


def read_provider(
    request: JsonObject,
    dialect: str,
    id: str,
    where: str,
    *,
    answered: bool = False,
    response: Json = None,
    model: str = "",
) -> Recording:
    """A request that a provider took, and its answer if that was recorded too.

    `model` is the one it was sent to, where the request does not say.
    """
    if dialect == CHAT:
        request = _sound_chat(request, where)
    target = dialect_named(dialect)
    named = request.get("model")
    name = named if isinstance(named, str) else model
    try:
        spelled = target.spell(request)
        reading = target.read(spelled)
        config = read_request(dialect, request, name).config
    except UsageError as error:
        raise SessionError(
            error.message, where=f"{where}: {error.where}", hint=error.hint
        ) from None
    transcript = Transcript(where, format=dialect, provider=dialect)
    transcript.model = name
    transcript.config = {key: value for key, value in config.items() if value is not None}
    system_role = object_in(spelled.get("systemInstruction")).get("role")
    if system_role is not None and reading.system:  # it says nothing, and comes back all the same
        extra = object_in(transcript.config.get("extra"))
        own = {**object_in(extra.get(dialect)), "systemInstruction": {"role": system_role}}
        transcript.config["extra"] = {**extra, dialect: cast("Json", own)}
    transcript.system += [one.part.text or "" for one in reading.system]
    reader = _Turns(transcript, RequestReader(target, name))
    for index, turn in enumerate(reading.turns):
        reader.take(turn, f"{where}: {target.traits.turns}[{index}]")
    if dialect in _FIELDS:
        listed = request.get(LISTS[dialect])
        for index, message in enumerate(listed if isinstance(listed, list) else ()):
            place = f"{where}: {LISTS[dialect]}[{index}]"
            transcript.put_fields_aside(object_in(message), _FIELDS[dialect], "message", place)
    _name_joins(transcript, reading, dialect, f"{where}: {target.traits.turns}")
    if reading.output is not None:
        transcript.output = reading.output.schema
    transcript.tools = tools_of(reading.tools)
    beside = [reader.reader.tool(tool).kept for tool in reading.tools]
    transcript.declared = declared_tools(zip(reading.tools, beside, strict=True), dialect)
    for tool, fields in zip(reading.tools, beside, strict=True):
        if tool.own:
            transcript.put_aside(f"tool `{tool.name}`", "the provider runs it itself", where)
        elif not has_sound_schema(tool):
            why = "they are not a JSON Schema; the request is shown as it was"
            transcript.put_aside(f"parameters of the tool `{tool.name}`", why, where)
        for name in fields or {}:
            transcript.put_aside(f"`{name}` of a tool", "an agent's tool has no such field", where)
    if response is not None:
        answered = take_answer(transcript, dialect, response, f"{where}: response") or answered
    recording = transcript.recording(id, answered=answered)
    # a request that ends with an answer, and has none next to it, is a conversation as it ended
    if transcript.reply is None and (answered or not transcript.is_waiting):
        return recording
    follows = text_at(request, "previous_response_id")
    call = RecordedCall(transcript.reply or "", follows, failed=transcript.failed)
    return recording._replace(call=call)


def _name_joins(transcript: Transcript, reading: ReadRequest, dialect: str, where: str) -> None:
    """Name what a request compiled from the session has in another form, though nothing is lost."""
    turns = [turn for turn in reading.turns if turn.role != "system"]
    if not turns or turns[0].role == "model":
        transcript.put_aside(
            "beginning without the user", "a short turn of the user's is sent first", where
        )
    before = ""
    for at, turn in enumerate(reading.turns):
        if turn.role == before and dialect in _FIELDS:  # the others take them as they come
            transcript.put_aside(
                "border of two turns of one side", "they are sent as one turn", f"{where}[{at}]"
            )
        texts = [one for one in turn.parts if one.part.kind == "text"]
        if turn.role == "user" and dialect == CHAT and 1 < len(texts) == len(turn.parts):
            transcript.put_aside(
                "border of two texts of one message", "they are sent as one text", f"{where}[{at}]"
            )
        before = turn.role


class _Turns:
    """Takes the turns of one request."""

    def __init__(self, transcript: Transcript, reader: RequestReader) -> None:
        self.transcript = transcript
        self.reader = reader

    def take(self, turn: ReadTurn, where: str) -> None:
        """What one side said together. A user's words and results are events of their own."""
        transcript, reader = self.transcript, self.reader
        transcript.place = where
        parts: list[Part] = []
        for at, one in enumerate(turn.parts):
            beside = {**reader.beside(one, turn.role)}
            part = one.part
            if part.kind == "empty" and one.wire is not None and (one.wire or beside):
                names = ", ".join(sorted(one.wire)) or "empty"
                transcript.put_aside(f"part ({names})", "no part has this form", f"{where}[{at}]")
                continue
            if turn.role == "model":
                part = with_fields(part, reader.name, beside)
            else:
                if part.function_response is not None and "name" in beside:
                    part = with_fields(part, reader.name, {"name": beside.pop("name")})
                for name, value in beside.items():
                    if value:  # false and null say no more than nothing
                        transcript.put_aside(
                            f"`{name}` of a {part.kind}",
                            "no part has such a field",
                            f"{where}[{at}]",
                        )
            parts.append(part)
        if turn.role == "system":
            transcript.system += [part.text or "" for part in parts]
            transcript.put_aside(
                "place of a later system text", "an agent's instruction stands first", where
            )
        elif turn.role == "model":
            transcript.answer(parts, model=reader.model)
        else:
            results = [part for part in parts if part.function_response is not None]
            words = [part for part in parts if part.function_response is None]
            if results:
                transcript.results(results)
            if words:
                transcript.user(words)


def _sound_chat(request: JsonObject, where: str) -> JsonObject:
    """The request with messages that the dialect reads; an error names any other."""
    listed = request.get("messages")
    messages: list[Json] = []
    for index, message in enumerate(listed if isinstance(listed, list) else []):
        place = f"{where}: messages[{index}]"
        if not isinstance(message, dict):
            raise SessionError(
                "a message is an object", where=place, hint='{"role": "user", "content": "..."}'
            )
        role, content = message.get("role"), message.get("content")
        if role not in _ROLES:
            raise SessionError(
                f"{role!r} is not a role", where=place, hint=f"roles are {', '.join(_ROLES)}"
            )
        if not isinstance(content, str | list | None):
            raise SessionError(
                f"{describe_kind(content)} is not content",
                where=place,
                hint="content is text, or a list",
            )
        if any(one.get("type") == "thinking" for one in objects_in(content)):
            message = _chat_message(message)  # Mistral's and Cohere's thoughts
            content = cast("str | list[Json] | None", message.get("content"))
        message = {**message, "content": _pieces(content, place)}
        if role == "function":  # what results were called before calls had ids
            message["role"] = "tool"
        calls = message.get("tool_calls")
        if isinstance(calls, list):
            message["tool_calls"] = [
                _sound_call(one) if isinstance(one, dict) else one for one in calls
            ]
        _require_calls(message, place)
        answers = objects_in(message.get("tool_responses"))
        # AutoGen keeps what several calls returned in one message
        messages += [{"role": "tool", **one} for one in answers] or [message]
    return {**request, "messages": messages}


def _sound_call(call: JsonObject) -> JsonObject:
    """A call as it is sent; libraries leave out the object around its function."""
    if "function" in call or "custom" in call or not isinstance(call.get("name"), str):
        return call
    arguments = call.get("args", call.get("arguments"))
    text = arguments if isinstance(arguments, str) else compact(arguments or {})
    function: JsonObject = {"name": call["name"], "arguments": text}
    return {"id": call.get("id"), "type": "function", "function": function}


def _pieces(content: Json, where: str) -> Json:
    """The content with its bare texts as pieces."""
    if not isinstance(content, list):
        return content
    pieces: list[Json] = []
    for piece in content:
        if isinstance(piece, str):
            pieces.append({"type": "text", "text": piece})
        elif isinstance(piece, dict) and ("type" in piece or "text" in piece):
            pieces.append({"type": "text", **piece})
        else:
            raise SessionError(
                "a piece of this content cannot be read",
                where=where,
                hint='pieces are {"type": "text", "text": ...} or {"type": "image_url", ...}',
            )
    return pieces


def _require_calls(message: JsonObject, where: str) -> None:
    calls = message.get("tool_calls")
    for index, call in enumerate(calls if isinstance(calls, list) else ()):
        function = None
        if isinstance(call, dict):
            function = call.get("function", call.get("custom"))
        if not isinstance(function, dict) or not function.get("name"):
            raise SessionError(
                "a call has no function name",
                where=f"{where}.tool_calls[{index}]",
                hint='calls are {"id": ..., "function": {"name": ..., "arguments": "{}"}}',
            )


# --- Bedrock's Converse, whose blocks are Anthropic's under other names


def is_bedrock(messages: list[JsonObject]) -> bool:
    """Whether a list has Converse's blocks: each has one field, which says what it is."""
    blocks = [block for one in messages for block in objects_in(one.get("content"))]
    if not all(one.get("role") in ("user", "assistant") for one in messages):
        return False
    if any("type" in block for block in blocks):
        return False
    return any(block.keys() & _CONVERSE.keys() for block in blocks)


def is_converse(request: JsonObject, response: Json = None) -> bool:
    """Whether a request is to Converse, also one of plain texts."""
    answered = "message" in object_in(object_in(unwrap_answer(response)).get("output"))
    if not answered and not request.keys() & {"modelId", "inferenceConfig"}:
        return False
    if "anthropic_version" in request:
        return False
    messages = objects_in(request.get("messages"))
    blocks = [block for one in messages for block in objects_in(one.get("content"))]
    return bool(blocks) and not any("type" in block for block in blocks)


def read_bedrock(
    request: JsonObject, id: str, where: str, *, answered: bool = False, response: Json = None
) -> Recording:
    """A request to Converse, and its answer if that was recorded too."""
    model = bedrock_model(text_at(request, "modelId"))
    messages = [
        {**one, "content": [*map(_converse_block, objects_in(one.get("content")))]}
        for one in objects_in(request.get("messages"))
    ]
    wire: JsonObject = {"messages": cast("Json", messages), **({"model": model} if model else {})}
    system = [_converse_block(one) for one in objects_in(request.get("system"))]
    if system:
        wire["system"] = [one for one in system if one.get("type") == "text"]
    tools = [
        object_in(one.get("toolSpec"))
        for one in objects_in(object_in(request.get("toolConfig")).get("tools"))
    ]
    if any(tools):
        wire["tools"] = [
            {
                "name": one.get("name"),
                "description": one.get("description") or "",
                "input_schema": object_in(one.get("inputSchema")).get("json") or {},
            }
            for one in tools
            if one
        ]
    limit = object_in(request.get("inferenceConfig")).get("maxTokens")
    if isinstance(limit, int):
        wire["max_tokens"] = limit
    recording = read_provider(
        wire, "anthropic", id, where, answered=answered, response=_converse_answer(response, model)
    )
    return recording._replace(format="bedrock")


def bedrock_model(id: str) -> str:
    """The name of a model as others call it: without region, maker and version."""
    return re.sub(r"^(?:[a-z-]+\.)?anthropic\.|-v\d+(?::\d+)?$", "", id)


def _converse_answer(response: Json, model: str) -> Json:
    """What Converse answered, as Anthropic would have."""
    answer = unwrap_answer(response)
    body = object_in(cast("Json", parse_json(answer)) if isinstance(answer, str) else answer)
    message = object_in(object_in(body.get("output")).get("message"))
    if not message:
        return response
    usage = object_in(body.get("usage"))
    return {
        "type": "message",
        "role": "assistant",
        "model": model,
        "content": [*map(_converse_block, objects_in(message.get("content")))],
        "stop_reason": body.get("stopReason"),
        "usage": {
            "input_tokens": usage.get("inputTokens") or 0,
            "output_tokens": usage.get("outputTokens") or 0,
            "cache_read_input_tokens": usage.get("cacheReadInputTokens") or 0,
            "cache_creation_input_tokens": usage.get("cacheWriteInputTokens") or 0,
        },
    }


def _converse_block(block: JsonObject) -> JsonObject:
    """A block under Anthropic's name for it; what has none stays as it is, and is named."""
    for key, rewrite in _CONVERSE.items():
        inner = block.get(key)
        if isinstance(inner, dict):
            return rewrite(inner)
    return {"type": "text", **block} if "text" in block else block


def _converse_result(inner: JsonObject) -> JsonObject:
    content: list[Json] = [
        {"type": "text", "text": compact(one["json"])} if "json" in one else _converse_block(one)
        for one in objects_in(inner.get("content"))
    ]
    result: JsonObject = {"type": "tool_result", "tool_use_id": inner.get("toolUseId")}
    if inner.get("status") == "error":
        result["is_error"] = True
    return {**result, "content": content}


def _converse_thought(inner: JsonObject) -> JsonObject:
    text = object_in(inner.get("reasoningText"))
    if not text:
        return {"type": "redacted_thinking", "data": inner.get("redactedContent")}
    thought: JsonObject = {"type": "thinking", "thinking": text.get("text") or ""}
    return {**thought, "signature": text.get("signature") or ""}


def _converse_media(family: str, inner: JsonObject) -> JsonObject:
    import mimetypes  # few requests have media

    source = object_in(inner.get("source"))
    form = text_at(inner, "format")
    guessed = form if "/" in form else mimetypes.guess_type(f"x.{form}")[0]
    uri = text_at(object_in(source.get("s3Location")), "uri")
    data: JsonObject = {
        "type": "base64",
        "media_type": guessed or f"{family}/*",
        "data": source.get("bytes"),
    }
    # the provider whose form this becomes has pictures and documents
    kind = "image" if family == "image" else "document"
    block: JsonObject = {"type": kind, "source": {"type": "url", "url": uri} if uri else data}
    return {**block, "title": inner["name"]} if inner.get("name") else block


_CONVERSE: Mapping[str, Callable[[JsonObject], JsonObject]] = {
    "toolUse": lambda inner: {
        "type": "tool_use",
        "id": inner.get("toolUseId"),
        "name": inner.get("name"),
        "input": inner.get("input") or {},
    },
    "toolResult": _converse_result,
    "reasoningContent": _converse_thought,
    "image": partial(_converse_media, "image"),
    "document": partial(_converse_media, "document"),
    "video": partial(_converse_media, "video"),
    "audio": partial(_converse_media, "audio"),
}


# --- plain texts


def read_plain(messages: list[Json], id: str, where: str) -> Recording:
    """A coding agent's run as plain texts: `{"role": ..., "text": ...}`."""
    transcript = Transcript(where, format="plain")
    waiting = ""
    for index, message in enumerate(messages):
        place = f"{where}: messages[{index}]"
        if not isinstance(message, dict) or not isinstance(message.get("text"), str):
            raise SessionError("a message is an object with a text", where=place)
        role, text = message.get("role"), cast("str", message["text"])
        parts = [text_part(text)] if text else []
        if role in ("system", "developer"):
            transcript.system.append(text)
        elif role == "assistant":
            follows = messages[index + 1] if index + 1 < len(messages) else None
            answered = isinstance(follows, dict) and follows.get("role") == "user"
            waiting = f"call_{index}" if answered and index + 1 >= _TASK else ""
            if waiting:
                parts.append(call_part(COMMAND, {}, id=waiting))
            transcript.answer(parts)
        elif role == "user" and waiting:
            transcript.results([result_part(COMMAND, {"result": text}, id=waiting)])
            waiting = ""
        elif role == "user":
            transcript.user(parts)
        else:
            raise SessionError(
                f"{role!r} is not a role", where=place, hint=f"roles are {', '.join(_ROLES)}"
            )
        for name in message.keys() - {"role", "text"}:
            transcript.put_aside(f"`{name}` of a message", "a plain text has no such field", place)
    return transcript.recording(id)


def arguments_of(raw: Json) -> JsonObject:
    """Arguments of a call; those that are not a JSON object stay the text they were."""
    if isinstance(raw, dict):
        return raw
    if raw is None or raw == "":
        return {}
    try:
        parsed = cast("object", msgspec.json.decode(raw)) if isinstance(raw, str) else None
    except (ValueError, RecursionError):
        parsed = None
    return cast("JsonObject", parsed) if isinstance(parsed, dict) else {"arguments": raw}


# --- the answer that was recorded with a request

_SHOWN = 60


def take_answer(
    transcript: Transcript, dialect: str, answer: Json, where: str, *, time: float | None = None
) -> bool:
    """Add the answer to the transcript, or name why not; whether it was added."""
    body = unwrap_answer(answer)
    if body is None:
        return False
    try:
        whole = body_of(body, dialect)
        if not is_encodable(whole):
            transcript.put_aside(*HALF_CHARACTER, where)
            whole = cast("JsonObject", scrub_surrogates(whole))
        response = lift(dialect, whole)
    except ModelError as error:
        transcript.failed = True
        if error.code == "bad_response":
            transcript.put_aside("answer", f"it cannot be read: {error.message}", where)
        else:  # the provider said so, in the middle of its answer
            transcript.leave_out("answer", f"it is an error: {error.message}", where)
        return False
    if response.error_code or response.content is None:
        transcript.failed = True
        why = f"it is an error: {response.error_code or 'empty'}"
        transcript.leave_out("answer", why, where)
        return False
    transcript.reply = text_at(whole, "id")
    notes = provenance_in(response.custom_metadata)
    transcript.answer(
        response.content.parts or (),
        time=time,
        model=response.model_version or transcript.model,
        usage=response.usage,
        cache_write=notes.cache_write,
        cache_lifetime=notes.cache_lifetime,
        finish_reason=response.finish_reason,
        place=where,
    )
    return True


def dialect_of_answer(answer: Json) -> str:
    """Whose answer it is, where its own shape says so; empty where it does not."""
    body = unwrap_answer(answer)
    if isinstance(body, str):
        parsed = parse_json(body)
        body = cast("Json", parsed) if parsed is not None else body
    if isinstance(body, list):
        body = next((one for one in body if one), None)
    if isinstance(body, str):
        return "anthropic" if _BEGINS_STREAM.search(body[:_HEAD]) else ""
    whole = object_in(body)
    data = whole.get("data", whole)
    first = object_in(cast("Json", parse_json(data)) if isinstance(data, str) else data)
    if first.get("type") == "message_start":
        return "anthropic"
    if whole.get("type") == "message" and isinstance(whole.get("content"), list):
        return "anthropic"
    if "choices" in whole or "message" in whole:
        return CHAT
    return "anthropic" if whole.get("type") == "error" and "error" in whole else ""


_HEAD = 2_000
_BEGINS_STREAM = re.compile(r"^event: *message_start|^data: *\{\"type\": *\"message_start\"", re.M)


def unwrap_answer(answer: Json) -> Json:
    """Take the provider's answer out of what a recorder put around it; None if there was none."""
    while isinstance(answer, dict):
        inner = next((key for key in ("body", "string") if key in answer), None)
        # these are a provider's own fields: this is the answer itself
        if inner is None or answer.keys() & {"choices", "content", "candidates", "output"}:
            break
        answer = answer[inner]
    return None if answer in ("", [], {}) else answer


def body_of(answer: Json, dialect: str) -> JsonObject:
    """The whole answer as one object; a ModelError where it cannot be put together."""
    if isinstance(answer, dict):
        return _chat_answer(answer) if dialect == CHAT else answer
    if isinstance(answer, str):
        parsed = parse_json(answer)
        if isinstance(parsed, dict):
            return body_of(cast("JsonObject", parsed), dialect)
        if parsed is None and dialect == CHAT:
            lines = [parse_json(line) for line in answer.splitlines() if line.strip()]
            if lines and all(isinstance(one, dict) for one in lines):
                return body_of(cast("list[Json]", lines), dialect)
        return _assemble_body(_events(answer) if parsed is None else _chunks(parsed), dialect)
    if dialect == CHAT and isinstance(answer, list):
        chunks = objects_in(answer)
        if chunks and all("done" in one and "message" in one for one in chunks):
            return _chat_answer(_join_ollama(chunks))
    return _assemble_body(_chunks(answer), dialect)


def _chat_answer(body: JsonObject) -> JsonObject:
    """An answer as OpenAI's: others that take such requests have their message apart.

    Ollama and Cohere name the counts in their own way, and Mistral has thoughts among the pieces.
    """
    message = body.get("message")
    if "choices" not in body and isinstance(message, dict):
        counts = object_in(object_in(body.get("usage")).get("tokens"))
        usage: JsonObject = {
            "prompt_tokens": body.get("prompt_eval_count", counts.get("input_tokens")),
            "completion_tokens": body.get("eval_count", counts.get("output_tokens")),
        }
        reason = body.get("done_reason", body.get("finish_reason"))
        choice: JsonObject = {
            "index": 0,
            "message": _chat_message(message),
            "finish_reason": reason.lower() if isinstance(reason, str) else "stop",
        }
        whole: JsonObject = {"id": body.get("id"), "model": body.get("model"), "choices": [choice]}
        if None not in usage.values():
            whole["usage"] = usage
        return {key: value for key, value in whole.items() if value is not None}
    choices = body.get("choices")
    if not isinstance(choices, list) or not any(
        isinstance(object_in(one.get("message")).get("content"), list)
        for one in objects_in(choices)
    ):
        return body
    plain: list[Json] = [
        {**one, "message": _chat_message(object_in(one.get("message")))}
        for one in objects_in(choices)
    ]
    return {**body, "choices": plain}


def _chat_message(message: JsonObject) -> JsonObject:
    """A message of an answer with its words as one text, its thoughts apart, its calls as sent."""
    pieces = message.get("content")
    listed = objects_in(pieces) if isinstance(pieces, list) else []
    thoughts = [_text_below(one.get("thinking")) for one in listed if one.get("type") == "thinking"]
    thoughts += [text for key in ("thinking", "tool_plan") if (text := text_at(message, key))]
    plain = {key: value for key, value in message.items() if key not in ("thinking", "tool_plan")}
    if listed:
        plain["content"] = "".join(
            text_at(one, "text") for one in listed if one.get("type") in ("text", None)
        )
    if any(thoughts) and "reasoning_content" not in message:
        plain["reasoning_content"] = "\n\n".join(filter(None, thoughts))
    calls = objects_in(message.get("tool_calls"))
    if calls:
        plain["tool_calls"] = [_call_of_answer(call, at) for at, call in enumerate(calls)]
    return plain


def _call_of_answer(call: JsonObject, at: int) -> JsonObject:
    function = object_in(call.get("function"))
    arguments = function.get("arguments")
    text = arguments if isinstance(arguments, str) else compact(arguments or {})
    whole: JsonObject = {**function, "arguments": text}
    return {**call, "id": call.get("id") or f"call_{at}", "type": "function", "function": whole}


def _text_below(value: Json) -> str:
    """The texts of pieces, or a text."""
    if isinstance(value, list):
        return "".join(text_at(one, "text") for one in objects_in(value))
    return value if isinstance(value, str) else ""


def _join_ollama(chunks: list[JsonObject]) -> JsonObject:
    """The answer that the lines of Ollama's stream add up to; its last has the counts."""
    messages = [object_in(one.get("message")) for one in chunks]
    whole: JsonObject = {"role": "assistant"}
    for key in ("content", "thinking"):
        whole[key] = "".join(text_at(one, key) for one in messages)
    calls: list[Json] = [call for one in messages for call in objects_in(one.get("tool_calls"))]
    if calls:
        whole["tool_calls"] = calls
    return {**chunks[-1], "message": whole}


def _assemble_body(events: Iterator[tuple[str, Json]], dialect: str) -> JsonObject:
    """Put the body together that the events of a stream add up to."""
    stream = stream_of(dialect)
    for name, data in events:
        if data is None:
            stream.note_end()
        elif isinstance(data, dict):
            stream.feed(name, data)
        else:
            raise ModelError(f"a chunk of its stream is not an object: {_short(data)}")
    return stream.body()


def _events(text: str) -> Iterator[tuple[str, Json]]:
    """The events of a stream as it came over the line; null at its end, if it tells its end."""
    reader = Events()
    whole = [*reader.feed(text.encode("utf-8", "replace")), *reader.end()]
    if not whole:
        raise ModelError(f"it is neither JSON nor a stream of events: {_short(text)}")
    for name, data in whole:
        yield name, cast("Json", parse_json(data)) or data
    if reader.done:
        yield "", None


def _chunks(answer: object) -> Iterator[tuple[str, Json]]:
    """The chunks of a list: objects, `{"event": ..., "data": ...}`, or the lines of a stream."""
    if not isinstance(answer, list):
        raise ModelError(f"{describe_kind(answer)} is not an answer")
    chunks = cast("list[Json]", answer)
    if chunks and all(isinstance(chunk, str) for chunk in chunks):
        lines = cast("list[str]", chunks)
        if all(line.lstrip().startswith("{") for line in lines):
            chunks = [cast("Json", parse_json(line)) or line for line in lines]
        else:  # an empty line ends an event, and recorders leave it out
            ends = (line.rstrip("\r\n") for line in lines)
            text = "\n".join(line if line.startswith("event:") else f"{line}\n" for line in ends)
            yield from _events(text)
            return
    for chunk in chunks:
        if isinstance(chunk, dict) and "data" in chunk and chunk.keys() <= {"event", "data", "id"}:
            name, data = chunk.get("event"), chunk["data"]
            if data == "[DONE]":
                yield "", None
                continue
            data = cast("Json", parse_json(data)) if isinstance(data, str) else data
            yield (name if isinstance(name, str) else ""), data
        elif chunk == "[DONE]":
            yield "", None
        else:
            yield "", chunk


def _short(value: object) -> str:
    text = " ".join((value if isinstance(value, str) else json.dumps(value)).split())
    return text if len(text) <= _SHOWN else f"{text[:_SHOWN]}…"
