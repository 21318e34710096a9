"""Blocks: the nodes of a prompt, a closed union.

Every block says where it came from, how often that changes, who survives a budget, and
what may not leave. `match` over Block ends with `assert_never`: a new kind that a dialect
does not know fails type checking.
"""

import enum
from typing import Literal, TypeAlias

import msgspec

from weft.diagnostics import Origin
from weft.session.talk import PlainCall
from weft.values import JsonObject

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


def pair_blocks(call: PlainCall, asked: Origin, answered: Origin) -> tuple[CallBlock, ResultBlock]:
    """The blocks of a plain call and of its result."""
    id, name, has_own_id = call.id, call.name, call.has_own_id
    return (
        CallBlock(role="model", origin=asked, id=id, name=name, args=call.args, given=has_own_id),
        ResultBlock(
            role="user",
            origin=answered,
            call_id=id,
            name=name,
            response=call.response,
            given=has_own_id,
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
