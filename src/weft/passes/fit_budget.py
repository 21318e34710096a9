"""Keep the whole request within its token budget."""

from weft.ir import Prompt
from weft.passes.env import Env


def fit_budget(prompt: Prompt, env: Env) -> Prompt:
    """Give up what matters least until system, tools, schema and history fit the budget.

    A policy's budget shortens before it drops, as its `overflow` says: the lowest tier first, in
    it the oldest first. Tier 1, what the user asks now and what the agent did last stay; an
    answer never stands without its question. A TokenBudget drops the oldest.

    Before:  user "one" | model "1" | user "two" | model "2" | user "three"   (too long by one)
    After:   user "two" | model "2" | user "three"
    """
    if env.measure is None:
        return prompt
    if env.policy.limit is not None:
        from weft.passes.limit import keep_limit

        prompt = keep_limit(prompt, env, env.policy.limit, env.measure)
    if env.budget is not None:
        from weft.passes.token_budget import drop_oldest

        prompt = drop_oldest(prompt, env, env.budget, env.measure)
    return prompt
