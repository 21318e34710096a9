"""The statements of both databases, written once with `:names`.

SQLite and PostgreSQL spell a few things differently: where an event stands, how a text is read as
bytes, which tables belong to a session. A `StoreSpelling` says how; all else is the same.
"""

from collections.abc import Generator, Mapping, Sequence
from typing import NamedTuple, TypeVar

from weft.stores.rows import ANSWERS, ASKS, HAS_DELTA

T = TypeVar("T")

Values = Mapping[str, object]

Steps = Generator[tuple[str, Values | Sequence[Values]], object, T]
"""Statements with their values, one after the other, and what comes of them.

Each gets the list of its rows. One with several values is run for each of them, and gets none.
"""

NO_LIMIT = 2**31 - 1
"""More events than a log has: where no other limit is wanted."""


class StoreSpelling(NamedTuple):
    """What the two databases write differently."""

    schema: str
    blob: str
    """How a column is read as the bytes that it is: `{}`."""
    position: str
    """Where an event of the session `:number` stands in its log."""
    between: str
    """The condition for its events from `:first` on, up to `:end`."""
    length: str
    """How many events the session `number` has."""
    newest: str
    """Follows the table of sessions: the last event of each; `last` says where it stands."""
    last: str
    """How many events a session has whose last event is there."""
    by_deltas: str
    """Follows the table of events: look only at those that write state."""
    place: str
    """The columns that say where an event stands, in order."""
    at: str
    """What is written there for the event `:at` of the session `:number`."""
    lock: str
    """Follows the row of a session: nobody else writes its chapters before the end."""
    has_talk: str
    """A row, if chapters have a column for talk: those of earlier tables do not."""
    start: str
    """Where the events of the session `number` begin."""
    since: str
    """The condition for events of the session `number` from a place on: `{}`."""
    placed: str
    """The one column by which the events of a session are sorted."""
    later: str
    """Follows the table of sessions: the events of each after the first `:after`."""
    wanted: str
    """A table of the session keys in the JSON list `:keys`, with columns app, owner and name."""
    asked: str
    """When somebody asks the holder of a session to stop."""
    delete_session: str
    """Deletes a session, and gives its number."""
    cascades: bool
    """Whether the events of a session are deleted with it."""
    user_tables: tuple[str, ...]
    """The tables other than that of sessions with rows that belong to a user."""
    find_queues: str
    """Which of the tables `:names` there are."""
    queues: "Mapping[str, QueueStatements]"
    """The tables of queues, in the order to empty them in."""


class QueueStatements(NamedTuple):
    """What is done to a table of a queue for a user."""

    erase: str
    """Deletes the turns of a user, or of one session; empty: they go with another table's."""
    apps: str = ""
    """The apps for which a user has turns."""


class StoreStatements:
    """The statements, with `:names`, as one database spells them."""

    def __init__(self, spelling: StoreSpelling) -> None:
        sessions, events, chapters = (
            f"{spelling.schema}{table}" for table in ("sessions", "events", "chapters")
        )
        blob, between = spelling.blob.format, spelling.between
        this = "WHERE session = :number AND first = :first"
        named = ", ".join(map(blob, ("app_name", "user_id", "id")))
        self.numbers = f"SELECT number FROM {sessions} ORDER BY number"
        whose = "app_name = :app_name AND user_id = :user_id"
        this_session = f"{whose} AND id = :id"
        owned = "app_name = :app_name AND (CAST(:user_id AS text) IS NULL OR user_id = :user_id)"
        self.cascades = spelling.cascades
        self.find_queues, self.queues = spelling.find_queues, spelling.queues
        self.insert_session = f"""
            INSERT INTO {sessions} (app_name, user_id, id, created, state, checksum)
            VALUES (:app_name, :user_id, :id, :created, :state, :checksum)
            ON CONFLICT (app_name, user_id, id) DO NOTHING RETURNING number"""
        self.delete_session = spelling.delete_session
        self.delete_sessions = f"DELETE FROM {sessions} WHERE {whose} RETURNING number"
        self.delete_rows = [
            f"DELETE FROM {spelling.schema}{table} WHERE {whose}" for table in spelling.user_tables
        ]
        # a session without more events gives a row without an event
        self.later = f"""
            SELECT {blob("later.event")}, later.checksum, number, archived
            FROM {sessions} {spelling.later} WHERE {this_session}
            ORDER BY later.{spelling.placed} LIMIT :limit"""
        # One statement sees one state of the database: an event is in one table or the other.
        self.log = f"""
            SELECT first, length, {blob("packed")}, packed_checksum,
                CAST(NULL AS double precision), CAST(NULL AS text), CAST(NULL AS bigint)
            FROM {chapters} WHERE session = :number AND first + length > :first AND first < :end
                AND packed IS NOT NULL
            UNION ALL
            SELECT {spelling.position}, 1, NULL, NULL, timestamp, {blob("event")}, checksum
            FROM {events} WHERE {between}"""
        self.around = f"""
            SELECT chapter.first, chapter.length, {blob("packed")}, packed_checksum,
                timestamp, {blob("event")}, events.checksum
            FROM (
                SELECT session AS number, first, length, packed, packed_checksum FROM {chapters}
                WHERE session = :number AND first <= :position ORDER BY first DESC LIMIT 1
            ) AS chapter LEFT JOIN {events} ON packed IS NULL
                AND {spelling.since.format(f"{spelling.start} + chapter.first")}
                AND {spelling.placed} < {spelling.start} + chapter.first + chapter.length
            ORDER BY {spelling.placed}"""
        self.talks = f"""
            SELECT first, {blob("talk")} FROM {chapters} WHERE session = :number
                AND first >= :first AND talk IS NOT NULL ORDER BY first LIMIT :limit"""
        self.lengths = f"""
            SELECT app_name, user_id, id, {spelling.length} FROM {sessions}
            JOIN {spelling.wanted} AS wanted
                ON app_name = wanted.app AND user_id = wanted.owner AND id = wanted.name"""
        self.apps = f"SELECT DISTINCT app_name FROM {sessions}"
        self.waiting = f"""
            WITH asked AS (
                SELECT user_id, id, number, min({spelling.placed}) AS earliest
                FROM {sessions} JOIN {events} ON {spelling.since.format(spelling.start)}
                WHERE {owned} AND {ASKS} GROUP BY number
            )
            SELECT user_id, id, {blob("event")} FROM asked
            JOIN {events} ON {spelling.since.format("earliest")}
            WHERE {ANSWERS} ORDER BY number, {spelling.placed}"""
        self.asked_before = f"""
            SELECT user_id, id, number FROM {sessions} WHERE {owned} AND archived > 0
                AND number IN (SELECT session FROM {chapters} WHERE asks AND packed IS NOT NULL)
            ORDER BY number"""
        interrupts = f"{spelling.schema}interrupts"
        self.put_request = f"""
            INSERT INTO {interrupts} VALUES (:app_name, :user_id, :id, {spelling.asked})
            ON CONFLICT (app_name, user_id, id) DO UPDATE SET asked = excluded.asked"""
        self.delete_request = f"DELETE FROM {interrupts} WHERE {this_session}"
        self.requests = f"SELECT app_name, user_id, id, asked FROM {interrupts}"
        self.whole_session = f"""
            SELECT {named}, created, {blob("state")}, checksum, chaptered, archived,
                {spelling.length}
            FROM {sessions} WHERE number = :number"""
        self.whole_chapter = f"""
            SELECT length, {blob("delta")}, delta_checksum, {blob("facts")}, checksum, newest,
                asks, {blob("packed")}, packed_checksum
            FROM {chapters} {this}"""
        self.talk = f"SELECT {blob('talk')} FROM {chapters} {this}"
        self.placed = f"""
            SELECT {spelling.position}, timestamp, {blob("event")}, checksum FROM {events}
            WHERE {between} ORDER BY {spelling.place}"""
        self.app_state = StateStatements(spelling, "app_state", "app_name")
        self.user_state = StateStatements(spelling, "user_state", "app_name", "user_id")
        self.has_talk = spelling.has_talk
        self.covered = f"""
            SELECT number, chaptered, archived, {spelling.length} FROM {sessions}
            WHERE {this_session} {spelling.lock}"""
        delta = f"first, length, {blob('delta')}, delta_checksum"
        listed = f"FROM {chapters} WHERE session = :number ORDER BY first"
        self.deltas = f"SELECT {delta} {listed}"
        self.chapters = f"SELECT {delta}, {blob('facts')}, checksum {listed}"
        later = "CAST(:after AS double precision) IS NULL OR {} > :after".format
        self.packed_from = f"""
            SELECT first, length, {blob("packed")}, packed_checksum FROM {chapters}
            WHERE session = :number AND first + length > :first AND ({later("newest")})
                AND packed IS NOT NULL ORDER BY first"""
        event = f"{spelling.position}, {blob('event')}, checksum"
        self.recent = f"""
            SELECT {event} FROM {events} WHERE {between} AND ({later("timestamp")})
            ORDER BY {spelling.place} DESC LIMIT :limit"""
        self.writing = f"""
            SELECT {event} FROM {events} {spelling.by_deltas}
            WHERE {between} AND {HAS_DELTA} ORDER BY {spelling.place}"""
        length = f"coalesce({spelling.last}, 0)"
        # without its state, if its number is the one that is known
        self.session_row = f"""
            SELECT number, created, CASE WHEN number = :known THEN '' ELSE {blob("state")} END,
                sessions.checksum, {length}, coalesce(timestamp, created), chaptered, archived
            FROM {sessions} {spelling.newest}
            WHERE {this_session}"""
        self.list_sessions = f"""
            SELECT user_id, id, {length}, coalesce(timestamp, created) AS updated
            FROM {sessions} {spelling.newest}
            WHERE {owned}
            ORDER BY updated DESC, number DESC"""
        self.add = f"""
            INSERT INTO {chapters} (session, first, length, delta, delta_checksum, facts, checksum,
                newest, asks)
            VALUES (:number, :first, :length, :delta, :delta_checksum, :facts, :checksum,
                :newest, :asks)"""
        self.add_talk = f"UPDATE {chapters} SET talk = :talk {this}"
        self.set_chaptered = f"UPDATE {sessions} SET chaptered = :end WHERE number = :number"
        self.first_later = f"""
            SELECT min({spelling.position}) FROM {events}
            WHERE {between} AND timestamp >= :before"""
        self.packed = f"SELECT length, {blob('packed')}, packed_checksum FROM {chapters} {this}"
        self.all_packed = f"SELECT session, first FROM {chapters} WHERE packed IS NOT NULL"
        self.pack = f"""
            UPDATE {chapters} SET packed = :packed, packed_checksum = :checksum {this}"""
        self.events = f"""
            SELECT timestamp, {blob("event")}, checksum FROM {events}
            WHERE {between} ORDER BY {spelling.place}"""
        self.delete_events = f"DELETE FROM {events} WHERE {between}"
        self.insert_event = f"""
            INSERT INTO {events} ({spelling.place}, timestamp, event, checksum)
            VALUES ({spelling.at}, :timestamp, :data, :checksum)"""
        self.session = f"""
            SELECT app_name, user_id, id, created, state, checksum, archived FROM {sessions}
            WHERE number = :number"""
        self.set_archived = f"""
            UPDATE {sessions} SET archived = :archived, checksum = :checksum
            WHERE number = :number"""


class StateStatements:
    """The statements of one table of shared state."""

    def __init__(self, spelling: StoreSpelling, name: str, *owner: str) -> None:
        table, names = f"{spelling.schema}{name}", (*owner, "key")
        conditions = [f"{name} = :{name}" for name in names]
        key, value = spelling.blob.format("key"), spelling.blob.format("value")
        whose = " AND ".join(conditions[:-1])
        self.read = f"SELECT {key}, {value}, checksum FROM {table} WHERE {whose}"
        cells = ", ".join(map(spelling.blob.format, (*names, "value")))
        self.all = f"SELECT checksum, {cells} FROM {table}"
        self.delete = f"DELETE FROM {table} WHERE {' AND '.join(conditions)}"
        self.put = f"""
            INSERT INTO {table} ({", ".join(names)}, value, checksum)
            VALUES ({", ".join(f":{name}" for name in names)}, :value, :checksum)
            ON CONFLICT ({", ".join(names)})
            DO UPDATE SET value = excluded.value, checksum = excluded.checksum"""
