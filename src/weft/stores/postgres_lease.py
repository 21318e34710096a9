"""Leases on the sessions of a PostgreSQL database, across all its processes.

A lease is an advisory lock of one connection: it dies with the process. Beside it stands a row
that says who has it. Every write of the holder asks for that row, so one who was stopped, and
wakes up when another has taken over, writes nothing more.

Top to bottom: the leases of a store, and one lease.
"""

import asyncio
import logging
import time
from collections.abc import AsyncGenerator, Callable, Coroutine, Sequence
from contextlib import asynccontextmanager, suppress

from weft.errors import LeaseLost, StoreError
from weft.session import Busy, Lease, SessionKey
from weft.session.memory import Leases, LocalLease
from weft.stores import postgres_rows as rows
from weft.stores.leases import WATCH_EVERY, Holders, outwait
from weft.stores.postgres_batch import Batches, Locked, LockWish, Look, move_locks
from weft.stores.postgres_server import Connection, ConnectionPool, DriverError

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
        self._moves: Batches[LockWish, Locked | None] | None = None
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
                    silent = await rows.end_stale(connection, key, self.worker, self._timeout)
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
                await rows.insert_request(connection, key)

        async def withdraw() -> None:
            async with server.connection() as connection:
                await rows.delete_request(connection, key)

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

    def _moves_on(self, server: ConnectionPool) -> "Batches[LockWish, Locked | None]":
        """What collects the locks to be taken and given back."""
        if self._moves is None:

            async def serve(wishes: Sequence[LockWish]) -> Sequence[Locked | Exception | None]:
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
            holder = await rows.find_holder(connection, key)
        if holder is not None and holder[0] == self.worker:
            # the lease is ours: the write failed because the log has other events
            return False
        async with self._using:
            with suppress(DriverError):  # a connection that broke is noticed when it is used
                # a new connection takes its locks again in `_leasing`
                await (await server.leasing()).execute("SELECT 1")
            await self._leasing(server)
        async with server.connection() as connection:
            holder = await rows.find_holder(connection, key)
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
                        await rows.beat(connection, self.worker)
                        self._beat = time.monotonic()
                    self.stop(await rows.list_requests(connection))
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
            for lease in self._holders.all():
                since = await rows.lock(connection, lease.key, self.worker)
                if since is None:
                    lease.ask_to_stop()
                else:
                    self._holders.add(lease, since)
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
