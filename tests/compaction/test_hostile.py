"""Laws of `weft.compact` over conversations that grow, fork, are cut and are spoiled.

`WEFT_HISTORIES` sets another number of them; `python bench/fuzz.py --histories 20000` is quicker.
"""

import os

import pytest

import weft
from tests.compaction.judge import is_legal, new_problems
from tests.compaction.laws import faults_of
from tests.compaction.talks import TALKS, Wire, talk_in
from weft import C
from weft.errors import BudgetExceeded

HISTORIES = int(os.environ.get("WEFT_HISTORIES", "48"))
START = int(os.environ.get("WEFT_FIRST_HISTORY", "0"))

FOUND = (38, 44, 205, 629, 859, 1448, 31109, 32242, 107974)
"""Seeds that a law did not hold for once."""


@pytest.mark.parametrize("first", range(START, START + HISTORIES, 12))
def test_an_odd_conversation_breaks_no_law(first: int) -> None:
    for seed in range(first, first + 12):
        _, faults = faults_of(seed)
        assert not faults, f"seed {seed}"


@pytest.mark.parametrize("seed", FOUND)
def test_a_law_that_was_broken_once_holds(seed: int) -> None:
    assert not faults_of(seed)[1]


@pytest.mark.parametrize("dialect", TALKS)
def test_the_judge_tells_what_is_legal(dialect: str) -> None:
    talk = TALKS[dialect]
    request = talk_in(dialect, steps=2)
    assert is_legal(dialect, request)
    for at, message in enumerate(talk.messages(request)):
        if "result" in str(message) or "output" in str(message) or message.get("role") == "tool":
            rest = [one for index, one in enumerate(talk.messages(request)) if index != at]
            assert new_problems(dialect, request, talk.with_messages(request, rest))


def test_a_tool_of_the_callers_that_is_named_recall_stays_the_only_one() -> None:
    request: Wire = talk_in("openai-chat", steps=6)
    request["tools"][0]["function"]["name"] = "recall"
    for policy in (C.auto().budget(6_000), C.default().compact(), C.auto()):
        compacted = weft.compact(request, policy)
        after = compacted.request
        assert isinstance(after, dict)
        assert after["tools"] == request["tools"]
        assert not any(one.handle for one in compacted.left_out)
        assert "WEFT711" in [one.code for one in compacted.diagnostics]


def test_what_cannot_be_left_out_counts_for_a_budget() -> None:
    talk = TALKS["openai-chat"]
    request = talk_in("openai-chat", steps=20)
    part = {"type": "unheard_of", "text": "gauge " * 3_000}
    unknown = {**talk.user(""), "content": [part]}
    request = talk.with_messages(request, [unknown, *talk.messages(request)])
    plain = weft.compact(request, C.default()).tokens
    for tokens in (plain - 400, plain * 3 // 4, 4_000):
        compacted = weft.compact(request, C.default().budget(tokens))
        assert compacted.tokens <= tokens
        assert unknown in talk.messages(compacted.request)
    with pytest.raises(BudgetExceeded, match=r"tokens stay of the request, and the budget is 2000"):
        weft.compact(request, C.default().budget(2_000))
