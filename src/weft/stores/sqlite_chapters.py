"""Chapters of long logs in a SQLite file.

Every function here runs on the thread of its connection, inside a transaction that the caller
begins and ends.

Top to bottom: how a file spells the statements, what reads packed events, what reads old ones when
somebody asks for them.
"""

import sqlite3
from collections.abc import Generator, Iterator, Mapping
from contextlib import closing, contextmanager
from pathlib import Path
from typing import TypeVar, cast

from weft.session.talk import FetchTalk
from weft.stores.chapters import TALKS, StoredRow, fetched, unpack
from weft.stores.rows import Fetch, RawRow
from weft.stores.sqlite_file import explained
from weft.stores.steps import Steps, StoreSpelling, StoreStatements

T = TypeVar("T")

ROOM = 2**32
"""How many places a session has in the table of events."""


LENGTH = f"""coalesce((
    SELECT place - number * {ROOM} + 1 FROM events
    WHERE place >= number * {ROOM} AND place < (number + 1) * {ROOM}
    ORDER BY place DESC LIMIT 1), 0)"""
"""How many events the session `number` has."""

FILE_SQL = StoreStatements(
    StoreSpelling(
        schema="",
        blob="CAST({} AS BLOB)",
        position=f"place - :number * {ROOM}",
        between=f"place >= :number * {ROOM} + :first AND place < :number * {ROOM} + :end",
        length=LENGTH,
        newest=f"""LEFT JOIN events ON place = (
            SELECT place FROM events
            WHERE place >= number * {ROOM} AND place < (number + 1) * {ROOM}
            ORDER BY place DESC LIMIT 1)""",
        last=f"place - number * {ROOM} + 1",
        # said outright: SQLite would go through all events of the session by their places
        by_deltas="INDEXED BY deltas",
        place="place",
        at=f":number * {ROOM} + :at",
        lock="",  # a file has one writer
        has_talk="SELECT 1 FROM pragma_table_info('chapters') WHERE name = 'talk'",
    )
)


def run_steps(connection: sqlite3.Connection, steps: Steps[T]) -> T:
    """What comes of the steps, on this connection."""
    rows: object = None
    while True:
        try:
            statement, values = steps.send(rows)
        except StopIteration as end:
            return cast("T", end.value)
        if isinstance(values, Mapping):
            rows = connection.execute(statement, values).fetchall()
        else:
            rows = connection.executemany(statement, values).fetchall()


def older_rows(connection: sqlite3.Connection, number: int, first: int) -> Iterator[RawRow]:
    """The packed events of a session from `first` on, chapter by chapter."""
    starts: list[tuple[int]] = connection.execute(
        "SELECT first FROM chapters WHERE session = ? AND first + length > ?"
        " AND packed IS NOT NULL ORDER BY first",
        (number, first),
    ).fetchall()
    for (start,) in starts:
        for at, row in enumerate(_packed(connection, number, start), start):
            if at >= first:
                yield row.data, row.checksum


def _packed(connection: sqlite3.Connection, number: int, first: int) -> list[StoredRow]:
    """The events of a packed chapter."""
    row: tuple[int, bytes, int] = connection.execute(
        FILE_SQL.packed, {"number": number, "first": first}
    ).fetchone()
    length, data, checksum = row
    return unpack(data, checksum, length)


def fetch_from(path: Path, number: int, *, where: str) -> Fetch:
    """What reads the chapter around a position, on a connection of its own.

    Whoever asks for an old event may be on any thread, and waits for it.
    """

    def fetch(position: int) -> tuple[int, list[bytes]]:
        # its reads see one state: the chapter may be packed between them
        with _reading(path) as connection:
            first, rows, length = _around(connection, number, position)
        return first, fetched(rows, first, length, where=where)

    return fetch


def fetch_talk_from(path: Path, number: int) -> FetchTalk:
    """What reads the talk of some chapters, as `fetch_from` reads their events."""

    def fetch(position: int) -> dict[int, bytes]:
        with _reading(path) as connection:
            if connection.execute(FILE_SQL.has_talk).fetchone() is None:
                return {}
            rows = connection.execute(
                "SELECT first, CAST(talk AS BLOB) FROM chapters WHERE session = ? AND first >= ?"
                " AND talk IS NOT NULL ORDER BY first LIMIT ?",
                (number, position, TALKS),
            )
            return dict(rows.fetchall())

    return fetch


@contextmanager
def _reading(path: Path) -> Generator[sqlite3.Connection, None, None]:
    """A connection for one read, on any thread, in one state of the file."""
    address = f"{path.as_uri()}?mode=ro"
    try:
        with closing(sqlite3.connect(address, uri=True, isolation_level=None)) as connection:
            connection.execute("BEGIN")
            yield connection
    except sqlite3.Error as error:
        raise explained(error, path, timeout=_WAIT) from None


_WAIT = 5.0
"""Seconds that SQLite waits for a lock on its own account."""


def _around(
    connection: sqlite3.Connection, number: int, position: int
) -> tuple[int, list[RawRow], int]:
    """The chapter around a position: where it begins, its rows, and how many there must be."""
    row: tuple[int, int, int | None] | None = connection.execute(
        "SELECT first, length, packed_checksum FROM chapters"
        " WHERE session = ? AND first <= ? ORDER BY first DESC LIMIT 1",
        (number, position),
    ).fetchone()
    first, length, packed = row if row is not None else (position, 1, None)
    if packed is not None:
        rows = [(row.data, row.checksum) for row in _packed(connection, number, first)]
        return first, rows, length
    values = {"number": number, "first": first, "end": first + length}
    stored: list[tuple[float, bytes, int | None]] = connection.execute(
        FILE_SQL.events, values
    ).fetchall()
    return first, [(data, checksum) for _, data, checksum in stored], length
