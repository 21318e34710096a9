"""The pipeline: the only place that calls passes.

Which passes run is a policy's business (`passes_of` in `verbs.py`). Those on fresh items see what
is new since the last compilation, so a step costs what it added; what they decide is final. Those
on the request see all of it and touch only its edges, or say what it costs.
"""

import sys
from bisect import bisect_left
from collections.abc import Callable, Iterator, Sequence
from functools import partial
from itertools import chain, pairwise, takewhile
from typing import TypeAlias, cast, overload

import msgspec

from weft.ir import Item, Note, Prompt, Want, verify
from weft.ir.prompt import LateNotes, PassNotes, show_block
from weft.passes.env import Env, first_from, is_in_log_order
from weft.session.strand import Fork, Strand

Pass: TypeAlias = Callable[[Prompt, Env], Prompt]


class Views(msgspec.Struct, frozen=True):
    """Several ways to look at the items, each a tuple of passes, whose results are united."""

    branches: tuple[tuple[Pass, ...], ...]


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


def names_of(passes: tuple[Pass | Views, ...]) -> list[str]:
    """The names of passes in the order they run, each once."""
    names: list[str] = []
    for one in passes:
        inner = one.branches if isinstance(one, Views) else ((one,),)
        names += [name_of(each) for branch in inner for each in branch]
    return list(dict.fromkeys(names))


class Steps(Sequence[Step]):
    """The steps of a compilation; those of a union are worked out when somebody reads them."""

    __slots__ = ("_parts",)

    def __init__(self) -> None:
        self._parts: list[Step | Callable[[], list[Step]]] = []

    def add(self, *steps: "Step | Callable[[], list[Step]]") -> None:
        """Put steps behind the others."""
        self._parts += steps

    def _all(self) -> list[Step]:
        steps: list[Step] = []
        for part in self._parts:
            steps += [part] if isinstance(part, Step) else part()
        self._parts = [*steps]
        return steps

    def __len__(self) -> int:
        return len(self._all())

    def __iter__(self) -> Iterator[Step]:
        return iter(self._all())

    @overload
    def __getitem__(self, index: int) -> Step: ...
    @overload
    def __getitem__(self, index: slice) -> Sequence[Step]: ...
    def __getitem__(self, index: int | slice) -> Step | Sequence[Step]:
        return self._all()[index]

    def __eq__(self, other: object) -> bool:
        return isinstance(other, Sequence) and self._all() == [*cast("Sequence[object]", other)]

    __hash__ = None  # type: ignore[assignment]


def run(prompt: Prompt, env: Env, passes: tuple[Pass | Views, ...]) -> tuple[Prompt, Steps]:
    """Run the passes in order; verify after each that changed anything, and record a step."""
    steps = Steps()
    for one in passes:
        if isinstance(one, Views):
            prompt, united = _unite(prompt, env, one)
            steps.add(*united)
            continue
        after = one(prompt, env)
        if after is not prompt:
            name = name_of(one)
            verify(after, step=name, before=prompt)
            steps.add(Step(name, after.notes.since(prompt.notes), _changes_head(prompt, after)))
            prompt = after
    return prompt, steps


def _changes_head(before: Prompt, after: Prompt) -> bool:
    return (
        before.system != after.system
        or before.tools != after.tools
        or before.config != after.config
        or before.output != after.output
    )


_DROPS = frozenset(
    {
        "select_window",
        "select_items",
        "select_user",
        "select_turn",
        "select_recent",
        "select_relevant",
        "fit_items",
    }
)
"""Passes that only drop items, and keep the others as they are."""

_SPARING = frozenset(
    {"select_items", "select_turn", "select_recent", "select_relevant", "fit_items"}
)
"""Those of them that never drop anything of the current turn."""

_REWRITES = frozenset(
    {
        "compact_items",
        "compact_past",
        "dedupe_items",
        "mark_stale",
        "project_results",
        "set_priority",
        "truncate_items",
        "truncate_past",
    }
)
"""Passes that only rewrite items, each in its place."""

_SHOWS = frozenset({"insert_state", "insert_memories"})
"""Passes that drop everything, and show items of kind `state` instead."""


class _Checked:
    """How many notes were looked at in which turn, and whether all of them were harmless."""

    def __init__(self) -> None:
        self.turn = self.notes = 0
        self.newest = -1
        """The highest log position of a note that was looked at."""
        self.harmless = True

    def read(self, notes: "Strand[Note]", env: Env) -> None:
        """Look at the settled notes that were not looked at in this turn."""
        if self.turn != env.turn:
            self.turn, self.harmless = env.turn, True
            if self.newest >= env.turn:  # else all of them are about earlier turns
                self.notes = 0
        for note in notes.between(self.notes, notes.settled):
            self.harmless = self.harmless and _is_harmless(note, env)
            self.newest = max(self.newest, note.before.position)
        self.notes = max(self.notes, notes.settled)


def _alone(
    prompt: Prompt, env: Env, branch: tuple[Pass, ...]
) -> "tuple[Prompt, list[Step]] | None":
    """The outcome of a single view, as `_unite` has it; None where a union is needed.

    That is the usual case, and costs what is new. The view must leave the current turn alone: what
    it drops or rewrites of that is put back by `_unite`.
    """
    names = [name_of(one) for one in branch]
    drops = [name for name in names if name in _DROPS]
    rewrites = [name for name in names if name in _REWRITES]
    # steps are told in this order: what drops, then what rewrites, each pass once
    if names != [*drops, *rewrites] or len({*names}) < len(names):
        return None
    after, taken = run(prompt, env, branch)
    diagnostics = after.diagnostics[len(prompt.diagnostics) :]
    wants = after.wants[len(prompt.wants) :]
    # said before: a union says it once
    if any(one in prompt.diagnostics for one in diagnostics) or any(
        w in prompt.wants for w in wants
    ):
        return None
    if len(dict.fromkeys(map(str, diagnostics))) < len(diagnostics):
        return None  # each is said once
    steps = [step for step in taken if step.notes]
    if not all(step.name in _SPARING or _spares_current(step.notes, env) for step in steps):
        return None
    changed = [step for step in steps if step.name in _REWRITES]
    first = [next(iter(step.notes)).before for step in changed]
    if len({item.position for item in first}) < len({item.key for item in first}):
        return None  # which of them stands first cannot be told from the log
    changed.sort(key=lambda step: next(iter(step.notes)).before.position)
    return after, [*(step for step in steps if step.name in _DROPS), *changed]


def _spares_current(notes: Sequence[Note], env: Env) -> bool:
    """Whether nothing that the user asks was changed, and nothing of the current turn dropped.

    Notes of a strand that were looked at in this turn are not looked at again.
    """
    for part in notes.parts if isinstance(notes, PassNotes) else (notes,):
        fresh: Sequence[Note] = part
        if isinstance(part, LateNotes):  # to read them would cost more than to unite
            return False
        if isinstance(part, Strand):
            with part.lock:
                checked = part.memo[_Checked, env.agent]
                checked.read(part, env)
                fresh = part.tail
            if not checked.harmless:
                return False
        if not all(_is_harmless(one, env) for one in fresh):
            return False
    return True


def _is_harmless(note: Note, env: Env) -> bool:
    item = note.before
    return not env.is_asked(item) and (note.after is not None or not env.is_current(item))


_United: TypeAlias = "list[Step | Callable[[], list[Step]]]"


def _unite(prompt: Prompt, env: Env, views: Views) -> tuple[Prompt, _United]:
    """What any of the views lets through, in log order, each item once, and the current turn.

    If several views keep the same item, the fuller version wins, so the order of the views does not
    matter. A union costs what is new: the items of the request before are gone through again only
    from the first one on at which a view differs. Notes are made when they are read.
    """
    alone = _alone(prompt, env, views.branches[0]) if len(views.branches) == 1 else None
    if alone is not None:
        return alone[0], [*alone[1]]
    branches = [run(prompt, env, branch) for branch in views.branches]
    diagnostics = list(prompt.diagnostics)
    wants: list[Want] = list(prompt.wants)
    for seen, _ in branches:
        diagnostics += [one for one in seen.diagnostics if one not in diagnostics]
        wants += [one for one in seen.wants if one not in wants]
    # without new items, reports or wants the prompt itself goes on, and what is derived from it
    adds_reports = len(diagnostics) > len(prompt.diagnostics) or len(wants) > len(prompt.wants)
    items, late = _merge(prompt, env, views, branches), _LateUnion(prompt, env, branches)
    if items is None:
        items = Strand(late.union.items)
        if not adds_reports and not late.union.changed and items == prompt.items:
            return prompt, []
    if items is prompt.items and not adds_reports:
        return prompt, []
    after = msgspec.structs.replace(
        prompt,
        items=items,
        notes=prompt.notes.plus(LateNotes(late.notes)),
        diagnostics=tuple(diagnostics),
        wants=tuple(wants),
    )
    # each view was verified by itself, their union was not
    verify(after, step="unite")
    return after, [late.steps]


class _Union(msgspec.Struct, frozen=True):
    """What views let through together, with the steps of each and the notes that still hold."""

    items: list[Item]
    steps: list[Step]
    changed: bool


class _LateUnion:
    """A union worked out all at once, when somebody asks what became of an item in it, and why."""

    def __init__(
        self, prompt: Prompt, env: Env, branches: Sequence[tuple[Prompt, Sequence[Step]]]
    ) -> None:
        self._inputs = prompt, env, branches
        self._union: _Union | None = None

    @property
    def union(self) -> _Union:
        """All of it. O(n), and not for a request."""
        if self._union is None:
            self._union = _union_of(*self._inputs)
        return self._union

    def steps(self) -> list[Step]:
        """The steps of the views that still hold."""
        return self.union.steps

    def notes(self) -> list[Note]:
        """The notes of these steps."""
        return [note for step in self.union.steps for note in step.notes]


def _union_of(
    prompt: Prompt, env: Env, branches: Sequence[tuple[Prompt, Sequence[Step]]]
) -> _Union:
    """The union by the rule itself; `_merge` gives the same items, and costs what is new."""
    chosen: dict[object, Item] = {}
    changes: dict[object, list[tuple[str, Note]]] = {}
    dropped: dict[object, list[tuple[str, Note]]] = {}
    for seen, steps in branches:
        notes: dict[object, list[tuple[str, Note]]] = {}
        for step in steps:
            for note in step.notes:
                notes.setdefault(note.before.key, []).append((step.name, note))
        in_view: dict[object, Item] = {item.key: item for item in seen.items}
        for key, item in in_view.items():
            other = chosen.get(key)
            if other is None or _fuller(item, other):
                chosen[key] = item
                changes[key] = [one for one in notes.get(key, ()) if one[1].after]
        for key_of_dropped, reasons in notes.items():
            if key_of_dropped not in in_view:
                dropped.setdefault(key_of_dropped, reasons)
    originals = {item.key: item for item in prompt.items}
    for key, item in originals.items():
        # the current turn is in view under every policy; what is asked stands as it was asked
        if env.is_current(item) and env.policy.facts.view != "nothing":
            other = chosen.setdefault(key, item)
            if env.is_asked(item) and other is not item:
                chosen[key], changes[key] = item, []
    items = _in_order(
        [chosen[key] for key in originals if key in chosen],
        [item for key, item in chosen.items() if key not in originals],
    )
    by_step: dict[str, list[Note]] = {}
    gone = {key: reasons for key, reasons in dropped.items() if key not in chosen}
    for name, note in chain.from_iterable((*gone.values(), *changes.values())):
        by_step.setdefault(name, []).append(note)
    steps = [Step(name, tuple(notes)) for name, notes in by_step.items()]
    return _Union(items, steps, any(changes.values()))


def _merge(
    prompt: Prompt,
    env: Env,
    views: Views,
    branches: Sequence[tuple[Prompt, Sequence[Step]]],
) -> Strand[Item] | None:
    """The items of a union, on top of those of the request before; None where that cannot be told.

    That needs items in log order, and views that keep it. The prompt's own items, if all stay.
    """
    known = _DROPS | _REWRITES | _SHOWS
    names = [[name_of(one) for one in branch] for branch in views.branches]
    # of another pass nobody knows whether it keeps the order of the log
    if not all(name in known for branch in names for name in branch):
        return None
    items = prompt.items
    if not is_in_log_order(items):
        return None
    key = (env.agent, tuple(tuple(map(_key_of, branch)) for branch in views.branches))
    with items.lock:
        merged = items.memo[_Merged, key]
        if merged.read > items.settled:  # an older snapshot is worked out by itself
            merged = _Merged()
        shows = [bool(_SHOWS.intersection(branch)) for branch in names]
        return merged.go_on(prompt, env, [seen.items for seen, _ in branches], shows)


def _key_of(one: Pass) -> tuple[str, object]:
    """What tells a pass from others of the same name."""
    return name_of(one), one.keywords.get("options") if isinstance(one, partial) else None


class _Merged:
    """A union of views as it was in the newest request, and what each view showed then."""

    def __init__(self) -> None:
        self.read = 0
        self._items: Strand[Item] = Strand()
        self._views: list[Strand[Item]] = []
        self._current: Strand[Item] = Strand()
        self._turn = self._looked = -1
        self._end = 0
        """From which log position on nothing is kept: a view may settle what the log has not."""
        self._same = 0
        """How many of the first items are those of the prompt."""

    def go_on(
        self, prompt: Prompt, env: Env, views: list[Strand[Item]], shows: list[bool]
    ) -> Strand[Item]:
        """The union of these views, which may have changed since."""
        items = prompt.items
        current = self._current_of(items, env)
        # what is of the current turn is one more view, the last
        now, unsorted = [*views, current], [*shows, False]
        before = self._views or [Strand[Item]() for _ in now]
        # before this log position all views show what they showed before
        start = min(self._end, *map(_first_change, before, now, unsorted))
        unchanged = bisect_left(self._items, start, 0, self._items.settled, key=_position)
        # what stands behind the first unsettled item may still change: it goes into the tail
        end = items.tail[0].position if items.tail else sys.maxsize
        fresh = self._from(start, views, shows, current, prompt, env)
        settled = self._items if unchanged == self._items.settled else self._items.fork(unchanged)
        final = bisect_left(fresh, end, key=_position)
        self._items = settled.grown(fresh[:final]) if final else settled
        self._views, self.read, self._end = now, items.settled, end
        merged = self._items.with_tail(fresh[final:])
        # only with as many items can it be the prompt's own strand
        self._same = min(self._same, unchanged) if len(merged) == len(items) else 0
        if len(merged) != len(items):
            return merged
        pairs = zip(merged.since(self._same), items.since(self._same), strict=True)
        same = self._same + sum(1 for _ in takewhile(lambda pair: pair[0] is pair[1], pairs))
        self._same = min(same, self._items.settled)
        return items if same == len(items) else merged

    def _current_of(self, items: Strand[Item], env: Env) -> Strand[Item]:
        """The items of the current turn, which are in view under every policy but C.nothing()."""
        if env.policy.facts.view == "nothing":
            return Strand()
        if self._turn != env.turn:
            self._turn, self._looked = env.turn, first_from(items, env.turn)
            self._current = Strand()
        fresh = items.between(self._looked, items.settled)
        self._current = self._current.grown([*filter(env.is_current, fresh)])
        self._looked = items.settled
        return self._current.with_tail([*filter(env.is_current, items.tail)])

    def _from(
        self,
        start: int,
        views: list[Strand[Item]],
        shows: list[bool],
        current: Strand[Item],
        prompt: Prompt,
        env: Env,
    ) -> list[Item]:
        """The items of the union from a log position on."""
        chosen: dict[object, Item] = {}
        for view, unsorted in zip(views, shows, strict=True):
            for item in _since_position(view, start, unsorted=unsorted):
                other = chosen.get(item.key)
                if other is None or (other is not item and _fuller(item, other)):
                    chosen[item.key] = item
        for item in _since_position(current, start, unsorted=False):
            if env.is_asked(item):
                chosen[item.key] = item
            else:
                chosen.setdefault(item.key, item)
        ordered = sorted(chosen.values(), key=_place)
        for at, (one, other) in enumerate(pairwise(ordered)):
            if one.position == other.position and other.kind != "state":
                # several items of one event stand as they stood before
                return _as_before(ordered, at, prompt)
        return ordered


def _as_before(ordered: list[Item], first: int, prompt: Prompt) -> list[Item]:
    """Items in log order; from the first on, those of one position in the order of the prompt."""
    begin = first_from(prompt.items, ordered[first].position)
    numbers = {item.key: number for number, item in enumerate(prompt.items.since(begin))}
    rest = ordered[first:]
    rest.sort(key=lambda item: (*_place(item), numbers.get(item.key, 0)))
    return [*ordered[:first], *rest]


def _first_change(before: Strand[Item], now: Strand[Item], unsorted: bool) -> int:
    """The log position of the first item at which a view is another than before."""
    fork = now.memo.get(Fork)
    # the strand has only grown
    if before.shares(now):
        same = min(before.settled, now.settled)
    # it was cut back and grown again: the same up to the cut
    elif isinstance(fork, Fork) and fork.memo is before.memo:
        same = min(before.settled, now.settled, fork.length)
    else:
        pairs = enumerate(zip(before, now, strict=False))
        differ = (
            at for at, (one, other) in pairs if one is not other and not _is_again(one, other)
        )
        same = next(differ, min(len(before), len(now)))
    if unsorted:
        both = (*before.since(same), *now.since(same))
        return min(map(_position, both), default=sys.maxsize)
    firsts = [view[same].position for view in (before, now) if same < len(view)]
    return min(firsts, default=sys.maxsize)


def _is_again(one: Item, other: Item) -> bool:
    """Whether a value is shown again as it was."""
    return one.kind == "state" and one == other


def _since_position(items: Strand[Item], start: int, *, unsorted: bool) -> list[Item]:
    # values are not in log order, so each of them has to be looked at
    if unsorted:
        return [item for item in items if item.position >= start]
    return items.since(bisect_left(items, start, key=_position))


def _position(item: Item) -> int:
    return item.position


def _place(item: Item) -> tuple[int, bool, str]:
    """What items are sorted by: a value stands behind what happened before it."""
    return item.position, item.kind == "state", item.event if item.kind == "state" else ""


def _fuller(one: Item, other: Item) -> bool:
    """Whether an item says more than another rendering of it; a higher tier decides first."""
    return _weight(one) > _weight(other)


def _weight(item: Item) -> tuple[int, int, str]:
    text = "\n".join(show_block(block) for block in item.blocks)
    return -item.priority, len(text), text


def _in_order(originals: list[Item], added: list[Item]) -> list[Item]:
    """The items in log order: what was added stands behind what happened before it."""
    added.sort(key=lambda item: (item.position, item.event))
    items: list[Item] = []
    for item in originals:
        while added and added[0].position < item.position:
            items.append(added.pop(0))
        items.append(item)
    return [*items, *added]
