"""The database that a queue is in: PostgreSQL, or a SQLite file.

The tables of queues are next to those of the sessions, with a version of their own: a store that
nobody queues for has none of them. A statement is written once, with `:names`, for both.

Top to bottom: what a database does for a queue, PostgreSQL, SQLite, the tables.
"""

import asyncio
import hashlib
import json
import math
import sqlite3
import time
from collections.abc import AsyncGenerator, Awaitable, Callable, Mapping, Sequence
from contextlib import asynccontextmanager, suppress
from pathlib import Path
from typing import TYPE_CHECKING, NamedTuple, Protocol, cast

from weft.errors import StoreError, UsageError, describe_kind
from weft.stores.sqlite_file import explain_sqlite, open_file
from weft.stores.sqlite_lease import FileLeases, join, leave
from weft.stores.sqlite_worker import ConnectionThread, FileWriter
from weft.turns.lines import (
    COUNTS,
    END_PAUSES,
    FILE_LINES,
    GATHER_COUNTS,
    INBOX,
    INBOX_LINES,
    LEAVE_ROOM,
    SERVER_TABLES,
    WAKE_OTHERS,
    LineTable,
    server_take,
)

if TYPE_CHECKING:
    from weft.stores.postgres_server import Connection, ConnectionPool, DatabaseAddress

Cell = str | int | float | None
Values = Mapping[str, "Cell | Sequence[str] | Sequence[int]"]


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

    async def take(self, request: "TakeRequest") -> "TakeResult":
        """The first turns of lines, marked as taken: up to `most`."""
        ...

    async def leave(self, request: "TakeRequest") -> None:
        """The worker takes no more turns: wake others for them."""
        ...

    async def forget_room(self, worker: str) -> None:
        """A worker is dead: nobody needs to wake it."""
        ...

    @property
    def is_told(self) -> bool:
        """Whether `news` ends for every turn that may be taken, or a worker has to look."""
        ...

    def hear(self) -> None:
        """Have `news` end: there may be something to take."""
        ...

    async def news(self, seconds: float) -> None:
        """Wait until there may be a turn to take, or `seconds` have passed."""
        ...

    async def counts(self, queue: str) -> list[tuple[Cell, ...]]:
        """How many turns of a queue there are: rows of app, status and count."""
        ...

    async def gather_counts(self) -> None:
        """Put together what was counted apart; pruning calls it now and then."""
        ...

    async def close(self) -> None:
        """Close the connections; the next use opens them again."""
        ...


class TakeRequest(NamedTuple):
    """What a worker wants to take, and how that is marked in the table of a queue."""

    source: LineTable
    apps: Sequence[str]
    """The apps, as the lines of the queue call them."""
    worker: str
    statement: str
    """Takes the turns: see `server_take`. A SQLite file has an UPDATE with `:apps` and `:most`."""
    most: int = 1
    values: Mapping[str, object] = {}
    """What else the statement is given."""


class TakeResult(NamedTuple):
    """Turns that were taken, and when to look again."""

    rows: "Sequence[Sequence[object]]"
    due: float | None
    """In how many seconds the next turn is due that pauses or is delayed; None: there is none."""
    is_sure: bool
    """Whether the database wakes the worker for every turn that was put since this look."""


class LineReader:
    """Takes turns from lines for one worker, also those whose pause or delay is over."""

    def __init__(
        self,
        database: QueueDatabase,
        request: TakeRequest,
        end_pauses: Callable[[], Awaitable[None]],
    ) -> None:
        self._database = database
        self._request = request
        self._end_pauses = end_pauses
        self._due = math.inf
        """When the next turn is due that pauses or is delayed, by the monotonic clock."""
        self._is_sure = False

    @property
    def is_told(self) -> bool:
        """Whether `news` ends for every turn that can be taken since the last look."""
        return self._is_sure and self._database.is_told

    async def take(
        self, most: int, values: Mapping[str, object] | None = None
    ) -> Sequence[Sequence[object]]:
        """The rows of up to `most` turns; for 0 others are woken in place of this worker."""
        if not most:
            await self._database.leave(self._request)
            return ()
        if time.monotonic() >= self._due:
            await self._end_pauses()
        request = self._request._replace(most=most, values=values or {})
        while True:
            taken = await self._database.take(request)
            self._is_sure = taken.is_sure
            self._due = math.inf if taken.due is None else time.monotonic() + taken.due
            if not taken.rows and time.monotonic() >= self._due:
                await self._end_pauses()
            elif taken.rows or taken.is_sure:
                return taken.rows

    async def news(self) -> None:
        """Wait until there may be a turn to take."""
        pause = self._database.pause
        await self._database.news(min(pause, max(self._due - time.monotonic(), 0.0)))


class SqlSpelling(NamedTuple):
    """What the two databases write differently."""

    schema: str
    now: str
    next_place: str
    skip_locked: str
    is_in: str
    """How to ask whether a value is in a list: `{} = ANY({})`."""
    take: Callable[[int, str], str]
    """The statement that takes turns of a number of apps, and gives these columns."""
    end_pauses: str
    rooms: str
    """Behind a statement of workers and their turns: those that have only room."""


_CONNECTIONS = 2
"""How many connections a queue uses at once, not counting the one that listens."""

_UNHEARD = 0.5
"""Seconds between two looks for turns while no connection listens."""

_GATHER_EVERY = 60.0
"""Seconds after which the counts of closed connections are put together again."""


def _server_take(apps: int, columns: str) -> str:
    listed = ", ".join(f"turns.{column}" for column in columns.split(", "))
    return server_take(
        INBOX,
        apps,
        marking=f"""UPDATE weft.turns SET status = 'running', worker = %(worker)s, due = NULL
            FROM heads WHERE turns.number = heads.number AND status = 'waiting'
            RETURNING {listed}""",
        delayed="SELECT min(due) FROM weft.turns WHERE place IS NULL AND status = 'waiting'",
    )


class ServerDatabase:
    """A PostgreSQL database with the tables of queues."""

    sql = SqlSpelling(
        schema="weft.",
        now="extract(epoch FROM clock_timestamp())::float8",
        next_place="nextval('weft.turn_places')",
        skip_locked="FOR UPDATE SKIP LOCKED",
        is_in="{} = ANY({})",
        take=_server_take,
        end_pauses=END_PAUSES.replace("%(queue)s", "'inbox'"),
        rooms="UNION ALL SELECT worker, 0 FROM weft.turn_room WHERE queue = 'inbox'",
    )
    pause = 2.0

    def __init__(self, address: "DatabaseAddress", worker: str) -> None:
        self.url = address.url
        self._address = address._replace(connections=_CONNECTIONS)
        self._worker = worker
        self._pool: ConnectionPool | None = None
        self._is_open = False
        # an identifier of the server: short, and without the marks in a worker's name
        mark = hashlib.blake2b(worker.encode(), digest_size=12).hexdigest()
        self._channel = f"weft_turns_{mark}"
        self._listening: asyncio.Task[None] | None = None
        self._listens = False
        self._heard = asyncio.Event()
        self._gather_at = 0.0
        self._has_room: bool | None = None
        """Whether the server knows that this worker has room; None: it may think anything."""

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

    async def take(self, request: TakeRequest) -> TakeResult:
        """The first turns of lines; the server wakes this worker for others if it has room."""
        if not self._is_open:
            await self.open()
        # before the look: what is heard during it is for the next one
        self._heard.clear()
        values: dict[str, object] = {f"app_{at}": app for at, app in enumerate(request.apps)}
        values |= {
            "queue": request.source.queue,
            "apps": [*request.apps],
            "worker": request.worker,
            "channel": self._channel,
            "most": request.most,
            **request.values,
        }
        self._has_room = None
        looked = await self.execute(request.statement, values)
        is_new, due, *_ = looked[0]
        rows = [row[2:] for row in looked if row[2] is not None]
        self._has_room = len(rows) < request.most
        # said only now that there is room: what was put just before that woke nobody
        return TakeResult(rows, cast("float | None", due), is_sure=not is_new)

    async def leave(self, request: TakeRequest) -> None:
        """Have other workers woken, also for what this one was woken for."""
        if self._has_room is False:
            return
        self._has_room = None
        values = {
            "worker": request.worker,
            "queue": request.source.queue,
            "apps": [*request.apps],
        }
        await self.execute(LEAVE_ROOM, values)
        await self.execute(WAKE_OTHERS, values)
        self._has_room = False

    async def counts(self, queue: str) -> list[tuple[Cell, ...]]:
        """How many turns of a queue there are."""
        if not self._is_open:
            await self.open()
        return cast("list[tuple[Cell, ...]]", await self.execute(COUNTS, {"queue": queue}))

    async def gather_counts(self) -> None:
        """Put together what connections have counted that are closed by now."""
        if time.monotonic() >= self._gather_at:
            self._gather_at = time.monotonic() + _GATHER_EVERY
            await self.execute(GATHER_COUNTS, {})

    async def news(self, seconds: float) -> None:
        """Wait until the server wakes this worker, or `seconds` have passed."""
        if self._listening is None or self._listening.done():
            self._listening = asyncio.get_running_loop().create_task(self._listen())
        with suppress(TimeoutError):
            async with asyncio.timeout(seconds if self._listens else min(seconds, _UNHEARD)):
                await self._heard.wait()

    @property
    def is_told(self) -> bool:
        """Whether the server can wake this worker."""
        return self._listens

    def hear(self) -> None:
        """Have `news` end."""
        self._heard.set()

    async def forget_room(self, worker: str) -> None:
        """Wake that worker no more."""
        await self.execute(LEAVE_ROOM, {"worker": worker})

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
                await connection.execute(f"LISTEN {self._channel}".encode())
                self._listens = True
                # what was put before this connection listened woke nobody
                self._heard.set()
                async for _ in connection.notifies():
                    self._heard.set()
        finally:
            self._listens = False
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
            f"a {type(connection).__module__}.{type(connection).__name__} is not a connection"
            " to put a turn with",
            where="Turns.put",
            hint="pass a psycopg.AsyncConnection to the database of the store, or the connection"
            " of store.transaction(session)",
        )
    return cast("Connection", connection)


_FILE_NOW = "((julianday('now') - 2440587.5) * 86400.0)"


def _file_take(apps: int, columns: str) -> str:
    return f"""UPDATE turns SET status = 'running', worker = :worker, due = NULL
        WHERE number IN (
            SELECT number FROM turn_lines
            WHERE is_free AND due IS NULL AND app_name IN (SELECT value FROM json_each(:apps))
            ORDER BY priority DESC, place LIMIT :most)
        RETURNING {columns}"""


class FileDatabase:
    """A SQLite file with the tables of queues."""

    sql = SqlSpelling(
        schema="",
        now=_FILE_NOW,
        next_place="(SELECT coalesce(max(place), 0) + 1 FROM turns)",
        skip_locked="",
        is_in="{} IN (SELECT value FROM json_each({}))",
        take=_file_take,
        end_pauses=f"UPDATE turn_lines SET due = NULL WHERE is_free AND due <= {_FILE_NOW}",
        rooms="",
    )
    pause = 0.1
    is_told = False

    def __init__(self, path: Path) -> None:
        self._path = path
        self._leases: FileLeases | None = None
        self._writer: ConnectionThread | None = None
        self._looking: sqlite3.Connection | None = None

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
                        f"{describe_kind(connection)} is not a connection to put a turn with",
                        where="Turns.put",
                        hint="pass a sqlite3.Connection to the file of the store, or the"
                        " connection of store.transaction(session)",
                    )
                # in the caller's transaction: the tables are made, and undone, with what it puts
                _make_tables(connection, self._path)
                return work(connection)()
            return await self._current().run(work)
        except sqlite3.Error as error:
            raise explain_sqlite(error, self._path, timeout=_WAIT) from None

    async def take(self, request: TakeRequest) -> TakeResult:
        """The first turns of lines; where there is none to take, nothing is locked or written."""
        values: Values = {
            "apps": [*request.apps],
            "worker": request.worker,
            "most": request.most,
        }
        is_free, due = await self._look(values)
        rows = await self.run(request.statement, values) if is_free else []
        return TakeResult(rows, due, is_sure=True)

    async def leave(self, request: TakeRequest) -> None:
        """Nothing: others look by themselves."""

    async def forget_room(self, worker: str) -> None:
        """Nothing: nobody is woken."""

    def hear(self) -> None:
        """Nothing: it is looked soon enough."""

    async def counts(self, queue: str) -> list[tuple[Cell, ...]]:
        """How many turns there are."""
        return await self.run("SELECT app, status, count FROM turn_counts WHERE count <> 0", {})

    async def gather_counts(self) -> None:
        """Nothing: a file has one writer, and counts once."""

    async def _look(self, values: Values) -> tuple[bool, float | None]:
        """Whether a turn can be taken, and in how many seconds the next is due: microseconds."""
        if self._writer is None:
            await self.open()
        plain = {name: _as_cell(value) for name, value in values.items()}
        try:
            if self._looking is None:
                address = f"{self._path.absolute().as_uri()}?mode=ro"
                self._looking = sqlite3.connect(
                    address, uri=True, timeout=0, isolation_level=None, check_same_thread=False
                )
            row: tuple[int, float | None] = self._looking.execute(_LOOK, plain).fetchone()
        except sqlite3.Error:  # it is locked, or broken: the thread that writes waits, or says so
            return True, None
        return bool(row[0]), row[1]

    async def news(self, seconds: float) -> None:
        """Wait: a file tells nobody that it grew."""
        await asyncio.sleep(seconds)

    async def close(self) -> None:
        """Close the file; the next use opens it again."""
        writer, self._writer = self._writer, None
        leases, self._leases = self._leases, None
        looking, self._looking = self._looking, None
        if looking is not None:
            looking.close()
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
                    raise explain_sqlite(error, self._path, timeout=_WAIT) from None
                except BaseException:
                    connection.close()
                    raise
                return connection

            self._writer = ConnectionThread(f"weft queues in {self._path}", connect, FileWriter())
        return self._writer


_WAIT = 30.0
"""Seconds that a write waits for those of other processes."""

_LOOK = f"""
SELECT EXISTS (
        SELECT 1 FROM turn_lines
        WHERE is_free AND due IS NULL AND app_name IN (SELECT value FROM json_each(:apps))),
    min(
        coalesce((SELECT min(due) FROM turn_lines WHERE is_free AND due IS NOT NULL), 9e99),
        coalesce((SELECT min(due) FROM turns WHERE place IS NULL AND status = 'waiting'), 9e99))
    - {_FILE_NOW}
"""


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

_LINE_INDEXES = """
DROP INDEX {0}turns_waiting;
DROP INDEX {0}turns_delayed;
CREATE INDEX turns_delayed ON {0}turns (due) WHERE place IS NULL AND status = 'waiting';
CREATE INDEX turns_done ON {0}turns (ended_at) WHERE status = 'done'"""

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
    # Lines: what is taken is found there, so the index of all that waits is not needed any more.
    (
        *SERVER_TABLES,
        *INBOX_LINES,
        *_LINE_INDEXES.format("weft.").split(";"),
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
    (*FILE_LINES, *_LINE_INDEXES.format("").split(";")),
)
