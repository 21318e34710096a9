"""Items: what passes work on.

An item is what one would not want to see torn apart: a user turn, a model turn, a call with
its results, another agent's words. Passes move, drop and rewrite items, never halves of them.
"""

from typing import Literal

import msgspec

from weft.ir.block import Block

ItemKind = Literal[
    "user",
    "model",
    "system",
    "calls",
    "results",
    "exchange",
    "foreign",
    "summary",
    "state",
    "hidden",
]
"""What an item is; `calls` and `results` become an `exchange` once they are paired.

A `system` item is the author's word in mid-conversation, a `state` item a value of the state,
a note or an artifact that a policy shows.
"""


class Item(msgspec.Struct, frozen=True, gc=False):
    """A group of blocks from one place of the log.

    `position` and `last` are the log indexes of its first and last event, `wrote` the state
    keys its text was stored under, `open` whether a call in it still waits for its result,
    `why` the reason a hidden one is hidden, `paused` whether its provider broke it off, to go on
    when it gets it back, `score` how well it fits what a policy looks for, and `data` whether it is
    of another agent whose output is data for others, not talk.
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
    score: float = 0.0
    data: bool = False

    @property
    def key(self) -> tuple[int, str, ItemKind, int]:
        """What tells it from the other items of a request, whatever is done to its blocks."""
        part = self.blocks[0].origin.part if self.blocks else -1
        return self.position, self.event, self.kind, part

    @property
    def priority(self) -> int:
        """The tier of its most important block: 1 stays whatever it costs."""
        return min((block.priority for block in self.blocks), default=2)


class Note(msgspec.Struct, frozen=True):
    """What a pass did to an item, and why: `after` is None when it was left out."""

    step: str
    reason: str
    before: Item
    after: Item | None = None
