"""Sessions in PostgreSQL: for several machines, in the schema `weft` of any database."""

import asyncio
import time
from collections.abc import AsyncGenerator, Callable, Coroutine, Mapping, Sequence
from contextlib import asynccontextmanager, suppress

from weft.errors import StoreError, UsageError
from weft.session import Busy, Event, Lease, Session, SessionInfo, SessionKey, Transaction
from weft.session.lease import Leases, LocalLease
from weft.session.memory import (
    Growth,
    StoredSession,
    conflict,
    follows,
    grow,
    has_all,
    key_of,
    part,
    require_key,
    require_place,
    scoped,
    unknown,
)
from weft.stores import postgres_tables as tables
from weft.stores.cache import SessionCache, require_recent
from weft.stores.leases import WATCH_EVERY, Holders, inside, outwait, require_outside
from weft.stores.postgres_tables import (
    MIGRATIONS,
    Connection,
    DriverError,
    Migration,
    Stale,
    explaining,
    place,
)
from weft.values import Json, require_object


class PostgresStore:
    """Sessions in the database at `url`, whose tables are made if they do not exist.

    The store connects with its first use, with up to `connections` at once and one more for the
    leases. It belongs to the event loop that uses it; when that has ended, another may.
    """

    def __init__(self, url: str, *, connections: int = 8) -> None:
        self.url = url
        self._place = place(url)
        self._connections = connections
        self._server: ConnectionPool | None = None
        self._leases = ServerLeases()
        self._cache = SessionCache(in_use=self._leases.holds)

    async def create(self, key: SessionKey, *, state: Mapping[str, Json] | None = None) -> Session:
        """A new session; one that exists is refused with a Conflict."""
        require_key(key)
        own, app, user = scoped([require_object(state or {}, where="session.state")])
        async with self._connection(writing=True) as connection:
            async with connection.transaction():
                await tables.insert_session(connection, key, time.time(), own)
                await tables.share(connection, key, app, user)
            _, session = await self.read_newest(connection, key)
            return session

    async def get(
        self,
        key: SessionKey,
        *,
        recent: int | None = None,
        after: float | None = None,
        skip_unreadable: bool = False,
    ) -> Session | None:
        """The session, or None; an event that is damaged is an error, or left out with a warning.

        A session with events left out is for reading: appending to it is a Conflict.
        """
        require_key(key)
        require_recent(recent)
        # a cached session is caught up, not read in part: the next run wants all of it
        in_part = recent is not None or after is not None
        if in_part and not skip_unreadable and self._cache.get(key) is None:
            async with self._connection() as connection:
                newest = await tables.read_part(connection, key, recent=recent, after=after)
            if newest is not None:
                return newest
        async with self._connection() as connection:
            newest_and_shared = await tables.read_newest(
                connection, key, self._cache, skip_unreadable=skip_unreadable
            )
        if newest_and_shared is None:
            return None
        stored, app, user = newest_and_shared
        if not skip_unreadable:
            self._cache.put(stored)
        return part(stored.session(app, user), recent=recent, after=after)

    async def append(self, session: Session, *events: Event) -> Session:
        """The session with the events stored: atomically, durably, each id once."""
        key = key_of(session)
        async with self._connection(writing=True) as connection:
            stored = self._cache.get(key)
            if stored is None or not follows(session, stored.events):
                stored, now = await self.read_newest(connection, key)
                if not follows(session, stored.events):
                    if has_all(stored.events, events):
                        return now
                    raise conflict(session, stored.events)
            growth = grow(session, events)
            if not growth.added:
                return session
            try:
                after, asked = await _insert(connection, stored, growth)
            except Stale:
                stored, now = await self.read_newest(connection, key)
                if has_all(stored.events, events):
                    return now
                raise conflict(session, stored.events) from None
        self._cache.put(after)
        if asked is not None:
            self._leases.stop([(key, asked)])
        return growth.session

    async def events(
        self, key: SessionKey, *, after: int = 0, limit: int | None = None
    ) -> list[Event] | None:
        """The events behind the first `after`, with their sequence numbers."""
        require_key(key)
        require_place(after, limit)
        async with self._connection() as connection:
            return await tables.read_events(connection, key, after, limit)

    async def lengths(self, keys: Sequence[SessionKey]) -> dict[SessionKey, int]:
        """How many events the sessions have."""
        async with self._connection() as connection:
            return await tables.count_events(connection, keys)

    async def sessions(self, app_name: str, user_id: str | None = None) -> list[SessionInfo]:
        """The sessions of an app, or of one user of it, the latest first."""
        async with self._connection() as connection:
            return await tables.list_sessions(connection, app_name, user_id)

    async def apps(self) -> list[str]:
        """The names of the apps that have sessions, sorted."""
        async with self._connection() as connection:
            return await tables.list_apps(connection)

    async def delete(self, key: SessionKey) -> None:
        """Forget a session; what its events wrote to `app:` and `user:` stays."""
        require_key(key)
        async with self._connection(writing=True) as connection:
            await tables.delete_session(connection, key)
        self._cache.drop(key)

    async def lease(self, key: SessionKey, *, busy: Busy, interrupt: Callable[[], None]) -> Lease:
        """The right to run the session, across all processes that use the database."""
        require_key(key)
        async with explaining(self.url):
            return await self._leases.lease(
                await self._current(), key, busy=busy, interrupt=interrupt
            )

    @asynccontextmanager
    async def transaction(self, session: Session) -> AsyncGenerator[Transaction, None]:
        """A transaction of the database.

        `connection` is the psycopg connection. The store commits; the connection refuses to.
        """
        self._require_outside()
        server = await self._current()
        async with server.connection() as connection:
            scope = connection.transaction()
            async with explaining(self.url):
                await scope.__aenter__()
            transaction = _PostgresTransaction(self, connection, session)
            try:
                with inside(self):
                    yield transaction
                self._require_sound(connection)
            except BaseException as error:
                await scope.__aexit__(type(error), error, error.__traceback__)
                raise
            async with explaining(self.url):
                await scope.__aexit__(None, None, None)
        if transaction.stored is not None:
            self._cache.put(transaction.stored)

    async def close(self) -> None:
        """Close all connections; the next use connects again."""
        self._require_outside()
        server, self._server = self._server, None
        self._cache = SessionCache(in_use=self._leases.holds)
        self._leases.forget()
        if server is not None:
            await server.close()

    async def read_newest(
        self, connection: Connection, key: SessionKey
    ) -> tuple[StoredSession, Session]:
        """The session as the database has it: for the cache, and as a value."""
        newest_and_shared = await tables.read_newest(connection, key, self._cache)
        if newest_and_shared is None:
            raise unknown(key)
        stored, app, user = newest_and_shared
        return stored, stored.session(app, user)

    @asynccontextmanager
    async def _connection(self, *, writing: bool = False) -> AsyncGenerator[Connection, None]:
        if writing:
            self._require_outside()
        async with explaining(self.url), (await self._current()).connection() as connection:
            yield connection

    async def _current(self) -> "ConnectionPool":
        """The connections of the running event loop."""
        server, loop = self._server, asyncio.get_running_loop()
        if server is not None and server.loop is not loop:
            if server.loop.is_running():
                raise UsageError(
                    "the store is in use in another event loop",
                    where=self._place,
                    hint="make one PostgresStore for each event loop",
                )
            await self.close()
            server = None
        if server is None:
            server = self._server = ConnectionPool(self.url, self._connections)
        return server

    def _require_outside(self) -> None:
        require_outside(self, where=self._place)

    def _require_sound(self, connection: Connection) -> None:
        if tables.has_failed(connection):
            raise StoreError(
                "a statement in the transaction failed, so nothing of it is stored",
                where=self._place,
                hint="let its error leave the block, or try the statement in a savepoint",
            )


class _PostgresTransaction:
    """A transaction of the database, and the session as it is inside."""

    def __init__(self, store: PostgresStore, connection: Connection, session: Session) -> None:
        self.stored: StoredSession | None = None
        self._store = store
        self._connection = connection
        self._session = session

    @property
    def connection(self) -> Connection:
        """The connection, inside the transaction."""
        return self._connection

    async def append(self, *events: Event) -> Session:
        """Add the events; they are stored when the transaction ends without an error."""
        async with explaining(self._store.url), self._connection.transaction():
            stored = self.stored
            if stored is None:
                stored, _ = await self._store.read_newest(self._connection, key_of(self._session))
            if not follows(self._session, stored.events):
                raise conflict(self._session, stored.events)
            growth = grow(self._session, events)
            if growth.added:
                try:
                    stored, _ = await tables.insert_events(self._connection, stored, growth)
                except Stale:
                    raise conflict(self._session, stored.events) from None
        self.stored, self._session = stored, growth.session
        return self._session


async def _insert(
    connection: Connection, stored: StoredSession, growth: Growth
) -> tuple[StoredSession, float | None]:
    """Insert the events; a single statement needs no transaction around it."""
    if len(growth.added) == 1 and not growth.app and not growth.user:
        return await tables.insert_events(connection, stored, growth)
    async with connection.transaction():
        return await tables.insert_events(connection, stored, growth)


class ConnectionPool:
    """The connections of one event loop: some to work with, and one that holds the leases.

    A connection that broke takes the idle ones with it: they broke as well. The next use
    connects again.
    """

    def __init__(self, url: str, size: int, migrations: Sequence[Migration] = MIGRATIONS) -> None:
        self.loop = asyncio.get_running_loop()
        self._url = url
        self._migrations = migrations
        self._room = asyncio.Semaphore(size)
        self._idle: list[Connection] = []
        self._leasing: Connection | None = None
        self._lock = asyncio.Lock()
        self._migrated = False

    @asynccontextmanager
    async def connection(self) -> AsyncGenerator[Connection, None]:
        """A connection for one piece of work; it commits each statement, or use `transaction`."""
        async with self._room:
            connection = self._idle.pop() if self._idle else await self.connect()
            try:
                yield connection
            except Exception:
                if connection.closed:
                    await self._close_idle()
                else:
                    self._idle.append(connection)
                raise
            except BaseException:
                await connection.close()
                raise
            self._idle.append(connection)

    async def leasing(self) -> Connection:
        """The connection whose locks are the leases of this process."""
        async with self._lock:
            if self._leasing is None or self._leasing.closed:
                self._leasing = await self.connect()
            return self._leasing

    async def connect(self) -> Connection:
        """A new connection, to tables that are there and up to date."""
        async with explaining(self._url):
            connection = await tables.connect(self._url)
            try:
                if not self._migrated:
                    await tables.migrate(connection, self._migrations, where=place(self._url))
            except BaseException:
                await connection.close()
                raise
        self._migrated = True
        return connection

    async def close(self) -> None:
        """Close all connections."""
        await self._close_idle()
        if self._leasing is not None:
            await self._leasing.close()
            self._leasing = None

    async def _close_idle(self) -> None:
        while self._idle:
            await self._idle.pop().close()


class ServerLeases:
    """The leases that a store holds, and the task that watches for those who want them."""

    def __init__(self) -> None:
        self._line = Leases()
        self._holders = Holders()
        self._locked_by: Connection | None = None
        self._watching: asyncio.Task[None] | None = None

    async def lease(
        self,
        server: "ConnectionPool",
        key: SessionKey,
        *,
        busy: Busy,
        interrupt: Callable[[], None],
    ) -> Lease:
        """The right to run the session, across all processes that use the database."""
        local = await self._line.acquire(key, busy=busy, interrupt=interrupt)
        lease = _ServerLease(lambda: self._unlock(local))

        async def take() -> bool:
            connection = await self._leasing(server)
            since = await tables.lock(connection, key)
            if since is not None:
                self._holders.add(local, since)
            return since is not None

        async def ask() -> None:
            async with server.connection() as connection:
                await tables.insert_request(connection, key)

        async def withdraw() -> None:
            async with server.connection() as connection:
                await tables.delete_request(connection, key)

        try:
            await outwait(
                key, busy, take=take, wanted=lambda: local.asked, ask=ask, withdraw=withdraw
            )
        except BaseException:
            await lease.release()
            raise
        local.settle()
        if self._watching is None or self._watching.done():
            self._watching = asyncio.create_task(self._watch(server))
        return lease

    def holds(self, key: SessionKey) -> bool:
        """Whether this store holds that lease."""
        return key in self._holders

    def stop(self, asked: Sequence[tuple[SessionKey, float]]) -> None:
        """Interrupt the holders whom somebody has asked to stop since they hold."""
        self._holders.stop(asked)

    def forget(self) -> None:
        """Hold nothing any more: the connection is about to close."""
        self._holders.clear()
        self._locked_by = None
        if self._watching is not None and not self._watching.get_loop().is_closed():
            self._watching.cancel()
        self._watching = None

    async def _unlock(self, local: LocalLease) -> None:
        self._holders.remove(local.key)
        try:
            if self._locked_by is not None and not self._locked_by.closed:
                with suppress(DriverError):  # it broke, and the lock is gone with it
                    await tables.unlock(self._locked_by, local.key)
        finally:
            await local.release()
            if not self._holders and self._watching is not None:
                self._watching.cancel()
                self._watching = None

    async def _watch(self, server: ConnectionPool) -> None:
        while True:
            await asyncio.sleep(WATCH_EVERY)
            with suppress(StoreError, DriverError):  # the next look may do better
                self.stop(await tables.list_requests(await self._leasing(server)))

    async def _leasing(self, server: ConnectionPool) -> Connection:
        """The connection that holds the locks; a new one takes again what the old one held.

        Where somebody was faster, the holder has lost its lease and is told to stop.
        """
        connection = await server.leasing()
        if connection is not self._locked_by:
            self._locked_by = connection
            for lease in self._holders.all():
                since = await tables.lock(connection, lease.key)
                if since is None:
                    lease.ask_to_stop()
                else:
                    self._holders.add(lease, since)
        return connection


class _ServerLease:
    """A lease that is given back once, to the server and to the next in line."""

    def __init__(self, unlock: Callable[[], Coroutine[object, object, None]]) -> None:
        self._unlock = unlock
        self._released = False

    async def release(self) -> None:
        """Let the next run have the session, even if the caller is cancelled meanwhile."""
        if not self._released:
            self._released = True
            await asyncio.shield(asyncio.create_task(self._unlock()))
