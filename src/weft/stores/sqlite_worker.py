"""Threads that serve a SQLite connection, and how queued jobs become transactions.

A reader runs one job after the other. A writer commits together what was queued while it was
busy, so that many sessions share one flush to the disk. A job is done when its commit is.
"""

import asyncio
import sqlite3
import time
from collections.abc import Callable, Sequence
from contextlib import suppress
from queue import Empty, SimpleQueue
from threading import Lock, Thread
from typing import Generic, NamedTuple, Protocol, TypeVar

from weft.errors import StoreError
from weft.stores.leases import WATCH_EVERY

T = TypeVar("T")


class Task(Protocol):
    """A job, whatever its result."""

    def work(self, connection: sqlite3.Connection) -> None:
        """Do the part inside the transaction."""
        ...

    def done(self) -> None:
        """The transaction has ended well."""
        ...

    def failed(self, error: Exception) -> None:
        """The transaction was rolled back."""
        ...


Work = Callable[[sqlite3.Connection], Callable[[], T]]
"""The part of a job inside the transaction. It returns the part after it, which has the result."""


class Watch(NamedTuple):
    """Something to look at every now and then, while it is wanted."""

    wanted: Callable[[], bool]
    look: Callable[[sqlite3.Connection], None]


class ConnectionThread:
    """One thread with one connection, which serves what is queued.

    The thread starts with the first job. A connection that cannot be opened fails the jobs that
    are queued, and is tried again for the next.
    """

    def __init__(
        self,
        name: str,
        connect: Callable[[], sqlite3.Connection],
        serve: Callable[[sqlite3.Connection, Sequence[Task]], None],
        *,
        watch: Watch | None = None,
    ) -> None:
        self._name = name
        self._connect = connect
        self._serve = serve
        self._watch = watch
        self._queue: SimpleQueue[Task | None] = SimpleQueue()
        self._lock = Lock()
        self._thread: Thread | None = None
        self._closed = False

    async def run(self, work: Work[T]) -> T:
        """The result of the work, once its transaction has ended."""
        job = Job(work)
        self.submit(job)
        return await job.result()

    def submit(self, job: Task) -> None:
        """Queue the job."""
        with self._lock:
            if self._closed:
                job.failed(StoreError("the store was closed meanwhile", where=self._name))
            else:
                self._put(job)

    def wake(self) -> None:
        """Have the thread see whether something is to be watched."""
        with self._lock:
            self._put(None)

    def _put(self, job: Task | None) -> None:
        if self._thread is None:
            self._thread = Thread(target=self._run, name=self._name, daemon=True)
            self._thread.start()
        self._queue.put(job)

    async def close(self) -> None:
        """Close the connection, once everything queued is done."""
        with self._lock:
            self._closed = True
            thread = self._thread
            self._queue.put(None)
        if thread is not None:
            await asyncio.to_thread(thread.join)

    def _run(self) -> None:
        connection: sqlite3.Connection | None = None
        due: float | None = None
        while not (self._closed and self._queue.empty()):
            watch = self._watch if self._watch is not None and self._watch.wanted() else None
            if watch is None:
                due = None
            elif due is None:
                due = time.monotonic() + WATCH_EVERY
            batch = self._queued(due)
            if batch:
                try:
                    connection = connection or self._connect()
                    self._serve(connection, batch)
                except Exception as error:
                    for job in batch:
                        job.failed(error)
            if watch is not None and due is not None and time.monotonic() >= due:
                due = None
                with suppress(StoreError, sqlite3.Error):  # the next look may do better
                    connection = connection or self._connect()
                    watch.look(connection)
        if connection is not None:
            connection.close()

    def _queued(self, until: float | None) -> list[Task]:
        """What is queued, once there is something, or nothing at that time."""
        pause = None if until is None else max(until - time.monotonic(), 0)
        batch: list[Task] = []
        with suppress(Empty):
            first = self._queue.get(timeout=pause)
            while True:
                if first is not None:
                    batch.append(first)
                first = self._queue.get_nowait()
        return batch


def read(connection: sqlite3.Connection, batch: Sequence[Task]) -> None:
    """Serve a reader: each job sees one state of the file."""
    for job in batch:
        try:
            connection.execute("BEGIN")
            job.work(connection)
        except Exception as error:
            job.failed(error)
        else:
            job.done()
        finally:
            if connection.in_transaction:
                connection.execute("ROLLBACK")


def write(connection: sqlite3.Connection, batch: Sequence[Task]) -> None:
    """Serve a writer: what is queued is committed together, a held transaction by itself."""
    plain: list[Task] = []
    for job in batch:
        if isinstance(job, Hold):
            _together(connection, plain)
            _alone(connection, job)
            plain = []
        else:
            plain.append(job)
    _together(connection, plain)


def _together(connection: sqlite3.Connection, jobs: Sequence[Task]) -> None:
    """One transaction for all; a job that fails leaves nothing behind, and harms no other."""
    if len(jobs) < 2:  # savepoints are for several
        for job in jobs:
            _alone(connection, job)
        return
    failures: dict[int, Exception] = {}
    connection.execute("BEGIN IMMEDIATE")
    try:
        for at, job in enumerate(jobs):
            connection.execute("SAVEPOINT job")
            try:
                job.work(connection)
            except Exception as error:
                if not connection.in_transaction:  # SQLite gave up the whole of it
                    raise
                connection.execute("ROLLBACK TO job")
                failures[at] = error
            connection.execute("RELEASE job")
        connection.execute("COMMIT")
    except Exception:
        # nothing was committed: each job gets a chance, and an error, of its own
        _roll_back(connection)
        for job in jobs:
            _alone(connection, job)
        return
    for at, job in enumerate(jobs):
        if at in failures:
            job.failed(failures[at])
        else:
            job.done()


def _alone(connection: sqlite3.Connection, job: Task) -> None:
    try:
        connection.execute("BEGIN IMMEDIATE")
        job.work(connection)
        if connection.in_transaction:  # a `Hold` has committed by itself
            connection.execute("COMMIT")
    except Exception as error:
        _roll_back(connection)
        job.failed(error)
    else:
        job.done()


def _roll_back(connection: sqlite3.Connection) -> None:
    if connection.in_transaction:
        connection.execute("ROLLBACK")


class Job(Generic[T]):
    """Work for a thread, and the event loop that waits for it."""

    def __init__(self, work: Work[T]) -> None:
        self._work = work
        self._loop = asyncio.get_running_loop()
        self._future: asyncio.Future[T] = self._loop.create_future()
        self._finish: Callable[[], T] | None = None

    def work(self, connection: sqlite3.Connection) -> None:
        """Do the part inside the transaction."""
        self._finish = self._work(connection)

    def done(self) -> None:
        """Do the part after the transaction, and give the result to whoever waits."""
        assert self._finish is not None
        try:
            result = self._finish()
        except Exception as error:
            self.failed(error)
        else:
            self._tell(lambda: self._future.set_result(result))

    def failed(self, error: Exception) -> None:
        """Give the error to whoever waits."""
        self._tell(lambda: self._future.set_exception(error))

    def _tell(self, settle: Callable[[], None]) -> None:
        def settle_once() -> None:
            if not self._future.done():  # whoever waited may have been cancelled
                settle()

        with suppress(RuntimeError):  # the loop is closed: nobody waits any more
            self._loop.call_soon_threadsafe(settle_once)

    async def result(self) -> T:
        """Wait for it; whoever stops waiting does not stop the job."""
        return await self._future


class Hold:
    """A job that keeps the writer's connection for one transaction, until that ends.

    What the transaction does runs on the writer's thread too. Everybody else waits.
    """

    def __init__(self) -> None:
        self._queue: SimpleQueue[tuple[Task, bool]] = SimpleQueue()
        self._begun = Job(self._begin)

    def _begin(self, connection: sqlite3.Connection) -> Callable[[], sqlite3.Connection]:
        connection.set_authorizer(_no_commit)
        return lambda: connection

    def work(self, connection: sqlite3.Connection) -> None:
        """Serve the transaction from its beginning to its end."""
        try:
            self._begun.work(connection)
            self._begun.done()
            last = False
            while not last:
                job, last = self._queue.get()
                try:
                    job.work(connection)
                except Exception as error:
                    job.failed(error)
                else:
                    job.done()
        finally:
            connection.set_authorizer(None)
            # a tool may have changed how its rows look
            connection.row_factory, connection.text_factory = None, str
            _roll_back(connection)

    def done(self) -> None:
        """Nobody waits for the whole."""

    def failed(self, error: Exception) -> None:
        """The transaction could not begin."""
        self._begun.failed(error)

    async def begin(self) -> sqlite3.Connection:
        """The connection, inside a transaction."""
        try:
            return await self._begun.result()
        except asyncio.CancelledError:
            # the thread may have begun already: end what nobody will use
            self._queue.put((Job[None](_nothing), True))
            raise

    async def run(self, work: Work[T]) -> T:
        """The result of the work, which stays undecided until the end."""
        job = Job(work)
        self._queue.put((job, False))
        return await job.result()

    async def commit(self) -> None:
        """Store everything."""
        job = Job(_commit)
        self._queue.put((job, True))
        await job.result()

    async def rollback(self) -> None:
        """Store nothing."""
        job = Job(_nothing)
        self._queue.put((job, True))
        await job.result()


def _no_commit(action: int, first: str | None, *_: str | None) -> int:
    """Leave the end of the transaction to the store: a tool may not commit half of it."""
    return sqlite3.SQLITE_DENY if action == sqlite3.SQLITE_TRANSACTION else sqlite3.SQLITE_OK


def _commit(connection: sqlite3.Connection) -> Callable[[], None]:
    connection.set_authorizer(None)
    connection.execute("COMMIT")
    return _ended


def _nothing(_: sqlite3.Connection) -> Callable[[], None]:
    return _ended


def _ended() -> None:
    pass
