"""Another process with a store: `python -m tests.stores.child ACTION ADDRESS APP USER ID`."""

import asyncio
import os
import sys
import time
from pathlib import Path

from tests.support.build import user
from weft import Actions
from weft.errors import Conflict, SessionBusy
from weft.session import SessionKey, Store
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


ACTIONS = {
    action.__name__: action
    for action in (hold, work, want, want_ahead, attempt, turns, write, race)
}


async def main(action: str, address: str, *key: str) -> None:
    store = open_store(address)
    await ACTIONS[action](store, SessionKey(*key))
    await store.close()


if __name__ == "__main__":
    asyncio.run(main(*sys.argv[1:]))
