"""Refuse: what a provider would answer with a 400, said before it is asked.

The rules are what providers document and what they were seen to refuse. They are about what
stands in the request and what is known of the model; where nothing is known, nothing is said.
A request is read in three steps: its head, its turns one by one, and its end. So a request that
goes on from another costs what is new in it.
"""

from collections.abc import Callable
from typing import NamedTuple

from weft.dialects.facts import is_own, wire_name
from weft.dialects.names import is_misspelt, suggestion
from weft.dialects.read.gemini import spelled
from weft.dialects.refuse import anthropic, gemini, openai_chat, openai_responses
from weft.dialects.refuse.anthropic_turns import AnthropicTurns
from weft.dialects.refuse.finding import MODEL, Finding, Findings, Turns, objects
from weft.dialects.refuse.gemini_turns import GeminiTurns
from weft.values import JsonObject


class Rules(NamedTuple):
    """What one dialect's providers refuse: `key` is where the turns stand."""

    key: str
    head: Callable[[JsonObject, str], Findings]
    turns: Callable[[str], Turns]


RULES: dict[str, Rules] = {
    "anthropic": Rules("messages", anthropic.refused_head, AnthropicTurns),
    "gemini": Rules("contents", gemini.refused_head, GeminiTurns),
    "openai-chat": Rules("messages", openai_chat.refused_head, openai_chat.ChatTurns),
    "openai-responses": Rules(
        "input", openai_responses.refused_head, openai_responses.ResponsesTurns
    ),
}


def refused_head(dialect: str, wire: JsonObject, model: str) -> tuple[Finding, ...]:
    """What the provider would refuse of everything but the turns."""
    name = model_name(wire, model)
    return (*_unknown_name(name, model), *RULES[dialect].head(wire, name))


def _unknown_name(name: str, model: str) -> Findings:
    """A name that no model of the vendor has; other servers name models as they like."""
    if is_own(model) and is_misspelt(name):
        hint = suggestion(name) or "check the name in the provider's list of models"
        yield Finding(MODEL, "/model", f"there is no model `{name}`", hint)


def model_name(wire: JsonObject, model: str) -> str:
    """The name the provider is given: the request's own, or the one in its address."""
    named = wire.get("model")
    return wire_name(named if isinstance(named, str) else model)


def refusals(dialect: str, wire: JsonObject, model: str = "") -> tuple[Finding, ...]:
    """What the provider would refuse; `model` where the request does not name it."""
    if dialect == "gemini":
        wire = spelled(wire)
    rules = RULES[dialect]
    turns = rules.turns(model_name(wire, model))
    found = list(refused_head(dialect, wire, model))
    for at, turn in objects(wire.get(rules.key), f"/{rules.key}"):
        found += turns.read(turn, at)
    return (*found, *turns.end(wire))


__all__ = ["RULES", "Finding", "Turns", "model_name", "refusals", "refused_head"]
