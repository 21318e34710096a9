"""Tools that come with Weft."""

from weft.tools.builtin import exit_loop, scratchpad

__all__ = ["exit_loop", "scratchpad"]
