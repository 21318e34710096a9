"""Leases on the sessions of a SQLite file, in this process and across processes.

Inside a process, callers stand in one line, whichever store object they use. Whoever is first in
it takes the operating system's lock, which other processes respect and which dies with its
holder.
"""

import os
import time
from collections.abc import Generator, Sequence
from contextlib import contextmanager
from pathlib import Path
from threading import Lock

from weft.session import SessionKey
from weft.session.lease import Leases, LocalLease
from weft.stores.locks import OPENING, FileLocks, place_of


class FileLeases:
    """What the stores of this process on one file share."""

    def __init__(self, path: Path) -> None:
        self.line = Leases(freed=self._freed)
        self.users = 0
        self._path = path.with_name(f"{path.name}-lease")
        self._locks: FileLocks | None = None
        self._held: dict[SessionKey, tuple[LocalLease, float]] = {}
        self._opening = Lock()
        self._lock = Lock()

    def take(self, lease: LocalLease) -> bool:
        """Take the lock for the one who is first in line; False if another process has it."""
        if not self._opened().take(place_of(lease.key)):
            return False
        self._held[lease.key] = (lease, time.time())
        return True

    def _freed(self, key: SessionKey) -> None:
        self._held.pop(key, None)
        with self._lock:
            if self._locks is not None:
                self._locks.free(place_of(key))

    def any_held(self) -> bool:
        """Whether this process holds a lease."""
        return bool(self._held)

    def holds(self, key: SessionKey) -> bool:
        """Whether this process holds that lease."""
        return key in self._held

    def stop(self, asked: Sequence[tuple[SessionKey, float]]) -> None:
        """Interrupt the holders that somebody has asked to stop since they hold."""
        for key, when in asked:
            lease, since = self._held.get(key, (None, 0.0))
            if lease is not None and when >= since:
                lease.ask_to_stop()

    @contextmanager
    def alone(self) -> Generator[None, None, None]:
        """Make or migrate the file while no other thread or process does."""
        with self._opening:
            locks = self._opened()
            locks.take(OPENING, wait=True)
            try:
                yield
            finally:
                locks.free(OPENING)

    def _opened(self) -> FileLocks:
        with self._lock:
            if self._locks is None:
                self._locks = FileLocks(self._path)
            return self._locks

    def close(self) -> None:
        """Give back the locks: no store of this process is left on the file."""
        with self._lock:
            if self._locks is not None:
                self._locks.close()
                self._locks = None


_files: dict[tuple[int, str], FileLeases] = {}
_files_lock = Lock()


def join(path: Path) -> FileLeases:
    """What this process has for the file; it stays as long as one store uses it."""
    # By process: a child that was forked holds none of its parent's locks.
    at = (os.getpid(), os.path.realpath(path))
    with _files_lock:
        shared = _files.get(at)
        if shared is None:
            shared = _files[at] = FileLeases(Path(at[1]))
        shared.users += 1
        return shared


def leave(shared: FileLeases) -> None:
    """One store less uses it."""
    with _files_lock:
        shared.users -= 1
        if not shared.users:
            shared.close()
            for at in [at for at, held in _files.items() if held is shared]:
                del _files[at]
