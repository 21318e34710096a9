"""Threads that serve a SQLite connection, and how queued jobs become transactions.

A reader runs one job after the other. A writer commits together what was queued while it was
busy. A third thread flushes the log that SQLite writes ahead: a job is done when its commit is on
the disk, and meanwhile the writer goes on, so that many commits share one flush. What is seen in
microseconds has a connection of its own, and no thread.
"""

import asyncio
import os
import sqlite3
import time
from collections.abc import Callable, Iterable, Sequence
from contextlib import suppress
from pathlib import Path
from queue import Empty, SimpleQueue
from threading import Lock, Thread
from typing import Generic, NamedTuple, Protocol, TypeVar, cast

from weft.errors import StoreError
from weft.session import SessionKey
from weft.stores.leases import WATCH_EVERY
from weft.stores.sqlite_file import WholeFile
from weft.stores.sqlite_tables import MOST_ROWS, Glance, NewRow, add_rows, glance

T = TypeVar("T")


class Task(Protocol):
    """A job, whatever its result."""

    def work(self, connection: sqlite3.Connection) -> None:
        """Do the part inside the transaction."""
        ...

    def done(self) -> "Settlement | None":
        """The transaction has ended well: who is to be told what."""
        ...

    def fail(self, error: Exception) -> None:
        """The transaction was rolled back."""
        ...


class Settlement(NamedTuple):
    """What an event loop has to do so that whoever waits for a job goes on."""

    loop: asyncio.AbstractEventLoop
    settle: Callable[[], None]


Work = Callable[[sqlite3.Connection], Callable[[], T]]
"""The part of a job inside the transaction. It returns the part after it, which has the result."""


class FileWatch(NamedTuple):
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
        watch: FileWatch | None = None,
    ) -> None:
        self._name = name
        self._connect = connect
        self._serve = serve
        self._watch = watch
        self._queue: SimpleQueue[Sequence[Task]] = SimpleQueue()
        self._lock = Lock()
        self._gathered: dict[asyncio.AbstractEventLoop, list[Task]] = {}
        self._thread: Thread | None = None
        self._closed = False
        self._watching = False

    async def run(self, work: Work[T]) -> T:
        """The result of the work, once its transaction has ended."""
        job = Job(work)
        self.submit(job)
        return await job.result()

    def submit(self, *jobs: Task) -> None:
        """Queue the jobs."""
        with self._lock:
            if not self._closed:
                self._put(jobs)
                return
        for job in jobs:
            job.fail(StoreError("the store was closed meanwhile", where=self._name))

    def gather(self, job: Task) -> None:
        """Queue the job with others of this round of the event loop.

        Were each queued by itself, the thread would wake up for the first, and then it and the
        event loop would take the interpreter from each other for every one of them.
        """
        loop = asyncio.get_running_loop()
        gathered = self._gathered.get(loop)
        if gathered is None:
            gathered = self._gathered[loop] = []
            # when everything that is ready now has run
            loop.call_soon(self._submit_gathered, loop)
        gathered.append(job)
        if len(gathered) >= MOST_GATHERED:
            self._gathered[loop] = []
            self.submit(*gathered)

    def _submit_gathered(self, loop: asyncio.AbstractEventLoop) -> None:
        if jobs := self._gathered.pop(loop, None):
            self.submit(*jobs)

    def wake(self) -> None:
        """Have the thread see whether something is to be watched."""
        # a thread that watches wakes up by itself
        if not self._watching:
            with self._lock:
                self._put(())

    def _put(self, jobs: Sequence[Task]) -> None:
        if self._thread is None:
            self._thread = Thread(target=self._run, name=self._name, daemon=True)
            self._thread.start()
        self._queue.put(jobs)

    async def close(self) -> None:
        """Close the connection, once everything queued is done."""
        self._submit_gathered(asyncio.get_running_loop())
        with self._lock:
            self._closed = True
            thread = self._thread
            self._queue.put(())
        if thread is not None:
            await asyncio.to_thread(thread.join)

    def _run(self) -> None:
        connection: sqlite3.Connection | None = None
        due: float | None = None
        while not (self._closed and self._queue.empty()):
            self._watching = False  # before it is asked what is wanted: see `wake`
            watch = self._watch if self._watch is not None and self._watch.wanted() else None
            self._watching = watch is not None
            if watch is None:
                due = None
            elif due is None:
                due = time.monotonic() + WATCH_EVERY
            batch = self._wait_for_batch(due)
            if batch:
                try:
                    connection = connection or self._connect()
                    self._serve(connection, batch)
                except Exception as error:
                    # the file cannot be opened: the next batch tries again
                    for job in batch:
                        job.fail(error)
            if watch is not None and due is not None and time.monotonic() >= due:
                due = None
                with suppress(StoreError, sqlite3.Error):  # the next look may do better
                    connection = connection or self._connect()
                    watch.look(connection)
        if connection is not None:
            connection.close()

    def _wait_for_batch(self, until: float | None) -> list[Task]:
        """What is queued, once there is something, or nothing at that time."""
        pause = None if until is None else max(until - time.monotonic(), 0)
        batch: list[Task] = []
        with suppress(Empty):
            batch += self._queue.get(timeout=pause)
            while True:
                batch += self._queue.get_nowait()
        return batch


MOST_GATHERED = 32
"""How many jobs are gathered at most: the disk is busy with these while others are made."""


def read(connection: sqlite3.Connection, batch: Sequence[Task]) -> None:
    """Serve a reader: each job sees one state of the file."""
    for job in batch:
        try:
            connection.execute("BEGIN")
            job.work(connection)
        except Exception as error:
            job.fail(error)
        else:
            _settle([job])
        finally:
            # also after success: a reader that stays in a transaction goes on seeing the old state
            if connection.in_transaction:
                connection.execute("ROLLBACK")


class FileWriter:
    """Serves a writer: what is queued is committed together, a held transaction by itself.

    `flusher` settles jobs once their commit is on the disk; a connection that flushes by itself
    needs none.
    """

    def __init__(self, flusher: "Flusher | None" = None, watch: FileWatch | None = None) -> None:
        self._flusher = flusher
        self._flush = flusher.flush if flusher is not None else _settle
        self._watch = watch
        self._looked = 0.0

    def __call__(self, connection: sqlite3.Connection, batch: Sequence[Task]) -> None:
        """Commit the jobs, and have them flushed."""
        if self._flusher is not None:
            self._flusher.require_sound()
        # first what ends at once: a held transaction lasts as long as its tool
        plain = [job for job in batch if not isinstance(job, Hold)]
        if plain:
            self._together(connection, plain)
        for job in batch:
            if isinstance(job, Hold):
                self._hold(connection, job)

    def _together(self, connection: sqlite3.Connection, jobs: Sequence[Task]) -> None:
        """One transaction for all. If one of them fails, each has a transaction of its own."""
        try:
            additions = [cast("Addition[object]", job) for job in jobs if _adds(job)]
            rows = [row for job in additions for row in job.rows]
            # the common case: only events, few enough for one statement
            is_plain = len(additions) == len(jobs) and len(rows) <= MOST_ROWS
            if is_plain and not any(job.shares for job in additions):
                if not add_rows(connection, rows):  # a statement is a transaction
                    raise _Unfit
            else:
                # the write lock at once: a transaction that reads first could not get it later
                connection.execute("BEGIN IMMEDIATE")
                for job in jobs:
                    if not _adds(job):
                        job.work(connection)
                if not add_rows(connection, rows):
                    raise _Unfit
                for job in additions:
                    job.share(connection)
                connection.execute(_COMMIT)
        except Exception as error:
            # nothing was committed: each job gets a chance, and an error, of its own
            _roll_back(connection)
            # it was alone already; an addition has its careful way still to try
            if len(jobs) == 1 and not _adds(jobs[0]):
                jobs[0].fail(error)
                return
            for job in jobs:
                self._alone(connection, job)
            return
        if additions:
            self._look(connection)
        self._flush(jobs)

    def _alone(self, connection: sqlite3.Connection, job: Task) -> None:
        try:
            connection.execute("BEGIN IMMEDIATE")
            job.work(connection)
            connection.execute(_COMMIT)
        except Exception as error:
            _roll_back(connection)
            job.fail(error)
        else:
            self._flush([job])

    def _look(self, connection: sqlite3.Connection) -> None:
        """Look whether somebody wants a run that writes to stop, but not at every write."""
        watch, now = self._watch, time.monotonic()
        if watch is not None and now - self._looked > _LOOK_EVERY and watch.wanted():
            self._looked = now
            with suppress(StoreError, sqlite3.Error):  # the reader looks as well
                watch.look(connection)

    def _hold(self, connection: sqlite3.Connection, hold: "Hold") -> None:
        """A transaction that ends by itself, and has its commit flushed."""
        try:
            connection.execute("BEGIN IMMEDIATE")
            hold.flush = self._flush
            hold.work(connection)
        except Exception as error:
            _roll_back(connection)
            hold.fail(error)


_LOOK_EVERY = 0.05
"""Seconds between two looks of a writer."""


def _adds(job: Task) -> bool:
    return isinstance(job, Addition)


class _Unfit(Exception):
    """Events do not follow those in the file: somebody has to look closely."""


def _roll_back(connection: sqlite3.Connection) -> None:
    if connection.in_transaction:
        connection.execute(_ROLLBACK)


# Not in the words of others: a statement that was prepared before is not asked for again.
_COMMIT = "COMMIT /* by the store */"
_ROLLBACK = "ROLLBACK /* by the store */"


class Flusher:
    """A thread that flushes the log of a SQLite file to the disk, for all commits since the last.

    The writer commits without a flush. Nobody is told of a commit before the flush after it has
    ended, so what was acknowledged is on the disk, as if SQLite had flushed each commit itself.

    When a flush has failed, nobody knows what is on the disk, and a later one that succeeds says
    nothing about it: the system may have dropped what it could not write. So nothing is flushed
    or written any more.
    """

    def __init__(self, path: Path) -> None:
        self._log = Path(f"{path}-wal")
        self._queue: SimpleQueue[Sequence[Task] | None] = SimpleQueue()
        self._thread: Thread | None = None
        self._descriptor = -1
        self.failure: OSError | None = None
        """Why a flush failed."""

    def require_sound(self) -> None:
        """Refuse to write once a flush has failed."""
        if self.failure is not None:
            raise StoreError(
                f"the disk failed before, and nothing is stored since: {_words(self.failure)}",
                where=str(self._log),
                hint="check the disk and its mount, then open the store again: end the process,"
                " or store.close()",
            )

    def flush(self, jobs: Sequence[Task]) -> None:
        """Settle the jobs once the commit before this is on the disk."""
        if self._thread is None:
            self._thread = Thread(target=self._run, name=f"weft flushes {self._log}", daemon=True)
            self._thread.start()
        self._queue.put(jobs)

    async def close(self) -> None:
        """End the thread, once everything queued is on the disk."""
        if self._thread is not None:
            self._queue.put(None)
            await asyncio.to_thread(self._thread.join)
            self._thread = None

    def _run(self) -> None:
        is_open = True
        while is_open:
            # everything that was committed since the last flush shares the next one
            queued = [self._queue.get()]
            with suppress(Empty):
                while True:
                    queued.append(self._queue.get_nowait())
            is_open = None not in queued
            jobs = [job for group in queued if group is not None for job in group]
            if not jobs:
                continue
            try:
                self.require_sound()
                self._sync()
            except StoreError as error:
                for job in jobs:
                    job.fail(error)
            except OSError as error:
                self.failure = error
                for job in jobs:
                    job.fail(self._disk_error(error))
            else:
                _settle(jobs)
        if self._descriptor >= 0:
            os.close(self._descriptor)
            self._descriptor = -1

    def _sync(self) -> None:
        if self._descriptor < 0:
            try:
                self._descriptor = os.open(self._log, os.O_RDWR)
            except FileNotFoundError:  # the last commit was moved into the file, and flushed there
                return
        sync_data(self._descriptor)

    def _disk_error(self, error: OSError) -> StoreError:
        return StoreError(
            f"the disk failed: {_words(error)}",
            where=str(self._log),
            hint="check the disk and its mount, then open the store again; what was stored before"
            " is safe",
        )


def _words(error: OSError) -> str:
    return error.strerror or str(error)


sync_data = os.fdatasync if hasattr(os, "fdatasync") else os.fsync


def _settle(jobs: Iterable[Task]) -> None:
    """Tell everybody who waits; each event loop is woken once."""
    by_loop: dict[asyncio.AbstractEventLoop, list[Callable[[], None]]] = {}
    for job in jobs:
        settlement = job.done()
        if settlement is not None:
            by_loop.setdefault(settlement.loop, []).append(settlement.settle)
    for loop, settlements in by_loop.items():
        with suppress(RuntimeError):  # the loop is closed: nobody waits any more
            loop.call_soon_threadsafe(_call_all, settlements)


def _call_all(functions: Iterable[Callable[[], None]]) -> None:
    for function in functions:
        function()


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

    def done(self) -> Settlement | None:
        """Do the part after the transaction; the result goes to whoever waits."""
        assert self._finish is not None
        try:
            result = self._finish()
        except Exception as error:
            self.fail(error)
            return None

        def settle() -> None:
            if not self._future.done():  # whoever waited may have been cancelled
                self._future.set_result(result)

        return Settlement(self._loop, settle)

    def fail(self, error: Exception) -> None:
        """Give the error to whoever waits."""

        def settle() -> None:
            if not self._future.done():
                self._future.set_exception(error)

        with suppress(RuntimeError):  # the loop is closed: nobody waits any more
            self._loop.call_soon_threadsafe(settle)

    async def result(self) -> T:
        """Wait for it; whoever stops waiting does not stop the job."""
        return await self._future


class Addition(Job[T]):
    """A job that adds events to a session as this process knows it.

    The writer inserts the rows of several such jobs at once. What the events write to shared state
    is written with them by `share`, if there is something. Where the session turns out to be
    another, the job's own work is done instead.
    """

    def __init__(
        self,
        work: Work[T],
        rows: Sequence[NewRow],
        finish: Callable[[], T],
        share: Callable[[sqlite3.Connection], None] | None,
    ) -> None:
        super().__init__(work)
        self.rows = rows
        self.shares = share is not None
        self._finish = finish
        self._share = share

    def share(self, connection: sqlite3.Connection) -> None:
        """Write to the shared state, in the transaction of the events."""
        if self._share is not None:
            self._share(connection)


class Hold:
    """A job that keeps the writer's connection for one transaction, until that ends.

    Whoever holds it uses the connection. The writer's thread waits, and so does everybody else.
    """

    def __init__(self) -> None:
        self._queue: SimpleQueue[tuple[Job[None], bool]] = SimpleQueue()
        self._begun = Job(self._begin)
        self.flush: Callable[[Sequence[Task]], None] = _settle

    def _begin(self, connection: sqlite3.Connection) -> Callable[[], sqlite3.Connection]:
        cast("WriterConnection", connection).is_held = True
        return lambda: connection

    def work(self, connection: sqlite3.Connection) -> None:
        """Serve the transaction from its beginning to its end; a commit is flushed."""
        try:
            # from here on the tool's task uses the connection; this thread waits for the end
            self._begun.work(connection)
            _settle([self._begun])
            # nothing else is served meanwhile: a transaction is alone in the file
            end, commits = self._queue.get()
            try:
                end.work(connection)
            except Exception as error:
                end.fail(error)
            else:
                if commits:
                    self.flush([end])
                else:
                    _settle([end])
        finally:
            cast("WriterConnection", connection).is_held = False
            # a tool may have changed how its rows look
            connection.row_factory, connection.text_factory = None, str
            _roll_back(connection)

    def done(self) -> Settlement | None:
        """Nobody waits for the whole."""
        return None

    def fail(self, error: Exception) -> None:
        """The transaction could not begin."""
        self._begun.fail(error)

    async def begin(self) -> sqlite3.Connection:
        """The connection, inside a transaction."""
        try:
            return await self._begun.result()
        except asyncio.CancelledError:
            # the thread may have begun already: end what nobody will use
            self._queue.put((Job[None](_nothing), False))
            raise

    async def commit(self) -> None:
        """Store everything."""
        job = Job(_commit)
        self._queue.put((job, True))
        await job.result()

    async def rollback(self) -> None:
        """Store nothing."""
        job = Job(_nothing)
        self._queue.put((job, False))
        await job.result()


class WriterConnection(sqlite3.Connection):
    """A connection that leaves the end of a transaction to the store while a tool has it.

    A tool may not commit half of it. SQLite asks when a statement is prepared. Who asks is set
    once: with each change all statements are prepared anew, which took longer than to run them.
    """

    is_held = False

    def guard(self) -> None:
        """Ask from now on whether a statement may end a transaction."""
        self.set_authorizer(self._authorize)

    def _authorize(self, action: int, first: str | None, *_: str | None) -> int:
        ends = action == sqlite3.SQLITE_TRANSACTION and self.is_held
        return sqlite3.SQLITE_DENY if ends else sqlite3.SQLITE_OK


def _commit(connection: sqlite3.Connection) -> Callable[[], None]:
    cast("WriterConnection", connection).is_held = False
    connection.execute(_COMMIT)
    return _do_nothing


def _nothing(_: sqlite3.Connection) -> Callable[[], None]:
    return _do_nothing


def _do_nothing() -> None:
    pass


class Glances:
    """A connection for the event loop itself, for what is seen in microseconds.

    It never waits: where the file is locked or in other use, or there is much to read, the reader's
    thread does it.
    """

    MOST = 100_000
    """Bytes of shared state that are read here."""

    def __init__(self, path: Path, whole: WholeFile) -> None:
        self._path = path
        self._whole = whole
        self._lock = Lock()
        self._connection: sqlite3.Connection | None = None
        self._heavy: set[tuple[str, str]] = set()

    def at(self, key: SessionKey) -> Glance | None:
        """The session as it is now, with number 0 if it is not there; None: read it properly."""
        owner = key.app_name, key.user_id
        if not self._whole.is_sound or owner in self._heavy:
            return None
        if not self._lock.acquire(blocking=False):  # another thread uses the store as well
            return None
        try:
            if self._connection is None:
                address = f"{self._path.as_uri()}?mode=rw"
                self._connection = sqlite3.connect(
                    # timeout 0: the event loop must not wait for a lock
                    address,
                    timeout=0,
                    isolation_level=None,
                    check_same_thread=False,
                    uri=True,
                )
            seen = glance(self._connection, key)
        except (sqlite3.Error, UnicodeDecodeError):
            # locked, or damaged: the reader's thread waits, or says what is wrong
            return None
        finally:
            self._lock.release()
        if seen is None:
            return _NOT_THERE
        if sum(len(value) for _, value, _ in (*seen.app, *seen.user)) > self.MOST:
            # reading so much would hold up the event loop
            self._heavy.add(owner)
        return seen

    def close(self) -> None:
        """Close the connection."""
        with self._lock:
            if self._connection is not None:
                self._connection.close()
                self._connection = None


_NOT_THERE = Glance(0, 0, [], [])
