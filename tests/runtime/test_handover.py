"""X: transfers, run for real."""

import asyncio

import pytest

import weft
from weft import Agent, Content, Event, Part, RunConfig, Runner, Sequence, tool
from weft.content import FunctionResponse
from weft.testing import ScriptedModel, call

TO = "transfer_to_agent"


def team(script: dict[str, list[object]], **options: bool) -> tuple[Agent, ScriptedModel]:
    """A boss with two helpers, all on one script."""
    model = ScriptedModel(script)
    left = Agent("left", description="Does the left.", **options)
    right = Agent("right", description="Does the right.", **options)
    return Agent("boss", model=model, sub_agents=[left, right]), model


def authors(events: tuple[Event, ...]) -> list[str]:
    """Who made each event."""
    return [event.author for event in events]


def test_x1_one_list_feeds_the_tool_the_text_and_the_run_time_check() -> None:
    root, model = team({"boss": [call(TO, agent_name="left")], "left": ["done"]})
    weft.run_sync(root, "go")
    assert [t.parameters["properties"]["agent_name"]["enum"] for t in model.prompts[0].tools] == [
        ["left", "right"]
    ]  # type: ignore[index]
    assert "- left: Does the left." in model.prompts[0].system_text
    assert "- boss" in model.prompts[1].system_text
    assert "- right" in model.prompts[1].system_text


def test_x2_an_unknown_name_gets_a_corrective_result() -> None:
    root, _model = team({"boss": [call(TO, agent_name="centre"), "never mind"]})
    result = weft.run_sync(root, "go")
    response = result.events[1].results[0].response
    assert response == {"error": "there is no agent 'centre' to hand over to; use: left, right"}
    assert result.text == "never mind"


def test_x3_every_call_of_the_turn_gets_a_result_before_the_hand_over() -> None:
    ran: list[int] = []

    def note() -> str:
        """Note."""
        ran.append(1)
        return "noted"

    model = ScriptedModel(
        {"boss": [[call(TO, agent_name="left"), call("note")]], "left": ["mine now"]}
    )
    root = Agent("boss", model=model, tools=[note], sub_agents=[Agent("left")])
    result = weft.run_sync(root, "go")
    assert [r.name for r in result.events[1].results] == [TO, "note"]
    assert ran == [1]
    assert result.events[1].actions.transfer_to_agent == "left"
    assert authors(result.events) == ["boss", "boss", "left"]
    assert result.text == "mine now"


def test_x3_only_the_first_of_two_hand_overs_counts() -> None:
    root, _ = team(
        {"boss": [[call(TO, agent_name="left"), call(TO, agent_name="right")]], "left": ["mine"]}
    )
    result = weft.run_sync(root, "go")
    assert "error" in (result.events[1].results[1].response or {})
    assert result.text == "mine"


def test_x3_a_ping_pong_stops_with_an_error_event() -> None:
    root, model = team(
        {"boss": [call(TO, agent_name="left")], "left": [call(TO, agent_name="boss")]}
    )
    result = weft.run_sync(root, "go")
    assert result.error is not None
    assert result.error.error_code == "transfer_loop"
    assert len(model.wires) == 2


def test_x3_going_back_with_news_is_no_ping_pong() -> None:
    root, _ = team(
        {
            "boss": [call(TO, agent_name="left"), "all done"],
            "left": [["I found it", call(TO, agent_name="boss")]],
        }
    )
    assert weft.run_sync(root, "go").text == "all done"


def test_x3_ten_hops_are_enough() -> None:
    names = [f"a{n}" for n in range(12)]
    model = ScriptedModel(
        {
            "root": [call(TO, agent_name="a0")],
            **{
                name: [[f"news {n}", call(TO, agent_name=f"a{n + 1}")]]
                for n, name in enumerate(names)
            },
        }
    )
    root = Agent("root", model=model, sub_agents=[Agent(name) for name in names])
    result = weft.run_sync(root, "go")
    assert result.error is not None
    assert result.error.error_code == "max_transfers"
    assert len(model.wires) == 11


def test_x4_the_next_message_goes_to_the_agent_that_answered_last() -> None:
    root, _model = team({"boss": [call(TO, agent_name="left")], "left": ["one", "two"]})
    first = weft.run_sync(root, "go")
    second = weft.run_sync(root, "more", session=first.session)
    assert authors(second.events) == ["left"]
    assert second.text == "two"


def test_x4_but_not_to_one_that_could_never_hand_back() -> None:
    root, _ = team(
        {"boss": [call(TO, agent_name="left"), "me again"], "left": ["one"]},
        disallow_transfer_to_parent=True,
    )
    first = weft.run_sync(root, "go")
    assert weft.run_sync(root, "more", session=first.session).text == "me again"


def test_x4_a_rewound_answer_does_not_count() -> None:
    root, _ = team({"boss": [call(TO, agent_name="left"), "boss here"], "left": ["one"]})
    runner = Runner(root)

    async def go() -> None:
        first = await runner.run(session_id="s", message="go")
        await runner.rewind(session_id="s", invocation_id=first.invocation_id)
        assert (await runner.run(session_id="s", message="again")).text == "boss here"

    asyncio.run(go())


def test_x4_a_function_response_goes_to_the_agent_that_made_the_call() -> None:
    @tool(long_running=True)
    def ask_human(question: str) -> None:
        """Ask a person."""

    model = ScriptedModel(
        {
            "boss": [call(TO, agent_name="left"), "boss speaks"],
            "left": [call("ask_human", question="ok?"), "they said yes"],
        }
    )
    left = Agent("left", tools=[ask_human], disallow_transfer_to_parent=True)
    root = Agent("boss", model=model, sub_agents=[left])
    runner = Runner(root)

    async def go() -> None:
        first = await runner.run(session_id="s", message="go")
        (call_id,) = first.waiting
        between = await runner.run(session_id="s", message="anyone?")
        assert between.text == "boss speaks"
        answer = Content(
            parts=(
                Part(
                    function_response=FunctionResponse(
                        name="ask_human", id=call_id, response={"result": "yes"}
                    )
                ),
            ),
            role="user",
        )
        last = await runner.run(session_id="s", message=answer)
        assert authors(last.events) == ["left"]
        assert last.text == "they said yes"

    asyncio.run(go())


def test_a_flow_may_be_a_target() -> None:
    model = ScriptedModel(
        {"boss": [call(TO, agent_name="report")], "web": ["found"], "writer": ["written"]}
    )
    report = Sequence(
        Agent("web", model=model).writes("web"),
        Agent("writer", model=model, instruction="From {web}."),
        name="report",
        description="Researches and writes.",
    )
    root = Agent("boss", model=model, sub_agents=[report])
    result = weft.run_sync(root, "go")
    assert "- report: Researches and writes." in model.prompts[0].system_text
    assert authors(result.events) == ["boss", "boss", "web", "writer"]
    assert result.text == "written"
    assert "From found." in model.prompts[2].system_text


def test_the_transfer_limit_is_per_invocation() -> None:
    script = {
        "boss": [["on", call(TO, agent_name="left")] for _ in range(3)],
        "left": [["back", call(TO, agent_name="boss")], "one", "two"],
    }
    root, _ = team(script)  # type: ignore[arg-type]
    result = weft.run_sync(root, "go", config=RunConfig(max_llm_calls=10))
    assert result.error is None
    assert result.text == "one"


@pytest.mark.parametrize("who", ["boss", "left"])
def test_an_agent_keeps_its_own_view_after_a_hand_over(who: str) -> None:
    root, model = team({"boss": [call(TO, agent_name="left")], "left": ["done"]})
    weft.run_sync(root, "please")
    prompt = next(p for p in model.prompts if p.agent == who)
    assert "user: please" in str(prompt)


def test_a_flow_below_an_agent_inherits_its_model() -> None:
    model = ScriptedModel(
        {"boss": [call(TO, agent_name="report")], "web": ["found"], "writer": ["written"]}
    )
    report = Sequence(Agent("web"), Agent("writer"), name="report", description="Writes.")
    assert weft.run_sync(Agent("boss", model=model, sub_agents=[report]), "go").text == "written"


def test_an_agent_as_a_tool_inherits_its_callers_model() -> None:
    model = ScriptedModel({"boss": [call("kid", request="x"), "done"], "kid": ["mine"]})
    boss = Agent("boss", model=model, tools=[Agent("kid", description="A kid.")])
    assert weft.run_sync(boss, "go").text == "done"
