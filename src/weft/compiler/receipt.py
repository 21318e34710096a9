"""What a request was expected to cost, what its provider billed, and where the two differ.

It needs no session: a pair of an expectation and a usage is enough. The difference is taken apart
step by step, from what was expected to what was billed, so its causes always add up to it.
"""

from typing import TYPE_CHECKING, Literal

import msgspec

from weft.compiler.caching import EVICTED, SLACK
from weft.compiler.costs import Load, Rates, load_for, price_of, rates_for
from weft.dialects.facts import wire_name
from weft.session import Usage
from weft.values import Json, JsonObject

if TYPE_CHECKING:
    from weft.compiler.compiled import Compilation

CauseKind = Literal["estimate", "provider tools", "model", "tier", "cache", "writing"]
"""Why a bill differs: the count was off, the provider's tools read more, another model answered,
the request crossed a price step, the cache gave less or more, less or more was kept."""

NO_USAGE = "the provider reported no usage"


class Expectation(msgspec.Struct, frozen=True):
    """What one request was expected to cost, before its answer."""

    model: str
    load: Load
    """Its tokens by kind; those of the answer are not predicted."""
    lifetime: str = ""
    """How long the provider was asked to keep it."""
    lost: int = 0
    """Tokens that could have been read from the cache, if nothing had changed."""
    blame: str = ""
    """Why they are not, or why nothing is cached."""
    idle: float = 0.0
    """Seconds since the answer to the request before; 0 where nobody knows."""
    uncounted: tuple[str, ...] = ()
    """What the provider adds that nobody else can count."""

    @property
    def rates(self) -> Rates:
        """What its tokens cost."""
        return rates_for(self.model, tokens=self.load.total, lifetime=self.lifetime)


class Cause(msgspec.Struct, frozen=True):
    """One reason why a bill is higher or lower than expected, with its tokens and its cost."""

    kind: CauseKind
    tokens: int
    cost: float
    words: str

    def to_json(self) -> JsonObject:
        """The cause as JSON."""
        return {"kind": self.kind, "tokens": self.tokens, "cost": self.cost, "words": self.words}


class Comparison(msgspec.Struct, frozen=True):
    """One call on a receipt: what was expected, what was billed, and why they differ.

    Costs are of the request alone, in US dollars where `money`, else in fresh tokens. `answer` is
    what the answer cost, which nobody predicts. `problem` says what is missing, if something is.
    """

    model: str
    expected: Load | None
    billed: Load | None
    expected_cost: float = 0.0
    billed_cost: float = 0.0
    answer: float = 0.0
    money: bool = False
    lost: int = 0
    lost_cost: float = 0.0
    blame: str = ""
    causes: tuple[Cause, ...] = ()
    problem: str = ""

    @property
    def difference(self) -> float:
        """What the request cost more than expected; 0 where one of the two is not known."""
        both = self.expected is not None and self.billed is not None
        return self.billed_cost - self.expected_cost if both else 0.0

    def to_json(self) -> JsonObject:
        """The call as JSON."""
        return {
            "model": self.model,
            "expected": _load_json(self.expected),
            "billed": _load_json(self.billed),
            "expected_cost": self.expected_cost if self.expected is not None else None,
            "billed_cost": self.billed_cost if self.billed is not None else None,
            "answer_cost": self.answer if self.billed is not None else None,
            "difference": self.difference,
            "money": self.money,
            "lost": self.lost,
            "lost_cost": self.lost_cost,
            "blame": self.blame,
            "causes": [cause.to_json() for cause in self.causes],
            "problem": self.problem,
        }


def _load_json(load: Load | None) -> Json:
    return None if load is None else {**load._asdict(), "total": load.total}


def expect(compiled: "Compilation") -> Expectation:
    """What a compiled request is expected to cost, given the one before it."""
    compiled = compiled.priced
    prediction, before = compiled.cached, compiled.previous
    model, load = compiled.prompt.model, load_for(compiled)
    rates = rates_for(model, tokens=load.total, lifetime=compiled.prompt.cache)
    if rates.write <= rates.fresh:  # keeping it costs nothing extra
        load = Load(load.cached, 0, load.written + load.fresh)
    answered = before.answered if before is not None else 0.0
    idle = compiled.asked - answered if answered and compiled.asked else 0.0
    return Expectation(
        model,
        load,
        lifetime=compiled.prompt.cache,
        lost=max(0, prediction.possible - prediction.cached),
        blame=prediction.blame,
        idle=max(0.0, idle),
        uncounted=compiled.uncounted,
    )


def compare_bill(
    expected: Expectation | None,
    usage: Usage | None,
    *,
    written: int = 0,
    lifetime: str = "",
    answered_by: str = "",
) -> Comparison:
    """Hold what a provider billed against what was expected.

    `written` are the tokens it wrote to its cache for a `lifetime`, `answered_by` is the model that
    answered, where that may be another one. Without an expectation or a usage the other side alone
    is given.
    """
    model = _billed_model(expected, answered_by)
    billed = billed_load(usage, written)
    if expected is None:
        return _without_expectation(model, billed, lifetime)
    # what an answer costs is not predicted
    expected = msgspec.structs.replace(expected, load=expected.load._replace(answer=0))
    if not expected.rates.money:  # its own model has no price, the one that answered may have one
        expected = msgspec.structs.replace(expected, model=model)
    rates = expected.rates
    again = rates.write if expected.load.written else rates.fresh
    line = Comparison(
        model,
        expected.load,
        billed,
        expected_cost=rates.cost(expected.load),
        money=rates.money,
        lost=expected.lost,
        lost_cost=expected.lost * (again - rates.read),
        blame=expected.blame,
    )
    if billed is None:
        return msgspec.structs.replace(line, problem=NO_USAGE)
    assert usage is not None
    mine = _rates_of_bill(model, billed, lifetime or expected.lifetime)
    return msgspec.structs.replace(
        line,
        billed_cost=mine.cost(billed._replace(answer=0)),
        answer=mine.answer * billed.answer,
        causes=_find_causes(expected, usage, billed, model),
    )


def _without_expectation(model: str, billed: Load | None, lifetime: str) -> Comparison:
    if billed is None:
        return Comparison(model, None, None, problem=NO_USAGE)
    rates = _rates_of_bill(model, billed, lifetime)
    return Comparison(
        model,
        None,
        billed,
        billed_cost=rates.cost(billed._replace(answer=0)),
        answer=rates.answer * billed.answer,
        money=rates.money,
    )


def _rates_of_bill(model: str, billed: Load, lifetime: str) -> Rates:
    return rates_for(model, tokens=billed.total, lifetime=lifetime)


def _billed_model(expected: Expectation | None, answered_by: str) -> str:
    """Whose prices are on the bill: the model that was asked, unless a dearer or cheaper answered.

    Providers name a version (`gpt-5-2026-08-07`) where the model was asked by its short name.
    """
    if expected is None or not answered_by:
        return answered_by or (expected.model if expected is not None else "")
    asked, answered = wire_name(expected.model), wire_name(answered_by)
    if answered.startswith(asked) or asked.startswith(answered):
        return expected.model
    price = price_of(answered_by)
    is_other = price is not None and price != price_of(expected.model)
    return answered_by if is_other else expected.model


def billed_load(usage: Usage | None, written: int) -> Load | None:
    """The tokens of a bill by kind; None where the provider did not count the request."""
    if usage is None or usage.prompt_token_count is None:
        return None
    prompt = max(0, usage.prompt_token_count)
    cached = min(prompt, max(0, usage.cached_content_token_count or 0))
    written = min(prompt - cached, max(0, written))
    answer = (usage.candidates_token_count or 0) + (usage.thoughts_token_count or 0)
    fresh = prompt - cached - written + max(0, usage.tool_use_prompt_token_count or 0)
    return Load(cached, written, fresh, max(0, answer))


def _find_causes(
    expected: Expectation, usage: Usage, billed: Load, model: str
) -> tuple[Cause, ...]:
    """Why a bill differs, from the expectation to the bill in single changes."""
    causes: list[Cause] = []
    load, rates = _Shares.of(expected.load), expected.rates
    cost = load.cost(rates)

    def note(kind: CauseKind, tokens: float, after: float, words: str) -> None:
        nonlocal cost
        if abs(after - cost) > _NOTHING or round(tokens):
            causes.append(Cause(kind, round(tokens), after - cost, words))
        cost = after

    if model != expected.model:
        rates = rates_for(model, tokens=expected.load.total, lifetime=expected.lifetime)
        note("model", 0, load.cost(rates), f"`{model}` answered instead of `{expected.model}`")
    by_tools = max(0, usage.tool_use_prompt_token_count or 0)
    counted = billed.total - by_tools
    off = counted - load.total
    load = load.scale_to(counted)
    note("estimate", off, load.cost(rates), _estimate_words(expected, counted))
    if by_tools:
        load = load.add_fresh(by_tools)
        words = f"the provider's own tools read {by_tools:,} tokens"
        note("provider tools", by_tools, load.cost(rates), words)
    tier = _rates_of_bill(model, billed, expected.lifetime)
    words = f"at {billed.total:,} tokens all cost another price than at {expected.load.total:,}"
    note("tier", 0, load.cost(tier), words)
    less = load.cached - billed.cached
    load = load.with_cached(billed.cached)
    note("cache", -less, load.cost(tier), _cache_words(expected, less, load.cached + less))
    more = billed.written - load.written
    end = tier.cost(billed._replace(answer=0))
    words = "more was kept than expected" if more > 0 else "less was kept than expected"
    note("writing", more, end, f"{words}: the provider wrote {billed.written:,} tokens")
    return tuple(causes)


_NOTHING = 1e-12
"""A difference that only rounding makes."""


class _Shares(msgspec.Struct, frozen=True):
    """A load on its way to another one: its tokens may be parts of one."""

    cached: float
    written: float
    fresh: float

    @classmethod
    def of(cls, load: Load) -> "_Shares":
        return cls(load.cached, load.written, load.fresh)

    @property
    def total(self) -> float:
        return self.cached + self.written + self.fresh

    def cost(self, rates: Rates) -> float:
        return self.cached * rates.read + self.written * rates.write + self.fresh * rates.fresh

    def scale_to(self, total: int) -> "_Shares":
        """The same shares of another number of tokens."""
        if not self.total:
            return _Shares(0, 0, total)
        by = total / self.total
        return _Shares(self.cached * by, self.written * by, self.fresh * by)

    def add_fresh(self, tokens: int) -> "_Shares":
        return _Shares(self.cached, self.written, self.fresh + tokens)

    def with_cached(self, cached: int) -> "_Shares":
        """The same tokens with others of them cached; the rest divides as it did."""
        rest, before = self.total - cached, self.written + self.fresh
        share = self.written / before if before else 0.0
        return _Shares(cached, rest * share, rest * (1 - share))


def _estimate_words(expected: Expectation, counted: int) -> str:
    ours = expected.load.total
    share = f" ({100 * (counted - ours) / ours:+.1f}%)" if ours else ""
    words = f"Weft counted {ours:,} tokens, the provider {counted:,}{share}"
    if expected.uncounted and counted > ours:
        words += f"; nobody else can count {', '.join(expected.uncounted)}"
    return words


def _cache_words(expected: Expectation, less: float, predicted: float) -> str:
    """Why the provider read less from its cache than was expected, or more."""
    if abs(less) <= max(predicted * SLACK, _BLOCK):
        return "within what the two counts differ by"
    if less > 0:
        if expected.idle < _PAUSE:
            return EVICTED
        return f"{EVICTED}; the answer before came {expected.idle:,.0f} s earlier"
    if expected.lost:
        return f"the provider still had it: {expected.blame}"
    return "the provider knew more of it: another session or agent began with the same words"


_PAUSE = 60.0
"""Seconds from which on a pause may be why a cache was lost."""

_BLOCK = 64
"""Tokens that a provider's rounding may hide."""
