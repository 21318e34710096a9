"""Keep at most so many tokens of what the user said in earlier turns."""

import msgspec

from weft.declare.policy.transforms import Truncate
from weft.ir import Item, Note, Prompt
from weft.passes.cutting import cut_block
from weft.passes.env import Env


def truncate_past(prompt: Prompt, env: Env, options: Truncate) -> Prompt:
    """Cut what the user said once its turn is over; what the user asks now is never cut.

    Before:  user "one two three four" | model "ok" | user "five six seven"   (.truncate(2))
    After:   user "one […] " | model "ok" | user "five six seven"
    """
    kept: list[Item] = []
    notes: list[Note] = []
    for item in prompt.items:
        said = item.kind == "user" and item.author == "user" and item.position < env.turn
        blocks = tuple(cut_block(block, env, options) if said else block for block in item.blocks)
        if all(new is old for new, old in zip(blocks, item.blocks, strict=True)):
            kept.append(item)
            continue
        short = msgspec.structs.replace(item, blocks=blocks)
        reason = f"it had more than {options.tokens} tokens"
        notes.append(Note("truncate_past", reason, item, short))
        kept.append(short)
    return prompt.with_items(kept, notes) if notes else prompt
