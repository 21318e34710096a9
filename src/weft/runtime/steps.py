"""A plain function as a step: it reads the state, and what it returns or writes is a delta."""

from collections.abc import AsyncGenerator, Mapping
from typing import cast

from weft.declare import Step
from weft.errors import SessionError, StoreError
from weft.runtime.invocation import Invocation
from weft.runtime.kit import settled
from weft.runtime.place import Place
from weft.runtime.signals import NodeFailed
from weft.session import Actions, Event
from weft.session.view import State
from weft.values import Json, JsonObject


async def run_step(invocation: Invocation, place: Place, node: Step) -> AsyncGenerator[Event, None]:
    """Call the function once, and store what it changed together with that it ran."""
    before = invocation.state_at(place)
    state = State(before)
    try:
        said = invocation.said(place) if node.captures else ""
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
