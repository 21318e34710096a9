"""One tool call: checked, confirmed, run within its limits, and turned into a result.

Whatever goes wrong in a tool becomes a result that tells the model what to do instead. What
the log says was done before a crash is not done again.
"""

import asyncio
import contextvars
import functools
import logging
import time
from collections.abc import Awaitable, Callable, Mapping
from contextlib import aclosing
from types import CoroutineType
from typing import TYPE_CHECKING, cast

import msgspec

from weft.compiler.plan import Plan
from weft.content import Content, FunctionCall, Part
from weft.declare import Agent, Flow, Node, Tool
from weft.declare.context import Ask, ToolContext
from weft.declare.return_fields import read_return_fields
from weft.diagnostics import Diagnostic
from weft.errors import SchemaError, SessionError, StoreError
from weft.misuse import find_near
from weft.runtime.flow import has_free_names, may_endorse, members_of
from weft.runtime.handles import Opening, UnknownHandle, hides_text
from weft.runtime.invocation import Invocation
from weft.runtime.labels import follow_labels, labels_in, refusal, restored_arguments
from weft.runtime.payloads import (
    ToolPayload,
    is_small,
    keep_large,
    shorten_result,
    to_json,
    to_returned,
)
from weft.runtime.place import (
    WAITING_CALLS,
    EndsRun,
    Interrupted,
    NodeFailed,
    Place,
    Progress,
    Suspended,
    wait_for_all,
)
from weft.runtime.program import AgentBindings, BoundTool, await_value
from weft.runtime.questions import CallQuestions
from weft.runtime.result import is_cut, parse
from weft.runtime.sinks import ArgumentSource, Doubt, find_doubt
from weft.runtime.tracing import RunTrace
from weft.session import Actions, Event
from weft.session.branches import branches_of
from weft.session.event import EMPTY_ACTIONS, apply_delta, without_temp
from weft.session.flow import (
    NO_FIELDS,
    TRUSTED,
    FieldTrust,
    TrustLabel,
    describe_fields,
    is_field_name,
    join_labels,
    unite_fields,
)
from weft.session.lookback import hidden_by_undoing
from weft.session.provenance import Provenance
from weft.values import Json, JsonObject, canonical, compact, digest, unwrap_result

if TYPE_CHECKING:
    from concurrent.futures import ThreadPoolExecutor

    from weft.runtime.code_calls import CodeCalls

_log = logging.getLogger("weft")

_ANSWERS: tuple[type[object], ...] = (dict,)

_BEFORE_ANSWERS: tuple[type[object], ...] = (dict, Ask)


class Outcome(msgspec.Struct, frozen=True):
    """What became of a call: a result, or that it waits; and what else it does.

    `raised` is what stops the run once the result is stored; `question` what the user is asked
    before the call may run; `unknown` that a crash left open whether it ran; `suspended` that
    the tool's agent waits for an answer itself; `stopped` that another call ended the run.
    """

    call: FunctionCall
    response: JsonObject | None = None
    actions: Actions = EMPTY_ACTIONS
    parts: tuple[Part, ...] = ()
    waits: bool = False
    unknown: bool = False
    suspended: bool = False
    question: JsonObject | None = None
    raised: Exception | None = None
    stopped: bool = False
    restored: JsonObject = {}
    """What was put back into the arguments in place of placeholders."""
    labels: tuple[str, ...] = ()
    """The labels of what its code was given: all of the result carries them."""
    label: TrustLabel = TRUSTED
    """The label of what the tool read, and of what an agent said."""
    is_own: bool = False
    """Whether Weft says it, and nothing of the arguments stands in it."""
    fields: FieldTrust = FieldTrust()
    """Whose text the fields of the result hold; none where Weft itself says it."""

    @property
    def is_plain(self) -> bool:
        """Whether it is a result, and nothing else."""
        return (
            self.response is not None
            and self.actions is EMPTY_ACTIONS
            and not self.waits
            and not self.restored
            and not self.labels
        )


Finish = Callable[[Outcome], Event | None]
"""Makes the event with the results of a reply from the outcome of its only call."""


class ToolCall:
    """A call on its way to its outcome."""

    _finish: Finish | None = None
    _steps: "CodeCalls | None" = None
    """The steps of the code that it brings, once they are under way."""
    _restored: JsonObject = {}
    _opened: Mapping[str, tuple[ArgumentSource, ...]] = {}
    """By argument: where the texts came from that handles in it stand for."""
    _edited: JsonObject | None = None
    """The arguments that the user approved in place of the model's."""
    _is_allowed = False
    """Whether the user said yes to this call."""
    label = TRUSTED
    """The label of the reply that made it, and of what its handles stand for."""
    begun = False
    """Whether the function was called, and may have done something."""
    result: Event | None = None
    """The event with the results, where it is stored already."""
    written: JsonObject = {}
    """What calls of the same reply wrote that this one had to wait for."""

    def __init__(
        self,
        invocation: Invocation,
        place: Place,
        plan: Plan,
        bindings: AgentBindings,
        progress: Progress,
        call: FunctionCall,
        malformed: str,
        carried: frozenset[str],
    ) -> None:
        self._invocation = invocation
        self._place = place
        self._plan = plan
        self._carried = carried
        """The labels that all its arguments carry."""
        self._bindings = bindings
        self._progress = progress
        self._malformed = malformed
        self.call = call
        self.outcome: Outcome | None = find_outcome(progress, call) if progress.outcomes else None

    def answer(self, outcome: Outcome) -> None:
        """Settle the call without running anything, unless it is settled already."""
        if self.outcome is None:
            self.outcome = outcome

    async def run(self, finish: "Finish | None" = None) -> None:
        """Run the call, unless it is settled.

        `finish` makes the event with the results of the reply from this one outcome. A tool that
        writes in the store's transaction then stores it there: one commit instead of two.
        """
        if self.outcome is None:
            self._finish = finish
            trace = self._invocation.trace
            outcome = await (self._decide() if trace is None else self._trace_decision(trace))
            if self._opened and not outcome.is_own:
                label = outcome.label | self.opened_label
                outcome = msgspec.structs.replace(outcome, label=label)
            if self._restored:
                outcome = msgspec.structs.replace(outcome, restored=self._restored)
            if self._steps is not None and self._steps.carried:
                labels = tuple(sorted(self._steps.carried))
                outcome = msgspec.structs.replace(outcome, labels=labels)
            self.outcome = outcome

    def record(self) -> JsonObject | None:
        """The outcome as the log keeps it until the event with all results is made."""
        outcome = self.outcome
        if outcome is None or outcome.response is None or outcome.raised:
            return None
        return _record(outcome)

    async def _trace_decision(self, trace: RunTrace) -> Outcome:
        """Decide as a step of a trace."""
        step = trace.begin_tool(self._bindings.agent.name, self._place, self.call)
        try:
            outcome = await self._decide()
        except BaseException as error:
            step.end(error)
            raise
        step.end(outcome)
        return outcome

    async def _decide(self) -> Outcome:
        """What becomes of the call: refused, asked about, left open by a crash, or run."""
        call = self.call
        bound = self._bindings.tool_for(call.name or "", call.args or {})
        dispatches = call.name in self._bindings.tools and (
            self._bindings.tools[call.name].tool.dispatches
        )
        if bound is None or (dispatches and bound.tool.dispatches):
            wanted = (call.args or {}).get("name") if dispatches else call.name
            return Outcome(
                call, {"error": unknown_tool(str(wanted or ""), list(self._bindings.tools))}
            )
        # the model is shown what it wrote, and the schema again
        if self._malformed:
            beginning = self._malformed[:200]
            return Outcome(
                call,
                {
                    "error": f"the arguments are not a JSON object: {beginning}",
                    "parameters": bound.tool.parameters,
                },
            )
        edited: JsonObject | None = None
        if self._progress.confirmed:
            from weft.runtime.approvals import edited_arguments  # few calls are asked about

            edited = edited_arguments(self._progress.confirmed.get(call.id or ""))
        # what the user approved counts, not what the model asked for
        try:
            args = self._arguments(bound.tool, edited)
        except UnknownHandle as unknown:
            words = f"there is no hidden text {unknown} in this session; use the name as it stands"
            return Outcome(call, {"error": words})
        self._edited = edited
        if dispatches:  # the approved arguments name the tool again
            bound = self._bindings.tool_for(call.name or "", args) or bound
            inner = args.get("arguments")
            args = inner if isinstance(inner, dict) else {}
            self._opened = self._sources_inside(args)
        try:
            kwargs = bound.arguments(args)
        except SchemaError as error:
            return Outcome(call, {"error": _error_words(error)})
        if self._invocation.labels:
            carried = self._carried | follow_labels(self._invocation, self.label.secrets)
            refused = await refusal(self._invocation, bound.tool, args, carried)
            if refused is not None:
                return Outcome(call, refused)
        doubt: Doubt | None = None
        if bound.tool.is_sink and edited is None:  # arguments of the user's are the user's
            doubt = self._find_doubt(bound.tool, args, self.label)
            if doubt is not None and self._invocation.config.on_untrusted == "refuse":
                return Outcome(call, {"error": doubt.refusal()}, is_own=True)
        context: ToolContext | None = None
        if bound.takes_context or self._bindings.watches_tools or doubt is not None:
            context = self._context()
        if (bound.tool.confirm is not False or doubt is not None) and context is not None:
            asked = await self._confirmation(bound.tool, args, context, doubt)
            if asked is not None:
                return asked
            self._is_allowed = (call.id or "") in self._progress.confirmed
        self._is_allowed = self._is_allowed or edited is not None
        # a crash may have hidden whether the call was made
        if self._progress.started:
            undecided = await self._after_crash(bound, args)
            if undecided is not None:
                return undecided
        try:
            return await self._call_with_callbacks(bound, context, args, kwargs)
        except Suspended:
            return Outcome(call, suspended=True)
        except (Interrupted, StoreError):
            raise
        except EndsRun as ending:
            return Outcome(call, {"error": _error_words(ending.cause)}, raised=ending.cause)
        except Exception as error:  # what a callback raised stops the run, once it is in the log
            return Outcome(call, {"error": _error_words(error)}, raised=error)

    def _find_doubt(self, tool: Tool, args: JsonObject, label: TrustLabel) -> Doubt | None:
        """Why the call is asked about or refused; where the run only takes notes, it is noted."""
        doubt = find_doubt(
            self._invocation,
            self._place,
            self._plan,
            tool,
            args,
            label,
            {} if self._is_allowed else self._opened,
            self.call.id or "",
        )
        how = self._invocation.config.on_untrusted
        if doubt is not None and how != "ask":
            self._tell(doubt.diagnostic("refused" if how == "refuse" else "made"))
        return doubt if how != "note" else None

    async def _check_again(
        self, tool: Tool, args: JsonObject, before: bytes, context: ToolContext, ask: Ask | None
    ) -> Outcome | None:
        """The question that `before_tool` wants asked, or that its new arguments raise."""
        doubt: Doubt | None = None
        if tool.is_sink and canonical(args) != before:
            label = self._invocation.flow.of_context(context)
            if not self._is_allowed:  # else the user has seen what the callback was given
                label |= self.label
            doubt = self._find_doubt(tool, args, label)
            if doubt is not None and self._invocation.config.on_untrusted == "refuse":
                return Outcome(self.call, {"error": doubt.refusal()}, is_own=True)
        if doubt is None and (ask is None or self._is_allowed):
            return None
        return await self._confirmation(tool, args, context, doubt, ask)

    @property
    def opened_label(self) -> TrustLabel:
        """The label of the texts that handles in its arguments stand for."""
        return join_labels(one.label for listed in self._opened.values() for one in listed)

    def _tell(self, diagnostic: Diagnostic) -> None:
        """Say what became of a call that untrusted text had influence on; the result has it too."""
        known = self._invocation.findings
        if str(diagnostic) not in known and diagnostic.code not in self._plan.agent.allow:
            known[str(diagnostic)] = diagnostic
            _log.warning("%s %s: %s", diagnostic.code, diagnostic.origin, diagnostic.message)

    def _arguments(self, tool: Tool, edited: JsonObject | None) -> JsonObject:
        """The arguments with redacted values put back, if the policy says so; not for an agent.

        Those that a user `edited` have the names in them, too, that the question was shown with.
        """
        args = edited if edited is not None else dict(self.call.args or {})
        policy = self._plan.policy
        if policy.protections and hides_text(policy):
            opening = Opening(self._invocation, self._place)
            args, self._opened = opening.open_arguments(args)
        # an agent gets the placeholders: its own requests are redacted too
        if tool.agent is not None:
            return args
        if not policy.protections:
            return args
        session = self._invocation.log.view(self._place.scope)
        arguments = restored_arguments(args, policy, session)
        self._restored = arguments.used
        return arguments.args

    def _sources_inside(self, args: JsonObject) -> Mapping[str, tuple[ArgumentSource, ...]]:
        """Where texts came from, by the arguments of the tool that a call names."""
        if not self._opened:
            return self._opened
        written = (self.call.args or {}).get("arguments")
        if not isinstance(written, dict):
            return dict.fromkeys(args, self._opened.get("arguments", ()))
        return Opening(self._invocation, self._place).open_arguments(written)[1]

    def _context(self) -> ToolContext:
        """What the tool and the callbacks are handed."""
        call_id, invocation = self.call.id or "", self._invocation
        state = invocation.forks.state_at(self._place)
        return ToolContext(
            agent_name=self._bindings.agent.name,
            call_id=call_id,
            invocation_id=invocation.id,
            branch=self._place.branch,
            state=apply_delta(state, self.written) if self.written else state,
            around=invocation.surroundings,
            confirmed=self._progress.confirmed.get(call_id),
            deps=invocation.request.deps,
            questions=CallQuestions(invocation, self._bindings.agent.name, self._place, self.call),
            label=self.label,
            argument_labels={
                name: join_labels(one.label for one in sources)
                for name, sources in self._opened.items()
            },
        )

    async def _call_with_callbacks(
        self,
        bound: BoundTool,
        context: ToolContext | None,
        args: JsonObject,
        kwargs: dict[str, object],
    ) -> Outcome:
        """Run the tool between its callbacks; each of them may answer in its place."""
        callbacks = self._bindings.callbacks
        tool = bound.tool
        response: JsonObject | None = None
        parts: tuple[Part, ...] = ()
        raised: Exception | None = None
        waits = failed = False
        answer: object = None
        watched = self._bindings.watches_tools
        if watched and callbacks.before_tool and context is not None:
            before = canonical(args)
            answer = await callbacks.before_tool.first(_BEFORE_ANSWERS, context, tool, args)
            if answer is None or isinstance(answer, Ask):
                halted = await self._check_again(tool, args, before, context, answer)
                if halted is not None:
                    return halted
                answer = None
            response = _answer_as_json(answer, "before_tool") if answer is not None else None
        if response is None:
            try:
                if watched and callbacks.before_tool:  # it may have changed the arguments
                    kwargs = bound.arguments(args)
                returned = await self._execute(bound, context, args, kwargs)
                waits = tool.long_running
                if returned is not None:
                    response, parts = returned.response, returned.parts
            except (Suspended, Interrupted, StoreError, EndsRun):
                raise
            except Exception as error:
                failed = True
                mended: object = None
                if callbacks.on_tool_error:
                    chain = callbacks.on_tool_error
                    mended = await chain.first(_ANSWERS, context, tool, args, error)
                if mended is not None:  # it has read the error: the tool's words may be in it
                    response = _answer_as_json(mended, "on_tool_error")
                else:
                    response = {"error": _error_words(error)}
                    raised = error if self._bindings.raises else None
        # an error that ends the run is not to be talked over
        if watched and callbacks.after_tool and response is not None and raised is None:
            replaced = await callbacks.after_tool.ask_for_replacement(
                dict, response, context, tool, args
            )
            if replaced is not response:
                response = _answer_as_json(replaced, "after_tool")
        if response is not None and not is_small(response):
            response = await self._fit_log(response)
        actions = context.actions.to_actions() if context is not None else EMPTY_ACTIONS
        if parts:
            smaller = await keep_large(self._invocation, parts)
            parts = smaller.parts
            if smaller.artifacts:
                delta = {**actions.artifact_delta, **smaller.artifacts}
                actions = msgspec.structs.replace(actions, artifact_delta=delta)
        label, fields = self._judge(
            tool, context, response if answer is None else None, parts, actions, failed=failed
        )
        return Outcome(
            self.call, response, actions, parts, waits=waits, raised=raised, label=label,
            fields=fields,
        )  # fmt: skip

    def _judge(
        self,
        tool: Tool,
        context: ToolContext | None,
        response: JsonObject | None,
        parts: tuple[Part, ...],
        actions: Actions,
        *,
        failed: bool,
    ) -> tuple[TrustLabel, FieldTrust]:
        """The label of what a tool read, and whose text its result holds.

        `response` is None where a callback of the author's answered for the tool. If it `failed`,
        a library or a server may have worded that: the trust of its results is not that of errors.
        """
        label = TRUSTED if context is None else self._invocation.flow.of_context(context)
        if response is None:
            return label, NO_FIELDS
        if isinstance(tool.agent, Agent | Flow):
            return judge_agent(self._invocation, tool.agent, self.call, response, label)
        if self._steps is not None:
            return label | self._steps.label, FieldTrust()
        if failed and isinstance(tool.trust, str):
            return label, describe_fields(response)
        return label, describe_outcome(tool, response, parts, actions)

    async def _execute(
        self,
        bound: BoundTool,
        context: ToolContext | None,
        args: JsonObject,
        kwargs: dict[str, object],
    ) -> ToolPayload | None:
        """What the function returned, within its time limit and number of tries."""
        tool = bound.tool
        self.begun = tool.effect != "pure"
        if tool.agent is not None:
            return await run_agent_tool(
                self._invocation,
                self._place,
                self._bindings,
                self.call,
                args,
                self.label | self.opened_label,
            )
        if tool.context_parameter is not None:
            kwargs[tool.context_parameter] = context
        if tool.runs_code and context is not None:
            context.steps = await self._code_steps(args, context)
        # noted before the call: after a crash it must be known that it may have been made
        if tool.effect in ("probe", "unsafe"):
            await self._invocation.commit(
                self._invocation.event(
                    self._bindings.agent.name,
                    self._place,
                    notes=Provenance(started=[self.call.id or ""]),
                )
            )
        for attempt in range(tool.retries + 1):
            try:
                if tool.effect == "transactional" and context is not None:
                    return await self._run_in_transaction(bound, context, kwargs)
                if tool.timeout is None:
                    return self._result_with_note(await _call(bound, kwargs), tool)
                return self._result_with_note(await call_within_limits(bound, kwargs), tool)
            except Exception as error:
                # a store that fails, or a run that is stopped, is not a failure of the tool
                if attempt == tool.retries or isinstance(error, (StoreError, Interrupted)):
                    raise
                await asyncio.sleep(min(0.05 * 2**attempt, 2.0))
        return None

    async def _code_steps(self, args: JsonObject, context: ToolContext) -> "CodeCalls":
        """The steps of the code that the call brings, from what the log has of them."""
        from weft.runtime.code_calls import CodeCalls  # which makes calls itself

        invocation, reply = self._invocation, self._progress.reply
        self._steps = steps = CodeCalls(
            invocation, self._place, self._plan, self._bindings, self.call, reply, context.actions,
            self.label | self.opened_label,
        )  # fmt: skip
        if invocation.labels:
            steps.carried.update(self._carried, await labels_in(invocation, args))
        return steps

    async def _run_in_transaction(
        self, bound: BoundTool, context: ToolContext, kwargs: dict[str, object]
    ) -> ToolPayload | None:
        """Run the function in the store's transaction: its writes and its result, or neither."""
        async with self._invocation.log.transaction() as transaction:
            context.connection = transaction.connection
            returned = self._result_with_note(await call_within_limits(bound, kwargs), bound.tool)
            outcome = Outcome(
                self.call,
                returned.response if returned is not None else None,
                context.actions.to_actions(),
                returned.parts if returned is not None else (),
                waits=bound.tool.long_running,
                restored=self._restored,
                label=self._invocation.flow.of_context(context),
            )
            if returned is not None:
                fields = describe_outcome(
                    bound.tool, returned.response, outcome.parts, outcome.actions
                )
                outcome = msgspec.structs.replace(outcome, fields=fields)
            result = self._final_event(outcome)
            if result is None:
                outcomes = {self.call.id or "": _record(outcome)}
                record = self._invocation.event(
                    self._bindings.agent.name, self._place, notes=Provenance(outcomes=outcomes)
                )
                await transaction.append(record)
            else:
                await transaction.append(result)
        self.result = result
        return returned

    def _final_event(self, outcome: Outcome) -> Event | None:
        """The event with the results, if nothing can change them any more."""
        # a callback may still replace the result
        if self._finish is None or self._bindings.callbacks.after_tool or outcome.waits:
            return None
        if outcome.parts or outcome.response is None or not is_small(outcome.response):
            return None
        result = self._finish(outcome)
        return self._invocation.ready(result) if result is not None else None

    def _result_with_note(self, value: object, tool: Tool) -> ToolPayload | None:
        """What the function returned; the model is told of arguments that it did not choose."""
        returned = _result_of(value, tool)
        if returned is None or self._edited is None:
            return returned
        edited = compact(self._edited)
        if hides_text(self._plan.policy):  # the user has read what is hidden, and may repeat it
            before = self.call.args or {}
            names = (name for name, one in self._edited.items() if before.get(name) != one)
            edited = f"other values of {', '.join(names) or 'none of them'}"
        note = f"the user changed the arguments: the call was made with {edited}"
        return ToolPayload({**returned.response, "note": note}, returned.parts)

    async def _confirmation(
        self,
        tool: Tool,
        args: JsonObject,
        context: ToolContext,
        doubt: Doubt | None,
        ask: Ask | None = None,
    ) -> Outcome | None:
        """The question to the user, or an error if they refused; None once the call may run."""
        call = self.call
        answer = self._progress.confirmed.get(call.id or "")
        # a yes is for these arguments only: a client cannot approve one call and have another made
        fingerprint = digest(canonical([call.name, call.args]))
        if doubt is not None:
            fingerprint = doubt.fingerprint(args)
        if answer is None:
            if self._progress.is_expired(call.id or ""):
                return Outcome(call, {"error": "nobody allowed this call in time; it was not made"})
            must_ask, why = await _must_ask(tool, args, context)
            if not must_ask and doubt is None and ask is None:
                return None
            asked = _spell_asked(tool, args)
            payload: JsonObject = {"fingerprint": fingerprint, "asked": asked}
            written = args if self._opened else call.args or {}
            hint = f"May {call.name} be called with {compact(written)}?{why}"
            if doubt is not None:
                self._tell(doubt.diagnostic("asked about"))
                hint = doubt.question(args) + why
            if ask is not None:
                hint = f"{hint} {ask.question}"
            if doubt is not None:
                payload["untrusted"] = {
                    "arguments": [*doubt.arguments], "sources": [*doubt.sources],
                    "paths": [*doubt.paths],
                }  # fmt: skip
            if tool.confirm_expires is not None:
                payload["expires"] = time.time() + tool.confirm_expires
            return Outcome(
                call,
                waits=True,
                question={
                    "originalFunctionCall": {"name": call.name, "args": call.args, "id": call.id},
                    "toolConfirmation": {
                        "hint": hint,
                        "confirmed": False,
                        "payload": payload,
                    },
                },
            )
        answered = answer.get("payload")
        confirmed = answered.get("fingerprint") if isinstance(answered, dict) else None
        about = self._progress.asked_calls.get(call.id or "") if doubt is not None else None
        is_other = about is not None and about != _spell_asked(tool, args)
        if is_other or (confirmed is not None and confirmed != fingerprint):
            return Outcome(call, {"error": "the user confirmed other arguments than these"})
        if answer.get("confirmed") is not True:
            from weft.runtime.approvals import reason_in

            reason = reason_in(answer)
            words = (
                f"the user refused this call: {reason}" if reason else "the user refused this call"
            )
            return Outcome(call, {"error": words}, is_own=True)
        return None

    async def _after_crash(self, bound: BoundTool, args: JsonObject) -> Outcome | None:
        """Decide about a call that was in flight when the process died, by its declared effect."""
        call, tool = self.call, bound.tool
        call_id = call.id or ""
        if call_id not in self._progress.started or call_id in self._invocation.request.retry:
            return None
        if call_id in WAITING_CALLS:  # it is not lost: this process has it, and it asked the user
            WAITING_CALLS.discard(call_id)
            return None
        if tool.effect == "unsafe":
            return Outcome(call, waits=True, unknown=True)
        if tool.effect == "probe" and tool.probe is not None:
            result = await await_value(tool.probe(call_id, args))
            if result is not None:
                returned = to_returned(result)
                fields = describe_outcome(tool, returned.response, returned.parts)
                return Outcome(call, returned.response, parts=returned.parts, fields=fields)
        return None

    async def _fit_log(self, response: JsonObject) -> JsonObject:
        """The result, or its two ends where it is too large; the whole is kept as an artifact."""
        artifact = f"result-{self.call.id}.json"
        short = shorten_result(response, self.call.name or "the tool", artifact)
        if short is None:
            return response
        await self._invocation.surroundings.save_artifact(artifact, Part(text=compact(response)))
        return short


async def _must_ask(tool: Tool, args: JsonObject, context: ToolContext) -> tuple[bool, str]:
    """Whether the user must be asked, and why where the condition could not tell.

    A condition that fails decides nothing, and a call that may be harmful is not made for that.
    """
    if isinstance(tool.confirm, bool):
        return tool.confirm, ""
    properties = tool.parameters.get("properties")
    known = properties.items() if isinstance(properties, dict) else ()
    defaults = {
        name: rules["default"]
        for name, rules in known
        if isinstance(rules, dict) and "default" in rules
    }
    try:
        return bool(await await_value(tool.confirm({**defaults, **args}, context))), ""
    except (Interrupted, StoreError):
        raise
    except Exception as error:
        words = f"the condition of {tool.name} raised {_error_words(error)}"
        _log.warning("%s; the user is asked", words)
        return True, f" ({words})"


def _result_of(value: object, tool: Tool) -> ToolPayload | None:
    """What the function returned as a result; nothing, for a long-running one that has none yet."""
    if value is None and tool.long_running:
        return None
    try:
        return to_returned(value)
    except SessionError as error:
        return ToolPayload(
            {
                "error": f"{tool.name} returned what is not JSON: {error.where}: {error.message};"
                f" {error.hint}"
            }
        )


def _spell_asked(tool: Tool, args: JsonObject) -> str:
    """What a question is about, whoever answers it, and whatever was said in between."""
    return digest(canonical([tool.name, args]))


def _answer_as_json(answer: object, moment: str) -> JsonObject:
    """A callback's answer as JSON."""
    try:
        return cast("JsonObject", to_json(answer))
    except SessionError as error:
        raise SessionError(error.message, where=moment, hint=error.hint) from None


def _error_words(error: Exception) -> str:
    """What the model is told: class and message, never a traceback."""
    if isinstance(error, SchemaError):
        return f"{error.message}; {error.hint}" if error.hint else error.message
    try:
        text = str(error)
    except Exception:  # one that cannot even say what is wrong
        text = ""
    return f"{type(error).__name__}: {text}" if text else type(error).__name__


def unknown_tool(name: str, known: list[str]) -> str:
    """The error for a model that called a tool it was not offered."""
    near = find_near(name, known, cutoff=0.6)
    listed = ", ".join(known) or "none"
    guess = f" did you mean {near[0]}?" if near else ""
    return f"there is no tool {name!r};{guess} available: {listed}"


def _record(outcome: Outcome) -> JsonObject:
    """An outcome as the log keeps it until the event with all results is made."""
    delta = without_temp(outcome.actions.state_delta)
    actions = msgspec.structs.replace(outcome.actions, state_delta=delta)
    record: JsonObject = {"response": outcome.response, "actions": msgspec.to_builtins(actions)}
    if outcome.parts:
        record["parts"] = [msgspec.to_builtins(part) for part in outcome.parts]
    if outcome.waits:
        record["waits"] = True
    if outcome.restored:
        record["restored"] = outcome.restored
    if outcome.labels:
        record["labels"] = [*outcome.labels]
    if outcome.label is not TRUSTED or outcome.fields != FieldTrust():
        flow = msgspec.json.encode((outcome.label, outcome.fields))
        record["flow"] = cast("Json", msgspec.json.decode(flow))
    return record


def find_outcome(progress: Progress, call: FunctionCall) -> Outcome | None:
    """The outcome the log has of a call that ran before the process died."""
    record = progress.outcomes.get(call.id or "")
    if record is None:
        return None
    response = record.get("response")
    label, fields = TRUSTED, FieldTrust()
    if (flow := record.get("flow")) is not None:
        label, fields = msgspec.convert(flow, tuple[TrustLabel, FieldTrust])
    return Outcome(
        call,
        response if isinstance(response, dict) else {},
        msgspec.convert(record.get("actions", {}), Actions),
        msgspec.convert(record.get("parts", ()), tuple[Part, ...]),
        waits=record.get("waits") is True,
        restored=cast("JsonObject", record.get("restored", {})),
        labels=msgspec.convert(record.get("labels", ()), tuple[str, ...]),
        label=label,
        fields=fields,
    )


async def call_within_limits(bound: BoundTool, kwargs: dict[str, object]) -> object:
    """What the function returned; what it raised, unless it took too long."""
    timeout = bound.tool.timeout
    if timeout is None:
        return await _call(bound, kwargs)
    try:
        async with asyncio.timeout(timeout):
            return await _call(bound, kwargs)
    except TimeoutError as error:
        # the tool's own TimeoutError has words; that of `asyncio.timeout` has none
        if str(error):
            raise
        raise TimeoutError(f"{bound.tool.name} took longer than {timeout:g} s") from None


async def _call(bound: BoundTool, kwargs: dict[str, object]) -> object:
    """Call the function on the loop or in a thread; a tool ends neither the process nor the run."""
    assert bound.function is not None
    task = asyncio.current_task()
    # how often the run was cancelled before: one more during the call is not the tool's doing
    asked = task.cancelling() if task is not None else 0
    try:
        if bound.is_async:
            returned = bound.function(**kwargs)
            if type(returned) is CoroutineType:  # nothing else is worth asking what it is
                return await cast("Awaitable[object]", returned)
            return await await_value(returned)
        if bound.quick:
            return await await_value(_call_plainly(bound, kwargs))
        # a thread has no context variables of its own, as those of tracing
        context = contextvars.copy_context()
        call = functools.partial(context.run, lambda: _call_plainly(bound, kwargs))
        thread = asyncio.get_running_loop().run_in_executor(_threads(), call)
        if bound.tool.effect == "transactional":  # no thread may write once its turn is over
            await wait_for_all([thread])
        return await await_value(await thread)
    except SystemExit as error:
        raise _failure(error) from error
    except asyncio.CancelledError as error:
        if task is None or task.cancelling():
            raise  # the run is being stopped
        raise _failure(error) from error
    except Exception as error:
        if task is not None and task.cancelling() > asked:
            raise asyncio.CancelledError from error  # some drivers tell what they met then instead
        raise


def _call_plainly(bound: BoundTool, kwargs: dict[str, object]) -> object:
    """Call a plain function. What would end a thread or a generator becomes an error."""
    try:
        return bound.call_timed(**kwargs)
    except (StopIteration, GeneratorExit, SystemExit, asyncio.CancelledError) as error:
        raise _failure(error) from error


def _failure(error: BaseException) -> RuntimeError:
    """What a tool raised that must not reach the event loop: a tool cannot end the process."""
    return RuntimeError(f"the tool raised {error!r}")


@functools.cache
def _threads() -> "ThreadPoolExecutor":
    """Threads for tools that are plain functions."""
    from concurrent.futures import ThreadPoolExecutor

    return ThreadPoolExecutor(64, thread_name_prefix="weft-tool")


async def run_agent_tool(
    invocation: Invocation,
    place: Place,
    bindings: AgentBindings,
    call: FunctionCall,
    args: JsonObject,
    label: TrustLabel,
) -> ToolPayload:
    """Run the tool's agent on the arguments; an agent that fails is an error result."""
    from weft.runtime.flows import run_node

    declared = bindings.tools[call.name or ""].tool.agent
    assert isinstance(declared, Agent | Flow)
    node = invocation.heir(declared, bindings.model)
    call_id = call.id or ""
    inner = Place(place.child(node.name, call_id).path, scope=call_id)
    # a run that is resumed has asked the agent already
    if not len(invocation.log.view(call_id).events):
        request = args.get("request") if set(args) == {"request"} else None
        text = request if isinstance(request, str) else compact(args)
        asked = Content(parts=(Part(text=text),), role="user")
        await invocation.commit(invocation.event("user", inner, asked, label=label))
    # its failure is a result for the model, and stays one when the run is resumed
    invocation.log.shelter(inner)
    try:
        async with aclosing(run_node(invocation, inner, node)) as events:
            async for _ in events:
                pass
    except NodeFailed as failure:
        code, words = failure.event.error_code, failure.event.error_message
        return ToolPayload({"error": f"{node.name} failed: {code}: {words}"})
    answers = _answers(invocation, call_id)
    if not answers:
        return ToolPayload({"result": ""})
    if isinstance(node, Agent) and node.output_schema is not None:
        value, _ = parse(node, answers[-1].text, wrapped=None)
        return ToolPayload(value if isinstance(value, dict) else {"result": value})
    answer_text = answers[0].text if len(answers) == 1 else None
    if answer_text is None:
        answer_text = "\n\n".join(f"[{one.author}]: {one.text}" for one in answers)
    if any(map(is_cut, answers)):
        return ToolPayload({"result": answer_text, "note": "this was cut off at the token limit"})
    return ToolPayload({"result": answer_text})


def describe_outcome(
    tool: Tool, response: JsonObject, parts: tuple[Part, ...] = (), actions: Actions = EMPTY_ACTIONS
) -> FieldTrust:
    """Whose text is in all that a tool gave: its result, its media, what it wrote elsewhere."""
    fields = describe_fields(response, tool.trust, read_return_fields(tool.function).members)
    written = actions.state_delta
    if tool.trust == "trusted" or not (parts or written or actions.artifact_delta):  # as most do
        return fields
    for key, value in written.items():
        name = key.rpartition(":")[2]
        inside: JsonObject = {name if is_field_name(name) else "state": value}
        fields = unite_fields(fields, describe_fields(inside, tool.trust))
    files = [name for name, some in (("media", parts), ("file", actions.artifact_delta)) if some]
    return unite_fields(fields, FieldTrust(tuple(files))) if files else fields


def judge_agent(
    invocation: Invocation, node: Node, call: FunctionCall, response: JsonObject, label: TrustLabel
) -> tuple[TrustLabel, FieldTrust]:
    """The label of what an agent said, and whose text the fields of its answer hold.

    An agent without tools that answers in a schema can pass on values, and no orders in them.
    """
    label |= join_labels(event.label for event in _answers(invocation, call.id or ""))
    if "error" in response:  # its words are those of whatever failed
        inside = invocation.log.view(call.id or "").events
        label |= join_labels(event.label for event in inside if event.error_code)
    value = unwrap_result(response)
    if isinstance(node, Agent) and may_endorse(node) and not has_free_names(node, value):
        return label.as_typed(), describe_fields(response, "untrusted", members_of(node))
    return label, FieldTrust()


def _answers(invocation: Invocation, scope: str) -> list[Event]:
    """The last answer in the scope; several if it ended with branches."""
    log = invocation.log.view(scope).events
    undone = hidden_by_undoing(log)

    def spoke(index: int) -> bool:
        event = log[index]
        if index in undone or event.author == "user" or not event.text:
            return False
        return event.is_final_response()

    with log.lock:
        return [log[index] for index in branches_of(log).last_words(spoke)]
