"""The statements of the PostgreSQL store."""

import hashlib
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
    warn_unreadable,
)
from weft.stores.postgres_server import Connection, psycopg
from weft.values import JsonObject, Strand

# One statement sees one state of the database, so events and shared state belong together.
_NEWEST = """
SELECT 0, s.number, s.created, e.seq,
       (SELECT coalesce(max(seq) + 1, 0) FROM weft.events WHERE session = s.number),
       CASE WHEN s.number = %(held)s OR e.seq > 0 THEN NULL ELSE s.state END, e.event, e.checksum,
       s.checksum
FROM weft.sessions s LEFT JOIN weft.events e
    ON e.session = s.number AND e.seq >= CASE WHEN s.number = %(held)s THEN %(length)s ELSE 0 END
WHERE s.app_name = %(app_name)s AND s.user_id = %(user_id)s AND s.id = %(id)s
UNION ALL
SELECT 1, 0, 0, 0, 0, key, value, checksum, NULL FROM weft.app_state WHERE app_name = %(app_name)s
UNION ALL
SELECT 2, 0, 0, 0, 0, key, value, checksum, NULL FROM weft.user_state
WHERE app_name = %(app_name)s AND user_id = %(user_id)s
ORDER BY 1, 4
"""

# Nothing is inserted unless the session has exactly the events before this one.
_APPEND = """
INSERT INTO weft.events (session, seq, timestamp, event, checksum)
SELECT number, %(seq)s, %(timestamp)s, %(event)s, %(checksum)s FROM weft.sessions
WHERE number = %(number)s AND %(seq)s = (
    SELECT coalesce(max(seq) + 1, 0) FROM weft.events WHERE session = %(number)s
)
RETURNING (
    SELECT asked FROM weft.interrupts
    WHERE app_name = %(app_name)s AND user_id = %(user_id)s AND id = %(id)s
)
"""

_LIST = """
SELECT user_id, id, coalesce(seq + 1, 0), coalesce(timestamp, created) AS updated
FROM weft.sessions LEFT JOIN LATERAL (
    SELECT seq, timestamp FROM weft.events WHERE session = number ORDER BY seq DESC LIMIT 1
) AS newest ON true
WHERE app_name = %(app_name)s AND (%(user_id)s::text IS NULL OR user_id = %(user_id)s)
ORDER BY updated DESC, number DESC
"""


class Stale(Exception):
    """The session is not as long as it was thought to be, or gone."""


async def newest(
    connection: Connection, key: SessionKey, cache: Cache, *, skip_unreadable: bool = False
) -> tuple[Kept, JsonObject, JsonObject] | None:
    """The session and the shared state; of a session that is at hand, only the rest is read."""
    held = cache.get(key) if not skip_unreadable else None
    found = await connection.execute(
        _NEWEST,
        {
            **key._asdict(),
            "held": held.number if held is not None else 0,
            "length": len(held.events) if held is not None else 0,
        },
    )
    rows = cast(
        "list[tuple[int, int, float, int | None, int, str | None, str, int | None, int | None]]",
        await found.fetchall(),
    )
    if not rows or rows[0][0] != 0:
        return None
    _, number, created, _, length, state, _, _, checksum = rows[0]
    reader = StateReader(key, skip_unreadable=skip_unreadable)
    if held is None or held.number != number:
        initial = reader.initial(created, (state or "").encode(), checksum)
        held = Kept(key, number, created, initial, initial, Strand())
    elif length < len(held.events):  # a server took over that had not got everything
        cache.drop(key)
        return await newest(connection, key, cache)
    events = [Row(row[6].encode(), row[7]) for row in rows if row[0] == 0 and row[3] is not None]
    app = reader.shared(key[:1], [(r[5] or "", r[6].encode(), r[7]) for r in rows if r[0] == 1])
    user = reader.shared(key[:2], [(r[5] or "", r[6].encode(), r[7]) for r in rows if r[0] == 2])
    if skip_unreadable:
        kept, problems = readable(held, events)
        warn_unreadable([*reader.problems, *problems])
        return kept, app, user
    return caught_up(held, events, length), app, user


async def insert_session(
    connection: Connection, key: SessionKey, created: float, initial: JsonObject
) -> Kept:
    """A new session."""
    state = value_text(initial)
    try:
        made = await connection.execute(
            """INSERT INTO weft.sessions (app_name, user_id, id, created, state, checksum)
            VALUES (%s, %s, %s, %s, %s, %s) RETURNING number""",
            (*key, created, state, row_checksum(*key, created, state)),
        )
    except psycopg.errors.UniqueViolation:
        raise exists_already(key) from None
    row = cast("tuple[int]", await made.fetchone())
    return Kept(key, row[0], created, initial, initial, Strand())


async def insert_events(connection: Connection, kept: Kept, growth: Growth) -> float | None:
    """The events behind those that are kept; gives the time at which somebody asked to stop.

    Raises Stale where they do not fit. Several statements, unless it is one event that shares
    nothing: then it needs no transaction.
    """
    asked: float | None = None
    for seq, event in enumerate(growth.added, len(kept.events)):
        data, checksum = event_row(event)
        try:
            done = await connection.execute(
                _APPEND,
                {
                    **kept.key._asdict(),
                    "number": kept.number,
                    "seq": seq,
                    "timestamp": event.timestamp,
                    "event": data.decode(),
                    "checksum": checksum,
                },
            )
        except (psycopg.errors.UniqueViolation, psycopg.errors.ForeignKeyViolation):
            raise Stale from None
        row = cast("tuple[float | None] | None", await done.fetchone())
        if row is None:
            raise Stale
        asked = row[0]
    await share(connection, kept.key, growth.app, growth.user)
    return asked


async def share(connection: Connection, key: SessionKey, app: JsonObject, user: JsonObject) -> None:
    """Write the deltas of the scopes that sessions share.

    In the order of their names: two writers of the same keys wait for each other in one order.
    """
    app_name, user_id, _ = key
    for name, value in sorted(app.items(), key=_name):
        if value is None:
            await connection.execute(
                "DELETE FROM weft.app_state WHERE app_name = %s AND key = %s", (app_name, name)
            )
        else:
            row = (app_name, name, value_text(value))
            await connection.execute(
                """INSERT INTO weft.app_state (app_name, key, value, checksum)
                VALUES (%s, %s, %s, %s) ON CONFLICT (app_name, key)
                DO UPDATE SET value = excluded.value, checksum = excluded.checksum""",
                (*row, row_checksum(*row)),
            )
    for name, value in sorted(user.items(), key=_name):
        if value is None:
            await connection.execute(
                "DELETE FROM weft.user_state WHERE app_name = %s AND user_id = %s AND key = %s",
                (app_name, user_id, name),
            )
        else:
            owned = (app_name, user_id, name, value_text(value))
            await connection.execute(
                """INSERT INTO weft.user_state (app_name, user_id, key, value, checksum)
                VALUES (%s, %s, %s, %s, %s) ON CONFLICT (app_name, user_id, key)
                DO UPDATE SET value = excluded.value, checksum = excluded.checksum""",
                (*owned, row_checksum(*owned)),
            )


def _name(item: tuple[str, object]) -> str:
    return item[0]


async def listed(connection: Connection, app_name: str, user_id: str | None) -> list[SessionInfo]:
    """The sessions of an app, or of one user of it, the latest first."""
    found = await connection.execute(_LIST, {"app_name": app_name, "user_id": user_id})
    rows = cast("list[tuple[str, str, int, float]]", await found.fetchall())
    return [
        SessionInfo(SessionKey(app_name, user, id), length, updated)
        for user, id, length, updated in rows
    ]


async def apps(connection: Connection) -> list[str]:
    """The names of the apps that have sessions, sorted."""
    found = await connection.execute("SELECT DISTINCT app_name FROM weft.sessions")
    return sorted(name for (name,) in cast("list[tuple[str]]", await found.fetchall()))


async def remove(connection: Connection, key: SessionKey) -> None:
    """Delete a session with its events; what they wrote to shared scopes stays."""
    await connection.execute(
        "DELETE FROM weft.sessions WHERE app_name = %s AND user_id = %s AND id = %s", key
    )


async def lock(connection: Connection, key: SessionKey) -> float | None:
    """Lock the session for this connection; the server's time, or None if another has it."""
    found = await connection.execute(
        """SELECT CASE WHEN pg_try_advisory_lock(%s)
        THEN extract(epoch FROM clock_timestamp())::float8 END""",
        (_lock_of(key),),
    )
    row = cast("tuple[float | None]", await found.fetchone())
    return row[0]


async def unlock(connection: Connection, key: SessionKey) -> None:
    """Unlock the session."""
    await connection.execute("SELECT pg_advisory_unlock(%s)", (_lock_of(key),))


def _lock_of(key: SessionKey) -> int:
    """The number that stands for a session among the server's advisory locks."""
    text = "\0".join(("weft", *key)).encode()
    return int.from_bytes(hashlib.blake2b(text, digest_size=8).digest(), signed=True)


async def ask(connection: Connection, key: SessionKey) -> None:
    """Ask the holder of the session, in another process, to stop."""
    await connection.execute(
        """INSERT INTO weft.interrupts
        VALUES (%s, %s, %s, extract(epoch FROM clock_timestamp())::float8)
        ON CONFLICT (app_name, user_id, id) DO UPDATE SET asked = excluded.asked""",
        key,
    )


async def withdraw(connection: Connection, key: SessionKey) -> None:
    """Ask no longer."""
    await connection.execute(
        "DELETE FROM weft.interrupts WHERE app_name = %s AND user_id = %s AND id = %s", key
    )


async def asked(connection: Connection) -> list[tuple[SessionKey, float]]:
    """The sessions that somebody wants stopped, and since when."""
    found = await connection.execute("SELECT app_name, user_id, id, asked FROM weft.interrupts")
    rows = cast("list[tuple[str, str, str, float]]", await found.fetchall())
    return [(SessionKey(*key), when) for *key, when in rows]
