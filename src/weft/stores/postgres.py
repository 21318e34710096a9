"""Sessions in PostgreSQL: for several machines, in the schema `weft` of any database."""

import asyncio
import hashlib
import time
from collections.abc import AsyncGenerator, Callable, Coroutine, Mapping, Sequence
from contextlib import asynccontextmanager, suppress
from typing import cast

from weft.errors import StoreError, UsageError
from weft.session import Busy, Event, Lease, Session, SessionInfo, SessionKey, Transaction
from weft.session.lease import Leases, LocalLease
from weft.session.memory import (
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
    unknown,
)
from weft.stores.cache import (
    WATCH_EVERY,
    Cache,
    Row,
    StateReader,
    caught_up,
    event_row,
    inside,
    outwait,
    readable,
    require_outside,
    row_checksum,
    value_text,
    warn_unreadable,
)
from weft.values import Json, JsonObject, Strand, require_object

try:
    import psycopg
    from psycopg.conninfo import conninfo_to_dict
except ImportError:
    raise UsageError(
        "the PostgreSQL driver is not installed",
        where="postgresql://",
        hint='pip install "weft[postgres]"',
    ) from None


class Stale(Exception):
    """The session is not as long as it was thought to be, or gone."""


Connection = psycopg.AsyncConnection[tuple[object, ...]]


async def newest(
    connection: Connection, key: SessionKey, cache: Cache, *, skip_unreadable: bool = False
) -> tuple[Kept, JsonObject, JsonObject] | None:
    """The session and the shared state; of a session that is at hand, only the rest is read."""
    held = cache.get(key) if not skip_unreadable else None
    found = await connection.execute(
        _NEWEST,
        {
            **key._asdict(),
            "held": held.number if held is not None else 0,
            "length": len(held.events) if held is not None else 0,
        },
    )
    rows = cast(
        "list[tuple[int, int, float, int | None, int, str | None, str, int | None, int | None]]",
        await found.fetchall(),
    )
    if not rows or rows[0][0] != 0:
        return None
    _, number, created, _, length, state, _, _, checksum = rows[0]
    reader = StateReader(key, skip_unreadable=skip_unreadable)
    if held is None or held.number != number:
        initial = reader.initial(created, (state or "").encode(), checksum)
        held = Kept(key, number, created, initial, initial, Strand())
    elif length < len(held.events):  # a server took over that had not got everything
        cache.drop(key)
        return await newest(connection, key, cache)
    events = [Row(row[6].encode(), row[7]) for row in rows if row[0] == 0 and row[3] is not None]
    app = reader.shared(key[:1], [(r[5] or "", r[6].encode(), r[7]) for r in rows if r[0] == 1])
    user = reader.shared(key[:2], [(r[5] or "", r[6].encode(), r[7]) for r in rows if r[0] == 2])
    if skip_unreadable:
        kept, problems = readable(held, events)
        warn_unreadable([*reader.problems, *problems])
        return kept, app, user
    return caught_up(held, events, length), app, user


async def insert_session(
    connection: Connection, key: SessionKey, created: float, initial: JsonObject
) -> Kept:
    """A new session."""
    state = value_text(initial)
    try:
        made = await connection.execute(
            """INSERT INTO weft.sessions (app_name, user_id, id, created, state, checksum)
            VALUES (%s, %s, %s, %s, %s, %s) RETURNING number""",
            (*key, created, state, row_checksum(*key, created, state)),
        )
    except psycopg.errors.UniqueViolation:
        raise exists_already(key) from None
    row = cast("tuple[int]", await made.fetchone())
    return Kept(key, row[0], created, initial, initial, Strand())


async def insert_events(connection: Connection, kept: Kept, growth: Growth) -> float | None:
    """The events behind those that are kept; gives the time at which somebody asked to stop.

    Raises Stale where they do not fit. Several statements, unless it is one event that shares
    nothing: then it needs no transaction.
    """
    asked: float | None = None
    for seq, event in enumerate(growth.added, len(kept.events)):
        data, checksum = event_row(event)
        try:
            done = await connection.execute(
                _APPEND,
                {
                    **kept.key._asdict(),
                    "number": kept.number,
                    "seq": seq,
                    "timestamp": event.timestamp,
                    "event": data.decode(),
                    "checksum": checksum,
                },
            )
        except (psycopg.errors.UniqueViolation, psycopg.errors.ForeignKeyViolation):
            raise Stale from None
        row = cast("tuple[float | None] | None", await done.fetchone())
        if row is None:
            raise Stale
        asked = row[0]
    await share(connection, kept.key, growth.app, growth.user)
    return asked


async def share(connection: Connection, key: SessionKey, app: JsonObject, user: JsonObject) -> None:
    """Write the deltas of the scopes that sessions share.

    In the order of their names: two writers of the same keys wait for each other in one order.
    """
    app_name, user_id, _ = key
    for name, value in sorted(app.items(), key=_name):
        if value is None:
            await connection.execute(
                "DELETE FROM weft.app_state WHERE app_name = %s AND key = %s", (app_name, name)
            )
        else:
            row = (app_name, name, value_text(value))
            await connection.execute(
                """INSERT INTO weft.app_state (app_name, key, value, checksum)
                VALUES (%s, %s, %s, %s) ON CONFLICT (app_name, key)
                DO UPDATE SET value = excluded.value, checksum = excluded.checksum""",
                (*row, row_checksum(*row)),
            )
    for name, value in sorted(user.items(), key=_name):
        if value is None:
            await connection.execute(
                "DELETE FROM weft.user_state WHERE app_name = %s AND user_id = %s AND key = %s",
                (app_name, user_id, name),
            )
        else:
            owned = (app_name, user_id, name, value_text(value))
            await connection.execute(
                """INSERT INTO weft.user_state (app_name, user_id, key, value, checksum)
                VALUES (%s, %s, %s, %s, %s) ON CONFLICT (app_name, user_id, key)
                DO UPDATE SET value = excluded.value, checksum = excluded.checksum""",
                (*owned, row_checksum(*owned)),
            )


async def listed(connection: Connection, app_name: str, user_id: str | None) -> list[SessionInfo]:
    """The sessions of an app, or of one user of it, the latest first."""
    found = await connection.execute(_LIST, {"app_name": app_name, "user_id": user_id})
    rows = cast("list[tuple[str, str, int, float]]", await found.fetchall())
    return [
        SessionInfo(SessionKey(app_name, user, id), length, updated)
        for user, id, length, updated in rows
    ]


async def apps(connection: Connection) -> list[str]:
    """The names of the apps that have sessions, sorted."""
    found = await connection.execute("SELECT DISTINCT app_name FROM weft.sessions")
    return sorted(name for (name,) in cast("list[tuple[str]]", await found.fetchall()))


async def remove(connection: Connection, key: SessionKey) -> None:
    """Delete a session with its events; what they wrote to shared scopes stays."""
    await connection.execute(
        "DELETE FROM weft.sessions WHERE app_name = %s AND user_id = %s AND id = %s", key
    )


Migration = Sequence[str]
"""The statements that lead from one version of the tables to the next."""

MIGRATIONS: tuple[Migration, ...] = (
    (
        """CREATE TABLE weft.sessions (
            number bigint GENERATED ALWAYS AS IDENTITY PRIMARY KEY,
            app_name text NOT NULL,
            user_id text NOT NULL,
            id text NOT NULL,
            created double precision NOT NULL,
            state text NOT NULL,
            UNIQUE (app_name, user_id, id)
        )""",
        """CREATE TABLE weft.events (
            session bigint NOT NULL REFERENCES weft.sessions ON DELETE CASCADE,
            seq integer NOT NULL,
            timestamp double precision NOT NULL,
            event text NOT NULL,
            PRIMARY KEY (session, seq)
        )""",
        """CREATE TABLE weft.app_state (
            app_name text NOT NULL,
            key text NOT NULL,
            value text NOT NULL,
            PRIMARY KEY (app_name, key)
        )""",
        """CREATE TABLE weft.user_state (
            app_name text NOT NULL,
            user_id text NOT NULL,
            key text NOT NULL,
            value text NOT NULL,
            PRIMARY KEY (app_name, user_id, key)
        )""",
        # A run in another process asks the holder of a session to stop.
        """CREATE TABLE weft.interrupts (
            app_name text NOT NULL,
            user_id text NOT NULL,
            id text NOT NULL,
            asked double precision NOT NULL,
            PRIMARY KEY (app_name, user_id, id)
        )""",
    ),
    # What was stored before has none.
    ("ALTER TABLE weft.events ADD COLUMN checksum bigint",),
    (
        "ALTER TABLE weft.sessions ADD COLUMN checksum bigint",
        "ALTER TABLE weft.app_state ADD COLUMN checksum bigint",
        "ALTER TABLE weft.user_state ADD COLUMN checksum bigint",
    ),
)


class Server:
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
            connection = await psycopg.AsyncConnection.connect(self._url, autocommit=True)
            try:
                if not self._migrated:
                    await migrate(connection, self._migrations, where=place(self._url))
            except BaseException:
                await connection.close()
                raise
        self._migrated = True
        return cast("Connection", connection)

    async def close(self) -> None:
        """Close all connections."""
        await self._close_idle()
        if self._leasing is not None:
            await self._leasing.close()
            self._leasing = None

    async def _close_idle(self) -> None:
        while self._idle:
            await self._idle.pop().close()


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
                await insert_session(connection, key, time.time(), own)
                await share(connection, key, app, user)
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
            found = await newest(connection, key, self._cache, skip_unreadable=skip_unreadable)
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
            except Stale:
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
            return await listed(connection, app_name, user_id)

    async def apps(self) -> list[str]:
        """The names of the apps that have sessions, sorted."""
        async with self._connection() as connection:
            return await apps(connection)

    async def delete(self, key: SessionKey) -> None:
        """Forget a session; what its events wrote to `app:` and `user:` stays."""
        require_key(key)
        async with self._connection(writing=True) as connection:
            await remove(connection, key)
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
        found = await newest(connection, key, self._cache)
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
                    await insert_events(self._connection, kept, growth)
                except Stale:
                    raise conflict(self._session, kept.events) from None
        self.kept, self._session = kept.after(growth), growth.session
        return self._session


async def _insert(connection: Connection, kept: Kept, growth: Growth) -> float | None:
    """Insert the events; a single statement needs no transaction around it."""
    if len(growth.added) == 1 and not growth.app and not growth.user:
        return await insert_events(connection, kept, growth)
    async with connection.transaction():
        return await insert_events(connection, kept, growth)


# One statement sees one state of the database, so events and shared state belong together.
_NEWEST = """
SELECT 0, s.number, s.created, e.seq,
       (SELECT coalesce(max(seq) + 1, 0) FROM weft.events WHERE session = s.number),
       CASE WHEN s.number = %(held)s OR e.seq > 0 THEN NULL ELSE s.state END, e.event, e.checksum,
       s.checksum
FROM weft.sessions s LEFT JOIN weft.events e
    ON e.session = s.number AND e.seq >= CASE WHEN s.number = %(held)s THEN %(length)s ELSE 0 END
WHERE s.app_name = %(app_name)s AND s.user_id = %(user_id)s AND s.id = %(id)s
UNION ALL
SELECT 1, 0, 0, 0, 0, key, value, checksum, NULL FROM weft.app_state WHERE app_name = %(app_name)s
UNION ALL
SELECT 2, 0, 0, 0, 0, key, value, checksum, NULL FROM weft.user_state
WHERE app_name = %(app_name)s AND user_id = %(user_id)s
ORDER BY 1, 4
"""

# Nothing is inserted unless the session has exactly the events before this one.
_APPEND = """
INSERT INTO weft.events (session, seq, timestamp, event, checksum)
SELECT number, %(seq)s, %(timestamp)s, %(event)s, %(checksum)s FROM weft.sessions
WHERE number = %(number)s AND %(seq)s = (
    SELECT coalesce(max(seq) + 1, 0) FROM weft.events WHERE session = %(number)s
)
RETURNING (
    SELECT asked FROM weft.interrupts
    WHERE app_name = %(app_name)s AND user_id = %(user_id)s AND id = %(id)s
)
"""

_LIST = """
SELECT user_id, id, coalesce(seq + 1, 0), coalesce(timestamp, created) AS updated
FROM weft.sessions LEFT JOIN LATERAL (
    SELECT seq, timestamp FROM weft.events WHERE session = number ORDER BY seq DESC LIMIT 1
) AS newest ON true
WHERE app_name = %(app_name)s AND (%(user_id)s::text IS NULL OR user_id = %(user_id)s)
ORDER BY updated DESC, number DESC
"""


def _name(item: tuple[str, object]) -> str:
    return item[0]


async def lock(connection: Connection, key: SessionKey) -> float | None:
    """Lock the session for this connection; the server's time, or None if another has it."""
    found = await connection.execute(
        """SELECT CASE WHEN pg_try_advisory_lock(%s)
        THEN extract(epoch FROM clock_timestamp())::float8 END""",
        (_lock_of(key),),
    )
    row = cast("tuple[float | None]", await found.fetchone())
    return row[0]


async def unlock(connection: Connection, key: SessionKey) -> None:
    """Unlock the session."""
    await connection.execute("SELECT pg_advisory_unlock(%s)", (_lock_of(key),))


def _lock_of(key: SessionKey) -> int:
    """The number that stands for a session among the server's advisory locks."""
    text = "\0".join(("weft", *key)).encode()
    return int.from_bytes(hashlib.blake2b(text, digest_size=8).digest(), signed=True)


async def insert_request(connection: Connection, key: SessionKey) -> None:
    """Ask the holder of the session, in another process, to stop."""
    await connection.execute(
        """INSERT INTO weft.interrupts
        VALUES (%s, %s, %s, extract(epoch FROM clock_timestamp())::float8)
        ON CONFLICT (app_name, user_id, id) DO UPDATE SET asked = excluded.asked""",
        key,
    )


async def delete_request(connection: Connection, key: SessionKey) -> None:
    """Ask no longer."""
    await connection.execute(
        "DELETE FROM weft.interrupts WHERE app_name = %s AND user_id = %s AND id = %s", key
    )


async def asked(connection: Connection) -> list[tuple[SessionKey, float]]:
    """The sessions that somebody wants stopped, and since when."""
    found = await connection.execute("SELECT app_name, user_id, id, asked FROM weft.interrupts")
    rows = cast("list[tuple[str, str, str, float]]", await found.fetchall())
    return [(SessionKey(*key), when) for *key, when in rows]


MIGRATING = 0x57454654
"""The advisory lock that is held while the tables are made or migrated."""


async def migrate(connection: Connection, migrations: Sequence[Migration], *, where: str) -> None:
    """Make the tables, or bring them up to date; one process at a time."""
    if await _version(connection, migrations, where=where) == len(migrations):
        return
    async with connection.transaction():
        await connection.execute("SELECT pg_advisory_xact_lock(%s)", (MIGRATING,))
        version = await _version(connection, migrations, where=where)
        if version == 0:
            await connection.execute("CREATE SCHEMA IF NOT EXISTS weft")
            await connection.execute("CREATE TABLE weft.version (version integer NOT NULL)")
            await connection.execute("INSERT INTO weft.version VALUES (0)")
        for statements in migrations[version:]:
            for statement in statements:
                await connection.execute(statement.encode())
        await connection.execute("UPDATE weft.version SET version = %s", (len(migrations),))


async def _version(connection: Connection, migrations: Sequence[Migration], *, where: str) -> int:
    """The version of the tables, 0 if there are none."""
    # The catalogue is read as a table: to_regclass may answer from before the lock was taken.
    found = await connection.execute(
        "SELECT 1 FROM pg_catalog.pg_tables WHERE schemaname = 'weft' AND tablename = 'version'"
    )
    if await found.fetchone() is None:
        return 0
    found = await connection.execute("SELECT version FROM weft.version")
    row = cast("tuple[int] | None", await found.fetchone())
    version = row[0] if row is not None else 0
    if version > len(migrations):
        raise StoreError(
            f"the tables were written by a newer Weft: they are version {version}, "
            f"and this one knows up to {len(migrations)}",
            where=where,
            hint="upgrade: pip install --upgrade weft",
        )
    return version


def place(url: str) -> str:
    """The server and the database, without the password."""
    try:
        told = conninfo_to_dict(url)
    except psycopg.Error:
        return "postgresql://"
    host, port, database = told.get("host"), told.get("port"), told.get("dbname")
    return f"postgresql://{host or ''}{f':{port}' if port else ''}/{database or ''}"


@asynccontextmanager
async def explaining(url: str) -> AsyncGenerator[None, None]:
    """Have the driver's errors leave the block as ours."""
    try:
        yield
    except psycopg.Error as error:
        raise explained(error, url) from None


def explained(error: psycopg.Error, url: str) -> StoreError:
    """What the driver's error means here, and what to do about it."""
    said = " ".join(str(error).split()) or type(error).__name__
    match error:
        case psycopg.errors.InsufficientPrivilege():
            message = f"the server does not permit it: {said}"
            hint = "let this role create the schema `weft` once, and write to its tables"
        case psycopg.errors.ReadOnlySqlTransaction():
            message = "the server is read-only"
            hint = "connect to the primary: ...?target_session_attrs=read-write"
        case psycopg.errors.DiskFull():
            message = f"there is no room for more: {said}"
            hint = "free some space on the server; what was stored before is safe"
        case psycopg.OperationalError() | psycopg.InterfaceError():
            message = f"the server cannot be reached: {said}"
            hint = "check that it runs and that the address is right; the next use connects again"
        case _:
            message, hint = f"PostgreSQL refused: {said}", ""
    return StoreError(message, where=place(url), hint=hint)


class ServerLeases:
    """The leases that a store holds, and the task that watches for those who want them."""

    def __init__(self) -> None:
        self._line = Leases()
        self._held: dict[SessionKey, tuple[LocalLease, float]] = {}
        self._locked_by: Connection | None = None
        self._watching: asyncio.Task[None] | None = None

    async def lease(
        self, server: Server, key: SessionKey, *, busy: Busy, interrupt: Callable[[], None]
    ) -> Lease:
        """The right to run the session, across all processes that use the database."""
        local = await self._line.acquire(key, busy=busy, interrupt=interrupt)
        lease = _ServerLease(lambda: self._unlock(local))

        async def take() -> bool:
            connection = await self._leasing(server)
            since = await lock(connection, key)
            if since is not None:
                self._held[key] = (local, since)
            return since is not None

        async def ask() -> None:
            async with server.connection() as connection:
                await insert_request(connection, key)

        async def withdraw() -> None:
            async with server.connection() as connection:
                await delete_request(connection, key)

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

    def stop(self, asked: Sequence[tuple[SessionKey, float]]) -> None:
        """Interrupt the holders that somebody has asked to stop since they hold."""
        for key, when in asked:
            lease, since = self._held.get(key, (None, 0.0))
            if lease is not None and when >= since:
                lease.ask_to_stop()

    def forget(self) -> None:
        """Hold nothing any more: the connection is about to close."""
        self._held.clear()
        self._locked_by = None
        if self._watching is not None and not self._watching.get_loop().is_closed():
            self._watching.cancel()
        self._watching = None

    async def _unlock(self, local: LocalLease) -> None:
        self._held.pop(local.key, None)
        try:
            if self._locked_by is not None and not self._locked_by.closed:
                with suppress(psycopg.Error):  # it broke, and the lock is gone with it
                    await unlock(self._locked_by, local.key)
        finally:
            await local.release()
            if not self._held and self._watching is not None:
                self._watching.cancel()
                self._watching = None

    async def _watch(self, server: Server) -> None:
        while True:
            await asyncio.sleep(WATCH_EVERY)
            with suppress(StoreError, psycopg.Error):  # the next look may do better
                self.stop(await asked(await self._leasing(server)))

    async def _leasing(self, server: Server) -> Connection:
        """The connection that holds the locks; a new one takes again what the old one held.

        Where somebody was faster, the holder has lost its lease and is told to stop.
        """
        connection = await server.leasing()
        if connection is not self._locked_by:
            self._locked_by = connection
            for key, (lease, _) in list(self._held.items()):
                since = await lock(connection, key)
                if since is None:
                    lease.ask_to_stop()
                else:
                    self._held[key] = (lease, since)
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
