"""What the processes on a PostgreSQL database share: leases on sessions, and news of them.

A lease is an advisory lock of one connection: it dies with the process. Beside it stands a row
that says who has it. Every write of the holder asks for that row, so one who was stopped, and
wakes up when another has taken over, writes nothing more.

The news, by LISTEN and NOTIFY, are which sessions grew, who follows which, and the partial events
that are sent to who follows. One connection listens to all that a process wants to hear. Nothing
that is told must arrive: who follows a session looks into the store now and then as well.

Top to bottom: the leases of a store, one lease; its news, how partial events are carried.
"""

import asyncio
import hashlib
import logging
import time
from collections.abc import AsyncGenerator, Awaitable, Callable, Coroutine, Iterable, Sequence
from contextlib import asynccontextmanager, suppress

import msgspec

from weft.errors import LeaseLost, StoreError
from weft.session import Busy, Lease, SessionKey
from weft.session.memory import Leases, LocalLease
from weft.stores import postgres_tables as tables
from weft.stores.leases import WATCH_EVERY, Holders, outwait
from weft.stores.postgres_batch import Batches, LockWish, Look, TakenLock, move_locks
from weft.stores.postgres_server import Connection, ConnectionPool, DriverError, explaining
from weft.stores.postgres_tables import SERVER_SQL, lock_number, run_steps
from weft.stores.relay import Relay
from weft.stores.steps import delete_request, list_requests, put_request

_log = logging.getLogger("weft")

_STALE_EVERY = 1.0
"""Seconds between two looks whether the holder of a session that is waited for is silent."""

_BEAT_EVERY = 0.9
"""Seconds after which a process says again that it lives; others decide how long they wait."""

_UNLOCK_WITHIN = 2.0
"""Seconds that a cancelled run waits for its lease to be given back; a hung server takes longer."""

_LOOK_LASTS = 1.0
"""Seconds for which what was seen when a lease was taken counts as new."""


class ServerLeases:
    """The leases that a store holds, and the task that watches for those who want them."""

    def __init__(self, worker: str, timeout: float | None) -> None:
        self.worker = worker
        self._timeout = timeout
        self._line = Leases()
        self._holders = Holders()
        self._locked_by: Connection | None = None
        self._moves: Batches[LockWish, TakenLock | None] | None = None
        self._using = asyncio.Lock()
        self._looks: dict[SessionKey, tuple[float, Look]] = {}
        self._watching: asyncio.Task[None] | None = None
        self._beat = 0.0

    async def lease(
        self, server: ConnectionPool, key: SessionKey, *, busy: Busy, interrupt: Callable[[], None]
    ) -> Lease:
        """The right to run the session, across all processes that use the database."""
        local = await self._line.acquire(key, busy=busy, interrupt=interrupt)
        lease = _ServerLease(lambda: self._unlock(local))
        looked = 0.0

        async def take() -> bool:
            nonlocal looked
            moves = self._moves_on(server)
            locked = await moves.put((key, True))
            # the holder's process may be stopped or cut off, and keep its connection open
            if locked is None and self._timeout and time.monotonic() - looked >= _STALE_EVERY:
                looked = time.monotonic()
                async with self._alone(server) as connection:
                    silent = await tables.end_stale(connection, key, self.worker, self._timeout)
                if silent is not None:
                    _log.warning(
                        "%s is taken from %s, silent for %g seconds", key, silent, self._timeout
                    )
                    await asyncio.sleep(0.05)  # until the server has ended its connections
                    locked = await moves.put((key, True))
            if locked is not None:
                self._holders.add(local, locked.since)
                self._looks[key] = time.monotonic(), locked.look
            return locked is not None

        async def ask() -> None:
            async with server.connection() as connection:
                await run_steps(connection, put_request(SERVER_SQL, key))

        async def withdraw() -> None:
            async with server.connection() as connection:
                await run_steps(connection, delete_request(SERVER_SQL, key))

        try:
            await outwait(
                key, busy, take=take, wanted=lambda: local.asked, ask=ask, withdraw=withdraw
            )
        except BaseException:
            # cancelled or refused: the next in this process's line must not wait for us
            await lease.release()
            raise
        local.settle()
        if self._watching is None or self._watching.done():
            self._watching = asyncio.create_task(self._watch(server))
        return lease

    def holds(self, key: SessionKey) -> bool:
        """Whether this store holds that lease."""
        return key in self._holders

    def look(self, key: SessionKey) -> Look | None:
        """The session as it was when the lease was taken, if that was just now; once."""
        when, look = self._looks.pop(key, (0.0, None))
        return look if time.monotonic() - when < _LOOK_LASTS else None

    def _moves_on(self, server: ConnectionPool) -> "Batches[LockWish, TakenLock | None]":
        """What collects the locks to be taken and given back."""
        if self._moves is None:

            async def serve(wishes: Sequence[LockWish]) -> Sequence[TakenLock | Exception | None]:
                is_lost = self._locked_by is None or self._locked_by.closed
                # only unlocks: no reason to connect again
                if is_lost and not any(locks for _, locks in wishes):
                    return [None] * len(wishes)  # the locks went with the connection
                async with self._alone(server) as connection:
                    return await move_locks(connection, wishes, self.worker)

            self._moves = Batches(serve, at_once=1)
        return self._moves

    def fence(self, key: SessionKey) -> str | None:
        """Who must have the lease for a write to count; None where it was written without one."""
        return self.worker if key in self._holders else None

    async def require(self, server: ConnectionPool, key: SessionKey) -> bool:
        """After a write that did not count: whether the lease, lost by the server, is ours again.

        Where another process has it, that is an error: the run must end.
        """
        if key not in self._holders:
            # written without a lease: the log has simply grown
            return False
        async with server.connection() as connection:
            holder = await tables.find_holder(connection, key)
        if holder is not None and holder[0] == self.worker:
            # the lease is ours: the write failed because the log has other events
            return False
        async with self._using:
            with suppress(DriverError):  # a connection that broke is noticed when it is used
                # a new connection takes its locks again in `_leasing`
                await (await server.leasing()).execute("SELECT 1")
            await self._leasing(server)
        async with server.connection() as connection:
            holder = await tables.find_holder(connection, key)
        if holder is not None and holder[0] == self.worker:
            return True
        raise LeaseLost(
            f"{holder[0] or 'another process' if holder is not None else 'another process'} has"
            " taken the session, because this one was silent for too long",
            where=str(key),
            hint="the run is over here, and goes on there; weft_lease_timeout= in the address of"
            " the store says how long a process may be silent",
        )

    def stop(self, asked: Sequence[tuple[SessionKey, float]]) -> None:
        """Interrupt the holders whom somebody has asked to stop since they hold."""
        self._holders.stop(asked)

    def forget(self) -> None:
        """Hold nothing any more: the connection is about to close."""
        self._holders.clear()
        self._looks.clear()
        self._moves = None
        self._using = asyncio.Lock()
        self._locked_by = None
        if self._watching is not None and not self._watching.get_loop().is_closed():
            self._watching.cancel()
        self._watching = None

    async def _unlock(self, local: LocalLease) -> None:
        # before the server is told: a write after this counts as one without a lease
        self._holders.remove(local.key)
        self._looks.pop(local.key, None)
        try:
            if self._moves is not None:
                with suppress(DriverError, StoreError):  # it broke, and the lock is gone with it
                    await self._moves.put((local.key, False))
        finally:
            # the next in line of this process goes on, whether the server answered or not
            await local.release()
            if not self._holders and self._watching is not None:
                self._watching.cancel()
                self._watching = None

    async def _watch(self, server: ConnectionPool) -> None:
        while True:
            with suppress(StoreError, DriverError):  # the next look may do better
                async with self._alone(server) as connection:
                    if time.monotonic() - self._beat > _BEAT_EVERY:
                        await tables.beat(connection, self.worker)
                        self._beat = time.monotonic()
                    self.stop(await run_steps(connection, list_requests(SERVER_SQL)))
            await asyncio.sleep(WATCH_EVERY)

    @asynccontextmanager
    async def _alone(self, server: ConnectionPool) -> AsyncGenerator[Connection, None]:
        """The connection that holds the locks, for one task at a time."""
        async with self._using:
            yield await self._leasing(server)

    async def _leasing(self, server: ConnectionPool) -> Connection:
        """The connection that holds the locks; a new one takes again what the old one held.

        Where somebody was faster, the holder has lost its lease and is told to stop.
        """
        connection = await server.leasing()
        if connection is not self._locked_by:
            self._locked_by = connection
            leases = self._holders.all()
            wishes = [(lease.key, True) for lease in leases]
            moved = await move_locks(connection, wishes, self.worker) if wishes else []
            for lease, locked in zip(leases, moved, strict=True):
                if locked is None:
                    lease.ask_to_stop()
                else:
                    self._holders.add(lease, locked.since)
        return connection


class _ServerLease:
    """A lease that is given back once, to the server and to the next in line."""

    def __init__(self, unlock: Callable[[], Coroutine[object, object, None]]) -> None:
        self._unlock = unlock
        self._released = False

    async def release(self) -> None:
        """Let the next run have the session, even if the caller is cancelled meanwhile."""
        if not self._released:
            self._released = True
            unlocking = asyncio.create_task(self._unlock())
            try:
                await asyncio.shield(unlocking)
            except asyncio.CancelledError:
                # Whoever cancelled may resume at once, and must not be refused because of us.
                await asyncio.wait({unlocking}, timeout=_UNLOCK_WITHIN)
                raise


# --- news

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
        """Wait until one of the sessions may have grown, or `seconds` have passed."""
        self.hear(server, {_GROWN: self.note_growth})
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

    def hears(self, channel: str) -> bool:
        """Whether the connection listens to a channel now."""
        return channel in self._channels and self._hears.is_set()

    def note_growth(self, payload: str) -> None:
        """Take note of a session that grew."""
        self._changed.add(int(payload))
        self._heard.set()

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
            # who follows also waits for growth: another channel later is another connection, and
            # what is sent until that one listens is lost
            channels[_GROWN] = self._news.note_growth
        if runs:
            channels[_FOLLOWED] = lambda text: _note_announcement(relay, text)
        self._news.hear(await self._current(), channels)
        await self._news.until_heard()

    async def send(self, texts: Sequence[tuple[str, str]]) -> None:
        """Send texts, in one statement which may be lost in a crash of the server without harm."""
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
        # without a connection that listens nothing comes, neither pieces nor the mark
        if not self._news.hears(self.name):
            return
        # the mark arrives after everything that was sent to this process before
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
