"""H3: calls and results, however late, mixed, reused or lost."""

from tests.peers.logs import BOT, asks, codes, gets, turns
from tests.support.build import make_event
from weft import Part
from weft.content import FunctionCall, call_part, result_part

PENDING = '{"status":"pending: this call is still running"}'
LOST = '{"error":"no result was recorded for this call"}'


def test_H3_only_the_call_that_is_marked_waits_and_its_neighbour_is_lost() -> None:
    log = make_event("user", "go"), asks("slow", "quick", long_running_tool_ids=("slow",))
    assert turns(BOT, *log)[-1] == f"user: slow = {PENDING} | quick = {LOST}"
    assert codes(BOT, *log) == ["WEFT201"]


def test_H3_a_lost_result_does_not_touch_the_one_that_came() -> None:
    log = make_event("user", "go"), asks("a", "b"), gets("a")
    assert turns(BOT, *log)[-1] == f'user: a = {{"r":1}} | b = {LOST}'


def test_H3_the_last_word_of_a_slow_tool_replaces_its_progress_and_what_was_said_stays() -> None:
    log = (
        make_event("user", "go"),
        asks("slow", "quick", long_running_tool_ids=("slow",)),
        gets("slow", "quick", value="half way"),
        make_event("bot", "Still at it."),
        gets("slow", author="user", value="done", inv="2"),
        make_event("bot", "Finished.", inv="2"),
        make_event("user", "What next?", inv="3"),
    )
    assert turns(BOT, *log) == [
        "user: go",
        "model: slow() | quick()",
        'user: slow = {"r":"done"} | quick = {"r":"half way"}',
        "model: Still at it. | Finished.",
        "user: What next?",
    ]
    assert codes(BOT, *log) == []


def test_H3_words_beside_a_result_are_kept() -> None:
    log = (
        make_event("user", "go"),
        make_event("bot", "I will.", call_part("a", {}, id="a")),
        make_event("user", "before", result_part("a", {"r": 1}, id="a"), "after"),
    )
    assert turns(BOT, *log)[1:] == ["model: I will. | a()", 'user: a = {"r":1} | before | after']


def test_H3_an_event_with_a_call_and_its_result_is_told_as_the_turns_it_stands_for() -> None:
    call, result = call_part("a", {}, id="a"), result_part("a", {"r": 1}, id="a")
    log = (
        make_event("user", "go"),
        make_event("bot", "First.", call, result, "So."),
        make_event("user", "Thanks"),
    )
    assert turns(BOT, *log) == [
        "user: go",
        "model: First. | a()",
        'user: a = {"r":1}',
        "model: So.",
        "user: Thanks",
    ]
    assert codes(BOT, *log) == []


def test_H3_an_event_that_answers_one_call_and_makes_another_keeps_both() -> None:
    relay = make_event("bot", result_part("a", {"r": 1}, id="a"), call_part("b", {}, id="b"))
    log = make_event("user", "go"), asks("a"), relay, gets("b")
    assert turns(BOT, *log)[1:] == [
        "model: a()",
        'user: a = {"r":1}',
        "model: b()",
        'user: b = {"r":1}',
    ]


def test_H4_a_call_and_a_result_marked_as_thoughts_are_still_a_call_and_a_result() -> None:
    made = Part(function_call=FunctionCall(name="a", id="a", args={}), thought=True)
    log = (
        make_event("user", "go"),
        make_event("bot", Part(text="hm", thought=True), made),
        gets("a"),
    )
    assert turns(BOT, *log)[1:] == ["model: a()", 'user: a = {"r":1}']


def test_H3_results_without_ids_go_to_calls_of_their_name_in_order() -> None:
    log = (
        make_event("user", "go"),
        make_event("bot", call_part("f", {"n": 1}), call_part("f", {"n": 2})),
        make_event("bot", result_part("f", {"r": 1}), result_part("f", {"r": 2}), role="user"),
    )
    assert turns(BOT, *log)[-1] == 'user: f = {"r":1} | f = {"r":2}'


def test_H3_a_result_that_answers_nothing_is_told_with_a_diagnostic_and_no_crash() -> None:
    log = make_event("user", "Hi"), gets("ghost", author="user")
    assert turns(BOT, *log) == ['user: Hi | [ghost returned] {"r":1}']
    assert codes(BOT, *log) == ["WEFT202"]
