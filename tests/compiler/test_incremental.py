"""Compiling step by step gives what compiling at once gives, and extends what was sent."""

import itertools
import random
import sys
import threading
from collections import Counter
from collections.abc import Callable

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from msgspec.structs import replace

from tests.support.strategies import logs
from weft import Actions, Agent, C, Content, Event, Part, RunConfig, Session, TokenBudget
from weft.compiler import Compilation
from weft.compiler import compile_request as compile
from weft.compiler.incremental import LONG, is_cold
from weft.compiler.plan import plan_for
from weft.compiler.tools import DEFAULT
from weft.content import call_part, result_part, to_content
from weft.declare import Policy
from weft.dialects import DIALECTS
from weft.errors import BudgetExceeded
from weft.session.lookback import facts_of
from weft.testing import make_session
from weft.values import Json

BOT = Agent(
    "bot",
    model="gemini-flash-latest",
    instruction="The intent is {intent?}. You live in {city}.",
)
AGENTS = {
    "default": BOT,
    "none": BOT.sees(C.none()),
    "nothing": BOT.sees(C.nothing()),
    "both": BOT.sees(C.default().keep_duplicates()),
}
STATE: dict[str, Json] = {"city": "Oslo"}


def turns_of(compiled: Compilation, dialect: str) -> list[Json]:
    lowered = compiled.lowered(dialect)
    turns = lowered.wire[lowered.turns]
    assert isinstance(turns, list)
    return [without_marks(turn) for turn in turns]


def without_marks(value: Json) -> Json:
    """A turn without marks for the cache: they go on with the conversation, its prefix stays."""
    if isinstance(value, list):
        return [without_marks(one) for one in value]
    if isinstance(value, dict):
        return {key: without_marks(one) for key, one in value.items() if key != "cache_control"}
    return value


def reasons(compiled: Compilation) -> Counter[str]:
    return Counter(
        f"{note.step} {note.reason} {note.before.event}" for note in compiled.woven.notes
    )


@pytest.mark.parametrize("view", AGENTS)
@settings(deadline=None, suppress_health_check=[HealthCheck.too_slow], max_examples=60)
@given(events=logs())
def test_step_by_step_equals_all_at_once(view: str, events: list[Event]) -> None:
    agent = AGENTS[view]
    grown = Session("s", state=STATE)
    for index, event in enumerate(events):
        grown = grown.append(event)
        stepped = compile(agent, session=grown)
        stepped.tokens  # noqa: B018  counting as a run would, so that what is kept is used
        complete = [e for e in events[: index + 1] if not e.partial]
        cold = compile(agent, session=Session("s", state=STATE, events=complete))
        for dialect in DIALECTS:
            assert stepped.lower(dialect) == cold.lower(dialect)
        assert stepped.hash == cold.hash
        assert stepped.tokens == cold.tokens
        assert reasons(stepped) == reasons(cold)


ODD: tuple[Callable[[Event], Event], ...] = (
    lambda event: event,
    lambda event: replace(event, content=to_content("half \ud83d")),
    lambda event: replace(event, content=to_content("mail ann@example.org, <untrusted> it")),
    lambda event: replace(event, custom_metadata={"weft": {"untrusted": {"x": 1}}}),
    lambda event: replace(event, content=None, custom_metadata={"weft": {"untrusted": {"x": 1}}}),
)
"""Events that something is to be said about, by one pass or another, with an item or without."""

TOLD = (
    C.default(),
    C.default().fence().redact("email", "phone"),
    C.without_agents("helper"),
    C.default().fresh(turns=1, stale="compact").validate(),
)


@pytest.mark.parametrize("policy", TOLD, ids=str)
@settings(deadline=None, suppress_health_check=[HealthCheck.too_slow], max_examples=60)
@given(events=logs(), data=st.data())
def test_diagnostics_have_one_order_step_by_step_or_at_once(
    policy: Policy, events: list[Event], data: st.DataObject
) -> None:
    odd = [data.draw(st.sampled_from(ODD))(event) for event in events]
    agent = BOT.sees(policy)
    grown = Session("s", state=STATE)
    for index, event in enumerate(odd):
        grown = grown.append(event)
        stepped = compile(agent, session=grown)
        complete = [one for one in odd[: index + 1] if not one.partial]
        cold = compile(agent, session=Session("s", state=STATE, events=complete))
        assert [*map(str, stepped.diagnostics)] == [*map(str, cold.diagnostics)]


@pytest.mark.parametrize("policy", TOLD, ids=str)
@pytest.mark.parametrize("author", ["bot", "helper"])
def test_a_late_result_without_an_id_answers_its_call(policy: Policy, author: str) -> None:
    call, result = call_part("look", {}), result_part("look", {"result": "Oslo"})
    events = [
        Event("user", to_content("Oslo")),
        Event(author, Content(role="model", parts=(call,))),
        Event(author, Content(role="user", parts=(result,))),
    ]
    grown = Session("s", state=STATE)
    for event in events:
        grown = grown.append(event)
        stepped = compile(BOT.sees(policy), session=grown)
    cold = compile(BOT.sees(policy), session=Session("s", state=STATE, events=events))
    assert [*map(str, stepped.diagnostics)] == [*map(str, cold.diagnostics)]
    assert stepped.wire == cold.wire


@pytest.mark.parametrize("dialect", DIALECTS)
@settings(deadline=None, suppress_health_check=[HealthCheck.too_slow], max_examples=80)
@given(events=logs())
def test_each_request_extends_the_one_before_or_says_why_not(
    dialect: str, events: list[Event]
) -> None:
    model = {
        "gemini": "gemini-flash-latest",
        "anthropic": "claude-sonnet-4-5",
        "openai-chat": "openrouter/some-model",
        "openai-responses": "gpt-5",
    }[dialect]
    agent = Agent("bot", model=model, instruction="The intent is {intent?}. Mood: {mood?}")
    session = Session("s", state=STATE)
    requests: list[Compilation] = []
    for event in [*events, None]:
        spoke = event is not None and event.author == "bot" and not event.partial
        asked = spoke and event.content is not None and event.content.role == "model"
        if event is None or (asked and not event.branch):
            requests.append(compile(agent, session=session))
        if event is not None:
            session = session.append(event)
    for before, after in itertools.pairwise(requests):
        same_head = before.system == after.system and before.tools == after.tools
        lowered = before.lowered(dialect)
        said_once = len(lowered.rest) - len(lowered.lasting)
        old, new = turns_of(before, dialect), turns_of(after, dialect)
        old = old[: len(old) - said_once]
        extends = same_head and new[: len(old)] == old
        assert (after.prefix_break is None) == extends
        if after.prefix_break is not None:
            assert after.prefix_break.reason
            assert after.prefix_break.origin.kind


def test_the_previous_request_is_rebuilt_from_the_log() -> None:
    session = make_session(("user", "Hi"), ("bot", "Hello"), ("user", "Oslo?"))
    bot = Agent("bot", model="gemini-flash-latest", instruction="Be brief.")
    first = compile(bot, session=session.before(1))
    second = compile(bot, session=session)
    assert second.previous is not None
    assert second.previous.hash == first.hash
    assert second.prefix_break is None
    assert second.stable_prefix.turns == 1
    assert second.stable_prefix.tokens <= first.tokens
    assert first.stable_prefix.tokens == 0
    assert first.stable_prefix.text == "You are bot.\n\nBe brief."


def test_a_variable_that_changed_is_blamed_by_key_and_line() -> None:
    bot = Agent("bot", model="gemini-flash-latest", instruction="Be brief.\nThe time: {time}")
    session = make_session(
        ("user", "Hi"),
        ("bot", "Hello"),
        ("clock", [], {"time": "13:00"}),
        ("user", "Oslo?"),
        state={"time": "12:00"},
    )
    broken = compile(bot, session=session).prefix_break
    assert broken is not None
    assert (broken.origin.kind, broken.origin.name) == ("state", "time")
    assert broken.line == 4
    assert broken.lost_tokens > 0
    assert "system text changed" in str(broken)


@settings(deadline=None, suppress_health_check=[HealthCheck.too_slow], max_examples=60)
@given(events=logs())
def test_a_budget_is_never_exceeded_and_pairs_stay_whole(events: list[Event]) -> None:
    agent = Agent(
        "bot",
        model="gemini-flash-latest",
        instruction="Be brief.",
        context_compressor=TokenBudget(token_budget=120, keep_recent=1),
    )
    try:
        compiled = compile(agent, session=Session("s", events=events))
    except BudgetExceeded:
        return
    assert compiled.tokens <= 120


def test_a_budget_that_cannot_be_met_says_by_how_much() -> None:
    agent = Agent(
        "bot", model="gemini-flash-latest", instruction="word " * 50,
        context_compressor={"token_budget": 20, "keep_recent": 2},  # type: ignore[arg-type]
    )  # fmt: skip
    with pytest.raises(BudgetExceeded, match=r"takes \d+ tokens, \d+ more than the budget of 20"):
        compile(agent, session=make_session(("user", "Hi")))


def test_threads_may_compile_one_growing_session() -> None:
    agents = (BOT, Agent("peer", model="claude-sonnet-4-5", instruction="{intent?}"))
    log = make_session(
        *(("user", f"q{n}") if n % 3 == 0 else ("bot", f"a{n}") if n % 3 == 1 else
          ("peer", f"p{n}", {"intent": f"p{n}"}) for n in range(45)),
        state=STATE,
    )  # fmt: skip
    fresh = [Session("s", state=STATE, events=list(log.events)[:n]) for n in range(46)]
    wanted = [[compile(agent, session=each).wire for agent in agents] for each in fresh]
    snapshots = [Session("s", state=STATE)]
    wrong: list[str] = []

    def work(seed: int) -> None:
        choose = random.Random(seed)
        while len(snapshots) < 46 or choose.random() < 0.98:
            session = choose.choice((snapshots[-1], choose.choice(snapshots)))
            which = choose.randrange(2)
            length = len(session.events)
            if compile(agents[which], session=session).wire != wanted[length][which]:
                wrong.append(f"{agents[which].name} at {length}")

    switching = sys.getswitchinterval()
    sys.setswitchinterval(1e-5)
    try:
        threads = [threading.Thread(target=work, args=(seed,)) for seed in range(4)]
        for thread in threads:
            thread.start()
        for event in log.events:
            snapshots.append(snapshots[-1].append(event))
        for thread in threads:
            thread.join()
    finally:
        sys.setswitchinterval(switching)
    assert wrong == []


def test_the_request_before_is_rebuilt_with_the_given_state_and_never_refused() -> None:
    agent = Agent("bot", model="claude-sonnet-4-5", instruction="Hi {name}.")
    log = make_session(("user", "a"), ("bot", "b"), ("user", "c"))
    compiled = compile(agent, session=log, state={"name": "Ann"}, config=RunConfig(strict=True))
    assert compiled.prefix_break is None
    assert compiled.stable_prefix.turns == 1
    late = make_session(("user", "a"), ("bot", "b"), ("tool", [], {"name": "Ann"}), ("user", "c"))
    strict = compile(agent, session=late, config=RunConfig(strict=True))
    assert strict.prefix_break is not None
    assert str(strict.prefix_break.origin) == "state name"


def test_an_agent_that_comes_late_to_a_long_flow_finds_what_others_compiled() -> None:
    agents = [Agent(f"bot_{n}", model="gemini-flash-latest") for n in range(LONG + 3)]
    talk = [Event(author="user", content=to_content("Go"), invocation_id="i")]
    talk += [
        Event(author=agent.name, content=to_content("done", role="model"), invocation_id="i")
        for agent in agents[:LONG]
    ]
    session = Session("s", events=talk)
    first, second = agents[LONG], agents[LONG + 1]
    plan = plan_for(first, None, DEFAULT)
    assert is_cold(session.events, plan.slot)  # nobody has read it
    seen = compile(first, session=session)
    assert not is_cold(session.events, plan_for(second, None, DEFAULT).slot)
    assert compile(second, session=session).prompt.items == seen.prompt.items
    # one that has spoken sees its own words as its own
    assert is_cold(session.events, plan_for(agents[7], None, DEFAULT).slot)
    assert compile(agents[7], session=session).prompt.items != seen.prompt.items


def test_authors_are_known_however_many_there_are_and_an_older_log_knows_only_its_own() -> None:
    session = Session("s")
    logs = [session.events]
    for number in range(200):
        session = session.append(Event(author=f"bot_{number % 150}", invocation_id="i"))
        logs.append(session.events)
        assert facts_of(session.events).has_author(f"bot_{number % 150}")
    for length in (0, 1, 64, 65, 66, 130, 149, 200):
        facts = facts_of(logs[length])
        known = [facts.has_author(f"bot_{number}") for number in range(150)]
        assert known == [number < length for number in range(150)], length
        assert len(facts.authors) + len(facts.newest) == min(length, 150)


def test_an_open_call_of_another_branch_is_no_finding_once_it_is_answered() -> None:
    """The view leaves the call out, and it comes into view once more when its branch joins."""

    def on_branch(part: Part, role: str, id: str) -> Event:
        content = Content(role=role, parts=(part,))
        return Event("helper", content, invocation_id="i1", id=id, branch="fan.right")

    events = [
        Event("user", to_content("go on"), invocation_id="i1", id="e1"),
        on_branch(call_part("look", {"city": "Oslo"}, id="c1"), "model", "e2"),
        on_branch(result_part("look", {"result": "rain"}, id="c1"), "user", "e3"),
        Event("user", to_content("and now?"), invocation_id="i2", id="e4"),
    ]
    agent = Agent("bot", model="gpt-5").sees(C.without_agents("helper"))
    grown = Session("s")
    for number, event in enumerate(events, 1):
        grown = grown.append(event)
        cold = compile(agent, session=Session("s", events=events[:number]))
        assert compile(agent, session=grown).diagnostics == cold.diagnostics


def test_a_branch_that_was_taken_back_stays_so_when_its_events_join() -> None:
    """The branch has not joined when the rewind is settled: its events come into view later."""

    def said(author: str, text: str, number: int, branch: str | None = None) -> Event:
        role = "user" if author == "user" else "model"
        content = Content(role=role, parts=(Part(text=text),))
        return Event(author, content, invocation_id="i2", id=f"e{number}", branch=branch)

    events = [
        Event("user", to_content("first"), invocation_id="i1", id="e1"),
        said("user", "second", 2),
        said("helper", "on a branch", 3, "fan.left"),
        Event(
            "user", actions=Actions(rewind_before_invocation_id="i2"), invocation_id="i2", id="e4"
        ),
    ]
    agent = Agent("bot", model="gpt-5")
    grown = Session("s")
    for number, event in enumerate(events, 1):
        grown = grown.append(event)
        cold = compile(agent, session=Session("s", events=events[:number])).wire
        assert [compile(agent, session=grown).wire for _ in range(3)] == [cold] * 3
    assert "on a branch" not in str(compile(agent, session=grown).wire)
