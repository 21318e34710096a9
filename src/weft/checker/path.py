"""A path through a function: what was surely written on it, to the state or to a dict of its own.

A holder is the state, "", or the name of a dict that the function makes.
"""

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from typing import NamedTuple

STATE = ""

Held = dict[tuple[str, str], bool]
"""By holder and key: whether it was written last, or taken away; nothing is known of the rest."""


class Contents(NamedTuple):
    """The keys of a dict: those it surely has, or says are to go, and those it may have so."""

    sure: Mapping[str, bool]
    maybe: frozenset[str] = frozenset()
    may_go: frozenset[str] = frozenset()


@dataclass
class Path:
    """What holds at one point of a function."""

    held: Held = field(default_factory=Held)
    sure: bool = True
    """Whether every run comes here."""
    tried: bool = False
    """Whether what fails here is caught."""
    left: bool = False
    """Whether some runs have returned before."""
    there: frozenset[str] = frozenset()
    """Keys that the state has here, because a test said so."""

    def branch(self, *, tried: bool = False) -> "Path":
        """A way that is taken by some runs only."""
        tried = self.tried or tried
        return Path(dict(self.held), sure=False, tried=tried, left=self.left, there=self.there)

    def forget(self, keys: Iterable[tuple[str, str]]) -> None:
        """Take back what was sure of these: something may have been done to them."""
        for key in keys:
            self.held.pop(key, None)

    def keys_of(self, holder: str) -> dict[str, bool]:
        """What is known of one holder."""
        return {key: there for (owner, key), there in self.held.items() if owner == holder}

    def has(self) -> frozenset[str]:
        """The keys that the state surely has: written, or found there."""
        return self.there | {key for key, there in self.keys_of(STATE).items() if there}


def meet(before: Path, ways: Iterable[Path | None]) -> Path | None:
    """Where ways meet again; None where none of them goes on."""
    open_ways: list[Path] = []
    left = False
    for way in ways:
        left = left or way is None or way.left
        if way is not None:
            open_ways.append(way)
    if not open_ways:
        return None
    held = {
        key: there
        for key, there in open_ways[0].held.items()
        if all(way.held.get(key) is there for way in open_ways)
    }
    there = frozenset[str].intersection(*(way.has() for way in open_ways))
    return Path(held, before.sure and not left, before.tried, left, there)
