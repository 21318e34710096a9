"""The world before anything ran: what the application gives, and what the program declares.

An input that is declared inside a flow need not be given where a step before it writes the key;
so the flow is walked once to find out which of them must be there at the start.
"""

from collections.abc import Iterable, Iterator, Mapping
from typing import cast

from weft.checker.walk import APPLICATION, Walk, take
from weft.checker.world import World, Writer
from weft.declare import Agent, Node
from weft.declare.compose import Composable
from weft.declare.inputs import ANYTHING, shape_of
from weft.diagnostics import Origin
from weft.errors import UsageError


def world_at_start(node: Node, inputs: Mapping[str, object] | Iterable[str] | None) -> World:
    """The world that a program starts in: what is given now, and what it declares."""
    world = _given(inputs)
    return with_declared(world, declared_inputs(node, world))


def with_declared(world: World, inputs: Mapping[str, object]) -> World:
    """The world where these inputs are there too."""
    for key, declared in inputs.items():
        world = take(world, key, declared, Origin("field", "inputs"))
    return world


def declared_inputs(node: Node, world: World | None = None) -> dict[str, object]:
    """The inputs that must be there when the program starts, by key, with their types."""
    if not any(one.inputs for one in _everything(node)):
        return {}
    walk = Walk(node)
    walk.run(world if world is not None else World())
    return walk.record.inputs


def _everything(root: Node) -> Iterator[Node]:
    """Every node once: of flows, of agents' trees, and of what is called as a tool."""
    waiting, seen = [root], set[int]()
    while waiting:
        node = waiting.pop()
        if id(node) in seen:
            continue
        seen.add(id(node))
        yield node
        if isinstance(node, Agent):
            called = [tool.agent for tool in node.tools if isinstance(tool.agent, Composable)]
            waiting += [*node.sub_agents, *cast("list[Node]", called)]
        else:
            waiting += node.children


def _given(inputs: Mapping[str, object] | Iterable[str] | None) -> World:
    """The world with what whoever checks says is in the state."""
    world = World()
    named = cast("object", inputs)
    if named is None:
        return world
    if isinstance(named, str) or not isinstance(named, Iterable):
        raise UsageError(
            f"inputs={named!r} names no keys", where="check", hint='write inputs={"topic": str}'
        )
    types: Mapping[str, object] = {}
    if isinstance(named, Mapping):
        types = cast("Mapping[str, object]", named)
    for key in cast("Iterable[str]", named):
        writer = Writer(APPLICATION, Origin("config", key), "input")
        declared = types.get(key)
        shape = None if declared in ANYTHING else shape_of(declared, where=f"inputs.{key}")
        world = world.wrote(key, writer, shape)
    return world
