"""Events as a stream that a browser reads: server-sent events, each with its place in the log.

A stored event has `id:`, its sequence number, so a client that connects again says with
`Last-Event-ID` where it was. Partial events have none. What ends a stream, or is wrong with it,
comes as an event of another name: `end` or `problem`.
"""

import asyncio
from collections.abc import AsyncGenerator, Callable, Sequence
from contextlib import suppress

import msgspec
from starlette.types import Message, Receive, Scope, Send

from weft.errors import SessionError
from weft.server.problems import Problem, problem_of
from weft.session import Event

KEEP_ALIVE = 15.0
"""Seconds without an event after which a comment is sent: proxies close what is silent."""

_FIRST_LOOK = 0.25
"""Seconds after which a stream begins to watch whether its client is still there.

Most are over by then, and need neither a second task nor a deadline.
"""

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
        headers: Sequence[tuple[bytes, bytes]] = (),
        open_streams: "set[EventStream]",
        stalled: float,
        closed: Callable[[], None],
    ) -> None:
        self._chunks = chunks
        self._headers = [*_HEADERS, *headers]
        self._open_streams = open_streams
        self._stalled = stalled
        self._closed = closed
        self._writing: asyncio.Task[object] | None = None
        self._listening: asyncio.Task[None] | None = None
        self._comment: asyncio.Task[None] | None = None
        self._is_stopped = False
        self._last_sent = 0.0
        self._is_sending = False

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Write the stream."""
        loop = asyncio.get_running_loop()
        self._clock = loop.call_later(_FIRST_LOOK, self._listen, loop, receive, send)
        self._open_streams.add(self)
        self._writing = asyncio.current_task(loop)
        try:
            await send({"type": "http.response.start", "status": 200, "headers": self._headers})
            async for chunk in self._chunks:
                self._is_sending = True
                await send({"type": "http.response.body", "body": chunk, "more_body": True})
                self._is_sending = False
                self._last_sent = 0.0
        except asyncio.CancelledError:
            if not self._is_stopped:
                raise
            if self._writing is not None:
                self._writing.uncancel()  # it was ended from here, and may say so
        finally:
            self._writing = None
            self._clock.cancel()
            self._open_streams.discard(self)
            self._closed()
            if self._listening is not None:
                self._listening.cancel()
            with suppress(RuntimeError):  # it was never begun, or is being closed
                await self._chunks.aclose()
        if self._is_sending:  # the client reads nothing, an end neither
            return
        with suppress(Exception):  # the client may be gone
            await send({"type": "http.response.body", "body": b"", "more_body": False})

    def stop(self) -> None:
        """End the stream: the server stops, or the client is gone or does not read."""
        if self._writing is not None and not self._is_stopped:
            self._is_stopped = True
            self._writing.cancel()

    def _listen(self, loop: asyncio.AbstractEventLoop, receive: Receive, send: Send) -> None:
        """Watch for the client's leave from now on."""
        self._listening = loop.create_task(_disconnected(receive))
        self._listening.add_done_callback(lambda _: self.stop())
        self._clock = loop.call_later(min(KEEP_ALIVE, self._stalled), self._tick, loop, send)

    def _tick(self, loop: asyncio.AbstractEventLoop, send: Send) -> None:
        """Look now and then: close what is not read, and break a long silence.

        One timer for a stream is cheaper than a deadline for each event.
        """
        now = loop.time()
        if not self._last_sent:  # something was sent since the last look
            self._last_sent = now
        elif self._is_sending and now - self._last_sent >= self._stalled:
            self.stop()
            return
        elif not self._is_sending:
            comment: Message = {
                "type": "http.response.body",
                "body": b": \n\n",
                "more_body": True,
            }
            self._comment = loop.create_task(_sent(send, comment))
        self._clock = loop.call_later(min(KEEP_ALIVE, self._stalled), self._tick, loop, send)


async def _sent(send: Send, message: Message) -> None:
    with suppress(Exception):  # the client may be gone
        await send(message)


async def _disconnected(receive: Receive) -> None:
    while (await receive())["type"] != "http.disconnect":
        pass
