"""Chapters: a long log in stretches, each with what is known of it without reading its events.

A chapter says what its events write to the state, and, where they are plain talk, who spoke, where
turns begin and which ids are taken. So a session of a million events is opened by its chapters and
its last events: the others are read when somebody asks for them. What is said in a chapter is
there too, in short: whoever sends all of a history reads that instead of the events. A chapter may
also be packed: then it has its events, compressed, and the table of events has them no more.

Both databases have the same chapters. Facts are derived: chapters whose facts cannot be read are
as if there were none, and the log is read.
"""

import json
import sys
from array import array
from bisect import bisect_left
from collections.abc import Callable, Iterable, Sequence
from hashlib import blake2b
from typing import Literal, NamedTuple, cast
from zlib import compress, crc32, decompress, error

import msgspec

from weft.errors import StoreError, UsageError
from weft.session.event import Event, apply_delta
from weft.session.log import Positions
from weft.session.memory import StoredSession, split_scopes
from weft.session.strand import CallIds, Skim, Strand
from weft.session.talk import (
    FetchTalk,
    StoredTalk,
    TalkEvent,
    call_ids,
    pack_talk,
    read_talk_event,
    utterances,
)
from weft.stores.rows import (
    EventRow,
    Fetch,
    PositionsById,
    RawRow,
    RowSkim,
    UnreadEvents,
    checksum_of,
    encode_value,
    read_row,
    skim_rows,
)
from weft.values import JsonObject

LENGTH = 5_000
"""How many events a chapter has, about."""

SPARE = 1_000
"""How many of the newest events are in no chapter, unless somebody asks for it."""

SHORTEST = 100
"""A chapter with fewer events is not worth its row."""

TALKS = 8
"""How many chapters' talk is fetched at once: to connect costs more than to read it."""

_FORM = 1
"""The form of facts: those of another are not read."""

_REWOUND = 2
"""The form of facts with rewinds, which earlier versions of Weft must not take for plain talk."""


class StoredRow(NamedTuple):
    """An event as the table of events has it."""

    timestamp: float
    data: bytes
    checksum: int | None


class TalkFacts(msgspec.Struct, frozen=True, array_like=True):
    """What a chapter of plain talk says. Numbers are relative to its first event."""

    authors: list[str]
    asked: int
    turns: bytes
    ids: bytes
    calls: bytes
    invocations: bytes
    produced: list[str]
    volatile: list[str]
    supplied: list[str] | None = None
    rewinds: list[tuple[int, str]] = []


class ChapterFacts(msgspec.Struct, frozen=True, array_like=True):
    """What is known of a chapter apart from its state; `talk` is None if it is more than talk."""

    form: int
    talk: TalkFacts | None


class NewChapter(NamedTuple):
    """A chapter to be stored, with the columns that a database looks at."""

    first: int
    length: int
    delta: bytes
    """What its events write to the session's own state, as JSON."""
    delta_checksum: int
    facts: bytes
    checksum: int
    newest: float
    """The latest of its events' timestamps."""
    asks: bool
    """Whether one of its events says that calls wait."""
    talk: bytes | None
    """What is said in it, packed, where that can be sent as it is."""


class Chapter(NamedTuple):
    """A stored chapter."""

    first: int
    length: int
    delta: bytes
    facts: ChapterFacts

    @property
    def end(self) -> int:
        """Where the next one begins."""
        return self.first + self.length


def next_chapter(
    rows: Sequence[StoredRow], first: int, earlier: Sequence[Chapter], *, where: str
) -> NewChapter | None:
    """The chapter of all rows but the last, which is the first after it.

    A chapter of plain talk ends where a turn does, so that what is known of it holds by itself. It
    has no call whose id another has in an earlier one. None where a turn of plain talk does not
    end yet.
    """
    for position, row in enumerate(rows, first):
        if row.checksum is not None and crc32(row.data) != row.checksum:
            read_row(EventRow(row.data, row.checksum), position, where=where)  # says what is wrong
    data = [row.data for row in rows]
    length, talk = len(rows) - 1, None
    # without a checksum nobody knows whether a row is as it was checked: it must be decoded
    if all(row.checksum is not None for row in rows):
        length, talk = _find_talk(data, length)
        # a turn of plain talk is under way: the chapter waits until it has ended
        if talk is None and length < LENGTH and _may_end(data[:length]):
            return None
    # two calls with one id: who compiles the log must see both
    if talk is not None and not _has_new_calls(talk, earlier):
        talk = None
    delta = encode_value(_delta(data[:length], first, where=where)).encode()
    form = _REWOUND if talk is not None and talk.rewinds else _FORM
    facts = msgspec.msgpack.encode(ChapterFacts(form, talk))
    newest = max(row.timestamp for row in rows[:length])
    # a search in the bytes is enough: a false hit only costs reading the chapter
    asks = any(b'"pending":[' in row for row in data[:length])
    packed_talk = None
    if talk is not None:
        packed_talk = pack_talk(utterances([*map(read_talk_event, data[:length])]))
    sums = crc32(delta), crc32(facts)
    return NewChapter(first, length, delta, sums[0], facts, sums[1], newest, asks, packed_talk)


def _find_talk(data: list[bytes], length: int) -> tuple[int, TalkFacts | None]:
    """Where the last turn in the rows begins, and what is known of the talk before it."""
    tries = 0
    for at in range(length, 0, -1):
        author, invocation = _read_speaker(data[at])
        if author != "user":
            continue
        talk = skim_rows(data[:at])
        if talk is None or tries == _TRIES:
            break
        if not invocation or invocation != talk.last:
            return at, _talk_facts(talk)
        tries += 1
    return length, None


def _may_end(data: list[bytes]) -> bool:
    """Whether rows that are not whole turns are plain talk up to calls without their results."""
    return any(skim_rows(data[: len(data) - open]) is not None for open in (0, 1))


_TRIES = 3
"""How often the end of a turn is looked for: users who speak twice in one turn are rare."""


class _Speaker(msgspec.Struct, rename="camel", gc=False):
    author: str = ""
    invocation_id: str = ""


_speakers = msgspec.json.Decoder(_Speaker)


def _read_speaker(row: bytes) -> tuple[str, str]:
    try:
        speaker = _speakers.decode(row)
    except ValueError:
        return "", ""
    return speaker.author, speaker.invocation_id


def _talk_facts(talk: RowSkim) -> TalkFacts:
    skim = talk.skim
    return TalkFacts(
        sorted(skim.authors),
        skim.asked,
        _as_bytes(array("I", skim.turns)),
        _hashes(talk.positions),
        _hashes(skim.calls),
        _hashes(talk.invocations),
        sorted(skim.produced),
        sorted(skim.volatile),
        sorted(skim.supplied or ()),
        [*skim.rewinds],
    )


def _hashes(ids: Iterable[str]) -> bytes:
    return _as_bytes(array("Q", sorted(map(_hash, ids))))


def _has_new_calls(talk: TalkFacts, earlier: Sequence[Chapter]) -> bool:
    """Whether no earlier chapter has the id of a call in this one."""
    calls = {*_numbers(talk.calls, "Q")}
    return all(
        chapter.facts.talk is None or calls.isdisjoint(_numbers(chapter.facts.talk.calls, "Q"))
        for chapter in earlier
    )


def _delta(data: Sequence[bytes], first: int, *, where: str) -> JsonObject:
    """What the events write to the session's own state, later ones over earlier ones."""
    deltas: list[JsonObject] = []
    for position, row in enumerate(data, first):
        # most events write nothing, and are not decoded for that
        if b'"stateDelta"' in row:
            event = read_row(EventRow(row, None), position, where=where)
            deltas.append(event.actions.state_delta)
    own, _, _ = split_scopes(deltas)
    return own


def _hash(id: str) -> int:
    # the hashes are stored, so they must be the same in every process: not Python's own
    digest = blake2b(id.encode(errors="surrogatepass"), digest_size=8).digest()
    return int.from_bytes(digest, "little")


def _as_bytes(numbers: "array[int]") -> bytes:
    if sys.byteorder == "big":
        numbers.byteswap()
    return numbers.tobytes()


def _numbers(data: bytes, code: Literal["I", "Q"]) -> Sequence[int]:
    if sys.byteorder == "little":
        return memoryview(data).cast(code)  # as they lie there: a long log has many
    numbers: array[int] = array(code, data)
    numbers.byteswap()
    return numbers


DeltaRow = tuple[int, int, bytes, int]
"""Of a chapter, where it begins, how many events it has, what it writes, the checksum of that."""


def read_deltas(rows: Iterable[DeltaRow], covered: int) -> list[bytes] | None:
    """What chapters write to the state of their session, one after the other.

    None where one is damaged, or they do not follow one another.
    """
    deltas: list[bytes] = []
    end = 0
    for first, length, delta, checksum in rows:
        # a gap or damage: what is derived is thrown away, and the log is read
        if first != end or crc32(delta) != checksum:
            return None
        deltas.append(delta)
        end = first + length
    return deltas if end == covered else None


def read_chapters(
    rows: Sequence[tuple[*DeltaRow, bytes, int]], covered: int
) -> list[Chapter] | None:
    """Stored chapters, from their columns in order.

    None where they are damaged, in a form that is not known, or do not follow one another.
    """
    if read_deltas((row[:4] for row in rows), covered) is None:
        return None
    chapters: list[Chapter] = []
    for first, length, delta, _, data, checksum in rows:
        if crc32(data) != checksum:
            return None
        try:
            facts = _facts.decode(data)
        except msgspec.DecodeError:
            return None
        # another version of Weft wrote it
        if facts.form not in (_FORM, _REWOUND):
            return None
        chapters.append(Chapter(first, length, delta, facts))
    return chapters


_facts = msgspec.msgpack.Decoder(ChapterFacts)


def state_of(initial: JsonObject, deltas: Iterable[bytes]) -> JsonObject:
    """The session's own state once these were written to it."""
    state = initial
    for text in deltas:
        delta = read_json(text)
        state = apply_delta(state, delta) if delta else state
    return state


def read_json(text: bytes) -> JsonObject:
    """A JSON object; half an emoji in it is read by the slow reader."""
    try:
        return cast("JsonObject", msgspec.json.decode(text))
    except msgspec.DecodeError:
        return cast("JsonObject", json.loads(text))


def open_log(
    begun: StoredSession,
    chapters: Sequence[Chapter],
    tail: Sequence[RawRow],
    decode: Callable[[bytes], Event],
    fetch: Fetch,
    fetch_talk: FetchTalk,
) -> StoredSession | None:
    """The session with the chapters unread and the rows after them; None where it must be read.

    It must where a chapter is more than plain talk.
    """
    talks = [talk for chapter in chapters if (talk := chapter.facts.talk) is not None]
    if not chapters or len(talks) < len(chapters):
        return None
    covered = chapters[-1].end
    data: list[bytes] = []
    for row, checksum in tail:
        if checksum is None or crc32(row) != checksum:
            return None
        data.append(row)
    state = state_of(begun.initial, (chapter.delta for chapter in chapters))
    size = sum(map(len, data)) + _SIZE * covered
    lines: list[bytes | Event | None] = [None] * covered
    backing = UnreadEvents(lines, decode, fetch)
    older = _Older(chapters, talks, backing)
    recent = skim_rows(data) if data else None
    # the newest rows are plain talk too, and stay JSON
    if recent is not None and _goes_on(recent, talks):
        lines += data
    else:
        recent = None
        try:
            lines += [decode(row) for row in data]
        except (ValueError, RecursionError):
            return None  # who reads all of it says which
    log: Strand[Event] = Strand.over(backing)
    tail_ids = (
        {id: covered + at for id, at in recent.positions.items()}
        if recent is not None
        else {event.id: at for at, event in enumerate(backing[covered:], covered)}
    )
    if len(tail_ids) != len(data):
        return None  # it was changed by hand: who reads all of it says so
    log.memo.keep(older.skim(recent))
    log.memo.keep(StoredTalk([chapter.first for chapter in chapters], fetch_talk))
    log.memo[Positions] = LongPositions(tail_ids, older)
    if recent is not None:
        deltas = recent.deltas
    else:
        deltas = [event.actions.state_delta for event in backing[covered:]]
    own, _, _ = split_scopes(delta for delta in deltas if delta)
    return begun._replace(
        state=apply_delta(state, own) if own else state, events=log, size=size, chaptered=covered
    )


_SIZE = 24
"""Bytes that an event counts for whose chapter alone is in memory."""


def _goes_on(recent: RowSkim, talks: Sequence[TalkFacts]) -> bool:
    """Whether the newest events are the same talk, with calls of their own."""
    calls = {*map(_hash, recent.skim.calls)}
    return all(calls.isdisjoint(_numbers(talk.calls, "Q")) for talk in talks if calls)


class _Older:
    """The chapters of a log by what is known of them."""

    def __init__(
        self, chapters: Sequence[Chapter], talks: Sequence[TalkFacts], events: UnreadEvents
    ) -> None:
        self._chapters = chapters
        self._talks = talks
        self._events = events
        self.covered = chapters[-1].end
        self.ids = IdIndex([_numbers(talk.ids, "Q") for talk in talks], self._event_at)
        self._calls = [_numbers(talk.calls, "Q") for talk in talks]
        self._invocations = IdIndex(
            [_numbers(talk.invocations, "Q") for talk in talks], self._invocation_at
        )

    def skim(self, recent: RowSkim | None) -> Skim:
        """What is known of the chapters, and of the talk after them."""
        turns, asked = array("I"), -1
        authors: set[str] = set()
        produced: set[str] = set()
        volatile: set[str] = set()
        supplied: set[str] = set()
        rewinds: list[tuple[int, str]] = []
        for chapter, talk in zip(self._chapters, self._talks, strict=True):
            first = chapter.first
            produced.update(talk.produced)
            volatile.update(talk.volatile)
            supplied.update(talk.supplied or ())
            rewinds += [(first + at, target) for at, target in talk.rewinds]
            turns.extend([first + at for at in _numbers(talk.turns, "I")])
            asked = first + talk.asked if talk.asked >= 0 else asked
            authors.update(talk.authors)
        if recent is None:
            known = frozenset(authors)
            written = frozenset(produced), frozenset(volatile), self._supplied_keys(supplied)
            return Skim(
                self.covered, known, asked, turns, {}, self._invocations, self, *written,
                tuple(rewinds),
            )  # fmt: skip
        last = recent.skim
        turns.extend([self.covered + at for at in last.turns])
        return Skim(
            self.covered + last.length,
            frozenset(authors | last.authors),
            self.covered + last.asked if last.asked >= 0 else asked,
            turns,
            {id: self.covered + at for id, at in last.calls.items()},
            _EitherIds(recent.invocations, self._invocations, self.covered),
            self,
            frozenset(produced | last.produced),
            frozenset(volatile | last.volatile),
            self._supplied_keys(supplied | (last.supplied or set())),
            (*rewinds, *[(self.covered + at, target) for at, target in last.rewinds]),
        )

    def _supplied_keys(self, supplied: set[str]) -> frozenset[str] | None:
        """Keys that came with the user's messages, if all chapters have noted them."""
        # those of an earlier version did not
        is_noted = all(talk.supplied is not None for talk in self._talks)
        return frozenset(supplied) if is_noted else None

    def add_to(self, ids: CallIds, position: int) -> None:
        """Add the calls before a position; those of a chapter around it are looked up."""
        whole = [at for at, chapter in enumerate(self._chapters) if chapter.end <= position]
        calls = [self._calls[at] for at in whole]
        if any(calls):
            ids.older = IdIndex(calls, self._call_at)
        # the position is inside a chapter: its events up to there are read
        if len(whole) < len(self._chapters):
            first = self._chapters[len(whole)].first
            for event in self._events.read_once(first, position):
                ids.update(call_ids(event))

    def _event_at(self, chapter: int, id: str) -> int | None:
        return self._first(chapter, lambda event: event.id == id)

    def _invocation_at(self, chapter: int, id: str) -> int | None:
        return self._first(chapter, lambda event: event.invocation_id == id)

    def _call_at(self, chapter: int, id: str) -> int | None:
        return self._first(chapter, lambda event: id in call_ids(event))

    def _first(self, chapter: int, is_it: Callable[[Event | TalkEvent], bool]) -> int | None:
        first, end = self._chapters[chapter].first, self._chapters[chapter].end
        events: Sequence[Event | TalkEvent] = self._events.read_once(first, end)
        return next((at for at, event in enumerate(events, first) if is_it(event)), None)


class _EitherIds(msgspec.Struct, frozen=True):
    """Ids that are in one of two places."""

    recent: PositionsById
    older: "IdIndex"
    covered: int
    """Where the recent ones begin."""

    def __contains__(self, id: object) -> bool:
        return isinstance(id, str) and (id in self.recent or id in self.older)

    def find(self, id: str, /) -> int | None:
        """Where in the log the id is, or None."""
        position = self.older.find(id)
        if position is None and (at := self.recent.find(id)) is not None:
            position = self.covered + at
        return position


class IdIndex:
    """Ids of chapters by their hashes, eight bytes each.

    An id whose hash is there is looked up in its chapter, so that the answer is never a guess.
    """

    __slots__ = ("_confirm", "_hashes")

    def __init__(
        self, hashes: Sequence[Sequence[int]], confirm: Callable[[int, str], int | None]
    ) -> None:
        self._hashes = hashes
        self._confirm = confirm

    def find(self, id: str) -> int | None:
        """Where in the log the id is, or None."""
        number = _hash(id)
        for chapter, hashes in enumerate(self._hashes):
            at = bisect_left(hashes, number)
            if at < len(hashes) and hashes[at] == number:
                # two ids may share a hash
                position = self._confirm(chapter, id)
                if position is not None:
                    return position
        return None

    def __contains__(self, id: object) -> bool:
        return isinstance(id, str) and self.find(id) is not None


class LongPositions(Positions):
    """Where each event of a long log stands: those of chapters are looked up when asked for."""

    def __init__(self, recent: dict[str, int], older: _Older) -> None:
        super().__init__(recent)
        self._older = older.ids

    def __contains__(self, id: object) -> bool:
        return super().__contains__(id) or id in self._older

    def get(self, id: str, default: int | None = None, /) -> int | None:  # type: ignore[override]
        """The position of the event with this id."""
        position = super().get(id)
        if position is None:
            position = self._older.find(id)
        return default if position is None else position


Packed = tuple[bytes, int]
"""The events of a chapter, compressed, and the checksum of that."""


def pack(rows: Sequence[StoredRow]) -> Packed:
    """Pack the events of a chapter, byte by byte as they were stored."""
    data = compress(msgspec.msgpack.encode([tuple(row) for row in rows]))
    return data, crc32(data)


def unpack(packed: bytes, checksum: int, length: int) -> list[StoredRow]:
    """The events of a packed chapter.

    Where the chapter is damaged, rows that are not events stand for them: who reads them says so
    of each, and where.
    """
    try:
        if crc32(packed) == checksum:
            rows = [StoredRow(*row) for row in _rows.decode(decompress(packed))]
            if len(rows) == length:
                return rows
    except (error, msgspec.DecodeError):
        pass  # the checksum of the rows below fits no event
    return [StoredRow(0.0, b"", 1)] * length


_rows = msgspec.msgpack.Decoder(list[tuple[float, bytes, int | None]])


def require_fetched(rows: Sequence[RawRow], first: int, length: int, *, where: str) -> list[bytes]:
    """The rows of a chapter that somebody asked for, once they are known to be whole."""
    if len(rows) != length:
        raise StoreError(
            f"events {first} to {first + length - 1} are not there any more",
            where=where,
            hint="the session was deleted while somebody read it; read it again with get",
        )
    listed = [data for data, _ in rows]
    if [*map(crc32, listed)] != [checksum for _, checksum in rows]:
        for position, (data, checksum) in enumerate(rows, first):
            read_row(EventRow(data, checksum), position, where=where)
    return listed


def is_due(length: int, chaptered: int) -> bool:
    """Whether a log has a whole chapter that is not written, and some events after it."""
    return length - chaptered >= LENGTH + SPARE


def chapter_end(first: int, length: int, limit: int | None) -> int | None:
    """Where the next chapter of a log ends at the latest, None where there is to be none.

    Without a `limit` it is a whole one. The newest event is in no chapter: the next one is added
    where it stands.
    """
    if limit is None:
        return first + LENGTH if is_due(length, first) else None
    # the newest event stays in the table: the next one is added after it
    end = min(limit, first + LENGTH, length - 1)
    return end if end - first >= SHORTEST else None


def require_keeping(keep_recent: int) -> None:
    """Refuse to archive all of a log."""
    if type(keep_recent) is not int or keep_recent < 1:
        raise UsageError(
            f"keep_recent={keep_recent!r}",
            where="archive",
            hint="pass 1 or more: the newest event stays where new ones are added",
        )


def session_checksum(cells: Sequence[str | float | bytes], archived: int) -> int:
    """The checksum of the row of a session, of which `archived` events are packed."""
    return checksum_of(*cells, *((archived,) if archived else ()))


def require_checksum(
    cells: Sequence[str | float | bytes], archived: int, checksum: int | None
) -> None:
    """Refuse to write a new checksum over damage."""
    if checksum is not None and checksum != session_checksum(cells, archived):
        raise StoreError(
            "the row of the session is damaged: it is not what was stored",
            where=f"session {cells[2]!s}",
            hint="restore it from a backup; nothing was archived",
        )


def require_whole(rows: Sequence[StoredRow], first: int, *, where: str) -> None:
    """Refuse to put back what is not what was packed."""
    for position, row in enumerate(rows, first):
        read_row(EventRow(row.data, row.checksum), position, where=where)
