"""An answer that is cut off at the token limit is marked, continued or refused; never whole."""

import asyncio
import io
from dataclasses import dataclass
from pathlib import Path
from typing import Literal

import pytest

import weft
from weft import Agent, C, Event, ModelResponse, RunConfig, Runner
from weft.cli.screen import Screen
from weft.content import Content, Part
from weft.dialects import lift
from weft.errors import DeclarationError
from weft.session import Usage
from weft.testing import ScriptedModel, call, thought
from weft.values import JsonObject

How = Literal["keep", "continue", "error"]


@dataclass
class Trip:
    city: str
    days: int


def cut_at(text: str, *more: Part) -> ModelResponse:
    """An answer that ends at the token limit."""
    content = Content(parts=(*more, Part(text=text)), role="model")
    used = Usage(prompt_token_count=5, candidates_token_count=7, total_token_count=12)
    return ModelResponse(content=content, finish_reason="MAX_TOKENS", usage=used)


def codes(result: weft.Result) -> list[str]:
    return [found.code for found in result.diagnostics]


def test_by_default_it_is_kept_and_marked_everywhere() -> None:
    bot = Agent("bot", model=ScriptedModel([cut_at("The plan is to"), "whole"])).writes("plan")
    result = weft.run_sync(bot, "go")
    assert result.text == "The plan is to"
    assert result.truncated
    assert result.events[-1].finish_reason == "MAX_TOKENS"
    assert codes(result) == ["WEFT508"]
    assert "`plan`" in result.diagnostics[0].message
    assert "WEFT508" in str(result.events[-1].custom_metadata)
    assert result.state == {"plan": "The plan is to"}
    later = weft.run_sync(bot, "again", session=result.session)
    assert not later.truncated
    assert codes(later) == []


def test_an_answer_inside_a_flow_or_a_tool_is_told_too() -> None:
    a = Agent("a", model=ScriptedModel([cut_at("half a")])).writes("plan")
    b = Agent("b", model=ScriptedModel(["done"]), instruction="Plan: {plan}")
    result = weft.run_sync(a >> b, "go")
    assert (result.text, result.truncated, codes(result)) == ("done", True, ["WEFT508"])
    model = ScriptedModel({"boss": [call("expert", request="?"), "ok"], "expert": [cut_at("4")]})
    boss = Agent("boss", model=model, tools=[Agent("expert", description="Knows.")])
    asked = weft.run_sync(boss, "go")
    assert asked.truncated
    assert "cut off at the token limit" in str(model.prompts[-1])


def test_who_allows_it_is_not_told_but_can_see_it() -> None:
    bot = Agent("bot", model=ScriptedModel([cut_at("half")]), allow="WEFT508")
    result = weft.run_sync(bot, "go")
    assert result.truncated
    assert codes(result) == []


@pytest.mark.parametrize("by", ["agent", "run"])
def test_it_can_be_refused(by: str) -> None:
    how: How = "error" if by == "agent" else "keep"
    model = ScriptedModel([cut_at("The plan is to"), "shorter"])
    bot = Agent("bot", model=model, on_truncated=how).writes("plan")
    config = RunConfig(on_truncated="error") if by == "run" else RunConfig()
    runner = Runner(bot, config=config)

    async def go() -> None:
        result = await runner.run(session_id="s", message="go")
        assert result.error is not None
        assert result.error.error_code == "truncated"
        assert result.error.finish_reason == "MAX_TOKENS"
        assert result.usage.total_token_count == 12
        assert (result.text, result.state, result.truncated) == ("", {}, False)
        assert "The plan is to" in str(result.error.custom_metadata), "nothing is lost"
        again = await runner.resume(session_id="s")
        assert again.text == "shorter"
        assert again.state == {"plan": "shorter"}

    asyncio.run(go())


PIECES: list[object] = [cut_at("The plan ", thought("hm")), cut_at("is to wa"), "it."]


@pytest.mark.parametrize("stream", [False, True])
def test_it_can_be_continued_and_is_then_one_answer(stream: bool) -> None:
    model = ScriptedModel([*PIECES, "bye"])  # type: ignore[list-item]
    bot = Agent("bot", model=model, on_truncated="continue").writes("plan")
    result = weft.run_sync(bot, "go", config=RunConfig(stream=stream))
    assert result.text == "The plan is to wait."
    assert result.state == {"plan": "The plan is to wait."}
    assert not result.truncated
    assert codes(result) == []
    assert result.usage.total_token_count == 24
    assert [event.audience for event in result.events] == ["internal"] * 4 + [None]
    asked = str(model.prompts[2])
    assert "Go on exactly where it stopped" in asked
    assert "The plan " in asked
    assert "is to wa" in asked
    weft.run_sync(bot, "thanks", session=result.session)
    sent = str(model.wires[-1])
    assert sent.count("The plan") == 1, "what was put together is not sent twice"
    assert "The plan is to wait." in sent
    assert "Go on exactly" not in sent


def test_pieces_are_streamed_under_the_id_of_the_whole() -> None:
    bot = Agent("bot", model=ScriptedModel(PIECES), on_truncated="continue")  # type: ignore[arg-type]
    screen = io.StringIO()

    async def go() -> list[Event]:
        return [event async for event in weft.stream(bot, "go")]

    events = asyncio.run(go())
    last = events[-1]
    pieces = [e.text for e in events if e.partial and e.text]
    assert "".join(pieces) == last.text == "The plan is to wait."
    assert {event.id for event in events if event.partial} == {last.id}
    shows = Screen(bot, screen, None)
    for event in events:
        shows.show(event)
    shows.end()
    assert screen.getvalue() == "The plan is to wait.\n"


def test_it_goes_on_after_a_crash_with_what_is_there(tmp_path: Path) -> None:
    store = f"sqlite:///{tmp_path}/weft.db"
    first = ScriptedModel([cut_at("The plan "), RuntimeError("down")])
    second = ScriptedModel([cut_at("is to wa"), "it."])

    async def go() -> None:
        bot = Agent("bot", model=first, on_truncated="continue").writes("plan")
        async with Runner(bot, store=store) as runner:
            failed = await runner.run(session_id="s", message="go")
            assert failed.error is not None
            assert failed.state == {}
        bot = Agent("bot", model=second, on_truncated="continue").writes("plan")
        async with Runner(bot, store=store) as runner:
            result = await runner.resume(session_id="s")
            assert result.text == "The plan is to wait."
            assert result.state == {"plan": "The plan is to wait."}

    asyncio.run(go())


def test_a_continuation_may_be_empty_make_a_call_or_never_end() -> None:
    def look() -> str:
        """Look."""
        return "rain"

    def bot(*script: object, **options: object) -> Agent:
        model = ScriptedModel(script)  # type: ignore[arg-type]
        return Agent("bot", model=model, tools=[look], on_truncated="continue", **options)  # type: ignore[arg-type]

    nothing = ModelResponse(content=Content(role="model"), finish_reason="STOP")
    empty = weft.run_sync(bot(cut_at("all of it"), nothing), "go")
    assert (empty.text, empty.truncated) == ("all of it", False)
    calls = weft.run_sync(bot(cut_at("Let me lo"), [Part(text="ok."), call("look")], "rain"), "go")
    assert calls.text == "rain"
    assert [e.text for e in calls.events if e.calls] == ["Let me look."]
    endless = weft.run_sync(bot(*[cut_at("na ")] * 3, max_steps=3), "go")
    assert (endless.text, endless.truncated) == ("na na na ", True)
    assert codes(endless) == ["WEFT508"]


@pytest.mark.parametrize("dialect", ["gemini", "anthropic", "openai-chat", "openai-responses"])
def test_json_that_was_cut_is_asked_for_again_continued_or_refused(dialect: str) -> None:
    def bot(how: How, *script: object) -> tuple[ScriptedModel, Agent]:
        model = ScriptedModel(script, dialect=dialect)  # type: ignore[arg-type]
        return model, Agent("bot", model=model, on_truncated=how).returns(Trip).writes("trip")

    half = cut_at('{"city": "Oslo", ')
    model, keeps = bot("keep", half, '{"city": "Oslo", "days": 3}')
    kept = weft.run_sync(keeps, "go")
    assert (kept.value, kept.truncated) == (Trip("Oslo", 3), False)
    assert "cut off at the token limit" in str(model.prompts[1])
    _, goes_on = bot("continue", half, '"days": 3}')
    joined = weft.run_sync(goes_on, "go")
    assert joined.value == Trip("Oslo", 3)
    assert joined.state == {"trip": {"city": "Oslo", "days": 3}}
    _, refuses = bot("error", half)
    assert weft.run_sync(refuses, "go").error is not None
    _, never = bot("keep", half, half, half)
    failed = weft.run_sync(never, "go")
    assert failed.error is not None
    assert failed.error.error_code == "invalid_output"
    assert failed.state == {}


def test_a_call_that_may_be_cut_is_not_made() -> None:
    made: list[str] = []

    def send(text: str = "hello", to: str = "everybody") -> str:
        """Send a text."""
        made.append(to)
        return "sent"

    cut = ModelResponse(
        content=Content(parts=(call("send"), call("send", text="Dear")), role="model"),
        finish_reason="MAX_TOKENS",
    )
    model = ScriptedModel([cut, call("send", text="Dear Ann", to="Ann"), "done"])
    result = weft.run_sync(Agent("bot", model=model, tools=[send]), "go")
    assert result.text == "done"
    assert made == ["everybody", "Ann"], "the first call is whole, the last may lack an argument"
    assert "was cut off at the token limit" in str(result.events[1].results[1].response)
    assert not result.truncated


SAID: JsonObject = {"type": "message", "role": "assistant"}
BODIES: dict[str, JsonObject] = {
    "gemini": {
        "candidates": [
            {
                "content": {"role": "model", "parts": [{"text": "half"}]},
                "finishReason": "MAX_TOKENS",
            }
        ]
    },
    "anthropic": {
        "role": "assistant",
        "content": [{"type": "text", "text": "half"}],
        "stop_reason": "max_tokens",
    },
    "openai-chat": {
        "choices": [
            {"message": {"role": "assistant", "content": "half"}, "finish_reason": "length"}
        ]
    },
    "openai-responses": {
        "status": "incomplete",
        "incomplete_details": {"reason": "max_output_tokens"},
        "output": [{**SAID, "content": [{"type": "output_text", "text": "half"}]}],
    },
}


@pytest.mark.parametrize("dialect", BODIES)
def test_every_dialect_says_so(dialect: str) -> None:
    response = lift(dialect, BODIES[dialect])
    model = ScriptedModel([response, "way"], dialect=dialect)
    kept = weft.run_sync(Agent("bot", model=model), "go")
    assert (kept.text, kept.truncated) == ("half", True)
    model = ScriptedModel([response, "way"], dialect=dialect)
    joined = weft.run_sync(Agent("bot", model=model, on_truncated="continue"), "go")
    assert (joined.text, joined.truncated) == ("halfway", False)
    model = ScriptedModel(["fine"], dialect=dialect)
    later = weft.run_sync(Agent("bot", model=model), "and?", session=joined.session)
    assert later.text == "fine"
    assert str(model.wires[0]).count("half") == 1


def test_what_is_put_together_is_compiled_the_same_cold() -> None:
    model = ScriptedModel([*PIECES, "bye"])  # type: ignore[list-item]
    bot = Agent("bot", model=model, on_truncated="continue", context=C.default())
    result = weft.run_sync(bot, "go")
    weft.run_sync(bot, "thanks", session=result.session)
    again = weft.Session.from_json(result.session.to_json())
    assert weft.compile(bot, session=again, message="thanks").wire == model.wires[-1]


def test_only_the_three_words_are_taken() -> None:
    with pytest.raises(DeclarationError, match="on_truncated='stop'"):
        Agent("bot", on_truncated="stop")  # type: ignore[arg-type]
    with pytest.raises(DeclarationError, match="on_truncated='contine'"):
        RunConfig(on_truncated="contine")  # type: ignore[arg-type]
