"""The two ends of a proxy's line: the client's, and the provider's, with what stands in headers."""

import asyncio
import zlib
from collections.abc import (
    AsyncGenerator,
    AsyncIterator,
    Awaitable,
    Callable,
    Coroutine,
    Mapping,
    Sequence,
)
from typing import TYPE_CHECKING, NamedTuple

import msgspec
from starlette.types import Message, Receive, Scope, Send

from weft.dialects.answers import AnswerShape
from weft.dialects.stream import AnswerErrors, Events, Stream
from weft.errors import ModelError, UsageError
from weft.models.http import Timeouts, pass_on
from weft.models.services import without_secrets
from weft.server.proxy_history import read_json
from weft.values import JsonObject

if TYPE_CHECKING:
    import httpx2

_HOPS = frozenset(
    (
        *(b"connection", b"keep-alive", b"proxy-authenticate", b"proxy-authorization", b"te"),
        *(b"trailer", b"trailers", b"transfer-encoding", b"upgrade", b"host", b"expect"),
    )
)
"""Headers that are for the next machine alone."""

_SIZES = frozenset((b"content-length", b"content-encoding"))
_NOTHING: frozenset[bytes] = frozenset()

_LONGEST_REFUSAL = 64_000
"""Bytes of an error that are read."""


class UpstreamRequest(NamedTuple):
    """How to ask upstream, with any body."""

    url: str
    headers: list[tuple[bytes, bytes]]
    timeouts: Timeouts

    async def send(self, body: bytes) -> "httpx2.Response":
        """Ask with a body; the head of the answer."""
        return await pass_on("POST", self.url, self.headers, body, self.timeouts)


class ClientRelay:
    """The client's end of the line."""

    def __init__(self, scope: Scope, receive: Receive, send: Send) -> None:
        self.scope = scope
        self.receive = receive
        self.is_started = self.is_ended = False
        self._send = send

    async def send(self, message: Message) -> None:
        """Send anything."""
        self.is_started = True
        await self._send(message)

    async def read_body(self) -> bytes:
        """All that the client sends."""
        return b"".join([piece async for piece in self.body_pieces()])

    async def body_pieces(self) -> AsyncIterator[bytes]:
        """What the client sends, as it comes."""
        while True:
            message = await self.receive()
            if message["type"] == "http.disconnect":
                raise ModelError("the client is gone", code="connection")
            yield message.get("body", b"")
            if not message.get("more_body", False):
                return

    async def until_gone(self, work: Coroutine[None, None, None]) -> None:
        """Do something for the client, and leave it when the client is gone."""
        task = asyncio.ensure_future(work)
        watch = asyncio.ensure_future(self._wait_gone())
        try:
            await asyncio.wait((task, watch), return_when=asyncio.FIRST_COMPLETED)
            if not task.done() and self.is_ended:  # the client has it all
                await task
        finally:
            watch.cancel()
            if not task.done():
                task.cancel()
                await asyncio.wait((task,))
        if not task.cancelled():
            task.result()

    async def _wait_gone(self) -> None:
        while (await self.receive())["type"] != "http.disconnect":
            pass

    async def pass_reply(
        self,
        reply: "httpx2.Response",
        observer: "AnswerReader | None" = None,
        finish: Callable[[], Awaitable[None]] | None = None,
    ) -> None:
        """Pass an answer on as it comes; `finish` is done before the client sees its end."""
        try:
            await self.start(reply.status_code, returned_headers(reply, changed=False))
            async for piece in reply.aiter_raw():
                if observer is not None and finish is not None:
                    observer.feed(piece)
                    if observer.is_over:
                        await finish()
                await self.send_piece(piece)
            if finish is not None:
                await finish()
            await self.end()
        except ModelError:
            raise
        except Exception as error:
            raise ModelError(f"the answer broke off: {type(error).__name__}") from error
        finally:
            await reply.aclose()

    async def start(self, status: int, headers: list[tuple[bytes, bytes]]) -> None:
        """Begin to answer."""
        await self.send({"type": "http.response.start", "status": status, "headers": headers})

    async def send_piece(self, piece: bytes) -> None:
        """Send a piece of the answer."""
        if piece:
            await self.send({"type": "http.response.body", "body": piece, "more_body": True})

    async def end(self) -> None:
        """End the answer."""
        self.is_ended = True
        await self.send({"type": "http.response.body", "body": b"", "more_body": False})


class AnswerReader:
    """Reads along in an answer that goes on as it comes, for what the provider counted."""

    def __init__(self, form: AnswerShape, reply: "httpx2.Response") -> None:
        self._form = form
        packed = packing_of(reply)
        self._unpack: Callable[[bytes], bytes] | None = None
        if packed == "gzip":
            self._unpack = zlib.decompressobj(31).decompress
        self._reads = packed in ("identity", "gzip")
        self._is_refusal = reply.status_code >= 400
        self._events: Events | None = None
        self._stream: Stream | None = None
        if "event-stream" in reply.headers.get("content-type", "") and not self._is_refusal:
            self._events, self._stream = Events(), form.stream()
        self._whole = bytearray()
        length = reply.headers.get("content-length", "")
        self._missing = int(length) if length.isdecimal() else -1
        self.is_over = False
        """Whether what came last ends the answer, as far as that is known before the line ends."""

    def feed(self, piece: bytes) -> None:
        """Take a piece; what cannot be read is not read on."""
        self._missing -= len(piece)
        self.is_over = self.is_over or self._missing == 0
        if not self._reads:
            return
        try:
            data = self._unpack(piece) if self._unpack is not None else piece
            if self._events is None or self._stream is None:
                if not self._is_refusal or len(self._whole) < _LONGEST_REFUSAL:
                    self._whole += data
                return
            for name, text in self._events.feed(data):
                event = msgspec.json.decode(text)
                self._stream.feed(name, event)
                self.is_over = self.is_over or self._form.is_end(event)
            if self._events.done:
                self._stream.note_end()
                self.is_over = True
        except Exception:
            self._reads = False

    def body(self) -> JsonObject | None:
        """The whole answer, as far as it could be read; a refusal is none."""
        if not self._reads or self._is_refusal:
            return None
        if self._stream is None:
            value = read_json(bytes(self._whole))
            return value if isinstance(value, dict) else None
        try:
            return self._stream.body()
        except ModelError:
            return None

    def refusal(self, dialect: str, status: int) -> str:
        """What the provider said in the place of an answer, in words; "" where it answered."""
        if not self._is_refusal:
            return ""
        text = bytes(self._whole).decode("utf-8", "replace") if self._reads else ""
        return describe_refusal(AnswerErrors(dialect).failure(status, None, text))


def describe_refusal(error: ModelError) -> str:
    """Why there is no answer, as a recording has it: without keys."""
    return without_secrets(f"{error.code}: {error.message}")


async def reply_pieces(reply: "httpx2.Response") -> AsyncGenerator[bytes, None]:
    """The pieces of an answer as they come, unpacked."""
    coded = packing_of(reply) != "identity"
    try:
        async for piece in reply.aiter_bytes() if coded else reply.aiter_raw():
            yield piece
    except Exception as error:
        raise ModelError(f"the answer broke off: {type(error).__name__}") from error


async def read_whole(reply: "httpx2.Response") -> bytes:
    """All of an answer, as it was packed."""
    try:
        return b"".join([piece async for piece in reply.aiter_raw()])
    except Exception as error:
        raise ModelError(f"the answer broke off: {type(error).__name__}") from error
    finally:
        await reply.aclose()


def packing_of(reply: "httpx2.Response") -> str:
    """How an answer is packed."""
    return reply.headers.get("content-encoding", "").strip().lower() or "identity"


def raw_path(scope: Scope) -> str:
    """The path as the client spelled it."""
    raw: bytes | None = scope.get("raw_path")
    return raw.decode("latin-1").partition("?")[0] if raw else scope["path"]


def has_body(headers: Mapping[bytes, bytes]) -> bool:
    """Whether a request has a body."""
    return b"transfer-encoding" in headers or headers.get(b"content-length", b"0") != b"0"


def forwarded_headers(
    headers: Sequence[tuple[bytes, bytes]],
    *,
    packed: bool = True,
    reads: bool = True,
    plain: bool = False,
) -> list[tuple[bytes, bytes]]:
    """The headers that go upstream.

    Without `packed` the body is not as it came, so its length and packing are not either. If we
    read along, the answer must be packed as we can unpack it; with `plain`, where it may be
    changed, not at all.
    """
    gone = _hops_in(headers) | (_NOTHING if packed else _SIZES)
    sent = [
        (name, value)
        for name, value in headers
        if name not in gone
        and not name.startswith(b"x-weft-")
        and not (reads and name == b"accept-encoding")
        # the token of our page is nobody else's
        and not (name == b"cookie" and b"weft-" in value)
    ]
    if not reads:
        return sent
    accepts = b" ".join(value for name, value in headers if name == b"accept-encoding")
    sent.append((b"accept-encoding", b"gzip" if b"gzip" in accepts and not plain else b"identity"))
    return sent


def returned_headers(
    reply: "httpx2.Response", *, changed: bool, length: int | None = None
) -> list[tuple[bytes, bytes]]:
    """The headers that go back to the client."""
    headers = [(name.lower(), value) for name, value in reply.headers.raw]
    gone = _hops_in(headers) | (_SIZES if changed else _NOTHING)
    gone.add(b"date")  # the server has its own
    passed_on = [(name, value) for name, value in headers if name not in gone]
    if length is not None:
        passed_on.append((b"content-length", str(length).encode()))
    return passed_on


def _hops_in(headers: Sequence[tuple[bytes, bytes]]) -> set[bytes]:
    """The headers that are for the next machine alone, also those that it was told of."""
    named = [value.split(b",") for name, value in headers if name == b"connection"]
    return {*_HOPS, *(word.strip().lower() for words in named for word in words)}


LARGEST_BODY = 32_000_000
"""In bytes. A larger body is passed on unread: no model has room for it."""


def unpack_body(raw: bytes, packing: bytes) -> bytes:
    """A body, unpacked; a UsageError where it cannot be read, or is too large."""
    packing = packing.strip().lower()
    if packing in (b"gzip", b"x-gzip", b"deflate"):
        # some send deflate without the head that it has in HTTP
        is_bare = packing == b"deflate" and raw[:1] and raw[0] & 15 != 8
        stream = zlib.decompressobj(-15 if is_bare else 47)
        try:
            raw = stream.decompress(raw, LARGEST_BODY + 1)
        except zlib.error as error:
            raise _unreadable(f"the body cannot be unpacked: {error}") from None
        if len(raw) <= LARGEST_BODY and (not stream.eof or stream.unused_data):
            raise _unreadable("the body cannot be unpacked: it ends too early, or goes on")
    elif packing not in (b"", b"identity"):
        raise _unreadable(f"the body is packed as {packing.decode('latin-1')}")
    if len(raw) > LARGEST_BODY:
        raise _unreadable(f"the body has more than {LARGEST_BODY:,} bytes")
    return raw


def _unreadable(message: str) -> UsageError:
    return UsageError(message, where="weft proxy")
