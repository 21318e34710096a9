"""The tables of a SQLite file: how statements are spelled for it, and what only a file does.

Every function here runs on the thread of its connection, inside a transaction that the caller
begins and ends.

Top to bottom: the spelling, who runs steps, the newest events, new rows, a glance, tallies.
"""

import sqlite3
from collections.abc import Iterator, Mapping, Sequence
from contextlib import closing
from functools import partial
from pathlib import Path
from typing import NamedTuple, TypeVar, cast

import msgspec

from weft.session import SessionKey
from weft.session.memory import Growth, StoredSession
from weft.session.store import Count
from weft.stores.cache import (
    SLICE,
    SessionCache,
    catch_up,
    event_reader,
    read_readable,
)
from weft.stores.chapters import open_log
from weft.stores.rows import RawRow, StateReader, encode_event, encode_value
from weft.stores.sqlite_file import explain_sqlite
from weft.stores.statements import QueueStatements, Steps, StoreSpelling, StoreStatements
from weft.stores.steps import SessionRow, chapters_of, fetch_from, fetch_talk_from, read_log
from weft.values import JsonObject

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
        start=f"number * {ROOM}",
        since=f"place >= {{}} AND place < (number + 1) * {ROOM}",
        placed="place",
        later=f"""LEFT JOIN events AS later
            ON place >= number * {ROOM} + :after AND place < (number + 1) * {ROOM}""",
        wanted="""(
            SELECT json_extract(value, '$[0]') AS app, json_extract(value, '$[1]') AS owner,
                json_extract(value, '$[2]') AS name FROM json_each(:keys))""",
        asked=":asked",
        delete_session="""
            DELETE FROM sessions WHERE app_name = :app_name AND user_id = :user_id AND id = :id
            RETURNING number""",
        cascades=False,
        user_tables=("user_state", "interrupts"),
        find_queues="SELECT name FROM sqlite_master WHERE type = 'table' AND name = 'turns'",
        queues={
            "turns": QueueStatements(
                """DELETE FROM turns WHERE app_name = :app_name AND user_id = :user_id
                    AND session = coalesce(:session, session)""",
                "SELECT DISTINCT app_name FROM turns WHERE user_id = :user_id",
            )
        },
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


def _read_alone(path: Path, steps: Steps[T]) -> T:
    """What comes of the steps, on a connection for one read, in one state of the file."""
    address = f"{path.as_uri()}?mode=ro"
    try:
        with closing(sqlite3.connect(address, uri=True, isolation_level=None)) as connection:
            connection.execute("BEGIN")
            return run_steps(connection, steps)
    except sqlite3.Error as error:
        raise explain_sqlite(error, path, timeout=_WAIT) from None


_WAIT = 5.0
"""Seconds that SQLite waits for a lock on its own account."""


def _session_row(
    connection: sqlite3.Connection, key: SessionKey, known: int = 0
) -> SessionRow | None:
    """The row of a session; without its state, if its number is the one that is known."""
    row: tuple[int, float, bytes, int | None, int, float, int, int] | None = connection.execute(
        FILE_SQL.session_row, {**key._asdict(), "known": known}
    ).fetchone()
    return SessionRow(*row) if row is not None else None


def read_newest(
    connection: sqlite3.Connection, key: SessionKey, cache: SessionCache, path: Path
) -> StoredSession | None:
    """The session as the file has it; of a cached one only the new events are read.

    Of a long one that is new here, those of its chapters are read when somebody asks for them.
    """
    cached = cache.get(key)
    row = _session_row(connection, key, cached.number if cached is not None else 0)
    if row is None:
        return None
    # not cached, or deleted and made anew under the same name
    if cached is None or cached.number != row.number:
        cached = row.read_beginning(StateReader(key))
        if row.chaptered and (opened := _by_chapters(connection, cached, row, path)) is not None:
            return opened
    elif row.length < len(cached.events):  # the file was replaced by an older one
        cache.drop(key)
        return read_newest(connection, key, cache, path)
    if row.length == len(cached.events):
        return cached
    return catch_up(cached, _rows(connection, row, len(cached.events)), row.length)


def _by_chapters(
    connection: sqlite3.Connection, begun: StoredSession, row: SessionRow, path: Path
) -> StoredSession | None:
    """The session by its chapters and the events after them; None where all must be read."""
    chapters = run_steps(connection, chapters_of(FILE_SQL, row.number, row.chaptered))
    tail = [*_rows(connection, row, row.chaptered)]
    # damaged chapters, or a gap after them: all of it is read, and that says what is wrong
    if chapters is None or row.chaptered + len(tail) != row.length:
        return None
    read = partial(_read_alone, path)
    fetch = fetch_from(FILE_SQL, read, row.number, where=str(begun.key))
    talk = fetch_talk_from(FILE_SQL, read, row.number)
    return open_log(begun, chapters, tail, event_reader(), fetch, talk)


def read_sound(connection: sqlite3.Connection, reader: StateReader) -> StoredSession | None:
    """The events that can be read; the reader notes what is wrong with the others."""
    row = _session_row(connection, reader.key)
    if row is None:
        return None
    stored, problems = read_readable(row.read_beginning(reader), _rows(connection, row, 0))
    reader.problems.extend(problems)
    return stored


def _rows(connection: sqlite3.Connection, session: SessionRow, first: int) -> Iterator[RawRow]:
    """The events of a session from `first` on, as bytes: damaged ones may be no text."""
    number = session.number
    if first < session.archived:
        for row in run_steps(connection, read_log(FILE_SQL, number, first, session.archived)):
            yield row.data, row.checksum
        first = session.archived
    cursor = connection.execute(
        "SELECT CAST(event AS BLOB), checksum FROM events"
        " WHERE place >= ? AND place < ? ORDER BY place",
        (number * ROOM + first, (number + 1) * ROOM),
    )
    # in slices: the rows of a long log are never all in memory
    while rows := cast("list[RawRow]", cursor.fetchmany(SLICE)):
        yield from rows


NewRow = tuple[int, float, str, int | None, int, int | None]
"""An event to be added: place, timestamp, text and checksum, the number of its session, and the
place before it that must be taken, for the first of those that are added to a log that has some."""


def new_rows(stored: StoredSession, growth: Growth) -> tuple[list[NewRow], int]:
    """The rows of the events after those of the session, and how many bytes they have."""
    length, size = len(stored.events), 0
    place = stored.number * ROOM + length
    before = place - 1 if length else None
    rows: list[NewRow] = []
    for event in growth.added:
        data, checksum = encode_event(event)
        size += len(data)
        rows.append((place, event.timestamp, data.decode(), checksum, stored.number, before))
        # only the first row must find its neighbour: the others bring theirs
        place, before = place + 1, None
    return rows, size


def add_rows(connection: sqlite3.Connection, rows: Sequence[NewRow]) -> bool:
    """Insert the events of several sessions; False where one does not fit.

    One statement for many rows: a thread that calls SQLite waits for its turn after each call.
    Up to `MOST_ROWS` are inserted by one statement, all or none, which needs no transaction.
    """
    try:
        for first in range(0, len(rows), MOST_ROWS):
            some = rows[first : first + MOST_ROWS]
            values = ", ".join(["(?, ?, ?, ?, ?, ?)"] * len(some))
            cells = [cell for row in some for cell in row]
            connection.execute(f"{_ADD} (VALUES {values})", cells)
    except sqlite3.IntegrityError:  # the place is taken, or the session is another
        return False
    return True


MOST_ROWS = 40
"""How many rows a statement inserts at most: SQLite may be built to take 250 values."""

# Where a row does not fit it has no timestamp, and the whole statement is refused.
_ADD = """INSERT INTO events (place, timestamp, event, checksum)
SELECT column1, CASE WHEN EXISTS (SELECT 1 FROM sessions WHERE number = column5)
    AND (column6 IS NULL OR EXISTS (SELECT 1 FROM events WHERE place = column6))
    THEN column2 END, column3, column4 FROM"""


class Glance(NamedTuple):
    """A session as it is now, as far as that is seen at once."""

    number: int
    length: int
    app: list[tuple[str, bytes, int | None]]
    user: list[tuple[str, bytes, int | None]]


def glance(connection: sqlite3.Connection, key: SessionKey) -> Glance | None:
    """The number and the length of a session, and the shared state; None where it is not there."""
    rows: list[tuple[int, int | bytes, int | bytes | None, int | None]] = connection.execute(
        _GLANCE, (*key, key.app_name, *key[:2])
    ).fetchall()
    session: tuple[int, int] | None = None
    shared: list[list[tuple[str, bytes, int | None]]] = [[], []]
    for scope, first, second, checksum in rows:
        if scope == 0:
            session = cast("tuple[int, int]", (first, second))
        else:
            name = cast("bytes", first).decode(errors="replace")
            shared[scope - 1].append((name, cast("bytes", second), checksum))
    return Glance(*session, *shared) if session is not None else None


_GLANCE = f"""SELECT 0 AS scope, number, {LENGTH}, NULL FROM sessions
WHERE app_name = ? AND user_id = ? AND id = ?
UNION ALL
SELECT 1, CAST(key AS BLOB), CAST(value AS BLOB), checksum FROM app_state WHERE app_name = ?
UNION ALL
SELECT 2, CAST(key AS BLOB), CAST(value AS BLOB), checksum FROM user_state
WHERE app_name = ? AND user_id = ?"""


def tally(
    connection: sqlite3.Connection, names: Sequence[str], count: Count, beside: str, now: float
) -> None:
    """Change what processes count together under these names; what is over is forgotten."""
    # made with the first use: most stores count nothing together
    connection.execute(
        "CREATE TABLE IF NOT EXISTS tallies"
        " (name TEXT PRIMARY KEY, value TEXT NOT NULL, until REAL NOT NULL) WITHOUT ROWID"
    )
    marks = ", ".join("?" * len(names))
    rows: list[tuple[str, str]] = connection.execute(
        f"SELECT name, value FROM tallies WHERE name IN ({marks})"
        " OR substr(name, 1, ?) = ? AND ? <> ''",
        (*names, len(beside), beside, beside),
    ).fetchall()
    after = count({name: cast("JsonObject", msgspec.json.decode(text)) for name, text in rows}, now)
    connection.executemany(
        "INSERT OR REPLACE INTO tallies (name, value, until) VALUES (?, ?, ?)",
        [(name, encode_value(one.value), one.until) for name, one in after.items()],
    )
    connection.execute("DELETE FROM tallies WHERE until < ?", (now,))
