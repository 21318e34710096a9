"""How many tokens a compiled request takes, whole, block by block, and before it is cut.

What is counted is what is sent: the turns as they were lowered. A final turn is counted once;
the running sums stay with the turns, so one more step costs what it added.
"""

from bisect import bisect_left
from collections.abc import Iterable, Sequence
from functools import partial
from threading import Lock

import msgspec

from weft.dialects import Entry, Lowered, dialect_named
from weft.dialects.measure import HeadCost, Mark, WeighedTurn
from weft.dialects.track import Head, track_of
from weft.ir import Block, Item, Prompt, ResultBlock, TextBlock
from weft.passes import SizePart, Sizes
from weft.session.strand import Strand


class Bound(msgspec.Struct, frozen=True):
    """What an item takes at most, what its thoughts take, and whether the user speaks in it."""

    tokens: int
    thoughts: int
    asks: bool


class _Opening(msgspec.Struct, frozen=True):
    """What a head takes, and what the turns before the conversation take."""

    cost: HeadCost
    lead: int


class _Marks:
    """The sums after each final turn, beginning with none."""

    def __init__(self, marks: list[Mark] | None = None) -> None:
        self.lock = Lock()
        self.marks = [Mark()] if marks is None else marks

    def fork(self, length: int) -> "_Marks":
        """The sums of the first turns alone."""
        with self.lock:
            return _Marks(self.marks[: length + 1])


class _WeighedTurns:
    """Final turns taken apart, as they are counted: one by one, and block by block."""

    def __init__(self, turns: list[WeighedTurn] | None = None) -> None:
        self.lock = Lock()
        self.turns: list[WeighedTurn] = [] if turns is None else turns

    def fork(self, length: int) -> "_WeighedTurns":
        """The first turns alone."""
        with self.lock:
            return _WeighedTurns(self.turns[:length])


class _Bounds:
    """What each settled item takes at most."""

    def __init__(self) -> None:
        self.lock = Lock()
        self.bounds: list[Bound] = []
        self.spoken: list[int] = []
        """Where the user speaks."""

    def add(self, index: int, item: Item, bound: Bound) -> None:
        """Take in one item more."""
        self.bounds.append(bound)
        if _is_said(item):
            self.spoken.append(index)

    def fork(self, length: int) -> "_Bounds":
        """What the first items take alone."""
        bounds = _Bounds()
        with self.lock:
            bounds.bounds = self.bounds[:length]
            bounds.spoken = self.spoken[: bisect_left(self.spoken, length)]
        return bounds


def _is_said(item: Item) -> bool:
    return item.kind == "user" and item.author == "user"


class Scale:
    """Counts for one model in one dialect."""

    def __init__(self, dialect: str, model: str) -> None:
        self.dialect = dialect
        self.model = model
        self.meter = dialect_named(dialect).meter(model)
        self.counter = self.meter.counter
        self.overheads = self.meter.overheads
        self._items: dict[int, tuple[Item, Bound]] = {}
        """What items take by themselves. A report and its diagnostics ask for the same ones."""

    def request(self, lowered: Lowered) -> int:
        """The whole request, as `count_request` counts its wire."""
        return self.count_fixed(lowered) + self.turns(lowered.entries).total

    def count_fixed(self, lowered: Lowered) -> int:
        """Everything but the conversation."""
        opening = self._opening(lowered.head)
        return opening.cost.total + opening.lead

    def head(self, lowered: Lowered) -> HeadCost:
        """Everything but the turns."""
        return self._opening(lowered.head).cost

    def lead(self, lowered: Lowered) -> int:
        """The turns before the conversation, such as a system text that is one."""
        return self._opening(lowered.head).lead

    def _opening(self, head: Head) -> _Opening:
        """What stands before the conversation, counted once for all requests that have it."""
        opening = head.memo.get(self.model)
        if not isinstance(opening, _Opening):
            cost = self.meter.head(self.meter.weigher.head(head.wire))
            loads = [self.meter.turn(entry.wire) for entry in head.lead]
            lead = self.meter.follow(Mark(), loads).total
            opening = head.memo[self.model] = _Opening(cost, lead)
        return opening

    def turns(self, entries: Strand[Entry]) -> Mark:
        """The conversation; marks of final turns are kept with them."""
        counted = entries.memo[_Marks, self.dialect, self.model]
        marks = counted.marks
        settled = entries.settled
        with counted.lock:
            # there is one mark more than turns: the first is that of none
            if len(marks) <= settled:
                for turn in self._settled_turns(entries)[len(marks) - 1 : settled]:
                    marks.append(self.meter.step(marks[-1], self.meter.cost(turn)))
        tail = [self.meter.turn(entry.wire) for entry in entries.since(settled)]
        return self.meter.follow(marks[settled], tail)

    def _settled_turns(self, entries: Strand[Entry]) -> list[WeighedTurn]:
        """The final turns taken apart, and perhaps later ones."""
        weighed = entries.memo[_WeighedTurns, self.dialect]
        with weighed.lock:
            done = len(weighed.turns)
            if done < entries.settled:
                fresh = entries.between(done, entries.settled)
                weighed.turns += [self.meter.weigher.turn(entry.wire) for entry in fresh]
        return weighed.turns

    def _weigh_turns(self, entries: Strand[Entry], start: int = 0) -> list[WeighedTurn]:
        """The turns from one on, taken apart."""
        tail = entries.since(max(start, entries.settled))
        return [
            *self._settled_turns(entries)[start : entries.settled],
            *(self.meter.weigher.turn(entry.wire) for entry in tail),
        ]

    def list_uncounted(self, lowered: Lowered) -> tuple[str, ...]:
        """What the provider adds to a request that nobody else can count."""
        lead = [self.meter.weigher.turn(entry.wire) for entry in lowered.lead]
        turns = [*lead, *self._weigh_turns(lowered.entries)]
        return self.meter.uncounted_in(self.meter.weigher.head(lowered.wire), turns)

    def count_shared(self, entries: Strand[Entry], length: int) -> int:
        """The first turns of a conversation, without thoughts that no longer count in it."""
        mark = self.turns(entries.first(length))
        turns = self._weigh_turns(entries, length)
        spoken = any(turn.asks for turn in turns) and not self.overheads.earlier_thoughts
        return mark.tokens if spoken else mark.total

    def item(self, item: Item) -> int:
        """One item with the turns it takes, by itself."""
        known = self._items.get(id(item))
        if known is None:
            # the item is kept with its size: the id of an object that is gone is given again
            known = self._items[id(item)] = (item, self._bound_item(item))
        return known[1].tokens + known[1].thoughts

    def blocks(self, items: Iterable[Item], lowered: Lowered, first: int = 0) -> dict[int, int]:
        """What each block of the conversation takes, by its `id()`, without its turn's share.

        From turn `first` on, in which these items stand.
        """
        owners = {
            id(media): id(block)
            for item in items
            for block in item.blocks
            if isinstance(block, ResultBlock)
            for media in block.media
        }
        turns = self._weigh_turns(lowered.entries)
        asked = next((index for index in range(len(turns) - 1, 0, -1) if turns[index].asks), 0)
        sizes: dict[int, int] = {}
        fresh = zip(lowered.entries.since(first), turns[first:], strict=True)
        for index, (entry, turn) in enumerate(fresh, first):
            places = dict(entry.blocks)
            for part in turn.parts:
                if part.kind == "thought" and index < asked and not self.overheads.earlier_thoughts:
                    continue
                if entry.joined and part.pointer == "/content":
                    shares = self._shares(part.text, entry)
                elif part.pointer in places:
                    shares = [(places[part.pointer], self.meter.part(part))]
                else:
                    shares = []
                for block, size in shares:
                    key = owners.get(id(block), id(block))
                    sizes[key] = sizes.get(key, 0) + size
        return sizes

    def _shares(self, text: str, entry: Entry) -> list[tuple[Block, int]]:
        """The blocks of a joined text; each takes what it adds to the text before it."""
        shares: list[tuple[Block, int]] = []
        counted = 0
        for end, block in entry.joined:
            # a token across the seam can make a longer text count less
            total = max(counted, self.counter.count(text[:end]))
            shares.append((block, total - counted))
            counted = total
        return shares

    def measure(
        self,
        prompt: Prompt,
        changes: tuple[TextBlock, ...] = (),
    ) -> Sizes:
        """The whole request, with `changes` still to come, and what its items take at most."""
        track = track_of(prompt.items, self.dialect, self.model)
        lowered = dialect_named(self.dialect).lower(prompt, track=track)
        more = 0
        if changes:
            more = self.item(Item("system", changes, "", "", 0, 0, ""))
        split = partial(self._split, prompt, lowered, more)
        part = partial(self._part, prompt, lowered, more)
        return Sizes(self.request(lowered) + more, split, self.item, part)

    def _split(self, prompt: Prompt, lowered: Lowered, more: int) -> tuple[int, list[int]]:
        """What everything but the items takes, and each of the items."""
        part = self._part(prompt, lowered, more, (), 0)
        return part.fixed, part.sizes

    def _part(
        self, prompt: Prompt, lowered: Lowered, more: int, some: Sequence[int], start: int
    ) -> SizePart:
        """Turns that neighbours share, and thoughts before the user's last words, are saved."""
        items, settled = prompt.items, prompt.items.settled
        counted = items.memo[_Bounds, self.dialect, self.model]
        with counted.lock:
            for index in range(len(counted.bounds), settled):
                counted.add(index, items[index], self._bound_item(items[index]))
            spoken = counted.spoken[: bisect_left(counted.spoken, settled)][-1:]
        tail = [self._bound_item(item) for item in items.tail]
        spoken += [i for i, item in enumerate(items.tail, settled) if _is_said(item)]
        asked = 0
        if not self.overheads.earlier_thoughts:
            last = (*spoken[-1:], *range(len(items) - 1, len(items)))
            bounds = ((i, counted.bounds[i] if i < settled else tail[i - settled]) for i in last)
            asked = max((index for index, bound in bounds if bound.asks), default=0)
        sizes = [
            bound.tokens + (bound.thoughts if index >= asked else 0)
            for index, bound in (
                *((index, counted.bounds[index]) for index in some),
                *enumerate(counted.bounds[start:settled], start),
                *enumerate(tail, settled),
            )
        ]
        return SizePart(self.count_fixed(lowered) + more, sizes, asked)

    def _bound_item(self, item: Item) -> Bound:
        entries = dialect_named(self.dialect).turns_of(item, self.model) if item.blocks else []
        loads = [self.meter.turn(entry.wire) for entry in entries]
        turns = sum(load.counts for load in loads) * self.overheads.turn
        tokens = sum(load.tokens for load in loads) + turns
        thoughts = sum(load.thoughts for load in loads)
        return Bound(tokens, thoughts, any(load.asks for load in loads))
