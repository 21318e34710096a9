"""A server on the loopback interface, as the tests use it: uvicorn in a thread of its own."""

import asyncio
import socket
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from typing import TYPE_CHECKING

import httpx2
import pytest
import uvicorn

from weft.inspector import Inspection
from weft.inspector.inspection import REHEARSED, Variant
from weft.replay.steps import AnsweredStep
from weft.server import Application
from weft.server.http import LARGEST_HEAD, guarded_protocol

if TYPE_CHECKING:
    import openai


class Live:
    """An application that listens."""

    def __init__(self, application: Application, port: int) -> None:
        self.application = application
        self.port = port
        self.url = f"http://127.0.0.1:{port}"
        self.token = application.token or ""

    def client(self, token: str | None = None, **options: object) -> httpx2.Client:
        """A client that shows the token."""
        headers = {"authorization": f"Bearer {token if token is not None else self.token}"}
        return httpx2.Client(base_url=self.url, headers=headers, timeout=120, **options)  # type: ignore[arg-type]


class Rehearsals:
    """Who was compiled ahead while a page was open, when that ended, and when it was dropped."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch) -> None:
        self.inspections: set[Inspection] = set()
        self.ended = threading.Event()
        self.forgotten = threading.Event()
        rehearse, forget = Inspection.rehearse, Inspection.forget_rehearsed

        def whole(inspection: Inspection, variant: Variant) -> Iterator[AnsweredStep]:
            self.inspections.add(inspection)
            yield from rehearse(inspection, variant)
            if variant.policy == REHEARSED[-1]:
                self.ended.set()

        def gone(inspection: Inspection) -> None:
            forget(inspection)
            self.forgotten.set()

        monkeypatch.setattr(Inspection, "rehearse", whole)
        monkeypatch.setattr(Inspection, "forget_rehearsed", gone)


class ThreadedServer(uvicorn.Server):
    """A server in a thread. It ends when it is told to, and not when it next looks."""

    def __init__(self, config: uvicorn.Config) -> None:
        super().__init__(config)
        self._told = asyncio.Event()

    async def startup(self, sockets: list[socket.socket] | None = None) -> None:
        self._loop = asyncio.get_running_loop()
        await super().startup(sockets)

    async def main_loop(self) -> None:
        ticks = 0
        while not await self.on_tick(ticks):
            ticks += 1
            with suppress(TimeoutError):
                await asyncio.wait_for(self._told.wait(), 0.1)

    def stop(self, first: Callable[[], None] = lambda: None) -> None:
        """End it, after a first step in its loop."""

        def end() -> None:
            first()
            self.should_exit = True
            self._told.set()

        self._loop.call_soon_threadsafe(end)

    @contextmanager
    def capture_signals(self) -> Iterator[None]:
        yield


@contextmanager
def serving(application: Application, http: type[asyncio.Protocol] | None = None) -> Iterator[Live]:
    """Serve until the block ends."""
    listening = socket.socket()
    listening.bind(("127.0.0.1", 0))
    listening.listen(2048)
    server = ThreadedServer(
        uvicorn.Config(
            application,
            log_level="warning",
            timeout_graceful_shutdown=1,
            http=http or guarded_protocol(),
            h11_max_incomplete_event_size=LARGEST_HEAD,
        )
    )

    def run() -> None:
        asyncio.run(server.serve(sockets=[listening]))

    thread = threading.Thread(target=run, daemon=True)
    thread.start()
    while not server.started:
        time.sleep(0.01)
    try:
        yield Live(application, listening.getsockname()[1])
    finally:
        server.stop(application.stop_streams)
        thread.join(60)


def read_events(lines: Iterator[str]) -> Iterator[dict[str, str]]:
    """Server-sent events, as the standard says they are read."""
    fields: dict[str, str] = {}
    for line in lines:
        if not line:
            if fields:
                yield fields
            fields = {}
        elif not line.startswith(":"):
            name, _, value = line.partition(": ")
            fields[name] = f"{fields[name]}\n{value}" if name in fields else value


def openai_client(live: Live) -> "openai.OpenAI":
    """OpenAI's own client of a served agent."""
    import openai

    return openai.OpenAI(base_url=f"{live.url}/v1", api_key=live.token, max_retries=0)
