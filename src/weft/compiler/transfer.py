"""Transfer: whom an agent may hand over to. One list feeds the tool, the text and the check."""

from weft.declare import Agent, Node
from weft.diagnostics import Origin
from weft.ir import ToolDecl

TRANSFER = "transfer_to_agent"
_GUIDANCE = "You can delegate tasks to the following agents using the transfer_to_agent tool:"


def transfer_targets(path: tuple[Agent, ...]) -> tuple[Node, ...]:
    """Children, the parent, then peers, as far as the agent allows; `path` starts at the root."""
    agent = path[-1]
    targets: list[Node] = list(agent.sub_agents)
    if len(path) > 1:
        parent = path[-2]
        if not agent.disallow_transfer_to_parent:
            targets.append(parent)
        if not agent.disallow_transfer_to_peers:
            targets += [peer for peer in parent.sub_agents if peer.name != agent.name]
    return tuple(targets)


def transfer_text(targets: tuple[Node, ...]) -> str:
    """One line of guidance and one line a target."""
    if not targets:
        return ""
    return "\n".join((_GUIDANCE, *map(_line, targets)))


def _line(target: Node) -> str:
    """The target in one line, however its description is broken."""
    about = " ".join(target.description.split())
    return f"- {target.name}: {about}" if about else f"- {target.name}"


def transfer_tool(agent: Agent, targets: tuple[Node, ...]) -> ToolDecl:
    """The one tool, its argument an enum in stable order."""
    return ToolDecl(
        name=TRANSFER,
        description="Hand the conversation over to another agent.",
        parameters={
            "type": "object",
            "properties": {
                "agent_name": {
                    "type": "string",
                    "enum": [target.name for target in targets],
                    "description": "Name of the agent to hand over to.",
                }
            },
            "required": ["agent_name"],
        },
        origin=Origin("field", "sub_agents", agent.name),
    )
