"""Transactions of the SQLite store: a tool's writes and its event, or neither."""

import asyncio
import sqlite3
from collections.abc import AsyncIterator
from pathlib import Path

import pytest

from tests.stores.build import KEY, connection_of, read_session, run_sql
from tests.support.build import user
from weft.errors import StoreError
from weft.session import Session
from weft.stores.sqlite import SqliteStore


@pytest.fixture
async def store(path: Path) -> AsyncIterator[SqliteStore]:
    store = SqliteStore(path)
    yield store
    await store.close()


async def test_a_tool_writes_its_own_tables_in_the_transaction(
    store: SqliteStore, path: Path
) -> None:
    session = await store.create(KEY)
    async with store.transaction(session) as transaction:
        connection_of(transaction).execute("CREATE TABLE orders (id)")
        connection_of(transaction).execute("INSERT INTO orders VALUES (1)")
        session = await transaction.append(user("ordered"))
    assert run_sql(path, "SELECT id FROM orders") == [(1,)]

    async def fail() -> None:
        async with store.transaction(session) as transaction:
            await transaction.append(user("ordered again"))
            connection_of(transaction).execute("INSERT INTO orders VALUES (2)")
            connection_of(transaction).execute("INSERT INTO no_such_table VALUES (2)")

    with pytest.raises(sqlite3.OperationalError, match="no_such_table"):
        await fail()
    assert run_sql(path, "SELECT id FROM orders") == [(1,)]
    assert await read_session(store) == session


async def test_a_tool_cannot_commit_half_of_the_transaction(store: SqliteStore, path: Path) -> None:
    session = await store.create(KEY)  # the store itself has committed with this connection
    async with store.transaction(session) as transaction:
        connection = connection_of(transaction)
        connection.row_factory = sqlite3.Row
        connection.execute("CREATE TABLE mine (x)")
        for end in (
            connection.commit,
            connection.rollback,
            lambda: connection.execute("COMMIT"),
            lambda: connection.cursor().execute("-- mine\nROLLBACK"),
            lambda: connection.execute("END"),
            lambda: connection.executescript("SELECT 1"),
            lambda: connection.__exit__(None, None, None),
        ):
            with pytest.raises(sqlite3.DatabaseError, match="not authorized"):
                end()
        await transaction.append(user("Hi"))
    assert run_sql(path, "SELECT count(*) FROM mine", "SELECT count(*) FROM events") == [
        (0,),
        (1,),
    ]
    assert len((await store.append(await read_session(store), user("Ho"))).events) == 2


async def test_a_full_disk_in_a_transaction_stores_nothing_of_it(store: SqliteStore) -> None:
    session = await store.create(KEY)

    async def fill() -> None:
        async with store.transaction(session) as transaction:
            (pages,) = connection_of(transaction).execute("PRAGMA page_count").fetchone()
            connection_of(transaction).execute(f"PRAGMA max_page_count={pages + 40}")
            await transaction.append(user("small"))
            await transaction.append(user("x" * 100_000))

    with pytest.raises(StoreError, match="no room for more"):
        await fill()
    assert await read_session(store) == session
    assert len((await store.append(session, user("small"))).events) == 1


async def test_other_writers_wait_for_a_transaction(store: SqliteStore) -> None:
    mine, theirs = await store.create(KEY), await store.create(KEY._replace(id="t"))
    inside, leave = asyncio.Event(), asyncio.Event()

    async def hold() -> Session:
        async with store.transaction(mine) as transaction:
            inside.set()
            await leave.wait()
            return await transaction.append(user("Hi"))

    holding = asyncio.create_task(hold())
    await inside.wait()
    writing = asyncio.create_task(store.append(theirs, user("Ho")))
    await asyncio.sleep(0.05)
    assert not writing.done()
    assert await read_session(store) == mine
    leave.set()
    assert len((await holding).events) == len((await writing).events) == 1


@pytest.mark.parametrize("begun", [True, False])
async def test_a_cancelled_transaction_gives_the_writer_back(
    store: SqliteStore, begun: bool
) -> None:
    session = await store.create(KEY)
    inside = asyncio.Event()

    async def hold() -> None:
        async with store.transaction(session) as transaction:
            await transaction.append(user("Hi"))
            inside.set()
            await asyncio.sleep(60)

    first, second = asyncio.create_task(hold()), asyncio.create_task(hold())
    await inside.wait()
    for task in (first, second) if begun else (second, first):
        task.cancel()
    await asyncio.gather(first, second, return_exceptions=True)
    assert first.cancelled()
    assert second.cancelled()
    assert len((await store.append(session, user("Ho"))).events) == 1
