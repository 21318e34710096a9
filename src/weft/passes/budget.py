"""Keep the whole request within its token budget."""

from bisect import bisect_left
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import replace
from itertools import accumulate
from math import ceil
from typing import NamedTuple, cast

import msgspec

from weft.codes import report
from weft.declare import TokenBudget
from weft.declare.policy_parts import Budget, Fit, Overflow
from weft.diagnostics import Diagnostic, Origin
from weft.errors import BudgetExceeded
from weft.ir import Block, CallBlock, Item, Note, Prompt
from weft.ir.item import RECALL
from weft.passes.env import Env, Sizes, opening_of
from weft.passes.history import attribute_foreign
from weft.passes.references import notes_on_repointed, repointed
from weft.passes.relevant import item_text
from weft.passes.shorten import (
    Given,
    Phase,
    Shortening,
    Unit,
    dropped,
    faded,
    give_up,
    shortened,
    stride_for,
    units_of,
)
from weft.passes.summaries import Summed, allowance_for, blocks_of, done_without, fitted, summary_of
from weft.values import Strand, compact


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
        # imported above

        prompt = keep_limit(prompt, env, env.policy.limit, env.measure)
    if env.budget is not None:
        # imported above

        prompt = drop_oldest(prompt, env, env.budget, env.measure)
    return prompt


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


SHARE, MOST = 10, 4096
"""What is kept for an answer of unknown length: a tenth of the budget, and so many at most."""


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


def item_sizes(prompt: Prompt, env: Env) -> list[int]:
    """The tokens of each item with the turn it takes, kept with the log.

    What other agents said is counted in the words in which the agent is told of it.
    """
    if env.measure is None:
        return [env.count(item_text(item)) for item in prompt.items]
    key = ("item sizes", env.agent, env.dialect, env.model)
    found = env.log.memo.setdefault(key, {})
    held = cast("dict[object, tuple[tuple[Block, ...], int]]", found)
    missing = [item for item in prompt.items if not _is_known(item, held)]
    if missing:
        forms = [_told(item, prompt, env) for item in missing]
        sent = [form for form in forms if form.blocks]
        _, sizes = env.measure(msgspec.structs.replace(prompt, items=Strand(sent))).split()
        counted = iter(sizes)
        for item, form in zip(missing, forms, strict=True):
            held[item.key] = (item.blocks, next(counted) if form.blocks else 0)
    return [held[item.key][1] for item in prompt.items]


def _is_known(item: Item, held: dict[object, tuple[tuple[Block, ...], int]]) -> bool:
    known = held.get(item.key)
    return known is not None and known[0] is item.blocks


def _told(item: Item, prompt: Prompt, env: Env) -> Item:
    """An item as it will be sent; without blocks, where it will not be."""
    if item.author in ("user", env.agent):
        return item
    alone = msgspec.structs.replace(prompt, items=Strand([item]))
    told = attribute_foreign(alone, env).items.tip
    return told if told is not None else msgspec.structs.replace(item, blocks=())
