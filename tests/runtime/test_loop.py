"""F: the loop. Each test runs the real thing and looks at the requests that were sent."""

import asyncio
from collections.abc import Callable
from dataclasses import dataclass
from typing import cast

import msgspec
import pytest

import weft
from tests.support.tools import add
from weft import (
    Agent,
    CallbackContext,
    Content,
    Event,
    ModelResponse,
    Part,
    RunBudget,
    RunConfig,
    Runner,
    ToolContext,
    tool,
)
from weft.errors import MissingVariable
from weft.ir import Prompt
from weft.testing import ScriptedModel, call, chunks, cut, malformed
from weft.values import JsonObject


def says(text: str) -> Content:
    """What a callback answers with."""
    return Content(parts=(Part(text=text),), role="model")


def shown(events: tuple[Event, ...]) -> list[object]:
    """The events in short: text, calls, results, or the error's code."""
    found: list[object] = []
    for event in events:
        if event.error_code:
            found.append(f"!{event.error_code}")
        elif event.calls:
            found.append([call.name for call in event.calls])
        elif event.results:
            found.append([result.response for result in event.results])
        else:
            found.append(event.text)
    return found


def test_f1_the_loop_goes_on_until_there_is_an_answer() -> None:
    model = ScriptedModel([call("add", a=1, b=2), call("add", a=3, b=4), "seven"])
    result = weft.run_sync(Agent("bot", model=model, tools=[add]), "sum it")
    assert result.text == "seven"
    assert shown(result.events) == [["add"], [{"result": 3}], ["add"], [{"result": 7}], "seven"]
    assert len(model.wires) == 3


def test_h9_a_result_is_in_the_very_next_request() -> None:
    model = ScriptedModel([call("add", a=1, b=2), "three"])
    weft.run_sync(Agent("bot", model=model, tools=[add]), "sum it")
    assert '-> {"result":3}' in str(model.prompts[1])


def test_f1_too_many_steps_are_an_error_event_not_model_text() -> None:
    model = ScriptedModel([call("add", a=n, b=0) for n in range(3)])
    result = weft.run_sync(Agent("bot", model=model, tools=[add], max_steps=3), "go")
    assert result.error is not None
    assert result.error.error_code == "max_steps"
    assert "3 steps" in (result.error.error_message or "")
    assert result.text == ""
    assert model.remaining == 0
    with pytest.raises(weft.WeftError, match="max_steps"):
        result.check()


def test_f1_too_many_model_calls_are_an_error_event() -> None:
    model = ScriptedModel([call("add", a=n, b=0) for n in range(5)])
    config = RunConfig(max_llm_calls=2)
    result = weft.run_sync(Agent("bot", model=model, tools=[add]), "go", config=config)
    assert shown(result.events)[-1] == "!max_llm_calls"
    assert len(model.wires) == 2


def test_f1_the_session_goes_on_after_an_error() -> None:
    model = ScriptedModel([call("add", a=1, b=1), "back again"])
    bot = Agent("bot", model=model, tools=[add], max_steps=1)
    first = weft.run_sync(bot, "go")
    assert first.error is not None
    assert weft.run_sync(bot, "and now?", session=first.session).text == "back again"


def test_f2_tools_of_one_reply_run_side_by_side_and_answer_in_order() -> None:
    running: list[str] = []
    met = asyncio.Event()

    async def first() -> str:
        """Wait for the second."""
        running.append("first")
        await met.wait()
        return "one"

    async def second() -> str:
        """Let the first go on."""
        running.append("second")
        met.set()
        return "two"

    model = ScriptedModel([[call("first"), call("second")], "done"])
    result = weft.run_sync(Agent("bot", model=model, tools=[first, second]), "go")
    assert running == ["first", "second"]
    assert [r.response for r in result.events[1].results] == [{"result": "one"}, {"result": "two"}]
    assert len(result.events) == 3


def test_f2_plain_functions_run_side_by_side_too() -> None:
    from threading import Barrier

    barrier = Barrier(3)

    def meet(who: str) -> str:
        """Wait for the others."""
        barrier.wait(timeout=60)
        return who

    model = ScriptedModel([[call("meet", who=w) for w in "abc"], "done"])
    result = weft.run_sync(Agent("bot", model=model, tools=[meet]), "go")
    assert [r.response for r in result.events[1].results] == [{"result": w} for w in "abc"]


def test_f2_a_sequential_tool_runs_alone() -> None:
    order: list[str] = []

    async def note(name: str) -> None:
        order.append(f"{name} begins")
        await asyncio.sleep(0)
        order.append(f"{name} ends")

    async def left() -> None:
        """Left."""
        await note("left")

    @tool(sequential=True)
    async def alone() -> None:
        """Alone."""
        await note("alone")

    model = ScriptedModel([[call("left"), call("alone"), call("left")], "done"])
    weft.run_sync(Agent("bot", model=model, tools=[left, alone]), "go")
    assert order == [
        "left begins", "left ends", "alone begins", "alone ends", "left begins", "left ends",
    ]  # fmt: skip


def test_f2_two_writers_of_one_key_leave_a_diagnostic() -> None:
    def put(value: str, ctx: ToolContext) -> str:
        """Write a value."""
        ctx.state["key"] = value
        return "ok"

    model = ScriptedModel([[call("put", value="a"), call("put", value="b")], "done"])
    result = weft.run_sync(Agent("bot", model=model, tools=[put]), "go")
    assert result.state == {"key": "b"}
    metadata = result.events[1].custom_metadata or {}
    assert "WEFT104" in str(metadata["weft"])


def test_f3_an_unknown_tool_gets_a_corrective_result() -> None:
    model = ScriptedModel([call("ad", a=1, b=2), "sorry"])
    result = weft.run_sync(Agent("bot", model=model, tools=[add]), "go")
    response = result.events[1].results[0].response
    assert response == {"error": "there is no tool 'ad'; did you mean add? available: add"}
    assert result.text == "sorry"


@pytest.mark.parametrize(
    ("args", "says"),
    [({"a": 1}, "`b` is missing"), ({"a": "x", "b": 2}, "a"), ({"a": 1, "b": 2, "c": 3}, "`c`")],
)
def test_f3_bad_arguments_get_a_corrective_result(args: JsonObject, says: str) -> None:
    model = ScriptedModel([call("add", **args), "sorry"])
    result = weft.run_sync(Agent("bot", model=model, tools=[add]), "go")
    error = cast("JsonObject", result.events[1].results[0].response)["error"]
    assert says in str(error)
    assert "arguments: a (" in str(error)
    assert result.text == "sorry"


def test_f3_malformed_arguments_get_a_corrective_result_that_shows_the_schema() -> None:
    model = ScriptedModel([malformed("add", '{"a": 1,'), "sorry"])
    result = weft.run_sync(Agent("bot", model=model, tools=[add]), "go")
    response = cast("JsonObject", result.events[1].results[0].response)
    assert 'not a JSON object: {"a": 1,' in str(response["error"])
    assert "parameters" in response
    assert result.text == "sorry"


def test_f3_a_tool_that_raises_is_an_error_result_without_a_traceback() -> None:
    def broken() -> str:
        """Raise."""
        raise ValueError("no such city")

    model = ScriptedModel([call("broken"), "sorry"])
    result = weft.run_sync(Agent("bot", model=model, tools=[broken]), "go")
    assert result.events[1].results[0].response == {"error": "ValueError: no such city"}
    assert "Traceback" not in str(model.wires[1])


def test_f3_a_tool_that_raises_may_stop_the_run_and_the_log_stays_whole() -> None:
    def broken() -> str:
        """Raise."""
        raise ValueError("no such city")

    model = ScriptedModel([call("broken"), "fine"])
    bot = Agent("bot", model=model, tools=[broken], on_tool_error="raise")
    runner = Runner(bot)

    async def go() -> None:
        with pytest.raises(ValueError, match="no such city"):
            await runner.run(session_id="s", message="go")
        session = await runner.session(session_id="s")
        assert shown(tuple(session.events))[1:] == [
            ["broken"], [{"error": "ValueError: no such city"}], "!error",
        ]  # fmt: skip
        assert (await runner.run(session_id="s", message="again")).text == "fine"

    asyncio.run(go())


def test_f3_a_tool_that_hangs_is_stopped_by_its_timeout() -> None:
    @tool(timeout=0.05)
    async def hang() -> str:
        """Hang."""
        await asyncio.sleep(60)
        return "never"

    model = ScriptedModel([call("hang"), "sorry"])
    result = weft.run_sync(Agent("bot", model=model, tools=[hang]), "go")
    response = cast("JsonObject", result.events[1].results[0].response)
    assert response == {"error": "TimeoutError: hang took longer than 0.05 s"}


def test_f3_a_plain_function_that_hangs_is_stopped_by_its_timeout() -> None:
    from threading import Event as Flag

    let_go = Flag()

    @tool(timeout=0.05)
    def hang() -> str:
        """Hang."""
        let_go.wait(30)
        return "never"

    model = ScriptedModel([call("hang"), "sorry"])
    try:
        result = weft.run_sync(Agent("bot", model=model, tools=[hang]), "go")
    finally:
        let_go.set()
    assert "took longer" in str(result.events[1].results[0].response)


def test_f3_a_tool_is_tried_again_as_often_as_it_says() -> None:
    tries: list[int] = []

    @tool(retries=2)
    def flaky() -> str:
        """Fail twice."""
        tries.append(1)
        if len(tries) < 3:
            raise OSError("busy")
        return "ok"

    model = ScriptedModel([call("flaky"), "done"])
    result = weft.run_sync(Agent("bot", model=model, tools=[flaky]), "go")
    assert len(tries) == 3
    assert result.events[1].results[0].response == {"result": "ok"}


def test_f3_what_is_not_json_is_an_error_result() -> None:
    def odd() -> object:
        """Return a thing."""
        return object()

    model = ScriptedModel([call("odd"), "sorry"])
    result = weft.run_sync(Agent("bot", model=model, tools=[odd]), "go")
    response = str(result.events[1].results[0].response)
    assert "odd returned what is not JSON" in response
    assert "object" in response


def test_f3_known_objects_are_told_by_their_fields() -> None:
    @dataclass
    class Weather:
        sky: str
        degrees: float

    def look() -> Weather:
        """Look."""
        return Weather("rain", 7.5)

    model = ScriptedModel([call("look"), "ok"])
    result = weft.run_sync(Agent("bot", model=model, tools=[look]), "go")
    assert result.events[1].results[0].response == {"sky": "rain", "degrees": 7.5}


def test_f3_a_result_of_50_mb_is_cut_and_kept_as_an_artifact() -> None:
    def flood() -> str:
        """Return a lot."""
        return "x" * 50_000_000

    runner = Runner(Agent("bot", model=ScriptedModel([call("flood"), "ok"]), tools=[flood]))

    async def go() -> None:
        result = await runner.run(session_id="s", message="go")
        response = cast("JsonObject", result.events[1].results[0].response)
        assert "50,000,013 characters" in str(response["error"])
        assert len(str(response)) < 10_000
        names = await runner.artifacts.names("bot", "user", "s")
        assert len(names) == 1
        part = await runner.artifacts.load("bot", "user", "s", names[0], None)
        assert part is not None
        assert part.text is not None
        assert len(part.text) > 50_000_000

    asyncio.run(go())


def test_f4_callbacks_come_in_order_and_may_wait() -> None:
    order: list[str] = []

    def log(name: str) -> Callable[..., None]:
        def plain(*args: object) -> None:
            order.append(name)

        return plain

    async def waits(ctx: CallbackContext, prompt: Prompt) -> None:
        await asyncio.sleep(0)
        order.append("before_model, async")

    model = ScriptedModel([call("add", a=1, b=2), "three"])
    bot = Agent(
        "bot",
        model=model,
        tools=[add],
        before_agent=log("before_agent"),
        before_model=[log("before_model"), waits],
        after_model=log("after_model"),
        before_tool=log("before_tool"),
        after_tool=log("after_tool"),
        after_agent=log("after_agent"),
    )
    weft.run_sync(bot, "go")
    model_round = ["before_model", "before_model, async", "after_model"]
    assert order == [
        "before_agent", *model_round, "before_tool", "after_tool", *model_round, "after_agent",
    ]  # fmt: skip


def test_f4_the_first_answer_wins_and_the_rest_are_not_called() -> None:
    called: list[str] = []

    def answer(ctx: CallbackContext) -> Content:
        called.append("first")
        return says("from the callback")

    def never(ctx: CallbackContext) -> Content:
        called.append("second")
        return says("no")

    model = ScriptedModel([])
    bot = Agent("bot", model=model, before_agent=[answer, never], output_key="said")
    result = weft.run_sync(bot, "go")
    assert result.text == "from the callback"
    assert called == ["first"]
    assert model.wires == []
    assert result.state == {"said": "from the callback"}


def test_f4_before_model_may_answer_or_rewrite_the_prompt() -> None:
    def answer(ctx: CallbackContext, prompt: Prompt) -> ModelResponse:
        return ModelResponse(content=says("cached"))

    assert weft.run_sync(Agent("bot", model=ScriptedModel([]), before_model=answer), "x").text == (
        "cached"
    )

    def colder(ctx: CallbackContext, prompt: Prompt) -> Prompt:
        return msgspec.structs.replace(prompt, config={**prompt.config, "temperature": 0.0})

    model = ScriptedModel(["ok"])
    weft.run_sync(Agent("bot", model=model, before_model=colder), "x")
    assert model.prompts[0].config == {"temperature": 0.0}
    assert cast("JsonObject", model.wires[0]["generationConfig"])["temperature"] == 0.0


def test_f4_after_model_replaces_the_answer() -> None:
    def shout(ctx: CallbackContext, response: ModelResponse) -> ModelResponse:
        return msgspec.structs.replace(response, content=says(response.text.upper()))

    bot = Agent("bot", model=ScriptedModel(["hello"]), after_model=shout, output_key="said")
    result = weft.run_sync(bot, "x")
    assert result.text == "HELLO"
    assert result.state["said"] == "HELLO"


def test_f4_tool_callbacks_answer_and_replace_and_an_empty_dict_is_an_answer() -> None:
    ran: list[int] = []

    def act() -> str:
        """Act."""
        ran.append(1)
        return "acted"

    def skip(ctx: ToolContext, tool: weft.Tool, args: JsonObject) -> JsonObject:
        return {}

    result = weft.run_sync(
        Agent("bot", model=ScriptedModel([call("act"), "ok"]), tools=[act], before_tool=skip), "x"
    )
    assert result.events[1].results[0].response == {}
    assert ran == []

    def replace(
        ctx: ToolContext, tool: weft.Tool, args: JsonObject, result: JsonObject
    ) -> JsonObject:
        return {"was": result["result"]}

    result = weft.run_sync(
        Agent("bot", model=ScriptedModel([call("act"), "ok"]), tools=[act], after_tool=replace), "x"
    )
    assert result.events[1].results[0].response == {"was": "acted"}


def test_f4_after_agent_adds_an_event() -> None:
    def add_line(ctx: CallbackContext) -> Content:
        return says("and a good day")

    bot = Agent("bot", model=ScriptedModel(["hello"]), after_agent=add_line, output_key="said")
    result = weft.run_sync(bot, "x")
    assert shown(result.events) == ["hello", "and a good day"]
    assert result.state == {"said": "hello"}


def test_f4_model_errors_may_be_answered() -> None:
    def calm(ctx: CallbackContext, prompt: Prompt, error: Exception) -> ModelResponse:
        return ModelResponse(content=says(f"sorry: {error}"))

    bot = Agent("bot", model=ScriptedModel([RuntimeError("503")]), on_model_error=calm)
    assert weft.run_sync(bot, "x").text == "sorry: 503"
    bare = weft.run_sync(Agent("bot", model=ScriptedModel([RuntimeError("503")])), "x")
    assert bare.error is not None
    assert bare.error.error_code == "model_error"
    assert bare.error.error_message == "RuntimeError: 503"


def test_f4_tool_errors_may_be_answered() -> None:
    def broken() -> str:
        """Raise."""
        raise ValueError("no")

    def calm(ctx: ToolContext, tool: weft.Tool, args: JsonObject, error: Exception) -> JsonObject:
        return {"result": f"rescued from {error}"}

    model = ScriptedModel([call("broken"), "ok"])
    result = weft.run_sync(Agent("bot", model=model, tools=[broken], on_tool_error=calm), "x")
    assert result.events[1].results[0].response == {"result": "rescued from no"}


def test_f4_a_callback_that_returns_nonsense_is_an_error_and_the_session_goes_on() -> None:
    answers: list[object] = ["not a Content", None]
    bot = Agent("bot", model=ScriptedModel(["fine"]), before_agent=lambda ctx: answers.pop(0))
    runner = Runner(bot)

    async def go() -> None:
        with pytest.raises(weft.WeftError, match="returned a str"):
            await runner.run(session_id="s", message="x")
        session = await runner.session(session_id="s")
        assert session.events[-1].error_code == "callback_error"
        assert (await runner.run(session_id="s", message="x")).text == "fine"

    asyncio.run(go())


def test_f4_plugins_stand_outside_the_agents_callbacks() -> None:
    order: list[str] = []

    class Watch(weft.Plugin):
        def before_agent(self, ctx: CallbackContext) -> None:
            order.append("plugin before")

        def after_agent(self, ctx: CallbackContext) -> None:
            order.append("plugin after")

        def on_event(self, ctx: CallbackContext, event: Event) -> None:
            order.append(f"event of {event.author}")

    bot = Agent(
        "bot",
        model=ScriptedModel(["hi"]),
        before_agent=lambda ctx: order.append("agent before"),
        after_agent=lambda ctx: order.append("agent after"),
    )
    weft.run_sync(bot, "x", plugins=[Watch()])
    assert order == [
        "event of user", "plugin before", "agent before", "event of bot", "agent after",
        "plugin after", "event of bot",
    ]  # fmt: skip


def test_f4_a_plugin_answers_before_the_agents_callbacks_are_asked() -> None:
    class Answers:
        def before_model(self, ctx: CallbackContext, prompt: Prompt) -> ModelResponse:
            return ModelResponse(content=says("plugin"))

    def never(ctx: CallbackContext, prompt: Prompt) -> ModelResponse:
        raise AssertionError("must not be asked")

    bot = Agent("bot", model=ScriptedModel([]), before_model=never)
    assert weft.run_sync(bot, "x", plugins=[Answers()]).text == "plugin"


def test_f5_output_key_holds_the_final_text_without_thoughts() -> None:
    from weft.testing import thought

    model = ScriptedModel([[call("add", a=1, b=2), "let me add"], [thought("hm"), "three"]])
    result = weft.run_sync(Agent("bot", model=model, tools=[add], output_key="said"), "x")
    assert result.state == {"said": "three"}


@dataclass
class Sum:
    """A sum."""

    total: int


@pytest.mark.parametrize("dialect", ["gemini", "anthropic", "openai-chat", "openai-responses"])
def test_f6_a_bad_answer_is_returned_with_the_error_and_only_a_good_one_is_kept(
    dialect: str,
) -> None:
    model = ScriptedModel(["not json", {"total": "x"}, {"total": 3}], dialect=dialect)
    bot = Agent("bot", model=model, output_schema=Sum, output_key="sum")
    result = weft.run_sync(bot, "1+2?")
    assert result.value == Sum(3)
    assert result.state == {"sum": {"total": 3}}
    assert "does not fit the schema" in str(model.wires[1])
    assert [e.audience for e in result.events] == ["internal"] * 4 + [None]


def test_f6_a_third_bad_answer_is_an_error_event_and_nothing_is_kept() -> None:
    model = ScriptedModel(["no", "no", "no"])
    result = weft.run_sync(Agent("bot", model=model, output_schema=Sum, output_key="sum"), "x")
    assert result.error is not None
    assert result.error.error_code == "invalid_output"
    assert result.state == {}


def test_f6_an_answer_given_through_the_tool_is_in_the_log_as_text_once() -> None:
    model = ScriptedModel(
        [call("add", a=1, b=2), call("set_model_response", total=3), "and more"],
        name="claude-3-opus-20240229",
        dialect="anthropic",
    )
    bot = Agent("bot", model=model, tools=[add], output_schema=Sum, output_key="sum")
    assert "set_model_response" in weft.compile(bot, message="x").tools
    result = weft.run_sync(bot, "1+2?")
    assert result.value == Sum(3)
    assert result.state["sum"] == {"total": 3}
    assert result.events[-1].text == '{"total":3}'
    assert not result.events[-1].calls


def test_f7_the_runs_config_wins_over_the_agents() -> None:
    model = ScriptedModel(["ok"])
    bot = Agent("bot", model=model, generate_config={"temperature": 0.9, "top_p": 0.5})
    weft.run_sync(bot, "x", config=RunConfig(generate_config={"temperature": 0.1}))
    assert model.prompts[0].config == {"temperature": 0.1, "top_p": 0.5}


def test_f9_partial_events_are_deltas_never_stored_and_one_complete_event_follows() -> None:
    model = ScriptedModel([chunks("Hel", "lo ", "you")])
    bot = Agent("bot", model=model, output_key="said")

    async def go() -> None:
        seen: list[tuple[bool | None, str]] = []
        runner = Runner(bot)
        config = RunConfig(stream=True)
        async for event in runner.run(session_id="s", message="x", config=config):
            seen.append((event.partial, event.text))
            if event.partial:
                assert not event.actions.state_delta
        assert seen == [(True, "Hel"), (True, "lo "), (True, "you"), (None, "Hello you")]
        session = await runner.session(session_id="s")
        assert [e.text for e in session.events] == ["x", "Hello you"]
        assert session.state == {"said": "Hello you"}

    asyncio.run(go())


@pytest.mark.parametrize("stream", [True, False])
def test_f9_a_cut_stream_is_an_error_event_and_the_session_goes_on(stream: bool) -> None:
    model = ScriptedModel([cut(chunks("Hel", "lo")), "whole"])
    bot = Agent("bot", model=model)
    config = RunConfig(stream=stream)
    first = weft.run_sync(bot, "x", config=config)
    assert first.error is not None
    assert first.error.error_code == ("cut_stream" if stream else "empty_response")
    assert weft.run_sync(bot, "y", session=first.session, config=config).text == "whole"


@pytest.mark.parametrize("entry", [None, ""])
def test_a_model_that_returns_nothing_is_an_error_event(entry: str | None) -> None:
    result = weft.run_sync(Agent("bot", model=ScriptedModel([entry])), "x")
    assert result.error is not None
    assert result.error.error_code == "empty_response"


def test_a_model_without_a_client_says_what_to_pass() -> None:
    with pytest.raises(weft.WeftError, match="no client"):
        weft.run_sync(Agent("bot", model="gtp-5"), "x")


def test_running_out_of_script_is_loud() -> None:
    with pytest.raises(weft.WeftError):
        weft.run_sync(Agent("bot", model=ScriptedModel([])), "x")


def test_what_is_wrong_with_a_request_is_logged_once_a_run_and_in_the_result(
    caplog: pytest.LogCaptureFixture,
) -> None:
    script = {"greeter": [call("look"), "Hi."], "quiet": ["Hm."]}

    def look() -> str:
        """Look."""
        return "seen"

    model = ScriptedModel(script)
    greeter = Agent("greeter", model=model, instruction="Greet {user_name}.", tools=[look])
    quiet = Agent("quiet", model=model, instruction="Greet {user_name}.", allow=("WEFT101",))
    with caplog.at_level("WARNING", "weft"):
        result = weft.run_sync(greeter >> quiet, "x")
    assert [(one.code, one.origin.agent) for one in result.diagnostics] == [("WEFT101", "greeter")]
    assert caplog.text.count("WEFT101") == 1
    fine = weft.run_sync(Agent("a", model=ScriptedModel(["ok"]), instruction="Greet {x?}."), "x")
    assert fine.diagnostics == ()


async def test_F7_a_run_with_a_config_of_its_own_keeps_what_its_runner_shares() -> None:
    """A model, a budget or an option of the runner would be lost with any `config=` of a run."""
    model = ScriptedModel(["one", "two"])
    shared = RunConfig(
        model=model,
        strict=True,
        generate_config={"temperature": 0.1, "thinking": {"budget": 64}, "top_k": None},
        budget=RunBudget(steps=5),
    )
    agent = Agent("a", model="gpt-5", generate_config={"top_k": 3, "seed": 7})
    runner = Runner(agent, store="memory://", config=shared)
    own = RunConfig(generate_config={"temperature": 0.9, "max_output_tokens": 9})
    assert (await runner.run("hi", session_id="s", config=own)).text == "one"
    options = model.prompts[0].config
    assert options["temperature"] == 0.9
    assert options["max_output_tokens"] == 9
    assert options["seed"] == 7
    assert "top_k" not in options
    assert options["thinking"] == {"budget": 64}
    with pytest.raises(MissingVariable):  # strict is the runner's
        await Runner(agent.instruct("{gone}"), store="memory://", config=shared).run(
            "hi", session_id="s", config=own
        )
    assert (await runner.run("hi", session_id="s")).text == "two"
    assert model.prompts[1].config["temperature"] == 0.1
