"""Several processes with one store: real processes, really killed."""

import asyncio
import signal
import sys
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

from tests.stores.build import read_session
from tests.support.build import user
from tests.support.forked import ForkedProgram
from weft import Agent, Runner
from weft.errors import SessionBusy, SessionError, UsageError
from weft.session import SessionKey, Store
from weft.stores.sqlite import SqliteStore

pytestmark = pytest.mark.parametrize("address", ["sqlite", "postgres"], indirect=True)

Start = Callable[..., ForkedProgram]


@pytest.fixture
def start(address: str, key: SessionKey) -> Iterator[Start]:
    """Start another process that does something with the session."""
    children: list[ForkedProgram] = []

    def start(action: str) -> ForkedProgram:
        child = ForkedProgram("tests.stores.child", action, address, *key)
        children.append(child)
        return child

    yield start
    for child in children:
        child.close()


async def heard(child: ForkedProgram, wanted: str) -> None:
    """Wait until the child says so."""
    assert await asyncio.to_thread(child.stdout.readline) == f"{wanted}\n"


async def ask(child: ForkedProgram, words: str, wanted: str) -> None:
    """Tell the child what to do, and wait for its answer."""
    print(words, file=child.stdin, flush=True)
    await heard(child, wanted)


async def kill(child: ForkedProgram) -> None:
    child.send_signal(signal.SIGKILL)
    assert await asyncio.to_thread(child.wait, 60) == -signal.SIGKILL


@contextmanager
def unharmed() -> Iterator[Callable[[], None]]:
    """A callback that must not be called."""
    calls: list[str] = []
    yield lambda: calls.append("interrupted")
    assert not calls


async def test_a_killed_holder_frees_its_session_at_once(
    store: Store, key: SessionKey, start: Start
) -> None:
    child = start("hold")
    await heard(child, "held")
    with pytest.raises(SessionBusy):
        await store.lease(key, busy="reject", interrupt=lambda: None)
    waiting = asyncio.create_task(store.lease(key, busy="queue", interrupt=lambda: None))
    await asyncio.sleep(0.05)
    assert not waiting.done()
    await kill(child)
    await (await asyncio.wait_for(waiting, 60)).release()


async def test_an_idle_holder_in_another_process_is_interrupted(
    store: Store, key: SessionKey, start: Start
) -> None:
    child = start("hold")
    await heard(child, "held")
    lease = await asyncio.wait_for(store.lease(key, busy="interrupt", interrupt=lambda: None), 60)
    await heard(child, "interrupted")
    await lease.release()


async def test_a_working_holder_in_another_process_is_interrupted(
    store: Store, key: SessionKey, start: Start
) -> None:
    await store.create(key)
    child = start("work")
    await heard(child, "held")
    lease = await asyncio.wait_for(store.lease(key, busy="interrupt", interrupt=lambda: None), 60)
    await heard(child, "interrupted")
    await lease.release()
    assert {event.text for event in (await read_session(store, key)).events} <= {"working"}


async def test_whoever_waits_here_can_have_the_holder_elsewhere_interrupted(
    store: Store, key: SessionKey, start: Start
) -> None:
    child = start("hold")
    await heard(child, "held")
    first = asyncio.create_task(store.lease(key, busy="queue", interrupt=lambda: None))
    await asyncio.sleep(0.05)
    second = asyncio.create_task(store.lease(key, busy="interrupt", interrupt=lambda: None))
    await heard(child, "interrupted")
    await (await asyncio.wait_for(first, 60)).release()
    await (await asyncio.wait_for(second, 60)).release()


@pytest.mark.parametrize("hours", [-1, 1])
async def test_a_clock_that_was_set_stops_the_holder_all_the_same(
    store: Store, key: SessionKey, start: Start, monkeypatch: pytest.MonkeyPatch, hours: int
) -> None:
    child = start("hold")
    await heard(child, "held")
    now = time.time
    monkeypatch.setattr(time, "time", lambda: now() + hours * 3600)
    lease = await asyncio.wait_for(store.lease(key, busy="interrupt", interrupt=lambda: None), 60)
    await heard(child, "interrupted")
    await lease.release()


@pytest.mark.parametrize("action", ["want", "want_ahead"])
async def test_the_wish_of_a_killed_process_harms_no_later_holder(
    store: Store, key: SessionKey, start: Start, action: str
) -> None:
    stopped = asyncio.Event()
    session = await store.create(key)
    lease = await store.lease(key, busy="queue", interrupt=stopped.set)
    child = start(action)
    await heard(child, "waiting")
    await asyncio.wait_for(stopped.wait(), 60)
    await kill(child)
    await lease.release()
    with unharmed() as interrupt:
        lease = await store.lease(key, busy="reject", interrupt=interrupt)
        await store.append(session, user("Hi"))
        await asyncio.sleep(0.7)
        await lease.release()


async def test_four_processes_taking_turns_lose_nothing(
    store: Store, key: SessionKey, start: Start
) -> None:
    await store.create(key)
    children = [start("turns") for _ in range(4)]
    for child in children:
        assert await asyncio.to_thread(child.wait, 300) == 0
    session = await read_session(store, key)
    assert len(session.events) == 40
    assert len({event.text for event in session.events}) == 40
    assert session.state == {"app:count": 40}
    assert [event.actions.state_delta["app:count"] for event in session.events] == [
        n + 1 for n in range(40)
    ]


async def test_what_was_stored_survives_a_kill(store: Store, key: SessionKey, start: Start) -> None:
    acknowledged: list[str] = []
    await store.create(key)
    for _ in range(3):
        child = start("write")
        for _ in range(20):
            acknowledged.append((await asyncio.to_thread(child.stdout.readline)).strip())
        await kill(child)
        acknowledged += [line.strip() for line in child.stdout if line.endswith("\n")]
        ids = [event.id for event in (await read_session(store, key)).events]
        assert len(ids) == len(set(ids))
        assert [id for id in ids if id in set(acknowledged)] == acknowledged
        assert len(ids) <= len(acknowledged) + 3, "at most one write was on its way each time"


@pytest.mark.parametrize("action", ["fork", "go_on", "take_in"])
async def test_a_kill_before_its_first_events_leaves_no_empty_session(
    store: Store, key: SessionKey, start: Start, action: str
) -> None:
    session = await store.create(key, state={"city": "Oslo"})
    session = await store.append(session, user("one"), user("two", inv="2"))
    child = start(action)
    assert await asyncio.to_thread(child.wait, 300) == -signal.SIGKILL
    assert await store.get(key._replace(id="new")) is None
    assert [info.key for info in await store.sessions(key.app_name)] == [key]
    # whoever tries once more is not told that it exists
    runner = Runner(Agent("bot", model="none"), app_name=key.app_name, store=store)
    forked = await runner.fork(user_id=key.user_id, session_id=key.id, to="new")
    assert (forked.events, forked.state) == (session.events, {"city": "Oslo"})
    assert await read_session(store, key._replace(id="new")) == forked


async def test_processes_that_open_a_new_store_together_make_it_once(
    store: Store, key: SessionKey, start: Start
) -> None:
    children = [start("race") for _ in range(4)]
    made: list[str] = []
    for child in children:
        assert await asyncio.to_thread(child.wait, 300) == 0
        made += child.stdout.read().split("\n")[:-1]
    assert sorted(made) == [f"made race-{n}" for n in range(5)]
    assert len(await store.sessions(key.app_name)) == 5


async def test_another_process_is_seen_at_the_next_read(
    store: Store, key: SessionKey, start: Start
) -> None:
    session = await store.append(await store.create(key), user("Hi"))
    child = start("turns")
    assert await asyncio.to_thread(child.wait, 300) == 0
    held = await read_session(store, key)
    assert len(held.events) == 11
    assert held.events[0] is session.events[0], "what was read before is not read again"


async def test_using_the_store_inside_its_transaction_is_refused_not_stuck(
    store: Store, again: Callable[[], Store], key: SessionKey
) -> None:
    session = await store.create(key)
    async with store.transaction(session) as transaction:
        grown = await transaction.append(user("Hi"))
        for use in (
            store.append(session, user("Ho")),
            store.create(key._replace(id="t")),
            store.delete(key),
            store.close(),
        ):
            with pytest.raises(UsageError, match="transaction that it is in") as caught:
                await use
            assert "transaction's own append" in caught.value.hint
        with pytest.raises(UsageError):
            async with store.transaction(session):
                pass
        assert await read_session(store, key) == session
    after = await store.append(await read_session(store, key), user("Ho"))
    assert after.events.first(1) == grown.events


async def test_transactions_of_two_stores_may_be_nested(
    store: Store, key: SessionKey, tmp_path: Path
) -> None:
    other = SqliteStore(tmp_path / "other.db")
    mine, theirs = await store.create(key), await other.create(key)
    async with store.transaction(mine), other.transaction(theirs) as inner:
        await inner.append(user("Hi"))
        with pytest.raises(UsageError, match="transaction that it is in"):
            await store.append(mine, user("Hi"))
    assert len((await read_session(other, key)).events) == 1
    await other.close()


async def test_an_event_that_could_not_be_read_again_is_refused(
    store: Store, key: SessionKey
) -> None:
    session = await store.create(key)
    with pytest.raises(SessionError, match="branch"):
        await store.append(session, user("Hi", branch=3))
    assert len((await store.append(session, user("Hi"))).events) == 1


async def test_a_deleted_file_of_locks_frees_no_session(
    store: Store, start: Start, address: str
) -> None:
    """Each process respects the leases of the others, whichever file of locks they began with."""
    if not isinstance(store, SqliteStore) or sys.platform != "linux":
        pytest.skip("locks of an open file are Linux's, for SQLite")
    await store.apps()
    locks = store.path.with_name(f"{store.path.name}-lease")
    one = start("obey")
    await ask(one, "take a", "taken")
    locks.unlink()
    two = start("obey")
    await ask(two, "take a", "busy")
    await ask(two, "take b", "taken")
    await ask(one, "take b", "busy")
    await ask(one, "take c", "taken")
    await ask(two, "take c", "busy")
    locks.unlink()
    three = start("obey")
    for id in "abc":
        await ask(three, f"take {id}", "busy")
    await ask(one, "free a", "free")
    await ask(three, "take a", "taken")
    await ask(two, "take a", "busy")
    await ask(one, "take a", "busy")
    await kill(two)
    await ask(three, "take b", "taken")
    await ask(one, "free c", "free")
    await ask(one, "take c", "taken")
    await ask(three, "take c", "busy")


async def test_two_databases_with_one_session_each_have_their_own_leases(
    store: Store, key: SessionKey, tmp_path: Path
) -> None:
    """Also where both have lost their file of locks: a copy of a store is another one."""
    if not isinstance(store, SqliteStore):
        pytest.skip("a server has no files of ours")
    others = [SqliteStore(tmp_path / f"{name}.db") for name in "ab"]
    for other in others:
        await other.apps()
        await other.close()
        other.path.with_name(f"{other.path.name}-lease").unlink()
    leases = [
        await one.lease(key, busy="reject", interrupt=lambda: None) for one in (store, *others)
    ]
    for lease in leases:
        await lease.release()
    for other in others:
        await other.close()
