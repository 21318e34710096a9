"""What users import in their tests: a model that follows a script, and sessions in one line."""

from collections.abc import Mapping
from typing import cast

from weft.content import ContentLike, to_content
from weft.errors import SessionError
from weft.models.scripted import (
    ScriptedModel,
    call,
    chunks,
    cut,
    delayed,
    fails_after,
    malformed,
    thought,
    usage,
)
from weft.session import Actions, Event, Session
from weft.testing.recorded import RecordedModel
from weft.values import Json, require_json

__all__ = [
    "RecordedModel",
    "ScriptedModel",
    "call",
    "chunks",
    "cut",
    "delayed",
    "fails_after",
    "make_session",
    "malformed",
    "thought",
    "usage",
]

Turn = tuple[str, ContentLike] | tuple[str, ContentLike, Mapping[str, Json]]


def make_session(*turns: Turn, state: Mapping[str, Json] | None = None) -> Session:
    """Build a session from turns: `(author, text)` or `(author, text, state it wrote)`.

    A user turn begins a new invocation. Ids and times are numbered, so equal calls build equal
    sessions.

    >>> make_session(("user", "Fly me"), ("classifier", "booking", {"intent": "booking"})).state
    {'intent': 'booking'}
    """
    events: list[Event] = []
    invocation = 0
    for number, turn in enumerate(turns, 1):
        where = f"make_session, turn {number}"
        if not isinstance(cast("object", turn), tuple) or len(turn) not in (2, 3):
            raise SessionError(f"{turn!r} is not a turn", where=where, hint='write ("user", "Hi")')
        author = turn[0]
        content = to_content(turn[1], role="user" if author == "user" else "model", where=where)
        parts = list(content.parts or ())
        # an agent's tool results go back to the model, so they have the role of a user
        if author != "user" and any(part.function_response is not None for part in parts):
            content = to_content(parts, role="user", where=where)
        if author == "user":
            invocation += 1
        delta = dict(turn[2]) if len(turn) == 3 else {}
        require_json(delta, where=where)
        events.append(
            Event(
                author=author,
                content=content,
                invocation_id=f"i{invocation}",
                id=f"e{number}",
                timestamp=float(number),
                actions=Actions(state_delta=delta),
            )
        )
    return Session("session", state=state, events=events)
