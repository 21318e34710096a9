"""A run is judged from the stored logs: what is planted there must be found, and nothing else."""

import asyncio
from collections.abc import Callable, Sequence

import msgspec
import pytest

from weft import Event, Runner
from weft.load.plan import LoadPlan, PlannedTurn
from weft.load.program import JournalLine, make_agent
from weft.load.report import Counts, Fault, TakeOver, find_take_overs, judge_session

PLAN = LoadPlan(sessions=1, turns=3, latency=0.0, run="planted")
TURNS = PLAN.schedule()
EFFECTS = {turn.request_id: 1 for turn in TURNS}


def stored_log() -> list[Event]:
    """The log of a session in which nothing is wrong."""

    async def talk() -> list[Event]:
        runner = Runner(make_agent(latency=0.0))
        for turn in TURNS:
            result = await runner.run(
                turn.message,
                user_id=turn.key.user_id,
                session_id=turn.key.id,
                request_id=turn.request_id,
            )
        return list(result.session.events)

    return asyncio.run(talk())


LOG = stored_log()


def judged(events: Sequence[Event], effects: dict[str, int]) -> dict[str, int]:
    """What is counted of a log, without the zeros."""
    counts = Counts()
    judge_session(TURNS, events, effects, counts)
    assert bool(counts.total) == bool(counts.examples)
    return {
        name: getattr(counts, name)
        for name in Counts.__struct_fields__
        if name != "examples" and getattr(counts, name)
    }


def turn_events(turn: PlannedTurn) -> list[Event]:
    return [event for event in LOG if event.invocation_id == turn.request_id]


def again(events: Sequence[Event]) -> list[Event]:
    """The same events under another invocation, as a message that was sent twice has them."""
    return [
        msgspec.structs.replace(event, invocation_id="other", id=f"{event.id}2") for event in events
    ]


def test_a_log_in_which_nothing_is_wrong() -> None:
    assert judged(LOG, EFFECTS) == {}
    counts = Counts()
    times = judge_session(TURNS, LOG, EFFECTS, counts)
    assert list(times) == [turn.request_id for turn in TURNS]
    assert list(times.values()) == sorted(times.values())


FIRST, SECOND, THIRD = map(turn_events, TURNS)

PLANTED: list[tuple[str, Callable[[], list[Event]], dict[str, int]]] = [
    ("a turn is gone", lambda: FIRST + THIRD, {"lost_messages": 1, "lost_answers": 1}),
    ("an answer is gone", lambda: LOG[:-1], {"lost_answers": 1}),
    (
        "a message and its answer come again later",
        lambda: [*LOG, *again(FIRST)],
        {"doubled_messages": 1, "doubled_answers": 1},
    ),
    ("an answer is there twice", lambda: [*LOG, *again(LOG[-1:])], {"doubled_answers": 1}),
    ("two turns changed places", lambda: SECOND + FIRST + THIRD, {"out_of_order": 1}),
    (
        "a turn goes on after the next one began",
        lambda: FIRST[:2] + SECOND + FIRST[2:] + THIRD,
        {"interleaved": 1},
    ),
]


@pytest.mark.parametrize(("what", "log", "expected"), PLANTED, ids=[one[0] for one in PLANTED])
def test_what_is_planted_in_a_log_is_found(
    what: str, log: Callable[[], list[Event]], expected: dict[str, int]
) -> None:
    assert judged(log(), EFFECTS) == expected


def test_effects_are_counted_by_their_rows() -> None:
    first, second, third = EFFECTS
    assert judged(LOG, {first: 1, second: 3}) == {"lost_effects": 1, "doubled_effects": 2}
    assert third


def test_a_turn_that_ended_with_an_error_failed_and_is_not_lost() -> None:
    failed = [*LOG[:-1], msgspec.structs.replace(LOG[-1], content=None, error_code="model")]
    assert judged(failed, EFFECTS) == {"failed": 1}


def test_who_went_on_with_a_turn_is_in_the_journals() -> None:
    faults = [Fault("kill", 10.0, 10.0, 1), Fault("stop", 20.0, 35.0, 2), Fault("restart", 30, 31)]
    journal = [
        JournalLine(9.0, 1, "asked", "open"),
        JournalLine(9.1, 1, "asked", "over"),
        JournalLine(9.2, 3, "asked", "of another"),
        JournalLine(10.7, 2, "asked", "open"),
        JournalLine(19.9, 2, "booked", "stopped"),
    ]
    answered = {"open": 11.0, "over": 9.5, "of another": 11.0, "stopped": 35.5}
    assert find_take_overs(faults, journal, answered) == [
        TakeOver(0, "open", pytest.approx(0.7), elsewhere=True),
        TakeOver(1, "stopped", pytest.approx(15.5), elsewhere=False),
    ]
