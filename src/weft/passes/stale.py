"""Passes that give up old results: those no longer fresh, and those that cost too much."""

import math
from collections.abc import Iterator
from typing import NamedTuple, cast

import msgspec

from weft.codes import report
from weft.declare.policy_parts import Fresh
from weft.diagnostics import Diagnostic
from weft.ir import Block, Item, Note, Prompt, ResultBlock
from weft.ir.item import RECALL
from weft.ir.show import show_block
from weft.passes.env import Env, turn_numbers
from weft.passes.handles import (
    LEAST_TOKENS,
    Limits,
    compact_result,
    logged,
    media_words,
    with_media_words,
)
from weft.values import JsonObject

_STEP = "mark_stale"

_SHORT = Limits(LEAST_TOKENS, LEAST_TOKENS)


def mark_stale(prompt: Prompt, env: Env, options: Fresh) -> Prompt:
    """Drop, mark or compact what tools returned longer ago than the policy calls fresh.

    The call stays, and so does its result: a short word takes the place of what was dropped, so
    that the model knows that it asked, and may ask again. The words never say how old it is by
    now, and several results become stale at once rather than one each turn, a little early, so
    that what was sent seldom changes.

    Before:  call price({}) | result {"result": "40"}   (two turns ago, .fresh(turns=1))
    After:   call price({}) | result {"result": "[dropped: older than 1 turn; call price again]"}
    """
    kept: list[Item] = []
    notes: list[Note] = []
    said: list[Diagnostic] = []
    for item, stale in zip(prompt.items, _stale(prompt, env, options), strict=True):
        blocks = item.blocks
        if stale and not env.is_current(item) and not item.open:
            blocks = tuple(_marked(block, item, env, options) for block in item.blocks)
        if all(one is other for one, other in zip(blocks, item.blocks, strict=True)):
            kept.append(item)
            continue
        after = msgspec.structs.replace(item, blocks=blocks)
        notes.append(Note(_STEP, f"its result is {_age(options)}", item, after))
        kept.append(after)
        if options.stale == "warn":
            said += _told(item, options)
    return prompt.with_items(kept, notes, said) if notes else prompt


def _stale(prompt: Prompt, env: Env, options: Fresh) -> list[bool]:
    """Whether each item is too old, by its turn or by its time."""
    numbers = turn_numbers(prompt.items)
    gone = 0
    if options.turns is not None and numbers:
        gone = _strides(numbers[-1] - options.turns, max(1, options.turns // 4))
    before = -math.inf
    if options.seconds is not None:
        newest = max((event.timestamp for event in env.log.since(len(env.log) - 2)), default=0.0)
        stride = options.seconds / 4
        before = math.ceil((newest - options.seconds) / stride) * stride
    return [
        number <= gone or _happened(item, env) < before
        for item, number in zip(prompt.items, numbers, strict=True)
    ]


def _strides(turns: int, stride: int) -> int:
    return max(0, math.ceil(turns / stride) * stride)


def _happened(item: Item, env: Env) -> float:
    """When the item's last event happened; what is in no log is always fresh."""
    return env.log[item.last].timestamp if 0 <= item.last < len(env.log) else math.inf


def _marked(block: Block, item: Item, env: Env, options: Fresh) -> Block:
    if not isinstance(block, ResultBlock) or block.synthetic:
        return block
    match options.stale:
        case "drop":
            dropped: JsonObject = {
                "result": f"[dropped: {_age(options)}; call {block.name} again if it matters]"
            }
            if block.response == dropped and not block.media:
                return block
            return msgspec.structs.replace(block, response=dropped, media=(), kept=None)
        case "warn":
            marked = _warned(block.response, f"{_age(options)}, it may no longer hold")
            if marked is block.response:
                return block
            return msgspec.structs.replace(block, response=marked, kept=None)
        case "compact":
            return _compacted(block, item, env)


def _warned(response: JsonObject, words: str) -> JsonObject:
    """The result with a line that says that it is stale."""
    line = f"[stale: {words}]\n"
    sole = next(iter(response)) if len(response) == 1 else ""
    text = response.get(sole)
    if isinstance(text, str):
        return response if text.startswith(line) else {sole: line + text}
    key = "stale" if response.get("stale", words) == words else "weft_stale"
    return response if response.get(key) == words else {key: words, **response}


def _compacted(block: ResultBlock, item: Item, env: Env) -> ResultBlock:
    short = compact_result(block, item, env, _SHORT)
    words = {media: media_words(media, env, 0) for media in block.media if not media.signature}
    told = [word for word in words.values() if word is not None]
    if not told:
        return short
    media = tuple(one for one in block.media if words.get(one) is None)
    response = with_media_words(short.response, told)
    return msgspec.structs.replace(short, response=response, media=media)


def _told(item: Item, options: Fresh) -> list[Diagnostic]:
    return [
        report(
            "WEFT205",
            block.origin,
            f"the result of `{block.name}` is {_age(options)}",
            'call the tool again, or write .fresh(..., stale="drop")',
        )
        for block in item.blocks
        if isinstance(block, ResultBlock)
    ]


def _age(options: Fresh) -> str:
    ages: list[str] = []
    if options.turns is not None:
        ages.append(f"{options.turns} turn{'s' if options.turns > 1 else ''}")
    if options.seconds is not None:
        ages.append(f"{options.seconds:g} seconds")
    return f"older than {' or '.join(ages)}"


KEEP = 3
"""How many of the newest results always stay as they are."""

STUB = 64
"""Tokens that a result takes once only its handle is left, roughly."""

LEAST_SAVED = 2_000
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
        if (removed >= LEAST_SAVED and saved > MARGIN * cost) or (removed and _is_full(whole, env)):
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
