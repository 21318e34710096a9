"""The list of prices: who sells which models, what their tokens cost, how long their windows are.

The package holds one, made from genai-prices by `make prices`. Whoever has the extra `prices` also
has genai-prices itself: its list is used where it is newer, or where the program has set or fetched
another one with it. Either becomes the same `PriceList`, so a model is looked up in one way.

A list is loaded when somebody asks for a price, never to compile or to run.
"""

import functools
import logging
import re
import sys
from collections.abc import Iterable, Iterator, Sequence
from datetime import UTC, date, datetime, time
from decimal import Decimal
from itertools import product
from typing import TYPE_CHECKING

import msgspec

from weft.late import late_pattern

if TYPE_CHECKING:
    from genai_prices import types
    from genai_prices.data_snapshot import DataSnapshot

_log = logging.getLogger("weft")


def price_list() -> "PriceList":
    """The newest list of prices that there is here."""
    if not _is_newer() and "genai_prices.data_snapshot" not in sys.modules:
        return _load_packed_list()
    try:
        return _INSTALLED.read()
    except (ImportError, AttributeError, TypeError) as error:  # a release with another interface
        _warn_once(f"{type(error).__name__}: {error}")
        return _load_packed_list()


def name_price_list() -> str:
    """Which list of prices is used, in words."""
    known = price_list()
    return f"prices of {known.source} {known.version}"


def newer_prices() -> str:
    """What to type for prices of models that came out after this list."""
    return (
        "pip install -U genai-prices" if _find_installed_version() else "pip install 'weft[prices]'"
    )


class Amounts(msgspec.Struct, frozen=True, array_like=True):
    """US dollars for a million tokens of each kind; None where the list does not say."""

    input: float | None = None
    output: float | None = None
    cache_read: float | None = None
    cache_write: float | None = None
    cache_write_long: float | None = None
    above: "tuple[tuple[int, Amounts], ...]" = ()
    """What all tokens of a request cost from a number of tokens on, the smallest number first."""

    def of_request(self, tokens: int) -> "Amounts":
        """The prices of a request of `tokens` tokens."""
        return next((dear for start, dear in reversed(self.above) if tokens > start), self)


class PriceChange(msgspec.Struct, frozen=True, array_like=True):
    """Other prices from a day on, or in some hours of every day, by the clock of UTC."""

    amounts: Amounts
    since: date | None = None
    hours: tuple[time, time] | None = None
    """From when and until when; over midnight where it ends before it begins."""

    def is_due(self, moment: datetime) -> bool:
        """Whether these are the prices of that moment."""
        moment = moment.astimezone(UTC)
        if self.since is not None and moment.date() < self.since:
            return False
        if self.hours is None:
            return True
        (start, end), now = self.hours, moment.time()
        return start <= now < end if start <= end else now >= start or now < end


Rule = str | tuple[str, ...]
"""What a name must be like, or all that it must be like. The first letter says how:

`+` it is the id and then this, `=` it is this, `^` it begins with this, `$` it ends with this,
`*` it holds this, `~` it fits this regular expression. With nothing after it, `^`, `$` and `*`
mean the id. Names and ids are compared in lower case.
"""


class Listing(msgspec.Struct, frozen=True, array_like=True):
    """A model as somebody sells it."""

    id: str
    amounts: Amounts = Amounts()
    window: int = 0
    """How many tokens a request with its answer may have; 0 where the list does not say."""
    rules: tuple[Rule, ...] = ("+",)
    """Any of them makes a name this model's."""
    changes: tuple[PriceChange, ...] = ()

    def amounts_at(self, moment: datetime) -> Amounts:
        """The prices of a moment: the last of those that are due then."""
        due = (each.amounts for each in reversed(self.changes) if each.is_due(moment))
        return next(due, self.amounts)


class Seller(msgspec.Struct, frozen=True, array_like=True):
    """Who sells models."""

    id: str
    listings: tuple[Listing, ...]
    names: tuple[Rule, ...] = ()
    """What it is called elsewhere."""
    models: tuple[Rule, ...] = ()
    """Names of models that are its own, whoever is asked for them."""
    passes_on: tuple[str, ...] = ()
    """Whose models it sells too, at their prices."""

    def find(self, name: str, others: "Sequence[Seller]" = ()) -> Listing | None:
        """The first model of that name, else of `others` whose models it passes on.

        Where there is none, a date is spelled with dashes, as the list does.
        """
        sellers = [self, *(each for id in self.passes_on for each in others if each.id == id)]
        name = name.lower()
        for spelling in dict.fromkeys((name, _with_dashes(name))):
            for seller in sellers:
                for listing in seller.listings:
                    if _fits_any(listing.rules, spelling, listing.id):
                        return listing
        return None


class PriceList(msgspec.Struct, frozen=True, eq=False):
    """All sellers, and where what is said of them comes from."""

    source: str
    version: str
    sellers: tuple[Seller, ...]
    licence: str = ""

    def find(self, name: str, seller: str) -> tuple[Seller, Listing] | None:
        """The model of that name as the seller of that name has it."""
        return _find(self, name.lower(), seller.lower().strip())

    def seller(self, name: str) -> Seller | None:
        """Who is called that: by id, else by another name."""
        exact = (each for each in self.sellers if each.id == name)
        alike = (each for each in self.sellers if _fits_any(each.names, name, each.id))
        return next(exact, None) or next(alike, None)

    def __str__(self) -> str:
        count = sum(len(seller.listings) for seller in self.sellers)
        origin = f"{self.source} {self.version}".strip()
        return f"{count:,} models of {len(self.sellers)} sellers, from {origin}"


@functools.lru_cache(maxsize=512)
def _find(prices: PriceList, name: str, seller: str) -> tuple[Seller, Listing] | None:
    if seller != _GATEWAY:
        owner = prices.seller(seller)
    else:  # it passes everything on: the seller stands in the name, or the name tells
        prefix, slash, rest = name.partition("/")
        owner = prices.seller(prefix) if slash and prefix else None
        if owner is not None:
            name = rest
        else:
            tells = (each for each in prices.sellers if _fits_any(each.models, name, each.id))
            owner = prices.seller(seller) or next(tells, None)
    listing = owner.find(name, prices.sellers) if owner is not None else None
    return (owner, listing) if owner is not None and listing is not None else None


_GATEWAY = "litellm"


def _fits_any(rules: Iterable[Rule], name: str, id: str) -> bool:
    for rule in rules:
        if isinstance(rule, str):
            if _fits(rule, name, id):
                return True
        elif all(_fits(part, name, id) for part in rule):
            return True
    return False


def _fits(rule: str, name: str, id: str) -> bool:
    how, text = rule[0], rule[1:]
    match how:
        case "+":
            return name == id.lower() + text
        case "=":
            return name == text
        case "^":
            return name.startswith(text or id.lower())
        case "$":
            return name.endswith(text or id.lower())
        case "*":
            return (text or id.lower()) in name
        case "~":
            return re.search(text, name) is not None
        case _:
            raise ValueError(f"no rule begins with `{how}`: {rule}")


_DATE = late_pattern(r"-(20\d\d)([01][0-9])([0-3]\d)(?=[-:]|$)")
"""A day without dashes, as gateways write it."""


def _with_dashes(name: str) -> str:
    """The name with its dates as `-2026-11-17`; what is not a day of the calendar stays."""

    def spell(digits: re.Match[str]) -> str:
        try:
            return f"-{date(*map(int, digits.groups()))}"
        except ValueError:
            return digits[0]

    return _DATE.sub(spell, name)


# --- Where a list comes from


@functools.cache
def _load_packed_list() -> PriceList:
    """The list in the package."""
    from pkgutil import get_data

    data = get_data("weft.dialects", "data/prices.json")
    if data is None:
        raise ImportError("weft is installed without its list of prices, `dialects/data`")
    return msgspec.json.decode(data, type=PriceList)


class _InstalledList:
    """The list of the package genai-prices, read again when the program has set another."""

    def __init__(self) -> None:
        self._last: tuple[DataSnapshot, PriceList] | None = None

    def read(self) -> PriceList:
        """The list as it is now; the packed one where that is as new."""
        from genai_prices.data_snapshot import get_snapshot

        snapshot = get_snapshot()
        bundle = sys.modules.get("genai_prices.data")  # not loaded while another list is set
        own = bundle is not None and snapshot.providers is bundle.providers
        if own and not _is_newer():
            return _load_packed_list()
        if self._last is None or self._last[0] is not snapshot:
            version = _find_installed_version() if own else "set by the program"
            self._last = snapshot, read_providers(snapshot.providers, version)
        return self._last[1]


_INSTALLED = _InstalledList()


@functools.cache
def _find_installed_version() -> str:
    """The version of genai-prices that is installed; empty for none."""
    from importlib.util import find_spec

    if find_spec("genai_prices") is None:
        return ""
    from importlib.metadata import PackageNotFoundError, version

    try:
        return version("genai-prices")
    except PackageNotFoundError:
        return ""


@functools.cache
def _is_newer() -> bool:
    """Whether the installed list is newer than the packed one."""
    return bool(_find_installed_version()) and _number(_find_installed_version()) > _number(
        _load_packed_list().version
    )


def _number(version: str) -> tuple[int, ...]:
    return tuple(int(part) for part in re.findall(r"\d+", version))


@functools.cache
def _warn_once(reason: str) -> None:
    _log.warning(
        "the prices of genai-prices %s cannot be read (%s): those of %s are used",
        _find_installed_version(),
        reason,
        _load_packed_list().version,
    )


# --- genai-prices, read


def read_providers(providers: "Iterable[types.Provider]", version: str) -> PriceList:
    """The list of genai-prices as a `PriceList`: what a token costs, and how models are named."""
    sellers = (
        Seller(
            provider.id,
            tuple(map(_read_model, provider.models)),
            _read_rules(provider.provider_match),
            _read_rules(provider.model_match),
            tuple(provider.fallback_model_providers or ()),
        )
        for provider in providers
    )
    return PriceList("genai-prices", version, tuple(sellers))


def _read_model(model: "types.ModelInfo") -> Listing:
    rules = _read_rules(model.match, model.id.lower())
    window = model.context_window or 0
    if not isinstance(model.prices, list):
        return Listing(model.id, _read_amounts(model.prices), window, rules)
    if not model.prices:
        return Listing(model.id, Amounts(), window, rules)
    # The first ones hold where no others do, whatever their own condition is.
    first, *others = model.prices
    changes = tuple(map(_read_change, others))
    return Listing(model.id, _read_amounts(first.prices), window, rules, changes)


def _read_change(price: "types.ConditionalPrice") -> PriceChange:
    from genai_prices.types import StartDateConstraint, TimeOfDateConstraint

    amounts = _read_amounts(price.prices)
    match price.constraint:
        case None:
            return PriceChange(amounts)
        case StartDateConstraint():
            return PriceChange(amounts, price.constraint.start_date)
        case TimeOfDateConstraint():
            hours = _in_utc(price.constraint.start_time), _in_utc(price.constraint.end_time)
            return PriceChange(amounts, hours=hours)
        case _:
            raise TypeError(f"`{type(price.constraint).__name__}` is not a known condition")


def _in_utc(moment: time) -> time:
    if moment.tzinfo is None:
        return moment
    return datetime.combine(date(1970, 1, 1), moment).astimezone(UTC).time()


def _read_amounts(prices: "types.ModelPrice") -> Amounts:
    """Prices with their cliffs: there each price has its own, here each cliff has its prices."""
    from genai_prices.types import TieredPrices

    listed: dict[str, object] = vars(prices)
    tiered = [price for price in listed.values() if isinstance(price, TieredPrices)]
    starts = sorted({tier.start for price in tiered for tier in price.tiers})
    above = tuple((start, _amounts_of(listed, start + 1)) for start in starts)
    return msgspec.structs.replace(_amounts_of(listed, 0), above=above)


def _amounts_of(listed: dict[str, object], tokens: int) -> Amounts:
    """The prices of a request of `tokens` tokens."""

    def price(name: str) -> float | None:
        from genai_prices.types import TieredPrices

        price = listed.get(name)
        if isinstance(price, TieredPrices):
            reached = [tier.price for tier in price.tiers if tokens > tier.start]
            return float(reached[-1] if reached else price.base)
        if price is None or isinstance(price, Decimal):
            return None if price is None else float(price)
        raise TypeError(f"`{type(price).__name__}` is not a known price")

    return Amounts(
        price("input_mtok"),
        price("output_mtok"),
        price("cache_read_mtok"),
        price("cache_write_mtok"),
        price("cache_write_1h_mtok"),
    )


def _read_rules(clause: "types.MatchLogic | None", id: str = "") -> tuple[Rule, ...]:
    if clause is None:
        return ()
    return tuple(all_of[0] if len(all_of) == 1 else all_of for all_of in _read_clause(clause, id))


def _read_clause(clause: "types.MatchLogic", id: str) -> Iterator[tuple[str, ...]]:
    """The clause as alternatives, each of which is all that must fit."""
    from genai_prices import types

    match clause:
        case types.ClauseOr():
            for each in clause.or_:
                yield from _read_clause(each, id)
        case types.ClauseAnd():
            for parts in product(*(tuple(_read_clause(each, id)) for each in clause.and_)):
                yield tuple(rule for part in parts for rule in part)
        case types.ClauseEquals():
            text = clause.equals.lower()
            yield (f"+{text.removeprefix(id)}" if id and text.startswith(id) else f"={text}",)
        case types.ClauseStartsWith():
            yield (_short("^", clause.starts_with, id),)
        case types.ClauseEndsWith():
            yield (_short("$", clause.ends_with, id),)
        case types.ClauseContains():
            yield (_short("*", clause.contains, id),)
        case types.ClauseRegex():
            yield (f"~{clause.regex}",)
        case _:
            raise TypeError(f"`{type(clause).__name__}` is not a known rule")


def _short(how: str, text: str, id: str) -> str:
    """A rule without its text where that is the id; every name holds the empty text."""
    return f"{how}{text.lower() if text.lower() != id else ''}" if text else "~"
