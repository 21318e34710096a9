"""The JSON of a session, ADK's: how it is written, sealed with checksums, and read back.

Other spellings of the same fields are read too. Fields that nobody knows are kept and written
again.
"""

import json
import logging
import re
from collections.abc import Callable, Sequence
from typing import NoReturn, cast
from zlib import crc32

import msgspec
from msgspec.structs import replace

from weft.content import Value, distrust
from weft.errors import SessionError, describe_kind
from weft.late import late_pattern
from weft.session.event import Event, event_from, respell_fields
from weft.session.flow import flow_in, mark_imported
from weft.session.provenance import without_trust
from weft.values import Json, JsonObject, encode


class SavedSession(msgspec.Struct, frozen=True):
    """What the JSON of a session says."""

    id: str
    app_name: str
    user_id: str
    state: JsonObject
    events: list[Event]
    last_update_time: float
    unread: JsonObject
    """Fields that nobody knows, as they were."""
    start: JsonObject
    """What the session began with and events wrote over: the state does not tell any more."""
    sealed: bool = False
    """Whether it is just as Weft wrote it."""


def encode_session(session: SavedSession) -> bytes:
    """The JSON, with a checksum of each event and, in the last one, of the session around them."""
    around = {
        "id": session.id,
        "appName": session.app_name,
        "userId": session.user_id,
        "state": msgspec.Raw(encode(session.state, where="session.state")),
        "events": list[msgspec.Raw](),
        "lastUpdateTime": session.last_update_time,
        **{
            name: msgspec.Raw(encode(field_value, where=f"session.{name}"))
            for name, field_value in session.unread.items()
        },
    }
    if not session.events:
        return msgspec.json.encode(around)
    *events, last = [event.to_json() for event in _with_start(session)]
    sums = [f"{crc32(data):08x}" for data in events]
    seen = _open_session(msgspec.json.encode(around))  # as who reads it will see it
    seal = _seal(seen.outer, seen.unread, sums)
    last = _with(last, "sessionChecksum", seal)
    texts = [_with(data, "checksum", sum) for data, sum in zip(events, sums, strict=True)]
    texts.append(_with(last, "checksum", f"{crc32(last):08x}"))
    return msgspec.json.encode({**around, "events": [msgspec.Raw(text) for text in texts]})


def decode_session(data: bytes | str, *, name: str, trusted: bool) -> SavedSession:
    """What the JSON says, once its checksums are right; an error names the event and the field."""
    if not isinstance(cast("object", data), bytes | bytearray | str):
        raise SessionError(
            f"{describe_kind(data)} is not JSON text",
            where=name,
            hint="pass bytes or text, or build a weft.Session from events",
        )
    try:
        opened = _open_session(data)
    except (ValueError, RecursionError) as error:
        raise SessionError(f"this is not a session: {_words(error)}", where=name) from None
    events: list[Event] = []
    sums: list[str | None] = []
    start: JsonObject = {}
    seal: str | None = None
    for index, raw in enumerate(opened.events):
        where = f"{name}: events[{index}]"
        try:
            event, sum, seal = _decode_event(raw, opened.decode, where)
            if event.unread:
                event = _without_start(event, start)
            events.append(event if trusted else _strip_trust(event))
        except (ValueError, RecursionError) as error:
            raise SessionError(
                f"this is not an event: {_words(error)}",
                where=where,
                hint="events are ADK's JSON: camelCase fields, content {role, parts}",
            ) from None
        sums.append(sum)
        if event.unread:
            _log.warning(_KEPT, where, ", ".join(event.unread))
    outer, unread = opened.outer, opened.unread
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
        _log.warning(_KEPT, name, ", ".join(unread))
    return SavedSession(
        outer.id,
        outer.app_name,
        outer.user_id,
        outer.state,
        events,
        outer.last_update_time,
        unread,
        start,
        sealed=seal is not None and any(sums),
    )


def _with_start(session: SavedSession) -> Sequence[Event]:
    """The events; with the last goes what the session began with and events wrote over."""
    if not session.start:
        return session.events
    *events, last = session.events
    # google-adk refuses unknown fields of a session but not of an event
    return [*events, replace(last, unread={**last.unread, _START: session.start})]


def _without_start(event: Event, start: JsonObject) -> Event:
    """The event as the log has it; what it says of the start of the session goes to `start`."""
    if _START not in event.unread:
        return event
    own = event.unread[_START]
    if not isinstance(own, dict):
        raise ValueError("Expected `object`, at `$.sessionStart`")
    start.update(own)
    return replace(event, unread={k: v for k, v in event.unread.items() if k != _START})


_START = "/sessionStart"
"""The place of that field in an event."""


def _decode_event(
    raw: object, decode: "Callable[[object], Event]", where: str
) -> tuple[Event, str | None, str | None]:
    """One event, its checksum, and that of the session around it, where it has them."""
    raw, checksum, sound = _split_checksum(raw)
    raw, seal = _split_seal(raw)
    if not sound:
        raise SessionError(
            "the event is damaged: it is not what its checksum was made of",
            where=where,
            hint=_CHANGED,
        )
    try:
        return decode(raw), checksum, seal
    except msgspec.ValidationError as error:
        return _respelled_event(raw, error), checksum, seal


class _SessionJson(Value, frozen=True, gc=True, omit_defaults=False):
    """The outer JSON of a session; events stay raw so that an error can name its index."""

    id: str = ""
    app_name: str = ""
    user_id: str = ""
    state: JsonObject = {}
    events: list[msgspec.Raw] = []
    last_update_time: float = 0.0


_log = logging.getLogger("weft")

_KEPT = "%s has unknown fields, which are kept: %s"

_event_decoder = msgspec.json.Decoder(Event)

_surrogate = late_pattern(r"\\u[dD][89a-fA-F]|[\ud800-\udfff]")


class _UnreadSession(msgspec.Struct, frozen=True):
    """The outer JSON, the events in it, how to read one of them, and the unknown fields."""

    outer: _SessionJson
    events: Sequence[object]
    decode: Callable[[object], Event]
    unread: JsonObject


def _open_session(data: bytes | str) -> _UnreadSession:
    """A session's JSON before its events are read.

    Lone surrogates, half an emoji for instance, are legal in JSON text but not to the fast
    reader; a session that has them is read by the slow one.
    """
    try:
        outer = msgspec.json.decode(data, type=_SessionJson)
        decode = cast("Callable[[object], Event]", _event_decoder.decode)
        return _UnreadSession(outer, outer.events, decode, {})
    except msgspec.ValidationError as error:
        refused = error
    except ValueError:
        refused = None
    return _respelled_session(_parse_values(data), refused)


def _parse_values(data: bytes | str) -> object:
    """The JSON as plain values; a field that nobody knows may stand before the first surrogate."""
    try:
        return msgspec.json.decode(data)
    except ValueError:
        text = data if isinstance(data, str) else data.decode()
        if not _surrogate.search(text):
            raise
    return json.loads(text, parse_constant=_refuse_constant)


def _respelled_session(
    data: object, refused: msgspec.ValidationError | None = None
) -> _UnreadSession:
    """The outer JSON in another spelling; if that is not what is wrong, the first complaint.

    A field is unknown where none of ours is missing: else it is one of them, misspelt.
    """
    spelled = respell_fields(data, _SessionJson)
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
        return _UnreadSession(msgspec.convert(parsed, _SessionJson), listed, event_from, unread)
    except msgspec.ValidationError as error:
        raise (refused or error) from None


def _respelled_event(raw: object, refused: msgspec.ValidationError) -> Event:
    """The event in another spelling; if that is not what is wrong, the first complaint."""
    parsed: object = msgspec.json.decode(raw) if isinstance(raw, msgspec.Raw) else raw
    return event_from(parsed, refused)


def _refuse_constant(name: str) -> NoReturn:
    raise ValueError(f"{name} is not JSON")


def _strip_trust(event: Event) -> Event:
    """The event as it counts where nobody knows that Weft wrote it."""
    content, metadata = event.content, event.custom_metadata
    if content is not None and (mended := distrust(content)) is not content:
        event = replace(event, content=mended)
    if metadata is None:
        return event
    if flow_in(metadata) is not None:  # a label that somebody else wrote says nothing
        metadata = mark_imported(metadata)
        event = replace(event, custom_metadata=metadata)
    marked = without_trust(metadata, by_user=event.author in ("user", ""))
    return event if marked is None else replace(event, custom_metadata=marked)


_CHECKSUM = re.compile(rb',"checksum":"([0-9a-f]{8})"\}\Z')

_SEAL = re.compile(rb',"sessionChecksum":"([0-9a-f]{8})"\}\Z')

_CHANGED = (
    "restore it; or, if it was changed on purpose, take out every `checksum` and `sessionChecksum`"
)


def _split_checksum(raw: object) -> tuple[object, str | None, bool]:
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
    sums = (crc32(text), crc32(_seal_event(rest)))
    sound = int(checksum, 16) in sums
    return msgspec.Raw(text) if value is not raw else rest, checksum, sound


def _seal_event(event: dict[str, object]) -> bytes:
    """The JSON of an event as it is written, whatever the order of its fields was."""
    seal = event.get("sessionChecksum")
    data = event_from({k: v for k, v in event.items() if k != "sessionChecksum"}).to_json()
    return _with(data, "sessionChecksum", seal) if isinstance(seal, str) else data


def _with(event: bytes, name: str, checksum: str) -> bytes:
    """The JSON of an event with a checksum after it."""
    return b'%b,"%b":"%b"}' % (event[:-1], name.encode(), checksum.encode())


def _split_seal(raw: object) -> tuple[object, str | None]:
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


def _words(error: Exception) -> str:
    if isinstance(error, RecursionError):
        return "it nests too deep"
    return str(error)
