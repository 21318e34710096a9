"""Where in a flow something runs: the key under which its events are found, and its state."""

import asyncio
from collections.abc import Coroutine, Iterator, Mapping, Sequence
from typing import NamedTuple, TypeVar

import msgspec

from weft.session import Event, Session, apply_delta
from weft.session.event import hold
from weft.session.lookback import facts_of
from weft.values import Json, JsonObject


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
    # a cancellation is remembered, not obeyed: what is being stored must be stored whole
    while unfinished := [each for each in work if not each.done()]:
        try:
            await asyncio.wait(unfinished)
        except asyncio.CancelledError as error:
            cancelled = error
    if cancelled is not None:
        raise cancelled


class Forking:
    """Which branches have a state of their own, and the state that passes with the invocation."""

    def __init__(self) -> None:
        self._forks: dict[str, str] = {}
        """By path: the name of the fork that begins there."""
        self._temp: JsonObject = {}
        self._temps: dict[str, JsonObject] = {}

    def begin(self, place: Place) -> None:
        """Say that the branch of a place has a state of its own, below that path."""
        self._forks[place.path] = place.fork

    def as_stored(self, event: Event) -> Event:
        """The event as the log keeps it: without `temp:` state, and held on its branch."""
        delta = event.actions.state_delta
        if not delta:
            return event
        forks = self._around(path_of(event))
        if any(key.startswith("temp:") for key in delta):
            passing = {key: value for key, value in delta.items() if key.startswith("temp:")}
            # on a branch, None must stay: it hides the value of the branch around it
            if forks:
                self._temps[forks[-1]] = {**self._temps.get(forks[-1], {}), **passing}
            else:
                self._temp = {k: v for k, v in {**self._temp, **passing}.items() if v is not None}
            delta = {key: value for key, value in delta.items() if key not in passing}
            actions = msgspec.structs.replace(event.actions, state_delta=delta)
            event = msgspec.structs.replace(event, actions=actions)
        return hold(event, forks[-1], delta) if forks and delta else event

    def own(self, session: Session, place: Place) -> JsonObject:
        """What was written on the branch of a place; None stands for a key that was deleted."""
        written = facts_of(session.events).forks.get(place.fork, {})
        return {**written, **self._temps.get(place.fork, {})}

    def state_at(self, session: Session, place: Place) -> Mapping[str, Json]:
        """The state as it is seen from a place."""
        names = self._around(place.path) if self._forks else ()
        if not names:
            return {**session.state, **self._temp} if self._temp else session.state
        seen: Mapping[str, Json] = session.state
        forks = facts_of(session.events).forks
        for name in names:
            seen = apply_delta(seen, forks.get(name, {}))
        return apply_delta(seen, self.temp_at(place))

    def temp_at(self, place: Place) -> JsonObject:
        """The state that lasts as long as the invocation, as it is seen from a place."""
        seen = self._temp
        for name in self._around(place.path) if self._forks else ():
            seen = apply_delta(seen, self._temps.get(name, {}))
        return seen

    def _around(self, path: str) -> list[str]:
        """The branches with a state of their own that a path leads through, the outermost first."""
        if not self._forks:
            return []
        return [self._forks[one] for one in paths_around(path) if one in self._forks][::-1]
