"""Keep at most so many tokens of each text and result."""

import msgspec

from weft.declare.policy.transforms import Truncate
from weft.ir import Item, Note, Prompt
from weft.passes.cutting import cut_block
from weft.passes.env import Env


def truncate_items(prompt: Prompt, env: Env, options: Truncate) -> Prompt:
    """Cut each text and result to its head, its tail, or both ends.

    The cut stands between words, never inside what a reader sees as one character, and no call
    loses its result. What the user says stays whole in its turn, so it is not this pass that
    cuts it; calls and what a provider signed are never cut.

    Before:  call read(a) | result {"result": "one two three four"}   (C.default().truncate(2))
    After:   call read(a) | result {"result": "one […] "}
    """
    kept: list[Item] = []
    notes: list[Note] = []
    for item in prompt.items:
        if (item.kind == "user" and item.author == "user") or item.kind in ("summary", "system"):
            kept.append(item)
            continue
        blocks = tuple(cut_block(block, env, options) for block in item.blocks)
        if all(new is old for new, old in zip(blocks, item.blocks, strict=True)):
            kept.append(item)
            continue
        short = msgspec.structs.replace(item, blocks=blocks)
        reason = f"it had more than {options.tokens} tokens"
        notes.append(Note("truncate_items", reason, item, short))
        kept.append(short)
    return prompt.with_items(kept, notes) if notes else prompt
