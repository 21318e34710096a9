"""Keep what the user said."""

from weft.declare.policy.selectors import UserWords
from weft.ir import Item, Note, Prompt
from weft.passes.env import Env


def select_user(prompt: Prompt, env: Env, options: UserWords) -> Prompt:
    """Keep the user's messages: all of them, the first, the last, or both ends.

    Before:  user "one" | model "1" | user "two"   (C.user())
    After:   user "one" | user "two"
    """
    said = [item for item in prompt.items if item.kind == "user" and item.author == "user"]
    wanted = {"all": said, "first": said[:1], "last": said[-1:], "bookend": said[:1] + said[-1:]}
    chosen = {item.key for item in wanted[options.which]}
    kept: list[Item] = []
    notes: list[Note] = []
    for item in prompt.items:
        if item.key in chosen:
            kept.append(item)
        else:
            which = "" if options.which == "all" else f", the {options.which}"
            notes.append(Note("select_user", f"only the user's words are wanted{which}", item))
    return prompt.with_items(kept, notes) if notes else prompt
