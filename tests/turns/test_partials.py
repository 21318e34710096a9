"""Partial events reach who follows a session in another process, in order, and cost nobody else."""

import asyncio
import json
from collections.abc import AsyncGenerator, AsyncIterator, Callable, Mapping, Sequence
from contextlib import suppress
from pathlib import Path
from uuid import uuid4

import pytest

from tests.server.live import read_events
from tests.turns.test_serving import server
from weft import Agent, RunConfig, Runner, tool
from weft.content import Content, Part, to_content
from weft.errors import StoreError
from weft.ir import ModelResponse, Prompt
from weft.models.scripted import chunks
from weft.session import Event, SessionKey
from weft.stores import open_store
from weft.stores.postgres_processes import News
from weft.stores.relay import (
    Relay,
    RelayingStore,
    StreamedPiece,
    number_of,
    pack_letters,
    read_letters,
    write_letter,
)
from weft.stores.sqlite_relay import live_file
from weft.testing import ScriptedModel, call
from weft.turns import QueuedTurn, TurnRunner, open_turns
from weft.values import Json

STREAM = RunConfig(stream=True)


@pytest.fixture(params=("sqlite", "postgres"))
def address(request: pytest.FixtureRequest, tmp_path: Path) -> str:
    """Where the store is."""
    if request.param == "sqlite":
        return f"sqlite:///{tmp_path}/weft.db"
    return str(request.getfixturevalue("postgres_url"))


@pytest.fixture
def app() -> str:
    """An app that no other test knows."""
    return f"app_{uuid4().hex}"


@pytest.fixture(autouse=True)
def no_limits(monkeypatch: pytest.MonkeyPatch) -> None:
    """Wait for a slow database: where a limit is over, pieces are left out."""
    for limit in ("_LISTEN_LIMIT", "_FLUSH_LIMIT"):
        monkeypatch.setattr(f"weft.stores.relay.{limit}", 20.0)


class GatedModel(ScriptedModel):
    """A model that waits before each piece but the first, until it is let go on."""

    def __init__(self, script: list[object]) -> None:
        super().__init__(script)
        self.gate = asyncio.Event()
        self.said = asyncio.Event()

    async def generate(
        self, prompt: Prompt, wire: dict[str, Json], *, stream: bool
    ) -> AsyncIterator[ModelResponse]:
        """The pieces, each behind the gate."""
        first = True
        async for response in super().generate(prompt, wire, stream=stream):
            if not first:
                await self.gate.wait()
            first = False
            yield response
            self.said.set()


async def read_until(
    events: AsyncGenerator[Event, None], is_last: Callable[[Event], bool]
) -> list[Event]:
    """The events up to one."""
    seen: list[Event] = []
    async with asyncio.timeout(60):
        async for event in events:
            seen.append(event)
            if is_last(event):
                break
    await events.aclose()
    return seen


def says(text: str) -> Callable[[Event], bool]:
    """Whether an event is the complete one with this text."""
    return lambda event: not event.partial and event.text == text


def shown(event: Event) -> str:
    """An event in a word: pieces with a dash behind them."""
    return f"{event.text}-" if event.partial else event.text or "*"


async def test_who_follows_from_another_process_gets_every_piece_in_its_place(
    address: str, app: str
) -> None:
    @tool
    def look() -> str:
        """Look."""
        return "seen"

    script = [call("look"), chunks("It ", "is ", "there."), chunks("Bye ", "now.")]
    working = Runner(
        Agent("bot", model=ScriptedModel(script), tools=[look]), app_name=app, store=address
    )
    watching = Runner(Agent("bot", model=ScriptedModel([])), app_name=app, store=address)
    async with working, watching:
        await working.store.create(SessionKey(app, "user", "s"))
        reader = await watching.join(session_id="s")
        events = watching.events(session_id="s", follow=True, reader=reader)
        reading = asyncio.create_task(read_until(events, says("Bye now.")))
        for message in ("hi", "bye"):
            running = working.run(message, session_id="s", config=STREAM)
            running.invocation.control.follower = reader.name
            await running
        seen = await reading
        stored = await working.store.events(SessionKey(app, "user", "s")) or []
    words = [shown(event) for event in seen]
    assert words == [
        *("hi", "*", "*", "It -", "is -", "there.-", "It is there."),
        *("bye", "Bye -", "now.-", "Bye now."),
    ]
    assert [e.sequence for e in seen if not e.partial] == [*range(1, len(stored) + 1)]
    assert not any(event.partial for event in stored), "they are never stored"


async def test_who_comes_in_the_middle_gets_what_was_said_and_the_rest(
    address: str, app: str
) -> None:
    model = GatedModel([chunks("Once ", "upon ", "a time.")])
    working = Runner(Agent("bot", model=model), app_name=app, store=address)
    watching = Runner(Agent("bot", model=ScriptedModel([])), app_name=app, store=address)
    async with working, watching:
        assert isinstance(working.store, RelayingStore)
        async with asyncio.timeout(120):  # a busy server may be too slow for it at first
            while not await working.store.relay.watch():
                pass
        run = await working.start("tell", session_id="s", config=STREAM)
        await model.said.wait()
        events = watching.events(session_id="s", follow=True)
        async with asyncio.timeout(120):
            first = [await anext(events), await anext(events)]
        assert [shown(event) for event in first] == ["tell", "Once -"]
        model.gate.set()
        rest = await read_until(events, says("Once upon a time."))
        await run
    assert [shown(event) for event in rest] == ["upon -", "a time.-", "Once upon a time."]


async def test_nobody_is_sent_anything_where_nobody_follows(
    address: str, app: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    runner = Runner(
        Agent("bot", model=ScriptedModel([chunks("a ", "b ", "c")])), app_name=app, store=address
    )
    async with runner:
        store = runner.store
        assert isinstance(store, RelayingStore)
        sent: list[object] = []

        async def note(texts: object) -> None:
            sent.append(texts)

        monkeypatch.setattr(store.relay._carrier, "send", note)  # pyright: ignore[reportPrivateUsage]
        await runner.run("hi", session_id="s", config=STREAM)
        await store.relay.flush()
    assert sent == []
    if address.startswith("sqlite"):
        assert not live_file(Path(address.removeprefix("sqlite:///"))).exists()


async def test_a_lost_piece_ends_the_pieces_of_its_answer_and_no_other(
    address: str, app: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    script = [chunks("one ", "two ", "three"), chunks("four ", "five")]
    working = Runner(Agent("bot", model=ScriptedModel(script)), app_name=app, store=address)
    watching = Runner(Agent("bot", model=ScriptedModel([])), app_name=app, store=address)
    async with working, watching:
        store = working.store
        assert isinstance(store, RelayingStore)
        await store.create(SessionKey(app, "user", "s"))
        reader = await watching.join(session_id="s")
        events = watching.events(session_id="s", follow=True, reader=reader)
        reading = asyncio.create_task(read_until(events, says("four five")))
        post = store.relay._post  # pyright: ignore[reportPrivateUsage]

        def lose(names: object, letter: bytes) -> None:
            if b"two" not in letter:
                post(names, letter)  # type: ignore[arg-type]

        monkeypatch.setattr(store.relay, "_post", lose)
        for message in ("a", "b"):
            running = working.run(message, session_id="s", config=STREAM)
            running.invocation.control.follower = reader.name
            await running
        seen = await reading
    assert [shown(event) for event in seen] == [
        *("a", "one -", "one two three"),
        *("b", "four -", "five-", "four five"),
    ]


async def test_what_a_killed_process_streamed_is_taken_back(address: str, app: str) -> None:
    """The next process asks the model again: what the first one said will never be complete."""
    dying = GatedModel([chunks("Hello ", "from the dead")])
    first = Runner(Agent("bot", model=dying), app_name=app, store=address)
    second = Runner(
        Agent("bot", model=ScriptedModel([chunks("Hello ", "again.")])), app_name=app, store=address
    )
    watching = Runner(Agent("bot", model=ScriptedModel([])), app_name=app, store=address)
    async with watching, second, first:
        await first.store.create(SessionKey(app, "user", "s"))
        reader = await watching.join(session_id="s")
        events = watching.events(session_id="s", follow=True, reader=reader)
        running = first.run("hi", session_id="s", config=STREAM)
        running.invocation.control.follower = reader.name
        dead = asyncio.ensure_future(_awaited(running))
        seen = await _read(events, 2)
        running.invocation.control.hand_over()  # to the log, the process has died
        dead.cancel()
        with suppress(asyncio.CancelledError):
            await dead
        going_on = second.resume(session_id="s", config=STREAM)
        going_on.invocation.control.follower = reader.name
        await going_on
        seen += await read_until(events, says("Hello again."))
    assert [shown(event) for event in seen] == [
        *("hi", "Hello -"),
        *("-", "Hello -", "again.-", "Hello again."),
    ]
    void = seen[2]
    assert void.void
    assert void.content is None
    assert void.id == seen[1].id


async def _awaited(running: object) -> object:
    return await running  # type: ignore[misc]


async def _read(events: AsyncGenerator[Event, None], count: int) -> list[Event]:
    async with asyncio.timeout(60):
        return [await anext(events) for _ in range(count)]


async def test_a_turn_of_a_worker_streams_to_who_put_it(address: str, app: str) -> None:
    """As a server and a worker do it: the turn says who follows."""
    model = ScriptedModel([chunks("Good ", "morning."), "Plain."])
    working = Runner(Agent("bot", model=model), app_name=app, store=address)
    watching = Runner(Agent("bot", model=ScriptedModel([])), app_name=app, store=address)
    async with working, watching:
        turns = open_turns(working.store)
        key = SessionKey(app, "user", "s")
        await watching.store.create(key)
        reader = await watching.join(session_id="s")
        events = watching.events(session_id="s", follow=True, reader=reader)
        await turns.put(
            QueuedTurn(
                key=key,
                request_id="r1",
                message=to_content("hi"),
                stream=True,
                follower=reader.name,
            )
        )
        await turns.put(QueuedTurn(key=key, request_id="r2", message=to_content("again")))
        stop = asyncio.Event()
        work = asyncio.create_task(
            turns.work(
                TurnRunner({app: working}, turns), apps=[app], worker="w", slots=1, stop=stop
            )
        )
        seen = await read_until(events, says("Plain."))
        stop.set()
        await work
        await turns.close()
    assert [shown(event) for event in seen] == [
        *("hi", "Good -", "morning.-", "Good morning."),
        *("again", "Plain."),
    ], "a turn that nobody wants streamed is not"


@pytest.mark.parametrize("text", ["short", "ä" * 9_001, "🙂" * 5_003, "x" * 30_000])
def test_a_letter_of_any_length_arrives(text: str) -> None:
    event = Event(author="bot", content=to_content(text), partial=True, id="e")
    letters = [write_letter(7, StreamedPiece(event, place, 3)) for place in range(5)]
    texts = pack_letters(letters, 7_900)
    assert all(len(one.encode()) <= 7_900 for one in texts)
    read: list[tuple[int, StreamedPiece]] = []
    begun = ""
    for one in texts:
        if one[0] in "+.":
            begun += one[1:]
            if one[0] == ".":
                read += read_letters(begun)
                begun = ""
        else:
            read += read_letters(one)
    assert [(number, piece.place, piece.after) for number, piece in read] == [
        (7, place, 3) for place in range(5)
    ]
    assert all(piece.event.text == text for _, piece in read)
    assert read_letters("[[1,") == [], "what is broken is no piece"


async def test_a_long_piece_goes_through_the_database(address: str, app: str) -> None:
    words = ("ö" * 9_000, " end")
    working = Runner(
        Agent("bot", model=ScriptedModel([chunks(*words)])), app_name=app, store=address
    )
    watching = Runner(Agent("bot", model=ScriptedModel([])), app_name=app, store=address)
    async with working, watching:
        await working.store.create(SessionKey(app, "user", "s"))
        reader = await watching.join(session_id="s")
        events = watching.events(session_id="s", follow=True, reader=reader)
        # Pieces travel by themselves: who begins to read behind the answer may get it alone.
        reading = asyncio.create_task(read_until(events, says("".join(words))))
        running = working.run("hi", session_id="s", config=STREAM)
        running.invocation.control.follower = reader.name
        await running
        seen = await reading
    assert [event.text for event in seen if event.partial] == [*words]


async def test_who_follows_is_told_of_growth_and_of_pieces_by_one_connection(
    postgres_url: str, app: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """What is sent while another connection takes over is lost."""
    rounds: list[object] = []
    listen = News._listen  # pyright: ignore[reportPrivateUsage]

    async def count(news: News, server: object, hears: asyncio.Event) -> None:
        rounds.append(hears)
        await listen(news, server, hears)  # type: ignore[arg-type]

    monkeypatch.setattr(News, "_listen", count)
    store, key = open_store(postgres_url), SessionKey(app, "user", "s")
    assert isinstance(store, RelayingStore)
    taken: list[StreamedPiece] = []
    await store.create(key)
    store.relay.follow(key, taken.append)
    async with asyncio.timeout(10):
        await store.relay.catch_up()  # nobody listens yet: there is no mark to wait for
    await store.relay.listening()
    assert len(rounds) == 1
    await store.changed([key], seconds=0)
    piece = StreamedPiece(Event(author="bot", content=to_content("so"), partial=True), 0, 1)
    run = store.relay.begin(key, list, store.relay.name)
    assert run is not None
    run.send(piece)
    await run.flush()
    await store.relay.catch_up()
    assert [one.event.text for one in taken] == ["so"]
    assert len(rounds) == 1
    await store.close()


class LateCarrier:
    """A database that is away when it is first asked who follows."""

    name, longest, looks = "me", 8_000, False

    def __init__(self) -> None:
        self.asked = 0

    async def listen(self, relay: Relay, *, follows: bool = False, runs: bool = False) -> None:
        self.asked += 1
        if self.asked == 1:
            raise StoreError("the database is away", where="test")
        relay.note_followers("you", [number_of(KEY)])

    async def send(self, texts: Sequence[tuple[str, str]]) -> None: ...
    async def announce(self, joined: Sequence[int], departed: Sequence[int]) -> None: ...
    async def catch_up(self, relay: Relay) -> None: ...
    async def close(self) -> None: ...

    def followers(self, numbers: Sequence[int]) -> dict[str, list[int]]:
        return {}


KEY = SessionKey("app", "user", "s")


async def test_a_run_asks_again_who_follows_where_the_database_was_away(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr("weft.stores.relay._WATCH_AFTER", 0.0)
    monkeypatch.setattr("weft.stores.relay._ANNOUNCE_EVERY", 0.0)
    carrier = LateCarrier()
    relay = Relay(carrier)
    piece = StreamedPiece(Event(author="bot", content=Content(parts=(Part(text="so"),))), 0, 1)
    sent: list[StreamedPiece] = []

    def backlog() -> list[StreamedPiece]:
        sent.append(piece)
        return [piece]

    run = relay.begin(KEY, backlog, None)
    assert run is not None
    for asked in (1, 2, 2):
        run.send(piece)
        await asyncio.sleep(0.01)
        assert carrier.asked == asked
    assert sent == [piece], "who follows got what was said before"
    assert await relay.watch()
    await relay.close()


def test_a_server_with_a_queue_streams_what_its_workers_say(tmp_path: Path) -> None:
    store = f"sqlite:///{tmp_path}/weft.db"
    options = ("--store", store, "--workers", "1", "--grace", "5")
    with server(*options, target="tests.turns.teller:teller") as (_, client):
        with client.stream(
            "POST",
            "/api/apps/teller/sessions/s/runs",
            json={"message": "tell", "create": True},
            headers={"accept": "text/event-stream"},
        ) as answer:
            assert answer.status_code == 200
            frames = [*read_events(answer.iter_lines())]
        events: list[Mapping[str, object]] = [json.loads(one["data"]) for one in frames]
        pieces = [one for one in events if one.get("partial")]
        texts = [one["content"]["parts"][0]["text"] for one in pieces]  # type: ignore[index]
        assert "".join(texts) == "Once upon a time there was a loom."
        assert len(texts) > 1
        assert [frame["id"] for frame in frames if "id" in frame] == ["1", "2"]
        stored = client.get("/api/apps/teller/sessions/s/events").json()["events"]
        assert not any(one.get("partial") for one in stored)
        # the client of OpenAI too
        with client.stream(
            "POST",
            "/v1/chat/completions",
            json={
                "model": "teller",
                "stream": True,
                "messages": [{"role": "user", "content": "tell"}],
            },
        ) as answer:
            assert answer.status_code == 200, answer.read()
            deltas = [
                json.loads(one["data"])["choices"][0]["delta"].get("content")
                for one in read_events(answer.iter_lines())
                if one["data"] != "[DONE]"
            ]
        words = [delta for delta in deltas if delta]
        assert "".join(words) == "Once upon a time there was a loom."
        assert len(words) > 1
