"""Tools that come with Weft, and those that a provider runs itself."""

from weft.declare.provider_tools import (
    CodeExecution,
    FileSearch,
    ProviderTool,
    WebFetch,
    WebSearch,
)
from weft.tools.builtin import exit_loop, scratchpad

__all__ = [
    "CodeExecution",
    "FileSearch",
    "ProviderTool",
    "WebFetch",
    "WebSearch",
    "exit_loop",
    "scratchpad",
]
