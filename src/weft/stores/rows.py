"""Events and state as rows of a database: JSON text with a checksum.

Both databases write and read the same rows. Rows of older versions have no checksum. Rows of a long
log that nobody has asked for yet stay JSON until somebody does; a log that is more than plain talk
is decoded at once.

Top to bottom: an event as a row, rows of state, sessions that wait, rows that are only skimmed.
"""

import json
import logging
from collections.abc import Callable, Iterable, Iterator, Sequence
from threading import Lock
from typing import NamedTuple, cast, overload
from zlib import crc32

import msgspec

from weft.errors import SessionError, StoreError
from weft.session import SessionKey
from weft.session.event import Event, read_event
from weft.session.lookback import QUESTION
from weft.session.strand import Skim
from weft.session.talk import TalkEvent, Utterance, read_talk_event, utterances
from weft.values import Json, JsonObject, encode

HAS_DELTA = """event LIKE '%"stateDelta"%'"""
"""The SQL condition for events that write state; an index of each database is made with it."""

ASKS = """event LIKE '%"pending":[%'"""
"""The SQL condition for events that say that calls wait; most sessions have none."""

ANSWERS = f"""({ASKS} OR event LIKE '%"functionResponse"%' OR event LIKE '%"rewindBefore%')"""
"""The SQL condition for events that ask, answer, or go back to before an answer."""

LARGE = 1_000_000
"""Events with more bytes are not decoded again before they are stored: that takes a while."""

_REST = "restore it from a backup, or read the rest: store.get(key, skip_unreadable=True)"

_log = logging.getLogger("weft")


AHEAD = 1
"""How many versions newer tables may be. A version only adds to the one before it, so that old and
new processes can work side by side while one after the other is upgraded."""


def require_version(version: int, known: int, words: str, *, where: str) -> int:
    """The version of the tables, unless they are too new for this program."""
    if version > known + AHEAD:
        raise StoreError(
            f"{words} version {version}, and this one knows up to {known}",
            where=where,
            hint="upgrade: pip install --upgrade weft; or with the newer one, go back a version:"
            " weft store downgrade",
        )
    return version


RawRow = tuple[bytes, int | None]
"""What a `Row` is made of, as a driver gives it."""


class EventRow(NamedTuple):
    """An event as a database has it: its JSON, and the checksum of that."""

    data: bytes
    checksum: int | None


def encode_event(event: Event) -> EventRow:
    """Encode an event, and make sure that it can be read again.

    An event that was stored but cannot be read would be lost to its session.
    """
    data = event.to_json()
    try:
        if len(data) < LARGE:
            read_event(data)
        else:
            # a large event is checked without its JSON, which is faster
            msgspec.convert(msgspec.to_builtins(event), Event)
    except (ValueError, RecursionError) as error:
        raise SessionError(f"the event is not one: {error}", where=f"event {event.id}") from None
    return EventRow(data, crc32(data))


def read_row(row: EventRow, position: int, *, where: str) -> Event:
    """Decode the event of a row; the error for a damaged one names its position."""
    if row.checksum is not None and crc32(row.data) != row.checksum:
        raise StoreError(
            f"event {position} is damaged: it is not the text that was stored",
            where=where,
            hint=_REST,
        )
    try:
        return read_event(row.data)
    except (ValueError, RecursionError) as error:
        raise StoreError(
            f"event {position} cannot be read: {error}", where=where, hint=_REST
        ) from None


def warn_unreadable(problems: Sequence[StoreError]) -> None:
    """Log what was left out of a session."""
    for problem in problems:
        _log.warning("%s: %s; it is left out", problem.where, problem.message)


def encode_value(value: Json) -> str:
    """Encode a state value as JSON text."""
    return encode(value, where="state").decode()


def checksum_of(*cells: str | float | bytes) -> int:
    """The checksum of a row of state: it covers the names and the value together."""
    texts = [cell if isinstance(cell, bytes) else str(cell).encode() for cell in cells]
    return crc32(b"\0".join(texts))


class StateReader:
    """Reads the rows of state of one session.

    A damaged row is an error. Under `skip_unreadable` it is left out and noted in `problems`.
    """

    def __init__(self, key: SessionKey, *, skip_unreadable: bool = False) -> None:
        self.key = key
        self.problems: list[StoreError] = []
        self._skip = skip_unreadable

    def initial(
        self, created: float, text: bytes, checksum: int | None, archived: int = 0
    ) -> JsonObject:
        """The state that the session began with; the checksum covers how much is archived too."""
        expected = checksum_of(*self.key, created, text, *((archived,) if archived else ()))
        try:
            state = self._value(text, checksum, expected, what="the state it began with")
            if not isinstance(state, dict):
                raise self._damage_error("the state it began with", "it is not an object")
        except StoreError as problem:
            if not self._skip:
                raise
            self.problems.append(problem)
            return {}
        return state

    def shared_state(
        self, scope: Sequence[str], rows: Iterable[tuple[str, bytes, int | None]]
    ) -> JsonObject:
        """The state of an app, or of one user of it; `scope` names which."""
        state: JsonObject = {}
        for name, text, checksum in rows:
            expected = checksum_of(*scope, name, text)
            try:
                state[name] = self._value(text, checksum, expected, what=f"the state {name!r}")
            except StoreError as problem:
                if not self._skip:
                    raise
                self.problems.append(problem)
        return state

    def _value(self, text: bytes, checksum: int | None, expected: int, *, what: str) -> Json:
        if checksum is not None and checksum != expected:
            raise self._damage_error(what, "it is not what was stored")
        try:
            try:
                value: Json = msgspec.json.decode(text)
            except msgspec.DecodeError:  # msgspec refuses lone surrogates, json takes them
                value = json.loads(text)
        except (ValueError, RecursionError) as error:
            raise self._damage_error(what, str(error)) from None
        return value

    def _damage_error(self, what: str, why: str) -> StoreError:
        return StoreError(f"{what} is damaged: {why}", where=str(self.key), hint=_REST)


def still_waits(rows: Iterable[bytes]) -> bool:
    """Whether calls may still wait after these events of a session, which ask and answer.

    Only ids are looked at. What a rewind leaves open only the whole log tells, so it may wait.
    """
    waiting: set[str] = set()
    for row in rows:
        try:
            event = _questions.decode(row)
        except ValueError:
            return True  # whoever reads the session says what is wrong with it
        # the rewind may hide an answer
        if event.actions is not None and event.actions.rewind_before_invocation_id:
            return True
        for part in event.content.parts or () if event.content is not None else ():
            if part.function_response is not None:
                waiting.discard((part.function_response.id or "").removeprefix(QUESTION))
        if event.custom_metadata is not None:
            waiting.update(event.custom_metadata.weft.pending)
    return bool(waiting)


class _RowField(msgspec.Struct, rename="camel", frozen=True, gc=False):
    """A part of an event's JSON, as far as it asks or answers."""


class _AnswerRow(_RowField, frozen=True, gc=False):
    id: str | None = None


class _AnsweringPart(_RowField, frozen=True, gc=False):
    function_response: _AnswerRow | None = None


class _AnsweringContent(_RowField, frozen=True, gc=False):
    parts: list[_AnsweringPart] | None = None


class _AskingRow(_RowField, frozen=True, gc=False):
    pending: list[str] = []


class _AskingMetadata(_RowField, frozen=True, gc=False):
    weft: _AskingRow = _AskingRow()


class _Rewind(_RowField, frozen=True, gc=False):
    rewind_before_invocation_id: str | None = None


class _QuestionEvent(_RowField, frozen=True, gc=False):
    content: _AnsweringContent | None = None
    custom_metadata: _AskingMetadata | None = None
    actions: _Rewind | None = None


_questions = msgspec.json.Decoder(_QuestionEvent)


# --- rows that are only skimmed

LEAST = 2_000
"""Logs with fewer events are decoded at once."""

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
                    row = self._fetch_row(index)
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

    def _fetch_row(self, index: int) -> bytes | Event | None:
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


class RowSkim(NamedTuple):
    """A skim of a log, and what the store needs of it besides."""

    skim: Skim
    positions: dict[str, int]
    """Where each event stands, by its id."""
    invocations: "PositionsById"
    last: str
    """The invocation of the last turn."""
    deltas: list[JsonObject]
    """What its events write to the state, one after the other."""


def skim_rows(rows: Sequence[bytes]) -> RowSkim | None:
    """What the rows of a log say without being decoded; None where they are more than plain talk.

    An unknown field, or anything that a pass might treat in its own way, makes a log more than
    talk. Such a log is decoded: that is slower and always right.
    """
    talk = _TalkReader()
    at = 0
    try:
        while at < len(rows):
            # some at a time: all of them at once take much memory
            events = [*map(read_talk_event, rows[at : at + LEAST])]
            spoken = utterances(events)
            if not spoken.events or not talk.read(events, spoken.listed):
                return None
            at += spoken.events
    except (ValueError, RecursionError):
        return None
    # an id that stands there twice was put there by hand
    if not talk.turns or len(talk.positions) != len(rows):
        return None
    return talk.skim(len(rows))


class PositionsById(dict[str, int]):
    """Where in a log each of some ids stands first."""

    def find(self, id: str, /) -> int | None:
        """The position of the first event with the id."""
        return self.get(id)


class _TalkReader:
    """Gathers what is known of plain talk, some events after the other."""

    def __init__(self) -> None:
        self.positions: dict[str, int] = {}
        self.turns: list[int] = []
        self._calls: dict[str, int] = {}
        self._authors: set[str] = set()
        self._invocations = PositionsById()
        self._asked, self._words, self._last = -1, "", ""
        self._deltas: list[JsonObject] = []
        self._produced: set[str] = set()
        self._volatile: set[str] = set()
        self._supplied: set[str] = set()
        self._rewinds: list[tuple[int, str]] = []

    def read(self, events: Sequence[Event | TalkEvent], spoken: Sequence[Utterance]) -> bool:
        """Read more of it; False where it is more than talk after all."""
        index, begin = 0, len(self.positions)
        for one in spoken:
            position, event = begin + index, events[index]
            for each in events[index : index + one.length]:
                # one that was not read in short is too long to stay unread, or has other fields
                if type(each) is not TalkEvent or not self._write(each, one):
                    return False
                self.positions[each.id] = begin + index
                index += 1
            self._authors.add(one.author)
            invocation = event.invocation_id
            self._invocations.setdefault(invocation, position)
            # the user speaks first
            if not self.turns and one.author != "user" and (one.text or one.calls):
                return False
            if target := event.actions.rewind_before_invocation_id:
                self._rewinds.append((position, target))
            for call in one.calls:
                # two calls with one id need a pass
                if call.id in self._calls:
                    return False
                self._calls[call.id] = position
            if one.author == "user" and one.text:
                self._asked, self._words = position, one.text
                # events without an invocation are turns of their own
                if not self.turns or not invocation or invocation != self._last:
                    self.turns.append(position)
                    self._last = invocation
        return True

    def _write(self, event: TalkEvent, one: Utterance) -> bool:
        """Note what an event writes to the state; False where only the whole log tells more."""
        delta = event.actions.state_delta
        if not delta:
            return True
        self._deltas.append(delta)
        if event.author == "user":
            self._supplied.update(delta)
            return True
        self._produced.update(one.wrote)
        if not one.text and not one.calls and self._words in delta.values():
            return False  # the user's words, under a key of their own
        self._volatile.update(delta)
        # an answer may have moved from a key that is deleted to another
        return None not in delta.values()

    def skim(self, length: int) -> RowSkim:
        """All of it."""
        known = self._invocations
        known.pop("", None)
        skim = Skim(
            length,
            frozenset((*self._authors, "user")),
            self._asked,
            self.turns,
            self._calls,
            known,
            None,
            frozenset(self._produced),
            frozenset(self._volatile),
            frozenset(self._supplied),
            tuple(self._rewinds),
        )
        return RowSkim(skim, self.positions, known, self._last, self._deltas)
