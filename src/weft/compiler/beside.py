"""Branches beside each other: what stands on them, found without reading the whole log.

A request looks at the events of its own branch and of those around it. A map of a thousand
elements has a thousand branches; whoever stands on one does not go through all the others.
"""

from bisect import bisect_left
from collections.abc import Mapping, Sequence
from typing import NamedTuple

from weft.compiler.build import Built, build_items
from weft.ir import Feature, Item, Note
from weft.session import Event
from weft.values import Strand


class Branches:
    """Where in a log the events of each branch stand; it is read on as the log grows."""

    def __init__(self) -> None:
        self._read = 0
        self._positions: dict[str, list[int]] = {"": []}

    def read(self, events: Strand[Event]) -> None:
        """Read what is new in the log."""
        for position, event in enumerate(events.since(self._read), self._read):
            if position >= events.settled:
                return
            self._positions.setdefault(event.branch or "", []).append(position)
            self._read = position + 1

    @property
    def several(self) -> bool:
        """Whether there are any branches at all."""
        return len(self._positions) > 1

    def seen_from(self, branch: str, events: Strand[Event], start: int) -> list[int]:
        """The positions from `start` on that whoever stands on a branch sees, in log order."""
        found: list[int] = []
        for name in _around(branch):
            held = self._positions.get(name, [])
            found += held[bisect_left(held, start) : bisect_left(held, events.settled)]
        found += [
            position
            for position, event in enumerate(events.tail, events.settled)
            if (event.branch or "") in _around(branch)
        ]
        return sorted(found)


def branches_of(events: Strand[Event]) -> Branches:
    """The branches of a log, kept with it; for whoever holds its lock."""
    held = events.memo.get("branches")
    found = held if isinstance(held, Branches) else Branches()
    found.read(events)
    events.memo["branches"] = found
    return found


class Made(NamedTuple):
    """What an event becomes for every agent but the one that made it."""

    author: str
    built: Built


def built_of(
    events: Strand[Event], positions: Sequence[int], agent: str, made: dict[int, Made]
) -> Built:
    """The items of some events; `made` keeps those that are the same for other agents."""
    items: list[Item] = []
    whole = Built(items, Feature.NONE, [])
    for position in positions:
        held = made.get(position)
        if held is not None and held.author != agent:
            built = held.built
        else:
            event = events[position]
            built = build_items((event,), position, agent)
            if event.author not in ("", agent) and position < events.settled:
                made[position] = Made(event.author, built)
        items += built.items
        whole.features |= built.features
        if built.diagnostics:
            whole.diagnostics += built.diagnostics
    return whole


def notes_beside(events: Strand[Event], start: int, agent: str, branch: str) -> list[Note]:
    """Why each event from `start` on is left out that stands on a branch beside this one."""
    around = _around(branch)
    notes: list[Note] = []
    for position, event in enumerate(events.since(start), start):
        if (event.branch or "") not in around:
            for item in build_items((event,), position, agent).items:
                if item.kind == "hidden":
                    notes.append(Note("drop_hidden", item.why, item))
                else:
                    why = f"it belongs to branch {item.branch}"
                    notes.append(Note("select_branch", why, item))
    return notes


def _around(branch: str) -> Mapping[str, None]:
    """The branch, and those it is part of."""
    steps = branch.split(".") if branch else []
    return dict.fromkeys(["", *(".".join(steps[: n + 1]) for n in range(len(steps)))])
