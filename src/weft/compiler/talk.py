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

from weft.compiler.view import PlainTalk, claims, plain_exchange, plain_items
from weft.dialects import dialect_named
from weft.dialects.track import TurnsOnly
from weft.ir import Item
from weft.session import Event
from weft.session.event import TalkEvent
from weft.session.strand import Strand

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
    opening = plain_items(events.read_once(0, 1), 0, agent).items
    if not opening or opening[0].blocks[0].role != "user":
        return None
    talk = _Talk(TurnsOnly(dialect_named(target.dialect), target.model), array("L"), set())
    read, settled = 0, events.settled
    while read < settled:
        piece = talk.lower(events.read_once(read, min(read + PIECE, settled)), read, agent)
        if talk.turns.is_reported:
            return None
        if not piece:
            break
        read += piece
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

    def lower(self, events: Sequence[Event | TalkEvent], position: int, agent: str) -> int:
        """Lower events up to the first that is more than plain talk; how many these are.

        Most are a text, of which a turn is made without an item.
        """
        starts, say = self.starts, self.turns.say
        index, length = 0, len(events)
        while index < length:
            event = events[index]
            author, content = event.author, event.content
            parts = content.parts if content is not None else None
            if (
                type(event) is TalkEvent
                and content is not None
                and parts is not None
                and len(parts) == 1
                and (text := parts[0].text)
                and (author == agent or author == "user")
                and parts[0].function_call is None
                and parts[0].function_response is None
                and not text.isspace()
            ):
                asks = author == "user" or content.role == "user"
                say("user" if asks else "model", text)
                starts.append(position + index)
                index += 1
                continue
            calls = parts is not None and len(parts) > 0 and parts[0].function_call is not None
            answered = events[index + 1] if calls and index + 1 < length else None
            if type(event) is TalkEvent and type(answered) is TalkEvent:
                at, invocation = position + index, event.invocation_id
                exchange = plain_exchange(event, answered, at, agent, invocation)
                if exchange is None or not claims(exchange, frozenset(), self.calls):
                    break
                self.turns.add(exchange, sound=True)
                starts.append(at)
                index += 2
                continue
            some = (event,) if answered is None else (event, answered)
            plain = plain_items(some, position + index, agent, frozenset(), self.calls)
            if not plain.read:
                break
            for item in plain.items:
                self.turns.add(item, sound=False)
                starts.append(item.position)
            index += plain.read
        return index


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
