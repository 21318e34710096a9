"""One invocation: what a run was asked for, and its parts, which its nodes share."""

import asyncio
from collections.abc import Awaitable, Callable, Coroutine, Mapping, Sequence

import msgspec

from weft.content import Content
from weft.declare import (
    Agent,
    Callback,
    CallbackContext,
    MemorySearch,
    Node,
    RunConfig,
    Tool,
)
from weft.declare.visit import every_node, inherit
from weft.diagnostics import Diagnostic
from weft.media import LoadedMedia
from weft.models import Model
from weft.runtime.costs import Spending
from weft.runtime.feeds import Feeds
from weft.runtime.flow import RunFlow
from weft.runtime.forks import Forks
from weft.runtime.place import Interrupted, NodeFailed, Place, path_of, place_of
from weft.runtime.program import AgentBindings, Program, await_value, wrong_answer
from weft.runtime.run_log import RunLog
from weft.runtime.surroundings import RunSurroundings
from weft.runtime.tracing import RunTrace
from weft.session import Actions, ArtifactStore, Event, Session, SessionKey, Store
from weft.session.event import EMPTY_ACTIONS
from weft.session.flow import TRUSTED, TrustLabel, note_of
from weft.session.provenance import NOTHING, Provenance
from weft.values import JsonObject


class Request(msgspec.Struct, frozen=True):
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


class RunControl:
    """How others reach a run that is under way: they stop it, hand it over, or hear it is open."""

    task: asyncio.Task[object] | None = None
    """The task that works for the run; None while whoever iterates it has its turn."""
    asked_to_stop = False
    interrupted = False
    """Whether a later run asked this one to stop, and it could be told."""
    is_open = False
    is_handed_over = False
    """Whether the run stops here so that somebody else goes on with it."""
    has_let_go = False
    """Whether the run is over, and others can have the session."""
    earlier: "RunControl | None" = None
    """That of the run that was cut off before this one and is finished first."""
    opened: Callable[[], None] | None = None
    """Whom to tell that the session is open and has the message."""
    may_create: Callable[[], Awaitable[bool]] | None = None
    """Asked, under the lease, before a session is made that does not exist."""
    follower: str | None = None
    """A process that follows it from the beginning, as the relay of the store names it."""
    _is_cancelled = False

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


class Services(msgspec.Struct, frozen=True):
    """What a run reaches in addition to the log."""

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

    id: str
    start = ""
    """The agent of the root that the message goes to."""
    failure: NodeFailed | None = None
    """What ended the run, if something did."""
    trace: RunTrace | None = None
    """What follows the run, where a plugin traces it."""
    is_repeated = False
    """Whether the log had the request already."""
    is_settled = False
    """Whether nothing is left to do for a request that is repeated."""

    def __init__(self, root: Node, services: Services, request: Request) -> None:
        self.root = root
        self.services = services
        self.request = request
        self.config = request.config
        self.control = RunControl()
        """How others reach the run."""
        self.log = RunLog(services.store, services.feeds.idle)
        """The session as it grows, and what it has of this run."""
        self.announced: list[object] = []
        """The plugins that were told of the run, and not yet of its end."""

    def enter(self, session: Session, id: str, program: Program, *, resumed: bool) -> None:
        """Begin in a session, or go on there from what the log says."""
        services, log = self.services, self.log
        self.id = id
        self.program = program
        self.root = program.root
        self.labels = program.labels(self.config)
        """The labels that are declared anywhere in what runs."""
        self.spending = Spending(self.config.budget)
        """The model calls so far, and what was spent of the run's budget."""
        self.flow = RunFlow(log)
        """The labels of branches and of what lasts as long as the run."""
        self.forks = Forks(log)
        """The state as places see it."""
        self.surroundings = RunSurroundings(
            log, services.store, services.artifacts, services.memory
        )
        """Artifacts and memory."""
        self.asked: dict[tuple[str, str], asyncio.Lock] = {}
        """Who asks a model for what a request wants: by the scope and the fingerprint."""
        self.findings: dict[str, Diagnostic] = {}
        """What the compiler had to say of this run's requests, each once."""
        self.call_ids: set[str] = set()
        """The ids given to calls so far in this run."""
        self.media: dict[str, LoadedMedia] = {}
        """The files that events refer to by address, as long as the run lasts."""
        self.offers = Offers()
        """What toolsets answered."""
        log.enter(session, id, self.spending, resumed=resumed)

    @property
    def author(self) -> str:
        """Who speaks for the run where nobody has spoken yet."""
        return self.start or self.root.name

    async def commit(self, *events: Event) -> Event:
        """Store the events, all or none, with what they change; gives back the last of them.

        When this returns they are in the log. Only then may anything be built on them.
        """
        return (await self.commit_all(events))[-1]

    def commit_all(self, events: Sequence[Event]) -> Coroutine[object, None, list[Event]]:
        """Store the events as `commit` does; gives back all of them."""
        if self.control.interrupted:
            raise Interrupted
        return self._store_all(events)

    async def store(self, event: Event) -> Event:
        """Store the event even if the run was asked to stop."""
        return (await self._store_all((event,)))[0]

    async def _store_all(self, events: Sequence[Event]) -> list[Event]:
        """Store the events, and note what they change; gives them back as they were stored."""
        stored: list[Event] = []
        for event in events:
            event = self.flow.as_stored(event)
            stored.append(self.forks.as_stored(event) if event.actions.state_delta else event)
        if self.labels:
            from weft.runtime.labels import with_labels

            stored = [await with_labels(self, event) for event in stored]
        if self.services.on_event:
            stored = [await self._show_plugins(event) for event in stored]
        if self.trace is None:
            await self.log.append(stored)
            return stored
        step = self.trace.begin_store(place_of(stored[-1]), len(stored))
        try:
            await self.log.append(stored)
        except BaseException as error:
            step.end(error)
            raise
        step.end()
        return stored

    def ready(self, event: Event) -> Event | None:
        """The event as it is stored, if that takes nothing that must not be done in a transaction.

        Labels and plugins may read the store, and would wait for the transaction.
        """
        if self.labels or self.services.on_event:
            return None
        return self.forks.as_stored(self.flow.as_stored(event))

    async def _show_plugins(self, event: Event) -> Event:
        """The event as the plugins leave it."""
        for callback in self.services.on_event:
            context = self.context(event.author, Place(path_of(event), event.branch or ""))
            answer = await await_value(callback(context, event))
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
        label: TrustLabel = TRUSTED,
    ) -> Event:
        """An event of this invocation, made at a place from what has a label."""
        metadata = notes.onto(None) if notes is not NOTHING and notes != NOTHING else None
        return Event(
            author,
            content,
            self.id,
            branch=place.branch or None,
            actions=actions,
            error_code=error[0] if error is not None else None,
            error_message=error[1] if error is not None else None,
            custom_metadata=metadata if label is TRUSTED else note_of(label).onto(metadata),
            node_info=place.node_info if place.path else None,
            isolation_scope=place.scope or None,
        )

    def context(self, agent: str, place: Place) -> CallbackContext:
        """A context for a callback."""
        return CallbackContext(
            agent_name=agent,
            invocation_id=self.id,
            branch=place.branch,
            state=self.forks.state_at(place),
            around=self.surroundings,
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


async def store_decision(
    invocation: Invocation,
    place: Place,
    name: str,
    state: JsonObject,
    notes: Provenance = NOTHING,
    label: TrustLabel = TRUSTED,
) -> None:
    """Keep a decision in the log before acting on it."""
    actions = Actions(agent_state=state)
    await invocation.commit(
        invocation.event(name, place, actions=actions, notes=notes, label=label)
    )


async def store_failure(
    invocation: Invocation,
    place: Place,
    author: str,
    code: str,
    words: str,
    cause: Exception | None = None,
    label: TrustLabel = TRUSTED,
) -> NodeFailed:
    """An error event that is in the log, as the exception that ends the node.

    `label` is of what was read before it failed: that may be in its words, and has decided on it.
    """
    event = invocation.event(author, place, error=(code, words), label=label)
    return NodeFailed(await invocation.commit(event), cause)
