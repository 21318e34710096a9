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

DBOS has threads and an event loop of its own, and a process has one DBOS. Turns run in the event
loop of the worker, and how they end is what DBOS writes down.

Top to bottom: the queue, where a turn goes in it, one worker's part, the gate to its turns, the
ways between the two loops, the connections of DBOS.
"""

import asyncio
import logging
import threading
import time
from collections.abc import Awaitable, Callable, Mapping, Sequence
from functools import partial
from typing import TYPE_CHECKING, cast

import msgspec

from weft.errors import StoreError, UsageError
from weft.session import SessionKey
from weft.stores.postgres_batch import Batches
from weft.stores.postgres_server import connect_options
from weft.turns import dbos_tables as tables
from weft.turns.databases import Row, ServerDatabase, execute, lock_migrations, require_connection
from weft.turns.running import SUSPECT_PATIENCE, SUSPECT_REST, TakenTurn, ask_until_answered
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
    read_waits,
    session_full,
)

if TYPE_CHECKING:
    import dbos
    import sqlalchemy

    from weft.stores.postgres_server import DatabaseAddress

_log = logging.getLogger("weft.turns")


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
            if not await tables.has_tables(connection):
                # DBOS has a lock of its own. Not under ours: it makes an index that waits until
                # all older statements have ended, and one that waits for our lock would not end
                await asyncio.to_thread(tables.migrate, self._address.url)
                async with connection.transaction():
                    await lock_migrations(connection)
                    # asked again under the lock: another process may have made them meanwhile
                    if not await tables.has_tables(connection):
                        for statement in tables.TABLES:
                            await connection.execute(statement.encode())
            if not await tables.has_counts(connection):
                async with connection.transaction():
                    await lock_migrations(connection)
                    if not await tables.has_counts(connection):
                        for statement in tables.COUNTED:
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
            "limit": limit if limit is not None else NO_LIMIT,
            **_place_of(turn.key),
        }
        await self.open()
        run: Callable[[str, Mapping[str, object]], Awaitable[list[Row]]] = self._database.execute
        if connection is not None:
            run = partial(execute, require_connection(connection))
        if await run(tables.PUT, values):
            return True
        # known, or too many wait: what is known is refused to nobody
        if not await run(tables.IS_KNOWN, values):
            raise session_full(turn.key, limit)
        return False

    async def work(
        self, run: RunTurn, *, apps: Sequence[str], worker: str, slots: int, stop: StopSignal
    ) -> None:
        """Take turns of these apps and run up to `slots` at once, until `stop` is set."""
        await self.open()
        part = DbosWorker(self._database, run, worker=worker, slots=slots, stop=stop)
        if not await part.begin(self._address.url, [*map(queue_of, apps)]):
            return
        try:
            await part.watch()
        finally:
            # whatever happens, DBOS must not go on in its threads
            await asyncio.shield(part.leave())

    async def recover(self, living: Living) -> int:
        """Hand on every turn whose owner does not live."""
        await self.open()
        owners = await self._database.execute(tables.OWNERS, {})
        if not owners:
            return 0
        # asked after the owners: a worker that began in between lives, and keeps its turns
        alive = await living()
        handed_on = 0
        for (owner,) in owners:
            if owner not in alive:
                values = {"worker": owner, "alone": tables.alone_note_of(str(owner)), **BLAME}
                handed_on += len(await self._database.execute(tables.HAND_ON, values))
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
            "statuses": [each for each, ours in tables.STATUSES.items() if status in (None, ours)],
            "limit": limit,
        }
        rows = await self._database.execute(tables.LIST, values)
        return [row.info(tables.STATUSES[row.status]) for row in map(TurnRow.read, rows)]

    async def retry(self, id: str) -> bool:
        """Have a turn that failed or was cancelled taken again, after the others."""
        infos = await self.list(id=id)
        if not infos:
            return False
        turn = infos[0].turn
        again = encode_turn(msgspec.structs.replace(turn, retries=turn.retries + 1))
        values = {"number": int(id), "turn": again, **_place_of(turn.key)}
        return bool(await self._database.execute(tables.RETRY, values))

    async def cancel(self, id: str) -> bool:
        """Take a waiting turn out of the queue."""
        if not id.isdecimal():
            return False
        await self.open()
        return bool(await self._database.execute(tables.CANCEL, {"number": int(id)}))

    async def prune(self, *, keep: float, most: int) -> int:
        """Delete turns that were done at least `keep` seconds ago, and all that DBOS has."""
        await self.open()
        async with self._database.connection() as connection, connection.transaction():
            old = await execute(connection, tables.OLD, {"keep": keep, "most": most})
            if old:
                numbers = [cast("int", number) for number, _ in old]
                # a turn has one workflow for each time that it was put
                ids = [f"{number:019}.{at}" for number, tries in cast("list[tuple[int, int]]", old)
                       for at in range(tries + 1)]  # fmt: skip
                values = {"numbers": numbers, "notes": [*map(tables.note_of, numbers)], "ids": ids}
                await execute(connection, tables.FORGET, values)
        await self._database.gather_counts()
        return len(old)

    async def counts(self) -> dict[tuple[str, TurnStatus], int]:
        """How many turns there are, by the name of their app and by status."""
        await self.open()
        rows = await self._database.execute(tables.COUNTS, {})
        counts = count_statuses(rows, tables.STATUSES)
        for app, _, total in await self._database.counts(self.engine):
            others = sum(count for (of, _), count in counts.items() if of == app)
            # two looks: what was put between them is not done
            if (done := cast("int", total) - others) > 0:
                counts[str(app), "done"] = done
        return counts

    async def waits(self) -> dict[str, float]:
        """For how long the oldest turn of each app waits that a worker could take."""
        await self.open()
        return read_waits(await self._database.execute(tables.WAITS, {}))

    async def close(self) -> None:
        """Close the connections."""
        await self._database.close()


def queue_of(app_name: str) -> str:
    """The queue of an app."""
    return f"weft:{app_name}"


def _place_of(key: SessionKey) -> dict[str, str]:
    """Where a turn of a session goes: the queue of its app, and the session's line in it."""
    session = msgspec.json.encode([key.user_id, key.id]).decode()
    return {"queue": queue_of(key.app_name), "partition": session, "workflow": tables.WORKFLOW}


def _require_dbos() -> None:
    """Say what to install where DBOS is missing; it is slow to load, so it is only looked for."""
    import importlib.util

    if importlib.util.find_spec("dbos") is None:
        raise UsageError(
            "DBOS is not installed",
            where="the queue",
            hint='pip install "weft[dbos]", or use the engine inbox',
        )


# --- one worker's part

_POLL_EVERY = 0.1
"""Seconds between two looks for turns: DBOS gets no notifications."""

_ADRIFT_EVERY = 2.0
"""Seconds between two looks for turns that this worker owns and does not run."""

_GATE_PATIENCE = 1.0
"""Seconds that a turn waits for a suspect to end, until it is given back for other workers."""

_CONNECTIONS = 4
"""Connections that DBOS has of its own in a worker."""

_LONGEST_STOP = 10**6
"""Seconds that turns may take to end; the worker makes sure that they do."""


class TurnFailed(Exception):
    """Raised to DBOS for a turn that is a dead letter."""


class DbosWorker:
    """One worker's part in the queue: DBOS runs the workflows, in threads and a loop of its own.

    A process has one DBOS. Turns are run in the event loop that called `work`, because runners
    and stores belong to it.
    """

    def __init__(
        self, database: ServerDatabase, run: RunTurn, *, worker: str, slots: int, stop: StopSignal
    ) -> None:
        self._database = database
        self._run = run
        self._worker = worker
        self._slots = slots
        self._stop = stop
        self._loop = asyncio.get_running_loop()
        self._room = asyncio.Semaphore(slots)
        """All workers of a queue count as many slots, so there may be more turns than room."""
        self._gate = _Gate()
        self._running: dict[str, int] = {}
        self._reading: Batches[int, Row | None] = Batches(self._read, at_once=1)
        self._engine: sqlalchemy.Engine | None = None

    async def begin(self, url: str, queues: Sequence[str]) -> bool:
        """Start DBOS, as soon as the database is there; False if the signal came before."""
        import sqlalchemy.exc

        pause = 0.1
        while not self._stop.is_set():
            try:
                await asyncio.to_thread(self._launch, url, queues)
                return True
            except sqlalchemy.exc.OperationalError as error:  # it fails over just now
                _log.warning("the worker waits for the database: %s", error.orig)
            await asyncio.sleep(pause)
            pause = min(pause * 2, 2.0)
        return False

    def _launch(self, url: str, queues: Sequence[str]) -> None:
        """Start DBOS in this process; its threads take turns from now on."""
        from dbos import DBOS

        # a second worker would silently get the first one's DBOS
        if not _ONE_DBOS.acquire(blocking=False):
            raise UsageError(
                "this process has a worker on DBOS already",
                where="Turns.work",
                hint="start another process: DBOS has one executor in each",
            )
        try:
            self._engine = dbos_engine(url, self._worker)
            logging.getLogger("dbos").addFilter(_is_news)
            DBOS(config=dbos_config(self._engine, self._worker))

            async def turn(number: int) -> None:
                id = DBOS.workflow_id
                assert id is not None
                # DBOS calls this in its own loop; runners and stores belong to the worker's
                await _elsewhere(self._carry_out(id, number), self._loop)

            # the kills of a turn are counted in our notes, as for every queue
            DBOS.workflow(name=tables.WORKFLOW, max_recovery_attempts=None)(turn)
            DBOS.listen_queues(list(queues))
            DBOS.launch()
            for queue in queues:
                register_queue(queue, self._slots)
        except BaseException:
            # else its threads go on, and the lock stays taken
            self.destroy()
            raise

    async def leave(self) -> None:
        """Take no more turns, wait for those that run, and give back what was taken meanwhile."""
        await asyncio.to_thread(self.destroy)
        try:
            await self._database.execute(tables.GIVE_BACK_ALL, {"worker": self._worker})
        except StoreError as error:  # the worker that recovers these turns does it
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
        stopping = asyncio.create_task(self._stop.wait())
        suspects: set[str] = set()
        try:
            # only what is adrift in two looks: a turn may just have been taken
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
        rows = await self._database.execute(tables.OWNED, {"worker": self._worker})
        adrift = {str(id) for (id,) in rows} - self._running.keys()
        for id in adrift & suspects:
            _log.warning("turn %s was ours and not run: it is free again", id)
            await self._change(tables.GIVE_BACK, id)
        return adrift

    async def _carry_out(self, id: str, number: int) -> None:
        """Run a turn until it is over; how it ended is what DBOS sees of it."""
        # counted: a turn that was given back may be taken again before its first run has ended
        self._running[id] = self._running.get(id, 0) + 1
        try:
            async with self._room:
                while True:
                    outcome = await self._outcome(id, number)
                    if outcome.kind != "again":
                        break
                    await self._until_written(tables.AGAIN, number, outcome.reason)
                    # its session waits for it, and so does its slot
                    stopping = asyncio.create_task(self._stop.wait())
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

    async def _outcome(self, id: str, number: int) -> TurnEnd:
        if self._stop.is_set():  # it was taken in the moment in which we stopped
            return TurnEnd("released")
        row = await self._reading.put(number)
        # deleting a session deletes its turns
        if row is None:
            return TurnEnd("cancelled", "it was deleted")
        _, text, attempts, kills = cast("tuple[int, str, int, int]", row)
        _, turn, reason = TakenTurn.read(str(number), text, attempts, kills)
        if turn is None:
            return TurnEnd("failed", reason)
        if not await self._gate.enter(alone=turn.is_suspect):
            return TurnEnd("released")
        try:
            if self._stop.is_set():  # it waited at the gate meanwhile
                return TurnEnd("released")
            return await (self._run_alone(id, turn) if turn.is_suspect else self._run(turn))
        finally:
            self._gate.leave()

    async def _run_alone(self, id: str, turn: QueuedTurn) -> TurnEnd:
        """Run a suspect, which is noted meanwhile: if the worker dies, it is to blame."""
        _log.warning("turn %s runs alone: %d workers died while they ran it", turn.id, turn.kills)
        note = {"turn": tables.alone_note_of(self._worker), "id": id}
        await self._persistent(tables.ALONE, note)
        try:
            return await self._run(turn)
        finally:
            await self._persistent(tables.NOT_ALONE, note)

    async def _settle(self, id: str, number: int, outcome: TurnEnd) -> None:
        """Return where the workflow has succeeded; else raise what DBOS makes the end of it."""
        if outcome.kind == "done":
            return
        if outcome.kind == "failed":
            await self._until_written(tables.NOTE, number, outcome.reason)
            raise TurnFailed(outcome.reason)
        if outcome.kind == "released":
            await self._change(tables.GIVE_BACK, id)
        else:
            await self._until_written(tables.NOTE, number, outcome.reason)
            await self._change(tables.STOPPED, id)
        # the row says already what became of it; DBOS writes nothing for a task that was cancelled
        raise asyncio.CancelledError

    async def _change(self, statement: str, id: str) -> None:
        await self._persistent(statement, {"id": id, "worker": self._worker})

    async def _until_written(self, statement: str, number: int, reason: str) -> None:
        values = {"number": number, "turn": tables.note_of(number), "reason": reason}
        await self._persistent(statement, values)

    async def _read(self, numbers: Sequence[int]) -> "list[Row | None]":
        """The rows of turns; DBOS starts several at once, and one look is for all of them."""
        rows = await self._persistent(tables.READ, {"numbers": [*numbers]})
        by_number = {row[0]: row for row in rows}
        return [by_number.get(number) for number in numbers]

    async def _persistent(self, statement: str, values: Mapping[str, object]) -> "list[Row]":
        """Ask the database until it answers."""
        ask = partial(self._database.execute, statement, values)
        return await ask_until_answered(ask, "a turn waits for the database")


class _Gate:
    """Lets turns of a worker begin: any number side by side, or a suspect when none runs."""

    def __init__(self) -> None:
        self._inside = 0
        self._is_closed = False
        """A suspect runs, or waits until those that run have ended."""
        self._rest_ends = 0.0
        """When a suspect may close it again, by the monotonic clock."""
        self._patience = SUSPECT_PATIENCE
        self._changed = asyncio.Event()

    async def enter(self, *, alone: bool) -> bool:
        """Wait until a turn may begin; False where that takes too long."""

        def may_begin() -> bool:
            return not self._is_closed and (not alone or time.monotonic() >= self._rest_ends)

        if not await self._until(may_begin, _GATE_PATIENCE):
            return False
        if alone and not await self._close():
            return False
        self._inside += 1
        return True

    def leave(self) -> None:
        """The turn has ended, and the gate opens if it was alone."""
        self._inside -= 1
        if self._is_closed and not self._inside:
            self._open(rest=SUSPECT_REST)
        self._change()

    async def _close(self) -> bool:
        """Let no turn begin, and wait for those that run; False where they take too long."""
        self._is_closed = True
        is_empty = False
        try:
            is_empty = await self._until(lambda: not self._inside, self._patience)
        finally:
            if not is_empty:
                self._open(rest=self._patience)
        self._patience = SUSPECT_PATIENCE if is_empty else self._patience * 2
        return is_empty

    def _open(self, *, rest: float) -> None:
        self._is_closed = False
        self._rest_ends = time.monotonic() + rest
        self._change()

    def _change(self) -> None:
        self._changed.set()
        self._changed = asyncio.Event()

    async def _until(self, is_so: Callable[[], bool], seconds: float) -> bool:
        try:
            async with asyncio.timeout(seconds):
                while not is_so():
                    await self._changed.wait()
        except TimeoutError:
            return False
        return True


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


def dbos_config(engine: "sqlalchemy.Engine", worker: str) -> "dbos.DBOSConfig":
    """The config of DBOS: of all that it can do, only what a queue of turns needs."""
    return {
        "name": "weft",
        "system_database_engine": engine,
        "dbos_system_schema": tables.SCHEMA,
        "executor_id": worker,
        "application_version": tables.VERSION,
        "use_listen_notify": False,
        "log_level": "ERROR",
        "enable_otlp": False,
        "scheduler_polling_interval_sec": 3600.0,
    }


def register_queue(name: str, slots: int) -> None:
    """Have DBOS look for turns: one at a time of a session, and `slots` in this process."""
    from dbos import DBOS

    DBOS.register_queue(
        name,
        partition_concurrency=1,
        worker_concurrency=slots,
        polling_interval_sec=_POLL_EVERY,
        on_conflict="always_update",
    )


def dbos_engine(url: str, worker: str) -> "sqlalchemy.Engine":
    """Connections for DBOS that are called as ours are, so that a dead worker's are cut off.

    They are not tried before each use: what meets a connection that broke, DBOS does again.
    """
    import psycopg
    import sqlalchemy

    options = {**connect_options(url, worker), "autocommit": False}  # DBOS commits
    return sqlalchemy.create_engine(
        "postgresql+psycopg://",
        creator=lambda: psycopg.connect(**options),  # type: ignore[arg-type]
        pool_size=_CONNECTIONS,
        max_overflow=0,
        pool_timeout=30,
    )
