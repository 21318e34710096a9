"""Tools that come with Weft."""

from weft.tools.builtin import exit_loop, scratchpad
from weft.tools.memory import load_memory, remember
from weft.tools.python import PythonTool

__all__ = ["PythonTool", "exit_loop", "load_memory", "remember", "scratchpad"]
