"""The inbox: a queue of turns in the tables of the store itself, with nothing to install.

It is the reference for other queues, the one for a laptop with SQLite, and good enough for many
with PostgreSQL. A row is a turn. A worker takes the first turn of a session by writing its own
name to the row, and the next one of that session is not taken before the first has ended. Which
turn is the first of its session the database keeps in its lines: see `lines.py`.

Top to bottom: the queue, what one worker sees of it, the statements, the rows.
"""

from collections.abc import Collection, Sequence
from typing import cast, get_args

from weft.session import SessionKey
from weft.turns.databases import (
    Cell,
    LineReader,
    QueueDatabase,
    SqlSpelling,
    TakeRequest,
    Values,
)
from weft.turns.lines import INBOX
from weft.turns.running import TakenTurn, take_turns
from weft.turns.turn import (
    BLAME,
    MOST_WAITING,
    NO_LIMIT,
    Living,
    QueuedTurn,
    RunTurn,
    StopSignal,
    TurnEnd,
    TurnInfo,
    TurnRow,
    TurnStatus,
    count_statuses,
    encode_turn,
    mark_retried,
    read_waits,
    session_full,
)


class InboxTurns:
    """Turns in the tables of a store."""

    engine = "inbox"

    def __init__(self, database: QueueDatabase) -> None:
        self._database = database
        self._statements = Statements(database.sql)

    async def open(self) -> None:
        """Make the tables, or refuse those of a newer version."""
        await self._database.open()

    async def put(
        self,
        turn: QueuedTurn,
        *,
        delay: float = 0.0,
        priority: int = 0,
        limit: int | None = MOST_WAITING,
        connection: object = None,
    ) -> bool:
        """Put a turn after the others of its session; False where it is known already."""
        values: Values = {
            **turn.key._asdict(),
            "request_id": turn.request_id,
            "turn": encode_turn(turn),
            "priority": priority,
            "delay": max(delay, 0.0),
            "limit": limit if limit is not None else NO_LIMIT,
        }
        rows = await self._database.run(self._statements.put, values, connection=connection)
        if rows:
            return True
        # known, or too many wait: what is known is refused to nobody
        known = await self._database.run(self._statements.is_known, values, connection=connection)
        if not known:
            raise session_full(turn.key, limit)
        return False

    async def work(
        self, run: RunTurn, *, apps: Sequence[str], worker: str, slots: int, stop: StopSignal
    ) -> None:
        """Take turns of these apps and run up to `slots` at once, until `stop` is set."""
        await take_turns(self.source(apps=apps, worker=worker), run, slots=slots, stop=stop)

    def source(self, *, apps: Sequence[str], worker: str) -> "InboxSource":
        """The queue as one worker sees it."""
        return InboxSource(self._database, self._statements, apps, worker)

    async def recover(self, living: Living) -> int:
        """Hand on every turn whose owner does not live."""
        rows = await self._database.run(self._statements.owners, {})
        if not rows:
            return 0
        # asked after the owners: a worker that began in between lives, and keeps its turns
        alive = await living()
        handed_on = 0
        for owner, owned in rows:
            if str(owner) in alive:
                continue
            await self._database.forget_room(str(owner))
            values: Values = {"worker": owner, "owned": owned, **BLAME}
            handed_on += len(await self._database.run(self._statements.hand_on, values))
        return handed_on

    async def find(self, key: SessionKey, request_id: str) -> TurnInfo | None:
        """The turn of a request, or None."""
        values = {**key._asdict(), "request_id": request_id}
        rows = await self._database.run(self._statements.find, values)
        return _info(rows[0]) if rows else None

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
        values: Values = {
            "app_name": app_name or "",
            "status": status or "",
            "number": int(id) if id is not None else 0,
            "limit": limit,
        }
        rows = await self._database.run(self._statements.list, values)
        return [_info(row) for row in rows]

    async def retry(self, id: str) -> bool:
        """Put a turn that failed or was cancelled after the others of its session again."""
        if not id.isdecimal():
            return False
        rows = await self._database.run(self._statements.text, {"number": int(id)})
        if not rows:
            return False
        values: Values = {"number": int(id), "turn": mark_retried(str(rows[0][0]))}
        return bool(await self._database.run(self._statements.retry, values))

    async def cancel(self, id: str) -> bool:
        """Take a waiting turn out of the queue."""
        if not id.isdecimal():
            return False
        return bool(await self._database.run(self._statements.cancel, {"number": int(id)}))

    async def prune(self, *, keep: float, most: int) -> int:
        """Delete turns that were done at least `keep` seconds ago."""
        values: Values = {"keep": keep, "most": most}
        count = len(await self._database.run(self._statements.prune, values))
        await self._database.gather_counts()
        return count

    async def counts(self) -> dict[tuple[str, TurnStatus], int]:
        """How many turns there are, by the name of their app and by status."""
        rows = await self._database.counts(self.engine)
        return count_statuses(rows, {status: status for status in get_args(TurnStatus)})

    async def waits(self) -> dict[str, float]:
        """For how long the oldest turn of each app waits that a worker could take."""
        return read_waits(await self._database.run(self._statements.waits, {}))

    async def close(self) -> None:
        """Close the connections."""
        await self._database.close()


class InboxSource:
    """The inbox as one worker sees it."""

    def __init__(
        self, database: QueueDatabase, statements: "Statements", apps: Sequence[str], worker: str
    ) -> None:
        self._database = database
        self._statements = statements
        self._worker = worker
        request = TakeRequest(INBOX, list(apps), worker, statements.take(len(apps)))
        self._lines = LineReader(database, request, self._end_pauses)

    @property
    def is_told(self) -> bool:
        """Whether the database wakes this worker for turns, or it has to look."""
        return self._lines.is_told

    async def take(self, most: int) -> list[TakenTurn]:
        """Up to `most` turns, which are this worker's from now on."""
        rows = map(TurnRow.read, await self._lines.take(most))
        # an UPDATE gives its rows in any order
        ordered = sorted(rows, key=lambda row: (-row.priority, row.place or 0))
        return [
            TakenTurn.read(str(row.number), row.text, row.attempts or 0, row.kills or 0)
            for row in ordered
        ]

    async def _end_pauses(self) -> None:
        """Have turns taken from now on that are due."""
        # one at a time, so that they get their places in the order in which they are due
        while await self._database.run(self._statements.place_due, {}):
            pass
        await self._database.run(self._statements.end_pauses, {})

    async def drop_adrift(self, running: Collection[str]) -> int:
        """Give back what this worker owns and does not run."""
        values: Values = {"worker": self._worker, "running": [int(id) for id in running]}
        return len(await self._database.run(self._statements.drop_adrift, values))

    async def settle(self, id: str, outcome: TurnEnd) -> bool:
        """Write down what came of a turn; False where it is another worker's by now."""
        values: dict[str, Cell] = {"number": int(id), "worker": self._worker}
        match outcome.kind:
            case "again":
                statement = self._statements.again
                values |= {"after": outcome.after, "reason": outcome.reason}
            case "released":
                statement = self._statements.release
                values |= {"after": outcome.after}
            case _:
                statement = self._statements.end
                values |= {"status": outcome.kind, "reason": outcome.reason}
        is_ours = bool(await self._database.run(statement, values))
        if outcome.after > 0:
            self._database.hear()  # the next look says when it is due
        return is_ours

    async def news(self) -> None:
        """Wait until there may be a turn to take."""
        await self._lines.news()


_COLUMNS = (
    "number, turn, status, priority, attempts, kills, worker, reason, put_at, ended_at, due, place"
)


class Statements:
    """The statements of the inbox, as one database spells them."""

    def __init__(self, sql: SqlSpelling) -> None:
        self._sql = sql
        table, now = f"{sql.schema}turns", sql.now
        same = "app_name = :app_name AND user_id = :user_id AND session = :id"
        # A row is put with a place in line, or, delayed, with none: others pass it until it is due.
        self.put = f"""
            INSERT INTO {table} (app_name, user_id, session, request_id, turn, status, priority,
                                 put_at, due, place)
            SELECT :app_name, :user_id, :id, :request_id, :turn, 'waiting', :priority, {now},
                    CASE WHEN :delay > 0 THEN {now} + :delay END,
                    CASE WHEN :delay > 0 THEN NULL ELSE {sql.next_place} END
            WHERE :limit > (
                SELECT count(*) FROM (
                    SELECT 1 FROM {table} WHERE {same} AND status = 'waiting' LIMIT :limit) AS line)
            ON CONFLICT (app_name, user_id, session, request_id) DO NOTHING
            RETURNING number"""
        self.is_known = f"SELECT 1 FROM {table} WHERE {same} AND request_id = :request_id"
        self.place_due = f"""
            UPDATE {table} SET place = {sql.next_place}, put_at = due, due = NULL
            WHERE number = (
                SELECT number FROM {table}
                WHERE place IS NULL AND status = 'waiting' AND due <= (SELECT {now})
                ORDER BY due, number LIMIT 1 {sql.skip_locked})
            RETURNING number"""
        self.end_pauses = sql.end_pauses
        # only its owner ends a turn: a worker that was stopped may wake up when another has it
        mine = "number = :number AND worker = :worker AND status = 'running'"
        self.end = f"""
            UPDATE {table} SET status = :status, reason = :reason, ended_at = {now}
            WHERE {mine} RETURNING number"""
        self.again = f"""
            UPDATE {table} SET status = 'waiting', attempts = attempts + 1, reason = :reason,
                due = {now} + :after
            WHERE {mine} RETURNING number"""
        self.release = f"""
            UPDATE {table} SET status = 'waiting',
                due = CASE WHEN :after > 0 THEN {now} + :after END
            WHERE {mine} RETURNING number"""
        self.drop_adrift = f"""
            UPDATE {table} SET status = 'waiting'
            WHERE status = 'running' AND worker = :worker
                AND NOT ({sql.is_in.format("number", ":running")})
            RETURNING number"""
        self.owners = f"""
            SELECT worker, sum(owned) FROM (
                SELECT worker, 1 AS owned FROM {table} WHERE status = 'running' {sql.rooms}) AS each
            GROUP BY worker ORDER BY worker"""
        # A suspect runs when its worker has nothing else: next to others it only waited.
        kills = "kills + CASE WHEN kills < :suspect OR :owned = 1 THEN 1 ELSE 0 END"
        self.hand_on = f"""
            UPDATE {table} SET kills = {kills},
                status = CASE WHEN {kills} >= :most THEN 'failed' ELSE 'waiting' END,
                reason = CASE WHEN {kills} >= :most THEN :reason ELSE reason END,
                ended_at = CASE WHEN {kills} >= :most THEN {now} END
            WHERE status = 'running' AND worker = :worker RETURNING number"""
        self.find = f"SELECT {_COLUMNS} FROM {table} WHERE {same} AND request_id = :request_id"
        self.list = f"""
            SELECT {_COLUMNS} FROM {table}
            WHERE (:app_name = '' OR app_name = :app_name) AND (:status = '' OR status = :status)
                AND (:number = 0 OR number = :number)
            ORDER BY number DESC LIMIT :limit"""
        self.list = f"SELECT * FROM ({self.list}) AS newest ORDER BY number"
        self.text = f"SELECT turn FROM {table} WHERE number = :number"
        self.retry = f"""
            UPDATE {table} SET status = 'waiting', place = {sql.next_place}, due = NULL,
                put_at = {now}, attempts = 0, kills = 0, ended_at = NULL, turn = :turn
            WHERE number = :number AND status IN ('failed', 'cancelled')
            RETURNING number"""
        self.cancel = f"""
            UPDATE {table} SET status = 'cancelled', ended_at = {now}
            WHERE number = :number AND status = 'waiting' RETURNING number"""
        self.prune = f"""
            DELETE FROM {table} WHERE number IN (
                SELECT number FROM {table}
                WHERE status = 'done' AND ended_at <= (SELECT {now} - :keep)
                ORDER BY ended_at LIMIT :most)
            RETURNING number"""
        # Few turns run and many may wait: those that run are looked up once.
        self.waits = f"""
            SELECT app_name, {now} - min(coalesce(due, put_at)) FROM {table}
            WHERE status = 'waiting' AND (due IS NULL OR due <= {now})
                AND (app_name, user_id, session) NOT IN (
                    SELECT app_name, user_id, session FROM {table} WHERE status = 'running')
            GROUP BY app_name"""

    def take(self, apps: int) -> str:
        """The statement that takes turns of `apps` apps."""
        return self._sql.take(apps, _COLUMNS)


def _info(cells: Sequence[Cell]) -> TurnInfo:
    row = TurnRow.read(cells)
    return row.info(cast("TurnStatus", row.status))
