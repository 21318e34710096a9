"""The PostgreSQL server: how it is reached, how the tables are made, what its errors mean.

The tables live in the schema `weft`. Options of an address that begin with `weft_` are Weft's and
never reach the driver.

Top to bottom: the driver, the tables, the errors, the address with its options, the connections.
"""

import asyncio
import os
import re
from collections.abc import AsyncGenerator, Generator, Sequence
from concurrent.futures import Future
from contextlib import asynccontextmanager, contextmanager
from functools import cache
from threading import Lock, Thread
from typing import NamedTuple, cast
from urllib.parse import parse_qsl, quote, urlencode, urlsplit, urlunsplit

from weft.errors import StoreError, StoreUnreachable, UsageError
from weft.misuse import suggest_names
from weft.stores.rows import HAS_DELTA, require_version

try:
    import psycopg
    from psycopg.conninfo import conninfo_to_dict
except ImportError:
    raise UsageError(
        "the PostgreSQL driver is not installed",
        where="postgresql://",
        hint='pip install "weft[postgres]"',
    ) from None


Connection = psycopg.AsyncConnection[tuple[object, ...]]

Cursor = psycopg.AsyncCursor[tuple[object, ...]]

DriverError = psycopg.Error

UniqueViolation = psycopg.errors.UniqueViolation

ForeignKeyViolation = psycopg.errors.ForeignKeyViolation


KEEPALIVES = {
    "keepalives_idle": "5",
    "keepalives_interval": "2",
    "keepalives_count": "3",
    "tcp_user_timeout": "10000",
}
"""A server that is gone without a word is noticed within about ten seconds."""


CONNECT_SECONDS = "5"
"""How long a server may take to let a client in, unless the address says otherwise."""


async def connect(url: str, *, worker: str = "") -> Connection:
    """A new connection, which commits each statement by itself; the address may say otherwise."""
    return await _maker.connect(connect_options(url, worker))


def connect_at_once(url: str, *, worker: str = "") -> "psycopg.Connection[tuple[object, ...]]":
    """A connection for a thread that waits for it."""
    return psycopg.connect(**connect_options(url, worker))  # type: ignore[arg-type]


def connect_options(url: str, worker: str = "") -> dict[str, object]:
    """What the driver is given: the address stands over our defaults; autocommit is ours alone."""
    return {
        **KEEPALIVES,
        "connect_timeout": os.environ.get("PGCONNECT_TIMEOUT", CONNECT_SECONDS),
        **({"application_name": f"weft {worker}"} if worker else {}),
        **conninfo_to_dict(url),
        "autocommit": True,
    }


class _ConnectionMaker:
    """A thread that makes the connections of this process, with an event loop of its own.

    PostgreSQL does not stop until every client that it has let in has said who it is, or a minute
    is over. Where an event loop is blocked after it has connected and before its first packet, it
    would hold up the restart of the server for that long, and everybody with it. This thread is
    never blocked.
    """

    def __init__(self) -> None:
        self._lock = Lock()
        self._process = 0
        self._loop: asyncio.AbstractEventLoop | None = None

    async def connect(self, options: dict[str, object]) -> Connection:
        """A connection for the event loop that waits here."""
        connecting = psycopg.AsyncConnection.connect(**options)  # type: ignore[arg-type]
        making = asyncio.run_coroutine_threadsafe(connecting, self._running())
        connection = asyncio.wrap_future(making)
        try:
            # not cancelled with whoever waits: then nobody would close what was made meanwhile
            return cast("Connection", await asyncio.shield(connection))
        except asyncio.CancelledError:
            connection.add_done_callback(_look_at)
            making.add_done_callback(_close_unwanted)
            raise

    def _running(self) -> asyncio.AbstractEventLoop:
        with self._lock:
            # a forked child has none of its parent's threads
            if self._loop is None or self._process != os.getpid():
                self._process = os.getpid()
                # the kind that the driver works with on every system
                self._loop = asyncio.SelectorEventLoop()
                Thread(target=self._loop.run_forever, name="weft connects", daemon=True).start()
            return self._loop


def _look_at(connection: "asyncio.Future[psycopg.AsyncConnection]") -> None:
    """Note that it failed, if it did: nobody waits for it any more."""
    if not connection.cancelled():
        connection.exception()


def _close_unwanted(making: "Future[psycopg.AsyncConnection]") -> None:
    if not making.cancelled() and making.exception() is None:
        making.result().pgconn.finish()


_maker = _ConnectionMaker()


# `:name` in a statement, but not the `::type` of PostgreSQL
_NAME = re.compile(r"(?<!:):([a-z_]+)")


@cache
def with_driver_names(statement: str) -> bytes:
    """A statement that is written with `:names` for both databases, as the driver takes it."""
    return _NAME.sub(r"%(\1)s", statement.replace("%", "%%")).encode()


def has_failed(connection: Connection) -> bool:
    """Whether a statement failed in the transaction that the connection is in."""
    return connection.info.transaction_status == psycopg.pq.TransactionStatus.INERROR


# --- the tables

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
    # The state of a long session is read from the few events that wrote to it.
    (f"CREATE INDEX deltas ON weft.events (session, seq) WHERE {HAS_DELTA}",),
    # Unlogged: they cost no flush, and after a crash of the server nobody holds a lease.
    (
        """CREATE UNLOGGED TABLE weft.leases (
            app_name text NOT NULL,
            user_id text NOT NULL,
            id text NOT NULL,
            worker text NOT NULL,
            process integer NOT NULL,
            since double precision NOT NULL,
            PRIMARY KEY (app_name, user_id, id)
        )""",
        """CREATE UNLOGGED TABLE weft.workers (
            worker text PRIMARY KEY,
            beat double precision NOT NULL
        )""",
    ),
    # Long logs in chapters: how many events they cover, and how many of these are packed.
    (
        "ALTER TABLE weft.sessions ADD COLUMN chaptered integer NOT NULL DEFAULT 0",
        "ALTER TABLE weft.sessions ADD COLUMN archived integer NOT NULL DEFAULT 0",
        """CREATE TABLE weft.chapters (
            session bigint NOT NULL REFERENCES weft.sessions ON DELETE CASCADE,
            first integer NOT NULL,
            length integer NOT NULL,
            delta bytea NOT NULL,
            delta_checksum bigint NOT NULL,
            facts bytea NOT NULL,
            checksum bigint NOT NULL,
            newest double precision NOT NULL,
            asks boolean NOT NULL,
            packed bytea,
            packed_checksum bigint,
            talk bytea,
            PRIMARY KEY (session, first)
        )""",
    ),
)


UNDO: Migration = (
    "DROP TABLE weft.chapters",
    "ALTER TABLE weft.sessions DROP COLUMN archived",
    "ALTER TABLE weft.sessions DROP COLUMN chaptered",
)
"""The statements that lead from the newest version of the tables back to the one before, once
packed events are back in their table."""

MIGRATING = 0x57454654
"""The advisory lock that is held while the tables are made or migrated."""


async def migrate(connection: Connection, migrations: Sequence[Migration], *, where: str) -> None:
    """Make the tables, or bring them up to date; one process at a time."""
    # a look without a lock: nearly always the tables are there
    if await version_of(connection, migrations, where=where) >= len(migrations):
        return
    async with connection.transaction():
        await connection.execute("SELECT pg_advisory_xact_lock(%s)", (MIGRATING,))
        # looked at again: another process may have migrated while this one waited for the lock
        version = await version_of(connection, migrations, where=where)
        if version == 0:
            await connection.execute("CREATE SCHEMA IF NOT EXISTS weft")
            await connection.execute("CREATE TABLE weft.version (version integer NOT NULL)")
            await connection.execute("INSERT INTO weft.version VALUES (0)")
        for statements in migrations[version:]:
            for statement in statements:
                await connection.execute(statement.encode())
        # tables may be one version ahead: that must not be written back
        newest = max(version, len(migrations))
        await connection.execute("UPDATE weft.version SET version = %s", (newest,))


async def version_of(connection: Connection, migrations: Sequence[Migration], *, where: str) -> int:
    """The version of the tables, 0 if there are none."""
    # The catalogue is read as a table: to_regclass may answer from before the lock was taken.
    cursor = await connection.execute(
        "SELECT 1 FROM pg_catalog.pg_tables WHERE schemaname = 'weft' AND tablename = 'version'"
    )
    if await cursor.fetchone() is None:
        return 0
    cursor = await connection.execute("SELECT version FROM weft.version")
    row = cast("tuple[int] | None", await cursor.fetchone())
    words = "the tables were written by a newer Weft: they are"
    version = row[0] if row is not None else 0
    return require_version(version, len(migrations), words, where=where)


def place(url: str) -> str:
    """The server and the database, without the password."""
    try:
        parts = conninfo_to_dict(url)
    except psycopg.Error:
        return "postgresql://"
    host, port, database = parts.get("host"), parts.get("port"), parts.get("dbname")
    return f"postgresql://{host or ''}{f':{port}' if port else ''}/{database or ''}"


# --- what its errors mean


@asynccontextmanager
async def explaining(url: str) -> AsyncGenerator[None, None]:
    """Turn errors of the driver into ours."""
    try:
        yield
    except psycopg.Error as error:
        raise explain_postgres(error, url) from None


@contextmanager
def explaining_at_once(url: str) -> Generator[None, None, None]:
    """Turn errors of the driver into ours, for a thread that waits."""
    try:
        yield
    except psycopg.Error as error:
        raise explain_postgres(error, url) from None


def explain_postgres(error: psycopg.Error, url: str) -> StoreError:
    """What the driver's error means here, and what to do about it."""
    words = " ".join(str(error).split()) or type(error).__name__
    match error:
        case psycopg.errors.InsufficientPrivilege():
            message = f"the server does not permit it: {words}"
            hint = "let this role create the schema `weft` once, and write to its tables"
        case psycopg.errors.UniqueViolation() if error.diag.constraint_name == "sessions_pkey":
            # the number is taken, not the name: a restore did not advance the counter
            message = (
                "the counter of weft.sessions is behind its rows, as after a restore of data alone"
            )
            hint = f"run {_RESET_COUNTER}"
        case psycopg.errors.ReadOnlySqlTransaction():
            message = "the server is read-only"
            hint = "connect to the primary: ...?target_session_attrs=read-write"
        case psycopg.errors.DiskFull():
            message = f"there is no room for more: {words}"
            hint = "free some space on the server; what was stored before is safe"
        case psycopg.OperationalError() | psycopg.InterfaceError():
            message = f"the server cannot be reached: {words}"
            hint = "check that it runs and that the address is right; the next use connects again"
            if _is_away(error, words):
                return StoreUnreachable(message, where=place(url), hint=hint)
        case _:
            message, hint = f"PostgreSQL refused: {words}", ""
    return StoreError(message, where=place(url), hint=hint)


_RESET_COUNTER = (
    "SELECT setval(pg_get_serial_sequence('weft.sessions', 'number'),"
    " (SELECT max(number) FROM weft.sessions))"
)

_AWAY = re.compile(
    "starting up|shutting down|in recovery mode|not yet accepting|too many clients"
    "|connection slots|administrator command"
)
"""What a server says that refuses a client now, and not one that has the wrong password."""


def _is_away(error: psycopg.Error, words: str) -> bool:
    """Whether the server may be back soon: nothing else is wrong with the address."""
    if error.sqlstate is not None:
        return error.sqlstate.startswith(("08", "57P", "53300"))
    # of several servers one may be away, and the others refuse
    refusals = words.split("FATAL: ")[1:]
    return not refusals or any(map(_AWAY.search, refusals))


def server_gone(error: Exception, url: str) -> StoreError:
    """What it means that a connection broke while somebody else used it."""
    words = " ".join(str(error).split()) or type(error).__name__
    return StoreError(
        f"the server has ended the connection: {words}",
        where=place(url),
        hint="nothing of the transaction is stored; the next use connects again",
    )


# --- the address, and the connections

CONNECTIONS = 8
"""How many connections work at once, not counting the one that holds the leases."""

LEASE_TIMEOUT = 30.0
"""Seconds of silence after which a run that another waits for counts as dead."""

_LEAST_TIMEOUT = 2.0
"""A process says about every second that it lives."""

_OPTIONS = ("weft_connections", "weft_lease_timeout", "weft_lease_url")


class DatabaseAddress(NamedTuple):
    """Where the server is, and how Weft uses it."""

    url: str
    """What the driver is given."""
    connections: int = CONNECTIONS
    lease_timeout: float | None = LEASE_TIMEOUT
    lease_url: str = ""
    """Another way to the same database, for locks and notifications: past a pooler."""


def read_address(url: str) -> DatabaseAddress:
    """The address with Weft's own options taken out of it."""
    parts = urlsplit(url)
    options = parse_qsl(parts.query, keep_blank_values=True)
    # the common case: the driver gets the address as it was written
    if not any(name.startswith("weft") for name, _ in options):
        return DatabaseAddress(url)
    own = {name: value for name, value in options if name.startswith("weft")}
    rest = urlencode([one for one in options if one[0] not in own], quote_via=quote)
    address = DatabaseAddress(urlunsplit(parts._replace(query=rest)))
    for name, value in own.items():
        match name:
            case "weft_connections" if value.isdecimal() and int(value) > 0:
                address = address._replace(connections=int(value))
            case "weft_lease_timeout" if value == "none":
                address = address._replace(lease_timeout=None)
            case "weft_lease_timeout" if _seconds(value):
                address = address._replace(lease_timeout=_seconds(value))
            case "weft_lease_url" if value.startswith(("postgresql://", "postgres://")):
                address = address._replace(lease_url=value)
            case _:
                raise _wrong_option(name, value, where=place(address.url))
    return address


def _seconds(text: str) -> float:
    """How many seconds a text says; 0 where it says none that could be meant."""
    try:
        seconds = float(text)
    except ValueError:
        return 0.0
    return seconds if _LEAST_TIMEOUT <= seconds < 1e9 else 0.0


def _wrong_option(name: str, value: str, *, where: str) -> UsageError:
    if name not in _OPTIONS:
        listed = ", ".join(_OPTIONS)
        hint = f"{suggest_names(name, _OPTIONS)}; options: {listed}".removeprefix("; ")
        return UsageError(f"the address has no option `{name}`", where=where, hint=hint)
    hint = {
        "weft_connections": "write a number from 1 on: weft_connections=4",
        "weft_lease_timeout": "write seconds from 2 on, or none: weft_lease_timeout=30",
        "weft_lease_url": "write an address with its special characters quoted:"
        " weft_lease_url=postgresql%3A%2F%2Fhost%2Fdatabase",
    }[name]
    text = "..." if name == "weft_lease_url" else value  # a login is not for logs and screens
    return UsageError(f"{name}={text}", where=where, hint=hint)


class ConnectionPool:
    """The connections of one event loop: some to work with, and one that holds the leases.

    A connection that broke takes the idle ones with it: they broke as well. The next use
    connects again.
    """

    def __init__(
        self, address: DatabaseAddress, worker: str, migrations: Sequence[Migration] = MIGRATIONS
    ) -> None:
        self.loop = asyncio.get_running_loop()
        self.worker = worker
        self._url = address.url
        self._lease_url = address.lease_url or address.url
        self._migrations = migrations
        self._room = asyncio.Semaphore(address.connections)
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
                # cancelled inside a statement: its answer would go to whoever is next
                await connection.close()
                raise
            self._idle.append(connection)

    async def leasing(self) -> Connection:
        """The connection whose locks are the leases of this process."""
        async with self._lock:
            # under the lock: two tasks must not make two connections with half of the locks each
            if self._leasing is None or self._leasing.closed:
                self._leasing = await self.connect(leasing=True)
            return self._leasing

    async def connect(self, *, leasing: bool = False) -> Connection:
        """A new connection, to tables that are there and up to date."""
        url = self._lease_url if leasing else self._url
        async with explaining(url):
            connection = await connect(url, worker=self.worker)
            try:
                if not self._migrated:
                    # once a pool, not with every connection
                    await migrate(connection, self._migrations, where=place(self._url))
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
