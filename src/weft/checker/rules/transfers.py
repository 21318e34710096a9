"""Rules on transfers: agents that nobody can hand over to, and agents that only hand over."""

from collections.abc import Iterator

from weft.checker.agents import tool_choice
from weft.checker.sites import Record
from weft.codes import report
from weft.declare import Agent, tree
from weft.diagnostics import Diagnostic, Origin


def unreachable(record: Record) -> Iterator[Diagnostic]:
    """Sub-agents of an agent that may not call the tool that hands over."""
    bound = [agent for agent in _agents(record) if agent.sub_agents and tool_choice(agent)]
    if not bound:
        return
    from weft.compiler.transfer import TRANSFER

    for agent in bound:
        if tool_choice(agent) not in ("auto", "any", "required", TRANSFER):
            names = ", ".join(f"`{child.name}`" for child in agent.sub_agents)
            yield report(
                "WEFT406",
                Origin("field", "sub_agents", agent.name),
                f"nobody can hand over to {names}: tool_choice keeps `{agent.name}` from calling"
                f" {TRANSFER}",
                "leave tool_choice out, or leave out the sub-agents",
            )


def endless_transfer(record: Record) -> Iterator[Diagnostic]:
    """Agents that must hand over, to agents that must do so too."""
    agents = [*_agents(record)]
    if not any(map(tool_choice, agents)):
        return
    from weft.compiler.transfer import TRANSFER, transfer_targets

    for root in agents:
        for node, _ in tree.walk(root):
            if not isinstance(node, Agent) or tool_choice(node) != TRANSFER:
                continue
            path = tuple(one for one in tree.find(root, node.name) if isinstance(one, Agent))
            targets = transfer_targets(path)
            forced = [
                one for one in targets if isinstance(one, Agent) and tool_choice(one) == TRANSFER
            ]
            if targets and len(forced) == len(targets):
                names = ", ".join(f"`{one.name}`" for one in forced)
                yield report(
                    "WEFT407",
                    Origin("field", "generate_config", node.name),
                    f"`{node.name}` can only hand over, and so can all it hands over to: {names}",
                    "let one of them answer: leave tool_choice out",
                )


def _agents(record: Record) -> Iterator[Agent]:
    seen: set[int] = set()
    for site in record.sites:
        if isinstance(site.node, Agent) and id(site.node) not in seen:
            seen.add(id(site.node))
            yield site.node
