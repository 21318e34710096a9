"""Calls of one reply when one of them ends the run, and calls of tools that were not offered."""

import asyncio
import threading
from pathlib import Path

import msgspec
import pytest

import weft
from weft import Agent, CallbackContext, Event, Runner, tool
from weft.ir import Prompt
from weft.session import SessionKey
from weft.testing import ScriptedModel, call


def responses(events: list[Event]) -> dict[str, str]:
    """The results by the name of their tools."""
    return {r.name or "": str(r.response) for event in events for r in event.results}


class Broken(Exception):
    pass


@pytest.mark.parametrize("kind", ["async", "thread", "agent", "sequential", "unsafe"])
def test_a_tool_that_ends_the_run_stops_its_siblings_at_once(kind: str, tmp_path: Path) -> None:
    ended: list[str] = []
    begun, release = threading.Event(), threading.Event()

    async def fails() -> str:
        """Fail, once the slow one has begun; one that comes behind this one has not."""
        while kind != "sequential" and not begun.is_set():  # noqa: ASYNC110
            await asyncio.sleep(0.01)
        raise Broken("no such file")

    async def quick() -> str:
        """Be quick."""
        return "here"

    async def sleeps() -> str:
        """Sleep."""
        begun.set()
        try:
            await asyncio.sleep(3600)
        finally:
            ended.append("cleaned up")
        return "slept"

    def blocks() -> str:
        """Block a thread."""
        begun.set()
        release.wait(3600)
        return "slept"

    inner = ScriptedModel([call("sleeps")])
    slow: object = {
        "async": tool(name="slow")(sleeps),
        "thread": tool(name="slow")(blocks),
        "agent": Agent("slow", model=inner, description="Slow.", tools=[sleeps]),
        "sequential": tool(name="slow", sequential=True)(sleeps),
        "unsafe": tool(name="slow", effect="unsafe")(sleeps),
    }[kind]
    model = ScriptedModel([[call("quick"), call("fails"), slow_call(kind)], "mended"])
    bot = Agent("bot", model=model, tools=[quick, fails, slow], on_tool_error="raise")

    async def go() -> None:
        async with Runner(bot, store=f"sqlite:///{tmp_path}/weft.db") as runner:
            async with asyncio.timeout(120):
                with pytest.raises(Broken):
                    await runner.run(session_id="s", message="go")
            release.set()
            session = await runner.session(session_id="s")
            told = responses(list(session.events))
            assert "here" in told["quick"]
            assert "no such file" in told["fails"]
            assert "`fails` failed, and this was not finished" in told["slow"]
            assert ("nobody knows" in told["slow"]) == (kind not in ("sequential",))
            assert session.events[-1].error_code == "error"
            made = {c.id for event in session.events for c in event.calls}
            assert made == {r.id for event in session.events for r in event.results}
            assert ended == ([] if kind in ("thread", "sequential") else ["cleaned up"])
            last = await runner.resume(session_id="s")
            assert last.text == "mended"
            assert last.waiting == {}

    asyncio.run(go())


def slow_call(kind: str) -> weft.Part:
    return call("slow", request="x") if kind == "agent" else call("slow")


def test_a_callback_that_raises_stops_the_siblings_too() -> None:
    async def slow() -> str:
        """Sleep."""
        await asyncio.sleep(3600)
        return "slept"

    async def other() -> str:
        """Never run."""
        return "other"

    async def refuses(ctx: CallbackContext, tool: weft.Tool, args: dict[str, object]) -> None:
        if tool.name == "other":
            await asyncio.sleep(0.05)
            raise Broken("not this one")

    model = ScriptedModel([[call("slow"), call("other")]])
    bot = Agent("bot", model=model, tools=[slow, other], before_tool=refuses)

    async def go() -> None:
        async with asyncio.timeout(120):
            await weft.run(bot, "go")

    with pytest.raises(Broken):
        asyncio.run(go())


@pytest.mark.parametrize("where", ["agent", "plugin"])
def test_a_tool_that_before_model_removed_is_not_run(where: str, tmp_path: Path) -> None:
    made: list[str] = []

    def delete(name: str) -> str:
        """Delete."""
        made.append(name)
        return "deleted"

    def look(name: str) -> str:
        """Look."""
        return "seen"

    def without_delete(ctx: CallbackContext, prompt: Prompt) -> Prompt:
        kept = tuple(one for one in prompt.tools if one.name != "delete")
        return msgspec.structs.replace(prompt, tools=kept)

    class Guard(weft.Plugin):
        def before_model(self, ctx: CallbackContext, prompt: Prompt) -> Prompt:
            return without_delete(ctx, prompt)

    script = [[call("delete", name="x"), call("look", name="x")], "sorry"]
    model = ScriptedModel(script)
    own = without_delete if where == "agent" else None
    bot = Agent("bot", model=model, tools=[delete, look], before_model=own)
    plugins = [Guard()] if where == "plugin" else []
    result = weft.run_sync(bot, "go", plugins=plugins)
    told = responses(list(result.events))
    assert made == []
    assert "there is no tool 'delete'" in told["delete"]
    assert "available: look" in told["delete"]
    assert told["look"] == "{'result': 'seen'}"
    assert "delete" not in str(model.wires[0]["tools"])

    # where the process dies before the call is answered, the log still knows
    cut, dead = result.session.before(2), f"sqlite:///{tmp_path}/weft.db"
    assert cut.events[-1].calls

    async def go() -> None:
        agent = Agent("bot", model=ScriptedModel(["done"]), tools=[delete, look])
        async with Runner(agent, store=dead) as runner:
            key = SessionKey("bot", "user", "s")
            await runner.store.append(await runner.store.create(key), *cut.events)
            assert (await runner.resume(session_id="s")).text == "done"

    asyncio.run(go())
    assert made == []


def test_a_transfer_that_before_model_removed_is_not_made() -> None:
    def alone(ctx: CallbackContext, prompt: Prompt) -> Prompt:
        return msgspec.structs.replace(prompt, tools=())

    model = ScriptedModel({
        "boss": [call("transfer_to_agent", agent_name="expert"), "on my own"],
        "expert": ["never"],
    })  # fmt: skip
    expert = Agent("expert", description="Knows.")
    boss = Agent("boss", model=model, sub_agents=[expert], before_model=alone)
    result = weft.run_sync(boss, "go")
    assert result.text == "on my own"
    assert "there is no tool 'transfer_to_agent'" in responses(list(result.events)).popitem()[1]
