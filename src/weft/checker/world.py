"""What is known of the state and the conversation at one point of a flow.

A world is what a program point can count on: which keys hold a value for sure, which only on
some paths, who wrote them and what they hold; which were taken away; who has spoken. Worlds are
values: a step makes a new one, two paths that meet are joined.
"""

import re
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Literal, NamedTuple, TypeAlias, TypeVar

from weft.checker.chart import Chart
from weft.checker.schemas import united
from weft.declare import Agent
from weft.diagnostics import Origin
from weft.values import JsonObject

_Held = TypeVar("_Held")
_STEP = re.compile(r"[.\[]")

WriterKind = Literal[
    "agent", "tool", "code", "callback", "step", "transform", "gate", "map", "input"
]
"""What writes: `tool` as it declares, `code` as the source of a tool shows."""


class Writer(NamedTuple):
    """Who writes a key, and the place that says so."""

    name: str
    origin: Origin
    kind: WriterKind
    written: str = ""
    """How its author wrote it, where that says more than its name: `S.drop("plan")`."""


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
        schema = united(self.schema, other.schema)
        must = self.must and other.must
        soft = self.soft or other.soft
        return Fact(must, writers, schema, soft, self.labels | other.labels)

    def weakened(self) -> "Fact":
        """The same on some paths only."""
        return self._replace(must=False) if self.must else self


class Gone(NamedTuple):
    """Who took a key away, and what it is called since, where it was renamed."""

    by: Writer
    to: str = ""


Cases: TypeAlias = Mapping[str, Mapping[str, frozenset[str]]]
"""By the path that a route before decided by: what surely holds a value behind each case."""


@dataclass(frozen=True)
class World:
    """What is known at a point: the keys, those taken away, what may write anything, who spoke."""

    facts: Chart[Fact] = field(default_factory=Chart[Fact])
    gone: Chart[Gone] = field(default_factory=Chart[Gone])
    opaque: Chart[None] = field(default_factory=Chart[None])
    """Why any key may have been written, where that is so."""
    said: Chart[str | None] = field(default_factory=Chart[str | None])
    """Who has spoken, and the key that the words are stored under, if any."""
    cases: Chart[Cases] = field(default_factory=Chart[Cases])
    """By the key that the paths begin with."""

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
        cases, base = self.cases, _base(key)
        if cases and base in cases:
            left = {path: found for path, found in cases[base].items() if not _is_into(path, key)}
            cases = cases.with_item(base, left) if left else cases.without((base,))
        facts = self.facts.with_item(key, fact)
        return World(facts, self.gone.without((key,)), self.opaque, self.said, cases)

    def holding(self, facts: Mapping[str, Fact]) -> "World":
        """The world where this is known of these keys too."""
        if not facts:
            return self
        return replace(self, facts=self.facts.updated(facts), gone=self.gone.without(facts))

    def knowing(self, path: str, sure: Mapping[str, frozenset[str]]) -> "World":
        """The world behind a route that decided by a path: what each case surely leaves."""
        base = _base(path)
        held = {**(self.cases.get(base) or {}), path: sure}
        return replace(self, cases=self.cases.with_item(base, held))

    def decided(self, path: str, label: str) -> "World":
        """The world in a case of a route, where one before decided by the same value."""
        known = self.cases.get(_base(path)) if self.cases else None
        if not known or path not in known:
            return self
        sure = known[path].get(label, frozenset())
        return self.holding(
            {k: fact._replace(must=True) for k in sorted(sure) if (fact := self.facts.get(k))}
        )

    def having(self, keys: Iterable[str]) -> "World":
        """The world where these keys turned out to be there, of those that somebody writes."""
        known = ((key, self.facts.get(key)) for key in sorted(keys))
        return self.holding(
            {key: fact._replace(must=True) for key, fact in known if fact and not fact.must}
        )

    def lost(self, keys: Iterable[str], by: Writer, renamed: Mapping[str, str] = {}) -> "World":
        """The world after somebody took keys away."""
        taken = [key for key in keys if key in self.facts]
        if not taken:
            return self
        gone = self.gone.updated({key: Gone(by, renamed.get(key, "")) for key in taken})
        return replace(self, facts=self.facts.without(taken), gone=gone)

    def blurred(self, reason: str) -> "World":
        """The world after something ran that may have written anything."""
        if reason in self.opaque:
            return self
        return replace(self, opaque=self.opaque.with_item(reason, None), gone=Chart())

    def spoke(self, agent: Agent, key: str | None) -> "World":
        """The world after an agent spoke."""
        if agent.name in self.said and self.said[agent.name] == key:
            return self
        said = self.said.with_item(agent.name, key)
        return World(self.facts, self.gone, self.opaque, said, self.cases)

    def joined(self, other: "World") -> "World":
        """What holds whichever of two paths was taken."""
        return _joined([self, other])


def _base(path: str) -> str:
    """The key that a path begins with."""
    return _STEP.split(path, maxsplit=1)[0]


def _is_into(path: str, key: str) -> bool:
    """Whether a path is the key, or walks into it."""
    return path == key or path.startswith((f"{key}.", f"{key}["))


def join(worlds: Iterable[World]) -> World | None:
    """What holds whichever of several paths was taken; None where there is none."""
    ways = [*worlds]
    return _joined(ways) if ways else None


def _joined(ways: list[World]) -> World:
    first, *others = ways
    if all(way is first for way in others):
        return first
    facts = first.facts.merged((way.facts for way in others), _facts)
    gone = first.gone.merged((way.gone for way in others), _latest)
    again = [key for key, _ in gone.since(first.gone) if key in facts]
    again += [key for key, _ in facts.since(first.facts) if key in gone]
    return World(
        facts,
        gone.without(again),
        first.opaque.merged((way.opaque for way in others), _latest),
        first.said.merged((way.said for way in others), _latest),
        first.cases.merged((way.cases for way in others), _agreed),
    )


def _facts(pages: Sequence[dict[str, Fact]]) -> dict[str, Fact]:
    """What is known of each key: for sure only what holds on all ways."""
    joined: dict[str, Fact] = {}
    distinct = [*{id(page): page for page in pages}.values()]
    for page in distinct:
        for key, two in page.items():
            one = joined.get(key)
            if one is not two:
                joined[key] = two if one is None else one.joined(two)
    for key, fact in joined.items():
        if fact.must and not all(key in page for page in distinct):
            joined[key] = fact.weakened()
    return joined


def _latest(pages: Sequence[dict[str, _Held]]) -> dict[str, _Held]:
    """All keys, each as the last has it."""
    return {key: held for page in pages for key, held in page.items()}


def _agreed(pages: Sequence[dict[str, Cases]]) -> dict[str, Cases]:
    """What all ways say alike."""
    found: dict[str, Cases] = {}
    for key, held in pages[0].items():
        others = [page.get(key, {}) for page in pages[1:]]
        kept = {k: v for k, v in held.items() if all(one.get(k) == v for one in others)}
        if kept:
            found[key] = kept
    return found
