"""The pipeline: the only place that calls passes.

Which passes run is a policy's business (`compose`). Those on fresh items see what is new since
the last compilation, so a step costs what it added; what they decide is final. Those on the
request see all of it and touch only its edges, or say what it costs.
"""

from collections.abc import Callable, Sequence
from functools import partial
from itertools import chain
from typing import TypeAlias

import msgspec

from weft.ir import Feature, Item, Note, Prompt, Want, verify
from weft.ir.prompt import PassNotes
from weft.ir.show import show_block
from weft.passes.env import Env
from weft.session.strand import Strand, derived

Pass: TypeAlias = Callable[[Prompt, Env], Prompt]


class Views(msgspec.Struct, frozen=True):
    """Several ways to look at the items, each a tuple of passes, whose results are united."""

    branches: tuple[tuple[Pass, ...], ...]


class Step(msgspec.Struct, frozen=True):
    """A pass that changed the prompt: a note for each item it dropped, moved or rewrote."""

    name: str
    notes: Sequence[Note]


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


def run(prompt: Prompt, env: Env, passes: tuple[Pass | Views, ...]) -> tuple[Prompt, list[Step]]:
    """Run the passes in order; verify after each that changed anything, and record a step."""
    steps: list[Step] = []
    for one in passes:
        if isinstance(one, Views):
            prompt, united = _unite(prompt, env, one)
            steps += united
            continue
        after = one(prompt, env)
        if after is not prompt:
            name = name_of(one)
            verify(after, step=name, before=prompt)
            steps.append(Step(name, after.notes.since(prompt.notes)))
            prompt = after
    return prompt, steps


_DROPS = frozenset({"select_window", "select_items", "select_user", "select_relevant", "fit_items"})
"""Passes that only drop items, and keep the others as they are."""

_SPARING = frozenset({"select_items", "select_relevant", "fit_items"})
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
    """What the only view lets through, as `_unite` has it; None where it must be united.

    That is the usual case, and costs what is new. The view must leave the current turn alone: what
    it drops or rewrites of that is put back by `_unite`.
    """
    names = [name_of(one) for one in branch]
    drops = [name for name in names if name in _DROPS]
    rewrites = [name for name in names if name in _REWRITES]
    if names != [*drops, *rewrites] or len({*names}) < len(names):
        return None
    after, steps = run(prompt, env, branch)
    diagnostics = after.diagnostics[len(prompt.diagnostics) :]
    wants = after.wants[len(prompt.wants) :]
    if any(one in prompt.diagnostics for one in diagnostics) or any(
        w in prompt.wants for w in wants
    ):
        return None
    if len(dict.fromkeys(map(str, diagnostics))) < len(diagnostics):
        return None  # each is said once
    steps = [step for step in steps if step.notes]
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
        if isinstance(part, Strand):
            with part.lock:
                checked = derived(part, _Checked, env.agent)
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


def _unite(prompt: Prompt, env: Env, views: Views) -> tuple[Prompt, list[Step]]:
    """What any of the views lets through, in log order, each item once, and the current turn.

    An item that several let through is as the one has it that leaves most of it; so the order of
    the views does not matter. O(n) once a request, but for a single view.
    """
    alone = _alone(prompt, env, views.branches[0]) if len(views.branches) == 1 else None
    if alone is not None:
        return alone
    chosen: dict[object, Item] = {}
    changes: dict[object, list[tuple[str, Note]]] = {}
    dropped: dict[object, list[tuple[str, Note]]] = {}
    diagnostics = list(prompt.diagnostics)
    wants: list[Want] = list(prompt.wants)
    for branch in views.branches:
        seen, steps = run(prompt, env, branch)
        diagnostics += [one for one in seen.diagnostics if one not in diagnostics]
        wants += [one for one in seen.wants if one not in wants]
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
        if env.is_current(item) and env.policy.view != "nothing":
            other = chosen.setdefault(key, item)
            if env.is_asked(item) and other is not item:
                chosen[key], changes[key] = item, []
    items = _in_order(
        [chosen[key] for key in originals if key in chosen],
        [item for key, item in chosen.items() if key not in originals],
    )
    changed = any(changes.values()) or len(diagnostics) > len(prompt.diagnostics)
    if not changed and len(wants) == len(prompt.wants) and items == prompt.items.since(0):
        return prompt, []
    by_step: dict[str, list[Note]] = {}
    gone = {key: reasons for key, reasons in dropped.items() if key not in chosen}
    for name, note in chain.from_iterable((*gone.values(), *changes.values())):
        by_step.setdefault(name, []).append(note)
    steps = [Step(name, tuple(notes)) for name, notes in by_step.items()]
    after = msgspec.structs.replace(
        prompt,
        items=Strand(items),
        notes=prompt.notes.plus([note for step in steps for note in step.notes]),
        diagnostics=tuple(diagnostics),
        wants=tuple(wants),
    )
    verify(after, step="unite")
    return after, steps


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


def is_ready(prompt: Prompt, env: Env) -> bool:
    """Whether no pass that every request has would change it, so that none need be called."""
    last = prompt.items.tip
    return (
        not prompt.features & Feature.UNORDERED
        and env.tokens.budget is None
        and (env.model.picks_tools or not prompt.tools)
        and not env.instruction.changes
        and last is not None
        and last.blocks[-1].role == "user"
    )
