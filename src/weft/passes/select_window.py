"""Keep the last turns."""

from weft.declare.policy.selectors import Window
from weft.ir import Item, Note, Prompt
from weft.passes.env import Env
from weft.passes.turns import turn_numbers


def select_window(prompt: Prompt, env: Env, options: Window) -> Prompt:
    """Keep the last turns: each a user's message with all that follows it.

    A window that moved with every turn would change the first bytes of every request, and the
    provider would read all of it again. So a wide one moves in strides of a quarter: there are
    always at least as many turns as asked for, and a few more between two moves.

    Before:  user "one" | model "1" | user "two" | model "2" | user "three"   (C.window(2))
    After:   user "two" | model "2" | user "three"
    """
    numbers = turn_numbers(prompt.items)
    stride = max(1, options.turns // 4)
    more = max(0, (numbers[-1] if numbers else 0) - options.turns)
    gone = more // stride * stride
    if not gone:
        return prompt
    kept: list[Item] = []
    notes: list[Note] = []
    for item, number in zip(prompt.items, numbers, strict=True):
        if number > gone:
            kept.append(item)
        else:
            reason = f"it is before the last {options.turns} turns"
            notes.append(Note("select_window", reason, item))
    return prompt.with_items(kept, notes)
