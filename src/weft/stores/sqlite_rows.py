"""The statements of the SQLite store: each function reads or writes inside a transaction."""

import sqlite3
from collections.abc import Iterable
from typing import cast

from weft.session import SessionInfo, SessionKey
from weft.session.kept import Growth, Kept, exists_already
from weft.stores.cache import (
    Cache,
    Row,
    StateReader,
    caught_up,
    event_row,
    readable,
    row_checksum,
    value_text,
)
from weft.values import JsonObject, Strand

ROOM = 2**32
"""How many places a session has in the table of events."""


def newest(connection: sqlite3.Connection, key: SessionKey, cache: Cache) -> Kept | None:
    """The session as the file has it; of one that is at hand, only the rest is read."""
    held = cache.get(key)
    row = cast(
        "tuple[int, float, bytes, int | None, int | None] | None",
        connection.execute(
            """SELECT number, created,
            CASE WHEN number = ? THEN '' ELSE CAST(state AS BLOB) END, checksum, (
                SELECT place FROM events
                WHERE place >= number * 4294967296 AND place < (number + 1) * 4294967296
                ORDER BY place DESC LIMIT 1
            ) FROM sessions WHERE app_name = ? AND user_id = ? AND id = ?""",
            (held.number if held is not None else 0, *key),
        ).fetchone(),
    )
    if row is None:
        return None
    number, created, state, checksum, last = row
    length = 0 if last is None else last - number * ROOM + 1
    if held is None or held.number != number:
        initial = StateReader(key).initial(created, state, checksum)
        held = Kept(key, number, created, initial, initial, Strand())
    elif length < len(held.events):  # the file was replaced by an older one
        cache.drop(key)
        return newest(connection, key, cache)
    if length == len(held.events):
        return held
    return caught_up(held, _rows(connection, number, len(held.events)), length)


def sound(connection: sqlite3.Connection, reader: StateReader) -> Kept | None:
    """The session as far as it can be read; the reader notes what is wrong with the rest."""
    key = reader.key
    row = cast(
        "tuple[int, float, bytes, int | None] | None",
        connection.execute(
            "SELECT number, created, CAST(state AS BLOB), checksum FROM sessions"
            " WHERE app_name = ? AND user_id = ? AND id = ?",
            key,
        ).fetchone(),
    )
    if row is None:
        return None
    number, created, state, checksum = row
    initial = reader.initial(created, state, checksum)
    held = Kept(key, number, created, initial, initial, Strand())
    kept, problems = readable(held, _rows(connection, number, 0))
    reader.problems.extend(problems)
    return kept


def _rows(connection: sqlite3.Connection, number: int, first: int) -> list[Row]:
    """The events of a session from `first` on, as bytes: damaged ones may be no text."""
    found = cast(
        "list[tuple[bytes, int | None]]",
        connection.execute(
            "SELECT CAST(event AS BLOB), checksum FROM events"
            " WHERE place >= ? AND place < ? ORDER BY place",
            (number * ROOM + first, (number + 1) * ROOM),
        ).fetchall(),
    )
    return [Row(*one) for one in found]


def insert_session(
    connection: sqlite3.Connection, key: SessionKey, created: float, initial: JsonObject
) -> Kept:
    """A new session."""
    state = value_text(initial)
    try:
        number = connection.execute(
            "INSERT INTO sessions (app_name, user_id, id, created, state, checksum)"
            " VALUES (?, ?, ?, ?, ?, ?)",
            (*key, created, state, row_checksum(*key, created, state)),
        ).lastrowid
    except sqlite3.IntegrityError:
        raise exists_already(key) from None
    assert number is not None
    return Kept(key, number, created, initial, initial, Strand())


def insert_events(connection: sqlite3.Connection, kept: Kept, growth: Growth) -> Kept:
    """The events behind those that are kept, and what they write to the shared scopes."""
    place = kept.number * ROOM + len(kept.events)
    for event in growth.added:
        data, checksum = event_row(event)
        connection.execute(
            "INSERT INTO events (place, timestamp, event, checksum) VALUES (?, ?, ?, ?)",
            (place, event.timestamp, data.decode(), checksum),
        )
        place += 1
    share(connection, kept.key, growth.app, growth.user)
    return kept.after(growth)


def share(
    connection: sqlite3.Connection, key: SessionKey, app: JsonObject, user: JsonObject
) -> None:
    """Write the deltas of the scopes that sessions share."""
    app_name, user_id, _ = key
    for name, value in app.items():
        if value is None:
            connection.execute(
                "DELETE FROM app_state WHERE app_name = ? AND key = ?", (app_name, name)
            )
        else:
            row = (app_name, name, value_text(value))
            connection.execute(
                "INSERT OR REPLACE INTO app_state (app_name, key, value, checksum)"
                " VALUES (?, ?, ?, ?)",
                (*row, row_checksum(*row)),
            )
    for name, value in user.items():
        if value is None:
            connection.execute(
                "DELETE FROM user_state WHERE app_name = ? AND user_id = ? AND key = ?",
                (app_name, user_id, name),
            )
        else:
            owned = (app_name, user_id, name, value_text(value))
            connection.execute(
                "INSERT OR REPLACE INTO user_state (app_name, user_id, key, value, checksum)"
                " VALUES (?, ?, ?, ?, ?)",
                (*owned, row_checksum(*owned)),
            )


def shared(connection: sqlite3.Connection, reader: StateReader) -> tuple[JsonObject, JsonObject]:
    """The `app:` and `user:` state as it is now."""
    key = reader.key
    app = connection.execute(
        "SELECT CAST(key AS BLOB), CAST(value AS BLOB), checksum FROM app_state WHERE app_name = ?",
        key[:1],
    )
    user = connection.execute(
        "SELECT CAST(key AS BLOB), CAST(value AS BLOB), checksum FROM user_state"
        " WHERE app_name = ? AND user_id = ?",
        key[:2],
    )
    return reader.shared(key[:1], _state(app)), reader.shared(key[:2], _state(user))


def _state(rows: sqlite3.Cursor) -> list[tuple[str, bytes, int | None]]:
    found = cast("list[tuple[bytes, bytes, int | None]]", rows.fetchall())
    return [(name.decode(errors="replace"), text, checksum) for name, text, checksum in found]


def damage(connection: sqlite3.Connection) -> str:
    """What is wrong with the file as a whole, or nothing: what no session's own rows can tell.

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
                if row_checksum(*cells) != checksum:
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
        " created, CAST(state AS BLOB) FROM sessions WHERE checksum IS NOT NULL",
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


def listed(connection: sqlite3.Connection, app_name: str, user_id: str | None) -> list[SessionInfo]:
    """The sessions of an app, or of one user of it, the latest first."""
    found = cast(
        "list[tuple[str, str, int, int | None, float]]",
        connection.execute(
            """SELECT user_id, id, number, place, coalesce(timestamp, created) AS updated
            FROM sessions LEFT JOIN events ON place = (
                SELECT place FROM events
                WHERE place >= number * 4294967296 AND place < (number + 1) * 4294967296
                ORDER BY place DESC LIMIT 1
            )
            WHERE app_name = ? AND (? IS NULL OR user_id = ?)
            ORDER BY updated DESC, number DESC""",
            (app_name, user_id, user_id),
        ).fetchall(),
    )
    return [
        SessionInfo(
            SessionKey(app_name, user, id),
            0 if place is None else place - number * ROOM + 1,
            updated,
        )
        for user, id, number, place, updated in found
    ]


def apps(connection: sqlite3.Connection) -> list[str]:
    """The names of the apps that have sessions, sorted."""
    found = connection.execute("SELECT DISTINCT app_name FROM sessions ORDER BY app_name")
    return [name for (name,) in cast("list[tuple[str]]", found.fetchall())]


def remove(connection: sqlite3.Connection, key: SessionKey) -> None:
    """Delete a session with its events; what they wrote to shared scopes stays."""
    row = cast(
        "tuple[int] | None",
        connection.execute(
            "SELECT number FROM sessions WHERE app_name = ? AND user_id = ? AND id = ?", key
        ).fetchone(),
    )
    if row is None:
        return
    start = row[0] * ROOM
    connection.execute("DELETE FROM events WHERE place >= ? AND place < ?", (start, start + ROOM))
    connection.execute("DELETE FROM sessions WHERE number = ?", row)


def ask(connection: sqlite3.Connection, key: SessionKey, asked: float) -> None:
    """Ask the holder of the session, in another process, to stop."""
    connection.execute("INSERT OR REPLACE INTO interrupts VALUES (?, ?, ?, ?)", (*key, asked))


def withdraw(connection: sqlite3.Connection, key: SessionKey) -> None:
    """Ask no longer."""
    connection.execute("DELETE FROM interrupts WHERE app_name = ? AND user_id = ? AND id = ?", key)


def asked(connection: sqlite3.Connection) -> list[tuple[SessionKey, float]]:
    """The sessions that somebody wants stopped, and since when."""
    found = cast(
        "list[tuple[str, str, str, float]]",
        connection.execute("SELECT app_name, user_id, id, asked FROM interrupts").fetchall(),
    )
    return [(SessionKey(*key), when) for *key, when in found]
