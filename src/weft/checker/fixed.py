"""What is sent in any case: an agent's texts and tools, before values and conversation."""

from weft import schema
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


def sent_parts(agent: Agent, root: Agent) -> list[tuple[Origin, str]]:
    """The same, with the root's text for all, the schema, and whom it may hand over to."""
    parts = fixed_parts(agent)
    if agent is not root and isinstance(root.global_instruction, str):
        parts = [one for one in parts if one[0].name != "global_instruction"]
        parts.append((Origin("field", "global_instruction", root.name), root.global_instruction))
    if agent.output_schema is not None:
        shape = schema.of_type(agent.output_schema, where=f"{agent.name}.output_schema")
        parts.append((Origin("field", "output_schema", agent.name), compact(shape)))
    if agent.sub_agents:
        text = " ".join(f"{child.name}: {child.description}" for child in agent.sub_agents)
        parts.append((Origin("field", "sub_agents", agent.name), text))
    return parts


def count(agent: Agent, text: str) -> int:
    """The tokens of a text for the agent's model, or for a usual one."""
    return counter_for(agent.model if isinstance(agent.model, str) else "").count(text)
