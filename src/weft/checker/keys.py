"""The keys that a function of the state uses."""

from collections.abc import Mapping
from types import MappingProxyType
from typing import Literal, NamedTuple

Operator = Literal["eq", "ne", "in", "not in", "contains"]


class Compared(NamedTuple):
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
    where they lacked. `proves` are there wherever the function says yes.
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
    compared: frozenset[Compared] = frozenset()
