"""Another process with a store: `python -m tests.stores.child ACTION ADDRESS APP USER ID`."""

import asyncio
import os
import signal
import sys
import time
from pathlib import Path
from tempfile import NamedTemporaryFile
from typing import NoReturn

from tests.support.build import user
from weft import Actions, Agent, Runner
from weft.errors import Conflict, SessionBusy
from weft.session import Lease, SessionKey, Store
from weft.stores import open_store

ROOT = Path(__file__).parents[2]

ENVIRONMENT = {
    **os.environ,
    "PYTHONPATH": os.pathsep.join(("src", ".", os.environ.get("PYTHONPATH", ""))).rstrip(
        os.pathsep
    ),
}
"""What another process needs to find what is tested, if it starts in ROOT."""


def say(text: str) -> None:
    print(text, flush=True)


async def hold(store: Store, key: SessionKey) -> None:
    """Hold the lease until somebody asks for it; it takes no further use of the store to notice."""
    asked = asyncio.Event()
    lease = await store.lease(key, busy="queue", interrupt=asked.set)
    say("held")
    await asked.wait()
    say("interrupted")
    await lease.release()


async def obey(store: Store, key: SessionKey) -> None:
    """Take and free the leases of sessions as it is told: `take ID`, `free ID`."""
    await store.apps()
    leases: dict[str, Lease] = {}
    while line := (await asyncio.to_thread(sys.stdin.readline)).split():
        verb, id = line
        if verb == "free":
            await leases.pop(id).release()
            say("free")
            continue
        try:
            own = key._replace(id=id)
            leases[id] = await store.lease(own, busy="reject", interrupt=lambda: None)
            say("taken")
        except SessionBusy:
            holder = await store.holder(key._replace(id=id))
            say("busy" if holder is not None else "nobody has it")


async def work(store: Store, key: SessionKey) -> None:
    """Hold the lease, and append until somebody asks for it."""
    asked = asyncio.Event()
    lease = await store.lease(key, busy="queue", interrupt=asked.set)
    session = await store.get(key)
    assert session is not None
    say("held")
    while not asked.is_set():
        session = await store.append(session, user("working"))
    say("interrupted")
    await lease.release()


async def want(store: Store, key: SessionKey) -> None:
    """Ask the holder to stop, and wait."""
    waiting = asyncio.create_task(store.lease(key, busy="interrupt", interrupt=lambda: None))
    await asyncio.sleep(0.3)
    say("waiting")
    await (await waiting).release()
    say("had it")


async def want_ahead(store: Store, key: SessionKey) -> None:
    """As `want`, with a clock that is an hour ahead."""
    now = time.time
    time.time = lambda: now() + 3600
    await want(store, key)


async def attempt(store: Store, key: SessionKey) -> None:
    """Say whether the session is free."""
    try:
        await (await store.lease(key, busy="reject", interrupt=lambda: None)).release()
        say("free")
    except SessionBusy:
        say("busy")


async def turns(store: Store, key: SessionKey) -> None:
    """Ten turns, each under its own lease."""
    for n in range(10):
        lease = await store.lease(key, busy="queue", interrupt=lambda: None)
        session = await store.get(key)
        assert session is not None
        count = session.state.get("app:count", 0)
        assert isinstance(count, int)
        delta = Actions(state_delta={"app:count": count + 1})
        await store.append(session, user(f"{os.getpid()}-{n}", actions=delta))
        await lease.release()


async def write(store: Store, key: SessionKey) -> None:
    """Append as fast as possible, and say what was stored."""
    session = await store.get(key)
    assert session is not None
    while True:
        session = await store.append(session, user("x" * 200))
        say(session.events[-1].id)


async def race(store: Store, key: SessionKey) -> None:
    """Create sessions with names that others use as well."""
    for n in range(5):
        try:
            await store.create(key._replace(id=f"race-{n}"))
            say(f"made race-{n}")
        except Conflict:
            pass


def die_before_events() -> None:
    """From now on the process dies where the first events of a session are about to be stored."""
    from weft.stores import postgres, sqlite_tables

    def die(*_: object) -> NoReturn:
        os.kill(os.getpid(), signal.SIGKILL)
        raise AssertionError("nobody outlives this")

    sqlite_tables.add_rows = die
    postgres.insert_events = die


async def fork(store: Store, key: SessionKey) -> None:
    """Fork the session, and die on the way."""
    die_before_events()
    runner = Runner(Agent("bot", model="none"), app_name=key.app_name, store=store)
    await runner.fork(user_id=key.user_id, session_id=key.id, to="new")


async def go_on(store: Store, key: SessionKey) -> None:
    """Run with the history of a session under a new name, and die on the way."""
    session = await store.get(key)
    die_before_events()
    runner = Runner(Agent("bot", model="none"), app_name=key.app_name, store=store)
    running = runner.run("Hi", user_id=key.user_id, session_id="new")
    await running.alone(session, owned=False)  # as `weft.run(..., session=session)` does


async def take_in(store: Store, key: SessionKey) -> None:
    """Import the session under a new name from a file, and die on the way."""
    from weft.cli import main  # here: it would take a third of the start of every child

    session = await store.get(key)
    assert session is not None
    session.id = "new"
    with NamedTemporaryFile(suffix=".json") as file:
        file.write(session.to_json())
        file.flush()
        die_before_events()
        argv = ["sessions", "import", file.name, "--store", sys.argv[2]]
        await asyncio.to_thread(main, argv)


ACTIONS = {
    action.__name__: action
    for action in (
        hold, obey, work, want, want_ahead, attempt, turns, write, race, fork, go_on, take_in,
    )
}  # fmt: skip


async def main(action: str, address: str, *key: str) -> None:
    store = open_store(address)
    await ACTIONS[action](store, SessionKey(*key))
    await store.close()


if __name__ == "__main__":
    asyncio.run(main(*sys.argv[1:]))
