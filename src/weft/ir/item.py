"""Items: what passes work on.

An item is what one would not want to see torn apart: a user turn, a model turn, a call with
its results, another agent's words. Passes move, drop and rewrite items, never halves of them.
"""

from typing import Literal

import msgspec

from weft.content import Content, Value
from weft.ir.block import Block
from weft.session import Usage
from weft.session.provenance import Provenance, provenance_in
from weft.values import Json, JsonObject, canonical, digest

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
    of another agent whose output is data for others, not talk. `passing` says that its results
    will be said in other words in the next request.
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
    passing: bool = False

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


RECALL = "recall"
"""The tool that gets back what a handle stands for; its own results are never reduced."""


WantKind = Literal["summary", "relevance", "extract", "distill", "contradictions", "memory"]


def fingerprint(kind: WantKind, *values: Json) -> str:
    """What an outcome is found by: the same question about the same input."""
    return digest(canonical([kind, *values]))


class Want(msgspec.Struct, frozen=True):
    """One question for a model.

    `schema` is what the answer must be, `model` who is asked in place of the agent's own, `key`
    where in state the outcome goes, `must_keep` what an answer without is not accepted for, and
    `longest` the most letters it may have, 0 for any. `sources` are the events that an answer may
    name by their number, from 1, each with its text; `through` is the log index they reach to.
    """

    kind: WantKind
    fingerprint: str
    instruction: str
    text: str
    schema: JsonObject | None = None
    model: object = None
    key: str = ""
    must_keep: tuple[str, ...] = ()
    longest: int = 0
    sources: tuple[tuple[str, str], ...] = ()
    through: int = -1
    options: JsonObject = {}
    """How the memory is to be searched; `text` is the query."""


class ModelResponse(Value, frozen=True, kw_only=True, gc=True):
    """What a model said: the content, how it ended, what it cost.

    A partial response carries a delta for display. The last response of an answer is complete
    and holds all of it. One with an `error_code` says why there is no answer.
    """

    content: Content | None = None
    partial: bool | None = None
    finish_reason: str | None = None
    error_code: str | None = None
    error_message: str | None = None
    usage: Usage | None = None
    model_version: str | None = None
    custom_metadata: JsonObject | None = None
    grounding_metadata: JsonObject | None = None
    citation_metadata: JsonObject | None = None
    logprobs_result: JsonObject | None = None
    avg_logprobs: float | None = None

    @property
    def text(self) -> str:
        """What was said, without thoughts."""
        return self.content.text if self.content is not None else ""

    @property
    def provenance(self) -> Provenance:
        """What Weft will keep on the event of this response."""
        return provenance_in(self.custom_metadata)
