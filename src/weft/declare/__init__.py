"""What an agent or a flow is: frozen data, no I/O."""

from weft.declare.agent import Agent, Callback, Instruction, Raw
from weft.declare.config import RunConfig
from weft.declare.context import CallbackContext, Memory, ToolContext
from weft.declare.expect import Expect, expect
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
from weft.declare.gate import Gate
from weft.declare.map import Map
from weft.declare.policy import C, Policy, TokenBudget
from weft.declare.race import Race, race
from weft.declare.route import Case, Route
from weft.declare.run_budget import RunBudget
from weft.declare.step import Step
from weft.declare.tap import Tap, tap
from weft.declare.timeout import Timeout, timeout
from weft.declare.tool import Effect, Tool, Toolset, tool
from weft.declare.transform import S
from weft.declare.walk import agents_of, walk_nodes

__all__ = [
    "Agent",
    "C",
    "Callback",
    "CallbackContext",
    "Case",
    "Effect",
    "Expect",
    "Fallback",
    "Flow",
    "Gate",
    "Instruction",
    "Loop",
    "Map",
    "Memory",
    "Node",
    "Parallel",
    "Policy",
    "Race",
    "Raw",
    "Route",
    "RunBudget",
    "RunConfig",
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
