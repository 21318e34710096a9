"""Leases on the sessions of a PostgreSQL database.

Inside a process, callers stand in one line. Whoever is first in it takes a lock of the server,
which belongs to one connection and dies with that.
"""

import asyncio
from collections.abc import Callable, Coroutine, Sequence
from contextlib import suppress

from weft.errors import StoreError
from weft.session import Busy, Lease, SessionKey
from weft.session.lease import Leases, LocalLease
from weft.stores import postgres_rows
from weft.stores.postgres_server import Connection, Server, psycopg
from weft.stores.waiting import WATCH_EVERY, outwait


class ServerLeases:
    """The leases that a store holds, and the task that watches for those who want them."""

    def __init__(self) -> None:
        self._line = Leases()
        self._held: dict[SessionKey, tuple[LocalLease, float]] = {}
        self._locked_by: Connection | None = None
        self._watching: asyncio.Task[None] | None = None

    async def lease(
        self, server: Server, key: SessionKey, *, busy: Busy, interrupt: Callable[[], None]
    ) -> Lease:
        """The right to run the session, across all processes that use the database."""
        local = await self._line.acquire(key, busy=busy, interrupt=interrupt)
        lease = _ServerLease(lambda: self._unlock(local))

        async def take() -> bool:
            connection = await self._leasing(server)
            since = await postgres_rows.lock(connection, key)
            if since is not None:
                self._held[key] = (local, since)
            return since is not None

        async def ask() -> None:
            async with server.connection() as connection:
                await postgres_rows.ask(connection, key)

        async def withdraw() -> None:
            async with server.connection() as connection:
                await postgres_rows.withdraw(connection, key)

        try:
            await outwait(
                key, busy, take=take, wanted=lambda: local.asked, ask=ask, withdraw=withdraw
            )
        except BaseException:
            await lease.release()
            raise
        local.settle()
        if self._watching is None or self._watching.done():
            self._watching = asyncio.create_task(self._watch(server))
        return lease

    def stop(self, asked: Sequence[tuple[SessionKey, float]]) -> None:
        """Interrupt the holders that somebody has asked to stop since they hold."""
        for key, when in asked:
            lease, since = self._held.get(key, (None, 0.0))
            if lease is not None and when >= since:
                lease.ask_to_stop()

    def forget(self) -> None:
        """Hold nothing any more: the connection is about to close."""
        self._held.clear()
        self._locked_by = None
        if self._watching is not None and not self._watching.get_loop().is_closed():
            self._watching.cancel()
        self._watching = None

    async def _unlock(self, local: LocalLease) -> None:
        self._held.pop(local.key, None)
        try:
            if self._locked_by is not None and not self._locked_by.closed:
                with suppress(psycopg.Error):  # it broke, and the lock is gone with it
                    await postgres_rows.unlock(self._locked_by, local.key)
        finally:
            await local.release()
            if not self._held and self._watching is not None:
                self._watching.cancel()
                self._watching = None

    async def _watch(self, server: Server) -> None:
        while True:
            await asyncio.sleep(WATCH_EVERY)
            with suppress(StoreError, psycopg.Error):  # the next look may do better
                self.stop(await postgres_rows.asked(await self._leasing(server)))

    async def _leasing(self, server: Server) -> Connection:
        """The connection that holds the locks; a new one takes again what the old one held.

        Where somebody was faster, the holder has lost its lease and is told to stop.
        """
        connection = await server.leasing()
        if connection is not self._locked_by:
            self._locked_by = connection
            for key, (lease, _) in list(self._held.items()):
                since = await postgres_rows.lock(connection, key)
                if since is None:
                    lease.ask_to_stop()
                else:
                    self._held[key] = (lease, since)
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
            await asyncio.shield(asyncio.create_task(self._unlock()))
