"""A request that is likely the last pays no premium for what nobody reads again."""

from typing import Any, cast

import pytest
from pydantic import BaseModel

import weft
from tests.compiler.test_caching import RULES, marks
from tests.support.build import make_event
from weft import Agent, C, RunConfig, Session
from weft.compiler import Compilation, compile_request
from weft.compiler.costs import cost_of, premium_of, rates_for
from weft.testing import ScriptedModel, call

CLAUDE = "claude-opus-5"

LETTER = "letter " * 2_000


class Sorted(BaseModel):
    """Where a letter goes."""

    shelf: str


def look(key: str) -> str:
    """Look a key up."""
    return f"{key} " * 1_500


def chat(*pauses: float) -> Session:
    """Turns of a user who takes so many seconds to answer."""
    at, events = (
        1_000_000.0,
        [make_event("user", LETTER, inv="0", id=f"user{1_000_000.0}", timestamp=1_000_000.0)],
    )
    for turn, pause in enumerate(pauses, 1):
        events.append(
            make_event("bot", "Noted.", inv=str(turn - 1), id=f"bot{at + 5}", timestamp=at + 5)
        )
        at += 5 + pause
        events.append(make_event("user", LETTER, inv=str(turn), id=f"user{at}", timestamp=at))
    return Session("s", events=events)


def compiled(agent: Agent, session: Session, model: str = CLAUDE) -> Compilation:
    return compile_request(agent, session=session, config=RunConfig(model=model))


def inferred(request: Compilation) -> str:
    return "\n".join(one for one in request.explain().inferred if "likely the last" in one)


def ends(request: Compilation) -> list[str]:
    """The marks in the conversation."""
    return [one for one in marks(cast("Any", request.wire)) if one.startswith("messages/")]


BOT = Agent("bot", instruction=RULES)
SORTER = Agent("bot", instruction=RULES, output_schema=Sorted)
READER = Agent("bot", instruction=RULES, tools=[look], output_schema=Sorted)


@pytest.mark.parametrize(
    ("agent", "session", "why"),
    [
        (SORTER, chat(), "its first answer has a schema"),
        (BOT.sees(C.none()), chat(), "sees no turn but the current one"),
        (BOT.sees(C.none()), chat(5.0), "sees no turn but the current one"),
        (BOT, chat(900.0), "took longer than the 300 s"),
        (BOT, chat(900.0, 700.0), "took longer than the 300 s"),
    ],
)
def test_the_last_request_marks_only_its_head_and_says_why(
    agent: Agent, session: Session, why: str
) -> None:
    request = compiled(agent, session)
    assert why in inferred(request)
    assert ends(request) == []
    assert marks(cast("Any", request.wire)) == ["system/0"]


@pytest.mark.parametrize(
    ("agent", "session"),
    [
        (BOT, chat()),
        (BOT, chat(20.0)),
        (BOT, chat(900.0, 20.0)),
        (SORTER, chat(20.0)),
        (READER, chat()),
        (READER, chat(900.0)),
    ],
)
def test_a_request_that_others_may_follow_is_kept(agent: Agent, session: Session) -> None:
    request = compiled(agent, session)
    assert inferred(request) == ""
    assert len(ends(request)) == 1


def test_what_is_new_costs_what_a_fresh_token_does_and_the_premium_is_said() -> None:
    request = compiled(SORTER, chat())
    rates = rates_for(CLAUDE)
    head = request.tokens - request.scale.turns(request.lowered().entries).total
    plain = request.tokens * rates.write
    premium = premium_of(request)
    assert cost_of(request).total == pytest.approx(plain - premium)
    assert premium == pytest.approx((request.tokens - head) * (rates.write - rates.fresh), rel=0.1)
    assert f"saves {rates.worth(premium)}" in inferred(request)
    assert "if one follows in time" in inferred(request)


@pytest.mark.parametrize("model", ["gpt-5", "gemini-2.5-flash"])
def test_where_keeping_costs_nothing_more_nothing_changes(model: str) -> None:
    request = compiled(SORTER, chat(), model)
    assert request.prompt.keeps == "all"
    assert inferred(request) == ""


def test_the_last_step_reads_what_the_one_before_kept_and_keeps_no_more() -> None:
    script = [call("look", key="a"), call("look", key="b"), "Done."]
    model = ScriptedModel(script, name=CLAUDE, dialect="anthropic")
    agent = Agent("bot", instruction=RULES, tools=[look], max_steps=3)
    result = weft.run_sync(agent, "Go", config=RunConfig(model=model))
    result.check()
    events = result.session.events
    steps = [
        at
        for at, one in enumerate(events)
        if one.author == "bot" and one.content is not None and one.content.role == "model"
    ]
    requests = [compiled(agent, Session("s", events=[*events[:at]])) for at in steps]
    before, last = requests[-2:]
    assert [one.prompt.keeps for one in requests] == ["all", "all", "before"]
    assert ends(before) == ["messages/2/0"]
    assert ends(last) == ["messages/2/0"]  # the mark stays, so that it is found again
    assert last.cached.cached == before.tokens
    rates = rates_for(CLAUDE)
    fresh = last.tokens - last.cached.cached
    assert cost_of(last).total == pytest.approx(
        last.cached.cached * rates.read + fresh * rates.fresh
    )


def test_a_request_after_one_that_was_taken_for_the_last_still_finds_the_head() -> None:
    second = compiled(SORTER, chat(20.0))
    head = second.scale.count_fixed(second.lowered())
    assert 0 < second.cached.cached <= head


def test_the_decision_is_the_same_however_the_session_was_built() -> None:
    whole = chat(900.0, 700.0)
    grown = Session("s")
    for event in whole.events:
        grown = grown.append(event)
        if event.author == "user":
            compiled(BOT, grown)
    assert compiled(BOT, grown).wire == compiled(BOT, whole).wire
