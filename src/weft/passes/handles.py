"""Handles: large values of the log in short, by a name from which the log finds them again.

A handle is the hash of a value that an event holds, so nothing has to be kept besides the log: who
reads it finds the value, and only in the session that has it. What stands in its place is a pure
function of the event and of how short it is to be.

Below that, what a handle saves or costs by the prices of the provider.
"""

import sys
from base64 import b64decode
from binascii import Error
from collections.abc import Callable, Container, Sequence
from copy import copy
from operator import le
from typing import TYPE_CHECKING, NamedTuple, TypeAlias

import msgspec

from weft.content import Part
from weft.declare.policy_parts import Compact
from weft.digest import reduced
from weft.ir import Block, Item, MediaBlock, Prompt, ResultBlock, TextBlock
from weft.ir.block import RECALL
from weft.ir.prompt import show_plainly
from weft.passes.env import Env, ModelFacts
from weft.passes.rewrite import PassFold, fold_items
from weft.session.talk import MOST_LETTERS
from weft.tokens import image_size, media_tokens
from weft.values import Json, JsonObject, compact, handle_of

if TYPE_CHECKING:
    from weft.digest.asked import CallQuery

_OWN = (RECALL, "transfer_to_agent", "set_model_response")
"""Weft's own tools: what was recalled is to be read, and the others say next to nothing."""

_ASKS, _ASKS_JSON = "; recall by lines or query", "; recall by field or query"
"""What the head of a digest says can be asked for."""

LEAST_TOKENS = 64
"""The fewest tokens that a handle with its digest is given."""

_HARDLY = 0.75
"""A digest with this share of its value's tokens, or more, is not worth its handle."""


class HandleLimits(NamedTuple):
    """From how many tokens on a value becomes a handle, and how many it then takes at most.

    Where that would hide a failure, the only line of its kind, or a row that a table keeps, it
    takes up to `most`; 0 is as many as `to`. `known` are names that stand in view already, so that
    no digest need list them. `asks` says that a digest tells how its value can be asked for, and
    `asked` what it was asked for.
    """

    over: int
    to: int
    most: int = 0
    known: Container[str] = frozenset[str]()
    asks: bool = False
    asked: "CallQuery | None" = None


def result_limits(tool: str, env: Env, options: Compact) -> HandleLimits | None:
    """The limits of a tool's results: as the tool declares, else as the policy does."""
    own = env.tools.own[tool].compact if tool in env.tools.own else None
    if own is False:
        return None
    if own is None or own is True:
        over = options.results
        if over is None and own is True:
            over = max(Compact().results or 0, options.to)
        return _bounded_limits(over, options.to) if over is not None else None
    return _bounded_limits(own, max(LEAST_TOKENS, min(options.to, own)))


def text_limits(over: int, options: Compact) -> HandleLimits:
    """The limits of a text that becomes a handle if it has more tokens than `over`."""
    return _bounded_limits(over, options.to)


def _bounded_limits(over: int, to: int) -> HandleLimits:
    """Limits of a digest that never takes more than what would have been left whole."""
    return HandleLimits(over, to, most=max(over, to))


def compact_result(block: ResultBlock, item: Item, env: Env, limits: HandleLimits) -> ResultBlock:
    """The result as a handle with a digest, its shape kept; itself where it is short enough."""
    short = short_result(block, item, env, limits)
    return short.block if short is not None else block


class ShortResult(NamedTuple):
    """A result as a handle with a digest, and its tokens before and after."""

    block: ResultBlock
    before: int
    after: int


def short_result(
    block: ResultBlock,
    item: Item,
    env: Env,
    limits: HandleLimits,
    *,
    asking: "Callable[[], CallQuery] | None" = None,
    whole: Json = None,
) -> ShortResult | None:
    """The result as `compact_result` has it; None where it is short enough.

    `asking` says what it was asked for. Most results are short, and nobody needs to know. `whole`
    is what the log has, where the caller has looked.
    """
    response = block.response
    if block.synthetic or block.name in _OWN:
        return None
    text = sent_text(response)
    if _is_short(text, limits.over):
        return None
    size = env.tokens.count(text)
    if size <= limits.over:
        return None
    handle = handle_of(whole if whole is not None else read_logged(block, item, env))
    if asking is not None:
        limits = limits._replace(asked=asking())
    if sole_text(response):
        words, after = _short_text(text, handle, size, limits, env)
        short: JsonObject = dict.fromkeys(response, words)
    else:
        short, after = _short_fields(response, handle, size, limits, env)
    # it took more than it was given, to hide nothing, and is hardly shorter
    if after > limits.to and after > _HARDLY * size:
        return None
    short_block = msgspec.structs.replace(block, response=short, handle=handle)
    return ShortResult(short_block, size, after)


def compact_text(block: TextBlock, item: Item, env: Env, limits: HandleLimits) -> TextBlock:
    """The text as a handle with a digest; itself where it is short, or where somebody signed it."""
    text = block.text
    # a provider refuses a signature over other words
    if block.signature is not None or _is_short(text, limits.over):
        return block
    size = env.tokens.count(text)
    if size <= limits.over:
        return block
    handle = handle_of(read_logged(block, item, env))
    short, after = _short_text(text, handle, size, limits, env)
    if after > limits.to and after > _HARDLY * size:
        return block
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
        label=block.label,
        text=words,
        handle=handle,
    )


def media_words(block: MediaBlock, env: Env, over: int) -> str | None:
    """The words for media that takes more than `over` tokens; what an address holds is unknown."""
    if block.data is None:
        return None
    # the bytes in base64, without decoding it
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
) -> tuple[JsonObject, int]:
    """A digest of a result with several fields, or none that is a text, and its tokens."""
    asks = _ASKS_JSON if limits.asks else ""
    # how many items it will say is not known yet: room for a large number
    head = env.tokens.count(
        compact(_begin_with_handle({}, handle, size, f"some of 1,000,000 items{asks}"))
    )
    to, most = limits.to, max(limits.to, limits.most)
    # its head says what was left out, which is known only afterwards: its length is a guess
    for _ in range(6):
        digest_of = reduced(
            response,
            limit_tokens=max(1, to - head),
            count=env.tokens.count,
            asked=limits.asked,
            most=max(1, most - head) if limits.most else None,
        )
        fields = digest_of.value if isinstance(digest_of.value, dict) else {}
        short = _begin_with_handle(fields, handle, size, digest_of.left_out, asks)
        tokens = result_tokens(short, env)
        if tokens <= max(limits.to, limits.most):
            return short, tokens
        to, most = to - 8, most - 8
    least: JsonObject = {"handle": handle, "left_out": f"all of it, {size:,} tokens"}
    return least, result_tokens(least, env)


def _begin_with_handle(
    fields: JsonObject, handle: str, size: int, left_out: str, asks: str = ""
) -> JsonObject:
    """A digest that begins with its handle, under a key that the value does not have."""
    key = "handle" if "handle" not in fields else "weft_handle"
    return {key: handle, "left_out": f"{left_out}, {size:,} tokens{asks}", **fields}


def _short_text(
    text: str, handle: str, size: int, limits: HandleLimits, env: Env
) -> tuple[str, int]:
    """A digest below a line that says what it is of, and its tokens, within its limits."""
    to, asks = max(limits.to, limits.most), _ASKS if limits.asks else ""
    room = limits.to - env.tokens.count(
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
            size=size,
            most=room + to - limits.to if limits.most else None,
        )
        summary = f"{short.shape}, {size:,} tokens; left out: {short.left_out}"
        if limits.asked is not None:
            summary = f"{short.left_out} left out"
        head = f"[handle {handle}: {summary}{asks}]"
        whole = f"{head}\n{short.value}"
        tokens = env.tokens.count(whole)
        if tokens <= to:
            return whole, tokens
        room -= tokens - to + 4
    least = f"[handle {handle}: {size:,} tokens]"
    return least, env.tokens.count(least)


def read_logged(block: Block, item: Item, env: Env) -> Json:
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
        return _narrated_value(part, own) if isinstance(block, TextBlock) else own
    return own


def _narrated_value(part: Part, own: Json) -> Json:
    """The value of the log that a text tells of, such as another agent's call."""
    if part.function_call is not None:
        return part.function_call.args or {}
    if part.executable_code is not None:
        return part.executable_code.code or own
    if part.code_execution_result is not None:
        return part.code_execution_result.output or own
    return part.text or own


def offer_recall(prompt: Prompt, env: Env) -> Prompt:
    """Add `recall` to the tools of a request in which a handle stands.

    An agent with tools, whose policy makes handles, has it from its first request on, so that the
    head of the request never changes. Under `C.auto()` that is so where the declaration is next to
    nothing against the rest of the first request; else it waits for the first handle, and so it
    does for an agent without tools. What is said by reference needs no tool while it is in view.

    Before:  tools - | call read(a) -> "[handle h ...]"
    After:   tools recall | call read(a) -> "[handle h ...]"
    """
    tool = env.tools.recall
    if tool is None or any(one.name == tool.name for one in prompt.tools):
        return prompt
    # a TokenBudget comes after this pass, and leaves handles where it drops what others refer to
    if _is_needed(prompt, env) or (env.tools.priced and env.tokens.budget is not None):
        return msgspec.structs.replace(prompt, tools=(*prompt.tools, tool))
    return prompt


class _Handles(msgspec.Struct):
    """Of the items so far: which is the first with a handle, and which is the agent's first word.

    `opening` are the tokens of each item before that word.
    """

    read: int = 0
    first: int = -1
    spoke: int = -1
    opening: tuple[int, ...] = ()

    def back(self, length: int) -> "_Handles":
        """What was known after the first `length` items."""
        first = self.first if self.first < length else -1
        spoke = self.spoke if self.spoke < length else -1
        return _Handles(length, first, spoke, self.opening[:length])


def _is_needed(prompt: Prompt, env: Env) -> bool:
    """Whether something can be read only by its handle, or prices want the tool from the start."""
    priced = env.tools.priced
    hides = needs_recall if priced or env.policy.facts.is_lossless else has_handle

    def look(item: Item, handles: _Handles) -> Item:
        if handles.first < 0 and hides(item):
            handles.first = handles.read
        if priced and handles.spoke < 0:
            is_own = item.author in ("user", env.agent)
            if item.author == env.agent and item.blocks and item.blocks[0].role == "model":
                handles.spoke = handles.read
            else:  # what others said is told in other words later
                handles.opening += (sum(block_tokens(item, env)) if is_own else 0,)
        handles.read += 1
        return item

    key = (priced, env.agent, env.model.dialect, env.model.name)
    fold = PassFold(_Handles, copy, _Handles.back)
    handles = fold_items(prompt, "offer_recall", look, key=key, fold=fold).state
    return handles.first >= 0 or (priced and declares_first(sum(handles.opening), env))


def has_handle(item: Item) -> bool:
    """Whether something of the item is to be got back by its handle."""
    return any(
        isinstance(block, ResultBlock | TextBlock) and (block.handle or block.refers)
        for block in item.blocks
    )


# --- what a handle saves or costs

# A digest with a handle makes every later request shorter. It may cost more than that: the tool
# that gets its value back stands before everything else, so declaring it late makes the provider
# read all of the request again; a request below the provider's minimum is not kept at all; and a
# model that misses something asks for it, which is one request more. All of it is worked out before
# anybody decides, from the declaration and the log, in shares of what a fresh token costs.

SHARE = 0.045
"""How much of the first request the declaration of `recall` may be, to stand there unasked.

A run that never hides anything costs that much more at its first request, and less at each one
after it: on recorded runs 3.6% at most in all.
"""

MISSES = 0.14
"""How often a digest is expected to be followed by a recall: an estimate, nobody counted it."""

ASKING = 30
"""Tokens of a call of `recall`, without what it brings."""

AT_MOST = 1.03
"""No fold makes all requests so far this many times dearer than plain history, and no digest."""

RISK = 100
"""How much of what a recall costs need not be earned before a digest may cause it.

In tokens that are read again: the dearer it is to read a request once more, the less may be risked.
It was set on a third of the recorded coding runs: with 225, one run in fifty was 5% dearer.
"""

SOON = 4
"""How many requests are expected to follow a digest before it is recalled."""

PAGE = 2_000
"""How many tokens one recall brings at most."""

_LATER = (3, 30)
"""The fewest and the most requests that are expected to follow."""

_GROWTH = 120
"""The fewest tokens that a step is expected to add."""

SURELY = 1.25
"""How many times the provider's minimum a request must have to be kept for sure."""

_FAST = 1_000
"""Tokens that a step adds in a conversation that grows fast."""


STUB = 64
"""Tokens that a result takes once only its handle is left, roughly."""

LEAST_SAVED = 2_000
"""How many tokens an edit must take out at least, to be worth a change of what was sent."""

CLEARLY = 1.2
"""A result that was sent whole is said in short only if that is this many times cheaper."""

MARGIN = 3.0
"""How many times an edit must save what it costs: nobody knows how long a session goes on."""


class Traffic(msgspec.Struct):
    """What was sent so far of a conversation, by the items as they are sent."""

    tokens: int = 0
    """The tokens of all items."""
    opening: int = 0
    """The tokens of those before the agent's first word."""
    steps: int = 0
    """How many answers of the agent there are."""
    hides: bool = False
    """Whether a handle stands for something, so that `recall` is declared."""
    old: int = 0
    """The tokens that handles would save of all results but the newest."""
    recent: tuple[int, ...] = ()
    """The same of each of the newest."""
    plain: float = 0.0
    """What plain history had cost by now."""
    paid: float = 0.0
    """What the requests did cost."""
    left_out: int = 0
    """The tokens that handles, references and tables have left out so far."""
    sent: tuple[int, int] = (0, 0)
    """The tokens of the newest request as plain history, and as it was sent."""
    declared: bool = False
    """Whether that one declared `recall`."""

    def pay(self, env: Env) -> None:
        """One request more, of all items so far."""
        declared = self.hides or declares_first(self.opening, env)
        total = env.tools.head + self.tokens
        plain, paid = total + self.left_out, total + (env.tools.recall_tokens if declared else 0)
        self.plain += _request(self.sent[0], plain, env.model)
        # declared late, it makes the provider read everything again
        known = self.sent[1] if declared == self.declared else 0
        self.paid += _request(known, paid, env.model)
        self.sent, self.declared = (plain, paid), declared

    def add(self, item: Item, env: Env) -> None:
        """One item more.

        What others said is told in other words later, so it counts neither before nor after that.
        """
        if item.author not in ("user", env.agent):
            return
        sizes = block_tokens(item, env)
        size = sum(sizes)
        if item.author == env.agent and item.blocks and item.blocks[0].role == "model":
            self.pay(env)
            self.steps += 1
            self.hides = self.hides or self._is_edited(env)
        self.tokens += size
        self.left_out += left_out_of(item, sizes, env)
        if item.kind == "exchange":
            # an edit leaves the newest three results alone, so they count apart
            newest = [0, 0, 0, *self.recent, _saved_by_handles(item, sizes)]
            self.old += sum(newest[:-3])
            self.recent = tuple(newest[-3:])
        if not self.steps:
            self.opening += size
        self.hides = self.hides or needs_recall(item)

    def _is_edited(self, env: Env) -> bool:
        """Whether old results have become handles by now, as an edit is planned: roughly."""
        model = env.model
        rest = env.tools.head + self.tokens - self.old
        saved, cost = self.old * model.read * self.steps, rest * (model.write - model.read)
        pays = self.old >= LEAST_SAVED and saved > MARGIN * cost
        return pays and rest >= SURELY * model.minimum


def left_out_of(item: Item, sizes: Sequence[int], env: Env) -> int:
    """The tokens that plain history would have besides those of an item, `sizes` by block.

    They are what handles, references and tables leave out of results. A very long result is short
    under every policy.
    """
    left_out = 0
    for block, size in zip(item.blocks, sizes, strict=True):
        whole = read_logged(block, item, env) if isinstance(block, ResultBlock) else None
        if isinstance(block, ResultBlock) and isinstance(whole, dict) and whole != block.response:
            text = sent_text(whole)
            left_out += env.tokens.count(text) - size if len(text) <= MOST_LETTERS else 0
    return left_out


def _saved_by_handles(item: Item, sizes: Sequence[int]) -> int:
    return sum(
        size - STUB
        for block, size in zip(item.blocks, sizes, strict=True)
        if isinstance(block, ResultBlock) and not block.synthetic and block.name != RECALL
        if size > 2 * STUB
    )


_Sized: TypeAlias = tuple[tuple[Block, ...], tuple[int, ...]]
"""Blocks, and the tokens of each."""


class _BlockSizes(msgspec.Struct):
    """The blocks of items of a log and the tokens of each, by the key of the item."""

    by_item: dict[object, _Sized] = {}
    newest: _Sized = ((), ())


def block_tokens(item: Item, env: Env) -> tuple[int, ...]:
    """The tokens of each block of an item, roughly; long texts are not counted by every pass."""
    known = env.log.memo[_BlockSizes, env.model.dialect, env.model.name]
    # most steps add one item, which several passes ask for
    if known.newest[0] is item.blocks:
        return known.newest[1]
    key = item.key
    sizes = known.by_item.get(key)
    if sizes is None or sizes[0] is not item.blocks:
        texts = list(map(show_plainly, item.blocks))
        sizes = known.by_item[key] = (item.blocks, tuple(map(env.tokens.count, texts)))
    known.newest = sizes
    return sizes[1]


def needs_recall(item: Item) -> bool:
    """Whether something of the item can be read only by its handle.

    What a reference stands for is in view; where it is not any more, the block says so.
    """
    for block in item.blocks:
        if isinstance(block, ResultBlock | TextBlock):
            if block.handle:
                return True
            for one in block.refers:
                if one.newer:
                    return True
    return False


def declares_first(opening: int, env: Env) -> bool:
    """Whether `recall` stands among the tools from the first request on.

    Declared later, it makes the provider read the whole request again. So it pays to have it from
    the start where it is next to nothing against the rest, and tools may return large values. A
    first request that is too short to be kept is read anew anyway, so there it waits for a handle:
    else it would be a fresh part of every request of a short run.
    `opening` are the tokens before the agent's first word.
    """
    tools = env.tools
    first = tools.head + opening
    if tools.recall is None or not tools.own or first < env.model.minimum:
        return False
    return tools.recall_tokens <= SHARE * first


class Verdict(NamedTuple):
    """Whether a shorter form of a result is the cheaper one, and what was compared, in words."""

    pays: bool
    words: str


def weigh_shorter(
    whole: int, short: int, traffic: Traffic, env: Env, *, hides: bool = False
) -> Verdict:
    """Compare a result of `whole` tokens with a shorter form, over the requests that may follow.

    `hides` says that what is left out can be read only by a handle. As many requests are expected
    to follow as were made so far, each longer than the one before by what a step added so far.
    Nobody knows how many do. So where `recall` is declared for it, or the request is below the
    provider's minimum, the shorter form must be the cheaper one however many follow; below the
    minimum also if they grow fast, since such a request is soon kept, and a shorter one is not.
    """
    model, tools = env.model, env.tools
    growth = max(_GROWTH, (traffic.tokens - traffic.opening) // max(1, traffic.steps))
    declared = traffic.hides or declares_first(traffic.opening, env)
    before = tools.head + traffic.tokens + (tools.recall_tokens if declared else 0)
    late = tools.recall_tokens if hides and not declared else 0
    cached = 0 if late else before  # one tool more: nothing is read again
    total = before + late + short
    expected = min(max(traffic.steps, _LATER[0]), _LATER[1])
    pays, costs = True, (0.0, 0.0)
    # sizes are estimates: a shorter request is kept only if it is surely long enough
    unsure = msgspec.structs.replace(model, minimum=int(model.minimum * SURELY))
    careful = bool(late) or total < unsure.minimum
    last = _LATER[1] if careful else expected
    for each in (max(growth, _FAST), growth) if total < unsure.minimum else (growth,):
        plain_costs = _ahead(before, before + whole, each, model, last)
        short_costs = _ahead(cached, total, each, unsure, last)
        for later in range(_LATER[0] if careful else expected, last + 1):
            plain, cost = plain_costs[later], short_costs[later]
            if hides:
                cost += MISSES * _recall(whole, total, later, model)
            pays = pays and cost < plain
            costs = (plain, cost) if later == expected else costs
    if hides and pays:
        pays = _affords_recall(whole, cached, total, growth, traffic, env)
    words = (
        f"{costs[1]:,.0f} fresh tokens in short, {costs[0]:,.0f} whole, over {expected} requests"
    )
    if late:
        words += f", with {RECALL} declared for it"
    if total < model.minimum:
        words += f"; nothing below {_minimum(model)} is kept"
    return Verdict(pays, words)


def _affords_recall(
    whole: int, cached: int, total: int, growth: int, traffic: Traffic, env: Env
) -> bool:
    """Whether all requests are hardly dearer than plain history, if they end soon or with a recall.

    So it is wherever the run ends within the next requests, and if the last of them is a recall.
    """
    bills, model = copy(traffic), env.model
    bills.pay(env)
    unsure = msgspec.structs.replace(model, minimum=int(model.minimum * SURELY))
    plain_before = bills.sent[0]
    whole_costs = _ahead(plain_before, plain_before + whole, growth, model, SOON)
    plain = [AT_MOST * (bills.plain + cost) for cost in whole_costs]
    paid = [bills.paid + cost for cost in _ahead(cached, total, growth, unsure, SOON)]
    risked = _recall(whole, total, SOON, model) - RISK / model.read
    return all(map(le, paid, plain)) and paid[-1] + risked <= plain[-1]


def weigh_seen(
    whole: int, short: int, traffic: Traffic, env: Env, *, hides: bool = False
) -> Verdict:
    """Compare a result that was sent whole once with a shorter form from the next request on.

    A provider that keeps only what it is asked to has not kept it yet, so either form is to be
    written. Any other has, and would read it again: there the shorter form must earn what it costs
    to write it, over as many requests as were made so far.
    """
    model, tools = env.model, env.tools
    later = min(max(traffic.steps, _LATER[0]), _LATER[1])
    before = tools.head + traffic.tokens
    total = before + short
    # below the minimum every token is fresh in each request
    is_cached = total >= SURELY * model.minimum
    read, write = (model.read, model.write) if is_cached else (1.0, 1.0)
    declared = traffic.hides or declares_first(traffic.opening, env)
    plain = whole * ((write if model.marks else read) + read * later)
    cost = short * (write + read * later)
    if hides:
        cost += MISSES / 2 * _recall(whole, total, later, model)  # it was seen whole once
        if not declared:  # one tool more: nothing is read again
            cost += before * (write - read) + tools.recall_tokens * (write + read * later)
    words = f"{cost:,.0f} fresh tokens in short, {plain:,.0f} whole, over {later} requests"
    if hides and not declared:
        words += f", with {RECALL} declared for it"
    return Verdict(cost * CLEARLY < plain, words)


def _minimum(model: ModelFacts) -> str:
    return f"{model.minimum:,} tokens" if model.minimum < sys.maxsize else "any length"


def _recall(whole: int, total: int, later: int, model: ModelFacts) -> float:
    """What it costs to ask for a value: one request more, and what it brings from then on."""
    brought = min(whole, PAGE) + ASKING
    again = model.read if total + brought >= model.minimum else 1.0
    return _request(total, total + brought, model) + brought * again * later


def _ahead(cached: int, total: int, growth: int, model: ModelFacts, most: int) -> list[float]:
    """What a request of so many tokens costs with none, one, two and up to `most` behind it."""
    costs: list[float] = []
    cost, minimum, read, write = 0.0, model.minimum, model.read, model.write
    for _ in range(most + 1):  # as `_request`, which is asked for every result
        again = cached if cached >= minimum else 0
        cost += again * read + (total - again) * (write if total >= minimum else 1.0)
        costs.append(cost)
        cached, total = total, total + growth
    return costs


def _request(cached: int, total: int, model: ModelFacts) -> float:
    """What one request costs: a prefix below the minimum is neither kept nor read again."""
    cached = cached if cached >= model.minimum else 0
    price = model.write if total >= model.minimum else 1.0
    return cached * model.read + (total - cached) * price
