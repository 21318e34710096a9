"""Locks that processes on one machine respect, and that die with their holder.

A lock is one byte of a file beside the database, locked by the operating system, which frees it
when the process ends, however it ends. The file's content means nothing; its bytes need not exist.

POSIX drops all locks of a process on a file as soon as the process closes any descriptor of
it. So a process opens the file once, and keeps it open as long as it has a store there.
"""

import errno
import hashlib
import os
import sys
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
        os.close(self._descriptor)


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

    def _lock(descriptor: int, place: int, *, wait: bool) -> None:
        how = fcntl.LOCK_EX if wait else fcntl.LOCK_EX | fcntl.LOCK_NB
        fcntl.lockf(descriptor, how, 1, place, os.SEEK_SET)

    def _unlock(descriptor: int, place: int) -> None:
        fcntl.lockf(descriptor, fcntl.LOCK_UN, 1, place, os.SEEK_SET)
