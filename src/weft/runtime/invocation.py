"""One invocation: what a run was asked for, its session as it grows, and what its nodes share."""

import asyncio
from collections.abc import AsyncGenerator, Awaitable, Callable, Mapping, Sequence
from contextlib import AbstractAsyncContextManager, asynccontextmanager
from typing import NamedTuple

import msgspec

from weft.content import Content, Part
from weft.declare import (
    Agent,
    Callback,
    CallbackContext,
    MemorySearch,
    Node,
    Recollection,
    RunConfig,
    Tool,
)
from weft.declare.policy_parts import MemoryScorer
from weft.declare.visit import every_node, inherit
from weft.diagnostics import Diagnostic
from weft.errors import UsageError, describe_kind
from weft.media import LoadedMedia
from weft.models import Model
from weft.runtime.costs import Spending
from weft.runtime.feeds import Feed, Feeds
from weft.runtime.place import (
    Forking,
    Interrupted,
    NodeFailed,
    Past,
    Place,
    Progress,
    Record,
    hidden_events,
    is_below,
    is_reply,
    path_of,
    paths_around,
    unbroken,
)
from weft.runtime.program import AgentBindings, Program, settled, wrong_answer
from weft.session import (
    Actions,
    ArtifactStore,
    Event,
    MemoryStore,
    Session,
    SessionKey,
    Store,
    Transaction,
)
from weft.session.event import EMPTY_ACTIONS
from weft.session.lookback import hidden_by_undoing, user_content
from weft.session.provenance import NOTHING, Provenance
from weft.values import Json, JsonObject, handle_of


class Request(NamedTuple):
    """What a run was asked for: a new message, answers to open calls, or to go on."""

    key: SessionKey
    config: RunConfig
    content: Content | None = None
    state: JsonObject = {}
    answers: Mapping[str, object] = {}
    retry: frozenset[str] = frozenset()
    invocation_id: str | None = None
    request_id: str | None = None
    """The client's own id of the message, which is the id of its invocation: it is taken once."""
    seed: Session | None = None
    deps: object = None
    """What tools and callbacks are handed as `ctx.deps`; it is never stored."""
    owned: bool = False
    """Whether the store was opened for this run, and is closed when it ends."""
    create: bool = True
    """Whether a message to a session that does not exist makes it."""


class Services(msgspec.Struct, frozen=True):
    """What a run reaches beside the log."""

    store: Store
    artifacts: ArtifactStore
    memory: MemorySearch | None
    """Where what was said before is searched; None for the sessions of the store."""
    plugins: tuple[object, ...]
    on_event: tuple[Callback, ...]
    bindings: dict[int, AgentBindings]
    programs: dict[int, Program]
    heirs: dict[tuple[int, int], tuple[Node, object, Node]]
    """Nodes below an agent with the model they inherit, by the ids of the node and the model."""
    models: dict[str, Model]
    feeds: Feeds
    """Who follows which session."""
    limits: dict[str, int]
    """Tokens that requests to a model must stay within, learned from its refusals."""

    def program(self, root: Node) -> Program:
        """What the root's declaration decides, worked out once."""
        program = self.programs.get(id(root))
        # another root may have the id of one that is gone
        if program is None or program.root is not root:
            program = self.programs[id(root)] = Program(root)
        return program

    def forget(self, root: Node, but: Node) -> None:
        """Keep nothing of a root that is not run any more, except what another root has too."""
        shared = {id(node) for node in every_node(but)}
        nodes = [node for node in every_node(root) if id(node) not in shared]
        gone = {id(node) for node in nodes}
        for key in [key for key in self.heirs if key[0] in gone]:
            nodes += every_node(self.heirs.pop(key)[2])
        self.programs.pop(id(root), None)
        for node in nodes:
            self.bindings.pop(id(node), None)


def _without_scope(event: Event) -> Event:
    """The event as it stands in its scope's own log."""
    return msgspec.structs.replace(event, isolation_scope=None)


class _TrackedTransaction:
    """A transaction that remembers the session it leads to, and the events that are new there."""

    def __init__(self, inner: Transaction, session: Session) -> None:
        self._inner = inner
        self.session = session
        self.stored: list[Event] = []

    @property
    def connection(self) -> object:
        return self._inner.connection

    async def append(self, *events: Event) -> Session:
        self.session = await self._inner.append(*events)
        self.stored += events
        return self.session


class Offers:
    """What the toolsets of an invocation's agents answered, each asked once."""

    def __init__(self) -> None:
        self.tools: dict[str, tuple[Tool, ...]] = {}
        """By agent."""
        self.stored: set[tuple[str, str]] = set()
        """Whose tools are in the log: the agent, and the tool call it runs inside, if any."""
        self.bindings: dict[int, AgentBindings] = {}
        """Of agents with such tools, which another invocation may not see again."""
        self.lock = asyncio.Lock()


class Invocation:
    """A run, from the user's message to the final answer; everything that happens is stored here.

    It is made with what was asked for. `enter` gives it its session, once it has the lease.
    """

    def __init__(self, root: Node, services: Services, request: Request) -> None:
        self.root = root
        self.services = services
        self.request = request
        self.config = request.config
        self.retry = request.retry
        self.start = ""
        """The agent of the root that the message goes to."""
        self.failure: NodeFailed | None = None
        """What ended the run, if something did."""
        self.announced: list[object] = []
        """The plugins that were told of the run, and not yet of its end."""
        self.task: asyncio.Task[object] | None = None
        """The task that works for the run; None while whoever iterates it has its turn."""
        self.asked_to_stop = False
        self.interrupted = False
        """Whether a later run asked this one to stop, and it could be told."""
        self.is_open = False
        self._is_cancelled = False
        self.opened: Callable[[], None] | None = None
        """Whom to tell that the session is open and has the message."""
        self.is_handed_over = False
        """Whether the run stops here so that somebody else goes on with it."""
        self.earlier: Invocation | None = None
        """The run that was cut off before this one and is finished first."""
        self.is_repeated = False
        """Whether the log had the request already."""
        self.is_settled = False
        """Whether nothing is left to do for a request that is repeated."""
        self.feed: Feed = services.feeds.idle
        """Those who follow the session, while the run is under way."""
        self.has_let_go = False
        """Whether the run is over, and others can have the session."""
        self.may_create: Callable[[], Awaitable[bool]] | None = None
        """Asked, under the lease, before a session is made that does not exist."""
        self.follower: str | None = None
        """A process that follows it from the beginning, as the relay of the store names it."""
        self.session: Session
        self.id: str
        self.resumed: bool

    def enter(self, session: Session, id: str, program: Program, *, resumed: bool) -> None:
        """Begin in a session, or go on there from what the log says."""
        self.session = session
        self.id = id
        self.resumed = resumed
        self.program = program
        self.root = program.root
        self.labels = program.labels(self.config)
        """The labels that are declared anywhere in what runs."""
        self.inner = program.inner
        """The agents whose text is data for others, not for the user."""
        self.llm_calls = 0
        self.hops = 0
        self.spending = Spending(self.config.budget) if self.config.budget is not None else None
        """What was spent of the run's budget, where it has one."""
        self.asked: dict[tuple[str, str], asyncio.Lock] = {}
        """Who asks a model for what a request wants: by the scope and the fingerprint."""
        self.findings: dict[str, Diagnostic] = {}
        """What the compiler had to say of this run's requests, each once."""
        self.call_ids: set[str] = set()
        """The ids given to calls so far in this run."""
        self.media: dict[str, LoadedMedia] = {}
        """The files that events refer to by address, as long as the run lasts."""
        self.escalated: set[tuple[str, str]] = set()
        """Where somebody escalated: the path, and the tool call it happened inside, if any."""
        self.offers = Offers()
        """What toolsets answered."""
        self._sheltered: set[str] = set()
        self._forking = Forking()
        self._views: dict[str, Session] = {}
        self._progress: dict[Place, Progress] = {}
        self._lock = asyncio.Lock()
        self._artifacts: dict[str, str] | None = None
        self._versions: set[tuple[str, int]] | None = None
        """The versions of artifacts that belong to something: to events, or to this run."""
        # a new run has nothing in the log before this: the past need not be read
        first, hidden = session.events.length, dict[int, str]()
        if resumed:
            first, hidden = 0, hidden_events(session.events)
        self._first = first
        self._past = Past(id, first, hidden)
        if resumed:
            self._recall()

    def interrupt(self) -> None:
        """Stop as soon as possible: at once while a model or a tool is waited for."""
        self.asked_to_stop = True
        if self.earlier is not None:
            self.earlier.interrupt()
        # before it is open nothing is under way: the run looks at `asked_to_stop` then
        if self.is_open and not self.interrupted:
            self.interrupted = True
            # without a task the reader has its turn, and looks at `interrupted` itself
            if self.task is not None:
                self._is_cancelled = self.task.cancel()

    def hand_over(self) -> None:
        """Leave the log as a crash would, once the run is cancelled: somebody else goes on."""
        self.is_handed_over = True
        if self.earlier is not None:
            self.earlier.is_handed_over = True

    def take_back(self) -> bool:
        """Take back that the task was cancelled for a later run; False if it was for another."""
        task = asyncio.current_task()
        return self._is_cancelled and task is not None and not task.uncancel()

    @property
    def author(self) -> str:
        """Who speaks for the run where nobody has spoken yet."""
        return self.start or self.root.name

    @property
    def past(self) -> Past:
        """What the log has of this invocation, without what was rewound."""
        return self._past.read(self.session.events)

    def events(self) -> list[Event]:
        """All that the log has of this invocation."""
        return self.past.events()

    def visible_events(self) -> list[Event]:
        """All that the log has of this invocation and no flow took back."""
        mine = self.session.events.since(self._first) if not self.resumed else self.events()
        for event in mine:
            # only metadata can take something back, and most events have none
            if event.custom_metadata is not None or event.invocation_id != self.id:
                break
        else:
            return mine
        mine = self.events()
        undone = hidden_by_undoing(mine)
        return [event for index, event in enumerate(mine) if index not in undone]

    def _recall(self) -> None:
        """Take up what the log says about this invocation."""
        for event in self.events():
            self._note_escalation(event)
            # limits count over the whole invocation, whichever process made the calls
            if event.usage is not None or is_reply(event) or event.provenance.effect is not None:
                self.llm_calls += 1
            if event.actions.transfer_to_agent:
                self.hops += 1
        if self.spending is not None:
            self.spending.recall(self.events())

    def _note_escalation(self, event: Event) -> None:
        """Keep in mind that somebody escalated, unless a flow took back what was done there."""
        if event.actions.escalate:
            self.escalated.add((path_of(event), event.isolation_scope or ""))
        undone = event.provenance.undone
        if undone and self.escalated:
            self.escalated = {
                (path, scope)
                for path, scope in self.escalated
                if not any(is_below(path, undone) for undone in undone)
            }

    async def commit(self, *events: Event) -> Event:
        """Store the events, all or none, with what they change; gives back the last of them.

        When this returns they are in the log. Only then may anything be built on them.
        """
        if self.interrupted:
            raise Interrupted
        return (await self._store_all(events))[-1]

    async def commit_all(self, *events: Event) -> list[Event]:
        """Store the events as `commit` does; gives back all of them."""
        if self.interrupted:
            raise Interrupted
        return await self._store_all(events)

    async def store(self, event: Event) -> Event:
        """Store the event even if the run was asked to stop."""
        return (await self._store_all((event,)))[0]

    async def _store_all(self, events: Sequence[Event]) -> list[Event]:
        """Store the events, and note what they change; gives them back as they were stored."""
        stored = [
            self._merge_delta(event) if event.actions.state_delta else event for event in events
        ]
        if self.labels:
            from weft.runtime.labels import noted

            stored = [await noted(self, event) for event in stored]
        if self.services.on_event:
            stored = [await self._show_plugins(event) for event in stored]
        # readers elsewhere get the pieces of an answer before its complete event
        if self.feed.sending is not None:
            await self.feed.sending.flush()
        store = self.services.store
        waits = type(store) is not MemoryStore or self._lock.locked()
        if not waits:  # nothing can come between
            self._grow(await store.append(self.session, *stored))
        else:
            async with self._lock:
                try:
                    self._grow(await store.append(self.session, *stored))
                except asyncio.CancelledError:
                    # whether the store has them is not known: to append again is safe
                    await unbroken(self._append_again(stored))
                    raise
        self._note(stored)
        return stored

    def _grow(self, session: Session) -> None:
        """Go on in the session as it is now, and tell those who follow it."""
        length = self.session.events.length
        self.session = session
        self.feed.grow(session.events, length)

    def _merge_delta(self, event: Event) -> Event:
        """The event with its delta as the state outside of a branch takes it."""
        return self._forking.as_stored(event) if event.actions.state_delta else event

    def ready(self, event: Event) -> Event | None:
        """The event as it is stored, if that takes nothing that must not be done in a transaction.

        Labels and plugins may read the store, and would wait for the transaction.
        """
        return None if self.labels or self.services.on_event else self._merge_delta(event)

    def _note(self, stored: Sequence[Event]) -> None:
        """Take up what events that are stored now change."""
        for event in stored:
            scope = event.isolation_scope
            if scope and scope in self._views:
                self._views[scope] = self._views[scope].append(_without_scope(event))
            actions = event.actions
            if actions.escalate or (self.escalated and event.custom_metadata is not None):
                self._note_escalation(event)
            if actions.artifact_delta:
                self._artifacts = None
            if self.spending is not None:
                self.spending.note(event)

    async def _append_again(self, events: list[Event]) -> None:
        """Store events of which the store may have been told before: they are stored once."""
        self._grow(await self.services.store.append(self.session, *events))

    @asynccontextmanager
    async def transaction(self) -> AsyncGenerator[Transaction]:
        """The store's transaction: what is written and appended in it is stored together."""
        async with self._lock:
            # under the lock: the session must not grow between the tool's writes and its result
            scope = self.services.store.transaction(self.session)
            keeping = _TrackedTransaction(await scope.__aenter__(), self.session)
            try:
                yield keeping
            except BaseException as error:
                await unbroken(scope.__aexit__(type(error), error, error.__traceback__))
                raise
            await unbroken(self._commit_transaction(scope, keeping))

    async def _commit_transaction(
        self, scope: AbstractAsyncContextManager[Transaction], keeping: _TrackedTransaction
    ) -> None:
        """Commit the store's transaction, and take up what it stored."""
        await scope.__aexit__(None, None, None)
        self._grow(keeping.session)
        self._note(keeping.stored)

    async def _show_plugins(self, event: Event) -> Event:
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
        actions: Actions = EMPTY_ACTIONS,
        error: tuple[str, str] | None = None,
        notes: Provenance = NOTHING,
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
            custom_metadata=notes.onto(None) if notes is not NOTHING and notes != NOTHING else None,
            node_info=place.node_info,
            isolation_scope=place.scope or None,
        )

    def progress(self, place: Place) -> Progress:
        """What was done at a place so far."""
        progress = self._progress.get(place)
        if progress is None:
            progress = self._progress[place] = Progress.of(
                self.past.at(place) if self.resumed else ()
            )
        return progress

    def record(self, place: Place) -> Record:
        """What the flow at a place has left in the log."""
        return Record.of(self.past.at(place) if self.resumed else ())

    def shelter(self, place: Place) -> None:
        """Say that somebody deals with a failure at or below a place.

        There, a failure that the log has stays one. Anywhere else it ended the run, and a run
        that goes on after it tries again.
        """
        if self.resumed:
            self._sheltered.add(place.path)

    def unshelter(self, place: Place) -> None:
        """Say that nobody deals with a failure at a place: what failed there is tried again."""
        self._sheltered.discard(place.path)

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

    def state_before(self, index: int, place: Place) -> Mapping[str, Json]:
        """The state as it was seen from a place before the event at `index` of the log."""
        return self._forking.state_at(self.session.before(index), place)

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
        view = self._views.get(scope)
        if view is None:
            mine = [_without_scope(e) for e in self.events() if e.isolation_scope == scope]
            whole = self.session
            view = Session(whole.id, app_name=whole.app_name, user_id=whole.user_id, events=mine)
            self._views[scope] = view
        return view

    def user_text(self, place: Place) -> str:
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
            deps=self.request.deps,
        )

    def bindings(self, agent: Agent) -> AgentBindings:
        """The agent's callbacks and tools."""
        known = self.services.bindings
        # tools that a toolset gave are of this invocation only
        if agent.name in self.offers.tools:
            known = self.offers.bindings
        bindings = known.get(id(agent))
        # another agent may have the id of one that is gone
        if bindings is None or bindings.agent is not agent:
            bindings = known[id(agent)] = AgentBindings(agent, self.services.plugins)
        return bindings

    def heir(self, node: Node, model: object) -> Node:
        """The node below an agent, with the agent's model where it names none; made once."""
        heirs, key = self.services.heirs, (id(node), id(model))
        heir = heirs.get(key)
        # the ids may be those of a node or a model that is gone
        if heir is None or heir[0] is not node or heir[1] is not model:
            heir = heirs[key] = (node, model, inherit(node, model))
        return heir[2]

    async def save_artifact(self, name: str, part: Part) -> int:
        """Keep a new version of an artifact; one that a crash cut off from its event is used."""
        self._artifacts = None
        # only a run that was cut off can have left a version that no event names
        if not self.resumed:
            return await self.services.artifacts.save(*self._owner, name, part)
        if self._versions is None:
            deltas = (event.actions.artifact_delta for event in self.session.events)
            self._versions = {pair for delta in deltas for pair in delta.items()}
        version = await self._orphan(name, part)
        if version is None:
            version = await self.services.artifacts.save(*self._owner, name, part)
        self._versions.add((name, version))
        return version

    async def _orphan(self, name: str, part: Part) -> int | None:
        """The newest version, if it is the same and no event has it: its call was cut off."""
        artifacts = self.services.artifacts
        newest = max(await artifacts.versions(*self._owner, name), default=None)
        if newest is None or (name, newest) in (self._versions or ()):
            return None
        return newest if await artifacts.load(*self._owner, name, newest) == part else None

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
        return await self._memory.search(self.session.app_name, self.session.user_id, query)

    async def find_memories(
        self, query: str, *, top_k: int | None = None, scorer: MemoryScorer | None = None
    ) -> Sequence[Recollection]:
        """What the memory has on a query, without what this session says itself."""
        from weft.stores.memories import Memory

        app_name, user_id, session_id = self._owner
        memory = self._memory
        if isinstance(memory, Memory):
            return await memory.find(
                app_name, user_id, query, top_k=top_k, scorer=scorer, without=session_id
            )
        contents = await memory.search(app_name, user_id, query)
        return [
            Recollection(id=f"memory-{handle_of(one.text)}", text=one.text, author=one.role or "")
            for one in contents[:top_k]
        ]

    async def remember(self, text: str, author: str) -> str:
        """Keep a note in the user's memory."""
        from weft.stores.memories import Memory

        app_name, user_id, session_id = self._owner
        memory = self._memory
        if not isinstance(memory, Memory):
            raise UsageError(
                f"{describe_kind(memory)} cannot be written",
                where="Runner.memory",
                hint='pass weft.Memory("sqlite:///weft.db")',
            )
        return await memory.remember(app_name, user_id, text, session=session_id, author=author)

    @property
    def _memory(self) -> MemorySearch:
        """The runner's memory, or the store's own: notes, and all sessions of the user."""
        if self.services.memory is not None:
            return self.services.memory
        from weft.stores.memories import Memory  # it loads much, and few runs search

        return Memory(self.services.store, sessions=True)

    @property
    def _owner(self) -> tuple[str, str, str]:
        return self.session.app_name, self.session.user_id, self.session.id


async def decide(
    invocation: Invocation,
    place: Place,
    name: str,
    state: JsonObject,
    notes: Provenance = NOTHING,
) -> None:
    """Keep a decision in the log before acting on it."""
    await invocation.commit(
        invocation.event(name, place, actions=Actions(agent_state=state), notes=notes)
    )


async def failed(
    invocation: Invocation,
    place: Place,
    author: str,
    code: str,
    words: str,
    cause: Exception | None = None,
) -> NodeFailed:
    """An error event that is in the log, as the exception that ends the node."""
    event = await invocation.commit(invocation.event(author, place, error=(code, words)))
    return NodeFailed(event, cause)
