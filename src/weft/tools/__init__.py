"""Tools that come with Weft."""

from weft.tools.exit_loop import exit_loop

__all__ = ["exit_loop"]
