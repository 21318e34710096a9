"""What a provider will reuse of a request, worked out before it is sent and checked after.

The prediction follows from the request, the one before it and the provider's rules: where it
was told to keep something, from how many tokens on, for how long, and what else it compares.
What the answer's usage says is then held against it, and a miss names who is to blame.
"""

from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, Literal, NamedTuple, Protocol, runtime_checkable

import msgspec

from weft.compiler.costs import tokens_to_mark
from weft.compiler.prefix import PrefixBreak, SharedPrefix
from weft.diagnostics import Origin
from weft.dialects import dialect_named
from weft.dialects.caching import MARK, bare, is_marked
from weft.dialects.facts import SECONDS, Cache
from weft.dialects.track import Entry
from weft.ir import Prompt
from weft.session import Event, Usage
from weft.session.strand import Strand
from weft.values import Json, JsonObject

if TYPE_CHECKING:
    from weft.compiler.compiled import Compilation
    from weft.compiler.plan import Plan
    from weft.declare import Policy

EVICTED = "evicted or not yet written: the provider did not keep it"

SLACK = 0.1
"""How far a prediction may be off before it counts as a miss, where the provider is not exact."""


Tokens = Callable[[JsonObject], Sequence[int] | None]
"""Reads a request as a model does: the tokens it is made of, or None where it cannot now."""


@runtime_checkable
class Reader(Protocol):
    """A model that runs here, and so can say how it reads a request."""

    def tokens(self, wire: JsonObject) -> Sequence[int] | None:
        """The tokens of a request, or None while the model does not run."""
        ...


class Prediction(NamedTuple):
    """How many tokens of a request its provider has read before, of how many, and why not more.

    `possible` is what it would be if nothing had changed, at most the whole request; `exact` says
    that the answer must report just this number; `blame` and `origin` say what keeps it lower than
    possible.
    """

    cached: int
    total: int
    possible: int
    exact: bool = False
    blame: str = ""
    origin: Origin | None = None

    def __str__(self) -> str:
        share = round(100 * self.cached / self.total) if self.total else 0
        why = f"; {self.blame}" if self.blame else ""
        return f"{self.cached:,} of {self.total:,} tokens ({share}%){why}"


class Miss(msgspec.Struct, frozen=True):
    """Tokens that were not reused though they could have been, and who is to blame."""

    tokens: int
    predicted: int
    read: int
    blame: str
    origin: str = ""

    def to_dict(self) -> JsonObject:
        """The miss as it is recorded with the answer."""
        fields: JsonObject = {"tokens": self.tokens, "predicted": self.predicted, "read": self.read}
        fields["blame"] = self.blame
        return {**fields, "origin": self.origin} if self.origin else fields


def predict(compiled: "Compilation", tokens: Tokens | None = None) -> Prediction:
    """What the provider will reuse of this request, given the one before it in the session.

    `tokens` reads a request as the model does, for one that runs here: what it reuses is then
    what the two readings begin with in common, and no estimate.
    """
    before = compiled.previous
    total = compiled.tokens
    cache = compiled.plan.target.facts.cache
    reads = tokens if cache.exact else None
    if cache == Cache():
        return Prediction(0, total, 0, blame="it is not known how the model reuses a prefix")
    if before is None:
        why = compiled.previous_problem or "the first request of this agent in the session"
        return Prediction(0, total, 0, blame=why)
    # our count and the provider's differ by a steady factor, which the last answer told
    total = round(total * _calibration(before))
    sent, now = before.lowered(compiled.dialect).wire, compiled.lowered().wire
    whole = _whole(before)
    # a request that became shorter cannot have more read before than it has
    possible = min(total, _tokens_reused(before, whole, sent, cache))
    # a model that runs here compares tokens, whatever field they come from
    changed = "" if cache.exact else _other_change(sent, now, compiled.dialect)
    if before.prompt.model != compiled.prompt.model:
        changed = "model"
    expired = _why_expired(before, compiled, cache)
    if changed or expired:
        return Prediction(0, total, possible, blame=expired or f"`{changed}` changed")
    if reads is not None and (read := reads(sent)) and (again := reads(now)):
        return _exactly(before, compiled, read, again)
    shared, broken = compiled.shared, compiled.prefix_break
    cached = 0
    if shared is not None and shared.system and shared.turns >= whole.turns:
        cached = possible
    elif shared is not None:
        cached = min(possible, _tokens_reused(before, shared, now, cache))
    if broken is not None and cached < possible:
        blame = _break_words(broken)
        return Prediction(cached, total, possible, blame=blame, origin=broken.origin)
    if not cached:
        return Prediction(0, total, possible, blame=_too_short(before.tokens, cache))
    return Prediction(cached, total, possible, _is_exact(before, compiled, cache))


def _exactly(
    before: "Compilation", compiled: "Compilation", read: Sequence[int], now: Sequence[int]
) -> Prediction:
    """What two readings have in common, and of the answer after the first what is repeated."""
    broken, exact = compiled.prefix_break, True
    cached, possible = common(read, now), _tokens_available(before, len(read))
    if cached == len(read) and _answer_follows(before, compiled):
        cached, exact = possible, before.known is not None
    # the last token of a request is always read
    cached = min(cached, len(now) - 1)
    possible = min(max(possible, cached), len(now) - 1)
    blame, origin = "", None
    if broken is not None and cached < possible:
        blame, origin = _break_words(broken), broken.origin
    return Prediction(cached, len(now), possible, exact, blame, origin)


def common(one: Sequence[int], other: Sequence[int]) -> int:
    """How many tokens two readings begin with in common."""
    pairs = enumerate(zip(one, other, strict=False))
    return next((index for index, (a, b) in pairs if a != b), min(len(one), len(other)))


def _tokens_available(before: "Compilation", read: int) -> int:
    """The tokens that a request and its answer leave behind, as far as that can be told."""
    if before.known is not None:
        return before.known
    answered = before.usage.candidates_token_count if before.usage is not None else 0
    # the last token of an answer was written, but not yet read
    return read + max(0, (answered or 0) - 1)


def _break_words(broken: PrefixBreak) -> str:
    line = f", line {broken.line}" if broken.line else ""
    return f"{broken.reason} at {broken.pointer}{line}"


def held_against(prediction: Prediction, usage: Usage) -> Miss | None:
    """What the answer's usage says was not reused though it could have been, or None."""
    read = usage.cached_content_token_count
    if read is None:
        return None
    expected = max(prediction.possible, prediction.cached)
    if prediction.exact and not prediction.blame:
        expected = prediction.cached
    # providers round, and keep whole blocks only
    slack = 0 if prediction.exact else max(round(expected * SLACK), 64)
    # as much as expected, or more: nothing to tell
    if read + slack >= expected:
        return None
    origin = str(prediction.origin) if prediction.origin is not None else ""
    return Miss(expected - read, prediction.cached, read, prediction.blame or EVICTED, origin)


def _tokens_reused(
    before: "Compilation", shared: SharedPrefix, after: JsonObject, cache: Cache
) -> int:
    """The tokens of the request `before` that are repeated, and that the provider has kept.

    They are counted as the provider counted that request, where its answer said so.
    """
    lowered, scale = before.lowered(), before.scale
    entries = lowered.track.entries(lowered.final).with_tail(lowered.lasting)
    whole = shared.system and shared.turns >= len(entries)
    head = scale.head(lowered)
    tools = head.request + head.preamble + sum(head.tools) + head.others if shared.tools else 0
    reached = tools
    if cache.breakpoints and cache.lookback:
        reached = tokens_to_mark(before, after, tools)
    elif cache.breakpoints:
        reached = 0
    elif shared.system:
        reached = scale.count_fixed(lowered) + scale.count_shared(entries, shared.turns)
    if cache.breakpoints and shared.system and not whole:
        reached = max(reached, _tokens_to_note(before, entries, after))
    # what is after the last mark is not kept
    if whole and (not cache.lookback or _ends_marked(lowered.wire, lowered.turns)):
        reached = scale.count_fixed(lowered) + scale.turns(entries).total
    tokens_kept = round(reached * _calibration(before))
    if whole and cache.exact and len(entries) == len(lowered.entries):
        tokens_kept = _tokens_available(before, tokens_kept)
    if tokens_kept < cache.minimum:
        return 0
    return tokens_kept // cache.stride * cache.stride


def _tokens_to_note(before: "Compilation", entries: Strand[Entry], after: JsonObject) -> int:
    """The tokens up to the marked end of the last note, if the next request has them again."""
    lowered, scale = before.lowered(), before.scale
    sent, turns = lowered.wire[lowered.turns], after.get(lowered.turns)
    if not isinstance(sent, list) or not isinstance(turns, list):
        return 0
    lead = len(lowered.lead)
    for index, (old, new) in enumerate(zip(sent[lead:], turns[lead:], strict=False)):
        old_parts, new_parts = _parts_of(old), _parts_of(new)
        marked = [at for at, part in enumerate(old_parts) if is_marked(part)]
        upto = marked[0] + 1 if marked else len(old_parts)
        same = [bare(part) for part in old_parts[:upto]] == [bare(p) for p in new_parts[:upto]]
        if not same or not old_parts:
            return 0
        if marked:
            texts = [str(part.get("text", "")) for part in old_parts[:upto]]
            parts = sum(map(scale.counter.count, texts)) + scale.overheads.text * upto
            return scale.count_fixed(lowered) + scale.count_shared(entries, index) + parts
    return 0


def _parts_of(turn: Json) -> list[JsonObject]:
    """The parts of a turn that has some."""
    parts = turn.get("content") if isinstance(turn, dict) else None
    return [one for one in parts if isinstance(one, dict)] if isinstance(parts, list) else []


def _ends_marked(wire: JsonObject, key: str) -> bool:
    """Whether a mark stands at the end of the conversation, or of what will be said again."""
    if MARK in wire:
        return True
    turns = wire[key]
    for turn in reversed(turns[-2:]) if isinstance(turns, list) else ():
        parts = turn.get("content") if isinstance(turn, dict) else None
        for part in parts if isinstance(parts, list) else ():
            if isinstance(part, dict) and MARK in part:
                return True
    return False


def _is_exact(before: "Compilation", after: "Compilation", cache: Cache) -> bool:
    """Whether the count is certain: the model said it, nothing was said once, all is repeated."""
    lowered = before.lowered()
    if not cache.exact or before.known is None or lowered.lasting is not lowered.rest:
        return False
    return _answer_follows(before, after)


def _answer_follows(before: "Compilation", after: "Compilation") -> bool:
    """Whether the answer to the request before stands in this one, after what it answers."""
    lowered = before.lowered()
    turns = after.lowered().entries.since(lowered.final + len(lowered.lasting))
    return bool(turns) and any(block.role == "model" for _, block in turns[0].blocks)


def _calibration(before: "Compilation") -> float:
    """What the provider counted for a token that was counted here."""
    usage = before.usage
    counted = usage.prompt_token_count if usage is not None else None
    return counted / before.tokens if counted and before.tokens else 1.0


def _whole(before: "Compilation") -> SharedPrefix:
    """What a request shares with itself."""
    lowered = before.lowered()
    return SharedPrefix(True, True, lowered.final + len(lowered.lasting), 0, None)


def _other_change(before: JsonObject, after: JsonObject, dialect: str) -> str:
    """The first field but tools, system and turns whose change makes the provider start anew."""
    fields = dialect_named(dialect).traits.compared
    return next((field for field in fields if before.get(field) != after.get(field)), "")


def _why_expired(before: "Compilation", after: "Compilation", cache: Cache) -> str:
    """Why what was kept is gone by now, as far as the log says when it was asked."""
    ttl = after.prompt.cache if after.prompt.cache in cache.ttls else "".join(cache.ttls[:1])
    if not ttl or not before.answered or not after.asked:
        return ""
    idle = after.asked - before.answered
    return f"it was kept for {ttl}, {round(idle)} s ago" if idle > SECONDS[ttl] else ""


def _too_short(total: int, cache: Cache) -> str:
    if total < cache.minimum:
        return f"a prefix of fewer than {cache.minimum:,} tokens is not kept"
    return "nothing was marked to be kept"


class Ending(NamedTuple):
    """Why a request is likely the last of its conversation, and what of it is still to be kept."""

    reason: str
    keeps: Literal["before", "head"]


_LOOKED_AT = 64
"""How many events or items are looked at, to tell what is likely to follow."""

_GAPS = 2
"""How many of the newest pauses of the user are looked at."""


def ending_of(
    plan: "Plan", policy: "Policy", prompt: Prompt, events: Strand[Event], invocation: str
) -> Ending | None:
    """Whether a request is likely the last that reads its conversation; None if others follow.

    Some providers charge a quarter more for what they are to keep. That is lost if nobody reads
    it again. What is likely follows from the declaration and the log: the agent may have taken
    all its steps but one, or it calls no tool, so that its next request is in another turn, if
    there is one, or comes when the provider has let go of what it kept.
    """
    cache = plan.target.facts.cache
    # keeping costs nothing extra there, so nothing is saved by not asking for it
    if not cache.lookback or cache.write <= 1.0:
        return None
    agent, most = plan.agent.name, plan.agent.max_steps
    steps = _steps(events, agent, invocation, most)
    if steps == most - 1 and steps:
        return Ending(f"it is the last of {most:,} steps", "before")
    if any(not _is_answer_tool(tool.name, plan) for tool in prompt.tools) or plan.transfers:
        return None
    if policy.facts.view != "default" and not steps:
        return Ending("the agent calls no tool, and sees no turn but the current one", "head")
    items = prompt.items
    recent = items.since(max(0, items.length - _LOOKED_AT))
    if plan.output is not None and not any(item.author == agent for item in recent):
        return Ending("the agent calls no tool, and its first answer has a schema", "head")
    lifetime = plan.facts.lifetime
    pauses = _pauses(events, agent)[-_GAPS:]
    if lifetime and pauses and min(pauses) > lifetime:
        return Ending(
            f"the user's last answers took longer than the {lifetime:,.0f} s that it is kept",
            "head",
        )
    return None


def _is_answer_tool(name: str, plan: "Plan") -> bool:
    """Whether a tool is only the way to answer by a schema."""
    return plan.output is not None and plan.output.how == "tool" and name == plan.output.name


def _steps(events: Strand[Event], agent: str, invocation: str, most: int) -> int:
    """How often the agent was asked in this invocation, if that is soon seen; else 0."""
    room = 3 * most + _LOOKED_AT
    steps = 0
    for event in reversed(events.since(max(0, len(events) - room))):
        if event.invocation_id != invocation:
            return steps
        steps += event.author == agent and _is_models(event)
        if steps and len(events) < most - 1:  # the last step is far away: one tells enough
            return steps
    # the invocation began further back than was looked
    return steps if len(events) <= room else 0


def _pauses(events: Strand[Event], agent: str) -> list[float]:
    """How long after an answer of the agent the user spoke, for the newest answers."""
    pauses: list[float] = []
    answered = 0.0
    for event in events.since(max(0, len(events) - _LOOKED_AT)):
        if event.author == agent and _is_models(event):
            answered = event.timestamp
        elif event.author == "user" and answered and event.timestamp >= answered:
            pauses.append(event.timestamp - answered)
            answered = 0.0
    return pauses


def _is_models(event: Event) -> bool:
    return event.content is not None and event.content.role == "model" and not event.partial


def watch(
    compiled: "Compilation",
    usage: Usage,
    log: Strand[Event],
    *,
    branch: str,
    scope: str,
    now: float,
    known: int | None = None,
    tokens: Tokens | None = None,
) -> Miss | None:
    """Hold an answer's usage against the prediction, and keep its request for the next one.

    Where nearly all of the request before was read again, there is nothing to find out. Else
    that request is at hand, or is rebuilt from the log, which costs what the session holds: a very
    long one is not read for it.
    `known` is how much of it all a model that runs here will know again, `tokens` how it reads.
    """
    key = (compiled.prompt.agent, branch, scope)
    before = log.memo.of((type(compiled), *key))
    miss: Miss | None = None
    # the prediction costs something, and most answers read what they should
    if may_miss(compiled, usage, log, branch=branch, scope=scope):
        if before is not None:
            compiled.follows(before)
        if before is not None or log.settled <= MOST_REBUILT:
            miss = held_against(predict(compiled, tokens), usage)
    compiled.settle(usage, now, known)
    log.memo.keep(compiled, *key)
    return miss


MOST_REBUILT = 20_000
"""Events of a log whose last request is compiled once more to say why the cache missed."""


def may_miss(
    compiled: "Compilation", usage: Usage, log: Strand[Event], *, branch: str, scope: str
) -> bool:
    """Whether fewer tokens were reused than the request before and its answer may have left."""
    read, cache = usage.cached_content_token_count, compiled.plan.target.facts.cache
    if read is None or cache == Cache():
        return False
    before = log.memo.of((type(compiled), compiled.prompt.agent, branch, scope))
    spent = _AnswerCost(before.usage, before.known) if before is not None else None
    spent = spent or _last_spent(compiled, log, branch, scope)
    if spent.usage is None:
        return False
    reusable = spent.usage.prompt_token_count or 0
    if cache.exact and spent.known is not None:
        return read < spent.known
    if cache.exact:
        return read < reusable + max(0, (spent.usage.candidates_token_count or 0) - 1)
    return reusable >= cache.minimum and read < reusable * (1 - SLACK)


class _AnswerCost(msgspec.Struct, frozen=True):
    """What an answer cost, and how much of it all its model will know again."""

    usage: Usage | None = None
    known: int | None = None


def _last_spent(
    compiled: "Compilation", log: Strand[Event], branch: str, scope: str
) -> _AnswerCost:
    """What the agent's last answer cost, if that is not far back in the log.

    Of an older one no provider has anything any more, and a long log is not read for it.
    """
    for index in range(len(log) - 1, max(-1, len(log) - 1 - _FAR), -1):
        event = log[index]
        if (
            event.usage is not None
            and event.content is not None
            and event.author == compiled.prompt.agent
            and (event.branch or "") == branch
            and (event.isolation_scope or "") == scope
        ):
            return _AnswerCost(event.usage, event.provenance.known)
    return _AnswerCost()


_FAR = 2_000
"""How many events an answer may lie back for its request to be compared with the next."""
