"""Plain talk of which only the turns are kept: whatever is asked of a request, it is the same."""

import json
from dataclasses import replace

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from tests.stores.test_skim import BOT, FLOW, INFORMED, changed, facts, read, said, talk
from tests.support.strategies import logs
from weft import C, Event, Part, RunConfig, Session
from weft.compiler import Compilation, compile_request, items
from weft.compiler.items import LateItems
from weft.content import call_part, result_part
from weft.stores import cache

MODELS = ("gemini-flash-latest", "claude-sonnet-4-5", "gpt-5", "ollama/llama3")


def made(compiled: Compilation) -> int | None:
    """How many items of a request there are in memory; None where all of them must be."""
    backing = compiled.prompt.items._backing
    return sum(i is not None for i in backing._items) if isinstance(backing, LateItems) else None


def everything(compiled: Compilation) -> tuple[object, ...]:
    """What anybody can ask of a request."""
    places = [f"/{key}" for key in compiled.wire]
    return (
        *facts(compiled),
        compiled.prompt.features,
        list(compiled.prompt.items),
        compiled.tokens,
        compiled.diagnostics,
        str(compiled.explain()),
        str(compiled.stable_prefix),
        [str(compiled.origin(place)) for place in places],
        [(entry.wire, entry.role, entry.blocks) for entry in compiled.lowered().entries],
    )


@pytest.mark.parametrize("model", MODELS)
@settings(deadline=None, suppress_health_check=[HealthCheck.too_slow], max_examples=15)
@given(
    later=logs(),
    turns=st.integers(3, 12),
    seed=st.integers(0, 99),
    piece=st.integers(1, 9),
    writes=st.booleans(),
    asks=st.booleans(),
    agents=st.sampled_from([("bot",), FLOW, FLOW[1:]]),
    data=st.booleans(),
    rewinds=st.sampled_from([0.0, 0.0, 0.2]),
)
def test_requests_are_those_of_a_log_whose_items_are_kept(
    model: str,
    later: list[Event],
    turns: int,
    seed: int,
    piece: int,
    writes: bool,
    asks: bool,
    agents: tuple[str, ...],
    data: bool,
    rewinds: float,
) -> None:
    agent = replace(INFORMED if seed % 3 == 0 else BOT, model=model).sees(C.default(data=data))
    other = replace(agent, name="planner")
    before = talk(turns, seed, writes=writes, agents=agents, rewinds=rewinds)
    for turn in range(0, turns, 4):  # some talk goes on in one voice: those turns may be merged
        before.append(said("bot", Part(text=f"and {turn}"), turns))
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(cache, "LEAST", 2)
        patch.setattr(items, "PIECE", piece)
        lazy = read([*before, said("user", Part(text="So?"), 99)])
        whole = Session("s", app_name="app", user_id="user", events=list(lazy.events))
        lazy = read(whole.events)
        for event in (None, *later):
            if event is not None:
                if event.partial:
                    continue
                lazy, whole = lazy.append(event), whole.append(event)
            for one in (agent, other):  # the second hears much of what the first did
                brief = compile_request(one, session=lazy, brief=True)
                full = compile_request(one, session=whole)
                assert brief.wire == full.wire
                if asks or event is later[-1]:
                    assert everything(brief) == everything(full)


def test_a_long_plain_history_is_sent_without_its_items(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(cache, "LEAST", 2)
    monkeypatch.setattr(items, "PIECE", 5)
    events = [*talk(20, writes=False), said("user", Part(text="So?"), 99)]
    lazy, whole = read(events), Session("s", events=events)
    for model in MODELS:
        agent = replace(BOT, model=model)
        brief = compile_request(agent, session=lazy, brief=True)
        full = compile_request(agent, session=whole)
        assert brief.wire == full.wire
        assert brief.refused == full.refused
        in_memory = made(brief)
        assert in_memory is not None
        assert in_memory < 4 < 40 < len(brief.prompt.items)
        assert everything(brief) == everything(full)
        assert made(brief) == len(brief.prompt.items)
        lazy = read(events)


def test_who_asks_for_all_of_it_gets_all_of_it(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(cache, "LEAST", 2)
    monkeypatch.setattr(items, "PIECE", 5)
    events = [*talk(20, writes=False), said("user", Part(text="So?"), 99)]
    assert made(compile_request(BOT, session=read(events))) is None
    strict = RunConfig(strict=True)
    assert made(compile_request(BOT, session=read(events), config=strict, brief=True)) is None
    for policy in (C.default().compact(), C.default().redact("email"), C.default().budget(9_000)):
        assert made(compile_request(BOT.sees(policy), session=read(events), brief=True)) is None


def test_what_is_said_of_a_turn_is_said_once(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(cache, "LEAST", 2)
    monkeypatch.setattr(items, "PIECE", 5)
    events = talk(20, writes=False)
    odd = [
        said("bot", call_part("no name!", {"a": 1}, id="x1"), 50),
        said("bot", result_part("no name!", {"a": 1}, id="x1"), 50, "user"),
    ]
    events = [*events, *odd, *(changed(one, id=f"{one.id}-2") for one in talk(5, 7, writes=False))]
    events = [one for one in events if one in odd or not (one.calls or one.results)]
    events.append(said("user", Part(text="So?"), 99))
    brief = compile_request(BOT, session=read(events), brief=True)
    full = compile_request(BOT, session=Session("s", events=events))
    assert [str(one) for one in brief.diagnostics] == [str(one) for one in full.diagnostics]
    assert json.dumps(brief.wire) == json.dumps(full.wire)
