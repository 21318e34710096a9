"""A union `a + b`: what any of several views of the conversation lets through.

A view is the passes of one stage of a policy. An item that several views keep is as the one has it
that leaves most of it, so the order of the views does not matter. What is of the current turn is in
view under every policy. A union costs what is new: it goes on from the union of the request before,
from the first log position at which a view shows something else than it did then.
"""

import sys
from bisect import bisect_left
from collections.abc import Callable, Iterable, Sequence
from functools import partial
from itertools import chain, pairwise, takewhile
from typing import Literal, NamedTuple, TypeAlias

import msgspec

from weft.ir import Item, Note, Prompt, verify
from weft.ir.prompt import LateSequence, PassNotes, show_block
from weft.passes.env import Env, first_from, is_in_log_order, is_spoken
from weft.session.strand import Fork, Strand

Pass: TypeAlias = Callable[[Prompt, Env], Prompt]


class Nature(NamedTuple):
    """What the passes of a verb do to items, and how far they look.

    `does`: "drops" leaves items out, and the others say what they said; "rewrites" changes items,
    each in its place; "shows" leaves all out and shows values instead, as items of kind `state`;
    "replaces" puts others in the place of several; "reports" changes no item.

    `looks`: at an "item" by itself, at all before it as a "fold", for the first item that stays (a
    "suffix"), or at the "whole" conversation at every request, which costs more the longer it is.

    `spares`: nothing that the user asks now is changed, and nothing of the current turn dropped.
    """

    does: Literal["drops", "rewrites", "shows", "replaces", "reports"]
    looks: Literal["item", "fold", "suffix", "whole"]
    spares: bool = False


class StageView(NamedTuple):
    """The passes of one view, and what their natures come to. `view_of` makes it."""

    passes: tuple[Pass, ...]
    key: tuple[object, ...]
    """What tells it from other views."""
    sparing: frozenset[str]
    """The names of those passes that leave the current turn as it is."""
    is_ordered: bool
    """Whether items stay in log order, but for values that are shown."""
    shows: bool
    """Whether it shows values, which stand in any order."""


class Views(msgspec.Struct, frozen=True):
    """Several ways to look at the items, whose results are united."""

    branches: tuple[StageView, ...]


class Step(msgspec.Struct, frozen=True):
    """A pass that changed the prompt: a note for each item it dropped, moved or rewrote.

    `head` says that it changed what stands before the items: system text, tools or options.
    """

    name: str
    notes: Sequence[Note]
    head: bool = False


def name_of(one: Pass) -> str:
    """The name a pass goes by, also where it has its options with it."""
    return one.func.__name__ if isinstance(one, partial) else one.__name__


def view_of(passes: Iterable[tuple[Pass, Nature]]) -> StageView:
    """The view that passes make one after the other, each given with its nature."""
    pairs = [*passes]
    return StageView(
        tuple(one for one, _ in pairs),
        tuple((name_of(one), _options_of(one)) for one, _ in pairs),
        frozenset(name_of(one) for one, nature in pairs if nature.spares),
        is_ordered=all(nature.does in ("drops", "rewrites", "shows") for _, nature in pairs),
        shows=any(nature.does == "shows" for _, nature in pairs),
    )


def _options_of(one: Pass) -> object:
    return one.keywords.get("options") if isinstance(one, partial) else None


class ViewOutcome(NamedTuple):
    """The prompt as a view has it, and the steps that led there."""

    prompt: Prompt
    steps: Sequence[Step]


def unite(
    prompt: Prompt, env: Env, views: Views, outcomes: Sequence[ViewOutcome]
) -> "tuple[Prompt, LateSequence[Step] | None]":
    """What any of the views lets through, in log order, each item once, and the current turn.

    The steps are those of the views, as far as they still hold. They and their notes are worked out
    when somebody reads them. None where the prompt stays as it is.
    """
    diagnostics, wants = prompt.diagnostics, prompt.wants
    for seen, _ in outcomes:
        diagnostics += tuple(one for one in seen.diagnostics if one not in diagnostics)
        wants += tuple(one for one in seen.wants if one not in wants)
    items = _unite_items(prompt, env, views, outcomes)
    adds_reports = len(diagnostics) > len(prompt.diagnostics) or len(wants) > len(prompt.wants)
    # without new items, reports or wants the prompt itself goes on, and what is derived from it
    if items is prompt.items and not adds_reports:
        return prompt, None
    steps = LateSequence(partial(_steps_that_hold, items, outcomes))
    notes = LateSequence(lambda: [note for step in steps for note in step.notes])
    after = msgspec.structs.replace(
        prompt, items=items, notes=prompt.notes.plus(notes), diagnostics=diagnostics, wants=wants
    )
    # each view was verified by itself, their union was not
    verify(after, step="unite")
    return after, steps


def _unite_items(
    prompt: Prompt, env: Env, views: Views, outcomes: Sequence[ViewOutcome]
) -> Strand[Item]:
    """The items of a union; the prompt's own strand, if all of them stay as they are."""
    items, branches = prompt.items, views.branches
    is_ordered = all(view.is_ordered for view in branches)
    # a single view that leaves the current turn alone is the union: the usual case
    if is_ordered and len(branches) == 1 and not branches[0].shows:
        (view,), (outcome,) = branches, outcomes
        steps = outcome.steps
        if all(one.name in view.sparing or _is_past(one.notes, env) for one in steps):
            return outcome.prompt.items
    view_items = [
        _ShownItems(outcome.prompt.items, view.shows)
        for view, outcome in zip(branches, outcomes, strict=True)
    ]
    if not is_ordered or not is_in_log_order(items):
        chosen = Strand(_choose_items(prompt, env, view_items))
        same = len(chosen) == len(items) and all(map(_is_same, chosen, items))
        return items if same and not any(map(_rewrites, outcomes)) else chosen
    with items.lock:
        union = items.memo[_Union, env.agent, tuple(view.key for view in branches)]
        if union.read > items.settled:  # an older snapshot is worked out by itself
            union = _Union()
        return union.go_on(prompt, env, view_items)


def _is_same(one: Item, other: Item) -> bool:
    return one is other


def _rewrites(outcome: ViewOutcome) -> bool:
    """Whether a view says of an item that it is another now."""
    return any(note.after is not None for step in outcome.steps for note in step.notes)


# --- whether a view leaves the current turn alone


def _is_past(notes: Sequence[Note], env: Env) -> bool:
    """Whether nothing that the user asks was changed, and nothing of the current turn dropped."""
    for part in notes.parts if isinstance(notes, PassNotes) else (notes,):
        if isinstance(part, LateSequence):  # to read them would cost more than to unite
            return False
        newest, fresh = -1, part
        if isinstance(part, Strand):
            with part.lock:
                known = part.memo[_NewestChange, env.agent]
                known.read(part, env.agent)
            newest, fresh = known.position, part.tail
        if max((_changed_position(note, env.agent) for note in fresh), default=newest) >= env.turn:
            return False
        if newest >= env.turn:
            return False
    return True


class _NewestChange:
    """The highest log position at which notes say that something of an agent's turn has changed."""

    def __init__(self) -> None:
        self.position = -1
        self._read = 0

    def read(self, notes: Strand[Note], agent: str) -> None:
        """Read the settled notes that were not read yet."""
        for note in notes.between(self._read, notes.settled):
            self.position = max(self.position, _changed_position(note, agent))
        self._read = max(self._read, notes.settled)


def _changed_position(note: Note, agent: str) -> int:
    """Where a note changes what would be of the current turn, if that began there; else -1."""
    item = note.before
    drops = note.after is None and (item.author in ("user", agent) or item.kind == "summary")
    return item.position if drops or is_spoken(item) else -1


# --- which items a union has


class _ShownItems(NamedTuple):
    """The items that a view shows; values among them stand in any order (`unsorted`)."""

    items: Strand[Item]
    unsorted: bool

    def since(self, start: int) -> list[Item]:
        """Those from a log position on."""
        items = self.items
        if self.unsorted:  # each of them has to be looked at
            return [item for item in items if item.position >= start]
        return items.since(bisect_left(items, start, key=_position))


def _choose_items(prompt: Prompt, env: Env, view_items: Sequence[_ShownItems]) -> list[Item]:
    """The items of a union by its rule, all of them: views or items stand in no log order."""
    chosen = _choose((one.items for one in view_items), _current_items(prompt.items, env), env)
    return _in_order_of(prompt.items, chosen)


def _current_items(items: Iterable[Item], env: Env) -> list[Item]:
    """Items of the current turn: they are in view under every policy but C.nothing()."""
    return [] if env.policy.facts.view == "nothing" else [*filter(env.is_current, items)]


def _choose(
    view_items: Iterable[Iterable[Item]], current: Iterable[Item], env: Env
) -> dict[object, Item]:
    """Of each item that is shown the fullest form; what the user asks stands as it was asked."""
    chosen: dict[object, Item] = {}
    for items in view_items:
        for item in items:
            other = chosen.get(item.key)
            if other is None or (other is not item and _weight(item) > _weight(other)):
                chosen[item.key] = item
    for item in current:
        if env.is_asked(item):
            chosen[item.key] = item
        else:
            chosen.setdefault(item.key, item)
    return chosen


def _weight(item: Item) -> tuple[int, int, str]:
    """How much an item says; a higher tier decides first."""
    text = "\n".join(show_block(block) for block in item.blocks)
    return -item.priority, len(text), text


def _in_order_of(originals: Iterable[Item], chosen: dict[object, Item]) -> list[Item]:
    """The chosen items as these stand; what was added follows what happened before it."""
    staying = [chosen.pop(item.key) for item in originals if item.key in chosen]
    added = sorted(chosen.values(), key=lambda item: (item.position, item.event), reverse=True)
    items: list[Item] = []
    for item in staying:
        while added and added[-1].position < item.position:
            items.append(added.pop())
        items.append(item)
    return [*items, *reversed(added)]


class _Union:
    """A union as it was in the newest request, and what each view showed then."""

    def __init__(self) -> None:
        self.read = 0
        self._items: Strand[Item] = Strand()
        self._view_items: list[_ShownItems] = []
        self._current: Strand[Item] = Strand()
        self._turn = self._looked = -1
        self._end = 0
        """From which log position on nothing is kept: a view may settle what the log has not."""
        self._same = 0
        """How many of the first items are those of the prompt."""

    def go_on(self, prompt: Prompt, env: Env, view_items: list[_ShownItems]) -> Strand[Item]:
        """The union of what is shown now, which may be other than before."""
        items = prompt.items
        # what is of the current turn is one more view, the last
        now = [*view_items, _ShownItems(self._current_of(items, env), unsorted=False)]
        before = self._view_items or [_ShownItems(Strand(), one.unsorted) for one in now]
        # before this log position all views show what they showed before
        start = min(self._end, *map(_first_change, before, now))
        unchanged = bisect_left(self._items, start, 0, self._items.settled, key=_position)
        # what follows the first unsettled item may still change: it goes into the tail
        end = items.tail[0].position if items.tail else sys.maxsize
        *others, current = (one.since(start) for one in now)
        fresh = _in_log_order(_choose(others, current, env), start, items)
        settled = self._items if unchanged == self._items.settled else self._items.fork(unchanged)
        final = bisect_left(fresh, end, key=_position)
        self._items = settled.grown(fresh[:final]) if final else settled
        self._view_items, self.read, self._end = now, items.settled, end
        return self._prompts_own(items, self._items.with_tail(fresh[final:]), unchanged)

    def _prompts_own(
        self, items: Strand[Item], union: Strand[Item], unchanged: int
    ) -> Strand[Item]:
        """The items of the prompt, where the union is just these; else the union."""
        if len(union) != len(items):
            self._same = 0
            return union
        self._same = min(self._same, unchanged)
        pairs = zip(union.since(self._same), items.since(self._same), strict=True)
        same = self._same + sum(1 for _ in takewhile(lambda pair: pair[0] is pair[1], pairs))
        self._same = min(same, self._items.settled)
        return items if same == len(items) else union

    def _current_of(self, items: Strand[Item], env: Env) -> Strand[Item]:
        """The items of the current turn; each is looked at once."""
        if self._turn != env.turn:
            self._turn, self._looked = env.turn, first_from(items, env.turn)
            self._current = Strand()
        fresh = items.between(self._looked, items.settled)
        self._current = self._current.grown(_current_items(fresh, env))
        self._looked = items.settled
        return self._current.with_tail(_current_items(items.tail, env))


def _in_log_order(chosen: dict[object, Item], start: int, items: Strand[Item]) -> list[Item]:
    """The chosen items, all from one log position on, in the order of the log."""
    ordered = sorted(chosen.values(), key=_place)
    if any(
        one.position == other.position and other.kind != "state" for one, other in pairwise(ordered)
    ):
        # several items of one event stand as they stood before
        return _in_order_of(items.since(first_from(items, start)), chosen)
    return ordered


def _first_change(before: _ShownItems, now: _ShownItems) -> int:
    """The log position of the first item at which a view shows something else than before."""
    old, new = before.items, now.items
    fork = new.memo.get(Fork)
    # the strand has only grown
    if old.shares(new):
        same = min(old.settled, new.settled)
    # it was cut back and grown again: the same up to the cut
    elif isinstance(fork, Fork) and fork.memo is old.memo:
        same = min(old.settled, new.settled, fork.length)
    else:
        pairs = enumerate(zip(old, new, strict=False))
        differ = (
            at for at, (one, other) in pairs if one is not other and not _is_again(one, other)
        )
        same = next(differ, min(len(old), len(new)))
    if now.unsorted:
        both = (*old.since(same), *new.since(same))
        return min(map(_position, both), default=sys.maxsize)
    firsts = [items[same].position for items in (old, new) if same < len(items)]
    return min(firsts, default=sys.maxsize)


def _is_again(one: Item, other: Item) -> bool:
    """Whether a value is shown again as it was."""
    return one.kind == "state" and one == other


def _position(item: Item) -> int:
    return item.position


def _place(item: Item) -> tuple[int, bool, str]:
    """What items are sorted by: a value follows what happened before it."""
    return item.position, item.kind == "state", item.event if item.kind == "state" else ""


# --- what is said of a union


def _steps_that_hold(items: Sequence[Item], outcomes: Sequence[ViewOutcome]) -> list[Step]:
    """The steps of the views with the notes that hold for their union. O(n), not for a request.

    An item that is in no view is gone for the reasons of the first view that dropped it. Of one
    that is in view, the notes count of the view that has it as it is sent.
    """
    sent: dict[object, Item] = {item.key: item for item in items}
    changes: dict[object, list[tuple[str, Note]] | None] = {}
    dropped: dict[object, list[tuple[str, Note]]] = {}
    for seen, steps in outcomes:
        notes: dict[object, list[tuple[str, Note]]] = {}
        for step in steps:
            for note in step.notes:
                notes.setdefault(note.before.key, []).append((step.name, note))
        in_view: dict[object, Item] = {item.key: item for item in seen.items}
        for key, item in in_view.items():
            if changes.setdefault(key, None) is None and (item is sent[key] or item == sent[key]):
                changes[key] = [one for one in notes.get(key, ()) if one[1].after is not None]
        for key, reasons in notes.items():
            if key not in in_view and key not in sent:
                dropped.setdefault(key, reasons)
    by_step: dict[str, list[Note]] = {}
    holding = (one or () for one in changes.values())
    for name, note in chain.from_iterable((*dropped.values(), *holding)):
        by_step.setdefault(name, []).append(note)
    return [Step(name, tuple(notes)) for name, notes in by_step.items()]
