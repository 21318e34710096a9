"""Every kind of prices that the package has: wherever a run ends, it is hardly dearer."""

import json
from collections.abc import Sequence
from functools import cache
from itertools import accumulate, pairwise
from typing import NamedTuple

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from tests.support.build import calls, returns, user
from weft import Agent, C, Event, Session, tool
from weft.compiler import compile_request
from weft.compiler.costs import cost_of, lasting_cliffs, price_of
from weft.declare import Policy
from weft.dialects.facts import facts_for
from weft.dialects.price_list import price_list
from weft.passes.handles import AT_MOST

VENDORS = ("anthropic", "openai", "google")
STEPS = 40
UNSURE = 1.01
"""The declaration of `recall`, and that sizes are estimates when a fold is decided on."""


@tool
def measure(place: str) -> str:
    """Measure at a place."""
    return place


@cache
def models() -> tuple[str, ...]:
    """A model for each share that what was cached costs, asked for or not, from a length on."""
    kinds: dict[tuple[bool, int, float], str] = {}
    for seller in price_list().sellers:
        for listing in seller.listings if seller.id in VENDORS else ():
            amounts, facts = listing.amounts, facts_for(listing.id)
            if amounts.input and amounts.cache_read and facts.known and facts.cache.minimum:
                share = round(amounts.cache_read / amounts.input, 2)
                asks = facts.cache.breakpoints > 0
                kinds.setdefault((asks, facts.cache.minimum, share), listing.id)
    return tuple(kinds.values())


@cache
def events() -> tuple[Event, ...]:
    log = [user("Which gauge is broken?", id="u")]
    for step in range(STEPS):
        words = "The level rose slowly over the whole night and fell again in the morning. " * 30
        log.append(calls("bot", "measure", {"place": f"weir_{step}"}, f"c{step}"))
        log.append(returns("bot", "measure", {"result": f"{words}gauge_{step}"}, f"c{step}"))
    return tuple(log)


class Bill(NamedTuple):
    """What a run has cost after each request, the largest one, and whether something was folded."""

    costs: list[float]
    folded: bool
    largest: int


def bill_of(
    model: str, policy: Policy, log: Sequence[Event] | None = None, *, head: int = 2_000
) -> Bill:
    agent = Agent("bot", model=model, tools=[measure], instruction="Be brief. " * head)
    agent, grown = agent.sees(policy), Session("s")
    costs: list[float] = []
    folded, largest = False, 0
    for event in log or events():
        if event.author == "bot" and event.content is not None and event.content.role == "model":
            compiled = compile_request(agent, session=grown)
            costs.append(cost_of(compiled).total)
            folded = folded or any(item.kind == "summary" for item in compiled.prompt.items)
            largest = max(largest, compiled.tokens)
        grown = grown.append(event)
    return Bill([*accumulate(costs)], folded, largest)


def test_there_are_several_kinds_of_prices() -> None:
    assert len(models()) > 5


@pytest.mark.parametrize("model", models())
def test_a_run_that_folds_is_hardly_dearer_wherever_it_ends(model: str) -> None:
    plain = bill_of(model, C.default()).costs
    paid, folded, _ = bill_of(model, C.default().fold())
    # where reading again costs next to nothing, nothing is gained within so few steps
    assert folded or facts_for(model).cache.read <= 0.05
    assert paid[-1] < plain[-1] or not folded
    for one, other in zip(paid, plain, strict=True):
        assert one <= UNSURE * AT_MOST * other


def test_what_references_left_out_pays_for_an_early_fold() -> None:
    """Plain history would have read all of it, so a fold has that much to spend."""
    words = "rose slowly over the whole night and fell again."
    same = "\n".join(f"The level of weir {at} {words}" for at in range(300))
    log = [user("Which gauge is broken?", id="u")]
    for step in range(17):
        rose = f"in region {step} rose slowly in the night and fell"
        fresh = "\n".join(f"The level of gauge {at} {rose} {at * step} times." for at in range(40))
        log.append(calls("bot", "measure", {"place": f"weir_{step}"}, f"c{step}"))
        text = same if step < 5 else fresh
        log.append(returns("bot", "measure", {"result": text}, f"c{step}"))
    log.append(calls("bot", "measure", {"place": "end"}, "end"))
    plain = bill_of("gpt-5", C.default(), log, head=10).costs
    paid = bill_of("gpt-5", C.auto(), log, head=10)
    assert paid.folded
    assert all(one <= other for one, other in zip(paid.costs, plain, strict=True))


# --- short runs, around the length from which on a provider keeps anything

WORDS = ("level", "river", "gauge", "night", "station", "valve", "pump", "basin", "report")
STRIDE = 100
"""Fresh tokens: what is read again is counted in whole strides, so a few more may be fresh."""


def result_of(shape: str, size: int, number: int) -> str:
    """A result of about `size` tokens."""
    words = [f"{WORDS[at % len(WORDS)]}_{number}" for at in range(size)]
    if shape == "prose":
        return " ".join(words[: size // 2])
    if shape == "records":
        rows = [{"id": at, "name": word, "price": at * 7} for at, word in enumerate(words)]
        return json.dumps(rows[: size // 14 + 1], indent=1)
    lines = [f"{at}:    {word} = compute({at})" for at, word in enumerate(words, 12)]
    shown = "\n".join(lines[: size // 8 + 1])
    above, below = "(11 more lines above)", "(95 more lines below)"
    return f"[File: /shop/{WORDS[number % 9]}.py ({size} lines total)]\n{above}\n{shown}\n{below}"


STEPS_OF_RUNS = st.lists(
    st.tuples(
        st.sampled_from(("prose", "records", "window", "again")),
        st.sampled_from((20, 100, 300, 600, 1_200, 2_500)),
    ),
    min_size=1,
    max_size=9,
)


@settings(max_examples=60, deadline=None)
@given(
    model=st.sampled_from(models()),
    head=st.sampled_from((0, 50, 500, 1_000, 1_500)),
    opening=st.sampled_from((10, 100, 500, 2_000)),
    steps=STEPS_OF_RUNS,
)
def test_a_short_run_is_hardly_dearer_wherever_it_ends(
    model: str, head: int, opening: int, steps: list[tuple[str, int]]
) -> None:
    log = [user("Which gauge is broken? " + "It is old. " * (opening // 4), id="u")]
    text = ""
    for step, (shape, size) in enumerate(steps):
        text = text if shape == "again" and text else result_of(shape, size, step)
        log.append(calls("bot", "measure", {"place": f"weir_{step}"}, f"c{step}"))
        log.append(returns("bot", "measure", {"result": text}, f"c{step}"))
    log.append(calls("bot", "measure", {"place": "end"}, "end"))
    plain = bill_of(model, C.default(), log, head=head).costs
    paid = bill_of(model, C.auto(), log, head=head).costs
    price = price_of(model)
    fresh = price.input / 1_000_000 if price is not None else 1.0
    for one, other in zip(paid, plain, strict=True):
        assert one <= AT_MOST * other + STRIDE * fresh


@pytest.mark.parametrize("model", ["gpt-4o", "gpt-4.1"])
def test_where_reading_is_dear_a_run_that_folded_can_afford_two_recalls(model: str) -> None:
    """Folds pay early there, and a recall reads all of the request once more.

    Right after a fold two recalls would make this run up to 20% dearer, if it had not earned them.
    """
    log = [user("Which gauge is broken?", id="u")]
    for step in range(60):
        words = f"The level of weir {step} rose slowly over the whole night. " * 20
        log.append(calls("bot", "measure", {"place": f"weir_{step}"}, f"c{step}"))
        log.append(returns("bot", "measure", {"result": f"{words}gauge_{step}"}, f"c{step}"))
    plain, paid = (bill_of(model, one, log, head=300) for one in (C.default(), C.default().fold()))
    price = price_of(model)
    assert price is not None
    assert paid.folded
    result = price.input * 250 / 1_000_000
    ends = zip(pairwise(paid.costs), pairwise(plain.costs), strict=True)
    for (before, after), (plain_before, plain_after) in ends:
        request = after - before
        if request < 0.9 * (plain_after - plain_before):  # it has notes
            assert after + 2 * (request + result) <= 1.06 * plain_after


# --- prices that jump


def test_a_run_folds_before_all_its_tokens_cost_several_times_as_much() -> None:
    log = [user("Which gauge is broken?", id="u")]
    for step in range(12):
        log.append(calls("bot", "measure", {"place": f"weir_{step}"}, f"c{step}"))
        words = "The level rose slowly over the whole night and fell again. " * 750
        log.append(returns("bot", "measure", {"result": f"{words}gauge_{step}"}, f"c{step}"))
    log.append(calls("bot", "measure", {"place": "end"}, "end"))
    (cliff, times), *_ = lasting_cliffs("claude-haiku-5-5")
    assert (cliff, times) == (100_000, pytest.approx(5.0))
    plain = bill_of("claude-haiku-5-5", C.default(), log, head=10)
    paid = bill_of("claude-haiku-5-5", C.default().fold(keep=2), log, head=10)
    assert plain.largest > cliff > paid.largest
    assert paid.costs[-1] < 0.8 * plain.costs[-1]
