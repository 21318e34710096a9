"""The walk: a flow is run on worlds instead of values, every path at once.

Branches that meet are joined, loops are walked until nothing changes, and what a transfer may
lead to is taken as possible in any order. The walk reports nothing; it leaves sites for rules.
"""

import ast
from collections.abc import Callable, Iterable, Mapping
from dataclasses import replace
from typing import TypeAlias, cast

from weft.checker.agents import (
    TEXT,
    Writes,
    after,
    before,
    collected,
    conditions_of,
    gate_reads,
    is_covered,
    key_reads,
    labels_in,
    may_escalate,
    may_read_anything,
    must_hand_over,
    proved,
    reads_of,
    route_reads,
    sees_text_of,
    step_writer,
    view_of,
    without_answer,
    writes_of,
)
from weft.checker.functions import keys_of
from weft.checker.parallel_conflicts import quarrels, takers, torn
from weft.checker.schemas import follow
from weft.checker.scope import Compared, Keys, definition, kind_of, texts_of
from weft.checker.world import (
    Beside,
    Chart,
    Fact,
    Gone,
    Read,
    ReadHow,
    Record,
    Site,
    World,
    Writer,
    join,
)
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
)
from weft.declare.compose import Composable
from weft.declare.inputs import may_be_absent, shape_of
from weft.declare.nodes import agents_of
from weft.declare.route import OTHERWISE
from weft.declare.visit import inner_agents
from weft.diagnostics import Origin
from weft.session.state import scope_of
from weft.values import Json, JsonObject

MOST_ROUNDS = 8
"""How often a loop is walked: worlds only ever lose certainty, so few rounds are enough."""

APPLICATION = "the application"
"""Who gives what is there at the start."""

_Round: TypeAlias = tuple[World, list[World]]


def take(world: World, key: str, declared: object, place: Origin) -> World:
    """The world where an input that a program declares is there, unless its type lets it lack."""
    where = f"inputs.{key}"
    writer = Writer(APPLICATION, place, "input")
    must = not may_be_absent(declared, where=where)
    return world.wrote(key, writer, shape_of(declared, where=where), must=must)


class Walk:
    """One walk over a flow."""

    def __init__(self, root: Node) -> None:
        self.root = root
        self._writes = Writes()
        self._takes = Writes(fills=False)
        self.record = Record(root, labels_in(root), frozenset(self._writes.of(root)))
        self._top: Agent | None = None
        self._muted = 0
        self._entries: dict[int, tuple[World, World, _Round | None]] = {}
        self._hearing = Hearing()
        self._inner = inner_agents(root)
        self._speaks: dict[int, bool] = {}
        self._escapes: list[World] = []
        self._passing = [key for key in self._writes.of(root) if scope_of(key) == "temp"]

    def run(self, world: World) -> World:
        """Walk the whole flow, and give the world behind it."""
        self.record.start = world
        return self.visit(self.root, world, Beside(), last=True)

    def visit(self, node: Node, world: World, siblings: Beside, *, last: bool) -> World:
        """The world behind a node, whichever way is taken through it."""
        if node.inputs:
            world = self._taken(node, world, siblings)
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
                self._function(node, node.function, "function", world, siblings)
                return world
            case Expect():
                place = Origin("field", "predicate", node.name)
                reads = [Read(key, place, how="predicate", guarded=True) for key in node.reads]
                if reads:
                    self._came_to(node, world, tuple(reads), siblings)
                else:
                    self._function(node, node.predicate, "predicate", world, siblings)
                return world.having(node.reads or keys_of(node.predicate).proves)

    def _taken(self, node: Node, world: World, siblings: Beside) -> World:
        """The world where the inputs of a node are there.

        What nothing before it writes must be given when the program starts. What something does
        write is read here.
        """
        reads: list[Read] = []
        place = Origin("field", "inputs", node.name)
        for key, declared in node.inputs.items():
            fact = world.facts.get(key)
            if fact is None and key not in world.gone and not world.opaque:
                self.record.inputs.setdefault(key, declared)
                world = take(world, key, declared, place)
            elif fact is None or any(writer.kind != "input" for writer in fact.writers):
                optional = may_be_absent(declared, where=str(place))
                shape = shape_of(declared, where=str(place))
                reads.append(Read(key, place, optional=optional, how="input", shape=shape))
        if reads:
            self._came_to(node, world, tuple(reads), siblings)
        return world

    def _has_agents(self, node: Node) -> bool:
        """Whether somebody speaks in it."""
        found = self._speaks.get(id(node))
        if found is None:
            found = isinstance(node, Agent) or any(map(self._has_agents, node.children))
            self._speaks[id(node)] = found
        return found

    def _agent(self, agent: Agent, world: World, siblings: Beside, *, last: bool) -> World:
        above, self._top = self._top, self._top or agent
        try:
            outside, world = world, before(agent, world)
            asked, complete = reads_of_conditions(agent)
            reads = (*reads_of(agent, self._top), *asked)
            self._came_to(agent, world, reads, siblings, last=last)
            if may_read_anything(agent) or not complete:
                self.record.read_all(world)
            self.record.heard |= self._hearing.heard(agent, world.said)
            done = self._called(agent, world, after(agent, world))
            self._wrote(agent, done, outside)
            if may_escalate(agent):
                self._escapes.append(done)
            if agent.sub_agents:
                handed = without_answer(agent, world, done)
                done = self._transfers(agent, done, handed, siblings, last=last)
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
            if writer.kind in ("tool", "code") and key not in inner.facts:
                inner = inner.wrote(key, writer, shape, must=False, soft=True)
        for flow in cast("list[Node]", flows):
            for key, writers in self._writes.of(flow).items():
                if key not in inner.facts:
                    inner = inner.wrote(key, writers[-1], must=False, soft=True)
        above, self._top = self._top, None
        outer, self._escapes = self._escapes, []  # who leaves a loop in there leaves none out here
        left = {key for key, _ in inner.facts.since(world.facts)}
        for flow in cast("list[Node]", flows):
            behind = self.visit(flow, inner, Beside(), last=True)
            new = {key for key, _ in behind.facts.since(inner.facts)} - world.facts.keys()
            soft = {
                key: behind.facts[key]._replace(must=False, soft=True)
                for key in (*left, *new)
                if key in behind.facts and key not in done.facts
            }
            left -= soft.keys()
            done = replace(done.holding(soft), opaque=behind.opaque or done.opaque, cases=Chart())
        self._top, self._escapes = above, outer
        return done

    def _transfers(
        self, agent: Agent, done: World, handed: World, siblings: Beside, *, last: bool
    ) -> World:
        """Whoever may be handed over to, in any order and any number of times.

        What any of them writes may be there for any of them: on another turn it is. What the agent
        itself says is stored only where it answers, not where it hands over. Behind them all, only
        what everybody writes who may answer is there for sure.
        """
        reachable = handed
        for key, writer, shape in writes_of(agent):
            held = handed.facts.get(key)
            own = held is None or (held.soft and held.writers == (writer,))
            if key == agent.output_key and own:  # it stands there on another turn, not on this one
                fact = Fact(must=False, writers=(writer,), schema=shape)
                reachable = reachable.holding({key: fact})
        for below in (found for child in agent.sub_agents for found in agents_of(child)):
            reachable = reachable.spoke(below, below.output_key)
        new = {key: ws for child in agent.sub_agents for key, ws in self._writes.of(child).items()}
        new = {key: writers for key, writers in new.items() if key not in handed.facts}
        for key, writers in new.items():
            if key != agent.output_key:
                reachable = reachable.wrote(key, writers[-1], must=False, soft=True)
        ends = [self.visit(child, reachable, siblings, last=last) for child in agent.sub_agents]
        if not must_hand_over(agent):
            ends.insert(0, done)
        joined = join(ends)
        assert joined is not None
        sure = ((key, joined.facts.get(key)) for key in new)
        return joined.holding(
            {key: fact._replace(soft=False) for key, fact in sure if fact is not None and fact.soft}
        )

    def _parallel(self, node: Parallel, world: World, siblings: Beside, *, last: bool) -> World:
        """All branches from one world; what each writes is there behind them."""
        wrote = [self._takes.of(branch) for branch in node.branches]
        inside = len(self._escapes)
        behind = self._branches(node, node.branches, world, siblings, last=last)
        if not self._muted:
            self.record.conflicts += [(node, key, several) for key, several in quarrels(wrote)]
        if node.on_error == "collect":  # a branch that fails leaves its keys unwritten
            pairs = zip(node.branches, behind, strict=True)
            behind = [world.joined(end) if may_fail(one) else end for one, end in pairs]
        keys = [self._writes.of(branch) for branch in node.branches]
        done = behind_branches(world, zip(keys, behind, strict=True))
        return self._left_together(inside, done)

    def _branches(
        self,
        node: Parallel | Race,
        branches: tuple[Node, ...],
        world: World,
        siblings: Beside,
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
            beside = Beside(counts, wrote[index])
            first = len(self.record.sites)
            inside = Beside(counts, wrote[index], siblings)
            behind.append(self.visit(branch, world, inside, last=last))
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

    def _race(self, node: Race, world: World, siblings: Beside, *, last: bool) -> World:
        inside = len(self._escapes)
        ways = self._branches(node, node.branches, world, siblings, last=last)
        return self._left_together(inside, join(ways) or world)

    def _left_together(self, inside: int, done: World) -> World:
        """Whoever leaves a loop from a branch: the others run to their end before."""
        if len(self._escapes) > inside:
            self._escapes[inside:] = [done]
        return done

    def _loop(self, node: Loop, world: World, siblings: Beside, *, last: bool) -> World:
        """The body from a world that holds at the beginning of every round."""
        held = self._entries.get(id(node))
        if held is None or held[0] != world:
            held = self._entries[id(node)] = world, *self._first_of_round(node, world, siblings)
        _, entry, done = held
        if done is None or not self._muted:
            done = self._round(node, entry, siblings, last=last)
        behind, left = done
        self._escapes += left  # the loops around it end too
        if node.until is not None:
            self._function(node, node.until, "until", behind, siblings)
        if node.while_ is not None:
            self._function(node, node.while_, "while_", entry, siblings)
            behind = entry.joined(behind)
        return join((behind, *left)) or behind

    def _first_of_round(
        self, node: Loop, world: World, siblings: Beside
    ) -> tuple[World, _Round | None]:
        """The world that every round begins in, and what is behind one, where that is known."""
        entry = world
        if node.max == 1:
            return entry, None
        self._muted += 1
        try:
            for _ in range(MOST_ROUNDS):
                done = self._round(node, entry, siblings, last=False)
                again = entry.joined(done[0])
                if again == entry:
                    return entry, done
                entry = again
        finally:
            self._muted -= 1
        return entry, None

    def _round(self, node: Loop, entry: World, siblings: Beside, *, last: bool) -> _Round:
        """The world behind one round, and those in which somebody left the loop."""
        outer, self._escapes = self._escapes, []
        if node.while_ is not None:
            entry = entry.having(keys_of(node.while_).proves)
        behind = self.visit(node.body, entry, siblings, last=last)
        left, self._escapes = self._escapes, outer
        return behind, left

    def _map(self, node: Map, world: World, siblings: Beside) -> World:
        """The body for each element, in a branch of its own; behind it only the list is there."""
        reads = tuple(key_reads(node.items, Origin("field", "items", node.name), "map"))
        self._came_to(node, world, reads, siblings)
        inside = len(self._escapes)
        inner = in_map(node, world, reads, self.record.labels)
        behind = self.visit(node.body, inner, siblings, last=True)
        if not surely_speaks(node.body):
            for key in self._writes.of(node.body):  # the output of a run that says nothing
                self.record.read(key, behind)
        done = behind_map(node, world, behind, self._inner)
        self._wrote(node, done, world)
        return self._left_together(inside, done)

    def _gate(self, node: Gate, world: World, siblings: Beside) -> World:
        """A human's answer: one of the choices, where there are some.

        The run ends there and goes on later, without what is kept for one invocation.
        """
        reads = tuple(gate_reads(node))
        self._came_to(node, world, reads, siblings)
        shape: JsonObject | None = {"enum": [*node.choices]} if node.choices else None
        writer = Writer(node.name, Origin("field", "key", node.name), "gate")
        done = world.lost(self._passing, writer).wrote(node.key, writer, shape)
        self._wrote(node, done, world)
        return done

    def _fallback(self, node: Fallback, world: World, siblings: Beside, *, last: bool) -> World:
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

    def _route(self, node: Route, world: World, siblings: Beside, *, last: bool) -> World:
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
        held = [proved(node, case) for case in node.cases] + [frozenset[str]()]
        ends = [
            self.visit(way, world.decided(key, label).having(there), siblings, last=last)
            for label, way, there in zip(labels, node.children, held, strict=False)
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
        return joined.knowing(key, sure)

    def _step(self, node: Step, world: World, siblings: Beside) -> World:
        reads, complete = reads_of_step(node)
        if not complete:
            self.record.read_all(world)
        self._came_to(node, world, tuple(reads), siblings)
        done = after_step(node, world, self.record.labels)
        self._wrote(node, done, world)
        return done

    def _function(
        self, node: Node, function: object, field: str, world: World, siblings: Beside
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
        siblings: Beside,
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


_LISTS = ("S.accumulate(", "S.zip(")


def function_reads(function: Callable[..., object], origin: Origin, how: ReadHow) -> list[Read]:
    """What a function of the state reads, each with how sure that is."""
    found = keys_of(function)
    reads = [Read(key, origin, how=how) for key in sorted(found.reads)]
    reads += [Read(key, origin, how=how, guarded=True) for key in sorted(found.guarded)]
    reads += [Read(key, origin, optional=True, how=how) for key in sorted(found.optional)]
    reads += [
        Read(key, origin, path, optional=True, how=how)
        for key, path in sorted(found.paths, key=str)
    ]
    compared: dict[tuple[str, tuple[str | int, ...]], list[Compared]] = {}
    for one in sorted(found.compared, key=str):
        compared.setdefault((one.key, one.path), []).append(one)
    return [
        read._replace(
            number=(read.key, read.path) in found.numbers,
            compared=tuple(compared.get((read.key, read.path), ())),
        )
        for read in reads
    ]


def reads_of_conditions(agent: Agent) -> tuple[list[Read], bool]:
    """What the predicates in an agent's policy read, and whether that is all."""
    place = Origin("field", "context", agent.name)
    reads: list[Read] = []
    complete = True
    for predicate, sure in conditions_of(agent.policy):
        complete = complete and keys_of(predicate).reads_all
        found = function_reads(predicate, place, "predicate")
        reads += found if sure else [read._replace(optional=True) for read in found]
    return reads, complete


def reads_of_step(node: Step) -> tuple[list[Read], bool]:
    """What a step reads, and whether that is all."""
    place = Origin("field", "reads" if not node.written else "function", node.name)
    reads = [Read(key, place, how="step", guarded=node.maybe) for key in node.reads]
    origin = Origin("field", "function", node.name)
    for index, function in enumerate(node.asks):
        found = function_reads(function, origin, "step")
        unsure = node.maybe and index > 0  # the first decides whether the others are asked
        reads += [read._replace(guarded=True) for read in found] if unsure else found
    complete = all(keys_of(function).reads_all for function in node.asks)
    reads += [Read(key, origin, path, optional=True, how="step") for key, path in _fields(node)]
    if not node.reads and not node.written:
        reads += function_reads(node.function, origin, "step")
        complete = keys_of(node.function).reads_all
    return reads, complete


def _fields(node: Step) -> list[tuple[str, tuple[str | int, ...]]]:
    """The fields that the elements of a list must have: `S.group_by` names one."""
    if not node.written.startswith("S.group_by("):
        return []
    match ast.parse(node.written, mode="eval").body:
        case ast.Call(args=[ast.Constant(value=str() as key), ast.Constant(value=str() as field)]):
            return [(key, (0, field))]
        case _:
            return []


def after_step(node: Step, world: World, labels: Mapping[str, frozenset[str]]) -> World:
    """The world once the step has run."""
    writer = step_writer(node)
    found = Keys() if node.written else keys_of(node.function)
    done = _changed(node, world, writer, labels)
    if not node.written:
        done = _handled(found, done, writer)
    tainted = _labels_of(node.reads, world, labels) if node.written else frozenset[str]()
    shapes = _shapes(node)
    for key in node.writes or (() if node.written else sorted(found.writes)):
        shape = shapes.get(key) or _shape(found.kinds.get(key, ""), found.texts.get(key))
        held = world.facts.get(key)
        if (node.fills or key in found.fills) and held is not None:
            if held.must:
                continue
            filled = Fact(must=True, writers=(writer,), schema=shape, labels=tainted)
            both = filled.joined(held)._replace(must=True, soft=False)
            done = done.holding({key: both})
            continue
        done = done.wrote(key, writer, shape, labels=tainted)
    for key in node.captures:
        done = done.wrote(key, writer, TEXT)
    if not node.writes and not node.written:
        for key in sorted(found.maybe):
            done = done.wrote(key, writer, must=False)
        if not found.writes_all:
            done = done.blurred(f"{node.name} writes what cannot be seen")
    return world.joined(done) if node.maybe else done


def _handled(found: Keys, world: World, writer: Writer) -> World:
    """The world after a function took keys away, or changed values in place."""
    world = world.lost(found.drops, writer)
    if not found.may_drop.isdisjoint(world.facts):
        world = world.joined(world.lost(found.may_drop, writer))
    touched = {
        key: fact._replace(schema=None)
        for key in found.touches
        if (fact := world.facts.get(key)) is not None and fact.schema is not None
    }
    return world.holding(touched)


def _changed(
    node: Step, world: World, writer: Writer, labels: Mapping[str, frozenset[str]]
) -> World:
    """The world after keys were taken away or renamed; a renamed value keeps what is known."""
    if node.keeps is not None:
        kept = node.keeps
        lost = [key for key in world.facts if scope_of(key) == "session" and key not in kept]
        world = world.lost(lost, writer)
    held = {new: (old, world.facts[old]) for old, new in node.renames if old in world.facts}
    world = world.lost(node.drops, writer)
    world = world.lost([old for old, _ in node.renames], writer, dict(node.renames))
    for new, (old, fact) in held.items():
        tainted = fact.labels | labels.get(old, frozenset())
        world = world.wrote(
            new, writer, fact.schema, must=fact.must, soft=fact.soft, labels=tainted
        )
    for old, new in node.renames:
        if new not in held and old not in world.facts:
            world = world.wrote(
                new, writer
            )  # whether the old one is there is said where it is read
    return world


def _labels_of(
    keys: Iterable[str], world: World, labels: Mapping[str, frozenset[str]]
) -> frozenset[str]:
    found: set[str] = set()
    for key in keys:
        fact = world.facts.get(key)
        found |= labels.get(key, frozenset()) | (fact.labels if fact is not None else frozenset())
    return frozenset(found)


def _shapes(node: Step) -> dict[str, JsonObject]:
    """What `S` writes, where its name says so; its constants are our own, so they may be asked."""
    if node.written.startswith(("S.set(", "S.default(")):
        values = cast("JsonObject", node.function({}))
        return {key: found for key in values if (found := _type_of(values[key])) is not None}
    if node.written.startswith("S.compute("):
        made = zip(node.writes, map(definition, node.asks), strict=True)
        return {
            key: shape
            for key, found in made
            if isinstance(found, ast.Lambda)
            and (shape := _shape(kind_of(found.body), texts_of(found.body)))
        }
    if node.written.startswith("S.counter("):
        return {key: {"type": "number"} for key in node.writes}
    if node.written.startswith("S.group_by("):
        return {key: {"type": "object"} for key in node.writes}
    if node.written.startswith(_LISTS):
        return {key: {"type": "array"} for key in node.writes}
    return {}


def _type_of(value: Json) -> JsonObject | None:
    if isinstance(value, bool):
        return _shape("boolean")
    if isinstance(value, int | float):
        return _shape("number")
    return _shape("string" if isinstance(value, str) else "array" * isinstance(value, list))


def _shape(kind: str, texts: frozenset[str] | None = None) -> JsonObject | None:
    if texts and len(texts) > 1:  # one alone is a mark, to be compared with what others write
        return {"enum": [*sorted(texts)]}
    return {"type": kind} if kind else None


class Hearing:
    """Who was heard so far; readers of one view do not go through the same speakers again."""

    def __init__(self) -> None:
        self._listened: dict[tuple[str, ...], tuple[Chart[str | None], set[str]]] = {}
        """By view: who had spoken when it was last asked for, and readers not yet heard by another.
        """

    def heard(self, reader: Agent, said: Chart[str | None]) -> set[str]:
        """Whose words the reader sees, of those that nobody with its view has seen yet."""
        view = view_of(reader)
        before, own = self._listened.get(view, (Chart(), set[str]()))
        new = {name for name, key in said.since(before) if sees_text_of(reader, name, key)}
        new |= {name for name in own if name in said}
        self._listened[view] = said, (own - new) | (new & {reader.name})
        return new - {reader.name}


_HARMLESS = ("S.set(", "S.default(", "S.drop(", "S.pick(", "S.log(", "S.tag(", "S.capture(")
"""Steps that look nothing up, so that nothing can lack."""


def may_fail(node: Node) -> bool:
    """Whether a node may end with an error: a model or a function of the author's always may."""
    match node:
        case Step():
            return not node.written.startswith(_HARMLESS) or " >> " in node.written
        case Fallback() | Race():
            return all(map(may_fail, node.children))
        case Gate() | Tap():
            return False
        case Sequence() | Loop():
            return any(map(may_fail, node.children))
        case _:
            return True


def behind_branches(world: World, ends: Iterable[tuple[Iterable[str], World]]) -> World:
    """The world behind branches, each with the keys it writes and the world it ends in."""
    facts: dict[str, Fact] = {}
    gone: dict[str, Gone] = {}
    opaque: dict[str, None] = {}
    said: dict[str, str | None] = {}
    for keys, one in ends:
        for key in keys:
            fact = one.facts.get(key)
            if fact is not None and world.facts.get(key) is not fact:
                facts[key] = fact
                gone.pop(key, None)
        for key, held in one.gone.since(world.gone):
            if key not in world.gone and key in world.facts:
                facts.pop(key, None)
                gone[key] = held
        opaque.update(dict.fromkeys(key for key, _ in one.opaque.since(world.opaque)))
        said.update(one.said.since(world.said))
    return World(
        world.facts.updated(facts).without(gone),
        world.gone.updated(gone).without(facts),
        world.opaque.updated(opaque),
        world.said.updated(said),  # branches join where they end
        world.cases,
    )


def in_map(
    node: Map, world: World, reads: Iterable[Read], labels: Mapping[str, frozenset[str]]
) -> World:
    """The world that a run of a map begins in: its element has what is known of the list."""
    writer = Writer(node.name, Origin("field", "item", node.name), "map")
    for read in reads:
        listed = world.facts.get(read.key)
        if listed is not None:
            shape, _ = follow(listed.schema, read.path)
            element = shape.get("items") if shape is not None else None
            held = element if isinstance(element, dict) else None
            secret = listed.labels | labels.get(read.key, frozenset())
            return world.wrote(node.item, writer, held, labels=secret)
    return world.wrote(node.item, writer)


def surely_speaks(body: Node) -> bool:
    """Whether every run of a map's body says something; branches in it are not heard there."""
    match body:
        case Agent():
            return True
        case Sequence():
            return any(map(surely_speaks, body.steps))
        case Loop() | Timeout():
            return surely_speaks(body.body)
        case Route():
            return body.default is not None and all(map(surely_speaks, body.children))
        case Fallback() | Race():
            return all(map(surely_speaks, body.children))
        case _:
            return False


def behind_map(node: Map, world: World, behind: World, inner: frozenset[str]) -> World:
    """The world behind a map: the list of outputs, keys of the user and the app, and what was said.

    What agents of `inner` said is data for those behind them: it is read in the list.
    """
    shared = {
        key: fact
        for key, fact in behind.facts.since(world.facts)
        if scope_of(key) in ("app", "user")
    }
    into = Writer(node.name, Origin("field", "into", node.name), "map")
    said = {
        name: node.into if name in inner and key is None else key
        for name, key in behind.said.since(world.said)
    }
    done = replace(
        world.holding(shared),
        opaque=behind.opaque,
        said=world.said.updated(said),
        cases=Chart(),
    )
    return done.wrote(node.into, into, collected(node.body))
