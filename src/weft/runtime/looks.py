"""Nodes that only look at the state: one lets everything pass, one fails if it finds a fault."""

import logging
from collections.abc import AsyncGenerator
from types import MappingProxyType

from weft.declare import Expect, Tap
from weft.runtime.invocation import Invocation
from weft.runtime.kit import settled
from weft.runtime.place import Place
from weft.runtime.record import failed
from weft.session import Actions, Event

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
