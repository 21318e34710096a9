"""Drop what was never meant for a model."""

from weft.ir import Feature, Note, Prompt
from weft.passes.env import Env


def drop_hidden(prompt: Prompt, env: Env) -> Prompt:
    """Drop partial, empty, state-only, framework-internal and rewound items.

    They stay in the log; a request that carried them would repeat or contradict itself.

    Before:  user "Hi" | hidden (partial) "He" | model "Hello"
    After:   user "Hi" | model "Hello"
    """
    if not prompt.features & Feature.HIDDEN:
        return prompt
    kept = [item for item in prompt.items if item.kind != "hidden"]
    notes = [Note("drop_hidden", item.why, item) for item in prompt.items if item.kind == "hidden"]
    return prompt.with_items(kept, notes) if notes else prompt
