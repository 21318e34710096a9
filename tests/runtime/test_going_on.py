"""A run that goes on with a session value shares its log, and costs what it adds."""

import asyncio

import pytest

import weft
from tests.support.build import make_event
from weft import Agent, Runner, Session
from weft.runtime.program import AgentBindings
from weft.session import MemoryStore, SessionKey
from weft.testing import ScriptedModel, call

KEY = SessionKey("bot", "user", "s")


def texts(session: Session) -> list[str]:
    return [event.text for event in session.events]


async def test_a_run_that_goes_on_shares_the_log_and_what_was_derived_from_it() -> None:
    bot = Agent("bot", model=ScriptedModel(["one", "two"]), instruction="Be brief.")
    first = await weft.run(bot, "a")
    second = await weft.run(bot, "b", session=first.session)
    assert second.session.events.memo is first.session.events.memo
    assert texts(second.session) == ["a", "one", "b", "two"]
    assert texts(first.session) == ["a", "one"]


async def test_runs_that_go_on_from_one_value_do_not_see_each_other() -> None:
    bot = Agent("bot", model=ScriptedModel(["one", "two", "two"]), instruction="Be brief.")
    first = (await weft.run(bot, "a", state={"n": "1"})).session
    left, right = await asyncio.gather(
        weft.run(bot, "b", session=first, state={"n": "2"}), weft.run(bot, "c", session=first)
    )
    assert texts(left.session) == ["a", "one", "b", "two"]
    assert texts(right.session) == ["a", "one", "c", "two"]
    assert (left.session.state["n"], right.session.state["n"], first.state["n"]) == ("2", "1", "1")


async def test_the_request_is_the_one_that_a_log_of_its_own_gives() -> None:
    model = ScriptedModel([call("get", city="Oslo"), "sunny", "rainy"])

    def get(city: str) -> str:
        """Weather of a city."""
        return f"fine in {city}"

    bot = Agent("bot", model=model, instruction="You know {topic}.", tools=[get])
    first = (await weft.run(bot, "and Oslo?", state={"topic": "weather"})).session
    again = Session.from_json(first.to_json())
    await weft.run(bot, "and Rome?", session=first)
    apart = ScriptedModel(["rainy"])
    await weft.run(
        Agent("bot", model=apart, instruction="You know {topic}.", tools=[get]),
        "and Rome?",
        session=again,
    )
    assert model.wires[-1] == apart.wires[-1]


@pytest.mark.parametrize("partial", [False, True])
async def test_what_is_never_stored_is_not_taken_over(partial: bool) -> None:
    odd = (
        make_event("bot", "yes", inv="i1", partial=True)
        if partial
        else make_event("bot", "yes", inv="i1", writes={"temp:x": "1"})
    )
    value = Session(
        "s", state={"a": "1"}, events=[make_event("user", "no?", inv="i1", writes={"b": "2"}), odd]
    )
    store = MemoryStore()
    session = await store.take(KEY, value)
    assert session.events.memo is not value.events.memo
    assert texts(session) == (["no?"] if partial else ["no?", "yes"])
    assert session.state == {"a": "1", "b": "2"}
    held = await store.get(KEY)
    assert held is not None
    assert held.state == session.state


async def test_state_of_the_user_and_the_app_is_shared_with_other_sessions() -> None:
    value = Session(
        "s",
        state={"a": "1"},
        events=[make_event("user", "x", inv="i1", writes={"user:u": "2", "b": "3"})],
    )
    store = MemoryStore()
    session = await store.take(KEY, value)
    assert session.state == {"a": "1", "user:u": "2", "b": "3"}
    held = await store.get(KEY)
    assert held is not None
    assert (held.state, held.events) == (session.state, value.events)
    other = await store.create(SessionKey("bot", "user", "t"))
    assert other.state == {"user:u": "2"}


async def test_what_was_learned_of_a_tool_outlasts_the_runner() -> None:
    def get(city: str) -> str:
        """Weather of a city."""
        return city

    bot = Agent("bot", model=ScriptedModel([call("get", city="Oslo"), "ok"]), tools=[get])
    await Runner(bot).run(message="hi")
    assert AgentBindings(bot, ()).tools["get"] is AgentBindings(bot, ()).tools["get"]
    other = bot.instruct("Be brief.")
    assert AgentBindings(other, ()).tools["get"] is not AgentBindings(bot, ()).tools["get"]
