"""Blocks, the nodes of a prompt, a closed union; and the items that they make.

Every block says where it came from, how often that changes, who survives a budget, and
what may not leave. `match` over Block ends with `assert_never`: a new kind that a dialect
does not know fails type checking.

Items are what passes work on. An item is what one would not want to see torn apart: a user turn, a
model turn, a call with its results, another agent's words. Passes move, drop and rewrite items,
never halves of them.
"""

import enum
from typing import Literal, TypeAlias

import msgspec

from weft.content import Content, Value
from weft.diagnostics import Origin
from weft.session import Usage
from weft.session.flow import TRUSTED, TrustLabel
from weft.session.provenance import Provenance, provenance_in
from weft.session.talk import PlainCall
from weft.values import Json, JsonObject, canonical, digest

Role = Literal["system", "user", "model"]


class Stability(enum.IntEnum):
    """How often a block changes; the order in which a request wants them."""

    STATIC = 0
    SESSION = 1
    TURN = 2


class Span(msgspec.Struct, frozen=True, gc=False):
    """A stretch of a block's text, up to `end`, and where it came from."""

    end: int
    origin: Origin


class Reference(msgspec.Struct, frozen=True, gc=False):
    """Words in a block that stand for another value, or lines of it, while that is in view.

    `event` and `part` say where the log has that value, `handle` how `recall` finds what the words
    stand for. The lines count from 1; `last` is 0 where all of it is meant. `back` says how many
    results further up it stands, 0 where the words do not say. `newer` is a value that replaced
    the one the words stand for.
    """

    words: str
    event: str
    part: int
    handle: str
    first: int = 1
    last: int = 0
    back: int = 0
    newer: bool = False


class _Base(msgspec.Struct, frozen=True, gc=False, kw_only=True):
    """What every block carries.

    A block that a model made says whose it is: `provider` and `model`, as far as the log knows.
    `kept` are fields of its wire form that only this provider understands; they go back to it.
    """

    role: Role
    origin: Origin
    stability: Stability = Stability.TURN
    priority: int = 2
    labels: tuple[str, ...] = ()
    label: TrustLabel = TRUSTED
    """Whose text had influence on it."""
    provider: str = ""
    model: str = ""
    kept: JsonObject | None = None


class TextBlock(_Base, frozen=True, gc=False, tag="text"):
    """Text; `spans` where it was put together from several places.

    `refers` are the references in it, and `whole` is what it says without them. `handle` is that
    of the value for which it stands, where it is a digest.
    """

    text: str
    spans: tuple[Span, ...] = ()
    signature: str | None = None
    handle: str = ""
    refers: tuple[Reference, ...] = ()
    whole: str | None = None


class ThoughtBlock(_Base, frozen=True, gc=False, tag="thought"):
    """What the model thought, with the signature that lets it go back."""

    text: str
    signature: str | None = None


class CallBlock(_Base, frozen=True, gc=False, tag="call"):
    """A tool call; `id` is never empty, `given` says whether the provider gave it.

    `waits` marks a long-running call, whose result may come much later.
    """

    id: str
    name: str
    args: JsonObject
    given: bool = True
    waits: bool = False
    signature: str | None = None


class ResultBlock(_Base, frozen=True, gc=False, tag="result"):
    """What a call returned; `synthetic` when Weft had to make it up to keep the pair whole.

    `refers` are the references in it, and `whole` is what it says without them. `stands` are the
    lines of the logged text that stand in it as they are, from one up to another, where that is
    not all of it. `handle` is that of the value for which it stands, where it is a digest.
    """

    call_id: str
    name: str
    response: JsonObject
    given: bool = True
    media: "tuple[MediaBlock, ...]" = ()
    synthetic: bool = False
    handle: str = ""
    refers: tuple[Reference, ...] = ()
    whole: JsonObject | None = None
    stands: tuple[tuple[int, int], ...] | None = None

    @property
    def is_error(self) -> bool:
        """Whether the tool failed."""
        return len(self.response) == 1 and "error" in self.response


def pair_blocks(
    call: PlainCall, asked: Origin, answered: Origin, label: TrustLabel = TRUSTED
) -> tuple[CallBlock, ResultBlock]:
    """The blocks of a plain call, which has a label, and of its result."""
    id, name, has_own_id = call.id, call.name, call.has_own_id
    return (
        CallBlock(
            role="model",
            origin=asked,
            id=id,
            name=name,
            args=call.args,
            given=has_own_id,
            label=label,
        ),
        ResultBlock(
            role="user",
            origin=answered,
            call_id=id,
            name=name,
            response=call.response,
            given=has_own_id,
            label=call.returned,
        ),
    )


class MediaBlock(_Base, frozen=True, gc=False, tag="media"):
    """An image, audio, video or document: base64 `data`, or `uri`."""

    mime_type: str
    data: str | None = None
    uri: str | None = None
    name: str = ""
    signature: str | None = None


class CodeBlock(_Base, frozen=True, gc=False, tag="code"):
    """Code the model wrote to be run."""

    code: str
    language: str = "PYTHON"
    signature: str | None = None
    id: str | None = None


class CodeResultBlock(_Base, frozen=True, gc=False, tag="code_result"):
    """What running the code gave."""

    outcome: str
    output: str
    signature: str | None = None
    id: str | None = None


class OpaqueBlock(_Base, frozen=True, gc=False, tag="opaque"):
    """A provider's own JSON that goes back to it unchanged, and to nobody else.

    An empty `provider` is the one whose format the log itself has.
    """

    payload: JsonObject


Block: TypeAlias = (
    TextBlock
    | ThoughtBlock
    | CallBlock
    | ResultBlock
    | MediaBlock
    | CodeBlock
    | CodeResultBlock
    | OpaqueBlock
)


# --- items

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
    def origin(self) -> Origin:
        """Where it comes from: its first block, or its event."""
        return self.blocks[0].origin if self.blocks else Origin("event", self.event, self.author)

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


# --- what passes want of a model

RECALL = "recall"
"""The tool that gets back what a handle stands for; its own results are never reduced."""


FOLDED = Origin("pass", "fold_steps")
"""Where a note on folded steps comes from."""


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
    label: TrustLabel = TRUSTED
    """Whose text the question is about."""
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
