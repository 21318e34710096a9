"""A store in memory: for tests, for scripts, and for whatever need not outlive the process.

Its leases hold inside one process: one run of a session at a time, first come, first served. Holder
and waiter may live in different event loops and threads. Stores that several processes share take
this lease first, and then one that the other processes respect.
"""

import os
import time
from collections import deque
from collections.abc import AsyncGenerator, Callable, Iterable, Mapping, Sequence
from contextlib import asynccontextmanager
from itertools import count
from operator import attrgetter
from threading import Lock
from typing import TYPE_CHECKING, NamedTuple, cast, get_args

import msgspec
from msgspec.structs import replace

from weft.errors import SessionBusy, StoreError, UsageError, describe_kind
from weft.session.event import Event, apply_delta, number_events, scope_of
from weft.session.log import Session, positions_of, without_temp_delta
from weft.session.lookback import waiting_in
from weft.session.store import (
    Busy,
    Holder,
    Lease,
    SessionInfo,
    SessionKey,
    Transaction,
    conflict,
    exists_already,
    key_of,
    part,
    require_place,
    unknown_session,
)
from weft.session.strand import Strand
from weft.values import Json, JsonObject, has_lone_surrogate, require_json, require_object

if TYPE_CHECKING:
    from asyncio import AbstractEventLoop, Future


class StoredSession(NamedTuple):
    """A stored session: its log, and the state that is its own.

    `app:` and `user:` state is next to the sessions that share it. The values here are never
    handed out, only copies, so that nobody can change a stored session. `number` is never used
    again: a session that was deleted and created anew has another.
    """

    key: SessionKey
    number: int
    created: float
    initial: JsonObject
    state: JsonObject
    events: Strand[Event]
    size: int = 0
    """Bytes of the events as JSON, where a database counts them."""
    chaptered: int = 0
    """How many of the first events chapters cover, where a database keeps chapters."""

    @property
    def last_update_time(self) -> float:
        """When the newest event happened."""
        events = self.events
        return events[-1].timestamp if len(events) else self.created

    def session(self, app: JsonObject, user: JsonObject) -> Session:
        """The session as a value of its own, with the shared state as it is now."""
        app_name, user_id, id = self.key
        initial, state = _copy(self.initial), _copy(self.state)
        for shared in (app, user):
            if shared:
                initial.update(_copy(shared))
                state.update(_copy(shared))
        return Session.restored(
            id,
            app_name=app_name,
            user_id=user_id,
            initial=initial,
            state=state,
            events=self.events,
            last_update_time=self.last_update_time,
        )

    def after(self, growth: "Growth", written: int = 0) -> "StoredSession":
        """What is kept once the events are stored, which have `written` bytes as JSON."""
        key, number, created, initial, state, _, size, chaptered = self
        if growth.own:
            state = apply_delta(state, growth.own)
        events = growth.session.events
        return StoredSession(
            key, number, created, initial, state, events, size + written, chaptered
        )


class Growth(msgspec.Struct, frozen=True):
    """What an append comes to: the session after it, the new events, and the deltas by scope."""

    session: Session
    added: list[Event]
    own: JsonObject
    app: JsonObject
    user: JsonObject


class MemoryStore:
    """Sessions in this process; safe to share between threads and event loops.

    Sessions are values that share their events, so nothing of a log is ever copied.
    """

    def __init__(self) -> None:
        # by what a SessionKey is equal to: an append looks a session up without making one
        self._records: dict[tuple[str, str, str], StoredSession] = {}
        self._app: dict[str, JsonObject] = {}
        self._user: dict[tuple[str, str], JsonObject] = {}
        self._numbers = count(1)
        self._lock = Lock()
        self._leases = Leases()

    async def create(self, key: SessionKey, *, state: Mapping[str, Json] | None = None) -> Session:
        """A new session; one that exists is refused with a Conflict."""
        return self._insert_new(key, state, None)

    async def create_filled(
        self, key: SessionKey, events: Sequence[Event], *, state: Mapping[str, Json] | None = None
    ) -> Session:
        """A new session with these events, or none where they are refused."""
        return self._insert_new(key, state, lambda session: grow(session, events))

    def _insert_new(
        self,
        key: SessionKey,
        state: Mapping[str, Json] | None,
        fill: Callable[[Session], Growth] | None,
    ) -> Session:
        require_key(key)
        initial = require_object(state, where="session.state") if state else {}
        own, app, user = split_scopes([initial])
        with self._lock:
            if key in self._records:
                raise exists_already(key)
            record = StoredSession(key, next(self._numbers), time.time(), own, own, Strand())
            session = record.session(
                apply_delta(self._app.get(key.app_name, {}), app),
                apply_delta(self._user.get((key.app_name, key.user_id), {}), user),
            )
            # what it is filled with may be refused: before anything is stored
            growth = fill(session) if fill is not None else None
            self._records[key] = record
            self._share(key, app, user)
            if growth is None:
                return session
            self._commit(record, growth)
            return growth.session

    async def get(
        self,
        key: SessionKey,
        *,
        recent: int | None = None,
        after: float | None = None,
        skip_unreadable: bool = False,
    ) -> Session | None:
        """The session, or None."""
        with self._lock:
            record = self._records.get(key)
            if record is None:
                return None
            session = self._session(record)
        if recent is None and after is None:
            return session
        return part(session, recent=recent, after=after)

    async def append(self, session: Session, *events: Event) -> Session:
        """The session with the events stored, each id once."""
        with self._lock:
            record = self._records.get((session.app_name, session.user_id, session.id))
            if record is None:
                raise unknown_session(key_of(session))
            # the very same log: the common case needs no comparison
            if session.events is not record.events and not follows(session, record.events):
                # the same append twice is one
                if has_all(record.events, events):
                    return self._session(record)
                raise conflict(session, record.events)
            growth = grow(session, events)
            self._commit(record, growth)
            return growth.session

    async def take(self, key: SessionKey, value: Session) -> Session:
        """A new session that goes on with a session value, and shares its log."""
        return self._insert_new(key, value.initial, lambda session: measure_growth(session, value))

    async def events(
        self, key: SessionKey, *, after: int = 0, limit: int | None = None
    ) -> list[Event] | None:
        """The events after the first `after`, with their sequence numbers."""
        require_place(after, limit)
        with self._lock:
            record = self._records.get(key)
        if record is None:
            return None
        end = len(record.events) if limit is None else after + limit
        return number_events(record.events.between(after, min(end, len(record.events))), after)

    async def lengths(self, keys: Sequence[SessionKey]) -> dict[SessionKey, int]:
        """How many events the sessions have."""
        for key in keys:
            require_key(key)
        with self._lock:
            return {key: len(self._records[key].events) for key in keys if key in self._records}

    async def sessions(self, app_name: str, user_id: str | None = None) -> list[SessionInfo]:
        """The sessions of an app, or of one user of it, the latest first."""
        with self._lock:
            listed = [
                record
                for record in self._records.values()
                if record.key.app_name == app_name and user_id in (None, record.key.user_id)
            ]
        listed.sort(key=lambda record: (record.last_update_time, record.number), reverse=True)
        return [
            SessionInfo(record.key, len(record.events), record.last_update_time)
            for record in listed
        ]

    async def waiting(self, app_name: str, user_id: str | None = None) -> list[SessionKey]:
        """The sessions of an app, or of one user of it, in which calls wait."""
        with self._lock:
            listed = [*self._records.values()]
        return [
            record.key
            for record in listed
            if record.key.app_name == app_name
            and user_id in (None, record.key.user_id)
            and waiting_in(record.events)
        ]

    async def apps(self) -> list[str]:
        """The names of the apps that have sessions, sorted."""
        with self._lock:
            return sorted({record.key.app_name for record in self._records.values()})

    async def delete(self, key: SessionKey) -> None:
        """Forget a session; what its events wrote to `app:` and `user:` stays."""
        with self._lock:
            self._records.pop(key, None)

    async def erase_user(self, app_name: str, user_id: str) -> int:
        """Delete a user's sessions and state; gives how many sessions there were."""
        with self._lock:
            keys = [key for key in self._records if key[:2] == (app_name, user_id)]
            for key in keys:
                del self._records[key]
            self._user.pop((app_name, user_id), None)
            return len(keys)

    async def erase_turns(self, app_name: str, user_id: str, session_id: str | None = None) -> None:
        """Nothing to do: there is no queue in memory."""

    async def apps_of_turns(self, user_id: str) -> list[str]:
        """None: there is no queue in memory."""
        return []

    async def compact(self) -> None:
        """Nothing to do: what is deleted in memory is gone."""

    async def lease(self, key: SessionKey, *, busy: Busy, interrupt: Callable[[], None]) -> Lease:
        """The right to run the session, inside this process."""
        lease = await self._leases.acquire(key, busy=busy, interrupt=interrupt)
        lease.settle()
        return lease

    async def holder(self, key: SessionKey) -> Holder | None:
        """Who has the session now, in this process."""
        return self._leases.holder(key)

    async def changed(self, keys: Sequence[SessionKey], *, seconds: float) -> None:
        """Wait: nobody else writes to this memory, and its runs tell their readers themselves."""
        import asyncio  # slow to load, and compiling needs none

        await asyncio.sleep(seconds)

    @asynccontextmanager
    async def transaction(self, session: Session) -> AsyncGenerator[Transaction, None]:
        """Events that are stored when the block ends without an error, all or none of them."""
        transaction = _MemoryTransaction(session)
        yield transaction
        with self._lock:
            record = self._records.get(key_of(session))
            if record is None:
                raise unknown_session(key_of(session))
            if not follows(session, record.events):
                raise conflict(session, record.events)
            for growth in transaction.growths:
                record = self._commit(record, growth)

    async def close(self) -> None:
        """Nothing to close: the sessions stay as long as the store."""

    def _session(self, record: StoredSession) -> Session:
        app_name, user_id, _ = record.key
        return record.session(self._app.get(app_name, {}), self._user.get((app_name, user_id), {}))

    def _commit(self, record: StoredSession, growth: Growth) -> StoredSession:
        if not growth.added:
            return record
        self._records[record.key] = after = record.after(growth)
        if growth.app or growth.user:
            self._share(record.key, growth.app, growth.user)
        return after

    def _share(self, key: SessionKey, app: JsonObject, user: JsonObject) -> None:
        if app:
            self._app[key.app_name] = apply_delta(self._app.get(key.app_name, {}), app)
        if user:
            owner = (key.app_name, key.user_id)
            self._user[owner] = apply_delta(self._user.get(owner, {}), user)


class _MemoryTransaction:
    """The events of a transaction until it ends."""

    connection = None

    def __init__(self, session: Session) -> None:
        self._session = session
        self.growths: list[Growth] = []

    async def append(self, *events: Event) -> Session:
        """Add the events; they are stored when the transaction ends without an error."""
        growth = grow(self._session, events)
        self.growths.append(growth)
        self._session = growth.session
        return growth.session


# --- how a log grows, and which names a key may have

LONGEST_NAME = 800
"""Bytes of an app name, a user id, a session id or a shared key: what any index can hold."""


def grow(session: Session, events: Sequence[Event]) -> Growth:
    """Add the events that the session lacks, without `temp:` deltas, which are never stored."""
    log = session.events
    writes = False
    for event in events:
        if event.actions.state_delta:
            writes = True
            break
    if writes:
        events = tuple(map(without_temp_delta, events))
    after = session.append(*events)
    if after is session:
        return Growth(after, [], {}, {}, {})
    added = after.events.since(log.settled)
    if not writes:
        return Growth(after, added, {}, {}, {})
    return Growth(after, added, *split_scopes(map(_state_delta, added)))


_state_delta = attrgetter("actions.state_delta")


def measure_growth(session: Session, value: Session) -> Growth:
    """What a new session comes to that goes on with the log of a value.

    The log is shared as it is, with everything that was derived from it, unless it holds
    something that is never stored.
    """
    log, added = value.events, value.events.since(0)
    deltas: list[JsonObject] = []
    for event in added:
        delta = event.actions.state_delta
        # partial events and `temp:` keys are never stored: such a log cannot be shared as it is
        if event.partial or (delta and without_temp_delta(event) is not event):
            return grow(session, added)
        if delta:
            deltas.append(delta)
    own, app, user = split_scopes(deltas)
    after = Session.restored(
        session.id,
        app_name=session.app_name,
        user_id=session.user_id,
        initial=session.initial,
        state=apply_delta(session.state, {**own, **app, **user}),
        events=log,
        last_update_time=max([session.last_update_time, *[e.timestamp for e in added[-1:]]]),
    )
    return Growth(after, added, own, app, user)


def split_scopes(deltas: Iterable[JsonObject]) -> tuple[JsonObject, JsonObject, JsonObject]:
    """The deltas one after the other, as a copy: the session's own, the app's and the user's.

    `temp:` is nobody's.
    """
    own: JsonObject = {}
    app: JsonObject = {}
    user: JsonObject = {}
    for delta in deltas:
        for key, value in delta.items():
            scope = scope_of(key) if ":" in key else "session"
            if scope == "temp":
                continue
            if scope != "session":
                require_shared_key(key)
            home = own if scope == "session" else app if scope == "app" else user
            is_text = type(value) is str and value.isascii()  # then there is nothing to copy
            home[key] = value if is_text else require_json(value, where=f"stateDelta.{key}")
    return own, app, user


def follows(session: Session, log: Strand[Event]) -> bool:
    """Whether the session value is the newest: it has the log's events, and no others."""
    own_log = session.events
    if own_log is log:
        return True
    if len(own_log) != len(log):
        return False
    # logs only grow, so equal length and equal last event mean equal logs
    return not len(log) or own_log[-1] is log[-1] or own_log[-1] == log[-1]


def has_all(log: Strand[Event], events: Sequence[Event]) -> bool:
    """Whether the log has these very events already, perhaps made again at another time."""
    positions, length = positions_of(log), len(log)
    for event in events:
        if event.partial:
            continue
        at = positions.get(event.id, length) if event.id else length
        if at >= length:
            return False
        known = log[at]
        # a step that is repeated after a crash makes the same event at another time
        if known != replace(without_temp_delta(event), timestamp=known.timestamp):
            return False
    return True


def require_key(key: SessionKey) -> None:
    """Refuse a key that some store could not hold."""
    if key in _SOUND_KEYS:  # a turn asks several times
        return
    for name, text in zip(SessionKey._fields, key, strict=True):
        _require_name(text, f"the {name.replace('_', ' ')}", where="session key")
    # emptied, not pruned: it is a cache, and fills again
    if len(_SOUND_KEYS) >= _MOST_KEYS:
        _SOUND_KEYS.clear()
    _SOUND_KEYS.add(key)


_SOUND_KEYS: set[SessionKey] = set()

_MOST_KEYS = 10_000


def require_shared_key(key: str) -> None:
    """Refuse a key of `app:` or `user:` state that some store could not hold."""
    _require_name(key, "the state key", where="state")


def _require_name(text: str, what: str, *, where: str) -> None:
    if not isinstance(cast("object", text), str):
        wrong = f"{what} is {describe_kind(text)}, not text"
    # PostgreSQL stores no NUL, and half an emoji is not UTF-8
    elif "\0" in text or (not text.isascii() and has_lone_surrogate(text)):
        wrong = f"{what} {text!a} holds a character that cannot be stored"
    elif len(text) > LONGEST_NAME or len(text.encode()) > LONGEST_NAME:
        wrong = f"{what} is longer than {LONGEST_NAME} bytes"
    else:
        return
    raise StoreError(wrong, where=where, hint="use a short, printable name")


def _copy(state: JsonObject) -> JsonObject:
    copy = state.copy()
    for key, value in state.items():
        # other values cannot be changed in place
        if type(value) is dict or type(value) is list:
            copy[key] = _copy_value(value)
    return copy


def _copy_value(value: Json) -> Json:
    if isinstance(value, dict):
        return _copy(value)
    if isinstance(value, list):
        return [_copy_value(entry) for entry in value]
    return value


# --- leases inside one process

_CHOICES: frozenset[str] = frozenset(get_args(Busy))


class LocalLease:
    """A place in the line for one session; whoever is first holds the lease.

    `interrupt` is called once the holder has settled, so never before it knows that it holds.
    `asked` says that somebody wants it to stop.
    """

    __slots__ = (
        "_interrupt",
        "_leases",
        "_loop",
        "_settled",
        "_turn",
        "asked",
        "done",
        "key",
        "since",
    )

    def __init__(
        self,
        leases: "Leases",
        key: SessionKey,
        loop: "AbstractEventLoop",
        interrupt: Callable[[], None],
    ) -> None:
        self.key = key
        self.done = False
        self._leases = leases
        self._loop = loop
        self._interrupt = interrupt
        self._settled = False
        self.asked = False
        self.since: float | None = None
        """When it began to hold."""
        self._turn: Future[None] | None = None

    async def release(self) -> None:
        """Let the next run have the session."""
        self._leases.free(self)

    def settle(self) -> None:
        """Begin to hold: from here on the holder can be interrupted."""
        self._settled = True
        self.since = time.time()
        # somebody asked while the lock of other processes was still waited for
        if self.asked:
            self._tell()

    def ask_to_stop(self) -> None:
        """Have `interrupt` called in the holder's event loop, once; from any thread."""
        if self.asked:
            return
        self.asked = True
        if self._settled:
            self._tell()

    @property
    def is_abandoned(self) -> bool:
        """Whether the event loop is gone that was to release the lease."""
        return self._loop.is_closed()

    async def wait(self) -> None:
        """Wait for the turn; whoever gives up leaves the line."""
        if self._turn is None:
            return
        try:
            await self._turn
        except BaseException:
            # cancelled while in line: those after it must not wait for it
            self._leases.free(self)
            raise

    def line_up(self) -> None:
        """Be someone who waits."""
        self._turn = self._loop.create_future()

    def wake(self) -> bool:
        """Give the turn to the one who waits, if its event loop still runs."""
        return self._soon(self._take_turn)

    def _take_turn(self) -> None:
        if self._turn is not None and not self._turn.done():
            self._turn.set_result(None)

    def _tell(self) -> None:
        self._soon(self._stop)

    def _stop(self) -> None:
        # it may have ended between the asking and this call
        if not self.done:
            self._interrupt()

    def _soon(self, call: Callable[[], None]) -> bool:
        try:
            self._loop.call_soon_threadsafe(call)
        except RuntimeError:  # the loop is closed
            return False
        return True


class Leases:
    """Who runs which session, and who waits for it.

    `freed` is called with the key before the next one gets its turn.
    """

    def __init__(self, *, freed: Callable[[SessionKey], None] | None = None) -> None:
        self._lines: dict[SessionKey, deque[LocalLease]] = {}
        self._lock = Lock()
        self._freed = freed

    async def acquire(
        self, key: SessionKey, *, busy: Busy, interrupt: Callable[[], None]
    ) -> LocalLease:
        """The lease, as soon as it is free; the caller settles it."""
        from asyncio import get_running_loop  # asyncio is slow to load, and compiling needs none

        if busy not in _CHOICES:
            raise UsageError(
                f"`{busy}` is not a way to wait",
                where="busy",
                hint='pass "queue", "reject" or "interrupt"',
            )
        lease = LocalLease(self, key, get_running_loop(), interrupt)
        with self._lock:
            line = self._lines.get(key)
            if line is None:
                self._lines[key] = deque((lease,))
                return lease
            # its event loop ended without a release, as that of `asyncio.run` after an error
            if len(line) == 1 and line[0].is_abandoned:
                line[0].done = True
                line[0] = lease
                return lease
            if busy == "reject":
                raise busy_error(key)
            lease.line_up()
            line.append(lease)
            if busy == "interrupt":
                line[0].ask_to_stop()
        await lease.wait()
        return lease

    def holder(self, key: SessionKey) -> Holder | None:
        """Who has the session in this process."""
        with self._lock:
            line = self._lines.get(key)
            if not line or line[0].is_abandoned:
                return None
            return Holder(this_process(), line[0].since)

    def free(self, lease: LocalLease) -> None:
        """Take the lease out of its line; if it was the holder's, wake the next."""
        with self._lock:
            if lease.done:
                return
            lease.done = True
            line = self._lines[lease.key]
            if line[0] is not lease:
                line.remove(lease)
                return
            # before the next one wakes: it wants the lock that other processes respect
            if self._freed is not None:
                self._freed(lease.key)
            line.popleft()
            # whoever's loop is closed will never take its turn
            while line and not line[0].wake():
                line.popleft().done = True
            if not line:
                del self._lines[lease.key]


def this_process() -> str:
    """The name of this process among the holders of leases."""
    import socket  # slow to load, and compiling needs none

    return f"{socket.gethostname()}:{os.getpid()}"


def busy_error(key: SessionKey) -> SessionBusy:
    """The error under `busy="reject"`."""
    return SessionBusy(
        "another run has the session",
        where=str(key),
        hint='wait for it with busy="queue", or stop it with busy="interrupt"',
    )
