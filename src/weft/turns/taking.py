"""How a worker takes turns from a queue whose rows say who owns them.

The loop is the same for every such queue: take what there is room for, run it, write down what
came of it until the database has that. What is owned and not run, because an answer of the
database was lost, is given back; no recovery of others would ever find it, for its owner lives.

A turn that ran in two workers when they died is a suspect. It runs while the worker owns nothing
else, so whoever finds the worker dead knows who did it, and blames no turn that ran beside it.
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


SUSPECT_PATIENCE = 30.0
"""Seconds that a suspect waits for the other turns of its worker, which takes no more meanwhile.

If they do not end, the worker goes on without it for as long, and waits twice as long next time.
"""

SUSPECT_REST = 1.0
"""Seconds between two suspects in a worker, in which it takes other turns."""


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
    stopping = asyncio.create_task(_signalled(stop))
    taking = _Taking(source, run, slots, stopping)
    try:
        await taking.take()
        await taking.finish()
    finally:
        stopping.cancel()
        taking.cancel()


class _Taking:
    """The turns that a worker runs now."""

    def __init__(
        self, source: TurnSource, run: RunTurn, slots: int, stopping: "asyncio.Task[None]"
    ) -> None:
        self._source = source
        self._run = run
        self._slots = slots
        self._stopping = stopping
        self._suspect: TakenTurn | None = None
        """The turn that runs alone, or waits for it: nothing else is taken."""
        self._patience = SUSPECT_PATIENCE
        self._rest_ends = 0.0
        """When the next suspect may wait here, by the monotonic clock."""
        self._running: dict[str, asyncio.Task[None]] = {}
        self._freed = asyncio.Event()
        """A slot is free, and perhaps the next turn of its session can be taken."""
        self._looked = time.monotonic()

    async def take(self) -> None:
        """Take turns until it is time to stop."""
        pause = _FIRST_PAUSE
        while not self._stopping.done():
            room = self._slots - len(self._running) if self._suspect is None else 0
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
                await asyncio.wait([self._stopping], timeout=pause)
                pause = min(pause * 2, _LONGEST_PAUSE)
                continue
            pause = _FIRST_PAUSE
            for one in taken:
                if one.turn is not None and one.turn.is_suspect and self._has_time_for_suspect():
                    self._suspect = one
                self._running[one.id] = asyncio.create_task(self._carry_out(one))
            if not taken:
                await self._idle(is_full=room <= 0)

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

    async def _idle(self, *, is_full: bool) -> None:
        """Wait until there is something to do: a turn was put, or one of ours is over."""
        waits = [asyncio.create_task(_signalled(self._freed))]
        # with no free slot, new turns are none of our business
        if not is_full:
            waits.append(asyncio.create_task(self._source.news()))
        await asyncio.wait([self._stopping, *waits], return_when=asyncio.FIRST_COMPLETED)
        for one in waits:
            one.cancel()

    async def _carry_out(self, taken: TakenTurn) -> None:
        """Run a turn, and write down what came of it until the database has that."""
        try:
            outcome = await self._outcome(taken)
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
            if self._suspect is taken:
                self._suspect = None
            self._freed.set()

    async def _outcome(self, taken: TakenTurn) -> TurnEnd:
        if taken.turn is None:
            return TurnEnd("failed", taken.reason)
        if not taken.turn.is_suspect:
            return await self._run(taken.turn)
        if self._suspect is not taken:  # one at a time, and others between them
            return TurnEnd("released", after=SUSPECT_REST)
        return await self._try_alone(taken.id, taken.turn)

    def _has_time_for_suspect(self) -> bool:
        return self._suspect is None and time.monotonic() >= self._rest_ends

    async def _try_alone(self, id: str, turn: QueuedTurn) -> TurnEnd:
        """Run a suspect when the worker owns nothing else, or leave it to another worker."""
        others = [task for other, task in self._running.items() if other != id]
        if others:
            ended = asyncio.create_task(asyncio.wait(others))
            await asyncio.wait(
                [ended, self._stopping],
                timeout=self._patience,
                return_when=asyncio.FIRST_COMPLETED,
            )
            if self._stopping.done() or not ended.done():
                ended.cancel()
                rest = 0.0 if self._stopping.done() else self._patience
                self._rest_ends = time.monotonic() + rest
                self._patience *= 2
                return TurnEnd("released", after=rest)
        try:
            # nor does the database count another turn as ours
            await self._source.drop_adrift([id])
        except StoreError as error:
            return TurnEnd("released", error.message, _LONGEST_PAUSE)
        self._patience = SUSPECT_PATIENCE
        if self._stopping.done():
            return TurnEnd("released")
        _log.warning("turn %s runs alone: %d workers died while they ran it", id, turn.kills)
        outcome = await self._run(turn)
        self._rest_ends = time.monotonic() + SUSPECT_REST
        return outcome


async def _signalled(signal: StopSignal) -> None:
    await signal.wait()
