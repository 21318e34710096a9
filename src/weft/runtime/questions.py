"""Questions that a tool asks the user in the middle of a call.

A question is an open call at a place of its own, below the call of the tool, as a gate's is. The
run waits for the answer in the log. Then the tool is called again, and the questions that it asked
before have their answers from there.
"""

from collections.abc import Iterator

import msgspec

from weft.content import Content, FunctionCall, FunctionResponse, Part
from weft.declare.context import PastQuestion, UserAnswer, UserQuestion
from weft.errors import SchemaError, SessionError
from weft.runtime.invocation import Invocation
from weft.runtime.place import WAITING_CALLS, Place, Suspended, code_author, code_place
from weft.session import Event
from weft.session.event import new_id
from weft.session.lookback import INPUT
from weft.session.provenance import AskedByTool, Provenance
from weft.values import Json, JsonObject


class CallQuestions:
    """The questions of one call, as the log has them and as they come."""

    __slots__ = ("_agent", "_call", "_invocation", "_number", "_place")

    def __init__(
        self, invocation: Invocation, agent: str, place: Place, call: FunctionCall
    ) -> None:
        self._invocation = invocation
        self._agent = agent
        self._place = place
        self._call = call
        self._number = 0
        """How many questions without a key were asked since the tool was called."""

    def past(self) -> list[PastQuestion]:
        """The questions that the call asked before, in their order."""
        return [question for _, question in self._read_log()]

    async def ask(self, question: UserQuestion) -> UserAnswer:
        """The answer, where the log has it; else the question is stored, and the run stops."""
        if not question.key:
            question = msgspec.structs.replace(question, key=str(self._number))
            self._number += 1
        for _, one in self._read_log():
            if one.key == question.key:
                if one.answer is None:
                    raise Suspended
                return one.answer
        await self._store(question)
        raise Suspended

    def _read_log(self) -> Iterator[tuple[str, PastQuestion]]:
        """The questions that the log has, by the ids of their calls."""
        if not self._invocation.log.resumed:  # a run that asks ends there
            return
        place = code_place(self._place, self._call)
        events = self._invocation.log.past.at(place)
        answers = {one.id: one for event in events for one in event.results}
        for event in events:
            asked = event.provenance.asked if event.is_noted else None
            if asked is None:
                continue
            (call,) = event.calls
            answer = answers.get(call.id)
            spoken = read_answer(call, answer) if answer is not None else None
            yield call.id or "", PastQuestion(asked.key, asked.notes, spoken)

    async def _store(self, question: UserQuestion) -> None:
        call_id, name = self._call.id or "", self._call.name or ""
        id = f"{name}-{new_id()[:12]}"
        payload: JsonObject = {"tool": name, **question.details}
        if question.schema is not None:
            payload["schema"] = question.schema
        args: JsonObject = {"interruptId": id, "message": question.message, "payload": payload}
        part = Part(function_call=FunctionCall(name=INPUT, args=args, id=id))
        asking = self._invocation.event(
            code_author(name),
            code_place(self._place, self._call),
            Content(parts=(part,), role="model"),
            notes=Provenance(pending=[id], asked=AskedByTool(question.key, question.notes)),
        )
        events = [msgspec.structs.replace(asking, long_running_tool_ids=(id,))]
        if question.is_held:
            WAITING_CALLS.add(call_id)
        else:  # with the answer the call is made again: a crash in between left nothing open
            notes = Provenance(unstarted=[call_id])
            events.append(self._invocation.event(self._agent, self._place, notes=notes))
        await self._invocation.commit_all(events)


def read_answer(asked: FunctionCall, answer: FunctionResponse) -> UserAnswer:
    """What the user said to a tool's question."""
    from weft.runtime.flows import decision_of

    return UserAnswer.read(decision_of(answer), schema_of(asked))


def schema_of(asked: FunctionCall) -> JsonObject | None:
    """What the answer to a tool's question must be like; None: anything will do."""
    payload = (asked.args or {}).get("payload")
    schema = payload.get("schema") if isinstance(payload, dict) else None
    return schema if isinstance(schema, dict) else None


def check_answer(asked: Event, call: FunctionCall, decision: Json) -> None:
    """Refuse an answer that does not fit the form of a tool's question; it goes on waiting."""
    try:
        UserAnswer.read(decision, schema_of(call))
    except SchemaError as error:
        raise SessionError(
            f"{asked.author} does not take this answer: {error.message}",
            where=f"answers[{call.id}]",
            hint=f"{error.hint}; False declines" if error.hint else "False declines",
        ) from None
