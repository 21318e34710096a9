"""Sessions of agents that people talk to in an editor or a window: Cline, Cursor, Goose, Crush.

Each keeps one object a session, or a line a message. Their blocks are Anthropic's, or much like
them; files and notices stand among the blocks.
"""

from collections.abc import Callable, Iterator, Sequence

from weft.content import Blob, Part, call_part, result_part, text_part, thought_part
from weft.dialects import dialect_named
from weft.dialects.wire import linked_part, object_in, objects_in, text_at
from weft.errors import SessionError, UsageError
from weft.recordings.coding import TranscriptLine
from weft.recordings.providers import arguments_of
from weft.recordings.recording import Recording, Transcript, seconds, show_media
from weft.values import Json, JsonObject, compact

# --- Cline and Roo Code


def is_cline(messages: list[JsonObject]) -> bool:
    """Whether a list is of Cline's messages: Anthropic's, each with its time in milliseconds."""
    spoken = [one for one in messages if "role" in one]
    return (
        bool(spoken)
        and all(one.get("role") in ("user", "assistant") and "content" in one for one in spoken)
        and any(isinstance(one.get("ts"), int | float) or "modelInfo" in one for one in spoken)
        and all("role" in one or one.get("type") == "reasoning" for one in messages)
    )


def is_cline_session(run: JsonObject) -> bool:
    """Whether an object is a session of Cline's."""
    messages = objects_in(run.get("messages"))
    return "sessionId" in run and "version" in run and bool(messages) and is_cline(messages)


def read_cline_session(run: JsonObject, id: str, where: str) -> Iterator[Recording]:
    """A session: its messages, and the system text next to them."""
    messages: list[Json] = [*objects_in(run.get("messages"))]
    system = text_at(run, "system_prompt")
    yield _read_cline(messages, text_at(run, "sessionId") or id, where, system=system)


def read_cline(messages: list[Json], id: str, where: str) -> Recording:
    """The messages of a task, as Cline and Roo Code keep them."""
    return _read_cline(messages, id, where, system="")


def _read_cline(messages: list[Json], id: str, where: str, *, system: str) -> Recording:
    transcript = Transcript(where, format="cline", provider="anthropic")
    transcript.system += [system] if system else []
    for at, message in enumerate(messages):
        transcript.place = f"{where}: messages[{at}]"
        if not isinstance(message, dict):
            raise SessionError(
                "a message is an object", where=transcript.place, hint='{"role": "user", ...}'
            )
        _take_cline(transcript, message)
    return transcript.recording(id, answered=not transcript.is_waiting)


def _take_cline(transcript: Transcript, message: JsonObject) -> None:
    place, stamp = transcript.place, message.get("ts")
    time = stamp / 1000 if isinstance(stamp, int | float) else None
    if message.get("type") == "reasoning":  # what a provider keeps of its thoughts
        why = "the provider's own form of a thought"
        transcript.put_aside("`reasoning` message", why, place)
        return
    content = message.get("content")
    blocks: Json = content
    if isinstance(content, list):
        blocks = [*map(_block, objects_in(content))]
    wire: JsonObject = {"messages": [{"role": message.get("role"), "content": blocks}]}
    try:
        reading = dialect_named("anthropic").read(wire)
    except UsageError as error:
        raise SessionError(error.message, where=place, hint=error.hint) from None
    parts: list[Part] = []
    for one in (one for turn in reading.turns for one in turn.parts):
        if one.part.kind == "empty":
            kind = text_at(object_in(one.wire), "type") or "empty"
            transcript.put_aside(f"part `{kind}`", "it says nothing", place)
        else:
            parts.append(one.part)
    results = [part for part in parts if part.function_response is not None]
    words = [part for part in parts if part.function_response is None]
    if message.get("isSummary") is True and words:
        transcript.summary(words, time=time)
        return
    if message.get("role") == "assistant":
        if words:
            model = text_at(object_in(message.get("modelInfo")), "id")
            counts = object_in(message.get("metrics"))
            transcript.answer(words, time=time, model=model, counts=counts)
        return
    if results:
        transcript.results(results, time=time)
    if words:
        transcript.user(words, time=time)


def _block(block: JsonObject) -> JsonObject:
    """A block as Anthropic's; a file that was named with @ is its text."""
    kind = block.get("type")
    if kind == "file" and isinstance(block.get("content"), str):
        return {"type": "text", "text": f"{text_at(block, 'path')}\n{block['content']}"}
    if kind == "reasoning" and isinstance(block.get("text"), str):
        return {"type": "thinking", "thinking": block["text"]}
    if kind == "tool_result" and isinstance(block.get("content"), list):
        listed = objects_in(block["content"])
        if not all("type" in one for one in listed):  # what a tool gave back, as it was
            return {**block, "content": compact(block["content"])}
    return block


# --- Cursor and Factory's Droid, whose lines have such messages below `message`


def is_cursor(row: JsonObject) -> bool:
    """Whether a line is one of Cursor's: a role, and below it a message of blocks."""
    content = object_in(row.get("message")).get("content")
    return row.get("role") in ("user", "assistant") and isinstance(content, list | str)


def is_droid(row: JsonObject) -> bool:
    """Whether a line is one of Droid's sessions, whose messages have Anthropic's blocks."""
    if row.get("type") == "session_start":
        return "cwd" in row and "id" in row
    content = object_in(row.get("message")).get("content")
    kinds = {text_at(one, "type") for one in objects_in(content)}
    return row.get("type") == "message" and bool(kinds & {"tool_use", "tool_result"})


def read_cursor(lines: Sequence[TranscriptLine], name: str, where: str) -> Iterator[Recording]:
    """A transcript of Cursor's agent: it has no ids, and often no results."""
    yield _read_lines(lines, name, where, format="cursor")


def read_droid(lines: Sequence[TranscriptLine], name: str, where: str) -> Iterator[Recording]:
    """A session of Droid."""
    starts = (text_at(one.value, "id") for one in lines if one.value.get("type") == "session_start")
    yield _read_lines(lines, next(starts, "") or name, where, format="droid")


def _read_lines(lines: Sequence[TranscriptLine], id: str, where: str, *, format: str) -> Recording:
    transcript = Transcript(where, format=format, provider="anthropic")
    for number, line in enumerate(lines):
        row, transcript.place = line.value, line.where
        message = object_in(row.get("message"))
        if not message:
            kind = text_at(row, "type") or "line"
            transcript.put_aside(f"line `{kind}`", "it was never sent to the model", line.where)
            continue
        time = seconds(row.get("timestamp"))
        listed = message.get("content")
        blocks = [
            _with_id(block, f"call_{number}_{at}") for at, block in enumerate(objects_in(listed))
        ]
        content: Json = [*blocks] if isinstance(listed, list) else listed
        whole: JsonObject = {"role": row.get("role"), **message, "content": content}
        _take_cline(transcript, {**whole, "ts": time * 1000 if time is not None else None})
    return transcript.recording(id, answered=not transcript.is_waiting)


def _with_id(block: JsonObject, id: str) -> JsonObject:
    """A call with an id, where its program wrote none."""
    return {**block, "id": id} if block.get("type") == "tool_use" and not block.get("id") else block


# --- Goose


def is_goose(row: JsonObject) -> bool:
    """Whether an object is one of Goose's messages, or the head of its older files."""
    if "working_dir" in row and ("description" in row or "message_count" in row):
        return True
    content = row.get("content")
    if not isinstance(content, list) or "created" not in row:
        return False
    kinds = {text_at(one, "type") for one in objects_in(content)}
    # the head may be missing, and then a chat of texts is like anybody's
    return row.get("role") in ("user", "assistant") and bool(kinds) and kinds <= _GOOSE.keys()


def is_goose_session(run: JsonObject) -> bool:
    """Whether an object is a session that Goose exported."""
    listed = objects_in(run.get("conversation"))
    return bool(listed) and "working_dir" in run and all("role" in one for one in listed)


def read_goose_session(run: JsonObject, id: str, where: str) -> Iterator[Recording]:
    """A session as `goose session export --format json` writes it."""
    transcript = _goose_transcript(where)
    transcript.model = text_at(object_in(run.get("model_config")), "model_name")
    for at, message in enumerate(objects_in(run.get("conversation"))):
        transcript.place = f"{where}: conversation[{at}]"
        _take_goose(transcript, message)
    yield _end_goose(transcript, run, text_at(run, "id") or id)


def read_goose(lines: Sequence[TranscriptLine], name: str, where: str) -> Iterator[Recording]:
    """The lines of an older session: its head, and a message on each line after it."""
    transcript = _goose_transcript(where)
    head: JsonObject = {}
    for line in lines:
        transcript.place = line.where
        if "role" in line.value:
            _take_goose(transcript, line.value)
        else:
            head = line.value
    yield _end_goose(transcript, head, name)


def _goose_transcript(where: str) -> Transcript:
    return Transcript(where, format="goose")


def _end_goose(transcript: Transcript, head: JsonObject, id: str) -> Recording:
    counts = {name: head.get(f"accumulated_{name}") for name in ("input_tokens", "output_tokens")}
    sent, received = counts.values()
    if isinstance(sent, int) and isinstance(received, int):
        why = f"of the whole session: {sent:,} sent and {received:,} received"
        transcript.put_aside("token counts", why, transcript.where)
    return transcript.recording(id, answered=not transcript.is_waiting)


def _take_goose(transcript: Transcript, message: JsonObject) -> None:
    time = seconds(message.get("created"))
    content = message.get("content")
    listed = [content] if isinstance(content, str) else content
    parts: list[Part] = []
    results: list[Part] = []
    for at, piece in enumerate(listed if isinstance(listed, list) else []):
        block: JsonObject = {"type": "text", "text": piece} if isinstance(piece, str) else (
            object_in(piece)
        )  # fmt: skip
        kind = text_at(block, "type")
        read = _GOOSE.get(kind)
        if kind == "toolResponse":
            results.append(_goose_result(block))
        elif read is None:
            why = "a notice for display" if kind in _GOOSE else "its form is unknown"
            transcript.put_aside(f"content `{kind}`", why, f"{transcript.place}[{at}]")
        else:
            parts += read(block)
    if object_in(message.get("metadata")).get("agentVisible") is False:
        transcript.leave_out("message", "the agent does not see it", transcript.place)
        return
    if results:
        transcript.results(results, time=time)
    if parts and message.get("role") == "assistant":
        transcript.answer(parts, time=time, model=transcript.model)
    elif parts:
        transcript.user(parts, time=time)


def _goose_call(block: JsonObject) -> list[Part]:
    called = object_in(block.get("toolCall"))
    call = object_in(called.get("value")) or called
    arguments = arguments_of(call.get("arguments"))
    # a call that could not be read has an error in its place
    name = text_at(call, "name") or "unreadable_call"
    if called.get("error"):
        arguments = {"error": called["error"]}
    return [call_part(name, arguments, id=text_at(block, "id"))]


def _goose_result(block: JsonObject) -> Part:
    returned = object_in(block.get("toolResult"))
    value = returned.get("value")
    listed = value if isinstance(value, list) else object_in(value).get("content")
    pieces = [object_in(one.get("resource")) or one for one in objects_in(listed)]
    text = "\n".join(text_at(one, "text") for one in pieces if one.get("text"))
    failed = returned.get("status") == "error" or object_in(value).get("isError") is True
    content: Json = text or returned.get("error") or ("" if listed is not None else value)
    response = {"error" if failed else "result": content}
    result = result_part("", response, id=text_at(block, "id") or None)
    return show_media(result, [part for one in pieces for part in _picture(one)])


def _picture(block: JsonObject) -> list[Part]:
    if not block.get("data") or not isinstance(block["data"], str):
        return []
    mime = text_at(block, "mimeType") or text_at(block, "mime_type") or "image/png"
    return [Part(inline_data=Blob(mime_type=mime, data=block["data"]))]


def _text(block: JsonObject) -> list[Part]:
    return [text_part(text)] if (text := text_at(block, "text")) else []


def _read_thought(block: JsonObject) -> list[Part]:
    text = text_at(block, "thinking") or text_at(block, "text")
    return [thought_part(text)] if text else []


_GOOSE: dict[str, Callable[[JsonObject], list[Part]] | None] = {
    "text": _text,
    "image": _picture,
    "thinking": _read_thought,
    "reasoning": _read_thought,
    "toolRequest": _goose_call,
    "frontendToolRequest": _goose_call,
    "toolResponse": None,
    "redactedThinking": None,
    "toolConfirmationRequest": None,
    "actionRequired": None,
    "systemNotification": None,
    "contextLengthExceeded": None,
    "summarizationRequested": None,
    "conversationCompacted": None,
}
"""The kinds of what is in a message, and what reads them; what has none is for display."""


# --- Crush


def is_crush(messages: list[JsonObject]) -> bool:
    """Whether a list is of Crush's messages, as its database has them."""
    return all(
        isinstance(one.get("parts"), list) and "role" in one and "created_at" in one
        for one in messages
    )


def read_crush(messages: list[Json], id: str, where: str) -> Recording:
    """A session of Crush: a message for each answer, its results in the next one."""
    transcript = Transcript(where, format="crush")
    for at, message in enumerate(messages):
        transcript.place = f"{where}: messages[{at}]"
        _take_crush(transcript, object_in(message))
    return transcript.recording(id, answered=not transcript.is_waiting)


def _take_crush(transcript: Transcript, message: JsonObject) -> None:
    time, role = seconds(message.get("created_at")), text_at(message, "role")
    spoken: list[Part] = []
    results: list[Part] = []
    end: JsonObject = {}
    for part in objects_in(message.get("parts")):
        kind = text_at(part, "type")
        read = _CRUSH.get(kind)
        if kind == "tool_result":
            results.append(_crush_result(part))
        elif kind == "finish":
            end = part
        elif read is None:
            why = "its form is unknown"
            transcript.put_aside(f"part `{kind}`", why, transcript.place)
        else:
            spoken += read(part)
    if results:
        transcript.results(results, time=time)
    if message.get("is_summary_message") and spoken:
        transcript.summary([part for part in spoken if not part.thought], time=time)
    elif role == "assistant" and spoken:
        reason = text_at(end, "reason")
        failure = text_at(end, "error") or reason
        transcript.answer(
            spoken,
            time=time,
            model=text_at(message, "model"),
            finish_reason=reason or None,
            error=failure if reason in ("error", "canceled") else None,
        )
    elif role == "assistant":
        failure = text_at(end, "error") or text_at(end, "reason") or "it broke off"
        transcript.put_aside("answer", f"it is an error: {failure}", transcript.place)
    elif spoken:
        transcript.user(spoken, time=time)


def _crush_result(part: JsonObject) -> Part:
    key = "error" if part.get("is_error") else "result"
    response: JsonObject = {key: part.get("content")}
    id = text_at(part, "tool_call_id") or None
    pictures = _picture({**part, "mimeType": part.get("mime_type")}) if part.get("data") else []
    return show_media(result_part(text_at(part, "name"), response, id=id), pictures)


def _crush_file(part: JsonObject) -> list[Part]:
    """A file that the user attached; its fields are Go's."""
    mime, data = text_at(part, "MIMEType"), text_at(part, "Data")
    return [Part(inline_data=Blob(mime_type=mime, data=data))] if data else []


def _crush_shell(part: JsonObject) -> list[Part]:
    """A command that the user ran: the model is told it, what it printed and how it ended."""
    words = f"$ {text_at(part, 'command')}\n{text_at(part, 'output')}"
    return [text_part(f"{words}\n(exit code {part.get('exit_code')})")]


_CRUSH: dict[str, Callable[[JsonObject], list[Part]]] = {
    "text": _text,
    "reasoning": _read_thought,
    "tool_call": lambda part: [
        call_part(text_at(part, "name"), arguments_of(part.get("input")), id=text_at(part, "id"))
    ],
    "binary": _crush_file,
    "image_url": lambda part: [linked_part(text_at(part, "url"), "image/png")],
    "shell_command": _crush_shell,
}
"""The kinds of what is in a message of Crush's, and what reads them."""
