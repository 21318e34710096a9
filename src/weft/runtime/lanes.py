"""Runs side by side: their events as they come, so many of them at a time."""

import asyncio
from collections import deque
from collections.abc import AsyncGenerator, Callable, Sequence
from contextlib import aclosing
from typing import TypeAlias

import msgspec

from weft.declare import Node
from weft.runtime.invocation import Invocation
from weft.runtime.place import Place
from weft.runtime.signals import NodeFailed, Suspended
from weft.runtime.stopping import settle_below
from weft.runtime.unbroken import stopped
from weft.session import Event

Runs: TypeAlias = Callable[[Invocation, Place, Node], AsyncGenerator[Event, None]]
_Lane: TypeAlias = "asyncio.Task[None]"


class Streams:
    """The answers that were begun in partial events, until the complete one has come."""

    __slots__ = ("_begun",)

    def __init__(self) -> None:
        self._begun: dict[str, Event] = {}

    def noted(self, event: Event) -> Event:
        """The event, taken note of."""
        if event.partial and (event.content or not event.void):
            self._begun[event.id] = event
        elif self._begun:
            self._begun.pop(event.id, None)
        return event

    def left(self) -> list[Event]:
        """Where nothing more will come: an event for each that says that it is void."""
        return [
            msgspec.structs.replace(partial, content=None, interrupted=True)
            for partial in self._begun.values()
        ]


class Lanes:
    """Nodes in tasks of their own, each at its place; `width` of them at a time.

    A lane waits until its event was taken, so a slow consumer slows the lanes down instead of
    filling the memory.
    """

    def __init__(
        self,
        invocation: Invocation,
        nodes: Sequence[tuple[Place, Node]],
        run_node: Runs,
        *,
        width: int,
        why: str = "another branch failed",
    ) -> None:
        self._invocation = invocation
        self._nodes = nodes
        self._run_node = run_node
        self._width = width
        self._why = why
        self._brought: deque[tuple[Event, asyncio.Future[None]] | _Lane] = deque()
        self._waiter: asyncio.Future[None] | None = None
        self._over = False
        self._loop = asyncio.get_running_loop()
        self._streams = Streams()
        self.tasks: list[asyncio.Task[None]] = []
        """The lanes that were begun, in the order of the nodes."""
        self.first: int | None = None
        """The lane that was the first to complete."""

    async def events(self, is_over: Callable[[_Lane], bool]) -> AsyncGenerator[Event, None]:
        """The events of all lanes, until all have ended or it is over with one that has.

        Those that still run then are stopped, and the calls they leave open are answered.
        """
        ended = 0
        try:
            self._begin()
            while ended < len(self.tasks):
                brought = await self._next()
                if isinstance(brought, tuple):
                    event, taken = brought
                    yield self._streams.noted(event)
                    if not taken.done():
                        taken.set_result(None)
                    continue
                ended += 1
                if self.first is None and completed(brought):
                    self.first = self.tasks.index(brought)
                if is_over(brought):
                    break
                self._begin(running=len(self.tasks) - ended)
        finally:
            self._over = True
            await stopped(self.tasks)
        lanes = zip(self._nodes, self.tasks, strict=False)
        cut = [place.path for (place, _), task in lanes if task.cancelled()]
        await settle_below(self._invocation, self._why, *cut)
        for void in self._streams.left():
            yield void

    def failures(self) -> list[NodeFailed]:
        """The failures of nodes; whatever else went wrong is raised."""
        errors = [
            error for task in self.tasks if not task.cancelled() and (error := task.exception())
        ]
        for error in errors:
            if not isinstance(error, (NodeFailed, Suspended)):
                raise error
        return [error for error in errors if isinstance(error, NodeFailed)]

    @property
    def waits(self) -> bool:
        """Whether a lane waits for an answer from outside."""
        return any(isinstance(error_of(task), Suspended) for task in self.tasks)

    def _begin(self, *, running: int = 0) -> None:
        """Begin as many lanes as may run."""
        while running < self._width and len(self.tasks) < len(self._nodes):
            place, node = self._nodes[len(self.tasks)]
            task = asyncio.create_task(self._bring(self._run_node(self._invocation, place, node)))
            task.add_done_callback(self._put)
            self.tasks.append(task)
            running += 1

    async def _bring(self, events: AsyncGenerator[Event, None]) -> None:
        """Bring one event after the other, each once the last was taken."""
        async with aclosing(events):
            async for event in events:
                if self._over:  # it was cancelled, and somebody's code took no notice
                    raise asyncio.CancelledError
                taken: asyncio.Future[None] = self._loop.create_future()
                self._put((event, taken))
                await taken

    async def _next(self) -> "tuple[Event, asyncio.Future[None]] | _Lane":
        """What was brought next; or the lane that has ended."""
        while not self._brought:
            self._waiter = self._loop.create_future()
            await self._waiter
        return self._brought.popleft()

    def _put(self, brought: "tuple[Event, asyncio.Future[None]] | _Lane") -> None:
        self._brought.append(brought)
        if self._waiter is not None and not self._waiter.done():
            self._waiter.set_result(None)


def error_of(task: _Lane) -> BaseException | None:
    """What a lane that has ended by itself raised."""
    return task.exception() if task.done() and not task.cancelled() else None


def completed(task: _Lane) -> bool:
    """Whether a lane ended well."""
    return task.done() and not task.cancelled() and task.exception() is None


def broke(task: _Lane) -> bool:
    """Whether a lane ended badly; one that waits for an answer did not."""
    error = error_of(task)
    return error is not None and not isinstance(error, Suspended)
