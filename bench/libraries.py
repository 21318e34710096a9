"""The runtime against other agent libraries, each in a process of its own, in one run.

The model answers from a script in no time, so what is left is the library. See `rows` for what
each row does and `subjects` for how each library is used.
"""

import json
import subprocess
import sys
from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path

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
STARTS = 5
"""Fresh processes a library is imported in; the first may still write bytecode."""
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
    call: float = 0.0
    """What a Python call took while it was measured: how fast the machine was just then."""

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

    def __init__(self, ours: Library, peers: list[Library]) -> None:
        self.ours = ours
        self.peers = peers
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
        lines.append(("a Python call meanwhile", *(duration(peer.call) for peer in self.peers)))
        lines.append(("version", *(peer.version or "-" for peer in self.peers)))
        return columns(lines)

    def _notes(self) -> str:
        notes = ["~ stopped early and extrapolated; * put together by hand, the library has none"]
        notes += [f"a Python call took {duration(self.ours.call)} while weft was measured"]
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
    """Every library, one after the other."""
    ours, *peers = [library(name) for name in ("weft", *PEERS)]
    return RuntimeTable(ours, peers)


def library(name: str) -> Library:
    """The numbers of one library, or why there are none."""
    print(f"measuring {name} ...", file=sys.stderr, flush=True)
    found = Library(name.replace("_", "-"))
    told, problem = _ask(name)
    if told is None:
        found.problems["all rows"] = problem
        return found
    found.name, found.version = told["name"], told["version"]
    found.rows, found.problems = told["rows"], told["problems"]
    found.by_hand, found.call = tuple(told["by_hand"]), told["call"]
    starts: list[dict[str, float]] = []
    for _ in range(STARTS):
        told, problem = _ask(name, "first")
        if told is None:
            found.problems["first"] = problem
            return found
        starts.append(told["rows"]["first"])
    found.rows["first"] = min(starts, key=lambda start: start["value"])
    return found


def _ask(*arguments: str) -> tuple[dict | None, str]:
    """What a worker prints last, or what is wrong with it."""
    worker = str(Path(__file__).with_name("worker.py"))
    command = [sys.executable, "-W", "ignore", worker, *arguments]
    try:
        done = subprocess.run(
            command, capture_output=True, text=True, timeout=PATIENCE, env=installed(), check=False
        )
    except subprocess.TimeoutExpired:
        return None, f"took longer than {PATIENCE:g} s"
    if done.returncode:
        last = (done.stderr.strip().splitlines() or ["nothing said"])[-1]
        absent = "ModuleNotFoundError" in last or "PackageNotFoundError" in last
        return None, f"not installed: {last}" if absent else f"failed: {last}"
    return json.loads(done.stdout.splitlines()[-1]), ""
