"""Worker processes of a server: started with it, started again when they die, stopped with it."""

import os
import signal
import subprocess
import sys
import threading
import time
from collections.abc import Sequence
from contextlib import suppress

from weft.cli.worker import PARENT

_FIRST_PAUSE = 0.5
"""Seconds before a worker that died is started again; twice as long each time it dies young."""

_LONGEST_PAUSE = 30.0

_YOUNG = 10.0
"""Seconds of life from which on a worker is not one that cannot start."""

_LOOK_EVERY = 0.2

_LAST_WAIT = 5.0
"""Seconds beyond the grace after which a worker that does not end is killed."""


class WorkerProcesses:
    """So many processes of a command, while the block runs."""

    def __init__(self, command: Sequence[str], count: int, *, grace: float) -> None:
        self._command = [*command]
        self._places = [_WorkerPlace() for _ in range(count)]
        self._grace = grace
        self._stopping = threading.Event()
        self._thread = threading.Thread(target=self._watch, name="weft workers", daemon=True)

    def __enter__(self) -> "WorkerProcesses":
        # the server stops on SIGTERM and then raises it again, which must not end us before them
        signal.signal(signal.SIGTERM, _go_on)
        for place in self._places:
            self._start(place)
        self._thread.start()
        return self

    def __exit__(self, *exc: object) -> None:
        # first: a worker that ends from here on must not be started again
        self._stopping.set()
        self._thread.join()
        running = [place.process for place in self._places if place.process is not None]
        for process in running:
            with suppress(ProcessLookupError):
                process.send_signal(signal.SIGTERM)
        until = time.monotonic() + self._grace + _LAST_WAIT
        for process in running:
            try:
                process.wait(timeout=max(until - time.monotonic(), 0.1))
            except subprocess.TimeoutExpired:
                _say(f"worker {process.pid} does not end: it is killed")
                process.kill()
                process.wait()

    def _start(self, place: "_WorkerPlace") -> None:
        place.begun = time.monotonic()
        # Ctrl-C reaches the whole group: the server itself tells the workers, once
        place.process = subprocess.Popen(
            self._command,
            env={**os.environ, PARENT: str(os.getpid())},
            stdin=subprocess.DEVNULL,
            # the server's stdout has its address, for whoever reads it
            stdout=subprocess.DEVNULL,
            start_new_session=True,
        )

    def _watch(self) -> None:
        while not self._stopping.wait(_LOOK_EVERY):
            now = time.monotonic()
            for place in self._places:
                if place.process is not None and (code := place.process.poll()) is not None:
                    is_young = now - place.begun < _YOUNG
                    place.pause = min(place.pause * 2, _LONGEST_PAUSE) if is_young else _FIRST_PAUSE
                    place.again = now + place.pause
                    place.process = None
                    _say(f"a worker ended with {code}: the next starts in {place.pause:g} s")
                elif place.process is None and now >= place.again:
                    self._start(place)


def _go_on(number: int, frame: object) -> None:
    """Do nothing about a signal."""


def _say(words: str) -> None:
    print(words, file=sys.stderr, flush=True)


class _WorkerPlace:
    """A place for one process, and when it is filled again."""

    def __init__(self) -> None:
        self.process: subprocess.Popen[bytes] | None = None
        self.begun = 0.0
        self.again = 0.0
        self.pause = _FIRST_PAUSE / 2
