"""References: words that stand for another value, or lines of it, while that is in view.

Who refers to a value says which it is, how far up it stands, which lines of it are meant, and its
handle. When the value goes, or is cut, what referred to it says again what it says without
references; where there is no room for that, the handle alone stays.
"""

from collections.abc import Iterator, Sequence
from typing import NamedTuple, TypeAlias

import msgspec

from weft.digest.repeats import Source, Stretch
from weft.ir import Block, CallBlock, Item, Note, Prompt, Reference, ResultBlock, TextBlock
from weft.passes.env import Env
from weft.passes.handles import handle_of, logged, sole_text
from weft.values import compact

ARGS = 40
"""So many letters of arguments are said with a call; longer ones are left out."""

ROUNDS = 3
"""How often a budget is tried: what is said again takes room, so that more may have to go."""

_Place: TypeAlias = tuple[str, int]
"""Where the log has a value: the event and the part."""


def call_words(block: ResultBlock, item: Item) -> str:
    """The call of a result in words."""
    for one in item.blocks:
        if isinstance(one, CallBlock) and one.id == block.call_id:
            args = compact(one.args) if one.args else ""
            return f"{block.name}({args if len(args) <= ARGS else '…'})"
    return f"{block.name}()"


def back_words(back: int) -> str:
    """How far up a result stands."""
    return f"{back} results above" if back > 1 else "the result above"


def logged_text(block: ResultBlock, item: Item, env: Env) -> str:
    """The one text of a result as the log has it; nothing where it has more, or none."""
    whole = logged(block, item, env)
    return sole_text(whole) if isinstance(whole, dict) else ""


def source_of(block: ResultBlock, item: Item, number: int, env: Env) -> Source:
    """A result as something to refer to: the agent's own so-and-so-manieth."""
    whole = logged(block, item, env)
    return Source(
        sole_text(whole) if isinstance(whole, dict) else "",
        event=block.origin.name,
        part=block.origin.part,
        handle=handle_of(whole),
        words=call_words(block, item),
        number=number,
    )


def reference_to(one: Stretch, number: int) -> Reference:
    """What stands for a stretch of lines in the agent's own so-and-so-manieth result."""
    source = one.source
    back = number - source.number
    where = f"{source.words}, {back_words(back)}, handle {source.handle}"
    return Reference(
        f"[as lines {one.line + 1}-{one.line + one.size} of {where}]",
        source.event,
        source.part,
        source.handle,
        one.line + 1,
        one.line + one.size,
        back,
    )


def own_results(item: Item, agent: str) -> Iterator[ResultBlock]:
    """The results in an item that are sent as results, which are the agent's own."""
    if item.author == agent and item.kind == "exchange":
        yield from (block for block in item.blocks if isinstance(block, ResultBlock))


def restore_references(prompt: Prompt, env: Env) -> Prompt:
    """Say again what refers to something that is not in view any more, or not as it was.

    A policy may drop, cut or replace the result that others refer to. The next one that has its
    lines then says them in full, and the others refer to that one. What a budget will leave out
    is known before, by trying it, so that nothing refers to that either.

    Before:  call open(a) -> "[dropped: ...]" | call edit(a) -> "[as lines 1-40 of open(a) ...]"
    After:   call open(a) -> "[dropped: ...]" | call edit(a) -> 40 lines
    """
    items = prompt.items.since(0)
    if not any(_refers(block) for item in items for block in item.blocks):
        return prompt
    left: _Left | None = None
    after = prompt
    for _ in range(ROUNDS):
        restored = _restored(items, left, env)
        reason = "what it refers to is not in view as it was"
        notes = [
            Note("restore_references", reason, old, new)
            for old, new in zip(items, restored, strict=True)
            if new is not old
        ]
        after = prompt.with_items(restored, notes) if notes else prompt
        found = _left_by_budget(after, env)
        if found is None or found == left:
            break
        left = found if left is None else _Left(left.there & found.there, left.same & found.same)
    return after


class _Left(NamedTuple):
    """The keys of items that a budget leaves, and of those that it leaves as they are."""

    there: frozenset[object]
    same: frozenset[object]


def _left_by_budget(prompt: Prompt, env: Env) -> _Left | None:
    """What the budget will leave of a request; None where it all stays."""
    if env.measure is None or (env.policy.limit is None and env.budget is None):
        return None
    from weft.passes.fit_budget import fit_budget

    fitted = fit_budget(prompt, env)
    if fitted is prompt:
        return None
    before = {item.key: item for item in prompt.items}
    there = {item.key: item for item in fitted.items}
    same = [key for key, item in there.items() if before.get(key) is item]
    return _Left(frozenset(there), frozenset(same))


def _restored(items: Sequence[Item], left: _Left | None, env: Env) -> list[Item]:
    """The items, in which nothing refers to what is not in view."""
    view = _View(env)
    for item in items:
        if left is None or item.key in left.there:
            view.expect(item)
    found: list[Item] = []
    for item in items:
        if left is not None and item.key not in left.there:
            found.append(item)
            continue
        if any(map(view.lacks, item.blocks)):
            blocks = tuple(
                view.said_again(block, item) if view.lacks(block) else block
                for block in item.blocks
            )
            item = msgspec.structs.replace(item, blocks=blocks)
        found.append(item)
        if left is None or item.key in left.same:
            view.add(item)
    return found


def repointed(items: Sequence[Item], before: Sequence[Item], env: Env) -> list[Item]:
    """The items, where what refers to something that has gone since names its handle only."""
    if not any(_refers(block) for item in items for block in item.blocks):
        return list(items)
    view = _View(env, {id(block) for item in before for block in item.blocks})
    for item in items:
        view.expect(item)
        view.add(item)
    found: list[Item] = []
    for item in items:
        blocks = tuple(map(view.repointed, item.blocks))
        new = any(one is not other for one, other in zip(blocks, item.blocks, strict=True))
        found.append(msgspec.structs.replace(item, blocks=blocks) if new else item)
    return found


def notes_on_repointed(after: Sequence[Item], before: Sequence[Item]) -> list[Note]:
    """What there is to say about the items that name a handle only by now."""
    reason = "what it refers to has gone, so its handle stands for it"
    return [
        Note("fit_budget", reason, old, new)
        for new, old in zip(after, before, strict=True)
        if new is not old
    ]


class _View:
    """What is in view, as references name it; `same` blocks are as they were when referred to."""

    def __init__(self, env: Env, same: set[int] | None = None) -> None:
        self._env = env
        self._same = same
        self._blocks: dict[_Place, tuple[Block, Item]] = {}
        self._numbers: dict[_Place, int] = {}
        self._there: set[_Place] = set()
        self._own: list[tuple[ResultBlock, Item, int]] = []

    def expect(self, item: Item) -> None:
        """Count an item that will be in view, in whichever form."""
        self._there.update((block.origin.name, block.origin.part) for block in item.blocks)
        for result in own_results(item, self._env.agent):
            self._numbers[result.origin.name, result.origin.part] = len(self._numbers)

    def add(self, item: Item) -> None:
        """Take in an item as it is sent."""
        for block in item.blocks:
            if isinstance(block, ResultBlock | TextBlock):
                self._blocks[block.origin.name, block.origin.part] = (block, item)
        for result in own_results(item, self._env.agent):
            number = self._numbers.get((result.origin.name, result.origin.part), 0)
            self._own.append((result, item, number))

    def lacks(self, block: Block) -> bool:
        """Whether something that the block refers to is not there."""
        return _refers(block) and any(not self._holds(one, block) for one in _standing(block))

    def said_again(self, block: Block, item: Item) -> Block:
        """The block without references, or with others, to what is in view."""
        if isinstance(block, TextBlock) and block.whole is not None:
            return msgspec.structs.replace(block, text=block.whole, refers=(), whole=None)
        if not isinstance(block, ResultBlock) or block.whole is None:
            return block
        lines = any(one.last for one in block.refers)
        block = msgspec.structs.replace(block, response=block.whole, refers=(), whole=None)
        if not lines:
            return block
        from weft.passes.reduce_results import referring

        number = self._numbers[block.origin.name, block.origin.part]
        return referring(block, item, number, self._own, self._env)

    def repointed(self, block: Block) -> Block:
        """The block with a handle in place of a reference to what is not there."""
        if not isinstance(block, ResultBlock | TextBlock) or not block.refers:
            return block
        gone = [one for one in _standing(block) if not self._holds(one, block)]
        if not gone:
            return block
        left = tuple(one for one in block.refers if one not in gone)
        if isinstance(block, TextBlock):
            return msgspec.structs.replace(
                block, text=_renamed(block.text, gone), spans=(), kept=None, refers=left
            )
        key = next(iter(block.response))
        text = _renamed(sole_text(block.response), gone)
        return msgspec.structs.replace(block, response={key: text}, refers=left)

    def _holds(self, one: Reference, block: Block) -> bool:
        """Whether what the words of a block stand for is in view, where they say it is."""
        source, item = self._blocks.get((one.event, one.part), (None, None))
        if one.newer:
            return (one.event, one.part) in self._there
        if source is None or item is None:
            return False
        if one.back:
            own = self._numbers.get((block.origin.name, block.origin.part), 0)
            if own - self._numbers.get((one.event, one.part), own) != one.back:
                return False
        if self._same is not None and id(source) in self._same:
            return True
        if isinstance(source, TextBlock):
            return isinstance(block, TextBlock) and source.text == block.whole
        if not isinstance(source, ResultBlock):
            return False
        if not one.last:
            return isinstance(block, ResultBlock) and source.response == block.whole
        lines = logged_text(source, item, self._env).split("\n")[one.first - 1 : one.last]
        wanted = "\n".join(lines)
        return f"\n{wanted}\n" in f"\n{sole_text(source.response)}\n"


def _refers(block: Block) -> bool:
    return isinstance(block, ResultBlock | TextBlock) and bool(block.refers)


def _standing(block: Block) -> list[Reference]:
    """The references that a block still has in its text, whatever was done to it since."""
    if isinstance(block, TextBlock):
        return [one for one in block.refers if one.words in block.text]
    if isinstance(block, ResultBlock):
        text = sole_text(block.response)
        return [one for one in block.refers if one.words in text]
    return []


def _renamed(text: str, gone: Sequence[Reference]) -> str:
    """The text with handles in place of the words of some references."""
    for one in gone:
        lines = f"lines {one.first}-{one.last} of " if one.last else ""
        text = text.replace(one.words, f"[left out: {lines}handle {one.handle}]")
    return text
