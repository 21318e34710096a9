"""What the databases have in common: sessions kept at hand, and values as JSON text.

A session that was read once is kept, so that the next read costs what was added since, and
what the compiler derived from its log stays with it.
"""

import json
from collections import OrderedDict
from collections.abc import Sequence
from threading import Lock

import msgspec

from weft.content import encode
from weft.errors import SessionError, StoreError
from weft.session import Event, SessionKey
from weft.session.kept import Kept, grow
from weft.values import Json, JsonObject

SIZE = 1024
"""How many sessions are kept at hand."""

_events = msgspec.json.Decoder(Event)


class Cache:
    """The sessions used last; each may be older than the database, never newer."""

    def __init__(self, size: int = SIZE) -> None:
        self._size = size
        self._kept: OrderedDict[SessionKey, Kept] = OrderedDict()
        self._lock = Lock()

    def get(self, key: SessionKey) -> Kept | None:
        """The session as far as it is known here."""
        with self._lock:
            kept = self._kept.get(key)
            if kept is not None:
                self._kept.move_to_end(key)
            return kept

    def put(self, kept: Kept) -> None:
        """Keep the session, unless a newer one is kept."""
        with self._lock:
            held = self._kept.get(kept.key)
            if held is not None and _age(held) > _age(kept):
                return
            self._kept[kept.key] = kept
            self._kept.move_to_end(kept.key)
            if len(self._kept) > self._size:
                self._kept.popitem(last=False)

    def drop(self, key: SessionKey) -> None:
        """Forget the session."""
        with self._lock:
            self._kept.pop(key, None)


def caught_up(held: Kept, texts: Sequence[str], length: int) -> Kept:
    """The session with the events that were stored since; `length` is how many it has in all."""
    where = str(held.key)
    events = [read_event(text, where=where) for text in texts]
    kept = held.after(grow(held.session({}, {}), events)) if events else held
    if len(kept.events) != length:
        raise StoreError(
            f"the log has gaps or repetitions: {length} events were stored, "
            f"and {len(kept.events)} can be read",
            where=where,
            hint="it was changed by hand; restore it from a backup",
        )
    return kept


def _age(kept: Kept) -> tuple[int, int]:
    return kept.number, len(kept.events)


def event_text(event: Event) -> str:
    """The event as JSON, once it is sure that it can be read again.

    An event that was stored but cannot be read would make its whole session unreadable.
    """
    data = event.to_json()
    try:
        _decoded(data)
    except (ValueError, RecursionError) as error:
        raise SessionError(f"the event is not one: {error}", where=f"event {event.id}") from None
    return data.decode()


def read_event(text: str | bytes, *, where: str) -> Event:
    """The event that was stored."""
    try:
        return _decoded(text)
    except (ValueError, RecursionError) as error:
        raise StoreError(
            f"an event cannot be read: {error}",
            where=where,
            hint="it was changed by hand, or written by another version of Weft",
        ) from None


def _decoded(text: str | bytes) -> Event:
    try:
        return _events.decode(text)
    except msgspec.ValidationError:
        raise
    except msgspec.DecodeError:  # lone surrogates, which the fast reader does not know
        return msgspec.convert(json.loads(text), Event)


def value_text(value: Json) -> str:
    """A state value as JSON."""
    return encode(value, where="state").decode()


def read_state(text: str) -> JsonObject:
    """A state that was stored."""
    held = read_value(text)
    assert isinstance(held, dict)
    return held


def read_value(text: str) -> Json:
    """A state value that was stored."""
    try:
        held: Json = msgspec.json.decode(text)
    except msgspec.DecodeError:
        held = json.loads(text)
    return held
