"""The servers that tests of MCP start."""

import contextlib
import os
import socket
import subprocess
import sys
import time
from collections.abc import Iterator
from pathlib import Path

from tests.support.fork_programs import command_of
from weft.tools import MCP

STANDINS = Path(__file__).parents[1] / "standins"
TOY = "tests.standins.mcp_server"


def toy(journal: Path | None = None, **options: object) -> MCP:
    """The stand-in as a process of its own."""
    env = {"WEFT_JOURNAL": str(journal)} if journal is not None else {}
    options = {"name": "toy", "env": env, "start_seconds": 120, **options}
    program, *arguments = command_of(TOY)
    return MCP(program, arguments, **options)  # type: ignore[arg-type]


def hostile(way: str, **options: object) -> MCP:
    """A server that misbehaves."""
    options = {"name": "hostile", "start_seconds": 60, **options}
    return MCP(sys.executable, [str(STANDINS / "hostile_mcp_server.py"), way], **options)  # type: ignore[arg-type]


@contextlib.contextmanager
def serve_toy(journal: Path, port: int = 0) -> Iterator[str]:
    """The stand-in behind an address."""
    with socket.socket() as probe:
        probe.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        probe.bind(("127.0.0.1", port))
        port = probe.getsockname()[1]
    env = {**os.environ, "WEFT_JOURNAL": str(journal)}
    process = subprocess.Popen([*command_of(TOY), str(port)], env=env, stderr=subprocess.DEVNULL)
    try:
        for _ in range(6000):
            with contextlib.suppress(OSError), socket.create_connection(("127.0.0.1", port), 1):
                break
            time.sleep(0.02)
        yield f"http://127.0.0.1:{port}/mcp"
    finally:
        process.kill()
        process.wait()
        with contextlib.suppress(OSError):  # until nobody listens any more
            while True:
                socket.create_connection(("127.0.0.1", port), 1).close()
