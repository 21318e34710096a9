"""The tables in PostgreSQL: how statements are spelled for it, and what only a server does.

Whoever calls decides about transactions; what must be one statement is one.

Top to bottom: the spelling, who runs steps, the newest events, tallies, who holds a session.
"""

import asyncio
import hashlib
from collections.abc import Iterable, Mapping, Sequence
from functools import partial
from typing import TypeVar, cast

from msgspec.json import decode

from weft.session import SessionKey
from weft.session.memory import StoredSession
from weft.session.store import Count
from weft.session.strand import Strand
from weft.stores.cache import (
    SLICE,
    SessionCache,
    catch_up,
    event_reader,
    read_readable,
)
from weft.stores.chapters import open_log
from weft.stores.postgres_server import (
    MIGRATING,
    Connection,
    Cursor,
    connect_at_once,
    explaining_at_once,
    with_driver_names,
)
from weft.stores.rows import RawRow, StateReader, encode_value, warn_unreadable
from weft.stores.statements import QueueStatements, Steps, StoreSpelling, StoreStatements, Values
from weft.stores.steps import chapters_of, fetch_from, fetch_talk_from, read_log
from weft.values import JsonObject

T = TypeVar("T")

_OWNED = """app_name = :app_name AND user_id = :user_id
    AND (:session::text IS NULL OR session = :session)"""

_DBOS_TURNS = f"(SELECT number FROM weft.dbos_turns WHERE {_OWNED})"

# A turn has one workflow for each time that it was put: NUMBER.0, NUMBER.1 and so on.
_DBOS_WORKFLOWS = f"""
DELETE FROM weft_dbos.{{}} WHERE split_part(workflow_uuid, '.', 1) IN (
    SELECT lpad(number::text, 19, '0') FROM {_DBOS_TURNS} AS gone)"""

_QUEUES = {
    "weft.turns": QueueStatements(
        f"DELETE FROM weft.turns WHERE {_OWNED}",
        "SELECT DISTINCT app_name FROM weft.turns WHERE user_id = :user_id",
    ),
    # The lock of a turn is a list: app, user, session, request. Those of other tasks are any text.
    "procrastinate_jobs": QueueStatements(
        """
        WITH gone AS (
            DELETE FROM procrastinate_jobs
            WHERE CASE WHEN task_name = 'weft.turn' THEN
                queueing_lock::jsonb ->> 0 = :app_name
                AND queueing_lock::jsonb ->> 1 = :user_id
                AND (:session::text IS NULL OR queueing_lock::jsonb ->> 2 = :session) END
            RETURNING id)
        DELETE FROM weft.turn_notes WHERE turn IN (SELECT id::text FROM gone)""",
        """
        SELECT DISTINCT queueing_lock::jsonb ->> 0 FROM procrastinate_jobs
        WHERE CASE WHEN task_name = 'weft.turn'
            THEN queueing_lock::jsonb ->> 1 = :user_id END""",
    ),
    "procrastinate_events": QueueStatements(""),  # they go with their jobs
    # First the workflows: a worker that ends one now writes no output after that.
    "weft_dbos.workflow_status": QueueStatements(_DBOS_WORKFLOWS.format("workflow_status")),
    "weft_dbos.workflow_input": QueueStatements(_DBOS_WORKFLOWS.format("workflow_input")),
    "weft_dbos.workflow_output": QueueStatements(_DBOS_WORKFLOWS.format("workflow_output")),
    "weft.dbos_turns": QueueStatements(
        f"""
        WITH noted AS (
            DELETE FROM weft.turn_notes
            WHERE turn IN (SELECT 'dbos:' || number FROM {_DBOS_TURNS} AS gone))
        DELETE FROM weft.dbos_turns WHERE {_OWNED}""",
        "SELECT DISTINCT app_name FROM weft.dbos_turns WHERE user_id = :user_id",
    ),
    "weft.turn_notes": QueueStatements(""),  # they go with their turns
}
"""The tables of queues, in the order to empty them in."""

SERVER_SQL = StoreStatements(
    StoreSpelling(
        schema="weft.",
        blob="{}",
        position="seq",
        between="session = :number AND seq >= :first AND seq < :end",
        length="(SELECT coalesce(max(seq) + 1, 0) FROM weft.events WHERE session = number)",
        newest="""LEFT JOIN LATERAL (
            SELECT seq, timestamp FROM weft.events WHERE session = number ORDER BY seq DESC LIMIT 1
        ) AS newest ON true""",
        last="seq + 1",
        by_deltas="",
        place="session, seq",
        at=":number, :at",
        # Not FOR UPDATE: events, which refer to the session, can be added meanwhile.
        lock="FOR NO KEY UPDATE",
        has_talk="""SELECT 1 FROM information_schema.columns
            WHERE table_schema = 'weft' AND table_name = 'chapters' AND column_name = 'talk'""",
        start="0",
        since="session = number AND seq >= {}",
        placed="seq",
        later="""LEFT JOIN LATERAL (
            SELECT seq, event, checksum FROM weft.events
            WHERE session = number AND seq >= :after ORDER BY seq LIMIT :limit
        ) AS later ON true""",
        wanted="""(
            SELECT value ->> 0 AS app, value ->> 1 AS owner, value ->> 2 AS name
            FROM json_array_elements(CAST(:keys AS json)))""",
        asked="extract(epoch FROM clock_timestamp())::float8",
        # whoever holds the lease keeps its row: its next write must fail for the right reason
        delete_session="""
            WITH lease AS (
                DELETE FROM weft.leases
                WHERE app_name = :app_name AND user_id = :user_id AND id = :id AND NOT EXISTS (
                    SELECT 1 FROM pg_locks WHERE locktype = 'advisory' AND objsubid = 1
                        AND classid = :high::oid AND objid = :low::oid
                )
            )
            DELETE FROM weft.sessions
            WHERE app_name = :app_name AND user_id = :user_id AND id = :id RETURNING number""",
        cascades=True,
        user_tables=("user_state", "interrupts", "leases"),
        find_queues="""
            SELECT name FROM unnest(:names::text[]) AS name
            WHERE to_regclass(name) IS NOT NULL AND to_regclass('weft.turn_notes') IS NOT NULL""",
        queues=_QUEUES,
    )
)


async def run_steps(connection: Connection, steps: Steps[T]) -> T:
    """What comes of the steps, on this connection."""
    rows: object = None
    while True:
        try:
            statement, values = steps.send(rows)
        except StopIteration as end:
            return cast("T", end.value)
        async with connection.cursor() as cursor:
            if isinstance(values, Mapping):
                await cursor.execute(with_driver_names(statement), values)
            else:
                await cursor.executemany(with_driver_names(statement), values)
            rows = await cursor.fetchall() if cursor.description is not None else []


def _read_alone(url: str, steps: Steps[T]) -> T:
    """What comes of the steps, on a connection of its own, for a thread that waits."""
    with explaining_at_once(url), connect_at_once(url) as connection:
        rows: object = None
        while True:
            try:
                statement, values = steps.send(rows)
            except StopIteration as end:
                return cast("T", end.value)
            cursor = connection.execute(with_driver_names(statement), cast("Values", values))
            rows = listed = list[tuple[object, ...]]()
            # in slices: the driver lets no other thread work while it makes rows
            while some := cursor.fetchmany(SLICE):
                listed += some


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
    rows = await _fetch_rows(cursor)
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
    app = reader.shared_state(
        key[:1], [(r[5] or "", r[6].encode(), r[7]) for r in rows if r[0] == 1]
    )
    user = reader.shared_state(
        key[:2], [(r[5] or "", r[6].encode(), r[7]) for r in rows if r[0] == 2]
    )
    events: Iterable[RawRow] = (
        (row[6].encode(), row[7]) for row in rows if row[0] == 0 and row[3] is not None
    )
    if is_new and chaptered:
        opened, chapters = None, None
        if not skip_unreadable:
            steps = chapters_of(SERVER_SQL, number, chaptered)
            chapters = await run_steps(connection, steps)
        if chapters:
            tail, read = [*events], partial(_read_alone, url)
            fetch = fetch_from(SERVER_SQL, read, number, where=str(key))
            talk = fetch_talk_from(SERVER_SQL, read, number)
            opened = await asyncio.to_thread(
                open_log, cached, chapters, tail, event_reader(), fetch, talk
            )
            # a chapter may have been added between the two statements
            if opened is not None and chaptered + len(tail) == length:
                return opened, app, user
        # all of it must be read; what was added meanwhile is for the next look
        log = read_log(SERVER_SQL, number, 0, length)
        # in a thread: a very long log would stop the event loop while rows are made of it
        older = await asyncio.to_thread(_read_alone, url, log)
        events = ((row.data, row.checksum) for row in older)
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


async def _fetch_rows(cursor: Cursor) -> list[_NewestRow]:
    """All rows of `_NEWEST`; other tasks have their turn between two slices."""
    rows: list[_NewestRow] = []
    while fetched := cast("list[_NewestRow]", await cursor.fetchmany(SLICE)):
        rows += fetched
        if len(fetched) == SLICE:
            await asyncio.sleep(0)
    return rows


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


async def find_holder(connection: Connection, key: SessionKey) -> tuple[str, float | None] | None:
    """Who has the session, and since when by the server's clock; None where nobody has."""
    cursor = await connection.execute(_HOLDER, with_lock(key))
    row = cast("tuple[str | None, float | None] | None", await cursor.fetchone())
    return (row[0] or "", row[1]) if row is not None else None


async def end_stale(
    connection: Connection, key: SessionKey, worker: str, seconds: float
) -> str | None:
    """Cut off the holder of a session that has been silent for so long; who it was, or None."""
    values = {**with_lock(key), "worker": worker, "seconds": seconds}
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


def with_lock(key: SessionKey) -> dict[str, str | int]:
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
