"""Replace old results by handles, in one go, when that pays."""

from collections.abc import Iterator
from typing import NamedTuple, cast

import msgspec

from weft.ir import Block, Item, Note, Prompt, ResultBlock
from weft.ir.show import show_block
from weft.passes.env import Env
from weft.passes.handles import RECALL, Limits, compact_result, logged

KEEP = 3
"""How many of the newest results always stay as they are."""

STUB = 64
"""Tokens that a result takes once only its handle is left, roughly."""

LEAST = 2_000
"""Tokens that an edit must take out to be worth a change of what was sent."""

MARGIN = 3.0
"""How many times an edit must save what it costs: nobody knows how long a session goes on."""

FULL = 0.8
"""The share of the model's window that must be filled for an edit to be forced."""

LONG = 100_000
"""Tokens below which no window is looked up: every model of today takes so many."""


REASON = "only its handle stays, which saves more than it costs"


class _Sizes(NamedTuple):
    """Running sums over the items: as they are, and with handles in place of their results."""

    whole: list[int]
    edited: list[int]


def plan_edit(prompt: Prompt, env: Env) -> Prompt:
    """Replace the results of older calls by their handles, once that saves more than it costs.

    What was sent is read again for a tenth of its price, so a change in the middle must pay for
    all that follows it. Whether it does is worked out from what the log says: for each request so
    far, in order, what an edit would have cost then, and what it saves if as many requests follow
    as were made. So the edit that was made once is found again at every later request, at the
    same place. A request that nearly fills the model's window is edited whatever it costs.

    What the newest results leave out as said before may then be said in an edited one only; its
    handle is in view, and the call beside it says what it was.

    Before:  user "go" | call read(a) -> 2,000 tokens | ... | call read(z) -> 2,000 tokens
    After:   user "go" | call read(a) -> handle | ... | call read(z) -> 2,000 tokens
    """
    cut = _cut(prompt, env)
    if not cut:
        return prompt
    notes: list[Note] = []
    items = prompt.items.since(0)
    held = prompt.items.memo.setdefault(("plan_edit", "edited", env.model), dict[object, Note]())
    made = cast("dict[object, Note]", held)
    for index, item in enumerate(items[:cut]):
        if not _is_editable(item):
            continue
        note = made.get(item.key)
        if note is None or note.before is not item:
            edited = _edited(item, env)
            note = made[item.key] = Note("plan_edit", REASON, item, edited)
        if note.after is not None and note.after is not item:
            items[index] = note.after
            notes.append(note)
    return prompt.with_items(items, notes) if notes else prompt


def _cut(prompt: Prompt, env: Env) -> int:
    """The place up to which results are handles: what the requests so far decided, in order."""
    items = prompt.items
    sizes = _sizes(prompt, env)
    head = env.count(prompt.system_text) + sum(env.count(str(tool)) for tool in prompt.tools)
    cut = sent = 0
    for steps, (asked, old) in enumerate(_requests(items.since(0), env.agent), 1):
        removed = _between(sizes.whole, cut, old) - _between(sizes.edited, cut, old)
        again = _between(sizes.edited, cut, min(old, sent)) + _between(sizes.whole, old, sent)
        saved, cost = removed * env.read * steps, again * (env.write - env.read)
        whole = head + sizes.edited[cut] + _between(sizes.whole, cut, asked)
        if (removed >= LEAST and saved > MARGIN * cost) or (removed and _is_full(whole, env)):
            cut = old
        sent = asked
    return cut


def _requests(items: list[Item], agent: str) -> Iterator[tuple[int, int]]:
    """For each request so far and this one: how many items it had, and how many of them are old."""
    results: list[int] = []
    for index, item in enumerate(items):
        if item.author == agent and item.blocks[0].role == "model":
            yield index, results[-KEEP] if len(results) > KEEP else 0
        if item.kind == "exchange":
            results.append(index)
    yield len(items), results[-KEEP] if len(results) > KEEP else 0


def _is_full(tokens: int, env: Env) -> bool:
    window = env.window
    if not window and tokens > LONG:
        window = env.widest()
    return bool(window) and tokens > FULL * window


def _between(sums: list[int], start: int, end: int) -> int:
    return sums[end] - sums[start] if end > start else 0


def _sizes(prompt: Prompt, env: Env) -> _Sizes:
    """The sums over the items of a request; those over settled items are kept with them."""
    items = prompt.items
    with items.lock:
        held = items.memo.setdefault(("plan_edit", env.model), _Sizes([0], [0]))
        assert isinstance(held, _Sizes)
        done = len(held.whole) - 1
        for item in items.since(done)[: max(0, items.settled - done)]:
            _add(held, item, env)
        kept = _Sizes(held.whole[: items.settled + 1], held.edited[: items.settled + 1])
    for item in items.since(items.settled):
        _add(kept, item, env)
    return kept


def _add(sizes: _Sizes, item: Item, env: Env) -> None:
    whole = sum(env.count(show_block(block)) for block in item.blocks)
    edited = whole
    if _is_editable(item):
        results = [block for block in item.blocks if isinstance(block, ResultBlock)]
        long = [block for block in results if _is_long(block, env)]
        gone = sum(env.count(show_block(block)) - STUB for block in long)
        edited = whole - gone
    sizes.whole.append(sizes.whole[-1] + whole)
    sizes.edited.append(sizes.edited[-1] + edited)


def _is_editable(item: Item) -> bool:
    """Whether it is a call with results that are all there."""
    return item.kind == "exchange" and not item.open


def _is_long(block: ResultBlock, env: Env) -> bool:
    """Whether a handle is so much shorter that it is worth it; what was recalled stays."""
    if block.synthetic or block.is_error or block.name == RECALL:
        return False
    return env.count(show_block(block)) > 2 * STUB


def _edited(item: Item, env: Env) -> Item:
    """The item with the handles of its results; one that is short already stays."""
    blocks = tuple(_stubbed(block, item, env) for block in item.blocks)
    return item if blocks == item.blocks else msgspec.structs.replace(item, blocks=blocks)


def _stubbed(block: Block, item: Item, env: Env) -> Block:
    if not isinstance(block, ResultBlock) or not _is_long(block, env):
        return block
    whole = logged(block, item, env)
    if isinstance(whole, dict):
        block = msgspec.structs.replace(block, response=whole)
    return compact_result(block, item, env, Limits(STUB, STUB))
