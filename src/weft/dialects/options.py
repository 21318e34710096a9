"""Options as data: where one stands in a request, what the provider takes, how it is read back.

An option is fitted to what a model can do first. What the model would refuse is replaced or left
out, and reported. What stands under `extra` is the author's own word and stays as it is.
"""

from collections.abc import Callable, Mapping, Sequence
from typing import NamedTuple, TypeAlias

import msgspec

from weft.declare.config import EFFORTS as EFFORTS
from weft.dialects.facts import Facts, facts_for, wire_name
from weft.dialects.wire import at_path, drop_fields, put
from weft.values import Json, JsonObject

Range: TypeAlias = tuple[float, float]
"""The least and the most that a provider takes."""


class Option(NamedTuple):
    """One option of a dialect: written, read back and refused from this line.

    `path` is dotted. `write` and `read` take over where the option does not simply stand there.
    """

    path: str = ""
    range: Range | None = None
    values: tuple[str, ...] = ()
    """The only values the provider takes; empty for any."""
    write: Callable[[JsonObject, Json], Sequence[str] | None] | None = None
    """Puts the value into an empty request; returns the names of what it could not put."""
    read: Callable[[JsonObject], Json] | None = None
    """The value in a request, None where it has none."""

    @property
    def pointer(self) -> str:
        """Where any value goes; empty where the value decides."""
        return "" if self.write or self.values else "/" + self.path.replace(".", "/")

    def place(self, wire: JsonObject, value: Json) -> Sequence[str]:
        """Put the value into the request; returns the names of what could not be put."""
        if self.write is not None:
            return self.write(wire, value) or ()
        if self.values and value not in self.values:
            return (f"{self.path.rpartition('.')[2]}={value}",)
        put(wire, self.path, value)
        return ()


def read_options(options: Mapping[str, Option], wire: JsonObject) -> JsonObject:
    """The options that a request sets, by their own names."""
    config: JsonObject = {}
    for name, option in options.items():
        value = option.read(wire) if option.read is not None else at_path(wire, option.path)
        if value is not None:
            config[name] = value
    return config


class FittedOption(msgspec.Struct, frozen=True):
    """The option as the model takes it, None where it takes none, and what it gave up."""

    value: Json
    lost: tuple[str, ...] = ()
    changes: tuple[str, ...] = ()
    """What is asked for in other words, and means the same."""


EFFORT_TOKENS: Mapping[str, int] = {
    "none": 0,
    "minimal": 1_024,
    "low": 1_024,
    "medium": 8_192,
    "high": 24_576,
    "xhigh": 24_576,
    "max": 24_576,
}
"""How many tokens of thinking an effort means, for models that only take the one or the other.

Every model that takes a budget takes these. Above the most, models of one provider differ.
"""


def effort_for(budget: int) -> str:
    """The least effort that means as many tokens."""
    if budget <= 0:
        return "none"
    wide_enough = (one for one in ("low", "medium") if EFFORT_TOKENS[one] >= budget)
    return next(wide_enough, "high")


def fit_option(name: str, value: Json, model: str) -> FittedOption:
    """An option as this model takes it."""
    facts = facts_for(model)
    if name == "thinking" and isinstance(value, dict):
        return _fit_thinking(value, facts, wire_name(model))
    if name == "tool_choice" and not facts.forced_choice and is_forced(value):
        return FittedOption(
            "auto", (f"{wire_name(model)} cannot be made to call a tool: it may call one",)
        )
    return FittedOption(value)


def is_forced(choice: Json) -> bool:
    """Whether a tool choice makes the model call one."""
    return choice in ("any", "required") or isinstance(choice, dict)


def nearest(effort: str, known: tuple[str, ...]) -> str:
    """The effort that comes nearest among those a model has: not above it, if there is one.

    Not to think at all is near to nothing but itself.
    """
    order = EFFORTS.index(effort)
    below = [one for one in known if one != "none" and EFFORTS.index(one) <= order]
    if effort in known:
        return effort
    known = tuple(one for one in known if one != "none") or known
    return max(below, key=EFFORTS.index) if below else min(known, key=EFFORTS.index)


def _fit_thinking(value: JsonObject, facts: Facts, model: str) -> FittedOption:
    effort, idle = value.get("effort"), value.get("budget") == 0
    if not facts.thinks:
        wanted = not idle and effort != "none"
        return FittedOption(
            None, (f"{model} does not think: `thinking` is left out",) if wanted else ()
        )
    fitted, changes = _in_other_words(value, facts, model)
    effort, lost = fitted.get("effort"), list[str]()
    # "none" was meant as an effort, and the model cannot rest
    if fitted.get("budget") == 0 and facts.least_thought and value.get("budget") != 0:
        fitted["budget"] = facts.least_thought
        lost.append(f"{model} always thinks: {facts.least_thought} tokens are asked for")
    if idle and not facts.rests:
        lost.append(f"{model} always thinks: `thinking.budget` is left out")
        del fitted["budget"]
        if facts.efforts:
            effort = fitted.setdefault("effort", facts.efforts[0])
    if facts.efforts is not None and isinstance(effort, str) and effort in EFFORTS:
        if not facts.efforts:
            lost.append(f"{model} cannot be told how hard to think: `{effort}` is left out")
            del fitted["effort"]
        elif effort not in facts.efforts:
            fitted["effort"] = nearest(effort, facts.efforts)
            lost.append(f"{model} has no effort `{effort}`: `{fitted['effort']}` is asked for")
    return FittedOption(fitted or None, tuple(lost), changes)


def _in_other_words(
    value: JsonObject, facts: Facts, model: str
) -> tuple[JsonObject, tuple[str, ...]]:
    """An effort as a budget, or a budget as an effort, for a model that only takes the other."""
    effort, budget = value.get("effort"), value.get("budget")
    rest = drop_fields(value, "effort")
    if effort == "none" and budget is None and facts.has_word_for_rest:
        return {**rest, "budget": 0}, ()  # it is not an effort there, but a kind of thinking
    if facts.takes_budget:
        if not isinstance(effort, str) or effort not in EFFORTS:
            return dict(value), ()
        if facts.efforts and budget is not None and facts.takes_either:
            change = f"{model} takes an effort or a number of tokens: `{effort}` is sent"
            return drop_fields(value, "budget"), (change,)
        if facts.efforts != ():
            return dict(value), ()
        if budget is not None:  # both were given: the one it takes stands
            return rest, (f"{model} takes a number of tokens for thinking, and no effort",)
        tokens = EFFORT_TOKENS[effort]
        change = f"{model} takes a number of tokens for thinking: `{effort}` is sent as {tokens:,}"
        return {**rest, "budget": tokens}, (change,)
    if not isinstance(budget, int) or budget == -1 or facts.efforts == ():
        return dict(value), ()
    if budget == 0 and not facts.is_told_by_effort:
        return dict(value), ()  # it has a word of its own for not thinking
    if effort is not None:
        change = f"{model} takes an effort for thinking, and no number of tokens"
        return {**value, "budget": -1}, (change,)
    meant = effort_for(budget)
    change = f"{model} takes no number of tokens for thinking: {budget:,} is sent as `{meant}`"
    return {**value, "budget": -1, "effort": meant}, (change,)
