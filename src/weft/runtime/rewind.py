"""Rewinding: one event that takes invocations out of view and puts the state back."""

from weft.errors import SessionError
from weft.session import Actions, ArtifactStore, Event, Session, scope_of
from weft.session.event import new_id
from weft.session.lookback import artifacts_around, hidden_by_rewind, hidden_by_undoing
from weft.session.strand import Strand
from weft.values import JsonObject


async def rewind_event(session: Session, invocation_id: str, artifacts: ArtifactStore) -> Event:
    """The event that rewinds the session to before an invocation.

    It carries the session's state as it was then, and the artifacts that were replaced since, as
    new versions. State of the app and of the user is shared with other sessions and stays.
    """
    events = session.events
    first = next((i for i, e in enumerate(events) if e.invocation_id == invocation_id), None)
    if first is None or not invocation_id:
        known = list(dict.fromkeys(e.invocation_id for e in events if e.author == "user"))
        raise SessionError(
            f"there is no invocation `{invocation_id}`",
            where=f"session {session.id}",
            hint=f"it has: {', '.join(known[-10:]) or 'none'}",
        )
    before = session.before(first)
    return Event(
        author="user",
        invocation_id=new_id(),
        actions=Actions(
            rewind_before_invocation_id=invocation_id,
            state_delta=_difference(session.state, before.state),
            artifact_delta=await _restored(session, first, artifacts),
        ),
    )


def hidden_events(events: Strand[Event]) -> dict[int, str]:
    """Where the events stand that a rewind took out of view, rewinds included."""
    rewound = any(event.actions.rewind_before_invocation_id for event in events)
    return hidden_by_rewind(events) if rewound else {}


def visible_events(session: Session) -> list[Event]:
    """The events that no rewind and no flow took out of view."""
    hidden = {**hidden_events(session.events), **hidden_by_undoing(session.events)}
    return [event for index, event in enumerate(session.events) if index not in hidden]


def _difference(now: JsonObject, then: JsonObject) -> JsonObject:
    """What to write so that the session's own state is what it was."""
    delta: JsonObject = {
        key: value
        for key, value in then.items()
        if scope_of(key) == "session" and now.get(key) != value
    }
    gone = [key for key in now if scope_of(key) == "session" and key not in then]
    return {**delta, **dict.fromkeys(gone)}


async def _restored(session: Session, first: int, artifacts: ArtifactStore) -> dict[str, int]:
    """The artifacts that changed since, saved again as they were."""
    then, changed = artifacts_around(session.events, first)
    owner = (session.app_name, session.user_id, session.id)
    restored: dict[str, int] = {}
    for name in sorted(changed & then.keys()):
        part = await artifacts.load(*owner, name, then[name])
        # the user's own artifacts are shared with other sessions
        if part is not None and not name.startswith("user:"):
            restored[name] = await artifacts.save(*owner, name, part)
    return restored
