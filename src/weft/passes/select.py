"""Passes that select: which items of the log an agent sees."""

import math
from bisect import bisect_left, bisect_right
from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import TypeAlias

from weft.declare.policy import Policy
from weft.declare.policy_parts import (
    Everything,
    FromAgents,
    Matching,
    Recent,
    UserWords,
    Window,
    WithoutAgents,
)
from weft.ir import CallBlock, Feature, Item, Note, Prompt, ResultBlock
from weft.ir.prompt import LateSequence
from weft.passes.env import Env, first_from, is_spoken, turns_of
from weft.passes.rewrite import PassFold, keep_since, rewrite_items
from weft.session import Event
from weft.session.strand import Strand

NOT_THIS_TURN = "it is not of this turn"


def select_view(prompt: Prompt, env: Env) -> Prompt:
    """Under C.none(), keep the current turn; under C.nothing(), only the agent's own traffic.

    The current turn is the user's message that started it and what the agent itself did since:
    its answers, calls and results. Without its own traffic it would ask again for ever.

    Before:  user "Hi" | model "Hello" | user "Oslo?"       (C.none(), the turn of "Oslo?")
    After:   user "Oslo?"
    """
    view = env.policy.facts.view
    if view == "default":
        return prompt

    def change(item: Item, others: set[str]) -> Item | Note:
        if item.position < env.turn:
            reason = NOT_THIS_TURN
        elif item.author == env.agent or item.kind == "summary":
            return item
        elif item.author != "user":
            reason = f"it is {item.author}'s"
            others.update(block.id for block in item.blocks if isinstance(block, CallBlock))
        # results may stand under the user's name: their calls say whose they are
        elif item.kind == "results" and _answered_calls(item) <= others:
            reason = "it answers another agent"
        elif item.kind == "results" or view != "nothing":
            return item
        else:
            reason = "C.nothing() leaves out the user's message too"
        return Note("select_view", reason, item)

    key = (view, env.agent, env.turn)
    return rewrite_items(prompt, "select_view", change, key=key, fold=_CALLS)


_CALLS: PassFold[set[str]] = PassFold(set, set)
"""The ids of the calls that other agents made."""


def _answered_calls(item: Item) -> set[str]:
    return {block.call_id for block in item.blocks if isinstance(block, ResultBlock)}


def select_items(
    prompt: Prompt, env: Env, options: FromAgents | WithoutAgents | Matching
) -> Prompt:
    """Keep what these agents did, or all but that, or what fits an author, a kind and a tag.

    Tags are those of the event: `customMetadata.weft.tags`.

    Before:  user "Hi" | model(scout) "Oslo" | model(planner) "By train"   (C.agents("planner"))
    After:   model(planner) "By train"
    """

    def change(item: Item, _: None) -> Item | Note:
        reason = _misfit(item, env, options)
        return Note("select_items", reason, item) if reason else item

    # a tag that is given later changes which of the items fit
    tagged = _later_tags(env).count if isinstance(options, Matching) and options.tag else 0
    key = (options, env.agent, tagged)  # O(n) when an event that is there is given a tag
    return rewrite_items(
        prompt, "select_items", change, key=key, until=env.turn, waits=_stays_while_current(env)
    )


def _stays_while_current(env: Env) -> Callable[[Item], bool]:
    """What is in view as long as its turn is the current one: the user's words and the agent's."""
    return lambda item: item.author in ("user", env.agent) or item.kind == "summary"


def _misfit(item: Item, env: Env, options: FromAgents | WithoutAgents | Matching) -> str:
    """Why the item is not wanted, or nothing."""
    author = item.author
    match options:
        case FromAgents():
            return "" if author in options.names else f"it is {author or 'nobody'}'s"
        case WithoutAgents():
            return f"{author} is left out" if author in options.names else ""
        case Matching():
            if options.author and author not in options.author:
                return f"it is {author or 'nobody'}'s"
            if options.kind and (kind := kind_of(item, env)) not in options.kind:
                return f"it is of kind {kind}"
            if options.tag and not tags_of(item, env) & set(options.tag):
                return f"it is not tagged {' or '.join(options.tag)}"
            return ""


def kind_of(item: Item, env: Env) -> str:
    """The kind of an item, as `C.select(kind=...)` names it."""
    if item.author not in ("", "user", env.agent) and item.kind != "summary":
        return "foreign"
    return "results" if item.kind in ("exchange", "calls") else item.kind


def tags_of(item: Item, env: Env) -> set[str]:
    """The tags of the event it came from: its own, and those it was given later."""
    if not 0 <= item.position < env.log.length:
        return set()
    own = env.log[item.position].provenance.tags or ()
    later = _later_tags(env).by_event.get(item.event, ())
    return {*own, *(tag for index, tags in later if index > item.position for tag in tags)}


_TagsByEvent: TypeAlias = Mapping[str, tuple[tuple[int, tuple[str, ...]], ...]]


class _LaterTags:
    """The tags that events were given after they happened, by event: when, and which.

    A fold over the log: one more event reads one event.
    """

    def __init__(
        self,
        read: int = 0,
        count: int = 0,
        by_event: "_TagsByEvent | None" = None,
    ) -> None:
        self._read = read
        self.count = count
        self.by_event: _TagsByEvent = by_event if by_event is not None else {}

    def after(self, events: Sequence[Event]) -> "_LaterTags":
        fresh = [
            (index, tagged)
            for index, event in enumerate(events, self._read)
            if (tagged := event.provenance.tagged) is not None
        ]
        if not fresh:
            return _LaterTags(self._read + len(events), self.count, self.by_event)
        by_event = dict(self.by_event)
        for index, tagged in fresh:
            before = by_event.get(tagged.event, ())
            by_event[tagged.event] = (*before, (index, tuple(tagged.tags)))
        return _LaterTags(self._read + len(events), self.count + len(fresh), by_event)


def _later_tags(env: Env) -> _LaterTags:
    return env.log.derive(_LaterTags).after(env.log.tail)


def select_user(prompt: Prompt, env: Env, options: UserWords) -> Prompt:
    """Keep the user's messages: all of them, the first, the last, or both ends.

    Before:  user "one" | model "1" | user "two"   (C.user())
    After:   user "one" | user "two"
    """
    # that decides item by item; both ends move as the log grows
    if options.which == "all":
        return _select_spoken(prompt, env)
    items = prompt.items
    with items.lock:
        spoken = items.memo[_SpokenPlaces].places_in(items)
    chosen = sorted({*_ENDS[options.which](spoken)})
    if len(chosen) == len(items):
        return prompt
    reason = f"only the user's words are wanted, the {options.which}"

    def notes() -> Iterator[Note]:
        stays = {*chosen}
        for number, item in enumerate(items):
            if number not in stays:
                yield Note("select_user", reason, item)

    staying = Strand([items[number] for number in chosen])
    return prompt.with_strand(staying, LateSequence(notes, len(items) - len(chosen)))


_ENDS: Mapping[str, Callable[[list[int]], list[int]]] = {
    "first": lambda spoken: spoken[:1],
    "last": lambda spoken: spoken[-1:],
    "bookend": lambda spoken: spoken[:1] + spoken[-1:],
}


class _SpokenPlaces:
    """Where among the settled items of a strand the user spoke."""

    def __init__(self) -> None:
        self._read = 0
        self._places: list[int] = []

    def places_in(self, items: Strand[Item]) -> list[int]:
        """The first and the last place in a snapshot."""
        for index, item in enumerate(items.between(self._read, items.settled), self._read):
            if is_spoken(item):
                self._places.append(index)
        self._read = max(self._read, items.settled)
        in_tail = [n for n, item in enumerate(items.tail, items.settled) if is_spoken(item)]
        known = bisect_left(self._places, items.settled)
        ends = [*self._places[: min(1, known)], *self._places[max(0, known - 1) : known]]
        return [*ends, *in_tail]


def _select_spoken(prompt: Prompt, env: Env) -> Prompt:
    """As `select_user` for all of them.

    Without other views, what is of the current turn stays in any case. With others it goes: they
    may show it in a shorter form, and the union would take the longer one.
    """

    def change(item: Item, _: None) -> Item | Note:
        if is_spoken(item):
            return item
        return Note("select_user", "only the user's words are wanted", item)

    if len(env.policy.stages) > 1:
        return rewrite_items(prompt, "select_user", change, key="beside")
    waits = _stays_while_current(env)
    return rewrite_items(prompt, "select_user", change, key=env.agent, until=env.turn, waits=waits)


def select_turn(prompt: Prompt, env: Env) -> Prompt:
    """Keep what the user asks now, and what the agent did since.

    Before:  user "one" | model "1" | user "two"   (C.none() with other policies)
    After:   user "two"
    """

    def change(item: Item, _: None) -> Item | Note:
        return Note("select_turn", "it is not of this turn", item)

    waits = _stays_while_current(env)
    return rewrite_items(prompt, "select_turn", change, key=env.agent, until=env.turn, waits=waits)


def select_window(prompt: Prompt, env: Env, options: Window) -> Prompt:
    """Keep the last turns: each a user's message with all that follows it.

    A window that moved with every turn would change the first bytes of every request, and the
    provider would read all of it again. So a wide one moves in strides of a quarter: there are
    always at least as many turns as asked for, and a few more between two moves.

    Before:  user "one" | model "1" | user "two" | model "2" | user "three"   (C.window(2))
    After:   user "two" | model "2" | user "three"
    """
    turns = turns_of(prompt.items)
    gone = gone_turns(options, len(turns))
    if not gone:
        return prompt
    reason = f"it is before the last {options.turns} turns"
    return keep_since(prompt, turns[gone], "select_window", reason)


def gone_turns(window: Window, turns: int) -> int:
    """How many of `turns` turns a window drops: whole strides."""
    # below eight turns a stride is one: a narrow window moves with every turn
    stride = max(1, window.turns // 4)
    return max(0, turns - window.turns) // stride * stride


def select_recent(prompt: Prompt, env: Env, options: Recent) -> Prompt:
    """Keep the items whose worth, which fades with every turn, is still enough.

    After `half_life` turns an item is worth half; with `decay`, that much of it is left after
    each. What is worth less than `min_score` goes, in strides of a quarter of the turns that
    stay, so that requests between two moves extend each other.

    Before:  user "one" | model "1" | user "two" | user "three"   (half_life=1, min_score=0.5)
    After:   user "two" | user "three"
    """
    turns = turns_of(prompt.items)
    newest = len(turns)
    rate = _rate(options)
    stays = _turns_that_stay(rate, options.min_score, newest)
    stride = max(1, stays // 4)
    gone = max(0, newest - stays) // stride * stride
    start = turns[gone] if gone else 0
    if not start:
        return prompt

    def reason(index: int) -> str:
        past = newest - bisect_right(turns, index)
        return f"after {past} turns it is worth {rate**past:.2g}"

    # the usual case: nothing of the current turn goes
    if first_from(prompt.items, env.turn) >= start:
        return keep_since(prompt, start, "select_recent", reason, key=options)
    # the user spoke again and again in the current turn: that stays, whatever it is worth
    before = prompt.items.between(0, start)
    staying = [*filter(env.is_current, before), *prompt.items.since(start)]
    notes = [
        Note("select_recent", reason(index), item)
        for index, item in enumerate(before)
        if not env.is_current(item)
    ]
    return prompt.with_items(staying, notes) if notes else prompt


def _rate(options: Recent) -> float:
    """What is left of an item's worth after a turn."""
    if options.decay is not None:
        return options.decay
    return math.pow(0.5, 1 / (options.half_life or 1.0))


def _turns_that_stay(rate: float, least: float, all_turns: int) -> int:
    """How many turns are worth enough, the current one among them."""
    if rate >= 1:
        return all_turns
    # logarithms of exact powers come out a little below the whole number
    return 1 + math.floor(math.log(least) / math.log(rate) + 1e-9)


def select_branch(prompt: Prompt, env: Env) -> Prompt:
    """Keep unbranched items, the agent's own branch and its ancestors'.

    Parallel agents must not read each other half way. Items of branches that have joined stand on
    the branch that they joined. Branches are compared by segments: `a.b` is not an ancestor of
    `a.bc`.

    Before:  user "Hi" | model@fan.left "L" | model@fan.right "R"      (branch fan.left)
    After:   user "Hi" | model@fan.left "L"
    """
    if not prompt.features & Feature.BRANCHED:
        return prompt

    def change(item: Item, _: None) -> Item | Note:
        branch = item.branch
        # with the dot: `a.b` is not an ancestor of `a.bc`
        if not branch or branch == env.branch or env.branch.startswith(branch + "."):
            return item
        return Note("select_branch", f"it belongs to branch {branch}", item)

    return rewrite_items(prompt, "select_branch", change, key=env.branch)


def drop_hidden(prompt: Prompt, env: Env) -> Prompt:
    """Drop partial, empty, state-only, framework-internal and rewound items.

    They stay in the log; a request that carried them would repeat or contradict itself.

    Before:  user "Hi" | hidden (partial) "He" | model "Hello"
    After:   user "Hi" | model "Hello"
    """
    if not prompt.features & Feature.HIDDEN:
        return prompt

    def change(item: Item, _: None) -> Item | Note:
        return item if item.kind != "hidden" else Note("drop_hidden", item.why, item)

    return rewrite_items(prompt, "drop_hidden", change)


def drop_data(prompt: Prompt, env: Env) -> Prompt:
    """Leave out what agents said that only write a key for those after them.

    Their text is data: it reaches an agent through the key that it reads, or not at all. What an
    agent without a policy sees of a pipeline is the user's request, its inputs and its own work.

    Before:  user "Fly me to Oslo" | model(classifier) "booking"   (classifier.writes("intent"))
    After:   user "Fly me to Oslo"
    """
    if not prompt.features & Feature.DATA or not hides_data(env.policy):
        return prompt

    def change(item: Item, _: None) -> Item | Note:
        return note_data(item) if item.data else item

    return rewrite_items(prompt, "drop_data", change)


def note_data(item: Item) -> Note:
    """Why an item is left out that is data for others."""
    return Note("drop_data", f"what {item.author} says is data: it is read by its key", item)


def hides_data(policy: Policy) -> bool:
    """Whether what is data for others is left out."""
    for stage in policy.stages:
        if isinstance(stage.selector, Everything) and not stage.selector.data:
            return True
    return False
