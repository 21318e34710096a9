"""Let a conversation that the agent began start with a user turn."""

from weft.ir import Note, Prompt
from weft.passes.env import Env
from weft.passes.turns import opening_of


def open_turn(prompt: Prompt, env: Env) -> Prompt:
    """Put a user turn before a first item that speaks as the model.

    Providers want the user to begin. An agent that greets first would otherwise be refused.

    Before:  model "Welcome!" | user "Hi"
    After:   user "(The conversation begins.)" | model "Welcome!" | user "Hi"
    """
    if not env.opening or not prompt.items:
        return prompt
    first = prompt.items[0]
    if not first.blocks or first.blocks[0].role != "model":
        return prompt
    opening = opening_of(first)
    note = Note("open_turn", "the first turn must be the user's", first, opening)
    return prompt.with_items([opening, *prompt.items], [note])
