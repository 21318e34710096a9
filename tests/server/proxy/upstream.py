"""A provider that answers by a script, and a proxy in front of it."""

import asyncio
import json
import socket
import threading
import time
from collections.abc import AsyncIterator, Awaitable, Callable, Coroutine, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, ClassVar, TypeAlias

import uvicorn
from starlette.requests import Request
from starlette.responses import Response, StreamingResponse

from weft.declare.words import policy_from
from weft.models.http import Timeouts
from weft.models.routing import read_upstreams
from weft.server.http import LARGEST_HEAD, guarded_protocol
from weft.server.proxy import PolicyRule, ProxyApplication, ProxySettings
from weft.server.proxy_records import CallLine, CallLog, read_limit
from weft.server.proxy_store import ProxyStore

ASGIApplication: TypeAlias = Callable[[Any, Any, Any], Awaitable[None]]


@dataclass
class Seen:
    """A request as it came to the provider."""

    method: str
    path: str
    query: str
    headers: dict[str, str]
    body: bytes

    @property
    def json(self) -> Any:
        return json.loads(self.body)


@dataclass
class Reply:
    """What the provider answers: a body, or pieces that come one by one."""

    body: bytes | list[bytes] = b"{}"
    status: int = 200
    headers: Mapping[str, str] = field(default_factory=dict)
    dies: bool = False
    """Whether the connection breaks after the last piece."""
    wait: threading.Event | None = None
    """What the provider waits for before the last piece."""


class Upstream:
    """The provider: `script` gives the answer to each request, by its number."""

    def __init__(self, script: Callable[[Seen, int], Reply]) -> None:
        self.script = script
        self.seen: list[Seen] = []
        self.gone = threading.Event()
        self.token = ""

    def stop_streams(self) -> None:
        """Nothing goes on."""

    async def __call__(self, scope: Any, receive: Any, send: Any) -> None:
        if scope["type"] != "http":
            return
        request = Request(scope, receive)
        body = await request.body()
        seen = Seen(
            request.method,
            scope["raw_path"].decode().partition("?")[0],
            request.url.query,
            dict(request.headers),
            body,
        )
        self.seen.append(seen)
        reply = self.script(seen, len(self.seen) - 1)
        if isinstance(reply.body, bytes) and not reply.dies:
            if reply.wait is not None:
                await asyncio.to_thread(reply.wait.wait, 60)
            answer: Response = Response(reply.body, reply.status, dict(reply.headers))
        else:
            answer = StreamingResponse(self._pieces(reply), reply.status, dict(reply.headers))
        await answer(scope, receive, send)

    async def _pieces(self, reply: Reply) -> AsyncIterator[bytes]:
        pieces = reply.body if isinstance(reply.body, list) else [reply.body]
        try:
            for at, piece in enumerate(pieces):
                if reply.wait is not None and at == len(pieces) - 1:
                    await asyncio.to_thread(reply.wait.wait, 60)
                yield piece
                await asyncio.sleep(0)
        except (asyncio.CancelledError, GeneratorExit):
            self.gone.set()
            raise
        if reply.dies:
            raise ConnectionResetError("the provider dies")


class Host:
    """A server that stays as long as the process: what it serves changes, and needs no start."""

    idle: ClassVar[list["Host"]] = []

    def __init__(self) -> None:
        self.application: ASGIApplication | None = None
        place = socket.socket()
        place.bind(("127.0.0.1", 0))
        place.listen(2048)
        self.url = f"http://127.0.0.1:{place.getsockname()[1]}"
        server = uvicorn.Server(
            uvicorn.Config(
                self,
                log_level="critical",
                lifespan="off",
                http=guarded_protocol(),
                h11_max_incomplete_event_size=LARGEST_HEAD,
            )
        )
        server.capture_signals = _nothing  # type: ignore[method-assign]

        async def serve() -> None:
            self.loop = asyncio.get_running_loop()
            await server.serve(sockets=[place])

        threading.Thread(target=lambda: asyncio.run(serve()), daemon=True).start()
        while not server.started:
            time.sleep(0.005)

    async def __call__(self, scope: Any, receive: Any, send: Any) -> None:
        assert self.application is not None, "a request came after its test"
        await self.application(scope, receive, send)

    def run(self, work: Coroutine[Any, Any, object]) -> None:
        """Do something where requests are answered."""
        asyncio.run_coroutine_threadsafe(work, self.loop).result(60)


@contextmanager
def hosting(application: ASGIApplication) -> Iterator[Host]:
    """A server of these that nobody uses now."""
    host = Host.idle.pop() if Host.idle else Host()
    host.application = application
    try:
        yield host
    finally:
        Host.idle.append(host)


@contextmanager
def listening(upstream: Upstream) -> Iterator[str]:
    """The provider's address while it answers."""
    with hosting(upstream) as host:
        yield host.url


@contextmanager
def _nothing() -> Iterator[None]:
    yield


@dataclass
class Proxied:
    """A proxy that listens, and what is after it."""

    url: str
    upstream: Upstream
    application: ProxyApplication
    lines: list[CallLine]

    def line(self, number: int) -> CallLine:
        """A line of the terminal, which comes a moment after the answer."""
        until = time.monotonic() + 60
        while len(self.lines) <= number and time.monotonic() < until:
            time.sleep(0.005)
        return self.lines[number]

    @property
    def faults(self) -> dict[str, int]:
        return dict(self.application.exchanges.faults)


@contextmanager
def proxying(
    script: Callable[[Seen, int], Reply],
    policy: str = "",
    *,
    path: Path | None = None,
    record: Path | None = None,
    records: bool = True,
    limits: tuple[str, ...] = (),
    timeouts: Timeouts | None = None,
    **settings: Any,
) -> Iterator[Proxied]:
    """A proxy in front of a scripted provider."""
    upstream = Upstream(script)
    lines: list[CallLine] = []
    with listening(upstream) as address:
        upstreams = read_upstreams(dict.fromkeys(("openai", "anthropic", "gemini"), address))
        rules = (PolicyRule(policy_from(policy)),) if policy else ()
        log = CallLog(ProxyStore(path), folder=record, records=records, show=lines.append)
        application = ProxyApplication(
            ProxySettings(
                rules,
                upstreams,
                limits=tuple(map(read_limit, limits)),
                timeouts=timeouts or Timeouts(),
                **settings,
            ),
            log,
        )
        with hosting(application) as host:
            life = application.lifespan()
            host.run(life.__aenter__())
            try:
                yield Proxied(host.url, upstream, application, lines)
            finally:
                host.run(life.__aexit__(None, None, None))
