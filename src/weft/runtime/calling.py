"""Calling a tool's function: on the loop or in a thread, for no longer than it may take."""

import asyncio
import contextvars
import functools
from concurrent.futures import ThreadPoolExecutor

from weft.runtime.kit import BoundTool, settled
from weft.runtime.unbroken import ended


async def call_within_limits(bound: BoundTool, kwargs: dict[str, object]) -> object:
    """What the function returned; what it raised, unless it took too long."""
    timeout = bound.tool.timeout
    if timeout is None:
        return await _call(bound, kwargs)
    try:
        async with asyncio.timeout(timeout):
            return await _call(bound, kwargs)
    except TimeoutError as error:
        if str(error):
            raise
        raise TimeoutError(f"{bound.tool.name} took longer than {timeout:g} s") from None


async def _call(bound: BoundTool, kwargs: dict[str, object]) -> object:
    assert bound.function is not None
    task = asyncio.current_task()
    asked = task.cancelling() if task is not None else 0
    try:
        if bound.is_async:
            return await settled(bound.function(**kwargs))
        if bound.quick:
            return await settled(_plainly(bound, kwargs))
        context = contextvars.copy_context()
        call = functools.partial(context.run, lambda: _plainly(bound, kwargs))
        thread = asyncio.get_running_loop().run_in_executor(_threads(), call)
        if bound.tool.effect == "transactional":  # no thread may write once its turn is over
            await ended([thread])
        return await settled(await thread)
    except SystemExit as error:
        raise _failure(error) from error
    except asyncio.CancelledError as error:
        if task is None or task.cancelling():
            raise  # the run is being stopped
        raise _failure(error) from error
    except Exception as error:
        if task is not None and task.cancelling() > asked:
            raise asyncio.CancelledError from error  # some drivers tell what they met then instead
        raise


def _plainly(bound: BoundTool, kwargs: dict[str, object]) -> object:
    """Call a plain function; what would end a thread or a generator is only its own failure."""
    try:
        return bound.timed(**kwargs)
    except (StopIteration, GeneratorExit, SystemExit, asyncio.CancelledError) as error:
        raise _failure(error) from error


def _failure(error: BaseException) -> RuntimeError:
    """What a tool raised that must not reach the event loop: a tool cannot end the process."""
    return RuntimeError(f"the tool raised {error!r}")


@functools.cache
def _threads() -> ThreadPoolExecutor:
    """Threads for tools that are plain functions."""
    return ThreadPoolExecutor(64, thread_name_prefix="weft-tool")
