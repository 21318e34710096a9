"""Drop the words of agents whose output is data."""

from weft.declare.policy.selectors import Everything
from weft.ir import Feature, Item, Note, Prompt
from weft.passes.env import Env


def drop_data(prompt: Prompt, env: Env) -> Prompt:
    """Leave out what agents said that only write a key for those behind them.

    Their text is data: it reaches an agent through the key that it reads, or not at all. What an
    agent without a policy sees of a pipeline is the user's request, its inputs and its own work.

    Before:  user "Fly me to Oslo" | model(classifier) "booking"   (classifier.writes("intent"))
    After:   user "Fly me to Oslo"
    """
    if not prompt.features & Feature.DATA or not _hides(env):
        return prompt
    kept: list[Item] = []
    notes: list[Note] = []
    for item in prompt.items:
        if item.data:
            reason = f"what {item.author} says is data: it is read by its key"
            notes.append(Note("drop_data", reason, item))
        else:
            kept.append(item)
    return prompt.with_items(kept, notes) if notes else prompt


def _hides(env: Env) -> bool:
    return any(
        isinstance(stage.selector, Everything) and not stage.selector.data
        for stage in env.policy.stages
    )
