"""What items take of a request at most, counted once for each."""

from typing import cast

import msgspec

from weft.ir import Block, Item, Prompt
from weft.passes.attribute_foreign import attribute_foreign
from weft.passes.env import Env
from weft.passes.item_text import item_text
from weft.values import Strand


def item_sizes(prompt: Prompt, env: Env) -> list[int]:
    """The tokens of each item with the turn it takes, kept with the log.

    What other agents said is counted in the words in which the agent is told of it.
    """
    if env.measure is None:
        return [env.count(item_text(item)) for item in prompt.items]
    key = ("item sizes", env.agent, env.dialect, env.model)
    found = env.log.memo.setdefault(key, {})
    held = cast("dict[object, tuple[tuple[Block, ...], int]]", found)
    missing = [item for item in prompt.items if not _is_known(item, held)]
    if missing:
        forms = [_told(item, prompt, env) for item in missing]
        sent = [form for form in forms if form.blocks]
        _, sizes = env.measure(msgspec.structs.replace(prompt, items=Strand(sent))).split()
        counted = iter(sizes)
        for item, form in zip(missing, forms, strict=True):
            held[item.key] = (item.blocks, next(counted) if form.blocks else 0)
    return [held[item.key][1] for item in prompt.items]


def _is_known(item: Item, held: dict[object, tuple[tuple[Block, ...], int]]) -> bool:
    known = held.get(item.key)
    return known is not None and known[0] is item.blocks


def _told(item: Item, prompt: Prompt, env: Env) -> Item:
    """An item as it will be sent; without blocks, where it will not be."""
    if item.author in ("user", env.agent):
        return item
    alone = msgspec.structs.replace(prompt, items=Strand([item]))
    told = attribute_foreign(alone, env).items.tip
    return told if told is not None else msgspec.structs.replace(item, blocks=())
