"""Plain talk: what was said in a stretch of a log, as far as a request needs it.

Most events of a long log are a text, or calls right before their results, and nothing else. They
are read in short, a few fields instead of forty. What is made of them is the same for every
provider, so a store may keep it next to the events.
"""

from bisect import bisect_left, bisect_right
from collections.abc import Callable, Iterable, Mapping, Sequence
from collections.abc import Set as AbstractSet
from typing import Literal, NamedTuple
from zlib import compress, decompress, error

import msgspec

from weft.content import FunctionCall, FunctionResponse, Part, Value
from weft.session.event import Event, read_event
from weft.values import JsonObject

INTERNAL_CALLS = frozenset(
    ("adk_framework", "adk_request_credential", "adk_request_confirmation", "adk_request_input")
)
"""Calls a framework makes to itself or to its client; no model ever made or reads them."""


class PlainCall(msgspec.Struct, array_like=True, frozen=True, gc=False):
    """A call, and what it returned."""

    id: str
    name: str
    args: JsonObject
    response: JsonObject

    @property
    def has_own_id(self) -> bool:
        """Whether the provider may know the id: the runtime and google-adk make up others."""
        return not self.id.startswith("adk-")


class Utterance(msgspec.Struct, array_like=True, frozen=True, gc=False):
    """What becomes one item of a request: a text, or calls and their results."""

    role: Literal["user", "model"]
    text: str = ""
    calls: tuple[PlainCall, ...] = ()


class Utterances(NamedTuple):
    """What was said in some events, one after the other, and in how many of them."""

    listed: Sequence[Utterance]
    events: int


FetchTalk = Callable[[int], Mapping[int, bytes]]
"""What reads the packed talk that begins at a position, and some that follows, by their positions.

A stretch that the store does not have is not in it.
"""


class StoredTalk:
    """The talk of a long log as its store has it next to the events; it is in the log's memo.

    `starts` are the positions at which a stretch may begin, `authors` those who speak in any.
    """

    def __init__(self, authors: AbstractSet[str], starts: Sequence[int], fetch: FetchTalk) -> None:
        self.authors = authors
        self._starts = starts
        self._fetch = fetch
        self._ahead: dict[int, bytes] = {}
        """Stretches that came along with others, and were not asked for yet."""

    def read(self, position: int) -> Utterances | None:
        """The stretch that begins at a position; None where there is none that can be read."""
        at = bisect_left(self._starts, position)
        if at == len(self._starts) or self._starts[at] != position:
            return None
        data = self._ahead.pop(position, None)
        if data is None:
            self._ahead = {**self._fetch(position)}
            data = self._ahead.pop(position, None)
        return unpack_talk(data) if data is not None else None

    def next_start(self, position: int) -> int | None:
        """Where the first stretch after a position begins."""
        at = bisect_right(self._starts, position)
        return self._starts[at] if at < len(self._starts) else None


def pack_talk(rows: Iterable[bytes], agent: str) -> bytes | None:
    """What is said in the rows of a log, packed; None where they are more than plain talk."""
    events = [read_talk_event(row) for row in rows]
    stretch = utterances(events, agent)
    if stretch.events < len(events):
        return None
    return compress(msgspec.msgpack.encode((_FORM, stretch.events, stretch.listed)))


def unpack_talk(data: bytes) -> Utterances | None:
    """What was packed; None where it is damaged, or of another version of Weft."""
    try:
        form, events, listed = _packed.decode(decompress(data))  # which has a checksum of its own
    except (error, msgspec.DecodeError):
        return None
    return Utterances(listed, events) if form == _FORM else None


_FORM = 1
"""The form of packed talk: that of another is not read."""

_packed = msgspec.msgpack.Decoder(tuple[int, int, list[Utterance]])


# --- events in short


class TalkPart(Value, frozen=True):
    """A part of plain talk: a text, a call or a result."""

    text: str | None = None
    function_call: FunctionCall | None = None
    function_response: FunctionResponse | None = None


class TalkContent(Value, frozen=True):
    """Who speaks, and the parts of what is said."""

    parts: tuple[TalkPart, ...] | None = None
    role: str | None = None


class NoActions(Value, frozen=True):
    """What plain talk does apart from being said: nothing."""


class TalkEvent(Value, frozen=True):
    """An event with the fields that plain talk has: there is nothing in the others.

    It has the names of an `Event`, and is read in less time: an event has four times as many
    fields. One that has anything else in it is refused.
    """

    author: str = ""
    content: TalkContent | None = None
    invocation_id: str = ""
    id: str = ""
    timestamp: float = 0.0
    turn_complete: bool | None = None
    usage: msgspec.Raw = msgspec.field(default=msgspec.Raw(), name="usageMetadata")
    finish_reason: str | None = None
    actions: NoActions = NoActions()
    model_version: str | None = None


_decoder = msgspec.json.Decoder(TalkEvent)


LONGEST_TALK = 16_000
"""Bytes of an event that is plain talk. A longer one may hold a result that is sent in short."""


def read_talk_event(data: bytes) -> "Event | TalkEvent":
    """The event that a JSON text holds, in short where it is plain talk and can be sent as it is.

    Raises ValueError, or RecursionError, where it holds none.
    """
    if len(data) <= LONGEST_TALK:
        try:
            talk = _decoder.decode(data)
        except msgspec.DecodeError:
            return read_event(data)
        if talk.id:  # an event without one gets a new one
            return talk
    return read_event(data)


# --- what is said in events


def utterances(events: Sequence[Event | TalkEvent], agent: str, start: int = 0) -> Utterances:
    """What the user and the agent say from `start` on, up to the first event that is more.

    An event that was not read in short counts as more.
    """
    listed: list[Utterance] = []
    index, length = start, len(events)
    while index < length:
        event = events[index]
        content = event.content
        if type(event) is not TalkEvent or content is None or not (parts := content.parts):
            break
        first, author = parts[0], event.author
        if first.function_call is not None and index + 1 < length:
            answered = events[index + 1]
            calls = paired_calls(event, answered, agent) if type(answered) is TalkEvent else None
            if calls is None:
                break
            listed.append(Utterance("model", "", calls))
            index += 2
            continue
        text = first.text
        if (
            not text
            or len(parts) > 1
            or first.function_call is not None
            or first.function_response is not None
            or (author != agent and author != "user")
        ):
            break
        is_asked = author == "user" or content.role == "user"
        listed.append(Utterance("user" if is_asked else "model", text))
        index += 1
    return Utterances(listed, index - start)


def paired_calls(
    asked: Event | TalkEvent, answered: Event | TalkEvent, agent: str
) -> tuple[PlainCall, ...] | None:
    """The agent's calls with their results; None where they are not each other's, one by one."""
    calls, results = asked.content, answered.content
    if (
        calls is None
        or results is None
        or asked.author != agent
        or answered.author != agent
        or calls.role != "model"
        or results.role != "user"
    ):
        return None
    call_parts: tuple[Part | TalkPart, ...] = calls.parts or ()
    result_parts: tuple[Part | TalkPart, ...] = results.parts or ()
    if len(call_parts) != len(result_parts):
        return None
    paired: list[PlainCall] = []
    for index, part in enumerate(call_parts):
        call, result = part.function_call, result_parts[index].function_response
        if (
            call is None
            or result is None
            or not (id := call.id)
            or not (name := call.name)
            or result.id != id
            or result.name != name
            # media in a result is lowered in its own way
            or result.parts
            or name in INTERNAL_CALLS
        ):
            return None
        paired.append(PlainCall(id, name, call.args or {}, result.response or {}))
    return tuple(paired)


def claims(
    calls: Sequence[PlainCall], taken: set[str], used: AbstractSet[str] = frozenset()
) -> bool:
    """Take the ids of calls; False where one of them is another call's already, or is `used`."""
    if len(calls) == 1:  # as nearly always
        id = calls[0].id
        if id in taken or id in used:
            return False
        taken.add(id)
        return True
    ids = {call.id for call in calls}
    if len(ids) < len(calls) or not ids.isdisjoint(taken) or not ids.isdisjoint(used):
        return False
    taken |= ids
    return True
