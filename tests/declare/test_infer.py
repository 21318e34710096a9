"""O3: in `a >> b`, what `a` says is what `b` reads, where nothing else could be."""

import asyncio

import weft
from weft import Agent, Route, RunConfig, Runner
from weft.testing import ScriptedModel


def codes(flow: object, **options: object) -> list[str]:
    return [one.code for one in weft.check(flow, **options)]  # type: ignore[arg-type]


def test_the_one_key_that_nobody_writes_is_what_the_agent_before_says() -> None:
    flow = Agent("scout") >> Agent("writer", instruction="Write from {findings}.")
    assert codes(flow) == ["WEFT113"]
    assert codes(flow, infer=False) == ["WEFT105"]
    model = ScriptedModel(["three flights", "done"])
    result = weft.run_sync(flow, "Go", config=RunConfig(model=model))
    assert result.state == {"findings": "three flights"}
    assert str(model.wires[1]).count("three flights") == 1
    assert result.text == "done"


def test_a_route_is_fed_too() -> None:
    flow = Agent("triage") >> Route("intent").eq("book", Agent("booker")).otherwise(Agent("help"))
    assert codes(flow) == ["WEFT113"]
    model = ScriptedModel(["book", "booked"])
    result = weft.run_sync(flow, "Go", config=RunConfig(model=model))
    assert [event.author for event in result.events if event.text] == ["triage", "booker"]


def test_two_keys_or_a_key_that_is_given_are_not_inferred() -> None:
    two = Agent("scout") >> Agent("writer", instruction="{a} and {b}")
    assert codes(two) == ["WEFT105", "WEFT105"]
    flow = Agent("scout") >> Agent("writer", instruction="Write about {topic}.")
    assert codes(flow, inputs={"topic": str}) == []
    model = ScriptedModel(["three flights", "done"])
    result = weft.run_sync(flow, "Go", state={"topic": "Oslo"}, config=RunConfig(model=model))
    assert result.state == {"topic": "Oslo"}
    assert "about Oslo" in str(model.wires[1])


def test_it_can_be_switched_off() -> None:
    flow = Agent("scout") >> Agent("writer", instruction="Write from {findings}.")
    model = ScriptedModel(["three flights", "done"])
    result = weft.run_sync(flow, "Go", config=RunConfig(model=model, infer=False))
    assert result.state == {}
    assert "{findings}" in str(model.wires[1])


def test_it_holds_in_every_turn_of_a_session() -> None:
    model = ScriptedModel(["one", "first", "two", "second"])
    flow = Agent("scout") >> Agent("writer", instruction="Write from {findings}.")
    runner = Runner(flow)

    async def turns() -> None:
        for message in ("a", "b"):
            config = RunConfig(model=model)
            async for _ in runner.run(user_id="u", session_id="s", message=message, config=config):
                pass

    asyncio.run(turns())
    assert "Write from one." in str(model.wires[1])
    assert "Write from two." in str(model.wires[3])
