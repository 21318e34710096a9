"""What every queue of turns must survive, on each of them: nothing lost, twice or out of order.

Workers are processes. Where a fault must hit is not left to chance: a worker is held up at that
place (see `child.py`), hit, and let go. Afterwards the logs and the rows that tools left are
judged as `weft load` judges them. At the end `weft load` itself runs: 20 sessions, or as many as
WEFT_CHAOS says, 200 for example; with so many, stops are 15 s long and there are 3 rounds.
"""

import asyncio
import os
import signal
from collections.abc import AsyncIterator, Iterator
from pathlib import Path
from uuid import uuid4

import psycopg
import pytest

from tests.turns.child import APP, Child, until
from weft.content import to_content
from weft.load import LoadPlan, run_load
from weft.load.plan import PlannedTurn
from weft.load.program import count_effects, make_table
from weft.load.report import Counts, judge_session
from weft.load.site import OwnedDatabase
from weft.session import SessionKey
from weft.stores import open_store
from weft.turns import ENGINES, QueuedTurn, Turns, open_turns


@pytest.fixture(scope="module")
def server() -> Iterator[OwnedDatabase]:
    """A PostgreSQL that these tests may stop."""
    server = OwnedDatabase()
    yield server
    server.close()


class Shop:
    """One test's part of the database: turns are put, workers run them, the logs are judged."""

    def __init__(self, server: OwnedDatabase, engine: str, folder: Path, lease: str) -> None:
        self.server = server
        self.engine = engine
        self.address = f"{server.address}&weft_lease_timeout={lease}"
        self.store = open_store(self.address)
        self.turns: Turns = open_turns(self.store, engine)
        self.run = uuid4().hex[:8]
        self.children: list[Child] = []
        self.folder = folder
        self._planned: dict[SessionKey, list[PlannedTurn]] = {}

    async def worker(self, *holds: str, slots: int = 4) -> Child:
        """A worker that is ready, and will be held up at these stages."""
        name = f"{self.run}-w{len(self.children) + 1}"
        child = Child(self.address, self.engine, self.folder, name, slots)
        self.children.append(child)
        for stage in holds:
            child.hold(stage)
        child.start()
        await child.ready()
        return child

    async def put(self, session: str, number: int) -> tuple[str, bool]:
        """Put the message of that number; the request, and whether it is new."""
        turn = self.plan(session, number)
        return turn.request_id, await self.turns.put(as_turn(turn))

    def plan(self, session: str, number: int) -> PlannedTurn:
        """The turn of that number, which is to be there once in the end."""
        id = f"{self.run}-{session}"
        request = f"{id}-t{number}"
        turn = PlannedTurn(SessionKey(APP, "ada", id), number, request, request, 0.0)
        planned = self._planned.setdefault(turn.key, [])
        if turn not in planned:
            planned.append(turn)
        return turn

    def forget(self, turn: PlannedTurn) -> None:
        """Do not judge the session of a turn that is never answered."""
        del self._planned[turn.key]

    async def recover(self, *living: Child) -> None:
        """Hand on the turns of all workers but these, as somebody does again and again."""

        async def names() -> frozenset[str]:
            return frozenset(child.name for child in living)

        await self.turns.recover(names)

    async def done(self, *living: Child) -> None:
        """Wait until all turns are done, while the dead are looked for."""
        keys = [(turn.key, turn.request_id) for turns in self._planned.values() for turn in turns]
        async with asyncio.timeout(300):
            for key, request in keys:
                while (info := await self.turns.find(key, request)) is None or (
                    info.status != "done"
                ):
                    assert info is None or info.status in ("waiting", "running"), info
                    await self.recover(*living)
                    await asyncio.sleep(0.05)

    async def judge(self) -> None:
        """Each message, answer and effect is there once, in the order in which it was put."""
        counts = Counts()
        effects = await count_effects(self.address, self.run)
        for key, turns in self._planned.items():
            events = await self.store.events(key) or []
            judge_session(turns, events, effects, counts)
        assert not counts.total, counts

    async def close(self) -> None:
        for child in self.children:
            child.end()
        await self.turns.close()
        await self.store.close()


def as_turn(planned: PlannedTurn) -> QueuedTurn:
    return QueuedTurn(
        key=planned.key, request_id=planned.request_id, message=to_content(planned.message)
    )


@pytest.fixture(params=ENGINES)
def engine(request: pytest.FixtureRequest) -> str:
    return str(request.param)


@pytest.fixture
def lease() -> str:
    """Seconds of silence after which a worker's sessions are taken from it."""
    return "none"


@pytest.fixture
async def shop(
    server: OwnedDatabase, engine: str, tmp_path: Path, lease: str
) -> AsyncIterator[Shop]:
    """A shop without workers."""
    shop = Shop(server, engine, tmp_path, lease)
    await make_table(shop.address, shop.store)
    await shop.turns.open()
    yield shop
    await shop.close()


async def test_a_killed_worker(shop: Shop) -> None:
    one = await shop.worker("model")
    for session in ("a", "b"):
        for number in range(3):
            await shop.put(session, number)
    await one.until("asked", f"{shop.run}-a-t0")
    await one.until("asked", f"{shop.run}-b-t0")
    two = await shop.worker()
    one.signal(signal.SIGKILL)
    await shop.done(two)
    await shop.judge()


@pytest.mark.parametrize("lease", ["2"])
async def test_a_stopped_worker_whose_sessions_are_taken_from_it(shop: Shop) -> None:
    """Its connections are ended after two seconds of silence; when it wakes, it writes nothing."""
    one = await shop.worker("model")
    await shop.put("a", 0)
    await one.until("asked", f"{shop.run}-a-t0")
    two = await shop.worker()
    one.signal(signal.SIGSTOP)
    await shop.put("a", 1)
    await shop.done(two)
    one.let_go("model")
    one.signal(signal.SIGCONT)
    await one.until("ended", f"{shop.run}-a-t0")
    await shop.judge()


async def test_a_stopped_worker_that_goes_on(shop: Shop) -> None:
    """Nobody takes its sessions from it; its successor waits for it, and repeats nothing."""
    one = await shop.worker("model")
    await shop.put("a", 0)
    await one.until("asked", f"{shop.run}-a-t0")
    two = await shop.worker()
    one.signal(signal.SIGSTOP)
    await shop.put("a", 1)
    await shop.recover(two)
    await two.until("taken", f"{shop.run}-a-t0")
    one.let_go("model")
    one.signal(signal.SIGCONT)
    await shop.done(one, two)
    await shop.judge()


async def test_a_worker_that_is_stopped_between_look_and_run(shop: Shop) -> None:
    """It has a turn in its hands when another has answered that one and the next two already."""
    one = await shop.worker("before")
    for number in range(3):
        await shop.put("a", number)
    await one.until("taken", f"{shop.run}-a-t0")
    one.signal(signal.SIGSTOP)
    two = await shop.worker()
    await shop.done(two)
    one.let_go("before")
    one.signal(signal.SIGCONT)
    await one.until("ended", f"{shop.run}-a-t0")
    await shop.judge()


async def test_a_server_that_is_gone_while_a_status_is_written(shop: Shop) -> None:
    """The turn is over, its end is to be written, and there is no server; then there is again."""
    one = await shop.worker("after")
    await shop.put("a", 0)
    await shop.put("a", 1)
    await one.until("ended", f"{shop.run}-a-t0")
    await asyncio.to_thread(shop.server.stop)
    one.let_go("after")
    await asyncio.sleep(0.5)  # it tries meanwhile
    await asyncio.to_thread(shop.server.start)
    await until_reachable(shop)
    await shop.done(one)
    await shop.judge()


async def until_reachable(shop: Shop) -> None:
    """The first use of a connection from before says that it broke."""
    async with asyncio.timeout(60):
        while True:
            try:
                await shop.turns.counts()
                await shop.store.apps()
            except Exception:
                await asyncio.sleep(0.1)
            else:
                return


async def test_a_zombie_that_takes_new_work(shop: Shop) -> None:
    """It was declared dead, wakes up, and takes a turn before it knows and ends.

    That one is found as well: who died is asked again and again. A queue may also refuse it.
    """
    one = await shop.worker("model")
    await shop.put("a", 0)
    await one.until("asked", f"{shop.run}-a-t0")
    one.signal(signal.SIGSTOP)
    await shop.recover()
    one.signal(signal.SIGCONT)
    await shop.put("b", 0)
    if shop.engine == "procrastinate":  # it forgets a worker that was declared dead
        await asyncio.sleep(0.5)
    else:
        await one.until("taken", f"{shop.run}-b-t0")
    one.signal(signal.SIGKILL)
    two = await shop.worker()
    await shop.done(two)
    await shop.judge()


async def test_the_same_request_before_during_and_after(shop: Shop) -> None:
    request, is_new = await shop.put("a", 0)
    assert is_new
    assert await shop.put("a", 0) == (request, False)
    one = await shop.worker("model")
    await one.until("asked", request)
    assert await shop.put("a", 0) == (request, False)
    one.let_go("model")
    await shop.done(one)
    assert await shop.put("a", 0) == (request, False)
    await shop.put("a", 1)
    await shop.done(one)
    await shop.judge()


async def test_messages_that_are_put_in_the_same_moment_keep_their_order(shop: Shop) -> None:
    """All in one transaction: for the clock of the server they are put at once."""
    planned = [shop.plan("a", number) for number in range(12)]
    async with await psycopg.AsyncConnection.connect(shop.server.address) as connection:
        for turn in planned:
            assert await shop.turns.put(as_turn(turn), connection=connection)
    one, two = await shop.worker(), await shop.worker()
    await shop.done(one, two)
    await shop.judge()


async def test_a_turn_that_kills_its_workers_is_put_aside(shop: Shop) -> None:
    poison = shop.plan("a", 0)
    await shop.put("a", 0)
    for _ in range(3):
        child = await shop.worker("model")
        await child.until("asked", poison.request_id)
        child.signal(signal.SIGKILL)
        await shop.recover()
    info = await shop.turns.find(poison.key, poison.request_id)
    assert info is not None
    assert (info.status, info.kills) == ("failed", 3)
    assert await shop.turns.retry(info.turn.id)
    one = await shop.worker()
    await until_done(shop, poison)
    _, is_new = await shop.put("a", 1)
    assert is_new
    await until_done(shop, shop.plan("a", 1))
    assert one.name


async def test_turns_beside_one_that_kills_its_workers_are_answered(shop: Shop) -> None:
    """Four turns are in each of two workers that die: which of them did it, the third shows."""
    planned = [shop.plan(session, 0) for session in "abcd"]
    poison = planned[1]
    (shop.folder / f"poison-{poison.request_id}").touch()
    for session in "abcd":
        await shop.put(session, 0)
    for _ in range(2):
        child = await shop.worker("model", "poison", slots=4)
        for turn in planned:
            await child.until("asked", turn.request_id)
        child.let_go("poison")
        await until(lambda child=child: not child.is_alive, "the poison kills")
        await shop.recover()
    infos = [await shop.turns.find(turn.key, turn.request_id) for turn in planned]
    assert [(info.status, info.kills) for info in infos if info] == [("waiting", 2)] * 4
    await shop.put("b", 1)  # it goes on behind the one that is put aside
    deaths = 2
    worker = await shop.worker(slots=4)
    async with asyncio.timeout(300):
        while any(
            info.status in ("waiting", "running") for info in await shop.turns.list(app_name=APP)
        ):
            if not worker.is_alive:
                deaths += 1
                worker = await shop.worker(slots=4)
            await shop.recover(worker)
            await asyncio.sleep(0.05)
    infos = [await shop.turns.find(turn.key, turn.request_id) for turn in planned]
    ends = [(info.status, info.kills) for info in infos if info]
    assert ends == [("done", 2), ("failed", 3), ("done", 2), ("done", 2)]
    assert deaths == 3
    events = await shop.store.events(poison.key) or []
    said = [event.text for event in events if event.text]
    assert said[-1] == f"done {shop.plan('b', 1).message}"
    shop.forget(poison)
    await shop.judge()


async def until_done(shop: Shop, turn: PlannedTurn) -> None:
    async with asyncio.timeout(300):
        while True:
            info = await shop.turns.find(turn.key, turn.request_id)
            if info is not None and info.status == "done":
                return
            await asyncio.sleep(0.05)


CHAOS = int(os.environ.get("WEFT_CHAOS", "20"))


@pytest.mark.parametrize("round", range(3 if CHAOS >= 200 else 1))
async def test_chaos(engine: str, round: int) -> None:
    """Workers as users start them, killed and stopped at random, and a server that restarts."""
    is_large = CHAOS >= 200
    plan = LoadPlan(
        sessions=CHAOS,
        turns=5,
        workers=3,
        slots=4,
        engine=engine,
        chaos=("kill", "stop", "restart"),
        faults=2 if is_large else 1,
        stop_seconds=15 if is_large else 3,
        silence=4 if is_large else 2,
        seed=round,
    )
    report = await run_load(plan)
    assert report.is_sound, str(report)
