"""Sessions in PostgreSQL: for several machines, in the schema `weft` of any database.

Top to bottom: the store, its transaction.
"""

import asyncio
import time
from collections.abc import AsyncGenerator, Callable, Mapping, Sequence
from contextlib import asynccontextmanager
from typing import TypeVar

from weft.errors import Conflict, StoreError, UsageError
from weft.session import Busy, Event, Holder, Lease, Session, SessionInfo, SessionKey, Transaction
from weft.session.memory import (
    Growth,
    StoredSession,
    follows,
    grow,
    has_all,
    require_key,
    split_scopes,
)
from weft.session.store import Count, conflict, key_of, part, require_place, unknown_session
from weft.session.strand import Strand
from weft.stores import postgres_tables as tables
from weft.stores.cache import SessionCache, require_recent
from weft.stores.leases import inside, new_worker, require_outside
from weft.stores.postgres_batch import (
    Batches,
    Look,
    NewEvent,
    append_events,
    insert_events,
    new_event,
)
from weft.stores.postgres_processes import News, ServerCarrier, ServerLeases
from weft.stores.postgres_server import (
    Connection,
    ConnectionPool,
    DatabaseAddress,
    explaining,
    has_failed,
    place,
    read_address,
    server_gone,
)
from weft.stores.postgres_tables import SERVER_SQL, Stale, run_steps
from weft.stores.relay import Relay
from weft.stores.rows import StateReader
from weft.stores.statements import Steps
from weft.stores.steps import (
    ChapterWriter,
    count_events,
    delete_session,
    erase_turns,
    erase_user,
    insert_session,
    list_apps,
    list_queues,
    list_sessions,
    list_turn_apps,
    list_waiting,
    read_events,
    read_part,
    share,
)
from weft.values import Json, require_object

T = TypeVar("T")

_TIDY_EVERY = 60.0
"""Seconds between two times that tallies which are over are forgotten."""

_AT_ONCE = 2
"""How many statements with appends are on their way at once, each for many sessions."""


class PostgresStore:
    """Sessions in the database at `url`, whose tables are made if they do not exist.

    The store connects with its first use, with up to `connections` at once, one more for the
    leases and, while a session of another process is followed, one to listen. It belongs to the
    event loop that uses it; when that has ended, another may. This store takes a session that it
    waits for from a process that has been silent for `lease_timeout` seconds. Both stand in the
    address, unless they are passed: `?weft_connections=4&weft_lease_timeout=60`.
    """

    def __init__(
        self, url: str, *, connections: int | None = None, lease_timeout: float | None = None
    ) -> None:
        self._address = read_address(url)
        if connections is not None:
            self._address = self._address._replace(connections=connections)
        if lease_timeout is not None:
            self._address = self._address._replace(lease_timeout=lease_timeout)
        self.url = self._address.url
        self.worker = new_worker()
        """The name of this store object among the holders of leases."""
        self._place = place(self.url)
        self._server: ConnectionPool | None = None
        self._leases = ServerLeases(self.worker, self._address.lease_timeout)
        self._news = News(self.worker)
        self.relay = Relay(ServerCarrier(self.url, self._news, self._current))
        """What takes partial events to those who follow a session in another process."""
        self._cache = SessionCache(in_use=self._leases.holds)
        self._appends = Batches(self._append_batch, at_once=_AT_ONCE, stops=True)
        self._chapters = ChapterWriter(self._run_steps, SERVER_SQL)
        self._tidied: float | None = None
        """When tallies that are over were forgotten; None: their table may not be there."""

    @property
    def address(self) -> DatabaseAddress:
        """Where the database is, and how Weft uses it."""
        return self._address

    async def create(self, key: SessionKey, *, state: Mapping[str, Json] | None = None) -> Session:
        """A new session; one that exists is refused with a Conflict."""
        require_key(key)
        own, app, user = split_scopes([require_object(state or {}, where="session.state")])
        async with self._connection(writing=True) as connection:
            if app or user:
                async with connection.transaction():
                    await run_steps(connection, insert_session(SERVER_SQL, key, time.time(), own))
                    await run_steps(connection, share(SERVER_SQL, key, app, user))
            else:  # one statement needs no transaction around it
                await run_steps(connection, insert_session(SERVER_SQL, key, time.time(), own))
            stored, session = await self.read_newest(connection, key)
        self._cache.put(stored)
        return session

    async def create_filled(
        self, key: SessionKey, events: Sequence[Event], *, state: Mapping[str, Json] | None = None
    ) -> Session:
        """A new session with these events, in one transaction: no kill leaves it without them."""
        require_key(key)
        own, app, user = split_scopes([require_object(state or {}, where="session.state")])
        # what is wrong with the events is said before anything is sent
        growth = grow(Session(key.id, app_name=key.app_name, user_id=key.user_id), events)
        self._leases.look(key)  # it is about to be of the past

        async def insert() -> tuple[StoredSession, Session]:
            async with self._connection(writing=True) as connection:
                async with connection.transaction():
                    empty = await run_steps(
                        connection, insert_session(SERVER_SQL, key, time.time(), own)
                    )
                    await run_steps(connection, share(SERVER_SQL, key, app, user))
                    fence = self._leases.fence(key)
                    stored, _ = await insert_events(connection, empty, growth, fence)
                self._cache.put(stored)
                return await self.read_newest(connection, key)

        while True:
            try:
                stored, session = await insert()
                break
            except Stale:
                # a server that restarted forgot the lease: once it is ours again, the write is too
                if not await self._leases.require(await self._current(), key):
                    raise conflict(growth.session, Strand()) from None
        self._cache.put(stored)
        self._chapters.look_at(stored, self._cache)
        self._news.tell(await self._current(), key)
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
        if not skip_unreadable and recent is None and after is None:
            look, cached = self._leases.look(key), self._cache.get(key)
            # the lease was taken just now, and there was no session: nobody else can have made one
            if look is not None and not look.number:
                return None
            # taking the lease told how long the log is: no second round trip
            if look is not None and cached is not None and _is_newest(cached, look):
                reader = StateReader(key)
                app, user = (
                    reader.shared_state(key[:1], look.app),
                    reader.shared_state(key[:2], look.user),
                )
                return cached.session(app, user)
        # a cached session is caught up, not read in part: the next run wants all of it
        in_part = recent is not None or after is not None
        if in_part and not skip_unreadable and self._cache.get(key) is None:
            async with self._connection() as connection, connection.transaction():
                # all statements see one state of the database
                await connection.execute(
                    "SET TRANSACTION ISOLATION LEVEL REPEATABLE READ, READ ONLY"
                )
                steps = read_part(SERVER_SQL, key, recent=recent, after=after)
                newest = await run_steps(connection, steps)
            if newest is not None:
                return newest
        async with self._connection() as connection:
            newest_and_shared = await tables.read_newest(
                connection, key, self._cache, self.url, skip_unreadable=skip_unreadable
            )
        if newest_and_shared is None:
            return None
        stored, app, user = newest_and_shared
        if not skip_unreadable:
            self._cache.put(stored)
            self._chapters.look_at(stored, self._cache)
        return part(stored.session(app, user), recent=recent, after=after)

    async def append(self, session: Session, *events: Event) -> Session:
        """The session with the events stored: atomically, durably, each id once."""
        try:
            return await self._append(session, events)
        except Conflict:
            raise
        except StoreError:
            key = key_of(session)
            if self._leases.fence(key) is not None:  # whoever took the session cut us off
                await self._leases.require(await self._current(), key)
            raise

    async def _append(self, session: Session, events: Sequence[Event]) -> Session:
        self._require_outside()
        key = key_of(session)
        self._leases.look(key)  # it is about to be of the past
        stored = self._cache.get(key)
        if stored is None or not follows(session, stored.events):
            async with self._connection(writing=True) as connection:
                stored, now = await self.read_newest(connection, key)
            if not follows(session, stored.events):
                if has_all(stored.events, events):
                    # the same append came twice, as after a broken connection: it is stored once
                    return now
                raise conflict(session, stored.events)
        growth = grow(session, events)
        if not growth.added:
            return session
        try:
            after, asked = await self._insert_fenced(stored, growth)
        except Stale:
            # another writer was faster, or this very append got through before its answer was lost
            async with self._connection(writing=True) as connection:
                stored, now = await self.read_newest(connection, key)
            if has_all(stored.events, events):
                return now
            raise conflict(session, stored.events) from None
        self._cache.put(after)
        self._chapters.look_at(after, self._cache)
        # followers in other processes read the new events at once
        self._news.tell(await self._current(), key)
        if asked is not None:
            # the insert tells whether somebody asked to stop, sooner than the next look
            self._leases.stop([(key, asked)])
        return growth.session

    async def _insert_fenced(
        self, stored: StoredSession, growth: Growth
    ) -> tuple[StoredSession, float | None]:
        """Insert the events of a run that still has its lease; without one, if they fit."""
        fence = self._leases.fence(stored.key)
        try:
            return await self._insert(stored, growth, fence)
        except Stale:
            # a server that restarted forgot the lease: once it is ours again, the write is too
            if fence is None or not await self._leases.require(await self._current(), stored.key):
                raise
            return await self._insert(stored, growth, fence)

    async def _insert(
        self, stored: StoredSession, growth: Growth, fence: str | None
    ) -> tuple[StoredSession, float | None]:
        """Insert the events: one that shares nothing goes with those of other sessions."""
        # several rows must be stored together, so they need a transaction of their own
        if len(growth.added) > 1 or growth.app or growth.user:
            async with self._connection(writing=True) as connection, connection.transaction():
                return await insert_events(connection, stored, growth, fence)
        (event,) = growth.added
        new, size = new_event(stored, 0, event, fence)
        # in a new event loop the store gets new batches here
        await self._current()
        async with explaining(self.url):
            asked = await self._appends.put(new)
        return stored.after(growth, size), asked

    async def _append_batch(self, events: Sequence[NewEvent]) -> list[float | Exception | None]:
        async with (await self._current()).connection() as connection:
            return await append_events(connection, events)

    async def events(
        self, key: SessionKey, *, after: int = 0, limit: int | None = None
    ) -> list[Event] | None:
        """The events after the first `after`, with their sequence numbers."""
        require_key(key)
        require_place(after, limit)
        async with self._connection() as connection:
            return await run_steps(connection, read_events(SERVER_SQL, key, after, limit))

    async def lengths(self, keys: Sequence[SessionKey]) -> dict[SessionKey, int]:
        """How many events the sessions have."""
        for key in keys:
            require_key(key)
        async with self._connection() as connection:
            return await run_steps(connection, count_events(SERVER_SQL, keys))

    async def sessions(self, app_name: str, user_id: str | None = None) -> list[SessionInfo]:
        """The sessions of an app, or of one user of it, the latest first."""
        async with self._connection() as connection:
            return await run_steps(connection, list_sessions(SERVER_SQL, app_name, user_id))

    async def waiting(self, app_name: str, user_id: str | None = None) -> list[SessionKey]:
        """The sessions of an app, or of one user of it, in which calls may wait."""
        async with self._connection() as connection:
            return await run_steps(connection, list_waiting(SERVER_SQL, app_name, user_id))

    async def apps(self) -> list[str]:
        """The names of the apps that have sessions, sorted."""
        async with self._connection() as connection:
            return await run_steps(connection, list_apps(SERVER_SQL))

    async def delete(self, key: SessionKey) -> None:
        """Forget a session; what its events wrote to `app:` and `user:` stays."""
        require_key(key)
        async with self._connection(writing=True) as connection, connection.transaction():
            # else a worker takes a queued turn and makes the session anew
            await run_steps(connection, delete_session(SERVER_SQL, key, tables.with_lock(key)))
        self._cache.drop(key)

    async def archive(
        self, key: SessionKey, *, keep_recent: int = 1_000, before: float | None = None
    ) -> int:
        """Pack the older events of a session; nobody who reads it notices. Gives how many.

        The newest `keep_recent` stay as they are, and so does what is not older than the time
        `before`. Each chapter is one transaction: whatever ends this ends it between two.
        """
        require_key(key)
        return await self._chapters.archive(key, self._cache, keep_recent, before)

    async def _run_steps(self, begin: Callable[[], Steps[T]]) -> T:
        async with self._connection(writing=True) as connection, connection.transaction():
            return await run_steps(connection, begin())

    async def erase_user(self, app_name: str, user_id: str) -> int:
        """Delete a user's sessions, state and queued turns; gives how many sessions there were."""
        require_key(SessionKey(app_name, user_id, "s"))
        async with self._connection(writing=True) as connection, connection.transaction():
            count = await run_steps(connection, erase_user(SERVER_SQL, app_name, user_id))
        self._cache.drop_user(app_name, user_id)
        return count

    async def erase_turns(self, app_name: str, user_id: str, session_id: str | None = None) -> None:
        """Delete the turns of a user, or of a session, from all queues: none is taken any more."""
        require_key(SessionKey(app_name, user_id, "s" if session_id is None else session_id))
        async with self._connection(writing=True) as connection, connection.transaction():
            steps = erase_turns(SERVER_SQL, app_name, user_id, session_id)
            await run_steps(connection, steps)

    async def apps_of_turns(self, user_id: str) -> list[str]:
        """The apps for which a user has turns in a queue, sorted."""
        async with self._connection() as connection:
            return await run_steps(connection, list_turn_apps(SERVER_SQL, user_id))

    async def tally(self, names: Sequence[str], count: Count, *, beside: str = "") -> None:
        """Change what processes count together under these names, while no other does."""
        async with self._connection(writing=True) as connection:
            if self._tidied is None:
                await tables.make_tallies(connection)
            now = await tables.tally(connection, names, count, beside)
            if self._tidied is None or not 0 <= now - self._tidied < _TIDY_EVERY:
                self._tidied = now
                await tables.forget_tallies(connection, now)

    async def compact(self) -> None:
        """Write the tables anew, so that nothing deleted is in their files; others wait meanwhile.

        The server's own log and its backups are the server's: they are not touched.
        """
        async with self._connection(writing=True) as connection:
            own = [
                f"weft.{table}"
                for table in ("sessions", "events", "chapters", "user_state", "interrupts")
            ]
            for table in (*own, *await run_steps(connection, list_queues(SERVER_SQL))):
                await connection.execute(f"VACUUM FULL {table}".encode())

    async def lease(self, key: SessionKey, *, busy: Busy, interrupt: Callable[[], None]) -> Lease:
        """The right to run the session, across all processes that use the database."""
        require_key(key)
        async with explaining(self.url):
            return await self._leases.lease(
                await self._current(), key, busy=busy, interrupt=interrupt
            )

    async def holder(self, key: SessionKey) -> Holder | None:
        """Who has the session now: a store object of some process, and since when."""
        require_key(key)
        async with self._connection() as connection:
            holder = await tables.find_holder(connection, key)
        return Holder(*holder) if holder is not None else None

    async def changed(self, keys: Sequence[SessionKey], *, seconds: float) -> None:
        """Wait until one of the sessions may have grown: the server says so at once."""
        await self._news.wait(await self._current(), keys, seconds)

    @asynccontextmanager
    async def transaction(self, session: Session) -> AsyncGenerator[Transaction, None]:
        """A transaction of the database.

        `connection` is the psycopg connection. The store commits; the connection refuses to.
        """
        self._require_outside()
        server = await self._current()
        async with server.connection() as connection:
            # entered by hand: errors of the store are explained, those of the tool stay its own
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
                if connection.broken and isinstance(error, Exception):
                    # not the tool failed but the server: the call is made again later
                    raise server_gone(error, self.url) from error
                raise
            async with explaining(self.url):
                await scope.__aexit__(None, None, None)
        if transaction.stored is not None:
            self._cache.put(transaction.stored)
            self._news.tell(server, transaction.stored.key)

    async def close(self) -> None:
        """Close all connections; the next use connects again."""
        self._require_outside()
        await self._chapters.close()
        server, self._server = self._server, None
        self._cache = SessionCache(in_use=self._leases.holds)
        # the locks go with their connection
        self._leases.forget()
        appends, self._appends = (
            self._appends,
            Batches(self._append_batch, at_once=_AT_ONCE, stops=True),
        )
        if server is not None:
            # of a loop that has ended nothing can be awaited
            if server.loop is asyncio.get_running_loop():
                await appends.close()
            await self.relay.close()
            await self._news.close()
            await server.close()

    async def read_newest(
        self, connection: Connection, key: SessionKey
    ) -> tuple[StoredSession, Session]:
        """The session as the database has it: for the cache, and as a value."""
        newest_and_shared = await tables.read_newest(connection, key, self._cache, self.url)
        if newest_and_shared is None:
            raise unknown_session(key)
        stored, app, user = newest_and_shared
        return stored, stored.session(app, user)

    async def newest_stored(self, connection: Connection, session: Session) -> StoredSession:
        """The session as it is cached, if the value is the same; else as the database has it."""
        cached = self._cache.get(key_of(session))
        if cached is not None and follows(session, cached.events):
            return cached
        stored, _ = await self.read_newest(connection, key_of(session))
        return stored

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
            server = self._server = ConnectionPool(self._address, self.worker)
        return server

    def fence(self, key: SessionKey) -> str | None:
        """Who must have the lease for a write to count."""
        return self._leases.fence(key)

    async def require_lease(self, key: SessionKey) -> None:
        """Refuse a write of a run that has lost its lease."""
        await self._leases.require(await self._current(), key)

    def _require_outside(self) -> None:
        require_outside(self, where=self._place)

    def _require_sound(self, connection: Connection) -> None:
        if has_failed(connection):
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
        async with explaining(self._store.url):
            stored = self.stored
            if stored is None:
                stored = await self._store.newest_stored(self._connection, self._session)
            if not follows(self._session, stored.events):
                raise conflict(self._session, stored.events)
            growth = grow(self._session, events)
            if growth.added:
                stored = await self._insert_fenced(stored, growth)
        self.stored, self._session = stored, growth.session
        return self._session

    async def _insert_fenced(self, stored: StoredSession, growth: Growth) -> StoredSession:
        fence, connection = self._store.fence(stored.key), self._connection
        try:
            if len(growth.added) == 1 and not growth.app and not growth.user:
                # a single statement stores nothing if it does not fit
                after, _ = await insert_events(connection, stored, growth, fence)
                return after
            async with connection.transaction():
                after, _ = await insert_events(connection, stored, growth, fence)
                return after
        except Stale:
            # a lost lease is another error than an append that came too late
            await self._store.require_lease(stored.key)
            raise conflict(self._session, stored.events) from None


def _is_newest(cached: StoredSession, look: Look) -> bool:
    return (cached.number, len(cached.events)) == (look.number, look.length)
