"""Ways to have a turn run: a Runner in this process, servers over HTTP, or a queue.

A driver sends one turn and returns when it is answered. It also reads the stored logs, from which
a run is judged. Whatever breaks on the way, a driver sends the same request again: its id makes
that safe, and a run shows whether it is.

Top to bottom: what a driver is, then one after the other.
"""

import asyncio
import random
import time
from collections.abc import Callable, Sequence
from contextlib import suppress
from typing import TYPE_CHECKING, NamedTuple, Protocol
from urllib.parse import parse_qs, urlsplit

import msgspec

from weft.content import to_content
from weft.declare import RunConfig
from weft.errors import StoreError, UsageError
from weft.load.plan import PlannedTurn
from weft.runtime import Runner
from weft.session import Event, SessionKey, Store
from weft.session.event import read_event
from weft.turns import QueuedTurn, Turns

if TYPE_CHECKING:
    import httpx2

_PAUSE = 0.1
"""Seconds before a request that failed is sent again."""

_LOOK_EVERY = 0.2
"""Seconds between two looks for answers of queued turns; the log has the time of an answer."""

_ATTEMPTS = 50
"""How often a log is asked for at most."""

_PAGE = 1000
"""Events that one answer of a server lists."""


class Driver(Protocol):
    """A way to have turns run."""

    keeps_order: bool
    """Whether the next turn of a session may begin before the last one is answered."""
    retries: int
    """How often a turn was sent again."""
    failures: dict[str, str]
    """What was raised in place of an answer, by request id."""

    async def begin(self, turn: PlannedTurn) -> None:
        """Do what must be done before the next turn of the session begins."""
        ...

    async def finish(self, turn: PlannedTurn) -> float:
        """Return when the turn is answered: at which time."""
        ...

    async def log(self, key: SessionKey) -> list[Event]:
        """The events that are stored of a session."""
        ...

    async def close(self) -> None:
        """Close what it has opened."""
        ...


class RunnerDriver:
    """Turns in this process; the store may be any."""

    keeps_order = False

    def __init__(self, runner: Runner) -> None:
        self._runner = runner
        self._config = RunConfig(unfinished="resume")
        self.retries = 0
        self.failures: dict[str, str] = {}

    async def begin(self, turn: PlannedTurn) -> None:
        """Nothing: a run puts its message into the log itself."""

    async def finish(self, turn: PlannedTurn) -> float:
        """Run the turn; a store that is away for a while is asked again."""
        while True:
            try:
                await self._runner.run(
                    turn.message,
                    user_id=turn.key.user_id,
                    session_id=turn.key.id,
                    request_id=turn.request_id,
                    config=self._config,
                )
            except StoreError:
                self.retries += 1
                await asyncio.sleep(_PAUSE)
                continue
            except Exception as error:  # of the agent's own code: the others go on
                self.failures[turn.request_id] = f"{type(error).__name__}: {error}"
            return time.time()

    async def log(self, key: SessionKey) -> list[Event]:
        """The events that are stored of a session."""
        return await read_log(self._runner.store, key)

    async def close(self) -> None:
        """Close the runner and its store."""
        await self._runner.close()


async def read_log(store: Store, key: SessionKey) -> list[Event]:
    """The events of a session; none where there is no session.

    A connection from before the last restart of the server breaks when it is used.
    """
    for _ in range(_ATTEMPTS):
        try:
            return await store.events(key) or []
        except StoreError:
            await asyncio.sleep(_PAUSE)
    return await store.events(key) or []


class ServerAddress(NamedTuple):
    """Where a server listens, and what opens it."""

    url: str
    token: str | None

    @staticmethod
    def read(address: str) -> "ServerAddress":
        """The address as `weft serve` prints it: with the token after it."""
        parts = urlsplit(address)
        tokens = parse_qs(parts.query).get("token")
        if not parts.netloc:
            raise UsageError(
                f"`{address}` names no server",
                where="load",
                hint="copy the address that weft serve prints: http://127.0.0.1:8000/?token=...",
            )
        return ServerAddress(f"{parts.scheme}://{parts.netloc}", tokens[0] if tokens else None)


class HttpDriver:
    """Turns over the API of servers that share a store; what one does not answer, another may."""

    keeps_order = False

    def __init__(
        self,
        servers: Callable[[], Sequence[ServerAddress]],
        app: str,
        *,
        silence: float,
        seed: int = 0,
        store: Store | None = None,
    ) -> None:
        """`servers` are those that listen now; one that says nothing for `silence` is left."""
        import httpx2

        self._servers = servers
        self.app = app
        """The app whose sessions are talked to."""
        self._random = random.Random(seed)
        self._store = store
        self._client = httpx2.AsyncClient(
            # a wait for a connection of the pool is ours, no silence of a server
            timeout=httpx2.Timeout(silence, pool=None),
            limits=httpx2.Limits(max_connections=None, max_keepalive_connections=100),
        )
        self._errors = (httpx2.TransportError, httpx2.StreamError)
        self.retries = 0
        self.failures: dict[str, str] = {}

    async def apps(self) -> list[str]:
        """The apps that are served, or what is wrong with the address."""
        server = self._servers()[0]
        try:
            answer = await self._client.get(f"{server.url}/api/apps", headers=_headers(server))
        except self._errors as error:
            raise UsageError(
                f"nothing answers: {error}", where=server.url, hint="start it: weft serve ..."
            ) from None
        if answer.status_code != 200:
            raise UsageError(
                f"the server refuses with {answer.status_code}",
                where=server.url,
                hint="copy the whole address that weft serve prints, with its token",
            )
        return [str(app["name"]) for app in msgspec.json.decode(answer.content)]

    async def begin(self, turn: PlannedTurn) -> None:
        """Nothing: the request that brings the message waits for the answer too."""

    async def finish(self, turn: PlannedTurn) -> float:
        """Send the turn and read its events until the answer; send it again where it breaks off."""
        first = True
        while True:
            self.retries += not first
            first = False
            listening = self._servers()
            pause = _PAUSE
            if listening:
                with suppress(*self._errors):
                    pause = await self._try(turn, self._random.choice(listening))
            if pause == 0:
                return time.time()
            await asyncio.sleep(pause)

    async def _try(self, turn: PlannedTurn, server: ServerAddress) -> float:
        """Send the turn once; 0 where it is answered, else the seconds to wait."""
        body = {
            "message": turn.message,
            "create": True,
            "user": turn.key.user_id,
            "request_id": turn.request_id,
            "busy": "queue",
            "stream": False,
        }
        async with self._client.stream(
            "POST",
            f"{self._path(server, turn.key)}/runs",
            content=msgspec.json.encode(body),
            headers={**_headers(server), "content-type": "application/json"},
        ) as response:
            if response.status_code != 200:
                await response.aread()
                return self._pause(response, server)
            return 0 if await _is_answered(response, turn) else _PAUSE

    def _pause(self, response: "httpx2.Response", server: ServerAddress) -> float:
        """How long to wait before the turn is sent again; what will never work is an error."""
        status = response.status_code
        # 409: another server still has the session
        if status == 429 or status >= 500 or status == 409:
            return float(response.headers.get("retry-after", _PAUSE))
        raise UsageError(
            f"the server refuses with {status}: {response.text[:300]}",
            where=server.url,
            hint="name the app with --app, and copy the address with its token",
        )

    async def log(self, key: SessionKey) -> list[Event]:
        """The events that are stored of a session: from the store, or as the server lists them."""
        if self._store is not None:
            return await read_log(self._store, key)
        server = self._servers()[0]
        events: list[Event] = []
        while True:
            response = await self._client.get(
                f"{self._path(server, key)}/events",
                params={"user": key.user_id, "after": len(events), "limit": _PAGE},
                headers={**_headers(server), "accept": "application/json"},
            )
            if response.status_code == 429:
                await asyncio.sleep(float(response.headers.get("retry-after", _PAUSE)))
                continue
            if response.status_code == 404:
                return events
            response.raise_for_status()
            page = msgspec.json.decode(response.content, type=_EventPage)
            events += [read_event(bytes(data)) for data in page.events]
            if not page.events or len(events) >= page.length:
                return events

    async def close(self) -> None:
        """Close the connections."""
        await self._client.aclose()
        if self._store is not None:
            await self._store.close()

    def _path(self, server: ServerAddress, key: SessionKey) -> str:
        return f"{server.url}/api/apps/{self.app}/sessions/{key.id}"


class _EventPage(msgspec.Struct):
    events: list[msgspec.Raw]
    length: int


def _headers(server: ServerAddress) -> dict[str, str]:
    headers = {"accept": "text/event-stream"}
    if server.token is not None:
        headers["authorization"] = f"Bearer {server.token}"
    return headers


async def _is_answered(response: "httpx2.Response", turn: PlannedTurn) -> bool:
    """Read a stream to its end: whether it had the answer of the turn, or an error of the agent."""
    answered, name = False, ""
    async for line in response.aiter_lines():
        field, _, value = line.partition(": ")
        if not line:
            name = ""
        elif field == "event":
            name = value
        elif field == "data" and not name:
            event = read_event(value)
            if event.invocation_id == turn.request_id and event.author != "user":
                answered = event.is_final_response()
    return answered


class QueueDriver:
    """Turns into a queue, from which workers take them; answers are looked for in the logs."""

    keeps_order = True

    def __init__(self, turns: Turns, store: Store) -> None:
        self._turns = turns
        self._store = store
        self._waiting: dict[SessionKey, dict[str, asyncio.Future[float]]] = {}
        self._seen: dict[SessionKey, int] = {}
        self._watching: asyncio.Task[None] | None = None
        self.retries = 0
        self.failures: dict[str, str] = {}

    async def open(self) -> None:
        """Make the tables before workers start, which would all want to make them."""
        await self._turns.open()

    async def begin(self, turn: PlannedTurn) -> None:
        """Put the turn, until the queue has it."""
        queued = QueuedTurn(
            key=turn.key, request_id=turn.request_id, message=to_content(turn.message)
        )
        while True:
            try:
                await self._turns.put(queued)
                return
            except StoreError:
                self.retries += 1
                await asyncio.sleep(_PAUSE)

    async def finish(self, turn: PlannedTurn) -> float:
        """Wait for the answer; its time is the one that the log has."""
        if self._watching is None or self._watching.done():
            self._watching = asyncio.create_task(self._watch())
        answered: asyncio.Future[float] = asyncio.get_running_loop().create_future()
        self._waiting.setdefault(turn.key, {})[turn.request_id] = answered
        return await answered

    async def _watch(self) -> None:
        """Look now and then which sessions have grown, and read what is new in them."""
        while True:
            await asyncio.sleep(_LOOK_EVERY)
            keys = [key for key, waiting in self._waiting.items() if waiting]
            with suppress(StoreError):
                lengths = await self._store.lengths(keys) if keys else {}
                for key, length in lengths.items():
                    if length > self._seen.get(key, 0):
                        await self._read(key)

    async def _read(self, key: SessionKey) -> None:
        waiting = self._waiting[key]
        for event in await self._store.events(key, after=self._seen.get(key, 0)) or ():
            self._seen[key] = event.sequence or 0
            is_end = event.author != "user" and event.is_final_response() and event.text
            if (is_end or event.error_code) and event.invocation_id in waiting:
                answered = waiting.pop(event.invocation_id)
                if not answered.done():
                    answered.set_result(event.timestamp)

    async def log(self, key: SessionKey) -> list[Event]:
        """The events that are stored of a session."""
        return await read_log(self._store, key)

    async def close(self) -> None:
        """Close the queue and the store."""
        if self._watching is not None:
            self._watching.cancel()
        await self._turns.close()
        await self._store.close()
