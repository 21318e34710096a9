"""Turns as workflows of DBOS: what it keeps, what it is told, and what it cannot do."""

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from uuid import uuid4

import psycopg
import pytest
import sqlalchemy
from psycopg.conninfo import conninfo_to_dict

from weft import Agent, Event, Runner
from weft.content import to_content
from weft.errors import UsageError
from weft.session import SessionKey
from weft.stores import open_store
from weft.testing import ScriptedModel
from weft.turns import QueuedTurn, TurnEnd, TurnRunner, Turns, TurnStatus, open_turns
from weft.turns.dbos_queue import dbos_engine
from weft.turns.opening import put_message

KEY = SessionKey("shop", "ada", "s")


@pytest.fixture
def app() -> str:
    return f"app_{uuid4().hex}"


@pytest.fixture
async def turns(postgres_url: str) -> AsyncIterator[Turns]:
    store = open_store(postgres_url)
    turns = open_turns(store, "dbos")
    yield turns
    await turns.close()
    await store.close()


def turn(app: str, session: str, request: str) -> QueuedTurn:
    return QueuedTurn(
        key=SessionKey(app, "ada", session), request_id=request, message=to_content("hi")
    )


async def until(turns: Turns, app: str, status: TurnStatus, count: int) -> None:
    """Wait until so many turns of the app are there."""
    async with asyncio.timeout(60):
        while (await turns.counts()).get((app, status), 0) < count:  # noqa: ASYNC110
            await asyncio.sleep(0.05)


@asynccontextmanager
async def working(turns: Turns, app: str, run: object, worker: str = "w1") -> AsyncIterator[None]:
    """A worker in this process."""
    stop = asyncio.Event()
    task = asyncio.create_task(
        turns.work(run, apps=[app], worker=worker, slots=4, stop=stop)  # type: ignore[arg-type]
    )
    try:
        yield
    finally:
        stop.set()
        await task


async def test_how_turns_end_is_what_dbos_has_of_them(
    turns: Turns, app: str, postgres_url: str
) -> None:
    seen: list[tuple[str, str, int]] = []
    kinds = {"fails": "failed", "stopped": "cancelled"}

    async def run(turn: QueuedTurn) -> TurnEnd:
        seen.append((turn.key.id, turn.request_id, turn.attempts))
        if turn.request_id == "again" and not turn.attempts:
            return TurnEnd("again", "not yet", 0.01)
        kind = kinds.get(turn.request_id, "done")
        return TurnEnd(kind, "" if kind == "done" else "because")  # type: ignore[arg-type]

    for request in ("first", "again", "fails", "stopped", "last"):
        assert await turns.put(turn(app, "s", request))
    assert await turns.put(turn(app, "late", "r"), delay=0.5)
    assert not await turns.put(turn(app, "s", "fails"))
    assert [info.status for info in await turns.list(app_name=app)] == ["waiting"] * 6
    async with working(turns, app, run):
        await until(turns, app, "done", 4)
        in_session = [one[1:] for one in seen if one[0] == "s"]
        assert in_session == [
            ("first", 0), ("again", 0), ("again", 1), ("fails", 0), ("stopped", 0), ("last", 0),
        ]  # fmt: skip
        infos = {info.turn.request_id: info for info in await turns.list(app_name=app)}
        assert {name: info.status for name, info in infos.items()} == {
            "first": "done", "again": "done", "fails": "failed", "stopped": "cancelled",
            "last": "done", "r": "done",
        }  # fmt: skip
        assert (infos["fails"].reason, infos["fails"].worker) == ("because", "w1")
        assert infos["again"].turn.attempts == 1
        with psycopg.connect(postgres_url) as server:
            statuses = server.execute(
                "SELECT status FROM weft_dbos.workflow_status WHERE queue_name = %s"
                " ORDER BY workflow_uuid",
                (f"weft:{app}",),
            ).fetchall()
        names = [status for (status,) in statuses]
        assert names == ["SUCCESS", "SUCCESS", "ERROR", "CANCELLED", "SUCCESS", "SUCCESS"]

        kinds.clear()
        assert await turns.retry(infos["fails"].turn.id)
        assert not await turns.retry(infos["fails"].turn.id), "it waits already, or is done"
        assert await turns.retry(infos["stopped"].turn.id)
        assert not await turns.retry(infos["last"].turn.id)
        await until(turns, app, "done", 6)
        with pytest.raises(UsageError, match="has a worker on DBOS already"):
            await turns.work(run, apps=[app], worker="w2", slots=1, stop=asyncio.Event())
    assert not await turns.put(turn(app, "s", "fails")), "it is known for ever"


async def test_two_that_open_a_new_database_at_once_do_not_wait_for_each_other(
    postgres_url: str,
) -> None:
    name = f"new_{uuid4().hex[:8]}"
    with psycopg.connect(postgres_url, autocommit=True) as connection:
        connection.execute(f"CREATE DATABASE {name}".encode())
    parts = conninfo_to_dict(postgres_url)
    url = f"postgresql://{parts.get('user', '')}@/{name}?host={parts['host']}"
    stores = [open_store(url) for _ in range(3)]
    opened = [open_turns(store, "dbos") for store in stores]
    async with asyncio.timeout(120):
        put = [one.put(turn("app", "s", f"r{n}")) for n, one in enumerate(opened)]
        assert await asyncio.gather(*put) == [True] * 3
    assert await opened[0].counts() == {("app", "waiting"): 3}
    for one in opened:
        await one.close()
    for store in stores:
        await store.close()


async def test_a_waiting_turn_is_cancelled(turns: Turns, app: str) -> None:
    await turns.put(turn(app, "s", "r1"))
    await turns.put(turn(app, "late", "r1"), delay=60)
    first, second = await turns.list(app_name=app)
    assert second.due is not None
    assert await turns.cancel(first.turn.id)
    assert not await turns.cancel(first.turn.id)
    assert await turns.cancel(second.turn.id)
    assert not await turns.cancel("no number")
    assert not await turns.retry("0")
    assert (await turns.counts())[app, "cancelled"] == 2


async def test_a_turn_is_put_in_the_transaction_of_the_store(
    turns: Turns, app: str, postgres_url: str
) -> None:
    store = open_store(postgres_url)
    session = await store.create(SessionKey(app, "ada", "s"))

    async def put_and_fail() -> None:
        async with store.transaction(session) as transaction:
            assert await turns.put(turn(app, "s", "r1"), connection=transaction.connection)
            raise RuntimeError("no")

    with pytest.raises(RuntimeError, match="no"):
        await put_and_fail()
    assert await turns.find(SessionKey(app, "ada", "s"), "r1") is None
    async with store.transaction(session) as transaction:
        await transaction.append(Event(author="user", content=to_content("noted")))
        assert await turns.put(turn(app, "s", "r1"), connection=transaction.connection)
        assert not await turns.put(turn(app, "s", "r1"), connection=transaction.connection)
    assert await turns.find(SessionKey(app, "ada", "s"), "r1") is not None
    with pytest.raises(UsageError, match="is not a connection to put a turn with"):
        await turns.put(turn(app, "s", "r2"), connection=object())
    await store.close()


async def test_a_priority_is_refused(turns: Turns, app: str) -> None:
    with pytest.raises(UsageError, match="there are no priorities"):
        await turns.put(turn(app, "s", "r1"), priority=1)


async def test_a_worker_that_stops_gives_its_turns_back(turns: Turns, app: str) -> None:
    begun = asyncio.Event()
    release = asyncio.Event()

    async def hold(turn: QueuedTurn) -> TurnEnd:
        begun.set()
        await release.wait()
        return TurnEnd("released")

    await turns.put(turn(app, "s", "r1"))
    async with working(turns, app, hold):
        await begun.wait()
        (info,) = await turns.list(app_name=app)
        assert (info.status, info.worker) == ("running", "w1")
        release.set()
    (info,) = await turns.list(app_name=app)
    assert (info.status, info.kills) == ("waiting", 0)

    async def run(turn: QueuedTurn) -> TurnEnd:
        return TurnEnd("done")

    async with working(turns, app, run, "w2"):
        await until(turns, app, "done", 1)


async def test_a_suspect_runs_alone_and_a_death_is_counted_for_it_only(
    turns: Turns, app: str, postgres_url: str
) -> None:
    """Two workers die with all turns, the third while one of them runs alone."""
    for session in ("a", "b", "x", "y"):
        await turns.put(turn(app, session, "r"))
    infos = {info.turn.key.id: info for info in await turns.list(app_name=app)}
    with psycopg.connect(postgres_url) as server:
        server.execute(
            "INSERT INTO weft.turn_notes (turn, kills) VALUES (%s, 2), (%s, 2)",
            [f"dbos:{infos[session].turn.id}" for session in ("a", "b")],
        )
    running: set[str] = set()
    together: list[set[str]] = []
    alone = asyncio.Event()
    release = asyncio.Event()

    async def run(turn: QueuedTurn) -> TurnEnd:
        running.add(turn.key.id)
        if turn.key.id in ("a", "b"):
            alone.set()
            await release.wait()
        await asyncio.sleep(0.05)
        together.append({*running})
        running.remove(turn.key.id)
        return TurnEnd("done")

    async def nobody() -> frozenset[str]:
        return frozenset()

    async with working(turns, app, run):
        await alone.wait()
        (guilty,) = running
        # others find the worker dead: what DBOS has taken meanwhile is not to blame
        await turns.recover(nobody)
        infos = {info.turn.key.id: info for info in await turns.list(app_name=app)}
        (other,) = {"a", "b"} - {guilty}
        release.set()
        async with asyncio.timeout(60):
            while (await turns.list(id=infos[other].turn.id))[0].status != "done":  # noqa: ASYNC110
                await asyncio.sleep(0.05)
    assert (infos[guilty].status, infos[guilty].kills) == ("failed", 3)
    assert {info.kills for name, info in infos.items() if name in "xy"} == {0}
    assert infos[other].kills == 2
    first, *rest = [sessions for sessions in together if sessions & {"a", "b"}]
    assert first == {guilty}
    # more than once, if the worker that is not dead had it already: a real run is known by its id
    assert rest == [{other}] * len(rest) != []
    with psycopg.connect(postgres_url) as server:
        notes = server.execute("SELECT 1 FROM weft.turn_notes WHERE turn LIKE 'dbos:alone:%'")
        assert notes.fetchall() == []


async def test_turns_run_with_runners(turns: Turns, app: str, postgres_url: str) -> None:
    store = open_store(postgres_url)
    model = ScriptedModel([f"answer {n}" for n in range(6)])
    runner = Runner(Agent("bot", model=model), app_name=app, store=store)
    run = TurnRunner({app: runner}, turns)
    async with working(turns, app, run):
        for n in range(6):
            key = SessionKey(app, "ada", f"s{n % 2}")
            for _ in range(2):
                await put_message(turns, store, key, f"question {n}", request_id=f"r{n}")
        await until(turns, app, "done", 6)
    for at in range(2):
        session = await store.get(SessionKey(app, "ada", f"s{at}"))
        assert session is not None
        said = [event.text for event in session.events if event.author == "user"]
        assert said == [f"question {n}" for n in range(at, 6, 2)]
    await store.close()


def test_without_the_package_the_extra_is_named(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("importlib.util.find_spec", lambda name: None)
    with pytest.raises(UsageError, match="DBOS is not installed"):
        open_turns("postgresql://localhost/none", "dbos")


async def test_a_worker_that_starts_while_the_database_fails_over_waits_for_it(
    turns: Turns, app: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    starts = 0

    def engine_of_the_standby(url: str, worker: str) -> sqlalchemy.Engine:
        nonlocal starts
        starts += 1
        return dbos_engine(url if starts > 2 else "postgresql:///lost?host=/nowhere", worker)

    async def run(one: QueuedTurn) -> TurnEnd:
        return TurnEnd("done")

    monkeypatch.setattr("weft.turns.dbos_queue.dbos_engine", engine_of_the_standby)
    await turns.put(turn(app, "s", "r"))
    async with working(turns, app, run):
        await until(turns, app, "done", 1)
    assert starts == 3
