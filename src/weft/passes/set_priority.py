"""Say who survives a budget."""

import msgspec

from weft.declare.policy.transforms import Priority
from weft.ir import Item, Note, Prompt
from weft.passes.env import Env


def set_priority(prompt: Prompt, env: Env, options: Priority) -> Prompt:
    """Put the items into a tier: 1 stays whatever it costs, 4 is the first to go.

    Before:  user "[state] intent: booking"   (C.state("intent").priority(1))
    After:   the same, in tier 1
    """
    kept: list[Item] = []
    notes: list[Note] = []
    for item in prompt.items:
        if all(block.priority == options.tier for block in item.blocks):
            kept.append(item)
            continue
        blocks = tuple(
            msgspec.structs.replace(block, priority=options.tier) for block in item.blocks
        )
        tiered = msgspec.structs.replace(item, blocks=blocks)
        notes.append(Note("set_priority", f"it is in tier {options.tier}", item, tiered))
        kept.append(tiered)
    return prompt.with_items(kept, notes) if notes else prompt
