"""Leases on the sessions of a SQLite file, in this process and across processes.

Inside a process, callers stand in one line, whichever store object they use. Whoever is first in
it takes the operating system's lock, which other processes respect and which dies with its
holder.
"""

import errno
import hashlib
import math
import os
import secrets
import struct
import sys
import time
import weakref
from collections.abc import Generator, Sequence
from contextlib import contextmanager, suppress
from functools import lru_cache
from pathlib import Path
from threading import Lock

from weft.errors import StoreError
from weft.session import SessionKey
from weft.session.memory import Leases, LocalLease
from weft.stores.leases import Holders


class FileLocks:
    """The locks of this process on the bytes of one file, which belongs to a database.

    A lock is on an open file, not on its name: if somebody deletes the file, the next process
    makes another one, in which everything is free. So a lock is taken on a second byte too, which
    no other database has. Whoever works with a file that was made late looks for that byte among
    the locks of the whole machine (Linux has a list of them). And whoever has an older file takes
    new locks in the one that has the name now.
    """

    def __init__(self, path: Path, *, database: Path) -> None:
        self._path = path
        self._database = database
        self._salt = b""
        self._older: list[int] = []
        """Descriptors of files that were deleted, with locks that are still held."""
        self._descriptor = -1
        self._file = (0, 0)
        self._is_late = False
        self._open()
        _open.add(self)

    def _open(self) -> None:
        try:
            self._descriptor, self._is_late = _open_locks(self._path, self._database)
        except OSError as error:
            if not self._path.parent.is_dir():  # the first file of a store that is opened is this
                raise StoreError(
                    "the directory of the store does not exist",
                    where=str(self._path.parent),
                    hint=f"make it: mkdir -p {self._path.parent}",
                ) from None
            raise StoreError(
                f"the file for locks cannot be opened: {error.strerror}",
                where=str(self._path),
                hint="make the directory writable, or keep the store in another one",
            ) from None
        self._file = _identity(os.fstat(self._descriptor))

    def take(self, place: int, *, wait: bool = False) -> bool:
        """Lock the byte; False if another process has it. Within a process it always works."""
        try:
            self._follow()
            _lock(self._descriptor, place, wait=wait)
            mark = self._mark(place)
            if mark is not None:
                _lock(self._descriptor, mark, wait=wait)
                # apart from the one that we have just taken
                if self._is_late and _count_locks(mark) > 1:
                    self.free(place)
                    return False
        except OSError as error:
            # systems differ in how they say that the lock is taken
            if error.errno in (errno.EACCES, errno.EAGAIN, errno.EDEADLK):
                return False
            raise StoreError(
                f"the file cannot be locked: {error.strerror}",
                where=str(self._path),
                hint="keep the store on a local disk",
            ) from None
        return True

    def is_taken(self, place: int) -> bool:
        """Whether another process has locked the byte."""
        with suppress(OSError):
            self._follow()
        if _is_locked(self._descriptor, place):
            return True
        mark = self._mark(place) if self._is_late else None
        return mark is not None and _count_locks(mark) > 0

    def _follow(self) -> None:
        """Open the file anew if it was deleted; what is locked in the old one stays so."""
        if not _LASTS:
            return
        try:
            if _identity(os.stat(self._path)) == self._file:
                return
        except FileNotFoundError:
            pass
        self._older.append(self._descriptor)
        self._open()

    def _mark(self, place: int) -> int | None:
        """The byte that stands for the place in this database and in no other."""
        if not _LASTS:
            return None
        if not self._salt:
            try:
                self._salt = struct.pack("=QQ", *_identity(os.stat(self._database)))
            except FileNotFoundError:  # it is about to be made
                return None
        digest = hashlib.blake2b(struct.pack("=Q", place), key=self._salt, digest_size=8).digest()
        return int.from_bytes(digest) >> 2

    def turn(self, place: int) -> float:
        """Which turn the holder of the byte has: greater than that of all who had it before."""
        data = _read_at(self._descriptor, _slot(place))
        return float(_TURN.unpack(data)[0]) if len(data) == _TURN.size else 0.0

    def next_turn(self, place: int) -> float:
        """The turn of one who has just locked the byte, for others to see.

        It is about the time, and greater than the turn before even if the clock was set back.
        """
        now = time.time()
        # the next greater number: never the same turn twice
        turn = max(math.nextafter(self.turn(place), math.inf), now)
        try:
            _write_at(self._descriptor, _slot(place), _TURN.pack(turn))
        except OSError:
            # a full disk: who asks the holder to stop goes by the turn before, or waits
            return self.turn(place)
        return turn

    def free(self, place: int) -> None:
        """Unlock the byte, if it is locked."""
        places = [place, self._mark(place)]
        for descriptor in (self._descriptor, *self._older):
            for one in places:
                if one is not None:
                    with suppress(OSError):
                        _unlock(descriptor, one)

    def close(self) -> None:
        """Close the file, and with it free every lock of this process on it."""
        for descriptor in (self._descriptor, *self._older):
            if descriptor >= 0:
                os.close(descriptor)
        self._descriptor, self._older = -1, []


class FileLeases:
    """The leases that the stores of this process on one file share."""

    def __init__(self, path: Path) -> None:
        self.line = Leases(freed=self._free_lock)
        self.users = 0
        self._database = path
        self._path = path.with_name(f"{path.name}-lease")
        self._locks: FileLocks | None = None
        self._holders = Holders()
        self._opening = Lock()
        self._lock = Lock()

    def take(self, lease: LocalLease) -> bool:
        """Take the lock for the one who is first in line; False if another process has it."""
        locks, place = self._open_locks(), place_of(lease.key)
        if not locks.take(place):
            return False
        self._holders.add(lease, locks.next_turn(place))
        return True

    def turn(self, key: SessionKey) -> float:
        """Which turn the holder of a session has, in whichever process: a request is for that."""
        return self._open_locks().turn(place_of(key))

    def _free_lock(self, key: SessionKey) -> None:
        self._holders.remove(key)
        with self._lock:
            if self._locks is not None:
                self._locks.free(place_of(key))

    def any_held(self) -> bool:
        """Whether this process holds a lease."""
        return bool(self._holders)

    def holds(self, key: SessionKey) -> bool:
        """Whether this process holds that lease."""
        return key in self._holders

    def is_taken(self, key: SessionKey) -> bool:
        """Whether another process has the lock."""
        return key not in self._holders and self._open_locks().is_taken(place_of(key))

    def stop(self, asked: Sequence[tuple[SessionKey, float]]) -> None:
        """Interrupt the holders whom somebody has asked to stop: by their turns, not by a clock."""
        self._holders.stop(asked)

    @contextmanager
    def alone(self) -> Generator[None, None, None]:
        """Make or migrate the file while no other thread or process does."""
        # a lock of the file keeps out other processes only, not other threads of this one
        with self._opening:
            locks = self._open_locks()
            while not locks.take(OPENING, wait=True):
                time.sleep(_OPENING_PAUSE)  # one who has a file of locks that was deleted
            try:
                yield
            finally:
                locks.free(OPENING)

    def _open_locks(self) -> FileLocks:
        with self._lock:
            if self._locks is None:
                self._locks = FileLocks(self._path, database=self._database)
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
    """The leases of this process on the file; they are shared by all of its stores."""
    # By process: a child that was forked holds none of its parent's locks.
    at = (os.getpid(), os.path.realpath(path))
    with _files_lock:
        shared = _files.get(at)
        if shared is None:
            shared = _files[at] = FileLeases(Path(at[1]))
        shared.users += 1
        return shared


def leave(shared: FileLeases) -> None:
    """Give up a share; the last one closes the file of locks."""
    with _files_lock:
        shared.users -= 1
        if not shared.users:
            shared.close()
            for at in [at for at, leases in _files.items() if leases is shared]:
                del _files[at]


_OPENING_PAUSE = 0.01

OPENING = 0
"""The byte that is locked while a process makes or migrates the database."""


@lru_cache(10_000)
def place_of(key: SessionKey) -> int:
    """The byte that stands for a session: far apart from any other, and never OPENING."""
    text = "\0".join(key).encode("utf-8", "surrogatepass")
    # odd, so never OPENING; 62 bits, because the offset of a lock is a signed number
    return (int.from_bytes(hashlib.blake2b(text, digest_size=8).digest()) >> 2) | 1


_TURN = struct.Struct("=d")

_SLOTS = 1 << 16
"""How many turns the file has room for. Sessions that share one have greater turns, that is all."""


def _slot(place: int) -> int:
    """Where in the file the turn of a byte is written."""
    return (place >> 1) % _SLOTS * _TURN.size


_LATE = _SLOTS * _TURN.size
"""Where in the file it is written that it was made after its database."""


def _open_locks(path: Path, database: Path) -> tuple[int, bool]:
    """The file of locks, made if it is not there, and whether that was after its database."""
    flags = os.O_RDWR | (0 if sys.platform == "win32" else os.O_CLOEXEC)
    try:
        descriptor = os.open(path, flags)
    except FileNotFoundError:
        descriptor = _make_locks(path, database, flags)
    return descriptor, bool(_read_at(descriptor, _LATE, 1) == b"\1")


def _make_locks(path: Path, database: Path, flags: int) -> int:
    try:
        is_late = _LASTS and database.stat().st_size > 0
    except FileNotFoundError:
        is_late = False
    if not is_late:
        return os.open(path, flags | os.O_CREAT, 0o666)
    # under another name until it says so: whoever opens it must know
    unnamed = path.with_name(f".{path.name}.{os.getpid()}.{secrets.token_hex(4)}")
    descriptor = os.open(unnamed, flags | os.O_CREAT | os.O_EXCL, 0o666)
    try:
        _write_at(descriptor, _LATE, b"\1")
        os.link(unnamed, path)
    except FileExistsError:  # another process was faster
        os.close(descriptor)
        return os.open(path, flags)
    finally:
        os.unlink(unnamed)
    return descriptor


def _identity(about: os.stat_result) -> tuple[int, int]:
    return about.st_dev, about.st_ino


def _count_locks(place: int) -> int:
    """How many files of this machine have that byte locked; none where it is not told."""
    try:
        lines = Path("/proc/locks").read_text().splitlines()
    except OSError:
        return 0
    # 1: OFDLCK ADVISORY  WRITE -1 fe:00:1234 5 5
    return sum(line.endswith(f" {place} {place}") for line in lines)


_open: "weakref.WeakSet[FileLocks]" = weakref.WeakSet()


def _close_inherited() -> None:
    """In a forked child: close what the parent has locked, or its locks would outlive it."""
    for locks in [*_open]:
        locks.close()


if hasattr(os, "register_at_fork"):
    os.register_at_fork(after_in_child=_close_inherited)

if sys.platform == "win32":
    import msvcrt

    # A byte that is locked cannot be written there, so turns are what the clock says.

    _LASTS = False  # a file that is open cannot be deleted there

    def _read_at(descriptor: int, offset: int, size: int = _TURN.size) -> bytes:
        return _TURN.pack(time.time())[:size]

    def _write_at(descriptor: int, offset: int, data: bytes) -> None:
        pass

    def _lock(descriptor: int, place: int, *, wait: bool) -> None:
        # Windows takes 31 bits of an offset; sessions that share a byte wait for each other
        os.lseek(descriptor, place % 2**31, os.SEEK_SET)
        msvcrt.locking(descriptor, msvcrt.LK_LOCK if wait else msvcrt.LK_NBLCK, 1)

    def _unlock(descriptor: int, place: int) -> None:
        os.lseek(descriptor, place % 2**31, os.SEEK_SET)
        msvcrt.locking(descriptor, msvcrt.LK_UNLCK, 1)

else:
    import fcntl

    def _read_at(descriptor: int, offset: int, size: int = _TURN.size) -> bytes:
        return os.pread(descriptor, size, offset)

    def _write_at(descriptor: int, offset: int, data: bytes) -> None:
        os.pwrite(descriptor, data, offset)

    # A lock of the process would be lost when any descriptor of the file is closed in it.
    _OFD = sys.platform == "linux" and hasattr(fcntl, "F_OFD_SETLK")
    """Whether locks belong to the open file, and not to the process."""

    _LASTS = _OFD
    """Whether a lock on a file that was deleted is still known to somebody."""

    _FLOCK = "hhqqi0q"
    """The fields of `struct flock`."""

    def _lock(descriptor: int, place: int, *, wait: bool) -> None:
        if _OFD:
            _set(descriptor, fcntl.F_WRLCK, place, wait=wait)
            return
        how = fcntl.LOCK_EX if wait else fcntl.LOCK_EX | fcntl.LOCK_NB
        fcntl.lockf(descriptor, how, 1, place, os.SEEK_SET)

    def _unlock(descriptor: int, place: int) -> None:
        if _OFD:
            _set(descriptor, fcntl.F_UNLCK, place, wait=False)
        else:
            fcntl.lockf(descriptor, fcntl.LOCK_UN, 1, place, os.SEEK_SET)

    def _set(descriptor: int, kind: int, place: int, *, wait: bool) -> None:
        """Set a lock of the open file on one byte."""
        command = fcntl.F_OFD_SETLKW if wait else fcntl.F_OFD_SETLK
        fcntl.fcntl(descriptor, command, struct.pack(_FLOCK, kind, os.SEEK_SET, place, 1, 0))


def _is_locked(descriptor: int, place: int) -> bool:
    if sys.platform != "win32" and _OFD:  # asked without taking it
        wanted = struct.pack(_FLOCK, fcntl.F_WRLCK, os.SEEK_SET, place, 1, 0)
        answer = fcntl.fcntl(descriptor, fcntl.F_OFD_GETLK, wanted)
        return bool(struct.unpack(_FLOCK, answer)[0] != fcntl.F_UNLCK)
    # else it is tried out: taken for a moment, and given back
    try:
        _lock(descriptor, place, wait=False)
    except OSError:
        return True
    _unlock(descriptor, place)
    return False
