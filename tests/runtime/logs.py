"""What must hold of any log, however the run that wrote it ended."""

import asyncio
import gc
from collections import Counter
from collections.abc import Callable, Coroutine

import msgspec

from weft import Event, Session
from weft.runtime.place import path_of
from weft.session import MemoryStore, SessionKey, Store


class Measured(MemoryStore):
    """A store that knows how long a log was after each write."""

    def __init__(self) -> None:
        super().__init__()
        self.lengths: list[int] = []

    async def append(self, session: Session, *events: Event) -> Session:
        after = await super().append(session, *events)
        self.lengths.append(len(after.events))
        return after


def check_log(session: Session) -> None:
    """Every call has one result, behind it; each event stands once; the state is their sum."""
    called: list[str] = []
    returned: list[str] = []
    for event in session.events:
        assert not event.partial
        for result in event.results:
            assert result.id in called, f"a result without a call: {result}"
            returned.append(result.id or "")
        called += [call.id or "" for call in event.calls]
    assert Counter(returned) == Counter(called)
    assert len(called) == len(set(called))
    ids = [event.id for event in session.events]
    assert len(ids) == len(set(ids))
    assert Session(state=session.initial, events=session.events).state == session.state


def said(event: Event) -> dict[str, object]:
    """The event without what differs from run to run."""
    plain = msgspec.to_builtins(event)
    # a snapshot of code has the time in it that the code has taken so far
    plain.get("customMetadata", {}).get("weft", {}).get("code", {}).pop("snapshot", None)
    return {k: v for k, v in plain.items() if k not in ("id", "timestamp", "invocationId")}


def is_record(event: Event) -> bool:
    """Whether the event only keeps what a call came to until all of its reply have."""
    held = (event.custom_metadata or {}).get("weft")
    return isinstance(held, dict) and bool(held.keys() & {"outcomes", "started"})


def by_place(session: Session) -> dict[tuple[str, str], list[dict[str, object]]]:
    """What every place did, in order; between branches there is no order to compare."""
    places: dict[tuple[str, str], list[dict[str, object]]] = {}
    for event in session.events:
        if not is_record(event):
            place = (path_of(event), event.isolation_scope or "")
            places.setdefault(place, []).append(said(event))
    return places


async def stored(store: Store, key: SessionKey) -> Session:
    """The session, which must be there and free."""
    lease = await store.lease(key, busy="reject", interrupt=lambda: None)
    await lease.release()
    session = await store.get(key)
    assert session is not None
    return session


def quietly(work: Callable[[], Coroutine[object, object, None]]) -> None:
    """Run the work to its end; it may leave no task behind, and the event loop no complaint."""
    complaints: list[str] = []

    async def watched() -> None:
        loop = asyncio.get_running_loop()
        loop.set_exception_handler(lambda _, context: complaints.append(str(context)))
        await work()
        left = asyncio.all_tasks() - {asyncio.current_task()}
        assert not left, f"left running: {left}"
        gc.collect()

    asyncio.run(watched())
    gc.collect()
    assert not complaints, "\n".join(complaints)
