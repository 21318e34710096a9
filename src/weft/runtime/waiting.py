"""Calls that wait for an answer from outside: which they are, and which answers are news."""

from collections.abc import Iterable, Mapping

import msgspec

from weft.content import Content, FunctionResponse, Part
from weft.errors import SessionError
from weft.runtime.progress import CONFIRMATION, INPUT, QUESTION, unwrapped
from weft.runtime.rewind import visible_events
from weft.session import Event, Session
from weft.values import Json


def waiting_calls(events: Iterable[Event]) -> dict[str, str]:
    """The calls that wait, for a result or for the user's word: their ids and names."""
    names: dict[str, str] = {}
    waiting: dict[str, str] = {}
    for event in events:
        for call in event.calls:
            names[call.id or ""] = event.author if call.name == INPUT else call.name or ""
        for result in event.results:
            asked = result.name == CONFIRMATION
            waiting.pop((result.id or "").removeprefix(QUESTION if asked else ""), None)
        waiting.update({id: names.get(id, "") for id in _pending(event)})
    return waiting


def answers_in(session: Session) -> dict[str, FunctionResponse]:
    """By call: the answer that the log has."""
    held: dict[str, FunctionResponse] = {}
    for event in visible_events(session):
        if event.results:
            waits = _pending(event)
            held.update({r.id or "": r for r in event.results if r.id not in waits})
    return held


def new_answers(held: Mapping[str, FunctionResponse], content: Content) -> Content | None:
    """The message without the answers that are there already; None if nothing is left of it.

    An answer may come twice, when whoever brings it was not told that it arrived. Another answer
    to a call that has one is refused: something may have been done on the strength of the first.
    """
    kept: list[Part] = []
    for part in content.parts or ():
        answer = part.function_response
        before = held.get(answer.id or "") if answer is not None else None
        if answer is None or before is None:
            kept.append(part)
        elif before.response != answer.response:
            raise SessionError(
                f"the call {answer.id} of {answer.name} has its answer already",
                where="message",
                hint="say what is new in a message: run(message=...)",
            )
    return msgspec.structs.replace(content, parts=tuple(kept)) if kept else None


def require_answers(session: Session, content: Content) -> Content:
    """The answers, once each is to a call that waits for one, and of the kind it waits for.

    Whoever may answer one question must not answer another: a result that nobody waits for would
    be believed as if the tool had run, and a call that waits for a yes has not run at all.
    """
    events = visible_events(session)
    waiting, held, asked = waiting_calls(events), answers_in(session), unconfirmed(events)
    callers = {call.id: (call, event) for event in events for call in event.calls}
    parts: list[Part] = []
    for part in content.parts or ():
        answer = part.function_response
        known = callers.get(answer.id) if answer is not None else None
        if answer is None or known is None:  # which calls there are is said elsewhere
            parts.append(part)
            continue
        (call, event), call_id = known, answer.id or ""
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
        if call.name == CONFIRMATION:
            require_decision(answer.response or {}, where=f"answers[{call_id}]")
        open_yet = call_id in waiting or call_id.removeprefix(QUESTION) in waiting
        if not open_yet and call_id not in held and call_id not in _long_running(event):
            listed = ", ".join(f"{id} ({name})" for id, name in waiting.items()) or "none"
            raise SessionError(
                f"the call {call_id} of {call.name} does not wait for an answer",
                where="message",
                hint=f"calls that wait for an answer: {listed}",
            )
        named = msgspec.structs.replace(answer, name=call.name)
        parts.append(msgspec.structs.replace(part, function_response=named))
    return msgspec.structs.replace(content, parts=tuple(parts))


def unconfirmed(events: Iterable[Event]) -> dict[str, str]:
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


def require_decision(answer: Json, *, where: str) -> None:
    """Refuse an answer to a confirmation that says neither yes nor no."""
    inner = unwrapped(answer) if isinstance(answer, dict) else answer
    decided = inner.get("confirmed") if isinstance(inner, dict) else inner
    if not isinstance(decided, bool):
        raise SessionError(
            "a confirmation is answered with yes or no",
            where=where,
            hint='answer True or False, or {"confirmed": true}',
        )


def _long_running(event: Event) -> tuple[str, ...]:
    return event.long_running_tool_ids or ()


def _pending(event: Event) -> list[str]:
    """The calls that this event says wait."""
    weft = (event.custom_metadata or {}).get("weft")
    pending = weft.get("pending") if isinstance(weft, dict) else None
    return [each for each in pending if isinstance(each, str)] if isinstance(pending, list) else []
