"""Connections: the head of a request must arrive in time, and its answer must be read.

uvicorn waits for ever for the head of a request, and its faster parser takes one of any length.
Whoever opens connections and writes a letter a minute would so keep them all. It waits for ever,
too, until a client has taken its answer, also where it has closed the connection for its part.
What cannot be read at all is answered here, since no application ever sees it: with a problem
document.

`weft serve` listens with this. An application that is mounted elsewhere has the limits of that
server, or of the proxy before it.
"""

import asyncio
import logging
import re
import sys
from typing import TYPE_CHECKING

import msgspec

from weft.server.problems import MEDIA_TYPE, Problem

_log = logging.getLogger("weft")

if TYPE_CHECKING:
    from uvicorn.protocols.http.flow_control import FlowControl
    from uvicorn.protocols.http.h11_impl import RequestResponseCycle

HEAD_SECONDS = 20.0
"""Seconds in which the head of a request must arrive, from its first byte or the connection on."""

LARGEST_HEAD = 64_000
"""Bytes of a head: method, address, and headers."""

UNREAD_SECONDS = 45.0
"""Seconds after which a client is cut off that takes nothing of what is written to it.

A stream looks for that too, a little later: this is sooner, and frees what waits to be written.
"""

_LOOKS = 3
"""How often one looks in that time."""

_MOST_IGNORED = 200_000_000
"""Bytes that are read and thrown away of a body whose request is answered already.

Who is still writing would not see the answer if the connection were closed at once.
"""


class HeadGuard(asyncio.Protocol):
    """What is put before a protocol of uvicorn: `class Guarded(HeadGuard, H11Protocol)`."""

    transport: asyncio.Transport
    loop: asyncio.AbstractEventLoop
    cycle: "RequestResponseCycle | None"
    """The newest request, and its answer."""

    flow: "FlowControl"

    head_seconds = HEAD_SECONDS
    unread_seconds = UNREAD_SECONDS
    _looking: asyncio.TimerHandle | None = None
    _pauses = 0
    """How often there was more to write than the client took."""
    _unread = (0, 0)
    """The pauses at the last look, and the bytes that waited; no bytes if none had to wait."""
    _unread_looks = 0
    """How often that was the same."""
    _deadline: asyncio.TimerHandle | None = None
    _size = 0
    """The bytes that have come of a head that is not complete."""
    _last = b""
    """The last of them: the empty line that ends a head may come in two pieces."""
    _ignored = 0

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        """Wait for a request."""
        super().connection_made(transport)
        self._wait()
        self._look_later()

    def connection_lost(self, exc: Exception | None) -> None:
        """Wait no longer."""
        self._settle()
        self._look_no_more()
        super().connection_lost(exc)

    def pause_writing(self) -> None:
        """Write no more, until the client has read."""
        self._pauses += 1
        super().pause_writing()

    def _look_later(self) -> None:
        self._looking = self.loop.call_later(self.unread_seconds / _LOOKS, self._look)

    def _look_no_more(self) -> None:
        if self._looking is not None:
            self._looking.cancel()
            self._looking = None

    def _look(self) -> None:
        """Cut off a client that has taken nothing for long.

        Nothing is written meanwhile, so the bytes that wait become fewer unless it takes none.
        """
        waits = self.flow.write_paused or self.transport.is_closing()
        unread = (self._pauses, self.transport.get_write_buffer_size() if waits else 0)
        self._unread_looks = self._unread_looks + 1 if unread[1] and unread == self._unread else 0
        self._unread = unread
        if self._unread_looks >= _LOOKS:
            # to close it would wait until the client has read
            self.transport.abort()
        else:
            self._look_later()

    def data_received(self, data: bytes) -> None:
        """Read on; what is not part of a known request is the head of the next."""
        before, was_in_body = self.cycle, self._is_in_body()
        # a head that comes in one piece is known to nobody before it is answered
        is_head = not was_in_body and (before is None or before.response_complete)
        if is_head and self._is_too_large(data):
            self._refuse(_too_large())
            return
        if self.cycle is None and data.startswith(_HTTP2):
            _log.warning(
                "a client speaks gRPC (HTTP/2), and this port speaks HTTP/1.1; an exporter of"
                " traces needs OTEL_EXPORTER_OTLP_PROTOCOL=http/protobuf"
            )
            self._settle()
            self.transport.close()
            return
        super().data_received(data)
        # a new cycle means that the head is complete
        if self.cycle is not before:
            self._settle()
        elif before is None or before.response_complete:
            # the parser reads the rest of a body whose request was refused: it is not a head
            if was_in_body:
                self._ignored += len(data)
            else:
                self._size += len(data)
                self._last = (self._last + data)[-3:]
            if self._size > LARGEST_HEAD:
                self._refuse(_too_large())
            elif self._ignored > _MOST_IGNORED:
                self.transport.close()
            # the first byte after an answer starts the time of the next head
            elif self._deadline is None and not self.transport.is_closing():
                self._wait()

    def _is_too_large(self, data: bytes) -> bool:
        """Whether the head that ends in these bytes, or goes on after them, is too large."""
        if self._size + len(data) <= LARGEST_HEAD:
            return False
        end = _END_OF_HEAD.search(self._last + data)
        return end is None or self._size - len(self._last) + end.end() > LARGEST_HEAD

    def _is_in_body(self) -> bool:
        """Whether the body of the newest request has not ended."""
        raise NotImplementedError

    def handle_websocket_upgrade(self, *event: object) -> None:
        """Leave the connection to another protocol, which refuses it."""
        self._settle()
        self._look_no_more()
        super().handle_websocket_upgrade(*event)  # type: ignore[misc]

    def send_400_response(self, msg: str) -> None:
        """Say that it cannot be read; the parser knows best whether it is only too long."""
        status = getattr(sys.exc_info()[1], _HINT, 400)
        self._refuse(_too_large() if status == 431 else Problem(400, "http", "this is not HTTP"))

    def _wait(self) -> None:
        self._deadline = self.loop.call_later(self.head_seconds, self._give_up)

    def _settle(self) -> None:
        self._size = self._ignored = 0
        self._last = b""
        if self._deadline is not None:
            self._deadline.cancel()
            self._deadline = None

    def _give_up(self) -> None:
        self._refuse(Problem(408, "timeout", "the head of the request did not arrive in time"))

    def _refuse(self, problem: Problem) -> None:
        """Answer, if no other answer is under way, and close the connection."""
        self._settle()
        if self.transport.is_closing():
            return
        # a second answer in the middle of the first would garble both
        if self.cycle is None or (self.cycle.response_complete and not self._is_in_body()):
            body = msgspec.json.encode(problem.document())
            head = (
                f"HTTP/1.1 {problem.status} {problem.title}\r\ncontent-type: {MEDIA_TYPE}\r\n"
                f"content-length: {len(body)}\r\nconnection: close\r\n\r\n"
            )
            self.transport.write(head.encode("ascii") + body)
        self.transport.close()


_HTTP2 = b"PRI * HTTP/2.0"
"""What a client begins with that takes the server for one of gRPC."""

_HINT = "error_status_hint"

_END_OF_HEAD = re.compile(rb"\n\r?\n")


def _too_large() -> Problem:
    return Problem(431, "too-large", f"the head of the request has more than {LARGEST_HEAD} bytes")


def guarded_protocol() -> type[asyncio.Protocol]:
    """The protocol that uvicorn would choose, guarded: httptools' where that is installed."""
    try:
        from uvicorn.protocols.http.httptools_impl import HttpToolsProtocol
    except ModuleNotFoundError:
        from h11 import SEND_BODY
        from uvicorn.protocols.http.h11_impl import H11Protocol

        class GuardedH11(HeadGuard, H11Protocol):  # type: ignore[misc]
            """h11, which is always there."""

            def _is_in_body(self) -> bool:
                return self.conn.their_state is SEND_BODY

        return GuardedH11

    class GuardedHttpTools(HeadGuard, HttpToolsProtocol):  # type: ignore[misc]
        """httptools, which takes a third of the time."""

        _has_body = False

        def on_headers_complete(self) -> None:
            self._has_body = True
            super().on_headers_complete()

        def on_message_complete(self) -> None:
            self._has_body = False
            super().on_message_complete()

        def _is_in_body(self) -> bool:
            return self._has_body

    return GuardedHttpTools
