"""Rows of a long log that nobody has asked for yet: JSON until somebody does.

A log that is more than plain talk is decoded at once.
"""

from collections.abc import Callable, Iterable, Iterator, Sequence
from threading import Lock
from typing import NamedTuple, cast, overload

import msgspec

from weft.session.event import Event, read_event
from weft.session.lookback import wrote_keys
from weft.session.talk import read_talk_event
from weft.session.unread import Skim
from weft.values import JsonObject

LEAST = 2_000
"""Logs with fewer events are decoded at once."""

LONGEST = 16_000
"""Bytes of an event that is plain talk. A longer one may hold a result that is sent in short."""

_PAUSED = "CONTINUATION"


Fetch = Callable[[int], tuple[int, list[bytes]]]
"""What reads the rows around a position that are not in memory: where they begin, and the rows."""


class UnreadEvents(Sequence[Event]):
    """A list of events that are decoded when somebody looks at them.

    Those that stand as None are not in memory: `fetch` reads them when they are wanted.
    """

    __slots__ = ("_decode", "_fetch", "_lock", "_page", "_rows")

    def __init__(
        self,
        rows: Sequence[bytes | Event | None],
        decode: Callable[[bytes], Event],
        fetch: Fetch | None = None,
    ) -> None:
        self._rows = cast("list[bytes | Event | None]", rows)
        self._decode = decode
        self._fetch = fetch
        self._lock = Lock()
        self._page: tuple[int, list[bytes]] = (0, [])

    def __len__(self) -> int:
        return len(self._rows)

    @overload
    def __getitem__(self, index: int) -> Event: ...
    @overload
    def __getitem__(self, index: slice) -> list[Event]: ...
    def __getitem__(self, index: int | slice) -> Event | list[Event]:
        if isinstance(index, slice):
            self._read(range(*index.indices(len(self._rows))))
            return cast("list[Event]", self._rows[index])
        row = self._rows[index]
        if isinstance(row, Event):
            return row
        self._read((index,))
        return cast("Event", self._rows[index])

    def __iter__(self) -> Iterator[Event]:
        return iter(self[:])

    def read_once(self, start: int, end: int) -> list[Event]:
        """The events between. Those that were not decoded before are not kept.

        Plain talk is read in short: a `TalkEvent` stands for its event.
        """
        with self._lock:
            # a copy, so that what is read once is not kept
            rows = self._pages(start, self._rows[start:end])
        events = [read_talk_event(row) if type(row) is bytes else row for row in rows]
        return cast("list[Event]", events)

    def extend(self, events: Iterable[Event]) -> None:
        """Add events."""
        self._rows.extend(events)

    def _read(self, indexes: Iterable[int]) -> None:
        rows, decode = self._rows, self._decode
        with self._lock:  # an event is decoded once: who compares two of them may use `is`
            for index in indexes:
                row = rows[index]
                if row is None:
                    row = self._fetched(index)
                if type(row) is bytes:
                    rows[index] = decode(row)

    def _pages(self, start: int, rows: list[bytes | Event | None]) -> list[bytes | Event | None]:
        """The rows from `start` on, with those that are not in memory.

        What was fetched last is kept: whoever reads a log in pieces asks for the rest of it next.
        """
        at = 0
        while at < len(rows) and None in rows:
            at = rows.index(None, at)
            position = start + at
            first, data = self._page
            if not first <= position < first + len(data):
                assert self._fetch is not None
                first, data = self._page = self._fetch(position)
            page = data[position - first : position - first + len(rows) - at]
            _fill(rows, at, page)
            at += len(page)
        return rows

    def _fetched(self, index: int) -> bytes | Event | None:
        """The row at a position, once it is in memory with those around it."""
        assert self._fetch is not None
        rows = self._rows
        first, data = self._fetch(index if index >= 0 else index + len(rows))
        _fill(rows, first, data)
        return rows[index]


def _fill(rows: list[bytes | Event | None], first: int, data: Sequence[bytes]) -> None:
    """Put the rows of a chapter where they were not in memory."""
    end = first + len(data)
    if rows[first:end].count(None) == len(data):
        rows[first:end] = data
    else:  # somebody looked at one of them before it was in a chapter
        rows[first:end] = [
            row if known is None else known
            for known, row in zip(rows[first:end], data, strict=True)
        ]


class Skimmed(NamedTuple):
    """A skim of a log, and what the store needs of it besides."""

    skim: Skim
    positions: dict[str, int]
    """Where each event stands, by its id."""
    invocations: frozenset[str]
    last: str
    """The invocation of the last turn."""
    deltas: list[JsonObject]
    """What its events write to the state, one after the other."""


def skimmed(rows: Sequence[bytes]) -> Skimmed | None:
    """What the rows of a log say without being decoded; None where they are more than plain talk.

    An unknown field, or anything that a pass might treat in its own way, makes a log more than
    talk. Such a log is decoded: that is slower and always right.
    """
    decode = _decoder.decode
    positions: dict[str, int] = {}
    calls: dict[str, int] = {}
    turns: list[int] = []
    invocations: set[str] = set()
    authors: set[str] = set()
    asked, last, waiting = -1, "", dict[str, str]()
    share: dict[str, str] = {}
    writes = _Writes()
    try:
        for position, row in enumerate(rows):
            # a long event may be sent shortened, and half an emoji must be mended
            if len(row) > LONGEST or b"\\ud" in row:
                return None
            event = decode(row)
            if event.finish_reason == _PAUSED:
                # a reply that the provider continues is joined with the next one
                return None
            parts, author = event.content.parts, event.author
            positions[event.id] = position
            if (
                event.actions is not None
                and event.actions.state_delta
                and not writes.add(read_event(row))
            ):
                return None
            if waiting:
                # calls must be answered at once, in order: else a pass has to pair them
                if author == "user" or not _answers(event, waiting):
                    return None
                waiting = {}
                continue
            first = parts[0]
            if first.text:
                # the text is raw JSON: two quotes are an empty one
                if len(parts) > 1 or len(first.text) <= len('""') or first.call or first.result:
                    return None
                if author != "user":
                    authors.add(author)
                    continue
                asked = position
                invocation = share.setdefault(event.invocation_id, event.invocation_id)
                invocations.add(invocation)
                # events without an invocation are turns of their own
                if not turns or not invocation or invocation != last:
                    turns.append(position)
                    last = invocation
                continue
            if author == "user" or event.content.role != "model":
                return None
            authors.add(author)
            for part in parts:
                call = part.call
                if call is None or part.text or not call.id or not call.name:
                    return None
                # two calls with one id need a pass, and google-adk's own calls are hidden
                if call.id in calls or call.name.startswith("adk_"):
                    return None
                calls[call.id] = position
                waiting[call.id] = call.name
    except (ValueError, IndexError, RecursionError):
        return None
    invocations.discard("")
    # an open call may still be answered; of several agents each sees the log differently
    plain = not waiting and len(authors) <= 1 and authors.isdisjoint(("", "user"))
    if not plain or not turns or turns[0] != 0 or len(positions) != len(rows):
        return None
    authors.add("user")
    known = frozenset(invocations)
    produced, volatile = frozenset(writes.produced), frozenset(writes.volatile)
    skim = Skim(len(rows), frozenset(authors), asked, turns, calls, known, None, produced, volatile)
    return Skimmed(skim, positions, known, last, writes.deltas)


class _Writes:
    """What plain talk writes to the state."""

    def __init__(self) -> None:
        self.deltas: list[JsonObject] = []
        self.produced: set[str] = set()
        self.volatile: set[str] = set()

    def add(self, event: Event) -> bool:
        """Add what an event writes. False where it is more than talk: an agent deletes a key.

        Then an answer may have moved to another key, and only the whole log tells.
        """
        delta = event.actions.state_delta
        if delta:
            self.deltas.append(delta)
        if event.author == "user":
            return True
        self.produced.update(wrote_keys(event))
        self.volatile.update(delta)
        return None not in delta.values()


def _answers(event: "_PlainEvent", waiting: dict[str, str]) -> bool:
    """Whether an event holds just the results of the calls before it, in their order."""
    parts = event.content.parts
    if event.content.role != "user" or len(parts) != len(waiting):
        return False
    for part, (id, name) in zip(parts, waiting.items(), strict=True):
        result = part.result
        if part.text or result is None or result.id != id or result.name != name:
            return False
    return True


class _Plain(msgspec.Struct, rename="camel", forbid_unknown_fields=True, gc=False):
    """Base of the structs below, which have only the fields that plain talk may have.

    A row with any other field cannot be decoded, and so is more than plain talk.
    """


class _PlainCall(_Plain, gc=False):
    name: str
    id: str
    args: msgspec.Raw = msgspec.Raw()


class _PlainResult(_Plain, gc=False):
    name: str
    id: str
    response: msgspec.Raw = msgspec.Raw()


class _PlainPart(_Plain, gc=False):
    text: msgspec.Raw = msgspec.Raw()
    call: _PlainCall | None = msgspec.field(default=None, name="functionCall")
    result: _PlainResult | None = msgspec.field(default=None, name="functionResponse")


class _PlainContent(_Plain, gc=False):
    parts: list[_PlainPart]
    role: str = ""


class _PlainActions(_Plain, gc=False):
    state_delta: msgspec.Raw = msgspec.Raw()


class _PlainEvent(_Plain, gc=False):
    author: str
    content: _PlainContent
    id: str
    invocation_id: str = ""
    timestamp: float = 0.0
    actions: _PlainActions | None = None
    usage_metadata: msgspec.Raw = msgspec.Raw()
    model_version: str = ""
    turn_complete: bool = False
    finish_reason: str = ""


_decoder = msgspec.json.Decoder(_PlainEvent)
