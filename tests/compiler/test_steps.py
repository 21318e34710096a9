"""What a step takes over from the one before is right, and what was given out stays as it was."""

import json
import random
import sys
import threading

import pytest
from hypothesis import HealthCheck, given, settings

from tests.support.build import calls, returns, says, session, user
from tests.support.strategies import logs
from tests.support.tools import look
from weft import Agent, C, Event, RunConfig, Session, TokenBudget
from weft.compiler import Compilation
from weft.compiler import compile_request as compile
from weft.compiler.incremental import Thread
from weft.declare import Policy
from weft.dialects import DIALECTS
from weft.errors import LoweringError
from weft.values import Json

MODELS = {
    "gemini": "gemini-flash-latest",
    "anthropic": "claude-sonnet-4-5",
    "openai-chat": "openrouter/some-model",
    "openai-responses": "gpt-5",
}


def bot(dialect: str, **more: object) -> Agent:
    instruction = "You help. The user is in {city}."
    return Agent("bot", model=MODELS[dialect], instruction=instruction, tools=[look], **more)  # type: ignore[arg-type]


def step(log: Session, number: int) -> Session:
    """The log after one more turn: talk, or a call with its result."""
    inv = f"i{number}"
    if number % 4 == 3:
        called = calls("bot", "look", {"city": f"{number}"}, f"c{number}", inv=inv)
        log = log.append(called, returns("bot", "look", {"result": "x"}, f"c{number}", inv=inv))
    return log.append(says("bot", f"answer {number}", inv=inv), user(f"question {number}", inv=inv))


@pytest.fixture
def short(monkeypatch: pytest.MonkeyPatch) -> None:
    """Every session counts as a long one, whose lists of turns are given again."""
    monkeypatch.setattr("weft.dialects.track.LONG", 2)


# --- turns


@pytest.mark.usefixtures("short")
@pytest.mark.parametrize("dialect", DIALECTS)
@pytest.mark.parametrize("seed", range(4))
def test_a_request_stays_as_it_was_given_however_long_it_is_kept(dialect: str, seed: int) -> None:
    choose = random.Random(seed)
    agent, log = bot(dialect), session(user("Hi"), city="Oslo")
    kept: list[tuple[object, str]] = []
    for number in range(60):
        log = step(log, number)
        compiled = compile(agent, session=log)
        wire = compiled.wire
        fresh = Session("s", state={"city": "Oslo"}, events=list(log.events))
        assert wire == compile(agent, session=fresh).wire
        if choose.random() < 0.5:
            held = choose.choice(
                (wire, compiled, compiled.lowered(), wire[compiled.lowered().turns])
            )
            kept.append((held, json.dumps(_turns(held))))
        while kept and choose.random() < 0.4:
            kept.pop(choose.randrange(len(kept)))
        del wire, compiled
        for held, text in kept:
            assert json.dumps(_turns(held)) == text


def _turns(held: object) -> object:
    if isinstance(held, Compilation):
        return held.wire
    return held if isinstance(held, list | dict) else held.wire  # type: ignore[attr-defined]


@pytest.mark.usefixtures("short")
@pytest.mark.parametrize("dialect", DIALECTS)
def test_a_list_that_its_holder_cut_or_extended_is_not_given_again(dialect: str) -> None:
    agent, log = bot(dialect), session(user("Hi"), city="Oslo")
    for number in range(40):
        log = step(log, number)
        compiled = compile(agent, session=log)
        fresh = Session("s", state={"city": "Oslo"}, events=list(log.events))
        assert compiled.wire == compile(agent, session=fresh).wire
        turns = compiled.wire[compiled.lowered().turns]
        assert isinstance(turns, list)
        if number % 4 == 0:
            turns.clear()
        elif number % 4 == 1:
            turns.append({})
        elif number % 4 == 2:
            turns.insert(0, {})
        else:
            del turns[-3:]
        del compiled, turns


@pytest.mark.usefixtures("short")
def test_a_long_session_gives_its_list_again_when_nobody_holds_it() -> None:
    agent, log = bot("gemini"), session(user("Hi"), city="Oslo")
    lists: set[int] = set()
    for number in range(30):
        log = step(log, number)
        lists.add(id(compile(agent, session=log).wire["contents"]))
    held: list[Json] = []
    for number in range(30, 40):
        log = step(log, number)
        held.append(compile(agent, session=log).wire["contents"])
    assert len(lists) < 10
    assert len({id(turns) for turns in held}) == len(held)


@pytest.mark.usefixtures("short")
def test_threads_get_their_own_turns_of_one_growing_session() -> None:
    agent = bot("openai-chat")
    snapshots = [session(user("Hi"), city="Oslo")]
    for number in range(30):
        snapshots.append(step(snapshots[-1], number))
    wanted = [
        json.dumps(
            compile(agent, session=Session("s", state={"city": "Oslo"}, events=list(s.events))).wire
        )
        for s in snapshots
    ]
    wrong: list[int] = []

    def work(seed: int) -> None:
        choose = random.Random(seed)
        held: list[tuple[int, object]] = []
        for turn in range(150):
            at = (
                min(len(snapshots) - 1, turn // 4)
                if choose.random() < 0.8
                else choose.randrange(31)
            )
            held.append((at, compile(agent, session=snapshots[at]).wire))
            held = held[-choose.randrange(1, 4) :]
            wrong.extend(at for at, wire in held if json.dumps(wire) != wanted[at])

    switching = sys.getswitchinterval()
    sys.setswitchinterval(1e-5)
    try:
        threads = [threading.Thread(target=work, args=(seed,)) for seed in range(4)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
    finally:
        sys.setswitchinterval(switching)
    assert wrong == []


# --- the head


@pytest.mark.parametrize("dialect", DIALECTS)
def test_tools_are_lowered_once_and_a_changed_head_anew(dialect: str) -> None:
    agent = bot(dialect, generate_config={"max_output_tokens": 500})
    log = session(user("Hi"), city="Oslo")
    first = compile(agent, session=log).wire
    log = step(log, 1)
    second = compile(agent, session=log).wire
    assert second["tools"] is first["tools"]
    moved = compile(agent, session=log, state={"city": "Rome"}).wire
    assert "Rome" in json.dumps(moved)
    assert "Oslo" not in json.dumps(moved)
    longer = RunConfig(generate_config={"max_output_tokens": 4321})
    assert "4321" in json.dumps(compile(agent, session=log, config=longer).wire)
    assert compile(agent, session=log).wire == second


@pytest.mark.parametrize("dialect", DIALECTS)
def test_what_the_head_has_to_say_is_said_at_every_step(dialect: str) -> None:
    agent = Agent(
        "bot", model=MODELS[dialect], generate_config={"extra": {"nobody": {"a": 1}}, "seed": 7}
    )
    log = session(user("Hi"))
    first = compile(agent, session=log).diagnostics
    log = step(log, 1)
    assert compile(agent, session=log).diagnostics == first
    assert "WEFT702" in {found.code for found in first}


def test_a_prompt_that_was_changed_is_lowered_as_it_is_now() -> None:
    agent, log = bot("openai-chat"), session(user("Hi"), city="Oslo")
    compile(agent, session=log).wire  # noqa: B018
    changed = compile(agent, session=log)
    changed.prompt.config["temperature"] = 0.7
    assert changed.wire["temperature"] == 0.7
    assert "temperature" not in compile(agent, session=log).wire


# --- strict


@pytest.mark.parametrize("dialect", DIALECTS)
def test_strict_steps_give_the_same_requests(dialect: str) -> None:
    agent, log = bot(dialect), session(user("Hi"), city="Oslo")
    for number in range(8):
        log = step(log, number)
        strict = compile(agent, session=log, config=RunConfig(strict=True))
        lenient = compile(agent, session=log)
        assert strict.wire == lenient.wire
        assert strict.hash == lenient.hash


def test_a_loss_is_refused_under_strict_at_every_step_and_only_there() -> None:
    agent = Agent("bot", model="claude-sonnet-4-5", generate_config={"seed": 7})
    log = session(user("Hi"))
    for number in range(3):
        log = step(log, number)
        assert [found.code for found in compile(agent, session=log).diagnostics] == ["WEFT702"]
        with pytest.raises(LoweringError, match="seed"):
            compile(agent, session=log, config=RunConfig(strict=True)).wire  # noqa: B018


# --- what is skipped would have changed nothing


@pytest.mark.parametrize("policy", [C.default(), C.none(), C.nothing()], ids=str)
@settings(deadline=None, suppress_health_check=list(HealthCheck), max_examples=40)
@given(events=logs())
def test_plain_talk_is_what_the_passes_would_have_made_of_it(
    policy: Policy, events: list[Event]
) -> None:
    agent = Agent("bot", model=MODELS["gemini"], instruction="{intent?}", context=policy)
    quick, slow = Session("s"), Session("s")
    for event in events:
        quick, slow = quick.append(event), slow.append(event)
        for message in (None, "and now?"):
            one = compile(agent, session=quick, message=message)
            with pytest.MonkeyPatch.context() as patch:
                patch.setattr(Thread, "_talk", lambda *_: None)
                other = compile(agent, session=slow, message=message)
            assert list(one.prompt.items) == list(other.prompt.items)
            assert one.prompt.diagnostics == other.prompt.diagnostics
            assert one.prompt.features == other.prompt.features
            assert list(one.woven.notes) == list(other.woven.notes)


def test_plain_talk_in_the_middle_of_a_turn_is_still_held_against_the_policy() -> None:
    agent = Agent("bot", model=MODELS["gemini"], context=C.nothing())
    log = session(user("Hi"), says("bot", "Hello"))
    compile(agent, session=log)
    compiled = compile(agent, session=log.append(user("More, please")))
    assert "Hello" in str(compiled.prompt)
    assert "More, please" not in str(compiled.prompt)


@settings(deadline=None, suppress_health_check=list(HealthCheck), max_examples=60)
@given(events=logs())
def test_a_request_that_is_ready_is_left_alone_by_every_pass(events: list[Event]) -> None:
    agents = (
        Agent("bot", model=MODELS["gemini"], global_instruction="{mood?}", instruction="{intent?}",
              sub_agents=[Agent("helper")]),
        Agent("bot", model=MODELS["gemini"], context=C.none()),
        Agent("bot", model=MODELS["gemini"], context_compressor=TokenBudget(token_budget=10**6)),
    )  # fmt: skip
    log = Session("s")
    for event in events:
        log = log.append(event)
        for agent in agents:
            ready = compile(agent, session=log)
            with pytest.MonkeyPatch.context() as patch:
                patch.setattr(sys.modules["weft.compiler.compile"], "is_ready", lambda *_: False)
                run = compile(agent, session=log)
            assert ready.prompt == run.prompt
            assert [*ready.steps] == [*run.steps]
