"""Requests are laid out to be reused, what will be is predicted, and a miss is blamed."""

import dataclasses
import json
import threading
from itertools import pairwise
from typing import Any, cast

import pytest

import weft
from tests.dialects.shapes import misfits, request_type
from tests.support.build import calls, returns, says, session, user
from weft import Agent, Event, RunConfig, Session
from weft.compiler import Compilation, caching, compile_request
from weft.compiler.caching import EVICTED, Prediction, held_against, predict
from weft.content import call_part, result_part
from weft.declare import TokenBudget
from weft.dialects.caching import without_marks
from weft.errors import DeclarationError
from weft.runtime import model_call
from weft.session import Usage
from weft.testing import ScriptedModel, usage

Wire = dict[str, Any]

RULES = "\n".join(f"Rule {number}: answer question {number} in full." for number in range(400))
"""A system text of some thousand tokens."""


def look(key: str) -> str:
    """Look a key up."""
    return key


def many_tools(count: int = 60) -> list[weft.Tool]:
    """Enough tools to be worth keeping by themselves."""
    return [weft.tool(name=f"look_{number}")(look) for number in range(count)]


def wire_of(agent: Agent, *events: Event, model: str, **options: object) -> Wire:
    config = RunConfig(model=model, generate_config=cast("Any", options))
    return cast("Wire", compile_request(agent, session=session(*events), config=config).wire)


def marks(wire: Wire) -> list[str]:
    """Where the request says that something is to be kept."""
    found = [f"tools/{i}" for i, one in enumerate(wire.get("tools", [])) if "cache_control" in one]
    if isinstance(wire.get("system"), list):
        found += [f"system/{i}" for i, one in enumerate(wire["system"]) if "cache_control" in one]
    for index, turn in enumerate(wire["messages"]):
        parts = enumerate(turn["content"]) if isinstance(turn["content"], list) else ()
        found += [f"messages/{index}/{i}" for i, part in parts if "cache_control" in part]
    return found


TALK = (user("Hi"), says("bot", "Hello"), user("How are you?", inv="2"))


def test_marks_stand_at_the_stable_system_text_and_at_the_moving_end() -> None:
    wire = wire_of(Agent("bot", instruction=RULES), *TALK, model="claude-opus-5")
    assert marks(wire) == ["system/0", "messages/2/0"]
    assert wire["messages"][2]["content"][0]["cache_control"] == {"type": "ephemeral"}
    assert misfits(wire, request_type("anthropic")) == []


def test_what_changes_stands_behind_the_mark_of_the_system_text() -> None:
    agent = Agent("bot", instruction="It is {time}.", global_instruction=RULES)
    config = RunConfig(model="claude-sonnet-4-5")
    held = Session("s", state={"time": "noon"}, events=TALK)
    compiled = compile_request(agent, session=held, config=config)
    first, second = cast("Wire", compiled.wire)["system"]
    assert first["text"].endswith("You are bot.")
    assert "cache_control" in first
    assert second == {"type": "text", "text": "\n\nIt is noon."}
    assert compiled.system == first["text"] + second["text"]
    at = second["text"].index("noon")
    assert str(compiled.origin("/system/1/text", at)) == "state time"
    assert misfits(cast("Wire", compiled.wire), request_type("anthropic")) == []


def test_marks_stand_at_the_tools_too_where_they_are_long_enough() -> None:
    agent = Agent("bot", instruction=RULES, tools=many_tools())
    wire = wire_of(agent, *TALK, model="claude-opus-5")
    assert marks(wire) == ["tools/59", "system/0", "messages/2/0"]
    assert misfits(wire, request_type("anthropic")) == []


@pytest.mark.parametrize(("model", "marked"), [("claude-opus-5", True), ("claude-opus-4-5", False)])
def test_what_is_below_the_models_minimum_is_not_marked(model: str, marked: bool) -> None:
    short = "\n".join(RULES.splitlines()[:50])  # over 512 tokens, and surely below 4,096
    assert bool(marks(wire_of(Agent("bot", instruction=short), *TALK, model=model))) is marked


def test_a_request_of_short_tokens_is_marked_from_the_minimum_on() -> None:
    numbers = json.dumps([[at * 7 % 99, at % 9, at % 5] for at in range(600)])
    log = [user("Which?"), calls("bot", "look", {"key": "a"}, "c")]
    log.append(returns("bot", "look", {"result": numbers}, "c"))
    agent = Agent("bot", tools=[look], model="claude-opus-4-5").sees(weft.C.default())
    compiled = compile_request(agent, session=session(*log))
    # every token has two letters here, so that letters tell little
    assert compiled.tokens > 4_096 > len(numbers) / 3
    assert marks(cast("Wire", compiled.wire))


def test_an_answer_of_many_calls_has_the_end_of_the_request_before_marked_too() -> None:
    keys = [f"c{number}" for number in range(15)]
    asked = Event(
        author="bot",
        content=weft.Content(parts=tuple(call_part("look", {"key": k}, id=k) for k in keys)),
        invocation_id="1",
    )
    given = Event(
        author="bot",
        content=weft.Content(
            role="user", parts=tuple(result_part("look", {"result": k}, id=k) for k in keys)
        ),
        invocation_id="1",
    )
    agent = Agent("bot", instruction=RULES, tools=many_tools())
    wire = wire_of(agent, user("All of them"), asked, given, model="claude-opus-5")
    assert marks(wire) == ["tools/59", "system/0", "messages/0/0", "messages/2/14"]
    few = wire_of(
        agent, user("One"), calls("bot", "look", {}, "a"), returns("bot", "look", {}, "a"),
        model="claude-opus-5",
    )  # fmt: skip
    assert marks(few) == ["tools/59", "system/0", "messages/2/0"]


@pytest.mark.parametrize("asked", ["1h", "5m"])
def test_how_long_to_keep_can_be_said(asked: str) -> None:
    wire = wire_of(Agent("bot", instruction=RULES), *TALK, model="claude-opus-5", cache=asked)
    held = [wire["system"][0]["cache_control"], wire["messages"][2]["content"][0]["cache_control"]]
    assert held == [{"type": "ephemeral", "ttl": asked}] * 2
    assert misfits(wire, request_type("anthropic")) == []


def test_keeping_can_be_switched_off() -> None:
    for model in ("claude-opus-5", "gpt-5"):
        config = RunConfig(model=model, generate_config={"cache": False})
        compiled = compile_request(Agent("bot", instruction=RULES), message="Hi", config=config)
        assert "cache" not in json.dumps(compiled.wire)
        assert not compiled.cached.cached


@pytest.mark.parametrize("value", ["2h", 5, "forever", {}])
def test_a_time_nobody_keeps_things_for_is_refused_where_it_is_written(value: object) -> None:
    with pytest.raises(DeclarationError, match="cache") as caught:
        Agent("bot", generate_config={"cache": value})
    assert "5m" in caught.value.hint


def test_a_time_the_model_does_not_have_is_reported() -> None:
    config = RunConfig(model="claude-opus-5", generate_config={"cache": "12h"})
    found = compile_request(Agent("bot"), message="Hi", config=config).diagnostics
    assert [(one.code, one.hint) for one in found] == [("WEFT702", 'write cache="5m" or "1h"')]


def test_marks_of_the_author_count() -> None:
    own: list[Any] = [
        {
            "type": "web_search_20250305",
            "name": "web_search",
            "cache_control": {"type": "ephemeral"},
        }
    ]
    agent = Agent(
        "bot",
        instruction=RULES,
        tools=many_tools(),
        generate_config={"extra": {"anthropic": {"tools": own}}},
    )
    wire = wire_of(agent, *TALK, model="claude-opus-5")
    assert marks(wire) == ["tools/60", "system/0", "messages/2/0"]
    wire = wire_of(agent, *TALK, model="claude-opus-5", cache="1h")
    assert wire["system"][0]["cache_control"]["ttl"] == "5m"
    assert wire["messages"][2]["content"][0]["cache_control"]["ttl"] == "5m"
    automatic = {"extra": {"anthropic": {"cache_control": {"type": "ephemeral"}}}}
    wire = wire_of(Agent("bot", instruction=RULES), *TALK, model="claude-opus-5", **automatic)
    assert marks(wire) == []


def test_a_mark_moves_on_and_breaks_nothing() -> None:
    agent = Agent("bot", model="claude-opus-5", instruction=RULES)
    held = session()
    bodies: list[Wire] = []
    for turn in range(6):
        held = held.append(user(f"Question {turn}", inv=str(turn)))
        compiled = compile_request(agent, session=held)
        assert compiled.prefix_break is None
        bodies.append(cast("Wire", compiled.wire))
        held = held.append(says("bot", f"Answer {turn}", inv=str(turn)))
    for before, after in pairwise(bodies):
        old = [without_marks(turn) for turn in before["messages"]]
        assert [without_marks(turn) for turn in after["messages"]][: len(old)] == old
        assert marks(after) == ["system/0", f"messages/{len(after['messages']) - 1}/0"]


def test_equal_requests_have_equal_hashes_however_they_came_about() -> None:
    agent = Agent("bot", model="claude-opus-5", instruction=RULES)
    grown = session()
    for event in TALK:
        grown = grown.append(event)
        stepped = compile_request(agent, session=grown)
        _ = stepped.wire
    cold = compile_request(agent, session=session(*TALK))
    assert stepped.hash == cold.hash
    assert stepped.wire == cold.wire


# OpenAI


def test_sessions_of_one_agent_name_the_prefix_they_share() -> None:
    agent = Agent("bot", instruction=RULES, tools=[look])
    one = wire_of(agent, user("Hi"), model="gpt-5")
    other = wire_of(agent, *TALK, model="gpt-5")
    assert one["prompt_cache_key"] == other["prompt_cache_key"]
    assert one["prompt_cache_key"].startswith("weft-")
    assert len(one["prompt_cache_key"]) <= 64
    changed = wire_of(agent.instruct(RULES + "!"), user("Hi"), model="gpt-5")
    assert changed["prompt_cache_key"] != one["prompt_cache_key"]
    assert misfits(one, request_type("openai-responses")) == []


@pytest.mark.parametrize("model", ["groq/llama-4", "local", "openrouter/gpt-5", "azure/gpt-5"])
def test_servers_that_only_speak_the_format_are_sent_nothing_of_it(model: str) -> None:
    wire = wire_of(Agent("bot", instruction=RULES), user("Hi"), model=model)
    assert not [key for key in wire if "cache" in key]


def test_the_newest_models_are_told_how_long() -> None:
    agent = Agent("bot", instruction=RULES)
    wire = wire_of(agent, user("Hi"), model="gpt-5.6", cache="12h")
    assert wire["prompt_cache_options"] == {"ttl": "12h"}
    assert misfits(wire, request_type("openai-responses")) == []


def test_the_newest_models_are_told_to_keep_what_stands_before_a_change() -> None:
    wire = cast("Wire", ticking(clock("gpt-5.6", instruction_changes="append"))[-1].wire)
    marked = [
        index
        for index, item in enumerate(wire["input"])
        for part in item["content"]
        if "prompt_cache_breakpoint" in part
    ]
    assert marked == [len(wire["input"]) - 2]
    assert misfits(wire, request_type("openai-responses")) == []


# Gemini


def test_what_the_cached_content_holds_is_not_sent_again() -> None:
    agent = Agent(
        "bot",
        instruction="Be brief.",
        tools=[look],
        generate_config={"extra": {"gemini": {"cachedContent": "cachedContents/1"}}},
    )
    config = RunConfig(model="gemini-3.5-flash")
    compiled = compile_request(agent, message="Hi", config=config)
    assert set(compiled.wire) == {"cachedContent", "contents"}
    assert [one.severity.value for one in compiled.diagnostics] == ["info"]


# Instructions that change


def clock(model: str, **options: object) -> Agent:
    return Agent(
        "bot",
        model=model,
        instruction="Be brief.\nIt is {time}.",
        generate_config=cast("Any", options),
    )


def at(time: str, text: str, inv: str) -> Event:
    """The user says something, and the time is another."""
    return user(text, inv=inv, actions=weft.Actions(state_delta={"time": time}))


def ticking(agent: Agent, turns: int = 4) -> list[Compilation]:
    """Requests of a session in which the time changes every turn."""
    held = session()
    requests: list[Compilation] = []
    for turn in range(turns):
        held = held.append(at(f"{turn} o'clock", f"Question {turn}", str(turn)))
        requests.append(compile_request(agent, session=held))
        held = held.append(says("bot", f"Answer {turn}", inv=str(turn)))
    return requests


SAID_LAST = "These instructions have changed. From now on:\nIt is 3 o'clock."


@pytest.mark.parametrize(
    ("model", "last"),
    [
        ("local", {"role": "system", "content": SAID_LAST}),
        ("gpt-5", {"role": "system", "content": SAID_LAST}),
        ("openai-chat/gpt-5", {"role": "system", "content": SAID_LAST}),
        (
            "claude-opus-4-8",
            {"role": "system", "content": [{"type": "text", "text": SAID_LAST}]},
        ),
    ],
)
def test_a_variable_that_changes_every_turn_costs_only_the_tail(model: str, last: Wire) -> None:
    requests = ticking(clock(model, instruction_changes="append"))
    for before, after in pairwise(requests):
        lowered = before.lowered()
        old = [entry.wire for entry in (*lowered.lead, *lowered.track.final, *lowered.lasting)]
        turns = cast("list[Wire]", after.wire[lowered.turns])
        assert [without_marks(cast("Any", turn)) for turn in turns[: len(old)]] == old
        assert before.prompt.system_text == after.prompt.system_text
        assert after.prefix_break is None
    assert cast("list[Wire]", requests[-1].wire[requests[-1].lowered().turns])[-1] == last
    assert "0 o'clock" in requests[-1].prompt.system_text
    assert "3 o'clock" in requests[-1].system


@pytest.mark.parametrize("model", ["gpt-5", "openai-chat/gpt-5", "claude-opus-4-8"])
def test_a_request_too_short_to_be_reused_is_written_anew(model: str) -> None:
    requests = ticking(clock(model))
    assert "changed" not in json.dumps(requests[-1].wire)
    assert "3 o'clock" in requests[-1].prompt.system_text


@pytest.mark.parametrize("model", ["gpt-5", "openai-chat/gpt-5", "claude-opus-4-8"])
def test_once_it_is_long_enough_what_changes_is_said_last(model: str) -> None:
    agent = clock(model)
    assert isinstance(agent.instruction, str)
    requests = ticking(agent.instruct(f"{RULES}\n{agent.instruction}"))
    assert requests[-1].prompt.system_text == requests[0].prompt.system_text
    assert json.dumps(requests[-1].wire).count("changed. From now on") == 1
    assert all(request.prefix_break is None for request in requests)


def test_a_conversation_that_grows_long_keeps_the_words_it_was_long_with() -> None:
    agent, held = clock("gpt-5"), session()
    texts: list[str] = []
    for turn in range(8):
        held = held.append(at(f"{turn} o'clock", "word " * 300 + str(turn), str(turn)))
        texts.append(compile_request(agent, session=held).prompt.system_text)
        held = held.append(says("bot", f"Answer {turn}", inv=str(turn)))
    assert texts[0] != texts[1]
    assert texts[-1] == texts[-2] == texts[-3]


@pytest.mark.parametrize("model", ["gemini-3.5-flash", "claude-sonnet-5", "groq/llama-4"])
def test_where_no_system_text_may_stand_last_the_change_is_written_in_place(model: str) -> None:
    requests = ticking(clock(model))
    assert "3 o'clock" in requests[-1].system
    assert "changed" not in json.dumps(requests[-1].wire)
    assert requests[-1].prefix_break is not None


@pytest.mark.parametrize("model", ["gemini-3.5-flash", "claude-sonnet-5", "groq/llama-4"])
def test_it_can_be_said_last_in_the_users_name_where_asked_for(model: str) -> None:
    requests = ticking(clock(model, instruction_changes="append"))
    body = json.dumps(requests[-1].wire)
    assert body.count("[instructions]") == 1
    assert "3 o'clock" in body[body.index("[instructions]") :]
    assert all(request.prefix_break is None for request in requests)


def test_a_change_can_be_written_in_place_where_asked_for() -> None:
    requests = ticking(clock("local", instruction_changes="rewrite"))
    assert "3 o'clock" in requests[-1].system
    assert "changed" not in json.dumps(requests[-1].wire)
    with pytest.raises(DeclarationError, match="instruction_changes"):
        clock("local", instruction_changes="sometimes")


def test_what_changed_knows_where_it_came_from() -> None:
    compiled = ticking(clock("local"))[-1]
    turns = cast("list[Wire]", compiled.wire["messages"])
    place, text = f"/messages/{len(turns) - 1}/content", turns[-1]["content"]
    assert str(compiled.origin(place, text.index("3"))) == "state time"
    assert compiled.origin(place, text.index("It")).name == "instruction"


def test_the_request_is_the_same_when_it_is_rebuilt_from_the_log() -> None:
    requests = ticking(clock("local"))
    for before, after in pairwise(requests):
        assert after.previous is not None
        assert after.previous.hash == before.hash


def test_what_a_provider_says_differently_is_said_last() -> None:
    times = iter(["noon", "one", "two"])
    model = ScriptedModel(["a", "b", "c"], name="local", dialect="openai-chat")
    agent = Agent("bot", model=model, instruction=lambda context: f"It is {next(times)}.")
    held = Session("s")
    for question in ("one", "two", "three"):
        held = weft.run_sync(agent, question, session=held).session
    assert [wire["messages"][0] for wire in cast("list[Wire]", model.wires)] == [
        {"role": "system", "content": "You are bot.\n\nIt is noon."}
    ] * 3
    last = cast("list[Wire]", model.wires[-1]["messages"])[-1]
    assert last["content"].endswith("It is two.")


def test_what_belongs_to_one_invocation_is_always_said_last() -> None:
    agent = Agent("bot", model="local", instruction="Order {temp:order}.")
    compiled = compile_request(agent, message="Hi", state={"temp:order": "7"})
    assert compiled.prompt.system_text == "You are bot."
    assert compiled.system == "You are bot.\n\nOrder 7."
    turns = cast("list[Wire]", compiled.wire["messages"])
    assert turns[-1] == {"role": "system", "content": "Order 7."}


def test_a_budget_counts_what_is_said_last() -> None:
    agent = dataclasses.replace(clock("local"), context_compressor=TokenBudget(90))
    requests = ticking(agent, 12)
    assert max(compiled.tokens for compiled in requests) <= 90
    assert any(compiled.prompt.notes for compiled in requests)


# Prediction


def test_what_will_be_reused_is_predicted_and_explained() -> None:
    agent = Agent("bot", model="claude-opus-5", instruction=RULES)
    first = compile_request(agent, session=session(*TALK[:1]))
    assert first.cached.cached == 0
    assert first.cached.blame == "the first request of this agent in the session"
    second = compile_request(agent, session=session(*TALK))
    assert second.cached.cached == first.tokens
    assert second.cached.possible == first.tokens
    assert not second.cached.blame
    lines = [line for line in second.explain().to_text().splitlines() if "cached" in line]
    assert lines[0].split()[:3] == ["cached", "about", f"{first.tokens:,}"]
    assert f"{first.tokens:,} of {second.tokens:,} tokens" in second.explain().to_html()


def test_the_prediction_counts_as_the_provider_did() -> None:
    agent = Agent("bot", model="claude-opus-5", instruction=RULES)
    told = says("bot", "Hello", usage=Usage(prompt_token_count=5_000))
    second = compile_request(agent, session=session(user("Hi"), told, TALK[2]))
    assert second.cached.cached == 5_000


def test_a_short_prefix_is_not_predicted() -> None:
    found = compile_request(Agent("bot", model="gpt-5"), session=session(*TALK)).cached
    assert (found.cached, found.blame) == (0, "a prefix of fewer than 1,024 tokens is not kept")


def test_a_changed_system_text_is_blamed_but_what_stands_before_it_is_reused() -> None:
    agent = Agent(
        "bot", model="claude-sonnet-4-5", instruction="It is {time}.", global_instruction=RULES
    )
    events = (at("noon", "Hi", "1"), says("bot", "Hello"), at("one", "And now?", "2"))
    found = compile_request(agent, session=session(*events)).cached
    assert 0 < found.cached < found.possible
    assert "the system text changed at /system/1/text" in found.blame
    assert str(found.origin) == "state time"


def test_what_was_kept_too_long_ago_is_not_predicted() -> None:
    agent = Agent("bot", model="claude-opus-5", instruction=RULES)
    told = says("bot", "Hello", timestamp=1_000.0)
    found = compile_request(
        agent, session=session(TALK[0], told, user("Again?", inv="2", timestamp=1_400.0))
    ).cached
    assert (found.cached, found.blame) == (0, "it was kept for 5m, 400 s ago")
    soon = user("Again?", inv="2", timestamp=1_200.0)
    assert compile_request(agent, session=session(TALK[0], told, soon)).cached.cached > 0


def test_an_option_that_the_provider_compares_is_blamed() -> None:
    one = RunConfig(model="gpt-5", generate_config={"thinking": {"effort": "low"}})
    agent = Agent("bot", instruction=RULES)
    before = compile_request(agent, session=session(*TALK[:1]), config=one)
    after = compile_request(
        agent,
        session=session(*TALK),
        config=RunConfig(model="gpt-5", generate_config={"thinking": {"effort": "high"}}),
    )
    after.follows(before)
    assert (after.cached.cached, after.cached.blame) == (0, "`reasoning` changed")


def test_the_engine_in_the_box_is_predicted_to_the_token() -> None:
    told = Usage(prompt_token_count=26, candidates_token_count=12)
    for noted, exact in ({"known": 36}, True), ({}, False):
        said = says("bot", "Hello!", usage=told, custom_metadata={"weft": noted})
        events = (user("Say hello."), said, user("And now?", inv="2"))
        found = compile_request(Agent("bot", model="local"), session=session(*events)).cached
        assert (found.cached, found.exact) == (36 if exact else 26 + 12 - 1, exact)


def letters_of(wire: object) -> list[int]:
    """A reading of a request, a token a letter, as a template would write it."""
    turns = cast("list[Wire]", cast("Wire", wire)["messages"])
    text = "".join(f"<{turn['role']}>{turn['content']}" for turn in turns)
    return list(map(ord, f"{text}<assistant>"))


def test_two_readings_of_the_model_itself_leave_nothing_to_estimate() -> None:
    first, second, third = ticking(clock("local"), 3)
    first.known = len(letters_of(first.wire)) + 5
    second.follows(first)
    found = predict(second, letters_of)
    assert (found.cached, found.exact) == (first.known, True)
    third.follows(second)
    found = predict(third, letters_of)
    kept = letters_of({"messages": cast("Wire", second.wire)["messages"][:-1]})
    assert found.cached == len(kept) - len("assistant>")
    assert held_against(found, Usage(cached_content_token_count=found.cached)) is None


@pytest.mark.parametrize(
    ("prediction", "read", "missed"),
    [
        (Prediction(5_000, 6_000, 5_000), 4_900, None),
        (Prediction(5_000, 6_000, 5_000), 0, 5_000),
        (Prediction(5_000, 6_000, 5_000), None, None),
        (Prediction(37, 60, 37, exact=True), 37, None),
        (Prediction(37, 60, 37, exact=True), 36, 1),
        (Prediction(1_000, 6_000, 5_000, blame="the tools changed at /tools"), 1_000, 4_000),
    ],
)
def test_usage_is_held_against_the_prediction(
    prediction: Prediction, read: int | None, missed: int | None
) -> None:
    miss = held_against(prediction, Usage(cached_content_token_count=read))
    assert (miss.tokens if miss is not None else None) == missed
    if miss is not None:
        assert miss.blame == (prediction.blame or EVICTED)


def answers(model: ScriptedModel) -> list[Event]:
    """Three turns with a model that reports what it reused."""
    agent = Agent("bot", model=model, instruction=RULES)
    held = Session("s")
    for question in ("one", "two", "three"):
        held = weft.run_sync(agent, question, session=held).session
    return [event for event in held.events if event.author == "bot"]


def test_a_miss_is_recorded_with_the_answer() -> None:
    told = [
        usage("a", prompt=6_000, output=5, cached=0),
        usage("b", prompt=6_020, output=5, cached=6_000),
        usage("c", prompt=6_040, output=5, cached=0),
    ]
    first, second, third = answers(ScriptedModel(told, name="claude-opus-5", dialect="anthropic"))
    assert first.custom_metadata is None
    assert second.custom_metadata is None
    assert third.custom_metadata == {
        "weft": {"cacheMiss": {"tokens": 6_020, "predicted": 6_020, "read": 0, "blame": EVICTED}}
    }


@pytest.mark.parametrize("most", [20_000, 1])
def test_a_long_log_is_looked_into_beside_the_event_loop(
    most: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    """As in a new process: the request before is not at hand, and the log has many events."""
    threads: list[str] = []

    def looked(*args: Any, **kwargs: Any) -> object:
        threads.append(threading.current_thread().name)
        return caching.watch(*args, **kwargs)

    monkeypatch.setattr(model_call, "watch", looked)
    monkeypatch.setattr(model_call, "LONG", 2)
    monkeypatch.setattr(caching, "MOST_REBUILT", most)
    told = [usage(text, prompt=6_000, output=5, cached=0) for text in "abc"]
    model = ScriptedModel(told, name="claude-opus-5", dialect="anthropic")
    agent = Agent("bot", model=model, instruction=RULES)
    once = weft.run_sync(agent, "one").session
    again = weft.run_sync(agent, "two", session=Session.from_json(once.to_json())).session
    last = weft.run_sync(agent, "three", session=again).session
    first, second, third = threads
    assert first == threading.current_thread().name
    assert second != first, "a miss of a long log"
    assert third != first
    metadata = [event.custom_metadata for event in last.events if event.author == "bot"]
    assert metadata[0] is None
    # where it is too long to be compiled once more, the next request is held against this one
    assert [one is not None for one in metadata[1:]] == [most > 1, True]


def test_an_answer_that_says_nothing_of_reuse_is_not_held_against_anything() -> None:
    told = [usage(text, prompt=6_000, output=5) for text in "abc"]
    model = ScriptedModel(told, name="claude-opus-5", dialect="anthropic")
    assert [event.custom_metadata for event in answers(model)] == [None] * 3


def test_the_block_that_broke_the_prefix_is_blamed_in_the_log() -> None:
    told = [usage(text, prompt=6_000, output=5, cached=0) for text in "ab"]
    model = ScriptedModel(told, name="claude-sonnet-4-5", dialect="anthropic")
    agent = Agent("bot", model=model, instruction="It is {time}.\n" + RULES)
    held = Session("s")
    for time in ("noon", "one"):
        held = weft.run_sync(agent, "Hi", session=held, state={"time": time}).session
    metadata = held.events[-1].custom_metadata
    assert metadata is not None
    miss = cast("Wire", metadata["weft"])["cacheMiss"]
    assert miss["blame"].startswith("the system text changed at ")
    assert miss["origin"] == "state time"
    assert miss["tokens"] == 6_000


@pytest.mark.parametrize("model", ["gpt-5.6", "claude-opus-5", "gemini-3.5-flash", "local"])
def test_a_request_spelled_for_another_provider_carries_no_marks(model: str) -> None:
    compiled = ticking(dataclasses.replace(clock(model), global_instruction=RULES))[-1]
    for dialect in ("anthropic", "openai-chat", "openai-responses", "gemini"):
        if not compiled.dialect.startswith(dialect.split("-")[0]):
            assert "cache" not in json.dumps(compiled.lower(dialect))
