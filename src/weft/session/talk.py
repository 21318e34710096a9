"""Plain talk: what was said in a stretch of a log, as far as a request needs it.

Most events of a long log are a text, calls right before their results, or nothing but a mark of the
runtime. They are read in short, a few fields instead of forty. `utterances` is the one place that
recognises them, in events and in stored rows, whoever is asked next. What is made of them is the
same for every provider and every agent, so a store may keep it next to the events.
"""

from bisect import bisect_left, bisect_right
from collections.abc import Callable, Mapping, Sequence
from collections.abc import Set as AbstractSet
from typing import Literal, NamedTuple
from zlib import compress, decompress, error

import msgspec

from weft.content import FunctionCall, FunctionResponse, Part, Value
from weft.session.event import EMPTY_ACTIONS, NO_ACTIONS, Event, read_event
from weft.session.flow import (
    NO_FLOW,
    TRUSTED,
    FlowNote,
    TrustLabel,
    base_of,
    describe_results,
    flow_of,
)
from weft.session.lookback import RESERVED
from weft.values import JsonObject, has_lone_surrogate, spells

INTERNAL_CALLS = frozenset(
    ("adk_framework", "adk_request_credential", "adk_request_confirmation", "adk_request_input")
)
"""Calls a framework makes to itself or to its client; no model ever made or reads them."""

PAUSED = "CONTINUATION"
"""The finish reason of a reply that the provider broke off and will continue when sent back."""

MOST_LETTERS = 50_000
"""A result with at most this many letters is sent as it is under every policy."""


class PlainCall(msgspec.Struct, array_like=True, frozen=True, gc=False):
    """A call, and what it returned."""

    id: str
    name: str
    args: JsonObject
    response: JsonObject
    returned: TrustLabel = TRUSTED
    """The label of what it returned."""

    @property
    def has_own_id(self) -> bool:
        """Whether the provider may know the id: the runtime and google-adk make up others."""
        return not self.id.startswith("adk-")


class Utterance(msgspec.Struct, array_like=True, frozen=True, gc=False):
    """One text, or calls and their results; or neither, where an event says nothing."""

    author: str
    text: str = ""
    calls: tuple[PlainCall, ...] = ()
    asks: bool = False
    """Whether the text stands on the user's side."""
    data: bool = False
    """Whether the text is data for other agents."""
    wrote: tuple[str, ...] = ()
    """The state keys under which an agent stored the text."""
    rewinds: bool = False
    """Whether it takes back what was said before."""
    label: TrustLabel = TRUSTED
    """Whose text had influence on the text, or on the calls."""

    @property
    def length(self) -> int:
        """How many events it comes from."""
        return 2 if self.calls else 1


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

    `starts` are the positions at which a stretch may begin.
    """

    def __init__(self, starts: Sequence[int], fetch: FetchTalk) -> None:
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


def pack_talk(stretch: Utterances) -> bytes:
    """What was said, packed."""
    return compress(msgspec.msgpack.encode((_FORM, stretch.events, stretch.listed)))


def unpack_talk(data: bytes) -> Utterances | None:
    """What was packed; None where it is damaged, or of another version of Weft."""
    try:
        form, events, listed = _packed.decode(decompress(data))  # which has a checksum of its own
    except (error, msgspec.DecodeError):
        return None
    return Utterances(listed, events) if form == _FORM else None


_FORM = 3
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


class TalkActions(Value, frozen=True):
    """What plain talk does apart from being said: it writes state, or marks where a flow is."""

    state_delta: JsonObject = {}
    transfer_to_agent: str | None = None
    end_of_agent: bool | None = None
    agent_state: msgspec.Raw = msgspec.Raw()
    rewind_before_invocation_id: str | None = None


_NO_ACTIONS = TalkActions()


class _TalkNotes(Value, frozen=True):
    flow: FlowNote


class _TalkMetadata(Value, frozen=True):
    """Metadata that has nothing but a label."""

    weft: _TalkNotes


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
    audience: Literal["user", "internal"] | None = None
    actions: TalkActions = _NO_ACTIONS
    model_version: str | None = None
    node_info: msgspec.Raw = msgspec.Raw()
    custom_metadata: _TalkMetadata | None = None


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


def utterances(events: Sequence[Event | TalkEvent]) -> Utterances:
    """What is said in events, up to the first that is more than plain talk.

    Plain talk is one text, or calls of an agent right before their results, or nothing at all. A
    pass may still have to look at it: at two calls with one id, at a text that was also written to
    state, at an agent that speaks before the user.
    """
    listed: list[Utterance] = []
    index, length = 0, len(events)
    while index < length:
        event = events[index]
        content, author = event.content, event.author
        in_short = type(event) is TalkEvent
        if not author or event.finish_reason == PAUSED or not (in_short or _is_only_said(event)):
            break
        rewinds = event.actions.rewind_before_invocation_id
        if content is None or not (parts := content.parts):
            listed.append(Utterance(author, rewinds=bool(rewinds)))
            index += 1
            continue
        if rewinds:
            break
        first = parts[0]
        if first.function_call is not None:
            # its results, if they are the next event, and nothing besides
            calls = _pair_calls(event, events[index + 1]) if index + 1 < length else None
            if calls is None:
                break
            label = base_of(event) if isinstance(event, Event) else _flow_of(event).base
            listed.append(Utterance(author, "", calls, label=label))
            index += 2
            continue
        text = first.text
        if not text or len(parts) > 1 or first.function_response is not None:
            break
        if not in_short and not _is_only_text(first, text):
            break
        note = NO_FLOW if event.custom_metadata is None else _flow_of(event)
        if note.own_words is not None:
            break  # an agent that hides texts is shown its own words
        asks = author == "user" or content.role == "user"
        is_data = event.audience == "internal" and author != "user"
        delta, wrote = event.actions.state_delta, tuple[str, ...]()
        if delta and author != "user":
            wrote = tuple([key for key, value in delta.items() if spells(text, value)])
        label = TRUSTED if note is NO_FLOW else note.base
        listed.append(Utterance(author, text, (), asks, is_data, wrote, label=label))
        index += 1
    return Utterances(listed, index)


def _flow_of(event: Event | TalkEvent) -> FlowNote:
    if isinstance(event, Event):
        return flow_of(event)
    return event.custom_metadata.weft.flow if event.custom_metadata is not None else NO_FLOW


def _is_only_said(event: Event | TalkEvent) -> bool:
    """Whether a whole event does nothing that plain talk does not, and is for everybody."""
    if not isinstance(event, Event):
        return True
    if event.custom_metadata and event.is_noted:
        notes = event.provenance
        if notes.untrusted is not None or notes.writes:
            return False
    actions = event.actions
    return not (
        event.partial
        or event.branch
        or event.isolation_scope
        or event.input_transcription
        or event.output_transcription
        or (
            actions is not NO_ACTIONS
            and actions is not EMPTY_ACTIONS
            and actions.compaction is not None
        )
        or not (event.author.isascii() or not has_lone_surrogate(event.author))
    )


def _is_only_text(part: Part | TalkPart, text: str) -> bool:
    """Whether a part with text is nothing else, and can be sent as it is."""
    if not isinstance(part, Part):
        return True
    return not (
        part.thought
        or part.thought_signature
        or part.part_metadata
        or part.tool_call
        or part.tool_response
        or (not text.isascii() and has_lone_surrogate(text))
    )


def _pair_calls(
    asked: Event | TalkEvent, answered: Event | TalkEvent
) -> tuple[PlainCall, ...] | None:
    """An agent's calls with their results; None where they are not each other's, one by one."""
    calls, results = asked.content, answered.content
    if (
        calls is None
        or results is None
        or asked.author == "user"
        or answered.author != asked.author
        or calls.role != "model"
        or results.role != "user"
    ):
        return None
    call_parts: tuple[Part | TalkPart, ...] = calls.parts or ()
    result_parts: tuple[Part | TalkPart, ...] = results.parts or ()
    if len(call_parts) != len(result_parts):
        return None
    paired: list[PlainCall] = []
    note = _flow_of(answered)
    if note.results is None:  # it came without a label: nobody vouches for it
        results_in_event = [
            part.function_response for part in result_parts if part.function_response
        ]
        note = msgspec.structs.replace(note, results=describe_results(results_in_event))
    for index, part in enumerate(call_parts):
        call, answer = part.function_call, result_parts[index]
        result = answer.function_response
        if (
            call is None
            or result is None
            or part.text
            or answer.text
            or not (id := call.id)
            or not (name := call.name)
            or result.id != id
            or result.name != name
            # media in a result is lowered in its own way
            or result.parts
            or name.startswith(RESERVED)
        ):
            return None
        response, returned = result.response or {}, note.of_result(name)
        paired.append(PlainCall(id, name, call.args or {}, response, returned))
    # two calls with one id must be told apart by a pass, as providers refuse such a request
    if len(paired) > 1 and len({call.id for call in paired}) < len(paired):
        return None
    in_short = type(asked) is TalkEvent and type(answered) is TalkEvent
    return (*paired,) if in_short or _is_plain_pair(asked, answered, paired) else None


def _is_plain_pair(
    asked: Event | TalkEvent, answered: Event | TalkEvent, calls: Sequence[PlainCall]
) -> bool:
    """Whether calls, of which plain talk may be made, and their results are nothing else.

    They can be sent then, and no result is large.
    """
    if answered.finish_reason == PAUSED or not _is_only_said(answered):
        return False
    if not (_has_only_pairs(asked) and _has_only_pairs(answered)):
        return False
    try:
        # a result has no more letters than all of it has bytes
        return len(msgspec.json.encode(calls)) <= MOST_LETTERS
    except (UnicodeEncodeError, OverflowError, TypeError):
        # lone surrogates and values that are not JSON are mended on the long way
        return False


def _has_only_pairs(event: Event | TalkEvent) -> bool:
    """Whether an event with calls or results has nothing that somebody keeps with them."""
    if not isinstance(event, Event):
        return True
    # notes of Weft may change how the event is shown: passes read them
    if event.long_running_tool_ids or (event.custom_metadata and event.is_noted):
        return False
    content = event.content
    for part in (content.parts if content is not None else None) or ():
        if part.part_metadata is not None or (part.thought_signature and part.function_call):
            return False
    return True


def call_ids(event: Event | TalkEvent) -> list[str]:
    """The ids of the calls in an event."""
    parts: Sequence[Part | TalkPart] = (event.content.parts if event.content else None) or ()
    return [call.id or "" for part in parts if (call := part.function_call) is not None]


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
    if not ids.isdisjoint(taken) or not ids.isdisjoint(used):
        return False
    taken |= ids
    return True
