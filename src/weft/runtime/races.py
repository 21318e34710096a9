"""A race: the first branch that completes counts, and the others never were."""

import asyncio
from collections.abc import AsyncGenerator
from contextlib import aclosing

from weft.declare import Agent, Node, Race
from weft.runtime.invocation import Invocation
from weft.runtime.lanes import Lanes, Runs, broke, completed
from weft.runtime.parallel import branches_of, shelter_some
from weft.runtime.place import Place
from weft.runtime.record import Record, decide
from weft.runtime.signals import NodeFailed, Suspended
from weft.runtime.stopping import settle_below
from weft.session import Actions, Event
from weft.values import JsonObject

_LOST = "another branch won"


async def run_race(
    invocation: Invocation, place: Place, node: Race, record: Record, run_node: Runs
) -> AsyncGenerator[Event, None]:
    """Run the branches until one completes; then keep what it said and wrote, and no other's.

    A branch that fails is out of the race. One that the log says has completed has won.
    """
    nodes = branches_of(place, node)
    if "begun" not in record.state:
        forks: JsonObject = {inner.fork: {} for inner, _ in nodes}
        await decide(invocation, place, node.name, {"begun": True}, {"forks": forks})
    for inner, _ in nodes:
        invocation.fork(inner)
    shelter_some(invocation, [inner for inner, _ in nodes])
    winner = _recalled(invocation, nodes)
    if winner is None:
        lanes = Lanes(invocation, nodes, run_node, width=len(nodes), why=_LOST)

        def is_over(task: "asyncio.Task[None]") -> bool:
            return completed(task) or (broke(task) and not isinstance(task.exception(), NodeFailed))

        async with aclosing(lanes.events(is_over)) as events:
            async for event in events:
                yield event
        failures = lanes.failures()
        winner = lanes.first
        if winner is None:
            if lanes.waits:
                raise Suspended
            raise failures[-1]
    else:
        async with aclosing(run_node(invocation, *nodes[winner])) as events:
            async for event in events:
                yield event
    losers = [inner.path for index, (inner, _) in enumerate(nodes) if index != winner]
    await settle_below(invocation, _LOST, *losers)
    won = nodes[winner][0]
    actions = Actions(
        state_delta=invocation.own_state(won), agent_state={"winner": winner}, end_of_agent=True
    )
    marks: JsonObject = {
        "undone": [*losers],
        "joined": {"path": won.path, "branch": won.branch},
        "closed": won.fork.rpartition(".")[0],
    }
    event = invocation.event(node.name, place, actions=actions, weft=marks)
    event = await invocation.commit(event)
    if actions.state_delta:
        yield event


def _recalled(invocation: Invocation, nodes: list[tuple[Place, Node]]) -> int | None:
    """The branch that the log says has completed, where the run stopped before that was said."""
    if not invocation.resumed:
        return None
    for index, (place, node) in enumerate(nodes):
        if isinstance(node, Agent):
            progress = invocation.progress(place)
            over = progress.ended or progress.answered is not None
        else:
            over = Record.read(invocation, place).ended
        if over:
            return index
    return None
