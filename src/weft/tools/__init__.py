"""Tools that come with Weft."""

from weft.tools.exit_loop import exit_loop
from weft.tools.scratchpad import scratchpad

__all__ = ["exit_loop", "scratchpad"]
