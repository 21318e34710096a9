"""What a run does, piece by piece: the same pieces for the clients of every protocol.

A2A, AG-UI, the AI stream and ACP differ in how they spell a text, a call or an end. What they
are told is the same, and it is found here.
"""

from collections.abc import AsyncGenerator, Awaitable, Callable, Iterator
from contextlib import aclosing
from typing import Literal, NamedTuple, TypeAlias

from weft.content import FunctionCall, FunctionResponse
from weft.inspector.words import parts_of
from weft.runtime.approvals import Deny, Pending
from weft.runtime.result import counted_usage
from weft.server.asking import open_questions
from weft.server.stream import stream_problem
from weft.session import Event, Session, Usage
from weft.session.event import without_temp
from weft.session.lookback import RESERVED
from weft.values import JsonObject, text_or_json, unwrap_result


class TextPiece(NamedTuple):
    """More of a message, or of a thought before it."""

    message: str
    delta: str
    author: str
    is_thought: bool = False


class TextEnd(NamedTuple):
    """A message is complete; one that was begun in vain ends, too."""

    message: str
    is_thought: bool = False


class CallPiece(NamedTuple):
    """A call of a tool."""

    call: FunctionCall


class ResultPiece(NamedTuple):
    """What a call returned."""

    result: FunctionResponse


class StatePiece(NamedTuple):
    """A change of the state."""

    delta: JsonObject


class ArtifactPiece(NamedTuple):
    """An artifact that was saved."""

    name: str
    version: int


Outcome = Literal["done", "waiting", "failed", "cancelled"]


class EndPiece(NamedTuple):
    """How the run ended: always the last piece."""

    outcome: Outcome
    questions: list[Pending]
    words: str
    """What went wrong, where it failed."""
    usage: Usage


RunPiece: TypeAlias = (
    TextPiece | TextEnd | CallPiece | ResultPiece | StatePiece | ArtifactPiece | EndPiece
)


class _Messages:
    """Texts as they grow; each has the id of its event, and another where it begins anew."""

    def __init__(self) -> None:
        self._streamed: dict[tuple[str, bool], str] = {}
        self._tries: dict[str, int] = {}

    def add(self, event: Event) -> Iterator[RunPiece]:
        """What an event adds, and the end of what is complete."""
        if event.void:
            yield from self._end(event.id)
            self._tries[event.id] = self._tries.get(event.id, 0) + 1
            if not event.partial:  # it was rejected
                return
        for is_thought, text in ((True, _thoughts_in(event)), (False, event.text)):
            before = self._streamed.get((event.id, is_thought), "")
            new = text
            if not event.partial:
                # words that are sent cannot be taken back: a text that differs adds nothing
                new = text.removeprefix(before) if text.startswith(before) else ""
            if new:
                self._streamed[event.id, is_thought] = before + new
                yield TextPiece(self._name(event.id), new, event.author, is_thought)
        if not event.partial:
            yield from self._end(event.id)

    def end_all(self) -> Iterator[RunPiece]:
        """End what was begun and never completed."""
        for id, _ in [*self._streamed]:
            yield from self._end(id)

    def _end(self, id: str) -> Iterator[RunPiece]:
        for is_thought in (True, False):
            if self._streamed.pop((id, is_thought), None) is not None:
                yield TextEnd(self._name(id), is_thought)

    def _name(self, id: str) -> str:
        tries = self._tries.get(id, 0)
        return f"{id}-{tries}" if tries else id


def _thoughts_in(event: Event) -> str:
    return "".join(part.text or "" for part in parts_of(event) if part.kind == "thought")


def is_shown(event: Event) -> bool:
    """Whether clients are shown an event: not what an agent does inside a tool."""
    return event.audience != "internal" and not event.isolation_scope


async def pieces_of_run(
    events: AsyncGenerator[Event, None],
    final_session: Callable[[], Awaitable[Session]],
    run: str,
    tools: frozenset[str] = frozenset(),
) -> AsyncGenerator[RunPiece, None]:
    """What a run does, from its first event to its end; an error is how it ends.

    `tools` are the client's own, whose results it knows how to bring.
    """
    messages = _Messages()
    complete: list[Event] = []
    try:
        async with aclosing(events):
            async for event in events:
                if not event.partial:
                    complete.append(event)
                if not is_shown(event):
                    continue
                if event.author != "user" and not (event.error_code and not event.partial):
                    for piece in messages.add(event):
                        yield piece
                if not event.partial:
                    for piece in _acts_in(event):
                        yield piece
        for piece in messages.end_all():
            yield piece
        yield end_of_run(complete, open_questions(await final_session(), run, tools))
    except Exception as error:
        for piece in messages.end_all():
            yield piece
        yield EndPiece("failed", [], stream_problem(error).detail, counted_usage(complete))


def pieces_of_event(event: Event) -> Iterator[RunPiece]:
    """The pieces of one stored event, to show what was."""
    if is_shown(event):
        if event.author != "user" and not event.error_code:
            yield from _Messages().add(event)
        yield from _acts_in(event)


def _acts_in(event: Event) -> Iterator[RunPiece]:
    """What an event does other than to speak; questions to the user are not calls of tools."""
    for call in event.calls:
        if not (call.name or "").startswith(RESERVED):
            yield CallPiece(call)
    for result in event.results:
        if not (result.name or "").startswith(RESERVED):
            yield ResultPiece(result)
    if delta := without_temp(event.actions.state_delta):
        yield StatePiece(delta)
    for name, version in event.actions.artifact_delta.items():
        yield ArtifactPiece(name, version)


def end_of_run(complete: list[Event], questions: list[Pending]) -> EndPiece:
    """How a run ended that has these events."""
    usage = counted_usage(complete)
    last = complete[-1] if complete else None
    if questions:
        return EndPiece("waiting", questions, "", usage)
    if last is None or not last.error_code:
        return EndPiece("done", [], "", usage)
    is_stopped = last.error_code in ("cancelled", "interrupted")
    words = last.error_message or last.error_code
    return EndPiece("cancelled" if is_stopped else "failed", [], words, usage)


def refuse_question(question: Pending) -> object:
    """The answer to a question that nobody wants to answer."""
    if question.kind == "confirm":
        return Deny("it was cancelled")
    return {"action": "cancel"} if question.kind == "input" else {"error": "it was cancelled"}


def result_text(result: FunctionResponse) -> str:
    """What a call returned, as text."""
    return text_or_json(unwrap_result(result.response or {}))


def describe_act(piece: RunPiece) -> str:
    """A call or a result in a few words; empty for other pieces."""
    match piece:
        case CallPiece():
            return f"calls {piece.call.name}"
        case ResultPiece():
            return f"{piece.result.name} returned"
        case _:
            return ""
