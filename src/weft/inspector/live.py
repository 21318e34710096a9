"""Sessions that arrive while somebody looks: calls of a proxy, and spans of any exporter.

What arrives is kept as it came, in groups of what may belong together, and a group is read as a
file of the same lines would be. Only groups that grew are read again. Memory is bounded: the
oldest go, and a session says how much of it is gone.
"""

import asyncio
import logging
import time
from collections.abc import Generator, Iterator, Sequence
from contextlib import contextmanager
from itertools import islice
from threading import RLock

import msgspec

from weft.declare.policy_parts import Redact
from weft.errors import SessionError
from weft.inspector.inspection import Inspection
from weft.inspector.sources import MOST_ROWS, RecordedSessions, SessionCounts, no_session
from weft.recordings import Recording
from weft.recordings.read import read_recordings
from weft.values import Json, JsonObject

_log = logging.getLogger("weft")

_RESTS = 4
"""A group is not read again before this many times as long as reading it took."""

_READ_AT_ONCE = 1.0
"""Seconds that groups are read for each time the list is asked for."""


class LiveSessions:
    """The sessions of what arrived so far, for the inspector."""

    MOST = 20_000
    """Lines that are kept of all groups."""
    LARGEST = 200_000_000
    """Bytes that are kept of all groups."""

    def __init__(self, *, model: str | None = None, redact: tuple[Redact, ...] = ()) -> None:
        self._model = model
        self._redact = redact
        self._groups: dict[str, _Group] = {}
        """The one that grew last is the last."""
        self._moved: dict[str, str] = {}
        """Where a group went that was put under another: a page may show it still."""
        self._lines = self._size = self._unread = 0
        self._counts = SessionCounts()
        self._reading = asyncio.Lock()
        self._lock = RLock()
        """What arrives comes from several threads."""

    def add(self, group: str, line: bytes, *, id: str = "") -> None:
        """Take a line of a group: a call, or a span. One with the same id takes its place."""
        with self._growing(group) as grown:
            grown.put_line(line, id)

    def add_event(self, group: str, span: str, line: bytes) -> None:
        """Take an event of a span, which may not have come yet."""
        with self._growing(group) as grown:
            grown.put_event(span, line)

    def name_group(self, group: str, name: str) -> None:
        """Name a group by the conversation that it is."""
        with self._growing(group) as grown:
            grown.name = name

    def count_lines(self, group: str) -> int:
        """How many lines a group has."""
        known = self._groups.get(group)
        return len(known.lines) if known is not None else 0

    def merge(self, group: str, into: str) -> None:
        """Put what came under one name under another: only now they are known to be one."""
        with self._lock:
            moved = self._groups.pop(group, None)
            if moved is None:
                return
            self._lines -= len(moved.lines)
            self._size -= moved.size
            with self._growing(into) as grown:
                grown.take(moved)
            self._moved[group] = into
            if len(self._moved) > self.MOST:
                del self._moved[next(iter(self._moved))]

    @contextmanager
    def _growing(self, name: str) -> Generator["_Group", None, None]:
        """A group that grows, which is the last then; the oldest go where there is no room."""
        with self._lock:
            known = self._groups.pop(name, None)
            self._moved.pop(name, None)
            group = self._groups[name] = known if known is not None else _Group()
            lines, size = len(group.lines), group.size
            yield group
            self._lines += len(group.lines) - lines
            self._size += group.size - size
            self._make_room(group)

    def _make_room(self, newest: "_Group") -> None:
        while self._lines > self.MOST or self._size > self.LARGEST:
            name, oldest = next(iter(self._groups.items()))
            self._lines -= len(oldest.lines)
            self._size -= oldest.size
            if oldest is not newest:
                del self._groups[name]
                continue
            oldest.drop_oldest(self.MOST, self.LARGEST)
            self._lines += len(oldest.lines)
            self._size += oldest.size
            return

    async def _read(self, name: str) -> "_Group | None":
        """A group as far as it came, read anew where it has grown."""
        group = self._groups.get(name)
        if group is not None and group.is_due:
            async with self._reading:
                if group.is_due:
                    with self._lock:
                        rows = group.list_rows()
                    await asyncio.to_thread(self._read_rows, name, group, rows)
        return group

    def _read_rows(
        self, name: str, group: "_Group", rows: Sequence[tuple[bytes, list[bytes]]]
    ) -> None:
        read, problems = group.read(name, rows)
        group.sessions = RecordedSessions(
            read,
            model=self._model,
            redact=self._redact,
            group=name,
            counts=self._counts,
            unreadable=problems,
        )

    async def sessions(self, search: str = "") -> list[Json]:
        """A row for each conversation, the newest first; only those with all words of `search`."""
        rows: list[JsonObject] = []
        with self._lock:
            names = [*islice(reversed(self._groups), MOST_ROWS)]
        end = time.monotonic() + _READ_AT_ONCE
        self._unread = 0
        for name in names:
            # a burst of conversations is read bit by bit: those that are read are listed meanwhile
            is_late = time.monotonic() > end
            group = self._groups.get(name) if is_late else await self._read(name)
            if group is not None:
                self._unread += group.is_due
                rows += group.sessions.list_rows(search)
        return await self._counts.fill(rows)

    async def inspection(self, key: str) -> Inspection:
        """The conversation of that key."""
        group, key = await self._find(key)
        if group is None:
            raise no_session(key)
        inspection = await group.sessions.inspection(key)
        if group.gone:
            inspection.notice = (
                f"{group.gone:,} older calls or spans of this session were dropped from memory."
            )
        return inspection

    def notices(self) -> list[str]:
        """What arrived and is not listed: it waits to be read, or cannot be."""
        with self._lock:
            groups = [*self._groups.values()]
        notices = [one for group in groups for one in group.sessions.notices()]
        if self._unread:
            notices.append(f"{self._unread:,} more conversations arrived and are being read…")
        if len(groups) > MOST_ROWS:
            notices.append(f"the latest {MOST_ROWS:,} of {len(groups):,} conversations are listed")
        return notices

    async def length(self, key: str) -> int | None:
        """How many events it has; None where it is gone."""
        group, key = await self._find(key)
        return await group.sessions.length(key) if group is not None else None

    async def _find(self, key: str) -> "tuple[_Group | None, str]":
        """The group that a key is of, and the key as it is now.

        What arrived since may have shown that two conversations are one.
        """
        number, _, name = key.partition(" ")
        with self._lock:
            while name in self._moved:
                name = self._moved[name]
        group = await self._read(name)
        is_one = group is not None and len(group.sessions) == 1 and number.isdecimal()
        return group, f"{1 if is_one else number} {name}"


class _Group:
    """Lines that may belong together, and the sessions in them."""

    def __init__(self) -> None:
        self.name = ""
        self.lines: dict[str, bytes] = {}
        self.events: dict[str, list[bytes]] = {}
        """Events that did not come with their spans, by the span."""
        self.size = 0
        self.gone = 0
        """How many lines were dropped."""
        self.sessions = RecordedSessions([])
        self._version = self._read_version = self._count = 0
        self._rests_until = 0.0

    def put_line(self, line: bytes, id: str) -> None:
        """Add a line, or replace the one with that id."""
        self._count += 1
        id = id or f"#{self._count}"
        self.size += len(line) - len(self.lines.get(id, b""))
        self.lines[id] = line
        self._version += 1

    def put_event(self, span: str, line: bytes) -> None:
        """Add an event of a span."""
        self.events.setdefault(span, []).append(line)
        self.size += len(line)
        self._version += 1

    def take(self, other: "_Group") -> None:
        """Take all of another group."""
        for id, line in other.lines.items():
            self.put_line(line, id if not id.startswith("#") else "")
        for span, listed in other.events.items():
            for line in listed:
                self.put_event(span, line)
        self.name = self.name or other.name
        self.gone += other.gone

    def drop_oldest(self, most: int, largest: int) -> None:
        """Drop the oldest lines, with their events, until a tenth of the room is free."""
        while self.events and self.size > largest * 0.9:  # of spans that never came
            orphan = next((span for span in self.events if span not in self.lines), None)
            if orphan is None:
                break
            self.size -= sum(map(len, self.events.pop(orphan)))
        for id in [*self.lines]:
            if len(self.lines) <= most * 0.9 and self.size <= largest * 0.9:
                break
            self.size -= len(self.lines.pop(id)) + sum(map(len, self.events.pop(id, ())))
            self.gone += 1
            self._version += 1

    @property
    def is_due(self) -> bool:
        """Whether it grew since it was read, and has rested."""
        return self._version != self._read_version and time.monotonic() >= self._rests_until

    def list_rows(self) -> list[tuple[bytes, list[bytes]]]:
        """The lines as they are now, each with the events that came without it."""
        self._read_version = self._version
        return [(line, [*self.events.get(id, ())]) for id, line in self.lines.items()]

    def read(
        self, name: str, rows: Sequence[tuple[bytes, list[bytes]]]
    ) -> tuple[list[Recording], list[SessionError]]:
        """Read the lines as a file of them would be read; with what could not be."""
        begun = time.monotonic()
        read: list[Recording] = []
        problems: list[SessionError] = []
        data = b"\n".join(_with_events(line, events) for line, events in rows)
        try:
            if data:
                read += read_recordings(data, name=self.name or name, lenient=True)
        except SessionError as error:  # what came before it is shown
            _log.warning("not all that arrived can be read: %s", error)
            problems.append(error)
        self._rests_until = time.monotonic() + _RESTS * (time.monotonic() - begun)
        return [*self._with_names(read)], problems

    def _with_names(self, recordings: list[Recording]) -> Iterator[Recording]:
        for number, one in enumerate(recordings, 1):
            id = f"{self.name}-{number}" if number > 1 else self.name
            yield one._replace(id=id) if self.name else one


def _with_events(line: bytes, events: list[bytes]) -> bytes:
    """A span with the events that came without it."""
    if not events:
        return line
    span = msgspec.json.decode(line, type=JsonObject)
    own = span.get("events")
    added: list[Json] = [msgspec.json.decode(one, type=JsonObject) for one in events]
    return msgspec.json.encode(
        {**span, "events": [*(own if isinstance(own, list) else ()), *added]}
    )
