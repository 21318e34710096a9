"""Keep the branch an agent stands in."""

from weft.ir import Feature, Item, Note, Prompt
from weft.passes.env import Env


def select_branch(prompt: Prompt, env: Env) -> Prompt:
    """Keep unbranched items, the agent's own branch and its ancestors'.

    Parallel agents must not read each other half way. Items of branches that have joined stand on
    the branch that they joined. Branches are compared segment by segment, so `a.b` is no ancestor
    of `a.bc`.

    Before:  user "Hi" | model@fan.left "L" | model@fan.right "R"      (branch fan.left)
    After:   user "Hi" | model@fan.left "L"
    """
    if not prompt.features & Feature.BRANCHED:
        return prompt
    kept: list[Item] = []
    notes: list[Note] = []
    for item in prompt.items:
        branch = item.branch
        if not branch or branch == env.branch or env.branch.startswith(branch + "."):
            kept.append(item)
        else:
            notes.append(Note("select_branch", f"it belongs to branch {branch}", item))
    return prompt.with_items(kept, notes) if notes else prompt
