"""Walk a flow on worlds instead of values, all paths at once.

Branches that meet are joined. Loops are walked until nothing changes. Whatever a transfer may
lead to counts as possible in any order. The walk reports nothing: it records sites for the rules.
"""

from collections.abc import Iterable, Mapping
from dataclasses import replace
from typing import NamedTuple, TypeAlias

from weft.checker.agents import (
    FlowCallbacks,
    Visibility,
    WritersByKey,
    Writes,
    agents_called_by,
    custom_writer,
    custom_writes,
    flow_callbacks,
    function_reads,
    gate_reads,
    is_covered,
    key_reads,
    keys_of_case,
    labels_by_key,
    may_escalate,
    may_read_anything,
    must_hand_over,
    output_shape,
    reads_of,
    reads_of_conditions,
    route_reads,
    without_answer,
    world_after,
    world_before,
    writes_of,
)
from weft.checker.functions import keys_of
from weft.checker.paths import removed_by_sibling, steps_that_remove, written_twice
from weft.checker.schemas import follow
from weft.checker.steps import after_step, reads_of_step
from weft.checker.world import (
    Chart,
    Fact,
    Read,
    SiblingWrites,
    Site,
    Survey,
    WalkRecord,
    World,
    Writer,
    join_worlds,
    merge_worlds,
)
from weft.declare import (
    Agent,
    CustomAgent,
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
from weft.declare.agent import agents_of
from weft.declare.config import may_be_absent, shape_of
from weft.declare.functions import StateFunction
from weft.declare.route import OTHERWISE
from weft.declare.visit import DefaultVisitor, Visitor
from weft.diagnostics import Origin
from weft.session.event import scope_of
from weft.values import JsonObject

MOST_ROUNDS = 8
"""How often a loop is walked: worlds only ever lose certainty, so few rounds are enough."""

APPLICATION = "the application"
"""The writer of inputs: whoever starts the program."""

_Round: TypeAlias = tuple[World, list[World]]
"""The world after one round of a loop, and those in which somebody left it."""


class _LoopEntry(NamedTuple):
    """What is known of a loop: the world before it, at the start of each round, and one round."""

    before: World
    entry: World
    round: _Round | None


def with_input(world: World, key: str, declared: object, place: Origin) -> World:
    """The world where a declared input is present, unless its type allows it to be absent."""
    where = f"inputs.{key}"
    writer = Writer(APPLICATION, place, "input")
    must = not may_be_absent(declared, where=where)
    return world.with_write(
        key, writer, shape_of(declared, where=where), must=must, is_carried=True
    )


class Walk:
    """One walk over a flow: what all its nodes share, and the record it leaves for the rules."""

    def __init__(self, survey: Survey) -> None:
        self.survey = survey
        self.writes = Writes()
        self.overwrites = Writes(fills=False)
        written = self.writes.of(survey.root)
        self.record = WalkRecord(survey, labels_by_key(survey.members), frozenset(written))
        self.top: Agent | None = None
        """The root of the tree of agents that is walked just now."""
        self.muted = 0
        """Above zero while a loop is walked to find out what changes, without a record."""
        self.loops: dict[int, _LoopEntry] = {}
        self.visibility = Visibility()
        self.escapes: list[World] = []
        """The worlds in which somebody left the loop that is walked just now."""
        self.branches_last = True
        """Whether words on branches can be the answer: not in a map whose list goes on."""
        self.passing = [key for key in written if scope_of(key) == "temp"]
        self._speaks: dict[int, bool] = {}

    def run(self, world: World) -> WalkRecord:
        """Walk the whole flow, and return what that leaves for the rules."""
        self.record.start = world
        self.record.end = self.walk_node(self.survey.root, world, SiblingWrites(), last=True)
        return self.record

    def walk_node(self, node: Node, world: World, siblings: SiblingWrites, *, last: bool) -> World:
        """The world after a node, whichever path is taken through it."""
        if node.inputs:
            world = self._take_inputs(node, world, siblings)
        callbacks = flow_callbacks(node)
        for one in callbacks[:1]:
            world = self._run_callbacks(node, one, world, siblings)
        world = NodeWalk(self, world, siblings, last=last).visit(node)
        for one in callbacks[1:]:
            world = self._run_callbacks(node, one, world, siblings)
        return world

    def _run_callbacks(
        self, node: Node, callbacks: FlowCallbacks, world: World, siblings: SiblingWrites
    ) -> World:
        """The world after the callbacks of a flow at one moment."""
        if not all(uses.reads_all for uses in callbacks.uses):
            self.record.note_all_read(world)
        reads = [*callbacks.reads()]
        if reads:
            self.add_site(node, world, reads, siblings)
        return callbacks.after(world)

    def _take_inputs(self, node: Node, world: World, siblings: SiblingWrites) -> World:
        """The world where the inputs of a node are present.

        An input that nothing before the node writes must be there when the program starts. One
        that something does write is read here.
        """
        reads: list[Read] = []
        place = Origin("field", "inputs", node.name)
        for key, declared in node.inputs.items():
            fact = world.facts.get(key)
            if fact is None and key not in world.gone and not world.opaque:
                self.record.inputs.setdefault(key, declared)
                world = with_input(world, key, declared, place)
            elif fact is None or any(writer.kind != "input" for writer in fact.writers):
                optional = may_be_absent(declared, where=str(place))
                shape = shape_of(declared, where=str(place))
                reads.append(Read(key, place, optional=optional, how="input", shape=shape))
        if reads:
            self.add_site(node, world, reads, siblings)
        return world

    def has_agents(self, node: Node) -> bool:
        """Whether somebody speaks in it."""
        speaks = self._speaks.get(id(node))
        if speaks is None:
            speaks = isinstance(node, Agent | CustomAgent) or any(
                map(self.has_agents, node.children)
            )
            self._speaks[id(node)] = speaks
        return speaks

    def leave_together(self, inside: int, done: World) -> World:
        """Leave a loop from a branch: the other branches end first, so all of them count."""
        if len(self.escapes) > inside:
            self.escapes[inside:] = [done]
        return done

    def add_site(
        self,
        node: Node,
        world: World,
        reads: Iterable[Read],
        siblings: SiblingWrites,
        *,
        last: bool = False,
    ) -> None:
        """Record that the walk came to a node in a world, and what the node reads there."""
        reads = tuple(reads)
        for read in reads:
            self.record.note_read(read.key, world)
        if not self.muted:
            self.record.sites.append(Site(node, world, reads, siblings, last))

    def add_writes(self, node: Node, done: World, before: World) -> None:
        """Record what a node wrote, by the worlds before and after it."""
        if self.muted:
            return
        for key in self.writes.of(node):
            fact = done.facts.get(key)
            if fact is not None and before.facts.get(key) is not fact:
                for writer in fact.writers:
                    self.record.written.setdefault((key, writer), fact)


class NodeWalk(Visitor[World]):
    """One node that the walk came to; each method gives the world after one kind of node."""

    __slots__ = ("last", "siblings", "walk", "world")

    def __init__(self, walk: Walk, world: World, siblings: SiblingWrites, *, last: bool) -> None:
        self.walk = walk
        self.world = world
        """What is known before the node."""
        self.siblings = siblings
        self.last = last
        """Whether nothing follows: what is said here is the answer."""

    def _walk(self, node: Node, world: World, *, last: bool | None = None) -> World:
        """The world after a node inside this one that begins in a world."""
        last = self.last if last is None else last
        return self.walk.walk_node(node, world, self.siblings, last=last)

    def visit_agent(self, node: Agent) -> World:
        """What the agent reads, and then writes; and what it may call or hand over to."""
        walk = self.walk
        # the first agent on the way down: its `global_instruction` is sent to all below it
        above, walk.top = walk.top, walk.top or node
        try:
            world = world_before(node, self.world)
            asked, complete = reads_of_conditions(node)
            reads = (*reads_of(node, walk.top), *asked)
            walk.add_site(node, world, reads, self.siblings, last=self.last)
            if may_read_anything(node) or not complete:
                walk.record.note_all_read(world)
            if world.spoken:  # else there are no words to see
                walk.record.heard |= walk.visibility.newly_visible_to(node, world.spoken)
            done = self._call_tools(node, world, world_after(node, world))
            walk.add_writes(node, done, self.world)
            if may_escalate(node):
                # its tools or callbacks may end the loop around it
                walk.escapes.append(done)
            if node.sub_agents:
                done = self._transfer(node, done, without_answer(node, world, done))
        finally:
            walk.top = above
        return done

    def _call_tools(self, agent: Agent, world: World, done: World) -> World:
        """Agents that are tools: each sees the state, and may write to it or not be called."""
        walk = self.walk
        flows = agents_called_by(agent)
        if not flows:
            return done
        # it sees the state, and nothing of what was said
        inner = World(world.facts, world.gone, world.opaque)
        for key, writer, shape in writes_of(agent):
            if writer.kind in ("tool", "code") and key not in inner.facts:
                inner = inner.with_write(key, writer, shape, must=False, soft=True)
        for flow in flows:
            inner = _with_possible(inner, walk.writes.of(flow))
        above, walk.top = walk.top, None
        branches, walk.branches_last = walk.branches_last, True
        outer, walk.escapes = walk.escapes, []  # who leaves a loop in there leaves none out here
        pending = {key for key, _ in inner.facts.since(world.facts)}
        for flow in flows:
            end = walk.walk_node(flow, inner, SiblingWrites(), last=True)
            new = {key for key, _ in end.facts.since(inner.facts)} - world.facts.keys()
            soft = {
                key: end.facts[key]._replace(must=False, soft=True)
                for key in (*pending, *new)
                if key in end.facts and key not in done.facts
            }
            pending -= soft.keys()
            done = replace(done.with_facts(soft), opaque=end.opaque or done.opaque, cases=Chart())
        walk.top, walk.escapes, walk.branches_last = above, outer, branches
        return done

    def _transfer(self, agent: Agent, done: World, handed_over: World) -> World:
        """Whoever may be handed over to, in any order and any number of times.

        What any of them writes may be there for any of them: on another turn it is. What the agent
        itself says is stored only where it answers, not where it hands over. After them all, only
        what everybody writes who may answer is there for sure.
        """
        reachable = handed_over
        for key, writer, shape in writes_of(agent):
            fact = handed_over.facts.get(key)
            own = fact is None or (fact.soft and fact.writers == (writer,))
            if key == agent.output_key and own:  # it stands there on another turn, not on this one
                answer = Fact(must=False, writers=(writer,), schema=shape)
                reachable = reachable.with_facts({key: answer})
        for below in (member for child in agent.sub_agents for member in agents_of(child)):
            reachable = reachable.with_speaker(below, below.output_key)
        new = {
            key: writers
            for child in agent.sub_agents
            for key, writers in self.walk.writes.of(child).items()
            if key not in handed_over.facts
        }
        for key, writers in new.items():
            if key != agent.output_key:
                reachable = reachable.with_write(key, writers[-1], must=False, soft=True)
        ends = [self._walk(child, reachable) for child in agent.sub_agents]
        # else it never answers itself
        if not must_hand_over(agent):
            ends.insert(0, done)
        joined = join_worlds(ends)
        assert joined is not None
        sure = ((key, joined.facts.get(key)) for key in new)
        return joined.with_facts(
            {key: fact._replace(soft=False) for key, fact in sure if fact is not None and fact.soft}
        )

    def visit_sequence(self, node: Sequence) -> World:
        """Each step in the world after the one before."""
        speaking = [i for i, step in enumerate(node.steps) if self.walk.has_agents(step)]
        last_speaker = speaking[-1] if speaking else 0
        world = self.world
        for index, step in enumerate(node.steps):
            world = self._walk(step, world, last=self.last and index >= last_speaker)
        return world

    def visit_parallel(self, node: Parallel) -> World:
        """All branches from one world; what each writes is there after them."""
        walk = self.walk
        inside = len(walk.escapes)
        ends = self._walk_branches(node)
        if not walk.muted:
            written = [walk.overwrites.of(branch) for branch in node.branches]
            walk.record.conflicts += [(node, key, who) for key, who in written_twice(written)]
        if node.on_error == "collect":  # a branch that fails leaves its keys unwritten
            pairs = zip(node.branches, ends, strict=True)
            ends = [self.world.join_with(end) if may_fail(one) else end for one, end in pairs]
        keys = [walk.writes.of(branch) for branch in node.branches]
        done = merge_worlds(self.world, zip(keys, ends, strict=True))
        return walk.leave_together(inside, done)

    def visit_race(self, node: Race) -> World:
        """Any one of the branches."""
        inside = len(self.walk.escapes)
        done = join_worlds(self._walk_branches(node)) or self.world
        return self.walk.leave_together(inside, done)

    def _walk_branches(self, node: Parallel | Race) -> list[World]:
        """The world after each branch, which does not see what the others write."""
        walk = self.walk
        written = [walk.writes.of(branch) for branch in node.branches]
        removing = steps_that_remove(node.branches)
        counts: dict[str, int] = {}
        for keys in written:
            for key in keys:
                counts[key] = counts.get(key, 0) + 1
        ends: list[World] = []
        for index, branch in enumerate(node.branches):
            others = SiblingWrites(counts, written[index])
            first_site = len(walk.record.sites)
            siblings = SiblingWrites(counts, written[index], self.siblings)
            # a map collects what the winner of a race says, and nothing of parallel branches
            last = self.last and (isinstance(node, Race) or walk.branches_last)
            ends.append(walk.walk_node(branch, self.world, siblings, last=last))
            if isinstance(node, Parallel) and not walk.muted:
                sites = walk.record.sites[first_site:]
                missing = tuple(
                    read
                    for site in sites
                    for read in site.reads
                    if read.key in others and read.key not in site.world.facts
                )
                if missing:
                    walk.record.siblings.append((node, index, missing))
                walk.record.removed_by_sibling += removed_by_sibling(
                    removing, index, sites, written[index]
                )
        return ends

    def visit_loop(self, node: Loop) -> World:
        """The body from a world that holds at the beginning of every round."""
        walk = self.walk
        known = walk.loops.get(id(node))
        # a loop within a loop begins in another world in each round of the outer one
        if known is None or known.before != self.world:
            known = walk.loops[id(node)] = _LoopEntry(self.world, *self._find_entry(node))
        entry, done = known.entry, known.round
        # what was tried left no record: it is walked once more for that
        if done is None or not walk.muted:
            done = self._walk_round(node, entry, last=self.last)
        end, escapes = done
        walk.escapes += escapes  # the loops around it end too
        if node.until is not None:
            self._note_reads(node, node.until, "until", end)
        if node.while_ is not None:
            self._note_reads(node, node.while_, "while_", entry)
            end = entry.join_with(end)
        return join_worlds((end, *escapes)) or end

    def _find_entry(self, node: Loop) -> tuple[World, _Round | None]:
        """The world that every round begins in, and one round from there, where that is known."""
        entry = self.world
        # a single round begins in the world before it
        if node.max == 1:
            return entry, None
        self.walk.muted += 1
        try:
            for _ in range(MOST_ROUNDS):
                done = self._walk_round(node, entry, last=False)
                again = entry.join_with(done[0])
                if again == entry:  # another round changes nothing more
                    return entry, done
                entry = again
        finally:
            self.walk.muted -= 1
        return entry, None

    def _walk_round(self, node: Loop, entry: World, *, last: bool) -> _Round:
        """Walk a loop's body once: the world after it, and those in which somebody left it."""
        outer, self.walk.escapes = self.walk.escapes, []
        if node.while_ is not None:
            entry = entry.with_proved_keys(keys_of(node.while_).proves)
        end = self._walk(node.body, entry, last=last)
        escapes, self.walk.escapes = self.walk.escapes, outer
        return end, escapes

    def visit_map(self, node: Map) -> World:
        """The body for each element, in a branch of its own; after it only the list is there."""
        walk = self.walk
        reads = tuple(key_reads(node.items, Origin("field", "items", node.name), "map"))
        walk.add_site(node, self.world, reads, self.siblings, last=self.last)
        inside = len(walk.escapes)
        inner = _enter_map(node, self.world, reads, walk.record.labels)
        outer, walk.branches_last = walk.branches_last, walk.branches_last and self.last
        end = self._walk(node.body, inner, last=True)
        walk.branches_last = outer
        # a run without words gives its keys as output, which counts as reading them
        if not always_speaks(node.body):
            for key in walk.writes.of(node.body):  # they are the output of a run without words
                walk.record.note_read(key, end)
        done = _leave_map(node, self.world, end, walk.survey.inner)
        walk.add_writes(node, done, self.world)
        return walk.leave_together(inside, done)

    def visit_gate(self, node: Gate) -> World:
        """A human's answer: one of the choices, where there are some.

        The run ends there and goes on later, without what is kept for one invocation.
        """
        self.walk.add_site(node, self.world, gate_reads(node), self.siblings)
        shape: JsonObject | None = {"enum": [*node.choices]} if node.choices else None
        writer = Writer(node.name, Origin("field", "key", node.name), "gate")
        done = self.world.without_keys(self.walk.passing, writer)
        done = done.with_write(node.key, writer, shape)
        self.walk.add_writes(node, done, self.world)
        return done

    def visit_fallback(self, node: Fallback) -> World:
        """Each choice where those before it may have written something, and failed."""
        ends: list[World] = []
        entry = self.world
        for choice in node.choices:
            end = self._walk(choice, entry)
            ends.append(end)
            # a choice that failed said nothing, and may have written some of its keys
            entry = entry.join_with(World(end.facts, end.gone, end.opaque, entry.spoken))
        joined = join_worlds(ends)
        assert joined is not None
        return joined

    def visit_route(self, node: Route) -> World:
        """Any one of the cases, each where its condition holds."""
        walk, world = self.walk, self.world
        walk.add_site(node, world, route_reads(node), self.siblings)
        if not isinstance(node.key, str):
            self._note_reads(node, node.key, "key", world)
        for case in node.cases:
            if case.predicate is not None:
                self._note_reads(node, case.predicate, case.label, world)
        if not walk.muted:
            walk.record.routes.append((node, world))
        labels = [*(case.label for case in node.cases), OTHERWISE]
        key = node.key if isinstance(node.key, str) else ""
        present = [keys_of_case(node, case) for case in node.cases] + [frozenset[str]()]
        ends = [
            self._walk(way, world.in_case(key, label).with_proved_keys(keys))
            for label, way, keys in zip(labels, node.children, present, strict=False)
        ]
        sure = {
            label: frozenset(k for k in walk.writes.of(way) if k in end.facts and end.facts[k].must)
            for label, way, end in zip(labels, node.children, ends, strict=False)
        }
        if node.default is not None and len(ends) > 1 and is_covered(node, world):
            ends.pop()  # nothing is left for `otherwise`
        joined = join_worlds(ends) or world
        base = next((read.key for read in route_reads(node)), "")
        # A case that writes the key itself says nothing to a later route by the same key.
        if not base or any(end.facts.get(base) != world.facts.get(base) for end in ends):
            return joined
        return joined.with_cases(key, sure)

    def visit_step(self, node: Step) -> World:
        """What the function reads and changes."""
        reads, complete = reads_of_step(node)
        if not complete:
            self.walk.record.note_all_read(self.world)
        self.walk.add_site(node, self.world, reads, self.siblings)
        done = after_step(node, self.world, self.walk.record.labels)
        self.walk.add_writes(node, done, self.world)
        return done

    def visit_timeout(self, node: Timeout) -> World:
        """The body."""
        return self._walk(node.body, self.world)

    def visit_custom_agent(self, node: CustomAgent) -> World:
        """What the code reads and writes, and its children: in any order, any number of times.

        What a child writes may be there for any of them, and after the agent. The code may read
        all that they say, so each speaks to somebody.
        """
        walk, world = self.walk, self.world
        origin = Origin("field", "reads", node.name)
        reads = [Read(key, origin, optional=True, how="step") for key in node.reads]
        walk.add_site(node, world, reads, self.siblings, last=self.last)
        if not node.declares_reads:
            walk.record.note_all_read(world)
            walk.record.heard |= {*world.spoken}  # its code may look at the whole session
        writer, writes = custom_writer(node), custom_writes(node)
        reachable = world
        for key in sorted(writes or ()):
            if key not in world.facts:
                reachable = reachable.with_write(key, writer, must=False, soft=True)
        for child in node.children:
            reachable = _with_possible(reachable, walk.writes.of(child))
            for agent in agents_of(child):
                reachable = reachable.with_speaker(agent, agent.output_key)
        if writes is None:
            reachable = reachable.with_unknown(f"{node.name} does not say which keys it writes")
        ends = [self._walk(child, reachable, last=True) for child in node.children]
        if not node.declares_reads:
            for end in ends:
                walk.record.note_all_read(end)
        walk.record.heard |= {agent.name for one in node.children for agent in agents_of(one)}
        done = join_worlds([reachable, *ends]) or reachable
        for key in sorted(writes or ()):  # what its source shows may be on some paths only
            must = node.declares_writes
            done = done.with_write(key, writer, must=must, soft=not must)
        walk.add_writes(node, done, world)
        # its code may end the loop around it
        walk.escapes.append(done)
        return done.with_speaker(node, None)

    def visit_tap(self, node: Tap) -> World:
        """What the function reads; it changes nothing."""
        self._note_reads(node, node.function, "function", self.world)
        return self.world

    def visit_expect(self, node: Expect) -> World:
        """What the predicate reads; after it, what it proves is there."""
        place = Origin("field", "predicate", node.name)
        reads = [Read(key, place, how="predicate", guarded=True) for key in node.reads]
        if reads:
            self.walk.add_site(node, self.world, reads, self.siblings)
        else:
            self._note_reads(node, node.predicate, "predicate", self.world)
        return self.world.with_proved_keys(node.reads or keys_of(node.predicate).proves)

    def _note_reads(self, node: Node, function: StateFunction, field: str, world: World) -> None:
        """Record what a function of the state reads, in the world where it is called."""
        reads = function_reads(function, Origin("field", field, node.name), "predicate")
        if not keys_of(function).reads_all:
            self.walk.record.note_all_read(world)
        self.walk.add_site(node, world, reads, self.siblings)


class _AskParts(DefaultVisitor[bool]):
    """A question to the parts of a node: one step of a sequence is enough, all of the choices."""

    __slots__ = ()

    def visit_sequence(self, node: Sequence) -> bool:
        return any(map(self.visit, node.steps))

    def visit_loop(self, node: Loop) -> bool:
        return self.visit(node.body)

    def visit_fallback(self, node: Fallback) -> bool:
        return all(map(self.visit, node.choices))

    def visit_race(self, node: Race) -> bool:
        return all(map(self.visit, node.branches))


class _MayFail(_AskParts):
    """Whether a node may end with an error: a model or a function of the author's always may."""

    __slots__ = ()

    def visit_other(self, node: Node) -> bool:
        return True

    def visit_step(self, node: Step) -> bool:
        return node.change.may_fail

    def visit_gate(self, node: Gate) -> bool:
        return False

    def visit_tap(self, node: Tap) -> bool:
        return False


may_fail = _MayFail().visit


class _AlwaysSpeaks(_AskParts):
    """Whether every run of a map's body says something; branches in it are not heard there."""

    __slots__ = ()

    def visit_other(self, node: Node) -> bool:
        return False

    def visit_agent(self, node: Agent) -> bool:
        return True

    def visit_timeout(self, node: Timeout) -> bool:
        return self.visit(node.body)

    def visit_route(self, node: Route) -> bool:
        return node.default is not None and all(map(self.visit, node.children))


always_speaks = _AlwaysSpeaks().visit


def _with_possible(world: World, writes: WritersByKey) -> World:
    """The world in which keys that nobody wrote yet may have been written."""
    for key, writers in writes.items():
        if key not in world.facts:
            world = world.with_write(key, writers[-1], must=False, soft=True)
    return world


def _enter_map(
    node: Map, world: World, reads: Iterable[Read], labels: Mapping[str, frozenset[str]]
) -> World:
    """The world that a run of a map begins in: its element has what is known of the list."""
    writer = Writer(node.name, Origin("field", "item", node.name), "map")
    for read in reads:
        fact = world.facts.get(read.key)
        if fact is not None:
            shape, _ = follow(fact.schema, read.path)
            items = shape.get("items") if shape is not None else None
            element = items if isinstance(items, dict) else None
            secret = fact.labels | labels.get(read.key, frozenset())
            return world.with_write(node.item, writer, element, labels=secret)
    return world.with_write(node.item, writer)


def _leave_map(node: Map, world: World, end: World, inner: frozenset[str]) -> World:
    """The world after a map: the list of outputs, keys of the user and the app, and what was said.

    What agents of `inner` said is data for those after them: it is read in the list.
    """
    shared = {
        key: fact for key, fact in end.facts.since(world.facts) if scope_of(key) in ("app", "user")
    }
    into = Writer(node.name, Origin("field", "into", node.name), "map")
    speakers = {
        name: node.into if name in inner and key is None else key
        for name, key in end.spoken.since(world.spoken)
    }
    done = replace(
        world.with_facts(shared),
        opaque=end.opaque,
        spoken=world.spoken.with_items(speakers),
        cases=Chart(),
    )
    return done.with_write(node.into, into, output_shape(node.body))
