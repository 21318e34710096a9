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
from weft.session.lookback import QUESTION, wrote_keys
from weft.session.strand import Skim
from weft.session.talk import LONGEST_TALK, read_talk_event
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

    def shared(
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
    invocations: frozenset[str]
    last: str
    """The invocation of the last turn."""
    deltas: list[JsonObject]
    """What its events write to the state, one after the other."""


def skim_rows(rows: Sequence[bytes]) -> RowSkim | None:
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
            if len(row) > LONGEST_TALK or b"\\ud" in row:
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
    return RowSkim(skim, positions, known, last, writes.deltas)


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
