"""Commands of programs that others start for a test, without importing what they need each time.

A process imports it once and forks for each program. A program still has a process of its own,
with its folder, variables and streams. It gets SIGTERM and SIGINT, and can be killed: its fork dies
with it. A program that the test starts itself is a `tests.support.forked.ForkedProgram`.
"""

import atexit
import functools
import importlib
import json
import os
import runpy
import select
import signal
import socket
import subprocess
import sys
import tempfile
import time
from contextlib import suppress
from pathlib import Path
from typing import NoReturn

from tests.support.forks import HEADER, exit_code, read_bytes, take_streams

ROOT = Path(__file__).parents[2]


def command_of(module: str) -> list[str]:
    """The command that runs a module of the tests as a program."""
    # coverage follows processes that are started, not those that are forked
    if not hasattr(os, "fork") or any(name.startswith("COVERAGE_") for name in os.environ):
        return [sys.executable, "-m", module]
    client = str(Path(__file__).with_name("fork_client.py"))
    return [sys.executable, "-IS", client, str(_start_forking()), module]


@functools.cache
def _start_forking() -> Path:
    """Start the process that forks; the socket at which it listens."""
    folder = tempfile.TemporaryDirectory()
    line = Path(folder.name) / "line"
    process = subprocess.Popen(
        [sys.executable, "-m", __name__, str(line)], cwd=ROOT, stdin=subprocess.PIPE
    )

    @atexit.register
    def stop() -> None:
        process.communicate()
        folder.cleanup()

    while not line.exists():
        assert process.poll() is None
        time.sleep(0.01)
    return line


# --- the process that forks

MODULES = (
    "weft", "weft.testing", "weft.tools.mcp_connection", "weft.tools.a2a", "weft.stores.sqlite",
    "weft.stores.postgres", "mcp.server.mcpserver", "mcp.server.streamable_http_manager",
    "uvicorn.protocols.http.auto", "uvicorn.loops.auto", "uvicorn.lifespan.on", "weft.server",
    "weft.server.mcp", "weft.cli.serve", "weft.turns",
)  # fmt: skip
"""What the programs need."""


def serve(address: str) -> None:
    """Fork for each program that is asked for, as long as somebody holds the other end of stdin."""
    for module in MODULES:
        importlib.import_module(module)
    listener = socket.socket(socket.AF_UNIX)
    listener.bind(address)
    listener.listen(64)
    running: dict[socket.socket, int] = {}
    while True:
        waiting = [sys.stdin, listener, *running]
        ready, _, _ = select.select(waiting, [], [], 0.01 if running else None)
        if sys.stdin in ready:
            for child in running.values():
                os.kill(child, signal.SIGKILL)
            return
        for line in ready:
            if line is not listener:  # the client got a signal, or was killed
                sent = line.recv(1)
                os.kill(running[line], sent[0] if sent else signal.SIGKILL)
                continue
            client, _ = listener.accept()
            header, streams, _, _ = socket.recv_fds(client, HEADER, 3)
            if not header:  # it was killed before it asked
                client.close()
                continue
            message = json.loads(read_bytes(client, int.from_bytes(header, "big")))
            child = os.fork()
            if child == 0:
                for other in (listener, client, *running):
                    other.close()
                _become(*message, streams)
            for stream in streams:
                os.close(stream)
            running[client] = child
        for client, child in list(running.items()):
            ended, status = os.waitpid(child, os.WNOHANG)
            if ended:
                del running[client]
                with client, suppress(OSError):  # a client that was killed hears nothing
                    client.send(bytes([os.waitstatus_to_exitcode(status) % 256]))


def _become(
    folder: str, words: list[str], environment: dict[str, str], streams: list[int]
) -> NoReturn:
    os.environ.clear()
    os.environ.update(environment)
    take_streams(streams)
    os.chdir(folder)
    sys.argv = words
    os._exit(exit_code(lambda: runpy.run_module(words[0], run_name="__main__", alter_sys=True)))


if __name__ == "__main__":
    serve(sys.argv[1])
