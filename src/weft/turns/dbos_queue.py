"""Turns as workflows of DBOS, in the database of the store: `pip install "weft[dbos]"`.

DBOS keeps the workflows in a schema of its own, `weft_dbos`, takes them, one at a time in each
session (a partition of its queue), and writes down how they ended, until the database has it. Its
own commands and pages show them. Three things are done here. The order in a session is that in
which turns were put, for DBOS goes by the clock. Turns of a dead worker are handed on, for DBOS
leaves it to others to know who lives. And a turn is known by its request, also when it is done.

What DBOS does otherwise than other queues: it takes sessions in any order, so there are no
priorities, and a turn that was handed on waits among the others. All workers of an app have the
same number of slots, that of the worker that started last. A turn that failed and is tried again
keeps its slot while it waits.

Top to bottom: the queue, where a turn goes in it, and what it needs.
"""

import asyncio
from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, cast

import msgspec

from weft.errors import UsageError
from weft.session import SessionKey
from weft.turns import dbos_tables as tables
from weft.turns.databases import ServerDatabase, lock_migrations, require_connection
from weft.turns.dbos_worker import DbosWorker
from weft.turns.inbox import poison_reason
from weft.turns.turn import (
    MOST_KILLS,
    SUSPECT_KILLS,
    Living,
    QueuedTurn,
    RunTurn,
    StopSignal,
    TurnInfo,
    TurnStatus,
    encode_turn,
)

if TYPE_CHECKING:
    from weft.stores.postgres_server import DatabaseAddress


class DbosTurns:
    """Turns as workflows of DBOS."""

    engine = "dbos"

    def __init__(self, address: "DatabaseAddress", worker: str) -> None:
        _require_dbos()
        self._address = address
        self._database = ServerDatabase(address, worker)
        self._is_open = False

    async def open(self) -> None:
        """Make the tables of Weft and of DBOS, or refuse those of another version."""
        if self._is_open:
            return
        await self._database.open()
        async with self._database.connection() as connection:
            if not await tables.has_tables(connection):
                # DBOS has a lock of its own. Not under ours: it makes an index that waits until
                # all older statements have ended, and one that waits for our lock would not end
                await asyncio.to_thread(tables.migrate, self._address.url)
                async with connection.transaction():
                    await lock_migrations(connection)
                    # asked again under the lock: another process may have made them meanwhile
                    if not await tables.has_tables(connection):
                        for statement in tables.TABLES:
                            await connection.execute(statement.encode())
        self._is_open = True

    async def put(
        self, turn: QueuedTurn, *, delay: float = 0.0, priority: int = 0, connection: object = None
    ) -> bool:
        """Put a turn behind the others of its session; False where it is known already."""
        if priority:
            raise UsageError(
                "DBOS takes sessions in any order: there are no priorities",
                where="Turns.put",
                hint="leave priority out, or use the engine procrastinate or inbox",
            )
        values = {
            **turn.key._asdict(),
            "request_id": turn.request_id,
            "turn": encode_turn(turn),
            "delay": max(delay, 0.0),
            **_place_of(turn.key),
        }
        await self.open()
        if connection is not None:
            return bool(await tables.execute(require_connection(connection), tables.PUT, values))
        return bool(await self._run(tables.PUT, values))

    async def work(
        self, run: RunTurn, *, apps: Sequence[str], worker: str, slots: int, stop: StopSignal
    ) -> None:
        """Take turns of these apps and run up to `slots` at once, until `stop` is set."""
        await self.open()
        part = DbosWorker(self._database, run, worker=worker, slots=slots, stop=stop)
        await asyncio.to_thread(part.launch, self._address.url, [*map(queue_of, apps)])
        try:
            await part.watch()
        finally:
            # whatever happens, DBOS must not go on in its threads
            await asyncio.shield(part.leave())

    async def recover(self, living: Living) -> int:
        """Hand on every turn whose owner does not live."""
        await self.open()
        owners = await self._run(tables.OWNERS, {})
        if not owners:
            return 0
        # asked behind the owners: a worker that began in between lives, and keeps its turns
        alive = await living()
        handed_on = 0
        for (owner,) in owners:
            if owner not in alive:
                values = {
                    "worker": owner,
                    "alone": tables.alone_note_of(str(owner)),
                    "suspect": SUSPECT_KILLS,
                    "most": MOST_KILLS,
                    "reason": poison_reason(MOST_KILLS),
                }
                handed_on += len(await self._run(tables.HAND_ON, values))
        return handed_on

    async def find(self, key: SessionKey, request_id: str) -> TurnInfo | None:
        """The turn of a request, or None."""
        infos = await self._infos(key=key, request_id=request_id)
        return infos[0] if infos else None

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
        return [*await self._infos(app_name=app_name, status=status, id=id, limit=limit)]

    async def _infos(
        self,
        *,
        key: SessionKey | None = None,
        request_id: str | None = None,
        app_name: str | None = None,
        status: TurnStatus | None = None,
        id: str | None = None,
        limit: int = 1,
    ) -> Sequence[TurnInfo]:
        await self.open()
        values = {
            "app_name": key.app_name if key is not None else app_name,
            "user_id": key.user_id if key is not None else None,
            "session": key.id if key is not None else None,
            "request_id": request_id,
            "number": int(id) if id is not None else None,
            "statuses": [each for each, ours in tables.STATUSES.items() if status in (None, ours)],
            "limit": limit,
        }
        rows = await self._run(tables.LIST, values)
        return [tables.DbosRow(*row).info() for row in rows]  # type: ignore[arg-type]

    async def retry(self, id: str) -> bool:
        """Have a turn that failed or was cancelled taken again, behind the others."""
        infos = await self.list(id=id)
        if not infos:
            return False
        turn = infos[0].turn
        again = encode_turn(msgspec.structs.replace(turn, retries=turn.retries + 1))
        values = {"number": int(id), "turn": again, **_place_of(turn.key)}
        return bool(await self._run(tables.RETRY, values))

    async def cancel(self, id: str) -> bool:
        """Take a waiting turn out of the queue."""
        if not id.isdecimal():
            return False
        await self.open()
        return bool(await self._run(tables.CANCEL, {"number": int(id)}))

    async def prune(self, *, keep: float, most: int) -> int:
        """Delete turns that were done so many seconds ago, with all that DBOS has of them."""
        await self.open()
        async with self._database.connection() as connection, connection.transaction():
            old = await tables.execute(connection, tables.OLD, {"keep": keep, "most": most})
            if old:
                numbers = [cast("int", number) for number, _ in old]
                # a turn has one workflow for each time that it was put
                ids = [f"{number:019}.{at}" for number, tries in cast("list[tuple[int, int]]", old)
                       for at in range(tries + 1)]  # fmt: skip
                values = {"numbers": numbers, "notes": [*map(tables.note_of, numbers)], "ids": ids}
                await tables.execute(connection, tables.FORGET, values)
        return len(old)

    async def counts(self) -> dict[tuple[str, TurnStatus], int]:
        """How many turns there are, by the name of their app and by status."""
        await self.open()
        counts: dict[tuple[str, TurnStatus], int] = {}
        rows = cast("list[tuple[str, str, int]]", await self._run(tables.COUNTS, {}))
        for app, status, count in rows:
            at = app, tables.STATUSES[status]
            counts[at] = counts.get(at, 0) + count
        return counts

    async def close(self) -> None:
        """Close the connections."""
        await self._database.close()

    async def _run(self, statement: str, values: Mapping[str, object]) -> "Sequence[tables.Row]":
        async with self._database.connection() as connection:
            return await tables.execute(connection, statement, values)


def queue_of(app_name: str) -> str:
    """The queue of an app."""
    return f"weft:{app_name}"


def _place_of(key: SessionKey) -> dict[str, str]:
    """Where a turn of a session goes: the queue of its app, and the session's line in it."""
    session = msgspec.json.encode([key.user_id, key.id]).decode()
    return {"queue": queue_of(key.app_name), "partition": session, "workflow": tables.WORKFLOW}


def _require_dbos() -> None:
    """Say what to install where DBOS is missing; it is slow to load, so it is only looked for."""
    import importlib.util

    if importlib.util.find_spec("dbos") is None:
        raise UsageError(
            "DBOS is not installed",
            where="the queue",
            hint='pip install "weft[dbos]", or use the engine inbox',
        )
