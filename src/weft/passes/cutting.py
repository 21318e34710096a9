"""Cut what an item says to so many tokens, where it may be cut."""

import msgspec

from weft.declare.policy.transforms import Truncate
from weft.digest import cut_text
from weft.ir import Block, CodeResultBlock, ResultBlock, TextBlock
from weft.passes.env import Env
from weft.passes.handles import result_tokens
from weft.values import Json, JsonObject, compact

MARK = " […] "
"""What stands where something was cut out."""

LEAST = "…"
"""What is left where there is no room for more: a turn without a text is refused."""


def cut_block(block: Block, env: Env, options: Truncate) -> Block:
    """The block with at most so many tokens; what a provider signed stays as it is."""
    match block:
        case TextBlock() if block.signature is None:
            text = _cut(block.text, env, options)
            if text == block.text:
                return block
            return msgspec.structs.replace(block, text=text, spans=(), kept=None)
        case CodeResultBlock() if block.signature is None:
            output = _cut(block.output, env, options)
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


def _cut(text: str, env: Env, options: Truncate) -> str:
    if len(text) * 4 <= options.tokens:
        return text
    cut = cut_text(text, limit=options.tokens, count=env.count, keep=options.keep, mark=MARK)
    return cut or LEAST


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
        return {keys[0]: _cut(text, env, options)}
    if (shorter := _with_cut_texts(response, env, options)) is not None:
        return shorter
    key = "error" if keys == ["error"] else "result"
    return {key: _cut(compact(response), env, options)}


def _with_cut_texts(response: JsonObject, env: Env, options: Truncate) -> JsonObject | None:
    """The fields with the texts among them cut alike, if that makes them fit."""
    texts = {key: held for key, held in response.items() if isinstance(held, str)}
    if not texts:
        return None
    frame = result_tokens(
        {key: "" if key in texts else held for key, held in response.items()}, env
    )
    share = (options.tokens - frame) // len(texts)
    for _ in range(4):
        if share < 8:
            return None
        cut: JsonObject = {
            key: _cut_share(held, share, env, options) if key in texts else held
            for key, held in response.items()
        }
        over = result_tokens(cut, env) - options.tokens
        if over <= 0:
            return cut
        share -= over // len(texts) + 2
    return None


def _cut_share(held: Json, share: int, env: Env, options: Truncate) -> Json:
    assert isinstance(held, str)
    return cut_text(held, limit=share, count=env.count, keep=options.keep, mark=MARK)
