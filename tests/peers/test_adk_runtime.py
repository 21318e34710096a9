"""F, S, X, H, O: what users of ADK rely on when their agents run."""

import asyncio
from collections.abc import Callable, Coroutine
from typing import cast

import pytest

import weft
from weft import (
    Agent,
    CallbackContext,
    Content,
    Event,
    Loop,
    ModelResponse,
    Parallel,
    Part,
    RunConfig,
    Runner,
    Sequence,
    Tool,
    ToolContext,
    tool,
)
from weft.content import FunctionResponse
from weft.ir import Prompt
from weft.testing import ScriptedModel, call, chunks, thought
from weft.values import JsonObject

TO = "transfer_to_agent"


def says(text: str) -> Content:
    """What a callback answers with."""
    return Content(parts=(Part(text=text),), role="model")


def add(a: int, b: int) -> int:
    """Add two numbers."""
    return a + b


def runs(test: Callable[[], Coroutine[object, object, None]]) -> None:
    """Run a test's coroutine."""
    asyncio.run(asyncio.wait_for(test(), 20))


def told(events: "tuple[Event, ...] | list[Event]") -> list[object]:
    """Events in short: `author: text`, calls by name, results as they are."""
    found: list[object] = []
    for event in events:
        if event.error_code:
            found.append(f"{event.author}! {event.error_code}")
        elif event.calls:
            found.append([call.name for call in event.calls])
        elif event.results:
            found.append([result.response for result in event.results])
        else:
            found.append(f"{event.author}: {event.text}")
    return found


# Callbacks.


def test_F4_what_a_callback_writes_is_seen_by_all_that_come_after_it() -> None:
    seen: list[tuple[str, list[str]]] = []

    def notes(name: str) -> Callable[..., None]:
        def callback(ctx: CallbackContext, *rest: object) -> None:
            seen.append((name, sorted(ctx.state)))
            ctx.state[name] = True

        return callback

    def look(ctx: ToolContext) -> str:
        """Look."""
        seen.append(("tool", sorted(ctx.state)))
        ctx.state["tool"] = True
        return "seen"

    moments = ["before_agent", "before_model", "after_model", "before_tool", "after_tool"]
    model = ScriptedModel([call("look"), "done"])
    callbacks = {moment: notes(moment) for moment in [*moments, "after_agent"]}
    bot = Agent("bot", model=model, tools=[look], instruction="{before_agent}", **callbacks)  # type: ignore[arg-type]
    result = weft.run_sync(bot, "go", state={"given": 1})
    written = ["given"]
    for name, keys in seen[:6]:
        assert keys == sorted(written), name
        written.append(name)
    assert [name for name, _ in seen[:6]] == [*moments[:4], "tool", "after_tool"]
    assert seen[-1] == ("after_agent", sorted(written))
    assert "true" in model.prompts[0].system_text
    assert result.state == dict.fromkeys([*written, "after_agent"], True) | {"given": 1}


def test_F4_an_answer_before_the_agent_is_all_it_says() -> None:
    def never(ctx: CallbackContext) -> Content:
        raise AssertionError("must not be asked")

    bot = Agent(
        "bot", model=ScriptedModel([]), before_agent=lambda ctx: says("no"), after_agent=never
    )
    assert told(weft.run_sync(bot, "go").events) == ["bot: no"]


def test_F4_what_is_said_after_the_agent_comes_on_top_of_its_answer() -> None:
    bot = Agent("bot", model=ScriptedModel(["yes"]), after_agent=lambda ctx: says("and more"))
    result = weft.run_sync(bot, "go")
    assert told(result.events) == ["bot: yes", "bot: and more"]
    assert result.text == "and more"


def test_F4_an_answer_before_the_model_is_not_asked_for_and_may_call_tools() -> None:
    asked: list[int] = []

    def first(ctx: CallbackContext, prompt: Prompt) -> ModelResponse | None:
        asked.append(1)
        if len(asked) > 1:
            return None
        return ModelResponse(content=Content(parts=(call("add", a=1, b=2),), role="model"))

    model = ScriptedModel(["three"])
    result = weft.run_sync(Agent("bot", model=model, tools=[add], before_model=first), "go")
    assert told(result.events) == [["add"], [{"result": 3}], "bot: three"]
    assert model.calls == 1


def test_F4_an_empty_dict_before_a_tool_is_an_answer_and_passes_what_comes_after() -> None:
    def never() -> str:
        """Never."""
        raise AssertionError("must not be called")

    passed: list[JsonObject] = []

    def after(ctx: ToolContext, tool: Tool, args: JsonObject, result: JsonObject) -> JsonObject:
        passed.append(result)
        return {"after": tool.name}

    bot = Agent(
        "bot",
        model=ScriptedModel([call("never"), "ok"]),
        tools=[never],
        before_tool=lambda ctx, tool, args: {},
        after_tool=after,
    )
    assert told(weft.run_sync(bot, "go").events) == [["never"], [{"after": "never"}], "bot: ok"]
    assert passed == [{}]


def test_F4_arguments_changed_before_a_tool_are_those_it_gets() -> None:
    def double(ctx: ToolContext, tool: Tool, args: JsonObject) -> None:
        args["a"] = cast("int", args["a"]) * 2

    model = ScriptedModel([call("add", a=2, b=1), "ok"])
    result = weft.run_sync(Agent("bot", model=model, tools=[add], before_tool=double), "go")
    assert told(result.events)[1] == [{"result": 5}]
    assert result.events[0].calls[0].args == {"a": 2, "b": 1}


@pytest.mark.parametrize("where", ["agent", "plugin"])
def test_F4_an_error_may_be_answered_for(where: str) -> None:
    def broken() -> str:
        """Break."""
        raise OSError("disk")

    class Mends(weft.Plugin):
        def on_tool_error(
            self, ctx: ToolContext, tool: Tool, args: JsonObject, error: Exception
        ) -> JsonObject:
            return {"mended": str(error)}

        def on_model_error(
            self, ctx: CallbackContext, prompt: Prompt, error: Exception
        ) -> ModelResponse:
            return ModelResponse(content=says(f"sorry: {error}"))

    mends = Mends()
    bot = Agent("bot", model=ScriptedModel([call("broken"), RuntimeError("503")]), tools=[broken])
    if where == "agent":
        bot = Agent(
            "bot",
            model=bot.model,
            tools=[broken],
            on_tool_error=mends.on_tool_error,
            on_model_error=mends.on_model_error,
        )
    result = weft.run_sync(bot, "go", plugins=[mends] if where == "plugin" else [])
    assert told(result.events) == [["broken"], [{"mended": "disk"}], "bot: sorry: 503"]
    assert result.error is None


def test_F4_callbacks_of_a_sub_agent_run_when_it_gets_the_turn() -> None:
    order: list[str] = []

    def notes(name: str) -> Callable[[CallbackContext], None]:
        return lambda ctx: order.append(f"{name} of {ctx.agent_name}")

    model = ScriptedModel({"boss": [call(TO, agent_name="left")], "left": ["done"]})
    left = Agent("left", before_agent=notes("before"), after_agent=notes("after"))
    boss = Agent(
        "boss",
        model=model,
        sub_agents=[left],
        before_agent=notes("before"),
        after_agent=notes("after"),
    )
    weft.run_sync(boss, "go")
    assert order == ["before of boss", "before of left", "after of left"]


# Plugins.


def test_F4_plugins_see_every_agent_also_those_behind_tools() -> None:
    seen: list[str] = []

    class Watch(weft.Plugin):
        def before_agent(self, ctx: CallbackContext) -> None:
            seen.append(ctx.agent_name)

        def before_tool(self, ctx: ToolContext, tool: Tool, args: JsonObject) -> None:
            seen.append(f"{tool.name}()")

    model = ScriptedModel(
        {
            "boss": [call("expert", request="x"), call(TO, agent_name="left")],
            "expert": [call("add", a=1, b=1), "two"],
            "left": ["done"],
        }
    )
    expert = Agent("expert", model=model, description="Knows.", tools=[add])
    boss = Agent("boss", model=model, tools=[expert], sub_agents=[Agent("left")])
    weft.run_sync(boss, "go", plugins=[Watch()])
    assert seen == ["boss", "expert()", "expert", "add()", "left"]


def test_F4_a_plugin_may_change_the_users_message_and_every_event_before_they_are_stored() -> None:
    import msgspec

    class Stamps(weft.Plugin):
        def on_event(self, ctx: CallbackContext, event: Event) -> Event:
            content = event.content
            if content is None:
                return event
            parts = (Part(text=f"{content.text}!"),)
            return msgspec.structs.replace(
                event, content=msgspec.structs.replace(content, parts=parts)
            )

    model = ScriptedModel(["hello"])
    result = weft.run_sync(Agent("bot", model=model), "hi", plugins=[Stamps()])
    assert "user: hi!" in str(model.prompts[0])
    assert result.text == "hello!"
    assert [event.text for event in result.session.events] == ["hi!", "hello!"]


def test_F4_a_plugin_may_answer_for_the_whole_run_and_hears_when_it_is_over() -> None:
    order: list[str] = []

    class Guards(weft.Plugin):
        def before_run(self, ctx: CallbackContext) -> Content:
            order.append(f"before: {ctx.user_content.text if ctx.user_content else ''}")
            return says("closed")

        async def after_run(self, ctx: CallbackContext) -> None:
            order.append("after")

    result = weft.run_sync(Agent("bot", model=ScriptedModel([])), "hi", plugins=[Guards()])
    assert result.text == "closed"
    assert order == ["before: hi", "after"]


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


# Calls that wait.


@tool(confirm=True)
def pay(amount: int, ctx: ToolContext) -> str:
    """Pay."""
    confirmed = ctx.confirmed or {}
    return f"paid {amount}, {confirmed.get('payload')}"


@pytest.mark.parametrize(
    ("answer", "result"),
    [
        ({"confirmed": True}, {"result": "paid 5, None"}),
        ({"response": '{"confirmed": true}'}, {"result": "paid 5, None"}),
        ({"confirmed": True, "payload": {"by": "Ada"}}, {"result": "paid 5, {'by': 'Ada'}"}),
        ({"confirmed": False}, {"error": "the user refused this call"}),
        ({"response": '{"confirmed": false}'}, {"error": "the user refused this call"}),
        ({"response": "yes"}, {"error": "the user refused this call"}),
        ({"confirmed": "true"}, {"error": "the user refused this call"}),
        ({}, {"error": "the user refused this call"}),
    ],
)
def test_F8_a_client_of_adk_confirms_in_its_own_words(
    answer: JsonObject, result: JsonObject
) -> None:
    async def go() -> None:
        runner = Runner(
            Agent("bot", model=ScriptedModel([call("pay", amount=5), "ok"]), tools=[pay])
        )
        first = await runner.run(session_id="s", message="x")
        asked = first.events[-1]
        question = asked.calls[0]
        assert question.name == "adk_request_confirmation"
        assert asked.long_running_tool_ids == (question.id,)
        told_back = FunctionResponse(name=question.name, id=question.id, response=answer)
        last = await runner.run(session_id="s", message=Part(function_response=told_back))
        assert last.invocation_id == first.invocation_id
        assert told(last.events) == [[result], "bot: ok"]
        assert last.waiting == {}

    runs(go)


def test_F8_a_call_is_answered_once_however_often_the_answer_comes() -> None:
    @tool(long_running=True)
    def job() -> dict[str, str]:
        """Start."""
        return {"status": "started"}

    async def go() -> None:
        model = ScriptedModel([call("job"), "done"])
        runner = Runner(Agent("bot", model=model, tools=[job]))
        first = await runner.run(session_id="s", message="x")
        (call_id,) = first.waiting
        for _ in range(2):
            last = await runner.resume(session_id="s", answers={call_id: {"status": "ready"}})
            assert last.text == "done"
        with pytest.raises(weft.WeftError, match="has its answer already"):
            await runner.resume(session_id="s", answers={call_id: {"status": "failed"}})
        session = await runner.session(session_id="s")
        assert told(list(session.events)) == [
            "user: x", ["job"], [{"status": "started"}], [{"status": "ready"}], "bot: done",
        ]  # fmt: skip
        assert model.calls == 2

    runs(go)


def test_F8_an_answer_with_words_beside_it_brings_both() -> None:
    @tool(long_running=True)
    def job() -> None:
        """Start."""

    async def go() -> None:
        model = ScriptedModel([call("job"), "done"])
        runner = Runner(Agent("bot", model=model, tools=[job]))
        first = await runner.run(session_id="s", message="x")
        (call_id,) = first.waiting
        ready = FunctionResponse(name="job", id=call_id, response={"status": "ready"})
        message = Content(parts=(Part(function_response=ready), Part(text="Hurry.")), role="user")
        await runner.run(session_id="s", message=message)
        asked = str(model.prompts[-1])
        assert 'job -> {"status":"ready"}' in asked
        assert "user: Hurry." in asked

    runs(go)


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


# Artifacts and rewinding.


def test_T1_a_users_artifact_is_seen_in_all_of_their_sessions() -> None:
    async def keep(name: str, ctx: ToolContext) -> list[str]:
        """Keep."""
        await ctx.save_artifact(name, f"text of {name}")
        return await ctx.list_artifacts()

    async def load(name: str, ctx: ToolContext) -> str:
        """Load."""
        part = await ctx.load_artifact(name)
        return part.text or "" if part is not None else "none"

    async def go() -> None:
        model = ScriptedModel(
            [
                [call("keep", name="user:card"), call("keep", name="own")],
                "kept",
                [call("load", name="user:card"), call("load", name="own")],
                "loaded",
            ]
        )
        runner = Runner(Agent("bot", model=model, tools=[keep, load]))
        await runner.run(session_id="1", message="x")
        second = await runner.run(session_id="2", message="x")
        assert told(second.events)[1] == [{"result": "text of user:card"}, {"result": "none"}]

    runs(go)


def test_S4_a_rewind_puts_state_artifacts_and_view_back_and_deletes_nothing() -> None:
    async def keep(text: str, ctx: ToolContext) -> str:
        """Keep."""
        await ctx.save_artifact("note", text)
        ctx.state["note"] = text
        ctx.state["user:notes"] = text
        return "ok"

    async def go() -> None:
        model = ScriptedModel(
            [call("keep", text="first"), "1", call("keep", text="second"), "2", "3"]
        )
        bot = Agent("bot", model=model, tools=[keep], instruction="Note: {artifact.note}, {note}")
        runner = Runner(bot)
        await runner.run(session_id="s", message="one")
        second = await runner.run(session_id="s", message="two")
        before = await runner.session(session_id="s")
        session = await runner.rewind(session_id="s", invocation_id=second.invocation_id)
        assert list(session.events)[:-1] == list(before.events)
        assert session.state == {"note": "first", "user:notes": "second"}
        await runner.run(session_id="s", message="three")
        asked = model.prompts[-1]
        assert "Note: first, first" in asked.system_text
        assert "two" not in str(asked)
        assert "user: one" in str(asked)

    runs(go)


def test_S4_what_was_rewound_is_neither_resumed_nor_answered() -> None:
    @tool(long_running=True)
    def job() -> None:
        """Start."""

    async def go() -> None:
        model = ScriptedModel(["hello", call("job"), "later"])
        runner = Runner(Agent("bot", model=model, tools=[job]))
        first = await runner.run(session_id="s", message="x")
        second = await runner.run(session_id="s", message="y")
        (call_id,) = second.waiting
        await runner.rewind(session_id="s", invocation_id=second.invocation_id)
        again = await runner.resume(session_id="s")
        assert again.invocation_id == first.invocation_id
        assert again.events == ()
        with pytest.raises(weft.WeftError, match="wait for an answer: none"):
            await runner.resume(session_id="s", answers={call_id: "x"})
        with pytest.raises(weft.WeftError, match="there is no invocation"):
            await runner.resume(session_id="s", invocation_id=second.invocation_id)
        await runner.rewind(session_id="s", invocation_id=first.invocation_id)
        with pytest.raises(weft.WeftError, match="nothing to go on with"):
            await runner.resume(session_id="s")
        assert (await runner.run(session_id="s", message="z")).text == "later"
        assert model.calls == 3

    runs(go)
