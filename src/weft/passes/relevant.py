"""What has to do with a query: keep it of the conversation, or show it of the user's memory.

Top to bottom: the choice, the query, what a model is asked, the text of an item, the memory.
"""

from collections.abc import Iterator, Mapping, Sequence
from datetime import UTC, datetime
from heapq import nlargest
from typing import NamedTuple, cast

import msgspec

from weft.declare.policy_parts import Fit, Memories, Relevant
from weft.declare.template import to_text
from weft.diagnostics import Diagnostic, Origin, report
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
from weft.ir.block import fingerprint
from weft.ir.prompt import LateSequence
from weft.passes.env import Env, asked_now, first_from, text_in
from weft.passes.state_items import drop_all
from weft.passes.summaries import NOT_ASKED, done_without, name_of_model
from weft.relevance import Index, words
from weft.relevance.index import SearchScope
from weft.relevance.rank import Hits, find_hits
from weft.session.strand import Strand
from weft.values import Json, JsonObject, compact

_LEAST, _MOST = 0.05, 1024
"""Without `top_k`: which share of the best score an item must have, and how many stay at most."""

_SMALLEST = 4
"""The fewest tokens that an item takes, with its turn. It bounds how many can fit."""


def select_relevant(prompt: Prompt, env: Env, options: Relevant) -> Prompt:
    """Keep the earlier items that have to do with a query, in log order, and score them.

    The query is given, a state value, or what the user asks now. The best `top_k` stay; without
    a number, all that come near the best one, for `.fit(tokens)` to choose from. The selection
    changes with the query, so it costs what the provider kept of the request before: it pays
    where the log is much longer than what is selected. Within one turn it stays the same.

    Before:  user "I moved to Oslo" | user "I like tea" | user "Where do I live? Oslo?"
    After:   user "I moved to Oslo" | user "Where do I live? Oslo?"           (C.relevant())
    """
    with prompt.items.lock:
        selections = prompt.items.memo[_Selections]
        selection = selections.get(options)
        if selection is None or not selection.goes_on(prompt.items, env):
            chosen = _select(prompt, env, options)
            selection = _Selection(prompt.items, env, options, chosen)
            if selection.lasts:
                selections[options] = selection
        if selection.is_all:
            return prompt
        after = prompt.with_strand(selection.items.with_tail(selection.tail), selection.notes)
    return msgspec.structs.replace(
        after,
        diagnostics=(*prompt.diagnostics, *selection.diagnostics),
        wants=(*prompt.wants, *selection.wants),
    )


class _Choice(NamedTuple):
    """What is selected for a request: the items that stay, and what there is to say about it.

    `asked` is None where nothing is to be selected, so that all stay.
    """

    items: list[Item]
    notes: Sequence[Note]
    current: list[int]
    asked: "Judgement | None"


def _select(prompt: Prompt, env: Env, options: Relevant) -> _Choice:
    """Search what stands before the turn."""
    items = prompt.items
    begins = first_from(items, env.turn)
    current = [number for number in range(begins, len(items)) if env.is_current(items[number])]
    now, last = {*current}, len(items) - len(current)
    past: Sequence[int] = range(last)
    if current and current[0] != last:  # others spoke in the turn
        past = [number for number in range(len(items)) if number not in now]
    if all(items[number].score for number in past):
        # nothing to select from, or selected before
        return _Choice(items.since(0), (), current, None)
    query = query_of(items, env, options)
    hits, asked = _search(prompt.items, query, past, env, options), Judgement()
    if options.scorer == "model":
        hits, asked = ask_relevance(items, past, query, hits, env, options)
    stay = [
        items[number]
        if number in now
        else msgspec.structs.replace(items[number], score=hits.best[number])
        for number in sorted({*hits.best, *now})
    ]
    return _Choice(stay, _notes_on_dropped(prompt.items, past, hits), current, asked)


def _search(
    strand: Strand[Item], query: str, past: Sequence[int], env: Env, options: Relevant
) -> Hits:
    """How well past items fit, by number; what was read of those that are settled is kept."""
    with strand.lock:
        index = strand.memo[Index]
        for item in strand.between(len(index), strand.settled):
            index.add(item_text(item))
        last = past[-1] + 1 if past else 0
        length = min(last, strand.settled)
        more = [item_text(item) for item in strand.since(length)[: last - length]]
        # what others said in the turn may stand after the first of the current items
        without = frozenset[int]() if len(past) == last else {*range(last)}.difference(past)
        scope = SearchScope(index, length, Index(more), without)
        if options.scorer == "model":
            return find_hits(scope, query)
        if options.top_k is None:
            top = _most_for(env, options)
            return find_hits(scope, query, scorer=options.scorer, top=top, least=_LEAST)
        return find_hits(scope, query, scorer=options.scorer, top=options.top_k)


def _most_for(env: Env, options: Relevant) -> int:
    """How many items are selected at most: where `.fit(...)` follows, what may fit into that."""
    rooms = [
        min(
            (step.tokens // _SMALLEST for step in stage.steps if isinstance(step, Fit)),
            default=_MOST,
        )
        for stage in env.policy.stages
        if stage.selector == options
    ]
    return min(_MOST, max(rooms, default=_MOST) + 1)


def _notes_on_dropped(items: Strand[Item], past: Sequence[int], hits: Hits) -> LateSequence[Note]:
    """A note on each item that was not selected."""

    def notes() -> Iterator[Note]:
        for number in past:
            if number not in hits.best:
                reason = _WORSE if number in hits.every else _UNRELATED
                yield Note("select_relevant", reason, items[number])

    return LateSequence(notes, len(past) - len(hits.best))


class _Selections(dict[Relevant, "_Selection"]):
    """What was selected of a strand in its newest turn, by the options of the policy."""


class _Selection:
    """What was selected for a turn, and what the agent did in it since, which always stays.

    Searching is done when a turn begins: what the agent does then is not part of it.
    """

    def __init__(self, items: Strand[Item], env: Env, options: Relevant, chosen: _Choice) -> None:
        self._options = options
        self._turn, self._basis = env.turn, _basis(env, options)
        self._first = len(items) - len(chosen.current)
        self._read = items.settled
        tail = len(items.tail)
        # all of the current turn must stand last, so that what follows is part of it
        last = chosen.current == [*range(self._first, len(items))] and len(chosen.current) >= tail
        # what a model chooses arrives within the turn: its selection is asked for in each request
        self.lasts = last and options.scorer != "model"
        self.is_all = chosen.asked is None
        settled = len(chosen.items) - tail if last else len(chosen.items)
        self.items: Strand[Item] = Strand(chosen.items[:settled])
        self.tail = chosen.items[settled:]
        self.notes = chosen.notes
        asked = chosen.asked if chosen.asked is not None else Judgement()
        self.diagnostics = (*asked.diagnostics, *report_unasked(env, options))
        self.wants = asked.wants

    def goes_on(self, items: Strand[Item], env: Env) -> bool:
        """Whether it holds for these items too: only what the agent did in the turn was added."""
        if self._turn != env.turn or self._basis != _basis(env, self._options):
            return False
        # an older snapshot, or a rewind
        if self._read > items.settled or self._first > len(items):
            return False
        fresh = items.since(self._read)
        # the user said more in the turn, or another agent spoke: the query or the past is another
        if not all(env.is_current(item) and not env.is_asked(item) for item in fresh):
            return False
        settled = items.settled - self._read
        self.items = self.items.grown(fresh[:settled])
        self.tail = fresh[settled:]
        self._read = items.settled
        return True


def _basis(env: Env, options: Relevant) -> tuple[str, str, str | None]:
    """What a selection depends on besides the items before the turn and what is asked in it."""
    state = env.session.state.get(options.from_state) if options.from_state is not None else None
    return env.agent, env.model.name, None if state is None else to_text(state)


_WORSE = "others have more to do with it"

_UNRELATED = "it has nothing to do with what is asked"


def query_of(items: Strand[Item], env: Env, options: Relevant | Memories) -> str:
    """What to look for; what says nothing by itself is read with what was asked before it."""
    if options.query is not None:
        return options.query
    if options.from_state is not None and not report_unasked(env, options):
        return to_text(env.session.state[options.from_state])
    query = "\n".join(map(text_in, asked_now(items, env)))
    # a short answer may have no words to search by
    if words(query):
        return query
    backwards = (items[number] for number in range(len(items) - 1, -1, -1))
    spoken = (item for item in backwards if item.kind == "user" and item.author == "user")
    earlier = next((item for item in spoken if not env.is_asked(item)), None)
    return query if earlier is None else f"{text_in(earlier)}\n{query}"


def report_unasked(env: Env, options: Relevant | Memories) -> list[Diagnostic]:
    """A diagnostic where the query was to be in the state and is not."""
    key = options.from_state
    if key is None or env.session.state.get(key) not in (None, "", [], {}):
        return []
    return [
        report(
            "WEFT101",
            Origin("field", "context", env.agent),
            f"C.{options.word} looks for what `{key}` holds, which has no value",
            f"write `{key}` before this agent runs; until then the user's message is looked for",
        )
    ]


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


class Judgement(NamedTuple):
    """The diagnostics on how well items fit, and what a model is to be asked about it."""

    diagnostics: tuple[Diagnostic, ...] = ()
    wants: tuple[Want, ...] = ()


def ask_relevance(
    items: Strand[Item],
    past: Sequence[int],
    query: str,
    hits: Hits,
    env: Env,
    options: Relevant,
) -> tuple[Hits, Judgement]:
    """The items that a model chooses; until it was asked, those with words in common."""
    without_model = Hits(hits.every, _best(hits.best, options))
    entries = _entries(past, hits.best)
    if not query.strip() or not entries:
        return without_model, Judgement()
    listed = (f"{place}. {_short(items[number])}" for place, number in enumerate(entries, 1))
    text = "\n".join((f"Query: {query}", "", *listed))
    key = fingerprint("relevance", name_of_model(options.model), text)
    effect = env.session.effects.get(key)
    what = "what is relevant was told by words in common"
    if effect is None:
        want = Want("relevance", key, INSTRUCTION, text, _SCHEMA, options.model)
        return without_model, Judgement((done_without(env, what, NOT_ASKED),), (want,))
    if "outcome" not in effect:
        problem = str(effect.get("error") or "there is no outcome")
        return without_model, Judgement((done_without(env, what, problem),))
    chosen = _numbers(effect["outcome"], len(entries))
    if chosen is None:
        problem = "its answer is not a list of numbers"
        return without_model, Judgement((done_without(env, what, problem),))
    model_scores = {
        entries[number - 1]: round(1 - _SPAN * place / len(chosen), 4)
        for place, number in enumerate(chosen)
    }
    return Hits(model_scores, _best(model_scores, options)), Judgement()


def _best(scores: dict[int, float], options: Relevant) -> dict[int, float]:
    """The items that stay: of two that fit equally well, the newer."""
    if options.top_k is None:
        return {number: score for number, score in scores.items() if score >= _LEAST}
    hits = nlargest(options.top_k, zip(scores.values(), scores, strict=True))
    return {number: score for score, number in hits}


def _entries(past: Sequence[int], scores: Mapping[int, float]) -> list[int]:
    """What the model is to choose from, in log order."""
    hits = nlargest(_BEST, zip(scores.values(), scores, strict=True))
    best = [number for _, number in hits]
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
    numbers = [one for one in listed if isinstance(one, int) and not isinstance(one, bool)]
    # something in it is not a number: the answer is not to be trusted
    if len(numbers) < len(listed):
        return None
    return [one for one in dict.fromkeys(numbers) if 1 <= one <= most]


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


# --- the user's memory

_NOT_SEARCHED = "the memory was not searched yet"


def insert_memories(prompt: Prompt, env: Env, options: Memories) -> Prompt:
    """Put what the memory gave after what was asked, each memory as an item of its own.

    A pass searches nothing: it leaves a want, the runtime searches, and the log keeps what came of
    it. What an earlier turn was shown stays where it was, so that what was sent keeps its bytes; a
    memory that is in view is not repeated. O(searches of this session).

    Before:  user "Where do I live?"
    After:   user "[memory] 2026-03-01, user: I moved to Oslo"         (C.memory())
    """
    asked = query_of(prompt.items, env, options)
    diagnostics: list[Diagnostic] = [*report_unasked(env, options)]
    wants: tuple[Want, ...] = ()
    if asked.strip():
        want = _want(asked, env, options)
        effect = env.session.effects.get(want.fingerprint)
        if effect is None:
            wants = (want,)
            diagnostics.append(done_without(env, "no memories are shown", _NOT_SEARCHED))
        elif "error" in effect:
            problem = str(effect["error"])
            diagnostics.append(done_without(env, "no memories are shown", problem))
    staying = [*_memories_in_view(env, options)]
    notes = [Note("insert_memories", "the memory gave it", one, one) for one in staying]
    after = drop_all(prompt, "insert_memories", "the policy shows memories only")
    after = after.with_items(staying, notes, diagnostics)
    return msgspec.structs.replace(after, wants=(*prompt.wants, *wants))


def _want(asked: str, env: Env, options: Memories) -> Want:
    """The search of this turn; the same question in a later turn is asked anew."""
    spec = _spec(env, options)
    # with the invocation: the memory may know more by the next turn
    key = fingerprint("memory", spec, asked, env.invocation)
    return Want("memory", key, "", asked, through=len(env.log) - 1, options=spec)


def _spec(env: Env, options: Memories) -> JsonObject:
    """Whose search it is, and how it is done."""
    return {
        "agent": env.agent,
        "branch": env.branch,
        "query": options.query,
        "from_state": options.from_state,
        "top_k": options.top_k,
        "scorer": options.scorer,
    }


def _memories_in_view(env: Env, options: Memories) -> Iterator[Item]:
    """What all searches of this policy gave, each memory where it was first shown."""
    spec, seen = _spec(env, options), set[str]()
    for effect in env.session.effects.values():
        # searches of another agent or policy are not its own
        if effect.get("kind") != "memory" or effect.get("options") != spec:
            continue
        position = cast("int", effect.get("through", -1)) + 1
        for memory in cast("list[JsonObject]", effect.get("outcome") or []):
            name = str(memory.get("id"))
            if name not in seen:
                seen.add(name)
                yield _item(name, memory, position)


def _item(name: str, memory: JsonObject, position: int) -> Item:
    block = TextBlock(role="user", origin=Origin("memory", name), text=_text(memory))
    score = memory.get("score")
    return Item(
        "state",
        (block,),
        "",
        "",
        position,
        position,
        f"memory {name}",
        score=float(score) if isinstance(score, int | float) else 0.0,
    )


def _text(memory: JsonObject) -> str:
    about = ", ".join(part for part in (_day(memory.get("at")), str(memory["author"])) if part)
    return f"[memory] {about}: {memory['text']}" if about else f"[memory] {memory['text']}"


def _day(at: Json) -> str:
    if not isinstance(at, int | float) or at <= 0:
        return ""
    return f"{datetime.fromtimestamp(at, UTC):%Y-%m-%d}"
