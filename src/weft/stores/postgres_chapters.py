"""Chapters of long logs in PostgreSQL: written, packed, read, and put back."""

from collections.abc import Sequence
from typing import NamedTuple, cast

from weft.session import SessionKey
from weft.session.talk import FetchTalk
from weft.stores.chapters import (
    TALKS,
    Chapter,
    DeltaRow,
    StoredRow,
    chapter_end,
    fetched,
    next_chapter,
    pack,
    read_chapters,
    read_deltas,
    require_checksum,
    require_whole,
    session_checksum,
    unpack,
)
from weft.stores.postgres_server import Connection, connect_at_once, explaining_at_once
from weft.stores.rows import Fetch, RawRow


class _Covered(NamedTuple):
    """A session that is locked: how far its chapters go, how many are packed, how long it is."""

    number: int
    chaptered: int
    archived: int
    length: int


async def _covered(connection: Connection, key: SessionKey) -> _Covered | None:
    """How far the chapters of a session go; nobody else writes chapters before the end."""
    # Not FOR UPDATE: events, which refer to the session, can be added meanwhile.
    cursor = await connection.execute(
        """SELECT number, chaptered, archived,
            (SELECT coalesce(max(seq) + 1, 0) FROM weft.events WHERE session = number)
        FROM weft.sessions WHERE app_name = %s AND user_id = %s AND id = %s
        FOR NO KEY UPDATE""",
        key,
    )
    row = cast("tuple[int, int, int, int] | None", await cursor.fetchone())
    return _Covered(*row) if row is not None else None


async def chapters_of(connection: Connection, number: int, chaptered: int) -> list[Chapter] | None:
    """The chapters of a session, without their events; None where they cannot be read."""
    cursor = await connection.execute(
        "SELECT first, length, delta, delta_checksum, facts, checksum FROM weft.chapters"
        " WHERE session = %s ORDER BY first",
        (number,),
    )
    return read_chapters(
        cast("list[tuple[*DeltaRow, bytes, int]]", await cursor.fetchall()), chaptered
    )


async def deltas_of(connection: Connection, number: int, chaptered: int) -> list[bytes] | None:
    """What the chapters of a session write to its state; None where they cannot be read."""
    cursor = await connection.execute(
        "SELECT first, length, delta, delta_checksum FROM weft.chapters"
        " WHERE session = %s ORDER BY first",
        (number,),
    )
    return read_deltas(cast("list[DeltaRow]", await cursor.fetchall()), chaptered)


async def add_chapter(
    connection: Connection, key: SessionKey, limit: int | None = None
) -> int | None:
    """Write the next chapter of a session, of events before `limit`; where it ends, or None.

    Without a limit it is written only if there is a whole one, and some events behind it.
    """
    async with connection.transaction():
        known = await _covered(connection, key)
        if known is None:
            return None
        first = known.chaptered
        end = chapter_end(first, known.length, limit)
        # a chapter behind damaged ones would never be used
        earlier = await chapters_of(connection, known.number, first) if end is not None else None
        if end is None or earlier is None:
            return None
        # one more than the chapter: it shows where the turn ends
        rows = await _stored(connection, known.number, first, end + 1)
        chapter = next_chapter(rows, first, earlier, where=str(key))
        if chapter is None:
            return None
        *facts, talk = chapter
        await connection.execute(
            "INSERT INTO weft.chapters (session, first, length, delta, delta_checksum, facts,"
            " checksum, newest, asks) VALUES (%s, %s, %s, %s, %s, %s, %s, %s, %s)",
            (known.number, *facts),
        )
        cursor = await connection.execute(_HAS_TALK)
        if talk is not None and await cursor.fetchone() is not None:
            await connection.execute(
                "UPDATE weft.chapters SET talk = %s WHERE session = %s AND first = %s",
                (talk, known.number, first),
            )
        end = first + chapter.length
        await connection.execute(
            "UPDATE weft.sessions SET chaptered = %s WHERE number = %s", (end, known.number)
        )
        return end


async def limit_of(
    connection: Connection, key: SessionKey, keep_recent: int, before: float | None
) -> int | None:
    """How many of the first events may be archived: not the newest, nor any behind a later one."""
    cursor = await connection.execute(
        """SELECT greatest(least(length, coalesce(
            (SELECT min(seq) FROM weft.events WHERE session = number AND timestamp >= %s), length
        )), 0) FROM (
            SELECT number, (SELECT coalesce(max(seq) + 1, 0) FROM weft.events
                WHERE session = number) - %s AS length
            FROM weft.sessions WHERE app_name = %s AND user_id = %s AND id = %s
        ) AS wanted""",
        (before, keep_recent, *key),
    )
    row = cast("tuple[int] | None", await cursor.fetchone())
    return row[0] if row is not None else None


async def pack_chapter(connection: Connection, key: SessionKey, limit: int) -> int | None:
    """Pack the first chapter that has its events in the table; how many, or None if none is left.

    In one transaction the events go from the one table to the other: they are always in one.
    """
    async with connection.transaction():
        known = await _covered(connection, key)
        if known is None or known.archived >= known.chaptered:
            return None
        number, first = known.number, known.archived
        cursor = await connection.execute(
            "SELECT length FROM weft.chapters WHERE session = %s AND first = %s", (number, first)
        )
        (length,) = cast("tuple[int]", await cursor.fetchone())
        if first + length > limit:
            # a chapter is packed as a whole, or not at all
            return None
        packed = pack(await _stored(connection, number, first, first + length))
        await connection.execute(
            "UPDATE weft.chapters SET packed = %s, packed_checksum = %s"
            " WHERE session = %s AND first = %s",
            (*packed, number, first),
        )
        await connection.execute(
            "DELETE FROM weft.events WHERE session = %s AND seq >= %s AND seq < %s",
            (number, first, first + length),
        )
        await _set_archived(connection, number, first + length)
        return length


async def _set_archived(connection: Connection, number: int, archived: int) -> None:
    """Note how many events are packed.

    The checksum of the session says so too: a process of a version that knows no chapters refuses
    the session, instead of taking it for a shorter one.
    """
    cursor = await connection.execute(
        "SELECT app_name, user_id, id, created, state, checksum, archived FROM weft.sessions"
        " WHERE number = %s",
        (number,),
    )
    app, user, id, created, state, checksum, before = cast(
        "tuple[str, str, str, float, str, int | None, int]", await cursor.fetchone()
    )
    cells = app, user, id, created, state
    require_checksum(cells, before, checksum)
    await connection.execute(
        "UPDATE weft.sessions SET archived = %s, checksum = %s WHERE number = %s",
        (archived, session_checksum(cells, archived), number),
    )


async def unpack_all(connection: Connection) -> None:
    """Put the events of all packed chapters back into the table of events."""
    cursor = await connection.execute(
        "SELECT session, first FROM weft.chapters WHERE packed IS NOT NULL"
    )
    packed = cast("list[tuple[int, int]]", await cursor.fetchall())
    for number, first in packed:
        cursor = await connection.execute(_AROUND, {"number": number, "position": first})
        _, _, rows = _unpacked(cast("list[_AroundRow]", await cursor.fetchall()))
        # better an error than half a session
        require_whole(rows, first, where=f"session number {number}")
        async with connection.cursor() as insert:
            await insert.executemany(
                "INSERT INTO weft.events (session, seq, timestamp, event, checksum)"
                " VALUES (%s, %s, %s, %s, %s)",
                [
                    (number, at, row.timestamp, row.data.decode(), row.checksum)
                    for at, row in enumerate(rows, first)
                ],
            )
    for number in {number for number, _ in packed}:
        await _set_archived(connection, number, 0)


async def read_rows(
    connection: Connection, number: int, first: int, limit: int | None = None
) -> list[tuple[int, StoredRow]]:
    """The events of a session from `first` on with their positions, packed or not."""
    end = None if limit is None else first + limit
    # One statement sees one state of the database: an event is in one table or the other.
    cursor = await connection.execute(
        """SELECT first, length, packed, packed_checksum, NULL::float8, NULL::text, NULL::bigint
        FROM weft.chapters WHERE session = %(number)s AND first + length > %(first)s
            AND (%(end)s::integer IS NULL OR first < %(end)s) AND packed IS NOT NULL
        UNION ALL
        SELECT seq, 1, NULL, NULL, timestamp, event, checksum FROM weft.events
        WHERE session = %(number)s AND seq >= %(first)s
            AND (%(end)s::integer IS NULL OR seq < %(end)s)
        ORDER BY 1""",
        {"number": number, "first": first, "end": end},
    )
    rows: list[tuple[int, StoredRow]] = []
    for start, length, packed, packed_checksum, timestamp, text, checksum in cast(
        "list[tuple[int, int, bytes | None, int, float, str, int | None]]", await cursor.fetchall()
    ):
        if packed is None:
            rows.append((start, StoredRow(timestamp, text.encode(), checksum)))
        else:
            unpacked = enumerate(unpack(packed, packed_checksum, length), start)
            rows += [one for one in unpacked if one[0] >= first and (end is None or one[0] < end)]
    return rows


async def newer_than(
    connection: Connection, number: int, after: float
) -> list[tuple[int, StoredRow]]:
    """The packed events with a later timestamp, with their positions."""
    cursor = await connection.execute(
        "SELECT first, length, packed, packed_checksum FROM weft.chapters"
        " WHERE session = %s AND newest > %s AND packed IS NOT NULL ORDER BY first",
        (number, after),
    )
    rows = cast("list[tuple[int, int, bytes, int]]", await cursor.fetchall())
    return [
        (at, row)
        for first, length, packed, checksum in rows
        for at, row in enumerate(unpack(packed, checksum, length), first)
        if row.timestamp > after
    ]


def fetch_from(url: str, number: int, *, where: str) -> Fetch:
    """What reads the chapter around a position, on a connection of its own.

    Whoever asks for an old event may be on any thread, and waits for it.
    """

    def fetch(position: int) -> tuple[int, list[bytes]]:
        with explaining_at_once(url), connect_at_once(url) as connection:
            cursor = connection.execute(_AROUND, {"number": number, "position": position})
            around = cast("list[_AroundRow]", cursor.fetchall())
        first, length, stored = _unpacked(around) if around else (position, 1, [])
        rows: list[RawRow] = [(row.data, row.checksum) for row in stored]
        return first, fetched(rows, first, length, where=where)

    return fetch


def fetch_talk_from(url: str, number: int) -> FetchTalk:
    """What reads the talk of some chapters, as `fetch_from` reads their events."""

    def fetch(position: int) -> dict[int, bytes]:
        with explaining_at_once(url), connect_at_once(url) as connection:
            if connection.execute(_HAS_TALK).fetchone() is None:
                return {}
            rows = connection.execute(
                "SELECT first, talk FROM weft.chapters WHERE session = %s AND first >= %s"
                " AND talk IS NOT NULL ORDER BY first LIMIT %s",
                (number, position, TALKS),
            )
            return dict(cast("list[tuple[int, bytes]]", rows.fetchall()))

    return fetch


_HAS_TALK = """SELECT 1 FROM information_schema.columns
WHERE table_schema = 'weft' AND table_name = 'chapters' AND column_name = 'talk'"""
"""Whether chapters have a column for it: those of earlier tables do not."""

_AroundRow = tuple[int, int, bytes | None, int | None, float | None, str | None, int | None]


def _unpacked(rows: Sequence[_AroundRow]) -> tuple[int, int, list[StoredRow]]:
    """Where a chapter begins, how many events it has, and those that are there."""
    first, length, packed, packed_checksum, *_ = rows[0]
    if packed is not None:
        return first, length, unpack(packed, packed_checksum or 0, length)
    stored = [
        StoredRow(timestamp, text.encode(), checksum)
        for *_, timestamp, text, checksum in rows
        # the outer join gives one empty row where no event is left
        if timestamp is not None and text is not None
    ]
    return first, length, stored


_AROUND = """
SELECT chapter.first, chapter.length, packed, packed_checksum, timestamp, event, events.checksum
FROM (
    SELECT session, first, length, packed, packed_checksum FROM weft.chapters
    WHERE session = %(number)s AND first <= %(position)s ORDER BY first DESC LIMIT 1
) AS chapter LEFT JOIN weft.events ON packed IS NULL AND events.session = chapter.session
    AND seq >= chapter.first AND seq < chapter.first + chapter.length
ORDER BY seq
"""


async def _stored(connection: Connection, number: int, first: int, end: int) -> list[StoredRow]:
    """The rows of the table of events between two positions."""
    cursor = await connection.execute(
        "SELECT timestamp, event, checksum FROM weft.events"
        " WHERE session = %s AND seq >= %s AND seq < %s ORDER BY seq",
        (number, first, end),
    )
    rows = cast("list[tuple[float, str, int | None]]", await cursor.fetchall())
    return [StoredRow(timestamp, text.encode(), checksum) for timestamp, text, checksum in rows]
