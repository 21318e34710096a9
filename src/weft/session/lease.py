"""Leases inside one process: one run of a session at a time, first come, first served.

Holder and waiter may live in different event loops and threads. Stores that several processes
share take this lease first, and then one that the other processes respect.
"""

import os
import time
from collections import deque
from collections.abc import Callable
from threading import Lock
from typing import TYPE_CHECKING, get_args

from weft.errors import SessionBusy, UsageError
from weft.session.store import Busy, Holder, SessionKey

if TYPE_CHECKING:
    from asyncio import AbstractEventLoop, Future

_CHOICES: frozenset[str] = frozenset(get_args(Busy))


class LocalLease:
    """A place in the line for one session; whoever is first holds the lease.

    `interrupt` is called once the holder has settled, so never before it knows that it holds.
    `asked` says that somebody wants it to stop.
    """

    __slots__ = (
        "_interrupt",
        "_leases",
        "_loop",
        "_settled",
        "_turn",
        "asked",
        "done",
        "key",
        "since",
    )

    def __init__(
        self,
        leases: "Leases",
        key: SessionKey,
        loop: "AbstractEventLoop",
        interrupt: Callable[[], None],
    ) -> None:
        self.key = key
        self.done = False
        self._leases = leases
        self._loop = loop
        self._interrupt = interrupt
        self._settled = False
        self.asked = False
        self.since: float | None = None
        """When it began to hold."""
        self._turn: Future[None] | None = None

    async def release(self) -> None:
        """Let the next run have the session."""
        self._leases.free(self)

    def settle(self) -> None:
        """Begin to hold: from here on the holder can be interrupted."""
        self._settled = True
        self.since = time.time()
        # somebody asked while the lock of other processes was still waited for
        if self.asked:
            self._tell()

    def ask_to_stop(self) -> None:
        """Have `interrupt` called in the holder's event loop, once; from any thread."""
        if self.asked:
            return
        self.asked = True
        if self._settled:
            self._tell()

    @property
    def abandoned(self) -> bool:
        """Whether the event loop is gone that was to release the lease."""
        return self._loop.is_closed()

    async def wait(self) -> None:
        """Wait for the turn; whoever gives up leaves the line."""
        if self._turn is None:
            return
        try:
            await self._turn
        except BaseException:
            # cancelled while in line: those behind must not wait for it
            self._leases.free(self)
            raise

    def line_up(self) -> None:
        """Be someone who waits."""
        self._turn = self._loop.create_future()

    def wake(self) -> bool:
        """Give the turn to the one who waits, if its event loop still runs."""
        return self._soon(self._take_turn)

    def _take_turn(self) -> None:
        if self._turn is not None and not self._turn.done():
            self._turn.set_result(None)

    def _tell(self) -> None:
        self._soon(self._stop)

    def _stop(self) -> None:
        # it may have ended between the asking and this call
        if not self.done:
            self._interrupt()

    def _soon(self, call: Callable[[], None]) -> bool:
        try:
            self._loop.call_soon_threadsafe(call)
        except RuntimeError:  # the loop is closed
            return False
        return True


class Leases:
    """Who runs which session, and who waits for it.

    `freed` is called with the key before the next one gets its turn.
    """

    def __init__(self, *, freed: Callable[[SessionKey], None] | None = None) -> None:
        self._lines: dict[SessionKey, deque[LocalLease]] = {}
        self._lock = Lock()
        self._freed = freed

    async def acquire(
        self, key: SessionKey, *, busy: Busy, interrupt: Callable[[], None]
    ) -> LocalLease:
        """The lease, as soon as it is free; the caller settles it."""
        from asyncio import get_running_loop  # asyncio is slow to load, and compiling needs none

        if busy not in _CHOICES:
            raise UsageError(
                f"`{busy}` is not a way to wait",
                where="busy",
                hint='pass "queue", "reject" or "interrupt"',
            )
        lease = LocalLease(self, key, get_running_loop(), interrupt)
        with self._lock:
            line = self._lines.get(key)
            if line is None:
                self._lines[key] = deque((lease,))
                return lease
            # its event loop ended without a release, as that of `asyncio.run` after an error
            if len(line) == 1 and line[0].abandoned:
                line[0].done = True
                line[0] = lease
                return lease
            if busy == "reject":
                raise busy_error(key)
            lease.line_up()
            line.append(lease)
            if busy == "interrupt":
                line[0].ask_to_stop()
        await lease.wait()
        return lease

    def holder(self, key: SessionKey) -> Holder | None:
        """Who has the session in this process."""
        with self._lock:
            line = self._lines.get(key)
            if not line or line[0].abandoned:
                return None
            return Holder(this_process(), line[0].since)

    def free(self, lease: LocalLease) -> None:
        """Take the lease out of its line; if it was the holder's, wake the next."""
        with self._lock:
            if lease.done:
                return
            lease.done = True
            line = self._lines[lease.key]
            if line[0] is not lease:
                line.remove(lease)
                return
            # before the next one wakes: it wants the lock that other processes respect
            if self._freed is not None:
                self._freed(lease.key)
            line.popleft()
            # whoever's loop is closed will never take its turn
            while line and not line[0].wake():
                line.popleft().done = True
            if not line:
                del self._lines[lease.key]


def this_process() -> str:
    """The name of this process among the holders of leases."""
    import socket  # slow to load, and compiling needs none

    return f"{socket.gethostname()}:{os.getpid()}"


def busy_error(key: SessionKey) -> SessionBusy:
    """The error under `busy="reject"`."""
    return SessionBusy(
        "another run has the session",
        where=str(key),
        hint='wait for it with busy="queue", or stop it with busy="interrupt"',
    )
