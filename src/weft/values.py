"""JSON values: the type, canonical text and content hashes.

Everything that is stored, hashed or sent is a JSON value. One encoder makes the text
that templates insert and hashes are taken over, so equal values give equal bytes in
every process.
"""

import json
import math
from collections.abc import Iterable, Iterator, Mapping, Sequence
from threading import RLock
from typing import (
    TYPE_CHECKING,
    Any,
    Generic,
    NamedTuple,
    Never,
    Protocol,
    Self,
    TypeAlias,
    TypeVar,
    cast,
    overload,
)

import msgspec

from weft.errors import SessionError

if TYPE_CHECKING:
    Json: TypeAlias = "bool | int | float | str | list[Json] | dict[str, Json] | None"
    JsonObject: TypeAlias = "dict[str, Json]"
else:  # msgspec reads annotations at run time and takes no recursive alias
    Json = Any
    JsonObject = dict[str, Any]

Item = TypeVar("Item")
ItemRead = TypeVar("ItemRead", contravariant=True)
T = TypeVar("T")
Folded = TypeVar("Folded", bound="Fold[Never]")

MAX_DEPTH = 200
"""How deep a value may nest: deeper than any real payload, shallower than the stack."""


_unescaped = json.JSONEncoder(ensure_ascii=False, separators=(",", ":"), allow_nan=False)
_sorted = json.JSONEncoder(separators=(",", ":"), allow_nan=False, sort_keys=True)


def compact(value: object) -> str:
    """A JSON value as compact text, keys in their own order, nothing escaped that need not be."""
    try:
        return msgspec.json.encode(value).decode()
    except (UnicodeEncodeError, OverflowError, TypeError):  # lone surrogates, very large integers
        return _unescaped.encode(value)


def canonical(value: object) -> bytes:
    """The value as canonical JSON: sorted keys, compact, ASCII, so also lone surrogates encode."""
    return _sorted.encode(value).encode("ascii")


def digest(data: bytes) -> str:
    """A short content hash, stable across processes."""
    import hashlib

    return hashlib.blake2b(data, digest_size=16).hexdigest()


def require_json(value: object, *, where: str) -> Json:
    """The value as plain JSON, its dicts and lists copied, or an error that says where it is not.

    The copy is what keeps a session apart from what its maker does with the value later.
    """
    try:
        return _plain(value, 0)
    except _NotJson as refused:
        path = "".join(reversed(refused.path))
        clipped = path if len(path) <= 80 else f"{path[:40]}…{path[-20:]}"
        raise SessionError(refused.message, where=where + clipped, hint=refused.hint) from None


def require_object(value: object, *, where: str) -> JsonObject:
    """The mapping as plain JSON, copied, or an error that says what is wrong with it."""
    if not isinstance(value, Mapping):
        raise SessionError(
            f"a {type(value).__name__} is not a mapping", where=where, hint='pass {"key": value}'
        )
    return cast("JsonObject", require_json(cast("Mapping[object, object]", value), where=where))


class _NotJson(Exception):
    """Something that is not JSON; the path to it is gathered on the way out."""

    def __init__(self, message: str, hint: str) -> None:
        self.message = message
        self.hint = hint
        self.path: list[str] = []


def _plain(value: object, depth: int) -> Json:
    if value is None or isinstance(value, (str, bool, int)):
        return value
    if isinstance(value, float):
        if math.isfinite(value):
            return value
        raise _NotJson(f"{value} is not a JSON number", "use None or a string instead")
    if depth > MAX_DEPTH:
        raise _NotJson(
            f"the value nests deeper than {MAX_DEPTH} levels", "store it as text or as an artifact"
        )
    if isinstance(value, Mapping):
        copied: JsonObject = {}
        for key, item in cast("Mapping[object, object]", value).items():
            if not isinstance(key, str):
                raise _NotJson(f"the key {key!r} is not a string", "JSON keys are strings")
            try:
                copied[key] = _plain(item, depth + 1)
            except _NotJson as refused:
                refused.path.append(f".{key}")
                raise
        return copied
    if isinstance(value, (list, tuple)):
        listed: list[Json] = []
        for index, item in enumerate(cast("Sequence[object]", value)):
            try:
                listed.append(_plain(item, depth + 1))
            except _NotJson as refused:
                refused.path.append(f"[{index}]")
                raise
        return listed
    raise _NotJson(
        f"a {type(value).__name__} is not a JSON value",
        "convert it first: str, number, bool, None, list or dict",
    )


def spells(text: str, value: Json) -> bool:
    """Whether a text says just this value: as it is, or as JSON."""
    if isinstance(value, str):
        return value.strip() == text.strip()
    if value is None:
        return False
    try:
        return bool(json.loads(text) == value)
    except (ValueError, RecursionError):
        return False


def scrub(text: str) -> str:
    """The text with lone surrogates, which no UTF-8 body can carry, replaced by U+FFFD."""
    return text.encode("utf-16", "surrogatepass").decode("utf-16", "replace")


def has_lone_surrogate(text: str) -> bool:
    """Whether the text cannot be encoded as UTF-8."""
    if text.isascii():
        return False
    try:
        text.encode()
    except UnicodeEncodeError:
        return True
    return False


def is_encodable(value: object) -> bool:
    """Whether every text in a JSON value, keys included, can be encoded as UTF-8."""
    try:
        msgspec.json.encode(value)
    except UnicodeEncodeError:
        return False
    except (OverflowError, TypeError):  # very large integers; the slow way knows them
        return not has_lone_surrogate(_unescaped.encode(value))
    return True


def scrubbed(value: Json) -> Json:
    """The value with every lone surrogate in it replaced by U+FFFD."""
    if isinstance(value, str):
        return scrub(value) if has_lone_surrogate(value) else value
    if isinstance(value, dict):
        return {str(scrubbed(key)): scrubbed(entry) for key, entry in value.items()}
    return [scrubbed(entry) for entry in value] if isinstance(value, list) else value


class Memo(dict[object, object]):
    """What was derived from a thing and is kept with it: one value of each type and key.

    The type is the slot, so that whoever reads it knows what comes back.
    """

    __slots__ = ()

    def of(self, kind: type[T], *key: object) -> T | None:
        """The value of this type and key, or None where nobody kept one."""
        return cast("T | None", self.get((kind, *key) if key else kind))

    def keep(self, value: T, *key: object) -> T:
        """Keep a value under its type and the key, instead of the one before."""
        self[(type(value), *key) if key else type(value)] = value
        return value

    def ensure(self, kind: type[T], *key: object) -> T:
        """The value of this type and key; the first who asks makes an empty one."""
        slot = (kind, *key) if key else kind
        value = self.get(slot)
        return cast("T", self.setdefault(slot, kind()) if value is None else value)


class Fold(Protocol[ItemRead]):
    """What the first items of a strand add up to. A fold is a value: `after` changes nothing."""

    def after(self, items: Sequence[ItemRead], /) -> Self:
        """The same once these items follow."""
        ...


class Fork(NamedTuple):
    """Where a strand was forked: the memo and lock of the other, and how many items they share."""

    memo: dict[object, object]
    lock: RLock
    length: int


class Strand(Sequence[Item], Generic[Item]):
    """An immutable sequence that grows at its tip in constant time.

    Snapshots share one backing list and know their own length, so appending to the newest
    copies nothing, and appending to an older one copies once. A short `tail` may follow that
    is this snapshot's own. All snapshots of one backing list share `memo`: what was derived from
    a prefix is derived once (`derive`). They share `lock` too, for an index that grows in place.
    """

    __slots__ = ("_backing", "lock", "memo", "settled", "tail")

    def __init__(self, items: Iterable[Item] = ()) -> None:
        self._backing: list[Item] = list(items)
        self.tail: tuple[Item, ...] = ()
        self.settled = len(self._backing)
        self.memo = Memo()
        self.lock = RLock()

    @staticmethod
    def over(backing: Sequence[T]) -> "Strand[T]":
        """A strand over something that is read and extended like a list, as it is."""
        strand: Strand[T] = Strand()
        strand._backing = cast("list[T]", backing)
        strand.settled = len(backing)
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
        if self.tail or len(backing) != self.settled:
            return Strand([*self, *items])
        backing.extend(items)
        view = object.__new__(self.__class__)  # as `_view`: this is done at every step
        view._backing = backing
        view.tail = ()
        view.settled = len(backing)
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
        What an older snapshot than was read last adds up to is kept beside it.
        """
        last = cast("tuple[int, Fold[Item]] | None", self.memo.get(kind))
        settled = self.settled
        if last is not None and last[0] == settled:  # nothing new: the common case in a tool loop
            return cast("Folded", last[1])
        read, fold = last or (0, cast("Fold[Item]", kind()))
        slot: object = kind
        if read > settled:
            slot = (kind, "older")
            read, fold = cast("tuple[int, Fold[Item]]", self.memo.get(slot, (0, kind())))
            if read > settled:
                read, fold = 0, cast("Fold[Item]", kind())
        if read < settled:
            fold = fold.after(self._backing[read:settled])
            self.memo[slot] = settled, fold
        return cast("Folded", fold)

    def shares(self, other: "Strand[Item]") -> bool:
        """Whether both are snapshots of one sequence, so that one begins the other."""
        return self._backing is other._backing

    def between(self, start: int, end: int) -> list[Item]:
        """The items from `start` up to `end`, as a new list."""
        if end <= self.settled:
            return self._backing[start:end]
        return self.since(start)[: end - start]

    @property
    def tip(self) -> Item | None:
        """The last item, or None where there is none."""
        if self.tail:
            return self.tail[-1]
        return self._backing[self.settled - 1] if self.settled else None

    def _view(self, settled: int, tail: tuple[Item, ...]) -> "Strand[Item]":
        view = object.__new__(self.__class__)
        view._backing = self._backing
        view.tail = tail
        view.settled = settled
        view.memo = self.memo
        view.lock = self.lock
        return view

    def __reduce__(self) -> tuple[object, ...]:
        return Strand, (self.since(0),)

    def __len__(self) -> int:
        return self.settled + len(self.tail)

    @overload
    def __getitem__(self, index: int) -> Item: ...
    @overload
    def __getitem__(self, index: slice) -> Sequence[Item]: ...
    def __getitem__(self, index: int | slice) -> Item | Sequence[Item]:
        if isinstance(index, slice):
            return self.since(0)[index]
        settled = self.settled
        at = index if index >= 0 else index + settled + len(self.tail)
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
