"""Which workers live: each says so, and all notice within about a second who no longer does.

A worker holds a lock that dies with its process, and writes twice a second that it lives. Who is
silent and has lost the lock is dead. Who is silent for long and still has the lock hangs: it is
cut off from the database, so that others can have its sessions. Who finds that it was declared
dead stops, for others have its turns.

All of it happens in a thread, so that a tool which blocks the event loop does not look dead.

Top to bottom: the thread, and the table of workers in a SQLite file and in PostgreSQL.
"""

import asyncio
import hashlib
import json
import logging
import sqlite3
import threading
import time
from collections.abc import Awaitable, Callable, Sequence
from concurrent.futures import CancelledError, Future
from contextlib import suppress
from pathlib import Path
from typing import TYPE_CHECKING, NamedTuple, Protocol, cast

from weft.errors import StoreError
from weft.stores.sqlite_file import explain_sqlite
from weft.stores.sqlite_lease import FileLocks
from weft.turns.databases import QueueDatabase

if TYPE_CHECKING:
    import psycopg

    from weft.stores.postgres_server import DatabaseAddress

_log = logging.getLogger("weft.turns")

BEAT_EVERY = 0.4
"""Seconds between two beats."""

SILENT_AFTER = 0.7
"""Seconds without a new beat from which on a worker without its lock is dead."""

HUNG_AFTER = 15.0
"""Seconds without a new beat from which on a worker is dead that still has its lock."""

LEAST_HUNG = 2.0
"""The shortest such time: a worker says five times in it that it lives."""

_RECOVER_EVERY = 2.0
"""Seconds between two looks for turns without a living owner, where nobody has just died."""

_PATIENCE = 3.0
"""Seconds after connecting in which nobody is declared dead: when the database was away, all
have lost their locks, and the first to be back must let the others come."""

_BLIND_AFTER = 2.0
"""Seconds without a beat of its own after which a worker begins to watch the others anew."""

RECOVERING = 0x57454654_02
"""The lock of who hands on the turns of the dead."""

_RECOVERY_LIMIT = 5.0
"""Seconds after which a recovery that did not end is given up: the event loop is blocked."""


class WorkerInfo(NamedTuple):
    """A worker that lives."""

    worker: str
    apps: tuple[str, ...]
    engine: str
    slots: int
    since: float


class LivingTable(Protocol):
    """The table of workers, over a connection that the thread has for itself."""

    def enter(self, info: WorkerInfo) -> None:
        """Connect, take the lock of this worker, and write its row if this is its first time."""
        ...

    def beat(self) -> list[tuple[str, float]] | None:
        """Say that this worker lives: all workers, with their last beats; None if it is dead."""
        ...

    def bury(self, worker: str, beat: float, *, hangs: bool) -> bool:
        """Declare a worker dead whose last beat this is; False where it lives after all.

        It does if it has its lock, unless it hangs; then it is cut off.
        """
        ...

    def lock_recovery(self) -> bool:
        """Be the only one who recovers turns; False where another does it now."""
        ...

    def unlock_recovery(self) -> None:
        """Let others recover turns."""
        ...

    def leave(self) -> None:
        """This worker ends: take its row away."""
        ...

    def close(self) -> None:
        """Close the connection, and with it give up the locks."""
        ...


class Liveness:
    """The thread that says that this worker lives, and notices who does not.

    `recover` runs in the event loop, in one worker at a time, twice a second: it hands on the
    turns of the dead. `died` is called in the event loop when this worker was declared dead.
    """

    def __init__(
        self,
        table: LivingTable,
        info: WorkerInfo,
        *,
        recover: Callable[[], Awaitable[int]],
        died: Callable[[], None],
        hung: float = HUNG_AFTER,
    ) -> None:
        self._table = table
        self._info = info
        self._recover = recover
        self._died = died
        self._hung = hung
        self._loop = asyncio.get_running_loop()
        self._stopping = threading.Event()
        self._entered = threading.Event()
        self._thread = threading.Thread(
            target=self._run, name=f"weft lives {info.worker}", daemon=True
        )
        self._connected = 0.0
        self._beaten = 0.0
        self._seen: dict[str, tuple[float, float]] = {}
        """The last beat of each worker, and when it was first seen here, whatever clocks say."""
        self._recovering: tuple[Future[int], float] | None = None
        self._recovered_at = 0.0
        self._failure: StoreError | None = None
        self.is_dead = False
        self.buried = 0
        """How many workers this one has declared dead."""
        self.recovered = 0
        """How many turns of the dead this one has handed on."""

    @property
    def is_beating(self) -> bool:
        """Whether the database knows that this worker lives."""
        return self._entered.is_set() and time.monotonic() - self._beaten < 4 * BEAT_EVERY

    async def start(self) -> None:
        """Begin to live; an error of the database is raised here."""
        self._thread.start()
        await asyncio.to_thread(self._entered.wait)
        if self._failure is not None:
            raise self._failure

    async def stop(self) -> None:
        """Stop, and take the row away."""
        self._stopping.set()
        if self._thread.is_alive():
            await asyncio.to_thread(self._thread.join)

    def _run(self) -> None:
        is_first = True
        while not self._stopping.is_set() and not self.is_dead:
            try:
                if not self._connected:
                    self._table.enter(self._info)
                    self._connected = time.monotonic()
                self._tick()
                self._entered.set()
                is_first = False
            except StoreError as error:
                # a worker that cannot begin raises where it was started
                if is_first:
                    self._failure = error
                    self._entered.set()
                    return
                _log.warning("the worker cannot say that it lives: %s", error.message)
                # the lock is gone with the connection: `enter` takes it again
                self._connected = 0.0
                self._table.close()
            # sooner while there is no connection: others bury who is silent without its lock
            self._stopping.wait(BEAT_EVERY if self._connected else BEAT_EVERY / 4)
        with suppress(StoreError):
            if self._connected and not self.is_dead:
                self._table.leave()
        self._table.close()

    def _tick(self) -> None:
        # the row is gone: others hand on the turns of this worker, and must not be raced
        beats = self._table.beat()
        if beats is None:
            self.is_dead = True
            self._in_loop(self._died)
            return
        now, before = time.monotonic(), self._beaten
        self._beaten = now
        if before and now - before >= _BLIND_AFTER:
            # the database hung, or this process was stopped: nothing is known of the others
            self._connected, self._seen = now, {}
        died = [worker for worker, beat in self._silent(beats) if self._bury(worker, beat)]
        if died or time.monotonic() - self._recovered_at >= _RECOVER_EVERY:
            self._begin_recovery()
        self._end_recovery()

    def _silent(self, beats: Sequence[tuple[str, float]]) -> list[tuple[str, float]]:
        """The workers of which no new beat was seen for a while."""
        now, before = time.monotonic(), self._seen
        self._seen = {}
        silent: list[tuple[str, float]] = []
        for worker, beat in beats:
            # the beat is compared, not read as a time: clocks of machines differ
            known, since = before.get(worker, (None, now))
            self._seen[worker] = (beat, since if known == beat else now)
            # only a suspicion: `bury` asks for the lock as well
            if worker != self._info.worker and now - self._seen[worker][1] >= SILENT_AFTER:
                silent.append((worker, beat))
        return silent if now - self._connected >= _PATIENCE else []

    def _bury(self, worker: str, beat: float) -> bool:
        hangs = time.monotonic() - self._seen[worker][1] >= self._hung
        if not self._table.bury(worker, beat, hangs=hangs):
            return False
        self.buried += 1
        how = "hangs and is cut off" if hangs else "is dead"
        _log.warning("%s %s: others go on with its turns", worker, how)
        return True

    def _begin_recovery(self) -> None:
        """Have the turns of the dead handed on, unless another worker does it now."""
        # one worker at a time: two would hand on the same turn twice, and count two kills
        if self._recovering is None and self._table.lock_recovery():
            self._recovered_at = time.monotonic()
            with suppress(RuntimeError):  # the loop is closed: the worker ends
                future = asyncio.run_coroutine_threadsafe(self._recover_once(), self._loop)
                self._recovering = (future, self._recovered_at)

    def _end_recovery(self) -> None:
        if self._recovering is None:
            return
        future, begun = self._recovering
        try:
            self.recovered += future.result(timeout=BEAT_EVERY / 2)
        except TimeoutError:
            if time.monotonic() - begun < _RECOVERY_LIMIT:
                return  # the event loop is busy: it is looked at with the next beat
            future.cancel()
        except (StoreError, CancelledError) as error:
            _log.warning("turns of the dead cannot be handed on: %s", error)
        self._recovering = None
        self._table.unlock_recovery()

    async def _recover_once(self) -> int:
        return await self._recover()

    def _in_loop(self, call: Callable[[], None]) -> None:
        with suppress(RuntimeError):  # the loop is closed: nobody waits any more
            self._loop.call_soon_threadsafe(call)


async def living_workers(
    database: QueueDatabase, *, within: float | None = None
) -> list[WorkerInfo]:
    """The workers that live now: that nobody declared dead.

    `within` asks for a sign of life in as many seconds too, for who is not a worker: when the last
    worker has died there is nobody left to declare it dead.
    """
    sql = database.sql
    fresh = f" WHERE beat > {sql.now} - :within" if within is not None else ""
    rows = await database.run(
        f"SELECT worker, apps, engine, slots, since FROM {sql.schema}turn_workers{fresh}"
        " ORDER BY since",
        {"within": within} if within is not None else {},
    )
    return [
        WorkerInfo(
            str(worker),
            tuple(cast("list[str]", json.loads(str(apps)))),
            str(engine),
            cast("int", slots),
            cast("float", since),
        )
        for worker, apps, engine, slots, since in rows
    ]


# --- the table in a SQLite file


class FileLiving:
    """The workers on a SQLite file. The lock is one of the operating system, on a file next to it.

    A worker that hangs is declared dead too, but its leases cannot be taken from it: others wait
    for its sessions until it goes on or ends.
    """

    def __init__(self, path: Path) -> None:
        self._path = path
        self._locks: FileLocks | None = None
        self._connection: sqlite3.Connection | None = None
        self._worker = ""
        self._is_known = False

    def enter(self, info: WorkerInfo) -> None:
        """Connect, take the lock, and write the row."""
        self._worker = info.worker
        locks = self._path.with_name(f"{self._path.name}-workers")
        self._locks = FileLocks(locks, database=self._path)
        self._locks.take(_place(info.worker))
        try:
            self._connection = sqlite3.connect(
                self._path, timeout=5.0, isolation_level=None, check_same_thread=False
            )
            self._connection.execute("PRAGMA synchronous=OFF")  # a beat may be lost
        except sqlite3.Error as error:
            raise explain_sqlite(error, self._path, timeout=5.0) from None
        if not self._is_known:
            now = time.time()
            self._run(
                "INSERT INTO turn_workers VALUES (?, ?, ?, ?, ?, ?)",
                (info.worker, json.dumps(info.apps), info.engine, info.slots, now, now),
            )
            self._is_known = True

    def beat(self) -> list[tuple[str, float]] | None:
        """Say that this worker lives: all workers, with their last beats."""
        statement = "UPDATE turn_workers SET beat = ? WHERE worker = ? RETURNING 1"
        if not self._run(statement, (time.time(), self._worker)):
            return None
        rows = self._run("SELECT worker, beat FROM turn_workers", ())
        return cast("list[tuple[str, float]]", rows)

    def bury(self, worker: str, beat: float, *, hangs: bool) -> bool:
        """Declare a worker dead."""
        assert self._locks is not None
        # it has its lock, so its process lives: it is only slow
        if not hangs and self._locks.is_taken(_place(worker)):
            return False
        # with the beat that was seen: one that came meanwhile keeps it alive
        statement = "DELETE FROM turn_workers WHERE worker = ? AND beat = ? RETURNING 1"
        return bool(self._run(statement, (worker, beat)))

    def lock_recovery(self) -> bool:
        """Be the only one who recovers turns."""
        assert self._locks is not None
        return self._locks.take(RECOVERING)

    def unlock_recovery(self) -> None:
        """Let others recover turns."""
        assert self._locks is not None
        self._locks.free(RECOVERING)

    def leave(self) -> None:
        """Take the row away."""
        self._run("DELETE FROM turn_workers WHERE worker = ?", (self._worker,))

    def close(self) -> None:
        """Close the file and free the lock."""
        connection, self._connection = self._connection, None
        if connection is not None:
            connection.close()
        locks, self._locks = self._locks, None
        if locks is not None:
            locks.close()

    def _run(self, statement: str, values: Sequence[str | int | float]) -> list[tuple[object, ...]]:
        assert self._connection is not None
        try:
            return self._connection.execute(statement, values).fetchall()
        except sqlite3.Error as error:
            raise explain_sqlite(error, self._path, timeout=5.0) from None


def _place(worker: str) -> int:
    """The byte that stands for a worker; never one that stands for something else."""
    digest = hashlib.blake2b(worker.encode(), digest_size=7).digest()
    # above every fixed number in this file of locks
    return int.from_bytes(digest) | 1 << 56


# --- the table in PostgreSQL

_BURYING = 0x57454654_01
"""The lock of who declares others dead."""


class ServerLiving:
    """The workers in a PostgreSQL database. The lock is an advisory lock of one connection."""

    def __init__(self, address: "DatabaseAddress") -> None:
        self._url = address.lease_url or address.url
        self._connection: psycopg.Connection[tuple[object, ...]] | None = None
        self._worker = ""
        self._is_known = False

    def enter(self, info: WorkerInfo) -> None:
        """Connect, take the lock, and write the row."""
        from weft.stores.postgres_server import DriverError, connect_at_once, explain_postgres

        self._worker = info.worker
        try:
            self._connection = connect_at_once(self._url, worker=info.worker)
            # a beat may be lost with the server, and a server that hangs is noticed
            self._connection.execute("SET synchronous_commit = off; SET statement_timeout = '5s'")
            # the worker that buried this one has cut its connection, or soon will
            self._connection.execute("SELECT pg_advisory_lock(%s)", (_number(info.worker),))
            # after a break the row is still there; where it is gone, this worker was declared dead
            if not self._is_known:
                self._connection.execute(
                    f"INSERT INTO weft.turn_workers VALUES (%s, %s, %s, %s, {_NOW}, {_NOW})",
                    (info.worker, json.dumps(info.apps), info.engine, info.slots),
                )
                self._is_known = True
        except DriverError as error:
            raise explain_postgres(error, self._url) from None

    def beat(self) -> list[tuple[str, float]] | None:
        """Say that this worker lives: all workers, with their last beats."""
        rows = self._run(
            f"""WITH own AS (
                UPDATE weft.turn_workers SET beat = {_NOW} WHERE worker = %s RETURNING 1)
            SELECT worker, beat FROM weft.turn_workers WHERE EXISTS (SELECT 1 FROM own)""",
            (self._worker,),
        )
        return cast("list[tuple[str, float]]", rows) or None

    def bury(self, worker: str, beat: float, *, hangs: bool) -> bool:
        """Declare a worker dead, and cut it off."""
        # one statement, and so one transaction: the locks are given back with it
        gone = self._run(
            """
            WITH alone AS MATERIALIZED (SELECT pg_try_advisory_xact_lock(%(burying)s) AS is_so),
            free AS MATERIALIZED (
                SELECT is_so AND (%(hangs)s OR pg_try_advisory_xact_lock(%(number)s)) AS is_so
                FROM alone)
            DELETE FROM weft.turn_workers USING free
            WHERE free.is_so AND worker = %(worker)s AND beat = %(beat)s RETURNING 1""",
            {
                "burying": _BURYING,
                "number": _number(worker),
                "hangs": hangs,
                "worker": worker,
                "beat": beat,
            },
        )
        if gone:  # also of one that seems dead: its cable may be cut, and it holds leases
            self._run(
                "SELECT pg_terminate_backend(pid) FROM pg_stat_activity"
                " WHERE application_name = left('weft ' || %s, 63)",
                (worker,),
            )
        return bool(gone)

    def lock_recovery(self) -> bool:
        """Be the only one who recovers turns."""
        return self._run("SELECT pg_try_advisory_lock(%s)", (RECOVERING,)) == [(True,)]

    def unlock_recovery(self) -> None:
        """Let others recover turns."""
        self._run("SELECT pg_advisory_unlock(%s)", (RECOVERING,))

    def leave(self) -> None:
        """Take the row away."""
        self._run("DELETE FROM weft.turn_workers WHERE worker = %s", (self._worker,))

    def close(self) -> None:
        """Close the connection."""
        connection, self._connection = self._connection, None
        if connection is not None:
            connection.close()

    def _run(
        self, statement: str, values: Sequence[object] | dict[str, object]
    ) -> list[tuple[object, ...]]:
        from weft.stores.postgres_server import DriverError, explain_postgres

        assert self._connection is not None
        try:
            cursor = self._connection.execute(statement.encode(), values)
            return cursor.fetchall() if cursor.description is not None else []
        except DriverError as error:
            raise explain_postgres(error, self._url) from None


_NOW = "extract(epoch FROM clock_timestamp())::float8"


def _number(worker: str) -> int:
    """The number that stands for a worker among the server's advisory locks."""
    text = f"weft\0worker\0{worker}".encode()
    return int.from_bytes(hashlib.blake2b(text, digest_size=8).digest(), signed=True)
