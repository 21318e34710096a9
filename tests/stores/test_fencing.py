"""Who has a session, and what becomes of one who lost it; other processes see and stop runs."""

import asyncio
import os
import signal
import subprocess
import sys
from pathlib import Path

import psycopg
import pytest

from weft import Agent, RunConfig, Runner, tool
from weft.errors import LeaseLost, SessionBusy, UsageError
from weft.session import Event, Holder, SessionKey
from weft.stores import open_store
from weft.stores.postgres import PostgresStore
from weft.stores.postgres_server import DatabaseAddress, read_address
from weft.testing import ScriptedModel

WORKER = """
import asyncio, sys
from weft import Agent, Runner, RunConfig, tool
from weft.testing import ScriptedModel, call


@tool(effect="pure")
async def work() -> str:
    "Work."
    print("working", flush=True)
    await asyncio.to_thread(sys.stdin.readline)
    return "done"


def say(prompt):
    return "Done." if prompt.items[-1].kind != "user" else call("work")


async def main():
    agent = Agent("bot", model=ScriptedModel([say] * 9), tools=[work])
    async with Runner(agent, app_name=sys.argv[2], store=sys.argv[1]) as runner:
        try:
            result = await runner.run("go", session_id="s", request_id="r")
            print(result.error.error_code if result.error else result.text, flush=True)
        except Exception as error:
            print(type(error).__name__, flush=True)


asyncio.run(main())
"""


CUT_OFF = "SELECT pg_terminate_backend(pid) FROM pg_stat_activity WHERE application_name = %s"


def start_worker(address: str, app: str) -> subprocess.Popen[str]:
    worker = subprocess.Popen(
        [sys.executable, "-c", WORKER, address, app],
        env=os.environ,
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        text=True,
    )
    assert worker.stdout is not None
    assert worker.stdout.readline() == "working\n"
    return worker


async def last_word(worker: subprocess.Popen[str]) -> str:
    told, _ = await asyncio.to_thread(worker.communicate, "go on\n", timeout=120)
    return told.strip()


@pytest.fixture(params=["sqlite", "postgres"])
def shared(request: pytest.FixtureRequest, tmp_path: Path) -> str:
    if request.param == "postgres":
        return str(request.getfixturevalue("postgres_url"))
    return f"sqlite:///{tmp_path}/weft.db"


def bot(*script: object) -> Agent:
    @tool(effect="pure")
    async def work() -> str:
        """Work."""
        return "done"

    return Agent("bot", model=ScriptedModel([*script]), tools=[work])  # type: ignore[list-item]


async def test_the_holder_is_known(address: str, key: SessionKey) -> None:
    store = open_store(address)
    try:
        assert await store.holder(key) is None
        lease = await store.lease(key, busy="queue", interrupt=lambda: None)
        holder = await store.holder(key)
        assert isinstance(holder, Holder)
        assert f":{os.getpid()}" in holder.worker
        assert holder.since is not None
        await lease.release()
        assert await store.holder(key) is None
    finally:
        await store.close()


async def test_another_process_is_seen_followed_and_stopped(shared: str) -> None:
    worker = start_worker(shared, "seen")
    async with Runner(bot(), app_name="seen", store=shared) as runner:
        holder = await runner.store.holder(SessionKey("seen", "user", "s"))
        assert holder is not None
        if shared.startswith("postgresql"):
            assert f":{worker.pid}:" in holder.worker
        events: list[Event] = []

        async def follow() -> None:
            events.extend([event async for event in runner.events(session_id="s")])

        following = asyncio.create_task(follow())
        await asyncio.sleep(0.2)
        assert await runner.cancel(session_id="s")
        await asyncio.wait_for(following, 60)
        assert not await runner.cancel(session_id="s")
    assert await last_word(worker) in ("interrupted", "cancelled")
    assert events[0].text == "go"
    assert events[-1].interrupted
    assert [event.sequence for event in events] == [*range(1, len(events) + 1)]


@pytest.mark.parametrize("is_late", [False, True])
async def test_news_of_other_processes_come_without_a_look(
    postgres_url: str, monkeypatch: pytest.MonkeyPatch, is_late: bool
) -> None:
    monkeypatch.setattr("weft.runtime.feeds.LOOK_EVERY", 600.0)
    app = f"news_{is_late}"
    key = SessionKey(app, "user", "s")
    async with Runner(bot(), app_name=app, store=postgres_url) as runner:
        store = runner.store
        assert isinstance(store, PostgresStore)
        other = PostgresStore(postgres_url)
        session = await other.create(key)
        session = await other.append(session, Event(author="user", invocation_id="1"))
        following = runner.events(session_id="s", follow=True)
        assert (await anext(following)).sequence == 1
        following_next = asyncio.ensure_future(anext(following))
        if is_late:
            # all channels are listened to; else the news may come before the first of them is,
            # or between two, when the connection that listens is made anew
            await asyncio.wait_for(store.relay.listening(), 60)
        await other.append(session, Event(author="user", invocation_id="2"))
        assert (await asyncio.wait_for(following_next, 60)).invocation_id == "2"
        await following.aclose()
        await other.close()


async def test_a_stopped_holder_loses_its_session_and_writes_nothing_more(
    postgres_url: str,
) -> None:
    # in the worker nothing is said of time: whoever waits decides
    worker = start_worker(postgres_url, "zombie")
    worker.send_signal(signal.SIGSTOP)
    option = f"{'&' if '?' in postgres_url else '?'}weft_lease_timeout=2"
    agent = bot("Done.", "More.")
    async with Runner(agent, app_name="zombie", store=postgres_url + option) as runner:
        result = await runner.run("go", session_id="s", request_id="r")
        assert (result.text, result.repeated) == ("Done.", True)
        # a run of ours has the session when the zombie wakes up
        lease = await runner.store.lease(
            SessionKey("zombie", "user", "s"), busy="queue", interrupt=lambda: None
        )
        worker.send_signal(signal.SIGCONT)
        assert await last_word(worker) == "LeaseLost"
        await lease.release()
        assert (await runner.run("more", session_id="s")).text == "More."
        log = (await runner.session(session_id="s")).events
    assert [e.text for e in log if e.text] == ["go", "Done.", "more", "More."]


async def test_a_holder_that_lives_keeps_its_session(postgres_url: str) -> None:
    worker = start_worker(postgres_url, "alive")
    option = f"{'&' if '?' in postgres_url else '?'}weft_lease_timeout=5"
    async with Runner(bot(), app_name="alive", store=postgres_url + option) as runner:
        with pytest.raises(SessionBusy):
            await runner.run("x", session_id="s", config=RunConfig(queue_timeout=7))
    assert await last_word(worker) == "Done."


async def test_a_lost_connection_is_no_lost_lease(
    postgres_url: str, key: SessionKey, monkeypatch: pytest.MonkeyPatch
) -> None:
    # the holder notices when it writes, not before: else it may be faster than the one who takes
    monkeypatch.setattr("weft.stores.postgres_processes.WATCH_EVERY", 600.0)
    store = PostgresStore(postgres_url)
    try:
        session = await store.create(key)
        lease = await store.lease(key, busy="queue", interrupt=lambda: None)
        session = await store.append(session, Event(author="user", invocation_id="1"))
        async with await psycopg.AsyncConnection.connect(postgres_url, autocommit=True) as admin:
            # a crash of the server empties the table, and cuts all connections
            await admin.execute(CUT_OFF, (f"weft {store.worker}",))
            await admin.execute("DELETE FROM weft.leases WHERE worker = %s", (store.worker,))
            await asyncio.sleep(0.1)
        for n in range(3):
            try:
                session = await store.append(session, Event(author="user", invocation_id="2"))
                break
            except LeaseLost:
                raise
            except Exception:
                if n == 2:
                    raise
        holder = await store.holder(key)
        assert holder is not None
        assert holder.worker == store.worker
        # one who takes it while we have it not: from then on we write nothing
        async with await psycopg.AsyncConnection.connect(postgres_url, autocommit=True) as admin:
            await admin.execute(CUT_OFF, (f"weft {store.worker}",))
            other = PostgresStore(postgres_url)
            taken = await other.lease(key, busy="queue", interrupt=lambda: None)
            with pytest.raises(LeaseLost, match="has taken the session"):
                await store.append(session, Event(author="user", invocation_id="3"))
            with pytest.raises(LeaseLost):
                async with store.transaction(session) as transaction:
                    await transaction.append(Event(author="user", invocation_id="3"))
            newest = await other.get(key)
            assert newest is not None
            await other.append(newest, Event(author="user", invocation_id="4"))
            await taken.release()
            await other.close()
        await lease.release()
        assert len(newest.events) == 2
    finally:
        await store.close()


def test_the_address_says_how_the_server_is_used() -> None:
    plain = "postgresql://ada@host/db?sslmode=require"
    assert read_address(plain) == DatabaseAddress(plain)
    lease = "postgresql%3A%2F%2Fdirect%2Fdb"
    assert read_address(
        f"{plain}&weft_connections=3&weft_lease_timeout=2.5&weft_lease_url={lease}"
    ) == DatabaseAddress(plain, 3, 2.5, "postgresql://direct/db")
    assert read_address(f"{plain}&weft_lease_timeout=none").lease_timeout is None
    for option in (
        "weft_connections=0",
        "weft_connections=many",
        "weft_lease_timeout=0.1",
        "weft_lease_timeout=nan",
        "weft_lease_url=host",
    ):
        with pytest.raises(UsageError, match=option.split("=")[0]):
            open_store(f"{plain}&{option}")
    with pytest.raises(UsageError, match="no option `weft_conections`") as unknown:
        PostgresStore(f"{plain}&weft_conections=3")
    assert "weft_connections" in unknown.value.hint


async def test_keepalives_and_a_name_are_set_unless_the_address_has_its_own(
    postgres_url: str, key: SessionKey
) -> None:
    option = f"{'&' if '?' in postgres_url else '?'}weft_connections=1"
    store = PostgresStore(postgres_url + option)
    try:
        session = await store.create(key)
        async with store.transaction(session) as transaction:
            parameters = transaction.connection.info.get_parameters()  # type: ignore[attr-defined]
        assert parameters["application_name"] == f"weft {store.worker}"
        assert (parameters["keepalives_idle"], parameters["tcp_user_timeout"]) == ("5", "10000")
    finally:
        await store.close()
