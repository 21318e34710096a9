"""What changed between two requests is said once, with its origin and its tokens."""

import dataclasses
import json
import time

from hypothesis import HealthCheck, given, settings

from tests.support.build import calls, returns, says, session, user
from tests.support.strategies import logs
from weft import Agent, Event, RunConfig, Session, compile
from weft.compiler.report import columns


def look(city: str) -> str:
    """Look something up."""
    return city


def book(city: str) -> str:
    """Book a trip."""
    return city


BOT = Agent("bot", model="gemini-flash-latest", instruction="In {city}.", tools=[look])


def test_equal_requests_have_no_difference() -> None:
    one = compile(BOT, state={"city": "Oslo"}, message="Hi")
    two = compile(BOT, state={"city": "Oslo"}, message="Hi")
    assert not one.diff(two)
    assert str(one.diff(two)) == f"the two requests are the same, {one.tokens} tokens"


def test_a_changed_variable_is_blamed_on_the_state() -> None:
    one = compile(BOT, state={"city": "Oslo"}, message="Hi")
    two = compile(BOT, state={"city": "Bergen"}, message="Hi")
    (change,) = one.diff(two).changes
    assert (change.what, change.action, str(change.origin)) == ("system", "changed", "state city")
    assert change.detail == 'line 1: "In Oslo." -> "In Bergen."'


def test_tools_are_added_removed_changed_and_reordered() -> None:
    base = compile(BOT.uses(book), message="Hi")
    fewer = compile(BOT, message="Hi")
    (gone,) = base.diff(fewer).changes
    assert (gone.action, gone.name, gone.after) == ("removed", "book", 0)
    assert gone.before == base.tokens - fewer.tokens
    (new,) = fewer.diff(base).changes
    assert (new.action, new.name, new.after) == ("added", "book", gone.before)
    turned = compile(dataclasses.replace(BOT, tools=(book, look)), message="Hi")
    (moved,) = base.diff(turned).changes
    assert (moved.action, moved.detail) == ("moved", "now in the order book, look")


def test_options_models_and_schemas_are_told() -> None:
    one = compile(dataclasses.replace(BOT, generate_config={"temperature": 0.7}), message="Hi")
    config = RunConfig(generate_config={"temperature": 0.3, "seed": 1}, model="gpt-5")
    two = compile(BOT.returns(int), message="Hi", config=config)
    told = {(c.what, c.name): (c.action, c.detail) for c in one.diff(two).changes}
    assert told["option", "temperature"] == ("changed", "0.7 -> 0.3")
    assert told["option", "seed"] == ("added", "1")
    assert told["model", ""][1] == "gemini-flash-latest (gemini) -> gpt-5 (openai-responses)"
    assert told["schema", "int"][0] == "added"


def test_another_turn_adds_items_and_changes_none() -> None:
    log = session(user("Hi", id="a"), says("bot", "Hello", id="b"), city="Oslo")
    longer = log.append(
        user("Oslo?", id="c"),
        calls("bot", "look", {"city": "Oslo"}, "c1"),
        returns("bot", "look", {"sky": "clear"}, "c1"),
    )
    one, two = compile(BOT, session=log, message="?"), compile(BOT, session=longer)
    found = one.diff(two)
    assert found.same_items == 2
    assert [(c.action, c.name) for c in found.changes] == [
        ("removed", "user"),
        ("added", "user"),
        ("added", "exchange"),
    ]
    assert sum(c.after - c.before for c in found.changes) == two.tokens - one.tokens


def test_another_message_is_one_change() -> None:
    one = compile(BOT, state={"city": "x"}, message="Hi")
    two = compile(BOT, state={"city": "x"}, message="Bye")
    (change,) = one.diff(two).changes
    assert (change.action, change.detail) == ("changed", "Hi -> Bye")
    assert str(change.origin) == "event message#0"


def test_the_text_fits_and_the_dict_is_json() -> None:
    one = compile(BOT, state={"city": "東京" * 100}, message="\x1b[31m" * 40)
    two = compile(BOT, state={"city": "大阪" * 100}, message="x" * 500)
    found = one.diff(two)
    lines = str(found).splitlines()
    assert all(columns(line) <= 100 for line in lines)
    assert all(line.isprintable() for line in lines)
    assert json.loads(json.dumps(found.to_dict()))["before"] == one.tokens


@settings(deadline=None, suppress_health_check=[HealthCheck.too_slow], max_examples=60)
@given(first=logs(), second=logs())
def test_items_of_any_two_sessions_balance(first: list[Event], second: list[Event]) -> None:
    one = compile(BOT, session=Session("s", state={"city": "x"}, events=first))
    two = compile(BOT, session=Session("s", state={"city": "x"}, events=second))
    found = one.diff(two)
    items = [change for change in found.changes if change.what == "item"]
    kept = found.same_items + sum(change.action == "changed" for change in items)
    assert kept + sum(c.action == "removed" for c in items) == len(one.prompt.items)
    assert kept + sum(c.action == "added" for c in items) == len(two.prompt.items)
    assert not compile(BOT, session=Session("s", events=first)).diff(
        compile(BOT, session=Session("s", events=first))
    )


def test_long_sessions_are_compared_in_seconds() -> None:
    log = [event for n in range(3000) for event in (user("same"), says("bot", f"{n % 7}"))]
    one = compile(BOT, session=session(*log[:-2], city="x"))
    two = compile(BOT, session=session(*log[2:], user("end"), city="x"))
    started = time.thread_time()
    assert one.diff(two)
    assert time.thread_time() - started < 60
