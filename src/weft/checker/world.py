"""What is known of the state and the conversation at one point of a flow.

A world says which keys hold a value on all paths, which only on some, who wrote them and what they
hold; which keys were removed; and who has spoken. Worlds are values: a step makes a new one, and
two paths that meet are joined.
"""

import re
from collections.abc import Callable, Container, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import cached_property
from itertools import zip_longest
from typing import Generic, Literal, NamedTuple, TypeAlias, TypeVar, cast, overload

from weft.checker.keys import KeyComparison
from weft.checker.schemas import unite
from weft.declare import Agent, Node, Parallel, Step
from weft.declare.agent import agents_of, every_agent, walk_nodes
from weft.declare.compose import Composable
from weft.declare.route import Route
from weft.declare.visit import every_node, inner_agents
from weft.diagnostics import Origin
from weft.values import JsonObject

_STEP = re.compile(r"[.\[]")

WriterKind = Literal[
    "agent", "tool", "code", "callback", "step", "transform", "gate", "map", "input"
]
"""What writes a key: `tool` if the tool declares it, `code` if its source shows it."""


class Writer(NamedTuple):
    """Who writes a key, and the place that says so."""

    name: str
    origin: Origin
    kind: WriterKind
    written: str = ""
    """How its author wrote it, where that says more than its name: `S.drop("plan")`."""


class Fact(NamedTuple):
    """What is known of a key: whether it is there on all paths, who wrote it, and what it holds.

    `soft` marks a key that may be there for reasons without an order, such as a transfer; no rule
    talks about paths then. `schema` is None where the shape is unknown.
    """

    must: bool
    writers: tuple[Writer, ...]
    schema: JsonObject | None = None
    soft: bool = False
    labels: frozenset[str] = frozenset()
    is_message: bool = False
    """Whether it holds what the user said."""
    is_carried: bool = False
    """Whether it may still hold what an earlier turn left there."""

    def join_with(self, other: "Fact") -> "Fact":
        """What is known of the key after either of two paths."""
        if self == other:
            return self
        writers = tuple(dict.fromkeys((*self.writers, *other.writers)))
        schema = unite(self.schema, other.schema)
        must = self.must and other.must
        soft = self.soft or other.soft
        is_message = self.is_message and other.is_message
        is_carried = self.is_carried or other.is_carried
        labels = self.labels | other.labels
        return Fact(must, writers, schema, soft, labels, is_message, is_carried)

    def weaken(self) -> "Fact":
        """The same fact, on some paths only."""
        return self._replace(must=False, is_carried=True) if self.must else self


class Removal(NamedTuple):
    """Who removed a key, and its new name if it was renamed."""

    by: Writer
    to: str = ""


Cases: TypeAlias = Mapping[str, Mapping[str, frozenset[str]]]
"""By the path that an earlier route decided by: the keys that are surely there after each case."""

Value = TypeVar("Value")

Other = TypeVar("Other")


class Chart(Mapping[str, Value], Generic[Value]):
    """An immutable mapping that shares its pages with the charts it was made from.

    `_places` says on which page a key stands; all charts of one family share it.
    """

    __slots__ = ("_blank", "_pages", "_places")

    def __init__(self, items: Mapping[str, Value] | None = None) -> None:
        self._places: dict[str, int] = {}
        self._blank: tuple[dict[str, Value]] = ({},)
        self._pages: tuple[dict[str, Value], ...] = ()
        if items:
            self._pages = self.with_items(items)._pages

    def with_item(self, key: str, value: Value) -> "Chart[Value]":
        """The chart with one more key, or another value for one."""
        at = self._place(key)
        pages = self._pages
        if at >= len(pages):
            return self._kin((*pages, *self._blank * (at - len(pages)), {key: value}))
        return self._kin((*pages[:at], {**pages[at], key: value}, *pages[at + 1 :]))

    def with_items(self, items: Mapping[str, Value]) -> "Chart[Value]":
        """The chart with these keys, each as it is here."""
        if not items:
            return self
        changed: dict[int, dict[str, Value]] = {}
        for key, value in items.items():
            changed.setdefault(self._place(key), {})[key] = value
        length = len(self._pages)
        return self._with_pages(
            {at: {**self._pages[at], **new} if at < length else new for at, new in changed.items()}
        )

    def without(self, keys: Iterable[str]) -> "Chart[Value]":
        """The chart without these keys; the same where it has none of them."""
        changed: dict[int, dict[str, Value]] = {}
        for key in keys:
            if key in self:
                at = self._places[key]
                changed.setdefault(at, {**self._pages[at]}).pop(key, None)
        return self._with_pages(changed) if changed else self

    def since(self, other: "Chart[Value]") -> Iterator[tuple[str, Value]]:
        """The keys and values that changed since another chart, by identity."""
        if self._places is not other._places:
            yield from ((k, v) for k, v in self.items() if k not in other or other[k] is not v)
            return
        for mine, theirs in zip_longest(self._pages, other._pages, fillvalue=self._blank[0]):
            if mine is not theirs:
                yield from (
                    (k, v) for k, v in mine.items() if k not in theirs or theirs[k] is not v
                )

    def merge_with(
        self,
        others: "Iterable[Chart[Value]]",
        merge: Callable[[Sequence[dict[str, Value]]], dict[str, Value]],
    ) -> "Chart[Value]":
        """This chart merged with others; `merge` gets the pages that differ."""
        alike = [self]
        alike += [one if one._places is self._places else self._adopt(one) for one in others]
        changed: dict[int, dict[str, Value]] = {}
        if any(one._pages is not self._pages for one in alike):
            columns = zip_longest(*(one._pages for one in alike), fillvalue=self._blank[0])
            for at, column in enumerate(columns):
                page = column[0]
                if any(one is not page for one in column):
                    merged_page = merge(column)
                    if merged_page != page:
                        changed[at] = merged_page
        return self._with_pages(changed) if changed else self

    def _adopt(self, other: "Chart[Value]") -> "Chart[Value]":
        """The other chart with its keys on the pages of this family."""
        return self._kin(()).with_items(other)

    def _place(self, key: str) -> int:
        # a key keeps its page for ever, so charts of a family differ only in the pages that changed
        return self._places.setdefault(key, len(self._places) // PAGE)

    def _with_pages(self, changed: Mapping[int, dict[str, Value]]) -> "Chart[Value]":
        """The chart with other pages in some places."""
        pages = [*self._pages, *self._blank * (max(changed) + 1 - len(self._pages))]
        for at, page in changed.items():
            pages[at] = page
        return self._kin(tuple(pages))

    def _kin(self, pages: tuple[dict[str, Value], ...]) -> "Chart[Value]":
        kin = object.__new__(self.__class__)
        kin._places = self._places
        kin._blank = self._blank
        kin._pages = pages
        return kin

    def __getitem__(self, key: str) -> Value:
        at = self._places[key]
        if at >= len(self._pages):
            raise KeyError(key)
        return self._pages[at][key]

    @overload
    def get(self, key: str, /) -> Value | None: ...
    @overload
    def get(self, key: str, /, default: Value | Other) -> Value | Other: ...
    def get(self, key: str, /, default: object = None) -> object:
        """The value of a key, or the default."""
        at = self._places.get(key)
        if at is None or at >= len(self._pages):
            return default
        return self._pages[at].get(key, default)

    def __contains__(self, key: object) -> bool:
        at = self._places.get(key) if isinstance(key, str) else None
        return at is not None and at < len(self._pages) and key in self._pages[at]

    def pairs(self) -> Iterator[tuple[str, Value]]:
        """The same as `items`, without a lookup for each key."""
        for page in self._pages:
            yield from page.items()

    def __iter__(self) -> Iterator[str]:
        for page in self._pages:
            yield from page

    def __len__(self) -> int:
        return sum(map(len, self._pages))

    def __bool__(self) -> bool:
        return any(self._pages)

    def __eq__(self, other: object) -> bool:
        if not isinstance(other, Chart):
            return NotImplemented
        other = cast("Chart[Value]", other)
        if self._places is not other._places:
            return dict(self) == dict(other)
        pages = zip_longest(self._pages, other._pages, fillvalue=self._blank[0])
        return all(mine is theirs or mine == theirs for mine, theirs in pages)

    __hash__ = None  # type: ignore[assignment]


@dataclass(frozen=True)
class World:
    """What is known at a point: the keys, removed keys, unknown writers, and who has spoken."""

    facts: Chart[Fact] = field(default_factory=Chart[Fact])
    gone: Chart[Removal] = field(default_factory=Chart[Removal])
    opaque: Chart[None] = field(default_factory=Chart[None])
    """Why any key may have been written, where that is so."""
    spoken: Chart[str | None] = field(default_factory=Chart[str | None])
    """Who has spoken, and the key that the words are stored under, if any."""
    cases: Chart[Cases] = field(default_factory=Chart[Cases])
    """By the key that the paths begin with."""

    def with_write(
        self,
        key: str,
        writer: Writer,
        schema: JsonObject | None = None,
        *,
        must: bool = True,
        soft: bool = False,
        labels: Iterable[str] = (),
        is_message: bool = False,
        is_carried: bool = False,
    ) -> "World":
        """The world after somebody wrote a key."""
        is_carried = is_carried or not must
        fact = Fact(must, (writer,), schema, soft, frozenset(labels), is_message, is_carried)
        known = self.facts.get(key)
        # it may be written: what stood there may still stand
        if known is not None and not must:
            fact = fact.join_with(known)._replace(must=known.must, is_carried=known.is_carried)
        cases, base = self.cases, _base(key)
        if cases and base in cases:
            remaining = {
                path: sure for path, sure in cases[base].items() if not _is_into(path, key)
            }
            cases = cases.with_item(base, remaining) if remaining else cases.without((base,))
        facts = self.facts.with_item(key, fact)
        return World(facts, self.gone.without((key,)), self.opaque, self.spoken, cases)

    def with_facts(self, facts: Mapping[str, Fact]) -> "World":
        """The world with these facts."""
        if not facts:
            return self
        return replace(self, facts=self.facts.with_items(facts), gone=self.gone.without(facts))

    def with_cases(self, path: str, sure: Mapping[str, frozenset[str]]) -> "World":
        """The world after a route that decided by a path: what each case surely leaves."""
        base = _base(path)
        cases = {**(self.cases.get(base) or {}), path: sure}
        return replace(self, cases=self.cases.with_item(base, cases))

    def in_case(self, path: str, label: str) -> "World":
        """The world in a case of a route, after an earlier route decided by the same value."""
        known = self.cases.get(_base(path)) if self.cases else None
        if not known or path not in known:
            return self
        sure = known[path].get(label, frozenset())
        return self.with_facts(
            {k: fact._replace(must=True) for k in sorted(sure) if (fact := self.facts.get(k))}
        )

    def with_proved_keys(self, keys: Iterable[str]) -> "World":
        """The world in which a test proved that these keys are there, if somebody writes them."""
        known = ((key, self.facts.get(key)) for key in sorted(keys))
        return self.with_facts(
            {key: fact._replace(must=True) for key, fact in known if fact and not fact.must}
        )

    def without_keys(
        self, keys: Iterable[str], by: Writer, renamed: Mapping[str, str] = {}
    ) -> "World":
        """The world after somebody removed keys."""
        taken = [key for key in keys if key in self.facts]
        if not taken:
            return self
        gone = self.gone.with_items({key: Removal(by, renamed.get(key, "")) for key in taken})
        return replace(self, facts=self.facts.without(taken), gone=gone)

    def with_unknown(self, reason: str) -> "World":
        """The world after something ran that may have written anything."""
        if reason in self.opaque:
            return self
        return replace(self, opaque=self.opaque.with_item(reason, None), gone=Chart())

    def with_speaker(self, agent: Node, key: str | None) -> "World":
        """The world after an agent spoke."""
        if agent.name in self.spoken and self.spoken[agent.name] == key:
            return self
        spoken = self.spoken.with_item(agent.name, key)
        return World(self.facts, self.gone, self.opaque, spoken, self.cases)

    def join_with(self, other: "World") -> "World":
        """What is known after either of two paths."""
        return _join_all([self, other])


def _base(path: str) -> str:
    """The key that a path begins with."""
    return _STEP.split(path, maxsplit=1)[0]


def _is_into(path: str, key: str) -> bool:
    """Whether a path is the key, or walks into it."""
    return path == key or path.startswith((f"{key}.", f"{key}["))


def join_worlds(worlds: Iterable[World]) -> World | None:
    """What is known after any of several paths; None if there are none."""
    ways = [*worlds]
    return _join_all(ways) if ways else None


def _join_all(ways: list[World]) -> World:
    first, *others = ways
    # no path changed anything
    if all(way is first for way in others):
        return first
    facts = first.facts.merge_with((way.facts for way in others), _join_facts)
    gone = first.gone.merge_with((way.gone for way in others), _keep_latest)
    # on one path removed, on another still there: then it may be there
    again = [key for key, _ in gone.since(first.gone) if key in facts]
    again += [key for key, _ in facts.since(first.facts) if key in gone]
    return World(
        facts,
        gone.without(again),
        first.opaque.merge_with((way.opaque for way in others), _keep_latest),
        first.spoken.merge_with((way.spoken for way in others), _keep_latest),
        first.cases.merge_with((way.cases for way in others), _keep_agreed),
    )


def _join_facts(pages: Sequence[dict[str, Fact]]) -> dict[str, Fact]:
    """What is known of each key: a key is sure only if it is sure on all paths."""
    joined: dict[str, Fact] = {}
    distinct = [*{id(page): page for page in pages}.values()]
    for page in distinct:
        for key, two in page.items():
            one = joined.get(key)
            if one is not two:
                joined[key] = two if one is None else one.join_with(two)
    for key, fact in joined.items():
        if fact.must and not all(key in page for page in distinct):
            joined[key] = fact.weaken()
    return joined


def _keep_latest(pages: Sequence[dict[str, Value]]) -> dict[str, Value]:
    """All keys, each with the value of the last page that has it."""
    return {key: value for page in pages for key, value in page.items()}


def _keep_agreed(pages: Sequence[dict[str, Cases]]) -> dict[str, Cases]:
    """What all paths agree on."""
    agreed: dict[str, Cases] = {}
    for key, here in pages[0].items():
        others = [page.get(key, {}) for page in pages[1:]]
        common = {k: v for k, v in here.items() if all(one.get(k) == v for one in others)}
        if common:
            agreed[key] = common
    return agreed


def merge_worlds(world: World, ends: Iterable[tuple[Iterable[str], World]]) -> World:
    """Merge what is known after parallel branches: each has its keys and the world it ends in."""
    facts: dict[str, Fact] = {}
    gone: dict[str, Removal] = {}
    opaque: dict[str, None] = {}
    speakers: dict[str, str | None] = {}
    for keys, one in ends:
        for key in keys:
            fact = one.facts.get(key)
            if fact is not None and world.facts.get(key) is not fact:
                facts[key] = fact
                gone.pop(key, None)
        for key, removal in one.gone.since(world.gone):
            # removed in this branch, and there before
            if key not in world.gone and key in world.facts:
                facts.pop(key, None)
                gone[key] = removal
        opaque.update(dict.fromkeys(key for key, _ in one.opaque.since(world.opaque)))
        speakers.update(one.spoken.since(world.spoken))
    return World(
        world.facts.with_items(facts).without(gone),
        world.gone.with_items(gone).without(facts),
        world.opaque.with_items(opaque),
        world.spoken.with_items(speakers),  # branches join where they end
        world.cases,
    )


PAGE = 16
"""How many keys share a page."""

ReadHow = Literal[
    "template", "policy", "tool", "callback", "route", "map", "step", "predicate", "gate", "input"
]


class Read(NamedTuple):
    """A key that is read at a site: where, how deep, and whether it may be absent."""

    key: str
    origin: Origin
    path: tuple[str | int, ...] = ()
    optional: bool = False
    how: ReadHow = "template"
    guarded: bool = False
    """Whether it is read on some paths of a function only, or omitted where it is absent."""
    number: bool = False
    """Whether it is compared with a number."""
    shape: JsonObject | None = None
    """What it is declared to hold, for an input."""
    compared: tuple[KeyComparison, ...] = ()
    """What a function compares it with."""
    typed: str = ""
    """The placeholder as its author wrote it."""


class SiblingWrites(NamedTuple):
    """The keys that sibling branches write, which a place does not see."""

    counts: Mapping[str, int] = {}
    """By key: how many branches write it."""
    own: Container[str] = ()
    """The keys that its own branch writes."""
    around: "SiblingWrites | None" = None
    """The same for the branches around these."""

    def __contains__(self, key: object) -> bool:
        here = isinstance(key, str) and self.counts.get(key, 0) > (key in self.own)
        return here or (self.around is not None and key in self.around)


@dataclass(frozen=True)
class Site:
    """A node at a point of the flow, and the world it runs in."""

    node: Node
    world: World
    reads: tuple[Read, ...] = ()
    siblings: SiblingWrites = SiblingWrites()  # noqa: RUF009
    """Keys that sibling branches write, which it does not see."""
    last: bool = False
    """Whether nothing follows: what it says is the answer."""


class Survey:
    """The nodes and agents of a flow, found once for all walks and rules."""

    def __init__(self, root: Node) -> None:
        self.root = root
        self.nodes: list[tuple[Node, Node | None]] = walk_nodes(root)
        """Every node of the flow with its parent."""
        self.members: tuple[Agent, ...] = agents_of(root)
        """Every agent of the flow and of their trees."""
        self.agents: tuple[Agent, ...] = every_agent(root)
        """The same, and those that are called as tools."""
        self.takes_inputs: bool = any(node.inputs for node in every_node(root))
        """Whether anything in it declares inputs."""

    @cached_property
    def inner(self) -> frozenset[str]:
        """The agents whose text is data for the agents after them."""
        return inner_agents(self.root)

    @cached_property
    def captures(self) -> bool:
        """Whether the user's message is stored under a key."""
        steps = (node for node, _ in self.nodes if isinstance(node, Step))
        return any(step.captures for step in steps) or any(
            agent.context is not None and agent.context.writings for agent in self.agents
        )

    @cached_property
    def trees(self) -> list[tuple[Agent, tuple[Agent, ...]]]:
        """The agents at the top of a tree, in the flow and in what is called, with all below."""
        nodes = [node for node, _ in self.nodes]
        for agent in self.agents:
            for tool in agent.tools:
                if isinstance(tool.agent, Composable):
                    nodes += [node for node, _ in walk_nodes(tool.agent)]
        roots = {id(node): node for node in nodes if isinstance(node, Agent)}
        return [
            (root, self.members if root is self.root else agents_of(root))
            for root in roots.values()
        ]


@dataclass
class WalkRecord:
    """What the walk leaves for the rules."""

    survey: Survey
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
    """Branches, and what they read that only a sibling writes."""
    removed_by_sibling: list[tuple[Read, Writer]] = field(default_factory=list[tuple[Read, Writer]])
    """What one branch reads and another removes, and who removes it."""
    end: World = field(default_factory=World)
    """What is there when everything has run."""
    inputs: dict[str, object] = field(default_factory=dict[str, object])
    """The declared inputs that nothing before them writes, with their types."""
    heard: set[str] = field(default_factory=set[str])
    """The agents whose words some other agent sees."""
    _all: Chart[Fact] = field(default_factory=Chart[Fact])

    @cached_property
    def visited_agents(self) -> tuple[Agent, ...]:
        """Every agent that the walk came to, in that order."""
        agents: dict[str, Agent] = {}
        for agent, _ in self.agent_sites():
            agents.setdefault(agent.name, agent)
        return tuple(agents.values())

    def agent_sites(self) -> Iterator[tuple[Agent, Site]]:
        """The agents at their sites, in the order of the walk."""
        return ((site.node, site) for site in self.sites if isinstance(site.node, Agent))

    def note_read(self, key: str, world: World) -> None:
        """Note that a key is read, so that its writers do not count as unread."""
        fact = world.facts.get(key)
        if fact is not None:
            self.used.update((key, writer) for writer in fact.writers)

    def note_all_read(self, world: World) -> None:
        """Note that any key may have been read."""
        for key, _ in world.facts.since(self._all):
            self.note_read(key, world)
        self._all = world.facts
