"""A sequence on disk: a file of recordings may hold more than memory should.

The items lie pickled in a temporary file without a name, which this process alone can read, and
each is loaded when it is asked for.
"""

import pickle
import tempfile
from array import array
from collections.abc import Iterable, Sequence
from threading import Lock
from typing import BinaryIO, Generic, TypeVar, cast, overload
from weakref import finalize

Item = TypeVar("Item")

LARGE = 20_000_000
"""Bytes of a file from which on what was read of it is kept on disk."""


class Shelf(Sequence[Item], Generic[Item]):
    """Items that were put on disk, in order; it only grows."""

    def __init__(self, items: Iterable[Item] = ()) -> None:
        self._file = cast("BinaryIO", tempfile.TemporaryFile())  # noqa: SIM115 (it ends with this)
        finalize(self, self._file.close)
        self._ends = array("Q", [0])
        # the list of a page and the requests of another are made in two threads
        self._lock = Lock()
        for item in items:
            self.append(item)

    def append(self, item: Item) -> None:
        """Append an item."""
        data = pickle.dumps(item, pickle.HIGHEST_PROTOCOL)
        with self._lock:
            self._file.seek(self._ends[-1])
            self._file.write(data)
            self._ends.append(self._ends[-1] + len(data))

    def __len__(self) -> int:
        return len(self._ends) - 1

    @overload
    def __getitem__(self, index: int) -> Item: ...
    @overload
    def __getitem__(self, index: slice) -> Sequence[Item]: ...
    def __getitem__(self, index: int | slice) -> Item | Sequence[Item]:
        if isinstance(index, slice):
            return [self[at] for at in range(*index.indices(len(self)))]
        at = index if index >= 0 else index + len(self)
        if not 0 <= at < len(self):
            raise IndexError(index)
        start, end = self._ends[at], self._ends[at + 1]
        with self._lock:
            self._file.seek(start)
            data = self._file.read(end - start)
        return cast("Item", pickle.loads(data))
