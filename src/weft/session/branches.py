"""Branches of a log: where the events of each stand, when they joined, and who sees them.

What runs side by side is logged as it comes. Whoever comes after it sees the branches one after
the other, in the order the flow has for them.
"""

import json
from bisect import bisect_left
from collections.abc import Callable, Container, Iterator, Mapping, Sequence
from itertools import pairwise
from typing import NamedTuple

from weft.session.event import Event
from weft.session.strand import Strand
from weft.values import Json, canonical

_UNRANKED = 1 << 30


class Join(NamedTuple):
    """What came into view together, before the event at `at`: by branch, in their order."""

    at: int
    parts: tuple[tuple[str, tuple[int, ...]], ...]


class _Level:
    """One branch: what stands on it, what has joined it, and what has yet to."""

    __slots__ = (
        "ats",
        "branch",
        "invocation",
        "joins",
        "name",
        "order",
        "pending",
        "positions",
        "rank",
        "taken",
        "under",
        "waiting",
    )

    def __init__(self, branch: str, under: "_Level | None", rank: int) -> None:
        self.branch = branch
        self.name = branch.rpartition(".")[2]
        """The last segment of the branch."""
        self.under = under
        self.rank = rank
        """The number of the branch in the flow that made it."""
        self.positions: list[int] = []
        """The events on the branch itself."""
        self.order: list[int] = []
        """Those events, and all that joined them, as they came into view."""
        self.ats: list[int] = []
        """For each of `order`: the event before which it came into view, or itself."""
        self.joins: list[Join] = []
        self.taken = 0
        """How many of `order` have joined the branch around this one."""
        self.waiting: dict[str, _Level] = {}
        """The branches below with events that have not joined this one."""
        self.pending = False
        self.invocation = ""
        """The invocation of the newest event that waits below."""

    def parts(self) -> list[tuple[str, list[int]]]:
        """What waits to join this branch, by the branches below it in their order."""
        below = sorted(self.waiting.values(), key=lambda level: level.rank)
        return [(level.name, [*level.order[level.taken :], *level.rest()]) for level in below]

    def rest(self) -> list[int]:
        """What waits to join this branch, in order."""
        return [position for _, part in self.parts() for position in part]

    def close(self, at: int) -> None:
        """Let everything below join this branch."""
        parts: list[tuple[str, tuple[int, ...]]] = []
        for level in sorted(self.waiting.values(), key=lambda level: level.rank):
            if level.pending:
                level.close(at)
            parts.append((level.name, tuple(level.order[level.taken :])))
            level.taken = len(level.order)
        self.waiting = {}
        self.pending = False
        self.joins.append(Join(at, tuple(parts)))
        for _, positions in parts:
            self.order += positions
            self.ats += [at] * len(positions)


class Seen(NamedTuple):
    """An event in view: its position, and that of the event before which it came into view.

    An event that was in view at once has the same position twice.
    """

    at: int
    position: int


class Branches:
    """Where in a log the events of each branch stand; it is read on as the log grows."""

    def __init__(self) -> None:
        self.read_to = 0
        self._root = _Level("", None, 0)
        self._levels: dict[str, _Level] = {"": self._root}
        self._carriers: dict[int, str] = {}

    def read(self, events: Strand[Event]) -> None:
        """Read what is new in the log."""
        for position, event in enumerate(events.since(self.read_to), self.read_to):
            # the tail is not in the log yet, and may be another next time
            if position >= events.settled:
                return
            self._add(position, event, events)
            self.read_to = position + 1

    def _add(self, position: int, event: Event, events: Strand[Event]) -> None:
        level = self._level(event.branch or "", event)
        level.positions.append(position)
        # the tool call that it belongs to stands elsewhere, and its log has branches of its own
        if event.isolation_scope:
            if level is self._root:
                self._append(level, position)
            return  # what happens inside a tool call has branches of its own
        if level.pending and _is_over(level, event):
            if event.actions.state_delta:
                self._note_carried(level, event, events)
            level.close(position)
        self._append(level, position)
        below, above = level, level.under
        while above is not None:
            # every branch around it has something that waits to join
            above.waiting.setdefault(below.name, below)
            above.pending = True
            above.invocation = event.invocation_id
            below, above = above, above.under

    @staticmethod
    def _append(level: _Level, position: int) -> None:
        level.order.append(position)
        level.ats.append(position)

    def _level(self, branch: str, event: Event) -> _Level:
        """The level of a branch, made with those around it where it is new."""
        level_of_branch = self._levels.get(branch)
        if level_of_branch is not None:
            return level_of_branch
        around = self._level(branch.rpartition(".")[0], event)
        level = _Level(branch, around, _rank(branch, event))
        self._levels[branch] = level
        return level

    def _note_carried(self, level: _Level, end: Event, events: Strand[Event]) -> None:
        """Note which answers a flow gathered into a list as it ended, as a map does."""
        for key, value in end.actions.state_delta.items():
            if not isinstance(value, list) or not value:
                continue
            spoken = _spoken_by(value)
            for position in level.rest():
                text = events[position].text
                if text and spoken.has(text):
                    self._carriers[position] = key

    def carrier_of(self, position: int) -> str:
        """The key of the list that holds what was said at a position, or nothing."""
        return self._carriers.get(position, "")

    def is_quiet(self, branch: str, start: int) -> bool:
        """Whether nothing joined since `start`, nor waits to, as seen from a branch."""
        for name in around(branch):
            level = self._levels.get(name)
            if level is not None and (
                level.pending or (level.joins and level.joins[-1].at >= start)
            ):
                return False
        return True

    def seen_from(self, branch: str, events: Strand[Event], start: int) -> list[Seen]:
        """What whoever stands on a branch sees from `start` on, in the order it came into view.

        Whoever is asked on a branch comes after all flows below it, also those that did not end.
        """
        rows: list[tuple[int, bool, int, int, int]] = []
        steps = branch.split(".") if branch else []
        end = events.settled
        for depth, name in enumerate(around(branch)):
            level = self._levels.get(name)
            if level is None:
                continue
            if name == branch:
                first = bisect_left(level.ats, start)
                pairs = zip(level.ats[first:], level.order[first:], strict=True)
                for place, (at, position) in enumerate(pairs):
                    rows.append((at, at == position, -depth, place, position))
                for place, position in enumerate(level.rest() if level.pending else ()):
                    rows.append((end, False, -depth, place, position))
                continue
            # what joined from its own branch is seen there already
            own = steps[depth]
            positions = level.positions
            rows += [(p, True, -depth, 0, p) for p in positions[bisect_left(positions, start) :]]
            for at, parts in self._list_joins(level, events, start):
                others = [p for other, part in parts if other != own for p in part]
                rows += [(at, False, -depth, place, p) for place, p in enumerate(others)]
        for position, event in enumerate(events.tail, end):
            if (event.branch or "") in around(branch):
                rows.append((position, True, 0, 0, position))
        rows.sort()
        return [Seen(at, position) for at, _, _, _, position in rows]

    def _list_joins(
        self, level: _Level, events: Strand[Event], start: int
    ) -> Iterator[tuple[int, Sequence[tuple[str, Sequence[int]]]]]:
        """What joined a branch from `start` on, for somebody below it."""
        for join in level.joins[bisect_left(level.joins, start, key=lambda join: join.at) :]:
            yield join.at, join.parts
        newest = events.tail[0] if events.tail else None
        if level.pending and newest is not None and newest.invocation_id != level.invocation:
            yield events.settled, level.parts()

    def last_words(self, spoke: Callable[[int], bool]) -> list[int]:
        """Where what a flow says in the end stands: on each branch, where it ended with some."""
        return self._last(self._root, range(self.read_to), spoke)

    def _last(
        self, level: _Level, chosen: Container[int], spoke: Callable[[int], bool]
    ) -> list[int]:
        for at, position in zip(reversed(level.ats), reversed(level.order), strict=True):
            if position not in chosen or not spoke(position):
                continue
            if at == position:
                return [position]
            join = next(join for join in level.joins if join.at == at)
            below = [
                (self._levels[f"{level.branch}.{name}" if level.branch else name], part)
                for name, part in join.parts
            ]
            return [p for inner, part in below for p in self._last(inner, {*part}, spoke)]
        return []

    def sees(self, branch: str, position: int, event: Event) -> bool:
        """Whether somebody on a branch sees the event at a position."""
        other = event.branch or ""
        if other in around(branch):
            return True
        if event.isolation_scope:
            return False
        shared = ""
        for name in around(branch):
            if not name or f"{other}.".startswith(f"{name}."):
                shared = name
        if shared == branch:
            return True
        level = self._levels.get(shared)
        return level is not None and bool(level.joins) and position < level.joins[-1].at


def branches_of(events: Strand[Event]) -> Branches:
    """The branches of a log, kept with it; for whoever holds its lock."""
    branches = events.memo[Branches]
    if branches.read_to > events.settled:  # an older snapshot
        branches = events.memo.keep(Branches())
    branches.read(events)
    return branches


def _is_over(level: _Level, event: Event) -> bool:
    """Whether an event shows that what runs below a branch is over.

    An agent speaks, or a flow ends, only after the flows before it, and a user's words are said
    after what was said; a user's answers may be to a branch that still waits. Where another
    invocation begins, the one before may be resumed, but what it said so far is said: others may
    have read it by then, and what was sent once stays where it is.
    """
    if event.invocation_id != level.invocation:
        return True
    if event.author == "user":
        return event.content is not None and not event.results
    return event.content is not None or bool(event.actions.end_of_agent)


def _rank(branch: str, event: Event) -> int:
    """The number that a flow has for a branch, which the path of its events tells.

    Logs of other frameworks have no paths; then branches stand in the order they first spoke.
    """
    path = event.node_info.get("path") if event.node_info is not None else None
    if not isinstance(path, str):
        return _UNRANKED
    names = branch.split(".")
    steps = [step.partition("@") for step in path.split("/")]
    at, rank = 0, _UNRANKED
    for (flow, _, _), (name, _, number) in pairwise(steps):
        if at + 1 >= len(names):
            break
        if flow == names[at] and f"{names[at + 1]}_".startswith(f"{name}_"):
            rank = int(number) if number.isdigit() else _UNRANKED
            at += 2
    return rank if at == len(names) else _UNRANKED


class _Speech(NamedTuple):
    """The values of a list, as texts may spell them."""

    texts: frozenset[str]
    others: frozenset[bytes]

    def has(self, text: str) -> bool:
        if text.strip() in self.texts:
            return True
        return bool(self.others) and _canonical_of(text) in self.others


def _spoken_by(values: list[Json]) -> _Speech:
    texts = frozenset(value.strip() for value in values if isinstance(value, str))
    others = (canonical(v) for v in values if v is not None and not isinstance(v, str))
    return _Speech(texts, frozenset(others))


def _canonical_of(text: str) -> bytes:
    """The canonical form of a text that is JSON; else of nothing."""
    try:
        return canonical(json.loads(text))
    except (ValueError, RecursionError):
        return b""


def around(branch: str) -> Mapping[str, None]:
    """The branch, and those it is part of; the outermost first."""
    steps = branch.split(".") if branch else []
    return dict.fromkeys(["", *(".".join(steps[: n + 1]) for n in range(len(steps)))])
