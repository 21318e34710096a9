"""Drop transcript text the instruction already carries."""

from weft.ir import Feature, Item, Note, Prompt, TextBlock, ThoughtBlock
from weft.passes.env import Env
from weft.values import spells


def dedupe_state(prompt: Prompt, env: Env) -> Prompt:
    """Remove an answer whose value was substituted into the instruction.

    An upstream answer stored under a key reaches the next agent twice: as a turn and inside
    `{key}`. The instruction wins, because it is shorter and says what it is. The user's own
    words stay, whatever was captured from them.

    Before:  system "Intent: booking" | user "Fly me to Oslo" | model "booking"
    After:   system "Intent: booking" | user "Fly me to Oslo"
    """
    if not (prompt.features & Feature.WROTE) or env.policy.duplicates or not env.carried:
        return prompt
    kept: list[Item] = []
    notes: list[Note] = []
    for item in prompt.items:
        key = _carried(item, env) if item.wrote else ""
        if key:
            notes.append(Note("dedupe_state", f"the instruction carries it as {{{key}}}", item))
        else:
            kept.append(item)
    return prompt.with_items(kept, notes) if notes else prompt


def _carried(item: Item, env: Env) -> str:
    """The key under which the instruction carries all that this item says, if there is one."""
    only_text = all(isinstance(block, TextBlock | ThoughtBlock) for block in item.blocks)
    if item.kind != "model" or not only_text:
        return ""
    said = "".join(block.text for block in item.blocks if isinstance(block, TextBlock))
    names = dict.fromkeys((*item.wrote, *env.carried))  # it may have been renamed since
    return next((k for k in names if k in env.carried and spells(said, env.carried[k])), "")
