"""`recall` through an adapter that serves several conversations: each gets its own steps back."""

import re
from contextvars import copy_context
from typing import Any

import pytest

from tests.compaction.talks import TALKS, Wire
from weft import C
from weft.interop.hosts import HostCompactor

CHAT = TALKS["openai-chat"]
WORDS = "wind river gauge rose over the weir and fell again"


def talk_of(who: str, steps: int = 40) -> list[Wire]:
    messages = [CHAT.user(f"I am {who}.")]
    for step in range(steps):
        text = "\n".join(f"{who} {step} {line} {WORDS}" for line in range(90))
        messages += CHAT.step(f"c{step}", "look", {"path": f"{who}{step}"}, text)
    return messages


@pytest.fixture
def compactor() -> HostCompactor:
    return HostCompactor(C.auto())


def compact_elsewhere(compactor: HostCompactor, talk: list[Wire], **options: Any) -> None:
    """Compact a request in another task than the one that asks for a recall."""
    copy_context().run(compactor.compact, talk, model="gpt-5", recalls=True, **options)


def test_a_number_of_a_step_means_that_of_the_conversation_that_asks(
    compactor: HostCompactor,
) -> None:
    for who in ("ann", "bob"):
        outcome = compactor.compact(talk_of(who), model="gpt-5", recalls=True, conversation=who)
        assert outcome is not None
        assert re.search(r"#1 look", str(outcome.request))
    for who in ("ann", "bob"):
        assert compactor.recall(who, handle="#1", lines="3-3") == (
            f"[lines 3-3 of 90]\n{who} 0 2 {WORDS}"
        )
    assert "there is no handle" in compactor.recall("eve", handle="#1")


def test_a_number_that_two_conversations_have_is_answered_to_neither(
    compactor: HostCompactor,
) -> None:
    compact_elsewhere(compactor, talk_of("ann"))
    assert "ann 0 2" in compactor.recall(handle="#1", lines="3-3")
    compact_elsewhere(compactor, talk_of("bob", 3))  # nothing is folded in it
    assert "ann 0 2" in compactor.recall(handle="#1", lines="3-3")
    compact_elsewhere(compactor, talk_of("bob"))
    answer = compactor.recall(handle="#1", lines="3-3")
    assert "2 conversations have something under '#1'" in answer
    assert WORDS not in answer


def test_who_asks_is_the_conversation_whose_request_went_out_in_this_task(
    compactor: HostCompactor,
) -> None:
    compact_elsewhere(compactor, talk_of("ann"))
    compactor.compact(talk_of("bob", 3), model="gpt-5", recalls=True)  # nothing is folded in it
    assert "there is no handle" in compactor.recall(handle="#1", lines="3-3")
    compactor.compact(talk_of("bob"), model="gpt-5", recalls=True)
    compact_elsewhere(compactor, talk_of("eve"))
    assert "bob 0 2" in compactor.recall(handle="#1", lines="3-3")
    # a request that failed has no steps, and is not the one before it
    compactor.compact([{"role": "nobody", "content": 3}], model="gpt-5", recalls=True)
    assert "there is no handle" in compactor.recall(handle="#1", lines="3-3")


def test_a_conversation_that_goes_on_stays_one(compactor: HostCompactor) -> None:
    for steps in range(1, 41):
        compact_elsewhere(compactor, talk_of("ann", steps))
    for number in range(31):  # of others the newest request alone is remembered
        compact_elsewhere(compactor, talk_of(f"eve{number}", 1))
    assert "ann 0 2" in compactor.recall(handle="#1", lines="3-3")


def test_a_request_without_a_name_is_answered_to_who_has_one(compactor: HostCompactor) -> None:
    compactor.compact(talk_of("ann"), model="gpt-5", recalls=True)
    compactor.compact(talk_of("bob"), model="gpt-5", recalls=True, conversation="bob")
    assert "ann 0 2" in compactor.recall("ann", handle="#1", lines="3-3")
    assert "bob 0 2" in compactor.recall("bob", handle="#1", lines="3-3")
