"""Statements for several sessions at once: appends, locks, and looks at what is new.

While a statement is on its way to the server, what else is asked for is collected, and goes with
the next one. So a process with many runs makes few round trips and few commits, and one with a
single run waits for nobody.
"""

import asyncio
from collections.abc import Awaitable, Callable, Iterable, Sequence
from typing import Generic, NamedTuple, TypeVar, cast

from weft.session import Event, SessionKey
from weft.session.memory import Growth, StoredSession
from weft.stores.postgres_server import (
    Connection,
    DriverError,
    ForeignKeyViolation,
    UniqueViolation,
)
from weft.stores.postgres_tables import SERVER_SQL, Stale, lock_number, run_steps
from weft.stores.rows import encode_event
from weft.stores.steps import share

Wish = TypeVar("Wish")
Answer = TypeVar("Answer")

MOST = 200
"""How many sessions one statement is for at most."""


class Batches(Generic[Wish, Answer]):
    """Collects wishes, and has them served together, `at_once` batches at a time.

    `serve` gives an answer or an error for each wish, in their order. What it raises is raised for
    all of them. A batch that is on its way goes on without a caller who stops waiting; it is
    stopped when nobody waits for it any more, if it `stops`.
    """

    def __init__(
        self,
        serve: Callable[[Sequence[Wish]], Awaitable[Sequence[Answer | Exception]]],
        *,
        at_once: int,
        stops: bool = False,
    ) -> None:
        self._serve = serve
        self._room = at_once
        self._stops = stops
        self._waiting: list[tuple[Wish, asyncio.Future[Answer]]] = []
        self._tasks: dict[asyncio.Task[None], list[asyncio.Future[Answer]]] = {}

    async def put(self, wish: Wish) -> Answer:
        """The answer, once the batch that the wish is in was served."""
        future: asyncio.Future[Answer] = asyncio.get_running_loop().create_future()
        self._waiting.append((wish, future))
        self._start()
        try:
            return await future
        except asyncio.CancelledError:
            for task, futures in [*self._tasks.items()]:
                # nobody of this batch waits any more
                if self._stops and future in futures and all(one.done() for one in futures):
                    task.cancel()
                    await asyncio.wait([task])  # then it is decided what became of it
            raise

    async def close(self) -> None:
        """Wait until everything was served."""
        while self._tasks:
            await asyncio.wait(self._tasks)

    def _start(self) -> None:
        if self._room and self._waiting:
            self._room -= 1
            task = asyncio.get_running_loop().create_task(self._run())
            self._tasks[task] = []
            task.add_done_callback(self._end_task)

    def _end_task(self, task: asyncio.Task[None]) -> None:
        del self._tasks[task]
        self._room += 1
        if not task.get_loop().is_closed():
            self._start()

    async def _run(self) -> None:
        task = cast("asyncio.Task[None]", asyncio.current_task())
        while True:
            # whoever was cancelled before the batch left is not stored
            waiting = [one for one in self._waiting if not one[1].done()]
            batch, self._waiting = waiting[:MOST], waiting[MOST:]
            futures = self._tasks[task] = [future for _, future in batch]
            if not batch:
                # the room is given back in `_end_task`
                return
            try:
                answers = await self._serve([wish for wish, _ in batch])
            except asyncio.CancelledError:
                for future in futures:
                    future.cancel()
                raise
            except Exception as error:
                # the server refused all of it: each caller decides for itself
                answers = [error] * len(batch)
            for future, answer in zip(futures, answers, strict=True):
                if future.done():  # whoever waited was cancelled
                    continue
                if isinstance(answer, Exception):
                    future.set_exception(answer)
                else:
                    future.set_result(answer)


class NewEvent(NamedTuple):
    """One event to be appended to one session, which shares nothing with others."""

    key: SessionKey
    number: int
    seq: int
    timestamp: float
    event: str
    checksum: int
    worker: str | None
    """Who must have the lease."""


def new_event(
    stored: StoredSession, at: int, event: Event, worker: str | None
) -> tuple[NewEvent, int]:
    """An event to be appended `at` places after the next one, and how many bytes it has."""
    data, checksum = encode_event(event)
    seq, text = len(stored.events) + at, data.decode()
    new = NewEvent(stored.key, stored.number, seq, event.timestamp, text, checksum or 0, worker)
    return new, len(data)


async def insert_events(
    connection: Connection, stored: StoredSession, growth: Growth, worker: str | None
) -> tuple[StoredSession, float | None]:
    """Insert the events after those of the session, and what they write to the shared scopes.

    Gives the session after that, and when somebody asked its holder to stop. Raises Stale where
    the events do not fit, or where `worker` has not got the lease any more. One event that shares
    nothing is one statement; all else needs a transaction.
    """
    asked: float | None = None
    size = 0
    for at, event in enumerate(growth.added):
        new, length = new_event(stored, at, event, worker)
        size += length
        try:
            [answer] = await append_events(connection, [new])
        except (UniqueViolation, ForeignKeyViolation):
            # another writer has the place in the log, or the session is gone
            raise Stale from None
        if isinstance(answer, Exception):
            raise answer
        asked = answer
    await run_steps(connection, share(SERVER_SQL, stored.key, growth.app, growth.user))
    return stored.after(growth, size), asked


async def append_events(
    connection: Connection, events: Sequence[NewEvent]
) -> list[float | Exception | None]:
    """Append each event to its session, in one commit.

    For each, when somebody asked the holder of its session to stop, or Stale where it does not
    fit. If the server refuses the whole, each is tried by itself.
    """
    # Of several for one session the first counts: the others were made for a log without it.
    first = {event.number: at for at, event in reversed([*enumerate(events)])}
    # In one order: two processes that wait for each other's rows do not wait for ever.
    order = [first[number] for number in sorted(first)]
    columns = zip(*[(*events[at][1:], *events[at].key) for at in order], strict=True)
    try:
        cursor = await connection.execute(_APPEND, [array_literal(column) for column in columns])
        rows = cast("list[tuple[int, int, float | None]]", await cursor.fetchall())
    except DriverError:
        # one bad event must not fail those of other sessions
        if len(events) == 1 or connection.closed:
            raise
        return [await _by_itself(connection, event) for event in events]
    asked = {(number, seq): when for number, seq, when in rows}
    return [
        asked[event.number, event.seq]
        if first[event.number] == at and (event.number, event.seq) in asked
        else Stale()
        for at, event in enumerate(events)
    ]


def array_literal(values: Iterable[object]) -> str:
    """An array as PostgreSQL reads it from a text.

    The driver makes the same of a list, but looks at every quote in it by itself, and an event has
    hundreds: that took longer than all else that is done to store it.
    """
    return "{" + ",".join([_element(value) for value in values]) + "}"


def _element(value: object) -> str:
    if isinstance(value, str):
        return '"' + value.replace("\\", "\\\\").replace('"', '\\"') + '"'
    return "NULL" if value is None else repr(value)


async def _by_itself(connection: Connection, event: NewEvent) -> float | Exception | None:
    try:
        return (await append_events(connection, [event]))[0]
    except DriverError as error:
        if connection.closed:
            raise
        return error


# Nothing is inserted unless the session has exactly the events before this one, and the writer
# still has the lease it began with. FOR SHARE: who takes the lease over waits for this write.
_APPEND = """
INSERT INTO weft.events (session, seq, timestamp, event, checksum)
SELECT sessions.number, new.seq, new.timestamp, new.event, new.checksum
FROM unnest(
    %s::bigint[], %s::integer[], %s::float8[], %s::text[], %s::bigint[], %s::text[],
    %s::text[], %s::text[], %s::text[]
) AS new (number, seq, timestamp, event, checksum, worker, app_name, user_id, id)
JOIN weft.sessions ON sessions.number = new.number
WHERE new.seq = (SELECT coalesce(max(seq) + 1, 0) FROM weft.events WHERE session = new.number)
    AND (new.worker IS NULL OR EXISTS (
        SELECT 1 FROM weft.leases
        WHERE leases.app_name = new.app_name AND leases.user_id = new.user_id
            AND leases.id = new.id AND leases.worker = new.worker FOR SHARE
    ))
ORDER BY new.number
ON CONFLICT DO NOTHING
RETURNING session, seq, (
    SELECT asked FROM weft.interrupts JOIN weft.sessions USING (app_name, user_id, id)
    WHERE number = session
)
"""


class Look(NamedTuple):
    """A session as the server has it, without its events: whether a cached one is the newest."""

    number: int
    """0 where there is no such session."""
    length: int
    app: Sequence[tuple[str, bytes, int | None]]
    user: Sequence[tuple[str, bytes, int | None]]


class TakenLock(NamedTuple):
    """A lock that was taken: since when by the server's clock, and the session as it is."""

    since: float
    look: Look


LockWish = tuple[SessionKey, bool]
"""A session to be locked (True) or unlocked."""


async def move_locks(
    connection: Connection, wishes: Sequence[LockWish], worker: str
) -> list[TakenLock | None]:
    """Unlock some sessions and lock others; None for those that another process has.

    The look comes after the locks, in a statement of its own: it sees what the last holder wrote.
    """
    freed = [lock_number(key) for key, locks in wishes if not locks]
    # an advisory lock is counted: taken twice it would have to be given back twice
    keys = [*dict.fromkeys(key for key, locks in wishes if locks)]
    if not keys:
        await connection.execute(_UNLOCK, (array_literal(freed),))
        return [None] * len(wishes)
    names = [array_literal(column) for column in zip(*keys, strict=True)]
    numbers = array_literal([lock_number(key) for key in keys])
    async with connection.pipeline():
        # first the unlocks: a session may be given back and wanted again in one batch
        if freed:
            await connection.execute(_UNLOCK, (array_literal(freed),))
        locked = await connection.execute(_LOCK, (worker, *names, numbers))
        looked = await connection.execute(_LOOK, names)
    since = cast("list[tuple[str, str, str, float]]", await locked.fetchall())
    looks = _looks(keys, cast("list[_LookRow]", await looked.fetchall()))
    taken = {SessionKey(*key): when for *key, when in since}
    return [
        TakenLock(taken[key], looks[key]) if locks and key in taken else None
        for key, locks in wishes
    ]


_LookRow = tuple[str, str | None, str | None, int | None, int | None, str | None, str, int | None]


def _looks(keys: Sequence[SessionKey], rows: Sequence[_LookRow]) -> dict[SessionKey, Look]:
    """What the rows of `_LOOK` say about each session."""
    sessions: dict[SessionKey, tuple[int, int]] = {}
    shared: dict[tuple[str, str | None], list[tuple[str, bytes, int | None]]] = {}
    for app_name, user_id, id, number, length, name, value, checksum in rows:
        if name is None:
            # a row without the name of a key is that of a session
            key = SessionKey(app_name, user_id or "", id or "")
            sessions[key] = number or 0, length or 0
        else:
            shared.setdefault((app_name, user_id), []).append((name, value.encode(), checksum))
    return {
        key: Look(
            *sessions.get(key, (0, 0)), shared.get((key[0], None), []), shared.get(key[:2], [])
        )
        for key in keys
    }


_UNLOCK = "SELECT pg_advisory_unlock(number) FROM unnest(%s::bigint[]) AS number"

_LOCK = """
WITH locked AS MATERIALIZED (
    SELECT app_name, user_id, id, pg_try_advisory_lock(number) AS is_mine, %s::text AS worker
    FROM unnest(%s::text[], %s::text[], %s::text[], %s::bigint[])
        AS wanted (app_name, user_id, id, number)
)
INSERT INTO weft.leases (app_name, user_id, id, worker, process, since)
SELECT app_name, user_id, id, worker, pg_backend_pid(),
       extract(epoch FROM clock_timestamp())::float8
FROM locked WHERE is_mine
ON CONFLICT (app_name, user_id, id)
DO UPDATE SET worker = excluded.worker, process = excluded.process, since = excluded.since
RETURNING app_name, user_id, id, since
"""

_LOOK = """
WITH wanted (app_name, user_id, id) AS (SELECT * FROM unnest(%s::text[], %s::text[], %s::text[]))
SELECT app_name, user_id, id, number,
       (SELECT coalesce(max(seq) + 1, 0) FROM weft.events WHERE session = number),
       NULL::text, NULL::text, NULL::bigint
FROM wanted JOIN weft.sessions USING (app_name, user_id, id)
UNION ALL
SELECT app_name, NULL, NULL, NULL, NULL, key, value, checksum FROM weft.app_state
WHERE app_name IN (SELECT app_name FROM wanted)
UNION ALL
SELECT app_name, user_id, NULL, NULL, NULL, key, value, checksum FROM weft.user_state
WHERE (app_name, user_id) IN (SELECT app_name, user_id FROM wanted)
"""
