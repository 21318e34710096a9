"""A long queue: claims, counts and pruning with millions of done turns, and what idle workers cost.

    .venv/bin/python bench/long_queue.py                             10 million done turns
    .venv/bin/python bench/long_queue.py sqlite inbox --done 100000  some engines, sooner
    .venv/bin/python bench/long_queue.py inbox --against ../old      with the tree of a version

The rows are made in the database, by the tables of the older tree if one is named. It is measured
first; then this tree opens the same database, which brings the tables up to date, and is measured
on it. So both see the same rows on the same machine within one run.

A claim takes one turn. It is put last, behind all others, in a session of its own. A prune is what
a worker deletes in a while, at its own pace. A put is carried out by one of three workers that
wait for it; put, claim and end need a commit each, and the others are useless.
"""

import argparse
import asyncio
import json
import logging
import os
import sqlite3
import statistics
import subprocess
import sys
import tempfile
import time
from contextlib import closing, suppress
from pathlib import Path
from uuid import uuid4

from table import Table, duration, installed

ENGINES = ("sqlite", "inbox", "procrastinate", "dbos")
APP = "long"
CLAIMS = 20
PRUNE_SECONDS = 12.0
IDLE_SECONDS = 15.0
PUTS = 60

TURN = (
    '\'{{"version":1,"app":"long","user":"ada","session":"\' || {0} || \'","request":"r\' ||'
    ' n || \'","message":{{"role":"user","parts":[{{"text":"hello"}}]}}}}\''
)

DONE_TURN = TURN.format("'done' || n / 5")


# --- the rows


def fill(engine: str, address: str, done: int) -> None:
    """Turns that were done a year ago, five of them in each session."""
    if engine == "sqlite":
        with closing(sqlite3.connect(address.removeprefix("sqlite:///"))) as file:
            file.execute("PRAGMA synchronous=OFF")
            for first in range(0, done, 500_000):
                file.execute(
                    f"""INSERT INTO turns (app_name, user_id, session, request_id, turn, status,
                        priority, put_at, ended_at, place)
                    WITH RECURSIVE n(n) AS (SELECT ? UNION ALL SELECT n + 1 FROM n WHERE n < ?)
                    SELECT 'long', 'ada', 'done' || n / 5, 'r' || n, {DONE_TURN}, 'done', 0,
                        1.0, 1.0 + n / 1000.0, n FROM n""",
                    (first + 1, min(first + 500_000, done)),
                )
                file.commit()
            file.execute("PRAGMA wal_checkpoint(TRUNCATE)")
        return
    import psycopg

    with psycopg.connect(address, autocommit=True) as server:
        server.execute("SET synchronous_commit = off")
        for first in range(0, done, 500_000):
            values = {"first": first + 1, "last": min(first + 500_000, done)}
            for statement in FILL[engine]:
                server.execute(statement.encode(), values)
        for table in TABLES[engine]:
            server.execute(f"VACUUM ANALYZE {table}".encode())
        if engine == "inbox":
            server.execute("SELECT setval('weft.turn_places', %s)", (done,))
        server.execute("CHECKPOINT")


TABLES = {
    "inbox": ["weft.turns"],
    "procrastinate": ["procrastinate_jobs", "procrastinate_events"],
    "dbos": ["weft.dbos_turns", "weft_dbos.workflow_status"],
}

SERIES = "generate_series(%(first)s::bigint, %(last)s::bigint) AS n"

EVENT_TRIGGERS = (
    "procrastinate_jobs_notify_queue_job_inserted_v1",
    "procrastinate_trigger_status_events_insert_v1",
)

FILL = {
    "inbox": [
        f"""INSERT INTO weft.turns (app_name, user_id, session, request_id, turn, status, priority,
            put_at, ended_at, place)
        SELECT 'long', 'ada', 'done' || n / 5, 'r' || n, {DONE_TURN}, 'done', 0, 1.0,
            1.0 + n / 1000.0, n FROM {SERIES}"""
    ],
    # its own triggers make three events a job when it is run; here they are made at once
    "procrastinate": [
        *(f"ALTER TABLE procrastinate_jobs DISABLE TRIGGER {name}" for name in EVENT_TRIGGERS),
        f"""INSERT INTO procrastinate_jobs (id, queue_name, task_name, lock, queueing_lock, args,
            status, attempts)
        SELECT n, 'weft:long', 'weft.turn', '["long","ada","done' || n / 5 || '"]',
            '["long","ada","done' || n / 5 || '","r' || n || '"]',
            jsonb_build_object('app', 'long', 'turn', {DONE_TURN}), 'succeeded', 1
        FROM {SERIES}""",
        f"""INSERT INTO procrastinate_events (job_id, type, at)
        SELECT n, type::procrastinate_job_event_type, to_timestamp(n / 1000.0)
        FROM {SERIES}, unnest(ARRAY['deferred', 'started', 'succeeded']) AS type""",
        "SELECT setval('procrastinate_jobs_id_seq', %(last)s::bigint)",
        *(f"ALTER TABLE procrastinate_jobs ENABLE TRIGGER {name}" for name in EVENT_TRIGGERS),
    ],
    "dbos": [
        f"""INSERT INTO weft.dbos_turns (app_name, user_id, session, request_id, turn, place,
            put_at)
        SELECT 'long', 'ada', 'done' || n / 5, 'r' || n, {DONE_TURN}, n %% 5, 1.0
        FROM {SERIES}""",
        f"""INSERT INTO weft_dbos.workflow_status (workflow_uuid, status, name, queue_name,
            queue_partition_key, application_version, created_at, updated_at, completed_at)
        SELECT lpad(n::text, 19, '0') || '.0', 'SUCCESS', 'weft.turn', 'weft:long',
            '["ada","done' || n / 5 || '"]', 'weft-1', n, n, n
        FROM {SERIES}""",
    ],
}


# --- what is measured, in a process with one of the trees


def queue_of(engine: str, address: str):  # type: ignore[no-untyped-def]
    """A store and its queue."""
    from weft.stores import open_store
    from weft.turns import open_turns

    store = open_store(address)
    return store, open_turns(store, "inbox" if engine == "sqlite" else engine)


def turn(session: str, request: str, app: str = APP):  # type: ignore[no-untyped-def]
    """A turn of a session."""
    from weft.content import to_content
    from weft.session import SessionKey
    from weft.turns import QueuedTurn

    return QueuedTurn(
        key=SessionKey(app, "ada", session), request_id=request, message=to_content("hello")
    )


def put_many(engine: str, address: str, name: str, sessions: int, waiting: int) -> None:
    """Fill the queue: `waiting` turns in `sessions` sessions, whose names begin with `name`."""
    session = f"'{name}' || n %% {sessions}"
    written = TURN.format(session)
    if engine == "sqlite":
        session, written = session.replace("%%", "%"), written.replace("%%", "%")
        with closing(sqlite3.connect(address.removeprefix("sqlite:///"), timeout=60)) as file:
            file.execute(
                f"""INSERT INTO turns (app_name, user_id, session, request_id, turn, status,
                    priority, put_at, place)
                WITH RECURSIVE n(n) AS (SELECT 1 UNION ALL SELECT n + 1 FROM n WHERE n < ?)
                SELECT 'long', 'ada', {session}, 'r' || n, {written}, 'waiting', 0, 1.0,
                    (SELECT max(place) FROM turns) + n FROM n""",
                (waiting,),
            )
            file.commit()
        return
    import psycopg

    key = f'\'["long","ada","\' || {session}'
    statements = {
        "inbox": f"""INSERT INTO weft.turns (app_name, user_id, session, request_id, turn, status,
                priority, put_at, place)
            SELECT 'long', 'ada', {session}, 'r' || n, {written}, 'waiting', 0, 1.0,
                nextval('weft.turn_places') FROM {SERIES} ORDER BY n""",
        "procrastinate": f"""INSERT INTO procrastinate_jobs (queue_name, task_name, lock,
                queueing_lock, args)
            SELECT 'weft:long', 'weft.turn', {key} || '\"]', {key} || '\",\"r' || n || '\"]',
                jsonb_build_object('app', 'long', 'turn', {written}) FROM {SERIES} ORDER BY n""",
        "dbos": f"""WITH new AS (
                INSERT INTO weft.dbos_turns (app_name, user_id, session, request_id, turn, place,
                    put_at)
                SELECT 'long', 'ada', {session}, 'r' || n, {written}, n, 2.0 FROM {SERIES}
                RETURNING number, session, place)
            SELECT count(weft_dbos.enqueue_workflow(
                workflow_name => 'weft.turn', queue_name => 'weft:long', app_version => 'weft-1',
                positional_args => ARRAY[to_json(number)], priority => place,
                workflow_id => lpad(number::text, 19, '0') || '.0',
                queue_partition_key => '[\"ada\",\"' || session || '\"]')) FROM new""",
    }
    with psycopg.connect(address, autocommit=True) as server:
        server.execute(statements[engine].encode(), {"first": 1, "last": waiting})
        for table in TABLES[engine]:
            server.execute(f"ANALYZE {table}".encode())


async def measure_claims(engine: str, address: str) -> dict[str, float]:
    """The median seconds of a claim, with nothing else waiting and with more and more."""
    store, turns = queue_of(engine, address)
    await turns.open()
    medians: dict[str, float] = {}
    source = turns.source(apps=[APP], worker="bench")

    async def claim(what: str) -> None:
        times: list[float] = []
        for n in range(CLAIMS):
            await turns.put(turn(f"last{what}{n}", "r"))
            begun = time.perf_counter()
            taken = await source.take(1)
            times.append(time.perf_counter() - begun)
            assert taken, "nothing was taken"
        medians[what] = statistics.median(times)

    await claim("nothing else waits")
    await asyncio.to_thread(put_many, engine, address, "one", 1, 10_000)
    assert await source.take(1), "the first of the one session runs"
    await claim("10,000 wait in one session")
    await asyncio.to_thread(put_many, engine, address, "many", 200, 20_000)
    taken = 0
    while taken < 200:
        taken += len(await source.take(200 - taken))
    await claim("20,000 more wait in 200 sessions")
    await asyncio.to_thread(put_many, engine, address, "each", 20_000, 20_000)
    times: list[float] = []
    for _ in range(CLAIMS):
        begun = time.perf_counter()
        assert await source.take(1)
        times.append(time.perf_counter() - begun)
    medians["20,000 more wait in as many sessions"] = statistics.median(times)
    begun = time.perf_counter()
    await turns.counts()
    medians["counts()"] = time.perf_counter() - begun
    await turns.close()
    await store.close()
    return medians


async def measure_dbos_claims(engine: str, address: str) -> dict[str, float]:
    """The same for DBOS, which takes turns itself: its own method, called as it calls it."""
    import sys as system

    from dbos import DBOS

    from weft.turns import dbos_queue

    store, turns = queue_of(engine, address)
    await turns.open()
    dbos = dbos_queue.dbos_engine(address, "bench")
    DBOS(config=dbos_queue.dbos_config(dbos, "bench"))
    DBOS.listen_queues([])
    await asyncio.to_thread(DBOS.launch)
    await asyncio.to_thread(dbos_queue.register_queue, dbos_queue.queue_of(APP), 16)
    inner = (
        DBOS._instance
        if hasattr(DBOS, "_instance")
        else system.modules["dbos._dbos"]._dbos_global_instance
    )  # type: ignore[attr-defined]
    database = inner._sys_db
    queue = database.get_queue(dbos_queue.queue_of(APP))
    medians: dict[str, float] = {}

    def take(most: int) -> list[str]:
        return database.start_queued_partitioned_workflows(
            queue, "bench", "weft-1", most, owner_xid=uuid4().hex
        )

    async def claim(what: str) -> None:
        times: list[float] = []
        for n in range(CLAIMS):
            await turns.put(turn(f"last{what}{n}", "r"))
            begun = time.perf_counter()
            taken = await asyncio.to_thread(take, 1)
            times.append(time.perf_counter() - begun)
            assert taken, "nothing was taken"
        medians[what] = statistics.median(times)

    await claim("nothing else waits")
    await asyncio.to_thread(put_many, engine, address, "one", 1, 10_000)
    await asyncio.to_thread(take, 1)
    await claim("10,000 wait in one session")
    await asyncio.to_thread(put_many, engine, address, "many", 200, 20_000)
    taken = 0
    while taken < 200:
        taken += len(await asyncio.to_thread(take, 200 - taken))
    await claim("20,000 more wait in 200 sessions")
    await asyncio.to_thread(put_many, engine, address, "each", 20_000, 20_000)
    await claim("20,000 more wait in as many sessions")
    begun = time.perf_counter()
    await turns.counts()
    medians["counts()"] = time.perf_counter() - begun
    await asyncio.to_thread(lambda: DBOS.destroy(destroy_registry=True))
    dbos.dispose()
    await turns.close()
    await store.close()
    return medians


def done_turns(engine: str, address: str) -> int:
    """How many turns are done, counted from outside."""
    if engine == "sqlite":
        with closing(sqlite3.connect(address.removeprefix("sqlite:///"))) as file:
            return int(file.execute("SELECT count(*) FROM turns").fetchone()[0])
    import psycopg

    with psycopg.connect(address) as server:
        rows = server.execute(f"SELECT count(*) FROM {TABLES[engine][0]}".encode()).fetchone()
        assert rows is not None
        return int(rows[0])


async def measure_prune(engine: str, address: str) -> dict[str, float]:
    """How many turns a worker deletes in a second, beside nothing else."""
    from weft import Agent, Runner
    from weft.stores import open_store
    from weft.testing import ScriptedModel
    from weft.turns import Worker

    before = done_turns(engine, address)
    runner = Runner(Agent("idle", model=ScriptedModel([])), store=open_store(address))
    worker = Worker(runner, engine="inbox" if engine == "sqlite" else engine, keep=0.0, grace=1.0)
    working = asyncio.create_task(worker.run())
    await asyncio.sleep(PRUNE_SECONDS)
    worker.stop()
    await working
    return {"rows pruned a second": (before - done_turns(engine, address)) / PRUNE_SECONDS}


def commits(address: str) -> int:
    """How many transactions the database has committed, beside this look."""
    import psycopg

    with psycopg.connect(address) as server:
        server.execute("SELECT pg_stat_force_next_flush()")
        row = server.execute(
            "SELECT xact_commit FROM pg_stat_database WHERE datname = current_database()"
        ).fetchone()
        assert row is not None
        return int(row[0])


async def measure_commits(engine: str, address: str) -> dict[str, float]:
    """The commits of a worker that waits, and of a put beside three of them."""
    from weft import Agent, Runner
    from weft.stores import open_store
    from weft.testing import ScriptedModel
    from weft.turns import TurnEnd, Worker

    app = f"idle{uuid4().hex[:6]}"
    runner = Runner(Agent("idle", model=ScriptedModel([])), app_name=app, store=open_store(address))
    worker = Worker(runner, engine=engine, grace=1.0, keep=1e5)  # it is not to prune
    working = asyncio.create_task(worker.run())
    await asyncio.sleep(3)
    before, begun = commits(address), time.monotonic()
    await asyncio.sleep(IDLE_SECONDS)
    idle = (commits(address) - before) / (time.monotonic() - begun)
    worker.stop()
    await working
    if engine == "dbos":  # it has one worker a process, which looks ten times a second anyway
        return {"commits a second of an idle worker": idle}
    queues = [queue_of(engine, address) for _ in range(4)]
    stop, done = asyncio.Event(), asyncio.Event()

    async def run(one):  # type: ignore[no-untyped-def]
        done.set()
        return TurnEnd("done")

    works = [
        asyncio.create_task(
            turns.work(run, apps=[app], worker=f"bench{at}{app}", slots=4, stop=stop)
        )
        for at, (_, turns) in enumerate(queues[1:])
    ]
    await asyncio.sleep(2)
    before, begun = commits(address), time.monotonic()
    await asyncio.sleep(IDLE_SECONDS / 3)
    quiet = (commits(address) - before) / (time.monotonic() - begun)
    before, begun = commits(address), time.monotonic()
    waits: list[float] = []
    for n in range(PUTS):
        done.clear()
        put = time.perf_counter()
        await queues[0][1].put(turn(f"s{n % 7}", f"r{n}", app))
        await asyncio.wait_for(done.wait(), 30)
        waits.append(time.perf_counter() - put)
        await asyncio.sleep(0.1)
    each = (commits(address) - before - quiet * (time.monotonic() - begun)) / PUTS
    stop.set()
    await asyncio.gather(*works)
    for store, turns in queues:
        await turns.close()
        await store.close()
    return {
        "commits a second of an idle worker": idle,
        "useless commits a put, 3 workers": each - 3,
        "put until it runs": statistics.median(waits),
    }


async def make_tables(engine: str, address: str) -> dict[str, float]:
    """Make the tables, or bring them up to date: in how many seconds."""
    store, turns = queue_of(engine, address)
    with suppress(AttributeError):  # the file is made by the store
        await store.apps()
    begun = time.perf_counter()
    await turns.open()
    took = time.perf_counter() - begun
    await turns.close()
    await store.close()
    return {"tables made or brought up to date": took}


MEASURES = {
    "open": make_tables,
    "claims": measure_claims,
    "prune": measure_prune,
    "commits": measure_commits,
}


def run_side(tree: Path, what: str, engine: str, address: str) -> dict[str, float]:
    """One measurement, in a process with that tree."""
    paths = (str(tree / "src"), str(Path(__file__).parent))
    command = [sys.executable, __file__, "side", what, engine, address]
    environment = {**installed(), "PYTHONPATH": os.pathsep.join(paths)}
    ended = subprocess.run(command, capture_output=True, text=True, env=environment)
    if ended.returncode:
        raise SystemExit(f"{tree}, {what} of {engine}: {ended.stderr[-3000:]}")
    numbers: dict[str, float] = json.loads(ended.stdout.splitlines()[-1])
    return numbers


def set_vacuum(address: str, state: str) -> None:
    """Have the server vacuum by itself, or not."""
    import psycopg

    with psycopg.connect(address, autocommit=True) as server:
        server.execute(f"ALTER SYSTEM SET autovacuum = {state}".encode())
        server.execute("SELECT pg_reload_conf()")


def forget_open(engine: str, address: str) -> None:
    """Delete the turns of the claims, so that the other tree begins as the first did."""
    if engine == "sqlite":
        with closing(sqlite3.connect(address.removeprefix("sqlite:///"))) as file:
            file.execute("DELETE FROM turns WHERE status IN ('waiting', 'running')")
            file.commit()
        return
    import psycopg

    statements = {
        "inbox": ["DELETE FROM weft.turns WHERE status IN ('waiting', 'running')"],
        "procrastinate": ["DELETE FROM procrastinate_jobs WHERE status IN ('todo', 'doing')"],
        "dbos": [
            "DELETE FROM weft.dbos_turns WHERE put_at > 1.0",
            "DELETE FROM weft_dbos.workflow_status WHERE status IN ('ENQUEUED', 'PENDING')",
        ],
    }
    with psycopg.connect(address, autocommit=True) as server:
        for statement in statements[engine]:
            server.execute(statement.encode())
        for table in TABLES[engine]:
            server.execute(f"VACUUM ANALYZE {table}".encode())


def measure(engine: str, address: str, done: int, trees: dict[str, Path]) -> Table:
    """All numbers of an engine, on all trees."""
    title = f"{engine}: {done:,} done turns"
    table = Table(title)
    numbers: dict[str, dict[str, float]] = {}
    for at, (name, tree) in enumerate(trees.items()):
        numbers[name] = run_side(tree, "open", engine, address)
        if not at:
            fill(engine, address, done)
        if engine != "sqlite":
            set_vacuum(address, "off")  # it commits too
            numbers[name] |= run_side(tree, "commits", engine, address)
            set_vacuum(address, "on")
        for what in ("claims", "prune"):
            print(f"-- {title}, {name}, {what}", file=sys.stderr, flush=True)
            numbers[name] |= run_side(tree, what, engine, address)
        forget_open(engine, address)
    for what in numbers["new"]:
        is_time = not what.startswith(("rows", "commits", "useless"))
        cells = [
            f"{name} {duration(own[what]) if is_time else f'{own[what]:,.1f}'}"
            for name, own in numbers.items()
            if what in own
        ]
        table.note(what, "; ".join(cells))
    return table


def main() -> int:
    """Print a table for each engine."""
    if sys.argv[1:2] == ["side"]:
        logging.basicConfig(level=logging.ERROR)
        what, engine, address = sys.argv[2:]
        work = MEASURES[what]
        if (what, engine) == ("claims", "dbos"):
            work = measure_dbos_claims
        print(json.dumps(asyncio.run(work(engine, address))))
        return 0
    parser = argparse.ArgumentParser()
    parser.add_argument("engines", nargs="*", default=[*ENGINES])
    parser.add_argument("--done", type=int, default=10_000_000)
    parser.add_argument("--against", type=Path, help="the tree of an older version")
    options = parser.parse_args()
    trees = {"old": options.against.absolute()} if options.against is not None else {}
    trees["new"] = Path(__file__).parents[1]
    for engine in options.engines:
        if engine == "sqlite":
            with tempfile.TemporaryDirectory(prefix="weft-bench-") as folder:
                table = measure(engine, f"sqlite:///{folder}/weft.db", options.done, trees)
        else:
            from weft.load.site import OwnedDatabase

            database = OwnedDatabase()
            try:
                table = measure(engine, database.address, options.done, trees)
            finally:
                database.close()
        print(table, end="\n\n", flush=True)
    return 0


if __name__ == "__main__":
    sys.exit(main())
