"""References: words that stand for another value, or lines of it, while that is in view.

Who refers to a value says which it is, how far up it stands, which lines of it are meant, and its
handle. When the value goes, or is cut, what referred to it says again what it says without
references; where there is no room for that, the handle alone stays.
"""

from collections import ChainMap
from collections.abc import Iterator, MutableMapping, Sequence
from typing import TypeAlias

import msgspec

from weft.digest.repeats import LineSource, Stretch
from weft.ir import Block, CallBlock, Item, Note, Reference, ResultBlock, TextBlock
from weft.passes.env import Env
from weft.passes.handles import read_logged, sole_text
from weft.values import Json, compact, handle_of

ARGS = 40
"""How many letters of arguments a reference repeats; longer arguments are left out."""

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
    whole = read_logged(block, item, env)
    return sole_text(whole) if isinstance(whole, dict) else ""


def source_of(block: ResultBlock, item: Item, number: int, whole: Json) -> LineSource:
    """A result to refer to: `whole` is what the log has, `number` counts the agent's own."""
    return LineSource(
        sole_text(whole).split("\n") if isinstance(whole, dict) else [""],
        event=block.origin.name,
        part=block.origin.part,
        words=call_words(block, item),
        handle=handle_of(whole),
        number=number,
    )


def reference_to(one: Stretch, number: int, *, names_handle: bool = True) -> Reference:
    """What stands for a stretch of lines in the agent's own result of this number.

    Without `names_handle` it does not say how to recall them: there may be no tool for it.
    """
    source, back = one.source, number - one.source.number
    where = f"{source.words}, {back_words(back)}"
    where += f", handle {source.handle}" if names_handle else ""
    return _reference(f"[as lines {one.line + 1}-{one.line + one.size} of {where}]", one, back)


def reference_to_end(one: Stretch, number: int) -> Reference:
    """The same in fewer words, where the stretch is the end of both texts."""
    back = number - one.source.number
    where = f"{'in ' if back == 1 else ''}{back_words(back)}"
    return _reference(f"[last {one.size} lines as {where}]", one, back)


def _reference(words: str, one: Stretch, back: int) -> Reference:
    source, end = one.source, one.line + one.size
    return Reference(words, source.event, source.part, source.handle, one.line + 1, end, back)


def own_results(item: Item, agent: str) -> Iterator[ResultBlock]:
    """The results in an item that are sent as results, which are the agent's own."""
    if item.author == agent and item.kind == "exchange":
        yield from (block for block in item.blocks if isinstance(block, ResultBlock))


def repoint_items(items: Sequence[Item], before: Sequence[Item], env: Env) -> list[Item]:
    """The items, in which a reference to something that has gone becomes its handle."""
    if not any(refers(block) for item in items for block in item.blocks):
        return list(items)
    view = ReferenceView(env, {id(block) for item in before for block in item.blocks})
    for item in items:
        view.expect(item)
        view.add(item)
    repointed_items: list[Item] = []
    for item in items:
        blocks = tuple(map(view.repoint_block, item.blocks))
        new = any(one is not other for one, other in zip(blocks, item.blocks, strict=True))
        repointed_items.append(msgspec.structs.replace(item, blocks=blocks) if new else item)
    return repointed_items


def notes_on_repointed(after: Sequence[Item], before: Sequence[Item]) -> list[Note]:
    """A note on each item that names only a handle by now."""
    reason = "what it refers to has gone, so its handle stands for it"
    return [
        Note("fit_budget", reason, old, new)
        for new, old in zip(after, before, strict=True)
        if new is not old
    ]


class ReferenceView:
    """What is in view, as references name it; `same` blocks are as they were when referred to."""

    def __init__(self, env: Env, same: set[int] | None = None) -> None:
        self.env = env
        self._same = same
        self._blocks: MutableMapping[_Place, tuple[Block, Item]] = {}
        self._numbers: MutableMapping[_Place, int] = {}
        self._counted = 0
        self._there: set[_Place] = set()
        self._own: list[tuple[ResultBlock, Item, int]] = []
        self._before: Sequence[tuple[ResultBlock, Item, int]] = ()
        self._items: list[Item] = []
        self.in_order = True
        """Whether items can be taken in one by one: no result came twice, nothing points ahead."""
        self._unique = True
        """Whether no place came twice, so that it can be taken out again."""

    def back(self, length: int) -> "ReferenceView":
        """What was in view after the first items."""
        view = ReferenceView(self.env)
        if not self.in_order:  # items are restored at once then, so that it is not looked at
            view.in_order = False
            return view
        # a place that came twice cannot be taken out: the view is made anew
        if not self._unique:
            for item in self._items[:length]:
                view.expect(item)
                view.add(item)
            return view
        view._items = self._items[:length]
        view._blocks, view._numbers = dict(self._blocks), dict(self._numbers)
        gone = 0
        for item in self._items[length:]:
            for block in item.blocks:
                view._blocks.pop((block.origin.name, block.origin.part), None)
            for result in own_results(item, self.env.agent):
                del view._numbers[result.origin.name, result.origin.part]
                gone += 1
        view._own = self._own[: len(self._own) - gone]
        view._counted = len(view._numbers)
        return view

    def over(self, env: Env) -> "ReferenceView":
        """A passing copy, for items that may still change."""
        copy = ReferenceView(env)
        copy._blocks = ChainMap({}, self._blocks)
        copy._numbers = ChainMap({}, self._numbers)
        copy._counted, copy.in_order = self._counted, self.in_order
        copy._before = self._own
        return copy

    def expect(self, item: Item) -> None:
        """Count an item that will be in view, in whichever form."""
        self._there.update((block.origin.name, block.origin.part) for block in item.blocks)
        for result in own_results(item, self.env.agent):
            place = (result.origin.name, result.origin.part)
            # results that were made up for calls without one all have the same place
            again = place in self._numbers
            self._numbers[place] = self._counted
            self._counted += not again
            if again:  # nothing refers to a result that stands for one that never came
                self._unique = False
                self.in_order = self.in_order and result.synthetic

    def add(self, item: Item) -> None:
        """Take in an item as it is sent."""
        self._items.append(item)
        for block in item.blocks:
            if isinstance(block, ResultBlock | TextBlock):
                place = (block.origin.name, block.origin.part)
                if place in self._blocks and self._blocks[place][1] is not item:
                    self._unique = False
                self._blocks[place] = (block, item)
        for result in own_results(item, self.env.agent):
            number = self._numbers.get((result.origin.name, result.origin.part), 0)
            self._own.append((result, item, number))

    def lacks(self, block: Block) -> bool:
        """Whether something that the block refers to is not there."""
        return refers(block) and any(not self._holds(one, block) for one in _standing(block))

    def results_before(self, block: ResultBlock) -> tuple[int, list[tuple[ResultBlock, Item, int]]]:
        """The number of an own result, and the own results that it may refer to, with theirs."""
        number = self._numbers[block.origin.name, block.origin.part]
        return number, [*self._before, *self._own]

    def repoint_block(self, block: Block) -> Block:
        """The block with a handle in place of a reference to what is not there."""
        if not isinstance(block, ResultBlock | TextBlock) or not block.refers:
            return block
        gone = [one for one in _standing(block) if not self._holds(one, block)]
        if not gone:
            return block
        standing = tuple(one for one in block.refers if one not in gone)
        if isinstance(block, TextBlock):
            return msgspec.structs.replace(
                block,
                text=_rename_references(block.text, gone),
                spans=(),
                kept=None,
                refers=standing,
            )
        key = next(iter(block.response))
        text = _rename_references(sole_text(block.response), gone)
        return msgspec.structs.replace(block, response={key: text}, refers=standing)

    def _holds(self, one: Reference, block: Block) -> bool:
        """Whether what the words of a block stand for is in view, where they say it is."""
        source, item = self._blocks.get((one.event, one.part), (None, None))
        if one.newer:
            self.in_order = False
            return (one.event, one.part) in self._there
        if source is None or item is None:
            return False
        if one.back:
            # the words count results back: with one fewer in between they would name another
            own = self._numbers.get((block.origin.name, block.origin.part), 0)
            if own - self._numbers.get((one.event, one.part), own) != one.back:
                return False
        # the very block that was referred to
        if self._same is not None and id(source) in self._same:
            return True
        if isinstance(source, TextBlock):
            return isinstance(block, TextBlock) and source.text == block.whole
        if not isinstance(source, ResultBlock):
            return False
        if not one.last:
            return isinstance(block, ResultBlock) and source.response == block.whole
        lines = logged_text(source, item, self.env).split("\n")[one.first - 1 : one.last]
        # line ends around both: a run must not match within a line
        wanted = "\n".join(lines)
        return f"\n{wanted}\n" in f"\n{sole_text(source.response)}\n"


def refers(block: Block) -> bool:
    """Whether a block refers to others."""
    return isinstance(block, ResultBlock | TextBlock) and bool(block.refers)


def _standing(block: Block) -> list[Reference]:
    """The references that a block still has in its text, whatever was done to it since."""
    if isinstance(block, TextBlock):
        return [one for one in block.refers if one.words in block.text]
    if isinstance(block, ResultBlock):
        text = sole_text(block.response)
        return [one for one in block.refers if one.words in text]
    return []


def _rename_references(text: str, gone: Sequence[Reference]) -> str:
    """The text with handles in place of the words of some references."""
    for one in gone:
        lines = f"lines {one.first}-{one.last} of " if one.last else ""
        text = text.replace(one.words, f"[left out: {lines}handle {one.handle}]")
    return text
