"""What an agent or a flow is: frozen data, no I/O."""

from weft.declare.agent import Agent, Callback, Instruction, Raw, agents_of, walk_nodes
from weft.declare.config import RunBudget, RunConfig
from weft.declare.context import (
    CallbackContext,
    MemoryKeeper,
    MemorySearch,
    Recollection,
    ToolContext,
)
from weft.declare.custom import CustomAgent, RunContext
from weft.declare.flow import (
    Fallback,
    Flow,
    Loop,
    Node,
    Parallel,
    Sequence,
    Until,
    While,
    until,
    while_,
)
from weft.declare.functions import StateFunction
from weft.declare.nodes import Expect, Map, Race, Step, Tap, Timeout, expect, race, tap, timeout
from weft.declare.policy import Policy, TokenBudget
from weft.declare.route import Case, Gate, Route
from weft.declare.tool import Effect, Tool, Toolset, tool
from weft.declare.transform import S
from weft.declare.words import C

__all__ = [
    "Agent",
    "C",
    "Callback",
    "CallbackContext",
    "Case",
    "CustomAgent",
    "Effect",
    "Expect",
    "Fallback",
    "Flow",
    "Gate",
    "Instruction",
    "Loop",
    "Map",
    "MemoryKeeper",
    "MemorySearch",
    "Node",
    "Parallel",
    "Policy",
    "Race",
    "Raw",
    "Recollection",
    "Route",
    "RunBudget",
    "RunConfig",
    "RunContext",
    "S",
    "Sequence",
    "StateFunction",
    "Step",
    "Tap",
    "Timeout",
    "TokenBudget",
    "Tool",
    "ToolContext",
    "Toolset",
    "Until",
    "While",
    "agents_of",
    "expect",
    "race",
    "tap",
    "timeout",
    "tool",
    "until",
    "walk_nodes",
    "while_",
]
