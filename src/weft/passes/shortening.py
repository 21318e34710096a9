"""Steps that shorten an item as it stands by now, each form worked out once."""

from collections.abc import Callable
from typing import NamedTuple

from weft.diagnostics import Origin
from weft.ir import Item
from weft.passes.env import Env
from weft.passes.knapsack import Change, Given, Step
from weft.passes.shorten import COMPACTED, TRUNCATED, compacted, referred, repeated, truncated

LEAST = 8
"""How many tokens a shorter form must save."""


class _Shorter(NamedTuple):
    """A shorter form of an item, and the tokens it saves."""

    item: Item
    form: Item
    saved: int


class _Forms:
    """Shorter forms by the key of their item, kept with the log."""

    def __init__(self) -> None:
        self.made: dict[object, _Shorter] = {}


class Shortening:
    """The ways in which the items of a request can be shorter."""

    def __init__(
        self, items: list[Item], given: Given, env: Env, size: Callable[[Item], int]
    ) -> None:
        self.given = given
        self._items = items
        self._env = env
        self._size = size
        self._whole = frozenset(name for name, tool in env.tools.items() if tool.compact is False)
        self._again: dict[int, dict[int, Origin]] | None = None

    def fold(self, index: int) -> Step | None:
        """Handles and digests for its large values."""
        if self.given.sizes[index] <= COMPACTED.over:
            return None
        return self._formed(index, compacted, "a digest stands for it, to fit the budget")

    def cut(self, index: int) -> Step | None:
        """Both ends of its texts and results."""
        if self.given.sizes[index] <= TRUNCATED:
            return None
        return self._formed(index, truncated, "it is cut to fit the budget")

    def refer(self, index: int) -> Step | None:
        """A word instead of results that a later item gives again."""
        if not self._env.policy.makes_handles:
            return None  # nobody could get it back, once the later one goes too
        if self._again is None:
            self._again = repeated(self._items, self._env)
        places, item = self._again.get(index), self._now(index)
        if places is None or item is None:
            return None
        form = referred(item, places, self._env)
        saved = self._size(item) - self._size(form)
        return _step(index, form, saved, "a later result is the same")

    def _formed(self, index: int, make: Callable[[Item, Env], Item], why: str) -> Step | None:
        item = self._now(index)
        if item is None:
            return None
        shorter = self._shorter(make, item)
        return _step(index, shorter.form, shorter.saved, why)

    def _now(self, index: int) -> Item | None:
        change = self.given.changes.get(index)
        return self._items[index] if change is None else change.form

    def _shorter(self, make: Callable[[Item, Env], Item], item: Item) -> _Shorter:
        env = self._env
        key = (make, env.agent, env.dialect, env.model, self._whole)
        kept = env.log.memo.setdefault(key, _Forms())
        assert isinstance(kept, _Forms)
        held = kept.made.get(item.key)
        if held is None or (held.item is not item and held.item != item):
            form = make(item, env)
            saved = 0 if form is item else self._size(item) - self._size(form)
            held = kept.made[item.key] = _Shorter(item, form, saved)
        return held


def _step(index: int, form: Item, saved: int, why: str) -> Step | None:
    return Step((Change(index, form, why),), saved) if saved >= LEAST else None
