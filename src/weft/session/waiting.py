"""Calls that wait for an answer from outside, read from the log: a question is open until answered.

The log says it in three ways: an event marks calls as pending, a result answers a call, and the
answer to a confirmation answers the call it is about. What a rewind or a flow took back neither
asks nor answers anything.
"""

from collections.abc import Iterable
from typing import NamedTuple, cast

from weft.session.event import Event
from weft.values import Strand

CONFIRMATION = "adk_request_confirmation"
"""The name of the question to the user whether a call may run; ADK's clients know it."""

INPUT = "adk_request_input"
"""The name of a gate's question to the user; ADK's clients know it."""

QUESTION = "ask-"
"""What the id of a confirmation begins with; the id of the call it is about follows."""


def waiting_in(log: Strand[Event]) -> dict[str, str]:
    """The calls of a log that wait, for a result or for the user's word: their ids and names.

    What was read once is kept with the log, so that a long session costs what is new in it.
    """
    with log.lock:
        held = cast("_Waiting | None", log.memo.get(_Waiting))
        if held is None or held.read > log.settled:  # this is an older snapshot than was read
            held = _Waiting()
            if _Waiting not in log.memo:
                log.memo[_Waiting] = held
        for event in log.since(held.read)[: log.settled - held.read]:
            held.note(event, log)
        if log.tail:
            held = held.copy()
            for event in log.tail:
                held.note(event, log)
        return {id: call.name for id, call in held.open.items()}


def waiting_calls(events: Iterable[Event]) -> dict[str, str]:
    """The same of any events."""
    return waiting_in(Strand(events))


def is_undone(event: Event, marker: Event, paths: list[str]) -> bool:
    """Whether the event was made in the marker's invocation and task, at or below a path."""
    if event.invocation_id != marker.invocation_id:
        return False
    path = event.node_info.get("path") if event.node_info is not None else None
    return isinstance(path, str) and any(
        path == above or path.startswith(f"{above}/") for above in paths
    )


class _Call(NamedTuple):
    """A call that waits: whom it is to, and the event that says so."""

    name: str
    event: Event


class _Waiting:
    """The calls that wait after the first `read` events of a log."""

    __slots__ = ("_names", "open", "read")

    def __init__(self) -> None:
        self.read = 0
        self.open: dict[str, _Call] = {}
        self._names: dict[str, str] = {}

    def copy(self) -> "_Waiting":
        twin = _Waiting()
        twin.read, twin.open, twin._names = self.read, {**self.open}, {**self._names}
        return twin

    def note(self, event: Event, log: Strand[Event]) -> None:
        """Take in the next event of the log."""
        self.read += 1
        if event.actions.rewind_before_invocation_id:
            self._rewind(event.actions.rewind_before_invocation_id, log)
            return
        pending: list[str] = []
        if event.custom_metadata is not None:
            notes = event.provenance
            pending, paths = notes.pending or [], notes.undone
            if self.open and paths:
                self.open = {
                    id: call
                    for id, call in self.open.items()
                    if not is_undone(call.event, event, paths)
                }
        content = event.content
        for part in (content.parts or ()) if content is not None else ():
            call, result = part.function_call, part.function_response
            if call is not None:
                name = event.author if call.name == INPUT else call.name or ""
                self._names[call.id or ""] = name
            elif result is not None:
                asked = result.name == CONFIRMATION
                call_id = (result.id or "").removeprefix(QUESTION if asked else "")
                self.open.pop(call_id, None)
                if not asked and call_id not in pending:
                    self._names.pop(call_id, None)
        for id in pending:
            self.open[id] = _Call(self._names.get(id, ""), event)

    def _rewind(self, invocation_id: str, log: Strand[Event]) -> None:
        """Go back to what waited before the invocation."""
        before = log.since(0)[: self.read - 1]
        first = next((i for i, e in enumerate(before) if e.invocation_id == invocation_id), None)
        if first is None:
            return
        earlier = _Waiting()
        for event in before[:first]:
            earlier.note(event, log)
        self.open, self._names = earlier.open, earlier._names
