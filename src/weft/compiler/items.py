"""Items: what events become, each exactly once.

Nothing is dropped here: what must not reach the model becomes a hidden item with its reason,
so that a pass can drop it and the report can say why.

Plain talk is read by a shorter way. Of a long history that is sent as it is, a request needs the
turns and nothing else. Events, items and what says where each turn came from take several times the
memory of the turns. So the events of a long log are read a few at a time; their turns stay, and the
items are made again from the log when somebody looks at them, as whoever explains a request does.
"""

from array import array
from collections.abc import Iterable, Iterator, Mapping, Sequence
from collections.abc import Set as AbstractSet
from itertools import groupby
from threading import Lock
from typing import Literal, cast, overload

import msgspec

from weft.compiler.parts import blocks_of, heard, mend_text
from weft.content import Part
from weft.diagnostics import Diagnostic, Origin, report
from weft.dialects import dialect_named
from weft.dialects.track import HeardTurns, TurnsOnly
from weft.ir import (
    Block,
    CallBlock,
    Feature,
    Item,
    ItemKind,
    Note,
    OpaqueBlock,
    ResultBlock,
    Role,
    TextBlock,
    pair_blocks,
)
from weft.ir.prompt import ItemsLabel, LateSequence
from weft.passes.history import tell_item, tell_utterance
from weft.passes.select import note_data
from weft.session import Compaction, Event
from weft.session.branches import around
from weft.session.flow import TRUSTED, TrustLabel, base_of, join_labels
from weft.session.lookback import wrote_keys
from weft.session.provenance import NOTHING
from weft.session.strand import Strand, skim_of
from weft.session.talk import (
    PAUSED,
    StoredTalk,
    TalkEvent,
    Utterance,
    claims,
    utterances,
)
from weft.values import Json, has_lone_surrogate


class BuiltItems(msgspec.Struct):
    """Items of a stretch of the log, what occurs in it, and what had to be said."""

    items: list[Item]
    features: int
    diagnostics: list[Diagnostic]


def build_items(events: Iterable[Event], start: int, agent: str) -> BuiltItems:
    """An item for every event, in log order, where nothing takes any of them out of view."""
    return _build_events(enumerate(events, start), agent, None, {})


def build_some(
    log: Strand[Event],
    start: int,
    positions: Sequence[int],
    agent: str,
    hidden: dict[int, str],
    branch: str,
    view: int,
) -> BuiltItems:
    """Items of some of the events from `start` on, in the order of `positions`.

    `hidden` gives reasons by log index. A summary takes the place of the first event it stands
    for, wherever it was written; where that is none of these events, it stands before the first
    one after it. One that stands only for events before `view`, where the agent's view begins, is
    hidden. So is one of another branch: what it sums up is in view by itself.
    """
    chosen, reports = {*positions}, list[Diagnostic]()
    of_other_branches = {
        position: _BESIDE
        for position in positions
        if log[position].actions.compaction is not None
        and (log[position].branch or "") not in around(branch)
    }
    hidden = {**of_other_branches, **hidden}
    summaries = _summaries(log, start, hidden, view, reports)
    for anchor, listed in [*summaries.items()]:
        summaries[anchor] = [item for item in listed if item.last in chosen]
    # the first event of the summary is not in view: it stands before the next that is
    for anchor in sorted(summaries.keys() - chosen):
        later = next((position for position in positions if position > anchor), None)
        if later is not None:
            summaries[later] = [*summaries.pop(anchor), *summaries.get(later, ())]
    built = _build_events(((p, log[p]) for p in positions), agent, hidden, summaries)
    built.items += [item for at in sorted(summaries.keys() - chosen) for item in summaries[at]]
    if any(item.branch for listed in summaries.values() for item in listed):
        built.features |= Feature.BRANCHED
    built.diagnostics += reports
    return built


def _build_events(
    events: Iterable[tuple[int, Event]],
    agent: str,
    hidden: dict[int, str] | None,
    summaries: dict[int, list[Item]],
) -> BuiltItems:
    """Build the items of events, one by one, with summaries before the positions they stand at.

    This is the one place that decides what an event is: hidden, talk, calls or results.
    """
    items: list[Item] = []
    diagnostics: list[Diagnostic] = []
    features = Feature.HIDDEN if summaries else Feature.NONE  # one of them may be
    for position, event in events:
        if summaries:
            items += summaries.get(position, [])
        author = event.author or _author_of_unnamed(event, agent)
        branch = event.branch or ""
        actions = event.actions
        notes = event.provenance if event.is_noted else NOTHING
        if notes.untrusted is not None:
            diagnostics.append(
                report(
                    "WEFT609",
                    Origin("event", event.id, event.author),
                    "what Weft is said to have noted with this event does not count",
                    "read the session with trusted=True if a Weft of yours wrote it",
                )
            )
        why = "it is partial" if event.partial else ""
        if hidden is not None and position in hidden:
            why = hidden[position]
        # a summary is not shown where it was written, but at the first event it stands for
        elif actions.compaction is not None:
            if branch:
                features |= Feature.BRANCHED
            continue
        elif event.isolation_scope and author != agent:
            why = f"it belongs to the task {event.isolation_scope}"
        blocks: tuple[Block, ...] = ()
        role: Role = "user" if author == "user" else "model"
        content = event.content
        if content is not None and content.parts:
            if content.role == "user":
                role = "user"
            parts = content.parts
            # most events are one plain text
            if len(parts) == 1 and (text := parts[0].text) and not _is_odd(parts[0]):
                if not text.isascii() and has_lone_surrogate(text):
                    text = mend_text(text, event, diagnostics)
                origin = Origin("event", event.id, author, -1, -1, 0)
                label = TRUSTED if event.custom_metadata is None else base_of(event)
                blocks = (TextBlock(role=role, origin=origin, text=text, label=label),)
            else:
                # who calls speaks as the model, whatever its role says
                if (
                    role == "user"
                    and author != "user"
                    and any(part.function_call for part in parts)
                ):
                    role = "model"
                blocks = blocks_of(event, position, role, diagnostics)
                # in a log, only a model's answer has parts of its provider's own
                if role == "user" and any(isinstance(block, OpaqueBlock) for block in blocks):
                    blocks = tuple(
                        msgspec.structs.replace(block, role="model")
                        if isinstance(block, OpaqueBlock)
                        else block
                        for block in blocks
                    )
        elif event.input_transcription or event.output_transcription:
            blocks = heard(event, diagnostics)
            role = blocks[0].role if blocks else role
        if not blocks or why:
            why = why or (_ONLY_WRITES if actions.state_delta else _EMPTY)
            features |= Feature.HIDDEN
            items.append(
                Item(
                    "hidden", blocks, author, event.invocation_id, position, position, event.id,
                    branch, why=why,
                )
            )  # fmt: skip
            if any(isinstance(block, CallBlock) for block in blocks):
                features |= Feature.CALLS  # a later result may bring it back
            continue
        if branch:
            features |= Feature.BRANCHED
        if author != agent and author != "user":
            features |= Feature.FOREIGN
        kind: ItemKind = "user" if role == "user" else "model"
        waits = mixed = False
        if type(blocks[0]) is not TextBlock or len(blocks) > 1:
            for block in blocks:
                if isinstance(block, CallBlock):
                    features |= Feature.CALLS
                    mixed = mixed or kind == "results"
                    kind = "calls"
                    waits = waits or block.waits
                elif isinstance(block, ResultBlock):
                    features |= Feature.CALLS
                    mixed = mixed or kind == "calls"
                    kind = "results"
        wrote: tuple[str, ...] = ()
        writes = actions.state_delta or (notes is not NOTHING and notes.writes)
        if writes and author != "user":
            wrote = wrote_keys(event)
            if wrote:
                features |= Feature.WROTE
        # to its own author a draft is still what it said; to others it is data
        data = event.audience == "internal" and author != agent and author != "user"
        if data:
            features |= Feature.DATA
        item = Item(
            kind, blocks, author, event.invocation_id, position, position, event.id, branch,
            wrote, waits, paused=event.finish_reason == PAUSED, data=data,
        )  # fmt: skip
        # no provider takes calls and their results in one turn
        items += _split_mixed_item(item, role) if mixed else (item,)
    return BuiltItems(items, features, diagnostics)


class TalkView(msgspec.Struct, frozen=True):
    """Who reads plain talk, and under which policy: what becomes of what others say."""

    agent: str
    tells: bool = True
    """Whether others are told of by name at once, as nearly always."""
    hides: bool = False
    """Whether data of others is left out."""
    carried: Mapping[str, Json] = {}
    """State values that the instruction says: who wrote one of them is not in view as well."""
    hidden: Mapping[int, str] = {}
    """What a rewind took out of view, by position, and why."""

    def leaves_out(self, wrote: Sequence[str], text: str) -> bool:
        """Whether the instruction says what an agent said and wrote to keys."""
        if not self.carried:
            return False
        from weft.passes.dedupe import find_carried

        return bool(find_carried(wrote, text, self.carried))


class PlainTalk(msgspec.Struct):
    """Items of plain talk, and what passes would say of them.

    `read` counts the events they came from, `calls` are the ids of the reader's own calls and
    `others` those of other agents' calls.
    """

    items: list[Item] = []
    notes: list[Note] = []
    read: int = 0
    calls: set[str] = set()
    others: set[str] = set()
    features: int = Feature.NONE
    label: TrustLabel = TRUSTED
    """Of talk of which only the turns are kept: whose text had influence on it."""


def plain_items(
    events: Sequence[Event | TalkEvent],
    position: int,
    view: TalkView,
    used: AbstractSet[str] = frozenset(),
    talk: PlainTalk | None = None,
) -> PlainTalk:
    """Fast path: items as the passes would leave them, up to the first event that needs a pass.

    `used` are ids that no call of the reader's may have. So are those in `talk`, to which these
    items are added.
    """
    talk = talk if talk is not None else PlainTalk()
    items, agent, features = talk.items, view.agent, talk.features
    index, invocation, hidden = 0, "", view.hidden
    author = agent
    for one in utterances(events).listed:
        event, at = events[index], position + index
        # one text for all items that repeat it
        if one.author != author:
            author = agent if one.author == agent else one.author
        is_other = author != agent and author != "user"
        if event.invocation_id != invocation:
            invocation = event.invocation_id
        if one.rewinds or (hidden and at in hidden):
            hides = [hidden.get(each) for each in range(at, at + one.length)]
            if None in hides:
                break  # nobody has worked out what it takes back, or half of a pair is in view
            features |= Feature.HIDDEN | (Feature.CALLS if one.calls else Feature.NONE)
            talk.others.update([call.id for call in one.calls])
            talk.notes += _hidden_notes(events[index : index + one.length], one, author, at, hides)
            index += one.length
            continue
        if calls := one.calls:
            if hidden and at + 1 in hidden:
                break  # a pair of which a rewind took half needs a pass
            if is_other:
                talk.others.update([call.id for call in calls])
            elif not claims(calls, talk.calls, used):
                break  # two calls with one id must be told apart by a pass
            features |= Feature.CALLS
            item = _exchange_item(event, events[index + 1], one, at, author, invocation)
            index += 1
        elif text := one.text:
            role: Literal["user", "model"] = "user" if one.asks else "model"
            event_id = event.id
            origin = Origin("event", event_id, author, -1, -1, 0)
            block = TextBlock(role=role, origin=origin, text=text, label=one.label)
            if one.wrote or one.data:
                is_data = one.data and is_other
                features |= Feature.WROTE if one.wrote else Feature.NONE
                features |= Feature.DATA if is_data else Feature.NONE
                item = Item(
                    role, (block,), author, invocation, at, at, event_id, "", one.wrote,
                    data=is_data,
                )  # fmt: skip
            else:
                item = Item(role, (block,), author, invocation, at, at, event_id)
        else:
            features |= Feature.HIDDEN
            why = _ONLY_WRITES if event.actions.state_delta else _EMPTY
            item = Item("hidden", (), author, invocation, at, at, event.id, why=why)
        index += 1
        if is_other or one.wrote or not item.blocks:
            features |= Feature.FOREIGN if is_other and item.blocks else Feature.NONE
            note = _note_talk(item, one, view, is_other=is_other)
            if note is not None:
                talk.notes.append(note)
                if note.after is None:
                    continue
                item = note.after
        items.append(item)
    talk.read += index
    talk.features = features
    return talk


def _hidden_notes(
    events: Sequence[Event | TalkEvent],
    one: Utterance,
    author: str,
    position: int,
    reasons: Sequence[str | None],
) -> list[Note]:
    """The notes on events of plain talk that a rewind took out of view, with what they said."""
    spoken: list[tuple[Block, ...]] = [()]
    if one.text:
        role: Literal["user", "model"] = "user" if one.asks else "model"
        origin = Origin("event", events[0].id, author, -1, -1, 0)
        spoken = [(TextBlock(role=role, origin=origin, text=one.text, label=one.label),)]
    elif one.calls:
        exchange = _exchange_item(events[0], events[1], one, position, author, "").blocks
        spoken = [exchange[: len(one.calls)], exchange[len(one.calls) :]]
    notes: list[Note] = []
    for at, (event, why) in enumerate(zip(events, reasons, strict=True), position):
        blocks, why = spoken[at - position], why or ""
        item = Item("hidden", blocks, author, event.invocation_id, at, at, event.id, why=why)
        notes.append(Note("drop_hidden", why, item))
    return notes


def _note_talk(item: Item, one: Utterance, view: TalkView, *, is_other: bool) -> Note | None:
    """What the passes do to an item of plain talk, in their order; None where they leave it."""
    if item.kind == "hidden":
        return Note("drop_hidden", item.why, item)
    if item.wrote and view.carried and not one.asks:
        from weft.passes.dedupe import note_carried

        note = note_carried(item, one.text, view.carried)
        if note is not None:
            return note
    if item.data and view.hides:
        return note_data(item)
    return tell_item(item) if is_other and view.tells else None


def _exchange_item(
    asked: Event | TalkEvent,
    answered: Event | TalkEvent,
    one: Utterance,
    position: int,
    agent: str,
    invocation: str,
) -> Item:
    """Calls and their results as `pair_results` leaves them."""
    asked_id, answered_id = asked.id, answered.id
    pairs = [
        pair_blocks(
            call,
            Origin("event", asked_id, agent, -1, -1, index),
            Origin("event", answered_id, agent, -1, -1, index),
            one.label,
        )
        for index, call in enumerate(one.calls)
    ]
    blocks: tuple[Block, ...] = pairs[0]
    if len(pairs) > 1:
        blocks = (*[call for call, _ in pairs], *[result for _, result in pairs])
    return Item("exchange", blocks, agent, invocation, position, position + 1, asked_id)


def _is_odd(part: Part) -> bool:
    """Whether a part with text is more than text."""
    return bool(
        part.thought
        or part.thought_signature
        or part.function_call
        or part.function_response
        or part.part_metadata
        or part.tool_call
        or part.tool_response
    )


_EMPTY = "it is empty"

_ONLY_WRITES = "it only changes state"

_BEFORE_VIEW = "it sums up what lies before the view"

_BESIDE = "it sums up another branch"


def _summaries(
    log: Strand[Event], start: int, hidden: dict[int, str], view: int, reports: list[Diagnostic]
) -> dict[int, list[Item]]:
    """The summaries by the log index of the first event in view that each stands for.

    One that stands for none is at its own place: in a narrow view it is hidden.
    """
    summaries: dict[int, list[Item]] = {}
    in_view = log.since(view)
    for position, event in enumerate(log.since(start), start):
        compaction = event.actions.compaction
        if compaction is None or position in hidden:
            continue
        first, last = compaction.start_timestamp, compaction.end_timestamp
        earlier = enumerate(in_view[: position - view], view)
        covered = [(at, one) for at, one in earlier if first <= one.timestamp <= last]
        anchor = covered[0][0] if covered else position
        label = join_labels((event.label, *(one.label for _, one in covered)))
        item = _summary_item(event, compaction, anchor, position, reports, label)
        if anchor == position and view:
            item = msgspec.structs.replace(item, kind="hidden", why=_BEFORE_VIEW)
        summaries.setdefault(anchor, []).append(item)
    return summaries


def _split_mixed_item(item: Item, role: Role) -> list[Item]:
    """An event with calls and results in it, as the turns it stands for."""
    runs: list[Item] = []
    for results, group in groupby(item.blocks, lambda block: isinstance(block, ResultBlock)):
        blocks = tuple(group)
        called = any(isinstance(block, CallBlock) for block in blocks)
        spoken: ItemKind = "calls" if called else "user" if role == "user" else "model"
        runs.append(
            msgspec.structs.replace(item, kind="results" if results else spoken, blocks=blocks)
        )
    return runs


def _author_of_unnamed(event: Event, agent: str) -> str:
    """The author of an event that names none: the user by its role, else the agent itself."""
    return "user" if event.content is not None and event.content.role == "user" else agent


def _summary_item(
    event: Event,
    compaction: Compaction,
    position: int,
    last: int,
    diagnostics: list[Diagnostic],
    label: TrustLabel,
) -> Item:
    """The item that stands for the events of a compaction."""
    text = compaction.compacted_content.text
    if has_lone_surrogate(text):
        text = mend_text(text, event, diagnostics)
    origin = Origin("event", event.id, event.author, part=0)
    words = f"[summary of earlier turns]: {text}"
    block = TextBlock(role="user", origin=origin, text=words, label=label)
    return Item(
        "summary", (block,), event.author, event.invocation_id, position, last, event.id,
        event.branch or "",
    )  # fmt: skip


# --- the plain talk that a long log begins with

PIECE = 2_000
"""How many events of a long log are in memory at once."""


class WireTarget(msgspec.Struct, frozen=True):
    """For whom a request is lowered."""

    dialect: str
    model: str


def read_talk(
    events: Strand[Event], consumed: int, view: TalkView, used: AbstractSet[str]
) -> PlainTalk:
    """The plain talk that what is new begins with."""
    settled = events.settled
    if settled - consumed <= PIECE:
        return plain_items(events.between(consumed, settled), consumed, view, used)
    talk = PlainTalk()
    at = consumed
    while at < settled:
        # events are forgotten once their items are built: all at once they take much memory
        plain_items(events.read_once(at, min(at + PIECE, settled)), at, view, used, talk)
        if at == consumed + talk.read:
            break
        at = consumed + talk.read
    return talk


class LoweredTalk(msgspec.Struct, frozen=True):
    """Plain talk of which only the turns were kept; `items` and `notes` are made again."""

    read: int
    calls: set[str]
    others: set[str]
    features: int
    items: Strand[Item]
    notes: Sequence[Note]


def lower_talk(
    events: Strand[Event], view: TalkView, target: WireTarget, *, shares: bool
) -> LoweredTalk | None:
    """Read the plain talk that a long log begins with, and keep its turns with its items.

    None where it is short, or where there is more to it: the user does not speak first, or
    something is to be said about a turn. It `shares` turns with other readers where there are any.
    """
    if events.settled <= PIECE or not view.tells:
        return None
    heard = events.memo[HeardTurns, target.dialect, target.model] if shares else HeardTurns()
    heard.extend([None] * (events.settled - len(heard)))
    turns = TurnsOnly(dialect_named(target.dialect), target.model, heard)
    talk = PlainTalk()
    skim = skim_of(events)
    skimmed = skim.length if skim is not None else 0
    while talk.read < events.settled:
        before = talk.read
        _lower_piece(turns, talk, _read_utterances(events, before), view, skimmed)
        if turns.is_reported or turns.opens == "model":
            return None
        if talk.read == before:
            break
    read = talk.read
    track = turns.settled()
    if read <= PIECE or track is None:
        return None
    log = events.first(read)
    items: Strand[Item] = Strand.over(LateItems(log, view, turns.starts))
    turns.keep_with(items, track)
    items.memo[ItemsLabel] = items.settled, ItemsLabel(talk.label)
    notes = LateSequence(lambda: read_talk(log, 0, view, frozenset()).notes)
    others = talk.others
    if skim is not None:
        others = skim.calls_before(min(read, skimmed))
        others |= talk.others
    return LoweredTalk(read, talk.calls, others, talk.features, items, notes)


def _lower_piece(
    turns: TurnsOnly, talk: PlainTalk, spoken: Sequence[Utterance], view: TalkView, skimmed: int
) -> None:
    """Lower what is said next, as `plain_items` makes items of it.

    The ids of others' calls before `skimmed` are known to the store.
    """
    agent, starts, features = view.agent, turns.starts, talk.features
    position, shared, hidden = talk.read, dict[str, str](), view.hidden
    labels: set[TrustLabel] = set()  # of a hundred thousand results a few are different
    for one in spoken:
        author, calls, text = one.author, one.calls, one.text
        is_in_view = True
        if one.rewinds or position in hidden:
            if position not in hidden or (calls and position + 1 not in hidden):
                break
            features |= Feature.HIDDEN | (Feature.CALLS if calls else Feature.NONE)
            if position >= skimmed:
                talk.others.update([call.id for call in calls])
            position += 2 if calls else 1
            continue
        if calls:
            features |= Feature.CALLS
            # a pair of which a rewind took half needs a pass
            if hidden and position + 1 in hidden:
                break
            if author == agent:
                # two calls with one id must be told apart by a pass
                if not claims(calls, talk.calls):
                    break
                turns.exchange(calls)
            else:
                features |= Feature.FOREIGN
                if position >= skimmed:
                    talk.others.update([call.id for call in calls])
                is_in_view = turns.tell(position, one, tell_utterance)
        elif not text:
            features |= Feature.HIDDEN
            is_in_view = False
        elif one.wrote and not one.asks and view.leaves_out(one.wrote, text):
            features |= _features_of(one, agent)
            is_in_view = False
        elif author == agent:
            # an agent says many things again and again: one text for all of them
            turns.say("user" if one.asks else "model", shared.setdefault(text, text))
        elif author == "user":
            turns.ask(position, text)
        else:
            features |= _features_of(one, agent)
            is_in_view = not (one.data and view.hides)
            is_in_view = is_in_view and turns.tell(position, one, tell_utterance)
        if one.wrote:
            features |= Feature.WROTE
        if is_in_view:
            starts.append(position)
            if one.label is not TRUSTED:
                labels.add(one.label)
            for call in calls:
                labels.add(call.returned)
        position += 2 if calls else 1
    talk.read, talk.features = position, features
    talk.label |= join_labels(labels)


def _features_of(one: Utterance, agent: str) -> int:
    """What a text of an agent's makes of a prompt."""
    if one.author == agent:
        return Feature.NONE
    return Feature.FOREIGN | (Feature.DATA if one.data else Feature.NONE)


def _read_utterances(events: Strand[Event], position: int) -> Sequence[Utterance]:
    """What is said from a position on, as far as it is plain talk: some of it, read once.

    Where the store has it in short, the events are not read.
    """
    end = min(position + PIECE, events.settled)
    stored = events.memo.of(StoredTalk)
    if stored is not None:
        stretch = stored.read(position)
        if stretch is not None and position + stretch.events <= events.settled:
            return stretch.listed
        end = min(end, stored.next_start(position) or end)
    return utterances(events.read_once(position, end)).listed


class LateItems(Sequence[Item]):
    """A list of items, of which those of plain talk are made from the log when they are wanted.

    Each is made once: who compares two items may use `is`.
    """

    __slots__ = ("_events", "_items", "_lock", "_starts", "_view")

    def __init__(self, events: Strand[Event], view: TalkView, starts: "array[int]") -> None:
        self._events = events
        self._view = view
        self._starts = starts
        """Where in the log each item of the talk begins."""
        self._items: list[Item | None] = [None] * len(starts)
        self._lock = Lock()

    def __len__(self) -> int:
        return len(self._items)

    @overload
    def __getitem__(self, index: int) -> Item: ...
    @overload
    def __getitem__(self, index: slice) -> list[Item]: ...
    def __getitem__(self, index: int | slice) -> Item | list[Item]:
        if isinstance(index, slice):
            chosen = range(len(self._items))[index]
            if len(chosen):
                self._make(min(chosen[0], chosen[-1]), max(chosen[0], chosen[-1]) + 1)
            return cast("list[Item]", self._items[index])
        item = self._items[index]
        if item is None:
            at = range(len(self._items))[index]
            self._make(at, at + 1)
            item = self._items[index]
        return cast("Item", item)

    def __iter__(self) -> Iterator[Item]:
        return iter(self[:])

    def extend(self, items: Iterable[Item]) -> None:
        """Add items."""
        self._items.extend(items)

    def _make(self, first: int, end: int) -> None:
        """Make the items between that nobody has looked at yet, some at a time."""
        items, starts = self._items, self._starts
        with self._lock:
            at = first
            while at < end:
                if items[at] is not None:
                    at += 1
                    continue
                upto = at + 1
                while upto < min(end, at + PIECE) and items[upto] is None:
                    upto += 1
                begin = starts[at]
                stop = starts[upto] if upto < len(starts) else self._events.settled
                events = self._events.read_once(begin, stop)
                items[at:upto] = plain_items(events, begin, self._view).items
                at = upto
