"""Runs without a reader: started, followed, stopped, and taken up again after a crash.

`start` returns once the run has the session and the message is in the log. From then on the run
needs nobody: its events are stored, and whoever wants them follows the session.

Top to bottom: a run that was started, how a session is followed, and how a run is stopped.
"""

import asyncio
import functools
import logging
from collections.abc import AsyncGenerator, Callable, Coroutine, Generator
from contextlib import aclosing
from typing import TYPE_CHECKING, ParamSpec, cast

from weft.declare import Node
from weft.errors import CallError, SessionError, UnknownName
from weft.runtime.earlier import is_unfinished
from weft.runtime.feeds import Follower
from weft.runtime.invocation import Invocation, Services
from weft.runtime.result import Result, counted_usage, failure_of, find_part, result_of
from weft.runtime.run import Running, unknown_session
from weft.session import Event, Session, SessionKey, Store, Usage
from weft.session.event import number_events
from weft.session.lookback import find_invocation
from weft.session.store import InSession

P = ParamSpec("P")

_log = logging.getLogger("weft")

SLICE = 128
"""How many stored events are read at once, at most."""

_FIRST_SLICE = 8
"""How many are read first; each slice is twice the one before.

So one who never takes what was read has only a little of a long log in memory.
"""

_HOW_TO_START = 'write (await runner.start("message")).{0}'
_HOW_TO_WAIT = (
    'write run = await runner.start("message"), then (await run).{0};'
    ' or (await runner.run("message")).{0}, which waits for the answer'
)

_ELSEWHERE = 1.0
"""Seconds between two looks whether a run of another process is still under way."""


class Starting(Coroutine[object, None, "StartedRun"]):
    """A run that is about to start: `run = await runner.start(...)` starts it."""

    def __init__(self, start: "Coroutine[object, None, StartedRun]") -> None:
        self._start = start

    def __await__(self) -> "Generator[object, None, StartedRun]":
        return cast("Generator[object, None, StartedRun]", self._start.__await__())

    def send(self, value: None) -> object:
        """The next step, for whoever drives coroutines."""
        return self._start.send(value)

    def throw(self, *raised: object) -> object:
        """Raise where it waits, as a cancelled task does."""
        return self._start.throw(*raised)  # type: ignore[call-overload]

    def close(self) -> None:
        """Give it up."""
        self._start.close()

    if not TYPE_CHECKING:

        def __getattr__(self, name: str) -> object:
            """Say that it must be waited for: first for its start, then for its result."""
            if name.startswith(("_", "cr_")):  # asked for by asyncio, not by people
                raise AttributeError(name)
            part = find_part(name)
            if part or name in vars(StartedRun):
                self._start.close()  # the error says it: no warning after it
            raise UnknownName(
                f"this run has not been started: it has no `{name}` yet",
                where="runner.start",
                hint=_HOW_TO_START.format(name)
                if name in vars(StartedRun)
                else _HOW_TO_WAIT.format(part or "text"),
            )

        def __getitem__(self, key: object) -> object:
            """Say that it is not a dict, as a state of others is."""
            return self.text

        def __aiter__(self) -> object:
            """Say how the events of a run are read."""
            self._start.close()
            raise CallError(
                "this run has not been started: it has no events yet",
                where="runner.start",
                hint='write async for event in runner.run("message"), which starts it, too',
            )


def starting(
    start: "Callable[P, Coroutine[object, None, StartedRun]]",
) -> Callable[P, Starting]:
    """The function whose answer says how it is to be waited for."""

    @functools.wraps(start)
    def begin(*args: P.args, **kwargs: P.kwargs) -> Starting:
        return Starting(start(*args, **kwargs))

    return begin


class StartedRun(InSession):
    """A run that goes on by itself. `id` is its invocation; await it for its result."""

    if not TYPE_CHECKING:

        def __getattr__(self, name: str) -> object:
            """Say that the result is waited for."""
            if name.startswith("_"):
                raise AttributeError(name)
            part = find_part(name)
            raise UnknownName(
                f"a run that goes on has no `{name}`",
                where="StartedRun",
                hint=f"write (await run).{part}" if part else "await it for its result",
            )

    def __init__(
        self,
        running: Running,
        invocation: Invocation,
        *,
        among: "set[StartedRun]",
        follow: bool = False,
    ) -> None:
        self.key: SessionKey = invocation.request.key
        self.after = 0
        """How many events the session had before the message or the answers of this run."""
        self._invocation = invocation
        self._follows = follow
        self._reader: Follower | None = None
        self._begun: list[Event] = []
        """What was stored before the reader joined."""
        self._is_awaited = False
        self._is_joined = False
        self._ready: asyncio.Future[None] | None = None
        """What waits for the session to be open."""
        self._to_tell: list[Callable[[RunEnd | BaseException], None]] = []
        self._among = among
        among.add(self)
        self._task = asyncio.get_running_loop().create_task(_run_to_end(running))
        self._task.add_done_callback(self._note_end)

    @property
    def id(self) -> str:
        """The invocation's id."""
        return self._invocation.id

    @property
    def repeated(self) -> bool:
        """Whether the log had the `request_id` already: another run answers it, or has."""
        return self._is_joined or self._invocation.is_repeated

    @property
    def is_done(self) -> bool:
        """Whether it is over."""
        return self._task.done()

    @property
    def has_let_go(self) -> bool:
        """Whether it is over, and the next run can have the session."""
        return self._invocation.control.has_let_go

    def __await__(self) -> Generator[object, None, Result]:
        self._is_awaited = True
        # whoever waits for it and gives up does not stop it
        end = yield from asyncio.shield(self._task).__await__()
        return end.result

    async def final_session(self) -> Session:
        """The session as the run leaves it, once it is over."""
        return (await self).session

    def when_done(self, tell: "Callable[[RunEnd | BaseException], None]") -> None:
        """Have somebody told how it ended, or of the error, once it is over."""
        if self._task.done():
            asyncio.get_running_loop().call_soon(tell, _outcome(self._task))
        else:
            self._to_tell.append(tell)

    async def events(self) -> AsyncGenerator[Event, None]:
        """The events of this run, from what was said to how it ended.

        Of a run that was started with `follow=True` no partial event is missing.
        """
        async with aclosing(self.batches()) as batches:
            async for batch in batches:
                for event in batch:
                    yield event

    def batches(self) -> "Following":
        """The events of this run in lists: those that are there at once come together."""
        invocation = self._invocation
        return Following(invocation.root, invocation.services, self.key, after=self.after, run=self)

    def take_reader(self) -> tuple[Follower | None, list[Event]]:
        """The reader that joined with the run, and what was stored before that; once."""
        reader, self._reader = self._reader, None
        return reader, self._begun

    def unfollow(self) -> None:
        """Nobody will read the events."""
        if self._reader is not None:
            self._invocation.services.feeds.leave(self._reader)
            self._reader = None

    async def hand_over(self) -> None:
        """Stop here without a word in the log, so that `resume` goes on as after a crash."""
        self._is_awaited = True
        if not self._task.done():
            self._invocation.control.hand_over()
            self._task.cancel()
        await asyncio.wait([self._task])

    def join(self, invocation_id: str, after: int) -> None:
        """The log has the message already, and perhaps another run answers it now.

        This one waits for that, and goes on with it if it is cut off.
        """
        self._is_joined = True
        self._invocation.id = invocation_id
        self.after = after

    async def opened(self) -> None:
        """Wait until the session is open; an error that came before is raised here."""
        self._ready = asyncio.get_running_loop().create_future()
        self._invocation.control.opened = self._note_open
        try:
            await self._ready
        except BaseException:
            # whoever starts it gave up: a run that nobody knows of must not go on
            self._task.cancel()
            raise
        # it ended before the session was open: its error is raised here, and not logged as well
        if not self._is_open:
            self._is_awaited = True
            self._task.result()

    _is_open = False

    def _note_open(self) -> None:
        """The session is open, and the message in its log."""
        self._is_open = True
        request = self._invocation.request
        has_input = request.content is not None or bool(request.answers)
        log = self._invocation.log.session.events
        self.after = len(log) - has_input
        if self._invocation.is_repeated:
            self.after = find_invocation(log, self.id) or 0
        if self._follows:  # now, before the model says its first word
            # it has all that is stored, so it need not look into the store first
            self._begun = number_events(log.since(self.after), self.after)
            self._reader = self._invocation.services.feeds.join(self.key)
            self._reader.is_behind = False
            self._reader.feed.length = len(log)
        self._wake()

    def _wake(self) -> None:
        if self._ready is not None and not self._ready.done():
            self._ready.set_result(None)

    def _note_end(self, task: "asyncio.Task[RunEnd]") -> None:
        self._among.discard(self)
        # the run and this object would keep each other in memory
        self._invocation.control.opened = None
        self._wake()
        error = task.exception() if not task.cancelled() else None
        # an error that nobody waits for would be lost
        is_reported = self._is_awaited or (self._ready is not None and not self._is_open)
        if error is not None and not is_reported:
            _log.error("the run %s of %s failed: %s", self._run_name(), self.key, error)
        to_tell, self._to_tell = self._to_tell, []
        for tell in to_tell:
            tell(_outcome(task))

    def _run_name(self) -> str:
        return self._invocation.id if self._invocation.control.is_open else ""

    def __repr__(self) -> str:
        return f"<run {self._run_name()} of {self.key}{', over' if self.is_done else ''}>"


class RunEnd:
    """How a run ended. The whole result is made for whoever asks for it: most runs have no one."""

    __slots__ = ("_invocation", "_result", "events")

    def __init__(self, invocation: Invocation, events: tuple[Event, ...]) -> None:
        self._invocation = invocation
        self._result: Result | None = None
        self.events = events

    @property
    def result(self) -> Result:
        """What came of the run."""
        if self._result is None:
            self._result = result_of(self._invocation, self.events)
        return self._result

    @property
    def usage(self) -> Usage:
        """What its answers cost."""
        return counted_usage(self.events)

    @property
    def error(self) -> Event | None:
        """The event that ended the run, if one did."""
        return failure_of(self._invocation, self.events)

    @property
    def is_waiting(self) -> bool:
        """Whether the run leaves calls that wait for an answer from outside."""
        # a run that neither called nor answered anything, as most, leaves none
        return not _is_talk(self.events) and bool(self._invocation.log.session.waiting)


def _is_talk(events: tuple[Event, ...]) -> bool:
    """Whether there are events, and all of them only say something."""
    for event in events:
        for part in (event.content.parts or ()) if event.content is not None else ():
            if part.function_call is not None or part.function_response is not None:
                return False
    return bool(events)


async def _run_to_end(running: Running) -> RunEnd:
    complete = [event async for event in running if not event.partial]
    return RunEnd(running.invocation, tuple(complete))


def _outcome(task: "asyncio.Task[RunEnd]") -> RunEnd | BaseException:
    if task.cancelled():
        return asyncio.CancelledError()
    return task.exception() or task.result()


async def follow(
    root: Node,
    services: Services,
    key: SessionKey,
    *,
    after: int,
    forever: bool,
    reader: Follower | None = None,
) -> AsyncGenerator[Event, None]:
    """The events of a session after the first `after`, then those that come, until the run ends."""
    batches = Following(root, services, key, after=after, forever=forever, reader=reader)
    async with aclosing(batches):
        async for batch in batches:
            for event in batch:
                yield event


class Following:
    """The events of a session after the first `after`, then those that come, until the run ends.

    Iterate it for lists of events: those that are there at once come together. With `run` they
    are those of one run. A reader that joined before is passed.

    It is not a generator, because the event loop keeps a list of those, and every run that is
    streamed would be entered there and crossed out.
    """

    def __init__(
        self,
        root: Node,
        services: Services,
        key: SessionKey,
        *,
        after: int,
        forever: bool = False,
        run: StartedRun | None = None,
        reader: Follower | None = None,
    ) -> None:
        self._root = root
        self._services = services
        self._key = key
        self._position = after
        self._slice = _FIRST_SLICE
        self._forever = forever
        self._run = run
        self._reader = reader
        self._is_begun = False
        self._is_own = False
        """Whether the reader joined with the run: it is told of everything."""
        self._complete: set[str] = set()
        self._has_own = False
        """Whether an event of the run was seen."""
        self._is_over = False

    def __aiter__(self) -> "Following":
        return self

    async def __anext__(self) -> list[Event]:
        """The next events."""
        if self._is_over:
            raise StopAsyncIteration
        try:
            batch = await self._next()
            while batch and self._run is not None and not (batch := self._of_run(batch, self._run)):
                batch = await self._next() if not self._is_over else []
        except BaseException:
            self._close()
            raise
        if not batch:
            self._close()
            raise StopAsyncIteration
        return batch

    async def aclose(self) -> None:
        """Follow no longer."""
        self._close()

    def _close(self) -> None:
        self._is_over = True
        if self._reader is not None:
            self._services.feeds.leave(self._reader)
            self._reader = None

    def _of_run(self, batch: list[Event], run: StartedRun) -> list[Event]:
        """The events of the run; it is over where a later one has begun."""
        own: list[Event] = []
        for event in batch:
            if event.invocation_id == run.id:
                own.append(event)
            # only a stored event shows that a later run has begun: partial ones have no number
            elif (own or self._has_own) and event.sequence is not None:
                self._is_over = True
                break
        self._has_own = self._has_own or bool(own)
        return own

    async def _next(self) -> list[Event]:
        """The next events of the session; none where it is over."""
        services, key = self._services, self._key
        if not self._is_begun:
            self._is_begun = True
            if self._run is not None:
                self._reader, begun = self._run.take_reader()
                self._is_own = self._reader is not None
                self._position += len(begun)
                if begun:
                    return begun
            elif self._reader is not None:
                await _require_place(services, key, self._position)
        if self._reader is None:
            # before the store is read, so that nothing falls between
            self._reader = services.feeds.join(key)
            await _require_place(services, key, self._position)
        reader = self._reader
        while True:
            if reader.is_behind:
                events = await _next_slice(services, key, reader, self._position, self._slice)
                self._slice = min(2 * self._slice, SLICE)
                stored: list[Event] = []
                for event in events:
                    stored += (*reader.pieces_of(event.id), event)
                    self._complete.add(event.id)
                self._position += len(events)
                if stored:
                    return stored
                continue
            batch: list[Event] = []
            while reader.waiting:
                news = reader.waiting.popleft()
                if isinstance(news, int):
                    if news > self._position:
                        reader.is_behind = True
                        break
                elif news.partial:
                    # pieces may arrive after the complete event that they belong to
                    if news.id not in self._complete:
                        batch.append(news)
                elif news.sequence == self._position + 1:
                    self._position += 1
                    self._complete = {news.id}
                    batch.append(news)
                # a gap: what is missing is read from the store
                elif news.sequence is not None and news.sequence > self._position:
                    reader.is_behind = True
                    break
            if batch:
                return batch
            if reader.is_behind:
                continue
            self._complete.clear()
            pause = None
            if self._is_own and self._run is not None and self._run.has_let_go:
                return []  # also where a later run has the session already
            if not self._forever and not services.feeds.holds(key):
                if self._is_own:
                    # it was told of every event, so there is nothing to look up
                    return []
                if not await _runs_elsewhere(self._root, services.store, key):
                    # the run may have stored its last events between the two looks
                    if (await services.store.lengths([key])).get(key) == self._position:
                        return []
                    reader.is_behind = True
                    continue
                pause = _ELSEWHERE
            await reader.wait(pause)


async def _require_place(services: Services, key: SessionKey, after: int) -> None:
    """Refuse to follow a session that is not there, or from an event that it does not have."""
    length = (await services.store.lengths([key])).get(key)
    if length is None:
        raise await unknown_session(services, key)
    if after > length:
        raise SessionError(
            f"there is no event {after}: the session has {length}",
            where=str(key),
            hint="it was deleted and begun anew, perhaps: read from 0",
        )


async def _next_slice(
    services: Services, key: SessionKey, reader: Follower, position: int, limit: int
) -> list[Event]:
    """Stored events that the reader has not got yet."""
    # the flag is cleared before the store is read: what comes meanwhile sets it again
    reader.is_behind = False
    events = await services.store.events(key, after=position, limit=limit)
    if events is None or reader.is_gone:
        raise await unknown_session(services, key)
    reader.is_behind = reader.is_behind or len(events) == limit
    reader.feed.length = max(reader.feed.length, position + len(events))
    if events and reader.feed.is_tuned:
        if reader.name is not None and services.feeds.relay is not None:
            await services.feeds.relay.catch_up()  # the pieces of an answer come before it
        reader.feed.settle(events)
    return events


async def _runs_elsewhere(root: Node, store: Store, key: SessionKey) -> bool:
    """Whether another process, or another runner of this one, runs the session."""
    session = await store.get(key)
    # a run whose end is stored may hold the lease for a moment more
    if session is None or not is_unfinished(root, session):
        return False
    return await store.holder(key) is not None


async def stop_run(services: Services, key: SessionKey) -> bool:
    """Stop the run of a session, wherever it is; False where there was none.

    It returns when the run has stopped and the log says so.
    """
    if not await services.store.lengths([key]):
        raise await unknown_session(services, key)
    feed = services.feeds.running(key)
    if feed is not None:
        # the log then says cancelled, not that a later run took over
        feed.is_cancelled = True
        await _interrupt(services.store, key)
        return True
    return await interrupt_session(services.store, key)


async def interrupt_session(store: Store, key: SessionKey) -> bool:
    """Stop the run that another process has of a session; False where there is none."""
    if await store.holder(key) is None:
        return False
    await _interrupt(store, key)
    return True


async def _interrupt(store: Store, key: SessionKey) -> None:
    # the lease is granted once the run has stopped: then it is given back at once
    lease = await store.lease(key, busy="interrupt", interrupt=lambda: None)
    await lease.release()
