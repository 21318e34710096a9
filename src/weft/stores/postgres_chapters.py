"""Chapters of long logs in PostgreSQL.

Top to bottom: how the server spells the statements, what reads events that may be packed, what
reads old ones when somebody asks for them.
"""

from collections.abc import Mapping, Sequence
from typing import TypeVar, cast

from weft.session.talk import FetchTalk
from weft.stores.chapters import TALKS, StoredRow, fetched, unpack
from weft.stores.postgres_server import (
    Connection,
    connect_at_once,
    explaining_at_once,
    with_driver_names,
)
from weft.stores.rows import Fetch, RawRow
from weft.stores.steps import Steps, StoreSpelling, StoreStatements

T = TypeVar("T")

SERVER_SQL = StoreStatements(
    StoreSpelling(
        schema="weft.",
        blob="{}",
        position="seq",
        between="session = :number AND seq >= :first AND seq < :end",
        length="(SELECT coalesce(max(seq) + 1, 0) FROM weft.events WHERE session = number)",
        newest="""LEFT JOIN LATERAL (
            SELECT seq, timestamp FROM weft.events WHERE session = number ORDER BY seq DESC LIMIT 1
        ) AS newest ON true""",
        last="seq + 1",
        by_deltas="",
        place="session, seq",
        at=":number, :at",
        # Not FOR UPDATE: events, which refer to the session, can be added meanwhile.
        lock="FOR NO KEY UPDATE",
        has_talk="""SELECT 1 FROM information_schema.columns
            WHERE table_schema = 'weft' AND table_name = 'chapters' AND column_name = 'talk'""",
    )
)


async def run_steps(connection: Connection, steps: Steps[T]) -> T:
    """What comes of the steps, on this connection."""
    rows: object = None
    while True:
        try:
            statement, values = steps.send(rows)
        except StopIteration as end:
            return cast("T", end.value)
        async with connection.cursor() as cursor:
            if isinstance(values, Mapping):
                await cursor.execute(with_driver_names(statement), values)
            else:
                await cursor.executemany(with_driver_names(statement), values)
            rows = await cursor.fetchall() if cursor.description is not None else []


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
            if connection.execute(SERVER_SQL.has_talk.encode()).fetchone() is None:
                return {}
            rows = connection.execute(
                "SELECT first, talk FROM weft.chapters WHERE session = %s AND first >= %s"
                " AND talk IS NOT NULL ORDER BY first LIMIT %s",
                (number, position, TALKS),
            )
            return dict(cast("list[tuple[int, bytes]]", rows.fetchall()))

    return fetch


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
