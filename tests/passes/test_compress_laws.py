"""Laws of reducing items, over random sessions."""

import base64
import json
import random
from collections.abc import Iterator

import pytest

import weft
from weft import Agent, C
from weft.compiler.tools import values_of
from weft.content import Content, Part, call_part, result_part
from weft.declare import Policy
from weft.ir import CallBlock, Prompt, ResultBlock, TextBlock
from weft.passes import Views, name_of, passes_of
from weft.passes.env import Env, TokenFacts
from weft.session import Event, Session
from weft.tokens import counter_for
from weft.values import JsonObject, compact

BIRTH = (
    C.default().compact(results=120, texts=200, media=None, to=80),
    C.default().project(exclude=["trace", "rows[].blob"]),
    C.default().project(fields=["rows.id", "status"]).compact(results=100, to=64),
    C.default().dedupe("exact"),
    C.default().compact(results=200, to=64).dedupe(),
)
"""Policies that never change what was sent, as long as no user says much."""
ALL = (
    *BIRTH,
    C.default().truncate(40),
    C.default().truncate(30, keep="tail"),
    C.default().truncate(50, keep="bookend"),
    C.default().dedupe("superseded"),
    C.window(3).compact(results=64, texts=64, to=64).truncate(200),
)
SCRAPS = (
    "the gauge rose",
    "東京都に住んでいます",
    "👩‍👩‍👧‍👦🇳🇴",
    "ERROR worker-3: TimeoutError",
    "a_b/c.py:12",
)
SEEDS = range(16)


def response_of(rng: random.Random) -> JsonObject:
    size = rng.choice((1, 6, 80))
    words = rng.choices(SCRAPS, k=size)
    match rng.randrange(7):
        case 0:
            return {"result": " ".join(words)}
        case 1:
            return {
                "result": "\n".join(f"10:00:{n % 60:02} {word}" for n, word in enumerate(words))
            }
        case 2:
            return {"result": base64.b64encode(rng.randbytes(size * 10)).decode()}
        case 3:
            return {"error": "\n".join(words)}
        case 4:
            rows = [{"id": n, "blob": word * 3} for n, word in enumerate(words)]
            return {"status": "ok", "rows": rows, "trace": "x" * size}  # type: ignore[dict-item]
        case 5:
            return {"result": json.dumps([{"id": n, "w": word} for n, word in enumerate(words)])}
        case _:
            return {"result": "the same every time " * 40}


def events_of(rng: random.Random, turns: int) -> Iterator[Event]:
    number = 0

    def event(author: str, turn: int, role: str, *parts: Part) -> Event:
        nonlocal number
        number += 1
        return Event(
            author=author,
            content=Content(role=role, parts=parts),
            invocation_id=f"i{turn}",
            id=f"e{number}",
            timestamp=float(number),
        )

    for turn in range(turns):
        yield event("user", turn, "user", Part(text=rng.choice(SCRAPS)))
        for step in range(rng.randint(0, 3)):
            ids = [f"c{turn}_{step}_{n}" for n in range(rng.randint(1, 2))]
            args: JsonObject = {"path": rng.choice("abc")}
            yield event("bot", turn, "model", *(call_part("look", args, id=one) for one in ids))
            held = [result_part("look", response_of(rng), id=one) for one in ids]
            yield event("bot", turn, "user", *held)
        if rng.random() < 0.3:
            text = "\n".join(rng.choices(SCRAPS, k=rng.choice((2, 90))))
            yield event("helper", turn, "model", Part(text=text))
        yield event("bot", turn, "model", Part(text=rng.choice(SCRAPS)))


def agent_with(policy: Policy, model: str = "gpt-5") -> Agent:
    return Agent("bot", model=model, context=policy)


def prompt_of(session: Session, policy: Policy, model: str = "gpt-5") -> Prompt:
    return weft.compile(agent_with(policy, model), session=session, message="Go on").prompt


def texts_of(prompt: Prompt) -> int:
    count = counter_for("gpt-5").count
    total = 0
    for block in prompt.blocks:
        if isinstance(block, ResultBlock):
            total += count(compact(block.response))
        elif isinstance(block, TextBlock):
            total += count(block.text)
    return total


@pytest.mark.parametrize("policy", ALL, ids=str)
def test_order_and_pairs_are_kept_and_tokens_never_grow(policy: Policy) -> None:
    for seed in SEEDS:
        session = Session("s", events=list(events_of(random.Random(seed), 5)))
        short, whole = prompt_of(session, policy), prompt_of(session, C.default())
        order = [item.event for item in whole.items]
        kept = [item.event for item in short.items]
        assert kept == [event for event in order if event in kept]
        if "window" not in str(policy):
            assert kept == order
        for item in short.items:
            calls = [block.id for block in item.blocks if isinstance(block, CallBlock)]
            answered = [block.call_id for block in item.blocks if isinstance(block, ResultBlock)]
            assert calls == answered
        assert texts_of(short) <= texts_of(whole)


@pytest.mark.parametrize("policy", ALL, ids=str)
def test_a_pass_that_ran_changes_nothing_the_second_time(policy: Policy) -> None:
    passes = passes_of(policy, "bot")
    mine = [
        one
        for group in (*passes.fresh, *passes.request)
        for branch in (
            [v.passes for v in group.branches] if isinstance(group, Views) else [(group,)]
        )
        for one in branch
        if name_of(one).startswith(("compact_", "truncate_", "dedupe_items", "project_"))
    ]
    assert mine
    env = Env(
        agent="bot", policy=policy, tokens=TokenFacts(count=counter_for("gpt-5").count), turn=10
    )
    for seed in SEEDS:
        session = Session("s", events=list(events_of(random.Random(seed), 4)))
        prompt = prompt_of(session, C.default())
        for one in mine:
            once = one(prompt, env)
            again = one(once, env)
            assert again is once or [i.blocks for i in again.items] == [
                i.blocks for i in once.items
            ]
            prompt = once


@pytest.mark.parametrize("model", ["gpt-5", "claude-opus-4-7", "gemini-3-pro"])
@pytest.mark.parametrize("policy", BIRTH, ids=str)
def test_each_request_begins_with_the_one_before_byte_for_byte(policy: Policy, model: str) -> None:
    agent = agent_with(policy, model)
    for seed in (1, 2, 3):
        session = Session("s")
        sent = ""
        for event in events_of(random.Random(seed), 5):
            answers = event.author == "bot" and event.content is not None
            if answers and event.content is not None and event.content.role == "model":
                made = weft.compile(agent, session=session)
                turns = "\n".join(compact(item.blocks) for item in made.prompt.items)
                assert turns.startswith(sent)
                sent = turns
                fresh = weft.compile(agent, session=Session("s", events=list(session.events)))
                assert compact(fresh.wire) == compact(made.wire)
            session = session.append(event)


def test_every_handle_in_a_request_is_found_in_the_log() -> None:
    import re

    policy = C.default().project(exclude=["trace"]).compact(results=80, texts=100, to=64)
    found = 0
    for seed in SEEDS:
        session = Session("s", events=list(events_of(random.Random(seed), 5)))
        text = str(prompt_of(session, policy))
        handles = set(re.findall(r'handle(?:":"| )([0-9a-f]{12})', text))
        found += len(handles)
        assert handles <= {one.handle for one in values_of(session.events)}
    assert found > len(SEEDS)


def test_a_compacted_result_takes_no_more_than_it_may() -> None:
    count = counter_for("gpt-5").count
    policy = C.default().compact(results=90, to=70)
    for seed in SEEDS:
        session = Session("s", events=list(events_of(random.Random(seed), 5)))
        for block in prompt_of(session, policy).blocks:
            if isinstance(block, ResultBlock) and "handle" in compact(block.response)[:20]:
                held = list(block.response.values())
                text = held[0] if len(held) == 1 else compact(block.response)
                # what must not be hidden may take as much as what is left whole
                assert count(str(text)) <= 90
