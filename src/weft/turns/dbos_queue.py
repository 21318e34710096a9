"""Turns as workflows of DBOS, in the database of the store: `pip install "weft[dbos]"`.

DBOS keeps the workflows in a schema of its own, `weft_dbos`, takes them, one at a time in each
session (a partition of its queue), and writes down how they ended, until the database has it. Its
own commands and pages show them. Three things are done here. The order in a session is that in
which turns were put, for DBOS goes by the clock. Turns of a dead worker are handed on, for DBOS
leaves it to others to know who lives. And a turn is known by its request, also when it is done.

What DBOS does otherwise than other queues: it takes sessions in any order, so there are no
priorities, and a turn that was handed on waits among the others. All workers of an app have the
same number of slots, that of the worker that started last. A turn that failed and is tried again
keeps its slot while it waits.

Top to bottom: the queue, one worker's part in it, the way to the database, the statements.
"""

import asyncio
import logging
import threading
from collections.abc import Awaitable, Mapping, Sequence
from typing import TYPE_CHECKING, NamedTuple, cast

import msgspec

from weft.errors import StoreError, UsageError
from weft.session import SessionKey
from weft.turns.databases import ServerDatabase, lock_migrations, require_connection
from weft.turns.inbox import poison_reason
from weft.turns.turn import (
    MOST_KILLS,
    Living,
    QueuedTurn,
    RunTurn,
    StopSignal,
    TurnEnd,
    TurnInfo,
    TurnStatus,
    UnreadableTurn,
    decode_turn,
    encode_turn,
)

if TYPE_CHECKING:
    import sqlalchemy

    from weft.stores.postgres_server import DatabaseAddress
    from weft.stores.postgres_tables import Connection

_log = logging.getLogger("weft.turns")

_SCHEMA = "weft_dbos"

_WORKFLOW = "weft.turn"

_VERSION = "weft-1"
"""What DBOS takes for the version of the program: that of how turns are written down.

Workflows of other versions are not taken, so it must not change with the code.
"""

_POLL_EVERY = 0.1
"""Seconds between two looks for turns: DBOS is not told of new ones."""

_ADRIFT_EVERY = 2.0
"""Seconds between two looks for turns that this worker owns and does not run."""

_CONNECTIONS = 4
"""Connections that DBOS has of its own in a worker."""

_LONGEST_STOP = 10**6
"""Seconds that turns may take to end; whoever runs them sees to it that they do."""

_STATUSES: Mapping[str, TurnStatus] = {
    "ENQUEUED": "waiting",
    "DELAYED": "waiting",
    "PENDING": "running",
    "SUCCESS": "done",
    "ERROR": "failed",
    "MAX_RECOVERY_ATTEMPTS_EXCEEDED": "failed",
    "CANCELLED": "cancelled",
}


class DbosTurns:
    """Turns as workflows of DBOS."""

    engine = "dbos"

    def __init__(self, address: "DatabaseAddress", worker: str) -> None:
        _require_dbos()
        self._address = address
        self._database = ServerDatabase(address, worker)
        self._is_open = False

    async def open(self) -> None:
        """Make the tables of Weft and of DBOS, or refuse those of another version."""
        if self._is_open:
            return
        await self._database.open()
        async with self._database.connection() as connection:
            if not await _has_tables(connection):
                async with connection.transaction():
                    await lock_migrations(connection)
                    if not await _has_tables(connection):
                        # in its own transactions, which the lock keeps others out of
                        await asyncio.to_thread(_migrate, self._address.url)
                        for statement in _TABLES:
                            await connection.execute(statement.encode())
        self._is_open = True

    async def put(
        self, turn: QueuedTurn, *, delay: float = 0.0, priority: int = 0, connection: object = None
    ) -> bool:
        """Put a turn behind the others of its session; False where it is known already."""
        if priority:
            raise UsageError(
                "DBOS takes sessions in any order: there are no priorities",
                where="Turns.put",
                hint="leave priority out, or use the engine procrastinate or inbox",
            )
        values = {
            **turn.key._asdict(),
            "request_id": turn.request_id,
            "turn": encode_turn(turn),
            "delay": max(delay, 0.0),
            **_place_of(turn.key),
        }
        await self.open()
        if connection is not None:
            return bool(await _execute(require_connection(connection), _PUT, values))
        return bool(await self._run(_PUT, values))

    async def work(
        self, run: RunTurn, *, apps: Sequence[str], worker: str, slots: int, stop: StopSignal
    ) -> None:
        """Take turns of these apps and run up to `slots` at once, until `stop` is set."""
        await self.open()
        part = _DbosWorker(self._database, run, worker=worker, slots=slots, stop=stop)
        await asyncio.to_thread(part.launch, self._address.url, [*map(queue_of, apps)])
        try:
            await part.watch()
        finally:
            # whatever happens, DBOS must not go on in its threads
            await asyncio.shield(part.leave())

    async def recover(self, living: Living) -> int:
        """Hand on every turn whose owner does not live."""
        await self.open()
        owners = await self._run(_OWNERS, {})
        if not owners:
            return 0
        alive = await living()
        handed_on = 0
        for (owner,) in owners:
            if owner not in alive:
                values = {
                    "worker": owner,
                    "most": MOST_KILLS,
                    "reason": poison_reason(MOST_KILLS),
                }
                handed_on += len(await self._run(_HAND_ON, values))
        return handed_on

    async def find(self, key: SessionKey, request_id: str) -> TurnInfo | None:
        """The turn of a request, or None."""
        infos = await self._infos(key=key, request_id=request_id)
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
        return [*await self._infos(app_name=app_name, status=status, id=id, limit=limit)]

    async def _infos(
        self,
        *,
        key: SessionKey | None = None,
        request_id: str | None = None,
        app_name: str | None = None,
        status: TurnStatus | None = None,
        id: str | None = None,
        limit: int = 1,
    ) -> Sequence[TurnInfo]:
        await self.open()
        values = {
            "app_name": key.app_name if key is not None else app_name,
            "user_id": key.user_id if key is not None else None,
            "session": key.id if key is not None else None,
            "request_id": request_id,
            "number": int(id) if id is not None else None,
            "statuses": [each for each, ours in _STATUSES.items() if status in (None, ours)],
            "limit": limit,
        }
        rows = await self._run(_LIST, values)
        return [_TurnInTables(*row).info() for row in rows]  # type: ignore[arg-type]

    async def retry(self, id: str) -> bool:
        """Have a turn that failed or was cancelled taken again, behind the others."""
        infos = await self.list(id=id)
        if not infos:
            return False
        turn = infos[0].turn
        again = encode_turn(msgspec.structs.replace(turn, retries=turn.retries + 1))
        values = {"number": int(id), "turn": again, **_place_of(turn.key)}
        return bool(await self._run(_RETRY, values))

    async def cancel(self, id: str) -> bool:
        """Take a waiting turn out of the queue."""
        if not id.isdecimal():
            return False
        await self.open()
        return bool(await self._run(_CANCEL, {"number": int(id)}))

    async def prune(self, *, keep: float, most: int) -> int:
        """Delete turns that were done so many seconds ago, with all that DBOS has of them."""
        await self.open()
        async with self._database.connection() as connection, connection.transaction():
            old = await _execute(connection, _OLD, {"keep": keep, "most": most})
            if old:
                numbers = [cast("int", number) for number, _ in old]
                ids = [f"{number:019}.{at}" for number, tries in cast("list[tuple[int, int]]", old)
                       for at in range(tries + 1)]  # fmt: skip
                values = {"numbers": numbers, "notes": [*map(note_of, numbers)], "ids": ids}
                await _execute(connection, _FORGET, values)
        return len(old)

    async def counts(self) -> dict[tuple[str, TurnStatus], int]:
        """How many turns there are, by the name of their app and by status."""
        await self.open()
        counts: dict[tuple[str, TurnStatus], int] = {}
        rows = cast("list[tuple[str, str, int]]", await self._run(_COUNTS, {}))
        for app, status, count in rows:
            at = app, _STATUSES[status]
            counts[at] = counts.get(at, 0) + count
        return counts

    async def close(self) -> None:
        """Close the connections."""
        await self._database.close()

    async def _run(self, statement: str, values: Mapping[str, object]) -> "Sequence[_Row]":
        async with self._database.connection() as connection:
            return await _execute(connection, statement, values)


def queue_of(app_name: str) -> str:
    """The queue of an app."""
    return f"weft:{app_name}"


def _place_of(key: SessionKey) -> dict[str, str]:
    """Where a turn of a session goes: the queue of its app, and the session's line in it."""
    session = msgspec.json.encode([key.user_id, key.id]).decode()
    return {"queue": queue_of(key.app_name), "partition": session, "workflow": _WORKFLOW}


class TurnFailed(Exception):
    """What DBOS is told of a turn that is a dead letter."""


class _DbosWorker:
    """One worker's part in the queue: DBOS runs the workflows, in threads and a loop of its own.

    A process has one DBOS. Turns are run in the event loop that called `work`, because runners
    and stores belong to it.
    """

    def __init__(
        self,
        database: ServerDatabase,
        run: RunTurn,
        *,
        worker: str,
        slots: int,
        stop: StopSignal,
    ) -> None:
        self._database = database
        self._run = run
        self._worker = worker
        self._slots = slots
        self._stop = stop
        self._loop = asyncio.get_running_loop()
        self._room = asyncio.Semaphore(slots)
        """All workers of a queue count as many slots, so there may be more turns than room."""
        self._running: dict[str, int] = {}
        self._engine: sqlalchemy.Engine | None = None

    def launch(self, url: str, queues: Sequence[str]) -> None:
        """Start DBOS in this process; its threads take turns from now on."""
        from dbos import DBOS

        if not _ONE_DBOS.acquire(blocking=False):
            raise UsageError(
                "this process has a worker on DBOS already",
                where="Turns.work",
                hint="start another process: DBOS has one executor in each",
            )
        try:
            self._engine = _engine(url, self._worker)
            logging.getLogger("dbos").addFilter(_is_news)
            DBOS(
                config={
                    "name": "weft",
                    "system_database_engine": self._engine,
                    "dbos_system_schema": _SCHEMA,
                    "executor_id": self._worker,
                    "application_version": _VERSION,
                    "use_listen_notify": False,
                    "log_level": "ERROR",
                    "enable_otlp": False,
                    "scheduler_polling_interval_sec": 3600.0,
                }
            )

            async def turn(number: int) -> None:
                id = DBOS.workflow_id
                assert id is not None
                await _elsewhere(self._carry_out(id, number), self._loop)

            DBOS.workflow(name=_WORKFLOW, max_recovery_attempts=None)(turn)
            DBOS.listen_queues(list(queues))
            DBOS.launch()
            for queue in queues:
                DBOS.register_queue(
                    queue,
                    partition_concurrency=1,
                    worker_concurrency=self._slots,
                    polling_interval_sec=_POLL_EVERY,
                    on_conflict="always_update",
                )
        except BaseException:
            self.destroy()
            raise

    async def leave(self) -> None:
        """Take no more turns, wait for those that run, and give back what was taken meanwhile."""
        await asyncio.to_thread(self.destroy)
        try:
            async with self._database.connection() as connection:
                await _execute(connection, _GIVE_BACK_ALL, {"worker": self._worker})
        except StoreError as error:  # whoever recovers the turns of this worker does it
            _log.warning("turns that were just taken are not given back: %s", error.message)

    def destroy(self) -> None:
        """Take no more turns, wait for those that run, and end DBOS."""
        from dbos import DBOS

        try:
            # it looks once a second whether workflows run, and not at all for 0
            DBOS.destroy(
                destroy_registry=True,
                workflow_completion_timeout_sec=_LONGEST_STOP if self._running else 0,
            )
        finally:
            if self._engine is not None:
                self._engine.dispose()
            _ONE_DBOS.release()

    async def watch(self) -> None:
        """Until the signal, look for turns that are ours and that we do not run."""
        stopping = asyncio.ensure_future(_signalled(self._stop))
        suspects: set[str] = set()
        try:
            while not stopping.done():
                await asyncio.wait([stopping], timeout=_ADRIFT_EVERY)
                try:
                    suspects = await self._drop_adrift(suspects)
                except StoreError as error:
                    _log.warning("turns adrift cannot be looked for: %s", error.message)
        finally:
            stopping.cancel()

    async def _drop_adrift(self, suspects: set[str]) -> set[str]:
        """Give back what was ours twice in a row without running: an answer was lost on the way."""
        async with self._database.connection() as connection:
            rows = await _execute(connection, _OWNED, {"worker": self._worker})
        adrift = {str(id) for (id,) in rows} - self._running.keys()
        for id in adrift & suspects:
            _log.warning("turn %s was ours and not run: it is free again", id)
            await self._give_back(id)
        return adrift

    async def _carry_out(self, id: str, number: int) -> None:
        """Run a turn until it is over; how it ended is what DBOS sees of it."""
        self._running[id] = self._running.get(id, 0) + 1
        try:
            async with self._room:
                while True:
                    outcome = await self._outcome(number)
                    if outcome.kind != "again":
                        break
                    await self._until_written(_AGAIN, number, outcome.reason)
                    # its session waits for it, and so does its slot
                    stopping = asyncio.ensure_future(_signalled(self._stop))
                    done, _ = await asyncio.wait([stopping], timeout=outcome.after)
                    stopping.cancel()
                    if done:
                        outcome = TurnEnd("released")
                        break
            await self._settle(id, number, outcome)
        finally:
            self._running[id] -= 1
            if not self._running[id]:
                del self._running[id]

    async def _outcome(self, number: int) -> TurnEnd:
        if self._stop.is_set():  # it was taken in the moment in which we stopped
            return TurnEnd("released")
        rows = await self._until_read(number)
        if not rows:
            return TurnEnd("cancelled", "it was deleted")
        row = rows[0]
        try:
            turn = decode_turn(str(row[0]), id=str(number), attempts=cast("int", row[1]))
        except UnreadableTurn as error:
            return TurnEnd("failed", str(error))
        return await self._run(turn)

    async def _settle(self, id: str, number: int, outcome: TurnEnd) -> None:
        """Return where the workflow has succeeded; else raise what DBOS makes the end of it."""
        if outcome.kind == "done":
            return
        if outcome.kind == "failed":
            await self._until_written(_NOTE, number, outcome.reason)
            raise TurnFailed(outcome.reason)
        if outcome.kind == "released":
            await self._give_back(id)
        else:
            await self._until_written(_NOTE, number, outcome.reason)
            await self._change(_STOPPED, id)
        # the row says already what became of it; DBOS writes nothing for a task that was cancelled
        raise asyncio.CancelledError

    async def _give_back(self, id: str) -> None:
        await self._change(_GIVE_BACK, id)

    async def _change(self, statement: str, id: str) -> None:
        await self._persistent(statement, {"id": id, "worker": self._worker})

    async def _until_written(self, statement: str, number: int, reason: str) -> None:
        values = {"number": number, "turn": note_of(number), "reason": reason}
        await self._persistent(statement, values)

    async def _until_read(self, number: int) -> "list[_Row]":
        return await self._persistent(_READ, {"number": number, "turn": note_of(number)})

    async def _persistent(self, statement: str, values: Mapping[str, object]) -> "list[_Row]":
        """Ask the database until it answers."""
        pause = 0.1
        while True:
            try:
                async with self._database.connection() as connection:
                    return await _execute(connection, statement, values)
            except StoreError as error:
                _log.warning("a turn waits for the database: %s", error.message)
            await asyncio.sleep(pause)
            pause = min(pause * 2, 2.0)


_ONE_DBOS = threading.Lock()
"""DBOS is one object in a process."""


def _is_news(record: logging.LogRecord) -> bool:
    """Whether a line of DBOS's log says more than that a turn failed, which is said elsewhere."""
    return record.exc_info is None or not isinstance(record.exc_info[1], TurnFailed)


async def _elsewhere(work: "Awaitable[None]", loop: asyncio.AbstractEventLoop) -> None:
    """Wait in one event loop for what runs in another."""

    async def wait() -> None:
        await work

    future = asyncio.run_coroutine_threadsafe(wait(), loop)
    await asyncio.wrap_future(future)


async def _signalled(signal: StopSignal) -> None:
    await signal.wait()


def note_of(number: int) -> str:
    """The name of a turn in the notes that all queues share."""
    return f"dbos:{number}"


def _require_dbos() -> None:
    """Say what to install where DBOS is missing; it is slow to load, so it is only looked for."""
    import importlib.util

    if importlib.util.find_spec("dbos") is None:
        raise UsageError(
            "DBOS is not installed",
            where="the queue",
            hint='pip install "weft[dbos]", or use the engine inbox',
        )


def _migrate(url: str) -> None:
    """Have DBOS make its tables, or bring them up to date."""
    from dbos import DBOS

    logging.getLogger("dbos").setLevel(logging.ERROR)
    DBOS.migrate(_sqlalchemy_url(url), schema=_SCHEMA)


def _engine(url: str, worker: str) -> "sqlalchemy.Engine":
    """Connections for DBOS that are called as ours are, so that a dead worker's are cut off."""
    import psycopg
    import sqlalchemy
    from psycopg.conninfo import make_conninfo

    from weft.stores.postgres_tables import KEEPALIVES

    address = make_conninfo(url, **KEEPALIVES, application_name=f"weft {worker}")
    return sqlalchemy.create_engine(
        "postgresql+psycopg://",
        creator=lambda: psycopg.connect(address),
        pool_size=_CONNECTIONS,
        max_overflow=0,
        pool_pre_ping=True,
        pool_timeout=30,
    )


def _sqlalchemy_url(url: str) -> str:
    """The address as SQLAlchemy writes it: what it has no place for stands behind the `?`."""
    import sqlalchemy
    from psycopg.conninfo import conninfo_to_dict

    options = {name: str(value) for name, value in conninfo_to_dict(url).items()}
    host = options.get("host", "")
    plain = not host.startswith("/") and "," not in host
    if plain:
        options.pop("host", None)
    address = sqlalchemy.URL.create(
        "postgresql+psycopg",
        username=options.pop("user", None),
        password=options.pop("password", None),
        host=host if plain and host else None,
        port=int(options.pop("port")) if plain and "port" in options else None,
        database=options.pop("dbname", None),
        query=options,
    )
    return address.render_as_string(hide_password=False)


_Row = tuple[object, ...]


async def _has_tables(connection: "Connection") -> bool:
    cursor = await connection.execute(
        "SELECT 1 FROM pg_catalog.pg_tables WHERE schemaname = 'weft' AND tablename = 'dbos_turns'"
    )
    return await cursor.fetchone() is not None


async def _execute(
    connection: "Connection", statement: str, values: Mapping[str, object]
) -> list[_Row]:
    cursor = await connection.execute(statement.encode(), values)
    return await cursor.fetchall() if cursor.description is not None else []


_TABLES = (
    """CREATE TABLE weft.dbos_turns (
        number bigint GENERATED ALWAYS AS IDENTITY PRIMARY KEY,
        app_name text NOT NULL,
        user_id text NOT NULL,
        session text NOT NULL,
        request_id text NOT NULL,
        turn text NOT NULL,
        place integer NOT NULL,
        tries integer NOT NULL DEFAULT 0,
        put_at double precision NOT NULL,
        UNIQUE (app_name, user_id, session, request_id)
    )""",
    "CREATE INDEX dbos_turns_place ON weft.dbos_turns (app_name, user_id, session, place)",
)

# A turn's workflow is called by its number, and by how often it was put.
_ID = "(lpad(number::text, 19, '0') || '.' || tries)"

_NOW = "extract(epoch FROM clock_timestamp())"

# DBOS sorts the workflows of a partition by priority first, so the place in the session is that.
_ENQUEUE = f"""{_SCHEMA}.enqueue_workflow(
    workflow_name => %(workflow)s, queue_name => %(queue)s, app_version => '{_VERSION}',
    positional_args => ARRAY[to_json(number)], workflow_id => {_ID},
    priority => place, queue_partition_key => %(partition)s"""

_NEXT_PLACE = """(SELECT coalesce(max(place), 0) + 1 FROM weft.dbos_turns AS others
    WHERE others.app_name = {0}app_name AND others.user_id = {0}user_id
        AND others.session = {0}session)"""

_PUT = f"""
WITH wanted AS (
    SELECT %(app_name)s::text AS app_name, %(user_id)s::text AS user_id, %(id)s::text AS session),
new AS (
    INSERT INTO weft.dbos_turns (app_name, user_id, session, request_id, turn, place, put_at)
    SELECT app_name, user_id, session, %(request_id)s, %(turn)s, {_NEXT_PLACE.format("wanted.")},
        {_NOW}
    FROM wanted
    ON CONFLICT (app_name, user_id, session, request_id) DO NOTHING
    RETURNING number, place, tries)
SELECT {_ENQUEUE}, delay_until_epoch_ms => CASE WHEN %(delay)s::float8 > 0
    THEN (({_NOW} + %(delay)s::float8) * 1000)::bigint END)
FROM new
"""

_STATUS = f"{_SCHEMA}.workflow_status"

_RETRY = f"""
WITH again AS (
    UPDATE weft.dbos_turns AS mine
    SET tries = tries + 1, turn = %(turn)s, place = {_NEXT_PLACE.format("mine.")}
    WHERE number = %(number)s AND EXISTS (
        SELECT 1 FROM {_STATUS} WHERE workflow_uuid = {_ID}
            AND status IN ('ERROR', 'CANCELLED', 'MAX_RECOVERY_ATTEMPTS_EXCEEDED'))
    RETURNING number, place, tries),
forgotten AS (DELETE FROM weft.turn_notes WHERE turn IN (SELECT 'dbos:' || number FROM again))
SELECT {_ENQUEUE}) FROM again
"""

_FREE = f"""owner_xid = NULL, started_at_epoch_ms = NULL,
    updated_at = ({_NOW} * 1000)::bigint"""

_ENDED = f"""owner_xid = NULL, updated_at = ({_NOW} * 1000)::bigint,
    completed_at = ({_NOW} * 1000)::bigint"""

_MINE = "workflow_uuid = %(id)s AND status = 'PENDING' AND executor_id = %(worker)s"

_GIVE_BACK = f"""
UPDATE {_STATUS} SET status = 'ENQUEUED', {_FREE} WHERE {_MINE} RETURNING workflow_uuid
"""

_GIVE_BACK_ALL = f"""
UPDATE {_STATUS} SET status = 'ENQUEUED', {_FREE}
WHERE name = '{_WORKFLOW}' AND status = 'PENDING' AND executor_id = %(worker)s
"""

_STOPPED = f"""
UPDATE {_STATUS} SET status = 'CANCELLED', {_ENDED} WHERE {_MINE} RETURNING workflow_uuid
"""

_CANCEL = f"""
UPDATE {_STATUS} SET status = 'CANCELLED', {_ENDED}
FROM weft.dbos_turns
WHERE number = %(number)s AND workflow_uuid = {_ID} AND status IN ('ENQUEUED', 'DELAYED')
RETURNING workflow_uuid
"""

_OWNED = f"""
SELECT workflow_uuid FROM {_STATUS}
WHERE name = '{_WORKFLOW}' AND status = 'PENDING' AND executor_id = %(worker)s
"""

_OWNERS = f"""
SELECT DISTINCT executor_id FROM {_STATUS} WHERE name = '{_WORKFLOW}' AND status = 'PENDING'
"""

_HAND_ON = f"""
WITH orphans AS MATERIALIZED (
    SELECT workflow_uuid AS id, 'dbos:' || split_part(workflow_uuid, '.', 1)::bigint AS turn
    FROM {_STATUS}
    WHERE name = '{_WORKFLOW}' AND status = 'PENDING' AND executor_id = %(worker)s
    FOR UPDATE),
noted AS (
    INSERT INTO weft.turn_notes (turn, kills)
    SELECT turn, 1 FROM orphans
    ON CONFLICT (turn) DO UPDATE SET kills = turn_notes.kills + 1,
        reason = CASE WHEN turn_notes.kills + 1 >= %(most)s THEN %(reason)s
                 ELSE turn_notes.reason END
    RETURNING turn, kills)
UPDATE {_STATUS} SET
    status = CASE WHEN kills >= %(most)s THEN 'MAX_RECOVERY_ATTEMPTS_EXCEEDED'
             ELSE 'ENQUEUED' END,
    completed_at = CASE WHEN kills >= %(most)s THEN ({_NOW} * 1000)::bigint END,
    {_FREE}
FROM orphans JOIN noted USING (turn)
WHERE workflow_uuid = orphans.id RETURNING workflow_uuid
"""

_READ = """
SELECT dbos_turns.turn, coalesce(notes.attempts, 0) FROM weft.dbos_turns
LEFT JOIN weft.turn_notes AS notes ON notes.turn = %(turn)s
WHERE number = %(number)s
"""

# Nothing is noted of a turn that was deleted while it ran.
_NOTE = """
INSERT INTO weft.turn_notes (turn, reason)
SELECT %(turn)s, %(reason)s FROM weft.dbos_turns WHERE number = %(number)s
ON CONFLICT (turn) DO UPDATE SET reason = excluded.reason
"""

_AGAIN = """
INSERT INTO weft.turn_notes (turn, attempts, reason)
SELECT %(turn)s, 1, %(reason)s FROM weft.dbos_turns WHERE number = %(number)s
ON CONFLICT (turn) DO UPDATE SET attempts = turn_notes.attempts + 1, reason = excluded.reason
"""

_LIST = f"""
SELECT * FROM (
    SELECT number, dbos_turns.turn, status, coalesce(attempts, 0), coalesce(kills, 0),
        executor_id, coalesce(reason, ''), put_at, completed_at / 1000.0::float8,
        CASE WHEN status = 'DELAYED' THEN delay_until_epoch_ms / 1000.0::float8 END
    FROM weft.dbos_turns
    JOIN {_STATUS} ON workflow_uuid = {_ID}
    LEFT JOIN weft.turn_notes AS notes ON notes.turn = 'dbos:' || number
    WHERE status = ANY(%(statuses)s)
        AND (%(number)s::bigint IS NULL OR number = %(number)s)
        AND (%(app_name)s::text IS NULL OR app_name = %(app_name)s)
        AND (%(user_id)s::text IS NULL OR user_id = %(user_id)s)
        AND (%(session)s::text IS NULL OR session = %(session)s)
        AND (%(request_id)s::text IS NULL OR request_id = %(request_id)s)
    ORDER BY number DESC LIMIT %(limit)s) AS newest
ORDER BY number
"""

_OLD = f"""
SELECT number, tries FROM (
    SELECT number, tries, completed_at FROM weft.dbos_turns
    JOIN {_STATUS} ON workflow_uuid = {_ID} AND status = 'SUCCESS'
    ORDER BY number LIMIT %(most)s) AS first
WHERE completed_at <= ({_NOW} - %(keep)s::float8) * 1000
"""

# DBOS has what goes into and comes out of a workflow in tables that do not follow its row.
_FORGET = f"""
WITH workflows AS (DELETE FROM {_STATUS} WHERE workflow_uuid = ANY(%(ids)s)),
inputs AS (DELETE FROM {_SCHEMA}.workflow_input WHERE workflow_uuid = ANY(%(ids)s)),
outputs AS (DELETE FROM {_SCHEMA}.workflow_output WHERE workflow_uuid = ANY(%(ids)s)),
noted AS (DELETE FROM weft.turn_notes WHERE turn = ANY(%(notes)s))
DELETE FROM weft.dbos_turns WHERE number = ANY(%(numbers)s)
"""

_COUNTS = f"""
SELECT app_name, status, count(*) FROM weft.dbos_turns
JOIN {_STATUS} ON workflow_uuid = {_ID} GROUP BY 1, 2
"""


class _TurnInTables(NamedTuple):
    """A turn in a list."""

    number: int
    text: str
    status: str
    attempts: int
    kills: int
    worker: str | None
    reason: str
    put_at: float
    ended_at: float | None
    due: float | None

    def info(self) -> TurnInfo:
        """The turn as a list shows it."""
        return TurnInfo(
            decode_turn(self.text, id=str(self.number), attempts=self.attempts),
            _STATUSES[self.status],
            0,
            self.due,
            self.worker or "",
            self.kills,
            self.reason,
            self.put_at,
            self.ended_at,
        )
