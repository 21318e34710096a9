"""A session: the append-only log of events, and the state it adds up to.

A session is a value: `append` returns the next one and shares everything with this one.
"""

import json
import logging
import re
from collections.abc import Callable, Iterable, Mapping, Sequence
from importlib import import_module
from typing import TYPE_CHECKING, NoReturn, cast
from zlib import crc32

import msgspec
from msgspec.structs import replace

from weft.content import Content, Part, Value, encode, is_plain, require_content, untrusted
from weft.errors import SessionError, describe_kind
from weft.late import late_pattern
from weft.misuse import explained
from weft.session.event import Actions, Event, event_from, respelled
from weft.session.provenance import without_trust
from weft.session.state import apply_delta, without_temp
from weft.session.strand import Strand
from weft.session.waiting import waiting_in
from weft.values import Json, JsonObject, require_object

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

    @explained('Session("s1", state={...}, events=[...])', words=_WORDS)
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
        start = require_object(state, where="session.state") if state is not None else {}
        log = Strand(admitted(events, Strand(), {}, where="session.events"))
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
    ) -> "Session":
        """The session that somebody else's messages make; the format is found by its shape.

        Takes a list of messages, a whole request, or JSON text, of the formats listed in
        `weft.recordings.FORMATS`. `agent` is the agent whose words the answers are; others read
        them as somebody else's. What a session has no place for, such as system texts, is noted
        under `imported` in the first event's metadata and logged.
        """
        # The readers need dialects, which stand above the log: they are looked up when asked for.
        read = cast("Callable[..., Session]", import_module("weft.recordings.read").session_from)
        return read(messages, format=format, id=id, agent=agent)

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
                complete = admitted(events, log, positions, where="append")
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
        if invocation_id == _last_invocation(self.events):
            return self.state
        return _next_invocation(self.initial, self.state)

    @property
    def waiting(self) -> dict[str, str]:
        """The calls that wait for an answer from outside, whoever asked and when: id -> name."""
        return waiting_in(self.events)

    def to_json(self) -> bytes:
        """ADK's JSON for this session, without `temp:` state, which is never stored.

        Each event has a checksum, and the last one another of the session around the events;
        they are verified when it is read.
        """
        around = {
            "id": self.id,
            "appName": self.app_name,
            "userId": self.user_id,
            "state": msgspec.Raw(encode(without_temp(self.state), where="session.state")),
            "events": list[msgspec.Raw](),
            "lastUpdateTime": self.last_update_time,
            **{
                name: msgspec.Raw(encode(field_value, where=f"session.{name}"))
                for name, field_value in self.unread.items()
            },
        }
        if not len(self.events):
            return msgspec.json.encode(around)
        *events, last = [stored(event).to_json() for event in self.events]
        sums = [f"{crc32(data):08x}" for data in events]
        seen = _opened(msgspec.json.encode(around))  # as who reads it will see it
        seal = _seal(seen.outer, seen.unread, sums)
        last = _with(last, "sessionChecksum", seal)
        texts = [_with(data, "checksum", sum) for data, sum in zip(events, sums, strict=True)]
        texts.append(_with(last, "checksum", f"{crc32(last):08x}"))
        return msgspec.json.encode({**around, "events": [msgspec.Raw(text) for text in texts]})

    @staticmethod
    def from_json(data: bytes | str, *, name: str = "session", trusted: bool = False) -> "Session":
        """Read ADK's JSON; an error names `name`, the event and the field.

        What a provider's answer kept for that provider alone (`partMetadata.weft`) goes back to
        it unread, and what callable instructions said is system text. Both count only where Weft
        itself wrote them: pass `trusted=True` for JSON that your own `to_json` made and nobody
        else could change. Else they are set aside.
        """
        if not isinstance(cast("object", data), bytes | bytearray | str):
            raise SessionError(
                f"{describe_kind(data)} is not JSON text",
                where=name,
                hint="pass bytes or text, or build a weft.Session from events",
            )
        try:
            opened = _opened(data)
        except (ValueError, RecursionError) as error:
            raise SessionError(f"this is not a session: {_words(error)}", where=name) from None
        events: list[Event] = []
        sums: list[str | None] = []
        seal: str | None = None
        outer, decode, unread = opened.outer, opened.decode, opened.unread
        for index, raw in enumerate(opened.events):
            try:
                raw, sum, sound = _unchecked(raw)
                sums.append(sum)
                raw, seal = _unsealed(raw)
                if not sound:
                    raise SessionError(
                        "the event is damaged: it is not what its checksum was made of",
                        where=f"{name}: events[{index}]",
                        hint=_CHANGED,
                    )
                try:
                    events.append(decode(raw))
                except msgspec.ValidationError as error:
                    events.append(_respelled_event(raw, error))
                if not trusted:
                    events[-1] = _untrusted(events[-1])
            except (ValueError, RecursionError) as error:
                raise SessionError(
                    f"this is not an event: {_words(error)}",
                    where=f"{name}: events[{index}]",
                    hint="events are ADK's JSON: camelCase fields, content {role, parts}",
                ) from None
            if events[-1].unread:
                _log.warning(
                    "%s: events[%d] has unknown fields, which are kept: %s",
                    name,
                    index,
                    ", ".join(events[-1].unread),
                )
        # Checksums that are all gone were taken out; a single one was damaged.
        if seal is not None and (any(sums) or any(event.unread for event in events)):
            known = [sum for sum in sums if sum is not None]
            if len(known) < len(sums) or seal != _seal(outer, unread, known[:-1]):
                raise SessionError(
                    "the session is damaged: it is not what its checksum was made of",
                    where=name,
                    hint=_CHANGED,
                )
        if unread:
            _log.warning("%s has unknown fields, which are kept: %s", name, ", ".join(unread))
        try:
            session = Session(
                outer.id,
                app_name=outer.app_name,
                user_id=outer.user_id,
                state=_unwritten(outer.state, events),
                events=events,
                last_update_time=outer.last_update_time,
            )
        except SessionError as error:
            place = error.where.replace("session.", "", 1)
            raise SessionError(error.message, where=f"{name}: {place}", hint=error.hint) from None
        session.state = apply_delta(session.state, outer.state)
        session.unread = unread
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
        from weft.notebook import framed, line

        state = [line(f"{key} = {json.dumps(value)}", "dim") for key, value in self.state.items()]
        title = f"session {self.id}, {len(self.events):,} events"
        return framed(title, *state, events_table(self.events))


def events_table(events: Iterable[Event], show: Callable[[str], str] = str) -> str:
    """Events as a notebook shows them; `show` makes of a text what may be shown of it."""
    from weft.notebook import Cell, table

    rows: list[tuple[Cell, ...]] = []
    for event in events:
        calls = [f"→ {call.name}({json.dumps(call.args or {})})" for call in event.calls]
        results = [f"← {one.name}: {json.dumps(one.response)}" for one in event.results]
        failed = [f"{event.error_code}: {event.error_message}"] if event.error_code else []
        texts = [event.text] if event.text else []
        rows.append(
            (
                Cell(event.author),
                Cell(show("\n".join((*texts, *calls, *results, *failed))), pre=True),
                Cell(show(", ".join(event.actions.state_delta)), tone="dim"),
            )
        )
    return table(("author", "what", "state"), rows)


class _SessionJson(Value, frozen=True, gc=True, omit_defaults=False):
    """The outer JSON of a session; events stay raw so that an error can name its index."""

    id: str = ""
    app_name: str = ""
    user_id: str = ""
    state: JsonObject = {}
    events: list[msgspec.Raw] = []
    last_update_time: float = 0.0


_log = logging.getLogger("weft")

_event_decoder = msgspec.json.Decoder(Event)

_surrogate = late_pattern(r"\\u[dD][89a-fA-F]|[\ud800-\udfff]")


class _Opened(msgspec.Struct, frozen=True):
    """The outer JSON, the events in it, how to read one of them, and the unknown fields."""

    outer: _SessionJson
    events: Sequence[object]
    decode: Callable[[object], Event]
    unread: JsonObject


def _opened(data: bytes | str) -> _Opened:
    """A session's JSON before its events are read.

    Lone surrogates, half an emoji for instance, are legal in JSON text but not to the fast
    reader; a session that has them is read by the slow one.
    """
    try:
        outer = msgspec.json.decode(data, type=_SessionJson)
        decode = cast("Callable[[object], Event]", _event_decoder.decode)
        return _Opened(outer, outer.events, decode, {})
    except msgspec.ValidationError as error:
        return _respelled_session(msgspec.json.decode(data), error)
    except ValueError:
        text = data if isinstance(data, str) else data.decode()
        if not _surrogate.search(text):
            raise
    parsed: object = json.loads(text, parse_constant=_refuse_constant)
    return _respelled_session(parsed)


def _respelled_session(data: object, refused: msgspec.ValidationError | None = None) -> _Opened:
    """The outer JSON in another spelling; if that is not what is wrong, the first complaint.

    A field is unknown where none of ours is missing: else it is one of them, misspelt.
    """
    spelled = respelled(data, _SessionJson)
    if not isinstance(spelled, dict):
        raise refused or ValueError("expected an object")
    parsed = cast("dict[str, object]", spelled)
    names = {field.encode_name for field in msgspec.structs.fields(_SessionJson)}
    unread: JsonObject = {}
    if names <= parsed.keys():
        unread = {name: cast("Json", one) for name, one in parsed.items() if name not in names}
        parsed = {name: one for name, one in parsed.items() if name in names}
    try:
        listed = msgspec.convert(parsed.pop("events", []), list[object])
        return _Opened(msgspec.convert(parsed, _SessionJson), listed, _event_from, unread)
    except msgspec.ValidationError as error:
        raise (refused or error) from None


def _respelled_event(raw: object, refused: msgspec.ValidationError) -> Event:
    """The event in another spelling; if that is not what is wrong, the first complaint."""
    parsed: object = msgspec.json.decode(raw) if isinstance(raw, msgspec.Raw) else raw
    return event_from(parsed, refused)


def _event_from(value: object) -> Event:
    return event_from(value)


def _refuse_constant(name: str) -> NoReturn:
    raise ValueError(f"{name} is not JSON")


def _untrusted(event: Event) -> Event:
    """The event as it counts where nobody knows that Weft wrote it."""
    content, metadata = event.content, event.custom_metadata
    if content is not None and (mended := untrusted(content)) is not content:
        event = replace(event, content=mended)
    if metadata is None:
        return event
    marked = without_trust(metadata, by_user=event.author in ("user", ""))
    return event if marked is None else replace(event, custom_metadata=marked)


_CHECKSUM = re.compile(rb',"checksum":"([0-9a-f]{8})"\}\Z')

_SEAL = re.compile(rb',"sessionChecksum":"([0-9a-f]{8})"\}\Z')

_CHANGED = (
    "restore it; or, if it was changed on purpose, take out every `checksum` and `sessionChecksum`"
)


def _unchecked(raw: object) -> tuple[object, str | None, bool]:
    """An event without its checksum, that, and whether it is right; one without any is.

    It is made of the compact text, so that a file may be formatted in another way.
    """
    value: object = raw
    if isinstance(raw, msgspec.Raw):
        data = bytes(raw)
        last = _CHECKSUM.search(data, max(0, len(data) - 24))
        if last is not None:
            bare = data[: last.start()] + b"}"
            if crc32(bare) == int(last[1], 16):
                return msgspec.Raw(bare), last[1].decode(), True
        elif b'"checksum"' not in data:
            return raw, None, True
        value = msgspec.json.decode(data)
    if not isinstance(value, dict):
        return raw, None, True
    fields = cast("dict[str, object]", value)
    checksum = fields.get("checksum")
    if not isinstance(checksum, str) or not re.fullmatch("[0-9a-f]{8}", checksum):
        return raw, None, True
    rest = {key: one for key, one in fields.items() if key != "checksum"}
    text = encode(rest, where="event")
    sums = (crc32(text), crc32(_sealed(rest)))
    sound = int(checksum, 16) in sums
    return msgspec.Raw(text) if value is not raw else rest, checksum, sound


def _sealed(event: dict[str, object]) -> bytes:
    """The JSON of an event as it is written, whatever the order of its fields was."""
    seal = event.get("sessionChecksum")
    data = event_from({k: v for k, v in event.items() if k != "sessionChecksum"}).to_json()
    return _with(data, "sessionChecksum", seal) if isinstance(seal, str) else data


def _with(event: bytes, name: str, checksum: str) -> bytes:
    """The JSON of an event with a checksum behind it."""
    return b'%b,"%b":"%b"}' % (event[:-1], name.encode(), checksum.encode())


def _unsealed(raw: object) -> tuple[object, str | None]:
    """An event without the checksum of the session around it, and that."""
    value: object = raw
    if isinstance(raw, msgspec.Raw):
        data = bytes(raw)
        last = _SEAL.search(data, max(0, len(data) - 32))
        if last is not None:
            return msgspec.Raw(data[: last.start()] + b"}"), last[1].decode()
        if b'"sessionChecksum"' not in data:
            return raw, None
        value = msgspec.json.decode(data)
    if not isinstance(value, dict):
        return raw, None
    fields = cast("dict[str, object]", value)
    seal = fields.get("sessionChecksum")
    if not isinstance(seal, str):
        return raw, None
    rest = {key: one for key, one in fields.items() if key != "sessionChecksum"}
    return msgspec.Raw(encode(rest, where="event")) if value is not raw else rest, seal


def _seal(outer: _SessionJson, unread: JsonObject, sums: Sequence[str]) -> str:
    """The checksum of a session: what is around its events, and theirs but the last one's.

    The last event has it, as google-adk refuses unknown fields of a session but not of an event;
    that event's own checksum covers this one.
    """
    around = [
        outer.id,
        outer.app_name,
        outer.user_id,
        outer.state,
        outer.last_update_time,
        unread,
        sums,
    ]
    try:
        text = json.dumps(around, sort_keys=True, separators=(",", ":"))
    except RecursionError:
        raise SessionError("the state nests too deep", where="session.state") from None
    return f"{crc32(text.encode()):08x}"


def read_session(path: "Path", *, trusted: bool = False) -> Session:
    """Read a session from a JSON file; `trusted` as for `Session.from_json`."""
    try:
        data = path.read_bytes()
    except OSError as error:
        raise SessionError(
            f"the session cannot be read: {error.strerror}", where=str(path)
        ) from None
    return Session.from_json(data, name=str(path), trusted=trusted)


def _last_invocation(log: Strand[Event]) -> str:
    return log[-1].invocation_id if len(log) else ""


def stored(event: Event) -> Event:
    """The event without its `temp:` deltas."""
    delta = event.actions.state_delta
    lasting = without_temp(delta) if delta else delta
    if len(lasting) == len(delta):
        return event
    return replace(event, actions=replace(event.actions, state_delta=lasting))


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


def _words(error: Exception) -> str:
    if isinstance(error, RecursionError):
        return "it nests too deep"
    return str(error)


def admitted(
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
    """Whether it is one event that `admitted` would let through, as nearly always."""
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
        raise _misplaced(author, "author", "text")
    if type(actions) is not Actions:
        raise _misplaced(actions, "actions", "weft.Actions")
    if content is not None:
        if type(content) is not Content:
            raise _misplaced(content, "content", "weft.Content")
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
        require_object(actions.state_delta, where="actions.stateDelta")
    if event.custom_metadata:
        require_object(event.custom_metadata, where="customMetadata")


def _misplaced(value: object, where: str, wanted: str) -> SessionError:
    return SessionError(f"{describe_kind(value)} stands there", where=where, hint=f"pass {wanted}")


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
