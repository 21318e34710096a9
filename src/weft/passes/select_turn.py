"""Keep the current turn."""

from weft.ir import Item, Note, Prompt
from weft.passes.env import Env


def select_turn(prompt: Prompt, env: Env) -> Prompt:
    """Keep what the user asks now, and what the agent did since.

    Before:  user "one" | model "1" | user "two"   (C.none() beside other policies)
    After:   user "two"
    """
    kept: list[Item] = []
    notes: list[Note] = []
    for item in prompt.items:
        if env.is_current(item):
            kept.append(item)
        else:
            notes.append(Note("select_turn", "it is not of this turn", item))
    return prompt.with_items(kept, notes) if notes else prompt
