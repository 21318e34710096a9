"""What operators learn of a queue: who needs a person, how long turns wait, who serves an app."""

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path

import pytest

from tests.cli.run import weft as run_weft
from weft import Agent, Runner, tool
from weft.content import to_content
from weft.errors import RequestTaken
from weft.runtime import Result, Running
from weft.runtime.metrics import Metrics
from weft.session import SessionKey, Store
from weft.testing import ScriptedModel, call
from weft.turns import QueuedTurn, TurnEnd, TurnRunner, Turns, TurnStatus, Worker
from weft.turns.opening import put_message
from weft.turns.worker import gauge_queue, queue_database, served_apps


@pytest.fixture(
    params=("sqlite inbox", "postgres inbox", "postgres procrastinate", "postgres dbos")
)
def place(request: pytest.FixtureRequest) -> list[str]:
    """The kind of database, and of queue."""
    return str(request.param).split()


@asynccontextmanager
async def working(turns: Turns, app: str, run: object, worker: str) -> AsyncIterator[asyncio.Event]:
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


async def until(turns: Turns, app: str, status: TurnStatus, count: int = 1) -> None:
    """Wait until there are so many of them."""
    async with asyncio.timeout(120):
        while (await turns.counts()).get((app, status), 0) != count:  # noqa: ASYNC110
            await asyncio.sleep(0.05)


class Shop:
    """An agent that books with a tool whose first call never ends."""

    def __init__(self) -> None:
        self.begun = asyncio.Event()
        self.booked: list[str] = []

    def agent(self) -> Agent:
        @tool(effect="unsafe")
        async def book(item: str) -> str:
            """Book."""
            self.booked.append(item)
            if len(self.booked) == 1:
                self.begun.set()
                await asyncio.Event().wait()
            return "booked"

        model = ScriptedModel([call("book", item="lamp"), "It is on its way.", "Hello again."])
        return Agent("shop", model=model, tools=[book])


async def result_of(running: Running) -> Result:
    return await running


async def numbers_of(turns: Turns, app: str) -> dict[str, str]:
    """What a scrape reads of the app, by name and status."""
    numbers = Metrics()
    await gauge_queue(numbers, turns)
    lines = [line for line in numbers.text({}).splitlines() if f'app="{app}"' in line]
    return {
        line.split(" ")[0].replace(f'app="{app}"', "").strip("{},"): line.split(" ")[1]
        for line in lines
    }


@pytest.mark.parametrize("how", ["answers", "retry"])
async def test_a_turn_with_an_unknown_outcome_needs_a_person_until_one_has_answered(
    turns: Turns, store: Store, address: str, place: list[str], app: str, how: str, tmp_path: Path
) -> None:
    shop = Shop()
    agent, key = shop.agent(), SessionKey(app, "ada", "s")
    runner = Runner(agent, app_name=app, store=store)
    message = "A lamp, please."
    running = runner.run(message, user_id="ada", session_id="s", request_id="r1")
    task = asyncio.create_task(result_of(running))
    await shop.begun.wait()
    running.invocation.control.hand_over()  # to the log, this is as if its process had been killed
    task.cancel()
    await asyncio.wait([task])
    await put_message(turns, store, key, message, request_id="r1")
    run = TurnRunner({app: runner}, turns)
    async with working(turns, app, run, f"worker-{app}"):
        await until(turns, app, "failed")
        (info,) = await turns.list(app_name=app)
        assert (info.status, info.needs_person) == ("failed", True)
        assert info.reason.startswith("needs a person: nobody knows whether book (")
        assert run.outcomes == {(app, "needs_person"): 1}
        assert (await numbers_of(turns, app))["weft_turns_needing_person"] == "1"
        command = ("--store", address, "--engine", place[1], "--app", app)
        listed = await asyncio.to_thread(
            run_weft, tmp_path, "turns", "list", "--status", "failed", *command
        )
        assert "needs a person" in listed.stdout
        assert "find out whether the call ran" in listed.stderr
        # the next message of the session is answered, and the question stays open
        await put_message(turns, store, key, "Hello?", request_id="r2")
        await until(turns, app, "done")
        (question,) = await runner.pending(user_id="ada")
        assert question.kind == "unknown"
        answer = QueuedTurn(
            key=key,
            request_id="r3",
            message=None,
            invocation_id="r1",
            retry=(question.call_id,),
        )
        if how == "answers":
            from weft.runtime.resume import content_of

            session = await store.get(key)
            assert session is not None
            content = content_of(session, {question.call_id: "booked"})
            answer = QueuedTurn(key=key, request_id="r3", message=content)
        await turns.put(answer)
        await until(turns, app, "done", 3)
        assert not [one for one in await turns.list(app_name=app) if one.needs_person]
        assert (await numbers_of(turns, app))["weft_turns_needing_person"] == "0"
    assert shop.booked == ["lamp"] * (2 if how == "retry" else 1)
    session = await store.get(key)
    assert session is not None
    assert [event.text for event in session.events if event.author == "user" and event.text] == [
        "A lamp, please.",
        "Hello?",
    ]
    await runner.close()


async def test_how_long_the_oldest_turn_waits_that_a_worker_could_take(
    turns: Turns, app: str
) -> None:
    def turn(session: str, request: str) -> QueuedTurn:
        key = SessionKey(app, "ada", session)
        return QueuedTurn(key=key, request_id=request, message=to_content("hi"))

    assert app not in await turns.waits()
    await turns.put(turn("later", "r"), delay=600)
    assert app not in await turns.waits(), "it is not due"
    await turns.put(turn("s", "r1"))
    await asyncio.sleep(0.3)
    await turns.put(turn("s", "r2"))
    waited = (await turns.waits())[app]
    assert 0.3 <= waited < 60
    assert (await numbers_of(turns, app))["weft_queue_oldest_seconds"] != "0"
    begun, go = asyncio.Event(), asyncio.Event()

    async def run(turn: QueuedTurn) -> TurnEnd:
        begun.set()
        await go.wait()
        return TurnEnd("done")

    async with working(turns, app, run, f"w-{app}"):
        await begun.wait()
        assert app not in await turns.waits(), "the other one waits for its session"
        assert (await numbers_of(turns, app))["weft_queue_oldest_seconds"] == "0"
        go.set()
        await until(turns, app, "done", 2)
    for info in await turns.list(app_name=app, status="waiting"):
        await turns.cancel(info.turn.id)


async def test_a_turn_waits_from_when_it_is_due_or_retried(turns: Turns, app: str) -> None:
    async def put(session: str, delay: float = 0.0) -> str:
        turn = QueuedTurn(
            key=SessionKey(app, "ada", session), request_id=session, message=to_content("hi")
        )
        assert await turns.put(turn, delay=delay)
        return await id_of(session)

    async def id_of(session: str) -> str:
        (id,) = (
            info.turn.id
            for info in await turns.list(app_name=app)
            if info.turn.request_id == session
        )
        return id

    async def waited() -> float:
        return (await turns.waits())[app]

    late, again = await put("late", delay=6), await put("again")
    assert await turns.cancel(again)
    plain = await put("plain")
    await asyncio.sleep(3)
    assert 3 <= await waited() < 6
    await asyncio.sleep(4)
    assert await waited() >= 7, "one that was put first and was due later is not the oldest"
    assert await turns.cancel(plain)
    assert 1 <= await waited() < 6, "nobody works, and it is due"
    assert await turns.cancel(late)
    assert app not in await turns.waits()
    assert await turns.retry(again)
    assert await waited() < 5, "it counts from when it was retried"
    assert await turns.cancel(await id_of("again"))


async def test_a_delayed_turn_does_not_wait_before_it_is_due(turns: Turns, app: str) -> None:
    runs: list[str] = []
    go = asyncio.Event()

    async def run(turn: QueuedTurn) -> TurnEnd:
        runs.append(turn.request_id)
        await go.wait()
        return TurnEnd("done")

    async def put(request: str, delay: float = 0.0) -> None:
        key = SessionKey(app, "ada", request)
        await turns.put(
            QueuedTurn(key=key, request_id=request, message=to_content("hi")), delay=delay
        )

    for number in range(4):
        await put(f"busy{number}")
    async with working(turns, app, run, f"w-{app}"):  # with four slots
        async with asyncio.timeout(60):
            while len(runs) < 4:  # noqa: ASYNC110
                await asyncio.sleep(0.05)
        await put("late", delay=6)
        await asyncio.sleep(8)
        # the worker may have given it its place meanwhile: that must not change since when it waits
        waits = await turns.waits()
        go.set()
        assert 1 <= waits[app] < 6
        await until(turns, app, "done", 5)


async def test_a_request_id_with_another_message_is_refused(
    turns: Turns, store: Store, app: str
) -> None:
    key = SessionKey(app, "ada", "s")
    assert (await put_message(turns, store, key, "A lamp.", request_id="r"))[1]
    assert not (await put_message(turns, store, key, "A lamp.", request_id="r"))[1]
    with pytest.raises(RequestTaken, match="came with another message"):
        await put_message(turns, store, key, "A chair.", request_id="r")
    (info,) = await turns.list(app_name=app)
    assert info.turn.message == to_content("A lamp.")
    await turns.cancel(info.turn.id)


@pytest.mark.parametrize("kind", ["sqlite", "postgres"])
async def test_an_app_is_served_while_a_worker_lives(
    kind: str, tmp_path: Path, app: str, request: pytest.FixtureRequest
) -> None:
    path = f"sqlite:///{tmp_path}/weft.db"
    address = path if kind == "sqlite" else str(request.getfixturevalue("postgres_url"))
    worker = Worker(Runner(Shop().agent(), app_name=app, store=address), slots=1)
    database = queue_database(worker.store, worker.name)
    await database.open()
    assert app not in await served_apps(database)
    ready = asyncio.Event()
    work = asyncio.create_task(worker.run(ready=lambda _: ready.set()))
    await ready.wait()
    assert app in await served_apps(database)
    # the last worker was killed: nobody is there to declare it dead, but it gives no sign of life
    later = database.sql._replace(now=f"({database.sql.now} + 60)")
    patched = type("Later", (), {"sql": later, "run": staticmethod(database.run)})
    assert app not in await served_apps(patched)  # type: ignore[arg-type]
    worker.stop()
    await work
    await database.open()
    assert app not in await served_apps(database)
    await database.close()
