"""What a log says of itself, looking back: its current turn, what is out of view, what holds.

Where the turn begins, what a rewind, a summary or a flow took out of view, on which branch a
thing is by now, and which effects were stored. All of it is read from the events alone.
"""

from collections.abc import Iterable, Mapping

import msgspec

from weft.content import Content
from weft.session.event import Event
from weft.session.strand import Strand
from weft.session.unread import skim_of
from weft.session.waiting import is_undone
from weft.values import JsonObject

_SUMMED = "a summary stands for it"

_UNDONE = "its flow took it back"

_JOINED = "it is a piece of an answer that was put together"


def start_of(events: Strand[Event], invocation: str) -> int:
    """The log index the current turn begins at.

    A turn begins where its invocation does, with what the user asked. A result that comes in a
    later invocation continues the turn of its call.
    """
    if events.tail or not invocation:
        return _look_back(events, invocation)
    starts = events.memo[_Turn]
    known = starts.known
    start = known.start
    if known.invocation != invocation or not _goes_on(events, known.read, invocation):
        start = _look_back(events, invocation)
    starts.known = _Start(events.settled, invocation, start)
    return start


class _Start(msgspec.Struct, frozen=True):
    """Where the turn of an invocation begins, as of the first `read` events of a log."""

    read: int
    invocation: str
    start: int


class _Turn:
    """The newest turn of a log; put there in one piece, as threads may look at it at once."""

    def __init__(self) -> None:
        self.known = _Start(0, "", 0)


_NEAR = 64
"""How far a result may stand behind its call to be taken for one of the same turn."""


def _goes_on(events: Strand[Event], start: int, invocation: str) -> bool:
    """Whether the events from `start` on only continue the turn: calls, words, and results.

    A long turn is not looked through at every step. Where the user speaks again, or a result
    answers an earlier turn, it is.
    """
    if start > events.settled:  # an older snapshot
        return False
    for index in range(start, events.settled):
        event = events[index]
        if event.invocation_id != invocation or (event.author == "user" and not event.results):
            return False
        sought = {result.id for result in event.results if result.id}
        for before in range(index - 1, max(-1, index - _NEAR), -1):
            if not sought:
                break
            other = events[before]
            if other.invocation_id != invocation or (other.author == "user" and not other.results):
                return False
            sought -= {call.id for call in other.calls}
        if sought:
            return False
    return True


def _look_back(events: Strand[Event], invocation: str) -> int:
    """As `start_of`, by looking at the whole turn."""
    for follow in (True, False):  # a result that answers no call at all leads nowhere
        begins = _begins(events, invocation, follow)
        if begins is not None:
            return begins
    index = len(events)
    while index > 0 and events[index - 1].invocation_id == invocation:
        index -= 1
    return index


def _begins(events: Strand[Event], invocation: str, follow: bool) -> int | None:
    """Where the turn begins, going back to the calls of late results if `follow`."""
    asked = False
    sought: set[str | None] = set()
    for index in range(len(events) - 1, -1, -1):
        event = events[index]
        if asked and not sought and not (invocation and event.invocation_id == invocation):
            return index + 1
        results = event.results
        if follow:
            sought -= {call.id for call in event.calls}
            sought |= {result.id for result in results if result.id}
        if event.author == "user" and event.content is not None and not results and not sought:
            asked = True
    return 0 if asked and not sought else None


def user_content(events: Strand[Event], invocation: str) -> Content | None:
    """What the user said to start the invocation."""
    content: Content | None = None
    for index in range(len(events) - 1, -1, -1):
        event = events[index]
        if event.invocation_id != invocation:
            break
        if event.author == "user" and not event.results:
            content = event.content
            if not invocation:
                break
    return content


def hidden_by_rewind(events: Iterable[Event]) -> dict[int, str]:
    """Log indexes that a rewind took out of view, with the reason."""
    log = list(events)
    hidden: dict[int, str] = {}
    index = len(log) - 1
    while index >= 0:
        target = log[index].actions.rewind_before_invocation_id
        if target:
            first = next((i for i in range(index) if log[i].invocation_id == target), None)
            hidden[index] = "it is the rewind itself"
            if first is not None:
                for between in range(first, index):
                    hidden[between] = f"rewound to before invocation {target}"
                index = first
        index -= 1
    return hidden


def hidden_by_compaction(events: Iterable[Event], branch: str, current: str) -> dict[int, str]:
    """Log indexes whose events a summary stands for that this branch sees, with the reason.

    What the user said in the current invocation stays in view, whatever was summed up.
    """
    log = list(events)
    rewound = hidden_by_rewind(log)
    ranges = [
        (c.start_timestamp, c.end_timestamp, index)
        for index, event in enumerate(log)
        if (c := event.actions.compaction) is not None
        and index not in rewound
        and f"{branch}.".startswith(f"{event.branch}." if event.branch else "")
    ]
    hidden: dict[int, str] = {}
    for start, end, index in ranges:
        if any(s <= start and end <= e and i != index and (e - s, i) > (end - start, index)
               for s, e, i in ranges):  # fmt: skip
            hidden[index] = "a wider summary covers it"
    for index, event in enumerate(log):
        covered = any(
            s <= event.timestamp <= e and index < i for s, e, i in ranges if i not in hidden
        )
        asked = event.author == "user" and event.invocation_id == current and not event.results
        if covered and event.actions.compaction is None and not asked:
            hidden[index] = _SUMMED
    for index in _still_answered(log, hidden, rewound):
        del hidden[index]
    return hidden


def _still_answered(
    log: list[Event], hidden: dict[int, str], rewound: dict[int, str]
) -> Iterable[int]:
    """Summed-up events that a later result needs: its call, and the results beside it."""
    newest: dict[str | None, int] = {}
    owners: dict[tuple[int, str | None], list[int]] = {}
    needed: set[int] = set()
    for index, event in enumerate(log):
        for call in event.calls:
            newest[call.id] = index
        for result in event.results:
            owner = newest.get(result.id) if result.id else None
            if owner is None or hidden.get(owner) != _SUMMED:
                continue
            owners.setdefault((owner, result.id), []).append(index)
            if index not in hidden and index not in rewound:
                needed.add(owner)
    beside = {
        index for (owner, _), indexes in owners.items() if owner in needed for index in indexes
    }
    return (needed | beside) & hidden.keys()


def hidden_by_undoing(events: Iterable[Event]) -> dict[int, str]:
    """Log indexes of what flows took back, with the reason."""
    log = list(events)
    hidden: dict[int, str] = {}
    for index, event in enumerate(log):
        notes = event.provenance
        if paths := notes.undone:
            mine = (i for i in range(index) if is_undone(log[i], event, paths))
            hidden.update(dict.fromkeys(mine, _UNDONE))
        if pieces := notes.pieces:
            joined = (i for i in range(index) if log[i].id in pieces)
            hidden.update(dict.fromkeys(joined, _JOINED))
    return hidden


def joined_branches(events: Iterable[Event]) -> dict[int, str]:
    """Log indexes of what was said on a branch that was joined, with the branch it is on now."""
    log = list(events)
    branches: dict[int, str] = {}
    for index, event in enumerate(log):
        joined = event.provenance.joined
        if joined is None or not joined.branch:
            continue
        path, branch = joined.path, joined.branch
        for other in range(index):
            on = branches.get(other, log[other].branch or "")
            if is_undone(log[other], event, [path]) and f"{on}.".startswith(f"{branch}."):
                below = on[len(branch) + 1 :]
                branches[other] = ".".join(name for name in (event.branch, below) if name)
    return branches


def effects_of(log: Strand[Event]) -> Mapping[str, JsonObject]:
    """The effects in a log by fingerprint, the newest of each; what was read is kept with it."""
    fold = log.memo[_Effects]
    known = fold.known if fold.known.read <= log.settled else _Known(0, {})
    if not known.read and (skim := skim_of(log)) is not None:  # plain talk has no effects
        known = _Known(skim.length, {})
    if known.read == log.settled:
        return known.effects
    fresh = log.since(known.read)[: log.settled - known.read]
    if any(event.actions.rewind_before_invocation_id for event in fresh):
        effects = _not_rewound(log.since(0)[: log.settled])
    else:
        new = {
            str(effect.get("fingerprint")): effect
            for event in fresh
            if (effect := event.provenance.effect)
        }
        effects = {**known.effects, **new} if new else known.effects
    fold.known = _Known(log.settled, effects)
    return effects


class _Known(msgspec.Struct, frozen=True):
    """The effects of a log's first `read` events, by fingerprint."""

    read: int
    effects: dict[str, JsonObject]


class _Effects:
    """What is known of a log; put there in one piece, as threads may look at it at once."""

    def __init__(self) -> None:
        self.known = _Known(0, {})


def _not_rewound(events: list[Event]) -> dict[str, JsonObject]:
    """The effects that still hold: what was written into state and taken back does not."""
    hidden = hidden_by_rewind(events)
    return {
        str(effect.get("fingerprint")): effect
        for index, event in enumerate(events)
        if (effect := event.provenance.effect) is not None
        if index not in hidden or not effect.get("key")
    }
