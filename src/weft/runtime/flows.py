"""Workflow nodes: each runs its children, and leaves in the log what it decided and that it ended.

A node that the log says has ended is not run again; a decision in the log is not made again.
"""

import asyncio
import logging
from collections.abc import AsyncGenerator, Mapping
from contextlib import aclosing
from types import MappingProxyType
from typing import assert_never, cast

import msgspec

from weft.content import Content, FunctionCall, FunctionResponse, Part
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
from weft.declare.compare import quoted, same
from weft.declare.template import parse, render
from weft.errors import RunError, SessionError, StoreError
from weft.runtime.batch import settle_below
from weft.runtime.bindings import settled
from weft.runtime.branches import Runs, Streams, run_map, run_parallel, run_race
from weft.runtime.invocation import Invocation, Record, decide, failed
from weft.runtime.place import NodeFailed, Place, Suspended, is_below, path_of
from weft.runtime.turn import run_agent
from weft.session import Actions, Event
from weft.session.event import new_id
from weft.session.state import State
from weft.session.waiting import INPUT
from weft.values import Json, JsonObject

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


_log = logging.getLogger("weft")


async def run_tap(invocation: Invocation, place: Place, node: Tap) -> None:
    """Call the function once; what it raises is logged. It has no event to show."""
    try:
        await settled(node.function(MappingProxyType(invocation.state_at(place))))
    except Exception:
        _log.warning("%s: the tap raised", node.name, exc_info=True)
    done = Actions(end_of_agent=True)
    await invocation.commit(invocation.event(node.name, place, actions=done))


async def run_expect(
    invocation: Invocation, place: Place, node: Expect
) -> AsyncGenerator[Event, None]:
    """Ask the predicate once, and fail unless it holds."""
    try:
        holds = bool(await settled(node.predicate(MappingProxyType(invocation.state_at(place)))))
    except Exception as error:
        words = f"the predicate raised {type(error).__name__}: {error}"
        failure = await failed(invocation, place, node.name, "step_error", words, error)
        yield failure.event
        raise failure from error
    if not holds:
        failure = await failed(invocation, place, node.name, "expectation_failed", node.message)
        yield failure.event
        raise failure
    done = Actions(end_of_agent=True)
    await invocation.commit(invocation.event(node.name, place, actions=done))


async def run_step(invocation: Invocation, place: Place, node: Step) -> AsyncGenerator[Event, None]:
    """Call the function once, and store what it changed together with that it ran."""
    before = invocation.state_at(place)
    state = State(before)
    try:
        said = invocation.user_text(place) if node.captures else ""
        for key in node.captures if said else ():
            state[key] = said
        returned = await settled(node.function(state))
        if returned is not None and not isinstance(returned, Mapping):
            raise SessionError(
                f"the step returned a {type(returned).__name__}",
                where=node.name,
                hint="return a dict of changes, or None",
            )
        for key, value in cast("Mapping[str, Json]", returned or {}).items():
            state[key] = value
    except StoreError:
        raise
    except Exception as error:
        words = f"{type(error).__name__}: {error}"
        event = invocation.event(node.name, place, error=("step_error", words))
        event = await invocation.commit(event)
        yield event
        raise NodeFailed(event, error) from error
    delta = dict(state.delta)
    if node.written:  # what `S` finds as it should be is no change
        delta = {key: value for key, value in delta.items() if before.get(key) != value}
    done = Actions(state_delta=delta, end_of_agent=True)
    tagged = _tagged(invocation, node)
    event = await invocation.commit(invocation.event(node.name, place, actions=done, weft=tagged))
    if done.state_delta:
        yield event


def _tagged(invocation: Invocation, node: Step) -> JsonObject | None:
    """The tags of a step, for the newest thing an agent said."""
    if not node.tags:
        return None
    for event in reversed(invocation.session.events):
        if event.author != "user" and event.content is not None and not event.partial:
            return {"tagged": {"event": event.id, "tags": [*node.tags]}}
    return None


async def run_timeout(
    invocation: Invocation, place: Place, node: Timeout, run_node: Runs
) -> AsyncGenerator[Event, None]:
    """Run the body; the clock stands still while somebody else reads its events."""
    inner = place.child(node.body.name, 0)
    clock = asyncio.get_running_loop().time
    left = node.seconds
    streams = Streams()
    events = run_node(invocation, inner, node.body)
    try:
        while True:
            since = clock()
            limit = asyncio.timeout(left)
            try:
                async with limit:
                    event = await anext(events)
            except StopAsyncIteration:
                return
            except TimeoutError:
                if limit.expired():
                    break
                raise
            left = max(0.0, left - (clock() - since))
            yield streams.noted(event)
    finally:
        await events.aclose()
    await settle_below(invocation, "it took too long", inner.path)
    for void in streams.left():
        yield void
    words = f"`{node.body.name}` took longer than {node.seconds:g} s"
    failure = await failed(invocation, place, node.name, "timeout", words)
    yield failure.event
    raise failure


async def run_gate(invocation: Invocation, place: Place, node: Gate) -> AsyncGenerator[Event, None]:
    """Ask once, wait, and keep the answer together with that the gate was passed."""
    asked, answer = _recalled(invocation, place)
    if not asked:
        yield await invocation.commit(_question(invocation, place, node))
        raise Suspended
    if answer is None:
        raise Suspended
    decided = node.decided(decision_of(answer))
    if decided is None:
        words = f"{quoted(decision_of(answer))} is none of the choices: {_listed(node.choices)}"
        failure = await failed(invocation, place, node.name, "bad_answer", words)
        yield failure.event
        raise failure
    passed = Actions(state_delta={node.key: decided}, end_of_agent=True)
    yield await invocation.commit(invocation.event(node.name, place, actions=passed))


def decision_of(answer: FunctionResponse) -> Json:
    """The answer itself, whatever it was wrapped in on its way."""
    response = answer.response or {}
    if set(response) == {"result"}:
        return response["result"]
    inner = response.get("response") if len(response) == 1 else None
    if isinstance(inner, str):  # ADK's page sends JSON text in a field `response`
        try:
            return cast("Json", msgspec.json.decode(inner))
        except msgspec.DecodeError:
            return inner
    return inner if inner is not None else response or None


def check_decisions(asked: Event, answers: Content) -> None:
    """Refuse an answer that the gate which asked does not take; it goes on waiting."""
    choices = {call.id: choices_of(call) for call in asked.calls if call.name == INPUT}
    for part in answers.parts or ():
        answer = part.function_response
        if answer is None or answer.id not in choices:
            continue
        decision, known = decision_of(answer), choices[answer.id]
        if decision is None or (known and not any(same(decision, choice) for choice in known)):
            raise SessionError(
                f"{quoted(decision)} is no answer to the gate `{asked.author}`, which waits on",
                where=f"answers[{answer.id}]",
                hint=f"answer one of: {_listed(known)}" if known else "answer something, not None",
            )


def choices_of(call: FunctionCall) -> list[Json]:
    """What a gate's question lets somebody choose from; nothing if any answer will do."""
    payload = (call.args or {}).get("payload")
    choices = payload.get("choices") if isinstance(payload, dict) else None
    return choices if isinstance(choices, list) else []


def _question(invocation: Invocation, place: Place, node: Gate) -> Event:
    """The question as an open call, the way ADK's clients know it."""
    template = parse(node.question or f"What is to be decided for {node.name}?")
    text = "".join(piece.text for piece in render(template, invocation.state_at(place)))
    id = f"{node.name}-{new_id()[:12]}"
    payload: JsonObject = {"gate": node.name, "choices": [*node.choices]}
    args: JsonObject = {"interruptId": id, "message": text, "payload": payload}
    call = Part(function_call=FunctionCall(name=INPUT, args=args, id=id))
    asking = invocation.event(
        node.name, place, Content(parts=(call,), role="model"), weft={"pending": [id]}
    )
    return msgspec.structs.replace(asking, long_running_tool_ids=(id,))


def _recalled(invocation: Invocation, place: Place) -> tuple[str, FunctionResponse | None]:
    """The question that the log has of this place, and the answer to it."""
    asked, answer = "", None
    if not invocation.resumed:
        return asked, answer
    for event in invocation.past.at(place):
        asked = next((call.id or "" for call in event.calls if call.name == INPUT), asked)
        answer = next((one for one in event.results if one.id == asked), answer)
    return asked, answer


def _listed(choices: "tuple[Json, ...] | list[Json]") -> str:
    return ", ".join(quoted(choice) for choice in choices)
