"""One run of a session at a time, in every store."""

import asyncio
import threading
from collections.abc import Callable

import pytest

from weft.errors import SessionBusy, UsageError
from weft.session import Busy, Lease, MemoryStore, SessionKey, Store
from weft.session.memory import Leases

Again = Callable[[], Store]


def nothing() -> None:
    pass


async def settle() -> None:
    """Let everybody who can run do so."""
    for _ in range(5):
        await asyncio.sleep(0)


async def test_a_free_session_is_leased_at_once_and_again(store: Store, key: SessionKey) -> None:
    for _ in range(3):
        lease = await store.lease(key, busy="reject", interrupt=nothing)
        await lease.release()
        await lease.release()


async def test_a_lease_given_back_by_a_cancelled_run_is_free_when_the_cancelling_is_done(
    store: Store, key: SessionKey
) -> None:
    for _ in range(5):
        lease = await store.lease(key, busy="reject", interrupt=nothing)
        giving_back = asyncio.create_task(lease.release())
        await asyncio.sleep(0)
        giving_back.cancel()
        await asyncio.wait({giving_back})
        await (await store.lease(key, busy="reject", interrupt=nothing)).release()


async def test_a_session_need_not_exist_to_be_leased(store: Store, key: SessionKey) -> None:
    lease = await store.lease(key, busy="reject", interrupt=nothing)
    await store.create(key)
    await lease.release()


async def test_a_second_run_is_refused_if_it_wants_to_be(
    store: Store, again: Again, key: SessionKey
) -> None:
    lease = await store.lease(key, busy="queue", interrupt=nothing)
    for other in (store, again()):
        with pytest.raises(SessionBusy, match="another run has the session") as caught:
            await other.lease(key, busy="reject", interrupt=nothing)
        assert "queue" in caught.value.hint
    other_session = await store.lease(key._replace(id="s2"), busy="reject", interrupt=nothing)
    await other_session.release()
    await lease.release()
    await (await store.lease(key, busy="reject", interrupt=nothing)).release()


async def test_runs_queue_first_come_first_served(store: Store, key: SessionKey) -> None:
    order: list[int] = []

    async def run(n: int) -> None:
        lease = await store.lease(key, busy="queue", interrupt=nothing)
        order.append(n)
        await settle()
        assert order[-1] == n, "two runs at once"
        await lease.release()

    first = await store.lease(key, busy="queue", interrupt=nothing)
    runs = []
    for n in range(5):
        runs.append(asyncio.create_task(run(n)))
        await settle()
    assert order == []
    await first.release()
    await asyncio.gather(*runs)
    assert order == [0, 1, 2, 3, 4]


async def test_stores_on_the_same_data_respect_each_other(
    store: Store, again: Again, key: SessionKey
) -> None:
    inside = 0

    async def run(store: Store) -> None:
        nonlocal inside
        lease = await store.lease(key, busy="queue", interrupt=nothing)
        inside += 1
        await asyncio.sleep(0.001)
        assert inside == 1
        inside -= 1
        await lease.release()

    other = again()
    await asyncio.gather(*(run(each) for each in (store, other) * 5))


async def test_a_run_can_stop_the_one_before_it(
    store: Store, again: Again, key: SessionKey
) -> None:
    for other in (store, again()):
        stopped = asyncio.Event()
        calls = 0

        def interrupt(stopped: asyncio.Event = stopped) -> None:
            nonlocal calls
            calls += 1
            stopped.set()

        held = await store.lease(key, busy="queue", interrupt=interrupt)
        waiting = [
            asyncio.create_task(other.lease(key, busy="interrupt", interrupt=nothing))
            for _ in range(2)
        ]
        await asyncio.wait_for(stopped.wait(), 60)
        assert not any(task.done() for task in waiting)
        await held.release()
        first = await asyncio.wait_for(waiting[0], 60)
        await first.release()
        await (await asyncio.wait_for(waiting[1], 60)).release()
        assert calls == 1


async def test_nobody_is_interrupted_for_an_earlier_holder(
    store: Store, again: Again, key: SessionKey
) -> None:
    stopped = asyncio.Event()
    held = await store.lease(key, busy="queue", interrupt=stopped.set)
    other = again()
    waiting = asyncio.create_task(other.lease(key, busy="interrupt", interrupt=pytest.fail))
    await asyncio.wait_for(stopped.wait(), 60)
    waiting.cancel()
    await asyncio.gather(waiting, return_exceptions=True)
    await held.release()
    lease = await store.lease(key, busy="reject", interrupt=lambda: pytest.fail("interrupted"))
    session = await store.create(key)
    await store.append(session)
    await asyncio.sleep(0.7)
    await lease.release()


@pytest.mark.parametrize("busy", ["queue", "interrupt"])
async def test_a_cancelled_waiter_leaves_the_line(
    store: Store, again: Again, key: SessionKey, busy: Busy
) -> None:
    held = await store.lease(key, busy="queue", interrupt=nothing)
    tasks = [
        asyncio.create_task(each.lease(key, busy=busy, interrupt=nothing))
        for each in (store, again())
    ]
    await asyncio.sleep(0.02)
    last = asyncio.create_task(store.lease(key, busy="queue", interrupt=nothing))
    await settle()
    for task in tasks:
        task.cancel()
    assert all(
        isinstance(outcome, asyncio.CancelledError)
        for outcome in await asyncio.gather(*tasks, return_exceptions=True)
    )
    await held.release()
    await (await asyncio.wait_for(last, 60)).release()


async def test_a_waiter_cancelled_at_its_turn_passes_it_on(key: SessionKey) -> None:
    store = MemoryStore()
    held = await store.lease(key, busy="queue", interrupt=nothing)
    unlucky = asyncio.create_task(store.lease(key, busy="queue", interrupt=nothing))
    next = asyncio.create_task(store.lease(key, busy="queue", interrupt=nothing))
    await settle()
    await held.release()
    unlucky.cancel()
    await (await asyncio.wait_for(next, 60)).release()
    assert unlucky.cancelled()


async def test_holder_and_waiter_may_live_in_different_threads(key: SessionKey) -> None:
    store = MemoryStore()
    stopped = asyncio.Event()
    held = await store.lease(key, busy="queue", interrupt=stopped.set)
    got: list[Lease] = []

    def elsewhere() -> None:
        async def run() -> None:
            got.append(await store.lease(key, busy="interrupt", interrupt=nothing))
            await got[0].release()

        asyncio.run(run())

    thread = threading.Thread(target=elsewhere)
    thread.start()
    await asyncio.wait_for(stopped.wait(), 60)
    assert not got
    await held.release()
    await asyncio.to_thread(thread.join, 60)
    assert got
    await (await store.lease(key, busy="reject", interrupt=nothing)).release()


def test_a_lease_whose_event_loop_is_gone_is_free(key: SessionKey) -> None:
    store = MemoryStore()
    lost = asyncio.run(store.lease(key, busy="queue", interrupt=nothing))

    async def take() -> None:
        lease = await store.lease(key, busy="reject", interrupt=nothing)
        await lost.release()
        with pytest.raises(SessionBusy):
            await store.lease(key, busy="reject", interrupt=nothing)
        await lease.release()

    asyncio.run(take())


async def test_a_holder_is_interrupted_only_once_it_holds(key: SessionKey) -> None:
    leases = Leases()
    first = await leases.acquire(key, busy="queue", interrupt=nothing)
    called = asyncio.Event()
    first.ask_to_stop()
    await settle()
    second = await leases.acquire(key._replace(id="2"), busy="queue", interrupt=called.set)
    second.ask_to_stop()
    await settle()
    assert not called.is_set()
    second.settle()
    await asyncio.wait_for(called.wait(), 60)
    await first.release()
    await second.release()


async def test_an_unknown_way_to_wait_is_refused(store: Store, key: SessionKey) -> None:
    with pytest.raises(UsageError, match="`wait` is not a way to wait") as caught:
        await store.lease(key, busy="wait", interrupt=nothing)  # type: ignore[arg-type]
    assert '"queue"' in caught.value.hint
