"""What the processes on a PostgreSQL database tell each other: LISTEN and NOTIFY.

Which sessions grew, who follows which, and the partial events that are sent to who follows. One
connection listens to all that a process wants to hear. Nothing that is told must arrive: who
follows a session looks into the store now and then as well.

Top to bottom: the news of a store, and how partial events are carried.
"""

import asyncio
import hashlib
from collections.abc import Awaitable, Callable, Iterable, Sequence
from contextlib import suppress

import msgspec

from weft.errors import StoreError
from weft.session import SessionKey
from weft.stores.postgres_rows import lock_number
from weft.stores.postgres_server import ConnectionPool, DriverError, explaining
from weft.stores.relay import Relay

_TELL_AFTER = 0.02
"""Seconds in which what sessions grew is collected and told at once."""

_GROWN = "weft_sessions"
"""Where it is told which sessions grew."""

_FOLLOWED = "weft_followed"
"""Where it is told who follows which sessions."""

_AGAIN_AFTER = 0.5
"""Seconds after which a connection that broke is made again."""

_LONGEST_TEXT = 7_900
"""How many bytes are told at once: PostgreSQL takes 7,999."""

_MOST_NUMBERS = 300
"""How many sessions one announcement names."""

Hear = Callable[[str], None]


class News:
    """Which sessions grew, and whatever else is told: to other processes, and heard from them.

    Not in the transaction that grows them, which would make writers wait for each other, and not
    for every event: what grew within a moment is told at once.
    """

    def __init__(self, worker: str) -> None:
        # an identifier of the server: short, and without the marks in a worker's name
        digest = hashlib.blake2b(worker.encode(), digest_size=12).hexdigest()
        self.channel = f"weft_live_{digest}"
        """Where this process alone is told something."""
        self._grown: set[SessionKey] = set()
        self._telling: asyncio.Task[None] | None = None
        self._listening: asyncio.Task[None] | None = None
        self._channels: dict[str, Hear] = {}
        self._hears = asyncio.Event()
        """Whether the connection listens to all of the channels."""
        self._changed: set[int] = set()
        self._has_missed = False
        """Whether a session may have grown while no connection listened."""
        self._heard = asyncio.Event()

    def tell(self, server: ConnectionPool, key: SessionKey) -> None:
        """Have the other processes know that a session grew."""
        self._grown.add(key)
        if self._telling is None or self._telling.done():
            self._telling = server.loop.create_task(self._tell(server))

    async def wait(
        self, server: ConnectionPool, keys: Iterable[SessionKey], seconds: float
    ) -> None:
        """Wait until one of the sessions may have grown, or so many seconds have passed."""
        self.hear(server, {_GROWN: self._note_growth})
        numbers = {*map(lock_number, keys)}
        with suppress(TimeoutError):
            async with asyncio.timeout(seconds):
                # what was heard since the last wait counts: nothing falls between two waits
                while self._changed.isdisjoint(numbers) and not self._has_missed:
                    self._heard.clear()
                    await self._heard.wait()
        # numbers of sessions that nobody waits for are dropped here, too
        self._changed.clear()
        self._has_missed = False

    def hear(self, server: ConnectionPool, channels: dict[str, Hear]) -> None:
        """Listen to these channels too."""
        is_new = not channels.keys() <= self._channels.keys()
        self._channels |= channels
        listening = self._listening
        if listening is None or listening.done() or is_new:
            if listening is not None:
                # LISTEN is per connection: a new channel needs a new round through all of them
                listening.cancel()
            self._hears = asyncio.Event()
            self._listening = server.loop.create_task(self._listen(server, self._hears))

    async def until_heard(self) -> None:
        """Wait until the connection listens."""
        await self._hears.wait()

    async def close(self) -> None:
        """Tell what is to be told, and hear nothing more."""
        for task in (self._telling, self._listening):
            if task is None or task.done() or task.get_loop() is not asyncio.get_running_loop():
                continue  # what belongs to a loop that stopped can be neither ended nor awaited
            if task is self._listening:
                task.cancel()
            await asyncio.wait([task])
        self._telling = self._listening = None
        self._channels = {}
        self._grown = set()
        self._changed = set()
        self._has_missed = False
        self._heard = asyncio.Event()

    async def _tell(self, server: ConnectionPool) -> None:
        while self._grown:
            await asyncio.sleep(_TELL_AFTER)
            grown, self._grown = self._grown, set()
            with suppress(StoreError, DriverError):  # who follows looks now and then as well
                async with server.connection() as connection:
                    await connection.execute(
                        "SELECT pg_notify(%s, number) FROM unnest(%s::text[]) AS number",
                        (_GROWN, [str(lock_number(key)) for key in grown]),
                    )

    async def _listen(self, server: ConnectionPool, hears: asyncio.Event) -> None:
        while True:
            with suppress(StoreError, DriverError):
                connection = await server.connect(leasing=True)
                try:
                    for channel in self._channels:
                        await connection.execute(f"LISTEN {channel}".encode())
                    hears.set()
                    # nothing was heard until now: who waits has to look once
                    self._has_missed = True
                    self._heard.set()
                    async for notice in connection.notifies():
                        self._channels[notice.channel](notice.payload)
                finally:
                    await connection.close()
            hears.clear()
            await asyncio.sleep(_AGAIN_AFTER)

    def _note_growth(self, payload: str) -> None:
        self._changed.add(int(payload))
        self._heard.set()


class ServerCarrier:
    """Partial events as notifications, to a channel of the process that follows."""

    longest = _LONGEST_TEXT
    looks = False

    def __init__(
        self, url: str, news: News, current: Callable[[], Awaitable[ConnectionPool]]
    ) -> None:
        self._url = url
        self._news = news
        self._current = current
        self._marked = 0
        self._marks: dict[str, asyncio.Event] = {}

    @property
    def name(self) -> str:
        """The channel of this process."""
        return self._news.channel

    async def listen(self, relay: Relay, *, follows: bool = False, runs: bool = False) -> None:
        """Hear what is sent here, and for `runs` who follows what."""
        channels: dict[str, Hear] = {}
        if follows:
            channels[self.name] = lambda text: self._hear(relay, text)
        if runs:
            channels[_FOLLOWED] = lambda text: _note_announcement(relay, text)
        self._news.hear(await self._current(), channels)
        await self._news.until_heard()

    async def send(self, texts: Sequence[tuple[str, str]]) -> None:
        """Send texts, in one statement whose loss in a crash of the server is no loss."""
        await self._notify([name for name, _ in texts], [text for _, text in texts])

    async def announce(self, joined: Sequence[int], departed: Sequence[int]) -> None:
        """Tell all processes that run sessions what is followed here."""
        numbers = [(number, True) for number in joined] + [(number, False) for number in departed]
        texts: list[str] = []
        for start in range(0, len(numbers), _MOST_NUMBERS):
            some = numbers[start : start + _MOST_NUMBERS]
            announcement = _Announcement(
                self.name,
                [number for number, is_followed in some if is_followed],
                [number for number, is_followed in some if not is_followed],
            )
            texts.append(msgspec.json.encode(announcement).decode())
        await self._notify([_FOLLOWED] * len(texts), texts)

    async def catch_up(self, relay: Relay) -> None:
        """Send a mark to this process, and wait for it: notifications keep their order."""
        # the mark arrives behind everything that was sent to this process before
        mark = f"={self._marked + 1}"
        self._marked += 1
        self._marks[mark] = asyncio.Event()
        try:
            await self._notify([self.name], [mark])
            await self._marks[mark].wait()
        finally:
            del self._marks[mark]

    def _hear(self, relay: Relay, text: str) -> None:
        if text.startswith("="):
            if text in self._marks:
                self._marks[text].set()
        else:
            relay.hear(text)

    async def _notify(self, channels: Sequence[str], texts: Sequence[str]) -> None:
        server = await self._current()
        async with explaining(self._url), server.connection() as connection:
            await connection.execute(_NOTIFY, (list(channels), list(texts)))

    def followers(self, numbers: Sequence[int]) -> dict[str, list[int]]:
        """Nobody: this carrier is told."""
        return {}

    async def close(self) -> None:
        """Nothing: the news are the store's."""


# without waiting for the disk: nothing of it is kept
_NOTIFY = """
SELECT set_config('synchronous_commit', 'off', true), pg_notify(channel, text)
FROM unnest(%s::text[], %s::text[]) WITH ORDINALITY AS news (channel, text, place) ORDER BY place
"""


class _Announcement(msgspec.Struct, array_like=True):
    """Who follows what: the name of a process, sessions it follows, and those it left."""

    name: str
    joined: list[int]
    departed: list[int]


def _note_announcement(relay: Relay, text: str) -> None:
    with suppress(msgspec.DecodeError):  # a newer Weft announces more: not to us
        announcement = msgspec.json.decode(text, type=_Announcement)
        relay.note_followers(announcement.name, announcement.joined, announcement.departed)
