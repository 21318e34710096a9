"""Run branches side by side: parallels, maps and races.

A branch sees what was there before and what it said itself, and nothing of its siblings.
"""

import asyncio
import hashlib
from collections import deque
from collections.abc import AsyncGenerator, Callable, Sequence
from contextlib import aclosing
from typing import TypeAlias

import msgspec

from weft.declare import Agent, Map, Node, Parallel, Race, agents_of
from weft.declare.route import look_up
from weft.errors import SchemaError
from weft.jsonschema import shorten
from weft.runtime.batch import settle_below
from weft.runtime.invocation import Invocation, store_decision, store_failure
from weft.runtime.place import (
    NodeFailed,
    Place,
    Record,
    Suspended,
    cancel_and_wait,
    is_below,
    path_of,
)
from weft.runtime.result import parse
from weft.session import Actions, Event, scope_of
from weft.session.lookback import hidden_by_undoing, joined_branches
from weft.session.provenance import JoinedBranch, Provenance
from weft.values import Json, JsonObject, compact

Runs: TypeAlias = Callable[[Invocation, Place, Node], AsyncGenerator[Event, None]]


async def run_parallel(
    invocation: Invocation, place: Place, node: Parallel, run_node: Runs
) -> AsyncGenerator[Event, None]:
    """Run the branches at once. When one fails, the others are cancelled or run to their end."""
    nodes = branches_of(place, node)
    collect = node.on_error == "collect"
    if collect:
        shelter_some(invocation, [inner for inner, _ in nodes])
    lanes = Lanes(invocation, nodes, run_node, width=len(nodes))
    async with aclosing(lanes.events(lambda task: not collect and broke(task))) as events:
        async for event in events:
            yield event
    lanes.require_end(collect=collect)


async def run_map(
    invocation: Invocation, place: Place, node: Map, record: Record, run_node: Runs
) -> AsyncGenerator[Event, None]:
    """Run the body for each element, and store the outputs together with the end of the map."""
    count = record.state.get("items")
    if not isinstance(count, int):
        items = look_up(node.items, invocation.forks.state_at(place))
        label = invocation.flow.of_names((node.items,))
        if not isinstance(items, list):
            words = _no_list(node, items)
            failure = await store_failure(
                invocation, place, node.name, "not_a_list", words, label=label
            )
            yield failure.event
            raise failure
        count = len(items)
        begun: dict[str, JsonObject] = {
            # each branch begins with its element: the list may change while they run
            inner.fork: {node.item: value}
            for (inner, _), value in zip(
                _elements(invocation, place, node, count), items, strict=True
            )
        }
        opened = Actions(agent_state={"items": count})
        notes = Provenance(forks=begun)
        await invocation.commit(
            invocation.event(node.name, place, actions=opened, notes=notes, label=label)
        )
    nodes = _elements(invocation, place, node, count)
    collect = node.on_error == "collect"
    for inner, _ in nodes:
        invocation.forks.begin(inner)
    if collect:
        shelter_some(invocation, [inner for inner, _ in nodes])
    lanes = Lanes(invocation, nodes, run_node, width=node.concurrency)
    async with aclosing(lanes.events(lambda task: not collect and broke(task))) as events:
        async for event in events:
            yield event
    lanes.require_end(collect=collect)
    done = [
        inner for (inner, _), task in zip(nodes, lanes.tasks, strict=True) if has_completed(task)
    ]
    delta: JsonObject = {}
    for inner in done:
        shared = invocation.forks.own_state(inner)
        # shared state is not the branch's own: it must not be lost with it
        delta |= {k: v for k, v in shared.items() if scope_of(k) in ("app", "user")}
    outputs = _outputs(invocation, node, done)
    delta[node.into] = [outputs.get(inner.path) for inner, _ in nodes]
    actions = Actions(state_delta=delta, end_of_agent=True)
    closed = place.on_branch(node.name, "").fork.removesuffix(".")
    label = invocation.flow.below([inner.path for inner in done])
    notes = Provenance(closed=closed)
    event = invocation.event(node.name, place, actions=actions, notes=notes, label=label)
    yield await invocation.commit(event)


def _elements(
    invocation: Invocation, place: Place, node: Map, count: int
) -> list[tuple[Place, Node]]:
    """The runs of the body, each at its place.

    Every invocation and round has new branches: an element has nothing to do with the one that had
    its number before.
    """
    # made of the invocation and the place, so that a resumed run finds its branches again
    run_id = hashlib.blake2b(f"{invocation.id} {place.path}".encode(), digest_size=3).hexdigest()
    name = node.body.name
    return [
        (place.child(name, index).on_branch(node.name, f"{name}_{index + 1}_{run_id}"), node.body)
        for index in range(count)
    ]


def _outputs(invocation: Invocation, node: Map, places: Sequence[Place]) -> dict[str, Json]:
    """By path: what each run said last, or what it wrote if it said nothing.

    Words on branches inside a run do not count as its own.
    """
    events = invocation.log.events()
    undone, joined = hidden_by_undoing(events), joined_branches(events)
    paths = {inner.branch: inner.path for inner in places}
    spoken: dict[str, Event] = {}
    for index, event in enumerate(events):
        path = paths.get(joined.get(index, event.branch or ""))
        if path is None or index in undone or not is_below(path_of(event), path):
            continue
        own = event.author != "user" and (event.isolation_scope or "") == places[0].scope
        if own and event.text and not event.error_code and event.is_final_response():
            spoken[path] = event
    return {
        inner.path: _value(node, spoken[inner.path])
        if inner.path in spoken
        else _branch_outcome(invocation, node, inner)
        for inner in places
    }


def _value(node: Map, event: Event) -> Json:
    """What was said: the parsed value where the agent has a schema, else the text."""
    for agent in agents_of(node.body):
        if agent.name == event.author and agent.output_schema is not None:
            try:
                return parse(agent, event.text, wrapped=None)[0]
            except SchemaError:
                break
    return event.text


def _branch_outcome(invocation: Invocation, node: Map, place: Place) -> Json:
    """What a run wrote on its branch, without the element it began with."""
    own = invocation.forks.own_state(place)
    return {
        key: value
        for key, value in own.items()
        if key != node.item and value is not None and scope_of(key) == "session"
    }


def _no_list(node: Map, value: Json) -> str:
    if value is None:
        return f"there is no `{node.items}` in the state to map over; write it upstream"
    kind = "text" if isinstance(value, str) else type(value).__name__
    return (
        f"`{node.items}` is not a list but {kind}: {shorten(compact(value), 60)};"
        " make the agent that writes it return one: agent @ list[str]"
    )


_LOST = "another branch won"


async def run_race(
    invocation: Invocation, place: Place, node: Race, record: Record, run_node: Runs
) -> AsyncGenerator[Event, None]:
    """Run the branches until one completes; then keep what that one said and wrote.

    A branch that fails is out of the race. If the log says that one has completed, it has won.
    """
    nodes = branches_of(place, node)
    # the branches must be known to write for themselves before anything is written
    if "begun" not in record.state:
        forks = Provenance(forks={inner.fork: {} for inner, _ in nodes})
        await store_decision(invocation, place, node.name, {"begun": True}, forks)
    for inner, _ in nodes:
        invocation.forks.begin(inner)
    shelter_some(invocation, [inner for inner, _ in nodes])
    winner = _find_winner(invocation, nodes)
    if winner is None:
        lanes = Lanes(invocation, nodes, run_node, width=len(nodes), why=_LOST)

        def is_over(task: "asyncio.Task[None]") -> bool:
            return has_completed(task) or (
                broke(task) and not isinstance(task.exception(), NodeFailed)
            )

        async with aclosing(lanes.events(is_over)) as events:
            async for event in events:
                yield event
        failures = lanes.failures()
        winner = lanes.first
        if winner is None:
            if lanes.waits:
                raise Suspended
            raise failures[-1]
    else:
        async with aclosing(run_node(invocation, *nodes[winner])) as events:
            async for event in events:
                yield event
    losers = [inner.path for index, (inner, _) in enumerate(nodes) if index != winner]
    await settle_below(invocation, _LOST, *losers)
    won = nodes[winner][0]
    actions = Actions(
        state_delta=invocation.forks.own_state(won),
        agent_state={"winner": winner},
        end_of_agent=True,
    )
    notes = Provenance(
        undone=losers,
        joined=JoinedBranch(won.path, won.branch),
        closed=won.fork.rpartition(".")[0],
    )
    label = invocation.flow.below([won.path])
    event = invocation.event(node.name, place, actions=actions, notes=notes, label=label)
    event = await invocation.commit(event)
    if actions.state_delta:
        yield event


def _find_winner(invocation: Invocation, nodes: list[tuple[Place, Node]]) -> int | None:
    """The branch that has completed according to the log, where the run stopped right after it."""
    if not invocation.log.resumed:
        return None
    for index, (place, node) in enumerate(nodes):
        if isinstance(node, Agent):
            progress = invocation.log.progress(place)
            over = progress.ended or progress.answered is not None
        else:
            over = invocation.log.record(place).ended
        if over:
            return index
    return None


def branches_of(place: Place, node: Parallel | Race) -> list[tuple[Place, Node]]:
    """The branches of a node, each at its place; two of one name are numbered."""
    names: dict[str, int] = {}
    branches: list[tuple[Place, Node]] = []
    for index, child in enumerate(node.branches):
        names[child.name] = names.get(child.name, 0) + 1
        name = child.name if names[child.name] == 1 else f"{child.name}_{names[child.name]}"
        branches.append((place.child(child.name, index).on_branch(node.name, name), child))
    return branches


def shelter_some(invocation: Invocation, places: list[Place]) -> None:
    """Keep the failures in the log, so that those branches do not run again.

    If all branches failed, the run ended there, and all of them run again.
    """
    if invocation.log.resumed and not all(map(invocation.log.past.failed_at, places)):
        for place in places:
            invocation.log.shelter(place)


_Lane: TypeAlias = "asyncio.Task[None]"


class Lanes:
    """Nodes that run in tasks of their own, each at its place; `width` of them at a time.

    A lane waits until its event was taken. A slow consumer slows the lanes down, instead of filling
    the memory.
    """

    def __init__(
        self,
        invocation: Invocation,
        nodes: Sequence[tuple[Place, Node]],
        run_node: Runs,
        *,
        width: int,
        why: str = "another branch failed",
    ) -> None:
        self._invocation = invocation
        self._nodes = nodes
        self._run_node = run_node
        self._width = width
        self._why = why
        self._brought: deque[tuple[Event, asyncio.Future[None]] | _Lane] = deque()
        self._waiter: asyncio.Future[None] | None = None
        self._over = False
        self._loop = asyncio.get_running_loop()
        self._streams = Streams()
        self.tasks: list[asyncio.Task[None]] = []
        """The lanes that were begun, in the order of the nodes."""
        self.first: int | None = None
        """The lane that was the first to complete."""

    async def events(self, is_over: Callable[[_Lane], bool]) -> AsyncGenerator[Event, None]:
        """The events of all lanes, until all have ended or `is_over` says so of one that has.

        The lanes that still run then are stopped, and their open calls are answered.
        """
        ended = 0
        try:
            self._begin()
            while ended < len(self.tasks):
                brought = await self._next()
                if isinstance(brought, tuple):
                    event, taken = brought
                    yield self._streams.note(event)
                    # its lane may have been cancelled meanwhile
                    if not taken.done():
                        taken.set_result(None)
                    continue
                ended += 1
                if self.first is None and has_completed(brought):
                    self.first = self.tasks.index(brought)
                if is_over(brought):
                    break
                self._begin(running=len(self.tasks) - ended)
        finally:
            self._over = True
            await cancel_and_wait(self.tasks)
        lanes = zip(self._nodes, self.tasks, strict=False)
        cut = [place.path for (place, _), task in lanes if task.cancelled()]
        # an open call without a result would make the next request illegal
        await settle_below(self._invocation, self._why, *cut)
        for void in self._streams.end_unfinished():
            yield void

    def require_end(self, *, collect: bool) -> None:
        """Fail as a node did, or wait as one does; with `collect`, fail only if all of them did."""
        failures = self.failures()
        if failures and not (collect and (self.waits or len(failures) < len(self._nodes))):
            raise failures[0]
        if self.waits:
            raise Suspended

    def failures(self) -> list[NodeFailed]:
        """The failures of nodes. Any other error is raised."""
        errors = [
            error for task in self.tasks if not task.cancelled() and (error := task.exception())
        ]
        for error in errors:
            if not isinstance(error, (NodeFailed, Suspended)):
                raise error
        return [error for error in errors if isinstance(error, NodeFailed)]

    @property
    def waits(self) -> bool:
        """Whether a lane waits for an answer from outside."""
        return any(isinstance(error_of(task), Suspended) for task in self.tasks)

    def _begin(self, *, running: int = 0) -> None:
        """Begin as many lanes as may run."""
        while running < self._width and len(self.tasks) < len(self._nodes):
            place, node = self._nodes[len(self.tasks)]
            task = asyncio.create_task(self._bring(self._run_node(self._invocation, place, node)))
            task.add_done_callback(self._put)
            self.tasks.append(task)
            running += 1

    async def _bring(self, events: AsyncGenerator[Event, None]) -> None:
        """Hand over one event after the other, each when the last was taken."""
        async with aclosing(events):
            async for event in events:
                if self._over:  # it was cancelled, and somebody's code took no notice
                    raise asyncio.CancelledError
                taken: asyncio.Future[None] = self._loop.create_future()
                self._put((event, taken))
                await taken

    async def _next(self) -> "tuple[Event, asyncio.Future[None]] | _Lane":
        """The next event with its receipt, or a lane that has ended."""
        while not self._brought:
            self._waiter = self._loop.create_future()
            await self._waiter
        return self._brought.popleft()

    def _put(self, brought: "tuple[Event, asyncio.Future[None]] | _Lane") -> None:
        self._brought.append(brought)
        if self._waiter is not None and not self._waiter.done():
            self._waiter.set_result(None)


def error_of(task: _Lane) -> BaseException | None:
    """The error of a lane that was not cancelled; None if it has none."""
    return task.exception() if task.done() and not task.cancelled() else None


def has_completed(task: _Lane) -> bool:
    """Whether a lane ended well."""
    return task.done() and not task.cancelled() and task.exception() is None


def broke(task: _Lane) -> bool:
    """Whether a lane ended badly; one that waits for an answer did not."""
    error = error_of(task)
    return error is not None and not isinstance(error, Suspended)


class Streams:
    """Answers that have begun to stream and are not complete yet."""

    __slots__ = ("_begun",)

    def __init__(self) -> None:
        self._begun: dict[str, Event] = {}

    def note(self, event: Event) -> Event:
        """Note an event that passes, and return it."""
        if event.partial and (event.content or not event.void):
            self._begun[event.id] = event
        elif self._begun:
            self._begun.pop(event.id, None)
        return event

    def end_unfinished(self) -> list[Event]:
        """One event for each answer that will never be complete: it says so."""
        return [
            msgspec.structs.replace(partial, content=None, interrupted=True)
            for partial in self._begun.values()
        ]
