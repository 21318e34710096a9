"""O1: workflow nodes, run for real, in one log."""

import asyncio
import json

import pytest

import weft
from weft import Agent, C, Event, Fallback, Loop, Parallel, Route, Runner, S, Sequence, Step, until
from weft.content import media_part
from weft.ir import Prompt
from weft.testing import ScriptedModel, call, delayed
from weft.values import Json


def agent(name: str, model: ScriptedModel, instruction: str = "") -> Agent:
    """An agent that writes its answer under its own name."""
    return Agent(name, model=model, instruction=instruction).writes(name)


def ended(events: "tuple[Event, ...] | list[Event]") -> list[str]:
    """The nodes that left their completion in the log."""
    return [event.author for event in events if event.actions.end_of_agent]


def test_a_sequence_runs_its_steps_in_order_in_one_log() -> None:
    model = ScriptedModel({"a": ["A"], "b": ["B"]})
    flow = agent("a", model) >> agent("b", model, "From {a}.")
    result = weft.run_sync(flow, "go")
    assert [e.author for e in result.events] == ["a", "b"]
    assert result.text == "B"
    assert result.state == {"a": "A", "b": "B"}
    assert "From A." in model.prompts[1].system_text
    assert ended(list(result.session.events)) == ["sequence"]


def test_a_value_that_the_template_carries_is_not_repeated_from_the_conversation() -> None:
    model = ScriptedModel({"a": ["booking"], "b": ["B"]})
    weft.run_sync(agent("a", model) >> agent("b", model, "Intent: {a}."), "Fly me")
    assert str(model.prompts[1]).count("booking") == 1
    assert "user: Fly me" in str(model.prompts[1])


def test_a_failed_step_ends_the_sequence() -> None:
    model = ScriptedModel({"a": [RuntimeError("503")], "b": ["B"]})
    result = weft.run_sync(agent("a", model) >> agent("b", model), "go")
    assert result.error is not None
    assert result.error.author == "a"
    assert len(model.prompts) == 1
    assert ended(list(result.session.events)) == []


def test_parallel_branches_do_not_see_each_other_and_all_write_state() -> None:
    model = ScriptedModel({"a": [delayed(0.01, "A")], "b": ["B"], "c": ["C"]})
    flow = (agent("a", model) | agent("b", model)) >> agent("c", model, "{a} {b}")
    result = weft.run_sync(flow, "go")
    assert result.state == {"a": "A", "b": "B", "c": "C"}
    seen = {prompt.agent: str(prompt) for prompt in model.prompts}
    assert "B" not in seen["a"].replace("You are", "")
    assert "[a]" not in seen["b"]
    assert "A B" in seen["c"]
    branches = {e.author: e.branch for e in result.events}
    assert branches == {"a": "parallel.a", "b": "parallel.b", "c": None}


def test_the_same_agent_in_two_branches_stays_apart() -> None:
    model = ScriptedModel({"a": ["one", "two"]})
    a = Agent("a", model=model)
    result = weft.run_sync(a | a, "go")
    assert {e.branch for e in result.events} == {"parallel.a", "parallel.a_2"}
    for prompt in model.prompts:
        assert "one" not in str(prompt)
        assert "two" not in str(prompt)


def test_one_failing_branch_cancels_the_others() -> None:
    started = asyncio.Event()
    cancelled: list[str] = []

    async def slow(prompt: Prompt) -> str:
        started.set()
        try:
            await asyncio.sleep(60)
        except asyncio.CancelledError:
            cancelled.append("slow")
            raise
        return "never"

    async def fails(prompt: Prompt) -> str:
        await started.wait()
        raise RuntimeError("503")

    model = ScriptedModel({"a": [slow], "b": [fails]})
    result = weft.run_sync(agent("a", model) | agent("b", model), "go")
    assert result.error is not None
    assert result.error.author == "b"
    assert cancelled == ["slow"]


def test_or_the_failures_are_collected() -> None:
    model = ScriptedModel({"a": ["A"], "b": [RuntimeError("503")], "c": ["C"]})
    both = Parallel(agent("a", model), agent("b", model), on_error="collect")
    result = weft.run_sync(both >> agent("c", model), "go")
    assert result.error is None
    assert result.text == "C"
    assert [e.error_code for e in result.events if e.error_code] == ["model_error"]


def test_when_all_branches_fail_collecting_fails_too() -> None:
    model = ScriptedModel({"a": [RuntimeError("1")], "b": [RuntimeError("2")]})
    both = Parallel(agent("a", model), agent("b", model), on_error="collect")
    assert weft.run_sync(both, "go").error is not None


def test_a_slow_consumer_slows_the_branches_down() -> None:
    class Endless:
        """A model that always calls the tool."""

        name, dialect = "endless", "gemini"
        made = 0

        async def generate(self, prompt, wire, *, stream):  # type: ignore[no-untyped-def]
            Endless.made += 1
            yield weft.ModelResponse(
                content=weft.Content(parts=(call("tick", n=Endless.made),), role="model")
            )

    def tick(n: int) -> int:
        """Tick."""
        return n

    flow = Agent("a", model=Endless(), tools=[tick]) | Agent("b", model=Endless(), tools=[tick])

    async def go() -> None:
        run = Runner(flow).run(message="go")
        async for _ in run:
            for _ in range(200):
                await asyncio.sleep(0)
            break
        assert Endless.made <= 6
        await run.aclose()

    asyncio.run(go())


def test_a_loop_ends_after_its_rounds() -> None:
    model = ScriptedModel({"a": ["1", "2", "3"]})
    result = weft.run_sync(agent("a", model) * 3, "go")
    assert result.text == "3"
    assert len(model.prompts) == 3
    assert "1" in str(model.prompts[1])


def test_a_loop_ends_when_its_predicate_says_so() -> None:
    model = ScriptedModel({"w": ["draft", "better"], "c": ["0.5", "0.9"]})
    flow = (agent("w", model) >> agent("c", model)) * until(
        lambda state: float(state["c"]) > 0.8, max=5
    )
    result = weft.run_sync(flow, "go")
    assert result.state == {"w": "better", "c": "0.9"}
    assert model.remaining == 0


def test_a_loop_ends_when_somebody_escalates() -> None:
    def stop(ctx: weft.ToolContext) -> str:
        """Stop."""
        ctx.actions.escalate = True
        ctx.actions.skip_summarization = True
        return "stopped"

    model = ScriptedModel({"a": ["1", call("stop")]})
    flow = Loop(Agent("a", model=model, tools=[stop]), max=10)
    result = weft.run_sync(flow, "go")
    assert result.error is None
    assert len(model.prompts) == 2


def test_an_async_predicate_is_waited_for_and_a_raising_one_is_an_error() -> None:
    async def done(state: dict[str, Json]) -> bool:
        await asyncio.sleep(0)
        return True

    model = ScriptedModel({"a": ["1"]})
    assert weft.run_sync(Loop(agent("a", model), until=done), "go").text == "1"

    model = ScriptedModel({"a": ["1"]})
    runner = Runner(Loop(agent("a", model), until=lambda state: state["nope"]))

    async def go() -> None:
        with pytest.raises(KeyError):
            await runner.run(session_id="s", message="go")
        session = await runner.session(session_id="s")
        assert session.events[-1].error_code == "step_error"

    asyncio.run(go())


def test_a_fallback_takes_the_first_choice_that_does_not_fail() -> None:
    model = ScriptedModel({"a": [RuntimeError("503")], "b": ["B"], "c": ["C"]})
    result = weft.run_sync(Fallback(agent("a", model), agent("b", model), agent("c", model)), "go")
    assert result.text == "B"
    assert result.error is None
    assert [p.agent for p in model.prompts] == ["a", "b"]


def test_a_fallback_without_a_good_choice_fails() -> None:
    model = ScriptedModel({"a": [RuntimeError("1")], "b": [RuntimeError("2")]})
    result = weft.run_sync(agent("a", model) // agent("b", model), "go")
    assert result.error is not None
    assert result.error.error_message == "RuntimeError: 2"


def test_a_route_leads_by_state_and_says_so_in_the_log() -> None:
    model = ScriptedModel({"triage": [" Booking\n"], "booker": ["booked"]})
    flow = agent("triage", model) >> Route("triage").eq(
        "booking", agent("booker", model)
    ).otherwise(agent("helper", model))
    result = weft.run_sync(flow, "go")
    assert result.text == "booked"
    assert [e.actions.route for e in result.session.events if e.actions.route] == ['eq("booking")']


def test_a_route_that_leads_nowhere_is_an_error_event() -> None:
    model = ScriptedModel({"triage": ["weather"]})
    flow = agent("triage", model) >> Route("triage").eq("booking", agent("booker", model))
    result = weft.run_sync(flow, "go")
    assert result.error is not None
    assert result.error.error_code == "no_route"


def test_a_step_is_a_function_of_the_state() -> None:
    def double(state: dict[str, Json]) -> dict[str, Json]:
        return {"n": int(str(state["n"])) * 2}

    async def later(state: dict[str, Json]) -> None:
        state["seen"] = True
        del state["gone"]

    model = ScriptedModel({"a": ["A"]})
    flow = Step(double) >> later >> agent("a", model, "{n}")
    result = weft.run_sync(flow, "go", state={"n": "4", "gone": 1})
    assert result.state == {"n": 8, "seen": True, "a": "A"}
    assert [e.author for e in result.events] == ["double", "later", "a"]


def test_a_step_that_raises_or_returns_nonsense_is_an_error_event_and_an_exception() -> None:
    def bad(state: dict[str, Json]) -> dict[str, Json]:
        raise ZeroDivisionError("oops")

    def odd(state: dict[str, Json]) -> int:
        return 3

    def unfit(state: dict[str, Json]) -> dict[str, object]:
        return {"x": object()}

    async def go(function: object, error: type[Exception]) -> None:
        runner = Runner(Step(function))  # type: ignore[arg-type]
        with pytest.raises(error):
            await runner.run(session_id="s", message="go")
        session = await runner.session(session_id="s")
        assert session.events[-1].error_code == "step_error"

    asyncio.run(go(bad, ZeroDivisionError))
    asyncio.run(go(odd, weft.WeftError))
    asyncio.run(go(unfit, weft.WeftError))


def test_everything_nests() -> None:
    script = {name: [name.upper()] * 9 for name in "abcdef"}
    model = ScriptedModel(script)
    a, b, c, d, e, f = (agent(name, model) for name in "abcdef")
    flow = Sequence(
        ((a >> b) | (c // d)) * 2,
        Route("a").eq("A", Parallel(e, Loop(f, max=2))).otherwise(d),
    )
    result = weft.run_sync(flow, "go")
    assert result.error is None
    counts = {name: sum(p.agent == name for p in model.prompts) for name in "abcdef"}
    assert counts == {"a": 2, "b": 2, "c": 2, "d": 0, "e": 1, "f": 2}
    assert ended(list(result.session.events)).count("sequence") == 3


def test_an_agent_as_a_tool_sees_its_request_only_and_its_answer_is_the_result() -> None:
    model = ScriptedModel(
        {
            "boss": [call("expert", request="What is 2+2?"), "It is 4."],
            "expert": [call("note"), "4"],
        }
    )

    def note(ctx: weft.ToolContext) -> str:
        """Note."""
        ctx.state["noted"] = True
        return "ok"

    expert = Agent("expert", model=model, description="Knows numbers.", tools=[note])
    result = weft.run_sync(Agent("boss", model=model, tools=[expert]), "secret question")
    assert result.text == "It is 4."
    assert result.state == {"noted": True}
    asked = str(model.prompts[1])
    assert "What is 2+2?" in asked
    assert "secret question" not in asked
    final = str(model.prompts[3])
    assert 'expert -> {"result":"4"}' in final
    assert "note" not in final.split("user:", 1)[1]
    assert [e.author for e in result.events] == ["boss", "boss", "boss"]


def test_an_agent_as_a_tool_that_fails_is_an_error_result() -> None:
    model = ScriptedModel(
        {"boss": [call("expert", request="x"), "Sorry."], "expert": [RuntimeError("503")]}
    )
    boss = Agent("boss", model=model, tools=[Agent("expert", model=model, description="x")])
    result = weft.run_sync(boss, "go")
    assert result.text == "Sorry."
    assert "expert failed: model_error" in str(result.events[1].results[0].response)


def test_a_model_may_end_its_loop_itself() -> None:
    from weft.tools import exit_loop

    model = ScriptedModel({"a": ["1", call("exit_loop")]})
    result = weft.run_sync(Loop(Agent("a", model=model, tools=[exit_loop]), max=9), "go")
    assert result.error is None
    assert len(model.prompts) == 2


@pytest.mark.parametrize("key", ["asked", "user:asked", "temp:asked", "app:asked"])
def test_what_was_captured_of_the_user_is_sent_once(key: str) -> None:
    model = ScriptedModel({"a": [call("look"), "A1", "A2"], "b": ["B1", "B2"]})
    look = weft.tool(lambda: "seen", name="look", description="Look.")
    a = Agent("a", model=model, tools=[look], instruction=f"Asked: {{{key}}}")
    flow = S.capture(key) >> a >> Agent("b", model=model)
    first = weft.run_sync(flow, "Fly me to Oslo")
    sent = [json.dumps(wire) for wire in model.wires]
    assert [wire.count("Fly me to Oslo") for wire in sent] == [1, 1, 1]
    one, two, three = map(str, model.prompts)
    assert two.startswith(one), "the request after the tool extends the one before"
    assert one.endswith("user: (My message is given above.)")
    assert "user: Fly me to Oslo" in three, "who does not read the key has the message itself"
    weft.run_sync(flow, "And back", session=first.session)
    again = json.dumps(model.wires[3])
    assert again.count("And back") == again.count("Fly me to Oslo") == 1


def test_what_a_policy_captured_is_sent_once_and_media_stay() -> None:
    model = ScriptedModel({"a": ["A1"]})
    a = Agent("a", model=model, instruction="Asked: {q}").sees(C.none().capture("q"))
    message = weft.Content(
        role="user", parts=(weft.Part(text="What is this?"), media_part("image/png", b"png"))
    )
    weft.run_sync(a, message)
    assert json.dumps(model.wires[0]).count("What is this?") == 1
    assert "image/png" in json.dumps(model.wires[0])


def test_an_author_who_wants_both_has_both_and_an_equal_word_stays() -> None:
    model = ScriptedModel({"a": ["A1", "A2"]})
    both = Agent("a", model=model, instruction="Asked: {q}").sees(C.default().keep_duplicates())
    weft.run_sync(S.capture("q") >> both, "Oslo")
    assert str(model.prompts[0]).count("Oslo") == 2
    weft.run_sync(Agent("a", model=model, instruction="In {city}"), "Oslo", state={"city": "Oslo"})
    assert "user: Oslo" in str(model.prompts[1]), "it was not captured"
