"""A run under way: iterate it for its events, or await it for its result."""

import asyncio
import warnings
from collections.abc import AsyncGenerator, AsyncIterator, Coroutine, Generator, Mapping
from typing import TYPE_CHECKING, NamedTuple

from weft.compiler.labels import labels_of
from weft.compiler.undone import hidden_by_undoing
from weft.content import Content
from weft.declare import Agent, Node, RunConfig, agents_of
from weft.declare.inputs import lacking
from weft.declare.policy.transforms import Label
from weft.declare.roles import inner_agents
from weft.diagnostics import Diagnostic
from weft.errors import CallError, SchemaError, SessionBusy, SessionError, UnknownName, UsageError
from weft.runtime.answer import is_cut, parse
from weft.runtime.around import Around, RunOutcome, root_place
from weft.runtime.callbacks import require_code
from weft.runtime.flows import run_node
from weft.runtime.gates import check_decisions
from weft.runtime.inferring import inferred_root, inputs_of
from weft.runtime.invocation import Invocation, Services
from weft.runtime.lanes import Streams
from weft.runtime.loop import run_agent
from weft.runtime.paying import require_prices
from weft.runtime.place import Place, place_of
from weft.runtime.result import Result, total_usage
from weft.runtime.rewind import hidden_events
from weft.runtime.routing import (
    agent_for,
    answers_by_event,
    last_invocation,
)
from weft.runtime.signals import Interrupted, NodeFailed, Suspended
from weft.runtime.spending import warning_in
from weft.runtime.stopping import CANCELLED, INTERRUPTED, stop, stop_quietly
from weft.runtime.unbroken import unbroken
from weft.runtime.waiting import (
    answers_in,
    check_retries,
    content_of,
    new_answers,
    require_answers,
)
from weft.session import Actions, Event, Lease, MemoryStore, Session, SessionKey
from weft.session.event import new_id
from weft.session.state import scope_of
from weft.values import Json, JsonObject


class Request(NamedTuple):
    """What a run was asked for: a new message, answers to open calls, or to go on."""

    key: SessionKey
    config: RunConfig
    content: Content | None = None
    state: JsonObject = {}
    answers: dict[str, object] = {}
    retry: frozenset[str] = frozenset()
    invocation_id: str | None = None
    seed: Session | None = None
    owned: bool = False
    """Whether the store was opened for this run, and is closed when it ends."""


class Running(Coroutine[object, None, Result]):
    """A run: `async for event in run` gives its events, `await run` its result.

    It starts when it is first iterated or awaited. Every complete event is stored before it is
    given; the next step begins when the next event is asked for. It is a coroutine too, so that
    `asyncio.run`, `create_task` and `gather` take it.
    """

    _is_used = True
    """Whether somebody iterates or awaits it; nothing can be said of one that was not made."""

    def __init__(self, root: Node, services: Services, request: Request) -> None:
        self._work = _Work(root, services, request)
        self._events: AsyncGenerator[Event, None] = self._work.run()
        self._awaited: Coroutine[object, None, Result] | None = None
        self._is_used = request.content is None  # a message that is never said is a slip

    def alone(self, session: Session | None, *, owned: bool) -> "Running":
        """The same run, on a store that gets this session first and may be closed behind it."""
        work = self._work
        self._is_used = True
        request = work.request._replace(seed=session, owned=owned)
        return Running(work.root, work.services, request)

    def __aiter__(self) -> AsyncIterator[Event]:
        self._is_used = True
        return self._events

    def __anext__(self) -> "asyncio.Future[Event]":
        self._is_used = True
        return self._events.__anext__()  # type: ignore[return-value]

    async def aclose(self) -> None:
        """Stop the run; the log stays consistent and the session can go on."""
        self._is_used = True
        await self._events.aclose()

    def __await__(self) -> Generator[object, None, Result]:
        self._is_used = True
        return _collected(self._work, self._events).__await__()

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

    def _coroutine(self) -> Coroutine[object, None, Result]:
        self._is_used = True
        if self._awaited is None:
            self._awaited = _collected(self._work, self._events)
        return self._awaited

    def __repr__(self) -> str:
        about = "" if self._is_used else ", not started: await it, or use weft.run_sync"
        return f"<run of `{self._work.root.name}`{about}>"

    def __del__(self) -> None:
        if not self._is_used:
            warnings.warn(
                f"the run of `{self._work.root.name}` was never started: write await"
                ' weft.run(agent, "message"), or weft.run_sync(agent, "message")',
                RuntimeWarning,
                stacklevel=2,
            )

    if not TYPE_CHECKING:

        def __getattr__(self, name: str) -> object:
            """Say that the run must be waited for before there is an answer."""
            known = name in Result.__dataclass_fields__ or name in ("state", "check")
            self._is_used = self._is_used or known  # the error says it: no warning behind it
            raise UnknownName(
                f"this is a run that has not been waited for: it has no `{name}` yet"
                if known
                else f"a run has no `{name}`",
                where=type(self).__name__,
                hint=f'write (await weft.run(agent, "message")).{name},'
                f' or weft.run_sync(agent, "message").{name} without async'
                if known
                else "await it for its result, or write async for event in it",
            )

        def __iter__(self) -> object:
            """Say that events come one by one, with waiting between them."""
            raise CallError(
                "the events of a run are waited for",
                where=type(self).__name__,
                hint="write async for event in run: ...; or await it, and read result.events",
            )


async def _collected(work: "_Work", events: AsyncGenerator[Event, None]) -> Result:
    complete = [event async for event in events if not event.partial]
    return work.result(tuple(complete))


class _Work:
    """What a run does.

    It knows nothing of who iterates it: a run that nobody iterates any more, as after a `break`,
    must fall out of memory at once, for then it stops and lets the next one have the session.
    """

    def __init__(self, root: Node, services: Services, request: Request) -> None:
        self.root = root
        self.services = services
        self.request = request
        self._invocation: Invocation | None = None
        self._labels: tuple[Label, ...] = ()
        self._failure: NodeFailed | None = None
        self._start = ""
        self._asked_to_stop = False
        self._stopped = False
        """Whether the task was cancelled because a later run asked for it."""

    async def run(self) -> AsyncGenerator[Event, None]:
        """The events of the run."""
        store, request = self.services.store, self.request
        lease: Lease | None = None
        interrupted = False
        require_code(self.root)
        require_prices(self.root, request.config)
        try:
            lease = await self._lease()
            self._labels = labels_of(self.root, request.config)
            invocation = self._invocation = await self._open()
            invocation.interrupted = self._asked_to_stop
            events = self._nodes(invocation)
            around = Around(invocation, self.root) if self.services.plugins else None
            if around is not None:
                events = around.events(events)
            outcome = RunOutcome("done")
            streams = Streams() if request.config.stream else None
            try:
                if invocation.interrupted:
                    raise Interrupted
                async for event in events:
                    invocation.task = None
                    if streams is not None:
                        streams.noted(event)
                    yield event
                    invocation.task = asyncio.current_task()
                    if invocation.interrupted:
                        raise Interrupted
            except Suspended:
                outcome = RunOutcome("waiting")
            except NodeFailed as failure:
                self._failure = failure
                outcome = RunOutcome("error", failure.event, failure.cause)
            except Interrupted:
                self._take_back()
                await events.aclose()
                interrupted = True
            except asyncio.CancelledError:
                if not self._take_back():
                    await self._cancelled(invocation, around)
                    raise
                interrupted = True
            except GeneratorExit:
                try:
                    await unbroken(events.aclose())
                finally:
                    await self._cancelled(invocation, around)
                raise
            except BaseException as error:
                if around is not None:
                    await around.after(RunOutcome("error", error=error))
                raise
            finally:
                invocation.task = None
            if interrupted:
                last = await unbroken(stop(invocation, self._author, INTERRUPTED))
                if around is not None:
                    await around.after(_cancelled_by(last))
                await lease.release()
                for void in streams.left() if streams is not None else ():
                    yield void
                if last is not None:
                    yield last
                return
            if around is not None:
                await around.after(outcome)
            if outcome.error is not None:
                raise outcome.error from None
        finally:
            if lease is not None:
                await lease.release()
            if request.owned:
                await store.close()

    async def _cancelled(self, invocation: Invocation, around: Around | None) -> None:
        """Leave a log that is whole, and tell the plugins."""
        last: Event | None = invocation.event(self._author, Place(), error=CANCELLED)
        try:
            last = await unbroken(stop_quietly(invocation, self._author))
        finally:  # not in a task of its own: what plugins keep in context variables is here
            if around is not None:
                await around.after(_cancelled_by(last))

    def _interrupt(self) -> None:
        """Stop as soon as possible: at once while a model or a tool is waited for."""
        self._asked_to_stop = True
        invocation = self._invocation
        if invocation is not None and not invocation.interrupted:
            invocation.interrupted = True
            if invocation.task is not None:
                self._stopped = invocation.task.cancel()

    def _take_back(self) -> bool:
        """Take back that the task was cancelled for a later run; False if it was for another."""
        task = asyncio.current_task()
        return self._stopped and task is not None and not task.uncancel()

    @property
    def _author(self) -> str:
        """Who speaks for the run where nobody has spoken yet."""
        return self._start or self.root.name

    async def _lease(self) -> Lease:
        """The right to run the session, or an error once the time to wait for it is over."""
        request, seconds = self.request, self.request.config.queue_timeout
        waiting = self.services.store.lease(
            request.key, busy=request.config.busy, interrupt=self._interrupt
        )
        if seconds is None:
            return await waiting
        scope = asyncio.timeout(seconds)
        try:
            async with scope:
                return await waiting
        except TimeoutError:
            if not scope.expired():
                raise
            raise SessionBusy(
                f"another run has had the session for {seconds:g} seconds",
                where=str(request.key),
                hint='wait longer with queue_timeout=, or stop it with busy="interrupt"',
            ) from None

    async def _open(self) -> Invocation:
        """The invocation: a new one with the user's message, or one that goes on."""
        request, store = self.request, self.services.store
        session = await store.get(request.key)
        fresh = request.content is not None and not any(
            part.function_response is not None for part in request.content.parts or ()
        )
        made = self.services.heirs
        inputs = inputs_of(self.root, made)
        if session is None:
            if not fresh:
                raise await unknown_session(self.services, request.key)
            self._require_plain(inputs)
            session = await unbroken(self._created())
        id = request.invocation_id or new_id() if fresh else ""
        if fresh and inputs:
            require_inputs(inputs, {**session.state_for(id), **request.state})
        elif inputs:
            self._require_begun(inputs, session)
        self.root = inferred_root(self.root, session, request.config, request.state, made, inputs)
        if fresh:
            invocation = Invocation(self.services, session, id, request.config, resumed=False)
            invocation.labels, invocation.inner = self._labels, inner_agents(self.root)
            invocation.task = asyncio.current_task()
            said = invocation.event(
                "user", Place(), request.content, actions=Actions(state_delta=request.state)
            )
            self._start = agent_for(self.root, session) if isinstance(self.root, Agent) else ""
            await invocation.store(said)
            return invocation
        check_retries(session, request.retry)
        content = request.content or content_of(session, request.answers)
        if content is not None:
            answered = answers_by_event(session, require_answers(session, content))
            invocation = self._continued(session, answered[0][0].invocation_id)
            actions, told = Actions(state_delta=request.state), list[Event]()
            held = answers_in(session)
            for asked, answers in answered:
                check_decisions(asked, answers)
                news = new_answers(held, answers)
                if news is not None or actions.state_delta:
                    told.append(invocation.event("user", place_of(asked), news, actions=actions))
                    actions = Actions()
            if told:
                await invocation.commit_all(*told)
            return self._continued(invocation.session, invocation.id)
        return self._continued(session, request.invocation_id or last_invocation(session))

    def _require_plain(self, inputs: Mapping[str, object]) -> None:
        """Refuse to make a session for a run that cannot start.

        Keys of the user and the app may be in the store already, so they are looked at later.
        """
        seed = self.request.seed
        state = {**(seed.state if seed is not None else {}), **self.request.state}
        plain = {k: kind for k, kind in inputs.items() if scope_of(k) not in ("app", "user")}
        require_inputs(plain, state)

    def _require_begun(self, inputs: Mapping[str, object], session: Session) -> None:
        """Refuse to go on with a run that did not have its inputs when it began.

        What a step took away since then is not missed, and what is kept for one invocation only
        is not in the log.
        """
        id = self.request.invocation_id
        if id is None:
            content = self.request.content or content_of(session, self.request.answers)
            asked = answers_by_event(session, content)[0][0] if content is not None else None
            id = asked.invocation_id if asked is not None else last_invocation(session)
        events = session.events
        first = next((i for i, event in enumerate(events) if event.invocation_id == id), None)
        if first is not None:
            kept = {key: kind for key, kind in inputs.items() if scope_of(key) != "temp"}
            require_inputs(kept, session.before(first + 1).state)

    async def _created(self) -> Session:
        """A new session, with what it is to begin with."""
        store, key, seed = self.services.store, self.request.key, self.request.seed
        if seed is None:
            return await store.create(key)
        if isinstance(store, MemoryStore):
            return await store.take(key, seed)
        return await store.append(await store.create(key, state=seed.initial), *seed.events)

    def _continued(self, session: Session, id: str) -> Invocation:
        first = next((i for i, e in enumerate(session.events) if e.invocation_id == id), None)
        if first is None or first in hidden_events(session.events):
            raise SessionError(
                f"there is no invocation `{id}`",
                where=f"session {session.id}",
                hint="leave invocation_id out to resume the last one",
            )
        if isinstance(self.root, Agent):
            self._start = agent_for(self.root, session.before(first))
        invocation = Invocation(self.services, session, id, self.request.config, resumed=True)
        invocation.labels, invocation.inner = self._labels, inner_agents(self.root)
        invocation.retry = self.request.retry
        invocation.task = asyncio.current_task()
        return invocation

    def _nodes(self, invocation: Invocation) -> AsyncGenerator[Event, None]:
        """The events of the root."""
        place = root_place(self.root)
        if isinstance(self.root, Agent):
            return run_agent(invocation, place, self.root, self._start)
        return run_node(invocation, place, self.root)

    def result(self, events: tuple[Event, ...]) -> Result:
        """The result of the run, once it is over."""
        invocation = self._invocation
        assert invocation is not None
        session = invocation.session
        answer: Event | None = None
        mine = invocation.events()
        undone = hidden_by_undoing(mine)
        mine = [event for index, event in enumerate(mine) if index not in undone]
        for event in mine:
            spoke = event.text and event.is_final_response() and event.audience != "internal"
            shown = not event.isolation_scope and not event.error_code and event.author != "user"
            if spoke and shown:
                answer = event
        failed = self._failure.event if self._failure is not None else None
        if failed is None and events and events[-1].interrupted:
            failed = events[-1]
        if failed is not None:
            answer = None
        return Result(
            text=answer.text if answer is not None else "",
            value=self._value(answer),
            events=events,
            session=session,
            usage=total_usage(events),
            invocation_id=invocation.id,
            error=failed,
            waiting=session.waiting,
            truncated=any(is_cut(event) for event in mine if event.finish_reason),
            diagnostics=(*invocation.findings.values(), *_warnings(events)),
        )

    def _value(self, answer: Event | None) -> object:
        """The answer in its schema's own type, or its text."""
        if answer is None:
            return None
        for agent in agents_of(self.root):
            if agent.name == answer.author and agent.output_schema is not None:
                try:
                    return parse(agent, answer.text, wrapped=True)[1]
                except SchemaError:
                    break
        return answer.text


def _cancelled_by(last: Event | None) -> RunOutcome:
    """How a run ended that was stopped: where nothing was left to stop, it was done."""
    return RunOutcome("cancelled", last) if last is not None else RunOutcome("done")


def require_inputs(inputs: Mapping[str, object], state: Mapping[str, Json]) -> None:
    """Refuse to start where the state lacks what the program declares as its inputs."""
    lacks = [*lacking(inputs, state)]
    if lacks:
        raise UsageError(
            "; ".join(lack.problem for lack in lacks),
            where="run",
            hint="; ".join(lack.hint for lack in lacks),
        )


def _warnings(events: tuple[Event, ...]) -> list[Diagnostic]:
    """That the run neared its budget, as the event says that it happened at."""
    found = (warning_in(event) for event in events)
    return [one for one in found if one is not None]


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
