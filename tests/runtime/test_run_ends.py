"""However a run ends, every plugin that heard of its beginning hears of its end, once."""

import asyncio
from collections.abc import Callable
from contextlib import aclosing, suppress
from contextvars import ContextVar, Token
from typing import cast

import pytest

import weft
from weft import Agent, CallbackContext, Content, Part, RunConfig, Runner, RunOutcome, tool
from weft.errors import SessionError, WeftError
from weft.ir import Prompt
from weft.testing import ScriptedModel, call, chunks

SPAN: ContextVar[str] = ContextVar("span", default="")


class Tracing(weft.Plugin):
    """A tracing plugin as people write it: a span a run, kept in a context variable."""

    def __init__(self) -> None:
        self.open: dict[str, Token[str]] = {}
        self.ends: list[tuple[str, str]] = []

    def before_run(self, ctx: CallbackContext) -> None:
        assert ctx.invocation_id not in self.open
        self.open[ctx.invocation_id] = SPAN.set(ctx.invocation_id)

    async def after_run(self, ctx: CallbackContext, outcome: RunOutcome) -> None:
        await asyncio.sleep(0)
        token = self.open.pop(ctx.invocation_id)
        SPAN.reset(token)  # raises in another context
        code = outcome.event.error_code if outcome.event is not None else None
        cause = type(outcome.error).__name__ if outcome.error is not None else ""
        self.ends.append((outcome.status, cause or code or ""))


@tool(long_running=True)
def ask() -> None:
    """Ask."""


async def slow() -> str:
    """Sleep."""
    await asyncio.sleep(60)
    return "slept"


def boom() -> str:
    """Fail."""
    raise ValueError("no")


def broken_model(ctx: CallbackContext, prompt: Prompt) -> None:
    raise KeyError("callback")


def bot(script: list[object], **options: object) -> Agent:
    model = ScriptedModel(script)  # type: ignore[arg-type]
    return Agent("bot", model=model, tools=[ask, slow, boom], **options)  # type: ignore[arg-type]


ENDS: dict[str, tuple[Callable[[], Agent], list[tuple[str, str]]]] = {
    "answer": (lambda: bot(["hi"]), [("done", "")]),
    "waiting": (lambda: bot([call("ask")]), [("waiting", "")]),
    "error event": (lambda: bot([RuntimeError("503")]), [("error", "model_error")]),
    "limit": (lambda: bot([call("boom")] * 3, max_steps=2), [("error", "max_steps")]),
    "tool raises": (
        lambda: bot([call("boom")], on_tool_error="raise"), [("error", "ValueError")],
    ),
    "callback raises": (lambda: bot([], before_model=broken_model), [("error", "KeyError")]),
    "compile error": (
        lambda: bot([], instruction="{nobody}", on_missing="error"), [("error", "MissingVariable")],
    ),
}  # fmt: skip


@pytest.mark.parametrize("flow", [False, True])
@pytest.mark.parametrize("end", ENDS)
def test_a_run_that_ends_by_itself(end: str, flow: bool) -> None:
    make, expected = ENDS[end]
    tracing = Tracing()
    root = make() >> Agent("last", model=ScriptedModel(["bye"])) if flow else make()

    async def go() -> None:
        runner = Runner(root, plugins=[tracing])
        with suppress(ValueError, KeyError, WeftError):
            await runner.run(session_id="s", message="go")
        assert SPAN.get() == ""
        assert tracing.ends == expected
        assert tracing.open == {}

    asyncio.run(go())


def test_every_run_of_an_invocation_has_its_end() -> None:
    tracing = Tracing()

    async def go() -> None:
        runner = Runner(bot([call("ask"), "thanks"]), plugins=[tracing])
        first = await runner.run(session_id="s", message="go")
        (call_id,) = first.waiting
        await runner.resume(session_id="s")
        with pytest.raises(SessionError):
            await runner.resume(session_id="s", answers={"nope": 1})
        last = await runner.resume(session_id="s", answers={call_id: "yes"})
        assert last.text == "thanks"
        await runner.resume(session_id="s")
        assert [status for status, _ in tracing.ends] == ["waiting", "waiting", "done", "done"]
        assert tracing.open == {}

    asyncio.run(go())


def test_a_run_that_is_cancelled_closed_or_interrupted() -> None:
    tracing = Tracing()

    async def go() -> None:
        begun = asyncio.Event()

        async def slow() -> str:
            """Sleep."""
            begun.set()
            await asyncio.sleep(3600)
            return "slept"

        model = ScriptedModel([
            call("slow"), chunks("a ", "b"), chunks("c ", "d"), call("slow"), "taken over",
        ])  # fmt: skip
        runner = Runner(Agent("bot", model=model, tools=[slow]), plugins=[tracing])
        task = asyncio.ensure_future(runner.run(session_id="s", message="go"))
        await begun.wait()
        task.cancel()
        with pytest.raises(asyncio.CancelledError):
            await task
        assert tracing.ends.pop() == ("cancelled", "cancelled")
        streaming = RunConfig(stream=True)
        async with aclosing(runner.run(session_id="s", message="x", config=streaming)) as run:
            async for _ in run:
                break
        assert tracing.ends.pop() == ("cancelled", "cancelled")
        async with aclosing(runner.run(session_id="s", message="x", config=streaming)) as run:
            async for event in run:
                if not event.partial:
                    break  # it has its answer: nothing was left to cancel
        assert tracing.ends.pop() == ("done", "")
        begun.clear()
        first = asyncio.ensure_future(runner.run(session_id="s", message="go"))
        await begun.wait()
        later = RunConfig(busy="interrupt")
        assert (await runner.run(session_id="s", message="me", config=later)).text == "taken over"
        await first
        assert sorted(tracing.ends) == [("cancelled", "interrupted"), ("done", "")]
        assert tracing.open == {}

    asyncio.run(go())


def test_only_who_heard_of_the_beginning_hears_of_the_end() -> None:
    told: list[str] = []

    class Named(weft.Plugin):
        def __init__(self, name: str, answer: object = None) -> None:
            self.name, self.answer = name, answer

        def before_run(self, ctx: CallbackContext) -> object:
            told.append(f"{self.name} begins")
            if isinstance(self.answer, Exception):
                raise self.answer
            return self.answer

        def after_run(self, ctx: CallbackContext) -> None:  # may leave the outcome out
            told.append(f"{self.name} ends")

    class Last(weft.Plugin):
        def after_run(self, ctx: CallbackContext, outcome: RunOutcome) -> None:
            told.append(f"last {outcome.status}")

    answer = Content(parts=(Part(text="closed"),), role="model")
    plugins = [Last(), Named("a"), Named("b", answer), Named("c")]
    assert weft.run_sync(bot([]), "go", plugins=plugins).text == "closed"
    assert told == ["a begins", "b begins", "last done", "a ends", "b ends"]
    told.clear()
    with pytest.raises(ValueError, match="b is broken"):
        weft.run_sync(bot([]), "go", plugins=[Named("a"), Named("b", ValueError("b is broken"))])
    assert told == ["a begins", "b begins", "a ends"]


class Failing(weft.Plugin):
    def __init__(self, told: list[str]) -> None:
        self.told = told

    def after_run(self, ctx: CallbackContext, outcome: RunOutcome) -> None:
        self.told.append(outcome.status)
        raise OSError("the tracer is down")


def test_what_a_plugin_raises_hides_nothing(caplog: pytest.LogCaptureFixture) -> None:
    told: list[str] = []
    plugins = [Failing(told), Failing(told)]
    with pytest.raises(ValueError, match="no"):
        weft.run_sync(bot([call("boom")], on_tool_error="raise"), "go", plugins=plugins)
    failed = weft.run_sync(bot([RuntimeError("503")]), "go", plugins=plugins)
    assert failed.error is not None
    assert told == ["error"] * 4
    assert "a plugin failed after the run" in caplog.text
    with pytest.raises(OSError, match="the tracer is down"):
        weft.run_sync(bot(["hi"]), "go", plugins=plugins)
    assert told[4:] == ["done", "done"]


def test_what_is_written_at_the_end_is_kept_and_a_run_that_waits_goes_on() -> None:
    class Counts(weft.Plugin):
        def after_run(self, ctx: CallbackContext, outcome: RunOutcome) -> None:
            ends = cast("list[str]", ctx.state.get("ends", []))
            ctx.state["ends"] = [*ends, outcome.status]

    async def go() -> None:
        runner = Runner(bot([call("ask"), RuntimeError("503"), "fine"]), plugins=[Counts()])
        first = await runner.run(session_id="s", message="go")
        (call_id,) = first.waiting
        failed = await runner.resume(session_id="s", answers={call_id: 1})
        assert failed.error is not None
        last = await runner.resume(session_id="s")
        assert last.text == "fine"
        assert last.state == {"ends": ["waiting", "error", "done"]}

    asyncio.run(go())
