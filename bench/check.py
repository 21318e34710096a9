"""How long the check of a large flow takes, beside the time it takes to import google-adk.

    python -m bench.check [--agents 1000] [--bench-python .venv-bench/bin/python]

Three shapes of so many agents each: a chain in which every agent reads what the one before it
wrote, a wide fan-out into one reader, and routes in loops in branches. Times are CPU seconds, the
best of three: of the check alone, and of a fresh process that imports Weft, declares the flow and
checks it. google-adk is imported by the other Python, in a fresh process.
"""

import argparse
import subprocess
import sys
import time
from pathlib import Path

from weft import Agent, Loop, Parallel, Route, Sequence, check
from weft.declare import Node


def chain(count: int) -> Node:
    """Each agent reads what the one before it wrote."""
    first = Agent("n0", instruction="Begin.").writes("k0")
    rest = (
        Agent(f"n{i}", instruction=f"Go on from {{k{i - 1}}}.").writes(f"k{i}")
        for i in range(1, count)
    )
    return Sequence(first, *rest)


def silent_chain(count: int) -> Node:
    """The same, where every key must be inferred."""
    first = Agent("n0", instruction="Begin.")
    rest = (Agent(f"n{i}", instruction=f"Go on from {{k{i - 1}}}.") for i in range(1, count))
    return Sequence(first, *rest)


def fan_out(count: int) -> Node:
    """All agents at once, and one that reads what they wrote."""
    agents = [Agent(f"n{i}", instruction="Work.").writes(f"k{i}") for i in range(count - 1)]
    text = " ".join(f"{{k{i}}}" for i in range(count - 1))
    return Parallel(*agents) >> Agent("end", instruction=text)


def nested(count: int) -> Node:
    """Blocks of eight agents, each a loop over a route in branches, one behind the other."""
    blocks: list[Node] = []
    for block in range(count // 8):
        names = [f"b{block}_{i}" for i in range(8)]
        agents = [
            Agent(name, instruction=f"Work on {{task}} {{{name}?}}.").writes(name) for name in names
        ]
        routed = Route("task").eq("x", agents[0] >> agents[1]).otherwise(agents[2] >> agents[3])
        inner = Loop(agents[4] >> (routed | agents[5]), max=3)
        blocks.append(Loop(inner >> (agents[6] | agents[7]), max=3))
    return Sequence(*blocks)


SHAPES = {"chain": chain, "silent chain": silent_chain, "fan-out": fan_out, "nested": nested}


def best(shape: str, count: int) -> float:
    """The best of three checks, in seconds."""
    flow = SHAPES[shape](count)
    times: list[float] = []
    for _ in range(3):
        start = time.process_time()
        found = check(flow, inputs={"task": str})
        times.append(time.process_time() - start)
        assert not [one for one in found if one.severity != "info"], found[:3]
    return min(times)


def fresh(python: str, code: str) -> float:
    """The CPU seconds of a fresh process; the best of three."""
    times: list[float] = []
    for _ in range(3):
        done = subprocess.run(
            [python, "-c", f"import time; {code}; print(time.process_time())"],
            check=True, capture_output=True, text=True,
        )  # fmt: skip
        times.append(float(done.stdout.split()[-1]))
    return min(times)


def main() -> None:
    """Measure, and print a table."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--agents", type=int, default=1000)
    parser.add_argument("--bench-python", default=".venv-bench/bin/python")
    given = parser.parse_args()
    print(f"{given.agents} agents        check   fresh process")
    for shape in SHAPES:
        code = (
            f"from bench.check import SHAPES; from weft import check;"
            f" check(SHAPES[{shape!r}]({given.agents}), inputs={{'task': str}})"
        )
        alone = fresh(sys.executable, code)
        print(f"{shape:<16} {best(shape, given.agents):7.3f} s {alone:10.3f} s")
    if Path(given.bench_python).exists():
        for code in ("from google.adk.agents import LlmAgent", "from google.adk import Runner"):
            print(f"{code:<41} {fresh(given.bench_python, code):.3f} s")


if __name__ == "__main__":
    main()
