"""Keep the items that fit into a number of tokens: the best, or the newest."""

from bisect import bisect_left
from collections.abc import Iterator, Mapping, Sequence
from itertools import accumulate

import msgspec

from weft.declare.policy_parts import Fit
from weft.ir import Block, Item, Note, Prompt
from weft.ir.prompt import LateSequence
from weft.passes.env import Env, first_from, opening_of
from weft.passes.history import attribute_foreign
from weft.passes.relevant import item_text
from weft.passes.rewrite import keep_since
from weft.passes.shorten import (
    stride_for,
)
from weft.session.strand import Strand


def fit_items(prompt: Prompt, env: Env, options: Fit) -> Prompt:
    """Keep the best items that fit `options.tokens`, and where nothing says which, the newest.

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
    oldest = _fit_oldest(prompt, env, options)
    return oldest if oldest is not None else _fit_best(prompt, env, options)


_OPENING = 16
"""How many tokens an opening turn takes at most."""


def _fit_reason(options: Fit) -> str:
    return f"what is better fills the {options.tokens} tokens that there are"


class _SizeSums:
    """Running sums of the tokens of a strand's settled items, and whether one has a score."""

    def __init__(self) -> None:
        self.sums = [0]
        self.scored = False
        self._turn = self._read = -1
        self._asked: list[Item] = []
        self._mixed = False

    def find_question(self, items: Strand[Item], begins: int, env: Env) -> list[Item] | None:
        """What the user said in the current turn; None where others spoke in it.

        Items of the turn that were read for a request before are not read again.
        """
        if self._turn != env.turn or self._read > items.settled:
            self._turn, self._read, self._asked, self._mixed = env.turn, begins, [], False
        for item in items.between(self._read, items.settled):
            self._mixed = self._mixed or not env.is_current(item)
            self._asked += [item] if item.author == "user" else []
        self._read = items.settled
        if self._mixed or not all(map(env.is_current, items.tail)):
            return None
        return [*self._asked, *(item for item in items.tail if item.author == "user")]


def _fit_oldest(prompt: Prompt, env: Env, options: Fit) -> Prompt | None:
    """As `_fit_best`, where the oldest go: only what is new is looked at.

    None where items have scores, or where others spoke in the current turn.
    """
    items = prompt.items
    begins = first_from(items, env.turn)
    with items.lock:
        known = items.memo[_SizeSums, env.agent, env.model.dialect, env.model.name]
        new = items.between(len(known.sums) - 1, begins)
        known.scored = known.scored or any(item.score for item in new)
        if known.scored:  # then only those that are tried are measured
            return None
        fresh = msgspec.structs.replace(prompt, items=Strand(new))
        known.sums += [*accumulate(item_sizes(fresh, env), initial=known.sums[-1])][1:]
        asked = known.find_question(items, begins, env)
        if asked is None:
            return None
        total = known.sums[begins]
        fresh = msgspec.structs.replace(prompt, items=Strand(asked))
        beside = sum(item_sizes(fresh, env))
        if not begins or total + beside <= options.tokens // 2 - _OPENING:
            return prompt  # there is room for all that is counted with them
        beside += _head(prompt, env, options.tokens // 8)
        if total + beside <= options.tokens:
            return prompt
        stride, limit = stride_for(options.tokens)
        wanted = -(-(total + beside - limit) // stride) * stride
        cut = min(bisect_left(known.sums, wanted, 1, begins + 1), begins)
    # what stays begins with a turn of the user's, not with an answer to one that went
    while cut < begins and items[cut].blocks[0].role != "user":
        cut += 1
    return keep_since(prompt, cut, "fit_items", _fit_reason(options))


def _fit_best(prompt: Prompt, env: Env, options: Fit) -> Prompt:
    """Keep the best that fit. It looks at all items once a turn, or if others spoke in it."""
    items = prompt.items
    begins = first_from(items, env.turn)
    fresh = items.since(begins)
    mixed = not all(map(env.is_current, fresh))
    past = [n for n, item in enumerate(fresh, begins) if mixed and not env.is_current(item)]
    # nothing stands before the current turn, which always stays
    if not begins and not past:
        return prompt
    asked = [item for item in fresh if item.author == "user" and env.is_current(item)]
    beside = sum(item_sizes(msgspec.structs.replace(prompt, items=Strand(asked)), env))
    head = _head(prompt, env, options.tokens // 8)
    with items.lock:
        key = env.agent, env.model.dialect, env.model.name, options
        known = items.memo[_TurnFit, key]
        # where others speak in the turn, what is past grows within it: nothing can be kept
        if mixed or known.basis != (begins, beside, head):
            every = items.between(0, begins) + [fresh[number - begins] for number in past]
            gone = _choose_gone(prompt, every, env, options, beside, head)
            if mixed:
                staying = [item for n, item in enumerate(every[:begins]) if n not in gone]
                late = {past[number - begins] for number in gone if number >= begins}
                rest = [item for n, item in enumerate(fresh, begins) if n not in late]
                notes = _misfits(every, gone, options)
                return prompt.with_items([*staying, *rest], notes) if gone else prompt
            known.fill((begins, beside, head), items, every, gone, _misfits(every, gone, options))
        return known.over(prompt)


def _misfits(items: list[Item], gone: set[int], options: Fit) -> LateSequence[Note]:
    """A note on each item that does not fit."""
    reason = _fit_reason(options)
    return LateSequence(
        lambda: (Note("fit_items", reason, items[number]) for number in sorted(gone)), len(gone)
    )


class _TurnFit:
    """Which items before a turn fit next to what was asked in it, and what there is to say.

    What follows in the turn is appended to them as it comes.
    """

    def __init__(self) -> None:
        self.basis: tuple[int, int, int] | None = None
        self._items: Strand[Item] = Strand()
        self._notes: Sequence[Note] = ()
        self._read = 0

    def fill(
        self,
        basis: tuple[int, int, int],
        items: Strand[Item],
        past: list[Item],
        gone: set[int],
        notes: Sequence[Note],
    ) -> None:
        """Begin anew with those of the past items that fit."""
        self.basis, self._notes, self._read = basis, notes, basis[0]
        self._items = Strand([item for number, item in enumerate(past) if number not in gone])

    def over(self, prompt: Prompt) -> Prompt:
        """The prompt with what fits, and with what follows."""
        items = prompt.items
        # all of it fits: the strand as it is, with all that was derived from it
        if not len(self._notes):
            return prompt
        if self._read > items.settled:  # an older snapshot of the turn
            staying = self._items.between(0, len(self._items) - (self._read - items.settled))
            return prompt.with_items([*staying, *items.tail], self._notes)
        self._items = self._items.grown(items.between(self._read, items.settled))
        self._read = items.settled
        return prompt.with_strand(self._items.with_tail(items.tail), self._notes)


def _choose_gone(
    prompt: Prompt, past: list[Item], env: Env, options: Fit, beside: int, head: int
) -> set[int]:
    """The numbers of the past items that do not fit."""
    if any(item.score for item in past):
        return _worst(prompt, past, env, options.tokens - beside - head)
    sizes = item_sizes(msgspec.structs.replace(prompt, items=Strand(past)), env)
    taken = sum(sizes)
    if taken + beside <= options.tokens // 2 - _OPENING or taken + beside + head <= options.tokens:
        return set()
    return _oldest(past, dict(enumerate(sizes)), options.tokens, beside + head)


def _head(prompt: Prompt, env: Env, most: int) -> int:
    """What an opening turn takes, and of the head what is less than `most`."""
    if env.tokens.measure is None:
        return 0
    fixed, (opening,) = env.tokens.measure(
        msgspec.structs.replace(prompt, items=Strand([opening_of(prompt.items[0])]))
    ).split()
    return min(fixed, most) + (opening if env.thread.opening else 0)


_MEASURED_AT_ONCE = 32
"""How many candidates are measured in one go."""

_MISSES = 32
"""After this many items in a row that do not fit no more are tried: they would have to be measured,
and are hardly about the question."""


def _worst(prompt: Prompt, items: Sequence[Item], env: Env, tokens: int) -> set[int]:
    """All but the best that fit; of two that are equally good, the older goes.

    Items are measured in the order in which they are tried, so a long list of candidates costs
    little more than those that fit.
    """
    order = sorted(range(len(items)), key=lambda number: (-items[number].score, -number))
    gone, room, misses = {*order}, tokens, 0
    for start in range(0, len(order), _MEASURED_AT_ONCE):
        tried = order[start : start + _MEASURED_AT_ONCE]
        some = Strand([items[number] for number in tried])
        sizes = item_sizes(msgspec.structs.replace(prompt, items=some), env)
        for number, size in zip(tried, sizes, strict=True):
            if size <= room:
                room, misses = room - size, 0
                gone.discard(number)
            elif (misses := misses + 1) == _MISSES:
                return gone
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
    if env.tokens.measure is None:
        return [env.tokens.count(item_text(item)) for item in prompt.items]
    key = (env.agent, env.model.dialect, env.model.name)
    known = env.log.memo[_ItemSizes, key]
    missing = [item for item in prompt.items if not _is_known(item, known)]
    if missing:
        forms = [_narrated_alone(item, prompt, env) for item in missing]
        sent = [form for form in forms if form.blocks]
        counted: Iterator[int] = iter(())
        if sent:
            alone = msgspec.structs.replace(prompt, items=Strand(sent))
            counted = iter(env.tokens.measure(alone).split()[1])
        for item, form in zip(missing, forms, strict=True):
            known[item.key] = (item.blocks, next(counted) if form.blocks else 0)
    return [known[item.key][1] for item in prompt.items]


class _ItemSizes(dict[object, tuple[tuple[Block, ...], int]]):
    """What items of a log take: their blocks and their tokens, by the key of the item."""


def _is_known(item: Item, sizes: _ItemSizes) -> bool:
    known = sizes.get(item.key)
    # a pass may have rewritten the item: then it has other blocks
    return known is not None and known[0] is item.blocks


def _narrated_alone(item: Item, prompt: Prompt, env: Env) -> Item:
    """An item as it will be sent; without blocks, where it will not be."""
    if item.author in ("user", env.agent):
        return item
    alone = msgspec.structs.replace(prompt, items=Strand([item]))
    narrated = attribute_foreign(alone, env).items.tip
    return narrated if narrated is not None else msgspec.structs.replace(item, blocks=())
