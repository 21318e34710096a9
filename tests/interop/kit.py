"""The classes of google-adk that samples are made of: its own, or stand-ins where it is absent.

A stand-in has the names and fields that an import looks at, and does nothing else. It lets every
sample be imported and checked where google-adk, whose dependencies differ, cannot be installed.
"""

import importlib.util
import warnings
from collections.abc import Callable
from typing import Any

from weft.declare import Agent, Node
from weft.declare.agent import walk_nodes, walk_tree

REAL = importlib.util.find_spec("google") is not None and (
    importlib.util.find_spec("google.adk") is not None
)

if REAL:
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        from google.adk.agents import BaseAgent, LlmAgent, LoopAgent, ParallelAgent, SequentialAgent
        from google.adk.apps import App
        from google.adk.planners import PlanReActPlanner
        from google.adk.plugins.base_plugin import BasePlugin
        from google.adk.plugins.global_instruction_plugin import GlobalInstructionPlugin
        from google.adk.tools import (
            AgentTool,
            BaseTool,
            FunctionTool,
            LongRunningFunctionTool,
            ToolContext,
            exit_loop,
            google_search,
        )
        from google.adk.tools.base_toolset import BaseToolset
        from google.genai.types import GenerateContentConfig, ThinkingConfig
else:

    class _Standin:
        """Fields by name, as the real class keeps them."""

        defaults: dict[str, Any] = {}

        def __init__(self, **given: Any) -> None:
            for name, value in {**self.defaults, **given}.items():
                setattr(self, name, value)
            self.model_fields_set = set(given)
            for child in given.get("sub_agents", ()):
                child.parent_agent = self

    def _made(name: str, *bases: type, **defaults: Any) -> Any:
        body = {"__module__": f"google.adk.{name.lower()}", "defaults": defaults}
        return type(name, bases or (_Standin,), body)

    BaseAgent = _made("BaseAgent", description="", sub_agents=[], parent_agent=None)
    _agent = {"description": "", "sub_agents": [], "parent_agent": None}
    LlmAgent = _made(
        "LlmAgent", BaseAgent, **_agent, model="", instruction="", tools=[],
        include_contents="default",
    )  # fmt: skip
    SequentialAgent = _made("SequentialAgent", BaseAgent, **_agent)
    ParallelAgent = _made("ParallelAgent", BaseAgent, **_agent)
    LoopAgent = _made("LoopAgent", BaseAgent, **_agent, max_iterations=None)
    App = _made("App", plugins=[])
    PlanReActPlanner = _made("PlanReActPlanner")
    BasePlugin = _made("BasePlugin")
    BaseToolset = _made("BaseToolset")
    BaseTool = _made("BaseTool")
    GenerateContentConfig = _made("GenerateContentConfig")
    ThinkingConfig = _made("ThinkingConfig")
    ToolContext = _made("ToolContext")
    google_search = _made("GoogleSearchTool", BaseTool)(name="google_search")

    class GlobalInstructionPlugin(BasePlugin):
        __module__ = "google.adk.plugins"

        def __init__(self, global_instruction: str) -> None:
            super().__init__(name="global_instruction", global_instruction=global_instruction)

    class AgentTool(BaseTool):
        __module__ = "google.adk.tools"

        def __init__(self, agent: Any) -> None:
            super().__init__(name=agent.name, description=agent.description, agent=agent)

    class FunctionTool(BaseTool):
        __module__ = "google.adk.tools"

        def __init__(self, func: Callable[..., object], require_confirmation: bool = False) -> None:
            super().__init__(name=func.__name__, description=func.__doc__ or "", func=func)
            self._require_confirmation = require_confirmation

    class LongRunningFunctionTool(FunctionTool):
        __module__ = "google.adk.tools"
        is_long_running = True

    def exit_loop(tool_context: Any) -> None:
        """End the loop."""
        tool_context.actions.escalate = True

    exit_loop.__module__ = "google.adk.tools.exit_loop_tool"


def find_homes(node: Node) -> dict[str, Agent]:
    """Every agent that speaks in the conversation by name, with the root of its tree."""
    homes: dict[str, Agent] = {}
    for flow, _ in walk_nodes(node):
        if not isinstance(flow, Agent):
            continue
        for member, _ in walk_tree(flow):
            if isinstance(member, Agent):
                homes.setdefault(member.name, flow)
            else:
                homes = {**find_homes(member), **homes}
    return homes
