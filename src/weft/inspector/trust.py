"""Trust in a session: every way of untrusted text to an argument, and what became of the call."""

from collections.abc import Iterator, Sequence
from typing import Literal

import msgspec

from weft.content import FunctionCall
from weft.session import Event
from weft.session.flow import flow_of
from weft.session.lookback import CONFIRMATION, QUESTION
from weft.values import JsonObject

CallOutcome = Literal["made", "asked", "refused", "open"]


class TracedCall(msgspec.Struct, frozen=True):
    """A call that untrusted text had influence on: its sources, its ways, and what became of it."""

    event: str
    agent: str
    tool: str
    call_id: str
    args: JsonObject
    sources: tuple[str, ...]
    """Whose text had influence: `read_file.result`."""
    paths: tuple[str, ...]
    """The ways of the text: `read_file -> bot -> send_money.recipient`."""
    outcome: CallOutcome
    why: str = ""


def trace_calls(events: Sequence[Event]) -> list[TracedCall]:
    """The calls of a session that untrusted text had influence on, in the order of the log."""
    questions: dict[str, JsonObject] = {}
    results: dict[str, JsonObject] = {}
    for event in events:
        for call in event.calls:
            if call.name == CONFIRMATION:
                questions[(call.id or "").removeprefix(QUESTION)] = _untrusted_in(call)
        for result in event.results:
            results[result.id or ""] = result.response or {}
    return [
        _trace(event, call, questions, results)
        for event in events
        for call in event.calls
        if call.name != CONFIRMATION and (flow_of(event).base.taint or questions.get(call.id or ""))
    ]


def _trace(
    event: Event,
    call: FunctionCall,
    questions: dict[str, JsonObject],
    results: dict[str, JsonObject],
) -> TracedCall:
    call_id, asked = call.id or "", questions.get(call.id or "", {})
    sources = (*flow_of(event).base.taint, *_texts(asked, "sources"))
    error = results.get(call_id, {}).get("error")
    refused = isinstance(error, str) and error.startswith(("refused: ", "the user refused"))
    outcome: CallOutcome = "refused" if refused else "made"
    if call_id not in results:
        outcome = "asked" if asked else "open"
    ways = tuple(_texts(asked, "paths")) or tuple(
        f"{source.partition('.')[0]} -> {event.author} -> {call.name}" for source in sources
    )
    why = error if refused and isinstance(error, str) else ""
    return TracedCall(
        event.id, event.author, call.name or "", call_id, call.args or {},
        tuple(dict.fromkeys(sources)), ways, outcome, why,
    )  # fmt: skip


def _untrusted_in(question: FunctionCall) -> JsonObject:
    """What a question says about untrusted text."""
    confirmation = (question.args or {}).get("toolConfirmation")
    payload = confirmation.get("payload") if isinstance(confirmation, dict) else None
    untrusted = payload.get("untrusted") if isinstance(payload, dict) else None
    return untrusted if isinstance(untrusted, dict) else {}


def _texts(value: JsonObject, name: str) -> Iterator[str]:
    listed = value.get(name)
    yield from (one for one in (listed if isinstance(listed, list) else ()) if isinstance(one, str))
