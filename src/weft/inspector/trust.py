"""Trust in a session: every way of untrusted text to an argument, and what became of the call."""

from collections.abc import Iterator, Sequence
from typing import Literal

import msgspec

from weft.content import FunctionCall
from weft.session import Event
from weft.session.flow import TRUSTED, TrustLabel, flow_in, flow_of
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
        _trace(event, label, call, questions, results)
        for event, label in zip(events, _labels_of(events), strict=True)
        for call in event.calls
        if call.name != CONFIRMATION and (label.taint or questions.get(call.id or ""))
    ]


def _labels_of(events: Sequence[Event]) -> Iterator[TrustLabel]:
    """The label of each event; where nobody kept any, of all that was said before it.

    An agent of another program, such as one that a proxy listens to, was sent that.
    """
    is_foreign = all(flow_in(event.custom_metadata) is None for event in events)
    before = TRUSTED
    for event in events:
        note = flow_of(event)
        yield before | note.base if is_foreign and event.author != "user" else note.base
        before |= note.label


def _trace(
    event: Event,
    label: TrustLabel,
    call: FunctionCall,
    questions: dict[str, JsonObject],
    results: dict[str, JsonObject],
) -> TracedCall:
    call_id, asked = call.id or "", questions.get(call.id or "", {})
    sources = (*label.taint, *_texts(asked, "sources"))
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
