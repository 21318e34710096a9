"""What serving adds: CPU time of a turn and of a streamed event, over a Runner without a server.

    .venv/bin/python bench/serving.py

Both sides run the same scripted agent over the same kind of store, in one process and in turns, so
that a busy machine slows both. The client's own time is not counted: it speaks to the application
through plain ASGI calls, as uvicorn would, and does no parsing.
"""

import asyncio
import json
import statistics
import time
from collections.abc import Awaitable, Callable

from weft import Agent, RunConfig, Runner
from weft.server import Limits, app
from weft.testing import ScriptedModel, chunks

TURNS = 200
WORDS = 400
ROUNDS = 7
LIMITS = Limits(rate=1e9, burst=10**9)


def agent(words: int) -> Agent:
    answer = chunks(*[f"word{n} " for n in range(words)]) if words else "Hello."
    return Agent("bot", model=ScriptedModel([answer] * (TURNS + 2)))


class Client:
    """ASGI calls, with nothing around them."""

    def __init__(self, words: int) -> None:
        self.application = app(agent(words), limits=LIMITS, recover=0)
        self.chunks = 0

    async def post(self, path: str, body: dict[str, object]) -> None:
        data = json.dumps(body).encode()
        headers = [
            (b"host", b"127.0.0.1:8000"),
            (b"authorization", f"Bearer {self.application.token}".encode()),
            (b"content-type", b"application/json"),
            (b"accept", b"text/event-stream"),
            (b"content-length", str(len(data)).encode()),
        ]
        scope = {
            "type": "http", "method": "POST", "path": path, "raw_path": path.encode(),
            "query_string": b"", "root_path": "", "headers": headers, "http_version": "1.1",
            "scheme": "http", "server": ("127.0.0.1", 8000), "client": ("127.0.0.1", 9),
            "asgi": {"version": "3.0"},
        }  # fmt: skip
        sent = False

        async def receive() -> dict[str, object]:
            nonlocal sent
            if not sent:
                sent = True
                return {"type": "http.request", "body": data, "more_body": False}
            await asyncio.Event().wait()
            raise AssertionError

        async def send(message: dict[str, object]) -> None:
            self.chunks += message["type"] == "http.response.body"

        await self.application(scope, receive, send)  # type: ignore[arg-type]


async def served(words: int, turns: int) -> float:
    client = Client(words)
    await client.post("/api/apps/bot/sessions/warm/runs", {"message": "hi"})
    begun = time.process_time()
    for n in range(turns):
        await client.post(f"/api/apps/bot/sessions/s{n}/runs", {"message": "hi"})
    return time.process_time() - begun


async def bare(words: int, turns: int) -> float:
    runner = Runner(agent(words))
    config = RunConfig(stream=True)
    async for _ in runner.run("hi", session_id="warm", config=config):
        pass
    begun = time.process_time()
    for n in range(turns):
        async for _ in runner.run("hi", session_id=f"s{n}", config=config):
            pass
    return time.process_time() - begun


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
