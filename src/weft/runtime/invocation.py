"""One invocation: the session as it grows, and what all nodes of the run share."""

import asyncio
from collections.abc import AsyncGenerator, Mapping, Sequence
from contextlib import AbstractAsyncContextManager, asynccontextmanager
from typing import NamedTuple

import msgspec

from weft.compiler.effects import effect_of
from weft.compiler.turn import user_content
from weft.content import Content, Part
from weft.declare import Agent, Callback, CallbackContext, Memory, Node, RunConfig
from weft.declare.inherit import inherit
from weft.declare.policy.transforms import Label
from weft.diagnostics import Diagnostic
from weft.models import Model
from weft.runtime.callbacks import wrong_answer
from weft.runtime.forking import Forking
from weft.runtime.kit import Kit, settled
from weft.runtime.past import Past
from weft.runtime.place import Place, is_below, path_of, paths_around
from weft.runtime.progress import Progress, is_reply
from weft.runtime.rewind import hidden_events
from weft.runtime.signals import Interrupted
from weft.runtime.spending import Spending
from weft.runtime.unbroken import unbroken
from weft.session import Actions, ArtifactStore, Event, Session, Store, Transaction
from weft.session.waiting import undone_by
from weft.values import Json, JsonObject

_PLAIN = Actions()


class Services(NamedTuple):
    """What a run reaches beside the log."""

    store: Store
    artifacts: ArtifactStore
    memory: Memory
    plugins: tuple[object, ...]
    on_event: tuple[Callback, ...]
    kits: dict[int, Kit]
    heirs: dict[tuple[int, int], tuple[Node, object, Node]]
    models: dict[str, Model]
    limits: dict[str, int]
    """Tokens that requests to a model must stay within, learned from its refusals."""


def _unscoped(event: Event) -> Event:
    """The event as it stands in its scope's own log."""
    return msgspec.structs.replace(event, isolation_scope=None)


class _Keeping:
    """A transaction that remembers the session it leads to."""

    def __init__(self, inner: Transaction, session: Session) -> None:
        self._inner = inner
        self.session = session

    @property
    def connection(self) -> object:
        return self._inner.connection

    async def append(self, *events: Event) -> Session:
        self.session = await self._inner.append(*events)
        return self.session


class Invocation:
    """From a user's message to the final answer: everything that happens is committed here."""

    def __init__(
        self, services: Services, session: Session, id: str, config: RunConfig, *, resumed: bool
    ) -> None:
        self.services = services
        self.session = session
        self.id = id
        self.config = config
        self.resumed = resumed
        self.llm_calls = 0
        self.hops = 0
        self.spending = Spending(config.budget) if config.budget is not None else None
        """What was spent of the run's budget, where it has one."""
        self.retry: frozenset[str] = frozenset()
        self.labels: tuple[Label, ...] = ()
        """The labels that are declared anywhere in what runs."""
        self.inner: frozenset[str] = frozenset()
        """The agents whose text is data for others, not for the user (O2)."""
        self.asked: dict[tuple[str, str], asyncio.Lock] = {}
        """Who asks a model for what a request wants: by the scope and the fingerprint."""
        self.findings: dict[str, Diagnostic] = {}
        """What the compiler had to say of this run's requests, each once."""
        self.call_ids: set[str] = set()
        """The ids given to calls so far in this run."""
        self.escalated: set[tuple[str, str]] = set()
        """Where somebody escalated: the path, and the tool call it happened inside, if any."""
        self.interrupted = False
        self.task: asyncio.Task[object] | None = None
        self._sheltered: set[str] = set()
        self._forking = Forking()
        self._views: dict[str, Session] = {}
        self._progress: dict[Place, Progress] = {}
        self._lock = asyncio.Lock()
        self._artifacts: dict[str, str] | None = None
        first, hidden = len(session.events), dict[int, str]()
        if resumed:
            first, hidden = 0, hidden_events(session.events)
        self._past = Past(id, first, hidden)
        if resumed:
            self._recall()

    @property
    def past(self) -> Past:
        """What the log has of this invocation, without what was rewound."""
        return self._past.read(self.session.events)

    def events(self) -> list[Event]:
        """All that the log has of this invocation."""
        return self.past.events()

    def _recall(self) -> None:
        """Take up what the log says about this invocation."""
        for event in self.events():
            self._note_escalation(event)
            if event.usage is not None or is_reply(event) or effect_of(event) is not None:
                self.llm_calls += 1
            if event.actions.transfer_to_agent:
                self.hops += 1
        if self.spending is not None:
            self.spending.recall(self.events())

    def _note_escalation(self, event: Event) -> None:
        """Keep in mind that somebody escalated, unless a flow took back what was done there."""
        if event.actions.escalate:
            self.escalated.add((path_of(event), event.isolation_scope or ""))
        if event.custom_metadata is not None and self.escalated:
            self.escalated = {
                (path, scope)
                for path, scope in self.escalated
                if not any(is_below(path, undone) for undone in undone_by(event))
            }

    async def commit(self, *events: Event) -> Event:
        """Store the events, all or none, with what they change; gives back the last of them.

        When this returns they are in the log. Only then may anything be built on them.
        """
        if self.interrupted:
            raise Interrupted
        return (await self._stored(events))[-1]

    async def commit_all(self, *events: Event) -> list[Event]:
        """Store the events as `commit` does; gives back all of them."""
        if self.interrupted:
            raise Interrupted
        return await self._stored(events)

    async def store(self, event: Event) -> Event:
        """Store the event even if the run was asked to stop."""
        return (await self._stored((event,)))[0]

    async def _stored(self, events: Sequence[Event]) -> list[Event]:
        """The events as they were stored."""
        stored = [self._forking.kept(event) for event in events]
        if self.labels:
            from weft.runtime.clearance import noted

            stored = [await noted(self, event) for event in stored]
        if self.services.on_event:
            stored = [await self._seen(event) for event in stored]
        async with self._lock:
            try:
                self.session = await self.services.store.append(self.session, *stored)
            except asyncio.CancelledError:
                await unbroken(self._append_again(stored))
                raise
        for event in stored:
            scope = event.isolation_scope
            if scope and scope in self._views:
                self._views[scope] = self._views[scope].append(_unscoped(event))
            self._note_escalation(event)
            if event.actions.artifact_delta:
                self._artifacts = None
            if self.spending is not None:
                self.spending.note(event)
        return stored

    async def _append_again(self, events: list[Event]) -> None:
        """Store events of which the store may have been told before: they are stored once."""
        self.session = await self.services.store.append(self.session, *events)

    @asynccontextmanager
    async def transaction(self) -> AsyncGenerator[Transaction]:
        """The store's transaction: what is written and appended in it is stored together."""
        async with self._lock:
            scope = self.services.store.transaction(self.session)
            keeping = _Keeping(await scope.__aenter__(), self.session)
            try:
                yield keeping
            except BaseException as error:
                await unbroken(scope.__aexit__(type(error), error, error.__traceback__))
                raise
            await unbroken(self._committed(scope, keeping))

    async def _committed(
        self, scope: AbstractAsyncContextManager[Transaction], keeping: _Keeping
    ) -> None:
        await scope.__aexit__(None, None, None)
        self.session = keeping.session

    async def _seen(self, event: Event) -> Event:
        """The event as the plugins leave it."""
        for callback in self.services.on_event:
            context = self.context(event.author, Place(path_of(event), event.branch or ""))
            answer = await settled(callback(context, event))
            if answer is None:
                continue
            if not isinstance(answer, Event):
                raise wrong_answer("on_event", callback, answer, "an Event")
            event = answer
        return event

    def event(
        self,
        author: str,
        place: Place,
        content: Content | None = None,
        *,
        actions: Actions = _PLAIN,
        error: tuple[str, str] | None = None,
        weft: JsonObject | None = None,
    ) -> Event:
        """An event of this invocation, made at a place."""
        return Event(
            author=author,
            content=content,
            invocation_id=self.id,
            branch=place.branch or None,
            actions=actions,
            error_code=error[0] if error is not None else None,
            error_message=error[1] if error is not None else None,
            custom_metadata={"weft": weft} if weft is not None else None,
            node_info=place.node_info,
            isolation_scope=place.scope or None,
        )

    def progress(self, place: Place) -> Progress:
        """What was done at a place so far."""
        held = self._progress.get(place)
        if held is None:
            held = self._progress[place] = Progress.of(self.past.at(place) if self.resumed else ())
        return held

    def shelter(self, place: Place) -> None:
        """Say that somebody deals with a failure at or below a place.

        There, a failure that the log has stays one. Anywhere else it ended the run, and a run
        that goes on after it tries again.
        """
        if self.resumed:
            self._sheltered.add(place.path)

    def sheltered(self, place: Place) -> bool:
        """Whether somebody deals with a failure at a place."""
        return not self._sheltered.isdisjoint(paths_around(place.path))

    def fork(self, place: Place) -> None:
        """Say that the branch of a place has a state of its own, below that path."""
        self._forking.begin(place)

    def own_state(self, place: Place) -> JsonObject:
        """What was written on the branch of a place; None stands for a key that was deleted."""
        return self._forking.own(self.session, place)

    def state_at(self, place: Place) -> Mapping[str, Json]:
        """The state as it is seen from a place."""
        return self._forking.state_at(self.session, place)

    @property
    def state(self) -> Mapping[str, Json]:
        """The state as this invocation sees it."""
        return self.state_at(Place())

    def temp_at(self, place: Place) -> JsonObject:
        """The state that lasts as long as the invocation, as it is seen from a place."""
        return self._forking.temp_at(place)

    def view(self, scope: str) -> Session:
        """The log as a node sees it: all of it, or what belongs to the tool call it runs inside."""
        if not scope:
            return self.session
        held = self._views.get(scope)
        if held is None:
            mine = [_unscoped(e) for e in self.events() if e.isolation_scope == scope]
            whole = self.session
            held = Session(whole.id, app_name=whole.app_name, user_id=whole.user_id, events=mine)
            self._views[scope] = held
        return held

    def said(self, place: Place) -> str:
        """What the user said to start the invocation, or a node to the one it calls; its text."""
        content = user_content(self.view(place.scope).events, self.id)
        return content.text if content is not None else ""

    def context(self, agent: str, place: Place) -> CallbackContext:
        """A context for a callback."""
        return CallbackContext(
            agent_name=agent,
            invocation_id=self.id,
            branch=place.branch,
            state=self.state_at(place),
            around=self,
        )

    def kit(self, agent: Agent) -> Kit:
        """The agent's callbacks and tools."""
        held = self.services.kits.get(id(agent))
        if held is None or held.agent is not agent:
            held = self.services.kits[id(agent)] = Kit(agent, self.services.plugins)
        return held

    def heir(self, node: Node, model: object) -> Node:
        """The node below an agent, with the agent's model where it names none; made once."""
        heirs, key = self.services.heirs, (id(node), id(model))
        held = heirs.get(key)
        if held is None or held[0] is not node or held[1] is not model:
            held = heirs[key] = (node, model, inherit(node, model))
        return held[2]

    async def save_artifact(self, name: str, part: Part) -> int:
        """Keep a new version of an artifact."""
        self._artifacts = None
        return await self.services.artifacts.save(*self._owner, name, part)

    async def load_artifact(self, name: str, version: int | None) -> Part | None:
        """A version of an artifact, the newest by default."""
        return await self.services.artifacts.load(*self._owner, name, version)

    async def artifact_names(self) -> list[str]:
        """The artifacts of this session and its user."""
        return await self.services.artifacts.names(*self._owner)

    async def artifact_texts(self) -> dict[str, str]:
        """The newest text of each artifact that has one."""
        if self._artifacts is None:
            texts: dict[str, str] = {}
            for name in await self.artifact_names():
                part = await self.load_artifact(name, None)
                if part is not None and part.text is not None:
                    texts[name] = part.text
            self._artifacts = texts
        return self._artifacts

    async def search_memory(self, query: str) -> Sequence[Content]:
        """What was said in the user's sessions."""
        return await self.services.memory.search(self.session.app_name, self.session.user_id, query)

    @property
    def _owner(self) -> tuple[str, str, str]:
        return self.session.app_name, self.session.user_id, self.session.id
