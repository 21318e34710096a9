"""The law of the prefix: what was sent once is sent again, byte for byte.

Providers sell bytes they have seen at a tenth of the price. So a request of one agent in one
session begins with the turns of the request before, unless the log itself took something back.
"""

from collections.abc import Sequence
from typing import cast

from weft.dialects.caching import without_marks
from weft.ir import Feature, Item, Prompt
from weft.ir.show import show_block
from weft.models.check_turns import illegal
from weft.values import Json, JsonObject, compact

View = tuple[str, str, str]
"""Whose view of which session: agent, the session's first event, and the branch it is in."""

_LAW = (
    "a request begins with the turns of the one before; two sessions whose events have the same"
    " ids need a model each"
)
_UNLOGGED = ("", "message")
"""Events of items that are in no log: what a pass put there, what `compile(message=)` was given."""


def view_of(prompt: Prompt) -> View | None:
    """Whose request this is, or None where nothing of it is in a log yet."""
    items = prompt.items
    for index in range(min(len(items), 2)):  # a pass may have put an opening before the first
        event = items[index].event
        if event not in _UNLOGGED:
            return prompt.agent, event, _branch(prompt)
    return None


def _branch(prompt: Prompt) -> str:
    """The deepest branch in view, which is the agent's own as soon as it has spoken there."""
    if not prompt.features & Feature.BRANCHED:
        return ""
    items = prompt.items
    with items.lock:
        held = cast("tuple[int, str]", items.memo.get("deepest branch", (0, "")))
        read, deepest = held if held[0] <= items.settled else (0, "")
        deepest = _deepest(items.since(read)[: items.settled - read], deepest)
        items.memo["deepest branch"] = (items.settled, deepest)
    return _deepest(items.since(items.settled), deepest)


def _deepest(items: Sequence[Item], branch: str) -> str:
    return max((branch, *(item.branch for item in items)), key=len)


def check_prefix(
    before: Prompt,
    sent: Sequence[JsonObject],
    after: Prompt,
    turns: Sequence[JsonObject],
    *,
    start: int,
    key: str,
    parts: str,
) -> None:
    """Refuse turns that differ from those the request before had: `sent`, from `start` on.

    `parts` is where a turn's parts stand if the dialect merges turns: the last one may then have
    grown. A request that is shorter was rewound, summed up or cut to a budget.
    """
    if len(turns) < start + len(sent):
        return
    last = len(sent) - 1
    for index, old in enumerate(sent):
        new = turns[start + index]
        if _same(old, new) or (index == last and parts and _grown(old, new, parts)):
            continue
        if not _taken_back(before, after):
            where = f"/{key}/{start + index}"
            raise illegal(where, "this turn was sent before and reads differently now", _LAW)
        return


def _same(old: Json, new: Json) -> bool:
    """Whether the turns are compared as equal: where to keep them is no part of them."""
    return old is new or compact(without_marks(old)) == compact(without_marks(new))


def _grown(old: JsonObject, new: JsonObject, parts: str) -> bool:
    """Whether the turn is the old one with more parts at its end."""
    held, more = old.get(parts), new.get(parts)
    if not isinstance(held, list) or not isinstance(more, list):
        return False
    return _same({**old, parts: held}, {**new, parts: more[: len(held)]})


def _taken_back(before: Prompt, after: Prompt) -> bool:
    """Whether the log gives a reason to change what was sent.

    A call got a later result, what closed the request was in no log, a value of the state that a
    policy shows was written again, a summary or a budget took the place of older items, a policy
    says that it edits them from now on, or no longer, as its condition says, or they were
    rewound: then nothing is left of them from there on.
    """
    if _left_out(before) != _left_out(after):
        return True
    late = False
    edited = {event for event, _ in _edited(after) ^ _edited(before)}
    olds, news = list(before.items), list(after.items)
    for index, (old, new) in enumerate(zip(olds, news, strict=False)):
        if old is new or (old.event == new.event and _said(old) == _said(new)):
            continue
        if old.event in _UNLOGGED or "summary" in (old.kind, new.kind) or old.kind == "state":
            return True
        if new.event in edited or _labels(new) - _labels(old):
            return True
        if old.event != new.event or new.last <= old.last:
            left = {item.event for item in news[index:]}
            return not any(item.event in left for item in olds[index:])
        late = True
    return late or len(news) < len(olds)


def _said(item: Item) -> list[str]:
    """What an item says, whatever it counts for."""
    return [show_block(block) for block in item.blocks]


def _left_out(prompt: Prompt) -> set[str]:
    return {note.before.event for note in prompt.notes if note.after is None}


def _labels(item: Item) -> set[str]:
    return {label for block in item.blocks for label in block.labels}


def _edited(prompt: Prompt) -> set[tuple[str, str]]:
    """The events of items that a policy rewrote in this request, and why."""
    return {(note.before.event, note.reason) for note in prompt.notes if note.after is not None}
