"""A policy's budget: what stays, what gives way, and in which order."""

from collections.abc import Callable, Iterator
from typing import NamedTuple

import msgspec

from weft.declare.policy.transforms import Budget, Overflow
from weft.diagnostics import Diagnostic
from weft.ir import Item, Note, Prompt
from weft.passes.budget_summary import allowance_for, blocks_of, fitted, summary_of
from weft.passes.env import Env, Sizes
from weft.passes.figures import Room, exceeded, given_up, room_for
from weft.passes.knapsack import (
    Given,
    Phase,
    Unit,
    dropped,
    faded,
    give_up,
    shortened,
    stride_for,
    units_of,
)
from weft.passes.restore_references import notes_on_repointed, repointed
from weft.passes.shortening import Shortening
from weft.passes.summaries import Summed, done_without
from weft.passes.turns import opening_of

TIERS = (4, 3, 2)
"""What gives way, the first first; tier 1 never does."""


class Kept(NamedTuple):
    """The indexes of items that stay, and of those that may not even be shortened."""

    stays: set[int]
    whole: set[int]


def keep_limit(
    prompt: Prompt, env: Env, budget: Budget, measure: Callable[[Prompt], Sizes]
) -> Prompt:
    """Give up what the budget has no room for, in the order of its tiers."""
    room = room_for(prompt, env, budget)
    sizes = measure(prompt)
    if sizes.total <= room.counted:
        return prompt
    if budget.overflow == "error":
        raise exceeded(prompt, env, room, sizes, "the request takes")
    fitting = _Fitting(prompt, env, budget, room, measure, sizes)
    if budget.overflow == "summarize":
        spare = allowance_for(room.counted)
        if fitting.fit("drop", room.counted - spare):
            return fitting.done(spare)
    if not fitting.fit(budget.overflow, room.counted):
        left = prompt.with_items(fitting.left())
        raise exceeded(left, env, room, measure(left), "what must stay takes")
    known = any(effect.get("kind") == "summary" for effect in env.effects.values())
    return fitting.done(allowance_for(room.counted) if known else 0)


class _Fitting:
    """One request on its way into its budget."""

    def __init__(
        self,
        prompt: Prompt,
        env: Env,
        budget: Budget,
        room: Room,
        measure: Callable[[Prompt], Sizes],
        sizes: Sizes,
    ) -> None:
        self._prompt = prompt
        self._env = env
        self._budget = budget
        self._room = room
        self._measure = measure
        self._sizes = sizes
        self._items = list(prompt.items)
        self._fixed, self._each = sizes.split()
        self._tiers = [item.priority for item in self._items]
        self._kept = pinned(self._items, self._tiers, env)
        self._stride = 1
        self._given = Given([])
        self._now = sizes.total

    def fit(self, overflow: Overflow, limit: int) -> bool:
        """Give up until no more than `limit` tokens are left; whether that worked."""
        self._given = given = Given(list(self._each))
        self._stride, aim = stride_for(max(limit, 1))
        shorter = Shortening(self._items, given, self._env, self._sizes.item)
        units = units_of(self._items, self._tiers, self._kept.stays)
        why = f"the request exceeded {self._budget.tokens} tokens"
        phases = _phases(units, self._tiers, self._kept, overflow, shorter, why)

        def fits() -> bool:
            self._now = self._measure(self._prompt.with_items(self.left())).total
            return self._now <= limit

        return give_up(phases, self._fixed + sum(self._each) - aim, self._stride, given, fits)

    def left(self) -> list[Item]:
        """The items as they stand by now."""
        left = self._formed()
        return repointed(left, self._items, self._env) if self._given.changes else left

    def _formed(self) -> list[Item]:
        forms = {index: change.form for index, change in self._given.changes.items()}
        found = (forms.get(index, item) for index, item in enumerate(self._items))
        stay = [item for item in found if item is not None]
        if stay and stay[0].blocks and stay[0].blocks[0].role == "model":
            return [opening_of(stay[0]), *stay]  # what stood before it went; it counts as well
        return stay

    def done(self, spare: int) -> Prompt:
        """The prompt that fits, with a summary of what went if `spare` tokens are for one."""
        items, changes = self._items, self._given.changes
        after, wants, said = self.left(), self._prompt.wants, list[Diagnostic]()
        notes = [
            Note("fit_budget", change.why, items[index], change.form)
            for index, change in sorted(changes.items())
        ]
        notes += notes_on_repointed(after, self._formed())
        if spare:
            summary, summed = self._summary(after, spare)
            if summary is not None:
                after = _placed(after, summary)
                self._now = self._measure(self._prompt.with_items(after)).total
                notes.append(Note("fit_budget", "it sums up what went", summary, summary))
            if self._budget.overflow == "summarize" and summed.problem:
                what = "an extract stands for what the budget has no room for"
                said.append(done_without(self._env, what, summed.problem))
                if summed.want is not None and summed.want not in wants:
                    wants = (*wants, summed.want)
        said = [*given_up(self._env, self._room, notes, self._sizes.total, self._now), *said]
        made = self._prompt.with_items(after, notes, said)
        return msgspec.structs.replace(made, wants=wants) if wants else made

    def _summary(self, left: list[Item], spare: int) -> tuple[Item | None, Summed]:
        """What sums up the items that went, within so many tokens; where they degrade, as said."""
        went = [index for index, change in self._given.changes.items() if change.form is None]
        blocks: list[list[Item]] = []
        for tier in TIERS:
            mine = [index for index in went if self._tiers[index] == tier]
            sizes = [self._each[index] for index in mine]
            blocks += blocks_of([self._items[index] for index in mine], sizes, self._stride)
        summed = summary_of(blocks, left, self._env)
        if self._budget.overflow != "summarize":
            if summed.problem:
                return None, summed
            spare = min(spare, self._room.counted - self._now)
        gone = [self._items[index] for index in went]
        return fitted(summed.text, gone, self._env, spare, self._sizes.item), summed


def _placed(items: list[Item], summary: Item) -> list[Item]:
    """The items with the summary at the place of what it sums up."""
    at = sum(1 for item in items if item.position < summary.position)
    return [*items[:at], summary, *items[at:]]


def pinned(items: list[Item], tiers: list[int], env: Env) -> Kept:
    """What stays: tier 1, what is asked, what the agent did last, open calls, what ends it.

    Of what the agent did last a result may be shortened, if nothing else helps.
    """
    stays: set[int] = set()
    whole: set[int] = set()
    said = [i for i, item in enumerate(items) if item.kind == "user" and item.author == "user"]
    started = [i for i in said if env.invocation and items[i].invocation == env.invocation]
    whole.update((*started[:1], *said[-1:]))
    done = [
        index
        for index, item in enumerate(items)
        if item.kind == "exchange" and item.invocation == env.invocation
    ]
    stays.update(done[-1:])
    for index, item in enumerate(items):
        if tiers[index] == 1 or item.kind == "system" or env.is_asked(item):
            whole.add(index)
        if item.open:
            stays.add(index)
    if items and not _may_go_last(items, tiers, stays | whole):
        stays.add(len(items) - 1)
    return Kept(stays | whole, whole)


def _may_go_last(items: list[Item], tiers: list[int], stays: set[int]) -> bool:
    """Whether the very last is in a low tier, and what stays before it ends a request as well."""
    last = len(items) - 1
    before = max((index for index in stays if index < last), default=-1)
    ends = all(item.kind != "model" for item in items[max(before, 0) : last])
    return tiers[last] > 2 and before >= 0 and ends


def _phases(
    units: list[Unit],
    tiers: list[int],
    kept: Kept,
    overflow: Overflow,
    shorter: Shortening,
    why: str,
) -> Iterator[Phase]:
    """What is given up, phase by phase: the lowest tier first, then what else can be shorter."""
    sizes = shorter.given.sizes
    degrades, folds = overflow != "drop", overflow == "degrade"
    for tier in TIERS:
        mine = [i for i, own in enumerate(tiers) if own == tier and i not in kept.stays]
        goes = [unit for unit in units if unit.tier == tier]
        reason = f"{why}, and it is in tier {tier}"
        if not degrades:
            yield dropped(goes, sizes, reason)
            continue
        if folds:
            yield shortened(mine, shorter.fold)
        yield shortened(mine, shorter.refer)
        yield faded(goes, sizes, reason, shorter.cut)
        held = {index for unit in goes for index in unit.indexes}
        yield shortened([index for index in mine if index not in held], shorter.cut)
    last = sorted(kept.stays - kept.whole)
    if folds:
        yield shortened(last, shorter.fold)
    if degrades:
        yield shortened(last, shorter.cut)
