"""What tools do wrong: the model is told, the log is sound, and the session goes on."""

import asyncio
import math
from collections.abc import AsyncIterator, Iterator
from typing import cast

import pytest

import weft
from tests.runtime.laws import check_laws, goes_on, responses, runs
from tests.runtime.tools import look
from weft import (
    Agent,
    Part,
    Runner,
    ToolContext,
    WeftError,
    tool,
)
from weft.content import media_part
from weft.testing import ScriptedModel, call
from weft.values import JsonObject


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


async def test_F3_an_agent_that_is_called_wrongly_says_what_it_takes() -> None:
    """It spoke of an `answer`, and listed nothing."""
    schema = {
        "type": "object",
        "properties": {"topic": {"type": "string"}, "pages": {"type": "integer"}},
        "required": ["topic"],
        "additionalProperties": False,
    }
    writer = Agent("writer", model=ScriptedModel([]), input_schema=schema)
    model = ScriptedModel([call("writer", pages="two", tone="dry"), "Sorry."])
    result = await weft.run(Agent("bot", model=model, tools=[writer]), "Write")
    (answer,) = [one.response for event in result.events for one in event.results]
    error = str(answer["error"]) if answer else ""
    assert "`topic` is missing" in error
    assert '`pages`: "two" is not of type "integer"' in error
    assert "'tone' was unexpected" in error
    assert error.endswith("arguments: topic (string, required), pages (integer)")
    assert "answer" not in error
