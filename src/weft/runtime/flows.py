"""Workflow nodes: each runs its children, and leaves in the log what it decided and that it ended.

A node that the log says has ended is not run again; a decision in the log is not made again.
"""

from collections.abc import AsyncGenerator
from contextlib import aclosing
from types import MappingProxyType
from typing import assert_never

from weft.declare import Agent, Fallback, Flow, Loop, Node, Parallel, Route, Sequence, Step
from weft.errors import RunError
from weft.runtime.invocation import Invocation
from weft.runtime.kit import settled
from weft.runtime.loop import run_agent
from weft.runtime.parallel import run_parallel
from weft.runtime.place import Place, is_below
from weft.runtime.progress import is_failure
from weft.runtime.signals import NodeFailed
from weft.runtime.steps import run_step
from weft.session import Actions, Event
from weft.values import JsonObject


def run_node(
    invocation: Invocation, place: Place, node: Node, *, is_round: bool = False
) -> AsyncGenerator[Event, None]:
    """Run a node at a place; nothing, if the log says it has ended.

    A sequence that is a round of a loop ends where somebody escalates.
    """
    if isinstance(node, Agent):
        return run_agent(invocation, place, node, node.name)
    return _run_flow(invocation, place, node, is_round=is_round)


async def _run_flow(
    invocation: Invocation, place: Place, node: Flow, *, is_round: bool
) -> AsyncGenerator[Event, None]:
    record = Record.read(invocation, place)
    if record.ended:
        return
    if record.failed is not None and invocation.sheltered(place):
        raise NodeFailed(record.failed)
    match node:
        case Sequence():
            events = _sequence(invocation, place, node, is_round=is_round)
        case Parallel():
            events = run_parallel(invocation, place, node, run_node)
        case Loop():
            events = _loop(invocation, place, node, record)
        case Fallback():
            events = _fallback(invocation, place, node, record)
        case Route():
            events = _route(invocation, place, node, record)
        case Step():
            events = run_step(invocation, place, node)
        case _:
            assert_never(node)
    async with aclosing(events):
        async for event in events:
            yield event
    if not isinstance(node, Step):
        await invocation.commit(
            invocation.event(node.name, place, actions=Actions(end_of_agent=True))
        )


class Record:
    """What a workflow node has left in the log: how it ended, and the last decision it made."""

    __slots__ = ("ended", "failed", "state")

    def __init__(self) -> None:
        self.ended = False
        self.failed: Event | None = None
        self.state: JsonObject = {}

    @staticmethod
    def read(invocation: Invocation, place: Place) -> "Record":
        """The record of the node at a place."""
        record = Record()
        if not invocation.resumed:
            return record
        for event in invocation.events():
            if place.holds(event):
                record.ended = record.ended or bool(event.actions.end_of_agent)
                record.failed = event if is_failure(event) else None
                record.state = {**record.state, **(event.actions.agent_state or {})}
        return record


async def _decide(invocation: Invocation, place: Place, name: str, state: JsonObject) -> None:
    """Keep a decision in the log before acting on it."""
    await invocation.commit(invocation.event(name, place, actions=Actions(agent_state=state)))


async def _sequence(
    invocation: Invocation, place: Place, node: Sequence, *, is_round: bool
) -> AsyncGenerator[Event, None]:
    """One step after the other; a failed one ends the sequence."""
    for index, step in enumerate(node.steps):
        inner = place.child(step.name, index)
        async with aclosing(run_node(invocation, inner, step)) as events:
            async for event in events:
                yield event
        if is_round and _escalated(invocation, inner):
            return


async def _loop(
    invocation: Invocation, place: Place, node: Loop, record: Record
) -> AsyncGenerator[Event, None]:
    """Rounds until the predicate holds, somebody escalates, or there were enough."""
    done = record.state.get("rounds")
    rounds = done if isinstance(done, int) else 0
    stop = record.state.get("stop") is True
    while rounds < node.max and not stop:
        inner = place.child(node.body.name, rounds)
        async with aclosing(run_node(invocation, inner, node.body, is_round=True)) as events:
            async for event in events:
                yield event
        rounds += 1
        stop = _escalated(invocation, inner)
        if not stop and node.until is not None:
            try:
                stop = await _asked(invocation, place, node)
            except NodeFailed as failure:
                yield failure.event
                raise
        await _decide(invocation, place, node.name, {"rounds": rounds, "stop": stop})


def _escalated(invocation: Invocation, place: Place) -> bool:
    return any(
        scope == place.scope and is_below(path, place.path) for path, scope in invocation.escalated
    )


async def _asked(invocation: Invocation, place: Place, node: Loop) -> bool:
    """What the predicate says of the state."""
    assert node.until is not None
    try:
        return bool(await settled(node.until(MappingProxyType(invocation.state))))
    except Exception as error:
        words = f"the loop's `until` raised {type(error).__name__}: {error}"
        raise await failed(invocation, place, node.name, "step_error", words, error) from error


async def _fallback(
    invocation: Invocation, place: Place, node: Fallback, record: Record
) -> AsyncGenerator[Event, None]:
    """The first choice that does not fail."""
    held = record.state.get("failed")
    first = held + 1 if isinstance(held, int) else 0
    for index in range(first, len(node.choices)):
        choice = node.choices[index]
        inner = place.child(choice.name, index)
        last = index == len(node.choices) - 1
        if not last:
            invocation.shelter(inner)
        try:
            async with aclosing(run_node(invocation, inner, choice)) as events:
                async for event in events:
                    yield event
            return
        except NodeFailed:
            if last:
                raise
            await _decide(invocation, place, node.name, {"failed": index})


async def _route(
    invocation: Invocation, place: Place, node: Route, record: Record
) -> AsyncGenerator[Event, None]:
    """The node the state leads to; once chosen, it stays chosen."""
    chosen = record.state.get("case")
    if not isinstance(chosen, int):
        try:
            picked = node.pick(MappingProxyType(invocation.state))
        except RunError as error:
            failure = await failed(invocation, place, node.name, "no_route", str(error), error)
            yield failure.event
            raise failure from error
        if picked is None:
            key = node.key if isinstance(node.key, str) else "the state"
            words = f"no case of {node.name} holds for {key}; add .otherwise(...)"
            failure = await failed(invocation, place, node.name, "no_route", words)
            yield failure.event
            raise failure
        label, target = picked
        chosen = next(i for i, child in enumerate(node.children) if child is target)
        await invocation.commit(
            invocation.event(
                node.name, place, actions=Actions(route=label, agent_state={"case": chosen})
            )
        )
    target = node.children[chosen]
    async with aclosing(run_node(invocation, place.child(target.name, chosen), target)) as events:
        async for event in events:
            yield event


async def failed(
    invocation: Invocation,
    place: Place,
    author: str,
    code: str,
    words: str,
    cause: Exception | None = None,
) -> NodeFailed:
    """An error event that is in the log, as the exception that ends the node."""
    event = await invocation.commit(invocation.event(author, place, error=(code, words)))
    return NodeFailed(event, cause)
