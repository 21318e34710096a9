"""Keep what is not too long ago."""

import math

from weft.declare.policy.selectors import Recent
from weft.ir import Item, Note, Prompt
from weft.passes.env import Env
from weft.passes.turns import turn_numbers


def select_recent(prompt: Prompt, env: Env, options: Recent) -> Prompt:
    """Keep the items whose worth, which fades with every turn, is still enough.

    After `half_life` turns an item is worth half; with `decay`, that much of it is left after
    each. What is worth less than `min_score` goes, in strides of a quarter of the turns that
    stay, so that requests between two moves extend each other.

    Before:  user "one" | model "1" | user "two" | user "three"   (half_life=1, min_score=0.5)
    After:   user "two" | user "three"
    """
    numbers = turn_numbers(prompt.items)
    newest = numbers[-1] if numbers else 0
    rate = _rate(options)
    stays = _turns_that_stay(rate, options.min_score, newest)
    stride = max(1, stays // 4)
    gone = max(0, newest - stays) // stride * stride
    if not gone:
        return prompt
    kept: list[Item] = []
    notes: list[Note] = []
    for item, number in zip(prompt.items, numbers, strict=True):
        if number > gone or env.is_current(item):
            kept.append(item)
        else:
            worth = rate ** (newest - number)
            reason = f"after {newest - number} turns it is worth {worth:.2g}"
            notes.append(Note("select_recent", reason, item))
    return prompt.with_items(kept, notes) if notes else prompt


def _rate(options: Recent) -> float:
    """What is left of an item's worth after a turn."""
    if options.decay is not None:
        return options.decay
    return math.pow(0.5, 1 / (options.half_life or 1.0))


def _turns_that_stay(rate: float, least: float, all_turns: int) -> int:
    """How many turns are worth enough, the current one among them."""
    if rate >= 1:
        return all_turns
    return 1 + math.floor(math.log(least) / math.log(rate) + 1e-9)
