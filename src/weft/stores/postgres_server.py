"""How the PostgreSQL server is reached: the address with its options, and the connections.

Options that begin with `weft_` are Weft's and never reach the driver.
"""

import asyncio
from collections.abc import AsyncGenerator, Sequence
from contextlib import asynccontextmanager
from typing import NamedTuple
from urllib.parse import parse_qsl, quote, urlencode, urlsplit, urlunsplit

from weft.errors import UsageError
from weft.misuse import meant
from weft.stores import postgres_tables as tables
from weft.stores.postgres_tables import MIGRATIONS, Connection, Migration, explaining, place

CONNECTIONS = 8
"""How many connections work at once, beside the one that holds the leases."""

LEASE_TIMEOUT = 30.0
"""Seconds of silence after which a run that another waits for counts as dead."""

_LEAST_TIMEOUT = 2.0
"""A process says about every second that it lives."""

_OPTIONS = ("weft_connections", "weft_lease_timeout", "weft_lease_url")


class DatabaseAddress(NamedTuple):
    """Where the server is, and how Weft uses it."""

    url: str
    """What the driver is given."""
    connections: int = CONNECTIONS
    lease_timeout: float | None = LEASE_TIMEOUT
    lease_url: str = ""
    """Another way to the same database, for locks and notifications: past a pooler."""


def read_address(url: str) -> DatabaseAddress:
    """The address with Weft's own options taken out of it."""
    parts = urlsplit(url)
    options = parse_qsl(parts.query, keep_blank_values=True)
    # the common case: the driver gets the address as it was written
    if not any(name.startswith("weft") for name, _ in options):
        return DatabaseAddress(url)
    own = {name: value for name, value in options if name.startswith("weft")}
    rest = urlencode([one for one in options if one[0] not in own], quote_via=quote)
    address = DatabaseAddress(urlunsplit(parts._replace(query=rest)))
    for name, value in own.items():
        match name:
            case "weft_connections" if value.isdecimal() and int(value) > 0:
                address = address._replace(connections=int(value))
            case "weft_lease_timeout" if value == "none":
                address = address._replace(lease_timeout=None)
            case "weft_lease_timeout" if _seconds(value):
                address = address._replace(lease_timeout=_seconds(value))
            case "weft_lease_url" if value.startswith(("postgresql://", "postgres://")):
                address = address._replace(lease_url=value)
            case _:
                raise _wrong_option(name, value, where=place(address.url))
    return address


def _seconds(text: str) -> float:
    """How many seconds a text says; 0 where it says none that could be meant."""
    try:
        seconds = float(text)
    except ValueError:
        return 0.0
    return seconds if _LEAST_TIMEOUT <= seconds < 1e9 else 0.0


def _wrong_option(name: str, value: str, *, where: str) -> UsageError:
    if name not in _OPTIONS:
        listed = ", ".join(_OPTIONS)
        hint = f"{meant(name, _OPTIONS)}; options: {listed}".removeprefix("; ")
        return UsageError(f"the address has no option `{name}`", where=where, hint=hint)
    hint = {
        "weft_connections": "write a number from 1 on: weft_connections=4",
        "weft_lease_timeout": "write seconds from 2 on, or none: weft_lease_timeout=30",
        "weft_lease_url": "write an address with its special characters quoted:"
        " weft_lease_url=postgresql%3A%2F%2Fhost%2Fdatabase",
    }[name]
    text = "..." if name == "weft_lease_url" else value  # a login is not for logs and screens
    return UsageError(f"{name}={text}", where=where, hint=hint)


class ConnectionPool:
    """The connections of one event loop: some to work with, and one that holds the leases.

    A connection that broke takes the idle ones with it: they broke as well. The next use
    connects again.
    """

    def __init__(
        self, address: DatabaseAddress, worker: str, migrations: Sequence[Migration] = MIGRATIONS
    ) -> None:
        self.loop = asyncio.get_running_loop()
        self.worker = worker
        self._url = address.url
        self._lease_url = address.lease_url or address.url
        self._migrations = migrations
        self._room = asyncio.Semaphore(address.connections)
        self._idle: list[Connection] = []
        self._leasing: Connection | None = None
        self._lock = asyncio.Lock()
        self._migrated = False

    @asynccontextmanager
    async def connection(self) -> AsyncGenerator[Connection, None]:
        """A connection for one piece of work; it commits each statement, or use `transaction`."""
        async with self._room:
            connection = self._idle.pop() if self._idle else await self.connect()
            try:
                yield connection
            except Exception:
                if connection.closed:
                    await self._close_idle()
                else:
                    self._idle.append(connection)
                raise
            except BaseException:
                # cancelled inside a statement: its answer would go to whoever is next
                await connection.close()
                raise
            self._idle.append(connection)

    async def leasing(self) -> Connection:
        """The connection whose locks are the leases of this process."""
        async with self._lock:
            # under the lock: two tasks must not make two connections with half of the locks each
            if self._leasing is None or self._leasing.closed:
                self._leasing = await self.connect(leasing=True)
            return self._leasing

    async def connect(self, *, leasing: bool = False) -> Connection:
        """A new connection, to tables that are there and up to date."""
        url = self._lease_url if leasing else self._url
        async with explaining(url):
            connection = await tables.connect(url, worker=self.worker)
            try:
                if not self._migrated:
                    # once a pool, not with every connection
                    await tables.migrate(connection, self._migrations, where=place(self._url))
            except BaseException:
                await connection.close()
                raise
        self._migrated = True
        return connection

    async def close(self) -> None:
        """Close all connections."""
        await self._close_idle()
        if self._leasing is not None:
            await self._leasing.close()
            self._leasing = None

    async def _close_idle(self) -> None:
        while self._idle:
            await self._idle.pop().close()
