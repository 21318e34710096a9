"""What is streamed has the id of the event it becomes, and what does not count says so."""

import asyncio
import io
from collections.abc import AsyncIterator, Callable
from dataclasses import dataclass
from pathlib import Path

import pytest

import weft
from tests.runtime.clock import LoopClock
from weft import (
    Agent,
    CallbackContext,
    Event,
    ModelResponse,
    Parallel,
    RunConfig,
    Runner,
    race,
    timeout,
)
from weft.cli.screen import Screen
from weft.content import Content, Part
from weft.declare import Node
from weft.ir import Prompt
from weft.testing import ScriptedModel, call, chunks, cut, fails_after
from weft.values import JsonObject


@dataclass
class Trip:
    city: str


def text(said: str) -> ModelResponse:
    return ModelResponse(content=Content(parts=(Part(text=said),), role="model"))


async def streamed(root: Node) -> list[Event]:
    events: list[Event] = []
    try:
        async for event in weft.stream(root, "go"):
            events.append(event)
    except (ValueError, KeyError):
        pass
    return events


async def test_a_character_that_a_stream_cuts_in_two_is_one_in_the_log(tmp_path: Path) -> None:
    model = ScriptedModel([chunks("smile \ud83d", "\ude00 there"), "Bye."])
    address = f"sqlite:///{tmp_path}/weft.db"
    async with Runner(Agent("bot", model=model), store=address) as runner:
        result = await runner.run("go", session_id="s", config=RunConfig(stream=True))
        assert result.text == "smile 😀 there"
        grown = await runner.session(session_id="s")
    async with Runner(Agent("bot", model=model), store=address) as runner:
        read = await runner.session(session_id="s")
        assert read == grown
        await runner.run("and?", session_id="s")
        assert "smile 😀 there" in str(model.prompts[-1])


def shown(events: list[Event]) -> dict[str, str]:
    """What a client shows in the end that does as the documentation says."""
    texts: dict[str, str] = {}
    for event in events:
        if event.void:
            texts.pop(event.id, None)
        if event.partial:
            texts[event.id] = texts.get(event.id, "") + event.text
        elif event.text and not event.void and event.audience != "internal":
            texts[event.id] = event.text
    return {id: text for id, text in texts.items() if text}


def check(events: list[Event]) -> None:
    """Every stream ends with one complete event of its id, or with the word that it is void."""
    streams = {event.id for event in events if event.partial}
    for id in streams:
        mine = [event for event in events if event.id == id]
        assert all(event.partial for event in mine[:-1])
        last = mine[-1]
        assert not last.partial or (last.void and last.content is None)
    whole = [event.id for event in events if not event.partial]
    assert len(whole) == len(set(whole))


def test_an_answer_has_the_id_of_its_pieces() -> None:
    def look() -> str:
        """Look."""
        return "rain"

    model = ScriptedModel([[chunks_call()], chunks("It ", "rains.")])
    events = asyncio.run(streamed(Agent("bot", model=model, tools=[look])))
    check(events)
    last = events[-1]
    assert [event.text for event in events if event.id == last.id] == ["It ", "rains.", "It rains."]
    assert shown(events)[last.id] == "It rains."
    assert sum(event.partial is True for event in events) >= 2


def chunks_call() -> Part:
    return call("look")


def raises(ctx: CallbackContext, response: ModelResponse) -> None:
    raise ValueError("not this")


def replaces(ctx: CallbackContext, response: ModelResponse) -> ModelResponse:
    return text("another answer")


def mends(ctx: CallbackContext, prompt: Prompt, error: Exception) -> ModelResponse:
    return text("a spare answer")


@pytest.mark.parametrize(
    ("bot", "left"),
    [
        (Agent("bot", model=ScriptedModel([chunks("no ", "json"), '{"city": "Oslo"}'])) @ Trip,
         ['{"city": "Oslo"}']),
        (Agent("bot", model=ScriptedModel([chunks("no ", "json")] * 3)) @ Trip, []),
        (Agent("bot", model=ScriptedModel([cut(chunks("It ", "ra"))])), []),
        (Agent("bot", model=ScriptedModel([fails_after("It ", "ra", error=RuntimeError("503"))])),
         []),
        (Agent("bot", model=ScriptedModel([fails_after("It ", error=RuntimeError("503"))]),
               on_model_error=mends), ["a spare answer"]),
        (Agent("bot", model=ScriptedModel([chunks("It ", "rains")]), after_model=replaces),
         ["another answer"]),
        (Agent("bot", model=ScriptedModel([chunks("It ", "rains")]), after_model=raises), []),
        (Agent("bot", model=ScriptedModel([cut(chunks("It ", "ra"))]))
         // Agent("spare", model=ScriptedModel([chunks("It ", "snows")])), ["It snows"]),
    ],
)  # fmt: skip
def test_what_does_not_become_the_answer_says_so(bot: Node, left: list[str]) -> None:
    events = asyncio.run(streamed(bot))
    assert any(event.partial for event in events)
    check(events)
    assert list(shown(events).values()) == left


class Slow:
    """A model that says a word and then nothing for long; `then` is called in between."""

    name, dialect = "slow", "gemini"

    def __init__(self, then: Callable[[], None] = lambda: None) -> None:
        self._then = then

    async def generate(
        self, prompt: Prompt, wire: JsonObject, *, stream: bool
    ) -> AsyncIterator[ModelResponse]:
        yield ModelResponse(content=Content(parts=(Part(text="well, "),)), partial=True)
        self._then()
        await asyncio.sleep(3600)
        yield text("never")


@pytest.mark.parametrize("kind", ["race", "timeout", "parallel"])
async def test_a_branch_that_is_stopped_says_that_its_words_are_void(
    kind: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    clock, said = LoopClock(monkeypatch), asyncio.Event()

    async def first(prompt: Prompt) -> str:
        await said.wait()
        return "first"

    async def fails(prompt: Prompt) -> str:
        await said.wait()
        raise RuntimeError("503")

    def a(then: Callable[[], None]) -> Agent:
        return Agent("a", model=Slow(then))

    b = Agent("b", model=ScriptedModel(["first"]))
    flows: dict[str, Callable[[], Node]] = {
        "race": lambda: race(a(said.set), Agent("b", model=ScriptedModel([first]))),
        "timeout": lambda: timeout(a(lambda: clock.pass_by(1000)), seconds=600) // b,
        "parallel": lambda: Parallel(a(said.set), Agent("c", model=ScriptedModel([fails]))) // b,
    }
    events = await streamed(flows[kind]())
    assert [event.text for event in events if event.author == "a" and event.partial] == [
        "well, ",
        "",
    ]
    check(events)
    assert list(shown(events).values()) == ["first"]


def test_a_run_that_a_later_one_stopped_takes_back_what_it_streamed() -> None:
    async def go() -> None:
        runner = Runner(Agent("bot", model=Slow()))
        config = RunConfig(stream=True)
        first = runner.run(session_id="s", message="x", config=config)
        events = [await anext(first)]
        later = RunConfig(busy="interrupt", model=ScriptedModel(["mine"]))
        second = asyncio.ensure_future(runner.run(session_id="s", message="y", config=later))
        events += [event async for event in first]
        check(events)
        assert shown(events) == {}
        assert events[-1].error_code == "interrupted"
        assert (await second).text == "mine"

    asyncio.run(go())


class Retrying:
    """A model whose first attempt was cut off after a piece was shown, as a client tells it."""

    name, dialect = "retrying", "gemini"

    async def generate(
        self, prompt: Prompt, wire: JsonObject, *, stream: bool
    ) -> AsyncIterator[ModelResponse]:
        for piece in ("It ra", None, "It ", "snows."):
            content = Content(parts=(Part(text=piece),), role="model") if piece else None
            code = "network" if piece is None else None
            yield ModelResponse(content=content, partial=True, error_code=code)
        yield text("It snows.")


def test_an_attempt_that_is_made_again_begins_anew() -> None:
    bot = Agent("bot", model=Retrying())
    events = asyncio.run(streamed(bot))
    check(events)
    assert list(shown(events).values()) == ["It snows."]
    assert [event.void for event in events] == [False, True, False, False]
    assert len({event.id for event in events}) == 1
    screen = io.StringIO()
    shows = Screen(bot, screen, None)
    for event in events:
        shows.show(event)
    assert screen.getvalue() == "It ra\nIt snows.\n"


def test_nothing_of_a_stream_is_stored_but_its_end() -> None:
    async def go() -> None:
        runner = Runner(Agent("bot", model=ScriptedModel([chunks("a", "b")])))
        config = RunConfig(stream=True)
        ids = [e.id async for e in runner.run(session_id="s", message="x", config=config)]
        session = await runner.session(session_id="s")
        assert [event.id for event in session.events][1:] == [ids[-1]]

    asyncio.run(go())
