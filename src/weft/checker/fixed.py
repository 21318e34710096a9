"""What is sent in any case: an agent's texts and tools, before values and conversation."""

from weft.declare import Agent
from weft.diagnostics import Origin
from weft.tokens import counter_for
from weft.values import compact


def fixed_parts(agent: Agent) -> list[tuple[Origin, str]]:
    """Each part with its place."""
    fields = (
        ("instruction", agent.instruction),
        ("global_instruction", agent.global_instruction),
        ("description", agent.description),
    )
    parts = [
        (Origin("field", name, agent.name), text)
        for name, text in fields
        if isinstance(text, str) and text
    ]
    for tool in agent.tools:
        text = f"{tool.name} {tool.description} {compact(tool.parameters)}"
        parts.append((Origin("tool", tool.name, agent.name), text))
    return parts


def count(agent: Agent, text: str) -> int:
    """The tokens of a text for the agent's model, or for a usual one."""
    return counter_for(agent.model if isinstance(agent.model, str) else "").count(text)
