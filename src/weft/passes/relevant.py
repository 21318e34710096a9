"""Keep what has to do with a query."""

from collections.abc import Sequence
from collections.abc import Set as AbstractSet
from typing import NamedTuple

import msgspec

from weft.codes import report
from weft.declare.policy_parts import Relevant
from weft.declare.template import to_text
from weft.diagnostics import Diagnostic, Origin
from weft.ir import (
    Block,
    CallBlock,
    CodeBlock,
    CodeResultBlock,
    Item,
    MediaBlock,
    Note,
    Prompt,
    ResultBlock,
    TextBlock,
    Want,
)
from weft.ir.item import fingerprint
from weft.passes.env import Env
from weft.passes.summaries import NOT_ASKED, done_without, name_of_model
from weft.relevance import Index, Scorer, search, words
from weft.values import Json, JsonObject, Strand, compact

_LEAST = 0.1
"""What an item must have of the best one's score, where no number of items was asked for."""


def select_relevant(prompt: Prompt, env: Env, options: Relevant) -> Prompt:
    """Keep the earlier items that have to do with a query, in log order, and score them.

    The query is given, a state value, or what the user asks now. The best `top_k` stay; without
    a number, all that come near the best one, for `.fit(tokens)` to choose from. The selection
    changes with the query, so it costs what the provider kept of the request before: it pays
    where the log is much longer than what is selected. Within one turn it stays the same.

    Before:  user "I moved to Oslo" | user "I like tea" | user "Where do I live? Oslo?"
    After:   user "I moved to Oslo" | user "Where do I live? Oslo?"           (C.relevant())
    """
    items = prompt.items.since(0)
    current = {
        number
        for number, item in enumerate(items)
        if item.position >= env.turn and env.is_current(item)
    }
    past = [number for number in range(len(items)) if number not in current]
    if all(items[number].score for number in past):
        return prompt  # nothing to select from, or selected before
    query = _query(items, env, options)
    scorer: Scorer = "bm25" if options.scorer == "model" else options.scorer
    asked = Asked(_scores(prompt.items, query, current, scorer))
    if options.scorer == "model":
        asked = ask_relevance(items, past, query, asked.scores, env, options)
    scores = asked.scores
    chosen = _chosen(scores, past, options)
    notes: list[Note] = []
    kept: list[Item] = []
    for number, item in enumerate(items):
        if number in current:
            kept.append(item)
        elif number in chosen:
            kept.append(msgspec.structs.replace(item, score=scores[number]))
        else:
            notes.append(Note("select_relevant", _reason(scores[number]), item))
    made = prompt.with_items(kept, notes, [*asked.diagnostics, *_unasked(env, options)])
    return msgspec.structs.replace(made, wants=(*prompt.wants, *asked.wants))


def _reason(score: float) -> str:
    return "others have more to do with it" if score else "it has nothing to do with what is asked"


def _chosen(scores: Sequence[float], past: Sequence[int], options: Relevant) -> set[int]:
    """The numbers of the items that stay: of two that fit equally well, the newer."""
    found = [number for number in past if scores[number] > 0]
    if options.top_k is None:
        return {number for number in found if scores[number] >= _LEAST}
    found.sort(key=lambda number: (-scores[number], -number))
    return set(found[: options.top_k])


def _query(items: Sequence[Item], env: Env, options: Relevant) -> str:
    """What to look for; what says nothing by itself is read with what was asked before it."""
    if options.query is not None:
        return options.query
    if options.from_state is not None and not _unasked(env, options):
        return to_text(env.state[options.from_state])
    query = "\n".join(_user_text(item) for item in items if env.is_asked(item))
    if words(query):
        return query
    said = (item for item in reversed(items) if item.kind == "user" and item.author == "user")
    earlier = next((item for item in said if not env.is_asked(item)), None)
    return query if earlier is None else f"{_user_text(earlier)}\n{query}"


def _unasked(env: Env, options: Relevant) -> list[Diagnostic]:
    """That there is no query in the state, where it was to be there."""
    key = options.from_state
    if key is None or env.state.get(key) not in (None, "", [], {}):
        return []
    return [
        report(
            "WEFT101",
            Origin("field", "context", env.agent),
            f"C.relevant looks for what `{key}` holds, which has no value",
            f"write `{key}` before this agent runs; until then the user's message is looked for",
        )
    ]


def _user_text(item: Item) -> str:
    return "\n".join(block.text for block in item.blocks if isinstance(block, TextBlock))


def _scores(
    items: Strand[Item], query: str, current: AbstractSet[int], scorer: Scorer
) -> list[float]:
    """How well each item fits; what was read of those that are settled is kept with them."""
    with items.lock:
        held = items.memo.get("relevance")
        index = held if isinstance(held, Index) else Index()
        items.memo["relevance"] = index
        for item in items.since(len(index))[: max(0, items.settled - len(index))]:
            index.add(item_text(item))
        more = [item_text(item) for item in items.since(items.settled)]
        return search(index, query, first=items.settled, more=more, without=current, scorer=scorer)


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


def item_text(item: Item) -> str:
    """Who said it, where it was not the user, and all that can be read in it."""
    author = () if item.author in ("", "user") else (f"{item.author}:",)
    return "\n".join((*author, *filter(None, map(_block_text, item.blocks))))


def _block_text(block: Block) -> str:
    match block:
        case TextBlock():
            return block.text
        case CallBlock():
            return f"{block.name} {compact(block.args)}"
        case ResultBlock():
            return "\n".join(
                (f"{block.name} {compact(block.response)}", *map(_block_text, block.media))
            )
        case MediaBlock():
            return f"{block.name} {block.mime_type}"
        case CodeBlock():
            return block.code
        case CodeResultBlock():
            return block.output
        case _:
            return ""
