"""One agent's turn: compile, ask, answer the calls, ask again; one loop, streamed or not.

Every complete event is in the log before anything is built on it, so this loop may start
anywhere: it looks at what its place has done, and does what is left.
"""

import logging
import sys
from collections.abc import AsyncGenerator, Sequence
from contextlib import aclosing
from typing import TYPE_CHECKING

import msgspec

from weft.compiler.instruction import decide_condition
from weft.compiler.plan import Plan, plan_for
from weft.content import Content, Part
from weft.declare import Agent, CallbackContext, Flow, Node
from weft.declare.agent import find_path
from weft.declare.notes import apply_note
from weft.declare.policy_parts import Capture, NoteDown, Writing
from weft.diagnostics import Origin, report
from weft.errors import CompileError, ProtectionError, StoreError
from weft.runtime.costs import RUN_BUDGET
from weft.runtime.flow import add_label, add_note, endorse_answer, may_endorse
from weft.runtime.handles import Opening, hides_text, open_reply
from weft.runtime.invocation import Invocation
from weft.runtime.labels import Spoken, restored_answer, with_restored
from weft.runtime.model_call import ModelCall
from weft.runtime.place import (
    UNKNOWN_OUTCOME,
    Interrupted,
    NodeFailed,
    Place,
    Progress,
    Suspended,
    code_place,
    is_reply,
    with_note,
    withheld_in,
)
from weft.runtime.program import AgentBindings, CallbackError, ToolsetError
from weft.runtime.result import (
    CUT,
    GO_ON,
    RETRIES,
    FinalAnswer,
    check_answer,
    correction,
    is_empty,
    put_together,
    spell_out_answer,
)
from weft.runtime.tracing import TracedStep
from weft.session import Actions, Event
from weft.session.event import NO_ACTIONS, new_id
from weft.session.flow import TRUSTED, base_of, flow_of, note_of
from weft.session.provenance import Provenance
from weft.session.talk import PAUSED
from weft.values import JsonObject

if TYPE_CHECKING:
    from weft.runtime.batch import Batch

_log = logging.getLogger("weft")

MAX_HOPS = 10
"""How often an invocation may be handed over."""

_CUT_OFF = "the answer was cut off at the token limit"


async def run_agent(
    invocation: Invocation, place: Place, root: Agent, start: str
) -> AsyncGenerator[Event, None]:
    """Run the agent tree at a place until it has an answer, waits, or fails.

    `start` is the agent the turn goes to, unless the log says it was handed on.
    """
    progress = invocation.log.progress(place)
    invocation.flow.recall(place, place.path)
    turn: Turn | None = None
    traced: TracedStep | None = None
    # Somebody dealt with this failure before the run was resumed, so it stays one. Elsewhere a
    # failure ended the run, and a run that goes on tries again.
    if progress.failed is not None and invocation.log.is_sheltered(place):
        raise NodeFailed(progress.failed)
    try:
        while not progress.ended:
            name = progress.agent or start
            # an agent that the tree no longer has is answered for by the root
            path = (root,) if name == root.name else find_path(root, name) or (root,)
            agent = path[-1]
            if isinstance(agent, Flow):
                from weft.runtime.flows import run_node

                flow = invocation.heir(agent, _model_above(path))
                async with aclosing(
                    run_node(invocation, place.child(agent.name, 0), flow)
                ) as events:
                    async for event in events:
                        yield event
                progress.ended = True
                return
            equipped = root
            if agent.tool_sources:
                from weft.runtime.effects import equipped_root  # few agents have toolsets to ask

                equipped = await equipped_root(invocation, place, root, agent)
            if invocation.trace is not None:
                traced = invocation.trace.begin_agent(agent.name, place)
            turn = Turn(invocation, place, root, equipped, agent.name, progress)
            if not progress.begun:
                for event in await turn.begin():
                    yield event
                if progress.agent != agent.name:  # a callback handed over
                    if traced is not None:
                        traced.end()
                    continue
            reply: Event | None = None
            while progress.answered is None:
                if progress.open and progress.due(invocation.request.retry):
                    step = await turn.answer_calls(reply)
                elif progress.pending:  # all open calls wait for an answer from outside
                    raise Suspended
                else:
                    problem = turn.count_step()
                    if problem is not None:
                        failure = await turn.fail(*problem)
                        yield failure.event
                        raise failure
                    call = turn.model_call()
                    asks = await call.prepare()
                    for event in call.performed:
                        progress.note(event)
                        yield event
                    while asks:
                        # once more if the request was too long and could be made shorter
                        asks = over = False
                        answers = call.answers()
                        try:
                            async for response in answers:
                                if not response.partial:
                                    call.response = response
                                # the transport tries again after pieces were shown: they are void
                                elif response.error_code:
                                    call.begins_anew = True
                                elif call.stream:
                                    turn.streaming = call.id
                                    yield call.partial(response)
                            over = True
                        except Exception as error:
                            asks = await call.recover(error)
                        finally:
                            # a model may give any iterator; one that came to its end is closed
                            if not over and isinstance(answers, AsyncGenerator):
                                await answers.aclose()
                    step = await turn.take(await call.reply(), call.context)
                    if call.cancelled is not None:
                        raise call.cancelled
                    reply = step.events[0]
                for event in step.events:
                    yield event
                if step.ending is not None:
                    raise step.ending
                if progress.agent != agent.name:  # it was handed over
                    if traced is not None:
                        traced.end()
                    break
            else:
                if not progress.ended:
                    for event in await turn.end():
                        yield event
    except (NodeFailed, Suspended, Interrupted, StoreError):
        raise  # they are in the log, or the log cannot be written
    except Exception as error:
        words = f"{type(error).__name__}: {error}"
        failed = invocation.event(progress.agent or start, place, error=(_error_code(error), words))
        if turn is not None and turn.streaming:  # what was streamed has come to this
            failed = msgspec.structs.replace(failed, id=turn.streaming)
        event = await invocation.commit(failed)
        yield event
        raise NodeFailed(event, error) from error
    finally:
        if traced is not None:
            traced.end(sys.exception())


class StepEnd(msgspec.Struct, frozen=True):
    """What a step left in the log, and how the turn ends after it, if it does."""

    events: tuple[Event, ...]
    ending: Exception | None = None


class Turn:
    """One agent's turn at a place; each method stores what it makes before it returns."""

    __slots__ = (
        "agent", "bindings", "hides", "invocation", "place", "plan", "progress", "root",
        "streaming", "writes",
    )  # fmt: skip

    def __init__(
        self,
        invocation: Invocation,
        place: Place,
        root: Agent,
        equipped: Agent,
        name: str,
        progress: Progress,
    ) -> None:
        self.invocation = invocation
        self.place = place
        self.root = root
        """The tree as it was declared: requests are made of it and the log."""
        self.progress = progress
        self.plan: Plan = plan_for(equipped, name, invocation.config, invocation.labels)
        self.agent = self.plan.agent
        self.bindings: AgentBindings = invocation.bindings(self.agent)
        self.bindings.model = self.plan.model
        policy = self.plan.policy
        self.writes = policy.facts.is_conditional or bool(policy.writings)
        """Whether the policy may write what the user or the agent said under keys of the state."""
        self.hides = bool(policy.protections) and hides_text(policy)
        """Whether handles stand for untrusted text in its requests."""
        self.streaming = ""
        """The id that partial events were given so far, until a complete event has it."""

    async def begin(self) -> tuple[Event, ...]:
        """Let the callbacks answer instead of the agent, or change the state before it runs."""
        progress = self.progress
        progress.begun, progress.agent = True, self.agent.name
        chain = self.bindings.callbacks.before_agent
        captured = captured_by(self) if self.writes else {}
        if not chain and not captured:
            return ()
        context = self.new_context()
        heard = self.invocation.flow.of_user(self.place) if captured else TRUSTED
        for key, words in captured.items():
            context.state[key] = words
        content = await chain.first((Content,), context) if chain else None
        if content is not None:
            answer = check_answer(self.agent, content, self.plan.output)
            actions = context.actions.to_actions({**answer.delta, **noted_by(self, answer)})
            actions = msgspec.structs.replace(actions, end_of_agent=True)
            answered = msgspec.structs.replace(content, role="model")
            event = self._event(answered, actions, context)
            return (await self._commit(add_label(event, heard)),)
        actions = context.actions.to_actions()
        if actions == NO_ACTIONS:
            return ()
        return (await self._commit(add_label(self._event(None, actions, context), heard)),)

    async def end(self) -> tuple[Event, ...]:
        """Let the callbacks add something. The log says that they ran, so they run once."""
        chain = self.bindings.callbacks.after_agent
        if not chain:
            self.progress.ended = True
            return ()
        context = self.new_context()
        content = await chain.ask_for_addition(Content, context)
        addition = msgspec.structs.replace(content, role="model") if content is not None else None
        done = msgspec.structs.replace(context.actions.to_actions(), end_of_agent=True)
        event = await self._commit(self._event(addition, done, context))
        # the mark that the callbacks ran is for the log only
        return (event,) if addition is not None or done.state_delta else ()

    def count_step(self) -> tuple[str, str] | None:
        """Count one more request to the model, or say why there is none: a code and words."""
        invocation, most = self.invocation, self.agent.max_steps
        if self.progress.steps >= most:
            return "max_steps", f"`{self.agent.name}` took {most} steps without an answer"
        limit = invocation.config.max_llm_calls
        spending = invocation.spending
        if spending.steps >= limit:
            return "max_llm_calls", f"the invocation made {limit} model calls"
        if spending.budget is not None and (words := spending.explain_exhaustion()):
            return RUN_BUDGET, words
        spending.steps += 1
        return None

    def model_call(self) -> ModelCall:
        """The next request to the model."""
        return ModelCall(
            self.invocation, self.place, self.root, self.plan, self.bindings, self.streaming
        )

    async def take(self, reply: Event, context: CallbackContext | None) -> StepEnd:
        """Store the model's reply as what it is: an error, calls, an answer, or a bad one.

        `context` is what the model's callbacks were handed. State that they changed is stored
        with the reply.
        """
        self.streaming = ""
        content = reply.content
        actions = context.actions.to_actions() if context is not None else reply.actions
        if reply.error_code:
            event = await self._commit(msgspec.structs.replace(reply, actions=actions))
            return StepEnd((event,), NodeFailed(event))
        paused = reply.finish_reason == PAUSED
        cut = reply.finish_reason == CUT
        pieces = self.progress.pieces
        if pieces and not cut and is_empty(content):
            content = Content(role="model")  # there was nothing left to say
        # a paused reply may be empty: it is sent back, and the provider goes on from there
        elif content is None or (is_empty(content) and not paused):
            thought = (
                any(part.kind == "thought" for part in content.parts or ()) if content else False
            )
            words = f"the model returned nothing{' but thoughts' if thought else ''}"
            failure = await self.fail("empty_response", words, reply)
            return StepEnd((failure.event,), failure)
        if self.plan.output is not None:
            content = spell_out_answer(content, self.plan.output)
        calls = False
        for part in content.parts or ():
            if part.function_call is not None:
                calls = True
                break
        if cut:
            how = self.invocation.config.on_truncated or self.agent.on_truncated
            if how == "error":
                return await self._refuse_cut(reply, content)
            if how == "continue" and not calls and self._may_go_on():
                return await self._go_on(reply, content, actions)
        if pieces:
            spoken_before = [e.content for e in pieces if e.content is not None and is_reply(e)]
            content = put_together(spoken_before, content)
            reply = _with_notes(reply, Provenance(pieces=[event.id for event in pieces]))
        # if it is rejected, the model sees its own words, not the values restored for the user
        draft, own = content, reply
        if self.hides:
            reply, content = self._open_handles(reply, content)
        if not calls and not paused:
            if self.plan.policy.protections:  # most agents redact nothing
                answered = self._restore_values(content)
                content = answered.content
                if answered.used:
                    metadata = with_restored(reply.custom_metadata, answered.used)
                    reply = msgspec.structs.replace(reply, custom_metadata=metadata)
            answer = check_answer(self.agent, content, self.plan.output)
            if answer.problem:
                why = f"{_CUT_OFF}: {answer.problem}" if cut else answer.problem
                return await self._reject(own, draft, actions, why)
            if cut:
                reply = self._mark_cut(reply)
            noted = noted_by(self, answer) if self.writes else {}
            reply = self._label_answer(reply, answer, noted)
            if answer.delta or noted:
                delta = {**actions.state_delta, **answer.delta, **noted}
                actions = msgspec.structs.replace(actions, state_delta=delta)
        waiting: tuple[str, ...] | None = None
        if calls:
            called = [part.function_call for part in content.parts or () if part.function_call]
            waiting = self.bindings.calls_that_wait(called, withheld_in(reply))
        if content is not reply.content or actions is not reply.actions or waiting is not None:
            reply = msgspec.structs.replace(
                reply, content=content, actions=actions, long_running_tool_ids=waiting
            )
        return StepEnd(tuple(await self._commit_all((reply,))))

    def _open_handles(self, reply: Event, content: Content) -> tuple[Event, Content]:
        """The reply as the user is shown it: handles are opened, and its note says what it was."""
        opened = open_reply(
            Opening(self.invocation, self.place), content, is_json=self.plan.output is not None
        )
        if not opened.own_words:
            return reply, content
        note = msgspec.structs.replace(note_of(opened.label), own_words=opened.own_words)
        return add_note(reply, note), opened.content

    def _label_answer(self, reply: Event, answer: FinalAnswer, noted: JsonObject) -> Event:
        """The answer with the labels of what it writes, where these differ from its own."""
        label = base_of(reply)
        if label is TRUSTED and not noted:
            return reply
        keys = {key: self.invocation.flow.of_names((key,)) | label for key in noted}
        if label.taint and may_endorse(self.agent):
            return endorse_answer(reply, self.agent, answer.delta, answer.stored, keys)
        return add_label(reply, TRUSTED, keys)

    def _restore_values(self, content: Content) -> Spoken:
        """The answer with the values that a policy lets the user have."""
        session = self.invocation.log.view(self.place.scope)
        is_json = self.plan.output is not None
        return restored_answer(content, self.plan.policy, session, is_json=is_json)

    async def _reject(self, reply: Event, content: Content, actions: Actions, why: str) -> StepEnd:
        """Store a bad answer and what is wrong with it together; give up after a few."""
        if self.progress.rejected >= RETRIES:
            failure = await self.fail("invalid_output", why, reply)
            return StepEnd((failure.event,), failure)
        draft = msgspec.structs.replace(
            _with_notes(reply, Provenance(rejected=why)),
            content=content,
            actions=actions,
            audience="internal",
        )
        note = add_label(self._event(correction(why), Actions()), flow_of(reply).base)
        note = msgspec.structs.replace(note, audience="internal")
        await self.invocation.commit(draft, note)
        self.progress.note(draft)
        self.progress.note(note)
        return StepEnd((draft, note))

    async def _refuse_cut(self, reply: Event, content: Content) -> StepEnd:
        """Refuse an answer that was cut off. The error event keeps the part that came."""
        failure = await self.fail(
            "truncated", _CUT_OFF, _with_notes(reply, Provenance(cut=content.text))
        )
        return StepEnd((failure.event,), failure)

    def _may_go_on(self) -> bool:
        """Whether the model may be asked for the rest of its answer."""
        invocation = self.invocation
        # the reply at hand is not counted yet
        if self.progress.steps + 1 >= self.agent.max_steps:
            return False
        return invocation.spending.steps < invocation.config.max_llm_calls

    async def _go_on(self, reply: Event, content: Content, actions: Actions) -> StepEnd:
        """Store a piece of the answer, and a note that asks the model to go on."""
        self.streaming = reply.id  # the whole answer has the id that its pieces are streamed under
        piece = msgspec.structs.replace(
            _with_notes(reply, Provenance(piece=True)),
            id=new_id(),
            content=content,
            actions=actions,
            audience="internal",
        )
        note = self.invocation.event(
            self.agent.name, self.place, GO_ON, notes=Provenance(piece=True)
        )
        note = msgspec.structs.replace(note, audience="internal")
        return StepEnd(tuple(await self._commit_all([piece, note])))

    def _mark_cut(self, reply: Event) -> Event:
        """The answer that was cut off, with a diagnostic; the result of the run has it too."""
        key = self.agent.output_key
        where = f" and is under `{key}` as it is" if key is not None else ""
        diagnostic = report(
            "WEFT508",
            Origin("event", reply.id, self.agent.name),
            f"the answer of `{self.agent.name}` was cut off at the token limit{where}",
            'raise generate_config={"max_output_tokens": ...}, or write on_truncated="continue"'
            ' or "error"',
        )
        if diagnostic.code not in self.agent.allow:
            self.invocation.findings[str(diagnostic)] = diagnostic
            _log.warning("%s %s: %s", diagnostic.code, diagnostic.origin, diagnostic.message)
        return _with_notes(reply, Provenance(diagnostics=[str(diagnostic)]))

    async def answer_calls(self, reply: Event | None) -> StepEnd:
        """Run the open calls, store their results as one event, and do what they ask for."""
        # most of the runtime's code is about calls: an answer without any does not load it
        from weft.runtime.batch import run_calls

        batch = await run_calls(
            self.invocation,
            self.place,
            self.plan,
            self.bindings,
            self.progress,
            reply,
            self._single_event,
        )
        # the tool's transaction has stored the results together with what the tool wrote
        if batch.stored is not None:
            self.progress.note(batch.stored)
            return StepEnd((batch.stored,))
        events: list[Event] = []
        raised: Exception | None = None
        stopped = asks = unknown = suspended = False
        for one in batch.outcomes:
            stopped, asks = stopped or one.stopped, asks or one.question is not None
            unknown, suspended = unknown or one.unknown, suspended or one.suspended
            raised = raised if raised is not None else one.raised
        if stopped:
            await self._settle_stopped(batch)
        error: tuple[str, str] | None = None
        event = batch.event(self.invocation, self.agent.name, self.place)
        stalled: tuple[str, str] | None = None
        if event is not None:
            event, stalled = self._judge_repeats(event)
            if event.actions.transfer_to_agent is not None:
                error = self._refuse_hop(event)
            if error is not None:
                # the log must not say that a hand-over happened which was refused
                actions = msgspec.structs.replace(event.actions, transfer_to_agent=None)
                event = msgspec.structs.replace(event, actions=actions)
            elif event.actions.transfer_to_agent is not None:
                self.invocation.spending.hops += 1
                self.invocation.flow.decide(self.place.path, event.label)
            events.append(event)
        if asks:
            from weft.runtime.batch import ask_user

            events.append(ask_user(self.invocation, self.agent.name, self.place, batch))
        if unknown:
            from weft.runtime.batch import unknown_outcome

            error = error or unknown_outcome(batch)
        error = error or (None if raised is not None else stalled)
        if error is not None:
            events.append(self.invocation.event(self.agent.name, self.place, error=error))
        stored = await self._commit_all(events) if events else []
        # an event that only changes state is not shown
        visible = tuple([one for one in stored if one.content is not None or one.error_code])
        if error is not None:
            # it waits for the user to say what became of the calls: nothing has failed yet
            is_open = error[0] == UNKNOWN_OUTCOME
            return StepEnd(visible, Suspended() if is_open else NodeFailed(stored[-1]))
        if raised is None and suspended:
            return StepEnd(visible, Suspended())
        return StepEnd(visible, raised)

    def _single_event(self, batch: "Batch") -> Event | None:
        """The results as one event, if that is all there is to store and to do."""
        event = batch.event(self.invocation, self.agent.name, self.place)
        if event is None or event.content is None or event.actions.transfer_to_agent is not None:
            return None
        event, stalled = self._judge_repeats(event)
        return event if stalled is None else None

    async def _settle_stopped(self, batch: "Batch") -> None:
        """Answer the open calls of agents that were called as tools, and of code, once stopped."""
        from weft.runtime.batch import settle_below

        paths: list[str] = []
        for one in batch.outcomes:
            bound = self.bindings.tools.get(one.call.name or "") if one.stopped else None
            agent = bound.tool.agent if bound is not None else None
            if isinstance(agent, Agent | Flow):
                paths.append(self.place.child(agent.name, one.call.id or "").path)
            elif bound is not None and bound.tool.runs_code:
                paths.append(code_place(self.place, one.call).path)
        await settle_below(self.invocation, "another call failed", *paths)

    def _judge_repeats(self, event: Event) -> tuple[Event, tuple[str, str] | None]:
        """The results, with a note for the model if they repeat, or an error if they go on."""
        most = self.invocation.config.stall
        times = self.progress.times(event) if most is not None else 0
        if most is None or times < most or event.content is None:
            return event, None
        if times > most:
            name = event.results[0].name
            return event, (
                "stalled",
                f"`{name}` was called with the same arguments, to the same result, {times} times"
                " in a row",
            )
        parts = tuple(_with_repeat_note(part, times) for part in event.content.parts or ())
        content = msgspec.structs.replace(event.content, parts=parts)
        return msgspec.structs.replace(event, content=content), None

    def _refuse_hop(self, event: Event) -> tuple[str, str] | None:
        """Why the conversation cannot be handed over once more, if it cannot."""
        target = event.actions.transfer_to_agent
        if target is None:
            return None
        if not find_path(self.root, target):
            return "unknown_agent", f"there is no agent `{target}` to hand over to"
        if self.invocation.spending.hops >= MAX_HOPS:
            return "max_transfers", f"the invocation was handed over {MAX_HOPS} times"
        # two agents that pass the user to each other, and neither says or does anything
        hops, news = self.progress.hops, self.progress.news or len(event.results) > 1
        if hops and hops[-1] == target and not news:
            here = self.agent.name
            return "transfer_loop", f"`{target}` and `{here}` hand over to each other"
        return None

    def new_context(self) -> CallbackContext:
        """A context for a callback of this agent."""
        return self.invocation.context(self.agent.name, self.place)

    def _event(
        self, content: Content | None, actions: Actions, context: CallbackContext | None = None
    ) -> Event:
        label = self.invocation.flow.of_context(context)
        return self.invocation.event(
            self.agent.name, self.place, content, actions=actions, label=label
        )

    async def _commit(self, event: Event) -> Event:
        return (await self._commit_all((event,)))[0]

    async def _commit_all(self, events: Sequence[Event]) -> list[Event]:
        """Store events that belong together: a crash leaves all of them, or none."""
        stored = await self.invocation.commit_all(events)
        for event in stored:
            self.progress.note(event)
        return stored

    async def fail(self, code: str, message: str, reply: Event | None = None) -> NodeFailed:
        """An error event that is in the log, as the exception that ends the node.

        A reply that is not an answer is not said, but what it cost and why it ended is kept.
        """
        event = self.invocation.event(self.agent.name, self.place, error=(code, message))
        if reply is not None:
            # under the id of the reply, so that readers replace what was streamed of it
            asked = Provenance(unanswered=self.plan.target.model)
            event = msgspec.structs.replace(
                event,
                id=reply.id,
                usage=reply.usage,
                finish_reason=reply.finish_reason,
                model_version=reply.model_version,
                custom_metadata=asked.onto(reply.custom_metadata),
            )
        return NodeFailed(await self.invocation.commit(event))


def _model_above(path: tuple[Node, ...]) -> object:
    """The model that a flow at the end of the path inherits."""
    agents = (node for node in reversed(path) if isinstance(node, Agent))
    return next((agent.model for agent in agents if agent.model is not None), None)


def _error_code(error: Exception) -> str:
    """The code of the error event for what user code, or a declaration, raised."""
    if isinstance(error, ProtectionError):
        return "protect"
    if isinstance(error, CompileError):
        return "compile_error"
    if isinstance(error, ToolsetError):
        return error.code
    return "callback_error" if isinstance(error, CallbackError) else "error"


def _with_notes(event: Event, notes: Provenance) -> Event:
    """The event with more of what only Weft reads."""
    return msgspec.structs.replace(event, custom_metadata=notes.onto(event.custom_metadata))


def _with_repeat_note(part: Part, times: int) -> Part:
    """The result with a note for the model that it repeats."""
    result = part.function_response
    if result is None:
        return part
    response = with_note(result.response or {}, result.name or "", times)
    return msgspec.structs.replace(
        part, function_response=msgspec.structs.replace(result, response=response)
    )


def captured_by(turn: Turn) -> JsonObject:
    """What the user said, under each key that gets it and does not have it already."""
    keys = [one.key for one in _writings(turn) if isinstance(one, Capture)]
    if not keys:
        return {}
    text, state = (
        turn.invocation.log.user_text(turn.place),
        turn.invocation.forks.state_at(turn.place),
    )
    return {key: text for key in keys if text and state.get(key) != text}


def noted_by(turn: Turn, answer: FinalAnswer) -> JsonObject:
    """The notes of each key that the policy notes answers under, with this answer added."""
    notes = [one for one in _writings(turn) if isinstance(one, NoteDown)]
    if not notes or answer.problem or answer.stored is None:
        return {}
    state = turn.invocation.forks.state_at(turn.place)
    changed: JsonObject = {}
    for one in notes:
        before = changed[one.key] if one.key in changed else state.get(one.key)
        value = apply_note(before, answer.stored, one.strategy)
        if value is not None and value != before:
            changed[one.key] = value
    return changed


def _writings(turn: Turn) -> tuple[Writing, ...]:
    """What the policy writes, with its conditions decided by the state."""
    policy = turn.plan.policy
    if policy.facts.is_conditional:
        policy = policy.resolved(turn.invocation.forks.state_at(turn.place), decide_condition)
    return policy.writings
