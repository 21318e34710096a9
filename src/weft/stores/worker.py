"""Threads that own a SQLite connection: the event loop waits for them, never for the disk."""

import asyncio
import sqlite3
import time
from collections.abc import Callable, Sequence
from contextlib import suppress
from queue import Empty, SimpleQueue
from threading import Lock, Thread
from typing import Generic, NamedTuple, Protocol, TypeVar

from weft.errors import StoreError
from weft.stores.waiting import WATCH_EVERY

T = TypeVar("T")

Work = Callable[[sqlite3.Connection], Callable[[], T]]
"""What is done inside the transaction; it returns what is done after it, for the result."""


class Job(Generic[T]):
    """Work for a thread, and the event loop that waits for it."""

    def __init__(self, work: Work[T]) -> None:
        self._work = work
        self._loop = asyncio.get_running_loop()
        self._future: asyncio.Future[T] = self._loop.create_future()
        self._finish: Callable[[], T] | None = None

    def work(self, connection: sqlite3.Connection) -> None:
        """Do what belongs into the transaction."""
        self._finish = self._work(connection)

    def done(self) -> None:
        """Do what comes after the transaction, and give the result to who waits."""
        assert self._finish is not None
        try:
            result = self._finish()
        except Exception as error:
            self.failed(error)
        else:
            self._tell(lambda: self._future.set_result(result))

    def failed(self, error: Exception) -> None:
        """Give the error to who waits."""
        self._tell(lambda: self._future.set_exception(error))

    def _tell(self, settle: Callable[[], None]) -> None:
        def told() -> None:
            if not self._future.done():
                settle()

        with suppress(RuntimeError):  # the loop is closed: nobody waits any more
            self._loop.call_soon_threadsafe(told)

    async def result(self) -> T:
        """Wait for it; whoever stops waiting does not stop the job."""
        return await self._future


class Task(Protocol):
    """A job, whatever its result."""

    def work(self, connection: sqlite3.Connection) -> None:
        """Do what belongs into the transaction."""
        ...

    def done(self) -> None:
        """It is stored, or it was read."""
        ...

    def failed(self, error: Exception) -> None:
        """It is not."""
        ...


class Watch(NamedTuple):
    """Something to look at every now and then, while it is wanted."""

    wanted: Callable[[], bool]
    look: Callable[[sqlite3.Connection], None]


class Worker:
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
