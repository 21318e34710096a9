"""Chapters of long logs in a SQLite file: written, packed, read, and put back.

Every function here runs on the thread of its connection, inside a transaction that the caller
begins and ends.
"""

import sqlite3
from collections.abc import Generator, Iterator
from contextlib import closing, contextmanager
from pathlib import Path
from typing import NamedTuple, cast

from weft.session import SessionKey
from weft.session.talk import FetchTalk
from weft.stores.chapters import (
    TALKS,
    Chapter,
    DeltaRow,
    StoredRow,
    chapter_end,
    fetched,
    next_chapter,
    pack,
    read_chapters,
    read_deltas,
    require_checksum,
    require_whole,
    session_checksum,
    unpack,
)
from weft.stores.rows import Fetch, RawRow
from weft.stores.sqlite_file import explained

ROOM = 2**32
"""How many places a session has in the table of events."""


class Covered(NamedTuple):
    """How far the chapters of a session go: so many events, of which the first are packed."""

    number: int
    chaptered: int
    archived: int


def covered(connection: sqlite3.Connection, key: SessionKey) -> Covered | None:
    """How far the chapters of a session go; None where it is not there."""
    row = cast(
        "tuple[int, int, int] | None",
        connection.execute(
            "SELECT number, chaptered, archived FROM sessions"
            " WHERE app_name = ? AND user_id = ? AND id = ?",
            key,
        ).fetchone(),
    )
    return Covered(*row) if row is not None else None


def chapters_of(
    connection: sqlite3.Connection, number: int, chaptered: int
) -> list[Chapter] | None:
    """The chapters of a session, without their events; None where they cannot be read."""
    rows = connection.execute(
        "SELECT first, length, CAST(delta AS BLOB), delta_checksum, CAST(facts AS BLOB), checksum"
        " FROM chapters WHERE session = ? ORDER BY first",
        (number,),
    )
    return read_chapters(cast("list[tuple[*DeltaRow, bytes, int]]", rows.fetchall()), chaptered)


def deltas_of(connection: sqlite3.Connection, number: int, chaptered: int) -> list[bytes] | None:
    """What the chapters of a session write to its state; None where they cannot be read."""
    rows = connection.execute(
        "SELECT first, length, CAST(delta AS BLOB), delta_checksum FROM chapters"
        " WHERE session = ? ORDER BY first",
        (number,),
    )
    return read_deltas(cast("list[DeltaRow]", rows.fetchall()), chaptered)


def add_chapter(
    connection: sqlite3.Connection, key: SessionKey, limit: int | None = None
) -> int | None:
    """Write the next chapter of a session, of events before `limit`; where it ends, or None.

    Without a limit it is written only if there is a whole one, and some events behind it.
    """
    known = covered(connection, key)
    if known is None:
        return None
    number, first, _ = known
    end = chapter_end(first, _length(connection, number), limit)
    if end is None:
        return None
    # a chapter behind damaged ones would never be used
    earlier = chapters_of(connection, number, first)
    if earlier is None:
        return None
    # one more than the chapter: it shows where the turn ends
    rows = _stored(connection, number, first, end + 1)
    chapter = next_chapter(rows, first, earlier, where=str(key))
    if chapter is None:
        return None
    *facts, talk = chapter
    connection.execute(
        "INSERT INTO chapters (session, first, length, delta, delta_checksum, facts, checksum,"
        " newest, asks) VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?)",
        (number, *facts),
    )
    if talk is not None and _has_talk(connection):
        connection.execute(
            "UPDATE chapters SET talk = ? WHERE session = ? AND first = ?", (talk, number, first)
        )
    end = first + chapter.length
    connection.execute("UPDATE sessions SET chaptered = ? WHERE number = ?", (end, number))
    return end


def limit_of(
    connection: sqlite3.Connection, key: SessionKey, keep_recent: int, before: float | None
) -> int | None:
    """How many of the first events may be archived: not the newest, nor any behind a later one."""
    known = covered(connection, key)
    if known is None:
        return None
    start = known.number * ROOM
    limit = max(_length(connection, known.number) - keep_recent, 0)
    if before is None:
        return limit
    row = cast(
        "tuple[int | None]",
        connection.execute(
            "SELECT min(place) FROM events WHERE place >= ? AND place < ? AND timestamp >= ?",
            (start, start + limit, before),
        ).fetchone(),
    )
    return limit if row[0] is None else row[0] - start


def pack_chapter(connection: sqlite3.Connection, key: SessionKey, limit: int) -> int | None:
    """Pack the first chapter that has its events in the table; how many, or None if none is left.

    In one transaction the events go from the one table to the other: they are always in one.
    """
    known = covered(connection, key)
    if known is None or known.archived >= known.chaptered:
        return None
    number, _, first = known
    (length,) = cast(
        "tuple[int]",
        connection.execute(
            "SELECT length FROM chapters WHERE session = ? AND first = ?", (number, first)
        ).fetchone(),
    )
    if first + length > limit:
        # a chapter is packed as a whole, or not at all
        return None
    packed = pack(_stored(connection, number, first, first + length))
    connection.execute(
        "UPDATE chapters SET packed = ?, packed_checksum = ? WHERE session = ? AND first = ?",
        (*packed, number, first),
    )
    connection.execute(
        "DELETE FROM events WHERE place >= ? AND place < ?",
        (number * ROOM + first, number * ROOM + first + length),
    )
    set_archived(connection, number, first + length)
    return length


def set_archived(connection: sqlite3.Connection, number: int, archived: int) -> None:
    """Note how many events are packed.

    The checksum of the session says so too: a process of a version that knows no chapters refuses
    the session, instead of taking it for a shorter one.
    """
    app, user, id, created, state, checksum, before = cast(
        "tuple[str, str, str, float, str, int | None, int]",
        connection.execute(
            "SELECT app_name, user_id, id, created, state, checksum, archived FROM sessions"
            " WHERE number = ?",
            (number,),
        ).fetchone(),
    )
    cells = app, user, id, created, state
    require_checksum(cells, before, checksum)
    connection.execute(
        "UPDATE sessions SET archived = ?, checksum = ? WHERE number = ?",
        (archived, session_checksum(cells, archived), number),
    )


def unpack_all(connection: sqlite3.Connection) -> None:
    """Put the events of all packed chapters back into the table of events."""
    packed = cast(
        "list[tuple[int, int]]",
        connection.execute(
            "SELECT session, first FROM chapters WHERE packed IS NOT NULL"
        ).fetchall(),
    )
    for number, first in packed:
        rows = [*_packed(connection, number, first)]
        require_whole([row for _, row in rows], first, where=f"session number {number}")
        connection.executemany(
            "INSERT INTO events (place, timestamp, event, checksum) VALUES (?, ?, ?, ?)",
            [
                (number * ROOM + at, row.timestamp, row.data.decode(), row.checksum)
                for at, row in rows
            ],
        )
    for number in {number for number, _ in packed}:
        set_archived(connection, number, 0)


def older_rows(connection: sqlite3.Connection, number: int, first: int) -> Iterator[RawRow]:
    """The packed events of a session from `first` on, chapter by chapter."""
    starts = cast(
        "list[tuple[int]]",
        connection.execute(
            "SELECT first FROM chapters WHERE session = ? AND first + length > ?"
            " AND packed IS NOT NULL ORDER BY first",
            (number, first),
        ).fetchall(),
    )
    for (start,) in starts:
        for at, row in _packed(connection, number, start):
            if at >= first:
                yield row.data, row.checksum


def newer_than(
    connection: sqlite3.Connection, number: int, after: float
) -> list[tuple[int, bytes, int | None]]:
    """The packed events with a later timestamp, with their positions."""
    starts = cast(
        "list[tuple[int]]",
        connection.execute(
            "SELECT first FROM chapters WHERE session = ? AND newest > ? AND packed IS NOT NULL"
            " ORDER BY first",
            (number, after),
        ).fetchall(),
    )
    return [
        (at, row.data, row.checksum)
        for (start,) in starts
        for at, row in _packed(connection, number, start)
        if row.timestamp > after
    ]


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
            if not _has_talk(connection):
                return {}
            rows = connection.execute(
                "SELECT first, CAST(talk AS BLOB) FROM chapters WHERE session = ? AND first >= ?"
                " AND talk IS NOT NULL ORDER BY first LIMIT ?",
                (number, position, TALKS),
            )
            return dict(cast("list[tuple[int, bytes]]", rows.fetchall()))

    return fetch


def _has_talk(connection: sqlite3.Connection) -> bool:
    """Whether chapters have a column for it: those of earlier tables do not."""
    columns = "SELECT 1 FROM pragma_table_info('chapters') WHERE name = 'talk'"
    return connection.execute(columns).fetchone() is not None


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
    row = cast(
        "tuple[int, int, int | None] | None",
        connection.execute(
            "SELECT first, length, packed_checksum FROM chapters"
            " WHERE session = ? AND first <= ? ORDER BY first DESC LIMIT 1",
            (number, position),
        ).fetchone(),
    )
    first, length, packed = row if row is not None else (position, 1, None)
    if packed is not None:
        rows = [(row.data, row.checksum) for _, row in _packed(connection, number, first)]
        return first, rows, length
    cursor = connection.execute(
        "SELECT CAST(event AS BLOB), checksum FROM events"
        " WHERE place >= ? AND place < ? ORDER BY place",
        (number * ROOM + first, number * ROOM + first + length),
    )
    return first, cast("list[RawRow]", cursor.fetchall()), length


def _packed(
    connection: sqlite3.Connection, number: int, first: int
) -> Iterator[tuple[int, StoredRow]]:
    """The events of a packed chapter, with their positions."""
    length, data, checksum = cast(
        "tuple[int, bytes, int]",
        connection.execute(
            "SELECT length, CAST(packed AS BLOB), packed_checksum FROM chapters"
            " WHERE session = ? AND first = ?",
            (number, first),
        ).fetchone(),
    )
    yield from enumerate(unpack(data, checksum, length), first)


def _stored(connection: sqlite3.Connection, number: int, first: int, end: int) -> list[StoredRow]:
    """The rows of the table of events between two positions."""
    rows = cast(
        "list[tuple[float, bytes, int | None]]",
        connection.execute(
            "SELECT timestamp, CAST(event AS BLOB), checksum FROM events"
            " WHERE place >= ? AND place < ? ORDER BY place",
            (number * ROOM + first, number * ROOM + end),
        ).fetchall(),
    )
    return [StoredRow(*row) for row in rows]


def _length(connection: sqlite3.Connection, number: int) -> int:
    row = cast(
        "tuple[int] | None",
        connection.execute(
            "SELECT place FROM events WHERE place >= ? AND place < ? ORDER BY place DESC LIMIT 1",
            (number * ROOM, (number + 1) * ROOM),
        ).fetchone(),
    )
    return row[0] - number * ROOM + 1 if row is not None else 0
