"""Say a result in short when it arrives: what is in view by reference, the rest in a digest."""

from collections.abc import Sequence

import msgspec

from weft.declare.policy.transforms import Compact
from weft.digest.names import names_in
from weft.digest.repeats import LEAST, Stock, Stretch, runs_in, stretches, tightened
from weft.ir import Block, Item, Note, Prompt, Reference, ResultBlock, TextBlock
from weft.passes.env import Env
from weft.passes.handles import (
    RECALL,
    Limits,
    compact_result,
    compact_text,
    result_limits,
    sole_text,
)
from weft.passes.restore_references import logged_text, own_results, reference_to, source_of

AUTO = Compact(results=360, texts=4_000, media=2_000, to=270)
"""What `C.auto()` reduces at birth; media when an edit pays."""

PAYS = 1.5
"""How many times the tokens of a reference the lines that it stands for must have."""

MOST = 50_000
"""Longer texts are not referred to, in letters: they never stand in view as they are."""


class _Both:
    """What is in one of two sets: of the items that are final, or of the fresh ones so far."""

    def __init__(self, settled: set[str]) -> None:
        self._settled = settled
        self.fresh: set[str] = set()

    def __contains__(self, one: object) -> bool:
        return one in self._settled or one in self.fresh


class _Said:
    """The lines and the names of the items that are final, and how many of them were read."""

    def __init__(self) -> None:
        self.read = 0
        self.results = 0
        self.lines = Stock()
        self.names: set[str] = set()


class _View:
    """The lines and the names that stand in view."""

    def __init__(self, said: _Said) -> None:
        self.lines = Stock(said.lines)
        self.names = _Both(said.names)
        self.results = said.results
        """How many results of the agent there are by now."""

    def add(self, item: Item, env: Env) -> None:
        """Remember what an item says, as it is sent."""
        self.results = _read(item, env, self.results, self.lines, self.names.fresh)


def reduce_results(prompt: Prompt, env: Env, options: Compact) -> Prompt:
    """Leave out of a fresh result what stands in view already, and of the rest keep a digest.

    JSON loses the blanks between its parts. Lines that follow each other in an earlier result of
    the agent, and stand there as they are, are named by their numbers in it, with its handle.
    What is then still large becomes a handle with a digest, which has room for what is new in it.
    It is decided once, when the result is new, so the bytes that are sent first are those that
    are sent always. A tool that says `@tool(compact=False)` is left alone.

    Before:  call open(a) -> 90 lines | call edit(a) -> the same 90 lines, one of them changed
    After:   call open(a) -> 90 lines | call edit(a) -> "[as lines 1-40 of open(a) ...]", the one,
             "[as lines 42-90 of open(a) ...]"
    """
    view = _View(_settled(env))
    items: list[Item] = []
    notes: list[Note] = []
    for item in prompt.items:
        blocks = _reduced(item, view, env, options)
        short = item
        if any(new is not old for new, old in zip(blocks, item.blocks, strict=True)):
            short = msgspec.structs.replace(item, blocks=blocks)
            if any(_is_shorter(new, old) for new, old in zip(blocks, item.blocks, strict=True)):
                reason = "what is in view already is said by reference, the rest in a digest"
                notes.append(Note("reduce_results", reason, item, short))
        items.append(short)
        view.add(short, env)
    if not notes and all(new is old for new, old in zip(items, prompt.items, strict=True)):
        return prompt
    return prompt.with_items(items, notes)


def _is_shorter(new: Block, old: Block) -> bool:
    """Whether a block says less than before; else only what is known about it has changed."""
    if isinstance(new, ResultBlock) and isinstance(old, ResultBlock):
        return new.response is not old.response
    return new is not old


def _reduced(item: Item, view: _View, env: Env, options: Compact) -> tuple[Block, ...]:
    blocks: list[Block] = []
    own = item.author == env.agent and item.kind == "exchange"
    number = view.results
    for block in item.blocks:
        if isinstance(block, ResultBlock):
            blocks.append(_short(block, item, number if own else -1, view, env, options))
            number += 1
        elif isinstance(block, TextBlock) and options.texts is not None:
            said = item.author in ("user", env.agent)
            said = said or item.kind in ("summary", "system", "state")
            limits = Limits(options.texts, options.to)
            blocks.append(block if said else compact_text(block, item, env, limits))
        else:
            blocks.append(block)
    return tuple(blocks)


def _short(
    block: ResultBlock, item: Item, number: int, view: _View, env: Env, options: Compact
) -> ResultBlock:
    """A result in short; `number` says which of the agent's own it is, -1 of others' none.

    What others did is told in other words, so their results neither refer nor are referred to.
    """
    if block.synthetic or block.name == RECALL:
        return block
    limits = result_limits(block.name, env, options)
    if limits is not None:
        limits = limits._replace(known=view.names)
        block = _tight(block)
        folded = _folded(block, number, view.lines, env) if number >= 0 else block
        block = compact_result(folded, item, env, limits)
    return _placed(block, item, env) if number >= 0 else block


def referring(
    block: ResultBlock,
    item: Item,
    number: int,
    before: Sequence[tuple[ResultBlock, Item, int]],
    env: Env,
) -> ResultBlock:
    """A result in short once more, which refers only to these others, each with its number."""
    view = _View(_Said())
    for other, home, place in before:
        _stock(_placed(other, home, env), home, place, view.lines, env)
    return _short(block, item, number, view, env, AUTO)


def _stock(block: ResultBlock, item: Item, number: int, lines: Stock, env: Env) -> None:
    """Take in what of a result stands in view as it is, if it may be referred to."""
    whole = logged_text(block, item, env)
    if block.stands == () or not _is_source(block, whole):
        return
    source = source_of(block, item, number, env)
    lines.add(source, block.stands if block.stands is not None else ((0, len(source.lines)),))


def _tight(block: ResultBlock) -> ResultBlock:
    text = sole_text(block.response)
    tight = tightened(text)
    if len(tight) == len(text):
        return block
    return msgspec.structs.replace(block, response=dict.fromkeys(block.response, tight))


def _folded(block: ResultBlock, number: int, stock: Stock, env: Env) -> ResultBlock:
    """The result without what stands in view already; itself where that is nothing."""
    text = sole_text(block.response)
    lines = text.split("\n")
    left: list[str] = []
    refers: list[Reference] = []
    done = 0
    for one in stretches(lines, stock, lambda found: _is_worth(found, number, env)):
        refers.append(reference_to(one, number))
        left += [*lines[done : one.start], refers[-1].words]
        done = one.start + one.size
    if not refers:
        return block
    response = dict.fromkeys(block.response, "\n".join([*left, *lines[done:]]))
    return msgspec.structs.replace(
        block, response=response, refers=tuple(refers), whole=block.response
    )


def _is_worth(found: Stretch, number: int, env: Env) -> bool:
    """Whether the lines take more than the words that stand for them."""
    lines = "\n".join(found.source.lines[found.line : found.line + found.size])
    words = reference_to(found, number).words
    return len(lines) > len(words) and env.count(lines) >= PAYS * env.count(words)


def _placed(block: ResultBlock, item: Item, env: Env) -> ResultBlock:
    """The result, which knows what of its logged text stands in it."""
    text, whole = sole_text(block.response), logged_text(block, item, env)
    if text == whole and block.stands is not None:
        return msgspec.structs.replace(block, stands=None)
    if text == whole or not _is_source(block, whole):
        return block
    return msgspec.structs.replace(block, stands=runs_in(text, whole))


def _is_source(block: ResultBlock, whole: str) -> bool:
    """Whether lines of a result may be referred to: it can be recalled, and has several."""
    own = not block.synthetic and block.name != RECALL
    return own and len(whole) <= MOST and whole.count("\n") + 1 >= LEAST


def _settled(env: Env) -> _Said:
    """What items that are final say, kept with them."""
    items = env.before
    with items.lock:
        held = items.memo.setdefault(_Said, _Said())
        assert isinstance(held, _Said)
        for item in items.since(held.read)[: max(0, items.settled - held.read)]:
            held.results = _read(item, env, held.results, held.lines, held.names)
        held.read = max(held.read, items.settled)
        return held


def _read(item: Item, env: Env, number: int, lines: Stock, names: set[str]) -> int:
    """Take in what an item says; how many results there are with it."""
    for block in item.blocks:
        if isinstance(block, TextBlock):
            names.update(names_in(block.text))
        elif isinstance(block, ResultBlock):
            names.update(names_in(sole_text(block.response)))
    for block in own_results(item, env.agent):
        _stock(block, item, number, lines, env)
        number += 1
    return number
