"""How the queued jobs of a SQLite connection become transactions.

A reader runs one job after the other. A writer commits together what was queued while it was
busy, so that many sessions share one flush to the disk; a job is done when its commit is.
"""

import asyncio
import sqlite3
from collections.abc import Callable, Sequence
from queue import SimpleQueue
from typing import TypeVar

from weft.stores.worker import Job, Task, Work

T = TypeVar("T")


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
    if len(jobs) < 2:
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
        if connection.in_transaction:
            connection.execute("COMMIT")
    except Exception as error:
        _roll_back(connection)
        job.failed(error)
    else:
        job.done()


def _roll_back(connection: sqlite3.Connection) -> None:
    if connection.in_transaction:
        connection.execute("ROLLBACK")


class Hold:
    """The writer's connection, kept by one transaction until that ends.

    What the transaction does itself runs on the writer's thread as well; everybody else waits.
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
