"""Work that is seen to its end, however often whoever waits for it is cancelled."""

import asyncio
from collections.abc import Coroutine, Sequence
from typing import TypeVar

T = TypeVar("T")


async def unbroken(work: Coroutine[object, object, T]) -> T:
    """The result of the work; if the caller was cancelled meanwhile, that comes after it."""
    task = asyncio.ensure_future(work)
    await ended([task])
    return task.result()


async def stopped(tasks: "Sequence[asyncio.Task[T]]") -> None:
    """Cancel the tasks, once each, and wait until they have cleaned up behind themselves.

    What they raised can be asked of them; if nobody does, nobody is bothered with it.
    """
    for task in tasks:
        task.cancel()
    try:
        await ended(tasks)
    finally:
        for task in tasks:
            if not task.cancelled():
                task.exception()


async def ended(work: "Sequence[asyncio.Future[T]]") -> None:
    """Wait until all of it is done; if the caller was cancelled meanwhile, that comes after it."""
    cancelled: asyncio.CancelledError | None = None
    while left := [each for each in work if not each.done()]:
        try:
            await asyncio.wait(left)
        except asyncio.CancelledError as error:
            cancelled = error
    if cancelled is not None:
        raise cancelled
