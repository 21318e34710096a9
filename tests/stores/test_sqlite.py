"""The SQLite store: what can be wrong with its file, what it writes, and its transactions."""
# ruff: noqa: ASYNC240 (the files are small, and nothing else runs)

import asyncio
import os
import sqlite3
import subprocess
import sys
import threading
from collections.abc import AsyncIterator
from contextlib import closing, nullcontext
from pathlib import Path
from tempfile import TemporaryDirectory

import pytest

from tests.stores.build import KEY, connection_of, read_session, run_sql
from tests.stores.child import ENVIRONMENT, ROOT
from tests.support.build import says, user
from weft import Actions
from weft.errors import Conflict, StoreError, UsageError
from weft.session.memory import StoredSession
from weft.session.strand import Strand
from weft.stores.cache import OVERHEAD, SessionCache
from weft.stores.sqlite import SqliteStore
from weft.stores.sqlite_file import MIGRATIONS, Migration, open_file
from weft.stores.upkeep import store_version


@pytest.fixture
async def store(path: Path) -> AsyncIterator[SqliteStore]:
    store = SqliteStore(path)
    yield store
    await store.close()


async def refused(store: SqliteStore) -> StoreError:
    """The error that every use of the store gives."""
    with pytest.raises(StoreError) as caught:
        await store.create(KEY)
    with pytest.raises(StoreError) as again:
        await store.get(KEY)
    assert str(again.value) == str(caught.value)
    return caught.value


async def test_a_file_that_is_no_database_is_left_alone(store: SqliteStore, path: Path) -> None:
    path.write_text("Dear diary, " * 100)
    error = await refused(store)
    assert error.message == "this is not a SQLite database"
    assert error.where == str(path)
    assert "does not exist yet" in error.hint
    await store.close()
    assert path.read_text() == "Dear diary, " * 100


@pytest.mark.parametrize("asked", range(4))
def test_a_file_that_another_process_makes_at_this_moment_is_ours(path: Path, asked: int) -> None:
    queries: list[str] = []

    class Watched(sqlite3.Connection):
        def execute(self, query: str, *rest: object) -> sqlite3.Cursor:
            if len(queries) == asked:
                queries.append("made")
                open_file(path, timeout=5, alone=nullcontext()).close()
            queries.append(query)
            return super().execute(query, *rest)  # type: ignore[arg-type]

    open_file(path, timeout=5, alone=nullcontext(), factory=Watched).close()
    assert queries[asked] == "made"


@pytest.mark.parametrize("mark", ["CREATE TABLE mine (x)", "PRAGMA user_version=1"])
async def test_a_database_of_another_program_is_left_alone(
    store: SqliteStore, path: Path, mark: str
) -> None:
    run_sql(path, mark)
    before = path.read_bytes()
    error = await refused(store)
    assert error.message == "this is a SQLite database of another program"
    assert error.where == str(path)
    await store.close()
    assert path.read_bytes() == before
    assert [file.name for file in path.parent.iterdir()] == ["weft.db"]


async def test_a_file_of_a_newer_weft_is_left_alone(store: SqliteStore, path: Path) -> None:
    await store.create(KEY)
    await store.close()
    run_sql(path, "PRAGMA user_version=7")
    error = await refused(store)
    assert error.message == (
        "the file was written by a newer Weft: its tables are version 7, "
        f"and this one knows up to {len(MIGRATIONS)}"
    )
    assert "upgrade" in error.hint
    run_sql(path, f"PRAGMA user_version={len(MIGRATIONS)}")
    assert (await read_session(store)).id == "s"


async def test_an_empty_file_becomes_a_store(store: SqliteStore, path: Path) -> None:
    path.touch()
    await store.create(KEY)


async def test_a_missing_directory_is_named_and_may_come_later(tmp_path: Path) -> None:
    store = SqliteStore(tmp_path / "no" / "such" / "weft.db")
    error = await refused(store)
    assert error.message == "the directory does not exist"
    assert error.hint == f"make it: mkdir -p {tmp_path / 'no' / 'such'}"
    (tmp_path / "no" / "such").mkdir(parents=True)
    assert (await store.create(KEY)).id == "s"
    await store.close()


async def test_a_directory_is_no_file(tmp_path: Path) -> None:
    error = await refused(SqliteStore(tmp_path))
    assert error.message == "this is a directory"
    with pytest.raises(StoreError, match="this is a directory"):  # read without the right to write
        await store_version(f"sqlite:///{tmp_path}")


@pytest.mark.parametrize("path", ["", ":memory:", "a\0b"])
def test_what_is_no_path_is_refused(path: str) -> None:
    with pytest.raises(UsageError, match="is not a path") as caught:
        SqliteStore(path)
    assert "MemoryStore" in caught.value.hint


async def test_a_damaged_file_is_called_damaged(store: SqliteStore, path: Path) -> None:
    session = await store.create(KEY)
    await store.append(session, *(user("x" * 300) for _ in range(50)))
    await store.close()
    data = bytearray(path.read_bytes())
    data[4 * 2048 :] = b"\xff" * (len(data) - 4 * 2048)
    path.write_bytes(data)
    with pytest.raises(StoreError, match="the file is damaged") as caught:
        await store.get(KEY)
    assert "backup" in caught.value.hint


async def test_an_event_changed_by_hand_is_named(store: SqliteStore, path: Path) -> None:
    await store.append(await store.create(KEY), user("Hi"))
    await store.close()
    run_sql(path, "UPDATE events SET event = '{\"author\": 3}'")
    with pytest.raises(StoreError, match="event 0 is damaged") as caught:
        await store.get(KEY)
    assert caught.value.where == str(KEY)
    run_sql(path, "UPDATE events SET checksum = NULL")
    with pytest.raises(StoreError, match=r"event 0 cannot be read: .*author"):
        await store.get(KEY)


async def test_a_log_with_a_gap_is_not_read_as_a_whole(store: SqliteStore, path: Path) -> None:
    await store.append(await store.create(KEY), user("1"), user("2"), user("3"))
    await store.close()
    run_sql(path, "DELETE FROM events WHERE event LIKE '%\"2\"%'")
    with pytest.raises(StoreError, match="3 events were stored, and 2 can be read"):
        await store.get(KEY)


async def test_a_file_set_back_to_an_older_state_is_believed(
    store: SqliteStore, path: Path
) -> None:
    session = await store.append(await store.create(KEY), user("1"), user("2"), user("3"))
    run_sql(path, "DELETE FROM events WHERE place > (SELECT min(place) FROM events)")
    with pytest.raises(Conflict, match="has 1 events, and this value of it has 3"):
        await store.append(session, user("4"))
    assert [event.text for event in (await read_session(store)).events] == ["1"]
    session = await store.append(await read_session(store), user("new 2"))
    assert await read_session(store) == session


READ_ONLY = """
import asyncio, os, sys
from weft.errors import StoreError
from weft.session import SessionKey
from weft.stores.sqlite import SqliteStore
from tests.support.build import user

async def main():
    key = SessionKey("app", "ada", "s")
    store = SqliteStore(sys.argv[1])
    try:
        session = await store.get(key)
        if session is None:
            await store.create(key)
        else:
            await store.append(session, user("Hi"))
        print("written")
    except StoreError as error:
        print(error)
    await store.close()

if os.geteuid() == 0:
    os.setgid(65534)
    os.setuid(65534)
asyncio.run(main())
"""


@pytest.mark.parametrize("exists", [True, False])
def test_what_is_read_only_is_named(exists: bool) -> None:
    # Outside pytest's own folder, which nobody but its owner can enter.
    with TemporaryDirectory() as folder:
        path = Path(folder) / "weft.db"
        if exists:
            asyncio.run(made(path))
            path.chmod(0o444)
        Path(folder).chmod(0o555)
        done = subprocess.run(
            [sys.executable, "-c", READ_ONLY, path],
            capture_output=True,
            text=True,
            cwd=ROOT,
            env=ENVIRONMENT,
        )
        Path(folder).chmod(0o755)
    assert str(path) in done.stdout, done.stderr
    assert "writable" in done.stdout


async def made(path: Path) -> None:
    store = SqliteStore(path)
    await store.create(KEY)
    await store.close()


async def test_a_full_disk_loses_nothing_that_was_stored(store: SqliteStore) -> None:
    session = await store.append(await store.create(KEY), user("Hi"))
    async with store.transaction(session) as transaction:
        connection = connection_of(transaction)
        (pages,) = connection.execute("PRAGMA page_count").fetchone()
        connection.execute(f"PRAGMA max_page_count={pages + 4}")
    big = user("x" * 100_000, actions=Actions(state_delta={"app:a": 1}))
    for _ in range(2):
        with pytest.raises(
            StoreError, match="no room for more: database or disk is full"
        ) as caught:
            await store.append(session, big)
        assert "free some space" in caught.value.hint
        assert await read_session(store) == session
    session = await store.append(session, says("bot", "small"))
    async with store.transaction(session) as transaction:
        connection_of(transaction).execute("PRAGMA max_page_count=1000000")
    session = await store.append(session, big)
    assert session.state == {"app:a": 1}
    assert await read_session(store) == session


async def test_of_writes_made_together_only_what_does_not_fit_fails(store: SqliteStore) -> None:
    sessions = [await store.create(KEY._replace(id=f"{n}")) for n in range(8)]
    async with store.transaction(sessions[0]) as transaction:
        connection = connection_of(transaction)
        (pages,) = connection.execute("PRAGMA page_count").fetchone()
        connection.execute(f"PRAGMA max_page_count={pages + 40}")
    outcomes = await asyncio.gather(
        *(
            store.append(each, user("x" * (100_000 if n == 4 else 10)))
            for n, each in enumerate(sessions)
        ),
        return_exceptions=True,
    )
    assert [isinstance(outcome, StoreError) for outcome in outcomes] == [n == 4 for n in range(8)]
    for n in range(8):
        held = await store.get(KEY._replace(id=f"{n}"))
        assert held is not None
        assert len(held.events) == (0 if n == 4 else 1)


async def test_a_file_locked_for_too_long_is_said_to_be(path: Path) -> None:
    store = SqliteStore(path, timeout=0.05)
    session = await store.create(KEY)
    with closing(sqlite3.connect(path, isolation_level=None)) as other:
        other.execute("BEGIN IMMEDIATE")
        with pytest.raises(
            StoreError, match=r"kept the database locked for 0.05 seconds"
        ) as caught:
            await store.append(session, user("Hi"))
        assert "timeout" in caught.value.hint
        with pytest.raises(StoreError, match="locked"):
            async with store.transaction(session):
                pass
        assert await read_session(store) == session
        other.execute("ROLLBACK")
    assert len((await store.append(session, user("Hi"))).events) == 1
    await store.close()


async def test_the_event_loop_runs_on_while_the_file_is_locked(path: Path) -> None:
    store = SqliteStore(path)
    session = await store.create(KEY)
    with closing(sqlite3.connect(path, isolation_level=None)) as other:
        other.execute("BEGIN IMMEDIATE")
        append = asyncio.create_task(store.append(session, user("Hi")))
        for _ in range(20):
            await asyncio.sleep(0.001)
        assert not append.done()
        assert await read_session(store) == session, "reading does not wait for writers"
        other.execute("COMMIT")
    assert len((await append).events) == 1
    await store.close()


def test_migrations_run_once_each_and_keep_what_is_there(path: Path) -> None:
    first: Migration = ("CREATE TABLE a (x)", "INSERT INTO a VALUES (1)")
    second: Migration = ("ALTER TABLE a ADD COLUMN y DEFAULT 2", "CREATE TABLE b (x)")

    def opened(*migrations: Migration) -> sqlite3.Connection:
        return open_file(path, timeout=1, alone=nullcontext(), migrations=migrations)

    opened(first).close()
    run_sql(path, "INSERT INTO a VALUES (10)")
    with pytest.raises(StoreError, match="no such column: z"):
        opened(first, ("CREATE TABLE c (x)", "SELECT z FROM a"))
    assert run_sql(path, "PRAGMA user_version") == [(1,)]
    assert run_sql(path, "SELECT name FROM sqlite_master") == [("a",)]
    for _ in range(2):
        opened(first, second).close()
        assert run_sql(path, "SELECT x, y FROM a") == [(1, 2), (10, 2)]
        assert run_sql(path, "PRAGMA user_version") == [(2,)]
    opened(first).close()  # tables one version ahead: old and new workers run side by side
    third: Migration = ("CREATE TABLE c (x)",)
    opened(first, second, third).close()
    with pytest.raises(StoreError, match="version 3, and this one knows up to 1"):
        opened(first)


def test_a_new_file_gets_all_migrations(path: Path) -> None:
    migrations = (("CREATE TABLE a (x)",), ("ALTER TABLE a ADD COLUMN y",))
    open_file(path, timeout=1, alone=nullcontext(), migrations=migrations).close()
    assert run_sql(path, "PRAGMA user_version", "SELECT count(*) FROM pragma_table_info('a')") == [
        (2,), (2,)
    ]  # fmt: skip


def written() -> int:
    """Bytes that this process has had written to disks."""
    lines = Path("/proc/self/io").read_text().splitlines()
    return {name: int(count) for name, count in (line.split(": ") for line in lines)}["write_bytes"]


@pytest.mark.skipif(not Path("/proc/self/io").exists(), reason="only Linux counts written bytes")
async def test_a_long_session_is_not_written_over_and_over(store: SqliteStore, path: Path) -> None:
    session = await store.create(KEY, state={f"k{n}": "v" * 20 for n in range(50)})
    before = written()
    for n in range(2000):
        session = await store.append(session, says("bot", "x" * 150, inv=f"{n // 10}"))
    await store.close()
    assert written() - before <= 16_000_000
    assert path.stat().st_size <= 3 * 2000 * len(session.events[0].to_json())
    assert await read_session(store) == session


async def test_the_file_is_left_whole_when_the_store_closes(store: SqliteStore, path: Path) -> None:
    session = await store.append(await store.create(KEY), user("Hi"))
    await store.close()
    assert not path.with_name("weft.db-wal").exists()
    assert run_sql(
        path, "PRAGMA integrity_check", "SELECT json_extract(event, '$.author') FROM events"
    )
    assert await read_session(store) == session


def test_threads_with_their_own_event_loops_share_a_store(path: Path) -> None:
    store = SqliteStore(path)

    async def chat(id: str) -> None:
        session = await store.create(KEY._replace(id=id))
        for _ in range(10):
            session = await store.append(session, user("Hi"))

    threads = [
        threading.Thread(target=lambda n=n: asyncio.run(chat(f"{n}")))  # type: ignore[misc]
        for n in range(4)
    ]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()

    async def lengths() -> list[int]:
        found = [info.events for info in await store.sessions("app")]
        await store.close()
        return found

    assert asyncio.run(lengths()) == [10] * 4


async def attempt(path: Path) -> str:
    """Whether another process finds the session free."""
    command = [sys.executable, "-m", "tests.stores.child", "attempt", f"sqlite:///{path}", *KEY]
    done = await asyncio.to_thread(
        subprocess.run, command, capture_output=True, text=True, cwd=ROOT, env=ENVIRONMENT
    )
    return str(done.stdout).strip()


async def test_closing_one_store_frees_no_lease_of_another_on_the_file(
    store: SqliteStore, path: Path
) -> None:
    link = path.with_name("link.db")
    link.symlink_to(path)
    lease = await store.lease(KEY, busy="reject", interrupt=lambda: None)
    other = SqliteStore(link)
    await (await other.lease(KEY._replace(id="t"), busy="reject", interrupt=lambda: None)).release()
    await other.create(KEY)
    await other.close()
    assert await attempt(path) == "busy"
    await lease.release()
    assert await attempt(path) == "free"


async def test_a_store_that_closes_frees_its_leases(store: SqliteStore, path: Path) -> None:
    lease = await store.lease(KEY, busy="reject", interrupt=lambda: None)
    await store.close()
    assert await attempt(path) == "free"
    await lease.release()
    assert not path.with_name("weft.db-wal").exists()


FORKED = """
import asyncio, os, sys
from weft.errors import SessionBusy
from weft.session import SessionKey
from weft.stores.sqlite import SqliteStore
from tests.support.build import user

key = SessionKey("app", "ada", "s")
store = SqliteStore(sys.argv[1])

async def parent():
    session = await store.append(await store.create(key), user("parent"))
    await store.lease(key, busy="reject", interrupt=lambda: None)
    return session

async def child(session):
    try:
        await store.lease(key, busy="reject", interrupt=lambda: None)
        os._exit(2)
    except SessionBusy:
        await store.append(session, user("child"))
        os._exit(0)

session = asyncio.run(parent())
process = os.fork()
if process == 0:
    asyncio.run(child(session))
assert os.waitstatus_to_exitcode(os.waitpid(process, 0)[1]) == 0
after = asyncio.run(store.get(key))
print([event.text for event in after.events])
asyncio.run(store.close())
"""


@pytest.mark.skipif(not hasattr(os, "fork"), reason="there is no fork here")
def test_a_forked_child_opens_its_own(path: Path) -> None:
    done = subprocess.run(
        [sys.executable, "-W", "ignore", "-c", FORKED, path],
        capture_output=True,
        text=True,
        cwd=ROOT,
        env=ENVIRONMENT,
        timeout=300,
    )
    assert done.stdout == "['parent', 'child']\n", done.stderr


def test_the_cache_keeps_what_was_used_last_and_is_never_set_back() -> None:
    cache = SessionCache(2 * OVERHEAD)

    def kept(id: str, number: int, length: int) -> StoredSession:
        events = Strand([user("Hi")] * length)
        return StoredSession(KEY._replace(id=id), number, 0.0, {}, {}, events)

    def held(id: str) -> tuple[int, int] | None:
        found = cache.get(KEY._replace(id=id))
        return None if found is None else (found.number, len(found.events))

    cache.put(kept("a", 1, 3))
    cache.put(kept("a", 1, 2))
    assert held("a") == (1, 3)
    cache.put(kept("a", 2, 0))
    cache.put(kept("a", 1, 9))
    assert held("a") == (2, 0)
    cache.put(kept("b", 3, 0))
    assert held("a") == (2, 0)
    cache.put(kept("c", 4, 0))
    assert held("b") is None
    assert held("a") == (2, 0)
    cache.drop(KEY._replace(id="a"))
    assert held("a") is None


def test_the_cache_is_bounded_by_bytes_and_spares_what_is_in_use() -> None:
    in_use = {KEY._replace(id="running")}
    cache = SessionCache(1_000_000 + 3 * OVERHEAD, in_use=in_use.__contains__)

    def put(id: str, size: int) -> None:
        cache.put(StoredSession(KEY._replace(id=id), 1, 0.0, {}, {}, Strand(), size))

    def ids() -> list[str]:
        names = ("running", "a", "b", "huge")
        return [id for id in names if cache.get(KEY._replace(id=id)) is not None]

    put("running", 400_000)
    put("a", 400_000)
    put("b", 200_000)
    assert ids() == ["running", "a", "b"]
    put("b", 300_000)
    assert ids() == ["running", "b"]
    put("huge", 5_000_000)
    assert ids() == ["running", "huge"]
    put("huge", 1)
    put("b", 300_000)
    assert ids() == ["running", "b", "huge"]


async def test_the_newest_events_are_read_without_the_others(path: Path) -> None:
    store = SqliteStore(path)
    session = await store.create(KEY, state={"begun": True})
    await store.append(session, *[user(f"{n}") for n in range(50)])
    await store.close()
    with sqlite3.connect(path) as connection:
        connection.execute("UPDATE events SET event = '{}' WHERE place % 4294967296 = 30")
    newest = await store.get(KEY, recent=5)
    assert newest is not None
    assert [event.text for event in newest.events] == ["45", "46", "47", "48", "49"]
    with pytest.raises(StoreError, match="event 30 is damaged"):
        await store.get(KEY)
    await store.close()
