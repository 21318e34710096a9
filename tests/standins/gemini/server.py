"""A server that speaks Gemini on this machine and answers from a script.

No engine that runs locally speaks this dialect, so tests have this: a real server on a real
socket, for any client. It reads requests with the SDK's own types, refuses what the provider
refuses, remembers what it has read as a prompt cache does, and answers in the provider's shapes.
"""

import asyncio
import socket
import threading
import time
from collections.abc import Iterable, Sequence
from types import TracebackType
from typing import Self

import uvicorn

from tests.standins.gemini.models import MODELS, GeminiModel
from tests.standins.gemini.service import GeminiRequest, GeminiScript, Service
from weft.errors import UsageError

_STARTING = 60.0
"""Seconds after which a server that does not start is given up."""


class GeminiServer:
    """Answers one request after the other with the entries of its script.

    Use it as `with GeminiServer(["Hello."]) as server:`, or with `async with`, and point a client
    at `server.url`. Entries are those of `ScriptedModel`; a callable gets the `GeminiRequest`.
    Thoughts are shown to requests that ask for them, and counted for all.

    `models` are those it has; `key` is the only key it takes, any key if none is given; `pace` is
    how many seconds pass between the pieces of a streamed answer.
    """

    def __init__(
        self,
        script: GeminiScript,
        *,
        models: Iterable[GeminiModel] = MODELS,
        key: str | None = None,
        pace: float = 0.0,
    ) -> None:
        self._service = Service(script, models=models, key=key, pace=pace)
        self._socket: socket.socket | None = None
        self._server: uvicorn.Server | None = None
        self._thread: threading.Thread | None = None

    @property
    def url(self) -> str:
        """The address to give to a client, without a version."""
        if self._socket is None:
            raise UsageError(
                "the server is not running",
                where="GeminiServer.url",
                hint="write `with GeminiServer([...]) as server:`",
            )
        return f"http://127.0.0.1:{self._socket.getsockname()[1]}"

    @property
    def requests(self) -> Sequence[GeminiRequest]:
        """What came so far, in order, also what was refused."""
        return self._service.requests

    @property
    def refusals(self) -> Sequence[str]:
        """What it said to requests that it refused, in order."""
        return self._service.refusals

    @property
    def remaining(self) -> int:
        """How many entries nobody asked for yet."""
        return self._service.remaining

    def start(self) -> None:
        """Listen on a free port of this machine, in a thread of its own."""
        if self._socket is not None:
            raise UsageError(
                "the server is running already", where="GeminiServer", hint="make another one"
            )
        held = socket.socket(socket.AF_INET, socket.SOCK_STREAM)
        held.bind(("127.0.0.1", 0))
        config = uvicorn.Config(
            self._service,
            loop="asyncio",
            http="h11",
            ws="none",
            lifespan="off",
            log_config=None,
            log_level="critical",  # a broken-off answer is no error here
            access_log=False,
            timeout_graceful_shutdown=1,
        )
        server = uvicorn.Server(config)
        thread = threading.Thread(
            target=server.run, args=([held],), name="GeminiServer", daemon=True
        )
        self._socket, self._server, self._thread = held, server, thread
        thread.start()
        until = time.monotonic() + _STARTING
        while not server.started:
            if not thread.is_alive() or time.monotonic() > until:
                self.stop()
                raise UsageError("the server does not start", where="GeminiServer")
            time.sleep(0.002)

    def stop(self) -> None:
        """Close the port and all connections; a server that is not running stays so."""
        server, thread, held = self._server, self._thread, self._socket
        self._server = self._thread = self._socket = None
        if server is not None and thread is not None and held is not None:
            server.should_exit = True
            thread.join()
            held.close()

    def __enter__(self) -> Self:
        self.start()
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        self.stop()

    async def __aenter__(self) -> Self:
        await asyncio.to_thread(self.start)
        return self

    async def __aexit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        await asyncio.to_thread(self.stop)

    def __repr__(self) -> str:
        where = self.url if self._socket is not None else "not running"
        return f"GeminiServer({where}, {len(self.requests)} asked, {self.remaining} remaining)"
