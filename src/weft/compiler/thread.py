"""A thread: what one agent's view of one growing log has already been compiled to.

Events never change, so what was built, passed, lowered and counted for them is kept with
the log and reused. Only what is new runs through the passes. Where a new event reaches
back (a rewind, a compaction, a late result, a value that the instruction now carries), the
thread starts again from the beginning; the report says what that broke.
"""

from typing import NamedTuple

import msgspec

from weft.compiler.build import (
    Built,
    build_items,
    hidden_by_compaction,
    hidden_by_rewind,
    wrote_keys,
)
from weft.diagnostics import Diagnostic
from weft.dialects import Track
from weft.ir import CallBlock, Feature, Item, Note, Prompt, ResultBlock
from weft.passes import ON_FRESH, Env, run
from weft.session import Event
from weft.values import Strand


class Facts(NamedTuple):
    """What there is to know of a log.

    `produced` are the keys answers were stored under, `volatile` all keys that agents and tools
    wrote, `reaches_back` the index of the last event that does so, or -1.
    """

    produced: frozenset[str]
    volatile: frozenset[str]
    reaches_back: int


class LogFacts:
    """What is known of a growing log after reading each event once."""

    def __init__(self) -> None:
        self.read = 0
        self.produced: set[str] = set()
        self.volatile: set[str] = set()
        self.reaches_back = -1
        self.frozen_produced: frozenset[str] = frozenset()
        self.frozen_volatile: frozenset[str] = frozenset()

    def update(self, events: Strand[Event]) -> None:
        """Read the events that were not read yet."""
        grown = False
        for position, event in enumerate(events.since(self.read), self.read):
            actions = event.actions
            if actions.state_delta and event.author != "user" and not event.partial:
                grown = True
                self.volatile.update(actions.state_delta)
                self.produced.update(wrote_keys(event))
            if actions.rewind_before_invocation_id or actions.compaction is not None:
                self.reaches_back = position
        self.read = events.settled
        if grown:
            self.frozen_produced = frozenset(self.produced)
            self.frozen_volatile = frozenset(self.volatile)


def facts_of(events: Strand[Event]) -> Facts:
    """The facts of this log, kept with it; an older snapshot is read again."""
    with events.lock:
        held = events.memo.get("facts")
        facts = held if isinstance(held, LogFacts) and held.read <= events.settled else LogFacts()
        facts.update(events)
        events.memo["facts"] = facts
        return Facts(facts.frozen_produced, facts.frozen_volatile, facts.reaches_back)


class ThreadKey(NamedTuple):
    """What a thread's items depend on beside the log."""

    agent: str
    branch: str
    policy: object
    start: int
    carried: tuple[tuple[str, str], ...]
    reaches_back: int
    current: str = ""


class Woven(NamedTuple):
    """The items of a request, and what the passes said about all of them.

    `skipped` events lie before the current turn and were not looked at, as the policy wants.
    """

    items: Strand[Item]
    notes: Strand[Note]
    diagnostics: list[Diagnostic]
    features: int
    skipped: int


class Thread:
    """The settled items of one view, and what was derived from them."""

    def __init__(self, key: ThreadKey) -> None:
        self.key = key
        self._begin()

    def _begin(self) -> None:
        """Start from the beginning of the view."""
        key = self.key
        self.consumed = key.start
        self.settled: Strand[Item] = Strand()
        self.notes: Strand[Note] = Strand()
        self.diagnostics: list[Diagnostic] = []
        self.used_ids: set[str] = set()
        self.called: set[str] = set()
        self.features = Feature.NONE
        self.tracks: dict[str, Track] = {}

    def weave(self, events: Strand[Event], env: Env) -> Woven:
        """Run what is new through the passes, and settle what cannot change any more."""
        built = self._build(events)
        if self.consumed > self.key.start and self._reaches_back(built):
            self._begin()
            built = self._build(events)
        self.features |= built.features
        env = msgspec.structs.replace(env, used_ids=self.used_ids, opening=not self.settled.settled)
        prompt = Prompt(
            model="",
            agent=env.agent,
            items=Strand(built.items),
            features=built.features,
            diagnostics=tuple(built.diagnostics),
        )
        prompt, _ = run(prompt, env, ON_FRESH)
        fresh = prompt.items.since(0)
        whole, boundary = _settles(fresh, events.settled)
        settled = fresh[:whole]
        self.settled = self.settled.extend(settled)
        final = [note for note in prompt.notes if note.before.position < boundary]
        passing = [note for note in prompt.notes if note.before.position >= boundary]
        self.notes = self.notes.extend(final)
        open_events = {item.event for item in fresh[whole:]}
        self.diagnostics += [d for d in prompt.diagnostics if d.origin.name not in open_events]
        if built.features & Feature.CALLS:
            self._remember_ids(settled, built.items, boundary)
        self.consumed = boundary
        return Woven(
            self.settled.with_tail(fresh[whole:]),
            self.notes.with_tail(passing),
            self.diagnostics + [d for d in prompt.diagnostics if d.origin.name in open_events],
            self.features,
            self.key.start,
        )

    def _build(self, events: Strand[Event]) -> Built:
        hidden: dict[int, str] | None = None
        if self.key.reaches_back >= self.consumed:
            summed = hidden_by_compaction(events, self.key.branch, self.key.current)
            hidden = {**summed, **hidden_by_rewind(events)}
        return build_items(events.since(self.consumed), self.consumed, self.key.agent, hidden)

    def _reaches_back(self, built: Built) -> bool:
        """Whether a new result answers a call that was answered before, as a late one does."""
        if not built.features & Feature.CALLS:
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

    def _remember_ids(self, settled: list[Item], built: list[Item], boundary: int) -> None:
        """Keep the call ids that requests carry, and those that a late result could name."""
        for item in settled:
            if item.kind == "exchange":
                self.used_ids.update(b.id for b in item.blocks if isinstance(b, CallBlock))
        for item in built:
            if item.kind in ("calls", "hidden") and item.position < boundary:
                self.called.update(b.id for b in item.blocks if isinstance(b, CallBlock))


def _settles(items: list[Item], length: int) -> tuple[int, int]:
    """How many items cannot change any more, and the log index everything after them begins at.

    An item with an open call may still change; so may those that took a result from behind it.
    A message that is not in the log yet, behind `length`, is never settled.
    """
    whole = len(items)
    while whole and items[whole - 1].position >= length:
        whole -= 1
    boundary = length
    opened = next((index for index in range(whole) if items[index].open), None)
    if opened is not None:
        whole, boundary = opened, items[opened].position
    while True:
        late = next((i for i in range(whole) if items[i].last >= boundary), None)
        if late is None:
            return whole, boundary
        whole, boundary = late, items[late].position


def weave(events: Strand[Event], key: ThreadKey, env: Env) -> tuple[Thread, Woven]:
    """The items of a request, woven by the thread of this view, one compilation at a time."""
    with events.lock:
        thread = _thread_for(events, key)
        return thread, thread.weave(events, env)


def _thread_for(events: Strand[Event], key: ThreadKey) -> Thread:
    """The thread of this view, kept with the log; a new one where the old one does not fit."""
    slot = ("thread", key.agent, key.branch, str(key.policy))
    held = events.memo.get(slot)
    if isinstance(held, Thread) and held.key == key and held.consumed <= events.settled:
        return held
    thread = Thread(key)
    events.memo[slot] = thread
    return thread
