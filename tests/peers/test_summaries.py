"""H4: summaries that stand for a stretch of the log, and rewinds that take one back."""

from tests.peers.logs import BOT, asks, codes, gets, turns
from tests.support.build import make_event
from weft import Actions, C, Content, Event, Part, Session, compile
from weft.session import Compaction


def at(time: float, author: str, text: str, inv: str = "1") -> Event:
    return make_event(author, text, inv=inv, timestamp=time)


def summary(start: float, end: float, text: str, time: float, inv: str = "s") -> Event:
    held = Compaction(start, end, Content(role="model", parts=(Part(text=text),)))
    return Event(author="user", invocation_id=inv, timestamp=time, actions=Actions(compaction=held))


def rewind(before: str, time: float) -> Event:
    actions = Actions(rewind_before_invocation_id=before)
    return Event(author="user", invocation_id=f"r{time}", timestamp=time, actions=actions)


TWO = at(1, "user", "One"), at(2, "bot", "Uno"), at(3, "user", "Two", "2"), at(4, "bot", "Dos", "2")


def test_a_summary_written_late_stands_where_its_events_stood() -> None:
    log = *TWO, at(5, "user", "Three", "3"), summary(1, 2, "Counting.", 6, "3")
    assert turns(BOT, *log) == [
        "user: [summary of earlier turns]: Counting. | Two",
        "model: Dos",
        "user: Three",
    ]


def test_a_wider_summary_replaces_a_narrow_one_and_overlapping_ones_both_stay() -> None:
    early, next_one = summary(1, 2, "S1", 2.5), at(5, "user", "Three", "3")
    wide, late = summary(1, 4, "S2", 4.5), summary(2, 4, "S2", 4.5)
    assert turns(BOT, *TWO[:2], early, *TWO[2:], wide, next_one) == [
        "user: [summary of earlier turns]: S2 | Three"
    ]
    assert turns(BOT, *TWO[:2], early, *TWO[2:], late, next_one) == [
        "user: [summary of earlier turns]: S1 | [summary of earlier turns]: S2 | Three"
    ]


def test_a_rewound_summary_gives_its_events_back() -> None:
    log = *TWO, summary(1, 2, "Gone.", 5, "2"), rewind("2", 6), at(7, "user", "Again", "3")
    assert turns(BOT, *log) == ["user: One", "model: Uno", "user: Again"]


def test_a_rewind_of_a_rewind_and_one_to_nowhere() -> None:
    again = at(6, "user", "Again", "3")
    log = *TWO, rewind("2", 5), again, rewind("1", 7), at(8, "user", "Fresh", "4")
    assert turns(BOT, *log) == ["user: Fresh"]
    assert turns(BOT, *TWO, rewind("9", 5), again)[-1] == "user: Again"


def test_H3_a_call_that_was_summed_up_comes_back_with_its_late_result_and_its_siblings() -> None:
    log = (
        at(1, "user", "Go"),
        asks("slow", "quick", long_running_tool_ids=("slow",), timestamp=2),
        Event(author="bot", invocation_id="1", timestamp=3, content=gets("slow", "quick").content),
        at(4, "bot", "Waiting."),
        summary(1, 4, "They wait.", 5),
        gets("slow", author="user", value="done", inv="2"),
    )
    assert turns(BOT, *log) == [
        "user: [summary of earlier turns]: They wait.",
        "model: slow() | quick()",
        'user: slow = {"r":"done"} | quick = {"r":1}',
    ]
    assert codes(BOT, *log) == []


def test_H7_a_summary_of_earlier_turns_is_not_of_this_turn() -> None:
    log = *TWO[:3], summary(1, 2, "Counting.", 4, "2")
    assert turns(BOT.sees(C.none()), *log) == ["user: Two"]


def test_step_by_step_equals_all_at_once() -> None:
    log = [*TWO, at(5, "user", "Three", "3"), summary(1, 2, "S", 6, "3"), at(7, "bot", "Tres", "3")]
    log += [rewind("3", 8), at(9, "user", "Four", "4"), summary(1, 4, "W", 10, "4")]
    grown = Session("s")
    for index, event in enumerate(log):
        grown = grown.append(event)
        cold = Session("s", events=log[: index + 1])
        assert compile(BOT, session=grown).wire == compile(BOT, session=cold).wire
