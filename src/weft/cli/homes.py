"""Where an agent is at home: the tree it is asked in, wherever in a flow that stands."""

from collections.abc import Iterator

from weft.cli.stored import nearest
from weft.declare import Agent, Flow, Node, tree
from weft.declare.inherit import inherit
from weft.errors import UsageError


def homes_of(root: Node) -> dict[str, Agent]:
    """Every agent by name with the root of its tree: in flows, below agents, behind tools.

    What stands below an agent has its model where it names none, as when it runs.
    """
    found: dict[str, Agent] = {}
    waiting: list[Node] = [root]
    while waiting:
        node = waiting.pop()
        if isinstance(node, Agent):
            waiting.extend(reversed(list(_below(node, found))))
        else:
            waiting.extend(reversed(node.children))
    return found


def _below(root: Agent, found: dict[str, Agent]) -> Iterator[Node]:
    """Note the agents of a tree; gives the flows in it, and what its tools run."""
    models: dict[str, object] = {}
    for member, parent in tree.walk(root):
        above = models.get(parent.name) if parent is not None else None
        if not isinstance(member, Agent):
            yield inherit(member, above)
            continue
        models[member.name] = member.model if member.model is not None else above
        if found.setdefault(member.name, root) is root:
            for tool in member.tools:
                if isinstance(tool.agent, Agent | Flow):
                    yield inherit(tool.agent, models[member.name])


def home_of(root: Node, name: str | None, *, where: str) -> tuple[Agent, str | None]:
    """The tree an agent is asked in, and its name there; a flow of several wants a name."""
    if name is None and isinstance(root, Agent):
        return root, None
    homes = homes_of(root)
    if name is None:
        if len(homes) == 1:
            return next(iter(homes.values())), None
        raise UsageError(
            "this is a flow, and each of its agents has a request of its own",
            where=where,
            hint=f"add --agent NAME: {', '.join(homes)}" if homes else "there is no agent in it",
        )
    if name not in homes:
        if isinstance(root, Agent):
            return root, name  # the compiler says what the tree has
        raise UsageError(
            f"there is no agent `{name}` in this flow",
            where=where,
            hint=nearest("agents", name, list(homes)),
        )
    return homes[name], name
