"""What is no longer fresh is dropped, marked or compacted, and its call keeps a result."""

import itertools
import json

import pytest

import weft
from weft import Agent, C, Event, RunConfig, Runner, Session
from weft.content import Content, FunctionCall, FunctionResponse, Part
from weft.errors import CompileError, DeclarationError
from weft.testing import ScriptedModel, call

DIALECTS = ("gemini", "anthropic", "openai-chat", "openai-responses")


def price(item: str) -> dict[str, object]:
    """What something costs."""
    return {"eur": 40, "item": item}


async def _talk(agent: Agent, *messages: str) -> None:
    runner = Runner(agent)
    for message in messages:
        async for event in runner.run(user_id="u", session_id="s", message=message):
            assert not event.error_code, event.error_message


@pytest.mark.parametrize("dialect", DIALECTS)
async def test_a_stale_result_is_dropped_and_its_call_keeps_a_word(dialect: str) -> None:
    script = [call("price", item="tea"), "40 euros", "no idea"]
    model = ScriptedModel(script, dialect=dialect)
    await _talk(
        Agent("a", model=model, tools=[price]).sees(C.default().fresh(turns=1)), "how much?", "now?"
    )
    fresh, stale = (json.dumps(wire) for wire in model.wires[1:])
    assert "eur" in fresh
    assert '"eur' not in stale
    assert "[dropped: older than 1 turn; call price again if it matters]" in stale


async def test_a_stale_result_is_marked_in_words_that_stay_the_same() -> None:
    model = ScriptedModel([call("price", item="tea"), "40", "41?", "42?"])
    agent = Agent("a", model=model, tools=[price]).sees(C.default().fresh(turns=1, stale="warn"))
    await _talk(agent, "how much?", "now?", "and now?")
    contents = [wire["contents"] for wire in model.wires]
    assert "older than 1 turn, it may no longer hold" in json.dumps(contents[2])
    assert isinstance(contents[2], list)
    assert isinstance(contents[3], list)
    assert contents[3][: len(contents[2])] == contents[2]


async def test_a_stale_result_becomes_a_handle_that_can_be_recalled() -> None:
    def rows() -> str:
        """Rows."""
        return "\n".join(f"row {index} of the long table with some words" for index in range(200))

    model = ScriptedModel([call("rows"), "many", "gone"])
    agent = Agent("a", model=model, tools=[rows]).sees(C.default().fresh(turns=1, stale="compact"))
    await _talk(agent, "list", "now?")
    first, last = json.dumps(model.wires[1]), json.dumps(model.wires[2])
    assert "[handle " in last
    assert len(last) < len(first) / 3
    assert '"recall"' in last


def _session(*ages: float, now: float = 1_000_000.0) -> Session:
    events: list[Event] = []
    for index, age in enumerate(ages):
        called = FunctionCall(name="price", args={"item": str(index)}, id=f"c{index}")
        answer = FunctionResponse(name="price", response={"eur": index}, id=f"c{index}")
        for author, content in (
            ("user", Content(parts=(Part(text=f"q{index}"),), role="user")),
            ("a", Content(parts=(Part(function_call=called),), role="model")),
            ("a", Content(parts=(Part(function_response=answer),), role="user")),
            ("a", Content(parts=(Part(text="ok"),), role="model")),
        ):
            event = Event(
                author=author,
                content=content,
                invocation_id=f"i{index}",
                id=f"e{len(events)}",
                timestamp=now - age,
            )
            events.append(event)
    return Session("s", events=events)


def test_the_clock_is_the_newest_event() -> None:
    agent = Agent("a", tools=[price]).sees(C.default().fresh(seconds=60))
    made = weft.compile(agent, session=_session(500, 30, 0), message="now?")
    assert str(made.wire).count("older than 60 seconds") == 1
    assert '"eur":1' in str(made.wire)
    assert '"eur":0' not in str(made.wire)


def test_several_become_stale_at_once_and_none_is_kept_too_long() -> None:
    agent = Agent("a", tools=[price]).sees(C.default().fresh(turns=8))
    ages = [float(100 - index) for index in range(30)]
    dropped: list[int] = []
    for turns in range(1, 30):
        made = weft.compile(agent, session=_session(*ages[:turns]), message="now?")
        dropped.append(str(made.wire).count("[dropped: older than 8 turns"))
    assert all(one >= turns - 7 for turns, one in enumerate(dropped, start=1))
    moves = sum(one != other for one, other in itertools.pairwise(dropped))
    assert moves <= 12


def test_what_is_missing_or_contradicts_is_told_and_strictly_refused() -> None:
    session = _session(9, 5)
    again = FunctionResponse(name="price", response={"eur": 9}, id="d")
    called = FunctionCall(name="price", args={"item": "1"}, id="d")
    session = session.append(
        Event(author="a", content=Content(parts=(Part(function_call=called),), role="model")),
        Event(author="a", content=Content(parts=(Part(function_response=again),), role="user")),
    )
    policy = (C.default() + C.state("plan")).validate("completeness", "contradictions")
    agent = Agent("a", tools=[price]).sees(policy)
    made = weft.compile(agent, session=session, message="now?")
    codes = [d.code for d in made.diagnostics]
    assert "WEFT603" in codes
    assert "WEFT604" in codes
    with pytest.raises(CompileError, match="plan"):
        weft.compile(agent, session=session, message="now?", config=RunConfig(strict=True))


def test_many_words_for_little() -> None:
    agent = Agent("a").sees(C.default().validate("density"))
    said = "the same old story told in the very same old words again\n" * 80
    made = weft.compile(agent, message=said)
    assert [d.code for d in made.diagnostics if d.code == "WEFT605"] == ["WEFT605"]
    other = " ".join(f"word{index} says{index * 7}" for index in range(500))
    assert "WEFT605" not in [d.code for d in weft.compile(agent, message=other).diagnostics]


async def test_a_model_looks_for_contradictions_once() -> None:
    found = {"contradictions": [{"about": "the tea", "first": "hot", "second": "cold"}]}
    judge = ScriptedModel([json.dumps(found)], name="judge")
    model = ScriptedModel(["one"])
    policy = C.default().validate("contradictions", model=judge)
    agent = Agent("a", model=model).sees(policy)
    result = await weft.run(agent, "the tea is hot, and the tea is cold")
    assert result.text == "one"
    assert judge.calls == 1
    made = weft.compile(agent, session=result.session.before(2))
    told = [d.message for d in made.diagnostics if d.code == "WEFT604"]
    assert told == ["the tea: `hot` and `cold`"]


def test_a_model_that_nobody_asks_is_refused() -> None:
    with pytest.raises(DeclarationError, match="asked by nobody"):
        C.default().validate("density", model="gpt-5-mini")
