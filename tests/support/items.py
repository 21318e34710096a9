"""Items of a prompt, in a word."""

from weft.diagnostics import Origin
from weft.ir import Item, Prompt, TextBlock
from weft.session.strand import Strand


def make_item(position: int) -> Item:
    """An item of plain talk."""
    origin = Origin("event", f"e{position}", "user", part=0)
    text = TextBlock(role="user", origin=origin, text=f"word {position}")
    return Item("user", (text,), "user", "i", position, position, f"e{position}")


def prompt_over(items: Strand[Item]) -> Prompt:
    """A prompt of these items."""
    return Prompt("m", "a", items=items)
