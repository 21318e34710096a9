"""Events as a stream that a browser reads: server-sent events, each with its place in the log.

A stored event has `id:`, its sequence number, so a client that connects again says with
`Last-Event-ID` where it was. Partial events have none. What ends a stream, or is wrong with it,
comes as an event of another name: `end` or `problem`.
"""

import asyncio
from collections.abc import AsyncGenerator, Callable
from contextlib import suppress

import msgspec
from starlette.types import Message, Receive, Scope, Send

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
        open_streams: "set[EventStream]",
        stalled: float,
        closed: Callable[[], None],
    ) -> None:
        self._chunks = chunks
        self._open_streams = open_streams
        self._stalled = stalled
        self._closed = closed
        self._writing: asyncio.Task[None] | None = None
        self._last_sent = 0.0
        self._is_sending = False

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Write the stream."""
        await send({"type": "http.response.start", "status": 200, "headers": [*_HEADERS]})
        loop = asyncio.get_running_loop()
        writing = self._writing = loop.create_task(self._write(send))
        listening = loop.create_task(_disconnected(receive))
        listening.add_done_callback(lambda _: writing.cancel())
        self._open_streams.add(self)
        clock = loop.call_later(min(KEEP_ALIVE, self._stalled), self._tick, loop, send)
        try:
            await asyncio.wait((writing,))
        finally:
            clock.cancel()
            self._open_streams.discard(self)
            writing.cancel()
            listening.cancel()
            with suppress(RuntimeError):  # it was never begun, or is being closed
                await self._chunks.aclose()
            self._closed()
        with suppress(Exception):  # the client may be gone
            await send({"type": "http.response.body", "body": b"", "more_body": False})
        error = writing.exception() if not writing.cancelled() else None
        if error is not None:
            raise error

    def stop(self) -> None:
        """End the stream: the server stops."""
        if self._writing is not None:
            self._writing.cancel()

    async def _write(self, send: Send) -> None:
        async for chunk in self._chunks:
            self._is_sending = True
            await send({"type": "http.response.body", "body": chunk, "more_body": True})
            self._is_sending = False
            self._last_sent = 0.0

    def _tick(self, loop: asyncio.AbstractEventLoop, send: Send) -> None:
        """Look now and then: close what is not read, and break a long silence.

        One timer for a stream is cheaper than a deadline for each event.
        """
        if self._writing is None or self._writing.done():
            return
        now = loop.time()
        if not self._last_sent:  # something was sent since the last look
            self._last_sent = now
        elif self._is_sending and now - self._last_sent >= self._stalled:
            self._writing.cancel()
            return
        elif not self._is_sending:
            comment: Message = {
                "type": "http.response.body",
                "body": b": \n\n",
                "more_body": True,
            }
            self._comment = loop.create_task(_sent(send, comment))
        loop.call_later(min(KEEP_ALIVE, self._stalled), self._tick, loop, send)


async def _sent(send: Send, message: Message) -> None:
    with suppress(Exception):  # the client may be gone
        await send(message)


async def _disconnected(receive: Receive) -> None:
    while (await receive())["type"] != "http.disconnect":
        pass
