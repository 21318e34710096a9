"""Events as a stream that a browser reads: server-sent events, each with its place in the log.

A stored event has `id:`, its sequence number, so a client that connects again says with
`Last-Event-ID` where it was. Partial events have none. What ends a stream, or is wrong with it,
comes as an event of another name: `end` or `problem`.
"""

import asyncio
from collections.abc import AsyncGenerator, Callable
from contextlib import suppress

import msgspec
from starlette.types import Receive, Scope, Send

from weft.errors import SessionError
from weft.server.problems import Problem, problem_of
from weft.session import Event

KEEP_ALIVE = 15.0
"""Seconds without an event after which a comment is sent: proxies close what is silent."""

_HEADERS = [
    (b"content-type", b"text/event-stream; charset=utf-8"),
    (b"cache-control", b"no-store"),
    (b"x-accel-buffering", b"no"),
]

Chunks = AsyncGenerator[bytes, None]


def frame(event: Event) -> bytes:
    """One event of the log."""
    data = event.to_json()
    if event.sequence is None:
        return b"data: %b\n\n" % data
    return b"id: %d\ndata: %b\n\n" % (event.sequence, data)


def named_frame(name: str, value: object) -> bytes:
    """An event of another kind."""
    return b"event: %b\ndata: %b\n\n" % (name.encode(), msgspec.json.encode(value))


async def frames(events: AsyncGenerator[Event, None]) -> Chunks:
    """The events of a session as they come, and how the stream ended."""
    sequence = 0
    try:
        async for event in events:
            sequence = event.sequence or sequence
            yield frame(event)
        yield named_frame("end", {"sequence": sequence})
    except Exception as error:
        yield named_frame("problem", stream_problem(error).document())
    finally:
        await events.aclose()


def stream_problem(error: Exception) -> Problem:
    """What a stream says that cannot go on; a session that is gone is no news of others."""
    if isinstance(error, SessionError) and error.message.startswith("there is no session"):
        return Problem(404, "unknown-session", "the session was deleted")
    return problem_of(error)


class EventStream:
    """An answer that is a stream, until the source or the client ends, or the server stops.

    A client that does not read holds nobody up but itself: what it does not take stays in the
    store, and after `stalled` seconds the connection is closed.
    """

    def __init__(
        self,
        chunks: Chunks,
        *,
        stopping: asyncio.Event,
        stalled: float,
        closed: Callable[[], None],
    ) -> None:
        self._chunks = chunks
        self._stopping = stopping
        self._stalled = stalled
        self._closed = closed
        self._is_silent = True

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Write the stream."""
        await send({"type": "http.response.start", "status": 200, "headers": [*_HEADERS]})
        work = [
            asyncio.ensure_future(self._write(send)),
            asyncio.ensure_future(_disconnected(receive)),
            asyncio.ensure_future(self._stopping.wait()),
            asyncio.ensure_future(self._keep_alive(send)),
        ]
        try:
            await asyncio.wait(work, return_when=asyncio.FIRST_COMPLETED)
        finally:
            for task in work:
                task.cancel()
            await asyncio.wait(work)
            with suppress(RuntimeError):  # it was never begun, or is being closed
                await self._chunks.aclose()
            self._closed()
        with suppress(Exception):  # the client may be gone
            await send({"type": "http.response.body", "body": b"", "more_body": False})
        error = work[0].exception() if not work[0].cancelled() else None
        if error is not None and not isinstance(error, TimeoutError):
            raise error

    async def _write(self, send: Send) -> None:
        async for chunk in self._chunks:
            self._is_silent = False
            sending = send({"type": "http.response.body", "body": chunk, "more_body": True})
            async with asyncio.timeout(self._stalled):
                await sending

    async def _keep_alive(self, send: Send) -> None:
        while True:
            await asyncio.sleep(KEEP_ALIVE)
            if self._is_silent:
                await send({"type": "http.response.body", "body": b": \n\n", "more_body": True})
            self._is_silent = True


async def _disconnected(receive: Receive) -> None:
    while (await receive())["type"] != "http.disconnect":
        pass
