"""What `weft proxy` takes: CPU of a call, of the first byte of a stream, and memory of many.

    python bench/proxy.py
    python bench/proxy.py calls        only the calls, in four dialects

A request of 100,000 tokens whose conversation has grown call by call, with marks for the cache that
move on where its provider has them, or that nobody has seen before; the first byte from the moment
that the provider's came to the moment that the client's is written; and 200 streams at once through
one process, whose memory is read at its peak. On a busy machine only the function calls count.
"""

import asyncio
import json
import random
import re
import resource
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import AsyncGenerator, Callable
from functools import partial
from pathlib import Path

import httpx2
import msgspec

sys.path.insert(0, str(Path(__file__).parents[1]))

from tests.compaction.talks import TALKS, Wire
from tests.support.linear import calls

from weft.compaction.compact import compact, forget
from weft.declare.words import policy_from
from weft.models.routing import find_target
from weft.server import proxy
from weft.server.proxy import Exchanges, PolicyRule, ProxySettings
from weft.server.proxy_records import CallLog
from weft.server.proxy_store import ProxyStore

STEPS, MORE, STREAMS = 110, 20, 200

MARK = {"type": "ephemeral"}

PATHS = {
    "openai-chat": "/v1/chat/completions",
    "openai-responses": "/v1/responses",
    "anthropic": "/v1/messages",
    "gemini": "/v1beta/models/gemini-2.5-flash:generateContent",
}

WORDS = ("alpha", "beta", "worker", "finished", "error", "path", "line", "value", "token")


def make_requests(dialect: str) -> list[bytes]:
    """The requests of a long run, each with one step more."""
    chance, talk = random.Random(1), TALKS[dialect]

    def text(length: int) -> str:
        return " ".join(f"{chance.choice(WORDS)}{chance.randrange(999)}" for _ in range(length))

    messages: list[Wire] = [talk.user("Fix it.")]
    requests: list[bytes] = []
    for step in range(STEPS + MORE):
        messages += talk.step(f"c{step}", "read", {"path": text(20)}, text(260))
        marked = [*messages[:-4], *map(_mark, messages[-4:])]
        requests.append(json.dumps(talk.with_messages(talk.head, marked)).encode())
    return requests


def _mark(message: Wire) -> Wire:
    """The message with a mark at its last part, if a user says it to Anthropic."""
    parts = message.get("content")
    if message.get("role") != "user" or not isinstance(parts, list):
        return message
    return {**message, "content": [*parts[:-1], {**parts[-1], "cache_control": MARK}]}


def measure_calls(spelled: str, dialect: str) -> None:
    """A call of the proxy, one of `weft.compact` alone, and parsing alone."""
    requests = make_requests(dialect)
    policy, model = policy_from(spelled), TALKS[dialect].head.get("model", "gemini-2.5-flash")
    exchanges = Exchanges(ProxySettings((PolicyRule(policy),)), CallLog(ProxyStore()))
    target = find_target(PATHS[dialect], "", {}, {})

    def prepare(raw: bytes) -> None:
        exchanges._prepare(raw, target, {})

    def shorten(raw: bytes) -> None:
        compact(raw, policy, dialect=dialect, model=model)

    parsing = statistics.median(cpu(msgspec.json.decode, raw) for raw in requests[STEPS:])
    whole, alone = (_grow(work, requests) for work in (prepare, shorten))
    cold = [_first(shorten, requests[-1]) for _ in range(3)]
    forget()
    for raw in requests[:STEPS]:
        shorten(raw)
    count = statistics.median_low(calls(partial(shorten, raw)) for raw in requests[STEPS:])
    tokens = compact(requests[-1], policy, dialect=dialect, model=model).tokens_before
    print(f"{spelled:24} {dialect:17} {tokens:>7,} tokens: {whole - parsing:5.2f} ms beyond parsing"
          f" ({parsing:.2f} ms), {alone - parsing:5.2f} ms without the proxy, {count:>6,} calls;"
          f" cold {min(cold):4.0f} ms")  # fmt: skip


def _grow(work: Callable[[bytes], None], requests: list[bytes]) -> float:
    """The milliseconds of CPU that the newest requests take, each after the one before it."""
    forget()
    taken = [cpu(work, raw) for raw in requests]
    return statistics.median(taken[STEPS:])


def _first(work: Callable[[bytes], None], raw: bytes) -> float:
    forget()
    return cpu(work, raw)


def cpu(work: Callable[[bytes], object], raw: bytes) -> float:
    """The milliseconds of CPU that it takes."""
    begun = time.process_time()
    work(raw)
    return 1000 * (time.process_time() - begun)


EVENT = b'data: {"id":"a","choices":[{"index":0,"delta":{"content":"word "}}]}\n\n'


async def answer(scope: dict[str, object], receive: object, send: object) -> None:
    """A provider that streams slowly, so that many streams are open at once."""
    if scope["type"] != "http":
        return
    begin = {"type": "http.response.start", "status": 200,
             "headers": [(b"content-type", b"text/event-stream")]}  # fmt: skip
    await send(begin)  # type: ignore[operator]
    for at in range(20):
        await send({"type": "http.response.body", "body": EVENT, "more_body": True})  # type: ignore[operator]
        await asyncio.sleep(0.5 if at else 0.0)
    end = b'data: {"id":"a","choices":[{"index":0,"delta":{},"finish_reason":"stop"}]}\n\n'
    await send({"type": "http.response.body", "body": end + b"data: [DONE]\n\n"})  # type: ignore[operator]


def serve() -> None:
    """The provider, in a process of its own."""
    import uvicorn

    uvicorn.run(answer, port=int(sys.argv[2]), log_level="critical")  # type: ignore[arg-type]


async def open_streams(url: str, count: int) -> int:
    """Read this many streams at once; how many ended well."""
    limits = httpx2.Limits(max_connections=count)
    messages = [{"role": "user", "content": "word " * 4000}]

    async def read(client: httpx2.AsyncClient, number: int) -> bool:
        body = {"model": "gpt-5", "stream": True, "user": str(number), "messages": messages}
        async with client.stream("POST", f"{url}/v1/chat/completions", json=body) as reply:
            text = b"".join([piece async for piece in reply.aiter_raw()])
        return text.endswith(b"[DONE]\n\n")

    async with httpx2.AsyncClient(timeout=120, limits=limits) as client:
        return sum(await asyncio.gather(*(read(client, number) for number in range(count))))


def measure_streams() -> None:
    """Memory of a process through which many streams go."""
    port = random.randrange(20_000, 60_000)
    provider = subprocess.Popen([sys.executable, __file__, "serve", str(port)])
    with tempfile.TemporaryDirectory() as folder:
        command = [sys.executable, "-m", "weft", "proxy", "--port", "0"]
        command += ["--upstream", f"openai=http://127.0.0.1:{port}/v1"]
        running = subprocess.Popen(
            command, cwd=folder, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, text=True
        )
        assert running.stdout is not None
        url = running.stdout.readline().partition("/weft/")[0]
        try:
            well = asyncio.run(open_streams(url, STREAMS))
            status = Path(f"/proc/{running.pid}/status").read_text()
            peak = int(re.findall(r"VmHWM:\s+(\d+)", status)[0]) / 1024
        finally:
            running.terminate()
            running.wait()
            provider.terminate()
            provider.wait()
    print(f"{well} of {STREAMS} streams at once, {peak:.0f} MB at the peak")


def measure_first_byte() -> None:
    """CPU from the first byte that came to the first that is written, on the loop's thread."""
    came: list[float] = []
    taken: list[float] = []
    pieces, send = proxy.reply_pieces, proxy.ClientRelay.send_piece

    async def noting(reply: httpx2.Response) -> AsyncGenerator[bytes, None]:
        first = True
        async for piece in pieces(reply):
            if first:
                came.append(time.thread_time())
                first = False
            yield piece

    async def sending(relay: proxy.ClientRelay, piece: bytes) -> None:
        await send(relay, piece)
        if len(taken) < len(came):
            taken.append(time.thread_time() - came[-1])

    proxy.reply_pieces, proxy.ClientRelay.send_piece = noting, sending  # type: ignore[assignment,method-assign]
    from tests.server.proxy.talks import ANTHROPIC
    from tests.server.proxy.upstream import proxying

    reply = ANTHROPIC.answer(ANTHROPIC.piece("text", "t", "Hi."), stream=True)
    reply.body = b"".join(reply.body).split(b"|")  # one piece
    with (
        proxying(lambda *_: reply, "C.default().compact()") as running,
        httpx2.Client(timeout=120) as client,
    ):
        for _ in range(40):
            client.post(running.url + ANTHROPIC.path, json=ANTHROPIC.request(stream=True))
    print(f"first byte: {1000 * statistics.median(taken):.2f} ms CPU, {len(taken)} streams")


if __name__ == "__main__":
    if sys.argv[1:2] == ["serve"]:
        serve()
    else:
        for spelled in ("C.default()", "C.auto(lossless=True)", "C.auto()"):
            for dialect in TALKS:
                measure_calls(spelled, dialect)
        if sys.argv[1:] == ["calls"]:
            raise SystemExit
        measure_first_byte()
        measure_streams()
        own = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024
        print(f"({own:.0f} MB here)")
