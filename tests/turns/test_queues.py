"""Queues whose rows have owners: put once, taken in order, settled, handed on and listed."""

import asyncio
import sqlite3
import time

import msgspec
import psycopg
import pytest

from weft import Agent, Event, Runner
from weft.content import to_content
from weft.errors import StoreError, UsageError
from weft.session import SessionKey, Store
from weft.testing import ScriptedModel
from weft.turns import QueuedTurn, TurnEnd, TurnRunner, open_turns
from weft.turns.inbox import InboxTurns
from weft.turns.opening import put_message
from weft.turns.procrastinate_queue import ProcrastinateTurns, queue_of
from weft.turns.running import TurnSource
from weft.turns.turn import (
    ClientTool,
    UnreadableTurn,
    decode_turn,
    encode_turn,
    mark_retried,
    seconds_of,
)

OwnedTurns = InboxTurns | ProcrastinateTurns


def turn(app: str, session: str, request: str, text: str = "hi") -> QueuedTurn:
    """A turn of a user of the app."""
    return QueuedTurn(
        key=SessionKey(app, "ada", session), request_id=request, message=to_content(text)
    )


async def take(source: TurnSource) -> list[str]:
    """The ids of all that a worker is given now."""
    ids: list[str] = []
    while taken := await source.take(10):
        ids += [one.id for one in taken if one.turn is not None]
    return ids


async def take_requests(source: TurnSource) -> list[str]:
    """The requests that a worker is given now."""
    requests: list[str] = []
    while taken := await source.take(10):
        requests += [f"{one.turn.key.id}/{one.turn.request_id}" for one in taken if one.turn]
    return requests


async def until_done(turns: OwnedTurns, app: str, count: int) -> None:
    """Wait until so many turns are done."""
    async with asyncio.timeout(60):
        while (await turns.counts()).get((app, "done"), 0) < count:  # noqa: ASYNC110
            await asyncio.sleep(0.02)


async def test_the_same_request_is_put_once_also_when_it_is_done(
    turns: OwnedTurns, app: str
) -> None:
    source = turns.source(apps=[app], worker="w1")
    assert await turns.put(turn(app, "s", "r1"))
    assert not await turns.put(turn(app, "s", "r1"))
    (id,) = await take(source)
    assert not await turns.put(turn(app, "s", "r1"))
    assert await source.settle(id, TurnEnd("done"))
    assert not await turns.put(turn(app, "s", "r1"))
    assert await turns.put(turn(app, "other", "r1"))
    assert await turns.put(turn(app, "later", "r1"), delay=60)
    assert not await turns.put(turn(app, "later", "r1"))


async def test_turns_of_a_session_are_taken_one_at_a_time_in_order(
    turns: OwnedTurns, app: str
) -> None:
    one, two = (turns.source(apps=[app], worker=name) for name in ("w1", "w2"))
    await turns.put(turn(app, "s", "r1"))
    await turns.put(turn(app, "s", "r2"), priority=9)
    await turns.put(turn(app, "s", "r3"))
    await turns.put(turn(app, "t", "r1"), priority=5)
    assert await take_requests(one) == ["t/r1", "s/r1"]
    assert await take(two) == []
    first = await turns.find(SessionKey(app, "ada", "s"), "r1")
    assert first is not None
    assert (first.status, first.worker) == ("running", "w1")
    assert await one.settle(first.turn.id, TurnEnd("again", "it failed", after=60))
    assert await take(two) == [], "the session waits for the one that is tried again"
    info = await turns.find(SessionKey(app, "ada", "s"), "r1")
    assert info is not None
    assert (info.status, info.turn.attempts, info.reason) == ("waiting", 1, "it failed")
    assert info.due is not None
    assert await turns.cancel(info.turn.id)
    assert await take_requests(two) == ["s/r2"]


async def test_a_turn_that_is_tried_again_says_how_often_it_failed(
    turns: OwnedTurns, app: str
) -> None:
    source = turns.source(apps=[app], worker="w1")
    await turns.put(turn(app, "s", "r1"))
    for attempts in range(3):
        (taken,) = await source.take(5)
        assert taken.turn is not None
        assert taken.turn.attempts == attempts
        await source.settle(taken.id, TurnEnd("again", "it failed"))
    (taken,) = await source.take(5)
    await source.settle(taken.id, TurnEnd("released"))
    (taken,) = await source.take(5)
    assert taken.turn is not None
    assert taken.turn.attempts == 3, "to be given back is no failure"


async def test_a_delayed_turn_lets_others_pass_and_then_has_its_place(
    turns: OwnedTurns, app: str
) -> None:
    for delay in (0.3, 3.0, 30.0):  # with more time where the machine was too slow
        own, begun = f"{app}-{delay:g}", time.monotonic()
        source = turns.source(apps=[own], worker="w1")
        await turns.put(turn(own, "s", "late"), delay=delay)
        await turns.put(turn(own, "s", "now"))
        (id,) = await take(source)
        if time.monotonic() - begun < delay:
            break
    assert (await turns.list(id=id))[0].turn.request_id == "now"
    await asyncio.sleep(delay + 0.3)
    assert await take(source) == []
    await source.settle(id, TurnEnd("done"))
    assert await take_requests(source) == ["s/late"]


async def test_a_turn_is_handed_on_and_fails_after_three_kills(turns: OwnedTurns, app: str) -> None:
    await turns.put(turn(app, "s", "poison"))

    async def nobody() -> frozenset[str]:
        return frozenset()

    async def all_of_us() -> frozenset[str]:
        return frozenset(("w1", "w2", "w3"))

    await turns.recover(nobody)  # what other tests left in the database
    for worker in ("w1", "w2", "w3"):
        source = turns.source(apps=[app], worker=worker)
        (id,) = await take(source)
        assert await turns.recover(all_of_us) == 0
        assert await turns.recover(nobody) == 1
        assert not await source.settle(id, TurnEnd("done")), "it is not the dead one's"
    source = turns.source(apps=[app], worker="w4")
    assert await take(source) == []
    (info,) = await turns.list(app_name=app, status="failed")
    assert (info.kills, info.reason) == (3, "3 workers died while they ran it")
    assert not await turns.retry("0")
    assert await turns.retry(info.turn.id)
    assert await take_requests(source) == ["s/poison"]


async def make_suspects(turns: OwnedTurns, app: str, *sessions: str) -> None:
    """Put a turn into each session; two workers die while they have all of them."""
    for session in sessions:
        await turns.put(turn(app, session, "r"))

    async def nobody() -> frozenset[str]:
        return frozenset()

    await turns.recover(nobody)  # what other tests left in the database
    for worker in ("w1", "w2"):
        assert len(await take(turns.source(apps=[app], worker=worker))) == len(sessions)
        await turns.recover(nobody)


async def test_a_death_is_counted_for_a_suspect_only_where_it_was_alone(
    turns: OwnedTurns, app: str
) -> None:
    async def nobody() -> frozenset[str]:
        return frozenset()

    async def ends() -> dict[str, tuple[str, int]]:
        infos = await turns.list(app_name=app)
        return {info.turn.key.id: (info.status, info.kills) for info in infos}

    await make_suspects(turns, app, "a", "b")
    await turns.put(turn(app, "new", "r"))
    assert len(await take(turns.source(apps=[app], worker="w3"))) == 3
    assert await turns.recover(nobody) == 3
    assert await ends() == {"a": ("waiting", 2), "b": ("waiting", 2), "new": ("waiting", 1)}
    source = turns.source(apps=[app], worker="w4")
    ids = await take(source)
    assert await source.drop_adrift(ids[:1]) == 2
    assert await turns.recover(nobody) == 1
    assert await ends() == {"a": ("failed", 3), "b": ("waiting", 2), "new": ("waiting", 1)}


async def test_a_suspect_runs_alone_and_others_between_two_of_them(
    turns: OwnedTurns, app: str
) -> None:
    await make_suspects(turns, app, "a", "b", "c")
    for session in ("x", "y"):
        await turns.put(turn(app, session, "r"))
    running: set[str] = set()
    together: list[set[str]] = []
    stop = asyncio.Event()

    async def run(turn: QueuedTurn) -> TurnEnd:
        running.add(turn.key.id)
        together.append({*running})
        await asyncio.sleep(0.05)
        together.append({*running})
        running.remove(turn.key.id)
        return TurnEnd("done")

    work = asyncio.create_task(turns.work(run, apps=[app], worker="w3", slots=4, stop=stop))
    await until_done(turns, app, 5)
    stop.set()
    await work
    assert len(together) == 10
    suspects = [sessions for sessions in together if sessions & {"a", "b", "c"}]
    assert sorted(map(sorted, suspects)) == [["a"], ["a"], ["b"], ["b"], ["c"], ["c"]]


async def test_a_worker_that_stops_hands_on_the_suspect_that_waits_in_it(
    turns: OwnedTurns, app: str
) -> None:
    await make_suspects(turns, app, "a")
    await turns.put(turn(app, "long", "r"))
    begun, stop = asyncio.Event(), asyncio.Event()
    ran: list[str] = []

    async def run(turn: QueuedTurn) -> TurnEnd:
        ran.append(turn.key.id)
        begun.set()
        await stop.wait()
        return TurnEnd("done")

    (id,) = (info.turn.id for info in await turns.list(app_name=app) if info.kills)
    source = turns.source(apps=[app], worker="w0")
    assert await source.take(1)
    assert await source.settle(id, TurnEnd("released", after=0.3))  # the other is taken first
    work = asyncio.create_task(turns.work(run, apps=[app], worker="w3", slots=4, stop=stop))
    async with asyncio.timeout(60):
        await begun.wait()
        while (await turns.list(id=id))[0].status != "running":  # noqa: ASYNC110
            await asyncio.sleep(0.02)
    stop.set()
    await work
    ends = {info.turn.key.id: (info.status, info.kills) for info in await turns.list(app_name=app)}
    assert ends == {"a": ("waiting", 2), "long": ("done", 0)}
    assert ran == ["long"]


async def test_a_turn_that_is_ours_unknown_to_us_is_found_again(
    turns: OwnedTurns, app: str
) -> None:
    source = turns.source(apps=[app], worker=f"w-{app}")
    await turns.put(turn(app, "s", "r1"))
    assert len(await take(source)) == 1
    assert await source.drop_adrift([]) == 1
    (id,) = await take(source)
    assert await source.drop_adrift([id]) == 0
    assert await take(source) == []


async def test_a_waiting_turn_is_cancelled_and_a_running_one_is_not(
    turns: OwnedTurns, app: str
) -> None:
    source = turns.source(apps=[app], worker="w1")
    await turns.put(turn(app, "s", "r1"))
    await turns.put(turn(app, "s", "r2"))
    (id,) = await take(source)
    first, second = await turns.list(app_name=app)
    assert first.turn.id == id
    assert not await turns.cancel(first.turn.id)
    assert await turns.cancel(second.turn.id)
    assert not await turns.cancel("no number")
    await source.settle(id, TurnEnd("done"))
    assert await take(source) == []
    counts = await turns.counts()
    assert (counts[app, "done"], counts[app, "cancelled"]) == (1, 1)
    assert await turns.retry(second.turn.id)
    assert await take_requests(source) == ["s/r2"]


async def test_a_turn_is_put_in_the_transaction_of_the_store(
    store: Store, turns: OwnedTurns, app: str
) -> None:
    key = SessionKey(app, "ada", "s")
    session = await store.create(key)

    async def put_and_fail() -> None:
        async with store.transaction(session) as transaction:
            await transaction.append(Event(author="user", content=to_content("noted")))
            assert await turns.put(turn(app, "s", "r1"), connection=transaction.connection)
            raise RuntimeError("no")

    with pytest.raises(RuntimeError, match="no"):
        await put_and_fail()
    assert await turns.find(key, "r1") is None
    async with store.transaction(session) as transaction:
        await transaction.append(Event(author="user", content=to_content("noted")))
        assert await turns.put(turn(app, "s", "r1"), connection=transaction.connection)
        assert not await turns.put(turn(app, "s", "r1"), connection=transaction.connection)
    assert await take_requests(turns.source(apps=[app], worker="w1")) == ["s/r1"]
    with pytest.raises(UsageError, match="is not a connection to put a turn with"):
        await turns.put(turn(app, "s", "r2"), connection=object())
    assert (await store.lengths([key]))[key] == 1


async def test_a_queue_works_with_runners_and_answers_each_request_once(
    store: Store, turns: OwnedTurns, app: str
) -> None:
    model = ScriptedModel([f"answer {n}" for n in range(6)])
    runner = Runner(Agent("bot", model=model), app_name=app, store=store)
    run, stop = TurnRunner({app: runner}, turns), asyncio.Event()
    working = asyncio.create_task(turns.work(run, apps=run.apps, worker="w1", slots=4, stop=stop))
    for n in range(6):
        key = SessionKey(app, "ada", f"s{n % 2}")
        await put_message(turns, store, key, f"question {n}", request_id=f"r{n}")
        await put_message(turns, store, key, f"question {n}", request_id=f"r{n}")
    await until_done(turns, app, 6)
    stop.set()
    await working
    for at in range(2):
        session = await store.get(SessionKey(app, "ada", f"s{at}"))
        assert session is not None
        said = [event.text for event in session.events if event.author == "user"]
        assert said == [f"question {n}" for n in range(at, 6, 2)]
        assert len(session.events) == 6
    assert run.outcomes == {(app, "done"): 6}


async def test_a_failed_turn_is_tried_again_and_then_is_a_dead_letter(
    store: Store, turns: OwnedTurns, app: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("weft.turns.running._FIRST_PAUSE", 0.01)
    model = ScriptedModel([RuntimeError("503"), "well", *[RuntimeError("down")] * 3, "next"])
    runner = Runner(Agent("bot", model=model), app_name=app, store=store)
    run, stop = TurnRunner({app: runner}, turns, attempts=3), asyncio.Event()
    for n in range(3):
        await put_message(turns, store, SessionKey(app, "ada", "s"), f"q{n}", request_id=f"r{n}")
    working = asyncio.create_task(turns.work(run, apps=run.apps, worker="w1", slots=4, stop=stop))
    await until_done(turns, app, 2)
    stop.set()
    await working
    (dead,) = await turns.list(app_name=app, status="failed")
    assert dead.turn.request_id == "r1"
    assert "down" in dead.reason
    assert run.outcomes == {(app, "done"): 2, (app, "again"): 3, (app, "failed"): 1}
    outcome = await run(dead.turn)
    assert outcome.kind == "failed"
    assert "the conversation went on without it" in outcome.reason


async def test_a_turn_of_a_deleted_session_fails_and_makes_none(
    store: Store, turns: OwnedTurns, app: str
) -> None:
    key = SessionKey(app, "ada", "s")
    written, is_new = await put_message(turns, store, key, "hi", request_id="r1")
    assert is_new
    await store.delete(key)
    runner = Runner(Agent("bot", model=ScriptedModel([])), app_name=app, store=store)
    outcome = await TurnRunner({app: runner}, turns)(written)
    assert outcome == TurnEnd("failed", "its session was deleted")
    assert await store.get(key) is None


async def test_a_schedule_puts_its_next_turn_once(
    store: Store, turns: OwnedTurns, app: str
) -> None:
    key = SessionKey(app, "ada", "s")
    runner = Runner(Agent("bot", model=ScriptedModel(["one"])), app_name=app, store=store)
    written, _ = await put_message(turns, store, key, "go", request_id="daily", every="1h")
    run = TurnRunner({app: runner}, turns)
    assert (await run(written)).kind == "done"
    assert (await run(written)).kind == "done"
    infos = {info.turn.request_id: info for info in await turns.list(app_name=app)}
    assert set(infos) == {"daily", "daily#2"}
    assert infos["daily#2"].turn.every == 3600.0
    assert infos["daily#2"].due is not None


async def test_tables_of_a_newer_version_are_refused(
    address: str, store: Store, turns: OwnedTurns
) -> None:
    await turns.open()
    change = "UPDATE turns_version SET version = version {} 100"
    if address.startswith("sqlite"):
        with sqlite3.connect(address.removeprefix("sqlite:///")) as file:
            file.execute(change.format("+"))
        file.close()
    else:
        with psycopg.connect(address, options="-c search_path=weft") as server:
            server.execute(change.format("+").encode())
    other = open_turns(address)
    try:
        with pytest.raises(StoreError, match="made by a newer Weft"):
            await other.open()
    finally:
        await other.close()
        if not address.startswith("sqlite"):
            with psycopg.connect(address, options="-c search_path=weft") as server:
                server.execute(change.format("-").encode())


def test_a_turn_that_is_written_down_reads_the_same(app: str) -> None:
    one = QueuedTurn(
        key=SessionKey(app, "ada", "s"),
        request_id="r",
        message=to_content(["look", "here"]),
        state={"topic": {"a": [1, None]}},
        requires_session=True,
        every=60.0,
        stream=True,
        follower="w",
        retries=1,
        attempts=2,
        id="7",
    )
    assert decode_turn(encode_turn(one), id="7", attempts=2) == one
    assert '"version":1' in encode_turn(one), "older workers run it as it is meant"
    tool = ClientTool("weather", "The weather.", {"type": "object"})
    more = msgspec.structs.replace(one, options={"temperature": 0.2}, tools=(tool,))
    assert decode_turn(encode_turn(more), id="7", attempts=2) == more
    assert '"version":2' in encode_turn(more), "older workers would drop what they cannot read"
    formed = msgspec.structs.replace(one, output_schema={"type": "object"})
    assert decode_turn(encode_turn(formed), id="7", attempts=2) == formed
    assert '"version":3' in encode_turn(formed), "a worker that drops it would answer in words"
    newer = encode_turn(one).replace('"version":1', '"version":4')
    with pytest.raises(UnreadableTurn, match="newer Weft"):
        decode_turn(newer)
    assert decode_turn(mark_retried(newer.replace('"version":4', '"version":1'))).retries == 2


def test_addresses_and_durations_that_cannot_be_meant_are_refused(app: str) -> None:
    with pytest.raises(UsageError, match="memory:// is of one"):
        open_turns("memory://")
    with pytest.raises(UsageError, match="there is no engine `celery`"):
        open_turns("sqlite:///weft.db", "celery")
    with pytest.raises(UsageError, match="dbos needs PostgreSQL"):
        open_turns("sqlite:///weft.db", "dbos")
    with pytest.raises(UsageError, match="is not the address of a store"):
        open_turns("redis://localhost")
    assert seconds_of("15m", where="every") == 900.0
    for wrong in ("1 fortnight", "0s", -1, True):
        with pytest.raises(UsageError, match="is not a duration"):
            seconds_of(wrong, where="every")


def test_a_queue_of_a_long_name_is_short_and_its_own() -> None:
    names = ["bot", "x" * 60, "x" * 61, "grüße", "grüsse"]
    queues = [queue_of(name) for name in names]
    assert queues[0] == "weft:bot"
    assert len({*queues}) == len(names)
    assert all(len(queue.encode()) <= 40 and queue.isascii() for queue in queues)
