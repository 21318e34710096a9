"""What both databases do in the same steps: chapters of long logs, parts of them, shared state.

SQLite answers at once, on the thread of its connection, and PostgreSQL is awaited. So what is done
stands here once: a function yields statements with their values, and gets the rows of each.
Whoever calls runs the steps on a connection, inside a transaction.

Top to bottom: who has chapters written; their steps: written, packed, read, and put back; a part of
a session, and lists; shared state; the statements.
"""

import asyncio
import logging
from collections.abc import Awaitable, Callable, Generator, Mapping, Sequence
from typing import NamedTuple, Protocol, TypeVar, cast

from weft.errors import StoreError
from weft.session import Event, Session, SessionInfo, SessionKey
from weft.session.memory import StoredSession
from weft.session.store import unknown
from weft.session.strand import Strand
from weft.stores.cache import SessionCache, state_after
from weft.stores.chapters import (
    Chapter,
    DeltaRow,
    StoredRow,
    chapter_end,
    is_due,
    next_chapter,
    pack,
    read_chapters,
    read_deltas,
    require_checksum,
    require_keeping,
    require_whole,
    session_checksum,
    state_of,
    unpack,
)
from weft.stores.rows import (
    HAS_DELTA,
    EventRow,
    StateReader,
    checksum_of,
    encode_value,
    read_row,
)
from weft.values import JsonObject

T = TypeVar("T")

Values = Mapping[str, object]

Steps = Generator[tuple[str, Values | Sequence[Values]], object, T]
"""Statements with their values, one after the other, and what comes of them.

Each gets the list of its rows. One with several values is run for each of them, and gets none.
"""

_log = logging.getLogger("weft")


class StepsRunner(Protocol):
    """What runs steps in one transaction. It may have to begin anew, so it begins them itself."""

    def __call__(self, begin: Callable[[], Steps[T]], /) -> Awaitable[T]:
        """What comes of the steps."""
        ...


class ChapterWriter:
    """Has the chapters of long sessions written and packed, beside what a store does."""

    def __init__(self, run: StepsRunner, sql: "StoreStatements") -> None:
        self._run_steps = run
        self._sql = sql
        self._tasks: dict[SessionKey, asyncio.Task[None]] = {}
        self._tried: dict[SessionKey, int] = {}

    def look_at(self, stored: StoredSession, cache: SessionCache, added: int = 0) -> None:
        """Have the chapters of a session written that it lacks, if any."""
        length, key = len(stored.events) + added, stored.key
        # after a try that wrote nothing, the next waits until there is as much again
        if not is_due(length, stored.chaptered) or not is_due(length, self._tried.get(key, 0)):
            return
        if key not in self._tasks:
            self._tried[key] = length
            task = asyncio.get_running_loop().create_task(self._run(key, cache))
            self._tasks[key] = task

    async def archive(
        self, key: SessionKey, cache: SessionCache, keep_recent: int, before: float | None
    ) -> int:
        """Pack the older events of a session; gives how many."""
        require_keeping(keep_recent)
        limit = await self._run_steps(lambda: _limit(self._sql, key, keep_recent, before))
        if limit is None:
            raise unknown(key)
        await self._write(key, cache, limit)
        count = 0
        while packed := await self._run_steps(lambda: _pack_chapter(self._sql, key, limit)):
            count += packed
        return count

    async def close(self) -> None:
        """Stop: what is not written yet will be another time."""
        loop = asyncio.get_running_loop()
        # a task of another event loop cannot be awaited here
        tasks = [task for task in self._tasks.values() if task.get_loop() is loop]
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)

    async def _run(self, key: SessionKey, cache: SessionCache) -> None:
        try:
            await self._write(key, cache)
        except StoreError as error:  # the session can be read without: it only takes longer
            _log.warning("%s: its chapters were not written: %s", key, error)
        finally:
            del self._tasks[key]

    async def _write(self, key: SessionKey, cache: SessionCache, limit: int | None = None) -> None:
        while end := await self._run_steps(lambda: _add_chapter(self._sql, key, limit)):
            cache.note_chapters(key, end)


# --- the steps


class _Covered(NamedTuple):
    """A session that is locked: how far its chapters go, how many are packed, how long it is."""

    number: int
    chaptered: int
    archived: int
    length: int


def _covered(sql: "StoreStatements", key: SessionKey) -> Steps[_Covered | None]:
    """How far the chapters of a session go; nobody else writes chapters before the end."""
    rows = cast("list[tuple[int, int, int, int]]", (yield sql.covered, key._asdict()))
    return _Covered(*rows[0]) if rows else None


def chapters_of(sql: "StoreStatements", number: int, chaptered: int) -> Steps[list[Chapter] | None]:
    """The chapters of a session, without their events; None where they cannot be read."""
    rows = cast("list[tuple[*DeltaRow, bytes, int]]", (yield sql.chapters, {"number": number}))
    return read_chapters(rows, chaptered)


def deltas_of(sql: "StoreStatements", number: int, chaptered: int) -> Steps[list[bytes] | None]:
    """What the chapters of a session write to its state; None where they cannot be read."""
    rows = cast("list[DeltaRow]", (yield sql.deltas, {"number": number}))
    return read_deltas(rows, chaptered)


def _add_chapter(sql: "StoreStatements", key: SessionKey, limit: int | None) -> Steps[int | None]:
    """Write the next chapter of a session, of events before `limit`; where it ends, or None.

    Without a limit it is written only if there is a whole one, and some events behind it.
    """
    known = yield from _covered(sql, key)
    end = chapter_end(known.chaptered, known.length, limit) if known is not None else None
    if known is None or end is None:
        return None
    number, first = known.number, known.chaptered
    # a chapter behind damaged ones would never be used
    earlier = yield from chapters_of(sql, number, first)
    if earlier is None:
        return None
    # one more than the chapter: it shows where the turn ends
    rows = yield from _stored(sql, number, first, end + 1)
    chapter = next_chapter(rows, first, earlier, where=str(key))
    if chapter is None:
        return None
    values = {"number": number, "end": first + chapter.length, **chapter._asdict()}
    yield sql.add, values
    if chapter.talk is not None and (yield sql.has_talk, {}):
        yield sql.add_talk, values
    yield sql.set_chaptered, values
    return first + chapter.length


def _limit(
    sql: "StoreStatements", key: SessionKey, keep_recent: int, before: float | None
) -> Steps[int | None]:
    """How many of the first events may be archived: not the newest, nor any behind a later one."""
    known = yield from _covered(sql, key)
    if known is None:
        return None
    limit = max(known.length - keep_recent, 0)
    if before is None:
        return limit
    values = {"number": known.number, "first": 0, "end": limit, "before": before}
    [(later,)] = cast("list[tuple[int | None]]", (yield sql.first_later, values))
    return limit if later is None else later


def _pack_chapter(sql: "StoreStatements", key: SessionKey, limit: int) -> Steps[int | None]:
    """Pack the first chapter that has its events in the table; how many, or None if none is left.

    In one transaction the events go from the one table to the other: they are always in one.
    """
    known = yield from _covered(sql, key)
    if known is None or known.archived >= known.chaptered:
        return None
    number, first = known.number, known.archived
    values = {"number": number, "first": first}
    [(length, *_)] = cast("list[tuple[int, bytes, int]]", (yield sql.packed, values))
    end = first + length
    if end > limit:
        # a chapter is packed as a whole, or not at all
        return None
    packed, checksum = pack((yield from _stored(sql, number, first, end)))
    yield sql.pack, {**values, "packed": packed, "checksum": checksum}
    yield sql.delete_events, {**values, "end": end}
    yield from _set_archived(sql, number, end)
    return length


def _set_archived(sql: "StoreStatements", number: int, archived: int) -> Steps[None]:
    """Note how many events are packed.

    The checksum of the session says so too: a process of a version that knows no chapters refuses
    the session, instead of taking it for a shorter one.
    """
    [(app, user, id, created, state, checksum, before)] = cast(
        "list[tuple[str, str, str, float, str, int | None, int]]",
        (yield sql.session, {"number": number}),
    )
    cells = app, user, id, created, state
    require_checksum(cells, before, checksum)
    checksum = session_checksum(cells, archived)
    yield sql.set_archived, {"number": number, "archived": archived, "checksum": checksum}


def unpack_all(sql: "StoreStatements") -> Steps[None]:
    """Put the events of all packed chapters back into the table of events."""
    chapters = cast("list[tuple[int, int]]", (yield sql.all_packed, {}))
    for number, first in chapters:
        [(length, packed, checksum)] = cast(
            "list[tuple[int, bytes, int]]", (yield sql.packed, {"number": number, "first": first})
        )
        rows = unpack(packed, checksum, length)
        # better an error than half a session
        require_whole(rows, first, where=f"session number {number}")
        yield (
            sql.insert_event,
            [
                {"number": number, "at": at, **row._asdict(), "data": row.data.decode()}
                for at, row in enumerate(rows, first)
            ],
        )
    for number in {number for number, _ in chapters}:
        yield from _set_archived(sql, number, 0)


def _stored(sql: "StoreStatements", number: int, first: int, end: int) -> Steps[list[StoredRow]]:
    """The rows of the table of events between two positions."""
    values = {"number": number, "first": first, "end": end}
    rows = cast("list[tuple[float, str | bytes, int | None]]", (yield sql.events, values))
    return [StoredRow(time, as_bytes(data), checksum) for time, data, checksum in rows]


def as_bytes(cell: str | bytes) -> bytes:
    """The bytes of a text; SQLite gives them so, because damaged ones may be no text."""
    return cell if isinstance(cell, bytes) else cell.encode()


class SessionRow(NamedTuple):
    """A row of sessions, and how many events there are, and when it changed last."""

    number: int
    created: float
    state: str | bytes
    checksum: int | None
    length: int
    updated: float
    chaptered: int
    archived: int

    def begun(self, reader: StateReader) -> StoredSession:
        """The session before its first event."""
        state = as_bytes(self.state)
        initial = reader.initial(self.created, state, self.checksum, self.archived)
        log: Strand[Event] = Strand()
        return StoredSession(
            reader.key, self.number, self.created, initial, initial, log, 0, self.chaptered
        )


def read_part(
    sql: "StoreStatements", key: SessionKey, *, recent: int | None, after: float | None
) -> Steps[Session | None]:
    """The session with its newest events, or None where these are all that it has."""
    sessions = cast(
        "list[tuple[int, float, str | bytes, int | None, int, float, int, int]]",
        (yield sql.session_row, {**key._asdict(), "known": 0}),
    )
    if not sessions:
        return None
    row = SessionRow(*sessions[0])
    number, length, archived = row.number, row.length, row.archived
    # the whole session is wanted: the caller reads and caches it
    if after is None and recent is not None and recent >= length:
        return None
    limit = length if recent is None else recent
    values = {"number": number, "first": 0, "end": length, "after": after, "limit": limit}
    newest = _positioned((yield sql.recent, values))[::-1]
    # the table of events has fewer than asked for: the others are packed
    if archived and len(newest) != recent:
        first = 0 if after is not None else length - limit
        older = yield from _packed_from(sql, number, first, after)
        newest = [*older[max(len(older) + len(newest) - limit, 0) :], *newest]
    if len(newest) == length:
        return None
    deltas = yield from deltas_of(sql, number, row.chaptered)
    # chapters say what they write to the state, so only events behind them are read
    first = row.chaptered if deltas is not None else 0
    writing = _positioned((yield sql.writing, {**values, "first": first}))
    if first < archived:  # its chapters cannot be read: their events can
        packed = yield from _packed_from(sql, number, first)
        writing = [one for one in packed if b'"stateDelta"' in one[1].data] + writing
    reader = StateReader(key)
    begun = row.begun(reader)
    shared = yield from read_shared(sql, reader)
    events, wrote = (
        [read_row(row, position, where=str(key)) for position, row in rows]
        for rows in (newest, writing)
    )
    own = state_after(state_of(begun.initial, deltas or ()), wrote)
    session = begun._replace(state=own).session(*shared)
    session.events, session.last_update_time = Strand(events), row.updated
    return session


def _positioned(rows: object) -> list[tuple[int, EventRow]]:
    """Events with their positions in the log."""
    return [
        (at, EventRow(as_bytes(data), checksum))
        for at, data, checksum in cast("list[tuple[int, str | bytes, int | None]]", rows)
    ]


def _packed_from(
    sql: "StoreStatements", number: int, first: int, after: float | None = None
) -> Steps[list[tuple[int, EventRow]]]:
    """The packed events from `first` on, or those with a later timestamp, with their positions."""
    chapters = cast(
        "list[tuple[int, int, bytes, int]]",
        (yield sql.packed_from, {"number": number, "first": first, "after": after}),
    )
    return [
        (at, EventRow(row.data, row.checksum))
        for start, length, packed, checksum in chapters
        for at, row in enumerate(unpack(packed, checksum, length), start)
        if at >= first and (after is None or row.timestamp > after)
    ]


def list_sessions(
    sql: "StoreStatements", app_name: str, user_id: str | None
) -> Steps[list[SessionInfo]]:
    """The sessions of an app, or of one user of it, the latest first."""
    values = {"app_name": app_name, "user_id": user_id}
    rows = cast("list[tuple[str, str, int, float]]", (yield sql.list_sessions, values))
    return [
        SessionInfo(SessionKey(app_name, user, id), length, updated)
        for user, id, length, updated in rows
    ]


def read_shared(
    sql: "StoreStatements", reader: StateReader
) -> Steps[tuple[JsonObject, JsonObject]]:
    """The `app:` and `user:` state as it is now."""
    app = yield from _read_scope(sql.app_state, reader, reader.key[:1])
    user = yield from _read_scope(sql.user_state, reader, reader.key[:2])
    return app, user


def _read_scope(
    scope: "StateStatements", reader: StateReader, owner: Sequence[str]
) -> Steps[JsonObject]:
    rows = cast(
        "list[tuple[str | bytes, str | bytes, int | None]]",
        (yield scope.read, reader.key._asdict()),
    )
    cells = [
        (as_bytes(name).decode(errors="replace"), as_bytes(value), checksum)
        for name, value, checksum in rows
    ]
    return reader.shared(owner, cells)


def share(
    sql: "StoreStatements", key: SessionKey, app: JsonObject, user: JsonObject
) -> Steps[None]:
    """Write the deltas of the scopes that sessions share.

    In the order of their names: two writers of the same keys wait for each other in one order.
    """
    for scope, owner, delta in ((sql.app_state, key[:1], app), (sql.user_state, key[:2], user)):
        for name, value in sorted(delta.items()):
            values = {**key._asdict(), "key": name}
            if value is None:
                yield scope.delete, values
            else:
                text = encode_value(value)
                checksum = checksum_of(*owner, name, text)
                yield scope.put, {**values, "value": text, "checksum": checksum}


# --- the statements


class StoreSpelling(NamedTuple):
    """What the two databases write differently."""

    schema: str
    blob: str
    """How a column is read as the bytes that it is: `{}`."""
    position: str
    """Where an event of the session `:number` stands in its log."""
    between: str
    """The condition for its events from `:first` on, up to `:end`."""
    length: str
    """How many events the session `number` has."""
    newest: str
    """Behind the table of sessions: the last event of each, as `last` says where it stands."""
    last: str
    """How many events a session has whose last event is there."""
    by_deltas: str
    """Behind the table of events: look only at those that write state."""
    place: str
    """The columns that say where an event stands, in order."""
    at: str
    """What is written there for the event `:at` of the session `:number`."""
    lock: str
    """Behind the row of a session: nobody else writes its chapters before the end."""
    has_talk: str
    """A row, if chapters have a column for talk: those of earlier tables do not."""


class StoreStatements:
    """The statements, with `:names`, as one database spells them."""

    def __init__(self, spelling: StoreSpelling) -> None:
        sessions, events, chapters = (
            f"{spelling.schema}{table}" for table in ("sessions", "events", "chapters")
        )
        blob, between = spelling.blob.format, spelling.between
        this = "WHERE session = :number AND first = :first"
        named = ", ".join(map(blob, ("app_name", "user_id", "id")))
        self.numbers = f"SELECT number FROM {sessions} ORDER BY number"
        self.whole_session = f"""
            SELECT {named}, created, {blob("state")}, checksum, chaptered, archived,
                {spelling.length}
            FROM {sessions} WHERE number = :number"""
        self.whole_chapter = f"""
            SELECT length, {blob("delta")}, delta_checksum, {blob("facts")}, checksum, newest,
                asks, {blob("packed")}, packed_checksum
            FROM {chapters} {this}"""
        self.talk = f"SELECT {blob('talk')} FROM {chapters} {this}"
        self.placed = f"""
            SELECT {spelling.position}, timestamp, {blob("event")}, checksum FROM {events}
            WHERE {between} ORDER BY {spelling.place}"""
        self.app_state = StateStatements(spelling, "app_state", "app_name")
        self.user_state = StateStatements(spelling, "user_state", "app_name", "user_id")
        self.has_talk = spelling.has_talk
        self.covered = f"""
            SELECT number, chaptered, archived, {spelling.length} FROM {sessions}
            WHERE app_name = :app_name AND user_id = :user_id AND id = :id {spelling.lock}"""
        delta = f"first, length, {blob('delta')}, delta_checksum"
        listed = f"FROM {chapters} WHERE session = :number ORDER BY first"
        self.deltas = f"SELECT {delta} {listed}"
        self.chapters = f"SELECT {delta}, {blob('facts')}, checksum {listed}"
        later = "CAST(:after AS double precision) IS NULL OR {} > :after".format
        self.packed_from = f"""
            SELECT first, length, {blob("packed")}, packed_checksum FROM {chapters}
            WHERE session = :number AND first + length > :first AND ({later("newest")})
                AND packed IS NOT NULL ORDER BY first"""
        event = f"{spelling.position}, {blob('event')}, checksum"
        self.recent = f"""
            SELECT {event} FROM {events} WHERE {between} AND ({later("timestamp")})
            ORDER BY {spelling.place} DESC LIMIT :limit"""
        self.writing = f"""
            SELECT {event} FROM {events} {spelling.by_deltas}
            WHERE {between} AND {HAS_DELTA} ORDER BY {spelling.place}"""
        length = f"coalesce({spelling.last}, 0)"
        # without its state, if its number is the one that is known
        self.session_row = f"""
            SELECT number, created, CASE WHEN number = :known THEN '' ELSE {blob("state")} END,
                sessions.checksum, {length}, coalesce(timestamp, created), chaptered, archived
            FROM {sessions} {spelling.newest}
            WHERE app_name = :app_name AND user_id = :user_id AND id = :id"""
        self.list_sessions = f"""
            SELECT user_id, id, {length}, coalesce(timestamp, created) AS updated
            FROM {sessions} {spelling.newest}
            WHERE app_name = :app_name
                AND (CAST(:user_id AS text) IS NULL OR user_id = :user_id)
            ORDER BY updated DESC, number DESC"""
        self.add = f"""
            INSERT INTO {chapters} (session, first, length, delta, delta_checksum, facts, checksum,
                newest, asks)
            VALUES (:number, :first, :length, :delta, :delta_checksum, :facts, :checksum,
                :newest, :asks)"""
        self.add_talk = f"UPDATE {chapters} SET talk = :talk {this}"
        self.set_chaptered = f"UPDATE {sessions} SET chaptered = :end WHERE number = :number"
        self.first_later = f"""
            SELECT min({spelling.position}) FROM {events}
            WHERE {between} AND timestamp >= :before"""
        self.packed = f"SELECT length, {blob('packed')}, packed_checksum FROM {chapters} {this}"
        self.all_packed = f"SELECT session, first FROM {chapters} WHERE packed IS NOT NULL"
        self.pack = f"""
            UPDATE {chapters} SET packed = :packed, packed_checksum = :checksum {this}"""
        self.events = f"""
            SELECT timestamp, {blob("event")}, checksum FROM {events}
            WHERE {between} ORDER BY {spelling.place}"""
        self.delete_events = f"DELETE FROM {events} WHERE {between}"
        self.insert_event = f"""
            INSERT INTO {events} ({spelling.place}, timestamp, event, checksum)
            VALUES ({spelling.at}, :timestamp, :data, :checksum)"""
        self.session = f"""
            SELECT app_name, user_id, id, created, state, checksum, archived FROM {sessions}
            WHERE number = :number"""
        self.set_archived = f"""
            UPDATE {sessions} SET archived = :archived, checksum = :checksum
            WHERE number = :number"""


class StateStatements:
    """The statements of one table of shared state."""

    def __init__(self, spelling: StoreSpelling, name: str, *owner: str) -> None:
        table, names = f"{spelling.schema}{name}", (*owner, "key")
        conditions = [f"{name} = :{name}" for name in names]
        key, value = spelling.blob.format("key"), spelling.blob.format("value")
        whose = " AND ".join(conditions[:-1])
        self.read = f"SELECT {key}, {value}, checksum FROM {table} WHERE {whose}"
        cells = ", ".join(map(spelling.blob.format, (*names, "value")))
        self.all = f"SELECT checksum, {cells} FROM {table}"
        self.delete = f"DELETE FROM {table} WHERE {' AND '.join(conditions)}"
        self.put = f"""
            INSERT INTO {table} ({", ".join(names)}, value, checksum)
            VALUES ({", ".join(f":{name}" for name in names)}, :value, :checksum)
            ON CONFLICT ({", ".join(names)})
            DO UPDATE SET value = excluded.value, checksum = excluded.checksum"""
