"""What a request shares with the one before it, found again or kept, is the same."""

import pytest

import weft
from weft import Actions, Agent, C, Content, Event, Part, Session
from weft.content import call_part, result_part
from weft.declare import Policy

MODELS = ("gemini-2.5-flash", "claude-sonnet-4-5", "gpt-5", "openrouter/some-model")


def get_weather(city: str) -> str:
    """Weather of a city."""
    return city


def turn_back(why: str) -> str:
    """Go back where you came from."""
    return why


def turn(number: int) -> list[Event]:
    """A question, a call with its result, and an answer."""
    said = [
        ("user", "user", Part(text=f"Question {number}: " + "how is it there? " * 9)),
        ("bot", "model", call_part("get_weather", {"city": "Århus"}, id=f"c{number}")),
        ("bot", "user", result_part("get_weather", {"t": number}, id=f"c{number}")),
        ("bot", "model", Part(text=f"Answer {number}: " + "it is sunny. " * 9)),
    ]
    return [
        Event(author=author, invocation_id=f"i{number}", content=Content(parts=(part,), role=role))
        for author, role, part in said
    ]


@pytest.mark.parametrize("model", MODELS)
def test_the_prefix_of_a_growing_session_is_that_of_one_read_anew(model: str) -> None:
    agent = Agent("bot", model=model, instruction="Be brief.", tools=[get_weather])
    session = Session("s")
    for number in range(8):
        session = session.append(*turn(number)[:1])
        warm = weft.compile(agent, session=session)
        cold = weft.compile(agent, session=Session("s", events=list(session.events)))
        assert warm.wire == cold.wire
        assert warm.tokens == cold.tokens
        assert warm.stable_prefix == cold.stable_prefix
        assert warm.cached == cold.cached
        assert warm.prefix_break == cold.prefix_break
        session = session.append(*turn(number)[1:])
    assert warm.stable_prefix.bytes > 1_000
    assert warm.stable_prefix.turns > 10


def test_a_head_that_changes_is_counted_again() -> None:
    short = Agent("bot", model="gpt-5", instruction="You know {topic}.", tools=[get_weather])
    session = Session("s", state={"topic": "rain"}, events=turn(0))
    before = weft.compile(short, session=session, message="and now?")
    assert before.tokens == weft.compile(short, session=session, message="and now?").tokens
    after = weft.compile(short, session=session, message="and now?", state={"topic": "rain " * 50})
    assert after.tokens - before.tokens > 40
    other = weft.compile(short.uses(turn_back), session=session, message="and now?")
    assert other.tokens > before.tokens


@pytest.mark.parametrize("policy", [C.default(), C.default().fence()], ids=["plain", "fenced"])
def test_a_change_that_is_said_last_moves_and_breaks_nothing(policy: Policy) -> None:
    said = [
        ("user", "user", Part(text="How is it there? " * 400), {}),
        ("bot", "model", call_part("get_weather", {"city": "Århus"}, id="c0"), {}),
        ("helper", "model", Part(text="go on"), {"intent": "a long way to go, " * 60}),
        ("bot", "model", Part(text="ok"), {}),
    ]
    events = [
        Event(
            author=author, invocation_id=f"i{at // 2}", id=f"e{at}", timestamp=float(at),
            content=Content(role=role, parts=(part,)), actions=Actions(state_delta=delta),
        )
        for at, (author, role, part, delta) in enumerate(said)
    ]  # fmt: skip
    agent = Agent(
        "bot", model="gpt-5", tools=[get_weather], instruction="The intent is {intent?}."
    ).sees(policy)
    before, after = (
        weft.compile(agent, session=Session("s", events=events[:length])) for length in (3, 4)
    )
    assert "These instructions have changed" in str(before.wire["input"][-1])
    assert "These instructions have changed" in str(after.wire["input"][-1])
    assert len(after.wire["input"]) > len(before.wire["input"])
    assert after.prefix_break is None
