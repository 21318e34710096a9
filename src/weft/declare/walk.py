"""The nodes of a flow and the agents in it, in order."""

from collections.abc import Iterator
from typing import TYPE_CHECKING

from weft.declare.agent import Agent
from weft.errors import DeclarationError

if TYPE_CHECKING:
    from weft.declare.flow import Node


def walk_nodes(node: "Node") -> "Iterator[tuple[Node, Node | None]]":
    """Every node with its parent, depth first, a node before its children.

    An agent is a leaf: its sub-agents are reached by transfer, not by the flow.
    """
    waiting: list[tuple[Node, Node | None]] = [(node, None)]
    while waiting:
        current, parent = waiting.pop()
        yield current, parent
        if not isinstance(current, Agent):
            waiting.extend((child, current) for child in reversed(current.children))


def agents_of(node: "Node") -> tuple[Agent, ...]:
    """Every agent once, sub-agents behind their parent, flows opened, in declared order."""
    found: dict[str, Agent] = {}
    for agent in _agents(node):
        found.setdefault(agent.name, agent)
    return tuple(found.values())


def check_agents(node: "Node", *, where: str) -> None:
    """Refuse two different agents of one name; the same agent may stand in several places.

    Events carry the name of the agent that made them, so a name must mean one agent.
    """
    seen: dict[str, Agent] = {}
    for agent in _agents(node):
        held = seen.setdefault(agent.name, agent)
        if held is not agent and held != agent:
            raise DeclarationError(
                f"two different agents are named `{agent.name}`",
                where=where,
                hint=f'rename one: dataclasses.replace({agent.name}, name="{agent.name}_2")',
            )


def _agents(node: "Node") -> Iterator[Agent]:
    """Every agent; what is below it once, however often it is used."""
    waiting: list[Node] = [node]
    seen: set[int] = set()
    while waiting:
        current = waiting.pop()
        if isinstance(current, Agent) and not current.sub_agents:
            yield current
            continue
        if id(current) in seen:
            continue
        seen.add(id(current))
        if isinstance(current, Agent):
            yield current
            waiting.extend(reversed(current.sub_agents))
        else:
            waiting.extend(reversed(current.children))
