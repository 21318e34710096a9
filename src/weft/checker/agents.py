"""What an agent reads and writes, by its declaration alone."""

from collections.abc import Iterator
from dataclasses import replace
from typing import NamedTuple

from weft import schema
from weft.checker.code import callback_writer, callbacks_of, handled, touched, used_by
from weft.checker.contexts import Uses, uses_of
from weft.checker.kept import kept, listed
from weft.checker.sites import Read
from weft.checker.world import World, Writer
from weft.declare import Agent, Policy, template
from weft.declare.functions import StateFunction
from weft.declare.policy.selectors import (
    Everything,
    FromAgents,
    Matching,
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
from weft.declare.policy.transforms import Capture, Distill, Extract, NoteDown
from weft.diagnostics import Origin
from weft.values import JsonObject

TEXT: JsonObject = {"type": "string"}


class Written(NamedTuple):
    """A key that running an agent writes."""

    key: str
    writer: Writer
    schema: JsonObject | None


def reads_of(agent: Agent, root: Agent | None = None) -> tuple[Read, ...]:
    """The keys its templates, its policy and its tools name, with their places."""
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


@listed
def _own_reads(agent: Agent) -> Iterator[Read]:
    yield from _text_reads(agent, agent.instruction, Origin("field", "instruction", agent.name))
    yield from _policy_reads(agent.policy, Origin("field", "context", agent.name))
    for tool in agent.tools:
        origin, uses = Origin("tool", tool.name, agent.name), used_by(tool)
        yield from (Read(key, origin, optional=True, how="tool") for key in uses.reads)
        yield from (Read(key, origin, (), True, "tool", guarded=True) for key in uses.asks)
    for name, uses in callbacks_of(agent):
        origin = Origin("field", name, agent.name)
        yield from (Read(key, origin, optional=True, how="callback") for key in uses.reads)
        yield from (Read(key, origin, (), True, "callback", guarded=True) for key in uses.asks)


def _policy_reads(policy: Policy, place: Origin, *, optional: bool = False) -> Iterator[Read]:
    """The keys a policy shows; one that lacks is left out, so paths do not matter."""
    for stage in policy.stages:
        selector = stage.selector
        match selector:
            case StateKeys():
                for key in selector.keys:
                    yield Read(key, place, optional=optional, how="policy", guarded=True)
            case Notes():
                yield Read(selector.key, place, optional=True, how="policy")
            case Relevant() if selector.from_state is not None:
                yield Read(selector.from_state, place, optional=optional, how="policy")
            case When():
                yield from _policy_reads(selector.policy, place, optional=True)
            case _:
                pass


def conditions_of(policy: Policy) -> Iterator[tuple[StateFunction, bool]]:
    """The predicates in a policy, and whether each is asked for sure: not one inside another."""
    for stage in policy.stages:
        if isinstance(stage.selector, When):
            yield stage.selector.predicate, True
            yield from ((inner, False) for inner, _ in conditions_of(stage.selector.policy))


@listed
def writes_of(agent: Agent) -> Iterator[Written]:
    """The keys that running it writes: its answer, what its policy notes, what its code does."""
    for writing in agent.policy.writings:
        writer = Writer(agent.name, Origin("field", "context", agent.name), "agent")
        match writing:
            case Capture():
                yield Written(writing.key, writer, TEXT)
            case NoteDown() | Distill():
                yield Written(writing.key, writer, None)
            case Extract():
                shape = schema.of_type(writing.schema, where=f"{agent.name}.context")
                yield Written(writing.key, writer, shape)
    for tool in agent.tools:
        place = Origin("tool", tool.name, agent.name)
        writer = Writer(tool.name, place, "tool" if tool.writes else "code")
        for key in used_by(tool).writes:
            yield Written(key, writer, None)
    for name, uses in callbacks_of(agent):
        for key in uses.writes:
            yield Written(key, callback_writer(agent, name), None)
    if agent.output_key is not None:
        writer = Writer(agent.name, Origin("field", "output_key", agent.name), "agent")
        shape = TEXT
        if agent.output_schema is not None:
            shape = schema.of_type(agent.output_schema, where=f"{agent.name}.output_schema")
        yield Written(agent.output_key, writer, shape)


@kept
def blurs(agent: Agent) -> str:
    """Why it may write any key: code that is handed the state and does not say what it writes."""
    for tool in agent.tools:
        if not used_by(tool).known:
            return f"the tool {tool.name} is handed the state"
    for name, uses in callbacks_of(agent):
        if not uses.known:
            return f"{agent.name}.{name} is handed the state"
    return ""


@kept
def may_read_anything(agent: Agent) -> bool:
    """Whether code that reads the state itself runs with the agent."""
    if not isinstance(agent.instruction, str) or any(tool.agent for tool in agent.tools):
        return True
    return not all(uses.reads_all for uses in _code_of(agent))


@kept
def may_escalate(agent: Agent) -> bool:
    """Whether its own code may end the loop it runs in."""
    return any(uses.known and uses.escalates for uses in _code_of(agent))


@kept
def is_tied(agent: Agent) -> bool:
    """Whether its code surely never ends the loop it runs in: it is known, and does not."""
    return not any(uses.escalates for uses in _code_of(agent))


@kept
def _code_of(agent: Agent) -> list[Uses]:
    """What its tools and callbacks do with the state."""
    return [*map(used_by, agent.tools), *(uses for _, uses in callbacks_of(agent))]


def tool_choice(agent: Agent) -> str:
    """What its tool_choice says: a word, or the name of the one tool it must call."""
    choice = agent.generate_config.get("tool_choice")
    if isinstance(choice, dict):
        return str(choice.get("name", ""))
    return choice if isinstance(choice, str) else ""


def must_hand_over(agent: Agent) -> bool:
    """Whether it cannot answer itself: the one tool that it must call is the one to hand over."""
    choice = tool_choice(agent)
    return choice == "transfer_to_agent" or (choice in ("any", "required") and not agent.tools)


def sees_text_of(reader: Agent, speaker: str, key: str | None) -> bool:
    """Whether the reader's policy lets the words of an agent before it through.

    One that stores its words under a key, and is followed, speaks data.
    """
    return any(_lets_through(stage.selector, speaker, key) for stage in reader.policy.stages)


@kept
def view_of(reader: Agent) -> tuple[str, ...]:
    """What decides whose words it sees: the same for readers that see the same."""
    return tuple(repr(stage.selector) for stage in reader.policy.stages)


def heard_by(reader: Agent, world: World) -> set[str]:
    """Whose words the reader's policy lets through, of all who have spoken."""
    if reader.context is None:
        return {name for name, key in world.said.pairs() if key is None and name != reader.name}
    return {
        name
        for name, key in world.said.pairs()
        if name != reader.name and sees_text_of(reader, name, key)
    }


def _lets_through(selector: Selector, speaker: str, key: str | None) -> bool:
    match selector:
        case Everything():
            return selector.data or key is None
        case ThisTurn() | Nothing() | UserWords() | StateKeys() | Notes():
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


def before(agent: Agent, world: World) -> World:
    """The world that the agent itself finds: what is captured and done first is there already."""
    early = {
        one.key for one in agent.policy.writings if isinstance(one, Capture | Extract | Distill)
    }
    for key, writer, shape in writes_of(agent):
        captured = key in early and writer.origin.name == "context"
        if captured or writer.origin.name == "before_agent":
            world = world.wrote(key, writer, shape)
    first = [uses for name, uses in callbacks_of(agent) if name == "before_agent"]
    world = touched(handled(world, agent, "before_agent"), first)
    if not all(uses.known for uses in first):
        world = world.blurred(f"{agent.name}.before_agent is handed the state")
    return world


def without_answer(agent: Agent, world: World, done: World) -> World:
    """The world behind an agent that has handed over, and so has stored no answer of its own."""
    key = agent.output_key
    if key is None or key not in done.facts:
        return done
    held = world.facts.get(key)
    if held is not None:
        return done.holding({key: held})
    return replace(done, facts=done.facts.without((key,)))


def after(agent: Agent, world: World) -> World:
    """The world once the agent has answered."""
    for key, writer, shape in writes_of(agent):
        if writer.origin.name != "before_agent":
            world = world.wrote(key, writer, shape)
    world = touched(handled(world, agent, "after_agent"), _code_of(agent))
    reason = blurs(agent)
    if reason:
        world = world.blurred(reason)
    return world.spoke(agent, agent.output_key)
