"""Runs that a server only puts into a queue: a worker runs them, the server follows their log.

Nothing of a turn is in this process, so to kill the server loses nothing. Top to bottom: a run in
the queue, and how it is put there.
"""

import asyncio
import logging
import time
from collections.abc import AsyncGenerator, Callable, Mapping, Sequence
from contextlib import aclosing, suppress
from typing import TypedDict, Unpack

import msgspec

from weft.content import Content, ContentLike, require_posted, to_content
from weft.errors import Conflict, RunError, SessionBusy
from weft.runtime import Runner
from weft.runtime.background import RunEnd, interrupt_session
from weft.runtime.feeds import Follower
from weft.runtime.resume import accept_answers, answers_by_event, content_of, last_invocation
from weft.server.problems import Problem, unknown_session
from weft.server.quotas import stored_tokens
from weft.session import Busy, Event, Session, SessionKey, Store
from weft.session.event import new_id
from weft.session.store import InSession
from weft.turns import QueuedTurn, TurnInfo, Turns
from weft.turns.turn import ClientTool, require_same
from weft.values import Json, JsonObject

_log = logging.getLogger("weft.server")

_LOOK_EVERY = 0.5
"""Seconds between two looks whether the turn is over, while its log does not grow."""

_DRAIN_LIMIT = 2.0
"""Seconds in which a reader has to read what is stored of a turn that is over."""

_LOOK_SOON = 0.05
"""The same, when the run has said its last word."""

_AHEAD = 100
"""How many events are read before the client has taken those before.

A client that does not read leaves the others to the feed, which forgets what is in the store.
"""


class QueuedRun(InSession):
    """A run that some worker has, had or will have."""

    def __init__(
        self,
        runner: Runner,
        turns: Turns,
        turn: QueuedTurn,
        id: str,
        *,
        after: int,
        repeated: bool,
        reader: Follower | None = None,
    ) -> None:
        self.key: SessionKey = turn.key
        self.id = id
        self.after = after
        self.repeated = repeated
        self._runner = runner
        self._turns = turns
        self._turn = turn
        self._reader = reader
        """Who joined before the turn was put, so that nothing of it is missed."""
        self.tokens = 0
        """What the turn used, once all that asked for it have been called."""
        self._to_tell: list[Callable[[RunEnd | BaseException], None]] = []
        self._watching: asyncio.Task[None] | None = None

    async def events(self) -> AsyncGenerator[Event, None]:
        """The events of this run, from what was said to how it ended.

        A turn that fails without an event in the log is an error here.
        """
        waiting: asyncio.Queue[Event] = asyncio.Queue(_AHEAD)
        reader, self._reader = self._reader, None
        reading = asyncio.create_task(self._follow_log(waiting, reader))
        position, pause = self.after, _LOOK_EVERY
        until: float | None = None
        try:
            while True:
                event: Event | None = None
                with suppress(TimeoutError):
                    async with asyncio.timeout(pause):
                        event = await waiting.get()
                if event is not None:
                    position = event.sequence or position
                    if event.invocation_id == self.id:
                        is_last = not event.partial and event.author != "user"
                        pause = _LOOK_SOON if is_last and _may_end(event) else _LOOK_EVERY
                        yield event
                    # the queue is asked only when the run may be over: it is another round trip
                    if not waiting.empty() or event.partial or pause == _LOOK_EVERY:
                        continue
                # an error of the reader, as of a deleted session, is raised here
                elif reading.done():
                    reading.result()
                info = await self._turns.find(self.key, self._turn.request_id)
                if info is not None and info.status in ("waiting", "running"):
                    continue
                # the turn is over, and its last events may not have reached the reader yet
                rest = await self._runner.store.events(self.key, after=position) or []
                if rest and reader is not None and not reading.done():
                    # the reader has their partial events too, and need only look
                    if until is None:
                        until = time.monotonic() + _DRAIN_LIMIT
                        reader.expect(position + len(rest))
                    if time.monotonic() < until:
                        continue
                for event in rest:
                    if event.invocation_id == self.id:
                        yield event
                self._require_end(info, is_logged=bool(rest) or position > self.after)
                return
        finally:
            reading.cancel()

    async def batches(self) -> AsyncGenerator[list[Event], None]:
        """The events of this run, each in a list of its own: they come one by one."""
        async with aclosing(self.events()) as events:
            async for event in events:
                yield [event]

    async def final_session(self) -> Session:
        """The session as the run left it."""
        session = await self._runner.store.get(self.key)
        if session is None:
            raise unknown_session(self.key.id)
        return session

    def unfollow(self) -> None:
        """Nobody will read the events."""
        reader, self._reader = self._reader, None
        if reader is not None:
            self._runner.leave(reader)

    def when_done(self, tell: Callable[[RunEnd | BaseException], None]) -> None:
        """Call a function when the turn is over; its result is in the log."""
        self._to_tell.append(tell)
        if self._watching is None:
            self._watching = asyncio.create_task(self._watch())

    def stop_watching(self) -> None:
        """The server stops: call nobody any more."""
        if self._watching is not None:
            self._watching.cancel()

    async def _watch(self) -> None:
        while True:
            if await self._is_over():
                break
            await asyncio.sleep(_LOOK_EVERY)
        for tell in self._to_tell:  # the tokens first: one of them may delete the session
            tell(RunError("the run was one of a worker", where=str(self.key)))

    async def _is_over(self) -> bool:
        """Whether the turn is over, and its tokens are counted; a failed look says nothing."""
        try:
            info = await self._turns.find(self.key, self._turn.request_id)
            if info is not None and info.status in ("waiting", "running"):
                return False
            store = self._runner.store
            self.tokens = await stored_tokens(store, self.key, self.id, self.after)
        except Exception as error:
            _log.warning("the turn %s cannot be looked up now: %s", self._turn.id, error)
            return False
        return True

    async def _follow_log(self, waiting: "asyncio.Queue[Event]", reader: Follower | None) -> None:
        """Follow the log of the session."""
        events = self._runner.events(
            user_id=self.key.user_id,
            session_id=self.key.id,
            after=self.after,
            follow=True,
            reader=reader,
        )
        try:
            async for event in events:
                await waiting.put(event)
        finally:
            await events.aclose()

    def _require_end(self, info: TurnInfo | None, *, is_logged: bool) -> None:
        if info is None or is_logged:
            return
        if info.status == "failed":
            raise RunError(info.reason, where=f"turn {info.turn.id}")
        if info.status == "cancelled":
            raise Problem(409, "run-cancelled", "the run was cancelled before it began")


def _may_end(event: Event) -> bool:
    """Whether the run may be over after this event."""
    return event.is_final_response() or event.error_code is not None


class RunWords(TypedDict, total=False):
    """What a run may be asked for in addition to its message, as `Runner.start` takes it."""

    state: Mapping[str, Json] | None
    answers: Mapping[str, object] | None
    retry: Sequence[str]
    invocation_id: str | None
    request_id: str | None
    follow: bool
    create: bool


async def queue_run(
    turns: Turns,
    runner: Runner,
    message: ContentLike | None,
    key: SessionKey,
    *,
    busy: Busy,
    options: Mapping[str, Json],
    tools: tuple[ClientTool, ...],
    output_schema: JsonObject | None,
    stream: bool,
    **asked: Unpack[RunWords],
) -> QueuedRun:
    """Put a run into the queue; what is wrong with it is raised here, as far as that is known.

    With `stream` the worker asks the model to stream. With `follow` the events of the run are
    read here, and no partial event of it is missed.
    """
    invocation_id, request_id = asked.get("invocation_id"), asked.get("request_id")
    stored = await runner.store.get(key)
    if stored is None and (message is None or not asked.get("create", True)):
        raise unknown_session(key.id)
    if message is not None:
        posted = require_posted(to_content(message), where="message")
        content: Content | None = posted
        request = request_id or invocation_id or new_id()
        id = request
        if stored is not None and any(one.function_response for one in posted.parts or ()):
            # results of tools that the client ran: the run that called them goes on
            content = await accept_answers(runner.store, stored, posted)
            id = answers_by_event(stored, content)[0][0].invocation_id
    else:
        assert stored is not None
        content, id = await _open_run(runner.store, stored, asked.get("answers"), invocation_id)
        request = new_id()
    turn = QueuedTurn(
        key=key,
        request_id=request,
        message=content,
        state=dict(asked.get("state") or {}),
        retry=tuple(asked.get("retry", ())),
        invocation_id=None if content is not None else id,
        # the session is made here; if it is deleted, the turn must not bring it back
        requires_session=True,
        options=dict(options),
        tools=tools,
        output_schema=output_schema,
        stream=stream,
        trace=runner.tracing.carry_trace() if runner.tracing is not None else "",
    )
    # an id that was made just now is known to nobody
    known = await turns.find(key, request) if request_id is not None else None
    require_same(known, turn)
    if request_id is not None and stored is not None and content is not None:
        # the turn may be pruned, and the log knows its message
        runner.find_message(stored, content, request_id)
    # a message that comes again must not stop, or be refused for, its own run
    if known is None:
        try:
            await _make_room(runner, key, busy)
        except SessionBusy:
            # the same message may have come twice at once, and a worker have it already
            known = await turns.find(key, request) if request_id is not None else None
            if known is None:
                raise
    length = len(stored.events) if stored is not None else 0
    if stored is None:
        with suppress(Conflict):  # another request was faster
            await runner.store.create(key)
    # before the turn is put: a worker may begin to stream at once
    follows = stream and asked.get("follow", False)
    reader = await runner.join(user_id=key.user_id, session_id=key.id) if follows else None
    try:
        if reader is not None:
            turn = msgspec.structs.replace(turn, follower=reader.name)
        is_new = known is None and await turns.put(turn)
        if not is_new and known is None:  # another request was faster
            require_same(await turns.find(key, request), turn)
    except BaseException:
        if reader is not None:
            runner.leave(reader)
        raise
    after = length
    if not is_new and stored is not None:  # it was put before: its events may be there already
        events = enumerate(stored.events)
        after = next((at for at, event in events if event.invocation_id == id), length)
    return QueuedRun(runner, turns, turn, id, after=after, repeated=not is_new, reader=reader)


async def _open_run(
    store: Store,
    session: Session,
    answers: Mapping[str, object] | None,
    invocation_id: str | None,
) -> tuple[Content | None, str]:
    """The answers as a message to those who asked, and the run that goes on with them."""
    content = content_of(session, answers or {})
    if content is None:
        return None, invocation_id or last_invocation(session)
    content = await accept_answers(store, session, content)
    return content, answers_by_event(session, content)[0][0].invocation_id


async def cancel_waiting(turns: Turns, key: SessionKey, *, most: int) -> bool:
    """Take the turns of a session out of the queue that somebody is to run now.

    One that was put for later, or again and again, is not one of them. `most` is how many turns of
    the app are looked at.
    """
    was_waiting = False
    for info in await turns.list(app_name=key.app_name, status="waiting", limit=most):
        turn = info.turn
        is_for_later = turn.every is not None or (info.due is not None and not turn.attempts)
        if turn.key == key and not is_for_later:
            was_waiting = await turns.cancel(turn.id) or was_waiting
    return was_waiting


async def _make_room(runner: Runner, key: SessionKey, busy: Busy) -> None:
    """Do with the run that has the session what the client asks for."""
    if busy == "interrupt":
        await interrupt_session(runner.store, key)
    elif busy == "reject" and await runner.store.holder(key) is not None:
        raise SessionBusy("another run has the session", where=str(key))
