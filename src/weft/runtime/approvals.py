"""Approvals: what runs wait for, who must answer it, and the answers.

A call may ask for a yes before it runs, a gate asks a person, a long-running call waits for its
result, and a crash may leave open what a call did. Each is a question that stays in the log, and
is listed, until it is answered.
"""

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING, Literal, cast

import msgspec

from weft.content import Content, FunctionCall
from weft.declare import Node
from weft.declare.agent import agents_of
from weft.errors import SchemaError, SessionError, describe_kind
from weft.misuse import ByFields, explain_mistakes
from weft.runtime.place import code_author, expiry_in, has_expired, unwrap_answer, visible_events
from weft.runtime.program import BoundTool
from weft.session import Event, Session, SessionKey, Store
from weft.session.lookback import CONFIRMATION, INPUT, QUESTION
from weft.session.store import InSession, WaitingList, key_of
from weft.values import Json, JsonObject, compact, require_object

if TYPE_CHECKING:
    from weft.declare import Agent

QuestionKind = Literal["confirm", "input", "result", "unknown"]
"""May it run? What does a gate ask? What did it return? Did it run, before the process died?"""


@explain_mistakes("Approve(), or Approve(args={...}) with other arguments")
@dataclass(frozen=True, slots=True, eq=False)
class Approve(ByFields):
    """A yes to a call that asks: as the model made it, or with other arguments.

    The arguments are checked against the tool's schema before anything is stored, and the model
    is told that the call was made with them.
    """

    args: Mapping[str, Json] | None = None

    def decision(self, where: str) -> JsonObject:
        """The answer as the log has it."""
        if self.args is None:
            return {"confirmed": True}
        return {"confirmed": True, "payload": {"args": require_object(self.args, where=where)}}


@explain_mistakes('Deny("the reason, for the model")')
@dataclass(frozen=True, slots=True, eq=False)
class Deny(ByFields):
    """A no to a call that asks; the model is told the reason."""

    reason: str = ""

    def decision(self, where: str) -> JsonObject:
        """The answer as the log has it."""
        if not isinstance(cast("object", self.reason), str):
            raise SessionError(
                f"the reason is {describe_kind(self.reason)}, not text",
                where=where,
                hint='write Deny("over the limit")',
            )
        return {"confirmed": False, **({"payload": {"reason": self.reason}} if self.reason else {})}


@explain_mistakes('ToolResult("what it returned", state={"key": "what it wrote"})')
@dataclass(frozen=True, slots=True, eq=False)
class ToolResult(ByFields):
    """What a call returned, with the state that its tool would have written.

    It answers a call that waits for its result: one that runs long, or one of which nobody knows
    whether it ran. Plain results do for tools that write nothing.
    """

    result: object
    state: Mapping[str, Json] = field(default_factory=dict[str, Json])

    def delta(self, where: str) -> JsonObject:
        """The state that goes with the result into the log; None deletes a key."""
        return require_object(self.state, where=f"{where}.state")


@dataclass(frozen=True, slots=True, eq=False)
class Pending(ByFields, InSession):
    """A question that is open: in which session, about which call, and until when."""

    key: SessionKey
    call_id: str
    name: str
    """The tool, or the gate that asks."""
    kind: QuestionKind
    args: JsonObject
    """The arguments of the call."""
    question: str
    """The question in words."""
    asked_at: float
    expires: float | None = None
    """When a yes comes too late, in seconds since 1970; None: never."""
    was_late: bool = False
    """Whether one has come too late already."""

    @property
    def is_expired(self) -> bool:
        """Whether it is too late to answer: the run goes on without the call."""
        return self.was_late or has_expired(self.call_id, self.expires)


async def pending_in_store(store: Store, app_name: str, user_id: str | None) -> list[Pending]:
    """The open questions of all sessions of an app, or of one user of it, the oldest first."""
    if isinstance(store, WaitingList):
        keys = await store.waiting(app_name, user_id)
    else:
        keys = [info.key for info in await store.sessions(app_name, user_id)]
    questions: list[Pending] = []
    for key in keys:
        session = await store.get(key)
        if session is not None and session.waiting:
            questions += pending_in(session)
    return sorted(questions, key=lambda one: one.asked_at)


def pending_in(session: Session) -> list[Pending]:
    """The open questions of a session, in the order they came."""
    waiting = session.waiting
    if not waiting:
        return []
    key = key_of(session)
    calls: dict[str, FunctionCall] = {}
    asked: dict[str, str] = {}
    questions: dict[str, Pending] = {}
    for event in visible_events(session):
        for result in event.results:
            id = result.id or ""
            questions.pop(asked.get(id, id), None)
        for call in event.calls:
            if call.name == CONFIRMATION:
                original = original_call(call)
                asked[call.id or ""] = original.id or ""
                questions[original.id or ""] = _confirmation(key, call, original, event)
            else:
                calls[call.id or ""] = call
        for id in event.provenance.pending or ():
            if id in calls and (id not in questions or questions[id].kind != "confirm"):
                questions[id] = _open_call(key, calls[id], event)
        for id in event.provenance.expired or ():
            if id in questions:
                questions[id] = replace(questions[id], was_late=True)
        if event.error_code == "unknown_outcome":
            words = event.error_message or ""
            for id, one in questions.items():
                if id in words:
                    questions[id] = _about_crash(one)
    return [question for id, question in questions.items() if id in waiting]


def _confirmation(
    key: SessionKey, question: FunctionCall, call: FunctionCall, event: Event
) -> Pending:
    confirmation = (question.args or {}).get("toolConfirmation")
    hint = confirmation.get("hint") if isinstance(confirmation, dict) else None
    return Pending(
        key,
        call.id or "",
        call.name or "",
        "confirm",
        call.args or {},
        hint if isinstance(hint, str) else f"May {call.name} be called?",
        event.timestamp,
        expiry_in(question),
    )


def _open_call(key: SessionKey, call: FunctionCall, event: Event) -> Pending:
    args = call.args or {}
    if call.name == INPUT:
        message = args.get("message")
        words = message if isinstance(message, str) else ""
        return Pending(key, call.id or "", event.author, "input", args, words, event.timestamp)
    words = f"What did {call.name} return, called with {compact(args)}?"
    return Pending(key, call.id or "", call.name or "", "result", args, words, event.timestamp)


def _about_crash(question: Pending) -> Pending:
    words = f"Did {question.name} run, called with {compact(question.args)}?"
    return Pending(
        question.key, question.call_id, question.name, "unknown", question.args, words,
        question.asked_at,
    )  # fmt: skip


def original_call(question: FunctionCall) -> FunctionCall:
    """The call that a question to the user is about."""
    value = (question.args or {}).get("originalFunctionCall")
    try:
        return msgspec.convert(value, FunctionCall)
    except msgspec.ValidationError:
        return FunctionCall(name=CONFIRMATION, id=question.id)


# --- answers


def edited_arguments(decision: Mapping[str, Json] | None) -> JsonObject | None:
    """The arguments that a yes comes with; None where it is to those of the model."""
    payload = decision.get("payload") if decision is not None else None
    if decision is None or decision.get("confirmed") is not True or not isinstance(payload, dict):
        return None
    args = payload.get("args")
    return args if isinstance(args, dict) else None


def reason_in(decision: Mapping[str, Json]) -> str:
    """The reason of a no."""
    payload = decision.get("payload")
    reason = payload.get("reason") if isinstance(payload, dict) else None
    return reason if isinstance(reason, str) else ""


def check_edited(root: Node, answered: Iterable[tuple[Event, Content]]) -> None:
    """Refuse a yes with arguments that the tool does not take, before anything is stored."""
    for event, content in answered:
        for part in content.parts or ():
            answer = part.function_response
            if answer is None or answer.name != CONFIRMATION:
                continue
            args = edited_arguments(unwrap_answer(answer.response or {}))
            question = next((call for call in event.calls if call.id == answer.id), None)
            if args is None or question is None:
                continue
            name = original_call(question).name or ""
            bound = _tool_named(root, event.author, name)
            if bound is None:
                continue  # a tool that is known only while it runs is checked there
            try:
                bound.arguments(args)
            except SchemaError as error:
                call_id = (answer.id or "").removeprefix(QUESTION)
                raise SessionError(
                    f"{name} does not take these arguments: {error.message}",
                    where=f"answers[{call_id}].args",
                    hint=error.hint or "the call still waits for an answer",
                ) from None


def _tool_named(root: Node, agent: str, name: str) -> BoundTool | None:
    """A tool of an agent, wherever the agent stands in the tree; also by the code it runs."""
    waiting, seen = [root], set[int]()
    while waiting:
        for one in agents_of(waiting.pop()):
            if id(one) in seen:
                continue
            seen.add(id(one))
            authors = [code_author(tool.name) for tool in one.tools if tool.runs_code]
            if agent in (one.name, *authors) and (bound := _bound_tool(one, name)) is not None:
                return bound
            waiting += [tool.agent for tool in one.tools if tool.agent is not None]
    return None


def _bound_tool(agent: "Agent", name: str) -> BoundTool | None:
    tool = next((tool for tool in agent.tools if tool.name == name), None)
    return BoundTool(tool) if tool is not None and tool.agent is None else None
