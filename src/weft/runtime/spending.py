"""What a run spends: tokens, model calls, seconds and money, over all its agents.

What an answer cost is kept with it in the log, so a run that goes on later knows what was spent.
"""

import logging
import time
from collections.abc import Iterable
from typing import NamedTuple

from weft.codes import report
from weft.compiler import Compiled
from weft.declare import RunBudget
from weft.diagnostics import Diagnostic, Origin
from weft.ir import ModelResponse
from weft.runtime.paying import answer_tokens, cost_of, estimated, money_for, tokens_of, told_by
from weft.session import Event
from weft.tokens import counter_for
from weft.values import Json, JsonObject

_log = logging.getLogger("weft")

WARNS = 0.8
"""From which share of a limit on a run warns."""

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
    """What one invocation has spent of its budget."""

    def __init__(self, budget: RunBudget) -> None:
        self.budget = budget
        self._tokens = 0
        self._money = 0.0
        self._started = time.monotonic()
        self._warned = False

    def recall(self, events: Iterable[Event]) -> None:
        """Take up what the log says was spent before.

        Answers say at what second they came. What came after the last of them counts by the time
        between events, except behind an error: there the run had stopped.
        """
        seconds, last = 0.0, None
        for event in events:
            self.note(event)
            told = told_by(event)
            if isinstance(told.get("seconds"), int | float):
                seconds = float(str(told["seconds"]))
            elif last is not None and event.author != "user" and not told:
                seconds += max(0.0, event.timestamp - last)
            last = event.timestamp if not event.error_code else None
            self._warned = self._warned or warning_in(event) is not None
        self._started -= seconds

    def note(self, event: Event) -> None:
        """Count one event of the log: an answer, or what a policy asked a model for."""
        if event.usage is None and not told_by(event):
            return
        tokens, money = cost_of(event, priced=self.budget.money is not None)
        self._tokens += tokens
        self._money += money

    def now(self, steps: int) -> Spent:
        """What was spent so far, with so many model calls."""
        seconds = time.monotonic() - self._started
        return Spent(self._tokens, steps, seconds, self._money)

    def exhausted(self, steps: int) -> str:
        """Why there is no further model call, in words; empty where there may be one."""
        spent = self.now(steps)
        over = [name for name, share in self._shares(spent) if share >= 1]
        if not over:
            return ""
        return f"the run has spent its budget of {' and '.join(map(self._limit, over))}: {spent}"

    def entry(self, compiled: Compiled, response: ModelResponse, steps: int) -> JsonObject:
        """What an answer cost, for its event, and the warning if this is the time for it."""
        tokens = tokens_of(response.usage) or estimated(compiled, response)
        money = 0.0
        if self.budget.money is not None:
            money = money_for(compiled.prompt.model, response, compiled, tokens)
        spent = self.now(steps)
        spent = spent._replace(tokens=spent.tokens + tokens, money=spent.money + money)
        told: JsonObject = {
            "model": compiled.prompt.model,
            "tokens": tokens,
            "seconds": round(spent.seconds, 3),
        }
        if money:
            told["money"] = money
        if self._warned:
            return {"spent": told}
        near = [name for name, share in self._shares(spent) if share >= WARNS]
        if not near:
            return {"spent": told}
        self._warned = True
        words = f"the run nears its budget of {' and '.join(map(self._limit, near))}: {spent}"
        _log.warning("WEFT505 %s", words)
        return {"spent": told, "runBudget": {"code": "WEFT505", "message": words}}

    def effect(self, asked: str, response: ModelResponse, model: Json) -> JsonObject:
        """What asking a model for a policy cost, where its provider does not say."""
        if response.usage is not None:
            return {}
        counter = counter_for(str(model))
        tokens = counter.count(asked) + answer_tokens(response, counter)
        return {"spent": {"model": model, "tokens": tokens}}

    def _shares(self, spent: Spent) -> list[tuple[str, float]]:
        """What share of each limit is spent."""
        pairs = (
            ("tokens", spent.tokens, self.budget.tokens),
            ("steps", spent.steps, self.budget.steps),
            ("seconds", spent.seconds, self.budget.seconds),
            ("money", spent.money, self.budget.money),
        )
        return [(name, used / limit) for name, used, limit in pairs if limit is not None]

    def _limit(self, name: str) -> str:
        budget = self.budget
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
    held = (event.custom_metadata or {}).get("weft")
    told = held.get("runBudget") if isinstance(held, dict) else None
    if not isinstance(told, dict):
        return None
    hint = "raise the limit in RunConfig(budget=RunBudget(...))"
    return report("WEFT505", Origin("config", "budget"), str(told.get("message")), hint)
