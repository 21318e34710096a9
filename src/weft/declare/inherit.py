"""A node that stands below an agent without being in its tree, with the agent's model."""

from dataclasses import replace

from weft.declare.flow import Node
from weft.declare.rebuild import rebuilt


def inherit(node: Node, model: object) -> Node:
    """The node with `model` for every agent in it that names none; the same if all name one."""
    return rebuilt(
        node, lambda agent: agent if agent.model is not None else replace(agent, model=model)
    )
