"""Workers as real processes: killed, told to stop, declared dead, poisoned; and the commands."""

import asyncio
import json
import os
import signal
import sqlite3
import subprocess
import sys
import urllib.error
import urllib.request
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from pathlib import Path
from uuid import uuid4

import psycopg
import pytest

from tests.cli.run import weft as run_weft
from tests.support.forked import ForkedProgram
from weft.session import SessionKey, Store
from weft.stores import open_store
from weft.turns import TurnInfo, Turns, open_turns
from weft.turns.opening import put_message

ROOT = Path(__file__).parents[2]


class Process:
    """A worker that was started, until the test ends."""

    def __init__(self, process: ForkedProgram, lines: list[str]) -> None:
        self.process = process
        self.lines = lines

    @property
    def address(self) -> str:
        """Where it answers /health."""
        return self.lines[0].rsplit(" ", 1)[1].removesuffix("/health\n")

    def send(self, sign: signal.Signals) -> None:
        """Send it a signal."""
        self.process.send_signal(sign)

    def read(self, path: str) -> tuple[int, str]:
        """What it answers."""
        try:
            with urllib.request.urlopen(self.address + path, timeout=60) as answer:
                return answer.status, answer.read().decode()
        except urllib.error.HTTPError as error:
            with error:
                return error.code, error.read().decode()

    async def says(self, path: str, status: int) -> str:
        """Wait until it answers so; what it says then."""
        async with asyncio.timeout(300):
            while True:
                code, text = await asyncio.to_thread(self.read, path)
                if code == status:
                    return text
                await asyncio.sleep(0.1)

    async def code(self) -> int:
        """Its exit code, once it has ended."""
        async with asyncio.timeout(300):
            while (code := self.process.returncode) is None:  # noqa: ASYNC110
                await asyncio.sleep(0.02)
            return code


class Desk:
    """A queue for the agent of `desk.py`, with the table that it books in."""

    def __init__(self, address: str, engine: str) -> None:
        self.address = address
        self.engine = engine
        self.store: Store = open_store(address)
        self.turns: Turns = open_turns(self.store, engine)
        self.user = f"user-{uuid4().hex}"
        self._processes: list[Process] = []
        self.run_sql("DROP TABLE IF EXISTS bookings")
        self.run_sql("CREATE TABLE bookings (item text)")

    def run_sql(self, statement: str) -> list[tuple[object, ...]]:
        """The rows of a statement, from outside of Weft."""
        if self.address.startswith("sqlite"):
            file = sqlite3.connect(self.address.removeprefix("sqlite:///"), timeout=60)
            with file:
                rows = file.execute(statement).fetchall()
            file.close()
            return rows
        with psycopg.connect(self.address) as connection:
            cursor = connection.execute(statement.encode())
            return cursor.fetchall() if cursor.description is not None else []

    async def put(self, session: str, message: str) -> None:
        """Put a message to a session."""
        key = SessionKey("desk", self.user, session)
        await put_message(self.turns, self.store, key, message, request_id=message)

    async def start(self, *options: str) -> Process:
        """Start a worker, and wait until it takes turns."""
        process = ForkedProgram(
            *("weft", "worker", "tests.turns.desk:desk", "--store", self.address),
            *("--engine", self.engine, "--slots", "4", "--port", "0"),
            *options,
        )
        worker = Process(process, [])
        self._processes.append(worker)
        async with asyncio.timeout(300):
            line = await asyncio.to_thread(process.stdout.readline)
        assert line.startswith("ready: "), line
        worker.lines.append(line)
        return worker

    async def until(self, condition: Callable[[dict[str, TurnInfo]], bool]) -> dict[str, TurnInfo]:
        """Wait until the turns, by their request, are as they should be."""
        async with asyncio.timeout(300):
            while True:
                infos = {
                    info.turn.request_id: info
                    for info in await self.turns.list(app_name="desk", limit=1000)
                }
                if condition(infos):
                    return infos
                await asyncio.sleep(0.05)

    async def close(self) -> None:
        """End all processes, and empty the queue for the next test."""
        for worker in self._processes:
            worker.process.close()
        table = "turns" if self.address.startswith("sqlite") else "weft.turns"
        if self.engine == "procrastinate":
            table = "procrastinate_jobs"
        self.run_sql(f"DELETE FROM {table}")
        await self.turns.close()
        await self.store.close()


@asynccontextmanager
async def desk_at(address: str, engine: str) -> AsyncIterator[Desk]:
    """A desk, until the block ends."""
    store = open_store(address)
    await store.apps()  # the file is made by the store, not by the table of the test
    await store.close()
    desk = Desk(address, engine)
    try:
        yield desk
    finally:
        await desk.close()


@pytest.fixture
async def desk(address: str, place: list[str]) -> AsyncIterator[Desk]:
    """A desk on each kind of database and queue."""
    async with desk_at(address, place[1]) as desk:
        yield desk


@pytest.fixture
async def file_desk(tmp_path: Path) -> AsyncIterator[Desk]:
    """A desk on a SQLite file."""
    async with desk_at(f"sqlite:///{tmp_path}/weft.db", "inbox") as desk:
        yield desk


async def test_turns_of_a_killed_worker_are_finished_by_another_and_nothing_happens_twice(
    desk: Desk,
) -> None:
    first, second = await asyncio.gather(desk.start(), desk.start())
    wanted = [(f"s{session}", f"slow 0.2 {session}/{turn}") for turn in range(3)
              for session in range(5)]  # fmt: skip
    for session, message in wanted:
        await desk.put(session, message)
    await desk.until(lambda infos: any(info.status == "done" for info in infos.values()))
    first.send(signal.SIGKILL)
    await desk.until(
        lambda infos: len(infos) == 15 and all(info.status == "done" for info in infos.values())
    )
    for session in range(5):
        log = await desk.store.get(SessionKey("desk", desk.user, f"s{session}"))
        assert log is not None
        said = [event.text for event in log.events if event.text]
        assert said == [
            text
            for turn in range(3)
            for text in (f"slow 0.2 {session}/{turn}", f"done slow 0.2 {session}/{turn}")
        ]
    booked = sorted(str(item) for (item,) in desk.run_sql("SELECT item FROM bookings"))
    assert booked == sorted(message for _, message in wanted)
    second.send(signal.SIGTERM)
    assert await second.code() == 0


async def test_a_worker_that_is_told_to_stop_leaves_what_does_not_end_to_the_next(
    desk: Desk,
) -> None:
    worker = await desk.start("--grace", "0.1")
    await desk.put("s", "slow 600")
    await desk.until(lambda infos: infos["slow 600"].status == "running")
    worker.send(signal.SIGTERM)
    assert await worker.code() == 0
    infos = await desk.until(lambda infos: True)
    assert infos["slow 600"].status == "waiting"
    assert infos["slow 600"].kills == infos["slow 600"].turn.attempts == 0
    log = await desk.store.get(SessionKey("desk", desk.user, "s"))
    assert log is not None
    assert [event.error_code for event in log.events] == [None], "no word of it in the log"


async def test_a_worker_lets_turns_end_that_do_within_the_grace(
    file_desk: Desk, tmp_path: Path
) -> None:
    worker = await file_desk.start("--grace", "600")
    gate = tmp_path / "gate"
    first, second = f"until {gate} a", f"until {gate} b"
    await file_desk.put("s", first)
    await file_desk.put("s", second)
    await file_desk.until(lambda infos: infos[first].status == "running")
    worker.send(signal.SIGTERM)
    await worker.says("/ready", 503)
    gate.touch()
    assert await worker.code() == 0
    infos = await file_desk.until(lambda infos: True)
    assert [info.status for info in infos.values()] == ["done", "waiting"]


async def test_a_turn_that_kills_three_workers_is_set_aside_and_the_next_goes_on(
    file_desk: Desk,
) -> None:
    await file_desk.put("s", "kill")
    await file_desk.put("s", "live")

    async def replace_the_dead() -> None:
        while True:
            await (await file_desk.start()).code()

    helping = asyncio.create_task(replace_the_dead())
    infos = await file_desk.until(lambda infos: infos["live"].status == "done")
    helping.cancel()
    assert infos["kill"].status == "failed"
    assert infos["kill"].kills == 3
    assert infos["kill"].reason == "3 workers died while they ran it"


async def test_turns_beside_one_that_kills_its_workers_are_answered(
    file_desk: Desk, tmp_path: Path
) -> None:
    messages = ["slow 1 a", "kill", "slow 1 b", "slow 1 c"]
    for at, message in enumerate(messages):
        await file_desk.put(f"s{at}", message)  # one worker takes all four at once

    async def nobody() -> frozenset[str]:
        return frozenset()

    for _ in range(2):
        await (await file_desk.start()).code()
        await file_desk.turns.recover(nobody)
    listed = await asyncio.to_thread(
        run_weft, tmp_path, "turns", "list", "--store", file_desk.address
    )
    (line,) = (line for line in listed.stdout.splitlines() if "kill" in line)
    assert line.endswith("2 workers died while they ran it: it runs alone")
    deaths = 2

    async def replace_the_dead() -> None:
        nonlocal deaths
        while True:
            await (await file_desk.start()).code()
            deaths += 1

    helping = asyncio.create_task(replace_the_dead())
    infos = await file_desk.until(
        lambda infos: not {info.status for info in infos.values()} & {"waiting", "running"}
    )
    helping.cancel()
    assert {name: info.status for name, info in infos.items()} == {
        message: "failed" if message == "kill" else "done" for message in messages
    }
    assert deaths == 3
    booked = sorted(str(item) for (item,) in file_desk.run_sql("SELECT item FROM bookings"))
    assert booked == sorted(messages[:1] + messages[2:])


async def test_a_worker_that_was_declared_dead_ends(desk: Desk) -> None:
    worker = await desk.start()
    table = "turn_workers" if desk.address.startswith("sqlite") else "weft.turn_workers"
    name = worker.lines[0].split()[1]
    desk.run_sql(f"DELETE FROM {table} WHERE worker = '{name}'")
    assert await worker.code() == 3


async def test_a_worker_says_how_it_is(file_desk: Desk) -> None:
    worker = await file_desk.start()
    await file_desk.put("s", "lamp")
    await file_desk.until(lambda infos: infos["lamp"].status == "done")

    assert await asyncio.to_thread(worker.read, "/health") == (200, "ok\n")
    assert await worker.says("/ready", 200) == "ok\n"
    assert (await asyncio.to_thread(worker.read, "/other"))[0] == 404
    status, text = await asyncio.to_thread(worker.read, "/metrics")
    assert status == 200
    assert 'weft_turns_total{app="desk",outcome="done"} 1' in text
    assert 'weft_queue_turns{app="desk",status="done"} 1' in text
    assert "weft_worker_slots 4" in text
    worker.send(signal.SIGINT)
    assert await worker.code() == 0


async def test_a_tool_that_blocks_the_worker_does_not_fail_its_health(
    file_desk: Desk, tmp_path: Path
) -> None:
    worker = await file_desk.start("--stuck", "9")
    go = tmp_path / "go"
    await file_desk.put("s", f"block {go}")

    async def health() -> tuple[int, str]:
        return await asyncio.to_thread(worker.read, "/health")

    async with asyncio.timeout(120):
        while "but a tool blocks the event loop" not in (answer := await health())[1]:
            assert answer == (200, "ok\n")
        assert answer[0] == 200
        assert await asyncio.to_thread(worker.read, "/ready") == (200, "ok\n")
        status, text = await asyncio.to_thread(worker.read, "/metrics")
        assert (status, "weft_worker_active 1" in text) == (200, True)
        assert float(text.split("\nweft_loop_still_seconds ")[1].split("\n")[0]) > 5
        # for good it is not well
        while (await health())[0] == 200:  # noqa: ASYNC110
            await asyncio.sleep(0.1)
        assert "has stood still for" in (await health())[1]
    go.touch()
    await file_desk.until(lambda infos: infos[f"block {go}"].status == "done")
    assert await worker.says("/health", 200) == "ok\n"
    worker.send(signal.SIGTERM)
    assert await worker.code() == 0


async def test_a_worker_logs_json_on_request(file_desk: Desk) -> None:
    process = await asyncio.create_subprocess_exec(
        *(sys.executable, "-m", "weft", "worker", "tests.turns.desk:desk"),
        *("--store", "env:DESK_STORE", "--attempts", "1", "--log-format", "json"),
        cwd=ROOT,
        env={**os.environ, "PYTHONPATH": str(ROOT / "src"), "DESK_STORE": file_desk.address},
        stdout=asyncio.subprocess.PIPE,
        stderr=asyncio.subprocess.PIPE,
    )
    await file_desk.put("s", "slow x")
    await file_desk.until(lambda infos: infos["slow x"].status == "failed")
    process.terminate()
    out, err = await process.communicate()
    lines = [json.loads(line) for line in (out + err).decode().splitlines()]
    assert all(set(one) >= {"time", "level", "logger", "message"} for one in lines)
    assert [one["message"] for one in lines if one["message"].startswith("ready: ")]
    (failed,) = (one for one in lines if "failed: " in one["message"])
    assert (failed["level"], failed["logger"]) == ("WARNING", "weft.turns")
    (raised,) = (one for one in lines if "the model raised" in one["message"])
    assert "ValueError" in raised["message"]


async def test_a_running_turn_is_cancelled_by_command_and_can_be_retried(
    file_desk: Desk, tmp_path: Path
) -> None:
    worker = await file_desk.start("--grace", "0.1")
    await file_desk.put("s", "slow 600")
    infos = await file_desk.until(lambda infos: infos["slow 600"].status == "running")
    id = infos["slow 600"].turn.id

    async def weft(*arguments: str) -> "subprocess.CompletedProcess[str]":
        options = ("--store", file_desk.address)
        return await asyncio.to_thread(run_weft, tmp_path, "turns", *arguments, *options)

    shown = await weft("show", id)
    assert "message: slow 600" in shown.stdout
    assert "status: running" in shown.stdout
    assert (await weft("cancel", id)).stdout == f"turn {id} was stopped\n"
    await file_desk.until(lambda infos: infos["slow 600"].status == "cancelled")
    refused = await weft("cancel", id)
    assert refused.returncode == 2
    assert "is cancelled" in refused.stderr
    worker.send(signal.SIGTERM)
    await worker.code()
    assert (await weft("retry", id)).stdout == f"turn {id} waits again\n"
    listed = await weft("list")
    assert "waiting" in listed.stdout
    assert "1 wait for the app `desk`, which no worker has" in listed.stderr
    rows = json.loads((await weft("list", "--json", "--status", "waiting")).stdout)
    assert [row["request"] for row in rows] == ["slow 600"]
    wrong = await weft("list", "--status", "finished")
    assert "no turn is `finished`" in wrong.stderr
    assert "there is no turn `77`" in (await weft("show", "77")).stderr


async def test_a_worker_prunes_what_is_done_and_a_request_that_comes_again_is_answered_once(
    file_desk: Desk,
) -> None:
    await file_desk.put("s", "lamp")
    first = await file_desk.start()
    await file_desk.until(lambda infos: infos["lamp"].status == "done")
    first.send(signal.SIGTERM)
    assert await first.code() == 0
    assert len(await file_desk.turns.list()) == 1  # it keeps them for a week
    await file_desk.start("--keep", "0")
    await file_desk.until(lambda infos: not infos)
    await file_desk.put("s", "lamp")
    await file_desk.until(lambda infos: "lamp" in infos and infos["lamp"].status == "done")
    assert file_desk.run_sql("SELECT item FROM bookings") == [("lamp",)]
    events = await file_desk.store.events(SessionKey("desk", file_desk.user, "s"))
    assert [event.text for event in events or () if event.author == "user"].count("lamp") == 1


@pytest.mark.parametrize("place", [["postgres", "inbox"]])
async def test_a_worker_that_hangs_is_cut_off_after_the_seconds_of_another(desk: Desk) -> None:
    # the one that notices says how long: of itself, the other would be left alone for an hour
    hanging = await desk.start("--hung", "3600")
    await desk.put("s", "slow 600")
    await desk.until(lambda infos: infos["slow 600"].status == "running")
    (name,) = {info.worker for info in await desk.turns.list(app_name="desk", status="running")}
    hanging.send(signal.SIGSTOP)
    other = await desk.start("--hung", "2")
    await desk.until(lambda infos: infos["slow 600"].worker not in ("", name))
    hanging.send(signal.SIGCONT)
    assert await hanging.code() == 3
    other.send(signal.SIGKILL)


def test_what_a_worker_cannot_work_with_is_said_in_one_line(tmp_path: Path) -> None:
    (tmp_path / "bot.py").write_text("from weft import Agent\nbot = Agent('bot')\n")
    cases = {
        ("bot:bot", "--store", "redis://localhost"): "is not the address of a store",
        ("bot:bot", "--store", "memory://"): "a queue is for several processes",
        ("bot:bot", "--engine", "celery"): "there is no engine `celery`",
        ("bot:bot", "--engine", "procrastinate"): "procrastinate needs PostgreSQL",
        ("bot:bot", "--keep", "-1"): "--keep",
        ("bot:bot", "--hung", "1"): "hung=1",
        ("nothing:bot",): "nothing",
    }
    for arguments, words in cases.items():
        result = run_weft(tmp_path, "worker", *arguments)
        assert (result.returncode, words in result.stderr) == (2, True), result.stderr
        assert "Traceback" not in result.stderr
