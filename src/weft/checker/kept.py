"""What follows from an agent's declaration alone is worked out once, and kept with the agent."""

from collections.abc import Callable, Iterator
from typing import TypeVar, cast

from weft.declare import Agent

Found = TypeVar("Found")


def kept(derive: Callable[[Agent], Found]) -> Callable[[Agent], Found]:
    """The same function, asked once for each agent."""

    def found(agent: Agent) -> Found:
        memo = agent.memo
        if derive not in memo:
            memo[derive] = derive(agent)
        return cast("Found", memo[derive])

    found.__doc__ = derive.__doc__
    return found


def listed(derive: Callable[[Agent], Iterator[Found]]) -> Callable[[Agent], tuple[Found, ...]]:
    """The same function, asked once for each agent, with all it finds as a tuple."""

    def all_of(agent: Agent) -> tuple[Found, ...]:
        return tuple(derive(agent))

    all_of.__doc__ = derive.__doc__
    return kept(all_of)
