"""One worker's part in a queue of DBOS: DBOS takes and runs workflows, and they run turns here.

DBOS has threads and an event loop of its own, and a process has one DBOS. Turns run in the event
loop of the worker, and how they end is what DBOS writes down.

Top to bottom: the worker's part, the gate to its turns, the ways between the two loops, the
connections of DBOS.
"""

import asyncio
import logging
import threading
import time
from collections.abc import Awaitable, Callable, Mapping, Sequence
from typing import TYPE_CHECKING, cast

from weft.errors import StoreError, UsageError
from weft.stores.postgres_batch import Batches
from weft.stores.postgres_tables import KEEPALIVES
from weft.turns import dbos_tables as tables
from weft.turns.databases import ServerDatabase
from weft.turns.taking import SUSPECT_PATIENCE, SUSPECT_REST
from weft.turns.turn import (
    QueuedTurn,
    RunTurn,
    StopSignal,
    TurnEnd,
    UnreadableTurn,
    decode_turn,
)

if TYPE_CHECKING:
    import dbos
    import sqlalchemy

_log = logging.getLogger("weft.turns")

_POLL_EVERY = 0.1
"""Seconds between two looks for turns: DBOS is not told of new ones."""

_ADRIFT_EVERY = 2.0
"""Seconds between two looks for turns that this worker owns and does not run."""

_GATE_PATIENCE = 1.0
"""Seconds that a turn waits for a suspect to end, until it is given back for other workers."""

_CONNECTIONS = 4
"""Connections that DBOS has of its own in a worker."""

_LONGEST_STOP = 10**6
"""Seconds that turns may take to end; whoever runs them sees to it that they do."""


class TurnFailed(Exception):
    """What DBOS is told of a turn that is a dead letter."""


class DbosWorker:
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
        self._gate = _Gate()
        self._running: dict[str, int] = {}
        self._reading: Batches[int, tables.Row | None] = Batches(self._read, at_once=1)
        self._engine: sqlalchemy.Engine | None = None

    def launch(self, url: str, queues: Sequence[str]) -> None:
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
            async with self._database.connection() as connection:
                await tables.execute(connection, tables.GIVE_BACK_ALL, {"worker": self._worker})
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
        async with self._database.connection() as connection:
            rows = await tables.execute(connection, tables.OWNED, {"worker": self._worker})
        adrift = {str(id) for (id,) in rows} - self._running.keys()
        for id in adrift & suspects:
            _log.warning("turn %s was ours and not run: it is free again", id)
            await self._give_back(id)
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

    async def _outcome(self, id: str, number: int) -> TurnEnd:
        if self._stop.is_set():  # it was taken in the moment in which we stopped
            return TurnEnd("released")
        row = await self._reading.put(number)
        # whoever deletes a session deletes its turns
        if row is None:
            return TurnEnd("cancelled", "it was deleted")
        _, text, attempts, kills = cast("tuple[int, str, int, int]", row)
        try:
            turn = decode_turn(text, id=str(number), attempts=attempts, kills=kills)
        except UnreadableTurn as error:
            return TurnEnd("failed", str(error))
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
            await self._give_back(id)
        else:
            await self._until_written(tables.NOTE, number, outcome.reason)
            await self._change(tables.STOPPED, id)
        # the row says already what became of it; DBOS writes nothing for a task that was cancelled
        raise asyncio.CancelledError

    async def _give_back(self, id: str) -> None:
        await self._change(tables.GIVE_BACK, id)

    async def _change(self, statement: str, id: str) -> None:
        await self._persistent(statement, {"id": id, "worker": self._worker})

    async def _until_written(self, statement: str, number: int, reason: str) -> None:
        values = {"number": number, "turn": tables.note_of(number), "reason": reason}
        await self._persistent(statement, values)

    async def _read(self, numbers: Sequence[int]) -> "list[tables.Row | None]":
        """The rows of turns; DBOS starts several at once, and one look is for all of them."""
        rows = await self._persistent(tables.READ, {"numbers": [*numbers]})
        by_number = {row[0]: row for row in rows}
        return [by_number.get(number) for number in numbers]

    async def _persistent(self, statement: str, values: Mapping[str, object]) -> "list[tables.Row]":
        """Ask the database until it answers."""
        pause = 0.1
        while True:
            try:
                async with self._database.connection() as connection:
                    return await tables.execute(connection, statement, values)
            except StoreError as error:
                _log.warning("a turn waits for the database: %s", error.message)
            await asyncio.sleep(pause)
            pause = min(pause * 2, 2.0)


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


async def _signalled(signal: StopSignal) -> None:
    await signal.wait()


def dbos_config(engine: "sqlalchemy.Engine", worker: str) -> "dbos.DBOSConfig":
    """What DBOS is told: of all that it can do, only what a queue of turns needs."""
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
    """Have DBOS look for turns: one at a time of a session, and so many in this process."""
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
    from psycopg.conninfo import make_conninfo

    address = make_conninfo(url, **KEEPALIVES, application_name=f"weft {worker}")
    return sqlalchemy.create_engine(
        "postgresql+psycopg://",
        creator=lambda: psycopg.connect(address),
        pool_size=_CONNECTIONS,
        max_overflow=0,
        pool_timeout=30,
    )
