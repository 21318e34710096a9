"""Tools that come with Weft."""

from weft.tools.builtin import exit_loop, load_memory, remember, scratchpad
from weft.tools.python import PythonTool

__all__ = ["PythonTool", "exit_loop", "load_memory", "remember", "scratchpad"]
