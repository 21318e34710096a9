"""The keys that a function of the state uses."""

from collections.abc import Mapping
from types import MappingProxyType
from typing import NamedTuple


class Keys(NamedTuple):
    """What a function does with the keys of a state, as far as its source shows.

    `reads` are read on every path, `guarded` on some only, `optional` where they may be absent;
    `writes` are returned on every path, `maybe` on some. `numbers` are compared with a number,
    `kinds` is the type of what is returned, where it can be seen, and `paths` are ways into values.
    """

    reads: frozenset[str] = frozenset()
    optional: frozenset[str] = frozenset()
    guarded: frozenset[str] = frozenset()
    writes: frozenset[str] = frozenset()
    maybe: frozenset[str] = frozenset()
    reads_all: bool = False
    writes_all: bool = False
    numbers: frozenset[str] = frozenset()
    kinds: Mapping[str, str] = MappingProxyType({})
    paths: frozenset[tuple[str, tuple[str | int, ...]]] = frozenset()
