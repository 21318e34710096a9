"""H6, H7: where the current turn begins, for an agent that sees no more."""

import pytest

from tests.peers.logs import BOT, asks, codes, gets, turns
from tests.support.build import make_event
from weft import Actions, C, Session, compile

ALONE = BOT.sees(C.none())
BEFORE = make_event("user", "Old", inv="0"), make_event("bot", "Answer", inv="0")


def test_H7_only_the_current_message_is_seen() -> None:
    assert turns(ALONE, *BEFORE, make_event("user", "Now", inv="1")) == ["user: Now"]


def test_H7_own_tool_traffic_of_the_turn_is_seen() -> None:
    log = *BEFORE, make_event("user", "Now"), asks("a"), gets("a")
    assert turns(ALONE, *log) == ["user: Now", "model: a()", 'user: a = {"r":1}']


def test_H6_a_result_posted_in_a_later_invocation_continues_the_turn_of_its_call() -> None:
    asked = make_event("user", "Now", inv="1"), asks("slow", long_running_tool_ids=("slow",))
    log = *BEFORE, *asked, gets("slow", author="user", inv="2")
    assert turns(ALONE, *log) == ["user: Now", "model: slow()", 'user: slow = {"r":1}']
    assert codes(ALONE, *log) == []


def test_H6_a_result_reaches_back_over_another_turn() -> None:
    log = (
        *BEFORE,
        make_event("user", "Now", inv="1"),
        asks("slow", long_running_tool_ids=("slow",)),
        make_event("user", "By the way", inv="2"),
        make_event("bot", "Yes?", inv="2"),
        gets("slow", author="user", inv="3"),
    )
    assert turns(ALONE, *log) == [
        "user: Now",
        "model: slow()",
        'user: slow = {"r":1} | By the way',
        "model: Yes?",
        "user: Continue.",
    ]


@pytest.mark.parametrize("ids", ["1234", "1111", ["", "", "", ""]], ids=["each", "one", "none"])
def test_H6_the_users_message_is_in_view_however_invocations_are_numbered(ids: list[str]) -> None:
    log = (
        make_event("user", "Old", inv=""),
        make_event("bot", "Answer", inv=""),
        make_event("user", "Now", inv=ids[0]),
        make_event("helper", "Aside", inv=ids[1]),
        asks("a", inv=ids[2]),
        gets("a", inv=ids[3]),
    )
    assert turns(ALONE, *log) == ["user: Now", "model: a()", 'user: a = {"r":1}']


def test_H7_an_answer_to_another_agents_question_is_not_its_business() -> None:
    question = asks("ask", author="other", long_running_tool_ids=("ask",))
    log = make_event("user", "Now"), question, gets("ask", author="user")
    assert turns(ALONE, *log) == ["user: Now"]
    assert codes(ALONE, *log) == []


def test_H6_a_result_that_answers_no_call_does_not_bring_the_history_back() -> None:
    log = *BEFORE, make_event("user", "Now", inv="1"), gets("ghost", author="user", inv="2")
    assert turns(ALONE, *log) == ['user: Now | [ghost returned] {"r":1}']


def test_H6_a_hand_over_does_not_hide_what_the_user_asked() -> None:
    log = (
        *BEFORE,
        make_event("user", "Now"),
        asks("transfer_to_agent", author="root"),
        gets("transfer_to_agent", author="root"),
        make_event("root", actions=Actions(transfer_to_agent="bot")),
    )
    assert turns(ALONE, *log) == ["user: Now"]


def test_H2_branches_bound_the_turn_too() -> None:
    log = (
        make_event("user", "Now", branch="root"),
        make_event("sibling", "mine", branch="root.left"),
        make_event("cousin", "yours", branch="root.right"),
    )
    assert turns(ALONE, *log, branch="root.left") == ["user: Now"]
    seen = turns(BOT, *log, branch="root.left")
    assert seen == ["user: Now | [sibling]: mine"]


@pytest.mark.parametrize("agent", [ALONE, BOT.sees(C.nothing())], ids=["none", "nothing"])
def test_an_empty_log_still_gives_a_request(agent: object) -> None:
    assert turns(agent) == ["user: Continue."]  # type: ignore[arg-type]


def test_step_by_step_is_the_same_turn() -> None:
    log = [
        *BEFORE,
        make_event("user", "Now", inv="1"),
        asks("slow", long_running_tool_ids=("slow",)),
        make_event("bot", "Wait.", inv="1"),
        gets("slow", author="user", inv="2"),
        make_event("bot", "Done.", inv="2"),
        make_event("user", "Next", inv="3"),
    ]
    grown = Session("s")
    for index, event in enumerate(log):
        grown = grown.append(event)
        cold = Session("s", events=log[: index + 1])
        assert compile(ALONE, session=grown).wire == compile(ALONE, session=cold).wire
