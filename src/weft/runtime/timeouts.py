"""A timeout: a body that takes too long is stopped, and fails."""

import asyncio
from collections.abc import AsyncGenerator

from weft.declare import Timeout
from weft.runtime.invocation import Invocation
from weft.runtime.lanes import Runs, Streams
from weft.runtime.place import Place
from weft.runtime.record import failed
from weft.runtime.stopping import settle_below
from weft.session import Event


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
