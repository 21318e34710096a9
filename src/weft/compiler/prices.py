"""What tokens cost, and how many a model can look at, from a maintained list of prices.

The list knows some two thousand models, and loading it takes a third of a second; so it is
loaded when somebody asks, and never to compile or to run. What the facts table says wins.
"""

import functools
from datetime import UTC, datetime
from decimal import Decimal
from typing import TYPE_CHECKING, NamedTuple, cast

from weft.dialects.facts import facts_for, seller_of, wire_name

if TYPE_CHECKING:
    from genai_prices.types import ModelInfo


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
    tiers = (_tiers(held) for held in prices.values())
    return tuple(sorted({start for listed in tiers for start, _ in listed}))


def window_of(model: str) -> int:
    """How many tokens a request with its answer may have, or 0 where nobody knows."""
    known = facts_for(model).window
    if known:
        return known
    found = _listed(model)
    return found.context_window or 0 if found is not None else 0


@functools.lru_cache(maxsize=256)
def _listed(model: str) -> "ModelInfo | None":
    """The model in the list, under its provider's name for it."""
    if model.startswith(("http://", "https://", "local")):
        return None
    from genai_prices.data_snapshot import get_snapshot

    try:
        return get_snapshot().find_provider_model(wire_name(model), None, seller_of(model), None)[1]
    except LookupError:
        return None


def _prices(model: str) -> dict[str, object] | None:
    """The prices of today by the name of what they are for."""
    found = _listed(model)
    return dict(vars(found.get_prices(datetime.now(UTC)))) if found is not None else None


def _amount(prices: dict[str, object], name: str, tokens: int) -> float | None:
    """A price for a request of so many tokens."""
    held = prices.get(name)
    base = held if isinstance(held, Decimal) else vars(held).get("base") if held else None
    for start, price in _tiers(held):
        base = price if tokens > start else base
    return float(base) if isinstance(base, Decimal) else None


def _tiers(held: object) -> list[tuple[int, Decimal]]:
    """From how many tokens on a price is another, and which."""
    if held is None or isinstance(held, Decimal):
        return []
    listed = cast("list[object]", vars(held).get("tiers") or [])
    pairs = [(vars(tier).get("start"), vars(tier).get("price")) for tier in listed]
    return [(s, p) for s, p in pairs if isinstance(s, int) and isinstance(p, Decimal)]
