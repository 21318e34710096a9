"""Tools that come with Weft, and those that a provider runs itself."""

from weft.declare.provider_tools import (
    CodeExecution,
    FileSearch,
    ProviderTool,
    WebFetch,
    WebSearch,
)
from weft.tools.builtin import exit_loop, load_memory, remember, scratchpad
from weft.tools.python import PythonTool

__all__ = [
    "CodeExecution",
    "FileSearch",
    "ProviderTool",
    "PythonTool",
    "WebFetch",
    "WebSearch",
    "exit_loop",
    "load_memory",
    "remember",
    "scratchpad",
]
