"""Check every request as strictly as the strictest server would, at the cost of what is new.

A scripted model stands where a provider would; it must not be more patient. The laws of the
prompt are `weft.ir.verify`'s, those of the wire the provider's, and the law of the prefix is
Weft's own: what was sent once is sent again.
"""

from collections.abc import Sequence
from typing import cast

import msgspec

from weft.ir import Prompt, verify
from weft.models.check_head import FIELDS, check_head
from weft.models.check_prefix import View, check_prefix, view_of
from weft.models.check_turns import MANNERS, Manners, Standing, close, follow, illegal
from weft.values import JsonObject, Strand


class RequestChecker:
    """The laws of one dialect, held against each request in the order they come.

    Turns that the request before had are known by identity, which is how requests of one session
    share them. So a turn that somebody changed in place is not seen, nor an equal one with its
    keys in another order if shared turns follow it.
    """

    def __init__(self, dialect: str) -> None:
        self._fields = FIELDS[dialect]
        self._manners = MANNERS[dialect]
        self._trails: dict[View, _Trail] = {}

    def check(self, prompt: Prompt, wire: JsonObject) -> None:
        """Raise IllegalRequest, or InvalidPrompt, at the first law that is broken."""
        manners = self._manners
        turns = _turns(wire, manners.turns)
        view = view_of(prompt)
        known = self._trails.pop(view, None) if view is not None else None
        trail = known if known is not None else _Trail()
        _verify(prompt, trail.prompt)
        head = {**wire}
        del head[manners.turns]
        changed = head != trail.head
        if changed:
            check_head(wire, self._fields)
        before = trail.prompt
        goes_on = before is not None and self._goes_on(trail, head if changed else None, turns)
        start, gone = trail.share(turns)
        trail.extend(turns, manners)
        close(trail.standings[-1], f"/{manners.turns}/{len(turns) - 1}")
        if gone and goes_on and before is not None:
            check_prefix(
                before, gone, prompt, turns, start=start, key=manners.turns, parts=manners.parts
            )
        trail.prompt, trail.head = prompt, head
        if view is not None:
            self._trails[view] = trail

    def _goes_on(
        self, trail: "_Trail", head: JsonObject | None, turns: Sequence[JsonObject]
    ) -> bool:
        """Whether system text and tools are as they were, so that the turns are read on them."""
        keys = (self._fields.system, "tools")
        if head is not None and any(trail.head.get(key) != head.get(key) for key in keys):
            return False
        if self._fields.system or trail.turns[0] is turns[0]:
            return True
        first, now = trail.turns[0], turns[0]
        return first == now or "system" not in (first.get("role"), now.get("role"))


class _Trail:
    """The turns of a view's last request, and how the conversation stood after each."""

    def __init__(self) -> None:
        self.prompt: Prompt | None = None
        self.head: JsonObject = {}
        self.turns: list[JsonObject] = []
        self.standings: list[Standing] = []
        self.ids: list[tuple[str, ...]] = []
        self.seen: set[str] = set()

    def share(self, turns: Sequence[JsonObject]) -> tuple[int, list[JsonObject]]:
        """Keep what the request repeats; return how many turns, and those it does not have.

        Shared turns are the same objects, and comparing lists looks at that first.
        """
        start = min(len(self.turns), len(turns))
        while start and self.turns[start - 1] is not turns[start - 1]:
            start -= 1
        gone = self._cut(start)
        if self.turns != turns[:start]:
            pairs = enumerate(zip(self.turns, turns, strict=False))
            start = next(index for index, (old, new) in pairs if old != new)
            gone = self._cut(start) + gone
        return start, gone

    def _cut(self, start: int) -> list[JsonObject]:
        """Forget the turns from `start` on, and return them."""
        gone = self.turns[start:]
        if gone:
            for ids in self.ids[start:]:
                self.seen.difference_update(ids)
            del self.turns[start:], self.standings[start:], self.ids[start:]
        return gone

    def extend(self, turns: Sequence[JsonObject], manners: Manners) -> None:
        """Read the turns that are new."""
        standing = self.standings[-1] if self.standings else Standing()
        for index in range(len(self.turns), len(turns)):
            where = f"/{manners.turns}/{index}"
            if not isinstance(cast("object", turns[index]), dict):
                raise illegal(where, "this turn is no object", "turns are objects")
            turn = manners.read(turns[index], where)
            standing = follow(standing, turn, where, manners)
            for call in turn.calls:
                if call.id in self.seen:
                    raise illegal(where + call.at, f"the call id {call.id} occurs twice", _UNIQUE)
                if call.id:
                    self.seen.add(call.id)
            self.ids.append(tuple(call.id for call in turn.calls))
            self.standings.append(standing)
            self.turns.append(turns[index])


_UNIQUE = "a call id occurs once in a request"


def _turns(wire: JsonObject, key: str) -> list[JsonObject]:
    turns = wire.get(key)
    if not isinstance(turns, list) or not turns:
        raise illegal(f"/{key}", "the request has no turns", "there is something to answer")
    return cast("list[JsonObject]", turns)


def _verify(prompt: Prompt, before: Prompt | None) -> None:
    """Hold the laws of the IR against the items that were not settled before."""
    items = prompt.items
    if before is not None and before.items.memo is items.memo:
        fresh = Strand(items.since(min(before.items.settled, items.settled)))
        prompt = msgspec.structs.replace(prompt, items=fresh)
    verify(prompt, step="model request", before=before)
