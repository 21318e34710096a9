"""Clients that ask for much and do not read it: they cost little, and nobody else anything."""

import asyncio
import socket
import threading
from collections.abc import AsyncGenerator, AsyncIterator
from pathlib import Path

import pytest
from starlette.types import Message

from tests.server.live import Live, read_events, serving
from tests.server.test_refusals import ONE
from tests.support.build import scripted_agent
from weft import Content, Part, Runner
from weft.runtime.background import SLICE
from weft.server import app
from weft.server.http import guarded_protocol
from weft.server.queued import QueuedRun
from weft.server.stream import (
    KEEP_ALIVE,
    LARGEST_CHUNK,
    DeadlineWatch,
    EventStream,
    Frames,
    frame,
)
from weft.session import Event, MemoryStore, SessionKey
from weft.turns import QueuedTurn, open_turns

KEY = SessionKey("bot", "user", "s")


def events_of(count: int, size: int) -> list[Event]:
    return [
        Event(
            author="bot",
            invocation_id="run",
            content=Content(parts=(Part(text=f"{at} ".ljust(size, "x")),), role="model"),
            sequence=at + 1,
        )
        for at in range(count)
    ]


class CountingStore(MemoryStore):
    """A store that knows how many events were read from it."""

    taken = 0

    async def events(
        self, key: SessionKey, *, after: int = 0, limit: int | None = None
    ) -> list[Event] | None:
        events = await super().events(key, after=after, limit=limit)
        self.taken += len(events or ())
        return events


async def counting_runner(count: int) -> tuple[CountingStore, Runner]:
    store = CountingStore()
    session = await store.create(KEY)
    await store.append(session, *events_of(count, 10))
    return store, Runner(scripted_agent(), store=store)


async def test_no_more_is_encoded_than_the_client_takes() -> None:
    events = events_of(100, 20_000)

    async def batches() -> AsyncGenerator[list[Event], None]:
        yield events

    chunks = [chunk async for chunk in Frames(batches())]
    largest = len(frame(events[-1]))
    assert all(len(chunk) <= LARGEST_CHUNK + largest for chunk in chunks)
    assert b"".join(chunks[:-1]) == b"".join(map(frame, events))
    assert chunks[-1] == b'event: end\ndata: {"sequence":100}\n\n'


async def test_a_long_log_is_not_read_before_it_is_wanted() -> None:
    store, runner = await counting_runner(1_000)
    batches = runner.batches(session_id="s")
    seen = [one.sequence for one in await anext(batches)]
    assert store.taken == len(seen) <= 10
    largest = 0
    async for batch in batches:
        seen += [one.sequence for one in batch]
        largest = max(largest, len(batch))
    assert seen == [*range(1, 1_001)]
    assert largest <= SLICE


async def test_a_run_of_a_worker_is_not_read_far_ahead(tmp_path: Path) -> None:
    store, runner = await counting_runner(2_000)
    turns = open_turns(f"sqlite:///{tmp_path}/queue.db")
    turn = QueuedTurn(key=KEY, request_id="run", message=Content(parts=(Part(text="hi"),)))
    run = QueuedRun(runner, turns, turn, "run", after=0, repeated=False)
    events = run.events()
    try:
        seen = [(await anext(events)).sequence]
        for _ in range(10_000):  # memory answers at once: the whole log could be read
            await asyncio.sleep(0)
        assert store.taken < 1_000
        seen += [event.sequence async for event in events]
    finally:
        await events.aclose()
        await turns.close()
    assert seen == [*range(1, 2_001)]


async def nothing() -> Message:
    return await asyncio.Future()


class Client:
    """Who takes so many of the messages that are sent."""

    def __init__(self, takes: int) -> None:
        self.taken: list[bytes] = []
        self.takes = asyncio.Semaphore(takes)

    async def send(self, message: Message) -> None:
        await self.takes.acquire()
        self.taken.append(message.get("body", b""))


async def settled() -> None:
    for _ in range(20):
        await asyncio.sleep(0)


async def streaming(
    chunks: AsyncIterator[bytes], client: Client
) -> tuple[EventStream, asyncio.Task[None]]:
    """A stream to the client, as far as it takes it; it is stalled after a minute."""
    stream = EventStream(
        chunks,  # type: ignore[arg-type]
        watch=DeadlineWatch(),
        stalled=60,
        closed=lambda: None,
    )
    task = asyncio.create_task(stream({}, nothing, client.send))
    await settled()
    return stream, task


async def test_a_silence_of_the_server_is_not_counted_against_the_client() -> None:
    client, more = Client(takes=100), asyncio.Event()

    async def chunks() -> AsyncIterator[bytes]:
        yield b"first"
        await more.wait()
        yield b"second"

    stream, task = await streaming(chunks(), client)
    for now in range(1_000, 1_300, int(KEEP_ALIVE)):  # five minutes in which the model thinks
        stream.look(now)
    await settled()
    while not client.takes.locked():
        await client.takes.acquire()
    more.set()
    await settled()
    stream.look(1_300)  # the second is on its way
    await settled()
    assert not task.done()
    for _ in range(3):
        client.takes.release()
    await task
    assert b"second" in client.taken


async def test_a_client_that_reads_slowly_gets_a_large_event_whole() -> None:
    client = Client(takes=1)
    large = bytes(range(256)) * 4_000

    async def chunks() -> AsyncIterator[bytes]:
        yield large

    stream, task = await streaming(chunks(), client)
    minutes = 0
    while not task.done():  # it takes a little in each minute
        minutes += 1
        stream.look(60.0 * minutes)
        client.takes.release()
        await settled()
    await task
    assert b"".join(client.taken) == large
    assert minutes > 10, "all of it was sent at once"


@pytest.mark.parametrize("accept", ["text/event-stream", "application/json"])
def test_who_never_reads_is_cut_off_also_where_the_answer_is_complete(accept: str) -> None:
    lost = threading.Event()
    protocol = guarded_protocol()

    def connection_lost(connection: asyncio.Protocol, error: Exception | None) -> None:
        protocol.connection_lost(connection, error)
        if getattr(connection, "_pauses", 0):
            lost.set()

    hasty = type("Hasty", (protocol,), {"unread_seconds": 0.3, "connection_lost": connection_lost})
    store = MemoryStore()
    application = app(Runner(scripted_agent(), store=store))

    async def fill() -> None:
        session = await store.create(KEY)
        await store.append(session, *events_of(900, 30_000))

    asyncio.run(fill())
    with serving(application, http=hasty) as live, live.client() as client:
        with lazy_client(live, f"{ONE}/events", accept):
            assert lost.wait(120), "the connection is held for ever"
        # and who reads is not
        headers = {"accept": "text/event-stream"}
        with client.stream("GET", f"{ONE}/events?after=890", headers=headers) as answer:
            ids = [one["id"] for one in read_events(answer.iter_lines()) if "id" in one]
        assert ids == [str(one) for one in range(891, 901)]


def lazy_client(live: Live, path: str, accept: str) -> socket.socket:
    """A connection that asks, and reads nothing."""
    lazy = socket.socket()
    lazy.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 4_096)
    lazy.connect(("127.0.0.1", live.port))
    head = (
        f"GET {path} HTTP/1.1\r\nhost: 127.0.0.1\r\nauthorization: Bearer {live.token}\r\n"
        f"accept: {accept}\r\n\r\n"
    )
    lazy.sendall(head.encode())
    return lazy
