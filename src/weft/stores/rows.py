"""Events and state as rows of a database: JSON text with a checksum.

Both databases write and read the same rows. Rows of older versions have no checksum.
"""

import json
import logging
from collections.abc import Iterable, Sequence
from typing import NamedTuple
from zlib import crc32

import msgspec

from weft.errors import SessionError, StoreError
from weft.session import Event, SessionKey
from weft.session.event import read_event
from weft.session.lookback import QUESTION
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
                raise self._damaged("the state it began with", "it is not an object")
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
            raise self._damaged(what, "it is not what was stored")
        try:
            try:
                value: Json = msgspec.json.decode(text)
            except msgspec.DecodeError:  # msgspec refuses lone surrogates, json takes them
                value = json.loads(text)
        except (ValueError, RecursionError) as error:
            raise self._damaged(what, str(error)) from None
        return value

    def _damaged(self, what: str, why: str) -> StoreError:
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
