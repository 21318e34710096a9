"""Random sessions of every kind of text, and what must hold for any budget on them."""

import base64
import json
import random
import re
from typing import NamedTuple

from weft import Agent, C, Content, Event, Part, Session
from weft.compiler import Compilation
from weft.compiler import compile_request as compile
from weft.compiler.count import Scale
from weft.content import call_part, result_part, text_part, thought_part
from weft.declare import Policy
from weft.errors import BudgetExceeded
from weft.ir import CallBlock, Item, Prompt, ResultBlock, TextBlock
from weft.ir.block import FOLDED
from weft.passes import Env
from weft.passes.budget import fit_budget
from weft.passes.env import TokenFacts
from weft.passes.fold import LEAST_BUDGET

MODELS = (
    "gemini-2.5-pro",
    "claude-sonnet-4-5",
    "openai-chat/gpt-4.1",
    "gpt-5.4",
    "ollama/unknown",
)
"""All four dialects, with tokenizers that are known and with counts that are estimated."""

WORDS = [
    "the",
    "flight",
    "to",
    "Oslo",
    "leaves",
    "gate",
    "seven",
    "at",
    "noon",
    "and",
    "returns",
    "on",
    "Friday",
]
SIGNS = "東京都港区の天気は晴れ時々曇り、最高気温は二十三度です。명동에서만나요"
FACES = ["🙂", "👍🏽", "👩‍👩‍👧‍👦", "🇳🇴", "❤️‍🔥", "e\u0301"]


def prose(dice: random.Random, length: int) -> str:
    return " ".join(dice.choice(WORDS) for _ in range(length))


def rows(dice: random.Random, length: int) -> str:
    kept = [{"id": dice.randrange(10**6), "status": dice.choice(WORDS)} for _ in range(length // 6)]
    return json.dumps(kept, indent=dice.choice([None, 2]))


def signs(dice: random.Random, length: int) -> str:
    return "".join(dice.choice(SIGNS) for _ in range(length))


def log_lines(dice: random.Random, length: int) -> str:
    level = ("INFO", "INFO", "WARN", "ERROR")
    lines = [
        f"2026-03-01T10:{dice.randrange(60):02}:07 {dice.choice(level)} job-{dice.randrange(999)}"
        f" {prose(dice, 4)}"
        for _ in range(length // 12 + 1)
    ]
    return "\n".join(lines)


def blob(dice: random.Random, length: int) -> str:
    return base64.b64encode(dice.randbytes(length)).decode()


def faces(dice: random.Random, length: int) -> str:
    return "".join(dice.choice(FACES) for _ in range(length // 3 + 1))


KINDS = (prose, rows, signs, log_lines, blob, faces)


def text(dice: random.Random, most: int = 160) -> str:
    return dice.choice(KINDS)(dice, dice.choice((3, 12, 40, most))) or "ok"


def look(q: str = "") -> str:
    """Look something up."""
    return q


def session(dice: random.Random, *, long: bool = False) -> Session:
    """A conversation of a few turns, with calls, thoughts and another agent's words."""
    events: list[Event] = []
    turns = dice.randrange(70, 130) if long else dice.randrange(1, 9)

    def say(author: str, role: str, *parts: Part) -> None:
        number = len(events)
        events.append(
            Event(
                author=author,
                content=Content(role=role, parts=parts),
                id=f"e{number}",
                invocation_id=f"i{turn}",
                timestamp=float(number),
            )
        )

    for turn in range(turns):
        if turn == 0 and dice.random() < 0.1:
            say("bot", "model", text_part("Welcome!"))
        say("user", "user", text_part(text(dice)))
        for step in range(dice.choice((0, 0, 1, 2, 4))):
            ids = [f"c{turn}.{step}.{one}" for one in range(dice.choice((1, 1, 2)))]
            before = [thought_part(prose(dice, 20))] if dice.random() < 0.2 else []
            say(
                "bot",
                "model",
                *before,
                *(call_part("look", {"q": text(dice, 20)}, id=one) for one in ids),
            )
            given = text(dice, 600)
            answers = [
                result_part(
                    "look", {"result": given if dice.random() < 0.3 else text(dice)}, id=one
                )
                for one in ids
            ]
            if turn == turns - 1 and dice.random() < 0.05:
                break
            say("bot", "user", *answers)
        if dice.random() < 0.15:
            say("helper", "model", text_part(text(dice)))
        if turn < turns - 1:
            say("bot", "model", text_part(text(dice)))
    return Session("s", state={"plan": text(dice, 60), "notes": ["a", "b"]}, events=events)


def view(dice: random.Random) -> Policy:
    """A policy without its budget."""
    tier = dice.randrange(1, 5)
    return dice.choice(
        (
            C.default(),
            C.default(),
            C.default().priority(dice.randrange(2, 5)),
            C.user().priority(tier) + C.default().priority(3),
            C.state("plan").priority(tier) + C.default(),
            C.window(3).priority(2) + C.user().priority(4),
            C.notes("notes").priority(4) + C.window(4),
            C.default().fence(),
            C.default().redact("pii"),
        )
    )


class Case(NamedTuple):
    """A session, who sees it, and how."""

    agent: Agent
    session: Session
    policy: Policy

    def under(self, tokens: int, overflow: str) -> "Compilation | None":
        """The request within a budget; None where it cannot be met."""
        policy = self.policy.budget(tokens, overflow=overflow)  # type: ignore[arg-type]
        try:
            return compile(self.agent.sees(policy), session=self.session)
        except BudgetExceeded:
            return None

    def whole(self) -> Compilation:
        """The request without a budget."""
        return compile(self.agent.sees(self.policy), session=self.session)


def case(seed: int, *, long: bool = False) -> Case:
    dice = random.Random(seed)
    instruction = "Answer in short words. " * dice.choice((1, 10))
    agent = Agent("bot", model=MODELS[seed % len(MODELS)], instruction=instruction, tools=[look])
    return Case(agent, session(dice, long=long), view(dice))


def check(seed: int, *, long: bool = False) -> int:
    """Everything that must hold, for one random session; how many budgets were met.

    Long ones have budgets that are kept by notes, in batches. So a larger budget may have a note of
    what a smaller one has whole: it was folded later. Below them nothing is folded, and every item
    that a smaller budget keeps stands in the request of a larger one.
    """
    one, dice = case(seed, long=long), random.Random(-seed)
    whole = one.whole()
    scale = Scale(whole.dialect, whole.prompt.model)
    most = round(whole.tokens * (1 + scale.counter.margin) * 1.15)
    least = LEAST_BUDGET if long else 20
    budgets = sorted(max(least, round(most * dice.random() ** 0.7)) for _ in range(3))
    overflow = dice.choice(("degrade", "degrade", "drop", "summarize"))
    before: Compilation | None = None
    met = 0
    for tokens in budgets:
        made = one.under(tokens, overflow)
        if before is not None:
            assert made is not None, f"{seed}: {tokens} is too little, but less was enough"
        if made is None:
            continue
        met += 1
        reserve = min(tokens // 10, 4096)
        bound = made.tokens * (1 + scale.counter.margin) + reserve
        assert bound <= tokens, f"{seed}: {bound} exceeds {tokens}"
        folded = _folded(made.prompt)
        assert not folded or tokens >= LEAST_BUDGET, f"{seed}: notes in a budget of {tokens}"
        _check_request(seed, whole.prompt, _without_summary(made.prompt), folded)
        _check_stays(seed, whole, made, scale)
        if before is not None and overflow != "summarize":
            _check_more(seed, before.prompt, made.prompt, scale)
        before = made
    return met


def _without_summary(made: Prompt) -> Prompt:
    """The prompt without what sums up the rest, which is no item of the conversation."""
    kept = [item for item in made.items if item.kind != "summary"]
    return made.with_items(kept)


def _folded(made: Prompt) -> set[int]:
    """The log positions of the items that stand in notes."""
    texts = (b.text for b in made.blocks if isinstance(b, TextBlock) and b.origin == FOLDED)
    return {int(one) for text in texts for one in re.findall(r"^#(\d+) ", text, re.MULTILINE)}


def _check_request(seed: int, whole: Prompt, made: Prompt, folded: set[int]) -> None:
    """Order and pairs are kept, and no answer stands without its question, or a note of it."""
    keys = [item.key for item in whole.items]
    kept = [item.key for item in made.items]
    places = [keys.index(key) for key in kept if key[1]]  # an opening turn is of no event
    assert places == sorted(set(places)), f"{seed}: the order changed"
    for item in made.items:
        calls = [block.id for block in item.blocks if isinstance(block, CallBlock)]
        results = [block.call_id for block in item.blocks if isinstance(block, ResultBlock)]
        assert item.open or calls == results, f"{seed}: a pair was torn apart"
    asked: list[Item] = []
    answered = False
    for item in whole.items:
        if item.kind in ("state", "summary", "system"):
            continue
        if item.kind == "user":
            asked = [item] if answered else [*asked, item]
            answered = False
            continue
        answered = True
        if item.key in kept:
            there = (one.key in kept or one.position in folded for one in asked)
            assert all(there), f"{seed}: an answer without a question"


def _check_stays(seed: int, whole: Compilation, made: Compilation, scale: Scale) -> None:
    """What the user asks now is untouched, tier 1 too; and a second time changes nothing."""
    forms = {item.key: item for item in made.prompt.items}
    said = [item for item in whole.prompt.items if item.kind == "user" and item.author == "user"]
    first = [item for item in whole.prompt.items if item.priority == 1]
    for item in (*said[-1:], *first):
        assert forms.get(item.key) == item, f"{seed}: what must stay is gone"
    env = Env(
        agent="bot",
        policy=made.policy,
        invocation=said[-1].invocation,
        turn=said[-1].position,
        tokens=TokenFacts(
            measure=scale.measure, count=scale.counter.count, margin=scale.counter.margin
        ),
    )
    assert fit_budget(made.prompt, env) is made.prompt, f"{seed}: fitting twice is not fitting"


def _check_more(seed: int, less: Prompt, more: Prompt, scale: Scale) -> None:
    """A larger budget keeps every item, or a note of it, and of none of them less."""
    forms = {item.key: item for item in more.items}
    folded = _folded(more)
    notes = folded | _folded(less)
    for item in less.items:
        if notes and (item.kind == "summary" or not item.event):
            continue  # a note, or the opening turn that one stands for
        if item.key not in forms:
            assert item.position in folded, f"{seed}: a larger budget dropped more"
        elif forms[item.key] != item:
            larger = scale.item(forms[item.key])
            assert larger >= scale.item(item), f"{seed}: a larger budget kept less"
