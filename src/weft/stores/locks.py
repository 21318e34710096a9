"""Locks that processes on one machine respect, and that die with their holder.

A lock is one byte of a file beside the database, locked by the operating system, which frees it
when the process ends, however it ends. The file's content means nothing; its bytes need not exist.

Where there are locks of an open file (`F_OFD_SETLK`, on Linux) they are used: they stay whatever
else the process does with the file. A forked child closes what it inherited, so that they die with
the process that took them. Elsewhere, as on macOS, the locks are POSIX's: the process loses all of
them as soon as it closes any descriptor of the file, so nothing else may open it there. Both kinds
respect each other.
"""

import errno
import hashlib
import os
import struct
import sys
import weakref
from contextlib import suppress
from pathlib import Path

from weft.errors import StoreError
from weft.session import SessionKey

OPENING = 0
"""The byte that is locked while a process makes or migrates the database."""


def place_of(key: SessionKey) -> int:
    """The byte that stands for a session: far apart from any other, and never OPENING."""
    text = "\0".join(key).encode("utf-8", "surrogatepass")
    return (int.from_bytes(hashlib.blake2b(text, digest_size=8).digest()) >> 2) | 1


class FileLocks:
    """The locks of this process on the bytes of one file."""

    def __init__(self, path: Path) -> None:
        self._path = path
        try:
            flags = os.O_RDWR | os.O_CREAT | (0 if sys.platform == "win32" else os.O_CLOEXEC)
            self._descriptor = os.open(path, flags, 0o666)
        except OSError as error:
            if not path.parent.is_dir():  # the first file of a store that is opened is this one
                raise StoreError(
                    "the directory of the store does not exist",
                    where=str(path.parent),
                    hint=f"make it: mkdir -p {path.parent}",
                ) from None
            raise StoreError(
                f"the file for locks cannot be opened: {error.strerror}",
                where=str(path),
                hint="make the directory writable, or keep the store in another one",
            ) from None
        _open.add(self)

    def take(self, place: int, *, wait: bool = False) -> bool:
        """Lock the byte; False if another process has it. Within a process it always works."""
        try:
            _lock(self._descriptor, place, wait=wait)
        except OSError as error:
            if error.errno in (errno.EACCES, errno.EAGAIN, errno.EDEADLK):
                return False
            raise StoreError(
                f"the file cannot be locked: {error.strerror}",
                where=str(self._path),
                hint="keep the store on a local disk",
            ) from None
        return True

    def free(self, place: int) -> None:
        """Unlock the byte, if it is locked."""
        with suppress(OSError):
            _unlock(self._descriptor, place)

    def close(self) -> None:
        """Close the file, and with it free every lock of this process on it."""
        if self._descriptor >= 0:
            os.close(self._descriptor)
            self._descriptor = -1


_open: "weakref.WeakSet[FileLocks]" = weakref.WeakSet()


def _close_inherited() -> None:
    """In a forked child: close what the parent has locked, or its locks would outlive it."""
    for locks in [*_open]:
        locks.close()


if hasattr(os, "register_at_fork"):
    os.register_at_fork(after_in_child=_close_inherited)


if sys.platform == "win32":
    import msvcrt

    def _lock(descriptor: int, place: int, *, wait: bool) -> None:
        os.lseek(descriptor, place % 2**31, os.SEEK_SET)
        msvcrt.locking(descriptor, msvcrt.LK_LOCK if wait else msvcrt.LK_NBLCK, 1)

    def _unlock(descriptor: int, place: int) -> None:
        os.lseek(descriptor, place % 2**31, os.SEEK_SET)
        msvcrt.locking(descriptor, msvcrt.LK_UNLCK, 1)

else:
    import fcntl

    _OFD = sys.platform == "linux" and hasattr(fcntl, "F_OFD_SETLK")
    """Whether locks belong to the open file, and not to the process."""

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
        """Set a lock of the open file on one byte; the fields are those of `struct flock`."""
        command = fcntl.F_OFD_SETLKW if wait else fcntl.F_OFD_SETLK
        fcntl.fcntl(descriptor, command, struct.pack("hhqqi0q", kind, os.SEEK_SET, place, 1, 0))
