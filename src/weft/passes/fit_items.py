"""Keep the items of a policy within so many tokens."""

from bisect import bisect_left
from collections.abc import Mapping, Sequence
from itertools import accumulate

import msgspec

from weft.declare.policy.transforms import Fit
from weft.ir import Item, Note, Prompt
from weft.passes.env import Env
from weft.passes.item_sizes import item_sizes
from weft.passes.knapsack import stride_for
from weft.passes.turns import opening_of
from weft.values import Strand

_OPENING = 16
"""What an opening turn takes at most."""


def fit_items(prompt: Prompt, env: Env, options: Fit) -> Prompt:
    """Keep the best items that fit so many tokens, and where nothing says which, the newest.

    The message that is answered counts with them, and so does an opening turn that may be needed,
    and of the instruction and the tools what is less than an eighth: a request with a short head
    stays within the tokens as a whole. What follows in the current turn is not counted, so that
    what was selected for it does not change while it grows. Scored items go in one by one, the
    best first; what does not fit is passed over for what does. Where there are no scores the
    oldest turns go, in strides of an eighth of the tokens or more, so that requests between two
    cuts extend each other.

    Before:  user "one" | model "1" | user "two" | model "2" | user "three"    (room for two)
    After:   user "two" | model "2" | user "three"
    """
    items = prompt.items.since(0)
    past = [
        number
        for number, item in enumerate(items)
        if item.position < env.turn or not env.is_current(item)
    ]
    every = item_sizes(prompt, env)
    sizes = {number: every[number] for number in past}
    taken = sum(sizes.values())
    asked = (n for n, item in enumerate(items) if n not in sizes and item.author == "user")
    beside = sum(every[number] for number in asked)
    if not past or taken + beside <= options.tokens // 2 - _OPENING:
        return prompt  # there is room for all that is counted beside them
    beside += _head(prompt, env, options.tokens // 8)
    if taken + beside <= options.tokens:
        return prompt
    if any(items[number].score for number in past):
        gone = _worst(items, sizes, options.tokens - beside)
    else:
        gone = _oldest(items, sizes, options.tokens, beside)
    reason = f"what is better fills the {options.tokens} tokens that there are"
    notes = [Note("fit_items", reason, items[number]) for number in sorted(gone)]
    kept = [item for number, item in enumerate(items) if number not in gone]
    return prompt.with_items(kept, notes)


def _head(prompt: Prompt, env: Env, most: int) -> int:
    """What an opening turn takes, and of the head what is less than `most`."""
    if env.measure is None:
        return 0
    fixed, (opening,) = env.measure(
        msgspec.structs.replace(prompt, items=Strand([opening_of(prompt.items[0])]))
    ).split()
    return min(fixed, most) + (opening if env.opening else 0)


def _worst(items: Sequence[Item], sizes: Mapping[int, int], tokens: int) -> set[int]:
    """All but the best that fit; of two that are equally good, the older goes."""
    gone: set[int] = set()
    left = tokens
    for number in sorted(sizes, key=lambda number: (-items[number].score, -number)):
        if sizes[number] <= left:
            left -= sizes[number]
        else:
            gone.add(number)
    return gone


def _oldest(items: Sequence[Item], sizes: Mapping[int, int], tokens: int, beside: int) -> set[int]:
    """The strides of the oldest that are too much, up to where a turn begins.

    What is asked now is a part of the past in the next turn, so what goes once never comes back.
    """
    stride, limit = stride_for(tokens)
    numbers = list(sizes)
    total = list(accumulate(sizes.values()))
    wanted = -(-(total[-1] + beside - limit) // stride) * stride
    cut = min(bisect_left(total, wanted) + 1, len(numbers))
    while cut < len(numbers) and items[numbers[cut]].blocks[0].role != "user":
        cut += 1
    return set(numbers[:cut])
