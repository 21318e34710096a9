"""Who follows a session while it is run: events reach every reader, and no reader slows a run.

A run puts what it stores and what it streams into the feed of its session. Each reader has a
short list of its own there. A reader that is too slow loses the list, not the events: stored ones
are read from the store again, and of an answer that streams it gets the complete event.

A session that another process runs is followed in the same way: what it stores is looked up, and
what it streams comes by the store's relay.

Top to bottom: the feeds of a runner, one feed, one reader.
"""

import asyncio
from collections import deque
from collections.abc import Iterator, Sequence
from contextlib import suppress
from typing import TYPE_CHECKING

import msgspec

from weft.errors import StoreError
from weft.session import Event, MemoryStore, SessionKey, Store
from weft.session.event import number_events
from weft.session.strand import Strand

if TYPE_CHECKING:
    from weft.stores.relay import Relay, SendingRun, StreamedPiece

BACKLOG = 1_000
"""How many events may wait for a reader before it has to read them from the store."""

LOOK_EVERY = 0.5
"""Seconds between two looks at what other processes stored."""

_SETTLED = 200
"""How many answers a feed remembers as complete: pieces of them may still be on their way."""


class Feeds:
    """The sessions of a runner that are run or followed now.

    What another process stores is found by looking: one question for all sessions with readers.
    """

    def __init__(self, store: Store) -> None:
        self.idle = Feed(SessionKey("", "", ""))
        """The feed of a run that has not begun: nobody reads it."""
        self._store = store
        self._relay = _relay_of(store)
        self._feeds: dict[SessionKey, Feed] = {}
        self._looking: asyncio.Task[None] | None = None

    @property
    def relay(self) -> "Relay | None":
        """What takes partial events from process to process, if the store has that."""
        return self._relay

    def begin(
        self, key: SessionKey, *, streams: bool = False, follower: str | None = None
    ) -> "Feed":
        """The feed of a session that is run from now on.

        Of a run that streams, other processes that follow the session are sent the pieces;
        `follower` is one of which that is known.
        """
        feed = self._feed(key)
        feed.runs += 1
        if self._relay is not None:
            self._tune(feed)
            if streams and feed.sending is None:
                feed.sending = self._relay.begin(key, feed.backlog, follower)
        return feed

    def end(self, feed: "Feed") -> None:
        """The run is over, and about to give its session back; `let_go` follows."""
        if feed is self.idle:
            return
        feed.runs -= 1
        feed.leaving += 1
        if not feed.runs:
            feed.is_cancelled = False
            feed.unfinished.clear()
            if feed.sending is not None:
                feed.sending.end()
                feed.sending = None
        if self._relay is not None:
            self._tune(feed)

    def let_go(self, feed: "Feed") -> None:
        """Another run can have the session: its readers are told that this one is over."""
        if feed is self.idle:
            return
        feed.leaving -= 1
        for reader in feed.readers:
            reader.wake()
        self._drop(feed)

    def running(self, key: SessionKey) -> "Feed | None":
        """The feed of a session that this runner runs now."""
        feed = self._feeds.get(key)
        return feed if feed is not None and feed.runs else None

    def holds(self, key: SessionKey) -> bool:
        """Whether a run of this runner has the session, or has yet to give it back."""
        feed = self._feeds.get(key)
        return feed is not None and bool(feed.runs or feed.leaving)

    def keys(self) -> list[SessionKey]:
        """The sessions that this runner runs now."""
        return [key for key in self._feeds if self.holds(key)]

    def join(self, key: SessionKey) -> "Follower":
        """A new reader of a session; it begins with the answers that stream now."""
        feed = self._feed(key)
        reader = Follower(feed)
        if feed.unfinished:
            for answer in feed.unfinished.values():
                reader.waiting.extend(answer.pieces)
        feed.readers = (*feed.readers, reader)
        self._tune(feed)
        looking = self._looking
        if looking is None or looking.done() or looking.get_loop().is_closed():
            self._looking = asyncio.get_running_loop().create_task(self._look())
        return reader

    def leave(self, reader: "Follower") -> None:
        """The reader is gone."""
        feed = reader.feed
        feed.readers = tuple([one for one in feed.readers if one is not reader])
        self._tune(feed)
        self._drop(feed)

    def tell(self, key: SessionKey, log: Strand[Event], length: int) -> None:
        """Give the readers what something other than a run stored after `length` events."""
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

    def _tune(self, feed: "Feed") -> None:
        """Have pieces sent here, as long as somebody reads what another process may run."""
        wanted = bool(feed.readers) and not feed.runs
        if self._relay is None or wanted == feed.is_tuned:
            return
        feed.is_tuned = wanted
        if wanted:
            self._relay.follow(feed.key, feed.take_piece)
        else:
            self._relay.unfollow(feed.key, feed.take_piece)

    def _drop(self, feed: "Feed") -> None:
        is_used = feed.runs or feed.leaving or feed.readers
        if not is_used and self._feeds.get(feed.key) is feed:
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
            if lengths is not None and any(
                feed.is_tuned and lengths.get(feed.key, 0) > feed.length for feed in followed
            ):
                assert self._relay is not None
                await self._relay.catch_up()  # the pieces of an answer come before it
            for feed in followed if lengths is not None else ():
                assert lengths is not None
                length = lengths.get(feed.key)
                if feed.runs:
                    continue
                if length is None or length > feed.length:
                    feed.length = length or 0
                    for reader in feed.readers:
                        if length is None:
                            reader.lose(is_gone=True)
                        else:
                            reader.expect(length)
            if any(feed.readers and not feed.runs for feed in self._feeds.values()):
                keys = [feed.key for feed in self._feeds.values() if feed.readers]
                await self._store.changed(keys, seconds=LOOK_EVERY)
            else:
                await asyncio.sleep(LOOK_EVERY)


def _relay_of(store: Store) -> "Relay | None":
    if type(store) is MemoryStore:  # nobody else reads this memory: nothing is to be loaded
        return None
    from weft.stores.relay import RelayingStore

    return store.relay if isinstance(store, RelayingStore) else None


class Feed:
    """One session that is run or followed."""

    __slots__ = (
        "is_cancelled", "is_tuned", "key", "leaving", "length", "readers", "runs", "sending",
        "settled", "unfinished",
    )  # fmt: skip

    def __init__(self, key: SessionKey) -> None:
        self.key = key
        self.runs = 0
        """How many runs of this runner are under way: one, or two while one takes over."""
        self.leaving = 0
        """How many of them are over, and have yet to give the session back."""
        self.is_cancelled = False
        """Whether somebody asked the run to stop, who is not a later run."""
        self.length = 0
        """How many events of the log the readers were told of."""
        self.readers: tuple[Follower, ...] = ()
        self.unfinished: dict[str, _OpenAnswer] = {}
        """Answers that are not complete: who joins now begins with their partial events."""
        self.sending: SendingRun | None = None
        """What sends the pieces of the run to other processes that follow it."""
        self.is_tuned = False
        """Whether pieces are sent here that another process streams."""
        self.settled: dict[str, None] = {}
        """The newest complete events that were read of what another process runs."""

    def grow(self, log: Strand[Event], length: int) -> None:
        """Pass on what was stored after the first `length` events."""
        if not self.readers and not self.unfinished:
            return
        events = number_events(log.since(length), length)
        self.length = max(self.length, len(log))
        for event in events:
            self.unfinished.pop(event.id, None)
            for reader in self.readers:
                reader.take(event)

    def pass_on(self, event: Event, after: int) -> None:
        """Pass on a partial event, which is not stored; it comes after `after` stored events."""
        place, is_void = 0, event.void
        answer = self.unfinished.get(event.id)
        if event.content is None and is_void:
            self.unfinished.pop(event.id, None)
        elif is_void or answer is None:  # the answer begins, perhaps anew
            self.unfinished[event.id] = _OpenAnswer([event], after)
        else:
            place = len(answer.pieces)
            answer.pieces.append(event)
        for reader in self.readers:
            reader.take(event)
        if self.sending is not None:
            from weft.stores.relay import StreamedPiece

            self.sending.send(StreamedPiece(event, place, after))

    def backlog(self) -> "Iterator[StreamedPiece]":
        """The pieces of answers that are not complete, for one who follows from now on."""
        from weft.stores.relay import StreamedPiece

        for answer in self.unfinished.values():
            for place, event in enumerate(answer.pieces):
                yield StreamedPiece(event, place, answer.after)

    def take_piece(self, piece: "StreamedPiece") -> None:
        """Pass on a partial event that another process sent.

        What was there before is dropped, and so is what comes after a gap.
        """
        event, place, after = piece
        answer = self.unfinished.get(event.id)
        known = len(answer.pieces) if answer is not None else 0
        if event.id in self.settled or not (event.void or place == known):
            return
        if after > self.length:
            self.length = after
            for reader in self.readers:
                reader.expect(after)
        if not known:
            self._void_abandoned([event], after + 1)
        self.pass_on(event, after)

    def settle(self, events: Sequence[Event]) -> None:
        """Take note of events that another process stored: the pieces of them are over."""
        for event in events:
            self.unfinished.pop(event.id, None)
            self.settled[event.id] = None
        for id in [*self.settled][:-_SETTLED]:
            del self.settled[id]
        if self.unfinished:
            self._void_abandoned(events)

    def _void_abandoned(self, events: Sequence[Event], place: int = 0) -> None:
        """Take back what was streamed of answers that will never be complete.

        An agent says one thing at a time. If it says another later, the process that streamed the
        first was killed, and the one that went on asked the model again.
        """
        for id, answer in [*self.unfinished.items()]:
            first, after = answer.pieces[0], answer.after
            if any(
                (event.sequence or place) > after
                and event.id != id
                and _speaker(event) == _speaker(first)
                for event in events
            ):
                void = msgspec.structs.replace(first, content=None, interrupted=True)
                self.pass_on(void, after)


class _OpenAnswer(msgspec.Struct, frozen=True):
    """An answer that is not complete."""

    pieces: list[Event]
    after: int
    """How many events the log had when it began."""


def _speaker(event: Event) -> tuple[str | None, ...]:
    return (event.invocation_id, event.author, event.branch, event.isolation_scope)


class Follower:
    """One who follows a session: the events that wait to be read, in their order."""

    __slots__ = (
        "_has_news", "_loop", "_skipped", "_waiter", "feed", "is_behind", "is_gone", "name",
        "waiting",
    )  # fmt: skip

    def __init__(self, feed: Feed) -> None:
        self.feed = feed
        self.name: str | None = None
        """What the process that runs the session sends its pieces to, if it is another one."""
        self.waiting: deque[Event | int] = deque()
        """Events; a number is a length of the log: events up to it are in the store."""
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

    def expect(self, length: int) -> None:
        """Have the reader look into the store, when it has read what waits before."""
        if len(self.waiting) >= BACKLOG:
            self._overflow()
        else:
            self.waiting.append(length)
        self.wake()

    def pieces_of(self, id: str) -> list[Event]:
        """Take out what waits of an answer whose complete event was read from the store."""
        if not self.feed.is_tuned or not self.waiting:
            return []
        pieces = [one for one in self.waiting if not isinstance(one, int) and one.id == id]
        if pieces:
            rest = [one for one in self.waiting if isinstance(one, int) or one.id != id]
            self.waiting = deque(rest)
        return [piece for piece in pieces if piece.partial]

    def lose(self, *, is_gone: bool = False) -> None:
        """Have the reader look into the store at once."""
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
        """Wait until there may be something new, at most `seconds`."""
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

    def _overflow(self, *newest: Event) -> None:
        for one in (*self.waiting, *newest):
            if not isinstance(one, int) and one.partial:
                self._skipped.add(one.id)
        self.waiting.clear()
        self.is_behind = True
