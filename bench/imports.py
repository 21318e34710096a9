"""`import weft` against what people import anyway; CPU seconds of fresh processes."""

import subprocess
import sys

from table import Table, installed

_CODE = "import time; start = time.process_time(); {code}; print(time.process_time() - start)"
BASELINES = {
    "httpx": "import httpx",
    "pydantic": "import pydantic; pydantic.BaseModel",
    "google-adk's LlmAgent": "from google.adk.agents import LlmAgent",
}


def measure() -> Table:
    """Import, and import with the first compilation."""
    table = Table("import (CPU of a fresh process)")
    light = _seconds("import weft")
    declaring = _seconds("import weft; weft.Agent")
    assert light is not None
    assert declaring is not None
    limit = 0.100
    table.add("import weft", light, "limit", limit, 1.0)
    table.add("import weft; weft.Agent", declaring, "limit", limit)
    first = _seconds("import weft; weft.compile(weft.Agent('a', model='gpt-5'), message='hi').wire")
    assert first is not None
    table.add("import weft and compile a first request", first, "limit", limit)
    for name, code in BASELINES.items():
        theirs = _seconds(code)
        if theirs is None:
            table.note(name, "not installed")
        else:
            table.add("import weft; weft.Agent", declaring, name, theirs)
    return table


def _seconds(code: str, rounds: int = 5) -> float | None:
    found: list[float] = []
    for _ in range(rounds):
        done = subprocess.run(
            [sys.executable, "-W", "ignore", "-c", _CODE.format(code=code)],
            capture_output=True, text=True, env=installed(), check=False,
        )  # fmt: skip
        if done.returncode:
            return None
        found.append(float(done.stdout.splitlines()[-1]))
    return min(found)
