"""Going on with a run: the answers that it gets, each to a call that waits for one."""

import time
from collections.abc import Container, Iterable, Mapping
from contextlib import suppress
from typing import cast

import msgspec

from weft.content import Content, FunctionCall, FunctionResponse, Part
from weft.errors import Conflict, SessionError, describe_kind
from weft.runtime.place import expiry_in, has_expired, unwrap_answer, visible_events
from weft.session import Event, Session, Store
from weft.session.lookback import CONFIRMATION, INPUT, QUESTION
from weft.session.provenance import Provenance
from weft.values import Json, JsonObject

_DECISION = frozenset(("confirmed", "hint", "payload", "response"))
"""What the answer to a confirmation is made of; ADK's page sends it in a field `response`."""


def content_of(session: Session, answers: Mapping[str, object]) -> Content | None:
    """Answers by id, or by the name of the only call that waits, as the message that has them.

    A call that is to be confirmed may ask twice: whether it may run, and then, where it runs
    long or a crash left open whether it ran, what it returned. The id of the call stands for
    the question that is open; the id of the confirmation itself always for that.
    """
    from weft.runtime.payloads import to_json, to_returned  # few runs are given answers

    if not isinstance(cast("object", answers), Mapping):
        raise SessionError(
            f"answers is {describe_kind(answers)}, not answers by the ids of calls",
            where="answers",
            hint="write answers={call_id: True}; session.waiting has the ids",
        )
    if not answers:
        return None
    events = visible_events(session)
    waiting, callers, known = session.waiting, callers_of(events), answers_in(session)
    from weft.runtime.approvals import Approve, Deny, ToolResult  # few runs are asked, and answer

    begun = begun_calls(events)
    parts: list[Part] = []
    for key, value in answers.items():
        call_id = _id_of(key, waiting)
        event = call_for(session, callers, call_id)
        call = next(c for c in event.calls if c.id == call_id)
        question = call_id if call.name == CONFIRMATION else f"{QUESTION}{call_id}"
        asks = question in callers
        decided = question in known
        if value is Approve or value is Deny or value is ToolResult:
            raise SessionError(
                f"{value.__name__} is a class",
                where=f"answers[{call_id}]",
                hint=f"write {value.__name__}({'result' if value is ToolResult else ''})",
            )
        is_approval = isinstance(value, Approve | Deny)
        if is_approval:
            value = cast("Approve | Deny", value).decision(f"answers[{call_id}]")
        if isinstance(value, ToolResult):
            _require_result(call, call_id, asks=asks and not decided)
            value = value.result
        plain = to_json(value) if asks else None
        if asks and decided and question != call_id and (call_id in waiting or call_id in begun):
            is_decision = isinstance(plain, bool) or _is_decision(plain)
            if is_decision and call_id in waiting:
                raise _unclear(call_id, call.name or "", value)
            asks = is_decision  # else it is what the call returned; a yes may come twice
        if asks:
            response = _decision(plain, call_id)
            answer = FunctionResponse(name=CONFIRMATION, id=question, response=response)
        else:
            if is_approval:
                raise _no_confirmation(call_id, call.name or "")
            response = to_returned(value).response
            answer = FunctionResponse(name=call.name, id=call_id, response=response)
        parts.append(Part(function_response=answer))
    return Content(parts=tuple(parts), role="user")


def state_beside(
    session: Session, answers: Mapping[str, object], content: Content | None
) -> JsonObject:
    """The state that comes with the results in a message: each is as if its tool had written it."""
    from weft.runtime.approvals import ToolResult

    outcomes = {
        _id_of(key, session.waiting): value
        for key, value in answers.items()
        if isinstance(value, ToolResult)
    }
    delta: JsonObject = {}
    parts = content.parts if content is not None and outcomes else ()
    for answer in (part.function_response for part in parts or ()):
        if answer is not None and answer.id in outcomes:
            delta |= outcomes[answer.id].delta(f"answers[{answer.id}]")
    return delta


def _id_of(key: str, waiting: Mapping[str, str]) -> str:
    """The id of a call; its name will do where only one call of it waits."""
    named = [id for id, name in waiting.items() if name == key] if key not in waiting else []
    return named[0] if len(named) == 1 else key


def _require_result(call: FunctionCall, call_id: str, *, asks: bool) -> None:
    """Refuse a result with state for a question that is not about a result."""
    if not asks and call.name not in (CONFIRMATION, INPUT):
        return
    wanted = "a gate stores its answer itself" if call.name == INPUT else "it has not run yet"
    raise SessionError(
        f"{call.name} does not wait for what it returned: {wanted}",
        where=f"answers[{call_id}]",
        hint=f"write answers={{{call_id!r}: {'...' if call.name == INPUT else 'True'}}}",
    )


def _is_decision(value: Json) -> bool:
    """Whether a value is the answer to a confirmation, and cannot be a result."""
    return isinstance(value, dict) and "confirmed" in value and _DECISION.issuperset(value)


def _decision(value: Json, call_id: str) -> JsonObject:
    """A yes or no as the answer to a confirmation; ADK's page sends it in a field `response`."""
    if isinstance(value, bool):
        return {"confirmed": value}
    if isinstance(value, dict) and ("confirmed" in value or set(value) == {"response"}):
        return value
    raise SessionError(
        f"the call {call_id} waits for a yes or no, not for {value!r}",
        where="answers",
        hint=f"write answers={{{call_id!r}: True}}, or False",
    )


def _no_confirmation(call_id: str, name: str) -> SessionError:
    """The error for a yes or no to a call that never asked for one."""
    return SessionError(
        f"{name} does not ask whether it may run: what it returned is wanted",
        where=f"answers[{call_id}]",
        hint=f"say what it returned: answers={{{call_id!r}: ...}}",
    )


def _unclear(call_id: str, name: str, value: object) -> SessionError:
    """The error for a yes or no to a call that is confirmed and waits for its result."""
    return SessionError(
        f"{name} is confirmed already, and what it returned is not known: {value!r} says nothing"
        " about that",
        where=f"answers[{call_id}]",
        hint=f'say what it returned: answers={{{call_id!r}: {{"result": ...}}}};'
        f" or run it again: retry=[{call_id!r}]",
    )


class LateAnswer(SessionError):
    """An answer to a question whose time is over: the run goes on without the call."""

    asked: Event
    """The event that asked."""
    call_id: str
    is_noted: bool
    """Whether the log says so already."""


async def accept_answers(store: Store, session: Session, content: Content) -> Content:
    """The answers, as `require_answers` has them; that one came too late is noted in the log.

    A clock that is set back afterwards must not have the call made after all.
    """
    try:
        return require_answers(session, content)
    except LateAnswer as late:
        asked = late.asked
        notes = Provenance(expired=[late.call_id])
        event = Event(
            author=asked.author,
            invocation_id=asked.invocation_id,
            branch=asked.branch,
            node_info=asked.node_info,
            isolation_scope=asked.isolation_scope,
            custom_metadata=notes.onto(None),
        )
        if not late.is_noted:
            with suppress(Conflict):  # the session has gone on meanwhile
                await store.append(session, event)
        raise


def require_answers(session: Session, content: Content) -> Content:
    """The answers, once each is to a call that waits for one, and of the kind it waits for.

    Whoever may answer one question must not answer another: a result that nobody waits for would
    be believed as if the tool had run, and a call that waits for a yes has not run at all.
    """
    events = visible_events(session)
    waiting, answered, asked = session.waiting, answers_in(session), find_unconfirmed(events)
    begun = begun_calls(events)  # a crash may have left open what these did
    callers = {call.id: (call, event) for event in events for call in event.calls}
    noted = (event.provenance for event in events if event.is_noted)
    late = {id for notes in noted for id in notes.expired or ()}
    parts: list[Part] = []
    for part in content.parts or ():
        answer = part.function_response
        caller = callers.get(answer.id) if answer is not None else None
        if answer is None or caller is None:  # which calls there are is said elsewhere
            parts.append(part)
            continue
        (call, event), call_id = caller, answer.id or ""
        # a result for another tool than the one that was called is not believed
        if answer.name not in (None, call.name):
            raise SessionError(
                f"the call {call_id} is of {call.name}, and the answer says {answer.name}",
                where="message",
                hint=f'name="{call.name}", or leave the name out',
            )
        if call_id in asked:
            raise SessionError(
                f"the call {call_id} of {call.name} waits for a confirmation, not for a result",
                where="message",
                hint=f'answer {asked[call_id]} of {CONFIRMATION} with {{"confirmed": true}}'
                f" or false, or resume(answers={{{call_id!r}: True}})",
            )
        if call.name == CONFIRMATION and not _DECISION.issuperset(
            unwrap_answer(answer.response or {})
        ):
            raise SessionError(
                f"{call_id} asks whether a call may run, and the answer is something else",
                where="message",
                hint='answer {"confirmed": true} or {"confirmed": false}',
            )
        # a yes that was stored in time may come again later
        if call.name == CONFIRMATION and call_id not in answered:
            _require_in_time(call, event, late)
        open_yet = call_id.removeprefix(QUESTION) in waiting or call_id in {*waiting, *begun}
        waits = call_id in (event.long_running_tool_ids or ())
        if not open_yet and call_id not in answered and not waits:
            listed = ", ".join(f"{id} ({name})" for id, name in waiting.items()) or "none"
            raise SessionError(
                f"the call {call_id} of {call.name} does not wait for an answer",
                where="message",
                hint=f"calls that wait for an answer: {listed}",
            )
        named = msgspec.structs.replace(answer, name=call.name)
        parts.append(msgspec.structs.replace(part, function_response=named))
    return msgspec.structs.replace(content, parts=tuple(parts))


def _require_in_time(question: FunctionCall, asked: Event, late: Container[str]) -> None:
    """Refuse an answer that comes too late: the run goes on without the call."""
    call_id, expires = (question.id or "").removeprefix(QUESTION), expiry_in(question)
    if call_id not in late and not has_expired(call_id, expires):
        return
    ended = time.strftime("%Y-%m-%d %H:%M:%S", time.gmtime(expires or 0.0))
    error = LateAnswer(
        f"the question {question.id} could be answered until {ended} UTC, and nothing was run",
        where="message",
        hint="resume the session without an answer: the model is told, and may ask again",
    )
    error.asked, error.call_id, error.is_noted = asked, call_id, call_id in late
    raise error


def answers_by_event(session: Session, content: Content) -> list[tuple[Event, Content]]:
    """A message of answers cut up by the events that made the calls; words go with the first.

    Agents that ran side by side may all wait; who answers them need not know where each one was.
    """
    events: dict[str, Event] = {}
    parts: dict[str, list[Part]] = {}
    callers = callers_of(visible_events(session))
    for part in content.parts or ():
        if part.function_response is not None:
            asked = call_for(session, callers, part.function_response.id or "")
            events[asked.id] = asked
            parts.setdefault(asked.id, []).append(part)
    # one run goes on at a time
    if len({asked.invocation_id for asked in events.values()}) > 1:
        raise SessionError(
            "one message answers calls of different invocations",
            where="message",
            hint="send the answers one invocation at a time",
        )
    words = [part for part in content.parts or () if part.function_response is None]
    parts[next(iter(parts))] += words
    return [(events[id], Content(parts=tuple(parts[id]), role="user")) for id in events]


def new_answers(known: Mapping[str, FunctionResponse], content: Content) -> Content | None:
    """The message without the answers that are there already; None if nothing is left of it.

    An answer may come twice, when whoever brings it was not told that it arrived. Another answer
    to a call that has one is refused: something may have been done on the strength of the first.
    """
    new: list[Part] = []
    for part in content.parts or ():
        answer = part.function_response
        before = known.get(answer.id or "") if answer is not None else None
        if answer is None or before is None:
            new.append(part)
        elif before.response != answer.response:
            raise SessionError(
                f"the call {answer.id} of {answer.name} has its answer already",
                where="message",
                hint="say what is new in a message: run(message=...)",
            )
    return msgspec.structs.replace(content, parts=tuple(new)) if new else None


def check_retries(session: Session, retry: Iterable[str]) -> None:
    """Refuse to run again what was never called, or still waits for the user's word."""
    if not retry:
        return
    callers, known = callers_of(visible_events(session)), answers_in(session)
    for call_id in retry:
        call_for(session, callers, call_id, where="retry")
        question = f"{QUESTION}{call_id}"
        if question in callers and question not in known:
            raise SessionError(
                f"the call {call_id} waits for a yes or no and never ran",
                where="retry",
                hint=f"confirm it: resume(answers={{{call_id!r}: True}})",
            )


def events_of_runs(session: Session) -> list[Event]:
    """The events in view that a run wrote.

    State may be written between two runs, by an event with an invocation of its own. Nobody said
    anything in it, so there is nothing to go on with: a run begins with a message.
    """
    events = visible_events(session)
    begun = {event.invocation_id for event in events if event.content is not None}
    return [event for event in events if event.invocation_id in begun]


def last_invocation(session: Session) -> str:
    """The invocation to go on with: the last one that was not rewound."""
    events = events_of_runs(session)
    if events:
        return events[-1].invocation_id
    raise SessionError(
        "there is nothing to go on with", where=f"session {session.id}", hint="use run(message=...)"
    )


def call_for(
    session: Session, callers: Mapping[str, Event], call_id: str, *, where: str = "message"
) -> Event:
    """The event that made the call, or an error that lists the open ones."""
    if call_id in callers:
        return callers[call_id]
    listed = ", ".join(f"{id} ({name})" for id, name in session.waiting.items()) or "none"
    raise SessionError(
        f"there is no call with the id {call_id}",
        where=where,
        hint=f"calls that wait for an answer: {listed}",
    )


def callers_of(events: Iterable[Event]) -> dict[str, Event]:
    """By the id of each call: the last event that made it."""
    return {call.id: event for event in events for call in event.calls if call.id is not None}


def answers_in(session: Session) -> dict[str, FunctionResponse]:
    """By call: the answer that the log has."""
    answers: dict[str, FunctionResponse] = {}
    for event in visible_events(session):
        if event.results:
            waits = event.provenance.pending or ()
            # a preliminary result is not an answer
            answers.update({r.id or "": r for r in event.results if r.id not in waits})
    return answers


def begun_calls(events: Iterable[Event]) -> set[str]:
    """The calls that may have run: they were started, or returned something."""
    begun: set[str] = set()
    for event in events:
        begun.update(event.provenance.started or ())
        if event.results:
            begun.update(result.id or "" for result in event.results)
    return begun


def find_unconfirmed(events: Iterable[Event]) -> dict[str, str]:
    """By the call that may not run before the user says yes: the id of the question."""
    asked: dict[str, str] = {}
    for event in events:
        for call in event.calls:
            if call.name == CONFIRMATION and (call.id or "").startswith(QUESTION):
                asked[(call.id or "").removeprefix(QUESTION)] = call.id or ""
        for result in event.results:
            if result.name == CONFIRMATION:
                asked.pop((result.id or "").removeprefix(QUESTION), None)
    return asked
