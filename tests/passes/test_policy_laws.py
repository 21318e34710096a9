"""Under every policy: short forms can be rebuilt, budgets hold, no prefix breaks in silence.

Sessions of an agent with tools are walked request by request. Their results are of the forms that
digests know: files with numbered lines, searches, tests, tables, records, and plain long texts,
some of them again and changed a little.
"""

import json
from collections.abc import Callable, Iterator
from functools import partial

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from weft import C, Content, Event, Part, Session
from weft.compiler import Compilation
from weft.compiler import compile_request as compile
from weft.content import call_part, result_part
from weft.declare import Policy, RunConfig
from weft.errors import BudgetExceeded
from weft.recordings import Recording
from weft.replay.evidence import KeptEvidence, rebuild_texts
from weft.replay.replay import recorded_agents, requests_of
from weft.values import Json

MODELS = ("gpt-4o", "claude-opus-4-6", "gemini-2.5-pro")

REDUCING = {
    "auto": C.auto(),
    "careful": C.auto(careful=True),
    "auto_dedupe": C.auto().dedupe(),
    "compact": C.default().compact(results=64, texts=64, to=64),
    "compact_kept": C.default().compact(),
    "dedupe": C.default().dedupe(),
    "superseded": C.default().dedupe("superseded"),
    "window": C.window(2).compact(results=64, to=64),
    "budget": C.default().budget(900),
    "budget_drop": C.default().budget(700, overflow="drop"),
    "relevant": C.relevant(top_k=4).compact(results=64, to=64),
    "relevant_fit": C.relevant().fit(500),
}
"""Policies of every means; those that cut without a handle (`truncate`) say so by their name."""

EVERY = {
    **REDUCING,
    "default": C.default(),
    "truncate": C.default().truncate(40),
    "plain_window": C.window(1),
    "user": C.user("bookend"),
    "recent": C.recent(half_life=1),
    "fresh": C.default().fresh(turns=1, stale="compact").truncate(60),
    "select": C.select(kind="results"),
    "union": C.window(1) + C.select(kind="results"),
    "redact": C.default().redact("email"),
    "plain_relevant": C.relevant(),
}

BUDGETS: dict[str, Callable[[int], Policy]] = {
    "budget": lambda tokens: C.default().budget(tokens),
    "drop": lambda tokens: C.default().budget(tokens, overflow="drop"),
    "auto": lambda tokens: C.auto().budget(tokens),
    "relevant": lambda tokens: C.relevant().budget(tokens),
    "window": lambda tokens: C.window(3).budget(tokens),
    "fit": lambda tokens: C.default().fit(tokens),
    "relevant_fit": lambda tokens: C.relevant().fit(tokens),
}


def numbered_file(seed: int, size: int) -> Json:
    lines = "\n".join(f"{n}:    value_{n} = compute_{seed}({n})" for n in range(1, size))
    return {"result": f"[File: src/part_{seed}.py ({size} lines total)]\n{lines}"}


def search(seed: int, size: int) -> Json:
    return {
        "result": "\n".join(f"src/m{n}.py:{n * 7}: def part_{seed}_{n}():" for n in range(size))
    }


def checks(seed: int, size: int) -> Json:
    lines = [f"tests/test_{n}.py::test_part_{seed} PASSED" for n in range(size)]
    lines.insert(size // 2, f"tests/test_x.py::test_{seed} FAILED\nE   assert {seed} == {size}")
    return {"result": "\n".join(lines)}


def table(seed: int, size: int) -> Json:
    rows = [f"{n},name_{n},{n * seed}.50" for n in range(size)]
    return {"result": "\n".join(["id,name,price", *rows])}


def records(seed: int, size: int) -> Json:
    flights: list[Json] = [
        {"flight": f"HAT{n:03}", "price": n * 10 + seed, "seats": {"basic": n % 7}, "on": None}
        for n in range(size)
    ]
    return {"flights": flights, "page": seed}


def prose(seed: int, size: int) -> Json:
    return {
        "result": " ".join(
            f"Sentence {n} of text {seed} says ünïcode 日本 {n}." for n in range(size)
        )
    }


FORMS = (numbered_file, search, checks, table, records, prose)


@st.composite
def sessions(draw: st.DrawFn) -> list[Event]:
    """A few turns, each with some calls; now and then a result that was seen before."""
    events: list[Event] = []

    def add(author: str, role: str, invocation: str, *parts: Part) -> None:
        number = len(events)
        content = Content(role=role, parts=parts)
        events.append(
            Event(
                author=author,
                content=content,
                invocation_id=invocation,
                id=f"e{number}",
                timestamp=float(number),
            )
        )

    for turn in range(draw(st.integers(1, 4))):
        invocation = f"i{turn}"
        add("user", "user", invocation, Part(text=f"Look at part_{turn} and value_{turn + 3}."))
        for step in range(draw(st.integers(0, 3))):
            form, seed = draw(st.sampled_from(FORMS)), draw(st.integers(0, 2))
            result = form(seed, draw(st.sampled_from((2, 12, 60, 61))))
            id = f"c{turn}_{step}"
            add("bot", "model", invocation, call_part("look", {"q": f"part_{seed}"}, id=id))
            add("bot", "user", invocation, result_part("look", _object(result), id=id))
        add(
            "bot",
            "model",
            invocation,
            Part(text=f"Done with value_{turn + 3}. " * draw(st.integers(1, 9))),
        )
    return events


def walk(
    events: list[Event], policy: Policy, model: str, refused: list[BudgetExceeded]
) -> Iterator[tuple[int, Compilation]]:
    recording = Recording("r", Session("s", events=events), {"bot": "Be brief."})
    for index, _, compiled in requests_of(recording, policy, model=model, refused=refused):
        yield index, compiled


bounded = partial(
    settings, deadline=None, max_examples=10, suppress_health_check=[HealthCheck.too_slow]
)


@pytest.mark.parametrize("name", REDUCING)
@bounded()
@given(events=sessions(), model=st.sampled_from(MODELS))
def test_what_is_sent_in_short_is_rebuilt_from_the_request_and_its_handles(
    name: str, events: list[Event], model: str
) -> None:
    records = KeptEvidence(events)
    for _, compiled in walk(events, REDUCING[name], model, []):
        assert rebuild_texts(compiled, records).lost == ()


@pytest.mark.parametrize("name", EVERY)
@bounded(max_examples=6)
@given(events=sessions(), model=st.sampled_from(MODELS))
def test_the_log_alone_makes_the_same_request_again(
    name: str, events: list[Event], model: str
) -> None:
    recording = Recording("r", Session("s", events=events), {"bot": "Be brief."})
    bot = recorded_agents(recording)["bot"].sees(EVERY[name])
    for index, compiled in walk(events, EVERY[name], model, []):
        anew = Session("s", events=[*events[:index]])
        cold = compile(bot, session=anew, agent="bot", config=RunConfig(model=model))
        assert cold.wire == compiled.wire


@pytest.mark.parametrize("name", BUDGETS)
@bounded()
@given(events=sessions(), model=st.sampled_from(MODELS), tokens=st.integers(150, 2500))
def test_no_request_exceeds_its_budget_or_it_is_refused_with_the_figures(
    name: str, events: list[Event], model: str, tokens: int
) -> None:
    refused: list[BudgetExceeded] = []
    policy = BUDGETS[name](tokens)
    for _, compiled in walk(events, policy, model, refused):
        if name.endswith("fit"):
            # it counts what stands before the turn, and what was asked, not what the turn adds
            turn = max(n for n, item in enumerate(compiled.prompt.items) if item.kind == "user")
            added = sum(map(compiled.scale.item, compiled.prompt.items.since(turn + 1)))
            head = compiled.tokens - sum(map(compiled.scale.item, compiled.prompt.items))
            if turn:
                assert compiled.tokens - added - max(0, head - tokens // 8) <= tokens
        else:
            assert compiled.tokens <= tokens
    for error in refused:
        assert f"{tokens:,}" in str(error) or str(tokens) in str(error)
        assert error.hint


@pytest.mark.parametrize("name", EVERY)
@bounded()
@given(events=sessions())
def test_no_prefix_is_broken_without_a_remark_and_its_price(name: str, events: list[Event]) -> None:
    before: list[str] = []
    for _, compiled in walk(events, EVERY[name], "gpt-4o", []):
        sent = [json.dumps(turn, sort_keys=True) for turn in _turns(compiled)]
        same = next(
            (n for n, (a, b) in enumerate(zip(before, sent, strict=False)) if a != b), len(before)
        )
        again = set(before[same:]) & set(sent[same:])
        if len(sent) < same or again:
            remarks = [one for one in compiled.diagnostics if one.code == "WEFT502"]
            assert len(remarks) == 1, (before[same : same + 1], sent[same : same + 1])
            assert "tokens are read again, which costs" in remarks[0].message
            assert "WEFT502" in str(compiled.explain())
        before = sent


def _turns(compiled: Compilation) -> list[Json]:
    turns = compiled.wire.get("messages") or compiled.wire.get("input")
    assert isinstance(turns, list)
    return turns


def test_the_laws_see_what_they_are_about() -> None:
    """The sessions have short forms, breaks and refusals, or the laws would prove nothing."""
    events: list[Event] = []
    for turn in range(6):
        spoken = (
            ("user", "user", Part(text=f"Look at part_{turn}.")),
            ("bot", "model", call_part("look", {"q": "part"}, id=f"c{turn}")),
            ("bot", "user", result_part("look", _object(search(turn % 2, 60)), id=f"c{turn}")),
            ("bot", "model", Part(text="Done.")),
        )
        for author, role, part in spoken:
            content = Content(role=role, parts=(part,))
            events.append(
                Event(
                    author=author, content=content, invocation_id=f"i{turn}", id=f"e{len(events)}"
                )
            )
    records = KeptEvidence(events)
    reduced = [rebuild_texts(one, records) for _, one in walk(events, C.auto(), "gpt-4o", [])]
    assert any(one.reduced for one in reduced)
    cut = [rebuild_texts(one, records) for _, one in walk(events, EVERY["truncate"], "gpt-4o", [])]
    assert any(one.lost for one in cut)
    moved = [one.diagnostics for _, one in walk(events, C.window(2), "gpt-4o", [])]
    assert any(said.code == "WEFT502" for diagnostics in moved for said in diagnostics)
    refused: list[BudgetExceeded] = []
    assert [*walk(events, C.default().budget(60), "gpt-4o", refused)] == []
    assert refused


def _object(value: Json) -> dict[str, Json]:
    assert isinstance(value, dict)
    return value
