"""What a run says, as OpenAI's clients read it: in one piece or streamed, a chat or a response.

An answer is text, or JSON of the form that the client asks for. Calls of the client's own tools
end it. A question to a person is asked in words; where JSON is asked for, as a refusal.

Top to bottom: the pieces of an answer, how they are found in the events of a run, the chat, the
response.
"""

import time
from collections.abc import AsyncGenerator, Awaitable, Callable, Mapping
from typing import Literal, NamedTuple

import msgspec
from starlette.responses import Response

from weft.content import FunctionCall
from weft.runtime.result import counted_usage
from weft.server.asking import call_arguments, in_words, open_questions
from weft.server.openai_sessions import ClientRequest
from weft.server.openai_stored import RequestNote, call_item, is_minted
from weft.server.problems import Problem
from weft.server.served import ServedRun
from weft.server.stream import stream_problem
from weft.session import Event, Session, Usage
from weft.values import Json, JsonObject


def shape_problem(problem: Problem) -> Response:
    """A problem as OpenAI's clients read it, with the members of a problem document."""
    kind = "invalid_request_error" if problem.status < 500 else "server_error"
    error: JsonObject = {
        "message": f"{problem.detail}{f' ({problem.hint})' if problem.hint else ''}",
        "type": kind,
        "param": problem.where or None,
        "code": problem.kind.replace("-", "_"),
    }
    return problem.response(extra={"error": error})


class _Text(NamedTuple):
    """More of the answer's text."""

    delta: str


class _RefusalText(NamedTuple):
    """Words instead of an answer in the form that was asked for."""

    words: str


class _ToolCall(NamedTuple):
    """A call of one of the client's tools."""

    call: FunctionCall


class _RunEnd(NamedTuple):
    """How the run ended, and what it cost."""

    usage: Usage
    is_cut: bool
    failure: Problem | None
    begun: float | None
    """When it was asked for, as the log has it."""


Piece = _Text | _RefusalText | _ToolCall | _RunEnd


class _Paragraphs:
    """Plain text: answers of several agents or steps are paragraphs of one."""

    def __init__(self) -> None:
        self._streamed: dict[str, str] = {}
        self._has_text = False

    def add(self, event: Event) -> str:
        """The text that an event adds, each text once however it came."""
        text, before = event.text, self._streamed.get(event.id, "")
        if event.partial:
            self._streamed[event.id] = before + text
            new = text
        else:
            # words that are sent cannot be taken back: a text that differs adds nothing
            new = text.removeprefix(before) if text.startswith(before) else ""
        if not new:
            return ""
        is_next = self._has_text and not before
        self._has_text = True
        return f"\n\n{new}" if is_next else new

    def end(self) -> str:
        """What is left to say at the end: all of it was said when it came."""
        return ""

    def say(self, words: str) -> Piece:
        """A question to a person, as the last paragraph."""
        return _Text(f"\n\n{words}" if self._has_text else words)


class _OneAnswer:
    """An answer in a form of the client's own: the last that an agent gives, and nothing else.

    With `streams` the text of the first answer is passed on as it comes. Otherwise it is held
    back until the run has ended: a later agent may speak, or the form may not fit.
    """

    def __init__(self, *, streams: bool) -> None:
        self._streams = streams
        self._answer: Event | None = None
        self._pieces: dict[str, str] = {}
        self._sent = ""
        self._sent_of = ""
        """The event whose text was passed on."""

    def add(self, event: Event) -> str:
        """The text that an event adds now."""
        if not event.partial:
            if event.text and event.is_final_response():
                self._answer = event
            return ""
        if event.void:
            self._pieces.pop(event.id, None)
        text = self._pieces[event.id] = self._pieces.get(event.id, "") + event.text
        # what a model says before it calls a tool does not begin as JSON does
        if not self._streams or not _is_object(text):
            return ""
        # another answer, or the same anew: what was sent cannot be taken back
        if self._sent_of not in ("", event.id) or not text.startswith(self._sent):
            return ""
        new, self._sent, self._sent_of = text[len(self._sent) :], text, event.id
        return new

    def end(self) -> str:
        """What of the answer was not said yet, or a problem where there is none."""
        if self._answer is None:
            raise Problem(502, "no-answer", "the run ended without an answer of the form asked for")
        text = self._answer.text
        if not text.startswith(self._sent):
            raise Problem(
                502,
                "answer-changed",
                "the model's first answer did not fit the form, and is sent already",
                hint="ask without `stream`; the log has the answer that fits",
            )
        return text[len(self._sent) :]

    def say(self, words: str) -> Piece:
        """A question to a person, which is not JSON."""
        return _RefusalText(words)


def _is_object(text: str) -> bool:
    return text.lstrip().startswith("{")


async def pieces_of(
    events: AsyncGenerator[Event, None],
    final_session: Callable[[], Awaitable[Session]],
    run: str,
    tools: frozenset[str],
    *,
    has_form: bool,
    streams: bool = False,
) -> AsyncGenerator[Piece, None]:
    """What a run says to the client. `has_form` says that its answer is JSON."""
    answer = _OneAnswer(streams=streams) if has_form else _Paragraphs()
    complete: list[Event] = []
    failure: Problem | None = None
    is_called = False
    try:
        async for event in events:
            if event.author == "user":
                complete += [] if event.partial else [event]
                continue
            # what an agent says inside a tool, and what an error says, is not part of the answer
            is_hidden = event.audience == "internal" or event.isolation_scope or event.error_code
            if not is_hidden and (new := answer.add(event)):
                yield _Text(new)
            if event.partial:
                continue
            complete.append(event)
            for tool_call in event.calls:
                if tool_call.name in tools:
                    is_called = True
                    yield _ToolCall(tool_call)
        failure = _failure_of(complete)
        # only the log at the end knows which calls are open
        questions = open_questions(await final_session(), run, tools)
        if questions:
            yield answer.say(in_words(questions))
        elif failure is None and not is_called and (rest := answer.end()):
            yield _Text(rest)
    except Exception as error:
        failure = stream_problem(error)
    cut = any(event.finish_reason == "MAX_TOKENS" for event in complete)
    begun = complete[0].timestamp if complete else None
    yield _RunEnd(counted_usage(complete), cut, failure, begun)


def _failure_of(complete: list[Event]) -> Problem | None:
    """The problem of a run that ended with an error."""
    last = complete[-1] if complete else None
    if last is None or not last.error_code:
        return None
    words = last.error_message or last.error_code
    return Problem(502, f"run-{last.error_code}".replace("_", "-").lower(), words)


class _Form:
    """What both forms of an answer gather."""

    def __init__(self) -> None:
        self.text = ""
        self.refusal = ""
        self.calls: list[FunctionCall] = []
        self.ended: _RunEnd | None = None
        self.created = int(time.time())

    @property
    def failure(self) -> Problem | None:
        """Why there is no answer."""
        return self.ended.failure if self.ended is not None else None

    def note(self, piece: Piece) -> None:
        """Take in a piece."""
        match piece:
            case _Text():
                self.text += piece.delta
            case _RefusalText():
                self.refusal = piece.words
            case _ToolCall():
                self.calls.append(piece.call)
            case _RunEnd():
                self.ended = piece

    @property
    def usage(self) -> Usage:
        """What it cost."""
        return self.ended.usage if self.ended is not None else Usage()


class ChatForm(_Form):
    """A chat completion."""

    def __init__(self, asked: ClientRequest, run: ServedRun, *, include_usage: bool) -> None:
        super().__init__()
        self.asked = asked
        self.run = run
        self._include_usage = include_usage

    def whole(self) -> JsonObject:
        """The answer in one piece."""
        message: JsonObject = {
            "role": "assistant",
            "content": self.text or None,
            "refusal": self.refusal or None,
        }
        if self.calls:
            message["tool_calls"] = [_chat_call(one) for one in self.calls]
        choice: JsonObject = {
            "index": 0,
            "message": message,
            "finish_reason": self._finish_reason(),
            "logprobs": None,
        }
        return {**self._head("chat.completion"), "choices": [choice], "usage": self._usage()}

    async def stream(self, pieces: AsyncGenerator[Piece, None]) -> AsyncGenerator[bytes, None]:
        """The answer in chunks."""
        yield self._chunk({"role": "assistant", "content": ""})
        async for piece in pieces:
            self.note(piece)
            if isinstance(piece, _Text):
                yield self._chunk({"content": piece.delta})
            elif isinstance(piece, _RefusalText):
                yield self._chunk({"refusal": piece.words})
            elif isinstance(piece, _ToolCall):
                index = len(self.calls) - 1
                yield self._chunk({"tool_calls": [{"index": index, **_chat_call(piece.call)}]})
        if self.failure is not None:
            # the status is sent already: the clients read an error from a chunk
            data = shape_problem(self.failure).body
            yield b"data: %b\n\n" % bytes(data)
            return
        yield self._chunk({}, self._finish_reason())
        if self._include_usage:
            usage = {**self._head("chat.completion.chunk"), "choices": [], "usage": self._usage()}
            yield b"data: %b\n\n" % msgspec.json.encode(usage)
        yield b"data: [DONE]\n\n"

    def _chunk(self, delta: JsonObject, finish_reason: str | None = None) -> bytes:
        choice = {"index": 0, "delta": delta, "finish_reason": finish_reason, "logprobs": None}
        chunk = {**self._head("chat.completion.chunk"), "choices": [choice]}
        return b"data: %b\n\n" % msgspec.json.encode(chunk)

    def _head(self, kind: str) -> JsonObject:
        return {
            "id": f"chatcmpl-{self.run.id}",
            "object": kind,
            "created": self.created,
            "model": self.asked.model,
        }

    def _finish_reason(self) -> str:
        if self.calls:
            return "tool_calls"
        return "length" if self.ended is not None and self.ended.is_cut else "stop"

    def _usage(self) -> JsonObject:
        used = self.usage
        prompt, output = used.prompt_token_count or 0, _output(used)
        return {
            "prompt_tokens": prompt,
            "completion_tokens": output,
            "total_tokens": prompt + output,
            "prompt_tokens_details": {"cached_tokens": used.cached_content_token_count or 0},
            "completion_tokens_details": {"reasoning_tokens": used.thoughts_token_count or 0},
        }


def _chat_call(call: FunctionCall) -> JsonObject:
    function: JsonObject = {"name": call.name, "arguments": call_arguments(call)}
    return {"id": call.id, "type": "function", "function": function}


def _output(usage: Usage) -> int:
    return (usage.candidates_token_count or 0) + (usage.thoughts_token_count or 0)


class _StreamedEvent(NamedTuple):
    """An event of a streamed response, before it has its number."""

    kind: str
    fields: JsonObject


_PartKind = Literal["output_text", "refusal"]


class ResponseHead(NamedTuple):
    """What a response says in addition to its answer."""

    id: str
    run: str
    begin: int | None
    """Where it begins in the session, if its run has had a response before."""
    model: str
    session: str
    note: RequestNote


class ResponseForm(_Form):
    """A response, and the events that it is streamed as."""

    def __init__(self, head: ResponseHead) -> None:
        super().__init__()
        self.head = head
        self._number = -1
        self._output: list[Json] = []
        """The items that are complete."""
        self._start = 0
        """Where in the text the message begins that is spoken now."""
        self._is_speaking = False

    def note(self, piece: Piece) -> None:
        """Take in a piece."""
        self._take(piece)

    def whole(self, *, is_over: bool = True) -> JsonObject:
        """The response in one piece, with the items that a stream of it has."""
        self._end(is_over=is_over)
        return self._final() if is_over else self._response("in_progress", self._output)

    def _final(self) -> JsonObject:
        """The response as it ended."""
        if self.failure is not None:
            failed = self._response("failed", self._output)
            failed["error"] = {"code": "server_error", "message": self.failure.detail}
            return failed
        is_cut = self.ended is not None and self.ended.is_cut
        return self._response("incomplete" if is_cut else "completed", self._output)

    async def stream(self, pieces: AsyncGenerator[Piece, None]) -> AsyncGenerator[bytes, None]:
        """The response as events; the order is part of the protocol."""
        begun: JsonObject = {"response": self._response("in_progress", [])}
        yield self._encode(_StreamedEvent("response.created", begun))
        yield self._encode(_StreamedEvent("response.in_progress", begun))
        async for piece in pieces:
            for event in self._take(piece):
                yield self._encode(event)
        for event in self._end(is_over=True):
            yield self._encode(event)
        final = self._final()
        yield self._encode(_StreamedEvent(f"response.{final['status']}", {"response": final}))

    def _take(self, piece: Piece) -> list[_StreamedEvent]:
        """Take in a piece, as the events that it is streamed as."""
        super().note(piece)
        match piece:
            case _Text():
                begun = [] if self._is_speaking else self._begin_message("output_text")
                self._is_speaking = True
                return [*begun, self._delta("output_text", piece.delta)]
            case _ToolCall():
                return [*self._end_text(), *self._call_events(piece.call)]
            case _RefusalText():
                return [
                    *self._end_text(),
                    *self._begin_message("refusal"),
                    self._delta("refusal", piece.words),
                    *self._end_message("refusal", piece.words),
                ]
            case _RunEnd():
                return []

    def _end(self, *, is_over: bool) -> list[_StreamedEvent]:
        """End the message; an answer without a word is an empty one."""
        is_silent = not self._output and not self._is_speaking and self.failure is None
        if not (is_silent and is_over):
            return self._end_text()
        return [*self._begin_message("output_text"), *self._end_message("output_text", "")]

    def _begin_message(self, kind: _PartKind) -> list[_StreamedEvent]:
        item = {**self._message("", "in_progress"), "content": []}
        index, part = len(self._output), _spell_part(kind, "")
        return [
            _StreamedEvent("response.output_item.added", {"output_index": index, "item": item}),
            _StreamedEvent("response.content_part.added", {**self._place(), "part": part}),
        ]

    def _delta(self, kind: _PartKind, text: str) -> _StreamedEvent:
        fields: JsonObject = {**self._place(), "delta": text, **_LOGPROBS[kind]}
        return _StreamedEvent(f"response.{kind}.delta", fields)

    def _end_text(self) -> list[_StreamedEvent]:
        """End the message that is spoken now, if there is one."""
        if not self._is_speaking:
            return []
        self._is_speaking = False
        start, self._start = self._start, len(self.text)
        return self._end_message("output_text", self.text[start:])

    def _end_message(self, kind: _PartKind, text: str) -> list[_StreamedEvent]:
        place, part = self._place(), _spell_part(kind, text)
        item = self._message(text, "completed", kind)
        done: JsonObject = {**place, _TEXT_FIELD[kind]: text, **_LOGPROBS[kind]}
        self._output.append(item)
        return [
            _StreamedEvent(f"response.{kind}.done", done),
            _StreamedEvent("response.content_part.done", {**place, "part": part}),
            _StreamedEvent(
                "response.output_item.done", {"output_index": place["output_index"], "item": item}
            ),
        ]

    def _call_events(self, call: FunctionCall) -> list[_StreamedEvent]:
        index, arguments = len(self._output), call_arguments(call)
        place: JsonObject = {"output_index": index, "item_id": f"fc_{call.id}"}
        begun = {**call_item(call, "in_progress"), "arguments": ""}
        item = call_item(call, "completed")
        self._output.append(item)
        done: JsonObject = {**place, "name": call.name, "arguments": arguments}
        return [
            _StreamedEvent("response.output_item.added", {"output_index": index, "item": begun}),
            _StreamedEvent("response.function_call_arguments.delta", {**place, "delta": arguments}),
            _StreamedEvent("response.function_call_arguments.done", done),
            _StreamedEvent("response.output_item.done", {"output_index": index, "item": item}),
        ]

    def _place(self) -> JsonObject:
        index = len(self._output)
        return {"item_id": self._message_id(index), "output_index": index, "content_index": 0}

    def _message_id(self, index: int) -> str:
        begin = self.head.begin
        return f"msg_{self.head.run}_{'' if begin is None else f'{begin}_'}{index}"

    def _message(self, text: str, status: str, kind: _PartKind = "output_text") -> JsonObject:
        return {
            "id": self._message_id(len(self._output)),
            "type": "message",
            "role": "assistant",
            "status": status,
            "content": [_spell_part(kind, text)],
        }

    def _encode(self, event: _StreamedEvent) -> bytes:
        self._number += 1
        kind, fields = event
        data = msgspec.json.encode({"type": kind, "sequence_number": self._number, **fields})
        return b"event: %b\ndata: %b\n\n" % (kind.encode(), data)

    def _response(self, status: str, output: list[Json]) -> JsonObject:
        head, note, used = self.head, self.head.note, self.usage
        prompt, answer = used.prompt_token_count or 0, _output(used)
        usage: JsonObject = {
            "input_tokens": prompt,
            "input_tokens_details": {"cached_tokens": used.cached_content_token_count or 0},
            "output_tokens": answer,
            "output_tokens_details": {"reasoning_tokens": used.thoughts_token_count or 0},
            "total_tokens": prompt + answer,
        }
        cut: JsonObject | None = {"reason": "max_output_tokens"} if status == "incomplete" else None
        begun = self.ended.begun if self.ended is not None else None
        conversation = note.conversation or (head.session if is_minted(head.session) else None)
        return {
            "id": head.id,
            "object": "response",
            "created_at": int(begun) if begun is not None else self.created,
            "status": status,
            "error": None,
            "incomplete_details": cut,
            "instructions": note.instructions,
            "metadata": note.metadata,
            "model": head.model,
            "output": [*output],
            "parallel_tool_calls": True,
            "previous_response_id": note.previous,
            "conversation": {"id": conversation} if conversation else None,
            "temperature": None,
            "text": {"format": note.format or {"type": "text"}},
            "tool_choice": "auto",
            "tools": note.tools,
            "top_p": None,
            "usage": usage if status in ("completed", "incomplete") else None,
        }


_TEXT_FIELD: Mapping[_PartKind, str] = {"output_text": "text", "refusal": "refusal"}
"""Where a part of a message has its text."""

_LOGPROBS: Mapping[_PartKind, JsonObject] = {"output_text": {"logprobs": []}, "refusal": {}}


def _spell_part(kind: _PartKind, text: str) -> JsonObject:
    if kind == "refusal":
        return {"type": kind, "refusal": text}
    return {"type": kind, "text": text, "annotations": [], "logprobs": []}
