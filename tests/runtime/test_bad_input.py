"""What people get wrong: a clear error, a sound log, and a session that goes on."""

import asyncio
import math
from collections.abc import Callable
from typing import Any, cast

import pytest

import weft
from tests.runtime.laws import check_laws, goes_on, responses, runs
from tests.runtime.tools import look
from weft import (
    Agent,
    CallbackContext,
    Content,
    Part,
    RunConfig,
    Runner,
    Step,
    ToolContext,
    WeftError,
)
from weft.content import FunctionResponse
from weft.errors import DeclarationError, SessionBusy, SessionError, UsageError
from weft.ir import Prompt
from weft.stores.memories import Memory
from weft.testing import ScriptedModel, call, delayed
from weft.values import Json

# Sessions, apps, users.


def test_an_unknown_session_app_or_user_is_an_error_that_lists_what_there_is() -> None:
    async def go() -> None:
        runner = Runner(Agent("bot", model=ScriptedModel(["hi"])))
        await runner.run(user_id="ada", session_id="s1", message="x")
        with pytest.raises(WeftError, match="the user has: s1"):
            await runner.session(user_id="ada", session_id="s2")
        with pytest.raises(WeftError, match="users that have: ada"):
            await runner.rewind(user_id="bob", session_id="s1", invocation_id="i")
        other = Runner(runner.root, app_name="other", store=runner.store)
        with pytest.raises(WeftError, match="the app `other` has no sessions"):
            await other.resume(user_id="ada", session_id="s1")
        with pytest.raises(WeftError, match="there is no invocation `i`"):
            await runner.resume(user_id="ada", session_id="s1", invocation_id="i")

    runs(go)


@pytest.mark.parametrize("ids", [{"user_id": ""}, {"session_id": ""}, {"user_id": 5}])
def test_empty_ids_are_refused_before_anything_runs(ids: dict[str, str]) -> None:
    model = ScriptedModel(["hi"])
    runner = Runner(Agent("bot", model=model))
    with pytest.raises(WeftError, match="pass a non-empty string"):
        runner.run(message="x", **ids)
    assert model.calls == 0


# Two runs at once.


def test_a_runner_is_made_before_it_runs() -> None:
    agent: Any = Agent("bot", model=ScriptedModel(["Hi"]))
    with pytest.raises(UsageError) as wrong:
        Runner.run(agent, "Hello")
    assert wrong.value.where == "Runner.run"
    assert 'weft.run(agent, "message")' in wrong.value.hint
    runner: Any = Runner
    for name, right in (("run_sync", "weft.run_sync(agent,"), ("run_streamed", "weft.stream(")):
        with pytest.raises(AttributeError, match="a runner has no") as unknown:
            getattr(runner, name)(agent, "Hello")
        assert right in str(unknown.value)
    assert not hasattr(runner, "__wrapped__"), "and tools that look for names find none"


def test_two_runs_of_one_session_wait_for_each_other() -> None:
    async def go() -> None:
        model = ScriptedModel([delayed(0.02, "one"), "two", "fine"])
        runner = Runner(Agent("bot", model=model))
        first, second = await asyncio.gather(
            runner.run(session_id="s", message="a"), runner.run(session_id="s", message="b")
        )
        assert (first.text, second.text) == ("one", "two")
        await goes_on(runner)

    runs(go)


def test_the_second_run_may_be_refused_or_stop_the_first() -> None:
    async def go() -> None:
        begun = asyncio.Event()

        async def slow(prompt: Prompt) -> str:
            begun.set()
            await asyncio.sleep(30)
            return "never"

        runner = Runner(Agent("bot", model=ScriptedModel([slow, "second", "fine"])))

        async def first() -> weft.Result:
            return await runner.run(session_id="s", message="a")

        running = asyncio.create_task(first())
        await begun.wait()
        with pytest.raises(SessionBusy):
            await runner.run(session_id="s", message="b", config=RunConfig(busy="reject"))
        second = await runner.run(session_id="s", message="b", config=RunConfig(busy="interrupt"))
        stopped = await running
        assert stopped.error is not None
        assert stopped.error.error_code == "interrupted"
        assert second.text == "second"
        await goes_on(runner)

    runs(go)


@pytest.mark.parametrize("kept", [False, True])
def test_a_loop_left_early_frees_the_session(kept: bool) -> None:
    async def go() -> None:
        model = ScriptedModel({"a": ["A", "A"], "b": ["fine"]})
        runner = Runner(Agent("a", model=model) >> Agent("b", model=model))
        if kept:
            run = runner.run(session_id="s", message="x")
            async for _ in run:
                break
            await run.aclose()
        else:
            async for _ in runner.run(session_id="s", message="x"):
                break
        session = await goes_on(runner)
        assert [e.error_code for e in session.events if e.error_code] == ["cancelled"]

    runs(go)


# State that is not JSON.

NOT_JSON: list[object] = [object(), math.nan, {1: 2}, {"deep": b"x"}, {"set": {1}}, lambda: 1]


@pytest.mark.parametrize("value", NOT_JSON)
def test_state_given_to_a_run_must_be_json(value: object) -> None:
    runner = Runner(Agent("bot", model=ScriptedModel(["hi"])))
    with pytest.raises(SessionError, match=r"state\.x"):
        runner.run(message="x", state={"x": cast("Json", value)})


@pytest.mark.parametrize("value", NOT_JSON)
def test_state_written_by_a_tool_must_be_json(value: object) -> None:
    def put(ctx: ToolContext) -> str:
        """Put."""
        ctx.state["good"] = 1
        ctx.state["x"] = cast("Json", value)
        return "ok"

    async def go() -> None:
        runner = Runner(
            Agent("bot", model=ScriptedModel([call("put"), "sorry", "fine"]), tools=[put])
        )
        result = await runner.run(session_id="s", message="x")
        assert "SessionError: state['x']" in str(responses(result)[0]["error"])
        assert "x" not in result.state
        await goes_on(runner)

    runs(go)


def test_state_changed_in_place_into_what_is_not_json_stops_the_run() -> None:
    def put(ctx: ToolContext) -> str:
        """Put."""
        cast("list[object]", ctx.state["list"]).append(object())
        return "ok"

    async def go() -> None:
        runner = Runner(Agent("bot", model=ScriptedModel([call("put"), "fine"]), tools=[put]))
        with pytest.raises(SessionError, match=r"state\['list'\]\[1\]"):
            await runner.run(session_id="s", message="x", state={"list": [1]})
        session = await goes_on(runner)
        assert session.state == {"list": [1]}

    runs(go)


class Once:
    """A callback that misbehaves the first time it is called, and never again."""

    def __init__(self, does: Callable[[CallbackContext], object]) -> None:
        self.does: Callable[[CallbackContext], object] | None = does

    def __call__(self, ctx: CallbackContext, *rest: object) -> object:
        does, self.does = self.does, None
        return does(ctx) if does is not None else None


MOMENTS = [
    "before_agent",
    "after_agent",
    "before_model",
    "after_model",
    "before_tool",
    "after_tool",
]


def writes_nonsense(ctx: CallbackContext) -> None:
    ctx.state["x"] = cast("Json", object())


def changes_in_place(ctx: CallbackContext) -> None:
    cast("list[object]", ctx.state["list"]).append(object())


def raises(ctx: CallbackContext) -> None:
    raise ZeroDivisionError("oops")


def returns_a_number(ctx: CallbackContext) -> object:
    return 5


def returns_a_coroutine_of_nonsense(ctx: CallbackContext) -> object:
    async def later() -> object:
        return object()

    return later()


def sets_a_flag_to_text(ctx: CallbackContext) -> None:
    ctx.actions.escalate = cast("bool", "yes")


@pytest.mark.parametrize("moment", MOMENTS)
@pytest.mark.parametrize(
    "does",
    [
        writes_nonsense,
        changes_in_place,
        raises,
        returns_a_number,
        returns_a_coroutine_of_nonsense,
        sets_a_flag_to_text,
    ],
)
def test_a_callback_that_misbehaves_stops_the_run_and_not_the_session(
    moment: str, does: Callable[[CallbackContext], object]
) -> None:
    async def go() -> None:
        script = [call("look"), "one", *["fine"] * 3]
        bot = Agent("bot", model=ScriptedModel(script), tools=[look], **{moment: Once(does)})  # type: ignore[arg-type]
        runner = Runner(bot)
        with pytest.raises((WeftError, ZeroDivisionError)):
            await runner.run(session_id="s", message="x", state={"list": [1]})
        session = await runner.session(session_id="s")
        assert session.events[-1].error_code in ("error", "callback_error")
        check_laws(session, bot)
        assert session.state == {"list": [1]}
        again = await runner.run(session_id="s", message="and now?")
        assert again.error is None
        assert again.text in ("one", "fine")

    runs(go)


@pytest.mark.parametrize("moment", [*MOMENTS, "on_model_error", "on_tool_error"])
@pytest.mark.parametrize("callback", [lambda: None, lambda a, b, c, d, e, f: None, "text", 5])
def test_a_callback_of_the_wrong_arity_is_refused_where_it_is_declared(
    moment: str, callback: object
) -> None:
    with pytest.raises(DeclarationError, match=moment):
        Agent("bot", **{moment: callback})  # type: ignore[arg-type]


@pytest.mark.parametrize("moment", ["on_model_error", "on_tool_error"])
def test_an_error_callback_that_answers_nonsense_stops_the_run(moment: str) -> None:
    def broken() -> str:
        """Break."""
        raise OSError("disk")

    async def go() -> None:
        script = [call("broken"), RuntimeError("503"), "fine", "fine"]
        answers = Once(returns_a_number)
        bot = Agent("bot", model=ScriptedModel(script), tools=[broken], **{moment: answers})  # type: ignore[arg-type]
        runner = Runner(bot)
        with pytest.raises(WeftError, match="returned an int"):
            await runner.run(session_id="s", message="x")
        if moment == "on_tool_error":
            with_error = await runner.run(session_id="s", message="y")
            assert with_error.error is not None
        await goes_on(runner)

    runs(go)


def test_a_plugin_is_checked_where_it_is_given() -> None:
    class Short:
        def on_event(self, ctx: CallbackContext) -> None:
            """Takes no event."""

    class Attribute:
        before_run = "text"

    class Silent:
        def before_modle(self, ctx: CallbackContext, prompt: Prompt) -> None:
            """Misspelled."""

    bot = Agent("bot", model=ScriptedModel([]))
    with pytest.raises(DeclarationError, match=r"on_event takes \(ctx, event\)"):
        Runner(bot, plugins=[Short()])
    with pytest.raises(DeclarationError, match="before_run"):
        Runner(bot, plugins=[Attribute()])
    with pytest.raises(DeclarationError, match="did you mean `before_model`"):
        Runner(bot, plugins=[Silent()])
    with pytest.raises(DeclarationError, match="is a class"):
        Runner(bot, plugins=[Short])
    with pytest.raises(DeclarationError, match="pass a list"):
        Runner(bot, plugins=Short())  # type: ignore[arg-type]


@pytest.mark.parametrize("moment", ["before_run", "on_event"])
def test_a_plugin_that_answers_nonsense_stops_the_run(moment: str) -> None:
    async def go() -> None:
        plugin = type("Nonsense", (), {moment: Once(returns_a_number)})()
        runner = Runner(Agent("bot", model=ScriptedModel(["fine"])), plugins=[plugin])
        with pytest.raises(WeftError, match="returned an int"):
            await runner.run(session_id="s", message="x")
        await goes_on(runner)

    runs(go)


@pytest.mark.parametrize(
    "function",
    [
        lambda state: {"x": object()},
        lambda state: {1: 2},
        lambda state: 5,
        lambda state: state.update(x=object()),
        lambda state: {"x": math.inf},
        lambda state: state["nope"],
    ],
)
def test_a_step_that_misbehaves_stops_the_run_and_not_the_session(
    function: Callable[[object], object],
) -> None:
    async def go() -> None:
        once = Once(lambda state: function(state))
        runner = Runner(Step(once, name="step") >> Agent("bot", model=ScriptedModel(["fine"])))
        with pytest.raises((WeftError, KeyError)):
            await runner.run(session_id="s", message="x")
        session = await runner.session(session_id="s")
        assert session.events[-1].error_code == "step_error"
        assert session.state == {}
        await goes_on(runner)

    runs(go)


# Messages.


@pytest.mark.parametrize(
    "message",
    [None, "", [], [""], Part(), Content(), Content(parts=(), role="user"), (), ["", Part()]],
    ids=str,
)
def test_a_message_that_says_nothing_is_refused(message: object) -> None:
    runner = Runner(Agent("bot", model=ScriptedModel([])))
    with pytest.raises(WeftError, match="there is no message"):
        runner.run(message=cast("str", message))
    with pytest.raises(WeftError, match="there is no message"):
        weft.run_sync(runner.root, cast("str", message))


@pytest.mark.parametrize("message", [b"bytes", 5, {"role": "user"}, object(), ["x", 5], len])
def test_a_message_that_is_none_is_refused(message: object) -> None:
    runner = Runner(Agent("bot", model=ScriptedModel([])))
    with pytest.raises(WeftError, match="message"):
        runner.run(message=cast("str", message))


def test_a_user_makes_no_calls_and_answers_none_that_are_not_there() -> None:
    async def go() -> None:
        runner = Runner(Agent("bot", model=ScriptedModel(["hi", "fine"]), tools=[look]))
        with pytest.raises(WeftError, match="which only a model makes"):
            runner.run(session_id="s", message=call("look"))
        await runner.run(session_id="s", message="x")
        answer = Part(function_response=FunctionResponse(name="look", id="c9", response={}))
        with pytest.raises(WeftError, match="there is no call with the id c9"):
            await runner.run(session_id="s", message=answer)
        await goes_on(runner)

    runs(go)


@pytest.mark.parametrize("role", ["user", None])
def test_a_message_is_the_users(role: str | None) -> None:
    async def go() -> None:
        model = ScriptedModel(["hi", "fine"])
        runner = Runner(Agent("bot", model=model))
        content = Content(parts=(Part(text="hello"),), role=role)
        result = await runner.run(session_id="s", message=content)
        assert result.session.events[0].content == Content(parts=(Part(text="hello"),), role="user")
        assert "user: hello" in str(model.prompts[0])
        await goes_on(runner)

    runs(go)


@pytest.mark.parametrize("store", ["memory://", "sqlite"])
@pytest.mark.parametrize("text", ["x" * 10_000_000, "half \ud800", "\x00", "   ", "{not} {a} {key"])
def test_any_text_is_a_message(text: str, store: str, tmp_path: object) -> None:
    async def go() -> None:
        address = f"sqlite:///{tmp_path}/weft.db" if store == "sqlite" else store
        bot = Agent("bot", model=ScriptedModel(["hi", "fine"]))
        async with Runner(bot, store=address) as runner:
            result = await runner.run(session_id="s", message=text)
            assert result.text == "hi"
            assert result.session.events[0].text == text
            again = await runner.run(session_id="s", message="and now?")
            assert again.text == "fine"
            assert await runner.session(session_id="s") == again.session

    runs(go)


# Artifacts and memory.


def test_an_artifact_saved_by_a_tool_is_in_the_next_instruction() -> None:
    async def keep(text: str, ctx: ToolContext) -> str:
        """Keep."""
        version = await ctx.save_artifact("note", text)
        return f"kept as version {version}"

    async def go() -> None:
        model = ScriptedModel(
            [call("keep", text="buy milk"), "kept", call("keep", text="call Ada"), "fine"]
        )
        bot = Agent("bot", model=model, instruction="Note: {artifact.note?}", tools=[keep])
        runner = Runner(bot)
        await runner.run(session_id="s", message="x")
        assert "Note: \n" in f"{model.prompts[0].system_text}\n"
        assert "Note: buy milk" in model.prompts[1].system_text
        session = await goes_on(runner)
        assert "Note: call Ada" in model.prompts[3].system_text
        deltas = [e.actions.artifact_delta for e in session.events if e.actions.artifact_delta]
        assert deltas == [{"note": 0}, {"note": 1}]

    runs(go)


@pytest.mark.parametrize("content", [b"bytes", 5, None, ["a"]])
def test_what_is_no_artifact_is_an_error_result(content: object) -> None:
    async def keep(ctx: ToolContext) -> str:
        """Keep."""
        await ctx.save_artifact("note", cast("str", content))
        return "kept"

    async def go() -> None:
        runner = Runner(
            Agent("bot", model=ScriptedModel([call("keep"), "sorry", "fine"]), tools=[keep])
        )
        result = await runner.run(session_id="s", message="x")
        assert "is not an artifact" in str(responses(result)[0]["error"])
        await goes_on(runner)

    runs(go)


def test_memory_is_searched_in_the_users_own_sessions_only() -> None:
    async def remember(query: str, ctx: ToolContext) -> list[str]:
        """Remember."""
        return [content.text for content in await ctx.search_memory(query)]

    async def go() -> None:
        model = ScriptedModel(
            [
                "noted",
                "noted",
                call("remember", query="my cat's name"),
                "Tom",
                call("remember", query=""),
                "fine",
            ]
        )
        runner = Runner(Agent("bot", model=model, tools=[remember]))
        await runner.run(session_id="old", message="My cat is called Tom.")
        await runner.run(user_id="bob", session_id="his", message="My cat is called Rex.")
        result = await runner.run(session_id="s", message="Who is it?")
        found = responses(result)[0]["result"]
        assert found == ["My cat is called Tom."]
        await goes_on(runner)

    runs(go)


def test_memory_forgets_what_was_rewound_and_never_knew_what_was_no_answer() -> None:
    async def go() -> None:
        expert = Agent("expert", model=ScriptedModel(["The cat is secret."]), description="Knows.")
        model = ScriptedModel(
            [call("expert", request="Which cat?"), "No cat here.", "noted", "fine", "fine"]
        )
        runner = Runner(Agent("bot", model=model, tools=[expert]))
        await runner.run(session_id="s", message="Tell me.")
        wrong = await runner.run(session_id="s", message="My cat is called Rex.")
        await runner.rewind(session_id="s", invocation_id=wrong.invocation_id)
        await goes_on(runner)
        found = await Memory(runner.store, sessions=True).search("bot", "user", "cat")
        assert [content.text for content in found] == ["No cat here."]

    runs(go)
