"""The API of OpenAI: models, chat completions and responses, streamed or not.

A model here is an app. The client's messages are a whole history, ours is a log, so a request
says which session it belongs to: `previous_response_id` or `conversation` (responses), or the
header `X-Weft-Session`; then only what follows the last answer is new. Without any of these the
history becomes a session of its own, which can be looked at like any other.

Tools of the client are declared to the model beside the agent's own. A call of one ends the
answer; the client brings the result with its next request.

Top to bottom: the endpoints, what a run says, the two forms of an answer.
"""

import time
from collections.abc import AsyncGenerator
from typing import NamedTuple

import msgspec
from starlette.responses import Response

from weft.content import FunctionCall
from weft.runtime.result import total_usage
from weft.server.endpoints import Answer, Body, Call, Endpoint, decoded, respond
from weft.server.openai_questions import in_words, open_questions
from weft.server.openai_requests import chat_history, input_items
from weft.server.openai_sessions import (
    SESSION_HEADER,
    ClientRequest,
    read_request,
    response_id,
)
from weft.server.problems import Problem
from weft.server.served import ServedRun
from weft.server.stream import stream_problem
from weft.session import Event, Usage
from weft.session.event import new_id
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
    form = _ChatForm(asked, run, include_usage=_includes_usage(body))
    return await _answered(call, asked, run, form)


async def create_response(call: Call) -> Answer:
    """Answer with a response."""
    body = decoded(await call.raw_body(), dict[str, Json])
    asked = read_request(call, body, "input", input_items)
    run = await asked.start(call)
    return await _answered(call, asked, run, _ResponseForm(asked, run))


async def create_conversation(call: Call) -> Answer:
    """A name for a session; the session begins with the first response."""
    await call.body(NewConversation, empty=NewConversation())
    return respond(
        {
            "id": f"conv_{new_id()}",
            "object": "conversation",
            "created_at": int(time.time()),
            "metadata": {},
        }
    )


class NewConversation(Body, frozen=True):
    """A conversation that is to be made."""

    metadata: JsonObject | None = None


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
    pieces = _pieces(run, asked.tool_names)
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
    sequence: int


_Piece = _Text | _ToolCall | _Ended


async def _pieces(run: ServedRun, tools: frozenset[str]) -> AsyncGenerator[_Piece, None]:
    """What a run says to the client, each text once however it came."""
    streamed: dict[str, str] = {}
    complete: list[Event] = []
    texts = 0
    failure: Problem | None = None
    try:
        async for event in run.events():
            if event.author == "user":
                complete += [] if event.partial else [event]
                continue
            if event.audience != "internal" and not event.isolation_scope and not event.error_code:
                text = event.text
                before = streamed.get(event.id, "")
                if event.partial:
                    streamed[event.id] = before + text
                    new = text
                else:
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
        questions = open_questions(await run.final_session(), run.id, tools)
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
    sequence = (last.sequence or 0) if last is not None else 0
    yield _Ended(total_usage(complete), cut, failure, sequence)


class _Form:
    """What both forms of an answer gather."""

    def __init__(self, asked: "ClientRequest", run: ServedRun) -> None:
        self.asked = asked
        self.run = run
        self.text = ""
        self.calls: list[FunctionCall] = []
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
            case _Ended():
                self.ended = piece

    @property
    def usage(self) -> Usage:
        """What it cost."""
        return self.ended.usage if self.ended is not None else Usage()


class _ChatForm(_Form):
    """A chat completion."""

    def __init__(self, asked: "ClientRequest", run: ServedRun, *, include_usage: bool) -> None:
        super().__init__(asked, run)
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
    function: JsonObject = {"name": call.name, "arguments": _arguments(call)}
    return {"id": call.id, "type": "function", "function": function}


def _arguments(call: FunctionCall) -> str:
    return msgspec.json.encode(call.args or {}).decode()


def _output(usage: Usage) -> int:
    return (usage.candidates_token_count or 0) + (usage.thoughts_token_count or 0)


class _ResponseForm(_Form):
    """A response, and the events that it is streamed as."""

    def __init__(self, asked: "ClientRequest", run: ServedRun) -> None:
        super().__init__(asked, run)
        self._number = -1
        self._output: list[Json] = []

    def whole(self) -> JsonObject:
        """The response in one piece."""
        output: list[Json] = []
        if self.text or not self.calls:
            output.append(self._message(self.text, "completed"))
        output += [self._call_item(one, "completed") for one in self.calls]
        return self._response("completed", output)

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
        if self.failure is not None:
            failed = self._response("failed", self._output)
            failed["error"] = {"code": "server_error", "message": self.failure.detail}
            yield self._event("response.failed", response=failed)
            return
        status = "incomplete" if self.ended is not None and self.ended.is_cut else "completed"
        yield self._event(f"response.{status}", response=self._response(status, self._output))

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
        arguments = _arguments(call)
        begun = {**self._call_item(call, "in_progress"), "arguments": ""}
        item = self._call_item(call, "completed")
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
        return f"msg_{self.run.id}_{index}"

    def _message(self, text: str, status: str) -> JsonObject:
        part: JsonObject = {"type": "output_text", "text": text, "annotations": [], "logprobs": []}
        return {
            "id": self._message_id(len(self._output)),
            "type": "message",
            "role": "assistant",
            "status": status,
            "content": [part],
        }

    def _call_item(self, call: FunctionCall, status: str) -> JsonObject:
        return {
            "id": f"fc_{call.id}",
            "type": "function_call",
            "call_id": call.id,
            "name": call.name,
            "arguments": _arguments(call),
            "status": status,
        }

    def _event(self, kind: str, **fields: Json) -> bytes:
        self._number += 1
        data = msgspec.json.encode({"type": kind, "sequence_number": self._number, **fields})
        return b"event: %b\ndata: %b\n\n" % (kind.encode(), data)

    def _response(self, status: str, output: list[Json]) -> JsonObject:
        asked, used = self.asked, self.usage
        prompt, answer = used.prompt_token_count or 0, _output(used)
        usage: JsonObject = {
            "input_tokens": prompt,
            "input_tokens_details": {"cached_tokens": used.cached_content_token_count or 0},
            "output_tokens": answer,
            "output_tokens_details": {"reasoning_tokens": used.thoughts_token_count or 0},
            "total_tokens": prompt + answer,
        }
        cut: JsonObject | None = {"reason": "max_output_tokens"} if status == "incomplete" else None
        sequence = self.ended.sequence if self.ended is not None else 0
        return {
            "id": response_id(self.run, sequence),
            "object": "response",
            "created_at": self.created,
            "status": status,
            "error": None,
            "incomplete_details": cut,
            "instructions": asked.instructions,
            "metadata": asked.metadata,
            "model": asked.model,
            "output": [*output],
            "parallel_tool_calls": True,
            "previous_response_id": asked.previous,
            "conversation": {"id": asked.conversation} if asked.conversation else None,
            "temperature": None,
            "tool_choice": "auto",
            "tools": asked.raw_tools,
            "top_p": None,
            "usage": usage if status in ("completed", "incomplete") else None,
        }


def _includes_usage(body: dict[str, Json]) -> bool:
    options = body.get("stream_options")
    return isinstance(options, dict) and bool(options.get("include_usage"))


ENDPOINTS = (
    Endpoint("GET", "/v1/models", list_models, "The apps as models.", tag="openai"),
    Endpoint("GET", "/v1/models/{model}", get_model, "One app as a model.", tag="openai"),
    Endpoint(
        "POST", "/v1/chat/completions", create_chat_completion, "Answer a chat.", tag="openai"
    ),
    Endpoint("POST", "/v1/responses", create_response, "Answer with a response.", tag="openai"),
    Endpoint(
        "POST", "/v1/conversations", create_conversation, "A name for a session.", NewConversation,
        tag="openai",
    ),
)  # fmt: skip
