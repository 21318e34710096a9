"""One small HTTP transport: bytes to an address, bytes back, and answers read off the line.

Nothing is opened before the first request. The connections of an event loop are shared by all
models, kept alive, and closed with the loop. An answer is JSON or server-sent events; what is
neither is told apart.
"""

import asyncio
import functools
import json
import logging
import math
import os
from collections.abc import AsyncGenerator, AsyncIterable, Awaitable, Mapping, Sequence
from typing import TYPE_CHECKING, NamedTuple, Protocol, TypeVar, cast

import msgspec

from weft.dialects import dialect_named, lift, stream_of
from weft.dialects.stream import Events
from weft.errors import DeclarationError, ModelError
from weft.ir import ModelResponse
from weft.jsonschema import deeper_than
from weft.models.retry import Final, asked_to_wait
from weft.models.services import BareAddresses, address_of
from weft.values import Json, JsonObject

if TYPE_CHECKING:
    import ssl

    import httpx2


T = TypeVar("T")

_MOST_CONNECTIONS = 1000
_MOST_IDLE = 100
_IDLE_SECONDS = 60.0


class Timeouts(msgspec.Struct, frozen=True, kw_only=True):
    """How many seconds to wait: for a connection, for the answer to begin, for its next piece."""

    connect: float = 10.0
    first_byte: float = 600.0
    read: float = 600.0


class Sending(NamedTuple):
    """One request as it goes over the line."""

    url: str
    path: str
    """The end of the address, for a carrier that has an address of its own."""
    headers: dict[str, str]
    body: bytes
    timeouts: Timeouts
    query: str = ""
    """What the address ends with after every path; never shown, it may hold a key."""

    @property
    def whole_url(self) -> str:
        """The address with all that comes after it."""
        if not self.query:
            return self.url
        return f"{self.url}{'&' if '?' in self.url else '?'}{self.query}"

    def __repr__(self) -> str:  # the headers hold a key
        return f"Sending({self.url!r}, {len(self.body)} bytes)"


class Reply(Protocol):
    """An answer of which only the head has come."""

    @property
    def status(self) -> int:
        """The HTTP status."""
        ...

    @property
    def headers(self) -> Mapping[str, str]:
        """The headers, by lower-case name."""
        ...

    async def read(self) -> bytes:
        """All of the body."""
        ...

    async def more(self) -> bytes:
        """The next piece of the body, as it comes; nothing where it ends."""
        ...

    async def close(self) -> None:
        """Let go of it; what has not been read is not read."""
        ...


class Carrier(Protocol):
    """The transport of a request. Failures on the way become a ModelError."""

    async def send(self, sending: Sending) -> Reply:
        """Send the request and wait for the head of the answer."""
        ...


class Http:
    """Carries requests over pooled connections, or over those of a client somebody gives."""

    __slots__ = ("_client",)

    def __init__(self, client: "httpx2.AsyncClient | None" = None) -> None:
        self._client = client

    async def send(self, sending: Sending) -> "HttpReply":
        """Send exactly these bytes, and wait for the head of the answer."""
        client = self._client if self._client is not None else await _open_client()
        try:
            # not the auth of a client that somebody passed: our headers say who asks
            asked = client.send(_request(sending), stream=True, auth=None)
            return HttpReply(await in_time(asked, sending.timeouts, sending.url))
        except ModelError:
            raise
        except Exception as error:
            raise broken_error(error, sending.url) from error


async def pass_on(
    method: str,
    url: str,
    headers: Sequence[tuple[bytes, bytes]],
    content: "bytes | AsyncIterable[bytes]",
    timeouts: Timeouts,
) -> "httpx2.Response":
    """Send somebody else's request as it is; the answer, of which only the head has come.

    A failure on the way is a ModelError that does not show the address's query.
    """
    import httpx2

    _tell_the_transport_to_be_discreet()
    client = await _open_client()
    try:
        request = httpx2.Request(
            method,
            httpx2.URL(url),
            headers=[*headers],
            content=content,
            extensions=_limits_of(timeouts),
        )
        return await client.send(request, stream=True, auth=None)
    except Exception as error:
        raise broken_error(error, url) from error


@functools.cache
def _tell_the_transport_to_be_discreet() -> None:
    """Keep what may be a key out of the transport's log, which shows whole addresses."""
    logging.getLogger("httpx2").addFilter(BareAddresses())


def _request(sending: Sending) -> "httpx2.Request":
    import httpx2

    _tell_the_transport_to_be_discreet()
    return httpx2.Request(
        "POST",
        _parse_url(sending.whole_url),
        headers=sending.headers,
        content=sending.body,
        extensions=_limits_of(sending.timeouts),
    )


def _limits_of(timeouts: Timeouts) -> dict[str, object]:
    return {
        "timeout": {
            "connect": timeouts.connect,
            "pool": timeouts.connect,
            "write": timeouts.read,
            "read": timeouts.read,
        }
    }


async def in_time(asked: Awaitable[T], timeouts: Timeouts, url: str) -> T:
    """The response, if it begins in time."""
    if timeouts.first_byte >= timeouts.read:  # no sooner than whoever reads notices it
        return await asked
    try:
        async with asyncio.timeout(timeouts.first_byte):
            return await asked
    except TimeoutError:
        words = f"no answer from {_host(url)} within {timeouts.first_byte:g} s"
        raise ModelError(words, code="timeout", hint=_SLOW) from None


class HttpReply:
    """An answer of httpx2's, its errors told as ModelErrors."""

    __slots__ = ("_pieces", "_response", "headers", "status")

    def __init__(self, response: "httpx2.Response") -> None:
        self.status = response.status_code
        self.headers: Mapping[str, str] = response.headers  # any case of a name will do
        self._response = response
        self._pieces: AsyncGenerator[bytes, None] | None = None

    async def read(self) -> bytes:
        """All of the body."""
        return await report_broken(self._response.aread(), str(self._response.url))

    async def more(self) -> bytes:
        """The next piece of the body, as it comes; nothing where it ends."""
        if self._pieces is None:
            response = self._response
            # raw pieces come as they arrive; a decoder may hold some back
            coded = response.headers.get("content-encoding", "identity") != "identity"
            self._pieces = response.aiter_bytes() if coded else response.aiter_raw()
        return await report_broken(anext(self._pieces, b""), str(self._response.url))

    async def close(self) -> None:
        """Close the connection, or give it back where everything was read."""
        if self._pieces is not None:
            await self._pieces.aclose()
        await self._response.aclose()


async def report_broken(asked: Awaitable[T], url: str) -> T:
    """What was asked for; a connection that fails meanwhile is told as a ModelError."""
    try:
        return await asked
    except Exception as error:
        raise broken_error(error, url) from error


_SLOW = "try again, or allow more time: timeout=600"


def broken_error(error: Exception, url: str) -> ModelError:
    """The error for a connection that failed; httpx2's and its predecessor's are named alike."""
    # by name: errors of httpx, and of clients that wrap it, are of other classes
    kinds = {kind.__name__ for kind in type(error).__mro__}
    host = _host(url)
    if "ConnectTimeout" in kinds:
        words, code, hint = f"cannot connect to {host} in time", "timeout", "check the base URL"
    elif "TimeoutException" in kinds:
        words, code, hint = f"no more came from {host} in time", "timeout", _SLOW
    elif "DecodingError" in kinds:
        words, code = f"what {host} sent cannot be unpacked: {_reason(error)}", "bad_response"
        hint = "check that the base URL is this provider's API"
    elif kinds & {"UnsupportedProtocol", "InvalidURL", "LocalProtocolError", "ValueError"}:
        reason = _reason(error)
        words, code = f"the request cannot be sent to {host}: {reason}", "bad_request"
        hint = "write base_url as https://host/v1, and keys and headers in plain letters"
    elif "ConnectError" in kinds:
        words, code = f"cannot connect to {host}: {_reason(error)}", "connection"
        hint = f"check the base URL and that the server is running{_by_proxy()}"
    elif "ProxyError" in kinds:
        words, code = f"the proxy lets nothing through to {host}: {_reason(error)}", "connection"
        hint = f"check the proxy{_by_proxy()}"
    else:
        words, code = f"the connection to {host} broke: {_reason(error)}", "connection"
        hint = "try again"
    return ModelError(words, code=code, hint=hint)


def _reason(error: Exception) -> str:
    return " ".join(str(error).split())[:300] or type(error).__name__


def _host(url: str) -> str:
    """The scheme and host of an address: what may be shown of it."""
    scheme, _, rest = url.partition("://")
    # no login and no path: either may hold a key
    return f"{scheme}://{rest.partition('/')[0].rpartition('@')[2]}"


def timeouts_of(timeouts: object, where: str) -> Timeouts:
    """The timeouts that somebody asked for: seconds, or a Timeouts, or the usual ones."""
    if timeouts is None:
        return Timeouts()
    if isinstance(timeouts, int | float) and not isinstance(timeouts, bool) and timeouts > 0:
        return Timeouts(
            # nobody who waits long for an answer wants to wait as long for a connection
            connect=min(10.0, timeouts),
            first_byte=float(timeouts),
            read=float(timeouts),
        )
    if isinstance(timeouts, Timeouts):
        values = cast("tuple[object, ...]", msgspec.structs.astuple(timeouts))
        if all(type(each) in (int, float) and cast("float", each) > 0 for each in values):
            return timeouts
    raise DeclarationError(
        f"{timeouts!r} is not a timeout",
        where=where,
        hint="write timeout=60, or timeout=weft.models.Timeouts(first_byte=60)",
    )


_PROXIES = ("HTTP_PROXY", "HTTPS_PROXY", "ALL_PROXY")
_CERTIFICATES = ("SSL_CERT_FILE", "SSL_CERT_DIR")


def _by_proxy() -> str:
    """Which variables send requests over a proxy, for a hint."""
    variables = _set(_PROXIES)
    return f"; {' and '.join(variables)} may send it over a proxy" if variables else ""


def _set(variables: tuple[str, ...]) -> list[str]:
    return [each for each in variables if os.environ.get(each) or os.environ.get(each.lower())]


async def _open_client() -> "httpx2.AsyncClient":
    """The client of the running loop; what the environment forbids is told as that."""
    try:
        return await _loop_client()
    except Exception as error:
        named = _set((*_PROXIES, *_CERTIFICATES))
        raise Final(
            f"no connection can be opened: {_reason(error)}",
            code="connection",
            hint=f"check {', '.join(named)}" if named else "check httpx2: pip install httpx2",
        ) from error


_pools: "dict[asyncio.AbstractEventLoop, _Pool]" = {}


class _Pool(NamedTuple):
    client: "httpx2.AsyncClient"
    keeper: "AsyncGenerator[httpx2.AsyncClient, None]"


async def _loop_client() -> "httpx2.AsyncClient":
    """The client of the running loop."""
    loop = asyncio.get_running_loop()
    pool = _pools.get(loop)
    if pool is None:
        # the clients of loops that ended without finishing their generators
        for other in [each for each in list(_pools) if each.is_closed()]:
            _pools.pop(other, None)
        keeper = _keep(loop)
        pool = _pools[loop] = _Pool(await anext(keeper), keeper)
    return pool.client


async def _keep(loop: asyncio.AbstractEventLoop) -> "AsyncGenerator[httpx2.AsyncClient, None]":
    """A client that lives as long as its loop, which finishes its generators when it ends."""
    import httpx2

    limits = httpx2.Limits(
        max_connections=_MOST_CONNECTIONS,
        max_keepalive_connections=_MOST_IDLE,
        keepalive_expiry=_IDLE_SECONDS,
    )
    client = httpx2.AsyncClient(verify=_certificates(), limits=limits)
    try:
        yield client
    finally:
        _pools.pop(loop, None)
        await client.aclose()


@functools.cache
def _certificates() -> "ssl.SSLContext":
    """The certificates to trust: reading them takes longer than a request, so once."""
    import httpx2

    return httpx2.create_ssl_context()


@functools.lru_cache(maxsize=256)
def _parse_url(url: str) -> "httpx2.URL":
    import httpx2

    return httpx2.URL(url)


# --- answers, read off the line

_SHOWN = 200
_DEEPEST = 150
"""How deep an answer may nest: a log takes little more."""

_decode = msgspec.json.Decoder().decode


async def require_answer(reply: Reply, dialect: str, url: str) -> None:
    """Raise the error that a failed answer describes."""
    status = reply.status
    if 200 <= status < 300:
        if "text/html" in reply.headers.get("content-type", ""):
            raise web_page(url, status)
        if status in (204, 205):
            raise _nothing(url, status)
        return
    body = await reply.read()
    text = body.decode("utf-8", "replace")
    if 300 <= status < 400:
        # the base alone: a query there may hold a key
        there = address_of(reply.headers.get("location", "elsewhere")).base or "/"
        words = f"{url} sends on to {there} instead of answering"
        raise _unusable(words, status, "write the address it sends on to as base_url")
    value = _object(body)
    if value is None and _is_page(text, reply.headers.get("content-type", "")):
        error = web_page(url, status)
        if status >= 500 or status == 429:  # a proxy's page says only what the status says
            error = dialect_named(dialect).errors.failure(status, None, "")
    else:
        error = dialect_named(dialect).errors.failure(status, value, text)
    asked = asked_to_wait(reply.headers)
    if asked is not None:
        error.retry_after = asked
    # OpenAI and Anthropic say so of what will fail again, whatever its status
    raise _final(error) if reply.headers.get("x-should-retry") == "false" else error


class Reading:
    """One answer that is being read; partial responses as they come, then the whole one."""

    __slots__ = ("_begun", "_body", "_dialect", "_events", "_over", "_reply", "_stream", "_url")

    def __init__(self, reply: Reply, dialect: str, url: str, *, stream: bool) -> None:
        self._reply = reply
        self._dialect = dialect
        self._url = url
        self._events = Events()
        self._stream = stream_of(dialect) if self._streams(asked=stream) else None
        self._body: JsonObject | None = None
        self._begun = False
        self._over = False

    def _streams(self, *, asked: bool) -> bool:
        """Whether events come: what the answer says it is counts more than what was asked for."""
        kind = self._reply.headers.get("content-type", "")
        # some servers stream unasked, others answer a request for a stream with plain JSON
        return "event-stream" in kind or (asked and "json" not in kind)

    async def more(self) -> list[ModelResponse] | None:
        """The pieces that came next; None where everything has come."""
        if self._over:
            return None
        if self._stream is None:
            self._body = self._whole(await self._reply.read())
            return None
        try:
            data = await self._reply.more()
        except ModelError as error:
            self._over = True
            return self._cut(error)
        if data and not self._begun:
            self._begun = True
            if data.lstrip()[:1] in (b"{", b"[", b"<"):  # it says it streams, and does not
                self._body = self._whole(data + await rest_of(self._reply))
                return None
        if data:
            return self._read_events(self._events.feed(data))
        self._over = True
        try:
            return self._read_events(self._events.end())
        except _HalfEvent:
            return self._cut(ModelError("it ends in the middle of an event", hint="try again"))

    def response(self) -> ModelResponse:
        """The whole answer."""
        return lift(self._dialect, self.body)

    @property
    def body(self) -> JsonObject:
        """The answer as it came, or as what was streamed adds up to."""
        if self._body is not None:
            return self._body
        assert self._stream is not None
        return self._stream.body()

    async def close(self) -> None:
        """Let go of the connection."""
        await self._reply.close()

    def _read_events(self, events: list[tuple[str, str]]) -> list[ModelResponse]:
        stream = self._stream
        assert stream is not None
        partials: list[ModelResponse] = []
        for name, text in events:
            data = _object(text)
            if data is None:
                raise self._bad_event_error(text)
            partial = stream.feed(name, data)
            if partial is not None:
                partials.append(partial)
        # `[DONE]` ends a stream of OpenAI's format, though the connection may stay open
        if self._events.done:
            stream.note_end()
        return partials

    def _bad_event_error(self, text: str) -> ModelError:
        if self._over:
            return _HalfEvent("the stream ends in the middle of an event")
        return _unusable(f"an event of the answer is not a JSON object: {_short(text)}")

    def _cut(self, error: ModelError) -> list[ModelResponse]:
        """Handle a broken connection. It is not an error if the answer was complete."""
        assert self._stream is not None
        try:
            self._stream.body()
        except ModelError as cut:
            if cut.code != "cut_stream":
                raise
            code = "timeout" if error.code == "timeout" else "cut_stream"
            raise ModelError(
                f"the answer's stream was cut: {error.message}", code=code, hint=error.hint
            ) from error
        return []

    def _whole(self, body: bytes) -> JsonObject:
        status = self._reply.status
        if not body.strip():
            raise _nothing(self._url, status)
        value = _object(body)
        if value is not None:
            return value
        text = body.decode("utf-8", "replace")
        if _is_page(text, self._reply.headers.get("content-type", "")):
            raise web_page(self._url, status)
        raise _unusable(f"the answer is not a JSON object: {_short(text)}", status)


async def rest_of(reply: Reply) -> bytes:
    """What has not been read of an answer."""
    pieces: list[bytes] = []
    while piece := await reply.more():
        pieces.append(piece)
    return b"".join(pieces)


class _HalfEvent(ModelError):
    """The last event of a stream, of which only a part came."""


def web_page(url: str, status: int) -> ModelError:
    """The error for an address that answers with a page for people."""
    words = f"{url} answered with a web page (HTML, status {status}) instead of JSON"
    return _unusable(
        words, status, "check base_url: it is the address of the API, such as https://host/v1"
    )


def _nothing(url: str, status: int) -> ModelError:
    return _unusable(f"{url} answered with nothing (status {status})", status)


def _unusable(words: str, status: int | None = None, hint: str = "") -> ModelError:
    hint = hint or "check that the base URL is this provider's API"
    return ModelError(words, code="bad_response", status=status, hint=hint)


def _is_page(text: str, kind: str) -> bool:
    start = text[:200].lstrip().lower()
    return "text/html" in kind or start.startswith(("<!doctype html", "<html"))


def _object(body: bytes | str) -> JsonObject | None:
    """The JSON object that this is; some errors come as a list of one."""
    try:
        value: Json = _decode(body)
    except (msgspec.DecodeError, UnicodeDecodeError, RecursionError):
        value = _parse_leniently(body)
    # Gemini sends the error of a stream as a list
    if isinstance(value, list) and len(value) == 1:
        value = value[0]
    if not isinstance(value, dict):
        return None
    opens = body.count(b"[") + body.count(b"{") if isinstance(body, bytes) else _opens(body)
    # the brackets are counted first: to walk through every answer would cost time
    return None if opens > _DEEPEST and deeper_than(value, _DEEPEST) else value


def _opens(text: str) -> int:
    return text.count("[") + text.count("{")


def _parse_leniently(body: bytes | str) -> Json:
    """Parse JSON with the small faults that models and servers make; None if it is not JSON.

    Half a character stays as it is, bytes that are not a character become one that says so, and a
    value such as NaN, which is not a number, becomes null.
    """
    text = body.decode("utf-8", "replace") if isinstance(body, bytes) else body
    try:
        return cast("Json", json.loads(text, parse_constant=lambda _: None, parse_float=_number))
    except (ValueError, RecursionError):
        return None


def _number(text: str) -> float | None:
    value = float(text)
    return value if math.isfinite(value) else None


def _final(error: ModelError) -> Final:
    return Final(
        error.message,
        code=error.code,
        provider=error.provider,
        model=error.model,
        status=error.status,
        retry_after=error.retry_after,
        hint=error.hint,
    )


def _short(text: str) -> str:
    line = " ".join(text.split())
    return line if len(line) <= _SHOWN else f"{line[:_SHOWN]}…"
