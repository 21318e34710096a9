"""The API of OpenAI: models, chat completions and responses, streamed or not.

A model here is an app. The client's messages are a whole history, ours is a log, so a request
says which session it belongs to: `previous_response_id` or `conversation` (responses), or the
header `X-Weft-Session`; then only what follows the last answer is new. Without any of these the
history becomes a session of its own, which can be looked at like any other.

Tools of the client are declared to the model beside the agent's own. A call of one ends the
answer; the client brings the result with its next request.

Responses are read again from the log: `openai_stored.py` finds them there. Conversations are in
`openai_conversations.py`.

Top to bottom: the endpoints, what a run says, the two forms of an answer.
"""

import time
from collections.abc import AsyncGenerator, Awaitable, Callable
from functools import partial
from typing import NamedTuple

import msgspec
from starlette.responses import Response

from weft.content import FunctionCall
from weft.runtime.earlier import is_unfinished
from weft.runtime.result import total_usage
from weft.server.endpoints import Answer, Call, Endpoint, decoded, respond
from weft.server.openai_requests import chat_history, client_tools, input_items
from weft.server.openai_sessions import (
    SESSION_HEADER,
    ClientRequest,
    in_words,
    open_questions,
    read_request,
)
from weft.server.openai_stored import (
    PAGE_QUERIES,
    RequestNote,
    StoredResponse,
    call_arguments,
    call_item,
    find_response,
    input_of,
    is_minted,
    page_of,
    response_id,
    runners_of,
    write_note,
)
from weft.server.problems import Problem, invalid
from weft.server.served import ServedRun
from weft.server.stream import stream_problem
from weft.session import Event, Session, Usage
from weft.values import Json, JsonObject


async def list_models(call: Call) -> Answer:
    """The apps as models."""
    models = [
        {"id": name, "object": "model", "created": 0, "owned_by": "weft"}
        for name in call.served.runners
    ]
    return respond({"object": "list", "data": models})


async def get_model(call: Call) -> Answer:
    """One app as a model."""
    name = call.served.runner(call.path("model")).app_name
    return respond({"id": name, "object": "model", "created": 0, "owned_by": "weft"})


async def create_chat_completion(call: Call) -> Answer:
    """Answer a chat."""
    body = decoded(await call.raw_body(), dict[str, Json])
    asked = read_request(call, body, "messages", chat_history)
    run = await asked.start(call)
    options = body.get("stream_options")
    include_usage = isinstance(options, dict) and bool(options.get("include_usage"))
    form = _ChatForm(asked, run, include_usage=include_usage)
    return await _answered(call, asked, run, form)


async def create_response(call: Call) -> Answer:
    """Answer with a response."""
    body = decoded(await call.raw_body(), dict[str, Json])
    asked = read_request(call, body, "input", input_items)
    run = await asked.start(call)
    head = _ResponseHead(
        id=response_id(run.session_id, run.id, run.after),
        run=run.id,
        begin=run.after if asked.goes_on else None,
        model=asked.model,
        session=run.session_id,
        note=asked.note,
    )
    return await _answered(call, asked, run, _ResponseForm(head))


async def get_response(call: Call) -> Answer:
    """A response once more, from the log."""
    if call.query("stream") not in ("", "false"):
        raise invalid(
            "a response that is stored is not streamed",
            where="stream",
            hint="leave it out; GET /api/apps/APP/sessions/SESSION/events streams a log",
        )
    response = await find_response(call, call.path("response"), runners_of(call))
    return respond(await show_response(response))


async def show_response(response: StoredResponse) -> JsonObject:
    """A response as the log has it."""
    head = _ResponseHead(
        response.id,
        response.run,
        response.begin if response.goes_on else None,
        response.runner.app_name,
        response.session.id,
        response.note,
    )
    form = _ResponseForm(head)
    async for piece in _stored_pieces(response):
        form.note(piece)
    # a later response can only follow one that is over
    is_over = not response.is_last or not is_unfinished(response.runner.root, response.session)
    return form.whole(is_over=is_over)


async def list_input_items(call: Call) -> Answer:
    """What a response was asked with."""
    response = await find_response(call, call.path("response"), runners_of(call))

    async def items() -> list[JsonObject]:
        return input_of(response)

    return respond(await page_of(call, [items]))


async def delete_response(call: Call) -> Answer:
    """Have a response deleted: nobody finds it any more, and what builds on it keeps its log."""
    response = await find_response(call, call.path("response"), runners_of(call))
    mark = RequestNote(deleted=(response.run, response.begin))
    await write_note(response.runner, response.key, mark)
    return respond({"id": response.id, "object": "response", "deleted": True})


async def cancel_response(call: Call) -> Answer:
    """Say that no response is made in the background, and how a run is stopped."""
    response = await find_response(call, call.path("response"), runners_of(call))
    app, session = response.runner.app_name, response.session.id
    raise Problem(
        409,
        "not-in-background",
        "only a response that is made in the background can be cancelled, and none is here",
        hint=f"POST /api/apps/{app}/sessions/{session}/cancel stops the session's run",
    )


def shape_problem(problem: Problem) -> Response:
    """A problem as OpenAI's clients read it; the members of a problem document stand beside."""
    kind = "invalid_request_error" if problem.status < 500 else "server_error"
    error: JsonObject = {
        "message": f"{problem.detail}{f' ({problem.hint})' if problem.hint else ''}",
        "type": kind,
        "param": problem.where or None,
        "code": problem.kind.replace("-", "_"),
    }
    return problem.response(extra={"error": error})


async def _answered(
    call: Call, asked: "ClientRequest", run: ServedRun, form: "_ChatForm | _ResponseForm"
) -> Answer:
    """The answer in one piece, or as a stream."""
    pieces = _pieces(run.events(), run.final_session, run.id, asked.tool_names)
    # a header carries ASCII only, and an id may be in any script
    header = run.session_id if run.session_id.isascii() else ""
    if asked.stream:
        headers = [(SESSION_HEADER.encode(), header.encode())] if header else []
        return call.served.run_stream(call.identity, run, form.stream(pieces), headers)
    async for piece in pieces:
        form.note(piece)
    if form.failure is not None:
        raise form.failure
    answer = respond(form.whole())
    if header:
        answer.headers[SESSION_HEADER] = header
    return answer


class _Text(NamedTuple):
    """More of the answer's text."""

    delta: str


class _ToolCall(NamedTuple):
    """A call of one of the client's tools."""

    call: FunctionCall


class _Ended(NamedTuple):
    """How the run ended, and what it cost."""

    usage: Usage
    is_cut: bool
    failure: Problem | None
    begun: float | None
    """When it was asked for, as the log has it."""


_Piece = _Text | _ToolCall | _Ended


async def _stored_pieces(response: StoredResponse) -> AsyncGenerator[_Piece, None]:
    """What the run of a stored response said."""

    async def events() -> AsyncGenerator[Event, None]:
        for event in response.events:
            yield event

    async def session() -> Session:
        # to look at the session as it was costs more the longer it is
        return response.session.before(response.end if response.may_wait else 0)

    tools = frozenset(tool.name for tool in client_tools(response.note.tools))
    async for piece in _pieces(events(), session, response.run, tools):
        yield piece


async def _pieces(
    events: AsyncGenerator[Event, None],
    final_session: Callable[[], Awaitable[Session]],
    run: str,
    tools: frozenset[str],
) -> AsyncGenerator[_Piece, None]:
    """What a run says to the client, each text once however it came."""
    streamed: dict[str, str] = {}
    complete: list[Event] = []
    texts = 0
    failure: Problem | None = None
    try:
        async for event in events:
            if event.author == "user":
                complete += [] if event.partial else [event]
                continue
            # what an agent says inside a tool, and what an error says, is no part of the answer
            if event.audience != "internal" and not event.isolation_scope and not event.error_code:
                text = event.text
                before = streamed.get(event.id, "")
                if event.partial:
                    streamed[event.id] = before + text
                    new = text
                else:
                    # words that are sent cannot be taken back: a text that differs adds nothing
                    new = text.removeprefix(before) if text.startswith(before) else ""
                if new:
                    # answers of several agents or steps are paragraphs of one
                    first_of_answer = not before and texts
                    texts += 1
                    yield _Text(f"\n\n{new}" if first_of_answer else new)
            if event.partial:
                continue
            complete.append(event)
            for tool_call in event.calls:
                if tool_call.name in tools:
                    yield _ToolCall(tool_call)
        # only the log at the end knows which calls are open
        questions = open_questions(await final_session(), run, tools)
        if questions:
            words = in_words(questions)
            yield _Text(f"\n\n{words}" if texts else words)
    except Exception as error:
        failure = stream_problem(error)
    last = complete[-1] if complete else None
    if failure is None and last is not None and last.error_code:
        words = last.error_message or last.error_code
        failure = Problem(502, f"run-{last.error_code}".replace("_", "-").lower(), words)
    cut = any(event.finish_reason == "MAX_TOKENS" for event in complete)
    begun = complete[0].timestamp if complete else None
    yield _Ended(total_usage(complete), cut, failure, begun)


class _Form:
    """What both forms of an answer gather."""

    def __init__(self) -> None:
        self.text = ""
        self.calls: list[FunctionCall] = []
        self.cuts: list[int] = []
        """How long the text was at each of the calls."""
        self.ended: _Ended | None = None
        self.created = int(time.time())

    @property
    def failure(self) -> Problem | None:
        """Why there is no answer."""
        return self.ended.failure if self.ended is not None else None

    def note(self, piece: _Piece) -> None:
        """Take in a piece."""
        match piece:
            case _Text():
                self.text += piece.delta
            case _ToolCall():
                self.calls.append(piece.call)
                self.cuts.append(len(self.text))
            case _Ended():
                self.ended = piece

    @property
    def usage(self) -> Usage:
        """What it cost."""
        return self.ended.usage if self.ended is not None else Usage()


class _ChatForm(_Form):
    """A chat completion."""

    def __init__(self, asked: "ClientRequest", run: ServedRun, *, include_usage: bool) -> None:
        super().__init__()
        self.asked = asked
        self.run = run
        self._include_usage = include_usage

    def whole(self) -> JsonObject:
        """The answer in one piece."""
        message: JsonObject = {"role": "assistant", "content": self.text or None, "refusal": None}
        if self.calls:
            message["tool_calls"] = [_chat_call(one) for one in self.calls]
        choice: JsonObject = {
            "index": 0,
            "message": message,
            "finish_reason": self._finish_reason(),
            "logprobs": None,
        }
        return {**self._head("chat.completion"), "choices": [choice], "usage": self._usage()}

    async def stream(self, pieces: AsyncGenerator[_Piece, None]) -> AsyncGenerator[bytes, None]:
        """The answer in chunks."""
        yield self._chunk({"role": "assistant", "content": ""})
        async for piece in pieces:
            self.note(piece)
            if isinstance(piece, _Text):
                yield self._chunk({"content": piece.delta})
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


class _ResponseHead(NamedTuple):
    """What a response says beside its answer."""

    id: str
    run: str
    begin: int | None
    """Where it begins in the session, if its run has had a response before."""
    model: str
    session: str
    note: RequestNote


class _ResponseForm(_Form):
    """A response, and the events that it is streamed as."""

    def __init__(self, head: _ResponseHead) -> None:
        super().__init__()
        self.head = head
        self._number = -1
        self._output: list[Json] = []

    def whole(self, *, is_over: bool = True) -> JsonObject:
        """The response in one piece, with the items that a stream of it has."""
        start = 0
        for at, one in zip(self.cuts, self.calls, strict=True):
            if at > start:
                self._output.append(self._message(self.text[start:at], "completed"))
                start = at
            self._output.append(call_item(one, "completed"))
        # an answer without a word is an empty message, as in the stream of it
        if self.text[start:] or (not self._output and self.failure is None and is_over):
            self._output.append(self._message(self.text[start:], "completed"))
        return self._final() if is_over else self._response("in_progress", self._output)

    def _final(self) -> JsonObject:
        """The response as it ended."""
        if self.failure is not None:
            failed = self._response("failed", self._output)
            failed["error"] = {"code": "server_error", "message": self.failure.detail}
            return failed
        is_cut = self.ended is not None and self.ended.is_cut
        return self._response("incomplete" if is_cut else "completed", self._output)

    async def stream(self, pieces: AsyncGenerator[_Piece, None]) -> AsyncGenerator[bytes, None]:
        """The response as events; the order is part of the protocol."""
        begun = self._response("in_progress", [])
        yield self._event("response.created", response=begun)
        yield self._event("response.in_progress", response=begun)
        is_speaking = False
        async for piece in pieces:
            self.note(piece)
            if isinstance(piece, _Text):
                if not is_speaking:
                    is_speaking = True
                    for data in self._begin_message():
                        yield data
                yield self._event(
                    "response.output_text.delta", **self._place(), delta=piece.delta, logprobs=[]
                )
            elif isinstance(piece, _ToolCall):
                if is_speaking:
                    is_speaking = False
                    for data in self._end_message():
                        yield data
                for data in self._call_events(piece.call):
                    yield data
        if is_speaking or not self._output:
            if not is_speaking and self.failure is None:
                for data in self._begin_message():
                    yield data
            if is_speaking or self.failure is None:
                for data in self._end_message():
                    yield data
        final = self._final()
        yield self._event(f"response.{final['status']}", response=final)

    def _begin_message(self) -> list[bytes]:
        item = self._message("", "in_progress")
        item["content"] = []
        part: JsonObject = {"type": "output_text", "text": "", "annotations": [], "logprobs": []}
        return [
            self._event("response.output_item.added", output_index=len(self._output), item=item),
            self._event("response.content_part.added", **self._place(), part=part),
        ]

    def _end_message(self) -> list[bytes]:
        text = self.text[self._start :]
        self._start = len(self.text)
        part: JsonObject = {"type": "output_text", "text": text, "annotations": [], "logprobs": []}
        item = self._message(text, "completed")
        ends = [
            self._event("response.output_text.done", **self._place(), text=text, logprobs=[]),
            self._event("response.content_part.done", **self._place(), part=part),
            self._event("response.output_item.done", output_index=len(self._output), item=item),
        ]
        self._output.append(item)
        return ends

    def _call_events(self, call: FunctionCall) -> list[bytes]:
        place: JsonObject = {"output_index": len(self._output), "item_id": f"fc_{call.id}"}
        arguments = call_arguments(call)
        begun = {**call_item(call, "in_progress"), "arguments": ""}
        item = call_item(call, "completed")
        events = [
            self._event("response.output_item.added", output_index=len(self._output), item=begun),
            self._event("response.function_call_arguments.delta", **place, delta=arguments),
            self._event(
                "response.function_call_arguments.done",
                **place,
                name=call.name,
                arguments=arguments,
            ),
            self._event("response.output_item.done", output_index=len(self._output), item=item),
        ]
        self._output.append(item)
        return events

    _start = 0
    """Where in the text the message begins that is spoken now."""

    def _place(self) -> JsonObject:
        index = len(self._output)
        return {"item_id": self._message_id(index), "output_index": index, "content_index": 0}

    def _message_id(self, index: int) -> str:
        begin = self.head.begin
        return f"msg_{self.head.run}_{'' if begin is None else f'{begin}_'}{index}"

    def _message(self, text: str, status: str) -> JsonObject:
        part: JsonObject = {"type": "output_text", "text": text, "annotations": [], "logprobs": []}
        return {
            "id": self._message_id(len(self._output)),
            "type": "message",
            "role": "assistant",
            "status": status,
            "content": [part],
        }

    def _event(self, kind: str, **fields: Json) -> bytes:
        self._number += 1
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
            "tool_choice": "auto",
            "tools": note.tools,
            "top_p": None,
            "usage": usage if status in ("completed", "incomplete") else None,
        }


_row = partial(Endpoint, tag="openai")
_ONE = "/v1/responses/{response}"

ENDPOINTS = (
    _row("GET", "/v1/models", list_models, "The apps as models."),
    _row("GET", "/v1/models/{model}", get_model, "One app as a model."),
    _row("POST", "/v1/chat/completions", create_chat_completion, "Answer a chat."),
    _row("POST", "/v1/responses", create_response, "Answer with a response."),
    _row("GET", _ONE, get_response, "A response once more."),
    _row("DELETE", _ONE, delete_response, "Delete a response."),
    _row(
        "GET", f"{_ONE}/input_items", list_input_items, "What a response was asked with.",
        queries=PAGE_QUERIES,
    ),
    _row(
        "POST", f"{_ONE}/cancel", cancel_response,
        "Refused: no response is made in the background.",
    ),
)  # fmt: skip
