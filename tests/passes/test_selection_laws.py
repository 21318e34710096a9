"""Laws of selecting by relevance, by age and by room, over random sessions."""

import functools
import random
from collections.abc import Iterator

import pytest

import weft
from weft import Agent, C
from weft.compiler import Compilation, compile_request
from weft.content import Content, Part, call_part, result_part
from weft.declare import Policy
from weft.ir import CallBlock, Item, ResultBlock
from weft.meaning import is_installed
from weft.session import Event, Session
from weft.testing import make_session

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


def compiled(policy: Policy, seed: int) -> Compilation:
    asked = random.Random(seed).choice(ASKED)
    agent = Agent("bot", model="gpt-4o", context=policy)
    return compile_request(agent, session=session_of(seed), message=asked)


def items_of(made: Compilation) -> list[Item]:
    """The items that come from the log or are asked now."""
    return [item for item in made.prompt.items if item.event or item.author == "user"]


def taken(made: Compilation) -> int:
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
            compile_request(agent, session=grown, message="Who sells pianos?")
        fresh = Session("s", events=events)
        one = compile_request(agent, session=grown, message="Who sells pianos?")
        other = compile_request(agent, session=fresh, message="Who sells pianos?")
        assert one.wire == other.wire


def test_what_is_left_out_is_noted() -> None:
    for seed in SEEDS[:20]:
        made = compiled(C.relevant(top_k=2).fit(60), seed)
        whole = {item.event for item in items_of(compiled(C.default(), seed))}
        kept = {item.event for item in items_of(made)}
        left = {note.before.event for note in made.prompt.notes if note.after is None}
        assert whole - kept <= left


ODD = (
    "plain words about the harbour",
    "\u6f22\u5b57\u3068\u304b\u306a\u4ea4\u3058\u308a\u306e\u6587\u7ae0\u3067\u3059\u3002",
    "\U0001f642\U0001f643\U0001fae0\U0001f469\u200d\U0001f469\u200d\U0001f467\u200d\U0001f466" * 3,
    "\ufdfa\ufdfd" * 4,
    "\uff41\uff42\uff43\u3000\uff44\uff45\uff46",
    "e\u0301" * 20,
    "\u202eright to left\u202c",
    "x" * 90,
    "  \n\t ",
    "0123456789" * 5,
    "{}[]()<>;:,." * 4,
    "\ud800 lone",
    "\uff34\uff48\uff45\u3000\uff48\uff41\uff52\uff42\uff4f\uff55\uff52",
    "\u043a\u0438\u0440\u0438\u043b\u043b\u0438\u0446\u0430",
    "\u0928\u092e\u0938\u094d\u0924\u0947 \u0926\u0941\u0928\u093f\u092f\u093e",
)
FAMILIES = (
    "gpt-4o", "gpt-5", "openai-chat/gpt-5", "claude-sonnet-4-5", "claude-opus-5",
    "gemini-2.5-flash", "gemini-3-flash-preview", "ollama/anything",
)  # fmt: skip


@pytest.mark.parametrize("model", FAMILIES)
def test_a_request_never_exceeds_what_it_is_to_fit_by_the_count_it_reports(model: str) -> None:
    for seed in range(4):
        chance = random.Random(seed)
        lines: list[tuple[str, str]] = []
        for _ in range(chance.randrange(4, 60)):
            said = " ".join(chance.choices(ODD, k=chance.randrange(1, 6)))
            lines.append((chance.choice(["user", "bot", "friend"]), said))
        session = make_session(*lines)
        asked = " ".join(chance.choices(ODD, k=chance.randrange(1, 9)))
        for tokens in (600, 2048):
            for policy in policies(tokens)[:4]:
                agent = Agent("bot", model=model, context=policy)
                made = compile_request(agent, session=session, message=asked)
                assert made.tokens <= tokens, (seed, tokens, str(policy))
                counted = weft.count_tokens(made.wire, model=model, dialect=made.dialect)
                assert counted == made.tokens


def test_a_long_question_leaves_less_room_and_stays_whole() -> None:
    session = make_session(*[(who, f"about the harbour {n}") for n in range(80)
                             for who in ("user", "bot")])  # fmt: skip
    agent = Agent("bot", model="gpt-4o", context=C.relevant().fit(500))
    asked = "the harbour " * 150
    made = compile_request(agent, session=session, message=asked)
    assert made.tokens <= 500
    huge = compile_request(agent, session=session, message="the harbour " * 400)
    assert [item.author for item in huge.prompt.items] == ["user"]
