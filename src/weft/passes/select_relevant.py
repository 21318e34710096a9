"""Keep what has to do with a query."""

from collections.abc import Sequence
from collections.abc import Set as AbstractSet

import msgspec

from weft.codes import report
from weft.declare.policy.selectors import Relevant
from weft.declare.template import to_text
from weft.diagnostics import Diagnostic, Origin
from weft.ir import Item, Note, Prompt, TextBlock
from weft.passes.env import Env
from weft.passes.item_text import item_text
from weft.passes.relevance_asked import Asked, ask_relevance
from weft.relevance import Index, Scorer, search, words
from weft.values import Strand

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
    query = "\n".join(_text(item) for item in items if env.is_asked(item))
    if words(query):
        return query
    said = (item for item in reversed(items) if item.kind == "user" and item.author == "user")
    earlier = next((item for item in said if not env.is_asked(item)), None)
    return query if earlier is None else f"{_text(earlier)}\n{query}"


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


def _text(item: Item) -> str:
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
