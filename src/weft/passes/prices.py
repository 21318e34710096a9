"""What a digest saves or costs, by the rules of the provider, before anybody decides for it.

A digest makes every later request shorter. It may cost more than that: the tool that gets its
value back stands before everything else, so declaring it late makes the provider read all of the
request again; a request below the provider's minimum is not kept at all; and a model that misses
something asks for it, which is one request more. All of it is worked out from the declaration and
the log, in shares of what a fresh token costs.
"""

import sys
from collections.abc import Sequence
from typing import NamedTuple

import msgspec

from weft.ir import Block, Item, ResultBlock, TextBlock
from weft.ir.block import RECALL
from weft.ir.prompt import show_block
from weft.passes.env import Env, ModelFacts

SHARE = 0.035
"""How much of the first request the declaration of `recall` may be, to stand there unasked.

It was set on recorded coding runs and service chats, so that few got dearer than plain history.
"""

NEARLY = 0.9
"""From this share of the provider's minimum on, a request may be kept: sizes are estimates."""

MISSES = 0.14
"""How often a digest is expected to be followed by a recall: an estimate, nobody counted it."""

ASKING = 30
"""Tokens of a call of `recall`, without what it brings."""

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
"""A result that was sent whole is said in short only if that is so many times cheaper."""

MARGIN = 3.0
"""How many times an edit must save what it costs: nobody knows how long a session goes on."""


class Traffic:
    """What was sent so far of a conversation, by the items as they are sent."""

    __slots__ = ("hides", "old", "opening", "recent", "steps", "tokens")

    def __init__(self, known: "Traffic | None" = None) -> None:
        self.tokens: int = known.tokens if known is not None else 0
        """The tokens of all items."""
        self.opening: int = known.opening if known is not None else 0
        """The tokens of those before the agent's first word."""
        self.steps: int = known.steps if known is not None else 0
        """How many answers of the agent there are."""
        self.hides: bool = known.hides if known is not None else False
        """Whether something stands behind a handle, so that `recall` is declared."""
        self.old: int = known.old if known is not None else 0
        """The tokens that handles would save of all results but the newest."""
        self.recent: tuple[int, ...] = known.recent if known is not None else ()
        """The same of each of the newest."""

    def add(self, item: Item, env: Env) -> None:
        """One item more.

        What others said is told in other words later, so it counts neither before nor after that.
        """
        if item.author not in ("user", env.agent):
            return
        sizes = block_tokens(item, env)
        size = sum(sizes)
        if item.author == env.agent and item.blocks and item.blocks[0].role == "model":
            self.steps += 1
            self.hides = self.hides or self._is_edited(env)
        self.tokens += size
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


def _saved_by_handles(item: Item, sizes: Sequence[int]) -> int:
    return sum(
        size - STUB
        for block, size in zip(item.blocks, sizes, strict=True)
        if isinstance(block, ResultBlock) and not block.synthetic and block.name != RECALL
        if size > 2 * STUB
    )


class _BlockSizes:
    """The blocks of items of a log and the tokens of each, by the key of the item."""

    def __init__(self) -> None:
        self.by_item: dict[object, tuple[tuple[Block, ...], tuple[int, ...]]] = {}


def block_tokens(item: Item, env: Env) -> tuple[int, ...]:
    """The tokens of each block of an item, roughly; long texts are not counted by every pass."""
    known = env.log.memo[_BlockSizes, env.model.dialect, env.model.name].by_item
    key = item.key
    sizes = known.get(key)
    if sizes is None or sizes[0] is not item.blocks:
        texts = [_text_of(block) for block in item.blocks]
        sizes = known[key] = (item.blocks, tuple(map(env.tokens.count, texts)))
    return sizes[1]


def _text_of(block: Block) -> str:
    """A block as it is counted: the one text of a result is sent as it is, not as JSON."""
    if isinstance(block, ResultBlock) and len(block.response) == 1:
        only = next(iter(block.response.values()))
        if isinstance(only, str):
            return f"{block.role} result {block.call_id}: {block.name} -> {only}"
    return show_block(block)


def needs_recall(item: Item) -> bool:
    """Whether something of the item can be read only by its handle.

    What a reference stands for is in view; where it is not any more, the block says so.
    """
    return any(
        isinstance(block, ResultBlock | TextBlock)
        and (block.handle or any(one.newer for one in block.refers))
        for block in item.blocks
    )


def declares_first(opening: int, env: Env) -> bool:
    """Whether `recall` stands among the tools from the first request on.

    Declared later, it makes the provider read the whole request again. So it pays to have it from
    the start where it is next to nothing beside the rest, and tools may return large values. A
    first request that is too short to be kept is read anew anyway, so there it waits for a handle:
    else it would be a fresh part of every request of a short run.
    `opening` are the tokens before the agent's first word.
    """
    tools = env.tools
    first = tools.head + opening
    if tools.recall is None or not tools.own or first < NEARLY * env.model.minimum:
        return False
    return tools.recall_tokens <= SHARE * first


class Verdict(NamedTuple):
    """Whether a shorter form of a result is the cheaper one, and what was compared, in words."""

    pays: bool
    words: str


def weigh_shorter(
    whole: int, short: int, traffic: Traffic, env: Env, *, hides: bool = False
) -> Verdict:
    """Compare a result of so many tokens with a shorter form, over the requests that may follow.

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
    words = (
        f"{costs[1]:,.0f} fresh tokens in short, {costs[0]:,.0f} whole, over {expected} requests"
    )
    if late:
        words += f", with {RECALL} declared for it"
    if total < model.minimum:
        words += f"; nothing below {_minimum(model)} is kept"
    return Verdict(pays, words)


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
