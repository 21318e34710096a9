"""Calls that code makes: each stands in the log, is asked about and counted as any other.

A tool that runs code stands at a place of its own, below the call that brought the code. The code
runs in steps. A step ends with calls of the agent's tools: they are an event there, with what the
code goes on from, and their results are the next one. A run that was killed, or that waited for a
person, takes the steps again from the newest snapshot, and a call that has its result is not made
again. No model sees these events: it gets what the code returns.
"""

import base64
import binascii
from collections.abc import Iterator, Sequence

import msgspec

from weft.compiler.plan import Plan
from weft.content import Content, FunctionCall, FunctionResponse, Part
from weft.declare import Tool
from weft.declare.context import CodeAnswer, CodeCall, DraftActions
from weft.errors import UsageError
from weft.jsonschema import shorten
from weft.runtime.batch import ask_user, run_calls, unknown_outcome
from weft.runtime.invocation import Invocation
from weft.runtime.labels import known_labels, labels_in
from weft.runtime.place import EndsRun, Place, Suspended, code_author, code_place
from weft.runtime.program import AgentBindings
from weft.session import Actions, Event
from weft.session.event import new_id
from weft.session.flow import TrustLabel
from weft.session.lookback import CONFIRMATION
from weft.session.provenance import NOTHING, CodeStep, Provenance
from weft.values import JsonObject, compact

LARGEST_SNAPSHOT = 65_536
"""How many bytes one snapshot may put into the log."""

MOST_SNAPSHOTS = 524_288
"""How many bytes of snapshots one call may put into the log.

A step without one loses nothing: the code goes on from an earlier one, over the results in the log.
"""


class CodeCalls:
    """The steps of the code that one call brought, as the log has them and as they come."""

    def __init__(
        self,
        invocation: Invocation,
        place: Place,
        plan: Plan,
        bindings: AgentBindings,
        call: FunctionCall,
        reply: Event | None,
        actions: DraftActions,
        label: TrustLabel,
    ) -> None:
        self.carried: set[str] = set()
        """The labels of what the code was given so far."""
        self.begun = reply.timestamp if reply is not None else 0.0
        self._invocation = invocation
        self._plan = plan
        self._bindings = bindings
        self._author = code_author(call.name or "")
        self._place = code_place(place, call)
        self._actions = actions
        """What the call itself does: what its code has tools do counts as done by it."""
        self._withheld = (reply.provenance.withheld or []) if reply is not None else []
        self._progress = invocation.log.progress(self._place)
        self._steps: list[Event] = []
        self._answers: dict[str, CodeAnswer] = {}
        self._number = 0
        self._count = 0
        """How many calls were made so far."""
        self._snapshots = 0
        """Bytes of snapshots in the log so far."""
        self.label = label
        """The label of the code, of what stands in it by a handle, and of what it was given."""
        for event in invocation.log.past.at(self._place):
            self._take(event)
        self._count = sum(len(event.calls) for event in self._steps)

    @property
    def tools(self) -> list[Tool]:
        """The tools of the agent that were offered to its model."""
        bound = self._bindings.tools
        return [one.tool for name, one in bound.items() if name not in self._withheld]

    @property
    def media(self) -> list[Part]:
        """The media that the tools called by the code returned with their results."""
        return [part for answer in self._answers.values() for part in answer.parts]

    def restore(self) -> Iterator[bytes]:
        """The snapshots that the log has, the newest first."""
        for number, event in reversed([*enumerate(self._steps)]):
            step = event.provenance.code
            if step is None or step.snapshot is None:
                continue
            try:
                snapshot = base64.b64decode(step.snapshot, validate=True)
            except binascii.Error:
                continue
            self._number = number
            yield snapshot
        self._number = 0

    async def load_artifact(self, name: str) -> Part | None:
        """An artifact that the code is given; it passes on its labels."""
        if self._invocation.labels:
            known = await known_labels(self._invocation, self._invocation.labels)
            self.carried.update(known.artifacts.get(name, ()))
        self.label |= self._invocation.flow.of_names((f"artifact:{name}",))
        part = await self._invocation.surroundings.load_artifact(name, None)
        if part is not None and part.text and self._invocation.labels:
            self.carried.update(await labels_in(self._invocation, part.text))
        return part

    async def answer(self, calls: Sequence[CodeCall], snapshot: bytes | None) -> list[CodeAnswer]:
        """Make the calls with which the next step ends, unless the log says what they came to."""
        number, self._number = self._number, self._number + 1
        if number < len(self._steps):
            event = self._steps[number]
            self._require_same(number, event, calls)
        else:
            event = await self._begin_step(number, calls, snapshot)
        while True:
            if self._progress.due(self._invocation.request.retry):
                await self._run_open()
            elif self._progress.pending:
                raise Suspended
            else:
                return [self._answers[call.id or ""] for call in event.calls]

    async def end(self) -> None:
        """Note that the code has ended, so that nobody takes its place for one at work."""
        if self._steps and not self._progress.ended:
            done = Actions(end_of_agent=True)
            await self._commit([self._invocation.event(self._author, self._place, actions=done)])

    async def _begin_step(
        self, number: int, calls: Sequence[CodeCall], snapshot: bytes | None
    ) -> Event:
        """Store the calls, with what the code goes on from, before any of them is made."""
        logged = [FunctionCall(name=one.tool, args=one.args, id=self._new_id()) for one in calls]
        text: str | None = None
        room = min(LARGEST_SNAPSHOT, MOST_SNAPSHOTS - self._snapshots)
        if snapshot is not None and len(snapshot) <= room:
            text = base64.b64encode(snapshot).decode("ascii")
        event = self._invocation.event(
            self._author,
            self._place,
            Content(parts=tuple(Part(function_call=call) for call in logged), role="model"),
            notes=Provenance(code=CodeStep(number, text)),
            label=self.label,
        )
        waiting = self._bindings.calls_that_wait(logged)
        (stored,) = await self._commit(
            [msgspec.structs.replace(event, long_running_tool_ids=waiting)]
        )
        return stored

    def _new_id(self) -> str:
        """An id for a call: that of the call which brought the code, and a number."""
        self._count += 1
        id, taken = f"{self._place.scope}-{self._count}", self._invocation.call_ids
        if id in taken:
            id = f"adk-{new_id()}"
        taken.add(id)
        return id

    async def _run_open(self) -> None:
        """Run the open calls, and store what they came to, or whom they wait for."""
        invocation, place = self._invocation, self._place
        batch = await run_calls(
            invocation,
            place,
            self._plan,
            self._bindings,
            self._progress,
            None,
            lambda batch: batch.event(invocation, self._author, place),
            frozenset(self.carried),
        )
        if batch.stored is not None:
            self._progress.note(batch.stored)
            self._take(batch.stored)
            return
        events: list[Event] = []
        event = batch.event(invocation, self._author, place)
        if event is not None:
            events.append(event)
        if any(one.question is not None for one in batch.outcomes):
            events.append(ask_user(invocation, self._author, place, batch))
        if any(one.unknown for one in batch.outcomes):
            error = unknown_outcome(batch)
            events.append(invocation.event(self._author, place, error=error))
        if events:
            await self._commit(events)
        raised = next((one.raised for one in batch.outcomes if one.raised is not None), None)
        if raised is not None:
            raise EndsRun(raised)
        if any(one.unknown or one.suspended for one in batch.outcomes):
            raise Suspended

    async def _commit(self, events: list[Event]) -> list[Event]:
        stored = await self._invocation.commit_all(events)
        for event in stored:
            self._progress.note(event)
            self._take(event)
        return stored

    def _take(self, event: Event) -> None:
        """Take in an event of this place: calls, or what they came to."""
        notes = event.provenance if event.is_noted else NOTHING
        if notes.code is not None:
            self._steps.append(event)
            self._snapshots += len(notes.code.snapshot or "") * 3 // 4
        self.carried.update(notes.labels or ())
        self.label |= event.label
        for result in event.results:
            if result.name == CONFIRMATION or result.id in (notes.pending or ()):
                continue
            self._answers[result.id or ""] = CodeAnswer(result.response or {}, _media(result))
            self.carried.update(
                label.name for label in self._invocation.labels if result.name in label.tools
            )
        if event.results:
            actions, own = event.actions, self._actions
            own.escalate = actions.escalate or own.escalate
            own.skip_summarization = actions.skip_summarization or own.skip_summarization
            own.transfer_to_agent = actions.transfer_to_agent or own.transfer_to_agent

    def _require_same(self, number: int, event: Event, calls: Sequence[CodeCall]) -> None:
        """Refuse code that, run again over the log, calls something else than before."""
        before = [(call.name, call.args or {}) for call in event.calls]
        now = [(call.tool, call.args) for call in calls]
        if before != now:
            raise UsageError(
                f"run again over the log, the code calls {_spell(now)} in step {number + 1}, where"
                f" it called {_spell(before)} before",
                where=self._author,
                hint="what it was given has changed: run it anew",
            )


def _spell(calls: Sequence[tuple[str | None, JsonObject]]) -> str:
    return ", ".join(f"{name}({shorten(compact(args), 60)})" for name, args in calls)


def _media(result: FunctionResponse) -> tuple[Part, ...]:
    return msgspec.convert(result.parts or (), tuple[Part, ...])
