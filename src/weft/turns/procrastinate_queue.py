"""Turns as jobs of Procrastinate, in the database of the store: `pip install "weft[queue]"`.

Procrastinate keeps the jobs: their line in a session (its lock), their priority, their delay,
what became of them, and it tells workers of new ones. Its own commands and its page for Django
show them too. Three things are done here and not left to its worker. A job's end is written
until the database has it, for a server that restarts in that moment would leave the job running
for ever. Only its owner ends a job, for a worker that was stopped may wake up later. And a job of
a dead worker is handed on within a second, for the heartbeats of Procrastinate take thirty.

Top to bottom: the queue, what one worker sees of it, the connector, the statements.
"""

import hashlib
import time
from collections.abc import Collection, Iterable, Mapping, Sequence
from typing import TYPE_CHECKING, cast

import msgspec

from weft.errors import StoreError, UsageError
from weft.session import SessionKey
from weft.turns.databases import (
    LineReader,
    ServerDatabase,
    TakeRequest,
    execute,
    lock_migrations,
    require_connection,
)
from weft.turns.lines import END_PAUSES, JOB_LINES, JOBS, server_take
from weft.turns.running import TakenTurn, take_turns
from weft.turns.turn import (
    BLAME,
    MOST_WAITING,
    NO_LIMIT,
    Living,
    QueuedTurn,
    RunTurn,
    StopSignal,
    TurnEnd,
    TurnInfo,
    TurnRow,
    TurnStatus,
    count_statuses,
    encode_turn,
    mark_retried,
    read_waits,
    session_full,
)

try:
    import procrastinate
    import psycopg
    from procrastinate.connector import BaseAsyncConnector, Notify
except ImportError:
    raise UsageError(
        "Procrastinate is not installed",
        where="the queue",
        hint='pip install "weft[queue]", or use the engine inbox',
    ) from None

if TYPE_CHECKING:
    from weft.stores.postgres_server import Connection, DatabaseAddress

_TASK = "weft.turn"

_BEAT_EVERY = 5.0
"""Seconds between reports to Procrastinate that the worker lives: its own tools show that."""

_LONGEST_QUEUE = 40
"""Bytes of the name of a queue: notifications use it in a channel name of at most 63."""

_STATUSES: Mapping[str, TurnStatus] = {
    "todo": "waiting",
    "doing": "running",
    "succeeded": "done",
    "failed": "failed",
    "cancelled": "cancelled",
    "aborted": "cancelled",
    "aborting": "running",
}


class ProcrastinateTurns:
    """Turns as jobs of Procrastinate."""

    engine = "procrastinate"

    def __init__(self, address: "DatabaseAddress", worker: str) -> None:
        self._database = ServerDatabase(address, worker)
        self._app = procrastinate.App(connector=_PoolConnector(self._database))
        self._is_open = False

    async def open(self) -> None:
        """Make the tables of Weft and of Procrastinate, or refuse those of another version."""
        if self._is_open:
            return
        await self._database.open()
        async with self._database.connection() as connection:
            if not await _has_tables(connection):
                async with connection.transaction():
                    await lock_migrations(connection)
                    # asked again under the lock: another process may have made them meanwhile
                    if not await _has_tables(connection):
                        await connection.execute(self._app.schema_manager.get_schema().encode())
            await _require_functions(connection, self._database.url)
            if not await _has_lines(connection):
                async with connection.transaction():
                    await lock_migrations(connection)
                    if not await _has_lines(connection):
                        for statement in _LINES:
                            await connection.execute(statement.encode())
        self._is_open = True

    async def put(
        self,
        turn: QueuedTurn,
        *,
        delay: float = 0.0,
        priority: int = 0,
        limit: int | None = MOST_WAITING,
        connection: object = None,
    ) -> bool:
        """Put a turn after the others of its session; False where it is known already."""
        await self.open()
        values = {
            "queue": queue_of(turn.key.app_name),
            "task": _TASK,
            "priority": priority,
            "lock": _lock_of(turn.key),
            "request": _request_of(turn.key, turn.request_id),
            "args": msgspec.json.encode(
                {"app": turn.key.app_name, "turn": encode_turn(turn)}
            ).decode(),
            "delay": max(delay, 0.0),
            "limit": limit if limit is not None else NO_LIMIT,
        }
        if connection is None:
            async with self._database.connection() as own:
                is_new = await _put(own, values)
        else:
            from weft.stores.postgres_server import explaining

            async with explaining(self._database.url):
                is_new = await _put(require_connection(connection), values)
        if is_new is None:
            raise session_full(turn.key, limit)
        return is_new

    async def work(
        self, run: RunTurn, *, apps: Sequence[str], worker: str, slots: int, stop: StopSignal
    ) -> None:
        """Take turns of these apps and run up to `slots` at once, until `stop` is set."""
        await self.open()
        source = self.source(apps=apps, worker=worker)
        try:
            await take_turns(source, run, slots=slots, stop=stop)
        finally:
            await source.unregister()

    def source(self, *, apps: Sequence[str], worker: str) -> "JobSource":
        """The queue as one worker sees it."""
        return JobSource(self._app, self._database, apps, worker)

    async def recover(self, living: Living) -> int:
        """Hand on every turn whose owner does not live."""
        await self.open()
        owners = await self._database.execute(_OWNERS, {"task": _TASK})
        if not owners:
            return 0
        # asked after the owners: a worker that began in between lives, and keeps its turns
        alive = await living()
        handed_on = 0
        for owner, worker in owners:
            if worker in alive:
                continue
            await self._database.forget_room(str(worker))
            values = {"owner": owner, "task": _TASK, **BLAME}
            handed_on += len(await self._database.execute(_HAND_ON, values))
            # a job may lose the number of its owner, when Procrastinate forgets a worker
            if owner is not None:
                await self._app.job_manager.unregister_worker(cast("int", owner))
        return handed_on

    async def find(self, key: SessionKey, request_id: str) -> TurnInfo | None:
        """The turn of a request, or None."""
        infos = await self._infos(request=_request_of(key, request_id))
        return infos[0] if infos else None

    async def list(
        self,
        *,
        app_name: str | None = None,
        status: TurnStatus | None = None,
        id: str | None = None,
        limit: int = 100,
    ) -> "list[TurnInfo]":
        """Turns in the order they were put."""
        if id is not None and not id.isdecimal():
            return []
        infos = await self._infos(
            queue=queue_of(app_name) if app_name is not None else None,
            statuses=[each for each, ours in _STATUSES.items() if status in (None, ours)],
            id=int(id) if id is not None else None,
            limit=limit,
        )
        return [*infos]

    async def _infos(
        self,
        *,
        queue: str | None = None,
        statuses: Sequence[str] = tuple(_STATUSES),
        id: int | None = None,
        request: str | None = None,
        limit: int = 1,
    ) -> Sequence[TurnInfo]:
        await self.open()
        values = {
            "task": _TASK,
            "queue": queue,
            "statuses": [*statuses],
            "id": id,
            "request": request,
            "limit": limit,
        }
        rows = await self._database.execute(_LIST, values)
        return [row.info(_STATUSES[row.status]) for row in map(TurnRow.read, rows)]

    async def retry(self, id: str) -> bool:
        """Have a turn that failed or was cancelled taken again."""
        if not id.isdecimal():
            return False
        await self.open()
        values: dict[str, object] = {"id": int(id), "task": _TASK}
        rows = await self._database.execute(_TEXT, values)
        if not rows:
            return False
        values["turn"] = mark_retried(str(rows[0][0]))
        return bool(await self._database.execute(_RETRY, values))

    async def cancel(self, id: str) -> bool:
        """Take a waiting turn out of the queue."""
        if not id.isdecimal() or not await self.list(id=id):
            return False
        return await self._app.job_manager.cancel_job_by_id_async(int(id))

    async def prune(self, *, keep: float, most: int) -> int:
        """Delete turns that were done at least `keep` seconds ago."""
        await self.open()
        values = {"task": _TASK, "keep": keep, "most": most}
        count = len(await self._database.execute(_PRUNE, values))
        await self._database.gather_counts()
        return count

    async def counts(self) -> dict[tuple[str, TurnStatus], int]:
        """How many turns there are, by the name of their app and by status."""
        await self.open()
        return count_statuses(await self._database.counts(JOBS.queue), _STATUSES)

    async def waits(self) -> dict[str, float]:
        """For how long the oldest turn of each app waits that a worker could take."""
        await self.open()
        return read_waits(await self._database.execute(_WAITS, {"task": _TASK}))

    async def close(self) -> None:
        """Close the connections."""
        await self._database.close()


def queue_of(app_name: str) -> str:
    """The queue of an app: its name, or a short form of it that no other app has."""
    queue = f"weft:{app_name}"
    if len(queue.encode()) <= _LONGEST_QUEUE and queue.isascii():
        return queue
    mark = hashlib.blake2b(app_name.encode(), digest_size=6).hexdigest()
    readable = app_name.encode("ascii", "ignore").decode()[: _LONGEST_QUEUE - len(mark) - 6]
    return f"weft:{readable}:{mark}"


def _lock_of(key: SessionKey) -> str:
    """What no two running jobs have in common: their session."""
    return msgspec.json.encode([*key]).decode()


def _request_of(key: SessionKey, request_id: str) -> str:
    """What no two jobs have in common: their request."""
    return msgspec.json.encode([*key, request_id]).decode()


class JobSource:
    """The jobs as one worker sees them."""

    def __init__(
        self, app: procrastinate.App, database: ServerDatabase, apps: Sequence[str], worker: str
    ) -> None:
        self._jobs = app.job_manager
        self._database = database
        self._worker = worker
        self._owner: int | None = None
        """The number that Procrastinate knows the worker by."""
        self._beat = 0.0
        statement = server_take(JOBS, len(apps), marking=_MARKING, delayed=_FIRST_DELAYED)
        request = TakeRequest(JOBS, [queue_of(app) for app in apps], worker, statement)
        self._lines = LineReader(database, request, self._end_pauses)

    @property
    def is_told(self) -> bool:
        """Whether the server wakes this worker for turns, or it has to look."""
        return self._lines.is_told

    async def take(self, most: int) -> list[TakenTurn]:
        """Up to `most` turns, which are this worker's from now on."""
        owner = await self._register_worker() if most else None
        rows = await self._lines.take(most, {"owner": owner})
        jobs = sorted(cast("Sequence[tuple[int, int, str, int, int]]", rows))
        # an UPDATE gives its rows in any order
        return [
            TakenTurn.read(str(id), text, attempts, kills) for _, id, text, attempts, kills in jobs
        ]

    async def _end_pauses(self) -> None:
        """Have turns taken from now on that are due: a delayed one joins its session's line."""
        for id, request in await self._database.execute(_DELAYED, {}):
            session = cast("list[str]", msgspec.json.decode(str(request)))[:-1]
            values = {"id": id, "lock": _lock_of(SessionKey(*session))}
            await self._database.execute(_JOIN_LINE, values)
        await self._database.execute(END_PAUSES, {"queue": JOBS.queue})

    async def drop_adrift(self, running: Collection[str]) -> int:
        """Give back what this worker owns and does not run."""
        values = {"owner": self._owner, "running": [int(id) for id in running], "task": _TASK}
        return len(await self._database.execute(_DROP_ADRIFT, values))

    async def settle(self, id: str, outcome: TurnEnd) -> bool:
        """Write down what came of a turn."""
        values = {
            "id": int(id),
            "owner": self._owner,
            "reason": outcome.reason,
            "after": outcome.after,
        }
        statement = {
            "done": _DONE,
            "again": _AGAIN,
            "failed": _FAILED,
            "cancelled": _STOPPED,
            "released": _RELEASE,
        }[outcome.kind]
        is_ours = bool(await self._database.execute(statement, values))
        if outcome.after > 0:
            self._database.hear()  # the next look says when it is due
        return is_ours

    async def news(self) -> None:
        """Wait until there may be a turn to take."""
        await self._lines.news()

    async def unregister(self) -> None:
        """Tell Procrastinate that the worker is gone."""
        owner, self._owner = self._owner, None
        if owner is None:
            return
        try:
            await self._database.execute(_FORGET_OWNER, {"owner": owner})
            await self._jobs.unregister_worker(owner)
        except StoreError:
            pass  # the worker that recovers its turns does it

    async def _register_worker(self) -> int:
        if self._owner is None:
            owner = await self._jobs.register_worker()
            await self._database.execute(_NOTE_OWNER, {"owner": owner, "worker": self._worker})
            self._owner, self._beat = owner, time.monotonic()
        elif time.monotonic() - self._beat >= _BEAT_EVERY:
            await self._jobs.update_heartbeat(self._owner)
            self._beat = time.monotonic()
        return self._owner


class _PoolConnector(BaseAsyncConnector):
    """Procrastinate over the connections of Weft: no second pool, and no transaction a query."""

    def __init__(self, database: ServerDatabase) -> None:
        self._database = database

    async def open_async(self, pool: object = None) -> None:
        """Nothing: connections are opened as they are needed."""

    async def close_async(self) -> None:
        """Nothing: whoever has the database closes it."""

    async def execute_query_async(self, query: str, **arguments: object) -> None:
        """Run a query."""
        async with self._database.connection() as connection:
            await connection.execute(query.encode(), arguments)

    async def execute_query_one_async(self, query: str, **arguments: object) -> dict[str, object]:
        """The first row of a query."""
        rows = await self.execute_query_all_async(query, **arguments)
        return rows[0] if rows else {}

    async def execute_query_all_async(
        self, query: str, **arguments: object
    ) -> list[dict[str, object]]:
        """The rows of a query."""
        async with self._database.connection() as connection:
            cursor = await connection.execute(query.encode(), arguments)
            names = [column.name for column in cursor.description or ()]
            return [dict(zip(names, row, strict=True)) for row in await cursor.fetchall()]

    async def listen_notify(self, on_notification: Notify, channels: Iterable[str]) -> None:
        """Nothing: the database listens."""


async def _put(connection: "Connection", values: Mapping[str, object]) -> bool | None:
    """Whether the turn is new; None where too many of its session wait."""
    try:
        # no transaction of the caller's: the statement commits itself
        if connection.autocommit and not has_begun(connection):
            rows = await execute(connection, _PUT, values)
        else:
            if not has_begun(connection):
                await connection.execute("SELECT 1")  # the caller's transaction, not one of ours
            async with connection.transaction():  # what is known must not break it
                rows = await execute(connection, _PUT, values)
    except psycopg.errors.UniqueViolation:
        # the request is known: it was put before
        return False
    if rows:
        return True
    return False if await execute(connection, _IS_KNOWN, values) else None


def has_begun(connection: "Connection") -> bool:
    """Whether the connection is in a transaction."""
    return connection.info.transaction_status != psycopg.pq.TransactionStatus.IDLE


async def _has_tables(connection: "Connection") -> bool:
    # not to_regclass: inside a transaction it remembers that there was no such table
    cursor = await connection.execute(
        "SELECT 1 FROM pg_catalog.pg_class"
        " WHERE relname = 'procrastinate_jobs' AND pg_catalog.pg_table_is_visible(oid)"
    )
    return await cursor.fetchone() is not None


async def _require_functions(connection: "Connection", url: str) -> None:
    """Refuse tables that another version of Procrastinate has made."""
    from weft.stores.postgres_server import place

    rows = await execute(
        connection, "SELECT proname FROM pg_proc WHERE proname = ANY(%(names)s)", {"names": _USED}
    )
    missing = sorted({*_USED} - {str(name) for (name,) in rows})
    if missing:
        version = procrastinate.__version__
        raise StoreError(
            f"the tables of Procrastinate are of another version than {version}: they lack"
            f" {missing[0]}",
            where=place(url),
            hint="apply its migrations (procrastinate schema --migrations-path), or install the"
            " version that made them",
        )


_USED = [
    "procrastinate_defer_jobs_v1",
    "procrastinate_finish_job_v1",
    "procrastinate_retry_job_v2",
    "procrastinate_cancel_job_v1",
    "procrastinate_register_worker_v1",
]


async def _has_lines(connection: "Connection") -> bool:
    cursor = await connection.execute(
        "SELECT 1 FROM pg_catalog.pg_trigger WHERE tgname = 'weft_procrastinate_line_insert'"
        " AND tgrelid = 'procrastinate_jobs'::regclass"
    )
    return await cursor.fetchone() is not None


_LINES = (
    # A request is put once, also while it runs and when it is done.
    "CREATE UNIQUE INDEX IF NOT EXISTS weft_turns_once ON procrastinate_jobs (queueing_lock)"
    f" WHERE task_name = '{_TASK}'",
    # The line of a session, for those who join it and for those who look for the first in it.
    "DROP INDEX IF EXISTS weft_turns_lines",
    "CREATE INDEX weft_turns_heads ON procrastinate_jobs"
    " (lock, (status = 'todo'), priority DESC, id) WHERE status IN ('todo', 'doing')",
    "CREATE INDEX weft_turns_delayed ON procrastinate_jobs (scheduled_at)"
    f" WHERE status = 'todo' AND lock IS NULL AND task_name = '{_TASK}'",
    *JOB_LINES,
)

# In one session Procrastinate takes the higher priority first. Messages must stay in their order,
# so none has a higher one than those before it.
_PUT = """
SELECT unnest(procrastinate_defer_jobs_v1(ARRAY[ROW(
    %(queue)s, %(task)s,
    least(%(priority)s::int, (
        SELECT min(priority) FROM procrastinate_jobs
        WHERE lock = %(lock)s AND status IN ('todo', 'doing'))),
    CASE WHEN %(delay)s::float8 > 0 THEN NULL ELSE %(lock)s END,
    %(request)s, %(args)s::jsonb,
    CASE WHEN %(delay)s::float8 > 0
        THEN clock_timestamp() + make_interval(secs => %(delay)s::float8) END
)]::procrastinate_job_to_defer_v1[]))
WHERE %(limit)s > (
    SELECT count(*) FROM (
        SELECT 1 FROM procrastinate_jobs WHERE lock = %(lock)s AND status = 'todo'
        LIMIT %(limit)s) AS line)
"""

_IS_KNOWN = """
SELECT 1 FROM procrastinate_jobs WHERE queueing_lock = %(request)s AND task_name = %(task)s
"""

_NOTED_AS = "(SELECT {} FROM weft.turn_notes WHERE turn = job.id::text)"

_MARKING = f"""
UPDATE procrastinate_jobs AS job SET status = 'doing', worker_id = %(owner)s
FROM heads WHERE job.id = heads.number AND job.status = 'todo'
RETURNING -job.priority, job.id, job.args ->> 'turn',
    coalesce({_NOTED_AS.format("attempts")}, 0), coalesce({_NOTED_AS.format("kills")}, 0)
"""

_IS_DELAYED = f"status = 'todo' AND lock IS NULL AND task_name = '{_TASK}'"

_FIRST_DELAYED = f"""
SELECT extract(epoch FROM min(scheduled_at))::float8 FROM procrastinate_jobs WHERE {_IS_DELAYED}
"""

_DELAYED = f"""
SELECT id, queueing_lock FROM procrastinate_jobs
WHERE {_IS_DELAYED} AND scheduled_at <= clock_timestamp() ORDER BY scheduled_at, id LIMIT 100
"""

_MINE = """
mine AS MATERIALIZED (
    SELECT id FROM procrastinate_jobs
    WHERE id = %(id)s AND status = 'doing' AND worker_id = %(owner)s FOR UPDATE)
"""

_JOIN_LINE = f"""
UPDATE procrastinate_jobs SET lock = %(lock)s, scheduled_at = NULL
WHERE id = %(id)s AND {_IS_DELAYED} RETURNING id
"""

_DONE = f"WITH {_MINE} SELECT procrastinate_finish_job_v1(id, 'succeeded', false) FROM mine"

_STOPPED = f"WITH {_MINE} SELECT procrastinate_finish_job_v1(id, 'aborted', false) FROM mine"

_RELEASE = f"""
WITH {_MINE} SELECT procrastinate_retry_job_v2(
    id, clock_timestamp() + make_interval(secs => %(after)s::float8), NULL, NULL, NULL) FROM mine
"""

_NOTED = """
noted AS (
    INSERT INTO weft.turn_notes (turn, attempts, reason)
    SELECT id::text, 1, %(reason)s FROM mine
    ON CONFLICT (turn) DO UPDATE
    SET attempts = turn_notes.attempts + 1, reason = excluded.reason
    RETURNING turn::bigint AS id)
"""

_AGAIN = f"""
WITH {_MINE}, {_NOTED} SELECT procrastinate_retry_job_v2(
    id, clock_timestamp() + make_interval(secs => %(after)s::float8), NULL, NULL, NULL) FROM noted
"""

_FAILED = f"""
WITH {_MINE}, {_NOTED} SELECT procrastinate_finish_job_v1(id, 'failed', false) FROM noted
"""

_DROP_ADRIFT = """
WITH adrift AS MATERIALIZED (
    SELECT id FROM procrastinate_jobs
    WHERE status = 'doing' AND task_name = %(task)s AND worker_id = %(owner)s
        AND id <> ALL(%(running)s::bigint[]) FOR UPDATE)
SELECT procrastinate_retry_job_v2(id, now(), NULL, NULL, NULL) FROM adrift
"""

_OWNERS = """
SELECT worker_id, worker FROM procrastinate_jobs
LEFT JOIN weft.turn_owners ON owner = worker_id
WHERE status = 'doing' AND task_name = %(task)s
UNION SELECT owner, worker FROM weft.turn_room JOIN weft.turn_owners USING (worker)
WHERE queue = 'procrastinate'
"""

_NOTE_OWNER = """
WITH gone AS (
    DELETE FROM weft.turn_owners WHERE owner NOT IN (SELECT id FROM procrastinate_workers))
INSERT INTO weft.turn_owners VALUES (%(owner)s, %(worker)s)
"""

_FORGET_OWNER = "DELETE FROM weft.turn_owners WHERE owner = %(owner)s"

# A suspect runs when its worker has nothing else: next to others it only waited.
_HAND_ON = """
WITH orphans AS MATERIALIZED (
    SELECT id FROM procrastinate_jobs
    WHERE status = 'doing' AND task_name = %(task)s AND worker_id IS NOT DISTINCT FROM %(owner)s
    FOR UPDATE),
blamed AS (
    SELECT id FROM orphans LEFT JOIN weft.turn_notes ON turn = id::text
    WHERE coalesce(kills, 0) < %(suspect)s OR (SELECT count(*) FROM orphans) = 1),
noted AS (
    INSERT INTO weft.turn_notes (turn, kills)
    SELECT id::text, 1 FROM blamed
    ON CONFLICT (turn) DO UPDATE SET kills = turn_notes.kills + 1,
        reason = CASE WHEN turn_notes.kills + 1 >= %(most)s THEN %(reason)s
                 ELSE turn_notes.reason END
    RETURNING turn::bigint AS id, kills)
SELECT CASE WHEN coalesce(kills, 0) >= %(most)s
    THEN procrastinate_finish_job_v1(id, 'failed', false)::text
    ELSE procrastinate_retry_job_v2(id, now(), NULL, NULL, NULL)::text END
FROM orphans LEFT JOIN noted USING (id)
"""

_TEXT = "SELECT args ->> 'turn' FROM procrastinate_jobs WHERE id = %(id)s AND task_name = %(task)s"

# As a new job, after the others of its session.
_RETRY = """
WITH over AS (
    DELETE FROM procrastinate_jobs
    WHERE id = %(id)s AND task_name = %(task)s AND status IN ('failed', 'cancelled', 'aborted')
    RETURNING *),
forgotten AS (DELETE FROM weft.turn_notes WHERE turn IN (SELECT id::text FROM over))
SELECT unnest(procrastinate_defer_jobs_v1(ARRAY[ROW(
    queue_name, task_name, priority, lock, queueing_lock,
    args || jsonb_build_object('turn', %(turn)s::text), NULL
)]::procrastinate_job_to_defer_v1[])) FROM over
"""

_LIST = """
SELECT * FROM (
    SELECT id, args ->> 'turn', status::text, priority, attempts_noted, kills, worker, reason,
        (SELECT extract(epoch FROM min(at))::float8 FROM procrastinate_events
            WHERE job_id = procrastinate_jobs.id AND type = 'deferred'),
        (SELECT extract(epoch FROM max(at))::float8 FROM procrastinate_events
            WHERE job_id = procrastinate_jobs.id
                AND status IN ('succeeded', 'failed', 'cancelled', 'aborted')
                AND type IN ('succeeded', 'failed', 'cancelled', 'aborted')),
        extract(epoch FROM CASE WHEN status = 'todo' AND scheduled_at > now()
                           THEN scheduled_at END)::float8
    FROM procrastinate_jobs
    LEFT JOIN (SELECT turn, attempts AS attempts_noted, kills, reason FROM weft.turn_notes) AS notes
        ON turn = id::text
    LEFT JOIN weft.turn_owners ON owner = worker_id
    WHERE task_name = %(task)s AND status = ANY(%(statuses)s::procrastinate_job_status[])
        AND (%(queue)s::text IS NULL OR queue_name = %(queue)s)
        AND (%(id)s::bigint IS NULL OR id = %(id)s)
        AND (%(request)s::text IS NULL OR queueing_lock = %(request)s)
    ORDER BY id DESC LIMIT %(limit)s) AS newest
ORDER BY id
"""

_PRUNE = """
WITH first AS MATERIALIZED (
    SELECT id FROM procrastinate_jobs WHERE task_name = %(task)s AND status = 'succeeded'
    ORDER BY id LIMIT %(most)s),
gone AS (
    DELETE FROM procrastinate_jobs WHERE id IN (
        SELECT id FROM first WHERE (
            SELECT max(at) FROM procrastinate_events
            WHERE job_id = first.id AND type = 'succeeded'
        ) <= clock_timestamp() - make_interval(secs => %(keep)s::float8))
    RETURNING id),
noted AS (DELETE FROM weft.turn_notes WHERE turn IN (SELECT id::text FROM gone))
SELECT id FROM gone
"""

# Jobs are numbered in the order in which they are put: of those without a time the first one is
# the oldest, and of those with a time the first one that was due.
_WAITS = """
SELECT args ->> 'app', max(extract(epoch FROM clock_timestamp() - coalesce(
    scheduled_at,
    (SELECT min(at) FROM procrastinate_events WHERE job_id = head.id AND type = 'deferred')
)))::float8
FROM (
    SELECT DISTINCT ON (queue_name, scheduled_at IS NULL) id, args, scheduled_at
    FROM procrastinate_jobs
    WHERE task_name = %(task)s AND status = 'todo'
        AND (scheduled_at IS NULL OR scheduled_at <= now())
        AND (lock IS NULL OR lock NOT IN (
            SELECT lock FROM procrastinate_jobs WHERE status = 'doing' AND lock IS NOT NULL))
    ORDER BY queue_name, scheduled_at IS NULL, scheduled_at, id) AS head
GROUP BY 1
"""
