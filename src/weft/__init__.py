"""Weft: a context compiler for LLM agents.

The public names, loaded when they are first used, so that `import weft` stays light.
"""

from sys import _getframe  # pyright: ignore[reportPrivateUsage]
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    import weft.instructions as instructions
    import weft.plugins as plugins
    from weft.checker.check import check
    from weft.compaction.compact import Compacted, compact
    from weft.compiler.compile import compile
    from weft.compiler.compiled import Compiled
    from weft.compiler.instruction import ReadonlyContext
    from weft.compiler.report import Report
    from weft.content import Content, Part
    from weft.declare import (
        Agent,
        C,
        CallbackContext,
        CustomAgent,
        Node,
        Raw,
        RunBudget,
        RunConfig,
        RunContext,
        TokenBudget,
        Tool,
        ToolContext,
        Toolset,
    )
    from weft.declare.config import Thinking
    from weft.declare.context import Ask
    from weft.declare.examples import Example, ExampleCall
    from weft.declare.flow import Fallback, Flow, Loop, Parallel, Sequence, until, while_
    from weft.declare.nodes import Map, Race, Step, Timeout, expect, race, tap, timeout
    from weft.declare.policy import Policy
    from weft.declare.provider_tools import (
        CodeExecution,
        FileSearch,
        ProviderTool,
        WebFetch,
        WebSearch,
    )
    from weft.declare.route import Gate, Route
    from weft.declare.tool import tool
    from weft.declare.transform import S
    from weft.diagnostics import Diagnostic, Origin, Severity
    from weft.dialects import count_tokens
    from weft.errors import DeclarationError, WeftError
    from weft.models import Model, ModelResponse
    from weft.runtime.approvals import Approve, Deny, Pending, ToolResult
    from weft.runtime.plugins import RunOutcome
    from weft.runtime.program import Plugin
    from weft.runtime.result import Result
    from weft.runtime.run import Running
    from weft.runtime.runner import Runner
    from weft.runtime.shortcuts import run, run_sync, stream
    from weft.session import Actions, Event, Session
    from weft.session.store import Store
    from weft.stores.memories import Memory
    from weft.values import Json

__version__ = "0.2.0"

_HOMES = {
    "Actions": "weft.session",
    "Agent": "weft.declare",
    "Approve": "weft.runtime.approvals",
    "Ask": "weft.declare.context",
    "C": "weft.declare",
    "CallbackContext": "weft.declare",
    "CodeExecution": "weft.declare.provider_tools",
    "Compacted": "weft.compaction",
    "Compiled": "weft.compiler",
    "Content": "weft.content",
    "CustomAgent": "weft.declare",
    "DeclarationError": "weft.errors",
    "Deny": "weft.runtime.approvals",
    "Diagnostic": "weft.diagnostics",
    "Event": "weft.session",
    "Example": "weft.declare.examples",
    "ExampleCall": "weft.declare.examples",
    "Fallback": "weft.declare",
    "FileSearch": "weft.declare.provider_tools",
    "Flow": "weft.declare",
    "Gate": "weft.declare",
    "Json": "weft.values",
    "Loop": "weft.declare",
    "Map": "weft.declare",
    "Memory": "weft.stores.memories",
    "Model": "weft.models",
    "ModelResponse": "weft.models",
    "Origin": "weft.diagnostics",
    "Parallel": "weft.declare",
    "Part": "weft.content",
    "Pending": "weft.runtime.approvals",
    "Plugin": "weft.runtime",
    "Policy": "weft.declare.policy",
    "ProviderTool": "weft.declare.provider_tools",
    "Race": "weft.declare.nodes",
    "Raw": "weft.declare",
    "ReadonlyContext": "weft.compiler",
    "Report": "weft.compiler.report",
    "Result": "weft.runtime",
    "Route": "weft.declare",
    "RunBudget": "weft.declare",
    "RunConfig": "weft.declare",
    "RunContext": "weft.declare",
    "RunOutcome": "weft.runtime",
    "Runner": "weft.runtime",
    "Running": "weft.runtime.run",
    "S": "weft.declare",
    "Sequence": "weft.declare",
    "Session": "weft.session",
    "Severity": "weft.diagnostics",
    "Step": "weft.declare",
    "Store": "weft.session.store",
    "Thinking": "weft.declare.config",
    "Timeout": "weft.declare.nodes",
    "TokenBudget": "weft.declare",
    "Tool": "weft.declare",
    "ToolContext": "weft.declare",
    "ToolResult": "weft.runtime.approvals",
    "Toolset": "weft.declare",
    "WebFetch": "weft.declare.provider_tools",
    "WebSearch": "weft.declare.provider_tools",
    "WeftError": "weft.errors",
    "check": "weft.checker",
    "compact": "weft.compaction",
    "compile": "weft.compiler",
    "count_tokens": "weft.dialects",
    "expect": "weft.declare",
    "instructions": "weft",
    "plugins": "weft",
    "race": "weft.declare",
    "run": "weft.runtime.shortcuts",
    "run_sync": "weft.runtime.shortcuts",
    "stream": "weft.runtime.shortcuts",
    "tap": "weft.declare",
    "timeout": "weft.declare",
    "tool": "weft.declare",
    "until": "weft.declare",
    "while_": "weft.declare",
}

__all__ = [
    "Actions",
    "Agent",
    "Approve",
    "Ask",
    "C",
    "CallbackContext",
    "CodeExecution",
    "Compacted",
    "Compiled",
    "Content",
    "CustomAgent",
    "DeclarationError",
    "Deny",
    "Diagnostic",
    "Event",
    "Example",
    "ExampleCall",
    "Fallback",
    "FileSearch",
    "Flow",
    "Gate",
    "Json",
    "Loop",
    "Map",
    "Memory",
    "Model",
    "ModelResponse",
    "Origin",
    "Parallel",
    "Part",
    "Pending",
    "Plugin",
    "Policy",
    "ProviderTool",
    "Race",
    "Raw",
    "ReadonlyContext",
    "Report",
    "Result",
    "Route",
    "RunBudget",
    "RunConfig",
    "RunContext",
    "RunOutcome",
    "Runner",
    "Running",
    "S",
    "Sequence",
    "Session",
    "Severity",
    "Step",
    "Store",
    "Thinking",
    "Timeout",
    "TokenBudget",
    "Tool",
    "ToolContext",
    "ToolResult",
    "Toolset",
    "WebFetch",
    "WebSearch",
    "WeftError",
    "check",
    "compact",
    "compile",
    "count_tokens",
    "expect",
    "instructions",
    "plugins",
    "race",
    "run",
    "run_sync",
    "stream",
    "tap",
    "timeout",
    "tool",
    "until",
    "while_",
]


if not TYPE_CHECKING:  # or else a type checker would take any name

    def __getattr__(name: str) -> object:
        home = _HOMES.get(name)
        if home is None:
            raise _unknown(name, is_imported=_getframe(1).f_code.co_name == "_handle_fromlist")
        from importlib import import_module

        if home == "weft":
            return import_module(f"weft.{name}")
        from weft.collector import collector_paused

        with collector_paused():
            value: object = getattr(import_module(home), name)
        globals()[name] = value
        if home == "weft.declare":
            from weft.declare.compose import draw_with

            draw_with(_draw_svg)
        return value


def _unknown(name: str, *, is_imported: bool) -> Exception:
    """The error for a name that there is none of.

    `from weft import name` asks first whether the module has it, and would turn what is raised
    here into an error without a hint, unless that is an ImportError already.
    """
    if name.startswith("_"):  # asked for by tools, not by people
        return AttributeError(f"module 'weft' has no attribute {name!r}")
    from importlib import import_module
    from importlib.util import find_spec

    from weft.declare.hints import MODEL_BY_NAME, NAMES_ELSEWHERE, SUB_MODULES
    from weft.errors import UnknownImport, UnknownName
    from weft.misuse import suggest_names
    from weft.models.services import SERVICES

    is_module = name.isidentifier() and find_spec(f"weft.{name}") is not None
    if is_module and is_imported:  # Python goes on and imports it
        return AttributeError(name)
    homes = (one for one in SUB_MODULES if hasattr(import_module(f"weft.{one}"), name))
    of_provider = any(service in name.lower() for service in SERVICES)  # a client, or its model
    ours = NAMES_ELSEWHERE.get(name, MODEL_BY_NAME if of_provider else "")
    if ours in __all__:
        hint = f"write from weft import {ours}" if is_imported else f"write weft.{ours}"
    elif ours:
        hint = f"write {ours}"
    elif is_module:
        hint = f"write import weft.{name}"
    elif home := next(homes, ""):
        hint = f"write from weft.{home} import {name}"
    else:
        hint = suggest_names(name, __all__) or "dir(weft) lists the names that there are"
    if is_imported:
        return UnknownImport(f"weft has no `{name}`", hint=hint)
    return UnknownName(f"module 'weft' has no attribute {name!r}", hint=hint)


def _draw_svg(node: "Node") -> str:
    """What a notebook shows of an agent or a flow."""
    from weft.graph import graph_of, to_svg

    return to_svg(graph_of(node))


def __dir__() -> list[str]:
    return [*__all__, "__version__"]
