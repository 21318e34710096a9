"""Fold steps that are over into notes, when reading them has cost several times what a note does.

What was sent is read again in every request, for a share of its price. A step that nobody needs any
more still pays that rent. When the rent of such steps is several times what it costs to replace
them, they become one note, which stands before everything that stays: so a note is written once,
the next one follows it, and what the provider has cached up to the last note holds.

All is worked out from the items and the prices alone, request by request, in the order in which
they were made. So a fold that was made once is found again in every later request, at its place.
"""

import math
import sys
from bisect import bisect_left
from collections import ChainMap
from collections.abc import Iterable, Iterator, MutableMapping, Sequence, Set
from copy import copy
from functools import lru_cache
from itertools import groupby
from typing import NamedTuple

import msgspec

from weft.declare.policy import Policy, Stage
from weft.declare.policy_parts import (
    ArtifactText,
    Auto,
    Compact,
    Everything,
    Folding,
    Memories,
    Notes,
    Priority,
    Project,
    Redact,
    StateKeys,
    Truncate,
)
from weft.diagnostics import Origin, Severity, report
from weft.digest.acts import find_action, frame_of, is_remark
from weft.digest.asked import window_of
from weft.digest.names import telling_names
from weft.ir import (
    Block,
    CallBlock,
    CodeBlock,
    Item,
    MediaBlock,
    Note,
    OpaqueBlock,
    Prompt,
    ResultBlock,
    TextBlock,
    ThoughtBlock,
)
from weft.ir.block import FOLDED, RECALL
from weft.ir.prompt import label_of_items
from weft.late import late_pattern
from weft.passes.env import Env, is_spoken
from weft.passes.handles import (
    AT_MOST,
    PAGE,
    SURELY,
    block_tokens,
    declares_first,
    left_out_of,
    needs_recall,
    offer_recall,
)
from weft.passes.notes import (
    NoteDraft,
    StepRole,
    StepSummary,
    merge_notes,
    result_names,
    result_texts,
    said_texts,
    summarize_step,
)
from weft.passes.rewrite import settled_since
from weft.session.strand import Strand
from weft.values import compact

_STEP = FOLDED.name

SOON, LATE, NAMED = 0.01, 0.07, 0.4
"""A step is over when the rent since its last use is this share of what a recall of it costs.

`LATE` is for files that were read and not changed since: they are edited long after that. `NAMED`
is for those of them that the user's task names: they are what is to be changed. All were set on
recorded runs of today's coding agents.
"""

PATIENCE = 2.5
"""A fold is due when the rent of what it takes out is this many times its cost.

Few folds that take out nearly all cost as much as many small ones, which write again what stays,
and the lines that an edit needs are in view for longer.
"""

LEAST = 300
"""How many tokens a fold must take out at least."""

PARTED = 1_000
"""From how many tokens on the calls of one step are folded one by one, each with its result."""

RESTS = 5
"""For how many requests more a file stays that was changed, at least; then it is over soon.

Of 100 readings that were not used for some requests, 18 were needed by a later change where nothing
had changed their file yet, and one where something had.
"""

DEARER = 1.02
"""No fold makes all requests so far this many times dearer than plain history had been.

A recall or two may follow it before the run ends: with them, no run is to cost 3% more. `AT_MOST`
is for a fold that later requests soon pay back: few runs end just then.
"""

CHEAP, RECALLS, UNEARNED = 0.1, 2, 100
"""Where reading is dearer than that, a fold must be able to afford so many recalls.

The last number, divided by the square of that price, need not be earned before. Where reading is
dear, folds come early and recalls are dear, too: with a quarter or a half of a fresh token's price
two of 14 short runs were up to 8% dearer.
"""

SOON_PAID = 0.05
"""A fold is soon paid back by this share of as many requests as there were."""

DENSEST = 8
"""How many letters a token of a note has at most; those of prose have fewer than five."""

FULL = 0.8
"""A request that fills more than this share of the model's window is folded at any cost."""

LONG = 100_000
"""In tokens. Shorter requests need no look at the window: every model of today takes this many."""

LEAST_BUDGET = 16_000
"""Below this budget in tokens a note takes too much of it, so that steps are dropped instead."""

_NEARLY = 0.9
"""A fold is due at this share of a budget: sizes are estimates, and the budget itself is a law."""

_READS = late_pattern(r"(?:^|[;&]\s*|\")(?:cat|nl|head|tail|sed\s+-n)\s(?![^|;&]*<<)")
"""A command that shows a file, and not what another one said or what it is to write."""

_QUOTES = late_pattern(r"\"(?i:old_?(?:str|string|text))\":")
"""A call that quotes the lines of a file that it replaces."""

_EDITS = late_pattern(
    r"\"(?i:(?:old|new)_?(?:str|string|text))\":|\"(?:content|contents|file_text)\":"
    r"|\*\*\* (?:Update|Add|Delete) File: |\bsed\s+-i|<<"
)
"""A call that changes a file, by what it passes on."""

_NAME = late_pattern(r"[\w.@+-]+")
_ENDING = late_pattern(r"[A-Za-z]\w{0,5}(?![\w.])")
_TRIES = 3
"""How many dots of a name are looked at, from its end."""

_MOST_READS = 4
"""How many readings of a file are remembered."""

_USUAL = 3
"""How often a frame must have answered an action before what stands in it counts as a result."""

_STAYS = ("state", "system", "summary", "hidden")
"""Kinds of items that are not steps."""


def fold_steps(prompt: Prompt, env: Env, options: Folding) -> Prompt:
    """Replace steps that are over by a note, when the rent for reading them has paid for it.

    The note has a line for each step and the names in its results (`notes.py`); `recall` gets a
    step back by its number. The head of the conversation, what the user asks now, the newest
    steps, what waits for a result, tier 1 and what carries a label stay as they are.

    Before:  user "go" | call read(a) -> 2,000 tokens | ... | call read(z) -> 2,000 tokens
    After:   user "go" | user "[Folded steps: ...] #1 read a -> ..." | call read(z) -> 2,000 tokens
    """
    return _fold_prompt(prompt, env, _Prices.of(env), options.keep)


def fold_to_fit(prompt: Prompt, env: Env) -> Prompt:
    """Fold steps that are over when a request nearly exceeds its budget, and only then.

    All of them go at once, so that many requests fit before the next one. What still does not fit
    is the business of `fit_budget`.

    Before:  user "go" | call read(a) -> 2,000 tokens | ... | call read(z) -> 2,000 tokens
    After:   user "go" | user "[Folded steps: ...] #1 read a -> ..." | call read(z) -> 2,000 tokens
    """
    budget = env.tokens.budget
    keep = max(Folding().keep, budget.keep_recent or 0) if budget is not None else Folding().keep
    return _fold_prompt(prompt, env, _Prices.of(env)._replace(pays=False), keep)


def needs_fold_to_fit(env: Env) -> bool:
    """Whether a request has a budget that notes may help to keep, and nothing else folds it.

    Where values are to be replaced late, a note might cut one in two.
    """
    limit, budget = env.policy.limit, env.tokens.budget
    if env.policy.facts.folding is not None or not _sees_all(env.policy):
        return False
    if limit is not None and limit.overflow == "degrade" and limit.tokens >= LEAST_BUDGET:
        return True
    redacts = any(isinstance(one, Redact) for one in env.policy.protections)
    return limit is None and budget is not None and budget.tokens >= LEAST_BUDGET and not redacts


_STANDING = (StateKeys, Notes, ArtifactText, Memories)
_BORN = (Compact, Project, Truncate, Priority)
"""What selects nothing of the conversation, and what is done before anything is folded."""


def _talk_stages(policy: Policy) -> list[Stage]:
    return [one for one in policy.stages if not isinstance(one.selector, _STANDING)]


def _sees_all(policy: Policy) -> bool:
    """Whether an agent sees the whole conversation, so that its size is known before views."""
    stages = _talk_stages(policy)
    whole = len(stages) == 1 and isinstance(stages[0].selector, Everything | Auto)
    return whole and all(isinstance(step, _BORN) for step in stages[0].steps)


def _pins_later(policy: Policy) -> bool:
    """Whether something is put in tier 1 after folds, so that nobody knows yet what must stay."""
    if all(step != Priority(1) for stage in policy.stages for step in stage.steps):
        return False
    stages = _talk_stages(policy)
    pins = any(step == Priority(1) for stage in stages for step in stage.steps)
    return pins and (len(policy.stages) > 1 or not _sees_all(policy))


def _fold_prompt(prompt: Prompt, env: Env, prices: "_Prices", keep: int) -> Prompt:
    """The prompt with notes, and with `recall`, which gets back what they stand for."""
    items = prompt.items
    # without the tool a step could not be got back
    recalls = env.tools.recall is not None or any(tool.name == RECALL for tool in prompt.tools)
    if items.length <= keep or not recalls or _pins_later(env.policy):
        return _with_problem(prompt, env, prices.head, stays="")
    prices = prices._replace(limit=_limit_of(prompt, env))
    with items.lock:
        folds = _folds_of(items, env, prices, keep, spare=-1)
        if folds.newest_spoken >= env.turn:
            # a turn that goes on after another one began: what it was asked stays in view
            folds = _folds_of(items, env, prices, keep, spare=env.turn)
        prompt = _with_problem(prompt, env, folds.view, stays=folds.find_obstacle())
        if folds.sent is None:
            return prompt
        after = prompt.with_strand(folds.sent.with_tail(folds.tail), folds.reasons)
    return offer_recall(after, env)


def _with_problem(prompt: Prompt, env: Env, view: int, *, stays: str) -> Prompt:
    """The prompt, and what is wrong with it: folds do not help, or `stays` says what they lack."""
    window = _window_for(view, env)
    if not stays and not 0 < window < view:
        return prompt
    message = stays
    severity: Severity | None = Severity.INFO
    hint = "leave out .priority(1) or the label where steps may become notes, or .fold()"
    if 0 < window < view:
        head, severity = env.tools.head, None
        message = (
            f"the request takes about {view:,} tokens, and {prompt.model} takes {window:,};"
            f" {head:,} of them stand before the conversation"
        )
        message += f"; {stays}" if stays else ""
        if 2 * head > window:
            hint = "write a shorter instruction, or fewer tools, or take a model with more room"
        elif not stays:
            hint = f"write .budget({window}), which also leaves things out"
    diagnostic = report(
        "WEFT509", Origin("field", "context", env.agent), message, hint, severity=severity
    )
    return msgspec.structs.replace(prompt, diagnostics=(*prompt.diagnostics, diagnostic))


def _window_for(view: int, env: Env) -> int:
    """The tokens that the model takes, 0 if that is not known or surely more than `view`."""
    # the list of windows takes a while to load, and short requests fit everywhere
    return env.model.window or (env.model.widest() if view > LONG else 0)


class _Cliff(NamedTuple):
    """A number of tokens from which on all of them cost that many times as much."""

    start: float
    times: float


def _cliff_at(view: int, env: Env) -> _Cliff | None:
    """The highest cliff that a request has nearly reached, or is beyond; None for none."""
    if view < _NEARLY * LONG:
        return None
    reached = (_Cliff(_NEARLY * start, times) for start, times in env.model.cliffs())
    return max((one for one in reached if view > one.start and one.times > 1), default=None)


def _limit_of(prompt: Prompt, env: Env) -> int:
    """The tokens from which on a budget makes a fold due; 0 where there is none."""
    limit, budget = env.policy.limit, env.tokens.budget
    budgets = [one for one in (limit, budget) if one is not None and one.tokens >= LEAST_BUDGET]
    if not budgets or env.tokens.measure is None:
        return 0
    from weft.passes.budget import room_for

    return int(_NEARLY * min(room_for(prompt, env, one).counted for one in budgets))


def _folds_of(
    items: Strand[Item], env: Env, prices: "_Prices", keep: int, *, spare: int
) -> "_Folds":
    """What the requests so far folded, and this one."""
    known = items.memo[_KnownFolds, env.agent, env.model.dialect, env.model.name].by_key
    key = (keep, prices, spare)
    folds = known.get(key)
    if folds is None:
        if len(known) >= _MOST_KNOWN:
            known.clear()
        folds = known[key] = _Folds(prices, keep, spare)
    elif folds.read > items.settled:  # an older snapshot is worked out by itself
        folds = _Folds(prices, keep, spare)
    if folds.read < items.settled:
        try:
            folds.take(items, settled_since(items, folds.read), env)
        except BaseException:
            known.pop(key, None)  # it may be half way
            raise
    if items.tail:
        folds = folds.over()
        folds.take(items, items.tail, env)
    plan = folds.plan(env)
    if isinstance(plan, _Fold):
        folds = folds if items.tail else folds.over()
        folds.apply(plan, items)
    return folds


class _Prices(NamedTuple):
    """What decides about a fold: shares of a fresh token's price, and the provider's rules."""

    read: float
    write: float
    minimum: int
    lifetime: float
    head: int
    """The tokens before the conversation."""
    recall: int
    """The tokens of the declaration of `recall`, where it waits for the first handle."""
    limit: int = 0
    """The tokens from which on a fold is due at any cost; 0 for none."""
    pays: bool = True
    """Whether a fold is due when it pays."""
    binds: bool = False
    """Whether the model refuses a thought of its own if something before it has changed."""
    forgives: bool = False
    """Whether its provider was asked to drop such a thought, and to go on."""
    finds_any: bool = True
    """Whether it finds any prefix again that it has read, and not only what ends at a mark."""

    @staticmethod
    def of(env: Env) -> "_Prices":
        """The prices of the model that is asked."""
        model, tools = env.model, env.tools
        late = tools.recall_tokens if tools.recall is not None else 0
        # a provider that keeps nothing reads every token at its full price
        if model.minimum >= LONG:
            model = msgspec.structs.replace(model, read=1.0, write=1.0, minimum=0, lifetime=0.0)
        return _Prices(
            model.read,
            model.write,
            model.minimum,
            model.lifetime,
            tools.head,
            late,
            binds=model.binds,
            forgives=model.forgives,
            finds_any=model.finds_any,
        )


class _Step(NamedTuple):
    """What may be folded one day: an item in view, or one of its calls with the result.

    `number` counts steps; `place` is the index of the item, and `whole` the item. `share` is the
    share of a recall's cost that its rent must reach before it is over; infinite where it stays.
    What was said and thought before several calls goes with the first one in view: `carried` are
    its tokens.
    """

    number: int
    place: int
    item: Item
    whole: Item
    tokens: int
    share: float
    carried: int = 0


class _Fold(NamedTuple):
    """A fold: which steps go, the note, the names in it, and why, in fresh tokens."""

    gone: frozenset[int]
    note: Item
    tokens: int
    names: set[str]
    reason: str
    known: int
    """The tokens before the note that the provider has read before and finds again."""
    merges: bool
    """Whether the note stands for those before it too."""


class _Bill:
    """What requests have cost so far, and how much of the last one the provider has cached."""

    def __init__(self, prices: _Prices) -> None:
        self._prices = prices
        self.cost = 0.0
        self.cached = 0

    def after(self, tokens: int, cached: int | None = None) -> float:
        """What all of them cost with one more; `cached` is what the provider has of it."""
        prices, cached = self._prices, self.cached if cached is None else cached
        if tokens < prices.minimum:
            return self.cost + tokens
        cached = cached if cached >= prices.minimum else 0
        return self.cost + prices.read * cached + prices.write * (tokens - cached)

    def pay(self, tokens: int) -> None:
        """One more request."""
        self.cost, self.cached = self.after(tokens), tokens


class _Folds:
    """What the requests of an agent folded, as far as items were read."""

    def __init__(self, prices: _Prices, keep: int, spare: int) -> None:
        self._prices = prices
        self._keep = keep
        self._spare = spare
        """The log position from which on nothing that the user said is folded; -1 for none."""
        self.read = 0
        self._count = 0
        """How many steps there were."""
        self.sent: Strand[Item] | None = None
        """The settled items as they are sent; None as long as nothing was folded."""
        self.tail: list[Item] = []
        """What follows them and may still change."""
        self.reasons: Strand[Note] = Strand()
        self.newest_spoken = -1
        """The highest log position of the user's words in a note."""
        self._requests = 0
        self._front: list[Item] = []
        """The items that the conversation begins with, and the notes."""
        self._before = prices.head
        """The tokens of all that stands before the first step."""
        self._opening = -1
        """The tokens of the items before the agent's first word; -1 until then."""
        self._steps: list[_Step] = []
        self._used: dict[int, int] = {}
        """By the number of a step in view: the request after which it was used last."""
        self._holders: MutableMapping[str, int] = {}
        """The newest step that told the agent a name."""
        self._reads: MutableMapping[str, tuple[int, ...]] = {}
        """The newest steps that showed a file, by its name."""
        self._files_shown: dict[int, frozenset[str]] = {}
        """By the number of a step in view that showed files: those not changed since."""
        self._task_files: frozenset[str] = frozenset()
        self._named: frozenset[str] = frozenset()
        """The files that the user names in what it begins with, and in the newest words too."""
        self._task: set[str] = set()
        self._known: set[str] = set()
        """The names that stand in what it begins with, and those in the notes too."""
        self._opened = self._note_tokens = 0
        """How many items it begins with, and the tokens of the notes after them."""
        self._tokens = 0
        """The tokens of the steps in view."""
        self._free = 0
        """How many of them may be folded one day."""
        self._all = prices.head
        """The tokens of plain history."""
        self._moment = 0
        """The same, each times the request after which the step was used last."""
        self._turn: int = 0
        self._invocation: str = ""
        """The index at which the current turn begins, and its invocation."""
        self._asked = 0
        """The index of the newest words of the user."""
        self._action = ""
        """The action that the newest item ends with, if its agent says its actions in words."""
        self._frames: dict[str, int] = {}
        """How often each frame answered such an action."""
        self._results: dict[int, str] = {}
        """By its number: the frame of a step that answers the action just before it."""
        self._thought = -1
        """The index of the newest item with a signed thought."""
        self._due = 0
        """The request before which no fold can be due."""
        self._planned: tuple[int, _Fold | int] | None = None
        """How many items were read when it was planned last, and the plan."""
        self._draft: NoteDraft | None = None
        """The next note, as far as it was written to see whether it can be paid for."""
        self._summaries: dict[int, tuple[Item, StepRole, StepSummary]] = {}
        """What a note may say of the steps in view, for those that were asked for."""
        self._plain = _Bill(prices)
        """What plain history had cost, and what the requests did."""
        self._paid = _Bill(prices)
        self._hides = False
        """Whether a handle stands in view, so that `recall` is declared."""
        self._answered = self._latest = 0.0
        """When the agent spoke last, and when anything was said, where a cache expires."""

    def over(self) -> "_Folds":
        """A passing copy, for items that may still change, and for a fold of this request."""
        folds = copy(self)
        folds._steps, folds._used = self._steps[:], dict(self._used)
        folds._front, folds._files_shown = self._front[:], dict(self._files_shown)
        folds._frames, folds._results = dict(self._frames), dict(self._results)
        folds._holders, folds._reads = ChainMap({}, self._holders), ChainMap({}, self._reads)
        folds._plain, folds._paid, folds.tail = copy(self._plain), copy(self._paid), self.tail[:]
        folds._draft = self._draft.fork() if self._draft is not None else None
        return folds

    # --- what was said and done

    def take(self, items: Strand[Item], fresh: Sequence[Item], env: Env) -> None:
        """Read more items; the request that led to an answer of the agent's may fold."""
        expires = self._prices.lifetime > 0  # else nobody asks when something was said
        added: list[Item] = []
        for item in fresh:
            if item.author == env.agent and item.blocks and item.blocks[0].role == "model":
                if self._opening < 0:
                    self._opening = self._before + self._tokens - self._prices.head
                plan = self.plan(env)
                if isinstance(plan, _Fold):
                    self.apply(plan, items)
                    added = []
                else:
                    self._due = plan
                self._plain.pay(self._all)
                self._paid.pay(self.view + self._declared_tokens(env))
                self._requests += 1
                self._see_uses(item)
                if expires:
                    self._answered = _happened_at(item.position, env)
            if expires:
                self._latest = _happened_at(item.last, env)
            self._hides = self._hides or needs_recall(item)
            self._add(item, env)
            added.append(item)
        if self.sent is not None and self.read <= items.settled:
            self.sent = self.sent.grown(added)
        elif self.sent is not None:
            self.tail += added

    def _see_uses(self, item: Item) -> None:
        """Note which steps an answer uses: it says a name that they told last, or their file."""
        for text in said_texts(item.blocks):
            for name in telling_names(text):
                self._use(self._holders.get(name, -1))
        # whoever changes a file goes on with the lines around, wherever they were read
        changes = any(_QUOTES.search(text) for text in said_texts(item.blocks))
        for name in _files_in(item.blocks, _action_of(item)):
            readings = self._reads.get(name, ())
            for one in readings if changes else readings[-1:]:
                self._use(one)

    def _use(self, index: int) -> None:
        before = self._used.get(index)
        if before is not None and before != self._requests:
            self._used[index] = self._requests
            self._moment += self._size_of(index) * (self._requests - before)

    def _size_of(self, index: int) -> int:
        at = bisect_left(self._steps, index, key=_number_of)
        return self._steps[at].tokens

    def _add(self, item: Item, env: Env) -> None:
        sizes = block_tokens(item, env)
        index, tokens = self.read, sum(sizes)
        self._all += tokens + left_out_of(item, sizes, env)
        self.read += 1
        if any(map(_is_bound, item.blocks)):
            self._thought = index
        names = [name for text in result_texts(item) for name in result_names(text)]
        if is_spoken(item) and (not item.invocation or item.invocation != self._invocation):
            self._turn, self._invocation = index, item.invocation
        action, self._action = self._action, _action_of(item)
        frame = _frame_of(item) if action else ""
        if frame:
            self._results[self._count] = frame
            self._frames[frame] = self._frames.get(frame, 0) + 1
        elif is_spoken(item):
            before = self._named if self._asked == self._turn else self._task_files
            self._named = before.union(find_files("\n".join(result_texts(item))))
            self._asked = self._turn
        # what it begins with is the task, which stays
        if not self._steps and len(self._front) == index and _opens(item):
            self._front.append(item)
            self._opened += 1
            self._before += tokens
            self._known = self._task = self._task | {*names}
            self._task_files = self._named
            return
        answered = action if frame else ""
        for own, size, carried in _split_calls(item, sizes):
            share = _share_of(own, answered, env)
            step = _Step(self._count, index, own, item, size, share, carried)
            self._add_step(step, answered, is_result=bool(frame))
            self._count += 1

    def _add_step(self, step: _Step, answered: str, *, is_result: bool) -> None:
        """Take in a step; `answered` is the action that it answers, if that was said in words."""
        item, number = step.item, step.number
        files = _files_in(item.blocks, answered) if is_result or item.kind == "exchange" else ()
        if step.share == LATE and files:
            self._files_shown[number] = frozenset(files)
            for name in files:
                self._reads[name] = (*self._reads.get(name, ()), number)[-_MOST_READS:]
        elif files and any(_EDITS.search(text) for text in said_texts(item.blocks)):
            for name in files:
                for one in self._reads.get(name, ()):
                    if one in self._files_shown:
                        self._files_shown[one] -= {name}
        names = [name for text in result_texts(item) for name in result_names(text)]
        self._holders.update(dict.fromkeys(names, number))
        self._steps.append(step)
        self._free += step.share < math.inf
        self._used[number] = self._requests
        self._tokens += step.tokens
        self._moment += step.tokens * self._requests

    # --- what to fold

    @property
    def view(self) -> int:
        """The tokens of the next request."""
        return self._before + self._tokens

    def find_obstacle(self) -> str:
        """Why nothing is folded where it would pay: all of it must stay; nothing if some may go."""
        if self._free or not self._has_paid(self._requests + 1) or not self._prices.pays:
            return ""
        return (
            f"none of {len({step.place for step in self._steps})} steps may be folded:"
            " all are in tier 1, open or labelled"
        )

    def _has_paid(self, number: int) -> bool:
        """Whether reading all steps has cost a few times what writing the newest again costs."""
        prices, steps = self._prices, self._steps
        newest = sum(step.tokens for step in steps[self._newest_from() :])
        rent = prices.read * (number * self._tokens - self._moment)
        cost = PATIENCE * (prices.write - prices.read) * newest
        return len(steps) > self._keep and rent >= cost

    def plan(self, env: Env) -> "_Fold | int":
        """The fold of the next request, or the request before which none can be due."""
        # what a request decided is decided again when its answer is read
        if self._planned is None or self._planned[0] != self.read:
            self._planned = self.read, self._plan(env)
        return self._planned[1]

    def _plan(self, env: Env) -> "_Fold | int":
        prices, number = self._prices, self._requests + 1
        steps, view = self._steps, self.view
        # what was thought in this turn must go back, after the very bytes that it followed
        waits = prices.binds and not prices.forgives and self._thought >= self._turn
        if len(steps) <= self._keep or waits:
            return self._due
        room = self._full_room(view, env)
        is_full = room > 0
        is_free = self._has_expired()
        if not is_full and not prices.pays:
            return self._due
        cliff = _cliff_at(view, env) if prices.pays else None
        if not is_full and not is_free and cliff is None:
            if number < self._due:
                return self._due
            if not self._has_paid(number):
                return self._due
        later = number + 1 + len(steps) // 32  # to look at all of them costs as much as they are
        over = [
            step
            for step in steps[: self._newest_from()]
            if self._may_go(step)
            if is_full or self._is_over(step, number)
        ]
        gone = self._whole_pairs(self._whole_talk(over, steps))
        removed = sum(step.tokens for step in gone)
        # below the minimum the provider keeps nothing: of the newest steps more stay
        least = SURELY * prices.minimum - self._before
        while gone and not is_full and self._tokens - removed < least:
            removed -= gone.pop().tokens
            if gone and gone[-1].number + 1 in self._results:  # an action goes with its result
                removed -= gone.pop().tokens
        gone = _keep_signed(gone, steps)
        going = {step.number for step in gone}
        gone = [step for step in _pass_on_shared(steps, going) if step.number in going]
        removed = sum(step.tokens for step in gone)
        rent = sum(self._rent_of(step, number) for step in gone)
        stays = self._tokens - removed
        cost = (prices.write - prices.read) * stays
        known = self._known_before(env)
        cost += (prices.write - prices.read) * (self._before - known)
        if not self._is_declared(env):
            cost += prices.write * prices.recall
        if is_free:  # all of it is written anew, whatever becomes of it
            cost = -prices.write * removed
        elif cliff is not None and self._before + stays < cliff.start:
            cost -= (cliff.times - 1) * prices.read * view  # this very request costs less
        merges = is_full and self._note_tokens > room // 4
        if not merges and (removed < LEAST or (rent < PATIENCE * cost and not is_full)):
            return later
        most = 0.0 if is_full else self._room_for_note(removed, rent, cost, known)
        if most <= 0 and not is_full:
            return later
        summaries = [self._summarize(step, env) for step in gone]
        letters = sys.maxsize if is_full else int(DENSEST * most)
        if self._draft is None:
            self._draft = NoteDraft(self._known, first=self.sent is None)
        text, names = self._draft.write(summaries, most=letters)
        # it takes a while to count it
        tokens = env.tokens.count(text) + _TURN if len(text) <= letters else 0
        if not is_full and (not tokens or tokens > most):
            # its rent may have paid for all of it long ago, where a run that ends soon could not
            if not tokens or rent < OVERDUE * PATIENCE * (cost + prices.write * tokens):
                return later
            text, names = self._draft.write(summaries, share=FEWER * most / tokens)
            tokens = env.tokens.count(text) + _TURN
        if merges:  # a fold of folds: else notes alone would fill the request one day
            text = merge_notes([*self._notes(), text], letters=room // 2)
            removed += self._note_tokens
            tokens = env.tokens.count(text) + _TURN
        cost += prices.write * tokens
        saved = removed - tokens
        if saved <= 0 if is_full else tokens > most:
            return later
        reason = (
            f"{len(gone)} steps became a note of {tokens:,} tokens, which costs"
            f" {max(0.0, cost):,.0f} fresh tokens and saves {prices.read * saved:,.0f}"
            f" at each later request; reading them had cost {rent:,.0f}"
        )
        note = _note_item(text, steps[0].item, [step.item for step in gone] or [self._front[-1]])
        if self._front:  # a note that is merged says what those before it said
            notes = label_of_items((note, *self._front[self._opened :]))
            (block,) = note.blocks
            labelled = msgspec.structs.replace(block, label=notes)
            note = msgspec.structs.replace(note, blocks=(labelled,))
        gone_steps = frozenset(step.number for step in gone)
        return _Fold(gone_steps, note, tokens, names, reason, known, merges)

    def _room_for_note(self, removed: int, rent: float, cost: float, known: int) -> float:
        """The most tokens that a note may have, so that a fold pays which takes `removed` out.

        `cost` is what the fold costs without its note, which is written only if there is room;
        below nothing it is a gain, which a note may use up.
        """
        prices, number = self._prices, self._requests + 1
        by_rent = (rent - PATIENCE * cost) * removed / (rent + PATIENCE * prices.write * removed)
        room = min(by_rent, removed - LEAST)
        if room <= 0:
            return room
        remaining = self.view + prices.recall - removed
        paid = self._paid.after(remaining, known) + self._risk_recalls(remaining, removed)
        plain = self._plain.after(self._all)
        soon = SOON_PAID * number * prices.read
        until_soon = (soon * removed - cost) / (prices.write + soon)
        rooms = [(dearer * plain - paid) / prices.write for dearer in (AT_MOST, DEARER)]
        return min(room, max(min(rooms[0], until_soon), rooms[1], -cost / prices.write))

    def _risk_recalls(self, remaining: int, removed: int) -> float:
        """What recalls after a fold may cost beyond what need not be earned, in fresh tokens.

        Each is a request more, which reads what is `remaining` and brings some steps back.
        """
        prices = self._prices
        if prices.read <= CHEAP:
            return 0.0
        recall = prices.read * remaining + prices.write * min(removed, PAGE)
        return max(0.0, RECALLS * recall - UNEARNED / prices.read**2)

    def _summarize(self, step: _Step, env: Env) -> StepSummary:
        role: StepRole = "result" if step.number in self._results else ""
        if not role and step.number + 1 in self._results:
            role = "action"
        item, known_role, summary = self._summaries.get(step.number, (None, "", None))
        # of the newest ones some may still change
        if summary is None or item is not step.item or known_role != role:
            summary = summarize_step(step.item, env.agent, role)
            self._summaries[step.number] = step.item, role, summary
        return summary

    def _notes(self) -> list[str]:
        """The texts of the notes so far."""
        blocks = (item.blocks[0] for item in self._front[self._opened :] if item.blocks)
        return [block.text for block in blocks if isinstance(block, TextBlock)]

    def apply(self, fold: _Fold, items: Strand[Item]) -> None:
        """Put the note before all steps that stay."""
        passed = _pass_on_shared(self._steps, fold.gone)
        for old, new in zip(self._steps, passed, strict=True):
            self._moment += (new.tokens - old.tokens) * self._used[old.number]
        self._steps = passed
        gone = [step for step in self._steps if step.number in fold.gone]
        self._steps = [step for step in self._steps if step.number not in fold.gone]
        if self._prices.binds:
            self._steps = [step._replace(item=_without_thoughts(step.item)) for step in self._steps]
        if fold.merges:
            self._before -= self._note_tokens
            merged, self._front = self._front[self._opened :], self._front[: self._opened]
            self._note_tokens, self._known = 0, self._task
            why = "it became a part of the next note, as the request was full"
            self.reasons = self.reasons.extend([Note(_STEP, why, one) for one in merged])
        front = len(self._front)
        before = self.sent if self.sent is not None else items
        start = before.fork(front) if front <= before.settled else Strand(self._front)
        settled = _join_parts([step for step in self._steps if step.place < items.settled])
        self.sent = start.grown([fold.note, *settled])
        self.tail = _join_parts([step for step in self._steps if step.place >= items.settled])
        nothing = msgspec.structs.replace(fold.note, blocks=())
        self.reasons = self.reasons.extend(
            [
                Note(_STEP, fold.reason, nothing, fold.note),
                *(Note(_STEP, f"it stands in a note as #{s.item.position}", s.item) for s in gone),
            ]
        )
        self._paid.cached = fold.known
        self._front.append(fold.note)
        self._before += fold.tokens
        self._note_tokens += fold.tokens
        self._known, self._draft = self._known | fold.names, None
        self._hides = True
        self._due = 0
        self._planned = None
        self._free -= len(gone)
        for step in gone:
            self._summaries.pop(step.number, None)
            self._files_shown.pop(step.number, None)
            self._tokens -= step.tokens
            self._moment -= step.tokens * self._used.pop(step.number)
            is_answer = self._results.pop(step.number, None) is not None
            if is_spoken(step.item) and not is_answer and not self._is_remark(step):
                self.newest_spoken = max(self.newest_spoken, step.item.position)

    def _may_go(self, step: _Step) -> bool:
        """Whether nothing but its rent decides about it; what is asked now stays."""
        if step.share == math.inf:
            return False
        if not is_spoken(step.item):
            return True
        if step.number in self._results:
            return self._frames[self._results[step.number]] >= _USUAL
        if self._is_remark(step):
            return True
        return step.place < self._asked and not 0 <= self._spare <= step.item.position

    def _is_remark(self, step: _Step) -> bool:
        """Whether a program said it in the course of the current turn."""
        item = step.item
        if step.place <= self._turn or not item.invocation or item.invocation != self._invocation:
            return False
        return all(
            isinstance(one, MediaBlock) or (isinstance(one, TextBlock) and is_remark(one.text))
            for one in item.blocks
        )

    def _whole_talk(self, over: list[_Step], steps: list[_Step]) -> list[_Step]:
        """The steps, and with words of the user's the answer before them, or neither.

        Else two answers would follow each other, which not every provider takes.
        """
        places = {step.number for step in over}
        whole = list[_Step]()
        for at, step in enumerate(steps):
            if step.number not in places:
                continue
            before = steps[at - 1] if at and is_spoken(step.item) else step
            if before.item.kind == "model" and before.number not in places:
                if step.number in self._results or not self._may_go(before):
                    continue
                whole.append(before)
            whole.append(step)
        return whole

    def _whole_pairs(self, steps: list[_Step]) -> list[_Step]:
        """The steps without an action or its result, where the other one of them stays."""
        if not self._results:
            return steps
        places = {step.number for step in steps}
        return [step for step in steps if self._pair_of(step.number) <= places]

    def _pair_of(self, number: int) -> set[int]:
        """A step, with the action that it answers, or with what answers it."""
        if number in self._results:
            return {number - 1, number}
        return {number, number + 1} if number + 1 in self._results else {number}

    def _newest_from(self) -> int:
        """The index of the first of the newest steps, which stay; an action has its result."""
        start, to_keep = len(self._steps), self._keep
        while start and to_keep:
            start -= 1
            if start and self._steps[start - 1].place == self._steps[start].place:
                continue  # calls of one step are kept together
            to_keep -= self._steps[start].number not in self._results
        return start

    def _rent_of(self, step: _Step, number: int) -> float:
        """What it has cost to read a step since its last use."""
        return self._prices.read * step.tokens * (number - self._used[step.number])

    def _is_over(self, step: _Step, number: int) -> bool:
        """Whether the rent of a step has reached its share of what a recall of it costs."""
        if step.number + 1 in self._results:  # an action goes with its result
            step = self._steps[bisect_left(self._steps, step.number + 1, key=_number_of)]
        share, files = step.share, self._files_shown.get(step.number)
        if files is not None and not files:  # all that it shows was changed since
            if number - self._used[step.number] <= RESTS:
                return False
            share = SOON
        elif files is not None and files & self._named:
            share = NAMED
        recall = self._prices.read * self.view + self._prices.write * step.tokens
        return self._rent_of(step, number) >= share * recall

    def _has_expired(self) -> bool:
        """Whether the provider has let go of what it cached, since the agent spoke so long ago."""
        return 0 < self._prices.lifetime < self._latest - self._answered and self._answered > 0

    def _is_declared(self, env: Env) -> bool:
        """Whether `recall` stands among the tools already, so that the head stays as it is."""
        if env.tools.recall is None or self._hides:
            return True
        return env.tools.priced and declares_first(max(0, self._opening), env)

    def _declared_tokens(self, env: Env) -> int:
        """The tokens of the declaration of `recall` in a request, where Weft adds it."""
        return self._prices.recall if self._is_declared(env) else 0

    def _known_before(self, env: Env) -> int:
        """The tokens before the first step that the provider finds again after a fold.

        Some find only what ends where a request was marked: at the head, and at the last note.
        """
        if not self._is_declared(env):  # one tool more: nothing is read again
            return 0
        if self._prices.finds_any or self.sent is not None:
            return self._before
        return self._prices.head if env.model.marks else 0

    def _full_room(self, view: int, env: Env) -> int:
        """The tokens there are, if a request nearly fills its budget or the window; else 0."""
        if 0 < self._prices.limit < view:
            return self._prices.limit
        window = _window_for(view, env)
        return int(FULL * window) if window and view > FULL * window else 0


_MOST_KNOWN = 4
"""Under how many prices and budgets the folds of one strand are remembered."""


class _KnownFolds:
    """The folds of an agent's requests over one strand, by all that decides about them."""

    def __init__(self) -> None:
        self.by_key: dict[tuple[int, _Prices, int], _Folds] = {}


OVERDUE = 2.0
"""How many times a fold has paid for itself where its note is made shorter, to be made at all."""

FEWER = 0.8
"""The share of its names that a note keeps, for each share of the room that it has.

What is told of a step in its line stays, so names must go faster than the room does.
"""

_TURN = 4
"""The tokens of a turn besides its words, roughly."""


def _is_bound(block: Block) -> bool:
    return isinstance(block, ThoughtBlock) and block.signature is not None


def _without_thoughts(item: Item) -> Item:
    """An item of a finished turn without what was thought in it, which need not go back."""
    blocks = tuple(block for block in item.blocks if not _is_bound(block))
    if not blocks or len(blocks) == len(item.blocks):
        return item
    return msgspec.structs.replace(item, blocks=blocks)


def _split_calls(item: Item, sizes: Sequence[int]) -> list[tuple[Item, int, int]]:
    """Each call of an item with its result, its tokens, and those of what it carries.

    What is said and thought before the calls goes with the first of them. An item that is small,
    or whose calls have not one result each, stays in one piece.
    """
    tokens = sum(sizes)
    if tokens < PARTED or len(item.blocks) < 2 * len(_PAIR):
        return [(item, tokens, 0)]
    pairs = dict[str, list[Block]]()
    own = [_call_of(block) for block in item.blocks]
    for call, block in zip(own, item.blocks, strict=True):
        if call:
            pairs.setdefault(call, []).append(block)
    are_pairs = all([type(one) for one in pair] == _PAIR for pair in pairs.values())
    if len(pairs) < 2 or not are_pairs:
        return [(item, tokens, 0)]
    shared = [block for call, block in zip(own, item.blocks, strict=True) if not call]
    carried = sum(size for call, size in zip(own, sizes, strict=True) if not call)
    parts = list[tuple[Item, int, int]]()
    for name, pair in pairs.items():
        size = sum(size for call, size in zip(own, sizes, strict=True) if call == name)
        part = msgspec.structs.replace(item, blocks=(*shared, *pair))
        parts.append((part, size + carried, carried))
        shared, carried = [], 0
    return parts


_PAIR = [CallBlock, ResultBlock]


def _call_of(block: Block) -> str:
    """The id of the call that a block makes or answers; nothing for other blocks."""
    if isinstance(block, CallBlock):
        return block.id
    return block.call_id if isinstance(block, ResultBlock) else ""


def _join_parts(steps: Iterable[_Step]) -> list[Item]:
    """The items that steps are, and what is left of those that they are parts of."""
    joined = list[Item]()
    for _, parts in groupby(steps, key=_place_of):
        first, *others = parts
        own = {id(block) for part in (first, *others) for block in part.item.blocks}
        blocks = tuple(block for block in first.whole.blocks if id(block) in own)
        joined.append(msgspec.structs.replace(first.whole, blocks=blocks) if others else first.item)
    return joined


def _pass_on_shared(steps: list[_Step], going: Set[int]) -> list[_Step]:
    """The steps; what one of those that go carries is carried by another call that stays."""
    passed = steps
    for at, step in enumerate(steps):
        if step.number not in going or step.item is step.whole:
            continue
        carried = tuple(block for block in step.item.blocks if not _call_of(block))
        heir = _find_heir(steps, at, going) if carried else -1
        if heir < 0:
            continue
        passed = steps[:] if passed is steps else passed
        passed[at] = _with_blocks(step, step.item.blocks[len(carried) :], -step.carried)
        passed[heir] = _with_blocks(steps[heir], (*carried, *steps[heir].item.blocks), step.carried)
    return passed


def _find_heir(steps: list[_Step], at: int, going: Set[int]) -> int:
    """The index of another call of the same item that stays; below 0 for none."""
    for near in (range(at + 1, len(steps)), range(at - 1, -1, -1)):  # they stand side by side
        for one in near:
            if steps[one].place != steps[at].place:
                break
            if steps[one].number not in going:
                return one
    return -1


def _with_blocks(step: _Step, blocks: tuple[Block, ...], more: int) -> _Step:
    """A step with these blocks, where what it carries has so many tokens more."""
    item = msgspec.structs.replace(step.item, blocks=blocks)
    return step._replace(item=item, tokens=step.tokens + more, carried=step.carried + more)


def _keep_signed(gone: list[_Step], steps: list[_Step]) -> list[_Step]:
    """The steps without signed calls, where other calls of the same item stay."""
    going = {step.number for step in gone}
    staying = {
        step.place for step in steps if step.item is not step.whole and step.number not in going
    }
    return [step for step in gone if step.place not in staying or not _is_signed(step.item)]


def _is_signed(item: Item) -> bool:
    return any(
        isinstance(block, CallBlock) and block.signature is not None for block in item.blocks
    )


def _place_of(step: _Step) -> int:
    return step.place


def _number_of(step: _Step) -> int:
    return step.number


def _opens(item: Item) -> bool:
    """Whether an item may be one that the conversation begins with."""
    return item.kind in ("user", "state", "system", "summary")


def _action_of(item: Item) -> str:
    """The action that an agent's words end with; nothing where it makes calls."""
    if item.kind != "model" or not item.blocks:
        return ""
    last = item.blocks[-1]
    return find_action(last.text) if isinstance(last, TextBlock) and last.role == "model" else ""


def _frame_of(item: Item) -> str:
    """The frame of what a program says in place of the user; nothing for words of the user."""
    if not is_spoken(item) or len(item.blocks) != 1:
        return ""
    (block,) = item.blocks
    return frame_of(block.text) if isinstance(block, TextBlock) else ""


def _share_of(item: Item, command: str, env: Env) -> float:
    """The share of a recall's cost that the rent of an item must reach; infinite if it stays.

    `command` is the action that it answers, if that was said in words.
    """
    if item.kind in _STAYS or item.open or item.paused or item.position < 0 or not item.event:
        return math.inf
    if item.priority == 1 or any(block.labels for block in item.blocks):
        return math.inf
    # what a provider ran or wrote for itself is nothing that could be recalled
    if item.kind != "exchange" and any(isinstance(one, OpaqueBlock) for one in item.blocks):
        return math.inf
    own = env.tools.own
    results = [block for block in item.blocks if isinstance(block, ResultBlock)]
    if any(block.name in own and own[block.name].compact is False for block in results):
        return math.inf
    return LATE if _is_file(item) or _READS.search(command) else SOON


def _is_file(item: Item) -> bool:
    """Whether an item shows lines of a file, by the shape of its results or by its command."""
    for block in item.blocks:
        if isinstance(block, CallBlock) and _READS.search(compact(block.args)):
            return True
    return any(window_of(text) is not None for text in result_texts(item))


def _files_in(blocks: Sequence[Block], command: str) -> list[str]:
    """The files that calls or a command name, each by the last part of its path."""
    calls = [block for block in blocks if isinstance(block, CallBlock | CodeBlock)]
    paths = [path for text in (*said_texts(calls), command) for path in find_files(text)]
    return [*dict.fromkeys(paths)]


@lru_cache(maxsize=64)
def find_files(text: str) -> tuple[str, ...]:
    """The names of files in a text, without their folders."""
    return tuple(_names_of_files(text))


def _names_of_files(text: str) -> Iterator[str]:
    for name in [one for one in _NAME.findall(text) if "." in one]:
        name, end = name.lstrip("."), None
        for _ in range(_TRIES):
            end = name.rfind(".", 1, end)
            if end < 0:
                break
            ending = _ENDING.match(name, end + 1)
            if ending is not None:
                yield name[: ending.end()]
                break


def _note_item(text: str, first: Item, gone: Sequence[Item]) -> Item:
    """The item of a note; it stands before `first`, the oldest step in view."""
    block = TextBlock(
        role="user",
        origin=FOLDED,
        text=text,
        handle=f"#{gone[0].position}",
        label=label_of_items(gone),
    )
    return Item(
        kind="summary",
        blocks=(block,),
        author="",
        invocation=first.invocation,
        position=first.position,
        last=max(item.last for item in gone),
        event=gone[-1].event,  # the oldest may have calls that went before
        branch=first.branch,
    )


def _happened_at(position: int, env: Env) -> float:
    return env.log[position].timestamp if 0 <= position < env.log.length else 0.0
