"""Laws of selecting by relevance, by age and by room, over random sessions."""

import functools
import random
from collections.abc import Iterator

import pytest

import weft
from weft import Agent, C
from weft.compiler import Compiled
from weft.content import Content, Part, call_part, result_part
from weft.declare import Policy
from weft.ir import CallBlock, Item, ResultBlock
from weft.meaning import is_installed
from weft.session import Event, Session

SCRAPS = (
    "the tax form is blue", "my sister sells old pianos in Bergen", "東京都に住んでいます",
    "order A-77 was shipped", "👩‍👩‍👧‍👦 the whole family came", "ERROR worker-3 timed out",
    '{"id": 42, "status": "open"}', "aGVsbG8gd29ybGQ=" * 8, "a cake needs four eggs",
)  # fmt: skip
ASKED = ("What colour is the tax form?", "Who sells pianos?", "東京?", "order A-77", "Thanks!", "x")
BUDGETS = (1, 20, 60, 150, 400, 1000, 3000)
SEEDS = range(60)


@functools.cache
def session_of(seed: int) -> Session:
    rng = random.Random(seed)
    return Session("s", events=list(_events(rng, rng.randint(0, 12))))


def _events(rng: random.Random, turns: int) -> Iterator[Event]:
    number = 0

    def event(author: str, turn: int, role: str, *parts: Part) -> Event:
        nonlocal number
        number += 1
        content = Content(role=role, parts=parts)
        return Event(
            author=author, content=content, invocation_id=f"i{turn}", id=f"e{number}",
            timestamp=float(number),
        )  # fmt: skip

    for turn in range(turns):
        said = " ".join(rng.choices(SCRAPS, k=rng.choice((1, 1, 2, 25))))
        yield event("user", turn, "user", Part(text=said))
        for step in range(rng.randint(0, 2)):
            ids = [f"c{turn}{step}{n}" for n in range(rng.randint(1, 2))]
            calls = [call_part("look", {"q": rng.choice(SCRAPS)}, id=one) for one in ids]
            yield event("bot", turn, "model", *calls)
            size = rng.choice((1, 3, 40))
            found = {"found": " ".join(rng.choices(SCRAPS, k=size))}
            yield event("bot", turn, "user", *(result_part("look", found, id=i) for i in ids))
        if rng.random() < 0.3:
            yield event("helper", turn, "model", Part(text=rng.choice(SCRAPS)))
        yield event("bot", turn, "model", Part(text=rng.choice(SCRAPS)))


def compiled(policy: Policy, seed: int) -> Compiled:
    asked = random.Random(seed).choice(ASKED)
    agent = Agent("bot", model="gpt-4o", context=policy)
    return weft.compile(agent, session=session_of(seed), message=asked)


def items_of(made: Compiled) -> list[Item]:
    """The items that come from the log or are asked now."""
    return [item for item in made.prompt.items if item.event or item.author == "user"]


def taken(made: Compiled) -> int:
    """What the items take that lie before the current turn."""
    return sum(made.scale.item(item) for item in items_of(made)[:-1])


def policies(tokens: int) -> list[Policy]:
    found = [
        C.relevant().fit(tokens),
        C.relevant(top_k=5).fit(tokens),
        C.default().fit(tokens),
        C.recent(half_life=3, min_score=0.2).fit(tokens),
    ]
    return [*found, C.relevant(scorer="embedding").fit(tokens)] if is_installed() else found


SELECTORS = (C.relevant(), C.relevant(top_k=3), C.recent(half_life=2), C.recent(decay=0.7))


@pytest.mark.parametrize("policy", SELECTORS, ids=str)
def test_order_roles_and_pairs_are_kept(policy: Policy) -> None:
    for seed in SEEDS:
        whole = items_of(compiled(C.default(), seed))
        kept = items_of(compiled(policy, seed))
        places = [item.key for item in whole]
        chosen = [places.index(item.key) for item in kept]
        assert chosen == sorted(set(chosen))
        assert all(whole[at].blocks == item.blocks for at, item in zip(chosen, kept, strict=True))
        for item in kept:
            calls = [block.id for block in item.blocks if isinstance(block, CallBlock)]
            results = [block.call_id for block in item.blocks if isinstance(block, ResultBlock)]
            assert calls == results
        assert kept[-1] == whole[-1]


def test_the_tokens_are_never_exceeded_and_more_room_is_used() -> None:
    for seed in SEEDS[:15]:
        for number in range(len(policies(1))):
            used = [0]
            for tokens in BUDGETS:
                size = taken(compiled(policies(tokens)[number], seed))
                assert size <= tokens
                assert size >= used[-1]
                used.append(size)


def test_the_newest_that_fit_are_all_in_a_larger_budget() -> None:
    for seed in SEEDS:
        kept: set[object] = set()
        for tokens in BUDGETS:
            now = {item.key for item in items_of(compiled(C.default().fit(tokens), seed))}
            assert kept <= now
            kept = now


def test_compiling_again_gives_the_same_bytes() -> None:
    for seed in SEEDS[:20]:
        for policy in policies(150):
            first = compiled(policy, seed).hash
            session_of.cache_clear()
            assert compiled(policy, seed).hash == first


def test_a_session_that_grew_compiles_as_one_that_was_read_anew() -> None:
    for seed in SEEDS[:20]:
        events = list(session_of(seed).events)
        agent = Agent("bot", model="gpt-4o", context=C.relevant().fit(150))
        grown = Session("s")
        for event in events:
            grown = grown.append(event)
            weft.compile(agent, session=grown, message="Who sells pianos?")
        fresh = Session("s", events=events)
        one = weft.compile(agent, session=grown, message="Who sells pianos?")
        other = weft.compile(agent, session=fresh, message="Who sells pianos?")
        assert one.wire == other.wire


def test_what_is_left_out_is_noted() -> None:
    for seed in SEEDS[:20]:
        made = compiled(C.relevant(top_k=2).fit(60), seed)
        whole = {item.event for item in items_of(compiled(C.default(), seed))}
        kept = {item.event for item in items_of(made)}
        left = {note.before.event for note in made.prompt.notes if note.after is None}
        assert whole - kept <= left
