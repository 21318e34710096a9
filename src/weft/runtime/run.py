"""A run under way: iterate it for its events, or await it for its result."""

import asyncio
import logging
import warnings
from collections.abc import (
    AsyncGenerator,
    AsyncIterator,
    Coroutine,
    Generator,
    Iterable,
    Iterator,
    Mapping,
)
from typing import TYPE_CHECKING, Literal, NamedTuple, cast

import msgspec

from weft.checker.check import declared_inputs, inferred_keys, with_declared, with_keys
from weft.checker.world import World, Writer
from weft.compiler.protected import labels_of
from weft.compiler.view import hidden_by_rewind, hidden_by_undoing
from weft.content import Content, FunctionResponse, Part
from weft.declare import Agent, Callback, CallbackContext, Node, RunConfig, agents_of, tree
from weft.declare.functions import misfit
from weft.declare.inputs import lacking
from weft.declare.policy_parts import Label
from weft.declare.visit import inner_agents
from weft.diagnostics import Diagnostic, Origin
from weft.errors import CallError, SchemaError, SessionBusy, SessionError, UnknownName, UsageError
from weft.runtime.answer import is_cut, parse
from weft.runtime.batch import CANCELLED, INTERRUPTED, stop, stop_quietly
from weft.runtime.bindings import settled
from weft.runtime.branches import Streams
from weft.runtime.callbacks import plugin_methods, require_code, wrong_answer
from weft.runtime.costs import require_prices, warning_in
from weft.runtime.flows import check_decisions, run_node
from weft.runtime.invocation import Invocation, Record, Services
from weft.runtime.place import (
    Interrupted,
    NodeFailed,
    Place,
    Suspended,
    path_of,
    place_of,
    unbroken,
)
from weft.runtime.progress import unwrapped
from weft.runtime.result import Result, total_usage
from weft.runtime.rewind import hidden_events, visible_events
from weft.runtime.tool_call import to_json, to_returned
from weft.runtime.turn import run_agent
from weft.session import Actions, Event, Lease, MemoryStore, Session, SessionKey
from weft.session.event import NO_ACTIONS, new_id
from weft.session.state import scope_of
from weft.session.waiting import CONFIRMATION, QUESTION
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


class RunOutcome(NamedTuple):
    """How a run ended, as plugins are told.

    `event` is the error event that ended it, where one did; `error` what was raised. A run that
    waits for an answer goes on in another run. One that was closed or interrupted by a later
    one counts as cancelled.
    """

    status: Literal["done", "waiting", "error", "cancelled"]
    event: Event | None = None
    error: BaseException | None = None


class Around:
    """The plugins of one run: whom the run was announced to, and who hears of its end."""

    __slots__ = ("_begun", "_invocation", "_root")

    def __init__(self, invocation: Invocation, root: Node) -> None:
        self._invocation = invocation
        self._root = root
        self._begun: list[object] = []

    async def events(self, inner: AsyncGenerator[Event, None]) -> AsyncGenerator[Event, None]:
        """The events of a run, unless a plugin answers in its stead."""
        answer = await self._before()
        if answer is not None:
            yield answer
            return
        try:
            async for event in inner:
                yield event
        finally:
            await inner.aclose()

    async def _before(self) -> Event | None:
        """The answer of the first plugin that answers for the whole run, if it is not over."""
        invocation, root = self._invocation, self._root
        over = _is_over(invocation, root)
        for plugin in invocation.services.plugins:
            for callback in plugin_methods((plugin,), "before_run"):
                context = invocation.context(root.name, RUN)
                answer = await settled(callback(context))
                if answer is not None and not isinstance(answer, Content):
                    raise wrong_answer("before_run", callback, answer, "Content")
                if answer is not None and not over:
                    self._begun.append(plugin)
                    return await self._answered(answer, context)
                await self._keep(context)
            self._begun.append(plugin)
        return None

    async def _answered(self, answer: Content, context: CallbackContext) -> Event:
        root = self._root
        actions = msgspec.structs.replace(context.actions.to_actions(), end_of_agent=True)
        said = msgspec.structs.replace(answer, role="model")
        event = self._invocation.event(root.name, root_place(root), said, actions=actions)
        return await self._invocation.commit(event)

    async def after(self, outcome: RunOutcome) -> None:
        """Tell the plugins how the run ended, each once.

        What one of them raises is raised when all were told, unless the run ended badly: then
        that is what matters, and the plugin's trouble is logged.
        """
        begun, self._begun = self._begun, []
        raised: Exception | None = None
        cancelled: asyncio.CancelledError | None = None
        for callback in plugin_methods(begun, "after_run"):
            context = self._invocation.context(self._root.name, RUN)
            try:
                await settled(_told(callback, context, outcome))
                await self._keep(context)
            except asyncio.CancelledError as error:  # the others are to hear of it all the same
                cancelled = error
            except Exception as error:
                if raised is not None or outcome.status in ("error", "cancelled"):
                    _log.warning("a plugin failed after the run", exc_info=True)
                raised = raised or error
        if cancelled is not None:
            raise cancelled
        if raised is not None and outcome.status in ("done", "waiting"):
            raise raised

    async def _keep(self, context: CallbackContext) -> None:
        actions = context.actions.to_actions()
        if actions != NO_ACTIONS:
            await self._invocation.store(
                self._invocation.event(self._root.name, RUN, actions=actions)
            )


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
                for void in streams.unfinished() if streams is not None else ():
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


_log = logging.getLogger("weft")

RUN = Place("run")
"""Where a run keeps what belongs to none of its nodes."""


def root_place(root: Node) -> Place:
    """Where the root stands: an agent at the empty path, a flow under its name."""
    return Place() if isinstance(root, Agent) else Place(root.name)


def _told(callback: Callback, context: CallbackContext, outcome: RunOutcome) -> object:
    """Call a plugin's last word, with how the run ended if it wants to know."""
    return callback(context, outcome) if misfit(callback, 2) is None else callback(context)


def _is_over(invocation: Invocation, root: Node) -> bool:
    """Whether the log has the root's answer already: then nobody answers in its stead."""
    if isinstance(root, Agent):
        progress = invocation.progress(Place())
        return progress.ended or progress.answered is not None
    return Record.read(invocation, root_place(root)).ended


def agent_for(root: Agent, session: Session) -> str:
    """The agent the next message goes to.

    It is the one that answered last, provided it and all above it may hand over to their
    parents: else the conversation could never leave it.
    """
    if not root.sub_agents:
        return root.name
    events = session.events
    hidden: dict[int, str] | None = None
    for index in range(len(events) - 1, -1, -1):
        event = events[index]
        if event.actions.rewind_before_invocation_id and hidden is None:
            hidden = hidden_by_rewind(events)
        if event.author in ("user", "") or event.isolation_scope or path_of(event):
            continue
        if hidden is not None and index in hidden:
            continue
        path = tree.find(root, event.author)
        if not path:
            continue
        kept = all(
            isinstance(agent, Agent) and not agent.disallow_transfer_to_parent for agent in path[1:]
        )
        return event.author if kept else root.name
    return root.name


def callers_of(events: Iterable[Event]) -> dict[str, Event]:
    """By the id of each call: the last event that made it."""
    return {call.id: event for event in events for call in event.calls if call.id is not None}


def call_for(
    session: Session, callers: Mapping[str, Event], call_id: str, *, where: str = "message"
) -> Event:
    """The event that made the call, or an error that lists the open ones."""
    if call_id in callers:
        return callers[call_id]
    listed = ", ".join(f"{id} ({name})" for id, name in session.waiting.items()) or "none"
    raise SessionError(
        f"there is no call with the id {call_id}",
        where=where,
        hint=f"calls that wait for an answer: {listed}",
    )


def answers_by_event(session: Session, content: Content) -> list[tuple[Event, Content]]:
    """A message of answers cut up by the events that made the calls; words go with the first.

    Agents that ran side by side may all wait; who answers them need not know where each one was.
    """
    events: dict[str, Event] = {}
    parts: dict[str, list[Part]] = {}
    callers = callers_of(visible_events(session))
    for part in content.parts or ():
        if part.function_response is not None:
            asked = call_for(session, callers, part.function_response.id or "")
            events[asked.id] = asked
            parts.setdefault(asked.id, []).append(part)
    if len({asked.invocation_id for asked in events.values()}) > 1:
        raise SessionError(
            "one message answers calls of different invocations",
            where="message",
            hint="send the answers one invocation at a time",
        )
    words = [part for part in content.parts or () if part.function_response is None]
    parts[next(iter(parts))] += words
    return [(events[id], Content(parts=tuple(parts[id]), role="user")) for id in events]


def last_invocation(session: Session) -> str:
    """The invocation to go on with: the last one that was not rewound."""
    events = visible_events(session)
    if events:
        return events[-1].invocation_id
    raise SessionError(
        "there is nothing to go on with", where=f"session {session.id}", hint="use run(message=...)"
    )


_ALONE = 0
"""Where it is kept what is inferred if the application gives nothing."""

_INPUTS = -1
"""Where it is kept what the root declares as its inputs."""

_GIVEN = Writer("the application", Origin("config", "state"), "input")


def inferred_root(
    root: Node,
    session: Session,
    config: RunConfig,
    state: Mapping[str, Json],
    made: dict[tuple[int, int], tuple[Node, object, Node]],
    declared: Mapping[str, object],
) -> Node:
    """The root as it runs in this session, with `state` given now and these inputs declared.

    It is the same one for the same inference, kept in `made`.
    """
    if isinstance(root, Agent) or not config.infer:
        return root
    first = made.get((id(root), _ALONE))
    if first is None or first[0] is not root:
        alone = inferred_keys(root, with_declared(World(), declared))
        first = made[id(root), _ALONE] = (root, alone, root)
    candidates = cast("dict[str, str]", first[1])
    if not candidates:
        return root
    told = {*state, *_given(session)}
    given = {key for key in candidates.values() if key in told}
    if given:
        world = with_declared(World(), declared)
        for key in given:
            world = world.wrote(key, _GIVEN)
        candidates = inferred_keys(root, world)
    if not candidates:
        return root
    wanted = frozenset(candidates.items())
    at = id(root), hash(wanted)
    held = made.get(at)
    if held is None or held[0] is not root or held[1] != wanted:
        held = made[at] = (root, wanted, with_keys(root, candidates))
    return held[2]


def inputs_of(
    root: Node, made: dict[tuple[int, int], tuple[Node, object, Node]]
) -> Mapping[str, object]:
    """The inputs that must be there when the root starts; worked out once, and kept in `made`."""
    known = made.get((id(root), _INPUTS))
    if known is None or known[0] is not root:
        known = made[id(root), _INPUTS] = (root, declared_inputs(root), root)
    return cast("Mapping[str, object]", known[1])


def _given(session: Session) -> Iterator[str]:
    """The keys that the application put into the session: to begin with, or with a message."""
    yield from session.initial
    for event in session.events:
        if event.author == "user":
            yield from event.actions.state_delta


_DECISION = frozenset(("confirmed", "hint", "payload", "response"))
"""What the answer to a confirmation is made of; ADK's page sends it in a field `response`."""


def content_of(session: Session, answers: Mapping[str, object]) -> Content | None:
    """Answers by id, or by the name of the only call that waits, as the message that has them.

    A call that is to be confirmed may ask twice: whether it may run, and then, where it runs
    long or a crash left open whether it ran, what it returned. The id of the call stands for
    the question that is open; the id of the confirmation itself always for that.
    """
    if not answers:
        return None
    events = visible_events(session)
    waiting, callers, held = session.waiting, callers_of(events), answers_in(session)
    begun = begun_calls(events)
    parts: list[Part] = []
    for key, value in answers.items():
        named = [id for id, name in waiting.items() if name == key] if key not in waiting else []
        call_id = named[0] if len(named) == 1 else key
        event = call_for(session, callers, call_id)
        call = next(c for c in event.calls if c.id == call_id)
        question = call_id if call.name == CONFIRMATION else f"{QUESTION}{call_id}"
        asks = question in callers
        decided = question in held
        plain = to_json(value) if asks else None
        if asks and decided and question != call_id and (call_id in waiting or call_id in begun):
            is_decision = isinstance(plain, bool) or _is_decision(plain)
            if is_decision and call_id in waiting:
                raise _unclear(call_id, call.name or "", value)
            asks = is_decision  # else it is what the call returned; a yes may come twice
        if asks:
            response = _decision(plain, call_id)
            answer = FunctionResponse(name=CONFIRMATION, id=question, response=response)
        else:
            response = to_returned(value).response
            answer = FunctionResponse(name=call.name, id=call_id, response=response)
        parts.append(Part(function_response=answer))
    return Content(parts=tuple(parts), role="user")


def check_retries(session: Session, retry: Iterable[str]) -> None:
    """Refuse to run again what was never called, or still waits for the user's word."""
    if not retry:
        return
    callers, held = callers_of(visible_events(session)), answers_in(session)
    for call_id in retry:
        call_for(session, callers, call_id, where="retry")
        question = f"{QUESTION}{call_id}"
        if question in callers and question not in held:
            raise SessionError(
                f"the call {call_id} waits for a yes or no and never ran",
                where="retry",
                hint=f"confirm it: resume(answers={{{call_id!r}: True}})",
            )


def begun_calls(events: Iterable[Event]) -> set[str]:
    """The calls that may have run: they were started, or returned something."""
    begun: set[str] = set()
    for event in events:
        begun.update(event.provenance.started or ())
        if event.results:
            begun.update(result.id or "" for result in event.results)
    return begun


def answers_in(session: Session) -> dict[str, FunctionResponse]:
    """By call: the answer that the log has."""
    held: dict[str, FunctionResponse] = {}
    for event in visible_events(session):
        if event.results:
            waits = event.provenance.pending or ()
            held.update({r.id or "": r for r in event.results if r.id not in waits})
    return held


def new_answers(held: Mapping[str, FunctionResponse], content: Content) -> Content | None:
    """The message without the answers that are there already; None if nothing is left of it.

    An answer may come twice, when whoever brings it was not told that it arrived. Another answer
    to a call that has one is refused: something may have been done on the strength of the first.
    """
    kept: list[Part] = []
    for part in content.parts or ():
        answer = part.function_response
        before = held.get(answer.id or "") if answer is not None else None
        if answer is None or before is None:
            kept.append(part)
        elif before.response != answer.response:
            raise SessionError(
                f"the call {answer.id} of {answer.name} has its answer already",
                where="message",
                hint="say what is new in a message: run(message=...)",
            )
    return msgspec.structs.replace(content, parts=tuple(kept)) if kept else None


def _is_decision(value: Json) -> bool:
    """Whether a value is the answer to a confirmation, and cannot be a result."""
    return isinstance(value, dict) and "confirmed" in value and _DECISION.issuperset(value)


def _decision(value: Json, call_id: str) -> JsonObject:
    """A yes or no as the answer to a confirmation; ADK's page sends it in a field `response`."""
    if isinstance(value, bool):
        return {"confirmed": value}
    if isinstance(value, dict) and ("confirmed" in value or set(value) == {"response"}):
        return value
    raise SessionError(
        f"the call {call_id} waits for a yes or no, not for {value!r}",
        where="answers",
        hint=f"write answers={{{call_id!r}: True}}, or False",
    )


def _unclear(call_id: str, name: str, value: object) -> SessionError:
    """The error for a yes or no to a call that is confirmed and waits for its result."""
    return SessionError(
        f"{name} is confirmed already, and what it returned is not known: {value!r} says nothing"
        " about that",
        where=f"answers[{call_id}]",
        hint=f'say what it returned: answers={{{call_id!r}: {{"result": ...}}}};'
        f" or run it again: retry=[{call_id!r}]",
    )


def require_answers(session: Session, content: Content) -> Content:
    """The answers, once each is to a call that waits for one, and of the kind it waits for.

    Whoever may answer one question must not answer another: a result that nobody waits for would
    be believed as if the tool had run, and a call that waits for a yes has not run at all.
    """
    events = visible_events(session)
    waiting, held, asked = session.waiting, answers_in(session), unconfirmed(events)
    begun = begun_calls(events)  # a crash may have left open what these did
    callers = {call.id: (call, event) for event in events for call in event.calls}
    parts: list[Part] = []
    for part in content.parts or ():
        answer = part.function_response
        known = callers.get(answer.id) if answer is not None else None
        if answer is None or known is None:  # which calls there are is said elsewhere
            parts.append(part)
            continue
        (call, event), call_id = known, answer.id or ""
        if answer.name not in (None, call.name):
            raise SessionError(
                f"the call {call_id} is of {call.name}, and the answer says {answer.name}",
                where="message",
                hint=f'name="{call.name}", or leave the name out',
            )
        if call_id in asked:
            raise SessionError(
                f"the call {call_id} of {call.name} waits for a confirmation, not for a result",
                where="message",
                hint=f'answer {asked[call_id]} of {CONFIRMATION} with {{"confirmed": true}}'
                f" or false, or resume(answers={{{call_id!r}: True}})",
            )
        if call.name == CONFIRMATION and not _DECISION.issuperset(unwrapped(answer.response or {})):
            raise SessionError(
                f"{call_id} asks whether a call may run, and the answer is something else",
                where="message",
                hint='answer {"confirmed": true} or {"confirmed": false}',
            )
        open_yet = call_id.removeprefix(QUESTION) in waiting or call_id in {*waiting, *begun}
        if not open_yet and call_id not in held and call_id not in _long_running(event):
            listed = ", ".join(f"{id} ({name})" for id, name in waiting.items()) or "none"
            raise SessionError(
                f"the call {call_id} of {call.name} does not wait for an answer",
                where="message",
                hint=f"calls that wait for an answer: {listed}",
            )
        named = msgspec.structs.replace(answer, name=call.name)
        parts.append(msgspec.structs.replace(part, function_response=named))
    return msgspec.structs.replace(content, parts=tuple(parts))


def unconfirmed(events: Iterable[Event]) -> dict[str, str]:
    """By the call that may not run before the user says yes: the id of the question."""
    asked: dict[str, str] = {}
    for event in events:
        for call in event.calls:
            if call.name == CONFIRMATION and (call.id or "").startswith(QUESTION):
                asked[(call.id or "").removeprefix(QUESTION)] = call.id or ""
        for result in event.results:
            if result.name == CONFIRMATION:
                asked.pop((result.id or "").removeprefix(QUESTION), None)
    return asked


def _long_running(event: Event) -> tuple[str, ...]:
    return event.long_running_tool_ids or ()
