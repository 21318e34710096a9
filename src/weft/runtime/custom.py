"""Run a custom agent: its code is driven event by event, and driven again when a run is resumed.

The code takes numbered steps: it yields an event of its own, or runs a node below it. The log has
the number of each, so code that runs again is given what it got before: its own events are not
stored twice, nodes that ended do not run again, and the state is as it was at each step. Where the
code does something else than the log says, the run fails and says so.
"""

from collections.abc import (
    AsyncGenerator,
    AsyncIterator,
    Callable,
    ItemsView,
    Iterator,
    KeysView,
    Mapping,
    ValuesView,
)
from contextlib import aclosing
from typing import TYPE_CHECKING, Never, TypeAlias, cast

import msgspec

from weft.content import Content, ContentLike, to_content
from weft.declare import Agent, CustomAgent, Flow, Node, RunContext, agents_of
from weft.declare.agent import labels_of
from weft.declare.visit import rebuild
from weft.diagnostics import Origin, report
from weft.errors import RunError, StoreError, UsageError, describe_kind
from weft.jsonschema import shorten
from weft.misuse import suggest_names
from weft.runtime.batch import settle_below
from weft.runtime.flow import add_label
from weft.runtime.invocation import Invocation, store_failure
from weft.runtime.place import Interrupted, NodeFailed, Place, Suspended, is_failure, path_of
from weft.session import Actions, Event
from weft.session.event import without_temp
from weft.session.flow import TRUSTED, TrustLabel
from weft.session.provenance import NOTHING, Provenance, YieldedEvent
from weft.values import Json, canonical, digest, require_object

Runs: TypeAlias = Callable[[Invocation, Place, Node], AsyncGenerator[Event, None]]


class BadEvent(UsageError):
    """Something that a custom agent cannot yield."""


class Diverged(UsageError):
    """Code that, run again over the log, does something else than the log says."""


async def run_custom(
    invocation: Invocation, place: Place, node: CustomAgent, run_node: Runs
) -> AsyncGenerator[Event, None]:
    """Drive the agent's code to its end, and store what it yields."""
    retried = -1
    while True:
        run = CustomRun(invocation, place, node, run_node, retried)
        try:
            async with aclosing(_drive(run, node)) as events:
                async for event in events:
                    yield event
            return
        except (NodeFailed, Suspended, Interrupted, StoreError):
            raise
        except Exception as error:
            # code may catch everything: that the run waits or was stopped still counts
            if run.ending is not None:  # the code met it on its way, and made something else of it
                raise run.ending from error
            if isinstance(error, ChildFailed):  # nobody caught it, and the log has it already
                # what ended the run before it was resumed is tried again, once
                if run.may_retry(error) and error.step != retried:
                    retried = error.step
                    continue
                raise error.failure from error
            code, words = _describe_failure(node, error)
            cause = None if isinstance(error, StepLimit) else error
            failure = await store_failure(
                invocation, place, node.name, code, words, cause, run.label
            )
            yield failure.event
            raise failure from error


async def _drive(run: "CustomRun", node: CustomAgent) -> AsyncGenerator[Event, None]:
    """The events of the agent's code that are new, each stored."""
    events = node.run(run.context)
    if not isinstance(cast("object", events), AsyncIterator):
        raise BadEvent(
            f"`run` returned {describe_kind(events)}, not events",
            where=node.name,
            hint="write async def run(self, ctx), with `yield ctx.say(...)` in it",
        )
    try:
        async for event in events:
            stored = await run.take(event)
            if stored is not None:
                yield stored
                # the code yielded an error of its own: it ends the agent
                if is_failure(stored) and not run.is_of_child(stored):
                    raise NodeFailed(stored)
        await run.end()
    finally:
        run.is_over = True
        if isinstance(events, AsyncGenerator):
            await events.aclose()
        await run.close()


class ChildFailed(RunError):
    """A node below a custom agent failed; the code may catch it, and go on."""

    def __init__(self, failure: NodeFailed, node: str, step: int) -> None:
        event = failure.event
        super().__init__(
            f"`{node}` failed: {event.error_code}: {event.error_message}",
            where=node,
            hint="catch weft.errors.RunError around ctx.run to go on with something else",
        )
        self.failure = failure
        self.step = step
        self.event = event
        self.code = event.error_code


def _describe_failure(node: CustomAgent, error: Exception) -> tuple[str, str]:
    """The code and the words of the error event for what the agent's code raised."""
    if isinstance(error, BadEvent | Diverged | StepLimit | UndeclaredWrite):
        return _CODES[type(error)], f"{error.message}; {error.hint}"
    return "agent_error", f"the code of `{node.name}` raised {type(error).__name__}: {error}"


class StepLimit(UsageError):
    """Code that goes on and on."""


class UndeclaredWrite(UsageError):
    """A key that the agent does not say it writes, under strict."""


_CODES: dict[type[Exception], str] = {
    BadEvent: "bad_event",
    Diverged: "diverged",
    StepLimit: "max_steps",
    UndeclaredWrite: "undeclared_write",
}


_DEEPEST = 100
"""How many nodes may stand in each other, before Python's own limit is near."""


class CustomRun:
    """One run of a custom agent: its steps so far, and those that the log has."""

    def __init__(
        self,
        invocation: Invocation,
        place: Place,
        node: CustomAgent,
        run_node: Runs,
        retried: int,
    ) -> None:
        self.context: RunContext[object] = RunContext(
            self,
            invocation.surroundings,
            agent_name=node.name,
            invocation_id=invocation.id,
            branch=place.branch,
            deps=invocation.request.deps,
        )
        self._retried = retried
        """The step of a node that failed before the run was resumed, and is to run again."""
        self._invocation = invocation
        self._place = place
        self._node = node
        self._run_node = run_node
        self._step = 0
        self._past: dict[int, _PastStep] = (
            _past_steps(invocation, place) if invocation.log.resumed else {}
        )
        self._upto = min((past.events[0][0] for past in self._past.values()), default=None)
        """Up to where in the log the state is seen; None for all of it."""
        self._child_events: dict[str, Event] = {}
        """Events of nodes that the code was given, partial ones too, by id."""
        self._replayed: set[str] = set()
        """Events that whoever reads the run was given before it was resumed."""
        self._running: list[AsyncGenerator[Event, None]] = []
        """The nodes that the code has begun to run."""
        self._abandoned: list[AsyncGenerator[Event, None]] = []
        """Those of them that it has left, as by `break`."""
        self._yielded: set[str] = set()
        """The agent's own events, by id."""
        self._reads: set[str] = set()
        """The keys that the code was seen to read."""
        self._label = TRUSTED
        """The label of what the nodes said that it was given."""
        self.is_over = False
        self.ending: Exception | None = None
        """What ended the run while the code was running a node, whatever the code makes of it."""

    @property
    def label(self) -> TrustLabel:
        """The label of all that the code has seen: of what it says, and of what it runs next."""
        return self._label | self._invocation.flow.of_names((*self._reads,))

    # What the context asks for.

    def state(self) -> Mapping[str, Json]:
        """The state as the code sees it: at this point of the log, where it runs again."""
        if self._upto is None:
            return _ReadState(self._invocation.forks.state_at(self._place), self._reads)
        state = self._invocation.forks.state_before(self._upto, self._place)
        return _ReadState(state, self._reads)

    def note_read(self, name: str) -> None:
        """Note that the code was shown an artifact, the memory or the session."""
        self._reads.add(name)

    def user_text(self) -> str:
        """What the user said."""
        self._label |= self._invocation.flow.of_user(self._place)
        return self._invocation.log.user_text(self._place)

    def say(self, content: ContentLike | None, delta: Mapping[str, Json]) -> Event:
        """An event of the agent."""
        spoken: Content | None = None
        if content is not None:
            spoken = msgspec.structs.replace(to_content(content), role="model")
        written = require_object(delta, where=f"{self._node.name}: ctx.say")
        if spoken is None and not written:
            raise BadEvent(
                "ctx.say() says nothing and changes nothing",
                where=self._node.name,
                hint='write ctx.say("text"), or ctx.say(None, key=value)',
            )
        actions = Actions(state_delta=written)
        return self._invocation.event(self._node.name, self._place, spoken, actions=actions)

    def run(self, node: Node) -> "NodeEvents":
        """Run a node below the agent, as its next step."""
        if self.ending is not None:
            raise self.ending
        if not isinstance(cast("object", node), Agent | Flow):
            raise BadEvent(
                f"{describe_kind(node)} cannot be run",
                where=f"{self._node.name}: ctx.run",
                hint="pass an agent or a flow: ctx.run(self.classifier)",
            )
        if self._place.path.count("/") >= _DEEPEST:
            raise StepLimit(
                f"`{self._node.name}` runs nodes in nodes, {_DEEPEST} deep",
                where=f"{self._node.name}: ctx.run",
                hint="does it run itself? Go round in a loop, or let it end",
            )
        below = self._declared_node(node)
        step = self._next()
        past = self._past.get(step)
        if past is not None and past.child != below.name:
            raise self._divergence(step, f"runs `{below.name}`", past)
        events = self._child(step, below, past)
        self._running.append(events)
        return NodeEvents(events, self._abandoned)

    # What the driver asks for.

    async def take(self, event: object) -> Event | None:
        """The event as it is in the log, once it is there; None if it was given out before."""
        await self._close_abandoned()
        if self.ending is not None:
            raise self.ending
        if not isinstance(event, Event):
            raise BadEvent(
                f"`{self._node.name}` yielded {describe_kind(event)}, not an event",
                where=self._node.name,
                hint='yield ctx.say("text", key=value), or the events of ctx.run(node)',
            )
        known = self._child_events.get(event.id)
        # a piece that streams is passed on: nothing of it is stored
        if event.partial and known is not None:
            return event
        if known is not None:
            if event is not known and event != known:
                raise BadEvent(
                    f"`{self._node.name}` changed an event of `{event.author}`, which is in the"
                    " log already",
                    where=self._node.name,
                    hint="yield it as it is, or leave it out and yield ctx.say(...)",
                )
            # the reader had it before the run was resumed
            return None if event.id in self._replayed else event
        _check_event(self._node, event)
        if event.partial:
            return event if self._upto is None else None
        if event.id in self._yielded:
            raise BadEvent(
                f"`{self._node.name}` yielded one event twice",
                where=self._node.name,
                hint="make another one: ctx.say(...)",
            )
        self._yielded.add(event.id)
        self._check_writes(event.actions.state_delta)
        step, written = self._next(), _digest(event)
        past = self._past.get(step)
        if past is not None:
            position, stored = past.events[0]
            noted = stored.provenance.yielded
            if past.child or noted is None or noted.digest != written:
                raise self._divergence(step, f"yields {_in_words(event)}", past)
            # the code must see the state as it was, or it may decide otherwise
            self._upto = position + 1 if any(later > step for later in self._past) else None
            return None
        self._upto = None
        notes = Provenance(yielded=YieldedEvent(step, written))
        event = add_label(self._place_event(event, notes), self.label)
        return await self._invocation.commit(event)

    async def end(self) -> None:
        """Make sure that the code is really over: the log must not have more of it."""
        await self._close_abandoned()
        if self.ending is not None:
            raise self.ending
        # the code ended early, though the log has more of it
        more = [step for step in self._past if step >= self._step]
        if more:
            step = min(more)
            raise self._divergence(step, "ends", self._past[step])

    async def close(self) -> None:
        """Stop what still runs."""
        for events in self._running:
            await events.aclose()

    async def _close_abandoned(self) -> None:
        """Stop the nodes that the code has left, and answer the calls that they leave open."""
        while self._abandoned:
            events = self._abandoned.pop()
            await events.aclose()
            self._running.remove(events)

    def may_retry(self, error: ChildFailed) -> bool:
        """Whether a failure that the code did not catch ended the run before it was resumed."""
        replayed = error.event.id in self._replayed
        return replayed and not any(later > error.step for later in self._past)

    def is_of_child(self, event: Event) -> bool:
        """Whether a node below the agent made the event."""
        return event.id in self._child_events

    # Parts.

    def _next(self) -> int:
        """The number of the next step, unless there were enough."""
        step = self._step
        if step >= self._node.max_steps:
            raise StepLimit(
                f"`{self._node.name}` took {step} steps and did not end",
                where=self._node.name,
                hint="end its `run`, or allow more: max_steps=...",
            )
        self._step += 1
        return step

    def _declared_node(self, node: Node) -> Node:
        """The node as it runs here: with the agents that were declared below, where it has them."""
        heir = self._node.heir_of(node)
        if heir is not None:
            return heir
        known = {agent.name: agent for child in self._node.children for agent in agents_of(child)}

        def as_declared(agent: Agent) -> Agent:
            one = self._node.heir_of(agent)
            return one if isinstance(one, Agent) else agent

        built = rebuild(node, as_declared)
        for agent in agents_of(built):
            if known.get(agent.name) != agent:
                self._note_stranger(agent)
        return built

    def _note_stranger(self, agent: Agent) -> None:
        """Say that an agent runs here that nobody declared; refuse one that protects something."""
        name = self._node.name
        # labels hold for the whole run: one that appears in the middle would come too late
        unknown = [one for one in labels_of(agent) if one not in self._invocation.labels]
        if unknown:
            raise BadEvent(
                f"`{agent.name}` labels state keys and is not declared below `{name}`",
                where=f"{name}: ctx.run",
                hint=f"declare it, so that its labels hold everywhere: sub_agents=[{agent.name}]",
            )
        diagnostic = report(
            "WEFT409",
            Origin("field", "run", name),
            f"`{name}` runs `{agent.name}`, which is not declared below it",
            f"declare it: sub_agents=[{agent.name}], or set it as an attribute in the class",
        )
        self._invocation.findings.setdefault(str(diagnostic), diagnostic)

    def _check_writes(self, delta: Mapping[str, Json]) -> None:
        """Refuse keys that the agent does not say it writes: under strict, or tell of them."""
        node = self._node
        strict = self._invocation.config.strict
        if not (strict or node.declares_writes):
            return
        for key in delta:
            if key in node.writes:
                continue
            message = f"`{node.name}` writes `{key}`, which it does not declare"
            hint = f"declare it: writes = {(*node.writes, key)!r}"
            if strict:
                near = suggest_names(key, node.writes)
                raise UndeclaredWrite(message, where=node.name, hint=near or hint)
            diagnostic = report("WEFT118", Origin("field", "writes", node.name), message, hint)
            self._invocation.findings.setdefault(str(diagnostic), diagnostic)

    def _place_event(self, event: Event, notes: Provenance) -> Event:
        """The event as one of this agent, at its place."""
        return msgspec.structs.replace(
            event,
            author=self._node.name,
            invocation_id=self._invocation.id,
            branch=self._place.branch or None,
            node_info=self._place.node_info,
            isolation_scope=self._place.scope or None,
            custom_metadata=notes.onto(event.custom_metadata),
        )

    async def _child(
        self, step: int, node: Node, past: "_PastStep | None"
    ) -> AsyncGenerator[Event, None]:
        """The events of a node: first those that the log has, then those that come."""
        invocation, place = self._invocation, self._place.child(node.name, step)
        invocation.flow.decide(place.path, self.label)
        is_behind = past is not None and any(later > step for later in self._past)
        # The code may deal with a failure, so it is told of it again before the node is retried.
        if step == self._retried:
            invocation.log.unshelter(place)
        elif past is not None:
            invocation.log.shelter(place)
        for position, event in past.visible(failures=step != self._retried) if past else ():
            self._upto = position + 1
            yield self._give(event, replayed=True)
        if past is not None:
            self._upto = past.last + 1 if is_behind else None
        try:
            async with aclosing(self._run_node(invocation, place, node)) as events:
                async for event in events:
                    self._upto = None
                    yield self._give(event, replayed=False)
        except NodeFailed as failure:
            raise ChildFailed(failure, node.name, step) from failure
        except (Suspended, Interrupted, StoreError) as ending:
            self.ending = ending
            raise
        except GeneratorExit:
            if not self.is_over:
                await settle_below(invocation, _LEFT, place.path)
            raise

    def _give(self, event: Event, *, replayed: bool) -> Event:
        """Note an event of a node that the code is given."""
        self._child_events[event.id] = event  # a complete event takes the place of its parts
        self._label |= event.label
        if replayed:
            self._replayed.add(event.id)
        return event

    def _divergence(self, step: int, now: str, past: "_PastStep") -> Diverged:
        before = f"ran `{past.child}`" if past.child else f"yielded {_in_words(past.events[0][1])}"
        return Diverged(
            f"run again over the log, `{self._node.name}` {now} as step {step + 1}, where it"
            f" {before} before",
            where=self._node.name,
            hint="let the code depend on nothing but its declaration, ctx.state and the events of"
            " ctx.run; what depends on time or chance belongs into a tool or a step, which run"
            " once",
        )


_LEFT = "the agent that ran it went on without it"


class _ReadState(dict[str, Json]):
    """The state as the code of an agent reads it; writing goes through an event.

    It notes in `reads` which keys were read.
    """

    def __init__(self, state: Mapping[str, Json], reads: set[str]) -> None:
        super().__init__(state)
        self._reads = reads

    def __getitem__(self, key: str) -> Json:
        self._reads.add(key)
        return super().__getitem__(key)

    def get(self, key: str, default: object = None) -> Json:
        self._reads.add(key)
        return cast("Json", super().get(key, default))

    def __contains__(self, key: object) -> bool:
        self._reads.add(cast("str", key))
        return super().__contains__(key)

    def values(self) -> "ValuesView[Json]":  # type: ignore[override]
        self._read_all()
        return cast("ValuesView[Json]", super().values())

    def items(self) -> "ItemsView[str, Json]":  # type: ignore[override]
        self._read_all()
        return cast("ItemsView[str, Json]", super().items())

    def __iter__(self) -> Iterator[str]:
        self._read_all()
        return super().__iter__()

    def __reversed__(self) -> Iterator[str]:
        self._read_all()
        return super().__reversed__()

    def __len__(self) -> int:
        self._read_all()
        return super().__len__()

    def __eq__(self, other: object) -> bool:
        return self.copy() == other

    def __repr__(self) -> str:
        return repr(self.copy())

    def __reduce__(self) -> tuple[type[dict[str, Json]], tuple[dict[str, Json]]]:
        return dict, (self.copy(),)

    def keys(self) -> "KeysView[str]":  # type: ignore[override]
        self._read_all()
        return cast("KeysView[str]", super().keys())

    def copy(self) -> dict[str, Json]:
        self._read_all()
        return super().copy()

    def __or__(self, other: "dict[str, Json]") -> dict[str, Json]:  # type: ignore[override]
        return {**self.copy(), **other}

    def __ror__(self, other: "dict[str, Json]") -> dict[str, Json]:  # type: ignore[override]
        return {**other, **self.copy()}

    def _read_all(self) -> None:
        self._reads.update(super().keys())

    def __setitem__(self, key: str, value: Json) -> None:
        raise BadEvent(
            f"ctx.state is read, not written: `{key}`",
            where="ctx.state",
            hint=f'yield ctx.say(None, {key}=...), or with words: ctx.say("text", {key}=...)',
        )

    def __delitem__(self, key: str) -> None:
        raise BadEvent(
            f"ctx.state is read, not written: `{key}`",
            where="ctx.state",
            hint=f"None deletes a key: yield ctx.say(None, {key}=None)",
        )

    def _refuse(self, *args: object, **fields: object) -> Never:
        raise BadEvent(
            "ctx.state is read, not written",
            where="ctx.state",
            hint="yield ctx.say(None, key=value)",
        )

    if not TYPE_CHECKING:  # to a type checker the state is a Mapping, which has none of these
        update = setdefault = pop = popitem = clear = __ior__ = _refuse


class NodeEvents:
    """What `ctx.run` gives to iterate; once the code holds it no more, the node is stopped."""

    __slots__ = ("_abandoned", "_events")

    def __init__(
        self, events: AsyncGenerator[Event, None], abandoned: list[AsyncGenerator[Event, None]]
    ) -> None:
        self._events = events
        self._abandoned = abandoned

    def __aiter__(self) -> "NodeEvents":
        return self

    async def __anext__(self) -> Event:
        return await anext(self._events)

    async def aclose(self) -> None:
        """Stop the node."""
        await self._events.aclose()

    def __del__(self) -> None:
        self._abandoned.append(self._events)  # closing waits: whoever drives the code does it


class _PastStep:
    """What the log has of one step: an event of the agent's own, or those of a node it ran."""

    __slots__ = ("child", "events")

    def __init__(self, child: str) -> None:
        self.child = child
        """The name of the node; empty for an event of the agent's own."""
        self.events: list[tuple[int, Event]] = []
        """With where each stands in the log."""

    @property
    def last(self) -> int:
        """Where the last of them stands in the log."""
        return self.events[-1][0]

    def visible(self, *, failures: bool) -> list[tuple[int, Event]]:
        """The events that whoever ran the node was given; no failure after which it was retried."""
        newest = {path_of(event): event.id for _, event in self.events}
        return [
            (position, event)
            for position, event in self.events
            if _is_visible(event)
            and (not is_failure(event) or (failures and newest[path_of(event)] == event.id))
        ]


def _is_visible(event: Event) -> bool:
    """Whether a node gives the event to whoever runs it, and does not only keep it in the log."""
    if event.author == "user" or event.interrupted:
        return False
    changes = event.actions.state_delta or event.provenance.branch_delta is not None
    return bool(event.content is not None or event.error_code or changes)


def _past_steps(invocation: Invocation, place: Place) -> dict[int, _PastStep]:
    """By their numbers: the steps that the log has of the agent at a place."""
    steps: dict[int, _PastStep] = {}
    for position, event in invocation.log.past.below(place):
        path, yielded = path_of(event), event.provenance.yielded
        if path == place.path:
            if yielded is not None and not is_failure(event):
                own = steps[yielded.step] = _PastStep("")
                own.events.append((position, event))
            continue
        name, _, number = path[len(place.path) + 1 :].split("/")[0].rpartition("@")
        if number.isdecimal():
            steps.setdefault(int(number), _PastStep(name)).events.append((position, event))
    return steps


def _digest(event: Event) -> str:
    """What tells an event from others: what it says and does, not when."""
    actions = msgspec.structs.replace(
        event.actions, state_delta=without_temp(event.actions.state_delta)
    )
    facts = [event.content, actions, event.error_code, event.error_message]
    return digest(canonical(cast("Json", msgspec.to_builtins(facts))))[:16]


def _in_words(event: Event) -> str:
    """An event in words."""
    if event.error_code:
        return f"the error {event.error_code}"
    if event.text:
        return f'"{shorten(event.text, 60)}"'
    keys = ", ".join(f"`{key}`" for key in event.actions.state_delta)
    return f"a change of {keys}" if keys else "an event"


_TAKEN = (
    "transfer_to_agent", "end_of_agent", "agent_state", "compaction", "route",
    "rewind_before_invocation_id", "set_model_response",
)  # fmt: skip
"""Actions that only the runtime takes."""


def _check_event(node: CustomAgent, event: Event) -> None:
    """Refuse an event that would make the log say what did not happen."""
    name, problem, hint = node.name, "", ""
    if event.author not in ("", name):
        problem = f'an event in the name of "{event.author}"'
        hint = f'leave the author out, or write author="{name}"'
    elif event.provenance is not NOTHING:
        problem, hint = "notes that only Weft writes", "leave `weft` out of custom_metadata"
    elif event.calls or event.results:
        problem = "a tool call, which nobody would answer" if event.calls else "a tool's result"
        hint = "let an agent call the tool: ctx.run(agent)"
    elif event.content is not None and event.content.role not in (None, "model"):
        problem, hint = f'content of role "{event.content.role}"', 'write role="model"'
    else:
        for action in _TAKEN:
            if getattr(event.actions, action) is not None:
                problem = f"an event with the action `{action}`"
                hint = (
                    "run the agent: ctx.run(agent)"
                    if action == "transfer_to_agent"
                    else f"leave `{action}` out"
                )
                break
    if problem:
        raise BadEvent(f"`{name}` yielded {problem}", where=name, hint=hint)
