"""Deal with results that are no longer fresh."""

import math

import msgspec

from weft.codes import report
from weft.declare.policy.transforms import Fresh
from weft.diagnostics import Diagnostic
from weft.ir import Block, Item, Note, Prompt, ResultBlock
from weft.passes.env import Env
from weft.passes.handles import LEAST, Limits, compact_result, media_words, with_media_words
from weft.passes.turns import turn_numbers
from weft.values import JsonObject

_STEP = "mark_stale"
_SHORT = Limits(LEAST, LEAST)


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
