"""The calls of one reply: run together, answered in order, each exactly once."""

import asyncio
import logging
from collections.abc import Callable

import msgspec

from weft.compiler.plan import SET_RESPONSE, Plan
from weft.compiler.tools import TRANSFER, policy_of, transfer_targets
from weft.content import Content, FunctionCall, FunctionResponse, Part
from weft.declare import Agent
from weft.diagnostics import Origin, report
from weft.ir.block import RECALL
from weft.passes.env import is_short
from weft.runtime.flow import add_note
from weft.runtime.invocation import Invocation
from weft.runtime.place import (
    UNKNOWN_OUTCOME,
    Place,
    Progress,
    cancel_and_wait,
    paths_around,
    withheld_in,
)
from weft.runtime.program import AgentBindings, BoundTool
from weft.runtime.result import CUT
from weft.runtime.tool_call import Outcome, ToolCall, find_outcome, unknown_tool
from weft.session import Actions, Event
from weft.session.event import EMPTY_ACTIONS
from weft.session.flow import (
    TRUSTED,
    FieldTrust,
    FlowNote,
    TrustLabel,
    base_of,
    note_of,
    spell_result,
    unite_fields,
)
from weft.session.lookback import CONFIRMATION, QUESTION
from weft.session.provenance import NOTHING, Provenance
from weft.values import JsonObject


class Batch(msgspec.Struct, frozen=True):
    """What became of the calls of one reply.

    `alone` has the ids of calls of sequential tools, which ran while no other did.
    `stored` is the event with the results, if a tool's transaction has stored it already.
    """

    outcomes: tuple[Outcome, ...]
    alone: frozenset[str] = frozenset()
    stored: Event | None = None
    label: TrustLabel = TRUSTED
    """That of the reply which made the calls."""

    def event(self, invocation: Invocation, agent: str, place: Place) -> Event | None:
        """The results in call order as one event, with all they change; None if there are none."""
        event = self._event(invocation, agent, place)
        if event is None:
            return None
        if len(self.outcomes) == 1 and event.custom_metadata is None and not invocation.labels:
            only = self.outcomes[0]
            label = self.label if only.label is TRUSTED else self.label | only.label
            metadata = spell_result(label, only.call.name or "", only.fields)
            return msgspec.structs.replace(event, custom_metadata=metadata)
        return add_note(event, self._note(invocation))

    def _note(self, invocation: Invocation) -> FlowNote:
        """Whose text the results hold: of the calls, of what tools read, and of their fields."""
        results: dict[str, FieldTrust] = {}
        label = self.label
        for one in self.outcomes:
            name = one.call.name or ""
            label |= one.label
            if one.response is not None:
                results[name] = unite_fields(results.get(name), one.fields)
                secrets = [each.name for each in invocation.labels if name in each.tools]
                if secrets:
                    label |= TrustLabel(secrets=tuple(sorted(secrets)))
        note = note_of(label)
        return msgspec.structs.replace(note, results=results) if results else note

    def _event(self, invocation: Invocation, agent: str, place: Place) -> Event | None:
        if len(self.outcomes) == 1 and (one := self.outcomes[0]).is_plain:  # as most are
            return invocation.event(agent, place, Content(parts=(_result(one),), role="user"))
        parts: list[Part] = []
        waiting: list[str] = []
        delta: JsonObject = {}
        artifacts: dict[str, int] = {}
        transfer: str | None = None
        escalate = skip = None
        twice: dict[str, str] = {}
        writers: dict[str, str] = {}
        for outcome in self.outcomes:
            call, actions = outcome.call, outcome.actions
            if outcome.waits:
                waiting.append(call.id or "")
            if outcome.response is None:
                continue
            parts.append(_result(outcome))
            if actions is EMPTY_ACTIONS:  # most calls only return something
                continue
            is_parallel = call.id not in self.alone
            for key, value in actions.state_delta.items():
                # a call that ran later on its own may overwrite, and equal values agree
                if is_parallel and key in writers and delta[key] != value:
                    twice[key] = writers[key]
                writers[key] = call.name or ""
                delta[key] = value
            artifacts.update(actions.artifact_delta)
            transfer = transfer or actions.transfer_to_agent
            escalate = actions.escalate or escalate
            skip = actions.skip_summarization or skip
        put_back: JsonObject = {}
        for outcome in self.outcomes:
            if outcome.restored:
                put_back |= outcome.restored
        notes = NOTHING
        derived = {one.call.id or "": [*one.labels] for one in self.outcomes if one.labels}
        if put_back or waiting or twice or derived:
            notes = Provenance(
                restored=put_back or None,
                pending=waiting or None,
                diagnostics=[_conflict(agent, k, twice[k], writers[k]) for k in twice] or None,
                derived=derived or None,
                labels=sorted({name for names in derived.values() for name in names}) or None,
            )
        elif not parts:
            return None
        return invocation.event(
            agent,
            place,
            Content(parts=tuple(parts), role="user") if parts else None,
            actions=Actions(
                state_delta=delta,
                artifact_delta=artifacts,
                transfer_to_agent=transfer,
                escalate=escalate,
                skip_summarization=skip,
            )
            if delta
            or artifacts
            or (transfer is not None or escalate is not None or skip is not None)
            else EMPTY_ACTIONS,
            notes=notes,
        )


def _result(outcome: Outcome) -> Part:
    """What a call came to, as the part of an event."""
    media: list[JsonObject] | None = None
    if outcome.parts:
        media = [msgspec.to_builtins(part) for part in outcome.parts]
    call = outcome.call
    return Part(
        function_response=FunctionResponse(
            name=call.name, response=outcome.response, id=call.id, parts=media
        )
    )


def _conflict(agent: str, key: str, first: str, second: str) -> str:
    return str(
        report(
            "WEFT104",
            Origin("state", key, agent),
            f"`{first}` and `{second}` ran side by side and both wrote it; the later call won",
            "write different keys, or declare one of them @tool(sequential=True)",
        )
    )


async def run_calls(
    invocation: Invocation,
    place: Place,
    plan: Plan,
    bindings: AgentBindings,
    progress: Progress,
    event: Event | None,
    finish: Callable[[Batch], Event | None],
    carried: frozenset[str] = frozenset(),
) -> Batch:
    """Run the open calls: side by side, a sequential one alone; results in call order.

    `event` is the reply that made them, where it is at hand: it says which are malformed. `finish`
    makes the event with the results, or gives None where there is more to store with them.
    `carried` are the labels that all arguments carry: those of code that was given such values.
    """
    reply = event if event is not None else progress.reply
    raw, withheld, cut = _malformed_arguments(reply), withheld_in(reply), _cut_call(reply)
    label = base_of(reply) if reply is not None else TRUSTED
    running: list[ToolCall] = []
    transferred = False
    for call in progress.open.values():
        # a question that nobody answered in time is refused now, as a result for the model
        waits = call.id in progress.pending and not progress.is_expired(call.id or "")
        if waits and call.id not in invocation.request.retry:
            continue
        malformed = raw.get(call.id or "", "")
        one = ToolCall(invocation, place, plan, bindings, progress, call, malformed, carried)
        one.label = label
        # arguments that end early may be legal and wrong: a path without its last part
        if call.id == cut:
            one.answer(
                Outcome(
                    call,
                    {
                        "error": "the reply was cut off at the token limit, perhaps inside this"
                        " call, which was not made; make it again, and say less with it"
                    },
                )
            )
        # a callback took the tool out of the request, so it must not run
        elif call.name in withheld:
            offered = [name for name in bindings.tools if name not in withheld]
            one.answer(Outcome(call, {"error": unknown_tool(call.name or "", offered)}))
        elif call.name == TRANSFER:
            one.answer(_transfer(plan.path, call, again=transferred))
            transferred = one.outcome is not None and bool(one.outcome.actions.transfer_to_agent)
        elif (
            call.name == RECALL
            and call.name not in bindings.tools
            and _recalls(invocation, place, plan.path)
        ):
            from weft.runtime.recall import answer_recall

            one.answer(await answer_recall(invocation, place, plan.path, call))
        # called alone it is the answer, and never gets here
        elif call.name == SET_RESPONSE and call.name not in bindings.tools:
            one.answer(
                Outcome(call, {"error": "call this alone, once, when everything else is done"})
            )
        running.append(one)
    if len(running) == 1:  # the common case: nobody to wait for, nobody to stop
        only = running[0]
        # another call of the reply that waits has its result in the same event
        alone = len(progress.open) == 1
        await only.run((lambda outcome: finish(Batch((outcome,), label=label))) if alone else None)
        outcomes = (only.outcome,) if only.outcome is not None else ()
        return Batch(_in_order(outcomes), stored=only.result, label=label)
    groups = _groups(running, bindings)
    written: JsonObject = {}
    for group in groups:
        due = [one for one in group if one.outcome is None]
        for one in due:
            one.written = written
        more_follow = any(one.outcome is None for one in running if one not in due)
        await _side_by_side(invocation, place, bindings, due, more=more_follow)
        culprit = _culprit(due)
        if culprit is not None:
            _give_up(running, progress, culprit)
            break
        if len(groups) > 1:
            deltas = [one.outcome.actions.state_delta for one in group if one.outcome is not None]
            written = {key: value for delta in (written, *deltas) for key, value in delta.items()}
    return Batch(
        _in_order(tuple(one.outcome for one in running if one.outcome is not None)),
        frozenset(group[0].call.id or "" for group in groups if _is_alone(group[0], bindings)),
        label=label,
    )


def _recalls(invocation: Invocation, place: Place, path: tuple[Agent, ...]) -> bool:
    """Whether the agent's requests may offer the `recall` tool."""
    policy = policy_of(path[-1], invocation.config)
    if policy.facts.makes_handles or policy.facts.refers:
        return True
    # a long result may stand in a request as a handle, which asks to be recalled
    log = invocation.log.view(place.scope).events
    return any(not is_short(one.response or {}) for event in log for one in event.results)


def ask_user(invocation: Invocation, author: str, place: Place, batch: Batch) -> Event:
    """The questions to the user about calls to confirm, as an event that ADK's clients know."""
    asked = [
        FunctionCall(name=CONFIRMATION, args=one.question, id=f"{QUESTION}{one.call.id}")
        for one in batch.outcomes
        if one.question is not None
    ]
    parts = tuple(Part(function_call=call) for call in asked)
    event = invocation.event(author, place, Content(parts=parts, role="model"))
    ids = tuple(call.id or "" for call in asked)
    return msgspec.structs.replace(event, long_running_tool_ids=ids)


def unknown_outcome(batch: Batch) -> tuple[str, str]:
    """The error for calls that a crash interrupted: nobody knows whether they ran."""
    unknown = [one.call for one in batch.outcomes if one.unknown]
    names = ", ".join(f"{call.name} ({call.id})" for call in unknown)
    return UNKNOWN_OUTCOME, (
        f"the process died while these ran, and nobody knows whether they did: {names};"
        " say what they returned with resume(answers={id: result}), with weft.ToolResult(result,"
        " state={...}) if they write state, or run them again with resume(retry=[id])"
    )


def _in_order(outcomes: tuple[Outcome, ...]) -> tuple[Outcome, ...]:
    """The outcomes, without a hand-over while other calls of the reply wait for a result.

    After a hand-over nobody could answer them: the tools belong to the first agent.
    """
    for one in outcomes:
        if one.waits or one.suspended:
            break
    else:
        return outcomes
    return tuple(_staying(one) if one.actions.transfer_to_agent else one for one in outcomes)


def _staying(outcome: Outcome) -> Outcome:
    actions = msgspec.structs.replace(outcome.actions, transfer_to_agent=None)
    response = outcome.response
    if outcome.call.name == TRANSFER:
        response = {"error": "not handed over: other calls of this reply wait for an answer"}
    return msgspec.structs.replace(outcome, response=response, actions=actions)


async def _side_by_side(
    invocation: Invocation,
    place: Place,
    bindings: AgentBindings,
    calls: list[ToolCall],
    *,
    more: bool,
) -> None:
    """Run the calls together; if one of them ends the run, the others are stopped at once.

    The results of a reply become one event when all are there. Until then those that are there
    stand in the log by themselves, so that a crash does not cost them.
    """
    # the event with its result follows at once: no record is needed before it
    if len(calls) == 1 and not more:
        await calls[0].run()
        return
    running = {asyncio.create_task(one.run()): one for one in calls}
    running_tasks = set(running)
    try:
        while running_tasks:
            done, running_tasks = await asyncio.wait(
                running_tasks, return_when=asyncio.FIRST_COMPLETED
            )
            for task in done:
                # an error here is ours, or a store's: what a tool raises is in its outcome
                task.result()
            if running_tasks and _culprit(calls) is not None:
                return  # a function in a thread goes on for itself, and nobody waits for it
            if running_tasks or more:
                records = {running[task].call.id or "": running[task].record() for task in done}
                outcomes = {id: record for id, record in records.items() if record}
                if outcomes:
                    event = invocation.event(
                        bindings.agent.name, place, notes=Provenance(outcomes=outcomes)
                    )
                    await invocation.commit(event)
    finally:
        await cancel_and_wait(list(running))


def _culprit(calls: list[ToolCall]) -> FunctionCall | None:
    """The call that ends the run, if one does."""
    outcomes = [one.outcome for one in calls if one.outcome is not None]
    return next((one.call for one in outcomes if one.raised is not None), None)


def _give_up(calls: list[ToolCall], progress: Progress, culprit: FunctionCall) -> None:
    """Answer the calls that were stopped, or never made, because another one ended the run."""
    words = f"`{culprit.name}` failed, and this was not finished"
    for one in calls:
        begun = one.call.id in progress.started or one.begun
        unknown = "; nobody knows whether it did what it does" if begun else ""
        one.answer(Outcome(one.call, {"error": f"{words}{unknown}"}, stopped=True))


def _groups(running: list[ToolCall], bindings: AgentBindings) -> list[list[ToolCall]]:
    """Calls that may run side by side; a sequential tool's call stands alone."""
    groups: list[list[ToolCall]] = [[]]
    for one in running:
        if _is_alone(one, bindings):
            groups += [[one], []]
        else:
            groups[-1].append(one)
    return [group for group in groups if group]


def _is_alone(one: ToolCall, bindings: AgentBindings) -> bool:
    bound: BoundTool | None = bindings.tools.get(one.call.name or "")
    return bound is not None and bound.tool.sequential


def _malformed_arguments(event: Event | None) -> dict[str, str]:
    """The calls whose arguments were not JSON: the text that came instead, by call id."""
    raw_arguments: dict[str, str] = {}
    for part in (event.content.parts or ()) if event is not None and event.content else ():
        if part.part_metadata is None or part.function_call is None:
            continue
        text = part.provenance.malformed
        if text is not None:
            raw_arguments[part.function_call.id or ""] = text
    return raw_arguments


def _cut_call(reply: Event | None) -> str | None:
    """The last call of a reply that was cut off: some of its arguments may be missing."""
    if reply is None or reply.finish_reason != CUT or reply.content is None:
        return None
    spoken_parts = [part for part in reply.content.parts or () if part.kind != "empty"]
    call = spoken_parts[-1].function_call if spoken_parts else None
    return call.id if call is not None else None


def _transfer(path: tuple[Agent, ...], call: FunctionCall, *, again: bool) -> Outcome:
    """The hand-over, or an error that lists the agents to choose from."""
    name = (call.args or {}).get("agent_name")
    targets = [target.name for target in transfer_targets(path)]
    if again:
        return Outcome(call, {"error": "the conversation was handed over by an earlier call"})
    if not isinstance(name, str) or name not in targets:
        known = ", ".join(targets) or "nobody"
        return Outcome(call, {"error": f"there is no agent {name!r} to hand over to; use: {known}"})
    return Outcome(call, {"result": f"handed over to {name}"}, Actions(transfer_to_agent=name))


_log = logging.getLogger("weft")

CANCELLED = ("cancelled", "the run was cancelled")

INTERRUPTED = ("interrupted", "a later run took over")


async def stop(invocation: Invocation, author: str, why: tuple[str, str]) -> Event | None:
    """Answer the calls that are open, and say that the run was stopped; unless it had ended.

    What is open is read from the log: the run may have been stopped before it took note itself.
    A result that a call had come to is kept.
    """
    places = invocation.log.past.places()
    mine = next((progress for place, progress in places if place == Place()), None)
    # the answer is stored: the run had ended before anybody stopped it
    if mine is not None and mine.answered is not None:
        return None
    await _settle(invocation, places, why[1])
    speaker = mine.agent if mine is not None else None
    event = invocation.event(speaker or author, Place(), error=why)
    return await invocation.store(msgspec.structs.replace(event, interrupted=True))


async def settle_below(invocation: Invocation, words: str, *paths: str) -> None:
    """Answer the calls that are open in branches that were stopped; `words` say why."""
    if not paths:
        return
    stopped = {*paths}
    places = invocation.log.past.places()
    inside = [one for one in places if not stopped.isdisjoint(paths_around(one[0].path))]
    await _settle(invocation, inside, words)


async def _settle(invocation: Invocation, places: list[tuple[Place, Progress]], words: str) -> None:
    for place, progress in places:
        # a call that waits for an answer from outside stays open: the answer may still come
        calls = [call for id, call in progress.open.items() if id not in progress.pending]
        label = base_of(progress.reply) if progress.reply is not None else TRUSTED
        settled = tuple(_settled_outcome(progress, call, words) for call in calls)
        batch = Batch(settled, label=label)
        event = batch.event(invocation, progress.agent or "", place)
        if event is not None:
            await invocation.store(event)


async def stop_quietly(invocation: Invocation, author: str) -> Event | None:
    """Stop a run that was cancelled. An error in doing so is logged, not raised."""
    try:
        return await stop(invocation, author, CANCELLED)
    except Exception:
        _log.warning("the end of a cancelled run could not be stored", exc_info=True)
        return invocation.event(author, Place(), error=CANCELLED)


def _settled_outcome(progress: Progress, call: FunctionCall, words: str) -> Outcome:
    """The outcome of an open call when the run stops: its result, or an error."""
    if call.id in progress.started:
        words = f"{words} while this ran, and nobody knows whether it did"
    return find_outcome(progress, call) or Outcome(call, {"error": words})
