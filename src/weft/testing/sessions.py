"""Sessions in one line, for tests and examples."""

from collections.abc import Mapping
from typing import cast

from weft.content import ContentLike, to_content
from weft.errors import SessionError
from weft.session import Actions, Event, Session
from weft.values import Json, require_json

Turn = tuple[str, ContentLike] | tuple[str, ContentLike, Mapping[str, Json]]


def make_session(*turns: Turn, state: Mapping[str, Json] | None = None) -> Session:
    """A session from turns: `(author, what was said)`, or with the state it wrote as a third.

    A user turn begins a new invocation. Ids and times are numbered, so equal calls make equal
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
        author, said = turn[0], turn[1]
        results = False
        content = to_content(said, role="user" if author == "user" else "model", where=where)
        if author != "user" and content.parts:
            results = any(part.function_response is not None for part in content.parts)
        if results:
            content = to_content(list(content.parts or ()), role="user", where=where)
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
