"""Keep what the policy lets the agent see."""

from weft.ir import Item, Note, Prompt
from weft.passes.env import Env


def select_view(prompt: Prompt, env: Env) -> Prompt:
    """Under C.none(), keep the current turn; under C.nothing(), only the agent's own traffic.

    The current turn is the user's message that started the invocation and what the agent itself
    did since: its answers, calls and results. Without its own traffic it would ask again for ever.

    Before:  user "Hi" | model "Hello" | user "Oslo?"       (C.none(), invocation of "Oslo?")
    After:   user "Oslo?"
    """
    view = env.policy.view
    if view == "default":
        return prompt
    kept: list[Item] = []
    notes: list[Note] = []
    for item in prompt.items:
        if item.invocation != env.invocation:
            reason = "it is not of this invocation"
        elif item.author == env.agent or (item.author == "user" and item.kind == "results"):
            kept.append(item)
            continue
        elif item.author != "user":
            reason = f"it is {item.author}'s"
        elif view == "nothing":
            reason = "C.nothing() leaves out the user's message too"
        else:
            kept.append(item)
            continue
        notes.append(Note("select_view", reason, item))
    return prompt.with_items(kept, notes) if notes else prompt
