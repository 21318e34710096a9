"""The tables of a SQLite file: what is read from them, and what is written to them.

Every function here runs on the thread of its connection, inside a transaction that the caller
begins and ends.
"""

import sqlite3
from collections.abc import Iterator, Sequence
from itertools import groupby, islice
from operator import itemgetter
from pathlib import Path
from typing import NamedTuple, cast

import msgspec

from weft.session import Event, SessionKey
from weft.session.event import numbered
from weft.session.memory import Growth, StoredSession
from weft.session.store import Count, exists_already
from weft.session.strand import Strand
from weft.stores.cache import (
    SLICE,
    SessionCache,
    catch_up,
    event_reader,
    read_readable,
)
from weft.stores.chapters import open_log
from weft.stores.rows import (
    ANSWERS,
    ASKS,
    EventRow,
    RawRow,
    StateReader,
    checksum_of,
    encode_event,
    encode_value,
    read_row,
    still_waits,
)
from weft.stores.sqlite_chapters import (
    FILE_SQL,
    LENGTH,
    ROOM,
    fetch_from,
    fetch_talk_from,
    older_rows,
    run_steps,
)
from weft.stores.steps import SessionRow, chapters_of
from weft.values import JsonObject


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
        cached = row.begun(StateReader(key))
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
    """The session by its chapters and the events behind them; None where all must be read."""
    chapters = run_steps(connection, chapters_of(FILE_SQL, row.number, row.chaptered))
    tail = [*_rows(connection, row, row.chaptered)]
    # damaged chapters, or a gap behind them: all of it is read, and that says what is wrong
    if chapters is None or row.chaptered + len(tail) != row.length:
        return None
    fetch = fetch_from(path, row.number, where=str(begun.key))
    talk = fetch_talk_from(path, row.number)
    return open_log(begun, chapters, tail, event_reader(), fetch, talk)


def read_sound(connection: sqlite3.Connection, reader: StateReader) -> StoredSession | None:
    """The events that can be read; the reader notes what is wrong with the others."""
    row = _session_row(connection, reader.key)
    if row is None:
        return None
    stored, problems = read_readable(row.begun(reader), _rows(connection, row, 0))
    reader.problems.extend(problems)
    return stored


def _rows(connection: sqlite3.Connection, row: SessionRow, first: int) -> Iterator[RawRow]:
    """The events of a session from `first` on, as bytes: damaged ones may be no text."""
    number = row.number
    if first < row.archived:
        yield from older_rows(connection, number, first)
        first = row.archived
    cursor = connection.execute(
        "SELECT CAST(event AS BLOB), checksum FROM events"
        " WHERE place >= ? AND place < ? ORDER BY place",
        (number * ROOM + first, (number + 1) * ROOM),
    )
    # in slices: the rows of a long log are never all in memory
    while rows := cast("list[RawRow]", cursor.fetchmany(SLICE)):
        yield from rows


def read_events(
    connection: sqlite3.Connection, key: SessionKey, after: int, limit: int | None
) -> list[Event] | None:
    """The events of a session behind the first `after`, with their sequence numbers."""
    row = _session_row(connection, key)
    if row is None:
        return None
    rows = _rows(connection, row, after)
    return numbered(
        [
            read_row(EventRow(*raw), position, where=str(key))
            for position, raw in enumerate(islice(rows, limit), after)
        ],
        after,
    )


def count_events(
    connection: sqlite3.Connection, keys: Sequence[SessionKey]
) -> dict[SessionKey, int]:
    """How many events the sessions have; one that does not exist is not in it."""
    lengths: dict[SessionKey, int] = {}
    for key in keys:
        row: tuple[int, int, int, int] | None
        row = connection.execute(FILE_SQL.covered, key._asdict()).fetchone()
        if row is not None:
            *_, lengths[key] = row
    return lengths


def insert_session(
    connection: sqlite3.Connection, key: SessionKey, created: float, initial: JsonObject
) -> StoredSession:
    """Insert a new session."""
    state = encode_value(initial)
    try:
        number = connection.execute(
            "INSERT INTO sessions (app_name, user_id, id, created, state, checksum)"
            " VALUES (?, ?, ?, ?, ?, ?)",
            (*key, created, state, checksum_of(*key, created, state)),
        ).lastrowid
    except sqlite3.IntegrityError:
        raise exists_already(key) from None
    assert number is not None
    return StoredSession(key, number, created, initial, initial, Strand())


NewRow = tuple[int, float, str, int | None, int, int | None]
"""An event to be added: place, timestamp, text and checksum, the number of its session, and the
place before it that must be taken, for the first of those that are added to a log that has some."""


def new_rows(stored: StoredSession, growth: Growth) -> tuple[list[NewRow], int]:
    """The rows of the events behind those of the session, and how many bytes they have."""
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


def list_waiting(
    connection: sqlite3.Connection, app_name: str, user_id: str | None
) -> list[SessionKey]:
    """The sessions in which calls may wait. Those that never asked anything are not read."""
    cursor = connection.execute(
        f"""WITH asked AS (
            SELECT user_id, id, number, min(place) AS first FROM sessions JOIN events
            ON place >= number * 4294967296 AND place < (number + 1) * 4294967296
            WHERE app_name = ? AND (? IS NULL OR user_id = ?) AND {ASKS} GROUP BY number
        )
        SELECT user_id, id, CAST(event AS BLOB) FROM asked JOIN events
        ON place >= first AND place < (number + 1) * 4294967296 WHERE {ANSWERS}
        ORDER BY number, place""",
        (app_name, user_id, user_id),
    )
    rows = cast("Iterator[tuple[str, str, bytes]]", cursor)
    waiting = {
        SessionKey(app_name, user, id): still_waits(event for _, _, event in events)
        for (user, id), events in groupby(rows, key=itemgetter(0, 1))
    }
    for key in _asked_before(connection, app_name, user_id):
        row = _session_row(connection, key)
        if row is not None:
            waiting[key] = still_waits(data for data, _ in _rows(connection, row, 0))
    return [key for key, waits in waiting.items() if waits]


def _asked_before(
    connection: sqlite3.Connection, app_name: str, user_id: str | None
) -> list[SessionKey]:
    """The sessions with a packed chapter in which something was asked."""
    rows: list[tuple[str, str, str]] = connection.execute(
        """SELECT app_name, user_id, id FROM sessions
            WHERE app_name = ? AND (? IS NULL OR user_id = ?) AND archived > 0
                AND number IN (SELECT session FROM chapters WHERE asks AND packed IS NOT NULL)
            ORDER BY number""",
        (app_name, user_id, user_id),
    ).fetchall()
    return [SessionKey(*row) for row in rows]


def list_apps(connection: sqlite3.Connection) -> list[str]:
    """The names of the apps that have sessions, sorted."""
    rows = connection.execute("SELECT DISTINCT app_name FROM sessions ORDER BY app_name")
    return [name for (name,) in cast("list[tuple[str]]", rows.fetchall())]


def delete_session(connection: sqlite3.Connection, key: SessionKey) -> None:
    """Delete a session with its events and turns; what they wrote to shared scopes stays."""
    # first: a session may have queued turns and no row yet
    erase_turns(connection, *key)
    row: tuple[int] | None = connection.execute(
        "SELECT number FROM sessions WHERE app_name = ? AND user_id = ? AND id = ?", key
    ).fetchone()
    if row is None:
        return
    _delete_events(connection, row[0])
    connection.execute("DELETE FROM sessions WHERE number = ?", row)


def _delete_events(connection: sqlite3.Connection, number: int) -> None:
    places = (number * ROOM, (number + 1) * ROOM)
    connection.execute("DELETE FROM events WHERE place >= ? AND place < ?", places)


def erase_user(connection: sqlite3.Connection, app_name: str, user_id: str) -> int:
    """Delete all rows of a user: sessions, events, state, requests and turns."""
    owner = (app_name, user_id)
    numbers: list[tuple[int]] = connection.execute(
        "SELECT number FROM sessions WHERE app_name = ? AND user_id = ?", owner
    ).fetchall()
    for (number,) in numbers:
        _delete_events(connection, number)
    for table in ("sessions", "user_state", "interrupts"):
        connection.execute(f"DELETE FROM {table} WHERE app_name = ? AND user_id = ?", owner)
    erase_turns(connection, app_name, user_id)
    return len(numbers)


def erase_turns(
    connection: sqlite3.Connection, app_name: str, user_id: str, session: str | None = None
) -> None:
    """Delete the turns of a user, or of one session, if the file has a queue."""
    if _has_queue(connection):
        connection.execute(
            "DELETE FROM turns WHERE app_name = ? AND user_id = ?"
            " AND session = coalesce(?, session)",
            (app_name, user_id, session),
        )


def list_turn_apps(connection: sqlite3.Connection, user_id: str) -> list[str]:
    """The apps for which a user has turns in the queue."""
    if not _has_queue(connection):
        return []
    statement = "SELECT DISTINCT app_name FROM turns WHERE user_id = ? ORDER BY app_name"
    rows = cast("list[tuple[str]]", connection.execute(statement, (user_id,)).fetchall())
    return [app for (app,) in rows]


def _has_queue(connection: sqlite3.Connection) -> bool:
    listed = "SELECT name FROM sqlite_master WHERE type = 'table' AND name = 'turns'"
    return connection.execute(listed).fetchone() is not None


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


def insert_request(connection: sqlite3.Connection, key: SessionKey, asked: float) -> None:
    """Ask the holder of the session, in another process, to stop."""
    connection.execute("INSERT OR REPLACE INTO interrupts VALUES (?, ?, ?, ?)", (*key, asked))


def delete_request(connection: sqlite3.Connection, key: SessionKey) -> None:
    """Withdraw the request to stop."""
    connection.execute("DELETE FROM interrupts WHERE app_name = ? AND user_id = ? AND id = ?", key)


def list_requests(connection: sqlite3.Connection) -> list[tuple[SessionKey, float]]:
    """The sessions that somebody wants stopped, and since when."""
    rows: list[tuple[str, str, str, float]] = connection.execute(
        "SELECT app_name, user_id, id, asked FROM interrupts"
    ).fetchall()
    return [(SessionKey(*key), when) for *key, when in rows]
