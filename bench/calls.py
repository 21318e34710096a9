"""What a model call costs beside the model: Weft against bare HTTP and each vendor's SDK.

One stub server for all; every caller in a process of its own, taking turns. CPU time of the
caller, least of several visits. The callers run in `.venv` where there is one, because that has the
vendors' newest SDKs.
"""

import contextlib
import json
import subprocess
import sys
from pathlib import Path

from calls_answers import WORDS
from calls_clients import CALLERS, MODELS
from table import Table, installed

HERE = Path(__file__).parent
VISITS = 16
KINDS = ("whole", "begin", "stream")
TITLES = {"sdk": "", "model": "weft's model alone", "runner": "a Runner", "run": "weft.run"}
OURS = ("runner", "run")
"""All of Weft, for which there are targets."""


def measure() -> Table:
    """All callers of all dialects in turns; then their ratios."""
    table = Table("a model call (41 messages, CPU time of the caller)")
    with _started("calls_server.py") as server:
        assert server.stdout is not None
        url = f"http://127.0.0.1:{server.stdout.readline().strip()}"
        for dialect in MODELS:
            print(f"measuring calls, {dialect} ...", file=sys.stderr, flush=True)
            _add(table, dialect, [Caller(name, dialect, url) for name in CALLERS])
        server.kill()
    return table


class Caller:
    """The process of a caller, and the least times it has told so far."""

    def __init__(self, name: str, dialect: str, url: str) -> None:
        self.name = name
        self.least: dict[str, float] = {}
        self.process = _started("calls_worker.py", name, dialect, url)
        told = json.loads(self._heard() or "{}")
        self.problem = told.get("problem", "")
        self.title = f"{told.get('name')} {told.get('version')}"

    def visit(self, kind: str) -> None:
        """Have it measure once more."""
        if self.problem:
            return
        assert self.process.stdin is not None
        line = ""
        with contextlib.suppress(BrokenPipeError):  # it has ended, and said why on our screen
            self.process.stdin.write(f"{kind}\n")
            self.process.stdin.flush()
            line = self._heard()
        if line:
            self.least[kind] = min(self.least.get(kind, float("inf")), json.loads(line))
        else:
            self.problem = "failed: its process ended"

    @property
    def delta(self) -> float:
        """What one more delta takes."""
        return (self.least["stream"] - self.least["begin"]) / (WORDS - 1)

    def end(self) -> None:
        """End the process."""
        self.process.kill()
        self.process.communicate()

    def _heard(self) -> str:
        assert self.process.stdout is not None
        return self.process.stdout.readline()


def _add(table: Table, dialect: str, callers: list[Caller]) -> None:
    try:
        for _ in range(VISITS):
            for kind in KINDS:
                for caller in callers:
                    caller.visit(kind)
    finally:
        for caller in callers:
            caller.end()
    found = {caller.name: caller for caller in callers if not caller.problem}
    for caller in callers:
        if caller.problem:
            table.note(f"{dialect}: {caller.name}", caller.problem)
    if "bare" not in found:
        return
    bare, vendor = found["bare"], found.get("sdk")
    for what, limit, seconds in (
        ("call", 2.0, lambda caller: caller.least["whole"]),
        ("delta", 1.5, lambda caller: caller.delta),
    ):
        for name, title in TITLES.items():
            if name not in found:
                continue
            row = f"{dialect}, a {what}: {title or found[name].title}"
            value, ours = seconds(found[name]), name in OURS
            table.add(row, value, "bare", seconds(bare), limit if ours else None)
            if ours and vendor is not None:
                table.add(row, value, "SDK", seconds(vendor), 1.0)


def _started(script: str, *arguments: str) -> "subprocess.Popen[str]":
    newest = HERE.parent / ".venv" / "bin" / "python"
    python = str(newest) if newest.exists() else sys.executable
    return subprocess.Popen(
        [python, "-W", "ignore", str(HERE / script), *arguments],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        text=True,
        env=installed(),
    )
