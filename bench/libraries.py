"""The runtime against other agent libraries, each in a process of its own, in one run.

The model answers from a script in no time, so what is left is the library. See `rows` for what
each row does and `subjects` for how each library is used.
"""

import json
import select
import subprocess
import sys
from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path

import rows
from table import duration, installed

PEERS = (
    "google_adk",
    "pydantic_ai",
    "langgraph",
    "openai_agents",
    "agent_framework",
    "agno",
    "strands",
)
VISITS = {"first": 4, "grow": 1, "store": 1, "crowd": 2}
"""How often a library is asked for a row, the others in between; four times, if not said."""
PATIENCE = 120.0
"""Seconds after which a library is given up."""


def times(value: float) -> str:
    return f"{value:.2f}x"


def rate(value: float) -> str:
    return f"{value:,.0f}/s"


def size(value: float) -> str:
    return f"{value / 1e6:.1f} MB"


@dataclass(frozen=True)
class Row:
    """A line of the table: what it is called, how it is written, what it should be."""

    key: str
    title: str
    target: float
    shown: Callable[[float], str] = duration
    at_least: bool = False

    def met(self, value: float) -> bool:
        return value >= self.target if self.at_least else value <= self.target

    def goal(self, value: float) -> str:
        sign = ">=" if self.at_least else "<="
        return f"{sign} {self.shown(self.target)} {'ok' if self.met(value) else 'MISSED'}"

    def ratio(self, ours: float, theirs: float) -> float:
        """How many times better ours is."""
        return ours / theirs if self.at_least else theirs / ours


ROWS = (
    Row("first", "import and first turn", 0.150),
    Row("turn", "a turn without tools", 100e-6),
    Row("loop", "a call in a loop of 20", 100e-6),
    Row("fan", "16 tools of 20 ms at once, wall", 1.06, times),
    Row("grow", "a session of 2,000 events", 0.5),
    Row("grow_flat", "  last turns over first", 1.5, times),
    Row("store", "the same in SQLite", 1.0),
    Row("store_flat", "  last turns over first", 1.5, times),
    Row("store_bytes", "  bytes written", 16e6, size),
    Row("crowd", "1,000 sessions at once, turns", 8_000, rate, at_least=True),
    Row("delta", "a streamed delta", 8e-6),
    Row("router", "a transfer to a child", 1e-3),
    Row("sequence", "10 agents in sequence", 1e-3),
    Row("templates", "10 agents, templates", 1e-3),
    Row("parallel", "10 agents in parallel", 1e-3),
)


@dataclass
class Library:
    """What one library's processes said."""

    name: str
    version: str = ""
    rows: dict[str, dict[str, float]] = field(default_factory=dict)
    problems: dict[str, str] = field(default_factory=dict)
    by_hand: tuple[str, ...] = ()

    def value(self, key: str) -> float | None:
        return self.rows[key]["value"] if key in self.rows else None

    def cell(self, row: Row) -> str:
        value = self.value(row.key)
        if value is None:
            return "-"
        mark = "*" if row.key in self.by_hand else ""
        return ("~" if self.rows[row.key]["estimated"] else "") + row.shown(value) + mark


class RuntimeTable:
    """Weft against its targets and the best of the others; then all of the others."""

    def __init__(self, ours: Library, peers: list[Library], calls: list[float]) -> None:
        self.ours = ours
        self.peers = peers
        self.calls = calls
        values = [(row, ours.value(row.key)) for row in ROWS]
        self.missed = sum(value is None or not row.met(value) for row, value in values)

    def __str__(self) -> str:
        title = "== runtime (CPU time; the model answers at once)"
        return "\n\n".join([f"{title}\n{self._targets()}", self._peers(), self._notes()])

    def _targets(self) -> str:
        lines = [("", "weft", "target", "best of the others", "times as good")]
        for row in ROWS:
            value = self.ours.value(row.key)
            if value is None:
                lines.append((row.title, "failed", "MISSED", "", ""))
                continue
            best, ratio = self._best(row, value)
            lines.append((row.title, self.ours.cell(row), row.goal(value), best, ratio))
        return columns(lines)

    def _best(self, row: Row, ours: float) -> tuple[str, str]:
        found = [(row.ratio(ours, v), p) for p in self.peers if (v := p.value(row.key)) is not None]
        if not found:
            return "none has it", ""
        ratio, peer = min(found, key=lambda pair: pair[0])
        return f"{peer.name} {peer.cell(row)}", f"{ratio:.1f}x"

    def _peers(self) -> str:
        lines = [("", *(peer.name for peer in self.peers))]
        lines += [(row.title, *(peer.cell(row) for peer in self.peers)) for row in ROWS]
        lines.append(("version", *(peer.version or "-" for peer in self.peers)))
        return columns(lines)

    def _notes(self) -> str:
        notes = ["~ stopped early and extrapolated; * put together by hand, the library has none"]
        if self.calls:
            least, most = duration(min(self.calls)), duration(max(self.calls))
            notes.append(f"a call of a Python function took {least} to {most} meanwhile")
        for library in (self.ours, *self.peers):
            notes += [f"- {library.name}, {row}: {why}" for row, why in library.problems.items()]
        return "\n".join(notes)


def columns(lines: list[tuple[str, ...]]) -> str:
    """Lines of cells, each column as wide as its widest cell."""
    widths = [max(len(line[i]) for line in lines) for i in range(len(lines[0]))]
    return "\n".join(
        "  ".join(c.ljust(w) for c, w in zip(line, widths, strict=True)).rstrip() for line in lines
    )


def measure() -> RuntimeTable:
    """Every row by all libraries in turns, the best of several visits each."""
    workers = [Worker(name) for name in ("weft", *PEERS)]
    for row in ("first", *rows.ROWS):
        print(f"measuring {row} ...", file=sys.stderr, flush=True)
        for _ in range(VISITS.get(row, 4)):
            for worker in workers:
                worker.visit(row)
    calls = [call for worker in workers for call in worker.calls]
    for worker in workers:
        worker.end()
    ours, *peers = [worker.found for worker in workers]
    return RuntimeTable(ours, peers, calls)


class Worker:
    """A library's process, and what it has said so far."""

    def __init__(self, name: str) -> None:
        self._name = name
        self._process = _start(name)
        self.found = Library(name.replace("_", "-"))
        self.calls: list[float] = []
        told = self._heard()
        if "problem" in told:
            self.found.problems["all rows"] = told["problem"]
        else:
            self.found.name, self.found.version = told["name"], told["version"]
            self.found.by_hand = tuple(told["by_hand"])

    def visit(self, row: str) -> None:
        """Have a row measured once more, unless it cannot be."""
        if row in self.found.problems or "all rows" in self.found.problems:
            return
        told = self._started() if row == "first" else self._asked(row)
        if "problem" in told:
            self.found.problems[row] = told["problem"]
            return
        if "call" in told:
            self.calls.append(told["call"])
        for key, number in told["rows"].items():
            held = self.found.rows.setdefault(key, number)
            best = max if key == "crowd" else min
            self.found.rows[key] = best(held, number, key=lambda each: each["value"])

    def end(self) -> None:
        """End the process."""
        self._process.kill()
        self._process.wait()

    def _asked(self, row: str) -> dict:
        assert self._process.stdin is not None
        try:
            self._process.stdin.write(f"{row}\n".encode())
            self._process.stdin.flush()
        except BrokenPipeError:
            return {"problem": "failed: its process is gone"}
        return self._heard()

    def _heard(self) -> dict:
        """The next line of the process, or that there is none."""
        output = self._process.stdout
        assert output is not None
        if not select.select([output], [], [], PATIENCE)[0]:
            self.end()
            return {"problem": f"took longer than {PATIENCE:g} s"}
        line = output.readline()
        return json.loads(line) if line else {"problem": "failed: its process ended"}

    def _started(self) -> dict:
        """What a new process says of its start."""
        process = _start(self._name, "first")
        try:
            output = process.communicate(timeout=PATIENCE)[0]
        except subprocess.TimeoutExpired:
            process.kill()
            return {"problem": f"took longer than {PATIENCE:g} s"}
        return json.loads(output) if output else {"problem": "failed: its process ended"}


def _start(*arguments: str) -> "subprocess.Popen[bytes]":
    worker = str(Path(__file__).with_name("worker.py"))
    return subprocess.Popen(
        [sys.executable, "-W", "ignore", worker, *arguments],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        stderr=subprocess.DEVNULL,
        env=installed(),
    )
