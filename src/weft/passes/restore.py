"""Say again what refers to something that has gone from view.

This chapter stands above those whose work it tries: a budget (`budget.py`), and the references of
`C.auto()` (`auto.py`). Each is loaded when a request needs it.
"""

from collections.abc import Sequence
from typing import NamedTuple

import msgspec

from weft.ir import Block, Item, Note, Prompt, ResultBlock, TextBlock
from weft.passes.env import Env
from weft.passes.references import ReferenceView, refers
from weft.passes.rewrite import PassFold, fold_items

ROUNDS = 3
"""How often a budget is tried: what is said again takes room, and then more may have to go."""


def restore_references(prompt: Prompt, env: Env) -> Prompt:
    """Say again what refers to something that is not in view any more, or not as it was.

    A policy may drop, cut or replace the result that others refer to. The next one that has its
    lines then says them in full, and the others refer to that one. What a budget will leave out
    is known before, by trying it, so that nothing refers to that either.

    Before:  call open(a) -> "[dropped: ...]" | call edit(a) -> "[as lines 1-40 of open(a) ...]"
    After:   call open(a) -> "[dropped: ...]" | call edit(a) -> 40 lines
    """
    if env.tokens.measure is None or (env.policy.limit is None and env.tokens.budget is None):
        return _restore_in_order(prompt, env) or _restore_at_once(prompt, env)
    return _restore_at_once(prompt, env)


_REASON = "what it refers to is not in view as it was"


def _restore_in_order(prompt: Prompt, env: Env) -> Prompt | None:
    """The prompt as `_restore_at_once` has it, item by item; None where that does not do.

    Nearly all references point back, so that the items before one decide what becomes of it.
    """

    def change(item: Item, view: ReferenceView) -> Item | Note:
        view.env = env
        view.expect(item)
        after = _restore_item(item, view)
        view.add(after)
        return item if after is item else Note("restore_references", _REASON, item, after)

    key = (env.agent, env.model.dialect, env.model.name)
    fold = PassFold(lambda: ReferenceView(env), lambda view: view.over(env), ReferenceView.back)
    after = fold_items(prompt, "restore_references", change, key=key, fold=fold)
    return after.prompt if after.state.in_order else None


def _restore_at_once(prompt: Prompt, env: Env) -> Prompt:
    """O(n) once a request: a budget takes from all items, or something refers to a later one."""
    items = prompt.items.since(0)
    # the usual case
    if not any(refers(block) for item in items for block in item.blocks):
        return prompt
    rest: _BudgetRest | None = None
    after = prompt
    for _ in range(ROUNDS):
        restored = _restore_items(items, rest, env)
        notes = [
            Note("restore_references", _REASON, old, new)
            for old, new in zip(items, restored, strict=True)
            if new is not old
        ]
        after = prompt.with_items(restored, notes) if notes else prompt
        rest_now = _left_by_budget(after, env)
        if rest_now is None or rest_now == rest:
            break
        # what went in one round does not come back in the next
        rest = (
            rest_now
            if rest is None
            else _BudgetRest(rest.there & rest_now.there, rest.same & rest_now.same)
        )
    return after


class _BudgetRest(NamedTuple):
    """The keys of items that a budget leaves, and of those that it leaves as they are."""

    there: frozenset[object]
    same: frozenset[object]


def _left_by_budget(prompt: Prompt, env: Env) -> _BudgetRest | None:
    """What the budget will leave of a request; None where it all stays."""
    if env.tokens.measure is None or (env.policy.limit is None and env.tokens.budget is None):
        return None
    from weft.passes.budget import fit_budget

    fitted = fit_budget(prompt, env)
    if fitted is prompt:
        return None
    before = {item.key: item for item in prompt.items}
    there = {item.key: item for item in fitted.items}
    same = [key for key, item in there.items() if before.get(key) is item]
    return _BudgetRest(frozenset(there), frozenset(same))


def _restore_items(items: Sequence[Item], rest: _BudgetRest | None, env: Env) -> list[Item]:
    """The items, in which nothing refers to what is not in view."""
    view = ReferenceView(env)
    for item in items:
        if rest is None or item.key in rest.there:
            view.expect(item)
    restored: list[Item] = []
    for item in items:
        if rest is not None and item.key not in rest.there:
            restored.append(item)
            continue
        item = _restore_item(item, view)
        restored.append(item)
        if rest is None or item.key in rest.same:
            view.add(item)
    return restored


def _restore_item(item: Item, view: ReferenceView) -> Item:
    """The item, in which nothing refers to what is not in view."""
    if not any(map(view.lacks, item.blocks)):
        return item
    blocks = tuple(
        _say_again(block, item, view) if view.lacks(block) else block for block in item.blocks
    )
    return msgspec.structs.replace(item, blocks=blocks)


def _say_again(block: Block, item: Item, view: ReferenceView) -> Block:
    """The block without references, or with others, to what is in view."""
    if isinstance(block, TextBlock) and block.whole is not None:
        return msgspec.structs.replace(block, text=block.whole, refers=(), whole=None)
    if not isinstance(block, ResultBlock) or block.whole is None:
        return block
    lines = any(one.last for one in block.refers)
    block = msgspec.structs.replace(block, response=block.whole, refers=(), whole=None)
    if not lines:
        return block
    from weft.passes.auto import refer_anew

    number, before = view.results_before(block)
    return refer_anew(block, item, number, before, view.env)
