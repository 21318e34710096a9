"""A summary of what a budget has no room for, written again only when more has to go.

What goes, goes in blocks. The summary of the first block and the second block give the summary
of both: so each block is read by a model once, and what it wrote is found in the log.
"""

from collections.abc import Callable, Sequence

import msgspec

from weft.declare.policy.transforms import Summarize
from weft.digest import cut_text
from weft.digest.extractive import Entry
from weft.ir import Item, TextBlock
from weft.passes.env import Env
from weft.passes.summaries import HEADING, Summed, entries_of, summary_item, summed_up

LEAST, MOST = 48, 1024
"""How few and how many tokens such a summary is given."""

_OPTIONS = Summarize(before=0)


def allowance_for(room: int) -> int:
    """How many tokens of a budget a summary may take: an eighth, within bounds."""
    return min(MOST, max(LEAST, room // 8))


def blocks_of(items: Sequence[Item], sizes: Sequence[int], stride: int) -> list[list[Item]]:
    """The items in the order they went, in blocks of a stride; each ends where the next begins."""
    blocks: list[list[Item]] = []
    end, taken = 0, 0
    for item, size in zip(items, sizes, strict=True):
        if not blocks or taken >= end:
            blocks.append([])
            end = (taken // stride + 1) * stride
        blocks[-1].append(item)
        taken += size
    return blocks


def summary_of(blocks: Sequence[Sequence[Item]], left: Sequence[Item], env: Env) -> Summed:
    """The summary of all blocks, by a model as far as it was asked, else an extract of the rest.

    `left` is what stays in the request: what it speaks of again, a summary must not leave out.
    """
    entries: list[Entry] = []
    summed = Summed("")
    for block in blocks:
        entries += entries_of(sorted(block, key=lambda item: item.position), env)
        if not entries:
            continue
        summed = summed_up(entries, env, _OPTIONS, beside=lambda: _beside(left, env))
        if not summed.problem:
            entries = [Entry("", summed.text)]
    return summed


def _beside(left: Sequence[Item], env: Env) -> tuple[list[str], list[str]]:
    first = [item for item in left if item.priority == 1]
    said = ([entry.text for entry in entries_of(items, env)] for items in (left, first))
    later, pinned = said
    return later, pinned


def fitted(
    text: str, items: Sequence[Item], env: Env, room: int, size: Callable[[Item], int]
) -> Item | None:
    """The summary as an item of at most `room` tokens; None where there is no room for it."""
    if not text or not items:
        return None
    made = summary_item(text, sorted(items, key=lambda item: item.position), "fit_budget")
    limit = room
    while size(made) > room:
        limit -= max(4, size(made) - room)
        short = cut_text(text, limit=limit, count=env.count) if limit >= LEAST // 2 else ""
        if not short:
            return None
        block = made.blocks[0]
        assert isinstance(block, TextBlock)
        made = msgspec.structs.replace(
            made, blocks=(msgspec.structs.replace(block, text=HEADING + short),)
        )
    return made
