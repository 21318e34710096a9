"""Sites: where in a flow something reads or writes, and what was known there.

The walk leaves one for every agent, step and route it comes to; rules look at sites.
"""

from collections.abc import Container, Mapping
from dataclasses import dataclass, field
from typing import Literal, NamedTuple

from weft.checker.chart import Chart
from weft.checker.keys import Compared
from weft.checker.world import Fact, World, Writer
from weft.declare import Node, Parallel
from weft.declare.route import Route
from weft.diagnostics import Origin
from weft.values import JsonObject

ReadHow = Literal[
    "template", "policy", "tool", "callback", "route", "map", "step", "predicate", "gate", "input"
]


class Read(NamedTuple):
    """A key that is read at a site: where that is written, how deep, and whether it may lack."""

    key: str
    origin: Origin
    path: tuple[str | int, ...] = ()
    optional: bool = False
    how: ReadHow = "template"
    guarded: bool = False
    """Whether it is read on some paths of a function only, or left out where it lacks."""
    number: bool = False
    """Whether it is compared with a number."""
    shape: JsonObject | None = None
    """What it is declared to hold, for an input."""
    compared: tuple[Compared, ...] = ()
    """What a function compares it with."""
    typed: str = ""
    """The placeholder as its author wrote it."""


class Beside(NamedTuple):
    """The keys that are written beside a place, in branches it does not see."""

    counts: Mapping[str, int] = {}
    """By key: how many branches write it."""
    own: Container[str] = ()
    """The keys that its own branch writes."""
    around: "Beside | None" = None
    """What is beside the branches themselves."""

    def __contains__(self, key: object) -> bool:
        here = isinstance(key, str) and self.counts.get(key, 0) > (key in self.own)
        return here or (self.around is not None and key in self.around)


@dataclass(frozen=True)
class Site:
    """A node at a point of the flow, and the world it finds."""

    node: Node
    world: World
    reads: tuple[Read, ...] = ()
    siblings: Beside = Beside()  # noqa: RUF009
    """Keys that are written beside it, in branches it does not see."""
    last: bool = False
    """Whether nothing follows: what it says is the answer."""


@dataclass
class Record:
    """What the walk has come across."""

    root: Node
    labels: Mapping[str, frozenset[str]] = field(default_factory=dict[str, frozenset[str]])
    """The labels that some agent or tool declares, by key: they hold for all."""
    everywhere: frozenset[str] = frozenset()
    """The keys that anything in the flow writes, wherever it stands."""
    start: World = field(default_factory=World)
    """What is there before anything runs."""
    sites: list[Site] = field(default_factory=list[Site])
    written: dict[tuple[str, Writer], Fact] = field(default_factory=dict[tuple[str, Writer], Fact])
    used: set[tuple[str, Writer]] = field(default_factory=set[tuple[str, Writer]])
    conflicts: list[tuple[Node, str, tuple[Writer, ...]]] = field(
        default_factory=list[tuple[Node, str, tuple[Writer, ...]]]
    )
    routes: list[tuple[Route, World]] = field(default_factory=list[tuple[Route, World]])
    siblings: list[tuple[Parallel, int, tuple[Read, ...]]] = field(
        default_factory=list[tuple[Parallel, int, tuple[Read, ...]]]
    )
    """Branches, and what they read of the branches beside them."""
    torn: list[tuple[Read, Writer]] = field(default_factory=list[tuple[Read, Writer]])
    """What is read in one branch and taken away in another, and by whom."""
    inputs: dict[str, object] = field(default_factory=dict[str, object])
    """The declared inputs that nothing before them writes, with their types."""
    heard: set[str] = field(default_factory=set[str])
    """The agents whose words some other agent sees."""
    _all: Chart[Fact] = field(default_factory=Chart[Fact])

    def read(self, key: str, world: World) -> None:
        """Note that a key was read, so that who wrote it did not write in vain."""
        fact = world.facts.get(key)
        if fact is not None:
            self.used.update((key, writer) for writer in fact.writers)

    def read_all(self, world: World) -> None:
        """Note that anything may have been read; what was the last time is noted already."""
        for key, _ in world.facts.since(self._all):
            self.read(key, world)
        self._all = world.facts
