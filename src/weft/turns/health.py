"""What a worker says of itself over HTTP: `/health`, `/ready` and `/metrics`.

It is for the machines that watch a worker. It answers from the worker's own event loop, so that
no answer at all means that the loop is stuck.
"""

import asyncio
from collections.abc import Awaitable, Callable
from contextlib import suppress
from typing import NamedTuple

from weft.errors import UsageError
from weft.runtime.metrics import MEDIA_TYPE

_SECONDS = 10.0
"""How long a client may take to ask."""

_LONGEST_LINE = 8_000


class HealthAnswer(NamedTuple):
    """An answer: its status, its text and what kind of text that is."""

    status: int
    text: str
    media_type: str = "text/plain; charset=utf-8"


Pages = dict[str, Callable[[], Awaitable[HealthAnswer]]]


def metrics_answer(text: str) -> HealthAnswer:
    """The numbers of a worker."""
    return HealthAnswer(200, text, MEDIA_TYPE)


async def answer_health(pages: Pages, *, host: str, port: int) -> asyncio.Server:
    """Listen, and answer what is asked for these pages."""

    async def answer(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        with suppress(ConnectionError, TimeoutError, ValueError, asyncio.IncompleteReadError):
            async with asyncio.timeout(_SECONDS):
                path = await _asked(reader)
                page = pages.get(path)
                response = await page() if page is not None else HealthAnswer(404, "not here\n")
                writer.write(_spelled(response))
                await writer.drain()
        writer.close()

    try:
        return await asyncio.start_server(answer, host, port, limit=_LONGEST_LINE)
    except (OSError, OverflowError) as error:
        raise UsageError(
            f"nothing can listen there: {error}",
            where=f"{host}:{port}",
            hint="choose another port: --port 8001, or --port 0 for a free one",
        ) from None


async def _asked(reader: asyncio.StreamReader) -> str:
    """The path that a client asks for; the rest of its request is read and not needed."""
    method, path, _ = (await reader.readuntil(b"\r\n")).decode("latin-1").split(" ", 2)
    # the headers are read, or closing would reset the connection before the answer is there
    while await reader.readuntil(b"\r\n") != b"\r\n":
        pass
    return path.partition("?")[0] if method in ("GET", "HEAD") else ""


_REASONS = {200: "OK", 404: "Not Found", 503: "Service Unavailable"}


def _spelled(answer: HealthAnswer) -> bytes:
    body = answer.text.encode()
    head = (
        f"HTTP/1.1 {answer.status} {_REASONS[answer.status]}\r\n"
        f"content-type: {answer.media_type}\r\n"
        f"content-length: {len(body)}\r\n"
        "connection: close\r\n\r\n"
    )
    return head.encode("latin-1") + body
