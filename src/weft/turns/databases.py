"""The database that a queue is in: PostgreSQL, or a SQLite file.

The tables of queues stand beside those of the sessions, with a version of their own: a store that
nobody queues for has none of them. A statement is written once, with `:names`, for both.

Top to bottom: what a database does for a queue, PostgreSQL, SQLite, the tables.
"""

import asyncio
import json
import sqlite3
from collections.abc import AsyncGenerator, Callable, Mapping, Sequence
from contextlib import asynccontextmanager, suppress
from pathlib import Path
from typing import TYPE_CHECKING, NamedTuple, Protocol, cast

from weft.errors import StoreError, UsageError, describe_kind
from weft.stores.sqlite_file import explained as explained_sqlite
from weft.stores.sqlite_file import open_file
from weft.stores.sqlite_lease import FileLeases, join, leave
from weft.stores.sqlite_worker import ConnectionThread, FileWriter

if TYPE_CHECKING:
    from weft.stores.postgres_server import Connection, ConnectionPool, DatabaseAddress

Cell = str | int | float | None
Values = Mapping[str, "Cell | Sequence[str] | Sequence[int]"]

TURNS_CHANNEL = "weft_turns"
"""The channel on which it is announced that a turn was put in the inbox."""


class QueueDatabase(Protocol):
    """What a database does for a queue."""

    sql: "SqlSpelling"
    pause: float
    """Seconds between two looks for turns, where nothing says that one was put."""

    async def open(self) -> None:
        """Make the tables, or refuse those of another version."""
        ...

    async def run(
        self, statement: str, values: Values, *, connection: object = None
    ) -> list[tuple[Cell, ...]]:
        """The rows that a statement gives, once it is committed; with a connection, its commit."""
        ...

    async def news(self, seconds: float) -> None:
        """Wait until a turn may have been put, or so many seconds have passed."""
        ...

    async def close(self) -> None:
        """Close the connections; the next use opens them again."""
        ...


class SqlSpelling(NamedTuple):
    """What the two databases write differently."""

    schema: str
    now: str
    next_place: str
    skip_locked: str
    is_in: str
    """How to ask whether a value is in a list: `{} = ANY({})`."""
    announce: str
    """Behind a statement that puts a turn: tells the workers."""


_CONNECTIONS = 2
"""How many connections a queue uses at once, beside the one that listens."""


class ServerDatabase:
    """A PostgreSQL database with the tables of queues."""

    sql = SqlSpelling(
        schema="weft.",
        now="extract(epoch FROM clock_timestamp())::float8",
        next_place="nextval('weft.turn_places')",
        skip_locked="FOR UPDATE SKIP LOCKED",
        is_in="{} = ANY({})",
        announce=f", pg_notify('{TURNS_CHANNEL}', '')",
    )
    pause = 0.5

    def __init__(self, address: "DatabaseAddress", worker: str) -> None:
        self.url = address.url
        self._address = address._replace(connections=_CONNECTIONS)
        self._worker = worker
        self._pool: ConnectionPool | None = None
        self._is_open = False
        self._channels: tuple[str, ...] = (TURNS_CHANNEL,)
        self._listening: asyncio.Task[None] | None = None
        self._heard = asyncio.Event()

    def listen_to(self, *channels: str) -> None:
        """Have `news` wait for what is announced on these channels."""
        self._channels = channels

    async def open(self) -> None:
        """Make the tables, or refuse those of another version."""
        if self._is_open:
            return
        from weft.stores.postgres_server import place

        where = place(self.url)
        async with self.connection() as connection:
            if await _server_version(connection, where) < len(SERVER_MIGRATIONS):
                async with connection.transaction():
                    await lock_migrations(connection)
                    # asked again: another process may have made them meanwhile
                    version = await _server_version(connection, where)
                    for statement in (one for step in SERVER_MIGRATIONS[version:] for one in step):
                        await connection.execute(statement.encode())
                    await connection.execute(
                        "UPDATE weft.turns_version SET version = %s", (len(SERVER_MIGRATIONS),)
                    )
        self._is_open = True

    async def run(
        self, statement: str, values: Values, *, connection: object = None
    ) -> list[tuple[Cell, ...]]:
        """The rows that a statement gives."""
        from weft.stores.postgres_server import explaining, with_driver_names

        spelled = with_driver_names(statement)
        if not self._is_open:
            await self.open()
        if connection is not None:
            async with explaining(self.url):
                rows = await execute(require_connection(connection), spelled, values)
        else:
            rows = await self.execute(spelled, values)
        return cast("list[tuple[Cell, ...]]", rows)

    async def execute(self, statement: bytes | str, values: Mapping[str, object]) -> "list[Row]":
        """The rows of a statement that is written for PostgreSQL."""
        async with self.connection() as connection:
            return await execute(connection, statement, values)

    @asynccontextmanager
    async def connection(self) -> "AsyncGenerator[Connection, None]":
        """A connection, which commits each statement; errors of the driver become ours."""
        from weft.stores.postgres_server import explaining

        async with explaining(self.url), self._current().connection() as connection:
            yield connection

    async def news(self, seconds: float) -> None:
        """Wait until a turn was put, or so many seconds have passed."""
        if self._listening is None or self._listening.done():
            self._listening = asyncio.get_running_loop().create_task(self._listen())
        with suppress(TimeoutError):
            async with asyncio.timeout(seconds):
                await self._heard.wait()
        self._heard.clear()

    async def close(self) -> None:
        """Close the connections; the next use opens them again."""
        pool, self._pool = self._pool, None
        listening, self._listening = self._listening, None
        loop = asyncio.get_running_loop()
        if listening is not None and not listening.done() and listening.get_loop() is loop:
            listening.cancel()
            await asyncio.wait([listening])
        if pool is not None and pool.loop is loop:
            await pool.close()

    def _current(self) -> "ConnectionPool":
        """The connections of the running event loop."""
        from weft.stores.postgres_server import ConnectionPool

        if self._pool is None or self._pool.loop is not asyncio.get_running_loop():
            self._pool = ConnectionPool(self._address, self._worker)
            # an event belongs to one event loop, as connections do
            self._heard = asyncio.Event()
        return self._pool

    async def _listen(self) -> None:
        from weft.stores.postgres_server import DriverError

        try:
            connection = await self._current().connect(leasing=True)
        except (StoreError, DriverError):  # the next wait tries again
            return
        try:
            with suppress(DriverError):
                for channel in self._channels:
                    await connection.execute(f'LISTEN "{channel}"'.encode())
                # what was put before this connection listened was announced to nobody
                self._heard.set()
                async for _ in connection.notifies():
                    self._heard.set()
        finally:
            await connection.close()


async def lock_migrations(connection: "Connection") -> None:
    """Wait until no other process makes tables, until the transaction ends."""
    from weft.stores.postgres_server import MIGRATING

    await connection.execute("SELECT pg_advisory_xact_lock(%s)", (MIGRATING,))


async def _server_version(connection: "Connection", where: str) -> int:
    cursor = await connection.execute(
        "SELECT 1 FROM pg_catalog.pg_tables"
        " WHERE schemaname = 'weft' AND tablename = 'turns_version'"
    )
    if await cursor.fetchone() is None:
        return 0
    cursor = await connection.execute("SELECT version FROM weft.turns_version")
    row = cast("tuple[int] | None", await cursor.fetchone())
    return _require_version(row[0] if row is not None else 0, where)


Row = tuple[object, ...]


async def execute(
    connection: "Connection", statement: bytes | str, values: Mapping[str, object]
) -> list[Row]:
    """The rows that a statement gives."""
    query = statement.encode() if isinstance(statement, str) else statement
    cursor = await connection.execute(query, values)
    return await cursor.fetchall() if cursor.description is not None else []


def require_connection(connection: object) -> "Connection":
    """The caller's own connection, or an error if it cannot be used from here."""
    import psycopg

    if not isinstance(connection, psycopg.AsyncConnection):
        raise UsageError(
            f"a {type(connection).__module__}.{type(connection).__name__} is no connection to put"
            " a turn with",
            where="Turns.put",
            hint="pass a psycopg.AsyncConnection to the database of the store, or the connection"
            " of store.transaction(session)",
        )
    return cast("Connection", connection)


class FileDatabase:
    """A SQLite file with the tables of queues."""

    sql = SqlSpelling(
        schema="",
        now="((julianday('now') - 2440587.5) * 86400.0)",
        next_place="(SELECT coalesce(max(place), 0) + 1 FROM turns)",
        skip_locked="",
        is_in="{} IN (SELECT value FROM json_each({}))",
        announce="",
    )
    pause = 0.1

    def __init__(self, path: Path) -> None:
        self._path = path
        self._leases: FileLeases | None = None
        self._writer: ConnectionThread | None = None

    async def open(self) -> None:
        """Make the tables, or refuse those of another version."""
        await self.run("SELECT version FROM turns_version", {})

    async def run(
        self, statement: str, values: Values, *, connection: object = None
    ) -> list[tuple[Cell, ...]]:
        """The rows that a statement gives."""
        plain = {name: _as_cell(value) for name, value in values.items()}

        def work(on: sqlite3.Connection) -> Callable[[], list[tuple[Cell, ...]]]:
            rows: list[tuple[Cell, ...]] = on.execute(statement, plain).fetchall()
            return lambda: rows

        try:
            if connection is not None:
                if not isinstance(connection, sqlite3.Connection):
                    raise UsageError(
                        f"{describe_kind(connection)} is no connection to put a turn with",
                        where="Turns.put",
                        hint="pass a sqlite3.Connection to the file of the store, or the"
                        " connection of store.transaction(session)",
                    )
                # in the caller's transaction: the tables are made, and undone, with what it puts
                _make_tables(connection, self._path)
                return work(connection)()
            return await self._current().run(work)
        except sqlite3.Error as error:
            raise explained_sqlite(error, self._path, timeout=_WAIT) from None

    async def news(self, seconds: float) -> None:
        """Wait: a file tells nobody that it grew."""
        await asyncio.sleep(seconds)

    async def close(self) -> None:
        """Close the file; the next use opens it again."""
        writer, self._writer = self._writer, None
        leases, self._leases = self._leases, None
        if writer is not None:
            await writer.close()
        if leases is not None:
            leave(leases)

    def _current(self) -> ConnectionThread:
        if self._writer is None:
            leases = self._leases = join(self._path)

            def connect() -> sqlite3.Connection:
                connection = open_file(self._path, timeout=_WAIT, alone=leases.alone())
                try:
                    connection.execute("BEGIN IMMEDIATE")
                    _make_tables(connection, self._path)
                    connection.execute("COMMIT")
                except sqlite3.Error as error:
                    connection.close()
                    raise explained_sqlite(error, self._path, timeout=_WAIT) from None
                except BaseException:
                    connection.close()
                    raise
                return connection

            self._writer = ConnectionThread(f"weft queues in {self._path}", connect, FileWriter())
        return self._writer


_WAIT = 30.0
"""Seconds that a write waits for those of other processes."""


def _as_cell(value: Cell | Sequence[str] | Sequence[int]) -> Cell:
    """A value as SQLite takes it: a list is JSON there."""
    if value is None or isinstance(value, str | int | float):
        return value
    return json.dumps(list(value))


def _make_tables(connection: sqlite3.Connection, path: Path) -> None:
    """Make the tables, or bring them up to date, inside the caller's transaction."""
    known = connection.execute(
        "SELECT 1 FROM sqlite_master WHERE type = 'table' AND name = 'turns_version'"
    ).fetchone()
    version = 0
    if known is not None:
        row: tuple[int] | None
        row = connection.execute("SELECT version FROM turns_version").fetchone()
        version = _require_version(row[0] if row is not None else 0, str(path))
    if version < len(FILE_MIGRATIONS):
        for statement in (one for step in FILE_MIGRATIONS[version:] for one in step):
            connection.execute(statement)
        connection.execute("UPDATE turns_version SET version = ?", (len(FILE_MIGRATIONS),))


def _require_version(version: int, where: str) -> int:
    """The version of the tables, unless they are newer than this program."""
    if version > len(SERVER_MIGRATIONS):
        raise StoreError(
            f"the queue was made by a newer Weft: its tables are version {version}, "
            f"and this one knows up to {len(SERVER_MIGRATIONS)}",
            where=where,
            hint="upgrade: pip install --upgrade weft",
        )
    return version


_ROW = """(
    number {number},
    app_name text NOT NULL,
    user_id text NOT NULL,
    session text NOT NULL,
    request_id text NOT NULL,
    turn text NOT NULL,
    status text NOT NULL,
    priority integer NOT NULL,
    attempts integer NOT NULL DEFAULT 0,
    kills integer NOT NULL DEFAULT 0,
    worker text,
    reason text,
    put_at {time} NOT NULL,
    ended_at {time},
    due {time},
    place bigint,
    UNIQUE (app_name, user_id, session, request_id)
)"""

_WORKER = """(
    worker text PRIMARY KEY,
    apps text NOT NULL,
    engine text NOT NULL,
    slots integer NOT NULL,
    since {time} NOT NULL,
    beat {time} NOT NULL
)"""

SERVER_MIGRATIONS: tuple[Sequence[str], ...] = (
    (
        "CREATE TABLE weft.turns_version (version integer NOT NULL)",
        "INSERT INTO weft.turns_version VALUES (0)",
        "CREATE SEQUENCE weft.turn_places",
        "CREATE TABLE weft.turns "
        + _ROW.format(
            number="bigint GENERATED ALWAYS AS IDENTITY PRIMARY KEY", time="double precision"
        ),
        "CREATE INDEX turns_waiting ON weft.turns (priority DESC, place) WHERE status = 'waiting'",
        "CREATE INDEX turns_open ON weft.turns (app_name, user_id, session, place)"
        " WHERE status IN ('waiting', 'running')",
        "CREATE INDEX turns_running ON weft.turns (worker) WHERE status = 'running'",
        "CREATE INDEX turns_delayed ON weft.turns (due) WHERE place IS NULL",
        "CREATE TABLE weft.turn_workers " + _WORKER.format(time="double precision"),
        # What other queues have no room for: which worker has which of their numbers, ...
        "CREATE TABLE weft.turn_owners (owner bigint PRIMARY KEY, worker text NOT NULL)",
        # ... and how often a turn failed and killed, and why.
        """CREATE TABLE weft.turn_notes (
            turn text PRIMARY KEY,
            attempts integer NOT NULL DEFAULT 0,
            kills integer NOT NULL DEFAULT 0,
            reason text NOT NULL DEFAULT ''
        )""",
    ),
)

FILE_MIGRATIONS: tuple[Sequence[str], ...] = (
    (
        "CREATE TABLE turns_version (version INTEGER NOT NULL)",
        "INSERT INTO turns_version VALUES (0)",
        "CREATE TABLE turns "
        + _ROW.format(number="INTEGER PRIMARY KEY AUTOINCREMENT", time="REAL"),
        "CREATE INDEX turns_waiting ON turns (priority DESC, place) WHERE status = 'waiting'",
        "CREATE INDEX turns_open ON turns (app_name, user_id, session, place)"
        " WHERE status IN ('waiting', 'running')",
        "CREATE INDEX turns_running ON turns (worker) WHERE status = 'running'",
        "CREATE INDEX turns_delayed ON turns (due) WHERE place IS NULL",
        "CREATE TABLE turn_workers " + _WORKER.format(time="REAL"),
    ),
)
