"""No digest takes more tokens than it may, whatever the value and whoever counts."""

import base64
import json
import random

import pytest

from weft.digest import reduced
from weft.tokens import counter_for
from weft.values import Json, compact, has_lone_surrogate

WORDS = [
    "error",
    "naïve",
    "漢字",
    "かな",
    "👨‍👩‍👧‍👦",
    "🇩🇪",
    "é",
    "x" * 40,
    "a.b.c/d_e",
    "\\u00e9",
    "\n",
    "\t",
    "{",
    '"',
]


def text_of(chance: random.Random) -> str:
    kind = chance.randrange(9)
    size = chance.choice([5, 50, 400])
    words = chance.choices(WORDS, k=size)
    match kind:
        case 0:
            return " ".join(words)
        case 1:
            return "".join(words)
        case 2:
            return base64.b64encode(chance.randbytes(size * 20)).decode()
        case 3:
            return json.dumps([{"id": n, "text": chance.choice(WORDS)} for n in range(size)])
        case 4:
            rows = range(size)
            return "\n".join(
                f"{n},{chance.choice('abc')},{chance.choice(['漢', 'x'])}" for n in rows
            )
        case 5:
            return "\n".join(f"2024-01-01 10:00:00 {chance.choice(WORDS)}" for _ in range(size))
        case 6:
            return "".join(f"<div><p>{word}</p></div>" for word in words)
        case 7:
            return chance.choice(["a", "-", " ", "\n", "漢", "👍🏽", "\ud83d", "&amp;"]) * size * 20
        case _:
            return "\n".join(f"{n}: def function_{n}({chance.choice(WORDS)})" for n in range(size))


def json_of(chance: random.Random, depth: int = 0) -> Json:
    kind = chance.randrange(6 if depth < 4 else 3)
    match kind:
        case 0:
            return chance.choice([None, True, 3, 2.5, 10**30, ""])
        case 1 | 2:
            return text_of(chance)[: chance.choice([10, 3_000])]
        case 3 | 4:
            return [json_of(chance, depth + 1) for _ in range(chance.randrange(8))]
        case _:
            keys = [f"{chance.choice(['id', 'status', 'k', '漢'])}{n}" for n in range(8)]
            return {key: json_of(chance, depth + 1) for key in keys[: chance.randrange(8)]}


@pytest.mark.parametrize("model", ["gpt-5", "claude-opus-4-7", "gemini-3-pro"])
def test_a_digest_never_exceeds_its_limit(model: str) -> None:
    chance = random.Random(model)
    count = counter_for(model).count
    for _ in range(150):
        value = text_of(chance) if chance.random() < 0.6 else json_of(chance)
        limit = chance.choice([1, 4, 20, 64, 300, 1_500])
        short = reduced(value, limit_tokens=limit, count=count)
        if isinstance(value, str):
            assert isinstance(short.value, str)
            assert count(short.value) <= limit
            assert count(short.value) <= count(value)
            assert has_lone_surrogate(short.value) <= has_lone_surrogate(value)
        else:
            assert count(compact(short.value)) <= max(limit, count("null"))
        if short.value != value:
            assert short.left_out


def test_a_digest_of_a_digest_is_the_digest() -> None:
    chance = random.Random(5)
    count = counter_for("gpt-5").count
    for _ in range(60):
        value = text_of(chance)
        once = reduced(value, limit_tokens=100, count=count).value
        assert reduced(once, limit_tokens=100, count=count).value == once
