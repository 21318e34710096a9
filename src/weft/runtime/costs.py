"""What a run spends: tokens, model calls, seconds and money, over all its agents.

What an answer cost is kept with it in the log, so a run that goes on later knows what was spent.
"""

import logging
import time
from collections.abc import Iterable
from typing import NamedTuple

import msgspec

from weft.compiler import Compilation
from weft.compiler.costs import Load, advise_price, price_of, rates_for
from weft.compiler.plan import ModelLike
from weft.declare import Node, RunBudget, RunConfig
from weft.declare.agent import every_agent
from weft.diagnostics import Diagnostic, Origin, report
from weft.errors import UsageError
from weft.ir import ModelResponse
from weft.runtime.place import is_reply
from weft.session import Event, Usage
from weft.session.provenance import Charge, Provenance
from weft.tokens import Counter, counter_for
from weft.values import compact

_log = logging.getLogger("weft")

WARNS = 0.8
"""Share of a limit from which a run warns."""

RUN_BUDGET = "run_budget"
"""The code of the error event of a run that has spent its budget."""


class Spent(NamedTuple):
    """What was spent: tokens, model calls, seconds and US dollars."""

    tokens: int = 0
    steps: int = 0
    seconds: float = 0.0
    money: float = 0.0

    def __str__(self) -> str:
        calls = "1 model call" if self.steps == 1 else f"{self.steps} model calls"
        words = [f"{self.tokens:,} tokens", calls, f"{self.seconds:.1f} s"]
        return ", ".join([*words, f"${self.money:.4f}"] if self.money else words)


class Spending:
    """What one invocation has spent, and its budget if it has one."""

    def __init__(self, budget: RunBudget | None) -> None:
        self.budget = budget
        self.steps = 0
        """How many model calls were made."""
        self.hops = 0
        """How often the invocation was handed over."""
        self._tokens = 0
        self._money = 0.0
        self._started = time.monotonic()
        self._warned = False

    def recall(self, events: Iterable[Event]) -> None:
        """Take up what the log says was spent before, whichever process made the calls.

        Answers say at what second they came. What came after the last of them counts by the time
        between events, except after an error: there the run had stopped.
        """
        seconds, last = 0.0, None
        for event in events:
            charge = event.provenance.spent
            if event.usage is not None or is_reply(event) or event.provenance.effect is not None:
                self.steps += 1
            if event.actions.transfer_to_agent:
                self.hops += 1
            if self.budget is None:
                continue
            self.note(event)
            if charge is not None and charge.seconds is not None:
                seconds = charge.seconds
            elif last is not None and event.author != "user" and charge is None:
                seconds += max(0.0, event.timestamp - last)
            last = event.timestamp if not event.error_code else None
            self._warned = self._warned or warning_in(event) is not None
        self._started -= seconds

    def note(self, event: Event) -> None:
        """Count one event of the log: an answer, or what a policy asked a model for."""
        if event.usage is None and event.provenance.spent is None:
            return
        tokens, money = cost_of(event, priced=self._counts_money)
        self._tokens += tokens
        self._money += money

    def now(self) -> Spent:
        """What was spent so far."""
        seconds = time.monotonic() - self._started
        return Spent(self._tokens, self.steps, seconds, self._money)

    def explain_exhaustion(self) -> str:
        """Why there is no further model call, in words; empty where there may be one."""
        if self.budget is None:
            return ""
        spent = self.now()
        over = [name for name, share in self._shares(spent) if share >= 1]
        if not over:
            return ""
        return f"the run has spent its budget of {' and '.join(map(self._limit, over))}: {spent}"

    def entry(self, compiled: Compilation, response: ModelResponse) -> Provenance:
        """What an answer cost, for its event, and the warning if this is the time for it."""
        counted = charge_for(compiled, response)
        tokens = tokens_of(response.usage) or counted.tokens or 0
        money = 0.0
        if self._counts_money:
            money = money_for(compiled.prompt.model, response, compiled, tokens)
        spent = self.now()
        spent = spent._replace(tokens=spent.tokens + tokens, money=spent.money + money)
        seconds = round(spent.seconds, 3)
        charge = msgspec.structs.replace(
            counted, tokens=tokens, seconds=seconds, money=money or None
        )
        if self._warned:
            return Provenance(spent=charge)
        near = [name for name, share in self._shares(spent) if share >= WARNS]
        if not near:
            return Provenance(spent=charge)
        self._warned = True
        words = f"the run nears its budget of {' and '.join(map(self._limit, near))}: {spent}"
        _log.warning("WEFT505 %s", words)
        return Provenance(spent=charge, run_budget={"code": "WEFT505", "message": words})

    def _shares(self, spent: Spent) -> list[tuple[str, float]]:
        """What share of each limit is spent."""
        budget = self.budget
        if budget is None:
            return []
        pairs = (
            ("tokens", spent.tokens, budget.tokens),
            ("steps", spent.steps, budget.steps),
            ("seconds", spent.seconds, budget.seconds),
            ("money", spent.money, budget.money),
        )
        return [(name, used / limit) for name, used, limit in pairs if limit is not None]

    @property
    def _counts_money(self) -> bool:
        return self.budget is not None and self.budget.money is not None

    def _limit(self, name: str) -> str:
        budget = self.budget
        assert budget is not None
        match name:
            case "tokens":
                return f"{budget.tokens:,} tokens"
            case "steps":
                return f"{budget.steps} model calls"
            case "seconds":
                return f"{budget.seconds:g} seconds"
            case _:
                return f"${budget.money:g}"


def warning_in(event: Event) -> Diagnostic | None:
    """The warning an event carries that the run nears its budget, if it does."""
    warning = event.provenance.run_budget if event.is_noted else None
    if warning is None:
        return None
    hint = "raise the limit in RunConfig(budget=RunBudget(...))"
    return report("WEFT505", Origin("config", "budget"), str(warning.get("message")), hint)


def require_prices(root: Node, config: RunConfig) -> None:
    """Refuse to limit the money of a run with a model whose price nobody knows."""
    if config.budget is None or config.budget.money is None:
        return
    unknown = [name for name in _models(root, config) if not is_priced(name)]
    if unknown:
        hint = "limit tokens= or steps= instead, or name a model that has a price"
        advice = advise_price(unknown[0])
        raise UsageError(
            f"nobody knows what `{unknown[0]}` costs, so its money cannot be limited",
            where="RunBudget.money",
            hint=f"{hint}; {advice}" if advice else hint,
        )


def _models(root: Node, config: RunConfig) -> list[str]:
    """The names of the models that a run may ask, each once."""
    if config.model is not None:
        return [_name(config.model)]
    named = (_name(agent.model) for agent in every_agent(root) if agent.model is not None)
    return list(dict.fromkeys(named))


def _name(model: object) -> str:
    return model.name if isinstance(model, ModelLike) else str(model)


def is_priced(model: str) -> bool:
    """Whether the price of a model is known."""
    return is_free(model) or price_of(model) is not None


def is_free(model: str) -> bool:
    """Whether a model runs here, so that nobody is paid for it."""
    return model.partition("/")[0].partition(":")[0] == "local"


def cost_of(event: Event, *, priced: bool) -> tuple[int, float]:
    """The tokens and dollars of an event, as it says, else as its usage says."""
    charge = event.provenance.spent or Charge()
    counted = charge.tokens if charge.tokens is not None else tokens_of(event.usage) or 0
    return counted, money_of(event, "") if priced else charge.money or 0.0


def money_of(event: Event, model: str) -> float:
    """What an answer of a model cost in US dollars; nothing where nobody knows its price."""
    charge = event.provenance.spent
    if charge is not None and charge.money is not None:
        return charge.money
    usage, asked = usage_of(event), model_of(event) or model
    if usage is None or not asked:
        return 0.0
    notes = event.provenance
    return _price_usage(asked, usage, notes.cache_write or 0, notes.cache_lifetime or "")


def model_of(event: Event) -> str:
    """The model that an event is the answer of, as the log says; empty where it does not."""
    notes = event.provenance
    effect = notes.effect or {}
    asked = notes.spent.model if notes.spent is not None else None
    return str(asked or effect.get("model") or notes.model or event.model_version or "")


def tokens_of(usage: Usage | None) -> int | None:
    """The tokens of a request and its answer, as the provider counted them."""
    if usage is None:
        return None
    parts = (usage.prompt_token_count, usage.candidates_token_count, usage.thoughts_token_count)
    return usage.total_token_count or sum(part or 0 for part in parts) or None


def usage_of(event: Event) -> Usage | None:
    """What an answer used: as its provider counted, else as it was counted here."""
    charge = event.provenance.spent if tokens_of(event.usage) is None else None
    if charge is None or charge.prompt is None:
        return event.usage
    answer = max(0, (charge.tokens or 0) - charge.prompt)
    return Usage(
        prompt_token_count=charge.prompt,
        candidates_token_count=answer,
        total_token_count=charge.prompt + answer,
    )


def charge_for(compiled: Compilation, response: ModelResponse) -> Charge:
    """Who answered, and the tokens of request and answer where the provider reports none."""
    model = compiled.prompt.model
    if tokens_of(response.usage) is not None:
        return Charge(model)
    prompt = compiled.tokens
    return Charge(model, prompt + answer_tokens(response, compiled.scale.counter), prompt=prompt)


def charge_for_effect(asked: str, response: ModelResponse, model: str) -> Charge | None:
    """What asking a model for a policy cost, where its provider does not say."""
    if response.usage is not None:
        return None
    counter = counter_for(model)
    prompt = counter.count(asked)
    return Charge(model, prompt + answer_tokens(response, counter), prompt=prompt)


def answer_tokens(response: ModelResponse, counter: Counter) -> int:
    """The tokens of what a model said and called."""
    content = response.content
    texts = [] if content is None else [part.text or "" for part in content.parts or ()]
    if content is not None:
        calls = (part.function_call for part in content.parts or ())
        texts += [f"{call.name}{compact(call.args or {})}" for call in calls if call is not None]
    return sum(map(counter.count, texts))


def money_for(model: str, response: ModelResponse, compiled: Compilation, tokens: int) -> float:
    """What an answer cost in US dollars; what was read from a cache at its own price."""
    usage = response.usage
    if usage is None or usage.prompt_token_count is None:
        asked = compiled.tokens
        usage = Usage(prompt_token_count=asked, candidates_token_count=max(0, tokens - asked))
    wrote = response.provenance.cache_write or 0
    return _price_usage(model, usage, wrote, compiled.prompt.cache)


def _price_usage(model: str, usage: Usage, written: int, cache: str) -> float:
    asked = usage.prompt_token_count or 0
    cached = min(usage.cached_content_token_count or 0, asked)
    answer = (usage.candidates_token_count or 0) + (usage.thoughts_token_count or 0)
    rates = rates_for(model, tokens=asked, lifetime=cache)
    if not rates.money or is_free(model):
        return 0.0
    return rates.cost(Load(cached, written, max(0, asked - cached - written), answer))
