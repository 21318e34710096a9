"""A thread: what one agent's view of one growing log has already been compiled to.

Events never change, so what was built, passed, lowered and counted for them is kept with
the log and reused. Only what is new runs through the passes. Where a new event reaches
back (a rewind, a compaction, a late result, a value that the instruction now carries), the
thread starts again from the beginning; the report says what that broke.
"""

from collections.abc import Callable, Mapping, Sequence
from functools import partial

import msgspec
from msgspec.structs import replace

from weft.compiler.items import (
    PIECE,
    BuiltItems,
    TalkView,
    WireTarget,
    build_items,
    build_some,
    lower_talk,
    plain_items,
    read_talk,
)
from weft.declare.policy_parts import Window
from weft.diagnostics import Diagnostic
from weft.ir import CallBlock, Feature, Item, Note, Prompt, ResultBlock
from weft.ir.prompt import LateSequence, PassNotes
from weft.passes import Env, Passes, run
from weft.passes.env import NO_INSTRUCTION, ThreadFacts
from weft.passes.history import attribute_foreign
from weft.passes.select import NOT_THIS_TURN, gone_turns, hides_data
from weft.session import Event
from weft.session.branches import around, branches_of
from weft.session.lookback import (
    LogFacts,
    facts_of,
    hidden_by_compaction,
    hidden_by_rewind,
    hidden_by_undoing,
    hidden_in,
)
from weft.session.strand import Skim, Strand, skim_of
from weft.values import Json


class Slot(msgspec.Struct, frozen=True):
    """Where a thread is kept with the log: who looks, from which branch, under which policy.

    `measure` is by what things are found large, where the policy asks for that: by which model's
    tokens, and from how many on for each tool.
    """

    agent: str
    branch: str
    view: str
    measure: str = ""


def skipped_talk(log: Strand[Event], env: Env, basis: "Basis") -> int:
    """Where in the log the first turn begins that a window may still have, 0 for the beginning.

    What stands before is plain talk which the window drops, and the window moves as if it had
    been counted: by whole strides. So nobody need read it, whoever spoke in it. Only where a rewind
    took turns back, or an instruction carries what the user said, is it read to count the turns.
    """
    policy = env.policy
    stages = policy.stages
    if len(stages) != 1 or not isinstance(window := stages[0].selector, Window):
        return 0
    if stages[0].steps or policy.protections or policy.writings or policy.limit is not None:
        return 0
    skim = skim_of(log)
    if skim is None or env.instruction.captured or log.memo.get(_LATE):
        return 0
    if basis is not WHOLE and replace(basis, carried=()) != WHOLE:
        return 0
    gone = gone_turns(window, len(skim.turns))
    return skim.turns[gone] if gone else 0


_LATE = "a result came late"
"""Where a log notes that a call which was not read is answered now, or its id comes again."""


def note_late(log: Strand[Event]) -> None:
    """Note that the log is to be read as a whole."""
    log.memo[_LATE] = True


class LateResult(Exception):
    """A new event refers to a call that the thread did not read: it must read all of the log."""


class Basis(msgspec.Struct, frozen=True):
    """What a thread's items depend on besides the log and its slot; they change seldom.

    `start` is where the view begins, `carried` what the instruction says of the log already,
    `reaches_back` the last event that changes earlier ones, `current` the invocation it is in,
    `withheld` the keys, files and values that the agent may not see, `skim` what is known of the
    talk before `start` where nobody read it.
    """

    start: int
    carried: tuple[tuple[str, str], ...]
    reaches_back: int
    current: str
    withheld: tuple[Mapping[str, tuple[str, ...]], ...] = ()
    skim: Skim | None = None


WHOLE = Basis(0, (), -1, "")
"""What nearly every thread depends on: a view of the whole log, into which nothing reaches back."""


class Woven(msgspec.Struct, frozen=True):
    """The items of a request, and what the passes said about all of them.

    `skipped` events lie before the current turn and were not looked at, as the policy wants.
    """

    items: Strand[Item]
    notes: Sequence[Note]
    diagnostics: tuple[Diagnostic, ...]
    features: int
    skipped: int
    beside: Callable[[], list[Note]]
    """What is to be said about events that were not looked at: of earlier turns, of branches."""


class SharedBuild(msgspec.Struct, frozen=True):
    """What an event becomes for every agent but the one that made it."""

    author: str
    built: BuiltItems


class PlacedFinding(msgspec.Struct, frozen=True):
    """A diagnostic on an event, and where that stands in the log."""

    position: int
    text: str
    """What those about no event are sorted by; those of one event stay in the order of passes."""
    diagnostic: Diagnostic


class Thread:
    """The settled items of one view, and what was derived from them."""

    def __init__(
        self, slot: Slot, basis: Basis, shared: dict[int, SharedBuild] | None = None
    ) -> None:
        self.slot = slot
        self.basis = basis
        self._view: TalkView | None = None
        self._shared = shared
        """What all threads of the log have built of it, where there are several."""
        self._begin()

    def _begin(self) -> None:
        """Start from the beginning of the view."""
        self.consumed = self.basis.start
        self.settled: Strand[Item] = Strand()
        self.talk_notes: Sequence[Note] | None = None
        """What is said of the talk of which only the turns are kept, made when somebody asks."""
        self.notes: Strand[Note] = Strand()
        self.findings: list[PlacedFinding] = []
        """What was said about events that are settled, in the order of the log."""
        self.used_ids: set[str] = set()
        """The ids of calls that were sent: no other call may have them."""
        self.called: set[str] = set()
        """Further ids of calls that were made: a late result may name them, too."""
        self.called_names: set[str] = set()
        """The names of calls that were made: a late result without an id answers by the name."""
        self.features = Feature.NONE
        if self.basis.skim is not None:
            self.used_ids = self.basis.skim.calls_before(self.basis.start)
            self.features = Feature.CALLS if self.used_ids else Feature.NONE
            self.features |= Feature.WROTE if self.basis.skim.produced else Feature.NONE
        self._passed_by = -1
        """From where on events of other branches were not looked at; -1 where all were."""

    def weave(
        self,
        events: Strand[Event],
        facts: LogFacts,
        env: Env,
        passes: Passes,
        target: WireTarget | None = None,
    ) -> Woven:
        """Run what is new through the passes, and settle what cannot change any more.

        `target` is for whom the plain talk of a long log may be lowered at once.
        """
        if passes.plain_fresh and self._may_talk(events, facts, env):
            view = self._view
            if view is None:  # the policy is the thread's own, and so is what the instruction says
                view = self._view = TalkView(
                    self.slot.agent,
                    attribute_foreign in passes.fresh,
                    hides_data(env.policy),
                    {} if env.policy.duplicates else env.instruction.carried,
                    hidden_in(events) if self.basis.reaches_back >= 0 else {},
                )
            if target is not None and not self.consumed:
                self._lower_talk(events, facts, view, target)
            talk = self._talk(events, view)
            if talk is not None:
                return talk
        built, joined = self._build(events, facts)
        features = built.features
        if features & Feature.CALLS and self._reaches_back(built):
            if self.basis.skim is not None:
                # the call lies in the part of the log that nobody read
                raise LateResult
            # a settled item must change: everything after it may, too
            self._begin()
            built, joined = self._build(events, facts)
            features = built.features
        self.features |= features
        settled = self.settled
        final = ThreadFacts(before=settled, used_ids=self.used_ids, opening=not settled.settled)
        env = msgspec.structs.replace(env, thread=final)
        prompt = Prompt(
            model="",
            agent=env.agent,
            items=_passing(built.items),
            features=features,
            diagnostics=tuple(built.diagnostics),
        )
        prompt, _ = run(prompt, env, passes.fresh)
        # only passes know whether they shortened something, which offers the tool `recall`
        self.features |= prompt.features & Feature.BOUNDED
        return self._settle(built, prompt, events, joined)

    def _may_talk(self, events: Strand[Event], facts: LogFacts, env: Env) -> bool:
        """Whether plain talk that is new goes through all passes as it is.

        Where the view is narrow, or something reaches back, passes look at every item.
        """
        consumed = self.consumed
        if not consumed and events.settled <= _MANY:
            # somebody besides the user and the agent spoke: the log is not plain talk as a whole
            authors = len(facts.authors) + len(facts.newest)
            if authors > 2 or (authors == 2 and not facts.has_author(env.agent)):
                return False
        return not (
            facts.reshaped >= consumed
            or env.policy.facts.view != "default"
            or env.instruction.captured
            or (facts.branched and not branches_of(events).is_quiet(self.slot.branch, consumed))
        )

    def _talk(self, events: Strand[Event], view: TalkView) -> Woven | None:
        """What is new where it is plain talk only, which no pass would change; else None.

        Of a long log that is new as a whole, the plain talk it begins with is settled in any case.
        """
        consumed, settled = self.consumed, events.settled
        count = settled - consumed
        plain = read_talk(events, consumed, view, self.used_ids)
        items, opens = plain.items, self.settled.settled == 0
        tail: list[Item] = []
        tail_notes: list[Note] = []
        features = plain.features
        if plain.read == count and events.tail:
            rest = plain_items(events.tail, settled, view, self.used_ids)
            # calls, or more than talk, after the log: the passes take care of it
            if rest.read < len(events.tail) or rest.calls or rest.others:
                return None
            tail, tail_notes = rest.items, rest.notes
            features |= rest.features
        first = items or tail
        if opens and (not first or first[0].blocks[0].role != "user"):
            return None  # the user is to speak first: a pass sees to that
        # what is not plain goes through the passes, and they take the few plain events with it
        if plain.read < count and not (opens and plain.read > _MANY):
            return None
        self.consumed = consumed + plain.read
        self.settled = self.settled.grown(items)
        if plain.notes:
            self.notes = self.notes.grown(plain.notes)
        self._remember_calls(plain.calls, plain.others)
        self.features |= features
        if plain.read < count:
            # the plain part is settled; the passes get the rest
            return None
        items_now = self.settled.with_tail(tail) if tail else self.settled
        return self._woven(items_now, self.notes.with_tail(tail_notes), self.findings, events)

    def _lower_talk(
        self, events: Strand[Event], facts: LogFacts, view: TalkView, target: WireTarget
    ) -> None:
        """Settle the plain talk that a long log begins with, without keeping its items."""
        several = len(facts.authors) + len(facts.newest) > len(("user", "agent"))
        talk = lower_talk(events, view, target, shares=several)
        if talk is not None:
            self.consumed = talk.read
            self.settled = talk.items
            self.talk_notes = talk.notes
            self.features |= talk.features
            self._remember_calls(talk.calls, talk.others)

    def _remember_calls(self, calls: set[str], others: set[str]) -> None:
        """Keep the ids of plain calls: no later call may take them, and results name them."""
        if calls:
            if self.used_ids:
                self.used_ids |= calls
            else:  # a long log has many: they are not copied
                self.used_ids = calls
        if others:
            if self.called:
                self.called |= others
            else:
                self.called = others

    def _woven(
        self,
        items: Strand[Item],
        notes: Sequence[Note],
        findings: Sequence[PlacedFinding],
        events: Strand[Event],
    ) -> Woven:
        """What a request gets from this thread."""
        beside: Callable[[], list[Note]] = list
        start = self.basis.start
        if self._passed_by >= 0 or start:
            slot = self.slot
            beside = partial(notes_beside, events, start, self._passed_by, slot.agent, slot.branch)
        diagnostics = tuple([one.diagnostic for one in findings]) if findings else ()
        if self.talk_notes is not None:
            notes = PassNotes((self.talk_notes, notes))
        return Woven(items, notes, diagnostics, self.features, self.basis.start, beside)

    def _settle(
        self, built: BuiltItems, prompt: Prompt, events: Strand[Event], joined: Mapping[int, int]
    ) -> Woven:
        """Keep the items that are final and what was said about them; the rest is passing."""
        items = prompt.items
        fresh = items.since(0) if items.settled else items.tail
        whole, boundary = _settles(fresh, events.settled, joined)
        settled, tail = fresh[:whole], fresh[whole:]
        if built.features & Feature.CALLS:
            self._remember_ids(settled, built.items, boundary, joined)
        notes, findings = self.notes, self.findings
        if prompt.notes.parts:
            final: list[Note] = []
            passing_notes: list[Note] = []
            for note in prompt.notes:
                position = note.before.position
                is_final = joined.get(position, position) < boundary
                (final if is_final else passing_notes).append(note)
            self.notes = notes.grown(final)
            notes = self.notes.with_tail(passing_notes)
        if prompt.diagnostics:
            open_events = {item.event for item in tail}
            # of an event that is built again, the view may leave the item out, or it has none
            places = {item.event: item.position for item in built.items}
            places |= {events[position].id: position for position in joined}
            fresh_events = enumerate(events.since(self.consumed), self.consumed)
            places |= {one.id: at for at, one in fresh_events}
            new = [_place_diagnostic(one, places) for one in prompt.diagnostics]
            lasting, passing = list[PlacedFinding](), list[PlacedFinding]()
            for one in new:
                is_open = one.diagnostic.origin.name in open_events
                is_open = is_open or _came(one.position, joined) >= boundary
                (passing if is_open else lasting).append(one)
            self.findings = _in_log_order([*self.findings, *lasting])
            findings = _in_log_order([*self.findings, *passing])
        self.consumed, self.settled = boundary, self.settled.grown(settled)
        return self._woven(self.settled.with_tail(tail), notes, findings, events)

    def _build(
        self, events: Strand[Event], facts: LogFacts
    ) -> tuple[BuiltItems, Mapping[int, int]]:
        """The new items; and for those of branches that joined, where in the log they did."""
        agent = self.slot.agent
        if facts.branched:
            return self._build_branched(events)
        positions = range(self.consumed, events.length)
        if self.basis.reaches_back >= self.consumed:
            hidden, view = self._hidden(events), self.basis.start
            return build_some(events, self.consumed, positions, agent, hidden, "", view), {}
        if self._shared is not None:
            return built_of(events, positions, agent, self._shared), {}
        return build_items(events.since(self.consumed), self.consumed, agent), {}

    def _hidden(self, events: Strand[Event]) -> dict[int, str]:
        """What later events took out of view, and why."""
        branch, seen = self.slot.branch, None
        if facts_of(events).branched:
            rows = branches_of(events).seen_from(branch, events, 0)
            seen = {row.position for row in rows}
        summed = hidden_by_compaction(events, branch, self.basis.current, seen)
        return {**summed, **hidden_by_undoing(events), **hidden_by_rewind(events)}

    def _build_branched(self, events: Strand[Event]) -> tuple[BuiltItems, Mapping[int, int]]:
        """The new items that are seen from this branch, where the log has branches."""
        branch = self.slot.branch
        seen = branches_of(events).seen_from(branch, events, self.consumed)
        positions = [row.position for row in seen]
        joined = {row.position: row.at for row in seen if row.at != row.position}
        # remembered, not looked at: the report asks for it, a request does not
        if self._passed_by < 0:
            self._passed_by = self.consumed
        # what joins now may have been taken back long ago
        if self.basis.reaches_back >= min((self.consumed, *positions)):
            hidden = self._hidden(events)
            agent, view = self.slot.agent, self.basis.start
            built = build_some(events, self.consumed, positions, agent, hidden, branch, view)
        else:
            shared = self._shared if self._shared is not None else {}
            built = built_of(events, positions, self.slot.agent, shared)
        if joined:
            joined_items(built, events, self.slot.agent, branch)
        return built, joined

    def _reaches_back(self, built: BuiltItems) -> bool:
        """Whether a new result answers a call of the settled part, which was sent as it was.

        Whose calls nobody read is not known where several agents speak. So one of the same id may
        have to be renamed or not: that reaches back, too.
        """
        skim = self.basis.skim
        # the thread begins: there is nothing settled to reach back to
        if self.consumed <= self.basis.start and skim is None:
            return False
        is_shared = skim is not None and not skim.authors <= {"user", self.slot.agent}
        fresh: set[str] = set()
        names: set[str] = set()
        late = False
        for item in built.items:
            for block in item.blocks:
                if isinstance(block, CallBlock):
                    fresh.add(block.id)
                    names.add(block.name)
                    late = late or (is_shared and block.id in self.used_ids)
                elif isinstance(block, ResultBlock) and not block.call_id:
                    name = block.name
                    late = late or (name in self.called_names and name not in names)
                elif isinstance(block, ResultBlock) and block.call_id not in fresh:
                    id = block.call_id
                    late = late or id in self.used_ids or id in self.called
        return late

    def _remember_ids(
        self, settled: Sequence[Item], built: list[Item], boundary: int, joined: Mapping[int, int]
    ) -> None:
        """Keep the call ids that requests carry, and those that a late result could name."""
        for item in settled:
            # calls of other agents are told as text, and their ids are not sent
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
                        self.called_names.add(block.name)


def _place_diagnostic(diagnostic: Diagnostic, places: Mapping[str, int]) -> PlacedFinding:
    """What a pass said, with the place of its event; what is about no event comes first."""
    origin = diagnostic.origin
    position = places.get(origin.name, -1) if origin.kind == "event" else -1
    return PlacedFinding(position, "" if position >= 0 else str(diagnostic), diagnostic)


def _in_log_order(findings: list[PlacedFinding]) -> list[PlacedFinding]:
    """Sorted by the log, not by when they were found: passes see it at once, or step by step."""
    # some are said again at every step
    return sorted(dict.fromkeys(findings), key=lambda one: (one.position, one.text))


def _passing(items: list[Item]) -> Strand[Item]:
    """Items of which nothing is final yet."""
    strand: Strand[Item] = Strand()  # `Strand[Item]()` is slower, and this is done at every step
    return strand.with_tail(items)


def _settles(items: Sequence[Item], length: int, joined: Mapping[int, int]) -> tuple[int, int]:
    """How many items cannot change any more, and the log index everything after them begins at.

    An item with an open call may still change; so may those that took a result from after it.
    A message that is not in the log yet, after `length`, is never settled. What joined at one
    place of the log, as `joined` has it by position, is settled together.
    """
    whole = len(items)
    came = joined.get
    while whole and came(last := items[whole - 1].position, last) >= length:
        whole -= 1
    boundary = length
    for index in range(whole):
        if items[index].open:
            whole, boundary = index, _came(items[index].position, joined)
            break
    # an item that reaches beyond the boundary cannot settle, and cutting there may uncover another
    moved = True
    while moved:
        moved = False
        for index in range(whole):
            if came(last := items[index].last, last) >= boundary:
                whole, boundary, moved = index, _came(items[index].position, joined), True
                break
    while joined and whole and _came(items[whole - 1].position, joined) >= boundary:
        whole -= 1
    return whole, boundary


def _came(position: int, joined: Mapping[int, int]) -> int:
    """Where in the log an event came into view."""
    return joined.get(position, position)


def weave(
    events: Strand[Event],
    facts: LogFacts,
    slot: Slot,
    basis: Basis,
    env: Env,
    passes: Passes,
    target: WireTarget | None = None,
) -> Woven:
    """The items of a request, woven by the thread of this view, one compilation at a time.

    The thread is kept with the log; a new one begins where the old one does not fit. `target` is
    for whom plain talk may be lowered without keeping its items.
    """
    with events.lock:
        # a log may be compiled in several threads of the process at once
        views = events.memo[_Views]
        threads = views.threads(slot)
        # under a plain policy the agent's name matters only once it has spoken
        if threads.newest is None and passes.plain and _is_stranger(slot, events, facts):
            slot = Slot("", slot.branch, slot.view, slot.measure)
            threads = views.threads(slot)
            if basis.carried and _leaves_whole_items(events, basis, env):
                # what all strangers see, without the answers that this one's instruction has
                instruction = env.instruction
                env = msgspec.structs.replace(env, instruction=NO_INSTRUCTION)
                woven = weave(events, facts, slot, WHOLE, env, passes)
                if woven.items.length and woven.items[0].kind == "user":
                    return _leave_out_carried(woven, instruction.carried)
                env = msgspec.structs.replace(env, instruction=instruction)
        thread = threads.newest
        if thread is not None and thread.consumed > events.settled:
            thread = threads.older  # as for the request before: the newest goes on from where it is
            if thread is None or thread.basis != basis or thread.consumed > events.settled:
                thread = threads.older = Thread(slot, basis, views.find_shared(slot))
        elif thread is None or thread.basis != basis:
            thread = threads.newest = Thread(slot, basis, views.find_shared(slot))
        return thread.weave(events, facts, env, passes, target)


def _leaves_whole_items(events: Strand[Event], basis: Basis, env: Env) -> bool:
    """Whether all that an agent's items depend on is which answers its instruction carries."""
    return (
        events.settled <= PIECE
        and not env.instruction.captured
        and not env.policy.duplicates
        and env.policy.facts.view == "default"
        and replace(basis, carried=()) == WHOLE
    )


def _leave_out_carried(woven: Woven, carried: Mapping[str, Json]) -> Woven:
    """What a stranger sees, without the answers that the instruction carries."""
    from weft.passes.dedupe import find_told, note_left_out

    notes, items = woven.notes, woven.items
    answers = find_told(notes, carried)
    if not answers:
        return woven
    settled = [item for item in items.between(0, items.settled) if id(item) not in answers]
    rest: Strand[Item] = Strand(settled)
    if items.tail:
        rest = rest.with_tail([item for item in items.tail if id(item) not in answers])
    reasons = LateSequence(lambda: note_left_out(notes, carried), len(notes))
    return msgspec.structs.replace(woven, items=rest, notes=reasons)


class _Views(msgspec.Struct):
    """All views of a log: their threads, and what they have built of it together."""

    by_slot: "dict[Slot, _Threads]" = {}
    first: Slot | None = None
    built: dict[int, SharedBuild] = {}

    def threads(self, slot: Slot) -> "_Threads":
        """The threads of one view."""
        threads = self.by_slot.get(slot)
        if threads is None:
            threads = self.by_slot[slot] = _Threads()
        return threads

    def find_shared(self, slot: Slot) -> dict[int, SharedBuild] | None:
        """What views share; None for the first who looked, which is mostly the only one."""
        if self.first is None:
            self.first = slot
        return self.built if self.first != slot else None


class _Threads(msgspec.Struct):
    """The threads of one view of a log: of the newest request, and of one before it."""

    newest: Thread | None = None
    older: Thread | None = None


def _is_stranger(slot: Slot, events: Strand[Event], facts: LogFacts) -> bool:
    """Whether the agent has said nothing yet in a log where other agents have.

    To all such agents, as to those of a long sequence, the log looks the same, so that they share
    a thread. An event without an author counts as the agent's own.
    """
    if facts.branched or events.tail or len(facts.authors) + len(facts.newest) < 3:
        return False
    return not facts.has_author(slot.agent) and not facts.has_author("")


_MANY = 100
"""With more plain events than this at its beginning, a log is worth being read in two pieces."""

LONG = 2_000
"""With this many events, compiling a log for the first time takes longer than a loop may wait."""


def is_cold(log: Strand[Event], slot: Slot) -> bool:
    """Whether the next request takes long: many events, of which this view has compiled none."""
    if log.settled < LONG:
        return False
    views = log.memo.of(_Views)
    if views is None:
        return True
    threads = views.by_slot.get(slot)
    if threads is None and _is_stranger(slot, log, facts_of(log)):
        threads = views.by_slot.get(msgspec.structs.replace(slot, agent=""))
    return threads is None or threads.newest is None


def built_of(
    events: Strand[Event],
    positions: Sequence[int],
    agent: str,
    shared: dict[int, SharedBuild],
) -> BuiltItems:
    """The items of some events; `shared` keeps those that are the same for other agents."""
    items: list[Item] = []
    whole = BuiltItems(items, Feature.NONE, [])
    for position in positions:
        known = shared.get(position)
        if known is not None and known.author != agent:
            built = known.built
        else:
            event = events[position]
            built = build_items((event,), position, agent)
            # to its own author an event looks different, and an event not in the log yet may change
            if event.author not in ("", agent) and position < events.settled:
                shared[position] = SharedBuild(event.author, built)
        items += built.items
        whole.features |= built.features
        if built.diagnostics:
            whole.diagnostics += built.diagnostics
    return whole


def joined_items(built: BuiltItems, events: Strand[Event], agent: str, branch: str) -> None:
    """Put items whose branches have joined on the branch that is looked from.

    What a map gathered into a list was written under the key of that list. Data stays data. What
    an agent of the same name said on a branch next to this one is not what this one said, as one
    element of a map is not another: it goes by the name of its branch.
    """
    outer, branches = around(branch), branches_of(events)
    below = f"{branch}." if branch else ""
    for index, item in enumerate(built.items):
        # it was seen from here before the branches joined
        if item.branch in outer or item.kind in ("summary", "hidden"):
            continue
        wrote, key = item.wrote, branches.carrier_of(item.position)
        if key and key not in wrote:
            wrote = (*wrote, key)
            built.features |= Feature.WROTE
        data = events[item.position].audience == "internal"
        if data:
            built.features |= Feature.DATA
        author = item.author
        if author == agent and not item.branch.startswith(below):
            author = _namesake(agent, item.branch)
            built.features |= Feature.FOREIGN
        built.items[index] = replace(item, author=author, branch=branch, wrote=wrote, data=data)


def _namesake(agent: str, branch: str) -> str:
    """What another of an agent's name is called: by the number of its branch, as in `reader_2`."""
    names = [name for name in branch.split(".") if name.startswith(f"{agent}_")]
    number = names[-1][len(agent) + 1 :].partition("_")[0] if names else ""
    return f"{agent}_{number if number.isdigit() else 1}"


def notes_beside(
    events: Strand[Event], start: int, passed_by: int, agent: str, branch: str
) -> list[Note]:
    """Why each event is left out that nobody looked at.

    Those before `start` are of earlier turns. Of those from `passed_by` on, where it is not -1,
    some are on another branch.
    """
    seen: set[int] = set()
    if passed_by >= 0:
        with events.lock:
            rows = branches_of(events).seen_from(branch, events, passed_by)
        seen = {row.position for row in rows}
    notes: list[Note] = []
    with events.lock:
        known = events.memo[_BesideNotes, agent].by_place
        for position in range(start):
            if position not in seen:  # what was said on a branch may join this turn
                place = position, "select_view"
                if place not in known or position >= events.settled:
                    known[place] = _notes_on(events[position], *place, agent, NOT_THIS_TURN)
                notes += known[place]
        if passed_by < 0:
            return notes
        for position, event in enumerate(events.since(passed_by), passed_by):
            if position not in seen:
                place = position, "select_branch"
                if place not in known or position >= events.settled:
                    why = f"it belongs to branch {event.branch or ''}"
                    known[place] = _notes_on(event, *place, agent, why)
                notes += known[place]
    return notes


class _BesideNotes:
    """The notes on events that an agent does not see: the same in every request that is explained.

    They are kept by the place of the event and the pass that leaves it out.
    """

    __slots__ = ("by_place",)

    def __init__(self) -> None:
        self.by_place: dict[tuple[int, str], list[Note]] = {}


def _notes_on(event: Event, position: int, step: str, agent: str, why: str) -> list[Note]:
    """The notes on an event that is left out, hidden or not; a summary has no item of its own."""
    items = build_items((event,), position, agent).items
    if not items:
        items = [
            Item("summary", (), event.author, event.invocation_id, position, position, event.id)
        ]
    return [
        Note("drop_hidden", item.why, item) if item.kind == "hidden" else Note(step, why, item)
        for item in items
    ]
