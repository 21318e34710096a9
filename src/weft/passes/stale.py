"""Results that are no longer fresh are dropped, marked or compacted."""

import math
from bisect import bisect_left

import msgspec

from weft.declare.policy_parts import Fresh
from weft.diagnostics import Diagnostic, report
from weft.ir import Block, Item, Note, Prompt, ResultBlock
from weft.passes.env import Env, is_in_log_order, turn_numbers, turns_of
from weft.passes.handles import (
    LEAST_TOKENS,
    HandleLimits,
    compact_result,
    media_words,
    with_media_words,
)
from weft.passes.rewrite import map_blocks, rewrite_items
from weft.session.strand import Strand
from weft.values import JsonObject

_STEP = "mark_stale"

_SHORT = HandleLimits(LEAST_TOKENS, LEAST_TOKENS)


def mark_stale(prompt: Prompt, env: Env, options: Fresh) -> Prompt:
    """Drop, mark or compact what tools returned longer ago than the policy calls fresh.

    The call stays, and so does its result: a short word takes the place of what was dropped, so
    that the model knows that it asked, and may ask again. The words never say how old it is by
    now, and several results become stale at once rather than one each turn, a little early, so
    that what was sent seldom changes.

    Before:  call price({}) | result {"result": "40"}   (two turns ago, .fresh(turns=1))
    After:   call price({}) | result {"result": "[dropped: older than 1 turn; call price again]"}
    """
    until = _first_fresh(prompt, env, options)
    if until is None:
        return _mark_each(prompt, env, options)

    def change(item: Item, _: None) -> Item | Note:
        if item.open:
            return item
        short = map_blocks(item, lambda block: _mark_stale(block, item, env, options))
        return item if short is item else Note(_STEP, _reason(options), item, short)

    key = (options, env.agent, env.model.dialect, env.model.name)
    return rewrite_items(prompt, _STEP, change, key=key, until=until)


def _first_fresh(prompt: Prompt, env: Env, options: Fresh) -> int | None:
    """The log position before which all results are stale, and none after it.

    None where it takes a look at each item: where a warning is given for each, or where items do
    not stand in the order of the log or of time.
    """
    items = prompt.items
    if options.stale == "warn":
        return None
    starts = turns_of(items)
    gone = 0
    if options.turns is not None:
        gone = _strides(len(starts) - options.turns, max(1, options.turns // 4))
    # branches that joined may stand out of order: then no one position parts old from fresh
    if gone >= len(starts) or not is_in_log_order(items):
        return None
    first = starts[gone]
    if options.seconds is not None:
        by_time = _stale_by_time(items, env, _time_of_staleness(env, options.seconds))
        if by_time is None:
            return None
        first = max(first, by_time)
    if first >= items.length or (until := items[first].position) > env.turn:
        return env.turn  # the current turn is never stale
    # two items of one event, one stale and one not: a position cannot part them
    return None if first and items[first - 1].position == until else until


class _Times:
    """When the settled items of a strand happened, and whether that is the order they stand in."""

    def __init__(self) -> None:
        self.times: list[float] = []
        self.ordered = True


def _stale_by_time(items: Strand[Item], env: Env, before: float) -> int | None:
    """How many items happened before that time; None where a later one happened earlier."""
    with items.lock:
        known = items.memo[_Times]
        times = known.times
        for item in items.between(len(times), items.settled):
            happened = _time_of_item(item, env)
            known.ordered = known.ordered and (not times or times[-1] <= happened)
            times.append(happened)
        if not known.ordered:
            return None
        last = times[items.settled - 1] if items.settled else -math.inf
        gone = bisect_left(times, before, 0, items.settled)
    for item in items.tail:
        happened = _time_of_item(item, env)
        if happened < last:
            return None
        last = happened
        gone += happened < before
    return gone


def _time_of_staleness(env: Env, seconds: float) -> float:
    """The time before which results are stale; it moves in strides."""
    # the last two: a message that is only compiled, not run, has no time
    newest = max((event.timestamp for event in env.log.since(env.log.length - 2)), default=0.0)
    # in strides, as turns go: several results become stale at once
    stride = seconds / 4
    return math.ceil((newest - seconds) / stride) * stride


def _reason(options: Fresh) -> str:
    return f"its result is {_age(options)}"


def _mark_each(prompt: Prompt, env: Env, options: Fresh) -> Prompt:
    """As `mark_stale`, with a look at each item."""
    staying: list[Item] = []
    notes: list[Note] = []
    diagnostics: list[Diagnostic] = []
    for item, stale in zip(prompt.items, _stale(prompt, env, options), strict=True):
        blocks = item.blocks
        if stale and not env.is_current(item) and not item.open:
            blocks = tuple(_mark_stale(block, item, env, options) for block in item.blocks)
        if all(one is other for one, other in zip(blocks, item.blocks, strict=True)):
            staying.append(item)
            continue
        after = msgspec.structs.replace(item, blocks=blocks)
        notes.append(Note(_STEP, _reason(options), item, after))
        staying.append(after)
        if options.stale == "warn":
            diagnostics += _stale_diagnostics(item, options)
    return prompt.with_items(staying, notes, diagnostics) if notes else prompt


def _stale(prompt: Prompt, env: Env, options: Fresh) -> list[bool]:
    """Whether each item is too old, by its turn or by its time."""
    numbers = turn_numbers(prompt.items)
    gone = 0
    if options.turns is not None and numbers:
        gone = _strides(numbers[-1] - options.turns, max(1, options.turns // 4))
    before = -math.inf
    if options.seconds is not None:
        before = _time_of_staleness(env, options.seconds)
    return [
        number <= gone or _time_of_item(item, env) < before
        for item, number in zip(prompt.items, numbers, strict=True)
    ]


def _strides(turns: int, stride: int) -> int:
    return max(0, math.ceil(turns / stride) * stride)


def _time_of_item(item: Item, env: Env) -> float:
    """When the item's last event happened; what is in no log is always fresh."""
    return env.log[item.last].timestamp if 0 <= item.last < env.log.length else math.inf


def _mark_stale(block: Block, item: Item, env: Env, options: Fresh) -> Block:
    if not isinstance(block, ResultBlock) or block.synthetic:
        return block
    match options.stale:
        case "drop":
            dropped: JsonObject = {
                "result": f"[dropped: {_age(options)}; call {block.name} again if it matters]"
            }
            # it was dropped before
            if block.response == dropped and not block.media:
                return block
            return msgspec.structs.replace(block, response=dropped, media=(), kept=None)
        case "warn":
            marked = _add_warning(block.response, f"{_age(options)}, it may no longer hold")
            if marked is block.response:
                return block
            return msgspec.structs.replace(block, response=marked, kept=None)
        case "compact":
            return _compact_block(block, item, env)


def _add_warning(response: JsonObject, words: str) -> JsonObject:
    """The result with a line that says that it is stale."""
    line = f"[stale: {words}]\n"
    sole = next(iter(response)) if len(response) == 1 else ""
    text = response.get(sole)
    if isinstance(text, str):
        return response if text.startswith(line) else {sole: line + text}
    # the tool may have a field of that name
    key = "stale" if response.get("stale", words) == words else "weft_stale"
    return response if response.get(key) == words else {key: words, **response}


def _compact_block(block: ResultBlock, item: Item, env: Env) -> ResultBlock:
    short = compact_result(block, item, env, _SHORT)
    words = {media: media_words(media, env, 0) for media in block.media if not media.signature}
    words_for_media = [word for word in words.values() if word is not None]
    if not words_for_media:
        return short
    media = tuple(one for one in block.media if words.get(one) is None)
    response = with_media_words(short.response, words_for_media)
    return msgspec.structs.replace(short, response=response, media=media)


def _stale_diagnostics(item: Item, options: Fresh) -> list[Diagnostic]:
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
