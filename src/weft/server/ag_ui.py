"""AG-UI: a run of an app as events for a user interface.

A thread is a session. What the client sends after what the session has is new; the rest of its
messages it has from us. Tools of the client are declared to the model, and a call of one ends the
run until its result comes. A question to the user is an interrupt, which `resume` answers.
"""

import importlib.util
from typing import TYPE_CHECKING, cast

import msgspec

from weft.content import Content, Part
from weft.runtime.approvals import pending_in
from weft.server.asking import find_session
from weft.server.endpoints import Answer, Call, Endpoint
from weft.server.problems import Problem, invalid, require_id
from weft.server.run_pieces import (
    refuse_question,
)
from weft.session import Session
from weft.turns.turn import ClientTool
from weft.values import JsonObject

if TYPE_CHECKING:
    from ag_ui.core import RunAgentInput


async def run_ag_ui(call: Call) -> Answer:
    """Run an app for a client of AG-UI."""
    if importlib.util.find_spec("ag_ui") is None:
        raise Problem(
            501, "not-installed", "AG-UI is not installed here", hint="pip install 'weft[ag-ui]'"
        )
    from ag_ui.core import RunAgentInput  # it loads the SDK
    from pydantic import ValidationError

    from weft.server.ag_ui_events import stream_events

    try:
        asked = RunAgentInput.model_validate_json(await call.raw_body())
    except ValidationError as error:
        first = error.errors()[0]
        where = "".join(f"/{one}" for one in first["loc"])
        raise invalid(str(first["msg"]), where=where) from None
    runner, user, thread = call.runner(), call.user(), require_id(asked.thread_id)
    session = await find_session(runner, user, thread)
    tools = [
        ClientTool(one.name, one.description, cast("JsonObject", one.parameters or _NONE)).tool()
        for one in asked.tools or ()
    ]
    answers = _read_answers(asked, session)
    message = None if answers else _read_message(asked)
    run = await call.served.start(
        runner,
        message,
        user=user,
        session=thread,
        answers=answers or None,
        tools=tools,
        state=call.allowed_state(_new_state(asked, session)) or None if message else None,
        follow=True,
    )
    names = frozenset(one.name for one in tools)
    return call.served.run_stream(call.identity, run, stream_events(asked, run, session, names))


def _read_message(asked: "RunAgentInput") -> Content:
    """What the user says: the messages after the last that is ours."""
    parts: list[Part] = []
    for one in reversed(asked.messages):
        if one.role != "user":
            break
        content = one.content
        if isinstance(content, str):
            parts.insert(0, Part(text=content))
            continue
        for piece in reversed(content):
            if piece.type != "text":
                raise invalid(f"a part of the type {piece.type!r} is not taken", hint="send text")
            parts.insert(0, Part(text=piece.text))
    if not parts:
        raise invalid(
            "the last message is not the user's", where="/messages", hint="send what the user says"
        )
    return Content(role="user", parts=tuple(parts))


def _read_answers(asked: "RunAgentInput", session: Session | None) -> dict[str, object]:
    """What the client resumes: answers to interrupts, and results of its own tools."""
    answers: dict[str, object] = {}
    questions = {one.call_id: one for one in pending_in(session)} if session is not None else {}
    for entry in asked.resume or ():
        question = questions.get(entry.interrupt_id)
        if entry.status == "resolved" or question is None:  # one that is not open is refused later
            answers[entry.interrupt_id] = entry.payload
        else:
            answers[entry.interrupt_id] = refuse_question(question)
    waiting = session.waiting if session is not None else {}
    for one in reversed(asked.messages):
        if one.role != "tool":
            break
        if one.tool_call_id in waiting:
            answers[one.tool_call_id] = _read_json(one.content)
    return answers


def _read_json(content: object) -> object:
    if not isinstance(content, str):
        raise invalid("the result of a tool is not text", where="/messages")
    try:
        return cast("object", msgspec.json.decode(content))
    except (msgspec.DecodeError, RecursionError):
        return content


def _new_state(asked: "RunAgentInput", session: Session | None) -> JsonObject:
    """The keys of the state that the client has otherwise than the session."""
    state = asked.state
    if not isinstance(state, dict):
        return {}
    known = session.state if session is not None else {}
    fields = cast("JsonObject", state)
    return {key: value for key, value in fields.items() if known.get(key) != value}


_NONE: JsonObject = {"type": "object", "properties": {}}

ENDPOINTS = (
    Endpoint("POST", "/ag-ui/{app}", run_ag_ui, "Run an app for a client of AG-UI.", tag="ag-ui"),
)
