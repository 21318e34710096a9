"""The API of OpenAI: models, chat completions and responses, streamed or not.

A model here is an app. The client's messages are a whole history, ours is a log, so a request
says which session it belongs to: `previous_response_id` or `conversation` (responses), or the
header `X-Weft-Session`; then only what follows the last answer is new. Without any of these the
history becomes a session of its own, which can be looked at like any other.

Tools of the client are declared to the model together with the agent's own. A call of one ends the
answer; the client brings the result with its next request.

Responses are read again from the log: `openai_stored.py` finds them there. Conversations are in
`openai_conversations.py`.

What is said in an answer, and the two forms of it, is in `openai_answers.py`.
"""

from collections.abc import AsyncGenerator
from functools import partial

from weft.runtime.earlier import is_unfinished
from weft.server.endpoints import Answer, Call, Endpoint, decode_json, respond
from weft.server.openai_answers import (
    ChatForm,
    Piece,
    ResponseForm,
    ResponseHead,
    pieces_of,
)
from weft.server.openai_options import read_tools, wants_usage
from weft.server.openai_sessions import SESSION_HEADER, ClientRequest, read_request
from weft.server.openai_stored import (
    PAGE_QUERIES,
    RequestNote,
    StoredResponse,
    find_response,
    input_of,
    page_of,
    response_id,
    runners_of,
    write_note,
)
from weft.server.problems import Problem, invalid
from weft.server.served import ServedRun
from weft.session import Event, Session
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
    body = decode_json(await call.raw_body(), dict[str, Json])
    asked, include_usage = read_request(call, body, "chat"), wants_usage(body)
    run = await asked.start(call)
    form = ChatForm(asked, run, include_usage=include_usage)
    return await _respond_or_stream(call, asked, run, form)


async def create_response(call: Call) -> Answer:
    """Answer with a response."""
    body = decode_json(await call.raw_body(), dict[str, Json])
    asked = read_request(call, body, "responses")
    run = await asked.start(call)
    head = ResponseHead(
        id=response_id(run.session_id, run.id, run.after),
        run=run.id,
        begin=run.after if asked.goes_on else None,
        model=asked.model,
        session=run.session_id,
        note=asked.note,
    )
    return await _respond_or_stream(call, asked, run, ResponseForm(head))


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
    head = ResponseHead(
        response.id,
        response.run,
        response.begin if response.goes_on else None,
        response.runner.app_name,
        response.session.id,
        response.note,
    )
    form = ResponseForm(head)
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


async def _respond_or_stream(
    call: Call, asked: ClientRequest, run: ServedRun, form: ChatForm | ResponseForm
) -> Answer:
    """The answer in one piece, or as a stream."""
    pieces = pieces_of(
        run.events(),
        run.final_session,
        run.id,
        asked.tool_names,
        has_form=asked.form is not None,
        streams=asked.stream and asked.is_answered_at_once,
    )
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


async def _stored_pieces(response: StoredResponse) -> AsyncGenerator[Piece, None]:
    """What the run of a stored response said."""

    async def events() -> AsyncGenerator[Event, None]:
        for event in response.events:
            yield event

    async def session() -> Session:
        # to look at the session as it was costs more the longer it is
        return response.session.before(response.end if response.may_wait else 0)

    tools = frozenset(tool.name for tool in read_tools(response.note.tools))
    has_form = bool(response.note.format)
    async for piece in pieces_of(events(), session, response.run, tools, has_form=has_form):
        yield piece


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
