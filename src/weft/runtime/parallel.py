"""Branches side by side: each sees what was before and its own, none sees another's."""

import asyncio
from collections import deque
from collections.abc import AsyncGenerator, Callable
from contextlib import aclosing
from typing import TypeAlias

from weft.declare import Node, Parallel
from weft.runtime.invocation import Invocation
from weft.runtime.place import Place
from weft.runtime.signals import NodeFailed, Suspended
from weft.runtime.stopping import settle_below
from weft.runtime.unbroken import stopped
from weft.session import Event

Runs: TypeAlias = Callable[[Invocation, Place, Node], AsyncGenerator[Event, None]]


async def run_parallel(
    invocation: Invocation, place: Place, node: Parallel, run_node: Runs
) -> AsyncGenerator[Event, None]:
    """Run the branches in tasks of their own; hand on their events as they come.

    A branch waits until its event was taken, so a slow consumer slows the branches down instead
    of filling the memory. When one fails the others are cancelled, or left to end.
    """
    meeting = _Meeting()
    names: dict[str, int] = {}
    places: list[Place] = []
    for index, child in enumerate(node.branches):
        names[child.name] = names.get(child.name, 0) + 1
        name = child.name if names[child.name] == 1 else f"{child.name}_{names[child.name]}"
        places.append(place.child(child.name, index).branched(node.name, name))
    if node.on_error == "collect" and not all(map(invocation.failed_at, places)):
        for inner in places:
            invocation.shelter(inner)
    tasks: list[asyncio.Task[None]] = []
    for inner, child in zip(places, node.branches, strict=True):
        task = asyncio.create_task(meeting.bring(run_node(invocation, inner, child)))
        task.add_done_callback(meeting.leave)
        tasks.append(task)
    try:
        left = len(tasks)
        while left:
            brought = await meeting.next()
            if brought is not None:
                event, taken = brought
                yield event
                if not taken.done():
                    taken.set_result(None)
                continue
            left -= 1
            if node.on_error == "cancel" and any(map(_broke, tasks)):
                break
    finally:
        await stopped(tasks)
    for inner, task in zip(places, tasks, strict=True):
        if task.cancelled():
            await settle_below(invocation, inner.path)
    _raise(tasks, collect=node.on_error == "collect")


class _Meeting:
    """Where branches bring their events and wait until they are taken."""

    def __init__(self) -> None:
        self._brought: deque[tuple[Event, asyncio.Future[None]] | None] = deque()
        self._waiter: asyncio.Future[None] | None = None
        self._loop = asyncio.get_running_loop()

    async def bring(self, events: AsyncGenerator[Event, None]) -> None:
        """Bring one event after the other, each once the last was taken."""
        async with aclosing(events):
            async for event in events:
                taken: asyncio.Future[None] = self._loop.create_future()
                self._put((event, taken))
                await taken

    def leave(self, task: "asyncio.Task[None]") -> None:
        """Say that a branch has ended."""
        self._put(None)

    async def next(self) -> "tuple[Event, asyncio.Future[None]] | None":
        """What was brought next; None for a branch that has ended."""
        while not self._brought:
            self._waiter = self._loop.create_future()
            await self._waiter
        return self._brought.popleft()

    def _put(self, brought: "tuple[Event, asyncio.Future[None]] | None") -> None:
        self._brought.append(brought)
        if self._waiter is not None and not self._waiter.done():
            self._waiter.set_result(None)


def _broke(task: "asyncio.Task[None]") -> bool:
    """Whether the branch ended badly; one that waits for an answer did not."""
    if not task.done() or task.cancelled():
        return False
    error = task.exception()
    return error is not None and not isinstance(error, Suspended)


def _raise(tasks: "list[asyncio.Task[None]]", *, collect: bool) -> None:
    """How the node ends: an error nobody collects, a wait, or well."""
    errors = [error for task in tasks if not task.cancelled() and (error := task.exception())]
    failed = [error for error in errors if isinstance(error, NodeFailed)]
    for error in errors:
        if not isinstance(error, (NodeFailed, Suspended)):
            raise error
    waits = any(isinstance(error, Suspended) for error in errors)
    if failed and not (collect and (waits or len(failed) < len(tasks))):
        raise failed[0]
    if waits:
        raise Suspended
