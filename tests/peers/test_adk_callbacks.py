"""F4: callbacks and plugins as users of ADK know them."""

from collections.abc import Callable
from typing import cast

import pytest

import weft
from tests.peers.running import TO, runs, says, told
from tests.support.tools import add
from weft import (
    Agent,
    CallbackContext,
    Content,
    Event,
    ModelResponse,
    Part,
    Runner,
    Tool,
    ToolContext,
)
from weft.ir import Prompt
from weft.testing import ScriptedModel, call
from weft.values import JsonObject

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


def test_F4_what_plugins_write_around_a_run_is_kept() -> None:
    class Counts(weft.Plugin):
        def before_run(self, ctx: CallbackContext) -> None:
            ctx.state["user:runs"] = cast("int", ctx.state.get("user:runs", 0)) + 1

        def after_run(self, ctx: CallbackContext) -> None:
            ctx.state["ended"] = ctx.state["user:runs"]

    async def go() -> None:
        model = ScriptedModel(["one", "two"])
        bot = Agent("bot", model=model, instruction="Run {user:runs}, {ended?} ended.")
        runner = Runner(bot, plugins=[Counts()])
        for text in ("one", "two"):
            assert (await runner.run(session_id="s", message="x")).text == text
        assert [prompt.system_text.split("\n\n")[-1] for prompt in model.prompts] == [
            "Run 1,  ended.", "Run 2, 1 ended.",
        ]  # fmt: skip
        assert (await runner.session(session_id="s")).state == {"user:runs": 2, "ended": 2}

    runs(go)


@pytest.mark.parametrize("flow", [False, True])
def test_F4_a_run_that_a_plugin_answered_is_complete(flow: bool) -> None:
    class Guards(weft.Plugin):
        def before_run(self, ctx: CallbackContext) -> Content:
            return says("closed")

    async def go() -> None:
        a = Agent("a", model=ScriptedModel([]))
        runner = Runner(a >> Agent("b") if flow else a, plugins=[Guards()])
        await runner.run(session_id="s", message="x")
        again = await runner.resume(session_id="s")
        assert again.text == "closed"
        assert again.events == ()
        assert told(list(again.session.events))[1:] == [f"{'sequence' if flow else 'a'}: closed"]

    runs(go)
