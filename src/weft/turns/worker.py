"""A worker: a process that takes turns from a queue and runs them, next to any number of others.

It can be killed at any time: others notice within about a second and go on with its turns. Told
to stop, it takes no more turns, lets those that run end for a while, and leaves the others to the
next worker, without a word in their logs.

Top to bottom: the worker, what it says of itself to the machines that watch it, what it needs.
"""

import asyncio
import logging
import time
from collections import Counter
from collections.abc import Callable, Sequence
from contextlib import suppress

from weft.errors import StoreError, StoreUnreachable, UsageError, WeftError, describe_kind
from weft.runtime import Runner
from weft.runtime.metrics import MEDIA_TYPE, Metrics
from weft.session import Store
from weft.stores.leases import new_worker
from weft.stores.relay import RelayingStore
from weft.turns.databases import FileDatabase, QueueDatabase, ServerDatabase
from weft.turns.health import STUCK_AFTER, HealthAnswer, HealthServer, LoopPulse, Pages, listen
from weft.turns.liveness import (
    HUNG_AFTER,
    LEAST_HUNG,
    FileLiving,
    Liveness,
    LivingTable,
    ServerLiving,
    WorkerInfo,
    living_workers,
)
from weft.turns.opening import open_turns
from weft.turns.running import ATTEMPTS, TurnRunner
from weft.turns.turn import Living, Turns

_log = logging.getLogger("weft.turns")

DECLARED_DEAD = 3
"""The exit code of a worker that found itself declared dead."""

KEEP_DAYS = 7.0
"""Days for which a turn that is done stays in the queue, unless a worker says otherwise."""

_PRUNE_EVERY = 60.0
"""Seconds between two looks for done turns that are old, where the last one found few."""

_PRUNE_MOST = 1000
"""How many turns are pruned at once: few enough to hold up nobody."""

_PRUNE_SECONDS = 0.5
"""How long a look goes on with that, as long as it finds as many: others recover after it."""

_FIRST_PAUSE = 0.1

_LONGEST_PAUSE = 2.0
"""Seconds between two tries to begin, while the database is away."""

_SCRAPE_LIMIT = 5.0
"""Seconds in which the numbers of the queue must be there."""

_MOST_LETTERS = 1_000
"""How many dead letters are looked at for those that need a person."""

_UNSERVED_EVERY = 60.0
"""Seconds between two looks for turns that nobody will take."""


class Worker:
    """Takes turns of some runners, which share a store, from the queue of that store.

    `slots` is how many turns run at once, `grace` how many seconds they may take to end when the
    worker is told to stop. `attempts` is how often a turn that fails is run. A worker that gives
    no sign of life for `hung` seconds is cut off by the others. A turn that is done stays in the
    queue for `keep` days. A tool may block the event loop for `stuck` seconds until `/health` says
    that the worker is not well.
    """

    def __init__(
        self,
        *runners: Runner,
        engine: str = "inbox",
        slots: int = 16,
        grace: float = 30.0,
        attempts: int = ATTEMPTS,
        hung: float = HUNG_AFTER,
        keep: float = KEEP_DAYS,
        stuck: float = STUCK_AFTER,
        turns: Turns | None = None,
    ) -> None:
        self._runners = {runner.app_name: runner for runner in runners}
        _check(runners, self._runners, slots)
        _check_times(hung, keep)
        self.store: Store = runners[0].store
        self.name = worker_name(self.store)
        self.turns: Turns = turns if turns is not None else open_turns(self.store, engine)
        self._database, self._table = _tables(self.store, self.name)
        self._run = TurnRunner(self._runners, self.turns, attempts=attempts)
        self._slots = slots
        self._grace = grace
        self._hung = hung
        self._keep = keep * 86400.0
        self._stuck = stuck
        self._prune_at = 0.0
        """When to look for old turns again, by the monotonic clock."""
        self._stop = asyncio.Event()
        self._ended = asyncio.Event()
        """It is time to hand over: declared dead, or told to stop a second time."""
        self._liveness: Liveness | None = None
        self._is_working = False

    async def run(
        self,
        *,
        host: str = "127.0.0.1",
        port: int | None = None,
        ready: Callable[[int | None], None] | None = None,
    ) -> int:
        """Work until `stop` is called, and give the exit code.

        With a `port`, `/health`, `/ready` and `/metrics` are answered there; `ready` is called
        with the port when the worker takes turns.
        """
        pulse, server = LoopPulse(), None
        try:
            # first: monitors see that it lives while it waits for the database
            if port is not None:
                server = HealthServer(self._pages(pulse), listen(host, port))
                port = server.port
            if not await self._begin():
                return 0
            if ready is not None:
                ready(port)
            return await self._work()
        finally:
            pulse.stop()
            if server is not None:
                await asyncio.to_thread(server.stop)
            if self._liveness is not None:
                await self._liveness.stop()
            await self.turns.close()
            await self._database.close()
            for runner in self._runners.values():
                await runner.close()

    def stop(self) -> None:
        """Take no more turns, and end; called again, end at once."""
        # the second time: no more grace
        if self._stop.is_set():
            self._ended.set()
        self._stop.set()

    async def _begin(self) -> bool:
        """Open the queue and begin to live, once the database is there; False after a stop."""
        pause = _FIRST_PAUSE
        while not self._stop.is_set():
            try:
                await self._database.open()
                await self.turns.open()
                self._liveness = await self._live()
                # before the first turn: another process may follow it
                if isinstance(self.store, RelayingStore):
                    await self.store.relay.watch()
                return True
            except StoreUnreachable as error:
                _log.warning("the worker waits for its database: %s", error.message)
            with suppress(TimeoutError):
                async with asyncio.timeout(pause):
                    await self._stop.wait()
            pause = min(pause * 2, _LONGEST_PAUSE)
        return False

    async def _live(self) -> Liveness:
        info = WorkerInfo(self.name, tuple(self._runners), self.turns.engine, self._slots, 0.0)

        async def living() -> frozenset[str]:
            return frozenset(one.worker for one in await living_workers(self._database))

        liveness = Liveness(
            self._table,
            info,
            recover=lambda: self._reap(living),
            died=self._declared_dead,
            hung=self._hung,
        )
        await liveness.start()
        return liveness

    async def _reap(self, living: Living) -> int:
        """Hand on the turns of the dead, and now and then delete done turns that are old.

        One worker at a time does it, so no two prune the same turns.
        """
        handed_on = await self.turns.recover(living)
        if time.monotonic() >= self._prune_at:
            self._prune_at = time.monotonic() + await self._prune()
        return handed_on

    async def _prune(self) -> float:
        """Delete done turns that are old, for a while; gives the seconds until the next look."""
        until = time.monotonic() + _PRUNE_SECONDS
        try:
            while await self.turns.prune(keep=self._keep, most=_PRUNE_MOST) >= _PRUNE_MOST:
                if time.monotonic() >= until:
                    return 0.0  # there are more: the next round takes them
        except StoreError as error:
            _log.warning("old turns cannot be pruned: %s", error.message)
        return _PRUNE_EVERY

    def _declared_dead(self) -> None:
        _log.error("%s was declared dead by others, who have its turns: it ends", self.name)
        self._stop.set()
        self._ended.set()

    async def _work(self) -> int:
        self._is_working = True
        working = asyncio.create_task(
            self.turns.work(
                self._run,
                apps=tuple(self._runners),
                worker=self.name,
                slots=self._slots,
                stop=self._stop,
            )
        )
        watching = asyncio.create_task(self._watch_unserved())
        stopping = asyncio.create_task(self._until_over())
        try:
            await asyncio.wait([working, stopping], return_when=asyncio.FIRST_COMPLETED)
            self._is_working = False
            # also when `work` ended by itself: nothing may go on after it
            self._run.hand_over()
            await working
        finally:
            for task in (watching, stopping, working):
                task.cancel()
        return DECLARED_DEAD if self._liveness is not None and self._liveness.is_dead else 0

    async def _until_over(self) -> None:
        """Wait until the turns that still run must be handed over."""
        await self._stop.wait()
        self._is_working = False
        with suppress(TimeoutError):
            async with asyncio.timeout(self._grace):
                await self._ended.wait()

    async def _watch_unserved(self) -> None:
        """Say which turns wait for an app that no worker has, as after an agent was renamed."""
        while True:
            with suppress(StoreError):
                for app, count in (await count_unserved(self.turns, self._database)).items():
                    _log.warning(
                        "%d turns wait for the app `%s`, which no worker has: start one, with"
                        ' Runner(agent, app_name="%s") if its agent has another name now',
                        count,
                        app,
                        app,
                    )
            await asyncio.sleep(_UNSERVED_EVERY)

    def _pages(self, pulse: LoopPulse) -> Pages:
        def ready() -> HealthAnswer:
            liveness = self._liveness
            if self._stop.is_set():
                return HealthAnswer(503, "it is stopping\n")
            if liveness is not None and not liveness.is_beating:
                return HealthAnswer(503, "the database cannot be reached\n")
            if not self._is_working:
                return HealthAnswer(503, "it is starting\n")
            return HealthAnswer(200, "ok\n")

        async def numbers() -> str:
            queue = Metrics()
            await gauge_queue(queue, self.turns)
            return self._metrics(pulse) + queue.text({})

        def metrics() -> HealthAnswer:
            text = pulse.ask(numbers, _SCRAPE_LIMIT)
            # nothing changes the worker's own numbers while the loop stands still
            return HealthAnswer(200, self._metrics(pulse) if text is None else text, MEDIA_TYPE)

        return {
            "/health": lambda: pulse.health(self._stuck),
            "/ready": ready,
            "/metrics": metrics,
        }

    def _metrics(self, pulse: LoopPulse) -> str:
        numbers, run = Metrics(), self._run
        for (app, outcome), count in run.outcomes.items():
            numbers.count("weft_turns_total", count, app=app, outcome=outcome)
        for app, seconds in run.seconds.items():
            numbers.count("weft_turn_seconds_total", seconds, app=app)
        liveness = self._liveness
        if liveness is not None:
            numbers.count("weft_workers_buried_total", liveness.buried)
            numbers.count("weft_turns_recovered_total", liveness.recovered)
        gauges = {
            "weft_worker_slots": self._slots,
            "weft_worker_active": run.active,
            "weft_worker_ready": int(liveness is not None and liveness.is_beating),
            "weft_loop_still_seconds": round(pulse.still_for, 3),
        }
        return numbers.text(gauges) + run.numbers.text({})


async def gauge_queue(numbers: Metrics, turns: Turns) -> None:
    """Set the numbers of a queue: its turns, how long the oldest waits, who needs a person.

    All of them are read before one is set: a number that could not be read is not there.
    """
    try:
        counts, waits = await turns.counts(), await turns.waits()
        letters = await turns.list(status="failed", limit=_MOST_LETTERS)
    except WeftError as error:
        _log.warning("the numbers of the queue cannot be read: %s", error.message)
        numbers.gauge("weft_queue_readable", 0)
        return
    numbers.gauge("weft_queue_readable", 1)
    for (app, status), count in counts.items():
        numbers.gauge("weft_queue_turns", count, app=app, status=status)
    needing = Counter(one.turn.key.app_name for one in letters if one.needs_person)
    # an app of which no turn waits has a number too: an alarm must not find nothing
    for app in {app for app, _ in counts}:
        numbers.gauge("weft_queue_oldest_seconds", round(waits.get(app, 0.0), 3), app=app)
        numbers.gauge("weft_turns_needing_person", needing[app], app=app)


async def served_apps(database: QueueDatabase) -> frozenset[str]:
    """The apps that living workers have."""
    workers = await living_workers(database, within=HUNG_AFTER)
    return frozenset(app for one in workers for app in one.apps)


async def count_unserved(turns: Turns, database: QueueDatabase) -> dict[str, int]:
    """How many turns wait for an app that no living worker has, by that app."""
    served = await served_apps(database)
    counts = await turns.counts()
    return {
        app: count
        for (app, status), count in counts.items()
        if status == "waiting" and count and app not in served
    }


def worker_name(store: Store) -> str:
    """The name of the worker that uses a store: the one that its leases are under, if it has one.

    So the process that declares the worker dead can cut off its leases too.
    """
    name = getattr(store, "worker", None)
    return name if isinstance(name, str) else new_worker()


def queue_database(store: Store, worker: str) -> QueueDatabase:
    """The database of a store, for what is next to the queue in it."""
    return _tables(store, worker)[0]


def _tables(store: Store, worker: str) -> tuple[QueueDatabase, LivingTable]:
    from weft.stores.sqlite import SqliteStore

    if isinstance(store, SqliteStore):
        return FileDatabase(store.path), FileLiving(store.path)
    from weft.stores.postgres import PostgresStore

    if not isinstance(store, PostgresStore):
        raise UsageError(
            f"workers cannot share {describe_kind(store)}",
            where="Worker",
            hint="open the store by its address: sqlite:///weft.db, postgresql://host/database",
        )
    return ServerDatabase(store.address, worker), ServerLiving(store.address)


def _check_times(hung: float, keep: float) -> None:
    if not hung >= LEAST_HUNG:
        raise UsageError(
            f"hung={hung:g}",
            where="Worker",
            hint=f"pass {LEAST_HUNG:g} seconds or more: a busy worker may be silent for one",
        )
    if not keep >= 0:
        raise UsageError(f"keep={keep:g}", where="Worker", hint="pass 0 days or more")


def _check(runners: Sequence[Runner], by_app: dict[str, Runner], slots: int) -> None:
    if not runners:
        raise UsageError(
            "there is nothing to run", where="Worker", hint="pass a runner: Worker(runner)"
        )
    if len(by_app) < len(runners):
        raise UsageError(
            "two runners have the same app",
            where="Worker",
            hint='give one another name: Runner(agent, app_name="...")',
        )
    if any(runner.store is not runners[0].store for runner in runners):
        raise UsageError(
            "the runners have several stores",
            where="Worker",
            hint="open one store and pass it to all: Runner(agent, store=store)",
        )
    if slots < 1:
        raise UsageError(f"slots={slots}", where="Worker", hint="pass 1 or more")
