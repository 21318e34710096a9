"""A PostgreSQL server: its connections in one event loop, our tables there, and its errors."""

import asyncio
from collections.abc import AsyncGenerator, Sequence
from contextlib import asynccontextmanager
from typing import cast

from weft.errors import StoreError, UsageError

try:
    import psycopg as psycopg  # the rooms of this store take it from here
    from psycopg.conninfo import conninfo_to_dict
except ImportError:
    raise UsageError(
        "the PostgreSQL driver is not installed",
        where="postgresql://",
        hint='pip install "weft[postgres]"',
    ) from None

Connection = psycopg.AsyncConnection[tuple[object, ...]]

MIGRATING = 0x57454654
"""The advisory lock that is held while the tables are made or migrated."""

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
