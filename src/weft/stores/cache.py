"""What the databases have in common: sessions kept at hand, and values as JSON text.

A session that was read once is kept, so that the next read costs what was added since, and
what the compiler derived from its log stays with it.
"""

import asyncio
import json
import logging
from collections import OrderedDict
from collections.abc import Awaitable, Callable, Generator, Iterable, Sequence
from contextlib import contextmanager
from contextvars import ContextVar
from dataclasses import dataclass
from threading import Lock
from typing import NamedTuple
from zlib import crc32

import msgspec

from weft.content import encode
from weft.errors import SessionError, StoreError, UsageError
from weft.session import Busy, Event, SessionKey
from weft.session.event import read_event
from weft.session.lease import busy_error
from weft.session.memory import Kept, grow
from weft.values import Json, JsonObject

SIZE = 1024
"""How many sessions are kept at hand."""

_log = logging.getLogger("weft")

LARGE = 1_000_000
"""Events with more letters are not read back before they are stored: that takes a while."""


class Row(NamedTuple):
    """An event as a database has it: its JSON, and what tells that it is as it was written.

    Rows of older versions have no checksum.
    """

    data: bytes
    checksum: int | None


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


def caught_up(held: Kept, rows: Sequence[Row], length: int) -> Kept:
    """The session with the events that were stored since; `length` is how many it has in all."""
    where, first = str(held.key), len(held.events)
    events = [read_row(row, first + at, where=where) for at, row in enumerate(rows)]
    kept = held.after(grow(held.session({}, {}), events)) if events else held
    if len(kept.events) != length:
        raise StoreError(
            f"the log has gaps or repetitions: {length} events were stored, "
            f"and {len(kept.events)} can be read",
            where=where,
            hint="it was changed by hand; restore it from a backup",
        )
    return kept


def readable(held: Kept, rows: Sequence[Row]) -> tuple[Kept, list[StoreError]]:
    """The session with the events that can be read, and what is wrong with the others."""
    problems: list[StoreError] = []
    events: list[Event] = []
    for at, row in enumerate(rows):
        try:
            events.append(read_row(row, at, where=str(held.key)))
        except StoreError as error:
            problems.append(error)
    return held.after(grow(held.session({}, {}), events)) if events else held, problems


def warn_unreadable(problems: Sequence[StoreError]) -> None:
    """Log what was left out of a session."""
    for problem in problems:
        _log.warning("%s: %s; it is left out", problem.where, problem.message)


def read_row(row: Row, position: int, *, where: str) -> Event:
    """The event of a row; one that is damaged is an error that says which it is."""
    if row.checksum is not None and crc32(row.data) != row.checksum:
        raise StoreError(
            f"event {position} is damaged: it is not the text that was stored",
            where=where,
            hint=_REST,
        )
    try:
        return read_event(row.data)
    except (ValueError, RecursionError) as error:
        raise StoreError(
            f"event {position} cannot be read: {error}", where=where, hint=_REST
        ) from None


_REST = "restore it from a backup, or read the rest: store.get(key, skip_unreadable=True)"


def _age(kept: Kept) -> tuple[int, int]:
    return kept.number, len(kept.events)


def event_row(event: Event) -> Row:
    """The event as JSON, once it is sure that it can be read again.

    An event that was stored but cannot be read would be lost to its session.
    """
    data = event.to_json()
    try:
        if len(data) < LARGE:
            read_event(data)
        else:
            msgspec.convert(msgspec.to_builtins(event), Event)
    except (ValueError, RecursionError) as error:
        raise SessionError(f"the event is not one: {error}", where=f"event {event.id}") from None
    return Row(data, crc32(data))


def value_text(value: Json) -> str:
    """A state value as JSON."""
    return encode(value, where="state").decode()


def row_checksum(*cells: str | float | bytes) -> int:
    """What tells that a row of state is as it was written: names and value belong together."""
    texts = [cell if isinstance(cell, bytes) else str(cell).encode() for cell in cells]
    return crc32(b"\0".join(texts))


class StateReader:
    """Reads the rows of state of one session; rows of older versions have no checksum.

    A damaged row is an error, or is left out and noted where the rest is wanted.
    """

    def __init__(self, key: SessionKey, *, skip_unreadable: bool = False) -> None:
        self.key = key
        self.problems: list[StoreError] = []
        self._skip = skip_unreadable

    def initial(self, created: float, text: bytes, checksum: int | None) -> JsonObject:
        """The state that the session began with."""
        expected = row_checksum(*self.key, created, text)
        try:
            held = self._value(text, checksum, expected, what="the state it began with")
            if not isinstance(held, dict):
                raise self._damaged("the state it began with", "it is not an object")
        except StoreError as problem:
            if not self._skip:
                raise
            self.problems.append(problem)
            return {}
        return held

    def shared(
        self, scope: Sequence[str], rows: Iterable[tuple[str, bytes, int | None]]
    ) -> JsonObject:
        """The state of an app, or of one user of it, which is the `scope`."""
        state: JsonObject = {}
        for name, text, checksum in rows:
            expected = row_checksum(*scope, name, text)
            try:
                state[name] = self._value(text, checksum, expected, what=f"the state {name!r}")
            except StoreError as problem:
                if not self._skip:
                    raise
                self.problems.append(problem)
        return state

    def _value(self, text: bytes, checksum: int | None, expected: int, *, what: str) -> Json:
        if checksum is not None and checksum != expected:
            raise self._damaged(what, "it is not what was stored")
        try:
            try:
                held: Json = msgspec.json.decode(text)
            except msgspec.DecodeError:  # lone surrogates, which the fast reader does not know
                held = json.loads(text)
        except (ValueError, RecursionError) as error:
            raise self._damaged(what, str(error)) from None
        return held

    def _damaged(self, what: str, why: str) -> StoreError:
        return StoreError(f"{what} is damaged: {why}", where=str(self.key), hint=_REST)


@dataclass
class _Entered:
    """A transaction that this task, or the task that started it, has entered."""

    store: object
    outer: "_Entered | None"
    ended: bool = False


_entered: ContextVar[_Entered | None] = ContextVar("_entered", default=None)


@contextmanager
def inside(store: object) -> Generator[None, None, None]:
    """Mark the block as a transaction of the store."""
    entered = _Entered(store, _entered.get())
    _entered.set(entered)
    try:
        yield
    finally:
        entered.ended = True
        _entered.set(entered.outer)


def require_outside(store: object, *, where: str) -> None:
    """Refuse what would wait for ever: for the end of the transaction that it is in."""
    entered = _entered.get()
    while entered is not None:
        if entered.store is store and not entered.ended:
            raise UsageError(
                "this would wait for the transaction that it is in",
                where=where,
                hint="inside the block, append with the transaction's own append",
            )
        entered = entered.outer


FIRST_PAUSE = 0.005

LONGEST_PAUSE = 0.1

WATCH_EVERY = 0.5
"""Seconds between two looks at what other processes ask for."""


async def outwait(
    key: SessionKey,
    busy: Busy,
    *,
    take: Callable[[], Awaitable[bool]],
    wanted: Callable[[], bool],
    ask: Callable[[], Awaitable[None]],
    withdraw: Callable[[], Awaitable[None]],
) -> None:
    """Take the lock that other processes respect.

    `ask` tells its holder, wherever that is, to stop; `withdraw` takes that back. The holder is
    also asked when somebody behind in the line wants it to stop: `wanted` says so.
    """
    if await take():
        return
    if busy == "reject":
        raise busy_error(key)
    asked, pause = False, FIRST_PAUSE
    try:
        while True:
            if not asked and (busy == "interrupt" or wanted()):
                asked = True
                await ask()
            await asyncio.sleep(pause)
            if await take():
                return
            pause = min(pause * 1.5, LONGEST_PAUSE)
    finally:
        if asked:
            await withdraw()
