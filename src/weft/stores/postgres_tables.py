"""The tables in PostgreSQL: how to connect, how the tables are made, what the server's errors mean.

They live in the schema `weft`.
"""

from collections.abc import AsyncGenerator, Generator, Sequence
from contextlib import asynccontextmanager, contextmanager
from typing import cast

from weft.errors import StoreError, UsageError
from weft.stores.rows import HAS_DELTA

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


async def connect(url: str, *, worker: str = "") -> Connection:
    """A new connection, which commits each statement by itself; the address may say otherwise."""
    named = {"application_name": f"weft {worker}"} if worker else {}
    # what the address says stands over our defaults; autocommit is ours alone
    options = {**KEEPALIVES, **named, **conninfo_to_dict(url), "autocommit": True}
    connection = await psycopg.AsyncConnection.connect(**options)  # type: ignore[arg-type]
    return cast("Connection", connection)


def connect_at_once(url: str) -> "psycopg.Connection[tuple[object, ...]]":
    """A connection for a thread that waits for it, and reads only."""
    options = {**KEEPALIVES, **conninfo_to_dict(url), "autocommit": True}
    return psycopg.connect(**options)  # type: ignore[arg-type]


def has_failed(connection: Connection) -> bool:
    """Whether a statement failed in the transaction that the connection is in."""
    return connection.info.transaction_status == psycopg.pq.TransactionStatus.INERROR


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

AHEAD = 1
"""How many versions newer tables may be. A version only adds to the one before it, so that old and
new processes can work side by side while one after the other is upgraded."""

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
    version = row[0] if row is not None else 0
    if version > len(migrations) + AHEAD:
        raise StoreError(
            f"the tables were written by a newer Weft: they are version {version}, "
            f"and this one knows up to {len(migrations)}",
            where=where,
            hint="upgrade: pip install --upgrade weft; or with the newer one, go back a version:"
            " weft store downgrade",
        )
    return version


def place(url: str) -> str:
    """The server and the database, without the password."""
    try:
        parts = conninfo_to_dict(url)
    except psycopg.Error:
        return "postgresql://"
    host, port, database = parts.get("host"), parts.get("port"), parts.get("dbname")
    return f"postgresql://{host or ''}{f':{port}' if port else ''}/{database or ''}"


@asynccontextmanager
async def explaining(url: str) -> AsyncGenerator[None, None]:
    """Turn errors of the driver into ours."""
    try:
        yield
    except psycopg.Error as error:
        raise explained(error, url) from None


@contextmanager
def explaining_at_once(url: str) -> Generator[None, None, None]:
    """Turn errors of the driver into ours, for a thread that waits."""
    try:
        yield
    except psycopg.Error as error:
        raise explained(error, url) from None


def explained(error: psycopg.Error, url: str) -> StoreError:
    """What the driver's error means here, and what to do about it."""
    words = " ".join(str(error).split()) or type(error).__name__
    match error:
        case psycopg.errors.InsufficientPrivilege():
            message = f"the server does not permit it: {words}"
            hint = "let this role create the schema `weft` once, and write to its tables"
        case psycopg.errors.ReadOnlySqlTransaction():
            message = "the server is read-only"
            hint = "connect to the primary: ...?target_session_attrs=read-write"
        case psycopg.errors.DiskFull():
            message = f"there is no room for more: {words}"
            hint = "free some space on the server; what was stored before is safe"
        case psycopg.OperationalError() | psycopg.InterfaceError():
            message = f"the server cannot be reached: {words}"
            hint = "check that it runs and that the address is right; the next use connects again"
        case _:
            message, hint = f"PostgreSQL refused: {words}", ""
    return StoreError(message, where=place(url), hint=hint)


def server_gone(error: Exception, url: str) -> StoreError:
    """What it means that a connection broke while somebody else used it."""
    words = " ".join(str(error).split()) or type(error).__name__
    return StoreError(
        f"the server has ended the connection: {words}",
        where=place(url),
        hint="nothing of the transaction is stored; the next use connects again",
    )
