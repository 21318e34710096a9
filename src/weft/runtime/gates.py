"""A gate: asks somebody, and lets nobody pass until the answer is in the log."""

from collections.abc import AsyncGenerator
from typing import cast

import msgspec

from weft.content import Content, FunctionCall, FunctionResponse, Part
from weft.declare import Gate
from weft.declare.compare import quoted, same
from weft.declare.template import parse, render
from weft.errors import SessionError
from weft.runtime.invocation import Invocation
from weft.runtime.place import Place
from weft.runtime.record import failed
from weft.runtime.signals import Suspended
from weft.session import Actions, Event
from weft.session.event import new_id
from weft.session.waiting import INPUT
from weft.values import Json, JsonObject


async def run_gate(invocation: Invocation, place: Place, node: Gate) -> AsyncGenerator[Event, None]:
    """Ask once, wait, and keep the answer together with that the gate was passed."""
    asked, answer = _recalled(invocation, place)
    if not asked:
        yield await invocation.commit(_question(invocation, place, node))
        raise Suspended
    if answer is None:
        raise Suspended
    decided = node.decided(decision_of(answer))
    if decided is None:
        words = f"{quoted(decision_of(answer))} is none of the choices: {_listed(node.choices)}"
        failure = await failed(invocation, place, node.name, "bad_answer", words)
        yield failure.event
        raise failure
    passed = Actions(state_delta={node.key: decided}, end_of_agent=True)
    yield await invocation.commit(invocation.event(node.name, place, actions=passed))


def decision_of(answer: FunctionResponse) -> Json:
    """The answer itself, whatever it was wrapped in on its way."""
    response = answer.response or {}
    if set(response) == {"result"}:
        return response["result"]
    inner = response.get("response") if len(response) == 1 else None
    if isinstance(inner, str):  # ADK's page sends JSON text in a field `response`
        try:
            return cast("Json", msgspec.json.decode(inner))
        except msgspec.DecodeError:
            return inner
    return inner if inner is not None else response or None


def check_decisions(asked: Event, answers: Content) -> None:
    """Refuse an answer that the gate which asked does not take; it goes on waiting."""
    choices = {call.id: choices_of(call) for call in asked.calls if call.name == INPUT}
    for part in answers.parts or ():
        answer = part.function_response
        if answer is None or answer.id not in choices:
            continue
        decision, known = decision_of(answer), choices[answer.id]
        if decision is None or (known and not any(same(decision, choice) for choice in known)):
            raise SessionError(
                f"{quoted(decision)} is no answer to the gate `{asked.author}`, which waits on",
                where=f"answers[{answer.id}]",
                hint=f"answer one of: {_listed(known)}" if known else "answer something, not None",
            )


def choices_of(call: FunctionCall) -> list[Json]:
    """What a gate's question lets somebody choose from; nothing if any answer will do."""
    payload = (call.args or {}).get("payload")
    choices = payload.get("choices") if isinstance(payload, dict) else None
    return choices if isinstance(choices, list) else []


def _question(invocation: Invocation, place: Place, node: Gate) -> Event:
    """The question as an open call, the way ADK's clients know it."""
    template = parse(node.question or f"What is to be decided for {node.name}?")
    text = "".join(piece.text for piece in render(template, invocation.state_at(place)))
    id = f"{node.name}-{new_id()[:12]}"
    payload: JsonObject = {"gate": node.name, "choices": [*node.choices]}
    args: JsonObject = {"interruptId": id, "message": text, "payload": payload}
    call = Part(function_call=FunctionCall(name=INPUT, args=args, id=id))
    asking = invocation.event(
        node.name, place, Content(parts=(call,), role="model"), weft={"pending": [id]}
    )
    return msgspec.structs.replace(asking, long_running_tool_ids=(id,))


def _recalled(invocation: Invocation, place: Place) -> tuple[str, FunctionResponse | None]:
    """The question that the log has of this place, and the answer to it."""
    asked, answer = "", None
    if not invocation.resumed:
        return asked, answer
    for event in invocation.past.at(place):
        asked = next((call.id or "" for call in event.calls if call.name == INPUT), asked)
        answer = next((one for one in event.results if one.id == asked), answer)
    return asked, answer


def _listed(choices: "tuple[Json, ...] | list[Json]") -> str:
    return ", ".join(quoted(choice) for choice in choices)
