"""Keep the whole request within its token budget."""

from collections.abc import Callable, Iterator, Sequence
from dataclasses import replace
from math import ceil
from operator import is_not
from typing import NamedTuple

import msgspec

from weft.declare.policy_parts import Budget, Overflow
from weft.diagnostics import Diagnostic, Origin, report
from weft.errors import BudgetExceeded
from weft.ir import CallBlock, Item, Note, Prompt, ThoughtBlock
from weft.ir.block import RECALL
from weft.passes.env import Env, Sizes, opening_of
from weft.passes.handles import has_handle
from weft.passes.references import notes_on_repointed, repoint_items
from weft.passes.shorten import (
    LEAST,
    Phase,
    SealBroken,
    ShortenedForms,
    Shortening,
    Unit,
    drop_units,
    fade_units,
    give_up,
    long_results,
    questions_apart,
    shorten_items,
    stride_for,
    units_of,
)
from weft.passes.summaries import (
    WrittenSummary,
    allowance_for,
    blocks_of,
    done_without,
    fit_summary,
    summary_of,
)
from weft.session.strand import Strand
from weft.values import compact


def fit_budget(prompt: Prompt, env: Env) -> Prompt:
    """Give up what matters least until system, tools, schema and history fit the budget.

    A policy's budget shortens before it drops, as its `overflow` says: the lowest tier first, in
    it the oldest first. Tier 1, what the user asks now and what the agent did last stay; an
    answer never stands without its question. A TokenBudget is a budget that drops the oldest.

    Before:  user "one" | model "1" | user "two" | model "2" | user "three"   (too long by one)
    After:   user "two" | model "2" | user "three"
    """
    # passes on new items see a part of the request; only the whole can be measured
    if env.tokens.measure is None:
        return prompt
    for budget in (env.policy.limit, env.tokens.budget):
        if budget is not None:
            prompt = keep_limit(prompt, env, budget, env.tokens.measure)
    return prompt


def _field(budget: Budget, env: Env) -> str:
    """The agent's field that sets the budget."""
    return "context" if budget is env.policy.limit else "context_compressor"


TIERS = (4, 3, 2)
"""What gives way, the first first; tier 1 never does."""

_BY_AGE = 3
"""The tier of all that gives way where age alone decides."""


class Survivors(NamedTuple):
    """The indexes of items that stay, and of those that may not even be shortened."""

    stays: set[int]
    whole: set[int]


def keep_limit(
    prompt: Prompt, env: Env, budget: Budget, measure: Callable[[Prompt], Sizes]
) -> Prompt:
    """Give up what the budget has no room for, in the order of its tiers."""
    room = room_for(prompt, env, budget)
    sizes = measure(prompt)
    if sizes.total <= room.counted:
        return prompt
    if budget.overflow == "error":
        raise explain_excess(prompt, env, budget, room, sizes, "the request takes")
    # first without `recall`: only if handles come of it, the tool is worth its own tokens
    fitted_prompt = _give_way(prompt, env, budget, measure, sizes)
    offered = _with_recall(prompt, fitted_prompt, env, budget)
    if offered is prompt:
        return fitted_prompt
    try:
        recallable = _give_way(offered, env, budget, measure, measure(offered))
    except BudgetExceeded:
        # with the tokens of the tool it does not fit: below, it is tried without handles
        recallable = offered
    if recallable is not offered and any(map(has_handle, recallable.items)):
        return recallable
    # there is no room for `recall` and what it gets back: without it, things go for good
    fitting = _Fitting(prompt, env, budget, room, measure, sizes)
    if not fitting.fit("drop", room.counted):
        raise fitting.explain_excess()
    return fitting.done(0)


def _with_recall(prompt: Prompt, after: Prompt, env: Env, budget: Budget) -> Prompt:
    """The request with `recall`, if handles stand in it once it fits, and none stood before.

    So an agent without tools pays for the tool only where there is something to get back.
    """
    tool = env.tools.recall
    if tool is None or budget is not env.policy.limit or budget.overflow != "degrade":
        return prompt
    if any(one.name == tool.name for one in prompt.tools) or not any(map(has_handle, after.items)):
        return prompt
    return msgspec.structs.replace(prompt, tools=(*prompt.tools, tool))


def _give_way(
    prompt: Prompt, env: Env, budget: Budget, measure: Callable[[Prompt], Sizes], sizes: Sizes
) -> Prompt:
    """The request without what its budget has no room for, as `overflow` says."""
    room = room_for(prompt, env, budget)
    # summaries that a run has asked for are shown where there is room, whatever `overflow` says
    known = any(effect.get("kind") == "summary" for effect in env.session.effects.values())
    fitting = _Fitting(prompt, env, budget, room, measure, sizes)
    if budget.overflow != "summarize" and not known:
        return _fit_behind_seal(fitting, prompt, env, budget)
    if budget.overflow == "summarize":
        # room for the summary is set aside before anything goes
        spare = allowance_for(room.counted)
        if fitting.fit("drop", room.counted - spare):
            return fitting.done(spare)
    if not fitting.fit(budget.overflow, room.counted):
        raise fitting.explain_excess()
    return fitting.done(allowance_for(room.counted) if known else 0)


def _fit_behind_seal(fitting: "_Fitting", prompt: Prompt, env: Env, budget: Budget) -> Prompt:
    """Fit the items after those that surely go, which are sealed.

    All items are looked at where nothing is sealed yet, or not any more. That is O(n) once in a
    session, and where somebody reaches back.
    """
    items = prompt.items
    whole = frozenset(name for name, tool in env.tools.own.items() if tool.compact is False)
    with items.lock:
        tools = len(prompt.tools)  # with one tool more, more goes
        seal = items.memo[Seal, budget, env.agent, env.model.dialect, env.model.name, whole, tools]
        seal.uses += 1
        try:
            fits = fitting.fit(budget.overflow, fitting.room.counted, seal)
        except SealBroken:
            seal.clear()
            fits = fitting.fit(budget.overflow, fitting.room.counted, seal)
        if not fits:
            raise fitting.explain_excess()
        after = fitting.done(0)
        if seal.uses > 1:  # a strand that is not used again need not be sealed
            fitting.extend_seal()
        return after


class Room(NamedTuple):
    """The tokens of a budget: those for the answer, and those a request may count.

    `shared` says that the reserve is a share of the budget.
    """

    tokens: int
    reserve: int
    counted: int
    shared: bool

    def find_smallest(self, most: int) -> int:
        """The smallest budget for a request of `most` tokens."""
        if not self.shared:
            return most + self.reserve
        # the reserve is a share of the budget that is looked for, not of the request
        return most + min(-(-most // (SHARE - 1)), MOST)


class _Fitting:
    """One request on its way into its budget."""

    def __init__(
        self,
        prompt: Prompt,
        env: Env,
        budget: Budget,
        room: Room,
        measure: Callable[[Prompt], Sizes],
        sizes: Sizes,
    ) -> None:
        self._prompt = prompt
        self._env = env
        self._budget = budget
        self.room = room
        self._measure = measure
        self._sizes = sizes
        self._stride = 1
        self._now = sizes.total
        self._seal = Seal()
        self._items: list[Item] = []
        self._sent: tuple[int, list[Item], Strand[Item]] | None = None

    def _look_at(self, seal: "Seal") -> None:
        """Take the items that are not sealed."""
        self._seal = seal
        items = self._prompt.items
        if self._sizes.part is not None:
            part = self._sizes.part(seal.stays, seal.end)
            self._fixed, self._each, self._asked = part
        else:
            (self._fixed, self._each), self._asked = self._sizes.split(), 0
        self._items = [*(items[index] for index in seal.stays), *items.since(seal.end)]
        self._tiers = [item.priority for item in self._items]
        # a TokenBudget knows no tiers: age alone decides
        if self._budget.keep_recent is not None:
            self._tiers = [_BY_AGE] * len(self._items)
        self._pins = pin_items(self._items, self._tiers, self._env, self._budget.keep_recent or 0)
        self._giving = ShortenedForms(list(self._each))
        self._sent = None
        self._shorter = Shortening(self._items, self._giving, self._env, self._sizes.item)

    def fit(self, overflow: Overflow, limit: int, seal: "Seal | None" = None) -> bool:
        """Give up until no more than `limit` tokens are left; whether that worked.

        Raises:
            SealBroken: something that is sealed does not surely go.
        """
        self._look_at(seal if seal is not None else Seal())
        sealed = self._seal.sums(self._shorter) if self._seal.end else None
        if sealed is not None and not self._seal.holds(self._items, self._asked, self._env):
            raise SealBroken
        self._stride, aim = stride_for(max(limit, 1))
        units = units_of(self._items, self._tiers, self._pins.stays)
        tiers = {self._tiers[index] for unit in units for index in unit.indexes}
        # the sums of a seal are of one tier; an item of a lower one would have to go before it
        if sealed is not None and tiers - {self._seal.tier}:
            raise SealBroken
        # 0: with several tiers, what is oldest does not surely go first, so nothing is sealed
        self._tier = tiers.pop() if len(tiers) == 1 else 0
        phases = _phases(
            units, self._tiers, self._pins, overflow, self._shorter, self._why, self._seal, sealed
        )

        def fits() -> bool:
            self._now = self._measure(self._prompt.with_strand(self.remaining())).total
            return self._now <= limit

        excess = self._fixed + sum(self._each) + (sealed.each if sealed is not None else 0) - aim
        return give_up(phases, excess, self._stride, self._giving, fits, sealed=sealed is not None)

    def _why(self, tier: int) -> str:
        why = f"the request exceeded {self._budget.tokens} tokens"
        return why if self._budget.keep_recent is not None else f"{why}, and it is in tier {tier}"

    def explain_excess(self) -> BudgetExceeded:
        """The error for what does not fit."""
        fitted_prompt = self._prompt.with_strand(self.remaining())
        sizes = self._measure(fitted_prompt)
        subject = "what must stay takes"
        return explain_excess(fitted_prompt, self._env, self._budget, self.room, sizes, subject)

    def remaining(self) -> Strand[Item]:
        """The items as they stand by now; the strand of the request before, where it goes on."""
        return self._formed_and_sent()[1]

    def _formed_and_sent(self) -> tuple[list[Item], Strand[Item]]:
        """The items as they were shortened, and as they are sent; worked out once a step."""
        if self._sent is None or self._sent[0] != self._giving.steps:
            formed = self._items_as_sent()
            changed = self._giving.changes or self._seal.end
            items = repoint_items(formed, self._items, self._env) if changed else formed
            strand = self._seal.sent.strand_of(items, min(len(self._prompt.items.tail), len(items)))
            self._sent = (self._giving.steps, formed, strand)
        return self._sent[1:]

    def _items_as_sent(self) -> list[Item]:
        """The items that stay, as they are now, after an opening turn if one is needed."""
        forms = {index: change.form for index, change in self._giving.changes.items()}
        forms_or_items = (forms.get(index, item) for index, item in enumerate(self._items))
        stay = [item for item in forms_or_items if item is not None]
        if stay and stay[0].blocks and stay[0].blocks[0].role == "model":
            # what stood before it went; it counts as well
            return [self._seal.sent.opening_of(stay[0]), *stay]
        return stay

    def extend_seal(self) -> None:
        """Seal what surely went this time, up to the first item that may stay."""
        if not self._tier:
            return
        seal, settled = self._seal, self._prompt.items.settled
        first, before = len(seal.stays), seal.end
        stays: list[int] = []
        apart = (
            questions_apart(self._items, self._pins.stays) if self._giving.surely else set[int]()
        )
        for index, item in enumerate(self._items[first:], first):
            place = before + index - first
            # an item that is not settled may still change
            if place >= settled:
                break
            if index in self._giving.surely:
                seal.apart = seal.apart or index in apart
                seal.add(index, self._shorter, self._env, self._why(item.priority))
                # only now: a seal ends with an item that goes, not with one that stays
                seal.stays, stays = (*seal.stays, *stays), []
                seal.end = place + 1
            # what is asked now stays, and the seal goes on after it
            elif index in self._pins.whole and self._env.is_asked(item):
                stays.append(place)
            else:
                break
        seal.tier = self._tier
        seal.turn, seal.invocation, seal.asked = self._env.turn, self._env.invocation, self._asked

    def done(self, spare: int) -> Prompt:
        """The prompt that fits, with a summary of what went if `spare` tokens are for one."""
        items, changes = self._items, self._giving.changes
        (formed, after), wants, diagnostics = (
            self._formed_and_sent(),
            self._prompt.wants,
            list[Diagnostic](),
        )
        notes = [
            Note("fit_budget", change.why, items[index], change.form)
            for index, change in sorted(changes.items())
        ]
        notes += notes_on_repointed(after, formed)
        if spare:
            summary, summed = self._summary(list(after), spare)
            if summary is not None:
                after = Strand(_insert_summary(list(after), summary))
                self._now = self._measure(self._prompt.with_strand(after)).total
                notes.append(Note("fit_budget", "it sums up what went", summary, summary))
            if self._budget.overflow == "summarize" and summed.problem:
                what = "an extract stands for what the budget has no room for"
                diagnostics.append(done_without(self._env, what, summed.problem))
                if summed.want is not None and summed.want not in wants:
                    wants = (*wants, summed.want)
        gone = len(self._seal.notes)
        before = self._sizes.total
        figures = given_up(self._env, self._budget, self.room, notes, gone, before, self._now)
        fitted = self._prompt.with_strand(after, self._seal.notes).with_strand(after, notes)
        return msgspec.structs.replace(
            fitted, diagnostics=(*self._prompt.diagnostics, *figures, *diagnostics), wants=wants
        )

    def _summary(self, items: list[Item], spare: int) -> tuple[Item | None, WrittenSummary]:
        """The summary of the items that went, within `spare` tokens, and how it came about."""
        went = [index for index, change in self._giving.changes.items() if change.form is None]
        blocks: list[list[Item]] = []
        for tier in TIERS:
            mine = [index for index in went if self._tiers[index] == tier]
            sizes = [self._each[index] for index in mine]
            blocks += blocks_of([self._items[index] for index in mine], sizes, self._stride)
        summed = summary_of(blocks, items, self._env)
        # an extract is only shown where summaries were asked for
        if self._budget.overflow != "summarize":
            if summed.problem:
                return None, summed
            spare = min(spare, self.room.counted - self._now)
        gone = [self._items[index] for index in went]
        return fit_summary(summed.text, gone, self._env, spare, self._sizes.item), summed


def _insert_summary(items: list[Item], summary: Item) -> list[Item]:
    """The items with the summary at the place of what it sums up."""
    at = sum(1 for item in items if item.position < summary.position)
    return [*items[:at], summary, *items[at:]]


def pin_items(items: list[Item], tiers: list[int], env: Env, recent: int) -> Survivors:
    """What stays: tier 1, what is asked, what the agent did last, open calls, the most recent.

    Of what the agent did last a result may be shortened, if nothing else helps.
    """
    stays: set[int] = set()
    whole: set[int] = set()
    spoken = [i for i, item in enumerate(items) if item.kind == "user" and item.author == "user"]
    started = [i for i in spoken if env.invocation and items[i].invocation == env.invocation]
    # what began the run and what was said last: without them nobody knows what is wanted
    whole.update((*started[:1], *spoken[-1:]))
    done = [
        index
        for index, item in enumerate(items)
        if item.kind == "exchange" and item.invocation == env.invocation
    ]
    stays.update(done[-1:])
    whole.update(range(max(0, len(items) - recent), len(items)))
    for index, item in enumerate(items):
        if tiers[index] == 1 or item.kind == "system" or env.is_asked(item):
            whole.add(index)
        if item.open:
            stays.add(index)
    # a request that ended with the model's words would be continued in mid-sentence
    if items and not _may_go_last(items, tiers, stays | whole):
        stays.add(len(items) - 1)
    return Survivors(stays | whole, whole)


def _may_go_last(items: list[Item], tiers: list[int], stays: set[int]) -> bool:
    """Whether the last item is in a low tier, and a request may end with what stays before it."""
    last = len(items) - 1
    before = max((index for index in stays if index < last), default=-1)
    ends = all(item.kind != "model" for item in items[max(before, 0) : last])
    return tiers[last] > 2 and before >= 0 and ends


def _phases(
    units: list[Unit],
    tiers: list[int],
    pins: Survivors,
    overflow: Overflow,
    shorter: Shortening,
    why: Callable[[int], str],
    seal: "Seal",
    sealed: "Sums | None",
) -> Iterator[Phase]:
    """What is given up, phase by phase: the lowest tier first, then what else can be shorter.

    What is sealed has its part in the phases of its tier.
    """
    giving = shorter.giving
    sizes = giving.sizes
    degrades, folds = overflow != "drop", overflow == "degrade"
    for tier in TIERS:
        mine = [i for i, own in enumerate(tiers) if own == tier and i not in pins.stays]
        goes = [unit for unit in units if unit.tier == tier]
        reason = why(tier)
        own = sealed if sealed is not None and tier == seal.tier else None
        if not degrades:  # then nothing was shorter before it went
            yield drop_units(goes, sizes, reason, own.each if own is not None else None)
            continue
        took = own.each - own.folded - own.referred if own is not None else None
        if folds:
            yield shorten_items(mine, shorter.fold, own.folded if own is not None else 0)
        giving.folded = [*sizes]
        yield shorten_items(mine, shorter.refer, own.referred if own is not None else 0)
        giving.referred = [*sizes]
        yield fade_units(goes, sizes, reason, shorter.cut, took)
        loose = {index for unit in goes for index in unit.indexes}
        yield shorten_items([index for index in mine if index not in loose], shorter.cut)
    # when all tiers are through and it is still too much, what the agent did last gets shorter
    last = sorted(pins.stays - pins.whole)
    if folds:
        yield shorten_items(last, shorter.fold)
    if degrades:
        yield shorten_items(last, shorter.cut)


class Sums(NamedTuple):
    """What the sealed items took, and what digests and references to later results save of it."""

    each: int
    folded: int
    referred: int


class _OpenPrefix(NamedTuple):
    """A sealed item with a long result that no later item gave again yet.

    `form` is the item as it was folded, `again` are the places where a later one gives the same,
    `texts` the long results by their place, and `saved` what references saved of it so far.
    """

    form: Item
    again: dict[int, Origin]
    texts: dict[int, str]
    saved: int


def _worth(saved: int) -> int:
    """What a shorter form saves, if it is enough to be used."""
    return saved if saved >= LEAST else 0


class Seal:
    """The oldest items of a strand, which surely go, with the sums that phases ask for.

    The sealed items are those before `end` but for `stays`, which the user asks now. Requests
    between two strides drop the same items; so they are looked at once, when they go.
    """

    def __init__(self) -> None:
        self.uses = 0
        self.clear()

    def clear(self) -> None:
        """Seal nothing."""
        self.end = self.tier = self.turn = self.asked = 0
        self.stays: tuple[int, ...] = ()
        self.invocation = ""
        self.newest = -1
        """The highest log position of a sealed item."""
        self.apart = False
        """Whether a sealed item may go by itself only while what was asked after it stays."""
        self.thinks = False
        """Whether a sealed item has thoughts, which count in the current turn only."""
        self.notes: Strand[Note] = Strand()
        self._invocations: set[str] = set()
        self._sums = Sums(0, 0, 0)
        self._open: dict[str, list[_OpenPrefix]] = {}
        """Sealed items by a long result that no later item gave again yet."""
        self.sent = SentItems()

    def holds(self, items: Sequence[Item], asked: int, env: Env) -> bool:
        """Whether nothing of what is sealed must stay in this request."""
        # thoughts count in the current turn only, so the sums of the seal are of another turn
        if self.thinks and asked != self.asked and min(asked, self.asked) < self.end:
            return False
        # what is sealed belongs to this turn, or depends on what is asked: both must be the same
        if self.apart or self.stays or env.invocation in self._invocations:
            same = self.turn == env.turn and self.invocation == env.invocation
            later = items[len(self.stays) :]
            return same and any(
                item.kind == "exchange" and item.invocation == env.invocation for item in later
            )
        return self.newest < env.turn

    def add(self, index: int, shorter: Shortening, env: Env, why: str) -> None:
        """Seal one item more."""
        item, giving = shorter.items[index], shorter.giving
        folded = giving.whole[index] - giving.folded[index]
        referred = giving.folded[index] - giving.referred[index]
        whole, before, saved = self._sums
        self._sums = Sums(whole + giving.whole[index], before + folded, saved + referred)
        self._invocations.add(item.invocation)
        self.newest = max(self.newest, item.position)
        self.thinks = self.thinks or any(isinstance(one, ThoughtBlock) for one in item.blocks)
        self.notes = self.notes.grown([Note("fit_budget", why, item)])
        # only results are compared, and without handles nothing refers to a later one
        if item.kind != "exchange" or not env.policy.facts.makes_handles:
            return
        texts, again = long_results(item, env), dict(shorter.places_again(index))
        for spot, text in texts.items():
            self._refer(text, item.blocks[spot].origin, shorter)
        waiting = _OpenPrefix(shorter.form_of(index), again, texts, referred)
        for spot, text in texts.items():
            if spot not in again:
                self._open.setdefault(text, []).append(waiting)

    def _refer(self, text: str, later: Origin, shorter: Shortening) -> None:
        """Let sealed items refer to a later one that is sealed too."""
        for one in self._open.pop(text, ()):
            again = one.again | {spot: later for spot, own in one.texts.items() if own == text}
            saved = _worth(shorter.referring(one.form, again)[1])
            referred = self._sums.referred + saved - one.saved
            self._sums = self._sums._replace(referred=referred)
            waiting = one._replace(again=again, saved=saved)
            for other in {own for spot, own in one.texts.items() if spot not in again}:
                rest = [each for each in self._open.get(other, ()) if each is not one]
                self._open[other] = [*rest, waiting]

    def sums(self, shorter: Shortening) -> Sums:
        """The sums, with what it saves that later items give some results again."""
        later = shorter.later_results() if self._open else {}
        more, seen = 0, set[int]()
        for text in self._open.keys() & later.keys():
            for one in self._open[text]:
                # an item with two long results waits under both texts
                if id(one) not in seen:
                    seen.add(id(one))
                    places = {p: later[t] for p, t in one.texts.items() if t in later}
                    more += _worth(shorter.referring(one.form, one.again | places)[1]) - one.saved
        return self._sums._replace(referred=self._sums.referred + more)


class SentItems:
    """The items as they were sent, as a strand that goes on from request to request."""

    def __init__(self) -> None:
        self._sent: Strand[Item] = Strand()

    def opening_of(self, first: Item) -> Item:
        """The turn before a first item of the model's; the same as in the request before."""
        before, opening = self._sent, opening_of(first)
        # the same object again, so that the strand of the request before goes on
        if len(before) > 1 and before[1] is first and before[0] == opening:
            return before[0]
        return opening

    def strand_of(self, items: list[Item], tail: int) -> Strand[Item]:
        """The items as a strand; it continues that of the request before where it can."""
        settled, passing = items[: len(items) - tail], items[len(items) - tail :]
        before = self._sent
        known = before.between(0, before.settled)
        same = len(known)
        # something that was sent has changed: the strand forks where it did
        if len(settled) < same or any(map(is_not, known, settled)):
            pairs = enumerate(zip(known, settled, strict=False))
            same = next((at for at, (one, other) in pairs if one is not other), len(settled))
            before = before.fork(min(same, len(settled)))
        self._sent = before.grown(settled[same:]) if len(settled) > same else before
        return self._sent.with_tail(passing)


SHARE, MOST = 10, 4096
"""What is kept for an answer of unknown length: a tenth of the budget, and at most `MOST`."""


def room_for(prompt: Prompt, env: Env, budget: Budget) -> Room:
    """How much of a budget a request may count, if its count may be too low by a margin."""
    longest = prompt.config.get("max_output_tokens")
    reserve = budget.reserve
    if reserve is None and isinstance(longest, int):
        reserve = longest
    shared = reserve is None
    if reserve is None:
        reserve = min(budget.tokens // SHARE, MOST)
    # an estimate may be too low by the margin, and the budget must hold all the same
    counted = int((budget.tokens - reserve) / (1 + env.tokens.margin))
    return Room(budget.tokens, reserve, counted, shared)


def given_up(
    env: Env, budget: Budget, room: Room, notes: list[Note], sealed: int, before: int, now: int
) -> list[Diagnostic]:
    """What was given up, with the figures; `sealed` items went before those of the notes."""
    field = _field(budget, env)
    origin = Origin("field", field, env.agent)
    gone = sealed + sum(1 for note in notes if note.after is None)
    # a note whose item is its own outcome tells of a summary, not of a loss
    shorter = sum(1 for note in notes if note.after not in (None, note.before))
    figures = f"{before} tokens became {now}, of {room.counted} there are for it"
    hint = "raise the budget, or give what matters .priority(1)"
    if budget.keep_recent is not None:  # then no priority helps
        raised = "token_budget" if field == "context_compressor" else "the budget"
        hint = f"raise {raised} to keep them"
    diagnostics: list[Diagnostic] = []
    if shorter:
        words = f"{_count(shorter)} shortened to fit the budget of {room.tokens}: {figures}"
        diagnostics.append(report("WEFT503", origin, words, hint))
    if gone:
        words = f"{_count(gone)} left out to fit the budget of {room.tokens}: {figures}"
        diagnostics.append(report("WEFT501", origin, words, hint))
    return diagnostics


def _count(number: int) -> str:
    return "1 item was" if number == 1 else f"{number} items were"


def explain_excess(
    prompt: Prompt, env: Env, budget: Budget, room: Room, sizes: Sizes, subject: str
) -> BudgetExceeded:
    """The error for what does not fit: by how much, what takes the most, and what to type."""
    most = ceil(sizes.total * (1 + env.tokens.margin))
    counted = f"{sizes.total} tokens"
    if env.tokens.margin:
        counted += f" ({most} at most, as they are estimated)"
    if room.reserve:
        counted += f" and {room.reserve} are for the answer"
    over = most + room.reserve - room.tokens
    words = f"{subject} {counted}, {over} more than the budget of {room.tokens}"
    field = _field(budget, env)
    hint = f"write .budget({room.find_smallest(most)}), or a lower reserve="
    if field == "context_compressor":
        hint = f"raise token_budget to at least {room.find_smallest(most)}, lower keep_recent"
    return BudgetExceeded(
        f"{words}; {_largest(prompt, env, sizes)}",
        where=f"{env.agent}.{field}",
        hint=f"{hint}, or shorten what takes the most{_without_handles(prompt, env)}",
    )


def _without_handles(prompt: Prompt, env: Env) -> str:
    """The hint to drop instead of degrade, where the budget alone brings in `recall`."""
    offered = any(tool.name == RECALL for tool in prompt.tools) and not env.tools.own
    brought = offered and not replace(env.policy, limit=None).facts.makes_handles
    return ', or overflow="drop", which needs no recall' if brought else ""


def _largest(prompt: Prompt, env: Env, sizes: Sizes) -> str:
    """What takes the most of a request, in words."""
    fixed, _ = sizes.split()
    system = env.tokens.count(prompt.system_text)
    schema = env.tokens.count(compact(prompt.output.schema)) if prompt.output is not None else 0
    tools = fixed - system - schema if prompt.tools else 0  # with what a provider adds for them
    alone = [tool.name for tool in prompt.tools] == [RECALL]
    named = f"the tool {RECALL}" if alone else "the tools"
    parts = [(system, "the instruction"), (tools, named), (schema, "the schema")]
    parts += [(sizes.item(item), _name(item)) for item in prompt.items]
    parts.sort(key=lambda one: -one[0])
    named_sizes = [f"{name} {size}" for size, name in parts[:3] if size > 0]
    return f"most of it: {', '.join(named_sizes)}"


def _name(item: Item) -> str:
    """An item in a few words."""
    if item.kind == "exchange":
        names = [block.name for block in item.blocks if isinstance(block, CallBlock)]
        return f"the call of {', '.join(names)}"
    if item.kind == "user":
        return "the user's message" if item.author == "user" else "a user turn"
    return f"the {item.kind} item of {item.author}" if item.author else f"the {item.kind} item"
