"""A request read into a log that knows where each part of it stands in the caller's JSON.

Nothing is translated: a part that nobody knows becomes no event, and stays where it is. The log
grows with the conversation. The caller sends the whole history with every request, so what was
read of it before is found by a hash of its messages, and only new messages are read.
"""

import json
import operator
import re
import secrets
from collections import OrderedDict
from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from hashlib import sha256
from threading import Lock
from typing import Generic, Literal, NamedTuple, TypeAlias, TypeVar, cast

import msgspec

from weft.compaction.splicing import (
    Unlike,
    join_elements,
    replace_fields,
    split_list,
    split_object,
)
from weft.content import Content, Part, require_content
from weft.dialects import DIALECTS, Dialect, dialect_of
from weft.dialects.caching import MARKS
from weft.dialects.wire import ReadPart, ReadTurn, objects_in
from weft.digest.acts import are_remarks
from weft.errors import SessionError, UsageError, describe_kind
from weft.session import Event, Session
from weft.session.provenance import Provenance
from weft.session.strand import Strand
from weft.values import Json, JsonObject

AGENT = "agent"
"""The author of the model's words, as the log has it."""

Path: TypeAlias = tuple[str | int, ...]
"""The way to a place in a message: keys of objects and indexes of lists."""

Request: TypeAlias = "JsonObject | list[JsonObject] | bytes | str"
"""What `compact` takes: a request or a list of its messages, parsed or as JSON."""


# --- what came


class RequestBody(NamedTuple):
    """A request as it came, and its messages one by one.

    `keys` are the bytes of each message. `bare` are the same without marks for the cache, which
    move on from request to request: by them a message is known again. `raw` is the JSON where it
    came as such, with the bytes of its `fields`, and `is_list` says that only messages came.
    """

    request: Request
    wire: JsonObject
    dialect: Dialect
    messages: list[Json]
    keys: list[bytes]
    bare: list[bytes]
    raw: bytes | None
    is_list: bool
    fields: Mapping[str, msgspec.Raw]


def read_body(request: Request, dialect: str | None) -> RequestBody:
    """The request, with its messages apart; a UsageError where it is not a request."""
    raw: bytes | None = None
    value: object = request
    split: _SplitBody | None = None
    if isinstance(request, (bytes, bytearray, memoryview, str)):
        raw = request.encode() if isinstance(request, str) else bytes(request)
        split = _split_body(raw)
        value = split.wire if split is not None else _decode(raw)
    if isinstance(value, list):
        listed = cast("list[Json]", value)
        target = _find_dialect(dialect, lambda: _dialect_of_list(listed))
        wire: JsonObject = {target.traits.turns: listed}
    elif isinstance(value, dict):
        wire = cast("JsonObject", value)
        target = _find_dialect(dialect, lambda: dialect_of(wire))
    else:
        raise UsageError(
            f"{describe_kind(value)} is not a request",
            where="weft.compact",
            hint="pass a provider's request as a dict or as JSON, or a list of its messages",
        )
    if raw is not None and split is not None:
        turns = target.traits.turns
        spans, messages = split.messages.get(turns), wire.get(turns)
        if spans is not None and isinstance(messages, list):
            keys, bare = spans
            return RequestBody(
                request, wire, target, messages, keys, bare, raw, False, split.fields
            )
    return take_apart(request, wire, target, raw, is_list=isinstance(value, list))


class _SplitBody(NamedTuple):
    """A JSON object whose lists of messages were read one by one.

    `messages` has the bytes of each, as they came and without marks.
    """

    wire: JsonObject
    fields: dict[str, msgspec.Raw]
    messages: dict[str, tuple[list[bytes], list[bytes]]]


def _split_body(raw: bytes) -> _SplitBody | None:
    """A request of which only new messages are decoded; None for what is not usual JSON."""
    lists = DIALECTS.turn_fields()
    try:
        grown = _bodies.find_grown(raw, lists)
    except (ValueError, RecursionError):
        grown = None  # what is wrong is told of the whole
    if grown is not None:
        return grown
    try:
        wire: JsonObject = {}
        split: dict[str, tuple[list[bytes], list[bytes]]] = {}
        fields = split_object(raw)
        for name, value in fields.items():
            if name not in lists or bytes(memoryview(value)[:1]) != b"[":
                wire[name] = cast("Json", msgspec.json.decode(value))
                continue
            listed = split_list(value)
            known = _messages.find(listed)
            fresh = listed[len(known) :]
            messages = [one.message for one in known]
            messages += [cast("Json", msgspec.json.decode(one)) for one in fresh]
            # the same bytes again: to compare them later takes no time
            keys = [*(one.key for one in known), *fresh]
            split[name] = keys, [*(one.bare for one in known), *map(unmarked_bytes, fresh)]
            wire[name] = messages
        if len(split) == 1:
            ((turns, (keys, bare)),) = split.items()
            messages = cast("list[Json]", wire[turns])
            _messages.keep(keys, [*map(_Message, keys, messages, bare)])
            _bodies.keep(raw, wire, fields, turns, keys, bare)
    except (ValueError, RecursionError):
        return None
    return _SplitBody(wire, fields, split)


class _ReadBody(NamedTuple):
    """The bytes of a request, what stands before its messages, and where each of those ends."""

    raw: bytes
    lead: dict[str, tuple[Json, msgspec.Raw]]
    turns: str
    start: int
    ends: list[int]
    keys: list[bytes]
    bare: list[bytes]
    messages: list[Json]


class _RecentBodies:
    """The requests that came last, for those whose bytes begin as theirs do; bounded.

    A client mostly sends the bytes of the request before, with new messages after the last one. To
    compare the bytes takes a part of the time that reading them does.
    """

    MOST = 8
    LARGEST = 32_000_000
    """How many bytes of requests are remembered at most."""
    NEARLY = 4
    """How many messages may differ from those of the request before: marks move on."""

    def __init__(self) -> None:
        self._recent: list[_ReadBody] = []
        self._lock = Lock()
        # nobody can write it into a request, so what is put together below is told from what came
        self._mark = secrets.token_hex(8)

    def find_grown(self, raw: bytes, lists: Collection[str]) -> _SplitBody | None:
        """A request that goes on from one that is known; None where there is none, or it is odd."""
        count, known = 0, None
        for one in reversed(self._recent):
            common = _count_same(raw, one)
            if common > count:
                count, known = common, one
                if common >= len(one.ends) - self.NEARLY:
                    break
        if known is None:
            return None
        at = known.ends[count - 1]
        if _AFTER_ELEMENT.match(raw, at) is None:
            return None
        begun = b'{"%b":["%b"' % (known.turns.encode(), self._mark.encode())
        fields = split_object(begun + raw[at:])
        listed = split_list(fields.pop(known.turns))
        if listed[:1] != [b'"%b"' % self._mark.encode()] or fields.keys() & known.lead.keys():
            return None  # a field that stands there twice
        if any(name in lists for name in fields):
            return None  # messages of two kinds
        fresh = listed[1:]
        keys, ends = [*known.keys[:count], *fresh], known.ends[:count]
        bare = [*known.bare[:count], *map(unmarked_bytes, fresh)]
        if not _add_ends(raw, ends, fresh):
            return None
        messages = known.messages[:count]
        messages += [cast("Json", msgspec.json.decode(one)) for one in fresh]
        wire: JsonObject = {name: value for name, (value, _) in known.lead.items()}
        wire[known.turns] = messages
        wire.update({name: cast("Json", msgspec.json.decode(one)) for name, one in fields.items()})
        every = {name: span for name, (_, span) in known.lead.items()}
        every[known.turns] = msgspec.Raw(raw[known.start : raw.index(b"]", ends[-1]) + 1])
        every.update(fields)
        before = known if count == len(known.ends) else None
        grown = known._replace(raw=raw, ends=ends, keys=keys, bare=bare, messages=messages)
        self._add(grown, before)
        return _SplitBody(wire, every, {known.turns: (keys, bare)})

    def keep(
        self,
        raw: bytes,
        wire: JsonObject,
        fields: Mapping[str, msgspec.Raw],
        turns: str,
        keys: list[bytes],
        bare: list[bytes],
    ) -> None:
        """Remember a request that was read, of which `turns` are the messages."""
        names = [*fields]
        lead = {name: (wire[name], fields[name]) for name in names[: names.index(turns)]}
        # the messages stand after that many letters
        least = sum(len(memoryview(span)) for _, span in lead.values())
        place = re.compile(rb'"%b"\s*:\s*\[' % re.escape(turns.encode())).search(raw, least)
        if place is None or not raw.startswith(bytes(fields[turns]), place.end() - 1):
            return  # the words stood in another field
        ends = [place.end()]
        if _add_ends(raw, ends, keys):
            messages = cast("list[Json]", wire[turns])
            body = _ReadBody(raw, lead, turns, ends[0] - 1, ends[1:], keys, bare, messages)
            self._add(body, None)

    def _add(self, body: _ReadBody, before: _ReadBody | None) -> None:
        with self._lock:
            recent = [one for one in self._recent if one is not before]
            recent.append(body)
            size = sum(len(one.raw) for one in recent)
            while recent and (len(recent) > self.MOST or size > self.LARGEST):
                size -= len(recent.pop(0).raw)
            self._recent = recent

    def clear(self) -> None:
        """Forget everything."""
        self._recent = []


def _count_same(raw: bytes, known: _ReadBody) -> int:
    """How many messages two requests have in the same bytes, and all that stands before them."""
    if not raw.startswith(known.raw[: known.start]):
        return 0
    low, high, done = 0, len(known.ends), known.start
    middle = high  # mostly all of them
    while low < high:
        end = known.ends[middle - 1]
        if raw.startswith(known.raw[done:end], done):
            low, done = middle, end
        else:
            high = middle - 1
        middle = (low + high + 1) // 2
    return low


def _add_ends(raw: bytes, ends: list[int], keys: Sequence[bytes]) -> bool:
    """Where each of these elements ends, which follow each other; whether they do."""
    for key in keys:
        between = _BETWEEN.match(raw, ends[-1])
        start = between.end() if between is not None else ends[-1]
        if not raw.startswith(key, start):
            return False
        ends.append(start + len(key))
    return True


_AFTER_ELEMENT = re.compile(rb"\s*[,\]]")
_BETWEEN = re.compile(rb"\s*,?\s*")


def take_apart(
    request: Request, wire: JsonObject, dialect: Dialect, raw: bytes | None, *, is_list: bool
) -> RequestBody:
    """A request whose value is known, with its messages apart."""
    turns = wire.get(dialect.traits.turns)
    messages = turns if isinstance(turns, list) else []
    keys, fields = None, dict[str, msgspec.Raw]()
    if raw is not None:
        try:
            fields = {} if is_list else split_object(raw)
            span = raw if is_list else fields.get(dialect.traits.turns)
            keys = split_list(span) if span is not None else []
        except ValueError:  # its messages cannot be told apart
            keys = None
    if keys is None or len(keys) != len(messages):  # what only Python reads has no bytes of its own
        raw, keys = None, _encode_all(messages)
    bare = [*map(unmarked_bytes, keys)]
    return RequestBody(request, wire, dialect, messages, keys, bare, raw, is_list, fields)


def unmarked_bytes(key: bytes) -> bytes:
    """The bytes of a message without the marks for the cache at the parts of its content."""
    if not any(mark in key for mark in QUOTED_MARKS):
        return key
    try:
        fields = split_object(key)
        content = bytes(fields.get("content", b""))
        listed = split_list(content)
        elements = [_unmarked_part(one) for one in listed]
        if elements == listed:
            return key
        return replace_fields(key, {"content": join_elements(content, listed, elements)})
    except (ValueError, Unlike):  # a text, or a field that stands there twice
        return key


def _unmarked_part(part: bytes) -> bytes:
    if not part.startswith(b"{") or not any(mark in part for mark in QUOTED_MARKS):
        return part
    gone = split_object(part).keys() & MARKS
    return replace_fields(part, {}, gone) if gone else part


QUOTED_MARKS = [f'"{mark}"'.encode() for mark in MARKS]


def _decode(raw: bytes) -> object:
    try:
        return cast("object", msgspec.json.decode(raw))
    except (ValueError, RecursionError):
        pass
    try:  # half a character, or a number that JSON does not have
        return cast("object", json.loads(raw))
    except (ValueError, RecursionError) as error:
        raise UsageError(
            f"this is not JSON: {error}",
            where="weft.compact",
            hint="pass the body of a request, or a dict",
        ) from None


_ENCODER = msgspec.json.Encoder()


def _encode_all(messages: list[Json]) -> list[bytes]:
    try:
        return [*map(_ENCODER.encode, messages)]
    except (UnicodeEncodeError, OverflowError, TypeError, RecursionError):
        return [_encode(message, index) for index, message in enumerate(messages)]


def _encode(message: Json, index: int) -> bytes:
    """A message that JSON has no good form for, or an error that says which it is."""
    try:
        return json.dumps(message, separators=(",", ":")).encode()
    except (TypeError, ValueError, RecursionError) as error:
        raise UsageError(
            f"this message is not JSON: {error}",
            where=f"weft.compact: messages[{index}]",
            hint="pass plain dicts: message.model_dump(exclude_unset=True) of a library's object",
        ) from None


def _find_dialect(named: str | None, by_shape: Callable[[], str]) -> Dialect:
    name = named if named is not None else by_shape()
    if name in DIALECTS:
        return DIALECTS[name]
    known = ", ".join(DIALECTS)
    message = f"{named!r} is not a dialect" if named is not None else "this is not a request"
    raise UsageError(
        message, where="weft.compact", hint=f"pass a request, or name the dialect: {known}"
    )


def _dialect_of_list(messages: list[Json]) -> str:
    """Whose messages these are, by their shape."""
    listed = objects_in(cast("Json", messages))
    for name in DIALECTS:
        parts = DIALECTS[name].traits.parts
        if parts != "content" and any(parts in one for one in listed):
            return name
    pieces = [one for message in listed for one in objects_in(message.get("content"))]
    if any("role" not in one for one in listed) or any(
        str(one.get("type")).startswith(("input_", "output_")) for one in pieces
    ):
        return dialect_of({"input": messages})
    return dialect_of({"messages": messages})


# --- what it says


class PartPlace(NamedTuple):
    """Where a part of an event stands: its message, and the way to it there.

    The way is None where the part stands nowhere by itself, so that nothing can be patched.
    """

    message: int
    path: Path | None


class ReadHistory(msgspec.Struct, frozen=True):
    """What was read of a conversation: its log, and by event where each part of it stands.

    `length` messages were read, and `names` are the tools that were called in them by the ids of
    the calls. `last` is the kind of the last event, to which the next message may belong. The
    model's last answer begins with message `answered`; that is 0 where there is none.
    """

    length: int = 0
    session: Session = msgspec.field(default_factory=lambda: Session("request"))
    places: Strand[tuple[PartPlace, ...]] = msgspec.field(
        default_factory=Strand[tuple[PartPlace, ...]]
    )
    names: dict[str, str] = {}
    turns: int = 0
    last: str = ""
    answered: int = 0


class _Unit(NamedTuple):
    """What one side says together, which becomes an event: a user's words, results, an answer."""

    kind: Literal["user", "results", "answer"]
    parts: list[Part]
    places: list[PartPlace]


class HistoryReader:
    """Reads the messages of one dialect."""

    def __init__(self, dialect: Dialect, model: str) -> None:
        self.dialect = dialect
        self.model = model
        traits = dialect.traits
        # where each call is an element of its own, those of one answer follow each other
        self._joining = {"results"} | ({"answer"} if traits.calls == ("", "") else set[str]())

    def extend(self, history: ReadHistory, messages: Sequence[Json]) -> ReadHistory | None:
        """The history with all of the messages; None where a new one belongs to its last event."""
        names = {**history.names}
        answered = history.answered
        units: list[_Unit] = []
        for index in range(history.length, len(messages)):
            for unit in self._read(messages[index], index, names):
                last = units[-1].kind if units else history.last
                if unit.kind == last and unit.kind in self._joining:
                    if not units:
                        return None
                    units[-1].parts.extend(unit.parts)
                    units[-1].places.extend(unit.places)
                    continue
                answered = index if unit.kind == "answer" else answered
                units.append(unit)
        turns, number = history.turns, len(history.session.events)
        events: list[Event] = []
        places: list[tuple[PartPlace, ...]] = []
        before = history.last
        for unit in units:
            # what a program says beside results begins no turn
            turns += unit.kind == "user" and not (before == "results" and are_remarks(unit.parts))
            before = unit.kind
            event = self._event(unit, number + len(events) + 1, max(1, turns))
            events.append(event)
            places.append(tuple(unit.places))
        return ReadHistory(
            len(messages),
            history.session.append(*events) if events else history.session,
            history.places.extend(places),
            names,
            turns,
            units[-1].kind if units else history.last,
            answered,
        )

    def find_answer(self, messages: Sequence[Json]) -> int:
        """The message that the model's last answer begins with, as `ReadHistory.answered`."""
        first = 0
        for index in range(len(messages) - 1, -1, -1):
            kinds = [unit.kind for unit in self._read(messages[index], index, {})]
            if "answer" in kinds:
                first = index
                if "answer" not in self._joining:
                    break
            elif first and kinds:
                break
        return first

    def _read(self, message: Json, index: int, names: dict[str, str]) -> Iterator[_Unit]:
        """What a message says; nothing where it is the author's, or nobody knows what it is."""
        if not isinstance(message, dict):
            return
        turns = self.dialect.traits.turns
        spelled = self.dialect.spell({turns: [message]})
        try:
            reading = self.dialect.read(spelled)
        except UsageError:
            return
        finder = _Finder(objects_in(spelled[turns])[0])
        for turn in reading.turns:
            if turn.role != "system":
                yield from self._units(turn, index, names, finder)

    def _units(
        self, turn: ReadTurn, index: int, names: dict[str, str], finder: "_Finder"
    ) -> Iterator[_Unit]:
        results, words = _Unit("results", [], []), _Unit("user", [], [])
        if turn.role == "model":
            words = _Unit("answer", [], [])
        for one in turn.parts:
            part = one.part
            place = PartPlace(index, finder.find(one))
            call, result = part.function_call, part.function_response
            if part.kind == "empty" or not _is_sound(part):
                continue
            if call is not None and call.id:
                names[call.id] = call.name or ""
            if result is None or turn.role == "model":
                words.parts.append(part)
                words.places.append(place)
                continue
            if not result.name:
                named = msgspec.structs.replace(result, name=names.get(result.id or "", ""))
                part = msgspec.structs.replace(part, function_response=named)
            results.parts.append(part)
            results.places.append(place)
        yield from (unit for unit in (results, words) if unit.parts)

    def _event(self, unit: _Unit, number: int, turn: int) -> Event:
        """An event with a name and a time that its place alone decides."""
        answers = unit.kind == "answer"
        maker = None
        # who signed something, or said what only it can read, is named
        if answers and any(_is_signed(part) for part in unit.parts):
            maker = Provenance(provider=self.dialect.traits.name, model=self.model).onto(None)
        return Event(
            author="user" if unit.kind == "user" else AGENT,
            content=Content(parts=tuple(unit.parts), role="model" if answers else "user"),
            id=f"e{number}",
            invocation_id=f"i{turn}",
            timestamp=float(number),
            custom_metadata=maker,
        )


def _is_signed(part: Part) -> bool:
    return bool(part.thought or part.thought_signature or part.part_metadata)


def _is_sound(part: Part) -> bool:
    """Whether the log takes the part."""
    if part.text is not None and part.function_call is None and part.part_metadata is None:
        return True
    try:
        require_content(Content(parts=(part,), role="user"), where="part")
    except (SessionError, UsageError):
        return False
    return True


class _Finder:
    """Finds the places of parts that were read of a message."""

    def __init__(self, message: JsonObject) -> None:
        self._message = message
        self._used: set[Path] = set()

    def find(self, one: ReadPart) -> Path | None:
        """The way to a part: to its object, or to its text where that stands alone."""
        path = self._find(one)
        if path is not None:
            self._used.add(path)
        return path

    def _find(self, one: ReadPart) -> Path | None:
        source, text = one.source or one.wire, one.part.text
        if source is self._message:
            return ()
        for path, value in _walk(self._message, ()):
            if path in self._used or value is None:
                continue
            if value is source or (text and value is text):
                return path
        return None


def _walk(value: Json, path: Path) -> Iterator[tuple[Path, Json]]:
    """Everything in a message that a part may be, those above first; parts lie in its lists."""
    if isinstance(value, dict):
        for key, inner in value.items():
            yield (*path, key), inner
            if isinstance(inner, list):
                yield from _walk(inner, (*path, key))
    elif isinstance(value, list) and len(path) < _DEEPEST:
        for index, inner in enumerate(value):
            yield (*path, index), inner
            if isinstance(inner, dict):
                yield from _walk(inner, (*path, index))


_DEEPEST = 3
"""How far down parts are looked for: a field of an element of a list of a message."""


# --- what was read before

Value = TypeVar("Value")


class MessageCache(Generic[Value]):
    """A value for each message of the requests that came last, by all messages up to it; bounded.

    To compare a request with the few that came last is quicker than to hash all of its messages.
    """

    MOST = 16
    LARGEST = 32_000_000
    """How many bytes of messages are remembered at most."""

    def __init__(self) -> None:
        self._recent: list[tuple[list[bytes], list[Value], int]] = []
        self._lock = Lock()

    def find(self, keys: list[bytes]) -> list[Value]:
        """The values of the messages that this request begins with, as far as they are known."""
        longest, values = 0, list[Value]()
        for known, its_values, _ in self._recent:
            common = len(known)
            if known != keys[:common]:
                same = map(operator.eq, known, keys)
                shorter = min(common, len(keys))
                common = next((at for at, one in enumerate(same) if not one), shorter)
            if common > longest:
                longest, values = common, its_values
        return values[:longest]

    def keep(self, keys: list[bytes], values: list[Value]) -> None:
        """Remember a request, in place of one that it begins with."""
        with self._lock:
            recent = [one for one in self._recent if one[0] != keys[: len(one[0])]]
            recent.append((keys, values, sum(map(len, keys))))
            size = sum(one[2] for one in recent)
            while recent and (len(recent) > self.MOST or size > self.LARGEST):
                size -= recent.pop(0)[2]
            self._recent = recent

    def clear(self) -> None:
        """Forget everything."""
        self._recent = []


class _Message(NamedTuple):
    """A message, its bytes, and those without marks."""

    key: bytes
    message: Json
    bare: bytes


_messages: MessageCache[_Message] = MessageCache()
"""The messages that were decoded last."""

_bodies = _RecentBodies()
"""The requests that came last, by their bytes."""


class _Known(NamedTuple):
    """A history by the hash of its messages, and how large they are."""

    history: ReadHistory
    size: int


class Histories:
    """The histories that were read last, by the hash of their messages; bounded.

    The whole history comes with every request. It mostly begins with one that is known.
    """

    MOST = 256
    LARGEST = 64_000_000
    """How many letters of messages are remembered at most."""

    def __init__(self) -> None:
        self._known: OrderedDict[bytes, _Known] = OrderedDict()
        self._size = 0
        self._lock = Lock()

    def read(
        self, reader: HistoryReader, body: RequestBody, chains: Sequence[bytes]
    ) -> ReadHistory:
        """The history of a request, of which only what is new is read."""
        for index in range(len(chains) - 1, -1, -1):
            with self._lock:
                known = self._known.get(chains[index])
                if known is not None:
                    self._known.move_to_end(chains[index])
            if known is None:
                continue
            if known.history.length == len(body.messages):
                return known.history
            grown = reader.extend(known.history, copy_bare(body, known.history.length))
            if grown is not None:
                return self._keep(chains, grown, body)
        history = reader.extend(ReadHistory(), copy_bare(body, 0))
        assert history is not None  # an empty history has no last event
        return self._keep(chains, history, body)

    def knows(self, chains: Sequence[bytes]) -> bool:
        """Whether anything of a conversation was read."""
        return any(chain in self._known for chain in reversed(chains))

    def _keep(
        self, chains: Sequence[bytes], history: ReadHistory, body: RequestBody
    ) -> ReadHistory:
        if not chains:
            return history
        size = sum(map(len, body.keys))
        with self._lock:
            before = self._known.pop(chains[-1], None)
            self._size += size - (before.size if before is not None else 0)
            self._known[chains[-1]] = _Known(history, size)
            while len(self._known) > self.MOST or (
                self._size > self.LARGEST and len(self._known) > 1
            ):
                _, oldest = self._known.popitem(last=False)
                self._size -= oldest.size
        return history

    def clear(self) -> None:
        """Forget everything."""
        for cache in (_messages, _chains, _bodies):
            cache.clear()
        with self._lock:
            self._known.clear()
            self._size = 0


def chain_hashes(keys: list[bytes], start: bytes) -> list[bytes]:
    """After each message the hash of all messages so far, and of `start` before them."""
    listed = [start, *keys]
    chain = _chains.find(listed)
    for key in listed[len(chain) :]:
        chain.append(sha256(chain[-1] + key if chain else key).digest())
    _chains.keep(listed, chain)
    return chain[1:]


_chains: MessageCache[bytes] = MessageCache()


def copy_bare(body: RequestBody, start: int) -> list[Json]:
    """The messages, from `start` on without marks, as copies: the caller may change his later."""
    messages = body.messages[:]
    for at in range(start, len(messages)):
        # nobody else has what was decoded here
        if body.raw is None or body.bare[at] is not body.keys[at]:
            messages[at] = cast("Json", _decode(body.bare[at]))
    return messages
