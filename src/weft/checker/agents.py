"""What an agent reads, writes and hears of others, by its declaration alone.

Top to bottom: what it reads and writes, what its tools and callbacks use, who writes which key,
what routes, gates and conditions read, whose words it hears.
"""

from collections.abc import Callable, Iterable, Iterator
from dataclasses import replace
from typing import NamedTuple, TypeAlias, TypeVar, cast

from weft import schema
from weft.checker.functions import StateUses, keys_of, keys_said_by, uses_of
from weft.checker.keys import KeyComparison, Keys
from weft.checker.schemas import follow, may_lack, values_of
from weft.checker.world import Chart, Read, ReadHow, World, Writer
from weft.declare import (
    Agent,
    CustomAgent,
    Gate,
    Map,
    Node,
    Policy,
    Route,
    Sequence,
    Step,
    Timeout,
    Tool,
    template,
)
from weft.declare.agent import agents_of, children, labels_in
from weft.declare.changes import OWN_CODE
from weft.declare.checks import CALLBACKS
from weft.declare.functions import StateFunction
from weft.declare.policy_parts import (
    Capture,
    Distill,
    Everything,
    Extract,
    FromAgents,
    Matching,
    Memories,
    NoteDown,
    Notes,
    Nothing,
    Relevant,
    Selector,
    StateKeys,
    ThisTurn,
    UserWords,
    When,
    WithoutAgents,
)
from weft.declare.route import Case, same
from weft.declare.visit import DefaultVisitor
from weft.diagnostics import Origin
from weft.session.event import scope_of
from weft.values import JsonObject

TEXT: JsonObject = {"type": "string"}


class KeyWrite(NamedTuple):
    """A key that running an agent writes."""

    key: str
    writer: Writer
    schema: JsonObject | None


def reads_of(agent: Agent, root: Agent | None = None) -> tuple[Read, ...]:
    """The keys that its templates, policy, tools and callbacks read, with their places."""
    # only the root's text is sent to all of its tree
    if root is None or root.global_instruction is None:
        return _own_reads(agent)
    place = Origin("field", "global_instruction", root.name)
    return (*_text_reads(agent, root.global_instruction, place), *_own_reads(agent))


def _text_reads(agent: Agent, text: object, place: Origin) -> Iterator[Read]:
    """The keys that a text of the agent names, or the function that makes it."""
    if callable(text):
        yield from (Read(key, place, how="step") for key in uses_of(text).reads)
    if not isinstance(text, str):
        return
    for variable in template.parse(text).variables:
        if variable.artifact:
            continue
        origin = Origin("field", place.name, place.agent, variable.start, variable.end)
        optional = variable.optional or agent.on_missing == "empty"
        typed = text[variable.start : variable.end]
        yield Read(variable.key, origin, variable.path, optional, typed=typed)


Answer = TypeVar("Answer")


def once_per_agent(derive: Callable[[Agent], Answer]) -> Callable[[Agent], Answer]:
    """The function, called once for each agent; the agent keeps the answer."""

    def answer_for(agent: Agent) -> Answer:
        memo = agent.memo
        if derive not in memo:
            memo[derive] = derive(agent)
        return cast("Answer", memo.get(derive))

    answer_for.__doc__ = derive.__doc__
    return answer_for


def cache_tuple(
    derive: Callable[[Agent], Iterator[Answer]],
) -> Callable[[Agent], tuple[Answer, ...]]:
    """The generator as a tuple, worked out once for each agent."""

    def all_of(agent: Agent) -> tuple[Answer, ...]:
        return tuple(derive(agent))

    all_of.__doc__ = derive.__doc__
    return once_per_agent(all_of)


@cache_tuple
def _own_reads(agent: Agent) -> Iterator[Read]:
    yield from _text_reads(agent, agent.instruction, Origin("field", "instruction", agent.name))
    yield from _policy_reads(agent.policy, Origin("field", "context", agent.name))
    for tool in agent.tools:
        origin, uses = Origin("tool", tool.name, agent.name), uses_of_tool(tool)
        yield from _reads_by_code(uses, origin, "tool")
    for name, uses in callbacks_of(agent):
        yield from _reads_by_code(uses, Origin("field", name, agent.name), "callback")


def _reads_by_code(uses: StateUses, origin: Origin, how: ReadHow) -> Iterator[Read]:
    """The keys that a function reads or asks for; any of them may be absent."""
    yield from (Read(key, origin, optional=True, how=how) for key in uses.reads)
    yield from (Read(key, origin, (), True, how, guarded=True) for key in uses.asks)


def _policy_reads(policy: Policy, place: Origin, *, optional: bool = False) -> Iterator[Read]:
    """The keys a policy shows. An absent key is omitted, so paths do not matter."""
    for stage in policy.stages:
        selector = stage.selector
        match selector:
            case StateKeys():
                for key in selector.keys:
                    yield Read(key, place, optional=optional, how="policy", guarded=True)
            case Notes():
                yield Read(selector.key, place, optional=True, how="policy")
            case Relevant() | Memories() if selector.from_state is not None:
                yield Read(selector.from_state, place, optional=optional, how="policy")
            case When():
                yield from _policy_reads(selector.policy, place, optional=True)
            case _:
                pass


def conditions_of(policy: Policy) -> Iterator[tuple[StateFunction, bool]]:
    """The predicates in a policy, and whether each is always asked: a nested one is not."""
    for stage in policy.stages:
        if isinstance(stage.selector, When):
            yield stage.selector.predicate, True
            yield from ((inner, False) for inner, _ in conditions_of(stage.selector.policy))


@cache_tuple
def writes_of(agent: Agent) -> Iterator[KeyWrite]:
    """The keys that an agent writes: with its answer, by its policy, and by its code."""
    for writing in agent.policy.writings:
        writer = Writer(agent.name, Origin("field", "context", agent.name), "agent")
        match writing:
            case Capture():
                yield KeyWrite(writing.key, writer, TEXT)
            case NoteDown() | Distill():
                yield KeyWrite(writing.key, writer, None)
            case Extract():
                shape = schema.of_type(writing.schema, where=f"{agent.name}.context")
                yield KeyWrite(writing.key, writer, shape)
    for tool in agent.tools:
        place = Origin("tool", tool.name, agent.name)
        writer = Writer(tool.name, place, "tool" if tool.writes else "code")
        for key in uses_of_tool(tool).writes:
            yield KeyWrite(key, writer, None)
    for name, uses in callbacks_of(agent):
        for key in uses.writes:
            yield KeyWrite(key, callback_writer(agent, name), None)
    if agent.output_key is not None:
        writer = Writer(agent.name, Origin("field", "output_key", agent.name), "agent")
        shape = TEXT
        if agent.output_schema is not None:
            shape = schema.of_type(agent.output_schema, where=f"{agent.name}.output_schema")
        yield KeyWrite(agent.output_key, writer, shape)


@once_per_agent
def why_writes_unknown(agent: Agent) -> str:
    """Why an agent may write any key: code gets the state and does not say what it writes."""
    for tool in agent.tools:
        if not uses_of_tool(tool).known:
            return f"the tool {tool.name} is handed the state"
    for name, uses in callbacks_of(agent):
        if not uses.known:
            return f"{agent.name}.{name} is handed the state"
    # one is enough
    for source in agent.tool_sources:
        return f"the toolset {source.name} answers tools that nobody knows before a run"
    return ""


@once_per_agent
def may_read_anything(agent: Agent) -> bool:
    """Whether code that reads the state itself runs with the agent."""
    if not isinstance(agent.instruction, str) or any(tool.agent for tool in agent.tools):
        return True
    compresses = agent.context_compressor is not None and agent.token_budget is None
    if agent.passes or compresses or any(tool.prepare for tool in agent.tools):
        return True  # a pass may look at the whole state
    return not all(uses.reads_all for uses in _code_of(agent))


@once_per_agent
def may_escalate(agent: Agent) -> bool:
    """Whether its own code may end the loop it runs in."""
    return any(uses.known and uses.escalates for uses in _code_of(agent))


@once_per_agent
def is_tied(agent: Agent) -> bool:
    """Whether its code is known and never ends the loop it runs in."""
    return not any(uses.escalates for uses in _code_of(agent))


@once_per_agent
def _code_of(agent: Agent) -> list[StateUses]:
    """What its tools and callbacks do with the state."""
    unknown = [StateUses() for _ in agent.tool_sources]
    return [*map(uses_of_tool, agent.tools), *unknown, *(uses for _, uses in callbacks_of(agent))]


def tool_choice(agent: Agent) -> str:
    """What its tool_choice says: a word, or the name of the one tool it must call."""
    choice = agent.generate_config.get("tool_choice")
    if isinstance(choice, dict):
        return str(choice.get("name", ""))
    return choice if isinstance(choice, str) else ""


def must_hand_over(agent: Agent) -> bool:
    """Whether it must hand over: the one tool that it must call is the transfer."""
    choice = tool_choice(agent)
    return choice == "transfer_to_agent" or (
        choice in ("any", "required") and not agent.tools and not agent.tool_sources
    )


def world_before(agent: Agent, world: World) -> World:
    """The world in which the agent is asked: captures and `before_agent` callbacks ran already."""
    early = {
        one.key: isinstance(one, Capture)
        for one in agent.policy.writings
        if isinstance(one, Capture | Extract | Distill)
    }
    for key, writer, shape in writes_of(agent):
        captured = key in early and writer.origin.name == "context"
        if captured or writer.origin.name == "before_agent":
            is_message = captured and early[key]
            world = world.with_write(key, writer, shape, is_message=is_message)
    first = [uses for name, uses in callbacks_of(agent) if name == "before_agent"]
    world = forget_shapes(apply_removals(world, agent, "before_agent"), first)
    if not all(uses.known for uses in first):
        world = world.with_unknown(f"{agent.name}.before_agent is handed the state")
    return world


def without_answer(agent: Agent, world: World, done: World) -> World:
    """The world after an agent that has handed over, and so stored no answer of its own."""
    key = agent.output_key
    if key is None or key not in done.facts:
        return done
    # what stood under the key before is still there
    fact = world.facts.get(key)
    if fact is not None:
        return done.with_facts({key: fact})
    return replace(done, facts=done.facts.without((key,)))


def world_after(agent: Agent, world: World) -> World:
    """The world once the agent has answered."""
    writings = agent.policy.writings
    for key, writer, shape in writes_of(agent):
        if writer.origin.name != "before_agent":
            is_message = Capture(key) in writings and writer.origin.name == "context"
            world = world.with_write(key, writer, shape, is_message=is_message)
    world = forget_shapes(apply_removals(world, agent, "after_agent"), _code_of(agent))
    reason = why_writes_unknown(agent)
    if reason:
        world = world.with_unknown(reason)
    return world.with_speaker(agent, agent.output_key)


# --- what its tools and callbacks use


def uses_of_tool(tool: Tool) -> StateUses:
    """What a tool does with the state: what it declares, or else what its source shows."""
    if tool.context_parameter is None or tool.function is None:
        known = tool.context_parameter is None or bool(tool.writes)
        return StateUses(
            tool.reads, writes=tool.writes, reads_all=known, known=known, escalates=not known
        )
    uses = uses_of(tool.function, tool.context_parameter)
    named = tool.reads or uses.reads
    reads = tuple(key for key in named if key not in uses.asks)
    # what the author declares counts for more than what the source shows
    if tool.writes:
        ends = uses.known and uses.escalates
        uses = uses._replace(writes=tool.writes, reads_all=True, known=True, escalates=ends)
    return uses._replace(reads=reads)


@cache_tuple
def callbacks_of(agent: Agent) -> Iterator[tuple[str, StateUses]]:
    """The callbacks of an agent, each with its field and what it does with the state."""
    for name in CALLBACKS:
        chain = cast("object", getattr(agent, name))
        yield from ((name, uses_of(one)) for one in functions_in(chain))


def functions_in(chain: object) -> list[Callable[..., object]]:
    """The functions in a field that holds one, several or none."""
    several = cast("tuple[object, ...]", chain if isinstance(chain, tuple) else (chain,))
    return [one for one in several if callable(one)]


class FlowCallbacks:
    """What the callbacks of a flow or a custom agent do with the state, at one moment."""

    __slots__ = ("_node", "moment", "uses")

    def __init__(self, node: Node, moment: str) -> None:
        self._node = node
        self.moment = moment
        chain = node.before_agent if moment == "before_agent" else node.after_agent
        self.uses = [uses_of(one) for one in functions_in(chain)]

    def reads(self) -> Iterator[Read]:
        """The keys that they read; any of them may be absent."""
        origin = Origin("field", self.moment, self._node.name)
        for uses in self.uses:
            yield from _reads_by_code(uses, origin, "callback")

    def after(self, world: World) -> World:
        """The world after them."""
        writer = callback_writer(self._node, self.moment)
        for uses in self.uses:
            for key in uses.writes:
                world = world.with_write(key, writer, None)
            world = world.without_keys(uses.drops, writer)
        world = forget_shapes(world, self.uses)
        if not all(uses.known for uses in self.uses):
            world = world.with_unknown(f"{self._node.name}.{self.moment} is handed the state")
        return world


def flow_callbacks(node: Node) -> list[FlowCallbacks]:
    """The callbacks of a flow or a custom agent; an agent's are read with the agent."""
    if isinstance(node, Agent) or (node.before_agent is None and node.after_agent is None):
        return []
    return [FlowCallbacks(node, moment) for moment in ("before_agent", "after_agent")]


def callback_writer(agent: Node, name: str) -> Writer:
    """The writer that a callback is."""
    return Writer(f"{agent.name}.{name}", Origin("field", name, agent.name), "callback")


def apply_removals(world: World, agent: Agent, *callbacks: str) -> World:
    """The world after these callbacks removed keys."""
    for name, uses in callbacks_of(agent):
        if name in callbacks:
            world = world.without_keys(uses.drops, callback_writer(agent, name))
    return world


def forget_shapes(world: World, uses: Iterable[StateUses | Keys]) -> World:
    """The world after code may have changed values in place: their shapes are unknown then."""
    facts = {
        key: fact._replace(schema=None)
        for one in uses
        for key in one.touches
        if (fact := world.facts.get(key)) is not None and fact.schema is not None
    }
    return world.with_facts(facts)


# --- who writes which key

WritersByKey = dict[str, tuple[Writer, ...]]


class Writes:
    """Which keys each node of a flow writes, worked out once; with or without what fills gaps."""

    def __init__(self, *, fills: bool = True) -> None:
        self._known: dict[int, WritersByKey] = {}
        self._pairs = _WritePairs(self, fills=fills)

    def of(self, node: Node) -> WritersByKey:
        """The keys that the node or anything below it writes, and who does."""
        known = self._known.get(id(node))
        if known is not None:
            return known
        writers: dict[str, dict[Writer, None]] = {}
        for key, writer in self._pairs.visit(node):
            writers.setdefault(key, {})[writer] = None
        known = self._known[id(node)] = {key: tuple(names) for key, names in writers.items()}
        return known


_Pairs: TypeAlias = Iterator[tuple[str, Writer]]


class _WritePairs(DefaultVisitor[_Pairs]):
    """The keys that a node writes, each with who does; most nodes only have children that write."""

    __slots__ = ("_fills", "_writes")

    def __init__(self, writes: Writes, *, fills: bool) -> None:
        self._writes = writes
        self._fills = fills

    def visit_other(self, node: Node) -> _Pairs:
        for callbacks in flow_callbacks(node):
            writer = callback_writer(node, callbacks.moment)
            yield from ((key, writer) for uses in callbacks.uses for key in uses.writes)
        yield from self._of_all(children(node))

    def visit_custom_agent(self, node: CustomAgent) -> _Pairs:
        writer = custom_writer(node)
        yield from ((key, writer) for key in custom_writes(node) or ())
        yield from self.visit_other(node)

    def visit_agent(self, node: Agent) -> _Pairs:
        for key, writer, _ in writes_of(node):
            yield key, writer
        yield from self._of_all((*node.sub_agents, *agents_called_by(node)))

    def visit_step(self, node: Step) -> _Pairs:
        writer = step_writer(node)
        code = keys_of(node.function)
        keys = node.writes or (*code.writes, *code.maybe)
        # who only fills a gap overwrites nothing
        if self._fills or not node.change.fills:
            yield from ((key, writer) for key in keys)
        yield from ((new, writer) for _, new in node.change.renames)
        yield from ((key, writer) for key in node.captures if key not in keys)

    def visit_gate(self, node: Gate) -> _Pairs:
        yield node.key, Writer(node.name, Origin("field", "key", node.name), "gate")

    def visit_map(self, node: Map) -> _Pairs:
        yield node.into, Writer(node.name, Origin("field", "into", node.name), "map")
        for key, writer in self._of_all((node.body,)):
            # what else is written inside a map stays in the branch of its element
            if scope_of(key) in ("app", "user"):
                yield key, writer

    def _of_all(self, nodes: Iterable[Node]) -> _Pairs:
        for node in nodes:
            for key, writers in self._writes.of(node).items():
                yield from ((key, writer) for writer in writers)


def agents_called_by(agent: Agent) -> list[Node]:
    """The agents and flows that are tools of an agent."""
    return [tool.agent for tool in agent.tools if tool.agent is not None]


def custom_writes(node: CustomAgent) -> frozenset[str] | None:
    """The keys that a custom agent writes: those it declares, or else those its source shows.

    None where that cannot be seen.
    """
    return frozenset(node.writes) if node.declares_writes else keys_said_by(type(node).run)


def custom_writer(node: CustomAgent) -> Writer:
    """The writer that the code of a custom agent is."""
    return Writer(node.name, Origin("field", "writes", node.name), "tool")


def step_writer(node: Step) -> Writer:
    """The writer that a step is."""
    origin = Origin("field", "function", node.name)
    if node.change is OWN_CODE:
        return Writer(node.name, origin, "step")
    return Writer(node.name, origin, "transform", str(node.change))


class _MayWriteAnything(DefaultVisitor[bool]):
    """Whether code runs in a node that does not say what it writes."""

    __slots__ = ()

    def visit_other(self, node: Node) -> bool:
        unknown = (not uses.known for one in flow_callbacks(node) for uses in one.uses)
        return any(unknown) or any(map(self.visit, children(node)))

    def visit_custom_agent(self, node: CustomAgent) -> bool:
        return custom_writes(node) is None or self.visit_other(node)

    def visit_agent(self, node: Agent) -> bool:
        agents = agents_of(node)
        called = (flow for agent in agents for flow in agents_called_by(agent))
        return any(map(why_writes_unknown, agents)) or any(map(self.visit, called))

    def visit_step(self, node: Step) -> bool:
        return not node.writes and not keys_of(node.function).writes_all


may_write_anything = _MayWriteAnything().visit


def labels_by_key(agents: Iterable[Agent]) -> dict[str, frozenset[str]]:
    """By key: the labels that any policy or tool of these agents puts on it."""
    labels: dict[str, set[str]] = {}
    for agent in agents:
        for one in labels_in(agent.policy):
            for key in one.keys:
                labels.setdefault(key, set()).add(one.name)
        for tool in agent.tools:
            for key in uses_of_tool(tool).writes if tool.labels else ():
                labels.setdefault(key, set()).update(tool.labels)
    return {key: frozenset(names) for key, names in labels.items()}


# --- what routes, gates and conditions read


def route_reads(node: Route) -> Iterable[Read]:
    """The key that a route decides by; where all its cases ask functions, nobody looks it up."""
    if isinstance(node.key, str):
        # the key is asked for, and each case asks a function instead
        unused = bool(node.cases) and all(case.op == "when" for case in node.cases)
        for read in key_reads(node.key, Origin("field", "key", node.name), "route"):
            yield read._replace(optional=node.default is not None, guarded=unused)


def key_reads(key: str, origin: Origin, how: ReadHow) -> Iterable[Read]:
    """The read of a key, or of a path into its value, as in a template."""
    for variable in template.parse(f"{{{key}}}").variables:
        yield Read(variable.key, origin, variable.path, how=how)


def keys_of_case(node: Route, case: Case) -> frozenset[str]:
    """The keys that are there wherever a case of a route holds."""
    if case.predicate is not None:
        return keys_of(case.predicate).proves
    return frozenset(read.key for read in route_reads(node))


def gate_reads(node: Gate) -> Iterable[Read]:
    """What a gate's question shows."""
    for one in template.parse(node.question).variables:
        if not one.artifact:
            place = Origin("field", "question", node.name, one.start, one.end)
            typed = node.question[one.start : one.end]
            yield Read(one.key, place, one.path, one.optional, typed=typed)


class _OutputShape(DefaultVisitor[JsonObject]):
    """What a map collects: texts, or values of the schema of the agent that speaks last."""

    __slots__ = ()

    def visit_other(self, node: Node) -> JsonObject:
        return {"type": "array"}

    def visit_sequence(self, node: Sequence) -> JsonObject:
        return self.visit(node.steps[-1])

    def visit_timeout(self, node: Timeout) -> JsonObject:
        return self.visit(node.body)

    def visit_agent(self, node: Agent) -> JsonObject:
        if node.sub_agents:  # any of them may be the last to speak
            return {"type": "array"}
        if node.output_schema is None:
            return {"type": "array", "items": TEXT}
        where = f"{node.name}.output_schema"
        return {"type": "array", "items": schema.of_type(node.output_schema, where=where)}


output_shape = _OutputShape().visit


def is_covered(node: Route, world: World) -> bool:
    """Whether the cases name every value that the key can have."""
    if not isinstance(node.key, str):
        return False
    for read in key_reads(node.key, Origin("field"), "route"):
        fact = world.facts.get(read.key)
        if fact is None or not fact.must or may_lack(fact.schema, read.path):
            return False
        shape, _ = follow(fact.schema, read.path)
        named = [case.value for case in node.cases if case.op == "eq"]
        values = values_of(shape)
        return bool(values) and all(any(same(v, other) for other in named) for v in values or ())
    return False


def function_reads(function: Callable[..., object], origin: Origin, how: ReadHow) -> list[Read]:
    """What a function of the state reads, each with how sure that is."""
    keys = keys_of(function)
    reads = [Read(key, origin, how=how) for key in sorted(keys.reads)]
    reads += [Read(key, origin, how=how, guarded=True) for key in sorted(keys.guarded)]
    reads += [Read(key, origin, optional=True, how=how) for key in sorted(keys.optional)]
    reads += [
        Read(key, origin, path, optional=True, how=how) for key, path in sorted(keys.paths, key=str)
    ]
    compared: dict[tuple[str, tuple[str | int, ...]], list[KeyComparison]] = {}
    for one in sorted(keys.compared, key=str):
        compared.setdefault((one.key, one.path), []).append(one)
    return [
        read._replace(
            number=(read.key, read.path) in keys.numbers,
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
        asked = function_reads(predicate, place, "predicate")
        # a nested condition is asked only where the outer one holds
        reads += asked if sure else [read._replace(optional=True) for read in asked]
    return reads, complete


# --- whose words an agent hears


class Visibility:
    """Which agents' words were seen so far; readers with one view do not look at them again."""

    def __init__(self) -> None:
        self._seen: dict[tuple[str, ...], tuple[Chart[str | None], set[str]]] = {}
        """By view: who had spoken at the last question, and readers that no other has seen yet."""

    def newly_visible_to(self, reader: Agent, speakers: Chart[str | None]) -> set[str]:
        """Whose words this reader is the first to see, among readers with its view."""
        view = view_of(reader)
        before, own = self._seen.get(view, (Chart(), set[str]()))
        new = {name for name, key in speakers.since(before) if sees_text_of(reader, name, key)}
        new |= {name for name in own if name in speakers}
        self._seen[view] = speakers, (own - new) | (new & {reader.name})
        return new - {reader.name}


def sees_text_of(reader: Agent, speaker: str, key: str | None) -> bool:
    """Whether the reader's policy shows the words of an agent before it.

    An agent that stores its words under a `key`, and is followed, speaks data.
    """
    return any(_lets_through(stage.selector, speaker, key) for stage in reader.policy.stages)


@once_per_agent
def view_of(reader: Agent) -> tuple[str, ...]:
    """A key for the reader's view: readers with equal keys see the words of the same agents."""
    return tuple(repr(stage.selector) for stage in reader.policy.stages)


def speakers_visible_to(reader: Agent, world: World) -> set[str]:
    """Whose words the reader's policy shows, of all who have spoken."""
    if reader.context is None:
        return {name for name, key in world.spoken.pairs() if key is None and name != reader.name}
    return {
        name
        for name, key in world.spoken.pairs()
        if name != reader.name and sees_text_of(reader, name, key)
    }


def _lets_through(selector: Selector, speaker: str, key: str | None) -> bool:
    match selector:
        case Everything():
            return selector.data or key is None
        case ThisTurn() | Nothing() | UserWords() | StateKeys() | Notes() | Memories():
            return False
        case FromAgents():
            return speaker in selector.names
        case WithoutAgents():
            return speaker not in selector.names
        case Matching():
            fits = not selector.author or speaker in selector.author
            return fits and (not selector.kind or "foreign" in selector.kind)
        case _:
            return True
