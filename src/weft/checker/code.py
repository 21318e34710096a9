"""The code that runs with an agent, its tools and callbacks: what it does with the state."""

from collections.abc import Iterable, Iterator
from typing import cast

from weft.checker.contexts import Uses, uses_of
from weft.checker.kept import listed
from weft.checker.world import World, Writer
from weft.declare import Agent, Tool
from weft.declare.checks import CALLBACKS
from weft.diagnostics import Origin


def used_by(tool: Tool) -> Uses:
    """What a tool does with the state: what it declares counts, else what its source shows."""
    if tool.context_parameter is None or tool.function is None:
        known = tool.context_parameter is None or bool(tool.writes)
        return Uses(
            tool.reads, writes=tool.writes, reads_all=known, known=known, escalates=not known
        )
    found = uses_of(tool.function, tool.context_parameter)
    named = tool.reads or found.reads
    reads = tuple(key for key in named if key not in found.asks)
    if tool.writes:
        ends = found.known and found.escalates
        found = found._replace(writes=tool.writes, reads_all=True, known=True, escalates=ends)
    return found._replace(reads=reads)


@listed
def callbacks_of(agent: Agent) -> Iterator[tuple[str, Uses]]:
    """The callbacks of an agent, each with its field and what it does with the state."""
    for name in CALLBACKS:
        given = cast("object", getattr(agent, name))
        for one in cast("tuple[object, ...]", given if isinstance(given, tuple) else (given,)):
            if callable(one):
                yield name, uses_of(one)


def callback_writer(agent: Agent, name: str) -> Writer:
    """A callback as the one who writes."""
    return Writer(f"{agent.name}.{name}", Origin("field", name, agent.name), "callback")


def handled(world: World, agent: Agent, *callbacks: str) -> World:
    """The world after these callbacks took keys away."""
    for name, uses in callbacks_of(agent):
        if name in callbacks:
            world = world.lost(uses.drops, callback_writer(agent, name))
    return world


def touched(world: World, uses: Iterable[Uses]) -> World:
    """The world after code may have changed values in place: their shapes are known no longer."""
    held = {
        key: fact._replace(schema=None)
        for one in uses
        for key in one.touches
        if (fact := world.facts.get(key)) is not None and fact.schema is not None
    }
    return world.holding(held)
