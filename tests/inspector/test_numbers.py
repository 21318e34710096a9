"""The numbers of a session add up, whatever was said in it, and say the same in every view."""

import msgspec
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from tests.inspector.counts import counted_row, require_one_count
from tests.inspector.programs import Shape, ran
from tests.support.strategies import logs
from weft import Agent, C, Policy, Runner, tool
from weft.declare.words import policy_from
from weft.inspector import Inspection, Variant, questions
from weft.inspector.request import RequestView
from weft.inspector.sources import RecordedSessions, StoredSessions
from weft.recordings import recording_of
from weft.replay.replay import replay, uses_of
from weft.replay.steps import is_answer
from weft.session import Event, Session, SessionKey, Usage

MODELS = (
    "claude-opus-5",
    "gpt-5",
    "gemini-3-pro",
    "openai-chat/gpt-5",
    "anthropic/nobody-knows-it",
)
POLICIES = (None, C.default(), C.none(), C.window(1), C.auto(), C.auto().compact())


@tool
def look(city: str = "", day: str = "", q: str = "") -> str:
    """Look."""
    return ""


@st.composite
def inspections(draw: st.DrawFn) -> Inspection:
    """A session of two agents under any policies and models, with or without reported usage."""
    model, policy, other = (draw(st.sampled_from(one)) for one in (MODELS, POLICIES, POLICIES))
    helper = _seeing(Agent("helper", model=draw(st.sampled_from(MODELS)), tools=[look]), other)
    bot = Agent(
        "bot",
        model=model,
        instruction="You are {mood?}. " + draw(st.sampled_from(("", "Be brief. " * 700))),
        tools=[look],
        sub_agents=[helper],
    )
    events = draw(logs())
    if draw(st.booleans()):
        events = [_metered(event, draw(st.integers(1, 40_000))) for event in events]
    return Inspection(_seeing(bot, policy), Session("s", events=events))


def _seeing(agent: Agent, policy: Policy | None) -> Agent:
    return agent if policy is None else agent.sees(policy)


def _metered(event: Event, tokens: int) -> Event:
    usage = Usage(prompt_token_count=tokens, candidates_token_count=9, total_token_count=tokens + 9)
    return msgspec.structs.replace(event, usage=usage)


@settings(max_examples=60)
@given(inspections(), st.sampled_from(("C.window(1)", "C.auto()", "C.default().budget(600)")))
def test_the_numbers_of_a_session_add_up(inspection: Inspection, policy: str) -> None:
    film = inspection.film()
    ghosts = inspection.ghosts()
    variant = Variant(policy=policy)
    both = questions.compare(inspection, variant)
    for frame, ghost, then in zip(film["frames"], ghosts, both["then"]["frames"], strict=True):
        for one in (frame, *((then,) if not then["problem"] else ())):
            assert sum(one["sources"].values()) == one["tokens"]
            assert min(one["sources"].values()) > 0
            assert one["cached"] + one["fresh"] == one["tokens"]
            assert 0 <= one["cached"] <= one["possible"] <= one["tokens"]
            assert one["cost"] >= 0
            assert one["lost"] >= 0
        assert 0 <= ghost["cached"] <= ghost["tokens"]
        view = RequestView(inspection, frame["number"])
        cache, request = view.cache_facts(), view.to_json()
        assert request["tokens"] == frame["tokens"] == cache["total"]
        for name in ("cached", "possible", "fresh", "cost", "lost", "money"):
            assert cache[name] == frame[name], name
        assert sum(row["tokens"] for row in request["rows"]) == frame["tokens"]
        if then["problem"]:
            continue
        alone = questions.what_if(inspection, frame["number"], variant)
        for name in ("tokens", "cached", "cost", "prefix"):
            assert alone[name] == then[name], name
            assert alone[f"{name}_now"] == frame[name], name
    session, frames = film["session"], film["frames"]
    for name in ("tokens", "cached"):
        assert session[name] == sum(frame[name] for frame in frames), name
    priced = [frame for frame in frames if frame["money"]]
    assert session["cost"] == sum(frame["cost"] for frame in priced or frames)
    assert session["unpriced"] == (len(frames) - len(priced) if priced else 0)


@pytest.mark.parametrize("has_bill", [False, True], ids=["not billed", "billed"])
@pytest.mark.parametrize("kind", ["agent", "router", "parallel"])
@pytest.mark.parametrize("dialect", ["anthropic", "openai-chat"])
async def test_every_room_and_the_terminal_have_one_count(
    kind: str, dialect: str, has_bill: bool
) -> None:
    shape: Shape = (kind,) if kind == "agent" else (kind, ("agent",), ("agent",))
    root, session, _ = await ran(shape, dialect=dialect)
    events = [*session.events]
    if has_bill:
        events = [_metered(one, 900) if is_answer(one) else one for one in events]
    runner = Runner(root, app_name="app")
    stored = await runner.store.create(SessionKey("app", "user", "s"))
    await runner.store.append(stored, *events)
    sessions = StoredSessions(runner.store, {"app": root})
    row = await counted_row(sessions)
    require_one_count(await sessions.inspection(row["key"]), row)
    # a log whose program nobody names is a recording, here and in the terminal
    session = await runner.session(session_id="s")
    recording = recording_of(session)
    inspection = Inspection.of_recording(recording)
    require_one_count(inspection, await counted_row(RecordedSessions([recording])))
    for policy in ("C.default()", "C.auto()"):
        trial = replay(recording, policy_from(policy), uses=uses_of(session.events, ""))
        page = inspection.under(Variant(policy=policy)).film()["session"]
        assert trial.tokens == page["tokens"]
        assert trial.cached == pytest.approx(page["cached"], abs=1)
        assert trial.cost == pytest.approx(page["cost"])
