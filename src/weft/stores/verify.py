"""Every row of a store against its checksum, and every log against what must follow in it.

A store checks what it reads. This reads everything: events in the table and in packed chapters,
the rows of sessions, state, and what chapters say of their events. The steps of one session are
run in one transaction, so that each is seen as it was at one moment.
"""

from collections.abc import Sequence
from typing import NamedTuple, cast
from zlib import crc32, decompress, error

from weft.errors import StoreError
from weft.session import SessionKey
from weft.stores.chapters import StoredRow, session_checksum, unpack
from weft.stores.rows import EventRow, checksum_of, read_row
from weft.stores.statements import StateStatements, Steps, StoreStatements
from weft.stores.steps import as_bytes

_PAGE = 1_000
"""How many events are read at once."""


class StoreCheck(NamedTuple):
    """What was looked at, and what is wrong."""

    sessions: int
    events: int
    unhashed: int
    """Rows of versions that stored no checksum: what they say can be read, and no more is known."""
    problems: list[str]


def add_checks(checks: Sequence[StoreCheck]) -> StoreCheck:
    """All of them as one."""
    return StoreCheck(
        sum(check.sessions for check in checks),
        sum(check.events for check in checks),
        sum(check.unhashed for check in checks),
        [problem for check in checks for problem in check.problems],
    )


def check_shared(sql: StoreStatements) -> Steps[StoreCheck]:
    """Look at the state that sessions share."""
    problems: list[str] = []
    unhashed = 0
    tables: tuple[tuple[str, StateStatements], ...] = (
        ("an app", sql.app_state),
        ("a user", sql.user_state),
    )
    for whose, table in tables:
        rows = cast("list[tuple[int | None, *tuple[str | bytes, ...]]]", (yield table.all, {}))
        for checksum, *cells in rows:
            unhashed += checksum is None
            if checksum is not None and checksum_of(*cells) != checksum:
                names = " of ".join(_text(cell) for cell in cells[-2::-1])
                problems.append(f"the state {names}, of {whose}, is not what was stored")
    return StoreCheck(0, 0, unhashed, problems)


def list_numbers(sql: StoreStatements) -> Steps[list[int]]:
    """The numbers of all sessions."""
    return [number for (number,) in cast("list[tuple[int]]", (yield sql.numbers, {}))]


def check_session(sql: StoreStatements, number: int) -> Steps[StoreCheck]:
    """Look at a session: its row, its chapters and all of its events."""
    sessions = cast("list[_SessionCells]", (yield sql.whole_session, {"number": number}))
    if not sessions:
        return StoreCheck(0, 0, 0, [])  # it was deleted meanwhile
    row = _SessionRow(*sessions[0])
    checksum, archived, length = row.checksum, row.archived, row.length
    app, user, id = map(_text, row[:3])
    log = _Log(str(SessionKey(app, user, id)), unhashed=int(checksum is None))
    if checksum is not None and checksum != session_checksum(row[:5], archived):
        log.note("its row is not what was stored")
    end, packed_end = 0, 0
    for first in [
        first for first, *_ in cast("list[tuple[int]]", (yield sql.deltas, {"number": number}))
    ]:
        values = {"number": number, "first": first}
        [cells_of] = cast("list[_ChapterCells]", (yield sql.whole_chapter, values))
        chapter = _ChapterRow(*cells_of)
        if first != end:
            log.note(f"the chapter at event {first} does not follow the one before")
        end = first + chapter.length
        if chapter.packed is not None:
            packed_end = end
            rows = [*enumerate(log.unpack(chapter, first), first)]
        else:
            rows = yield from _read_events(sql, number, first, end)
        log.check_events(rows, first, end)
        log.check_chapter(chapter, first, [row for _, row in rows])
        if (yield sql.has_talk, {}):
            [(talk,)] = cast("list[tuple[bytes | None]]", (yield sql.talk, values))
            log.check_talk(talk, first)
    if end != row.chaptered or packed_end != archived:
        log.note(
            f"it has {end} events in chapters, not {row.chaptered}, or {archived} are not packed"
        )
    for first in range(end, length, _PAGE):
        last = min(first + _PAGE, length)
        log.check_events((yield from _read_events(sql, number, first, last)), first, last)
    return StoreCheck(1, log.events, log.unhashed, log.problems)


_SessionCells = tuple[
    str | bytes, str | bytes, str | bytes, float, str | bytes, int | None, int, int, int
]


class _SessionRow(NamedTuple):
    app_name: str | bytes
    user_id: str | bytes
    id: str | bytes
    created: float
    state: str | bytes
    checksum: int | None
    chaptered: int
    archived: int
    length: int


_ChapterCells = tuple[int, bytes, int, bytes, int, float, int, bytes | None, int | None]


class _ChapterRow(NamedTuple):
    length: int
    delta: bytes
    delta_checksum: int
    facts: bytes
    checksum: int
    newest: float
    asks: int
    packed: bytes | None
    packed_checksum: int | None


def _read_events(
    sql: StoreStatements, number: int, first: int, end: int
) -> Steps[list[tuple[int, StoredRow]]]:
    """The events in the table between two positions, with these."""
    values = {"number": number, "first": first, "end": end}
    rows = cast("list[tuple[int, float, str | bytes, int | None]]", (yield sql.placed, values))
    return [(at, StoredRow(time, as_bytes(data), checksum)) for at, time, data, checksum in rows]


class _Log:
    """What was found in one session."""

    def __init__(self, where: str, *, unhashed: int) -> None:
        self.where = where
        self.unhashed = unhashed
        self.events = 0
        self.problems: list[str] = []

    def note(self, problem: str) -> None:
        """Add a problem."""
        self.problems.append(f"{self.where}: {problem}")

    def unpack(self, chapter: _ChapterRow, first: int) -> list[StoredRow]:
        """The events of a packed chapter; none where they are lost."""
        assert chapter.packed is not None
        checksum = chapter.packed_checksum
        if checksum is None or crc32(chapter.packed) != checksum:
            self.note(f"the packed events from {first} on are not what was stored")
            return []
        return unpack(chapter.packed, checksum, chapter.length)

    def check_events(self, rows: Sequence[tuple[int, StoredRow]], first: int, end: int) -> None:
        """Look at rows, which must be those between two positions."""
        self.events += len(rows)
        missing = sorted({*range(first, end)} - {at for at, _ in rows})
        if missing:
            self.note(f"{len(missing)} events are missing, the first of them is {missing[0]}")
        for at, row in rows:
            self.unhashed += row.checksum is None
            try:
                event = read_row(EventRow(row.data, row.checksum), at, where=self.where)
            except StoreError as problem:
                self.note(problem.message)
                continue
            # the table has the time in a column of its own, by which old events are found
            if row.checksum is not None and event.timestamp != row.timestamp:
                self.note(f"event {at} is damaged: its row has another time than the event")

    def check_chapter(self, chapter: _ChapterRow, first: int, rows: Sequence[StoredRow]) -> None:
        """Look at what a chapter says of its events."""
        is_whole = (
            crc32(chapter.delta) == chapter.delta_checksum
            and crc32(chapter.facts) == chapter.checksum
        )
        asks = any(b'"pending":[' in row.data for row in rows)
        newest = max((row.timestamp for row in rows), default=chapter.newest)
        if not is_whole or newest != chapter.newest or (asks and not chapter.asks):
            self.note(f"the chapter at event {first} is not what was stored")

    def check_talk(self, talk: bytes | None, first: int) -> None:
        """Look at the talk of a chapter, which has a checksum in itself."""
        if talk is None:
            return
        try:
            decompress(talk)
        except error:
            self.note(f"the talk of the chapter at event {first} is not what was stored")


def _text(cell: str | float | bytes) -> str:
    return cell.decode(errors="replace") if isinstance(cell, bytes) else str(cell)
