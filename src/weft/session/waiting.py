"""Calls that wait for an answer from outside, read from the log: a question is open until answered.

The log says it in three ways: an event marks calls as pending, a result answers a call, and the
answer to a confirmation answers the call it is about. What a rewind or a flow took back neither
asks nor answers anything.
"""

from collections.abc import Container, Sequence
from typing import NamedTuple

from weft.session.event import Event
from weft.session.strand import Strand
from weft.session.unread import folded

CONFIRMATION = "adk_request_confirmation"
"""The name of the question to the user whether a call may run; ADK's clients know it."""

INPUT = "adk_request_input"
"""The name of a gate's question to the user; ADK's clients know it."""

QUESTION = "ask-"
"""What the id of a confirmation begins with; the id of the call it is about follows."""


def waiting_in(log: Strand[Event]) -> dict[str, str]:
    """The calls of a log that wait, for a result or for the user's word: their ids and names."""
    # nothing waits in plain talk
    waiting = folded(log, _Waiting, lambda skim: _Waiting(before=skim.invocations))
    if log.tail:
        waiting = waiting.after(log.tail)
    return {id: call.name for id, call in waiting.open.items()}


def is_undone(event: Event, marker: Event, paths: list[str]) -> bool:
    """Whether the event was made in the marker's invocation and task, at or below a path."""
    if event.invocation_id != marker.invocation_id:
        return False
    path = event.node_info.get("path") if event.node_info is not None else None
    return isinstance(path, str) and any(
        path == above or path.startswith(f"{above}/") for above in paths
    )


class _WaitingCall(NamedTuple):
    """A call that waits: whom it is to, and the event that says so."""

    name: str
    event: Event


class _Waiting(NamedTuple):
    """The calls that wait after some events of a log."""

    open: dict[str, _WaitingCall] = {}
    names: dict[str, str] = {}
    """Whom the calls are to, by id, as far as a result may still say that they wait."""
    begun: "_Begun | None" = None
    """The invocations so far, the newest first: a rewind goes back to what waited before one."""
    before: Container[str] = ()
    """Invocations before those, in which nothing ever waited."""

    def after(self, events: Sequence[Event]) -> "_Waiting":
        """The calls that wait once these events follow."""
        open, names, begun = {**self.open}, {**self.names}, self.begun
        for event in events:
            if begun is None or begun.invocation_id != event.invocation_id:
                begun = _Begun(event.invocation_id, {**open}, {**names}, begun)
            target = event.actions.rewind_before_invocation_id
            if not target:
                open = _after(event, open, names)
            # nothing waited in the talk that nobody read
            elif target in self.before:
                open, names = {}, {}
            elif (first := _first(begun, target)) is not None:
                open, names = {**first.open}, {**first.names}
        return _Waiting(open, names, begun, self.before)


class _Begun(NamedTuple):
    """What waited when events of an invocation began, and the same of what came before."""

    invocation_id: str
    open: dict[str, _WaitingCall]
    names: dict[str, str]
    earlier: "_Begun | None"


def _first(begun: _Begun | None, invocation_id: str) -> _Begun | None:
    """Where the invocation began; its events may be mixed with those of others."""
    first: _Begun | None = None
    while begun is not None:
        if begun.invocation_id == invocation_id:
            first = begun
        begun = begun.earlier
    return first


def _after(
    event: Event, open: dict[str, _WaitingCall], names: dict[str, str]
) -> dict[str, _WaitingCall]:
    """The open calls after an event that is no rewind; `names` is kept up in place."""
    pending: list[str] = []
    if event.custom_metadata is not None:
        notes = event.provenance
        pending, paths = notes.pending or [], notes.undone
        if open and paths:
            open = {
                id: call for id, call in open.items() if not is_undone(call.event, event, paths)
            }
    content = event.content
    for part in (content.parts or ()) if content is not None else ():
        call, result = part.function_call, part.function_response
        if call is not None:
            names[call.id or ""] = event.author if call.name == INPUT else call.name or ""
        elif result is not None:
            asked = result.name == CONFIRMATION
            call_id = (result.id or "").removeprefix(QUESTION if asked else "")
            open.pop(call_id, None)
            # a result that says that the call still waits is no answer
            if not asked and call_id not in pending:
                names.pop(call_id, None)
    for id in pending:
        open[id] = _WaitingCall(names.get(id, ""), event)
    return open
