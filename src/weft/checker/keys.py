"""What a user's function does with the keys of the state, collected path by path."""

from collections.abc import Generator, Iterable, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from types import MappingProxyType
from typing import Literal, NamedTuple, TypeVar

Way = tuple[str, tuple[str | int, ...]]
"""A key, and the steps into its value."""

Operator = Literal["eq", "ne", "in", "not in", "contains"]


class KeyComparison(NamedTuple):
    """A value of the state that a function compares with values that stand in its source.

    `spare` is what the function takes in its place where the key lacks.
    """

    key: str
    path: tuple[str | int, ...]
    operator: Operator
    values: tuple[str | int | float | bool, ...]
    spare: tuple[str | int | float | bool, ...] = ()


class Keys(NamedTuple):
    """What a function does with the keys of a state, as far as its source shows.

    `reads` are read on every path, `guarded` on some only, `optional` where they may be absent;
    `writes` are written or returned on every path, `maybe` on some, `drops` and `may_drop` are
    taken away so. `touches` hold values that may be changed in place. `numbers` are compared with
    a number, `kinds` is the type of what is written, where it can be seen, `texts` are all that it
    can be, where they stand there, and `paths` are ways into values. `fills` are written only
    where they lack. `proves` are there wherever the function says yes. `returns` is the dict that
    a helper gives back, None where that cannot be seen.
    """

    reads: frozenset[str] = frozenset()
    optional: frozenset[str] = frozenset()
    guarded: frozenset[str] = frozenset()
    writes: frozenset[str] = frozenset()
    maybe: frozenset[str] = frozenset()
    fills: frozenset[str] = frozenset()
    drops: frozenset[str] = frozenset()
    may_drop: frozenset[str] = frozenset()
    touches: frozenset[str] = frozenset()
    proves: frozenset[str] = frozenset()
    reads_all: bool = False
    writes_all: bool = False
    numbers: frozenset[tuple[str, tuple[str | int, ...]]] = frozenset()
    kinds: Mapping[str, str] = MappingProxyType({})
    texts: Mapping[str, frozenset[str]] = MappingProxyType({})
    paths: frozenset[tuple[str, tuple[str | int, ...]]] = frozenset()
    compared: frozenset[KeyComparison] = frozenset()
    returns: "Contents | None" = None


STATE = ""
"""The holder that is the state; every other holder is the name of a dict."""

Key = TypeVar("Key")

Changes = dict[tuple[str, str], bool]
"""By holder and key: whether the key was written last, or removed. Other keys are unknown."""


class Contents(NamedTuple):
    """The keys of a dict: those it surely sets or removes, and those it may set or remove."""

    sure: Mapping[str, bool]
    maybe: frozenset[str] = frozenset()
    may_go: frozenset[str] = frozenset()
    is_state: bool = False
    """Whether it is the state itself."""


def _keep_agreed(several: Sequence[Mapping[Key, bool]]) -> dict[Key, bool]:
    """The keys that all of several mappings have, with the same value."""
    first, *others = several or [{}]
    return {key: there for key, there in first.items() if all(o.get(key) is there for o in others)}


def merge_contents(several: Iterable[Contents | None]) -> Contents | None:
    """The keys of a dict that is one of several; None where one of them cannot be seen."""
    known: list[Contents] = []
    for one in several:
        if one is None:
            return None
        known.append(one)
    if any(one.is_state for one in known):  # the state, or a dict: what is set later is unclear
        return Contents({}, is_state=True) if all(one.is_state for one in known) else None
    sure = _keep_agreed([one.sure for one in known])
    written = {k for one in known for k, there in one.sure.items() if there} - sure.keys()
    taken = {k for one in known for k, there in one.sure.items() if not there} - sure.keys()
    return Contents(
        sure,
        frozenset(written).union(*(one.maybe - sure.keys() for one in known)),
        frozenset(taken).union(*(one.may_go - sure.keys() for one in known)),
    )


@dataclass
class Path:
    """What holds at one point of a function."""

    changes: Changes = field(default_factory=Changes)
    sure: bool = True
    """Whether every run comes here."""
    tried: bool = False
    """Whether what fails here is caught."""
    returned: bool = False
    """Whether some runs have returned before this point."""
    there: frozenset[str] = frozenset()
    """Keys that the state has here, because a test said so."""

    def branch(self, *, tried: bool = False) -> "Path":
        """A path that only some runs take."""
        tried = self.tried or tried
        return Path(
            dict(self.changes), sure=False, tried=tried, returned=self.returned, there=self.there
        )

    def forget(self, keys: Iterable[tuple[str, str]]) -> None:
        """Forget what was sure of these keys: they may have changed."""
        for key in keys:
            self.changes.pop(key, None)

    def keys_of(self, holder: str) -> dict[str, bool]:
        """What is known of one holder."""
        return {key: there for (owner, key), there in self.changes.items() if owner == holder}

    def has(self) -> frozenset[str]:
        """The keys that the state surely has: written, or found there."""
        return self.there | {key for key, there in self.keys_of(STATE).items() if there}


def meet(before: Path, ways: Iterable[Path | None]) -> Path | None:
    """The path where several ways meet again; None if none of them goes on."""
    open_ways: list[Path] = []
    returned = False
    for way in ways:
        returned = returned or way is None or way.returned
        if way is not None:
            open_ways.append(way)
    if not open_ways:
        return None
    changes = _keep_agreed([way.changes for way in open_ways])
    there = frozenset[str].intersection(*(way.has() for way in open_ways))
    return Path(changes, before.sure and not returned, before.tried, returned, there)


class KeyCollector:
    """Collects what is read and written, path by path."""

    def __init__(self) -> None:
        self.exits: list[dict[str, bool]] = []
        """For each way out: the keys that were surely written, or taken away."""
        self.changed: list[tuple[str, str]] = []
        """Every key of every holder that something was done to, in order."""
        self.proved: frozenset[str] = frozenset()
        self.unseen = False
        """Whether something is returned, or done to the state, that cannot be followed."""
        self.returns: list[Contents | None] = []
        """For each `return` of a helper: the keys of the dict that it gives back."""
        self._returned: set[str] = set()
        self.reads_all = True
        self._numbers: set[Way] = set()
        self._compared: set[KeyComparison] = set()
        self.touched: set[str] = set()
        self._filled: set[str] = set()
        """Keys that are written where they lacked, and so are there afterwards."""
        self._sure: set[str] = set()
        self._guarded: set[str] = set()
        self._optional: set[str] = set()
        self._paths: set[Way] = set()
        self._kinds: dict[str, set[str]] = {}
        self._texts: dict[str, set[frozenset[str]]] = {}
        self._written: dict[str, set[str]] = {}
        self._taken: dict[str, set[str]] = {}
        self._leaked: set[str] = set()
        self._used: set[str] = set()

    def keys(self) -> Keys:
        """Everything that was collected."""
        sure = _keep_agreed(self.exits)
        drops = {key for key, there in sure.items() if not there}
        changed, taken = self._written.get(STATE, set()), self._taken.get(STATE, set())
        fills = self._filled & changed - taken
        writes = {key for key in sure.keys() - drops if key not in self._filled or key in fills}
        return Keys(
            reads=frozenset(self._sure - self._optional),
            optional=frozenset(self._optional),
            guarded=frozenset(self._guarded - self._sure - self._optional),
            writes=frozenset(writes),
            maybe=frozenset(self._written.get(STATE, set()) - writes),
            fills=frozenset(fills & writes),
            drops=frozenset(drops),
            may_drop=frozenset(self._taken.get(STATE, set()) - drops - writes),
            touches=frozenset(self.touched),
            proves=self.proved,
            reads_all=self.reads_all,
            writes_all=not self.unseen and not self._used & self._leaked,
            numbers=frozenset(self._numbers),
            kinds={key: next(iter(k)) for key, k in self._kinds.items() if len(k) == 1},
            texts={} if self.unseen else self._all_texts(),
            paths=frozenset(self._paths),
            compared=frozenset(self._compared),
            returns=self._merge_returns(),
        )

    def _merge_returns(self) -> Contents | None:
        if not self.returns or self._returned & self._leaked:
            return None
        return merge_contents(self.returns)

    def _all_texts(self) -> dict[str, frozenset[str]]:
        """By key: all texts that it may get, where no other value is given to it."""
        return {
            key: frozenset[str]().union(*each) for key, each in self._texts.items() if all(each)
        }

    def leave(self, path: Path) -> None:
        """Note a way out of the function."""
        changes = path.keys_of(STATE)
        present = path.has() - changes.keys()
        self._filled |= present
        self.exits.append({**dict.fromkeys(present, True), **changes})

    def give_back(self, contents: Contents | None, used: set[str]) -> None:
        """Note what a helper returns; `used` are the dicts in use before it was looked at."""
        self.returns.append(contents)
        self._returned |= self._used - used
        self._used = used

    def dicts_in_use(self) -> set[str]:
        """The dicts whose contents were used so far."""
        return set(self._used)

    def read(self, key: str, path: Path) -> None:
        """Note a key that is read, unless the function wrote it itself."""
        if (STATE, key) in path.changes:
            return
        # written elsewhere in the function, or by code that cannot be seen: it may be there or not
        own = (STATE, key) in self.changed or STATE in self._leaked
        if path.tried or own:
            self._optional.add(key)
        elif path.sure:
            self._sure.add(key)
        else:
            self._guarded.add(key)

    def ask(self, key: str, path: Path) -> None:
        """Note a key that is read and may be absent."""
        if (STATE, key) not in path.changes:
            self._optional.add(key)

    def follow(self, way: Way | None, path: Path) -> None:
        """Note a path into a value of the state."""
        # what the function wrote itself has the shape that it gave it
        if way is not None and way[1] and (STATE, way[0]) not in path.changes:
            self._paths.add(way)

    def compare(self, way: Way | None) -> None:
        """Note a value of the state that is compared with a number before it is changed."""
        if way is not None and (STATE, way[0]) not in self.changed:
            self._numbers.add(way)

    def match(self, compared: KeyComparison) -> None:
        """Note a value of the state that is compared with constants before it is changed."""
        if (STATE, compared.key) not in self.changed and STATE not in self._leaked:
            self._compared.add(compared)

    def write(
        self,
        holder: str,
        key: str,
        path: Path,
        kind: str | None = None,
        texts: frozenset[str] = frozenset(),
    ) -> None:
        """Note a key that gets a value, with its kind and texts where they are known."""
        path.changes[holder, key] = True
        self.changed.append((holder, key))
        self._written.setdefault(holder, set()).add(key)
        if kind is not None:
            self.describe(key, kind, texts)

    def describe(self, key: str, kind: str, texts: frozenset[str] = frozenset()) -> None:
        """Note what is known of a value that is given to a key, of the state or of a dict."""
        self._kinds.setdefault(key, set()).add(kind)
        self._texts.setdefault(key, set()).add(texts)

    def take(self, holder: str, key: str, path: Path) -> None:
        """Note a key that is removed, or that a returned dict removes."""
        path.changes[holder, key] = False
        self.changed.append((holder, key))
        self._taken.setdefault(holder, set()).add(key)

    def unset(self, holder: str, key: str, path: Path) -> None:
        """Note a key that is removed from a dict that the function made."""
        path.forget([(holder, key)])
        self.changed.append((holder, key))

    def note_possible(self, holder: str, contents: Contents, path: Path) -> None:
        """Note keys that are written or removed on some paths."""
        pairs = [(holder, key) for key in contents.maybe | contents.may_go]
        path.forget(pairs)
        self.changed += pairs
        self._written.setdefault(holder, set()).update(contents.maybe)
        self._taken.setdefault(holder, set()).update(contents.may_go)

    @contextmanager
    def perhaps(self, path: Path, *, tried: bool = False) -> Generator[Path]:
        """A path that a run may take, or not, or in part: what it does is not sure afterwards."""
        mark = len(self.changed)
        yield path.branch(tried=tried)
        path.forget(self.changed[mark:])

    def include(self, keys: Keys, path: Path) -> None:
        """Include what a called function does with the state."""
        for key in sorted(keys.reads):
            self.read(key, path)
        for key in sorted(keys.guarded):
            self.read(key, path.branch())
        for key in sorted(keys.optional):
            self.ask(key, path)
        for key in sorted(keys.writes):
            self.write(STATE, key, path, keys.kinds.get(key, ""))
        for key in sorted(keys.drops):
            self.take(STATE, key, path)
        self.note_possible(STATE, Contents({}, keys.maybe, keys.may_drop), path)
        self.touched |= keys.touches
        self.reads_all &= keys.reads_all
        if not keys.writes_all:
            self.lose(STATE)

    def contents_of(self, holder: str, path: Path) -> Contents:
        """The keys of a dict that is used here, with those that it may have."""
        self._used.add(holder)
        sure = path.keys_of(holder)
        maybe = self._written.get(holder, set()) - sure.keys()
        gone = self._taken.get(holder, set()) - sure.keys()
        return Contents(sure, frozenset(maybe), frozenset(gone))

    def lose(self, holder: str) -> None:
        """Note that anything may be done to the state, or to a dict."""
        if holder == STATE:
            self.unseen = True
        self._leaked.add(holder)
