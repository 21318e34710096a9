"""The plain talk that a long log begins with: read in pieces, lowered at once, and forgotten.

Of a history that is sent as it is, a request needs the turns and nothing else. Events, items and
what says where each turn came from take several times the memory of the turns. So the events of a
long log are read a few at a time; their turns stay, and the items are made again from the log when
somebody looks at them, as whoever explains a request does.
"""

from array import array
from collections.abc import Iterable, Iterator, Sequence
from collections.abc import Set as AbstractSet
from threading import Lock
from typing import NamedTuple, cast, overload

from weft.compiler.view import PlainTalk, plain_items
from weft.dialects import dialect_named
from weft.dialects.track import TurnsOnly
from weft.ir import CallBlock, Item, ResultBlock, TextBlock
from weft.session import Event
from weft.session.strand import Strand
from weft.session.talk import PlainCall, StoredTalk, TalkEvent, Utterance, utterances

PIECE = 2_000
"""How many events of a long log are in memory at once."""


class WireTarget(NamedTuple):
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
    talk = _Talk(TurnsOnly(dialect_named(target.dialect), target.model), array("L"), set())
    read, settled = 0, events.settled
    while read < settled:
        spoken = _read_utterances(events, read, agent)
        if not read and (not spoken or spoken[0].role != "user"):
            return None
        end = talk.lower(spoken, read)
        if talk.turns.is_reported:
            return None
        if end == read:
            break
        read = end
    track = talk.turns.settled()
    if read <= PIECE or track is None:
        return None
    items: Strand[Item] = Strand.over(LateItems(events.first(read), agent, talk.starts))
    talk.turns.keep_with(items, track)
    return LoweredTalk(read, talk.calls, items)


class _Talk(NamedTuple):
    """What is kept of plain talk: its turns, where in the log items begin, the ids of calls."""

    turns: TurnsOnly
    starts: "array[int]"
    calls: set[str]

    def lower(self, spoken: Iterable[Utterance], position: int) -> int:
        """Lower what was said from a position on; up to where, if a call has a known id."""
        turns, starts, known = self.turns, self.starts, self.calls
        for one in spoken:
            if calls := one.calls:
                ids = {call.id for call in calls}
                # two calls with one id must be told apart by a pass
                if len(ids) < len(calls) or not known.isdisjoint(ids):
                    break
                known |= ids
                starts.append(position)
                turns.exchange(calls)
                position += 2
            else:
                starts.append(position)
                turns.say(one.role, one.text)
                position += 1
        return position


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
        listed += map(_utterance, plain.items)
        at += plain.read
        if not (some.events or plain.read):
            break
    return listed


def _utterance(item: Item) -> Utterance:
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
