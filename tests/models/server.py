"""A server that misbehaves as told, on raw sockets, in a thread of its own.

It answers one request after the other with the turns of its script; the last one stays. It keeps
what really came, byte for byte, with the time it came at, and when a client hung up.
"""

import asyncio
import contextlib
import json
import socket
import struct
import threading
import time
from collections.abc import Sequence
from typing import NamedTuple, Self

Pieces = Sequence[bytes]


class Turn(NamedTuple):
    """How one request is answered."""

    status: int = 200
    body: bytes = b""
    headers: dict[str, str] = {}
    wait: float = 0.0
    """Seconds before the head of the answer."""
    after: threading.Event | None = None
    """What is waited for before the head of the answer."""
    pieces: Pieces | None = None
    """What is sent chunk by chunk, instead of a body."""
    between: float = 0.0
    """Seconds between two chunks."""
    ends: bool = True
    """Whether the last chunk is followed by the end; else the connection is cut there."""
    raw: bytes | None = None
    """What is sent instead of an answer that is HTTP."""
    reset: bool = False
    """Whether the connection is reset instead of an answer."""
    hold: bool = False
    """Whether the last chunk is followed by silence."""


class Received(NamedTuple):
    """One request as it came."""

    at: float
    method: str
    path: str
    headers: dict[str, str]
    body: bytes

    @property
    def json(self) -> dict:
        return json.loads(self.body)


def says(body: object, status: int = 200, **headers: str) -> Turn:
    """An answer in JSON."""
    named = {name.replace("_", "-"): text for name, text in headers.items()}
    return Turn(status, json.dumps(body).encode(), {"content-type": "application/json", **named})


def page(status: int = 200) -> Turn:
    """A web page."""
    html = b"<!DOCTYPE html><html><body>Welcome to nginx!</body></html>"
    return Turn(status, html, {"content-type": "text/html"})


def streams(pieces: Pieces, **how: object) -> Turn:
    """An event stream, sent in these chunks."""
    return Turn(headers={"content-type": "text/event-stream"}, pieces=pieces)._replace(**how)


class Server:
    """The server: `with Server(says(...)) as server: ... server.url, server.received`."""

    def __init__(self, *script: Turn) -> None:
        self.script = script
        self.received: list[Received] = []
        self.hung_up: list[float] = []
        self.connections = 0
        self.started = 0.0
        self._loop = asyncio.new_event_loop()
        self._thread = threading.Thread(target=self._run, daemon=True)
        self._ready = threading.Event()
        self._tasks: set[asyncio.Task[None]] = set()

    @property
    def url(self) -> str:
        return f"http://127.0.0.1:{self.port}"

    def __enter__(self) -> Self:
        self._thread.start()
        assert self._ready.wait(60)
        self.started = time.monotonic()
        return self

    def __exit__(self, *_: object) -> None:
        self._loop.call_soon_threadsafe(self._stop.set)
        self._thread.join(60)
        self._loop.close()

    def wait_for_hang_up(self) -> bool:
        """Whether a client hangs up in time."""
        return _came(self.hung_up)

    def wait_for_request(self) -> bool:
        """Whether a request comes in time."""
        return _came(self.received)

    def _run(self) -> None:
        self._loop.run_until_complete(self._serve())

    async def _serve(self) -> None:
        self._stop = asyncio.Event()
        server = await asyncio.start_server(self._met, "127.0.0.1", 0)
        self.port: int = server.sockets[0].getsockname()[1]
        self._ready.set()
        await self._stop.wait()
        server.close()
        for task in self._tasks:
            task.cancel()
        await asyncio.gather(*self._tasks, return_exceptions=True)

    async def _met(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        task = asyncio.current_task()
        assert task is not None
        self._tasks.add(task)
        self.connections += 1
        try:
            while await self._answered(reader, writer):
                pass
        except (ConnectionError, asyncio.IncompleteReadError, asyncio.CancelledError):
            pass
        finally:
            self._tasks.discard(task)
            writer.close()
            with contextlib.suppress(ConnectionError, asyncio.CancelledError):
                await writer.wait_closed()

    async def _answered(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> bool:
        """Answer one request; whether the connection stays open."""
        head = (await reader.readuntil(b"\r\n\r\n")).decode("latin-1")
        first, *lines = head.strip().split("\r\n")
        method, path, _ = first.split(" ")
        headers = {
            name.lower(): text.strip() for name, _, text in (line.partition(":") for line in lines)
        }
        body = await reader.readexactly(int(headers.get("content-length", 0)))
        turn = self.script[min(len(self.received), len(self.script) - 1)]
        at = time.monotonic() - self.started
        self.received.append(Received(at, method, path, headers, body))
        if turn.reset:
            return _reset(writer)
        watch = asyncio.ensure_future(reader.read(1))
        answering = asyncio.ensure_future(self._told(turn, writer))
        try:
            await asyncio.wait({watch, answering}, return_when=asyncio.FIRST_COMPLETED)
            # who hangs up early is seen when the next piece is written
            broken = answering.done() and isinstance(answering.exception(), ConnectionError)
            if broken or not answering.done():
                answering.cancel()
                self.hung_up.append(time.monotonic() - self.started)
                return False
            return answering.result()
        finally:
            watch.cancel()
            answering.cancel()
            await asyncio.gather(watch, answering, return_exceptions=True)

    async def _told(self, turn: Turn, writer: asyncio.StreamWriter) -> bool:
        await asyncio.sleep(turn.wait)
        while turn.after is not None and not turn.after.is_set():  # noqa: ASYNC110
            await asyncio.sleep(0.005)
        if turn.raw is not None:
            writer.write(turn.raw)
            await writer.drain()
            return False
        headers = dict(turn.headers)
        if turn.pieces is None:
            headers.setdefault("content-length", str(len(turn.body)))
        else:
            headers["transfer-encoding"] = "chunked"
        lines = [f"HTTP/1.1 {turn.status} X", *(f"{name}: {headers[name]}" for name in headers)]
        writer.write("\r\n".join([*lines, "", ""]).encode("latin-1"))
        if turn.pieces is None:
            writer.write(turn.body)
            await writer.drain()
            return int(headers["content-length"]) == len(turn.body)
        for piece in turn.pieces:
            writer.write(f"{len(piece):x}\r\n".encode() + piece + b"\r\n")
            await writer.drain()
            if turn.between:
                await asyncio.sleep(turn.between)
        if turn.hold:
            await asyncio.sleep(3600)
        if turn.ends:
            writer.write(b"0\r\n\r\n")
            await writer.drain()
        return turn.ends


def _came(held: Sequence[object], seconds: float = 60.0) -> bool:
    end = time.monotonic() + seconds
    while not held and time.monotonic() < end:
        time.sleep(0.005)
    return bool(held)


def _reset(writer: asyncio.StreamWriter) -> bool:
    held: socket.socket = writer.get_extra_info("socket")
    held.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))
    return False
