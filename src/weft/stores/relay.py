"""Partial events on their way from the process that runs a session to those that follow it.

They are never stored in a log. A process that follows a session announces it, and whoever runs the
session sends the pieces of its answers there. Nobody is sent anything that nobody follows. A piece
may be lost: then the reader skips the rest of that answer, and gets the complete event.

Top to bottom: the relay of a store, one run that sends, how letters are written, what carries them.
"""

import asyncio
import hashlib
import logging
import time
from collections import deque
from collections.abc import Callable, Iterable, Sequence
from contextlib import suppress
from typing import NamedTuple, Protocol, runtime_checkable

import msgspec

from weft.errors import StoreError
from weft.session import Event, SessionKey
from weft.session.event import read_event

_log = logging.getLogger("weft")

_SEND_AFTER = 0.03
"""Seconds in which pieces are collected and sent at once."""

_ANNOUNCE_AFTER = 0.1
"""Seconds after which it is announced that a session is followed: many are over by then."""

_ANNOUNCE_EVERY = 5.0
"""Seconds between two announcements of all that is followed."""

_FOLLOWER_LASTS = 16.0
"""Seconds without an announcement after which a follower counts as gone."""

_LOOK_EVERY = 0.25
"""Seconds between two looks who follows, where a carrier is not told of it."""

_WATCH_AFTER = 0.5
"""Seconds that a run streams until its process asks to be told who follows."""

_LISTEN_LIMIT = 2.0
"""Seconds that a run, or who follows one, waits at most until it hears from the database."""

_FLUSH_LIMIT = 0.5
"""Seconds that a run, or who follows one, waits at most for the order of pieces and events."""

_MOST_LETTERS = 10_000
"""How many pieces may wait to be sent; what comes then is lost."""

_MOST_FOLLOWED = 10_000
"""From this many followed sessions on, followers that are gone are looked for."""


class StreamedPiece(NamedTuple):
    """A partial event, and where it belongs."""

    event: Event
    place: int
    """Which piece of its answer it is, from 0; a gap means that one was lost."""
    after: int
    """How many events the log had when it was said."""


TakePiece = Callable[[StreamedPiece], None]


@runtime_checkable
class RelayingStore(Protocol):
    """A store whose processes can send each other partial events."""

    @property
    def relay(self) -> "Relay":
        """What carries them."""
        ...


class Relay:
    """Who follows what, here and in other processes, and the pieces on their way.

    It belongs to the event loop that uses it first; when that has ended, another may use it. What
    other loops run or follow at the same time is not relayed.
    """

    def __init__(self, carrier: "LetterCarrier") -> None:
        self._carrier = carrier
        self._forget()

    @property
    def name(self) -> str:
        """What this process is reached by."""
        return self._carrier.name

    def _forget(self) -> None:
        self._loop: asyncio.AbstractEventLoop | None = None
        self._followed: dict[int, list[TakePiece]] = {}
        self._announced: set[int] = set()
        self._announcing: asyncio.Task[None] | None = None
        self._wakes = asyncio.Event()
        self._followers: dict[int, dict[str, float]] = {}
        """Who follows what elsewhere, and until when that counts, by the monotonic clock."""
        self._runs: dict[int, list[SendingRun]] = {}
        self._letters: deque[tuple[str, bytes]] = deque()
        self._posting = asyncio.Lock()
        self._sending: asyncio.Task[None] | None = None
        self._clock: asyncio.TimerHandle | None = None
        """When to look next who follows."""
        self._watches = False
        """Whether this process is told who follows what."""
        self._watching: asyncio.Task[bool] | None = None
        self._watch_next = 0.0
        """When to ask to be told, at the earliest."""
        self._begun = ""
        """The first parts of a letter whose last has not come."""

    def follow(self, key: SessionKey, take: TakePiece) -> None:
        """Have pieces of a session passed to `take` that another process sends."""
        loop = self._here()
        if loop is None:
            return
        self._followed.setdefault(number_of(key), []).append(take)
        # one task announces for all: many sessions begin to be followed at once
        if self._announcing is None or self._announcing.done():
            self._announcing = loop.create_task(self._announce())
        self._wakes.set()

    def unfollow(self, key: SessionKey, take: TakePiece) -> None:
        """Pass it no more."""
        number = number_of(key)
        takers = self._followed.get(number, [])
        if take in takers:
            takers.remove(take)
        if not takers and self._followed.pop(number, None) is not None:
            self._wakes.set()

    async def listening(self) -> None:
        """Wait until nothing is missed that is sent to this process from now on.

        If the database cannot be reached, there are no pieces until it can.
        """
        if self._here() is not None:
            with suppress(StoreError, TimeoutError):
                async with asyncio.timeout(_LISTEN_LIMIT):
                    await self._carrier.listen(self, follows=True)

    async def watch(self) -> bool:
        """Be told from now on who follows what: for a process that runs sessions of others.

        Whether that worked: a database may be away, or slow. Then it is asked again.
        """
        if self._here() is not None:
            with suppress(StoreError, TimeoutError):
                async with asyncio.timeout(_LISTEN_LIMIT):
                    await self._carrier.listen(self, runs=True)
                self._watches = True
        return self._watches

    def begin(
        self, key: SessionKey, backlog: Callable[[], Iterable[StreamedPiece]], follower: str | None
    ) -> "SendingRun | None":
        """A run that streams, whose pieces are sent to those who follow its session.

        `backlog` gives the pieces of answers that are not complete, for one who comes later.
        `follower` is one who is known to follow; others announce themselves.
        """
        loop = self._here()
        if loop is None:
            return None
        run = SendingRun(self, number_of(key), backlog)
        self._runs.setdefault(run.number, []).append(run)
        if follower is not None:
            until = time.monotonic() + _FOLLOWER_LASTS
            self._followers.setdefault(run.number, {})[follower] = until
        if self._carrier.looks and self._clock is None:
            self._look(loop)
        return run

    def end(self, run: "SendingRun") -> None:
        """The run is over."""
        runs = self._runs.get(run.number, [])
        if run in runs:
            runs.remove(run)
        if not runs:
            self._runs.pop(run.number, None)

    def send(self, run: "SendingRun", piece: StreamedPiece) -> None:
        """Send a piece of a run to all who follow its session."""
        now, number = time.monotonic(), run.number
        # most runs are over sooner, and a listening connection would be opened for nothing
        is_told = self._watches or self._carrier.looks
        if not is_told and now >= max(run.begun + _WATCH_AFTER, self._watch_next):
            self._watch_next = now + _ANNOUNCE_EVERY
            self._watching = asyncio.get_running_loop().create_task(self.watch())
        followers = self._followers.get(number)
        if followers is None:
            # nobody follows: nothing is encoded
            return
        # a process that was killed says no goodbye
        for name in [name for name, until in followers.items() if until < now]:
            del followers[name]
        if not followers:
            del self._followers[number]
        self._post(followers, write_letter(number, piece))

    async def flush(self) -> None:
        """Send what waits now: before a complete event is stored, its pieces are on their way.

        A database that does not answer holds nobody up here for long.
        """
        if self._letters or self._posting.locked():
            with suppress(TimeoutError):
                async with asyncio.timeout(_FLUSH_LIMIT):
                    await self._send_waiting()

    async def catch_up(self) -> None:
        """Wait until what was sent before now is here; not for long, if the database is away."""
        if self._here() is not None and self._followed:
            with suppress(StoreError, TimeoutError):
                async with asyncio.timeout(_FLUSH_LIMIT):
                    await self._carrier.catch_up(self)

    def hear(self, text: str) -> None:
        """Take what was sent to this process: letters, or a part of one that is long."""
        # a letter that was too long for one text comes in parts
        if text[:1] in ("+", "."):
            self._begun += text[1:]
            if text[0] == "+":
                return
            text, self._begun = self._begun, ""
        else:
            # the rest of an earlier letter was lost
            self._begun = ""
        for number, piece in read_letters(text):
            # a copy: a reader may leave while it takes a piece
            for take in [*self._followed.get(number, ())]:
                take(piece)

    def note_followers(
        self, name: str, joined: Iterable[int], departed: Iterable[int] = ()
    ) -> None:
        """Take down what a process follows, and send it what it has missed of open answers."""
        until = time.monotonic() + _FOLLOWER_LASTS
        for number in joined:
            followers = self._followers.setdefault(number, {})
            # only a new one lacks what was streamed before it came
            is_new = name not in followers
            followers[name] = until
            for run in self._runs.get(number, ()) if is_new else ():
                for piece in run.backlog():
                    self._post([name], write_letter(number, piece))
        for number in departed:
            followers = self._followers.get(number, {})
            followers.pop(name, None)
            if not followers:
                self._followers.pop(number, None)
        if len(self._followers) > _MOST_FOLLOWED:
            self._drop_gone()

    async def close(self) -> None:
        """Send nothing more, and hear nothing more."""
        tasks = [
            task
            for task in (self._announcing, self._sending, self._watching)
            if task is not None and not task.done()
        ]
        loop, clock = self._loop, self._clock
        self._forget()
        if loop is asyncio.get_running_loop():
            # of a loop that has ended nothing can be cancelled or awaited
            if clock is not None:
                clock.cancel()
            for task in tasks:
                task.cancel()
            if tasks:
                await asyncio.wait(tasks)
        await self._carrier.close()

    def _here(self) -> asyncio.AbstractEventLoop | None:
        """The running event loop, if this is the relay's."""
        loop = asyncio.get_running_loop()
        if self._loop is not None and self._loop is not loop and self._loop.is_closed():
            self._forget()
        if self._loop is None:
            self._loop = loop
        return loop if self._loop is loop else None

    def _drop_gone(self) -> None:
        """Forget followers that are silent: of sessions that others run too, nobody asks here."""
        now = time.monotonic()
        for number, followers in [*self._followers.items()]:
            if all(until < now for until in followers.values()):
                del self._followers[number]

    def _look(self, loop: asyncio.AbstractEventLoop) -> None:
        """Look who follows what runs here, again and again."""
        if not self._runs:
            self._clock = None
            return
        self._clock = loop.call_later(_LOOK_EVERY, self._look, loop)
        for name, numbers in self._carrier.followers([*self._runs]).items():
            self.note_followers(name, numbers)

    def _post(self, names: Iterable[str], letter: bytes) -> None:
        # the database is slower than the models: memory must not fill up with pieces
        if len(self._letters) >= _MOST_LETTERS:
            return
        self._letters.extend((name, letter) for name in names)
        if self._letters and (self._sending is None or self._sending.done()):
            assert self._loop is not None
            self._sending = self._loop.create_task(self._send())

    async def _send(self) -> None:
        """Send what waits, in its order."""
        while self._letters:
            await asyncio.sleep(_SEND_AFTER)
            await self._send_waiting()

    async def _send_waiting(self) -> None:
        # one sender at a time, so that pieces keep their order
        async with self._posting:
            letters, self._letters = self._letters, deque()
            if not letters:
                return
            by_name: dict[str, list[bytes]] = {}
            for name, letter in letters:
                by_name.setdefault(name, []).append(letter)
            texts = [
                (name, text)
                for name, written in by_name.items()
                for text in pack_letters(written, self._carrier.longest)
            ]
            try:
                await self._carrier.send(texts)
            except StoreError as error:  # whoever follows gets the complete events
                _log.debug("partial events are lost: %s", error.message)

    async def _announce(self) -> None:
        """Tell those who run sessions what is followed here, as long as anything is."""
        announced_at = 0.0
        while self._followed or self._announced:
            with suppress(TimeoutError):
                async with asyncio.timeout(_ANNOUNCE_EVERY):
                    await self._wakes.wait()
            self._wakes.clear()
            # many runs are followed for a moment only, and need not be announced
            await asyncio.sleep(_ANNOUNCE_AFTER)
            followed = {*self._followed}
            is_due = time.monotonic() - announced_at >= _ANNOUNCE_EVERY
            # now and then all is announced again: a process that started since has heard of nothing
            joined = followed if is_due else followed - self._announced
            departed = self._announced - followed
            if not joined and not departed:
                continue
            try:
                await self._carrier.listen(self, follows=True)
                await self._carrier.announce(sorted(joined), sorted(departed))
            except StoreError as error:  # the next announcement may do better
                _log.debug("it is not announced what is followed: %s", error.message)
                continue
            self._announced = followed
            announced_at = time.monotonic() if is_due else announced_at


class SendingRun:
    """A run that streams, as the relay knows it."""

    __slots__ = ("_relay", "backlog", "begun", "number")

    def __init__(
        self, relay: Relay, number: int, backlog: Callable[[], Iterable[StreamedPiece]]
    ) -> None:
        self._relay = relay
        self.number = number
        self.backlog = backlog
        self.begun = time.monotonic()

    def send(self, piece: StreamedPiece) -> None:
        """Send a piece to those who follow, if anybody does."""
        self._relay.send(self, piece)

    async def flush(self) -> None:
        """Have the pieces on their way, before the complete event is stored."""
        await self._relay.flush()

    def end(self) -> None:
        """The run is over."""
        self._relay.end(self)


def number_of(key: SessionKey) -> int:
    """The number that stands for a session in letters and announcements."""
    text = "\0".join(("weft live", *key)).encode()
    return int.from_bytes(hashlib.blake2b(text, digest_size=8).digest(), signed=True)


def write_letter(number: int, piece: StreamedPiece) -> bytes:
    """A piece as JSON."""
    event = msgspec.Raw(piece.event.to_json())
    return msgspec.json.encode((number, piece.place, piece.after, event))


_letters = msgspec.json.Decoder(list[tuple[int, int, int, msgspec.Raw]])


def read_letters(text: str) -> list[tuple[int, StreamedPiece]]:
    """The pieces in a text, each with its session's number; none where it cannot be read."""
    try:
        return [
            (number, StreamedPiece(read_event(bytes(event)), place, after))
            for number, place, after, event in _letters.decode(text)
        ]
    except (ValueError, RecursionError) as error:  # part of it was lost, or a newer Weft sent it
        _log.debug("partial events cannot be read: %s", error)
        return []


def pack_letters(letters: Sequence[bytes], longest: int) -> list[str]:
    """As few texts as hold the letters, none longer than `longest` bytes.

    A letter that is longer goes in parts: `+` begins those that more follow, `.` the last.
    """
    texts: list[str] = []
    begun: list[bytes] = []
    size = 0
    for letter in letters:
        if begun and size + len(letter) + 3 > longest:
            texts.append(_join_letters(begun))
            begun, size = [], 0
        if len(letter) + 3 > longest:
            texts += _split(b"[%b]" % letter, longest)
            continue
        begun.append(letter)
        # and a comma
        size += len(letter) + 1
    if begun:
        texts.append(_join_letters(begun))
    return texts


def _join_letters(letters: Sequence[bytes]) -> str:
    return (b"[%b]" % b",".join(letters)).decode()


def _split(data: bytes, longest: int) -> list[str]:
    """The parts of a long text, none of which ends inside of a character."""
    parts: list[str] = []
    start = 0
    while start < len(data):
        end = min(start + longest - 1, len(data))
        # these bits mark the inner bytes of a UTF-8 character
        while end < len(data) and data[end] & 0xC0 == 0x80:
            end -= 1
        parts.append(("+" if end < len(data) else ".") + data[start:end].decode())
        start = end
    return parts


class LetterCarrier(Protocol):
    """How a database takes letters from process to process."""

    longest: int
    """How many bytes a text may have."""
    looks: bool
    """Whether it has to be asked who follows, because nothing tells it."""

    @property
    def name(self) -> str:
        """What this process is reached by."""
        ...

    async def listen(self, relay: Relay, *, follows: bool = False, runs: bool = False) -> None:
        """Pass to the relay what is sent here, and for `runs` what others announce.

        It returns when nothing is missed from now on.
        """
        ...

    async def send(self, texts: Sequence[tuple[str, str]]) -> None:
        """Send texts to processes by name, in this order."""
        ...

    async def announce(self, joined: Sequence[int], departed: Sequence[int]) -> None:
        """Tell all processes what is followed here, and what is not any more."""
        ...

    async def catch_up(self, relay: Relay) -> None:
        """Wait until what was sent here before now has been passed to the relay."""
        ...

    def followers(self, numbers: Sequence[int]) -> dict[str, list[int]]:
        """Which processes follow these sessions, where the carrier has to be asked."""
        ...

    async def close(self) -> None:
        """Close files and connections; the next use opens them again."""
        ...
