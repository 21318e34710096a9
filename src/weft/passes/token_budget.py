"""A token budget beside a policy: the oldest items go, in strides."""

from bisect import bisect_left
from collections.abc import Callable
from itertools import accumulate

from weft.codes import report
from weft.declare import TokenBudget
from weft.diagnostics import Origin
from weft.errors import BudgetExceeded
from weft.ir import Item, Note, Prompt
from weft.passes.env import Env, Sizes
from weft.passes.restore_references import notes_on_repointed, repointed


def drop_oldest(
    prompt: Prompt, env: Env, budget: TokenBudget, measure: Callable[[Prompt], Sizes]
) -> Prompt:
    """Drop the oldest items until system, tools, schema and history fit.

    The cut moves in strides of a quarter of the budget, so that the requests between two cuts
    extend each other; and it stops before a user turn, so that no answer stands without its
    question. What started the invocation, what the user said last, what the agent's last call
    gave and the last `keep_recent` items stay, and with them the user turn they follow.
    """
    total, split, _ = measure(prompt)
    limit = budget.token_budget
    if total <= limit:
        return prompt
    fixed, sizes = split()
    items = list(prompt.items)
    pinned = _pinned(items, env.invocation, budget.keep_recent)
    loose = [0 if index in pinned else size for index, size in enumerate(sizes)]
    gone = list(accumulate(loose))
    most = fixed + sum(sizes)
    excess = most - limit
    least = most - (gone[-1] if gone else 0)
    if least > limit:
        # the bounds may be too careful where hardly anything is left, so that is counted
        few = repointed([items[index] for index in sorted(pinned)], items, env)
        least = measure(prompt.with_items(few)).total
    if least > limit:
        raise BudgetExceeded(
            f"what must stay takes {least} tokens, {least - limit} more than the budget of {limit}",
            where=f"{env.agent}.context_compressor",
            hint=f"raise token_budget to at least {least}, lower keep_recent, or shorten the"
            " instruction and tools",
        )
    stride = max(1, limit // 4)
    wanted = min(-(-excess // stride) * stride, gone[-1])
    cut = bisect_left(gone, wanted) + 1
    asked = min(pinned)  # behind the question that stays, every item may be the next
    while cut <= asked and not _may_begin(items[cut]):
        cut += 1
    kept = [item for index, item in enumerate(items) if index >= cut or index in pinned]
    dropped = [item for index, item in enumerate(items) if index < cut and index not in pinned]
    notes = [Note("fit_budget", f"the request exceeded {limit} tokens", item) for item in dropped]
    diagnostic = report(
        "WEFT501",
        Origin("field", "context_compressor", env.agent),
        f"{len(dropped)} older items were left out to fit {limit} tokens ({total} without)",
        "raise token_budget to keep them",
    )
    after = repointed(kept, items, env)
    return prompt.with_items(after, [*notes, *notes_on_repointed(after, kept)], [diagnostic])


def _pinned(items: list[Item], invocation: str, keep_recent: int) -> set[int]:
    """The items that stay whatever they cost; the first of them is the user's side."""
    pinned = set(range(max(0, len(items) - max(keep_recent, 1)), len(items)))
    said = [i for i, item in enumerate(items) if item.kind == "user" and item.author == "user"]
    started = [i for i in said if invocation and items[i].invocation == invocation]
    pinned.update((*started[:1], *said[-1:]))
    results = [i for i, item in enumerate(items) if item.kind == "exchange"]
    pinned.update(i for i in results[-1:] if items[i].invocation == invocation)
    first = min(pinned, default=0)
    while first > 0 and not _may_begin(items[first]):
        first -= 1
    return {*pinned, first} if pinned else pinned


def _may_begin(item: Item) -> bool:
    return item.blocks[0].role == "user"
