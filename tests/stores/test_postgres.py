"""The PostgreSQL store: its tables, its connections, and its transactions."""

import asyncio
import subprocess
import sys
import threading
from collections.abc import AsyncIterator

import psycopg
import pytest

from tests.stores.build import KEY, read_session
from tests.support.build import user
from weft import Agent, Runner, ToolContext, tool
from weft.errors import Conflict, StoreError, UsageError
from weft.session import Transaction
from weft.stores.postgres import PostgresStore
from weft.stores.postgres_server import MIGRATIONS, Migration, explain_postgres, migrate, place
from weft.testing import ScriptedModel, call


@pytest.fixture
async def store(server: str) -> AsyncIterator[PostgresStore]:
    store = PostgresStore(server)
    yield store
    await store.close()


def run(server: str, statement: str) -> list[tuple[object, ...]]:
    """Use the database as another program would."""
    with psycopg.connect(server, autocommit=True) as connection:
        found = connection.execute(statement.encode())
        return found.fetchall() if found.description else []


def cut(server: str) -> None:
    """Have the server end all other connections, as a restart would."""
    run(
        server,
        """SELECT pg_terminate_backend(pid, 60000) FROM pg_stat_activity
        WHERE pid <> pg_backend_pid() AND datname = current_database()""",
    )


async def told(server: str, statement: str, count: int) -> None:
    """Wait until the server counts so many: it notices late who has left."""
    for _ in range(2_000):
        found = run(server, statement)
        if found == [(count,)]:
            return
        await asyncio.sleep(0.03)
    raise AssertionError(f"{found} instead of {count}")


# Those of this database: other workers have theirs on the same server.
LEASES = """FROM pg_locks JOIN pg_database ON database = pg_database.oid
    WHERE locktype = 'advisory' AND datname = current_database()"""
LOCKS = f"SELECT count(*) {LEASES}"
HOLDER = f"SELECT pid, (classid::bigint << 32) | objid::bigint {LEASES}"
CONNECTIONS = "SELECT count(*) FROM pg_stat_activity WHERE datname = current_database()"


async def test_a_lost_connection_is_an_error_once_and_then_made_again(
    store: PostgresStore, server: str
) -> None:
    session = await store.create(KEY)
    await asyncio.gather(*(store.get(KEY) for _ in range(4)))
    cut(server)
    with pytest.raises(StoreError, match="the server cannot be reached") as caught:
        await store.append(session, user("Hi"))
    assert "connects again" in caught.value.hint
    session = await store.append(session, user("Hi"))
    assert await read_session(store) == session


async def test_a_lease_survives_a_lost_connection(store: PostgresStore, server: str) -> None:
    other = PostgresStore(server)
    lease = await store.lease(KEY, busy="reject", interrupt=lambda: None)
    cut(server)
    await told(server, LOCKS, 1)
    await lease.release()
    await (await other.lease(KEY, busy="reject", interrupt=lambda: None)).release()
    await other.close()


async def test_a_holder_whose_lease_was_lost_to_another_is_stopped(
    store: PostgresStore, server: str
) -> None:
    stopped = asyncio.Event()
    lease = await store.lease(KEY, busy="reject", interrupt=stopped.set)
    [(holder, lock)] = run(server, HOLDER)
    async with await psycopg.AsyncConnection.connect(server, autocommit=True) as other:
        # The server gives it to who is first in its line, before the holder is back.
        taking = asyncio.create_task(other.execute("SELECT pg_advisory_lock(%s)", (lock,)))
        await told(server, f"{LOCKS} AND NOT granted", 1)
        run(server, f"SELECT pg_terminate_backend({holder})")
        await taking
        await asyncio.wait_for(stopped.wait(), 60)
    await lease.release()


async def test_a_server_that_lost_the_newest_events_is_believed(
    store: PostgresStore, server: str
) -> None:
    session = await store.append(await store.create(KEY), user("1"), user("2"), user("3"))
    run(server, "DELETE FROM weft.events WHERE seq > 0")
    with pytest.raises(Conflict, match="has 1 events, and this value of it has 3"):
        await store.append(session, user("4"))
    assert [event.text for event in (await read_session(store)).events] == ["1"]
    session = await store.append(await read_session(store), user("new 2"))
    assert await read_session(store) == session


async def test_a_server_that_is_not_there_is_named_without_the_password() -> None:
    store = PostgresStore("postgresql://ada:secret@127.0.0.1:1/db?connect_timeout=2")
    for use in (store.get(KEY), store.lease(KEY, busy="queue", interrupt=lambda: None)):
        with pytest.raises(StoreError, match="the server cannot be reached") as caught:
            await use
        assert caught.value.where == "postgresql://127.0.0.1:1/db"
        assert "secret" not in str(caught.value)
    await store.close()


async def test_an_address_that_cannot_be_read_is_an_error() -> None:
    store = PostgresStore("postgresql://host/db?no_such_option=1")
    with pytest.raises(StoreError, match="no_such_option") as caught:
        await store.get(KEY)
    assert place("postgresql://host/db?no_such_option=1") == caught.value.where


async def test_tables_of_a_newer_weft_are_left_alone(store: PostgresStore, server: str) -> None:
    await store.create(KEY)
    run(server, "UPDATE weft.version SET version = 99")
    other = PostgresStore(server)
    with pytest.raises(StoreError, match=f"version 99, and this one knows up to {len(MIGRATIONS)}"):
        await other.get(KEY)
    assert (await read_session(store)).id == "s"
    await other.close()


async def test_migrations_run_once_each_and_keep_what_is_there(server: str) -> None:
    first: Migration = ("CREATE TABLE weft.a (x integer)", "INSERT INTO weft.a VALUES (1)")
    second: Migration = ("ALTER TABLE weft.a ADD COLUMN y integer DEFAULT 2",)

    async def migrated(*migrations: Migration) -> None:
        async with await psycopg.AsyncConnection.connect(server, autocommit=True) as connection:
            await migrate(connection, migrations, where="here")

    await asyncio.gather(*(migrated(first) for _ in range(4)))
    with pytest.raises(psycopg.errors.UndefinedColumn):
        await migrated(first, ("CREATE TABLE weft.c (x integer)", "SELECT z FROM weft.a"))
    assert run(server, "SELECT to_regclass('weft.c')") == [(None,)]
    await asyncio.gather(*(migrated(first, second) for _ in range(4)))
    assert run(server, "SELECT x, y FROM weft.a") == [(1, 2)]
    assert run(server, "SELECT version FROM weft.version") == [(2,)]


async def test_stores_that_open_a_new_database_together_make_it_once(server: str) -> None:
    stores = [PostgresStore(server) for _ in range(4)]
    await asyncio.gather(*(store.create(KEY._replace(id=str(store))) for store in stores))
    assert len(await stores[0].sessions("app")) == 4
    for store in stores:
        await store.close()


async def test_a_role_that_may_not_make_tables_is_told_so(server: str) -> None:
    run(server, "DROP ROLE IF EXISTS guest")
    run(server, "CREATE ROLE guest LOGIN")
    store = PostgresStore(server.replace("postgres:@", "guest:@"))
    with pytest.raises(StoreError, match="does not permit") as caught:
        await store.get(KEY)
    assert "schema `weft`" in caught.value.hint
    await store.close()
    run(server, "DROP ROLE guest")


async def test_a_read_only_server_is_called_read_only(store: PostgresStore, server: str) -> None:
    session = await store.create(KEY)
    reading = PostgresStore(f"{server}&options=-cdefault_transaction_read_only%3Don")
    assert await reading.get(KEY) == session
    with pytest.raises(StoreError, match="the server is read-only"):
        await reading.append(session, user("Hi"))
    await reading.close()


def test_a_full_disk_is_called_full() -> None:
    error = explain_postgres(psycopg.errors.DiskFull("could not extend file"), "postgresql://h/db")
    assert error.message == "there is no room for more: could not extend file"
    assert "free some space" in error.hint


def raw(transaction: Transaction) -> psycopg.AsyncConnection[tuple[object, ...]]:
    assert isinstance(transaction.connection, psycopg.AsyncConnection)
    return transaction.connection


async def test_a_tool_writes_its_own_tables_in_the_transaction(
    store: PostgresStore, server: str
) -> None:
    session = await store.create(KEY)
    run(server, "CREATE TABLE weft.orders (id integer)")
    async with store.transaction(session) as transaction:
        await raw(transaction).execute("INSERT INTO weft.orders VALUES (1)")
        session = await transaction.append(user("ordered"))

    async def fail() -> None:
        async with store.transaction(session) as transaction:
            await transaction.append(user("ordered again"))
            await raw(transaction).execute("INSERT INTO weft.orders VALUES (2)")
            await raw(transaction).execute("INSERT INTO weft.nowhere VALUES (2)")

    with pytest.raises(psycopg.errors.UndefinedTable):
        await fail()
    assert run(server, "SELECT id FROM weft.orders") == [(1,)]
    assert await read_session(store) == session


async def test_a_failed_statement_that_a_tool_hides_still_stores_nothing(
    store: PostgresStore,
) -> None:
    session = await store.create(KEY)

    async def hide() -> None:
        async with store.transaction(session) as transaction:
            await transaction.append(user("Hi"))
            with pytest.raises(psycopg.errors.UndefinedTable):
                await raw(transaction).execute("SELECT * FROM weft.nowhere")

    with pytest.raises(StoreError, match="a statement in the transaction failed"):
        await hide()
    assert await read_session(store) == session


async def test_a_tool_cannot_commit_half_of_the_transaction(store: PostgresStore) -> None:
    session = await store.create(KEY)
    async with store.transaction(session) as transaction:
        with pytest.raises(psycopg.ProgrammingError, match="commit"):
            await raw(transaction).commit()
        await transaction.append(user("Hi"))
    assert len((await read_session(store)).events) == 1


async def test_a_connection_lost_in_a_transaction_stores_nothing(
    store: PostgresStore, server: str
) -> None:
    session = await store.create(KEY)

    async def lose() -> None:
        async with store.transaction(session) as transaction:
            await transaction.append(user("Hi"))
            cut(server)

    with pytest.raises(StoreError, match="cannot be reached"):
        await lose()
    assert await read_session(store) == session


async def test_a_cancelled_write_leaves_the_store_usable(store: PostgresStore, server: str) -> None:
    session = await store.create(KEY)
    with psycopg.connect(server) as blocking:
        blocking.execute("LOCK TABLE weft.events")
        appends = [asyncio.create_task(store.append(session, user("Hi"))) for _ in range(12)]
        await asyncio.sleep(0.1)
        for task in appends:
            task.cancel()
        await asyncio.gather(*appends, return_exceptions=True)
        assert all(task.cancelled() for task in appends)
    assert len((await store.append(session, user("Ho"))).events) == 1


async def test_a_store_in_use_in_another_event_loop_is_refused(store: PostgresStore) -> None:
    await store.create(KEY)
    refused: list[BaseException] = []

    def elsewhere() -> None:
        async def use() -> None:
            try:
                await store.get(KEY)
            except UsageError as error:
                refused.append(error)

        asyncio.run(use())

    thread = threading.Thread(target=elsewhere)
    thread.start()
    await asyncio.to_thread(thread.join)
    assert "in use in another event loop" in str(refused[0])
    assert (await read_session(store)).id == "s"


async def test_more_work_than_connections_waits_its_turn(server: str) -> None:
    store = PostgresStore(server, connections=2)
    sessions = await asyncio.gather(*(store.create(KEY._replace(id=f"{n}")) for n in range(20)))
    await asyncio.gather(*(store.append(session, user("Hi")) for session in sessions))
    await told(server, CONNECTIONS, 3)  # two of the store, and the one that asks
    await store.close()


def test_a_missing_driver_names_the_extra() -> None:
    script = """
import sys
sys.modules["psycopg"] = None
from weft.errors import UsageError
from weft.stores import open_store
try:
    open_store("postgresql://host/db")
except UsageError as error:
    print(error)
"""
    done = subprocess.run([sys.executable, "-c", script], capture_output=True, text=True)
    assert 'pip install "weft[postgres]"' in done.stdout, done.stderr


async def test_a_server_that_goes_away_under_a_tool_is_no_failure_of_the_tool(
    server: str, store: PostgresStore
) -> None:
    """The model is not told of it: the run is cut off, and the call is made again."""
    await store.apps()
    run(server, "CREATE TABLE IF NOT EXISTS booked (what text)")
    run(server, "TRUNCATE booked")
    breaks = [True, False]

    @tool(effect="transactional")
    async def book(what: str, ctx: ToolContext) -> str:
        """Book."""
        if breaks.pop(0):
            await asyncio.to_thread(cut, server)
        await ctx.connection.execute("INSERT INTO booked VALUES (%s)", (what,))  # type: ignore[union-attr]
        return "booked"

    model = ScriptedModel([call("book", what="a lamp"), "It is booked."])
    runner = Runner(Agent("bot", model=model, tools=[book]), store=store)
    with pytest.raises(StoreError, match="the server has ended the connection"):
        await runner.run("A lamp!", session_id="s", request_id="r1")
    result = await runner.run("A lamp!", session_id="s", request_id="r1")
    assert result.text == "It is booked."
    assert run(server, "SELECT what FROM booked") == [("a lamp",)]
    assert "error" not in str(model.prompts[-1])
