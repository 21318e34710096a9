"""What a model says has to do with a query: what it is asked, and how its answer is read."""

from collections.abc import Sequence
from typing import NamedTuple

from weft.declare.policy.selectors import Relevant
from weft.diagnostics import Diagnostic
from weft.ir import Item, Want
from weft.ir.want import fingerprint
from weft.passes.env import Env
from weft.passes.item_text import item_text
from weft.passes.summaries import NOT_ASKED, done_without, name_of_model
from weft.values import Json, JsonObject

INSTRUCTION = (
    "Which of these numbered entries of a conversation help to answer the query? Give the numbers"
    " of all that do, the most helpful first, and of none that do not."
)
_SCHEMA: JsonObject = {
    "type": "object",
    "properties": {"relevant": {"type": "array", "items": {"type": "integer"}}},
    "required": ["relevant"],
    "additionalProperties": False,
}
_BEST, _NEWEST = 40, 10
"""How many entries the model is shown: those with words in common, and the newest others."""
_LONGEST = 400
"""How many letters of an entry the model is shown."""
_SPAN = 0.8
"""How much less the last entry of an answer counts than the first."""


class Asked(NamedTuple):
    """How well each item fits, and what there is to say, or to ask, about it."""

    scores: list[float]
    diagnostics: tuple[Diagnostic, ...] = ()
    wants: tuple[Want, ...] = ()


def ask_relevance(
    items: Sequence[Item],
    past: Sequence[int],
    query: str,
    scores: list[float],
    env: Env,
    options: Relevant,
) -> Asked:
    """The scores a model gives, or those that are there until it was asked."""
    shown = _shown(past, scores)
    if not query.strip() or not shown:
        return Asked(scores)
    listed = (f"{place}. {_short(items[number])}" for place, number in enumerate(shown, 1))
    text = "\n".join((f"Query: {query}", "", *listed))
    found = fingerprint("relevance", name_of_model(options.model), text)
    effect = env.effects.get(found)
    what = "what is relevant was told by words in common"
    if effect is None:
        want = Want("relevance", found, INSTRUCTION, text, _SCHEMA, options.model)
        return Asked(scores, (done_without(env, what, NOT_ASKED),), (want,))
    if "outcome" not in effect:
        problem = str(effect.get("error") or "there is no outcome")
        return Asked(scores, (done_without(env, what, problem),))
    chosen = _numbers(effect["outcome"], len(shown))
    if chosen is None:
        return Asked(scores, (done_without(env, what, "its answer is no list of numbers"),))
    told = [0.0] * len(scores)
    for place, number in enumerate(chosen):
        told[shown[number - 1]] = round(1 - _SPAN * place / len(chosen), 4)
    return Asked(told)


def _shown(past: Sequence[int], scores: Sequence[float]) -> list[int]:
    """What the model is to choose from, in log order."""
    hits = [number for number in past if scores[number] > 0]
    best = sorted(hits, key=lambda number: (-scores[number], -number))[:_BEST]
    others = [number for number in past if number not in set(best)]
    return sorted((*best, *others[-_NEWEST:]))


def _short(item: Item) -> str:
    text = " ".join(item_text(item).split())
    return text if len(text) <= _LONGEST else f"{text[:_LONGEST]} …"


def _numbers(outcome: Json, most: int) -> list[int] | None:
    """The numbers of an answer, each once; None where it is none."""
    listed = outcome.get("relevant") if isinstance(outcome, dict) else None
    if not isinstance(listed, list):
        return None
    found = [one for one in listed if isinstance(one, int) and not isinstance(one, bool)]
    if len(found) < len(listed):
        return None
    return [one for one in dict.fromkeys(found) if 1 <= one <= most]
