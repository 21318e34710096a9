"""Passes that give up old results: those no longer fresh, and those that cost too much."""

import math
from bisect import bisect_left
from collections.abc import Sequence
from typing import NamedTuple, TypeGuard

import msgspec

from weft.declare.policy_parts import Fresh
from weft.diagnostics import Diagnostic, report
from weft.ir import Block, Item, Note, Prompt, ResultBlock, TextBlock, ToolDecl
from weft.ir.block import RECALL
from weft.passes.env import Env, is_in_log_order, turn_numbers, turns_of
from weft.passes.handles import (
    LEAST_SAVED,
    LEAST_TOKENS,
    MARGIN,
    STUB,
    SURELY,
    HandleLimits,
    block_tokens,
    compact_result,
    declares_first,
    media_words,
    needs_recall,
    read_logged,
    with_media_words,
)
from weft.passes.rewrite import map_blocks, rewrite_items, settled_since
from weft.session.strand import Strand
from weft.values import JsonObject

_STEP = "mark_stale"

_SHORT = HandleLimits(LEAST_TOKENS, LEAST_TOKENS)


def mark_stale(prompt: Prompt, env: Env, options: Fresh) -> Prompt:
    """Drop, mark or compact what tools returned longer ago than the policy calls fresh.

    The call stays, and so does its result: a short word takes the place of what was dropped, so
    that the model knows that it asked, and may ask again. The words never say how old it is by
    now, and several results become stale at once rather than one each turn, a little early, so
    that what was sent seldom changes.

    Before:  call price({}) | result {"result": "40"}   (two turns ago, .fresh(turns=1))
    After:   call price({}) | result {"result": "[dropped: older than 1 turn; call price again]"}
    """
    until = _first_fresh(prompt, env, options)
    if until is None:
        return _mark_each(prompt, env, options)

    def change(item: Item, _: None) -> Item | Note:
        if item.open:
            return item
        short = map_blocks(item, lambda block: _marked(block, item, env, options))
        return item if short is item else Note(_STEP, _reason(options), item, short)

    key = (options, env.agent, env.model.dialect, env.model.name)
    return rewrite_items(prompt, _STEP, change, key=key, until=until)


def _first_fresh(prompt: Prompt, env: Env, options: Fresh) -> int | None:
    """The log position before which all results are stale, and none after it.

    None where it takes a look at each item: where a warning is given for each, or where items do
    not stand in the order of the log or of time.
    """
    items = prompt.items
    if options.stale == "warn":
        return None
    starts = turns_of(items)
    gone = 0
    if options.turns is not None:
        gone = _strides(len(starts) - options.turns, max(1, options.turns // 4))
    # branches that joined may stand out of order: then no one position parts old from fresh
    if gone >= len(starts) or not is_in_log_order(items):
        return None
    first = starts[gone]
    if options.seconds is not None:
        by_time = _stale_by_time(items, env, _time_of_staleness(env, options.seconds))
        if by_time is None:
            return None
        first = max(first, by_time)
    if first >= items.length or (until := items[first].position) > env.turn:
        return env.turn  # the current turn is never stale
    # two items of one event, one stale and one not: a position cannot part them
    return None if first and items[first - 1].position == until else until


class _Times:
    """When the settled items of a strand happened, and whether that is the order they stand in."""

    def __init__(self) -> None:
        self.times: list[float] = []
        self.ordered = True


def _stale_by_time(items: Strand[Item], env: Env, before: float) -> int | None:
    """How many items happened before that time; None where a later one happened earlier."""
    with items.lock:
        known = items.memo[_Times]
        times = known.times
        for item in items.between(len(times), items.settled):
            happened = _happened(item, env)
            known.ordered = known.ordered and (not times or times[-1] <= happened)
            times.append(happened)
        if not known.ordered:
            return None
        last = times[items.settled - 1] if items.settled else -math.inf
        gone = bisect_left(times, before, 0, items.settled)
    for item in items.tail:
        happened = _happened(item, env)
        if happened < last:
            return None
        last = happened
        gone += happened < before
    return gone


def _time_of_staleness(env: Env, seconds: float) -> float:
    """The time before which results are stale; it moves in strides."""
    # the last two: a message that is only compiled, not run, has no time
    newest = max((event.timestamp for event in env.log.since(env.log.length - 2)), default=0.0)
    # in strides, as turns go: several results become stale at once
    stride = seconds / 4
    return math.ceil((newest - seconds) / stride) * stride


def _reason(options: Fresh) -> str:
    return f"its result is {_age(options)}"


def _mark_each(prompt: Prompt, env: Env, options: Fresh) -> Prompt:
    """As `mark_stale`, with a look at each item."""
    staying: list[Item] = []
    notes: list[Note] = []
    diagnostics: list[Diagnostic] = []
    for item, stale in zip(prompt.items, _stale(prompt, env, options), strict=True):
        blocks = item.blocks
        if stale and not env.is_current(item) and not item.open:
            blocks = tuple(_marked(block, item, env, options) for block in item.blocks)
        if all(one is other for one, other in zip(blocks, item.blocks, strict=True)):
            staying.append(item)
            continue
        after = msgspec.structs.replace(item, blocks=blocks)
        notes.append(Note(_STEP, _reason(options), item, after))
        staying.append(after)
        if options.stale == "warn":
            diagnostics += _stale_diagnostics(item, options)
    return prompt.with_items(staying, notes, diagnostics) if notes else prompt


def _stale(prompt: Prompt, env: Env, options: Fresh) -> list[bool]:
    """Whether each item is too old, by its turn or by its time."""
    numbers = turn_numbers(prompt.items)
    gone = 0
    if options.turns is not None and numbers:
        gone = _strides(numbers[-1] - options.turns, max(1, options.turns // 4))
    before = -math.inf
    if options.seconds is not None:
        before = _time_of_staleness(env, options.seconds)
    return [
        number <= gone or _happened(item, env) < before
        for item, number in zip(prompt.items, numbers, strict=True)
    ]


def _strides(turns: int, stride: int) -> int:
    return max(0, math.ceil(turns / stride) * stride)


def _happened(item: Item, env: Env) -> float:
    """When the item's last event happened; what is in no log is always fresh."""
    return env.log[item.last].timestamp if 0 <= item.last < env.log.length else math.inf


def _marked(block: Block, item: Item, env: Env, options: Fresh) -> Block:
    if not isinstance(block, ResultBlock) or block.synthetic:
        return block
    match options.stale:
        case "drop":
            dropped: JsonObject = {
                "result": f"[dropped: {_age(options)}; call {block.name} again if it matters]"
            }
            # it was dropped before
            if block.response == dropped and not block.media:
                return block
            return msgspec.structs.replace(block, response=dropped, media=(), kept=None)
        case "warn":
            marked = _warned(block.response, f"{_age(options)}, it may no longer hold")
            if marked is block.response:
                return block
            return msgspec.structs.replace(block, response=marked, kept=None)
        case "compact":
            return _compacted(block, item, env)


def _warned(response: JsonObject, words: str) -> JsonObject:
    """The result with a line that says that it is stale."""
    line = f"[stale: {words}]\n"
    sole = next(iter(response)) if len(response) == 1 else ""
    text = response.get(sole)
    if isinstance(text, str):
        return response if text.startswith(line) else {sole: line + text}
    # the tool may have a field of that name
    key = "stale" if response.get("stale", words) == words else "weft_stale"
    return response if response.get(key) == words else {key: words, **response}


def _compacted(block: ResultBlock, item: Item, env: Env) -> ResultBlock:
    short = compact_result(block, item, env, _SHORT)
    words = {media: media_words(media, env, 0) for media in block.media if not media.signature}
    words_for_media = [word for word in words.values() if word is not None]
    if not words_for_media:
        return short
    media = tuple(one for one in block.media if words.get(one) is None)
    response = with_media_words(short.response, words_for_media)
    return msgspec.structs.replace(short, response=response, media=media)


def _stale_diagnostics(item: Item, options: Fresh) -> list[Diagnostic]:
    return [
        report(
            "WEFT205",
            block.origin,
            f"the result of `{block.name}` is {_age(options)}",
            'call the tool again, or write .fresh(..., stale="drop")',
        )
        for block in item.blocks
        if isinstance(block, ResultBlock)
    ]


def _age(options: Fresh) -> str:
    ages: list[str] = []
    if options.turns is not None:
        ages.append(f"{options.turns} turn{'s' if options.turns > 1 else ''}")
    if options.seconds is not None:
        ages.append(f"{options.seconds:g} seconds")
    return f"older than {' or '.join(ages)}"


KEEP = 3
"""How many of the newest results an edit always leaves as they are."""

FULL = 0.8
"""A request that fills more than this share of the model's window is edited at any cost."""

LONG = 100_000
"""In tokens. Shorter requests need no look at the window: every model of today takes this many."""

REASON = "only its handle stays, which saves more than it costs"


def plan_edit(prompt: Prompt, env: Env) -> Prompt:
    """Replace the results of older calls by their handles, once that saves more than it costs.

    What was sent is read again for a tenth of its price, so a change in the middle must pay for
    all that follows it. Whether it does is worked out from what the log says: for each request so
    far, in order, what an edit would have cost then, and what it saves if as many requests follow
    as were made. So the edit that was made once is found again at every later request, at the
    same place. A request that nearly fills the model's window is edited whatever it costs.

    Where more time than the provider keeps things has passed since the agent spoke, an edit costs
    nothing. An edit never leaves less than what the provider keeps, and one that brings the first
    handle pays for `recall` too, which is declared before everything else.

    What the newest results leave out as said before may then be said in an edited one only; its
    handle is in view, and the call next to it says what it was.

    Before:  user "go" | call read(a) -> 2,000 tokens | ... | call read(z) -> 2,000 tokens
    After:   user "go" | call read(a) -> handle | ... | call read(z) -> 2,000 tokens
    """
    items = prompt.items
    if items.length <= KEEP:  # none of their results could be edited
        return prompt
    with items.lock:
        cut = _cut(prompt, env)
        return _edit(prompt, env, cut) if cut else prompt


class _Edits:
    """The settled items with handles up to a cut, and the notes on them.

    `items` is None as long as nothing was edited: then the strand itself is the outcome.
    """

    def __init__(self) -> None:
        self.cut = self.read = 0
        self.items: Strand[Item] | None = None
        self.notes: Strand[Note] = Strand()


def _edit(prompt: Prompt, env: Env, cut: int) -> Prompt:
    """The items with handles up to the cut; what was edited before is kept."""
    items, settled = prompt.items, prompt.items.settled
    edits = items.memo[_Edits, env.model.dialect, env.model.name]
    if edits.cut > cut or edits.read > settled or cut > settled:
        # an older snapshot, or a cut in the tail, which may move back: nothing of it is kept
        edits = _Edits()
    # what was edited goes on with what is new
    if edits.items is not None and edits.read < settled:
        edits.items = edits.items.grown(items.between(edits.read, settled))
    edits.read = settled
    if edits.cut < min(cut, settled):
        _move_cut(edits, items, min(cut, settled), env)
    tail: list[Item] = []
    notes: list[Note] = []
    for index, item in enumerate(items.tail, settled):
        edited = _edited(item, env) if index < cut and _is_editable(item) else item
        tail.append(edited)
        if edited is not item:
            notes.append(Note("plan_edit", REASON, item, edited))
    if edits.items is None and not notes:
        return prompt
    edited_items = edits.items if edits.items is not None else items.first(settled)
    return prompt.with_strand(edited_items.with_tail(tail), edits.notes.with_tail(notes))


def _move_cut(edits: _Edits, items: Strand[Item], cut: int, env: Env) -> None:
    """Edit the settled items up to another cut; what was sent changes from the first of them on."""
    now = edits.items if edits.items is not None else items
    first, changed = -1, list[Item]()
    notes: list[Note] = []
    for index, item in enumerate(items.between(edits.cut, cut), edits.cut):
        edited = _edited(item, env) if _is_editable(item) else item
        if edited is not item:
            first = index if first < 0 else first
            notes.append(Note("plan_edit", REASON, item, edited))
        if first >= 0:
            changed.append(edited)
    if first >= 0:
        edits.items = now.fork(first).grown([*changed, *items.between(cut, items.settled)])
        edits.notes = edits.notes.grown(notes)
    edits.cut = cut


class _Sums:
    """Running sums over items: as they are, and with handles in place of their results.

    They begin with what comes before the first of these items.
    """

    def __init__(self, whole: int = 0, edited: int = 0) -> None:
        self.whole = [whole]
        self.edited = [edited]

    def add(self, item: Item, env: Env) -> None:
        """Take in one item more."""
        sizes = block_tokens(item, env)
        whole = edited = sum(sizes)
        if _is_editable(item):
            both = zip(item.blocks, sizes, strict=True)
            edited -= sum(size - STUB for block, size in both if _is_long(block, size))
        self.whole.append(self.whole[-1] + whole)
        self.edited.append(self.edited[-1] + edited)


class _Tail:
    """Sums over a tail, after those of the first `length` settled items."""

    __slots__ = ("_length", "_settled", "_tail")

    def __init__(self, settled: list[int], length: int, tail: list[int]) -> None:
        self._settled = settled
        self._length = length
        self._tail = tail

    def __getitem__(self, index: int) -> int:
        at = index - self._length
        return self._settled[index] if at < 0 else self._tail[at]


class _Running(NamedTuple):
    """The sums that one decision looks at."""

    whole: "list[int] | _Tail"
    edited: "list[int] | _Tail"


class _Plan:
    """What the requests so far decided: a fold over the settled items.

    It holds for every head of more than `least` and at most `most` tokens: a head counts only
    where it is asked whether the window is full.
    """

    def __init__(self) -> None:
        self.read = self.cut = self.sent = self.steps = 0
        self.opening = -1
        """The tokens before the agent's first word; -1 as long as it has said nothing."""
        self.hides = False
        """Whether a handle stands for something already."""
        self.answered = self.latest = 0.0
        """When the agent said something last, and when anything was, where what is kept expires."""
        self.results: list[int] = []
        """Where the newest results stand."""
        self.least, self.most = -math.inf, math.inf

    def copy(self) -> "_Plan":
        """A passing copy, for items that may still change."""
        plan = _Plan()
        plan.read, plan.cut, plan.sent, plan.steps = self.read, self.cut, self.sent, self.steps
        plan.opening, plan.hides = self.opening, self.hides
        plan.answered, plan.latest = self.answered, self.latest
        plan.results = self.results[:]
        return plan

    def fits(self, head: int) -> bool:
        """Whether a request with another head would have decided the same."""
        return self.least < head <= self.most

    def take(self, items: Sequence[Item], sums: _Running, head: int, env: Env) -> None:
        """Decide for each request that led to one of these items."""
        expires = env.model.lifetime > 0  # else nobody asks when something was said
        for index, item in enumerate(items, self.read):
            if item.author == env.agent and item.blocks[0].role == "model":
                # the first request of the agent: all before it is the opening
                self.opening = sums.whole[index] if self.opening < 0 else self.opening
                # its answer stands at this place, so the request had all items before it
                self.decide(index, sums, head, env)
                if expires:
                    self.answered = _happened_at(item.position, env)
            if expires:
                self.latest = max(self.latest, _happened_at(item.last, env))
            self.hides = self.hides or (env.tools.priced and needs_recall(item))
            if item.kind == "exchange":
                # one more than `KEEP`: then something stands before the newest, and may be edited
                self.results = [*self.results[-KEEP:], index]
        self.read += len(items)

    def decide(self, asked: int, sums: _Running, head: int, env: Env) -> None:
        """Decide for a request of a number of items whether its older results become handles."""
        self.steps += 1
        # 0: nothing is old yet
        old = self.results[-KEEP] if len(self.results) > KEEP else 0
        cut, sent = self.cut, self.sent
        whole, edited = sums.whole, sums.edited
        # what this edit would take out, besides what the last one took
        removed = _between(whole, cut, old) - _between(edited, cut, old)
        # what was sent after the first change is read again
        again = _between(edited, cut, min(old, sent)) + _between(whole, old, sent)
        stays = env.tools.head + edited[old] + _between(whole, old, asked)
        if env.tools.priced and not self._is_declared(env):
            again = env.tools.head + edited[old] + _between(whole, old, sent)  # one tool more
        saved, cost = (
            removed * env.model.read * self.steps,
            again * (env.model.write - env.model.read),
        )
        if env.tools.priced and self._has_expired(env):
            cost = 0.0  # all of it is written anew, whatever becomes of it
        # below the minimum the provider keeps nothing, so a shorter request costs more
        long = not env.tools.priced or stays >= SURELY * env.model.minimum
        if removed >= LEAST_SAVED and saved > MARGIN * cost and long:
            self.cut = old
        elif removed:
            self._fill(old, edited[cut] + _between(whole, cut, asked), head, env)
        self.sent = asked

    def _has_expired(self, env: Env) -> bool:
        """Whether the provider has let go of what it kept, since the agent spoke so long ago."""
        return 0 < env.model.lifetime < self.latest - self.answered and self.answered > 0

    def _is_declared(self, env: Env) -> bool:
        """Whether `recall` stands among the tools already, so that the head stays as it is."""
        return self.hides or self.cut > 0 or declares_first(max(0, self.opening), env)

    def _fill(self, old: int, tokens: int, head: int, env: Env) -> None:
        """Cut where the window is full, and note for which heads it is, or is not."""
        # the list of windows takes a while to load, and short requests fit everywhere
        looked_up = not env.model.window and head + tokens > LONG
        window = env.model.widest() if looked_up else env.model.window
        if not window:
            if not looked_up:  # with a longer head it would be looked up
                self.most = min(self.most, LONG - tokens)
        elif head + tokens > FULL * window:
            self.cut = old
            edge = max(FULL * window, LONG) if looked_up else FULL * window
            self.least = max(self.least, edge - tokens)
        else:
            self.most = min(self.most, FULL * window - tokens)


def _cut(prompt: Prompt, env: Env) -> int:
    """The place up to which results are handles: what the requests so far decided, in order."""
    items, settled = prompt.items, prompt.items.settled
    past = items.memo[_Past, env.model.dialect, env.model.name]
    sums = past.sums
    head = past.head_tokens(prompt, env)
    key = (
        env.agent,
        env.model.dialect,
        env.model.name,
        env.model.window,
        env.model.read,
        env.model.write,
        env.model.minimum,
        env.model.lifetime,
        env.tools.priced,
        env.tools.head,
    )
    plan = past.plans.get(key)
    if plan is None or plan.read > settled or not plan.fits(head):
        plan = _Plan()
    summed = len(sums.whole) - 1
    start = min(summed, plan.read)
    fresh = settled_since(items, start) if start < settled else ()
    for item in fresh[summed - start :]:
        sums.add(item, env)
    running = _Running(sums.whole, sums.edited)
    if plan.read < settled:
        plan.take(fresh[plan.read - start :], running, head, env)
    # with another head it would have decided otherwise, at a request before
    if plan.fits(head):
        past.plans[key] = plan
    last = plan.copy()
    if items.tail:
        more = _Sums(sums.whole[settled], sums.edited[settled])
        for item in items.tail:
            more.add(item, env)
        running = _Running(
            _Tail(sums.whole, settled, more.whole), _Tail(sums.edited, settled, more.edited)
        )
        last.take(items.tail, running, head, env)
    last.decide(items.length, running, head, env)
    return last.cut


class _Past:
    """What the requests over a strand came to: sums over its settled items, the head, the plans."""

    def __init__(self) -> None:
        self.sums = _Sums()
        self.plans: dict[tuple[object, ...], _Plan] = {}
        """The plan of the newest request, by the agent and all that its prices depend on."""
        self._system: tuple[TextBlock, ...] | None = None
        self._tools: tuple[ToolDecl, ...] = ()
        self._head = 0

    def head_tokens(self, prompt: Prompt, env: Env) -> int:
        """The tokens before the items, counted once for the same system text and tools."""
        if self._system != prompt.system or self._tools is not prompt.tools:
            texts = (prompt.system_text, *map(str, prompt.tools))
            self._system, self._tools = prompt.system, prompt.tools
            self._head = sum(map(env.tokens.count, texts))
        return self._head


def _happened_at(position: int, env: Env) -> float:
    return env.log[position].timestamp if 0 <= position < env.log.length else 0.0


def _between(sums: "list[int] | _Tail", start: int, end: int) -> int:
    return sums[end] - sums[start] if end > start else 0


def _is_editable(item: Item) -> bool:
    """Whether it is a call with results that are all there."""
    return item.kind == "exchange" and not item.open


def _is_long(block: Block, tokens: int) -> TypeGuard[ResultBlock]:
    """Whether it is a result whose handle is so much shorter that it is worth it.

    What was recalled stays.
    """
    if not isinstance(block, ResultBlock) or tokens <= 2 * STUB:
        return False
    return not block.synthetic and not block.is_error and block.name != RECALL


def _edited(item: Item, env: Env) -> Item:
    """The item with the handles of its results; one that is short already stays."""
    both = zip(item.blocks, block_tokens(item, env), strict=True)
    blocks = tuple(_stubbed(block, tokens, item, env) for block, tokens in both)
    return item if blocks == item.blocks else msgspec.structs.replace(item, blocks=blocks)


def _stubbed(block: Block, tokens: int, item: Item, env: Env) -> Block:
    if not _is_long(block, tokens):
        return block
    whole = read_logged(block, item, env)
    # from the log: a stub of the whole value, not of its digest
    if isinstance(whole, dict):
        block = msgspec.structs.replace(block, response=whole)
    return compact_result(block, item, env, HandleLimits(STUB, STUB))
