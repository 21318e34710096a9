"""Shorter forms of an item: the same item with less in it, never a part of a pair.

What a provider signed, calls and thoughts stay as they are: only texts, results and media that
nobody has sealed are shortened.
"""

from collections.abc import Callable, Mapping
from functools import partial

import msgspec

from weft.diagnostics import Origin
from weft.digest import cut_text, reduced
from weft.ir import Block, Item, MediaBlock, Reference, ResultBlock, TextBlock
from weft.passes.env import Env
from weft.passes.fences import Fence, fenced, opened
from weft.passes.handles import (
    Limits,
    compact_media,
    compact_result,
    compact_text,
    handle_of,
    logged,
    media_words,
    sole_text,
    with_media_words,
)
from weft.values import JsonObject, compact

COMPACTED = Limits(over=240, to=160)
"""From how many tokens on a value becomes a handle, and how many it takes then."""

TRUNCATED = 96
"""How many tokens are left of a text or result that is cut."""

REPEATED = 200
"""From how many letters on results are compared."""

MARK = " […] "


def compacted(item: Item, env: Env) -> Item:
    """The item with handles and digests for its large values, which `recall` gets back."""
    return _changed(
        item, [_refenced(block, env, lambda one: _compact(one, item, env)) for block in item.blocks]
    )


def truncated(item: Item, env: Env) -> Item:
    """The item with its texts and results cut to both ends; itself where they are short."""
    blocks = [_refenced(block, env, lambda one: _cut(one, item, env)) for block in item.blocks]
    return _changed(item, blocks)


def _changed(item: Item, blocks: list[Block]) -> Item:
    same = all(new is old for new, old in zip(blocks, item.blocks, strict=True))
    return item if same else msgspec.structs.replace(item, blocks=tuple(blocks))


def _refenced(block: Block, env: Env, shorten: Callable[[Block], Block]) -> Block:
    """The block shortened; one that stands in a fence inside it, and in a fence again."""
    if isinstance(block, TextBlock):
        inside = opened(block.text)
        return shorten(block) if inside is None else _text(block, inside, env, shorten)
    if isinstance(block, ResultBlock) and len(block.response) == 1:
        value = next(iter(block.response.values()))
        inside = opened(value) if isinstance(value, str) else None
        return shorten(block) if inside is None else _result(block, inside, env, shorten)
    return shorten(block)


def _text(
    block: TextBlock, inside: Fence, env: Env, shorten: Callable[[Block], Block]
) -> TextBlock:
    bare = msgspec.structs.replace(block, text=inside.inner, spans=())
    short = shorten(bare)
    if short is bare or not isinstance(short, TextBlock):
        return block
    text = inside.before + fenced(short.text, inside.source, env.session).text
    return msgspec.structs.replace(short, text=text)


def _result(
    block: ResultBlock, inside: Fence, env: Env, shorten: Callable[[Block], Block]
) -> ResultBlock:
    key = next(iter(block.response))
    bare = msgspec.structs.replace(block, response={key: inside.inner})
    short = shorten(bare)
    if short is bare or not isinstance(short, ResultBlock):
        return block
    held = short.response.get(key)
    alone = isinstance(held, str) and len(short.response) == 1
    text = held if alone and isinstance(held, str) else compact(short.response)
    response: JsonObject = {key: fenced(text, inside.source, env.session).text}
    return msgspec.structs.replace(short, response=response)


def referred(item: Item, places: Mapping[int, Origin], env: Env) -> Item:
    """The item whose results at these places stand further down, each where its origin says."""
    blocks: list[Block] = list(item.blocks)
    for place, later in places.items():
        again = partial(_again, later=later, item=item, env=env)
        blocks[place] = _refenced(item.blocks[place], env, again)
    return _changed(item, blocks)


def _again(block: Block, later: Origin, item: Item, env: Env) -> Block:
    if not isinstance(block, ResultBlock):
        return block
    handle = handle_of(logged(block, item, env))
    words = f"[the same result stands further down, handle {handle}]"
    return msgspec.structs.replace(
        block,
        response={"result": words},
        refers=(Reference(words, later.name, later.part, handle),),
        whole=block.response,
    )


def repeated(items: list[Item], env: Env) -> dict[int, dict[int, Origin]]:
    """Where long results stand that a later item gives again which does not go before them."""
    found: dict[int, dict[int, Origin]] = {}
    later: dict[str, tuple[int, Origin]] = {}
    for index in range(len(items) - 1, -1, -1):
        item = items[index]
        if item.kind != "exchange":
            continue
        tier, texts = item.priority, _long_results(item, env)
        again = {
            place: later[text][1]
            for place, text in texts.items()
            if text in later and later[text][0] <= tier
        }
        if again:
            found[index] = again
        for place, text in texts.items():
            if text not in later or tier < later[text][0]:
                later[text] = (tier, item.blocks[place].origin)
    return found


class _Results(msgspec.Struct, frozen=True):
    """The long results of an item by their place, as text."""

    item: Item
    texts: dict[int, str]


def _long_results(item: Item, env: Env) -> dict[int, str]:
    """The results of an item that are worth comparing, kept with the log."""
    key = ("long results", item.key)
    held = env.log.memo.get(key)
    if not isinstance(held, _Results) or (held.item is not item and held.item != item):
        texts = {
            place: compact(block.response)
            for place, block in enumerate(item.blocks)
            if isinstance(block, ResultBlock) and not block.media
        }
        held = _Results(item, {at: text for at, text in texts.items() if len(text) >= REPEATED})
        env.log.memo[key] = held
    return held.texts


def _compact(block: Block, item: Item, env: Env) -> Block:
    if isinstance(block, TextBlock):
        return compact_text(block, item, env, COMPACTED)
    if isinstance(block, MediaBlock):
        return compact_media(block, env, COMPACTED.over) or block
    if not isinstance(block, ResultBlock):
        return block
    if block.name in env.tools and env.tools[block.name].compact is False:
        return block
    short = compact_result(block, item, env, COMPACTED)
    said = {place: media_words(one, env, COMPACTED.over) for place, one in enumerate(short.media)}
    words = [text for text in said.values() if text is not None]
    if not words:
        return short
    stay = tuple(one for place, one in enumerate(short.media) if said[place] is None)
    response = with_media_words(short.response, words)
    return msgspec.structs.replace(short, response=response, media=stay)


def _shown_in_short(block: TextBlock, item: Item, env: Env) -> TextBlock:
    """A text as a handle with a digest, as short as a cut one."""
    head, _, rest = block.text.partition("\n")
    text = rest if block.handle and head.startswith("[handle ") and rest else block.text
    bare = block if text is block.text else msgspec.structs.replace(block, text=text)
    short = compact_text(bare, item, env, Limits(TRUNCATED, TRUNCATED))
    return block if short is bare else short


def _headless(block: ResultBlock) -> ResultBlock:
    """A result without the line that names its handle, which it gets again."""
    text = sole_text(block.response)
    if not text.startswith("[handle ") or "\n" not in text:
        return block
    return msgspec.structs.replace(
        block, response=dict.fromkeys(block.response, text.partition("\n")[2])
    )


def _cut(block: Block, item: Item, env: Env) -> Block:
    if isinstance(block, TextBlock) and block.signature is None:
        if env.policy.makes_handles and block.origin.kind == "event":
            return _shown_in_short(block, item, env)
        text = cut_text(block.text, limit=TRUNCATED, count=env.count, keep="bookend", mark=MARK)
        if text == block.text:
            return block
        return msgspec.structs.replace(block, text=text, spans=(), kept=None)
    if isinstance(block, ResultBlock):
        if (
            env.policy.makes_handles
            and not block.media
            and not (block.name in env.tools and env.tools[block.name].compact is False)
        ):
            bare = _headless(block)
            short = compact_result(bare, item, env, Limits(TRUNCATED, TRUNCATED))
            return block if short is bare else short
        shorter = reduced(block.response, limit_tokens=TRUNCATED, count=env.count).value
        if shorter == block.response and not block.media:
            return block
        response = shorter if isinstance(shorter, dict) else {"result": shorter}
        if block.media:
            response = {**response, "left_out": _media_words(block.media)}
        return msgspec.structs.replace(block, response=response, media=())
    if isinstance(block, MediaBlock) and block.signature is None:
        text = f"[{_media_words((block,))}, left out]"
        return TextBlock(
            role=block.role,
            origin=block.origin,
            stability=block.stability,
            priority=block.priority,
            labels=block.labels,
            text=text,
        )
    return block


def _media_words(media: tuple[MediaBlock, ...]) -> str:
    return ", ".join(
        f"{one.name} ({one.mime_type})" if one.name else one.mime_type for one in media
    )
