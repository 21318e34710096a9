"""Models against a server that misbehaves: what was sent and when, and how it ended.

    python bench/misbehave.py            all cases
    python bench/misbehave.py reset      those whose name holds the word

Nothing is simulated: requests go over sockets, pauses are waited for. Times are seconds after the
first request. Exit 1 where a case ended otherwise than it should.
"""

import asyncio
import logging
import sys
import time
from collections.abc import Callable
from pathlib import Path
from typing import NamedTuple

from rich.console import Console
from rich.table import Table

sys.path.insert(0, str(Path(__file__).parents[1]))

from tests.models.answers import events, whole
from tests.models.server import Server, Turn, page, says, streams

import weft
from weft.models import Anthropic, Breaker, FallbackModel, Gemini, Model, OpenAI, Retry, Timeouts

FINE = says(whole("openai-chat"))
DOWN = says({"error": {"message": "down for a moment"}}, 503)
CHAT = events("openai-chat")
QUICK = Retry(first=0.1, most=1.0)


class Case(NamedTuple):
    """What a server does, who asks, how often, and how each of the asks should end."""

    name: str
    script: tuple[Turn, ...]
    ends: tuple[str, ...]
    make: Callable[[str], Model] | None = None
    streamed: bool = False
    pause: float = 0.0
    """Seconds between two asks."""


def chat(url: str, **more: object) -> Model:
    return OpenAI("x", base_url=url, api_key="k", **{"retries": QUICK, **more})  # type: ignore[arg-type]


def with_breaker(url: str) -> Model:
    return chat(url, retries=0, breaker=Breaker(failures=2, pause=0.5))


def with_fallback(url: str) -> Model:
    first = OpenAI("x", base_url=f"{url}/first", api_key="k", retries=1)
    second = Anthropic("y", base_url=f"{url}/second", api_key="k", retries=1)
    return FallbackModel(first, second, Gemini("z", base_url=f"{url}/third", api_key="k"))


CASES = (
    Case("429, Retry-After: 1", (says({}, 429, retry_after="1"), FINE), ("ok",)),
    Case("429, retry-after-ms: 250", (says({}, 429, retry_after_ms="250"), FINE), ("ok",)),
    Case("429, Retry-After: 3600", (says({}, 429, retry_after="3600"), FINE), ("rate_limited",)),
    Case("503 twice", (DOWN, DOWN, FINE), ("ok",)),
    Case("503 for good", (DOWN,), ("overloaded",)),
    Case("reset twice", (Turn(reset=True), Turn(reset=True), FINE), ("ok",)),
    Case("slow headers", (Turn(wait=9), FINE), ("ok",),
         lambda url: chat(url, timeout=Timeouts(first_byte=0.3))),
    Case("silence in a stream", (streams(CHAT[:1], hold=True), FINE), ("timeout", "ok"),
         lambda url: chat(url, timeout=Timeouts(read=0.3)), streamed=True),
    Case("garbage", (Turn(body=b"\x00\x01 garbage"), FINE), ("bad_response", "ok")),
    Case("a web page", (page(), FINE), ("bad_response", "ok")),
    Case("a web page, 502", (page(502), FINE), ("ok",)),
    Case("nothing at all", (Turn(), FINE), ("bad_response", "ok")),
    Case("an error in a 200", (says({"error": {"type": "server_error", "message": "m"}}), FINE),
         ("ok",)),
    Case("wrong key", (says({"error": {"message": "no"}}, 401), FINE), ("auth", "ok")),
    Case("cut before the first piece", (streams([], ends=False), streams(CHAT)), ("ok",),
         streamed=True),
    Case("cut after a piece", (streams(CHAT[:1], ends=False), streams(CHAT)), ("cut_stream", "ok"),
         streamed=True),
    Case("cut in mid-JSON, after a piece", (streams([CHAT[0], CHAT[1][:20]]), streams(CHAT)),
         ("cut_stream", "ok"), streamed=True),
    Case("cut after a piece, asked to retry", (streams(CHAT[:1], ends=False), streams(CHAT)),
         ("ok",), lambda url: chat(url, retries=Retry(first=0.1, after_partial=True)),
         streamed=True),
    Case("breaker: 2 failures, 0.5 s", (DOWN, DOWN, DOWN, FINE),
         ("overloaded", "overloaded", "unavailable", "overloaded", "unavailable", "ok", "ok"),
         with_breaker, pause=0.26),
    Case("fallback to another dialect", (DOWN, DOWN, page(), says(whole("gemini"))), ("ok",),
         with_fallback),
)  # fmt: skip


class Ended(NamedTuple):
    """How one ask ended, and how long it took."""

    code: str
    seconds: float


async def run(case: Case, server: Server) -> list[Ended]:
    model = case.make(server.url) if case.make is not None else chat(server.url)
    agent = weft.Agent("bot", model=model)
    config = weft.RunConfig(stream=case.streamed)
    session = None
    ended: list[Ended] = []
    for _ in case.ends:
        began = time.monotonic()
        result = await weft.run(agent, "hi", session=session, config=config)
        session = result.session
        code = result.events[-1].error_code or "ok"
        ended.append(Ended(code, time.monotonic() - began))
        await asyncio.sleep(case.pause)
    return ended


def main(wanted: list[str]) -> int:
    """Run the cases and print a row each."""
    logging.getLogger("weft").setLevel(logging.CRITICAL)
    cases = [case for case in CASES if all(word in case.name for word in wanted)]
    if not cases:
        print("error: there is no such case\n  hint: write one of: ", end="")
        print("; ".join(case.name for case in CASES))
        return 2
    table = Table("what the server does", "sent at", "ended", "in", title="a misbehaving server")
    wrong = 0
    for case in cases:
        with Server(*case.script) as server:
            ended = asyncio.run(run(case, server))
        first = server.received[0].at
        right = tuple(each.code for each in ended) == case.ends
        wrong += not right
        table.add_row(
            case.name,
            " ".join(f"{received.at - first:.2f}" for received in server.received),
            ", ".join(each.code for each in ended) + ("" if right else f"  WANTED {case.ends}"),
            " ".join(f"{each.seconds:.2f}" for each in ended),
        )
    Console(width=120).print(table)
    print(
        f"{wrong} case(s) ended otherwise" if wrong else f"all {len(cases)} cases ended as wanted"
    )
    return 1 if wrong else 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
