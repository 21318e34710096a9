"""Bound what a tool returned, whatever the policy."""

from collections.abc import Sequence
from typing import NamedTuple, cast

import msgspec

from weft.ir import Block, Feature, Item, Note, Prompt, ResultBlock
from weft.passes.env import Env
from weft.values import JsonObject, compact

MOST = 50_000
"""So many letters of a result are sent as they are."""

TO = 16_000
"""So many letters of a longer one are left, at most."""

_LETTERS = 4
"""Letters of a token, where a text is too long to be counted otherwise."""


def bound_results(prompt: Prompt, env: Env) -> Prompt:
    """Replace a result of more than 50,000 characters by a handle and what matters of it.

    It is what every request does, so that no tool fills the model's window by accident. The log
    keeps the whole value, and `recall` is offered from then on. A tool that says
    `@tool(compact=False)` is left alone. What stands here depends on the event alone, not on the
    model, so the bytes that are sent first are those that are sent always.

    Before:  call read(a) | result {"result": 900,000 characters}
    After:   call read(a) | result {"result": "[handle 3fa4c1d2e5f6: log ...] some of the lines"}
    """
    if not prompt.features & Feature.CALLS:
        return prompt
    kept: list[Item] = []
    notes: list[Note] = []
    for item in prompt.items:
        large = [block for block in item.blocks if _is_large(block, env)]
        short = _bounded(item, large, env) if large else item
        kept.append(short)
        if short is not item:
            reason = f"it had more than {MOST:,} characters; a digest stands for it"
            notes.append(Note("bound_results", reason, item, short))
    if not notes:
        return prompt
    after = prompt.with_items(kept, notes)
    return msgspec.structs.replace(after, features=prompt.features | Feature.BOUNDED)


class _Short(NamedTuple):
    """An item, and what it became."""

    item: Item
    short: Item


def _bounded(item: Item, large: Sequence[Block], env: Env) -> Item:
    """The item with digests for these blocks; one that is still open is not read twice."""
    from weft.passes.handles import Limits, compact_result  # few requests need what digests need

    known = cast("dict[object, _Short]", env.log.memo.setdefault(("bound_results", env.agent), {}))
    held = known.get(item.key)
    if held is None or held.item != item:
        limits = Limits(MOST // _LETTERS, TO // _LETTERS)
        by_letters = msgspec.structs.replace(env, count=_tokens)
        blocks = tuple(
            compact_result(block, item, by_letters, limits)
            if isinstance(block, ResultBlock) and any(block is one for one in large)
            else block
            for block in item.blocks
        )
        held = known[item.key] = _Short(item, msgspec.structs.replace(item, blocks=blocks))
    return held.short


def _is_large(block: Block, env: Env) -> bool:
    if not isinstance(block, ResultBlock) or block.synthetic:
        return False
    if is_short(block.response):
        return False
    return not (block.name in env.tools and env.tools[block.name].compact is False)


def is_short(response: JsonObject) -> bool:
    """Whether a result is sent as it is under every policy."""
    if len(response) == 1:
        only = next(iter(response.values()))
        if isinstance(only, str):
            return len(only) <= MOST
    return len(compact(response)) <= MOST


def _tokens(text: str) -> int:
    return -(-len(text) // _LETTERS)
