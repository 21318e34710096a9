"""F, S, X, H, O: what users of ADK rely on when their agents run."""

import asyncio
from typing import cast

import pytest

import weft
from tests.peers.running import TO, runs, told
from tests.support.tools import add
from weft import (
    Agent,
    CallbackContext,
    Loop,
    Parallel,
    RunConfig,
    Runner,
    Sequence,
    ToolContext,
    tool,
)
from weft.testing import ScriptedModel, call, chunks, thought

# State.


def test_S1_scopes_are_shared_as_their_names_say() -> None:
    def put(ctx: ToolContext) -> str:
        """Put."""
        ctx.state["own"] = ctx.session.id
        ctx.state["user:name"] = ctx.user_id
        ctx.state["app:motto"] = "weave"
        ctx.state["temp:secret"] = 42
        return "ok"

    async def go() -> None:
        model = ScriptedModel([call("put"), "one", "two", "three"])
        instruction = "{own?}|{user:name?}|{app:motto?}|{temp:secret?}"
        runner = Runner(Agent("bot", model=model, tools=[put], instruction=instruction))
        await runner.run(user_id="ada", session_id="1", message="x")
        await runner.run(user_id="ada", session_id="2", message="x")
        await runner.run(user_id="bob", session_id="3", message="x")
        shown = [prompt.system_text.split("\n\n")[-1] for prompt in model.prompts]
        assert shown == ["|||", "1|ada|weave|42", "|ada|weave|", "||weave|"]
        stored = await runner.session(user_id="ada", session_id="1")
        assert stored.state == {"own": "1", "user:name": "ada", "app:motto": "weave"}

    runs(go)


def test_S1_temp_state_reaches_every_agent_of_the_invocation_and_no_further() -> None:
    def put(ctx: ToolContext) -> str:
        """Put."""
        ctx.state["temp:n"] = 1
        return "ok"

    model = ScriptedModel({"a": [call("put"), "A", "A2"], "b": ["B", "B2"]})
    flow = Agent("a", model=model, tools=[put], instruction="{temp:n?}.") >> Agent(
        "b", model=model, instruction="n is {temp:n?}."
    )
    first = weft.run_sync(flow, "go")
    weft.run_sync(flow, "again", session=first.session)
    read = [prompt.system_text for prompt in model.prompts if prompt.agent == "b"]
    assert "n is 1." in read[0]
    assert "n is ." in read[1]


def test_S1_parallel_calls_each_read_the_state_from_before_and_all_their_changes_are_kept() -> None:
    met: list[object] = []

    async def put(key: str, ctx: ToolContext) -> str:
        """Put."""
        met.append(ctx.state.get("first"))
        ctx.state[key] = key
        await asyncio.sleep(0)
        return "ok"

    model = ScriptedModel(
        [[call("put", key="first"), call("put", key="second")], call("put", key="third"), "done"]
    )
    result = weft.run_sync(Agent("bot", model=model, tools=[put]), "go")
    assert result.state == {"first": "first", "second": "second", "third": "third"}
    assert met == [None, None, "first"]


def test_S1_a_list_read_from_the_state_and_changed_is_written() -> None:
    def note(what: str, ctx: ToolContext) -> str:
        """Note."""
        cast("list[str]", ctx.state["notes"]).append(what)
        return "ok"

    model = ScriptedModel([call("note", what="a"), call("note", what="b"), "done"])
    result = weft.run_sync(Agent("bot", model=model, tools=[note]), "go", state={"notes": []})
    assert result.state == {"notes": ["a", "b"]}


# What agents leave and see.


def test_F5_a_sub_agents_answer_is_under_its_own_key() -> None:
    model = ScriptedModel(
        {"boss": [["over to you", call(TO, agent_name="left")]], "left": ["done"]}
    )
    boss = Agent(
        "boss", model=model, output_key="boss", sub_agents=[Agent("left", output_key="left")]
    )
    assert weft.run_sync(boss, "go").state == {"left": "done"}


def test_H7_an_agent_without_history_sees_the_message_and_its_own_tools() -> None:
    model = ScriptedModel(["first", call("add", a=1, b=2), "second"])
    bot = Agent("bot", model=model, tools=[add], include_contents="none")
    session = weft.run_sync(bot, "old").session
    weft.run_sync(bot, "new", session=session)
    assert "old" not in str(model.prompts[1])
    assert 'add -> {"result":3}' in str(model.prompts[2])


def test_I1_the_roots_global_instruction_reaches_every_agent_of_its_tree() -> None:
    model = ScriptedModel({"boss": [call(TO, agent_name="left")], "left": ["done"]})
    boss = Agent("boss", model=model, global_instruction="Be {mood}.", sub_agents=[Agent("left")])
    weft.run_sync(boss, "go", state={"mood": "kind"})
    assert all("Be kind." in prompt.system_text for prompt in model.prompts)


def test_T7_a_provider_is_asked_for_every_request_and_reads_the_state() -> None:
    asked: list[object] = []

    async def provide(ctx: weft.ReadonlyContext) -> str:
        asked.append(ctx.state.get("n"))
        return f"n is {ctx.state.get('n')}"

    def put(ctx: ToolContext) -> str:
        """Put."""
        ctx.state["n"] = 1
        return "ok"

    model = ScriptedModel([call("put"), "done"])
    weft.run_sync(Agent("bot", model=model, tools=[put], instruction=provide), "go")
    assert asked == [None, 1]
    assert "n is 1" in model.prompts[1].system_text


# Transfers.


def test_X1_forbidden_targets_are_neither_offered_nor_reached() -> None:
    model = ScriptedModel(
        {
            "boss": [call(TO, agent_name="left")],
            "left": [call(TO, agent_name="right"), call(TO, agent_name="boss"), "mine then"],
        }
    )
    left = Agent("left", disallow_transfer_to_peers=True, disallow_transfer_to_parent=True)
    boss = Agent("boss", model=model, sub_agents=[left, Agent("right")])
    result = weft.run_sync(boss, "go")
    assert result.text == "mine then"
    errors = [r.response for e in result.events[2:] for r in e.results]
    assert all("there is no agent" in str(error) for error in errors)
    assert len(errors) == 2
    assert [t.name for t in model.prompts[1].tools] == []


def test_X4_the_conversation_stays_with_the_agent_that_answered_last() -> None:
    async def go() -> None:
        model = ScriptedModel(
            {
                "boss": [call(TO, agent_name="left"), "boss again"],
                "left": [call(TO, agent_name="deep"), call(TO, agent_name="boss")],
                "deep": ["one", "two", [("up"), call(TO, agent_name="left")]],
            }
        )
        left = Agent("left", sub_agents=[Agent("deep")])
        runner = Runner(Agent("boss", model=model, sub_agents=[left]))
        answers = [(await runner.run(session_id="s", message="x")) for _ in range(3)]
        assert [answer.text for answer in answers] == ["one", "two", "boss again"]
        assert [p.agent for p in model.prompts][3:] == ["deep", "deep", "left", "boss"]

    runs(go)


def test_X3_a_tool_may_hand_over_itself() -> None:
    def escalate_case(ctx: ToolContext) -> str:
        """Hand over."""
        ctx.actions.transfer_to_agent = "expert"
        return "passing you on"

    model = ScriptedModel({"boss": [call("escalate_case")], "expert": ["expert here"]})
    boss = Agent("boss", model=model, tools=[escalate_case], sub_agents=[Agent("expert")])
    assert weft.run_sync(boss, "go").text == "expert here"


# Tools.


def test_F2_one_failing_call_leaves_the_others_their_results_in_call_order() -> None:
    async def slow(n: int) -> int:
        """Take a while, the less the later."""
        await asyncio.sleep(0.01 * (3 - n))
        if n == 1:
            raise ValueError("one")
        return n

    model = ScriptedModel([[call("slow", n=n) for n in range(3)], "done"])
    result = weft.run_sync(Agent("bot", model=model, tools=[slow]), "go")
    assert told(result.events)[1] == [{"result": 0}, {"error": "ValueError: one"}, {"result": 2}]


def test_F1_a_tool_whose_result_needs_no_summary_ends_the_turn() -> None:
    def show(ctx: ToolContext) -> dict[str, int]:
        """Show."""
        ctx.actions.skip_summarization = True
        return {"shown": 1}

    async def go() -> None:
        model = ScriptedModel([call("show"), "next"])
        runner = Runner(Agent("bot", model=model, tools=[show]))
        result = await runner.run(session_id="s", message="x")
        assert told(result.events) == [["show"], [{"shown": 1}]]
        assert result.events[-1].is_final_response()
        assert model.calls == 1
        assert (await runner.run(session_id="s", message="y")).text == "next"

    runs(go)


def test_F1_the_limit_of_model_calls_holds_for_agents_behind_tools_too() -> None:
    model = ScriptedModel(
        {"boss": [call("expert", request="x"), "never"], "expert": [call("add", a=1, b=1), "two"]}
    )
    expert = Agent("expert", model=model, description="Knows.", tools=[add])
    boss = Agent("boss", model=model, tools=[expert])
    result = weft.run_sync(boss, "go", config=RunConfig(max_llm_calls=2))
    assert result.error is not None
    assert result.error.error_code == "max_llm_calls"
    assert model.calls == 2


def test_an_agent_as_a_tool_reads_and_writes_the_callers_state() -> None:
    def put(ctx: ToolContext) -> str:
        """Put."""
        ctx.state["found"] = f"by {ctx.agent_name} for {ctx.state['who']}"
        return "ok"

    model = ScriptedModel(
        {
            "boss": [call("expert", request="look"), "done"],
            "expert": [call("put"), "answer"],
        }
    )
    expert = Agent(
        "expert",
        model=model,
        description="x",
        tools=[put],
        instruction="For {who}.",
        output_key="out",
    )
    boss = Agent("boss", model=model, tools=[expert], instruction="{found?}")
    result = weft.run_sync(boss, "go", state={"who": "Ada"})
    assert result.state == {"who": "Ada", "found": "by expert for Ada", "out": "answer"}
    assert "For Ada." in model.prompts[1].system_text
    assert "by expert for Ada" in model.prompts[3].system_text


def test_an_agent_as_a_tool_that_escalates_does_not_stop_its_callers_loop() -> None:
    def leave(ctx: ToolContext) -> str:
        """Leave."""
        ctx.actions.escalate = True
        return "left"

    model = ScriptedModel(
        {"boss": [call("expert", request="x"), "1", "2"], "expert": [call("leave"), "out"]}
    )
    expert = Agent("expert", model=model, description="x", tools=[leave])
    weft.run_sync(Agent("boss", model=model, tools=[expert]) * 2, "go")
    assert [p.agent for p in model.prompts] == ["boss", "expert", "expert", "boss", "boss"]


def test_an_agent_as_a_tool_may_wait_for_an_answer() -> None:
    @tool(long_running=True)
    def ask(question: str) -> None:
        """Ask."""

    async def go() -> None:
        model = ScriptedModel(
            {
                "boss": [call("expert", request="x"), "done"],
                "expert": [call("ask", question="ok?"), "they said yes"],
            }
        )
        expert = Agent("expert", model=model, description="x", tools=[ask])
        runner = Runner(Agent("boss", model=model, tools=[expert]))
        first = await runner.run(session_id="s", message="go")
        assert list(first.waiting.values()) == ["ask"]
        (call_id,) = first.waiting
        last = await runner.resume(session_id="s", answers={call_id: "yes"})
        assert last.text == "done"
        assert 'expert -> {"result":"they said yes"}' in str(model.prompts[-1])

    runs(go)


# Flows.


def exit_loop(ctx: ToolContext) -> str:
    """Leave the loop."""
    ctx.actions.escalate = True
    ctx.actions.skip_summarization = True
    return ""


def test_O1_who_escalates_ends_the_round_and_the_loop() -> None:
    model = ScriptedModel(
        {"critic": ["worse", call("exit_loop")], "writer": ["draft"], "last": ["end"]}
    )
    critic = Agent("critic", model=model, tools=[exit_loop])
    flow = Loop(critic >> Agent("writer", model=model), max=5) >> Agent("last", model=model)
    result = weft.run_sync(flow, "go")
    assert [p.agent for p in model.prompts] == ["critic", "writer", "critic", "last"]
    assert result.text == "end"


def test_O1_outside_a_loop_nobody_minds_who_escalates() -> None:
    model = ScriptedModel({"a": [call("exit_loop")], "b": ["B"]})
    flow = Agent("a", model=model, tools=[exit_loop]) >> Agent("b", model=model)
    assert weft.run_sync(flow, "go").text == "B"


@pytest.mark.parametrize("moment", ["before_agent", "after_agent", "before_model", "after_model"])
def test_O1_a_callback_may_escalate_too(moment: str) -> None:
    def escalates(ctx: CallbackContext, *rest: object) -> None:
        ctx.actions.escalate = True

    model = ScriptedModel(["1", "2", "3"])
    bot = Agent("bot", model=model, **{moment: escalates})  # type: ignore[arg-type]
    assert weft.run_sync(bot * 3, "go").text == "1"
    assert model.calls == 1


def test_O1_an_agent_in_a_loop_sees_what_was_said_in_earlier_rounds() -> None:
    model = ScriptedModel({"writer": ["one", "two"], "critic": ["bad", "good"]})
    weft.run_sync((Agent("writer", model=model) >> Agent("critic", model=model)) * 2, "go")
    again = str(model.prompts[2])
    assert "model: one" in again
    assert "[critic]: bad" in again


def test_H2_parallel_branches_are_apart_and_what_follows_sees_their_state_only() -> None:
    model = ScriptedModel({"a": ["alpha"], "b": ["beta"], "c": ["done"]})
    both = Parallel(
        Agent("a", model=model, output_key="a"), Agent("b", model=model, output_key="b")
    )
    flow = Sequence(both, Agent("c", model=model, instruction="{a}, {b}"))
    result = weft.run_sync(flow, "go")
    assert {e.author: e.branch for e in result.events} == {
        "a": "parallel.a", "b": "parallel.b", "c": None,
    }  # fmt: skip
    seen = {prompt.agent: str(prompt) for prompt in model.prompts}
    assert "alpha" not in seen["b"]
    assert "beta" not in seen["a"]
    assert seen["c"].count("alpha") == seen["c"].count("beta") == 1


# Streaming.


def test_F9_partial_events_come_first_and_the_whole_once() -> None:
    async def go() -> None:
        model = ScriptedModel(
            [chunks(thought("hm"), "Let me ", "add.", call("add", a=1, b=2)), chunks("Th", "ree")]
        )
        runner = Runner(Agent("bot", model=model, tools=[add], output_key="said"))
        config = RunConfig(stream=True)
        seen: list[tuple[bool, str, int]] = []
        async for event in runner.run(session_id="s", message="x", config=config):
            seen.append((bool(event.partial), event.text, len(event.calls) + len(event.results)))
        assert seen == [
            (True, "", 0), (True, "Let me ", 0), (True, "add.", 0), (False, "Let me add.", 1),
            (False, "", 1), (True, "Th", 0), (True, "ree", 0), (False, "Three", 0),
        ]  # fmt: skip
        session = await runner.session(session_id="s")
        assert len(session.events) == 4
        assert session.state == {"said": "Three"}

    runs(go)
