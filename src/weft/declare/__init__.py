"""What an agent or a flow is: frozen data, no I/O."""

from weft.declare.agent import Agent, Callback, Instruction, Raw
from weft.declare.config import RunConfig
from weft.declare.context import CallbackContext, Memory, ToolContext
from weft.declare.flow import Fallback, Flow, Loop, Node, Parallel, Sequence, Until, until
from weft.declare.functions import StateFunction
from weft.declare.policy import C, Policy, TokenBudget
from weft.declare.route import Case, Route
from weft.declare.step import Step
from weft.declare.tool import Effect, Tool, Toolset, tool
from weft.declare.walk import agents_of, walk_nodes

__all__ = [
    "Agent",
    "C",
    "Callback",
    "CallbackContext",
    "Case",
    "Effect",
    "Fallback",
    "Flow",
    "Instruction",
    "Loop",
    "Memory",
    "Node",
    "Parallel",
    "Policy",
    "Raw",
    "Route",
    "RunConfig",
    "Sequence",
    "StateFunction",
    "Step",
    "TokenBudget",
    "Tool",
    "ToolContext",
    "Toolset",
    "Until",
    "agents_of",
    "tool",
    "until",
    "walk_nodes",
]
