"""Let large results and texts stand as handles with a digest."""

from typing import NamedTuple, cast

import msgspec

from weft.declare.policy.transforms import Compact
from weft.ir import Block, Item, Note, Prompt, ResultBlock, TextBlock
from weft.passes.env import Env
from weft.passes.handles import Limits, compact_result, compact_text
from weft.passes.handles import result_limits as result_limits


def compact_items(prompt: Prompt, env: Env, options: Compact) -> Prompt:
    """Replace large results, and large texts of others, by a handle and what matters of them.

    The log keeps the whole value, and `recall` gets it back. What stands here depends on the
    event alone, so the bytes that are sent first are those that are sent always. A tool may say
    otherwise: `@tool(compact=False)` never, `compact=True` as usual, or from so many tokens on.
    What the user and the agent itself said is left as it is, and so are recalled values.

    Before:  call read(a) | result {"result": 412 lines of code}
    After:   call read(a) | result {"result": "[handle 3fa4c1d2e5f6: code ...] 40 of the lines"}
    """
    known = _known(env, options)
    kept: list[Item] = []
    notes: list[Note] = []
    for item in prompt.items:
        short = _short(item, env, options, known)
        kept.append(short)
        if short is not item:
            reason = "a digest stands for it, with its handle"
            notes.append(Note("compact_items", reason, item, short))
    return prompt.with_items(kept, notes) if notes else prompt


class _Digested(NamedTuple):
    """An item, and what it became."""

    item: Item
    short: Item


def _known(env: Env, options: Compact) -> dict[object, _Digested]:
    """What items became in earlier requests, kept with the log; a new item is seen only once."""
    if env.measure is None:
        return {}
    own = tuple((name, tool.compact) for name, tool in env.tools.items())
    key = ("compact_items", options, env.agent, env.dialect, env.model, own)
    return cast("dict[object, _Digested]", env.log.memo.setdefault(key, {}))


def _short(item: Item, env: Env, options: Compact, known: dict[object, _Digested]) -> Item:
    """The item with digests for what is large in it; itself where nothing is."""
    held = known.get(item.key)
    if held is not None and (held.item is item or held.item == item):
        return item if held.short is held.item else held.short
    blocks = tuple(_compacted(block, item, env, options) for block in item.blocks)
    same = all(new is old for new, old in zip(blocks, item.blocks, strict=True))
    short = item if same else msgspec.structs.replace(item, blocks=blocks)
    known[item.key] = _Digested(item, short)
    return short


def _compacted(block: Block, item: Item, env: Env, options: Compact) -> Block:
    if isinstance(block, ResultBlock):
        limits = result_limits(block.name, env, options)
        return compact_result(block, item, env, limits) if limits is not None else block
    if isinstance(block, TextBlock) and options.texts is not None:
        said = item.author in ("user", env.agent) and item.kind != "state"
        if not said and item.kind not in ("summary", "system"):
            return compact_text(block, item, env, Limits(options.texts, options.to))
    return block
