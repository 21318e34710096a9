"""What serving adds: CPU time of a turn and of a streamed event, over a Runner without a server.

    .venv/bin/python bench/serving.py

Both sides run the same scripted agent over the same kind of store, in one process and in turns, so
that a busy machine slows both. The client's own time is not counted: it speaks to the application
through plain ASGI calls, as uvicorn would, and does no parsing.
"""

import asyncio
import statistics
import time
from collections.abc import AsyncGenerator, Awaitable, Callable
from typing import Any

from weft import Agent, RunConfig, Runner
from weft.server import Limits, app
from weft.session import SessionKey
from weft.testing import ScriptedModel, chunks

TURNS = 200
WORDS = 400
ROUNDS = 7
LIMITS = Limits(rate=1e9, burst=10**9)


class Model(ScriptedModel):
    """Waits for the event loop once, as every model that is asked over a network does."""

    async def generate(self, *asked: Any, **options: Any) -> AsyncGenerator[Any, None]:
        await asyncio.sleep(0)
        async for response in super().generate(*asked, **options):
            yield response


def agent(words: int) -> Agent:
    answer = chunks(*[f"word{n} " for n in range(words)]) if words else "Hello."
    return Agent("bot", model=Model([answer] * (TURNS + 2)))


class Client:
    """ASGI calls, with nothing around them."""

    def __init__(self, words: int) -> None:
        self.application = app(agent(words), limits=LIMITS, recover=0)
        self.chunks = 0
        self._body = b'{"message": "hi"}'
        self._headers = [
            (b"host", b"127.0.0.1:8000"),
            (b"authorization", f"Bearer {self.application.token}".encode()),
            (b"content-type", b"application/json"),
            (b"accept", b"text/event-stream"),
            (b"content-length", str(len(self._body)).encode()),
        ]

    async def run(self, session: str) -> None:
        path = f"/api/apps/bot/sessions/{session}/runs"
        scope = {
            "type": "http", "method": "POST", "path": path, "raw_path": path.encode(),
            "query_string": b"", "root_path": "", "headers": self._headers, "http_version": "1.1",
            "scheme": "http", "server": ("127.0.0.1", 8000), "client": ("127.0.0.1", 9),
            "asgi": {"version": "3.0"},
        }  # fmt: skip
        await self.application(scope, self._receive, self._send)  # type: ignore[arg-type]

    async def _receive(self) -> dict[str, object]:
        return {"type": "http.request", "body": self._body, "more_body": False}

    async def _send(self, message: dict[str, object]) -> None:
        self.chunks += message["type"] == "http.response.body"


async def served(words: int, turns: int) -> float:
    client = Client(words)
    runner = client.application.served.runners["bot"]
    await sessions(runner, turns)
    await client.run("warm")
    begun = time.process_time()
    for n in range(turns):
        await client.run(f"s{n}")
    assert client.chunks > 3 * turns, "the runs were refused"
    return time.process_time() - begun


async def bare(words: int, turns: int) -> float:
    runner = Runner(agent(words))
    await sessions(runner, turns)
    config = RunConfig(stream=True)
    async for _ in runner.run("hi", session_id="warm", config=config):
        pass
    begun = time.process_time()
    for n in range(turns):
        async for _ in runner.run("hi", session_id=f"s{n}", config=config):
            pass
    return time.process_time() - begun


async def sessions(runner: Runner, turns: int) -> None:
    for name in ("warm", *(f"s{n}" for n in range(turns))):
        await runner.store.create(SessionKey("bot", "user", name))


async def measured(
    words: int, turns: int, sides: tuple[Callable[[int, int], Awaitable[float]], ...]
) -> list[float]:
    rounds: list[list[float]] = [
        [await side(words, turns) for side in sides] for _ in range(ROUNDS)
    ]
    return [statistics.median(column) for column in zip(*rounds, strict=True)]


async def main() -> None:
    plain, over = await measured(0, TURNS, (bare, served))
    print(
        f"turn:  runner {plain / TURNS * 1e6:7.0f} us, served {over / TURNS * 1e6:7.0f} us", end=""
    )
    print(f", adds {(over - plain) / TURNS * 1e6:6.0f} us, ratio {over / plain:.2f}")
    turns = 10
    long_plain, long_over = await measured(WORDS, turns, (bare, served))
    # what a turn costs apart from its events is taken out on both sides
    events = turns * WORDS
    per = (long_plain - plain * turns / TURNS) / events
    per_served = (long_over - over * turns / TURNS) / events
    print(f"event: runner {per * 1e6:7.1f} us, served {per_served * 1e6:7.1f} us", end="")
    print(f", adds {(per_served - per) * 1e6:6.1f} us, ratio {per_served / per:.2f}")


if __name__ == "__main__":
    asyncio.run(main())
