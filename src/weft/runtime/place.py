"""Where in a flow something runs: the key under which its events are found again."""

import asyncio
from collections.abc import Coroutine, Iterator, Sequence
from typing import NamedTuple, TypeVar

from weft.session import Event
from weft.values import JsonObject


class Place(NamedTuple):
    """A node's path in the flow, its branch, and the tool call it runs inside, if any.

    A lone agent stands at the empty path, so that its events carry no more than they need.
    """

    path: str = ""
    branch: str = ""
    scope: str = ""

    def child(self, name: str, index: int | str) -> "Place":
        """The place of a node below this one."""
        step = f"{name}@{index}"
        return self._replace(path=f"{self.path}/{step}" if self.path else step)

    def branched(self, parallel: str, name: str) -> "Place":
        """The same place on a branch of its own, which no sibling sees."""
        below = f"{parallel}.{name}"
        return self._replace(branch=f"{self.branch}.{below}" if self.branch else below)

    @property
    def fork(self) -> str:
        """The name under which the log keeps what this branch writes for itself."""
        return f"{self.scope}/{self.branch}" if self.scope else self.branch

    @property
    def node_info(self) -> JsonObject | None:
        """The path as events carry it."""
        return {"path": self.path} if self.path else None

    def holds(self, event: Event) -> bool:
        """Whether the event was made at this place."""
        return path_of(event) == self.path and (event.isolation_scope or "") == self.scope


def is_below(path: str, other: str) -> bool:
    """Whether a path is the other one, or leads on from it."""
    return path == other or path.startswith(f"{other}/")


def paths_around(path: str) -> Iterator[str]:
    """A path, and those that it leads on from; the innermost first."""
    yield path
    while "/" in path:
        path = path.rpartition("/")[0]
        yield path


def path_of(event: Event) -> str:
    """The path of the node that made the event."""
    if event.node_info is None:
        return ""
    path = event.node_info.get("path")
    return path if isinstance(path, str) else ""


def place_of(event: Event) -> Place:
    """The place an event was made at."""
    return Place(path_of(event), event.branch or "", event.isolation_scope or "")


class NodeFailed(Exception):
    """A node ended with an error event, which the log has; `cause` is what user code raised."""

    def __init__(self, event: Event, cause: Exception | None = None) -> None:
        super().__init__(event.error_message)
        self.event = event
        self.cause = cause


class Suspended(Exception):
    """The invocation waits for an answer from outside; it goes on when that is in the log."""


class Interrupted(Exception):
    """A later run of the session asked this one to stop."""


T = TypeVar("T")


async def unbroken(work: Coroutine[object, object, T]) -> T:
    """The result of the work. If the caller is cancelled meanwhile, the work is finished first."""
    task = asyncio.ensure_future(work)
    await ended([task])
    return task.result()


async def stopped(tasks: "Sequence[asyncio.Task[T]]") -> None:
    """Cancel the tasks, once each, and wait until they have cleaned up behind themselves.

    What they raised can be asked of them; if nobody does, nobody is bothered with it.
    """
    for task in tasks:
        task.cancel()
    try:
        await ended(tasks)
    finally:
        for task in tasks:
            if not task.cancelled():
                task.exception()


async def ended(work: "Sequence[asyncio.Future[T]]") -> None:
    """Wait until all of it is done. If the caller is cancelled meanwhile, that is raised then."""
    cancelled: asyncio.CancelledError | None = None
    while unfinished := [each for each in work if not each.done()]:
        try:
            await asyncio.wait(unfinished)
        except asyncio.CancelledError as error:
            cancelled = error
    if cancelled is not None:
        raise cancelled
