"""What a request costs: tokens that are read again, kept, or read once, at their prices.

Where nobody knows a model's price, a token is worth what a fresh one costs: its cost is then
counted in fresh tokens. Prices are loaded when somebody asks, so compiling never does.

At the end, what it costs that a policy changed what was sent before.
"""

from collections.abc import Iterable
from datetime import UTC, datetime
from typing import TYPE_CHECKING, NamedTuple

import msgspec

from weft.declare.policy_parts import Auto
from weft.diagnostics import Diagnostic, Origin, Severity, report
from weft.dialects.caching import MARK
from weft.dialects.facts import Cache, facts_for, seller_of, wire_name
from weft.ir import Note, Prompt
from weft.ir.block import FOLDED, RECALL
from weft.passes import Step
from weft.passes.pipeline import names_of
from weft.values import JsonObject

if TYPE_CHECKING:
    from weft.compiler.compiled import Compilation
    from weft.dialects.price_list import Amounts, Listing


READ, WRITE = 0.10, 1.25
"""What a token costs that is read again, or kept, where nobody knows: shares of a fresh one."""

_MILLION = 1_000_000


class Load(NamedTuple):
    """The tokens of a request by what is done with them, and those of its answer."""

    cached: int
    written: int
    fresh: int
    answer: int = 0

    @property
    def total(self) -> int:
        """The tokens of the request alone."""
        return self.cached + self.written + self.fresh


class Rates(msgspec.Struct, frozen=True):
    """What one token of each kind costs: in US dollars where `money`, else in fresh tokens."""

    fresh: float = 1.0
    read: float = READ
    write: float = WRITE
    answer: float = 0.0
    money: bool = False

    def cost(self, load: Load) -> float:
        """What a request and its answer cost."""
        return (
            load.cached * self.read
            + load.written * self.write
            + load.fresh * self.fresh
            + load.answer * self.answer
        )

    def worth(self, cost: float) -> str:
        """A cost in words: `$0.0123`, or how many fresh tokens it is worth."""
        if not self.money:
            return f"{cost:,.0f} fresh tokens"
        return (
            f"${cost:,.2f}" if abs(cost) >= 10 else f"${cost:.4f}" if cost >= 1e-4 else "<$0.0001"
        )


RELATIVE = Rates()
"""The yardstick for a model without a price: a fresh token is 1."""


class Cost(NamedTuple):
    """What a request is predicted to cost, without its answer.

    `cached` is the part that is paid for tokens read again, `saved` what the request would cost
    more if nothing were, and `broken` what a changed prefix costs now. `cliff` is the number of
    tokens whose price it pays for having more than that; 0 where it pays the lowest.
    """

    total: float
    cached: float
    saved: float
    broken: float
    rates: Rates
    cliff: int = 0


def rates_for(model: str, *, tokens: int = 0, lifetime: str = "") -> Rates:
    """What a model's tokens cost in a request of a size; `lifetime` is how long they are kept."""
    price, cache = price_of(model, tokens=tokens), facts_for(model).cache
    if price is not None:
        return _in_money(price, longer=_is_long(cache, lifetime))
    return shares_of(cache, lifetime=lifetime)


def shares_of(cache: Cache, *, lifetime: str = "") -> Rates:
    """What tokens cost against a fresh one, from how the provider reuses what it has read."""
    if cache == Cache():
        # nothing is known of the provider's cache
        return RELATIVE
    write = cache.write_long if _is_long(cache, lifetime) else cache.write
    return Rates(1.0, cache.read, write)


def load_of(total: int, cached: int, cache: Cache, *, asked: bool = True) -> Load:
    """How the tokens of a request divide: what is not read again is kept, or read once.

    A provider that must be asked keeps nothing where it is not, nor what is too short. Tokens
    that are read again come in multiples of its stride, and only from its minimum on.
    """
    # providers count cached tokens in whole strides only
    cached = 0 if cached < cache.minimum else cached // cache.stride * cache.stride
    rest = total - cached
    writes = total >= cache.minimum and (asked or not cache.breakpoints)
    return Load(cached, rest, 0) if writes else Load(cached, 0, rest)


def cost_of(compiled: "Compilation") -> Cost:
    """What a request is predicted to cost, from what its provider is predicted to reuse."""
    compiled = compiled.priced
    model, prediction = compiled.prompt.model, compiled.cached
    rates = rates_for(model, tokens=prediction.total, lifetime=compiled.prompt.cache)
    load = load_for(compiled)
    again = rates.write if load.written else rates.fresh
    lost = max(0, prediction.possible - prediction.cached)
    return Cost(
        total=rates.cost(load),
        cached=load.cached * rates.read,
        saved=load.cached * (again - rates.read),
        broken=lost * (again - rates.read),
        rates=rates,
        cliff=max((at for at in cliffs_of(model) if prediction.total > at), default=0),
    )


def _count_unmarked(compiled: "Compilation") -> int:
    """The tokens of results that change in the next request: they stand after the last mark."""
    tip, lowered = compiled.prompt.items.tip, compiled.lowered()
    if tip is None or not tip.passing or len(lowered.lasting) == len(lowered.rest):
        return 0
    scale, lasting = compiled.scale, lowered.final + len(lowered.lasting)
    return scale.turns(lowered.entries).total - scale.count_shared(lowered.entries, lasting)


def premium_of(compiled: "Compilation") -> float:
    """What it would cost more to keep all of a request that is likely the last."""
    cost = cost_of(compiled)
    return max(0.0, cost.rates.cost(load_for(compiled, keeps="all")) - cost.total)


def load_for(compiled: "Compilation", keeps: str = "") -> Load:
    """How the tokens of a request divide, by how much of it is to be kept."""
    compiled = compiled.priced
    prediction, cache = compiled.cached, compiled.plan.target.facts.cache
    if cache == Cache():
        return Load(0, 0, prediction.total)
    once = _count_unmarked(compiled)
    asked = bool(compiled.prompt.cache)
    load = load_of(prediction.total - once, prediction.cached, cache, asked=asked)
    head = load.written
    if (keeps or compiled.prompt.keeps) != "all" and cache.lookback:
        head = min(load.written, max(0, _head_tokens(compiled) - load.cached))
    return load._replace(written=head, fresh=load.fresh + once + load.written - head)


def _head_tokens(compiled: "Compilation") -> int:
    """The tokens up to the last mark in the head of a request."""
    lowered = compiled.lowered()
    head = compiled.scale.head(lowered)
    tools = head.request + head.preamble + sum(head.tools) + head.others
    return tokens_to_mark(compiled, lowered.wire, tools)


def tokens_to_mark(before: "Compilation", after: JsonObject, tools: int) -> int:
    """The tokens up to the last mark in the head that both requests have, in the same words."""
    wire = before.lowered().wire
    if not tools:
        return 0
    system, again = wire.get("system"), after.get("system")
    if isinstance(system, list) and isinstance(again, list) and again[:1] == system[:1]:
        first = system[0]
        if isinstance(first, dict) and MARK in first:
            text, over = str(first.get("text")), before.scale.overheads.text
            return tools + over + before.scale.counter.count(text)
    listed = wire.get("tools")
    last = listed[-1] if isinstance(listed, list) and listed else None
    return tools if isinstance(last, dict) and MARK in last else 0


def cost_words(cost: Cost) -> str:
    """A predicted cost in a line: the whole, what is cached of it, and what a break costs."""
    worth = cost.rates.worth
    line = worth(cost.total) + ("" if cost.rates.money else "' worth, no price is known")
    line += ", without the answer"
    if cost.cached or cost.saved:
        line += f"; {worth(cost.cached)} of it cached, which saves {worth(cost.saved)}"
    if cost.broken:
        line += f"; the changed prefix costs {worth(cost.broken)}"
    if cost.cliff:
        line += f"; above {cost.cliff:,} tokens all cost more"
    return line


def _in_money(price: "Price", *, longer: bool) -> Rates:
    write = price.cache_write_long if longer else price.cache_write
    return Rates(
        price.input / _MILLION,
        price.cache_read / _MILLION,
        write / _MILLION,
        price.output / _MILLION,
        money=True,
    )


def _is_long(cache: Cache, lifetime: str) -> bool:
    """Whether it is asked to be kept longer than usual."""
    return lifetime in cache.ttls[1:]


class Price(NamedTuple):
    """US dollars for a million tokens of each kind."""

    input: float
    output: float
    cache_read: float
    cache_write: float
    cache_write_long: float


def price_of(model: str, *, tokens: int = 0) -> Price | None:
    """What a model's tokens cost in a request of a number of them, or None where nobody knows.

    What the list does not say of caching is worked out from the model's facts.
    """
    listed = _amounts(model)
    if listed is None:
        return None
    amounts = listed.of_request(tokens)
    fresh = amounts.input
    if fresh is None:
        return None
    cache = facts_for(model).cache
    pairs = (
        (amounts.cache_read, cache.read),
        (amounts.cache_write, cache.write),
        (amounts.cache_write_long, cache.write_long),
    )
    read, write, longer = (fresh * share if known is None else known for known, share in pairs)
    return Price(fresh, amounts.output or 0.0, read, write, longer)


def cliffs_of(model: str) -> tuple[int, ...]:
    """Where prices jump: a request of more tokens than that pays another price for all of them."""
    amounts = _amounts(model)
    return tuple(start for start, _ in amounts.above) if amounts is not None else ()


def lasting_cliffs(model: str) -> tuple[tuple[int, float], ...]:
    """Where prices jump, and how many times as much each token costs from there on.

    They are those of the newest prices in the list, so that no clock decides about a request.
    """
    listing = _listing(model)
    if listing is None:
        return ()
    dated = [change.amounts for change in listing.changes if change.since is not None]
    amounts = dated[-1] if dated else listing.amounts
    if not amounts.input:
        return ()
    pairs = ((start, dear.input) for start, dear in amounts.above)
    return tuple((start, price / amounts.input) for start, price in pairs if price is not None)


def window_of(model: str) -> int:
    """How many tokens a request with its answer may have, or 0 where nobody knows."""
    known = facts_for(model).window
    if known:
        return known
    listing = _listing(model)
    return listing.window if listing is not None else 0


def _amounts(model: str) -> "Amounts | None":
    """The prices of now."""
    listing = _listing(model)
    return listing.amounts_at(datetime.now(UTC)) if listing is not None else None


def advise_price(model: str) -> str:
    """What to type where a model has no price; empty where no list can have it."""
    if _is_unlisted(model) or price_of(model) is not None:
        return ""
    from weft.dialects.price_list import newer_prices

    return f"for newer prices: {newer_prices()}"


def _is_unlisted(model: str) -> bool:
    """Whether a model is asked where no list looks: on this machine, or at an address."""
    return model.startswith(("http://", "https://", "local"))


def _listing(model: str) -> "Listing | None":
    """The model in the list, under its provider's name for it."""
    if _is_unlisted(model):  # a server of one's own has no listed price
        return None
    # Loaded late: it is large, and compiling needs no price.
    from weft.dialects.price_list import price_list

    match = price_list().find(wire_name(model), seller_of(model))
    return match[1] if match is not None else None


# --- a policy that changed what was sent before
#
# It is said with what it costs and saves, never silently. Providers sell what they have read at a
# tenth of its price, up to the first byte that differs. A policy that drops or rewrites something
# in the middle pays for all that follows.

_EDGES = frozenset(
    ("attribute_foreign", "open_turn", "prune_tools", "declare_tools", "order_system",
     "close_turn", "append_changes")
)  # fmt: skip
"""Passes that run on every request and never change bytes that were already sent."""


class Break(NamedTuple):
    """What a policy's change to sent bytes costs once, and what it saves at each request."""

    tokens: int
    removed: int
    cost: float
    saves: float
    passes: tuple[str, ...]
    rates: Rates


def may_rewrite(compiled: "Compilation") -> bool:
    """Whether the policy can change what was sent before, so that it is worth a look."""
    budget = compiled.policy.limit is not None or compiled.plan.agent.token_budget is not None
    return budget or not {*_EDGES, "fit_budget"}.issuperset(names_of(compiled.passes.request))


def read_again(compiled: "Compilation") -> int:
    """The tokens of the conversation that the request before had too, after what changed."""
    before, shared = compiled.previous, compiled.shared
    if before is None or shared is None or shared.broken is None:
        return 0
    if not shared.system:
        declared = may_rewrite(compiled) and declares_recall(compiled)
        return min(before.tokens, compiled.tokens) if declared else 0
    known = {item.key for item in before.prompt.items}
    pairs = zip(before.prompt.items, compiled.prompt.items, strict=False)
    same = next((index for index, (old, new) in enumerate(pairs) if old != new), len(known))
    return sum(
        compiled.scale.item(item) for item in compiled.prompt.items.since(same) if item.key in known
    )


def new_folds(compiled: "Compilation") -> list[str]:
    """What each fold of this request costs and saves, if the request before did not have it."""
    before = compiled.previous
    known = {item.key for item in before.prompt.items} if before is not None else set[object]()
    return [
        note.reason
        for step in compiled.steps
        for note in step.notes
        if note.step == FOLDED.name and note.after is not None and note.after.key not in known
    ]


def declares_recall(compiled: "Compilation") -> bool:
    """Whether `recall` stands among the tools for the first time, before all that was sent."""
    before = compiled.previous
    return before is not None and _offers(compiled.prompt) and not _offers(before.prompt)


def _offers(prompt: Prompt) -> bool:
    return any(tool.name == RECALL for tool in prompt.tools)


def break_of(compiled: "Compilation") -> Break | None:
    """What the policy changed of the request before and what that costs, or None."""
    before = compiled.previous if may_rewrite(compiled) else None
    again = read_again(compiled) if before is not None else 0
    if before is None or not again:
        return None
    by = tuple(
        dict.fromkeys(
            (*_names(compiled.steps), *_names(before.steps), *_label_steps(compiled, before))
        )
    )
    if declares_recall(compiled):
        by = (FOLDED.name if new_folds(compiled) else "offer_recall",)
    if not by:
        return None
    rates = rates_for(compiled.prompt.model, tokens=compiled.tokens, lifetime=compiled.prompt.cache)
    removed = max(
        0, _count_removed(compiled, compiled.steps) - _count_removed(compiled, before.steps)
    )
    if declares_recall(compiled):
        # what became a digest in this request is why the tool is there
        known = {item.key for item in before.prompt.items}
        fresh = (note for note in compiled.woven.notes if note.before.key not in known)
        removed += sum(_shrunk(compiled, note) for note in fresh)
    cost, saves = again * (rates.write - rates.read), removed * rates.read
    if before.tokens < compiled.plan.target.facts.cache.minimum:
        cost = 0.0  # it was too short to be kept, so it is read anew in any case
    return Break(again, removed, cost, saves, by, rates)


def announced(compiled: "Compilation") -> list[Diagnostic]:
    """The change as a diagnostic: what is read again, what that costs, what it saves."""
    broken = break_of(compiled)
    if broken is None:
        return []
    worth = broken.rates.worth
    planned = compiled.policy.facts.folding is not None or any(
        isinstance(stage.selector, Auto) for stage in compiled.policy.stages
    )
    who = " and ".join(broken.passes)
    message = (
        f"{who} changed what was sent before: {broken.tokens:,} tokens are read again, which"
        f" costs {worth(broken.cost)} now and saves {worth(broken.saves)} at each later request"
    )
    hint = "nothing to do: it was planned to pay" if planned else _HINT
    severity = Severity.INFO if planned else None
    origin = Origin("field", "context", compiled.prompt.agent)
    return [report("WEFT502", origin, message, hint, severity=severity)]


_HINT = "write C.auto(), which changes what was sent only where that pays, or C.default()"


def _label_steps(compiled: "Compilation", before: "Compilation") -> list[str]:
    """The pass that withholds, where more is known to carry a label than before."""
    now, then = compiled.labelled, before.labelled
    same = now is None or (then is not None and now.all == then.all)
    return [] if same else ["withhold_labelled"]


def _names(steps: Iterable[Step]) -> list[str]:
    return [step.name for step in steps if step.notes and step.name not in _EDGES]


def _count_removed(compiled: "Compilation", steps: Iterable[Step]) -> int:
    """The tokens that passes on a request took out of it."""
    notes = [note for step in steps if step.name not in _EDGES for note in step.notes]
    return sum(_shrunk(compiled, note) for note in notes)


def _shrunk(compiled: "Compilation", note: Note) -> int:
    item = compiled.scale.item
    after = item(note.after) if note.after is not None and note.after.blocks else 0
    return (item(note.before) if note.before.blocks else 0) - after
