"""Items: what passes work on.

An item is what one would not want to see torn apart: a user turn, a model turn, a call with
its results, another agent's words. Passes move, drop and rewrite items, never halves of them.
"""

from typing import Literal

import msgspec

from weft.ir.block import Block

ItemKind = Literal[
    "user", "model", "system", "calls", "results", "exchange", "foreign", "summary", "hidden"
]
"""What an item is; `calls` and `results` become an `exchange` once they are paired.

A `system` item is the author's word in mid-conversation.
"""


class Item(msgspec.Struct, frozen=True, gc=False):
    """A group of blocks from one place of the log.

    `position` and `last` are the log indexes of its first and last event, `wrote` the state
    keys its text was stored under, `open` whether a call in it still waits for its result,
    `why` the reason a hidden one is hidden, and `paused` whether its provider broke it off, to go
    on when it gets it back.
    """

    kind: ItemKind
    blocks: tuple[Block, ...]
    author: str
    invocation: str
    position: int
    last: int
    event: str
    branch: str = ""
    wrote: tuple[str, ...] = ()
    open: bool = False
    why: str = ""
    paused: bool = False


class Note(msgspec.Struct, frozen=True):
    """What a pass did to an item, and why: `after` is None when it was left out."""

    step: str
    reason: str
    before: Item
    after: Item | None = None
