"""The numbers of a session add up, whatever was said in it, and say the same in every view."""

import msgspec
from hypothesis import given, settings
from hypothesis import strategies as st

from tests.support.strategies import logs
from weft import Agent, C, Policy, tool
from weft.inspector import Inspection, Variant, questions
from weft.inspector.request import RequestView
from weft.session import Event, Session, Usage

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
