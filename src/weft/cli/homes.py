"""Where an agent is at home: the tree it is asked in, wherever in a flow that stands."""

from weft.cli.stored import nearest
from weft.declare import Agent, Flow, Node, tree
from weft.errors import UsageError


def homes_of(root: Node) -> dict[str, Agent]:
    """Every agent by name with the root of its tree: in flows, below agents, behind tools."""
    found: dict[str, Agent] = {}
    waiting: list[Node] = [root]
    seen: set[int] = set()
    while waiting:
        node = waiting.pop()
        if id(node) in seen:
            continue
        seen.add(id(node))
        if not isinstance(node, Agent):
            waiting.extend(reversed(node.children))
            continue
        behind: list[Node] = []
        for member, _ in tree.walk(node):
            if isinstance(member, Agent):
                found.setdefault(member.name, node)
                behind.extend(t.agent for t in member.tools if isinstance(t.agent, Agent | Flow))
            else:
                behind.extend(member.children)
        waiting.extend(reversed(behind))
    return found


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
