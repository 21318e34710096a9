"""Dependencies: objects of the application that tools, callbacks and code get, and no log keeps."""

from collections.abc import AsyncIterator
from dataclasses import dataclass
from typing import Protocol

import pytest

import weft
from weft import (
    Agent,
    CallbackContext,
    CustomAgent,
    Event,
    ReadonlyContext,
    RunContext,
    Runner,
    ToolContext,
    tool,
)
from weft.errors import DeclarationError, UsageError
from weft.session import MemoryStore
from weft.testing import ScriptedModel, call


@dataclass
class Db:
    """What an application hands to its tools."""

    password: str = "s3cret-passw0rd"

    def find(self, name: str) -> str:
        return f"{name} lives in Oslo"


@tool
def look_up(name: str, ctx: ToolContext[Db]) -> str:
    """Look somebody up."""
    return ctx.deps.find(name)


def instruct(ctx: ReadonlyContext[Db]) -> str:
    return f"You know of {type(ctx.deps).__name__}."


async def instruct_later(ctx: ReadonlyContext[Db]) -> str:
    return f"You know of {type(ctx.deps).__name__}."


def bot(model: ScriptedModel, **options: object) -> Agent:
    return Agent("bot", model=model, tools=[look_up], deps_type=Db, **options)  # type: ignore[arg-type]


@pytest.mark.parametrize("provider", [instruct, instruct_later])
def test_tools_callbacks_and_instructions_get_them_and_the_log_does_not(provider: object) -> None:
    seen: list[object] = []

    def watch(ctx: CallbackContext[Db]) -> None:
        seen.append(ctx.deps)

    def watch_tool(ctx: ToolContext[Db], tool: object, args: object) -> None:
        seen.append(ctx.deps)

    model = ScriptedModel([call("look_up", name="Ada"), "In Oslo."])
    agent = bot(model, instruction=provider, before_agent=watch, before_tool=watch_tool)
    db = Db()
    result = weft.run_sync(agent, "Where is Ada?", deps=db)
    assert result.text == "In Oslo."
    assert "Ada lives in Oslo" in str(model.prompts[1])
    assert "You know of Db." in str(model.prompts[0])
    assert seen == [db, db]
    assert "ctx" not in str(model.wires[0])
    assert db.password.encode() not in result.session.to_json()


def test_custom_agents_get_them_and_their_children_too() -> None:
    class Asks(CustomAgent):
        deps_type = Db
        child: Agent

        async def run(self, ctx: RunContext[Db]) -> AsyncIterator[Event]:
            yield ctx.say(ctx.deps.find("Bob"))
            async for event in ctx.run(self.child):
                yield event

    model = ScriptedModel([call("look_up", name="Ada"), "In Oslo."])
    agent = Asks(child=bot(model))
    result = weft.run_sync(agent, "Where?", deps=Db())
    assert [event.text for event in result.events if event.text] == [
        "Bob lives in Oslo",
        "In Oslo.",
    ]
    with pytest.raises(UsageError, match="`asks` needs deps of type Db, and the run has none"):
        weft.run_sync(agent, "Where?")


@pytest.mark.parametrize(
    "build",
    [
        lambda one: one,
        lambda one: one >> Agent("next"),
        lambda one: Agent("top", sub_agents=[one]),
        lambda one: Agent("top", tools=[one]),
    ],
)
async def test_a_run_does_not_start_without_them(build: object) -> None:
    root = build(bot(ScriptedModel([])))  # type: ignore[operator]
    runner = Runner(root, store=MemoryStore())
    with pytest.raises(UsageError, match="`bot` needs deps of type Db, and the run has none"):
        await runner.run("hi", session_id="s")
    with pytest.raises(UsageError, match="`bot` needs deps of type Db, and got a str") as caught:
        await runner.run("hi", session_id="s", deps="s3cret-passw0rd")
    assert "s3cret" not in str(caught.value)
    assert await runner.store.sessions(runner.app_name) == [], "nothing was stored"


async def test_they_are_given_again_to_go_on() -> None:
    model = ScriptedModel([call("look_up", name="Ada"), RuntimeError("503"), "In Oslo."])
    runner = Runner(bot(model), store=MemoryStore())
    first = await runner.run("Where is Ada?", session_id="s", deps=Db())
    assert first.error is not None
    with pytest.raises(UsageError, match="a run that is resumed needs them again"):
        await runner.resume(session_id="s")
    assert (await runner.resume(session_id="s", deps=Db())).text == "In Oslo."


async def test_a_runner_may_have_some_for_all_its_runs() -> None:
    model = ScriptedModel([call("look_up", name="Ada"), "one", call("look_up", name="Bob"), "two"])
    runner = Runner(bot(model), store=MemoryStore(), deps=Db())
    assert (await runner.run("hi", session_id="s")).text == "one"
    started = await runner.start("hi", session_id="t")
    assert (await started).text == "two"


def test_who_asks_for_deps_that_are_not_there_is_told_how_to_pass_them() -> None:
    model = ScriptedModel([call("look_up", name="Ada"), "No idea."])
    agent = Agent("bot", model=model, tools=[look_up])
    result = weft.run_sync(agent, "Where?")
    assert "the run has no deps" in str(result.session.events[2])


def test_a_tool_is_tested_with_a_context_of_its_own() -> None:
    assert look_up("Ada", ToolContext(deps=Db())) == "Ada lives in Oslo"


def test_requests_are_compiled_with_them() -> None:
    agent = Agent("bot", model="gpt-5", instruction=instruct)
    assert "You know of Db." in weft.compile(agent, message="hi", deps=Db()).prompt.system_text


class Finds(Protocol):
    """Anything that finds."""

    def find(self, name: str) -> str: ...


@pytest.mark.parametrize("kind", [Db, Finds, Db | None, dict[str, int] | Db, object])
def test_the_type_may_be_a_protocol_or_a_union(kind: object) -> None:
    agent = Agent("bot", model=ScriptedModel(["hi"]), deps_type=kind)
    assert weft.run_sync(agent, "hi", deps=Db()).text == "hi"


def test_mistakes_are_named_where_they_are_made() -> None:
    with pytest.raises(DeclarationError, match="a Db is not a type") as caught:
        Agent("bot", deps_type=Db())
    assert "deps_type=Db" in str(caught.value)
    assert "s3cret" not in str(caught.value)
    with pytest.raises(DeclarationError, match="pass it when it runs"):
        Agent("bot", deps=Db())  # type: ignore[call-arg, call-overload, misc]
    with pytest.raises(UsageError, match="write deps="):
        weft.run_sync(Agent("bot"), "hi", dependencies=Db())  # type: ignore[call-arg]
