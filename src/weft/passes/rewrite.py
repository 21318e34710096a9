"""The one loop over items, and what it keeps, so that one more step costs what it added.

There are three forms of passes. An *item-local* pass is a function of one item and of a key. A
*fold* also knows the items before it. A *suffix* keeps the items from one on. Each keeps its
outcome for the settled items with the strand they are in, and its outcome is a strand too. So
what follows (other passes, lowering, counting) is kept with that strand in turn. Where something
reaches back, somebody makes another strand, with an empty memo: nothing stale can be found.
"""

import sys
from bisect import bisect_left
from collections.abc import Callable, Hashable, Sequence
from operator import itemgetter
from typing import Generic, NamedTuple, TypeVar, assert_never, cast

import msgspec

from weft.ir.block import (
    Block,
    CallBlock,
    CodeBlock,
    CodeResultBlock,
    Item,
    MediaBlock,
    Note,
    OpaqueBlock,
    ResultBlock,
    TextBlock,
    ThoughtBlock,
)
from weft.ir.prompt import LateSequence, Prompt
from weft.session.strand import Strand
from weft.values import Json, JsonObject

State = TypeVar("State")

MOST_KEPT = 8
"""How many outcomes of one pass a strand keeps: one for each key, the oldest goes first."""


class PassFold(Generic[State]):
    """What a pass knows of the items before one.

    `start` is what it knows before the first, `over` gives a passing copy for a tail, and `back`,
    where there is one, what it knew after the first `length` items.
    """

    __slots__ = ("back", "over", "start")

    def __init__(
        self,
        start: Callable[[], State],
        over: Callable[[State], State],
        back: Callable[[State, int], State] | None = None,
    ) -> None:
        self.start = start
        self.over = over
        self.back = back


_NO_FOLD: PassFold[None] = PassFold(lambda: None, lambda state: state, lambda state, length: state)


class _Outcome:
    """What one pass made of the settled items of a strand, as far as it has read them.

    `items` is None as long as nothing was changed: then the strand itself is the outcome.
    """

    __slots__ = (
        "back", "done", "drops", "earliest", "items", "notes", "pending", "places", "read", "state"
    )  # fmt: skip

    def __init__(self, state: object, back: Callable[[object, int], object] | None) -> None:
        self.read = 0
        self.back = back
        self.items: Strand[Item] | None = None
        self.notes: Strand[Note] | None = None
        """Most passes say nothing."""
        self.places: list[int] = []
        """Which item each note is about."""
        self.drops: list[int] = []
        """Which items were dropped."""
        self.pending: list[tuple[int, Note]] = []
        """Changes that wait until their turn is over: which item, and the note."""
        self.earliest = sys.maxsize
        """The lowest log position that waits."""
        self.done = -1
        """The highest log position that was changed: `until` may not fall to it or below."""
        self.state = state

    def fork(self, length: int) -> "_Outcome | None":
        """What became of the first items alone; None where the pass cannot tell."""
        if self.back is None:
            return None
        length = min(length, self.read)
        outcome = _Outcome(self.back(self.state, length), self.back)
        outcome.read, outcome.done = length, self.done
        outcome.places = self.places[: bisect_left(self.places, length)]
        outcome.drops = self.drops[: bisect_left(self.drops, length)]
        if self.notes is not None:
            outcome.notes = self.notes.fork(len(outcome.places))
        if self.items is not None:
            outcome.items = self.items.fork(length - len(outcome.drops))
        outcome.pending = [one for one in self.pending if one[0] < length]
        waiting = (note.before.position for _, note in outcome.pending)
        outcome.earliest = min(waiting, default=sys.maxsize)
        return outcome


class _Outcomes:
    """The outcomes of all passes over one strand, by pass and key."""

    def __init__(self) -> None:
        self.by_key: dict[tuple[str, object], _Outcome] = {}

    def fork(self, length: int) -> "_Outcomes":
        """The outcomes for the first items alone."""
        outcomes = _Outcomes()
        for slot, outcome in self.by_key.items():
            forked = outcome.fork(length)
            if forked is not None:
                outcomes.by_key[slot] = forked
        return outcomes

    def put(self, slot: tuple[str, object], outcome: _Outcome) -> None:
        same = [one for one in self.by_key if one[0] == slot[0]]
        if slot not in self.by_key and len(same) >= MOST_KEPT:
            del self.by_key[same[0]]
        self.by_key[slot] = outcome


class _Delay(NamedTuple):
    """From which log position on changes wait, and whose."""

    until: int
    waits: Callable[[Item], bool] | None

    def concerns(self, item: Item) -> bool:
        return self.waits is None or self.waits(item)


class Rewritten(NamedTuple, Generic[State]):
    """A prompt as a pass left it, and the state of the pass after the last item."""

    prompt: Prompt
    state: State


def rewrite_items(
    prompt: Prompt,
    step: str,
    change: Callable[[Item, State], "Item | Note"],
    *,
    key: Hashable = None,
    fold: PassFold[State] | None = None,
    until: int | None = None,
    waits: Callable[[Item], bool] | None = None,
) -> Prompt:
    """The prompt with every item as `change` has it; the prompt itself where nothing changes.

    `change` gives the item itself, another in its place, or a note on what becomes of it. It may
    look at the item, at what `key` names and at the state of `fold`, and at nothing else: its
    answer is kept. Changes of items at or after the log position `until` wait for it to move on,
    of all or of those for which `waits` is true.
    """
    if fold is None and until is None and not prompt.items.settled:  # as `fold_items`, for short
        return _rewrite_tail(prompt, None, change, None, None)  # type: ignore[misc]
    return fold_items(prompt, step, change, key=key, fold=fold, until=until, waits=waits).prompt


def fold_items(
    prompt: Prompt,
    step: str,
    change: Callable[[Item, State], "Item | Note"],
    *,
    key: Hashable = None,
    fold: PassFold[State] | None = None,
    until: int | None = None,
    waits: Callable[[Item], bool] | None = None,
) -> Rewritten[State]:
    """As `rewrite_items`, with the state after the last item; it is not to be changed."""
    items = prompt.items
    delay = _Delay(until, waits) if until is not None else None
    folding = fold if fold is not None else cast("PassFold[State]", _NO_FOLD)
    if not items.settled:  # new items, which the thread keeps once they are final
        state = folding.start()
        return Rewritten(_rewrite_tail(prompt, None, change, state, delay), state)
    with items.lock:
        outcomes = items.memo[_Outcomes]
        outcome = outcomes.by_key.get((step, key))
        back = cast("Callable[[object, int], object] | None", folding.back)
        if outcome is not None and outcome.read > items.settled:
            outcome = _Outcome(folding.start(), back)  # an older snapshot is worked out by itself
        # if `until` fell below a change that was made, that change must be undone: begin anew
        elif outcome is None or (until is not None and outcome.done >= until):
            outcome = _Outcome(folding.start(), back)
            outcomes.put((step, key), outcome)
        if outcome.read < items.settled:
            try:
                _advance(outcome, items, change, delay)
            except BaseException:
                outcomes.by_key.pop((step, key), None)  # its state may be half way
                raise
        if until is not None and outcome.earliest < until:
            _release(outcome, items, until)
        state = cast("State", outcome.state)
        if items.tail:
            # a copy of the state: the tail is not final, and the next request has another
            state = folding.over(state)
            return Rewritten(_rewrite_tail(prompt, outcome, change, state, delay), state)
        if outcome.items is None:
            return Rewritten(prompt, state)
        notes = outcome.notes if outcome.notes is not None else ()
        return Rewritten(prompt.with_strand(outcome.items, notes), state)


def _rewrite_tail(
    prompt: Prompt,
    outcome: _Outcome | None,
    change: Callable[[Item, State], "Item | Note"],
    state: State,
    delay: "_Delay | None",
) -> Prompt:
    """The prompt with what became of its settled items, and its tail changed on top of that."""
    items = prompt.items
    tail: list[Item] = []
    notes: list[Note] = []
    changed = False
    for item in items.tail:
        after = change(item, state)
        if after is item:
            tail.append(item)
        elif isinstance(after, Item):
            tail.append(after)
            changed = True
        elif delay is not None and item.position >= delay.until and delay.concerns(item):
            tail.append(item)
        else:
            changed = True
            notes.append(after)
            if after.after is not None:
                tail.append(after.after)
    settled = outcome.items if outcome is not None else None
    if not changed and settled is None:
        return prompt
    if settled is None:
        settled = items.first(items.settled)
    known = outcome.notes if outcome is not None else None
    all_notes = known.with_tail(notes) if known is not None else notes
    return prompt.with_strand(settled.with_tail(tail), all_notes)


def _advance(
    outcome: _Outcome,
    items: Strand[Item],
    change: Callable[[Item, State], "Item | Note"],
    delay: "_Delay | None",
) -> None:
    """Read the settled items that were not read yet."""
    state = cast("State", outcome.state)
    start = outcome.read
    rewritten: list[Item] = []
    notes: list[Note] = []
    for index, item in enumerate(settled_since(items, start), start):
        after = change(item, state)
        if after is item:
            rewritten.append(item)
            continue
        if isinstance(after, Note) and delay is not None and delay.concerns(item):
            if item.position >= delay.until:
                outcome.pending.append((index, after))
                outcome.earliest = min(outcome.earliest, item.position)
                rewritten.append(item)
                continue
            outcome.done = max(outcome.done, item.position)
        # up to here nothing was changed: those items are shared, not copied
        if outcome.items is None:
            outcome.items, rewritten = items.fork(index), []
        if isinstance(after, Item):
            rewritten.append(after)
            continue
        notes.append(after)
        outcome.places.append(index)
        if after.after is not None:
            rewritten.append(after.after)
        else:
            outcome.drops.append(index)
    outcome.read = items.settled
    if outcome.items is not None:
        outcome.items = outcome.items.grown(rewritten)
    if notes:
        known: Strand[Note] = outcome.notes if outcome.notes is not None else Strand()
        outcome.notes = known.grown(notes)


def _release(outcome: _Outcome, items: Strand[Item], until: int) -> None:
    """Make the changes whose turn is over; what was sent changes from the first of them on."""
    ready = [one for one in outcome.pending if one[1].before.position < until]
    outcome.pending = [one for one in outcome.pending if one[1].before.position >= until]
    waiting = (note.before.position for _, note in outcome.pending)
    outcome.earliest = min(waiting, default=sys.maxsize)
    first = ready[0][0]
    now = outcome.items if outcome.items is not None else items.first(outcome.read)
    gone = bisect_left(outcome.drops, first)
    # an item stands before its number by as many as were dropped before it
    rest: list[Item | None] = list(now.between(first - gone, now.settled))
    for index, note in ready:
        place = index - first - (bisect_left(outcome.drops, index) - gone)
        rest[place] = note.after
        outcome.done = max(outcome.done, note.before.position)
    outcome.items = now.fork(first - gone).grown([item for item in rest if item is not None])
    dropped = [index for index, note in ready if note.after is None]
    if dropped:
        outcome.drops[gone:] = sorted((*outcome.drops[gone:], *dropped))
    known = bisect_left(outcome.places, first)
    notes: Strand[Note] = outcome.notes if outcome.notes is not None else Strand()
    if known < len(outcome.places):  # notes stay in the order of the items
        later = zip(outcome.places[known:], notes.since(known), strict=True)
        ready = sorted((*later, *ready), key=itemgetter(0))
        notes = notes.fork(known)
    outcome.places[known:] = [index for index, _ in ready]
    outcome.notes = notes.grown([note for _, note in ready])


class _Newest(NamedTuple):
    """The settled items of a strand from one on, as they were asked for last."""

    start: int
    end: int
    items: Sequence[Item]


def settled_since(items: Strand[Item], start: int) -> Sequence[Item]:
    """The settled items from one on, for whoever holds the lock and leaves the sequence as it is.

    Passes that follow each other ask for the same ones: they are taken out of the strand once.
    """
    newest = items.memo.of(_Newest)
    if newest is None or (newest.start, newest.end) != (start, items.settled):
        newest = _Newest(start, items.settled, items.between(start, items.settled))
        items.memo[_Newest] = newest
    return newest.items


class _Suffix:
    """The settled items of a strand from one on, and a note on each before it."""

    __slots__ = ("items", "notes", "read", "start")

    def __init__(self) -> None:
        self.start = self.read = 0
        self.items: Strand[Item] = Strand()
        self.notes: Strand[Note] = Strand()


def keep_since(
    prompt: Prompt,
    start: int,
    step: str,
    reason: "str | Callable[[int], str]",
    *,
    key: Hashable = None,
) -> Prompt:
    """The prompt without its first `start` items, each of which gets a note.

    A reason that depends on the request is a function of the item's number; then `key` says whose
    start it is.
    """
    items = prompt.items
    with items.lock:
        settled = items.settled
        slot = (step, reason if isinstance(reason, str) else key)
        suffix = items.memo[_Suffix, slot]
        alone = start > settled or suffix.read > settled or start < suffix.start
        if alone:  # the start lies in the tail, or an older snapshot: worked out by itself
            suffix = _Suffix()
        notes: Sequence[Note]
        if not isinstance(reason, str):
            gone = items.first(start)
            notes = LateSequence(
                lambda: (Note(step, reason(number), item) for number, item in enumerate(gone)),
                start,
            )
        else:
            fresh = items.between(len(suffix.notes), start)
            suffix.notes = suffix.notes.grown([Note(step, reason, item) for item in fresh])
            notes = suffix.notes
        if alone:
            return prompt.with_strand(Strand(items.since(start)), notes)
        if suffix.start < start:
            suffix.items = Strand()
            suffix.start = suffix.read = start
        if suffix.read < settled:
            suffix.items = suffix.items.grown(items.between(suffix.read, settled))
            suffix.read = settled
        return prompt.with_strand(suffix.items.with_tail(items.tail), notes)


class _PrependedStrand:
    """The settled items of a strand after some that never change."""

    def __init__(self) -> None:
        self.read = 0
        self.items: Strand[Item] = Strand()


def prepend_items(
    prompt: Prompt,
    first: Sequence[Item],
    *,
    step: str,
    key: Hashable,
    notes: Sequence[Note] = (),
) -> Prompt:
    """The prompt with items before its first, the same in every request; `key` names them."""
    items = prompt.items
    with items.lock:
        prepended = items.memo[_PrependedStrand, step, key]
        if prepended.read > items.settled:  # an older snapshot is worked out by itself
            prepended = _PrependedStrand()
        if not len(prepended.items):
            prepended.items = prepended.items.grown(first)
        if prepended.read < items.settled:
            more = items.between(prepended.read, items.settled)
            prepended.items = prepended.items.grown(more)
            prepended.read = items.settled
        return prompt.with_strand(prepended.items.with_tail(items.tail), notes)


def map_blocks(item: Item, function: Callable[[Block], Block]) -> Item:
    """The item with every block as `function` has it; the item itself where none changes."""
    blocks = tuple(map(function, item.blocks))
    if all(new is old for new, old in zip(blocks, item.blocks, strict=True)):
        return item
    return msgspec.structs.replace(item, blocks=blocks)


def map_texts(item: Item, function: Callable[[str], str]) -> Item:
    """The item with every text in it as `function` has it: words, thoughts, results, code.

    Calls, media and what a provider keeps for itself are not texts. A thought in other words loses
    its signature, since no provider would accept it.
    """
    return map_blocks(item, lambda block: _map_text(block, function))


def _map_text(block: Block, function: Callable[[str], str]) -> Block:
    match block:
        case TextBlock():
            text = function(block.text)
            if text == block.text:
                return block
            return msgspec.structs.replace(block, text=text, spans=())
        case CallBlock():
            return block
        case _:
            return map_fields(block, function, lambda value: _map_json(value, function))


def map_fields(
    block: Block, text: Callable[[str], str], value: Callable[[JsonObject], Json]
) -> Block:
    """The block with other words in it, and other values; the block itself where none changes.

    A text has spans, which only its caller can move, so it stays; media and what a provider keeps
    for itself have no words. `value` gives an object for an object, the same if nothing changes.
    """
    match block:
        case ThoughtBlock():
            words = text(block.text)
            if words == block.text:
                return block
            # a signed thought cannot go back in other words, so its signature does not either
            return msgspec.structs.replace(block, text=words, signature=None, kept=None)
        case CallBlock():
            args = value(block.args)
            return block if args is block.args else msgspec.structs.replace(block, args=args)
        case ResultBlock():
            response = value(block.response)
            if response is block.response:
                return block
            return msgspec.structs.replace(block, response=response)
        case CodeBlock():
            code = text(block.code)
            return block if code == block.code else msgspec.structs.replace(block, code=code)
        case CodeResultBlock():
            output = text(block.output)
            if output == block.output:
                return block
            return msgspec.structs.replace(block, output=output)
        case TextBlock() | MediaBlock() | OpaqueBlock():
            return block
        case _:
            assert_never(block)


def _map_json(value: Json, function: Callable[[str], str]) -> Json:
    match value:
        case str():
            text = function(value)
            return value if text == value else text
        case dict():
            fields = {name: _map_json(each, function) for name, each in value.items()}
            return value if all(fields[name] is value[name] for name in value) else fields
        case list():
            listed = [_map_json(each, function) for each in value]
            same = all(new is old for new, old in zip(listed, value, strict=True))
            return value if same else listed
        case _:
            return value
