"""A run under way: iterate it for its events, or await it for its result.

Top to bottom: what users hold, the run itself, how it is opened, and what it needs to start.
"""

import asyncio
import warnings
from collections.abc import AsyncGenerator, AsyncIterator, Coroutine, Generator, Mapping
from typing import TYPE_CHECKING, Any, Generic, cast

import msgspec

from weft.content import Content
from weft.declare import Agent, Node
from weft.declare.agent import AnswerT, find_path
from weft.declare.config import find_missing_inputs
from weft.errors import (
    CallError,
    RunUnfinished,
    SessionBusy,
    SessionError,
    UnknownName,
    UsageError,
)
from weft.runtime.costs import require_prices
from weft.runtime.earlier import find_request, is_settled, is_unfinished
from weft.runtime.flow import ANYBODY, add_label
from weft.runtime.invocation import Invocation, Request, Services
from weft.runtime.place import (
    ROOT,
    Interrupted,
    NodeFailed,
    Suspended,
    finish_even_if_cancelled,
    path_of,
    place_of,
    root_place,
)
from weft.runtime.plugins import RunOutcome, after_run, unless_answered
from weft.runtime.program import Program
from weft.runtime.result import Result, find_part, result_of
from weft.runtime.resume import (
    accept_answers,
    answers_by_event,
    answers_in,
    check_retries,
    content_of,
    last_invocation,
    new_answers,
    state_beside,
)
from weft.runtime.turn import run_agent
from weft.session import Actions, Event, Lease, MemoryStore, Session, SessionKey
from weft.session.event import new_id, scope_of
from weft.session.flow import flow_of
from weft.session.lookback import find_invocation, hidden_in
from weft.stores import create_filled
from weft.values import Json

if TYPE_CHECKING:
    from weft.runtime.branches import Streams


class Running(Coroutine[object, None, Result[AnswerT]], Generic[AnswerT]):
    """A run: `async for event in run` gives its events, `await run` its result.

    It starts when it is first iterated or awaited. Every complete event is stored before it is
    given; the next step begins when the next event is asked for. It is a coroutine too, so that
    `asyncio.run`, `create_task` and `gather` take it.
    """

    _is_used = True
    """Whether somebody iterates or awaits it. A run whose `__init__` raised counts as used."""

    def __init__(self, root: Node, services: Services, request: Request) -> None:
        # The invocation must not know this object: a run that nobody iterates any more, as after
        # a `break`, falls out of memory, and so stops and lets the next one have the session.
        self._invocation = Invocation(root, services, request)
        self._events: AsyncGenerator[Event, None] = _events(self._invocation)
        self._awaited: Coroutine[object, None, Result[AnswerT]] | None = None
        self._passed: list[Event] = []
        """The complete events that `values` has read, for the result."""
        self._is_used = request.content is None  # a message that is never said is a slip

    def alone(self, session: Session | None, *, owned: bool) -> "Running[AnswerT]":
        """The same run, on a store that gets this session first and may be closed after it."""
        invocation = self._invocation
        self._is_used = True
        request = msgspec.structs.replace(invocation.request, seed=session, owned=owned)
        return Running(invocation.root, invocation.services, request)

    def queued(self) -> "Running":
        """The same run, which waits for the one that has the session."""
        invocation = self._invocation
        self._is_used = True
        config = msgspec.structs.replace(invocation.request.config, busy="queue")
        request = msgspec.structs.replace(invocation.request, config=config)
        return Running(invocation.root, invocation.services, request)

    def of(self, root: Node) -> "Running":
        """The same run of another root."""
        invocation = self._invocation
        self._is_used = True
        return Running(root, invocation.services, invocation.request)

    @property
    def invocation(self) -> Invocation:
        """What the run shares with its nodes: for whoever carries it on."""
        return self._invocation

    def __aiter__(self) -> AsyncIterator[Event]:
        self._is_used = True
        return self._events

    def __anext__(self) -> "asyncio.Future[Event]":
        self._is_used = True
        return self._events.__anext__()  # type: ignore[return-value]

    async def values(self) -> AsyncGenerator[AnswerT, None]:
        """The answer as it grows: values of its type, each with more of it; the last is whole.

        What is complete in a value is validated, a field that has not come is its default or
        None. A text grows too. The last value is `result.value`; a run that ends with an error
        raises it, and one that waits for an answer ends without a whole value. Await the run
        afterwards for its result.
        """
        from weft.partial import NOTHING, PartialValue  # for those who follow a value

        growing: dict[str, PartialValue] = {}
        newest: object = NOTHING
        async for event in self:
            if not event.partial:
                self._passed.append(event)
            if event.void:
                growing.pop(event.id, None)
            if not event.partial or not event.text or event.isolation_scope:
                continue
            if event.id not in growing:
                agent = self._invocation.program.with_schema.get(event.author)
                growing[event.id] = PartialValue(agent.output_schema if agent is not None else None)
            value = growing[event.id].add(event.text)
            if value is not NOTHING and value != newest:
                newest = value
                yield cast("AnswerT", value)
        result = result_of(self._invocation, tuple(self._passed)).check()
        if result.value is not None:
            yield result.value

    async def aclose(self) -> None:
        """Stop the run; the log stays consistent and the session can go on."""
        self._is_used = True
        await self._events.aclose()

    def __await__(self) -> Generator[object, None, Result[AnswerT]]:
        self._is_used = True
        return _collect_result(self._invocation, self._events, self._passed).__await__()

    def send(self, value: None) -> object:
        """The next step of `await`, for whoever drives coroutines."""
        return self._coroutine().send(value)

    def throw(self, *raised: object) -> object:
        """Raise where the run waits, as a cancelled task does."""
        return self._coroutine().throw(*raised)  # type: ignore[call-overload]

    def close(self) -> None:
        """Give up a run that was never started, or is over."""
        self._is_used = True
        if self._awaited is not None:
            self._awaited.close()

    def _coroutine(self) -> Coroutine[object, None, Result[AnswerT]]:
        self._is_used = True
        if self._awaited is None:
            self._awaited = _collect_result(self._invocation, self._events, self._passed)
        return self._awaited

    def __repr__(self) -> str:
        about = "" if self._is_used else ", not started: await it, or use weft.run_sync"
        return f"<run of `{self._invocation.root.name}`{about}>"

    def __del__(self) -> None:
        if not self._is_used:
            warnings.warn(
                f"the run of `{self._invocation.root.name}` was never started: write await"
                ' weft.run(agent, "message"), or weft.run_sync(agent, "message")',
                RuntimeWarning,
                stacklevel=2,
            )

    if not TYPE_CHECKING:

        def __getattr__(self, name: str) -> object:
            """Say that the run must be waited for before there is an answer."""
            part = find_part(name)
            self._is_used = self._is_used or bool(part)  # the error says it: no warning after it
            raise UnknownName(
                f"this is a run that has not been waited for: it has no `{name}` yet"
                if part
                else f"a run has no `{name}`",
                where=type(self).__name__,
                hint=f'write (await weft.run(agent, "message")).{part},'
                f' or weft.run_sync(agent, "message").{part} without async'
                if part
                else "await it for its result, or write async for event in it",
            )

        def __iter__(self) -> object:
            """Say that events come one by one, with waiting between them."""
            raise CallError(
                "the events of a run are waited for",
                where=type(self).__name__,
                hint="write async for event in run: ...; or await it, and read result.events",
            )


async def _collect_result(
    invocation: Invocation, events: AsyncGenerator[Event, None], passed: list[Event]
) -> Result[Any]:
    complete = [event async for event in events if not event.partial]
    return result_of(invocation, (*passed, *complete))


async def _events(
    invocation: Invocation, lease: Lease | None = None
) -> AsyncGenerator[Event, None]:
    """The events of the run: take the lease, finish what was cut off, run the root, let go.

    A run that is finished for a later one has the lease of that, and leaves it alone.
    """
    services, request, loop = invocation.services, invocation.request, asyncio.get_running_loop()
    control, log = invocation.control, invocation.log
    shared = lease is not None
    program = services.program(invocation.root)
    # what is wrong with the call is said before the session is taken
    if request.config.budget is not None:
        require_prices(invocation.root, request.config)
    if program.deps_types:
        program.require_deps(request.deps)
    try:
        if lease is None:
            lease = await _lease(invocation)
            log.feed = services.feeds.begin(
                request.key, streams=request.config.stream, follower=control.follower
            )
        session: Session | None = None
        if request.config.unfinished != "leave" and _is_message(request.content):
            session = await _finish_earlier(invocation, lease)
        await _open(invocation, program, session)
        control.is_open = True
        if control.opened is not None:
            control.opened()
        # a later run may have asked while this one still opened the session
        control.interrupted = control.asked_to_stop
        if invocation.is_repeated:
            # while the reader has its turn there is nothing to cancel: the task is the reader's own
            control.task = None
            for event in log.events():
                if event.author != "user":
                    yield event
            if invocation.is_settled:
                # the run was complete before: what the log has is all there is
                return
            control.task = asyncio.current_task()
        if isinstance(invocation.root, Agent):
            events = run_agent(invocation, ROOT, invocation.root, invocation.start)
        else:
            from weft.runtime.flows import run_node  # an agent alone needs no flows

            events = run_node(invocation, root_place(invocation.root), invocation.root)
        if services.plugins:
            events = unless_answered(invocation, events)
        outcome = RunOutcome("done")
        streams = _streams() if request.config.stream else None
        interrupted = False
        try:
            if control.interrupted:
                raise Interrupted
            async for event in events:
                control.task = None
                if streams is not None:
                    streams.note(event)
                    if event.partial:
                        log.feed.pass_on(event, len(log.session.events))
                yield event
                control.task = asyncio.current_task(loop)
                if control.interrupted:
                    raise Interrupted
        except Suspended:
            outcome = RunOutcome("waiting")
        except NodeFailed as failure:
            invocation.failure = failure
            outcome = RunOutcome("error", failure.event, failure.cause)
        except Interrupted:
            # the task was cancelled only to end the run: its caller must not be cancelled too
            control.take_back()
            await events.aclose()
            interrupted = True
        except asyncio.CancelledError:
            # whoever cancelled the task meant all of it, not just this run
            if not control.take_back():
                await _settle_cancelled(invocation)
                raise
            interrupted = True
        except GeneratorExit:
            # the reader left its loop: what runs is closed first, so its last events are stored
            try:
                await finish_even_if_cancelled(events.aclose())
            finally:
                await _settle_cancelled(invocation)
            raise
        except BaseException as error:
            if invocation.announced:
                await after_run(invocation, RunOutcome("error", error=error))
            raise
        finally:
            control.task = None
        if interrupted:
            from weft.runtime.batch import CANCELLED, INTERRUPTED, stop  # few runs are stopped

            why = CANCELLED if log.feed.is_cancelled else INTERRUPTED
            last = await finish_even_if_cancelled(stop(invocation, invocation.author, why))
            if invocation.announced:
                await after_run(invocation, _stopped_by(last))
            # readers are told to drop the pieces of answers that will never be complete
            unfinished = streams.end_unfinished() if streams is not None else []
            for void in unfinished:
                log.feed.pass_on(void, len(log.session.events))
            if not shared:
                await _let_go(invocation, lease)  # the later run need not wait for these events
            for void in unfinished:
                yield void
            if last is not None:
                yield last
            return
        if invocation.announced:
            await after_run(invocation, outcome)
        if outcome.error is not None:
            raise outcome.error from None
    finally:
        if not shared:
            await _let_go(invocation, lease)
        # `weft.run` opened the store for this run alone
        if request.owned:
            await services.store.close()


async def _let_go(invocation: Invocation, lease: Lease | None) -> None:
    """Give the session back. Readers are told after that: who sees the end may begin anew."""
    feeds = invocation.services.feeds
    feed, invocation.log.feed = invocation.log.feed, feeds.idle
    feeds.end(feed)
    try:
        if lease is not None:
            await lease.release()
    finally:
        invocation.control.has_let_go = True
        feeds.let_go(feed)


async def _finish_earlier(invocation: Invocation, lease: Lease) -> Session | None:
    """Finish the run that was cut off before this one, or refuse the message.

    Gives the session, if it is as it was: under the lease nobody else changes it.
    """
    request, services = invocation.request, invocation.services
    session = await services.store.get(request.key)
    if session is None or not is_unfinished(invocation.root, session):
        return session
    id = last_invocation(session)
    if id == request.request_id:
        return session  # the message is that of the run: it goes on with it
    if request.config.unfinished == "reject":
        raise RunUnfinished(
            f"the run `{id}` before was cut off and is not finished",
            where=str(request.key),
            hint='resume it, or send the message with RunConfig(unfinished="resume")',
            invocation_id=id,
        )
    earlier = Invocation(
        invocation.root,
        services,
        Request(request.key, request.config, invocation_id=id, deps=request.deps),
    )
    invocation.control.earlier = earlier.control
    # readers of the session see this run end too, and whoever stops the new one stops it
    earlier.log.feed = invocation.log.feed
    earlier.control.asked_to_stop = invocation.control.asked_to_stop
    try:
        async for _ in _events(earlier, lease):
            pass
    except Exception:
        session = await services.store.get(request.key)
        # what failed for good is over, and the log says so
        if session is None or is_unfinished(invocation.root, session):
            raise
    finally:
        invocation.control.earlier = None
    return None


def _streams() -> "Streams":
    from weft.runtime.branches import Streams

    return Streams()


async def _settle_cancelled(invocation: Invocation) -> None:
    """Leave a log that is whole, and tell the plugins."""
    # to whoever goes on, this looks as if the process had died
    if invocation.control.is_handed_over:
        return
    from weft.runtime.batch import CANCELLED, stop_quietly

    last: Event | None = invocation.event(invocation.author, ROOT, error=CANCELLED)
    try:
        last = await finish_even_if_cancelled(stop_quietly(invocation, invocation.author))
    finally:  # not in a task of its own: what plugins keep in context variables is here
        if invocation.announced:
            await after_run(invocation, _stopped_by(last))


def _stopped_by(last: Event | None) -> RunOutcome:
    """How a run ended that was stopped: where nothing was left to stop, it was done."""
    return RunOutcome("cancelled", last) if last is not None else RunOutcome("done")


async def _lease(invocation: Invocation) -> Lease:
    """The right to run the session, or an error once the time to wait for it is over."""
    request, seconds = invocation.request, invocation.config.queue_timeout
    store, busy = invocation.services.store, request.config.busy
    if busy == "interrupt" and request.request_id is not None:
        # the log is read before the lease is asked for: asking would stop the run
        session = await store.get(request.key)
        if session is not None and find_invocation(session.events, request.request_id) is not None:
            busy = "queue"  # a message that comes again must not stop its own run
    waiting = store.lease(request.key, busy=busy, interrupt=invocation.control.interrupt)
    if seconds is None:
        return await waiting
    scope = asyncio.timeout(seconds)
    try:
        async with scope:
            return await waiting
    except TimeoutError:
        # the store timed out, not our wait for the session
        if not scope.expired():
            raise
        raise SessionBusy(
            f"another run has had the session for {seconds:g} seconds",
            where=str(request.key),
            hint='wait longer with queue_timeout=, or stop it with busy="interrupt"',
        ) from None


def _is_message(content: Content | None) -> bool:
    """Whether it is something new that the user says, and not answers to open calls."""
    return content is not None and all(
        part.function_response is None for part in content.parts or ()
    )


async def _open(invocation: Invocation, program: Program, session: Session | None) -> None:
    """Enter the session with the user's message, or go on there with answers or with nothing."""
    request, store = invocation.request, invocation.services.store
    if session is None:
        session = await store.get(request.key)
    content, inputs = request.content, program.inputs
    is_new = _is_message(content)
    if session is None:
        permit = invocation.control.may_create
        if not is_new or not request.create or (permit is not None and not await permit()):
            raise await unknown_session(invocation.services, request.key)
        # before the session is made: a run that cannot start leaves no empty session
        _require_plain(inputs, request)
        if isinstance(store, MemoryStore):  # it never waits, so nothing can cut it short
            session = await _create_session(invocation)
        else:
            session = await finish_even_if_cancelled(_create_session(invocation))
    elif _is_repeated(invocation, session, program):
        return
    # answers have no id of their own: they go to the invocation that asked
    id = request.request_id or request.invocation_id or new_id() if is_new else ""
    if is_new and inputs:
        require_inputs(inputs, {**session.state_for(id), **request.state})
    elif inputs:
        _require_begun(inputs, request, session)
    program = program.infer_writers(session, request.config, request.state)
    invocation.control.task = asyncio.current_task()
    if is_new:
        if isinstance(program.root, Agent):
            invocation.start = agent_for(program.root, session)
        invocation.enter(session, id, program, resumed=False)
        actions = Actions(state_delta=request.state)
        if content is not None and any(part.inline_data for part in content.parts or ()):
            from weft.runtime.payloads import keep_large

            # large files go to the artifacts, so that the log stays small
            message = await keep_large(invocation, content.parts or ())
            content = msgspec.structs.replace(content, parts=message.parts)
            actions = Actions(state_delta=request.state, artifact_delta=message.artifacts)
        message_event = invocation.event("user", ROOT, content, actions=actions)
        if request.config.user == "untrusted":
            message_event = add_label(message_event, flow_of(message_event).label | ANYBODY)
        await invocation.store(message_event)
        return
    check_retries(session, request.retry)
    content = content or content_of(session, request.answers)
    if content is None:
        id = request.invocation_id or last_invocation(session)
        _go_on(invocation, session, id, program)
        return
    from weft.runtime.approvals import check_edited
    from weft.runtime.flows import check_decisions

    answered = answers_by_event(session, await accept_answers(store, session, content))
    check_edited(program.root, answered)
    _go_on(invocation, session, answered[0][0].invocation_id, program)
    actions, events = Actions(state_delta=request.state), list[Event]()
    known = answers_in(session)
    for asked, answers in answered:
        check_decisions(asked, answers)
        # an answer that the log has is not stored again: it may have been sent twice
        news = new_answers(known, answers)
        if written := state_beside(session, request.answers, news):
            actions = Actions(state_delta={**actions.state_delta, **written})
        if news is not None or actions.state_delta:
            events.append(invocation.event("user", place_of(asked), news, actions=actions))
            actions = Actions()
    if events:
        await invocation.commit_all(events)
    # once more, from a log that has the answers
    _go_on(invocation, invocation.log.session, invocation.id, program)


def _is_repeated(invocation: Invocation, session: Session, program: Program) -> bool:
    """Whether the log has the request already; then the run goes on with what it began."""
    request = invocation.request
    altered = bool(invocation.services.on_event)
    if find_request(session, request, altered=altered) is None:
        return False
    id = request.request_id or ""
    program = program.infer_writers(session, request.config, request.state)
    invocation.control.task = asyncio.current_task()
    _go_on(invocation, session, id, program)
    invocation.is_repeated = True
    invocation.is_settled = is_settled(session, id)
    return True


def _go_on(invocation: Invocation, session: Session, id: str, program: Program) -> None:
    """Take up an invocation of the session where it stopped."""
    first = find_invocation(session.events, id)
    # what was rewound cannot be taken up: its events are hidden from every request
    if first is None or first in hidden_in(session.events):
        raise SessionError(
            f"there is no invocation `{id}`",
            where=f"session {session.id}",
            hint="leave invocation_id out to resume the last one",
        )
    if isinstance(program.root, Agent):
        # the agent that the message went to then, whoever leads the conversation now
        invocation.start = agent_for(program.root, session.before(first))
    invocation.enter(session, id, program, resumed=True)


async def _create_session(invocation: Invocation) -> Session:
    """A new session, with what it is to begin with."""
    request, store = invocation.request, invocation.services.store
    seed = request.seed
    if seed is None:
        return await store.create(request.key)
    if isinstance(store, MemoryStore):
        return await store.take(request.key, seed)
    return await create_filled(store, request.key, [*seed.events], state=seed.initial)


def _require_plain(inputs: Mapping[str, object], request: Request) -> None:
    """Refuse to make a session for a run that cannot start.

    Keys of the user and the app may be in the store already, so they are looked at later.
    """
    if not inputs:
        return
    state = {**(request.seed.state if request.seed is not None else {}), **request.state}
    plain = {k: kind for k, kind in inputs.items() if scope_of(k) not in ("app", "user")}
    require_inputs(plain, state)


def _require_begun(inputs: Mapping[str, object], request: Request, session: Session) -> None:
    """Refuse to go on with a run that did not have its inputs when it began.

    The state right after the message counts: a step may have deleted an input since then.
    `temp:` keys are not in the log, so they are not asked for.
    """
    id = request.invocation_id
    if id is None:
        content = request.content or content_of(session, request.answers)
        asked = answers_by_event(session, content)[0][0] if content is not None else None
        id = asked.invocation_id if asked is not None else last_invocation(session)
    events = session.events
    first = next((i for i, event in enumerate(events) if event.invocation_id == id), None)
    if first is not None:
        lasting = {key: kind for key, kind in inputs.items() if scope_of(key) != "temp"}
        require_inputs(lasting, session.before(first + 1).state)


def require_inputs(inputs: Mapping[str, object], state: Mapping[str, Json]) -> None:
    """Refuse to start where the state lacks what the program declares as its inputs."""
    lacks = [*find_missing_inputs(inputs, state)]
    if lacks:
        raise UsageError(
            "; ".join(lack.problem for lack in lacks),
            where="run",
            hint="; ".join(lack.hint for lack in lacks),
        )


def agent_for(root: Agent, session: Session) -> str:
    """The agent the next message goes to.

    It is the one that answered last, provided it and all above it may hand over to their
    parents: else the conversation could never leave it.
    """
    if not root.sub_agents:
        return root.name
    events = session.events
    hidden: Mapping[int, str] | None = None
    for index in range(len(events) - 1, -1, -1):
        event = events[index]
        # most logs have no rewind, and are read from the end only as far as needed
        if event.actions.rewind_before_invocation_id and hidden is None:
            hidden = hidden_in(events)
        # an agent that ran as a tool or inside a flow does not lead the conversation
        if event.author in ("user", "") or event.isolation_scope or path_of(event):
            continue
        if hidden is not None and index in hidden:
            continue
        path = find_path(root, event.author)
        if not path:
            continue
        may_leave = all(
            isinstance(agent, Agent) and not agent.disallow_transfer_to_parent for agent in path[1:]
        )
        return event.author if may_leave else root.name
    return root.name


async def unknown_session(services: Services, key: SessionKey) -> SessionError:
    """The error for a session that is not there, with those that are."""
    listed = await services.store.sessions(key.app_name)
    mine = [info.key.id for info in listed if info.key.user_id == key.user_id]
    users = sorted({info.key.user_id for info in listed})
    if mine:
        hint = f"the user has: {', '.join(mine[:10])}"
    elif users:
        hint = f"the user has no session; users that have: {', '.join(users[:10])}"
    else:
        hint = f"the app `{key.app_name}` has no sessions in this store"
    for app in await services.store.apps():
        if app != key.app_name and any(
            info.key.id == key.id for info in await services.store.sessions(app, key.user_id)
        ):
            hint += f'; the app `{app}` has one of that name: pass app_name="{app}" if it is yours'
    return SessionError(f"there is no session `{key.id}`", where=str(key), hint=hint)
