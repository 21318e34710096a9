"""What sessions and agents share: a request is the one that would be made from nothing."""

import gc
from collections.abc import Callable, Mapping

import pytest

import weft
from weft import Agent, Event, Loop, Parallel, RunConfig, Runner, Sequence, Session, Tool, tool
from weft.compiler.plan import plan_for
from weft.declare import Node, agents_of
from weft.models.scripted import Entry
from weft.testing import ScriptedModel, call
from weft.values import JsonObject


@tool
def look_up(name: str) -> str:
    """Look something up."""
    return f"about {name}"


def agent(name: str, model: ScriptedModel, *tools: Tool) -> Agent:
    return Agent(name, model=model, instruction=f"You do the work of {name}.", tools=tools)


def chain(model: ScriptedModel) -> Node:
    """Six agents one after the other; one of them uses a tool, and has another head for it."""
    tools = {3: (look_up,)}
    return Sequence(*(agent(f"a{i}", model, *tools.get(i, ())) for i in range(6)))


def rounds(model: ScriptedModel) -> Node:
    """Agents that come again: what they said themselves is no longer somebody else's."""
    return Loop(Sequence(*(agent(f"a{i}", model) for i in range(4))), max=2)


def joined(model: ScriptedModel) -> Node:
    """Agents behind branches."""
    return Sequence(
        agent("a", model),
        Parallel(agent("b", model), agent("c", model)),
        agent("d", model),
        agent("e", model),
    )


SCRIPTS: Mapping[str, list[Entry]] = {
    "chain": ["one", "two", "three", call("look_up", name="x"), "four", "five", "six"],
    "rounds": [f"answer {i}" for i in range(8)],
    "joined": [f"answer {i}" for i in range(5)],
}


@pytest.mark.parametrize("shape", [chain, rounds, joined])
async def test_every_request_of_a_run_is_the_one_that_is_compiled_cold(
    shape: Callable[[ScriptedModel], Node],
) -> None:
    model = ScriptedModel([*SCRIPTS[shape.__name__]])
    root = shape(model)
    result = await Runner(root, app_name="app").run("Go", session_id="s")
    assert result.error is None
    log = [*result.session.events]
    agents = {one.name: one for one in agents_of(root)}
    replies = {name: iter(_replies(log, name)) for name in agents}
    for prompt, wire in zip(model.prompts, model.wires, strict=True):
        reply = next(replies[prompt.agent])
        before = Session("s", events=log[:reply])
        cold = weft.compile(agents[prompt.agent], session=before, branch=log[reply].branch)
        assert cold.wire == wire


def _replies(log: list[Event], name: str) -> list[int]:
    """Where the log has what a model said for the agent."""
    return [
        index
        for index, event in enumerate(log)
        if event.author == name and event.content is not None and event.content.role == "model"
    ]


async def test_sessions_share_a_head_and_nothing_that_was_said_in_them() -> None:
    model = ScriptedModel(["one", "two"])
    bot = agent("bot", model, look_up)
    runner = Runner(bot, app_name="app")
    await runner.run("First", session_id="a")
    await runner.run("Second", session_id="b")
    first, second = model.wires
    assert _without_turns(first) == _without_turns(second)
    assert "First" not in str(second)
    assert "Second" not in str(first)
    (head,) = plan_for(bot, "bot", RunConfig()).shared.heads.values()
    assert not len(head.of.items)


def _without_turns(wire: JsonObject) -> JsonObject:
    turns = ("messages", "contents", "input")
    return {key: value for key, value in wire.items() if key not in turns}


async def test_what_is_kept_of_schemas_does_not_grow_with_their_number() -> None:
    agent = Agent("schemas", model=ScriptedModel(["{}"] * 200), sub_agents=[Agent("other")])
    runner = Runner(agent)

    async def ask(numbers: range) -> int:
        """How many agents of the name there are when it has asked with so many schemas."""
        for number in numbers:
            schema: JsonObject = {"type": "object", "title": f"t{number}"}
            await (await runner.start("hi", session_id="s", output_schema=schema))
        gc.collect()
        return sum(type(one) is Agent and one.name == "schemas" for one in gc.get_objects())

    before = await ask(range(100))
    assert await ask(range(100, 200)) == before
    await runner.close()
