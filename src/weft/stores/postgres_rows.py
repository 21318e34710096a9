"""Rows in PostgreSQL: what is read from the tables of sessions, and what is written to them.

Whoever calls decides about transactions; what must be one statement is one.
"""

import asyncio
import hashlib
from collections.abc import Iterable, Sequence
from itertools import groupby
from operator import itemgetter
from typing import cast

from msgspec.json import decode

from weft.errors import StoreError
from weft.session import Event, SessionKey
from weft.session.event import numbered
from weft.session.memory import StoredSession
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
from weft.stores.postgres_chapters import (
    SERVER_SQL,
    fetch_from,
    fetch_talk_from,
    read_rows,
    run_steps,
)
from weft.stores.postgres_server import (
    MIGRATING,
    Connection,
    Cursor,
    UniqueViolation,
)
from weft.stores.rows import (
    ANSWERS,
    ASKS,
    EventRow,
    RawRow,
    StateReader,
    checksum_of,
    encode_value,
    read_row,
    still_waits,
    warn_unreadable,
)
from weft.stores.steps import chapters_of
from weft.values import JsonObject


class Stale(Exception):
    """The session has other events than expected, or is gone."""


Stored = tuple[StoredSession, JsonObject, JsonObject]
"""A session, and the state of its app and of its user."""


async def read_newest(
    connection: Connection,
    key: SessionKey,
    cache: SessionCache,
    url: str,
    *,
    skip_unreadable: bool = False,
) -> Stored | None:
    """The session and the shared state; of a cached session only the new events are read.

    Of a long one that is new here, those of its chapters are read when somebody asks for them.
    """
    cached = cache.get(key) if not skip_unreadable else None
    cursor = await connection.execute(
        _NEWEST,
        {
            **key._asdict(),
            "known": cached.number if cached is not None else 0,
            "length": len(cached.events) if cached is not None else 0,
        },
    )
    rows = await _fetched(cursor)
    # rows are sorted by kind: without a session the first is of the shared state
    if not rows or rows[0][0] != 0:
        return None
    _, number, created, _, length, state, _, _, checksum, chaptered, archived = rows[0]
    reader = StateReader(key, skip_unreadable=skip_unreadable)
    # another number: the session was deleted and made anew under the same name
    is_new = cached is None or cached.number != number
    if cached is None or is_new:
        initial = reader.initial(created, (state or "").encode(), checksum, archived)
        cached = StoredSession(key, number, created, initial, initial, Strand(), 0, chaptered)
    # a server took over that had not got everything; or what is new here is packed already
    elif length < len(cached.events) or archived > len(cached.events):
        cache.drop(key)
        return await read_newest(connection, key, cache, url)
    app = reader.shared(key[:1], [(r[5] or "", r[6].encode(), r[7]) for r in rows if r[0] == 1])
    user = reader.shared(key[:2], [(r[5] or "", r[6].encode(), r[7]) for r in rows if r[0] == 2])
    events: Iterable[RawRow] = (
        (row[6].encode(), row[7]) for row in rows if row[0] == 0 and row[3] is not None
    )
    if is_new and chaptered:
        opened, chapters = None, None
        if not skip_unreadable:
            steps = chapters_of(SERVER_SQL, number, chaptered)
            chapters = await run_steps(connection, steps)
        if chapters:
            tail, fetch = [*events], fetch_from(url, number, where=str(key))
            talk = fetch_talk_from(url, number)
            opened = await asyncio.to_thread(
                open_log, cached, chapters, tail, event_reader(), fetch, talk
            )
            # a chapter may have been added between the two statements
            if opened is not None and chaptered + len(tail) == length:
                return opened, app, user
        # all of it must be read; what was added meanwhile is for the next look
        older = await read_rows(connection, number, 0, length)
        events = [(row.data, row.checksum) for _, row in older]
    if skip_unreadable:
        stored, problems = read_readable(cached, events)
        warn_unreadable([*reader.problems, *problems])
        return stored, app, user
    # short: decoding here is faster than another thread
    if len(rows) < SLICE and not (is_new and chaptered):
        return catch_up(cached, events, length), app, user
    # a long log would stop the event loop for as long as it takes to decode
    return await asyncio.to_thread(catch_up, cached, events, length), app, user


_NewestRow = tuple[
    int, int, float, int | None, int, str | None, str, int | None, int | None, int, int
]


async def _fetched(cursor: Cursor) -> list[_NewestRow]:
    """All rows of `_NEWEST`; other tasks have their turn between two slices."""
    rows: list[_NewestRow] = []
    while fetched := cast("list[_NewestRow]", await cursor.fetchmany(SLICE)):
        rows += fetched
        if len(fetched) == SLICE:
            await asyncio.sleep(0)
    return rows


async def insert_session(
    connection: Connection, key: SessionKey, created: float, initial: JsonObject
) -> StoredSession:
    """Insert a new session; one that exists is a Conflict."""
    state = encode_value(initial)
    try:
        cursor = await connection.execute(
            """INSERT INTO weft.sessions (app_name, user_id, id, created, state, checksum)
            VALUES (%s, %s, %s, %s, %s, %s) RETURNING number""",
            (*key, created, state, checksum_of(*key, created, state)),
        )
    except UniqueViolation as error:
        # the number is taken, not the name: a restore left the counter behind
        if error.diag.constraint_name == "sessions_pkey":
            raise StoreError(
                "the counter of weft.sessions is behind its rows, as after a restore of data alone",
                where=str(key.id),
                hint=f"run {_RESET_COUNTER}",
            ) from error
        raise exists_already(key) from None
    row = cast("tuple[int]", await cursor.fetchone())
    return StoredSession(key, row[0], created, initial, initial, Strand())


_RESET_COUNTER = (
    "SELECT setval(pg_get_serial_sequence('weft.sessions', 'number'),"
    " (SELECT max(number) FROM weft.sessions))"
)


async def make_tallies(connection: Connection) -> None:
    """Make the table of what processes count together, if it is not there."""
    async with connection.transaction():
        await connection.execute("SELECT pg_advisory_xact_lock(%s)", (MIGRATING,))
        await connection.execute(
            """CREATE TABLE IF NOT EXISTS weft.tallies (
                name text PRIMARY KEY,
                value text NOT NULL,
                until double precision NOT NULL
            )"""
        )


async def tally(connection: Connection, names: Sequence[str], count: Count, beside: str) -> float:
    """Change what processes count together under these names; gives the server's time.

    All who count lock the names in one order. Nobody waits for the disk: after a crash of the
    server what was counted within its last moment is missing, and nothing else.
    """
    async with connection.transaction():
        cursor = await connection.execute(_LOCK_TALLIES, (sorted({*names}),))
        locked = cast("list[tuple[str, str, float]]", await cursor.fetchall())
        now = locked[0][2]
        rows = [(name, text) for name, text, _ in locked if text]
        if beside:
            cursor = await connection.execute(
                "SELECT name, value FROM weft.tallies WHERE starts_with(name, %s) AND value <> ''",
                (beside,),
            )
            mine = {*names}
            others = cast("list[tuple[str, str]]", await cursor.fetchall())
            rows += [row for row in others if row[0] not in mine]
        after = count({name: cast("JsonObject", decode(text)) for name, text in rows}, now)
        columns = zip(
            *[(n, encode_value(t.value), float(t.until)) for n, t in after.items()], strict=True
        )
        if after:
            await connection.execute(_WRITE_TALLIES, [[*column] for column in columns])
    return now


async def forget_tallies(connection: Connection, now: float) -> None:
    """Forget what is over; what somebody counts just now is left for another time."""
    await connection.execute(
        """DELETE FROM weft.tallies WHERE name IN (
            SELECT name FROM weft.tallies WHERE until < %s FOR UPDATE SKIP LOCKED
        )""",
        (now,),
    )


async def read_events(
    connection: Connection, key: SessionKey, after: int, limit: int | None
) -> list[Event] | None:
    """The events of a session behind the first `after`, with their sequence numbers."""
    cursor = await connection.execute(_BEHIND, {**key._asdict(), "after": after, "limit": limit})
    rows = cast("list[tuple[str | None, int | None, int, int]]", await cursor.fetchall())
    if not rows:
        return None
    *_, number, archived = rows[0]
    data = [EventRow(text.encode(), sum) for text, sum, _, _ in rows if text is not None]
    if after < archived:
        # the statement saw only the table of events, and some are packed
        packed = await read_rows(connection, number, after, limit)
        data = [EventRow(row.data, row.checksum) for _, row in packed]
    return numbered(
        [read_row(row, position, where=str(key)) for position, row in enumerate(data, after)], after
    )


async def count_events(connection: Connection, keys: Sequence[SessionKey]) -> dict[SessionKey, int]:
    """How many events the sessions have; one that does not exist is not in it."""
    names = [list(column) for column in zip(*keys, strict=True)] or [[], [], []]
    cursor = await connection.execute(_LENGTHS, names)
    rows = cast("list[tuple[str, str, str, int]]", await cursor.fetchall())
    return {SessionKey(*key): length for *key, length in rows}


async def list_waiting(
    connection: Connection, app_name: str, user_id: str | None
) -> list[SessionKey]:
    """The sessions in which calls may wait. Those that never asked anything are not read."""
    cursor = await connection.execute(_WAITING, {"app_name": app_name, "user_id": user_id})
    rows = cast("list[tuple[str, str, str]]", await cursor.fetchall())
    waiting = {
        SessionKey(app_name, user, id): still_waits(event.encode() for _, _, event in events)
        for (user, id), events in groupby(rows, key=itemgetter(0, 1))
    }
    cursor = await connection.execute(_ASKED, {"app_name": app_name, "user_id": user_id})
    for user, id, number in cast("list[tuple[str, str, int]]", await cursor.fetchall()):
        events = await read_rows(connection, number, 0)
        waiting[SessionKey(app_name, user, id)] = still_waits(row.data for _, row in events)
    return [key for key, waits in waiting.items() if waits]


async def list_apps(connection: Connection) -> list[str]:
    """The names of the apps that have sessions, sorted."""
    cursor = await connection.execute("SELECT DISTINCT app_name FROM weft.sessions")
    return sorted(name for (name,) in cast("list[tuple[str]]", await cursor.fetchall()))


async def delete_session(connection: Connection, key: SessionKey) -> None:
    """Delete a session with its events; what they wrote to shared scopes stays."""
    # whoever holds the lease keeps its row: its next write must fail for the right reason
    await connection.execute(
        """WITH lease AS (
            DELETE FROM weft.leases WHERE app_name = %(app_name)s AND user_id = %(user_id)s
                AND id = %(id)s AND NOT EXISTS (
                    SELECT 1 FROM pg_locks WHERE locktype = 'advisory' AND objsubid = 1
                        AND classid = %(high)s::oid AND objid = %(low)s::oid
                )
        )
        DELETE FROM weft.sessions
        WHERE app_name = %(app_name)s AND user_id = %(user_id)s AND id = %(id)s""",
        _with_lock(key),
    )


# One statement sees one state of the database, so events and shared state belong together.
_NEWEST = """
SELECT 0, s.number, s.created, e.seq,
       (SELECT coalesce(max(seq) + 1, 0) FROM weft.events WHERE session = s.number),
       CASE WHEN s.number = %(known)s OR e.seq > s.chaptered THEN NULL ELSE s.state END,
       e.event, e.checksum, s.checksum, s.chaptered, s.archived
FROM weft.sessions s LEFT JOIN weft.events e ON e.session = s.number
    AND e.seq >= CASE WHEN s.number = %(known)s THEN %(length)s ELSE s.chaptered END
WHERE s.app_name = %(app_name)s AND s.user_id = %(user_id)s AND s.id = %(id)s
UNION ALL
SELECT 1, 0, 0, 0, 0, key, value, checksum, NULL, 0, 0 FROM weft.app_state
WHERE app_name = %(app_name)s
UNION ALL
SELECT 2, 0, 0, 0, 0, key, value, checksum, NULL, 0, 0 FROM weft.user_state
WHERE app_name = %(app_name)s AND user_id = %(user_id)s
ORDER BY 1, 4
"""

# The outer join gives a row without an event where the session exists and has no more.
_BEHIND = """
SELECT behind.event, behind.checksum, number, archived FROM weft.sessions LEFT JOIN LATERAL (
    SELECT seq, event, checksum FROM weft.events
    WHERE session = number AND seq >= %(after)s ORDER BY seq LIMIT %(limit)s
) AS behind ON true
WHERE app_name = %(app_name)s AND user_id = %(user_id)s AND id = %(id)s ORDER BY behind.seq
"""

_LENGTHS = """
SELECT app_name, user_id, id,
       (SELECT coalesce(max(seq) + 1, 0) FROM weft.events WHERE session = number)
FROM weft.sessions JOIN unnest(%s::text[], %s::text[], %s::text[]) AS wanted (app, owner, name)
    ON app_name = wanted.app AND user_id = wanted.owner AND id = wanted.name
"""

# A name that is new begins empty, and is over at once if nothing comes of it.
_LOCK_TALLIES = """
WITH hasty AS MATERIALIZED (SELECT set_config('synchronous_commit', 'off', true) AS value)
INSERT INTO weft.tallies (name, value, until)
SELECT name, '', 0 FROM unnest(%s::text[]) AS name, hasty ORDER BY name
ON CONFLICT (name) DO UPDATE SET name = excluded.name
RETURNING name, value, extract(epoch FROM clock_timestamp())::float8
"""

_WRITE_TALLIES = """
UPDATE weft.tallies SET value = new.value, until = new.until
FROM unnest(%s::text[], %s::text[], %s::float8[]) AS new (name, value, until)
WHERE tallies.name = new.name
"""

_WAITING = f"""
WITH asked AS (
    SELECT user_id, id, number, min(seq) AS first
    FROM weft.sessions JOIN weft.events ON session = number
    WHERE app_name = %(app_name)s AND (%(user_id)s::text IS NULL OR user_id = %(user_id)s)
        AND {ASKS.replace("%", "%%")}
    GROUP BY number
)
SELECT user_id, id, event FROM asked JOIN weft.events ON session = number AND seq >= first
WHERE {ANSWERS.replace("%", "%%")} ORDER BY number, seq
"""

_ASKED = """
SELECT user_id, id, number FROM weft.sessions
WHERE app_name = %(app_name)s AND (%(user_id)s::text IS NULL OR user_id = %(user_id)s)
    AND archived > 0
    AND number IN (SELECT session FROM weft.chapters WHERE asks AND packed IS NOT NULL)
ORDER BY number
"""


async def find_holder(connection: Connection, key: SessionKey) -> tuple[str, float | None] | None:
    """Who has the session, and since when by the server's clock; None where nobody has."""
    cursor = await connection.execute(_HOLDER, _with_lock(key))
    row = cast("tuple[str | None, float | None] | None", await cursor.fetchone())
    return (row[0] or "", row[1]) if row is not None else None


async def end_stale(
    connection: Connection, key: SessionKey, worker: str, seconds: float
) -> str | None:
    """Cut off the holder of a session that has been silent for so long; who it was, or None."""
    values = {**_with_lock(key), "worker": worker, "seconds": seconds}
    cursor = await connection.execute(_END_STALE, values)
    row = cast("tuple[str, bool] | None", await cursor.fetchone())
    return row[0] if row is not None else None


async def beat(connection: Connection, worker: str) -> None:
    """Say that the process lives, and forget those that have been silent for a day."""
    await connection.execute(_BEAT, {"worker": worker})


def lock_number(key: SessionKey) -> int:
    """The number that stands for a session among the server's advisory locks."""
    # the separator keeps ("a", "bc") and ("ab", "c") apart
    text = "\0".join(("weft", *key)).encode()
    return int.from_bytes(hashlib.blake2b(text, digest_size=8).digest(), signed=True)


def _with_lock(key: SessionKey) -> dict[str, str | int]:
    """The names of a session, and its lock: a bigint among these shows as two halves."""
    high, low = divmod(lock_number(key) % 2**64, 2**32)
    return {**key._asdict(), "high": high, "low": low}


# A row without its lock is of the dead.
_HOLDER = """
SELECT leases.worker, leases.since FROM pg_locks
LEFT JOIN weft.leases ON process = pid
    AND app_name = %(app_name)s AND user_id = %(user_id)s AND id = %(id)s
WHERE locktype = 'advisory' AND granted AND objsubid = 1 AND classid = %(high)s::oid
    AND objid = %(low)s::oid
    AND database = (SELECT oid FROM pg_database WHERE datname = current_database())
"""

# All its connections: one of them may be in the middle of a transaction.
_END_STALE = """
SELECT leases.worker, pg_terminate_backend(activity.pid)
FROM weft.leases LEFT JOIN weft.workers ON workers.worker = leases.worker
JOIN pg_locks AS locks ON locks.pid = process AND locktype = 'advisory' AND granted
    AND objsubid = 1 AND classid = %(high)s::oid AND objid = %(low)s::oid
JOIN pg_stat_activity AS activity
    ON activity.pid = process OR activity.application_name = left('weft ' || leases.worker, 63)
WHERE app_name = %(app_name)s AND user_id = %(user_id)s AND id = %(id)s
    AND leases.worker <> %(worker)s
    AND greatest(since, coalesce(beat, 0))
        < extract(epoch FROM clock_timestamp())::float8 - %(seconds)s
"""

_BEAT = """
WITH silent AS (
    DELETE FROM weft.workers WHERE beat < extract(epoch FROM clock_timestamp())::float8 - 86400
)
INSERT INTO weft.workers VALUES (%(worker)s, extract(epoch FROM clock_timestamp())::float8)
ON CONFLICT (worker) DO UPDATE SET beat = excluded.beat
"""


async def insert_request(connection: Connection, key: SessionKey) -> None:
    """Ask the holder of the session, in another process, to stop."""
    await connection.execute(
        """INSERT INTO weft.interrupts
        VALUES (%s, %s, %s, extract(epoch FROM clock_timestamp())::float8)
        ON CONFLICT (app_name, user_id, id) DO UPDATE SET asked = excluded.asked""",
        key,
    )


async def delete_request(connection: Connection, key: SessionKey) -> None:
    """Withdraw the request to stop."""
    await connection.execute(
        "DELETE FROM weft.interrupts WHERE app_name = %s AND user_id = %s AND id = %s", key
    )


async def list_requests(connection: Connection) -> list[tuple[SessionKey, float]]:
    """The sessions that somebody wants stopped, and since when."""
    cursor = await connection.execute("SELECT app_name, user_id, id, asked FROM weft.interrupts")
    rows = cast("list[tuple[str, str, str, float]]", await cursor.fetchall())
    return [(SessionKey(*key), when) for *key, when in rows]
