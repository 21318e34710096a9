"""What a queue forgets: the turns of a deleted user, in the tables of every engine."""

import asyncio
import sqlite3
from pathlib import Path
from uuid import uuid4

import psycopg
import pytest
from psycopg import sql

from tests.cli.run import weft
from weft import Agent, Runner
from weft.content import to_content
from weft.ir import Prompt
from weft.session import SessionKey, Store
from weft.stores import open_store
from weft.stores.artifacts import MemoryArtifacts
from weft.stores.upkeep import erase_sessions
from weft.testing import ScriptedModel
from weft.turns import QueuedTurn, TurnEnd, TurnRunner, Turns

PLACES = ("sqlite inbox", "postgres inbox", "postgres procrastinate", "postgres dbos")


@pytest.fixture(params=PLACES)
def place(request: pytest.FixtureRequest) -> list[str]:
    """The kind of database, and of queue: here with DBOS."""
    return str(request.param).split()


def rows_with(address: str, text: str) -> dict[str, int]:
    """How many rows of each table have these bytes in them, whatever the schema."""
    counts: dict[str, int] = {}
    if address.startswith("sqlite"):
        file = sqlite3.connect(address.removeprefix("sqlite:///"))
        for (name,) in file.execute("SELECT name FROM sqlite_master WHERE type = 'table'"):
            rows = file.execute(f'SELECT * FROM "{name}"').fetchall()
            counts[name] = sum(text in repr(row) for row in rows)
        file.close()
    else:
        with psycopg.connect(address) as connection:
            tables = connection.execute(
                "SELECT schemaname, tablename FROM pg_catalog.pg_tables"
                " WHERE schemaname NOT IN ('pg_catalog', 'information_schema')"
            ).fetchall()
            for schema, name in tables:
                query = sql.SQL("SELECT count(*) FROM {} AS t WHERE t::text LIKE {}").format(
                    sql.Identifier(schema, name), sql.Literal(f"%{text}%")
                )
                row = connection.execute(query).fetchone()
                assert row is not None
                counts[f"{schema}.{name}"] = row[0]
    return {name: count for name, count in counts.items() if count}


def files_with(folder: Path, text: str) -> list[str]:
    """The files of the store that have these bytes in them."""
    paths = sorted(folder.glob("weft.db*"))
    return [path.name for path in paths if text.encode() in path.read_bytes()]


async def work_until(turns: Turns, app: str, ended: int) -> None:
    """Work until so many turns have ended: those called `bad` fail, with words of the message."""

    async def run(turn: QueuedTurn) -> TurnEnd:
        kind = "failed" if turn.request_id.startswith("bad") else "done"
        return TurnEnd(kind, f"about {turn.message}" if kind == "failed" else "")

    stop = asyncio.Event()
    work = asyncio.create_task(turns.work(run, apps=[app], worker="w", slots=4, stop=stop))
    async with asyncio.timeout(60):
        while True:
            counts = await turns.counts()
            if counts.get((app, "done"), 0) + counts.get((app, "failed"), 0) >= ended:
                break
            await asyncio.sleep(0.05)
    stop.set()
    await work


def turn(app: str, user: str, request: str) -> QueuedTurn:
    """A turn that says who it is from."""
    return QueuedTurn(
        key=SessionKey(app, user, "s"), request_id=request, message=to_content(f"I am {user}")
    )


@pytest.mark.parametrize("way", ["runner", "command"])
async def test_nothing_of_a_deleted_user_is_left_in_a_queue(
    turns: Turns, store: Store, address: str, app: str, way: str, tmp_path: Path
) -> None:
    planted, other = f"ada-{uuid4().hex}", f"bob-{uuid4().hex}"
    for user in (planted, other):
        for request in ("fine", "bad"):
            assert await turns.put(turn(app, user, request))
    await work_until(turns, app, 4)
    for user in (planted, other):
        assert await turns.put(turn(app, user, "waits"))
        assert await turns.put(turn(app, user, "is-late"), delay=600)
    other_rows = rows_with(address, other)
    assert rows_with(address, planted) == other_rows != {}
    await store.create(SessionKey(app, planted, "s"))  # the command looks for users by sessions

    if way == "runner":
        runner = Runner(Agent("bot", model=ScriptedModel([])), store=store, app_name=app)
        await runner.delete_user(user_id=planted)
    else:
        options = ("--user", planted, "--store", address, "--yes")
        result = await asyncio.to_thread(weft, tmp_path, "sessions", "delete", *options)
        assert result.returncode == 0, result.stderr

    assert rows_with(address, planted) == {}
    assert rows_with(address, other) == other_rows
    if address.startswith("sqlite"):
        assert files_with(tmp_path, planted) == []
    requests = {info.turn.request_id: info.status for info in await turns.list(app_name=app)}
    expected = {"fine": "done", "bad": "failed", "waits": "waiting", "is-late": "waiting"}
    assert requests == expected
    assert await turns.put(turn(app, planted, "fine"))  # nobody remembers it


async def test_a_running_turn_of_a_deleted_user_is_stopped_and_the_next_is_not_taken(
    turns: Turns, store: Store, address: str, app: str
) -> None:
    planted, begun, asked = f"ada-{uuid4().hex}", asyncio.Event(), list[str]()

    async def answer(prompt: Prompt) -> str:
        asked.append(str(prompt))
        begun.set()
        await asyncio.sleep(600)
        return "late"

    agent = Agent("bot", model=ScriptedModel([answer] * 3))
    runner = Runner(agent, store=store, app_name=app)
    for request in ("first", "second"):
        assert await turns.put(turn(app, planted, request))
    stop = asyncio.Event()
    run = TurnRunner({app: runner}, turns)
    work = asyncio.create_task(turns.work(run, apps=[app], worker="w", slots=4, stop=stop))
    async with asyncio.timeout(60):
        await begun.wait()
        other = open_store(address)  # of another process
        await Runner(agent, store=other, app_name=app).delete_user(user_id=planted)
        await other.close()
        while run.active:  # noqa: ASYNC110
            await asyncio.sleep(0.02)
        assert await turns.put(turn(app, "bob", "next"))  # the worker goes on with others
        while len(asked) < 2:  # noqa: ASYNC110
            await asyncio.sleep(0.02)
        run.hand_over()
        stop.set()
        await work
    assert planted not in asked[1]
    assert rows_with(address, planted) == {}


async def test_turns_that_are_done_are_pruned_and_others_stay(
    turns: Turns, store: Store, address: str, app: str
) -> None:
    marks = {name: f"{name}-{uuid4().hex}" for name in ("fine", "good", "bad", "stopped", "waits")}
    for name in ("fine", "good", "bad"):
        assert await turns.put(turn(app, "ada", marks[name]))
    await work_until(turns, app, 3)
    for name in ("stopped", "waits"):
        assert await turns.put(turn(app, "ada", marks[name]))
    (stopped,) = [info for info in await turns.list(app_name=app) if "stop" in info.turn.request_id]
    assert await turns.cancel(stopped.turn.id)

    assert await turns.prune(keep=3600.0, most=1000) == 0
    infos = await turns.list(app_name=app)
    assert len(infos) == 5
    assert all(info.put_at for info in infos)
    assert [info.turn.request_id for info in infos if not info.ended_at] == [marks["waits"]]
    assert await turns.prune(keep=0.0, most=1) == 1  # a batch is no larger than that
    while await turns.prune(keep=0.0, most=1):  # also what other tests have left
        pass
    assert rows_with(address, marks["fine"]) == rows_with(address, marks["good"]) == {}
    left = {info.turn.request_id: info.status for info in await turns.list(app_name=app)}
    assert left == {
        marks["bad"]: "failed",
        marks["stopped"]: "cancelled",
        marks["waits"]: "waiting",
    }
    assert not await turns.put(turn(app, "ada", marks["waits"]))
    assert await turns.retry((await turns.list(app_name=app, status="failed"))[0].turn.id)
    assert await turns.put(turn(app, "ada", marks["fine"]))
    assert [info.status for info in await turns.list(app_name=app)].count("waiting") == 3


@pytest.mark.parametrize("way", ["runner", "prune"])
async def test_the_turns_of_a_deleted_session_go_with_it_and_no_others(
    turns: Turns, store: Store, address: str, app: str, way: str, tmp_path: Path
) -> None:
    planted = f"ada-{uuid4().hex}"
    runner = Runner(Agent("bot", model=ScriptedModel([])), store=store, app_name=app)
    for id in ("gone", "stays"):
        await store.create(SessionKey(app, planted, id))
        for request in ("fine", "bad"):
            assert await turns.put(in_session(app, planted, id, request))
    await work_until(turns, app, 4)
    for id in ("gone", "stays"):
        assert await turns.put(in_session(app, planted, id, "waits"))
        assert await turns.put(in_session(app, planted, id, "is-late"), delay=600)
    if way == "runner":
        await runner.delete(user_id=planted, session_id="gone")
    else:
        await erase_sessions(store, MemoryArtifacts(), [SessionKey(app, planted, "gone")])
    infos = await turns.list(app_name=app)
    assert {info.turn.key.id for info in infos} == {"stays"}
    assert {info.turn.request_id: info.status for info in infos} == {
        "fine": "done",
        "bad": "failed",
        "waits": "waiting",
        "is-late": "waiting",
    }
    assert rows_with(address, "said in gone") == {}


def in_session(app: str, user: str, session: str, request: str) -> QueuedTurn:
    """A turn that says which session it is in."""
    message = to_content(f"said in {session}")
    return QueuedTurn(key=SessionKey(app, user, session), request_id=request, message=message)


async def test_a_user_who_has_nothing_but_turns_is_deleted_by_command(
    turns: Turns, address: str, app: str, tmp_path: Path
) -> None:
    planted = f"ada-{uuid4().hex}"
    assert await turns.put(turn(app, planted, "waits"))
    options = ("--user", planted, "--store", address)
    asked = await asyncio.to_thread(weft, tmp_path, "sessions", "delete", *options)
    assert "queued turns" in asked.stdout + asked.stderr
    assert rows_with(address, planted) != {}
    result = await asyncio.to_thread(weft, tmp_path, "sessions", "delete", *options, "--yes")
    assert result.returncode == 0, result.stderr
    assert rows_with(address, planted) == {}
    nobody = await asyncio.to_thread(weft, tmp_path, "sessions", "delete", *options, "--yes")
    assert nobody.returncode == 2
    assert "has no session here" in nobody.stderr or "there is no" in nobody.stderr


@pytest.mark.parametrize("requires_session", [True, False])
async def test_a_turn_that_waits_for_a_session_which_is_deleted_makes_no_new_one(
    store: Store,
    turns: Turns,
    app: str,
    requires_session: bool,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """It was taken before, and waits for the lease that the one who deletes has."""
    runner = Runner(Agent("bot", model=ScriptedModel(["Hello."])), store=store, app_name=app)
    key = SessionKey(app, "ada", "s")
    await store.create(key)
    lease = await store.lease(key, busy="queue", interrupt=lambda: None)
    waits = QueuedTurn(
        key=key, request_id="r", message=to_content("hi"), requires_session=requires_session
    )
    assert await turns.put(waits)
    info = await turns.find(key, "r")
    assert info is not None
    waiting, lease_of = asyncio.Event(), store.lease

    def leased(*arguments: object, **options: object) -> object:
        waiting.set()
        return lease_of(*arguments, **options)  # type: ignore[arg-type]

    monkeypatch.setattr(store, "lease", leased)
    running = asyncio.create_task(TurnRunner({app: runner}, turns)(info.turn))
    async with asyncio.timeout(60):
        await waiting.wait()
    await asyncio.sleep(0.2)
    assert not running.done()
    await store.delete(key)
    await lease.release()
    assert await running == TurnEnd("failed", "its session was deleted")
    assert await store.get(key) is None


async def test_a_retried_turn_is_said_again_where_the_conversation_went_on(
    store: Store, turns: Turns, app: str
) -> None:
    """A turn was stopped, the next was answered; who has the first taken again wants an answer."""
    begun = asyncio.Event()

    async def slow(prompt: Prompt) -> str:
        begun.set()
        await asyncio.sleep(600)
        return "late"

    runner = Runner(
        Agent("bot", model=ScriptedModel([slow, "To the second.", "To the first."])),
        store=store,
        app_name=app,
    )
    run, stop = TurnRunner({app: runner}, turns), asyncio.Event()
    assert await turns.put(turn(app, "ada", "first"))
    work = asyncio.create_task(turns.work(run, apps=[app], worker="w", slots=4, stop=stop))
    key = SessionKey(app, "ada", "s")

    async def until(request: str, status: str) -> str:
        async with asyncio.timeout(60):
            while True:
                info = await turns.find(key, request)
                if info is not None and info.status == status:
                    return info.turn.id
                await asyncio.sleep(0.05)

    async with asyncio.timeout(60):
        await begun.wait()
    await runner.cancel(user_id="ada", session_id="s")
    await until("first", "cancelled")
    assert await turns.put(turn(app, "ada", "second"))
    await until("second", "done")
    id = await until("first", "cancelled")
    assert await turns.retry(id)
    await until("first", "done")
    stop.set()
    await work
    session = await store.get(key)
    assert session is not None
    spoken = [event.text for event in session.events if event.text]
    assert spoken[-4:] == ["I am ada", "To the second.", "I am ada", "To the first."]
    info = await turns.find(key, "first")
    assert info is not None
    assert info.turn.retries == 1
