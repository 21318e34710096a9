"""A full disk, a clock that jumps, a server that hangs: told clearly, nothing lost."""

import asyncio
import os
import signal
import socket
import sqlite3
import subprocess
import sys
import textwrap
import threading
from contextlib import closing
from pathlib import Path

import psycopg
import pytest

from tests.stores.build import KEY
from weft.errors import StoreError
from weft.session import Event
from weft.stores import postgres_server, sqlite_worker
from weft.stores.postgres import PostgresStore
from weft.stores.sqlite import SqliteStore


def test_a_full_disk_is_named_and_what_was_stored_stays(tmp_path: Path) -> None:
    program = textwrap.dedent("""
        import asyncio, resource, signal, sys
        from weft.errors import StoreError
        from weft.session import Event, SessionKey
        from weft.content import Content, Part
        from weft.stores.sqlite import SqliteStore

        signal.signal(signal.SIGXFSZ, signal.SIG_IGN)

        async def main():
            store = SqliteStore(sys.argv[1])
            session = await store.create(SessionKey("app", "ada", "s"))
            session = await store.append(session, Event(author="user", id="first"))
            resource.setrlimit(resource.RLIMIT_FSIZE, (400_000, resource.RLIM_INFINITY))
            stored = 1
            try:
                for n in range(100):
                    text = Content(parts=(Part(text="x" * 20_000),), role="user")
                    session = await store.append(session, Event(author="user", content=text))
                    stored += 1
            except StoreError as error:
                print(stored, error.hint)
            resource.setrlimit(resource.RLIMIT_FSIZE, (resource.RLIM_INFINITY,) * 2)
            session = await store.get(SessionKey("app", "ada", "s"))
            session = await store.append(session, Event(author="user", id="last"))
            print(len(session.events))
            await store.close()

        asyncio.run(main())
    """)
    done = subprocess.run(
        [sys.executable, "-c", program, str(tmp_path / "weft.db")],
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 0, done.stderr
    first, second = done.stdout.splitlines()
    stored, _, hint = first.partition(" ")
    assert "what was stored before is safe" in hint
    assert int(second) == int(stored) + 1
    assert int(stored) > 1


async def test_an_append_is_acknowledged_only_after_its_flush(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    gate, plain = threading.Event(), sqlite_worker.sync_data
    store = SqliteStore(tmp_path / "weft.db")
    session = await store.create(KEY)

    def sync(descriptor: int) -> None:
        gate.wait(600)
        plain(descriptor)

    monkeypatch.setattr(sqlite_worker, "sync_data", sync)
    append = asyncio.create_task(store.append(session, Event(author="user")))
    other = sqlite3.connect(tmp_path / "weft.db")
    while not other.execute("SELECT count(*) FROM events").fetchone()[0]:  # noqa: ASYNC110
        await asyncio.sleep(0.005)
    other.close()
    await asyncio.sleep(0.05)
    assert not append.done()
    gate.set()
    assert len((await append).events) == 1
    await store.close()


async def test_after_a_flush_that_failed_nothing_is_stored_until_the_store_is_opened_again(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    path = tmp_path / "weft.db"
    store = SqliteStore(path)
    session = await store.create(KEY)
    session = await store.append(session, Event(author="user", id="first"))

    def broken(descriptor: int) -> None:
        raise OSError(5, "Input/output error")

    def ids() -> list[str]:
        with closing(sqlite3.connect(path)) as file:
            return [event for (event,) in file.execute("SELECT event ->> 'id' FROM events")]

    with monkeypatch.context() as patch:
        patch.setattr(sqlite_worker, "sync_data", broken)
        with pytest.raises(StoreError, match="the disk failed"):
            await store.append(session, Event(author="user", id="lost"))
    before = ids()
    # the disk works again, and says nothing about what it did not write
    for attempt in range(2):
        newest = await store.get(KEY)
        assert newest is not None
        with pytest.raises(StoreError, match="nothing is stored since") as caught:
            await store.append(newest, Event(author="user", id=f"more{attempt}"))
        assert "store.close()" in caught.value.hint
    with pytest.raises(StoreError, match="nothing is stored since"):
        await store.create(KEY._replace(id="other"))
    with pytest.raises(StoreError, match="nothing is stored since"):
        async with store.transaction(session) as transaction:
            await transaction.append(Event(author="user", id="held"))
    assert ids() == before
    await store.close()

    with monkeypatch.context() as patch:  # the file cannot take what the log has: still refused
        patch.setattr("weft.stores.sqlite.rewrite_log", _refuse_rewrite)
        with pytest.raises(StoreError, match="the disk is broken"):
            await store.create(KEY._replace(id="other"))
    await store.close()
    newest = await store.get(KEY)
    assert newest is not None
    await store.append(newest, Event(author="user", id="again"))
    assert ids() == [*before, "again"]
    await store.close()


def _refuse_rewrite(connection: sqlite3.Connection, path: Path) -> None:
    raise StoreError("the disk is broken", where=str(path))


async def test_a_clock_that_jumps_changes_no_order(tmp_path: Path) -> None:
    store = SqliteStore(tmp_path / "weft.db")
    session = await store.create(KEY)
    for second in (1e9, 5.0, 2e9, 1e9):
        session = await store.append(session, Event(author="user", id=f"{len(session.events)}",
                                                    timestamp=second))  # fmt: skip
    await store.close()
    read = await store.get(KEY)
    assert read is not None
    assert [event.id for event in read.events] == ["0", "1", "2", "3"]
    await store.append(read, Event(author="user"))
    await store.close()


async def test_a_server_that_hangs_goes_on_where_it_was(server: str) -> None:
    store = PostgresStore(server)
    session = await store.create(KEY)
    lease = await store.lease(KEY, busy="queue", interrupt=lambda: None)
    with psycopg.connect(server, autocommit=True) as connection:
        rows = connection.execute(
            "SELECT pid FROM pg_stat_activity"
            " WHERE application_name LIKE 'weft %' AND datname = current_database()"
        ).fetchall()
    backends = [pid for (pid,) in rows]
    assert backends
    for pid in backends:
        os.kill(pid, signal.SIGSTOP)
    try:
        append = asyncio.create_task(store.append(session, Event(author="user")))
        await asyncio.sleep(0.3)
        assert not append.done()
    finally:
        for pid in backends:
            os.kill(pid, signal.SIGCONT)
    assert len((await append).events) == 1
    await lease.release()
    await store.close()


async def test_a_server_that_cuts_all_connections_loses_nothing(server: str) -> None:
    store = PostgresStore(server)
    session = await store.create(KEY)
    session = await store.append(session, Event(author="user"))
    with psycopg.connect(server, autocommit=True) as connection:
        connection.execute(
            "SELECT pg_terminate_backend(pid) FROM pg_stat_activity"
            " WHERE application_name LIKE 'weft %' AND datname = current_database()"
        )
    event = Event(author="user")
    hints: list[str] = []
    for _ in range(3):
        try:
            session = await store.append(session, event)
            break
        except StoreError as error:
            hints.append(error.hint)
    assert all("the next use connects again" in hint for hint in hints)
    read = await store.get(KEY)
    assert read is not None
    assert [one.id for one in read.events][1:] == [event.id]
    await store.close()


async def test_a_blocked_event_loop_leaves_no_connection_without_a_word() -> None:
    """A server that stops waits for who has connected and says nothing, for a minute."""
    heard = threading.Event()
    server = socket.create_server(("127.0.0.1", 0))

    def listen() -> None:
        client, _ = server.accept()
        with client:
            if client.recv(8):
                heard.set()

    thread = threading.Thread(target=listen)
    thread.start()
    connecting = asyncio.create_task(
        postgres_server.connect(f"postgresql://x@127.0.0.1:{server.getsockname()[1]}/x")
    )
    await asyncio.sleep(0)  # it begins
    assert heard.wait(20), "nobody gives the event loop a turn meanwhile"
    with pytest.raises(psycopg.OperationalError):
        await connecting
    thread.join()
    server.close()
