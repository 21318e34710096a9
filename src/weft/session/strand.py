"""A strand: the sequence that logs and requests are made of, and what is derived from it.

A log only grows, so what was read from its beginning stays true. A strand grows at its tip
without a copy, and keeps with it whatever was derived from its items.

The beginning of a long log may be one that nobody has read. A request under a policy with a window
needs the end of a log, and its beginning only as far as that is plain talk. So a store skims the
rows of a long log instead of decoding them. What it learns (`Skim`) stands in for them: who spoke,
where turns begin, which ids are taken.
"""

from _thread import RLock  # as threading.RLock(), without a call in Python
from collections.abc import Callable, Container, Iterable, Iterator, Mapping, Sequence
from typing import (
    TYPE_CHECKING,
    Generic,
    NamedTuple,
    Never,
    Protocol,
    Self,
    TypeVar,
    cast,
    overload,
    runtime_checkable,
)

import msgspec

from weft.session.event import Event

Item = TypeVar("Item")
ItemRead = TypeVar("ItemRead", contravariant=True)
ItemGiven = TypeVar("ItemGiven", covariant=True)
T = TypeVar("T")
Folded = TypeVar("Folded", bound="Fold[Never]")


class Memo(dict[object, object]):
    """What was derived from a thing and is kept with it: one value of each type and key.

    The type is the slot, so that whoever reads it knows what comes back. `memo[Kind]` and
    `memo[Kind, key]` give the value; the first who asks makes an empty one, by `Kind()`.
    """

    __slots__ = ()

    if TYPE_CHECKING:

        def of(self, kind: "type[T] | tuple[type[T], *tuple[object, ...]]", /) -> T | None:
            """The value of this type, or of a type and key; None where nobody kept one."""
            ...

        def __getitem__(  # type: ignore[override]
            self, kind: "type[T] | tuple[type[T], *tuple[object, ...]]", /
        ) -> T: ...

    else:
        of = dict.get  # every step asks a dozen times: no frame of its own

    def keep(self, value: T, *key: object) -> T:
        """Keep a value under its type and the key, instead of the one before."""
        self[(type(value), *key) if key else type(value)] = value
        return value

    def __missing__(
        self, slot: "type[object] | tuple[type[object], *tuple[object, ...]]"
    ) -> object:
        """An empty value; in a fork, what holds for the items that it shares."""
        value: object = None
        fork = self.get(Fork)
        if isinstance(fork, Fork):
            parent = fork.memo.get(slot)
            if isinstance(parent, Forkable):
                with fork.lock:
                    value = parent.fork(fork.length)
        if value is None:
            value = slot[0]() if isinstance(slot, tuple) else slot()
        return self.setdefault(slot, value)


@runtime_checkable
class Forkable(Protocol):
    """Something derived from a strand that a fork of the strand can take over in part."""

    def fork(self, length: int) -> object:
        """What it says of the first `length` items alone; None where that cannot be told."""
        ...


class Fold(Protocol[ItemRead]):
    """What the first items of a strand add up to. A fold is a value: `after` changes nothing."""

    def after(self, items: Sequence[ItemRead], /) -> Self:
        """The same once these items follow."""
        ...


class Fork(msgspec.Struct, frozen=True):
    """Where a strand was forked: the memo and lock of the other, and how many items they share."""

    memo: dict[object, object]
    lock: RLock
    length: int


@runtime_checkable
class Passing(Protocol[ItemGiven]):
    """What a strand may lie over that has not all of its items in memory."""

    def read_once(self, start: int, end: int) -> Sequence[ItemGiven]:
        """The items between, without keeping those that were not in memory."""
        ...


class Strand(Sequence[Item], Generic[Item]):
    """An immutable sequence that grows at its tip in constant time.

    Snapshots share one backing list and know their own length, so appending to the newest
    copies nothing, and appending to an older one copies once. A short `tail` may follow that
    is this snapshot's own. All snapshots of one backing list share `memo`: what was derived from
    a prefix is derived once (`derive`). They share `lock` too, for an index that grows in place.
    """

    __slots__ = ("_backing", "length", "lock", "memo", "settled", "tail", "tip")

    def __init__(self, items: Iterable[Item] = ()) -> None:
        backing = self._backing = list(items)
        self.tail: tuple[Item, ...] = ()
        """What only this snapshot has."""
        self.settled = self.length = len(backing)
        """How many items it shares, and how many it has."""
        self.tip: Item | None = backing[-1] if backing else None
        """The last item, or None where there is none."""
        self.memo = Memo()
        self.lock = RLock()

    @staticmethod
    def over(backing: Sequence[T]) -> "Strand[T]":
        """A strand over something that is read and extended like a list, as it is."""
        strand: Strand[T] = Strand()
        strand._backing = cast("list[T]", backing)
        strand.settled = strand.length = len(backing)
        strand.tip = backing[-1] if strand.length else None
        return strand

    def extend(self, items: Sequence[Item]) -> "Strand[Item]":
        """A strand with the items added; this one stays as it is."""
        if not items:
            return self
        with self.lock:
            return self.grown(items)

    def grown(self, items: Sequence[Item]) -> "Strand[Item]":
        """As `extend`, for whoever holds the lock, or is the only one to extend this strand."""
        backing = self._backing
        settled = self.settled
        # somebody has extended the same backing: this strand gets one of its own
        if self.tail or len(backing) != settled:
            return Strand([*self, *items])
        backing.extend(items)
        view = object.__new__(self.__class__)  # as `_view`: this is done at every step
        view._backing = backing
        view.tail = ()
        view.settled = view.length = settled + len(items)
        view.tip = items[-1] if items else self.tip
        view.memo = self.memo
        view.lock = self.lock
        return view

    def with_tail(self, items: Sequence[Item]) -> "Strand[Item]":
        """A snapshot followed by items that the next one will not have."""
        return self._view(self.settled, (*self.tail, *items)) if items else self

    def fork(self, length: int) -> "Strand[Item]":
        """A strand of its own that begins with the first settled items of this one.

        It copies pointers. Whoever derived something from these items may take it over: `memo`
        says under `Fork` where they came from.
        """
        branch = Strand(self._backing[:length])
        branch.memo[Fork] = Fork(self.memo, self.lock, length)
        self.memo.pop(Fork, None)  # a chain of forks would keep every older strand alive
        return branch

    def first(self, length: int) -> "Strand[Item]":
        """The strand's first items, sharing everything derived so far."""
        length = max(length, 0)
        if length > self.settled:
            return self._view(self.settled, self.tail[: length - self.settled])
        return self._view(length, ())

    def since(self, start: int) -> list[Item]:
        """The items from `start` on, as a new list."""
        if start >= self.settled:
            return list(self.tail[start - self.settled :])
        items = self._backing[start : self.settled]
        if self.tail:
            items += self.tail
        return items

    def derive(self, kind: type[Folded]) -> Folded:
        """What the settled items add up to; only those are read that were not read before.

        `kind()` stands for no items at all. The tail is not in it: `derive(T).after(strand.tail)`.
        What an older snapshot than was read last adds up to is kept next to it.
        """
        # no casts on this path: several folds are asked at every step
        last: tuple[int, Fold[Item]] | None = self.memo.get(kind)  # type: ignore[assignment]
        settled = self.settled
        if last is not None and last[0] == settled:  # nothing new: the common case in a tool loop
            return last[1]  # type: ignore[return-value]
        read, fold = last or (0, cast("Fold[Item]", kind()))
        slot: object = kind
        # what a newer snapshot added up to stays in its place
        if read > settled:
            slot = (kind, "older")
            read, fold = cast("tuple[int, Fold[Item]]", self.memo.get(slot, (0, kind())))
            if read > settled:
                read, fold = 0, cast("Fold[Item]", kind())
        if read < settled:
            fold = fold.after(self._backing[read:settled])
            self.memo[slot] = settled, fold
        return fold  # type: ignore[return-value]

    def shares(self, other: "Strand[Item]") -> bool:
        """Whether both are snapshots of one sequence, so that one begins the other."""
        return self._backing is other._backing

    def between(self, start: int, end: int) -> list[Item]:
        """The items from `start` up to `end`, as a new list."""
        if end <= self.settled:
            return self._backing[start:end]
        return self.since(start)[: end - start]

    def read_once(self, start: int, end: int) -> Sequence[Item]:
        """The settled items between, for whoever does not need them any more after this.

        Those that are not in memory do not stay there on that account.
        """
        backing: object = self._backing
        if isinstance(backing, Passing):
            return cast("Passing[Item]", backing).read_once(start, min(end, self.settled))
        return self.between(start, min(end, self.settled))

    def _view(self, settled: int, tail: tuple[Item, ...]) -> "Strand[Item]":
        view = object.__new__(self.__class__)
        view._backing = self._backing
        view.tail = tail
        view.settled = settled
        view.length = settled + len(tail)
        view.tip = tail[-1] if tail else self._backing[settled - 1] if settled else None
        view.memo = self.memo
        view.lock = self.lock
        return view

    def __reduce__(self) -> tuple[object, ...]:
        return Strand, (self.since(0),)

    def __len__(self) -> int:
        return self.length

    @overload
    def __getitem__(self, index: int) -> Item: ...
    @overload
    def __getitem__(self, index: slice) -> Sequence[Item]: ...
    def __getitem__(self, index: int | slice) -> Item | Sequence[Item]:
        if isinstance(index, slice):
            return self.since(0)[index]
        settled = self.settled
        at = index if index >= 0 else index + self.length
        if 0 <= at < settled:
            return self._backing[at]
        if at < 0:
            raise IndexError(index)
        return self.tail[at - settled]

    def __iter__(self) -> Iterator[Item]:
        return iter(self.since(0))

    def __eq__(self, other: object) -> bool:
        if isinstance(other, (Strand, list, tuple)):
            return self.since(0) == list(cast("Sequence[object]", other))
        return NotImplemented

    __hash__ = None  # type: ignore[assignment]

    def __repr__(self) -> str:
        return f"Strand({self.since(0)!r})"


# --- a beginning that nobody has read


class Skim(NamedTuple):
    """What is known of the first `length` events of a log, all of which are plain talk.

    Plain talk is one text of the user's or of an agent's, or calls of an agent's right before their
    results, or nothing at all. It may write state, but an agent deletes none. It reaches back to
    nothing but by a rewind, and leaves nothing open.
    """

    length: int
    authors: frozenset[str]
    asked: int
    """Where the user spoke last."""
    turns: Sequence[int]
    """Where turns begin."""
    calls: Mapping[str, int]
    """Where each call was made, by its id; without those in `older`."""
    invocations: "FirstPositions"
    """Where each invocation begins."""
    older: "OlderCalls | None" = None
    """The calls of chapters that are not even in memory, where there are such."""
    produced: frozenset[str] = frozenset()
    """The keys under which answers were stored."""
    volatile: frozenset[str] = frozenset()
    """All keys that agents and their tools wrote."""
    supplied: frozenset[str] | None = None
    """All keys that came with the user's messages; None where nobody noted them."""
    rewinds: tuple[tuple[int, str], ...] = ()
    """Where each rewind stands, and the invocation it goes back to before."""

    def calls_before(self, position: int) -> "CallIds":
        """The ids of the calls that were made before a position, as a set of its own."""
        ids = CallIds(id for id, at in self.calls.items() if at < position)
        if self.older is not None:
            self.older.add_to(ids, position)
        return ids


class CallIds(set[str]):
    """Ids of calls. Those in `older` count as well, though nobody has listed them."""

    older: Container[str] = ()

    def __contains__(self, id: object) -> bool:
        return super().__contains__(id) or (isinstance(id, str) and id in self.older)

    def __bool__(self) -> bool:
        return len(self) > 0 or self.older != ()


class FirstPositions(Protocol):
    """Where in a log each of some ids stands first."""

    def __contains__(self, id: object, /) -> bool: ...

    def find(self, id: str, /) -> int | None:
        """The position of the first event with the id; None where there is none."""
        ...


class OlderCalls(Protocol):
    """The calls of events that a store has not read."""

    def add_to(self, ids: CallIds, position: int) -> None:
        """Add the ids of those before a position."""
        ...


def fold_log(log: Strand[Event], kind: type[Folded], talk: "Callable[[Skim], Folded]") -> Folded:
    """What a log adds up to; `talk` says what talk that nobody read comes to."""
    if log.memo.get(kind) is None and (skim := skim_of(log)) is not None:
        log.memo[kind] = skim.length, talk(skim)
    return log.derive(kind)


def skim_of(log: Strand[Event]) -> Skim | None:
    """What the store learned of the log's beginning, where the log has it."""
    skim = log.memo.of(Skim)
    return skim if skim is not None and skim.length <= log.settled else None
