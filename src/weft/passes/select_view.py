"""Keep what the policy lets the agent see."""

from weft.ir import CallBlock, Item, Note, Prompt, ResultBlock
from weft.passes.env import Env


def select_view(prompt: Prompt, env: Env) -> Prompt:
    """Under C.none(), keep the current turn; under C.nothing(), only the agent's own traffic.

    The current turn is the user's message that started it and what the agent itself did since:
    its answers, calls and results. Without its own traffic it would ask again for ever.

    Before:  user "Hi" | model "Hello" | user "Oslo?"       (C.none(), the turn of "Oslo?")
    After:   user "Oslo?"
    """
    view = env.policy.view
    if view == "default":
        return prompt
    kept: list[Item] = []
    notes: list[Note] = []
    others: set[str] = set()
    for item in prompt.items:
        if item.position < env.turn:
            reason = "it is not of this turn"
        elif item.author == env.agent or item.kind == "summary":
            kept.append(item)
            continue
        elif item.author != "user":
            reason = f"it is {item.author}'s"
            others.update(block.id for block in item.blocks if isinstance(block, CallBlock))
        elif item.kind == "results" and _answered(item) <= others:
            reason = "it answers another agent"
        elif item.kind == "results":
            kept.append(item)
            continue
        elif view == "nothing":
            reason = "C.nothing() leaves out the user's message too"
        else:
            kept.append(item)
            continue
        notes.append(Note("select_view", reason, item))
    return prompt.with_items(kept, notes) if notes else prompt


def _answered(item: Item) -> set[str]:
    return {block.call_id for block in item.blocks if isinstance(block, ResultBlock)}
