"""Passes that make large values shorter, each with a handle to the whole.

Top to bottom: results that are bounded, digests, texts that are cut, fields of JSON.
"""

from collections.abc import Hashable, Sequence
from typing import NamedTuple

import msgspec

from weft.declare.policy_parts import Compact, Project, Truncate
from weft.digest import cut_text
from weft.ir import (
    Block,
    CodeResultBlock,
    Feature,
    Item,
    MediaBlock,
    Note,
    Prompt,
    ResultBlock,
    TextBlock,
    ThoughtBlock,
)
from weft.ir.block import RECALL
from weft.passes.env import Env, TokenFacts, is_short, is_spoken
from weft.passes.handles import (
    HandleLimits,
    compact_media,
    compact_result,
    compact_text,
    media_words,
    result_limits,
    result_tokens,
    text_limits,
    with_media_words,
)
from weft.passes.rewrite import map_blocks, rewrite_items
from weft.session.talk import MOST_LETTERS
from weft.values import Json, JsonObject, compact, handle_of

BOUNDED_TO = 16_000
"""How many letters are left at most of a result with more than `MOST_LETTERS`."""

_LETTERS = 4
"""Letters of a token, where a text is too long to be counted otherwise."""


def bound_results(prompt: Prompt, env: Env) -> Prompt:
    """Replace a result of more than 50,000 characters by a handle and what matters of it.

    It is what every request does, so that no tool fills the model's window by accident. The log
    keeps the whole value, and `recall` is offered from then on. A tool that says
    `@tool(compact=False)` is left alone. What stands here depends on the event alone, not on the
    model, so the bytes that are sent first are those that are sent always.

    Before:  call read(a) | result {"result": 900,000 characters}
    After:   call read(a) | result {"result": "[handle 3fa4c1d2e5f6: log ...] some of the lines"}
    """
    # without calls there are no results
    if not prompt.features & Feature.CALLS:
        return prompt

    def change(item: Item, _: None) -> Item | Note:
        large = [block for block in item.blocks if _is_large(block, env)]
        short = _bound_item(item, large, env) if large else item
        if short is item:
            return item
        reason = f"it had more than {MOST_LETTERS:,} characters; a digest stands for it"
        return Note("bound_results", reason, item, short)

    after = rewrite_items(prompt, "bound_results", change, key=env.agent)
    if after is prompt:
        return prompt
    return msgspec.structs.replace(after, features=prompt.features | Feature.BOUNDED)


class _Short(NamedTuple):
    """An item, and what it became."""

    item: Item
    short: Item


class _BoundedItems(dict[object, _Short]):
    """What items of a log with large results became, by their keys."""


def _bound_item(item: Item, large: Sequence[Block], env: Env) -> Item:
    """The item with digests for these blocks; one that is still open is not read twice."""
    known = env.log.memo[_BoundedItems, env.agent]
    known_short = known.get(item.key)
    if known_short is None or known_short.item != item:
        limits = HandleLimits(MOST_LETTERS // _LETTERS, BOUNDED_TO // _LETTERS)
        # tokens differ by model, and this must not: the same log, the same bytes
        by_letters = msgspec.structs.replace(env, tokens=TokenFacts(count=_tokens))
        blocks = tuple(
            compact_result(block, item, by_letters, limits)
            if isinstance(block, ResultBlock) and any(block is one for one in large)
            else block
            for block in item.blocks
        )
        known_short = known[item.key] = _Short(item, msgspec.structs.replace(item, blocks=blocks))
    return known_short.short


def _is_large(block: Block, env: Env) -> bool:
    if not isinstance(block, ResultBlock) or block.synthetic:
        return False
    if is_short(block.response):
        return False
    return not (block.name in env.tools.own and env.tools.own[block.name].compact is False)


def _tokens(text: str) -> int:
    return -(-len(text) // _LETTERS)


# --- digests with a handle


def compact_items(prompt: Prompt, env: Env, options: Compact) -> Prompt:
    """Replace large results, and large texts of others, by a handle and what matters of them.

    The log keeps the whole value, and `recall` gets it back. What stands here depends on the
    event alone, so the bytes that are sent first are those that are sent always. A tool may say
    otherwise: `@tool(compact=False)` never, `compact=True` as usual, or above a number of tokens.
    What the user and the agent itself said is left as it is, and so are recalled values.

    Before:  call read(a) | result {"result": 412 lines of code}
    After:   call read(a) | result {"result": "[handle 3fa4c1d2e5f6: code ...] 40 of the lines"}
    """
    known = _find_earlier(env, options)

    def change(item: Item, _: None) -> Item | Note:
        short = _compact_item(item, env, options, known)
        if short is item:
            return item
        return Note("compact_items", "a digest stands for it, with its handle", item, short)

    return rewrite_items(prompt, "compact_items", change, key=_measure(env, options))


def _measure(env: Env, options: Compact | Truncate) -> Hashable:
    """What decides whether a value is large, besides the value: tokens, and what tools say."""
    own = tuple((name, tool.compact) for name, tool in env.tools.own.items())
    return options, env.agent, env.model.dialect, env.model.name, own


class _Digests(dict[object, _Short]):
    """What items of a log became, by their keys."""


def _find_earlier(env: Env, options: Compact) -> dict[object, _Short]:
    """What items became in earlier requests, kept with the log; a new item is seen only once."""
    # on new items: each comes once
    if env.tokens.measure is None:
        return {}
    return env.log.memo[_Digests, _measure(env, options)]


def _compact_item(item: Item, env: Env, options: Compact, known: dict[object, _Short]) -> Item:
    """The item with digests for what is large in it; itself where nothing is."""
    digested = known.get(item.key)
    if digested is not None and (digested.item is item or digested.item == item):
        return item if digested.short is digested.item else digested.short
    blocks = tuple(_compact_large(block, item, env, options) for block in item.blocks)
    same = all(new is old for new, old in zip(blocks, item.blocks, strict=True))
    short = item if same else msgspec.structs.replace(item, blocks=blocks)
    known[item.key] = _Short(item, short)
    return short


def _compact_large(block: Block, item: Item, env: Env, options: Compact) -> Block:
    if isinstance(block, ResultBlock):
        limits = result_limits(block.name, env, options)
        return compact_result(block, item, env, limits) if limits is not None else block
    if isinstance(block, TextBlock) and options.texts is not None:
        is_own = item.author in ("user", env.agent) and item.kind != "state"
        if not is_own and item.kind not in ("summary", "system"):
            return compact_text(block, item, env, text_limits(options.texts, options))
    return block


def compact_past(prompt: Prompt, env: Env, options: Compact) -> Prompt:
    """Replace media, and large texts of the user and the agent itself, once their turn is over.

    In the turn that brings them they are seen as they are. When the next one begins, a handle
    stays; that changes what was sent, once, and is reported as such. Media at an address is
    left as it is: nobody here knows its size. So is what a provider signed.

    Before:  user "Read this", application/pdf, 3 MB | model "It is a contract" | user "Who signs?"
    After:   user "Read this", "[handle ...: application/pdf, 3 MB]" | model ... | user "Who signs?"
    """

    def change(item: Item, _: None) -> Item | Note:
        if not _may_hold(item):
            return item
        short = map_blocks(item, lambda block: _compact_old(block, item, env, options))
        if short is item:
            return item
        return Note("compact_past", "its turn is over, so its handle stands for it", item, short)

    key = _measure(env, options)
    return rewrite_items(prompt, "compact_past", change, key=key, until=env.turn)


def _may_hold(item: Item) -> bool:
    """Whether an item may change: it is a turn, and no provider has signed a thought in it."""
    return item.kind not in ("summary", "system", "state") and not any(
        isinstance(block, ThoughtBlock) and block.signature for block in item.blocks
    )


def _compact_old(block: Block, item: Item, env: Env, options: Compact) -> Block:
    match block:
        case MediaBlock() if options.media is not None:
            return compact_media(block, env, options.media) or block
        # media that was recalled is to be seen
        case ResultBlock() if options.media is not None and block.media and block.name != RECALL:
            return _result(block, env, options.media)
        case TextBlock() if options.texts is not None and item.author in ("user", env.agent):
            return compact_text(block, item, env, text_limits(options.texts, options))
        case _:
            return block


def _result(block: ResultBlock, env: Env, over: int) -> ResultBlock:
    """A result whose large media became handles in its text."""
    stay: list[MediaBlock] = []
    words: list[str] = []
    for media in block.media:
        words_for_one = media_words(media, env, over)
        if words_for_one is None:
            stay.append(media)
        else:
            words.append(words_for_one)
    if not words:
        return block
    response = with_media_words(block.response, words)
    handle = block.handle or handle_of(block.media[0].data)
    return msgspec.structs.replace(block, response=response, media=tuple(stay), handle=handle)


# --- texts that are cut


def truncate_items(prompt: Prompt, env: Env, options: Truncate) -> Prompt:
    """Cut each text and result to its head, its tail, or both ends.

    The cut stands between words, never inside what a reader sees as one character, and no call
    loses its result. What the user says stays whole in its turn, so it is not this pass that
    cuts it; calls and what a provider signed are never cut.

    Before:  call read(a) | result {"result": "one two three four"}   (C.default().truncate(2))
    After:   call read(a) | result {"result": "one […] "}
    """

    def change(item: Item, _: None) -> Item | Note:
        if is_spoken(item) or item.kind in ("summary", "system"):
            return item
        return _cut_item(item, "truncate_items", env, options)

    return rewrite_items(prompt, "truncate_items", change, key=_measure(env, options))


def _cut_item(item: Item, step: str, env: Env, options: Truncate) -> Item | Note:
    """The item, or a note on it with its long texts cut."""
    short = map_blocks(item, lambda block: _cut_block(block, env, options))
    if short is item:
        return item
    return Note(step, f"it had more than {options.tokens} tokens", item, short)


def truncate_past(prompt: Prompt, env: Env, options: Truncate) -> Prompt:
    """Cut what the user said once its turn is over; what the user asks now is never cut.

    Before:  user "one two three four" | model "ok" | user "five six seven"   (.truncate(2))
    After:   user "one […] " | model "ok" | user "five six seven"
    """

    def change(item: Item, _: None) -> Item | Note:
        return _cut_item(item, "truncate_past", env, options) if is_spoken(item) else item

    key = _measure(env, options)
    return rewrite_items(prompt, "truncate_past", change, key=key, until=env.turn)


MARK = " […] "
"""What stands where something was cut out."""

ELLIPSIS = "…"
"""What is left where there is no room for more: a turn without a text is refused."""


def _cut_block(block: Block, env: Env, options: Truncate) -> Block:
    """The block with at most `options.tokens` tokens; what a provider signed stays as it is."""
    match block:
        case TextBlock() if block.signature is None:
            text = _cut_text(block.text, env, options)
            if text == block.text:
                return block
            return msgspec.structs.replace(block, text=text, spans=(), kept=None)
        case CodeResultBlock() if block.signature is None:
            output = _cut_text(block.output, env, options)
            return (
                block if output == block.output else msgspec.structs.replace(block, output=output)
            )
        case ResultBlock() if not block.synthetic:
            response = _cut_response(block.response, env, options)
            if response is block.response:
                return block
            return msgspec.structs.replace(block, response=response)
        case _:
            return block


def _cut_text(text: str, env: Env, options: Truncate) -> str:
    # a letter has at most four bytes, and a token at least one: surely short
    if len(text) * 4 <= options.tokens:
        return text
    cut = cut_text(text, limit=options.tokens, count=env.tokens.count, keep=options.keep, mark=MARK)
    return cut or ELLIPSIS


def _cut_response(response: JsonObject, env: Env, options: Truncate) -> JsonObject:
    """A result with its one text cut; of several fields the longest texts give way first.

    Where that is not enough, the JSON of the whole result is cut as a text.
    """
    if (
        len(compact(response)) * 4 <= options.tokens
        or result_tokens(response, env) <= options.tokens
    ):
        return response
    keys = list(response)
    if len(keys) == 1 and isinstance(text := response[keys[0]], str):
        return {keys[0]: _cut_text(text, env, options)}
    if (shorter := _with_cut_texts(response, env, options)) is not None:
        return shorter
    key = "error" if keys == ["error"] else "result"
    return {key: _cut_text(compact(response), env, options)}


def _with_cut_texts(response: JsonObject, env: Env, options: Truncate) -> JsonObject | None:
    """The fields with the texts among them cut alike, if that makes them fit."""
    texts = {key: value for key, value in response.items() if isinstance(value, str)}
    if not texts:
        return None
    frame = result_tokens(
        {key: "" if key in texts else value for key, value in response.items()}, env
    )
    share = (options.tokens - frame) // len(texts)
    for _ in range(4):
        # of so little nobody could read anything
        if share < 8:
            return None
        cut: JsonObject = {
            key: _cut_share(value, share, env, options) if key in texts else value
            for key, value in response.items()
        }
        over = result_tokens(cut, env) - options.tokens
        if over <= 0:
            return cut
        share -= over // len(texts) + 2
    return None


def _cut_share(value: Json, share: int, env: Env, options: Truncate) -> Json:
    assert isinstance(value, str)
    return cut_text(value, limit=share, count=env.tokens.count, keep=options.keep, mark=MARK)


# --- fields of JSON

Tree = dict[str, "Tree"]
"""Field paths as a tree; an empty one means all that is below."""


def project_results(prompt: Prompt, env: Env, options: Project) -> Prompt:
    """Keep these fields of JSON results, or all but those; a path goes through lists.

    `"rows[].id"` and `"rows.id"` mean the id of every row. Errors, texts that are not JSON and
    results that have none of the fields stay as they are.

    Before:  result {"id": 1, "status": "ok", "trace": "..."}   (C.default().project(fields=["id"]))
    After:   result {"id": 1}
    """
    tree = _tree(options.fields or options.exclude)

    def change(item: Item, _: None) -> Item | Note:
        short = map_blocks(item, lambda block: _project_block(block, tree, options))
        if short is item:
            return item
        return Note("project_results", "only some of its fields are asked for", item, short)

    return rewrite_items(prompt, "project_results", change, key=options)


def project_value(value: Json, path: str) -> Json:
    """The field of a value that a path names, in its place; None where it has none."""
    response: JsonObject = value if isinstance(value, dict) else {"result": value}
    return _response(response, _tree((path,)), keep=True)


def _tree(paths: tuple[str, ...]) -> Tree:
    """The paths as a tree; one that is below another adds nothing to it."""
    tree: Tree = {}
    split = [[step for step in path.replace("[]", "").split(".") if step] for path in paths]
    for steps in sorted(split, key=len):
        at = tree
        for step in steps:
            # all below it is meant already
            if step in at and not at[step]:
                break
            at = at.setdefault(step, {})
    return tree


def _project_block(block: Block, tree: Tree, options: Project) -> Block:
    if not isinstance(block, ResultBlock) or block.synthetic or block.is_error:
        return block
    if options.tools and block.name not in options.tools:
        return block
    response = _response(block.response, tree, keep=bool(options.fields))
    if response is None or response == block.response:
        return block
    return msgspec.structs.replace(block, response=response)


def _response(response: JsonObject, tree: Tree, *, keep: bool) -> JsonObject | None:
    """The projected result; the one value of a result that has only one is looked into."""
    if len(response) == 1 and next(iter(response)) not in tree:
        ((key, value),) = response.items()
        if isinstance(value, str):
            from weft.digest.texts import parsed_json  # few policies project, all load this file

            parsed = parsed_json(value)
            if parsed is None:
                return None
            inner = _part(parsed, tree, keep=keep)
            return None if inner is None else {key: compact(inner)}
        inner = _part(value, tree, keep=keep)
        return None if inner is None else {key: inner}
    whole = _part(response, tree, keep=keep)
    return whole if isinstance(whole, dict) else None


def _part(value: Json, tree: Tree, *, keep: bool) -> Json:
    """What is left of a value; None where none of the fields that are to stay is in it."""
    if isinstance(value, list):
        rows = [_part(row, tree, keep=keep) for row in value]
        if keep and all(row is None for row in rows) and rows:
            return None
        return [{} if row is None and keep else row for row in rows]
    if not isinstance(value, dict):
        return None if keep else value
    fields: JsonObject = {}
    for key, inner_value in value.items():
        below = tree.get(key)
        if below is None:
            if not keep:
                fields[key] = inner_value
        elif not below:
            if keep:
                fields[key] = inner_value
        elif (inner := _part(inner_value, below, keep=keep)) is not None or not keep:
            fields[key] = inner
    return fields if fields or not keep else None
