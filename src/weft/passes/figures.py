"""The figures of a budget: what there is, what was given up, what does not fit."""

from dataclasses import replace
from math import ceil
from typing import NamedTuple

from weft.codes import report
from weft.declare.policy.transforms import Budget
from weft.diagnostics import Diagnostic, Origin
from weft.errors import BudgetExceeded
from weft.ir import CallBlock, Item, Note, Prompt
from weft.ir.handle import RECALL
from weft.passes.env import Env, Sizes
from weft.values import compact

SHARE, MOST = 10, 4096
"""What is kept for an answer of unknown length: a tenth of the budget, and so many at most."""


class Room(NamedTuple):
    """The tokens of a budget: those for the answer, and those a request may count.

    `shared` says that the reserve is a share of the budget.
    """

    tokens: int
    reserve: int
    counted: int
    shared: bool

    def needed(self, most: int) -> int:
        """The smallest budget for a request of so many tokens."""
        if not self.shared:
            return most + self.reserve
        return most + min(-(-most // (SHARE - 1)), MOST)


def room_for(prompt: Prompt, env: Env, budget: Budget) -> Room:
    """How much of a budget a request may count, if its count may be too low by a margin."""
    longest = prompt.config.get("max_output_tokens")
    reserve = budget.reserve
    if reserve is None and isinstance(longest, int):
        reserve = longest
    shared = reserve is None
    if reserve is None:
        reserve = min(budget.tokens // SHARE, MOST)
    counted = int((budget.tokens - reserve) / (1 + env.margin))
    return Room(budget.tokens, reserve, counted, shared)


def given_up(env: Env, room: Room, notes: list[Note], before: int, now: int) -> list[Diagnostic]:
    """What was given up, with the figures."""
    origin = Origin("field", "context", env.agent)
    gone = sum(1 for note in notes if note.after is None)
    shorter = sum(1 for note in notes if note.after not in (None, note.before))
    figures = f"{before} tokens became {now}, of {room.counted} there are for it"
    hint = "raise the budget, or give what matters .priority(1)"
    found: list[Diagnostic] = []
    if shorter:
        words = f"{_count(shorter)} shortened to fit the budget of {room.tokens}: {figures}"
        found.append(report("WEFT503", origin, words, hint))
    if gone:
        words = f"{_count(gone)} left out to fit the budget of {room.tokens}: {figures}"
        found.append(report("WEFT501", origin, words, hint))
    return found


def _count(number: int) -> str:
    return "1 item was" if number == 1 else f"{number} items were"


def exceeded(prompt: Prompt, env: Env, room: Room, sizes: Sizes, subject: str) -> BudgetExceeded:
    """The error for what does not fit: by how much, what takes the most, and what to type."""
    most = ceil(sizes.total * (1 + env.margin))
    counted = f"{sizes.total} tokens"
    if env.margin:
        counted += f" ({most} at most, as they are estimated)"
    if room.reserve:
        counted += f" and {room.reserve} are for the answer"
    over = most + room.reserve - room.tokens
    words = f"{subject} {counted}, {over} more than the budget of {room.tokens}"
    return BudgetExceeded(
        f"{words}; {_largest(prompt, env, sizes)}",
        where=f"{env.agent}.context",
        hint=f"write .budget({room.needed(most)}), or a lower reserve=, or shorten what takes"
        f" the most{_without_handles(prompt, env)}",
    )


def _is_for_handles(prompt: Prompt) -> bool:
    """Whether the only tool is the one that gets back what handles stand for."""
    return [tool.name for tool in prompt.tools] == [RECALL]


def _without_handles(prompt: Prompt, env: Env) -> str:
    """What to write where the budget alone brings that tool."""
    brought = _is_for_handles(prompt) and not replace(env.policy, limit=None).makes_handles
    return ', or overflow="drop", which needs no recall' if brought else ""


def _largest(prompt: Prompt, env: Env, sizes: Sizes) -> str:
    """What takes the most of a request, in words."""
    fixed, _ = sizes.split()
    system = env.count(prompt.system_text)
    schema = env.count(compact(prompt.output.schema)) if prompt.output is not None else 0
    tools = fixed - system - schema if prompt.tools else 0  # with what a provider adds for them
    named = f"the tool {RECALL}" if _is_for_handles(prompt) else "the tools"
    found = [(system, "the instruction"), (tools, named), (schema, "the schema")]
    found += [(sizes.item(item), _name(item)) for item in prompt.items]
    found.sort(key=lambda one: -one[0])
    told = [f"{name} {size}" for size, name in found[:3] if size > 0]
    return f"most of it: {', '.join(told)}"


def _name(item: Item) -> str:
    """An item in a few words."""
    if item.kind == "exchange":
        names = [block.name for block in item.blocks if isinstance(block, CallBlock)]
        return f"the call of {', '.join(names)}"
    if item.kind == "user":
        return "the user's message" if item.author == "user" else "a user turn"
    return f"the {item.kind} item of {item.author}" if item.author else f"the {item.kind} item"
