"""Deleting from PostgreSQL what must not be kept: a user's rows, in every table and queue."""

from typing import cast

from weft.stores.postgres_tables import Connection


async def erase_user(connection: Connection, app_name: str, user_id: str) -> int:
    """Delete all rows of a user: sessions, events, state, leases, requests, turns."""
    await erase_turns(connection, app_name, user_id)
    count = 0
    for table in ("sessions", "user_state", "interrupts", "leases"):
        deleted = await connection.execute(
            f"DELETE FROM weft.{table} WHERE app_name = %s AND user_id = %s".encode(),
            (app_name, user_id),
        )
        count = deleted.rowcount if table == "sessions" else count
    return count


async def erase_turns(
    connection: Connection, app_name: str, user_id: str, session: str | None = None
) -> None:
    """Delete the turns of a user, or of one session, from every queue, whatever became of them."""
    values = {"app_name": app_name, "user_id": user_id, "session": session}
    for table in await _queue_tables(connection):
        # an empty statement: the table's rows go with those of another
        if statement := _ERASE_TURNS[table]:
            await connection.execute(statement.encode(), values)


async def list_turn_apps(connection: Connection, user_id: str) -> list[str]:
    """The apps for which a user has turns in a queue."""
    apps: set[str] = set()
    for table in await _queue_tables(connection):
        if statement := _TURN_APPS.get(table):
            cursor = await connection.execute(statement.encode(), {"user_id": user_id})
            apps.update(app for (app,) in cast("list[tuple[str]]", await cursor.fetchall()))
    return sorted(apps)


async def rewrite(connection: Connection) -> None:
    """Write the tables anew, so that nothing deleted is in their files; nobody can write then."""
    own = [
        f"weft.{table}" for table in ("sessions", "events", "chapters", "user_state", "interrupts")
    ]
    for table in (*own, *await _queue_tables(connection)):
        await connection.execute(f"VACUUM FULL {table}".encode())


async def _queue_tables(connection: Connection) -> list[str]:
    """Those tables of queues that there are: none where no queue was ever opened."""
    cursor = await connection.execute(
        "SELECT name FROM unnest(%s::text[]) AS name"
        " WHERE to_regclass(name) IS NOT NULL AND to_regclass('weft.turn_notes') IS NOT NULL",
        (list(_ERASE_TURNS),),
    )
    existing = {name for (name,) in cast("list[tuple[str]]", await cursor.fetchall())}
    return [table for table in _ERASE_TURNS if table in existing]


_OWNED = """app_name = %(app_name)s AND user_id = %(user_id)s
    AND (%(session)s::text IS NULL OR session = %(session)s)"""

_DBOS_TURNS = f"(SELECT number FROM weft.dbos_turns WHERE {_OWNED})"

# A turn has one workflow for each time that it was put: NUMBER.0, NUMBER.1 and so on.
_DBOS_WORKFLOWS = f"""
DELETE FROM weft_dbos.{{}} WHERE split_part(workflow_uuid, '.', 1) IN (
    SELECT lpad(number::text, 19, '0') FROM {_DBOS_TURNS} AS gone)"""

_ERASE_TURNS = {
    "weft.turns": f"DELETE FROM weft.turns WHERE {_OWNED}",
    # The lock of a turn is a list: app, user, session, request. Those of other tasks are any text.
    "procrastinate_jobs": """
        WITH gone AS (
            DELETE FROM procrastinate_jobs
            WHERE CASE WHEN task_name = 'weft.turn' THEN
                queueing_lock::jsonb ->> 0 = %(app_name)s
                AND queueing_lock::jsonb ->> 1 = %(user_id)s
                AND (%(session)s::text IS NULL OR queueing_lock::jsonb ->> 2 = %(session)s) END
            RETURNING id)
        DELETE FROM weft.turn_notes WHERE turn IN (SELECT id::text FROM gone)""",
    "procrastinate_events": "",  # they go with their jobs
    # First the workflows: a worker that ends one now writes no output after that.
    "weft_dbos.workflow_status": _DBOS_WORKFLOWS.format("workflow_status"),
    "weft_dbos.workflow_input": _DBOS_WORKFLOWS.format("workflow_input"),
    "weft_dbos.workflow_output": _DBOS_WORKFLOWS.format("workflow_output"),
    "weft.dbos_turns": f"""
        WITH noted AS (
            DELETE FROM weft.turn_notes
            WHERE turn IN (SELECT 'dbos:' || number FROM {_DBOS_TURNS} AS gone))
        DELETE FROM weft.dbos_turns WHERE {_OWNED}""",
    "weft.turn_notes": "",  # they go with their turns
}
"""The tables of queues, in the order to empty them in, and how to delete a user's rows."""

_TURN_APPS = {
    "weft.turns": "SELECT DISTINCT app_name FROM weft.turns WHERE user_id = %(user_id)s",
    "procrastinate_jobs": """
        SELECT DISTINCT queueing_lock::jsonb ->> 0 FROM procrastinate_jobs
        WHERE CASE WHEN task_name = 'weft.turn'
            THEN queueing_lock::jsonb ->> 1 = %(user_id)s END""",
    "weft.dbos_turns": "SELECT DISTINCT app_name FROM weft.dbos_turns WHERE user_id = %(user_id)s",
}
"""How to find the apps for which a user has turns."""
