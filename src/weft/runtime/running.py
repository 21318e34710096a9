"""A run under way: iterate it for its events, or await it for its result."""

import asyncio
from collections.abc import AsyncGenerator, AsyncIterator, Generator
from typing import NamedTuple

from weft.compiler.labels import labels_of
from weft.compiler.undone import hidden_by_undoing
from weft.content import Content, FunctionResponse, Part
from weft.declare import Agent, Node, RunConfig, agents_of
from weft.declare.policy.transforms import Label
from weft.declare.roles import inner_agents
from weft.diagnostics import Diagnostic
from weft.errors import SchemaError, SessionBusy, SessionError
from weft.runtime.answer import parse
from weft.runtime.around import root_place, with_plugins
from weft.runtime.flows import run_node
from weft.runtime.gates import check_decisions
from weft.runtime.inferring import inferred_root
from weft.runtime.invocation import Invocation, Services
from weft.runtime.loop import run_agent
from weft.runtime.paying import require_prices
from weft.runtime.place import Place, place_of
from weft.runtime.progress import CONFIRMATION, QUESTION
from weft.runtime.result import Result, total_usage
from weft.runtime.results import to_json, to_returned
from weft.runtime.rewind import hidden_events, visible_events
from weft.runtime.routing import (
    agent_for,
    answers_by_event,
    call_for,
    callers_of,
    last_invocation,
)
from weft.runtime.signals import Interrupted, NodeFailed, Suspended
from weft.runtime.spending import warning_in
from weft.runtime.stopping import INTERRUPTED, stop, stop_quietly
from weft.runtime.unbroken import unbroken
from weft.runtime.waiting import answers_in, new_answers, waiting_calls
from weft.session import Actions, Event, Lease, MemoryStore, Session, SessionKey
from weft.session.event import new_id
from weft.values import JsonObject


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


class Running:
    """A run: `async for event in run` gives its events, `await run` its result.

    It starts when it is first iterated or awaited. Every complete event is stored before it is
    given; the next step begins when the next event is asked for.
    """

    def __init__(self, root: Node, services: Services, request: Request) -> None:
        self._work = _Work(root, services, request)
        self._events: AsyncGenerator[Event, None] = self._work.run()

    def alone(self, session: Session | None, *, owned: bool) -> "Running":
        """The same run, on a store that gets this session first and may be closed behind it."""
        work = self._work
        request = work.request._replace(seed=session, owned=owned)
        return Running(work.root, work.services, request)

    def __aiter__(self) -> AsyncIterator[Event]:
        return self._events

    def __anext__(self) -> "asyncio.Future[Event]":
        return self._events.__anext__()  # type: ignore[return-value]

    async def aclose(self) -> None:
        """Stop the run; the log stays consistent and the session can go on."""
        await self._events.aclose()

    def __await__(self) -> Generator[object, None, Result]:
        return self._collected().__await__()

    async def _collected(self) -> Result:
        events = [event async for event in self._events if not event.partial]
        return self._work.result(tuple(events))


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
        require_prices(self.root, request.config)
        try:
            lease = await self._lease()
            self._labels = labels_of(self.root, request.config)
            invocation = self._invocation = await self._open()
            invocation.interrupted = self._asked_to_stop
            events = self._nodes(invocation)
            try:
                if invocation.interrupted:
                    raise Interrupted
                async for event in events:
                    invocation.task = None
                    yield event
                    invocation.task = asyncio.current_task()
                    if invocation.interrupted:
                        raise Interrupted
            except Suspended:
                pass
            except NodeFailed as failure:
                self._failure = failure
                if failure.cause is not None:
                    raise failure.cause from None
            except Interrupted:
                self._take_back()
                await events.aclose()
                interrupted = True
            except asyncio.CancelledError:
                if not self._take_back():
                    await unbroken(stop_quietly(invocation, self._author))
                    raise
                interrupted = True
            except GeneratorExit:
                await unbroken(events.aclose())
                await unbroken(stop_quietly(invocation, self._author))
                raise
            finally:
                invocation.task = None
            if interrupted:
                last = await unbroken(stop(invocation, self._author, INTERRUPTED))
                await lease.release()
                if last is not None:
                    yield last
        finally:
            if lease is not None:
                await lease.release()
            if request.owned:
                await store.close()

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
        if session is None:
            if not fresh:
                raise await unknown_session(self.services, request.key)
            session = await unbroken(self._created())
        made = self.services.heirs
        self.root = inferred_root(self.root, session, request.config, request.state, made)
        if fresh:
            invocation = Invocation(
                self.services, session, request.invocation_id or new_id(), request.config,
                resumed=False,
            )  # fmt: skip
            invocation.labels, invocation.inner = self._labels, inner_agents(self.root)
            invocation.task = asyncio.current_task()
            said = invocation.event(
                "user", Place(), request.content, actions=Actions(state_delta=request.state)
            )
            self._start = agent_for(self.root, session) if isinstance(self.root, Agent) else ""
            await invocation.store(said)
            return invocation
        content = request.content or _answers(session, request.answers)
        if content is not None:
            answered = answers_by_event(session, content)
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
        """The events of the root, between the plugins' first and last word."""
        place = root_place(self.root)
        if isinstance(self.root, Agent):
            events = run_agent(invocation, place, self.root, self._start)
        else:
            events = run_node(invocation, place, self.root)
        return with_plugins(invocation, self.root, events) if self.services.plugins else events

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
            waiting=waiting_calls(mine),
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


def _warnings(events: tuple[Event, ...]) -> list[Diagnostic]:
    """That the run neared its budget, as the event says that it happened at."""
    found = (warning_in(event) for event in events)
    return [one for one in found if one is not None]


def _answers(session: Session, answers: dict[str, object]) -> Content | None:
    """Answers by call id as the message that carries them; a yes or no where one was asked."""
    if not answers:
        return None
    parts: list[Part] = []
    events = visible_events(session)
    waiting, callers = waiting_calls(events), callers_of(events)
    for given, value in answers.items():
        named: list[str] = []
        if given not in waiting:
            named = [id for id, name in waiting.items() if name == given]
        call_id = named[0] if len(named) == 1 else given
        question = f"{QUESTION}{call_id}"
        if question in callers:
            plain = to_json(value)
            yes: JsonObject = {"confirmed": plain is True}
            confirmed = plain if isinstance(plain, dict) else yes
            answer = FunctionResponse(name=CONFIRMATION, id=question, response=confirmed)
        else:
            event = call_for(session, callers, call_id)
            call = next(c for c in event.calls if c.id == call_id)
            answer = FunctionResponse(
                name=call.name, id=call_id, response=to_returned(value).response
            )
        parts.append(Part(function_response=answer))
    return Content(parts=tuple(parts), role="user")


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
