"""Where in a flow something runs, and what was done there so far, read from the log.

A place is the key under which events are found, and state. A run that was killed starts here: what
is open is done, what is done is not repeated. A run that goes on keeps its progress up with every
event, so nothing is scanned twice.

Top to bottom: places, how a node ends, what is in view, progress.
"""

import asyncio
import time
from collections.abc import Container, Coroutine, Iterable, Iterator, Sequence
from typing import TypeVar, cast

import msgspec

from weft.content import FunctionCall
from weft.declare import Agent, Node
from weft.session import Event, Session
from weft.session.event import without_temp
from weft.session.lookback import CONFIRMATION, INPUT, hidden_by_undoing, hidden_in
from weft.session.provenance import NOTHING, Provenance
from weft.session.strand import Strand
from weft.session.talk import PAUSED
from weft.values import Json, JsonObject


class Place(msgspec.Struct, frozen=True):
    """A node's path in the flow, its branch, and the tool call it runs inside, if any.

    A lone agent stands at the empty path, so that its events carry no more than they need.
    """

    path: str = ""
    branch: str = ""
    scope: str = ""

    def child(self, name: str, index: int | str) -> "Place":
        """The place of a node below this one."""
        step = f"{name}@{index}"
        path = f"{self.path}/{step}" if self.path else step
        return Place(path, self.branch, self.scope)

    def on_branch(self, parallel: str, name: str) -> "Place":
        """The same place on a branch of its own, which no sibling sees."""
        below = f"{parallel}.{name}"
        return Place(self.path, f"{self.branch}.{below}" if self.branch else below, self.scope)

    @property
    def fork(self) -> str:
        """The name under which the log keeps what this branch writes for itself."""
        return f"{self.scope}/{self.branch}" if self.scope else self.branch

    @property
    def node_info(self) -> JsonObject | None:
        """The path as events carry it."""
        return {"path": self.path} if self.path else None

    def holds(self, event: Event) -> bool:
        """Whether the event was made at this place."""
        return path_of(event) == self.path and (event.isolation_scope or "") == self.scope


ROOT = Place()
"""The place of a lone agent."""


def is_below(path: str, other: str) -> bool:
    """Whether a path is the other one, or leads on from it."""
    return path == other or path.startswith(f"{other}/")


def paths_around(path: str) -> Iterator[str]:
    """A path, and those that it leads on from; the innermost first."""
    yield path
    while "/" in path:
        path = path.rpartition("/")[0]
        yield path


def path_of(event: Event) -> str:
    """The path of the node that made the event."""
    if event.node_info is None:
        return ""
    path = event.node_info.get("path")
    return path if isinstance(path, str) else ""


def place_of(event: Event) -> Place:
    """The place an event was made at."""
    return Place(path_of(event), event.branch or "", event.isolation_scope or "")


def code_place(place: Place, call: FunctionCall) -> Place:
    """Where the code stands that a call at a place brought."""
    call_id = call.id or ""
    return Place(place.child(call.name or "", call_id).path, scope=call_id)


def code_author(tool: str) -> str:
    """In whose name code that a tool runs makes calls; an agent cannot have such a name."""
    return f"{tool}()"


def root_place(root: Node) -> Place:
    """Where the root stands: an agent at the empty path, a flow under its name."""
    return ROOT if isinstance(root, Agent) else Place(root.name)


# --- how a node ends, and how work is stopped


class NodeFailed(Exception):
    """A node ended with an error event, which the log has; `cause` is what user code raised."""

    def __init__(self, event: Event, cause: Exception | None = None) -> None:
        super().__init__(event.error_message)
        self.event = event
        self.cause = cause


class Suspended(Exception):
    """The invocation waits for an answer from outside; it goes on when that is in the log."""


class Interrupted(Exception):
    """A later run of the session asked this one to stop."""


class EndsRun(Exception):
    """A call that code made ends the run: what a callback raised, or a tool that may not fail."""

    def __init__(self, cause: Exception) -> None:
        super().__init__(str(cause))
        self.cause = cause


T = TypeVar("T")


async def finish_even_if_cancelled(work: Coroutine[object, object, T]) -> T:
    """The result of the work. If the caller is cancelled meanwhile, the work is finished first."""
    task = asyncio.ensure_future(work)
    await wait_for_all([task])
    return task.result()


async def cancel_and_wait(tasks: "Sequence[asyncio.Task[T]]") -> None:
    """Cancel the tasks, once each, and wait until they have cleaned up.

    What they raised can be asked of them; if nobody does, nobody is bothered with it.
    """
    for task in tasks:
        task.cancel()
    try:
        await wait_for_all(tasks)
    finally:
        for task in tasks:
            if not task.cancelled():
                task.exception()


async def wait_for_all(work: "Sequence[asyncio.Future[T]]") -> None:
    """Wait until all of it is done. If the caller is cancelled meanwhile, that is raised then."""
    cancelled: asyncio.CancelledError | None = None
    # a cancellation is remembered, not obeyed: what is being stored must be stored whole
    while unfinished := [each for each in work if not each.done()]:
        try:
            await asyncio.wait(unfinished)
        except asyncio.CancelledError as error:
            cancelled = error
    if cancelled is not None:
        raise cancelled


# --- what is in view


def visible_events(session: Session) -> list[Event]:
    """The events that no rewind and no flow took out of view."""
    hidden = {**hidden_in(session.events), **hidden_by_undoing(session.events)}
    return [event for index, event in enumerate(session.events) if index not in hidden]


# --- what was done so far

UNKNOWN_OUTCOME = "unknown_outcome"
"""The code of the error event that says a crash left open whether a call was made."""

_AGAIN = "nothing new"
"""What a note about a repeated call begins with."""


class Exchange(msgspec.Struct, frozen=True):
    """The calls of a reply, and the event that says what they came to."""

    calls: dict[str, FunctionCall]
    event: Event

    def repeats(self, other: "Exchange") -> bool:
        """Whether both made the same calls and got the same results."""
        if len(self.calls) != len(other.calls):
            return False
        for mine, others in zip(self.calls.values(), other.calls.values(), strict=True):
            if mine.args != others.args or mine.name != others.name:
                return False
        actions, before = self.event.actions, other.event.actions
        if without_temp(actions.state_delta) != without_temp(before.state_delta):
            return False
        return (
            actions.artifact_delta == before.artifact_delta
            and self._responses() == other._responses()
        )

    def _responses(self) -> list[JsonObject]:
        return [_without_note(result.response or {}) for result in self.event.results]


class Progress:
    """One place's part of the log: whose turn it is, which calls are open, what was answered."""

    agent: str | None = None
    begun = False
    ended = False
    answered: Event | None = None
    """The final answer. `ended` is set after the callbacks that follow it."""
    failed: Event | None = None
    """The error that ended the turn, as long as nothing came after it."""
    steps = 0
    rejected = 0
    reply: Event | None = None
    """The last reply that made calls."""
    news = False
    """Whether the agent at work brought anything new: a text, or a tool's result."""
    _exchange: Exchange | None = None
    """The last reply that made calls and has all their results."""
    _in_a_row = 0
    _counted: tuple[Event, int] | None = None
    """The results that were looked at last, and how often in a row they came."""

    def __init__(self) -> None:
        self.pieces: list[Event] = []
        """The pieces so far of an answer that was cut off, and the notes to go on."""
        self.open: dict[str, FunctionCall] = {}
        self.asked: dict[str, str] = {}
        """Confirmations the user was asked for: the question's id -> the call's."""
        self.confirmed: dict[str, JsonObject] = {}
        self.asked_calls: dict[str, str] = {}
        """By call: which arguments the question named."""
        self.expires: dict[str, float] = {}
        """By call: when a yes comes too late."""
        self.expired: set[str] = set()
        """Calls for which one has come too late."""
        self.pending: set[str] = set()
        self.started: set[str] = set()
        self.outcomes: dict[str, JsonObject] = {}
        self.hops: list[str] = []
        self._round: dict[str, FunctionCall] = {}
        """The calls of the last reply, until results come."""

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
        notes = NOTHING
        if event.custom_metadata and event.is_noted:
            notes = event.provenance
            self._note_records(notes)
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
        if notes.piece is not None:
            self.pieces.append(event)
            self.steps += is_reply(event)
        elif content is not None and content.parts:
            results = content.role == "user"
            if results:
                self._note_results(event, notes.pending or ())
            else:
                self._note_model(event, notes.rejected is not None)
        if actions.transfer_to_agent:
            self.hand_over(actions.transfer_to_agent)
        elif actions.skip_summarization and self.answered is None:
            self.answered = event

    def due(self, retry: frozenset[str]) -> bool:
        """Whether a call can be run now: one that waits for nobody, or is to be retried."""
        if not self.open or not self.pending:
            return bool(self.open)
        return any(id not in self.pending or id in retry or self.is_expired(id) for id in self.open)

    def is_expired(self, call_id: str) -> bool:
        """Whether the time is over in which the user could have confirmed a call, and did not."""
        if call_id in self.confirmed:
            return False
        return call_id in self.expired or has_expired(call_id, self.expires.get(call_id))

    def hand_over(self, target: str) -> None:
        """Begin anew with another agent."""
        self.hops.append(self.agent or "")
        self.agent = target
        self.begun = False
        self.answered = None
        self.steps = self.rejected = 0
        self._exchange, self._in_a_row = None, 0
        self.news = False

    def times(self, event: Event) -> int:
        """How often in a row the calls of the last reply came, and came to these results.

        If somebody outside took part, the model does not repeat itself: then it is 0.
        """
        # results are looked at before they are stored, and noted after that
        if self._counted is not None and self._counted[0] is event:
            return self._counted[1]
        times = self._times(event)
        self._counted = (event, times)
        return times

    def _times(self, event: Event) -> int:
        results = event.results
        # a result from outside, or of some of the calls only, does not count as a repetition
        if len(results) != len(self._round) or event.author == "user":
            return 0
        noted = event.custom_metadata and event.is_noted
        waits = event.provenance.pending or () if noted else ()
        for result in results:
            if result.id in waits or result.id not in self._round:
                return 0
        before = self._exchange
        if before is None or not Exchange(self._round, event).repeats(before):
            return 1
        return self._in_a_row + 1

    def _note_model(self, event: Event, rejected: bool) -> None:
        calls, text = event.calls, event.text
        replied = _is_spoken(event) and not (calls and _asks_user(calls))
        self.steps += replied
        # the whole answer is there: its pieces are in it
        if self.pieces and replied:
            self.pieces = []
        if rejected:
            self.rejected += 1
        elif not calls and event.finish_reason != PAUSED:
            self.answered = event
            self.news = True
        for call in calls:
            if call.name != CONFIRMATION:
                self._round = {}
                break
        for call in calls:
            if call.name == CONFIRMATION:
                original = (call.args or {}).get("originalFunctionCall")
                call_id = original.get("id") if isinstance(original, dict) else None
                if isinstance(call_id, str):
                    self.asked[call.id or ""] = call_id
                    if (about := read_asked_call(call)) is not None:
                        self.asked_calls[call_id] = about
                    expires = expiry_in(call)
                    if expires is not None:
                        self.expires[call_id] = expires
                continue
            self.reply = event
            self.open[call.id or ""] = self._round[call.id or ""] = call
        if text:
            self.news = True

    def _note_results(self, event: Event, waits: Sequence[Json]) -> None:
        """Take in results. A call in `waits` stays open: its result is a preliminary one."""
        results = event.results
        if results and self._round:
            times = self._in_a_row = self.times(event)
            self._exchange = Exchange(self._round, event) if times else None
            self._round = {}
        for result in results:
            call_id = result.id or ""
            if result.name == CONFIRMATION:
                original = self.asked.pop(call_id, call_id)
                self.confirmed[original] = unwrap_answer(result.response or {})
                self.pending.discard(original)
                continue
            self.open.pop(call_id, None)
            # a preliminary result: the real one is still to come
            if call_id not in waits:
                self.pending.discard(call_id)
            # a hand-over alone brings nothing: two agents may pass the user to and fro
            if result.name != "transfer_to_agent":
                self.news = True

    def _note_records(self, notes: Provenance) -> None:
        self.started.update(notes.started or ())
        self.started.difference_update(notes.unstarted or ())
        self.expired.update(notes.expired or ())
        self.pending.update(notes.pending or ())
        self.outcomes.update(notes.outcomes or {})


_QUESTIONS = frozenset((CONFIRMATION, INPUT))


def is_reply(event: Event) -> bool:
    """Whether a model said it; results, Weft's questions and calls of code do not count."""
    if not _is_spoken(event) or _asks_user(event.calls):
        return False
    return not event.is_noted or event.provenance.code is None


def withheld_in(reply: Event | None) -> list[str]:
    """The tools that the request of a reply did not offer, though the agent has them."""
    if reply is None or not reply.custom_metadata or not reply.is_noted:
        return []
    return reply.provenance.withheld or []


def _is_spoken(event: Event) -> bool:
    content = event.content
    return event.author != "user" and content is not None and content.role == "model"


def _asks_user(calls: Iterable[FunctionCall]) -> bool:
    """Whether one of the calls is a question that Weft asks."""
    return not _QUESTIONS.isdisjoint([call.name for call in calls])


def expiry_in(question: FunctionCall) -> float | None:
    """Until when a confirmation can be answered, in seconds since 1970; None: for ever."""
    expires = _in_payload(question, "expires")
    return float(expires) if isinstance(expires, int | float) else None


def read_asked_call(question: FunctionCall) -> str | None:
    """Which call with which arguments a confirmation is about."""
    asked = _in_payload(question, "asked")
    return asked if isinstance(asked, str) else None


def _in_payload(question: FunctionCall, name: str) -> Json:
    confirmation = (question.args or {}).get("toolConfirmation")
    payload = confirmation.get("payload") if isinstance(confirmation, dict) else None
    return payload.get(name) if isinstance(payload, dict) else None


WAITING_CALLS: set[str] = set()
"""Calls that asked the user and are still under way in this process, at a server that waits."""

_seen_expired: dict[tuple[str, float], None] = {}
"""Questions whose time this process has seen to be over."""

_MOST_SEEN = 10_000


def has_expired(call_id: str, expires: float | None) -> bool:
    """Whether it is too late to allow a call; once it was, it is, also if the clock is set back."""
    if expires is None:
        return False
    if time.time() <= expires:
        return (call_id, expires) in _seen_expired
    _seen_expired[call_id, expires] = None
    if len(_seen_expired) > _MOST_SEEN:
        del _seen_expired[next(iter(_seen_expired))]
    return True


def unwrap_answer(answer: JsonObject) -> JsonObject:
    """The answer to a confirmation; ADK's page sends it as JSON text in a field `response`."""
    inner = answer.get("response") if len(answer) == 1 else None
    if isinstance(inner, str):
        try:
            inner = cast("Json", msgspec.json.decode(inner))
        except (ValueError, RecursionError):
            return answer
    return inner if isinstance(inner, dict) else answer


def with_note(response: JsonObject, name: str, times: int) -> JsonObject:
    """The result, with a note for the model that the call repeats itself."""
    note = (
        f"{_AGAIN}: {name} was called with these arguments and came to this {times} times in a row;"
        " once more ends the run, so do something else or answer with what there is"
    )
    return {**response, "note" if "note" not in response else "weft_note": note}


def _without_note(response: JsonObject) -> JsonObject:
    for key in ("weft_note", "note"):
        note = response.get(key)
        if isinstance(note, str) and note.startswith(_AGAIN):
            return {name: value for name, value in response.items() if name != key}
    return response


class Record:
    """What a workflow node has left in the log: how it ended, and the last decision it made."""

    __slots__ = ("ended", "failed", "state")

    def __init__(self) -> None:
        self.ended = False
        self.failed: Event | None = None
        self.state: JsonObject = {}

    @staticmethod
    def of(events: Iterable[Event]) -> "Record":
        """The record of a place, from its events."""
        record = Record()
        for event in events:
            record.ended = record.ended or bool(event.actions.end_of_agent)
            record.failed = event if is_failure(event) else None
            record.state = {**record.state, **(event.actions.agent_state or {})}
        return record


def is_failure(event: Event) -> bool:
    """Whether the event says that its node failed: not that it was stopped, or waits."""
    stopped = event.interrupted or event.error_code == UNKNOWN_OUTCOME
    return event.error_code is not None and not stopped


class Past:
    """The events of one invocation from `first` on, without those that were rewound."""

    def __init__(self, id: str, first: int, hidden: Container[int]) -> None:
        self._id = id
        self._hidden = hidden
        self._read = first
        self._events: list[Event] = []
        self._positions: list[int] = []
        self._at: dict[tuple[str, str], list[Event]] = {}
        self._last: dict[str, Event] = {}

    def read(self, log: Strand[Event]) -> "Past":
        """Read on in the log."""
        for position, event in enumerate(log.since(self._read), self._read):
            if event.invocation_id == self._id and position not in self._hidden:
                place = place_of(event)
                self._events.append(event)
                self._positions.append(position)
                self._at.setdefault((place.path, place.scope), []).append(event)
                for path in paths_around(place.path):
                    self._last[path] = event
        self._read = len(log)
        return self

    def events(self) -> list[Event]:
        """All of them."""
        return [*self._events]

    def at(self, place: Place) -> Sequence[Event]:
        """Those that were made at a place."""
        return self._at.get((place.path, place.scope), ())

    def all(self) -> Iterator[tuple[int, Event]]:
        """All of them, with where each stands in the log."""
        return zip(self._positions, self._events, strict=True)

    def below(self, place: Place) -> list[tuple[int, Event]]:
        """Those that were made at a place or below it, with where each stands in the log."""
        return [
            (position, event)
            for position, event in self.all()
            if (event.isolation_scope or "") == place.scope and is_below(path_of(event), place.path)
        ]

    def failed_at(self, place: Place) -> bool:
        """Whether the last of a place, and of all below it, is a failure."""
        last = self._last.get(place.path)
        return last is not None and is_failure(last)

    def places(self) -> list[tuple[Place, Progress]]:
        """Every place that left something, and what that says of it."""
        return [(place_of(events[0]), Progress.of(events)) for events in self._at.values()]
