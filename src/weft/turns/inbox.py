"""The inbox: a queue of turns in the tables of the store itself, with nothing to install.

It is the reference for other queues, the one for a laptop with SQLite, and good enough for many
with PostgreSQL. A row is a turn. A worker takes the first turn of a session by writing its own
name to the row, and the next one of that session is not taken before the first has ended.

Top to bottom: the queue, how a worker takes turns, the statements, the rows.
"""

import asyncio
import logging
import time
from collections.abc import Mapping, Sequence
from typing import NamedTuple, Protocol, cast

from weft.errors import StoreError
from weft.session import SessionKey
from weft.turns.turn import (
    MOST_KILLS,
    Living,
    Outcome,
    RunTurn,
    StopSignal,
    Turn,
    TurnInfo,
    TurnStatus,
    UnreadableTurn,
    decode_turn,
    encode_turn,
)

_log = logging.getLogger("weft.turns")

_LONGEST_PAUSE = 5.0
"""Seconds between two tries to reach a database that does not answer."""

_PLACE_EVERY = 0.25
"""Seconds between two looks for delayed turns that are due."""

Cell = str | int | float | None
Values = Mapping[str, "Cell | Sequence[str] | Sequence[int]"]


class InboxTables(Protocol):
    """The database that the inbox is in. A statement is written once, with `:names`."""

    sql: "Spelling"
    pause: float
    """Seconds between two looks for turns, where nothing says that one was put."""

    async def open(self) -> None:
        """Make the tables, or refuse those of another version."""
        ...

    async def run(
        self, statement: str, values: Values, *, connection: object = None
    ) -> list[tuple[Cell, ...]]:
        """The rows that a statement gives, once it is committed; with a connection, its commit."""
        ...

    async def news(self, seconds: float) -> None:
        """Wait until a turn may have been put, or so many seconds have passed."""
        ...

    async def close(self) -> None:
        """Close the connections."""
        ...


class Spelling(NamedTuple):
    """What the two databases write differently."""

    table: str
    now: str
    next_place: str
    skip_locked: str
    is_in: str
    """How to ask whether a value is in a list: `{} = ANY({})`."""
    told: str
    """Behind a statement that puts a turn: tells the workers."""


class InboxTurns:
    """Turns in the tables of a store."""

    engine = "inbox"

    def __init__(self, tables: InboxTables) -> None:
        self._tables = tables
        self._statements = Statements(tables.sql)
        self._placed = 0.0
        """When delayed turns were last looked for."""

    async def open(self) -> None:
        """Make the tables, or refuse those of a newer version."""
        await self._tables.open()

    async def put(
        self, turn: Turn, *, delay: float = 0.0, priority: int = 0, connection: object = None
    ) -> bool:
        """Put a turn behind the others of its session; False where it is known already."""
        values = {
            **turn.key._asdict(),
            "request_id": turn.request_id,
            "turn": encode_turn(turn),
            "priority": priority,
            "delay": max(delay, 0.0),
        }
        rows = await self._tables.run(self._statements.put, values, connection=connection)
        return bool(rows)

    async def work(
        self, run: RunTurn, *, apps: Sequence[str], worker: str, slots: int, stop: StopSignal
    ) -> None:
        """Take turns of these apps and run up to `slots` at once, until `stop` is set."""
        await _InboxWorker(self, run, apps=apps, worker=worker, slots=slots).work(stop)

    async def take(
        self, *, apps: Sequence[str], worker: str, most: int, running: Sequence[int] | None = None
    ) -> list["TurnRow"]:
        """Up to so many turns, which are this worker's from now on.

        `running` are those that it has already, where it is not sure that these are all: what
        else has its name is handed on first.
        """
        if running is not None:
            await self._tables.run(
                self._statements.drop_adrift, {"worker": worker, "running": list(running)}
            )
        if time.monotonic() - self._placed >= _PLACE_EVERY:
            self._placed = time.monotonic()
            while await self._tables.run(self._statements.place_due, {}):
                pass
        rows = await self._tables.run(
            self._statements.take, {"apps": list(apps), "worker": worker, "most": most}
        )
        # an UPDATE gives its rows in any order
        return sorted(map(TurnRow.read, rows), key=lambda row: (-row.priority, row.place or 0))

    async def settle(self, number: int, worker: str, outcome: Outcome) -> bool:
        """Write down what came of a turn; False where it is another worker's by now."""
        statement = {
            "again": self._statements.again,
            "released": self._statements.release,
        }.get(outcome.kind, self._statements.end)
        values: dict[str, Cell] = {"number": number, "worker": worker}
        if statement is not self._statements.release:
            values["reason"] = outcome.reason
        if statement is self._statements.again:
            values["after"] = outcome.after
        elif statement is self._statements.end:
            values["status"] = outcome.kind
        return bool(await self._tables.run(statement, values))

    async def news(self, seconds: float) -> None:
        """Wait until a turn may have been put."""
        await self._tables.news(min(seconds, self._tables.pause))

    async def recover(self, living: Living) -> int:
        """Hand on every turn whose owner does not live."""
        rows = await self._tables.run(self._statements.owners, {})
        if not rows:
            return 0
        alive = await living()
        dead = sorted({str(owner) for (owner,) in rows} - alive)
        handed_on = 0
        for owner in dead:
            values = {"worker": owner, "most": MOST_KILLS, "reason": poison_reason(MOST_KILLS)}
            handed_on += len(await self._tables.run(self._statements.hand_on, values))
        return handed_on

    async def find(self, key: SessionKey, request_id: str) -> TurnInfo | None:
        """The turn of a request, or None."""
        values = {**key._asdict(), "request_id": request_id}
        rows = await self._tables.run(self._statements.find, values)
        return TurnRow.read(rows[0]).info() if rows else None

    async def list(
        self,
        *,
        app_name: str | None = None,
        status: TurnStatus | None = None,
        id: str | None = None,
        limit: int = 100,
    ) -> "list[TurnInfo]":
        """Turns in the order they were put."""
        if id is not None and not id.isdecimal():
            return []
        values = {
            "app_name": app_name or "",
            "status": status or "",
            "number": int(id) if id is not None else 0,
            "limit": limit,
        }
        rows = await self._tables.run(self._statements.list, values)
        return [TurnRow.read(row).info() for row in rows]

    async def retry(self, id: str) -> bool:
        """Put a turn that failed or was cancelled behind the others of its session again."""
        if not id.isdecimal():
            return False
        return bool(await self._tables.run(self._statements.retry, {"number": int(id)}))

    async def cancel(self, id: str) -> bool:
        """Take a waiting turn out of the queue."""
        if not id.isdecimal():
            return False
        return bool(await self._tables.run(self._statements.cancel, {"number": int(id)}))

    async def counts(self) -> dict[tuple[str, TurnStatus], int]:
        """How many turns there are, by the name of their app and by status."""
        rows = cast(
            "list[tuple[str, TurnStatus, int]]", await self._tables.run(self._statements.counts, {})
        )
        return {(app, status): count for app, status, count in rows}

    async def close(self) -> None:
        """Close the connections."""
        await self._tables.close()


def poison_reason(kills: int) -> str:
    """Why a turn that kills its workers is not taken any more."""
    return f"{kills} workers died while they ran it"


class _InboxWorker:
    """One worker's share of the inbox: the turns it runs now."""

    def __init__(
        self, inbox: InboxTurns, run: RunTurn, *, apps: Sequence[str], worker: str, slots: int
    ) -> None:
        self._inbox = inbox
        self._run = run
        self._apps = apps
        self._worker = worker
        self._slots = slots
        self._running: dict[int, asyncio.Task[None]] = {}
        self._freed = asyncio.Event()
        """A slot is free, and perhaps the next turn of its session can be taken."""
        self._is_unsure = False
        """Whether an answer of the database was lost, so that a turn may be ours unknown to us."""

    async def work(self, stop: StopSignal) -> None:
        """Take turns until the signal, and wait for those that run."""
        stopping = asyncio.create_task(_signalled(stop))
        pause = 0.1
        try:
            while not stop.is_set():
                room = self._slots - len(self._running)
                self._freed.clear()
                taken = 0
                try:
                    if room > 0:
                        taken = await self._take(room)
                    pause = 0.1
                except StoreError as error:
                    self._is_unsure = True
                    _log.warning("no turns can be taken: %s", error.message)
                    await asyncio.wait([stopping], timeout=pause)
                    pause = min(pause * 2, _LONGEST_PAUSE)
                    continue
                if not taken or taken == room:
                    await self._idle(stopping, is_full=len(self._running) >= self._slots)
            if self._running:
                await asyncio.wait([*self._running.values()])
        finally:
            stopping.cancel()
            for task in self._running.values():
                task.cancel()

    async def _take(self, room: int) -> int:
        running = [*self._running] if self._is_unsure else None
        rows = await self._inbox.take(
            apps=self._apps, worker=self._worker, most=room, running=running
        )
        self._is_unsure = False
        loop = asyncio.get_running_loop()
        for row in rows:
            self._running[row.number] = loop.create_task(self._carry_out(row))
        return len(rows)

    async def _idle(self, stopping: "asyncio.Task[None]", *, is_full: bool) -> None:
        """Wait until there is something to do: a turn was put, or one of ours is over."""
        waits = [asyncio.create_task(_signalled(self._freed))]
        if not is_full:
            waits.append(asyncio.create_task(self._inbox.news(_LONGEST_PAUSE)))
        await asyncio.wait([stopping, *waits], return_when=asyncio.FIRST_COMPLETED)
        for one in waits:
            one.cancel()

    async def _carry_out(self, row: "TurnRow") -> None:
        """Run a turn, and write down what came of it until the database has that."""
        try:
            try:
                outcome = await self._run(row.turn())
            except UnreadableTurn as error:
                outcome = Outcome("failed", str(error))
            pause = 0.1
            while True:
                try:
                    if not await self._inbox.settle(row.number, self._worker, outcome):
                        _log.warning("turn %s is another worker's by now", row.number)
                    return
                except StoreError as error:
                    _log.warning("turn %s is over and not ticked off: %s", row.number, error)
                await asyncio.sleep(pause)
                pause = min(pause * 2, _LONGEST_PAUSE)
        finally:
            self._running.pop(row.number, None)
            self._freed.set()


async def _signalled(signal: StopSignal) -> None:
    await signal.wait()


_COLUMNS = (
    "number, turn, status, priority, attempts, kills, worker, reason, put_at, ended_at, due, place"
)


class Statements:
    """The statements of the inbox, as one database spells them."""

    def __init__(self, sql: Spelling) -> None:
        table, now = sql.table, sql.now
        open_turn = "status IN ('waiting', 'running')"
        same = "app_name = :app_name AND user_id = :user_id AND session = :id"
        self.put = f"""
            INSERT INTO {table} (app_name, user_id, session, request_id, turn, status, priority,
                                 put_at, due, place)
            VALUES (:app_name, :user_id, :id, :request_id, :turn, 'waiting', :priority, {now},
                    CASE WHEN :delay > 0 THEN {now} + :delay END,
                    CASE WHEN :delay > 0 THEN NULL ELSE {sql.next_place} END)
            ON CONFLICT (app_name, user_id, session, request_id) DO NOTHING
            RETURNING number{sql.told}"""
        # A delayed turn has no place in its session until it is due: others pass it.
        self.place_due = f"""
            UPDATE {table} SET place = {sql.next_place}, due = NULL
            WHERE number = (
                SELECT number FROM {table}
                WHERE place IS NULL AND status = 'waiting' AND due <= {now}
                ORDER BY due, number LIMIT 1 {sql.skip_locked})
            RETURNING number"""
        self.take = f"""
            UPDATE {table} SET status = 'running', worker = :worker, due = NULL
            WHERE number IN (
                SELECT number FROM {table} AS head
                WHERE status = 'waiting' AND place IS NOT NULL
                    AND (due IS NULL OR due <= {now})
                    AND {sql.is_in.format("app_name", ":apps")}
                    AND NOT EXISTS (
                        SELECT 1 FROM {table} AS earlier
                        WHERE earlier.app_name = head.app_name AND earlier.user_id = head.user_id
                            AND earlier.session = head.session AND earlier.{open_turn}
                            AND earlier.place < head.place)
                ORDER BY priority DESC, place LIMIT :most {sql.skip_locked})
            RETURNING {_COLUMNS}"""
        mine = "number = :number AND worker = :worker AND status = 'running'"
        self.end = f"""
            UPDATE {table} SET status = :status, reason = :reason, ended_at = {now}
            WHERE {mine} RETURNING number"""
        self.again = f"""
            UPDATE {table} SET status = 'waiting', attempts = attempts + 1, reason = :reason,
                due = {now} + :after
            WHERE {mine} RETURNING number"""
        self.release = f"UPDATE {table} SET status = 'waiting' WHERE {mine} RETURNING number"
        self.drop_adrift = f"""
            UPDATE {table} SET status = 'waiting'
            WHERE status = 'running' AND worker = :worker
                AND NOT ({sql.is_in.format("number", ":running")})"""
        self.owners = f"SELECT DISTINCT worker FROM {table} WHERE status = 'running'"
        self.hand_on = f"""
            UPDATE {table} SET kills = kills + 1,
                status = CASE WHEN kills + 1 >= :most THEN 'failed' ELSE 'waiting' END,
                reason = CASE WHEN kills + 1 >= :most THEN :reason ELSE reason END,
                ended_at = CASE WHEN kills + 1 >= :most THEN {now} END
            WHERE status = 'running' AND worker = :worker RETURNING number"""
        self.find = f"SELECT {_COLUMNS} FROM {table} WHERE {same} AND request_id = :request_id"
        self.list = f"""
            SELECT {_COLUMNS} FROM {table}
            WHERE (:app_name = '' OR app_name = :app_name) AND (:status = '' OR status = :status)
                AND (:number = 0 OR number = :number)
            ORDER BY number DESC LIMIT :limit"""
        self.list = f"SELECT * FROM ({self.list}) AS newest ORDER BY number"
        self.retry = f"""
            UPDATE {table} SET status = 'waiting', place = {sql.next_place}, due = NULL,
                attempts = 0, kills = 0, ended_at = NULL
            WHERE number = :number AND status IN ('failed', 'cancelled')
            RETURNING number{sql.told}"""
        self.cancel = f"""
            UPDATE {table} SET status = 'cancelled', ended_at = {now}
            WHERE number = :number AND status = 'waiting' RETURNING number"""
        self.counts = f"SELECT app_name, status, count(*) FROM {table} GROUP BY 1, 2"


class TurnRow(NamedTuple):
    """A row of the inbox."""

    number: int
    text: str
    status: TurnStatus
    priority: int
    attempts: int
    kills: int
    worker: str | None
    reason: str | None
    put_at: float
    ended_at: float | None
    due: float | None
    place: int | None

    @classmethod
    def read(cls, cells: Sequence[Cell]) -> "TurnRow":
        """The row of these cells."""
        return cls(*cells)  # type: ignore[arg-type]

    def turn(self) -> Turn:
        """The turn, or an error if this version cannot read it."""
        return decode_turn(self.text, id=str(self.number), attempts=self.attempts)

    def info(self) -> TurnInfo:
        """The row as a list shows it."""
        return TurnInfo(
            self.turn(),
            self.status,
            self.priority,
            self.due,
            self.worker or "",
            self.kills,
            self.reason or "",
            self.put_at,
            self.ended_at,
        )
