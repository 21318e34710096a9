"""Google's own client as a carrier: its credentials, its project and location, our request.

The client offers no way to send a request as it is but an inner one, which takes bytes and gives
the answer unread; that is what is used here.
"""

from collections.abc import Awaitable, Mapping
from typing import TYPE_CHECKING, Protocol, cast

import msgspec

from weft.errors import ModelError
from weft.models.clients import unsent
from weft.models.http import HttpReply, Reply, Sending, broken, in_time

if TYPE_CHECKING:
    import httpx2


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
    held = vars(client).get("_api_client") if hasattr(client, "__dict__") else None
    if held is None:
        return ""
    inner = cast("_Inner", held)
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
        path = sending.path.lstrip("/").removeprefix("v1beta/")
        if inner.vertexai and path.startswith("models/"):
            path = f"publishers/google/{path}"
        try:
            request = inner._build_request("post", path, {})  # pyright: ignore[reportPrivateUsage]
            request.data = sending.body
            request.headers.update(self._headers)
            if request.timeout is None:
                request.timeout = timeouts.read
            once = inner._async_request_once  # pyright: ignore[reportPrivateUsage]
            asked = once(request, True, implicit_retry=False)
            answered = await in_time(asked, timeouts, sending.url)
        except ModelError:
            raise
        except Exception as error:
            return _refusal(error, sending.url)
        held = answered.response_stream
        if hasattr(held, "aiter_raw"):
            return HttpReply(cast("httpx2.Response", held))
        return _AiohttpReply(cast("_AiohttpResponse", held), request.url)


def _refusal(error: Exception, url: str) -> Reply:
    """The answer that the client raised as an exception, or the error that it stands for."""
    held = vars(error)
    response, code = held.get("response"), held.get("code")
    if response is not None and hasattr(response, "aread"):
        return HttpReply(cast("httpx2.Response", response))
    if isinstance(code, int):
        return _ToldReply(code, msgspec.json.encode(held.get("details")))
    if type(error).__module__.startswith(("httpx", "aiohttp", "httpcore")):
        raise broken(error, url) from error
    raise unsent(error) from error


class _ToldReply:
    """An answer of which the client told no more than its status and its JSON."""

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

    __slots__ = ("_response", "_url")

    def __init__(self, response: _AiohttpResponse, url: str) -> None:
        self._response = response
        self._url = url

    @property
    def status(self) -> int:
        """The HTTP status."""
        return self._response.status

    @property
    def headers(self) -> Mapping[str, str]:
        """The headers."""
        return self._response.headers

    async def read(self) -> bytes:
        """All of the body."""
        try:
            return await self._response.read()
        except Exception as error:
            raise broken(error, self._url) from error

    async def more(self) -> bytes:
        """The next piece of the body."""
        try:
            return await self._response.content.readany()
        except Exception as error:
            raise broken(error, self._url) from error

    async def close(self) -> None:
        """Close the connection."""
        self._response.close()
