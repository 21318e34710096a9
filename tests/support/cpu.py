"""A plugin of pytest that says what each file and each test costs in CPU time.

    .venv/bin/python -m pytest tests/stores -n 0 -q -p tests.support.cpu

Seconds on the wall depend on what else runs on the machine, seconds of a processor hardly do. What
processes cost that a test started counts for it, while they live and when they were waited for; a
server that several tests share counts for the test during which it works. With `WEFT_TESTS_CPU`
set to a path, each test's seconds on processors and on the wall are added to that file.
"""

import os
import time
from collections import Counter
from collections.abc import Generator, Iterator
from pathlib import Path

import pytest

ROWS = 40
"""How many files and how many tests are listed."""

_TICK = os.sysconf("SC_CLK_TCK")
_SECONDS: Counter[str] = Counter()


@pytest.hookimpl(wrapper=True, tryfirst=True)
def pytest_runtest_protocol(item: pytest.Item) -> Generator[None, object, object]:
    """Count what a test costs, its fixtures included."""
    cpu, wall = _measure_cpu(), time.perf_counter()
    try:
        return (yield)
    finally:
        cost, waited = _measure_cpu() - cpu, time.perf_counter() - wall
        _SECONDS[item.nodeid] += cost
        if path := os.environ.get("WEFT_TESTS_CPU"):
            with Path(path).open("a") as file:
                file.write(f"{cost:.3f}\t{waited:.3f}\t{item.nodeid}\n")


def pytest_terminal_summary(terminalreporter: pytest.TerminalReporter) -> None:
    """List the files and the tests that cost most."""
    files: Counter[str] = Counter()
    for name, cost in _SECONDS.items():
        files[name.partition("::")[0]] += cost
    terminalreporter.section(f"CPU: {files.total():.1f} s")
    for costs in (files, _SECONDS):
        for name, cost in costs.most_common(ROWS):
            terminalreporter.line(f"{cost:8.2f} {name}")


def _measure_cpu() -> float:
    """Seconds of this process, of those below it, and of those that were waited for."""
    below = sum(_list_below())
    times = os.times()
    return below + times.user + times.system + times.children_user + times.children_system


def _list_below() -> Iterator[float]:
    """The seconds of each process below this one, with those that it waited for."""
    parents, seconds = {}, {}
    for process in filter(str.isdigit, os.listdir("/proc")):
        try:
            fields = Path(f"/proc/{process}/stat").read_bytes().rpartition(b")")[2].split()
        except OSError:  # it has ended
            continue
        parents[int(process)] = int(fields[1])
        seconds[int(process)] = sum(map(int, fields[11:15])) / _TICK
    for process in seconds:
        parent = parents[process]
        while parent > 1 and parent != os.getpid():
            parent = parents.get(parent, 0)
        if parent > 1:
            yield seconds[process]
