"""What people, tools and models get wrong: a clear error, a sound log, a session that goes on."""

import asyncio
import math
from collections.abc import AsyncIterator, Callable, Coroutine, Iterator
from typing import cast

import pytest

import weft
from tests.runtime.laws import check_laws
from weft import (
    Agent,
    CallbackContext,
    Content,
    ModelResponse,
    Part,
    RunConfig,
    Runner,
    Step,
    ToolContext,
    WeftError,
    tool,
)
from weft.content import FunctionCall, FunctionResponse, call_part, media_part
from weft.errors import DeclarationError, SessionBusy, SessionError
from weft.ir import Prompt
from weft.testing import ScriptedModel, call, cut, delayed, malformed, thought
from weft.values import Json, JsonObject


def look(city: str = "Oslo") -> str:
    """Look."""
    return f"rain in {city}"


async def goes_on(runner: Runner, says: str = "fine") -> weft.Session:
    """Run the session once more: the log is sound before and after, and the answer comes."""
    check_laws(await runner.session(session_id="s"), runner.root, may_hang=True)
    result = await runner.run(session_id="s", message="and now?")
    assert result.error is None
    assert result.text == says
    check_laws(result.session, runner.root, may_hang=True)
    assert await runner.session(session_id="s") == result.session
    return result.session


def runs(test: Callable[[], Coroutine[object, object, None]]) -> None:
    """Run a test's coroutine, for no longer than a hang would need to show."""
    asyncio.run(asyncio.wait_for(test(), 20))


def responses(result: weft.Result) -> list[JsonObject]:
    """What the calls of a run returned."""
    return [r.response or {} for event in result.events for r in event.results]


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
        with pytest.raises(WeftError, match="returned a int"):
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
        with pytest.raises(WeftError, match="returned a int"):
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


# Tools.


class Unprintable(Exception):
    """An exception that cannot say what is wrong."""

    def __str__(self) -> str:
        raise ValueError("no words")


RAISED: list[BaseException] = [
    ValueError("bad"),
    KeyError("k"),
    StopIteration("s"),
    StopAsyncIteration(),
    asyncio.CancelledError(),
    SystemExit(3),
    TimeoutError(),
    ExceptionGroup("several", [ValueError("1")]),
    Unprintable(),
    WeftError("ours", hint="no"),
    RecursionError("deep"),
]


@pytest.mark.parametrize("error", RAISED, ids=lambda error: type(error).__name__)
@pytest.mark.parametrize("kind", ["plain", "quick", "async", "several"])
def test_whatever_a_tool_raises_is_a_result(kind: str, error: BaseException) -> None:

    def plain(n: int) -> str:
        """Raise, but not at first: a function that was quick three times gets no thread."""
        if n < 3:
            return "calm"
        raise error

    async def waits(n: int) -> str:
        """Raise."""
        await asyncio.sleep(0)
        raise error

    function = tool(name="t")(waits if kind == "async" else plain)
    first: list[list[Part]] = [[call("t", n=3)]]
    if kind == "quick":
        first = [[call("t", n=n)] for n in range(4)]
    if kind == "several":
        first = [[call("t", n=3), call("look")]]

    async def go() -> None:
        script = [*first, "sorry", "fine"]
        bot = Agent("bot", model=ScriptedModel(script), tools=[function, look])
        runner = Runner(bot)
        result = await runner.run(session_id="s", message="x")
        said = str(next(held for held in responses(result) if "error" in held)["error"])
        assert type(error).__name__ in said or "StopIteration" in said
        assert "Traceback" not in said
        if kind == "several":
            assert {"result": "rain in Oslo"} in responses(result)
        assert result.text == "sorry"
        await goes_on(runner)

    runs(go)


@pytest.mark.parametrize("kind", ["plain", "async"])
def test_a_keyboard_interrupt_goes_through_and_the_session_goes_on(kind: str) -> None:
    def plain() -> str:
        """Stop everything."""
        raise KeyboardInterrupt

    async def waits() -> str:
        """Stop everything."""
        raise KeyboardInterrupt

    function = tool(name="t")(waits if kind == "async" else plain)
    runner = Runner(Agent("bot", model=ScriptedModel([call("t"), "fine"]), tools=[function]))

    async def first() -> None:
        await runner.run(session_id="s", message="x")

    with pytest.raises(KeyboardInterrupt):
        asyncio.run(first())

    async def then() -> None:
        await goes_on(runner)

    runs(then)


def test_a_tool_that_hangs_ends_with_the_run_that_is_cancelled() -> None:
    async def go() -> None:
        begun = asyncio.Event()
        ended: list[str] = []

        async def hang() -> str:
            """Hang."""
            begun.set()
            try:
                await asyncio.sleep(60)
            except asyncio.CancelledError:
                ended.append("hang")
                raise
            return "never"

        bot = Agent(
            "bot", model=ScriptedModel([[call("hang"), call("look")], "fine"]), tools=[hang, look]
        )
        runner = Runner(bot)

        async def first() -> weft.Result:
            return await runner.run(session_id="s", message="x")

        running = asyncio.create_task(first())
        await begun.wait()
        running.cancel()
        with pytest.raises(asyncio.CancelledError):
            await running
        assert ended == ["hang"]
        session = await runner.session(session_id="s")
        check_laws(session, bot)
        assert session.events[-1].error_code == "cancelled"
        await goes_on(runner)

    runs(go)


def nested(depth: int) -> object:
    """A list in a list in a list."""
    value: object = 1
    for _ in range(depth):
        value = [value]
    return value


def recursive() -> object:
    """A list that holds itself."""
    value: list[object] = []
    value.append(value)
    return value


def recursive_dict() -> object:
    """A dict that holds itself."""
    value: dict[str, object] = {}
    value["x"] = value
    return value


def generator() -> Iterator[int]:
    """Yield."""
    yield 1


async def async_generator() -> AsyncIterator[int]:
    """Yield."""
    yield 1


@pytest.mark.parametrize("store", ["memory://", "sqlite"])
@pytest.mark.parametrize(
    "value",
    [
        object(),
        math.nan,
        {"x": [math.inf]},
        {"x": {1: math.nan}},
        nested(300),
        nested(5000),
        recursive(),
        recursive_dict(),
        generator(),
        async_generator(),
        ValueError("returned, not raised"),
        1j,
        look,
    ],
    ids=lambda value: type(value).__name__,
)
def test_a_result_that_is_not_json_is_an_error_result(
    value: object, store: str, tmp_path: object
) -> None:
    def odd() -> object:
        """Return something odd."""
        return value

    async def go() -> None:
        address = f"sqlite:///{tmp_path}/weft.db" if store == "sqlite" else store
        model = ScriptedModel([call("odd"), "sorry", "fine"])
        async with Runner(Agent("bot", model=model, tools=[odd]), store=address) as runner:
            result = await runner.run(session_id="s", message="x")
            assert "odd returned what is not JSON" in str(responses(result)[0]["error"])
            assert result.text == "sorry"
            await goes_on(runner)

    runs(go)


@pytest.mark.parametrize("store", ["memory://", "sqlite"])
@pytest.mark.parametrize(
    ("value", "told"),
    [
        (b"\xff", {"result": "/w=="}),
        (2**200, {"result": 2**200}),
        ({"n": -(2**80)}, {"n": -(2**80)}),
        ("\ud800", {"result": "\ud800"}),
        ({"\udfff": "\ud800"}, {"\udfff": "\ud800"}),
        (nested(150), {"result": nested(150)}),
        ({1: "one"}, {"1": "one"}),
        (None, {"result": None}),
        ({}, {}),
        ([], {"result": []}),
        (False, {"result": False}),
        ("", {"result": ""}),
    ],
    ids=str,
)
def test_a_result_that_can_be_told_is_told_and_read_back(
    value: object, told: JsonObject, store: str, tmp_path: object
) -> None:
    def odd() -> object:
        """Return something odd."""
        return value

    async def go() -> None:
        address = f"sqlite:///{tmp_path}/weft.db" if store == "sqlite" else store
        model = ScriptedModel([call("odd"), "ok", "fine"])
        async with Runner(Agent("bot", model=model, tools=[odd]), store=address) as runner:
            result = await runner.run(session_id="s", message="x")
            assert responses(result) == [told]
            assert result.text == "ok"
            await goes_on(runner)

    runs(go)


def test_media_beside_a_result_is_not_read_as_text() -> None:
    picture = media_part("image/png", b"x" * 100)

    def draw() -> dict[str, object]:
        """Draw."""
        return {"title": "a cat", "picture": picture}

    def sketch() -> list[object]:
        """Sketch."""
        return ["a dog", picture]

    async def go() -> None:
        model = ScriptedModel([[call("draw"), call("sketch")], "ok", "fine"])
        runner = Runner(Agent("bot", model=model, tools=[draw, sketch]))
        result = await runner.run(session_id="s", message="x")
        assert responses(result) == [{"title": "a cat"}, {"result": ["a dog"]}]
        answer = next(event for event in result.events if event.results)
        assert [len(r.parts or ()) for r in answer.results] == [1, 1]
        await goes_on(runner)

    runs(go)


def test_a_tool_that_sets_nonsense_on_its_actions_stops_the_run() -> None:
    def go_to(ctx: ToolContext) -> str:
        """Go."""
        ctx.actions.transfer_to_agent = cast("str", 5)
        return "ok"

    async def go() -> None:
        runner = Runner(Agent("bot", model=ScriptedModel([call("go_to"), "fine"]), tools=[go_to]))
        with pytest.raises(WeftError, match="transfer_to_agent"):
            await runner.run(session_id="s", message="x")
        await goes_on(runner)

    runs(go)


def test_a_tool_that_hands_over_to_nobody_is_an_error_event() -> None:
    def go_to(ctx: ToolContext) -> str:
        """Go."""
        ctx.actions.transfer_to_agent = "nobody"
        return "ok"

    async def go() -> None:
        runner = Runner(Agent("bot", model=ScriptedModel([call("go_to"), "fine"]), tools=[go_to]))
        result = await runner.run(session_id="s", message="x")
        assert result.error is not None
        assert result.error.error_code == "unknown_agent"
        assert "`nobody`" in str(result.error.error_message)
        await goes_on(runner)

    runs(go)


# Models.


class Says:
    """A model that answers with just these responses, however odd."""

    name = "odd"
    dialect = "gemini"

    def __init__(self, *answers: list[object]) -> None:
        self.answers = list(answers)

    async def generate(
        self, prompt: Prompt, wire: JsonObject, *, stream: bool
    ) -> AsyncIterator[ModelResponse]:
        """Give the next answer."""
        for response in self.answers.pop(0):
            yield cast("ModelResponse", response)


def response(*parts: Part, role: str = "model", **more: str) -> ModelResponse:
    """A response of these parts."""
    return ModelResponse(content=Content(parts=parts, role=role) if parts else None, **more)  # type: ignore[arg-type]


FINE = [response(Part(text="fine"))]


@pytest.mark.parametrize(
    ("answer", "code"),
    [
        ([], "empty_response"),
        ([response()], "empty_response"),
        ([response(Part())], "empty_response"),
        ([response(Part(text=""))], "empty_response"),
        ([ModelResponse(content=Content())], "empty_response"),
        ([response(finish_reason="MAX_TOKENS")], "empty_response"),
        ([response(Part(text="hm", thought=True))], "empty_response"),
        ([None], "model_error"),
        (["text"], "model_error"),
        ([response(error_code="SAFETY", error_message="no")], "SAFETY"),
        ([response(Part(text="half"), error_code="SAFETY")], "SAFETY"),
    ],
)
def test_an_answer_that_is_none_is_an_error_event(answer: list[object], code: str) -> None:
    async def go() -> None:
        runner = Runner(Agent("bot", model=Says(answer, FINE), output_key="said"))
        result = await runner.run(session_id="s", message="x")
        assert result.error is not None
        assert result.error.error_code == code
        assert result.text == ""
        assert result.state == {}
        await goes_on(runner)

    runs(go)


def test_an_empty_answer_keeps_what_it_cost_and_why_it_ended() -> None:
    async def go() -> None:
        used = weft.session.Usage(prompt_token_count=7, thoughts_token_count=9)
        empty = ModelResponse(
            content=Content(parts=(Part(text="hm", thought=True),), role="model"),
            finish_reason="MAX_TOKENS",
            usage=used,
        )
        runner = Runner(Agent("bot", model=Says([empty], FINE)))
        result = await runner.run(session_id="s", message="x")
        assert result.error is not None
        assert result.error.finish_reason == "MAX_TOKENS"
        assert "but thoughts" in str(result.error.error_message)
        assert result.usage.thoughts_token_count == 9
        await goes_on(runner)

    runs(go)


@pytest.mark.parametrize(
    ("entry", "says"),
    [
        (call("lok"), "there is no tool 'lok'; did you mean look?"),
        (call("look", city=5), "city"),
        (call("look", town="x"), "`town`"),
        (malformed("look", '{"city": '), "not a JSON object"),
        (malformed("look", "[1]"), "not a JSON object"),
        (Part(function_call=FunctionCall(args={})), "there is no tool 'unnamed'"),
        (Part(function_call=FunctionCall(name="")), "there is no tool 'unnamed'"),
        (call("we ird!\n"), "there is no tool"),
        (call("x" * 500), "there is no tool"),
    ],
)
def test_a_bad_call_gets_a_corrective_result(entry: Part, says: str) -> None:
    async def go() -> None:
        runner = Runner(Agent("bot", model=ScriptedModel([entry, "sorry", "fine"]), tools=[look]))
        result = await runner.run(session_id="s", message="x")
        assert says in str(responses(result)[0]["error"])
        assert result.text == "sorry"
        await goes_on(runner)

    runs(go)


@pytest.mark.parametrize("argument", [math.nan, object()])
def test_arguments_that_are_not_json_stop_the_run(argument: object) -> None:
    async def go() -> None:
        odd = Part(function_call=FunctionCall(name="look", args={"city": cast("Json", argument)}))
        runner = Runner(Agent("bot", model=Says([response(odd)], FINE), tools=[look]))
        with pytest.raises(WeftError, match="functionCall"):
            await runner.run(session_id="s", message="x")
        await goes_on(runner)

    runs(go)


def test_duplicate_call_ids_are_two_calls() -> None:
    async def go() -> None:
        twice = [call_part("look", {"city": city}, id="c") for city in ("Oslo", "Rome")]
        again = call_part("look", {"city": "Paris"}, id="c")
        model = ScriptedModel([twice, again, "done", call_part("look", {}, id="c"), "fine"])
        runner = Runner(Agent("bot", model=model, tools=[look]))
        result = await runner.run(session_id="s", message="x")
        assert [r["result"] for r in responses(result)] == [
            "rain in Oslo", "rain in Rome", "rain in Paris",
        ]  # fmt: skip
        check_laws(result.session, runner.root)
        await goes_on(runner)

    runs(go)


def test_a_reused_call_id_is_confirmed_anew() -> None:
    paid: list[int] = []

    @tool(confirm=True)
    def pay(amount: int) -> str:
        """Pay."""
        paid.append(amount)
        return "paid"

    async def go() -> None:
        script = [
            call_part("pay", {"amount": 5}, id="c1"),
            call_part("pay", {"amount": 5000}, id="c1"),
            "fine",
        ]
        runner = Runner(Agent("bot", model=ScriptedModel(script), tools=[pay]))
        first = await runner.run(session_id="s", message="x")
        assert "c1" in first.waiting
        second = await runner.resume(session_id="s", answers={"c1": True})
        assert paid == [5]
        assert second.waiting
        assert "c1" not in second.waiting
        await goes_on(runner)

    runs(go)


def test_a_reused_call_id_gives_an_agent_tool_its_new_request() -> None:
    async def go() -> None:
        asks = [call_part("expert", {"request": text}, id="call_0") for text in ("one", "two")]
        model = ScriptedModel({"boss": [asks[0], "1", asks[1], "fine"], "expert": ["a", "b"]})
        expert = Agent("expert", model=model, description="Knows.")
        runner = Runner(Agent("boss", model=model, tools=[expert]))
        await runner.run(session_id="s", message="x")
        await goes_on(runner)
        asked = str([prompt for prompt in model.prompts if prompt.agent == "expert"][1])
        assert "user: two" in asked
        assert "one" not in asked

    runs(go)


def test_calls_and_text_may_be_mixed() -> None:
    async def go() -> None:
        model = ScriptedModel([["before ", call("look"), "after"], "done", "fine"])
        runner = Runner(Agent("bot", model=model, tools=[look], output_key="said"))
        result = await runner.run(session_id="s", message="x")
        assert result.text == "done"
        assert result.state == {"said": "done"}
        assert result.events[0].text == "before after"
        await goes_on(runner)

    runs(go)


@pytest.mark.parametrize("stream", [False, True])
def test_a_cut_answer_is_an_error_event_and_writes_nothing(stream: bool) -> None:
    async def go() -> None:
        model = ScriptedModel([cut("half an answer"), [thought("only")], "fine"])
        runner = Runner(Agent("bot", model=model, output_key="said"))
        config = RunConfig(stream=stream)
        first = await runner.run(session_id="s", message="x", config=config)
        assert first.error is not None
        assert first.state == {}
        second = await runner.run(session_id="s", message="x", config=config)
        assert second.error is not None
        assert second.state == {}
        await goes_on(runner)

    runs(go)


def test_a_model_without_a_generator_is_an_error_event() -> None:
    class Iterates:
        """An iterator of its own kind."""

        def __init__(self) -> None:
            self.left = list(FINE)

        def __aiter__(self) -> "Iterates":
            return self

        async def __anext__(self) -> ModelResponse:
            if not self.left:
                raise StopAsyncIteration
            return self.left.pop()

    class Returns:
        name, dialect = "returns", "gemini"

        def generate(self, prompt: Prompt, wire: JsonObject, *, stream: bool) -> Iterates:
            """Give an iterator that is no generator."""
            return Iterates()

    assert weft.run_sync(Agent("bot", model=Returns()), "x").text == "fine"


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


@pytest.mark.parametrize("role", ["model", "system", None])
def test_whatever_role_a_message_has_it_is_the_users(role: str | None) -> None:
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


def test_a_model_that_is_no_model_says_what_to_pass() -> None:
    with pytest.raises(WeftError, match="is not a model"):
        Agent("bot", model=5)
    with pytest.raises(WeftError, match="cannot be run"):
        Runner(cast("Agent", "bot"))
    with pytest.raises(WeftError, match="cannot be run"):
        Runner(cast("Agent", [Agent("a"), Agent("b")]))
