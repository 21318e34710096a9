"""Ctrl-C: the first cancels what runs, and lets it leave the log in order; the second kills."""

import asyncio
import os
import signal
import sys
import threading
from collections.abc import Coroutine
from types import FrameType
from typing import TypeVar

T = TypeVar("T")


def carry_out(runner: asyncio.Runner, work: Coroutine[object, object, T]) -> T:
    """The result of the work; cancelled by Ctrl-C, it ends first, then KeyboardInterrupt is raised.

    The second Ctrl-C is the system's own: it ends the process whatever that is doing. It stays so
    until `listen_again`, for a tool may go on in its thread, and nothing but that can stop it.
    """
    if threading.current_thread() is not threading.main_thread():
        return runner.run(work)
    loop = runner.get_loop()
    task: asyncio.Task[T] | None = None
    asked = False

    def cancel(number: int, frame: FrameType | None) -> None:
        nonlocal asked
        asked = True
        signal.signal(signal.SIGINT, signal.SIG_DFL)
        if sys.stderr.isatty():
            os.write(2, b"\ncancelling; Ctrl-C again kills\n")
        if task is not None:
            loop.call_soon_threadsafe(task.cancel)

    async def guarded() -> T:
        nonlocal task
        task = asyncio.current_task()
        if asked and task is not None:
            task.cancel()
        return await work

    held = signal.signal(signal.SIGINT, cancel)
    try:
        return runner.run(guarded())
    except asyncio.CancelledError:
        if asked:
            raise KeyboardInterrupt from None
        raise
    finally:
        if not asked:
            signal.signal(signal.SIGINT, held)


def listen_again() -> None:
    """Let the next Ctrl-C raise KeyboardInterrupt, as it does where nothing was cancelled."""
    if threading.current_thread() is threading.main_thread():
        signal.signal(signal.SIGINT, signal.default_int_handler)


def listen_no_more() -> None:
    """From here on Ctrl-C ends the process at once: all that is left is a tool that still runs."""
    if threading.current_thread() is threading.main_thread():
        signal.signal(signal.SIGINT, signal.SIG_DFL)
