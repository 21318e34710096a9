"""The runner: an agent or flow, a store, and the runs of its sessions."""

import asyncio
import inspect
import os
from abc import ABCMeta
from collections.abc import AsyncGenerator, Callable, Mapping, Sequence
from contextlib import suppress
from importlib.machinery import ModuleSpec
from typing import TYPE_CHECKING, Generic, TypeAlias, cast

import msgspec

from weft.content import Content, ContentLike, Part, require_posted, to_content
from weft.declare import Agent, CustomAgent, Flow, MemoryKeeper, MemorySearch, Node, RunConfig
from weft.declare.agent import AnswerT
from weft.declare.answers import with_answer_schema
from weft.declare.config import overlay_config
from weft.declare.hints import RUN_WORDS
from weft.declare.tool import Tool, to_tools
from weft.errors import SessionBusy, UsageError, describe_kind
from weft.misuse import explain_calls, unknown_name
from weft.runtime.background import Following, StartedRun, starting, stop_run
from weft.runtime.background import follow as follow_session
from weft.runtime.earlier import find_request, require_request_id, rewind_event, unfinished_sessions
from weft.runtime.feeds import Feeds, Follower
from weft.runtime.invocation import Request, Services
from weft.runtime.program import check_plugins, plugin_methods, with_plugins
from weft.runtime.run import Running, unknown_session
from weft.runtime.tracing import TracingPlugin, tracing_plugin
from weft.session import ArtifactStore, Event, Session, SessionKey, Store
from weft.session.event import new_id, scope_of, without_shared
from weft.session.store import ErasingStore, attach, lease_session, require_place
from weft.stores import beside_store, create_filled, open_artifacts, open_store
from weft.values import Json, JsonObject, digest, require_object

if TYPE_CHECKING:
    from pathlib import Path

    from weft.runtime.approvals import Pending
    from weft.stores.upkeep import Erased

RunExtension: TypeAlias = tuple[Sequence[Tool], JsonObject | None]
"""What one run has in addition to what its root declares: tools, and the schema of its answer."""

_DEFAULT = RunConfig()

_SAME_REQUEST = (0.01, 0.05, 0.2, 0.5)
"""Seconds to wait between looks whether the run that has the session answers the same message."""

_MOST_EXTENSIONS = 64
"""How many roots that were extended for single runs are remembered."""

_WORDS = {
    "agent": "pass the agent first, without a name: Runner(agent)",
    "node": "pass the agent first, without a name: Runner(agent)",
    "app": "app_name",
    "name": "app_name",
    "session_service": "store",
    "checkpointer": "store",
    "db": "store",
    "artifact_service": "artifacts",
    "memory_service": "memory",
    "callbacks": "plugins",
    "run_config": "config",
    "model": "pass it in config=weft.RunConfig(model=...)",
    **dict.fromkeys(
        ("max_steps", "max_turns", "max_iterations"),
        'write Agent("name", max_steps=...), or config=weft.RunConfig(max_llm_calls=...)',
    ),
    **dict.fromkeys(("user_id", "session_id"), 'pass it to a run: runner.run("message", ...)'),
    **dict.fromkeys(("tools", "instruction"), 'write it with the agent: Agent("name", ...)'),
}
"""Options of a runner by the names that others give them."""

_METHODS = {
    **dict.fromkeys(
        ("run_sync", "chat", "ask", "call", "execute", "generate"),
        'weft.run_sync(agent, "message")',
    ),
    **dict.fromkeys(
        ("run_async", "arun", "invoke", "ainvoke", "kickoff", "kickoff_async", "run_debug"),
        'await runner.run("message"), or weft.run_sync(agent, "message") without async',
    ),
    **dict.fromkeys(("astream", "run_live", "iter"), 'async for event in runner.run("message")'),
    **dict.fromkeys(("history", "messages", "get_session"), 'await runner.session(session_id="s")'),
    "stream": 'async for event in runner.run("message", config=RunConfig(stream=True))',
    "run_streamed": 'async for event in weft.stream(agent, "message")',
}
"""What to write instead of methods that runners of others have."""

if TYPE_CHECKING:
    _RunnerClass = type
else:

    class _RunnerClass(ABCMeta):  # not type: a runner of somebody's own may be an ABC as well
        """Says what to write instead of a method that is called on the class."""

        def __getattr__(cls, name: str) -> object:
            raise unknown_name(f"a runner has no `{name}`", name, cls, _METHODS)


class Runner(Generic[AnswerT], metaclass=_RunnerClass):
    """Runs an agent or a flow over the sessions of a store.

    One runner serves any number of sessions at once; runs of one session wait for each other.

    `app_name` is what sessions and `app:` state are kept under. Left out, it is the name of the
    agent, or of a flow that was given one; else that of the module and variable which hold the
    flow. `deps` is what tools and callbacks are handed in runs that are passed none.
    """

    @explain_calls('Runner(agent, store="sqlite:///weft.db")', words=_WORDS)
    def __init__(
        self,
        root: Agent[AnswerT] | Flow,
        *,
        app_name: str | None = None,
        store: str | Store = "memory://",
        artifacts: "str | Path | ArtifactStore | None" = None,
        memory: MemorySearch | None = None,
        plugins: Sequence[object] = (),
        config: RunConfig | None = None,
        global_instruction: str | None = None,
        deps: object = None,
    ) -> None:
        if not isinstance(cast("object", root), Agent | Flow):
            raise UsageError(
                f"{describe_kind(root)} cannot be run",
                where="Runner",
                hint=_runnable(root),
            )
        self.root = root
        self.app_name = app_name or _own_name(root, store)
        self.store = open_store(store)
        place = artifacts if artifacts is not None else beside_store(self.store)
        self.artifacts = open_artifacts(place)
        self.memory = _memory(memory)
        self._config = _config(config, _DEFAULT)
        if global_instruction is not None:
            self._config = msgspec.structs.replace(
                self._config, global_instruction=global_instruction
            )
        self._deps = deps
        checked = check_plugins(plugins)
        with_plugins(_DEFAULT, checked)  # what they add is refused here, not in a run
        self._services = Services(
            store=self.store,
            artifacts=self.artifacts,
            memory=self.memory,
            plugins=checked,
            on_event=plugin_methods(checked, "on_event"),
            bindings={},
            programs={},
            heirs={},
            models={},
            feeds=Feeds(self.store),
            limits={},
        )
        self._started: set[StartedRun] = set()
        self._extensions: dict[str, Node] = {}

    @explain_calls('runner.run("message", session_id="s")', words=RUN_WORDS)
    def run(
        self,
        message: ContentLike,
        *,
        user_id: str = "user",
        session_id: str | None = None,
        state: Mapping[str, Json] | None = None,
        request_id: str | None = None,
        config: RunConfig | None = None,
        deps: object = None,
    ) -> Running[AnswerT]:
        """Run one invocation: iterate for its events, or await for its result.

        The session is found, or made if there is none; without `session_id` it is a new one.
        `state` is written with the message. A message made of function responses goes to the
        agent that made the calls. `deps` is what tools and callbacks are handed as `ctx.deps`,
        by default that of the runner; it is never stored.

        `request_id` is the caller's own id of the message, for one who may send it twice: what
        the session has already is not run again, and its events and its result come again. It
        becomes the id of the invocation.
        """
        # in openai-agents, run is called on the class: Runner.run(agent, "message")
        if not isinstance(cast("object", self), Runner):
            raise UsageError(
                f"{describe_kind(self)} is not a runner",
                where="Runner.run",
                hint='write await weft.run(agent, "message"), or Runner(agent).run("message")',
            )
        request = self._request(message, user_id, session_id, state, request_id, config, deps)
        return Running(self.root, self._services, request)

    @explain_calls('runner.resume(session_id="s")', words=RUN_WORDS)
    def resume(
        self,
        *,
        user_id: str = "user",
        session_id: str,
        answers: Mapping[str, object] | None = None,
        retry: Sequence[str] = (),
        invocation_id: str | None = None,
        config: RunConfig | None = None,
        deps: object = None,
    ) -> Running[AnswerT]:
        """Go on where the session's last invocation stopped: after a crash, or with answers.

        `answers` gives open calls their results by call id; where the user was asked to confirm,
        `True` or `False`, or `Approve(args={...})` or `Deny("reason")`. `retry` names calls to
        run again though nobody knows whether they ran. What completed is not repeated; a run
        that is complete gives its result again. `deps` is given again, as it is never stored.
        """
        request = Request(
            self._key(user_id, session_id),
            self._merge_config(config),
            answers=answers or {},
            retry=frozenset(retry),
            invocation_id=invocation_id,
            deps=deps if deps is not None else self._deps,
        )
        return Running(self.root, self._services, request)

    @explain_calls('await runner.start("message", session_id="s")', words=RUN_WORDS)
    @starting
    async def start(
        self,
        message: ContentLike | None = None,
        *,
        user_id: str = "user",
        session_id: str | None = None,
        state: Mapping[str, Json] | None = None,
        answers: Mapping[str, object] | None = None,
        retry: Sequence[str] = (),
        invocation_id: str | None = None,
        request_id: str | None = None,
        tools: Sequence[object] = (),
        output_schema: JsonObject | None = None,
        follow: bool = False,
        create: bool = True,
        config: RunConfig | None = None,
        deps: object = None,
    ) -> StartedRun:
        """Start a run that goes on without a reader; follow it with `events`, or await it.

        It returns when the message is in the log. A session that is busy (under
        `busy="reject"`), unknown, or asked for something impossible is an error here. Without a
        message it goes on as `resume` does, with `answers` and `retry`. `tools` are for this run
        only, in addition to those of the root agent; so is `output_schema`, a JSON Schema of its
        answer. With `follow`, `run.events()` misses no partial event.
        Without `create`, a session that does not exist is an error.
        With a `request_id` that the session has, it is the run that answers it, or has answered.
        """
        if request_id is not None and (message is None or invocation_id is not None):
            raise UsageError(
                "a request_id goes with a message, and is the id of its invocation"
                if invocation_id is not None
                else "a request_id goes with a message",
                where="Runner.start",
                hint="leave invocation_id out"
                if invocation_id is not None
                else "leave it out: an answer that comes twice is taken once anyway",
            )
        is_extended = bool(tools) or output_schema is not None
        extended = self.extended(tools, output_schema) if is_extended else None
        if message is not None:
            if answers or retry:
                raise UsageError(
                    "a run has either a message or answers",
                    where="Runner.start",
                    hint="start with the answers, and say more when they are in",
                )
            request = self._request(
                message, user_id, session_id, state, request_id, config, deps,
                create=create, invocation_id=invocation_id,
            )  # fmt: skip
            running: Running[AnswerT] = Running(self.root, self._services, request)
        elif session_id is None or state is not None:
            raise UsageError(
                "there is no message",
                where="Runner.start",
                hint='pass one: start("message"); or the session_id of a run to go on with',
            )
        else:
            running = self.resume(
                user_id=user_id,
                session_id=session_id,
                answers=answers,
                retry=retry,
                invocation_id=invocation_id,
                config=config,
                deps=deps,
            )
        if extended is not None:
            running = running.of(extended)
        request = running.invocation.request
        if request_id is not None:
            try:
                place = await self._find(request)
            except BaseException:
                # the run is given up before it began: it must not warn that nobody awaited it
                running.close()
                raise
            if place is not None:
                return self._join_run(running, place)
        started = StartedRun(running, running.invocation, among=self._started, follow=follow)
        try:
            await started.opened()
        except SessionBusy:
            if request_id is None or request.config.busy != "reject":
                raise
            # the same message may have come twice at once: the other one is being stored
            for pause in _SAME_REQUEST:
                await asyncio.sleep(pause)
                place = await self._find(request)
                if place is not None:
                    return self._join_run(running, place)
            raise
        return started

    async def _find(self, request: Request) -> int | None:
        """Where the message of a request stands in the log, if it is there."""
        session = await self.store.get(request.key)
        return find_request(session, request, altered=bool(self._services.on_event))

    def find_message(self, session: Session, message: Content, request_id: str) -> int | None:
        """Where the message of a `request_id` stands in the session, if it is there.

        A request that came with another message before, or was rewound, is an error.
        """
        request = Request(self._key(session.user_id, session.id), self._config,
                          content=message, request_id=request_id)  # fmt: skip
        return find_request(session, request, altered=bool(self._services.on_event))

    def _join_run(self, running: Running, place: int) -> StartedRun:
        """The run of a message that the log has: it waits for the one that answers it."""
        queued = running.queued()
        started = StartedRun(queued, queued.invocation, among=self._started)
        started.join(queued.invocation.request.request_id or "", place)
        return started

    @explain_calls('runner.events(session_id="s", after=0)')
    def events(
        self,
        *,
        user_id: str = "user",
        session_id: str,
        after: int = 0,
        follow: bool = False,
        reader: Follower | None = None,
    ) -> AsyncGenerator[Event, None]:
        """The stored events after the first `after`, then live ones, partial ones among them.

        Each stored event has its `sequence` number in the session, from 1; partial ones have
        none. It ends when no run of the session is under way; with `follow` it goes on for ever.
        With the `reader` that `join` gave, nothing is missed since then. The session may be run in
        any process that uses the same store.
        """
        require_place(after, None)
        key = self._key(user_id, session_id)
        return follow_session(
            self.root, self._services, key, after=after, forever=follow, reader=reader
        )

    async def join(self, *, user_id: str = "user", session_id: str) -> Follower:
        """Become a reader of a session, before another process runs it: pass it to `events`.

        `reader.name` is for that process. If nobody iterates `events`, `leave` must be called.
        """
        feeds = self._services.feeds
        reader = feeds.join(self._key(user_id, session_id))
        if feeds.relay is not None:
            await feeds.relay.listening()
            reader.name = feeds.relay.name
        return reader

    def leave(self, reader: Follower) -> None:
        """The reader reads nothing more."""
        self._services.feeds.leave(reader)

    def batches(
        self, *, user_id: str = "user", session_id: str, after: int = 0, follow: bool = False
    ) -> Following:
        """As `events`, in lists: those that are there at once come together."""
        require_place(after, None)
        key = self._key(user_id, session_id)
        return Following(self.root, self._services, key, after=after, forever=follow)

    @explain_calls('await runner.cancel(session_id="s")')
    async def cancel(self, *, user_id: str = "user", session_id: str) -> bool:
        """Stop the session's run, in whichever process it is; False where there is none.

        It returns when the run has stopped. The log says so, and the session can go on.
        """
        return await stop_run(self._services, self._key(user_id, session_id))

    @explain_calls('await runner.fork(session_id="s", upto=12, to="t")')
    async def fork(
        self, *, user_id: str = "user", session_id: str, upto: int | None = None, to: str = ""
    ) -> Session:
        """A new session that begins with the first `upto` events of another, or with all."""
        session = await self.session(user_id=user_id, session_id=session_id)
        earlier = session if upto is None else session.before(upto)
        # keys of the user and the app are in the store once: the fork must not write them again
        own = {key: value for key, value in earlier.initial.items() if scope_of(key) == "session"}
        events = [*map(without_shared, earlier.events)]
        return await create_filled(
            self.store, self._key(user_id, to or new_id()), events, state=own
        )

    @explain_calls('await runner.delete(session_id="s")')
    async def delete(self, *, user_id: str = "user", session_id: str) -> None:
        """Delete a session with its queued turns, after stopping its run if there is one."""
        key = self._key(user_id, session_id)
        if isinstance(self.store, ErasingStore):  # else a worker takes the next turn meanwhile
            await self.store.erase_turns(*key)
        await stop_run(self._services, key)
        await self.store.delete(key)
        self._services.feeds.forget(key)

    @explain_calls('await runner.delete_user(user_id="u")')
    async def delete_user(self, *, user_id: str) -> "Erased":
        """Delete all that is kept of a user: sessions, state, memories, artifacts, queued turns.

        Runs of the user are stopped, in whichever process. Nothing of it is left in the files of
        the store. State under `app:` belongs to all users, and stays.
        """
        from weft.stores.upkeep import erase_user  # most programs delete nobody

        # only the check of the user's name is wanted: any session will do
        self._key(user_id, "s")
        # asked before the runs are stopped: afterwards none of them is active
        running = [key for key in self.active if key.user_id == user_id]
        erased = await erase_user(self.store, self.artifacts, self.app_name, user_id)
        for key in running:
            self._services.feeds.forget(key)
        memory = self._services.memory
        if isinstance(memory, MemoryKeeper):  # it may be in a store of its own
            await memory.forget(self.app_name, user_id)
        return erased

    @property
    def tracing(self) -> TracingPlugin | None:
        """The plugin that traces its runs, if there is one."""
        return tracing_plugin(self._services.plugins)

    @property
    def config(self) -> RunConfig:
        """What all runs share; the config of a run stands over it, option by option."""
        return self._config

    @property
    def active(self) -> list[SessionKey]:
        """The sessions that this runner runs now."""
        return self._services.feeds.keys()

    async def recover(
        self,
        *,
        since: float = 0.0,
        config: RunConfig | None = None,
        extend: Callable[[Session], RunExtension] | None = None,
    ) -> list[StartedRun]:
        """Go on with the runs that a crash cut off, in sessions that changed since a time.

        A run that another process has, that failed, was cancelled or waits is left alone. `extend`
        says what the run of a session had for itself: its tools, and the schema of its answer.
        """
        # a busy session has a living process: its run was not cut off
        chosen = _config(config, self._config)
        config = msgspec.structs.replace(chosen, busy="reject", stream=True)
        resumed: list[StartedRun] = []
        async for session in unfinished_sessions(self.root, self.store, self.app_name, since=since):
            tools, output_schema = extend(session) if extend is not None else ((), None)
            with suppress(SessionBusy):
                resumed.append(
                    await self.start(
                        user_id=session.user_id,
                        session_id=session.id,
                        tools=tools,
                        output_schema=output_schema,
                        config=config,
                    )
                )
        return resumed

    @explain_calls('runner.rewind(session_id="s", invocation_id=result.invocation_id)')
    async def rewind(
        self, *, user_id: str = "user", session_id: str, invocation_id: str
    ) -> Session:
        """Take the session back to before an invocation, by one more event; nothing is deleted."""
        key = self._key(user_id, session_id)
        # a run under way must not go on from events that the rewind hides
        async with lease_session(self.store, key, busy="queue"):
            session = await self.session(user_id=user_id, session_id=session_id)
            event = await rewind_event(session, invocation_id, self.artifacts)
            rewound = await self.store.append(session, event)
            self._services.feeds.tell(key, rewound.events, len(session.events))
            return rewound

    async def pending(self, *, user_id: str | None = None) -> "list[Pending]":
        """The questions that are open in all sessions of the app, or of one user of it.

        Each says which session waits, for which call, with which arguments, and until when; the
        oldest comes first. Answer with `resume(session_id=..., answers={call_id: Approve()})`.
        """
        from weft.runtime.approvals import pending_in_store

        return await pending_in_store(self.store, self.app_name, user_id)

    @explain_calls('runner.session(session_id="s")')
    async def session(self, *, user_id: str = "user", session_id: str) -> Session:
        """The session as it is stored; its large files are at hand for `compile`."""
        key = self._key(user_id, session_id)
        session = await self.store.get(key)
        if session is None:
            raise await unknown_session(self._services, key)
        return await attach(session, self.artifacts)

    async def close(self) -> None:
        """Close the store; runs that were started and are not over stop as if the process had.

        `recover` or `resume` goes on with them.
        """
        for run in [*self._started]:
            await run.hand_over()
        self._services.feeds.close()
        await self.store.close()

    async def __aenter__(self) -> "Runner[AnswerT]":
        return self

    async def __aexit__(self, *exc: object) -> None:
        await self.close()

    if not TYPE_CHECKING:

        def __getattr__(self, name: str) -> object:
            """Say what to write instead of a method that others have."""
            raise unknown_name(f"a runner has no `{name}`", name, Runner, _METHODS)

    def _request(
        self,
        message: ContentLike,
        user_id: str,
        session_id: str | None,
        state: Mapping[str, Json] | None,
        request_id: str | None,
        config: RunConfig | None,
        deps: object,
        *,
        create: bool = True,
        invocation_id: str | None = None,
    ) -> Request:
        """A new message to a session, as it was asked for."""
        content = _message(message)
        if request_id is not None:
            _check_request(request_id, content, session_id)
        return Request(
            self._key(user_id, session_id if session_id is not None else new_id()),
            self._merge_config(config),
            content=content,
            state=require_object(state, where="state") if state is not None else {},
            invocation_id=invocation_id,
            request_id=request_id,
            deps=deps if deps is not None else self._deps,
            create=create,
        )

    def extended(
        self, tools: Sequence[object] = (), output_schema: JsonObject | None = None
    ) -> Node:
        """The root with more tools, and with another schema of its answer.

        It is the same object for the same, as far as it can be: what is worked out for a root is
        kept by its identity.
        """
        listed = to_tools(tools, where="tools")
        signature = digest(
            msgspec.json.encode(
                [[(one.name, one.description, one.parameters) for one in listed], output_schema]
            )
        )
        extended = self._extensions.get(signature)
        if extended is None:
            extended = self._extend(listed, output_schema)
            if len(self._extensions) >= _MOST_EXTENSIONS:
                oldest = self._extensions.pop(next(iter(self._extensions)))
                # clients say what is extended: what is kept of that must not grow with them
                self._services.forget(oldest, but=self.root)
            self._extensions[signature] = extended
        return extended

    def _extend(self, tools: Sequence[Tool], output_schema: JsonObject | None) -> Node:
        root = self.root
        if tools:
            if not isinstance(root, Agent):
                raise UsageError(
                    "the root is a flow: it has no tools of its own",
                    where="Runner.start",
                    hint="give the tools to an agent of the flow",
                )
            root = root.uses(*tools)
        return root if output_schema is None else with_answer_schema(root, output_schema)

    def _merge_config(self, config: RunConfig | None) -> RunConfig:
        """The configuration of a run, with what this runner and its plugins say to all agents."""
        chosen = _config(config, self._config)
        # both were given by the user: the run's options stand over the runner's, one by one
        if chosen is not self._config is not _DEFAULT:
            chosen = overlay_config(self._config, chosen)
        plugins = self._services.plugins
        return with_plugins(chosen, plugins) if plugins else chosen

    def _key(self, user_id: str, session_id: str) -> SessionKey:
        """The session's key, or an error if a part of it is not a name."""
        for name, value in (("user_id", user_id), ("session_id", session_id)):
            if not isinstance(cast("object", value), str) or not value:
                raise UsageError(
                    f"{name}={value!r}", where="Runner", hint="pass a non-empty string"
                )
        return SessionKey(self.app_name, user_id, session_id)


def _config(config: RunConfig | None, default: RunConfig) -> RunConfig:
    """The configuration of a run, or of all runs where it has none of its own."""
    if config is None:
        return default
    if not isinstance(cast("object", config), RunConfig):
        raise UsageError(
            f"config is {describe_kind(config)}",
            where="Runner",
            hint="pass weft.RunConfig(max_llm_calls=50)",
        )
    return config


def _memory(memory: object) -> MemorySearch | None:
    """The memory to search, or an error if it cannot be searched."""
    if memory is not None and not callable(getattr(memory, "search", None)):
        described = repr(memory) if isinstance(memory, str) else f"{describe_kind(memory)}"
        raise UsageError(
            f"memory is {described}, which cannot be searched",
            where="Runner",
            hint='pass weft.Memory("sqlite:///weft.db")',
        )
    return cast("MemorySearch | None", memory)


def named_app(root: Node, module: str, variable: str) -> str:
    """The name of the app of an agent or flow that a module has under a variable.

    A flow without a name of its own is called like its kind, `sequence`, as any other is: two
    programs that keep sessions in one store must not share them for that.
    """
    if isinstance(root, Agent | CustomAgent) or root.name != type(root).__name__.lower():
        return root.name
    return f"{module}.{variable}"


def _own_name(root: Node, store: str | Store) -> str:
    """The name of an app whose author gave none."""
    # a store in memory is shared with no other program, so the kind's name is enough
    if isinstance(root, Agent | CustomAgent) or store == "memory://":
        return root.name
    if root.name != type(root).__name__.lower():
        return root.name
    # the first module outside of Weft is the one that made the runner
    frame = inspect.currentframe()
    assert frame is not None
    while frame.f_back is not None and _module_of(frame.f_globals).split(".")[0] == "weft":
        frame = frame.f_back
    module, caller = _module_of(frame.f_globals), frame
    # the flow may be a variable of any module that led here, as of one that is imported
    while True:
        variable = next((name for name, value in frame.f_globals.items() if value is root), "")
        if variable and (home := _module_of(frame.f_globals)):
            return named_app(root, home, variable)
        if frame.f_back is None:
            break
        frame = frame.f_back
    if not module:
        raise UsageError(
            "the flow has no name to keep its sessions under",
            where=f"Runner in {caller.f_code.co_filename}",
            hint='pass one: Runner(flow, app_name="trips", store=...)',
        )
    # A flow of no variable is told from others of its module by what it looks like.
    return f"{module}.{digest(str(root).encode())[:8]}"


def _module_of(names: Mapping[str, object]) -> str:
    """The name of the module with these globals; of a script, that of its file; else nothing."""
    name = names.get("__name__")
    if name != "__main__":
        return name if isinstance(name, str) else ""
    spec, file = names.get("__spec__"), names.get("__file__")
    if isinstance(spec, ModuleSpec):  # python -m package.module
        return spec.name.removesuffix(".__main__")
    return os.path.splitext(os.path.basename(file))[0] if isinstance(file, str) else ""


def _message(message: ContentLike) -> Content:
    """The message as the user says it, or an error if it says nothing or does what users cannot."""
    if type(message) is str and message:  # nothing about a text can be wrong
        return Content(parts=(Part(text=message),), role="user")
    content = (
        require_posted(to_content(message), where="message")
        if cast("object", message) is not None
        else Content()
    )
    kinds = {part.kind for part in content.parts or ()}
    if not kinds - {"empty"}:
        raise UsageError(
            "there is no message",
            where="Runner.run",
            hint='pass one: run(agent, "message"); Runner.resume goes on without one',
        )
    return content


def _check_request(request_id: str, content: Content, session_id: str | None) -> None:
    """Refuse a request id that could not be found again."""
    require_request_id(request_id, where="Runner.run")
    if session_id is None:
        raise UsageError(
            "a request_id needs a session to look for it in",
            where="Runner.run",
            hint='pass the session too: run("message", session_id="s", request_id="r1")',
        )
    if any(part.function_response is not None for part in content.parts or ()):
        raise UsageError(
            "a message of answers has no request_id",
            where="Runner.run",
            hint="leave it out: an answer that comes twice is taken once anyway",
        )


def _runnable(value: object) -> str:
    """What to pass instead of something that cannot be run."""
    if isinstance(value, str):
        return 'the agent comes first, then the message: run(agent, "message")'
    if isinstance(value, Runner):
        return 'a runner runs itself: await runner.run("message")'
    if isinstance(value, type):
        return f'pass a value, not the class: {value.__name__}("name", ...)'
    if isinstance(value, list | tuple):
        return "put the agents together: a >> b runs one after the other, a | b both at once"
    return "pass a weft.Agent, or a flow such as a >> b"
