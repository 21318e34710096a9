"""Handles: large values of the log in short, by a name from which the log finds them again.

A handle is the hash of a value that an event holds, so nothing has to be kept beside the log: who
reads it finds the value, and only in the session that has it. What stands in its place is a pure
function of the event and of how short it is to be.
"""

from base64 import b64decode
from binascii import Error
from collections.abc import Container
from typing import NamedTuple

import msgspec

from weft.declare.policy.transforms import Compact
from weft.digest import reduced
from weft.ir import Block, Item, MediaBlock, ResultBlock, TextBlock
from weft.ir.handle import RECALL as RECALL
from weft.ir.handle import handle_of as handle_of
from weft.passes.env import Env
from weft.tokens import image_size, media_tokens
from weft.values import Json, JsonObject, compact

_OWN = (RECALL, "transfer_to_agent", "set_model_response")

LEAST = 64
"""The fewest tokens that a handle with its digest is given."""


class Limits(NamedTuple):
    """From how many tokens on a value becomes a handle, and how many it then takes at most.

    `known` are names that stand in view already, so that no digest need list them.
    """

    over: int
    to: int
    known: Container[str] = frozenset[str]()


def result_limits(tool: str, env: Env, options: Compact) -> Limits | None:
    """From when on a tool's results are handles: as it says itself, else as the policy does."""
    own = env.tools[tool].compact if tool in env.tools else None
    if own is False:
        return None
    if own is None or own is True:
        over = options.results
        if over is None and own is True:
            over = max(Compact().results or 0, options.to)
        return Limits(over, options.to) if over is not None else None
    return Limits(own, max(LEAST, min(options.to, own)))


def compact_result(block: ResultBlock, item: Item, env: Env, limits: Limits) -> ResultBlock:
    """The result as a handle with a digest, its shape kept; itself where it is short enough."""
    response = block.response
    if block.synthetic or block.name in _OWN or _is_short(compact(response), limits.over):
        return block
    size = result_tokens(response, env)
    if size <= limits.over:
        return block
    handle = handle_of(logged(block, item, env))
    to = limits.to
    for _ in range(6):
        short = _short(response, handle, size, limits._replace(to=max(to, 1)), env)
        if result_tokens(short, env) <= limits.to:
            break
        to -= 8
    else:
        short = _bare(response, handle, size)
    return msgspec.structs.replace(block, response=short, handle=handle)


def compact_text(block: TextBlock, item: Item, env: Env, limits: Limits) -> TextBlock:
    """The text as a handle with a digest; itself where it is short, or where somebody signed it."""
    text = block.text
    if block.signature is not None or _is_short(text, limits.over):
        return block
    size = env.count(text)
    if size <= limits.over:
        return block
    handle = handle_of(logged(block, item, env))
    short = _short_text(text, handle, size, limits, env)
    return msgspec.structs.replace(block, text=short, spans=(), kept=None, handle=handle)


def compact_media(block: MediaBlock, env: Env, over: int) -> TextBlock | None:
    """What stands for media of an earlier turn: its handle, kind, name and size."""
    words = media_words(block, env, over)
    if words is None or block.data is None or block.signature is not None:
        return None
    return TextBlock(
        role=block.role,
        origin=block.origin,
        stability=block.stability,
        priority=block.priority,
        labels=block.labels,
        text=words,
        handle=handle_of(block.data),
    )


def media_words(block: MediaBlock, env: Env, over: int) -> str | None:
    """The words for media that takes more than `over` tokens; what an address holds is unknown."""
    if block.data is None:
        return None
    size = len(block.data) * 3 // 4 - block.data[-2:].count("=")
    tokens = _media_tokens(block.mime_type, block.data, size, env)
    if tokens <= over:
        return None
    name = f' "{block.name}"' if block.name else ""
    return (
        f"[handle {handle_of(block.data)}: {block.mime_type}{name}, {size:,} bytes,"
        f" about {tokens:,} tokens, shown before]"
    )


def with_media_words(response: JsonObject, words: list[str]) -> JsonObject:
    """A result that says in words which media came with it."""
    text = sole_text(response)
    if text:
        return dict.fromkeys(response, "\n".join((text, *words)))
    key = "media" if "media" not in response else "weft_media"
    return {**response, key: list[Json](words)}


def _is_short(text: str, tokens: int) -> bool:
    """Whether a text surely has no more tokens, seen without counting: each has a byte."""
    return len(text) * 4 <= tokens or len(text.encode("utf-8", "replace")) <= tokens


def result_tokens(response: JsonObject, env: Env) -> int:
    """The tokens of a result as it is sent: its one text where it has only one, else JSON."""
    return env.count(sole_text(response) or compact(response))


def _media_tokens(mime_type: str, data: str, size: int, env: Env) -> int:
    width, height = 0, 0
    if mime_type.startswith("image/"):
        start = data[:65_536]
        try:
            found = image_size(b64decode(start[: len(start) // 4 * 4]))
        except (Error, ValueError):
            found = None
        width, height = found or (0, 0)
    return media_tokens(env.dialect, env.model, mime_type, size, width, height)


def sole_text(response: JsonObject) -> str:
    """The one text of a result that has nothing else."""
    if len(response) != 1:
        return ""
    value = next(iter(response.values()))
    return value if isinstance(value, str) else ""


def _short(response: JsonObject, handle: str, size: int, limits: Limits, env: Env) -> JsonObject:
    text = sole_text(response)
    if text:
        return {key: _short_text(text, handle, size, limits, env) for key in response}
    head = env.count(compact(_headed({}, handle, size, "some of 1,000,000 items")))
    digest_of = reduced(response, limit_tokens=max(1, limits.to - head), count=env.count)
    held = digest_of.value if isinstance(digest_of.value, dict) else {}
    return _headed(held, handle, size, digest_of.left_out)


def _headed(held: JsonObject, handle: str, size: int, left_out: str) -> JsonObject:
    """A digest that begins with its handle, under a key that the value does not have."""
    key = "handle" if "handle" not in held else "weft_handle"
    return {key: handle, "left_out": f"{left_out}, {size:,} tokens", **held}


def _bare(response: JsonObject, handle: str, size: int) -> JsonObject:
    """Nothing but the handle, in the way the value was given."""
    words = f"[handle {handle}: {size:,} tokens]"
    if sole_text(response):
        return dict.fromkeys(response, words)
    return {"handle": handle, "left_out": f"all of it, {size:,} tokens"}


def _short_text(text: str, handle: str, size: int, limits: Limits, env: Env) -> str:
    """A digest below a line that says what it is of; never more than `limits.to` tokens."""
    to = limits.to
    room = to - env.count(f"[handle {handle}: html, {size:,} tokens; left out: 9,999 of 9,999]\n")
    for _ in range(6):
        if room < 1:
            break
        short = reduced(text, limit_tokens=room, count=env.count, known=limits.known)
        head = f"[handle {handle}: {short.shape}, {size:,} tokens; left out: {short.left_out}]"
        whole = f"{head}\n{short.value}"
        over = env.count(whole) - to
        if over <= 0:
            return whole
        room -= over + 4
    return f"[handle {handle}: {size:,} tokens]"


def logged(block: Block, item: Item, env: Env) -> Json:
    """The value as the log has it, whatever other steps did to the block before."""
    own: Json = block.response if isinstance(block, ResultBlock) else ""
    if isinstance(block, TextBlock):
        own = block.text
    if block.origin.kind == "state":
        return env.state.get(block.origin.name, own)
    if block.origin.kind == "artifact":
        return env.artifacts.get(block.origin.name, own)
    for index in range(item.position, min(item.last + 1, len(env.log))):
        event = env.log[index]
        if event.id != block.origin.name or event.content is None:
            continue
        parts = event.content.parts or ()
        place = block.origin.part
        if not 0 <= place < len(parts):
            return own
        part = parts[place]
        if isinstance(block, ResultBlock) and part.function_response is not None:
            return part.function_response.response or {}
        return part.text if isinstance(block, TextBlock) and part.text else own
    return own
