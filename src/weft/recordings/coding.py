"""Transcripts of coding agents: Claude Code's and Codex's JSONL, and OpenCode's export.

They write more than what was sent: progress, snapshots, titles, copies of results for display.
What was sent becomes the session; every other kind of line is set aside, counted by kind.
"""

from collections.abc import Iterator, Sequence
from typing import NamedTuple

import msgspec

from weft.content import Part, call_part, result_part, text_part, thought_part
from weft.dialects import dialect_named
from weft.dialects.anthropic import lifetime_of_writes
from weft.dialects.wire import linked_part, object_in, objects_in, text_at
from weft.errors import SessionError, UsageError
from weft.recordings.recording import (
    Recording,
    Transcript,
    read_cost,
    read_usage,
    seconds,
    show_media,
    with_fields,
)
from weft.recordings.requests import RequestReader
from weft.session import Event, Usage
from weft.values import Json, JsonObject, compact


class TranscriptLine(NamedTuple):
    """One line of a transcript, and its place."""

    where: str
    value: JsonObject


# --- Claude Code


def is_claude_code(row: JsonObject) -> bool:
    """Whether a line is one of Claude Code's."""
    if row.get("type") in ("user", "assistant") and isinstance(row.get("message"), dict):
        message = object_in(row["message"])
        if "parts" in message:  # Qwen Code has such lines too
            return False
        named = "uuid" in row or "sessionId" in row or "session_id" in row
        return named or (message.get("role", row["type"]) == row["type"] and "timestamp" in row)
    if row.get("type") == "summary":
        return "leafUuid" in row
    if row.get("type") == "system" and "session_id" in row:  # what the program prints as it runs
        return True
    if isinstance(object_in(row.get("message")).get("parts"), list):
        return False
    return ("sessionId" in row and "type" in row) or row.get("type") == "file-history-snapshot"


def read_claude_code(lines: Sequence[TranscriptLine], name: str, where: str) -> Iterator[Recording]:
    """The conversations of a transcript: one, or several where files were put together."""
    for session in split_sessions(lines):
        yield from _read_session(session, name, where)


SESSION_KEYS = ("sessionId", "session_id", "parentUuid", "logicalParentUuid", "uuid")
"""What tells which session a line is of."""


def split_sessions(lines: Sequence[TranscriptLine]) -> list[list[TranscriptLine]]:
    """Lines by the session they are of; a session that goes on under a new id is one.

    Of each line only `SESSION_KEYS` are looked at.
    """
    sessions: list[list[TranscriptLine]] = []
    by_id: dict[str, list[TranscriptLine]] = {}
    by_uuid: dict[str, list[TranscriptLine]] = {}
    current: list[TranscriptLine] = []
    unnamed = True
    for line in lines:
        id = text_at(line.value, "sessionId") or text_at(line.value, "session_id")
        parent = text_at(line.value, "parentUuid") or text_at(line.value, "logicalParentUuid")
        if id and id not in by_id:
            known = by_uuid.get(parent) or (current if unnamed else None)
            by_id[id], unnamed = known if known is not None else [], False
        current = by_id.get(id, current)
        if not current:
            sessions.append(current)
        current.append(line)
        if uuid := text_at(line.value, "uuid"):
            by_uuid[uuid] = current
    return sessions


def _read_session(lines: Sequence[TranscriptLine], name: str, where: str) -> Iterator[Recording]:
    """The conversation of a session, and each conversation of a sub-agent as its own."""
    main = [line for line in lines if not _is_side(line)]
    sides = [line for line in lines if _is_side(line)]
    ids = (text_at(line.value, "sessionId") or text_at(line.value, "session_id") for line in lines)
    id = next(filter(None, ids), name)
    spoken = any(line.value.get("type") in ("user", "assistant") for line in main)
    whole = _ClaudeCode(where).read(main, id) if spoken or not sides else None
    if whole is not None:
        yield whole
    for number, side in enumerate(_conversations(sides), 1):
        agent = text_at(side[0].value, "agentId") or _caller(side[0]) or str(number)
        place = f"{where}, sub-agent {agent}"
        one = _ClaudeCode(place).read(side, f"{id}/{agent}")
        yield one if whole is None else one.started_by(whole, _caller(side[0]))


def _is_side(line: TranscriptLine) -> bool:
    """Whether a line is of a sub-agent."""
    return bool(line.value.get("isSidechain") or line.value.get("parent_tool_use_id"))


def _caller(line: TranscriptLine) -> str:
    """The call that started the sub-agent, which is what tells it where the program prints it."""
    return text_at(line.value, "parent_tool_use_id")


def _conversations(lines: Sequence[TranscriptLine]) -> list[list[TranscriptLine]]:
    """Lines of sub-agents, by the first line of the conversation each belongs to."""
    roots: dict[str, str] = {}
    grouped: dict[str, list[TranscriptLine]] = {}
    for line in lines:
        uuid, parent = text_at(line.value, "uuid"), text_at(line.value, "parentUuid")
        root = text_at(line.value, "agentId") or _caller(line) or roots.get(parent, uuid)
        roots[uuid] = root
        grouped.setdefault(root, []).append(line)
    return list(grouped.values())


class _ClaudeCode:
    """Reads one conversation."""

    def __init__(self, where: str) -> None:
        self.transcript = Transcript(where, format="claude-code", provider="anthropic")
        self.dialect = dialect_named("anthropic")
        self.calls: dict[str, str] = {}

    def read(self, lines: Sequence[TranscriptLine], id: str) -> Recording:
        """All lines in order; the pieces of one answer are one event, where its first piece is.

        Results may stand between the pieces: a tool can end before the answer does.
        """
        self._require_sound(lines)
        chosen = self._thread(lines)
        answers: dict[str, list[TranscriptLine]] = {}
        for line in lines:
            # a piece without the id of its answer is an answer of its own
            if line.value.get("type") == "assistant" and line.where in chosen:
                answers.setdefault(_message_id(line) or line.where, []).append(line)
        for line in lines:
            kind = line.value.get("type")
            if kind not in ("user", "assistant"):
                self._other(line, str(kind))
                continue
            if line.where not in chosen:
                self.transcript.leave_out(
                    f"`{kind}` message", "it is on a branch that was left", line.where
                )
                continue
            if kind == "user":
                self._user(line)
            else:
                self._answer(answers.pop(_message_id(line) or line.where, []))
        return self.transcript.recording(id, answered=not self.transcript.is_waiting)

    def _require_sound(self, lines: Sequence[TranscriptLine]) -> None:
        for line in lines:
            kind, message = line.value.get("type"), line.value.get("message")
            if kind in ("user", "assistant") and not isinstance(message, dict):
                raise SessionError(
                    f"a line of type {kind!r} has no message", where=line.where, hint="is it cut?"
                )

    def _thread(self, lines: Sequence[TranscriptLine]) -> set[str]:
        """The places of the messages that the conversation still has at its end.

        Going back to an earlier message leaves a branch that nothing continues. Results of
        parallel calls, and the pieces of one answer, look like branches too and are not.
        """
        by_uuid = {text_at(line.value, "uuid"): line for line in lines if line.value.get("uuid")}
        parents = {
            uuid: text_at(line.value, "parentUuid") or text_at(line.value, "logicalParentUuid")
            for uuid, line in by_uuid.items()
        }
        chosen: set[str] = set()
        roots: dict[str, str] = {}
        leaves: dict[str, str] = {}
        for uuid, line in by_uuid.items():
            root = roots[uuid] = roots.get(parents[uuid], uuid)
            if line.value.get("type") in ("user", "assistant"):
                leaves[root] = uuid
        for leaf in leaves.values():
            uuid = leaf
            while uuid in by_uuid and by_uuid[uuid].where not in chosen:
                chosen.add(by_uuid[uuid].where)
                uuid = parents[uuid]
        thread = [line for line in lines if line.where in chosen]
        answers = {_message_id(line) for line in thread if line.value.get("type") == "assistant"}
        answers.discard("")
        for line in lines:
            kind = line.value.get("type")
            same = kind == "assistant" and _message_id(line) in answers
            if same or (kind in ("user", "assistant") and not line.value.get("uuid")):
                chosen.add(line.where)
        called = {
            text_at(block, "id")
            for line in lines
            if line.where in chosen
            for block in _content(line)
            if block.get("type") == "tool_use"
        }
        for line in lines:
            if any(text_at(block, "tool_use_id") in called for block in _content(line)
                   if block.get("type") == "tool_result"):  # fmt: skip
                chosen.add(line.where)
        return chosen

    def _other(self, line: TranscriptLine, kind: str) -> None:
        """A line that is not a message."""
        value = line.value
        if kind == "system":
            kind = f"system/{text_at(value, 'subtype') or 'note'}"
        why = {
            "summary": "a title for the list of sessions",
            "system/compact_boundary": "it marks the summary that follows, which is read",
        }.get(kind, "it was never sent to the model")
        self.transcript.put_aside(f"line `{kind}`", why, line.where)

    def _user(self, line: TranscriptLine) -> None:
        value, time = line.value, seconds(line.value.get("timestamp"))
        transcript = self.transcript
        transcript.place = line.where
        if "toolUseResult" in value:
            transcript.put_aside(
                "`toolUseResult`", "a copy for display; the result itself is read", line.where
            )
        results, words = self._parts(line, "user")
        if value.get("isCompactSummary"):
            transcript.summary(words, time=time)
            return
        if results:
            transcript.results(results, time=time)
        if words:
            transcript.user(words, time=time)

    def _answer(self, lines: list[TranscriptLine]) -> None:
        """One answer, written a line for each of its blocks; its usage is that of the last."""
        if not lines:
            return
        last = lines[-1]
        self.transcript.place = last.where
        message = object_in(last.value.get("message"))
        if last.value.get("isApiErrorMessage") or text_at(message, "model") == "<synthetic>":
            for line in lines:
                self.transcript.leave_out(
                    "error message", "the program wrote it, no model did", line.where
                )
            return
        parts = [part for line in lines for part in self._parts(line, "model")[1]]
        usage = object_in(message.get("usage"))
        read, written = (
            _count(usage, "cache_read_input_tokens"),
            _count(usage, "cache_creation_input_tokens"),
        )
        fresh = usage.get("input_tokens")
        # this provider counts what was cached apart from its input tokens
        whole = fresh + read + written if isinstance(fresh, int) else None
        self.transcript.answer(
            parts,
            time=seconds(last.value.get("timestamp")),
            model=text_at(message, "model"),
            usage=read_usage(whole, usage.get("output_tokens"), read),
            cache_write=written or None,
            cache_lifetime=lifetime_of_writes(usage) if written else None,
            cost=read_cost(last.value),
        )

    def _parts(self, line: TranscriptLine, role: str) -> tuple[list[Part], list[Part]]:
        """The results in a message, and all else; read as the provider's own form."""
        message = object_in(line.value.get("message"))
        spoken = "assistant" if role == "model" else "user"
        wire: JsonObject = {"messages": [{"role": spoken, "content": message.get("content")}]}
        try:
            reading = self.dialect.read(wire)
        except UsageError as error:
            raise SessionError(error.message, where=line.where, hint=error.hint) from None
        reader = RequestReader(self.dialect, text_at(message, "model"))
        results: list[Part] = []
        others: list[Part] = []
        for turn in reading.turns:
            for one in turn.parts:
                part = one.part
                beside = reader.beside(one, turn.role)
                if turn.role == "model":
                    part = with_fields(part, reader.name, beside)
                (results if part.function_response is not None else others).append(part)
        return results, others


def _message_id(line: TranscriptLine) -> str:
    return text_at(object_in(line.value.get("message")), "id")


def _content(line: TranscriptLine) -> list[JsonObject]:
    return objects_in(object_in(line.value.get("message")).get("content"))


def _count(usage: JsonObject, name: str) -> int:
    value = usage.get(name)
    return value if isinstance(value, int) else 0


# --- Codex

_CODEX_TYPES = ("session_meta", "response_item", "event_msg", "turn_context", "compacted")

_CALLS = ("function_call", "custom_tool_call", "local_shell_call")

_OUTPUTS = ("function_call_output", "custom_tool_call_output")


def is_codex(row: JsonObject) -> bool:
    """Whether a line is one of Codex's, of today's or the first form."""
    if row.get("type") in _CODEX_TYPES and isinstance(row.get("payload"), dict):
        return True
    return "instructions" in row and "timestamp" in row and "id" in row


def read_codex(lines: Sequence[TranscriptLine], name: str, where: str) -> Iterator[Recording]:
    """A rollout: what was sent and answered, in order. Files may be put together, one by one."""
    reader = _Codex(where)
    for line in lines:
        if reader.is_over(line):
            yield reader.end(name)
            reader = _Codex(where)
        reader.take(line)
    yield reader.end(name)


class _Codex:
    """Reads one rollout. Items between two things the user side says are one answer."""

    def __init__(self, where: str) -> None:
        self.transcript = Transcript(where, format="codex", provider="openai-responses")
        self.dialect = dialect_named("openai-responses")
        self.id = ""
        self.model = ""
        self.parts: list[Part] = []
        self.time: float | None = None
        self.usage: JsonObject = {}
        self.total: JsonObject = {}
        """What all answers so far took, as it was last reported."""

    def is_over(self, line: TranscriptLine) -> bool:
        """Whether a line is the head of another rollout; a fork has the heads of both first."""
        head = object_in(line.value.get("payload"))
        return (
            line.value.get("type") == "session_meta"
            and bool(self.id)
            and text_at(head, "id") not in ("", self.id)
            and bool(self.transcript.events or self.parts)
        )

    def take(self, line: TranscriptLine) -> None:
        """One line."""
        value = line.value
        kind, payload = text_at(value, "type"), value.get("payload")
        time = seconds(value.get("timestamp"))
        if isinstance(payload, dict) and kind in _CODEX_TYPES:
            self._entry(kind, payload, line.where, time)
        elif "instructions" in value and not self.transcript.events and "type" not in value:
            self._meta(value)  # the first form: a head, then bare items
        elif "record_type" in value:
            self.transcript.put_aside(
                f"record `{value['record_type']}`", "it was never sent to the model", line.where
            )
        elif kind:
            self._item(value, line.where, time)
        else:
            raise SessionError(
                "this is not a line of a rollout", where=line.where, hint="is it cut?"
            )

    def _entry(self, kind: str, payload: JsonObject, where: str, time: float | None) -> None:
        transcript = self.transcript
        if kind == "session_meta":
            self._meta(payload)
        elif kind == "response_item":
            self._item(payload, where, time)
        elif kind == "turn_context":
            self.model = text_at(payload, "model") or self.model
            transcript.put_aside("line `turn_context`", "settings of the program", where)
        elif kind == "compacted":
            self._flush()
            history = objects_in(payload.get("replacement_history"))
            text = text_at(payload, "message")
            parts = [text_part(text)] if text else []
            for item in history:
                parts += [
                    one for one in self._parts(item, where) if one.text or one.kind == "media"
                ]
            transcript.summary(parts, time=time)
        else:
            inner = text_at(payload, "type")
            if inner == "token_count":
                info = object_in(payload.get("info"))
                total = object_in(info.get("total_token_usage"))
                # the same report again, such as after a change of limits: nothing was asked
                if not total or total != self.total:
                    self.usage = object_in(info.get("last_token_usage"))
                self.total = total
                self._flush()
                return
            transcript.put_aside(f"event `{inner}`", "a notice for display", where)

    def _meta(self, payload: JsonObject) -> None:
        self.id = self.id or text_at(payload, "id")
        base = payload.get("base_instructions")
        for text in (text_at(object_in(base), "text"), text_at(payload, "instructions")):
            if text and text not in self.transcript.system:
                self.transcript.system.append(text)

    def _item(self, item: JsonObject, where: str, time: float | None) -> None:
        """An item of the provider's; the program has shell and custom calls, too."""
        kind = text_at(item, "type") or "message"
        role = text_at(item, "role")
        transcript = self.transcript
        transcript.place = where
        if kind in _CALLS:
            self.time = self.time or time
            self.parts.append(self._call(item, kind, where))
        elif kind in _OUTPUTS:
            self._flush()
            call_id = text_at(item, "call_id")
            if isinstance(item.get("output"), list):  # it shows media too
                plain: JsonObject = {**item, "type": "function_call_output"}
                transcript.results(self._parts(plain, where), time=time)
            else:
                result = result_part(transcript.name_of(call_id), _output(item), id=call_id)
                transcript.results([result], time=time)
        elif kind == "message" and role in ("developer", "system"):
            texts = _texts(item.get("content"))
            if not transcript.events and not self.parts:
                transcript.system += texts
            else:
                self._flush()
                transcript.user([text_part(text) for text in texts], time=time)
                transcript.put_aside(
                    "later developer message", "it is read as the user's words", where
                )
        elif kind == "message" and role == "user":
            self._flush()
            transcript.user(self._parts(_read_question(item), where), time=time)
        elif kind in ("message", "reasoning"):
            self.time = self.time or time
            self.parts += self._parts(item, where)
        elif kind.endswith("_call"):
            self.parts += self._parts(item, where)  # what the provider ran itself
        else:
            transcript.put_aside(f"item `{kind}`", "it was never sent to the model", where)

    def _call(self, item: JsonObject, kind: str, where: str) -> Part:
        call_id = text_at(item, "call_id") or text_at(item, "id")
        if kind == "function_call":
            (part,) = self._parts(item, where)
            return part
        if kind == "custom_tool_call":
            name, arguments = text_at(item, "name"), {"input": item.get("input")}
        else:
            name, arguments = "local_shell", object_in(item.get("action"))
        self.transcript.put_aside(
            f"form of `{kind}`", "it is read as a function call, and sent as one", where
        )
        return call_part(name, arguments, id=call_id)

    def _parts(self, item: JsonObject, where: str) -> list[Part]:
        try:
            reading = self.dialect.read({"input": [item]})
        except UsageError as error:
            raise SessionError(error.message, where=where, hint=error.hint) from None
        reader = RequestReader(self.dialect, self.model)
        return [
            with_fields(one.part, reader.name, reader.beside(one, turn.role))
            if turn.role == "model"
            else one.part
            for turn in reading.turns
            for one in turn.parts
        ]

    def _flush(self) -> None:
        """End the answer whose items were read; its tokens come with a notice after it."""
        if not self.parts:
            if self.usage:
                self._late_usage()
            return
        usage = self.usage
        self.transcript.answer(
            self.parts, time=self.time, model=self.model, usage=_codex_usage(usage)
        )
        self.parts, self.time, self.usage = [], None, {}

    def _late_usage(self) -> None:
        """Add tokens that were reported after the answer; a repeated report changes nothing."""
        events, usage = self.transcript.events, _codex_usage(self.usage)
        self.usage = {}
        for at in range(len(events) - 1, -1, -1):
            content = events[at].content
            if content is not None and content.role == "model":
                if events[at].usage is None:
                    events[at] = msgspec.structs.replace(events[at], usage=usage)
                return

    def end(self, name: str) -> Recording:
        """The whole rollout."""
        self._flush()
        return self.transcript.recording(self.id or name, answered=not self.transcript.is_waiting)


def _codex_usage(usage: JsonObject) -> Usage | None:
    return read_usage(
        usage.get("input_tokens"), usage.get("output_tokens"), usage.get("cached_input_tokens")
    )


def _read_question(item: JsonObject) -> JsonObject:
    """A message of the user's; some writers give its texts the type of an answer's."""
    content = item.get("content")
    if not isinstance(content, list):
        return item
    pieces: list[Json] = [
        {**one, "type": "input_text"} if one.get("type") == "output_text" else one
        for one in objects_in(content)
    ]
    return {**item, "content": pieces}


def _texts(content: Json) -> list[str]:
    if isinstance(content, str):
        return [content]
    return [text_at(piece, "text") for piece in objects_in(content) if text_at(piece, "text")]


def _output(item: JsonObject) -> JsonObject:
    """What a call gave back: a text, or in older rollouts an object around it."""
    output = item.get("output")
    if isinstance(output, dict) and isinstance(output.get("content"), str):
        return {"result": output["content"]}
    return {"result": output if isinstance(output, str) else compact(output)}


# --- what the programs print of a run, line by line: `codex exec --json`, `opencode run`


def is_codex_stream(row: JsonObject) -> bool:
    """Whether a line is one that `codex exec --json` prints."""
    kind = text_at(row, "type")
    item = row.get("item")
    return (kind == "thread.started" and "thread_id" in row) or (
        kind in ("item.started", "item.updated", "item.completed") and isinstance(item, dict)
    )


def read_codex_stream(
    lines: Sequence[TranscriptLine], name: str, where: str
) -> Iterator[Recording]:
    """What was said and done in a run; the task that it was given is not printed."""
    transcript = Transcript(where, format="codex", provider="openai-responses")
    id = name
    for line in lines:
        kind, item = text_at(line.value, "type"), object_in(line.value.get("item"))
        transcript.place = line.where
        if kind == "thread.started":
            id = text_at(line.value, "thread_id") or name
        elif kind == "turn.completed":
            usage = _codex_usage(object_in(line.value.get("usage")))
            at = next((at for at in range(len(transcript.events) - 1, -1, -1)
                       if object_of(transcript.events[at]) == "model"), None)  # fmt: skip
            if at is not None:  # of all answers of the turn together
                event = transcript.events[at]
                transcript.events[at] = msgspec.structs.replace(event, usage=usage)
        elif kind == "item.completed":
            _take_codex_item(transcript, item, line.where)
        else:
            transcript.put_aside(f"line `{kind}`", "it is said again when it ends", line.where)
    yield transcript.recording(id)


def object_of(event: Event) -> str:
    """Whose content an event has."""
    return (event.content.role or "") if event.content is not None else ""


def _take_codex_item(transcript: Transcript, item: JsonObject, where: str) -> None:
    kind, id = text_at(item, "type"), text_at(item, "id")
    if kind in ("agent_message", "assistant_message"):
        transcript.answer([text_part(text_at(item, "text"))])
    elif kind == "reasoning":
        transcript.answer([thought_part(text_at(item, "text"))])
    elif kind in _PRINTED_RESULTS:
        known = ("id", "type", "status", *_PRINTED_RESULTS[kind])
        arguments: JsonObject = {key: one for key, one in item.items() if key not in known}
        name = text_at(item, "tool") or kind
        transcript.answer([call_part(name, arguments, id=id)])
        response = {key: item[key] for key in _PRINTED_RESULTS[kind] if item.get(key) is not None}
        if response:
            transcript.results([result_part(name, response, id=id)])
    else:
        transcript.put_aside(f"item `{kind}`", "a notice for display", where)


_PRINTED_RESULTS = {
    "command_execution": ("aggregated_output", "exit_code"),
    "mcp_tool_call": ("result", "error"),
    "file_change": (),
    "web_search": (),
    "collab_tool_call": ("agents_states",),
}
"""Items that are calls, and which of their fields are what came back."""


def is_opencode_stream(row: JsonObject) -> bool:
    """Whether a line is one that `opencode run --format json` prints."""
    return "sessionID" in row and isinstance(row.get("part"), dict)


def read_opencode_stream(
    lines: Sequence[TranscriptLine], name: str, where: str
) -> Iterator[Recording]:
    """The parts of the answers, a step at a time; the task that was given is not printed."""
    messages: list[JsonObject] = []
    parts: list[Json] = []
    for line in lines:
        part = object_in(line.value.get("part"))
        parts.append(part)
        if part.get("type") == "step-finish":
            messages.append({"info": _step_info(line.value, part), "parts": parts})
            parts = []
    if parts:
        messages.append({"info": _step_info(lines[-1].value, {}), "parts": parts})
    yield read_opencode([*messages], name, where)


def _step_info(row: JsonObject, finish: JsonObject) -> JsonObject:
    info: JsonObject = {"role": "assistant", "time": {"created": row.get("timestamp")}}
    return {**info, "sessionID": row.get("sessionID"), "tokens": finish.get("tokens")}


# --- OpenCode


def is_opencode(messages: list[JsonObject]) -> bool:
    """Whether a list is of OpenCode's messages, which have their facts apart from their parts."""
    return all(
        isinstance(one.get("info"), dict) and isinstance(one.get("parts"), list) for one in messages
    )


def read_opencode(messages: list[Json], id: str, where: str) -> Recording:
    """What `opencode export` writes: a message for each answer, results within their calls."""
    transcript = Transcript(where, format="opencode")
    for index, message in enumerate(messages):
        transcript.place = f"{where}: messages[{index}]"
        if not isinstance(message, dict) or not is_opencode([message]):
            raise SessionError(
                "a message has `info` and `parts`",
                where=transcript.place,
                hint="is it another format?",
            )
        _take_opencode(transcript, object_in(message["info"]), objects_in(message["parts"]))
    facts = object_in(object_in(messages[0]).get("info"))
    return transcript.recording(text_at(facts, "sessionID") or id, answered=True)


def _take_opencode(transcript: Transcript, info: JsonObject, parts: list[JsonObject]) -> None:
    created = object_in(info.get("time")).get("created")
    time = created / 1000 if isinstance(created, int | float) else None
    spoken: list[Part] = []
    results: list[Part] = []
    for at, part in enumerate(parts):
        kind, state = text_at(part, "type"), object_in(part.get("state"))
        if kind == "text":
            spoken += [text_part(text_at(part, "text"))] if part.get("text") else []
        elif kind == "reasoning":
            spoken += [thought_part(text_at(part, "text"))] if part.get("text") else []
        elif kind == "file" and part.get("url"):
            mime = text_at(part, "mime") or "application/octet-stream"
            spoken.append(linked_part(text_at(part, "url"), mime, text_at(part, "filename")))
        elif kind == "tool":
            name, call_id = text_at(part, "tool"), text_at(part, "callID")
            spoken.append(call_part(name, object_in(state.get("input")), id=call_id))
            if state.get("status") in ("completed", "error"):
                results.append(_opencode_result(name, call_id, state))
        else:
            place = f"{transcript.place}.parts[{at}]"
            transcript.put_aside(f"part `{kind}`", "it was never sent to the model", place)
    if info.get("role") == "user":
        if spoken:
            transcript.user(spoken, time=time)
        return
    if info.get("summary") is True:
        if any(part.thought for part in spoken):
            transcript.leave_out("thought about a summary", "no model is sent it", transcript.place)
        transcript.summary([part for part in spoken if part.text and not part.thought], time=time)
        tokens = object_in(info.get("tokens"))
        if tokens:
            transcript.put_aside(
                f"call for a summary of {_count(tokens, 'input'):,} tokens",
                "the program made it beside the conversation: it is in no sum",
                transcript.place,
            )
        return
    failure = object_in(info.get("error"))
    if not spoken:
        transcript.put_aside("answer", f"it is an error: {failure.get('name')}", transcript.place)
        return
    tokens = object_in(info.get("tokens"))
    cache = object_in(tokens.get("cache"))
    read, written = _count(cache, "read"), _count(cache, "write")
    fresh, output = tokens.get("input"), _count(tokens, "output") + _count(tokens, "reasoning")
    transcript.answer(
        spoken,
        time=time,
        model=text_at(info, "modelID"),
        usage=read_usage(fresh + read + written, output, read) if isinstance(fresh, int) else None,
        cache_write=written or None,
        cost=read_cost(info),
        error=text_at(failure, "name") or None,
    )
    if results:
        transcript.results(results, time=time)


def _opencode_result(name: str, call_id: str, state: JsonObject) -> Part:
    if state.get("status") == "error":
        return result_part(name, {"error": state.get("error")}, id=call_id)
    result = result_part(name, {"result": state.get("output")}, id=call_id)
    attached = [
        linked_part(text_at(one, "url"), text_at(one, "mime") or "application/octet-stream")
        for one in objects_in(state.get("attachments"))
        if one.get("url")
    ]
    return show_media(result, attached)
