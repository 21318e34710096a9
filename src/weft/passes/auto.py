"""C.auto(): what a new result becomes, so that it costs less and still says what was asked.

What stands in view already is said by reference, records become tables, and what is still large
becomes a digest with a handle, which keeps what the call asked for. Prices decide, by the rules of
the provider. It happens when the result is new, or, where one is careful, a step later.
"""

import sys
from collections.abc import Callable, Container, Mapping, Sequence
from copy import copy
from functools import lru_cache, partial

import msgspec

from weft.declare.policy_parts import Compact
from weft.diagnostics import Origin
from weft.digest.asked import (
    CallQuery,
    NumberedWindow,
    read_query,
    shows_all,
    tells_around,
    window_of,
)
from weft.digest.lines import names_in
from weft.digest.repeats import (
    LEAST,
    Stock,
    Stretch,
    runs_in,
    stretches,
    tabled_object,
    tabled_text,
)
from weft.ir import (
    Block,
    CallBlock,
    Item,
    Note,
    Prompt,
    Reference,
    ResultBlock,
    TextBlock,
)
from weft.ir.block import RECALL
from weft.passes.env import Env, text_in
from weft.passes.handles import (
    HandleLimits,
    Traffic,
    compact_text,
    read_logged,
    result_limits,
    sent_text,
    short_result,
    sole_text,
    text_limits,
    weigh_seen,
    weigh_shorter,
)
from weft.passes.references import (
    own_results,
    reference_to,
    reference_to_end,
    source_of,
)
from weft.passes.rewrite import PassFold, rewrite_items
from weft.session.strand import Strand
from weft.values import Json, JsonObject, compact

AUTO = Compact(results=250, texts=4_000, media=2_000, to=400)
"""The limits of `C.auto()` in tokens: of results and texts when they are new, of media later.

They were set on the part of the recorded coding runs and service chats that docs/replay.md calls
"to set the limits". Those of results grow with `_SAMPLE`.
"""

LOSSLESS = Compact(results=sys.maxsize, texts=None, media=None)
"""The limits of `C.auto(lossless=True)`: nothing is large enough for a digest."""

WINDOW_TO = 1_100
"""How many tokens of a window of numbered lines stay at most: most of it may be asked for.

It was set on the same runs.
"""

_SAMPLE = '''[File: /shop/orders/basket.py (214 lines total)]
(11 more lines above)
12:class Basket(Container):
13:    """The things that somebody is about to buy."""
14:
15:    def add_item(self, item, count=1):
16:        if item.price is None:
17:            raise ValueError("a price is missing: %s" % item.key)
18:        self.items[item.key] = self.items.get(item.key, 0) + count
19:        return self.total_price(include_tax=True)
(195 more lines below)
'''
"""Lines as a coding agent reads them. A model that takes more tokens for them gets larger limits.

Newer Claude models take half as many tokens again for the same code. With one limit for all, they
saw fewer lines, and each recall of the others cost more.
"""

_SAMPLE_TOKENS = 121
"""The tokens of the sample in the count that the limits were set with."""

_MOST_SPREAD = 2.0
"""How many times larger the limits get at most."""

SHORT_VALUE = 400
"""In letters. Records with longer values hold texts, which are sent whole when they are new."""

REMEMBERED = 2
"""How many of the agent's turns before a call say what it looks for."""

FIELD = 0.5
"""The weight of a field that is called like an argument which the agent has passed before."""

PAYS = 1.5
"""The lines that a reference stands for must have at least this many times its own tokens."""

MOST_REFERRED = 50_000
"""In letters. Nothing refers to a longer text: every request bounds it, so it is not in view."""


class _Both:
    """Two sets looked at as one: names of the final items, and of the fresh ones so far."""

    def __init__(self, settled: Container[str]) -> None:
        self._read_final_items = settled
        self.fresh: set[str] = set()

    def __contains__(self, one: object) -> bool:
        return isinstance(one, str) and (one in self._read_final_items or one in self.fresh)


class _Words(msgspec.Struct):
    """What was said last: by the user, by the agent, and by its newest result.

    `fields` are the arguments of the agent's calls so far: a result that has a field of that name
    is likely to be asked for it.
    """

    question: str = ""
    spoken: tuple[str, ...] = ()
    result: str = ""
    fields: frozenset[str] = frozenset()

    def add(self, item: Item, agent: str) -> None:
        """Take in an item as it is sent."""
        if item.kind == "user":
            self.question = text_in(item)
        elif item.author == agent and (text := text_in(item)):
            self.spoken = (*self.spoken, text)[-REMEMBERED:]
        for block in own_results(item, agent):
            self.result = sole_text(block.response)
        for call in item.blocks if item.author == agent else ():
            if isinstance(call, CallBlock) and not self.fields.issuperset(call.args):
                self.fields = self.fields | {name.lower() for name in call.args}

    def read_query(self, block: ResultBlock, item: Item) -> CallQuery:
        """What the call of a result asked for, with what was said before it."""
        calls = (one for one in item.blocks if isinstance(one, CallBlock))
        call = next((one for one in calls if one.id == block.call_id), None)
        arguments = _spelled_arguments(call.args if call is not None else {})
        asked = read_query(
            arguments,
            text_in(item),
            earlier=self.spoken,
            question=self.question,
            tool=block.name,
        )
        seen = frozenset(self.result.split("\n")) if self.result else frozenset[str]()
        names = {**asked.names, **dict.fromkeys(self.fields, FIELD)} if self.fields else asked.names
        return asked._replace(seen=seen, names=names)


def _spelled_arguments(arguments: JsonObject) -> list[str]:
    """The arguments of a call as texts, each by itself, those in lists and objects too."""
    texts: list[str] = []
    waiting: list[Json] = [*arguments.values()]
    while waiting and len(texts) < 100:
        value = waiting.pop(0)
        if isinstance(value, dict):
            waiting += value.values()
        elif isinstance(value, list):
            waiting += value
        elif isinstance(value, str):
            texts.append(value)
        elif value is not None:
            texts.append(compact(value))
    return texts


class _FinalTexts(msgspec.Struct):
    """What the final items say: their lines, names and words; and how many of them were read."""

    read: int = 0
    results: int = 0
    seen: bool = False
    """Whether results were sent whole before they are said in short."""
    lines: Stock = msgspec.field(default_factory=Stock)
    names: set[str] = msgspec.field(default_factory=set[str])
    words: _Words = msgspec.field(default_factory=_Words)
    traffic: Traffic = msgspec.field(default_factory=Traffic)


class _ResultView:
    """What stands in view: what the final items say, and on top of it what the fresh ones do."""

    def __init__(self, settled: "_FinalTexts | _ResultView") -> None:
        self.lines: Stock = Stock(settled.lines)
        self.names: _Both = _Both(settled.names)
        self.words: _Words = copy(settled.words)
        self.seen: bool = settled.seen
        self.results: int = settled.results
        """How many results of the agent there are by now."""
        self.traffic: Traffic = copy(settled.traffic)
        self.verdicts: list[str] = []
        """What prices said of the results of the item in hand."""
        self.wholes: dict[Origin, Json] = {}
        """The results of the item in hand as the log has them."""

    def add(self, item: Item, env: Env) -> None:
        """Remember what an item says, as it is sent."""
        wholes, self.wholes = self.wholes, {}
        self.results = _read(item, env, self.results, self.lines, self.names.fresh, wholes)
        self.words.add(item, env.agent)
        # only prices look at the traffic
        if env.tools.priced:
            self.traffic.add(item, env)


def reduce_results(prompt: Prompt, env: Env, options: Compact) -> Prompt:
    """Leave out of a fresh result what stands in view already, and of the rest keep a digest.

    JSON loses the blanks between its parts. Lines that follow each other in an earlier result of
    the agent, and stand there as they are, are named by their numbers in it, with its handle.
    What is then still large becomes a handle with a digest, which has room for what is new in it.
    It is decided once, when the result is new, so the bytes that are sent first are those that
    are sent always. Where prices decide, a result becomes a digest only if that is cheaper than
    to send it whole, by the rules of the provider. A tool that says `@tool(compact=False)` is left
    alone.

    Before:  call open(a) -> 90 lines | call edit(a) -> the same 90 lines, one of them changed
    After:   call open(a) -> 90 lines | call edit(a) -> "[as lines 1-40 of open(a) ...]", the one,
             "[as lines 42-90 of open(a) ...]"
    """

    def change(item: Item, view: _ResultView) -> Item | Note:
        return _change("reduce_results", item, view, env, options)

    fresh = prompt
    if prompt.items.settled:  # one view of several looks at all items: O(n) once a request
        fresh = prompt.with_strand(Strand[Item]().with_tail(prompt.items))
    fold = PassFold(lambda: _ResultView(_read_final_items(env)), lambda view: view)
    after = rewrite_items(fresh, "reduce_results", change, fold=fold)
    return prompt if after is fresh else after


def _change(step: str, item: Item, view: _ResultView, env: Env, options: Compact) -> Item | Note:
    """Shorten the results of an item, say why, and add the item to the view."""
    blocks = _reduce_item(item, view, env, options)
    short = item
    if any(new is not old for new, old in zip(blocks, item.blocks, strict=True)):
        short = msgspec.structs.replace(item, blocks=blocks)
    view.add(short, env)
    verdicts, view.verdicts = view.verdicts, []
    shorter = short is not item and any(map(_is_shorter, short.blocks, item.blocks))
    if not shorter and not verdicts:
        return short
    reason = "what is in view already is said by reference, the rest in a digest"
    if not shorter:
        reason = "it stays whole, which is cheaper than a digest"
    return Note(step, "; ".join((reason, *verdicts)), item, short)


def reduce_seen(prompt: Prompt, env: Env, options: Compact) -> Prompt:
    """As `reduce_results`, but each result is shown whole once, until the next one arrives.

    The newest exchange stands at the end of a request, after what the provider is asked to keep.
    When the next one comes, what was seen is said in short, and only that is read anew. Where a
    provider keeps everything unasked, the change costs what `WEFT502` says.

    Before:  call open(a) -> 90 lines | call open(b) -> 90 lines
    After:   call open(a) -> a digest | call open(b) -> 90 lines
    """
    items = prompt.items
    with items.lock:
        newest = _newest_exchange(items, env)
        key = (env.agent, env.model.dialect, env.model.name, env.tools.priced, env.tools.head)
        seen = items.memo[_SeenItems, key]
        # the newest exchange is sent whole now and in short later: nothing of it is kept
        until = min(newest, items.settled)
        if seen.read > until:  # an older snapshot is worked out by itself
            seen = _SeenItems()
        view, notes = seen.view, list[Note]()
        seen.items = seen.items.grown(
            _seen_items(items.between(seen.read, until), view, notes, env, options)
        )
        seen.notes, seen.read = seen.notes.grown(notes), until
        passing, tail_notes = _ResultView(view), list[Note]()
        tail = _seen_items(items.between(until, newest), passing, tail_notes, env, options)
        rest = items.between(newest, len(items))
        if rest:
            # the newest is sent whole; this only tells whether the next request says it in short
            short = _change(_SEEN, rest[0], passing, env, options)
            if isinstance(short, Note) and short.after is not None and short.after != rest[0]:
                rest[0] = msgspec.structs.replace(rest[0], passing=True)
        return prompt.with_strand(
            seen.items.with_tail([*tail, *rest]), seen.notes.with_tail(tail_notes)
        )


_SEEN = "reduce_seen"


class _SeenItems:
    """The settled items in their short form, and how many of them were read."""

    def __init__(self) -> None:
        self.read = 0
        self.items: Strand[Item] = Strand()
        self.notes: Strand[Note] = Strand()
        self.view = _ResultView(_FinalTexts(seen=True))


def _newest_exchange(items: Strand[Item], env: Env) -> int:
    """Where the agent's newest results stand, if nobody has answered them; else the end."""
    index = len(items)
    while index > 0:
        item = items[index - 1]
        if item.author == env.agent:
            return index - 1 if item.kind == "exchange" else len(items)
        index -= 1
    return len(items)


def _seen_items(
    items: Sequence[Item], view: _ResultView, notes: list[Note], env: Env, options: Compact
) -> list[Item]:
    """The items in short; what there is to say about them is added to the notes."""
    short: list[Item] = []
    for item in items:
        after = _change(_SEEN, item, view, env, options)
        if isinstance(after, Note):
            notes.append(after)
            after = after.after if after.after is not None else item
        short.append(after)
    return short


def _is_shorter(new: Block, old: Block) -> bool:
    """Whether a block says less than before; else only what is known about it has changed."""
    if isinstance(new, ResultBlock) and isinstance(old, ResultBlock):
        return new.response is not old.response
    return new is not old


def _reduce_item(item: Item, view: _ResultView, env: Env, options: Compact) -> tuple[Block, ...]:
    blocks: list[Block] = []
    own = item.author == env.agent and item.kind == "exchange"
    number = view.results
    for block in item.blocks:
        if isinstance(block, ResultBlock):
            blocks.append(_reduce_result(block, item, number if own else -1, view, env, options))
            number += 1
        elif isinstance(block, TextBlock) and options.texts is not None:
            is_own = item.author in ("user", env.agent)
            is_own = is_own or item.kind in ("summary", "system", "state")
            limits = text_limits(options.texts, options)
            blocks.append(block if is_own else compact_text(block, item, env, limits))
        else:
            blocks.append(block)
    return tuple(blocks)


def _reduce_result(
    block: ResultBlock, item: Item, number: int, view: _ResultView, env: Env, options: Compact
) -> ResultBlock:
    """A result in short; `number` counts the agent's own results, and is -1 for those of others.

    What others did is told in other words, so their results neither refer nor are referred to.
    """
    # a placeholder is short, and what was recalled was asked for as it is
    if block.synthetic or block.name == RECALL:
        return block
    whole = read_logged(block, item, env) if number >= 0 else None
    limits = _limits(block.name, env, options)
    if limits is not None:
        own = env.tools.own.get(block.name)
        # a limit that the tool itself declares stands
        ordered = own is not None and own.compact is not None
        limits = limits._replace(
            known=view.names,
            asks=env.tools.priced,
            most=limits.most if ordered else sys.maxsize,
        )
        tight = _tight(block)
        # the first result has none before it to refer to
        folded = _fold_repeats(tight, number, view.lines, env) if number > 0 else tight
        if folded is not block and _is_priced(folded, env):
            texts = sent_text(block.response), sent_text(folded.response)
            if not _pays(folded, *map(env.tokens.count, texts), view=view, env=env):
                folded = block
        window = window_of(sole_text(folded.response))
        if window is not None:
            # who opens a short file reads all of it
            lenient = shows_all(window) and not ordered
            most = int(WINDOW_TO * _spread(env.tokens.count))
            over = max(limits.over, most) if lenient else limits.over
            limits = limits._replace(over=over, to=max(limits.to, most))
        asking = partial(_asked_by, view, block, item, folded)
        short = None
        # what was seen whole once, and what its tool asks for, may be said in short in any form
        if view.seen or ordered or _is_sure(folded, window):
            short = short_result(folded, item, env, limits, asking=asking, whole=whole)
        block = folded
        if short is not None:
            new, before, after = short
            if not _is_priced(new, env) or _pays(new, before, after, view=view, env=env):
                block = new
    if whole is None:
        return block
    view.wholes[block.origin] = whole
    return _record_lines(block, whole)


def _is_sure(block: ResultBlock, window: NumberedWindow | None) -> bool:
    """Whether a digest of a new result keeps what the next step needs, by the shape of the result.

    It does of records with short values, and of a window that says what lies around it. Of a whole
    file, a log, a list of paths or a page it hid a quarter of what today's agents used next: these
    are sent whole, and folded when their rent is due.
    """
    if window is not None:
        return tells_around(window)
    text = sole_text(block.response)
    if not text:
        return not _has_long_text(block.response)
    if text[:1] not in ("[", "{"):
        return False
    try:
        return not _has_long_text(msgspec.json.decode(text))
    except (msgspec.DecodeError, RecursionError):
        return False


def _has_long_text(value: Json) -> bool:
    """Whether a value holds a text that would be shortened itself, such as what a command said."""
    waiting: list[Json] = [value]
    while waiting:
        one = waiting.pop()
        if isinstance(one, str) and len(one) > SHORT_VALUE:
            return True
        if isinstance(one, dict | list):
            waiting += one.values() if isinstance(one, dict) else one
    return False


def _limits(tool: str, env: Env, options: Compact) -> HandleLimits | None:
    """The limits of a tool's results: as the tool declares, else scaled to the model's tokens."""
    limits = result_limits(tool, env, options)
    own = env.tools.own[tool].compact if tool in env.tools.own else None
    if limits is None or (own is not None and own is not True):
        return limits
    if options is LOSSLESS:
        return limits
    spread = _spread(env.tokens.count)
    return limits._replace(over=int(limits.over * spread), to=int(limits.to * spread))


@lru_cache(maxsize=64)
def _spread(count: Callable[[str], int]) -> float:
    """How many times `_SAMPLE_TOKENS` a model takes for the sample, in tenths; at least 1."""
    return min(max(1.0, round(count(_SAMPLE) / _SAMPLE_TOKENS, 1)), _MOST_SPREAD)


def _asked_by(view: _ResultView, block: ResultBlock, item: Item, folded: ResultBlock) -> CallQuery:
    """What a result was asked for. What a window ends with by reference counts as seen."""
    asked = view.words.read_query(block, item)
    text = sole_text(folded.response)
    if window_of(text) is None:
        return asked
    ends = {one.words for one in folded.refers if text.endswith(one.words)}
    return asked._replace(seen=asked.seen | ends)


def _is_priced(short: ResultBlock, env: Env) -> bool:
    """Whether prices decide about a shorter form; a digest that its tool asks for is an order."""
    own = env.tools.own.get(short.name)
    return env.tools.priced and not (short.handle and own is not None and own.compact is not None)


def _pays(short: ResultBlock, before: int, after: int, *, view: _ResultView, env: Env) -> bool:
    """Whether a shorter form is the cheaper one, by the tokens before and after."""
    weigh = weigh_seen if view.seen else weigh_shorter
    verdict = weigh(before, after, view.traffic, env, hides=bool(short.handle))
    # a reference that pays needs no word: nothing is hidden by it
    if short.handle or not verdict.pays:
        view.verdicts.append(verdict.words)
    return verdict.pays


def refer_anew(
    block: ResultBlock,
    item: Item,
    number: int,
    before: Sequence[tuple[ResultBlock, Item, int]],
    env: Env,
) -> ResultBlock:
    """Shorten a result once more, so that it refers only to these others, each with its number."""
    # what was sent changes here already, and handles stand in view: prices decide no more
    tools = msgspec.structs.replace(env.tools, priced=False)
    env = msgspec.structs.replace(env, tools=tools)
    view = _ResultView(_FinalTexts())
    for other, home, place in before:
        whole = read_logged(other, home, env)
        _stock(_record_lines(other, whole), home, place, whole, view.lines)
    return _reduce_result(block, item, number, view, env, AUTO)


def _stock(block: ResultBlock, item: Item, number: int, whole: Json, lines: Stock) -> None:
    """Add the lines of a result that stand in view to those that others may refer to."""
    text = sole_text(whole) if isinstance(whole, dict) else ""
    # `()` says that nothing of its text is in view any more
    if block.stands == () or not _is_source(block, text):
        return
    source = source_of(block, item, number, whole)
    lines.add(source, block.stands if block.stands is not None else ((0, len(source.lines)),))


def _tight(block: ResultBlock) -> ResultBlock:
    """The result without what JSON says twice: blanks, and the names of fields in each record."""
    text = sole_text(block.response)
    if not text:
        table = tabled_object(block.response)
        if table is block.response:
            return block
        return msgspec.structs.replace(block, response=table)
    tight = tabled_text(text)
    # the text is only ever the same or shorter
    if len(tight) == len(text):
        return block
    return msgspec.structs.replace(block, response=dict.fromkeys(block.response, tight))


def _fold_repeats(block: ResultBlock, number: int, stock: Stock, env: Env) -> ResultBlock:
    """The result without what stands in view already; itself where that is nothing."""
    text = sole_text(block.response)
    lines = text.split("\n")
    lines_sent: list[str] = []
    refers: list[Reference] = []
    done = 0
    size = len(lines)

    def is_worth(stretch: Stretch) -> bool:
        return _reference_for(stretch, number, size, env) is not None

    for one in stretches(lines, stock, is_worth):
        reference = _reference_for(one, number, size, env)
        assert reference is not None
        refers.append(reference)
        lines_sent += [*lines[done : one.start], refers[-1].words]
        done = one.start + one.size
    if not refers:
        return block
    response = dict.fromkeys(block.response, "\n".join([*lines_sent, *lines[done:]]))
    return msgspec.structs.replace(
        block, response=response, refers=tuple(refers), whole=block.response
    )


def _reference_for(stretch: Stretch, number: int, size: int, env: Env) -> Reference | None:
    """The reference for a stretch of a text with `size` lines; None if it is hardly shorter.

    A shell ends each result with the same few lines. What both texts end with has shorter words.
    """
    source, end = stretch.source, stretch.line + stretch.size
    lines = "\n".join(source.lines[stretch.line : end])
    reference = reference_to(stretch, number, names_handle=not env.policy.facts.is_lossless)
    if _is_worth(lines, reference, env):
        return reference
    # the full words name call, lines and handle; for a few last lines they take too much
    if stretch.start + stretch.size == size and end == len(source.lines):
        reference = reference_to_end(stretch, number)
        return reference if _is_worth(lines, reference, env) else None
    return None


def _is_worth(lines: str, reference: Reference, env: Env) -> bool:
    """Whether lines take more than the words that stand for them."""
    words = reference.words
    # letters first: they cost nothing to count
    return len(lines) > len(words) and env.tokens.count(lines) >= PAYS * env.tokens.count(words)


def _record_lines(block: ResultBlock, whole: Json) -> ResultBlock:
    """The result with a record of which lines of its text in the log stand in it."""
    text = sole_text(block.response)
    logged_text = sole_text(whole) if isinstance(whole, dict) else ""
    if text == logged_text and block.stands is not None:
        return msgspec.structs.replace(block, stands=None)
    if text == logged_text or not _is_source(block, logged_text):
        return block
    return msgspec.structs.replace(block, stands=runs_in(text, logged_text))


def _is_source(block: ResultBlock, whole: str) -> bool:
    """Whether lines of a result may be referred to: it can be recalled, and has several."""
    own = not block.synthetic and block.name != RECALL
    return own and len(whole) <= MOST_REFERRED and whole.count("\n") + 1 >= LEAST


def _read_final_items(env: Env) -> _FinalTexts:
    """What the final items say; it is kept with them."""
    items = env.thread.before
    if not items.settled:
        return _FinalTexts()
    with items.lock:
        settled = items.memo[_FinalTexts]
        if settled.read < items.settled:
            for item in items.between(settled.read, items.settled):
                number, lines, names = settled.results, settled.lines, settled.names
                settled.results = _read(item, env, number, lines, names, {})
                settled.words.add(item, env.agent)
                if env.tools.priced:
                    settled.traffic.add(item, env)
            settled.read = items.settled
        return settled


def _read(
    item: Item,
    env: Env,
    number: int,
    lines: Stock,
    names: set[str],
    wholes: Mapping[Origin, Json],
) -> int:
    """Take in what an item says; return how many results there are by now.

    `wholes` are results as the log has them, where somebody has looked.
    """
    for block in item.blocks:
        if isinstance(block, TextBlock):
            names.update(names_in(block.text))
        elif isinstance(block, ResultBlock):
            names.update(names_in(sole_text(block.response)))
    for block in own_results(item, env.agent):
        whole = wholes[block.origin] if block.origin in wholes else read_logged(block, item, env)
        _stock(block, item, number, whole, lines)
        number += 1
    return number
