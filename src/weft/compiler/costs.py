"""What a request costs: tokens that are read again, kept, or read once, at their prices.

Where nobody knows a model's price, a token is worth what a fresh one costs: its cost is then
counted in fresh tokens. Prices are loaded when somebody asks, so compiling never does.
"""

from typing import TYPE_CHECKING, NamedTuple

from weft.dialects.facts import Cache, facts_for

if TYPE_CHECKING:
    from weft.compiler.compiled import Compiled
    from weft.compiler.prices import Price

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


class Rates(NamedTuple):
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


def rates_for(model: str, *, tokens: int = 0, kept: str = "") -> Rates:
    """What a model's tokens cost in a request of so many of them; `kept` is for how long."""
    from weft.compiler.prices import price_of

    price, cache = price_of(model, tokens=tokens), facts_for(model).cache
    if price is not None:
        return _in_money(price, longer=_is_long(cache, kept))
    return shares_of(cache, kept=kept)


def shares_of(cache: Cache, *, kept: str = "") -> Rates:
    """What tokens cost against a fresh one, from how the provider reuses what it has read."""
    if cache == Cache():
        return RELATIVE
    write = cache.write_long if _is_long(cache, kept) else cache.write
    return Rates(1.0, cache.read, write)


def load_of(total: int, cached: int, cache: Cache, *, asked: bool = True) -> Load:
    """How the tokens of a request divide: what is not read again is kept, or read once.

    A provider that must be asked keeps nothing where it is not, nor what is too short. Tokens
    that are read again come in multiples of its stride, and only from its minimum on.
    """
    cached = 0 if cached < cache.minimum else cached // cache.stride * cache.stride
    rest = total - cached
    writes = total >= cache.minimum and (asked or not cache.breakpoints)
    return Load(cached, rest, 0) if writes else Load(cached, 0, rest)


def cost_of(compiled: "Compiled") -> Cost:
    """What a request is predicted to cost, from what its provider is predicted to reuse."""
    from weft.compiler.prices import cliffs_of

    model, prediction = compiled.prompt.model, compiled.cached
    rates = rates_for(model, tokens=prediction.total, kept=compiled.prompt.cache)
    cache = compiled.plan.target.facts.cache
    asked = bool(compiled.prompt.cache)
    load = Load(0, 0, prediction.total)
    if cache != Cache():
        load = load_of(prediction.total, prediction.cached, cache, asked=asked)
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


def said(cost: Cost) -> str:
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


def _is_long(cache: Cache, kept: str) -> bool:
    """Whether it is asked to be kept longer than usual."""
    return kept in cache.ttls[1:]
