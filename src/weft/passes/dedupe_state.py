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
    texts = {value.strip() for value in env.carried.values() if isinstance(value, str)}
    only_texts = all(isinstance(value, str) for value in env.carried.values())
    for item in prompt.items:
        said, key = _said(item) if item.wrote else None, ""
        if said is not None and (said.strip() in texts or not only_texts):
            key = _carried(item, said, env)
        if key:
            notes.append(Note("dedupe_state", f"the instruction carries it as {{{key}}}", item))
        else:
            kept.append(item)
    return prompt.with_items(kept, notes) if notes else prompt


def _said(item: Item) -> str | None:
    """All that an item says, where it is an answer."""
    blocks = item.blocks
    if item.kind != "model":
        return None
    if len(blocks) == 1 and isinstance(blocks[0], TextBlock):
        return blocks[0].text
    if not all(isinstance(block, TextBlock | ThoughtBlock) for block in blocks):
        return None
    return "".join(block.text for block in blocks if isinstance(block, TextBlock))


def _carried(item: Item, said: str, env: Env) -> str:
    """The key under which the instruction carries what this item says, if there is one."""
    names = dict.fromkeys((*item.wrote, *env.carried))  # it may have been renamed since
    return next((k for k in names if k in env.carried and spells(said, env.carried[k])), "")
