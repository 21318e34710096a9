"""The SQLite file: open and migrate it, check that it is whole, explain its errors."""

import logging
import sqlite3
from collections.abc import Iterable, Sequence
from contextlib import AbstractContextManager
from pathlib import Path
from threading import Lock
from typing import cast

from weft.errors import StoreError
from weft.stores.rows import HAS_DELTA, checksum_of, require_version

APPLICATION_ID = 0x57454654
"""What marks a SQLite file as ours: the letters WEFT."""

# An append rewrites whole pages. Smaller ones make each write of a long session smaller.
PAGE_SIZE = 2048

# How long the log written ahead gets before SQLite moves it into the file.
CHECKPOINT_BYTES = 4_000_000

CHECKED_BYTES = 16_000_000
"""Files up to this size are checked as a whole once when they are opened: some 30 ms."""

_log = logging.getLogger("weft")

Migration = Sequence[str]
"""The statements that lead from one version of the tables to the next."""

MIGRATIONS: tuple[Migration, ...] = (
    (
        # AUTOINCREMENT: a number is never used again, not even that of a deleted session.
        """CREATE TABLE sessions (
            number INTEGER PRIMARY KEY AUTOINCREMENT,
            app_name TEXT NOT NULL,
            user_id TEXT NOT NULL,
            id TEXT NOT NULL,
            created REAL NOT NULL,
            state TEXT NOT NULL,
            UNIQUE (app_name, user_id, id)
        )""",
        # place = session number * 2^32 + the event's position in its session, from 0.
        """CREATE TABLE events (
            place INTEGER PRIMARY KEY,
            timestamp REAL NOT NULL,
            event TEXT NOT NULL
        )""",
        """CREATE TABLE app_state (
            app_name TEXT NOT NULL,
            key TEXT NOT NULL,
            value TEXT NOT NULL,
            PRIMARY KEY (app_name, key)
        ) WITHOUT ROWID""",
        """CREATE TABLE user_state (
            app_name TEXT NOT NULL,
            user_id TEXT NOT NULL,
            key TEXT NOT NULL,
            value TEXT NOT NULL,
            PRIMARY KEY (app_name, user_id, key)
        ) WITHOUT ROWID""",
        # A run in another process asks the holder of a session to stop.
        """CREATE TABLE interrupts (
            app_name TEXT NOT NULL,
            user_id TEXT NOT NULL,
            id TEXT NOT NULL,
            asked REAL NOT NULL,
            PRIMARY KEY (app_name, user_id, id)
        ) WITHOUT ROWID""",
    ),
    # What was stored before has none.
    ("ALTER TABLE events ADD COLUMN checksum INTEGER",),
    (
        "ALTER TABLE sessions ADD COLUMN checksum INTEGER",
        "ALTER TABLE app_state ADD COLUMN checksum INTEGER",
        "ALTER TABLE user_state ADD COLUMN checksum INTEGER",
    ),
    # The state of a long session is read from the few events that wrote to it.
    (f"CREATE INDEX deltas ON events (place) WHERE {HAS_DELTA}",),
    # Long logs in chapters: how many events they cover, and how many of these are packed.
    (
        "ALTER TABLE sessions ADD COLUMN chaptered INTEGER NOT NULL DEFAULT 0",
        "ALTER TABLE sessions ADD COLUMN archived INTEGER NOT NULL DEFAULT 0",
        """CREATE TABLE chapters (
            session INTEGER NOT NULL,
            first INTEGER NOT NULL,
            length INTEGER NOT NULL,
            delta BLOB NOT NULL,
            delta_checksum INTEGER NOT NULL,
            facts BLOB NOT NULL,
            checksum INTEGER NOT NULL,
            newest REAL NOT NULL,
            asks INTEGER NOT NULL,
            packed BLOB,
            packed_checksum INTEGER,
            talk BLOB,
            PRIMARY KEY (session, first)
        )""",
        # A process of the version before deletes sessions too, and knows no chapters.
        """CREATE TRIGGER forget_chapters AFTER DELETE ON sessions
        BEGIN DELETE FROM chapters WHERE session = OLD.number; END""",
    ),
)


UNDO: Migration = (
    "DROP TRIGGER forget_chapters",
    "DROP TABLE chapters",
    "ALTER TABLE sessions DROP COLUMN archived",
    "ALTER TABLE sessions DROP COLUMN chaptered",
)
"""The statements that lead from the newest version of the tables back to the one before, once
packed events are back in their table."""


def open_file(
    path: Path,
    *,
    timeout: float,
    alone: AbstractContextManager[object],
    migrations: Sequence[Migration] = MIGRATIONS,
    factory: type[sqlite3.Connection] = sqlite3.Connection,
) -> sqlite3.Connection:
    """A connection to the file, whose tables are made or brought up to date first.

    `alone` is entered while that happens: no two processes may do it at once. A file that is
    not ours is left as it is.
    """
    try:
        connection = sqlite3.connect(
            path, timeout=timeout, isolation_level=None, check_same_thread=False, factory=factory
        )
    except (sqlite3.Error, ValueError) as error:
        raise explain_sqlite(error, path, timeout=timeout) from None
    try:
        if file_version(connection, path, migrations) < len(migrations):
            with alone:
                _migrate(connection, path, migrations)
        connection.execute("PRAGMA synchronous=FULL")
        pages = CHECKPOINT_BYTES // _number(connection, "PRAGMA page_size")
        connection.execute(f"PRAGMA wal_autocheckpoint={pages}")
    except (sqlite3.Error, UnicodeDecodeError) as error:  # damage in the schema is in no words
        connection.close()
        raise explain_sqlite(error, path, timeout=timeout) from None
    except BaseException:
        connection.close()
        raise
    return connection


def rewrite_file(connection: sqlite3.Connection, path: Path) -> None:
    """Write all of the file anew, and empty the log written ahead: what was deleted is gone.

    SQLite only marks what is deleted as free, in the file and in its log.
    """
    connection.execute("PRAGMA secure_delete=ON")
    connection.execute("VACUUM")
    rewrite_log(connection, path)


def rewrite_log(connection: sqlite3.Connection, path: Path) -> None:
    """Write all of the log written ahead into the file, have that flushed, and empty the log."""
    cursor = connection.execute("PRAGMA wal_checkpoint(TRUNCATE)")
    blocked, _, _ = cast("tuple[int, int, int]", cursor.fetchone())
    if blocked:
        raise StoreError(
            "another process reads the file, so its log cannot be emptied",
            where=str(path),
            hint="end long transactions of other programs on the file, and do it again",
        )


def leave_flushing(connection: sqlite3.Connection) -> None:
    """Have commits not wait for the disk: the caller flushes the log written ahead by itself.

    Where there is no such log, SQLite goes on to flush every commit.
    """
    (mode,) = cast("tuple[str]", connection.execute("PRAGMA journal_mode").fetchone())
    if mode == "wal":
        connection.execute("PRAGMA synchronous=NORMAL")


def file_version(
    connection: sqlite3.Connection, path: Path, migrations: Sequence[Migration] = MIGRATIONS
) -> int:
    """The version of the tables, 0 for a new file; a file that is not ours is refused."""
    version = _number(connection, "PRAGMA user_version")
    has_tables = _number(connection, "SELECT count(*) FROM sqlite_master") > 0
    # asked last: who makes the tables at this moment commits them together with the id
    if _number(connection, "PRAGMA application_id") != APPLICATION_ID:
        # an empty file is nobody's yet, and becomes ours
        if version or has_tables:
            raise StoreError(
                "this is a SQLite database of another program",
                where=str(path),
                hint="name a file that does not exist yet, and it will be made",
            )
        return 0
    words = "the file was written by a newer Weft: its tables are"
    return require_version(version, len(migrations), words, where=str(path))


def _migrate(connection: sqlite3.Connection, path: Path, migrations: Sequence[Migration]) -> None:
    if file_version(connection, path, migrations) == 0:
        # both last as long as the file, and the page size is fixed once there is a log
        connection.execute(f"PRAGMA page_size={PAGE_SIZE}")
        connection.execute("PRAGMA journal_mode=WAL")
    connection.execute("BEGIN IMMEDIATE")
    try:
        # Asked again: another process may have been here before the lock was ours.
        version = file_version(connection, path, migrations)
        for statements in migrations[version:]:
            for statement in statements:
                connection.execute(statement)
        connection.execute(f"PRAGMA application_id={APPLICATION_ID}")
        connection.execute(f"PRAGMA user_version={max(version, len(migrations))}")
        connection.execute("COMMIT")
    except BaseException:
        if connection.in_transaction:
            connection.execute("ROLLBACK")
        raise


def _number(connection: sqlite3.Connection, query: str) -> int:
    row = cast("tuple[int]", connection.execute(query).fetchone())
    return row[0]


class WholeFile:
    """Whether the file is whole. It is checked once, with its first use.

    A file larger than `CHECKED_BYTES` is not checked as a whole: that would take too long. Its
    rows are verified as they are read.
    """

    def __init__(self, path: Path) -> None:
        self._path = path
        self._lock = Lock()
        self._damage: str | None = None

    def damage(self, connection: sqlite3.Connection) -> str:
        """What is wrong with the file, or nothing."""
        with self._lock:
            if self._damage is None:
                # once: the check reads the whole file
                small = self._path.stat().st_size <= CHECKED_BYTES
                self._damage = damage(connection) if small else ""
            return self._damage

    @property
    def is_sound(self) -> bool:
        """Whether the file was checked, and nothing is wrong with it."""
        return self._damage == ""

    def require(self, connection: sqlite3.Connection) -> None:
        """Refuse a damaged file: nobody could tell what it lacks."""
        if damage := self.damage(connection):
            raise StoreError(
                f"the file is damaged: {damage}",
                where=str(self._path),
                hint="restore it from a backup, or read what is left of a session: "
                "store.get(key, skip_unreadable=True)",
            )

    def warn(self, connection: sqlite3.Connection) -> None:
        """Log that something may be missing."""
        if damage := self.damage(connection):
            _log.warning("%s: the file is damaged: %s; some may be missing", self._path, damage)


def damage(connection: sqlite3.Connection) -> str:
    """What is wrong with the file as a whole, or nothing. The rows of one session cannot tell that.

    A row whose name is damaged is missing elsewhere, and so is one that its index lost.
    """
    try:
        (verdict,) = cast("tuple[str]", connection.execute("PRAGMA integrity_check(1)").fetchone())
        if verdict != "ok":
            return " ".join(verdict.split())
        for table, query in _NAMED_ROWS:
            rows = cast(
                "Iterable[tuple[int, bytes, *tuple[float | bytes, ...]]]", connection.execute(query)
            )
            for checksum, *cells in rows:
                if checksum_of(*cells) != checksum:
                    return f"a row of {table} is not what was stored"
        orphan = connection.execute(_ORPHAN).fetchone()
    except sqlite3.OperationalError:  # locked, for instance: that says nothing about the file
        raise
    except sqlite3.DatabaseError as error:
        return str(error)
    return "it has events of no session" if orphan else ""


_NAMED_ROWS = (
    (
        "sessions",
        "SELECT checksum, CAST(app_name AS BLOB), CAST(user_id AS BLOB), CAST(id AS BLOB),"
        " created, CAST(state AS BLOB) FROM sessions WHERE checksum IS NOT NULL AND archived = 0",
    ),
    (
        "sessions",
        "SELECT checksum, CAST(app_name AS BLOB), CAST(user_id AS BLOB), CAST(id AS BLOB),"
        " created, CAST(state AS BLOB), archived FROM sessions WHERE archived > 0",
    ),
    (
        "app_state",
        "SELECT checksum, CAST(app_name AS BLOB), CAST(key AS BLOB), CAST(value AS BLOB)"
        " FROM app_state WHERE checksum IS NOT NULL",
    ),
    (
        "user_state",
        "SELECT checksum, CAST(app_name AS BLOB), CAST(user_id AS BLOB), CAST(key AS BLOB),"
        " CAST(value AS BLOB) FROM user_state WHERE checksum IS NOT NULL",
    ),
)

_ORPHAN = """SELECT 1 FROM (SELECT DISTINCT place / 4294967296 AS session FROM events)
WHERE session NOT IN (SELECT number FROM sessions) LIMIT 1"""


def explain_sqlite(error: Exception, path: Path, *, timeout: float) -> StoreError:
    """What SQLite's error means here, and what to do about it."""
    code = (
        # extended codes have the plain one in their low byte
        error.sqlite_errorcode & 0xFF
        if isinstance(error, sqlite3.Error) and _has_code(error)
        else 0
    )
    if isinstance(error, UnicodeDecodeError):
        # SQLite hands out damaged text as it is, and Python cannot decode it
        code = sqlite3.SQLITE_CORRUPT
    if code == sqlite3.SQLITE_IOERR and path.is_dir():
        # SQLite opens a directory to read it, and only then fails
        code = sqlite3.SQLITE_CANTOPEN
    message, hint = str(error), ""
    match code:
        case sqlite3.SQLITE_NOTADB:
            message = "this is not a SQLite database"
            hint = "name a file that does not exist yet, and it will be made"
        case sqlite3.SQLITE_CANTOPEN:
            message, hint = _explain_unopened(path)
        case sqlite3.SQLITE_READONLY:
            message = "the file or its directory is read-only"
            hint = "make both writable: SQLite keeps two more files next to this one"
        case sqlite3.SQLITE_FULL:
            message = f"there is no room for more: {error}"
            hint = "free some space; what was stored before is safe"
        case sqlite3.SQLITE_BUSY | sqlite3.SQLITE_LOCKED:
            message = f"another process has kept the database locked for {timeout:g} seconds"
            hint = "end its transaction, or wait longer: SqliteStore(path, timeout=...)"
        case sqlite3.SQLITE_CORRUPT:
            message = f"the file is damaged: {error}"
            hint = "restore it from a backup, or save what is left: sqlite3 FILE .recover"
        case sqlite3.SQLITE_IOERR:
            message = f"the disk failed: {error}"
            hint = "check the disk and its mount; what was stored before is safe"
        case _:
            message = f"SQLite refused: {error}"
    return StoreError(message, where=str(path), hint=hint)


def _explain_unopened(path: Path) -> tuple[str, str]:
    if path.is_dir():
        return "this is a directory", "name a file in it"
    if not path.parent.is_dir():
        return "the directory does not exist", f"make it: mkdir -p {path.parent}"
    return "the file cannot be opened or made", "make the file and its directory writable"


def _has_code(error: sqlite3.Error) -> bool:
    """Whether SQLite itself raised this, and so gave it a code."""
    return hasattr(error, "sqlite_errorcode")
