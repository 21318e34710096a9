"""Drop transcript text the instruction already carries."""

from weft.ir import Feature, Item, Note, Prompt, TextBlock
from weft.passes.env import Env


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
        carried = [key for key in item.wrote if key in env.carried]
        if carried and item.kind in ("model", "foreign") and _is_text(item):
            reason = f"the instruction carries it as {{{carried[0]}}}"
            notes.append(Note("dedupe_state", reason, item))
        else:
            kept.append(item)
    return prompt.with_items(kept, notes) if notes else prompt


def _is_text(item: Item) -> bool:
    return all(isinstance(block, TextBlock) for block in item.blocks)
