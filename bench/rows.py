"""The rows of the runtime table: how a library is driven, and what is read off the clock.

Each row takes the library's module from `subjects` and gives its numbers by name. CPU time of the
whole process, threads included, least of several rounds; wall time only where it says so. A
row that would take too long is stopped early and extrapolated, and says so.
"""

import asyncio
import gc
import statistics
import tempfile
import time
from collections.abc import Awaitable, Callable, Sequence
from dataclasses import dataclass
from itertools import count
from pathlib import Path
from types import ModuleType

from script import ANSWER, DELTA, TOOLS, Missing, Script, Subject

ROUNDS = 3
PATIENCE = 0.25
"""CPU seconds after which a row starts no further round."""
LIMIT = 3.0
"""CPU seconds after which the long session is stopped and extrapolated."""
CROWD = 3.0
"""CPU seconds the crowd may take; a slow library gets fewer sessions."""

SESSIONS, TURNS = 1_000, 5
CALLS = 20
WIDTH, SLEEP = 16, 0.020
GROWN = 500
"""Turns of the long session: question, call, result and answer make 2,000 events."""
WARMING = 5
"""First turns that no line is drawn through: things are made and loaded in them."""
DELTAS = 2_000
NODES = 10

_numbers = count()


@dataclass
class Measured:
    """A number, and whether it was extrapolated from less."""

    value: float
    estimated: bool = False


Numbers = dict[str, Measured]


async def turn(library: ModuleType) -> Numbers:
    """A turn without tools, in sessions of five turns."""
    subject = await library.agent(Script())

    async def action() -> None:
        for _ in range(5):
            await _talk(subject, TURNS)

    return {"turn": Measured(await _best(action) / (5 * TURNS))}


async def loop(library: ModuleType) -> Numbers:
    """A call in an invocation of twenty, one after the other, and then an answer."""
    subject = await library.agent(Script(rounds=CALLS))

    async def action() -> None:
        for _ in range(2):
            await _talk(subject, 1, runs=CALLS)

    return {"loop": Measured(await _best(action) / (2 * CALLS))}


async def fan(library: ModuleType) -> Numbers:
    """The wall time of an invocation whose sixteen tools wait side by side, over one wait."""
    subject = await library.agent(Script(rounds=1, width=WIDTH))
    TOOLS.seconds = SLEEP
    try:
        took: list[float] = []
        for _ in range(6):
            start = time.perf_counter()
            await _talk(subject, 1, runs=WIDTH)
            took.append(time.perf_counter() - start)
    finally:
        TOOLS.seconds = 0.0
    return {"fan": Measured(min(took) / SLEEP)}


async def grow(library: ModuleType) -> Numbers:
    """One session grown to 2,000 events; and the last tenth of its turns over the first."""
    subject = await library.agent(Script(rounds=1))
    total, flat, _ = await _grown(subject)
    return {"grow": total, "grow_flat": flat}


async def store(library: ModuleType) -> Numbers:
    """The same session kept in a SQLite file; and the bytes handed to the system for it."""
    with tempfile.TemporaryDirectory(prefix="bench-") as directory:
        before = _written()
        subject = await library.agent(Script(rounds=1), str(Path(directory, "sessions.db")))
        opening = _written() - before
        total, flat, size = await _grown(subject)
        before = _written()
        await subject.close()
        size.value += opening + _written() - before
    return {"store": total, "store_flat": flat, "store_bytes": size}


async def crowd(library: ModuleType) -> Numbers:
    """Turns a second of CPU when a thousand sessions take five turns each at once."""
    subject = await library.agent(Script())
    await _talk(subject, 1)

    async def action(sessions: int) -> float:
        gc.collect()
        start = time.process_time()
        await asyncio.gather(*[_talk(subject, TURNS) for _ in range(sessions)])
        return sessions * TURNS / (time.process_time() - start)

    rate = await action(20)
    sessions = min(SESSIONS, max(20, int(rate * CROWD / TURNS)))
    return {"crowd": Measured(await action(sessions), estimated=sessions < SESSIONS)}


async def delta(library: ModuleType) -> Numbers:
    """A delta of an answer of 2,000, from the model to whoever listens."""
    subject = await library.speaker(DELTAS)

    async def action() -> None:
        said = await subject.turn(_session())
        assert said == DELTA * DELTAS, f"{len(said)} characters streamed"

    return {"delta": Measured(await _best(action) / DELTAS)}


async def router(library: ModuleType) -> Numbers:
    """An invocation in which the root hands over to a child that answers."""
    return {"router": await _invocation(await library.router(), asked=2)}


async def sequence(library: ModuleType) -> Numbers:
    """An invocation of ten agents one after the other."""
    return {"sequence": await _invocation(await library.sequence(NODES), asked=NODES)}


async def templates(library: ModuleType) -> Numbers:
    """An invocation of ten agents in a row, each told what the one before it said."""
    if not hasattr(library, "templates"):
        raise Missing("has no key that an agent writes and a template reads")
    return {"templates": await _invocation(await library.templates(NODES), asked=NODES)}


async def parallel(library: ModuleType) -> Numbers:
    """An invocation of ten agents side by side."""
    return {"parallel": await _invocation(await library.parallel(NODES), asked=NODES)}


ROWS: dict[str, Callable[[ModuleType], Awaitable[Numbers]]] = {
    row.__name__: row
    for row in (turn, loop, fan, grow, store, crowd, delta, router, sequence, templates, parallel)
}


def call() -> float:
    """Seconds of calling a function that does nothing: how fast the machine is just now."""

    def nothing(value: int) -> int:
        return value

    took: list[float] = []
    for _ in range(20):
        start = time.process_time()
        for number in range(2_000):
            nothing(number)
        took.append(time.process_time() - start)
    return statistics.median(took) / 2_000


async def _invocation(subject: Subject, asked: int) -> Measured:
    """An invocation of agents in a session of its own; each must ask its model."""

    async def action() -> None:
        for _ in range(3):
            before = subject.script.asked
            await _talk(subject, 1)
            made = subject.script.asked - before
            assert made == asked, f"{made} models asked instead of {asked}"

    return Measured(await _best(action) / 3)


async def _grown(subject: Subject) -> tuple[Measured, Measured, Measured]:
    """The long session: CPU seconds, its last tenth of turns over its first, bytes written."""
    session = _session()
    gc.collect()
    took: list[float] = []
    wrote: list[int] = []
    while len(took) < GROWN and (sum(took) < LIMIT or len(took) < 20):
        written, start = _written(), time.process_time()
        await _talk(subject, 1, session, runs=1)
        took.append(time.process_time() - start)
        wrote.append(_written() - written)
    turns, seen = len(took), subject.script.seen
    assert seen >= 3 * turns, f"the model saw {seen} messages after {turns} turns"
    if turns == GROWN:
        tenth = GROWN // 10
        flat = statistics.median(took[-tenth:]) / statistics.median(took[:tenth])
        return Measured(sum(took)), Measured(flat), Measured(sum(wrote))
    flat = _line(took, GROWN * 0.95) / _line(took, GROWN * 0.05)
    return Measured(_whole(took), True), Measured(flat, True), Measured(_whole(wrote), True)


def _whole(seen: Sequence[float]) -> float:
    """What all turns take, if those that were not seen lie on the line of those that were."""
    return sum(seen) + sum(_line(seen, turn) for turn in range(len(seen), GROWN))


def _line(seen: Sequence[float], turn: float) -> float:
    """The value at a turn of the straight line through what was seen, but for the first turns."""
    turns = range(WARMING, len(seen))
    slope, base = statistics.linear_regression(turns, seen[WARMING:])
    return max(base + slope * turn, min(seen))


async def _talk(subject: Subject, turns: int, session: str = "", runs: int = 0) -> None:
    """Turns of a session, a new one by default, each checked for its answer and its tool runs."""
    session = session or _session()
    for _ in range(turns):
        before = TOOLS.runs
        said = await subject.turn(session)
        assert said == ANSWER, f"answered {said!r}"
        assert not runs or TOOLS.runs - before == runs, f"{TOOLS.runs - before} tool runs"


async def _best(action: Callable[[], Awaitable[None]]) -> float:
    """The least CPU time of several rounds after one to warm up; a long one is the only one."""
    least = spent = await _timed(action)
    if spent > PATIENCE:
        return least
    for _ in range(ROUNDS):
        took = await _timed(action)
        least, spent = min(least, took), spent + took
        if spent > PATIENCE:
            break
    return least


async def _timed(action: Callable[[], Awaitable[None]]) -> float:
    gc.collect()
    start = time.process_time()
    await action()
    return time.process_time() - start


def _session() -> str:
    return f"session-{next(_numbers)}"


def _written() -> int:
    """Bytes this process has passed to write calls (`wchar`): file, log and journal alike."""
    for line in Path("/proc/self/io").read_text().splitlines():
        name, _, value = line.partition(": ")
        if name == "wchar":
            return int(value)
    raise OSError("/proc/self/io has no wchar")
