"""The tree of agents: unique names, one parent each, nothing below itself.

A flow may be a sub-agent: a leaf of the tree, whatever it is made of.
"""

from collections.abc import Iterator
from typing import TYPE_CHECKING

from weft.errors import DeclarationError

if TYPE_CHECKING:
    from weft.declare.flow import Node


def walk(root: "Node") -> "Iterator[tuple[Node, Node | None]]":
    """Every agent and flow of the tree with its parent, parents first, in declared order."""
    from weft.declare.agent import Agent

    waiting: list[tuple[Node, Node | None]] = [(root, None)]
    while waiting:
        agent, parent = waiting.pop()
        yield agent, parent
        if isinstance(agent, Agent):  # what a custom agent runs, nobody can hand over to
            waiting.extend((child, agent) for child in reversed(agent.sub_agents))


def find(root: "Node", name: str) -> "tuple[Node, ...]":
    """The path from the root to the agent or flow of that name, or (); only its end can be a flow.

    An agent inside a flow is not in the tree: nobody can hand over to it.
    """
    parents: dict[str, Node | None] = {}
    for agent, parent in walk(root):
        parents[agent.name] = parent
        if agent.name == name:
            path = [agent]
            while (up := parents[path[-1].name]) is not None:
                path.append(up)
            return tuple(reversed(path))
    return ()


def check(root: "Node") -> None:
    """Refuse a cycle, an agent with two parents, and two agents of one name."""
    seen: dict[str, tuple[Node, Node | None]] = {}
    for agent, parent in walk(root):
        if agent.name in seen:
            twin, first = seen[agent.name]
            where = f"{parent.name if parent is not None else root.name}.sub_agents"
            if agent.name == root.name:
                raise DeclarationError(
                    f"`{agent.name}` would be its own sub-agent",
                    where=where,
                    hint="leave it out: children reach their parent by transfer anyway",
                )
            if twin is agent and first is parent:
                raise DeclarationError(
                    f"`{agent.name}` is listed twice", where=where, hint="list it once"
                )
            if twin is agent:
                raise DeclarationError(
                    f"`{agent.name}` has two parents,"
                    f" `{first.name if first is not None else root.name}` and"
                    f" `{parent.name if parent is not None else root.name}`",
                    where=where,
                    hint=f"give each parent a copy under its own name: {_renamed(agent)}",
                )
            raise DeclarationError(
                f"two agents are named `{agent.name}`",
                where=where,
                hint=f"names are unique in a tree: rename one: {_renamed(agent)}",
            )
        seen[agent.name] = (agent, parent)


def _renamed(node: "Node") -> str:
    """How a copy under another name is written."""
    from weft.declare.agent import Agent

    if isinstance(node, Agent):
        return f'dataclasses.replace({node.name}, name="{node.name}_2")'
    return f'{type(node).__name__}(..., name="{node.name}_2")'
