"""Fields that only their provider understands, on the way to another one."""

from collections.abc import Sequence

from weft.dialects.sink import Sink
from weft.ir import Block, ThoughtBlock
from weft.values import Json, JsonObject

_BOOKKEEPING = frozenset(
    ("id", "type", "status", "message", "arguments", "said_in", "phase", "logprobs", "index",
     "namespace")
)  # fmt: skip
"""Fields that say nothing which anybody else could miss."""


def drop_kept(blocks: Sequence[Block], sink: Sink) -> None:
    """Say, once a turn, that what another provider said beside its words is left out.

    Thoughts are told of by those who drop them.
    """
    foreign = [
        block
        for block in blocks
        if block.kept and block.provider != sink.dialect and not isinstance(block, ThoughtBlock)
    ]
    names = dict.fromkeys(name for block in foreign for name in _telling(block.kept or {}))
    if names:
        told = ", ".join(f"`{name}`" for name in names)
        maker = foreign[0].provider or "an unknown provider"
        sink.said("WEFT704", foreign[0].origin, f"{told} of {maker} cannot go to {sink.dialect}")


def _telling(kept: JsonObject) -> list[str]:
    return [
        name for name, value in kept.items() if name not in _BOOKKEEPING and not _is_usual(value)
    ]


def _is_usual(value: Json) -> bool:
    return value in (None, "", [], {}, {"type": "direct"})
