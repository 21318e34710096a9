"""A session: the append-only log of events, and the state it adds up to.

A session is a value: `append` returns the next one and shares everything with this one.
"""

import json
import math
from collections.abc import Callable, Iterable, Mapping, Sequence
from importlib import import_module
from operator import attrgetter
from typing import TYPE_CHECKING, cast

from msgspec.structs import replace

from weft.content import Content, Part, is_plain, require_content
from weft.errors import SessionError, describe_kind
from weft.misuse import explain_calls
from weft.session.event import (
    EMPTY_ACTIONS,
    NO_ACTIONS,
    Actions,
    Event,
    apply_delta,
    without_temp,
)
from weft.session.flow import FlowMetadata, TrustLabel
from weft.session.log_labels import key_labels
from weft.session.lookback import waiting_in
from weft.session.strand import Strand
from weft.values import Json, JsonObject, is_json, require_json, require_object

if TYPE_CHECKING:
    from pathlib import Path

_WORDS = {
    **dict.fromkeys(("messages", "history", "contents"), "events"),
    **dict.fromkeys(("session_id", "thread_id"), "id"),
    "user": "user_id",
    "app": "app_name",
}
"""Options of a session by the names that others give them."""


class Session:
    """One conversation: who it belongs to, its events, and its state.

    `state` given here is what the session starts with; the events' deltas are folded over it.
    """

    __slots__ = (
        "app_name",
        "events",
        "id",
        "initial",
        "last_update_time",
        "state",
        "unread",
        "user_id",
    )

    @explain_calls('Session("s1", state={...}, events=[...])', words=_WORDS)
    def __init__(
        self,
        id: str = "",
        *,
        app_name: str = "",
        user_id: str = "",
        state: Mapping[str, Json] | None = None,
        events: Iterable[Event] = (),
        last_update_time: float = 0.0,
    ) -> None:
        # None stands for a key that is not there
        start = apply_delta({}, require_object(state or {}, where="session.state"))
        log = Strand(admit_events(events, Strand(), {}, where="session.events"))
        self._fill(
            id, app_name, user_id, start, _fold(start, start, "", log), log, last_update_time
        )

    def _fill(
        self,
        id: str,
        app_name: str,
        user_id: str,
        initial: JsonObject,
        state: JsonObject,
        events: Strand[Event],
        last_update_time: float,
        unread: JsonObject | None = None,
    ) -> None:
        self.id = id
        self.app_name = app_name
        self.user_id = user_id
        self.initial = initial
        self.state = state
        self.events = events
        self.last_update_time = last_update_time
        # Fields that this version does not know; they are written back.
        self.unread: JsonObject = unread or {}

    @staticmethod
    def from_messages(
        messages: object,
        *,
        format: str | None = None,
        id: str = "imported",
        agent: str = "agent",
        lenient: bool = False,
    ) -> "Session":
        """The session that somebody else's messages make; the format is found by its shape.

        Takes a list of messages, a whole request, or JSON text, of the formats listed in
        `weft.recordings.FORMATS`. `agent` is the agent whose words the answers are; others read
        them as somebody else's. What a session has no place for, such as system texts, is noted
        under `imported` in the first event's metadata and logged. A call, a result, media or words
        that would be lost are an error; if `lenient`, they are noted too.
        """
        # The readers need dialects, which stand above the log: they are looked up when asked for.
        read = cast("Callable[..., Session]", import_module("weft.recordings.read").session_from)
        return read(messages, format=format, id=id, agent=agent, lenient=lenient)

    def to_messages(self, dialect: str, *, agent: str = "") -> "list[JsonObject]":
        """The session as a provider's messages: the way out for what `from_messages` read.

        `dialect` is "openai-chat", "openai-responses", "anthropic" or "gemini". `agent` is whose
        words are the model's; without it, that of whoever spoke last. What the provider cannot
        take, such as another's signatures, is left out.
        """
        # The dialects stand above the log: they are looked up when asked for.
        write = cast(
            "Callable[..., list[JsonObject]]",
            import_module("weft.recordings.writing").messages_from,
        )
        return write(self, dialect, agent=agent)

    def append(self, *events: Event) -> "Session":
        """The session with the events added; one it has already is not added again.

        Partial events are display only and not added.
        """
        log = self.events
        complete: Sequence[Event] = events
        with log.lock:  # other values of this log may be growing it
            positions = log.memo.of(Positions)
            if positions is None:
                positions = positions_of(log)
            if not _is_new_and_sound(events, positions):
                complete = admit_events(events, log, positions, where="append")
                for event in complete:
                    if event.partial:
                        complete = [event for event in complete if not event.partial]
                        break
                if not complete:
                    return self
            grown = log.grown(complete)
            if grown.memo is log.memo:  # not a copy, which has positions of its own
                at = grown.settled - len(complete)
                for event in complete:
                    positions[event.id] = at
                    at += 1
        newest, last = log.tip, complete[-1]
        invocation, state = newest.invocation_id if newest is not None else "", self.state
        # most events write nothing, and the state stays the same object
        if len(complete) > 1 or last.actions.state_delta or last.invocation_id != invocation:
            state = _fold(self.initial, state, invocation, complete)
        written, before = last.timestamp, self.last_update_time
        after = Session.__new__(Session)  # as `_fill`: this is done at every step
        after.id = self.id
        after.app_name = self.app_name
        after.user_id = self.user_id
        after.initial = self.initial
        after.state = state
        after.events = grown
        after.last_update_time = written if written > before else before
        after.unread = self.unread
        return after

    @staticmethod
    def restored(
        id: str,
        *,
        app_name: str,
        user_id: str,
        initial: JsonObject,
        state: JsonObject,
        events: Strand[Event],
        last_update_time: float,
    ) -> "Session":
        """A session from what a store has kept: checked when it was taken, not folded again."""
        session = Session.__new__(Session)
        session._fill(id, app_name, user_id, initial, state, events, last_update_time)
        return session

    def before(self, index: int) -> "Session":
        """The session as it was before the event at `index`."""
        if not 0 <= index <= len(self.events):
            raise SessionError(
                f"there is no event {index}",
                where="session.before",
                hint=f"pass 0 to {len(self.events)}",
            )
        events = self.events.first(index)
        earlier = Session.__new__(Session)
        earlier._fill(
            self.id,
            self.app_name,
            self.user_id,
            self.initial,
            _fold(self.initial, self.initial, "", events),
            events,
            events[-1].timestamp if events else 0.0,
            self.unread,
        )
        return earlier

    def state_for(self, invocation_id: str) -> JsonObject:
        """The state as that invocation sees it: `temp:` keys are those it wrote itself."""
        newest = self.events.tip
        if invocation_id == (newest.invocation_id if newest is not None else ""):
            return self.state
        return _next_invocation(self.initial, self.state)

    def label(self, key: str) -> TrustLabel:
        """Whose text had influence on the value of a state key, or on `artifact:NAME`."""
        return key_labels(self.events, (key,)).of_name(key)

    @property
    def waiting(self) -> dict[str, str]:
        """The calls that wait for an answer from outside, whoever asked and when: id -> name."""
        return waiting_in(self.events)

    def to_json(self) -> bytes:
        """ADK's JSON for this session, without `temp:` state, which is never stored.

        Each event has a checksum, and the last one another of the session around the events;
        they are verified when it is read. If events wrote over what the session started with,
        the last one has that too, so that earlier states are the same when it is read.
        """
        from weft.session.session_json import SavedSession, encode_session

        events = [without_temp_delta(event) for event in self.events]
        return encode_session(
            SavedSession(
                self.id,
                self.app_name,
                self.user_id,
                without_temp(self.state),
                events,
                self.last_update_time,
                self.unread,
                _overwritten(without_temp(self.initial), events),
            )
        )

    @staticmethod
    def from_json(data: bytes | str, *, name: str = "session", trusted: bool = False) -> "Session":
        """Read ADK's JSON; an error names `name`, the event and the field.

        What a provider's answer kept for that provider alone (`partMetadata.weft`) goes back to
        it unread, and what callable instructions said is system text. Both count only where Weft
        itself wrote them: pass `trusted=True` for JSON that your own `to_json` made and nobody
        else could change. Else they are set aside.
        """
        from weft.session.session_json import decode_session

        saved = decode_session(data, name=name, trusted=trusted)
        try:
            session = Session(
                saved.id,
                app_name=saved.app_name,
                user_id=saved.user_id,
                state={**_unwritten(saved.state, saved.events), **saved.start},
                events=saved.events,
                last_update_time=saved.last_update_time,
            )
        except SessionError as error:
            place = error.where.replace("session.", "", 1)
            raise SessionError(error.message, where=f"{name}: {place}", hint=error.hint) from None
        # the saved state wins: shared keys may have been written, or deleted, by other sessions
        if saved.sealed:
            session.state = saved.state
        else:  # a file of others may have no state, or a part of it
            session.state = apply_delta(session.state, saved.state)
        session.unread = saved.unread
        return session

    def __eq__(self, other: object) -> bool:
        if not isinstance(other, Session):
            return NotImplemented
        return (
            self.id == other.id
            and self.app_name == other.app_name
            and self.user_id == other.user_id
            and self.state == other.state
            and self.events == other.events
        )

    __hash__ = None  # type: ignore[assignment]

    def __repr__(self) -> str:
        return f"Session({self.id!r}, {len(self.events)} events, state keys {list(self.state)})"

    def _repr_html_(self) -> str:
        from weft.markup import text_line, titled_fragment

        pairs = self.state.items()
        state = [text_line(f"{key} = {json.dumps(value)}", "dim") for key, value in pairs]
        title = f"session {self.id}, {len(self.events):,} events"
        return titled_fragment(title, *state, events_table(self.events))


def events_table(events: Iterable[Event], show: Callable[[str], str] = str) -> str:
    """Events as a notebook shows them; `show` makes of a text what may be shown of it."""
    from weft.markup import last_rows, text_cell

    rows: list[tuple[str, ...]] = []
    for event in events:
        calls = [f"→ {call.name}({json.dumps(call.args or {})})" for call in event.calls]
        results = [f"← {one.name}: {json.dumps(one.response)}" for one in event.results]
        failed = [f"{event.error_code}: {event.error_message}"] if event.error_code else []
        texts = [event.text] if event.text else []
        rows.append(
            (
                text_cell(event.author),
                text_cell(show("\n".join((*texts, *calls, *results, *failed))), pre=True),
                text_cell(show(", ".join(event.actions.state_delta)), "dim"),
            )
        )
    return last_rows(("author", "what", "state"), rows)


def read_session(path: "Path", *, trusted: bool = False) -> Session:
    """Read a session from a JSON file; `trusted` as for `Session.from_json`."""
    try:
        data = path.read_bytes()
    except OSError as error:
        raise SessionError(
            f"the session cannot be read: {error.strerror}", where=str(path)
        ) from None
    return Session.from_json(data, name=str(path), trusted=trusted)


def without_temp_delta(event: Event) -> Event:
    """The event without its `temp:` deltas."""
    delta = event.actions.state_delta
    for key in delta:
        if key.startswith("temp:"):
            return replace(event, actions=replace(event.actions, state_delta=without_temp(delta)))
    return event


def _fold(
    initial: JsonObject, state: JsonObject, invocation: str, events: Iterable[Event]
) -> JsonObject:
    """The state after the events; `temp:` keys last as long as the invocation that wrote them."""
    for event in events:
        if event.partial:
            continue
        if event.invocation_id != invocation:
            invocation = event.invocation_id
            state = _next_invocation(initial, state)
        if event.actions.state_delta:
            delta = require_object(event.actions.state_delta, where=f"event {event.id}")
            state = apply_delta(state, delta)
    return state


def _next_invocation(initial: JsonObject, state: JsonObject) -> JsonObject:
    """The state that the next invocation begins with: `temp:` keys hold what they did at first."""
    for key in state:
        if key.startswith("temp:") and initial.get(key) != state[key]:
            break
    else:
        return state
    start = {key: value for key, value in initial.items() if key.startswith("temp:")}
    return {**without_temp(state), **start}


def _unwritten(state: JsonObject, events: list[Event]) -> JsonObject:
    """The part of the state that no event wrote: what the session started with."""
    written = {key for event in events for key in event.actions.state_delta}
    return {key: value for key, value in state.items() if key not in written}


def _overwritten(start: JsonObject, events: list[Event]) -> JsonObject:
    """The part of what a session started with that an event wrote over or deleted."""
    if not start:
        return start
    written = {key for event in events for key in event.actions.state_delta}
    return {key: value for key, value in start.items() if key in written}


def admit_events(
    events: Iterable[Event], log: Strand[Event], positions: dict[str, int], *, where: str
) -> list[Event]:
    """The events that the log does not have yet, once they are known to be sound."""
    length = log.settled
    fresh: dict[str, Event] = {}
    sound: list[Event] = []
    for index, event in enumerate(events):
        if type(event) is not Event and not isinstance(cast("object", event), Event):
            raise SessionError(
                f"{describe_kind(event)} is not an event",
                where=f"{where}[{index}]",
                hint="pass weft.Event values, or read JSON with Session.from_json",
            )
        if event.sequence is not None:  # it came from a stream, and has a place of its own here
            event = replace(event, sequence=None)
        name = event.id
        if name and not event.partial:
            at = positions.get(name, length)
            known_event = log[at] if at < length else fresh.get(name)
            if known_event is not None:
                # the same event again, as after a retry, is added once
                if _same(known_event, event):
                    continue
                raise SessionError(
                    f"two different events have the id `{name}`",
                    where=f"{where}[{index}].id",
                    hint="give each event its own id, or leave `id` out",
                )
            fresh[name] = event
        try:
            _require_sound(event)
        except SessionError as error:
            place = f"{where}[{index}].{error.where}"
            raise SessionError(error.message, where=place, hint=error.hint) from None
        sound.append(event)
    return sound


def _is_new_and_sound(events: Sequence[Event], positions: dict[str, int]) -> bool:
    """Whether it is one event that `admit_events` would let through, as nearly always."""
    if len(events) != 1 or type(events[0]) is not Event:
        return False
    event = events[0]
    if not event.id or event.partial or event.id in positions:
        return False
    try:
        _require_sound(event)
    except SessionError:
        return False  # who admits events says where the error is
    return True


def _require_sound(event: Event) -> None:
    """Refuse an event that carries what is not JSON, and so could be neither stored nor sent."""
    author, content, actions = event.author, event.content, event.actions
    if type(author) is not str:
        raise _misplaced_error(author, "author", "text")
    if type(actions) is not Actions:
        raise _misplaced_error(actions, "actions", "weft.Actions")
    if type(event.id) is not str:
        raise _misplaced_error(event.id, "id", "text")
    if type(event.invocation_id) is not str:
        raise _misplaced_error(event.invocation_id, "invocationId", "text")
    if event.branch is not None and type(event.branch) is not str:
        raise _misplaced_error(event.branch, "branch", "text")
    if type(event.timestamp) is not float or not math.isfinite(event.timestamp):
        _require_time(event.timestamp)
    if content is not None:
        if type(content) is not Content:
            raise _misplaced_error(content, "content", "weft.Content")
        for part in content.parts or ():
            if (
                type(part) is not Part
                or type(part.text) is not str
                or part.function_call is not None
                or part.function_response is not None
                or part.part_metadata is not None
                or part.tool_call is not None
                or part.tool_response is not None
            ) and not is_plain(part):
                require_content(content, where="content")
                break
    if actions.state_delta or type(actions.state_delta) is not dict:
        delta = actions.state_delta
        if type(delta) is not dict or not is_json(delta):
            require_object(delta, where="actions.stateDelta")
    metadata = event.custom_metadata
    is_label = not metadata or type(metadata) is FlowMetadata  # made here: it is sound
    if not is_label and (type(metadata) is not dict or not is_json(metadata)):
        require_object(metadata, where="customMetadata")
    # of `_OTHERS` most events have where they were made, or none
    place = event.node_info
    if (
        not (place is None or (type(place) is dict and is_json(place)))
        or event.output is not None
        or event.grounding_metadata is not None
        or event.citation_metadata is not None
        or event.cache_metadata is not None
        or event.logprobs_result is not None
        or event.avg_logprobs is not None
        or event.input_transcription is not None
        or event.output_transcription is not None
        or event.live_session_resumption_update is not None
        or event.go_away is not None
        or event.voice_activity is not None
    ):
        _require_fields(_OTHERS, _other_fields(event), "")
    # most events do nothing, and most others only write state
    if (
        actions is not NO_ACTIONS
        and actions is not EMPTY_ACTIONS
        and (
            actions.agent_state is not None
            or actions.route is not None
            or actions.render_ui_widgets is not None
            or actions.set_model_response is not None
            or _action_dicts(actions) != _NO_ACTION_DICTS
        )
    ):
        _require_fields(_ACTION_FIELDS, _action_fields(actions), "actions.")


def _require_fields(names: Sequence[str], values: Sequence[object], above: str) -> None:
    """Refuse a field that is not JSON."""
    for name, value in zip(names, values, strict=True):
        kind = type(value)
        if value is None or (kind is dict and not value) or is_json(value):
            continue
        require_json(value, where=f"{above}{_camel(name)}")


def _camel(name: str) -> str:
    """The name of a field as JSON has it."""
    first, *others = name.split("_")
    return first + "".join(map(str.capitalize, others))


def _require_time(value: object) -> None:
    """Refuse a time that is not a number of seconds."""
    number = isinstance(value, int | float) and not isinstance(value, bool)
    if not number or not math.isfinite(cast("float", value)):
        raise SessionError(
            f"{value!r} is not a time", where="timestamp", hint="pass seconds, as time.time() does"
        )


_OTHERS = (
    "output", "node_info", "grounding_metadata", "citation_metadata", "cache_metadata",
    "logprobs_result", "avg_logprobs", "input_transcription", "output_transcription",
    "live_session_resumption_update", "go_away", "voice_activity",
)  # fmt: skip
"""Fields of an event that hold any JSON, and that few events have."""

_other_fields = attrgetter(*_OTHERS)

_ACTION_FIELDS = (
    "artifact_delta", "agent_state", "requested_auth_configs", "requested_tool_confirmations",
    "route", "render_ui_widgets", "set_model_response",
)  # fmt: skip

_action_dicts = attrgetter(
    "artifact_delta", "requested_auth_configs", "requested_tool_confirmations"
)

_NO_ACTION_DICTS = _action_dicts(NO_ACTIONS)

_action_fields = attrgetter(*_ACTION_FIELDS)


def _misplaced_error(value: object, where: str, wanted: str) -> SessionError:
    return SessionError(f"got {describe_kind(value)}", where=where, hint=f"pass {wanted}")


def _same(known: Event, event: Event) -> bool:
    """Whether this is the event the log has, perhaps made again at another time."""
    return known is event or known == replace(event, timestamp=known.timestamp)


class Positions(dict[str, int]):
    """Where each event of a log stands, by its id; it grows in place as the log does."""


def positions_of(log: Strand[Event]) -> Positions:
    """The positions of a log's events. An older snapshot sees those of later events too."""
    positions = log.memo.of(Positions)
    if positions is None:
        positions = log.memo.keep(Positions({event.id: at for at, event in enumerate(log)}))
    return positions
