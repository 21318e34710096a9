"""`recall` through an adapter that serves several conversations: each gets its own steps back."""

import re

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
    compactor.compact(talk_of("ann"), model="gpt-5", recalls=True)
    assert "ann 0 2" in compactor.recall(handle="#1", lines="3-3")
    compactor.compact(talk_of("bob", 3), model="gpt-5", recalls=True)  # nothing is folded in it
    assert "ann 0 2" in compactor.recall(handle="#1", lines="3-3")
    compactor.compact(talk_of("bob"), model="gpt-5", recalls=True)
    answer = compactor.recall(handle="#1", lines="3-3")
    assert "2 conversations have something under '#1'" in answer
    assert WORDS not in answer


def test_a_conversation_that_goes_on_stays_one(compactor: HostCompactor) -> None:
    for steps in range(1, 41):
        compactor.compact(talk_of("ann", steps), model="gpt-5", recalls=True)
    for number in range(31):  # of others the newest request alone is remembered
        compactor.compact(talk_of(f"eve{number}", 1), model="gpt-5", recalls=True)
    assert "ann 0 2" in compactor.recall(handle="#1", lines="3-3")


def test_a_request_without_a_name_is_answered_to_who_has_one(compactor: HostCompactor) -> None:
    compactor.compact(talk_of("ann"), model="gpt-5", recalls=True)
    compactor.compact(talk_of("bob"), model="gpt-5", recalls=True, conversation="bob")
    assert "ann 0 2" in compactor.recall("ann", handle="#1", lines="3-3")
    assert "bob 0 2" in compactor.recall("bob", handle="#1", lines="3-3")
