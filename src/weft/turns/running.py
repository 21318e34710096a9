"""How a worker takes turns from a queue whose rows say who owns them, and how it runs one.

The loop is the same for every such queue: take what there is room for, run it, write down what
came of it until the database has that. What is owned and not run, because an answer of the
database was lost, is given back; no recovery of others would ever find it, for its owner lives.

A turn that ran in two workers when they died is a suspect. It runs while the worker owns nothing
else, so whoever finds the worker dead knows who did it, and blames no other turn.

A turn may be started any number of times, here or in another process. The request id, looked up
under the session's lease, makes it one; a run that was cut off before it is finished first.

Top to bottom: how turns are taken; the agent of their app, the outcome for the queue, handing over.
"""

import asyncio
import logging
import time
from collections.abc import Awaitable, Callable, Collection, Mapping, Sequence
from contextlib import suppress
from functools import partial
from typing import NamedTuple, Protocol, TypeVar

import msgspec

from weft.declare import RunConfig
from weft.errors import (
    LeaseLost,
    ModelError,
    RunError,
    RunUnfinished,
    SessionBusy,
    SessionError,
    StoreError,
    WeftError,
)
from weft.runtime import Result, Runner, Running
from weft.runtime.approvals import pending_in
from weft.runtime.metrics import Metrics, end_of_wait, model_names
from weft.session import Event
from weft.turns.turn import (
    NEEDS_PERSON,
    QueuedTurn,
    RunTurn,
    StopSignal,
    TurnEnd,
    Turns,
    UnreadableTurn,
    decode_turn,
    is_answer,
)

_log = logging.getLogger("weft.turns")

T = TypeVar("T")

_FIRST_RETRY = 0.1

_LONGEST_RETRY = 2.0
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

    @classmethod
    def read(cls, id: str, text: str, attempts: int, kills: int) -> "TakenTurn":
        """The turn that was written down."""
        try:
            return cls(id, decode_turn(text, id=id, attempts=attempts, kills=kills))
        except UnreadableTurn as error:
            # a newer Weft put it: it becomes a dead letter, and the others are run
            return cls(id, None, str(error))


async def ask_until_answered(ask: Callable[[], Awaitable[T]], words: str) -> T:
    """What the database answers, asked again while it is away; `words` say who waits for it."""
    pause = _FIRST_RETRY
    while True:
        try:
            return await ask()
        except StoreError as error:
            _log.warning("%s: %s", words, error.message)
        await asyncio.sleep(pause)
        pause = min(pause * 2, _LONGEST_RETRY)


class TurnSource(Protocol):
    """A queue as one worker sees it."""

    @property
    def is_told(self) -> bool:
        """Whether `news` ends for every turn that can be taken since the last look."""
        ...

    async def take(self, most: int) -> Sequence[TakenTurn]:
        """Up to `most` turns, which are this worker's from now on; none where there is none.

        For 0 the queue notes that this worker takes none: it is not woken for one.
        """
        ...

    async def drop_adrift(self, running: Collection[str]) -> int:
        """Give back what this worker owns and does not run; how many there were."""
        ...

    async def settle(self, id: str, outcome: TurnEnd) -> bool:
        """Write down what came of a turn; False where it is another worker's by now."""
        ...

    async def news(self) -> None:
        """Wait until there may be a turn to take."""
        ...


async def take_turns(source: TurnSource, run: RunTurn, *, slots: int, stop: StopSignal) -> None:
    """Run up to `slots` turns at once until the signal, and wait for those that run."""
    stopping = asyncio.create_task(stop.wait())
    loop = _TurnLoop(source, run, slots, stopping)
    try:
        await loop.take()
        with suppress(StoreError):  # workers with room look now and then as well
            await source.take(0)
        await loop.finish()
    finally:
        stopping.cancel()
        loop.cancel()


class _TurnLoop:
    """The turns that a worker runs now."""

    def __init__(
        self, source: TurnSource, run: RunTurn, slots: int, stopping: "asyncio.Task[object]"
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
        pause = _FIRST_RETRY
        while not self._stopping.done():
            room = self._slots - len(self._running) if self._suspect is None else 0
            # before the look: a slot that is freed during it is noticed
            self._freed.clear()
            try:
                if time.monotonic() - self._looked >= _ADRIFT_EVERY:
                    await self._drop_adrift()
                # what is taken is owned, so never more than can be run
                taken = await self._source.take(max(room, 0))
            except StoreError as error:
                self._looked = 0.0  # the answer that was lost may have been a turn
                _log.warning("no turns can be taken: %s", error.message)
                await asyncio.wait([self._stopping], timeout=pause)
                pause = min(pause * 2, _LONGEST_RETRY)
                continue
            pause = _FIRST_RETRY
            for one in taken:
                if one.turn is not None and one.turn.is_suspect and self._has_time_for_suspect():
                    self._suspect = one
                self._running[one.id] = asyncio.create_task(self._carry_out(one))
            # less than there is room for was all that there is
            if not taken or (len(taken) < room and self._source.is_told):
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
        waits: list[asyncio.Task[object]] = []
        # a worker with room that is woken for turns need not look because one has ended
        if is_full or not self._source.is_told:
            waits.append(asyncio.create_task(self._freed.wait()))
        # with no free slot, new turns do not concern us
        if not is_full:
            waits.append(asyncio.create_task(self._source.news()))
        await asyncio.wait([self._stopping, *waits], return_when=asyncio.FIRST_COMPLETED)
        for one in waits:
            one.cancel()

    async def _carry_out(self, taken: TakenTurn) -> None:
        """Run a turn, and write down what came of it until the database has that."""
        try:
            outcome = await self._outcome(taken)
            # the turn has been run: to forget that because the database is away would run it again
            settle = partial(self._source.settle, taken.id, outcome)
            words = f"turn {taken.id} is over and not ticked off yet"
            if not await ask_until_answered(settle, words):
                _log.warning("turn %s is another worker's by now", taken.id)
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
                [ended, self._stopping], timeout=self._patience, return_when=asyncio.FIRST_COMPLETED
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
            return TurnEnd("released", error.message, _LONGEST_RETRY)
        self._patience = SUSPECT_PATIENCE
        if self._stopping.done():
            return TurnEnd("released")
        _log.warning("turn %s runs alone: %d workers died while they ran it", id, turn.kills)
        outcome = await self._run(turn)
        self._rest_ends = time.monotonic() + SUSPECT_REST
        return outcome


# --- how one turn is run

ATTEMPTS = 6
"""How often a turn that fails is run, unless a worker says otherwise."""

_FIRST_PAUSE = 1.0
"""Seconds before a turn that failed is tried again; the next pauses are three times as long."""

_LONGEST_PAUSE = 600.0

_LEASE_PATIENCE = 10.0
"""Seconds that a turn waits in its slot for a session that a run outside of the queue has."""

_DEAD_LETTERS = 1_000
"""How many dead letters of an app are looked at for those that somebody has answered."""

_FOR_GOOD = frozenset(("auth", "not_found", "bad_request", "context_overflow"))
"""Codes of failures that another try would only repeat, or must not repeat."""


class TurnRunner:
    """Runs the turns of some apps, and counts what came of them."""

    def __init__(
        self, runners: Mapping[str, Runner], turns: Turns, *, attempts: int = ATTEMPTS
    ) -> None:
        self._runners = dict(runners)
        self._turns = turns
        self._attempts = attempts
        self._configs = {
            app: msgspec.structs.replace(
                runner.config,
                # the queue is asked first whether the run that was cut off was given up
                unfinished="reject",
                busy="queue",
                count_tokens=True,
                queue_timeout=runner.config.queue_timeout or _LEASE_PATIENCE,
            )
            for app, runner in self._runners.items()
        }
        self._streaming = {
            app: msgspec.structs.replace(config, stream=True)
            for app, config in self._configs.items()
        }
        self._models = {
            app: model_names(runner.root, runner.config) for app, runner in self._runners.items()
        }
        self.numbers = Metrics()
        """The runs of the turns, and what they cost."""
        self._running: dict[asyncio.Task[Result], Running] = {}
        self._is_handing_over = False
        self.outcomes: dict[tuple[str, str], int] = {}
        """How many turns ended how, by app and kind of outcome."""
        self.seconds: dict[str, float] = {}
        """How long the turns of an app took together."""

    @property
    def apps(self) -> tuple[str, ...]:
        """The apps whose turns it runs."""
        return tuple(self._runners)

    @property
    def active(self) -> int:
        """How many turns run now."""
        return len(self._running)

    async def __call__(self, turn: QueuedTurn) -> TurnEnd:
        """Run a turn to its end, and say what came of it."""
        begun = time.monotonic()
        outcome = await self._outcome(turn)
        app = turn.key.app_name
        is_open = outcome.reason.startswith(NEEDS_PERSON)
        kind = "needs_person" if is_open else outcome.kind
        self.outcomes[app, kind] = self.outcomes.get((app, kind), 0) + 1
        self.seconds[app] = self.seconds.get(app, 0.0) + time.monotonic() - begun
        if outcome.kind in ("again", "failed"):
            _log.warning(
                "turn %s of %s %s: %s",
                turn.request_id,
                turn.key,
                "failed" if outcome.kind == "failed" else f"is tried in {outcome.after:g} s again",
                outcome.reason,
            )
        return outcome

    def hand_over(self) -> None:
        """Stop all turns without a word in their logs, so that another worker goes on."""
        self._is_handing_over = True
        for task, running in self._running.items():
            running.invocation.control.hand_over()
            task.cancel()

    async def _outcome(self, turn: QueuedTurn) -> TurnEnd:
        # taken at the moment in which this worker was stopped
        if self._is_handing_over:
            return TurnEnd("released")
        try:
            # first: a schedule must not end because one of its turns fails
            if turn.every is not None:
                await self._put_next(turn)
            begun = time.time(), time.monotonic()
            result = await self._run(turn)
            outcome = self._judge(turn, result)
            if result is not None:
                self._count(turn, result, outcome, *begun)
            if outcome.kind == "done" and is_answer(turn):
                await self._settle_answered(turn)
            return outcome
        except LeaseLost as error:  # the worker that has the session now goes on with it
            return TurnEnd("released", str(error))
        except SessionBusy as error:
            # a run outside of the queue has the session: this counts as no attempt
            return TurnEnd("released", str(error), _FIRST_PAUSE)
        except (StoreError, ModelError, RunError) as error:
            return self._again(turn, str(error))
        except WeftError as error:
            # what is declared or sent wrong stays wrong
            return TurnEnd("failed", str(error))
        except Exception as error:
            _log.exception("turn %s of %s", turn.request_id, turn.key)
            return self._again(turn, f"{type(error).__name__}: {error}")
        except asyncio.CancelledError:
            task = asyncio.current_task()
            # we cancelled the run, and nobody cancelled this task
            if self._hands_over() and not (task is not None and task.cancelling()):
                return TurnEnd("released")
            raise

    def _hands_over(self) -> bool:
        return self._is_handing_over

    async def _put_next(self, turn: QueuedTurn) -> None:
        """Put the next turn of a schedule, before this one can fail; twice is once."""
        name, mark, count = turn.request_id.rpartition("#")
        if not mark or not count.isdecimal():
            name, count = turn.request_id, "1"
        # the id counts up, so that the next turn is known if it is put twice
        following = msgspec.structs.replace(
            turn, request_id=f"{name}#{int(count) + 1}", attempts=0, kills=0, id="", follower=None
        )
        await self._turns.put(following, delay=turn.every or 0.0)

    async def _run(self, turn: QueuedTurn) -> Result | None:
        """What came of the run; None where its session was deleted, perhaps while it waited."""
        app = turn.key.app_name
        runner, config = (
            self._runners[app],
            (self._streaming if turn.stream else self._configs)[app],
        )
        if turn.trace and runner.tracing is not None:
            runner.tracing.continue_trace(turn.trace)
        if turn.options:
            options = {**config.generate_config, **turn.options}
            config = msgspec.structs.replace(config, generate_config=options)
        try:
            result = await self._run_in(runner, turn, config)
            if turn.retries and result.repeated and _is_over(result):
                # its run has ended in the log: who had it taken again wants it said once more
                anew = f"{turn.request_id}~{turn.retries}"
                turn = msgspec.structs.replace(turn, request_id=anew, requires_session=True)
                result = await self._run_in(runner, turn, config)
        except SessionError:
            # the session was deleted: nobody wants the answer
            if not await runner.store.lengths([turn.key]):
                return None
            raise
        return result

    async def _run_in(self, runner: Runner, turn: QueuedTurn, config: RunConfig) -> Result:
        """Run a turn, after the run that was cut off before it, if there is one."""
        try:
            return await self._carry(self._start_run(runner, turn, config))
        except RunUnfinished as error:
            await self._end_given_up(runner, turn, error.invocation_id)
        config = msgspec.structs.replace(config, unfinished="resume")
        return await self._carry(self._start_run(runner, turn, config))

    def _start_run(self, runner: Runner, turn: QueuedTurn, config: RunConfig) -> Running:
        """The run of a turn, which makes its session only if nobody has deleted that.

        Whoever deletes a session deletes its turns: one that is gone from the queue is of the past.
        """
        running = start_turn(runner, turn, config)
        if turn.id and not turn.requires_session:

            async def is_queued() -> bool:
                return await self._turns.find(turn.key, turn.request_id) is not None

            running.invocation.control.may_create = is_queued
        return running

    async def _end_given_up(self, runner: Runner, turn: QueuedTurn, invocation_id: str) -> None:
        """End the run that was cut off before this one, if the queue has given it up.

        To go on with it would kill this worker too, or run what somebody cancelled.
        """
        earlier = await self._turns.find(turn.key, invocation_id)
        if earlier is not None and earlier.status in ("failed", "cancelled"):
            ending = runner.resume(
                user_id=turn.key.user_id, session_id=turn.key.id, invocation_id=invocation_id
            )
            ending.invocation.control.asked_to_stop = True  # before it does anything
            await self._carry(ending)

    async def _carry(self, running: Running) -> Result:
        """The result of a run, which can be handed over meanwhile."""
        task = asyncio.get_running_loop().create_task(_result_of(running))
        self._running[task] = running
        try:
            # shielded, so that the run can be handed over before it is cancelled
            return await asyncio.shield(task)
        except asyncio.CancelledError:
            if not task.done():  # somebody cancelled us: to the log, the process has died
                running.invocation.control.hand_over()
                task.cancel()
                with suppress(asyncio.CancelledError, Exception):
                    await task
            raise
        finally:
            del self._running[task]

    def _judge(self, turn: QueuedTurn, result: Result | None) -> TurnEnd:
        if result is None:
            return TurnEnd("failed", "its session was deleted")
        error = result.error
        if error is None:
            unknown = _unknown_calls(result)
            return TurnEnd("failed", unknown) if unknown else TurnEnd("done")
        words = f"{error.error_code}: {error.error_message}"
        # somebody stopped it: to try again would undo that
        if error.interrupted:
            return TurnEnd("cancelled", words)
        # to try again would answer in the middle of a later talk
        if result.repeated and _went_on(result, error):
            hint = "the conversation went on without it: send the message anew"
            return TurnEnd("failed", f"{words}; {hint}")
        if error.error_code in _FOR_GOOD:
            return TurnEnd("failed", words)
        return self._again(turn, words)

    def _count(
        self, turn: QueuedTurn, result: Result, outcome: TurnEnd, since: float, begun: float
    ) -> None:
        """Count the run of a turn, and what it cost, by agent and model."""
        app, events = turn.key.app_name, result.events
        # a run that goes on gives its earlier events again: another worker has counted them
        if result.repeated:
            events = tuple(event for event in events if event.timestamp >= since)
        is_waiting = bool(result.waiting) and result.error is None
        words = {"done": "done", "cancelled": "cancelled"}
        word = end_of_wait(events) if is_waiting else words.get(outcome.kind, "error")
        self.numbers.note_run(app, time.monotonic() - begun, word, events, self._models[app])

    async def _settle_answered(self, turn: QueuedTurn) -> None:
        """Look again at the turns of a session for which somebody has said what a call did."""
        app = turn.key.app_name
        try:
            for info in await self._turns.list(app_name=app, status="failed", limit=_DEAD_LETTERS):
                # its run is over, or asks something else by now: the worker that takes it sees that
                if info.needs_person and info.turn.key == turn.key:
                    await self._turns.retry(info.turn.id)
        except StoreError as error:
            _log.warning("a dead letter of %s is not looked at again: %s", turn.key, error.message)

    def _again(self, turn: QueuedTurn, reason: str) -> TurnEnd:
        if turn.attempts + 1 >= self._attempts:
            return TurnEnd("failed", reason)
        return TurnEnd("again", reason, pause_after(turn.attempts))


def pause_after(attempts: int) -> float:
    """Seconds until a turn is tried again that failed `attempts` times before."""
    return min(_FIRST_PAUSE * 3.0**attempts, _LONGEST_PAUSE)


def start_turn(runner: Runner, turn: QueuedTurn, config: RunConfig) -> Running:
    """The run of a turn: its message, its answers, or what is open in the session."""
    running = _begin_run(runner, turn, config)
    if turn.tools or turn.output_schema is not None:
        tools = [one.tool() for one in turn.tools]
        running = running.of(runner.extended(tools, turn.output_schema))
    running.invocation.control.follower = turn.follower
    if turn.requires_session:
        request = running.invocation.request
        running.invocation.request = msgspec.structs.replace(request, create=False)
    return running


def _begin_run(runner: Runner, turn: QueuedTurn, config: RunConfig) -> Running:
    user_id, session_id = turn.key.user_id, turn.key.id
    if turn.message is None:
        return runner.resume(
            user_id=user_id,
            session_id=session_id,
            retry=turn.retry,
            invocation_id=turn.invocation_id,
            config=config,
        )
    return runner.run(
        turn.message,
        user_id=user_id,
        session_id=session_id,
        state=turn.state or None,
        # an answer that comes twice is taken once anyway
        request_id=None if is_answer(turn) else turn.request_id,
        config=config,
    )


def _unknown_calls(result: Result) -> str:
    """Why a run needs a person: the calls with an unknown outcome; empty for none."""
    if not result.waiting:
        return ""
    own = {
        call.id
        for event in result.session.events
        if event.invocation_id == result.invocation_id
        for call in event.calls
    }
    unknown = [
        f"{one.name} ({one.call_id})"
        for one in pending_in(result.session)
        if one.kind == "unknown" and one.call_id in own
    ]
    if not unknown:
        return ""
    return f"{NEEDS_PERSON}: nobody knows whether {', '.join(unknown)} ran, for its process died"


async def _result_of(running: Running) -> Result:
    return await running


def _is_over(result: Result) -> bool:
    """Whether the run of a repeated request has ended without an answer that will still come."""
    error = result.error
    return error is not None and (bool(error.interrupted) or _went_on(result, error))


def _went_on(result: Result, error: Event) -> bool:
    """Whether a later run has said something since the one that failed."""
    return result.session.events[-1].invocation_id != error.invocation_id
