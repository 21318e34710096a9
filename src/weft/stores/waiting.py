"""Waiting for a lease that another process holds.

No event comes across processes, so the lock is tried again, after pauses that grow.
"""

import asyncio
from collections.abc import Awaitable, Callable

from weft.session import Busy, SessionKey
from weft.session.lease import busy_error

FIRST_PAUSE = 0.005
LONGEST_PAUSE = 0.1

WATCH_EVERY = 0.5
"""Seconds between two looks at what other processes ask for."""


async def outwait(
    key: SessionKey,
    busy: Busy,
    *,
    take: Callable[[], Awaitable[bool]],
    wanted: Callable[[], bool],
    ask: Callable[[], Awaitable[None]],
    withdraw: Callable[[], Awaitable[None]],
) -> None:
    """Take the lock that other processes respect.

    `ask` tells its holder, wherever that is, to stop; `withdraw` takes that back. The holder is
    also asked when somebody behind in the line wants it to stop: `wanted` says so.
    """
    if await take():
        return
    if busy == "reject":
        raise busy_error(key)
    asked, pause = False, FIRST_PAUSE
    try:
        while True:
            if not asked and (busy == "interrupt" or wanted()):
                asked = True
                await ask()
            await asyncio.sleep(pause)
            if await take():
                return
            pause = min(pause * 1.5, LONGEST_PAUSE)
    finally:
        if asked:
            await withdraw()
