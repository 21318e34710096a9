"""Folds on every kind of prices that the package has: wherever a run ends, it is hardly dearer."""

from functools import cache
from itertools import accumulate

import pytest

from tests.support.build import calls, returns, user
from weft import Agent, C, Event, Session, tool
from weft.compiler import compile_request
from weft.compiler.costs import cost_of
from weft.declare import Policy
from weft.dialects.facts import facts_for
from weft.dialects.price_list import price_list
from weft.passes.fold import AT_MOST

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
    """A model for each share that what was cached costs, asked for or not."""
    kinds: dict[tuple[bool, float], str] = {}
    for seller in price_list().sellers:
        for listing in seller.listings if seller.id in VENDORS else ():
            amounts, facts = listing.amounts, facts_for(listing.id)
            if amounts.input and amounts.cache_read and facts.known and facts.cache.minimum:
                share = round(amounts.cache_read / amounts.input, 2)
                asks = facts.cache.breakpoints > 0
                kinds.setdefault((asks, share), listing.id)
    return tuple(kinds.values())


@cache
def events() -> tuple[Event, ...]:
    log = [user("Which gauge is broken?", id="u")]
    for step in range(STEPS):
        words = "The level rose slowly over the whole night and fell again in the morning. " * 30
        log.append(calls("bot", "measure", {"place": f"weir_{step}"}, f"c{step}"))
        log.append(returns("bot", "measure", {"result": f"{words}gauge_{step}"}, f"c{step}"))
    return tuple(log)


def costs_of(model: str, policy: Policy) -> tuple[list[float], bool]:
    """What a run has cost after each request, and whether something was folded."""
    agent = Agent("bot", model=model, tools=[measure], instruction="Be brief. " * 2_000)
    agent, grown = agent.sees(policy), Session("s")
    costs: list[float] = []
    folded = False
    for event in events():
        if event.author == "bot" and event.content is not None and event.content.role == "model":
            compiled = compile_request(agent, session=grown)
            costs.append(cost_of(compiled).total)
            folded = folded or any(item.kind == "summary" for item in compiled.prompt.items)
        grown = grown.append(event)
    return [*accumulate(costs)], folded


def test_there_are_several_kinds_of_prices() -> None:
    assert len(models()) > 5


@pytest.mark.parametrize("model", models())
def test_a_run_that_folds_is_hardly_dearer_wherever_it_ends(model: str) -> None:
    plain, _ = costs_of(model, C.default())
    paid, folded = costs_of(model, C.default().fold())
    # where reading again costs next to nothing, nothing is gained within so few steps
    assert folded or facts_for(model).cache.read < 0.05
    assert paid[-1] < plain[-1] or not folded
    for one, other in zip(paid, plain, strict=True):
        assert one <= UNSURE * AT_MOST * other
