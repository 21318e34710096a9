"""The pipeline: the only place that calls passes.

Which passes run is a policy's business (`compose`). Those on fresh items see what is new since
the last compilation, so a step costs what it added; what they decide is final. Those on the
request see all of it and touch only its edges, or say what it costs.
"""

from collections.abc import Callable
from functools import partial
from itertools import chain
from typing import NamedTuple, TypeAlias

import msgspec

from weft.ir import Feature, Item, Note, Prompt, Want, verify
from weft.ir.show import show_block
from weft.passes.env import Env
from weft.values import Strand

Pass: TypeAlias = Callable[[Prompt, Env], Prompt]


class Views(NamedTuple):
    """Several ways to look at the items, each a tuple of passes, whose results are united."""

    branches: tuple[tuple[Pass, ...], ...]


class Step(NamedTuple):
    """A pass that changed the prompt: a note for each item it dropped, moved or rewrote."""

    name: str
    notes: tuple[Note, ...]


def name_of(one: Pass) -> str:
    """The name a pass goes by, also where it has its options with it."""
    return one.func.__name__ if isinstance(one, partial) else one.__name__


def names_of(passes: tuple[Pass | Views, ...]) -> list[str]:
    """The names of passes in the order they run, each once."""
    found: list[str] = []
    for one in passes:
        inner = one.branches if isinstance(one, Views) else ((one,),)
        found += [name_of(each) for branch in inner for each in branch]
    return list(dict.fromkeys(found))


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
            steps.append(Step(name, after.notes[len(prompt.notes) :]))
            prompt = after
    return prompt, steps


def _unite(prompt: Prompt, env: Env, views: Views) -> tuple[Prompt, list[Step]]:
    """What any of the views lets through, in log order, each item once, and the current turn.

    An item that several let through is as the one has it that leaves most of it; so the order of
    the views does not matter.
    """
    chosen: dict[object, Item] = {}
    told: dict[object, list[tuple[str, Note]]] = {}
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
        kept: dict[object, Item] = {item.key: item for item in seen.items}
        for key, item in kept.items():
            held = chosen.get(key)
            if held is None or _fuller(item, held):
                chosen[key] = item
                told[key] = [one for one in notes.get(key, ()) if one[1].after]
        for left, said in notes.items():
            if left not in kept:
                dropped.setdefault(left, said)
    originals = {item.key: item for item in prompt.items}
    for key, item in originals.items():
        if env.is_current(item) and env.policy.view != "nothing":
            held = chosen.setdefault(key, item)
            if env.is_asked(item) and held is not item:
                chosen[key], told[key] = item, []
    items = _in_order(
        [chosen[key] for key in originals if key in chosen],
        [item for key, item in chosen.items() if key not in originals],
    )
    changed = any(told.values()) or len(diagnostics) > len(prompt.diagnostics)
    if not changed and len(wants) == len(prompt.wants) and items == prompt.items.since(0):
        return prompt, []
    found: dict[str, list[Note]] = {}
    gone = {key: said for key, said in dropped.items() if key not in chosen}
    for name, note in chain.from_iterable((*gone.values(), *told.values())):
        found.setdefault(name, []).append(note)
    steps = [Step(name, tuple(notes)) for name, notes in found.items()]
    after = msgspec.structs.replace(
        prompt,
        items=Strand(items),
        notes=(*prompt.notes, *(note for step in steps for note in step.notes)),
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
        and env.budget is None
        and (env.picks_tools or not prompt.tools)
        and not env.changes
        and last is not None
        and last.blocks[-1].role == "user"
    )
