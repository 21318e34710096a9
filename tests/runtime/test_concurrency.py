"""Many sessions at once, and many runs of one session: nothing is lost, nothing mixed up."""

import asyncio
import re
from collections.abc import AsyncIterator, Callable, Iterator
from pathlib import Path
from uuid import uuid4

import pytest

from tests.runtime.logs import check_log, quietly, stored
from tests.runtime.turn_worker import APP, bot
from tests.support.forked import ForkedProgram
from weft import Agent, Content, ModelResponse, Part, RunConfig, Runner, ToolContext
from weft.content import call_part
from weft.errors import SessionBusy
from weft.ir import Prompt
from weft.session import Busy, Lease, MemoryStore, Session, SessionKey, Store
from weft.stores import open_store
from weft.testing import ScriptedModel, call, delayed
from weft.values import JsonObject

KEY = SessionKey("app", "user", "s")


class Confidant:
    """A model that hears one number a session, and says when it hears another."""

    name, dialect = "confidant", "gemini"

    async def generate(
        self, prompt: Prompt, wire: JsonObject, *, stream: bool
    ) -> AsyncIterator[ModelResponse]:
        numbers = set(re.findall(r"#\d+!", str(prompt)))
        assert len(numbers) == 1, f"sessions are mixed up: {numbers}"
        (number,) = numbers
        await asyncio.sleep(0)
        if prompt.items[-1].kind == "user":
            part = call_part("keep", {"number": number})
        else:
            part = Part(text=f"I keep {number}")
        yield ModelResponse(content=Content(parts=(part,), role="model"))


async def keep(number: str, ctx: ToolContext) -> str:
    """Keep a number."""
    before = ctx.state.get("kept", "")
    await asyncio.sleep(0)
    ctx.state["kept"] = f"{before}{number}"
    ctx.state[f"user:{ctx.session_id}"] = number
    return f"kept {number}"


@pytest.mark.parametrize(("kind", "sessions", "turns"), [("memory", 1000, 2), ("sqlite", 200, 2)])
def test_many_sessions_at_once_stay_apart(
    kind: str, sessions: int, turns: int, tmp_path: Path
) -> None:
    address = "memory://" if kind == "memory" else f"sqlite:///{tmp_path}/weft.db"

    async def converse(runner: Runner, n: int) -> Session:
        result = None
        for turn in range(turns):
            result = await runner.run(
                user_id=f"u{n}", session_id=f"s{n}", message=f"turn {turn}: #{n}!"
            )
            assert result.check().text == f"I keep #{n}!"
        assert result is not None
        return result.session

    async def go() -> None:
        root = Agent("bot", model=Confidant(), tools=[keep])
        async with Runner(root, app_name="app", store=address) as runner:
            done = await asyncio.gather(*(converse(runner, n) for n in range(sessions)))
            assert len(await runner.store.sessions("app")) == sessions
            for n, session in enumerate(done):
                held = await runner.session(user_id=f"u{n}", session_id=f"s{n}")
                assert held == session
                check_log(held)
                assert held.state == {"kept": f"#{n}!" * turns, f"user:s{n}": f"#{n}!"}
                authors = [event.author for event in held.events]
                assert authors == ["user", "bot", "bot", "bot"] * turns
                texts = [event.text for event in held.events if event.author == "user"]
                assert texts == [f"turn {turn}: #{n}!" for turn in range(turns)]

    quietly(go)


@pytest.fixture(params=["one runner", "memory", "sqlite", "postgres"])
def store(request: pytest.FixtureRequest, tmp_path: Path) -> str:
    """Which runners the two runs of a session have."""
    if request.param == "sqlite":
        return f"sqlite:///{tmp_path}/weft.db"
    if request.param == "postgres":
        return str(request.getfixturevalue("postgres_url"))
    return str(request.param)


def two_runners(root: Agent, store: str) -> tuple[Runner, Runner]:
    """Runners as two parts of a program, or two programs, have them."""
    shared: str | Store = MemoryStore() if "://" not in store else store
    app = f"app-{uuid4().hex}"
    first = Runner(root, app_name=app, store=shared)
    return first, first if store == "one runner" else Runner(root, app_name=app, store=shared)


class Gate:
    """A tool that is waited for, and says so."""

    def __init__(self) -> None:
        self.reached = asyncio.Event()
        self.opened = asyncio.Event()

    async def wait(self) -> str:
        """Wait."""
        self.reached.set()
        await self.opened.wait()
        return "through"


def waiting_bot(gate: Gate) -> Agent:
    script = [call("wait"), "first answer", "second answer", "third answer"]
    return Agent("bot", model=ScriptedModel(script), tools=[gate.wait])


def texts(session: Session) -> list[str]:
    """What was said, without the tool's traffic."""
    return [event.text for event in session.events if event.text]


def test_a_second_run_waits_for_the_first(store: str) -> None:
    async def go() -> None:
        gate = Gate()
        one, two = two_runners(waiting_bot(gate), store)
        first = asyncio.ensure_future(one.run(session_id="s", message="first"))
        await gate.reached.wait()
        second = asyncio.ensure_future(two.run(session_id="s", message="second"))
        await asyncio.sleep(0.05)
        assert not second.done()
        gate.opened.set()
        assert (await first).text == "first answer"
        result = await second
        assert texts(result.session) == ["first", "first answer", "second", "second answer"]
        check_log(result.session)
        await one.close()
        await two.close()

    quietly(go)


def test_a_second_run_can_be_refused(store: str) -> None:
    async def go() -> None:
        gate = Gate()
        one, two = two_runners(waiting_bot(gate), store)
        first = asyncio.ensure_future(one.run(session_id="s", message="first"))
        await gate.reached.wait()
        with pytest.raises(SessionBusy, match="another run"):
            await two.run(session_id="s", message="second", config=RunConfig(busy="reject"))
        gate.opened.set()
        assert (await first).text == "first answer"
        result = await two.run(session_id="s", message="third", config=RunConfig(busy="reject"))
        assert texts(result.session) == ["first", "first answer", "third", "second answer"]
        check_log(result.session)
        await one.close()
        await two.close()

    quietly(go)


def test_a_second_run_can_take_over(store: str) -> None:
    async def go() -> None:
        gate = Gate()
        one, two = two_runners(waiting_bot(gate), store)
        first = asyncio.ensure_future(one.run(session_id="s", message="first"))
        await gate.reached.wait()
        config = RunConfig(busy="interrupt")
        result = await two.run(session_id="s", message="second", config=config)
        stopped = await first
        assert stopped.error is not None
        assert stopped.error.error_code == "interrupted"
        assert stopped.text == ""
        assert texts(result.session) == ["first", "second", "first answer"]
        check_log(result.session)
        await one.close()
        await two.close()

    quietly(go)


def told_to_stop(store: Store, patch: pytest.MonkeyPatch) -> asyncio.Event:
    """Set once somebody asks a holder of the store's leases to stop."""
    asked, lease = asyncio.Event(), store.lease

    async def listening(key: SessionKey, *, busy: Busy, interrupt: Callable[[], None]) -> Lease:
        def told() -> None:
            interrupt()
            asked.set()

        return await lease(key, busy=busy, interrupt=told)

    patch.setattr(store, "lease", listening)
    return asked


def test_a_run_whose_consumer_is_busy_is_taken_over_when_it_asks_again(
    store: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    async def go() -> None:
        gate = Gate()
        one, two = two_runners(waiting_bot(gate), store)
        asked = told_to_stop(one.store, monkeypatch)
        first = one.run(session_id="s", message="first")
        assert (await anext(first)).calls
        config = RunConfig(busy="interrupt")
        second = asyncio.ensure_future(two.run(session_id="s", message="second", config=config))
        await asked.wait()
        last = await anext(first)
        assert last.error_code == "interrupted"
        assert (await second).text == "first answer", "though the first one was not closed yet"
        assert [event async for event in first] == []
        session = await stored(one.store, SessionKey(one.app_name, "user", "s"))
        check_log(session)
        await one.close()
        await two.close()

    quietly(go)


@pytest.mark.parametrize("kind", ["memory", "sqlite"])
def test_a_run_can_be_taken_over_at_any_step_of_the_event_loop(kind: str, tmp_path: Path) -> None:
    async def look() -> str:
        """Look."""
        await asyncio.sleep(0)
        return "seen"

    async def go() -> None:
        shared = open_store("memory://" if kind == "memory" else f"sqlite:///{tmp_path}/weft.db")
        step, last = 0, False
        while not last:
            step += 1 if kind == "memory" else 5
            script = [delayed(0, [call("look"), call("look")]), *[delayed(0, "answer")] * 3]
            root = Agent("bot", model=ScriptedModel(script), tools=[look])
            runner = Runner(root, app_name="app", store=shared)
            first = asyncio.ensure_future(runner.run(session_id=f"s{step}", message="first"))
            for _ in range(step):
                await asyncio.sleep(0)
            last = first.done()
            config = RunConfig(busy="interrupt")
            second = await runner.run(session_id=f"s{step}", message="second", config=config)
            assert second.check().text == "answer"
            check_log(second.session)
            stopped = await first
            if stopped.error is not None:
                assert stopped.error.error_code == "interrupted"
                assert not stopped.text
            else:
                assert stopped.text == "answer"
            said = [event.text for event in second.session.events if event.author == "user"]
            assert sorted(said) == ["first", "second"]
        assert step > 5
        await shared.close()

    quietly(go)


between_processes = pytest.mark.parametrize("address", ["sqlite", "postgres"], indirect=True)

Start = Callable[..., ForkedProgram]


@pytest.fixture
def start() -> Iterator[Start]:
    """Start another process that takes turns."""
    children: list[ForkedProgram] = []

    def start(*arguments: object) -> ForkedProgram:
        child = ForkedProgram("tests.runtime.turn_worker", *map(str, arguments))
        children.append(child)
        return child

    yield start
    for child in children:
        child.close()


async def heard(child: ForkedProgram) -> str:
    """What the child says next."""
    return (await asyncio.to_thread(child.stdout.readline)).strip()


async def let_go(child: ForkedProgram) -> str:
    """Let a run that is held in another process go on; how it ended."""
    child.stdin.write("\n")
    child.stdin.flush()
    return await heard(child)


@between_processes
def test_a_run_in_another_process_is_waited_for(address: str, start: Start) -> None:
    async def go() -> None:
        session = uuid4().hex
        child = start("hold", address, session)
        assert await heard(child) == "running"
        async with Runner(bot(), app_name=APP, store=address) as runner:
            mine = asyncio.ensure_future(runner.run(session_id=session, message="mine"))
            await asyncio.sleep(0.2)
            assert not mine.done()
            assert await let_go(child) == "re held"
            result = await mine
            assert texts(result.session) == ["held", "re held", "mine", "re mine"]
            check_log(result.session)

    quietly(go)


@between_processes
def test_while_a_run_in_another_process_goes_on_one_can_be_refused(
    address: str, start: Start
) -> None:
    async def go() -> None:
        session = uuid4().hex
        child = start("hold", address, session)
        assert await heard(child) == "running"
        async with Runner(bot(), app_name=APP, store=address) as runner:
            config = RunConfig(busy="reject")
            with pytest.raises(SessionBusy):
                await runner.run(session_id=session, message="mine", config=config)
            assert await let_go(child) == "re held"
            check_log(await runner.session(session_id=session))

    quietly(go)


@between_processes
def test_a_run_in_another_process_can_be_taken_over(address: str, start: Start) -> None:
    async def go() -> None:
        session = uuid4().hex
        child = start("hold", address, session)
        assert await heard(child) == "running"
        async with Runner(bot(), app_name=APP, store=address) as runner:
            config = RunConfig(busy="interrupt")
            result = await runner.run(session_id=session, message="mine", config=config)
            assert await heard(child) == "interrupted"
            assert texts(result.session) == ["held", "mine", "re mine"]
            check_log(result.session)

    quietly(go)


@between_processes
@pytest.mark.parametrize("busy", ["queue", "reject"])
def test_many_processes_taking_turns_in_one_session_lose_nothing(
    address: str, start: Start, busy: Busy
) -> None:
    # who is refused tries again at once: twice as many cost four times as much
    many = 16 if busy == "queue" else 8
    processes, turns = (many, 3) if address.startswith("postgres") else (4, 3)

    async def go() -> None:
        session = uuid4().hex
        child = start("turns", address, session, processes, turns, busy)
        assert await asyncio.to_thread(child.wait, 600) == 0
        async with Runner(bot(), app_name=APP, store=address) as runner:
            held = await runner.session(session_id=session)
        check_log(held)
        assert len(held.events) == processes * turns * 4
        said = texts(held)
        asked, answered = said[::2], said[1::2]
        assert answered == [f"re {text}" for text in asked], "each is answered before the next"
        assert len(set(asked)) == processes * turns
        for process in {text.split()[0] for text in asked}:
            mine = [text.split()[1] for text in asked if text.startswith(f"{process} ")]
            assert mine == [str(n) for n in range(turns)]

    quietly(go)
