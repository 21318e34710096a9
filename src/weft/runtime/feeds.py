"""Who follows a session while it is run: events reach every reader, and no reader slows a run.

A run puts what it stores and what it streams into the feed of its session. Each reader has a
short list of its own there. A reader that is too slow loses the list, not the events: stored ones
are read from the store again, and of an answer that streams it gets the complete event.

Top to bottom: the feeds of a runner, one feed, one reader.
"""

import asyncio
from collections import deque
from contextlib import suppress

from weft.errors import StoreError
from weft.session import Event, SessionKey, Store
from weft.session.event import numbered
from weft.session.strand import Strand

BACKLOG = 1_000
"""How many events a reader may be behind before it has to read them from the store."""

LOOK_EVERY = 0.5
"""Seconds between two looks at what other processes stored."""


class Feeds:
    """The sessions of a runner that are run or followed now.

    What another process stores is found by looking: one question for all sessions with readers.
    """

    def __init__(self, store: Store) -> None:
        self.idle = Feed(SessionKey("", "", ""))
        """The feed of a run that has not begun: nobody reads it."""
        self._store = store
        self._feeds: dict[SessionKey, Feed] = {}
        self._looking: asyncio.Task[None] | None = None

    def begin(self, key: SessionKey) -> "Feed":
        """The feed of a session that is run from now on."""
        feed = self._feed(key)
        feed.runs += 1
        return feed

    def end(self, feed: "Feed") -> None:
        """The run is over: its readers are told."""
        if feed is self.idle:
            return
        feed.runs -= 1
        if not feed.runs:
            feed.is_cancelled = False
            feed.unfinished.clear()
        for reader in feed.readers:
            reader.wake()
        self._drop(feed)

    def running(self, key: SessionKey) -> "Feed | None":
        """The feed of a session that this runner runs now."""
        feed = self._feeds.get(key)
        return feed if feed is not None and feed.runs else None

    def keys(self) -> list[SessionKey]:
        """The sessions that this runner runs now."""
        return [key for key, feed in self._feeds.items() if feed.runs]

    def join(self, key: SessionKey) -> "Follower":
        """A new reader of a session; it begins with the answers that stream now."""
        feed = self._feed(key)
        reader = Follower(feed)
        if feed.unfinished:
            for partials in feed.unfinished.values():
                reader.waiting.extend(partials)
        feed.readers = (*feed.readers, reader)
        looking = self._looking
        if looking is None or looking.done() or looking.get_loop().is_closed():
            self._looking = asyncio.get_running_loop().create_task(self._look())
        return reader

    def leave(self, reader: "Follower") -> None:
        """The reader is gone."""
        feed = reader.feed
        feed.readers = tuple([one for one in feed.readers if one is not reader])
        self._drop(feed)

    def tell(self, key: SessionKey, log: Strand[Event], length: int) -> None:
        """Give the readers what was stored by something that is no run, behind `length` events."""
        feed = self._feeds.get(key)
        if feed is not None:
            feed.grow(log, length)

    def forget(self, key: SessionKey) -> None:
        """The session is deleted: its readers are told."""
        feed = self._feeds.get(key)
        for reader in feed.readers if feed is not None else ():
            reader.lose(is_gone=True)

    def close(self) -> None:
        """Stop looking."""
        if self._looking is not None and not self._looking.get_loop().is_closed():
            self._looking.cancel()
        self._looking = None

    def _feed(self, key: SessionKey) -> "Feed":
        feed = self._feeds.get(key)
        if feed is None:
            feed = self._feeds[key] = Feed(key)
        return feed

    def _drop(self, feed: "Feed") -> None:
        if not feed.runs and not feed.readers and self._feeds.get(feed.key) is feed:
            del self._feeds[feed.key]

    async def _look(self) -> None:
        """Find what other processes stored, as long as somebody reads."""
        while followed := [feed for feed in self._feeds.values() if feed.readers]:
            # what runs here is told by the run itself, in the right order with its partial events
            followed = [feed for feed in followed if not feed.runs]
            lengths: dict[SessionKey, int] | None = None
            with suppress(StoreError):  # the next look may do better
                if followed:
                    lengths = await self._store.lengths([feed.key for feed in followed])
            for feed in followed if lengths is not None else ():
                assert lengths is not None
                length = lengths.get(feed.key)
                if feed.runs:
                    continue
                if length is None or length > feed.length:
                    feed.length = length or 0
                    for reader in feed.readers:
                        reader.lose(is_gone=length is None)
            if any(feed.readers and not feed.runs for feed in self._feeds.values()):
                keys = [feed.key for feed in self._feeds.values() if feed.readers]
                await self._store.changed(keys, seconds=LOOK_EVERY)
            else:
                await asyncio.sleep(LOOK_EVERY)


class Feed:
    """One session that is run or followed."""

    __slots__ = ("is_cancelled", "key", "length", "readers", "runs", "unfinished")

    def __init__(self, key: SessionKey) -> None:
        self.key = key
        self.runs = 0
        """How many runs of this runner are under way: one, or two while one takes over."""
        self.is_cancelled = False
        """Whether somebody asked the run to stop, who is not a later run."""
        self.length = 0
        """How many events of the log the readers were told of."""
        self.readers: tuple[Follower, ...] = ()
        self.unfinished: dict[str, list[Event]] = {}
        """The partial events of answers that are not complete: who joins now begins with them."""

    def grow(self, log: Strand[Event], length: int) -> None:
        """Pass on what was stored behind the first `length` events."""
        if not self.readers and not self.unfinished:
            return
        events = numbered(log.since(length), length)
        self.length = max(self.length, len(log))
        for event in events:
            self.unfinished.pop(event.id, None)
            for reader in self.readers:
                reader.take(event)

    def pass_on(self, event: Event) -> None:
        """Pass on a partial event, which is not stored."""
        if event.content is None and event.void:
            self.unfinished.pop(event.id, None)
        elif event.void:  # the answer begins anew with it
            self.unfinished[event.id] = [event]
        else:
            self.unfinished.setdefault(event.id, []).append(event)
        for reader in self.readers:
            reader.take(event)


class Follower:
    """One who follows a session: the events that wait to be read, in their order."""

    __slots__ = (
        "_has_news", "_loop", "_skipped", "_waiter", "feed", "is_behind", "is_gone", "waiting",
    )  # fmt: skip

    def __init__(self, feed: Feed) -> None:
        self.feed = feed
        self.waiting: deque[Event] = deque()
        self.is_behind = True
        """Whether there are stored events that are not in `waiting`."""
        self.is_gone = False
        """Whether the session was deleted."""
        self._skipped: set[str] = set()
        """Answers of which partial events were lost: their others make no sense any more."""
        self._loop = asyncio.get_running_loop()
        self._has_news = False
        self._waiter: asyncio.Future[None] | None = None
        """What the reader waits for. There is one reader: an `asyncio.Event` would cost more."""

    def take(self, event: Event) -> None:
        """Take an event, from whichever thread."""
        if len(self.waiting) >= BACKLOG:
            self._overflow(event)
        elif not event.partial or event.id not in self._skipped:
            self.waiting.append(event)
        elif event.void and event.content is not None:
            self._skipped.discard(event.id)
            self.waiting.append(event)
        self.wake()

    def lose(self, *, is_gone: bool = False) -> None:
        """Have the reader look into the store."""
        self.is_behind = True
        self.is_gone = self.is_gone or is_gone
        self.wake()

    def wake(self) -> None:
        """Let the reader see what is new."""
        if self._has_news:
            return
        try:
            running = asyncio.get_running_loop()
        except RuntimeError:
            running = None
        if running is self._loop:
            self._tell()
        else:
            with suppress(RuntimeError):  # its loop is closed: nobody reads any more
                self._loop.call_soon_threadsafe(self._tell)

    def _tell(self) -> None:
        self._has_news = True
        waiter = self._waiter
        if waiter is not None and not waiter.done():
            waiter.set_result(None)

    async def wait(self, seconds: float | None) -> None:
        """Wait until there may be something new, or so many seconds have passed."""
        if not self._has_news:
            waiter = self._waiter = self._loop.create_future()
            try:
                if seconds is None:
                    await waiter
                else:
                    with suppress(TimeoutError):
                        async with asyncio.timeout(seconds):
                            await waiter
            finally:
                self._waiter = None
        self._has_news = False

    def _overflow(self, event: Event) -> None:
        lost = (*self.waiting, event)
        self._skipped.update(one.id for one in lost if one.partial)
        self.waiting.clear()
        self.is_behind = True
