"""Items: what events become, each exactly once.

Nothing is dropped here: what must not reach the model becomes a hidden item with its reason,
so that a pass can drop it and the report can say why.

Plain talk is read by a shorter way. Of a long history that is sent as it is, a request needs the
turns and nothing else. Events, items and what says where each turn came from take several times the
memory of the turns. So the events of a long log are read a few at a time; their turns stay, and the
items are made again from the log when somebody looks at them, as whoever explains a request does.
"""

from array import array
from collections.abc import Iterable, Iterator, Sequence
from collections.abc import Set as AbstractSet
from itertools import groupby
from threading import Lock
from typing import Literal, NamedTuple, cast, overload

import msgspec

from weft.compiler.parts import blocks_of, heard, mend_text
from weft.content import Part
from weft.diagnostics import Diagnostic, Origin, report
from weft.dialects import dialect_named
from weft.dialects.track import TurnsOnly
from weft.ir import (
    Block,
    CallBlock,
    Feature,
    Item,
    ItemKind,
    OpaqueBlock,
    ResultBlock,
    Role,
    TextBlock,
    pair_blocks,
)
from weft.passes.env import MOST_LETTERS, is_short
from weft.session import Compaction, Event
from weft.session.branches import around
from weft.session.event import NO_ACTIONS
from weft.session.lookback import wrote_keys
from weft.session.provenance import NOTHING
from weft.session.strand import Strand
from weft.session.talk import (
    PlainCall,
    StoredTalk,
    TalkEvent,
    TalkPart,
    Utterance,
    claims,
    paired_calls,
    utterances,
)
from weft.values import has_lone_surrogate

PAUSED = "CONTINUATION"
"""The finish reason of a reply that the provider broke off and will continue when sent back."""


class Built(msgspec.Struct):
    """Items of a stretch of the log, what occurs in it, and what had to be said."""

    items: list[Item]
    features: int
    diagnostics: list[Diagnostic]


def build_items(events: Iterable[Event], start: int, agent: str) -> Built:
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
) -> Built:
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
) -> Built:
    """Build the items of events, one by one, with summaries before the positions they stand at.

    This is the one place that decides what an event is: hidden, talk, calls or results.
    """
    items: list[Item] = []
    diagnostics: list[Diagnostic] = []
    features = Feature.HIDDEN if summaries else Feature.NONE  # one of them may be
    for position, event in events:
        if summaries:
            items += summaries.get(position, [])
        author = event.author or _unnamed(event, agent)
        branch = event.branch or ""
        actions = event.actions
        notes = event.provenance if event.custom_metadata is not None else NOTHING
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
                blocks = (TextBlock(role=role, origin=origin, text=text),)
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
            why = why or ("it only changes state" if actions.state_delta else "it is empty")
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
        items += _unmixed(item, role) if mixed else (item,)
    return Built(items, features, diagnostics)


class PlainTalk(msgspec.Struct, frozen=True):
    """Items of plain talk, how many events they came from, and the ids of the calls in them."""

    items: list[Item]
    read: int
    calls: set[str]


def plain_items(
    events: Sequence[Event | TalkEvent],
    position: int,
    agent: str,
    used: AbstractSet[str] = frozenset(),
    calls: set[str] | None = None,
) -> PlainTalk:
    """Fast path: items as the passes would leave them, up to the first event that needs a pass.

    Plain talk is one text of the user's or the agent's, or calls of the agent's right before their
    results, as most events are. `used` are call ids that no other call may have. So are `calls`, to
    which those of these events are added.
    """
    items: list[Item] = []
    calls = set() if calls is None else calls
    index, length, invocation = 0, len(events), ""
    while index < length:
        event = events[index]
        author, content = event.author, event.content
        if content is None or not (parts := content.parts) or not _is_only_said(event):
            break
        # one text for all items that repeat it
        if author == agent:
            author = agent
        elif author == "user":
            author = "user"
        else:
            break
        if event.invocation_id != invocation:
            invocation = event.invocation_id
        part = parts[0]
        if part.function_call is not None and index + 1 < length:
            answered = events[index + 1]
            paired = paired_calls(event, answered, agent)
            # two calls with one id must be told apart by a pass, as providers refuse such a request
            if (
                paired is None
                or not _is_plain_pair(event, answered, paired)
                or not claims(paired, calls, used)
            ):
                break
            at = position + index
            items.append(_exchange_item(event, answered, paired, at, agent, invocation))
            index += 2
            continue
        text = part.text
        if len(parts) != 1 or not text or (not text.isascii() and has_lone_surrogate(text)):
            break
        if _is_odd(part):
            break
        asks = author == "user" or content.role == "user"
        role: Literal["user", "model"] = "user" if asks else "model"
        event_id = event.id
        block = TextBlock(role=role, origin=Origin("event", event_id, author, -1, -1, 0), text=text)
        at = position + index
        items.append(Item(role, (block,), author, invocation, at, at, event_id))
        index += 1
    return PlainTalk(items, index, calls)


def _is_only_said(event: Event | TalkEvent) -> bool:
    """Whether an event does nothing besides being said, and is for everybody."""
    if isinstance(event, TalkEvent):  # there is nothing in its other fields
        return True
    actions = event.actions
    return not (
        event.partial
        or event.branch
        or event.isolation_scope
        or (event.custom_metadata is not None and event.provenance.untrusted is not None)
        # an event that writes state may be told again by an instruction: a pass decides
        or (actions is not NO_ACTIONS and (actions.state_delta or actions.compaction is not None))
    )


def _exchange_item(
    asked: Event | TalkEvent,
    answered: Event | TalkEvent,
    calls: Sequence[PlainCall],
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
        )
        for index, call in enumerate(calls)
    ]
    blocks: tuple[Block, ...] = pairs[0]
    if len(pairs) > 1:
        blocks = (*[call for call, _ in pairs], *[result for _, result in pairs])
    return Item("exchange", blocks, agent, invocation, position, position + 1, asked_id)


def _is_plain_pair(
    asked: Event | TalkEvent, answered: Event | TalkEvent, calls: Sequence[PlainCall]
) -> bool:
    """Whether calls and their results are nothing else, can be sent, and no result is large."""
    if type(asked) is TalkEvent and type(answered) is TalkEvent:
        return True
    # notes of Weft may change how the event is shown: passes read them
    if isinstance(asked, Event) and (
        asked.custom_metadata is not None or asked.long_running_tool_ids or _has_more(asked)
    ):
        return False
    if isinstance(answered, Event) and (
        answered.custom_metadata is not None or not _is_only_said(answered) or _has_more(answered)
    ):
        return False
    try:
        # one look at all of it: a result has no more letters than that has bytes
        return len(msgspec.json.encode(calls)) <= MOST_LETTERS or all(
            is_short(call.response) for call in calls
        )
    except (UnicodeEncodeError, OverflowError, TypeError):
        # lone surrogates and values that are not JSON are mended on the long way
        return False


def _has_more(event: Event) -> bool:
    """Whether somebody kept something with a call or with a result."""
    for part in (event.content.parts if event.content is not None else None) or ():
        if part.part_metadata is not None or (part.thought_signature and part.function_call):
            return True
    return False


def _is_odd(part: Part | TalkPart) -> bool:
    """Whether a part with text is more than text."""
    if isinstance(part, TalkPart):
        return part.function_call is not None or part.function_response is not None
    return bool(
        part.thought
        or part.thought_signature
        or part.function_call
        or part.function_response
        or part.part_metadata
        or part.tool_call
        or part.tool_response
    )


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
        covered = (at for at, one in earlier if first <= one.timestamp <= last)
        anchor = next(covered, position)
        item = _summary_item(event, compaction, anchor, position, reports)
        if anchor == position and view:
            item = msgspec.structs.replace(item, kind="hidden", why=_BEFORE_VIEW)
        summaries.setdefault(anchor, []).append(item)
    return summaries


def _unmixed(item: Item, role: Role) -> list[Item]:
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


def _unnamed(event: Event, agent: str) -> str:
    """The author of an event that names none: the user by its role, else the agent itself."""
    return "user" if event.content is not None and event.content.role == "user" else agent


def _summary_item(
    event: Event, compaction: Compaction, position: int, last: int, diagnostics: list[Diagnostic]
) -> Item:
    """The item that stands for the events of a compaction."""
    text = compaction.compacted_content.text
    if has_lone_surrogate(text):
        text = mend_text(text, event, diagnostics)
    origin = Origin("event", event.id, event.author, part=0)
    block = TextBlock(role="user", origin=origin, text=f"[summary of earlier turns]: {text}")
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
    events: Strand[Event], consumed: int, agent: str, used: AbstractSet[str]
) -> PlainTalk:
    """The plain talk that what is new begins with."""
    settled = events.settled
    if settled - consumed <= PIECE:
        return plain_items(events.between(consumed, settled), consumed, agent, used)
    items: list[Item] = []
    calls: set[str] = set()
    at = consumed
    while at < settled:
        # events are forgotten once their items are built: all at once they take much memory
        plain = plain_items(events.read_once(at, min(at + PIECE, settled)), at, agent, used, calls)
        if not plain.read:
            break
        items += plain.items
        at += plain.read
    return PlainTalk(items, at - consumed, calls)


class LoweredTalk(NamedTuple):
    """Plain talk of which only the turns were kept; `items` makes the items again."""

    read: int
    calls: set[str]
    items: Strand[Item]


def lower_talk(events: Strand[Event], agent: str, target: WireTarget) -> LoweredTalk | None:
    """Read the plain talk that a long log begins with, and keep its turns with its items.

    None where it is short, or where there is more to it: the user does not speak first, or
    something is to be said about a turn.
    """
    if events.settled <= PIECE:
        return None
    talk = TurnsOnly(dialect_named(target.dialect), target.model)
    read, settled = 0, events.settled
    while read < settled:
        spoken = _read_utterances(events, read, agent)
        if not read and (not spoken or spoken[0].role != "user"):
            return None
        end = talk.lower(spoken, read)
        if talk.is_reported:
            return None
        if end == read:
            break
        read = end
    track = talk.settled()
    if read <= PIECE or track is None:
        return None
    items: Strand[Item] = Strand.over(LateItems(events.first(read), agent, talk.starts))
    talk.keep_with(items, track)
    return LoweredTalk(read, talk.calls, items)


def _read_utterances(events: Strand[Event], position: int, agent: str) -> Sequence[Utterance]:
    """What is said from a position on, as far as it is plain talk: some of it, read once.

    Where the store has it in short, the events are not read.
    """
    end = min(position + PIECE, events.settled)
    stored = events.memo.of(StoredTalk)
    if stored is not None and stored.authors <= {"user", agent}:
        stretch = stored.read(position)
        if stretch is not None and position + stretch.events <= events.settled:
            return stretch.listed
        end = min(end, stored.next_start(position) or end)
    return _utterances_of(events.read_once(position, end), agent)


def _utterances_of(events: Sequence[Event | TalkEvent], agent: str) -> Sequence[Utterance]:
    """What is said in events, up to the first that is more than plain talk."""
    listed: list[Utterance] = []
    at = 0
    while at < len(events):
        some = utterances(events, agent, at)
        listed += some.listed
        at += some.events
        # an event that was not read in short: one of a log in memory, or one with more fields
        plain = plain_items(events[at : at + 2], at, agent)
        listed += map(utterance_of, plain.items)
        at += plain.read
        if not (some.events or plain.read):
            break
    return listed


def utterance_of(item: Item) -> Utterance:
    """A plain item in short."""
    first = item.blocks[0]
    if isinstance(first, TextBlock):
        return Utterance("user" if first.role == "user" else "model", first.text)
    results = {block.call_id: block for block in item.blocks if isinstance(block, ResultBlock)}
    calls = [
        PlainCall(block.id, block.name, block.args, results[block.id].response)
        for block in item.blocks
        if isinstance(block, CallBlock)
    ]
    return Utterance("model", "", tuple(calls))


class LateItems(Sequence[Item]):
    """A list of items, of which those of plain talk are made from the log when they are wanted.

    Each is made once: who compares two items may use `is`.
    """

    __slots__ = ("_agent", "_events", "_items", "_lock", "_starts")

    def __init__(self, events: Strand[Event], agent: str, starts: "array[int]") -> None:
        self._events = events
        self._agent = agent
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
                items[at:upto] = plain_items(events, begin, self._agent).items
                at = upto
