"""What must hold of any log, however the run that wrote it ended."""

import asyncio
import gc
from collections import Counter
from collections.abc import Callable, Coroutine

from weft import Session
from weft.session import SessionKey, Store


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
    assert not complaints
