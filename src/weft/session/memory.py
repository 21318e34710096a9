"""A store in memory: for tests, for scripts, and for whatever need not outlive the process."""

import time
from collections.abc import AsyncGenerator, Callable, Mapping
from contextlib import asynccontextmanager
from itertools import count
from threading import Lock

from weft.session.event import Event
from weft.session.kept import (
    Growth,
    Kept,
    conflict,
    exists_already,
    follows,
    grow,
    has_all,
    key_of,
    part,
    require_key,
    scoped,
    taken,
    unknown,
)
from weft.session.lease import Leases
from weft.session.log import Session
from weft.session.state import apply_delta
from weft.session.store import Busy, Lease, SessionInfo, SessionKey, Transaction
from weft.values import Json, JsonObject, Strand, require_object


class MemoryStore:
    """Sessions in this process; safe to share between threads and event loops.

    Sessions are values that share their events, so nothing of a log is ever copied.
    """

    def __init__(self) -> None:
        self._kept: dict[SessionKey, Kept] = {}
        self._app: dict[str, JsonObject] = {}
        self._user: dict[tuple[str, str], JsonObject] = {}
        self._numbers = count(1)
        self._lock = Lock()
        self._leases = Leases()

    async def create(self, key: SessionKey, *, state: Mapping[str, Json] | None = None) -> Session:
        """A new session; one that exists is refused with a Conflict."""
        require_key(key)
        own, app, user = scoped([require_object(state or {}, where="session.state")])
        with self._lock:
            if key in self._kept:
                raise exists_already(key)
            kept = Kept(key, next(self._numbers), time.time(), own, own, Strand())
            self._kept[key] = kept
            self._share(key, app, user)
            return self._session(kept)

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
            kept = self._kept.get(key)
            if kept is None:
                return None
            session = self._session(kept)
        if recent is None and after is None:
            return session
        return part(session, recent=recent, after=after)

    async def append(self, session: Session, *events: Event) -> Session:
        """The session with the events stored, each id once."""
        key = key_of(session)
        with self._lock:
            kept = self._kept.get(key)
            if kept is None:
                raise unknown(key)
            if not follows(session, kept.events):
                if has_all(kept.events, events):
                    return self._session(kept)
                raise conflict(session, kept.events)
            growth = grow(session, events)
            self._commit(kept, growth)
            return growth.session

    async def take(self, key: SessionKey, value: Session) -> Session:
        """A new session that goes on with a session value, and shares its log."""
        session = await self.create(key, state=value.initial)
        with self._lock:
            growth = taken(session, value)
            self._commit(self._kept[key], growth)
            return growth.session

    async def sessions(self, app_name: str, user_id: str | None = None) -> list[SessionInfo]:
        """The sessions of an app, or of one user of it, the latest first."""
        with self._lock:
            found = [
                kept
                for key, kept in self._kept.items()
                if key.app_name == app_name and user_id in (None, key.user_id)
            ]
        found.sort(key=lambda kept: (kept.last_update_time, kept.number), reverse=True)
        return [SessionInfo(kept.key, len(kept.events), kept.last_update_time) for kept in found]

    async def apps(self) -> list[str]:
        """The names of the apps that have sessions, sorted."""
        with self._lock:
            return sorted({key.app_name for key in self._kept})

    async def delete(self, key: SessionKey) -> None:
        """Forget a session; what its events wrote to `app:` and `user:` stays."""
        with self._lock:
            self._kept.pop(key, None)

    async def lease(self, key: SessionKey, *, busy: Busy, interrupt: Callable[[], None]) -> Lease:
        """The right to run the session, inside this process."""
        lease = await self._leases.acquire(key, busy=busy, interrupt=interrupt)
        lease.settle()
        return lease

    @asynccontextmanager
    async def transaction(self, session: Session) -> AsyncGenerator[Transaction, None]:
        """Events that are stored when the block ends without an error, all or none of them."""
        transaction = _MemoryTransaction(session)
        yield transaction
        with self._lock:
            kept = self._kept.get(key_of(session))
            if kept is None:
                raise unknown(key_of(session))
            if not follows(session, kept.events):
                raise conflict(session, kept.events)
            for growth in transaction.growths:
                kept = self._commit(kept, growth)

    async def close(self) -> None:
        """Nothing to close: the sessions stay as long as the store."""

    def _session(self, kept: Kept) -> Session:
        app_name, user_id, _ = kept.key
        return kept.session(self._app.get(app_name, {}), self._user.get((app_name, user_id), {}))

    def _commit(self, kept: Kept, growth: Growth) -> Kept:
        if not growth.added:
            return kept
        self._kept[kept.key] = after = kept.after(growth)
        self._share(kept.key, growth.app, growth.user)
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
