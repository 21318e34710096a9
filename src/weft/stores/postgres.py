"""Sessions in PostgreSQL: for several machines, in the schema `weft` of any database."""

import asyncio
import time
from collections.abc import AsyncGenerator, Callable, Mapping
from contextlib import asynccontextmanager

from weft.errors import StoreError, UsageError
from weft.session import Busy, Event, Lease, Session, SessionInfo, SessionKey, Transaction
from weft.session.kept import (
    Growth,
    Kept,
    conflict,
    follows,
    grow,
    has_all,
    key_of,
    part,
    require_key,
    scoped,
    unknown,
)
from weft.stores import postgres_rows
from weft.stores.cache import Cache
from weft.stores.inside import inside, require_outside
from weft.stores.postgres_lease import ServerLeases
from weft.stores.postgres_server import Connection, Server, explaining, place, psycopg
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
        self._cache = Cache()
        self._server: Server | None = None
        self._leases = ServerLeases()

    async def create(self, key: SessionKey, *, state: Mapping[str, Json] | None = None) -> Session:
        """A new session; one that exists is refused with a Conflict."""
        require_key(key)
        own, app, user = scoped([require_object(state or {}, where="session.state")])
        async with self._connection(writing=True) as connection:
            async with connection.transaction():
                await postgres_rows.insert_session(connection, key, time.time(), own)
                await postgres_rows.share(connection, key, app, user)
            _, session = await self.newest(connection, key)
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
        async with self._connection() as connection:
            found = await postgres_rows.newest(
                connection, key, self._cache, skip_unreadable=skip_unreadable
            )
        if found is None:
            return None
        kept, app, user = found
        if not skip_unreadable:
            self._cache.put(kept)
        session = kept.session(app, user)
        if recent is None and after is None:
            return session
        return part(session, recent=recent, after=after)

    async def append(self, session: Session, *events: Event) -> Session:
        """The session with the events stored: atomically, durably, each id once."""
        key = key_of(session)
        async with self._connection(writing=True) as connection:
            kept = self._cache.get(key)
            if kept is None or not follows(session, kept.events):
                kept, now = await self.newest(connection, key)
                if not follows(session, kept.events):
                    if has_all(kept.events, events):
                        return now
                    raise conflict(session, kept.events)
            growth = grow(session, events)
            if not growth.added:
                return session
            try:
                asked = await _insert(connection, kept, growth)
            except postgres_rows.Stale:
                kept, now = await self.newest(connection, key)
                if has_all(kept.events, events):
                    return now
                raise conflict(session, kept.events) from None
        self._cache.put(kept.after(growth))
        if asked is not None:
            self._leases.stop([(key, asked)])
        return growth.session

    async def sessions(self, app_name: str, user_id: str | None = None) -> list[SessionInfo]:
        """The sessions of an app, or of one user of it, the latest first."""
        async with self._connection() as connection:
            return await postgres_rows.listed(connection, app_name, user_id)

    async def apps(self) -> list[str]:
        """The names of the apps that have sessions, sorted."""
        async with self._connection() as connection:
            return await postgres_rows.apps(connection)

    async def delete(self, key: SessionKey) -> None:
        """Forget a session; what its events wrote to `app:` and `user:` stays."""
        require_key(key)
        async with self._connection(writing=True) as connection:
            await postgres_rows.remove(connection, key)
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
        if transaction.kept is not None:
            self._cache.put(transaction.kept)

    async def close(self) -> None:
        """Close all connections; the next use connects again."""
        self._require_outside()
        server, self._server = self._server, None
        self._cache = Cache()
        self._leases.forget()
        if server is not None:
            await server.close()

    async def newest(self, connection: Connection, key: SessionKey) -> tuple[Kept, Session]:
        """The session as the database has it, kept and as a value."""
        found = await postgres_rows.newest(connection, key, self._cache)
        if found is None:
            raise unknown(key)
        kept, app, user = found
        return kept, kept.session(app, user)

    @asynccontextmanager
    async def _connection(self, *, writing: bool = False) -> AsyncGenerator[Connection, None]:
        if writing:
            self._require_outside()
        async with explaining(self.url), (await self._current()).connection() as connection:
            yield connection

    async def _current(self) -> Server:
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
            server = self._server = Server(self.url, self._connections)
        return server

    def _require_outside(self) -> None:
        require_outside(self, where=self._place)

    def _require_sound(self, connection: Connection) -> None:
        if connection.info.transaction_status == psycopg.pq.TransactionStatus.INERROR:
            raise StoreError(
                "a statement in the transaction failed, so nothing of it is stored",
                where=self._place,
                hint="let its error leave the block, or try the statement in a savepoint",
            )


class _PostgresTransaction:
    """A transaction of the database, and the session as it is inside."""

    def __init__(self, store: PostgresStore, connection: Connection, session: Session) -> None:
        self.kept: Kept | None = None
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
            kept = self.kept
            if kept is None:
                kept, _ = await self._store.newest(self._connection, key_of(self._session))
            if not follows(self._session, kept.events):
                raise conflict(self._session, kept.events)
            growth = grow(self._session, events)
            if growth.added:
                try:
                    await postgres_rows.insert_events(self._connection, kept, growth)
                except postgres_rows.Stale:
                    raise conflict(self._session, kept.events) from None
        self.kept, self._session = kept.after(growth), growth.session
        return self._session


async def _insert(connection: Connection, kept: Kept, growth: Growth) -> float | None:
    """Insert the events; a single statement needs no transaction around it."""
    if len(growth.added) == 1 and not growth.app and not growth.user:
        return await postgres_rows.insert_events(connection, kept, growth)
    async with connection.transaction():
        return await postgres_rows.insert_events(connection, kept, growth)
