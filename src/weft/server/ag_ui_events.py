"""The pieces of a run as events of AG-UI, in the order that its clients want."""

from collections.abc import AsyncGenerator

import ag_ui.core as sdk

from weft.runtime.approvals import Pending
from weft.server.asking import call_arguments
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
    result_text,
)
from weft.server.served import ServedRun
from weft.session import Session
from weft.values import JsonObject


async def stream_events(
    asked: sdk.RunAgentInput, run: ServedRun, session: Session | None, tools: frozenset[str]
) -> AsyncGenerator[bytes, None]:
    """A run as server-sent events, from its start to how it ended."""
    thread, id = asked.thread_id, asked.run_id
    writer = _EventWriter(thread, id, dict(session.state) if session is not None else {})
    yield _encode(sdk.RunStartedEvent(thread_id=thread, run_id=id))
    for event in writer.begin():
        yield _encode(event)
    async for piece in pieces_of_run(run.events(), run.final_session, run.id, tools):
        for event in writer.write(piece):
            yield _encode(event)


def _encode(event: sdk.BaseEvent) -> bytes:
    return f"data: {event.model_dump_json(by_alias=True)}\n\n".encode()


class _EventWriter:
    """The pieces of a run as events of AG-UI."""

    def __init__(self, thread: str, run: str, state: JsonObject) -> None:
        self._thread, self._run = thread, run
        self._state = state
        self._begun: set[tuple[str, bool]] = set()

    def begin(self) -> list[sdk.BaseEvent]:
        """The state before the run."""
        return [sdk.StateSnapshotEvent(snapshot=self._state)]

    def write(self, piece: RunPiece) -> list[sdk.BaseEvent]:
        """A piece as events."""
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

    def _begin_text(self, piece: TextPiece) -> list[sdk.BaseEvent]:
        key, id = (piece.message, piece.is_thought), _message_id(piece)
        if key in self._begun:
            return []
        self._begun.add(key)
        if piece.is_thought:
            return [
                sdk.ReasoningStartEvent(message_id=id),
                sdk.ReasoningMessageStartEvent(message_id=id, role="reasoning"),
            ]
        return [sdk.TextMessageStartEvent(message_id=id, role="assistant", name=piece.author)]

    def _text(self, piece: TextPiece) -> sdk.BaseEvent:
        id = _message_id(piece)
        if piece.is_thought:
            return sdk.ReasoningMessageContentEvent(message_id=id, delta=piece.delta)
        return sdk.TextMessageContentEvent(message_id=id, delta=piece.delta)

    def _patch(self, delta: JsonObject) -> list[object]:
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

    def _end(self, piece: EndPiece) -> sdk.BaseEvent:
        if piece.outcome in ("failed", "cancelled"):
            return sdk.RunErrorEvent(message=piece.words, code=piece.outcome)
        outcome = None
        if piece.questions:
            interrupts = [self._interrupt(one) for one in piece.questions]
            outcome = sdk.RunFinishedInterruptOutcome(interrupts=interrupts)
        return sdk.RunFinishedEvent(thread_id=self._thread, run_id=self._run, outcome=outcome)

    def _interrupt(self, one: Pending) -> sdk.Interrupt:
        return sdk.Interrupt(
            id=one.call_id,
            reason="confirmation" if one.kind == "confirm" else "input_required",
            message=one.question,
            tool_call_id=one.call_id,
            metadata={"name": one.name, "kind": one.kind, "args": one.args},
        )


def _message_id(piece: TextPiece | TextEnd) -> str:
    return f"{piece.message}-thought" if piece.is_thought else piece.message
