"""What an agent is: frozen data, no I/O."""

from weft.declare.agent import Agent, Callback, Instruction, Raw
from weft.declare.config import RunConfig
from weft.declare.context import ToolContext
from weft.declare.policy import C, Policy, TokenBudget
from weft.declare.tool import Tool, Toolset, tool

__all__ = [
    "Agent",
    "C",
    "Callback",
    "Instruction",
    "Policy",
    "Raw",
    "RunConfig",
    "TokenBudget",
    "Tool",
    "ToolContext",
    "Toolset",
    "tool",
]
