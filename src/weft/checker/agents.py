"""What an agent reads and writes, by its declaration alone."""

from collections.abc import Iterator
from typing import NamedTuple

from weft import schema
from weft.checker.sites import Read
from weft.checker.world import World, Writer
from weft.declare import Agent, Policy, Tool, template
from weft.declare.checks import CALLBACKS
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


def reads_of(agent: Agent, root: Agent | None = None) -> Iterator[Read]:
    """The keys its templates, its policy and its tools name, with their places."""
    fields = [("instruction", agent, agent.instruction)]
    if root is not None and root.global_instruction is not None:
        fields.insert(0, ("global_instruction", root, root.global_instruction))
    lenient = agent.on_missing == "empty"
    for name, owner, text in fields:
        if not isinstance(text, str):
            continue
        for variable in template.parse(text).variables:
            if variable.artifact:
                continue
            origin = Origin("field", name, owner.name, variable.start, variable.end)
            optional = variable.optional or lenient
            yield Read(variable.key, origin, variable.path, optional)
    yield from _policy_reads(agent.policy, Origin("field", "context", agent.name))
    for tool in agent.tools:
        origin = Origin("tool", tool.name, agent.name)
        yield from (Read(key, origin, optional=True, how="tool") for key in tool.reads)


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


def writes_of(agent: Agent) -> Iterator[Written]:
    """The keys that running it writes: its answer, what its policy notes, what tools declare."""
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
        writer = Writer(tool.name, Origin("tool", tool.name, agent.name), "tool")
        for key in tool.writes:
            yield Written(key, writer, None)
    if agent.output_key is not None:
        writer = Writer(agent.name, Origin("field", "output_key", agent.name), "agent")
        shape = TEXT
        if agent.output_schema is not None:
            shape = schema.of_type(agent.output_schema, where=f"{agent.name}.output_schema")
        yield Written(agent.output_key, writer, shape)


def blurs(agent: Agent) -> str:
    """Why it may write any key: code that is handed the state and does not say what it writes."""
    for tool in agent.tools:
        if _is_opaque(tool):
            return f"the tool {tool.name} is handed the state"
    for name in CALLBACKS:
        if getattr(agent, name) not in (None, "raise", "result"):
            return f"{agent.name}.{name} is handed the state"
    return ""


def may_read_anything(agent: Agent) -> bool:
    """Whether code that reads the state itself runs with the agent."""
    opaque = not isinstance(agent.instruction, str) or bool(blurs(agent))
    return opaque or any(tool.agent is not None for tool in agent.tools)


def _is_opaque(tool: Tool) -> bool:
    return tool.context_parameter is not None and not tool.writes


def sees_text_of(reader: Agent, speaker: str, key: str | None) -> bool:
    """Whether the reader's policy lets the words of an agent before it through.

    One that stores its words under a key, and is followed, speaks data.
    """
    return any(_lets_through(stage.selector, speaker, key) for stage in reader.policy.stages)


def heard_by(reader: Agent, world: World) -> set[str]:
    """Whose words the reader's policy lets through, of all who have spoken."""
    if reader.context is None:
        return {name for name, key in world.said.items() if key is None and name != reader.name}
    return {
        name
        for name, key in world.said.items()
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
    """The world that the agent itself finds: what its policy captures is there already."""
    early = {
        one.key for one in agent.policy.writings if isinstance(one, Capture | Extract | Distill)
    }
    for key, writer, shape in writes_of(agent):
        if key in early and writer.origin.name == "context":
            world = world.wrote(key, writer, shape)
    if agent.before_agent is not None:
        world = world.blurred(f"{agent.name}.before_agent is handed the state")
    return world


def after(agent: Agent, world: World) -> World:
    """The world once the agent has answered."""
    for key, writer, shape in writes_of(agent):
        world = world.wrote(key, writer, shape)
    reason = blurs(agent)
    if reason:
        world = world.blurred(reason)
    return world.spoke(agent, agent.output_key)
