"""Sessions in one SQLite file: durable, shared by the processes of one machine, nothing to set up.

One thread writes and one reads, so the event loop never waits for the disk. `append` returns
when the event is on the disk.
"""

import logging
import os
import sqlite3
import time
from collections.abc import AsyncGenerator, Awaitable, Callable, Iterable, Mapping, Sequence
from contextlib import AbstractContextManager, asynccontextmanager
from pathlib import Path
from threading import Lock
from typing import NamedTuple, TypeVar, cast

from weft.errors import StoreError, UsageError
from weft.session import Busy, Event, Lease, Session, SessionInfo, SessionKey, Transaction
from weft.session.memory import (
    Growth,
    Kept,
    conflict,
    exists_already,
    follows,
    grow,
    has_all,
    key_of,
    part,
    require_key,
    scoped,
    unknown,
)
from weft.stores.cache import (
    Cache,
    Row,
    StateReader,
    caught_up,
    event_row,
    inside,
    outwait,
    readable,
    require_outside,
    row_checksum,
    value_text,
    warn_unreadable,
)
from weft.stores.commit import Hold, Watch, Work, Worker, read, write
from weft.stores.sqlite_lease import FileLeases, join, leave
from weft.values import Json, JsonObject, Strand, require_object


def newest(connection: sqlite3.Connection, key: SessionKey, cache: Cache) -> Kept | None:
    """The session as the file has it; of one that is at hand, only the rest is read."""
    held = cache.get(key)
    row = cast(
        "tuple[int, float, bytes, int | None, int | None] | None",
        connection.execute(
            """SELECT number, created,
            CASE WHEN number = ? THEN '' ELSE CAST(state AS BLOB) END, checksum, (
                SELECT place FROM events
                WHERE place >= number * 4294967296 AND place < (number + 1) * 4294967296
                ORDER BY place DESC LIMIT 1
            ) FROM sessions WHERE app_name = ? AND user_id = ? AND id = ?""",
            (held.number if held is not None else 0, *key),
        ).fetchone(),
    )
    if row is None:
        return None
    number, created, state, checksum, last = row
    length = 0 if last is None else last - number * ROOM + 1
    if held is None or held.number != number:
        initial = StateReader(key).initial(created, state, checksum)
        held = Kept(key, number, created, initial, initial, Strand())
    elif length < len(held.events):  # the file was replaced by an older one
        cache.drop(key)
        return newest(connection, key, cache)
    if length == len(held.events):
        return held
    return caught_up(held, _rows(connection, number, len(held.events)), length)


def sound(connection: sqlite3.Connection, reader: StateReader) -> Kept | None:
    """The session as far as it can be read; the reader notes what is wrong with the rest."""
    key = reader.key
    row = cast(
        "tuple[int, float, bytes, int | None] | None",
        connection.execute(
            "SELECT number, created, CAST(state AS BLOB), checksum FROM sessions"
            " WHERE app_name = ? AND user_id = ? AND id = ?",
            key,
        ).fetchone(),
    )
    if row is None:
        return None
    number, created, state, checksum = row
    initial = reader.initial(created, state, checksum)
    held = Kept(key, number, created, initial, initial, Strand())
    kept, problems = readable(held, _rows(connection, number, 0))
    reader.problems.extend(problems)
    return kept


def insert_session(
    connection: sqlite3.Connection, key: SessionKey, created: float, initial: JsonObject
) -> Kept:
    """A new session."""
    state = value_text(initial)
    try:
        number = connection.execute(
            "INSERT INTO sessions (app_name, user_id, id, created, state, checksum)"
            " VALUES (?, ?, ?, ?, ?, ?)",
            (*key, created, state, row_checksum(*key, created, state)),
        ).lastrowid
    except sqlite3.IntegrityError:
        raise exists_already(key) from None
    assert number is not None
    return Kept(key, number, created, initial, initial, Strand())


def insert_events(connection: sqlite3.Connection, kept: Kept, growth: Growth) -> Kept:
    """The events behind those that are kept, and what they write to the shared scopes."""
    place = kept.number * ROOM + len(kept.events)
    for event in growth.added:
        data, checksum = event_row(event)
        connection.execute(
            "INSERT INTO events (place, timestamp, event, checksum) VALUES (?, ?, ?, ?)",
            (place, event.timestamp, data.decode(), checksum),
        )
        place += 1
    share(connection, kept.key, growth.app, growth.user)
    return kept.after(growth)


def share(
    connection: sqlite3.Connection, key: SessionKey, app: JsonObject, user: JsonObject
) -> None:
    """Write the deltas of the scopes that sessions share."""
    app_name, user_id, _ = key
    for name, value in app.items():
        if value is None:
            connection.execute(
                "DELETE FROM app_state WHERE app_name = ? AND key = ?", (app_name, name)
            )
        else:
            row = (app_name, name, value_text(value))
            connection.execute(
                "INSERT OR REPLACE INTO app_state (app_name, key, value, checksum)"
                " VALUES (?, ?, ?, ?)",
                (*row, row_checksum(*row)),
            )
    for name, value in user.items():
        if value is None:
            connection.execute(
                "DELETE FROM user_state WHERE app_name = ? AND user_id = ? AND key = ?",
                (app_name, user_id, name),
            )
        else:
            owned = (app_name, user_id, name, value_text(value))
            connection.execute(
                "INSERT OR REPLACE INTO user_state (app_name, user_id, key, value, checksum)"
                " VALUES (?, ?, ?, ?, ?)",
                (*owned, row_checksum(*owned)),
            )


def shared_state(
    connection: sqlite3.Connection, reader: StateReader
) -> tuple[JsonObject, JsonObject]:
    """The `app:` and `user:` state as it is now."""
    key = reader.key
    app = connection.execute(
        "SELECT CAST(key AS BLOB), CAST(value AS BLOB), checksum FROM app_state WHERE app_name = ?",
        key[:1],
    )
    user = connection.execute(
        "SELECT CAST(key AS BLOB), CAST(value AS BLOB), checksum FROM user_state"
        " WHERE app_name = ? AND user_id = ?",
        key[:2],
    )
    return reader.shared(key[:1], _state(app)), reader.shared(key[:2], _state(user))


def damage(connection: sqlite3.Connection) -> str:
    """What is wrong with the file as a whole, or nothing: what no session's own rows can tell.

    A row whose name is damaged is missing elsewhere, and so is one that its index lost.
    """
    try:
        (verdict,) = cast("tuple[str]", connection.execute("PRAGMA integrity_check(1)").fetchone())
        if verdict != "ok":
            return " ".join(verdict.split())
        for table, query in _NAMED_ROWS:
            rows = cast(
                "Iterable[tuple[int, bytes, *tuple[float | bytes, ...]]]", connection.execute(query)
            )
            for checksum, *cells in rows:
                if row_checksum(*cells) != checksum:
                    return f"a row of {table} is not what was stored"
        orphan = connection.execute(_ORPHAN).fetchone()
    except sqlite3.OperationalError:  # locked, for instance: that says nothing about the file
        raise
    except sqlite3.DatabaseError as error:
        return str(error)
    return "it has events of no session" if orphan else ""


def listed(connection: sqlite3.Connection, app_name: str, user_id: str | None) -> list[SessionInfo]:
    """The sessions of an app, or of one user of it, the latest first."""
    found = cast(
        "list[tuple[str, str, int, int | None, float]]",
        connection.execute(
            """SELECT user_id, id, number, place, coalesce(timestamp, created) AS updated
            FROM sessions LEFT JOIN events ON place = (
                SELECT place FROM events
                WHERE place >= number * 4294967296 AND place < (number + 1) * 4294967296
                ORDER BY place DESC LIMIT 1
            )
            WHERE app_name = ? AND (? IS NULL OR user_id = ?)
            ORDER BY updated DESC, number DESC""",
            (app_name, user_id, user_id),
        ).fetchall(),
    )
    return [
        SessionInfo(
            SessionKey(app_name, user, id),
            0 if place is None else place - number * ROOM + 1,
            updated,
        )
        for user, id, number, place, updated in found
    ]


def apps(connection: sqlite3.Connection) -> list[str]:
    """The names of the apps that have sessions, sorted."""
    found = connection.execute("SELECT DISTINCT app_name FROM sessions ORDER BY app_name")
    return [name for (name,) in cast("list[tuple[str]]", found.fetchall())]


def remove(connection: sqlite3.Connection, key: SessionKey) -> None:
    """Delete a session with its events; what they wrote to shared scopes stays."""
    row = cast(
        "tuple[int] | None",
        connection.execute(
            "SELECT number FROM sessions WHERE app_name = ? AND user_id = ? AND id = ?", key
        ).fetchone(),
    )
    if row is None:
        return
    start = row[0] * ROOM
    connection.execute("DELETE FROM events WHERE place >= ? AND place < ?", (start, start + ROOM))
    connection.execute("DELETE FROM sessions WHERE number = ?", row)


def insert_request(connection: sqlite3.Connection, key: SessionKey, asked: float) -> None:
    """Ask the holder of the session, in another process, to stop."""
    connection.execute("INSERT OR REPLACE INTO interrupts VALUES (?, ?, ?, ?)", (*key, asked))


def delete_request(connection: sqlite3.Connection, key: SessionKey) -> None:
    """Ask no longer."""
    connection.execute("DELETE FROM interrupts WHERE app_name = ? AND user_id = ? AND id = ?", key)


def asked(connection: sqlite3.Connection) -> list[tuple[SessionKey, float]]:
    """The sessions that somebody wants stopped, and since when."""
    found = cast(
        "list[tuple[str, str, str, float]]",
        connection.execute("SELECT app_name, user_id, id, asked FROM interrupts").fetchall(),
    )
    return [(SessionKey(*key), when) for *key, when in found]


T = TypeVar("T")

CHECKED_BYTES = 16_000_000
"""Files up to this size are looked through once when they are opened: some 30 ms."""

_log = logging.getLogger("weft")


class _Open(NamedTuple):
    """What an open store has in this process."""

    process: int
    leases: FileLeases
    whole: "_Whole"
    writer: Worker
    reader: Worker


class _Whole:
    """Whether the file is whole, which is found out once, with its first use.

    Of a file that is larger than `CHECKED_BYTES` the rows that are read are verified, and no
    others: looking through all of it would take too long.
    """

    def __init__(self, path: Path) -> None:
        self._path = path
        self._lock = Lock()
        self._damage: str | None = None

    def damage(self, connection: sqlite3.Connection) -> str:
        """What is wrong with the file, or nothing."""
        with self._lock:
            if self._damage is None:
                small = self._path.stat().st_size <= CHECKED_BYTES
                self._damage = damage(connection) if small else ""
            return self._damage

    def require(self, connection: sqlite3.Connection) -> None:
        """Refuse a damaged file: what it lacks, nobody could tell."""
        if damage := self.damage(connection):
            raise StoreError(
                f"the file is damaged: {damage}",
                where=str(self._path),
                hint="restore it from a backup, or read what is left of a session: "
                "store.get(key, skip_unreadable=True)",
            )

    def warn(self, connection: sqlite3.Connection) -> None:
        """Log that something may be missing."""
        if damage := self.damage(connection):
            _log.warning("%s: the file is damaged: %s; some may be missing", self._path, damage)


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
        self._cache = Cache()
        self._lock = Lock()
        self._open: _Open | None = None

    @property
    def path(self) -> Path:
        """The file."""
        return self._path

    async def create(self, key: SessionKey, *, state: Mapping[str, Json] | None = None) -> Session:
        """A new session; one that exists is refused with a Conflict."""
        require_key(key)
        own, app, user = scoped([require_object(state or {}, where="session.state")])

        def work(connection: sqlite3.Connection) -> Callable[[], Session]:
            kept = insert_session(connection, key, time.time(), own)
            share(connection, key, app, user)
            shared = shared_state(connection, StateReader(key))
            return lambda: self._keep(kept).session(*shared)

        return await self._write(work)

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
        if skip_unreadable:
            return await self._sound(key, recent=recent, after=after)

        def work(connection: sqlite3.Connection) -> Callable[[], Session | None]:
            kept = newest(connection, key, self._cache)
            if kept is None:
                return lambda: None
            shared = shared_state(connection, StateReader(key))
            return lambda: self._keep(kept).session(*shared)

        session = await self._read(work)
        if session is None or (recent is None and after is None):
            return session
        return part(session, recent=recent, after=after)

    async def _sound(
        self, key: SessionKey, *, recent: int | None, after: float | None
    ) -> Session | None:
        """The session without the events that cannot be read."""

        def work(connection: sqlite3.Connection) -> Callable[[], Session | None]:
            reader = StateReader(key, skip_unreadable=True)
            kept = sound(connection, reader)
            if kept is None:
                return lambda: None
            shared = shared_state(connection, reader)
            warn_unreadable(reader.problems)
            return lambda: kept.session(*shared)

        session = await self._read(work, whole=False)
        if session is None or (recent is None and after is None):
            return session
        return part(session, recent=recent, after=after)

    async def append(self, session: Session, *events: Event) -> Session:
        """The session with the events stored: atomically, durably, each id once."""
        key, leases = key_of(session), self._opened().leases

        def work(connection: sqlite3.Connection) -> Callable[[], Session]:
            kept = newest(connection, key, self._cache)
            if kept is None:
                raise unknown(key)
            if not follows(session, kept.events) and has_all(kept.events, events):
                shared = shared_state(connection, StateReader(key))
                return lambda: kept.session(*shared)
            after, grown = _store(connection, kept, session, events)
            if leases.holds(key):
                leases.stop(asked(connection))
            return lambda: self._keep(after) and grown

        return await self._write(work)

    async def sessions(self, app_name: str, user_id: str | None = None) -> list[SessionInfo]:
        """The sessions of an app, or of one user of it, the latest first."""

        def work(connection: sqlite3.Connection) -> Callable[[], list[SessionInfo]]:
            found = listed(connection, app_name, user_id)
            return lambda: found

        return await self._read(work, whole=False)

    async def apps(self) -> list[str]:
        """The names of the apps that have sessions, sorted."""

        def work(connection: sqlite3.Connection) -> Callable[[], list[str]]:
            found = apps(connection)
            return lambda: found

        return await self._read(work, whole=False)

    async def delete(self, key: SessionKey) -> None:
        """Forget a session; what its events wrote to `app:` and `user:` stays."""
        require_key(key)

        def work(connection: sqlite3.Connection) -> Callable[[], None]:
            remove(connection, key)
            return lambda: self._cache.drop(key)

        await self._write(work)

    async def lease(self, key: SessionKey, *, busy: Busy, interrupt: Callable[[], None]) -> Lease:
        """The right to run the session, across the processes that use the file."""
        require_key(key)
        opened = self._opened()
        lease = await opened.leases.line.acquire(key, busy=busy, interrupt=interrupt)

        async def take() -> bool:
            return opened.leases.take(lease)

        def ask(connection: sqlite3.Connection) -> Callable[[], None]:
            insert_request(connection, key, time.time())
            return _nothing

        def withdraw(connection: sqlite3.Connection) -> Callable[[], None]:
            delete_request(connection, key)
            return _nothing

        try:
            await outwait(
                key,
                busy,
                take=take,
                wanted=lambda: lease.asked,
                ask=lambda: self._write(ask),
                withdraw=lambda: self._write(withdraw),
            )
        except BaseException:
            await lease.release()
            raise
        lease.settle()
        opened.reader.wake()
        return lease

    @asynccontextmanager
    async def transaction(self, session: Session) -> AsyncGenerator[Transaction, None]:
        """A transaction of the file, which no other writer can enter before it ends.

        `connection` is the sqlite3 connection. The store commits; the connection refuses to.
        """
        self._require_outside()
        hold = Hold()
        self._opened().writer.submit(hold)
        connection = await self._explained(hold.begin())
        transaction = _SqliteTransaction(
            connection, session, self._cache, lambda work: self._explained(hold.run(work))
        )
        try:
            with inside(self):
                yield transaction
        except BaseException:
            await self._explained(hold.rollback())
            raise
        await self._explained(hold.commit())
        if transaction.kept is not None:
            self._keep(transaction.kept)

    async def close(self) -> None:
        """Close the file; the next use opens it again."""
        self._require_outside()
        with self._lock:
            opened, self._open = self._open, None
            self._cache = Cache()
        if opened is not None and opened.process == os.getpid():
            await opened.reader.close()
            await opened.writer.close()
            leave(opened.leases)

    def _opened(self) -> _Open:
        process = os.getpid()
        with self._lock:
            opened = self._open
            if opened is None or opened.process != process:  # a forked child opens its own
                leases = join(self._path)

                def connect() -> sqlite3.Connection:
                    return open_file(self._path, timeout=self._timeout, alone=leases.alone())

                def stop_asked(connection: sqlite3.Connection) -> None:
                    leases.stop(asked(connection))

                opened = self._open = _Open(
                    process,
                    leases,
                    _Whole(self._path),
                    Worker(f"weft writes {self._path}", connect, write),
                    Worker(
                        f"weft reads {self._path}",
                        connect,
                        read,
                        watch=Watch(leases.any_held, stop_asked),
                    ),
                )
                self._cache = Cache()
            return opened

    async def _read(self, work: Work[T], *, whole: bool = True) -> T:
        """The result of the work; of a damaged file it may lack something, unless `whole`."""
        opened = self._opened()
        look = opened.whole.require if whole else opened.whole.warn

        def checked(connection: sqlite3.Connection) -> Callable[[], T]:
            look(connection)
            return work(connection)

        return await self._explained(opened.reader.run(checked))

    async def _write(self, work: Work[T]) -> T:
        self._require_outside()
        opened = self._opened()

        def checked(connection: sqlite3.Connection) -> Callable[[], T]:
            opened.whole.require(connection)
            return work(connection)

        return await self._explained(opened.writer.run(checked))

    async def _explained(self, work: Awaitable[T]) -> T:
        try:
            return await work
        except (sqlite3.Error, UnicodeDecodeError) as error:
            raise explained(error, self._path, timeout=self._timeout) from None

    def _require_outside(self) -> None:
        require_outside(self, where=str(self._path))

    def _keep(self, kept: Kept) -> Kept:
        self._cache.put(kept)
        return kept


_Stored = tuple[Kept, Session]


class _SqliteTransaction:
    """A transaction of the file, and the session as it is inside."""

    def __init__(
        self,
        connection: sqlite3.Connection,
        session: Session,
        cache: Cache,
        run: Callable[[Work[_Stored]], Awaitable[_Stored]],
    ) -> None:
        self.kept: Kept | None = None
        self._connection = connection
        self._session = session
        self._cache = cache
        self._run = run

    @property
    def connection(self) -> sqlite3.Connection:
        """The connection that writes, inside the transaction."""
        return self._connection

    async def append(self, *events: Event) -> Session:
        """Add the events; they are stored when the transaction ends without an error."""
        key = key_of(self._session)

        def work(connection: sqlite3.Connection) -> Callable[[], _Stored]:
            kept = self.kept or newest(connection, key, self._cache)
            if kept is None:
                raise unknown(key)
            connection.execute("SAVEPOINT append")
            try:
                stored = _store(connection, kept, self._session, events)
            except Exception:
                if connection.in_transaction:
                    connection.execute("ROLLBACK TO append")
                raise
            return lambda: stored

        self.kept, self._session = await self._run(work)
        return self._session


def _store(
    connection: sqlite3.Connection, kept: Kept, session: Session, events: Sequence[Event]
) -> _Stored:
    """Insert the events behind those that are kept."""
    if not follows(session, kept.events):
        raise conflict(session, kept.events)
    growth = grow(session, events)
    return insert_events(connection, kept, growth), growth.session


def _nothing() -> None:
    pass


ROOM = 2**32
"""How many places a session has in the table of events."""


def _rows(connection: sqlite3.Connection, number: int, first: int) -> list[Row]:
    """The events of a session from `first` on, as bytes: damaged ones may be no text."""
    found = cast(
        "list[tuple[bytes, int | None]]",
        connection.execute(
            "SELECT CAST(event AS BLOB), checksum FROM events"
            " WHERE place >= ? AND place < ? ORDER BY place",
            (number * ROOM + first, (number + 1) * ROOM),
        ).fetchall(),
    )
    return [Row(*one) for one in found]


def _state(rows: sqlite3.Cursor) -> list[tuple[str, bytes, int | None]]:
    found = cast("list[tuple[bytes, bytes, int | None]]", rows.fetchall())
    return [(name.decode(errors="replace"), text, checksum) for name, text, checksum in found]


_NAMED_ROWS = (
    (
        "sessions",
        "SELECT checksum, CAST(app_name AS BLOB), CAST(user_id AS BLOB), CAST(id AS BLOB),"
        " created, CAST(state AS BLOB) FROM sessions WHERE checksum IS NOT NULL",
    ),
    (
        "app_state",
        "SELECT checksum, CAST(app_name AS BLOB), CAST(key AS BLOB), CAST(value AS BLOB)"
        " FROM app_state WHERE checksum IS NOT NULL",
    ),
    (
        "user_state",
        "SELECT checksum, CAST(app_name AS BLOB), CAST(user_id AS BLOB), CAST(key AS BLOB),"
        " CAST(value AS BLOB) FROM user_state WHERE checksum IS NOT NULL",
    ),
)

_ORPHAN = """SELECT 1 FROM (SELECT DISTINCT place / 4294967296 AS session FROM events)
WHERE session NOT IN (SELECT number FROM sessions) LIMIT 1"""

APPLICATION_ID = 0x57454654
"""What marks a SQLite file as ours: the letters WEFT."""

PAGE_SIZE = 2048

CHECKPOINT_BYTES = 4_000_000

Migration = Sequence[str]
"""The statements that lead from one version of the tables to the next."""

MIGRATIONS: tuple[Migration, ...] = (
    (
        # AUTOINCREMENT: a number is never used again, not even that of a deleted session.
        """CREATE TABLE sessions (
            number INTEGER PRIMARY KEY AUTOINCREMENT,
            app_name TEXT NOT NULL,
            user_id TEXT NOT NULL,
            id TEXT NOT NULL,
            created REAL NOT NULL,
            state TEXT NOT NULL,
            UNIQUE (app_name, user_id, id)
        )""",
        # place = session number * 2^32 + the event's position in its session, from 0.
        """CREATE TABLE events (
            place INTEGER PRIMARY KEY,
            timestamp REAL NOT NULL,
            event TEXT NOT NULL
        )""",
        """CREATE TABLE app_state (
            app_name TEXT NOT NULL,
            key TEXT NOT NULL,
            value TEXT NOT NULL,
            PRIMARY KEY (app_name, key)
        ) WITHOUT ROWID""",
        """CREATE TABLE user_state (
            app_name TEXT NOT NULL,
            user_id TEXT NOT NULL,
            key TEXT NOT NULL,
            value TEXT NOT NULL,
            PRIMARY KEY (app_name, user_id, key)
        ) WITHOUT ROWID""",
        # A run in another process asks the holder of a session to stop.
        """CREATE TABLE interrupts (
            app_name TEXT NOT NULL,
            user_id TEXT NOT NULL,
            id TEXT NOT NULL,
            asked REAL NOT NULL,
            PRIMARY KEY (app_name, user_id, id)
        ) WITHOUT ROWID""",
    ),
    # What was stored before has none.
    ("ALTER TABLE events ADD COLUMN checksum INTEGER",),
    (
        "ALTER TABLE sessions ADD COLUMN checksum INTEGER",
        "ALTER TABLE app_state ADD COLUMN checksum INTEGER",
        "ALTER TABLE user_state ADD COLUMN checksum INTEGER",
    ),
)


def open_file(
    path: Path,
    *,
    timeout: float,
    alone: AbstractContextManager[object],
    migrations: Sequence[Migration] = MIGRATIONS,
) -> sqlite3.Connection:
    """A connection to the file, whose tables are made or brought up to date first.

    `alone` is entered while that happens: no two processes may do it at once. A file that is
    not ours is left as it is.
    """
    try:
        connection = sqlite3.connect(
            path, timeout=timeout, isolation_level=None, check_same_thread=False
        )
    except (sqlite3.Error, ValueError) as error:
        raise explained(error, path, timeout=timeout) from None
    try:
        if _version(connection, path, migrations) < len(migrations):
            with alone:
                _migrate(connection, path, migrations)
        connection.execute("PRAGMA synchronous=FULL")
        pages = CHECKPOINT_BYTES // _number(connection, "PRAGMA page_size")
        connection.execute(f"PRAGMA wal_autocheckpoint={pages}")
    except (sqlite3.Error, UnicodeDecodeError) as error:  # damage in the schema is in no words
        connection.close()
        raise explained(error, path, timeout=timeout) from None
    except BaseException:
        connection.close()
        raise
    return connection


def _version(connection: sqlite3.Connection, path: Path, migrations: Sequence[Migration]) -> int:
    """The version of the tables, 0 for a new file; a file that is not ours is refused."""
    version = _number(connection, "PRAGMA user_version")
    if _number(connection, "PRAGMA application_id") != APPLICATION_ID:
        if version or _number(connection, "SELECT count(*) FROM sqlite_master"):
            raise StoreError(
                "this is a SQLite database of another program",
                where=str(path),
                hint="name a file that does not exist yet, and it will be made",
            )
        return 0
    if version > len(migrations):
        raise StoreError(
            f"the file was written by a newer Weft: its tables are version {version}, "
            f"and this one knows up to {len(migrations)}",
            where=str(path),
            hint="upgrade: pip install --upgrade weft",
        )
    return version


def _migrate(connection: sqlite3.Connection, path: Path, migrations: Sequence[Migration]) -> None:
    if _version(connection, path, migrations) == 0:
        connection.execute(f"PRAGMA page_size={PAGE_SIZE}")
        connection.execute("PRAGMA journal_mode=WAL")
    connection.execute("BEGIN IMMEDIATE")
    try:
        # Asked again: another process may have been here before the lock was ours.
        version = _version(connection, path, migrations)
        for statements in migrations[version:]:
            for statement in statements:
                connection.execute(statement)
        connection.execute(f"PRAGMA application_id={APPLICATION_ID}")
        connection.execute(f"PRAGMA user_version={len(migrations)}")
        connection.execute("COMMIT")
    except BaseException:
        if connection.in_transaction:
            connection.execute("ROLLBACK")
        raise


def _number(connection: sqlite3.Connection, query: str) -> int:
    row = cast("tuple[int]", connection.execute(query).fetchone())
    return row[0]


def explained(error: Exception, path: Path, *, timeout: float) -> StoreError:
    """What SQLite's error means here, and what to do about it."""
    code = (
        error.sqlite_errorcode & 0xFF if isinstance(error, sqlite3.Error) and _coded(error) else 0
    )
    if isinstance(error, UnicodeDecodeError):
        code = sqlite3.SQLITE_CORRUPT
    message, hint = str(error), ""
    match code:
        case sqlite3.SQLITE_NOTADB:
            message = "this is not a SQLite database"
            hint = "name a file that does not exist yet, and it will be made"
        case sqlite3.SQLITE_CANTOPEN:
            message, hint = _unopened(path)
        case sqlite3.SQLITE_READONLY:
            message = "the file or its directory is read-only"
            hint = "make both writable: SQLite keeps two more files beside this one"
        case sqlite3.SQLITE_FULL:
            message = f"there is no room for more: {error}"
            hint = "free some space; what was stored before is safe"
        case sqlite3.SQLITE_BUSY | sqlite3.SQLITE_LOCKED:
            message = f"another process has kept the database locked for {timeout:g} seconds"
            hint = "end its transaction, or wait longer: SqliteStore(path, timeout=...)"
        case sqlite3.SQLITE_CORRUPT:
            message = f"the file is damaged: {error}"
            hint = "restore it from a backup, or save what is left: sqlite3 FILE .recover"
        case sqlite3.SQLITE_IOERR:
            message = f"the disk failed: {error}"
            hint = "check the disk and its mount; what was stored before is safe"
        case _:
            message = f"SQLite refused: {error}"
    return StoreError(message, where=str(path), hint=hint)


def _unopened(path: Path) -> tuple[str, str]:
    if path.is_dir():
        return "this is a directory", "name a file in it"
    if not path.parent.is_dir():
        return "the directory does not exist", f"make it: mkdir -p {path.parent}"
    return "the file cannot be opened or made", "make the file and its directory writable"


def _coded(error: sqlite3.Error) -> bool:
    """Whether SQLite itself raised this, and so gave it a code."""
    return hasattr(error, "sqlite_errorcode")
