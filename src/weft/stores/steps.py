"""What both databases do in the same steps: sessions, chapters of long logs, shared state.

SQLite answers at once, on the thread of its connection, and PostgreSQL is awaited. So what is done
stands here once: a function yields statements with their values, and gets the rows of each.
Whoever calls runs the steps on a connection, inside a transaction.

Top to bottom: who has chapters written; their steps: written, packed, read, and put back; old
events that somebody asks for; a session: made, read in part, listed, deleted; shared state.
"""

import asyncio
import logging
from collections.abc import Awaitable, Callable, Sequence
from itertools import groupby
from operator import itemgetter
from typing import NamedTuple, Protocol, TypeVar, cast

from weft.errors import StoreError
from weft.session import Event, Session, SessionInfo, SessionKey
from weft.session.event import number_events
from weft.session.memory import StoredSession
from weft.session.store import exists_already, unknown_session
from weft.session.strand import Strand
from weft.session.talk import FetchTalk
from weft.stores.cache import SessionCache, state_after
from weft.stores.chapters import (
    TALKS,
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
    require_fetched,
    require_keeping,
    require_whole,
    session_checksum,
    state_of,
    unpack,
)
from weft.stores.rows import (
    EventRow,
    Fetch,
    StateReader,
    checksum_of,
    encode_value,
    read_row,
    still_waits,
)
from weft.stores.statements import NO_LIMIT, StateStatements, Steps, StoreStatements, Values
from weft.values import JsonObject, encode

T = TypeVar("T")

_log = logging.getLogger("weft")


class StepsRunner(Protocol):
    """What runs steps in one transaction. It may have to begin anew, so it begins them itself."""

    def __call__(self, begin: Callable[[], Steps[T]], /) -> Awaitable[T]:
        """What comes of the steps."""
        ...


class ChapterWriter:
    """Has the chapters of long sessions written and packed while the store works."""

    def __init__(self, run: StepsRunner, sql: StoreStatements) -> None:
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
            raise unknown_session(key)
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


class _LockedSession(NamedTuple):
    """A session that is locked: how far its chapters go, how many are packed, how long it is."""

    number: int
    chaptered: int
    archived: int
    length: int


def _lock_session(sql: StoreStatements, key: SessionKey) -> Steps[_LockedSession | None]:
    """How far the chapters of a session go; nobody else writes chapters before the end."""
    rows = cast("list[tuple[int, int, int, int]]", (yield sql.covered, key._asdict()))
    return _LockedSession(*rows[0]) if rows else None


def chapters_of(sql: StoreStatements, number: int, chaptered: int) -> Steps[list[Chapter] | None]:
    """The chapters of a session, without their events; None where they cannot be read."""
    rows = cast("list[tuple[*DeltaRow, bytes, int]]", (yield sql.chapters, {"number": number}))
    return read_chapters(rows, chaptered)


def deltas_of(sql: StoreStatements, number: int, chaptered: int) -> Steps[list[bytes] | None]:
    """What the chapters of a session write to its state; None where they cannot be read."""
    rows = cast("list[DeltaRow]", (yield sql.deltas, {"number": number}))
    return read_deltas(rows, chaptered)


def _add_chapter(sql: StoreStatements, key: SessionKey, limit: int | None) -> Steps[int | None]:
    """Write the next chapter of a session, of events before `limit`; where it ends, or None.

    Without a limit it is written only if there is a whole one, and some events after it.
    """
    known = yield from _lock_session(sql, key)
    end = chapter_end(known.chaptered, known.length, limit) if known is not None else None
    if known is None or end is None:
        return None
    number, first = known.number, known.chaptered
    # a chapter after damaged ones would never be used
    earlier = yield from chapters_of(sql, number, first)
    if earlier is None:
        return None
    # one more than the chapter: it shows where the turn ends
    rows = yield from _read_rows(sql, number, first, end + 1)
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
    sql: StoreStatements, key: SessionKey, keep_recent: int, before: float | None
) -> Steps[int | None]:
    """How many of the first events may be archived: not the newest, nor any after a later one."""
    known = yield from _lock_session(sql, key)
    if known is None:
        return None
    limit = max(known.length - keep_recent, 0)
    if before is None:
        return limit
    values = {"number": known.number, "first": 0, "end": limit, "before": before}
    [(later,)] = cast("list[tuple[int | None]]", (yield sql.first_later, values))
    return limit if later is None else later


def _pack_chapter(sql: StoreStatements, key: SessionKey, limit: int) -> Steps[int | None]:
    """Pack the first chapter that has its events in the table; how many, or None if none is left.

    In one transaction the events go from the one table to the other: they are always in one.
    """
    known = yield from _lock_session(sql, key)
    if known is None or known.archived >= known.chaptered:
        return None
    number, first = known.number, known.archived
    values = {"number": number, "first": first}
    [(length, *_)] = cast("list[tuple[int, bytes, int]]", (yield sql.packed, values))
    end = first + length
    if end > limit:
        # a chapter is packed as a whole, or not at all
        return None
    packed, checksum = pack((yield from _read_rows(sql, number, first, end)))
    yield sql.pack, {**values, "packed": packed, "checksum": checksum}
    yield sql.delete_events, {**values, "end": end}
    yield from _set_archived(sql, number, end)
    return length


def _set_archived(sql: StoreStatements, number: int, archived: int) -> Steps[None]:
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


def unpack_all(sql: StoreStatements) -> Steps[None]:
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


def _read_rows(sql: StoreStatements, number: int, first: int, end: int) -> Steps[list[StoredRow]]:
    """The rows of the table of events between two positions."""
    values = {"number": number, "first": first, "end": end}
    rows = cast("list[tuple[float, str | bytes, int | None]]", (yield sql.events, values))
    return [StoredRow(time, as_bytes(data), checksum) for time, data, checksum in rows]


def as_bytes(cell: str | bytes) -> bytes:
    """The bytes of a text; SQLite gives them so, because damaged ones may be no text."""
    return cell if isinstance(cell, bytes) else cell.encode()


# --- old events that somebody asks for


class StepsReader(Protocol):
    """What runs steps on a connection of its own: whoever asks may be on any thread, and waits."""

    def __call__(self, steps: Steps[T], /) -> T:
        """What comes of the steps."""
        ...


def fetch_from(sql: StoreStatements, read: StepsReader, number: int, *, where: str) -> Fetch:
    """What reads the chapter around a position."""

    def fetch(position: int) -> tuple[int, list[bytes]]:
        first, length, rows = read(_read_around(sql, number, position))
        return first, require_fetched(
            [(row.data, row.checksum) for row in rows], first, length, where=where
        )

    return fetch


def fetch_talk_from(sql: StoreStatements, read: StepsReader, number: int) -> FetchTalk:
    """What reads the talk of some chapters, as `fetch_from` reads their events."""
    return lambda position: read(_read_talks(sql, number, position))


def _read_talks(sql: StoreStatements, number: int, first: int) -> Steps[dict[int, bytes]]:
    if not (yield sql.has_talk, {}):
        return {}
    rows = yield sql.talks, {"number": number, "first": first, "limit": TALKS}
    return dict(cast("list[tuple[int, bytes]]", rows))


def _read_around(
    sql: StoreStatements, number: int, position: int
) -> Steps[tuple[int, int, list[StoredRow]]]:
    """Where the chapter around a position begins, how many events it has, and those there are."""
    rows = cast(
        "list[tuple[int, int, bytes | None, int | None, float | None, str | bytes, int | None]]",
        (yield sql.around, {"number": number, "position": position}),
    )
    if not rows:
        return position, 1, []
    first, length, packed, packed_checksum, *_ = rows[0]
    if packed is not None:
        return first, length, unpack(packed, packed_checksum or 0, length)
    # the outer join gives one empty row where no event is left
    return (
        first,
        length,
        [
            StoredRow(timestamp, as_bytes(data), checksum)
            for *_, timestamp, data, checksum in rows
            if timestamp is not None
        ],
    )


def read_log(
    sql: StoreStatements, number: int, first: int = 0, end: int = NO_LIMIT
) -> Steps[list[StoredRow]]:
    """The events of a session between two positions, packed or not."""
    rows: list[tuple[int, StoredRow]] = []
    values = {"number": number, "first": first, "end": end}
    for start, length, packed, packed_checksum, timestamp, data, checksum in cast(
        "list[tuple[int, int, bytes | None, int, float, str | bytes, int | None]]",
        (yield sql.log, values),
    ):
        if packed is None:
            rows.append((start, StoredRow(timestamp, as_bytes(data), checksum)))
        else:
            unpacked = enumerate(unpack(packed, packed_checksum, length), start)
            rows += [one for one in unpacked if first <= one[0] < end]
    rows.sort(key=itemgetter(0))
    return [row for _, row in rows]


# --- a session


def insert_session(
    sql: StoreStatements, key: SessionKey, created: float, initial: JsonObject
) -> Steps[StoredSession]:
    """Insert a new session; one that exists is a Conflict."""
    state = encode_value(initial)
    checksum = checksum_of(*key, created, state)
    values = {**key._asdict(), "created": created, "state": state, "checksum": checksum}
    rows = cast("list[tuple[int]]", (yield sql.insert_session, values))
    if not rows:
        raise exists_already(key)
    return StoredSession(key, rows[0][0], created, initial, initial, Strand())


def read_events(
    sql: StoreStatements, key: SessionKey, after: int, limit: int | None
) -> Steps[list[Event] | None]:
    """The events of a session after the first `after`, with their sequence numbers."""
    count = NO_LIMIT if limit is None else limit
    rows = cast(
        "list[tuple[str | bytes | None, int | None, int, int]]",
        # at least one: its row says that the session exists
        (yield sql.later, {**key._asdict(), "after": after, "limit": max(count, 1)}),
    )
    if not rows:
        return None
    *_, number, archived = rows[0]
    data = [EventRow(as_bytes(text), sum) for text, sum, _, _ in rows[:count] if text is not None]
    if after < archived:
        # the statement saw only the table of events, and some are packed
        end = min(after + count, NO_LIMIT)
        packed = yield from read_log(sql, number, after, end)
        data = [EventRow(row.data, row.checksum) for row in packed]
    return number_events(
        [read_row(row, position, where=str(key)) for position, row in enumerate(data, after)], after
    )


def count_events(sql: StoreStatements, keys: Sequence[SessionKey]) -> Steps[dict[SessionKey, int]]:
    """How many events the sessions have; one that does not exist is not in it."""
    text = encode([[*key] for key in keys], where="keys").decode()
    rows = cast("list[tuple[str, str, str, int]]", (yield sql.lengths, {"keys": text}))
    return {SessionKey(*key): length for *key, length in rows}


def list_waiting(
    sql: StoreStatements, app_name: str, user_id: str | None
) -> Steps[list[SessionKey]]:
    """The sessions in which calls may wait. Those that never asked anything are not read."""
    values = {"app_name": app_name, "user_id": user_id}
    rows = cast("list[tuple[str, str, str | bytes]]", (yield sql.waiting, values))
    waiting = {
        SessionKey(app_name, user, id): still_waits(as_bytes(event) for _, _, event in events)
        for (user, id), events in groupby(rows, key=itemgetter(0, 1))
    }
    # those with a packed chapter in which something was asked
    for user, id, number in cast("list[tuple[str, str, int]]", (yield sql.asked_before, values)):
        log = yield from read_log(sql, number)
        waiting[SessionKey(app_name, user, id)] = still_waits(row.data for row in log)
    return [key for key, waits in waiting.items() if waits]


def list_apps(sql: StoreStatements) -> Steps[list[str]]:
    """The names of the apps that have sessions, sorted."""
    return sorted(name for (name,) in cast("list[tuple[str]]", (yield sql.apps, {})))


def delete_session(
    sql: StoreStatements, key: SessionKey, lock: Values | None = None
) -> Steps[None]:
    """Delete a session with its events and turns; what they wrote to shared scopes stays.

    `lock` is what the statement must know of the session's lease, where the database has that.
    """
    # first: a session may have queued turns and no row yet
    yield from erase_turns(sql, *key)
    rows = yield sql.delete_session, {**key._asdict(), **(lock or {})}
    yield from _delete_events(sql, rows)


def erase_user(sql: StoreStatements, app_name: str, user_id: str) -> Steps[int]:
    """Delete all rows of a user: sessions, events, state, requests and turns."""
    yield from erase_turns(sql, app_name, user_id)
    owner = {"app_name": app_name, "user_id": user_id}
    rows = cast("list[tuple[int]]", (yield sql.delete_sessions, owner))
    yield from _delete_events(sql, rows)
    for statement in sql.delete_rows:
        yield statement, owner
    return len(rows)


def _delete_events(sql: StoreStatements, numbers: object) -> Steps[None]:
    """Delete the events of sessions that are deleted, unless the database does it by itself."""
    if sql.cascades:
        return
    for (number,) in cast("list[tuple[int]]", numbers):
        yield sql.delete_events, {"number": number, "first": 0, "end": NO_LIMIT}


def erase_turns(
    sql: StoreStatements, app_name: str, user_id: str, session: str | None = None
) -> Steps[None]:
    """Delete the turns of a user, or of one session, from every queue, whatever became of them."""
    values = {"app_name": app_name, "user_id": user_id, "session": session}
    for table in (yield from list_queues(sql)):
        if statement := sql.queues[table].erase:
            yield statement, values


def list_turn_apps(sql: StoreStatements, user_id: str) -> Steps[list[str]]:
    """The apps for which a user has turns in a queue, sorted."""
    apps: set[str] = set()
    for table in (yield from list_queues(sql)):
        if statement := sql.queues[table].apps:
            rows = cast("list[tuple[str]]", (yield statement, {"user_id": user_id}))
            apps.update(app for (app,) in rows)
    return sorted(apps)


def list_queues(sql: StoreStatements) -> Steps[list[str]]:
    """Those tables of queues that there are: none where no queue was ever opened."""
    rows = cast("list[tuple[str]]", (yield sql.find_queues, {"names": [*sql.queues]}))
    existing = {name for (name,) in rows}
    return [table for table in sql.queues if table in existing]


def list_requests(sql: StoreStatements) -> Steps[list[tuple[SessionKey, float]]]:
    """The sessions that somebody wants stopped, and since when."""
    rows = cast("list[tuple[str, str, str, float]]", (yield sql.requests, {}))
    return [(SessionKey(*key), when) for *key, when in rows]


def put_request(sql: StoreStatements, key: SessionKey, turn: float = 0.0) -> Steps[None]:
    """Ask the holder of the session, in another process, to stop."""
    yield sql.put_request, {**key._asdict(), "asked": turn}


def delete_request(sql: StoreStatements, key: SessionKey) -> Steps[None]:
    """Withdraw the request to stop."""
    yield sql.delete_request, key._asdict()


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

    def read_beginning(self, reader: StateReader) -> StoredSession:
        """The session before its first event."""
        state = as_bytes(self.state)
        initial = reader.initial(self.created, state, self.checksum, self.archived)
        log: Strand[Event] = Strand()
        return StoredSession(
            reader.key, self.number, self.created, initial, initial, log, 0, self.chaptered
        )


def read_part(
    sql: StoreStatements, key: SessionKey, *, recent: int | None, after: float | None
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
    newest = _with_positions((yield sql.recent, values))[::-1]
    # the table of events has fewer than asked for: the others are packed
    if archived and len(newest) != recent:
        first = 0 if after is not None else length - limit
        older = yield from _packed_from(sql, number, first, after)
        newest = [*older[max(len(older) + len(newest) - limit, 0) :], *newest]
    if len(newest) == length:
        return None
    deltas = yield from deltas_of(sql, number, row.chaptered)
    # chapters say what they write to the state, so only events after them are read
    first = row.chaptered if deltas is not None else 0
    writing = _with_positions((yield sql.writing, {**values, "first": first}))
    if first < archived:  # its chapters cannot be read: their events can
        packed = yield from _packed_from(sql, number, first)
        writing = [one for one in packed if b'"stateDelta"' in one[1].data] + writing
    reader = StateReader(key)
    begun = row.read_beginning(reader)
    shared = yield from read_shared(sql, reader)
    events, wrote = (
        [read_row(row, position, where=str(key)) for position, row in rows]
        for rows in (newest, writing)
    )
    own = state_after(state_of(begun.initial, deltas or ()), wrote)
    session = begun._replace(state=own).session(*shared)
    session.events, session.last_update_time = Strand(events), row.updated
    return session


def _with_positions(rows: object) -> list[tuple[int, EventRow]]:
    """Events with their positions in the log."""
    return [
        (at, EventRow(as_bytes(data), checksum))
        for at, data, checksum in cast("list[tuple[int, str | bytes, int | None]]", rows)
    ]


def _packed_from(
    sql: StoreStatements, number: int, first: int, after: float | None = None
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
    sql: StoreStatements, app_name: str, user_id: str | None
) -> Steps[list[SessionInfo]]:
    """The sessions of an app, or of one user of it, the latest first."""
    values = {"app_name": app_name, "user_id": user_id}
    rows = cast("list[tuple[str, str, int, float]]", (yield sql.list_sessions, values))
    return [
        SessionInfo(SessionKey(app_name, user, id), length, updated)
        for user, id, length, updated in rows
    ]


def read_shared(sql: StoreStatements, reader: StateReader) -> Steps[tuple[JsonObject, JsonObject]]:
    """The `app:` and `user:` state as it is now."""
    app = yield from _read_scope(sql.app_state, reader, reader.key[:1])
    user = yield from _read_scope(sql.user_state, reader, reader.key[:2])
    return app, user


def _read_scope(
    scope: StateStatements, reader: StateReader, owner: Sequence[str]
) -> Steps[JsonObject]:
    rows = cast(
        "list[tuple[str | bytes, str | bytes, int | None]]",
        (yield scope.read, reader.key._asdict()),
    )
    cells = [
        (as_bytes(name).decode(errors="replace"), as_bytes(value), checksum)
        for name, value, checksum in rows
    ]
    return reader.shared_state(owner, cells)


def share(sql: StoreStatements, key: SessionKey, app: JsonObject, user: JsonObject) -> Steps[None]:
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
