"""Budgets are never exceeded, never keep less for more, and keep order, pairs and questions."""

import random

import pytest

from tests.support import budgets
from tests.support.build import make_event
from weft import Agent, C, Content, Event, Part, Session, compile
from weft.content import call_part, result_part
from weft.errors import WeftError
from weft.passes.shorten import stride_for

CASES = 250
"""How many random sessions are tried here; `bench/budget.py` tries 10,000."""


@pytest.mark.parametrize("model", range(len(budgets.MODELS)), ids=budgets.MODELS)
def test_what_must_hold_for_any_budget_holds(model: int) -> None:
    met = sum(budgets.check(seed) for seed in range(model, CASES, len(budgets.MODELS)))
    assert met > CASES // len(budgets.MODELS), "hardly any budget was met, so little was tried"


def test_what_must_hold_holds_for_budgets_that_fold() -> None:
    seeds = range(30, 30 + len(budgets.MODELS))  # one of them pins what the user said
    assert sum(budgets.check(seed, long=True) for seed in seeds) > 2 * len(budgets.MODELS)


def test_a_budget_that_is_larger_by_any_amount_never_keeps_less() -> None:
    one = budgets.case(11)._replace(policy=C.default())
    kept: list[tuple[int, int]] = []
    for tokens in range(300, 3000, 13):
        made = one.under(tokens, "drop")
        if made is not None:
            kept.append((tokens, len(made.prompt.items)))
    sizes = [size for _, size in kept]
    assert sizes == sorted(sizes), kept
    assert len(set(sizes)) > 3


def test_what_is_given_up_goes_in_strides_that_keep_the_law() -> None:
    for excess in random.Random(4).sample(range(1, 5000), 40):
        left: list[int] = []
        for limit in range(4, 3000, 7):
            stride, aim = stride_for(limit)
            assert limit // 8 <= stride <= limit // 4
            assert aim * 8 >= limit * 7
            over = excess + 3000 - aim
            left.append(excess + 3000 - -(-over // stride) * stride)
        assert left == sorted(left), excess


def test_requests_between_two_cuts_extend_each_other() -> None:
    agent = Agent("bot", model="gpt-4.1", tools=[budgets.look])
    dice = random.Random(7)
    session = Session("s")
    broken = steps = 0
    for turn in range(60):
        for author, role in (("user", "user"), ("bot", "model")):
            text = budgets.prose(dice, 40)
            session = session.append(make_event(author, text, role=role, inv=f"i{turn}"))
        message = compile(agent.sees(C.default().budget(4000)), session=session, message="Go on.")
        steps += 1
        broken += message.prefix_break is not None
    assert steps == 60
    assert broken * 5 <= steps


def test_a_question_that_went_by_itself_is_back_when_it_may_go_with_its_answers_only() -> None:
    """Two questions follow each other: the first goes alone while the second is being answered."""
    events = [
        _said("user", "look at the list", 1, "i0"),
        _said("bot", "the list, " * 60, 2, "i0"),
        _said("user", "write to Jane", 3, "i1"),
        _said("user", "go on", 4, "i2"),
        *(_said("bot", f"line {n}, " * 40, n, "i2") for n in range(5, 12)),
        _said("user", "and now?", 12, "i3"),
    ]
    agent = Agent("bot", model="gpt-5")
    grown: list[int] = []
    for tokens in range(150, 1_100, 10):
        seen = agent.sees(C.default().budget(tokens, overflow="drop"))
        session = Session("s")
        for number, event in enumerate(events, 1):
            session = session.append(event)
            cold = _outcome(seen, Session("s", events=events[:number]))
            for _ in range(2):
                if _outcome(seen, session) != cold:
                    grown.append(tokens)
    assert grown == []


def test_a_budget_that_drops_saves_nothing_by_references_to_later_results() -> None:
    """What went earlier is counted as it was: where things only go, nothing gets shorter first."""
    rows = "\n".join(f"row {n}: {n * n} and some words" for n in range(12))
    events: list[Event] = []
    for turn in range(10):
        events.append(_said("user", f"look {turn}", len(events), f"i{turn}"))
        for number in range(3):
            one = f"c{turn}.{number}"
            call = call_part("look", {"n": 0}, id=one)
            result = result_part("look", {"result": rows}, id=one)
            for role, part in (("model", call), ("user", result)):
                content = Content(role=role, parts=(part,))
                events.append(Event("bot", content, invocation_id=f"i{turn}", id=f"e{len(events)}"))
        events.append(_said("bot", "Done.", len(events), f"i{turn}"))
    agent = Agent("bot", model="gpt-5", tools=[look])
    differ: list[tuple[int, int]] = []
    for tokens in (1_200, 1_800, 2_600):
        seen = agent.sees(C.auto(careful=True).budget(tokens, overflow="drop"))
        session = Session("s")
        for number, event in enumerate(events, 1):
            session = session.append(event)
            cold = _outcome(seen, Session("s", events=events[:number]))
            if any(_outcome(seen, session) != cold for _ in range(2)):
                differ.append((tokens, number))
    assert differ == []


def look(n: int) -> str:
    """Look."""
    return str(n)


def _said(author: str, text: str, number: int, invocation: str) -> Event:
    content = Content(role="user" if author == "user" else "model", parts=(Part(text=text),))
    return Event(author, content, invocation_id=invocation, id=f"e{number}")


def _outcome(agent: Agent, session: Session) -> object:
    try:
        return compile(agent, session=session).wire
    except WeftError as error:
        return str(error)
