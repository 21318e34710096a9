"""Processes that programs under test start, and how long they live."""

import time
from collections.abc import Callable
from contextlib import suppress
from pathlib import Path


def below(process: int) -> set[int]:
    """The processes that stand below one."""
    parents: dict[int, int] = {}
    for status in Path("/proc").glob("[0-9]*/stat"):
        with suppress(OSError, ValueError):
            fields = status.read_text().rpartition(")")[2].split()
            if fields[0] != "Z":
                parents[int(status.parent.name)] = int(fields[1])
    found = {process}
    while more := {one for one, parent in parents.items() if parent in found} - found:
        found |= more
    return found - {process}


def is_alive(process: int) -> bool:
    try:
        return Path(f"/proc/{process}/stat").read_text().rpartition(")")[2].split()[0] != "Z"
    except OSError:
        return False


def all_gone(processes: set[int]) -> bool:
    return not any(map(is_alive, processes))


def wait_for(condition: Callable[[], object], words: str, seconds: float = 60) -> None:
    ends = time.monotonic() + seconds
    while not condition():
        assert time.monotonic() < ends, words
        time.sleep(0.02)
