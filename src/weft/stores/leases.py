"""Who may use a session now: leases that other processes respect, and transactions.

Inside a process callers stand in one line (`weft.session.memory`). The first of them takes a lock
of the operating system or of the server. This chapter holds what both databases share of that.
"""

import asyncio
import os
import secrets
import socket
from collections.abc import Awaitable, Callable, Generator, Sequence
from contextlib import contextmanager
from contextvars import ContextVar
from dataclasses import dataclass

from weft.errors import UsageError
from weft.session import Busy, SessionKey
from weft.session.memory import LocalLease, busy_error

# Seconds between tries: soon at first, as most runs end soon, then seldom.
FIRST_PAUSE = 0.005

LONGEST_PAUSE = 0.1

WATCH_EVERY = 0.5
"""Seconds between two looks at what other processes ask for."""


async def outwait(
    key: SessionKey,
    busy: Busy,
    *,
    take: Callable[[], Awaitable[bool]],
    wanted: Callable[[], bool],
    ask: Callable[[], Awaitable[None]],
    withdraw: Callable[[], Awaitable[None]],
) -> None:
    """Take the lock that other processes respect, waiting for it as `busy` says.

    `ask` tells its holder, wherever that is, to stop, and `withdraw` takes that back. `wanted`
    says whether somebody later in this process's line wants the holder to stop.
    """
    if await take():
        # free: the common case costs one try
        return
    if busy == "reject":
        raise busy_error(key)
    asked, pause = False, FIRST_PAUSE
    try:
        while True:
            if not asked and (busy == "interrupt" or wanted()):
                asked = True
                await ask()
            await asyncio.sleep(pause)
            if await take():
                return
            pause = min(pause * 1.5, LONGEST_PAUSE)
    finally:
        if asked:
            # a request that nobody waits for any more must stop nobody
            await withdraw()


class Holders:
    """The leases that this process holds, each with the time since when."""

    def __init__(self) -> None:
        self._leases: dict[SessionKey, tuple[LocalLease, float]] = {}

    def add(self, lease: LocalLease, since: float) -> None:
        """The lease is held from now on."""
        self._leases[lease.key] = (lease, since)

    def remove(self, key: SessionKey) -> None:
        """The lease is given back."""
        self._leases.pop(key, None)

    def clear(self) -> None:
        """Hold nothing any more."""
        self._leases.clear()

    def all(self) -> list[LocalLease]:
        """The leases that are held now."""
        return [lease for lease, _ in self._leases.values()]

    def stop(self, asked: Sequence[tuple[SessionKey, float]]) -> None:
        """Interrupt the holders whom somebody has asked to stop since they hold."""
        for key, when in asked:
            lease, since = self._leases.get(key, (None, 0.0))
            # an older request was for the holder before this one
            if lease is not None and when >= since:
                lease.ask_to_stop()

    def __contains__(self, key: object) -> bool:
        return key in self._leases

    def __bool__(self) -> bool:
        return bool(self._leases)


@dataclass
class _OpenTransaction:
    """A transaction that this task, or the task that started it, has entered."""

    store: object
    outer: "_OpenTransaction | None"
    ended: bool = False


_entered: ContextVar[_OpenTransaction | None] = ContextVar("_entered", default=None)


@contextmanager
def inside(store: object) -> Generator[None, None, None]:
    """Mark the block as a transaction of the store."""
    entered = _OpenTransaction(store, _entered.get())
    _entered.set(entered)
    try:
        yield
    finally:
        # a task started inside the block has a copy of the variable, and outlives the block
        entered.ended = True
        _entered.set(entered.outer)


def require_outside(store: object, *, where: str) -> None:
    """Refuse what would wait for ever: for the end of the transaction that it is in."""
    entered = _entered.get()
    # a transaction of another store may stand between: look through all of them
    while entered is not None:
        if entered.store is store and not entered.ended:
            raise UsageError(
                "this would wait for the transaction that it is in",
                where=where,
                hint="inside the block, append with the transaction's own append",
            )
        entered = entered.outer


def new_worker() -> str:
    """A name for a store object in this process, which no other has: host, process and a mark."""
    return f"{socket.gethostname()[:24]}:{os.getpid()}:{secrets.token_hex(4)}"
