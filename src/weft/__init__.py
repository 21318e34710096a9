"""Weft: a context compiler for LLM agents.

The public names, loaded when they are first used, so that `import weft` stays light.
"""

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    import weft.instructions as instructions
    from weft.compiler.compile import compile
    from weft.compiler.compiled import Compiled
    from weft.compiler.context import ReadonlyContext
    from weft.content import Content, Part
    from weft.declare import Agent, C, Raw, RunConfig, TokenBudget, Tool, ToolContext, Toolset
    from weft.declare.tool import tool
    from weft.diagnostics import Diagnostic, Origin, Severity
    from weft.dialects.measure import count_tokens
    from weft.errors import WeftError
    from weft.session import Actions, Event, Session

__version__ = "0.1.0"

_HOMES = {
    "Actions": "weft.session",
    "Agent": "weft.declare",
    "C": "weft.declare",
    "Compiled": "weft.compiler",
    "Content": "weft.content",
    "Diagnostic": "weft.diagnostics",
    "Event": "weft.session",
    "Origin": "weft.diagnostics",
    "Part": "weft.content",
    "Raw": "weft.declare",
    "ReadonlyContext": "weft.compiler",
    "RunConfig": "weft.declare",
    "Session": "weft.session",
    "Severity": "weft.diagnostics",
    "TokenBudget": "weft.declare",
    "Tool": "weft.declare",
    "ToolContext": "weft.declare",
    "Toolset": "weft.declare",
    "WeftError": "weft.errors",
    "compile": "weft.compiler",
    "count_tokens": "weft.dialects",
    "instructions": "weft",
    "tool": "weft.declare",
}

__all__ = [
    "Actions",
    "Agent",
    "C",
    "Compiled",
    "Content",
    "Diagnostic",
    "Event",
    "Origin",
    "Part",
    "Raw",
    "ReadonlyContext",
    "RunConfig",
    "Session",
    "Severity",
    "TokenBudget",
    "Tool",
    "ToolContext",
    "Toolset",
    "WeftError",
    "compile",
    "count_tokens",
    "instructions",
    "tool",
]


def __getattr__(name: str) -> object:
    home = _HOMES.get(name)
    if home is None:
        raise AttributeError(f"module 'weft' has no attribute {name!r}")
    from importlib import import_module

    if home == "weft":
        return import_module(f"weft.{name}")
    value: object = getattr(import_module(home), name)
    globals()[name] = value
    return value


def __dir__() -> list[str]:
    return [*__all__, "__version__"]
