"""How agents and flows are drawn where pictures are shown, such as in a notebook.

Drawing needs the checker, which stands above declarations: whoever can draw says so here.
"""

from collections.abc import Callable
from typing import TYPE_CHECKING, TypeAlias

if TYPE_CHECKING:
    from weft.declare.flow import Node

Drawer: TypeAlias = "Callable[[Node], str]"

_drawers: "list[Drawer]" = []


def draw_with(drawer: Drawer) -> None:
    """Let this function draw every node from now on, as SVG."""
    _drawers[:] = [drawer]


def drawn(node: "Node") -> str | None:
    """The node as SVG; None where nobody said how."""
    return _drawers[0](node) if _drawers else None
