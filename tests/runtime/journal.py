"""A side journal: what happened in processes that were killed, written outside of any store."""

import json
import os
import signal
import threading
import time
from collections.abc import Iterator
from pathlib import Path
from typing import NamedTuple, cast


class Line(NamedTuple):
    """One line: in which attempt, what happened, and to what."""

    attempt: int
    what: str
    about: dict[str, object]

    @property
    def call(self) -> str:
        """The call it is about."""
        return str(self.about.get("call", ""))

    @property
    def ids(self) -> list[str]:
        """The events it is about."""
        return cast("list[str]", self.about["ids"])


class Journal:
    """Appends lines to a file; the line survives the process, whenever that is killed.

    After `kill_after` lines the process kills itself, `delay` seconds later if one is given.
    """

    def __init__(
        self, path: Path, *, attempt: int = 0, kill_after: int = 0, delay: float = 0.0
    ) -> None:
        self._path = path
        self._attempt = attempt
        self._left = kill_after
        self._delay = delay
        self._file = os.open(path, os.O_WRONLY | os.O_APPEND | os.O_CREAT)
        self._lock = threading.Lock()

    def __call__(self, what: str, **about: object) -> None:
        """Write a line, in one piece."""
        text = json.dumps([self._attempt, what, about])
        with self._lock:
            os.write(self._file, f"{text}\n".encode())
            self._left -= 1
            if self._left != 0:
                return
        if not self._delay:
            os.kill(os.getpid(), signal.SIGKILL)
        threading.Thread(target=self._die, daemon=True).start()

    def _die(self) -> None:
        time.sleep(self._delay)
        os.kill(os.getpid(), signal.SIGKILL)

    def happened(self, what: str, call: str) -> bool:
        """Whether this was noted of a call, in this process or one before."""
        return any(line.what == what and line.call == call for line in read(self._path))


def read(path: Path) -> Iterator[Line]:
    """The lines, oldest first; none where it was killed before it could write one."""
    for text in path.read_text().splitlines() if path.exists() else ():
        yield Line(*json.loads(text))
