"""What a request costs: tokens that are read again, kept, or read once, at their prices.

Where nobody knows a model's price, a token is worth what a fresh one costs: its cost is then
counted in fresh tokens. Prices are loaded when somebody asks, so compiling never does.
"""

import functools
from datetime import UTC, datetime
from decimal import Decimal
from typing import TYPE_CHECKING, NamedTuple, cast

import msgspec

from weft.dialects.facts import Cache, facts_for, seller_of, wire_name

if TYPE_CHECKING:
    from genai_prices.types import ModelInfo

    from weft.compiler.compiled import Compilation

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
    """What a model's tokens cost in a request of so many; `lifetime` is how long they are kept."""
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
    model, prediction = compiled.prompt.model, compiled.cached
    rates = rates_for(model, tokens=prediction.total, lifetime=compiled.prompt.cache)
    load = _load(compiled)
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


def _unmarked(compiled: "Compilation") -> int:
    """The tokens of results that change in the next request: they stand behind the last mark."""
    tip, lowered = compiled.prompt.items.tip, compiled.lowered()
    if tip is None or not tip.passing or len(lowered.lasting) == len(lowered.rest):
        return 0
    scale, lasting = compiled.scale, lowered.final + len(lowered.lasting)
    return scale.turns(lowered.entries).total - scale.shared(lowered.entries, lasting)


def premium_of(compiled: "Compilation") -> float:
    """What it would cost more to keep all of a request that is likely the last."""
    cost = cost_of(compiled)
    return max(0.0, cost.rates.cost(_load(compiled, keeps="all")) - cost.total)


def _load(compiled: "Compilation", keeps: str = "") -> Load:
    """How the tokens of a request divide, by how much of it is to be kept."""
    prediction, cache = compiled.cached, compiled.plan.target.facts.cache
    if cache == Cache():
        return Load(0, 0, prediction.total)
    once = _unmarked(compiled)
    asked = bool(compiled.prompt.cache)
    load = load_of(prediction.total - once, prediction.cached, cache, asked=asked)
    head = load.written
    if (keeps or compiled.prompt.keeps) != "all" and cache.lookback:
        from weft.compiler.caching import head_kept

        head = min(load.written, max(0, head_kept(compiled) - load.cached))
    return load._replace(written=head, fresh=load.fresh + once + load.written - head)


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
    """What a model's tokens cost in a request of so many of them, or None where nobody knows.

    What the list does not say of caching is worked out from the model's facts.
    """
    prices = _prices(model)
    if prices is None:
        return None
    fresh = _amount(prices, "input_mtok", tokens)
    if fresh is None:
        return None
    cache = facts_for(model).cache
    shares = {
        "cache_read_mtok": cache.read,
        "cache_write_mtok": cache.write,
        "cache_write_1h_mtok": cache.write_long,
    }
    amounts = {name: _amount(prices, name, tokens) for name in shares}
    read, write, longer = (
        amount if amount is not None else fresh * shares[name] for name, amount in amounts.items()
    )
    return Price(fresh, _amount(prices, "output_mtok", tokens) or 0.0, read, write, longer)


def cliffs_of(model: str) -> tuple[int, ...]:
    """Where prices jump: a request of more tokens than that pays another price for all of them."""
    prices = _prices(model)
    if prices is None:
        return ()
    tiers = (_tiers(price) for price in prices.values())
    return tuple(sorted({start for listed in tiers for start, _ in listed}))


def window_of(model: str) -> int:
    """How many tokens a request with its answer may have, or 0 where nobody knows."""
    known = facts_for(model).window
    if known:
        return known
    entry = _listed(model)
    return entry.context_window or 0 if entry is not None else 0


@functools.lru_cache(maxsize=256)
def _listed(model: str) -> "ModelInfo | None":
    """The model in the list, under its provider's name for it."""
    # a server of one's own has no listed price
    if model.startswith(("http://", "https://", "local")):
        return None
    # loaded late: it is large, and compiling needs no price
    from genai_prices.data_snapshot import get_snapshot

    try:
        return get_snapshot().find_provider_model(wire_name(model), None, seller_of(model), None)[1]
    except LookupError:
        return None


def _prices(model: str) -> dict[str, object] | None:
    """The prices of today by the name of what they are for."""
    entry = _listed(model)
    return dict(vars(entry.get_prices(datetime.now(UTC)))) if entry is not None else None


def _amount(prices: dict[str, object], name: str, tokens: int) -> float | None:
    """A price for a request of so many tokens."""
    listed = prices.get(name)
    base = listed if isinstance(listed, Decimal) else vars(listed).get("base") if listed else None
    # tiers are in rising order: the last that the request exceeds is the one it pays
    for start, price in _tiers(listed):
        base = price if tokens > start else base
    return float(base) if isinstance(base, Decimal) else None


def _tiers(price: object) -> list[tuple[int, Decimal]]:
    """From how many tokens on a price is another, and which."""
    if price is None or isinstance(price, Decimal):
        return []
    listed = cast("list[object]", vars(price).get("tiers") or [])
    pairs = [(vars(tier).get("start"), vars(tier).get("price")) for tier in listed]
    return [(s, p) for s, p in pairs if isinstance(s, int) and isinstance(p, Decimal)]
