"""The walk: a flow is run on worlds instead of values, every path at once.

Branches that meet are joined, loops are walked until nothing changes, and what a transfer may
lead to is taken as possible in any order. The walk reports nothing; it leaves sites for rules.
"""

from dataclasses import replace
from typing import cast

from weft.checker.agents import after, before, heard_by, may_read_anything, reads_of, writes_of
from weft.checker.functions import keys_of
from weft.checker.schemas import follow
from weft.checker.shapes import collected, is_covered, key_reads, route_reads
from weft.checker.sites import Read, Record, Site
from weft.checker.steps import after_step, function_reads, reads_of_step
from weft.checker.tearing import takers, torn
from weft.checker.world import World, Writer, join
from weft.checker.writes import Writes, labels_in
from weft.declare import (
    Agent,
    Expect,
    Fallback,
    Gate,
    Loop,
    Map,
    Node,
    Parallel,
    Race,
    Route,
    Sequence,
    Step,
    Tap,
    Timeout,
    template,
)
from weft.declare.compose import Composable
from weft.declare.route import OTHERWISE
from weft.declare.walk import agents_of
from weft.diagnostics import Origin
from weft.session.state import scope_of
from weft.values import JsonObject

MOST_ROUNDS = 8
"""How often a loop is walked: worlds only ever lose certainty, so few rounds are enough."""


class Walk:
    """One walk over a flow."""

    def __init__(self, root: Node) -> None:
        self.root = root
        self._writes = Writes()
        self._takes = Writes(fills=False)
        self.record = Record(root, labels_in(root), frozenset(self._writes.of(root)))
        self._top: Agent | None = None
        self._muted = 0
        self._entries: dict[int, tuple[World, World]] = {}
        self._speaks: dict[int, bool] = {}

    def run(self, world: World) -> World:
        """Walk the whole flow, and give the world behind it."""
        return self.visit(self.root, world, (), last=True)

    def visit(self, node: Node, world: World, siblings: tuple[str, ...], *, last: bool) -> World:
        """The world behind a node, whichever way is taken through it."""
        match node:
            case Agent():
                return self._agent(node, world, siblings, last=last)
            case Sequence():
                speaking = [i for i, step in enumerate(node.steps) if self._has_agents(step)]
                for index, step in enumerate(node.steps):
                    ends = last and index >= (speaking[-1] if speaking else 0)
                    world = self.visit(step, world, siblings, last=ends)
                return world
            case Parallel():
                return self._parallel(node, world, siblings, last=last)
            case Loop():
                return self._loop(node, world, siblings, last=last)
            case Fallback():
                return self._fallback(node, world, siblings, last=last)
            case Route():
                return self._route(node, world, siblings, last=last)
            case Step():
                return self._step(node, world, siblings)
            case Map():
                return self._map(node, world, siblings)
            case Gate():
                return self._gate(node, world, siblings)
            case Race():
                return self._race(node, world, siblings, last=last)
            case Timeout():
                return self.visit(node.body, world, siblings, last=last)
            case Tap():
                self.record.read_all(world)
                return world
            case Expect():
                place = Origin("field", "predicate", node.name)
                reads = [Read(key, place, how="predicate") for key in node.reads]
                if reads:
                    self._came_to(node, world, tuple(reads), siblings)
                else:
                    self._function(node, node.predicate, "predicate", world, siblings)
                return world

    def _has_agents(self, node: Node) -> bool:
        """Whether somebody speaks in it."""
        found = self._speaks.get(id(node))
        if found is None:
            found = isinstance(node, Agent) or any(map(self._has_agents, node.children))
            self._speaks[id(node)] = found
        return found

    def _agent(self, agent: Agent, world: World, siblings: tuple[str, ...], *, last: bool) -> World:
        above, self._top = self._top, self._top or agent
        try:
            outside, world = world, before(agent, world)
            reads = tuple(reads_of(agent, self._top))
            self._came_to(agent, world, reads, siblings, last=last)
            if may_read_anything(agent):
                self.record.read_all(world)
            self.record.heard.update(heard_by(agent, world))
            done = self._called(agent, world, after(agent, world))
            self._wrote(agent, done, outside)
            if agent.sub_agents:
                done = self._transfers(agent, done, siblings, last=last)
        finally:
            self._top = above
        return done

    def _called(self, agent: Agent, world: World, done: World) -> World:
        """Agents that are tools: each sees the state, and may write to it or not be called."""
        flows = [tool.agent for tool in agent.tools if isinstance(tool.agent, Composable)]
        if not flows:
            return done
        inner = World(world.facts, world.gone, world.opaque)
        for key, writer, shape in writes_of(agent):
            if writer.kind == "tool" and key not in inner.facts:
                inner = inner.wrote(key, writer, shape, must=False, soft=True)
        for flow in cast("list[Node]", flows):
            for key, writers in self._writes.of(flow).items():
                if key not in inner.facts:
                    inner = inner.wrote(key, writers[-1], must=False, soft=True)
        above, self._top = self._top, None
        for flow in cast("list[Node]", flows):
            behind = self.visit(flow, inner, (), last=True)
            soft = {
                key: fact._replace(must=False, soft=True)
                for key, fact in behind.facts.items()
                if key not in world.facts
            }
            done = World({**soft, **done.facts}, done.gone, behind.opaque or done.opaque, done.said)
        self._top = above
        return done

    def _transfers(
        self, agent: Agent, world: World, siblings: tuple[str, ...], *, last: bool
    ) -> World:
        """Whoever may be handed over to, in any order and any number of times.

        What any of them writes may be there for any of them: on another turn it is.
        """
        reachable = world
        for below in (found for child in agent.sub_agents for found in agents_of(child)):
            reachable = reachable.spoke(below, below.output_key)
        for child in agent.sub_agents:
            for key, writers in self._writes.of(child).items():
                if key not in world.facts:
                    reachable = reachable.wrote(key, writers[-1], must=False, soft=True)
        ends = [reachable]
        ends += [self.visit(child, reachable, siblings, last=last) for child in agent.sub_agents]
        joined = join(ends)
        assert joined is not None
        return joined

    def _parallel(
        self, node: Parallel, world: World, siblings: tuple[str, ...], *, last: bool
    ) -> World:
        """All branches from one world; what each writes is there behind them."""
        wrote = [self._takes.of(branch) for branch in node.branches]
        behind = self._branches(node, node.branches, world, siblings, last=last)
        if not self._muted:
            for key in dict.fromkeys(key for keys in wrote for key in keys):
                writers = [keys[key][-1] for keys in wrote if key in keys]
                if len(writers) > 1:
                    self.record.conflicts.append((node, key, tuple(dict.fromkeys(writers))))
        facts, gone = dict(world.facts), dict(world.gone)
        opaque = world.opaque
        for branch, one in zip(node.branches, behind, strict=True):
            for key in self._writes.of(branch):
                fact = one.facts.get(key)
                if fact is not None and world.facts.get(key) is not fact:
                    facts[key] = fact
                    gone.pop(key, None)
            for key, held in one.gone.items():
                if key not in world.gone and key in world.facts:
                    facts.pop(key, None)
                    gone[key] = held
            opaque = tuple(dict.fromkeys((*opaque, *one.opaque)))
        return World(facts, gone, opaque, world.said, world.cases)  # nobody sees into a branch (H2)

    def _branches(
        self,
        node: Parallel | Race,
        branches: tuple[Node, ...],
        world: World,
        siblings: tuple[str, ...],
        *,
        last: bool,
    ) -> list[World]:
        """The world behind each branch, which does not see what the others write."""
        wrote = [self._writes.of(branch) for branch in branches]
        taking = takers(branches)
        counts: dict[str, int] = {}
        for keys in wrote:
            for key in keys:
                counts[key] = counts.get(key, 0) + 1
        behind: list[World] = []
        for index, branch in enumerate(branches):
            beside = [key for key, count in counts.items() if count > (key in wrote[index])]
            first = len(self.record.sites)
            behind.append(self.visit(branch, world, (*siblings, *beside), last=last))
            if isinstance(node, Parallel) and not self._muted:
                sites = self.record.sites[first:]
                missing = tuple(
                    read
                    for site in sites
                    for read in site.reads
                    if read.key in beside and read.key not in site.world.facts
                )
                if missing:
                    self.record.siblings.append((node, index, missing))
                self.record.torn += torn(taking, index, sites, wrote[index])
        return behind

    def _race(self, node: Race, world: World, siblings: tuple[str, ...], *, last: bool) -> World:
        ways = self._branches(node, node.branches, world, siblings, last=last)
        return join(ways) or world

    def _loop(self, node: Loop, world: World, siblings: tuple[str, ...], *, last: bool) -> World:
        """The body from a world that holds at the beginning of every round."""
        held = self._entries.get(id(node))
        if held is not None and held[0] == world:
            entry = held[1]
        else:
            entry = self._first_of_round(node, world, siblings)
            self._entries[id(node)] = world, entry
        behind = self.visit(node.body, entry, siblings, last=last)
        if node.until is not None:
            self._function(node, node.until, "until", behind, siblings)
        if node.while_ is not None:
            self._function(node, node.while_, "while_", entry, siblings)
            return entry.joined(behind)
        return behind

    def _first_of_round(self, node: Loop, world: World, siblings: tuple[str, ...]) -> World:
        entry = world
        if node.max == 1:
            return entry
        self._muted += 1
        try:
            for _ in range(MOST_ROUNDS):
                again = entry.joined(self.visit(node.body, entry, siblings, last=False))
                if again == entry:
                    break
                entry = again
        finally:
            self._muted -= 1
        return entry

    def _map(self, node: Map, world: World, siblings: tuple[str, ...]) -> World:
        """The body for each element, in a branch of its own; behind it only the list is there."""
        reads = tuple(key_reads(node.items, Origin("field", "items", node.name), "map"))
        self._came_to(node, world, reads, siblings)
        listed = world.facts.get(reads[0].key) if reads else None
        shape, _ = follow(listed.schema, reads[0].path) if listed is not None else (None, "")
        element = shape.get("items") if shape is not None else None
        writer = Writer(node.name, Origin("field", "item", node.name), "map")
        inner = world.wrote(node.item, writer, element if isinstance(element, dict) else None)
        behind = self.visit(node.body, inner, siblings, last=True)
        shared = {
            key: fact
            for key, fact in behind.facts.items()
            if scope_of(key) in ("app", "user") and world.facts.get(key) is not fact
        }
        into = Writer(node.name, Origin("field", "into", node.name), "map")
        done = World({**world.facts, **shared}, world.gone, behind.opaque, world.said)
        done = done.wrote(node.into, into, collected(node.body))
        self._wrote(node, done, world)
        return done

    def _gate(self, node: Gate, world: World, siblings: tuple[str, ...]) -> World:
        """A human's answer: one of the choices, where there are some."""
        reads = tuple(
            Read(one.key, Origin("field", "question", node.name, one.start, one.end), one.path,
                 one.optional)
            for one in template.parse(node.question).variables
            if not one.artifact
        )  # fmt: skip
        self._came_to(node, world, reads, siblings)
        shape: JsonObject | None = {"enum": [*node.choices]} if node.choices else None
        writer = Writer(node.name, Origin("field", "key", node.name), "gate")
        done = world.wrote(node.key, writer, shape)
        self._wrote(node, done, world)
        return done

    def _fallback(
        self, node: Fallback, world: World, siblings: tuple[str, ...], *, last: bool
    ) -> World:
        """Each choice where those before it may have left something behind, and failed."""
        ends: list[World] = []
        entry = world
        for choice in node.choices:
            behind = self.visit(choice, entry, siblings, last=last)
            ends.append(behind)
            entry = entry.joined(World(behind.facts, behind.gone, behind.opaque, entry.said))
        joined = join(ends)
        assert joined is not None
        return joined

    def _route(self, node: Route, world: World, siblings: tuple[str, ...], *, last: bool) -> World:
        self._came_to(node, world, tuple(route_reads(node)), siblings)
        if not isinstance(node.key, str):
            self._function(node, node.key, "key", world, siblings)
        for case in node.cases:
            if case.predicate is not None:
                self._function(node, case.predicate, case.label, world, siblings)
        if not self._muted:
            self.record.routes.append((node, world))
        labels = [*(case.label for case in node.cases), OTHERWISE]
        key = node.key if isinstance(node.key, str) else ""
        ends = [
            self.visit(way, world.decided(key, label), siblings, last=last)
            for label, way in zip(labels, node.children, strict=False)
        ]
        sure = {
            label: frozenset(
                k for k in self._writes.of(way) if k in end.facts and end.facts[k].must
            )
            for label, way, end in zip(labels, node.children, ends, strict=False)
        }
        if node.default is not None and len(ends) > 1 and is_covered(node, world):
            ends.pop()
        joined = join(ends) or world
        base = next((read.key for read in route_reads(node)), "")
        if not base or any(end.facts.get(base) != world.facts.get(base) for end in ends):
            return joined
        return replace(joined, cases={**joined.cases, key: sure})

    def _step(self, node: Step, world: World, siblings: tuple[str, ...]) -> World:
        reads, complete = reads_of_step(node)
        if not complete:
            self.record.read_all(world)
        self._came_to(node, world, tuple(reads), siblings)
        done = after_step(node, world, self.record.labels)
        self._wrote(node, done, world)
        return done

    def _function(
        self, node: Node, function: object, field: str, world: World, siblings: tuple[str, ...]
    ) -> None:
        """A predicate of the state: what it reads."""
        if not callable(function):
            return
        reads = function_reads(function, Origin("field", field, node.name), "predicate")
        if not keys_of(function).reads_all:
            self.record.read_all(world)
        self._came_to(node, world, tuple(reads), siblings)

    def _came_to(
        self,
        node: Node,
        world: World,
        reads: tuple[Read, ...],
        siblings: tuple[str, ...],
        *,
        last: bool = False,
    ) -> None:
        for read in reads:
            self.record.read(read.key, world)
        if not self._muted:
            self.record.sites.append(Site(node, world, reads, siblings, last))

    def _wrote(self, node: Node, done: World, before: World) -> None:
        if self._muted:
            return
        for key in self._writes.of(node):
            fact = done.facts.get(key)
            if fact is not None and before.facts.get(key) is not fact:
                for writer in fact.writers:
                    self.record.written.setdefault((key, writer), fact)
