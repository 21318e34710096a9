"""Stopping a run in the middle: what it leaves behind is a log that is whole."""

import logging

import msgspec

from weft.content import FunctionCall
from weft.runtime.calls import Batch
from weft.runtime.invocation import Invocation
from weft.runtime.place import Place, paths_around
from weft.runtime.progress import Progress
from weft.runtime.tool_call import Outcome, recorded
from weft.session import Event

_log = logging.getLogger("weft")

CANCELLED = ("cancelled", "the run was cancelled")
INTERRUPTED = ("interrupted", "a later run took over")


async def stop(invocation: Invocation, author: str, why: tuple[str, str]) -> Event | None:
    """Answer the calls that are open, and say that the run was stopped; unless it had ended.

    What is open is read from the log: the run may have been stopped before it took note itself.
    A result that a call had come to is kept.
    """
    places = invocation.past.places()
    mine = next((progress for place, progress in places if place == Place()), None)
    if mine is not None and mine.answered is not None:
        return None
    await _settle(invocation, places, why[1])
    said = mine.agent if mine is not None else None
    event = invocation.event(said or author, Place(), error=why)
    return await invocation.store(msgspec.structs.replace(event, interrupted=True))


async def settle_below(invocation: Invocation, words: str, *paths: str) -> None:
    """Answer the calls that are open in branches that were stopped; `words` say why."""
    if not paths:
        return
    stopped = {*paths}
    places = invocation.past.places()
    inside = [one for one in places if not stopped.isdisjoint(paths_around(one[0].path))]
    await _settle(invocation, inside, words)


async def _settle(invocation: Invocation, places: list[tuple[Place, Progress]], words: str) -> None:
    for place, progress in places:
        calls = [call for id, call in progress.open.items() if id not in progress.pending]
        batch = Batch(tuple(_left(progress, call, words) for call in calls))
        event = batch.event(invocation, progress.agent or "", place)
        if event is not None:
            await invocation.store(event)


async def stop_quietly(invocation: Invocation, author: str) -> Event | None:
    """Stop a run that was cancelled; what goes wrong then must not hide that it was."""
    try:
        return await stop(invocation, author, CANCELLED)
    except Exception:
        _log.warning("the end of a cancelled run could not be stored", exc_info=True)
        return invocation.event(author, Place(), error=CANCELLED)


def _left(progress: Progress, call: FunctionCall, words: str) -> Outcome:
    """What becomes of an open call: the result it has, or that there will be none."""
    if call.id in progress.started:
        words = f"{words} while this ran, and nobody knows whether it did"
    return recorded(progress, call) or Outcome(call, {"error": words})
