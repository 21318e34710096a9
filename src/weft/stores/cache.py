"""Sessions in memory: each is read from the database once, then only what was added since.

What the compiler derived from a log stays with it, so that a cached session is also a warm one.
"""

from collections import OrderedDict
from collections.abc import Callable, Iterable
from threading import Lock
from zlib import crc32

import msgspec

from weft.collector import collector_paused
from weft.errors import SessionError, StoreError
from weft.session import Event, SessionKey
from weft.session.event import apply_delta, read_event
from weft.session.log import Positions, positions_of
from weft.session.memory import StoredSession, grow, split_scopes
from weft.session.strand import Strand
from weft.stores.rows import LEAST, EventRow, RawRow, UnreadEvents, read_row, skim_rows
from weft.values import JsonObject

BYTES = 64_000_000
"""Bytes of JSON whose sessions are cached. In memory they take about five times as much."""

SLICE = 1_000
"""How many rows are fetched at once: the rows of a long log are never all in memory."""

_decoder = msgspec.json.Decoder(Event)

_NO_FIELDS: JsonObject = {}

OVERHEAD = 2_000
"""Bytes that a session counts for, apart from its events."""


class SessionCache:
    """The sessions used last; each may be older than the database, never newer.

    The least recently used go when there are more than `limit` bytes. Those that `in_use` names
    stay: a run that lost its session would read all of it again for every event that it appends.
    """

    def __init__(
        self, limit: int = BYTES, *, in_use: Callable[[SessionKey], bool] = lambda key: False
    ) -> None:
        self._limit = limit
        self._in_use = in_use
        self._sessions: OrderedDict[SessionKey, StoredSession] = OrderedDict()
        self._bytes = 0
        self._lock = Lock()

    def get(self, key: SessionKey) -> StoredSession | None:
        """The session as far as it is known here."""
        with self._lock:
            stored = self._sessions.get(key)
            if stored is not None:
                self._sessions.move_to_end(key)
            return stored

    def put(self, stored: StoredSession) -> None:
        """Cache the session, unless a newer one is cached."""
        with self._lock:
            known = self._sessions.get(stored.key)
            # a slow reader may come back with less than what was appended meanwhile
            if known is not None and _age(known) > _age(stored):
                return
            self._bytes += _weight(stored) - (_weight(known) if known is not None else 0)
            self._sessions[stored.key] = stored
            self._sessions.move_to_end(stored.key)
            if self._bytes > self._limit:
                self._evict(stored.key)

    def note_chapters(self, key: SessionKey, chaptered: int) -> None:
        """Note how many events of the session chapters cover now."""
        with self._lock:
            stored = self._sessions.get(key)
            if stored is not None:
                self._sessions[key] = stored._replace(chaptered=chaptered)

    def drop(self, key: SessionKey) -> None:
        """Forget the session."""
        with self._lock:
            self._remove(key)

    def drop_user(self, app_name: str, user_id: str) -> None:
        """Forget the sessions of a user."""
        with self._lock:
            for key in [key for key in self._sessions if key[:2] == (app_name, user_id)]:
                self._remove(key)

    def _evict(self, newest: SessionKey) -> None:
        """Forget the sessions that were not used for longest, until the rest fits."""
        for key in list(self._sessions):
            if self._bytes <= self._limit:
                return
            # the newest stays, however large it is: it is about to be used
            if key != newest and not self._in_use(key):
                self._remove(key)

    def _remove(self, key: SessionKey) -> None:
        stored = self._sessions.pop(key, None)
        if stored is not None:
            self._bytes -= _weight(stored)


def _weight(stored: StoredSession) -> int:
    return stored.size + OVERHEAD


def _age(stored: StoredSession) -> tuple[int, int]:
    # a session deleted and made anew has another number
    return stored.number, len(stored.events)


def catch_up(known: StoredSession, rows: Iterable[RawRow], length: int) -> StoredSession:
    """The session with the events that were stored since; `length` is how many it has in all."""
    if length - len(known.events) < LEAST:
        return _caught_up(known, rows, length)
    with collector_paused():
        return _caught_up(known, rows, length)


def _caught_up(known: StoredSession, rows: Iterable[RawRow], length: int) -> StoredSession:
    # a long log that is new here is skimmed: most of its events will never be looked at
    if not len(known.events) and length >= LEAST:
        data, checksums = _split_rows(rows)
        unread = _unread(known, data, checksums) if len(data) == length else None
        if unread is not None:
            return unread
        rows = zip(data, checksums, strict=True)
    events, size, is_sound = _decode_rows(known, rows)
    stored = known
    if events:
        whole = _first_read(known, events) if is_sound and not len(known.events) else None
        stored = whole if whole is not None else known.after(grow(known.session({}, {}), events))
    # the count is stored with the session, so a row that was deleted or repeated shows
    if len(stored.events) != length:
        raise StoreError(
            f"the log has gaps or repetitions: {length} events were stored, "
            f"and {len(stored.events)} can be read",
            where=str(known.key),
            hint="it was changed by hand; restore it from a backup",
        )
    return stored._replace(size=known.size + size)


def _split_rows(rows: Iterable[RawRow]) -> tuple[list[bytes], list[int | None]]:
    """The JSON of the rows, and their checksums."""
    data: list[bytes] = []
    checksums: list[int | None] = []
    for row, checksum in rows:
        data.append(row)
        checksums.append(checksum)
    return data, checksums


def _unread(
    known: StoredSession, data: list[bytes], checksums: list[int | None]
) -> StoredSession | None:
    """The session with its log skimmed; None where it is damaged, or is more than plain talk."""
    for row, checksum in zip(data, checksums, strict=True):
        if checksum is None or crc32(row) != checksum:
            return None
    talk = skim_rows(data)
    if talk is None:
        return None
    size = sum(map(len, data))
    log: Strand[Event] = Strand.over(UnreadEvents(data, event_reader()))
    log.memo.keep(talk.skim)
    log.memo.keep(Positions(talk.positions))
    own, _, _ = split_scopes(talk.deltas)
    state = apply_delta(known.initial, own) if own else known.state
    return known._replace(state=state, events=log, size=known.size + size)


def event_reader() -> Callable[[bytes], Event]:
    """What reads the rows of one log; its events share what many of them repeat."""
    share = _make_sharer()
    return lambda row: share(read_event(row))


def _make_sharer() -> Callable[[Event], Event]:
    """What shares the values of events that many repeat: authors, roles, invocations.

    That saves a seventh of the memory of a log.
    """
    texts: dict[str, str] = {}
    share, set_field = texts.setdefault, msgspec.structs.force_setattr

    def share_texts(event: Event) -> Event:
        author, invocation, content = event.author, event.invocation_id, event.content
        # events are frozen: nobody else has seen these yet
        if (same := share(author, author)) is not author:
            set_field(event, "author", same)
        if (same := share(invocation, invocation)) is not invocation:
            set_field(event, "invocation_id", same)
        if content is not None and (role := content.role) is not None:
            set_field(content, "role", share(role, role))
        if not event.unread:
            set_field(event, "unread", _NO_FIELDS)
        return event

    return share_texts


def _decode_rows(known: StoredSession, rows: Iterable[RawRow]) -> tuple[list[Event], int, bool]:
    """The events of the rows, their bytes, and whether each is as it was checked and stored."""
    events: list[Event] = []
    share, decode = _make_sharer(), _decoder.decode
    first, where, size, is_sound = len(known.events), str(known.key), 0, True
    for data, checksum in rows:
        size += len(data)
        if checksum is None or crc32(data) != checksum:
            # damaged, or of an older version that kept no checksum
            event = read_row(EventRow(data, checksum), first + len(events), where=where)
            is_sound = False
        else:
            try:
                event = decode(data)
            except (
                ValueError,
                RecursionError,
            ):  # unknown fields or lone surrogates: the slow reader takes them
                event = read_row(EventRow(data, checksum), first + len(events), where=where)
        if event.partial:
            # a partial event is never stored: somebody wrote to the database by hand
            is_sound = False
        events.append(share(event))
    return events, size, is_sound


def _first_read(known: StoredSession, events: list[Event]) -> StoredSession | None:
    """The session with events that were checked when they were stored, all of them at once.

    None where two have one id: such a log was changed by hand, and must be looked at closely.
    """
    log = Strand(events)
    if len(positions_of(log)) != len(events):
        return None
    return known._replace(state=state_after(known.initial, events), events=log)


def state_after(initial: JsonObject, events: Iterable[Event]) -> JsonObject:
    """The session's own state once the events have written to it."""
    deltas = [event.actions.state_delta for event in events if event.actions.state_delta]
    own, _, _ = split_scopes(deltas)
    return apply_delta(initial, own) if own else initial


def read_readable(
    known: StoredSession, rows: Iterable[RawRow]
) -> tuple[StoredSession, list[StoreError]]:
    """The session with the events that can be read, and what is wrong with the others."""
    problems: list[StoreError] = []
    events: list[Event] = []
    for at, row in enumerate(rows):
        try:
            events.append(read_row(EventRow(*row), at, where=str(known.key)))
        except StoreError as error:
            problems.append(error)
    return known.after(grow(known.session({}, {}), events)) if events else known, problems


def require_recent(recent: int | None) -> None:
    """Refuse to read fewer events than none."""
    if recent is not None and recent < 0:
        raise SessionError(
            f"{recent} events cannot be read", where="recent", hint="pass 0 or more, or None"
        )
