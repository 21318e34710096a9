"""The HTTP of A2A's SDK with a bound on what is read: a stranger may send 100 MB."""

from collections.abc import AsyncIterator

import httpx


class BoundedTransport(httpx.AsyncBaseTransport):
    """Another transport, each of whose answers ends with an error after `most` bytes."""

    def __init__(self, inner: httpx.AsyncBaseTransport, most: int) -> None:
        self._inner = inner
        self._most = most

    async def handle_async_request(self, request: httpx.Request) -> httpx.Response:
        """Answer with a response whose body is counted."""
        response = await self._inner.handle_async_request(request)
        stream = response.stream
        assert isinstance(stream, httpx.AsyncByteStream)
        response.stream = _BoundedStream(stream, self._most)
        return response

    async def aclose(self) -> None:
        """Close the other one."""
        await self._inner.aclose()


class _BoundedStream(httpx.AsyncByteStream):
    def __init__(self, inner: httpx.AsyncByteStream, most: int) -> None:
        self._inner = inner
        self._room = most

    async def __aiter__(self) -> AsyncIterator[bytes]:
        async for chunk in self._inner:
            self._room -= len(chunk)
            if self._room < 0:
                raise httpx.ReadError("the answer is too large")
            yield chunk

    async def aclose(self) -> None:
        await self._inner.aclose()
