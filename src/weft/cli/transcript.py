"""A session as a person reads it: an invocation after the other, a short line for each deed."""

import time
from collections.abc import Iterator
from typing import NamedTuple

from weft.cli.words import Marks, deeds, error_words, rejected
from weft.compiler.build import hidden_by_rewind
from weft.compiler.text import clip, safe
from weft.errors import SessionError
from weft.session import Event, Session
from weft.session.state import without_temp
from weft.values import compact

SHORT = 8
"""Letters of an invocation's id that are shown, and enough to name it by."""

_WIDEST = 20


class Invocation(NamedTuple):
    """The events of one invocation, and whether a rewind took them back."""

    id: str
    events: list[Event]
    live: bool


def invocations_of(session: Session) -> list[Invocation]:
    """The session's invocations in the order they began; a rewind itself is none."""
    hidden = hidden_by_rewind(session.events)
    found: dict[str, Invocation] = {}
    for index, event in enumerate(session.events):
        if event.actions.rewind_before_invocation_id:
            continue
        id = event.invocation_id
        held = found.setdefault(id, Invocation(id, [], index not in hidden))
        held.events.append(event)
    return list(found.values())


def find_invocation(session: Session, name: str | None) -> Invocation:
    """The invocation whose id is, or begins with, that name; without one, the last."""
    live = [one for one in invocations_of(session) if one.live and one.id]
    if name is None and live:
        return live[-1]
    found = [one for one in live if one.id == name]
    found = found or [one for one in live if name and one.id.startswith(name)]
    if len(found) == 1:
        return found[0]
    listed = ", ".join(one.id[: SHORT * 2] for one in live[-8:]) or "none"
    problem = f"{len(found)} invocations begin with" if found else "there is no invocation"
    raise SessionError(
        f"{problem} `{name}`" if name is not None else "there is no invocation to take back",
        where=f"session {session.id}",
        hint=f"it has: {listed}",
    )


def session_lines(session: Session, marks: Marks, width: int) -> Iterator[str]:
    """The whole session: whose it is, what happened, and the state at the end."""
    owner = safe(f"session {session.id} of {session.user_id} in {session.app_name}")
    yield f"{owner}, {len(session.events)} events, last change {moment(session.last_update_time)}"
    for one in invocations_of(session):
        yield ""
        taken = "" if one.live else "  (taken back)"
        yield f"invocation {safe(one.id[: SHORT * 2]) or '?'}{taken}"
        yield from event_lines(one.events, marks, width)
    yield ""
    yield "state"
    yield from state_lines(session, width)


def event_lines(events: list[Event], marks: Marks, width: int) -> Iterator[str]:
    """A line for all that an event says or does; bookkeeping has none."""
    column = min(max((len(event.author) for event in events), default=0), _WIDEST)
    for event in events:
        for line in _lines(event, marks, width):
            author = clip(safe(event.author), column)
            yield clip(f"  {author:<{column}}  {line}", width)


def state_lines(session: Session, width: int) -> Iterator[str]:
    """The state, a key a line."""
    state = without_temp(session.state)
    for key, value in state.items():
        yield clip(safe(f"  {key} = {compact(value)}"), width)
    if not state:
        yield "  empty"


def moment(timestamp: float) -> str:
    """A time of day as the reader's clock shows it."""
    return time.strftime("%Y-%m-%d %H:%M", time.localtime(timestamp))


def _lines(event: Event, marks: Marks, width: int) -> Iterator[str]:
    if event.text and not rejected(event):
        yield " ".join(safe(event.text[: width * 4]).split())
    yield from deeds(event, marks, width)
    if event.error_code:
        yield f"{marks.problem} {error_words(event).splitlines()[0]}"
    if event.content is None:
        for key, value in event.actions.state_delta.items():
            yield f"= {key}: {compact(value)}"
