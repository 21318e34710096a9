"""How long the check of a large flow takes, beside the time it takes to import google-adk.

    python -m bench.check [--agents 1000] [--growth] [--bench-python .venv-bench/bin/python]

Shapes of so many agents each: a chain in which every agent reads what the one before it wrote, a
wide fan-out into one reader, routes in loops in branches, a tree of transfers, a route with a case
for every agent, and loops in loops. Times are CPU seconds, the best of three: of the check alone,
and of a fresh process that imports Weft, declares the flow and checks it. google-adk is imported by
the other Python, in a fresh process. With --growth, also the check of four times as many.
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


def transfers(count: int) -> Node:
    """One agent that may hand over to all others, ten to each, down to the last."""
    agents: list[Agent] = []
    for number in reversed(range(count)):
        children = agents[len(agents) - 10 :] if len(agents) >= 10 and number % 10 == 0 else []
        del agents[len(agents) - len(children) :]
        agents.append(
            Agent(f"n{number}", instruction="Work on {task}.", sub_agents=children).writes(
                f"k{number}"
            )
        )
    return Agent("top", instruction="Hand over.", sub_agents=agents)


def route(count: int) -> Node:
    """A case for every agent."""
    made = Route("task")
    for number in range(count):
        agent = Agent(f"n{number}", instruction="Work on {task}.").writes(f"k{number}")
        made = made.eq(f"label {number}", agent)
    return made.otherwise(Agent("other", instruction="Work."))


def loops(count: int) -> Node:
    """Ten loops, each in the next one."""
    node: Node = Agent("first", instruction="Begin.").writes("k")
    for start in range(0, count, max(1, count // 10)):
        steps = [
            Agent(f"n{number}", instruction="Work on {task} and {k}.").writes(f"k{number}")
            for number in range(start, min(count, start + count // 10))
        ]
        node = Loop(Sequence(node, *steps), max=3)
    return node


SHAPES = {
    "chain": chain,
    "silent chain": silent_chain,
    "fan-out": fan_out,
    "nested": nested,
    "transfers": transfers,
    "route": route,
    "loops": loops,
}


def best(shape: str, count: int) -> float:
    """The best of three checks, in seconds."""
    flow = SHAPES[shape](count)
    times: list[float] = []
    for _ in range(3):
        start = time.process_time()
        found = check(flow, inputs={"task": str}, allow=["WEFT112", "WEFT302", "WEFT408"])
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
    parser.add_argument("--growth", action="store_true")
    parser.add_argument("--bench-python", default=".venv-bench/bin/python")
    given = parser.parse_args()
    print(f"{given.agents} agents        check   fresh process")
    for shape in SHAPES:
        code = (
            f"from bench.check import SHAPES; from weft import check;"
            f" check(SHAPES[{shape!r}]({given.agents}), inputs={{'task': str}})"
        )
        alone = fresh(sys.executable, code)
        times = [best(shape, given.agents * more) for more in ((1, 4) if given.growth else (1,))]
        grown = "".join(f"{each:9.3f} s" for each in times[1:])
        print(f"{shape:<16} {times[0]:7.3f} s {alone:10.3f} s{grown}")
    if Path(given.bench_python).exists():
        for code in ("from google.adk.agents import LlmAgent", "from google.adk import Runner"):
            print(f"{code:<41} {fresh(given.bench_python, code):.3f} s")


if __name__ == "__main__":
    main()
