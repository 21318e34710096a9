"""The lines of turns: which turn of each session is next, how many there are, who has room.

The database itself keeps all of it, with triggers on the table of a queue. So it holds whoever
writes there: a worker of another version, a store that forgets a user, an operator with SQL. A
session with open turns has one row, its line, that names the first of them. A worker takes from
the lines, so that what it costs depends neither on the turns that wait after the first nor on
those that are done. A turn that comes to the front of its line wakes one worker that has room.

In PostgreSQL a line is brought up to date when a transaction commits. Its row is locked for that
moment: of two who change a session at once, the second sees what the first did. Each connection
counts in a row of its own, for all would wait for each other at a common one.

Top to bottom: what a queue says of its table; the tables and triggers of PostgreSQL; those of a
SQLite file.
"""

from collections.abc import Sequence
from typing import NamedTuple


class LineTable(NamedTuple):
    """The table of a queue: how to read a line from it. `{0}` stands for a row."""

    queue: str
    table: str
    line: str
    """What turns of one session have in common."""
    same: str
    """The condition that a row `turn` is of the same session."""
    app: str
    """What a worker asks for when it takes turns."""
    number: str
    open: str
    """The condition that a turn has a place in the line: it waits there, or runs."""
    free: str
    """The condition that an open turn waits."""
    delayed: str
    """The condition that a turn waits outside of the line, until it is due."""
    place: str
    order: str
    """How the turns of a line are ordered."""
    due: str
    """When it may be taken, in seconds since 1970."""
    changes: Sequence[str]
    """The columns that say where a turn stands."""


class CountTable(NamedTuple):
    """The table of a queue: what is counted in it."""

    queue: str
    table: str
    counted: str
    """The condition that a row is a turn."""
    app: str
    status: str


INBOX = LineTable(
    queue="inbox",
    table="weft.turns",
    line="json_build_array({0}.app_name, {0}.user_id, {0}.session)::text",
    same="turn.app_name = {0}.app_name AND turn.user_id = {0}.user_id"
    " AND turn.session = {0}.session",
    app="{0}.app_name",
    number="{0}.number",
    open="{0}.status IN ('waiting', 'running') AND {0}.place IS NOT NULL",
    free="{0}.status = 'waiting'",
    delayed="{0}.status = 'waiting' AND {0}.place IS NULL",
    place="{0}.place",
    order="{0}.place",
    due="{0}.due",
    changes=("status", "place", "due", "priority"),
)

_INBOX_COUNTS = CountTable("inbox", "weft.turns", "true", "app_name", "status")

JOBS = LineTable(
    queue="procrastinate",
    table="procrastinate_jobs",
    line="{0}.lock",
    same="turn.lock = {0}.lock",
    app="{0}.queue_name",
    number="{0}.id",
    open="{0}.task_name = 'weft.turn' AND {0}.status IN ('todo', 'doing') AND {0}.lock IS NOT NULL",
    free="{0}.status = 'todo'",
    delayed="{0}.task_name = 'weft.turn' AND {0}.status = 'todo' AND {0}.lock IS NULL",
    place="{0}.id",
    order="{0}.status = 'todo', {0}.priority DESC, {0}.id",
    due="extract(epoch FROM {0}.scheduled_at)::float8",
    changes=("status", "lock", "scheduled_at", "priority"),
)

_JOB_COUNTS = CountTable(
    "procrastinate",
    "procrastinate_jobs",
    "task_name = 'weft.turn'",
    "args ->> 'app'",
    "status::text",
)

NOW = "extract(epoch FROM clock_timestamp())::float8"

SERVER_TABLES = (
    """CREATE TABLE weft.turn_lines (
        queue text NOT NULL,
        line text NOT NULL,
        app text NOT NULL,
        number bigint NOT NULL,
        is_free boolean NOT NULL,
        priority integer NOT NULL,
        place bigint NOT NULL,
        due double precision,
        PRIMARY KEY (queue, line)
    ) WITH (fillfactor = 70)""",
    "CREATE INDEX turn_lines_free ON weft.turn_lines (queue, app, priority DESC, place)"
    " WHERE is_free AND due IS NULL",
    "CREATE INDEX turn_lines_due ON weft.turn_lines (queue, due) WHERE is_free AND due IS NOT NULL",
    """CREATE TABLE weft.turn_counts (
        queue text NOT NULL,
        app text NOT NULL,
        status text NOT NULL,
        process integer NOT NULL,
        count bigint NOT NULL,
        PRIMARY KEY (queue, app, status, process)
    ) WITH (fillfactor = 50)""",
    # Who has room for turns, and where to wake it. Unlogged: after a crash all say so again.
    "CREATE UNLOGGED TABLE weft.turn_room (worker text, queue text, apps text[], channel text)",
    """CREATE FUNCTION weft.wake_worker(wanted text, wanted_app text) RETURNS void
    LANGUAGE sql AS $$
        SELECT pg_notify(channel, '') FROM weft.turn_room
        WHERE queue = wanted AND wanted_app = ANY(apps) ORDER BY random() LIMIT 1
    $$""",
)


def _line_triggers(source: LineTable) -> tuple[str, ...]:
    """The statements that have PostgreSQL keep the lines of a queue's table."""
    queue, table = source.queue, source.table
    name = f"weft_{queue}"
    mine = f"queue = '{queue}' AND line = {source.line.format('row_')}"
    due = f"CASE WHEN {source.due} > {NOW} THEN {source.due} END"
    was_open, is_open = source.open.format("OLD"), source.open.format("NEW")
    changed = " OR ".join(f"OLD.{one} IS DISTINCT FROM NEW.{one}" for one in source.changes)
    stays = f"{source.line.format('OLD')} = {source.line.format('NEW')}"
    stays += f" AND {source.place.format('OLD')} = {source.place.format('NEW')}"
    when = {
        "INSERT": f"({is_open}) OR ({source.delayed.format('NEW')})",
        "UPDATE": f"(({was_open}) OR ({is_open})) AND ({changed})",
        "DELETE": was_open,
    }
    return (
        f"""CREATE FUNCTION weft.{name}_line() RETURNS trigger LANGUAGE plpgsql AS $$
        DECLARE
            row_ {table};
            line_ weft.turn_lines;
            first_ weft.turn_lines;
        BEGIN
            IF TG_OP = 'DELETE' THEN row_ := OLD; ELSE row_ := NEW; END IF;
            -- whoever has room has to know when it is due
            IF TG_OP = 'INSERT' AND {source.delayed.format("NEW")} THEN
                PERFORM weft.wake_worker('{queue}', {source.app.format("row_")});
                RETURN NULL;
            END IF;
            -- it is taken, or comes back: it stays the first
            IF TG_OP = 'UPDATE' AND {was_open} AND {is_open} AND {stays} THEN
                UPDATE weft.turn_lines SET is_free = {source.free.format("NEW")},
                    due = {due.format("NEW")}, priority = NEW.priority
                WHERE {mine} AND number = {source.number.format("NEW")} RETURNING * INTO line_;
                IF FOUND THEN
                    IF line_.is_free AND line_.due IS NULL THEN
                        PERFORM weft.wake_worker(line_.queue, line_.app);
                    END IF;
                    RETURN NULL;
                END IF;
            END IF;
            LOOP
                SELECT * INTO line_ FROM weft.turn_lines WHERE {mine} FOR UPDATE;
                -- a look of its own: it sees what those did for whom the lock was waited
                SELECT '{queue}', {source.line.format("turn")}, {source.app.format("turn")},
                    {source.number.format("turn")}, {source.free.format("turn")}, turn.priority,
                    {source.place.format("turn")}, {due.format("turn")}
                INTO first_ FROM {table} AS turn
                WHERE {source.same.format("row_")} AND {source.open.format("turn")}
                ORDER BY {source.order.format("turn")} LIMIT 1;
                IF NOT FOUND THEN
                    DELETE FROM weft.turn_lines WHERE {mine};
                    RETURN NULL;
                END IF;
                IF line_.number IS NULL THEN
                    INSERT INTO weft.turn_lines VALUES (first_.*) ON CONFLICT DO NOTHING;
                    -- another has just begun the line: its first turn is the first
                    CONTINUE WHEN NOT FOUND;
                ELSIF first_ IS DISTINCT FROM line_ THEN
                    UPDATE weft.turn_lines SET number = first_.number, is_free = first_.is_free,
                        priority = first_.priority, place = first_.place, due = first_.due
                    WHERE {mine};
                END IF;
                EXIT;
            END LOOP;
            -- also where nothing changed: who looked just now has passed a line that was locked
            IF first_.is_free AND first_.due IS NULL THEN
                PERFORM weft.wake_worker(first_.queue, first_.app);
            END IF;
            RETURN NULL;
        END $$""",
        *(
            f"""CREATE CONSTRAINT TRIGGER {name}_line_{event.lower()} AFTER {event} ON {table}
            DEFERRABLE INITIALLY DEFERRED FOR EACH ROW WHEN ({condition})
            EXECUTE FUNCTION weft.{name}_line()"""
            for event, condition in when.items()
        ),
    )


def count_triggers(source: CountTable) -> tuple[str, ...]:
    """The statements that have PostgreSQL count the turns of a queue's table, by status."""
    name = f"weft_{source.queue}"

    def rows(of: str, change: int) -> str:
        return f"""SELECT {source.app} AS app, {source.status} AS status,
            {change} AS change FROM {of} WHERE {source.counted}"""

    changes = {
        "INSERT": rows("new_rows", 1),
        "UPDATE": f"{rows('new_rows', 1)} UNION ALL {rows('old_rows', -1)}",
        "DELETE": rows("old_rows", -1),
    }
    tables = {
        "INSERT": "NEW TABLE AS new_rows",
        "UPDATE": "NEW TABLE AS new_rows OLD TABLE AS old_rows",
        "DELETE": "OLD TABLE AS old_rows",
    }
    statements: list[str] = []
    for event, change in changes.items():
        function = f"weft.{name}_count_{event.lower()}"
        statements += [
            f"""CREATE FUNCTION {function}() RETURNS trigger LANGUAGE plpgsql AS $$
            BEGIN
                INSERT INTO weft.turn_counts AS known (queue, app, status, process, count)
                SELECT '{source.queue}', app, status, pg_backend_pid(), sum(change)
                FROM ({change}) AS changes GROUP BY app, status HAVING sum(change) <> 0
                ON CONFLICT (queue, app, status, process)
                DO UPDATE SET count = known.count + excluded.count;
                RETURN NULL;
            END $$""",
            f"""CREATE TRIGGER {name}_count_{event.lower()} AFTER {event} ON {source.table}
            REFERENCING {tables[event]} FOR EACH STATEMENT EXECUTE FUNCTION {function}()""",
        ]
    return tuple(statements)


def _fill_lines(source: LineTable) -> str:
    """The statement that makes lines of the turns that are there already."""
    turn, due = "turn", source.due.format("turn")
    return f"""INSERT INTO weft.turn_lines
        SELECT DISTINCT ON (2) '{source.queue}', {source.line.format(turn)},
            {source.app.format(turn)}, {source.number.format(turn)}, {source.free.format(turn)},
            turn.priority, {source.place.format(turn)}, CASE WHEN {due} > {NOW} THEN {due} END
        FROM {source.table} AS turn WHERE {source.open.format(turn)}
        ORDER BY 2, {source.order.format(turn)}"""


def fill_counts(source: CountTable) -> str:
    """The statement that counts the turns that are there already."""
    return f"""INSERT INTO weft.turn_counts
        SELECT '{source.queue}', {source.app}, {source.status}, 0, count(*)
        FROM {source.table} WHERE {source.counted} GROUP BY 2, 3"""


# The triggers first: they lock the table, so that nothing falls between them and the filling.
INBOX_LINES = (
    *_line_triggers(INBOX),
    *count_triggers(_INBOX_COUNTS),
    _fill_lines(INBOX),
    fill_counts(_INBOX_COUNTS),
)

JOB_LINES = (
    *_line_triggers(JOBS),
    *count_triggers(_JOB_COUNTS),
    _fill_lines(JOBS),
    fill_counts(_JOB_COUNTS),
)


# What ended connections have counted goes to one row for all of them.
GATHER_COUNTS = """
WITH ended AS (
    DELETE FROM weft.turn_counts WHERE process <> 0
        AND process NOT IN (SELECT pid FROM pg_stat_activity) RETURNING *)
INSERT INTO weft.turn_counts AS known (queue, app, status, process, count)
SELECT queue, app, status, 0, sum(count) FROM ended GROUP BY 1, 2, 3
ON CONFLICT (queue, app, status, process) DO UPDATE SET count = known.count + excluded.count
"""

COUNTS = """
SELECT app, status, sum(count)::bigint FROM weft.turn_counts WHERE queue = %(queue)s
GROUP BY 1, 2 HAVING sum(count) <> 0
"""

# Turns whose pause is over: they can be taken again, and wake somebody who has room.
END_PAUSES = f"""
WITH over AS (
    UPDATE weft.turn_lines SET due = NULL
    WHERE queue = %(queue)s AND is_free AND due <= (SELECT {NOW}) RETURNING app)
SELECT weft.wake_worker(%(queue)s, app) FROM over
"""


def server_take(source: LineTable, apps: int, *, marking: str, delayed: str) -> str:
    """The statement that takes the first turns of lines of `apps` apps: `app_0`, `app_1`, ...

    `marking` marks those in `heads (number)` as taken, and gives their rows. Each comes with
    whether the worker has just said that it has room, and the time when the next turn is due, of
    those that pause and of the `delayed`. Without a turn there is one row, with just these two.
    """
    # both rows: somebody who cancels the turn has it locked, and will want the line
    lines = " UNION ALL ".join(
        f"""(SELECT line.number, line.priority, line.place FROM weft.turn_lines AS line
            JOIN {source.table} AS turn ON {source.number.format("turn")} = line.number
            WHERE line.queue = %(queue)s AND line.app = %(app_{at})s
                AND line.is_free AND line.due IS NULL
            ORDER BY line.priority DESC, line.place LIMIT %(most)s
            FOR NO KEY UPDATE SKIP LOCKED)"""
        for at in range(apps)
    )
    if apps > 1:
        lines = f"SELECT * FROM ({lines}) AS lines ORDER BY priority DESC, place LIMIT %(most)s"
    return f"""
        WITH heads AS MATERIALIZED ({lines}),
        taken AS ({marking}),
        full_ AS (
            DELETE FROM weft.turn_room WHERE worker = %(worker)s
                AND (SELECT count(*) FROM heads) >= %(most)s),
        room AS (
            INSERT INTO weft.turn_room
            SELECT %(worker)s, %(queue)s, %(apps)s::text[], %(channel)s
            WHERE (SELECT count(*) FROM heads) < %(most)s
                AND NOT EXISTS (SELECT 1 FROM weft.turn_room WHERE worker = %(worker)s)
            RETURNING worker)
        SELECT EXISTS (SELECT 1 FROM room), least(({delayed}), (
                SELECT min(due) FROM weft.turn_lines
                WHERE queue = %(queue)s AND is_free AND due IS NOT NULL)) - {NOW}, taken.*
        FROM (SELECT) AS always LEFT JOIN taken ON true"""


LEAVE_ROOM = "DELETE FROM weft.turn_room WHERE worker = %(worker)s"

# What this worker was woken for may be for another.
WAKE_OTHERS = """
SELECT weft.wake_worker(%(queue)s, app) FROM unnest(%(apps)s::text[]) AS app
WHERE EXISTS (
    SELECT 1 FROM weft.turn_lines AS line
    WHERE line.queue = %(queue)s AND line.app = app AND is_free AND due IS NULL)
"""


# --- a SQLite file

_SAME = "app_name = {0}.app_name AND user_id = {0}.user_id AND session = {0}.session"

_OPEN = "status IN ('waiting', 'running') AND place IS NOT NULL"


def _refresh(row: str) -> str:
    """Have the line of a session name its first turn; there is no line without one."""
    same = _SAME.format(row)
    return f"""
        DELETE FROM turn_lines WHERE {same}
            AND number <> (SELECT number FROM turns WHERE {same} AND {_OPEN} ORDER BY place LIMIT 1)
            IS NOT FALSE;
        INSERT INTO turn_lines
        SELECT app_name, user_id, session, number, status = 'waiting', priority, place, due
        FROM turns WHERE {same} AND {_OPEN} ORDER BY place LIMIT 1
        ON CONFLICT DO UPDATE SET number = excluded.number, is_free = excluded.is_free,
            priority = excluded.priority, place = excluded.place, due = excluded.due;"""


def _count(row: str, change: int) -> str:
    return f"""
        INSERT INTO turn_counts VALUES ({row}.app_name, {row}.status, {change})
        ON CONFLICT DO UPDATE SET count = count + {change};"""


FILE_LINES = (
    """CREATE TABLE turn_lines (
        app_name TEXT NOT NULL,
        user_id TEXT NOT NULL,
        session TEXT NOT NULL,
        number INTEGER NOT NULL,
        is_free INTEGER NOT NULL,
        priority INTEGER NOT NULL,
        place INTEGER NOT NULL,
        due REAL,
        PRIMARY KEY (app_name, user_id, session)
    ) WITHOUT ROWID""",
    "CREATE INDEX turn_lines_free ON turn_lines (app_name, priority DESC, place, number)"
    " WHERE is_free AND due IS NULL",
    "CREATE INDEX turn_lines_due ON turn_lines (due) WHERE is_free AND due IS NOT NULL",
    """CREATE TABLE turn_counts (
        app TEXT NOT NULL,
        status TEXT NOT NULL,
        count INTEGER NOT NULL,
        PRIMARY KEY (app, status)
    ) WITHOUT ROWID""",
    f"""INSERT INTO turn_lines
    SELECT app_name, user_id, session, number, status = 'waiting', priority, min(place), due
    FROM turns WHERE {_OPEN} GROUP BY app_name, user_id, session""",
    "INSERT INTO turn_counts SELECT app_name, status, count(*) FROM turns GROUP BY 1, 2",
    f"""CREATE TRIGGER turns_line_insert AFTER INSERT ON turns
    WHEN NEW.{_OPEN.replace(" AND ", " AND NEW.")} BEGIN {_refresh("NEW")} END""",
    f"""CREATE TRIGGER turns_line_update AFTER UPDATE OF status, place, due, priority ON turns
    BEGIN {_refresh("NEW")} END""",
    f"""CREATE TRIGGER turns_line_delete AFTER DELETE ON turns
    WHEN OLD.{_OPEN.replace(" AND ", " AND OLD.")} BEGIN {_refresh("OLD")} END""",
    f"CREATE TRIGGER turns_count_insert AFTER INSERT ON turns BEGIN {_count('NEW', 1)} END",
    f"""CREATE TRIGGER turns_count_update AFTER UPDATE OF status ON turns
    WHEN NEW.status <> OLD.status BEGIN {_count("OLD", -1)} {_count("NEW", 1)} END""",
    f"CREATE TRIGGER turns_count_delete AFTER DELETE ON turns BEGIN {_count('OLD', -1)} END",
)
