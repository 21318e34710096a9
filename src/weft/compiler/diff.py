"""What changed between two compilations, in words and tokens.

System parts are matched by where they come from, tools and options by name, items by what
they say and then by their event; so a rewritten item is one change, not a loss and a gain.
"""

import json
from collections.abc import Iterator, Sequence
from difflib import SequenceMatcher
from typing import TYPE_CHECKING, Literal, cast

import msgspec

from weft.compiler.report import WIDTH, block_text, clip, place_of, preview
from weft.diagnostics import Origin
from weft.ir import Item, TextBlock
from weft.values import JsonObject, compact

if TYPE_CHECKING:
    from weft.compiler.compiled import Compilation

What = Literal["model", "system", "tool", "schema", "option", "item"]
Action = Literal["added", "removed", "changed", "moved"]

_SIGNS: dict[Action, str] = {"added": "+", "removed": "-", "changed": "~", "moved": ">"}
_MANY = 4_000_000
"""Pairs of items above which matching is allowed to be approximate."""


class Change(msgspec.Struct, frozen=True):
    """One difference: what, what happened to it, where it is from, in words and in tokens."""

    what: What
    action: Action
    name: str
    origin: Origin
    before: int
    after: int
    detail: str = ""

    def __str__(self) -> str:
        delta = self.after - self.before
        cost = f"{delta:+,}" if delta else "0"
        name = f" {self.name}" if self.name else ""
        line = f"{_SIGNS[self.action]} {self.what:<6} {cost:>7}{name}  ({place_of(self.origin)})"
        return clip(f"{line}  {preview(self.detail)}".rstrip(), WIDTH)


class Diff(msgspec.Struct, frozen=True):
    """All differences between two requests, and how many items they have in common."""

    before: int
    after: int
    changes: tuple[Change, ...]
    same_items: int

    def to_dict(self) -> JsonObject:
        """The differences as JSON values."""
        # there and back: JSON has no tuples
        return cast("JsonObject", json.loads(json.dumps(msgspec.to_builtins(self))))

    def __bool__(self) -> bool:
        return bool(self.changes)

    def __str__(self) -> str:
        if not self.changes:
            return f"the two requests are the same, {self.after:,} tokens"
        items = f"{self.same_items:,} item{'' if self.same_items == 1 else 's'}"
        head = f"{self.before:,} -> {self.after:,} tokens ({self.after - self.before:+,})"
        return "\n".join([f"{head}, {items} unchanged", *(str(change) for change in self.changes)])


def diff(before: "Compilation", after: "Compilation") -> Diff:
    """What changed from one compilation to another."""
    items, same = _items(before, after)
    changes = [
        *_target(before, after),
        *_tools(before, after),
        *_schema(before, after),
        *_system(before, after),
        *_options(before, after),
        *items,
    ]
    return Diff(before.tokens, after.tokens, tuple(changes), same)


def _target(before: "Compilation", after: "Compilation") -> Iterator[Change]:
    old = f"{before.prompt.model} ({before.dialect})"
    new = f"{after.prompt.model} ({after.dialect})"
    if old != new:
        origin = Origin("field", "model", after.prompt.agent)
        yield Change("model", "changed", "", origin, 0, 0, f"{old} -> {new}")
    if before.prompt.agent != after.prompt.agent:
        origin = Origin("field", "name", after.prompt.agent)
        detail = f"{before.prompt.agent} -> {after.prompt.agent}"
        yield Change("model", "changed", "agent", origin, 0, 0, detail)


def _tools(before: "Compilation", after: "Compilation") -> Iterator[Change]:
    old = {tool.name: tool for tool in before.prompt.tools}
    new = {tool.name: tool for tool in after.prompt.tools}
    old_sizes, new_sizes = _tool_sizes(before), _tool_sizes(after)
    for name, tool in old.items():
        if name not in new:
            yield Change("tool", "removed", name, tool.origin, old_sizes[name], 0)
    for name, tool in new.items():
        size = new_sizes[name]
        before_tool = old.get(name)
        if before_tool is None:
            yield Change("tool", "added", name, tool.origin, 0, size, tool.description)
            continue
        changes = [
            what
            for what, one, other in (
                ("description", before_tool.description, tool.description),
                ("parameters", before_tool.parameters, tool.parameters),
            )
            if one != other
        ]
        if changes:
            detail = " and ".join(changes)
            yield Change("tool", "changed", name, tool.origin, old_sizes[name], size, detail)
    common = [name for name in old if name in new]
    reordered = [name for name in new if name in old]
    if common != reordered:
        origin = Origin("field", "tools", after.prompt.agent)
        yield Change("tool", "moved", "", origin, 0, 0, f"now in the order {', '.join(reordered)}")


def _tool_sizes(side: "Compilation") -> dict[str, int]:
    sizes = side.scale.head(side.lowered()).tools
    ours = (tool.name for tool in side.prompt.tools if tool.hosted is None)
    counted = dict(zip(ours, sizes, strict=False))
    return {tool.name: counted.get(tool.name, 0) for tool in side.prompt.tools}


def _schema(before: "Compilation", after: "Compilation") -> Iterator[Change]:
    old, new = before.prompt.output, after.prompt.output
    if old == new:
        return
    sizes = (
        before.scale.head(before.lowered()).schema,
        after.scale.head(after.lowered()).schema,
    )
    if new is None and old is not None:
        yield Change("schema", "removed", old.name, old.origin, *sizes)
    elif new is not None and old is None:
        yield Change("schema", "added", new.name, new.origin, *sizes, f"asked for as {new.how}")
    elif new is not None and old is not None:
        how = f"asked for as {old.how} -> {new.how}" if old.how != new.how else "schema"
        yield Change("schema", "changed", new.name, new.origin, *sizes, how)


def _system(before: "Compilation", after: "Compilation") -> Iterator[Change]:
    old = {str(block.origin): block for block in before.prompt.system}
    new = {str(block.origin): block for block in after.prompt.system}
    for name, block in old.items():
        if name not in new:
            size = before.scale.counter.count(block.text)
            yield Change("system", "removed", "", block.origin, size, 0, block.text)
    for name, block in new.items():
        before_block, size = old.get(name), after.scale.counter.count(block.text)
        if before_block is None:
            yield Change("system", "added", "", block.origin, 0, size, block.text)
        elif before_block.text != block.text:
            detail, origin = _line_of_difference(before_block, block)
            was = before.scale.counter.count(before_block.text)
            yield Change("system", "changed", "", origin, was, size, detail)
    common = [name for name in old if name in new]
    reordered = [name for name in new if name in old]
    if common != reordered:
        origin = Origin("pass", "order_system")
        yield Change(
            "system", "moved", "", origin, 0, 0, f"now in the order {', '.join(reordered)}"
        )


def _line_of_difference(old: TextBlock, new: TextBlock) -> tuple[str, Origin]:
    """The first line that differs, around the difference, and who wrote that place."""
    at = next(
        (i for i, (a, b) in enumerate(zip(old.text, new.text, strict=False)) if a != b),
        min(len(old.text), len(new.text)),
    )
    line = new.text.count("\n", 0, at) + 1
    origin = next((span.origin for span in new.spans if at < span.end), new.origin)
    return f"line {line}: {_words_around(old.text, at)} -> {_words_around(new.text, at)}", origin


def _words_around(text: str, at: int) -> str:
    start = max(text.rfind("\n", 0, at) + 1, at - 16)
    end = text.find("\n", at)
    end = min(len(text) if end < 0 else end, at + 24)
    lead = "…" if start and text[start - 1] != "\n" else ""
    tail = "…" if end < len(text) and text[end] != "\n" else ""
    return compact(f"{lead}{text[start:end]}{tail}")


def _options(before: "Compilation", after: "Compilation") -> Iterator[Change]:
    old, new = before.prompt.config, after.prompt.config
    for name in [*old, *(name for name in new if name not in old)]:
        if name in old and name in new and old[name] == new[name]:
            continue
        side = after if name in new else before
        origin = side.prompt.config_origins.get(name, Origin("config", name))
        if name not in new:
            yield Change("option", "removed", name, origin, 0, 0, compact(old[name]))
        elif name not in old:
            yield Change("option", "added", name, origin, 0, 0, compact(new[name]))
        else:
            detail = f"{compact(old[name])} -> {compact(new[name])}"
            yield Change("option", "changed", name, origin, 0, 0, detail)


def _items(before: "Compilation", after: "Compilation") -> tuple[list[Change], int]:
    """Items matched by what they say, then by event; common ends are walked, not searched."""
    old, new = list(before.prompt.items), list(after.prompt.items)
    head = 0
    while head < min(len(old), len(new)) and _alike(old[head], new[head]):
        head += 1
    tail = 0
    while tail < min(len(old), len(new)) - head and _alike(old[-1 - tail], new[-1 - tail]):
        tail += 1
    gone, come = old[head : len(old) - tail], new[head : len(new) - tail]
    same = head + tail
    changes: list[Change] = []
    rough = len(gone) * len(come) > _MANY
    matcher = SequenceMatcher(None, [_says(i) for i in gone], [_says(i) for i in come], rough)
    for tag, i1, i2, j1, j2 in matcher.get_opcodes():
        if tag == "equal":
            same += i2 - i1
        else:
            changes += _find_replacements(before, after, gone[i1:i2], come[j1:j2])
    return changes, same


def _find_replacements(
    before: "Compilation", after: "Compilation", gone: Sequence[Item], come: Sequence[Item]
) -> Iterator[Change]:
    by_event = {item.event: item for item in come if item.event}
    rewritten: set[int] = set()
    for item in gone:
        now = by_event.pop(item.event, None)
        size = before.scale.item(item)
        if now is None:
            yield Change("item", "removed", _who(item), item.origin, size, 0, _text(item))
            continue
        rewritten.add(id(now))
        detail = f"{clip(preview(_text(item)), 30)} -> {preview(_text(now))}"
        yield Change("item", "changed", _who(now), now.origin, size, after.scale.item(now), detail)
    for item in come:
        if id(item) not in rewritten:
            size = after.scale.item(item)
            yield Change("item", "added", _who(item), item.origin, 0, size, _text(item))


def _alike(one: Item, other: Item) -> bool:
    return one is other or _says(one) == _says(other)


def _says(item: Item) -> tuple[str, ...]:
    return tuple(
        f"{block.role} {type(block).__name__} {block_text(block)}" for block in item.blocks
    )


def _text(item: Item) -> str:
    return " ".join(block_text(block) for block in item.blocks)


def _who(item: Item) -> str:
    return item.kind if item.kind == "exchange" or not item.author else item.author
