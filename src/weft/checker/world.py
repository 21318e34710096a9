"""What is known of the state and the conversation at one point of a flow.

A world is what a program point can count on: which keys hold a value for sure, which only on
some paths, who wrote them and what they hold; which were taken away; who has spoken. Worlds are
values: a step makes a new one, two paths that meet are joined.
"""

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field, replace
from typing import Literal, NamedTuple

from weft.declare import Agent
from weft.diagnostics import Origin
from weft.values import JsonObject

WriterKind = Literal["agent", "tool", "step", "transform", "gate", "map", "input"]


class Writer(NamedTuple):
    """Who writes a key, and the place that says so."""

    name: str
    origin: Origin
    kind: WriterKind


class Fact(NamedTuple):
    """What is known of a key: surely there or only on some paths, by whom, and what it holds.

    `soft` is a key that may be there for reasons nobody can order, such as a transfer; nothing
    is said about paths then. `schema` is None where its shape is unknown.
    """

    must: bool
    writers: tuple[Writer, ...]
    schema: JsonObject | None = None
    soft: bool = False
    labels: frozenset[str] = frozenset()

    def joined(self, other: "Fact") -> "Fact":
        """What holds of the key whichever of two paths was taken."""
        if self == other:
            return self
        writers = tuple(dict.fromkeys((*self.writers, *other.writers)))
        schema = self.schema if self.schema == other.schema else None
        must = self.must and other.must
        soft = self.soft or other.soft
        return Fact(must, writers, schema, soft, self.labels | other.labels)

    def weakened(self) -> "Fact":
        """The same on some paths only."""
        return self._replace(must=False)


class Gone(NamedTuple):
    """Who took a key away, and what it is called since, where it was renamed."""

    by: Writer
    to: str = ""


@dataclass(frozen=True)
class World:
    """What is known at a point: the keys, those taken away, what may write anything, who spoke."""

    facts: Mapping[str, Fact] = field(default_factory=dict[str, Fact])
    gone: Mapping[str, Gone] = field(default_factory=dict[str, Gone])
    opaque: tuple[str, ...] = ()
    said: Mapping[str, str | None] = field(default_factory=dict[str, str | None])
    """Who has spoken, and the key that the words are stored under, if any."""
    cases: Mapping[str, Mapping[str, frozenset[str]]] = field(
        default_factory=dict[str, Mapping[str, frozenset[str]]]
    )
    """By the key that a route before decided by: what surely holds a value behind each case."""

    def wrote(
        self,
        key: str,
        writer: Writer,
        schema: JsonObject | None = None,
        *,
        must: bool = True,
        soft: bool = False,
        labels: Iterable[str] = (),
    ) -> "World":
        """The world after somebody wrote a key."""
        fact = Fact(must, (writer,), schema, soft, frozenset(labels))
        held = self.facts.get(key)
        if held is not None and not must:
            fact = fact.joined(held)._replace(must=held.must)
        gone = {k: v for k, v in self.gone.items() if k != key} if key in self.gone else self.gone
        cases = self.cases
        if cases and any(_is_into(path, key) for path in cases):
            cases = {path: held for path, held in cases.items() if not _is_into(path, key)}
        return World({**self.facts, key: fact}, gone, self.opaque, self.said, cases)

    def decided(self, key: str, label: str) -> "World":
        """The world in a case of a route, where one before decided by the same value."""
        sure = self.cases.get(key, {}).get(label, frozenset())
        facts = {k: fact._replace(must=True) for k in sure if (fact := self.facts.get(k))}
        return replace(self, facts={**self.facts, **facts}) if facts else self

    def lost(self, keys: Iterable[str], by: Writer, renamed: Mapping[str, str] = {}) -> "World":
        """The world after somebody took keys away."""
        taken = [key for key in keys if key in self.facts]
        facts = {key: fact for key, fact in self.facts.items() if key not in taken}
        gone = {**self.gone, **{key: Gone(by, renamed.get(key, "")) for key in taken}}
        return replace(self, facts=facts, gone=gone)

    def blurred(self, reason: str) -> "World":
        """The world after something ran that may have written anything."""
        if reason in self.opaque:
            return self
        return replace(self, opaque=(*self.opaque, reason), gone={})

    def spoke(self, agent: Agent, key: str | None) -> "World":
        """The world after an agent spoke."""
        said = {**self.said, agent.name: key}
        return World(self.facts, self.gone, self.opaque, said, self.cases)

    def joined(self, other: "World") -> "World":
        """What holds whichever of two paths was taken."""
        if self is other:
            return self
        facts = dict(self.facts)
        for key, two in other.facts.items():
            one = facts.get(key)
            if one is not two:
                facts[key] = two.weakened() if one is None else one.joined(two)
        for key in self.facts.keys() - other.facts.keys():
            facts[key] = self.facts[key].weakened()
        gone = {
            key: held
            for key, held in {**self.gone, **other.gone}.items()
            if key not in facts and (key in self.gone or key in other.gone)
        }
        return World(
            facts,
            gone,
            tuple(dict.fromkeys((*self.opaque, *other.opaque))),
            {**self.said, **other.said},
            {key: held for key, held in self.cases.items() if other.cases.get(key) == held},
        )


def _is_into(path: str, key: str) -> bool:
    """Whether a path is the key, or walks into it."""
    return path == key or path.startswith((f"{key}.", f"{key}["))


def join(worlds: Iterable[World]) -> World | None:
    """What holds whichever of several paths was taken; None where there is none."""
    joined: World | None = None
    for world in worlds:
        joined = world if joined is None else joined.joined(world)
    return joined
