"""The lines of a queue: the database keeps them, whatever is done to the turns and by whom."""

import asyncio
import random
import sqlite3
from collections.abc import AsyncIterator, Callable
from contextlib import closing
from itertools import count
from typing import cast

import psycopg
import pytest

from tests.turns.test_queues import OwnedTurns, take, turn
from weft.content import to_content
from weft.errors import SessionFull, StoreError
from weft.session import SessionKey, Store
from weft.session.store import ErasingStore
from weft.turns import QueuedTurn, TurnEnd, Turns, open_turns
from weft.turns.databases import ServerDatabase, TakeRequest, TakeResult
from weft.turns.procrastinate_queue import queue_of

Row = tuple[object, ...]
Sql = Callable[[str], list[Row]]


@pytest.fixture
def sql(address: str) -> Sql:
    """Runs a statement from outside of Weft."""

    def run(statement: str) -> list[Row]:
        if address.startswith("sqlite"):
            with closing(sqlite3.connect(address.removeprefix("sqlite:///"), timeout=60)) as file:
                rows = file.execute(statement.replace("weft.", "")).fetchall()
                file.commit()
                return rows
        with psycopg.connect(address, autocommit=True) as server:
            cursor = server.execute(statement.encode())
            return cursor.fetchall() if cursor.description is not None else []

    return run


def stored_lines(sql: Sql, place: list[str], app: str) -> dict[str, Row]:
    """The lines as the database keeps them: by session the first turn, and whether it is free."""
    if place == ["sqlite", "inbox"]:
        rows = sql(f"SELECT session, number, is_free = 1 FROM turn_lines WHERE app_name = '{app}'")
    else:
        app = app if place[1] == "inbox" else queue_of(app)
        rows = sql(
            f"""SELECT line::json ->> 2, number, is_free FROM weft.turn_lines
            WHERE queue = '{place[1]}' AND app = '{app}'"""
        )
    return {str(session): (number, bool(is_free)) for session, number, is_free in rows}


def true_lines(sql: Sql, place: list[str], app: str) -> dict[str, Row]:
    """The lines as the turns themselves tell them."""
    if place[1] == "inbox":
        rows = sql(
            f"""SELECT session, number, status = 'waiting' FROM weft.turns
            WHERE app_name = '{app}' AND place IS NOT NULL AND status IN ('waiting', 'running')
            ORDER BY place DESC"""
        )
    else:
        rows = sql(
            f"""SELECT lock::json ->> 2, id, status = 'todo' FROM procrastinate_jobs
            WHERE queue_name = '{queue_of(app)}' AND lock IS NOT NULL
                AND status IN ('todo', 'doing')
            ORDER BY status = 'doing', priority, id DESC"""
        )
    return {str(session): (number, bool(is_free)) for session, number, is_free in rows}


async def require_lines(turns: Turns, sql: Sql, place: list[str], app: str) -> None:
    """The database keeps what the turns tell, and counts them as they are."""
    assert stored_lines(sql, place, app) == true_lines(sql, place, app)
    infos = await turns.list(app_name=app, limit=10_000)
    counts = {status: n for (of, status), n in (await turns.counts()).items() if of == app}
    assert counts == {
        status: sum(info.status == status for info in infos)
        for status in {info.status for info in infos}
    }


@pytest.mark.parametrize("seed", range(3))
async def test_whatever_is_done_the_lines_and_counts_tell_what_the_turns_are(
    store: Store, turns: OwnedTurns, app: str, sql: Sql, place: list[str], seed: int
) -> None:
    await turns.open()
    chance, requests = random.Random(seed), count()
    source = turns.source(apps=[app], worker=f"w-{app}")
    running: list[str] = []
    sessions = [f"s{n}" for n in range(4)]

    async def nobody() -> frozenset[str]:
        return frozenset()

    async def put() -> None:
        one = turn(app, chance.choice(sessions), f"r{next(requests)}")
        delay = chance.choice((0.0, 0.0, 0.0, 0.01))
        await turns.put(one, delay=delay, priority=chance.choice((0, 0, 5)))

    async def take_some() -> None:
        running.extend(one.id for one in await source.take(chance.randint(1, 3)))

    async def settle() -> None:
        if running:
            id = running.pop(chance.randrange(len(running)))
            kinds = (
                TurnEnd("done"),
                TurnEnd("failed", "x"),
                TurnEnd("cancelled", "x"),
                TurnEnd("again", "x", 0.01),
                TurnEnd("again", "x", 60.0),
                TurnEnd("released"),
            )
            assert await source.settle(id, chance.choice(kinds))

    async def change_one() -> None:
        infos = await turns.list(app_name=app)
        if infos:
            info = chance.choice(infos)
            if info.turn.id not in running:
                await chance.choice((turns.cancel, turns.retry))(info.turn.id)

    async def forget_session() -> None:
        session = chance.choice(sessions)
        gone = {info.turn.id for info in await turns.list() if info.turn.key.id == session}
        await cast("ErasingStore", store).erase_turns(app, "ada", session)
        running[:] = [id for id in running if id not in gone]

    async def drop() -> None:
        await source.drop_adrift([])
        running.clear()

    async def hand_on() -> None:
        nonlocal source
        await turns.recover(nobody)
        running.clear()
        source = turns.source(apps=[app], worker=f"w-{app}")  # it was declared dead

    async def prune() -> None:
        await turns.prune(keep=0.0, most=chance.randint(1, 5))

    steps = [put] * 6 + [take_some] * 4 + [settle] * 5 + [change_one, drop, hand_on, prune]
    for _ in range(60):
        await chance.choice([*steps, forget_session])()
        await require_lines(turns, sql, place, app)


async def test_turns_that_are_put_and_ended_at_once_are_never_left_behind(
    address: str, app: str, sql: Sql, place: list[str], store: Store
) -> None:
    """Four workers and four who put, on three sessions: who ends one meets who puts the next."""
    queues = [open_turns(store, place[1])]
    stores = [store]
    if place[0] == "postgres":  # of other processes
        from weft.stores import open_store

        stores += [open_store(address) for _ in range(3)]
        queues += [open_turns(one, place[1]) for one in stores[1:]]
    stop, ran = asyncio.Event(), list[tuple[str, str]]()
    total, running = 120, set[str]()

    async def run(one: QueuedTurn) -> TurnEnd:
        assert one.key.id not in running, "one at a time in a session"
        running.add(one.key.id)
        await asyncio.sleep(0)
        running.remove(one.key.id)
        ran.append((one.key.id, one.request_id))
        return TurnEnd("done")

    async def put_all(at: int) -> None:
        for n in range(at, total, 4):
            key = SessionKey(app, "ada", f"s{n % 3}")
            one = QueuedTurn(key=key, request_id=f"r{n}", message=to_content("x"))
            await queues[at % len(queues)].put(one)

    working = [
        asyncio.create_task(queue.work(run, apps=[app], worker=f"w{at}-{app}", slots=2, stop=stop))
        for at, queue in enumerate(queues)
    ]
    await asyncio.gather(*map(put_all, range(4)))
    async with asyncio.timeout(120):
        while len(ran) < total:  # noqa: ASYNC110
            await asyncio.sleep(0.02)
    stop.set()
    await asyncio.gather(*working)
    assert len({*ran}) == total
    await require_lines(queues[0], sql, place, app)
    assert stored_lines(sql, place, app) == {}
    for queue in queues:
        await queue.close()
    for one in stores[1:]:
        await one.close()


async def test_a_session_has_room_for_so_many_turns_and_what_is_known_stays_known(
    turns: OwnedTurns, app: str, store: Store
) -> None:
    for n in range(3):
        assert await turns.put(turn(app, "s", f"r{n}"), limit=3)
    with pytest.raises(SessionFull, match="3 turns of the session wait already") as caught:
        await turns.put(turn(app, "s", "r3"), limit=3)
    assert isinstance(caught.value, StoreError)
    assert not await turns.put(turn(app, "s", "r1"), limit=3), "it is known"
    assert await turns.put(turn(app, "t", "r3"), limit=3), "another session has its own line"
    source = turns.source(apps=[app], worker="w")
    assert len(await take(source)) == 2
    assert await turns.put(turn(app, "s", "r3"), limit=3), "one of the three runs now"
    for n in range(200):
        assert await turns.put(turn(app, "u", f"r{n}"), limit=None)
    with pytest.raises(SessionFull, match="100 turns"):
        await turns.put(turn(app, "u", "r200"))
    session = await store.create(SessionKey(app, "ada", "u"))
    with pytest.raises(SessionFull):
        async with store.transaction(session) as transaction:
            await turns.put(turn(app, "u", "more"), connection=transaction.connection)


@pytest.fixture
async def looks(
    turns: OwnedTurns, app: str, place: list[str], monkeypatch: pytest.MonkeyPatch
) -> AsyncIterator[list[str]]:
    """Three workers that wait to be woken, on PostgreSQL: the list of their looks for turns."""
    if place[0] == "sqlite":
        pytest.skip("a file tells nobody that it grew")
    monkeypatch.setattr(ServerDatabase, "pause", 600.0)  # nobody looks by itself
    looks: list[str] = []
    plain, stop = ServerDatabase.take, asyncio.Event()

    async def counted(self: ServerDatabase, request: TakeRequest) -> TakeResult:
        looks.append(request.worker)
        return await plain(self, request)

    async def run(one: QueuedTurn) -> TurnEnd:
        return TurnEnd("done")

    monkeypatch.setattr(ServerDatabase, "take", counted)
    queues = [open_turns(database_of(turns).url, place[1]) for _ in range(3)]
    working: list[asyncio.Task[None]] = []
    for at, queue in enumerate(queues):
        work = queue.work(run, apps=[app], worker=f"w{at}-{app}", slots=4, stop=stop)
        working.append(asyncio.create_task(work))
    async with asyncio.timeout(60):
        while not all(map(waits, map(database_of, queues))):  # noqa: ASYNC110
            await asyncio.sleep(0.02)
    yield looks
    stop.set()
    await asyncio.gather(*working)
    for queue in queues:
        await queue.close()


def waits(database: ServerDatabase) -> bool:
    """Whether a worker has looked since it listens, and has nothing to look for."""
    return database.is_told and database._has_room is True and not database._heard.is_set()


def database_of(turns: Turns) -> ServerDatabase:
    return cast("ServerDatabase", turns._database)  # type: ignore[attr-defined]


async def test_a_put_wakes_one_of_the_workers_that_wait(
    turns: OwnedTurns, app: str, looks: list[str]
) -> None:
    for n in range(20):
        looks.clear()
        await turns.put(turn(app, f"s{n}", "r"))
        async with asyncio.timeout(60):
            while (await turns.counts()).get((app, "done"), 0) <= n:  # noqa: ASYNC110
                await asyncio.sleep(0.01)
        assert len(looks) == 1, looks


async def test_what_waits_behind_a_turn_is_taken_when_that_ends_and_a_delayed_one_in_time(
    turns: OwnedTurns, app: str, looks: list[str]
) -> None:
    looks.clear()
    for n in range(30):
        await turns.put(turn(app, "s", f"r{n}"))
    await turns.put(turn(app, "late", "r"), delay=0.5)
    async with asyncio.timeout(120):
        while (await turns.counts()).get((app, "done"), 0) < 31:  # noqa: ASYNC110
            await asyncio.sleep(0.05)
    assert looks
