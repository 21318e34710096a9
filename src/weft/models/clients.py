"""The vendors' own client objects as carriers: their credentials, our request.

Weft imports none of them: who passes one has it installed. A plain client is given the bytes. One
whose cloud changes the request on the way, as Azure, Bedrock and Vertex do, gets the JSON.
"""

import asyncio
import inspect
import socket
from collections.abc import AsyncIterator, Awaitable, Callable, Iterator, Mapping
from typing import TYPE_CHECKING, Protocol, cast

import msgspec

from weft.errors import DeclarationError, ModelError, with_article
from weft.models.http import (
    Carrier,
    Http,
    HttpReply,
    Reply,
    Sending,
    broken_error,
    in_time,
    report_broken,
    rest_of,
)

if TYPE_CHECKING:
    import httpx2

_UNREAD = {"X-Stainless-Raw-Response": "stream"}
"""What asks the vendors' clients for an answer of which only the head was read."""

_PLAIN = ("OpenAI", "AsyncOpenAI", "Anthropic", "AsyncAnthropic")

_FRAMED = "application/vnd.amazon.eventstream"

_OURS = ("content-type", "accept", "anthropic-beta")


def carrier_for(client: object, vendor: str, headers: Mapping[str, str], *, where: str) -> Carrier:
    """A carrier of requests: the shared connections, or a client that the user passed.

    `vendor` is the package whose clients will do; `headers` are the caller's own.
    """
    if client is None:
        return Http()
    # told by its module, not by isinstance: no vendor's package is imported here
    roots = {kind.__module__.partition(".")[0] for kind in type(client).__mro__}
    if "httpx2" in roots and hasattr(client, "aclose"):
        return Http(cast("httpx2.AsyncClient", client))
    if vendor in roots and vendor == "google" and hasattr(client, "_api_client"):
        return GoogleCarrier(client, headers)
    if vendor in roots and hasattr(client, "post"):
        kind = type(client).__name__
        return VendorCarrier(cast("_Client", client), headers, plain=kind in _PLAIN)
    examples = {"google": "google.genai.Client()", "anthropic": "anthropic.AsyncAnthropic()"}
    name = f"{type(client).__module__}.{type(client).__name__}"
    raise DeclarationError(
        f"{with_article(name)} cannot carry these requests",
        where=where,
        hint=f"pass {examples.get(vendor, 'openai.AsyncOpenAI()')}, or an httpx2.AsyncClient",
    )


_KEYS = ("api_key", "auth_token", "admin_api_key", "webhook_secret", "aws_secret_key")


def client_keys(client: object) -> list[str]:
    """The keys that a client holds, as far as it says so; they are not to be shown either."""
    if not hasattr(client, "__dict__"):
        return []
    fields = vars(client)
    inner = fields.get("_api_client")
    more = vars(inner) if hasattr(inner, "__dict__") else {}
    values = (place.get(name) for place in (fields, more) for name in _KEYS)
    return [each for each in values if isinstance(each, str) and each]


class _Event(Protocol):
    """An event as a vendor's decoder reads it."""

    event: str | None
    data: str


class _Decoder(Protocol):
    """Reads events out of a cloud's own framing."""

    def aiter_bytes(self, iterator: AsyncIterator[bytes]) -> AsyncIterator[_Event]:
        """The events of a stream."""
        ...


class _Client(Protocol):
    """What all vendors' clients share."""

    @property
    def post(self) -> "Callable[..., Awaitable[httpx2.Response] | httpx2.Response]":
        """Send a request to any path."""
        ...

    def _make_sse_decoder(self) -> _Decoder: ...


class VendorCarrier:
    """Sends through the `post` of a vendor's client, asynchronous or not."""

    __slots__ = ("_client", "_headers", "_plain")

    def __init__(self, client: _Client, headers: Mapping[str, str], *, plain: bool) -> None:
        self._client = client
        self._headers = headers
        self._plain = plain

    async def send(self, sending: Sending) -> Reply:
        """Send the request once, with the client's address and credentials."""
        import httpx2

        timeouts, post = sending.timeouts, self._client.post
        own = {name: text for name, text in sending.headers.items() if name in _OURS}
        options: dict[str, object] = {
            "headers": {**own, **self._headers, **_UNREAD},
            # Weft asks again itself, and notes the attempts
            "max_retries": 0,
            "timeout": httpx2.Timeout(timeouts.read, connect=timeouts.connect),
        }
        body: dict[str, object] = {"content": sending.body}
        # Azure, Bedrock and Vertex move fields of the JSON into the path or the headers
        if not self._plain:
            body = {"body": msgspec.json.decode(sending.body)}

        def posted() -> Awaitable[httpx2.Response] | httpx2.Response:
            return post(sending.path, cast_to=httpx2.Response, options=options, **body)

        waits = not inspect.iscoroutinefunction(post)
        try:
            if not waits:
                asked = cast("Awaitable[httpx2.Response]", posted())
                reply = HttpReply(await in_time(asked, timeouts, sending.url))
            else:
                waiting = _in_thread(cast("Callable[[], httpx2.Response]", posted))
                return _ThreadReply(await in_time(waiting, timeouts, sending.url))
        except ModelError:
            raise
        except Exception as error:
            response = _response_of(error, sending.url)
            return _ThreadReply(response) if waits else HttpReply(response)
        # Bedrock frames its events in a format of Amazon's
        if reply.headers.get("content-type", "") != _FRAMED:
            return reply
        return _UnframedReply(reply, self._client._make_sse_decoder())  # pyright: ignore[reportPrivateUsage]


def _response_of(error: Exception, url: str) -> "httpx2.Response":
    """The answer that a client raised as an exception, or the error that it stands for."""
    response = cast("httpx2.Response | None", vars(error).get("response"))
    if response is not None:
        return response
    # the clients wrap what the connection raised
    cause = error.__cause__
    if isinstance(cause, Exception):
        raise broken_error(cause, url) from error
    raise unsent_error(error) from error


def unsent_error(error: Exception) -> ModelError:
    """The error for a client that did not even send."""
    return ModelError(
        f"the client refused to send: {type(error).__name__}: {error}",
        code="auth" if "credential" in str(error).lower() else "bad_request",
        hint="check how the client you passed was made",
    )


class _UnframedReply:
    """An answer whose events come in a cloud's own framing, given on as plain events."""

    __slots__ = ("_events", "_reply", "headers", "status")

    def __init__(self, reply: HttpReply, decoder: _Decoder) -> None:
        self.status = reply.status
        self._reply = reply
        self._events = decoder.aiter_bytes(_pieces(reply))
        self.headers: Mapping[str, str] = {**reply.headers, "content-type": "text/event-stream"}

    async def read(self) -> bytes:
        """All of the events."""
        return await rest_of(self)

    async def more(self) -> bytes:
        """The next event."""
        event = await anext(self._events, None)
        if event is None:
            return b""
        return f"event: {event.event or ''}\ndata: {event.data}\n\n".encode()

    async def close(self) -> None:
        """Let go of the answer."""
        await self._reply.close()


async def _pieces(reply: Reply) -> AsyncIterator[bytes]:
    while piece := await reply.more():
        yield piece


class _ThreadReply:
    """An answer of a client that waits: it is read in a thread."""

    __slots__ = ("_pieces", "_reading", "_response", "headers", "status")

    def __init__(self, response: "httpx2.Response") -> None:
        self.status = response.status_code
        self.headers: Mapping[str, str] = response.headers
        self._response = response
        self._pieces: Iterator[bytes] | None = None
        self._reading: asyncio.Future[bytes] | None = None

    async def read(self) -> bytes:
        """All of the body."""
        return await self._wait_for(self._response.read)

    async def more(self) -> bytes:
        """The next piece of the body."""
        if self._pieces is None:
            self._pieces = self._response.iter_bytes()
        pieces = self._pieces
        return await self._wait_for(lambda: next(pieces, b""))

    async def close(self) -> None:
        """Close it; a thread that still waits for more finds its connection shut."""
        if self._reading is None or self._reading.done():
            self._response.close()
            return
        self._reading.add_done_callback(self._read_in_vain)
        # a thread cannot be cancelled: with its connection shut, its read ends
        stream = cast("_NetworkStream", self._response.extensions["network_stream"])
        connection = stream.get_extra_info("socket")
        if isinstance(connection, socket.socket):
            connection.shutdown(socket.SHUT_RDWR)

    def _read_in_vain(self, reading: "asyncio.Future[bytes]") -> None:
        if not reading.cancelled():
            reading.exception()
        self._response.close()

    async def _wait_for(self, work: Callable[[], bytes]) -> bytes:
        # shielded below, because `close` must know that the thread still reads
        self._reading = asyncio.get_running_loop().run_in_executor(None, work)
        return await report_broken(asyncio.shield(self._reading), str(self._response.url))


class _NetworkStream(Protocol):
    """A connection that can be asked about itself."""

    def get_extra_info(self, info: str) -> object:
        """A fact about the connection."""
        ...


async def _in_thread(work: "Callable[[], httpx2.Response]") -> "httpx2.Response":
    """The result of the call. If nobody waits for it any more, it is closed on arrival."""
    future = asyncio.get_running_loop().run_in_executor(None, work)
    try:
        return await asyncio.shield(future)
    except asyncio.CancelledError:
        future.add_done_callback(_drop_result)
        raise


def _drop_result(future: "asyncio.Future[httpx2.Response]") -> None:
    if not future.cancelled() and future.exception() is None:
        future.result().close()


class _Request(Protocol):
    """A request of Google's client."""

    url: str
    headers: dict[str, str]
    data: object
    timeout: float | None


class _Response(Protocol):
    """An unread answer of Google's client."""

    response_stream: object


class _Inner(Protocol):
    """The part of Google's client that sends."""

    vertexai: bool | None
    project: str | None
    location: str | None

    def _build_request(
        self, http_method: str, path: str, request_dict: dict[str, object]
    ) -> _Request: ...

    def _async_request_once(
        self, http_request: _Request, stream: bool, *, implicit_retry: bool
    ) -> Awaitable[_Response]: ...


class _Content(Protocol):
    """The body of an answer of aiohttp's."""

    def readany(self) -> Awaitable[bytes]:
        """The next bytes that came."""
        ...


class _AiohttpResponse(Protocol):
    """An answer of aiohttp's, which Google's client takes where it is installed."""

    status: int
    headers: Mapping[str, str]
    content: _Content

    def read(self) -> Awaitable[bytes]:
        """All of the body."""
        ...

    def close(self) -> None:
        """Close the connection."""
        ...


def vertex_place(client: object) -> str:
    """The project and location that a client asks for; "" for one that has none."""
    api_client = vars(client).get("_api_client") if hasattr(client, "__dict__") else None
    if api_client is None:
        return ""
    inner = cast("_Inner", api_client)
    if not inner.vertexai or not inner.project:
        return ""
    return f"projects/{inner.project}/locations/{inner.location}"


class GoogleCarrier:
    """Sends through a `google.genai.Client`: with a key, or to Vertex."""

    __slots__ = ("_client", "_headers", "_inner")

    def __init__(self, client: object, headers: Mapping[str, str]) -> None:
        self._client = client  # it closes its connections once nobody holds it
        self._inner = cast("_Inner", vars(client)["_api_client"])
        self._headers = headers

    async def send(self, sending: Sending) -> Reply:
        """Send the bytes once, to where the client's models are."""
        inner, timeouts = self._inner, sending.timeouts
        # the client puts its own version before the path
        path = sending.path.lstrip("/").removeprefix("v1beta/")
        # Vertex names models by their publisher
        if inner.vertexai and path.startswith("models/"):
            path = f"publishers/google/{path}"
        try:
            request = inner._build_request("post", path, {})  # pyright: ignore[reportPrivateUsage]
            request.data = sending.body
            request.headers.update(self._headers)
            if request.timeout is None:
                request.timeout = timeouts.read
            # the part below the client's own retries
            once = inner._async_request_once  # pyright: ignore[reportPrivateUsage]
            asked = once(request, True, implicit_retry=False)
            answered = await in_time(asked, timeouts, sending.url)
        except ModelError:
            raise
        except Exception as error:
            return _refusal(error, sending.url)
        response = answered.response_stream
        if hasattr(response, "aiter_raw"):
            return HttpReply(cast("httpx2.Response", response))
        return _AiohttpReply(cast("_AiohttpResponse", response), request.url)


def _refusal(error: Exception, url: str) -> Reply:
    """The answer that the client raised as an exception, or the error that it stands for."""
    fields = vars(error)
    response, code = fields.get("response"), fields.get("code")
    if response is not None and hasattr(response, "aread"):
        return HttpReply(cast("httpx2.Response", response))
    # without a response object, as over aiohttp, the exception has the status and the JSON
    if isinstance(code, int):
        return _RaisedReply(code, msgspec.json.encode(fields.get("details")))
    if type(error).__module__.startswith(("httpx", "aiohttp", "httpcore")):
        raise broken_error(error, url) from error
    raise unsent_error(error) from error


class _RaisedReply:
    """An answer of which the client kept only the status and the JSON."""

    __slots__ = ("_body", "headers", "status")

    def __init__(self, status: int, body: bytes) -> None:
        self.status = status
        self.headers: Mapping[str, str] = {"content-type": "application/json"}
        self._body = body

    async def read(self) -> bytes:
        """The JSON."""
        return self._body

    async def more(self) -> bytes:
        """The JSON, once."""
        body, self._body = self._body, b""
        return body

    async def close(self) -> None:
        """There is nothing to let go of."""


class _AiohttpReply:
    """An answer of aiohttp's."""

    __slots__ = ("_response", "_url", "headers", "status")

    def __init__(self, response: _AiohttpResponse, url: str) -> None:
        self.status = response.status
        self.headers = response.headers
        self._response = response
        self._url = url

    async def read(self) -> bytes:
        """All of the body."""
        return await report_broken(self._response.read(), self._url)

    async def more(self) -> bytes:
        """The next piece of the body."""
        return await report_broken(self._response.content.readany(), self._url)

    async def close(self) -> None:
        """Close the connection."""
        self._response.close()
