"""A run warns when its budget is nearly spent, and stops cleanly when it is."""

import logging

import msgspec
import pytest

import weft
from weft import Agent, C, CallbackContext, Plugin, RunBudget, RunConfig, Runner
from weft.content import Part
from weft.errors import DeclarationError, UsageError
from weft.ir import Prompt
from weft.runtime.result import Result
from weft.session import Event
from weft.testing import ScriptedModel, call, usage


class Clock:
    """A clock that only moves where a test moves it."""

    now = 1000.0

    def monotonic(self) -> float:
        return self.now


def look(q: str = "") -> str:
    """Look something up."""
    return f"found {q}"


def steps(count: int, *, prompt: int = 100, output: int = 50) -> list[object]:
    """So many calls with their cost, then an answer."""
    made: list[object] = [
        usage(call("look", q=str(one)), prompt=prompt, output=output) for one in range(count)
    ]
    return [*made, usage("done", prompt=prompt, output=output)]


async def run(
    script: list[object], budget: RunBudget, **more: object
) -> tuple[Result, ScriptedModel]:
    name = str(more.pop("name", "scripted"))
    model = ScriptedModel(script, name=name)  # type: ignore[arg-type]
    agent = Agent("a", model=model, tools=[look])
    result = await weft.run(agent, "go", config=RunConfig(budget=budget))
    return result, model


async def test_a_run_stops_before_the_call_for_which_no_tokens_are_left() -> None:
    result, model = await run(steps(9), RunBudget(tokens=400))
    assert len(model.prompts) == 3
    assert result.error is not None
    assert result.error.error_code == "run_budget"
    assert "400 tokens" in str(result.error.error_message)
    assert "450 tokens, 3 model calls" in str(result.error.error_message)
    results = [event for event in result.events if event.results]
    assert len(results) == 3, "the tools of the last call ran to their end"


async def test_it_warns_once_at_eighty_percent(caplog: pytest.LogCaptureFixture) -> None:
    with caplog.at_level(logging.WARNING, "weft"):
        result, _ = await run(steps(9), RunBudget(tokens=1000))
    assert caplog.text.count("WEFT505") == 1
    assert [one.code for one in result.diagnostics] == ["WEFT505"]
    assert "900 tokens" in result.diagnostics[0].message
    held = [event for event in result.events if "runBudget" in str(event.custom_metadata)]
    assert len(held) == 1


async def test_a_run_within_its_budget_says_nothing() -> None:
    result, _ = await run(steps(2), RunBudget(tokens=10_000, steps=9, seconds=60))
    assert result.text == "done"
    assert result.diagnostics == ()


async def test_steps_are_model_calls() -> None:
    result, model = await run(steps(9), RunBudget(steps=2))
    assert len(model.prompts) == 2
    assert result.error is not None
    assert "2 model calls" in str(result.error.error_message)


async def test_seconds_are_those_of_the_clock_and_no_call_is_cut(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    clock = Clock()
    monkeypatch.setattr("weft.runtime.costs.time", clock)

    def thinks(prompt: Prompt) -> Part:
        clock.now += 10
        return call("look", q="1")

    result, model = await run([thinks, "done"], RunBudget(seconds=5))
    assert len(model.prompts) == 1
    assert any(event.results for event in result.events)
    assert result.error is not None
    assert result.error.error_code == "run_budget"


async def test_tokens_are_estimated_where_the_provider_reports_none() -> None:
    result, model = await run(
        [call("look", q="1"), call("look", q="2"), "done"], RunBudget(tokens=5)
    )
    assert len(model.prompts) == 1
    assert result.error is not None


async def test_money_is_counted_at_the_models_price_with_cached_tokens_at_theirs() -> None:
    script: list[object] = [
        usage(call("look", q="1"), prompt=1_000_000, output=0, cached=1_000_000),
        usage("done", prompt=1_000_000, output=0),
    ]
    result, model = await run(script, RunBudget(money=100), name="gpt-4.1")
    assert result.error is None
    costs = [
        event.custom_metadata["weft"]["spent"]["money"]  # type: ignore[index,call-overload]
        for event in result.events
        if event.provenance.spent is not None
    ]
    assert costs == [pytest.approx(0.5), pytest.approx(2.0)]
    stopped, model = await run(list(script), RunBudget(money=0.4), name="gpt-4.1")
    assert len(model.prompts) == 1
    assert stopped.error is not None
    assert "$0.5000" in str(stopped.error.error_message)


async def test_a_model_without_a_price_is_refused_before_anything_runs() -> None:
    with pytest.raises(UsageError, match="nobody knows what `scripted` costs") as refused:
        await run(["done"], RunBudget(money=1.0))
    assert refused.value.hint.endswith("for newer prices: pip install -U genai-prices")


async def test_a_tool_that_is_an_agent_shares_the_budget() -> None:
    inner = Agent("inner", model=ScriptedModel(steps(5)), tools=[look])  # type: ignore[arg-type]
    outer = ScriptedModel([usage(call("inner", request="go"), prompt=100, output=50), "done"])
    agent = Agent("outer", model=outer, tools=[inner])
    result = await weft.run(agent, "go", config=RunConfig(budget=RunBudget(tokens=400)))
    assert len(outer.prompts) == 1
    assert result.error is not None
    assert result.error.error_code == "run_budget"
    assert result.error.author == "outer"


async def test_branches_share_the_budget() -> None:
    def branch(name: str) -> Agent:
        return Agent(name, model=ScriptedModel(steps(20)), tools=[look])  # type: ignore[arg-type]

    left, right = branch("left"), branch("right")
    result = await weft.run(left | right, "go", config=RunConfig(budget=RunBudget(steps=6)))
    asked = sum(len(one.model.prompts) for one in (left, right))  # type: ignore[union-attr]
    assert asked == 6
    assert result.error is not None


async def test_a_resumed_run_knows_what_was_spent() -> None:
    model = ScriptedModel(steps(9))  # type: ignore[arg-type]
    runner = Runner(Agent("a", model=model, tools=[look]))
    await runner.run(message="go", session_id="s", config=RunConfig(budget=RunBudget(tokens=400)))
    again = await runner.resume(session_id="s", config=RunConfig(budget=RunBudget(tokens=450)))
    assert len(model.prompts) == 3
    assert again.error is not None
    assert again.error.error_code == "run_budget"
    more = await runner.resume(session_id="s", config=RunConfig(budget=RunBudget(tokens=9000)))
    assert more.text == "done"


async def test_seconds_of_an_earlier_stretch_count_and_those_in_between_do_not(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    clock = Clock()
    monkeypatch.setattr("weft.runtime.costs.time", clock)

    class Stamp(Plugin):
        def on_event(self, ctx: CallbackContext, event: Event) -> Event:
            return msgspec.structs.replace(event, timestamp=clock.now)

    def slow(q: str) -> str:
        """Look for a long time."""
        clock.now += 2
        return q

    def thinks(prompt: Prompt) -> Part:
        clock.now += 10
        return call("slow", q="1")

    agent = Agent("a", model=ScriptedModel([thinks, "done"]), tools=[slow])
    runner = Runner(agent, plugins=[Stamp()])

    async def within(seconds: float, *, first: bool = False) -> Result:
        clock.now += 1000
        config = RunConfig(budget=RunBudget(seconds=seconds))
        if first:
            return await runner.run(message="go", session_id="s", config=config)
        return await runner.resume(session_id="s", config=config)

    for most in (5, 11, 12):
        stopped = await within(most, first=most == 5)
        assert stopped.error is not None
        assert "1 model call, 12.0 s" in str(stopped.error.error_message)
    assert (await within(12.5)).text == "done"


async def test_what_a_policy_asks_a_model_for_counts_too() -> None:
    words = "The code of trip 1 is QX-177. " + "so " * 260
    model = ScriptedModel(
        {
            "desk": [usage(words, prompt=10, output=5)] * 5,
            "summarizer": [usage("It is QX-177.", prompt=1000, output=10)] * 5,
        },
        name="gpt-4.1",
        dialect="openai-chat",
    )
    policy = C.default().budget(500, overflow="summarize", reserve=0)
    runner = Runner(Agent("desk", model=model).sees(policy))
    config = RunConfig(budget=RunBudget(tokens=900))
    for _ in range(2):
        assert (await runner.run(message="Tell me.", session_id="s", config=config)).error is None
    result = await runner.run(message="Once more?", session_id="s", config=config)
    asked = [prompt.agent for prompt in model.prompts]
    assert "summarizer" in asked
    assert result.diagnostics != ()
    assert "1,025 tokens, 2 model calls" in result.diagnostics[0].message


async def test_the_next_message_begins_with_a_whole_budget() -> None:
    model = ScriptedModel(steps(0) + steps(0))  # type: ignore[arg-type]
    runner = Runner(
        Agent("a", model=model).sees(C.default()), config=RunConfig(budget=RunBudget(steps=1))
    )
    for _ in range(2):
        result = await runner.run(message="go", session_id="s")
        assert result.text == "done"


@pytest.mark.parametrize(
    "wrong",
    [{}, {"tokens": 0}, {"tokens": 1.5}, {"steps": True}, {"seconds": -1}, {"money": "1"}],
)
def test_a_budget_that_makes_no_sense_is_refused(wrong: dict[str, object]) -> None:
    with pytest.raises(DeclarationError, match="RunBudget"):
        RunBudget(**wrong)  # type: ignore[arg-type]


def test_what_is_no_run_budget_is_refused() -> None:
    with pytest.raises(DeclarationError, match="is not a run budget"):
        RunConfig(budget=4000)  # type: ignore[arg-type]
