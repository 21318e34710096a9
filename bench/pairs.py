"""Weft against one other library, row by row, in turns: ratios that hold on a busy machine.

    python bench/pairs.py loop agent_framework           eight visits each, by default
    python bench/pairs.py loop agent_framework 20 OLD    and the tree at OLD, in the same turns
    python bench/pairs.py lengths                        one run of 100 to 3,000 agents in a row

A visit is one row of `rows`, in the process of its library: CPU time, the least of its rounds.
Shown are the least and the median of all visits, and the median of the ratios visit by visit.
"""

import asyncio
import gc
import json
import math
import os
import statistics
import subprocess
import sys
import time
from pathlib import Path

from table import duration, installed

HERE = Path(__file__).parent
VISITS = 8
LENGTHS = (100, 300, 1_000, 3_000)


class Side:
    """One library, and what its visits took."""

    def __init__(self, name: str, row: str, tree: str = "") -> None:
        self.name = f"{name} at {tree}" if tree else name
        self._library = name
        self._row = row
        source = Path(tree or HERE.parent, "src")
        self._env = {**installed(), "PYTHONPATH": str(source)}
        self._process = None if row == "first" else self._started()
        self.took: list[float] = []
        if self._process is not None:
            self._read(self._process)

    def visit(self) -> None:
        """Measure the row once more. The row `first` is a process of its own each time."""
        if self._process is None:
            process = self._started("first")
            answer = self._read(process)
            process.wait()
        else:
            assert self._process.stdin is not None
            self._process.stdin.write(f"{self._row}\n".encode())
            self._process.stdin.flush()
            answer = self._read(self._process)
        if "problem" in answer:
            raise SystemExit(f"{self.name}: {answer['problem']}")
        value = answer["rows"][self._row]["value"]
        self.took.append(1 / value if self._row == "crowd" else value)

    def end(self) -> None:
        """End its process."""
        if self._process is not None:
            self._process.kill()
            self._process.wait()

    def _started(self, *more: str) -> "subprocess.Popen[bytes]":
        return subprocess.Popen(
            [sys.executable, "-W", "ignore", str(HERE / "worker.py"), self._library, *more],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=subprocess.DEVNULL,
            env=self._env,
        )

    def _read(self, process: "subprocess.Popen[bytes]") -> dict:
        assert process.stdout is not None
        line = process.stdout.readline()
        return json.loads(line) if line else {"problem": "its process ended"}


def compare(row: str, other: str, visits: int, old: str) -> None:
    """Visit all sides in turns, and print what each took beside the other library."""
    sides = [Side("weft", row), Side(other, row)]
    if old:
        sides.append(Side("weft", row, old))
    for _ in range(visits):
        for side in sides:
            side.visit()
    beside = sides[1].took
    for side in sides:
        side.end()
        ratios = sorted(one / two for one, two in zip(side.took, beside, strict=True))
        print(
            f"{row}: {side.name}: least {duration(min(side.took))},"
            f" median {duration(statistics.median(side.took))};"
            f" {statistics.median(ratios):.2f} of {other} ({ratios[0]:.2f} to {ratios[-1]:.2f})"
        )


async def grow() -> None:
    """What one run of a sequence costs by its length, and the exponent between two lengths."""
    from script import QUESTION, Script
    from subjects.weft import Scripted

    from weft import Agent, RunConfig, Runner, Sequence

    config = RunConfig(max_llm_calls=10**6)
    before: tuple[int, float] | None = None
    for length in LENGTHS:
        model = Scripted(Script())
        agents = [Agent(f"bot_{n}", model=model, instruction="Be brief.") for n in range(length)]
        runner = Runner(Sequence(*agents))
        took: list[float] = []
        for number in range(3):
            gc.collect()
            start = time.process_time()
            run = runner.run(session_id=f"{number}", message=QUESTION, config=config)
            assert len((await run).events) == length
            took.append(time.process_time() - start)
        least = min(took)
        line = f"{length:,} agents: {duration(least)}, {duration(least / length)} each"
        if before is not None:
            exponent = math.log(least / before[1]) / math.log(length / before[0])
            line += f", n^{exponent:.2f}"
        print(line, flush=True)
        before = length, least


def main(arguments: list[str]) -> None:
    """Compare a row, or show how a sequence grows."""
    if arguments == ["lengths"]:
        asyncio.run(grow())
        return
    if not 2 <= len(arguments) <= 4:
        raise SystemExit(__doc__)
    row, other, *more = arguments
    visits = int(more[0]) if more else VISITS
    compare(row, other, visits, os.path.abspath(more[1]) if len(more) > 1 else "")


if __name__ == "__main__":
    main(sys.argv[1:])
