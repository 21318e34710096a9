"""What a place has done so far in this invocation, read from the log.

A run that was killed starts here: what is open is done, what is done is not repeated. A run
that goes on keeps its progress up with every event, so nothing is scanned twice.
"""

from collections.abc import Iterable, Sequence
from typing import cast

import msgspec

from weft.compiler.build import PAUSED
from weft.content import FunctionCall
from weft.session import Event
from weft.values import Json, JsonObject, canonical

CONFIRMATION = "adk_request_confirmation"
"""The name of the question to the user whether a call may run; ADK's clients know it."""

INPUT = "adk_request_input"
"""The name of a gate's question to the user; ADK's clients know it."""

QUESTION = "ask-"
"""What the id of such a question begins with; the id of the call it is about follows."""

UNKNOWN_OUTCOME = "unknown_outcome"
"""The code of the error event that says a crash left open whether a call was made."""


class Progress:
    """One place's part of the log: whose turn it is, which calls are open, what was answered."""

    def __init__(self) -> None:
        self.agent: str | None = None
        self.begun = False
        self.ended = False
        self.answered: Event | None = None
        """The final answer, once it is there; `ended` waits for the callbacks behind it."""
        self.failed: Event | None = None
        """The error that ended the turn, as long as nothing came after it."""
        self.steps = 0
        self.rejected = 0
        self.reply: Event | None = None
        """The last reply that made calls."""
        self.open: dict[str, FunctionCall] = {}
        self.asked: dict[str, str] = {}
        """Confirmations the user was asked for: the question's id -> the call's."""
        self.confirmed: dict[str, JsonObject] = {}
        self.pending: set[str] = set()
        self.started: set[str] = set()
        self.outcomes: dict[str, JsonObject] = {}
        self.hops: list[str] = []
        self.news = False
        """Whether the agent at work brought anything new: a text, or a tool's result."""
        self.calls: dict[bytes, int] = {}
        self.returned: dict[bytes, JsonObject] = {}
        self.last_call = b""
        self.in_a_row = 0
        self._keys: dict[str, bytes] = {}
        self._stalled: dict[str, JsonObject] = {}

    @staticmethod
    def of(events: Iterable[Event]) -> "Progress":
        """The progress of a place, from its events."""
        progress = Progress()
        for event in events:
            progress.note(event)
        return progress

    def note(self, event: Event) -> None:
        """Take in one more event of this place."""
        actions = event.actions
        weft = (event.custom_metadata or {}).get("weft") if event.custom_metadata else None
        if isinstance(weft, dict):
            self._note_records(weft)
        content = event.content
        self.failed = event if event.error_code and is_failure(event) else None
        if event.author == "user":
            self._note_results(event, ())
            return
        if self.agent is None or self.agent != event.author:
            self.agent = event.author
        if event.error_code:  # what comes before an agent is done again, if that is what failed
            return
        self.begun = True
        if actions.end_of_agent:
            self.ended = True
        if content is not None and content.parts:
            results = content.role == "user"
            if results:
                waits = weft.get("pending") if isinstance(weft, dict) else None
                self._note_results(event, waits if isinstance(waits, list) else ())
            else:
                self._note_model(event, isinstance(weft, dict) and "rejected" in weft)
        if actions.transfer_to_agent:
            self.hand_over(actions.transfer_to_agent)
        elif actions.skip_summarization and self.answered is None:
            self.answered = event

    def due(self, retry: frozenset[str]) -> bool:
        """Whether a call is open that waits for nobody, or is to be tried again."""
        if not self.open or not self.pending:
            return bool(self.open)
        return any(id not in self.pending or id in retry for id in self.open)

    def hand_over(self, target: str) -> None:
        """Begin anew with another agent."""
        self.hops.append(self.agent or "")
        self.agent = target
        self.begun = False
        self.answered = None
        self.steps = self.rejected = 0
        self.calls.clear()
        self.in_a_row = 0
        self.last_call = b""
        self.news = False

    def stalled(self, call: FunctionCall) -> JsonObject | None:
        """What the call returned before, if it is the third in a row or the fifth of its kind."""
        return self._stalled.get(call.id or "")

    def _count(self, call: FunctionCall) -> None:
        key = _key(call)
        self._keys[call.id or ""] = key
        self.in_a_row = self.in_a_row + 1 if key == self.last_call else 1
        self.last_call = key
        times = self.calls[key] = self.calls.get(key, 0) + 1
        if (self.in_a_row >= 3 or times >= 5) and key in self.returned:
            self._stalled[call.id or ""] = self.returned[key]

    def _note_model(self, event: Event, rejected: bool) -> None:
        calls = event.calls
        self.steps += is_reply(event)
        if rejected:
            self.rejected += 1
        elif not calls and event.finish_reason != PAUSED:
            self.answered = event
            self.news = True
        for call in calls:
            if call.name == CONFIRMATION:
                original = (call.args or {}).get("originalFunctionCall")
                held = original.get("id") if isinstance(original, dict) else None
                if isinstance(held, str):
                    self.asked[call.id or ""] = held
                continue
            self.reply = event
            self.open[call.id or ""] = call
            self._count(call)
        if event.text:
            self.news = True

    def _note_results(self, event: Event, waits: Sequence[Json]) -> None:
        """Take in results; those of calls that still wait are only what there is so far."""
        for result in event.results:
            call_id = result.id or ""
            if result.name == CONFIRMATION:
                original = self.asked.pop(call_id, call_id)
                self.confirmed[original] = unwrapped(result.response or {})
                self.pending.discard(original)
                continue
            self.open.pop(call_id, None)
            if call_id not in waits:
                self.pending.discard(call_id)
            key = self._keys.get(call_id)
            if key is not None and result.response is not None:
                self.returned[key] = result.response
            if result.name != "transfer_to_agent":
                self.news = True

    def _note_records(self, weft: JsonObject) -> None:
        started, outcomes, pending = weft.get("started"), weft.get("outcomes"), weft.get("pending")
        if isinstance(started, list):
            self.started.update(each for each in started if isinstance(each, str))
        if isinstance(pending, list):
            self.pending.update(each for each in pending if isinstance(each, str))
        if isinstance(outcomes, dict):
            self.outcomes.update({k: v for k, v in outcomes.items() if isinstance(v, dict)})


def is_reply(event: Event) -> bool:
    """Whether the event is what a model said: no question of ours, no result."""
    said = event.author != "user" and event.content is not None and event.content.role == "model"
    return said and not any(call.name in (CONFIRMATION, INPUT) for call in event.calls)


def unwrapped(answer: JsonObject) -> JsonObject:
    """The answer to a confirmation; ADK's page sends it as JSON text in a field `response`."""
    inner = answer.get("response") if len(answer) == 1 else None
    if isinstance(inner, str):
        try:
            inner = cast("Json", msgspec.json.decode(inner))
        except msgspec.DecodeError:
            return answer
    return inner if isinstance(inner, dict) else answer


def _key(call: FunctionCall) -> bytes:
    """What two calls share that ask for the same."""
    try:
        return msgspec.json.encode([call.name, call.args], order="sorted")
    except (UnicodeEncodeError, OverflowError):
        return canonical([call.name, call.args])


def is_failure(event: Event) -> bool:
    """Whether the event says that its node failed: not that it was stopped, or waits."""
    stopped = event.interrupted or event.error_code == UNKNOWN_OUTCOME
    return event.error_code is not None and not stopped
