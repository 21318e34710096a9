"""Handles: large values of the log in short, by a name from which the log finds them again.

A handle is the hash of a value that an event holds, so nothing has to be kept beside the log: who
reads it finds the value, and only in the session that has it. What stands in its place is a pure
function of the event and of how short it is to be.
"""

from base64 import b64decode
from binascii import Error
from collections.abc import Callable, Container, Hashable
from typing import TYPE_CHECKING, NamedTuple

import msgspec

from weft.content import Part
from weft.declare.policy_parts import Compact, Truncate
from weft.digest import cut_text, reduced
from weft.ir import Block, CodeResultBlock, Item, MediaBlock, Prompt, ResultBlock, TextBlock
from weft.ir.item import RECALL
from weft.passes.env import Env
from weft.passes.prices import Traffic, declares_first, needs_recall
from weft.session.strand import Strand
from weft.tokens import image_size, media_tokens
from weft.values import Json, JsonObject, compact, handle_of

if TYPE_CHECKING:
    from weft.digest.asked import Asked

_OWN = (RECALL, "transfer_to_agent", "set_model_response")
"""Weft's own tools: what was recalled is to be read, and the others say next to nothing."""

_ASKS, _ASKS_JSON = "; recall by lines or query", "; recall by field or query"
"""What the head of a digest says can be asked for."""

LEAST_TOKENS = 64
"""The fewest tokens that a handle with its digest is given."""


class HandleLimits(NamedTuple):
    """From how many tokens on a value becomes a handle, and how many it then takes at most.

    `known` are names that stand in view already, so that no digest need list them. `asks` says
    that a digest tells how its value can be asked for, and `asked` what it was asked for.
    """

    over: int
    to: int
    known: Container[str] = frozenset[str]()
    asks: bool = False
    asked: "Asked | None" = None


def result_limits(tool: str, env: Env, options: Compact) -> HandleLimits | None:
    """The limits of a tool's results: as the tool declares, else as the policy does."""
    own = env.tools.own[tool].compact if tool in env.tools.own else None
    if own is False:
        return None
    if own is None or own is True:
        over = options.results
        if over is None and own is True:
            over = max(Compact().results or 0, options.to)
        return HandleLimits(over, options.to) if over is not None else None
    return HandleLimits(own, max(LEAST_TOKENS, min(options.to, own)))


def compact_result(
    block: ResultBlock,
    item: Item,
    env: Env,
    limits: HandleLimits,
    asking: "Callable[[], Asked] | None" = None,
) -> ResultBlock:
    """The result as a handle with a digest, its shape kept; itself where it is short enough.

    `asking` says what it was asked for. Most results are short, and nobody needs to know.
    """
    response = block.response
    if block.synthetic or block.name in _OWN:
        return block
    text = sent_text(response)
    if _is_short(text, limits.over):
        return block
    size = env.tokens.count(text)
    if size <= limits.over:
        return block
    if asking is not None:
        limits = limits._replace(asked=asking())
    handle = handle_of(logged(block, item, env))
    short: JsonObject
    if sole_text(response):
        short = dict.fromkeys(response, _short_text(text, handle, size, limits, env))
    else:
        short = _short_fields(response, handle, size, limits, env)
    return msgspec.structs.replace(block, response=short, handle=handle)


def compact_text(block: TextBlock, item: Item, env: Env, limits: HandleLimits) -> TextBlock:
    """The text as a handle with a digest; itself where it is short, or where somebody signed it."""
    text = block.text
    # a provider refuses a signature over other words
    if block.signature is not None or _is_short(text, limits.over):
        return block
    size = env.tokens.count(text)
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
    return in_words(block, words, handle_of(block.data))


def in_words(block: MediaBlock, words: str, handle: str = "") -> TextBlock:
    """Words that stand in the place of media."""
    return TextBlock(
        role=block.role,
        origin=block.origin,
        stability=block.stability,
        priority=block.priority,
        labels=block.labels,
        text=words,
        handle=handle,
    )


def media_words(block: MediaBlock, env: Env, over: int) -> str | None:
    """The words for media that takes more than `over` tokens; what an address holds is unknown."""
    if block.data is None:
        return None
    # the bytes behind base64, without decoding it
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
    """The tokens of a result as it is sent."""
    return env.tokens.count(sent_text(response))


def sent_text(response: JsonObject) -> str:
    """A result as it is sent: its one text where it has only one, else JSON."""
    return sole_text(response) or compact(response)


def _media_tokens(mime_type: str, data: str, size: int, env: Env) -> int:
    width, height = 0, 0
    if mime_type.startswith("image/"):
        # an image says its size near its beginning
        start = data[:65_536]
        try:
            image = image_size(b64decode(start[: len(start) // 4 * 4]))
        except (Error, ValueError):
            image = None
        width, height = image or (0, 0)
    return media_tokens(env.model.dialect, env.model.name, mime_type, size, width, height)


def sole_text(response: JsonObject) -> str:
    """The one text of a result that has nothing else."""
    if len(response) != 1:
        return ""
    (text,) = response.values()
    return text if isinstance(text, str) else ""


def _short_fields(
    response: JsonObject, handle: str, size: int, limits: HandleLimits, env: Env
) -> JsonObject:
    """A digest of a result with several fields, or none that is a text, behind its handle."""
    asks = _ASKS_JSON if limits.asks else ""
    # how many items it will say is not known yet: room for a large number
    head = env.tokens.count(compact(_headed({}, handle, size, f"some of 1,000,000 items{asks}")))
    to = limits.to
    # its head says what was left out, which is known only afterwards: its length is a guess
    for _ in range(6):
        room = max(1, to - head)
        digest_of = reduced(response, limit_tokens=room, count=env.tokens.count, asked=limits.asked)
        fields = digest_of.value if isinstance(digest_of.value, dict) else {}
        short = _headed(fields, handle, size, digest_of.left_out, asks)
        if result_tokens(short, env) <= limits.to:
            return short
        to -= 8
    return {"handle": handle, "left_out": f"all of it, {size:,} tokens"}


def _headed(
    fields: JsonObject, handle: str, size: int, left_out: str, asks: str = ""
) -> JsonObject:
    """A digest that begins with its handle, under a key that the value does not have."""
    key = "handle" if "handle" not in fields else "weft_handle"
    return {key: handle, "left_out": f"{left_out}, {size:,} tokens{asks}", **fields}


def _short_text(text: str, handle: str, size: int, limits: HandleLimits, env: Env) -> str:
    """A digest below a line that says what it is of; never more than `limits.to` tokens."""
    to, asks = limits.to, _ASKS if limits.asks else ""
    room = to - env.tokens.count(
        f"[handle {handle}: html, {size:,} tokens; left out: 9,999 of 9,999{asks}]\n"
    )
    # as above: the head is counted with large numbers, and may still be longer
    for _ in range(6):
        if room < 1:
            break
        short = reduced(
            text,
            limit_tokens=room,
            count=env.tokens.count,
            known=limits.known,
            asked=limits.asked,
        )
        summary = f"{short.shape}, {size:,} tokens; left out: {short.left_out}"
        if limits.asked is not None:
            summary = f"{short.left_out} left out"
        head = f"[handle {handle}: {summary}{asks}]"
        whole = f"{head}\n{short.value}"
        over = env.tokens.count(whole) - to
        if over <= 0:
            return whole
        room -= over + 4
    return f"[handle {handle}: {size:,} tokens]"


def logged(block: Block, item: Item, env: Env) -> Json:
    """The value as the log has it, whatever other steps did to the block before."""
    own: Json = block.response if isinstance(block, ResultBlock) else ""
    if isinstance(block, TextBlock):
        own = block.text
    # the log has changes of the state; what stands now is in the session
    if block.origin.kind == "state":
        return env.session.state.get(block.origin.name, own)
    if block.origin.kind == "artifact":
        return env.session.artifacts.get(block.origin.name, own)
    for event in env.log.between(max(0, item.position), item.last + 1):
        if event.id != block.origin.name or event.content is None:
            continue
        parts = event.content.parts or ()
        place = block.origin.part
        if not 0 <= place < len(parts):
            return own
        part = parts[place]
        if isinstance(block, ResultBlock | TextBlock) and part.function_response is not None:
            return part.function_response.response or {}
        return _narrated(part, own) if isinstance(block, TextBlock) else own
    return own


def _narrated(part: Part, own: Json) -> Json:
    """The value of the log behind a text that tells of it, such as another agent's call."""
    if part.function_call is not None:
        return part.function_call.args or {}
    if part.executable_code is not None:
        return part.executable_code.code or own
    if part.code_execution_result is not None:
        return part.code_execution_result.output or own
    return part.text or own


MARK = " […] "
"""What stands where something was cut out."""

ELLIPSIS = "…"
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
        return {keys[0]: _cut(text, env, options)}
    if (shorter := _with_cut_texts(response, env, options)) is not None:
        return shorter
    key = "error" if keys == ["error"] else "result"
    return {key: _cut(compact(response), env, options)}


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


def offer_recall(prompt: Prompt, env: Env) -> Prompt:
    """Add `recall` to the tools of a request in which a handle stands.

    An agent with tools, whose policy makes handles, has it from its first request on, so that the
    head of the request never changes. Under `C.auto()` that is so where the declaration is next to
    nothing beside the rest of the first request; else it waits for the first handle, and so it
    does for an agent without tools. What is said by reference needs no tool while it is in view.

    Before:  tools - | call read(a) -> "[handle h ...]"
    After:   tools recall | call read(a) -> "[handle h ...]"
    """
    tool = env.tools.recall
    if tool is None or any(one.name == tool.name for one in prompt.tools):
        return prompt
    key = (env.tools.priced, env.agent, env.model.dialect, env.model.name)
    # a TokenBudget comes behind this pass, and leaves handles where it drops what others refer to
    if _is_needed(prompt.items, env, key) or (env.tools.priced and env.tokens.budget is not None):
        return msgspec.structs.replace(prompt, tools=(*prompt.tools, tool))
    return prompt


class _Handles:
    """Which settled item is the first with a handle, and how many were looked at."""

    def __init__(self, read: int = 0, first: int = -1) -> None:
        self.read = read
        self.first = first

    def fork(self, length: int) -> "_Handles":
        return _Handles(min(self.read, length), self.first if self.first < length else -1)


def _is_needed(items: Strand[Item], env: Env, key: Hashable) -> bool:
    """Whether something can be read only by its handle, or prices want the tool from the start."""
    hides = needs_recall if env.tools.priced else has_handle
    with items.lock:
        handles = items.memo[_Handles, key]
        # one handle is enough: nothing is looked at behind the first
        if handles.first < 0 and handles.read < items.settled:
            fresh = items.between(handles.read, items.settled)
            hiding = (at for at, item in enumerate(fresh, handles.read) if hides(item))
            handles.first = next(hiding, -1)
        handles.read = max(handles.read, items.settled)
        if 0 <= handles.first < items.settled or any(map(hides, items.tail)):
            return True
    return env.tools.priced and declares_first(_opening(items, env), env)


def _opening(items: Strand[Item], env: Env) -> int:
    """The tokens before the agent's first word."""
    traffic = Traffic()
    for index in range(items.length):
        traffic.add(items[index], env)
        if traffic.steps:
            break
    return traffic.opening


def has_handle(item: Item) -> bool:
    """Whether something of the item is to be got back by its handle."""
    return any(
        isinstance(block, ResultBlock | TextBlock) and (block.handle or block.refers)
        for block in item.blocks
    )
