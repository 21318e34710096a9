"""What a log says of itself, looking back: its current turn, what is out of view, what holds.

Where the turn begins, what a rewind, a summary or a flow took out of view, on which branch a
thing is by now, which effects were stored, who wrote what, which calls wait for an answer from
outside, and which files are kept next to the log. All of it is read from the events alone.
"""

from collections.abc import Callable, Container, Iterable, Mapping, Sequence
from functools import partial
from typing import NamedTuple

import msgspec

from weft.content import Content, Part
from weft.media import SCHEME
from weft.session.event import EMPTY_ACTIONS, NO_ACTIONS, Event, Forks, forks_after, written_by
from weft.session.strand import Skim, Strand, fold_log, skim_of
from weft.values import JsonObject, spells

_SUMMED = "a summary stands for it"

_UNDONE = "its flow took it back"

_JOINED = "it is a piece of an answer that was put together"


def start_of(events: Strand[Event], invocation: str) -> int:
    """The log index the current turn begins at.

    A turn begins where its invocation does, with what the user asked. A result that comes in a
    later invocation continues the turn of its call.
    """
    # a message that is not stored is not a ground to remember anything on
    if events.tail or not invocation:
        return _look_back(events, invocation)
    starts = events.memo[_Turn]
    known = starts.known
    start = known.start
    # a tool loop asks at every step: only what is new is looked at
    if known.invocation != invocation or not _goes_on(events, known.read, invocation):
        start = _look_back(events, invocation)
    starts.known = _Start(events.settled, invocation, start)
    return start


class _Start(NamedTuple):
    """Where the turn of an invocation begins, as of the first `read` events of a log."""

    read: int
    invocation: str
    start: int


class _Turn:
    """The newest turn of a log; put there in one piece, as threads may look at it at once."""

    def __init__(self) -> None:
        self.known = _Start(0, "", 0)


_NEAR = 64
"""How far a result may stand after its call to be taken for one of the same turn."""


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
    # nobody asked: the turn is what the invocation has
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
    asked = user_event(events, invocation)
    return asked.content if asked is not None else None


def user_event(events: Strand[Event], invocation: str) -> Event | None:
    """The message that started the invocation."""
    asked: Event | None = None
    for index in range(len(events) - 1, -1, -1):
        event = events[index]
        if event.invocation_id != invocation:
            break
        if event.author == "user" and not event.results:
            asked = event
            if not invocation:
                break
    return asked


def hidden_by_rewind(events: Iterable[Event]) -> dict[int, str]:
    """Log indexes that a rewind took out of view, with the reason."""
    log = list(events)
    rewinds: list[Rewind] = []
    for index, event in enumerate(log):
        target = event.actions.rewind_before_invocation_id
        if target:
            rewinds.append(Rewind(index, target))
    firsts: dict[str, int] = {}
    for index, event in enumerate(log if rewinds else ()):
        firsts.setdefault(event.invocation_id, index)
    return _hide(rewinds, firsts.get)


def hidden_in(log: Strand[Event]) -> Mapping[int, str]:
    """As `hidden_by_rewind`, by the facts of the log: its events are not read for it."""
    facts = facts_of(log)
    if log.tail:
        facts = facts.after(log.tail)
    rewinds = facts.rewinds
    if not rewinds:
        return {}
    known = log.memo.of(_RewindView)
    if known is None or known.rewinds != rewinds:
        known = log.memo.keep(_RewindView(rewinds, _hide(rewinds, partial(find_invocation, log))))
    return known.hidden


class _RewindView(NamedTuple):
    """What some rewinds took out of view; every agent asks for it."""

    rewinds: "tuple[Rewind, ...]"
    hidden: Mapping[int, str]


class Rewind(NamedTuple):
    """Where in a log a rewind stands, and the invocation that it goes back to before."""

    position: int
    target: str


def _hide(rewinds: Sequence[Rewind], find: Callable[[str], int | None]) -> dict[int, str]:
    """What rewinds take out of view; `find` says where an invocation begins."""
    hidden: dict[int, str] = {}
    reached: int | None = None
    # from the end: a rewind that was itself rewound does not count
    for position, target in reversed(rewinds):
        if reached is not None and position >= reached:
            continue
        hidden[position] = "it is the rewind itself"
        first = find(target)
        if first is not None and first < position:
            reason = f"rewound to before invocation {target}"
            hidden.update(dict.fromkeys(range(first, position), reason))
            reached = first
    return hidden


def find_invocation(log: Strand[Event], invocation_id: str) -> int | None:
    """Where the first event of an invocation stands; None where the log has none."""
    skim, start = skim_of(log), 0
    # the beginning of a long log is not decoded only to find what its store knows
    if skim is not None:
        known = skim.invocations.find(invocation_id)
        if known is not None:
            return known
        start = skim.length
    for position, event in enumerate(log.since(start), start):
        if event.invocation_id == invocation_id:
            return position
    return None


def hidden_by_compaction(
    events: Iterable[Event], branch: str, current: str, seen: Container[int] | None = None
) -> dict[int, str]:
    """Log indexes whose events a summary stands for that this branch sees, with the reason.

    What the user said in the current invocation stays in view, whatever was summed up. `seen` are
    the events that this branch sees, where it does not see all.
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
        # of two summaries of the same stretch the later one stands
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
    for index in _still_answered(log, hidden, rewound, seen):
        del hidden[index]
    return hidden


def _still_answered(
    log: list[Event],
    hidden: dict[int, str],
    rewound: dict[int, str],
    seen: Container[int] | None,
) -> Iterable[int]:
    """Summed-up events that a later result in view needs: its call and the call's results."""
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
            in_view = index not in hidden and index not in rewound
            if in_view and (seen is None or index in seen):
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


class ArtifactHistory(NamedTuple):
    """The versions of artifacts before a place of a log, and the names of those that came after."""

    before: dict[str, int]
    after: set[str]


def artifacts_around(log: Iterable[Event], index: int) -> ArtifactHistory:
    """Which artifacts were saved before the event at an index, and which from it on."""
    history = ArtifactHistory({}, set())
    for at, event in enumerate(log):
        if at < index:
            history.before.update(event.actions.artifact_delta)
        else:
            history.after.update(event.actions.artifact_delta)
    return history


def effects_of(log: Strand[Event]) -> Mapping[str, JsonObject]:
    """The effects in a log by fingerprint, the newest of each; what was read is kept with it."""
    fold = log.memo[_Effects]
    # an older snapshot of the log: what a newer one knows is not its own
    known = fold.known if fold.known.read <= log.settled else _KnownEffects(0, {})
    if not known.read and (skim := skim_of(log)) is not None:  # plain talk has no effects
        known = _KnownEffects(skim.length, {})
    if known.read == log.settled:
        return known.effects
    fresh = log.since(known.read)[: log.settled - known.read]
    # a rewind takes effects back, so all of them are looked at again
    if any(event.actions.rewind_before_invocation_id for event in fresh):
        effects = _not_rewound(log.since(0)[: log.settled])
    else:
        new = {
            str(effect.get("fingerprint")): effect
            for event in fresh
            if (effect := event.provenance.effect)
        }
        effects = {**known.effects, **new} if new else known.effects
    fold.known = _KnownEffects(log.settled, effects)
    return effects


class _KnownEffects(NamedTuple):
    """The effects of a log's first `read` events, by fingerprint."""

    read: int
    effects: dict[str, JsonObject]


class _Effects:
    """What is known of a log; put there in one piece, as threads may look at it at once."""

    def __init__(self) -> None:
        self.known = _KnownEffects(0, {})


def _not_rewound(events: list[Event]) -> dict[str, JsonObject]:
    """The effects that still hold: what was written into state and taken back does not."""
    hidden = hidden_by_rewind(events)
    return {
        str(effect.get("fingerprint")): effect
        for index, event in enumerate(events)
        if (effect := event.provenance.effect) is not None
        # a summary stays right after a rewind; what was written into state is gone
        if index not in hidden or not effect.get("key")
    }


# --- the facts of a log, read together


class LogFacts(msgspec.Struct, frozen=True):
    """What there is to know of a log after reading `read` of its events.

    `produced` are the keys answers were stored or renamed under, `volatile` all keys that agents
    and tools wrote, `reaches_back` the index of the last event that does so, or -1, `reshaped` that
    of the last one that is more than a rewind, `rewinds` the rewinds, `forks` what branches wrote
    for themselves, `branched` whether anything stands on a branch, `captured` the keys that the
    user's words were copied to, `asked` what the user said last, `authors` who made the events, and
    `newest` the last of them: these join the others many at once, so that one more agent of a long
    flow costs the same as the first. `untrusted` are the tools whose results nobody vouches for.
    """

    read: int = 0
    produced: frozenset[str] = frozenset()
    volatile: frozenset[str] = frozenset()
    reaches_back: int = -1
    forks: Forks = {}
    branched: bool = False
    captured: frozenset[str] = frozenset()
    asked: Event | None = None
    authors: frozenset[str] = frozenset()
    newest: frozenset[str] = frozenset()
    reshaped: int = -1
    rewinds: tuple[Rewind, ...] = ()
    untrusted: frozenset[str] = frozenset()

    def has_author(self, name: str) -> bool:
        """Whether somebody of this name made an event."""
        return name in self.newest or name in self.authors

    def after(self, events: Sequence[Event], /) -> "LogFacts":
        """What is known once these events follow."""
        wrote: list[Event] = []
        reaches_back, position, forks = self.reaches_back, self.read, self.forks
        branched, captured, asked = self.branched, self.captured, self.asked
        authors, newest, untrusted = self.authors, self.newest, self.untrusted
        reshaped, rewinds = self.reshaped, self.rewinds
        for event in events:
            actions = event.actions
            if event.author not in newest and event.author not in authors:
                newest |= {event.author}
                # joined in bulk: to copy the large set for each new agent would cost n squared
                if len(newest) > _MOST_NEW:
                    authors, newest = authors | newest, frozenset[str]()
            if event.author == "user" and event.content is not None:
                asked = event
            if actions is not NO_ACTIONS and actions is not EMPTY_ACTIONS:
                if actions.state_delta and event.author != "user" and not event.partial:
                    wrote.append(event)
                    # an event with words of its own stores its answer, not the user's message
                    if event.content is None:
                        captured |= _captured_keys(event, asked)
                if target := actions.rewind_before_invocation_id:
                    reaches_back = position
                    rewinds = (*rewinds, Rewind(position, target))
                if actions.compaction is not None:
                    reaches_back = reshaped = position
            if event.branch:
                branched = True
            if event.custom_metadata and event.is_noted:
                notes = event.provenance
                forks = forks_after(forks, notes)
                if notes.offered is not None:
                    untrusted |= notes.offered.find_untrusted()
                if notes.reaches_back:
                    reaches_back = reshaped = position
                if notes.writes and not actions.state_delta and written_by(event):
                    wrote.append(event)
                    if event.content is None:
                        captured |= _captured_keys(event, asked)
            position += 1
        produced, volatile = self.produced, self.volatile
        if wrote:
            keys, written = set(produced), set(volatile)
            # in the order of the log, so that it adds up to the same at once and step by step
            for event in wrote:
                keys.update(wrote_keys(event))
                if event.is_noted:
                    keys.update(gathered_by(event))
                if None in event.actions.state_delta.values():
                    keys.update(_moved_keys(event, keys))
                written.update(written_by(event))
            produced, volatile = frozenset(keys), frozenset(written)
        return LogFacts(
            position,
            produced,
            volatile,
            reaches_back,
            forks,
            branched,
            captured,
            asked,
            authors,
            newest,
            reshaped,
            rewinds,
            untrusted,
        )


_NO_FACTS = LogFacts()

_MOST_NEW = 64
"""How many authors are kept apart before they join the others."""


def facts_of(log: Strand[Event]) -> LogFacts:
    """The facts of this log, kept with it.

    Facts are values: two who find them at once find the same, so that no lock is needed.
    """
    if not log.settled:
        return _NO_FACTS
    known: tuple[int, LogFacts] | None = log.memo.get(LogFacts)  # type: ignore[assignment]
    if known is not None:
        # a request asks more than once
        return known[1] if known[0] == log.settled else log.derive(LogFacts)
    return fold_log(
        log,
        LogFacts,
        lambda skim: LogFacts(
            skim.length,
            skim.produced,
            skim.volatile,
            asked=log[skim.asked],
            authors=skim.authors,
            reaches_back=skim.rewinds[-1][0] if skim.rewinds else -1,
            rewinds=tuple(Rewind(*one) for one in skim.rewinds),
        ),
    )


class SuppliedKeys(msgspec.Struct, frozen=True):
    """The state keys that came with the user's messages."""

    keys: frozenset[str] = frozenset()

    def after(self, events: Sequence[Event]) -> "SuppliedKeys":
        """The keys once these events follow."""
        deltas = [event.actions.state_delta for event in events if event.author == "user"]
        more = self.keys.union(*deltas)
        return SuppliedKeys(more) if len(more) > len(self.keys) else self


def supplied_keys(log: Strand[Event]) -> frozenset[str]:
    """The state keys that the application wrote with the user's messages."""
    skim = skim_of(log)
    if skim is None or (noted := skim.supplied) is None:
        return log.derive(SuppliedKeys).keys
    return fold_log(log, SuppliedKeys, lambda _: SuppliedKeys(noted)).keys


def _captured_keys(event: Event, asked: Event | None) -> frozenset[str]:
    """The keys under which an event without words keeps what the user said last."""
    if asked is None:
        return frozenset()
    text = asked.text
    return frozenset(key for key, value in written_by(event).items() if text and value == text)


def _moved_keys(event: Event, produced: Container[str]) -> list[str]:
    """The keys that an answer may stand under since its own was taken away, as by a renaming."""
    delta = event.actions.state_delta
    # only a key that held an answer and is deleted here can have moved
    if not any(value is None and key in produced for key, value in delta.items()):
        return []
    return [key for key, value in delta.items() if value is not None]


def wrote_keys(event: Event) -> tuple[str, ...]:
    """The state keys under which the event stored its own text."""
    text = event.text
    if not text:
        return ()
    keys: list[str] = []
    for key, value in written_by(event).items():
        if value == text or spells(text, value):
            keys.append(key)
    return tuple(keys)


def gathered_by(event: Event) -> list[str]:
    """The keys of the lists of what was said on branches, as the end of a map writes them."""
    if event.provenance.closed is None:
        return []
    return [key for key, value in event.actions.state_delta.items() if isinstance(value, list)]


# --- calls that wait

CONFIRMATION = "adk_request_confirmation"
"""The name of the question to the user whether a call may run; ADK's clients know it."""

INPUT = "adk_request_input"
"""The name of a gate's question to the user; ADK's clients know it."""

RESERVED = "adk_"
"""What the names of calls begin with that only a runtime makes."""

QUESTION = "ask-"
"""What the id of a confirmation begins with; the id of the call it is about follows."""


def waiting_in(log: Strand[Event]) -> dict[str, str]:
    """The calls of a log that wait, for a result or for the user's word: their ids and names.

    The log says it in three ways: an event marks calls as pending, a result answers a call, and
    the answer to a confirmation answers the call it is about. What a rewind or a flow took back
    neither asks nor answers anything.
    """
    # nothing waits in plain talk
    waiting = fold_log(log, _Waiting, lambda skim: _Waiting(before=skim.invocations))
    if log.tail:
        waiting = waiting.after(log.tail)
    return {id: call.name for id, call in waiting.open.items()}


def is_undone(event: Event, marker: Event, paths: list[str]) -> bool:
    """Whether the event was made in the marker's invocation and task, at or below a path."""
    if event.invocation_id != marker.invocation_id:
        return False
    path = event.node_info.get("path") if event.node_info is not None else None
    return isinstance(path, str) and any(
        path == above or path.startswith(f"{above}/") for above in paths
    )


class _WaitingCall(NamedTuple):
    """A call that waits: whom it is to, and the event that says so."""

    name: str
    event: Event


class _Waiting(NamedTuple):
    """The calls that wait after some events of a log."""

    open: dict[str, _WaitingCall] = {}
    names: dict[str, str] = {}
    """Whom the calls are to, by id, as far as a result may still say that they wait."""
    begun: "_WaitingBefore | None" = None
    """The invocations so far, the newest first: a rewind goes back to what waited before one."""
    before: Container[str] = ()
    """Invocations before those, in which nothing ever waited."""

    def after(self, events: Sequence[Event]) -> "_Waiting":
        """The calls that wait once these events follow."""
        open, names, begun = {**self.open}, {**self.names}, self.begun
        for event in events:
            if begun is None or begun.invocation_id != event.invocation_id:
                begun = _WaitingBefore(event.invocation_id, {**open}, {**names}, begun)
            target = event.actions.rewind_before_invocation_id
            if not target:
                open = _after(event, open, names)
            # nothing waited in the talk that nobody read
            elif target in self.before:
                open, names = {}, {}
            elif (first := _first(begun, target)) is not None:
                open, names = {**first.open}, {**first.names}
        return _Waiting(open, names, begun, self.before)


class _WaitingBefore(NamedTuple):
    """What waited when events of an invocation began, and the same of what came before."""

    invocation_id: str
    open: dict[str, _WaitingCall]
    names: dict[str, str]
    earlier: "_WaitingBefore | None"


def _first(begun: _WaitingBefore | None, invocation_id: str) -> _WaitingBefore | None:
    """Where the invocation began; its events may be mixed with those of others."""
    first: _WaitingBefore | None = None
    while begun is not None:
        if begun.invocation_id == invocation_id:
            first = begun
        begun = begun.earlier
    return first


def _after(
    event: Event, open: dict[str, _WaitingCall], names: dict[str, str]
) -> dict[str, _WaitingCall]:
    """The open calls after an event that is not a rewind; `names` is kept up in place."""
    pending: list[str] = []
    if event.custom_metadata and event.is_noted:
        notes = event.provenance
        pending, paths = notes.pending or [], notes.undone
        if open and paths:
            open = {
                id: call for id, call in open.items() if not is_undone(call.event, event, paths)
            }
    content = event.content
    for part in (content.parts or ()) if content is not None else ():
        call, result = part.function_call, part.function_response
        if call is not None:
            names[call.id or ""] = event.author if call.name == INPUT else call.name or ""
        elif result is not None:
            asked = result.name == CONFIRMATION
            call_id = (result.id or "").removeprefix(QUESTION if asked else "")
            open.pop(call_id, None)
            # a result that says that the call still waits is not an answer
            if not asked and call_id not in pending:
                names.pop(call_id, None)
    for id in pending:
        open[id] = _WaitingCall(names.get(id, ""), event)
    return open


# --- files next to the log


def addresses_in(log: Strand[Event]) -> tuple[str, ...]:
    """The addresses in a log; of a log that was read before, only new events are looked at."""
    if MediaReferences in log.memo:
        references = log.derive(MediaReferences)
    else:
        references = fold_log(log, MediaReferences, _in_talk)
    return (references.after(log.tail) if log.tail else references).uris


class MediaReferences(msgspec.Struct, frozen=True):
    """The addresses of artifacts in the events of a log, each once."""

    uris: tuple[str, ...] = ()

    def after(self, events: Sequence[Event]) -> "MediaReferences":
        """The addresses once these events follow."""
        more: list[str] = []
        for event in events:
            content = event.content
            for part in (content.parts or ()) if content is not None else ():
                result = part.function_response
                # nearly every part is a text, a call or a result without files
                if part.file_data is not None or (result is not None and result.parts):
                    more += _addresses(part)
        return MediaReferences(tuple(dict.fromkeys((*self.uris, *more)))) if more else self


def _in_talk(skim: Skim) -> MediaReferences:
    """The addresses in plain talk, which has none."""
    return MediaReferences()


def _addresses(part: Part) -> Iterable[str]:
    file, result = part.file_data, part.function_response
    if file is not None and (file.file_uri or "").startswith(SCHEME):
        yield file.file_uri or ""
    for raw in (result.parts or ()) if result is not None else ():
        data = raw.get("fileData")
        uri = data.get("fileUri") if isinstance(data, dict) else None
        if isinstance(uri, str) and uri.startswith(SCHEME):
            yield uri
