"""Runs that are cancelled at any step and any time: the log is whole, the session goes on."""

import asyncio
import random
from itertools import count
from pathlib import Path
from uuid import uuid4

import pytest

from tests.runtime.journal import Journal
from tests.runtime.kill_flow import flow
from tests.runtime.logs import check_log, quietly, stored
from weft import Agent, Runner, ToolContext
from weft.declare import Node
from weft.session import SessionKey, Store
from weft.testing import ScriptedModel, call, delayed

KEY = SessionKey("app", "user", "s")


@pytest.fixture(params=["memory", "sqlite", "postgres"])
def anywhere(request: pytest.FixtureRequest, tmp_path: Path) -> str:
    if request.param == "postgres":
        return str(request.getfixturevalue("postgres_url"))
    return "memory://" if request.param == "memory" else f"sqlite:///{tmp_path}/weft.db"


def made(root: Node, store: str | Store) -> Runner:
    return Runner(root, app_name=KEY.app_name, store=store)


def script() -> dict[str, list[object]]:
    """A script for a run with a bit of everything, twice, with answers to spare."""
    return {
        "boss": [
            delayed(0, [call("look"), call("expert", request="x")]),
            delayed(0, call("look")),
            *[delayed(0, "good again")] * 8,
        ],
        "expert": [delayed(0, [call("look"), call("look")]), *[delayed(0, "4")] * 8],
    }


def small(model: ScriptedModel) -> Node:
    """An agent with tools, one of them an agent."""

    async def look(ctx: ToolContext) -> str:
        """Look."""
        ctx.state["looked"] = int(str(ctx.state.get("looked", 0))) + 1
        await asyncio.sleep(0)
        return "seen"

    expert = Agent("expert", model=model, tools=[look], description="Knows.")
    return Agent("boss", model=model, tools=[look, expert])


def test_a_run_can_be_cancelled_at_any_step_of_the_event_loop(anywhere: str) -> None:
    async def go() -> None:
        async with made(small(ScriptedModel(["unused"])), anywhere) as shared:
            step = ended = 0
            while not ended:
                step += 1 if anywhere == "memory://" else 16
                key = KEY._replace(id=f"{uuid4()}")
                runner = made(small(ScriptedModel(script())), shared.store)

                async def consume(runner: Runner = runner, key: SessionKey = key) -> None:
                    await runner.run(session_id=key.id, message="Go")

                task = asyncio.create_task(consume())
                for _ in range(step):
                    await asyncio.sleep(0)
                ended = task.done()
                task.cancel()
                await asyncio.wait([task])
                assert task.cancelled() or (task.exception() is None)
                session = await shared.store.get(key)
                if session is None:
                    continue
                check_log(session)
                codes = [event.error_code for event in session.events if event.error_code]
                whole = len(session.events) < 2 or session.events[-1].text == "good again"
                assert codes == ([] if whole else ["cancelled"])
                assert (await runner.run(session_id=key.id, message="And now?")).text
                check_log(await stored(shared.store, key))

    quietly(go)


def test_a_long_flow_can_be_cancelled_at_any_time_and_resumed(
    anywhere: str, tmp_path: Path
) -> None:
    chance = random.Random("cancel")

    async def go() -> None:
        async with made(flow(Journal(tmp_path / "journal")), anywhere) as runner:
            for _ in range(6):
                key = KEY._replace(id=f"{uuid4()}")
                run = runner.run(session_id=key.id, message="Go")
                for attempt in count():
                    # Longer each time: the slowest machine comes to an end.
                    try:
                        async with asyncio.timeout(chance.uniform(0, 0.3) * 1.05**attempt):
                            result = await run
                        break
                    except TimeoutError:
                        session = await runner.store.get(key)
                        if session is None or not len(session.events):
                            run = runner.run(session_id=key.id, message="Go")
                            continue
                        check_log(await stored(runner.store, key))
                        run = runner.resume(session_id=key.id)
                assert result.check().text.startswith("the end")
                check_log(result.session)

    quietly(go)
