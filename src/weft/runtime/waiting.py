"""Calls that wait for an answer from outside: which they are, and which answers are news."""

from collections.abc import Iterable, Mapping

import msgspec

from weft.content import Content, FunctionResponse, Part
from weft.errors import SessionError
from weft.runtime.progress import CONFIRMATION, INPUT, QUESTION
from weft.runtime.rewind import visible_events
from weft.session import Event, Session


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


def _pending(event: Event) -> list[str]:
    """The calls that this event says wait."""
    weft = (event.custom_metadata or {}).get("weft")
    pending = weft.get("pending") if isinstance(weft, dict) else None
    return [each for each in pending if isinstance(each, str)] if isinstance(pending, list) else []
