"""The tree of agents: unique names, one parent each, nothing below itself."""

from collections.abc import Iterator
from typing import Protocol, TypeVar

from weft.errors import DeclarationError


class Node(Protocol):
    """What the tree needs to know of an agent."""

    @property
    def name(self) -> str:
        """Its name."""
        ...

    @property
    def sub_agents(self) -> "tuple[Node, ...]":
        """Its children."""
        ...


Kind = TypeVar("Kind", bound=Node)


def walk(root: Kind) -> Iterator[tuple[Kind, Kind | None]]:
    """Every agent of the tree with its parent, parents first, in declared order."""
    waiting: list[tuple[Kind, Kind | None]] = [(root, None)]
    while waiting:
        agent, parent = waiting.pop()
        yield agent, parent
        waiting.extend((child, agent) for child in reversed(agent.sub_agents))  # type: ignore[misc]


def find(root: Kind, name: str) -> tuple[Kind, ...]:
    """The path from the root to the agent of that name, or ()."""
    parents: dict[str, Kind | None] = {}
    for agent, parent in walk(root):
        parents[agent.name] = parent
        if agent.name == name:
            path = [agent]
            while (up := parents[path[-1].name]) is not None:
                path.append(up)
            return tuple(reversed(path))
    return ()


def check(root: Node) -> None:
    """Refuse a cycle, an agent with two parents, and two agents of one name."""
    seen: dict[str, tuple[Node, Node | None]] = {}
    for agent, parent in walk(root):
        if agent.name in seen:
            held, first = seen[agent.name]
            where = f"{parent.name if parent is not None else root.name}.sub_agents"
            if agent.name == root.name:
                raise DeclarationError(
                    f"`{agent.name}` would be its own sub-agent",
                    where=where,
                    hint="leave it out: children reach their parent by transfer anyway",
                )
            if held is agent and first is parent:
                raise DeclarationError(
                    f"`{agent.name}` is listed twice", where=where, hint="list it once"
                )
            if held is agent:
                raise DeclarationError(
                    f"`{agent.name}` has two parents,"
                    f" `{first.name if first is not None else root.name}` and"
                    f" `{parent.name if parent is not None else root.name}`",
                    where=where,
                    hint="give each parent a copy under its own name:"
                    f' dataclasses.replace({agent.name}, name="{agent.name}_2")',
                )
            raise DeclarationError(
                f"two agents are named `{agent.name}`",
                where=where,
                hint="names are unique in a tree: rename one",
            )
        seen[agent.name] = (agent, parent)
