"""Events as a stream that a browser reads: server-sent events, each with its place in the log.

A stored event has `id:`, its sequence number, so a client that connects again says with
`Last-Event-ID` where it was. Partial events have none. What ends a stream, or is wrong with it,
comes as an event of another name: `end` or `problem`.
"""

import asyncio
from collections import deque
from collections.abc import AsyncIterator, Awaitable, Callable, Sequence
from contextlib import suppress
from typing import Protocol

import msgspec
from starlette.types import Message, Receive, Scope, Send

from weft.errors import SessionError
from weft.server.problems import Problem, problem_of
from weft.session import Event

KEEP_ALIVE = 15.0
"""Seconds without an event after which a comment is sent: proxies close what is silent."""

LOOK_EVERY = 0.25
"""Seconds between two looks at what is under way.

A stream begins at the second look to watch whether its client is still there: most are over by
then, and need no second task.
"""

LARGEST_CHUNK = 64_000
"""Bytes that are encoded before the client has taken those before; a single event may have more.

A client that does not read must not have a whole log encoded for it.
"""

_HEADERS = [
    (b"content-type", b"text/event-stream; charset=utf-8"),
    (b"cache-control", b"no-store"),
    # a proxy such as nginx would collect the stream, and pass it on when it is over
    (b"x-accel-buffering", b"no"),
]


class ChunkStream(Protocol):
    """What a stream is made of: an async generator of bytes, or what looks like one."""

    def __aiter__(self) -> AsyncIterator[bytes]: ...

    def aclose(self) -> Awaitable[None]:
        """Nothing more is wanted."""
        ...


class EventBatches(Protocol):
    """Events in lists, as they come."""

    def __anext__(self) -> Awaitable[list[Event]]: ...

    def aclose(self) -> Awaitable[None]:
        """Nothing more is wanted."""
        ...


def frame(event: Event) -> bytes:
    """One event of the log."""
    data = event.to_json()
    # without an id: a client that connects again asks from the last stored event
    if event.sequence is None:
        return b"data: %b\n\n" % data
    return b"id: %d\ndata: %b\n\n" % (event.sequence, data)


def named_frame(name: str, value: object) -> bytes:
    """An event of another kind."""
    return b"event: %b\ndata: %b\n\n" % (name.encode(), msgspec.json.encode(value))


class LastChunk(bytes):
    """The last chunk: the answer ends with it."""


class Frames:
    """The events of a session as they come, and how the stream ended.

    Events that are there at once are one chunk, up to a size: to write costs more than to encode.
    """

    def __init__(self, batches: "EventBatches") -> None:
        self._batches = batches
        self._waiting: deque[Event] = deque()
        """Events that are there, and not encoded yet."""
        self._sequence = 0
        self._is_over = False

    def __aiter__(self) -> "Frames":
        return self

    async def __anext__(self) -> bytes:
        """The next chunk."""
        if self._is_over:
            raise StopAsyncIteration
        try:
            waiting = self._waiting
            if not waiting:
                waiting.extend(await self._batches.__anext__())
            frames: list[bytes] = []
            room = LARGEST_CHUNK
            while waiting and room > 0:
                event = waiting.popleft()
                self._sequence = event.sequence or self._sequence
                frames.append(frame(event))
                room -= len(frames[-1])
            return b"".join(frames)
        except StopAsyncIteration:
            self._is_over = True
            return LastChunk(named_frame("end", {"sequence": self._sequence}))
        except Exception as error:
            self._is_over = True
            return LastChunk(named_frame("problem", stream_problem(error).document()))

    async def aclose(self) -> None:
        """Read no further."""
        if not self._is_over:
            self._is_over = True
            await self._batches.aclose()


def stream_problem(error: Exception) -> Problem:
    """What a stream says that cannot go on; a session that is gone says nothing of others."""
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
        chunks: ChunkStream,
        *,
        headers: Sequence[tuple[bytes, bytes]] = (),
        watch: "DeadlineWatch",
        stalled: float,
        closed: Callable[[], None],
    ) -> None:
        self._chunks = chunks
        self._headers = [*_HEADERS, *headers] if headers else _HEADERS
        self._watch = watch
        self._stalled = stalled
        self._closed = closed
        self._writing: asyncio.Task[object] | None = None
        self._listening: asyncio.Task[None] | None = None
        self._comment: asyncio.Task[None] | None = None
        self._is_stopped = False
        self._looked = 0.0
        """When it was looked at last; 0 before that."""
        self._last_sent = 0.0
        """The first look after something was sent; 0 before that look."""
        self._is_sending = False

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Write the stream."""
        self._receive, self._send = receive, send
        is_last = False
        self._watch.add(self)
        self._writing = asyncio.current_task()
        try:
            await send({"type": "http.response.start", "status": 200, "headers": self._headers})
            async for chunk in self._chunks:
                is_last = type(chunk) is LastChunk
                self._is_sending = True
                self._last_sent = 0.0  # a silence before it is not the client's
                if len(chunk) > 2 * LARGEST_CHUNK:
                    chunk = await self._send_most(chunk)
                await send({"type": "http.response.body", "body": chunk, "more_body": not is_last})
                self._is_sending = False
                self._last_sent = 0.0
        except asyncio.CancelledError:
            # somebody else cancelled the task: the server's own end is not ours to hide
            if not self._is_stopped:
                raise
            if self._writing is not None:
                self._writing.uncancel()  # it was ended from here, and may say so
        finally:
            self._writing = None
            self._watch.discard(self)
            self._closed()
            if self._listening is not None:
                self._listening.cancel()
            with suppress(RuntimeError):  # it was never begun, or is being closed
                await self._chunks.aclose()
        if is_last or self._is_sending:  # a client that reads nothing takes no end either
            return
        with suppress(Exception):  # the client may be gone
            await send({"type": "http.response.body", "body": b"", "more_body": False})

    async def _send_most(self, chunk: bytes) -> bytes:
        """Send a large chunk in pieces, but for the last, which is returned.

        Who takes a piece reads, however long all of them take.
        """
        last = (len(chunk) - 1) // LARGEST_CHUNK * LARGEST_CHUNK
        for at in range(0, last, LARGEST_CHUNK):
            piece = chunk[at : at + LARGEST_CHUNK]
            await self._send({"type": "http.response.body", "body": piece, "more_body": True})
            self._last_sent = 0.0
        return chunk[last:]

    def stop(self) -> None:
        """End the stream: the server stops, or the client is gone or does not read."""
        if self._writing is not None and not self._is_stopped:
            self._is_stopped = True
            self._writing.cancel()

    def look(self, now: float) -> None:
        """Watch for the client's leave; close what is not read, and break a long silence."""
        if not self._looked:
            self._looked = now
            return
        # from the second look on: most streams are over sooner, and need no second task
        if self._listening is None:
            self._listening = asyncio.get_running_loop().create_task(
                _wait_for_disconnect(self._receive)
            )
            self._listening.add_done_callback(lambda _: self.stop())
            self._looked = now
        if now - self._looked < min(KEEP_ALIVE, self._stalled):
            return
        self._looked = now
        if not self._last_sent:  # something was sent since the last look
            self._last_sent = now
        elif self._is_sending:
            # the client reads nothing, and keeps a connection and a reader busy
            if now - self._last_sent >= self._stalled:
                self.stop()
        else:
            comment: Message = {"type": "http.response.body", "body": b": \n\n", "more_body": True}
            self._comment = asyncio.get_running_loop().create_task(
                _try_to_send(self._send, comment)
            )


class WatchedTask(Protocol):
    """What is looked at now and then, and ended where it must not go on."""

    def look(self, now: float) -> None:
        """See whether it may go on."""
        ...

    def stop(self) -> None:
        """The server stops."""
        ...


class DeadlineWatch:
    """Everything under way that has a deadline: streams, and bodies that arrive.

    One timer for all of them is cheaper than one for each request.
    """

    def __init__(self) -> None:
        self._watched: set[WatchedTask] = set()
        self._loop: asyncio.AbstractEventLoop | None = None
        """The loop whose timer runs; None while nothing is watched."""

    def add(self, one: WatchedTask) -> None:
        """Look at one more from now on."""
        loop = asyncio.get_running_loop()
        if self._loop is not loop:
            self._watched.clear()  # what an earlier loop left behind is over
            self._loop = loop
            loop.call_later(LOOK_EVERY, self._look, loop)
        self._watched.add(one)

    def discard(self, one: WatchedTask) -> None:
        """It is over."""
        self._watched.discard(one)

    def stop(self) -> None:
        """End all of them."""
        for one in [*self._watched]:
            one.stop()

    def _look(self, loop: asyncio.AbstractEventLoop) -> None:
        if self._loop is not loop:
            return
        if not self._watched:  # the next one to be added begins anew
            self._loop = None
            return
        now = loop.time()
        for one in [*self._watched]:
            one.look(now)
        loop.call_later(LOOK_EVERY, self._look, loop)


async def _try_to_send(send: Send, message: Message) -> None:
    with suppress(Exception):  # the client may be gone
        await send(message)


async def _wait_for_disconnect(receive: Receive) -> None:
    while (await receive())["type"] != "http.disconnect":
        pass
