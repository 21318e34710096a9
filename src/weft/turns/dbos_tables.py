"""The tables of turns as workflows of DBOS: its own, one of ours next to them, and the statements.

DBOS's tables are in a schema of their own. `weft.dbos_turns` says which turns there are; a turn has
a workflow for each time that it was put.

Top to bottom: names, making the tables, statements.
"""

import logging
from collections.abc import Mapping
from typing import TYPE_CHECKING

from weft.turns.lines import CountTable, count_triggers, fill_counts
from weft.turns.turn import TurnStatus

if TYPE_CHECKING:
    from weft.stores.postgres_server import Connection

SCHEMA = "weft_dbos"

WORKFLOW = "weft.turn"

VERSION = "weft-1"
"""What DBOS takes for the version of the program: that of how turns are written down.

Workflows of other versions are not taken, so it must not change with the code.
"""

STATUSES: Mapping[str, TurnStatus] = {
    "ENQUEUED": "waiting",
    "DELAYED": "waiting",
    "PENDING": "running",
    "SUCCESS": "done",
    "ERROR": "failed",
    "MAX_RECOVERY_ATTEMPTS_EXCEEDED": "failed",
    "CANCELLED": "cancelled",
}


def note_of(number: int) -> str:
    """The name of a turn in the notes that all queues share."""
    return f"dbos:{number}"


def alone_note_of(worker: str) -> str:
    """The name of the note that says which workflow a worker runs alone."""
    return f"dbos:alone:{worker}"


def migrate(url: str) -> None:
    """Have DBOS make its tables, or bring them up to date."""
    import psycopg
    from dbos import DBOS
    from sqlalchemy.exc import DBAPIError

    from weft.stores.postgres_server import explain_postgres

    logging.getLogger("dbos").setLevel(logging.ERROR)
    try:
        DBOS.migrate(_sqlalchemy_url(url), schema=SCHEMA)
    except DBAPIError as error:
        if isinstance(error.orig, psycopg.Error):
            raise explain_postgres(error.orig, url) from None
        raise


def _sqlalchemy_url(url: str) -> str:
    """The address as SQLAlchemy writes it: what it has no place for stands after the `?`."""
    import sqlalchemy
    from psycopg.conninfo import conninfo_to_dict

    options = {name: str(value) for name, value in conninfo_to_dict(url).items()}
    host = options.get("host", "")
    # a path of a socket, or several hosts, do not fit into the host of an address
    plain = not host.startswith("/") and "," not in host
    if plain:
        options.pop("host", None)
    address = sqlalchemy.URL.create(
        "postgresql+psycopg",
        username=options.pop("user", None),
        password=options.pop("password", None),
        host=host if plain and host else None,
        port=int(options.pop("port")) if plain and "port" in options else None,
        database=options.pop("dbname", None),
        query=options,
    )
    return address.render_as_string(hide_password=False)


async def has_tables(connection: "Connection") -> bool:
    """Whether the tables were made."""
    cursor = await connection.execute(
        "SELECT 1 FROM pg_catalog.pg_tables WHERE schemaname = 'weft' AND tablename = 'dbos_turns'"
    )
    return await cursor.fetchone() is not None


async def has_counts(connection: "Connection") -> bool:
    """Whether the database counts the turns."""
    cursor = await connection.execute(
        "SELECT 1 FROM pg_catalog.pg_trigger WHERE tgname = 'weft_dbos_count_insert'"
    )
    return await cursor.fetchone() is not None


_TURNS = CountTable(
    queue="dbos", table="weft.dbos_turns", counted="true", app="app_name", status="'all'"
)
"""All turns are counted: those that are done are too many to count them when somebody asks."""

COUNTED = (*count_triggers(_TURNS), fill_counts(_TURNS))

TABLES = (
    """CREATE TABLE weft.dbos_turns (
        number bigint GENERATED ALWAYS AS IDENTITY PRIMARY KEY,
        app_name text NOT NULL,
        user_id text NOT NULL,
        session text NOT NULL,
        request_id text NOT NULL,
        turn text NOT NULL,
        place integer NOT NULL,
        tries integer NOT NULL DEFAULT 0,
        put_at double precision NOT NULL,
        UNIQUE (app_name, user_id, session, request_id)
    )""",
    "CREATE INDEX dbos_turns_place ON weft.dbos_turns (app_name, user_id, session, place)",
)

# A turn's workflow is called by its number, and by how often it was put.
_ID = "(lpad(number::text, 19, '0') || '.' || tries)"

_NOW = "extract(epoch FROM clock_timestamp())"

# DBOS sorts the workflows of a partition by priority first, so the place in the session is that.
_ENQUEUE = f"""{SCHEMA}.enqueue_workflow(
    workflow_name => %(workflow)s, queue_name => %(queue)s, app_version => '{VERSION}',
    positional_args => ARRAY[to_json(number)], workflow_id => {_ID},
    priority => place, queue_partition_key => %(partition)s"""

_NEXT_PLACE = """(SELECT coalesce(max(place), 0) + 1 FROM weft.dbos_turns AS others
    WHERE others.app_name = {0}app_name AND others.user_id = {0}user_id
        AND others.session = {0}session)"""

PUT = f"""
WITH wanted AS (
    SELECT %(app_name)s::text AS app_name, %(user_id)s::text AS user_id, %(id)s::text AS session),
new AS (
    INSERT INTO weft.dbos_turns (app_name, user_id, session, request_id, turn, place, put_at)
    SELECT app_name, user_id, session, %(request_id)s, %(turn)s, {_NEXT_PLACE.format("wanted.")},
        {_NOW}
    FROM wanted
    WHERE %(limit)s > (
        SELECT count(*) FROM (
            SELECT 1 FROM {SCHEMA}.workflow_status
            WHERE queue_name = %(queue)s AND queue_partition_key = %(partition)s
                AND status = 'ENQUEUED' LIMIT %(limit)s) AS line)
    ON CONFLICT (app_name, user_id, session, request_id) DO NOTHING
    RETURNING number, place, tries)
SELECT {_ENQUEUE}, delay_until_epoch_ms => CASE WHEN %(delay)s::float8 > 0
    THEN (({_NOW} + %(delay)s::float8) * 1000)::bigint END)
FROM new
"""

IS_KNOWN = """
SELECT 1 FROM weft.dbos_turns WHERE app_name = %(app_name)s AND user_id = %(user_id)s
    AND session = %(id)s AND request_id = %(request_id)s
"""

_STATUS = f"{SCHEMA}.workflow_status"

# The turn of a workflow, if that is the last time that it was put.
_OF_TURN = f"number = split_part(workflow_uuid, '.', 1)::bigint AND workflow_uuid = {_ID}"

RETRY = f"""
WITH again AS (
    UPDATE weft.dbos_turns AS mine
    SET tries = tries + 1, turn = %(turn)s, place = {_NEXT_PLACE.format("mine.")}
    WHERE number = %(number)s AND EXISTS (
        SELECT 1 FROM {_STATUS} WHERE workflow_uuid = {_ID}
            AND status IN ('ERROR', 'CANCELLED', 'MAX_RECOVERY_ATTEMPTS_EXCEEDED'))
    RETURNING number, place, tries),
forgotten AS (DELETE FROM weft.turn_notes WHERE turn IN (SELECT 'dbos:' || number FROM again))
SELECT {_ENQUEUE}) FROM again
"""

_FREE = f"""owner_xid = NULL, started_at_epoch_ms = NULL,
    updated_at = ({_NOW} * 1000)::bigint"""

_ENDED = f"""owner_xid = NULL, updated_at = ({_NOW} * 1000)::bigint,
    completed_at = ({_NOW} * 1000)::bigint"""

_MINE = "workflow_uuid = %(id)s AND status = 'PENDING' AND executor_id = %(worker)s"

GIVE_BACK = f"""
UPDATE {_STATUS} SET status = 'ENQUEUED', {_FREE} WHERE {_MINE} RETURNING workflow_uuid
"""

GIVE_BACK_ALL = f"""
UPDATE {_STATUS} SET status = 'ENQUEUED', {_FREE}
WHERE name = '{WORKFLOW}' AND status = 'PENDING' AND executor_id = %(worker)s
"""

STOPPED = f"""
UPDATE {_STATUS} SET status = 'CANCELLED', {_ENDED} WHERE {_MINE} RETURNING workflow_uuid
"""

CANCEL = f"""
UPDATE {_STATUS} SET status = 'CANCELLED', {_ENDED}
FROM weft.dbos_turns
WHERE number = %(number)s AND workflow_uuid = {_ID} AND status IN ('ENQUEUED', 'DELAYED')
RETURNING workflow_uuid
"""

OWNED = f"""
SELECT workflow_uuid FROM {_STATUS}
WHERE name = '{WORKFLOW}' AND status = 'PENDING' AND executor_id = %(worker)s
"""

OWNERS = f"""
SELECT DISTINCT executor_id FROM {_STATUS} WHERE name = '{WORKFLOW}' AND status = 'PENDING'
"""

# DBOS takes turns while a suspect runs alone, so that one is noted: it is the only one to blame.
HAND_ON = f"""
WITH orphans AS MATERIALIZED (
    SELECT workflow_uuid AS id, 'dbos:' || split_part(workflow_uuid, '.', 1)::bigint AS turn
    FROM {_STATUS}
    WHERE name = '{WORKFLOW}' AND status = 'PENDING' AND executor_id = %(worker)s
    FOR UPDATE),
alone AS (DELETE FROM weft.turn_notes WHERE turn = %(alone)s RETURNING reason AS id),
guilty AS (SELECT id FROM alone JOIN orphans USING (id)),
blamed AS (
    SELECT turn FROM orphans LEFT JOIN weft.turn_notes AS notes USING (turn)
    WHERE CASE WHEN EXISTS (SELECT 1 FROM guilty) THEN id IN (SELECT id FROM guilty)
        ELSE coalesce(kills, 0) < %(suspect)s OR (SELECT count(*) FROM orphans) = 1 END),
noted AS (
    INSERT INTO weft.turn_notes (turn, kills)
    SELECT turn, 1 FROM blamed
    ON CONFLICT (turn) DO UPDATE SET kills = turn_notes.kills + 1,
        reason = CASE WHEN turn_notes.kills + 1 >= %(most)s THEN %(reason)s
                 ELSE turn_notes.reason END
    RETURNING turn, kills)
UPDATE {_STATUS} SET
    status = CASE WHEN coalesce(kills, 0) >= %(most)s THEN 'MAX_RECOVERY_ATTEMPTS_EXCEEDED'
             ELSE 'ENQUEUED' END,
    completed_at = CASE WHEN coalesce(kills, 0) >= %(most)s THEN ({_NOW} * 1000)::bigint END,
    {_FREE}
FROM orphans LEFT JOIN noted USING (turn)
WHERE workflow_uuid = orphans.id RETURNING workflow_uuid
"""

READ = """
SELECT number, dbos_turns.turn, coalesce(notes.attempts, 0), coalesce(notes.kills, 0)
FROM weft.dbos_turns
LEFT JOIN weft.turn_notes AS notes ON notes.turn = 'dbos:' || number
WHERE number = ANY(%(numbers)s)
"""

ALONE = """
INSERT INTO weft.turn_notes (turn, reason) VALUES (%(turn)s, %(id)s)
ON CONFLICT (turn) DO UPDATE SET reason = excluded.reason
"""

NOT_ALONE = "DELETE FROM weft.turn_notes WHERE turn = %(turn)s"

# Nothing is noted of a turn that was deleted while it ran.
NOTE = """
INSERT INTO weft.turn_notes (turn, reason)
SELECT %(turn)s, %(reason)s FROM weft.dbos_turns WHERE number = %(number)s
ON CONFLICT (turn) DO UPDATE SET reason = excluded.reason
"""

AGAIN = """
INSERT INTO weft.turn_notes (turn, attempts, reason)
SELECT %(turn)s, 1, %(reason)s FROM weft.dbos_turns WHERE number = %(number)s
ON CONFLICT (turn) DO UPDATE SET attempts = turn_notes.attempts + 1, reason = excluded.reason
"""

LIST = f"""
SELECT * FROM (
    SELECT number, dbos_turns.turn, status, 0, attempts, kills, executor_id, reason, put_at,
        completed_at / 1000.0::float8,
        CASE WHEN status = 'DELAYED' THEN delay_until_epoch_ms / 1000.0::float8 END
    FROM weft.dbos_turns
    JOIN {_STATUS} ON workflow_uuid = {_ID}
    LEFT JOIN weft.turn_notes AS notes ON notes.turn = 'dbos:' || number
    WHERE status = ANY(%(statuses)s)
        AND (%(number)s::bigint IS NULL OR number = %(number)s)
        AND (%(app_name)s::text IS NULL OR app_name = %(app_name)s)
        AND (%(user_id)s::text IS NULL OR user_id = %(user_id)s)
        AND (%(session)s::text IS NULL OR session = %(session)s)
        AND (%(request_id)s::text IS NULL OR request_id = %(request_id)s)
    ORDER BY number DESC LIMIT %(limit)s) AS newest
ORDER BY number
"""

OLD = f"""
SELECT number, tries FROM {_STATUS} JOIN weft.dbos_turns ON {_OF_TURN}
WHERE name = '{WORKFLOW}' AND status = 'SUCCESS'
    AND completed_at <= ({_NOW} - %(keep)s::float8) * 1000
ORDER BY completed_at LIMIT %(most)s
"""

# DBOS has what goes into and comes out of a workflow in tables that do not follow its row.
FORGET = f"""
WITH workflows AS (DELETE FROM {_STATUS} WHERE workflow_uuid = ANY(%(ids)s)),
inputs AS (DELETE FROM {SCHEMA}.workflow_input WHERE workflow_uuid = ANY(%(ids)s)),
outputs AS (DELETE FROM {SCHEMA}.workflow_output WHERE workflow_uuid = ANY(%(ids)s)),
noted AS (DELETE FROM weft.turn_notes WHERE turn = ANY(%(notes)s))
DELETE FROM weft.dbos_turns WHERE number = ANY(%(numbers)s)
"""

# Each look by an index of DBOS's own; what is in none of them is done.
COUNTS = " UNION ALL ".join(
    f"""SELECT app_name, status, count(*) FROM {_STATUS} JOIN weft.dbos_turns ON {_OF_TURN}
    WHERE name = '{WORKFLOW}' AND status IN ({statuses}) GROUP BY 1, 2"""
    for statuses in (
        "'ENQUEUED', 'PENDING'",
        "'DELAYED'",
        "'ERROR', 'CANCELLED', 'MAX_RECOVERY_ATTEMPTS_EXCEEDED'",
    )
)

WAITS = f"""
SELECT app_name, {_NOW}::float8
    - min(greatest(status.created_at, delay_until_epoch_ms)) / 1000.0::float8
FROM weft.dbos_turns JOIN {_STATUS} AS status ON workflow_uuid = {_ID}
WHERE status.status IN ('ENQUEUED', 'DELAYED')
    AND coalesce(delay_until_epoch_ms, 0) <= {_NOW} * 1000
    AND (queue_name, queue_partition_key) NOT IN (
        SELECT queue_name, queue_partition_key FROM {_STATUS}
        WHERE status = 'PENDING' AND queue_partition_key IS NOT NULL)
GROUP BY 1
"""
