"""Runs of agents that keep one object a run, or one event a line.

Gemini CLI, GitHub Copilot CLI, OpenHands, mini-swe-agent, SWE-agent, ATIF, inspect-ai, AutoGen and
agent-framework. Each reader says who spoke, in order; what was never sent is set aside by its kind.
"""

import re
from collections.abc import Callable, Container, Iterable, Iterator, Mapping, Sequence
from typing import NamedTuple, cast

import msgspec

from weft.content import Blob, Part, call_part, result_part, text_part, thought_part
from weft.declare.tool import NAME
from weft.dialects import CHAT, dialect_named
from weft.dialects.wire import linked_part, object_in, objects_in, text_at
from weft.errors import SessionError
from weft.recordings.coding import TranscriptLine
from weft.recordings.exchanges import ExchangeRecord
from weft.recordings.providers import arguments_of, read_messages, take_answer
from weft.recordings.recording import (
    AGENT,
    Aside,
    Asides,
    Recording,
    Transcript,
    find_other_fields,
    parse_json,
    read_cost,
    read_counts,
    seconds,
    show_media,
    tools_of,
    with_cost,
    with_counts,
    with_events,
)
from weft.session import Event, Usage
from weft.values import Json, JsonObject, compact

ReadObject = Callable[[JsonObject, str, str], Iterable[Recording]]
"""An object, its id and its place to recordings."""


class Document(NamedTuple):
    """A form that one object of a file may have."""

    name: str
    fits: Callable[[JsonObject], bool]
    read: ReadObject
    about: str


def _result(call_id: str, name: str, text: Json, *, failed: bool = False) -> Part:
    """A result as most programs keep it: a text, or what else came back."""
    response = {"error" if failed else "result": text}
    return result_part(name, response, id=call_id or None)


def _texts(content: Json) -> list[Part]:
    """The texts of a message: one, or a list of pieces."""
    if isinstance(content, str):
        return [text_part(content)] if content else []
    return [
        text_part(text)
        for piece in (content if isinstance(content, list) else [])
        if (text := piece if isinstance(piece, str) else text_at(object_in(piece), "text"))
    ]


# --- Gemini CLI


def _is_gemini_cli(run: JsonObject) -> bool:
    messages = objects_in(run.get("messages"))
    is_one = "projectHash" in run or any(one.get("type") == "gemini" for one in messages)
    return "sessionId" in run and bool(messages) and is_one


def _read_gemini_cli(run: JsonObject, id: str, where: str) -> Iterator[Recording]:
    """A saved chat: an answer holds its calls, and each call what it returned."""
    transcript = Transcript(where, format="gemini-cli", provider="gemini")
    messages = objects_in(run.get("messages"))
    # newer versions keep the results as they were sent, too
    sent = {id for one in messages if text_at(one, "type") == "user" for id in _answered_ids(one)}
    for at, message in enumerate(messages):
        transcript.place = f"{where}: messages[{at}]"
        time = seconds(message.get("timestamp"))
        kind, content = text_at(message, "type"), message.get("content")
        if kind == "user" and _answered_ids(message):
            transcript.results(_gemini_parts(content), time=time)
        elif kind == "user":
            transcript.user(_gemini_parts(content), time=time)
        elif kind == "gemini":
            _take_gemini(transcript, message, time, sent)
        else:
            transcript.leave_out(f"message `{kind}`", "a notice for display", transcript.place)
    yield transcript.recording(text_at(run, "sessionId") or id, answered=not transcript.is_waiting)


def _answered_ids(message: JsonObject) -> list[str]:
    """The calls that a message of the user's role has the results of."""
    answers = (one.get("functionResponse") for one in objects_in(message.get("content")))
    return [text_at(object_in(one), "id") for one in answers if one]


def _gemini_parts(content: Json) -> list[Part]:
    if isinstance(content, str):
        return _texts(content)
    reading = dialect_named("gemini").read({"contents": [{"role": "user", "parts": content}]})
    return [one.part for turn in reading.turns for one in turn.parts]


def _take_gemini(
    transcript: Transcript, message: JsonObject, time: float | None, sent: Container[str]
) -> None:
    """An answer with its calls, and what those returned that were not `sent` in a message."""
    parts = [
        thought_part(f"**{text_at(one, 'subject')}** {text_at(one, 'description')}")
        for one in objects_in(message.get("thoughts"))
    ]
    parts += _gemini_parts(message.get("content") or "")
    results: list[Part] = []
    for call in objects_in(message.get("toolCalls")):
        name, call_id = text_at(call, "name"), text_at(call, "id")
        parts.append(call_part(name, object_in(call.get("args")), id=call_id))
        returned = call.get("result") if call_id not in sent else None
        listed = _gemini_parts(returned) if isinstance(returned, list) else []
        answered = [part for part in listed if part.function_response is not None]
        media = [part for part in listed if part.kind == "media"]
        if answered:
            results += [show_media(answered[0], media), *answered[1:]]
        elif returned:
            results.append(_result(call_id, name, returned))
    tokens = object_in(message.get("tokens"))
    if not parts:
        transcript.put_aside("empty answer", "nothing was said in it", transcript.place)
        return
    transcript.answer(parts, time=time, model=text_at(message, "model"), counts=tokens)
    if results:
        transcript.results(results, time=time)


def is_gemini_lines(row: JsonObject) -> bool:
    """Whether a line is one of a chat that Gemini CLI keeps a line at a time."""
    if "sessionId" in row and "projectHash" in row and "messages" not in row:
        return True
    return row.get("type") == "gemini" and "content" in row


def read_gemini_lines(
    lines: Sequence[TranscriptLine], name: str, where: str
) -> Iterator[Recording]:
    """A chat as its lines leave it: a message may be written again, and taken back."""
    run: JsonObject = {"sessionId": name}
    messages: dict[str, tuple[JsonObject, str]] = {}
    asides = Asides()
    excused: set[str] = set()

    def take_back(ids: Iterable[str]) -> None:
        for id in [*ids]:
            asides.add("message", "it was taken back", messages[id][1])
            excused.add(messages[id][1])
            del messages[id]

    for line in lines:
        row = line.value
        replaced = object_in(row.get("$set")).get("messages")
        if isinstance(row.get("$set"), dict):
            run.update(object_in(row["$set"]))
        if isinstance(replaced, list):
            now = {text_at(one, "id") or line.where: one for one in objects_in(replaced)}
            take_back(id for id in messages if id not in now)
            excused.update(place for id, (_, place) in messages.items() if id in now)
            messages = {id: (one, line.where) for id, one in now.items()}
        elif "$set" in row:
            pass
        elif "$rewindTo" in row:
            ids = [*messages]
            back = text_at(row, "$rewindTo")
            # who goes back to what is not there begins anew
            take_back(ids[ids.index(back) if back in ids else 0 :])
        elif "type" in row:
            id = text_at(row, "id") or line.where
            if id in messages:
                excused.add(messages[id][1])
            messages[id] = row, line.where
        else:
            run.update(row)
    run["messages"] = [row for row, _ in messages.values()]
    for one in _read_gemini_cli(run, name, where):
        yield one._replace(
            aside=(*one.aside, *asides.collect()), excused=one.excused | frozenset(excused)
        )


def is_gemini_stream(row: JsonObject) -> bool:
    """Whether a line is one that `gemini --output-format stream-json` prints."""
    if row.get("type") == "init":
        return "session_id" in row and "model" in row and "subtype" not in row
    return row.get("type") in ("tool_use", "tool_result") and "tool_id" in row


def read_gemini_stream(
    lines: Sequence[TranscriptLine], name: str, where: str
) -> Iterator[Recording]:
    """What was said and done, run by run: a file may have several, one after the other."""
    runs: list[list[TranscriptLine]] = [[]]
    for line in lines:
        ended = runs[-1] and text_at(runs[-1][-1].value, "type") == "result"
        begins = text_at(line.value, "type") == "init"
        if ended or (begins and any(text_at(one.value, "type") == "init" for one in runs[-1])):
            runs.append([])
        runs[-1].append(line)
    for run in runs:
        yield _read_gemini_run(run, name, where)


def _read_gemini_run(lines: Sequence[TranscriptLine], name: str, where: str) -> Recording:
    """One run. The pieces of a text and the calls after it are one answer."""
    transcript = Transcript(where, format="gemini-cli", provider="gemini")
    id, model = name, ""
    text, calls = "", list[Part]()
    time: float | None = None

    def end_answer() -> None:
        nonlocal text, calls
        words = [text_part(text)] if text else []
        if words or calls:
            transcript.answer([*words, *calls], time=time, model=model)
        text, calls = "", []

    for line in lines:
        row, kind = line.value, text_at(line.value, "type")
        if kind == "message" and row.get("role") == "assistant":
            if calls:
                end_answer()
            text += text_at(row, "content")
        elif kind == "tool_use":
            arguments, name_of_tool = object_in(row.get("parameters")), text_at(row, "tool_name")
            calls.append(call_part(name_of_tool, arguments, id=text_at(row, "tool_id")))
        else:
            end_answer()
        transcript.place, time = line.where, seconds(row.get("timestamp"))
        if kind == "init":
            id, model = text_at(row, "session_id") or id, text_at(row, "model")
        elif kind == "message" and row.get("role") == "user":
            transcript.user(_texts(row.get("content")), time=time)
        elif kind == "tool_result":
            failed = row.get("status") == "error"
            returned = row.get("output") or object_in(row.get("error")).get("message") or ""
            call_id = text_at(row, "tool_id")
            transcript.results([_result(call_id, "", returned, failed=failed)], time=time)
        elif kind == "result":
            _note_result(transcript, row)
        elif kind not in ("message", "tool_use"):
            transcript.leave_out(f"line `{kind}`", "a notice for display", line.where)
    end_answer()
    return transcript.recording(id, answered=not transcript.is_waiting)


def _note_result(transcript: Transcript, row: JsonObject) -> None:
    """What a run ended with: its error, and what was counted of all of it."""
    failure, stats = object_in(row.get("error")), object_in(row.get("stats"))
    if failure:
        transcript.put_aside("end of the run", text_at(failure, "message"), transcript.place)
    sent, received = stats.get("input_tokens"), stats.get("output_tokens")
    if isinstance(sent, int) and isinstance(received, int):
        why = f"of the whole run: {sent:,} sent and {received:,} received, not of each answer"
        transcript.put_aside("token counts", why, transcript.place)


# --- Qwen Code, whose messages are Gemini's in lines of its own


def is_qwen(row: JsonObject) -> bool:
    """Whether a line is one of Qwen Code's."""
    message = object_in(row.get("message"))
    return "sessionId" in row and "uuid" in row and isinstance(message.get("parts"), list)


def read_qwen(lines: Sequence[TranscriptLine], name: str, where: str) -> Iterator[Recording]:
    """A session: the branch that it ended on."""
    transcript = Transcript(where, format="qwen-code", provider="gemini")
    chosen = _last_branch(lines, id="uuid", parent="parentUuid")
    for line in lines:
        row, kind = line.value, text_at(line.value, "type")
        transcript.place, time = line.where, seconds(line.value.get("timestamp"))
        parts = _gemini_parts(object_in(row.get("message")).get("parts") or "")
        if kind in ("user", "assistant", "tool_result") and line.where not in chosen:
            transcript.leave_out(f"`{kind}` message", "it is on a branch that was left", line.where)
        elif kind == "assistant" and parts:
            counts = object_in(row.get("usageMetadata"))
            transcript.answer(parts, time=time, model=text_at(row, "model"), counts=counts)
        elif kind == "tool_result":
            results = [part for part in parts if part.function_response is not None]
            media = [part for part in parts if part.kind == "media"]
            transcript.results([show_media(results[0], media), *results[1:]] if results else [])
        elif kind == "user" and parts:
            transcript.user(parts, time=time)
        else:
            noted = f"{kind}/{row['subtype']}" if row.get("subtype") else kind
            # a line of another kind that has parts may hold what was said
            note = transcript.put_aside if parts else transcript.leave_out
            note(f"line `{noted}`", "it was never sent to the model", line.where)
    id = next((id for line in lines if (id := text_at(line.value, "sessionId"))), name)
    yield transcript.recording(id, answered=not transcript.is_waiting)


# --- GitHub Copilot CLI


def is_copilot(row: JsonObject) -> bool:
    """Whether a line is one of Copilot CLI's: of its own log, or of its export."""
    if row.get("agent") == "copilot-cli":
        return True
    kind = row.get("type")
    return (
        isinstance(kind, str)
        and kind.partition(".")[0] in _COPILOT_KINDS
        and "." in kind
        and isinstance(row.get("data"), dict)
    )


_COPILOT_KINDS = ("session", "system", "user", "assistant", "tool", "hook", "subagent")


def read_copilot(lines: Sequence[TranscriptLine], name: str, where: str) -> Iterator[Recording]:
    """The events of a session, and those of each sub-agent as a recording of its own.

    Answers of one request may stand on several lines.
    """
    main = _Copilot(where)
    agents: dict[str, _Copilot] = {}
    for line in lines:
        data = object_in(line.value.get("data"))
        starter = text_at(data, "parentToolCallId")
        if text_at(line.value, "type") == "subagent.started":
            main.names[text_at(data, "toolCallId")] = text_at(data, "agentName")
        if starter and starter not in agents:
            agents[starter] = _Copilot(f"{where}, sub-agent {main.names.get(starter, starter)}")
            agents[starter].begin(main.tasks.get(starter, ""))
        (agents[starter] if starter else main).take(line)
    whole = main.end(name)
    yield whole
    for starter, reader in agents.items():
        yield reader.end(f"{whole.id}/{starter}").started_by(whole, starter)


class _Copilot:
    def __init__(self, where: str) -> None:
        self.transcript = Transcript(where, format="copilot-cli")
        self.id = ""
        self.names: dict[str, str] = {}
        """The agents that calls started."""
        self.tasks: dict[str, str] = {}
        """What calls asked an agent to do."""
        self._model = ""
        """The model of the session, where an answer does not say its own."""
        self._call = ""
        """The request whose answer is being read."""
        self._usages: dict[str, JsonObject] = {}
        """What was counted, by the request."""
        self._parts: list[Part] = []
        self._facts: JsonObject = {}
        self._time: float | None = None

    def begin(self, task: str) -> None:
        """What a sub-agent was asked to do."""
        if task:
            self.transcript.user(_texts(task))

    def take(self, line: TranscriptLine) -> None:
        """One event."""
        row, transcript = line.value, self.transcript
        time = seconds(row.get("timestamp", row.get("ts")))
        kind = text_at(row, "type")
        if row.get("agent") == "copilot-cli":
            self._read_export(row, kind, line.where, time)
            return
        data = object_in(row.get("data"))
        self._model = text_at(data, "newModel") or text_at(data, "selectedModel") or self._model
        if kind == "assistant.message":
            self._answer(data, line.where, time)
        elif kind == "assistant.usage":
            self._facts = {**self._facts, "usage": data}
        elif kind == "session.usage_record":  # before the answer, and those of other requests
            usage = object_in(data.get("usage"))
            self._usages[text_at(usage, "apiCallId")] = usage
        elif kind == "tool.execution_complete":
            self._flush()
            transcript.place = line.where
            transcript.results([self._read_result(data)], time=time)
        elif kind == "user.message":
            self._flush()
            transcript.place = line.where
            # what was sent has the date and the files in it
            words = text_at(data, "transformedContent") or text_at(data, "content")
            transcript.user(_texts(words), time=time)
            if data.get("attachments"):
                why = "what was sent of them stands in the words"
                transcript.put_aside("`attachments` of a message", why, line.where)
        elif kind == "system.message":
            self._system(text_at(data, "content"), line.where)
        elif kind == "session.compaction_complete" and data.get("summaryContent"):
            self._flush()
            transcript.place = line.where
            transcript.summary(_texts(data["summaryContent"]), time=time)
        elif kind in ("session.start", "session.resume"):
            self.id = text_at(data, "sessionId") or self.id
        elif kind == "session.shutdown" and data.get("modelMetrics"):
            why = f"of the whole session: {_sum_up_metrics(object_in(data['modelMetrics']))}"
            transcript.put_aside("token counts", why, line.where)
        else:
            why = "it was never sent to the model"
            transcript.put_aside(f"event `{kind}`", why, line.where)

    def _system(self, text: str, where: str) -> None:
        transcript = self.transcript
        if text in transcript.system:
            why = "it repeats the system text"
        elif transcript.system:
            why = "the system text changed; the first one is read"
        else:
            transcript.system.append(text)
            return
        transcript.leave_out("later system text", why, where)

    def _answer(self, data: JsonObject, where: str, time: float | None) -> None:
        call = text_at(data, "apiCallId") or text_at(data, "turnId") or where
        if call != self._call:
            self._flush()
        self.transcript.place = where
        self._call, self._time, self._facts = call, time, {**self._facts, **data}
        thought = text_at(data, "reasoningText")
        self._parts += [thought_part(thought)] if thought else []
        self._parts += _texts(data.get("content"))
        for one in objects_in(data.get("toolRequests")):
            arguments = arguments_of(one.get("arguments"))
            call_id = text_at(one, "toolCallId")
            self.tasks[call_id] = text_at(arguments, "prompt")
            self._parts.append(call_part(text_at(one, "name"), arguments, id=call_id))

    def _read_result(self, data: JsonObject) -> Part:
        call_id, result = text_at(data, "toolCallId"), data.get("result")
        failure = object_in(data.get("error"))
        if failure or data.get("success") is False:
            text: Json = text_at(failure, "message") or compact(failure or result)
            return _result(call_id, "", text, failed=True)
        content = object_in(result).get("content", result)
        return _result(call_id, "", content)

    def _read_export(self, row: JsonObject, kind: str, where: str, time: float | None) -> None:
        """A line of the export: an answer with its calls, and in each what it returned."""
        transcript = self.transcript
        transcript.place = where
        if kind == "user":
            transcript.user(_texts(row.get("content")), time=time)
            return
        parts: list[Part] = []
        results: list[Part] = []
        for block in objects_in(row.get("content")):
            if block.get("type") != "tool_use":
                parts += _texts([block])
                continue
            call_id, name = text_at(block, "id"), text_at(block, "name")
            parts.append(call_part(name, arguments_of(block.get("input")), id=call_id))
            returned = block.get("result")
            if returned is not None:
                form = object_in(returned)
                failed = form.get("status") == "error" or "error" in form
                content = form.get("output", form.get("error", returned))
                results.append(_result(call_id, name, content, failed=failed))
        transcript.answer(parts, time=time, model=text_at(row, "model"), counts=row)
        if results:
            transcript.results(results, time=time)

    def _flush(self) -> None:
        if not self._parts:  # what was counted may stand before the answer
            return
        counted = self._usages.pop(self._call, {})
        counts = {**object_in(self._facts.get("usage")), **counted}
        counts = {"output": self._facts.get("outputTokens"), **counts}
        model = text_at(self._facts, "model") or text_at(counts, "model") or self._model
        reason = text_at(counts, "finishReason") or None
        self.transcript.answer(
            self._parts, time=self._time, model=model, counts=counts, finish_reason=reason
        )
        self._parts, self._facts, self._call = [], {}, ""

    def end(self, name: str) -> Recording:
        """The whole session."""
        self._flush()
        transcript = self.transcript
        for usage in self._usages.values():
            spent = compact({key: value for key, value in usage.items() if "Tokens" in key})
            transcript.put_aside("token counts", f"of another request: {spent}", transcript.where)
        return transcript.recording(self.id or name, answered=not transcript.is_waiting)


def _sum_up_metrics(metrics: JsonObject) -> str:
    """What a session says at its end of the tokens of each model, in words."""
    usages = {model: object_in(object_in(one).get("usage")) for model, one in metrics.items()}
    return "; ".join(
        f"{model}: {', '.join(f'{count:,} {name}' for name, count in usage.items() if isinstance(count, int))}"  # noqa: E501
        for model, usage in usages.items()
    )


# --- pi


def is_pi(row: JsonObject) -> bool:
    """Whether a line is one of pi's: entries of a tree, messages below them."""
    if row.get("type") == "session":
        return "cwd" in row and "sessionId" not in row
    message = row.get("message")
    return row.get("type") == "message" and isinstance(message, dict) and "uuid" not in row


def read_pi(lines: Sequence[TranscriptLine], name: str, where: str) -> Iterator[Recording]:
    """The branch of a session that it ended on."""
    transcript = Transcript(where, format="pi")
    chosen = _last_branch(lines)
    id = name
    for line in lines:
        row, kind = line.value, text_at(line.value, "type")
        transcript.place = line.where
        time = seconds(row.get("timestamp"))
        if kind == "session":
            id = text_at(row, "id") or id
        elif line.where not in chosen:
            transcript.leave_out(f"entry `{kind}`", "it is on a branch that was left", line.where)
        elif kind in ("message", "message_end"):
            _take_pi(transcript, object_in(row.get("message")), line.where, time)
        elif kind in _PI_STREAM:
            transcript.leave_out(f"line `{kind}`", "the message is read when it ends", line.where)
        elif kind in ("compaction", "branch_summary"):
            summary = _texts(text_at(row, "summary"))
            if kind == "compaction":
                transcript.summary(summary, time=time)
            else:
                transcript.user(summary, time=time)
        elif kind == "custom_message":
            transcript.user(_texts(row.get("content")), time=time)
        else:
            transcript.put_aside(f"entry `{kind}`", "it was never sent to the model", line.where)
    yield transcript.recording(id, answered=not transcript.is_waiting)


_PI_STREAM = (
    "agent_start", "agent_end", "turn_start", "turn_end", "message_start", "message_update",
    "tool_execution_start", "tool_execution_update", "tool_execution_end",
)  # fmt: skip
"""What pi prints as it runs, apart from the messages."""


def _last_branch(
    lines: Sequence[TranscriptLine], *, id: str = "id", parent: str = "parentId"
) -> set[str]:
    """The places of the entries from the first to the last; all, where none names its parent."""
    by_id = {text_at(line.value, id): line for line in lines if line.value.get(id)}
    if not any(line.value.get(parent) for line in lines):
        return {line.where for line in lines}
    before = dict(zip((line.where for line in lines[1:]), lines, strict=False))
    line: TranscriptLine | None = lines[-1]
    chosen: set[str] = set()
    while line is not None and line.where not in chosen:
        chosen.add(line.where)
        above = line.value.get(parent, "")
        # a parent that the file does not have is the entry before: that is where it was written
        line = None if above is None else by_id.get(str(above)) or before.get(line.where)
    return chosen


def _take_pi(transcript: Transcript, message: JsonObject, where: str, time: float | None) -> None:
    role, content = text_at(message, "role"), message.get("content")
    parts = _texts(content) if isinstance(content, str) else []
    for at, piece in enumerate(objects_in(content)):
        kind = text_at(piece, "type")
        if kind == "toolCall":
            arguments = arguments_of(piece.get("arguments"))
            parts.append(call_part(text_at(piece, "name"), arguments, id=text_at(piece, "id")))
        elif kind == "thinking":
            parts.append(thought_part(text_at(piece, "thinking")))
        elif kind == "image":
            blob = Blob(mime_type=text_at(piece, "mimeType"), data=text_at(piece, "data"))
            parts.append(Part(inline_data=blob))
        elif kind == "text":
            parts += _texts([piece])
        else:
            transcript.put_aside(f"part `{kind}`", "its form is unknown", f"{where}[{at}]")
    if role == "user":
        transcript.user(parts, time=time)
    elif role == "assistant":
        if not parts:
            failure = text_at(message, "errorMessage") or text_at(message, "stopReason")
            transcript.put_aside("answer", f"it is an error: {failure}", where)
            return
        transcript.answer(
            parts,
            time=time,
            model=text_at(message, "model"),
            counts=object_in(message.get("usage")),
        )
    elif role == "toolResult":
        text = "\n".join(part.text or "" for part in parts if part.text)
        name, call_id = text_at(message, "toolName"), text_at(message, "toolCallId")
        result = _result(call_id, name, text, failed=message.get("isError") is True)
        transcript.results([show_media(result, parts)], time=time)
    elif role == "bashExecution":  # the user ran a command, and the model hears of it
        words = f"$ {text_at(message, 'command')}\n{text_at(message, 'output')}"
        transcript.user(_texts(words), time=time)
    else:
        summary = _texts(message.get("summary")) or parts
        transcript.user(summary, time=time)


# --- OpenHands


def _is_openhands(run: JsonObject) -> bool:
    first = next(_flat(_history_of(run)), None)
    return first is not None and ("action" in first or "observation" in first
                                  or is_openhands(first))  # fmt: skip


def _history_of(run: JsonObject) -> Json:
    """The events of a run, under each of their names."""
    return next((run[key] for key in ("history", "trajectory", "events") if run.get(key)), None)


def _read_openhands(run: JsonObject, id: str, where: str) -> Iterator[Recording]:
    """An evaluated run: actions of the agent, and what the environment observed."""
    transcript = Transcript(where, format="openhands", provider=CHAT)
    metadata = object_in(run.get("metadata"))
    model = object_in(metadata.get("llm_config")) or object_in(metadata.get("llm"))
    transcript.model = text_at(model, "model")
    counts = _counts_of_openhands(run)
    seen: set[str] = set()
    for at, one in enumerate(_flat(_history_of(run))):
        place = transcript.place = f"{where}: history[{at}]"
        if text_at(one, "kind").endswith("Event"):
            _take_openhands_event(transcript, one, place, counts)
        else:
            _take_openhands(transcript, one, place, seen)
    names = {key: model[key] for key in ("temperature", "top_p") if model.get(key) is not None}
    transcript.config = names
    label = text_at(run, "instance_id") or id
    yield transcript.recording(label, answered=not transcript.is_waiting)


def _counts_of_openhands(run: JsonObject) -> dict[str, JsonObject]:
    """The tokens of each answer, by the id of its response, and what it cost."""
    by_usage = object_in(object_in(run.get("stats")).get("usage_to_metrics"))
    counts: dict[str, JsonObject] = {}
    for metrics in (object_in(run.get("metrics")), *objects_in([*by_usage.values()])):
        usages, costs = objects_in(metrics.get("token_usages")), objects_in(metrics.get("costs"))
        for at, usage in enumerate(usages):
            # answers that cost nothing are not in the list of costs
            cost = costs[at].get("cost") if len(costs) == len(usages) else None
            counts[text_at(usage, "response_id")] = {**usage, "cost": cost}
    return counts


def is_openhands(row: JsonObject) -> bool:
    """Whether an object is one event of OpenHands, of today's or the first form."""
    if "source" not in row:
        return False
    named = ("action", "observation")
    return any(isinstance(row.get(key), str) for key in named) or (
        text_at(row, "kind").endswith("Event") and "timestamp" in row
    )


def read_openhands(lines: Sequence[TranscriptLine], name: str, where: str) -> Iterator[Recording]:
    """The events of a conversation by themselves."""
    yield from _read_openhands({"history": [line.value for line in lines]}, name, where)


def _flat(history: Json) -> Iterator[JsonObject]:
    """The events of a history; older ones are pairs of an action and its observation."""
    for one in history if isinstance(history, list) else []:
        yield from objects_in(one if isinstance(one, list) else [one])


def _take_openhands(transcript: Transcript, event: JsonObject, place: str, seen: set[str]) -> None:
    time = seconds(event.get("timestamp"))
    action, args = text_at(event, "action"), object_in(event.get("args"))
    call = object_in(event.get("tool_call_metadata"))
    response = object_in(call.get("model_response"))
    call_id = text_at(call, "tool_call_id")
    if call and not call_id:
        raise SessionError("this event has the id of no call", where=place, hint="is it cut?")
    if action == "system":
        transcript.system.append(text_at(args, "content"))
        tools: list[Json] = [*objects_in(args.get("tools"))]
        transcript.tools = tools_of(dialect_named(CHAT).read({"tools": tools}).tools)
    elif action == "message" and not response:
        parts = _texts(text_at(args, "content"))
        images = args.get("image_urls")
        parts += [
            linked_part(url, "image/png")
            for url in (images if isinstance(images, list) else [])
            if isinstance(url, str)
        ]
        if event.get("source") == "user":
            transcript.user(parts, time=time)
        else:
            transcript.answer(parts, time=time, model=transcript.model)
    elif action and response:
        answer = text_at(response, "id") or compact(response)
        if answer not in seen:  # one answer may hold several calls, each an action
            seen.add(answer)
            take_answer(transcript, CHAT, response, place, time=time)
    elif action and event.get("source") == "agent" and action not in _STATES:
        # runs without tool calls: what the agent did, and the thought before it
        done = {key: value for key, value in args.items() if key != "thought"}
        parts = _texts(text_at(args, "thought"))
        parts.append(call_part(action, done, id=str(event.get("id"))))
        transcript.answer(parts, time=time, model=transcript.model)
    elif "observation" in event and (call_id or event.get("cause") is not None):
        id = call_id or str(event.get("cause"))
        if "content" not in event:
            raise SessionError("an observation has no content", where=place, hint="is it cut?")
        if call_id or transcript.has_call(id):
            transcript.results([_result(id, "", event.get("content"))], time=time)
        else:
            why = "it goes into the prompt in a form that the file does not hold"
            transcript.put_aside(f"observation `{event.get('observation')}`", why, place)
    else:
        kind = action or text_at(event, "observation")
        transcript.put_aside(f"event `{kind}`", "it was never sent to the model", place)


def openhands_run(events: Sequence[Json], state: JsonObject) -> JsonObject:
    """A conversation that OpenHands keeps in a folder, as a run: its events, and its state."""
    llm = object_in(state.get("agent")).get("llm")
    return {"instance_id": state.get("id"), "history": [*events], "metadata": {"llm": llm},
            "stats": state.get("stats")}  # fmt: skip


def _tool_of_openhands(tool: JsonObject) -> JsonObject:
    """A tool as a chat declares it: OpenHands writes its title, and a schema for those of MCP."""
    if "function" in tool or not tool.get("title"):
        return tool
    function: JsonObject = {"name": tool["title"], "description": tool.get("description")}
    schema = object_in(tool.get("mcp_tool")).get("inputSchema")
    return {
        "type": "function",
        "function": {**function, "parameters": schema} if schema else function,
    }


def _take_openhands_event(
    transcript: Transcript, event: JsonObject, place: str, counts: Mapping[str, JsonObject]
) -> None:
    """An event of today's form: its kind says what it is, and a call stands whole in it."""
    kind, time = text_at(event, "kind"), seconds(event.get("timestamp"))
    message = object_in(event.get("llm_message"))
    call = object_in(event.get("tool_call"))
    if kind == "SystemPromptEvent":
        prompts = [event[key] for key in ("system_prompt", "dynamic_context") if event.get(key)]
        transcript.system += [part.text or "" for part in _texts(prompts)]
        tools: list[Json] = [*map(_tool_of_openhands, objects_in(event.get("tools")))]
        if any("title" in one for one in objects_in(event.get("tools"))):
            why = "the file has no parameters of tools that are not of MCP"
            transcript.put_aside("parameters of tools", why, place)
        transcript.tools = tools_of(dialect_named(CHAT).read({"tools": tools}).tools)
    elif kind == "ActionEvent":
        thought = text_at(event, "reasoning_content")
        parts = [*([thought_part(thought)] if thought else []), *_texts(event.get("thought"))]
        function = object_in(call.get("function")) or call
        name = text_at(function, "name") or text_at(event, "tool_name")
        arguments = arguments_of(function.get("arguments", event.get("action")))
        parts.append(call_part(name, arguments, id=text_at(event, "tool_call_id")))
        _join_answer(transcript, parts, text_at(event, "llm_response_id"), time, counts)
    elif kind == "MessageEvent":
        parts = [*_texts(message.get("content")), *_texts(event.get("extended_content"))]
        for piece in objects_in(message.get("content")):
            urls = piece.get("image_urls")
            parts += [linked_part(url, "image/png") for url in
                      (urls if isinstance(urls, list) else []) if isinstance(url, str)]  # fmt: skip
        if event.get("source") == "user":
            transcript.user(parts, time=time)
        else:
            thought = text_at(message, "reasoning_content")
            parts = [*([thought_part(thought)] if thought else []), *parts]
            _join_answer(transcript, parts, text_at(event, "llm_response_id"), time, counts)
    elif event.get("tool_call_id"):  # an observation, an error of the agent, a rejection
        seen = object_in(event.get("observation"))
        content = seen.get("content", seen.get("output"))
        words = "\n".join(part.text or "" for part in _texts(content))
        words = _end_of_command(words, object_in(seen.get("metadata")))
        words += "".join(part.text or "" for part in _texts(event.get("extended_content")))
        failure = text_at(event, "error") or text_at(event, "rejection_reason")
        name = text_at(event, "tool_name")
        result: Json = failure or words or compact(seen)
        failed = bool(failure) or seen.get("is_error") is True
        back = _result(text_at(event, "tool_call_id"), name, result, failed=failed)
        transcript.results([back], time=time)
    else:
        transcript.leave_out(f"event `{kind}`", "it was never sent to the model", place)


def _end_of_command(output: str, about: JsonObject) -> str:
    """What a command printed, with what OpenHands tells the model about how it ended."""
    lines = [f"{text_at(about, 'prefix')}{output}{text_at(about, 'suffix')}"]
    code = about.get("exit_code")
    lines += [
        f"[{name}: {about[key]}]"
        for key, name in (("working_dir", "Current working directory"),
                          ("py_interpreter_path", "Python interpreter"))
        if about.get(key)
    ]  # fmt: skip
    if code is not None and code != _RUNS_ON:
        lines.append(f"[Command finished with exit code {code}]")
    return "\n".join(lines)


_RUNS_ON = -1
"""The exit code of a command that has not ended."""


def _join_answer(
    transcript: Transcript,
    parts: list[Part],
    answer: str,
    time: float | None,
    counts: Mapping[str, JsonObject],
) -> None:
    """Add an answer; several calls of one answer are events that name the same response."""
    content = transcript.events[-1].content if transcript.events else None
    joins = bool(answer) and transcript.reply == answer
    if joins and content is not None and content.role == "model":
        whole = msgspec.structs.replace(content, parts=(*(content.parts or ()), *parts))
        transcript.events[-1] = msgspec.structs.replace(transcript.events[-1], content=whole)
        return
    counted = counts.get(answer, _NOTHING)
    cost = read_cost(counted)
    transcript.answer(parts, time=time, model=transcript.model, counts=counted, cost=cost)
    transcript.reply = answer


_STATES = ("recall", "change_agent_state", "condensation", "null")
"""Actions of the program, not of the model."""


# --- runs that are chats: mini-swe-agent, SWE-agent, and whoever keeps usage next to messages


def _is_mini_swe(run: JsonObject) -> bool:
    return text_at(run, "trajectory_format").startswith("mini-swe-agent") or (
        isinstance(run.get("messages"), list)
        and "model_stats" in object_in(run.get("info"))
        and "trajectory" not in run
    )


def _read_mini_swe(run: JsonObject, id: str, where: str) -> Iterator[Recording]:
    """A trajectory: the chat, and in each answer the response of the provider."""
    info = object_in(run.get("info"))
    model = object_in(object_in(info.get("config")).get("model"))
    if any(one.get("object") == "response" for one in objects_in(run.get("messages"))):
        yield _read_mini_responses(run, text_at(model, "model_name"), id, where)
        return
    messages: list[JsonObject] = []
    facts: list[JsonObject] = []
    asides = Asides()
    for at, message in enumerate(objects_in(run.get("messages"))):
        if message.get("role") == "exit":
            asides.add(
                "message `exit`", "it was never sent to the model", f"{where}: messages[{at}]"
            )
            continue
        extra = object_in(message.get("extra"))
        response = object_in(extra.get("response"))
        plain = {key: value for key, value in message.items() if key != "extra"}
        spoken = [object_in(one.get("message")) for one in objects_in(response.get("choices"))]
        thought = next((text_at(one, "reasoning") for one in spoken if one.get("reasoning")), "")
        if thought and "reasoning_content" not in plain:  # it was said, and stands nowhere else
            plain["reasoning_content"] = thought
        messages.append(plain)
        if message.get("role") == "assistant":
            usage = object_in(response.get("usage"))
            time = extra.get("timestamp") or response.get("created")
            facts.append({"usage": usage, "time": time, "model": response.get("model")})
    chat = _read_chat(messages, text_at(run, "instance_id") or id, where, format="mini-swe-agent")
    extra_options = object_in(model.get("model_kwargs"))
    options: JsonObject = {"extra": {CHAT: extra_options}} if extra_options else {}
    recording = _with_facts(chat, facts, model=text_at(model, "model_name"))
    yield recording._replace(config=options, aside=(*recording.aside, *asides.collect()))


def _read_mini_responses(run: JsonObject, model: str, id: str, where: str) -> Recording:
    """A trajectory through the Responses API: an answer is the whole response."""
    dialect = "openai-responses"
    transcript = Transcript(where, format="mini-swe-agent", provider=dialect)
    transcript.model = model
    for at, message in enumerate(objects_in(run.get("messages"))):
        place = transcript.place = f"{where}: messages[{at}]"
        time = seconds(object_in(message.get("extra")).get("timestamp"))
        if message.get("object") == "response":
            take_answer(transcript, dialect, message, place, time=time)
        elif message.get("type") == "function_call_output":
            words = "\n".join(part.text or "" for part in _texts(message.get("output")))
            transcript.results([_result(text_at(message, "call_id"), "", words)], time=time)
        elif message.get("role") == "system":
            transcript.system += [part.text or "" for part in _texts(message.get("content"))]
        elif message.get("role") == "exit":
            transcript.leave_out("message `exit`", "it was never sent to the model", place)
        else:
            transcript.user(_texts(message.get("content")), time=time)
    return transcript.recording(
        text_at(run, "instance_id") or id, answered=not transcript.is_waiting
    )


def _is_swe_agent(run: JsonObject) -> bool:
    steps = objects_in(run.get("trajectory"))
    if steps:
        return steps[0].keys() >= {"action", "response"}
    history = objects_in(run.get("history"))  # a demonstration has no more than that
    return bool(history) and all("role" in one and "content" in one for one in history)


def _read_swe_agent(run: JsonObject, id: str, where: str) -> Iterator[Recording]:
    """A trajectory with the history that was sent; the trajectory itself repeats it."""
    history = objects_in(run.get("history"))
    if not history:  # the last request holds all before it
        last = objects_in(run.get("trajectory"))[-1]
        answer: JsonObject = {"role": "assistant", "content": last.get("response")}
        history = [*objects_in(last.get("query")), answer]
    asides: list[Aside] = []
    ends = next((at for at, one in enumerate(history) if _ends_run(one)), len(history))
    if ends < len(history):
        why = f"the program wrote how the run ended: {text_at(history[ends], 'content')}"
        asides.append(Aside("message", why, len(history) - ends, (f"{where}: history[{ends}]",)))
    messages = [_plain_swe_agent(one) for one in history[:ends]]
    chat = _read_chat(messages, text_at(run, "environment") or id, where, format="swe-agent")
    written = run.get("replay_config")  # newer versions write it as text
    parsed = cast("Json", parse_json(written)) if isinstance(written, str) else written
    options = object_in(parsed)
    model = text_at(object_in(object_in(options.get("agent")).get("model")), "name")
    # the trajectory repeats the history, but for what was asked again
    excused = {
        f"{where}.trajectory",
        *(f"{where}.history[{at}]" for at in range(ends, len(history))),
    }
    for at in _find_other_answers(objects_in(run.get("trajectory")), history):
        why = "the history goes on without it: it was asked again, or the run ended with it"
        asides.append(Aside("answer", why, 1, (f"{where}: trajectory[{at}]",)))
    chat = chat._replace(excused=chat.excused | excused, aside=(*chat.aside, *asides))
    stats = object_in(object_in(run.get("info")).get("model_stats"))
    sent, received = stats.get("tokens_sent"), stats.get("tokens_received")
    if isinstance(sent, int) and isinstance(received, int):
        why = f"of the whole run: {sent:,} sent and {received:,} received, not of each answer"
        chat = chat._replace(aside=(*chat.aside, Aside("token counts", why, 1, (where,))))
    recording = _with_facts(chat, (), model=model)
    requests = _list_swe_requests(run, history[:ends], recording, model)
    yield recording._replace(exchanges=requests)


def _plain_swe_agent(message: JsonObject) -> JsonObject:
    """A message of the history as it is sent."""
    ids = message.get("tool_call_ids")
    fields = ("role", "content", "tool_calls")
    plain: JsonObject = {key: message[key] for key in fields if key in message}
    thoughts = [text_at(one, "thinking") for one in objects_in(message.get("thinking_blocks"))]
    if any(thoughts):
        plain["reasoning_content"] = "\n\n".join(filter(None, thoughts))
    if message.get("role") == "tool" and isinstance(ids, list) and ids:
        plain["tool_call_id"] = ids[0]
    return {key: value for key, value in plain.items() if value is not None}


def _list_swe_requests(
    run: JsonObject, history: Sequence[JsonObject], recording: Recording, model: str
) -> tuple[ExchangeRecord, ...]:
    """The requests as the steps have them: they leave out what old commands printed.

    Older versions write down none; then the history is all there is.
    """
    spoken = [at for at, one in enumerate(history) if one.get("role") == "assistant"]
    answers = [one for one in recording.session.events
               if one.content is not None and one.content.role == "model"]  # fmt: skip
    if len(spoken) != len(answers):
        return ()
    events = dict(zip(spoken, answers, strict=True))
    exchanges: list[ExchangeRecord] = []
    steps = objects_in(run.get("trajectory"))
    requests = [(at, objects_in(step.get("query"))) for at, step in enumerate(steps)]
    if steps and "messages" in steps[0]:
        # what stood there after a step, with its answer and what came back, was asked next
        after = [(at, objects_in(step.get("messages"))) for at, step in enumerate(steps)]
        requests = [(0, after[0][1][:-2]), *after]
    for number, request in requests:
        event = events.pop(len(request), None)
        if event is None or not all("role" in one for one in request):
            continue
        messages: list[Json] = [*map(_plain_swe_agent, request)]
        exchanges.append(
            ExchangeRecord(
                number=len(exchanges) + 1,
                event=event.id,
                dialect=CHAT,
                model=model,
                body={"messages": messages, **({"model": model} if model else {})},
                source=f"{recording.source}: trajectory[{number}]",
            )
        )
    return tuple(exchanges)


def _ends_run(message: JsonObject) -> bool:
    """Whether an answer is SWE-agent's own word on why the run ended."""
    text = text_at(message, "content")
    return message.get("role") == "assistant" and text.startswith("Exit due to ")


def _find_other_answers(
    steps: Sequence[JsonObject], history: Sequence[JsonObject]
) -> Iterator[int]:
    """The steps whose answer, or the thought in it, stands nowhere in the history."""
    spoken = "\0".join(part.text or "" for one in history for part in _texts(one.get("content")))
    for at, step in enumerate(steps):
        words = [text_at(step, name).strip() for name in ("response", "thought")]
        if any(words) and not any(one and one in spoken for one in words):
            yield at


def _is_chat_run(run: JsonObject) -> bool:
    """Whether a chat has what was counted and when next to its messages, or other facts of a run.

    A request has none of these, and a model is only named in it.
    """
    messages = objects_in(run.get("messages"))
    listed = (run.get("usage"), run.get("timestamps"))
    facts = any(isinstance(one, list) for one in listed) or bool(run.keys() & _RUN_FACTS)
    return facts and bool(messages) and any(one.get("role") == "assistant" for one in messages)


_RUN_FACTS = frozenset(
    ("steps", "timestamps", "trajectory_id", "outcome", "resolved", "exit_status", "run_id")
)


def _read_chat_run(run: JsonObject, id: str, where: str) -> Iterator[Recording]:
    written = objects_in(run.get("messages"))
    # Agno writes what was counted into each message, and the tools that ran as `tools`
    messages = [{key: one[key] for key in one if key not in _AGNO} for one in written]
    tools = [one for one in objects_in(run.get("tools")) if "tool_call_id" not in one]
    label = text_at(run, "id") or text_at(run, "run_id") or id
    chat = _read_chat(messages, label, where, format="chat-run", tools=tools)
    usages, times = run.get("usage"), run.get("timestamps")
    spoken = [object_in(one.get("metrics")) for one in written if one.get("role") == "assistant"]
    usages = usages if isinstance(usages, list) else [*spoken] if any(spoken) else []
    times = times if isinstance(times, list) else []
    answers = sum(one.get("role") == "assistant" for one in messages)
    facts: list[JsonObject] = []
    # lists of another length say nothing about single answers
    for at in range(answers):
        facts.append(
            {
                "usage": usages[at] if len(usages) == answers else None,
                "time": times[at] if len(times) == answers else None,
            }
        )
    asides = [*find_other_fields(run, _RUN_FIELDS, "messages", where)]
    for name, listed in (("usage", usages), ("timestamps", times)):
        if listed and len(listed) != answers:
            why = f"there are {len(listed)} for {answers} answers, so none is that of one answer"
            asides.append(Aside(f"`{name}` next to the messages", why, 1, (where,)))
    recording = _with_facts(chat, facts, model=text_at(run, "model"))
    yield recording._replace(aside=(*recording.aside, *asides))


_AGNO = ("metrics", "created_at", "from_history", "stop_after_tool_call", "tool_call_error")

_RUN_FIELDS = ("id", "run_id", "messages", "tools", "model", "usage", "timestamps")


def _read_chat(
    messages: Sequence[JsonObject],
    id: str,
    where: str,
    *,
    format: str,
    tools: Sequence[JsonObject] = (),
) -> Recording:
    recording = read_messages([*messages], CHAT, id, where)
    if tools:
        read = dialect_named(CHAT).read({"tools": [*tools], "messages": []})
        recording = recording._replace(tools=tools_of(read.tools))
    ends = recording.session.events.tip
    waits = ends is not None and ends.content is not None and ends.content.role == "user"
    return recording._replace(format=format, asks=AGENT if waits else "")


def _with_facts(
    recording: Recording, facts: Iterable[Mapping[str, Json]], *, model: str
) -> Recording:
    """The chat with what was counted of each answer, when it came and who gave it."""
    listed = iter(facts)
    events = [*recording.session.events]
    latest = 0.0
    for at, event in enumerate(events):
        if event.content is not None and event.content.role == "model":
            fact = next(listed, _NOTHING)
            time = seconds(fact.get("time")) or 0.0
            time = time / 1000 if time > _MILLISECONDS else time
            name = fact.get("model")
            usage = object_in(fact.get("usage"))
            event = msgspec.structs.replace(
                with_cost(with_counts(event, usage), read_cost(usage)),
                model_version=(name if isinstance(name, str) else "") or model or None,
                timestamp=time or event.timestamp,
            )
        # clocks may go back, and a log does not
        latest = max(latest + 1e-6, event.timestamp if event.timestamp > _DATED else latest)
        events[at] = msgspec.structs.replace(
            event, timestamp=latest if latest > _DATED else event.timestamp
        )
    session = with_events(recording.session, events)
    return recording._replace(session=session, model=model or recording.model)


_NOTHING: Mapping[str, Json] = {}

_MILLISECONDS = 1e11
_DATED = 1e8


# --- Mistral Vibe


def is_vibe_about(about: JsonObject) -> bool:
    """Whether an object is what Mistral Vibe writes down about a session, next to its messages."""
    named = ("environment", "stats", "agent_profile", "start_time")
    return isinstance(about.get("session_id"), str) and any(name in about for name in named)


def _is_vibe(run: JsonObject) -> bool:
    return isinstance(run.get("messages"), list) and is_vibe_about(object_in(run.get("metadata")))


def _read_vibe(run: JsonObject, id: str, where: str) -> Iterator[Recording]:
    """A session: the chat, with the system text, the tools and the model of its metadata."""
    about = object_in(run.get("metadata"))
    config = object_in(about.get("config") or about.get("agent_config"))
    written = objects_in(run.get("messages"))
    messages = [
        {**{key: value for key, value in one.items() if key not in _VIBE}, **_vibe_pictures(one)}
        for one in written
    ]
    system = object_in(about.get("system_prompt"))
    if system.get("content") and not any(one.get("role") == "system" for one in messages):
        messages.insert(0, {"role": "system", "content": system["content"]})
    tools = objects_in(about.get("tools_available") or run.get("tools_available"))
    label = text_at(about, "session_id") or id
    chat = _read_chat(messages, label, where, format="vibe", tools=tools)
    chosen = text_at(config, "active_model")
    models = [one for one in objects_in(config.get("models")) if one.get("alias") == chosen]
    model = (text_at(models[0], "name") if models else "") or chosen
    asides = [*chat.aside]
    kept_elsewhere = sum(bool(one.get("images")) for one in written) - sum(
        "image_url" in compact(one) for one in messages
    )
    if kept_elsewhere > 0:
        why = "it is kept in another file"
        asides.append(Aside("picture of a message", why, kept_elsewhere, (where,)))
    stats = object_in(about.get("stats"))
    sent, received = (stats.get(f"session_{one}_tokens") for one in ("prompt", "completion"))
    if isinstance(sent, int) and isinstance(received, int):
        why = f"of the session: {sent:,} sent and {received:,} received, not of each answer"
        asides.append(Aside("token counts", why, 1, (where,)))
    yield _with_facts(chat._replace(aside=tuple(asides)), (), model=model)


_VIBE = frozenset(
    ("images", "injected", "message_id", "reasoning_message_id", "reasoning_state",
     "reasoning_signature", "user_display_content", "tool_result", "resources")
)  # fmt: skip
"""What is not sent of a message as it stands in the log."""


def _vibe_pictures(message: JsonObject) -> JsonObject:
    """The content of a message with the pictures that are in the log."""
    pictures: list[Json] = []
    for one in objects_in(message.get("images")):
        data = text_at(object_in(one.get("source")), "data") or text_at(one, "data")
        if data:
            url = f"data:{text_at(one, 'mime_type') or 'image/png'};base64,{data}"
            pictures.append({"type": "image_url", "image_url": {"url": url}})
    if not pictures:
        return {}
    return {"content": [{"type": "text", "text": text_at(message, "content")}, *pictures]}


# --- ATIF


def _is_atif(run: JsonObject) -> bool:
    return text_at(run, "schema_version").startswith("ATIF") and isinstance(run.get("steps"), list)


def _read_atif(run: JsonObject, id: str, where: str) -> Iterator[Recording]:
    """A trajectory of Harbor's interchange format, and those of its sub-agents.

    A step holds calls and what was observed; an observation names the sub-agent that made it.
    """
    whole = _read_trajectory(run, id, where)
    yield whole
    started = {
        text_at(ref, "trajectory_id") or text_at(ref, "session_id"): text_at(one, "source_call_id")
        for step in objects_in(run.get("steps"))
        for one in objects_in(object_in(step.get("observation")).get("results"))
        for ref in objects_in(one.get("subagent_trajectory_ref"))
    }
    for at, child in enumerate(objects_in(run.get("subagent_trajectories"))):
        name = text_at(child, "trajectory_id") or text_at(child, "session_id")
        place = f"{where}: subagent_trajectories[{at}]"
        for one in _read_atif({**child, "session_id": ""}, f"{whole.id}/{name or at + 1}", place):
            yield one if one.parent else one.started_by(whole, started.get(name, ""))


def _read_trajectory(run: JsonObject, id: str, where: str) -> Recording:
    transcript = Transcript(where, format="atif")
    agent = object_in(run.get("agent"))
    transcript.model = text_at(agent, "model_name")
    tools: list[Json] = [*objects_in(agent.get("tool_definitions"))]
    transcript.tools = tools_of(dialect_named(CHAT).read({"tools": tools}).tools)
    for at, step in enumerate(objects_in(run.get("steps"))):
        transcript.place = f"{where}: steps[{at}]"
        _take_atif(transcript, step)
    known = ("schema_version", "session_id", "trajectory_id", "agent", "steps",
             "subagent_trajectories")  # fmt: skip
    beside = find_other_fields(run, known, "steps", where)
    recording = transcript.recording(
        text_at(run, "session_id") or id, answered=not transcript.is_waiting
    )
    return recording._replace(aside=(*recording.aside, *beside))


def _take_atif(transcript: Transcript, step: JsonObject) -> None:
    place = transcript.place
    time, source = seconds(step.get("timestamp")), text_at(step, "source")
    parts = _atif_parts(transcript, step.get("message"))
    results = objects_in(object_in(step.get("observation")).get("results"))
    if source == "agent":
        thought = text_at(step, "reasoning_content")
        parts = [*([thought_part(thought)] if thought else []), *parts]
        for call in objects_in(step.get("tool_calls")):
            arguments = arguments_of(call.get("arguments"))
            name = text_at(call, "function_name")
            parts.append(call_part(name, arguments, id=text_at(call, "tool_call_id")))
        counts = object_in(step.get("metrics"))
        model = text_at(step, "model_name") or transcript.model
        if parts:
            transcript.answer(parts, time=time, model=model, counts=counts)
        else:
            transcript.put_aside("empty answer", "nothing was said in it", place)
    elif source == "system" and not transcript.events:
        transcript.system += [part.text or "" for part in parts]
    elif parts:
        transcript.user(parts, time=time)
    for one in results:
        call_id = text_at(one, "source_call_id")
        observed = _atif_parts(transcript, one.get("content"))
        if call_id and transcript.has_call(call_id):
            text = "\n".join(part.text or "" for part in observed if part.text)
            result = _result(call_id, "", text)
            transcript.results([show_media(result, observed)], time=time)
        elif observed:
            transcript.user(observed, time=time)
        if any(not text_at(ref, "trajectory_id")
               for ref in objects_in(one.get("subagent_trajectory_ref"))):  # fmt: skip
            why = "the run of the sub-agent is another file"
            transcript.put_aside("`subagent_trajectory_ref` of a result", why, place)


def _atif_parts(transcript: Transcript, content: Json) -> list[Part]:
    """The texts of a message, and the pictures among them: each is a file next to the run."""
    parts: list[Part] = []
    for at, piece in enumerate(content if isinstance(content, list) else [content]):
        source = object_in(object_in(piece).get("source"))
        path = text_at(source, "path")
        if re.match(r"https?:|data:|gs:|s3:", path):
            parts.append(linked_part(path, text_at(source, "media_type") or "image/png"))
        elif path:
            why = f"it is in a file of its own, {path}"
            transcript.put_aside("picture", why, f"{transcript.place}[{at}]")
        else:
            parts += _texts([piece])
    return parts


# --- inspect-ai


def _is_inspect(run: JsonObject) -> bool:
    return isinstance(run.get("eval"), dict) and any(
        isinstance(one.get("messages"), list) for one in objects_in(run.get("samples"))
    )


def _read_inspect(run: JsonObject, id: str, where: str) -> Iterator[Recording]:
    """A log of an evaluation: the messages of each sample, and what its calls were billed."""
    model = text_at(object_in(run.get("eval")), "model")
    for at, sample in enumerate(objects_in(run.get("samples"))):
        place = f"{where}: samples[{at}]"
        stored = object_in(sample.get("attachments"))
        stored = {**object_in(object_in(sample.get("transcript")).get("content")), **stored}
        written = objects_in(sample.get("messages"))
        listed = [object_in(_with_stored(one, stored)) for one in written]
        messages = [_inspect_message(one) for one in listed]
        events = objects_in(sample.get("events"))
        asked = [one for one in events if one.get("event") == "model"]
        answers = [one for one in written if one.get("role") == "assistant"]
        facts, beside = _match_calls(answers, asked)
        label = f"{sample.get('id', id)}-{sample.get('epoch', 1)}"
        chat = _read_chat(messages, label, place, format="inspect-ai")
        names = ("events", "output", "input", "attachments", "transcript")
        repeated = {f"{place}.{name}" for name in names}
        repeated |= {
            f"{place}.messages[{number}]"
            for number, (one, whole) in enumerate(zip(written, listed, strict=True))
            if one != whole
        }
        aside = [
            Aside("sample's `events`", "they repeat the messages, step by step", 1, (place,))
        ] * bool(events)  # fmt: skip
        for one in beside:
            counts = read_counts(object_in(object_in(one.get("output")).get("usage")))
            sent = (counts.prompt_token_count or 0) if counts is not None else 0
            why = f"a scorer or another agent made it, {sent:,} tokens sent: it is in no sum"
            aside.append(Aside(f"call of {text_at(one, 'model')}", why, 1, (place,)))
        chat = chat._replace(excused=chat.excused | repeated, aside=(*chat.aside, *aside))
        yield _with_facts(chat, facts, model=model)


def _match_calls(
    answers: Sequence[JsonObject], calls: Sequence[JsonObject]
) -> tuple[list[JsonObject], list[JsonObject]]:
    """What was counted of each answer, and the calls that none of the answers came from."""
    ids: dict[str, JsonObject] = {}
    for call in calls:
        choices = objects_in(object_in(call.get("output")).get("choices"))
        if choices and (id := text_at(object_in(choices[0].get("message")), "id")):
            ids[id] = call
    sources = [ids.get(text_at(one, "id"), _NO_CALL) for one in answers]
    if not any(sources) and len(calls) == len(answers):
        sources = [*calls]  # older logs have no ids
    facts: list[JsonObject] = [
        {
            "usage": object_in(one.get("output")).get("usage"),
            "time": one.get("timestamp"),
            "model": one.get("model"),
        }
        for one in sources
    ]
    return facts, [one for one in calls if not any(one is each for each in sources)]


_NO_CALL: JsonObject = {}


def _with_stored(value: Json, stored: JsonObject) -> Json:
    """A value with the texts and media that a log keeps once and names by their digests."""
    if isinstance(value, str) and value.startswith(("attachment://", "tc://")):
        return stored.get(value.partition("://")[2], value)
    if isinstance(value, list):
        return [_with_stored(one, stored) for one in value]
    if isinstance(value, dict):
        return {key: _with_stored(one, stored) for key, one in value.items()}
    return value


def _inspect_message(message: JsonObject) -> JsonObject:
    """A message as one of a chat: calls name their function without an object around it."""
    plain = {key: message[key] for key in ("role", "content", "tool_call_id") if message.get(key)}
    content = plain.get("content")
    if isinstance(content, list):
        thoughts = [text_at(one, "reasoning") for one in objects_in(content)]
        plain["content"] = [_inspect_piece(one) for one in objects_in(content)
                           if one.get("type") != "reasoning"]  # fmt: skip
        if any(thoughts):
            plain["reasoning_content"] = "\n\n".join(filter(None, thoughts))
    calls = objects_in(message.get("tool_calls"))
    if calls:
        plain["tool_calls"] = [
            {
                "id": call.get("id"),
                "type": "function",
                "function": {
                    "name": call.get("function"),
                    "arguments": compact(call.get("arguments") or {}),
                },
            }
            for call in calls
        ]
    return plain


def _inspect_piece(piece: JsonObject) -> JsonObject:
    if piece.get("type") == "image":
        return {"type": "image_url", "image_url": {"url": piece.get("image")}}
    return piece


# --- AutoGen and agent-framework: lists of messages that name their kind

_AUTOGEN = {
    "TextMessage": "text",
    "MultiModalMessage": "text",
    "StopMessage": "text",
    "HandoffMessage": "text",
    "UserMessage": "text",
    "AssistantMessage": "text",
    "SystemMessage": "system",
    "ThoughtEvent": "thought",
    "ToolCallRequestEvent": "calls",
    "ToolCallExecutionEvent": "results",
    "FunctionExecutionResultMessage": "results",
    "ToolCallSummaryMessage": "display",
    "MemoryQueryEvent": "memory",
    "CodeGenerationEvent": "text",
    "CodeExecutionEvent": "execution",
    "SelectSpeakerEvent": "notice",
    "SelectorEvent": "notice",
    "ModelClientStreamingChunkEvent": "notice",
    "UserInputRequestedEvent": "notice",
}
"""AutoGen's kinds of messages, and what each holds."""


def is_autogen(messages: list[JsonObject]) -> bool:
    """Whether a list is of AutoGen's messages, each with its type and who said it."""

    def is_one(one: JsonObject) -> bool:
        kind = text_at(one, "type")
        known = kind in _AUTOGEN or kind.startswith("StructuredMessage")
        return known and ("content" in one or "source" in one)

    return all(map(is_one, messages)) and any("source" in one for one in messages)


def read_autogen(messages: list[Json], id: str, where: str) -> Recording:
    """Messages of a team, or those of an agent's context."""
    transcript = Transcript(where, format="autogen")
    speakers: dict[str, str] = {}
    thoughts: list[tuple[str, Part, float | None, Usage | None]] = []

    def think() -> None:
        """Thoughts that no answer followed are answers of their own."""
        for source, part, when, counted in thoughts:
            transcript.answer([part], time=when, usage=counted)
            speakers[transcript.events[-1].id] = source
        thoughts.clear()

    for at, message in enumerate(objects_in(messages)):
        place = transcript.place = f"{where}: messages[{at}]"
        kind, content = text_at(message, "type"), message.get("content")
        form, time = _AUTOGEN.get(kind, ""), seconds(message.get("created_at"))
        usage = read_counts(object_in(message.get("models_usage")))
        listed = objects_in(content) if isinstance(content, list) else []
        called = [
            call_part(
                text_at(one, "name"), arguments_of(one.get("arguments")), id=text_at(one, "id")
            )
            for one in listed
            if "arguments" in one
        ]
        source = text_at(message, "source")
        if thoughts and (form not in ("calls", "text", "notice") or thoughts[0][0] != source):
            think()
        if form == "system":
            transcript.system += [part.text or "" for part in _texts(content)]
        elif form == "results":
            transcript.results([_autogen_result(one) for one in listed], time=time)
        elif form == "display":
            transcript.leave_out(f"message `{kind}`", "it shows the results once more", place)
        elif form == "notice":
            transcript.leave_out(f"message `{kind}`", "a notice for display", place)
        elif form == "memory":
            words = [text for one in listed if (text := text_at(one, "content"))]
            transcript.user([*map(text_part, words)], time=time)
        elif form == "execution":
            printed = object_in(message.get("result", content))
            transcript.user(_texts(text_at(printed, "output") or compact(printed)), time=time)
        elif isinstance(content, dict):  # an object that the agent was asked for
            transcript.answer([text_part(compact(content))], time=time, usage=usage)
            speakers[transcript.events[-1].id] = source
        elif form == "thought":  # the answer that it belongs to comes next
            thoughts.append((source, thought_part(str(content)), time, usage))
        elif source == "user" or kind == "UserMessage":
            transcript.user(_autogen_parts(content), time=time)
        else:
            thought = text_at(message, "thought")
            parts = [part for _, part, _, _ in thoughts]
            usage = usage or next((counted for *_, counted in thoughts if counted), None)
            thoughts.clear()
            parts += [thought_part(thought)] if thought else []
            transcript.answer([*parts, *_autogen_parts(content), *called], time=time, usage=usage)
            speakers[transcript.events[-1].id] = source
    think()
    recording = transcript.recording(id, answered=not transcript.is_waiting)
    return _name_speakers(recording, speakers)


def _name_speakers(recording: Recording, speakers: Mapping[str, str]) -> Recording:
    """The recording of a team with a name for each agent; one agent alone has none."""
    names = [*dict.fromkeys(name for name in speakers.values() if NAME.fullmatch(name))]
    if len(names) < 2:
        return recording
    events: list[Event] = []
    speaker = names[0]
    for event in recording.session.events:
        if event.author == AGENT:  # results are of who called
            name = speakers.get(event.id, speaker)
            speaker = name if name in names else AGENT
            event = msgspec.structs.replace(event, author=speaker)
        events.append(event)
    whole = recording.instructions.get(AGENT, "")
    return recording._replace(
        session=with_events(recording.session, events),
        instructions=dict.fromkeys((*names, AGENT), whole),
        asks=speaker if recording.asks else "",
    )


def _autogen_parts(content: Json) -> list[Part]:
    """The texts and pictures of a message; a picture is base64 in `data`."""
    parts: list[Part] = []
    for piece in content if isinstance(content, list) else [content]:
        data = text_at(object_in(piece), "data")
        if data:
            blob = Blob(mime_type=_picture_type(data), data=data.partition("base64,")[2] or data)
            parts.append(Part(inline_data=blob))
        else:
            parts += _texts([piece])
    return parts


def _picture_type(data: str) -> str:
    """What kind of picture some base64 is, by how it begins."""
    if data.startswith("data:"):
        return data[5:].partition(";")[0]
    begins = {"/9j/": "image/jpeg", "R0lG": "image/gif", "UklG": "image/webp"}
    return begins.get(data[:4], "image/png")


def _autogen_result(one: JsonObject) -> Part:
    failed = one.get("is_error") is True
    return _result(text_at(one, "call_id"), text_at(one, "name"), one.get("content"), failed=failed)


def is_agent_framework(messages: list[JsonObject]) -> bool:
    """Whether a list is of agent-framework's messages: a role, and contents with types."""
    return all(
        "role" in one
        and all(piece.keys() & {"type", "$type"} for piece in objects_in(one.get("contents")))
        and isinstance(one.get("contents"), list)
        for one in messages
    )  # fmt: skip


def read_agent_framework(messages: list[Json], id: str, where: str) -> Recording:
    """Messages of Microsoft's agent-framework."""
    transcript = Transcript(where, format="agent-framework")
    for at, message in enumerate(objects_in(messages)):
        place = transcript.place = f"{where}: messages[{at}]"
        role = message.get("role")
        role = text_at(role, "value") if isinstance(role, dict) else role
        parts: list[Part] = []
        results: list[Part] = []
        usage = None
        for number, piece in enumerate(objects_in(message.get("contents"))):
            kind = _snake(text_at(piece, "type") or text_at(piece, "$type"))
            id_ = text_at(piece, "call_id") or text_at(piece, "callId")
            if kind == "function_call":
                arguments = arguments_of(piece.get("arguments"))
                parts.append(call_part(text_at(piece, "name"), arguments, id=id_))
            elif kind == "function_result":
                failure = piece.get("exception")
                value = failure or piece.get("result")
                results.append(_result(id_, "", value, failed=bool(failure)))
            elif kind in ("text_reasoning", "reasoning"):
                parts.append(thought_part(text_at(piece, "text")))
            elif kind in ("data", "uri") and text_at(piece, "uri"):
                mime = text_at(piece, "media_type") or text_at(piece, "mediaType")
                mime = mime or "application/octet-stream"
                parts.append(linked_part(text_at(piece, "uri"), mime))
            elif kind == "usage":
                usage = read_counts(object_in(piece.get("usage_details", piece.get("details"))))
            elif kind == "text":
                parts += _texts([piece])
            else:
                transcript.put_aside(
                    f"content `{kind}`", "its form is unknown", f"{place}[{number}]"
                )
        if role == "system":
            transcript.system += [part.text or "" for part in parts]
        elif role == "user":
            transcript.user(parts)
        elif parts:
            transcript.answer(parts, usage=usage)
        if results:
            transcript.results(results)
    return transcript.recording(id, answered=not transcript.is_waiting)


def _snake(name: str) -> str:
    """A name of .NET's as Python writes it."""
    return re.sub(r"(?<=[a-z])([A-Z])", lambda match: f"_{match[1].lower()}", name)


RUNS: tuple[Document, ...] = (
    Document("gemini-cli", _is_gemini_cli, _read_gemini_cli, "a chat that Gemini CLI saved"),
    Document("openhands", _is_openhands, _read_openhands, "an evaluated run of OpenHands"),
    Document("mini-swe-agent", _is_mini_swe, _read_mini_swe, "a trajectory of mini-swe-agent"),
    Document("swe-agent", _is_swe_agent, _read_swe_agent, "a trajectory of SWE-agent"),
    Document("atif", _is_atif, _read_atif, "a trajectory in Harbor's interchange format"),
    Document("inspect-ai", _is_inspect, _read_inspect, "a log of an evaluation by inspect-ai"),
    Document("vibe", _is_vibe, _read_vibe, "a session of Mistral Vibe"),
    Document("chat-run", _is_chat_run, _read_chat_run, "a chat with usage and times next to it"),
)
"""Objects that tell what they are; the first that fits is taken."""
