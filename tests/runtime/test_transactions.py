"""Tools that write with the store's own connection, stopped in the middle: all or nothing."""

import asyncio
import random
import sqlite3
import time
from contextlib import closing
from pathlib import Path

import pytest

import weft
from tests.runtime.logs import check_log, quietly, stored
from weft import Agent, Runner, ToolContext, tool
from weft.session import SessionKey
from weft.testing import ScriptedModel, call

KEY = SessionKey("app", "user", "s")


@pytest.fixture
def path(tmp_path: Path) -> Path:
    """A store's file with a table of a tool's own."""
    path = tmp_path / "weft.db"

    async def make() -> None:
        async with Runner(Agent("bot", model=ScriptedModel([])), store=f"sqlite:///{path}") as it:
            await it.store.sessions("any")

    asyncio.run(make())
    with sqlite3.connect(path) as connection:
        connection.execute("CREATE TABLE bookings (call_id TEXT)")
    connection.close()
    return path


def rows(path: Path) -> list[str]:
    connection = sqlite3.connect(path)
    found = [row[0] for row in connection.execute("SELECT call_id FROM bookings")]
    connection.close()
    return found


def book(ctx: ToolContext) -> None:
    """Write a row."""
    assert isinstance(ctx.connection, sqlite3.Connection)
    ctx.connection.execute("INSERT INTO bookings VALUES (?)", (ctx.call_id,))


@tool(effect="transactional", timeout=0.05)
def slow_in_a_thread(ctx: ToolContext) -> str:
    """Write a row, and another when it is too late."""
    book(ctx)
    time.sleep(0.2)
    book(ctx)
    return "booked"


@tool(effect="transactional", timeout=0.05)
async def slow(ctx: ToolContext) -> str:
    """Write a row, and take too long."""
    book(ctx)
    await asyncio.sleep(3600)
    return "booked"


@pytest.mark.parametrize("slowly", [slow, slow_in_a_thread])
def test_a_tool_that_takes_too_long_leaves_no_row(path: Path, slowly: object) -> None:
    async def go() -> None:
        name = slowly.name  # type: ignore[attr-defined]
        model = ScriptedModel([call(name), "sorry"])
        root = Agent("bot", model=model, tools=[slowly])
        async with Runner(root, app_name=KEY.app_name, store=f"sqlite:///{path}") as runner:
            result = await runner.run(session_id=KEY.id, message="Go")
            assert "took longer" in str(result.events[1].results[0].response)
            await asyncio.sleep(0.3)
        assert rows(path) == []

    quietly(go)


def test_a_tool_that_fails_leaves_no_row(path: Path) -> None:
    @tool(effect="transactional")
    async def fail(ctx: ToolContext) -> str:
        """Write a row, and fail."""
        book(ctx)
        raise ValueError("no")

    async def go() -> None:
        root = Agent("bot", model=ScriptedModel([call("fail"), "sorry"]), tools=[fail])
        async with Runner(root, app_name=KEY.app_name, store=f"sqlite:///{path}") as runner:
            await runner.run(session_id=KEY.id, message="Go")
        assert rows(path) == []

    quietly(go)


def test_a_cancelled_run_has_a_row_for_each_result_and_no_other(path: Path) -> None:
    @tool(effect="transactional")
    async def late(ctx: ToolContext) -> str:
        """Write a row."""
        book(ctx)
        await asyncio.sleep(0)
        return "booked"

    @tool(effect="transactional")
    def late_in_a_thread(ctx: ToolContext) -> str:
        """Write a row."""
        book(ctx)
        time.sleep(0.0005)
        return "booked"

    chance = random.Random("rows")

    async def go() -> None:
        booked: list[str] = []
        calls = [call("late"), call("late_in_a_thread"), call("late")]
        for n in range(60):
            key = KEY._replace(id=f"s{n}")
            root = Agent(
                "bot", model=ScriptedModel([calls, "done", "more"]), tools=[late, late_in_a_thread]
            )
            async with Runner(root, app_name=key.app_name, store=f"sqlite:///{path}") as runner:
                try:
                    async with asyncio.timeout(chance.uniform(0, 0.03)):
                        await runner.run(session_id=key.id, message="Go")
                except TimeoutError:
                    pass
                if await runner.store.get(key) is None:
                    continue
                check_log(await stored(runner.store, key))
                await runner.run(session_id=key.id, message="And now?")
                session = await stored(runner.store, key)
                check_log(session)
                results = [result for event in session.events for result in event.results]
                booked += [r.id or "" for r in results if r.response == {"result": "booked"}]
        assert sorted(rows(path)) == sorted(booked)

    quietly(go)


def test_a_transactional_tool_is_tried_again_in_a_transaction_of_its_own(tmp_path: Path) -> None:
    tries: list[int] = []

    @tool(effect="transactional", retries=1)
    def flaky(ctx: ToolContext) -> str:
        """Write a row, and fail the first time."""
        assert isinstance(ctx.connection, sqlite3.Connection)
        ctx.connection.execute("CREATE TABLE IF NOT EXISTS tries (id TEXT)")
        ctx.connection.execute("INSERT INTO tries VALUES (?)", (ctx.call_id,))
        tries.append(1)
        if len(tries) == 1:
            raise OSError("busy")
        return "written"

    bot = Agent("bot", model=ScriptedModel([call("flaky"), "done"]), tools=[flaky])
    result = weft.run_sync(bot, "go", store=f"sqlite:///{tmp_path}/weft.db")
    assert result.text == "done"
    assert result.events[1].results[0].response == {"result": "written"}
    with closing(sqlite3.connect(tmp_path / "weft.db")) as connection:
        assert connection.execute("SELECT count(*) FROM tries").fetchone() == (1,)


def test_an_unsafe_tool_cannot_be_tried_again() -> None:
    with pytest.raises(weft.WeftError, match="must never be run twice"):

        @tool(effect="unsafe", retries=1)
        def fire() -> None:
            """Fire."""


async def test_the_only_call_of_a_reply_is_stored_with_its_result(tmp_path: Path) -> None:
    @tool(effect="transactional")
    def book(seat: int) -> str:
        """Book a seat."""
        return f"seat {seat}"

    model = ScriptedModel(
        [call("book", seat=4), "done", [call("book", seat=1), call("book", seat=2)], "done"]
    )
    agent = Agent("bot", model=model, tools=[book])
    async with Runner(agent, store=f"sqlite:///{tmp_path}/weft.db") as runner:
        first = await runner.run("one", session_id="s")
        assert len(first.session.events) == 4  # no record of the outcome beside the result
        assert [one.response for one in first.session.events[2].results] == [{"result": "seat 4"}]
        both = await runner.run("two", session_id="s")
        outcomes = [e for e in both.session.events if e.provenance.outcomes]
        assert len(outcomes) >= 2  # either may be lost without the other
