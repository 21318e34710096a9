"""A SQLite file of ours: how it is opened, what its tables are, and what can be wrong with it.

An event is found by one number made of its session's and its own, so that appending touches one
place. Each commit writes the page its event lands on as a whole; smaller pages than these would
make a long chain of a large event, which takes many times as long.
"""

import sqlite3
from collections.abc import Sequence
from contextlib import AbstractContextManager
from pathlib import Path
from typing import cast

from weft.errors import StoreError

APPLICATION_ID = 0x57454654
"""What marks a SQLite file as ours: the letters WEFT."""

PAGE_SIZE = 2048
CHECKPOINT_BYTES = 4_000_000

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
)


def open_file(
    path: Path,
    *,
    timeout: float,
    alone: AbstractContextManager[object],
    migrations: Sequence[Migration] = MIGRATIONS,
) -> sqlite3.Connection:
    """A connection to the file, whose tables are made or brought up to date first.

    `alone` is entered while that happens: no two processes may do it at once. A file that is
    not ours is left as it is.
    """
    try:
        connection = sqlite3.connect(
            path, timeout=timeout, isolation_level=None, check_same_thread=False
        )
    except (sqlite3.Error, ValueError) as error:
        raise explained(error, path, timeout=timeout) from None
    try:
        if _version(connection, path, migrations) < len(migrations):
            with alone:
                _migrate(connection, path, migrations)
        connection.execute("PRAGMA synchronous=FULL")
        pages = CHECKPOINT_BYTES // _number(connection, "PRAGMA page_size")
        connection.execute(f"PRAGMA wal_autocheckpoint={pages}")
    except (sqlite3.Error, UnicodeDecodeError) as error:  # damage in the schema is in no words
        connection.close()
        raise explained(error, path, timeout=timeout) from None
    except BaseException:
        connection.close()
        raise
    return connection


def _version(connection: sqlite3.Connection, path: Path, migrations: Sequence[Migration]) -> int:
    """The version of the tables, 0 for a new file; a file that is not ours is refused."""
    version = _number(connection, "PRAGMA user_version")
    if _number(connection, "PRAGMA application_id") != APPLICATION_ID:
        if version or _number(connection, "SELECT count(*) FROM sqlite_master"):
            raise StoreError(
                "this is a SQLite database of another program",
                where=str(path),
                hint="name a file that does not exist yet, and it will be made",
            )
        return 0
    if version > len(migrations):
        raise StoreError(
            f"the file was written by a newer Weft: its tables are version {version}, "
            f"and this one knows up to {len(migrations)}",
            where=str(path),
            hint="upgrade: pip install --upgrade weft",
        )
    return version


def _migrate(connection: sqlite3.Connection, path: Path, migrations: Sequence[Migration]) -> None:
    if _version(connection, path, migrations) == 0:
        connection.execute(f"PRAGMA page_size={PAGE_SIZE}")
        connection.execute("PRAGMA journal_mode=WAL")
    connection.execute("BEGIN IMMEDIATE")
    try:
        # Asked again: another process may have been here before the lock was ours.
        version = _version(connection, path, migrations)
        for statements in migrations[version:]:
            for statement in statements:
                connection.execute(statement)
        connection.execute(f"PRAGMA application_id={APPLICATION_ID}")
        connection.execute(f"PRAGMA user_version={len(migrations)}")
        connection.execute("COMMIT")
    except BaseException:
        if connection.in_transaction:
            connection.execute("ROLLBACK")
        raise


def _number(connection: sqlite3.Connection, query: str) -> int:
    row = cast("tuple[int]", connection.execute(query).fetchone())
    return row[0]


def explained(error: Exception, path: Path, *, timeout: float) -> StoreError:
    """What SQLite's error means here, and what to do about it."""
    code = (
        error.sqlite_errorcode & 0xFF if isinstance(error, sqlite3.Error) and _coded(error) else 0
    )
    if isinstance(error, UnicodeDecodeError):
        code = sqlite3.SQLITE_CORRUPT
    message, hint = str(error), ""
    match code:
        case sqlite3.SQLITE_NOTADB:
            message = "this is not a SQLite database"
            hint = "name a file that does not exist yet, and it will be made"
        case sqlite3.SQLITE_CANTOPEN:
            message, hint = _unopened(path)
        case sqlite3.SQLITE_READONLY:
            message = "the file or its directory is read-only"
            hint = "make both writable: SQLite keeps two more files beside this one"
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


def _unopened(path: Path) -> tuple[str, str]:
    if path.is_dir():
        return "this is a directory", "name a file in it"
    if not path.parent.is_dir():
        return "the directory does not exist", f"make it: mkdir -p {path.parent}"
    return "the file cannot be opened or made", "make the file and its directory writable"


def _coded(error: sqlite3.Error) -> bool:
    """Whether SQLite itself raised this, and so gave it a code."""
    return hasattr(error, "sqlite_errorcode")
