"""The run itself: turns arrive, faults happen, and the stored logs are judged.

    report = await run_load(LoadPlan(sessions=200, turns=5, workers=3, chaos=("kill",)))

Faults are spread over the progress of a run and not over its time, so that a fast machine has as
many of them as a slow one. Turns wait for faults that are behind, because a worker that was killed
takes its time to start: what comes after the next two faults is not sent before the first of them.
"""

import asyncio
import time
from collections.abc import AsyncGenerator, Callable, Sequence
from contextlib import asynccontextmanager
from functools import partial

from weft.errors import StoreError, UsageError, WeftError
from weft.load import program
from weft.load.drive import Driver, HttpDriver, QueueDriver, RunnerDriver, ServerAddress
from weft.load.plan import APP, LoadPlan, PlannedTurn
from weft.load.report import LoadReport, TurnTimes, cpu_seconds
from weft.load.site import LoadSite
from weft.load.verdict import Counts, find_take_overs, judge_session
from weft.misuse import few
from weft.runtime import Runner
from weft.session import SessionKey
from weft.stores import open_store
from weft.turns import open_turns

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
    plan: LoadPlan, site: LoadSite, runner: Runner | None
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
            hint=f"name one of: {few(apps)}",
        )
    return driver.app


class _Load:
    """One run: which turns were sent and answered, and when."""

    def __init__(
        self, plan: LoadPlan, site: LoadSite, driver: Driver, turns: Sequence[PlannedTurn]
    ) -> None:
        self._plan = plan
        self._site = site
        self._driver = driver
        self._turns = turns
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
        by_session: dict[SessionKey, list[PlannedTurn]] = {}
        for turn in self._turns:
            by_session.setdefault(turn.key, []).append(turn)
        async with asyncio.TaskGroup() as group:
            sending = [group.create_task(self._talk(turns)) for turns in by_session.values()]
            hurting = group.create_task(self._hurt())
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
        return self._places[turn.request_id] < self._due(self._hurt_so_far + 2)

    def _due(self, fault: int) -> float:
        """How many turns are answered when a fault happens, the first being 1."""
        if fault > len(self._kinds):
            return self._plan.total
        return self._plan.total * fault / (len(self._kinds) + 1)

    async def _hurt(self) -> None:
        """One fault after the other, each when its share of the turns is answered."""
        for number, kind in enumerate(self._kinds, 1):
            while len(self._answered) < self._due(number):
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
        by_session: dict[SessionKey, list[PlannedTurn]] = {}
        for turn in self._turns:
            by_session.setdefault(turn.key, []).append(turn)
        failures = self._driver.failures
        room, stored = asyncio.Semaphore(_AT_ONCE), dict[str, float]()

        async def judge_one(key: SessionKey, turns: Sequence[PlannedTurn]) -> None:
            async with room:
                events = await self._driver.log(key)
            stored.update(judge_session(turns, events, effects, counts, failures=failures))

        await asyncio.gather(*(judge_one(key, turns) for key, turns in by_session.items()))
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
            await self._forget(by_session)
        return report

    async def _forget(self, keys: dict[SessionKey, list[PlannedTurn]]) -> None:
        """Delete what a sound run left in a store of others; of an unsound one it is evidence."""
        store = open_store(self._site.store)
        try:
            for key in keys:
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
