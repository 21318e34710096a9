"""A thread: what one agent's view of one growing log has already been compiled to.

Events never change, so what was built, passed, lowered and counted for them is kept with
the log and reused. Only what is new runs through the passes. Where a new event reaches
back (a rewind, a compaction, a late result, a value that the instruction now carries), the
thread starts again from the beginning; the report says what that broke.
"""

from collections.abc import Callable, Mapping
from functools import partial
from typing import NamedTuple, cast

import msgspec

from weft.compiler.beside import Made, branches_of, built_of, joined_items, notes_beside
from weft.compiler.build import (
    Built,
    build_items,
    build_some,
    hidden_by_compaction,
    hidden_by_rewind,
    plain_items,
    wrote_keys,
)
from weft.compiler.undone import gathered_by, hidden_by_undoing, undoes
from weft.diagnostics import Diagnostic
from weft.dialects import Track
from weft.ir import CallBlock, Feature, Item, Note, Prompt, ResultBlock
from weft.passes import Env, Passes, run
from weft.session import Event
from weft.session.event import NO_ACTIONS
from weft.session.forks import Forks, forks_after, written_by
from weft.values import Strand


class Facts(msgspec.Struct, frozen=True):
    """What there is to know of a log after reading so many of its events.

    `produced` are the keys answers were stored or renamed under, `volatile` all keys that agents
    and tools wrote, `reaches_back` the index of the last event that does so, or -1, `forks` what
    branches wrote for themselves, `branched` whether anything stands on a branch, `captured` the
    keys that the user's words were copied to, `asked` what the user said last.
    """

    read: int = 0
    produced: frozenset[str] = frozenset()
    volatile: frozenset[str] = frozenset()
    reaches_back: int = -1
    forks: Forks = {}
    branched: bool = False
    captured: frozenset[str] = frozenset()
    asked: Event | None = None

    def after(self, events: Strand[Event]) -> "Facts":
        """What is known once the events that were not read yet are read."""
        wrote: list[Event] = []
        reaches_back, position, forks = self.reaches_back, self.read, self.forks
        branched, captured, asked = self.branched, self.captured, self.asked
        for event in events.since(self.read):
            actions = event.actions
            if event.author == "user" and event.content is not None:
                asked = event
            if actions is not NO_ACTIONS:
                if actions.state_delta and event.author != "user" and not event.partial:
                    wrote.append(event)
                    captured |= _captured(event, asked)
                if actions.rewind_before_invocation_id or actions.compaction is not None:
                    reaches_back = position
            if event.branch:
                branched = True
            if event.custom_metadata is not None:
                forks = forks_after(forks, event)
                if undoes(event):
                    reaches_back = position
                if not actions.state_delta and written_by(event):
                    wrote.append(event)
                    captured |= _captured(event, asked)
            position += 1
        if not wrote:
            return Facts(
                position,
                self.produced,
                self.volatile,
                reaches_back,
                forks,
                branched,
                captured,
                asked,
            )
        produced = self.produced.union(*(wrote_keys(event) for event in wrote))
        produced = produced.union(*(gathered_by(event) for event in wrote))
        return Facts(
            position,
            produced.union(*(_moved(event, produced) for event in wrote)),
            self.volatile.union(*(written_by(event) for event in wrote)),
            reaches_back,
            forks,
            branched,
            captured,
            asked,
        )


def _captured(event: Event, asked: Event | None) -> frozenset[str]:
    """The keys under which an event keeps what the user said last."""
    if asked is None or event.content is not None:
        return frozenset()
    text = asked.text
    return frozenset(key for key, value in written_by(event).items() if text and value == text)


def _moved(event: Event, produced: frozenset[str]) -> list[str]:
    """The keys that an answer may stand under since its own was taken away, as by a renaming."""
    delta = event.actions.state_delta
    if not any(value is None and key in produced for key, value in delta.items()):
        return []
    return [key for key, value in delta.items() if value is not None]


def facts_of(log: Strand[Event]) -> Facts:
    """The facts of this log, kept with it; for an older snapshot it is read again.

    Facts are values: two who find them at once find the same, so that no lock is needed.
    """
    held = log.memo.get("facts")
    facts = held if isinstance(held, Facts) and held.read <= log.settled else Facts()
    if facts.read < log.settled:
        facts = log.memo["facts"] = facts.after(log)
    return facts


class Slot(NamedTuple):
    """Where a thread is kept with the log: who looks, from which branch, under which policy.

    `measure` is by what things are found large, where the policy asks for that: by which model's
    tokens, and from how many on for each tool.
    """

    agent: str
    branch: str
    view: str
    measure: str = ""


class Basis(NamedTuple):
    """What a thread's items depend on beside the log and its slot; they change seldom.

    `start` is where the view begins, `carried` what the instruction says of the log already,
    `reaches_back` the last event that changes earlier ones, `current` the invocation it is in,
    `withheld` the keys, files and values that the agent may not see.
    """

    start: int
    carried: tuple[tuple[str, str], ...]
    reaches_back: int
    current: str
    withheld: tuple[Mapping[str, tuple[str, ...]], ...] = ()


WHOLE = Basis(0, (), -1, "")
"""What nearly every thread depends on: a view of the whole log, into which nothing reaches back."""


class Woven(msgspec.Struct, frozen=True):
    """The items of a request, and what the passes said about all of them.

    `skipped` events lie before the current turn and were not looked at, as the policy wants.
    """

    items: Strand[Item]
    notes: Strand[Note]
    diagnostics: tuple[Diagnostic, ...]
    features: int
    skipped: int
    beside: Callable[[], list[Note]]
    """What is to be said about events on other branches, which were not looked at."""


class Thread:
    """The settled items of one view, and what was derived from them."""

    def __init__(self, slot: Slot, basis: Basis, made: dict[int, Made] | None = None) -> None:
        self.slot = slot
        self.basis = basis
        self._made = made
        """What all threads of the log have built of it, where there are several."""
        self._begin()

    def _begin(self) -> None:
        """Start from the beginning of the view."""
        self.consumed = self.basis.start
        self.settled: Strand[Item] = Strand()
        self.notes: Strand[Note] = Strand()
        self.diagnostics: tuple[Diagnostic, ...] = ()
        self.used_ids: set[str] = set()
        self.called: set[str] = set()
        self.features = Feature.NONE
        self.tracks: dict[tuple[str, str, bool], Track] = {}
        self._passed_by = -1
        """From where on events of other branches were not looked at; -1 where all were."""

    def track(self, dialect: str, model: str, *, strict: bool = False) -> Track:
        """The turns lowered so far for a model; strict ones apart, where nothing was lost."""
        key = (dialect, model, strict)
        held = self.tracks.get(key)
        return held if held is not None else self.tracks.setdefault(key, Track())

    def weave(self, events: Strand[Event], env: Env, passes: Passes) -> Woven:
        """Run what is new through the passes, and settle what cannot change any more."""
        talk = self._talk(events, env) if passes.plain else None
        if talk is not None:
            return talk
        built, joined = self._build(events)
        features = built.features
        if features & Feature.CALLS and self._reaches_back(built):
            self._begin()
            built, joined = self._build(events)
            features = built.features
        self.features |= features
        env = msgspec.structs.replace(
            env,
            used_ids=self.used_ids,
            opening=not self.settled.settled,
            before=self.settled,
        )
        prompt = Prompt(
            model="",
            agent=env.agent,
            items=Strand(built.items),
            features=features,
            diagnostics=tuple(built.diagnostics),
        )
        prompt, _ = run(prompt, env, passes.fresh)
        self.features |= prompt.features & Feature.BOUNDED
        return self._settle(built, prompt, events, joined)

    def _talk(self, events: Strand[Event], env: Env) -> Woven | None:
        """What is new where it is plain talk only, which no pass would change; else None.

        At the beginning, and where the view is narrow, passes look at every item.
        """
        consumed = self.consumed
        if (
            not self.settled.settled
            or self.basis.reaches_back >= consumed
            or env.policy.view != "default"
            or env.captured
            or (
                facts_of(events).branched
                and not branches_of(events).is_quiet(self.slot.branch, consumed)
            )
        ):
            return None
        fresh = events.since(consumed)
        items = plain_items(fresh, consumed, env.agent)
        if len(items) < len(fresh):
            return None
        self.consumed = events.settled
        if not events.tail:
            self.settled = woven = self.settled.grown(items)
        else:
            self.settled = self.settled.grown(items[: events.settled - consumed])
            woven = self.settled.with_tail(items[events.settled - consumed :])
        return self._woven(woven, self.notes, self.diagnostics, events)

    def _woven(
        self,
        items: Strand[Item],
        notes: Strand[Note],
        diagnostics: tuple[Diagnostic, ...],
        events: Strand[Event],
    ) -> Woven:
        beside: Callable[[], list[Note]] = list
        if self._passed_by >= 0:
            slot = self.slot
            beside = partial(notes_beside, events, self._passed_by, slot.agent, slot.branch)
        return Woven(items, notes, diagnostics, self.features, self.basis.start, beside)

    def _settle(
        self, built: Built, prompt: Prompt, events: Strand[Event], joined: Mapping[int, int]
    ) -> Woven:
        """Keep the items that are final and what was said about them; the rest is passing."""
        fresh = prompt.items.since(0)
        whole, boundary = _settles(fresh, events.settled, joined)
        settled, tail = fresh[:whole], fresh[whole:]
        self.settled = self.settled.grown(settled)
        self.consumed = boundary
        if built.features & Feature.CALLS:
            self._remember_ids(settled, built.items, boundary, joined)
        notes, diagnostics = self.notes, self.diagnostics
        if prompt.notes:
            final: list[Note] = []
            passing_notes: list[Note] = []
            for note in prompt.notes:
                position = note.before.position
                is_final = joined.get(position, position) < boundary
                (final if is_final else passing_notes).append(note)
            self.notes = notes.grown(final)
            notes = self.notes.with_tail(passing_notes)
        if prompt.diagnostics:
            found = prompt.diagnostics
            open_events = {item.event for item in tail}
            self.diagnostics += tuple(d for d in found if d.origin.name not in open_events)
            passing = tuple(d for d in found if d.origin.name in open_events)
            diagnostics = self.diagnostics + passing
        items = self.settled.with_tail(tail)
        return self._woven(items, notes, diagnostics, events)

    def _build(self, events: Strand[Event]) -> tuple[Built, Mapping[int, int]]:
        """The new items; and for those of branches that joined, where in the log they did."""
        hidden: dict[int, str] | None = None
        agent = self.slot.agent
        if self.basis.reaches_back >= self.consumed:
            summed = hidden_by_compaction(events, self.slot.branch, self.basis.current)
            hidden = {**summed, **hidden_by_undoing(events), **hidden_by_rewind(events)}
        if facts_of(events).branched:
            return self._build_branched(events, hidden)
        if hidden is None and self._made is not None:
            positions = range(self.consumed, len(events))
            return built_of(events, positions, agent, self._made), {}
        return build_items(events.since(self.consumed), self.consumed, agent, hidden), {}

    def _build_branched(
        self, events: Strand[Event], hidden: dict[int, str] | None
    ) -> tuple[Built, Mapping[int, int]]:
        """The new items that are seen from this branch, where the log has branches."""
        branch = self.slot.branch
        seen = branches_of(events).seen_from(branch, events, self.consumed)
        positions = [row.position for row in seen]
        joined = {row.position: row.at for row in seen if row.at != row.position}
        if self._passed_by < 0:
            self._passed_by = self.consumed
        if hidden is not None:
            built = build_some(events, self.consumed, positions, self.slot.agent, hidden)
        else:
            made = self._made if self._made is not None else {}
            built = built_of(events, positions, self.slot.agent, made)
        if joined:
            joined_items(built, events, self.slot.agent, branch)
        return built, joined

    def _reaches_back(self, built: Built) -> bool:
        """Whether a new result answers a call that was answered before, as a late one does."""
        if self.consumed <= self.basis.start:
            return False
        fresh: set[str] = set()
        found = False
        for item in built.items:
            for block in item.blocks:
                if isinstance(block, CallBlock):
                    fresh.add(block.id)
                elif isinstance(block, ResultBlock) and block.call_id not in fresh:
                    found = found or block.call_id in self.called
        return found

    def _remember_ids(
        self, settled: list[Item], built: list[Item], boundary: int, joined: Mapping[int, int]
    ) -> None:
        """Keep the call ids that requests carry, and those that a late result could name."""
        for item in settled:
            if item.kind == "exchange" and item.author == self.slot.agent:
                for block in item.blocks:
                    if isinstance(block, CallBlock):
                        self.used_ids.add(block.id)
        for item in built:
            at = joined.get(item.position, item.position)
            if item.kind in ("calls", "hidden") and at < boundary:
                for block in item.blocks:
                    if isinstance(block, CallBlock):
                        self.called.add(block.id)


def _settles(items: list[Item], length: int, joined: Mapping[int, int]) -> tuple[int, int]:
    """How many items cannot change any more, and the log index everything after them begins at.

    An item with an open call may still change; so may those that took a result from behind it.
    A message that is not in the log yet, behind `length`, is never settled. What joined at one
    place of the log, as `joined` has it by position, is settled together.
    """
    whole = len(items)
    while whole and _came(items[whole - 1].position, joined) >= length:
        whole -= 1
    boundary = length
    for index in range(whole):
        if items[index].open:
            whole, boundary = index, _came(items[index].position, joined)
            break
    moved = True
    while moved:
        moved = False
        for index in range(whole):
            if _came(items[index].last, joined) >= boundary:
                whole, boundary, moved = index, _came(items[index].position, joined), True
                break
    while joined and whole and _came(items[whole - 1].position, joined) >= boundary:
        whole -= 1
    return whole, boundary


def _came(position: int, joined: Mapping[int, int]) -> int:
    """Where in the log an event came into view."""
    return joined.get(position, position)


def _made(events: Strand[Event], slot: Slot) -> dict[int, Made] | None:
    """What threads share that look at one log; None for the first, which is mostly the only one."""
    first = events.memo.setdefault("thread", slot)
    return cast("dict[int, Made]", events.memo.setdefault("made", {})) if first != slot else None


def weave(
    events: Strand[Event], slot: Slot, basis: Basis, env: Env, passes: Passes
) -> tuple[Thread, Woven]:
    """The items of a request, woven by the thread of this view, one compilation at a time.

    The thread is kept with the log; a new one begins where the old one does not fit.
    """
    with events.lock:
        thread = events.memo.get(slot)
        if (
            not isinstance(thread, Thread)
            or thread.consumed > events.settled
            or thread.basis != basis
        ):
            thread = events.memo[slot] = Thread(slot, basis, _made(events, slot))
        return thread, thread.weave(events, env, passes)
