"""Sessions in one SQLite file: durable, shared by the processes of one machine, nothing to set up.

One thread writes, one flushes and one reads, so the event loop does not wait for the disk. Of a
session that is cached it looks itself whether that is the newest: this takes microseconds.
`append` returns when the event is on the disk.
"""

import asyncio
import os
import sqlite3
import time
from collections.abc import AsyncGenerator, Awaitable, Callable, Generator, Mapping, Sequence
from contextlib import asynccontextmanager, contextmanager, nullcontext
from pathlib import Path
from threading import Lock
from typing import Concatenate, NamedTuple, ParamSpec, TypeVar, cast

from weft.errors import UsageError
from weft.session import Busy, Event, Holder, Lease, Session, SessionInfo, SessionKey, Transaction
from weft.session.memory import (
    Growth,
    LocalLease,
    StoredSession,
    follows,
    grow,
    has_all,
    require_key,
    split_scopes,
)
from weft.session.store import Count, conflict, key_of, part, require_place, unknown_session
from weft.stores import sqlite_tables as tables
from weft.stores.cache import SessionCache, require_recent
from weft.stores.leases import FIRST_PAUSE, inside, outwait, require_outside
from weft.stores.relay import Relay
from weft.stores.rows import StateReader, warn_unreadable
from weft.stores.sqlite_file import (
    WholeFile,
    explain_sqlite,
    leave_flushing,
    open_file,
    rewrite_file,
    rewrite_log,
)
from weft.stores.sqlite_lease import FileLeases, join, leave
from weft.stores.sqlite_relay import FileCarrier, forget_letters
from weft.stores.sqlite_tables import FILE_SQL, run_steps
from weft.stores.sqlite_worker import (
    Addition,
    ConnectionThread,
    FileWatch,
    FileWriter,
    Flusher,
    Glances,
    Hold,
    Work,
    WriterConnection,
    read,
)
from weft.stores.statements import Steps, StoreStatements
from weft.stores.steps import (
    ChapterWriter,
    count_events,
    delete_request,
    delete_session,
    erase_turns,
    erase_user,
    insert_session,
    list_apps,
    list_requests,
    list_sessions,
    list_turn_apps,
    list_waiting,
    put_request,
    read_events,
    read_part,
    read_shared,
    share,
)
from weft.values import Json, require_object

T = TypeVar("T")
Arguments = ParamSpec("Arguments")

# Named once: the annotations of a function inside a function are evaluated at every call.
_Appended = Callable[[], Session]


class _Open(NamedTuple):
    """What an open store has in this process."""

    process: int
    leases: FileLeases
    whole: WholeFile
    writer: ConnectionThread
    reader: ConnectionThread
    flusher: Flusher
    glances: Glances


class SqliteStore:
    """Sessions in the file at `path`, which is made if it does not exist.

    `timeout` is how many seconds a write waits for the writes of other processes. The store opens
    with its first use, and can be used from several threads and event loops.
    """

    def __init__(self, path: str | Path, *, timeout: float = 30.0) -> None:
        if str(path) in ("", ":memory:") or "\0" in str(path):
            raise UsageError(
                f"{str(path)!r} is not a path",
                where="SqliteStore",
                hint="name a file, or keep sessions in memory with weft.session.MemoryStore",
            )
        self._path = Path(os.path.abspath(path))
        self._timeout = timeout
        self._cache = SessionCache()
        self._lock = Lock()
        self._open: _Open | None = None
        self._has_failed = False
        """Whether a flush failed since the file was opened last."""
        self.relay = Relay(FileCarrier(self._path))
        """What takes partial events to those who follow a session in another process."""
        self._chapters = ChapterWriter(self._run_steps, FILE_SQL)

    @property
    def path(self) -> Path:
        """The file."""
        return self._path

    async def create(self, key: SessionKey, *, state: Mapping[str, Json] | None = None) -> Session:
        """A new session; one that exists is refused with a Conflict."""
        require_key(key)
        own, app, user = split_scopes([require_object(state or {}, where="session.state")])

        def work(connection: sqlite3.Connection) -> Callable[[], Session]:
            stored = run_steps(connection, insert_session(FILE_SQL, key, time.time(), own))
            run_steps(connection, share(FILE_SQL, key, app, user))
            shared = run_steps(connection, read_shared(FILE_SQL, StateReader(key)))
            return lambda: self._keep(stored).session(*shared)

        return await self._write(work)

    async def create_filled(
        self, key: SessionKey, events: Sequence[Event], *, state: Mapping[str, Json] | None = None
    ) -> Session:
        """A new session with these events, in one transaction: no kill leaves it without them."""
        require_key(key)
        own, app, user = split_scopes([require_object(state or {}, where="session.state")])
        # what is wrong with the events is said before the writer has its turn
        growth = grow(Session(key.id, app_name=key.app_name, user_id=key.user_id), events)

        def work(connection: sqlite3.Connection) -> Callable[[], Session]:
            empty = run_steps(connection, insert_session(FILE_SQL, key, time.time(), own))
            rows, size = tables.new_rows(empty, growth)
            if not tables.add_rows(connection, rows):  # rows of a session that nobody else knows
                raise conflict(growth.session, empty.events)
            run_steps(connection, share(FILE_SQL, key, app, user))
            run_steps(connection, share(FILE_SQL, key, growth.app, growth.user))
            stored = empty.after(growth, size)
            shared = run_steps(connection, read_shared(FILE_SQL, StateReader(key)))
            return lambda: self._keep(stored).session(*shared)

        session = await self._write(work)
        if (stored := self._cache.get(key)) is not None:
            self._chapters.look_at(stored, self._cache)
        return session

    async def get(
        self,
        key: SessionKey,
        *,
        recent: int | None = None,
        after: float | None = None,
        skip_unreadable: bool = False,
    ) -> Session | None:
        """The session, or None; an event that is damaged is an error, or left out with a warning.

        A session with events left out is for reading: appending to it is a Conflict.
        """
        require_key(key)
        require_recent(recent)
        if skip_unreadable:
            return await self._load_sound_part(key, recent=recent, after=after)
        # a glance from the event loop itself: no thread, if the cached session is the newest
        if (recent is None and after is None) or self._cache.get(key) is not None:
            glance = self._ensure_open().glances.at(key)
            if glance is not None:
                stored, (number, length, app, user) = self._cache.get(key), glance
                if number == 0:
                    return None
                if stored is not None and (stored.number, stored.events.length) == (number, length):
                    reader = StateReader(key) if app or user else None
                    session = stored.session(
                        reader.shared_state(key[:1], app) if reader is not None else {},
                        reader.shared_state(key[:2], user) if reader is not None else {},
                    )
                    return part(session, recent=recent, after=after)

        def work(connection: sqlite3.Connection) -> Callable[[], Session | None]:
            # a cached session is caught up, not read in part: the next run wants all of it
            if (recent is not None or after is not None) and self._cache.get(key) is None:
                newest = run_steps(connection, read_part(FILE_SQL, key, recent=recent, after=after))
                if newest is not None:
                    return lambda: newest
            stored = tables.read_newest(connection, key, self._cache, self._path)
            if stored is None:
                return lambda: None
            shared = run_steps(connection, read_shared(FILE_SQL, StateReader(key)))
            return lambda: part(self._keep(stored).session(*shared), recent=recent, after=after)

        read = await self._read(work)
        if (stored := self._cache.get(key)) is not None:
            self._chapters.look_at(stored, self._cache)
        return read

    async def _load_sound_part(
        self, key: SessionKey, *, recent: int | None, after: float | None
    ) -> Session | None:
        """The session without the events that cannot be read."""

        def work(connection: sqlite3.Connection) -> Callable[[], Session | None]:
            reader = StateReader(key, skip_unreadable=True)
            stored = tables.read_sound(connection, reader)
            if stored is None:
                return lambda: None
            shared = run_steps(connection, read_shared(FILE_SQL, reader))
            warn_unreadable(reader.problems)
            return lambda: part(stored.session(*shared), recent=recent, after=after)

        return await self._read(work, whole=False)

    async def append(self, session: Session, *events: Event) -> Session:
        """The session with the events stored: atomically, durably, each id once."""
        self._require_outside()
        key, opened = key_of(session), self._ensure_open()
        leases, known = opened.leases, self._cache.get(key)
        growth: Growth | None = None
        if known is not None and follows(session, known.events):
            growth = grow(session, events)
            if not growth.added:
                return session

        def work(connection: sqlite3.Connection) -> _Appended:
            # the careful way, where the rows made in advance did not fit: read again, then add
            opened.whole.require(connection)
            stored = self.newest(connection, key)
            if not follows(session, stored.events):
                # the same append twice is one: its first answer may have been lost
                if not has_all(stored.events, events):
                    raise conflict(session, stored.events)
                shared = run_steps(connection, read_shared(FILE_SQL, StateReader(key)))
                return lambda: stored.session(*shared)
            grown = growth if growth is not None else grow(session, events)
            rows, size = tables.new_rows(stored, grown)
            after = stored.after(grown, size)
            if not tables.add_rows(connection, rows):
                raise conflict(session, stored.events)
            run_steps(connection, share(FILE_SQL, key, grown.app, grown.user))
            if leases.holds(key):
                leases.stop(run_steps(connection, list_requests(FILE_SQL)))
            return lambda: self._keep(after) and grown.session

        # nothing to make rows from before the writer has its turn
        if known is None or growth is None:
            return await self._await_work(opened.writer.run(work))
        grown = growth
        rows, size = tables.new_rows(known, grown)

        def finish() -> Session:
            self._cache.put(known.after(grown, size))
            return grown.session

        def write_shared(connection: sqlite3.Connection) -> None:
            run_steps(connection, share(FILE_SQL, key, grown.app, grown.user))

        shares = write_shared if grown.app or grown.user else None
        addition = Addition(work, rows, finish, shares)
        opened.writer.gather(addition)
        try:
            # it waits in the writer's line with those of other sessions: one commit for all
            after = await addition.result()
        except (sqlite3.Error, UnicodeDecodeError) as error:
            raise explain_sqlite(error, self._path, timeout=self._timeout) from None
        self._chapters.look_at(known, self._cache, len(grown.added))
        return after

    async def events(
        self, key: SessionKey, *, after: int = 0, limit: int | None = None
    ) -> list[Event] | None:
        """The events after the first `after`, with their sequence numbers."""
        require_key(key)
        require_place(after, limit)

        return await self._read(_steps(read_events, key, after, limit))

    async def lengths(self, keys: Sequence[SessionKey]) -> dict[SessionKey, int]:
        """How many events the sessions have."""
        for key in keys:
            require_key(key)
        return await self._read(_steps(count_events, keys), whole=False)

    async def sessions(self, app_name: str, user_id: str | None = None) -> list[SessionInfo]:
        """The sessions of an app, or of one user of it, the latest first."""
        return await self._read(_steps(list_sessions, app_name, user_id), whole=False)

    async def waiting(self, app_name: str, user_id: str | None = None) -> list[SessionKey]:
        """The sessions of an app, or of one user of it, in which calls may wait."""
        return await self._read(_steps(list_waiting, app_name, user_id), whole=False)

    async def apps(self) -> list[str]:
        """The names of the apps that have sessions, sorted."""
        return await self._read(_steps(list_apps), whole=False)

    async def delete(self, key: SessionKey) -> None:
        """Forget a session; what its events wrote to `app:` and `user:` stays."""
        require_key(key)

        def work(connection: sqlite3.Connection) -> Callable[[], None]:
            run_steps(connection, delete_session(FILE_SQL, key))
            return lambda: self._cache.drop(key)

        await self._write(work)

    async def archive(
        self, key: SessionKey, *, keep_recent: int = 1_000, before: float | None = None
    ) -> int:
        """Pack the older events of a session; nobody who reads it notices. Gives how many.

        The newest `keep_recent` stay as they are, and so does what is not older than the time
        `before`. Each chapter is one transaction: whatever ends this ends it between two.
        """
        require_key(key)
        return await self._chapters.archive(key, self._cache, keep_recent, before)

    async def _run_steps(self, begin: Callable[[], Steps[T]]) -> T:
        return await self._write(_job(lambda connection: run_steps(connection, begin())))

    async def erase_user(self, app_name: str, user_id: str) -> int:
        """Delete a user's sessions, state and queued turns; gives how many sessions there were."""
        require_key(SessionKey(app_name, user_id, "s"))

        def work(connection: sqlite3.Connection) -> Callable[[], int]:
            count = run_steps(connection, erase_user(FILE_SQL, app_name, user_id))

            def forget_user() -> int:
                self._cache.drop_user(app_name, user_id)
                return count

            return forget_user

        return await self._write(work)

    async def erase_turns(self, app_name: str, user_id: str, session_id: str | None = None) -> None:
        """Delete the turns of a user, or of a session, from the queue: no worker takes another."""
        require_key(SessionKey(app_name, user_id, "s" if session_id is None else session_id))
        await self._write(_steps(erase_turns, app_name, user_id, session_id))

    async def apps_of_turns(self, user_id: str) -> list[str]:
        """The apps for which a user has turns in the queue, sorted."""
        return await self._read(_steps(list_turn_apps, user_id))

    async def tally(self, names: Sequence[str], count: Count, *, beside: str = "") -> None:
        """Change what processes count together under these names, while no other does."""
        await self._write(_job(lambda on: tables.tally(on, names, count, beside, time.time())))

    async def compact(self) -> None:
        """Write the file anew, so that nothing deleted can be read from the disk.

        It takes as long as reading and writing all of it, and others wait meanwhile.
        """
        self._require_outside()
        opened = self._ensure_open()

        def rewrite() -> None:
            # partial events that nobody took yet may quote what was deleted
            forget_letters(self._path)
            with opened.leases.alone():
                connection = open_file(self._path, timeout=self._timeout, alone=nullcontext())
                try:
                    rewrite_file(connection, self._path)
                finally:
                    connection.close()

        await self._await_work(asyncio.to_thread(rewrite))

    async def lease(self, key: SessionKey, *, busy: Busy, interrupt: Callable[[], None]) -> Lease:
        """The right to run the session, across the processes that use the file."""
        require_key(key)
        opened = self._ensure_open()
        lease = await opened.leases.line.acquire(key, busy=busy, interrupt=interrupt)
        try:
            # the first try needs no thread and no waiting
            if not opened.leases.take(lease):
                await self._outwait(opened, lease, busy)
        except BaseException:
            await lease.release()
            raise
        lease.settle()
        # while a lease is held, this thread looks whether another process wants it
        opened.reader.wake()
        return lease

    async def _outwait(self, opened: _Open, lease: LocalLease, busy: Busy) -> None:
        """Wait until another process gives the session back."""
        key = lease.key

        async def take() -> bool:
            return opened.leases.take(lease)

        async def ask() -> None:
            await asyncio.sleep(FIRST_PAUSE)  # who has just taken the lock is about to say its turn
            await self._write(_steps(put_request, key, opened.leases.turn(key)))

        await outwait(
            key,
            busy,
            take=take,
            wanted=lambda: lease.asked,
            ask=ask,
            withdraw=lambda: self._write(_steps(delete_request, key)),
        )

    async def holder(self, key: SessionKey) -> Holder | None:
        """Who has the session now; of another process only that there is one."""
        require_key(key)
        leases = self._ensure_open().leases
        if leases.holds(key):
            return leases.line.holder(key)
        return Holder("another process") if leases.is_taken(key) else None

    async def changed(self, keys: Sequence[SessionKey], *, seconds: float) -> None:
        """Wait: a file tells nobody that it grew."""
        await asyncio.sleep(seconds)

    @asynccontextmanager
    async def transaction(self, session: Session) -> AsyncGenerator[Transaction, None]:
        """A transaction of the file, which no other writer can enter before it ends.

        `connection` is the sqlite3 connection. The store commits; the connection refuses to.
        """
        self._require_outside()
        hold = Hold()
        self._ensure_open().writer.submit(hold)
        connection = await self._await_work(hold.begin())
        transaction = _SqliteTransaction(connection, session, self)
        try:
            with inside(self):
                yield transaction
        except BaseException:
            # the writer's thread waits for this: without it nobody could write any more
            await self._await_work(hold.rollback())
            raise
        await self._await_work(hold.commit())
        if transaction.stored is not None:
            self._keep(transaction.stored)

    async def close(self) -> None:
        """Close the file; the next use opens it again."""
        self._require_outside()
        await self._chapters.close()
        with self._lock:
            opened, self._open = self._open, None
            self._cache = SessionCache()
        if opened is not None and opened.process == os.getpid():
            opened.glances.close()
            # the writer hands its last commits to the flusher, which therefore ends after it
            await opened.reader.close()
            await opened.writer.close()
            await opened.flusher.close()
            self._has_failed |= opened.flusher.failure is not None
            leave(opened.leases)
        await self.relay.close()

    def _ensure_open(self) -> _Open:
        process, opened = os.getpid(), self._open
        if opened is not None and opened.process == process:
            return opened
        with self._lock:
            opened = self._open
            if opened is None or opened.process != process:  # a forked child opens its own
                leases = join(self._path)

                def connect() -> sqlite3.Connection:
                    return open_file(self._path, timeout=self._timeout, alone=leases.alone())

                def stop_asked(connection: sqlite3.Connection) -> None:
                    leases.stop(run_steps(connection, list_requests(FILE_SQL)))

                def connect_writer() -> sqlite3.Connection:
                    connection = open_file(
                        self._path,
                        timeout=self._timeout,
                        alone=leases.alone(),
                        factory=WriterConnection,
                    )
                    if self._has_failed:
                        # what a failed flush left, before anything is built on it
                        rewrite_log(connection, self._path)
                        self._has_failed = False
                    # the flusher does it, once for many commits
                    leave_flushing(connection)
                    cast("WriterConnection", connection).guard()
                    return connection

                flusher = Flusher(self._path)
                whole = WholeFile(self._path)
                watch = FileWatch(leases.any_held, stop_asked)
                opened = self._open = _Open(
                    process,
                    leases,
                    whole,
                    ConnectionThread(
                        f"weft writes {self._path}",
                        connect_writer,
                        FileWriter(flusher, watch),
                    ),
                    ConnectionThread(f"weft reads {self._path}", connect, read, watch=watch),
                    flusher,
                    Glances(self._path, whole),
                )
                self._cache = SessionCache(in_use=leases.holds)
            return opened

    async def _read(self, work: Work[T], *, whole: bool = True) -> T:
        """The result of the work; of a damaged file it may lack something, unless `whole`."""
        opened = self._ensure_open()
        look = opened.whole.require if whole else opened.whole.warn

        def check_first(connection: sqlite3.Connection) -> Callable[[], T]:
            look(connection)
            return work(connection)

        return await self._await_work(opened.reader.run(check_first))

    async def _write(self, work: Work[T]) -> T:
        self._require_outside()
        opened = self._ensure_open()

        def check_first(connection: sqlite3.Connection) -> Callable[[], T]:
            opened.whole.require(connection)
            return work(connection)

        return await self._await_work(opened.writer.run(check_first))

    async def _await_work(self, work: Awaitable[T]) -> T:
        with self.explaining():
            return await work

    @contextmanager
    def explaining(self) -> Generator[None, None, None]:
        """Turn errors of SQLite into ours."""
        try:
            yield
        except (sqlite3.Error, UnicodeDecodeError) as error:
            raise explain_sqlite(error, self._path, timeout=self._timeout) from None

    def newest_stored(self, key: SessionKey) -> StoredSession | None:
        """The session as this process knows it; whoever adds to it finds out if it is another."""
        return self._cache.get(key)

    def newest(self, connection: sqlite3.Connection, key: SessionKey) -> StoredSession:
        """The session as a connection sees it."""
        stored = tables.read_newest(connection, key, self._cache, self._path)
        if stored is None:
            raise unknown_session(key)
        return stored

    def _require_outside(self) -> None:
        require_outside(self, where=str(self._path))

    def _keep(self, stored: StoredSession) -> StoredSession:
        self._cache.put(stored)
        return stored


class _SqliteTransaction:
    """A transaction of the file, and the session as it is inside."""

    def __init__(
        self, connection: sqlite3.Connection, session: Session, store: SqliteStore
    ) -> None:
        self.stored: StoredSession | None = None
        self._connection = connection
        self._session = session
        self._store = store

    @property
    def connection(self) -> sqlite3.Connection:
        """The connection that writes, inside the transaction."""
        return self._connection

    async def append(self, *events: Event) -> Session:
        """Add the events; they are stored when the transaction ends without an error."""
        # Nothing of this reaches the disk before the transaction ends, so no thread is needed.
        with self._store.explaining():
            self.stored, self._session = self._append_rows(events)
        return self._session

    def _append_rows(self, events: Sequence[Event]) -> tuple[StoredSession, Session]:
        connection, key = self._connection, key_of(self._session)
        stored = self.stored or self._store.newest_stored(key)
        if stored is None or not follows(self._session, stored.events):
            stored = self._store.newest(connection, key)
        if not follows(self._session, stored.events):
            raise conflict(self._session, stored.events)
        growth = grow(self._session, events)
        # an append that does not fit must not undo what the tool wrote before it
        connection.execute("SAVEPOINT append")
        try:
            rows, size = tables.new_rows(stored, growth)
            if not tables.add_rows(connection, rows):
                raise conflict(self._session, self._store.newest(connection, key).events)
            run_steps(connection, share(FILE_SQL, key, growth.app, growth.user))
        except Exception:
            if connection.in_transaction:
                connection.execute("ROLLBACK TO append")
            raise
        return stored.after(growth, size), growth.session


def _steps(
    begin: Callable[Concatenate[StoreStatements, Arguments], Steps[T]],
    *args: Arguments.args,
    **options: Arguments.kwargs,
) -> Work[T]:
    """The work that runs steps from their beginning, however often it is tried."""
    return _job(lambda connection: run_steps(connection, begin(FILE_SQL, *args, **options)))


def _job(function: Callable[[sqlite3.Connection], T]) -> Work[T]:
    """The work that calls a function with the connection, and gives what it gives."""

    def work(connection: sqlite3.Connection) -> Callable[[], T]:
        result = function(connection)
        return lambda: result

    return work
