"""Runs that are killed with SIGKILL, and resumed in new processes until they are done.

What is promised: nothing that was acknowledged is lost or done again, and the log of a run that
was killed at any moments is the log of one that was not. Set WEFT_KILLS for more kills.
"""

import asyncio
import json
import os
import random
import signal
import sqlite3
import subprocess
import sys
import time
from collections.abc import Iterator
from itertools import count, pairwise
from pathlib import Path
from typing import NamedTuple
from uuid import uuid4

import msgspec
import psycopg
import pytest

from tests.runtime.journal import Line, read
from tests.runtime.kill_worker import BUILT_IN, Job, artifacts_of, key_of
from tests.runtime.logs import by_place, check_log
from tests.support.limits import begin_limit_again
from weft import Event, Session
from weft.runtime.place import path_of
from weft.session.lookback import CONFIRMATION
from weft.session.strand import Strand
from weft.stores import open_artifacts, open_store
from weft.stores.memories import Memory

KILLS = int(os.environ.get("WEFT_KILLS", "12"))
KILLED = -signal.SIGKILL
ROOT = Path(__file__).parents[2]


class Worker:
    """A process that starts, kills and buries others."""

    def __init__(self) -> None:
        self._process = subprocess.Popen(
            [sys.executable, "-m", "tests.runtime.kill_worker"],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            text=True,
            cwd=ROOT,
            env={**os.environ, "PYTHONPATH": os.pathsep.join(("src", "."))},
        )

    def do(self, job: Job) -> int:
        """How the job's process ended: 0, or KILLED."""
        assert self._process.stdin is not None
        assert self._process.stdout is not None
        self._process.stdin.write(msgspec.json.encode(job).decode() + "\n")
        self._process.stdin.flush()
        ended = json.loads(self._process.stdout.readline())
        assert ended in (0, KILLED), f"{job} ended with {ended}"
        return int(ended)

    def close(self) -> None:
        """Let it go."""
        self._process.communicate()


@pytest.fixture(scope="module")
def worker() -> Iterator[Worker]:
    worker = Worker()
    yield worker
    worker.close()
    while _CONNECTIONS:
        _CONNECTIONS.popitem()[1].close()


@pytest.fixture(params=["sqlite", "postgres"])
def address(request: pytest.FixtureRequest, tmp_path: Path) -> str:
    """A store with a table of a tool's own beside it."""
    if request.param == "sqlite":
        address = f"sqlite:///{tmp_path}/weft.db"
    else:
        address = str(request.getfixturevalue("postgres_url"))

    async def make() -> None:
        store = open_store(address)
        await store.sessions("any")
        await store.close()

    asyncio.run(make())
    _execute(address, "CREATE TABLE IF NOT EXISTS bookings (call_id TEXT, what TEXT)")
    return address


_CONNECTIONS: dict[str, psycopg.Connection] = {}
"""The server starts a process for each connection: one serves all tests."""


def _execute(address: str, statement: str) -> list[tuple[str, ...]]:
    if address.startswith("sqlite"):
        connection = sqlite3.connect(address.removeprefix("sqlite:///"))
        try:
            with connection:
                return connection.execute(statement).fetchall()
        finally:
            connection.close()
    if address not in _CONNECTIONS:
        _CONNECTIONS[address] = psycopg.connect(address, autocommit=True)
    cursor = _CONNECTIONS[address].execute(statement.encode())
    return cursor.fetchall() if cursor.description else []


def _bury(address: str) -> None:
    """Wait until the server has ended what a killed process had begun there."""
    others = """SELECT backend_type FROM pg_stat_activity WHERE datname = current_database()
        AND pid <> pg_backend_pid() AND backend_type = 'client backend'"""
    for _ in range(10_000):
        if not _execute(address, others):
            return
        time.sleep(0.005)
    raise AssertionError("somebody else is still connected")


class Trial:
    """One session, attempted until it is done, and everything that is known about it."""

    def __init__(self, worker: Worker, address: str, folder: Path, scenario: str) -> None:
        self._worker = worker
        self._address = address
        self._scenario = scenario
        self._attempts = count()
        self.session = uuid4().hex
        self._journal = folder / self.session

    def attempt(self, **options: object) -> int:
        """Run or resume in a new process."""
        job = Job(
            self._address,
            self.session,
            str(self._journal),
            self._scenario,
            next(self._attempts),
            **options,  # type: ignore[arg-type]
        )
        ended = self._worker.do(job)
        if ended == KILLED and not self._address.startswith("sqlite"):
            _bury(self._address)
        return ended

    @property
    def lines(self) -> list[Line]:
        """The side journal."""
        return list(read(self._journal))

    @property
    def log(self) -> Session:
        """The session as it is stored."""

        async def get() -> Session:
            store = open_store(self._address)
            session = await store.get(key_of(self.session))
            await store.close()
            assert session is not None
            return session

        return asyncio.run(get())

    def booked(self, call: str) -> int:
        """How many rows a call has left in the tool's own table."""
        rows = f"SELECT call_id FROM bookings WHERE call_id = '{self.marked(call)}'"
        return len(_execute(self._address, rows))

    def marked(self, call: str) -> str:
        """The call as the table knows it, which sessions share."""
        return f"{self.session} {call}"

    @property
    def notes(self) -> list[tuple[str, ...]]:
        """What is in the memory of the session's user: the texts of each entry."""

        async def get() -> list[tuple[str, ...]]:
            memory = Memory(self._address)
            entries = await memory.entries(*key_of(self.session)[:2])
            await memory.close()
            return [entry.texts for entry in entries]

        return asyncio.run(get())

    @property
    def artifacts(self) -> dict[str, list[int]]:
        """The versions of the session's artifacts."""

        async def get() -> dict[str, list[int]]:
            stored, owner = open_artifacts(artifacts_of(str(self._journal))), key_of(self.session)
            names = await stored.names(*owner)
            return {name: await stored.versions(*owner, name) for name in names}

        return asyncio.run(get())

    @property
    def events(self) -> Strand[Event]:
        """The events that are stored."""
        return self.log.events

    def times(self, what: str, call: str) -> int:
        """How often the journal says this of a call."""
        return sum(line.what == what and line.call == call for line in self.lines)

    def about(self, what: str, key: str) -> list[str]:
        """What the journal says of one kind of line, in order."""
        return [str(line.about[key]) for line in self.lines if line.what == what]


def check(trial: Trial, reference: Session) -> None:
    """Everything that is promised about a session whose run is done."""
    log, lines = trial.log, trial.lines
    ids = [event.id for event in log.events]
    acknowledged = [id for line in lines if line.what == "acknowledged" for id in line.ids]
    stored = [id for line in lines if line.what == "stored" for id in line.ids]

    check_log(log)
    assert [id for id in ids if id in set(acknowledged)] == acknowledged, "lost, or out of order"
    assert not set(stored) - set(ids), "lost after append had returned"
    assert not again(lines, "began", "calls"), "a call with a stored result was made again"
    assert not again(lines, "asked", "keys"), "a request with a stored answer was made again"

    assert by_place(log) == by_place(reference)
    assert log.state == reference.state
    top = [int(path_of(e).split("/")[1].split("@")[1]) for e in log.events if "/" in path_of(e)]
    assert top == sorted(top), "the steps of the sequence overlap"


def again(lines: list[Line], what: str, settled_by: str) -> list[str]:
    """What was done once more after the store had said that it has what came of it."""
    settled: set[str] = set()
    found: list[str] = []
    failed: set[str] = set()
    for line in lines:
        if line.what == "stored":
            settled |= set(line.about[settled_by])  # type: ignore[call-overload]
        elif line.what == "acknowledged" and line.about["error"] not in (None, "unknown_outcome"):
            failed.add(str(line.about["author"]))
        elif line.what == what:
            name = str(line.about.get("key") or line.call)
            if name in settled or line.about.get("agent") in failed:
                found.append(name)
    return found


def test_a_run_killed_again_and_again_ends_as_if_nothing_had_happened(
    worker: Worker, address: str, tmp_path: Path, pytestconfig: pytest.Config
) -> None:
    calm = Trial(worker, address, tmp_path, "flow")
    assert calm.attempt() == 0
    reference, length = calm.log, len(calm.lines)
    check(calm, reference)
    assert len(calm.about("asked", "key")) + len(calm.about("began", "call")) > 100

    chance = random.Random(f"weft {KILLS}")
    kills = trials = 0
    moments: list[int] = []
    while kills < KILLS:
        begin_limit_again(pytestconfig)
        trial = Trial(worker, address, tmp_path, "flow")
        trials += 1
        while kills < KILLS:
            soon = chance.randint(1, length // 4)
            how = chance.choice(
                [
                    {"kill_after": soon},
                    {"kill_after": soon, "delay": chance.uniform(0, 0.005)},
                    {"kill_at": chance.uniform(0.02, 0.4)},
                ]
            )
            if trial.attempt(**how) != KILLED:
                break
            kills += 1
            moments.append(len(trial.lines))
        else:
            assert trial.attempt() == 0
        check(trial, reference)
        assert trial.about("done", "text")[-1] == calm.about("done", "text")[-1]
        for call in {line.call for line in trial.lines if line.what == "wrote"}:
            assert trial.booked(call) == 1
    print(f"{kills} kills in {trials} runs of {length} moments, at {sorted(moments)}")


THOROUGH = KILLS >= 200
PLACES = ["solo", "batch", "inside", "code"] if THOROUGH else ["batch"]
"""Where the call stands: alone in its reply, among others, in an agent that is a tool, in code."""


class Killed(NamedTuple):
    """A trial that was killed once, and what the log had of the call by then."""

    trial: Trial
    call: str
    started: bool
    settled: bool


def killed(worker: Worker, address: str, tmp_path: Path, scenario: str) -> Iterator[Killed]:
    """Trials of a scenario, each killed at another moment around its call."""
    calm = Trial(worker, address, tmp_path, scenario)
    assert calm.attempt() == 0
    lines = calm.lines
    call = next(line.call for line in lines if line.what in ("happened", "wrote"))
    first = next(n for n, line in enumerate(lines) if line.call == call)
    last = next(n for n, line in enumerate(lines) if call in line.about.get("calls", ()))  # type: ignore[operator]
    around = (2, *range(first - 1, last + 3), len(lines) - 1)
    moments = range(1, len(lines)) if THOROUGH else sorted(set(around))
    for moment in moments:
        trial = Trial(worker, address, tmp_path, scenario)
        if trial.attempt(kill_after=moment) != KILLED:
            continue  # calls that end at once are recorded at once: it had fewer moments
        events = trial.events
        records = [(e.custom_metadata or {}).get("weft") for e in events]
        yield Killed(
            trial,
            call,
            started=any(isinstance(r, dict) and r.get("started") == [call] for r in records),
            settled=any(isinstance(r, dict) and call in r.get("outcomes", {}) for r in records)  # type: ignore[operator]
            or any(result.id == call for e in events for result in e.results),
        )
        assert trial.about("done", "text")[-1] == calm.about("done", "text")[-1]
        assert not again(trial.lines, "began", "calls")
        assert not again(trial.lines, "asked", "keys")


@pytest.mark.parametrize("where", PLACES)
@pytest.mark.parametrize("effect", ["pure", "idempotent"] if THOROUGH else ["idempotent"])
def test_a_call_in_flight_is_made_again_with_the_same_id(
    worker: Worker, address: str, tmp_path: Path, where: str, effect: str
) -> None:
    times: set[int] = set()
    for trial, call, _, settled in killed(worker, address, tmp_path, f"{where} {effect}"):
        assert trial.attempt() == 0
        begun = trial.times("began", call)
        assert begun == 1 if settled else begun in (1, 2)
        times.add(begun)
    assert times == {1, 2}


@pytest.mark.parametrize("where", PLACES)
def test_a_transactional_tool_writes_its_row_with_its_result_or_not_at_all(
    worker: Worker, address: str, tmp_path: Path, where: str
) -> None:
    for trial, call, _, settled in killed(worker, address, tmp_path, f"{where} transactional"):
        assert trial.booked(call) == int(settled)
        assert trial.attempt() == 0
        assert trial.booked(call) == 1


@pytest.mark.parametrize("where", PLACES if THOROUGH else ["batch", "code"])
def test_a_call_is_approved_once_and_made_once_with_the_arguments_approved(
    worker: Worker, address: str, tmp_path: Path, where: str
) -> None:
    for trial, call, _, _ in killed(worker, address, tmp_path, f"{where} approved"):
        assert trial.attempt() == 0
        rows = f"SELECT what FROM bookings WHERE call_id = '{trial.marked(call)}'"
        assert _execute(address, rows) == [("approved",)]
        log = trial.log
        questions = [one for e in log.events for one in e.calls if one.name == CONFIRMATION]
        answers = [one for e in log.events for one in e.results if one.name == CONFIRMATION]
        assert (len(questions), len(answers)) == (1, 1)
        assert log.waiting == {}


def test_a_call_that_untrusted_text_had_influence_on_is_made_once_after_a_yes(
    worker: Worker, address: str, tmp_path: Path
) -> None:
    """Killed with the question open, while the answer is stored, and in the call itself."""
    calm = Trial(worker, address, tmp_path, "misled doubted")
    assert calm.attempt() == 0
    (asked,) = (n for n, line in enumerate(calm.lines) if line.what == "answering")
    (wrote,) = (n for n, line in enumerate(calm.lines) if line.what == "wrote")
    call = calm.lines[wrote].call
    for moment in range(1, len(calm.lines)) if THOROUGH else (asked, asked + 2, wrote + 1):
        trial = Trial(worker, address, tmp_path, "misled doubted")
        assert trial.attempt(kill_after=moment) == KILLED
        if moment == asked:
            assert list(trial.log.waiting) == [call]
            assert trial.booked(call) == 0
        assert trial.attempt() == 0
        assert trial.booked(call) == 1
        log = trial.log
        questions = [one for e in log.events for one in e.calls if one.name == CONFIRMATION]
        answers = [one for e in log.events for one in e.results if one.name == CONFIRMATION]
        assert (len(questions), len(answers)) == (1, 1)
        assert log.waiting == {}


@pytest.mark.parametrize("scenario", BUILT_IN)
def test_what_was_remembered_and_what_code_wrote_is_there_once(
    worker: Worker, address: str, tmp_path: Path, scenario: str
) -> None:
    if scenario == "coder" and not address.startswith("sqlite") and not THOROUGH:
        return  # its files lie beside no server
    calm = Trial(worker, address, tmp_path, scenario)
    assert calm.attempt() == 0
    reference, length = calm.log, len(calm.lines)
    check_log(reference)
    lines = [line.what for line in calm.lines]
    called = lines.index("began")  # the tools are called at once, and code takes a while
    appending = (n + 1 for n, what in enumerate(lines) if what == "appending")
    chosen = {1, called, called + 1, *appending}
    moments = range(1, length) if THOROUGH else sorted(chosen)
    for moment in moments:
        trial = Trial(worker, address, tmp_path, scenario)
        delay = 0.03 if moment == called + 1 else 0.0
        if trial.attempt(kill_after=moment, delay=delay) == KILLED:
            assert trial.attempt() == 0
        assert trial.about("done", "text")[-1] == calm.about("done", "text")[-1]
        assert not again(trial.lines, "asked", "keys")
        assert by_place(trial.log) == by_place(reference)
        if scenario == "keeper":
            assert [len(texts) for texts in trial.notes] == [1, 1]
        else:
            assert trial.artifacts == {"out.txt": [0]}


def test_a_session_that_folds_is_killed_between_any_two_steps_and_sends_the_same_bytes(
    worker: Worker, address: str, tmp_path: Path
) -> None:
    calm = Trial(worker, address, tmp_path, "reader")
    assert calm.attempt() == 0
    asked = calm.about("asked", "key")  # a key has the digest of its request
    lines, reference = [line.what for line in calm.lines], calm.log
    each = [at for at, what in enumerate(lines) if what == "asked"]
    spacing = max(after - before for before, after in pairwise(each))
    moments = range(2, len(lines)) if THOROUGH else (3 * spacing + 1,)
    for moment in moments:
        trial, kills = Trial(worker, address, tmp_path, "reader"), 0
        # each process is killed a little further on in its step than the one before it
        while trial.attempt(kill_after=moment + kills % spacing) == KILLED and kills < len(asked):
            kills += 1
        assert trial.attempt() == 0
        assert kills >= len(lines) // (moment + spacing) // 2
        assert list(dict.fromkeys(trial.about("asked", "key"))) == asked
        assert by_place(trial.log) == by_place(reference)
    folded = [turn for one in asked if (turn := int(one.split("-")[1])) != asked.index(one)]
    assert folded == [], "what was folded was not counted"


@pytest.mark.parametrize("where", PLACES)
def test_a_probe_is_asked_and_what_happened_does_not_happen_again(
    worker: Worker, address: str, tmp_path: Path, where: str
) -> None:
    probed: set[int] = set()
    for trial, call, started, settled in killed(worker, address, tmp_path, f"{where} probe"):
        assert trial.attempt() == 0
        assert trial.times("happened", call) == 1
        assert trial.times("probed", call) == (1 if started and not settled else 0)
        probed.add(trial.times("probed", call))
    assert probed == {0, 1}


@pytest.mark.parametrize("where", PLACES if THOROUGH else ["inside", "code"])
@pytest.mark.parametrize("then", ["answer", "retry"])
def test_an_unsafe_call_in_doubt_waits_for_a_word_and_is_never_made_again_unasked(
    worker: Worker, address: str, tmp_path: Path, where: str, then: str
) -> None:
    doubts: set[bool] = set()
    for trial, call, started, settled in killed(worker, address, tmp_path, f"{where} unsafe"):
        doubt = started and not settled
        doubts.add(doubt)
        assert trial.attempt() == 0
        if doubt:
            begun = trial.times("began", call)
            events = trial.events
            codes = [event.error_code for event in events if event.error_code]
            assert codes == ["unknown_outcome"]
            assert trial.about("done", "text")[-1] == ""
            length = len(events)
            assert trial.attempt() == 0, "nothing changes as long as nobody says anything"
            assert (trial.times("began", call), len(trial.events)) == (begun, length)
            if then == "retry":
                assert trial.attempt(retry=[call]) == 0
                assert trial.times("began", call) == begun + 1
            else:
                assert trial.attempt(answers={call: f"{call} is done"}) == 0
                assert trial.times("began", call) == begun
        assert trial.times("began", call) <= (2 if then == "retry" else 1)
    assert doubts == {False, True}
