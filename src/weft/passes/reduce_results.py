"""Say a result in short when it arrives: what is in view by reference, the rest in a digest."""

from collections.abc import Iterable, Iterator

import msgspec

from weft.declare.policy.transforms import Compact
from weft.digest.names import names_in
from weft.digest.repeats import folded, lines_known, tightened
from weft.ir import Block, Item, Note, Prompt, ResultBlock, TextBlock
from weft.passes.env import Env
from weft.passes.handles import RECALL, Limits, compact_result, compact_text, result_limits
from weft.values import JsonObject, Strand


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
        self.lines: set[str] = set()
        self.names: set[str] = set()


class _View:
    """The lines and the names that stand in view."""

    def __init__(self, said: _Said) -> None:
        self.lines = _Both(said.lines)
        self.names = _Both(said.names)

    def add(self, item: Item) -> None:
        """Remember what an item says, as it is sent."""
        _read(item, self.lines.fresh, self.names.fresh)


def reduce_results(prompt: Prompt, env: Env, options: Compact) -> Prompt:
    """Leave out of a fresh result what stands in view already, and of the rest keep a digest.

    JSON loses the blanks between its parts. Lines that an earlier item says, as it is sent, are
    named by their number. What is then still large becomes a handle with a digest, which has room
    for what is new in it. It is decided once, when the result is new, so the bytes that are sent
    first are those that are sent always. A tool that says `@tool(compact=False)` is left alone.

    Before:  call open(a) -> 90 lines | call edit(a) -> the same 90 lines, one of them changed
    After:   call open(a) -> 90 lines | call edit(a) -> "[40 lines as before]", the one, "[47 ...]"
    """
    view = _View(_settled(env.before))
    items: list[Item] = []
    notes: list[Note] = []
    for item in prompt.items:
        blocks = tuple(_reduced(block, item, view, env, options) for block in item.blocks)
        short = item
        if any(new is not old for new, old in zip(blocks, item.blocks, strict=True)):
            short = msgspec.structs.replace(item, blocks=blocks)
            reason = (
                "it is said in short: what is in view already by reference, the rest in a digest"
            )
            notes.append(Note("reduce_results", reason, item, short))
        items.append(short)
        view.add(short)
    return prompt.with_items(items, notes) if notes else prompt


def _reduced(block: Block, item: Item, view: _View, env: Env, options: Compact) -> Block:
    if isinstance(block, ResultBlock):
        limits = result_limits(block.name, env, options)
        if limits is None or block.synthetic or block.name == RECALL:
            return block
        limits = limits._replace(known=view.names)
        return compact_result(_folded(block, view.lines), item, env, limits)
    if isinstance(block, TextBlock) and options.texts is not None:
        said = item.author in ("user", env.agent) or item.kind in ("summary", "system", "state")
        if not said:
            return compact_text(block, item, env, Limits(options.texts, options.to))
    return block


def _folded(block: ResultBlock, lines: _Both) -> ResultBlock:
    """The result without what stands in view already; itself where that is nothing."""
    for key, text in _sole(block.response):
        short = folded(tightened(text), lines)
        if len(short) < len(text):
            return msgspec.structs.replace(block, response={key: short})
    return block


def _settled(items: Strand[Item]) -> _Said:
    """What items that are final say, kept with them."""
    with items.lock:
        held = items.memo.setdefault(_Said, _Said())
        assert isinstance(held, _Said)
        for item in items.since(held.read)[: max(0, items.settled - held.read)]:
            _read(item, held.lines, held.names)
        held.read = max(held.read, items.settled)
        return held


def _read(item: Item, lines: set[str], names: set[str]) -> None:
    for text in _texts(item):
        lines |= lines_known((text,))
        names.update(names_in(text))


def _texts(item: Item) -> Iterator[str]:
    for block in item.blocks:
        if isinstance(block, TextBlock):
            yield block.text
        elif isinstance(block, ResultBlock):
            yield from (text for _, text in _sole(block.response))


def _sole(response: JsonObject) -> Iterable[tuple[str, str]]:
    """The one text of a result that has nothing else, under its key."""
    if len(response) != 1:
        return ()
    return [(key, value) for key, value in response.items() if isinstance(value, str)]
