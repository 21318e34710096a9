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
from weft.dialects.base import TurnsOnly
from weft.ir import Item
from weft.session import Event
from weft.session.strand import Strand

PIECE = 2_000
"""How many events of a long log are in memory at once."""


class Target(NamedTuple):
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
    read = 0
    for piece in _pieces(events, consumed, agent, used, calls):
        items += piece.items
        read += piece.read
    return PlainTalk(items, read, calls)


def _pieces(
    events: Strand[Event], at: int, agent: str, used: AbstractSet[str], calls: set[str]
) -> Iterator[PlainTalk]:
    """The plain talk from there on, a piece at a time; `calls` collects the ids of its calls.

    The events of a piece are forgotten once its items are built: all of them at once take more
    memory than the request.
    """
    settled = events.settled
    while at < settled:
        events_now = events.read_once(at, min(at + PIECE, settled))
        piece = plain_items(events_now, at, agent, used, calls)
        if not piece.read:
            return
        yield piece
        at += piece.read


class LoweredTalk(NamedTuple):
    """Plain talk of which only the turns were kept; `items` makes the items again."""

    read: int
    calls: set[str]
    items: Strand[Item]


def lower_talk(events: Strand[Event], agent: str, target: Target) -> LoweredTalk | None:
    """Read the plain talk that a long log begins with, and keep its turns with its items.

    None where it is short, or where there is more to it: the user does not speak first, or
    something is to be said about a turn.
    """
    if events.settled <= PIECE:
        return None
    opening = plain_items(events.read_once(0, 1), 0, agent).items
    if not opening or opening[0].blocks[0].role != "user":
        return None
    turns = TurnsOnly(dialect_named(target.dialect), target.model)
    starts = array("L")
    calls: set[str] = set()
    read = 0
    for piece in _pieces(events, 0, agent, frozenset(), calls):
        starts.extend([item.position for item in piece.items])
        read += piece.read
        if not turns.add(piece.items):
            return None
    track = turns.settled()
    if read <= PIECE or track is None:
        return None
    late = LateItems(events.first(read), agent, starts, turns.open_items)
    items: Strand[Item] = Strand.over(late)
    turns.keep_with(items, track)
    return LoweredTalk(read, calls, items)


class LateItems(Sequence[Item]):
    """A list of items, of which those of plain talk are made from the log when they are wanted.

    Each is made once: who compares two items may use `is`.
    """

    __slots__ = ("_agent", "_events", "_items", "_lock", "_starts")

    def __init__(
        self, events: Strand[Event], agent: str, starts: "array[int]", last: list[Item]
    ) -> None:
        self._events = events
        self._agent = agent
        self._starts = starts
        """Where in the log each item of the talk begins."""
        self._items: list[Item | None] = [None] * (len(starts) - len(last))
        self._items += last
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
                made = plain_items(self._events.read_once(begin, stop), begin, self._agent).items
                items[at:upto] = made
                at = upto
