"""What a queue costs, and how workers add up: processor time a turn, turns a second, faults.

    .venv/bin/python bench/turns.py                        all three tables
    .venv/bin/python bench/turns.py overhead growth chaos  or some of them
    .venv/bin/python bench/turns.py chaos --engine dbos --sessions 200 --rounds 3

A turn is that of `weft load`: a message, a call of a tool that leaves a row in the transaction of
the store, its result and an answer, on a PostgreSQL that is started for it. `overhead` is against
the same turns by a bare Runner, in one process with as many slots, in turns with the others.
Processor time is that of the process and of the database. Read the ratios: rates depend on who
else uses the machine.
"""

import argparse
import asyncio
import json
import os
import statistics
import subprocess
import sys
import time
from pathlib import Path
from uuid import uuid4

from table import Table, duration, installed

from weft import Runner
from weft.content import to_content
from weft.load import LoadPlan, LoadReport, run_load
from weft.load.plan import APP, PlannedTurn
from weft.load.program import PacedModel, make_agent, make_table
from weft.load.report import cpu_seconds
from weft.load.site import OwnedDatabase
from weft.stores import open_store
from weft.turns import QueuedTurn, open_turns

ENGINES = ("inbox", "procrastinate", "dbos")
EMPTY = "empty"
SLOTS = 16
TARGET = 1.5
"""How many times the processor time of a bare Runner the first engine may take."""


# --- one side of the overhead, in a process of its own


async def run_bare(runner: Runner, turns: list[PlannedTurn]) -> None:
    """The turns under a semaphore, those of a session one after the other."""
    room = asyncio.Semaphore(SLOTS)
    by_session: dict[str, list[PlannedTurn]] = {}
    for turn in turns:
        by_session.setdefault(turn.key.id, []).append(turn)

    async def talk(own: list[PlannedTurn]) -> None:
        for turn in own:
            async with room:
                await runner.run(
                    turn.message,
                    user_id=turn.key.user_id,
                    session_id=turn.key.id,
                    request_id=turn.request_id,
                )

    await asyncio.gather(*map(talk, by_session.values()))


async def run_queued(runner: Runner, engine: str, turns: list[PlannedTurn]) -> float:
    """The turns from a queue, by a worker in this process; the time when it began to take them."""
    from weft.turns.worker import Worker

    worker = Worker(runner, engine=engine, slots=SLOTS)
    done, began = 0, 0.0
    plain = PacedModel.generate

    async def counted(self, prompt, wire, *, stream):  # type: ignore[no-untyped-def]
        nonlocal done, began
        began = began or time.process_time()
        async for response in plain(self, prompt, wire, stream=stream):
            yield response
        done += prompt.items[-1].kind == "exchange"
        if done == len(turns):
            # the last answer is stored and ticked off before the worker ends
            asyncio.get_running_loop().call_later(0.5, worker.stop)

    PacedModel.generate = counted  # type: ignore[method-assign]
    await worker.run()
    return began


async def side(name: str, address: str, database: int, sessions: int, turns: int) -> None:
    """Run the turns on one side, and print the seconds of both processes."""
    plan = LoadPlan(sessions=sessions, turns=turns, run=uuid4().hex[:8])
    planned = plan.schedule()
    store = open_store(address)
    runner = Runner(make_agent(latency=plan.latency), app_name=APP, store=store)
    if name == "bare":
        before, server = time.process_time(), database_seconds(database)
        await run_bare(runner, planned)
        used = time.process_time() - before
    else:
        queue = open_turns(store, name)
        for one in planned:
            message = to_content(one.message)
            await queue.put(QueuedTurn(key=one.key, request_id=one.request_id, message=message))
        await queue.close()
        server = database_seconds(database)
        before = await run_queued(runner, name, planned)
        used = time.process_time() - before
    both = used + database_seconds(database) - server
    await store.close()
    print(json.dumps({"worker": used, "both": both}))


async def empty(address: str, database: int, sessions: int, turns: int) -> None:
    """As many workflows of DBOS that do nothing, without Weft, and print the seconds.

    They go through its queue as turns do: as many sessions and slots, the same configuration.
    """
    import threading

    import psycopg
    from dbos import DBOS

    from weft.turns import dbos_queue, dbos_tables

    queue, count = f"empty-{uuid4().hex}", sessions * turns
    await asyncio.to_thread(dbos_tables.migrate, address)
    engine = dbos_queue.dbos_engine(address, "empty")
    DBOS(config=dbos_queue.dbos_config(engine, queue))
    ended, began, is_over = 0, 0.0, threading.Event()

    async def nothing(number: int) -> None:
        nonlocal ended, began
        began = began or time.process_time()
        await asyncio.sleep(2 * LoadPlan().latency)  # as two calls of the model
        ended += 1
        if ended == count:
            is_over.set()

    def start() -> None:
        DBOS.workflow(name=queue, max_recovery_attempts=None)(nothing)
        DBOS.listen_queues([queue])
        DBOS.launch()
        with psycopg.connect(address, autocommit=True) as connection:
            connection.execute(FILL, {"queue": queue, "sessions": sessions, "turns": turns})

    await asyncio.to_thread(start)
    server = database_seconds(database)
    await asyncio.to_thread(dbos_queue.register_queue, queue, SLOTS)
    await asyncio.to_thread(is_over.wait)
    await asyncio.sleep(0.5)
    used = time.process_time() - began
    both = used + database_seconds(database) - server
    await asyncio.to_thread(lambda: DBOS.destroy(destroy_registry=True))
    engine.dispose()
    print(json.dumps({"worker": used, "both": both}))


FILL = """
SELECT weft_dbos.enqueue_workflow(
    workflow_name => %(queue)s, queue_name => %(queue)s, app_version => 'weft-1',
    positional_args => ARRAY[to_json(turn)], workflow_id => %(queue)s || session || '.' || turn,
    priority => turn, queue_partition_key => session::text)
FROM generate_series(1, %(sessions)s) AS session, generate_series(1, %(turns)s) AS turn
"""


def database_seconds(database: int) -> float:
    """The processor time that the database has had."""
    own = os.getpid()
    return cpu_seconds([own], database) - cpu_seconds([own], None)


def measure_overhead(database: OwnedDatabase, options: argparse.Namespace) -> Table:
    """Processor time a turn of each engine, against a bare Runner."""
    count = options.sessions * options.turns
    table = Table(f"processor time of a turn, {count} turns, {SLOTS} slots, one process + database")
    extra = [EMPTY] if "dbos" in options.engine else []
    sums: dict[str, list[float]] = {name: [] for name in ("bare", *options.engine, *extra)}
    own: dict[str, list[float]] = {name: [] for name in sums}
    for _ in range(options.rounds):
        for name in sums:
            command = [sys.executable, __file__, "side", name, database.address]
            command += [str(database.pid), str(options.sessions), str(options.turns)]
            done = subprocess.run(command, capture_output=True, text=True, env=environment())
            if done.returncode:
                raise SystemExit(f"{name}: {done.stderr[-2000:]}")
            seconds = json.loads(done.stdout.splitlines()[-1])
            sums[name].append(seconds["both"] / count)
            own[name].append(seconds["worker"] / count)
    bare = statistics.median(sums["bare"])
    table.note(
        "bare Runner", f"{duration(bare)}; of it the process {duration(median(own['bare']))}"
    )
    for name in options.engine:
        target = TARGET if name == "procrastinate" else None
        table.add(name, median(sums[name]), "bare", bare, target)
        table.note("", f"of it the process {duration(median(own[name]))}")
    if extra:
        least = bare + median(sums[EMPTY])
        table.note(
            "DBOS alone, empty workflows",
            f"{duration(median(sums[EMPTY]))}; of it the process {duration(median(own[EMPTY]))}",
        )
        table.add("bare + DBOS alone: the least", least, "bare", bare, None)
    return table


def median(values: list[float]) -> float:
    return statistics.median(values)


def environment() -> dict[str, str]:
    source = str(Path(__file__).parents[1] / "src")
    return {**installed(), "PYTHONPATH": os.pathsep.join((source, str(Path(__file__).parent)))}


# --- growth and faults


def measure_growth(options: argparse.Namespace) -> Table:
    """Turns a second of 1, 2 and 4 workers, against one worker."""
    table = Table(f"turns a second, {options.sessions} x {options.turns} turns, 4 slots a worker")
    for engine in options.engine:
        single = 0.0
        for workers in (1, 2, 4):
            plan = LoadPlan(
                sessions=options.sessions,
                turns=options.turns,
                workers=workers,
                slots=4,
                engine=engine,
            )
            report = asyncio.run(run_load(plan))
            require_sound(report)
            single = single or report.rate
            cpu = report.cpu_per_turn or 0.0
            text = f"{report.rate:.1f}/s, {report.rate / single:.2f}x, {duration(cpu)} cpu a turn"
            table.note(f"{engine}, {workers} workers", text)
    return table


def measure_chaos(options: argparse.Namespace) -> Table:
    """Faults under a backlog: kill -9, SIGSTOP for 15 s, restart of the database."""
    table = Table(f"faults, {options.sessions} x {options.turns} turns, 3 workers, 4 slots")
    for engine in options.engine:
        for round in range(options.rounds):
            plan = LoadPlan(
                sessions=options.sessions,
                turns=options.turns,
                workers=3,
                slots=4,
                engine=engine,
                chaos=("kill", "stop", "restart"),
                faults=options.faults,
                seed=round,
            )
            report = asyncio.run(run_load(plan))
            table.note(f"{engine}, round {round + 1}", f"sound: {report.is_sound}")
            for line in str(report).splitlines():
                table.note("", line)
            print(f"-- {engine}, round {round + 1}\n{report}\n", file=sys.stderr, flush=True)
            table.missed += not report.is_sound
    return table


def require_sound(report: LoadReport) -> None:
    if not report.is_sound:
        raise SystemExit(f"something is wrong:\n{report}")


def main() -> int:
    """Print the tables that are asked for."""
    if sys.argv[1:2] == ["side"]:
        name, address, database, sessions, turns = sys.argv[2:]
        numbers = int(database), int(sessions), int(turns)
        asyncio.run(empty(address, *numbers) if name == EMPTY else side(name, address, *numbers))
        return 0
    parser = argparse.ArgumentParser()
    parser.add_argument("tables", nargs="*", default=["overhead", "growth", "chaos"])
    parser.add_argument("--engine", action="append", choices=ENGINES)
    parser.add_argument("--sessions", type=int, default=100)
    parser.add_argument("--turns", type=int, default=5)
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--faults", type=int, default=2)
    options = parser.parse_args()
    options.engine = options.engine or [*ENGINES]
    missed = 0
    for name in options.tables:
        if name == "overhead":
            database = OwnedDatabase()
            try:
                store = open_store(database.address)

                async def prepare(store=store, database=database) -> None:  # type: ignore[no-untyped-def]
                    await make_table(database.address, store)
                    await store.close()

                asyncio.run(prepare())
                table = measure_overhead(database, options)
            finally:
                database.close()
        else:
            table = {"growth": measure_growth, "chaos": measure_chaos}[name](options)
        print(table, end="\n\n", flush=True)
        missed += table.missed
    return 1 if missed else 0


if __name__ == "__main__":
    sys.exit(main())
