"""Let large texts and media of earlier turns stand as handles."""

import msgspec

from weft.declare.policy.transforms import Compact
from weft.ir import Block, Item, MediaBlock, Note, Prompt, ResultBlock, TextBlock, ThoughtBlock
from weft.ir.handle import RECALL
from weft.passes.env import Env
from weft.passes.handles import (
    Limits,
    compact_media,
    compact_text,
    handle_of,
    media_words,
    with_media_words,
)


def compact_past(prompt: Prompt, env: Env, options: Compact) -> Prompt:
    """Replace media, and large texts of the user and the agent itself, once their turn is over.

    In the turn that brings them they are seen as they are. When the next one begins, a handle
    stays; that changes what was sent, once, and is reported as such. Media behind an address is
    left as it is: nobody here knows its size. So is what a provider signed.

    Before:  user "Read this", application/pdf, 3 MB | model "It is a contract" | user "Who signs?"
    After:   user "Read this", "[handle ...: application/pdf, 3 MB]" | model ... | user "Who signs?"
    """
    kept: list[Item] = []
    notes: list[Note] = []
    for item in prompt.items:
        if item.position >= env.turn or not _may_hold(item):
            kept.append(item)
            continue
        blocks = tuple(_compacted(block, item, env, options) for block in item.blocks)
        if all(new is old for new, old in zip(blocks, item.blocks, strict=True)):
            kept.append(item)
            continue
        short = msgspec.structs.replace(item, blocks=blocks)
        reason = "its turn is over, so its handle stands for it"
        notes.append(Note("compact_past", reason, item, short))
        kept.append(short)
    return prompt.with_items(kept, notes) if notes else prompt


def _may_hold(item: Item) -> bool:
    """Whether nothing in it was sealed by a provider, but for calls, which stay as they are."""
    return item.kind not in ("summary", "system", "state") and not any(
        isinstance(block, ThoughtBlock) and block.signature for block in item.blocks
    )


def _compacted(block: Block, item: Item, env: Env, options: Compact) -> Block:
    match block:
        case MediaBlock() if options.media is not None:
            return compact_media(block, env, options.media) or block
        case ResultBlock() if options.media is not None and block.media and block.name != RECALL:
            return _result(block, env, options.media)
        case TextBlock() if options.texts is not None and item.author in ("user", env.agent):
            return compact_text(block, item, env, Limits(options.texts, options.to))
        case _:
            return block


def _result(block: ResultBlock, env: Env, over: int) -> ResultBlock:
    """A result whose large media became handles in its text."""
    stay: list[MediaBlock] = []
    words: list[str] = []
    for media in block.media:
        said = media_words(media, env, over)
        if said is None:
            stay.append(media)
        else:
            words.append(said)
    if not words:
        return block
    response = with_media_words(block.response, words)
    handle = block.handle or handle_of(block.media[0].data)
    return msgspec.structs.replace(block, response=response, media=tuple(stay), handle=handle)
