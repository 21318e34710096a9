"""Other processes that a test talks to, stops and kills, without the time that imports take.

A server for each worker of pytest imports the package once and forks each of these processes. The
test has the id of the process itself: every signal reaches it, and its exit code is exact.
"""

import multiprocessing
import os
import runpy
import signal
import sys
from collections.abc import Mapping
from multiprocessing.connection import Connection
from pathlib import Path
from typing import NoReturn

from tests.support.forks import exit_code, take_streams

ROOT = Path(__file__).parents[2]

FORKS = multiprocessing.get_context("forkserver")
FORKS.set_forkserver_preload(
    [
        __name__, "tests.turns.child", "tests.support.build", "weft.turns.procrastinate_queue",
        "weft.stores.sqlite", "weft.stores.postgres", "weft.runtime.runner", "dbos",
        "weft.cli.proxy", "weft.cli.serve", "weft.server.proxy", "uvicorn", "uvicorn.loops.auto",
        "uvicorn.protocols.websockets.auto", "uvicorn.lifespan.off", "splintr", "weft.relevance",
        "typer._adapters",  # loads pydantic, with the first arguments of a command line
    ]
)  # fmt: skip


class ForkedProgram:
    """A module that runs as a program, as `python -m` starts it: its streams and its end."""

    def __init__(
        self,
        module: str,
        *arguments: str,
        cwd: Path = ROOT,
        env: Mapping[str, str] | None = None,
    ) -> None:
        reading, typing = FORKS.Pipe(duplex=False)
        hearing, saying = FORKS.Pipe(duplex=False)
        words = [module, *arguments]
        self._process = FORKS.Process(
            target=_become, args=(words, str(cwd), dict(env or {}), reading, saying), daemon=True
        )
        self._process.start()
        reading.close()
        saying.close()
        self.stdin = open(os.dup(typing.fileno()), "w", encoding="utf-8")  # noqa: SIM115
        self.stdout = open(os.dup(hearing.fileno()), encoding="utf-8")  # noqa: SIM115
        typing.close()
        hearing.close()

    @property
    def pid(self) -> int:
        assert self._process.pid is not None
        return self._process.pid

    def send_signal(self, number: signal.Signals) -> None:
        """Send it a signal, unless it has ended."""
        if self._process.is_alive():
            os.kill(self.pid, number)

    @property
    def returncode(self) -> int | None:
        """Its exit code, if it has ended; that of a signal is below zero."""
        return self._process.exitcode

    def wait(self, timeout: float = 600) -> int:
        """Its exit code, once it has ended."""
        self._process.join(timeout)
        assert self.returncode is not None, "it does not end"
        return self.returncode

    def close(self) -> None:
        """Kill it, whatever state it is in."""
        self._process.kill()
        self._process.join()
        for stream in (self.stdin, self.stdout):
            stream.close()


def _become(
    words: list[str], cwd: str, env: dict[str, str], reading: Connection, saying: Connection
) -> NoReturn:
    os.environ.update(env)
    os.chdir(cwd)
    sys.path.insert(0, cwd)
    streams = [os.dup(number) for number in (reading.fileno(), saying.fileno(), 2)]
    reading.close()
    saying.close()
    take_streams(streams)
    signal.signal(signal.SIGTERM, signal.SIG_DFL)
    sys.argv = words
    os._exit(exit_code(lambda: runpy.run_module(words[0], run_name="__main__", alter_sys=True)))
