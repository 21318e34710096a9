"""A session: the append-only log of events, and the state it adds up to.

A session is a value: `append` returns the next one and shares everything with this one.
"""

import json
import re
from collections.abc import Iterable, Iterator, Mapping
from pathlib import Path
from typing import NoReturn, cast

import msgspec

from weft.content import Value, encode, require_content
from weft.errors import SessionError
from weft.session.event import Event
from weft.session.state import apply_delta, without_temp
from weft.values import Json, JsonObject, Strand, require_json, require_object


class Session:
    """One conversation: who it belongs to, its events, and its state.

    `state` given here is what the session starts with; the events' deltas are folded over it.
    """

    __slots__ = ("app_name", "events", "id", "initial", "last_update_time", "state", "user_id")

    def __init__(
        self,
        id: str = "",
        *,
        app_name: str = "",
        user_id: str = "",
        state: Mapping[str, Json] | None = None,
        events: Iterable[Event] = (),
        last_update_time: float = 0.0,
    ) -> None:
        start = require_object(state, where="session.state") if state is not None else {}
        ids: dict[str, Event] = {}
        strand = Strand(_distinct(events, ids, where="session.events"))
        strand.memo[_IDS] = ids
        self._fill(
            id, app_name, user_id, start, _fold(start, start, "", strand), strand, last_update_time
        )

    def _fill(
        self,
        id: str,
        app_name: str,
        user_id: str,
        initial: JsonObject,
        state: JsonObject,
        events: Strand[Event],
        last_update_time: float,
    ) -> None:
        self.id = id
        self.app_name = app_name
        self.user_id = user_id
        self.initial = initial
        self.state = state
        self.events = events
        self.last_update_time = last_update_time

    def append(self, *events: Event) -> "Session":
        """The session with the events added; one it has already is not added again.

        Partial events are display only and not added.
        """
        log = self.events
        complete = [
            event
            for event in _distinct(events, _ids(log), where="append")
            if not event.partial
        ]
        if not complete:
            return self
        last = log[-1].invocation_id if len(log) else ""
        grown = log.extend(complete)
        if grown.memo is log.memo:
            _ids(grown).update((event.id, event) for event in complete)
        after = Session.__new__(Session)
        after._fill(
            self.id,
            self.app_name,
            self.user_id,
            self.initial,
            _fold(self.initial, self.state, last, complete),
            grown,
            max(self.last_update_time, complete[-1].timestamp),
        )
        return after
