"""Workflow nodes: each runs its children, and leaves in the log what it decided and that it ended.

A node that the log says has ended is not run again; a decision in the log is not made again.
"""

from collections.abc import AsyncGenerator
from contextlib import aclosing
from types import MappingProxyType
from typing import assert_never

from weft.declare import (
    Agent,
    Expect,
    Fallback,
    Flow,
    Gate,
    Loop,
    Map,
    Node,
    Parallel,
    Race,
    Route,
    Sequence,
    Step,
    Tap,
    Timeout,
)
from weft.errors import RunError
from weft.runtime.gates import run_gate
from weft.runtime.invocation import Invocation
from weft.runtime.kit import settled
from weft.runtime.looks import run_expect, run_tap
from weft.runtime.loop import run_agent
from weft.runtime.maps import run_map
from weft.runtime.parallel import run_parallel
from weft.runtime.place import Place, is_below, path_of
from weft.runtime.races import run_race
from weft.runtime.record import Record, decide, failed
from weft.runtime.signals import NodeFailed
from weft.runtime.steps import run_step
from weft.runtime.timeouts import run_timeout
from weft.session import Actions, Event
from weft.values import JsonObject

_LEAVES = (Sequence, Parallel, Loop, Fallback, Route, Timeout)
"""The nodes whose end is an event of its own; the others say it with what they did last."""


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
    if isinstance(node, Tap):
        await run_tap(invocation, place, node)
        return
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
        case Map():
            events = run_map(invocation, place, node, record, run_node)
        case Race():
            events = run_race(invocation, place, node, record, run_node)
        case Timeout():
            events = run_timeout(invocation, place, node, run_node)
        case Gate():
            events = run_gate(invocation, place, node)
        case Expect():
            events = run_expect(invocation, place, node)
        case _:
            assert_never(node)
    async with aclosing(events):
        async for event in events:
            yield event
    if isinstance(node, _LEAVES):
        await invocation.commit(
            invocation.event(node.name, place, actions=Actions(end_of_agent=True))
        )


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
    """Rounds until a predicate ends them, somebody escalates, or there were enough."""
    done = record.state.get("rounds")
    rounds = done if isinstance(done, int) else 0
    stop = record.state.get("stop") is True
    if node.while_ is not None and done is None:
        try:
            stop = await _asked_to_stop(invocation, place, node)
        except NodeFailed as failure:
            yield failure.event
            raise
        await decide(invocation, place, node.name, {"rounds": 0, "stop": stop})
    while rounds < node.max and not stop:
        inner = place.child(node.body.name, rounds)
        async with aclosing(run_node(invocation, inner, node.body, is_round=True)) as events:
            async for event in events:
                yield event
        rounds += 1
        stop = _escalated(invocation, inner)
        if not stop and (node.until is not None or node.while_ is not None):
            try:
                stop = await _asked_to_stop(invocation, place, node)
            except NodeFailed as failure:
                yield failure.event
                raise
        await decide(invocation, place, node.name, {"rounds": rounds, "stop": stop})


def _escalated(invocation: Invocation, place: Place) -> bool:
    return any(
        scope == place.scope and is_below(path, place.path) for path, scope in invocation.escalated
    )


async def _asked_to_stop(invocation: Invocation, place: Place, node: Loop) -> bool:
    """Whether the predicate says of the state that the loop is over."""
    predicate = node.until or node.while_
    assert predicate is not None
    try:
        holds = bool(await settled(predicate(MappingProxyType(invocation.state_at(place)))))
    except Exception as error:
        word = "until" if node.until is not None else "while_"
        words = f"the loop's `{word}` raised {type(error).__name__}: {error}"
        raise await failed(invocation, place, node.name, "step_error", words, error) from error
    return holds if node.until is not None else not holds


async def _fallback(
    invocation: Invocation, place: Place, node: Fallback, record: Record
) -> AsyncGenerator[Event, None]:
    """The first choice that does not fail; what the others said is taken out of view."""
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
            said = any(e.content and is_below(path_of(e), inner.path) for e in invocation.events())
            undone: JsonObject | None = {"undone": [inner.path]} if said else None
            await decide(invocation, place, node.name, {"failed": index}, undone)


async def _route(
    invocation: Invocation, place: Place, node: Route, record: Record
) -> AsyncGenerator[Event, None]:
    """The node the state leads to; once chosen, it stays chosen."""
    chosen = record.state.get("case")
    if not isinstance(chosen, int):
        try:
            picked = node.pick(MappingProxyType(invocation.state_at(place)))
        except RunError as error:
            failure = await failed(invocation, place, node.name, "no_route", str(error), error)
            yield failure.event
            raise failure from error
        if picked is None:
            key = node.key if isinstance(node.key, str) and node.key else "the state"
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
