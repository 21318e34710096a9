"""AG-UI: a run of an app as events for a user interface.

A thread is a session. What the client sends after what the session has is new; the rest of its
messages it has from us. Tools of the client are declared to the model, and a call of one ends the
run until its result comes. A question to the user is an interrupt, which `resume` answers.
"""

import importlib.util
from collections.abc import AsyncGenerator
from typing import TYPE_CHECKING, cast

import msgspec

from weft.content import Content, Part
from weft.runtime.approvals import Pending, pending_in
from weft.server.endpoints import Answer, Call, Endpoint
from weft.server.openai_stored import call_arguments, find_session
from weft.server.problems import Problem, invalid, require_id
from weft.server.run_pieces import (
    ArtifactPiece,
    CallPiece,
    EndPiece,
    ResultPiece,
    RunPiece,
    StatePiece,
    TextEnd,
    TextPiece,
    pieces_of_run,
    refuse_question,
    result_text,
)
from weft.server.served import ServedRun
from weft.session import Session
from weft.turns.turn import ClientTool
from weft.values import JsonObject

if TYPE_CHECKING:
    from ag_ui.core import BaseEvent, Interrupt, RunAgentInput


async def run_ag_ui(call: Call) -> Answer:
    """Run an app for a client of AG-UI."""
    if importlib.util.find_spec("ag_ui") is None:
        raise Problem(
            501, "not-installed", "AG-UI is not installed here", hint="pip install 'weft[ag-ui]'"
        )
    from ag_ui.core import RunAgentInput  # it loads the SDK
    from pydantic import ValidationError

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
    return call.served.run_stream(call.identity, run, _stream(asked, run, session, names))


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


async def _stream(
    asked: "RunAgentInput", run: ServedRun, session: Session | None, tools: frozenset[str]
) -> AsyncGenerator[bytes, None]:
    from ag_ui.core import RunStartedEvent

    thread, id = asked.thread_id, asked.run_id
    writer = _EventWriter(thread, id, dict(session.state) if session is not None else {})
    yield _encode(RunStartedEvent(thread_id=thread, run_id=id))
    for event in writer.begin():
        yield _encode(event)
    async for piece in pieces_of_run(run.events(), run.final_session, run.id, tools):
        for event in writer.write(piece):
            yield _encode(event)


def _encode(event: "BaseEvent") -> bytes:
    return f"data: {event.model_dump_json(by_alias=True)}\n\n".encode()


class _EventWriter:
    """The pieces of a run as events of AG-UI."""

    def __init__(self, thread: str, run: str, state: JsonObject) -> None:
        import ag_ui.core as ag_ui

        self._sdk = ag_ui
        self._thread, self._run = thread, run
        self._state = state
        self._begun: set[tuple[str, bool]] = set()

    def begin(self) -> "list[BaseEvent]":
        """The state before the run."""
        return [self._sdk.StateSnapshotEvent(snapshot=self._state)]

    def write(self, piece: RunPiece) -> "list[BaseEvent]":
        """A piece as events."""
        sdk = self._sdk
        match piece:
            case TextPiece():
                return [*self._begin_text(piece), self._text(piece)]
            case TextEnd():
                self._begun.discard((piece.message, piece.is_thought))
                id = _message_id(piece)
                if not piece.is_thought:
                    return [sdk.TextMessageEndEvent(message_id=id)]
                return [
                    sdk.ReasoningMessageEndEvent(message_id=id),
                    sdk.ReasoningEndEvent(message_id=id),
                ]
            case CallPiece():
                id = piece.call.id or ""
                args = call_arguments(piece.call)
                return [
                    sdk.ToolCallStartEvent(tool_call_id=id, tool_call_name=piece.call.name or ""),
                    sdk.ToolCallArgsEvent(tool_call_id=id, delta=args),
                    sdk.ToolCallEndEvent(tool_call_id=id),
                ]
            case ResultPiece():
                id = piece.result.id or ""
                text = result_text(piece.result)
                return [
                    sdk.ToolCallResultEvent(
                        message_id=f"result-{id}", tool_call_id=id, content=text
                    )
                ]
            case StatePiece():
                return [sdk.StateDeltaEvent.model_validate({"delta": self._patch(piece.delta)})]
            case ArtifactPiece():
                value = {"name": piece.name, "version": piece.version}
                return [sdk.CustomEvent(name="artifact", value=value)]
            case EndPiece():
                return [self._end(piece)]

    def _begin_text(self, piece: TextPiece) -> "list[BaseEvent]":
        key, id, sdk = (piece.message, piece.is_thought), _message_id(piece), self._sdk
        if key in self._begun:
            return []
        self._begun.add(key)
        if piece.is_thought:
            return [
                sdk.ReasoningStartEvent(message_id=id),
                sdk.ReasoningMessageStartEvent(message_id=id, role="reasoning"),
            ]
        return [sdk.TextMessageStartEvent(message_id=id, role="assistant", name=piece.author)]

    def _text(self, piece: TextPiece) -> "BaseEvent":
        sdk, id = self._sdk, _message_id(piece)
        if piece.is_thought:
            return sdk.ReasoningMessageContentEvent(message_id=id, delta=piece.delta)
        return sdk.TextMessageContentEvent(message_id=id, delta=piece.delta)

    def _patch(self, delta: JsonObject) -> "list[object]":
        """The change of the state as a JSON patch."""
        patch: list[object] = []
        for key, value in delta.items():
            path = "/" + key.replace("~", "~0").replace("/", "~1")
            if value is None:
                if key in self._state:
                    patch.append({"op": "remove", "path": path})
                self._state.pop(key, None)
            else:
                # "add" replaces what is there
                patch.append({"op": "add", "path": path, "value": value})
                self._state[key] = value
        return patch

    def _end(self, piece: EndPiece) -> "BaseEvent":
        sdk = self._sdk
        if piece.outcome in ("failed", "cancelled"):
            return sdk.RunErrorEvent(message=piece.words, code=piece.outcome)
        outcome = None
        if piece.questions:
            interrupts = [self._interrupt(one) for one in piece.questions]
            outcome = sdk.RunFinishedInterruptOutcome(interrupts=interrupts)
        return sdk.RunFinishedEvent(thread_id=self._thread, run_id=self._run, outcome=outcome)

    def _interrupt(self, one: Pending) -> "Interrupt":
        return self._sdk.Interrupt(
            id=one.call_id,
            reason="confirmation" if one.kind == "confirm" else "input_required",
            message=one.question,
            tool_call_id=one.call_id,
            metadata={"name": one.name, "kind": one.kind, "args": one.args},
        )


def _message_id(piece: TextPiece | TextEnd) -> str:
    return f"{piece.message}-thought" if piece.is_thought else piece.message


_NONE: JsonObject = {"type": "object", "properties": {}}

ENDPOINTS = (
    Endpoint("POST", "/ag-ui/{app}", run_ag_ui, "Run an app for a client of AG-UI.", tag="ag-ui"),
)
