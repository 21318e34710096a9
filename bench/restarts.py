"""Fast restarts of PostgreSQL under load: how long the server is away, and how long turns are.

    .venv/bin/python bench/restarts.py                              100 for each engine and control
    .venv/bin/python bench/restarts.py inbox --restarts 20          some of them, sooner
    .venv/bin/python bench/restarts.py inbox --against ../old       with the tree of a version

Three workers carry out turns that another process puts, and `pg_ctl restart -m fast` is run again
and again. It is measured from its begin until it has ended, and until a turn leaves a row again.

Two controls do without Weft. `psycopg` has as many processes and connections of the plain driver,
in event loops that compute for a while between two statements, as agents do. `silent` has clients
that connect while the server stops and say nothing: for such a one the server waits as long as
`authentication_timeout` says (a minute). A driver whose event loop is blocked once it has connected
is such a client.
"""

import argparse
import asyncio
import os
import random
import socket
import statistics
import subprocess
import sys
import time
from contextlib import suppress
from pathlib import Path
from threading import Event, Thread
from uuid import uuid4

import psycopg
from table import Table, duration, installed

from weft.load.site import OwnedDatabase

ENGINES = ("inbox", "procrastinate", "dbos")
CONTROLS = ("psycopg", "silent")
WORKERS = 3
TARGET = 5.0
"""How many seconds a restart may take, and turns be away."""

# --- what the processes do


async def work(engine: str, address: str) -> None:
    """A worker, until it is told to stop."""
    from weft import Runner
    from weft.load.plan import APP
    from weft.load.program import make_agent
    from weft.stores import open_store
    from weft.turns import Worker

    runner = Runner(make_agent(latency=0.02), app_name=APP, store=open_store(address))
    await Worker(runner, engine=engine, slots=16).run()


async def put(engine: str, address: str) -> None:
    """Put turns, about thirty a second, whatever happens to the server."""
    from weft.content import to_content
    from weft.errors import StoreError
    from weft.load.plan import APP
    from weft.session import SessionKey
    from weft.stores import open_store
    from weft.turns import QueuedTurn, open_turns

    turns = open_turns(open_store(address), engine)
    while True:
        key = SessionKey(APP, "ada", uuid4().hex)
        turn = QueuedTurn(key=key, request_id="r", message=to_content("hello"))
        try:
            await turns.put(turn)
        except StoreError as error:
            print(error, file=sys.stderr, flush=True)
        await asyncio.sleep(0.033)


async def use_driver(address: str) -> None:
    """Twenty connections of the plain driver, which come back when the server does."""

    async def use() -> None:
        while True:
            try:
                async with await psycopg.AsyncConnection.connect(
                    address, autocommit=True, connect_timeout=5
                ) as connection:
                    while True:
                        await connection.execute(LEAVE_ROW)
                        compute(0.01)
                        await asyncio.sleep(0.2)
            except psycopg.Error:
                await asyncio.sleep(0.02)

    await asyncio.gather(*(use() for _ in range(20)))


LEAVE_ROW = "INSERT INTO weft_load_effects VALUES ('s', 'r', 'c')"


def compute(seconds: float) -> None:
    """Have the event loop stand still, as who compiles a request or counts tokens does."""
    until = time.perf_counter() + seconds
    while time.perf_counter() < until:
        pass


class SilentClients:
    """Sockets that connect all the time, say nothing, and are kept."""

    def __init__(self, address: str) -> None:
        options = psycopg.conninfo.conninfo_to_dict(address)
        self._path = f"{options['host']}/.s.PGSQL.{options.get('port', 5432)}"
        self._stop = Event()
        self._thread = Thread(target=self._run)

    def __enter__(self) -> None:
        self._thread.start()

    def __exit__(self, *_: object) -> None:
        self._stop.set()
        self._thread.join()

    def _run(self) -> None:
        kept: list[socket.socket] = []
        while not self._stop.is_set() and len(kept) < 90:
            client = socket.socket(socket.AF_UNIX)
            with suppress(OSError):
                client.connect(self._path)
                kept.append(client)
            time.sleep(0.005)
        self._stop.wait()
        for client in kept:
            client.close()


# --- what is measured


def rows(address: str) -> int | None:
    """How many rows the turns have left; None where the server is away."""
    try:
        with psycopg.connect(address, connect_timeout=5) as server:
            row = server.execute("SELECT count(*) FROM weft_load_effects").fetchone()
    except psycopg.Error:
        return None
    return int(row[0]) if row is not None else None


def wait_for_rows(address: str, begun: float, limit: float = 150.0) -> float:
    """The seconds since `begun` when there are more rows than there were at first."""
    first: int | None = None
    while time.monotonic() - begun < limit:
        count = rows(address)
        first = count if first is None else first
        if count is not None and first is not None and count > first:
            return time.monotonic() - begun
        time.sleep(0.02)
    raise SystemExit(f"no turn was carried out within {limit:.0f} s")


def start_side(tree: Path, *arguments: str) -> subprocess.Popen[bytes]:
    paths = (str(tree / "src"), str(Path(__file__).parent))
    environment = {**installed(), "PYTHONPATH": os.pathsep.join(paths)}
    command = [sys.executable, __file__, "side", *arguments]
    return subprocess.Popen(command, env=environment, stderr=subprocess.DEVNULL)


def measure(name: str, tree: Path, restarts: int) -> tuple[list[float], list[float]]:
    """The seconds of each restart, and until the first turn after it began."""
    from weft.load.program import make_table
    from weft.stores import open_store

    chance, database = random.Random(1), OwnedDatabase()
    children: list[subprocess.Popen[bytes]] = []
    away: list[float] = []
    back: list[float] = []

    async def prepare() -> None:
        store = open_store(database.address)
        await make_table(database.address, store)
        await store.close()

    try:
        if name in ENGINES:
            if tree == Path(__file__).parents[1]:
                asyncio.run(prepare())
            else:  # that tree makes its own tables; the row of a turn needs this one
                with psycopg.connect(database.address, autocommit=True) as server:
                    server.execute(
                        "CREATE TABLE weft_load_effects"
                        " (session_id text, request text, call_id text)"
                    )
            children += [start_side(tree, "put", name, database.address)]
            children += [start_side(tree, "work", name, database.address) for _ in range(WORKERS)]
        else:
            asyncio.run(prepare())
            children += [start_side(tree, "driver", name, database.address) for _ in range(4)]
        wait_for_rows(database.address, time.monotonic())
        for number in range(restarts):
            time.sleep(chance.uniform(0.2, 0.8))
            begun = time.monotonic()
            if name == "silent":
                with SilentClients(database.address):
                    database.restart()
            else:
                database.restart()
            away.append(time.monotonic() - begun)
            back.append(wait_for_rows(database.address, begun))
            if away[-1] > TARGET or back[-1] > TARGET or not (number + 1) % 10:
                print(
                    f"-- {name}: restart {number + 1}: {away[-1]:.1f} s, turns {back[-1]:.1f} s",
                    file=sys.stderr,
                    flush=True,
                )
    finally:
        for child in children:
            child.kill()
            child.wait()
        database.close()
    return away, back


def main() -> int:
    """Print a table."""
    if sys.argv[1:2] == ["side"]:
        what, name, address = sys.argv[2:]
        side = {"work": work, "put": put}.get(what)
        asyncio.run(side(name, address) if side is not None else use_driver(address))
        return 0
    parser = argparse.ArgumentParser()
    parser.add_argument("names", nargs="*", default=[*ENGINES, *CONTROLS])
    parser.add_argument("--restarts", type=int, default=100)
    parser.add_argument("--against", type=Path, help="the tree of an older version")
    options = parser.parse_args()
    os.environ["PGCTLTIMEOUT"] = "120"  # a server that waits for a client ends after 60
    trees = {"": Path(__file__).parents[1]}
    if options.against is not None:
        trees = {"old ": options.against.absolute(), "new ": trees[""]}
    table = Table(f"fast restarts of PostgreSQL, {WORKERS} workers under load")
    missed = 0
    for name in options.names:
        for prefix, tree in trees.items() if name in ENGINES else [("", Path(__file__).parents[1])]:
            count = 2 if name == "silent" else options.restarts
            away, back = measure(name, tree, count)
            late = sum(max(pair) > TARGET for pair in zip(away, back, strict=True))
            missed += late if name in ENGINES and prefix != "old " else 0
            table.note(
                f"{prefix}{name}, {len(away)} restarts",
                f"server away {duration(statistics.median(away))}, most {duration(max(away))};"
                f" turns {duration(statistics.median(back))}, most {duration(max(back))};"
                f" above {TARGET:.0f} s: {late}",
            )
    print(table)
    return 1 if missed else 0


if __name__ == "__main__":
    sys.exit(main())
