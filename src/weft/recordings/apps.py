"""Chats of apps: ChatGPT's export, Kimi CLI's context, gptme, Aider's histories, ShareGPT's turns.

None of them holds requests: a recording is what was said. Aider's histories are texts, and are made
into JSON first. ShareGPT's turns have calls in the words, as Hermes writes them.
"""

import json
import re
from collections.abc import Iterator, Sequence
from typing import NamedTuple, cast

import msgspec

from weft.content import FunctionCall, Part, call_part, result_part, text_part, thought_part
from weft.dialects import CHAT, dialect_named
from weft.dialects.wire import (
    joined_text,
    linked_part,
    object_in,
    objects_in,
    text_at,
    text_response,
)
from weft.dialects.wire import result_part as shown_result
from weft.errors import SessionError, UsageError
from weft.recordings.coding import TranscriptLine
from weft.recordings.providers import arguments_of
from weft.recordings.recording import (
    Recording,
    Transcript,
    parse_json,
    read_cost,
    read_usage,
    seconds,
    tools_of,
)
from weft.session import Usage
from weft.values import Json, JsonObject

# --- ChatGPT's export: a tree of messages, of which one branch is the conversation


def is_chatgpt(run: JsonObject) -> bool:
    """Whether an object is a conversation of ChatGPT's export: messages in a tree."""
    nodes = run.get("mapping")
    return isinstance(nodes, dict) and all(
        isinstance(one, dict) and ("parent" in one or "message" in one) for one in nodes.values()
    )


def read_chatgpt(run: JsonObject, id: str, where: str) -> Iterator[Recording]:
    """The branch that a conversation ended on; one in which nothing was said is left out."""
    chat = _ChatGPT(where)
    nodes = object_in(run.get("mapping"))
    branch = _find_branch(nodes, text_at(run, "current_node"))
    for name, node in nodes.items():
        message = object_in(object_in(node).get("message"))
        if name not in branch and message:
            chat.transcript.leave_out(
                "message of another branch", "it was given up", f"{where}: mapping.{name}"
            )
    for name in branch:
        message = object_in(object_in(nodes[name]).get("message"))
        chat.transcript.place = f"{where}: mapping.{name}"
        if message:
            chat.take(message)
    transcript = chat.end()
    if transcript.events or len(nodes) == 0:
        named = text_at(run, "conversation_id") or text_at(run, "id") or id
        yield transcript.recording(named, answered=not transcript.is_waiting)


def _find_branch(nodes: JsonObject, last: str) -> list[str]:
    """The nodes of the branch that a conversation ended on, the first one first."""
    if last not in nodes:  # older exports do not say: it is the one with the latest message
        leaves = [name for name, one in nodes.items() if not object_in(one).get("children")]
        last = max(leaves or nodes, key=lambda name: _time_of(nodes[name]), default="")
    branch: list[str] = []
    while last in nodes and last not in branch:
        branch.append(last)
        last = text_at(object_in(nodes[last]), "parent")
    return branch[::-1]


def _time_of(node: Json) -> float:
    return seconds(object_in(object_in(node).get("message")).get("create_time")) or 0.0


class _ChatGPT:
    """Reads one conversation, message by message.

    What an assistant writes in one go stands in several messages: thoughts, a call, words. They are
    one answer. What comes back from a tool may be several messages too.
    """

    def __init__(self, where: str) -> None:
        self.transcript = Transcript(where, format="chatgpt")
        self._parts: list[Part] = []
        self._answered: tuple[float | None, str, str] = (None, "", "")
        self._called: list[tuple[str, str]] = []
        """The ids and the names of calls that nothing has come back for."""
        self._returned: list[str] = []
        self._back: tuple[str, str, float | None] = ("", "", None)

    def take(self, message: JsonObject) -> None:
        """One message of the branch."""
        author, content = object_in(message.get("author")), object_in(message.get("content"))
        role, kind = text_at(author, "role"), text_at(content, "content_type")
        time = seconds(message.get("create_time"))
        place = self.transcript.place
        if role == "assistant":
            self._take_answer(message, content, time)
            return
        text = self._text_in(content)
        if role == "tool":
            self._end_answer()
            self._take_result(text_at(author, "name"), text, time)
            return
        self._end_answer()
        self._end_result()
        if role == "system" or kind == "user_editable_context":
            notes = object_in(object_in(message.get("metadata")).get("user_context_message_data"))
            texts = [text, *(one for one in notes.values() if isinstance(one, str))]
            self.transcript.system += [*dict.fromkeys(one for one in texts if one.strip())]
        elif role == "user":
            if text:
                self.transcript.user([text_part(text)], time=time)
        else:
            raise SessionError(
                f"{role!r} is not a role",
                where=place,
                hint="roles are system, user, assistant and tool",
            )

    def end(self) -> Transcript:
        """All of it."""
        self._end_answer()
        self._end_result()
        return self.transcript

    def _take_answer(self, message: JsonObject, content: JsonObject, time: float | None) -> None:
        if self._returned:
            self._end_result()
        kind, place = text_at(content, "content_type"), self.transcript.place
        recipient = text_at(message, "recipient") or "all"
        if not self._parts:
            model = text_at(object_in(message.get("metadata")), "model_slug")
            self._answered = time, model, place
        if kind == "thoughts":
            for one in objects_in(content.get("thoughts")):
                words = "\n".join(filter(None, (text_at(one, "summary"), text_at(one, "content"))))
                self._parts += [thought_part(words)] if words else []
            return
        if kind == "reasoning_recap":
            self.transcript.leave_out("recap of thoughts", "a notice for display", place)
            return
        text = self._text_in(content)
        if recipient == "all":
            self._parts += [text_part(text)] if text else []
            return
        own = {"code" if kind == "code" else "input": cast("Json", text)}
        arguments = _object_of(text) or own
        id = text_at(message, "id") or f"call_{len(self.transcript.events)}_{len(self._parts)}"
        self._parts.append(call_part(recipient, arguments, id=id))
        self._called.append((id, recipient))

    def _end_answer(self) -> None:
        if self._parts:
            time, model, place = self._answered
            self.transcript.answer(self._parts, time=time, model=model, place=place)
            self._parts = []

    def _take_result(self, name: str, text: str, time: float | None) -> None:
        if self._returned and self._back[1] == name:
            self._returned.append(text)
            return
        self._end_result()
        waiting = [one for one in self._called if one[1].split(".")[0] == name.split(".")[0]]
        call = (waiting or self._called or [("", "")])[0]
        if call[0]:
            self._called.remove(call)
            self._returned, self._back = [text], (call[0], name, time)
        elif text:  # a file that the app shows the model, which nobody called for
            self.transcript.user([text_part(text)], time=time)

    def _end_result(self) -> None:
        if self._returned:
            id, _, time = self._back
            text = "\n\n".join(filter(None, self._returned))
            name = self.transcript.name_of(id)
            self.transcript.results([result_part(name, {"result": text}, id=id)], time=time)
            self._returned = []

    def _text_in(self, content: JsonObject) -> str:
        """The words of a message; pictures and recordings are not in the export."""
        texts: list[str] = []
        listed = content.get("parts")
        for part in listed if isinstance(listed, list) else []:
            if isinstance(part, str):
                texts.append(part)
            elif text := text_at(object_in(part), "text"):
                texts.append(text)
            else:
                kind = text_at(object_in(part), "content_type") or "part"
                why = "the export names it, and does not hold it"
                self.transcript.put_aside(f"`{kind}`", why, self.transcript.place)
        for field in ("title", "url", "text", "result", "user_profile", "user_instructions"):
            texts += [text] if (text := text_at(content, field)) else []
        return "\n".join(one for one in texts if one)


# --- the export of claude.ai


def is_claude_ai(run: JsonObject) -> bool:
    """Whether an object is a conversation of claude.ai's export."""
    messages = objects_in(run.get("chat_messages"))
    return bool(messages) and all("sender" in one for one in messages)


def read_claude_ai(run: JsonObject, id: str, where: str) -> Iterator[Recording]:
    """A conversation: the branch that it ended on. Calls and results stand in one message."""
    messages = objects_in(run.get("chat_messages"))
    parents = {text_at(one, "uuid"): text_at(one, "parent_message_uuid") for one in messages}
    chosen: set[str] = {*parents}
    if any(parents.values()):
        at = text_at(run, "current_leaf_message_uuid") or text_at(messages[-1], "uuid")
        chosen = set()
        while at in parents and at not in chosen:
            chosen.add(at)
            at = parents[at]
    transcript = Transcript(where, format="claude-ai", provider="anthropic")
    transcript.model = text_at(run, "model")
    for number, message in enumerate(messages):
        place = transcript.place = f"{where}: chat_messages[{number}]"
        if text_at(message, "uuid") in chosen:
            _take_claude_ai(transcript, message, number)
        else:
            transcript.leave_out("message", "it is on a branch that was left", place)
    yield transcript.recording(text_at(run, "uuid") or id, answered=not transcript.is_waiting)


def _take_claude_ai(transcript: Transcript, message: JsonObject, number: int) -> None:
    time, parts = seconds(message.get("created_at")), list[Part]()
    is_user = message.get("sender") == "human"

    def flush() -> None:
        if parts and is_user:
            transcript.user([*parts], time=time)
        elif parts:
            transcript.answer([*parts], time=time, model=transcript.model)
        parts.clear()

    if message.get("files"):
        why = "the export names them, and does not hold them"
        transcript.put_aside("files of a message", why, transcript.place)
    for one in objects_in(message.get("attachments")):
        name, text = text_at(one, "file_name"), text_at(one, "extracted_content")
        parts += [text_part(f"{name}\n{text}" if name else text)] if text else []
    called = ""
    for at, block in enumerate(objects_in(message.get("content"))):
        kind = text_at(block, "type")
        if kind == "text":
            parts += [text_part(text)] if (text := text_at(block, "text")) else []
        elif kind == "thinking":
            parts += [thought_part(text)] if (text := text_at(block, "thinking")) else []
        elif kind == "tool_use":
            called = text_at(block, "id") or f"call_{number}_{at}"
            parts.append(
                call_part(text_at(block, "name"), object_in(block.get("input")), id=called)
            )
        elif kind == "tool_result":
            flush()
            content = block.get("content")
            words = [text_at(one, "text") for one in objects_in(content)]
            returned: Json = "\n".join(filter(None, words)) or content
            response: JsonObject = {"error" if block.get("is_error") else "result": returned}
            id = text_at(block, "tool_use_id") or called
            transcript.results([result_part(text_at(block, "name"), response, id=id)], time=time)
        else:
            transcript.put_aside(f"block `{kind}`", "a notice for display", transcript.place)
    if not objects_in(message.get("content")) and message.get("text"):
        parts.append(text_part(text_at(message, "text")))
    flush()


# --- Continue


def is_continue(run: JsonObject) -> bool:
    """Whether an object is a session of Continue's: each message with what was added to it."""
    history = objects_in(run.get("history"))
    return bool(history) and all("role" in object_in(one.get("message")) for one in history)


def read_continue(run: JsonObject, id: str, where: str) -> Iterator[Recording]:
    """A session. What the user added to a message is sent before it."""
    transcript = Transcript(where, format="continue", provider=CHAT)
    history = objects_in(run.get("history"))
    answered = {text_at(object_in(one.get("message")), "toolCallId") for one in history}
    thoughts: list[Part] = []
    transcript.model = text_at(run, "chatModelTitle")
    for at, item in enumerate(history):
        message = object_in(item.get("message"))
        transcript.place = f"{where}: history[{at}]"
        role, parts = text_at(message, "role"), _read_continue(message.get("content"))
        logs = objects_in(item.get("promptLogs"))
        model = text_at(logs[-1], "modelTitle") if logs else transcript.model
        if role == "thinking":
            thoughts += [thought_part(part.text or "") for part in parts]
        elif role == "system":
            transcript.system += [part.text or "" for part in parts]
        elif role == "tool":
            text = "\n".join(part.text or "" for part in parts)
            call = text_at(message, "toolCallId")
            transcript.results([result_part("", {"result": text}, id=call)])
        elif role == "assistant":
            calls = objects_in(message.get("toolCalls"))
            functions = [(one, object_in(one.get("function"))) for one in calls]
            parts += [
                call_part(text_at(function, "name"), arguments_of(function.get("arguments")),
                          id=text_at(one, "id"))
                for one, function in functions
            ]  # fmt: skip
            if thoughts or parts:
                transcript.answer([*thoughts, *parts], model=model)
            thoughts = []
            states = objects_in(item.get("toolCallStates"))
            results = [
                _take_state(one) for one in states if text_at(one, "toolCallId") not in answered
            ]
            if any(results):
                transcript.results(filter(None, results))
        else:
            added = [text_part(text) for one in objects_in(item.get("contextItems"))
                     if (text := text_at(one, "content"))]  # fmt: skip
            transcript.user([*added, *parts])
    yield transcript.recording(text_at(run, "sessionId") or id, answered=not transcript.is_waiting)


def _take_state(state: JsonObject) -> Part | None:
    """What a call returned, where it is kept with the call; None where nothing did."""
    output = objects_in(state.get("output"))
    text = "\n".join(text_at(one, "content") for one in output)
    response: JsonObject = {"result": text}
    return result_part("", response, id=text_at(state, "toolCallId")) if output else None


def _read_continue(content: Json) -> list[Part]:
    """The content of a message: a text, or pieces."""
    if isinstance(content, str):
        return [text_part(content)] if content else []
    parts: list[Part] = []
    for piece in objects_in(content):
        url = text_at(object_in(piece.get("imageUrl")), "url")
        if url:
            parts.append(linked_part(url, "image/png"))
        elif piece.get("text"):
            parts.append(text_part(text_at(piece, "text")))
    return parts


# --- ShareGPT: turns with `from` and `value`, and calls among the words


def is_sharegpt(run: JsonObject) -> bool:
    """Whether an object is a conversation in ShareGPT's form."""
    listed = run.get("conversations")
    turns = objects_in(listed)
    return isinstance(listed, list) and len(turns) == len(listed) > 0 and are_turns(turns)


def are_turns(turns: list[JsonObject]) -> bool:
    """Whether all of a list are turns of ShareGPT's."""
    return all("from" in one and isinstance(one.get("value"), str) for one in turns)


def read_sharegpt(run: JsonObject, id: str, where: str) -> Iterator[Recording]:
    """A conversation, with the tools that are declared beside it."""
    yield _read_turns(
        objects_in(run.get("conversations")),
        str(run.get("id") or id),
        where,
        field=": conversations",
        tools=run.get("tools"),
        system=text_at(run, "system"),
        model=text_at(run, "model"),
    )


def read_turns(turns: list[Json], id: str, where: str) -> Recording:
    """Turns alone."""
    return _read_turns(objects_in(turns), id, where, field=": messages")


_SPEAKERS = {
    **dict.fromkeys(("system",), "system"),
    **dict.fromkeys(("human", "user"), "user"),
    **dict.fromkeys(("gpt", "assistant", "chatgpt", "model", "bing", "bard"), "assistant"),
    **dict.fromkeys(("function_call", "function-call", "tool_call"), "call"),
    **dict.fromkeys(
        ("tool", "function", "observation", "ipython", "tool_response", "function_response",
         "function-response"),
        "result",
    ),
}  # fmt: skip
"""Who a turn is from, by what converters write."""

_PIECES = re.compile(r"<tool_call>(.*?)</tool_call>", re.DOTALL)
_RESPONSES = re.compile(r"<tool_response>(.*?)</tool_response>", re.DOTALL)


def _read_turns(
    turns: Sequence[JsonObject],
    id: str,
    where: str,
    *,
    field: str,
    tools: Json = None,
    system: str = "",
    model: str = "",
) -> Recording:
    transcript = Transcript(where, format="sharegpt")
    transcript.system += [system] if system else []
    declared = _list_functions(tools)
    waiting: list[FunctionCall] = []
    for at, turn in enumerate(turns):
        place = transcript.place = f"{where}{field}[{at}]"
        name, value = text_at(turn, "from"), text_at(turn, "value")
        who = _SPEAKERS.get(name.lower())
        if who is None:
            known = ", ".join(sorted(_SPEAKERS))
            raise SessionError(f"nobody is called {name!r}", where=place, hint=f"one of: {known}")
        if who == "system":
            transcript.system.append(value)  # tools that stand in it are declared there
        elif who in ("assistant", "call"):
            parts = [*_parts_of(value, is_call=who == "call")]
            transcript.answer(parts, model=model)
            waiting = [one.function_call for one in parts if one.function_call is not None]
        elif who == "result":
            results = [*_results_of(value, waiting)]
            if results:
                transcript.results(results)
            elif value:
                transcript.user([text_part(value)])
            waiting = waiting[len(results) :]
        else:
            transcript.user([text_part(value)] if value else [])
    if declared:
        reading = dialect_named(CHAT).read({"tools": declared, "messages": []})
        transcript.tools = tools_of(reading.tools)
    return transcript.recording(id, answered=not transcript.is_waiting)


def _list_functions(tools: Json) -> list[Json]:
    """Tools as chats declare them; some files hold them as text."""
    listed = cast("Json", parse_json(tools)) if isinstance(tools, str) else tools
    declarations: list[Json] = []
    for one in objects_in(listed if isinstance(listed, list) else [listed]):
        inner = object_in(one.get("function")) or one
        if text_at(inner, "name"):
            declarations.append({"type": "function", "function": inner})
    return declarations


def _parts_of(text: str, *, is_call: bool) -> Iterator[Part]:
    """The words and the calls of an answer, in their order."""
    pieces = ["", text] if is_call else _PIECES.split(text)
    for at, piece in enumerate(pieces):
        call = read_call(piece) if at % 2 else None
        if call is not None:
            yield call_part(call.name, call.arguments, id=call.id)
        elif at % 2 and not is_call:
            yield text_part(f"<tool_call>{piece}</tool_call>")
        elif piece.strip():
            yield text_part(piece.strip())


class NamedCall(NamedTuple):
    """A call that stands in words."""

    name: str
    arguments: JsonObject
    id: str | None = None


def read_call(text: str) -> NamedCall | None:
    """The call that a text is; None where it is not JSON, or has no name."""
    call = _object_of(text)
    name = text_at(call, "name")
    arguments = call.get("arguments", call.get("parameters"))
    inner = _object_of(arguments) if isinstance(arguments, str) else object_in(arguments)
    return NamedCall(name, inner, text_at(call, "id") or None) if name else None


def _object_of(text: str) -> JsonObject:
    """The JSON object that a text is; empty where it is none."""
    return object_in(cast("Json", parse_json(text.strip())))


def _results_of(text: str, waiting: Sequence[FunctionCall]) -> Iterator[Part]:
    """What tools returned, for the calls that wait; nothing where no call waits."""
    inner = [one.strip() for one in _RESPONSES.findall(text)] or [text]
    if waiting and len(inner) > len(waiting):  # more came back than was called for
        last = len(waiting) - 1
        inner = [*inner[:last], "\n".join(inner[last:])]
    for call, one in zip(waiting, inner, strict=False):
        yield result_part(call.name or "", {"result": one}, id=call.id)


# --- Kimi CLI: a chat, with checkpoints and counts between its messages

_KIMI = ("_system_prompt", "_checkpoint", "_usage")


def is_kimi(row: JsonObject) -> bool:
    """Whether a line is one that only Kimi CLI writes into its context."""
    return row.get("role") in _KIMI


class _KimiMessage(NamedTuple):
    """A message as a chat would have it, and what is known of the answer that it may be."""

    wire: JsonObject
    where: str
    time: float | None
    is_asked: bool = False
    """Whether the user said it himself: an undo goes back to such a message."""
    is_summary: bool = False
    counts: JsonObject = {}
    model: str = ""
    finish_reason: str = ""


def read_kimi(lines: Sequence[TranscriptLine], name: str, where: str) -> Iterator[Recording]:
    """The context of a session, `~/.kimi/sessions/*/*/context.jsonl`."""
    transcript = Transcript(where, format="kimi-cli", provider=CHAT)
    for line in lines:
        row, transcript.place = line.value, line.where
        role = text_at(row, "role")
        if role == "_system_prompt":
            transcript.system.append(text_at(row, "content"))
        elif role in _KIMI:
            why = "it says how long the conversation was, or marks a place in it"
            transcript.leave_out(f"line `{role}`", why, line.where)
        else:
            _take_kimi(transcript, _KimiMessage(row, line.where, None))
    yield transcript.recording(name, answered=not transcript.is_waiting)


def _take_kimi(transcript: Transcript, message: "_KimiMessage") -> None:
    row, time, place = message.wire, message.time, transcript.place
    content = row.get("content")
    listed = objects_in(content) if isinstance(content, list) else []
    thoughts = [text_at(one, "think") for one in listed if one.get("type") == "think"]
    rest: list[Json] = [one for one in listed if one.get("type") != "think"]
    words: Json = (rest or None) if isinstance(content, list) else content
    parts = [thought_part(one) for one in thoughts if one]
    if row.get("role") == "tool" and isinstance(content, list):  # a chat has no pictures in results
        pieces = _read_kimi({"role": "user", "content": words}, place)
        media = [one for one in pieces if one.kind == "media"]
        id = text_at(row, "tool_call_id")
        parts.append(shown_result(id, "", text_response(joined_text(words, "text")), media))
    else:
        parts += _read_kimi({**row, "content": words}, place)
    if message.is_summary:
        transcript.summary(parts, time=time)
    elif row.get("role") == "assistant":
        transcript.answer(
            parts,
            time=time,
            counts=_kimi_counts(message.counts),
            model=message.model,
            finish_reason=message.finish_reason or None,
        )
    elif row.get("role") == "tool":
        transcript.results(parts, time=time)
    elif row.get("role") in ("system", "developer"):
        transcript.system += [part.text for part in parts if part.text]
    else:
        transcript.user(parts, time=time)


def _read_kimi(message: JsonObject, place: str) -> list[Part]:
    try:
        reading = dialect_named(CHAT).read({"messages": [message]})
    except UsageError as error:
        raise SessionError(error.message, where=place, hint=error.hint) from None
    read = [one.part for turn in reading.turns for one in turn.parts]
    return [one for one in read if one.kind not in ("empty", "opaque")]


def _kimi_counts(counts: JsonObject) -> JsonObject:
    """The tokens of a step; the input is counted in three parts."""
    if not counts:
        return {}
    read, written = counts.get("input_cache_read"), counts.get("input_cache_creation")
    return {
        "input_tokens": counts.get("input_other"), "output_tokens": counts.get("output"),
        "cache_read_input_tokens": read, "cache_creation_input_tokens": written,
    }  # fmt: skip


def is_kimi_wire(row: JsonObject) -> bool:
    """Whether a line is one of what Kimi CLI tells its user interface."""
    message = object_in(row.get("message"))
    return text_at(message, "type") in _WIRE and isinstance(message.get("payload"), dict)


_WIRE = ("TurnBegin", "SteerInput", "StepBegin", "ContentPart", "ToolCall", "ToolResult")
"""Messages of which a session has some, and no other program has."""


def read_kimi_wire(lines: Sequence[TranscriptLine], name: str, where: str) -> Iterator[Recording]:
    """What Kimi CLI tells its user interface, `~/.kimi/sessions/*/*/wire.jsonl`.

    Each sub-agent is a conversation of its own, which a call of the main one started.
    """
    main = _KimiWire(where)
    agents: dict[str, _KimiWire] = {}
    for line in lines:
        message, time = object_in(line.value.get("message")), seconds(line.value.get("timestamp"))
        payload, caller = object_in(message.get("payload")), ""
        while text_at(message, "type") == "SubagentEvent":
            named = (text_at(payload, key) for key in ("parent_tool_call_id", "task_tool_call_id"))
            caller = next(filter(None, named), caller)
            message = object_in(payload.get("event"))
            payload = object_in(message.get("payload"))
        reader = agents.setdefault(caller, _KimiWire(where)) if caller else main
        reader.take(text_at(message, "type"), payload, line.where, time)
    whole = main.end(name)
    yield whole
    for caller, reader in agents.items():
        yield reader.end(f"{name}/{caller}").started_by(whole, caller)


class _KimiWire:
    """Reads one conversation: a step is an answer with its calls, then their results."""

    def __init__(self, where: str) -> None:
        self.transcript = Transcript(where, format="kimi-cli", provider=CHAT)
        self.pieces: list[JsonObject] = []
        """What the answer says so far, as Kimi's own parts."""
        self.calls: list[JsonObject] = []
        self.results: list[tuple[str, JsonObject, float | None]] = []
        """What tools returned: one may end before the answer that called it does."""
        self.counts: JsonObject = {}
        self.time: float | None = None

    def take(self, kind: str, payload: JsonObject, where: str, time: float | None) -> None:
        """One message."""
        if kind in ("TurnBegin", "SteerInput"):
            self._flush()
            self._say("user", payload.get("user_input"), where, time)
        elif kind == "StepBegin":
            self._flush()
        elif kind == "ContentPart":
            self._add_piece(payload)
        elif kind == "ToolCall":
            self.calls.append({**payload})
        elif kind == "ToolCallPart" and self.calls:
            function = object_in(self.calls[-1].get("function"))
            more = text_at(function, "arguments") + text_at(payload, "arguments_part")
            self.calls[-1]["function"] = {**function, "arguments": more}
        elif kind == "ToolResult":
            self.results.append((where, payload, time))
            return
        elif kind == "StatusUpdate":
            self.counts = object_in(payload.get("token_usage")) or self.counts
        else:
            why = "a notice for display" if kind != "CompactionEnd" else "the summary is not in it"
            self.transcript.leave_out(f"message `{kind or 'metadata'}`", why, where)
            return
        self.time = time

    def _add_piece(self, piece: JsonObject) -> None:
        """A part of the answer; one that was streamed comes in pieces."""
        last = self.pieces[-1] if self.pieces else {}
        for field in ("text", "think"):
            same = last.get("type") == piece.get("type") == field
            if same and not last.get("encrypted"):
                last[field] = text_at(last, field) + text_at(piece, field)
                return
        self.pieces.append({**piece})

    def _say(
        self, role: str, content: Json, where: str, time: float | None, *, call: str = ""
    ) -> None:
        self.transcript.place = where
        message: JsonObject = {"role": role, "content": content or ""}
        if call:
            message["tool_call_id"] = call
        _take_kimi(self.transcript, _KimiMessage(message, where, time))

    def _flush(self) -> None:
        """End the step that was begun."""
        if self.pieces or self.calls:
            message: JsonObject = {"role": "assistant", "content": [*self.pieces]}
            if self.calls:
                message["tool_calls"] = [*self.calls]
            answer = _KimiMessage(message, self.transcript.place, self.time, counts=self.counts)
            _take_kimi(self.transcript, answer)
        for where, payload, time in self.results:
            returned = object_in(payload.get("return_value") or payload.get("result"))
            content = returned.get("output") or text_at(returned, "message")
            self._say("tool", content, where, time, call=text_at(payload, "tool_call_id"))
        self.pieces, self.calls, self.results, self.counts = [], [], [], {}

    def end(self, name: str) -> Recording:
        """The whole conversation."""
        self._flush()
        return self.transcript.recording(name, answered=not self.transcript.is_waiting)


# --- Kimi Code: a log of all that happened, of which messages and steps are sent


def is_kimi_code(row: JsonObject) -> bool:
    """Whether a line is one that only Kimi Code writes."""
    return text_at(row, "type") in _KIMI_CODE


_KIMI_CODE = (
    "context.append_message", "context.append_loop_event", "profile.bind", "llm.tools_snapshot",
    "runtime.set_binding", "config.update", "tools.set_active_tools", "turn.prompt", "llm.request",
)  # fmt: skip


def read_kimi_code(lines: Sequence[TranscriptLine], name: str, where: str) -> Iterator[Recording]:
    """The log of an agent, `~/.kimi-code/sessions/*/*/agents/*/wire.jsonl`.

    What was taken back is no part of it. After a conversation was cleared, another one begins.
    """
    log, number = _KimiLog(where), 1
    for line in lines:
        if text_at(line.value, "type") == "context.clear":
            log.flush()
            log.transcript.leave_out(
                "line `context.clear`", "another conversation begins", line.where
            )
            if log.messages:
                yield log.end(name if number == 1 else f"{name}/{number}")
                log, number = log.begin_again(), number + 1
        else:
            log.take(line)
    yield log.end(name if number == 1 else f"{name}/{number}")


class _KimiLog:
    """Reads one conversation: a step is an answer with its calls, then their results."""

    def __init__(self, where: str) -> None:
        self.transcript = Transcript(where, format="kimi-code", provider=CHAT)
        self.messages: list[_KimiMessage] = []
        self.model = ""
        self._answer = _KimiMessage({}, where, None)
        """The answer of the step that runs, as far as it is told."""
        self._results: list[_KimiMessage] = []

    def begin_again(self) -> "_KimiLog":
        """A reader of what comes after the conversation was cleared: the agent is the same one."""
        log = _KimiLog(self.transcript.where)
        log.model = self.model
        log.transcript.system, log.transcript.tools = self.transcript.system, self.transcript.tools
        return log

    def take(self, line: TranscriptLine) -> None:
        """One line."""
        row, kind = line.value, text_at(line.value, "type")
        stamp = row.get("time")
        time = stamp / 1000 if isinstance(stamp, int | float) else None
        if kind == "context.append_message":
            self.flush()
            message = object_in(row.get("message"))
            is_asked = text_at(object_in(message.get("origin")), "kind") in ("", "user")
            wire = _spell_kimi(message)
            asked = is_asked and wire.get("role") == "user"
            self.messages.append(_KimiMessage(wire, line.where, time, asked))
        elif kind == "context.append_loop_event":
            self._take_step(object_in(row.get("event")), line.where, time)
        elif kind == "context.apply_compaction":
            self.flush()
            self._sum_up(row, line.where, time)
        elif kind == "context.undo":
            self.flush()
            self._take_back(row.get("count"), line.where)
        elif kind in ("profile.bind", "config.update") and "systemPrompt" in row:
            self.transcript.system = [text_at(row, "systemPrompt")]
        elif kind == "llm.tools_snapshot":
            declared: list[Json] = [
                {"type": "function", "function": one} for one in objects_in(row.get("tools"))
            ]
            reading = dialect_named(CHAT).read({"tools": declared, "messages": []})
            self.transcript.tools = tools_of(reading.tools)
        else:
            self.model = text_at(row, "model") if kind == "llm.request" else self.model
            why = "it tells what the program did, and nothing that was sent"
            self.transcript.leave_out(f"line `{kind}`", why, line.where)

    def _take_step(self, event: JsonObject, where: str, time: float | None) -> None:
        kind, wire = text_at(event, "type"), self._answer.wire
        if kind == "step.begin":
            self.flush()
        elif kind == "content.part":
            parts = [
                *objects_in(wire.get("content")),
                _spell_kimi_part(object_in(event.get("part"))),
            ]
            wire["content"] = [*parts]
        elif kind == "tool.call":
            function: JsonObject = {
                "name": text_at(event, "name"),
                "arguments": msgspec.json.encode(event.get("args") or {}).decode(),
            }
            call: JsonObject = {"id": text_at(event, "toolCallId"), "function": function}
            wire["tool_calls"] = [*objects_in(wire.get("tool_calls")), {"type": "function", **call}]
        elif kind == "tool.result":
            message: JsonObject = {
                "role": "tool",
                "tool_call_id": text_at(event, "toolCallId"),
                "content": _spell_kimi_result(object_in(event.get("result"))),
            }
            self._results.append(_KimiMessage(message, where, time))
            return
        elif kind == "step.end":
            reason = text_at(event, "rawFinishReason") or text_at(event, "finishReason")
            counts = _kimi_code_counts(object_in(event.get("usage")))
            self._answer = self._answer._replace(counts=counts, finish_reason=reason)
        else:
            why = "it tells what the program did, and nothing that was sent"
            self.transcript.leave_out(f"event `{kind}`", why, where)
            return
        self._answer = self._answer._replace(where=where, time=time)

    def _sum_up(self, row: JsonObject, where: str, time: float | None) -> None:
        """A summary takes the place of what was said; beside it stay some words of the user's."""
        asked = [one for one in self.messages if one.is_asked]
        count, head = (_count_of(row, f"kept{one}UserMessageCount") for one in ("", "Head"))
        tail = count - head
        stays = [*asked[:head], *(asked[-tail:] if tail > 0 else ())]
        summary = row.get("contextSummary") or row.get("summary")
        words = text_at(object_in(summary), "text") if isinstance(summary, dict) else summary
        parts: list[Json] = [{"type": "text", "text": words or ""}]
        wire: JsonObject = {"role": "user", "content": parts}
        self.messages += [_KimiMessage(wire, where, time, is_summary=True)]
        self.messages += [one._replace(where=where, time=time) for one in stays]

    def _take_back(self, count: Json, where: str) -> None:
        """The last words of the user's are taken back, and all that came after them."""
        asked = [at for at, one in enumerate(self.messages) if one.is_asked]
        back = min(count, len(asked)) if isinstance(count, int) else 0
        start = asked[-back] if back > 0 else len(self.messages)
        why = "the user took it back"
        for one in self.messages[start:]:
            self.transcript.leave_out("message", why, one.where)
        del self.messages[start:]
        self.transcript.leave_out("line `context.undo`", why, where)

    def flush(self) -> None:
        """End the step that was begun."""
        if self._answer.wire:
            wire: JsonObject = {"role": "assistant", "content": None, **self._answer.wire}
            self.messages.append(self._answer._replace(wire=wire, model=self.model))
        self.messages += self._results
        self._answer, self._results = _KimiMessage({}, self.transcript.where, None), []

    def end(self, name: str) -> Recording:
        """The whole conversation."""
        self.flush()
        for one in self.messages:
            self.transcript.place = one.where
            _take_kimi(self.transcript, one)
        return self.transcript.recording(name, answered=not self.transcript.is_waiting)


_KIMI_FAILED = "<system>ERROR: Tool execution failed.</system>"


def _spell_kimi(message: JsonObject) -> JsonObject:
    """A message of the log as a chat has it."""
    wire: JsonObject = {"role": text_at(message, "role"), "content": message.get("content")}
    if isinstance(wire["content"], list):
        wire["content"] = [*map(_spell_kimi_part, objects_in(wire["content"]))]
    if called := objects_in(message.get("toolCalls")):
        wire["tool_calls"] = [
            {
                "id": text_at(one, "id"),
                "type": "function",
                "function": {"name": text_at(one, "name"), "arguments": one.get("arguments")},
            }
            for one in called
        ]
    if id := text_at(message, "toolCallId"):
        wire["tool_call_id"] = id
    return wire


def _spell_kimi_part(part: JsonObject) -> JsonObject:
    """A part of content; media are spelled otherwise in the log than in a chat."""
    media = {"imageUrl": "image_url", "audioUrl": "audio_url", "videoUrl": "video_url"}
    return {media.get(key, key): value for key, value in part.items()}


def _spell_kimi_result(result: JsonObject) -> Json:
    """What a tool returned as the model is told it: with the note, and with a word on a failure.

    How long some tools took stands in their first line then; the log has no such line.
    """
    output = result.get("output")
    parts = [*map(_spell_kimi_part, objects_in(output))] if isinstance(output, list) else []
    if len(parts) == 1 and "text" in parts[0]:
        output = parts[0]["text"]
    before = [_KIMI_FAILED] if result.get("isError") else []
    after = [note] if (note := text_at(result, "note")) else []
    if isinstance(output, str):
        return "\n".join((*before, output, *after))
    return [*map(_spell_kimi_text, before), *parts, *map(_spell_kimi_text, after)]


def _spell_kimi_text(text: str) -> JsonObject:
    return {"type": "text", "text": text}


def _kimi_code_counts(counts: JsonObject) -> JsonObject:
    names = {
        "inputOther": "input_other", "output": "output",
        "inputCacheRead": "input_cache_read", "inputCacheCreation": "input_cache_creation",
    }  # fmt: skip
    return {new: counts[old] for old, new in names.items() if old in counts}


def _count_of(row: JsonObject, name: str) -> int:
    value = row.get(name)
    return value if isinstance(value, int) else 0


# --- Aider: what was said in a terminal, and what was sent

_STARTED = "# aider chat started at "
_SENT = re.compile(r"(TO LLM|LLM RESPONSE) (\d{4}-\d\d-\d\dT[\d:]+)")
_MODEL = re.compile(r"(?:Main model|Model): (\S+)")
_BILL = re.compile(r"Tokens: ([\d.,]+k?) sent,(?: .*?)? ?([\d.,]+k?) received")


def is_aider(data: bytes) -> bool:
    """Whether a text is one of Aider's histories."""
    start = data[:4_096].lstrip()
    return start.startswith(_STARTED.encode()) or bool(_SENT.match(start.decode(errors="replace")))


def read_aider_text(data: bytes) -> list[Json]:
    """The chats of a history as objects, or the calls of `.aider.llm.history`."""
    lines = data.decode(errors="replace").splitlines()
    start = next((line for line in lines if line.strip()), "")
    return [*(_read_sent(lines) if _SENT.match(start) else _read_said(lines))]


def is_aider_chat(run: JsonObject) -> bool:
    """Whether an object is a chat that was made of Aider's history."""
    return "aider" in run and isinstance(run.get("messages"), list)


def read_aider_chat(run: JsonObject, id: str, where: str) -> Iterator[Recording]:
    """A chat of Aider's: the words of both sides. Files that it sent along are not in it."""
    transcript = Transcript(where, format="aider")
    for at, one in enumerate(objects_in(run.get("messages"))):
        transcript.place = f"{where}: messages[{at}]"
        parts = [text_part(text_at(one, "content"))]
        if one.get("role") == "assistant":
            usage = msgspec.convert(one["usage"], Usage) if "usage" in one else None
            transcript.answer(parts, model=text_at(run, "model"), usage=usage)
        elif one.get("role") == "user":
            transcript.user(parts, time=seconds(one.get("time")))
        else:
            why = "Aider shows it, and no model is sent it"
            transcript.leave_out("notice", why, transcript.place)
    if transcript.events:
        yield transcript.recording(id, answered=not transcript.is_waiting)


def _read_said(lines: Sequence[str]) -> Iterator[JsonObject]:
    """The chats of `.aider.chat.history.md`: what the user said stands after `####`."""
    # Aider ends such a line with two spaces; an answer may have headings of its own
    marks = any(line.startswith("#### ") and line.endswith("  ") for line in lines)
    chat: JsonObject | None = None
    messages: list[Json] = []
    who, words = "", list[str]()

    def end_message() -> None:
        text = "\n".join(words).strip()
        if who and text:
            message: JsonObject = {"role": who, "content": text}
            messages.append(message)
        words.clear()

    for line in lines:
        if line.startswith(_STARTED):
            end_message()
            if chat is not None:
                yield _mark_commands(chat)
            who, messages = "", []
            chat = {"aider": line.removeprefix(_STARTED).strip(), "messages": messages}
            continue
        is_user = line.startswith("####") and (line.endswith("  ") or not marks)
        speaker = "user" if is_user else "notice" if line.startswith(">") else "assistant"
        if speaker == "assistant" and who in ("user", "notice") and not line.strip():
            words.append("")
            continue
        if speaker != who:
            end_message()
            who = speaker
        if speaker == "user":
            words.append(line.removeprefix("####").strip())
        elif speaker == "notice":
            notice = line.removeprefix(">").strip()
            words.append(notice)
            model, bill = _MODEL.search(notice), _BILL.search(notice)
            if chat is not None and model is not None and "model" not in chat:
                chat["model"] = model[1]
            if bill is not None:
                _add_bill(messages, bill)
        else:
            words.append(line)
    end_message()
    if chat is not None:
        yield _mark_commands(chat)


_COMMAND = re.compile(r"/(?!ask|code|architect|context)\w+")


def _mark_commands(chat: JsonObject) -> JsonObject:
    """The chat, whose commands such as `/add file` are notices: they go to no model."""
    for one in objects_in(chat["messages"]):
        if one.get("role") == "user" and _COMMAND.match(text_at(one, "content")):
            one["role"] = "notice"
    return chat


def _add_bill(messages: Sequence[Json], bill: re.Match[str]) -> None:
    """Note what was billed with the answer before it; Aider writes thousands as `1.2k`."""
    last = next((one for one in reversed(objects_in([*messages])) if one["role"] != "notice"), None)
    usage = read_usage(*(_count(one) for one in bill.groups()))
    if last is not None and last["role"] == "assistant" and usage is not None:
        last["usage"] = msgspec.to_builtins(usage)


def _count(text: str) -> int:
    number = float(text.rstrip("k").replace(",", "") or 0)
    return round(number * 1_000 if text.endswith("k") else number)


def _read_sent(lines: Sequence[str]) -> Iterator[JsonObject]:
    """The calls of `.aider.llm.history`: each line of a message begins with who says it."""
    call: JsonObject | None = None
    answer: list[str] | None = None
    messages: list[Json] = []
    role, words = "", list[str]()

    def end_message() -> None:
        if role:
            message: JsonObject = {"role": role.lower(), "content": "\n".join(words)}
            messages.append(message)
        words.clear()

    def take_message() -> JsonObject | None:
        nonlocal role
        end_message()
        role = ""
        if call is not None and answer is not None:
            message: JsonObject = {"role": "assistant", "content": "\n".join(answer)}
            call["response"] = {"choices": [{"index": 0, "message": message}]}
        return call

    for line in lines:
        head = _SENT.fullmatch(line.strip())
        if head is not None and head[1] == "LLM RESPONSE":
            end_message()
            role, answer = "", []
        elif head is not None:
            if (whole := take_message()) is not None:
                yield whole
            messages, answer = [], None
            request: JsonObject = {"model": "", "messages": messages}
            call = {"timestamp": head[2], "dialect": CHAT, "request": request}
        elif answer is not None:
            answer.append(line.removeprefix("ASSISTANT").removeprefix(" "))
        elif line == "-------":
            end_message()
            role = ""
        else:
            who, _, rest = line.partition(" ")
            if who in ("SYSTEM", "USER", "ASSISTANT"):
                role = role or who
                words.append(rest)
            elif words:
                words.append(line)
    if (whole := take_message()) is not None:
        yield whole


# --- gptme, which writes its calls among the words, and what tools return as system messages


def is_gptme(messages: list[JsonObject]) -> bool:
    """Whether a list is a conversation of gptme's: timed, and the system speaks amid it."""
    roles = [one.get("role") for one in messages]
    speakers = [one for one in roles if one != "system"]
    start = roles.index(speakers[0]) if speakers else len(roles)
    return (
        "system" in roles[start:]
        and all(one in ("system", "user", "assistant") for one in roles)
        and all(isinstance(one.get("content"), str) and "timestamp" in one for one in messages)
        and all(one.keys() <= _GPTME for one in messages)
    )


_GPTME = frozenset(
    ("role", "content", "timestamp", "files", "file_hashes", "pinned", "hide", "quiet", "call_id",
     "ephemeral_ttl", "metadata")
)  # fmt: skip

_GPTME_CALL = re.compile(r"^@([\w.]+)\(([\w\-:.]+)\):\s*(?=\{)", re.M)
"""How a call of the provider's is written down: its tool, its id, and JSON after that."""


def read_gptme(messages: list[Json], id: str, where: str) -> Recording:
    """A conversation. Calls in blocks of code are words, and what ran them is told in words."""
    transcript = Transcript(where, format="gptme", provider=CHAT)
    for at, one in enumerate(messages):
        message = object_in(one)
        transcript.place = f"{where}: messages[{at}]"
        time, text = seconds(message.get("timestamp")), text_at(message, "content")
        role, call_id = text_at(message, "role"), text_at(message, "call_id")
        facts = object_in(message.get("metadata"))
        if message.get("files"):
            why = "the conversation names them, and they are kept elsewhere"
            transcript.put_aside("files of a message", why, transcript.place)
        if role == "assistant":
            counts = object_in(facts.get("usage")) or facts
            transcript.answer(
                [*_read_gptme_answer(text)],
                time=time,
                model=text_at(facts, "model"),
                counts=_gptme_counts(counts),
                cost=read_cost(facts),
            )
        elif role == "system" and not transcript.events:
            transcript.system.append(text)
        elif call_id and transcript.has_call(call_id):
            transcript.results([result_part("", {"result": text}, id=call_id)], time=time)
        elif text:
            transcript.user([text_part(text)], time=time)
    return transcript.recording(id, answered=not transcript.is_waiting)


def _gptme_counts(counts: JsonObject) -> JsonObject:
    """The tokens of an answer; what was cached is counted apart from the input."""
    names = {"cache_read_tokens": "cache_read_input_tokens",
             "cache_creation_tokens": "cache_creation_input_tokens"}  # fmt: skip
    listed = ("input_tokens", "output_tokens", *names)
    return {names.get(name, name): counts[name] for name in listed if name in counts}


def _read_gptme_answer(text: str) -> Iterator[Part]:
    """The words of an answer, and its calls where the provider made them."""
    start = 0
    calls: list[Part] = []
    for match in _GPTME_CALL.finditer(text):
        if match.start() < start:
            continue
        try:
            arguments, length = json.JSONDecoder().raw_decode(text[match.end() :])
        except ValueError:
            continue
        if text[start : match.start()].strip():
            yield text_part(text[start : match.start()].strip())
        calls.append(call_part(match[1], object_in(cast("Json", arguments)), id=match[2]))
        start = match.end() + length
    if text[start:].strip():
        yield text_part(text[start:].strip())
    yield from calls
