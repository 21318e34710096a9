"""Rules on declarations: missing descriptions, and instructions that are never sent."""

from collections.abc import Iterator

from weft.checker.world import WalkRecord
from weft.codes import report
from weft.declare import Agent, Node
from weft.declare.compose import Composable
from weft.diagnostics import Diagnostic, Origin


def undescribed(record: WalkRecord) -> Iterator[Diagnostic]:
    """A tool, or an agent that a model is to choose, of which nothing is known but its name."""
    for agent in record.agents:
        for child in agent.sub_agents:
            if not child.description.strip():
                yield _undescribed(child, f"`{agent.name}` may hand over to it")
        for tool in agent.tools:
            if isinstance(tool.agent, Composable):
                if not tool.description.strip():
                    yield _undescribed(tool.agent, f"`{agent.name}` may call it")
            elif not tool.documented:
                yield report(
                    "WEFT301",
                    Origin("tool", tool.name, agent.name),
                    "the tool has no description, so the model has only its name to decide by",
                    "give the function a docstring, or @tool(description=...)",
                )


def _undescribed(node: Node, why: str) -> Diagnostic:
    return report(
        "WEFT302",
        Origin("field", "description", node.name),
        f"`{node.name}` has no description, and {why}: the model has only its name to decide by",
        f'say what it is for: description="..."{" or .describe(...)" * isinstance(node, Agent)}',
    )


def unsent_global(record: WalkRecord) -> Iterator[Diagnostic]:
    """A `global_instruction` of an agent that is no root: it is sent to nobody."""
    for root, agents in record.trees:
        for agent in agents:
            if agent is not root and agent.global_instruction is not None:
                yield report(
                    "WEFT103",
                    Origin("field", "global_instruction", agent.name),
                    "only the root's global_instruction is sent",
                    "move it to the root, or into this agent's instruction",
                )
