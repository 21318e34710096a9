"""Pages for the machines that watch a process: `/health`, `/ready` and `/metrics`.

They are answered in a thread, with an event loop of its own. So a tool that blocks the loop of the
process for a minute does not make it look dead, and who watches is told that the loop stands still.

Top to bottom: the pages, whether a loop turns, listening.
"""

import asyncio
import logging
import socket
import threading
import time
from collections.abc import Callable, Coroutine, Mapping
from contextlib import suppress
from typing import NamedTuple, TypeVar

from weft.errors import UsageError

T = TypeVar("T")

_log = logging.getLogger("weft.turns")

STUCK_AFTER = 600.0
"""Seconds that the event loop of a process may stand still until it is not well any more."""

_PULSE_EVERY = 1.0

_BLOCKED_AFTER = 5.0
"""Seconds from which on a loop that stands still is mentioned."""

_SECONDS = 10.0
"""How long a client may take to ask."""

_LONGEST_LINE = 8_000


class HealthAnswer(NamedTuple):
    """An answer: its status, its text and what kind of text that is."""

    status: int
    text: str
    media_type: str = "text/plain; charset=utf-8"


Pages = Mapping[str, Callable[[], HealthAnswer]]
"""What answers which path; each is called in a thread of its own."""


class HealthServer:
    """Answers pages in a thread until it is stopped."""

    def __init__(self, pages: Pages, listening: socket.socket) -> None:
        self._pages = pages
        self._socket = listening
        self.port = int(listening.getsockname()[1])
        self._loop: asyncio.AbstractEventLoop | None = None
        self._stopping: asyncio.Event | None = None
        self._begun = threading.Event()
        self._thread = threading.Thread(target=self._run, name="weft health", daemon=True)
        self._thread.start()
        self._begun.wait()

    def stop(self) -> None:
        """Answer no more, and close the port."""
        if self._loop is not None and self._stopping is not None:
            self._loop.call_soon_threadsafe(self._stopping.set)
        self._thread.join(_SECONDS)

    def _run(self) -> None:
        asyncio.run(self._serve())

    async def _serve(self) -> None:
        self._loop, self._stopping = asyncio.get_running_loop(), asyncio.Event()
        server = await asyncio.start_server(self._answer, sock=self._socket, limit=_LONGEST_LINE)
        self._begun.set()
        async with server:
            await self._stopping.wait()

    async def _answer(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        with suppress(ConnectionError, TimeoutError, ValueError, asyncio.IncompleteReadError):
            async with asyncio.timeout(_SECONDS):
                page = self._pages.get(await _read_path(reader))
            # a page may wait for the loop of the process
            answer = await asyncio.to_thread(_call_page, page)
            async with asyncio.timeout(_SECONDS):
                writer.write(_spell_answer(answer))
                await writer.drain()
        writer.close()


def _call_page(page: Callable[[], HealthAnswer] | None) -> HealthAnswer:
    if page is None:
        return HealthAnswer(404, "not here\n")
    try:
        return page()
    except Exception:
        _log.exception("a page for those who watch failed")
        return HealthAnswer(503, "it failed; the log says why\n")


async def _read_path(reader: asyncio.StreamReader) -> str:
    """The path that a client asks for; the rest of its request is read and not needed."""
    method, path, _ = (await reader.readuntil(b"\r\n")).decode("latin-1").split(" ", 2)
    # the headers are read, or closing would reset the connection before the answer is there
    while await reader.readuntil(b"\r\n") != b"\r\n":
        pass
    return path.partition("?")[0] if method in ("GET", "HEAD") else ""


_REASONS = {200: "OK", 404: "Not Found", 503: "Service Unavailable"}


def _spell_answer(answer: HealthAnswer) -> bytes:
    body = answer.text.encode()
    head = (
        f"HTTP/1.1 {answer.status} {_REASONS[answer.status]}\r\n"
        f"content-type: {answer.media_type}\r\n"
        f"content-length: {len(body)}\r\n"
        "connection: close\r\n\r\n"
    )
    return head.encode("latin-1") + body


class LoopPulse:
    """Whether the event loop that made it turns, as other threads see it."""

    def __init__(self) -> None:
        self._loop = asyncio.get_running_loop()
        self._beaten = time.monotonic()
        self._timer = self._loop.call_later(_PULSE_EVERY, self._beat)

    def _beat(self) -> None:
        self._beaten = time.monotonic()
        self._timer = self._loop.call_later(_PULSE_EVERY, self._beat)

    def stop(self) -> None:
        """Look no more."""
        self._timer.cancel()

    @property
    def still_for(self) -> float:
        """For how many seconds the loop has stood still."""
        return max(0.0, time.monotonic() - self._beaten - _PULSE_EVERY)

    def health(self, stuck: float = STUCK_AFTER) -> HealthAnswer:
        """Whether the process is well: its loop turns, or has stood still only for a while."""
        still = self.still_for
        if still > stuck:
            return HealthAnswer(503, f"the event loop has stood still for {still:.0f} s\n")
        if still > _BLOCKED_AFTER:
            return HealthAnswer(200, f"ok, but a tool blocks the event loop for {still:.0f} s\n")
        return HealthAnswer(200, "ok\n")

    def ask(self, work: Callable[[], Coroutine[object, object, T]], seconds: float) -> T | None:
        """What something in the loop comes to; None where the loop has no time for it."""
        future = asyncio.run_coroutine_threadsafe(work(), self._loop)
        try:
            return future.result(seconds)
        except TimeoutError:
            future.cancel()
            return None


def listen(host: str, port: int, *, option: str = "--port") -> socket.socket:
    """A socket that connections come to, or an error that says why there is none."""
    listening: socket.socket | None = None
    try:
        family = socket.AF_INET6 if ":" in host else socket.AF_INET
        listening = socket.socket(family, socket.SOCK_STREAM)
        # on Windows this option would let two servers have one port
        if hasattr(socket, "SO_REUSEPORT"):
            listening.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        listening.bind((host, port))
        listening.listen(2048)
    except (OSError, OverflowError) as error:
        if listening is not None:
            listening.close()
        raise UsageError(
            f"nothing can listen there: {error}",
            where=f"{host}:{port}",
            hint=f"choose another port: {option} 8001, or {option} 0 for a free one",
        ) from None
    return listening
