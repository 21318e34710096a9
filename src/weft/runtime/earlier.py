"""Earlier runs of a session: one that a message repeats, a crash cut off, or the user takes back.

A client that gets no answer sends its message again, and a worker that was stopped wakes up and
goes on where it was. So a message may carry an id of the client's. It becomes the id of the
invocation, and whoever has the lease looks into the log for it before anything is stored.

Top to bottom: repeated requests, runs that were cut off, rewinding.
"""

from collections.abc import AsyncIterator, Sequence
from typing import cast

from weft.content import Content
from weft.declare import Agent, Node
from weft.errors import RequestTaken, SessionError, UsageError
from weft.runtime.flow import add_label
from weft.runtime.invocation import Request
from weft.runtime.place import Progress, is_failure, path_of, root_place
from weft.runtime.resume import events_of_runs
from weft.session import Actions, ArtifactStore, Event, Session, Store, scope_of
from weft.session.event import new_id
from weft.session.flow import TRUSTED
from weft.session.log_labels import key_labels
from weft.session.lookback import artifacts_around, find_invocation, hidden_in
from weft.values import JsonObject

LONGEST_ID = 200
"""Characters of a request id."""


def require_request_id(request_id: str | None, *, where: str) -> str | None:
    """The id, or an error if it cannot stand for a message."""
    id = cast("object", request_id)
    if id is None:
        return None
    if not isinstance(id, str) or not id or not id.isprintable() or len(id) > LONGEST_ID:
        brief = repr(id) if not isinstance(id, str) or len(id) <= LONGEST_ID else f"{id[:40]!r}..."
        raise UsageError(
            f"request_id={brief}",
            where=where,
            hint=f"pass a text of 1 to {LONGEST_ID} characters that this message alone has",
        )
    return id


def find_request(session: Session | None, request: Request, *, altered: bool) -> int | None:
    """Where the message of the request stands, if the log has it already.

    An id that came with another message is an error, and so is one that was rewound: to answer
    with something else, or to run again what was taken back, would be worse. `altered` says that
    messages are stored otherwise than they came, so that they cannot be compared.
    """
    id = request.request_id
    if session is None or id is None:
        return None
    first = find_invocation(session.events, id)
    if first is None:
        return None
    if first in hidden_in(session.events):
        raise SessionError(
            f"the request `{id}` was rewound",
            where=f"session {session.id}",
            hint="send the message with a new request_id to run it again",
        )
    content = session.events[first].content
    # the same id with other words: a slip of the client's that must not pass unseen
    if not altered and not _has_data(request.content) and content != request.content:
        raise RequestTaken(id, where=f"session {session.id}")
    return first


def _has_data(content: Content | None) -> bool:
    """Whether the message has bytes in it, which may be stored as an artifact."""
    return any(part.inline_data for part in (content.parts if content is not None else None) or ())


def is_settled(session: Session, invocation_id: str) -> bool:
    """Whether a run that is asked for again must not go on.

    Somebody stopped it; or it failed, and the conversation went on without it.
    """
    events = events_of_runs(session)
    last = next(event for event in reversed(events) if event.invocation_id == invocation_id)
    later = events[-1].invocation_id != invocation_id
    return bool(last.interrupted) or (later and is_failure(last))


def is_unfinished(root: Node, session: Session) -> bool:
    """Whether the session's last run was cut off: it neither ended, nor failed, nor waits.

    A run of which this cannot be told for sure counts as unfinished: to resume what is complete
    does nothing.
    """
    events = events_of_runs(session)
    if not events:
        return False
    last, id = events[-1], events[-1].invocation_id
    if is_failure(last) or last.interrupted or last.actions.rewind_before_invocation_id:
        return False
    if session.waiting and not _is_at_work(events, id):
        return False
    place = root_place(root)
    mine = [
        event
        for event in events
        if event.invocation_id == id and path_of(event) == place.path and not event.isolation_scope
    ]
    if not isinstance(root, Agent):
        return not any(event.actions.end_of_agent for event in mine)
    progress = Progress.of(mine)
    return not (progress.ended or progress.answered is not None)


def _is_at_work(events: Sequence[Event], invocation_id: str) -> bool:
    """Whether an agent of the invocation has something to do that waits for nobody."""
    places: dict[tuple[str, str], list[Event]] = {}
    for event in events:
        if event.invocation_id == invocation_id:
            places.setdefault((path_of(event), event.isolation_scope or ""), []).append(event)
    return any(
        progress.reply is not None
        and progress.answered is None
        and not progress.ended
        and (not progress.open or progress.due(frozenset()))
        for progress in map(Progress.of, places.values())
    )


async def unfinished_sessions(
    root: Node, store: Store, app_name: str, *, since: float
) -> AsyncIterator[Session]:
    """The sessions of an app that changed since a time and whose last run was cut off."""
    for info in await store.sessions(app_name):
        # the list is sorted by time: all others are older
        if info.last_update_time < since:
            return
        session = await store.get(info.key)
        if session is not None and is_unfinished(root, session):
            yield session


# --- what the user takes back


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
    delta = _difference(session.state, before.state)
    restored = await _restore_artifacts(session, first, artifacts)
    event = Event(
        author="user",
        invocation_id=new_id(),
        actions=Actions(
            rewind_before_invocation_id=invocation_id, state_delta=delta, artifact_delta=restored
        ),
    )
    # what comes back has the label that it had
    names = (*delta, *(f"artifact:{name}" for name in restored))
    then = key_labels(before.events, names)
    labels = {name: then.of_name(name) for name in names}
    return add_label(event, TRUSTED, {name: one for name, one in labels.items() if one.taint})


def _difference(now: JsonObject, then: JsonObject) -> JsonObject:
    """What to write so that the session's own state is what it was."""
    delta: JsonObject = {
        key: value
        for key, value in then.items()
        if scope_of(key) == "session" and now.get(key) != value
    }
    gone = [key for key in now if scope_of(key) == "session" and key not in then]
    return {**delta, **dict.fromkeys(gone)}


async def _restore_artifacts(
    session: Session, first: int, artifacts: ArtifactStore
) -> dict[str, int]:
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
