"""One small HTTP transport: bytes to an address, bytes back.

Nothing is opened before the first request. The connections of an event loop are shared by all
models, kept alive, and closed with the loop.
"""

import asyncio
import functools
import logging
import os
from collections.abc import AsyncGenerator, Awaitable, Mapping
from typing import TYPE_CHECKING, NamedTuple, Protocol, TypeVar, cast

import msgspec

from weft.errors import DeclarationError, ModelError
from weft.models.retry import Final
from weft.models.services import BareAddresses

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
    """What the address ends with behind every path; never shown, it may hold a key."""

    @property
    def whole_url(self) -> str:
        """The address with all that stands behind it."""
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
        client = self._client if self._client is not None else await _opened()
        try:
            # not the auth of a client that somebody passed: our headers say who asks
            asked = client.send(_request(sending), stream=True, auth=None)
            return HttpReply(await in_time(asked, sending.timeouts, sending.url))
        except ModelError:
            raise
        except Exception as error:
            raise broken(error, sending.url) from error


@functools.cache
def _tell_the_transport_to_be_discreet() -> None:
    """Keep what may be a key out of the transport's log, which shows whole addresses."""
    logging.getLogger("httpx2").addFilter(BareAddresses())


def _request(sending: Sending) -> "httpx2.Request":
    import httpx2

    _tell_the_transport_to_be_discreet()
    timeouts = sending.timeouts
    return httpx2.Request(
        "POST",
        _parsed(sending.whole_url),
        headers=sending.headers,
        content=sending.body,
        extensions={
            "timeout": {
                "connect": timeouts.connect,
                "pool": timeouts.connect,
                "write": timeouts.read,
                "read": timeouts.read,
            }
        },
    )


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

    __slots__ = ("_pieces", "_response")

    def __init__(self, response: "httpx2.Response") -> None:
        self._response = response
        self._pieces: AsyncGenerator[bytes, None] | None = None

    @property
    def status(self) -> int:
        """The HTTP status."""
        return self._response.status_code

    @property
    def headers(self) -> Mapping[str, str]:
        """The headers; any case of a name will do."""
        return self._response.headers

    async def read(self) -> bytes:
        """All of the body."""
        try:
            return await self._response.aread()
        except Exception as error:
            raise broken(error, str(self._response.url)) from error

    async def more(self) -> bytes:
        """The next piece of the body, as it comes; nothing where it ends."""
        if self._pieces is None:
            response = self._response
            # raw pieces come as they arrive; a decoder may hold some back
            coded = response.headers.get("content-encoding", "identity") != "identity"
            self._pieces = response.aiter_bytes() if coded else response.aiter_raw()
        try:
            return await anext(self._pieces, b"")
        except Exception as error:
            raise broken(error, str(self._response.url)) from error

    async def close(self) -> None:
        """Close the connection, or give it back where everything was read."""
        if self._pieces is not None:
            await self._pieces.aclose()
        await self._response.aclose()


_SLOW = "try again, or allow more time: timeout=600"


def broken(error: Exception, url: str) -> ModelError:
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
        f"{timeouts!r} is no timeout",
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


async def _opened() -> "httpx2.AsyncClient":
    """The client of the running loop; what the environment forbids is told as that."""
    try:
        return await _pooled()
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


async def _pooled() -> "httpx2.AsyncClient":
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
def _parsed(url: str) -> "httpx2.URL":
    import httpx2

    return httpx2.URL(url)
