"""Runs that are stopped from outside: cancelled, closed, left, timed out; and slow consumers."""

import asyncio
import threading
from collections.abc import Callable
from contextlib import suppress
from pathlib import Path

import pytest

from tests.runtime.logs import check_log, quietly, stored
from weft import (
    Agent,
    Event,
    Fallback,
    Loop,
    Parallel,
    RunConfig,
    Runner,
    Sequence,
    ToolContext,
    tool,
)
from weft.declare import Node
from weft.ir import Prompt
from weft.runtime import model_call
from weft.session import SessionKey
from weft.testing import ScriptedModel, call, usage

KEY = SessionKey("app", "user", "s")


@pytest.fixture(params=["memory", "sqlite"])
def address(request: pytest.FixtureRequest, tmp_path: Path) -> str:
    return "memory://" if request.param == "memory" else f"sqlite:///{tmp_path}/weft.db"


def made(root: Node, address: str) -> Runner:
    return Runner(root, app_name=KEY.app_name, store=address)


class Stopping:
    """Something that is waited for, forever, and says when somebody does."""

    def __init__(self) -> None:
        self.reached = asyncio.Event()
        self.stopped = 0
        self.patient = False
        self.on_reached: Callable[[], None] = self.reached.set

    async def wait(self) -> None:
        self.on_reached()
        if self.patient:
            return
        try:
            await asyncio.sleep(3600)
        finally:
            self.stopped += 1

    async def answer(self, prompt: Prompt) -> str:
        """As an entry of a script."""
        await self.wait()
        return "at last"


async def cancel_when(runner: Runner, reached: asyncio.Event, **options: object) -> None:
    """Run until that point, and cancel there."""

    async def consume() -> None:
        async for _ in runner.run(session_id=KEY.id, message="Go", **options):  # type: ignore[arg-type]
            pass

    task = asyncio.create_task(consume())
    await asyncio.wait_for(reached.wait(), 60)
    task.cancel()
    with pytest.raises(asyncio.CancelledError):
        await task


async def check_stopped(runner: Runner, code: str = "cancelled") -> list[Event]:
    """The session is free, its log is whole, and says that the run was stopped; its events."""
    session = await stored(runner.store, KEY)
    check_log(session)
    errors = [event.error_code for event in session.events if event.error_code]
    assert errors == [code]
    assert session.events[-1].interrupted
    return session.events.since(0)


async def check_goes_on(runner: Runner, text: str = "good again") -> None:
    """The next message is answered."""
    result = await runner.run(session_id=KEY.id, message="And now?")
    assert result.text == text
    check_log(await stored(runner.store, KEY))


@pytest.mark.parametrize("stream", [False, True])
def test_a_run_can_be_cancelled_while_the_model_speaks(address: str, stream: bool) -> None:
    async def go() -> None:
        stopping = Stopping()
        model = ScriptedModel([stopping.answer, "good again"])
        async with made(Agent("bot", model=model), address) as runner:
            await cancel_when(runner, stopping.reached, config=RunConfig(stream=stream))
            events = await check_stopped(runner)
            assert [event.author for event in events] == ["user", "bot"]
            assert stopping.stopped == 1
            await check_goes_on(runner)

    quietly(go)


async def test_an_answer_that_has_come_is_stored_before_the_run_ends(
    address: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """What the provider's cache missed is looked for in a thread, after the answer has come."""
    loop, looking, released = asyncio.get_running_loop(), asyncio.Event(), threading.Event()

    def looked(*_: object, **__: object) -> None:
        loop.call_soon_threadsafe(looking.set)
        released.wait(60)

    answers = [usage(text, prompt=6_000, output=5, cached=0) for text in ("one", "two", "three")]
    model = ScriptedModel(answers, name="claude-opus-5", dialect="anthropic")
    async with made(Agent("bot", model=model, instruction="Be brief. " * 900), address) as runner:
        await runner.run(session_id=KEY.id, message="Go")
        monkeypatch.setattr(model_call, "LONG", 2)
        monkeypatch.setattr(model_call, "watch", looked)
        running = asyncio.ensure_future(runner.run(session_id=KEY.id, message="On"))
        await looking.wait()
        running.cancel()
        with pytest.raises(asyncio.CancelledError):
            await running
        released.set()
        session = await runner.session(session_id=KEY.id)
        assert [event.text for event in session.events] == ["Go", "one", "On", "two"]
        assert (await runner.resume(session_id=KEY.id)).text == "two"
    assert len(model.prompts) == 2


def test_a_run_can_be_cancelled_while_a_tool_runs(address: str) -> None:
    async def go() -> None:
        stopping = Stopping()
        model = ScriptedModel([call("wait"), "good again"])
        bot = Agent("bot", model=model, tools=[tool(name="wait")(stopping.wait)])
        async with made(bot, address) as runner:
            await cancel_when(runner, stopping.reached)
            events = await check_stopped(runner)
            assert events[-2].results[0].response == {"error": "the run was cancelled"}
            assert stopping.stopped == 1
            await check_goes_on(runner)

    quietly(go)


def test_what_other_calls_of_the_reply_came_to_is_kept(address: str) -> None:
    async def go() -> None:
        stopping = Stopping()

        @tool(sequential=True)
        async def note(ctx: ToolContext) -> str:
            """Note."""
            ctx.state["noted"] = True
            return "noted"

        model = ScriptedModel([[call("note"), call("wait")], "good again"])
        bot = Agent("bot", model=model, tools=[note, tool(name="wait")(stopping.wait)])
        async with made(bot, address) as runner:
            await cancel_when(runner, stopping.reached)
            events = await check_stopped(runner)
            assert [result.response for result in events[-2].results] == [
                {"result": "noted"},
                {"error": "the run was cancelled"},
            ]
            assert (await stored(runner.store, KEY)).state == {"noted": True}
            await check_goes_on(runner)

    quietly(go)


def test_no_call_of_the_reply_is_left_running(address: str) -> None:
    """Also not one that takes its time to clean up behind itself."""

    async def go() -> None:
        stopping = Stopping()
        tidied: list[str] = []

        async def tidy() -> None:
            """Clean up, slowly."""
            try:
                await asyncio.sleep(3600)
            finally:
                await asyncio.sleep(0.02)
                tidied.append("tidied")

        model = ScriptedModel([[call("wait"), call("tidy")], "good again"])
        bot = Agent("bot", model=model, tools=[tool(name="wait")(stopping.wait), tidy])
        async with made(bot, address) as runner:
            await cancel_when(runner, stopping.reached)
            assert tidied == ["tidied"]
            await check_stopped(runner)
            await check_goes_on(runner)

    quietly(go)


def test_a_call_that_must_not_be_made_twice_is_said_to_be_in_doubt(address: str) -> None:
    async def go() -> None:
        stopping = Stopping()
        model = ScriptedModel([call("pay"), "good again"])
        pay = tool(name="pay", effect="unsafe")(stopping.wait)
        async with made(Agent("bot", model=model, tools=[pay]), address) as runner:
            await cancel_when(runner, stopping.reached)
            events = await check_stopped(runner)
            assert "nobody knows" in str(events[-2].results[0].response)
            await check_goes_on(runner)

    quietly(go)


def test_the_calls_of_a_branch_are_answered_when_another_branch_fails(address: str) -> None:
    async def go() -> None:
        stopping = Stopping()

        async def fails(prompt: Prompt) -> str:
            await stopping.reached.wait()
            raise RuntimeError("503")

        model = ScriptedModel({"a": [call("wait")], "b": [fails], "c": ["good again"]})
        waits = tool(name="wait")(stopping.wait)
        both = Parallel(Agent("a", model=model, tools=[waits]), Agent("b", model=model))
        async with made(Fallback(both, Agent("c", model=model)), address) as runner:
            result = await runner.run(session_id=KEY.id, message="Go")
            assert result.check().text == "good again"
            session = await stored(runner.store, KEY)
            check_log(session)
            (answer,) = (result for event in session.events for result in event.results)
            assert answer.response == {"error": "another branch failed"}
            assert stopping.stopped == 1

    quietly(go)


def nested(model: ScriptedModel, stopping: Stopping) -> Node:
    """A flow whose inner agent waits in a tool of an agent that is a tool."""
    inner = Agent("inner", model=model, tools=[tool(name="wait")(stopping.wait)], description="In.")
    return Sequence(
        Agent("first", model=model),
        Loop(
            Fallback(
                Parallel(Agent("outer", model=model, tools=[inner]), Agent("beside", model=model)),
                Agent("backup", model=model),
            ),
            max=2,
        ),
        Agent("last", model=model),
    )


def test_a_run_can_be_cancelled_deep_inside_a_flow(address: str) -> None:
    async def go() -> None:
        stopping = Stopping()
        model = ScriptedModel(
            {
                "first": ["one", "one"],
                "outer": [call("inner", request="x"), "outer done", "outer again", "o", "o"],
                "inner": [call("wait"), "inner done"],
                "beside": [stopping.answer, "beside", "beside", "beside"],
                "last": ["good again"],
            }
        )
        async with made(nested(model, stopping), address) as runner:
            await cancel_when(runner, stopping.reached)
            await check_stopped(runner)
            assert stopping.stopped in (1, 2)
            stopping.patient = True
            await check_goes_on(runner)

    quietly(go)


def test_a_cancelled_flow_goes_on_when_it_is_resumed(address: str) -> None:
    async def go() -> None:
        stopping = Stopping()
        model = ScriptedModel(
            {
                "first": ["one"],
                "outer": [call("inner", request="x"), "outer done", "outer again"],
                "inner": [call("wait"), "inner done"],
                "beside": ["beside", "beside"],
                "last": ["the end"],
            }
        )
        async with made(nested(model, stopping), address) as runner:
            await cancel_when(runner, stopping.reached)
            stopping.patient = True
            result = await runner.resume(session_id=KEY.id)
            assert result.check().text == "the end"
            assert model.remaining <= 1
            check_log(await stored(runner.store, KEY))

    quietly(go)


def test_a_consumer_may_leave_early(address: str) -> None:
    async def go() -> None:
        model = ScriptedModel([call("look"), "good again"])

        def look() -> str:
            """Look."""
            return "seen"

        async with made(Agent("bot", model=model, tools=[look]), address) as runner:
            async for _ in runner.run(session_id=KEY.id, message="Go"):
                break
            await (await runner.store.lease(KEY, busy="queue", interrupt=lambda: None)).release()
            await check_stopped(runner)
            await check_goes_on(runner)

    quietly(go)


def test_a_consumer_may_leave_early_and_the_next_run_waits_for_its_end(address: str) -> None:
    async def go() -> None:
        model = ScriptedModel({"a": ["1", "2"], "b": [call("look"), "3", "4"], "c": ["good again"]})

        async def look() -> str:
            """Look."""
            await asyncio.sleep(0.01)
            return "seen"

        a, b, c = (Agent(name, model=model) for name in "abc")
        async with made((a | b.uses(look)) >> c, address) as runner:
            async for _ in runner.run(session_id=KEY.id, message="Go"):
                break
            await check_goes_on(runner)

    quietly(go)


@pytest.mark.parametrize("branches", [1, 3])
@pytest.mark.parametrize("taken", [0, 1, 2])
def test_a_run_can_be_closed(address: str, branches: int, taken: int) -> None:
    async def go() -> None:
        model = ScriptedModel(
            {f"a{n}": [call("look", n=n), f"{n}", f"{n} again"] for n in range(branches)}
            | {"last": ["never", "good again"]}
        )

        async def look(n: int) -> int:
            """Look."""
            await asyncio.sleep(0.001)
            return n

        agents = [Agent(f"a{n}", model=model, tools=[look]) for n in range(branches)]
        flow = Sequence(Parallel(*agents), Agent("last", model=model))
        async with made(flow, address) as runner:
            run = runner.run(session_id=KEY.id, message="Go")
            for _ in range(taken):
                await anext(run)
            await run.aclose()
            await run.aclose()
            assert [event async for event in run] == []
            if taken:
                await check_stopped(runner)
            else:
                assert await runner.store.get(KEY) is None, "it never began"

    quietly(go)


def test_a_run_can_be_given_a_time_limit(address: str) -> None:
    async def go() -> None:
        stopping = Stopping()
        model = ScriptedModel([stopping.answer, "good again"])
        async with made(Agent("bot", model=model), address) as runner:
            loop = asyncio.get_running_loop()

            async def run_until_reached() -> None:
                async with asyncio.timeout(None) as limit:
                    stopping.on_reached = lambda: limit.reschedule(loop.time())
                    await runner.run(session_id=KEY.id, message="Go")

            with pytest.raises(TimeoutError):
                await run_until_reached()
            await check_stopped(runner)
            await check_goes_on(runner)

    quietly(go)


def test_cancelling_twice_does_not_cut_the_log_short(address: str) -> None:
    async def go() -> None:
        stopping = Stopping()
        model = ScriptedModel([[call("wait"), call("wait")], "good again"])
        bot = Agent("bot", model=model, tools=[tool(name="wait")(stopping.wait)])
        async with made(bot, address) as runner:

            async def consume() -> None:
                await runner.run(session_id=KEY.id, message="Go")

            task = asyncio.create_task(consume())
            await stopping.reached.wait()
            for _ in range(20):
                task.cancel()
                await asyncio.sleep(0)
            with pytest.raises(asyncio.CancelledError):
                await task
            await check_stopped(runner)
            await check_goes_on(runner)

    quietly(go)


def test_an_agent_that_was_handed_the_conversation_keeps_it_when_it_is_cancelled(
    address: str,
) -> None:
    async def go() -> None:
        stopping = Stopping()
        model = ScriptedModel(
            {
                "boss": [call("transfer_to_agent", agent_name="left")],
                "left": [stopping.answer, "good again"],
            }
        )
        boss = Agent("boss", model=model, sub_agents=[Agent("left", description="Left.")])
        async with made(boss, address) as runner:
            await cancel_when(runner, stopping.reached)
            await check_stopped(runner)
            await check_goes_on(runner)

    quietly(go)


@pytest.mark.parametrize("answer", [ValueError("no such table"), "never mind"])
async def test_a_branch_whose_tool_takes_no_notice_of_being_stopped_is_stopped_behind_it(
    answer: str | Exception,
) -> None:
    began = asyncio.Event()

    async def stubborn() -> str:
        """Wait, and do not tell that nobody waits any more."""
        began.set()
        try:
            await asyncio.Event().wait()
        except asyncio.CancelledError:
            if isinstance(answer, Exception):
                raise answer from None
        return str(answer)

    async def fails() -> str:
        """Fail once the other branch waits."""
        await began.wait()
        return "go on"

    model = ScriptedModel(
        {"a": [call("stubborn"), "late"], "b": [call("fails"), RuntimeError("503")]}
    )
    flow = Agent("a", model=model, tools=[stubborn]) | Agent("b", model=model, tools=[fails])
    async with asyncio.timeout(60):
        result = await Runner(flow).run(session_id="s", message="Go")
    assert result.error is not None
    assert [prompt.agent for prompt in model.prompts].count("a") == 1
    check_log(result.session)


async def test_a_cancellation_that_the_caller_got_over_does_not_stop_a_later_run() -> None:
    def broken() -> str:
        """Break."""
        raise ValueError("no such table")

    async def late() -> str:
        task = asyncio.current_task()
        assert task is not None
        task.cancel()
        with suppress(asyncio.CancelledError):
            await asyncio.sleep(0)
        agent = Agent("a", model=ScriptedModel([call("broken"), "told"]), tools=[broken])
        return (await Runner(agent).run(session_id="s", message="Go")).text

    assert await asyncio.create_task(late()) == "told"
