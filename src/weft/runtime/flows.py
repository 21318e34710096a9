"""Run the nodes of a flow: `NodeRun` has one method for each kind of node.

Each node runs its children, and stores in the log what it decided and that it ended. A node that
has ended according to the log does not run again, and no decision in the log is made again.
"""

import asyncio
import logging
from collections.abc import AsyncGenerator, Mapping
from contextlib import aclosing
from typing import TypeAlias, cast

import msgspec

from weft.compiler.instruction import WatchedMapping
from weft.content import Content, FunctionCall, FunctionResponse, Part
from weft.declare import (
    Agent,
    CallbackContext,
    CustomAgent,
    Expect,
    Fallback,
    Flow,
    Gate,
    Loop,
    Map,
    Node,
    Parallel,
    Race,
    Route,
    Sequence,
    Step,
    Tap,
    Timeout,
)
from weft.declare.changes import OWN_CODE, Tag
from weft.declare.route import quote_value, same
from weft.declare.template import parse, render
from weft.declare.visit import Visitor
from weft.errors import RunError, SessionError, StoreError, describe_kind
from weft.runtime.batch import settle_below
from weft.runtime.branches import Streams, run_map, run_parallel, run_race
from weft.runtime.custom import run_custom
from weft.runtime.flow import add_label
from weft.runtime.invocation import Invocation, store_decision, store_failure
from weft.runtime.place import Interrupted, NodeFailed, Place, Record, Suspended, is_below, path_of
from weft.runtime.program import await_value, chain_of
from weft.runtime.questions import check_answer
from weft.runtime.turn import run_agent
from weft.session import Actions, Event
from weft.session.event import State, new_id
from weft.session.flow import TRUSTED, TrustLabel
from weft.session.lookback import INPUT
from weft.session.provenance import NOTHING, LaterTags, Provenance
from weft.values import Json, JsonObject

Events: TypeAlias = AsyncGenerator[Event, None]

_log = logging.getLogger("weft")


def run_node(invocation: Invocation, place: Place, node: Node, *, is_round: bool = False) -> Events:
    """Run a node at a place; it has no events if the log says that it has ended.

    A sequence that is a round of a loop ends where somebody escalates.
    """
    if isinstance(node, Agent):  # it keeps a record of its own, finer than that of a flow
        return run_agent(invocation, place, node, node.name)
    if _has_callbacks(invocation, node):
        return _between_callbacks(invocation, place, node, is_round=is_round)
    record = invocation.log.record(place)
    if record.ended:
        return _no_events()
    if record.failed is not None and invocation.log.is_sheltered(place):
        return _failure(record.failed)
    return NodeRun(invocation, place, record, is_round=is_round).visit(node)


def _has_callbacks(invocation: Invocation, node: Flow) -> bool:
    """Whether somebody is asked before the node runs, or when it has ended."""
    if node.before_agent is not None or node.after_agent is not None:
        return True
    return isinstance(node, CustomAgent) and bool(invocation.services.plugins)


async def _between_callbacks(
    invocation: Invocation, place: Place, node: Flow, *, is_round: bool
) -> Events:
    """Run a node that has callbacks; the log says that each was asked, so it is asked once."""
    run = NodeRun(invocation, place, invocation.log.record(place), is_round=is_round)
    plugins = invocation.services.plugins if isinstance(node, CustomAgent) else ()
    if not run.record.ended:
        answered = False
        if "before" not in run.record.state:
            try:
                event, answered = await run.ask_before(node, plugins)
            except NodeFailed as failure:
                yield failure.event
                raise
            if event is not None:
                yield event
        if answered:
            return
        if run.record.failed is not None and invocation.log.is_sheltered(place):
            raise NodeFailed(run.record.failed)
        async with aclosing(run.visit(node)) as events:
            async for event in events:
                yield event
    if "after" not in run.record.state:
        try:
            event = await run.ask_after(node, plugins)
        except NodeFailed as failure:
            yield failure.event
            raise
        if event is not None:
            yield event


async def _no_events() -> Events:
    nothing: tuple[Event, ...] = ()
    for event in nothing:  # makes this a generator
        yield event


async def _failure(event: Event) -> Events:
    """Fail as the log says, once somebody asks for events: there the caller expects it."""
    async for nothing in _no_events():
        yield nothing
    raise NodeFailed(event)


class NodeRun(Visitor[Events]):
    """One run of one node at its place; each method runs one kind of node.

    The last event of every node says that it has ended. Where the node's last deed is not an
    event of its own, `_end` stores one.
    """

    __slots__ = ("invocation", "is_round", "place", "record")

    def __init__(
        self, invocation: Invocation, place: Place, record: Record, *, is_round: bool = False
    ) -> None:
        self.invocation = invocation
        self.place = place
        self.record = record
        """What the log already has of this node."""
        self.is_round = is_round

    async def ask_before(
        self, node: Flow, plugins: tuple[object, ...]
    ) -> tuple[Event | None, bool]:
        """Ask the callbacks before the node: what they changed or said, and whether they answered.

        An answer stands for the whole node, which has ended with it.
        """
        chain = chain_of(node, "before_agent", plugins)
        if not chain:
            return None, False
        context = self.invocation.context(node.name, self.place)
        try:
            content = await chain.first((Content,), context)
            actions = context.actions.to_actions()
        except Exception as error:
            raise await self._callback_failure(node, context, error) from error
        marked = msgspec.structs.replace(actions, agent_state={"before": True})
        if content is not None:  # it stands for the node: nobody is asked after it
            marked = msgspec.structs.replace(
                actions, agent_state={"before": True, "after": True}, end_of_agent=True
            )
        spoken = msgspec.structs.replace(content, role="model") if content is not None else None
        event = await self._commit_content(node, context, spoken, marked)
        is_seen = spoken is not None or bool(actions.state_delta)
        return event if is_seen else None, spoken is not None

    async def ask_after(self, node: Flow, plugins: tuple[object, ...]) -> Event | None:
        """Ask the callbacks once the node has ended: what they changed or added."""
        chain = chain_of(node, "after_agent", plugins)
        if not chain:
            return None
        context = self.invocation.context(node.name, self.place)
        try:
            content = await chain.ask_for_addition(Content, context)
            actions = context.actions.to_actions()
        except Exception as error:
            raise await self._callback_failure(node, context, error) from error
        marked = msgspec.structs.replace(actions, agent_state={"after": True}, end_of_agent=True)
        addition = msgspec.structs.replace(content, role="model") if content is not None else None
        event = await self._commit_content(node, context, addition, marked)
        return event if addition is not None or actions.state_delta else None

    async def _callback_failure(
        self, node: Node, context: CallbackContext, error: Exception
    ) -> NodeFailed:
        if isinstance(error, (StoreError, Interrupted)):
            raise error
        words = f"{type(error).__name__}: {error}"
        read = self.invocation.flow.of_context(context)
        return await self._fail(node, "callback_error", words, error, read)

    async def _commit_content(
        self, node: Node, context: CallbackContext, content: Content | None, actions: Actions
    ) -> Event:
        read = self.invocation.flow.of_context(context)
        event = self.invocation.event(node.name, self.place, content, actions=actions, label=read)
        return await self.invocation.commit(event)

    def visit_agent(self, node: Agent) -> Events:
        """A whole turn of an agent."""
        return run_agent(self.invocation, self.place, node, node.name)

    async def visit_sequence(self, node: Sequence) -> Events:
        """One step after the other; a failed one ends the sequence."""
        for index, step in enumerate(node.steps):
            inner = self.place.child(step.name, index)
            events = run_node(self.invocation, inner, step)
            try:
                async for event in events:
                    yield event
            finally:
                await events.aclose()
            # escalating leaves the loop at once, not after the rest of the round
            if self.is_round and self._has_escalated(inner):
                break
        await self._end(node)

    async def visit_parallel(self, node: Parallel) -> Events:
        """All branches at once."""
        async with aclosing(run_parallel(self.invocation, self.place, node, run_node)) as events:
            async for event in events:
                yield event
        await self._end(node)

    async def visit_loop(self, node: Loop) -> Events:
        """Rounds until a predicate ends them, somebody escalates, or there were enough."""
        stored = self.record.state.get("rounds")
        rounds = stored if isinstance(stored, int) else 0
        stop = self.record.state.get("stop") is True
        # asked before the first round, once
        if node.while_ is not None and stored is None:
            try:
                stop = await self._is_over(node)
            except NodeFailed as failure:
                yield failure.event
                raise
            await self._decide(node, {"rounds": 0, "stop": stop})
        self.invocation.flow.recall(self.place, self.place.path, "rounds")
        while rounds < node.max and not stop:
            inner = self.place.child(node.body.name, rounds)
            body = run_node(self.invocation, inner, node.body, is_round=True)
            async with aclosing(body) as events:
                async for event in events:
                    yield event
            rounds += 1
            stop = self._has_escalated(inner)
            if not stop and (node.until is not None or node.while_ is not None):
                try:
                    stop = await self._is_over(node)
                except NodeFailed as failure:
                    yield failure.event
                    raise
            # stored before the next round: a run that is resumed does not ask the predicate again
            await self._decide(node, {"rounds": rounds, "stop": stop})
        self.invocation.flow.join(self.place.path)
        await self._end(node)

    async def visit_fallback(self, node: Fallback) -> Events:
        """The first choice that does not fail; what the others said is taken out of view."""
        failed_last = self.record.state.get("failed")
        first = failed_last + 1 if isinstance(failed_last, int) else 0
        for index in range(first, len(node.choices)):
            choice = node.choices[index]
            inner = self.place.child(choice.name, index)
            self.invocation.flow.recall(self.place, inner.path, "failed")
            is_last = index == len(node.choices) - 1
            # its failure is dealt with here, so it stays one when the run is resumed
            if not is_last:
                self.invocation.log.shelter(inner)
            try:
                async with aclosing(run_node(self.invocation, inner, choice)) as events:
                    async for event in events:
                        yield event
                break
            except NodeFailed as failure:
                if is_last:
                    raise
                label = self.invocation.flow.of_failure(failure.event, inner)
                after = self.place.child(node.choices[index + 1].name, index + 1)
                self.invocation.flow.decide(after.path, label)
                spoke = any(
                    event.content and is_below(path_of(event), inner.path)
                    for event in self.invocation.log.events()
                )
                # only if it spoke: such a mark makes every view of the log start again
                undone = Provenance(undone=[inner.path]) if spoke else NOTHING
                await self._decide(node, {"failed": index}, undone, label)
        await self._end(node)

    async def visit_route(self, node: Route) -> Events:
        """The node the state leads to; once chosen, it stays chosen."""
        chosen = self.record.state.get("case")
        if not isinstance(chosen, int):
            state = self._state()
            try:
                choice = node.pick(state)
            except RunError as error:
                read = self.invocation.flow.of_names(state.seen)
                failure = await self._fail(node, "no_route", str(error), error, read)
                yield failure.event
                raise failure from error
            read = self.invocation.flow.of_names(state.seen)
            if choice is None:
                key = node.key if isinstance(node.key, str) and node.key else "the state"
                words = f"no case of {node.name} holds for {key}; add .otherwise(...)"
                failure = await self._fail(node, "no_route", words, label=read)
                yield failure.event
                raise failure
            label, target = choice
            chosen = next(i for i, child in enumerate(node.children) if child is target)
            actions = Actions(route=label, agent_state={"case": chosen})
            await self._commit(node, actions, label=read)
            self.invocation.flow.decide(self.place.child(target.name, chosen).path, read)
        target = node.children[chosen]
        inner = self.place.child(target.name, chosen)
        self.invocation.flow.recall(self.place, inner.path, "case")
        async with aclosing(run_node(self.invocation, inner, target)) as events:
            async for event in events:
                yield event
        await self._end(node)

    async def visit_custom_agent(self, node: CustomAgent) -> Events:
        """The agent's own code."""
        run = run_custom(self.invocation, self.place, node, run_node)
        async with aclosing(run) as events:
            async for event in events:
                yield event
        await self._end(node)

    def visit_map(self, node: Map) -> Events:
        """The body for each element, on branches of their own."""
        return run_map(self.invocation, self.place, node, self.record, run_node)

    def visit_race(self, node: Race) -> Events:
        """All branches at once, until one completes."""
        return run_race(self.invocation, self.place, node, self.record, run_node)

    async def visit_timeout(self, node: Timeout) -> Events:
        """Run the body; the clock stands still while somebody else reads its events."""
        inner = self.place.child(node.body.name, 0)
        clock = asyncio.get_running_loop().time
        remaining = node.seconds
        streams = Streams()
        events = run_node(self.invocation, inner, node.body)
        try:
            while True:
                since = clock()
                limit = asyncio.timeout(remaining)
                try:
                    async with limit:
                        event = await anext(events)
                except StopAsyncIteration:
                    await self._end(node)
                    return
                except TimeoutError:
                    if limit.expired():
                        break
                    raise  # a timeout of the body's own
                remaining = max(0.0, remaining - (clock() - since))
                # the reader's own time does not count
                yield streams.note(event)
        finally:
            await events.aclose()
        await settle_below(self.invocation, "it took too long", inner.path)
        for void in streams.end_unfinished():
            yield void
        words = f"`{node.body.name}` took longer than {node.seconds:g} s"
        failure = await self._fail(node, "timeout", words)
        yield failure.event
        raise failure

    async def visit_step(self, node: Step) -> Events:
        """Call the function once, and store what it changed together with that it ran."""
        before = self.invocation.forks.state_at(self.place)
        state = State(before)
        try:
            user_words = self.invocation.log.user_text(self.place) if node.captures else ""
            for key in node.captures if user_words else ():
                state[key] = user_words
            returned = await await_value(node.function(state))
            if returned is not None and not isinstance(returned, Mapping):
                raise SessionError(
                    f"the step returned {describe_kind(returned)}",
                    where=node.name,
                    hint="return a dict of changes, or None",
                )
            for key, value in cast("Mapping[str, Json]", returned or {}).items():
                state[key] = value
        except StoreError:
            raise
        except Exception as error:
            words = f"{type(error).__name__}: {error}"
            read = self.invocation.flow.of_names(state.reads)
            failure = await self._fail(node, "step_error", words, error, read)
            yield failure.event
            raise failure from error
        delta = dict(state.delta)
        if node.change is not OWN_CODE:  # what `S` sets may be so already
            delta = {key: value for key, value in delta.items() if before.get(key) != value}
        actions = Actions(state_delta=delta, end_of_agent=True)
        label = self.invocation.flow.of_names(state.reads)
        if user_words:
            label |= self.invocation.flow.of_user(self.place)
        endorsed = dict.fromkeys(node.endorses, label.without_taint())
        actions = _with_endorsed(actions, before, node.endorses)
        event = await self._commit(node, actions, _tags(self.invocation, node), label, endorsed)
        if delta:
            yield event

    async def visit_tap(self, node: Tap) -> Events:
        """Call the function once, and log what it raises. A tap has no event to show."""
        try:
            await await_value(node.function(self._state()))
        except Exception:
            _log.warning("%s: the tap raised", node.name, exc_info=True)
        await self._end(node)
        async for event in _no_events():
            yield event

    async def visit_expect(self, node: Expect) -> Events:
        """Ask the predicate once, and fail unless it holds."""
        state = self._state()
        try:
            holds = bool(await await_value(node.predicate(state)))
        except Exception as error:
            words = f"the predicate raised {type(error).__name__}: {error}"
            read = self.invocation.flow.of_names(state.seen)
            failure = await self._fail(node, "step_error", words, error, read)
            yield failure.event
            raise failure from error
        if not holds:
            read = self.invocation.flow.of_names(state.seen)
            failure = await self._fail(node, "expectation_failed", node.message, label=read)
            yield failure.event
            raise failure
        await self._end(node)

    async def visit_gate(self, node: Gate) -> Events:
        """Ask once, wait, and store the answer together with that the gate was passed."""
        question, answer = _stored_question(self.invocation, self.place)
        if not question:
            yield await self.invocation.commit(_question(self.invocation, self.place, node))
            raise Suspended
        if answer is None:
            raise Suspended
        decision = node.decided(decision_of(answer))
        if decision is None:
            words = (
                f"{quote_value(decision_of(answer))} is none of the choices: {_list(node.choices)}"
            )
            failure = await self._fail(node, "bad_answer", words)
            yield failure.event
            raise failure
        actions = Actions(state_delta={node.key: decision}, end_of_agent=True)
        endorsed = dict[str, TrustLabel]()
        # a no endorses nothing
        if node.endorses and not _is_no(decision):
            actions = _with_endorsed(
                actions, self.invocation.forks.state_at(self.place), node.endorses
            )
            endorsed = dict.fromkeys(node.endorses, TRUSTED)
        yield await self._commit(node, actions, endorsed=endorsed)

    def _state(self) -> "WatchedMapping[Json]":
        """The state here, for reading only; it knows what was read."""
        return WatchedMapping(self.invocation.forks.state_at(self.place))

    async def _is_over(self, loop: Loop) -> bool:
        """Whether the loop's predicate says that it is over."""
        predicate = loop.until or loop.while_
        assert predicate is not None
        state = self._state()
        try:
            holds = bool(await await_value(predicate(state)))
        except Exception as error:
            word = "until" if loop.until is not None else "while_"
            words = f"the loop's `{word}` raised {type(error).__name__}: {error}"
            read = self.invocation.flow.of_names(state.seen)
            raise await self._fail(loop, "step_error", words, error, read) from error
        self.invocation.flow.decide(self.place.path, self.invocation.flow.of_names(state.seen))
        return holds if loop.until is not None else not holds

    def _has_escalated(self, inner: Place) -> bool:
        """Whether somebody below a place has asked to leave the loop."""
        return any(
            scope == inner.scope and is_below(path, inner.path)
            for path, scope in self.invocation.log.escalated
        )

    async def _decide(
        self,
        node: Node,
        state: JsonObject,
        notes: Provenance = NOTHING,
        label: TrustLabel = TRUSTED,
    ) -> None:
        """Store a decision before acting on it."""
        await store_decision(self.invocation, self.place, node.name, state, notes, label)

    async def _fail(
        self,
        node: Node,
        code: str,
        words: str,
        cause: Exception | None = None,
        label: TrustLabel = TRUSTED,
    ) -> NodeFailed:
        """Store the failure of this node, and return it to be raised."""
        return await store_failure(
            self.invocation, self.place, node.name, code, words, cause, label
        )

    async def _commit(
        self,
        node: Node,
        actions: Actions,
        notes: Provenance = NOTHING,
        label: TrustLabel = TRUSTED,
        endorsed: Mapping[str, TrustLabel] | None = None,
    ) -> Event:
        event = self.invocation.event(
            node.name, self.place, actions=actions, notes=notes, label=label
        )
        return await self.invocation.commit(add_label(event, TRUSTED, endorsed))

    async def _end(self, node: Node) -> None:
        """Store that the node has ended."""
        await self._commit(node, Actions(end_of_agent=True))


def _with_endorsed(actions: Actions, state: Mapping[str, Json], keys: tuple[str, ...]) -> Actions:
    """The actions with endorsed keys among what they write: the log says what was endorsed."""
    values = {key: state[key] for key in keys if state.get(key) is not None}
    delta = {**values, **actions.state_delta}
    return msgspec.structs.replace(actions, state_delta=delta) if values else actions


def _is_no(decision: Json) -> bool:
    """Whether an answer of a gate says no."""
    return not decision or (isinstance(decision, str) and decision.strip().lower() in _NO)


_NO = ("no", "n", "false", "deny", "denied", "reject", "rejected", "refuse", "cancel")


def _tags(invocation: Invocation, node: Step) -> Provenance:
    """The tags of a step, for the newest thing an agent said."""
    if not isinstance(node.change, Tag):
        return NOTHING
    for event in reversed(invocation.log.session.events):
        if event.author != "user" and event.content is not None and not event.partial:
            return Provenance(tagged=LaterTags(event.id, [*node.change.names]))
    return NOTHING


def decision_of(answer: FunctionResponse) -> Json:
    """The answer itself, whatever it was wrapped in on its way."""
    response = answer.response or {}
    if set(response) == {"result"}:
        return response["result"]
    inner = response.get("response") if len(response) == 1 else None
    if isinstance(inner, str):  # ADK's page sends JSON text in a field `response`
        try:
            return cast("Json", msgspec.json.decode(inner))
        except (ValueError, RecursionError):
            return inner
    return inner if inner is not None else response or None


def check_decisions(asked: Event, answers: Content) -> None:
    """Refuse an answer that the gate which asked does not take; it goes on waiting."""
    choices = {call.id: choices_of(call.args or {}) for call in asked.calls if call.name == INPUT}
    by_tool = {call.id: call for call in asked.calls if asked.provenance.asked is not None}
    for part in answers.parts or ():
        answer = part.function_response
        if answer is None or answer.id not in choices:
            continue
        if answer.id in by_tool:
            check_answer(asked, by_tool[answer.id], decision_of(answer))
            continue
        decision, known = decision_of(answer), choices[answer.id]
        if decision is None or (known and not any(same(decision, choice) for choice in known)):
            raise SessionError(
                f"{quote_value(decision)} is not an answer to the gate `{asked.author}`,"
                " which waits on",
                where=f"answers[{answer.id}]",
                hint=f"answer one of: {_list(known)}" if known else "answer something, not None",
            )


def choices_of(args: JsonObject) -> list[Json]:
    """What a gate's question lets somebody choose from; nothing if any answer will do."""
    payload = args.get("payload")
    choices = payload.get("choices") if isinstance(payload, dict) else None
    return choices if isinstance(choices, list) else []


def _question(invocation: Invocation, place: Place, node: Gate) -> Event:
    """The question as an open call, the way ADK's clients know it."""
    template = parse(node.question or f"What is to be decided for {node.name}?")
    pieces = render(template, invocation.forks.state_at(place))
    label = invocation.flow.of_names(one.variable.key for one in pieces if one.variable is not None)
    id = f"{node.name}-{new_id()[:12]}"
    payload: JsonObject = {"gate": node.name, "choices": [*node.choices]}
    message = "".join(piece.text for piece in pieces)
    args: JsonObject = {"interruptId": id, "message": message, "payload": payload}
    call = Part(function_call=FunctionCall(name=INPUT, args=args, id=id))
    asking = invocation.event(
        node.name,
        place,
        Content(parts=(call,), role="model"),
        notes=Provenance(pending=[id]),
        label=label,
    )
    return msgspec.structs.replace(asking, long_running_tool_ids=(id,))


def _stored_question(invocation: Invocation, place: Place) -> tuple[str, FunctionResponse | None]:
    """The question that the log has of this place, and the answer to it."""
    asked, answer = "", None
    if not invocation.log.resumed:
        return asked, answer
    for event in invocation.log.past.at(place):
        asked = next((call.id or "" for call in event.calls if call.name == INPUT), asked)
        answer = next((one for one in event.results if one.id == asked), answer)
    return asked, answer


def _list(choices: "tuple[Json, ...] | list[Json]") -> str:
    return ", ".join(quote_value(choice) for choice in choices)
