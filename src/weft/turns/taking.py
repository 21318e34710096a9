"""How a worker takes turns from a queue whose rows say who owns them.

The loop is the same for every such queue: take what there is room for, run it, write down what
came of it until the database has that. What is owned and not run, because an answer of the
database was lost, is given back; no recovery of others would ever find it, for its owner lives.
"""

import asyncio
import logging
import time
from collections.abc import Collection, Sequence
from typing import NamedTuple, Protocol

from weft.errors import StoreError
from weft.turns.turn import QueuedTurn, RunTurn, StopSignal, TurnEnd

_log = logging.getLogger("weft.turns")

_FIRST_PAUSE = 0.1

_LONGEST_PAUSE = 2.0
"""Seconds between two tries to reach a database that does not answer."""

_ADRIFT_EVERY = 5.0
"""Seconds between two looks for turns that this worker owns and does not run."""


class TakenTurn(NamedTuple):
    """A turn that this worker owns; without a turn it could not be read, for that reason."""

    id: str
    turn: QueuedTurn | None
    reason: str = ""


class TurnSource(Protocol):
    """A queue as one worker sees it."""

    async def take(self, most: int) -> Sequence[TakenTurn]:
        """Up to so many turns, which are this worker's from now on; none where there is none."""
        ...

    async def drop_adrift(self, running: Collection[str]) -> int:
        """Give back what this worker owns beside those that it runs; how many there were."""
        ...

    async def settle(self, id: str, outcome: TurnEnd) -> bool:
        """Write down what came of a turn; False where it is another worker's by now."""
        ...

    async def news(self) -> None:
        """Wait until there may be a turn to take."""
        ...


async def take_turns(source: TurnSource, run: RunTurn, *, slots: int, stop: StopSignal) -> None:
    """Run up to `slots` turns at once until the signal, and wait for those that run."""
    taking = _Taking(source, run, slots)
    stopping = asyncio.create_task(_signalled(stop))
    try:
        await taking.take(stopping)
        await taking.finish()
    finally:
        stopping.cancel()
        taking.cancel()


class _Taking:
    """The turns that a worker runs now."""

    def __init__(self, source: TurnSource, run: RunTurn, slots: int) -> None:
        self._source = source
        self._run = run
        self._slots = slots
        self._running: dict[str, asyncio.Task[None]] = {}
        self._freed = asyncio.Event()
        """A slot is free, and perhaps the next turn of its session can be taken."""
        self._looked = time.monotonic()

    async def take(self, stopping: "asyncio.Task[None]") -> None:
        """Take turns until it is time to stop."""
        pause = _FIRST_PAUSE
        while not stopping.done():
            room = self._slots - len(self._running)
            # before the look: a slot that is freed during it is noticed
            self._freed.clear()
            try:
                if time.monotonic() - self._looked >= _ADRIFT_EVERY:
                    await self._drop_adrift()
                # what is taken is owned, so never more than can be run
                taken = await self._source.take(room) if room > 0 else ()
            except StoreError as error:
                self._looked = 0.0  # the answer that was lost may have been a turn
                _log.warning("no turns can be taken: %s", error.message)
                await asyncio.wait([stopping], timeout=pause)
                pause = min(pause * 2, _LONGEST_PAUSE)
                continue
            pause = _FIRST_PAUSE
            for one in taken:
                self._running[one.id] = asyncio.create_task(self._carry_out(one))
            if not taken:
                await self._idle(stopping, is_full=room <= 0)

    async def finish(self) -> None:
        """Wait for what runs."""
        if self._running:
            await asyncio.wait([*self._running.values()])

    def cancel(self) -> None:
        """Stop what runs, because the loop itself was cancelled."""
        for task in self._running.values():
            task.cancel()

    async def _drop_adrift(self) -> None:
        adrift = await self._source.drop_adrift(self._running.keys())
        self._looked = time.monotonic()
        if adrift:
            _log.warning("%d turns were ours and not run: they are free again", adrift)

    async def _idle(self, stopping: "asyncio.Task[None]", *, is_full: bool) -> None:
        """Wait until there is something to do: a turn was put, or one of ours is over."""
        waits = [asyncio.create_task(_signalled(self._freed))]
        # with no free slot, new turns are none of our business
        if not is_full:
            waits.append(asyncio.create_task(self._source.news()))
        await asyncio.wait([stopping, *waits], return_when=asyncio.FIRST_COMPLETED)
        for one in waits:
            one.cancel()

    async def _carry_out(self, taken: TakenTurn) -> None:
        """Run a turn, and write down what came of it until the database has that."""
        outcome = TurnEnd("failed", taken.reason)
        try:
            if taken.turn is not None:
                outcome = await self._run(taken.turn)
            pause = _FIRST_PAUSE
            # the turn has been run: to forget that because the database is away would run it again
            while True:
                try:
                    if not await self._source.settle(taken.id, outcome):
                        _log.warning("turn %s is another worker's by now", taken.id)
                    return
                except StoreError as error:
                    _log.warning(
                        "turn %s is over and not ticked off yet: %s", taken.id, error.message
                    )
                await asyncio.sleep(pause)
                pause = min(pause * 2, _LONGEST_PAUSE)
        finally:
            del self._running[taken.id]
            self._freed.set()


async def _signalled(signal: StopSignal) -> None:
    await signal.wait()
