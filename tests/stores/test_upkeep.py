"""The tables go one version on and back, beside processes of another; backups are whole."""

import asyncio
import sqlite3
from contextlib import nullcontext
from pathlib import Path

import psycopg
import pytest

from tests.cli.run import weft
from tests.stores.build import KEY
from weft.errors import StoreError, UsageError
from weft.session import Event, SessionKey
from weft.stores import open_store
from weft.stores import postgres_server as tables
from weft.stores.postgres import PostgresStore
from weft.stores.sqlite import SqliteStore
from weft.stores.sqlite_file import MIGRATIONS, open_file
from weft.stores.upkeep import backup_store, downgrade_store, migrate_store, store_version


async def _filled(address: str) -> None:
    store = open_store(address)
    session = await store.create(KEY, state={"a": 1})
    await store.append(session, Event(author="user"))
    await store.close()


@pytest.fixture
def address(request: pytest.FixtureRequest, tmp_path: Path) -> str:
    if request.param == "sqlite":
        return f"sqlite:///{tmp_path}/weft.db"
    return str(request.getfixturevalue("server"))


@pytest.mark.parametrize("address", ["sqlite", "postgres"], indirect=True)
async def test_a_store_goes_back_one_version_and_on_again(address: str) -> None:
    await _filled(address)
    before = await store_version(address)
    assert before.version == before.known
    back = await downgrade_store(address)
    assert back.version == back.known - 1
    assert "weft store migrate" in back.advice
    with pytest.raises(StoreError, match="the way back"):
        await downgrade_store(address)
    assert (await migrate_store(address)).advice == "up to date"
    store = open_store(address)
    session = await store.get(KEY)
    assert session is not None
    assert len(session.events) == 1
    assert session.state == {"a": 1}
    await store.close()


async def test_a_process_of_the_version_before_works_on_a_newer_file(tmp_path: Path) -> None:
    path = tmp_path / "weft.db"
    store = SqliteStore(path)
    session = await store.create(KEY)
    # what the version before this one does when it opens and writes
    old = open_file(path, timeout=1, alone=nullcontext(), migrations=MIGRATIONS[:-1])
    old.execute(
        "INSERT INTO sessions (app_name, user_id, id, created, state) VALUES ('app', 'ada', 'old',"
        " 1.0, '{}')"
    )
    old.close()
    assert (await store_version(f"sqlite:///{path}")).version == len(MIGRATIONS)
    again = await store.get(SessionKey("app", "ada", "old"))
    assert again is not None
    await store.append(session, Event(author="user"))
    await store.close()


async def test_a_process_of_the_version_before_works_on_a_newer_server(server: str) -> None:
    store = PostgresStore(server)
    await store.create(KEY)
    connection = await tables.connect(server)
    async with connection:
        await tables.migrate(connection, tables.MIGRATIONS[:-1], where="here")
        with pytest.raises(StoreError, match="newer Weft") as caught:
            await tables.migrate(connection, tables.MIGRATIONS[:-2], where="here")
    assert "weft store downgrade" in caught.value.hint
    assert (await store_version(server)).version == len(tables.MIGRATIONS)
    await store.close()


async def test_a_backup_of_a_file_in_use_is_whole_and_opens(tmp_path: Path) -> None:
    address, copy = f"sqlite:///{tmp_path}/weft.db", tmp_path / "copy.db"
    store = open_store(address)
    session = await store.create(KEY)
    writing = True

    async def write() -> int:
        nonlocal session
        while writing:
            session = await store.append(session, Event(author="user"))
        return len(session.events)

    task = asyncio.create_task(write())
    for _ in range(5):
        session_length = len(session.events)
        while len(session.events) == session_length:  # noqa: ASYNC110
            await asyncio.sleep(0.001)
    assert await backup_store(address, copy) == copy.stat().st_size
    writing = False
    assert await task >= 5
    await store.close()
    restored = open_store(f"sqlite:///{copy}")
    read = await restored.get(KEY)
    assert read is not None
    assert len(read.events) >= 5
    await restored.close()
    with pytest.raises(UsageError, match="exists already"):
        await backup_store(address, copy)
    with pytest.raises(UsageError, match="its own program"):
        await backup_store("postgresql://host/db", tmp_path / "other.db")


def test_tables_of_a_server_are_dumped_and_read_again(server: str, tmp_path: Path) -> None:
    """What `pg_dump` does, with the driver's COPY: every table is data alone."""
    names = ("sessions", "events", "app_state", "user_state")
    asyncio.run(_filled(server))
    with psycopg.connect(server, autocommit=True) as connection:
        for name in names:
            with connection.cursor().copy(f"COPY weft.{name} TO STDOUT".encode()) as rows:
                (tmp_path / name).write_bytes(b"".join(rows))
        connection.execute("DROP SCHEMA weft CASCADE")
    asyncio.run(migrate_store(server))
    with psycopg.connect(server, autocommit=True) as connection:
        for name in names:
            with connection.cursor().copy(f"COPY weft.{name} FROM STDIN".encode()) as rows:
                rows.write((tmp_path / name).read_bytes())

    async def read() -> int:
        store = open_store(server)
        session = await store.get(KEY)
        await store.close()
        return len(session.events) if session is not None else 0

    assert asyncio.run(read()) == 1
    # The counter of the numbers is no data: `pg_dump` restores it, COPY alone does not.
    with pytest.raises(StoreError, match=r"counter of weft\.sessions") as caught:
        asyncio.run(_made(server))
    with psycopg.connect(server, autocommit=True) as connection:
        connection.execute(caught.value.hint.partition("run ")[2].encode())
    asyncio.run(_made(server))


async def _made(server: str) -> None:
    store = open_store(server)
    try:
        await store.create(SessionKey("app", "ada", "after the restore"))
    finally:
        await store.close()


def test_the_commands_name_what_to_type(tmp_path: Path) -> None:
    address = f"sqlite:///{tmp_path}/weft.db"
    assert weft(tmp_path, "store", "status", "--store", address).returncode == 2
    done = weft(tmp_path, "store", "migrate", "--store", address)
    assert "up to date" in done.stdout
    done = weft(tmp_path, "store", "downgrade", "--store", address)
    assert "add --yes" in done.stderr
    done = weft(tmp_path, "store", "downgrade", "--yes", "--store", address)
    assert "weft store migrate" in done.stdout
    assert weft(tmp_path, "store", "status", "--store", address).returncode == 1
    done = weft(tmp_path, "store", "backup", "--store", address, "-o", str(tmp_path / "b.db"))
    assert "wrote" in done.stdout
    assert sqlite3.connect(tmp_path / "b.db").execute("SELECT count(*) FROM sessions").fetchone()
